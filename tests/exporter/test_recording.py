from array import array
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.align import Offsets
from exporter.record import MISSING
from exporter.recording import LESS, Num, Tape, Unusual
from exporter.script import Script

pytestmark = pytest.mark.both_builds

Rule = Callable[[int, int, int], int]


def halves(a: int, b: int, c: int) -> int:
    """A mean, rounded half up, of what lies between the extremes."""
    low, middle, high = sorted((a, b, c))
    return (2 * (high - low) + 7) // 14 + 2 * middle


def choose(a: int, b: int, c: int) -> int:
    """Choices of every kind that rules make."""
    if a == b or not c:
        return max(a, c) - b
    if a <= b < c:
        return -a
    return sum((a, b)) if c < 5 else min((a, b, c), key=lambda each: (each // 10, each))


def look_up(a: int, b: int, c: int) -> int:
    """What sets and dictionaries make of numbers."""
    places: dict[int, int] = {}
    for each in (a, b, c):
        places[each] = places.get(each, 0) + each
    return len({a, b, c}) * 1_000 + places[a]


def recorded(rule: Rule, values: Sequence[int]) -> tuple[Script, int]:
    """The script of a rule for these numbers, and the register of what it found."""
    tape = Tape(Offsets())
    numbers = [tape.number(value) for value in values]
    found = tape.register_of(rule(*numbers))
    tape.distinguish()
    loads = [(number.register, 0, place) for place, number in enumerate(numbers)]
    return Script(tape.offsets, tape.words, len(tape.words), tape.registers, tape.constants, loads, tape.sites), found


def played(script: Script, values: Sequence[int]) -> bool:
    return bool(script.begin(memoryview(array("q", values)), memoryview(array("q", [0])), True))


NUMBERS = st.integers(-20, 20) | st.integers(-(2**59), 2**59)
THREE = st.tuples(NUMBERS, NUMBERS, NUMBERS)


@given(st.sampled_from((halves, choose, look_up)), THREE, THREE)
def test_a_script_that_holds_finds_what_the_rule_finds(
    rule: Rule, first: tuple[int, int, int], then: tuple[int, int, int]
) -> None:
    script, found = recorded(rule, first)
    assert played(script, first)
    assert script.value(found) == rule(*first)
    if played(script, then):
        assert script.value(found) == rule(*then)


@given(st.tuples(*[st.integers(-3, 3)] * 3), st.tuples(*[st.integers(-3, 3)] * 3))
def test_a_script_holds_for_numbers_that_stand_alike(one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    script, _ = recorded(halves, one)
    order = [[a < b for a in each for b in each] for each in (one, other)]
    if order[0] == order[1]:
        assert played(script, other)


def test_which_cells_there_are_is_known_and_needs_no_guard() -> None:
    tape = Tape(Offsets())
    assert tape.number(5) != MISSING
    assert tape.words == []


@pytest.mark.parametrize(
    "operation",
    [lambda n: n % 2, lambda n: n & 1, lambda n: n >> 1, lambda n: n / 2, lambda n: abs(n), lambda n: n**2, float],
)
def test_an_operation_that_cannot_be_repeated_is_refused(operation: Callable[[Num], object]) -> None:
    with pytest.raises(Unusual):
        operation(Tape(Offsets()).number(4))


def test_the_order_of_ids_is_a_guard_where_they_stand_in_rows() -> None:
    tape = Tape(Offsets())
    one, other, trace = tape.text(3, 0, 1), tape.text(2, 1, 1), tape.text(4, -1, 0)
    assert (one, {one}) == (3, {3})
    assert tape.words == [], "whether two are the same is known beforehand"
    assert min([(one, "one"), (other, "other")])[1] == "other"
    assert tape.words == [(LESS, 0, tape.ids[1, 1], tape.ids[0, 1])]
    for than in (3, trace):
        with pytest.raises(Unusual):
            sorted([one, than])


@pytest.mark.parametrize("value", [2**62, -(2**62)])
def test_numbers_that_might_overflow_are_not_recorded(value: int) -> None:
    with pytest.raises(Unusual):
        Tape(Offsets()).number(value)


@pytest.mark.parametrize("values", [(2**61, 0, 0), (-(2**61), 0, 0), (2**60, -(2**60), 1)])
def test_a_script_fails_where_numbers_might_overflow(values: tuple[int, int, int]) -> None:
    script, _ = recorded(lambda a, b, c: 2 * (a - b) + c, (1, 2, 3))
    assert played(script, (10, 2, 3))
    assert not played(script, values)
