"""The layout in which latencies are counted: HdrHistogram's, in plain integers.

A layout maps every value to a slot and every slot to the range of values it holds. With d digits there are S =
2^ceil(log2(2 * 10^d)) sub-buckets. Values below S units have a slot each; from there on a slot is twice as wide in
each octave, so a slot's width is at most 2/S of its lowest value: 0.0977 % for three digits. Nothing else is stored:
a window is a mapping from slot to count, two windows of one layout merge by adding counts, and what a percentile
loses is bounded by the width of one slot.

What must stay true:
- A reading is the highest value of its slot, so it is never below the exact percentile, and above it by at most 2/S.
- Ranks are nearest rank (slo_rules.verdict): the least slot at or below which k = max(1, ceil(p * N / 100)) values
  lie. The library `hdrhistogram` rounds the rank half up and may answer with a value that fewer than p % reach.
- No value is lost: what lies beyond the range goes to the top slot, and the caller counts it.

Here `value` is an integer in the layout's unit; the exporter's own LAYOUT counts microseconds.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from exporter.decode import words
from slo_rules.verdict import rank

DIGITS_LIMIT: Final = 5


class HistogramError(ValueError):
    """A layout, an encoded histogram or a log of histograms that is not what the format allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Values from `lowest` to `highest`, told apart to `digits` significant decimal digits.

    Raises HistogramError for numbers outside the format: 1 <= lowest, 2 * lowest <= highest < 2^63, 0 <= digits <= 5.
    """

    lowest: int
    highest: int
    digits: int
    unit_bits: int = field(init=False, repr=False, compare=False)
    half_bits: int = field(init=False, repr=False, compare=False)
    size: int = field(init=False, repr=False, compare=False)
    """How many slots there are."""

    def __post_init__(self) -> None:
        self._check()
        unit_bits = self.lowest.bit_length() - 1
        half_bits = (2 * 10**self.digits - 1).bit_length() - 1
        if unit_bits + half_bits + 1 > 62:
            raise HistogramError(f"lowest and digits leave no room in 63 bits, found {self.lowest} and {self.digits}")
        buckets = max(1, self.highest.bit_length() - unit_bits - half_bits)
        object.__setattr__(self, "unit_bits", unit_bits)
        object.__setattr__(self, "half_bits", half_bits)
        object.__setattr__(self, "size", (buckets + 1) << half_bits)

    def _check(self) -> None:
        if not 0 <= self.digits <= DIGITS_LIMIT:
            raise HistogramError(f"significant digits are 0 to {DIGITS_LIMIT}, found {self.digits}")
        if self.lowest < 1:
            raise HistogramError(f"the lowest value is at least 1, found {self.lowest}")
        if not 2 * self.lowest <= self.highest < 1 << 63:
            raise HistogramError(f"the highest value is at least twice the lowest and below 2^63, found {self.highest}")

    def index_of(self, value: int) -> int:
        """The slot of a value that is not negative; at or beyond `size` for values too large for the layout."""
        shift = max(self.unit_bits, value.bit_length() - self.half_bits - 1)
        return ((shift - self.unit_bits) << self.half_bits) + (value >> shift)

    def lowest_equivalent(self, slot: int) -> int:
        """The lowest value of a slot."""
        bucket = self._bucket(slot)
        return (slot - (bucket << self.half_bits)) << (bucket + self.unit_bits)

    def highest_equivalent(self, slot: int) -> int:
        """The highest value of a slot, which is what a percentile in it reads."""
        return self.lowest_equivalent(slot) + self.width(slot) - 1

    def width(self, slot: int) -> int:
        """How many integers share a slot."""
        return 1 << (self._bucket(slot) + self.unit_bits)

    def error_ratio(self, slot: int) -> Fraction:
        """By how much of itself a value of one or more may lie below its reading; 0 where a slot is one integer."""
        return Fraction(self.width(slot) - 1, max(1, self.lowest_equivalent(slot)))

    def _bucket(self, slot: int) -> int:
        return max(0, (slot >> self.half_bits) - 1)


LAYOUT: Final = Layout(lowest=1, highest=24 * 3600 * 1_000_000, digits=3)
"""The exporter's own: 1 microsecond to 24 hours."""

LIMIT_NS: Final = LAYOUT.highest * 1000
"""The longest duration in range. Whoever records a longer one counts it as out of range."""

TOP_SLOT: Final = LAYOUT.size - 1

OWN_HALF_BITS: Final = LAYOUT.half_bits
LONGEST_NS: Final = LIMIT_NS
TOP: Final = TOP_SLOT
"""Those of LAYOUT for `own_slot`, where they are numbers of C; the lowest value of LAYOUT is 1."""


def slot_of_ns(duration_ns: int) -> int:
    """The slot of a duration in ns that is not negative, rounded up to a microsecond: never understated."""
    return TOP_SLOT if duration_ns > LIMIT_NS else own_slot(duration_ns)


def own_slot(duration_ns: int) -> int:
    """The same for a duration in 64 bits: `LAYOUT.index_of` with its numbers written out, for the hot path."""
    if not 0 <= duration_ns <= LONGEST_NS:
        return _beyond(duration_ns)
    value = duration_ns + 999
    value //= 1000
    shift = words.bits(value >> (OWN_HALF_BITS + 1))
    return (shift << OWN_HALF_BITS) + (value >> shift)


def _beyond(duration_ns: int) -> int:
    if duration_ns < 0:
        raise IndexError(f"no slot for {duration_ns} ns")
    return TOP


def own_slots(durations_ns: memoryview, slots: memoryview, count: int) -> int:
    """The slots of so many durations; the longest of these."""
    longest = 0
    if count > len(durations_ns) or count > len(slots):
        raise IndexError(f"{count} slots for {len(durations_ns)} durations, with room for {len(slots)}")
    durations, to = words.cells(durations_ns), words.cells(slots)
    for index in range(count):
        duration_ns = durations[index]
        to[index] = own_slot(duration_ns)
        if duration_ns > longest:
            longest = duration_ns
    return longest


def reading_ns(slot: int) -> int:
    """What a percentile in this slot reads, in ns."""
    return LAYOUT.highest_equivalent(slot) * 1000


def least_ns(slot: int) -> int:
    """The shortest duration in this slot, in ns: the rounding up to 1 us included."""
    return max(0, LAYOUT.lowest_equivalent(slot) * 1000 - 999)


def error_ratio(slot: int) -> Fraction:
    """By how much of itself a duration in this slot may lie below its reading, the rounding up to 1 us included."""
    if slot == 0:
        return Fraction(0)  # nothing but 0 is rounded up to 0
    least = max(1, least_ns(slot))
    return Fraction(reading_ns(slot) - least, least)


def quantile_slot(counts: Mapping[int, int], percentile: Fraction) -> int | None:
    """The slot of a percentile (in percent, above 0) by nearest rank; None where nothing is counted.

    Counts may be weights, as long as all are in one integer unit.
    """
    total = sum(counts.values())
    if not total:
        return None
    left = rank(percentile, total)
    for slot in sorted(counts):
        left -= counts[slot]
        if left <= 0:
            return slot
    raise ValueError(f"a percentile is at most 100, found {percentile}")


def largest_error(slots: Collection[int]) -> Fraction:
    """The largest `error_ratio` of some slots: it falls with the slot where slots are equally wide, but for slot 0."""
    least: dict[int, int] = {}
    for slot in slots:
        if slot:
            bucket = slot >> LAYOUT.half_bits
            least[bucket] = min(slot, least.get(bucket, slot))
    return max(map(error_ratio, least.values()), default=Fraction(0))
