"""One request against one SLO: good, bad, or neither, and which limit failed (contract, section 6).

Good: ended `ok` and met every per-request limit that applies. Bad: an error, a time-out, shed, or a limit broken.
Neither: client errors, unknown outcomes, cancelled before a limit was broken, a limit whose value should be there and
is not, a value whose clocks are too uncertain for the limit. Those are counted by reason. An SLO's schedule and
policies change this where they say so, and a batch workload without a deadline has nothing to judge.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from exporter.measure import Interval, Measured
from slo_rules.slo import SLO, Objective
from slo_rules.vocabulary import BOUNDARIES

Met = Literal["met", "broken", "not_applicable", "unknown"]
FAILURES: Final = ("error", "timeout", "shed")


class Judgement(NamedTuple):
    """What an SLO makes of a request. `good` None: neither, for `reason`."""

    good: bool | None
    failed: tuple[str, ...]
    reason: str
    limits: tuple[tuple[Objective, Met], ...]


def selects(slo: SLO, labels: Mapping[str, str]) -> bool:
    """Whether the selector takes a request with these labels."""
    return all(labels.get(label) in values for label, values in slo.selector)


def outermost(slo: SLO) -> str:
    """The boundary at which requests are judged: the outermost of the objectives, or where a workload is counted."""
    order = [*BOUNDARIES]
    return min(
        sorted(slo.boundaries),
        key=lambda boundary: order.index(boundary) if boundary in order else -1,
    )


def judge(slo: SLO, row: Measured, rows: Iterable[Measured]) -> Judgement:
    """Judge the request whose outermost boundary is `row`; `rows` are all its boundaries."""
    outside = not in_schedule(slo, row)
    settled = _before_limits(slo, row, outside)
    if settled is not None:
        return settled
    limits = () if outside else tuple(_limits(slo, row, list(rows)))
    failed = tuple(objective.name for objective, met in limits if met == "broken")
    if failed:
        return Judgement(False, failed, "", limits)
    if row.outcome == "cancelled":
        return Judgement(None, (), "cancelled", ())
    if any(met == "unknown" for _, met in limits):
        bad = slo.policies.unknown == "bad"
        return Judgement(False, ("unknown",), "", limits) if bad else Judgement(None, (), "unknown_value", limits)
    return Judgement(True, (), "", limits)


def in_schedule(slo: SLO, row: Measured) -> bool:
    """Whether a request arrived while the SLO's limits applied.

    Where the arrival is not known it is taken for one that did: the limits, which need it too, are then unknown.
    """
    return slo.schedule is None or row.arrived_ns is None or slo.schedule.covers(row.arrived_ns)


def _before_limits(slo: SLO, row: Measured, outside: bool) -> Judgement | None:
    """The judgement where limits have no say."""
    if not slo.objectives:
        return Judgement(None, (), "not_judged", ())
    if outside and slo.schedule is not None and slo.schedule.outside == "not_counted":
        return Judgement(None, (), "outside_schedule", ())
    policies, outcome = slo.policies, row.outcome
    ruled_bad = (outcome == "cancelled" and policies.cancelled == "bad") or (
        outcome == "unknown" and policies.unknown == "bad"
    )
    if outcome in FAILURES or ruled_bad:
        return Judgement(False, (outcome,), "", ())
    if outcome in ("client_error", "unknown") or (outcome == "cancelled" and policies.cancelled == "excluded"):
        return Judgement(None, (), outcome, ())
    return None


def _limits(slo: SLO, row: Measured, rows: Sequence[Measured]) -> Iterable[tuple[Objective, Met]]:
    for objective in slo.objectives:
        if objective.per_request:
            at = [row] if objective.boundary == row.boundary else [r for r in rows if r.boundary == objective.boundary]
            yield objective, _worst([limit(slo, objective, each) for each in at])


def _worst(states: Sequence[Met]) -> Met:
    """Of several spans at an inner boundary; where there is none, nothing is known."""
    order: tuple[Met, ...] = ("broken", "unknown", "met", "not_applicable")
    return next((state for state in order if state in states), "unknown")


def limit(slo: SLO, objective: Objective, row: Measured) -> Met:
    """How a request stands to one limit."""
    if objective.metric == "tpot" and not row.tpot_applies:
        single = row.ttft_applies and row.output == 1
        return "broken" if single and slo.policies.single_token == "fail" else "not_applicable"
    if objective.metric == "ttft" and not row.ttft_applies:
        return "not_applicable"
    value = value_of(objective.metric, row)
    if value is None and objective.metric == "ttft" and row.silent and row.completion is not None:
        # It waited until the end: beyond the limit the limit is broken, before it nothing is known.
        return "broken" if compare(row.completion, objective.threshold_ns) == "broken" else "unknown"
    return "unknown" if value is None else compare(value, objective.threshold_ns)


def compare(value: Interval, threshold_ns: int) -> Met:
    """Value against limit, with what the clocks leave open."""
    if value.error_ns is None:
        return "unknown"
    if value.ns + value.error_ns <= threshold_ns:
        return "met"
    return "broken" if value.ns - value.error_ns > threshold_ns else "unknown"


def value_of(metric: str, row: Measured) -> Interval | None:
    """A metric of one request, None where there is none."""
    if metric == "ttft":
        return row.ttft
    if metric == "completion":
        return row.completion
    return None if row.tpot_ns is None else Interval(row.tpot_ns, 0)


def is_sample(metric: str, row: Measured) -> bool:
    """Whether a request enters the percentiles of a metric: `ok`; for TTFT also cancelled after the first token."""
    if value_of(metric, row) is None:
        return False
    return row.outcome == "ok" or (metric == "ttft" and row.outcome == "cancelled")
