"""Where amounts are added up: flat arrays of signed 64-bit integers that grow, exact whatever is added.

A sum that comes near the range of its cell is carried over into a Python integer, so it never wraps. Amounts that do
not fit into a cell, such as those of a span that stands for a million million requests, go there at once.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from mmap import mmap
from typing import Final, NamedTuple

from exporter.decode import words as pointers
from exporter.ground import NOTHING, Ground
from exporter.histogram import LIMIT_NS, TOP_SLOT, least_ns, own_slot
from exporter.record import WEIGHT_ONE
from exporter.sheet import ENDED, SPAN, TRACE_HI, TRACE_LO, WIDTH

CARRY: Final = 1 << 61
"""Beyond it a cell is carried over, so a cell and one more amount, which is no larger, fit into 63 bits."""
MOST_FACTOR: Final = 1 << 41
"""Factors up to it and as many whole requests as below are multiplied in place; 36 minutes in nanoseconds."""
MOST_WHOLE: Final = 1 << 19
WHOLE_BITS: Final = WEIGHT_ONE.bit_length() - 1
REST: Final = WEIGHT_ONE - 1
ODD: Final = 0x9E3779B97F4A7C15
MASK: Final = 2**64 - 1
GROUP_BITS: Final = 5
"""Slots whose first bucket is known together: 3 % of a value, which holds one edge at most, if thresholds are apart."""

# A histogram: its buckets, each the count, the sum of the values (a pair), and the newest request in it.
BUCKET: Final = 8
LINE: Final = 8
"""Cells of a line of the cache."""
SUM: Final = 1
NEWEST: Final = 3
VALUE: Final = 7
ALL_SLOTS: Final = TOP_SLOT + 1 + 72
"""With some that are never used: slots that lie a power of two apart would be in each other's way in caches."""


def layout() -> tuple[int, int, int]:
    """Cells of a bucket; in it, where the sum is, and where the newest request: its trace, span, time and value."""
    return BUCKET, SUM, NEWEST


def zeros(count: int) -> memoryview:
    """So many cells of nothing."""
    return memoryview(array("q", bytes(8 * count)))


class Cells:
    """Blocks of cells, each known by its place. Place 0 is none."""

    def __init__(self, count: int = 1024) -> None:
        self._ground = Ground(max(count, LINE))
        self.cells = self._ground.view()
        self.used = LINE
        self.free: dict[int, list[int]] = {}
        """Places of blocks that were given back, by size."""
        self.carried: dict[int, int] = {}

    def allocate(self, size: int) -> int:
        """The place of a new block of zeros, in lines of the cache of its own."""
        size = -(-size // LINE) * LINE
        free = self.free.get(size)
        if free:
            return free.pop()
        place = self.used
        self.used += size
        if self.used > len(self.cells):
            self.cells = NOTHING
            self._ground.grow(self.used + self.used // 4)
            self.cells = self._ground.view()
        return place

    def release(self, place: int, size: int) -> None:
        """Take a block back."""
        self.clear(place, size)
        self.free.setdefault(-(-size // LINE) * LINE, []).append(place)

    def clear(self, place: int, size: int) -> None:
        """Make all cells of a block zero."""
        for index in range(place, place + size):
            self.cells[index] = 0
        if self.carried:
            for index in range(place, place + size):
                self.carried.pop(index, None)

    def gain(self, place: int, amount: int) -> None:
        """Add an amount within the range of CARRY."""
        total = self.cells[place] + amount
        if -CARRY < total < CARRY:
            self.cells[place] = total
        else:
            self.cells[place] = 0
            self._carry(place, total)

    def _carry(self, place: int, amount: int) -> None:
        self.carried[place] = self.carried.get(place, 0) + amount

    def gain_product(self, place: int, factor: int, weight: int) -> None:
        """Add a factor, not negative, times a weight to the pair of cells at a place: whole requests, and the rest."""
        whole = weight >> WHOLE_BITS
        rest = weight & REST
        if factor <= MOST_FACTOR and whole <= MOST_WHOLE:
            self.gain(place, factor * whole)
            if rest:
                self.gain(place + 1, factor * rest)
        else:
            self._gain_beyond(place, factor, weight)

    def _gain_beyond(self, place: int, factor: int, weight: int) -> None:
        self.carried[place + 1] = self.carried.get(place + 1, 0) + factor * weight

    def value(self, place: int) -> int:
        """The sum in a cell."""
        return self._exact(self.cells[place], self.carried.get(place))

    def _exact(self, cell: int, carried: int | None) -> int:
        return cell if carried is None else cell + carried

    def product(self, place: int) -> int:
        """The sum of products in a pair of cells."""
        return self._scaled(self.value(place)) + self.value(place + 1)

    def _scaled(self, whole: int) -> int:
        return whole * WEIGHT_ONE

    def copy(self) -> "Cells":
        """What is in all of them now, to be read at leisure."""
        copied = Cells(self.used)
        copied.cells[: self.used] = self.cells[: self.used]
        copied.used = self.used
        copied.carried = self.carried.copy()
        return copied

    def share(self, source: int, target: int) -> None:
        """Add what is in a cell to another, too."""
        self.gain(target, self.cells[source])
        if self.carried and source in self.carried:
            self._carry(target, self.carried[source])

    def take(self, place: int) -> int:
        """What is in a cell, and leave nothing."""
        amount = self.value(place)
        self.clear(place, 1)
        return amount


class Sums:
    """Amounts by a number that is not negative, in an open table: 32 bytes each or less when it has grown."""

    def __init__(self) -> None:
        self.count = 0
        self.mask = 15
        self.shift = 60
        self.table = zeros(32)
        self.carried: dict[int, int] = {}

    def add(self, key: int, amount: int) -> None:
        """Add an amount within the range of CARRY."""
        place = self.place(key)
        if not self.table[place]:
            if 2 * self.count > self.mask:
                self.grow()
                place = self.place(key)
            self.table[place] = key + 1
            self.count += 1
        total = self.table[place + 1] + amount
        if -CARRY < total < CARRY:
            self.table[place + 1] = total
        else:
            self.table[place + 1] = 0
            self._carry(key, total)

    def _carry(self, key: int, amount: int) -> None:
        self.carried[key] = self.carried.get(key, 0) + amount

    def place(self, key: int) -> int:
        """Where the key is, or where it belongs."""
        index = (key * ODD & MASK) >> self.shift
        while self.table[2 * index] and self.table[2 * index] != key + 1:
            index = (index + 1) & self.mask
        return 2 * index

    def grow(self) -> None:
        """Twice the room."""
        old = self.table
        self.mask = 2 * self.mask + 1
        self.shift -= 1
        self.table = zeros(2 * (self.mask + 1))
        for index in range(0, len(old), 2):
            if old[index]:
                place = self.place(old[index] - 1)
                self.table[place] = old[index]
                self.table[place + 1] = old[index + 1]

    def clear(self) -> None:
        """Forget everything."""
        self.count = 0
        self.mask = 15
        self.shift = 60
        self.table = zeros(32)
        self.carried.clear()

    def items(self) -> Iterator[tuple[int, int]]:
        """The numbers with what was added to each, in no order."""
        for index in range(0, len(self.table), 2):
            if self.table[index]:
                key = self.table[index] - 1
                carried = self.carried.get(key)
                yield key, self.table[index + 1] if carried is None else carried + self.table[index + 1]


class Exemplar(NamedTuple):
    """One request that stands for a bucket or a counter."""

    trace_hi: int
    trace_lo: int
    span: int
    time_ns: int


class Edges:
    """The buckets of a metric: a value belongs to the first whose edge it does not pass."""

    def __init__(self, edges_ns: tuple[int, ...]) -> None:
        self.edges_ns = edges_ns
        self.count = len(edges_ns)
        self.size = BUCKET * (len(edges_ns) + 1)
        """Cells of a histogram with them."""
        self.edges = zeros(len(edges_ns) + 1)
        for place, edge in enumerate(edges_ns):
            self.edges[place] = edge
        self.starts = zeros((TOP_SLOT >> GROUP_BITS) + 1)
        for group in range(len(self.starts)):
            self.starts[group] = bisect_left(edges_ns, least_ns(group << GROUP_BITS))
        # All that is beyond the range shares the top slot, however far below what that slot would hold.
        self.starts[group] = min(self.starts[group], bisect_left(edges_ns, LIMIT_NS + 1))

    def bucket(self, ns: int, slot: int) -> int:
        """The bucket of a value whose slot is known."""
        place, edges = self.starts[slot >> GROUP_BITS], pointers.cells(self.edges)
        while place < self.count and edges[place] < ns:
            place += 1
        return place

    def place(self, histogram: int, ns: int) -> int:
        """The place of the bucket of a value in the histogram at a place."""
        return histogram + BUCKET * self.bucket(ns, own_slot(ns))


class Histogram:
    """Cumulative classic histogram: counts between edges (upper ones inclusive), and the sum of the values."""

    __slots__ = ("cells", "edges", "place")

    def __init__(self, edges: Edges, cells: Cells, place: int) -> None:
        """The block at a place."""
        self.edges = edges
        self.cells = cells
        self.place = place

    @classmethod
    def empty(cls, edges_ns: tuple[int, ...]) -> "Histogram":
        """Nothing counted yet, in a block of its own."""
        edges = Edges(edges_ns)
        cells = Cells(edges.size + 1)
        return cls(edges, cells, cells.allocate(edges.size))

    def add(self, value_ns: int, weight: int, exemplar: Exemplar) -> None:
        """Count one value."""
        values, slots, sheet = zeros(1), zeros(1), zeros(WIDTH)
        values[0], slots[0] = value_ns, own_slot(value_ns)
        sheet[TRACE_HI], sheet[TRACE_LO], sheet[SPAN], sheet[ENDED] = exemplar
        count_values(self.cells, self.place, self.edges, values, slots, 1, weight, sheet, zeros(1), 0, 0)

    @property
    def edges_ns(self) -> tuple[int, ...]:
        """Upper edges, the last bucket has none."""
        return self.edges.edges_ns

    @property
    def version(self) -> int:
        """Goes up with each value."""
        return sum(self.counts)

    @property
    def sum(self) -> int:
        """Of the values, times their weights."""
        return sum(self.cells.product(self._bucket(place) + SUM) for place in range(len(self.edges_ns) + 1))

    @property
    def counts(self) -> list[int]:
        """By bucket."""
        return [self.cells.value(self._bucket(place)) for place in range(len(self.edges_ns) + 1)]

    @property
    def exemplars(self) -> dict[int, tuple[Exemplar, int]]:
        """By bucket: the newest request in it, and its value."""
        found = {}
        for place, count in enumerate(self.counts):
            if count:
                cells = [self.cells.cells[self._bucket(place) + cell] for cell in range(NEWEST, VALUE + 1)]
                found[place] = Exemplar(*cells[:4]), cells[4]
        return found

    def _bucket(self, place: int) -> int:
        return self.place + BUCKET * place


def count_values(
    cells: Cells, place: int, edges: Edges, values_ns: memoryview, slots: memoryview, count: int, weight: int,
    sheets: memoryview, starts: memoryview, first: int, base: int,
) -> None:  # fmt: skip
    """Count values, whose slots are known, in the histogram at a place.

    The newest in a bucket stands for it from now on: the value with a number, from 0 on, is of the request whose sheet
    begins at `starts[first + number] + base`.
    """
    if not 0 <= place <= place + edges.size <= len(cells.cells):
        raise IndexError(f"a histogram of {edges.size} cells at {place}")
    if count > len(values_ns) or count > len(slots) or not 0 <= first <= first + count <= len(starts):
        raise IndexError(f"{count} values from {first} on")
    block, edges_ns, groups = pointers.cells(cells.cells), pointers.cells(edges.edges), pointers.cells(edges.starts)
    values, layout_slots, begins = pointers.cells(values_ns), pointers.cells(slots), pointers.cells(starts)
    shown, last = pointers.cells(sheets), len(sheets) - 1 - ENDED
    whole, plain = weight >> WHOLE_BITS, weight & REST == 0 and weight >> WHOLE_BITS <= MOST_WHOLE
    for index in range(count):
        ns = values[index]
        bucket = groups[layout_slots[index] >> GROUP_BITS]  # as in `Edges.bucket`
        while bucket < edges.count and edges_ns[bucket] < ns:
            bucket += 1
        at = place + BUCKET * bucket
        if plain and ns <= MOST_FACTOR and block[at] + weight < CARRY and block[at + SUM] + ns * whole < CARRY:
            block[at] += weight
            block[at + SUM] += ns * whole
        else:
            cells.gain(at, weight)
            cells.gain_product(at + SUM, ns, weight)
        sheet = begins[first + index] + base
        if not 0 <= sheet <= last:
            raise IndexError(f"no sheet at {sheet}")
        block[at + 3] = shown[sheet]
        block[at + 4] = shown[sheet + 1]
        block[at + 5] = shown[sheet + 2]
        block[at + 6] = shown[sheet + ENDED]
        block[at + 7] = ns


class Distributions:
    """Everything since the start of several metrics at one boundary, for the report."""

    def __init__(self, count: int) -> None:
        self.slots = memoryview(mmap(-1, 8 * count * ALL_SLOTS)).cast("q")
        """Counts by metric and slot of the layout; only what was ever counted takes memory."""
        self.sums = Cells(1 + 2 * count)
        """Of the values (pairs)."""
        self.place = self.sums.allocate(2 * count)
        self.largest = zeros(count)
        self.carried: dict[int, int] = {}

    def add_all(self, metric: int, values_ns: memoryview, slots: memoryview, count: int, weight: int) -> None:
        """Count values whose slots in the layout are known."""
        for index in range(count):
            at = metric * ALL_SLOTS + slots[index]
            total = self.slots[at] + weight
            if total > CARRY:
                self._carry(at, total)
                total = 0
            self.slots[at] = total
            self.sums.gain_product(self.place + 2 * metric, values_ns[index], weight)
            if values_ns[index] > self.largest[metric]:
                self.largest[metric] = values_ns[index]

    def _carry(self, place: int, amount: int) -> None:
        self.carried[place] = self.carried.get(place, 0) + amount


class Distribution:
    """One of them."""

    __slots__ = ("all", "metric")

    def __init__(self, all_: Distributions, metric: int) -> None:
        self.all = all_
        self.metric = metric

    @property
    def slots(self) -> dict[int, int]:
        """Counts by slot."""
        first = self.metric * ALL_SLOTS
        counts = {slot: count for slot, count in enumerate(self.all.slots[first : first + ALL_SLOTS]) if count}
        for place, carried in self.all.carried.items():
            if first <= place < first + ALL_SLOTS:
                counts[place - first] = counts.get(place - first, 0) + carried
        return counts

    @property
    def count(self) -> int:
        """Of all values."""
        return sum(self.slots.values())

    @property
    def sum(self) -> int:
        """Of the values, times their weights."""
        return self.all.sums.product(self.all.place + 2 * self.metric)

    @property
    def largest_ns(self) -> int:
        """Exact."""
        return self.all.largest[self.metric]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Distribution) and self._facts() == other._facts()

    def __hash__(self) -> int:
        raise TypeError("a distribution changes")

    def _facts(self) -> tuple[object, ...]:
        return self.slots, self.sum, self.largest_ns
