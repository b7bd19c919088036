from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import record
from exporter.account import Exemplar as Seen
from exporter.account import Histogram
from exporter.config import Limits, Settings
from exporter.histogram import LIMIT_NS
from exporter.measure import Interval, Measured, Request
from exporter.recognise import Strings
from exporter.record import MISSING, WEIGHT_ONE
from exporter.series import DURATION_EDGES, TPOT_EDGES, TTFT_EDGES, Evaluations, edges_ns
from exporter.tally import Tally, window_lengths
from slo_rules.slo import SLO, Objective

pytestmark = pytest.mark.both_builds

S = 1_000_000_000
NOW = 1_700_000_000 * S
MINUTE = 60 * S


def objective(metric: str = "completion", threshold: float = 30, window: int = 5 * MINUTE, **others: Any) -> Objective:
    fields: dict[str, Any] = {
        "name": metric,
        "boundary": "end_to_end",
        "percentile": Fraction(95),
        "per_request": True,
    } | others
    return Objective(metric=metric, threshold_ns=round(threshold * S), window_ns=window, **fields)


CHAT = SLO(name="chat", objectives=(objective(), objective("ttft", 1)))


def settings(**limits: int) -> Settings:
    return replace(Settings(), limits=replace(Limits(), **limits))


def tally(*slos: SLO, **limits: int) -> Tally:
    return Tally(settings(**limits), slos, Strings())


def request(
    *, model: str = "m", klass: str = "default", weight: int = 1, seconds: float = 2, at: float = 0, **changes: Any
) -> Request:
    """A request that ended at NOW + `at`."""
    ended = NOW + round(at * S)
    cells = [0] * record.LABELS
    cells[record.START], cells[record.END] = ended - round(seconds * S), ended
    fields: dict[str, Any] = {
        "boundary": "end_to_end", "row": cells, "outcome": "ok", "arrived_ns": cells[record.START], "ended_ns": ended,
        "completion": Interval(round(seconds * S), 0), "ttft": Interval(S // 2, 0), "first_token_from": "model",
        "output": 10, "input": 100,
    }  # fmt: skip
    return Request(
        boundaries=[Measured(**(fields | changes))],
        model=MISSING,
        klass=MISSING,
        labels=(),
        weight=weight * WEIGHT_ONE,
        seen_ns=ended,
        whole=True,
        texts={"model": model, "class": klass},
    )


def count(into: Tally, *requests: Request, now: int = NOW, in_windows: bool = True) -> None:
    for each in requests:
        into.count(each, now, in_windows=in_windows)


def models(of: Tally) -> set[str]:
    return {labels[1] for labels in of.series}


# Counting


def test_a_request_is_counted_in_every_way_there_is() -> None:
    of = tally(CHAT)
    count(of, request(weight=3), request(outcome="error", ttft=None))
    of.windows.advance(NOW + S)
    series, totals = of.series["end_to_end", "m", "default"], of.totals["end_to_end"]
    assert series.completions[:2] == [3 * WEIGHT_ONE, WEIGHT_ONE]
    assert (series.input, series.output, series.cached) == (400 * WEIGHT_ONE, 40 * WEIGHT_ONE, None)
    assert (totals.arrivals.total(), sum(totals.outcomes.values())) == (4 * WEIGHT_ONE, 4 * WEIGHT_ONE)
    assert totals.metrics["completion"].count == 3 * WEIGHT_ONE, "errors weigh in goodput, not in percentiles"
    assert {key: sum(each.counts) for key, each in series.completion.items()} == {
        "ok": 3 * WEIGHT_ONE,
        "error": WEIGHT_ONE,
    }
    assert (of.slo_counts["chat"].good, of.slo_counts["chat"].eligible) == (3 * WEIGHT_ONE, 4 * WEIGHT_ONE)
    assert of.windows.total(MINUTE, of.number("outcomes", "end_to_end", "default"), 0) == 3 * WEIGHT_ONE


def test_what_came_too_late_reaches_counters_only() -> None:
    of = tally(CHAT)
    count(of, request(), in_windows=False)
    of.windows.advance(NOW + S)
    assert of.totals["end_to_end"].arrivals.total() == of.slo_counts["chat"].good == WEIGHT_ONE
    assert all(not window.totals for window in of.windows.windows.values())


def test_only_published_boundaries_are_counted() -> None:
    of = Tally(replace(Settings(), publish=("model",)), [CHAT], Strings())
    count(of, request(), request(boundary="model"))
    assert of.totals.keys() == {"model"}
    assert of.slo_counts["chat"].eligible == 0


def test_failures_are_counted_by_the_limit_that_failed_alone_or_as_several() -> None:
    of = tally(CHAT)
    slow: dict[str, Any] = {"completion": Interval(40 * S, 0)}
    late: dict[str, Any] = {"ttft": Interval(2 * S, 0)}
    count(
        of,
        request(**slow),
        request(**late),
        request(**slow, **late),
        request(outcome="timeout"),
        request(outcome="unknown"),
    )
    counts = of.slo_counts["chat"]
    assert counts.bad == dict.fromkeys(("completion", "ttft", "several", "timeout"), WEIGHT_ONE)
    assert counts.unjudged == {"unknown": WEIGHT_ONE}
    assert counts.objective_eligible == {"completion": 3 * WEIGHT_ONE, "ttft": 3 * WEIGHT_ONE}
    assert counts.objective_good == {"completion": WEIGHT_ONE, "ttft": WEIGHT_ONE}


def test_tokens_of_good_requests_are_counted_apart() -> None:
    of = tally(CHAT)
    count(of, request(output=7), request(output=9, outcome="error"), request(output=None))
    assert of.slo_counts["chat"].good_output == 7 * WEIGHT_ONE


@given(
    st.lists(
        st.tuples(st.sampled_from(["ok", "error", "cancelled"]), st.integers(1, 5), st.integers(0, 50)), max_size=20
    ),
    st.data(),
)
def test_the_order_of_requests_changes_no_sum(requests: list[tuple[str, int, int]], data: st.DataObject) -> None:
    found = []
    for order in (requests, data.draw(st.permutations(requests))):
        of = tally(CHAT)
        count(of, *(request(outcome=outcome, weight=weight, seconds=seconds) for outcome, weight, seconds in order))
        counts = of.slo_counts["chat"]
        found.append((of.totals, counts.good, counts.bad, counts.unjudged, of.first_ns, of.last_ns))
    assert found[0] == found[1]


# Jobs in a queue


def test_a_job_arrives_once_and_is_in_flight_until_it_has_ended() -> None:
    of = tally()
    count(of, request(open=True))
    assert (of.totals["end_to_end"].arrivals.total(), of.totals["end_to_end"].in_flight) == (WEIGHT_ONE, WEIGHT_ONE)
    count(of, request(announced=True, at=100))
    assert (of.totals["end_to_end"].arrivals.total(), of.totals["end_to_end"].in_flight) == (WEIGHT_ONE, 0)
    assert of.totals["end_to_end"].outcomes == {"ok": WEIGHT_ONE}


def test_jobs_of_one_trace_leave_the_classes_that_they_entered() -> None:
    of = tally()
    count(of, request(open=True, klass="a"), request(open=True, klass="b"))
    count(of, request(announced=True, klass="c"), request(announced=True, klass="c"))
    assert {key: traffic.in_flight["span"] for key, traffic in of.traffic.items()} == {
        ("end_to_end", "a"): 0,
        ("end_to_end", "b"): 0,
    }
    assert of.waiting == {}


# Labels


def test_label_values_beyond_the_bound_are_other_and_counted() -> None:
    of = tally(label_values=2)
    count(of, *(request(model=model) for model in ("a", "b", "c", "d", "a")))
    assert models(of) == {"a", "b", "other"}
    assert of.overflow == {"model": 2}
    assert of.series["end_to_end", "other", "default"].completions[0] == 2 * WEIGHT_ONE


def test_what_calls_itself_other_takes_no_room() -> None:
    of = tally(label_values=1)
    count(of, *(request(model=model) for model in ("other", "", "a")))
    assert (models(of), of.overflow) == ({"other", "", "a"}, {})


def test_series_beyond_the_bound_are_counted_together() -> None:
    of = tally(series=2)
    count(of, *(request(model=f"m{n}") for n in range(5)))
    assert len(of.series) <= 3
    assert of.overflow == {"series": 3}
    assert sum(each.completions[0] for each in of.series.values()) == 5 * WEIGHT_ONE


def test_idle_series_expire_and_make_room_for_other_label_values() -> None:
    of = tally(label_values=1, series_idle_ns=10 * MINUTE)
    count(of, request(model="old"))
    of.windows.advance(NOW)
    of.expire(NOW + 10 * MINUTE)
    assert models(of) == {"old"}
    of.windows.advance(NOW + 70 * MINUTE)
    of.expire(NOW + 70 * MINUTE)
    assert (of.series, of.traffic) == ({}, {})
    assert list(of.by_kind("completion")) == []
    count(of, request(model="new"))
    assert (models(of), of.overflow) == ({"new"}, {})


def test_traffic_with_a_job_in_flight_does_not_expire() -> None:
    of = tally()
    count(of, request(open=True))
    of.expire(NOW + 1_000 * MINUTE)
    assert of.traffic["end_to_end", "default"].in_flight == {"span": WEIGHT_ONE}


def test_what_slos_speak_of_starts_at_zero_and_lasts() -> None:
    of = tally(CHAT)
    for _ in range(2):
        assert of.series["end_to_end", "unknown", "default"].completions == [0] * 7
        assert of.traffic["end_to_end", "default"].arrivals == {}
        assert of.slo_counts["chat"].eligible == 0
        of.expire(NOW + 10_000 * MINUTE)


# Other settings


def test_a_reload_keeps_counters_by_name() -> None:
    of = tally(CHAT, replace(CHAT, name="gone"))
    count(of, request())
    of.reconfigure(settings(label_values=7), [CHAT, replace(CHAT, name="new")])
    assert {name: counts.good for name, counts in of.slo_counts.items()} == {"chat": WEIGHT_ONE, "new": 0}
    assert of.totals["end_to_end"].arrivals.total() == WEIGHT_ONE
    assert of.series["end_to_end", "m", "default"].completions[0] == WEIGHT_ONE


@pytest.mark.parametrize(("threshold", "kept"), [(30, True), (7, False)])
def test_a_histogram_whose_edges_change_begins_anew(threshold: float, kept: bool) -> None:
    of = tally(CHAT)
    count(of, request())
    of.reconfigure(settings(), [replace(CHAT, objectives=(objective(threshold=threshold), objective("ttft", 1)))])
    series = of.series["end_to_end", "m", "default"]
    assert bool(series.completion) == kept
    assert series.ttft
    count(of, request())
    assert sum(series.completion["ok"].counts) == (2 if kept else 1) * WEIGHT_ONE


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({}, True), ({"description": "x"}, True), ({"selector": (("class", ("default",)),)}, False),
        ({"objectives": CHAT.objectives[:1]}, False),
    ],
)  # fmt: skip
def test_the_windows_of_an_slo_that_judges_otherwise_begin_anew(change: dict[str, Any], kept: bool) -> None:
    of = tally(CHAT)
    count(of, request())
    of.windows.advance(NOW + MINUTE)
    of.reconfigure(settings(), [replace(CHAT, **change)])
    assert of.slo_slots(5 * MINUTE, "chat").get(0, 0) == (WEIGHT_ONE if kept else 0)


# Edges and windows


@pytest.mark.parametrize(
    ("metric", "usual"),
    [("ttft", TTFT_EDGES), ("tpot", TPOT_EDGES), ("completion", DURATION_EDGES), ("phase", DURATION_EDGES)],
)
def test_histograms_have_edges_on_the_declared_thresholds(metric: str, usual: tuple[str, ...]) -> None:
    plain = edges_ns(metric, [])
    assert plain == tuple(int(Fraction(edge) * S) for edge in usual) == tuple(sorted(plain))
    slo = replace(CHAT, objectives=(objective(metric, 0.123), objective("other", 0.456)))
    assert set(edges_ns(metric, [slo])) == {*plain, 123_000_000}


def test_the_usual_edges_reach_as_far_as_the_conventions_say() -> None:
    assert (TTFT_EDGES[-1], DURATION_EDGES[0], float(Fraction(DURATION_EDGES[-1]))) == ("640", "1/100", 1310.72)


def test_windows_are_those_of_the_settings_and_of_the_slos() -> None:
    slo = replace(CHAT, objectives=(objective(window=MINUTE), objective("ttft", 1, window=90 * S)))
    assert window_lengths(Settings(), [slo]) == (MINUTE, 90 * S, 5 * MINUTE, 30 * MINUTE, 60 * MINUTE)


@pytest.mark.parametrize(("value", "place"), [(0, 0), (10, 0), (11, 1), (20, 1), (21, 2), (10**15, 2)])
def test_an_edge_belongs_to_the_bucket_below_it(value: int, place: int) -> None:
    histogram = Histogram.empty((10, 20))
    exemplar = Seen(1, 2, 3, NOW)
    histogram.add(value, 5, exemplar)
    assert histogram.counts == [5 * (each == place) for each in range(3)]
    assert (histogram.sum, histogram.exemplars) == (5 * value, {place: (exemplar, value)})


def test_values_beyond_the_range_are_counted() -> None:
    of = tally()
    count(of, request(completion=Interval(LIMIT_NS + 1, 0)), request(completion=Interval(LIMIT_NS, 0)))
    assert of.out_of_range == {"completion": 1}
    assert of.totals["end_to_end"].metrics["completion"].count == 2 * WEIGHT_ONE


def test_evaluations_are_counted_by_their_time() -> None:
    of = Evaluations()
    for seconds in (0.001, 0.0011, 5.0):
        of.add(seconds)
    assert (of.counts[0], of.counts[1], of.counts[-1]) == (1, 1, 1)
    assert of.sum_s == pytest.approx(5.0021)
