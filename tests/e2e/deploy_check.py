#!/usr/bin/env python3
# Checks the files of deploy/ without a cluster: manifests against tables of the published structures,
# rules and dashboard against the series of a real scrape, options against the program's own list.
#   deploy_check.py ROOT SCRAPE HELP
import json
import re
import sys

import yaml

root, scrape_file, help_file = sys.argv[1:4]
failures = []


def check(ok, what):
    if not ok:
        failures.append(what)


# ---------------------------------------------------------------- manifests
# A table is a type, a list of one table, or a dict: key -> table; "key!" is required, "*" any key.
# As in apps/v1, core/v1, inference.networking.k8s.io/v1 and monitoring.coreos.com/v1.
NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
labels = {"*": str}
metadata = {"name!": str, "namespace": str, "labels": labels, "annotations": labels}
http_get = {"path": str, "port!": (int, str), "scheme": str}
probe = {"httpGet!": http_get, "periodSeconds": int, "failureThreshold": int, "timeoutSeconds": int,
         "initialDelaySeconds": int, "successThreshold": int}
quantities = {"cpu": str, "memory": str}
container = {
    "name!": str, "image!": str, "args": [str], "command": [str],
    "env": [{"name!": str, "value": str, "valueFrom": {"fieldRef": {"fieldPath!": str}}}],
    "ports": [{"name": str, "containerPort!": int, "protocol": str}],
    "startupProbe!": probe, "readinessProbe!": probe, "livenessProbe!": probe,
    "lifecycle": {"preStop": {"exec": {"command!": [str]}}},
    "resources": {"requests": quantities, "limits": quantities},
    "securityContext": {"allowPrivilegeEscalation": bool, "readOnlyRootFilesystem": bool,
                        "runAsNonRoot": bool, "capabilities": {"drop": [str], "add": [str]}},
    "volumeMounts": [{"name!": str, "mountPath!": str, "readOnly": bool}],
}
volume = {"name!": str, "secret": {"secretName!": str},
          "persistentVolumeClaim": {"claimName!": str, "readOnly": bool}}
pod = {"terminationGracePeriodSeconds": int, "containers!": [container], "volumes": [volume]}
selector = {"matchLabels!": labels}
kinds = {
    ("apps/v1", "Deployment"): {
        "replicas": int, "selector!": selector,
        "strategy": {"type": str, "rollingUpdate": {"maxUnavailable": int, "maxSurge": int}},
        "template!": {"metadata!": {"labels!": labels}, "spec!": pod}},
    ("v1", "Service"): {
        "clusterIP": str, "selector!": labels,
        "ports!": [{"name": str, "port!": int, "targetPort": (int, str), "protocol": str}]},
    ("inference.networking.k8s.io/v1", "InferencePool"): {
        "appProtocol": str, "selector!": selector, "targetPorts!": [{"number!": int}],
        "endpointPickerRef": {"group": str, "kind": str, "name!": str, "port": {"number!": int},
                              "failureMode": str}},
    ("monitoring.coreos.com/v1", "PodMonitor"): {
        "selector!": selector,
        "podMetricsEndpoints!": [{"port": str, "path": str, "interval": str,
                                  "authorization": {"type": str,
                                                    "credentials": {"name!": str, "key!": str}}}]},
}


def fits(value, table, path):
    if isinstance(table, dict):
        if not isinstance(value, dict):
            return check(False, f"{path}: expected a map, got {value!r}")
        known = {key.rstrip("!"): of for key, of in table.items()}
        for key in table:
            check(not key.endswith("!") or key[:-1] in value, f"{path}: {key[:-1]} is missing")
        for key, inner in value.items():
            if key not in known and "*" not in known:
                check(False, f"{path}: {key} is not known")
                continue
            fits(inner, known.get(key, known.get("*")), f"{path}.{key}")
    elif isinstance(table, list):
        check(isinstance(value, list) and value, f"{path}: expected a list, got {value!r}")
        for i, inner in enumerate(value if isinstance(value, list) else []):
            fits(inner, table[0], f"{path}[{i}]")
    else:
        is_bool = isinstance(value, bool)
        ok = isinstance(value, table) and (table is bool or not is_bool)
        check(ok, f"{path}: {value!r} has the wrong type")


def manifests():
    with open(f"{root}/deploy/kubernetes/runnel.yaml") as file:
        documents = list(yaml.safe_load_all(file))
    by_kind = {}
    for document in documents:
        key = (document.get("apiVersion"), document.get("kind"))
        check(key in kinds, f"{key} is no kind that is known")
        if key not in kinds:
            continue
        path = document["kind"]
        fits({k: v for k, v in document.items() if k not in ("apiVersion", "kind")},
             {"metadata!": metadata, "spec!": kinds[key]}, path)
        check(NAME.match(document["metadata"]["name"]), f"{path}: its name")
        by_kind[path] = document["spec"]
    check(len(by_kind) == len(kinds), f"{sorted(by_kind)} are not all kinds")
    if not failures:
        relations(by_kind)


# The parts refer to each other.
def relations(spec):
    template = spec["Deployment"]["template"]
    pod_labels = template["metadata"]["labels"]
    one = template["spec"]["containers"][0]
    ports = {p["name"]: p["containerPort"] for p in one["ports"]}
    for kind, of in (("Deployment", spec["Deployment"]["selector"]["matchLabels"]),
                     ("Service", spec["Service"]["selector"]),
                     ("InferencePool", spec["InferencePool"]["selector"]["matchLabels"]),
                     ("PodMonitor", spec["PodMonitor"]["selector"]["matchLabels"])):
        check(of.items() <= pod_labels.items(), f"{kind}: its selector finds no pod")
    for p in spec["InferencePool"]["targetPorts"]:
        check(p["number"] in ports.values(), f"InferencePool: no container has port {p['number']}")
    picker = spec["InferencePool"]["endpointPickerRef"]
    check(picker.get("kind", "Service") != "Service" or "port" in picker, "InferencePool: no port")
    for p in spec["PodMonitor"]["podMetricsEndpoints"]:
        check(p["port"] in ports, f"PodMonitor: no port {p['port']}")
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        check(one[name]["httpGet"]["port"] in ports, f"{name}: no such port")
    volumes = {v["name"] for v in template["spec"]["volumes"]}
    for mount in one["volumeMounts"]:
        check(mount["name"] in volumes, f"no volume {mount['name']}")
    options(one, ports)


# The arguments are options of the program, and name the ports that the container has.
def options(one, ports):
    with open(help_file) as file:
        known = set(re.findall(r"--[a-z][a-z0-9-]*", file.read()))
    given = {}
    check(one["args"][0] == "serve", "the first argument is the command")
    for argument in one["args"][1:]:
        flag, _, value = argument.partition("=")
        check(flag in known, f"{flag} is no option of runnel serve")
        given.setdefault(flag, []).append(value)
    check(int(given["--port"][0]) == ports["http"], "--port")
    check(given["--kv-events-endpoint"][0].endswith(f":{ports['kv-events']}"), "kv-events")
    check(given["--kv-events-replay-endpoint"][0].endswith(f":{ports['kv-replay']}"), "kv-replay")
    topic = given["--kv-events-topic"][0].split("@")
    check(topic[0] == "kv" and len(topic) == 3 and topic[2] == given["--alias"][0], "the topic")


# ---------------------------------------------------------------- series

FUNCTIONS = {"histogram_quantile", "sum", "by", "rate", "increase", "min_over_time", "and", "or",
             "on", "label_values"}
scraped = {}  # name -> labels


def scrape_read():
    with open(scrape_file) as file:
        for line in file:
            match = re.match(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ", line)
            if match:
                names = set(re.findall(r'(\w+)="', match.group(2) or ""))
                scraped.setdefault(match.group(1), set()).update(names)


# Names of series in an expression, each of which must be there with its labels.
def expression(text, where, recorded=()):
    for opening, closing in ("()", "{}", "[]"):
        check(text.count(opening) == text.count(closing), f"{where}: {opening} {closing}: {text}")
    bare = re.sub(r'"(\\.|[^"\\])*"', '""', text)
    selectors = re.findall(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}", bare)
    names = set(re.findall(r"[a-zA-Z_:][\w:]*", re.sub(r"\{[^}]*\}|\[[^]]*\]|by \([^)]*\)", " ", bare)))
    names = {n for n in names if n not in FUNCTIONS and not re.fullmatch(r"[\d.]+", n)}
    if "label_values" in bare:
        names -= {"model_name", "instance"}
    check(names, f"{where}: no series in {text}")
    for name in names:
        check(name in scraped or name in recorded or name == "up", f"{where}: there is no {name}")
    for name, labels_used in selectors:
        for label in re.findall(r"(\w+)\s*[=!]", labels_used):
            check(name == "up" or label in ("instance", "job") or label in scraped.get(name, ()),
                  f"{where}: {name} has no label {label}")


def rules():
    with open(f"{root}/deploy/prometheus/rules.yaml") as file:
        document = yaml.safe_load(file)
    recorded = set()
    for group in document["groups"]:
        check({"name", "rules"} <= set(group) <= {"name", "rules", "interval"}, "the group's members")
        for rule in group["rules"]:
            name = rule.get("record") or rule.get("alert")
            allowed = {"record", "expr", "labels"} if "record" in rule else \
                {"alert", "expr", "for", "labels", "annotations"}
            check(name and set(rule) <= allowed, f"{name}: {set(rule) - allowed}")
            check(re.fullmatch(r"\d+[smh]", rule.get("for", "0m")), f"{name}: for")
            expression(rule["expr"], name, recorded)
            if "record" in rule:
                recorded.add(name)
            else:
                check("summary" in rule["annotations"], f"{name}: no summary")


def dashboard():
    with open(f"{root}/deploy/grafana/runnel.json") as file:
        document = json.load(file)
    ids, taken = set(), set()
    for panel in document["panels"]:
        where = panel["title"]
        check(panel["id"] not in ids, f"{where}: its id is another's")
        ids.add(panel["id"])
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"])
                 for y in range(at["y"], at["y"] + at["h"])}
        check(not cells & taken and at["x"] + at["w"] <= 24, f"{where}: its place is another's")
        taken |= cells
        for target in panel["targets"]:
            expression(target["expr"], where)
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                check(label == "instance" or label in target["expr"], f"{where}: {label}")
    for variable in document["templating"]["list"]:
        if variable["type"] == "query":
            expression(variable["query"], variable["name"])
    check(len(ids) >= 8, "few panels")


# ---------------------------------------------------------------- the unit

# The template has the sandbox of the packaged unit.
def unit():
    with open(f"{root}/deploy/systemd/runnel@.service") as file:
        template = [line.strip() for line in file if "=" in line and not line.startswith("#")]
    with open(f"{root}/packaging/runnel.service.in") as file:
        packaged = [line.strip() for line in file if "=" in line and not line.startswith("#")]
    own = ("Description=", "ExecStart=")
    for line in packaged:
        check(line in template or line.startswith(own), f"the template lacks {line}")
    for word in ("--cpunodebind=%i", "--membind=%i", "replica-%i.conf"):
        check(any(line.startswith("ExecStart=") and word in line for line in template), f"no {word}")


scrape_read()
for part in (manifests, rules, dashboard, unit):
    part()
for failure in failures:
    print(f"FAILED: {failure}")
print(f"{len(scraped)} series, {len(failures)} failures")
sys.exit(1 if failures else 0)
