"""SLOs as files: the inverse of reading, for what comes from elsewhere and for tests.

What `read_slos` makes of a written SLO is the same SLO again. Names of objectives are always written, as they would
otherwise depend on their neighbours; what has its default is left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import yaml

from slo_rules.document import escape
from slo_rules.slo import API_VERSION, DAYS, KIND, SLO, Objective, Policies, Schedule
from slo_rules.units import format_decimal, format_duration

WIDTH: Final = 120


class Exact(str):
    """A decimal number as its digits: YAML shows it without quotes, and no float rounds it or gives it an exponent."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    def represent_exact(self, value: Exact) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:float" if "." in value else "tag:yaml.org,2002:int", str(value))

    def represent_text(self, value: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(Exact, _Dumper.represent_exact)
_Dumper.add_representer(str, _Dumper.represent_text)


def write_documents(documents: Iterable[Mapping[str, Any]]) -> str:
    """Documents as the text of one YAML file: what fits on a line stands on one, and `${NAME}` is no variable."""
    return _dump([_escaped(document) for document in documents], flow=None)


def dump(documents: Iterable[Any]) -> str:
    """Documents for the programs of others: a key on each line, and `${NAME}` means nothing."""
    return _dump(documents, flow=False)


def _dump(documents: Iterable[Any], *, flow: bool | None) -> str:
    text: str = yaml.dump_all(
        documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH, default_flow_style=flow
    )
    return text


def _escaped(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _escaped(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return list(map(_escaped, value))
    return escape(value) if isinstance(value, str) else value


def document_of(slo: SLO) -> dict[str, Any]:
    """The document that reads as this SLO: mappings, lists, texts and numbers, in the order of a file."""
    metadata = {"name": slo.name, "labels": dict(slo.labels)}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": _filled(metadata), "spec": spec_of(slo)}


def spec_of(slo: SLO) -> dict[str, Any]:
    """What stands under `spec`; what has its default is left out."""
    batch = slo.workload == "batch"
    default = Policies()
    policies = {key: getattr(slo.policies, key) for key in ("single_token", "cancelled", "unknown", "minimum_samples")}
    expected = slo.expected_per_hour
    return _filled(
        {
            "description": slo.description,
            "selector": {name: _one_or_list(values) for name, values in slo.selector},
            "workload": "batch" if batch else "",
            "boundary": slo.boundary,
            "deadline": format_duration(slo.objectives[0].threshold_ns) if batch and slo.objectives else "",
            "objectives": [] if batch else list(map(_objective_of, slo.objectives)),
            "goodput": _goodput_of(slo),
            "schedule": {} if slo.schedule is None else _schedule_of(slo.schedule),
            "policies": {key: value for key, value in policies.items() if value != getattr(default, key)},
            "expected": {} if expected is None else {"requests_per_hour": _number(expected)},
        }
    )


def _objective_of(objective: Objective) -> dict[str, Any]:
    fields = {
        "name": objective.name,
        "metric": objective.metric,
        "boundary": objective.boundary,
        "percentile": _number(objective.percentile),
        "threshold": format_duration(objective.threshold_ns),
        "window": format_duration(objective.window_ns),
    }
    return fields if objective.per_request else fields | {"per_request": False}


def _goodput_of(slo: SLO) -> dict[str, Any]:
    if slo.target is None or slo.period_ns is None:
        return {}
    goodput = {"target": f"{format_decimal(slo.target * 100)}%"}
    if slo.calendar is None:
        return goodput | {"period": format_duration(slo.period_ns)}
    return goodput | {"period": slo.calendar.unit, "timezone": slo.calendar.timezone}


def _schedule_of(schedule: Schedule) -> dict[str, Any]:
    fields: dict[str, Any] = {"days": [DAYS[day] for day in sorted(schedule.days)]}
    for key, minute in (("from", schedule.start_minute), ("to", schedule.end_minute)):
        fields[key] = f"{minute // 60:02}:{minute % 60:02}"
    return fields | {"timezone": schedule.timezone, "outside": schedule.outside}


def _one_or_list(values: Sequence[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else list(values)


def _number(value: Fraction) -> int | float:
    """A short decimal as YAML writes it; its text is exact, whatever the float is."""
    return int(value) if value.denominator == 1 else float(format_decimal(value))


def _filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value not in ("", {}, [], None)}
