"""Judging by pattern is judging: whatever the requests, each is judged and counted as if it were the first."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import pattern, record
from exporter.account import Cells
from exporter.config import Settings
from exporter.judge import Judgement, compare, in_schedule, is_sample, judge, outermost, value_of
from exporter.measure import Interval, Measured, Request
from exporter.recognise import Strings
from exporter.record import MISSING, WEIGHT_ONE
from exporter.tally import Tally
from slo_rules.slo import SLO, Objective, Policies, Schedule
from slo_rules.vocabulary import METRICS, OUTCOMES

pytestmark = pytest.mark.both_builds

S = 1_000_000_000
NOON = 1_700_481_600 * S
HOUR = 3600 * S
TIMES = st.sampled_from([0, 1, 9, 10, 11, 20, 21, 30]) | st.integers(0, 40)
THRESHOLDS = st.sampled_from([10, 20, 30])
BOUNDARIES = st.sampled_from(["end_to_end", "service", "model"])


@st.composite
def slos(draw: st.DrawFn) -> list[SLO]:
    made = []
    for number in range(draw(st.integers(1, 6))):
        metrics = draw(st.lists(st.sampled_from(METRICS), min_size=1, unique=True))
        objectives = tuple(
            Objective(
                name=metric, metric=metric, boundary=draw(BOUNDARIES), percentile=Fraction(95),
                threshold_ns=draw(THRESHOLDS), window_ns=HOUR, per_request=draw(st.integers(0, 4)) > 0,
            )
            for metric in metrics
        )  # fmt: skip
        hours = draw(st.none() | st.tuples(st.integers(0, 23), st.integers(0, 23)))
        schedule = None if hours is None else Schedule(
            days=frozenset(range(7)), start_minute=60 * hours[0], end_minute=60 * hours[1] + 1, timezone="Asia/Seoul",
            outside=draw(st.sampled_from(["not_counted", "outcome_only"])),
        )  # fmt: skip
        policies = Policies(
            single_token=draw(st.sampled_from(["not_applicable", "fail"])),
            cancelled=draw(st.sampled_from(["excluded_unless_broken", "excluded", "bad"])),
            unknown=draw(st.sampled_from(["excluded", "bad"])),
        )
        made.append(SLO(name=f"s{number}", objectives=objectives, schedule=schedule, policies=policies))
    return made


@st.composite
def requests(draw: st.DrawFn) -> Request:
    interval = st.none() | st.builds(Interval, TIMES, st.sampled_from([0, 0, 0, 1, 10, None]))
    flag = st.integers(0, 9).map(bool)
    rows = []
    for boundary in [*draw(st.sets(st.sampled_from(["end_to_end", "service"]))), *["model"] * draw(st.integers(0, 3))]:
        ended = NOON + draw(st.integers(0, 23)) * HOUR
        cells = [0] * record.LABELS
        cells[record.START], cells[record.END] = ended - S, ended
        rows.append(
            Measured(
                boundary=boundary, row=cells, ended_ns=ended, arrived_ns=draw(st.none() | st.just(ended - S)),
                outcome=draw(st.sampled_from(("ok", "ok", "ok", *OUTCOMES))), ttft=draw(interval),
                completion=draw(interval), tpot_ns=draw(st.none() | TIMES), ttft_applies=draw(flag),
                tpot_applies=draw(flag), silent=not draw(flag), output=draw(st.sampled_from([None, 0, 1, 7])),
            )
        )  # fmt: skip
    return Request(
        boundaries=rows, model=MISSING, klass=MISSING, labels=(), whole=True, seen_ns=NOON,
        weight=draw(st.sampled_from([WEIGHT_ONE, WEIGHT_ONE, 5 * WEIGHT_ONE // 3])),
        texts={"model": "m", "class": "default"},
    )  # fmt: skip


def counted(slos: list[SLO], requests: list[Request]) -> Tally:
    of = Tally(Settings(), slos, Strings())
    for request in requests:
        for row, judgements in of.count(request, NOON, in_windows=True):
            rows = request.boundaries
            assert judgements == {slo.name: judge(slo, row, rows) for slo in slos if outermost(slo) == row.boundary}
    of.windows.advance(NOON + 100 * HOUR)
    return of


@given(slos(), st.lists(requests(), max_size=12))
def test_each_request_is_judged_by_its_pattern_as_by_itself(slos: list[SLO], requests: list[Request]) -> None:
    counted(slos, requests)


@given(slos(), st.lists(requests(), max_size=12))
def test_counts_by_pattern_are_those_of_the_judgements(slos: list[SLO], requests: list[Request]) -> None:
    of = counted(slos, requests)
    for slo in slos:
        good, bad, unjudged, eligible = 0, Counter[str](), Counter[str](), Counter[str]()
        for request in requests:
            for row in request.boundaries:
                if outermost(slo) != row.boundary:
                    continue
                found = judge(slo, row, request.boundaries)
                if found.good is None:
                    unjudged[found.reason] += request.weight
                elif found.good:
                    good += request.weight
                else:
                    bad[found.failed[0] if len(found.failed) == 1 else "several"] += request.weight
                for objective, met in found.limits:
                    eligible[objective.name] += request.weight if met in ("met", "broken") else 0
        counts = of.slo_counts[slo.name]
        assert (counts.good, counts.bad, counts.unjudged) == (good, bad, unjudged)
        assert counts.objective_eligible == eligible
        assert counts.exemplars.keys() == bad.keys()


@given(slos(), st.lists(requests(), max_size=12))
def test_percentiles_rank_each_sample_once_and_compare_it_with_its_threshold(
    slos: list[SLO], requests: list[Request]
) -> None:
    of = Tally(replace(Settings(), windows=replace(Settings().windows, durations_ns=(48 * HOUR,))), slos, Strings())
    for request in requests:
        of.count(request, NOON, in_windows=True)
    of.windows.advance(NOON + 24 * HOUR)
    for slo in slos:
        for objective in slo.objectives:
            states = Counter[str]()
            for request in requests:
                for row in request.boundaries:
                    value = value_of(objective.metric, row)
                    if row.boundary == objective.boundary and value is not None and in_schedule(slo, row):
                        state = compare(value, objective.threshold_ns)
                        states[state] += request.weight if is_sample(objective.metric, row) else 0
            found = of.sample_counts(48 * HOUR, slo.name, objective.name)
            assert found == (states.total(), states["met"], states["broken"])
            assert sum(of.value_slots(48 * HOUR, slo.name, objective.name).values()) == states.total()


def test_what_was_counted_by_patterns_of_before_a_reload_stays_in_the_windows() -> None:
    of = Tally(Settings(), [chat("chat", range(10, 13))], Strings())
    of.count(request(5), NOON, in_windows=True)
    before = of.epoch
    of.reconfigure(Settings(), of.slos)
    of.count(request(5), NOON, in_windows=True)
    of.windows.advance(NOON + 60 * S)
    assert of.epoch > before
    assert of.slo_slots(300 * S, "chat")[pattern.GOOD] == of.slo_counts["chat"].good == 2 * WEIGHT_ONE


def test_slos_with_many_thresholds_are_judged_in_groups_with_few_patterns_each() -> None:
    of = Tally(Settings(), [chat(f"s{n}", (10 + n, 1000 + n, 5000 + n)) for n in range(100)], Strings())
    first_group(of)
    (selection,) = of.selections.values()
    assert sum(len(group.slos) for group in selection.groups) == 100
    assert 1 < len(selection.groups) < 15


def chat(name: str, thresholds: Any) -> SLO:
    return SLO(
        name=name,
        objectives=tuple(
            Objective(
                name=metric, metric=metric, boundary="end_to_end", percentile=Fraction(95), threshold_ns=threshold,
                window_ns=300 * S, per_request=True,
            )
            for metric, threshold in zip(METRICS, thresholds, strict=True)
        ),
    )  # fmt: skip


def request(ns: int) -> Request:
    cells = [0] * record.LABELS
    cells[record.START], cells[record.END] = NOON - S, NOON
    row = Measured(
        boundary="end_to_end", row=cells, arrived_ns=NOON - S, ended_ns=NOON, outcome="ok", ttft=Interval(ns, 0),
        completion=Interval(ns, 0), tpot_ns=ns, output=10,
    )  # fmt: skip
    return Request(
        boundaries=[row], model=MISSING, klass=MISSING, labels=(), whole=True, seen_ns=NOON, weight=WEIGHT_ONE,
        texts={"model": "m", "class": "default"},
    )  # fmt: skip


def first_group(of: Tally) -> pattern.Group:
    return of.plan({"model": "m", "class": "default"}, ("end_to_end",)).panel.groups[0]


def test_verdicts_beyond_those_of_a_full_group_stay_in_their_second() -> None:
    objective = Objective(
        name="all", metric="completion", boundary="model", percentile=Fraction(95), threshold_ns=S, window_ns=HOUR,
        per_request=True,
    )  # fmt: skip
    slos = [SLO(name=f"s{place}", objectives=(objective,), schedule=None, policies=Policies()) for place in range(15)]
    judged_at = {slo.name: "model" for slo in slos}
    (group,) = pattern.Selection(slos, judged_at, iter(range(99)).__next__, pattern.Kinds(Cells())).groups
    last = pattern.MOST_PATTERNS + 9
    for verdict in range(last + 1):
        group.code[0] = verdict
        group.learn(tuple(Judgement(bool(verdict >> place & 1), (), "", ()) for place in range(15)))
    group.pending.add(7 * pattern.MOST_VERDICTS + last, WEIGHT_ONE)
    counted = {slo: (second, good, bad) for slo, second, good, bad in group.settle_budgets()}
    one = (7, WEIGHT_ONE, 0), (7, 0, WEIGHT_ONE)
    assert counted == {f"s{place}": one[0] if last >> place & 1 else one[1] for place in range(15)}
