import heapq
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.places import Places, Ranked

pytestmark = pytest.mark.both_builds

FEW = st.integers(-2, 2) | st.integers(-(2**62), 2**62)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(-1, 9)), max_size=400))
def test_places_are_those_of_a_mapping(steps: list[tuple[int, int]]) -> None:
    places, known = Places(), dict[int, int]()
    for number, place in steps:
        key = number * 0x9E3779B97F4A7C15 % 2**64
        assert places.find(key) == known.get(key, -1)
        if place < 0:
            places.remove(key)
            known.pop(key, None)
        else:
            places.put(key, place)
            known[key] = place
    assert places.count == len(known)


def test_places_that_come_and_go_in_thousands_are_found() -> None:
    rng, places, known = Random(5), Places(), dict[int, int]()
    for number in range(60_000):
        key = rng.getrandbits(64) or 1
        places.put(key, number)
        known[key] = number
        if number % 3 == 0:
            gone = next(iter(known))
            places.remove(gone)
            del known[gone]
    assert all(places.find(key) == place for key, place in known.items())
    assert places.count == len(known)


@given(st.lists(st.one_of(st.tuples(FEW, FEW, FEW), st.none()), max_size=300))
def test_what_is_least_of_three_numbers_comes_out_first(steps: list[tuple[int, int, int] | None]) -> None:
    ranked, heap = Ranked(), list[tuple[int, int, int, int]]()
    for place, step in enumerate(steps):
        if step is None:
            expected = heapq.heappop(heap)[3] if heap else -1
            assert ranked.pop(2**63 - 1, 0, 0) == expected
        else:
            ranked.push(*step, place)
            heapq.heappush(heap, (*step, place))
    assert ranked.size == len(heap)


def test_only_what_is_no_more_comes_out() -> None:
    ranked = Ranked()
    for place, numbers in enumerate([(1, 5, 0), (1, 4, 9), (2, 0, 0)]):
        ranked.push(*numbers, place)
    assert [ranked.pop(1, 4, 10) for _ in range(2)] == [1, -1]
    assert [ranked.pop(1, 5, 0) for _ in range(2)] == [0, -1]
    assert [ranked.pop(3, 0, 0) for _ in range(2)] == [2, -1]


def test_more_come_out_in_order_than_there_was_room_for_at_first() -> None:
    rng, ranked = Random(6), Ranked()
    numbers = [(rng.randrange(100), rng.randrange(100), rng.randrange(100)) for _ in range(5_000)]
    for place, each in enumerate(numbers):
        ranked.push(*each, place)
    found = [ranked.pop(1_000, 0, 0) for _ in numbers]
    assert found == [place for _, place in sorted((each, place) for place, each in enumerate(numbers))]
