"""What an SLO makes of one request: outcomes, limits, policies, schedule and workload."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from exporter.judge import judge, outermost
from exporter.measure import Interval, Measured
from slo_rules.slo import SLO, Objective, Policies, Schedule

SECOND = 10**9
NOON = 12 * 3600 * SECOND  # of a Thursday, 1 January 1970


def objective(metric: str, threshold_ns: int, boundary: str = "end_to_end") -> Objective:
    return Objective(
        name=metric, metric=metric, boundary=boundary, percentile=Fraction(95), threshold_ns=threshold_ns,
        window_ns=300 * SECOND, per_request=True,
    )  # fmt: skip


SLO_ = SLO(name="chat", objectives=(objective("ttft", SECOND), objective("completion", 10 * SECOND)))
PEAK = Schedule(days=frozenset(range(5)), start_minute=8 * 60, end_minute=20 * 60, timezone="UTC")
BATCH = SLO(name="nightly", objectives=(), workload="batch", boundary="service")


def row(outcome: str = "ok", ttft_s: float | None = 0.5, completion_s: float | None = 5, **fields: Any) -> Measured:
    def interval(seconds: float | None) -> Interval | None:
        return None if seconds is None else Interval(int(seconds * SECOND), 0)

    values: dict[str, Any] = {"boundary": "end_to_end", "arrived_ns": NOON, "output": 10, "row": [0] * 64} | fields
    return Measured(outcome=outcome, ttft=interval(ttft_s), completion=interval(completion_s), **values)


def judged(slo: SLO, request: Measured) -> tuple[bool | None, str]:
    """Whether it is good, and why not."""
    judgement = judge(slo, request, [request])
    return judgement.good, "+".join(judgement.failed) or judgement.reason


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (row(), (True, "")),
        (row(ttft_s=1), (True, "")),
        (row(ttft_s=1.000000001), (False, "ttft")),
        (row(ttft_s=2, completion_s=20), (False, "ttft+completion")),
        (row("error"), (False, "error")),
        (row("timeout"), (False, "timeout")),
        (row("shed"), (False, "shed")),
        (row("client_error"), (None, "client_error")),
        (row("cancelled"), (None, "cancelled")),
        (row("cancelled", completion_s=11), (False, "completion")),
        (row("unknown"), (None, "unknown")),
        (row(ttft_s=None), (None, "unknown_value")),
        (row(ttft_s=None, ttft_applies=False), (True, "")),
        (row(ttft_s=None, completion_s=20), (False, "completion")),
    ],
)
def test_a_request_is_judged_once_by_its_outcome_and_its_limits(
    request_: Measured, expected: tuple[bool | None, str]
) -> None:
    assert judged(SLO_, request_) == expected


@pytest.mark.parametrize(
    ("policies", "request_", "expected"),
    [
        (Policies(unknown="bad"), row("unknown"), (False, "unknown")),
        (Policies(unknown="bad"), row(ttft_s=None), (False, "unknown")),
        (Policies(unknown="bad"), row(), (True, "")),
        (Policies(unknown="bad"), row("client_error"), (None, "client_error")),
        (Policies(unknown="bad"), row("cancelled"), (None, "cancelled")),
        (Policies(cancelled="bad"), row("cancelled"), (False, "cancelled")),
        (Policies(cancelled="bad"), row("unknown"), (None, "unknown")),
        (Policies(cancelled="excluded"), row("cancelled", completion_s=11), (None, "cancelled")),
    ],
)
def test_policies_settle_what_is_cancelled_and_what_is_unknown(
    policies: Policies, request_: Measured, expected: tuple[bool | None, str]
) -> None:
    assert judged(replace(SLO_, policies=policies), request_) == expected


@pytest.mark.parametrize(("policy", "expected"), [("not_applicable", (True, "")), ("fail", (False, "tpot"))])
def test_an_answer_of_one_token_has_no_tpot_or_breaks_it(policy: Any, expected: tuple[bool, str]) -> None:
    slo = replace(SLO_, objectives=(objective("tpot", SECOND),), policies=Policies(single_token=policy))
    assert judged(slo, row(output=1, tpot_applies=False)) == expected


@pytest.mark.parametrize(
    ("outside", "request_", "expected"),
    [
        ("not_counted", row(ttft_s=2), (None, "outside_schedule")),
        ("not_counted", row("error"), (None, "outside_schedule")),
        ("outcome_only", row(ttft_s=2), (True, "")),
        ("outcome_only", row(ttft_s=None), (True, "")),
        ("outcome_only", row("error"), (False, "error")),
        ("outcome_only", row("unknown"), (None, "unknown")),
        ("outcome_only", row("cancelled", ttft_s=2), (None, "cancelled")),
    ],
)
def test_outside_its_schedule_a_request_counts_as_the_schedule_says(
    outside: Any, request_: Measured, expected: tuple[bool | None, str]
) -> None:
    slo = replace(SLO_, schedule=replace(PEAK, outside=outside))
    request_.arrived_ns = NOON + 12 * 3600 * SECOND
    assert judged(slo, request_) == expected


@pytest.mark.parametrize("outside", ["not_counted", "outcome_only"])
def test_within_its_schedule_a_request_is_judged_as_ever(outside: Any) -> None:
    assert judged(replace(SLO_, schedule=replace(PEAK, outside=outside)), row(ttft_s=2)) == (False, "ttft")


def test_the_arrival_decides_whether_a_request_is_in_the_schedule() -> None:
    request = row(ttft_s=2, arrived_ns=20 * 3600 * SECOND - 1, ended_ns=21 * 3600 * SECOND)
    assert judged(replace(SLO_, schedule=PEAK), request) == (False, "ttft")


@pytest.mark.parametrize("outside", ["not_counted", "outcome_only"])
def test_a_request_whose_arrival_is_not_known_is_unknown(outside: Any) -> None:
    request = row(ttft_s=None, completion_s=None, arrived_ns=None)
    assert judged(replace(SLO_, schedule=replace(PEAK, outside=outside)), request) == (None, "unknown_value")


def test_a_batch_workload_is_not_judged_whatever_becomes_of_a_request() -> None:
    assert {judged(BATCH, row(outcome)) for outcome in ("ok", "error", "cancelled")} == {(None, "not_judged")}
    assert outermost(BATCH) == "service"


def test_a_batch_workload_with_a_deadline_is_judged_by_it() -> None:
    deadline = replace(objective("completion", 3600 * SECOND), name="deadline")
    slo = replace(BATCH, objectives=(deadline,), boundary="end_to_end")
    assert judged(slo, row(ttft_s=None, completion_s=3600)) == (True, "")
    assert judged(slo, row(ttft_s=None, completion_s=3601)) == (False, "deadline")
    assert judged(slo, row("error")) == (False, "error")


def test_judging_is_at_the_outermost_boundary_of_the_objectives() -> None:
    inner, outer = objective("ttft", SECOND, "model"), objective("completion", SECOND, "service")
    assert outermost(replace(SLO_, objectives=(inner, outer))) == "service"
    assert outermost(replace(SLO_, objectives=(inner, objective("completion", SECOND, "agent")))) == "agent"
