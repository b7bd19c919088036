from array import array

import pytest

from exporter.align import BUCKET_NS, Bound, Observation, Offsets
from exporter.recording import ADD, OBSERVE, Num, Tape
from exporter.script import Script

pytestmark = pytest.mark.both_builds

OUTER, INNER = 1, 2
NOW = 30 * BUCKET_NS


def script_of(tape: Tape, *loads: int) -> Script:
    return Script(
        tape.offsets, tape.words, len(tape.words), tape.registers, tape.constants,
        [(register, 0, place) for place, register in enumerate(loads)], tape.sites,
    )  # fmt: skip


def play(script: Script, *values: int, observing: bool = True) -> bool:
    return bool(script.begin(memoryview(array("q", values)), memoryview(array("q", [0])), observing))


def observed(low: int | None, high: int) -> Offsets:
    offsets = Offsets()
    offsets.observe(Observation(OUTER, INNER, low, high, NOW))
    return offsets


def test_bounds_of_clocks_are_asked_for_anew_when_they_change() -> None:
    offsets = observed(-50, 90)
    tape = Tape(offsets)
    time = tape.number(NOW)
    bound = tape.along((OUTER, INNER), time)
    assert isinstance(bound.low, Num)
    assert isinstance(bound.high, Num)
    low, high = bound.low.register, bound.high.register
    script = script_of(tape, time.register)
    assert play(script, NOW + 5)
    assert (script.value(low), script.value(high)) == (-50, 90)
    offsets.observe(Observation(OUTER, INNER, -40, 60, NOW))
    assert play(script, NOW + 5)
    assert (script.value(low), script.value(high)) == (-40, 60)


def test_bounds_are_those_of_the_clocks_of_each_request() -> None:
    offsets = observed(-50, 90)
    offsets.observe(Observation(OUTER, INNER + 1, -7, 7, NOW))
    tape = Tape(offsets)
    time, clock = tape.number(NOW), tape.text(INNER, 0, 1)
    low = tape.along((OUTER, clock), time).low
    assert isinstance(low, Num)
    script = Script(
        offsets, tape.words, len(tape.words), tape.registers, tape.constants, [(time.register, 0, 0)], tape.sites,
        [(register, row, cell) for (row, cell), register in tape.ids.items()],
    )  # fmt: skip
    for inner, bound in [(INNER, -50), (INNER + 1, -7), (INNER, -50)]:
        assert play(script, NOW, inner)
        assert script.value(low.register) == bound
    assert not play(script, NOW, INNER + 2), "nothing is known of that one"


def test_a_bound_that_is_not_there_any_more_fails_the_script() -> None:
    offsets = observed(-50, 90)
    tape = Tape(offsets)
    time = tape.number(NOW)
    tape.along((OUTER, INNER), time)
    script = script_of(tape, time.register)
    assert play(script, NOW)
    assert not play(script, NOW + 100 * BUCKET_NS), "long after all that was seen"


@pytest.mark.parametrize("low", [None, -30])
def test_what_spans_tell_of_clocks_is_told_each_time_that_it_says_more(low: int | None) -> None:
    tape = Tape(Offsets())
    numbers = [tape.number(value) for value in (NOW, 70, -30)]
    tape.observe(Observation(OUTER, INNER, None if low is None else numbers[2], numbers[1], numbers[0]))
    script = script_of(tape, *(number.register for number in numbers))
    steps = [((NOW, 70, -30), 70), ((NOW, 80, -90), 70), ((NOW, 40, -30), 40), ((NOW + BUCKET_NS, 60, -30), 40)]
    for values, high in steps:
        assert play(script, *values)
        assert tape.offsets.between(OUTER, INNER, NOW) == Bound(low, high)


def test_nothing_is_told_where_that_is_not_wanted() -> None:
    tape = Tape(Offsets())
    numbers = [tape.number(value) for value in (NOW, 70)]
    tape.observe(Observation(OUTER, INNER, None, numbers[1], numbers[0]))
    assert play(script_of(tape, *(number.register for number in numbers)), NOW, 70, observing=False)
    assert not tape.offsets.pairs


@pytest.mark.parametrize(
    ("words", "loads", "split", "message"),
    [
        ([(ADD, 2, 0, 1)], [], 1, "operation 0 into 2"),
        ([(ADD, 0, 0, -1)], [], 1, "operation 0 of 0 and -1"),
        ([(OBSERVE, 1, 0, 0)], [], 1, "operation 5 into 1"),
        ([(OBSERVE, 0, 0, 0)], [], 1, "operation 5 of 0 and 0"),
        ([(12, 0, 0, 0)], [], 1, "operation 12"),
        ([], [(7, 0, 0)], 0, "registers .7, 0, 1., split 0"),
        ([], [(-1, 0, 0)], 0, "registers .-1, 0, 1."),
        ([], [], 1, "split 1"),
    ],
)
def test_a_script_about_registers_that_there_are_not_is_refused(
    words: list[tuple[int, int, int, int]], loads: list[tuple[int, int, int]], split: int, message: str
) -> None:
    with pytest.raises(IndexError, match=message):
        Script(Offsets(), words, split, 2, {}, loads, [(-1, -1, 0, 1)])


@pytest.mark.parametrize("clocks", [(0,), (0, 1, 0, 1, 0), (0, 2), (0, -1)])
def test_a_script_about_clocks_that_it_cannot_know_is_refused(clocks: tuple[int, ...]) -> None:
    with pytest.raises(IndexError):
        Script(Offsets(), [], 0, 2, {}, [], [(-1, -1, *clocks)])
