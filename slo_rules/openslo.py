"""OpenSLO v1 in and out.

OpenSLO says what is promised (an objective, a target, a time window) and where numbers come from (a metric source). It
knows one condition for each SLO and neither schedules nor policies. So an SLO of ours travels like this:

- Objectives with one limit: a `thresholdMetric` whose source is of the type `goodput`. Its `spec` names metric,
  boundary, selector and, where the SLO has a goodput target, percentile and window; `op: lte` and `value` (seconds)
  are the threshold, `target` the goodput target over the time window. Without a goodput target, `target` is the
  percentile and the time window its window: `op: lte, value: 1, target: 0.99` is p99 <= 1s.
- Joint conditions: a `ratioMetric` of our exported counters, which any tool with a Prometheus can read. The conditions
  are an extension, JSON in the annotation `goodput/spec`.
- What OpenSLO has no word for (schedule, policies, workload, expected traffic) stands in the same annotation.

Nothing stands twice: what OpenSLO can say is not in the annotation, and what somebody edits there is what is imported.
Import translates to a document of our own kind on nodes, so it is read and checked as any SLO, and messages point into
the OpenSLO file. References are resolved among the files that are read together. What cannot be carried, either way,
is named with its reason; foreign metric sources first of all, since requests are judged here by their own times, not
by queries.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from fractions import Fraction
from typing import Any, Final, NamedTuple

from slo_rules.burn import BurnWindow
from slo_rules.document import Node, Plain
from slo_rules.families import FAMILY
from slo_rules.slo import API_VERSION as OUR_VERSION
from slo_rules.slo import MAX_WINDOW_NS, SLO, Calendar, CalendarUnit, Objective, read_slos
from slo_rules.units import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS, format_decimal, format_duration
from slo_rules.write import Exact, spec_of

API_VERSION: Final = "openslo/v1"
OTHER_VERSIONS: Final = ("openslo/v1alpha", "openslo.com/v1alpha", "openslo/v2alpha", "openslo.com/v2alpha")
"""Known, and not read: v1alpha was replaced by v1, v2alpha is not settled."""
SOURCE: Final = "goodput"
"""The type of a metric source that is a metric of ours."""
ANNOTATION: Final = "goodput/spec"
MAX_DESCRIPTION: Final = 1050
REFERENCES: Final[Mapping[str, str]] = {
    "indicatorRef": "SLI", "alertPolicyRef": "AlertPolicy", "conditionRef": "AlertCondition",
    "targetRef": "AlertNotificationTarget",
}  # fmt: skip
"""Keys that stand for an object by its name, with its kind."""
EPOCH: Final = date(2024, 1, 1)
"""A Monday on which a week, a month and a quarter began: where calendar windows are said to start."""

_DURATION: Final = re.compile(r"([1-9][0-9]{0,5})([mhdwMQY])")
_UNITS: Final = {"m": MINUTE_NS, "h": HOUR_NS, "d": DAY_NS, "w": 7 * DAY_NS}
_CALENDAR: Final[Mapping[CalendarUnit, str]] = {"week": "1w", "month": "1M", "quarter": "1Q"}
_OBJECTIVE: Final = re.compile(r"[a-z0-9_]{1,63}")
_OBJECTIVE_NAME: Final = "the name of an objective has lower-case letters, digits and _ here"
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class LeftOut(NamedTuple):
    """What could not be carried over."""

    what: str
    """Such as "SLO chat", or "schedule of SLO chat"."""
    reason: str
    place: str = ""
    """FILE:LINE:COLUMN where it stands; empty for what comes from an SLO of ours."""

    def __str__(self) -> str:
        return f"{self.place}: {self.what}: {self.reason}" if self.place else f"{self.what}: {self.reason}"


# Reading

Check = Callable[[Node], object]
Shape = Mapping[str, Any]
"""Keys with a Check, a Shape, or a list of one of them; a key that ends in ! must be given."""


def _text(node: Node) -> None:
    node.text(loose=True)


def _anything(node: Node) -> None:
    """Free by the specification."""


def _duration(node: Node) -> None:
    node.text(pattern=_DURATION.pattern, rule="must be a duration such as 5m, 1h, 28d, 1w, 1M, 1Q or 1Y", loose=True)


def _choice(*words: str) -> Check:
    return lambda node: node.choice(*words)


_OPERATOR: Final = _choice("lte", "gte", "lt", "gt")
_METADATA: Final[Shape] = {"name!": _text, "displayName": _text, "labels": _anything, "annotations": _anything}
_QUERY: Final[Shape] = {"metricSource!": {"metricSourceRef": _text, "type": _text, "spec!": _anything}}
_SLI: Final[Shape] = {
    "description": _text,
    "thresholdMetric": _QUERY,
    "ratioMetric": {
        "counter": Node.boolean, "good": _QUERY, "bad": _QUERY, "total": _QUERY, "raw": _QUERY,
        "rawType": _choice("success", "failure"),
    },
}  # fmt: skip
_INDICATOR: Final[Shape] = {"metadata!": _METADATA, "spec!": _SLI}


def _referred(key: str) -> Check:
    """An object in place, or a reference to one."""

    def check(node: Node) -> None:
        if node.value_of(key) is not None:
            _check(node, {key: _text})
        else:
            inline = {"apiVersion": _choice(API_VERSION), "kind!": _choice(REFERENCES[key]), "metadata!": _METADATA}
            _check(node, inline | {"spec!": SPECS[REFERENCES[key]]})

    return check


SPECS: Final[Mapping[str, Shape]] = {
    "Service": {"description": _text},
    "DataSource": {"description": _text, "type!": _text, "connectionDetails": _anything},
    "SLI": _SLI,
    "SLO": {
        "description": _text,
        "service!": _text,
        "indicator": _INDICATOR,
        "indicatorRef": _text,
        "timeWindow": [
            {"duration!": _duration, "isRolling": Node.boolean, "calendar": {"startTime!": _text, "timeZone!": _text}}
        ],
        "budgetingMethod!": _choice("Occurrences", "Timeslices", "RatioTimeslices"),
        "objectives!": [
            {
                "displayName": _text, "op": _OPERATOR, "value": Node.number, "target": Node.number,
                "targetPercent": Node.number, "timeSliceTarget": Node.number, "timeSliceWindow": _duration,
                "indicator": _INDICATOR, "indicatorRef": _text, "compositeWeight": Node.number,
            }
        ],
        "alertPolicies": [_referred("alertPolicyRef")],
    },
    "AlertPolicy": {
        "description": _text,
        "alertWhenNoData": Node.boolean,
        "alertWhenResolved": Node.boolean,
        "alertWhenBreaching": Node.boolean,
        "conditions!": [_referred("conditionRef")],
        "notificationTargets": [_referred("targetRef")],
    },
    "AlertCondition": {
        "description": _text,
        "severity!": _text,
        "condition!": {
            "kind!": _choice("burnrate"), "op!": _OPERATOR, "threshold!": Node.number, "lookbackWindow!": _duration,
            "alertAfter": _duration,
        },
    },
    "AlertNotificationTarget": {"description": _text, "target!": _text},
}  # fmt: skip
"""What may stand under `spec` of each kind."""


def _check(node: Node, shape: Any) -> None:
    if isinstance(shape, Mapping):
        names = [name.rstrip("!") for name in shape]
        fields = node.fields(*names, required=[name[:-1] for name in shape if name.endswith("!")])
        for name, inner in shape.items():
            if name.rstrip("!") in fields:
                _check(fields[name.rstrip("!")], inner)
    elif isinstance(shape, list):
        for item in node.items():
            _check(item, shape[0])
    else:
        shape(node)


@dataclass(slots=True)
class Objects:
    """The objects of some files, of the version that is read."""

    nodes: list[Node] = field(default_factory=list)
    by_name: dict[tuple[str, str], Node] = field(default_factory=dict)
    """By kind and name; the first of that name."""
    left_out: list[LeftOut] = field(default_factory=list)
    """Those of other versions."""

    def of(self, kind: str) -> Iterator[Node]:
        """All objects of one kind."""
        return (node for node in self.nodes if _scalar(node, "kind") == kind)

    def find(self, key: str, reference: Node) -> Node | None:
        """What a reference stands for; that it stands for nothing is recorded with it."""
        kind = REFERENCES[key]
        found = self.by_name.get((kind, reference.scalar or ""))
        if found is None:
            reference.problem(f"must name an object of the kind {kind} in the files given")
        return found


def read_objects(nodes: Iterable[Node]) -> Objects:
    """Every object of some documents, each of which may be a list. What is wrong is recorded with the nodes."""
    objects = Objects()
    for document in nodes:
        for node in document.items() if document.is_sequence else [document]:
            _read_object(node, objects)
    return objects


def _read_object(node: Node, objects: Objects) -> None:
    version = _scalar(node, "apiVersion")
    kind, name = _scalar(node, "kind"), _scalar(node, "metadata", "name")
    if version in OTHER_VERSIONS:
        objects.left_out.append(LeftOut(f"{kind} {name}", f"{version} is not supported, {API_VERSION} is", node.place))
        return
    shape = {"apiVersion!": _choice(API_VERSION), "kind!": _choice(*SPECS), "metadata!": _METADATA}
    _check(node, shape | {"spec!": SPECS.get(kind or "", _anything)})
    objects.nodes.append(node)
    if kind is not None and name is not None:
        objects.by_name.setdefault((kind, name), node)


def _scalar(node: Node, *path: str) -> str | None:
    found = _at(node, *path)
    return None if found is None else found.scalar


def _at(node: Node | None, *path: str) -> Node | None:
    for key in path:
        node = None if node is None else node.value_of(key)
    return None if node is None or node.is_null else node


def inline(objects: Objects, *, keep: bool = False, only: Collection[str] = tuple(REFERENCES)) -> list[Plain]:
    """Every object with what its references stand for in their place; one that is not there is recorded with them.

    Objects that are referred to are left out of the result unless they are to be kept. `only` these references.
    """
    used: set[int] = set()
    found = [_inlined(node, objects, only, used) for node in objects.nodes]
    return [plain for node, plain in zip(objects.nodes, found, strict=True) if keep or id(node) not in used]


def _inlined(node: Node, objects: Objects, only: Collection[str], used: set[int]) -> Plain:
    if node.is_sequence:
        return [_inlined(item, objects, only, used) for item in node.items()]
    if not node.is_mapping:
        return node.plain()
    plain: dict[str, Plain] = {}
    for name, _, value in node.entries():
        if name in ("metricSource", "metadata", "connectionDetails"):
            plain[name] = value.plain()
        elif name in REFERENCES and name in only:
            target = objects.find(name, value)
            if target is not None:
                used.add(id(target))
                plain |= _in_place(name, _inlined(target, objects, only, used))
        else:
            plain[name] = _inlined(value, objects, only, used)
    return plain


def _in_place(key: str, target: Plain) -> Mapping[str, Plain]:
    """What stands where the reference stood: an indicator under a key of its own, the others as they are."""
    fields = target if isinstance(target, Mapping) else {}
    kept = {name: fields[name] for name in ("kind", "metadata", "spec") if name in fields}
    return (
        {"indicator": {"metadata": kept.get("metadata"), "spec": kept.get("spec")}} if key == "indicatorRef" else kept
    )


# Import


class Imported(NamedTuple):
    """What became of some objects."""

    slos: Sequence[SLO]
    left_out: Sequence[LeftOut]


class _CannotCarry(Exception):
    """Why an SLO cannot be imported."""


def import_slos(objects: Objects, boundaries: Collection[str], burn: Sequence[BurnWindow] | None = None) -> Imported:
    """The SLOs that are about our metrics, and what else there is, with the reason why it is left out.

    `burn` is what warnings go by, as in `read_slos`.
    What is wrong is recorded with the nodes; the result is to be used only if nothing is.
    """
    left_out = [*objects.left_out]
    inline(objects)  # for the references: each must stand for something
    documents = []
    for node in objects.of("SLO"):
        try:
            documents.append(_translate(node, objects, left_out))
        except _CannotCarry as reason:
            left_out.append(LeftOut(f"SLO {_scalar(node, 'metadata', 'name')}", str(reason), node.place))
    left_out += map(
        _without_counterpart, (node for node in objects.nodes if _scalar(node, "kind") not in ("SLO", "SLI"))
    )
    return Imported(read_slos(documents, boundaries, None, burn), left_out)


def _without_counterpart(node: Node) -> LeftOut:
    kind = _scalar(node, "kind") or ""
    reasons = {
        "Service": "only its name is kept, as a label of its SLOs",
        "DataSource": "metrics come from spans, so there is nothing to connect to",
    }
    reason = reasons.get(kind, "alerts are made from targets by `rules generate`, and routed by Alertmanager")
    return LeftOut(f"{kind} {_scalar(node, 'metadata', 'name')}", reason, node.place)


class _Draft:
    """A document of ours in the making: plain, with the nodes that stand for its values in it."""

    def __init__(self, place: Node) -> None:
        self.place = place
        self.spec: dict[str, Plain] = {}
        self.labels: dict[str, Plain] = {}
        self.nodes: dict[str, Node] = {}

    def hold(self, node: Node) -> str:
        """The sign of a node, for the plain document."""
        name = f"n{len(self.nodes)}"
        self.nodes[name] = node
        return f"$({name})"

    def document(self, name: Node) -> Node:
        metadata: dict[str, Plain] = {"name": self.hold(name)}
        if self.labels:
            metadata["labels"] = self.labels
        plain: Plain = {"apiVersion": OUR_VERSION, "kind": "SLO", "metadata": metadata, "spec": self.spec}
        return self.place.standing(plain).bind(self.nodes)


def _translate(node: Node, objects: Objects, left_out: list[LeftOut]) -> Node:
    name, spec = _at(node, "metadata", "name"), _at(node, "spec")
    objective = _only_objective(node)
    if name is None or spec is None or objective is None:
        raise _CannotCarry("it is not complete")
    draft = _Draft(node)
    extension = _extension(node)
    source = _our_source(node, objects, extension)
    _check_method(node, objective, source)
    if (description := _at(spec, "description")) is not None:
        draft.spec["description"] = draft.hold(description)
    if source is None:
        draft.spec["goodput"] = _goodput(node, objective, draft)
    else:
        _threshold(node, objective, source, draft)
    for key, value in extension.items():
        if key in draft.spec:
            value.problem(f"must leave out {key}, which stands in the SLO itself")
        draft.spec[key] = draft.hold(value)
    _labels(node, draft, left_out)
    left_out += _lesser_things(node, name.scalar or "")
    return draft.document(name)


def _only_objective(node: Node) -> Node | None:
    objectives = _at(node, "spec", "objectives")
    items = objectives.items() if objectives is not None and objectives.is_sequence else []
    if len(items) > 1:
        raise _CannotCarry(f"it has {len(items)} objectives, and an SLO here has one target")
    return next(iter(items), None)


def _extension(node: Node) -> dict[str, Node]:
    """What the annotation holds."""
    annotation = _at(node, "metadata", "annotations", ANNOTATION)
    held = None if annotation is None else annotation.embedded()
    return {} if held is None else {name: value for name, _, value in held.entries()}


def _our_source(node: Node, objects: Objects, extension: Mapping[str, Node]) -> Node | None:
    """What the metric source says of the metric; None for joint conditions, which the annotation holds."""
    indicator = _at(node, "spec", "indicator", "spec")
    reference = _at(node, "spec", "indicatorRef")
    if indicator is None and reference is not None:
        indicator = _at(objects.by_name.get(("SLI", reference.scalar or "")), "spec")
    threshold = _at(indicator, "thresholdMetric", "metricSource")
    if threshold is not None and _scalar(threshold, "type") == SOURCE:
        return _at(threshold, "spec")
    if _at(indicator, "ratioMetric") is not None and extension.keys() & {"objectives", "workload"}:
        return None
    kinds = sorted({*_sources(indicator)}) if indicator is not None else []
    foreign = f"its metric source is {' and '.join(kinds)}" if kinds else "it names no metric source"
    raise _CannotCarry(
        f"{foreign}; requests are judged here by times of their own: a thresholdMetric of the type {SOURCE}, "
        f"or the annotation {ANNOTATION}, says which"
    )


def _sources(node: Node) -> Iterator[str]:
    """The types of all metric sources in an indicator."""
    for name, _, value in node.entries() if node.is_mapping else []:
        if name == "metricSource":
            yield _scalar(value, "type") or _scalar(value, "metricSourceRef") or "of no type"
        else:
            yield from _sources(value)


def _check_method(node: Node, objective: Node, source: Node | None) -> None:
    method = _scalar(node, "spec", "budgetingMethod")
    if method != "Occurrences":
        raise _CannotCarry(f"it counts slices of time ({method}), and here requests are counted (Occurrences)")
    if source is not None and _scalar(objective, "op") != "lte":
        raise _CannotCarry(f"its condition is {_scalar(objective, 'op')}, and a limit here is lte")
    if source is not None and _at(objective, "value") is None:
        raise _CannotCarry("it has no value to compare with")


def _threshold(node: Node, objective: Node, source: Node, draft: _Draft) -> None:
    """One objective, and a goodput target if the source says percentile and window."""
    fields = source.fields("percentile", "window", "selector", required=("metric", "boundary"))
    limit: dict[str, Plain] = {name: draft.hold(fields[name]) for name in ("metric", "boundary") if name in fields}
    value = _at(objective, "value")
    display = _at(objective, "displayName")
    if display is not None and _OBJECTIVE.fullmatch(display.scalar or ""):
        limit["name"] = draft.hold(display)
    if value is not None:
        limit["threshold"] = draft.hold(value.standing(f"{value.scalar}s"))
    if "selector" in fields:
        draft.spec["selector"] = draft.hold(fields["selector"])
    if "percentile" in fields or "window" in fields:
        limit |= {name: draft.hold(fields[name]) for name in ("percentile", "window") if name in fields}
        draft.spec["goodput"] = _goodput(node, objective, draft)
    else:
        limit |= _percentile(node, objective, draft)
    draft.spec["objectives"] = [limit]


def _percentile(node: Node, objective: Node, draft: _Draft) -> dict[str, Plain]:
    """A target that is the percentile of the objective, over the time window."""
    window = _window(node)
    length_ns = window if isinstance(window, int) else None
    if length_ns is None or length_ns > MAX_WINDOW_NS:
        raise _CannotCarry(
            f"a percentile is taken over {format_duration(MAX_WINDOW_NS)} at most: say percentile and window in the "
            "spec of the metric source, and the target is that of goodput"
        )
    target, share = _target(objective)
    percentile = format_decimal(share * 100)
    return {
        "percentile": draft.hold(target.standing(percentile)),
        "window": draft.hold(target.standing(format_duration(length_ns))),
    }


def _goodput(node: Node, objective: Node, draft: _Draft) -> dict[str, Plain]:
    target, share = _target(objective)
    goodput: dict[str, Plain] = {"target": draft.hold(target.standing(f"{format_decimal(share * 100)}%"))}
    window = _window(node)
    if isinstance(window, Calendar):
        return goodput | {"period": window.unit, "timezone": draft.hold(node.standing(window.timezone))}
    return goodput | {"period": format_duration(window)}


def _target(objective: Node) -> tuple[Node, Fraction]:
    for key, divisor in (("target", 1), ("targetPercent", 100)):
        node = _at(objective, key)
        value = None if node is None else node.number(0, divisor)
        if node is not None and value is not None:
            return node, value / divisor
    raise _CannotCarry("it has no target")


def _window(node: Node) -> int | Calendar:
    """The time window: nanoseconds if it rolls along, else the period of the calendar."""
    windows = _at(node, "spec", "timeWindow")
    items = windows.items() if windows is not None and windows.is_sequence else []
    if len(items) != 1:
        raise _CannotCarry(f"it has {len(items)} time windows, and an SLO here has one period")
    match = _DURATION.fullmatch(_scalar(items[0], "duration") or "")
    if match is None:
        raise _CannotCarry("its time window has no duration")
    if _at(items[0], "calendar") is not None:
        return _calendar(items[0], match[0])
    if _scalar(items[0], "isRolling") == "false":
        raise _CannotCarry("its time window does not roll along, and no calendar says when it begins")
    if match[2] not in _UNITS:
        raise _CannotCarry(f"its time window of {match[0]} rolls along without a fixed length")
    return int(match[1]) * _UNITS[match[2]]


def _calendar(window: Node, duration: str) -> Calendar:
    unit = next((unit for unit, text in _CALENDAR.items() if text == duration), None)
    start, zone = _scalar(window, "calendar", "startTime") or "", _scalar(window, "calendar", "timeZone") or ""
    if unit is None:
        raise _CannotCarry(f"a period of the calendar is {', '.join(_CALENDAR.values())} here, not {duration}")
    try:
        first = datetime.fromisoformat(start)
    except ValueError:
        raise _CannotCarry(f"its time window starts at {start}, which is no time") from None
    begins = {"week": first.weekday() == 0, "month": first.day == 1, "quarter": first.day == 1 and first.month % 3 == 1}
    if not begins[unit] or first.time() != datetime.min.time():
        raise _CannotCarry(f"its time window starts at {start}, and a {unit} begins at midnight of its first day here")
    return Calendar(unit=unit, timezone=zone)


def _labels(node: Node, draft: _Draft, left_out: list[LeftOut]) -> None:
    name, labels = _at(node, "metadata", "name"), _at(node, "metadata", "labels")
    own = "" if name is None else name.scalar
    for key, key_node, value in labels.entries() if labels is not None else []:
        values = value.items_or_one()
        if len(values) == 1 and values[0].is_scalar and _LABEL.fullmatch(key):
            draft.labels[key] = draft.hold(values[0])
        else:
            reason = "a label has one value here, and a name of letters, digits and _"
            left_out.append(LeftOut(f"label {key} of SLO {own}", reason, key_node.place))
    service = _at(node, "spec", "service")
    if service is not None and "service" not in draft.labels and service.scalar != own:
        draft.labels["service"] = draft.hold(service)


def _lesser_things(node: Node, name: str) -> Iterator[LeftOut]:
    named = "an SLO has a name and a description here"
    alerts = "alerts are made from targets by `rules generate`"
    for path, reason in ((("metadata", "displayName"), named), (("spec", "alertPolicies"), alerts)):
        found = _at(node, *path)
        if found is not None:
            yield LeftOut(f"{path[1]} of SLO {name}", reason, found.place)
    objective = _only_objective(node)
    display = _at(objective, "displayName")
    if display is not None and not _OBJECTIVE.fullmatch(display.scalar or ""):
        yield LeftOut(f"displayName of the objective of SLO {name}", _OBJECTIVE_NAME, display.place)


# Export


class Exported(NamedTuple):
    """SLOs as others say them, and what those do not say."""

    documents: Sequence[Mapping[str, Any]]
    left_out: Sequence[LeftOut]
    """SLOs that cannot be said, and parts of others that only the annotation carries."""


def export_slos(slos: Iterable[SLO]) -> Exported:
    """Each SLO as an OpenSLO document."""
    documents: list[Mapping[str, Any]] = []
    left_out: list[LeftOut] = []
    for slo in slos:
        try:
            document, parts = _export(slo)
        except _CannotCarry as reason:
            left_out.append(LeftOut(f"SLO {slo.name}", str(reason)))
        else:
            documents.append(document)
            left_out += parts
    return Exported(documents, left_out)


def _export(slo: SLO) -> tuple[Mapping[str, Any], Sequence[LeftOut]]:
    single = slo.objectives[0] if len(slo.objectives) == 1 and slo.workload == "interactive" else None
    if single is not None and not single.per_request:
        single = None
    extension = _annotated(slo, single)
    metadata: dict[str, Any] = {"name": slo.name}
    if slo.labels:
        metadata["labels"] = dict(slo.labels)
    if extension:
        metadata["annotations"] = {ANNOTATION: _json(extension)}
    spec: dict[str, Any] = {"service": service_of(slo)}
    if slo.description and "description" not in extension:
        spec["description"] = slo.description
    spec["indicator"] = {"metadata": {"name": f"{slo.name}-good"}, "spec": _indicator(slo, single)}
    spec["timeWindow"] = [_time_window(slo, single)]
    spec["budgetingMethod"] = "Occurrences"
    spec["objectives"] = [_objective(slo, single)]
    document = {"apiVersion": API_VERSION, "kind": "SLO", "metadata": metadata, "spec": spec}
    return document, list(_annotated_notes(slo, extension))


def service_of(slo: SLO) -> str:
    """The service that other formats ask for: the label of that name, else the SLO's own name."""
    return dict(slo.labels).get("service", slo.name)


def _annotated(slo: SLO, single: Objective | None) -> dict[str, Any]:
    """The part of our `spec` that OpenSLO has no word for."""
    spoken = {"description", "goodput"} | ({"selector", "objectives"} if single is not None else set())
    if len(slo.description) > MAX_DESCRIPTION:
        spoken.discard("description")
    return {key: value for key, value in spec_of(slo).items() if key not in spoken}


def _json(extension: Mapping[str, Any]) -> str:
    """A key on each line, for people who compare."""
    lines = (f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in extension.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _annotated_notes(slo: SLO, extension: Mapping[str, Any]) -> Iterator[LeftOut]:
    reasons = {
        "description": f"it is longer than the {MAX_DESCRIPTION} characters that OpenSLO takes",
        "objectives": "OpenSLO has one condition for each SLO",
    }
    for key in extension:
        reason = reasons.get(key, "OpenSLO has no word for it")
        yield LeftOut(f"{key} of SLO {slo.name}", f"{reason}; it is in the annotation {ANNOTATION} only")


def _indicator(slo: SLO, single: Objective | None) -> dict[str, Any]:
    if single is None:
        good, total = (_counter(f"inference_slo_{name}_requests_total", slo) for name in ("good", "eligible"))
        return {"ratioMetric": {"counter": True, "good": good, "total": total}}
    spec: dict[str, Any] = {"metric": single.metric, "boundary": single.boundary}
    fields = spec_of(slo)
    if slo.target is not None:
        spec |= {key: fields["objectives"][0][key] for key in ("percentile", "window")}
    if slo.selector:
        spec["selector"] = fields["selector"]
    return {"thresholdMetric": {"metricSource": {"type": SOURCE, "spec": spec}}}


def _counter(family: str, slo: SLO) -> dict[str, Any]:
    return {
        "metricSource": {"type": "Prometheus", "spec": {"query": f'sum({FAMILY[family].name}{{slo="{slo.name}"}})'}}
    }


def _time_window(slo: SLO, single: Objective | None) -> dict[str, Any]:
    if slo.calendar is not None:
        start = f"{EPOCH.isoformat()} 00:00:00"
        calendar = {"startTime": start, "timeZone": slo.calendar.timezone}
        return {"duration": _CALENDAR[slo.calendar.unit], "isRolling": False, "calendar": calendar}
    length_ns = slo.period_ns if slo.target is not None else single.window_ns if single is not None else None
    if length_ns is None:
        raise _CannotCarry("it has no goodput target, and OpenSLO asks for one")
    for unit, unit_ns in (("d", DAY_NS), ("h", HOUR_NS), ("m", MINUTE_NS)):
        if length_ns % unit_ns == 0:
            return {"duration": f"{length_ns // unit_ns}{unit}", "isRolling": True}
    raise _CannotCarry(f"{format_duration(length_ns)} is no whole number of minutes, which time windows are")


def _objective(slo: SLO, single: Objective | None) -> dict[str, Any]:
    share = slo.target if slo.target is not None else single.percentile / 100 if single is not None else Fraction(1)
    if share == 1:
        raise _CannotCarry("its target is 100%, and OpenSLO takes less than that only")
    target = Exact(format_decimal(share))
    if single is None:
        return {"displayName": "good", "target": target}
    value = Exact(format_decimal(Fraction(single.threshold_ns, SECOND_NS)))
    return {"displayName": single.name, "op": "lte", "value": value, "target": target}
