import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.align import AHEAD_NS, BUCKET_NS, MAX_PAIRS, MEMORY_NS, SAME, UNKNOWN, Bound, Observation, Offsets
from exporter.measure import observations
from exporter.tree import Row, Tree
from tests.exporter.rows import row

pytestmark = pytest.mark.both_builds

NOW = 28_333_334 * BUCKET_NS
"""The begin of a minute."""
A, B, C = 1, 2, 3


def seen(*pairs: tuple[int | None, int | None], outer: int = A, inner: int = B, at: int = NOW) -> Offsets:
    """Offsets after observations with these bounds."""
    offsets = Offsets()
    for low, high in pairs:
        assert high is not None
        offsets.observe(Observation(outer, inner, low, high, at))
    return offsets


@pytest.mark.parametrize(
    ("bound", "offset", "error"),
    [
        (Bound(-10, 40), 15, 25), (Bound(0, 0), 0, 0), (Bound(-3, 4), 0, 4), (Bound(-4, 3), -1, 4),
        (Bound(None, 40), None, None), (UNKNOWN, None, None),
    ],
)  # fmt: skip
def test_a_bound_has_a_midpoint_and_the_most_that_it_may_be_off(
    bound: Bound, offset: int | None, error: int | None
) -> None:
    assert (bound.offset, bound.error) == (offset, error)


@pytest.mark.parametrize(
    ("bound", "shift", "distance"),
    [
        (Bound(-10, 40), 0, 40), (Bound(0, 40), 0, 40), (Bound(-40, 0), 0, 40), (Bound(2, 40), 21, 19),
        (Bound(-40, -2), -21, 19), (Bound(None, 40), 0, None), (Bound(None, -40), 0, None), (SAME, 0, 0),
    ],
)  # fmt: skip
def test_clocks_that_may_be_the_same_are_not_shifted(bound: Bound, shift: int, distance: int | None) -> None:
    assert (bound.shift, bound.distance(bound.shift)) == (shift, distance)


@given(st.integers(-(10**12), 10**12), st.integers(0, 10**12))
def test_the_error_reaches_both_ends_of_the_bound(low: int, width: int) -> None:
    bound = Bound(low, low + width)
    assert bound.offset is not None
    assert bound.error is not None
    assert bound.offset - bound.error <= low
    assert low + width <= bound.offset + bound.error
    assert bound.error <= width // 2 + 1


@pytest.mark.parametrize(
    ("observed", "bound"),
    [
        ([(-10, 40)], Bound(-10, 40)),
        ([(-10, 40), (-20, 30)], Bound(-10, 30)),
        ([(None, 40)], Bound(None, 40)),
        ([(None, 40), (-5, 50)], Bound(-5, 40)),
        ([(-10, 5), (10, 20)], UNKNOWN),
        ([], UNKNOWN),
    ],
)
def test_bounds_are_intersected_and_an_empty_intersection_says_nothing(
    observed: list[tuple[int | None, int | None]], bound: Bound
) -> None:
    assert seen(*observed).between(A, B, NOW) == bound


def test_a_pair_is_read_both_ways() -> None:
    offsets = seen((-10, 40))
    assert offsets.between(B, A, NOW) == Bound(-40, 10)
    offsets.observe(Observation(B, A, -30, 20, NOW))
    assert offsets.between(A, B, NOW) == Bound(-10, 30)
    assert offsets.between(B, A, NOW) == Bound(-30, 10)


def test_one_sided_bounds_of_both_directions_make_a_whole_one() -> None:
    offsets = seen((None, 40))
    offsets.observe(Observation(B, A, None, 5, NOW))
    assert offsets.between(A, B, NOW) == Bound(-5, 40)


def test_a_clock_agrees_with_itself() -> None:
    assert Offsets().between(A, A, NOW) == SAME


@pytest.mark.parametrize(
    ("age_ns", "known"),
    [
        (0, True), (MEMORY_NS, True), (MEMORY_NS + BUCKET_NS, False), (-AHEAD_NS, True), (-AHEAD_NS - BUCKET_NS, False),
    ],
)  # fmt: skip
def test_what_is_too_old_or_too_new_does_not_count(age_ns: int, known: bool) -> None:
    assert seen((-10, 40), at=NOW - age_ns).between(A, B, NOW) == (Bound(-10, 40) if known else UNKNOWN)


def test_a_clock_that_was_set_is_believed_again_when_the_old_bounds_are_forgotten() -> None:
    offsets = seen((-10, 10))
    offsets.observe(Observation(A, B, 990, 1_010, NOW + MEMORY_NS))
    assert offsets.between(A, B, NOW + MEMORY_NS) == UNKNOWN
    assert offsets.between(A, B, NOW + MEMORY_NS + BUCKET_NS) == Bound(990, 1_010)


def test_memory_follows_the_minutes_that_count() -> None:
    offsets = Offsets()
    for minute in range(1_000):
        offsets.observe(Observation(A, B, -10, 40, NOW + minute * BUCKET_NS))
        offsets.forget(NOW + minute * BUCKET_NS)
    assert sum(map(len, offsets.pairs.values())) <= MEMORY_NS // BUCKET_NS + 2
    assert offsets.between(A, B, NOW + 999 * BUCKET_NS) == Bound(-10, 40)


def test_pairs_are_bounded() -> None:
    offsets = Offsets()
    for clock in range(MAX_PAIRS + 10):
        offsets.observe(Observation(-1, clock, -10, 40, NOW))
    assert len(offsets.pairs) == MAX_PAIRS
    assert offsets.between(-1, MAX_PAIRS + 5, NOW) == UNKNOWN
    assert offsets.between(-1, 5, NOW) == Bound(-10, 40)


def test_bounds_add_along_a_chain() -> None:
    offsets = seen((-10, 40))
    offsets.observe(Observation(B, C, 100, 120, NOW))
    assert offsets.along((A, B, C), NOW) == Bound(90, 160)
    assert offsets.along((C, B, A), NOW) == Bound(-160, -90)
    assert offsets.along((A, A, B), NOW) == Bound(-10, 40)
    assert offsets.along((A,), NOW) == offsets.along((), NOW) == SAME


def test_a_chain_with_an_unknown_link_is_unknown() -> None:
    assert seen((-10, 40)).along((A, B, C), NOW) == UNKNOWN
    assert seen((None, 40)).along((A, B), NOW) == Bound(None, 40)


def test_the_newest_bound_of_each_pair_is_told() -> None:
    offsets = seen((-10, 40))
    offsets.observe(Observation(A, B, 0, 10, NOW + 2 * BUCKET_NS))
    offsets.observe(Observation(A, C, None, 7, NOW))
    assert list(offsets.newest()) == [(A, B, Bound(0, 10)), (A, C, Bound(None, 7))]


@given(st.lists(st.tuples(st.integers(-50, 0), st.integers(0, 50), st.integers(0, 3)), min_size=1), st.data())
def test_the_order_of_observations_changes_nothing(pairs: list[tuple[int, int, int]], data: st.DataObject) -> None:
    read = []
    for order in (pairs, data.draw(st.permutations(pairs))):
        offsets = Offsets()
        for low, high, minute in order:
            offsets.observe(Observation(A, B, low, high, NOW + minute * BUCKET_NS))
        read.append([offsets.between(A, B, NOW + minute * BUCKET_NS) for minute in range(4)])
    assert read[0] == read[1]


@given(st.integers(-1_000, 1_000), st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=1))
def test_the_true_offset_lies_in_every_bound(offset: int, delays: list[tuple[int, int]]) -> None:
    """A span [t1, t4] causes one that starts later and ends earlier, on a clock that is `offset` ahead."""
    offsets = Offsets()
    for there, back in delays:
        t1, t4 = 0, there + 100 + back
        t2, t3 = there + offset, there + 100 + offset
        offsets.observe(Observation(A, B, t3 - t4, t2 - t1, NOW))
    bound = offsets.between(A, B, NOW)
    assert bound.low is not None
    assert bound.high is not None
    assert bound.low <= offset <= bound.high


# Which spans tell of clocks

GATE = row("gateway", "g", call=1, start=0, end=100, clock=A)
ENGINE = row("engine", "e", parent="g", start=20, end=90, clock=B)
S = 1_000_000_000


def observed(*rows: Row) -> list[tuple[int, int, float | None, float]]:
    """Outer and inner clock with the bounds in seconds."""
    return [
        (each.outer, each.inner, None if each.low is None else each.low / S, each.high / S)
        for _, path in Tree(dict(enumerate(rows))).paths()
        for each in observations(path)
    ]


def changed(made: Row, **cells: int) -> Row:
    other = list(made)
    for name, value in cells.items():
        other[{"clock": 9, "status": 26, "evidence": 27}[name]] = value
    return other


def test_a_span_and_the_one_that_it_causes_bound_their_clocks() -> None:
    assert observed(GATE, ENGINE) == [(A, B, -10, 20)]


def test_spans_of_one_clock_tell_nothing() -> None:
    assert observed(GATE, changed(ENGINE, clock=A)) == []


@pytest.mark.parametrize("status", [499, 408, 504])
def test_a_cause_that_gave_up_bounds_from_above_only(status: int) -> None:
    assert observed(changed(GATE, status=status), ENGINE) == [(A, B, None, 20)]


def test_a_hop_is_the_tighter_cause() -> None:
    hop = row("hop", "h", parent="g", start=15, end=95, clock=A)
    assert observed(GATE, hop, row("engine", "e", parent="h", start=20, end=90, clock=B)) == [(A, B, -5, 5)]


def test_a_producer_does_not_wait() -> None:
    put = row("queue", "p", enqueued=0, arrived=0, end=1, clock=A)
    assert observed(put, row("queue", "w", parent="p", start=30, dequeued=30, ended=40, end=40, clock=B)) == [
        (A, B, None, 30)
    ]


def test_a_client_bounds_the_outermost_gateway_else_the_engine() -> None:
    client = row("client", "c", start=0, end=110, clock=C)
    inside = [row("gateway", "g", parent="c", call=1, start=4, end=100, clock=A), ENGINE]
    assert sorted(observed(client, *inside)) == [(A, B, -10, 20 - 4), (C, A, -10, 4)]
    assert observed(client, row("engine", "e", parent="c", start=20, end=90, clock=B)) == [(C, B, -20, 20)]


def test_gateways_beside_each_other_do_not_cause_each_other() -> None:
    outer = row("gateway", "a", call=1, start=0, end=100, clock=A)
    first = row("gateway", "b", parent="a", call=1, start=10, end=40, clock=B)
    second = row("gateway", "c", parent="a", call=1, start=50, end=90, clock=C)
    assert observed(outer, first, second) == [(A, B, -60, 10), (A, C, -10, 50)]
