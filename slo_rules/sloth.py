"""Specs for sloth (`prometheus/v1`), which makes Prometheus rules of its own from them.

Sloth takes two queries, of errors and of all events, and a share in percent. Both are our exported counters, so
whatever decides what is good (joint limits, schedule, policies, deadline) has been decided before, and all of an SLO
with a goodput target can be said. SLOs of one service, which is the label of that name, are one document.

Sloth has one period for all SLOs, 30 days unless it is started with another; an SLO with a different one is named.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from slo_rules.families import FAMILY
from slo_rules.openslo import Exported, LeftOut, service_of
from slo_rules.slo import SLO
from slo_rules.units import DAY_NS, format_decimal, format_duration
from slo_rules.write import Exact

VERSION: Final = "prometheus/v1"
PERIOD_NS: Final = 30 * DAY_NS
"""Sloth's own, where it is told no other."""


def export_slos(slos: Iterable[SLO]) -> Exported:
    """One document for each service, with its SLOs in the order given."""
    services: dict[str, list[SLO]] = {}
    left_out: list[LeftOut] = []
    for slo in slos:
        reason = _obstacle(slo)
        if reason is not None:
            left_out.append(LeftOut(f"SLO {slo.name}", reason))
            continue
        services.setdefault(service_of(slo), []).append(slo)
        if slo.period_ns != PERIOD_NS or slo.calendar is not None:
            left_out.append(LeftOut(f"period of SLO {slo.name}", _period(slo)))
    return Exported([_document(service, group) for service, group in services.items()], left_out)


def _obstacle(slo: SLO) -> str | None:
    if slo.target is None:
        return "it has no goodput target"
    return "its target is 100%, and sloth takes less than that only" if slo.target == 1 else None


def _period(slo: SLO) -> str:
    if slo.calendar is not None:
        return f"it is a {slo.calendar.unit} of the calendar, and sloth's rolls along"
    period = format_duration(slo.period_ns or 0)
    return f"it is {period}, and sloth's is one for all: start it with --default-slo-period={period}"


def _document(service: str, slos: Sequence[SLO]) -> Mapping[str, Any]:
    return {"version": VERSION, "service": service, "slos": list(map(_slo, slos))}


def _slo(slo: SLO) -> Mapping[str, Any]:
    labels = {name: value for name, value in slo.labels if name != "service"}
    title = "".join(part.capitalize() for part in slo.name.split("-"))
    described = slo.description or f"Requests that are good by the SLO {slo.name}."
    return {
        "name": slo.name,
        "objective": Exact(format_decimal((slo.target or Fraction(0)) * 100)),
        "description": described,
        **({"labels": labels} if labels else {}),
        "sli": {"events": {"error_query": _rate("bad", slo), "total_query": _rate("eligible", slo)}},
        "alerting": {
            "name": f"{title}ErrorBudgetBurn",
            **({"labels": labels} if labels else {}),
            "annotations": {"summary": f"The error budget of {slo.name} burns fast: {described}"},
            "page_alert": {"labels": {"severity": "page"}},
            "ticket_alert": {"labels": {"severity": "ticket"}},
        },
    }


def _rate(what: str, slo: SLO) -> str:
    """A query with the sign that sloth puts its windows for."""
    return f'sum(rate({FAMILY[f"inference_slo_{what}_requests_total"].name}{{slo="{slo.name}"}}[{{{{.window}}}}]))'
