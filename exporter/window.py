"""Exact sums over sliding windows of event time.

A window of length W is n whole slices, n = W / max(1 s, min(W/60, 10 s)) rounded down. Slice k holds the times in
((k-1) W/n, k W/n]. A window is read as of the edge `end`: the n slices up to it. What is added goes to one small slice
(a *grain*) that all windows with slices of whole multiples of it share; the running totals of a window change only when
grains enter it, leave it, or get a late value while inside. So a reading costs nothing, an addition the same however
many windows there are, and sums are exact whatever the order.

What is summed is up to the caller: amounts are integers under (series, slot), so a histogram is a series with its
slots and a counter one with a single slot. Memory follows the distinct pairs per grain, not the range.
"""

from collections.abc import Iterable, Mapping
from math import gcd
from typing import Final

SLOTS: Final = 2**16
"""Slots of one series; a pair is kept as one integer."""
SECOND_NS: Final = 1_000_000_000
NOTHING: Final[Mapping[int, int]] = {}


class Grains:
    """The values of the windows that share a grain length, `length_ns / count`."""

    def __init__(self, length_ns: int, count: int) -> None:
        self.length_ns = length_ns
        self.count = count
        self.grains: dict[int, dict[int, int]] = {}
        self.windows: list[Window] = []
        self.newest = 0
        """The newest grain that is inside any window: later ones need not be looked for in the totals."""

    def index(self, time_ns: int) -> int:
        """The grain that holds a time."""
        return -(-time_ns * self.count // self.length_ns)

    def grain(self, index: int) -> dict[int, int]:
        """The values of one grain."""
        grain = self.grains.get(index)
        if grain is None:
            grain = self.grains[index] = {}
        return grain

    def holding(self, index: int) -> list["Window"]:
        """The windows that a grain is inside of."""
        return (
            [window for window in self.windows if window.first <= index <= window.last] if index <= self.newest else []
        )

    def drop(self) -> None:
        """Forget the grains that no window will need again."""
        oldest = min(window.first for window in self.windows)
        for index in [index for index in self.grains if index < oldest]:
            del self.grains[index]


class Window:
    """One window: where it stands and the totals over what is inside. Counted in grains; a slice is some of them."""

    def __init__(self, length_ns: int, grains: Grains) -> None:
        self.length_ns = length_ns
        self.grains = grains
        self.size = length_ns * grains.count // grains.length_ns
        self.slice = self.size // slice_count(length_ns)
        self.last = 0
        """The newest grain inside; `first` is the oldest."""
        self.totals: dict[int, dict[int, int]] = {}
        grains.windows.append(self)

    @property
    def first(self) -> int:
        """The oldest grain inside."""
        return self.last - self.size + 1

    @property
    def end_ns(self) -> int:
        """The instant as of which it is read."""
        return self.last * self.grains.length_ns // self.grains.count

    def change(self, key: int, amount: int) -> None:
        """Add to the totals; what comes to nothing is dropped."""
        series, slot = divmod(key, SLOTS)
        slots = self.totals.get(series)
        if slots is None:
            slots = self.totals[series] = {}
        total = slots.get(slot, 0) + amount
        if total:
            slots[slot] = total
        else:
            slots.pop(slot, None)
            if not slots:
                del self.totals[series]

    def advance(self, time_ns: int) -> None:
        """Read as of the newest whole slice at a time; never backwards."""
        whole = time_ns * self.grains.count // (self.grains.length_ns * self.slice)
        self._advance_to(whole * self.slice)

    def finish(self, time_ns: int) -> None:
        """Read as of the end of the slice that holds a time."""
        self._advance_to(-(-self.grains.index(time_ns) // self.slice) * self.slice)

    def _advance_to(self, last: int) -> None:
        if last <= self.last:
            return
        if last - self.last > self.size:
            self._recount(last)
            return
        for index in range(self.last + 1, last + 1):
            self._apply(index - self.size, -1)
            self._apply(index, 1)
        self.last = last

    def _apply(self, index: int, sign: int) -> None:
        for key, amount in self.grains.grains.get(index, NOTHING).items():
            self.change(key, sign * amount)

    def _recount(self, last: int) -> None:
        self.last = last
        self.totals = {}
        for index in self.grains.grains:
            if self.first <= index <= last:
                self._apply(index, 1)


class Moment:
    """An event time, found once for all that is counted at it; not to be kept when windows move."""

    __slots__ = ("grains", "late")

    def __init__(self, grains: list[dict[int, int]], late: list[Window]) -> None:
        self.grains = grains
        self.late = late

    def add(self, series: int, slot: int, amount: int) -> None:
        """Count an amount."""
        if not amount:
            return
        key = series * SLOTS + slot
        for grain in self.grains:
            grain[key] = grain.get(key, 0) + amount
        for window in self.late:
            window.change(key, amount)

    def add_all(self, additions: memoryview, count: int) -> None:
        """Count many: series, slot and amount of each, one after the other."""
        for at in range(0, 3 * count, 3):
            self.add(additions[at], additions[at + 1], additions[at + 2])


class Windows:
    """Several windows over the same values."""

    def __init__(self, lengths_ns: Iterable[int], before: "Windows | None" = None) -> None:
        """Windows of these lengths; values and time are taken over from `before` where it has the same grains."""
        lengths = sorted(set(lengths_ns))
        old = {} if before is None else {(each.length_ns, each.count): each.grains for each in before.grains}
        shared: dict[tuple[int, int], Grains] = {}
        self.windows: dict[int, Window] = {}
        for length_ns in lengths:
            ratio = grain_of(length_ns)
            if ratio not in shared:
                shared[ratio] = Grains(*ratio)
                shared[ratio].grains = old.get(ratio, {})
            self.windows[length_ns] = Window(length_ns, shared[ratio])
        self.grains: list[Grains] = list(shared.values())
        self.now_ns = 0
        if before is not None:
            self.advance(before.now_ns)

    def at(self, time_ns: int) -> "Moment":
        """An event time at which amounts are counted."""
        places = [(grains, grains.index(time_ns)) for grains in self.grains]
        return Moment(
            [grains.grain(index) for grains, index in places],
            [window for grains, index in places for window in grains.holding(index)],
        )

    def add(self, time_ns: int, series: int, slot: int, amount: int) -> None:
        """Count an amount at an event time."""
        self.at(time_ns).add(series, slot, amount)

    def advance(self, time_ns: int) -> None:
        """Move every window on, and drop what none will need."""
        self.now_ns = max(self.now_ns, time_ns)
        for window in self.windows.values():
            window.advance(time_ns)
        self._settle()

    def finish(self, time_ns: int) -> None:
        """Read as of the end of the slice that holds a time after which nothing comes."""
        for window in self.windows.values():
            window.finish(time_ns)
        self._settle()

    def _settle(self) -> None:
        for grains in self.grains:
            grains.newest = max(window.last for window in grains.windows)
            grains.drop()

    def slots(self, length_ns: int, series: int) -> Mapping[int, int]:
        """The totals of one series in one window, by slot."""
        return self.windows[length_ns].totals.get(series, NOTHING)

    def total(self, length_ns: int, series: int, slot: int = 0) -> int:
        """One total in one window."""
        return self.slots(length_ns, series).get(slot, 0)


def slice_count(length_ns: int) -> int:
    """Slices of a window: as long as a sixtieth, but one second at least and ten at most."""
    return max(1, length_ns // max(SECOND_NS, min(length_ns // 60, 10 * SECOND_NS)))


def grain_of(length_ns: int) -> tuple[int, int]:
    """The grain of a window: a second where slices are whole seconds, else the slice; as a fraction of nanoseconds."""
    count = slice_count(length_ns)
    if length_ns % (count * SECOND_NS) == 0:
        return SECOND_NS, 1
    common = gcd(length_ns, count)
    return length_ns // common, count // common
