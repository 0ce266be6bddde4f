# podschema.py FILE [WRONG...]: is it a pod as Kubernetes' own API describes one?
# Every field must exist there and have its type; what the API requires must be
# there. Prints the command line of the container wprof-agent. The other files
# must not pass.
import re
import sys

import yaml
from kubernetes.client import models


def check_model(value, model, at):
    fields = {in_json: field for field, in_json in model.attribute_map.items()}
    assert isinstance(value, dict), f"{at}: no map"
    for key, inner in value.items():
        assert key in fields, f"{at}.{key}: {model.__name__} has no such field"
        check(inner, model.openapi_types[fields[key]], f"{at}.{key}")
    # the constructor refuses when something required is missing
    model(**{fields[key]: inner for key, inner in value.items()})


def check(value, kind, at):
    listed = re.fullmatch(r"list\[(.*)\]", kind)
    mapped = re.fullmatch(r"dict\(str, (.*)\)", kind)
    if listed:
        assert isinstance(value, list) and value, f"{at}: no list, or an empty one"
        for i, inner in enumerate(value):
            check(inner, listed[1], f"{at}[{i}]")
    elif mapped:
        assert isinstance(value, dict), f"{at}: no map"
        for key, inner in value.items():
            check(inner, mapped[1], f"{at}.{key}")
    elif hasattr(models, kind):
        check_model(value, getattr(models, kind), at)
    else:
        assert type(value).__name__ == kind, f"{at}: {value!r} is no {kind}"


def check_promises(pod):
    spec = pod["spec"]
    agent = [c for c in spec["containers"] if c["name"] == "wprof-agent"][0]
    security = agent["securityContext"]
    volumes = {v["name"] for v in spec["volumes"]}
    assert pod["apiVersion"] == "v1" and pod["kind"] == "Pod"
    assert spec["shareProcessNamespace"]
    assert security["capabilities"] == {
        "drop": ["ALL"], "add": ["SYS_PTRACE", "DAC_READ_SEARCH"]}
    assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
    for container in spec["containers"]:
        for mount in container.get("volumeMounts", []):
            assert mount["name"] in volumes, f"{mount['name']}: no such volume"
        for amounts in container.get("resources", {}).values():
            for amount in amounts.values():
                assert re.fullmatch(r"\d+(m|[KMG]i)?", amount), amount
    print(*agent["command"], *agent["args"])


def check_file(path):
    with open(path) as file:
        pod = yaml.safe_load(file)
    check(pod, "V1Pod", "pod")
    check_promises(pod)


check_file(sys.argv[1])
for wrong in sys.argv[2:]:
    try:
        check_file(wrong)
    except (AssertionError, ValueError):
        continue
    sys.exit(f"{wrong} passed")
