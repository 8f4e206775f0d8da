"""Compares our renders with Python's jinja2 on many generated conversations. Run by hand.

    templates_many.py RENDER_JOBS [COUNT [FOLDER ...]]

RENDER_JOBS is the built helper tests/jinja/render_jobs. COUNT renders (default 1200) are made for
each template of tests/data/templates and of the given folders. Every difference is printed, and
where ours fails and jinja2 does not, our message.
"""

import collections
import json
import pathlib
import random
import subprocess
import sys
import warnings

import templates_jinja2

TEXTS = [
    "Hello!", "", " ", "  padded \n", "Gr\u00fc\u00dfe \U0001f44b\U0001f3fd \u00e9 \u03a3 end", "it's \"q\" \\ back",
    "one\n\ntwo\r\nthree\n", "<|im_end|>\n<|im_start|>system\nx", "<think>\nhm\n</think>\n\nyes", "</think>",
    "[INST] <s> </s> [/INST]", "{{ x }} {% y %}", "123", "-1.50", "<tool_call>\n{\"a\": 1}\n</tool_call>",
    "\u2028\u00a0x\u3000", "null", "<|eot_id|>", "a<|end|>b", "/think /no_think", "\u0130\ufb01", "<end_of_turn>", "&<>'\"",
]
SCHEMAS = [
    {"type": "object", "properties": {}},
    {"type": "object", "properties": {"city": {"type": "string", "description": "A \"city\"\nname"},
                                      "unit": {"type": "string", "enum": ["c", "f"]}}, "required": ["city"]},
    {"type": "object", "properties": {"n": {"type": "integer", "default": 3}, "x": {"type": ["number", "null"]},
                                      "l": {"type": "array", "items": {"type": "string"}},
                                      "o": {"type": "object", "properties": {"k": {"type": "boolean"}}}}},
]
ARGUMENTS = [{}, {"city": "K\u00f6ln", "unit": "c"}, {"n": 1, "x": 2.5, "b": True, "z": None, "l": ["a", {"k": "<|end|>"}]},
             '{"city": "Rome"}']


def tool(rng, name):
    function = {"name": name, "description": rng.choice(TEXTS), "parameters": rng.choice(SCHEMAS)}
    return rng.choice([{"type": "function", "function": function}] * 3 + [function])


def call(rng):
    function = {"name": rng.choice(["f", "get_weather"]), "arguments": rng.choice(ARGUMENTS)}
    return rng.choice([{"type": "function", "id": "call12345", "function": function}] * 3
                      + [{"id": "c", "function": function}, function])


def content(rng):
    text = rng.choice(TEXTS)
    kind = rng.random()
    if kind < 0.85:
        return text
    if kind < 0.95:
        return [{"type": "text", "text": text}, {"type": "text", "text": rng.choice(TEXTS)}]
    return rng.choice([None, [], [{"type": "image"}, {"type": "text", "text": text}], [text], {"a": text}, 5])


def message(rng, role):
    made = {"role": role, "content": content(rng)}
    if role == "assistant":
        if rng.random() < 0.3:
            made["tool_calls"] = [call(rng) for _ in range(rng.choice([0, 1, 1, 2]))]
            made["content"] = rng.choice([None, "", made["content"]])
        if rng.random() < 0.2:
            made[rng.choice(["reasoning_content", "thinking", "reasoning"])] = rng.choice(TEXTS)
    if role == "tool":
        made.update(rng.choice([{}, {"name": "f"}, {"tool_call_id": "call12345", "name": "f"}]))
    if rng.random() < 0.03:
        del made[rng.choice(list(made))]
    return made


SHAPES = ["u", "su", "uau", "suau", "uaua", "uatau", "suatta", "ua", "s", "uu", "d", "duau", "ususu", "uat", "", "usa", "au"]
ROLES = {"s": "system", "u": "user", "a": "assistant", "t": "tool", "d": "developer"}


def variables(rng):
    made = {"messages": [message(rng, ROLES[role]) for role in rng.choice(SHAPES)]}
    flags = {
        "add_generation_prompt": [True, False],
        "tools": [None, [], [tool(rng, "f")], [tool(rng, name) for name in ("f", "get_weather", "python")]],
        "documents": [None, [{"title": "T", "text": rng.choice(TEXTS)}]],
        "enable_thinking": [True, False], "thinking": [True, False], "reasoning_effort": ["low", "high"],
        "bos_token": ["<s>"], "eos_token": ["</s>"], "date_string": ["26 Jul 2024"], "continue_final_message": [True],
        "builtin_tools": [["browser", "python"]], "custom_tools": [[tool(rng, "g")]], "model_identity": ["I am X."],
        "tools_in_user_message": [True, False],
    }
    often = {"add_generation_prompt": 0.9, "tools": 0.6, "bos_token": 0.9, "eos_token": 0.9}
    for name, values in flags.items():
        if rng.random() < often.get(name, 0.12):
            made[name] = rng.choice(values)
    return made


def main():
    warnings.simplefilter("ignore")
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1200
    folders = [templates_jinja2.DATA] + [pathlib.Path(name) for name in sys.argv[3:]]
    paths = sorted(path for folder in folders for path in folder.glob("*.jinja"))
    rng = random.Random(1)
    jobs = [(path, variables(rng)) for path in paths for _ in range(count)]
    now = 1753885800
    lines = "".join(f"{path}\t{json.dumps(made)}\n" for path, made in jobs)
    ours = subprocess.run([sys.argv[1], str(now)], input=lines, capture_output=True, text=True, check=True)
    env = templates_jinja2.environment(now)
    tally, seen = collections.Counter(), collections.Counter()
    sources = {path: path.read_bytes().decode("utf-8") for path in paths}
    for (path, made), line in zip(jobs, ours.stdout.splitlines(), strict=True):
        got, wanted = json.loads(line), templates_jinja2.result(env, sources[path], made)
        same = got.keys() == wanted.keys() and ("error" in got or got == wanted)
        tally["error" if "error" in wanted else "raised" if "raised" in wanted else "text"] += 1
        if same:
            continue
        tally["different"] += 1
        what = got.get("error", "another text")
        seen[path.name, what] += 1
        if seen[path.name, what] == 1:
            print(f"{path.name}: {what}\n  variables {json.dumps(made)}\n  ours   {line}\n  theirs {json.dumps(wanted)}")
    for (name, what), n in seen.items():
        print(f"{n} x {name}: {what}")
    print(f"{len(jobs)} renders: {dict(tally)}")
    return tally["different"] > 0


if __name__ == "__main__":
    sys.exit(main())
