"""Renders the templates of tests/data/templates with Python's jinja2, set up as transformers does.

    templates_jinja2.py OUT     writes OUT/<family>.json and OUT/snippets.json

To renew the committed results: OUT = tests/data/templates/expected. A result is {"text": ...},
{"raised": message} where the template calls raise_exception, or {"error": true}.
"""

import copy
import datetime
import functools
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "templates"


class Generation(jinja2.ext.Extension):
    """{% generation %}: transformers marks the assistant's text with it; here it is plain."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_generation_support")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _generation_support(self, caller):
        return caller()


def environment(now):
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    def strftime_now(form):
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=now)
        return moment.strftime(form)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


@functools.lru_cache(maxsize=1)
def compiled(env, source):
    return env.from_string(source)


def result(env, source, variables):
    try:
        # A copy, since the filter indent of jinja2 changes a list that it is given.
        return {"text": compiled(env, source).render(**copy.deepcopy(variables))}
    except Exception as error:  # whatever goes wrong, ours must fail too
        is_raised = type(error) is jinja2.exceptions.TemplateError
        return {"raised": str(error)} if is_raised else {"error": True}


def write(path, results):
    path.write_text(json.dumps(results, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    cases = json.loads((DATA / "conversations.json").read_text(encoding="utf-8"))
    env = environment(cases["now"])
    for path in sorted(DATA.glob("*.jinja")):
        source = path.read_bytes().decode("utf-8")
        results = {}
        for case in cases["conversations"]:
            few = cases["few"]  # families that render these alone
            if path.stem in few["families"] and case["name"] not in few["conversations"]:
                continue
            variables = {**cases["variables"].get(path.stem, {}), **case["variables"]}
            results[case["name"]] = result(env, source, variables)
        write(out / f"{path.stem}.json", results)
    variables = json.loads((DATA / "variables.json").read_text(encoding="utf-8"))
    snippets = json.loads((DATA / "snippets.json").read_text(encoding="utf-8"))
    results = {
        name: [{"source": source, **result(env, source, variables)} for source in sources]
        for name, sources in snippets.items()
    }
    write(out / "snippets.json", results)


if __name__ == "__main__":
    main()
