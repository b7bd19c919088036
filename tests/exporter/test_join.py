from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter import join, record
from exporter.join import Table, fingerprint, trace_key
from exporter.tree import Path, Row
from slo_rules.vocabulary import FATES
from tests.exporter.rows import ns, row, shape

pytestmark = pytest.mark.both_builds

WIDTH = record.LABELS


def table(*, grace: float = 10, max_open: int = 1_000, max_age: float = 600, width: int = WIDTH) -> Table:
    return Table(width, grace_ns=ns(grace), max_open=max_open, max_age_ns=ns(max_age))


def shapes(paths: Iterable[Path]) -> list[str]:
    return sorted(shape(path) for path in paths)


def add(into: Table, *rows: Row, links: Sequence[int] = ()) -> None:
    for each in rows:
        into.add(each, links)


def check(of: Table, added: int) -> None:
    """Every row is in one place, every span has one fate or waits."""
    gatherings = set(of.gatherings.values())
    waiting = [at for gathering in gatherings for at in gathering.rows]
    places = range(0, len(of.cells), of.width)
    assert sorted([*of.free, *waiting]) == list(places)
    assert len(waiting) == of.stored
    assert sum(of.fates.values()) + len(waiting) == added
    assert of.open == len(gatherings)
    assert {key for gathering in gatherings for key in gathering.keys} == of.gatherings.keys()
    assert {identity for gathering in gatherings for identity in gathering.ids} == of.by_id.keys()
    assert set(of.by_id.values()) <= gatherings


def gate(name: str, **cells: Any) -> Row:
    return row("gateway", name, **({"call": 1} | cells))


G, E = gate("g"), row("engine", "e", parent="g", start=1, end=9)
PUT = row("queue", "p", enqueued=0, arrived=0, end=1)
TAKEN = row("queue", "w", parent="p", start=30, dequeued=30, ended=40, end=40)


# When requests are given out


def test_a_request_is_given_out_when_its_newest_span_is_as_old_as_the_grace() -> None:
    waiting = table(grace=10)
    add(waiting, gate("g", seen=5), row("engine", "e", parent="g", seen=8))
    assert shapes(waiting.seal(ns(18) - 1)) == []
    assert shapes(waiting.seal(ns(18))) == ["g: e@0"]
    assert shapes(waiting.seal(ns(1_000))) == []
    assert waiting.fates == {"used": 2}
    check(waiting, 2)


def test_requests_of_one_trace_are_given_out_one_by_one() -> None:
    waiting = table(grace=10)
    add(waiting, row(None, "agent", seen=1), gate("a", parent="agent", seen=1), gate("b", parent="agent", seen=7))
    assert shapes(waiting.seal(ns(11))) == ["a"]
    assert waiting.stored == 2, "b, and the agent that is around it"
    assert shapes(waiting.seal(ns(17))) == ["b"]
    check(waiting, 3)
    assert waiting.open == 0


def test_a_span_that_ties_others_stays_as_long_as_they_do() -> None:
    waiting = table(grace=10)
    add(waiting, gate("g", seen=20), row(None, "x", parent="g", seen=0), row("engine", "e", parent="x", seen=20))
    assert shapes(waiting.seal(ns(10))) == []
    assert shapes(waiting.seal(ns(30))) == ["g: e@0"]


def test_a_span_that_ties_a_request_goes_with_it_when_that_is_too_old() -> None:
    waiting = table(grace=10, max_age=20)
    engines = [row("engine", f"e{seen}", parent="g", start=1, seen=seen) for seen in (8, 17)]
    add(waiting, row(None, "x", seen=9), gate("g", parent="x", seen=0), *engines)
    assert shapes(waiting.seal(ns(10))) == shapes(waiting.seal(ns(19))) == []
    assert shapes(waiting.seal(ns(20))) == ["g: e8+e17@0"]
    assert (waiting.stored, waiting.open) == (0, 0)


def test_a_span_that_comes_too_late_is_measured_alone() -> None:
    waiting = table(grace=10)
    add(waiting, G)
    assert shapes(waiting.seal(ns(20))) == ["g"]
    add(waiting, row("engine", "e", parent="g", seen=21))
    assert shapes(waiting.seal(ns(31))) == [": e@-1"]


@pytest.mark.parametrize(
    ("rows", "fates"),
    [
        ([G, E], {"used": 2}),
        ([gate("g", call=0)], {"not_request": 1}),
        ([row("gateway", "g")], {"not_request": 1}),
        ([row("hop", "h"), row("part", "p")], {"used": 2}),
        ([row(None, "x", fate=record.COUNTED)], {}),
        ([gate("g", fate=record.COUNTED), E], {"used": 1}),
        ([gate("g", fate=FATES.index("late")), E], {"late": 1, "used": 1}),
        ([gate("g", call=0, fate=FATES.index("late"))], {"not_request": 1}),
    ],
)
def test_every_span_has_one_fate(rows: list[Row], fates: dict[str, int]) -> None:
    waiting = table()
    add(waiting, *rows)
    list(waiting.seal(ns(1_000)))
    assert waiting.fates == fates
    assert (waiting.stored, waiting.open) == (0, 0)


def test_what_is_left_is_given_out_at_the_end() -> None:
    waiting = table()
    add(waiting, G, E, gate("h", trace=2), row(None, "x", trace=3))
    assert shapes(waiting.finish()) == ["g: e@0", "h"]
    assert (waiting.stored, waiting.open, waiting.fates) == (0, 0, {"used": 4})
    check(waiting, 4)


def test_evicting_ends_where_nobody_has_anything_to_give() -> None:
    class Front:
        open, stored = 9, 9

        def give_oldest(self, due: int) -> None:
            return None

    assert list(table(max_open=5).evict(Front())) == []


# Across traces


def test_a_link_ties_two_traces() -> None:
    waiting = table()
    add(waiting, row("queue", "w", link="p", trace=2, dequeued=3, ended=9), links=[trace_key(0, 1)])
    add(waiting, PUT)
    assert waiting.open == 1
    assert shapes(waiting.seal(ns(100))) == ["p > w"]
    check(waiting, 2)


def test_a_request_id_ties_two_traces_whichever_comes_first() -> None:
    rows = [gate("g", request_id=5), row("engine", "e", trace=2, request_id=5)]
    for order in (rows, rows[::-1]):
        waiting = table()
        add(waiting, *order)
        assert waiting.open == 1
        assert shapes(waiting.seal(ns(100))) == ["g: e@0"]
        check(waiting, 2)


@pytest.mark.parametrize("traces", [2, join.TRACES_OF_ID, join.TRACES_OF_ID + 1, 100])
def test_an_id_that_too_many_traces_share_says_nothing(traces: int) -> None:
    """As when a client sends the same one with each request."""
    waiting = table()
    for trace in range(traces):
        add(waiting, gate(f"g{trace}", trace=trace, request_id=5))
    add(waiting, row("engine", "e", trace=traces, request_id=5))
    found = shapes(waiting.finish())
    assert len(found) == traces + 1
    assert ": e@-1" in found
    check(waiting, traces + 1)


def test_traces_that_are_tied_when_both_wait_keep_their_times() -> None:
    waiting = table(grace=10)
    add(waiting, gate("g", seen=0), row("engine", "x", trace=2, seen=1, start=0, end=1))
    add(waiting, row("engine", "e", parent="g", seen=6, trace=2), links=[trace_key(0, 1)])
    assert shapes(waiting.seal(ns(11))) == [": x@-1"]
    assert shapes(waiting.seal(ns(16))) == ["g: e@0"]
    check(waiting, 3)


# Jobs in a queue


def test_a_job_in_a_queue_is_given_out_open_once_and_then_whole() -> None:
    waiting = table(grace=10)
    add(waiting, PUT)
    (announced,) = waiting.seal(ns(11))
    assert (announced.open, announced.announced, shape(announced)) == (True, False, "p")
    assert list(waiting.seal(ns(15))) == []
    add(waiting, TAKEN)
    assert list(waiting.seal(ns(49))) == []
    (whole,) = waiting.seal(ns(50))
    assert (whole.open, whole.announced, whole.evicted, shape(whole)) == (False, True, False, "p > w")
    check(waiting, 2)


def test_a_job_that_is_taken_in_time_is_never_given_out_open() -> None:
    waiting = table(grace=60)
    add(waiting, PUT, TAKEN)
    assert [(path.open, path.announced) for path in waiting.seal(ns(1_000))] == [(False, False)]


def test_a_job_that_waits_longer_than_max_age_is_given_up() -> None:
    waiting = table(grace=10, max_age=100)
    add(waiting, PUT)
    assert [path.open for path in waiting.seal(ns(50))] == [True]
    assert list(waiting.seal(ns(101) - 1)) == []
    (path,) = waiting.seal(ns(101))
    assert (path.open, path.announced, path.evicted) == (False, True, True)
    assert waiting.stored == 0


def test_a_request_that_never_stops_growing_is_given_out_at_max_age() -> None:
    waiting = table(grace=10, max_age=60)
    add(waiting, gate("g", seen=0))
    given_out = []
    for second in range(5, 100, 5):
        add(waiting, row("part", f"{second}", parent="g", seen=second))
        given_out += [(second, path.evicted) for path in waiting.seal(ns(second))]
    assert given_out == [(60, False)]


def test_a_job_that_still_waits_at_the_end_is_given_out_open_once() -> None:
    fresh, told = table(), table()
    add(fresh, PUT)
    add(told, PUT)
    assert [path.open for path in told.seal(ns(11))] == [True]
    assert [path.open for path in fresh.finish()] == [True]
    assert list(told.finish()) == []
    for each in (fresh, told):
        check(each, 1)


# Bounds


def test_beyond_max_open_the_oldest_trace_is_evicted() -> None:
    waiting = table(max_open=2)
    for trace in (1, 2, 3):
        add(waiting, gate(f"g{trace}", trace=trace, seen=100 - trace))
    add(waiting, row("engine", "e", parent="g1", trace=1))
    (path,) = waiting.evict()
    assert (shape(path), path.evicted) == ("g1: e@0", True)
    assert (waiting.open, waiting.fates) == (2, {"evicted": 2})
    assert list(waiting.evict()) == []
    check(waiting, 4)


def test_an_open_job_can_be_evicted() -> None:
    waiting = table(max_open=0)
    add(waiting, PUT)
    assert [(path.evicted, path.open) for path in waiting.evict()] == [(True, False)]
    check(waiting, 1)


def test_rows_are_bounded_too() -> None:
    waiting = table(max_open=10)
    for name in range(10 * join.ROWS_PER_TRACE + 1):
        add(waiting, row("engine", f"{name}", trace=name % 10))
    assert len(list(waiting.evict())) > 0
    assert waiting.stored <= 10 * join.ROWS_PER_TRACE


def test_spans_of_one_trace_beyond_the_bound_are_evicted_on_arrival() -> None:
    waiting = table()
    for name in range(join.MAX_ROWS + 5):
        add(waiting, row(None, f"{name}", request_id=name))
    assert (waiting.stored, waiting.fates) == (join.MAX_ROWS, {"evicted": 5})
    assert len(waiting.by_id) <= join.MAX_ROWS
    check(waiting, join.MAX_ROWS + 5)
    list(waiting.seal(ns(1_000)))
    assert (waiting.stored, waiting.by_id) == (0, {})


def test_a_trace_with_links_to_everything_ties_only_so_many() -> None:
    waiting = table()
    add(waiting, G, links=range(1_000, 1_000 + 3 * join.MAX_TIED))
    assert waiting.open == 1
    assert len(waiting.gatherings) <= join.MAX_TIED + 1
    assert shapes(waiting.seal(ns(100))) == ["g"]
    assert (waiting.open, waiting.gatherings) == (0, {})


def test_traces_that_are_too_large_together_stay_apart() -> None:
    waiting = table()
    for name in range(join.MAX_TIED + 1):
        add(waiting, row(None, f"{name}", trace=1))
    add(waiting, row("engine", "e", trace=2), links=[trace_key(0, 1)])
    assert waiting.open == 2
    check(waiting, join.MAX_TIED + 2)


def test_the_array_grows_and_is_used_again() -> None:
    waiting = table()
    for turn in range(3):
        for name in range(1_000):
            add(waiting, gate(f"{turn}.{name}", trace=turn * 10_000 + name))
        assert len(list(waiting.seal(ns(1_000)))) == 1_000
        check(waiting, 1_000 * (turn + 1))
    assert len(waiting.cells) == 1_024 * WIDTH


# Duplicates


def test_a_span_is_new_once() -> None:
    waiting = table()
    assert [waiting.is_new(G), waiting.is_new(G), waiting.is_new(E)] == [True, False, True]


@pytest.mark.parametrize(("turns", "new"), [(0, False), (1, False), (5, False), (7, True), (8, True)])
def test_duplicates_are_known_for_five_turns_at_least(turns: int, new: bool) -> None:
    waiting = table()
    waiting.is_new(G)
    for _ in range(turns):
        waiting.fingerprints.turn()
    assert waiting.is_new(G) == new


@pytest.mark.parametrize("cell", [record.TRACE_HI, record.TRACE_LO, record.SPAN, record.START, record.END])
def test_a_span_with_another_id_or_time_is_another_span(cell: int) -> None:
    other = list(G)
    other[cell] += 1
    assert fingerprint(other) != fingerprint(G)
    other[cell] -= 1
    other[record.SEEN] += 1
    assert fingerprint(other) == fingerprint(G)


def test_a_hundred_thousand_spans_are_told_apart() -> None:
    waiting = table()
    rows = [gate("g", trace=n // 100, start=n % 100) for n in range(100_000)]
    assert all(map(waiting.is_new, rows))
    assert not any(map(waiting.is_new, rows))


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_a_trace_has_one_key(high: int, low: int) -> None:
    assert trace_key(high, low) == trace_key(high, low)
    assert trace_key(high, low) != trace_key(high, low ^ 1)
    assert trace_key(high, low) != trace_key(high ^ 1, low)


# Other settings


@pytest.mark.parametrize("width", [WIDTH, WIDTH + 3, WIDTH + 1])
def test_what_waits_is_kept_when_rows_become_wider_or_narrower(width: int) -> None:
    waiting = table(width=WIDTH + 1)
    made = [[*each, 77] for each in (gate("g", profile=0), row("engine", "e", parent="g", profile=1), row(None, "x"))]
    add(waiting, *made)
    waiting.widen(width, [2, record.UNRECOGNISED])
    check(waiting, 3)
    (path,) = waiting.seal(ns(100))
    assert shape(path) == "g: e@0"
    assert [path.nodes[0][record.PROFILE], path.engines[0][0][record.PROFILE]] == [2, record.UNRECOGNISED]
    assert path.nodes[0][: record.PROFILE] == made[0][: record.PROFILE]
    assert path.nodes[0][record.LABELS :] == [record.MISSING] * (width - record.LABELS)
    add(waiting, row("engine", "e", trace=2, width=width))
    check(waiting, 4)


# Laws

NAMES = [f"s{n}" for n in range(8)]
SPANS = st.builds(
    row,
    st.sampled_from(["client", "gateway", "gateway", "queue", "engine", "engine", "hop", None]),
    st.sampled_from(NAMES),
    parent=st.sampled_from(["", "lost", *NAMES]),
    link=st.sampled_from(["", "", *NAMES]),
    trace=st.integers(1, 3),
    start=st.integers(0, 5),
    end=st.integers(5, 9),
    call=st.sampled_from([0, 1, record.MISSING]),
    request_id=st.sampled_from([7, 8, record.MISSING, record.MISSING]),
    enqueued=st.sampled_from([1, record.MISSING]),
)
STEPS = st.one_of(
    st.tuples(st.just("add"), SPANS, st.sampled_from([(), (), (trace_key(0, 1),), (trace_key(0, 9),)])),
    st.tuples(st.just("add"), SPANS, st.just(())),
    st.tuples(st.sampled_from(["seal", "evict", "widen", "finish"]), st.integers(1, 20), st.just(())),
)


@settings(max_examples=300)
@given(st.lists(STEPS, max_size=30))
def test_every_row_is_stored_once_and_freed_once(steps: list[tuple[str, Row | int, tuple[int, ...]]]) -> None:
    waiting, added, now, given_out = table(grace=3, max_open=3, max_age=8), 0, 0, 0
    for kind, what, links in steps:
        if isinstance(what, list):
            made = [*what, *[record.MISSING] * (waiting.width - len(what))]
            made[record.SEEN] = ns(now)
            waiting.add(made, links)
            added += 1
        elif kind == "widen":
            waiting.widen(WIDTH + what % 3, [0, 1, 2, 3, 4, 5])
        else:
            now += what
            paths = (
                waiting.seal(ns(now)) if kind == "seal" else waiting.evict() if kind == "evict" else waiting.finish()
            )
            given_out += sum(not path.open for path in paths)
        check(waiting, added)
    list(waiting.finish())
    check(waiting, added)
    assert (waiting.stored, waiting.open) == (0, 0)
    assert given_out <= added


@settings(max_examples=200)
@given(st.lists(SPANS, max_size=9, unique_by=lambda made: made[record.SPAN]), st.randoms(use_true_random=False))
def test_the_order_in_which_spans_come_changes_nothing(rows: list[Row], random: Random) -> None:
    found = []
    for _ in range(2):
        waiting = table()
        for each in rows:
            waiting.add(each, [trace_key(0, 2)] if each[record.LINK] != record.MISSING else ())
        found.append(shapes(waiting.seal(ns(10_000))) + shapes(waiting.finish()))
        random.shuffle(rows)
    assert found[0] == found[1]


def test_a_request_id_in_many_traces_ties_none_of_them() -> None:
    """Clients that send one id with all their requests would otherwise be one request, or depend on the order."""
    for order in (1, -1):
        waiting = table(grace=10)
        rows = [gate(f"g{n}", trace=n, request_id=7) for n in range(1, 31)]
        rows += [row("engine", f"e{n}", trace=100 + n, request_id=7) for n in range(1, 31)]
        add(waiting, *rows[::order])
        found = sorted(shapes(waiting.finish()))
        assert found == sorted([*(f"g{n}" for n in range(1, 31)), *(f": e{n}@-1" for n in range(1, 31))])


def test_gates_that_say_to_be_inside_each_other_are_one_request() -> None:
    waiting = table(grace=10)
    ring = [gate(f"g{n}", parent=f"g{(n + 1) % 100}", start=n / 1000) for n in range(100)]
    add(waiting, *ring)
    assert [len(path.nodes) for path in waiting.finish()] == [100]
