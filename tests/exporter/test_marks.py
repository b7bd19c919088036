from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.marks import PARTS, TURNS, Fingerprints

pytestmark = pytest.mark.both_builds

ODD = 0x9E3779B97F4A7C15
MARKS = st.integers(0, 2**64 - 1).map(lambda number: number * ODD % 2**64) | st.integers(0, 40)
FEW = st.builds(lambda part, number: part << 58 | number * ODD % 2**55 << 3, st.integers(0, 1), st.integers(0, 5_000))
"""So many of one part that it grows."""


def distinct(mark: int) -> int:
    """A mark without its lowest bits, which do not count; the eight lowest marks are as the next eight."""
    return max(mark, 8) >> 3 if mark >= 8 else 1


@given(st.lists(MARKS | FEW, max_size=2_000))
def test_a_mark_is_new_once(marks: list[int]) -> None:
    of, known = Fingerprints(kept=2), set[int]()
    for mark in marks:
        assert of.add(mark) == (distinct(mark) not in known)
        known.add(distinct(mark))
        assert mark in of


@pytest.mark.parametrize("kept", range(1, TURNS))
def test_marks_are_known_for_as_many_turns_as_are_kept_and_then_forgotten(kept: int) -> None:
    rng = Random(kept)
    of, turns = Fingerprints(kept), list[list[int]]()
    for turn in range(3 * TURNS):
        marks = [rng.randrange(2**64) for _ in range(300)]
        assert all(map(of.add, marks))
        turns.append(marks)
        for sweeps in range(PARTS + 1):
            assert of.sweep() == (turn > 0 and sweeps < PARTS)
        for age, old in enumerate(reversed(turns)):
            assert all(mark in of for mark in old) if age < kept else not any(mark in of for mark in old)
        of.turn()


def test_what_is_known_is_known_while_parts_grow_and_become_smaller_again() -> None:
    rng = Random(1)
    of, crowd = Fingerprints(kept=2), [rng.randrange(2**64) for _ in range(200_000)]
    assert all(map(of.add, crowd))
    assert not any(map(of.add, crowd))
    few = [rng.randrange(2**64) for _ in range(1_000)]
    for _ in range(2 * TURNS):
        of.turn()
        for mark in few:
            of.add(mark)
    assert all(mark in of for mark in few)
    assert not any(mark in of for mark in crowd)
    assert sum(len(part.cells) for part in of.parts) < 100_000


def test_a_part_takes_eleven_bytes_a_mark_and_a_half_at_most_once_it_is_large() -> None:
    rng, of = Random(4), Fingerprints(kept=6)
    sizes = list[float]()
    for count in range(1, 60_001):
        of.add(rng.randrange(2**58))  # of one part
        if count % 1_000 == 0:
            sizes.append(len(of.parts[0].cells) * 8 / count)
    assert max(sizes) < 24
    assert max(sizes[20:]) < 11.5


def test_marks_that_are_all_in_each_others_way_make_nothing_grow() -> None:
    of = Fingerprints(kept=2)
    crowd = [number << 3 for number in range(1, 1_001)]
    assert all(map(of.add, crowd))
    assert len(of.parts[0].cells) < 10_000
    assert sum(mark in of for mark in crowd) >= 8
