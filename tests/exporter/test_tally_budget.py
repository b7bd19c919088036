"""What the SLO's own words (workload, schedule, policies, period) make of the counts that are shown."""

import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from exporter.config import Settings
from exporter.expose.collect import collect
from exporter.expose.text import Point
from exporter.measure import Interval, Measured, Request
from exporter.pipeline import Pipeline
from exporter.record import MISSING, WEIGHT_ONE
from slo_rules.burn import built_in
from slo_rules.rules import RuleSettings, generate, write_prometheus
from slo_rules.slo import SLO, Calendar, Objective, Policies, Schedule

SECOND = 10**9
HOUR = 3600 * SECOND
DAY = 24 * HOUR
MARCH = 20513 * DAY  # 2026-03-01T00:00Z
LIMIT = Objective(
    name="ttft", metric="ttft", boundary="end_to_end", percentile=Fraction(95), threshold_ns=SECOND,
    window_ns=300 * SECOND, per_request=True,
)  # fmt: skip
CHAT = SLO(name="chat", objectives=(LIMIT,), target=Fraction(9, 10), period_ns=30 * DAY)


def request(ended_ns: int, outcome: str = "ok", ttft_ns: int | None = SECOND // 2, output: int = 10) -> Request:
    row = Measured(
        boundary="end_to_end", row=[0] * 64, arrived_ns=ended_ns - SECOND, ended_ns=ended_ns, outcome=outcome,
        ttft=None if ttft_ns is None else Interval(ttft_ns, 0), completion=Interval(SECOND, 0), output=output,
    )  # fmt: skip
    return Request(
        boundaries=[row], model=MISSING, klass=MISSING, labels=(), weight=WEIGHT_ONE, seen_ns=ended_ns, whole=True,
        texts={"model": "llama", "class": "default"},
    )  # fmt: skip


def pipeline(slo: SLO, requests: Iterable[Request], now_ns: int | None = None) -> Pipeline:
    """Live, with these requests counted, and read as of `now_ns` or the last end."""
    found = Pipeline(Settings(), [], [slo])
    for each in requests:
        found.tally.count(each, each.seen_ns, in_windows=True)
    found.tally.windows.advance(now_ns or found.tally.last_ns or 0)
    return found


def shown(source: Pipeline, family: str) -> dict[tuple[str, ...], float]:
    (found,) = (each for each in collect(source, 0) if each.spec.name == family)
    return {point.labels: point.value for point in found.points if isinstance(point, Point)}


def slo_of(source: Pipeline) -> dict[str, Any]:
    (found,) = source.report()["slos"].values()
    return dict(found)


def test_no_traffic_is_no_data() -> None:
    found = slo_of(pipeline(CHAT, [], now_ns=MARCH))
    assert (found["attainment"], found["budget"]["remaining"]) == (None, None)
    assert found["objectives"]["ttft"]["verdict"] == "no_data"
    assert shown(pipeline(CHAT, [], now_ns=MARCH), "inference_slo_error_budget_remaining_ratio") == {}


@pytest.mark.parametrize(
    ("outcomes", "attainment", "remaining", "burn"),
    [
        (["ok"], 1, 1, 0),
        (["error"], 0, -9, 10),
        (["ok"] * 10, 1, 1, 0),
        (["error"] * 10, 0, -9, 10),
        (["ok"] * 19 + ["error"], 0.95, 0.5, 0.5),
        (["ok"] * 9 + ["error"], 0.9, 0, 1),
    ],
    ids=["one good", "one bad", "all good", "all bad", "half the budget", "all of the budget"],
)
def test_attainment_budget_and_burn_are_those_worked_out_by_hand(
    outcomes: Sequence[str], attainment: float, remaining: float, burn: float
) -> None:
    source = pipeline(CHAT, [request(MARCH + HOUR - SECOND, outcome) for outcome in outcomes], now_ns=MARCH + HOUR)
    assert shown(source, "inference_slo_attainment_ratio")["chat", "5m"] == attainment
    assert shown(source, "inference_slo_error_budget_remaining_ratio") == {("chat",): remaining}
    assert shown(source, "inference_slo_burn_rate")["chat", "5m"] == burn


def test_a_budget_of_slots_some_of_them_empty_is_one_ratio_of_counts() -> None:
    """Field case F42: finished 400, 0, 100, 0, 0, 0 and bad 0, -, 10, -, -, - in six slots of 5 min, at 99 %."""
    slo = replace(CHAT, target=Fraction(99, 100))
    first = [request(MARCH - 28 * 60 * SECOND)] * 400
    third = [request(MARCH - 18 * 60 * SECOND, outcome) for outcome in ["ok"] * 90 + ["error"] * 10]
    source = pipeline(slo, [*first, *third], now_ns=MARCH)
    assert shown(source, "inference_slo_attainment_ratio")["chat", "30m"] == 0.98
    assert shown(source, "inference_slo_burn_rate")["chat", "30m"] == 2.0
    assert ("chat", "5m") not in shown(source, "inference_slo_burn_rate")


def test_the_windows_of_the_alerts_have_burn_rates_like_those_of_the_settings() -> None:
    """Of 1h, which is both, 6h and 3d, which only alerts look at; none of 5m, in which nothing ended."""
    requests = [*[request(MARCH - 2 * DAY)] * 4, *[request(MARCH - 2 * HOUR)] * 2, request(MARCH - HOUR // 2, "error")]
    source = pipeline(CHAT, [*requests, request(MARCH - HOUR // 2)], now_ns=MARCH)
    right = {"1h": 0.5 / 0.1, "6h": 0.25 / 0.1, "3d": 0.125 / 0.1}
    burns = slo_of(source)["budget"]["burn_rates"]
    assert {name: burns.get(name) for name in (*right, "5m")} == {**right, "5m": None}
    assert shown(source, "inference_slo_burn_rate")["chat", "6h"] == 2.5


def test_counters_are_there_at_zero_before_the_first_request() -> None:
    """Field case F43: a series that began with its first event would hide it from increase()."""
    source = pipeline(CHAT, [])
    assert shown(source, "inference_slo_good_requests_total") == {("chat",): 0}
    assert set(shown(source, "inference_slo_bad_requests_total").values()) == {0}
    source.tally.count(request(MARCH), MARCH, in_windows=True)
    assert shown(source, "inference_slo_good_requests_total") == {("chat",): 1}
    assert set(shown(source, "inference_slo_bad_requests_total").values()) == {0}


def test_goodput_is_zero_when_nothing_is_good() -> None:
    """Field case F47: it must not be left out just when it matters most."""
    source = pipeline(CHAT, [request(MARCH - SECOND, ttft_ns=3 * SECOND)] * 10, now_ns=MARCH)
    assert shown(source, "inference_slo_goodput_requests_per_second")["chat", "1m"] == 0
    assert shown(source, "inference_slo_attainment_ratio")["chat", "1m"] == 0
    assert shown(source, "inference_slo_completions_per_second")["chat", "1m"] == pytest.approx(10 / 60)


def test_a_reload_keeps_the_budget_of_the_same_period_and_begins_another_anew() -> None:
    source = pipeline(CHAT, [request(MARCH - SECOND, "error")], now_ns=MARCH)
    source.tally.reconfigure(Settings(), [replace(CHAT, description="new words")])
    source.tally.windows.advance(MARCH)
    assert slo_of(source)["budget"]["bad"] == 1
    source.tally.reconfigure(Settings(), [replace(CHAT, period_ns=28 * DAY)])
    source.tally.windows.advance(MARCH)
    assert (slo_of(source)["budget"]["bad"], slo_of(source)["bad"]) == (0, 1)


def test_a_calendar_budget_begins_anew_with_the_month_and_a_rolling_one_does_not() -> None:
    ends = [MARCH - HOUR, MARCH + HOUR]
    requests = [request(ends[0], "error"), request(ends[1])]
    calendar = replace(CHAT, calendar=Calendar(unit="month", timezone="UTC"))
    source = pipeline(calendar, requests)
    budget = slo_of(source)["budget"]
    assert (budget["from_unix_nano"], budget["eligible"], budget["bad"], budget["remaining"]) == (MARCH, 1, 0, 1.0)
    assert shown(source, "inference_slo_period_start_timestamp_seconds") == {("chat",): MARCH / SECOND}
    assert shown(pipeline(CHAT, requests), "inference_slo_period_start_timestamp_seconds") == {}
    assert slo_of(pipeline(CHAT, requests))["budget"]["bad"] == 1


def test_a_batch_workload_has_throughput_and_neither_verdict_nor_attainment() -> None:
    slo = SLO(name="nightly", objectives=(), workload="batch", boundary="end_to_end")
    source = pipeline(slo, [request(MARCH - 1, outcome) for outcome in ("ok", "ok", "error")], now_ns=MARCH)
    found = slo_of(source)
    assert (found["eligible"], found["unjudged"], found["objectives"], found["budget"]) == (
        0,
        {"not_judged": 3},
        {},
        None,
    )
    assert found["windows"]["5m"]["completions_per_second"] == pytest.approx(3 / 300)
    assert found["windows"]["5m"]["attainment"] is None
    assert shown(source, "inference_slo_completions_per_second")["nightly", "5m"] == pytest.approx(3 / 300)
    assert shown(source, "inference_slo_output_tokens_per_second")["nightly", "5m"] == pytest.approx(30 / 300)
    assert shown(source, "inference_slo_verdict") == {}
    assert ("nightly", "5m") not in shown(source, "inference_slo_goodput_requests_per_second")


def test_unknown_requests_that_count_as_bad_leave_no_bounds() -> None:
    requests = [request(MARCH - 1), request(MARCH - 1, "unknown")]
    lax, strict = (pipeline(replace(CHAT, policies=Policies(unknown=policy)), requests, now_ns=MARCH)
                   for policy in ("excluded", "bad"))  # fmt: skip
    assert (slo_of(lax)["attainment"], slo_of(lax)["attainment_bounds"]) == (1.0, [0.5, 1.0])
    assert (slo_of(strict)["attainment"], slo_of(strict)["attainment_bounds"]) == (0.5, None)
    assert slo_of(strict)["failed"] == {"unknown": 1}


def test_what_a_policy_can_make_bad_or_leave_out_is_there_at_zero() -> None:
    schedule = Schedule(days=frozenset(range(7)), start_minute=0, end_minute=60, timezone="UTC")
    slo = replace(CHAT, policies=Policies(unknown="bad", cancelled="bad"), schedule=schedule)
    bad = shown(pipeline(slo, []), "inference_slo_bad_requests_total")
    assert (bad["chat", "unknown"], bad["chat", "cancelled"]) == (0, 0)
    assert shown(pipeline(slo, []), "inference_slo_unjudged_requests_total")["chat", "outside_schedule"] == 0
    assert ("chat", "unknown") not in shown(pipeline(CHAT, []), "inference_slo_bad_requests_total")


def test_requests_outside_the_schedule_enter_no_percentile_though_their_outcome_counts() -> None:
    night = Schedule(
        days=frozenset(range(7)), start_minute=0, end_minute=60, timezone="UTC", outside="outcome_only"
    )  # fmt: skip
    slow = request(MARCH + 12 * HOUR, ttft_ns=5 * SECOND)
    found = slo_of(pipeline(replace(CHAT, schedule=night), [slow]))
    assert (found["eligible"], found["good"], found["objectives"]["ttft"]["samples"]) == (1, 1, 0)


def test_an_answer_of_one_token_can_break_a_limit_of_tpot_but_enters_no_percentile_of_it() -> None:
    tpot = replace(LIMIT, name="tpot", metric="tpot")
    slo = replace(CHAT, objectives=(tpot,), policies=Policies(single_token="fail"))
    single, usual = request(MARCH - 1, output=1), request(MARCH - 1)
    single.boundaries[0].tpot_applies = False
    usual.boundaries[0].tpot_ns = SECOND // 2
    source = pipeline(slo, [single, usual], now_ns=MARCH)
    found = slo_of(source)
    assert (found["good"], found["failed"]) == (1, {"tpot": 1})
    assert (found["objectives"]["tpot"]["samples"], found["objectives"]["tpot"]["verdict"]) == (1, "met")
    assert shown(source, "inference_slo_objective_eligible_requests_total")["chat", "tpot"] == 2


@pytest.mark.parametrize(("minimum", "verdict"), [(1, "met"), (10, "met"), (11, "no_data"), ("auto", "no_data")])
def test_below_the_minimum_of_samples_there_is_no_verdict(minimum: Any, verdict: str) -> None:
    slo = replace(CHAT, policies=Policies(minimum_samples=minimum))
    found = slo_of(pipeline(slo, [request(MARCH - 1)] * 10, now_ns=MARCH))
    assert found["objectives"]["ttft"]["verdict"] == verdict


# The same data in Prometheus: requests of five days, of which one in ten is bad until Monday in Seoul (Sunday 15:00 in
# UTC) and one in fifty from then on, seen by the rules through a scrape each twelve minutes.

STEP = 12 * 60 * SECOND
WEEKLY = replace(
    CHAT, target=Fraction(99, 100), period_ns=7 * DAY, calendar=Calendar(unit="week", timezone="Asia/Seoul")
)
ROLLING = replace(WEEKLY, period_ns=3 * DAY, calendar=None)
MONDAY = 3 * DAY + 15 * HOUR
FAMILIES = {
    "inference_slo_eligible_requests_total": ("slo",),
    "inference_slo_good_requests_total": ("slo",),
    "inference_slo_bad_requests_total": ("slo", "failed"),
    "inference_slo_unjudged_requests_total": ("slo", "reason"),
    "inference_slo_period_start_timestamp_seconds": ("slo",),
}


def played(slo: SLO, steps: int) -> tuple[Pipeline, dict[str, list[str]]]:
    """The exporter in the end, and what each scrape saw."""
    random = Random(5)
    source, series = Pipeline(Settings(), [], [slo]), dict[str, list[str]]()
    for step in range(steps + 1):
        for place in range(50 if step else 0):
            ended = (step - 1) * STEP + random.randrange(STEP)
            outcome = "ok" if place % (10 if ended < MONDAY else 50) else "error"
            source.tally.count(request(ended, outcome), step * STEP, in_windows=True)
        source.tally.windows.advance(max(step * STEP, SECOND))
        for family, names in FAMILIES.items():
            for labels, value in shown(source, family).items():
                matchers = ", ".join(f'{name}="{text}"' for name, text in zip(names, labels, strict=True))
                series.setdefault(f"{family}{{{matchers}}}", ["_"] * step).append(f"{value:.0f}")
    return source, series


@pytest.mark.needs("promtool")
@pytest.mark.parametrize(
    ("slo", "name"),
    [(WEEKLY, "ratio_increase_week"), (ROLLING, "ratio_rate3d")],
    ids=["a week of the calendar", "three days"],
)
def test_budget_and_burn_rates_are_those_that_prometheus_makes_of_the_counters(
    slo: SLO, name: str, tmp_path: Path
) -> None:
    source, series = played(slo, 5 * DAY // STEP)
    left = shown(source, "inference_slo_error_budget_remaining_ratio")["chat",]
    right = {f"slo:inference_slo_error_budget_remaining:{name}": (left, 0.02)}
    for window in ("6h", "1d"):  # each end of which is up to a scrape off, of 30 and of 120
        burn = shown(source, "inference_slo_burn_rate")["chat", window]
        right[f"slo:inference_slo_burn_rate:ratio_rate{window}"] = (burn, burn * (0.1 if window == "6h" else 0.03))
    assert left < 0
    checks = [
        {"expr": f"abs(sum({record}) - {value}) < bool {tolerance}", "eval_time": "5d",
         "exp_samples": [{"labels": "{}", "value": 1}]}
        for record, (value, tolerance) in right.items()
    ]  # fmt: skip
    counters = [{"series": labels, "values": " ".join(values)} for labels, values in series.items()]
    test = {"interval": "12m", "input_series": counters, "promql_expr_test": checks}
    body = {"rule_files": ["rules.yml"], "evaluation_interval": "12m", "tests": [test]}
    few = RuleSettings(windows=replace(built_in(), burn=built_in().burn[1:3]))
    (tmp_path / "rules.yml").write_text(write_prometheus(generate([slo], few)), encoding="utf-8")
    (tmp_path / "test.yml").write_text(yaml.safe_dump(body), encoding="utf-8")
    command = [os.environ.get("PROMTOOL", "promtool"), "test", "rules", "test.yml"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
