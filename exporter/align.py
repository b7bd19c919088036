"""How far the clocks of two hosts are apart, from the spans that one causes on the other.

A span [t1, t4] on clock A causes a span [t2, t3] on clock B: it starts no earlier than its cause and ends no later, so
the offset theta = B - A lies between t3 - t4 and t2 - t1. Many such bounds are intersected. Where the cause does not
wait for the end (queues, requests given up), only the upper bound holds.

Bounds are kept per minute of event time, so that the same spans give the same answer in any order. No drift is
modelled: bounds older than `MEMORY_NS` are forgotten, and an empty intersection says nothing (a clock was set).
"""

from array import array
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

BUCKET_NS: Final = 60_000_000_000
MEMORY_NS: Final = 600_000_000_000
AHEAD_NS: Final = BUCKET_NS
"""How much of the time after an instant counts for it; a replay waits that long before it measures."""
MAX_PAIRS: Final = 1_000
MOST_CLOCKS: Final = 4
"""In a chain of which the bound is remembered."""
ENTRY: Final = 4 + MOST_CLOCKS
ENTRIES: Final = 1_024


class Bound(NamedTuple):
    """Inner clock minus outer clock lies between `low` and `high`, nanoseconds; None where there is no bound."""

    low: int | None
    high: int | None

    @property
    def offset(self) -> int | None:
        """The middle: the best guess."""
        return None if self.low is None or self.high is None else (self.low + self.high) // 2

    @property
    def error(self) -> int | None:
        """Largest distance of the true offset from the midpoint."""
        return None if self.low is None or self.high is None else (self.high - self.low + 1) // 2

    @property
    def shift(self) -> int:
        """What `adjust` takes off: nothing where the clocks may well be the same, nor where nothing is known."""
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return 0
        return (self.low + self.high) // 2

    def distance(self, shift: int) -> int | None:
        """Largest distance of the true offset from a shift."""
        return None if self.low is None or self.high is None else max(self.high - shift, shift - self.low)


UNKNOWN: Final = Bound(None, None)
SAME: Final = Bound(0, 0)


class Observation(NamedTuple):
    """One pair of spans."""

    outer: int
    inner: int
    low: int | None
    high: int
    time_ns: int


class Recent:
    """Bounds of chains of clocks as they were found last: an entry each, as long as no newer one takes its place.

    An entry has ENTRY cells: the version of the offsets, the bucket of time with how many clocks there are, the ends of
    the bound, and the clocks.
    """

    def __init__(self) -> None:
        self.cells = memoryview(array("q", [-1]) * (ENTRIES * ENTRY))


class Offsets:
    """The bounds of every pair of clocks that has been seen."""

    def __init__(self) -> None:
        self.pairs: dict[tuple[int, int], dict[int, Bound]] = {}
        self.version = 0
        """Goes up with every change of a bound."""
        self.asked = Recent()
        self.told = Recent()
        """For those who play tapes (`exporter.script`): what chains of clocks and pairs of them were found to be."""

    def observe(self, observation: Observation) -> None:
        """Tighten the bound of one pair."""
        pair = (observation.outer, observation.inner)
        if pair not in self.pairs and len(self.pairs) >= MAX_PAIRS:
            return
        buckets = self.pairs.setdefault(pair, {})
        bucket = observation.time_ns // BUCKET_NS
        old = buckets.get(bucket, UNKNOWN)
        new = Bound(_tighter(max, old.low, observation.low), _tighter(min, old.high, observation.high))
        if new != old:
            buckets[bucket] = new
            self.version += 1

    def forget(self, before_ns: int) -> None:
        """Drop what is older than the memory at `before_ns`."""
        oldest = (before_ns - MEMORY_NS) // BUCKET_NS - 1
        for pair, buckets in list(self.pairs.items()):
            for bucket in [bucket for bucket in buckets if bucket < oldest]:
                del buckets[bucket]
                self.version += 1
            if not buckets:
                del self.pairs[pair]

    def between(self, outer: int, inner: int, time_ns: int) -> Bound:
        """Bound on inner minus outer around an instant; pairs are read both ways."""
        if outer == inner:
            return SAME
        first, last = (time_ns - MEMORY_NS) // BUCKET_NS, (time_ns + AHEAD_NS) // BUCKET_NS
        bound = _intersect(self._buckets((outer, inner), first, last))
        back = _intersect(self._buckets((inner, outer), first, last))
        mirrored = Bound(None if back.high is None else -back.high, None if back.low is None else -back.low)
        both = _intersect((bound, mirrored))
        if both.low is not None and both.high is not None and both.low > both.high:
            return UNKNOWN
        return both

    def along(self, clocks: Iterable[int], time_ns: int) -> Bound:
        """Bound on the last clock minus the first, along a chain of neighbours: bounds add."""
        low: int | None = 0
        high: int | None = 0
        chain = list(clocks)
        for outer, inner in pairwise(chain):
            bound = self.between(outer, inner, time_ns)
            low = None if low is None or bound.low is None else low + bound.low
            high = None if high is None or bound.high is None else high + bound.high
        return Bound(low, high)

    def newest(self) -> Iterator[tuple[int, int, Bound]]:
        """Each pair with its bound as of its newest observation."""
        for (outer, inner), buckets in self.pairs.items():
            if buckets:
                yield outer, inner, self.between(outer, inner, max(buckets) * BUCKET_NS)

    def _buckets(self, pair: tuple[int, int], first: int, last: int) -> Iterator[Bound]:
        for bucket, bound in self.pairs.get(pair, {}).items():
            if first <= bucket <= last:
                yield bound


def _intersect(bounds: Iterable[Bound]) -> Bound:
    low: int | None = None
    high: int | None = None
    for bound in bounds:
        low, high = _tighter(max, low, bound.low), _tighter(min, high, bound.high)
    return Bound(low, high)


def _tighter(choose, one: int | None, other: int | None) -> int | None:  # type: ignore[no-untyped-def]
    if one is None or other is None:
        return other if one is None else one
    return int(choose(one, other))
