"""A tape (`exporter.recording`) made ready to be played: the operations, what they start from, and what they fill in.

A script is played in two parts: the first finds out how the spans of a request hang together and says what they tell of
their clocks, the second measures. A part fails where a guard does not hold; nothing has happened then but observations
that are true in any case.

Numbers stay so small that no operation overflows: where one does not, the part fails. Which registers an operation
speaks of is checked once, when the script is made, so that playing it takes pointers.
"""

from array import array
from collections.abc import Sequence
from typing import Final

from exporter.align import BUCKET_NS, Observation, Offsets
from exporter.decode import words as pointers
from exporter.recording import ALONG, OBSERVE

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
        self.word_cells = memoryview(array("q", [cell for word in words for cell in word]) or array("q", [0]))
        self.words = pointers.cells(self.word_cells)
        self.loads = memoryview(array("q", [cell for load in loads for cell in load]) or array("q", [0]))
        self.register_cells = memoryview(array("q", [0]) * max(1, registers))
        self.registers = pointers.cells(self.register_cells)
        for value, register in constants.items():
            self.register_cells[register] = value
        self.split = split
        self.length = len(words)
        self.loaded = len(loads)
        self._check(words, loads)

    def _check(self, words: Sequence[tuple[int, int, int, int]], loads: Sequence[tuple[int, int, int]]) -> None:
        """Raise IndexError where an operation is about a register or a site that there is not."""
        sites, registers = range(len(self.sites)), range(len(self.register_cells))
        for code, into, one, other in words:
            if into not in (sites if code in (ALONG, OBSERVE) else registers):
                raise IndexError(f"operation {code} into {into}")
            if one not in registers or other not in registers or (code == OBSERVE and self.sites[into].high < 0):
                raise IndexError(f"operation {code} of {one} and {other}")
        spoken = [register for register, _, _ in loads]
        spoken += [end for site in self.sites for end in (site.low, site.high) if end != -1]
        if any(register not in registers for register in spoken) or not 0 <= self.split <= self.length:
            raise IndexError(f"registers {spoken}, split {self.split}")

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

    def has(self, register: int) -> bool:
        """Whether there is such a register."""
        return 0 <= register < len(self.register_cells)

    def value(self, register: int) -> int:
        """What is in a register."""
        return self.register_cells[register]

    def play(self, first: int, last: int, observing: bool) -> bool:
        """Play some of the operations. The codes are those of `exporter.recording`, in their order."""
        words, registers = self.words, self.registers
        for at in range(4 * first, 4 * last, 4):
            code, into, a, b = words[at], words[at + 1], words[at + 2], words[at + 3]
            if code == 0:
                value = registers[a] + registers[b]
            elif code == 1:
                value = registers[a] - registers[b]
            elif code == 2:
                if not self.small(registers[a], registers[b]):
                    return False
                value = registers[a] * registers[b]
            elif code == 3:
                if registers[b] <= 0:
                    return False
                value = registers[a] // registers[b]
            elif code == 6:
                if registers[a] < registers[b]:
                    continue
                return False
            elif code == 7:
                if registers[a] <= registers[b]:
                    continue
                return False
            elif code == 8:
                if registers[a] == registers[b]:
                    continue
                return False
            elif code == 9:
                if registers[a] >= registers[b]:
                    continue
                return False
            elif code == 10:
                if registers[a] > registers[b]:
                    continue
                return False
            elif code == 11:
                if registers[a] != registers[b]:
                    continue
                return False
            elif code == 4:
                if not self.along(self.sites[into], registers[a]):
                    return False
                continue
            else:
                if observing:
                    self.observe(self.sites[into], registers[a])
                continue
            if value >= MOST or value <= -MOST:
                return False
            registers[into] = value
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
