from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter import record
from exporter.align import SAME, Bound
from exporter.measure import Interval, Measured, Request, Rules, classify, measure, own_outcome, per_token, round_div
from exporter.record import MISSING, WEIGHT_ONE
from exporter.tree import Row, Tree
from slo_rules.vocabulary import FIRST_TOKEN_SOURCES, OUTCOMES
from tests.exporter.rows import S, name_of, row

pytestmark = pytest.mark.both_builds

TOKEN, CHUNK = FIRST_TOKEN_SOURCES.index("token"), FIRST_TOKEN_SOURCES.index("chunk")
OUTER, INNER = 1, 2
"""Two clocks."""


def requests(*rows: Row, rules: Rules | None = None, bound: Bound = SAME, labels: int = 0) -> list[Request]:
    """What is measured of these spans; `bound` is that on any two clocks."""
    paths = Tree(dict(enumerate(rows))).paths()
    return [measure(path, rules or Rules(), lambda clocks, at: bound, labels) for _, path in paths]


def rows_at(boundary: str, *rows: Row, **options: Any) -> list[Measured]:
    return [each for request in requests(*rows, **options) for each in request.boundaries if each.boundary == boundary]


def at(boundary: str, *rows: Row, **options: Any) -> Measured:
    (found,) = rows_at(boundary, *rows, **options)
    return found


def gate(name: str = "g", **cells: Any) -> Row:
    return row("gateway", name, **({"call": 1, "source": TOKEN} | cells))


def engine(name: str = "e", parent: str = "g", **cells: Any) -> Row:
    """From 1 to 9 s; the first of 9 tokens at 2 s."""
    known = {"start": 1, "end": 9, "first_token": 2, "output": 9, "input": 100, "source": TOKEN}
    return row("engine", name, parent=parent, **(known | cells))


def interval(seconds: float, error: float | None = 0) -> Interval:
    return Interval(round(seconds * S), None if error is None else round(error * S))


# Boundaries


@pytest.mark.parametrize(
    ("rows", "boundaries"),
    [
        ([engine(parent="")], ["model"]),
        ([gate()], ["end_to_end", "service"]),
        ([gate(), engine()], ["end_to_end", "service", "model"]),
        ([row("client", "c")], ["client", "end_to_end"]),
        ([row("client", "c"), engine(parent="c")], ["client", "end_to_end", "model"]),
        ([row("client", "c"), gate(parent="c"), engine()], ["client", "end_to_end", "service", "model"]),
        ([gate("a"), gate("g", parent="a"), engine()], ["end_to_end", "service", "model"]),
        ([gate(), engine(end=4), engine("f", start=5)], ["end_to_end", "service", "model", "model"]),
        ([gate(), engine(), engine("f")], ["end_to_end", "service", "model"]),
        ([row("queue", "q", enqueued=0, arrived=0)], ["end_to_end"]),
    ],
    ids=range(10),
)
def test_a_request_is_measured_at_each_boundary_that_it_has(rows: list[Row], boundaries: list[str]) -> None:
    assert [each.boundary for request in requests(*rows) for each in request.boundaries] == boundaries


def test_each_boundary_has_its_own_values() -> None:
    spans = [
        row("client", "c", start=0, end=20),
        gate("a", parent="c", start=1, end=18),
        gate("g", parent="a", start=2, end=17),
        engine(start=3, end=15, first_token=5, last_token=14, output=10),
    ]
    values = {
        each.boundary: (name_of(each.row), each.completion, each.ttft, each.tpot_ns)
        for each in requests(*spans)[0].boundaries
    }
    assert values == {
        "client": ("c", interval(20), interval(5), S),
        "end_to_end": ("a", interval(17), interval(4), S),
        "service": ("g", interval(13), interval(3), S),
        "model": ("e", interval(12), interval(2), S),
    }


def test_a_job_is_timed_from_its_producer_to_the_end_of_its_last_consumer() -> None:
    put = row("queue", "p", start=0, end=1, arrived=0, enqueued=0)
    first = row("queue", "w", parent="p", start=5, end=7, dequeued=5, ended=7)
    again = row("queue", "x", parent="w", start=9, end=12, dequeued=9, ended=12)
    found = at("end_to_end", put, first, again)
    assert (found.arrived_ns, found.completion) == (0, interval(12))


def test_an_open_job_has_arrived_and_nothing_else() -> None:
    found = at("end_to_end", row("queue", "p", arrived=3, enqueued=3))
    assert (found.open, found.arrived_ns, found.completion, found.ended_ns) == (True, 3 * S, None, None)


def test_where_a_gateway_has_no_end_the_engines_is_taken() -> None:
    found = at("end_to_end", gate(ended=MISSING, end=30), engine())
    assert (found.completion, found.outcome) == (interval(9), "ok")


def test_without_any_end_there_is_no_completion() -> None:
    found = at("end_to_end", gate(ended=MISSING))
    assert (found.completion, found.ended_ns) == (None, None)


# Outcomes (contract, section 4: the first match wins)

OUTCOMES_OF: dict[str, tuple[dict[str, Any], str | None]] = {
    "broken by the client": ({"evidence": "cancelled", "status": 200}, "cancelled"),
    "broken by the client, whatever else": ({"evidence": "cancelled", "status": 504, "failed": 1}, "cancelled"),
    "status 499": ({"status": 499}, "cancelled"),
    "499 before a time-out": ({"status": 499, "evidence": "timeout"}, "cancelled"),
    "a flag of a time-out": ({"evidence": "timeout", "status": 200}, "timeout"),
    "status 408": ({"status": 408}, "timeout"),
    "status 504": ({"status": 504}, "timeout"),
    "a flag of overload": ({"evidence": "shed", "status": 503}, "shed"),
    "status 429": ({"status": 429}, "shed"),
    "a flag of an error, with 503": ({"evidence": "error", "status": 503}, "error"),
    "status 503 without a flag": ({"status": 503}, "shed"),
    "status 503 of a failed span": ({"status": 503, "failed": 1}, "shed"),
    "other 4xx": ({"status": 404}, "client_error"),
    "4xx of a failed span": ({"status": 400, "failed": 1}, "client_error"),
    "5xx": ({"status": 500}, "error"),
    "status ERROR after 200": ({"status": 200, "failed": 1}, "error"),
    "evidence of success": ({"evidence": "ok", "status": 200}, "ok"),
    "evidence of success, and a failed span": ({"evidence": "ok", "failed": 1}, "error"),
    "2xx alone is no proof": ({"status": 200}, None),
    "3xx": ({"status": 302}, None),
    "nothing": ({}, None),
}


@pytest.mark.parametrize(("cells", "outcome"), OUTCOMES_OF.values(), ids=OUTCOMES_OF)
def test_what_one_span_proves(cells: dict[str, Any], outcome: str | None) -> None:
    assert own_outcome(gate(**cells)) == (MISSING if outcome is None else OUTCOMES.index(outcome))


@pytest.mark.parametrize(
    ("rows", "expect", "outcome", "awaits"),
    [
        ([gate(status=200), engine()], "auto", "ok", None),
        ([gate(), engine()], "auto", "ok", None),
        ([gate(status=200), engine(evidence="error")], "auto", "error", None),
        ([gate(status=200), engine(evidence="error", end=4), engine("f", start=5)], "auto", "ok", None),
        ([gate(status=500), engine()], "auto", "error", None),
        ([gate(status=200, route=7)], "auto", "ok", 7),
        ([gate(status=200)], "auto", "ok", None),
        ([gate(status=200, route=7)], "no", "ok", None),
        ([gate(status=200, route=7)], "yes", "unknown", None),
        ([gate(status=302, route=7)], "auto", "unknown", None),
        ([gate(route=7)], "no", "unknown", None),
    ],
    ids=range(11),
)
def test_the_outcome_of_a_gateway(rows: list[Row], expect: str, outcome: str, awaits: int | None) -> None:
    found = at("end_to_end", *rows, rules=Rules(expect_engine=expect))
    assert (found.outcome, found.awaits) == (outcome, awaits)


def test_an_engine_that_ended_is_ok_and_one_that_did_not_is_unknown() -> None:
    assert at("model", engine(parent="")).outcome == "ok"
    assert at("model", engine(parent="", evidence="cancelled")).outcome == "cancelled"
    assert at("model", engine(parent="", ended=MISSING, evidence="unknown")).outcome == "unknown"


def test_a_client_is_ok_by_its_own_word_or_by_an_engine() -> None:
    assert at("client", row("client", "c")).outcome == "unknown"
    assert at("client", row("client", "c", evidence="ok")).outcome == "ok"
    assert at("client", row("client", "c"), gate(parent="c"), engine()).outcome == "ok"
    assert at("client", row("client", "c", failed=1), gate(parent="c"), engine()).outcome == "error"


def test_each_inner_gateway_has_the_outcome_of_its_own_engines() -> None:
    outer = gate("a", status=200)
    inner = [gate("b", parent="a", start=1, end=4), gate("c", parent="a", start=5, end=9)]
    engines = [engine("e", parent="b", start=2, end=3, evidence="error"), engine("f", parent="c", start=6, end=8)]
    assert [each.outcome for each in rows_at("service", outer, *inner, *engines)] == ["error", "ok"]
    assert at("end_to_end", outer, *inner, *engines).outcome == "ok"


# First token and time per token


def test_a_boundary_that_sees_tokens_uses_its_own() -> None:
    found = at("end_to_end", gate(first_token=3, source=CHUNK), engine())
    assert (found.ttft, found.first_token_from, found.first_token_ns) == (interval(3), "chunk", 3 * S)


def test_otherwise_it_is_the_engines_and_says_so() -> None:
    found = at("end_to_end", gate(), engine())
    assert (found.ttft, found.first_token_from) == (interval(2), "model")
    assert at("model", gate(), engine()).first_token_from == "token"


def test_a_missing_first_token_is_never_the_end() -> None:
    found = at("end_to_end", gate(), engine(first_token=MISSING))
    assert (found.ttft, found.first_token_ns, found.tpot_ns, found.ttft_applies) == (None, None, None, True)


@pytest.mark.parametrize(
    ("cells", "tpot"),
    [
        ({"first_token": 2, "last_token": 8, "output": 7}, 1.0),
        ({"first_token": 2, "output": 8}, 1.0),
        ({"first_token": 2, "last_token": 8, "output": 1}, None),
        ({"first_token": 2, "last_token": 8, "output": 0}, None),
        ({"first_token": 2, "last_token": 8, "output": MISSING}, None),
        ({"first_token": 8, "last_token": 2, "output": 7}, None),
        ({"first_token": MISSING, "last_token": 8, "output": 7}, None),
        ({"first_token": 2, "last_token": 2, "output": 7}, 0.0),
    ],
)
def test_time_per_token_is_from_the_first_to_the_last_of_n(cells: dict[str, Any], tpot: float | None) -> None:
    found = at("model", engine(parent="", **cells))
    assert found.tpot_ns == (None if tpot is None else round(tpot * S))


@pytest.mark.parametrize(
    ("formula", "tpot"), [("tokens_minus_one", 1.0), ("tokens", 0.75), ("completion_over_tokens", 2.0)]
)
def test_the_formula_is_a_setting(formula: str, tpot: float) -> None:
    spans = [engine(parent="", start=0, end=8, first_token=2, last_token=5, output=4)]
    assert at("model", *spans, rules=Rules(tpot_formula=formula)).tpot_ns == round(tpot * S)


@pytest.mark.parametrize(
    ("arguments", "tpot"),
    [(("tokens", 0, 9, 1, None), None), (("completion_over_tokens", MISSING, MISSING, 3, 9), 3),
     (("completion_over_tokens", 0, 9, 3, None), None), (("tokens_minus_one", 0, 3, 3, None), 2)],
)  # fmt: skip
def test_a_formula_without_its_parts_has_no_value(arguments: tuple[Any, ...], tpot: int | None) -> None:
    assert per_token(*arguments) == tpot


@given(st.integers(0, 10**18), st.integers(1, 10**6))
def test_division_rounds_half_up(value: int, by: int) -> None:
    assert abs(round_div(value, by) * by - value) * 2 <= by
    assert round_div(1, 2) == 1


@pytest.mark.parametrize(
    ("cells", "ttft_applies", "tpot_applies"),
    [
        ({"stream": 1}, True, True), ({}, True, True), ({"stream": 0}, False, False), ({"output": 0}, False, False),
        ({"output": 1}, True, False), ({"output": 2}, True, True),
    ],
)  # fmt: skip
def test_which_metrics_apply(cells: dict[str, Any], ttft_applies: bool, tpot_applies: bool) -> None:
    found = at("end_to_end", gate(), engine(**cells))
    assert (found.ttft_applies, found.tpot_applies) == (ttft_applies, tpot_applies)
    assert ttft_applies or (found.ttft is None and found.tpot_ns is None)


def test_an_engine_knows_its_first_token_whether_or_not_it_was_streamed() -> None:
    found = at("model", gate(stream=0), engine())
    assert (found.ttft_applies, found.ttft) == (True, interval(1))


def test_an_empty_answer_that_failed_may_still_be_judged() -> None:
    assert at("end_to_end", gate(status=500), engine(output=0)).ttft_applies


# Several sequences


def test_of_several_sequences_the_earliest_token_the_latest_end_and_the_sum_count() -> None:
    spans = [gate(), engine("e", first_token=3, end=8, output=6, sequence_id=1),
             engine("f", first_token=2, end=9, output=3, sequence_id=2)]  # fmt: skip
    found = at("end_to_end", *spans)
    assert (found.ttft, found.output, found.input) == (interval(2), 9, 200)
    model = at("model", *spans)
    assert (model.completion, model.ttft, model.tpot_ns) == (interval(8), interval(1), round(3.5 * S))


def test_the_prompt_of_several_answers_counts_once() -> None:
    spans = [gate(), engine("e", sequence_id=5), engine("f", sequence_id=5)]
    assert at("end_to_end", *spans).input == 100


def test_a_count_that_one_sequence_does_not_tell_is_not_known() -> None:
    assert at("end_to_end", gate(), engine("e"), engine("f", output=MISSING)).output is None


def test_a_gateways_own_counts_are_used_where_the_engine_has_none() -> None:
    found = at("end_to_end", gate(input=7, output=8, cached=3, items=2), engine(input=MISSING))
    assert (found.input, found.output, found.cached, found.items) == (7, 9, 3, 2)


# Clocks


def across(**options: Any) -> Measured:
    """A gateway of one clock that has its end and first token from an engine of another."""
    return at("end_to_end", gate(ended=MISSING, clock=OUTER), engine(clock=INNER), **options)


@pytest.mark.parametrize(
    ("bound", "error"),
    [
        (Bound(-S, 2 * S), 2.0), (Bound(-3 * S, -S), 3.0), (Bound(None, S), None), (Bound(None, None), None), (SAME, 0),
    ],
)  # fmt: skip
def test_report_leaves_the_difference_as_it_is_and_tells_the_far_end_of_the_bound(
    bound: Bound, error: float | None
) -> None:
    found = across(bound=bound)
    assert (found.ttft, found.completion) == (interval(2, error), interval(9, error))
    assert found.ended_ns == 9 * S


@pytest.mark.parametrize(
    ("bound", "shift", "error"),
    [
        (Bound(-S, 2 * S), 0, 2.0),
        (Bound(-3 * S, -S), -2.0, 1.0),
        (Bound(S, 2 * S), 1.5, 0.5),
        (Bound(None, S), 0, None),
        (SAME, 0, 0),
    ],
)
def test_adjust_puts_it_on_the_outer_clock_unless_the_two_may_be_the_same(
    bound: Bound, shift: float, error: float | None
) -> None:
    found = across(bound=bound, rules=Rules(adjust=True))
    assert (found.ttft, found.completion) == (interval(2 - shift, error), interval(9 - shift, error))
    assert (found.first_token_ns, found.ended_ns) == (round((2 - shift) * S), round((9 - shift) * S))


def test_values_of_one_clock_are_exact() -> None:
    assert at("end_to_end", gate(), engine(clock=INNER), bound=Bound(-S, S)).completion == interval(10)
    assert at("model", gate(), engine(clock=INNER), bound=Bound(-S, S)).ttft == interval(1)


def test_a_negative_difference_is_no_value_and_counted_once() -> None:
    (request,) = requests(
        gate(start=5, end=20, clock=OUTER), engine(start=1, first_token=2, clock=INNER), bound=Bound(-S, S)
    )
    found = {each.boundary: each for each in request.boundaries}
    assert (found["end_to_end"].ttft, found["end_to_end"].clock_error_ns) == (None, S)
    assert found["service"].ttft is None
    assert found["end_to_end"].completion == interval(15)
    assert request.negative == 1


def test_the_way_to_an_engine_is_through_the_gateways_around_it_only() -> None:
    asked: list[tuple[int, ...]] = []

    def along(clocks: Any, time_ns: int) -> Bound:
        asked.append(tuple(clocks))
        return SAME

    rows = [
        gate("a", clock=1, ended=MISSING),
        gate("b", parent="a", start=1, clock=2),
        gate("c", parent="a", start=2, clock=3),
        engine(parent="c", start=3, clock=4),
    ]
    ((_, path),) = Tree(dict(enumerate(rows))).paths()
    measure(path, Rules(), along, 0)
    assert set(asked) == {(1, 3, 4), (3, 4)}


# Phases


def test_phases_of_a_request_through_gateway_and_engine() -> None:
    spans = [
        gate(start=0, end=20, dispatched=1),
        engine(start=3, end=15, enqueued=3, scheduled=4, first_token=6, last_token=14),
    ]
    assert at("end_to_end", *spans).phases == {
        "gateway": 1 * S, "network": 2 * S, "engine_queue": 1 * S, "prefill": 2 * S, "decode": 8 * S,
        "postprocess": 1 * S, "unexplained": 5 * S,
    }  # fmt: skip


def test_a_wait_in_a_queue_is_from_the_producer_to_the_consumer() -> None:
    put = row("queue", "p", start=0, end=1, arrived=0, enqueued=0)
    taken = row("queue", "w", parent="p", start=5, end=20, dequeued=5, ended=20, evidence="ok")
    assert at("end_to_end", put, taken, engine(parent="w", start=6, end=16, first_token=MISSING)).phases == {
        "queue": 5 * S, "engine": 10 * S, "unexplained": 5 * S,
    }  # fmt: skip


def test_an_engine_that_tells_nothing_of_its_parts_is_one_phase() -> None:
    assert at("model", engine(parent="", first_token=MISSING)).phases == {"engine": 8 * S, "unexplained": 0}


def test_no_network_is_claimed_across_clocks_that_are_not_aligned() -> None:
    spans = [gate(dispatched=1, clock=OUTER), engine(clock=INNER)]
    assert "network" not in at("end_to_end", *spans, bound=Bound(-S, S)).phases
    assert "network" not in at("end_to_end", *spans, bound=Bound(None, S), rules=Rules(adjust=True)).phases
    assert "network" in at("end_to_end", gate(dispatched=0, clock=OUTER), engine(clock=INNER), bound=Bound(-S, S),
                           rules=Rules(adjust=True)).phases  # fmt: skip


def test_a_hand_over_is_known_by_the_hop_where_the_gateway_does_not_say() -> None:
    hop = row("hop", "h", parent="g", start=2, dispatched=2)
    assert at("end_to_end", gate(), hop, engine(parent="h", start=3)).phases["gateway"] == 2 * S


@pytest.mark.parametrize("outcome", ["error", "cancelled", "timeout"])
def test_only_requests_that_ended_well_have_phases(outcome: str) -> None:
    assert at("end_to_end", gate(evidence=outcome, dispatched=1), engine()).phases == {}


STAMPS = st.sampled_from([MISSING, *range(13)])


@settings(max_examples=300)
@given(st.lists(st.fixed_dictionaries({
    "first_token": STAMPS, "last_token": STAMPS, "scheduled": STAMPS, "enqueued": STAMPS, "start": st.integers(0, 6),
    "end": st.integers(6, 12),
}), max_size=3), STAMPS, st.booleans())  # fmt: skip
def test_phases_sum_to_the_completion_latency(engines: list[dict[str, Any]], dispatched: int, hop: bool) -> None:
    """Less what is over-explained, which is shown as such; and none is below zero."""
    spans = [gate(start=0, end=10, dispatched=dispatched, evidence="ok")]
    spans += [engine(f"e{place}", ended=cells["end"], **cells) for place, cells in enumerate(engines)]
    spans += [row("hop", "h", parent="g", start=1, dispatched=1)] if hop else []
    for request in requests(*spans):
        for found in request.boundaries:
            if found.phases:
                assert min(found.phases.values()) >= 0
                over = found.phases.get("over_explained", 0)
                assert found.completion is not None
                assert sum(found.phases.values()) - 2 * over == found.completion.ns


# What is the same at all boundaries


def test_the_model_is_that_of_the_innermost_span_and_the_class_that_of_the_outermost() -> None:
    wide = [[*gate(model=1, klass=3), 7], [*engine(model=2, klass=4), 8]]
    (request,) = requests(*wide, labels=1)
    assert (request.model, request.klass, request.labels) == (2, 3, (7,))


@pytest.mark.parametrize(
    ("rows", "whole", "unmatched"),
    [
        ([gate(), engine()], True, None), ([gate()], False, None), ([engine(parent="")], False, "engine"),
        ([row("client", "c")], False, "client"),
    ],
)  # fmt: skip
def test_what_was_joined_and_what_found_nothing_to_join(rows: list[Row], whole: bool, unmatched: str | None) -> None:
    (request,) = requests(*rows)
    assert (request.whole, request.unmatched) == (whole, unmatched)


@pytest.mark.parametrize(
    ("outer", "inner", "weighted", "weight"),
    [
        (4 * WEIGHT_ONE, 8 * WEIGHT_ONE, True, 4 * WEIGHT_ONE), (MISSING, 8 * WEIGHT_ONE, True, WEIGHT_ONE),
        (4 * WEIGHT_ONE, MISSING, False, WEIGHT_ONE),
    ],
)  # fmt: skip
def test_the_weight_is_that_of_the_outermost_span(outer: int, inner: int, weighted: bool, weight: int) -> None:
    (request,) = requests(gate(weight=outer), engine(weight=inner), rules=Rules(weighted=weighted))
    assert request.weight == weight


def test_it_was_seen_when_its_newest_span_was() -> None:
    (request,) = requests(gate(seen=12), engine(seen=15))
    assert request.seen_ns == 15 * S


RULES = (("batch", (("tenant", ("nightly", "weekly")),)), ("code", (("model", ("coder",)), ("tenant", ("dev",)))))


@pytest.mark.parametrize(
    ("own", "labels", "klass"),
    [
        ("mine", {"tenant": "nightly"}, "mine"), (None, {"tenant": "nightly"}, "batch"),
        (None, {"tenant": "weekly", "model": "coder"}, "batch"), (None, {"tenant": "dev", "model": "coder"}, "code"),
        (None, {"tenant": "dev"}, "default"), (None, {}, "default"),
    ],
)  # fmt: skip
def test_the_class_is_the_requests_own_else_that_of_the_first_rule(
    own: str | None, labels: dict[str, str], klass: str
) -> None:
    assert classify(own, RULES, labels) == klass


# The user's own boundaries


def own(rows: Sequence[Row], **options: Any) -> list[Measured]:
    """From the arrival at a gateway (profile 1) to the end of an engine (profile 3)."""
    boundary = ("agent", (1, record.ARRIVED), (3, record.ENDED))
    return rows_at("agent", *rows, rules=replace(Rules(), boundaries=(boundary,)), **options)


def test_a_declared_boundary_is_from_the_first_opening_to_the_last_closing() -> None:
    spans = [gate("a", start=1), gate("g", parent="a", start=2), engine(start=3, end=9), engine("f", start=4, end=8)]
    (found,) = own(spans)
    assert (found.arrived_ns, found.ended_ns, found.completion, name_of(found.row)) == (S, 9 * S, interval(8), "a")
    assert (found.outcome, found.output) == ("ok", 18)


def test_a_declared_boundary_that_nothing_opens_is_not_there() -> None:
    assert own([engine(parent="")]) == []


def test_a_declared_boundary_that_nothing_closes_has_no_completion() -> None:
    (found,) = own([gate(status=500)])
    assert (found.completion, found.outcome) == (None, "error")
