"""Decides the cases of the JSON Schema Test Suite by our automata, with decide_jobs. By hand:
    schema_suite.py BUILD/tests/decide_jobs SUITE/tests/draft2020-12
Instances are written with their properties in each order of the outermost object. A case is wrong where an invalid
instance is accepted. A valid instance that is refused is counted: docs/CONSTRAINTS.md says which texts are never made."""
import itertools, json, pathlib, subprocess, sys

def texts(data):
    if isinstance(data, dict) and 1 < len(data) <= 5:
        for order in itertools.permutations(data):
            yield json.dumps({k: data[k] for k in order}, ensure_ascii=False)
    else:
        yield json.dumps(data, ensure_ascii=False)

jobs, lines = [], []
folder = pathlib.Path(sys.argv[2])
for path in sorted(folder.glob("*.json")) + sorted(folder.glob("optional/format/*.json")):
    for group in json.loads(path.read_text()):
        lines.append("S " + json.dumps(group["schema"]))
        jobs.append((path.stem, group, None, None))
        for test in group["tests"]:
            for text in texts(test["data"]):
                try:
                    line = ("T " + text).encode()
                except UnicodeEncodeError:
                    continue
                lines.append(line.decode())
                jobs.append((path.stem, group, test, text))
out = subprocess.run([sys.argv[1]], input="\n".join(lines) + "\n", capture_output=True, text=True).stdout.splitlines()
assert len(out) == len(jobs), (len(out), len(jobs))
table, verdict, refused, error = {}, {}, {}, None
for (stem, group, test, text), line in zip(jobs, out):
    if test is None:
        error = line if line.startswith("ERROR") else None
        row = table.setdefault(stem, dict(groups=0, refused=0, right=0, missed=0, wrong=0))
        row["groups"] += 1
        row["refused"] += error is not None and "allows no text" not in error
        if error and "allows no text" not in error:
            refused[error.split(": ", 1)[-1][:60]] = refused.get(error.split(": ", 1)[-1][:60], 0) + 1
        skip = error is not None and "allows no text" not in error
        continue
    if skip:
        continue
    key = (stem, group["description"], test["description"])
    verdict.setdefault(key, [test["valid"], False, text, group["schema"]])
    verdict[key][1] |= line == "1"
for (stem, group, test), (valid, accepted, text, schema) in verdict.items():
    kind = "right" if valid == accepted else "missed" if valid else "wrong"
    table[stem][kind] += 1
    if kind == "wrong" or (kind == "missed" and "-v" in sys.argv):
        print(f"{kind}: {stem}: {group}: {test}: {json.dumps(schema)[:300]}  {text[:100]}")
for stem, row in table.items():
    print(f"{stem:28}", *(f"{k} {v:4}" for k, v in row.items()))
print({k: sum(r[k] for r in table.values()) for k in ("groups", "refused", "right", "missed", "wrong")})
print(refused)
