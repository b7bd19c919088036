from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from exporter import record
from exporter.judge import compare, is_sample, judge, limit, outermost, selects
from exporter.measure import Interval, Measured
from slo_rules.slo import SLO, Objective, Policies, Schedule

pytestmark = pytest.mark.both_builds

S = 1_000_000_000
MONDAY_NOON = 1_700_481_600 * S
"""20 November 2023, 12:00 UTC."""


def objective(metric: str = "ttft", boundary: str = "end_to_end", threshold: float = 1, **others: Any) -> Objective:
    fields: dict[str, Any] = {
        "name": metric,
        "percentile": Fraction(95),
        "window_ns": 300 * S,
        "per_request": True,
    } | others
    return Objective(metric=metric, boundary=boundary, threshold_ns=round(threshold * S), **fields)


TTFT, TPOT, COMPLETION = objective(), objective("tpot", threshold=0.05), objective("completion", threshold=30)
CHAT = SLO(name="chat", objectives=(TTFT, TPOT, COMPLETION))


def seconds(value: float, error: float | None = 0) -> Interval:
    return Interval(round(value * S), None if error is None else round(error * S))


def request(**changes: Any) -> Measured:
    """A request that meets every limit."""
    fields: dict[str, Any] = {
        "boundary": "end_to_end", "row": [0] * record.LABELS, "outcome": "ok", "arrived_ns": MONDAY_NOON,
        "ttft": seconds(0.5), "tpot_ns": S // 50, "completion": seconds(10), "output": 100,
    }  # fmt: skip
    return Measured(**(fields | changes))


def judged(slo: SLO = CHAT, **changes: Any) -> tuple[bool | None, tuple[str, ...], str]:
    row = request(**changes)
    found = judge(slo, row, [row])
    return found.good, found.failed, found.reason


SLOW = {"ttft": seconds(2)}
VERDICTS: dict[str, tuple[dict[str, Any], tuple[bool | None, tuple[str, ...], str]]] = {
    "every limit met": ({}, (True, (), "")),
    "exactly at the limits": ({"ttft": seconds(1), "tpot_ns": S // 20, "completion": seconds(30)}, (True, (), "")),
    "one limit broken": (SLOW, (False, ("ttft",), "")),
    "by a nanosecond": ({"ttft": Interval(S + 1, 0)}, (False, ("ttft",), "")),
    "several limits broken": (SLOW | {"completion": seconds(31)}, (False, ("ttft", "completion"), "")),
    "an error": ({"outcome": "error"}, (False, ("error",), "")),
    "an error that was slow, too": ({"outcome": "error"} | SLOW, (False, ("error",), "")),
    "a time-out": ({"outcome": "timeout"}, (False, ("timeout",), "")),
    "shed": ({"outcome": "shed"}, (False, ("shed",), "")),
    "a client's error": ({"outcome": "client_error"}, (None, (), "client_error")),
    "a client's error that was slow": ({"outcome": "client_error"} | SLOW, (None, (), "client_error")),
    "unknown": ({"outcome": "unknown"}, (None, (), "unknown")),
    "unknown and slow": ({"outcome": "unknown"} | SLOW, (None, (), "unknown")),
    "cancelled in time": ({"outcome": "cancelled"}, (None, (), "cancelled")),
    "cancelled before its first token": ({"outcome": "cancelled", "ttft": None}, (None, (), "cancelled")),
    "cancelled after a broken limit": ({"outcome": "cancelled"} | SLOW, (False, ("ttft",), "")),
    "a value that should be there and is not": ({"ttft": None}, (None, (), "unknown_value")),
    "the same, and a broken limit": ({"ttft": None, "completion": seconds(31)}, (False, ("completion",), "")),
    "no stream, so no first token": (
        {"ttft": None, "tpot_ns": None, "ttft_applies": False, "tpot_applies": False}, (True, (), ""),
    ),
    "one token": ({"output": 1, "tpot_ns": None, "tpot_applies": False}, (True, (), "")),
    "too uncertain a clock": ({"ttft": seconds(0.9, 0.2)}, (None, (), "unknown_value")),
    "an uncertain clock, and surely in time": ({"ttft": seconds(0.7, 0.2)}, (True, (), "")),
    "an uncertain clock, and surely too late": ({"ttft": seconds(1.3, 0.2)}, (False, ("ttft",), "")),
    "a clock of which nothing is known": ({"ttft": seconds(0.1, None)}, (None, (), "unknown_value")),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "verdict"), VERDICTS.values(), ids=VERDICTS)
def test_a_request_is_good_bad_or_neither(
    changes: dict[str, Any], verdict: tuple[bool | None, tuple[str, ...], str]
) -> None:
    assert judged(**changes) == verdict


@pytest.mark.parametrize(
    ("policies", "changes", "verdict"),
    [
        (Policies(cancelled="bad"), {"outcome": "cancelled"}, (False, ("cancelled",), "")),
        (Policies(cancelled="excluded"), {"outcome": "cancelled"} | SLOW, (None, (), "cancelled")),
        (Policies(single_token="fail"), {"output": 1, "tpot_ns": None, "tpot_applies": False}, (False, ("tpot",), "")),
        (
            Policies(single_token="fail"),
            {"output": 0, "tpot_ns": None, "tpot_applies": False, "ttft_applies": False, "ttft": None},
            (True, (), ""),
        ),
        (Policies(single_token="fail"), {"output": 2}, (True, (), "")),
    ],
    ids=range(5),
)
def test_policies_settle_what_a_threshold_does_not(
    policies: Policies, changes: dict[str, Any], verdict: tuple[bool | None, tuple[str, ...], str]
) -> None:
    assert judged(replace(CHAT, policies=policies), **changes) == verdict


@pytest.mark.parametrize(
    ("hour", "reason"),
    [(7, "outside_schedule"), (8, ""), (21, ""), (22, "outside_schedule"), (12 + 24, "outside_schedule")],
)
def test_outside_its_schedule_an_slo_judges_nothing(hour: int, reason: str) -> None:
    schedule = Schedule(days=frozenset({0}), start_minute=8 * 60, end_minute=22 * 60, timezone="UTC")
    arrived = MONDAY_NOON + (hour - 12) * 3_600 * S
    assert judged(replace(CHAT, schedule=schedule), arrived_ns=arrived, **SLOW)[2] == reason
    assert judged(replace(CHAT, schedule=schedule), arrived_ns=None, ttft=None) == (None, (), "unknown_value")


def test_a_limit_of_the_window_only_judges_no_request() -> None:
    slo = replace(CHAT, objectives=(replace(TTFT, per_request=False), COMPLETION))
    assert judged(slo, **SLOW) == (True, (), "")


def test_the_limits_that_were_looked_at_are_told() -> None:
    row = request(**SLOW, tpot_applies=False, output=1)
    assert judge(CHAT, row, [row]).limits == ((TTFT, "broken"), (TPOT, "not_applicable"), (COMPLETION, "met"))
    error = request(outcome="error")
    assert judge(CHAT, error, [error]).limits == ()


# Several boundaries

INNER = SLO(name="inner", objectives=(COMPLETION, objective("ttft", "model", 0.2, name="model_ttft")))


@pytest.mark.parametrize(
    ("inner", "good", "failed"),
    [
        ([seconds(0.1)], True, ()),
        ([seconds(0.3)], False, ("model_ttft",)),
        ([seconds(0.1), seconds(0.3)], False, ("model_ttft",)),
        ([seconds(0.1), None], None, ()),
        ([], None, ()),
    ],
)
def test_every_span_at_an_inner_boundary_must_meet_its_limit(
    inner: list[Interval | None], good: bool | None, failed: tuple[str, ...]
) -> None:
    outer = request()
    rows = [outer, *(request(boundary="model", ttft=ttft) for ttft in inner)]
    found = judge(INNER, outer, rows)
    assert (found.good, found.failed) == (good, failed)


@pytest.mark.parametrize(
    ("boundaries", "expected"),
    [
        (["model"], "model"), (["model", "service"], "service"), (["service", "end_to_end"], "end_to_end"),
        (["end_to_end", "client"], "client"), (["model", "agent", "client"], "agent"),
    ],
)  # fmt: skip
def test_a_request_is_judged_at_its_outermost_boundary(boundaries: list[str], expected: str) -> None:
    assert outermost(SLO(name="x", objectives=tuple(objective(boundary=each) for each in boundaries))) == expected


@pytest.mark.parametrize(
    ("selector", "labels", "selected"),
    [
        ((), {}, True),
        ((("class", ("chat",)),), {"class": "chat"}, True),
        ((("class", ("chat",)),), {"class": "batch"}, False),
        ((("class", ("chat",)),), {}, False),
        ((("model", ("a", "b")),), {"model": "b"}, True),
        ((("model", ("a", "b")), ("class", ("chat",))), {"model": "b", "class": "batch"}, False),
    ],
)
def test_a_selector_takes_requests_by_all_of_its_labels(
    selector: tuple[tuple[str, tuple[str, ...]], ...], labels: dict[str, str], selected: bool
) -> None:
    assert selects(replace(CHAT, selector=selector), labels) == selected


# Limits and samples


@pytest.mark.parametrize(
    ("value", "error", "met"),
    [
        (10, 0, "met"), (11, 0, "broken"), (8, 2, "met"), (9, 2, "unknown"), (12, 2, "unknown"), (13, 2, "broken"),
        (0, None, "unknown"),
    ],
)  # fmt: skip
def test_a_value_is_compared_with_what_its_clocks_leave_open(value: int, error: int | None, met: str) -> None:
    assert compare(Interval(value, error), 10) == met


def test_a_time_per_token_that_applies_and_is_not_known_is_unknown() -> None:
    assert limit(CHAT, TPOT, request(tpot_ns=None)) == "unknown"


@pytest.mark.parametrize(
    ("metric", "changes", "sample"),
    [
        ("ttft", {}, True),
        ("tpot", {}, True),
        ("completion", {}, True),
        ("ttft", {"outcome": "cancelled"}, True),
        ("tpot", {"outcome": "cancelled"}, False),
        ("completion", {"outcome": "cancelled"}, False),
        ("ttft", {"outcome": "error"}, False),
        ("ttft", {"outcome": "unknown"}, False),
        ("completion", {"outcome": "timeout"}, False),
        ("ttft", {"ttft": None}, False),
        ("tpot", {"tpot_ns": None}, False),
        ("completion", {"completion": None}, False),
        ("ttft", {"outcome": "cancelled", "ttft": None}, False),
    ],
)
def test_percentiles_rank_requests_that_ended_well_and_first_tokens_of_cancelled_ones(
    metric: str, changes: dict[str, Any], sample: bool
) -> None:
    assert is_sample(metric, request(**changes)) == sample
