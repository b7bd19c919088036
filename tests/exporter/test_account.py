"""Flat sums are exact, whatever is added."""

from array import array
from bisect import bisect_left
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.account import Cells, Distribution, Distributions, Edges, Sums
from exporter.histogram import LAYOUT, LIMIT_NS, TOP_SLOT, own_slot, slot_of_ns
from exporter.record import WEIGHT_ONE

pytestmark = pytest.mark.both_builds

AMOUNTS = st.one_of(st.integers(0, 2**20), st.integers(0, 2**60))
WEIGHTS = st.one_of(st.just(WEIGHT_ONE), st.integers(1, 2**22), st.integers(1, 2**60))
FACTORS = st.one_of(st.integers(0, 10**10), st.integers(0, 2**62))


@given(st.lists(AMOUNTS))
def test_a_cell_holds_its_sum_however_large(amounts: list[int]) -> None:
    cells = Cells(4)
    place = cells.allocate(2)
    for amount in amounts:
        cells.gain(place, amount)
    assert (cells.value(place), cells.value(place + 1)) == (sum(amounts), 0)
    cells.share(place, place + 1)
    assert (cells.take(place), cells.value(place), cells.value(place + 1)) == (sum(amounts), 0, sum(amounts))


@pytest.mark.parametrize("count", [1, 2, 1024])
def test_cells_of_which_none_is_used_can_be_copied(count: int) -> None:
    assert Cells(count).copy().used == Cells(count).used


@given(st.lists(st.tuples(FACTORS, WEIGHTS)))
def test_a_pair_of_cells_holds_the_sum_of_products_however_large(products: list[tuple[int, int]]) -> None:
    cells = Cells(4)
    place = cells.allocate(2)
    for factor, weight in products:
        cells.gain_product(place, factor, weight)
    assert cells.product(place) == sum(factor * weight for factor, weight in products)


def test_a_block_that_was_given_back_is_used_again_and_empty() -> None:
    cells = Cells(4)
    blocks = [cells.allocate(100) for _ in range(3)]
    cells.gain(blocks[1], 5)
    cells.gain(blocks[2], 7)
    cells.release(blocks[1], 100)
    assert cells.allocate(50) not in blocks
    again = cells.allocate(100)
    assert (again, cells.value(again), cells.value(blocks[2])) == (blocks[1], 0, 7)


@given(st.lists(st.tuples(st.integers(0, 2**60) | st.integers(0, 50), AMOUNTS), max_size=200))
def test_sums_by_number_are_those_of_a_counter(added: list[tuple[int, int]]) -> None:
    sums, right = Sums(), Counter[int]()
    for key, amount in added:
        sums.add(key, amount)
        right[key] += amount
    assert dict(sums.items()) == dict(right)
    sums.clear()
    assert list(sums.items()) == []


@given(st.integers(0, LIMIT_NS) | st.integers(0, 3 * 10**9) | st.integers(0, 2**63 - 1))
def test_the_slots_of_the_hot_path_are_those_of_the_layout(ns: int) -> None:
    right = TOP_SLOT if ns > LIMIT_NS else LAYOUT.index_of(-(-ns // 1000))
    assert own_slot(ns) == slot_of_ns(ns) == right


def test_what_is_shorter_than_nothing_has_no_slot() -> None:
    with pytest.raises(IndexError, match="no slot for -1 ns"):
        own_slot(-1)


@given(st.lists(st.integers(1, 10**14), unique=True, min_size=1).map(sorted), st.data())
def test_a_value_belongs_to_the_first_bucket_whose_edge_it_does_not_pass(edges: list[int], data: st.DataObject) -> None:
    buckets = Edges(tuple(edges))
    near = st.sampled_from(edges).flatmap(lambda edge: st.integers(max(0, edge - 2), edge + 2))
    value = data.draw(near | st.integers(0, 10**15))
    assert buckets.bucket(value, own_slot(value)) == bisect_left(edges, value)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 10**14), st.integers(1, 2**60)), max_size=30))
def test_distributions_of_several_metrics_keep_apart(values: list[tuple[int, int, int]]) -> None:
    of = Distributions(3)
    for metric, ns, weight in values:
        cells = memoryview(array("q", [ns, own_slot(ns)]))
        of.add_all(metric, cells, cells[1:], 1, weight)
    for metric in range(3):
        own = [(ns, weight) for each, ns, weight in values if each == metric]
        slots = Counter[int]()
        for ns, weight in own:
            slots[own_slot(ns)] += weight
        found = Distribution(of, metric)
        assert (found.slots, found.count) == (dict(slots), slots.total())
        assert (found.sum, found.largest_ns) == (sum(ns * w for ns, w in own), max((ns for ns, _ in own), default=0))
