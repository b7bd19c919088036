"""Exact sums over sliding windows of event time.

A window of length W is n whole slices, n = W / max(1 s, min(W/60, 10 s)) rounded down. Slice k holds the times in
((k-1) W/n, k W/n]. A window is read as of the edge `end`: the n slices up to it. What is added goes to one small slice
(a *grain*) that all windows with slices of whole multiples of it share; the running totals of a window change only when
grains enter it, leave it, or get a late value while inside. So a reading costs nothing, an addition the same however
many windows there are, and sums are exact whatever the order.

What is summed is up to the caller: amounts are integers under (series, slot), so a histogram is a series with its
slots and a counter one with a single slot. Memory follows the distinct pairs per grain, not the range: grains that
enter a window are packed (exporter.grain), and those that only windows of longer slices still hold become one.

To move windows is much work where much was counted, so it can be done in steps: `aim` says as of when they shall be
read, `work` goes on for a while. Nobody sees a window half moved. Whoever reads finishes the move first, and a value
that comes meanwhile is counted once: a slice is inside from the moment on at which its values begin to be added, so
what comes later to its grains is added at once, and leaves from the moment on at which they begin to be taken away.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import gcd
from typing import Final

from exporter.grain import Grain, Merge, Reader
from exporter.histogram import quantile_slot
from exporter.record import MOST_WEIGHT, WEIGHT_ONE
from exporter.totals import Totals

SLOTS: Final = 65_536
"""Slots of one series."""
LIMIT: Final = 0x4000_0000_0000_0000
SECOND_NS: Final = 1_000_000_000
LONG_AGO: Final = -(2**62)
"""Before the first grain that may be."""
FINE_NS: Final = 60 * SECOND_NS
"""Younger grains stay short, so that windows of other lengths can take them over."""
STEP: Final = 30_000
"""Amounts that `work` moves if not told otherwise: a few milliseconds."""
UNIT: Final = WEIGHT_ONE
LAST: Final = 0x7FFF_FFFF_FFFF_FFFF
"""After every series."""
ALL: Final = 2**62
"""More than there is to do."""
LOOSE: Final = 4_096
"""Amounts that are packed by the way."""
KEPT: Final = 256
"""Moments that are remembered."""


class Level:
    """Grains of one length: `step` of the finest ones, the last of which has a number that is a multiple of it.

    It holds what is after `bound`, up to the bound of the finer level before it. By `gone`, windows that need finer
    grains than these: they must be past whatever gets here.
    """

    def __init__(self, step: int, gone: "list[Window]") -> None:
        self.step = step
        self.gone = gone
        self.bound = LONG_AGO
        self.grains: dict[int, Grain] = {}
        """By the last of the finest grains in it."""

    def drop(self, since: int, oldest: int) -> None:
        """Forget what ended before `oldest`; there is nothing from before `since`."""
        if oldest - since > self.step * len(self.grains):
            for last in [last for last in self.grains if last < oldest]:
                del self.grains[last]
            return
        for last in range(-(-since // self.step) * self.step, oldest, self.step):
            self.grains.pop(last, None)


class Grains:
    """The values of the windows that share a grain length, `length_ns / count`."""

    def __init__(self, length_ns: int, count: int) -> None:
        self.length_ns = length_ns
        self.count = count
        self.windows: list[Window] = []
        self.levels = [Level(1, [])]
        self.oldest = LONG_AGO
        """The first grain that a window may need again."""
        self.merge: Merge | None = None
        """Of grains of `merge_from` that become the grain `merge_last` of `merge_to`."""
        self.merge_from = self.merge_to = self.levels[0]
        self.merge_last = 0

    def join(self, windows: "list[Window]") -> None:
        """Serve these windows, ascending by length."""
        self.windows = windows
        for place in range(1, len(windows) + 1):
            step = gcd(*(window.slice for window in windows[place - 1 :]))
            if step > self.levels[-1].step:
                self.levels.append(Level(step, windows[: place - 1]))

    def take(self, before: "Grains") -> None:
        """Hold what others hold; what is in a long grain already counts as of its end."""
        for level in before.levels:
            for last, each in level.grains.items():
                self.grain(last).take(each)

    def index(self, time_ns: int) -> int:
        """The finest grain that holds a time."""
        return -(-time_ns * self.count // self.length_ns)

    def grain(self, index: int) -> Grain:
        """The values at a time."""
        level = next(level for level in self.levels if index > level.bound)
        last = -(-index // level.step) * level.step
        found = level.grains.get(last)
        if found is None:
            found = level.grains[last] = Grain()
        return found

    def between(self, first: int, last: int) -> list[Grain]:
        """The grains of a slice."""
        places = (
            (level, index)
            for level in self.levels
            if last > level.bound
            for index in range(first + level.step - 1, last + 1, level.step)
        )
        return [level.grains[index] for level, index in places if index in level.grains]

    def holding(self, index: int) -> "list[int]":
        """The windows that a grain is inside of."""
        return [window.number for window in self.windows if window.left < index <= window.entered]

    # Keeping house.

    def pack(self, until: int) -> None:
        """Pack what is in the finest grains up to one."""
        for index, grain in self.levels[0].grains.items():
            if index <= until:
                grain.pack()

    def tidy(self, budget: int) -> int:
        """Forget what no window will need again, and merge grains; what is left of the budget, if all is done."""
        oldest = min(window.left for window in self.windows) + 1
        if oldest > self.oldest:
            for level in self.levels:
                level.drop(self.oldest, oldest)
            self.oldest = oldest
        while budget > 0 and (self.merge is not None or self._begin()):
            budget = self._merge(budget)
        return budget

    def _begin(self) -> bool:
        """Begin to merge the oldest grains that may be; False where there are none."""
        for place in range(1, len(self.levels)):
            finer, level = self.levels[place - 1], self.levels[place]
            bound = self._bound(level)
            if place > 1:
                bound = min(bound, self.levels[place - 2].bound // level.step * level.step)
            if bound <= finer.bound:
                continue
            oldest = min((last for last in finer.grains if last <= bound), default=None)
            if oldest is not None:
                self.merge_from, self.merge_to = finer, level
                self.merge_last = -(-oldest // level.step) * level.step
                for each in self._sources():
                    each.pack()
                    each.merged = len(each.pieces)
                self.merge = Merge([piece for each in self._sources() for piece in each.pieces])
                return True
            finer.bound = bound
        return False

    def _bound(self, level: Level) -> int:
        """The newest grain that may be in one of this level."""
        newest = max(window.entered for window in self.windows)
        bound = min([window.left for window in level.gone], default=newest)
        bound = min(bound, newest - FINE_NS * self.count // self.length_ns)
        return bound // level.step * level.step

    def _sources(self) -> list[Grain]:
        finer, last = self.merge_from, self.merge_last
        places = range(last - self.merge_to.step + finer.step, last + 1, finer.step)
        return [finer.grains[index] for index in places if index in finer.grains]

    def _merge(self, budget: int) -> int:
        merge = self.merge
        assert merge is not None
        budget = merge.step(budget)
        if budget > 0:
            self.merge = None
            merged, finer, last = Grain(), self.merge_from, self.merge_last
            for each in self._sources():
                each.pieces = each.pieces[each.merged :]
                merged.take(each)
            merged.pieces.insert(0, merge.done())
            for index in range(last - self.merge_to.step + finer.step, last + 1, finer.step):
                finer.grains.pop(index, None)
            self.merge_to.grains[last] = merged
            finer.bound = last
        return budget


class Window:
    """One window: where it stands, and where it is on the way there. Counted in grains; a slice is some of them."""

    def __init__(self, number: int, length_ns: int, grains: Grains, mover: "Mover") -> None:
        self.number = number
        self.length_ns = length_ns
        self.grains = grains
        self.mover = mover
        self.size = length_ns * grains.count // grains.length_ns
        self.slice = self.size // slice_count(length_ns)
        self.last = 0
        """The newest grain inside, once all is done."""
        self.entered = 0
        """The newest whose values have begun to be added."""
        self.left = -self.size
        """The newest whose values have begun to be taken away."""

    @property
    def end_ns(self) -> int:
        """The instant as of which it is read."""
        return self.last * self.grains.length_ns // self.grains.count

    @property
    def totals(self) -> "InWindow":
        """What is inside, by series and slot."""
        self.mover.settle()
        return InWindow(self.number, self.mover.counts)

    def aim(self, time_ns: int) -> None:
        """Be read as of the newest whole slice at a time; never backwards."""
        whole = time_ns * self.grains.count // (self.grains.length_ns * self.slice)
        self.last = max(self.last, whole * self.slice)

    def aim_beyond(self, time_ns: int) -> None:
        """Be read as of the end of the slice that holds a time."""
        self.last = max(self.last, -(-self.grains.index(time_ns) // self.slice) * self.slice)

    def jump(self) -> None:
        """Where nothing stays inside, begin anew before the first values that will be."""
        if self.last - self.entered <= self.size:
            return
        self.mover.counts.clear(self.number)
        self.left = self.last - self.size
        known = (last for level in self.grains.levels for last in level.grains)
        first = min((last for last in known if last > self.left), default=self.last + 1)
        self.entered = min(self.last, max(self.left, (first - 1) // self.slice * self.slice))


class Mover:
    """Moves windows: all that enter a slice or lose one, side by side, series by series."""

    def __init__(self, counts: Totals) -> None:
        self.counts = counts
        self.windows: list[Window] = []
        self.kept: list[Moment | None] = [None] * KEPT
        """The last few moments, until windows move."""
        self.readers: list[Reader] = []
        """Of what is being added and taken away."""

    def settle(self) -> None:
        """Have all windows where they shall be."""
        if self.readers or any(window.entered < window.last for window in self.windows):
            self.work(ALL)
        self.counts.flush()

    def work(self, budget: int) -> int:
        """Move on by about as many amounts; what is left of the budget, if all is done."""
        self.kept = [None] * KEPT
        while budget > 0:
            if self.readers:
                budget -= self.next()
            else:
                self.counts.flush()
                work = self.begin()
                if work == 0:
                    break
                budget -= work
        self.counts.flush()
        return budget

    def next(self) -> int:
        """Move one series; how much work that was."""
        reader = self.readers[0]
        series = reader.series
        for reader in self.readers:
            if reader.series < series:
                series = reader.series
        work, ended = 0, False
        for reader in self.readers:
            if reader.series == series:
                for window in reader.adds:
                    self.counts.queue(window, series, reader.run, 1)
                    work += reader.run.count
                for window in reader.takes:
                    self.counts.queue(window, series, reader.run, -1)
                    work += reader.run.count
                if not reader.next():
                    reader.series = LAST
                    ended = True
        if ended:
            readers, self.readers = self.readers, []
            for reader in readers:
                if reader.series != LAST:
                    self.readers.append(reader)
        return work + 8

    def begin(self) -> int:
        """Begin to move each window by a slice; how much work that was, 0 where all are where they shall be."""
        moves = self._moves()
        for _, grain, _ in moves:
            if grain.loose() > LOOSE:
                return grain.pack()
        work = 0
        found: dict[int, Reader] = {}
        for window in self.windows:
            if window.entered < window.last:
                work += 1
                window.entered += window.slice
                window.left = max(window.left, window.entered - window.size)
        for window, grain, sign in moves:
            grain.pack()
            for piece in grain.pieces:
                work += 100
                reader = found.get(id(piece))
                if reader is None:
                    reader = found[id(piece)] = Reader(piece)
                (reader.adds if sign > 0 else reader.takes).append(window.number)
            for key, amount in grain.beyond.items() if grain.beyond is not None else ():
                self.counts.add(window.number, key // SLOTS, key % SLOTS, sign * amount)
        self.readers = [reader for reader in found.values() if reader.begin()]
        return work

    def _moves(self) -> list[tuple[Window, Grain, int]]:
        """What enters windows and what leaves them, of the next slice of each."""
        moves = []
        for window in self.windows:
            window.jump()
            if window.entered < window.last:
                entered, left = window.entered + window.slice, window.left + window.slice
                moves += [(window, grain, 1) for grain in window.grains.between(window.entered + 1, entered)]
                if entered - window.left > window.size:
                    moves += [(window, grain, -1) for grain in window.grains.between(window.left + 1, left)]
        return moves


class InWindow(Mapping[int, Mapping[int, int]]):
    """What is inside a window, by series and slot."""

    def __init__(self, number: int, counts: Totals) -> None:
        self.number = number
        self.counts = counts

    def __getitem__(self, series: int) -> Mapping[int, int]:
        if not self.counts.has(self.number, series):
            raise KeyError(series)
        return self.counts.slots(self.number, series)

    def __iter__(self) -> Iterator[int]:
        return iter(self.counts.numbers(self.number))

    def __len__(self) -> int:
        return self.counts.series[self.number]


class Moment:
    """An event time, found once for all that is counted at it; not to be kept when windows move.

    Amounts are below 2^62 in size, but for those of `add_large`. One without arguments is nowhere: it drops all.
    """

    def __init__(
        self, index: int = 0, grains: Sequence[Grain] = (), late: Sequence[int] = (), totals: Totals | None = None
    ) -> None:
        self.index = index
        self.grain = grains[0] if grains else None
        self.others = list(grains[1:])
        self.late = list(late)
        self.totals = totals

    def add(self, series: int, slot: int, amount: int) -> None:
        """Count an amount."""
        if amount >= LIMIT or amount <= -LIMIT:
            self.add_large(series, slot, amount)
        elif self.grain is not None and amount != 0:
            key = series * SLOTS + slot
            self.grain.add(key, amount)
            for grain in self.others:
                grain.add(key, amount)
            if self.late and self.totals is not None:
                self.totals.queue_one(self.late, series, slot, amount)

    def add_product(self, series: int, slot: int, factor: int, weight: int) -> None:
        """Count a number of tokens, not negative, times a weight."""
        if factor <= MOST_WEIGHT and weight <= MOST_WEIGHT:
            self.add(series, slot, factor * weight)
        else:
            self.add_large(series, slot, _times(factor, weight))

    def add_slots(self, series: int, slots: memoryview, count: int, amount: int) -> None:
        """Count an amount in each of so many slots."""
        if self.grain is not None and amount == UNIT and not self.others:
            self.grain.add_slots(series * SLOTS, slots, count)
            if self.late and self.totals is not None:
                for index in range(count):
                    self.totals.queue_one(self.late, series, slots[index], amount)
        else:
            for index in range(count):
                self.add(series, slots[index], amount)

    def add_large(self, series: int, slot: int, amount: int) -> None:
        """Count an amount of any size."""
        if self.grain is None or self.totals is None:
            return
        for grain in (self.grain, *self.others):
            grain.add_large(series * SLOTS + slot, amount)
        for window in self.late:
            self.totals.add(window, series, slot, amount)


class Windows:
    """Several windows over the same values."""

    def __init__(self, lengths_ns: Iterable[int], before: "Windows | None" = None) -> None:
        """Windows of these lengths; values and time are taken over from `before` where it has the same grains."""
        lengths = sorted(set(lengths_ns))
        self.counts = Totals(len(lengths))
        self.mover = Mover(self.counts)
        self.windows: dict[int, Window] = {}
        shared: dict[tuple[int, int], Grains] = {}
        for number, length_ns in enumerate(lengths):
            ratio = grain_of(length_ns)
            grains = shared.setdefault(ratio, Grains(*ratio))
            self.windows[length_ns] = Window(number, length_ns, grains, self.mover)
        self.mover.windows = list(self.windows.values())
        self.grains: list[Grains] = list(shared.values())
        for grains in self.grains:
            grains.join([window for window in self.windows.values() if window.grains is grains])
        first = self.grains[0] if len(self.grains) == 1 else None
        self.grain_ns = first.length_ns if first is not None and first.count == 1 else 0
        """The length of all grains, where it is one, and whole; else 0."""
        self.now_ns = 0
        if before is not None:
            old = {(each.length_ns, each.count): each for each in before.grains}
            for grains in self.grains:
                if (grains.length_ns, grains.count) in old:
                    grains.take(old[grains.length_ns, grains.count])
            self.advance(before.now_ns)

    # What is added.

    def at(self, time_ns: int) -> "Moment":
        """An event time at which amounts are counted; the same object for all times in a grain, until windows move."""
        if self.grain_ns == 0:
            return self._find(0, time_ns)
        index = -(-time_ns // self.grain_ns)
        found = self.mover.kept[index % KEPT]
        if found is None or found.index != index:
            found = self.mover.kept[index % KEPT] = self._find(index, time_ns)
        return found

    def is_at(self, moment: "Moment", time_ns: int) -> bool:
        """Whether this is the moment of a time."""
        return self.grain_ns != 0 and moment.grain is not None and moment.index == -(-time_ns // self.grain_ns)

    def _find(self, index: int, time_ns: int) -> "Moment":
        places = [(grains, grains.index(time_ns)) for grains in self.grains]
        places = [(grains, index) for grains, index in places if index >= grains.oldest]
        late = [window for grains, index in places for window in grains.holding(index)]
        return Moment(index, [grains.grain(index) for grains, index in places], late, self.counts)

    def add(self, time_ns: int, series: int, slot: int, amount: int) -> None:
        """Count an amount of any size at an event time."""
        if -LIMIT < amount < LIMIT:
            self.at(time_ns).add(series, slot, amount)
        else:
            self.at(time_ns).add_large(series, slot, amount)

    # How time goes on.

    def aim(self, time_ns: int) -> None:
        """Have every window be read as of a time; the work is left to `work`, or to the next who reads."""
        self.now_ns = max(self.now_ns, time_ns)
        for window in self.windows.values():
            window.aim(time_ns)

    def work(self, budget: int = STEP) -> bool:
        """Go on with what there is to do, for about so many amounts; whether there is more."""
        budget = self.mover.work(budget)
        for grains in self.grains if budget > 0 else ():
            budget = grains.tidy(budget)
        return budget <= 0

    def advance(self, time_ns: int) -> None:
        """Move every window on, and drop what none will need."""
        self.aim(time_ns)
        self.work(ALL)

    def pass_by(self, time_ns: int) -> None:
        """Go on to a time as of which nobody reads: drop what none will need, and pack the rest, but add nothing up.

        Who reads all the same has it added up then.
        """
        self.counts.flush()
        if any(self.counts.series) or self.mover.readers:  # somebody has read
            self.advance(time_ns)
            return
        self.aim(time_ns)
        self.mover.kept = [None] * KEPT
        for window in self.windows.values():
            window.left = window.entered = max(window.left, window.last - window.size)
        for grains in self.grains:
            grains.pack(grains.index(time_ns))
            grains.tidy(ALL)

    def finish(self, time_ns: int) -> None:
        """Read as of the end of the slice that holds a time after which nothing comes."""
        for window in self.windows.values():
            window.aim_beyond(time_ns)
        self.work(ALL)

    # What is read.

    def slots(self, length_ns: int, series: int) -> Mapping[int, int]:
        """The totals of one series in one window, by slot, ascending."""
        window = self.windows[length_ns]
        self.mover.settle()
        return self.counts.slots(window.number, series)

    def total(self, length_ns: int, series: int, slot: int = 0) -> int:
        """One total in one window."""
        window = self.windows[length_ns]
        self.mover.settle()
        return self.counts.total(window.number, series, slot)

    def ranked(self, length_ns: int, series: int, shares: Sequence[tuple[int, int]]) -> tuple[int, ...] | None:
        """The sum of one series in one window, and the slots of percentiles by nearest rank; None for an empty one.

        `shares`: numerator and denominator of p / 100. What `slots` and `quantile_slot` give, but fast.
        """
        window = self.windows[length_ns]
        self.mover.settle()
        try:
            return self.counts.ranked(window.number, series, shares)
        except OverflowError:
            return _ranked(self.counts.slots(window.number, series), shares)


def _times(factor: int, weight: int) -> int:
    """A product that may not fit into 64 bits."""
    return factor * weight


def _ranked(slots: Mapping[int, int], shares: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    ranked = [quantile_slot(slots, Fraction(100 * numerator, denominator)) for numerator, denominator in shares]
    return (sum(slots.values()), *[slot for slot in ranked if slot is not None])


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
