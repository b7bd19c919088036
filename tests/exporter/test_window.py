import pytest

from exporter.window import Windows, slice_count

pytestmark = pytest.mark.both_builds

S = 1_000_000_000
MINUTE = 60 * S
HOUR = 60 * MINUTE
NOW = 1_700_000_000 * S
"""A whole multiple of ten seconds, as are all slices here."""


def read(windows: Windows, length: int, series: int = 7) -> dict[int, int]:
    return dict(windows.slots(length, series))


def at(*seconds: float, lengths: tuple[int, ...] = (MINUTE,)) -> Windows:
    """Windows with one request at each of these seconds after NOW."""
    windows = Windows(lengths)
    for second in seconds:
        windows.add(NOW + round(second * S), 7, 0, 1)
    return windows


@pytest.mark.parametrize(
    ("length", "slices"),
    [
        (10 * S, 10), (30 * S, 30), (MINUTE, 60), (90 * S, 60), (5 * MINUTE, 60), (10 * MINUTE, 60),
        (30 * MINUTE, 180), (HOUR, 360), (24 * HOUR, 8640), (7 * 24 * HOUR, 60480), (S, 1), (S // 2, 1),
        (10 * S + S // 2, 10), (61 * S, 60), (605 * S, 60),
    ],
)  # fmt: skip
def test_a_slice_is_a_sixtieth_of_its_window_but_one_to_ten_seconds(length: int, slices: int) -> None:
    assert slice_count(length) == slices
    if length >= 10 * S:
        assert max(S, min(length // 60, 10 * S)) <= length / slices < 1.1 * max(S, min(length / 60, 10 * S))


# What is inside


@pytest.mark.parametrize(
    ("second", "inside"),
    [(-60, 0), (-59.999999999, 1), (-30, 1), (-0.000000001, 1), (0, 1), (0.000000001, 0), (1, 0)],
)
def test_a_window_holds_what_is_after_its_start_and_up_to_its_end(second: float, inside: int) -> None:
    windows = Windows([MINUTE])
    windows.add(NOW + round(second * 1_000_000_000), 7, 0, 1)
    windows.advance(NOW)
    assert windows.total(MINUTE, 7) == inside
    assert windows.windows[MINUTE].end_ns == NOW


@pytest.mark.parametrize(("now", "end"), [(0, 0), (0.5, 0), (0.999999999, 0), (1, 1), (1.5, 1)])
def test_a_window_ends_with_the_newest_whole_slice(now: float, end: float) -> None:
    windows = at(-59.5, 0.5)
    windows.advance(NOW + round(now * S))
    assert windows.windows[MINUTE].end_ns == NOW + round(end * S)
    assert windows.total(MINUTE, 7) == 1


def test_a_window_of_an_hour_goes_in_steps_of_ten_seconds() -> None:
    windows = at(5, lengths=(HOUR,))
    totals = []
    for second in (4, 9, 10, 11, 3_609, 3_610):
        windows.advance(NOW + second * S)
        totals.append(windows.total(HOUR, 7))
    assert totals == [0, 0, 1, 1, 1, 0]


def test_a_window_is_empty_until_it_is_first_read() -> None:
    windows = at(0)
    assert (windows.total(MINUTE, 7), read(windows, MINUTE)) == (0, {})


def test_a_window_empties_when_traffic_stops() -> None:
    windows = at(-1)
    for second in range(62):
        windows.advance(NOW + second * S)
    assert read(windows, MINUTE) == {}


def test_a_late_value_enters_the_window_that_it_belongs_to() -> None:
    windows = at()
    windows.advance(NOW)
    windows.add(NOW - 30 * S, 7, 0, 1)
    assert windows.total(MINUTE, 7) == 1
    windows.add(NOW - 61 * S, 7, 0, 1)
    assert windows.total(MINUTE, 7) == 1
    windows.advance(NOW + 29 * S)
    assert windows.total(MINUTE, 7) == 1
    windows.advance(NOW + 30 * S)
    assert windows.total(MINUTE, 7) == 0


def test_a_value_from_ahead_waits_for_its_slice() -> None:
    windows = at(10)
    windows.advance(NOW)
    assert windows.total(MINUTE, 7) == 0
    windows.advance(NOW + 10 * S)
    assert windows.total(MINUTE, 7) == 1


def test_a_window_never_goes_backwards() -> None:
    windows = at(-59)
    windows.advance(NOW)
    windows.advance(NOW + 5 * S)
    windows.advance(NOW)
    assert (windows.windows[MINUTE].end_ns, windows.total(MINUTE, 7)) == (NOW + 5 * S, 0)


@pytest.mark.parametrize("jump", [59, 60, 61, 100_000])
def test_a_jump_leaves_what_is_still_inside(jump: int) -> None:
    windows = at(0, 0.5, 100_000)
    windows.advance(NOW)
    windows.advance(NOW + jump * S)
    assert windows.total(MINUTE, 7) == {59: 2, 60: 1, 61: 0, 100_000: 1}[jump]


def test_the_end_of_the_input_is_inside() -> None:
    windows = at(-59.5, -1, 0.5, lengths=(MINUTE, 5 * MINUTE))
    windows.finish(NOW + S // 2)
    assert windows.total(MINUTE, 7) == 2
    assert windows.windows[MINUTE].end_ns == NOW + S
    assert windows.windows[5 * MINUTE].end_ns == NOW + 5 * S
    assert windows.total(5 * MINUTE, 7) == 3


# Series and slots


def test_series_and_slots_are_told_apart() -> None:
    windows = Windows([MINUTE])
    for series, slot, amount in ((0, 0, 1), (0, 65_535, 2), (1, 0, 3), (10**6, 65_535, 4), (0, 0, 10)):
        windows.add(NOW, series, slot, amount)
    windows.advance(NOW)
    assert read(windows, MINUTE, 0) == {0: 11, 65_535: 2}
    assert read(windows, MINUTE, 1) == {0: 3}
    assert read(windows, MINUTE, 10**6) == {65_535: 4}
    assert read(windows, MINUTE, 2) == {}
    assert windows.total(MINUTE, 0, 65_535) == 2


def test_what_comes_to_nothing_leaves_no_slot_behind() -> None:
    windows = Windows([MINUTE])
    windows.advance(NOW)
    windows.add(NOW, 7, 3, 5)
    windows.add(NOW - S, 7, 3, -5)
    windows.add(NOW, 8, 0, 0)
    assert (read(windows, MINUTE, 7), read(windows, MINUTE, 8)) == ({}, {})


def test_windows_of_different_lengths_hold_the_same_values() -> None:
    windows = at(*range(0, 3600, 10), lengths=(MINUTE, 5 * MINUTE, 30 * MINUTE, HOUR))
    windows.advance(NOW + 3_600 * S - 1)
    assert [windows.total(length, 7) for length in (MINUTE, 5 * MINUTE, 30 * MINUTE, HOUR)] == [6, 30, 180, 360]


# Keeping house


def test_what_no_window_needs_is_dropped() -> None:
    windows = Windows([MINUTE, HOUR])
    for second in range(10_000):
        windows.add(NOW + second * S, second % 3, 0, 1)
        windows.advance(NOW + second * S)
    kept = sum(len(level.grains) for grains in windows.grains for level in grains.levels)
    assert kept <= 360 + 120
    assert sum(windows.total(HOUR, series) for series in range(3)) == 3_600


def test_windows_that_are_set_anew_take_over_what_was_counted() -> None:
    before = at(-50, -20, lengths=(MINUTE, 5 * MINUTE))
    before.advance(NOW)
    after = Windows([30 * S, MINUTE], before)
    after.advance(NOW + S)
    assert (after.total(30 * S, 7), after.total(MINUTE, 7)) == (1, 2)
    after.add(NOW, 7, 0, 1)
    assert before.total(MINUTE, 7) == 2, "the old windows stay as they were"


def test_latencies_that_wait_in_a_window_take_about_a_byte_each() -> None:
    """A hundred of a series in ten seconds, spread over a thousand slots."""
    windows = Windows([MINUTE, HOUR])
    for second in range(0, 1_000):
        for sample in range(100):
            windows.add(NOW + second * S, sample % 10, 5_000 + (second * 7_919 + sample * 104_729) % 1_000, 2**20)
        windows.advance(NOW + second * S)
    assert windows.windows[HOUR].totals[0] != {}
    old = [grain for level in windows.grains[0].levels[1:] for grain in level.grains.values()]
    packed = sum(len(piece) for grain in old for piece in grain.pieces)
    assert packed <= 1.0 * sum(100 * level.step for level in windows.grains[0].levels[1:] for _ in level.grains)


def test_windows_that_move_in_steps_take_their_time() -> None:
    windows = Windows([MINUTE])
    for slot in range(1_000):
        windows.add(NOW, slot % 100, slot, 2**20)
    windows.aim(NOW)
    steps = 1
    while windows.work(100):
        steps += 1
    assert steps > 5
    assert sum(sum(slots.values()) for slots in windows.windows[MINUTE].totals.values()) == 1_000 * 2**20
