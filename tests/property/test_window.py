"""Window totals against a count of everything that was ever added."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
