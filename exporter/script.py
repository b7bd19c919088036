"""A tape (`exporter.recording`) made ready to be played: the operations, what they start from, and what they fill in.

A script is played in two parts: the first finds out how the spans of a request hang together and says what they tell of
their clocks, the second measures. A part fails where a guard does not hold; nothing has happened then but observations
that are true in any case.

Numbers stay so small that no operation overflows: where one does not, the part fails.
"""

from array import array
from collections.abc import Sequence
from typing import Final

from exporter.align import BUCKET_NS, Observation, Offsets

MOST: Final = 2**62
"""What is in a register is smaller than this, so that a sum of two is a number of 64 bits."""
MOST_LOADED: Final = 2**61
HALF: Final = 2**30


class Site:
    """Where a script speaks with `Offsets`: between which clocks, and what was found last."""

    def __init__(self, low: int, high: int, clocks: tuple[int, ...]) -> None:
        self.low = low
        self.high = high
        """Registers of the ends of a bound, -1 for an end that is not known."""
        self.clocks = clocks
        self.version = -1
        self.bucket = 0
        self.low_ns = 0
        self.high_ns = 0


class Script:
    """Operations on registers. Not to be played by several threads."""

    def __init__(
        self, offsets: Offsets, words: Sequence[tuple[int, int, int, int]], split: int, registers: int,
        constants: dict[int, int], loads: Sequence[tuple[int, int, int]], sites: Sequence[tuple[int, ...]],
    ) -> None:  # fmt: skip
        """`loads`: register, row, cell. `split`: how many operations the first part has. Sites: low, high, clocks."""
        self.offsets = offsets
        self.sites = [Site(low, high, tuple(clocks)) for low, high, *clocks in sites]
        self.words = memoryview(array("q", [cell for word in words for cell in word]) or array("q", [0]))
        self.loads = memoryview(array("q", [cell for load in loads for cell in load]) or array("q", [0]))
        self.registers = memoryview(array("q", [0]) * max(1, registers))
        for value, register in constants.items():
            self.registers[register] = value
        self.split = split
        self.length = len(words)
        self.loaded = len(loads)

    def begin(self, cells: memoryview, places: memoryview, observing: bool) -> bool:
        """Play the first part for the rows at `places` of `cells`; whether it holds."""
        for load in range(0, 3 * self.loaded, 3):
            value = cells[places[self.loads[load + 1]] + self.loads[load + 2]]
            if value >= MOST_LOADED or value <= -MOST_LOADED:
                return False
            self.registers[self.loads[load]] = value
        return self.play(0, self.split, observing)

    def go_on(self) -> bool:
        """Play the second part; whether it holds."""
        return self.play(self.split, self.length, True)

    def value(self, register: int) -> int:
        """What is in a register."""
        return self.registers[register]

    def play(self, first: int, last: int, observing: bool) -> bool:
        """Play some of the operations. The codes are those of `exporter.recording`, in their order."""
        for at in range(4 * first, 4 * last, 4):
            code, into, a, b = self.words[at], self.words[at + 1], self.words[at + 2], self.words[at + 3]
            if code == 0:
                value = self.registers[a] + self.registers[b]
            elif code == 1:
                value = self.registers[a] - self.registers[b]
            elif code == 2:
                if not self.small(self.registers[a], self.registers[b]):
                    return False
                value = self.registers[a] * self.registers[b]
            elif code == 3:
                if self.registers[b] <= 0:
                    return False
                value = self.registers[a] // self.registers[b]
            elif code == 6:
                if self.registers[a] < self.registers[b]:
                    continue
                return False
            elif code == 7:
                if self.registers[a] <= self.registers[b]:
                    continue
                return False
            elif code == 8:
                if self.registers[a] == self.registers[b]:
                    continue
                return False
            elif code == 9:
                if self.registers[a] >= self.registers[b]:
                    continue
                return False
            elif code == 10:
                if self.registers[a] > self.registers[b]:
                    continue
                return False
            elif code == 11:
                if self.registers[a] != self.registers[b]:
                    continue
                return False
            elif code == 4:
                if not self.along(self.sites[into], self.registers[a]):
                    return False
                continue
            else:
                if observing:
                    self.observe(self.sites[into], self.registers[a])
                continue
            if value >= MOST or value <= -MOST:
                return False
            self.registers[into] = value
        return True

    def small(self, one: int, other: int) -> bool:
        """Whether a product surely fits."""
        if other == 2:
            return -MOST_LOADED < one < MOST_LOADED
        if one == 2:
            return -MOST_LOADED < other < MOST_LOADED
        return -HALF < one < HALF and -HALF < other < HALF

    def along(self, site: Site, time_ns: int) -> bool:
        """Ask for a bound, which is the same throughout a bucket of time until something new is observed."""
        bucket = time_ns // BUCKET_NS
        if site.version != self.offsets.version or site.bucket != bucket:
            site.version = -1
            bound = self.offsets.along(site.clocks, time_ns)
            if (bound.low is None) != (site.low < 0) or (bound.high is None) != (site.high < 0):
                return False
            site.low_ns, site.high_ns = bound.low or 0, bound.high or 0
            site.bucket, site.version = bucket, self.offsets.version
        if site.low >= 0:
            self.registers[site.low] = site.low_ns
        if site.high >= 0:
            self.registers[site.high] = site.high_ns
        return True

    def observe(self, site: Site, time_ns: int) -> None:
        """Tell of a pair of clocks, unless as much is known already."""
        bucket, high = time_ns // BUCKET_NS, self.registers[site.high]
        low = self.registers[site.low] if site.low >= 0 else 0
        known = site.version == self.offsets.version and site.bucket == bucket
        if not known or high < site.high_ns or (site.low >= 0 and low > site.low_ns):
            self.tell(site, low, high, time_ns)

    def tell(self, site: Site, low: int, high: int, time_ns: int) -> None:
        """Tell of a pair of clocks, and note what is known then."""
        bucket = time_ns // BUCKET_NS
        outer, inner = site.clocks
        self.offsets.observe(Observation(outer, inner, low if site.low >= 0 else None, high, time_ns))
        bound = self.offsets.pairs.get((outer, inner), {}).get(bucket)
        if bound is not None and bound.high is not None:
            site.low_ns = -MOST if bound.low is None else bound.low
            site.high_ns, site.bucket, site.version = bound.high, bucket, self.offsets.version
