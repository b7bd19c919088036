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

from exporter.align import BUCKET_NS, ENTRIES, ENTRY, MOST_CLOCKS, Observation, Offsets
from exporter.decode import words as pointers
from exporter.record import MISSING
from exporter.recording import ALONG, NOT_EQUAL, OBSERVE

MOST: Final = 2**62
"""What is in a register is smaller than this, so that a sum of two is a number of 64 bits."""
MOST_LOADED: Final = 2**61
HALF: Final = 2**30
ODD: Final = 0x9E3779B97F4A7C15
MASK: Final = 0xFFFFFFFFFFFFFFFF


class Site:
    """Where a script speaks with `Offsets`: the registers of the ends of a bound, and of the clocks it is about."""

    def __init__(self, low: int, high: int, clocks: tuple[int, ...]) -> None:
        self.low = low
        self.high = high
        """-1 for an end that is not known."""
        self.clocks = memoryview(array("q", clocks))
        self.count = len(clocks)


class Script:
    """Operations on registers. Not to be played by several threads."""

    def __init__(
        self, offsets: Offsets, words: Sequence[tuple[int, int, int, int]], split: int, registers: int,
        constants: dict[int, int], loads: Sequence[tuple[int, int, int]], sites: Sequence[tuple[int, ...]],
        ids: Sequence[tuple[int, int, int]] = (),
    ) -> None:  # fmt: skip
        """`loads`: register, row, cell; `ids` likewise, which are not reckoned with.

        `split`: how many operations the first part has. `sites`: registers of low, high and clocks.
        """
        self.offsets = offsets
        self.sites = [Site(low, high, tuple(clocks)) for low, high, *clocks in sites]
        self.word_cells = memoryview(array("q", [cell for word in words for cell in word]) or array("q", [0]))
        self.words = pointers.cells(self.word_cells)
        self.loads = memoryview(array("q", [cell for load in (*loads, *ids) for cell in load]) or array("q", [0]))
        self.register_cells = memoryview(array("q", [0]) * max(1, registers))
        self.registers = pointers.cells(self.register_cells)
        for value, register in constants.items():
            self.register_cells[register] = value
        self.split = split
        self.length = len(words)
        self.loaded = len(loads)
        self.all_loaded = len(loads) + len(ids)
        self._check(words, [*loads, *ids])

    def _check(self, words: Sequence[tuple[int, int, int, int]], loads: Sequence[tuple[int, int, int]]) -> None:
        """Raise IndexError where an operation is about a register or a site that there is not."""
        sites, registers = range(len(self.sites)), range(len(self.register_cells))
        for code, into, one, other in words:
            if code not in range(NOT_EQUAL + 1) or into not in (sites if code in (ALONG, OBSERVE) else registers):
                raise IndexError(f"operation {code} into {into}")
            if one not in registers or other not in registers or (code == OBSERVE and self.sites[into].high < 0):
                raise IndexError(f"operation {code} of {one} and {other}")
        spoken = [register for register, _, _ in loads]
        spoken += [end for site in self.sites for end in (site.low, site.high) if end != -1]
        spoken += [clock for site in self.sites for clock in site.clocks]
        if any(not 2 <= site.count <= MOST_CLOCKS for site in self.sites):
            raise IndexError(f"sites of {[site.count for site in self.sites]} clocks")
        if any(register not in registers for register in spoken) or not 0 <= self.split <= self.length:
            raise IndexError(f"registers {spoken}, split {self.split}")

    def begin(self, cells: memoryview, places: memoryview, observing: bool) -> bool:
        """Play the first part for the rows at `places` of `cells`; whether it holds."""
        loads, registers = pointers.cells(self.loads), self.registers
        for load in range(0, 3 * self.loaded, 3):
            value = cells[places[loads[load + 1]] + loads[load + 2]]
            if value >= MOST_LOADED or value <= -MOST_LOADED:
                return False
            registers[loads[load]] = value
        for load in range(3 * self.loaded, 3 * self.all_loaded, 3):
            registers[loads[load]] = cells[places[loads[load + 1]] + loads[load + 2]]
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
        bucket, known = time_ns // BUCKET_NS, pointers.cells(self.offsets.asked.cells)
        at = self.entry(site, bucket)
        if not self.holds(known, at, site, bucket):
            bound = self.offsets.along(self.clocks_of(site), time_ns)
            self.note(known, at, site, bucket)
            known[at + 2] = MISSING if bound.low is None else bound.low
            known[at + 3] = MISSING if bound.high is None else bound.high
        if (known[at + 2] == MISSING) != (site.low < 0) or (known[at + 3] == MISSING) != (site.high < 0):
            return False
        if site.low >= 0:
            self.registers[site.low] = known[at + 2]
        if site.high >= 0:
            self.registers[site.high] = known[at + 3]
        return True

    def observe(self, site: Site, time_ns: int) -> None:
        """Tell of a pair of clocks, unless as much is known already."""
        bucket, high, known = time_ns // BUCKET_NS, self.registers[site.high], pointers.cells(self.offsets.told.cells)
        low = self.registers[site.low] if site.low >= 0 else 0
        at = self.entry(site, bucket)
        held = self.holds(known, at, site, bucket)
        if not held or high < known[at + 3] or (site.low >= 0 and low > known[at + 2]):
            self.tell(site, at, low, high, time_ns)

    def tell(self, site: Site, at: int, low: int, high: int, time_ns: int) -> None:
        """Tell of a pair of clocks, and note in their entry what is known then."""
        bucket, (outer, inner) = time_ns // BUCKET_NS, self.clocks_of(site)
        self.offsets.observe(Observation(outer, inner, low if site.low >= 0 else None, high, time_ns))
        bound = self.offsets.pairs.get((outer, inner), {}).get(bucket)
        if bound is not None and bound.high is not None:
            known = pointers.cells(self.offsets.told.cells)
            self.note(known, at, site, bucket)
            known[at + 2] = -MOST if bound.low is None else bound.low
            known[at + 3] = bound.high

    # What was found last.

    def clocks_of(self, site: Site) -> list[int]:
        """The clocks that a site is about, in the request that is being played."""
        return [self.register_cells[site.clocks[place]] for place in range(site.count)]

    def entry(self, site: Site, bucket: int) -> int:
        """Where the entry of these clocks and this time would be."""
        mixed, clocks = bucket & MASK, pointers.cells(site.clocks)
        for place in range(site.count):
            mixed = (mixed ^ (self.registers[clocks[place]] & MASK)) * ODD & MASK
            mixed ^= mixed >> 29
        return (mixed & (ENTRIES - 1)) * ENTRY

    def holds(self, known: memoryview, at: int, site: Site, bucket: int) -> bool:
        """Whether an entry is of these clocks and this time, and still holds."""
        if known[at] != self.offsets.version or known[at + 1] != bucket * (MOST_CLOCKS + 1) + site.count:
            return False
        clocks = pointers.cells(site.clocks)
        for place in range(site.count):
            if known[at + 4 + place] != self.registers[clocks[place]]:
                return False
        return True

    def note(self, known: memoryview, at: int, site: Site, bucket: int) -> None:
        """Have an entry be of these clocks and this time, as of now."""
        known[at], known[at + 1] = self.offsets.version, bucket * (MOST_CLOCKS + 1) + site.count
        for place in range(site.count):
            known[at + 4 + place] = self.register_cells[site.clocks[place]]
