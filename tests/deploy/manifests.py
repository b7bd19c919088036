"""Kubernetes objects as they would be applied: what the API would say of each, and whether they fit together."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import jsonschema
import kubernetes_validate
import yaml

from exporter.config import Settings

Object = dict[str, Any]

VERSIONS: Final = ("1.32", "1.35", "1.37")
"""Of Kubernetes: the oldest and the newest that the validator knows, and one between."""
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # dashboards are long
CRDS: Final = Path(__file__).parents[1] / "data" / "crds"


def objects(text: str) -> list[Object]:
    """The objects of some documents."""
    return [each for each in yaml.load_all(text, _LOADER) if each]


def name(one: Object) -> str:
    """Kind and name, for messages and for finding."""
    return f"{one['kind']}/{one['metadata']['name']}"


def validate(one: Object, version: str) -> None:
    """Raises what is wrong with an object; a kind that nobody has a schema of is wrong, too."""
    schema = custom(f"{one['apiVersion']}/{one['kind']}")
    if schema is None:
        kubernetes_validate.validate(one, version, strict=True)
    else:
        jsonschema.validate(one, schema)


@cache
def custom(kind: str) -> Object | None:
    """The schema of a kind that an operator brings, from its CustomResourceDefinition; unknown keys are refused."""
    for path in CRDS.glob("*.yaml"):
        crd = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]
        for version in crd["versions"]:
            if kind == f"{crd['group']}/{version['name']}/{crd['names']['kind']}":
                schema: Object = version["schema"]["openAPIV3Schema"]
                schema["properties"]["metadata"] = {"type": "object"}
                _close(schema)
                return schema
    return None


def _close(schema: Any) -> None:
    if isinstance(schema, dict):
        if "(?i)" in str(schema.get("pattern", "")):  # Go allows it in the middle, Python in front only
            schema["pattern"] = "(?i)" + schema["pattern"].replace("(?i)", "")
        if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault("additionalProperties", False)
        for each in schema.values():
            _close(each)
    elif isinstance(schema, list):
        for each in schema:
            _close(each)


def templates(found: list[Object]) -> Iterator[tuple[str, Object]]:
    """The pod templates, and pods, each with the name of what it is in."""
    for one in found:
        if one["kind"] == "Pod":
            yield name(one), one
        elif "template" in one.get("spec", {}):
            yield name(one), one["spec"]["template"]


def containers(pod: Object) -> list[Object]:
    """All containers of a pod, in the order in which they start."""
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def port_numbers(container: Object) -> dict[str, int]:
    """The ports of a container, by name."""
    return {port["name"]: port["containerPort"] for port in container.get("ports", [])}


def listens(settings: Settings) -> dict[str, int]:
    """The ports on which others reach an exporter, by the names that the manifests have for them."""
    places = {"otlp-grpc": settings.receive.grpc, "otlp-http": settings.receive.http, "goodput": settings.web.listen}
    return {name: place.port for name, place in places.items() if place.host != "127.0.0.1"}


def port_names(pod: Object) -> set[str]:
    """The names of its ports."""
    return {port["name"] for each in containers(pod) for port in each.get("ports", [])}


def selects(selector: Object, labels: Object) -> bool:
    """Whether a map of labels is among others. A selector of everything is no selector here."""
    return bool(selector) and selector.items() <= labels.items()


def loose_ends(found: list[Object]) -> list[str]:
    """What refers to something that is not there: names of ConfigMaps, labels, ports."""
    pods = [pod for _, pod in templates(found)]
    names = {name(one) for one in found}
    ends = [
        f"{where}: no ConfigMap/{volume['configMap']['name']}"
        for where, pod in templates(found)
        for volume in pod["spec"].get("volumes", [])
        if "configMap" in volume and f"ConfigMap/{volume['configMap']['name']}" not in names
    ]
    ends += [
        f"{where}: {each['name']} mounts what is no volume"
        for where, pod in templates(found)
        for each in containers(pod)
        for mount in each.get("volumeMounts", [])
        if mount["name"] not in {volume["name"] for volume in pod["spec"].get("volumes", [])}
    ]
    for one in found:
        check = _REFERENCES.get(one["kind"])
        if check is not None:
            ends += [f"{name(one)}: {end}" for end in check(one["spec"], pods, found)]
    return ends


def _service(spec: Object, pods: list[Object], found: list[Object]) -> Iterator[str]:
    yield from _ports(spec["selector"], [port["targetPort"] for port in spec["ports"]], pods)


def _pod_monitor(spec: Object, pods: list[Object], found: list[Object]) -> Iterator[str]:
    yield from _ports(spec["selector"]["matchLabels"], [each["port"] for each in spec["podMetricsEndpoints"]], pods)


def _service_monitor(spec: Object, pods: list[Object], found: list[Object]) -> Iterator[str]:
    services = [one for one in found if one["kind"] == "Service"]
    wanted = [one for one in services if selects(spec["selector"]["matchLabels"], one["metadata"]["labels"])]
    ports = {port["name"] for one in wanted for port in one["spec"]["ports"]}
    yield from (f"no Service has port {each['port']}" for each in spec["endpoints"] if each["port"] not in ports)


def _network_policy(spec: Object, pods: list[Object], found: list[Object]) -> Iterator[str]:
    ports = [port["port"] for rule in spec["ingress"] for port in rule["ports"]]
    yield from _ports(spec["podSelector"]["matchLabels"], ports, pods)


def _budget(spec: Object, pods: list[Object], found: list[Object]) -> Iterator[str]:
    yield from _ports(spec["selector"]["matchLabels"], [], pods)


def _ports(selector: Object, ports: list[str], pods: list[Object]) -> Iterator[str]:
    wanted = [pod for pod in pods if selects(selector, pod["metadata"]["labels"])]
    if not wanted:
        yield f"selects no pod: {selector}"
    for pod in wanted:
        yield from (f"selects a pod without port {port}" for port in ports if port not in port_names(pod))


_REFERENCES: Final[dict[str, Callable[[Object, list[Object], list[Object]], Iterator[str]]]] = {
    "Service": _service,
    "PodMonitor": _pod_monitor,
    "ServiceMonitor": _service_monitor,
    "NetworkPolicy": _network_policy,
    "PodDisruptionBudget": _budget,
}


def unrestricted(pod: Object) -> list[str]:
    """What Pod Security's level `restricted` forbids."""
    around = pod["spec"].get("securityContext", {})
    faults = []
    for each in containers(pod):
        own = each.get("securityContext", {})
        both = {**around, **own}
        faults += [
            f"{each['name']}: {fault}"
            for fault, is_so in (
                ("may be root", both.get("runAsNonRoot") is not True or not both.get("runAsUser")),
                ("may escalate", own.get("allowPrivilegeEscalation") is not False),
                ("has capabilities", own.get("capabilities") != {"drop": ["ALL"]}),
                ("has no seccomp profile", both.get("seccompProfile") != {"type": "RuntimeDefault"}),
            )
            if is_so
        ]
    return faults
