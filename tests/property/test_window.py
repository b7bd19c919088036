"""Window totals against a count of everything that was ever added."""

from collections import Counter
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.histogram import quantile_slot
from exporter.window import Windows, slice_count

pytestmark = pytest.mark.both_builds

S = 1_000_000_000
LENGTHS = st.one_of(st.sampled_from([10 * S, 60 * S, 300 * S, 1800 * S, 3600 * S]), st.integers(10 * S, 4_000 * S))
STEP = st.sampled_from([1, S // 3, S, 10 * S, 61 * S])
TIMES = st.builds(lambda step, count: 10**18 + step * count, STEP, st.integers(0, 400))
ADD = st.tuples(st.just("add"), TIMES, st.integers(0, 2), st.sampled_from([0, 1, 65_535]), st.integers(1, 5))
ADVANCE = st.tuples(st.just("advance"), TIMES, st.just(0), st.just(0), st.just(0))
FINISH = st.tuples(st.just("finish"), TIMES, st.just(0), st.just(0), st.just(0))
Step = tuple[str, int, int, int, int]


class Model:
    """A window as the contract has it: (a, b], b a slice edge that never goes back."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.slice = Fraction(length, slice_count(length))
        self.end = Fraction(0)
        self.values: list[tuple[int, int, int, int]] = []

    def advance(self, time: int) -> None:
        self.end = max(self.end, time // self.slice * self.slice)

    def finish(self, time: int) -> None:
        self.end = max(self.end, -(-time // self.slice) * self.slice)

    def slots(self, series: int) -> Counter[int]:
        counted: Counter[int] = Counter()
        for time, own, slot, amount in self.values:
            if own == series and self.end - self.length < time <= self.end:
                counted[slot] += amount
        return counted


@settings(max_examples=200)
@given(st.lists(LENGTHS, min_size=1, max_size=3), st.lists(st.one_of(ADD, ADD, ADVANCE, FINISH), max_size=40))
def test_totals_are_those_of_everything_in_the_window_whenever_it_came(lengths: list[int], steps: list[Step]) -> None:
    """In any order: late, ahead, after a jump, and none at all."""
    windows, models = Windows(lengths), [Model(length) for length in lengths]
    for kind, time, series, slot, amount in steps:
        if kind == "add":
            windows.add(time, series, slot, amount)
        for model in models:
            if kind == "add":
                model.values.append((time, series, slot, amount))
            elif kind == "advance":
                model.advance(time)
            else:
                model.finish(time)
        if kind == "advance":
            windows.advance(time)
        elif kind == "finish":
            windows.finish(time)
        for model in models:
            assert [dict(windows.slots(model.length, each)) for each in range(3)] == [
                dict(model.slots(each)) for each in range(3)
            ]


@given(st.lists(ADD, max_size=30), st.permutations(range(30)), LENGTHS, TIMES)
def test_the_order_of_values_changes_nothing(steps: list[Step], order: list[int], length: int, time: int) -> None:
    read = []
    for places in (range(len(steps)), [place for place in order if place < len(steps)]):
        windows = Windows([length])
        for place in places:
            windows.add(*steps[place][1:])
            if place % 7 == 0:
                windows.advance(time - length // 2)
        windows.advance(time)
        read.append([dict(windows.slots(length, series)) for series in range(3)])
    assert read[0] == read[1]


@given(LENGTHS, st.lists(TIMES, min_size=1, max_size=50))
def test_what_is_counted_in_every_step_adds_up_to_all_of_it(length: int, times: list[int]) -> None:
    """Windows that follow one another without a gap count each value once."""
    windows, total = Windows([length]), 0
    for time in times:
        windows.add(time, 0, 0, 1)
    at = (min(times) // length) * length
    while at <= max(times) + 2 * length:
        windows.advance(at)
        total += windows.total(length, 0)
        at += length
    assert total == len(times)


WINDOWS = st.lists(
    st.sampled_from([10 * S, 20 * S, 60 * S, 90 * S, 120 * S, 300 * S, 600 * S, 1800 * S, 3600 * S]),
    min_size=1, max_size=4, unique=True,
)  # fmt: skip
UNIT = 2**20
ON = st.sampled_from([0, 1, S // 3, S, S, 5 * S, 10 * S, 10 * S, 61 * S, 700 * S])
"""How far time goes on."""
OFF = st.one_of(st.integers(-80, 20).map(lambda count: count * S), st.integers(-4_000 * S, 100 * S))
"""When a value is, beside that."""
AMOUNTS = st.one_of(
    st.just(UNIT),
    st.integers(1, 300).map(lambda count: count * UNIT),
    st.integers(-3 * UNIT, 3 * UNIT),
    st.sampled_from([2**61, -(2**61), 2**62 - 1, 2**62, -(2**62), 2**63, 3 * 2**80, 70_000 * UNIT]),
)
ONE = st.tuples(OFF, st.sampled_from([0, 1, 2, 70_000]), st.integers(0, 65_535), AMOUNTS)


def samples(time: int, series: int, count: int, wide: int, seed: int) -> list[tuple[int, int, int, int]]:
    """A burst of latencies, as slots around one."""
    random = Random(seed)
    return [
        (time + random.randrange(20 * S), series, min(65_535, int(random.lognormvariate(9, wide / 4))), UNIT)
        for _ in range(count)
    ]


BURST = st.builds(
    samples, OFF, st.integers(0, 2), st.integers(1, 400), st.sampled_from([0, 1, 4]), st.integers(0, 2**32)
)
MOVE = st.one_of(
    st.tuples(st.just("aim"), ON),
    st.tuples(st.just("work"), st.sampled_from([1, 30, 1000])),
    st.tuples(st.just("read"), st.integers(0, 3)),
    st.tuples(st.just("advance"), ON),
    st.tuples(st.just("finish"), ON),
    st.tuples(st.just("add"), st.one_of(ONE.map(lambda one: [one]), BURST)),
)


@settings(max_examples=300, deadline=None)
@given(WINDOWS, st.lists(MOVE, max_size=60))
def test_what_comes_while_windows_move_counts_once(lengths: list[int], moves: list[tuple[str, Any]]) -> None:
    """Steps of any size, values between them, late and early; readers see moves only as a whole."""
    windows, models, now = Windows(lengths), [Model(length) for length in lengths], 10**18
    for kind, what in [*moves, *(("read", place) for place in range(len(lengths)))]:
        if kind == "add":
            added = [(now + off, *one) for off, *one in what]
            for each in added:
                windows.add(*each)
            for model in models:
                model.values += added
        elif kind == "work":
            windows.work(what)
        elif kind == "read":
            model = models[what % len(models)]
            assert windows.windows[model.length].end_ns == model.end
            expected = {n: {k: v for k, v in model.slots(n).items() if v} for n in (0, 1, 2, 70_000)}
            assert {n: dict(windows.slots(model.length, n)) for n in expected} == expected
            totals = windows.windows[model.length].totals
            assert dict(totals) == {n: slots for n, slots in expected.items() if slots}
            assert len(totals) == len(dict(totals))
        else:
            now += what
            {"aim": windows.aim, "advance": windows.advance, "finish": windows.finish}[kind](now)
            for model in models:
                model.finish(now) if kind == "finish" else model.advance(now)


@settings(deadline=None)
@given(WINDOWS, st.lists(st.one_of(ONE.map(lambda one: [one]), BURST, ON), max_size=40), st.integers(0, 3))
def test_windows_that_time_passed_by_hold_what_they_would_have_held(
    lengths: list[int], steps: list[Any], read: int
) -> None:
    """Nobody reads them between, or somebody does now and then."""
    windows, models, now = Windows(lengths), [Model(length) for length in lengths], 10**18
    for number, step in enumerate(steps):
        if isinstance(step, int):
            now += step
            windows.pass_by(now)
            for model in models:
                model.advance(now)
        else:
            added = [(now + off, *one) for off, *one in step]
            for each in added:
                windows.add(*each)
            for model in models:
                model.values += [each for each in added if each[0] > model.end - model.length]
        if read and number % (5 * read) == 0:
            assert_alike(windows, models)
    assert_alike(windows, models)


def assert_alike(windows: Windows, models: list[Model]) -> None:
    for model in models:
        for series in (0, 1, 2, 70_000):
            expected = {slot: amount for slot, amount in model.slots(series).items() if amount}
            assert dict(windows.slots(model.length, series)) == expected


@settings(deadline=None)
@given(st.lists(MOVE.filter(lambda move: move[0] in ("add", "advance", "work", "aim")), max_size=20), ON)
def test_windows_set_anew_in_mid_move_hold_the_same(moves: list[tuple[str, Any]], on: int) -> None:
    lengths = [60 * S, 300 * S, 3600 * S]
    before, now = Windows(lengths), 10**18
    for kind, what in moves:
        if kind == "add":
            for off, *one in what:
                before.add(now + off, *one)
        elif kind == "work":
            before.work(what)
        else:
            now += what
            getattr(before, kind)(now)
    after = Windows(lengths, before)
    for each in (before, after):
        each.advance(now + on)
    for length in lengths:
        for series in (0, 1, 2, 70_000):
            assert before.slots(length, series) == after.slots(length, series)


@settings(deadline=None)
@given(
    st.lists(st.one_of(ONE.filter(lambda one: one[3] > 0).map(lambda one: [one]), BURST), max_size=6),
    st.lists(st.fractions(Fraction(1, 1000), 100), max_size=4),
)
def test_percentiles_are_those_of_the_slots(adds: list[list[tuple[int, int, int, int]]], p: list[Fraction]) -> None:
    windows = Windows([3600 * S])
    for off, *one in [one for many in adds for one in many]:
        windows.add(10**18 + off, *one)
    windows.advance(10**18)
    shares = tuple((each.numerator, each.denominator * 100) for each in p)
    for series in (0, 1, 2, 70_000):
        slots = windows.slots(3600 * S, series)
        expected = (sum(slots.values()), *(quantile_slot(slots, each) for each in p)) if slots else None
        assert windows.ranked(3600 * S, series, shares) == expected
