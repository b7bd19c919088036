"""Exact sums over sliding windows of event time.

A window of length W is n whole slices, n = W / max(1 s, min(W/60, 10 s)) rounded down. Slice k holds the times in
((k-1) W/n, k W/n]. A window is read as of the edge `end`: the n slices up to it. What is added goes to its slice; the
running totals of a window are changed only when a slice enters it, leaves it, or gets a late value while it is inside.
So a reading costs nothing, and sums are exact whatever the order.

What is summed is up to the caller: amounts are integers under (series, slot), so a histogram is a series with its
slots and a counter one with a single slot. Memory follows the distinct pairs per slice, not the range.
"""

from collections.abc import Iterable, Mapping
from math import gcd
from typing import Final

SLOTS: Final = 2**16
"""Slots of one series; a pair is kept as one integer."""
SECOND_NS: Final = 1_000_000_000
NOTHING: Final[Mapping[int, int]] = {}


class Slices:
    """The slices that windows of one slice length share."""

    def __init__(self, length_ns: int, count: int) -> None:
        self.length_ns = length_ns
        self.count = count
        self.slices: dict[int, dict[int, int]] = {}

    def index(self, time_ns: int) -> int:
        """The slice that holds a time."""
        return -(-time_ns * self.count // self.length_ns)

    def edge(self, time_ns: int) -> int:
        """The newest slice that is whole at a time."""
        return time_ns * self.count // self.length_ns


class Window:
    """One window: its slices and the totals over those inside."""

    def __init__(self, length_ns: int, slices: Slices) -> None:
        self.length_ns = length_ns
        self.slices = slices
        self.size = length_ns * slices.count // slices.length_ns
        self.end = 0
        self.totals: dict[int, dict[int, int]] = {}

    @property
    def end_ns(self) -> int:
        """The instant as of which it is read."""
        return self.end * self.slices.length_ns // self.slices.count

    def holds(self, index: int) -> bool:
        """Whether a slice is inside."""
        return self.end - self.size < index <= self.end

    def change(self, key: int, amount: int) -> None:
        """Add to the totals; what comes to nothing is dropped."""
        series, slot = divmod(key, SLOTS)
        slots = self.totals.setdefault(series, {})
        total = slots.get(slot, 0) + amount
        if total:
            slots[slot] = total
        else:
            slots.pop(slot, None)
            if not slots:
                del self.totals[series]

    def advance(self, time_ns: int) -> None:
        """Read as of the newest whole slice at a time; never backwards."""
        self.advance_to(self.slices.edge(time_ns))

    def advance_to(self, end: int) -> None:
        """Read as of the end of a slice; never backwards."""
        if end <= self.end:
            return
        if end - self.end > self.size:
            self._recount(end)
            return
        for index in range(self.end + 1, end + 1):
            self._apply(index - self.size, -1)
            self._apply(index, 1)
        self.end = end

    def _apply(self, index: int, sign: int) -> None:
        for key, amount in self.slices.slices.get(index, NOTHING).items():
            self.change(key, sign * amount)

    def _recount(self, end: int) -> None:
        self.end = end
        self.totals = {}
        for index in self.slices.slices:
            if self.holds(index):
                self._apply(index, 1)


class Windows:
    """Several windows over the same values."""

    def __init__(self, lengths_ns: Iterable[int], before: "Windows | None" = None) -> None:
        """Windows of these lengths; slices are taken over from `before` where it has the same."""
        self.windows: dict[int, Window] = {}
        self.slices: list[Slices]
        old = {} if before is None else {(slices.length_ns, slices.count): slices for slices in before.slices}
        shared: dict[tuple[int, int], Slices] = {}
        for length_ns in sorted(set(lengths_ns)):
            ratio = _reduced(length_ns, slice_count(length_ns))
            slices = shared.setdefault(ratio, old.get(ratio) or Slices(*ratio))
            self.windows[length_ns] = Window(length_ns, slices)
        self.slices = list(shared.values())

    def add(self, time_ns: int, series: int, slot: int, amount: int) -> None:
        """Count an amount at an event time."""
        if amount == 0:
            return
        key = series * SLOTS + slot
        for slices in self.slices:
            at = slices.slices.setdefault(slices.index(time_ns), {})
            at[key] = at.get(key, 0) + amount
        for window in self.windows.values():
            if window.holds(window.slices.index(time_ns)):
                window.change(key, amount)

    def advance(self, time_ns: int) -> None:
        """Move every window on, and drop the slices that none will need."""
        for window in self.windows.values():
            window.advance(time_ns)
        self._drop()

    def finish(self, time_ns: int) -> None:
        """Read as of the end of the slice that holds a time after which nothing comes."""
        for window in self.windows.values():
            window.advance_to(window.slices.index(time_ns))
        self._drop()

    def _drop(self) -> None:
        for slices in self.slices:
            oldest = min(window.end - window.size for window in self.windows.values() if window.slices is slices)
            for index in [index for index in slices.slices if index <= oldest]:
                del slices.slices[index]

    def slots(self, length_ns: int, series: int) -> Mapping[int, int]:
        """The totals of one series in one window, by slot."""
        return self.windows[length_ns].totals.get(series, NOTHING)

    def total(self, length_ns: int, series: int, slot: int = 0) -> int:
        """One total in one window."""
        return self.slots(length_ns, series).get(slot, 0)


def slice_count(length_ns: int) -> int:
    """Slices of a window: as long as a sixtieth, but one second at least and ten at most."""
    return max(1, length_ns // max(SECOND_NS, min(length_ns // 60, 10 * SECOND_NS)))


def _reduced(length_ns: int, count: int) -> tuple[int, int]:
    """Slice length as a fraction in lowest terms, so that equal slices are shared."""
    common = gcd(length_ns, count)
    return length_ns // common, count // common
