"""SLOs as files: the inverse of reading, for what comes from elsewhere and for tests.

What `read_slos` makes of a written SLO is the same SLO again. Names of objectives are always written, as they would
otherwise depend on their neighbours; what has its default is left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import yaml

from slo_rules.document import escape
from slo_rules.slo import API_VERSION, DAYS, KIND, SLO, Objective, Policies, Schedule
from slo_rules.units import format_decimal, format_duration

WIDTH = 120


def write_documents(documents: Iterable[Mapping[str, Any]]) -> str:
    """Documents as the text of one YAML file: what fits on a line stands on one."""
    return yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, width=WIDTH, default_flow_style=None)


def document_of(slo: SLO) -> dict[str, Any]:
    """The document that reads as this SLO: mappings, lists, texts and numbers, in the order of a file."""
    metadata = {"name": slo.name, "labels": {name: escape(value) for name, value in slo.labels}}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": _filled(metadata), "spec": spec_of(slo)}


def spec_of(slo: SLO) -> dict[str, Any]:
    """What stands under `spec`; what has its default is left out."""
    batch = slo.workload == "batch"
    default = Policies()
    policies = {key: getattr(slo.policies, key) for key in ("single_token", "cancelled", "unknown", "minimum_samples")}
    expected = slo.expected_per_hour
    return _filled(
        {
            "description": escape(slo.description),
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
    return escape(values[0]) if len(values) == 1 else list(map(escape, values))


def _number(value: Fraction) -> int | float:
    """A short decimal as YAML writes it; its text is exact, whatever the float is."""
    return int(value) if value.denominator == 1 else float(format_decimal(value))


def _filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value not in ("", {}, [], None)}
