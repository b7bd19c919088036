"""What was counted in a short time, by 64-bit keys: gathered as it comes, then packed, for most of it only waits.

A packed piece holds its keys in order, series by series: how far the series is from the one before, how many entries,
the first slot, and then the rest in one of two ways. Samples of one unit each are the gaps between them in Rice code,
which for a hundred latencies of three digits takes half a byte to a byte each. Anything else is a gap and an amount, in
bytes. Nothing is lost by packing; what comes later to a grain that is packed already makes another piece of it.

An amount here is below 2^62 in size, so that two can be added; what grows beyond is kept apart, in Python's integers.
"""

from array import array
from typing import Final

from exporter.decode import words as pointers
from exporter.record import WEIGHT_ONE

SLOTS: Final = 65_536
"""Slots of one series; series and slot are kept as one key, `series * SLOTS + slot`."""
SLOT_BITS: Final = 16
ODD: Final = 0x9E3779B97F4A7C15
ALL_BITS: Final = 0xFFFF_FFFF_FFFF_FFFF
UNIT: Final = WEIGHT_ONE
"""What most amounts are: one request. Multiples of it take less room."""
UNIT_BITS: Final = WEIGHT_ONE.bit_length() - 1
LIMIT: Final = 0x4000_0000_0000_0000
"""Amounts are below it in size."""
SHORT: Final = 0x1_0000_0000
"""Keys below it are logged in 32 bits."""
FEW: Final = 16
"""Slots below it are those of counters, which come again and again: they are added up at once, not logged."""
FULL: Final = 131_072
"""Logged samples after which a grain is packed."""
DIGIT_BITS: Final = 11
DIGITS: Final = 2048
INSERTED: Final = 32
"""As many keys or fewer are sorted by insertion."""
AMOUNTS: Final = 16
"""In place of a Rice parameter: entries have amounts."""
REPEATS: Final = 8
"""Samples for each different one above which amounts take less room."""
ZEROS: Final = bytes([8, *((value & -value).bit_length() - 1 for value in range(1, 256))])
"""Zero bits below the lowest one of a byte."""


class Sums:
    """Amounts by key, in an open table: 24 to 40 bytes each."""

    def __init__(self) -> None:
        self.count = 0
        self.mask = 15
        self.keys = memoryview(array("q", [-1]) * 16)
        self.amounts = memoryview(array("q", [0]) * 16)
        self.beyond: dict[int, int] | None = None
        """What the table could not hold, by key."""

    def place(self, key: int) -> int:
        """Where a key stands, or would."""
        mask = self.mask
        at = (key * ODD >> 30) & mask
        while self.keys[at] != key and self.keys[at] != -1:
            at = (at + 1) & mask
        return at

    def add(self, key: int, amount: int) -> None:
        """Add an amount below LIMIT."""
        at = self.place(key)
        if self.keys[at] != key:
            self.keys[at] = key
            self.count += 1
            if self.count * 4 > self.mask * 3:
                self.grow()
                at = self.place(key)
        total = self.amounts[at] + amount
        if total >= LIMIT or total <= -LIMIT:
            self.add_beyond(key, total)
            total = 0
        self.amounts[at] = total

    def add_beyond(self, key: int, amount: int) -> None:
        """Add an amount of any size."""
        if self.beyond is None:
            self.beyond = {}
        self.beyond[key] = self.beyond.get(key, 0) + amount

    def grow(self) -> None:
        """Twice the room."""
        keys, amounts = self.keys, self.amounts
        self.mask = 2 * self.mask + 1
        self.keys = memoryview(array("q", [-1]) * (self.mask + 1))
        self.amounts = memoryview(array("q", [0]) * (self.mask + 1))
        for place in range(len(keys)):
            key = keys[place]
            if key != -1:
                at = self.place(key)
                self.keys[at] = key
                self.amounts[at] = amounts[place]


class Run:
    """Entries of one series, ascending by slot; one slot may come more than once."""

    def __init__(self) -> None:
        self.count = 0
        self.room = 64
        self.slots = memoryview(array("i", [0]) * 64)
        self.amounts = memoryview(array("q", [0]) * 64)
        self.plain = False
        """Whether each amount is one UNIT."""

    def reserve(self, count: int) -> None:
        """Make room; what was there is lost."""
        if count > self.room:
            self.room = count + count // 2
            self.slots = memoryview(array("i", [0]) * self.room)
            self.amounts = memoryview(array("q", [0]) * self.room)

    def merge(self, one: "Run", other: "Run") -> None:
        """Become what two runs hold together."""
        self.reserve(one.count + other.count)
        self.plain = one.plain and other.plain
        slots, amounts = pointers.ints(self.slots), pointers.cells(self.amounts)
        ones, one_amounts = pointers.ints(one.slots), pointers.cells(one.amounts)
        others, other_amounts = pointers.ints(other.slots), pointers.cells(other.amounts)
        left, right, at = 0, 0, 0
        while left < one.count or right < other.count:
            if right == other.count or (left < one.count and ones[left] <= others[right]):
                slots[at] = ones[left]
                amounts[at] = one_amounts[left]
                left += 1
            else:
                slots[at] = others[right]
                amounts[at] = other_amounts[right]
                right += 1
            at += 1
        self.count = at
        if not self.plain:
            self.combine()

    def combine(self) -> None:
        """Have each slot once, as far as sums stay below LIMIT; none for nothing."""
        slots, amounts = self.slots, self.amounts
        at, place = 0, 0
        while place < self.count:
            slot, total = slots[place], amounts[place]
            place += 1
            while place < self.count and slots[place] == slot and -LIMIT < total + amounts[place] < LIMIT:
                total += amounts[place]
                place += 1
            if total:
                slots[at] = slot
                amounts[at] = total
                at += 1
        self.count = at
        self.plain = False

    def units(self) -> int:
        """The samples that it stands for, where these take less room than amounts; else 0."""
        units, entries, last = 0, 0, -1
        slots, amounts = pointers.ints(self.slots), pointers.cells(self.amounts)
        for place in range(self.count):
            amount = amounts[place]
            if amount <= 0 or amount & (UNIT - 1) or amount >> UNIT_BITS > SLOTS:
                return 0
            units += amount >> UNIT_BITS
            if slots[place] != last:
                entries += 1
                last = slots[place]
        return units if units <= REPEATS * entries else 0


class Packer:
    """Writes a piece, series by series in ascending order."""

    def __init__(self) -> None:
        self.code = memoryview(bytearray(1024))
        self.at = 0
        self.series = -1

    def done(self) -> bytes:
        """The piece."""
        return bytes(self.code[: self.at])

    def put(self, series: int, run: Run) -> None:
        """Write what a series has."""
        if run.count:
            units = run.units()
            if not units:
                run.combine()
            self.reserve(32 + (6 * units if units else 16 * run.count))
            self.number(series - self.series)
            self.series = series
            if units:
                self.put_samples(run, units)
            else:
                self.put_amounts(run)

    def reserve(self, count: int) -> None:
        """Make room for so many bytes."""
        if self.at + count > len(self.code):
            code = self.code
            self.code = memoryview(bytearray(2 * len(code) + count))
            self.code[: self.at] = code[: self.at]

    def number(self, value: int) -> None:
        """Seven bits a byte, the lowest first; the high bit of a byte says that another follows."""
        code, at = pointers.octets(self.code), self.at  # `put` has made room
        while value >= 128:
            code[at] = (value & 127) | 128
            value >>= 7
            at += 1
        code[at] = value
        self.at = at + 1

    def put_samples(self, run: Run, units: int) -> None:
        """Gaps in Rice code: the high part as zeros before a one, then the low bits."""
        slots, amounts = pointers.ints(run.slots), pointers.cells(run.amounts)
        last = slots[0]
        low_bits = 0
        if units > 1:
            low_bits = pointers.bits((slots[run.count - 1] - last) * 12 // (25 * (units - 1)))
        self.number(low_bits)
        self.number(units)
        self.number(last)
        code, at, held, bits, one = pointers.octets(self.code), self.at, 0, 0, 1  # `put` has made room
        skip = 1
        for place in range(run.count):
            repeats = 1
            if not run.plain:
                repeats = amounts[place] >> UNIT_BITS
            gap = slots[place] - last
            last = slots[place]
            for _again in range(skip, repeats):
                high = gap >> low_bits
                while high >= 24:
                    bits += 24
                    high -= 24
                    while bits >= 8:
                        code[at] = held & 255
                        held >>= 8
                        bits -= 8
                        at += 1
                held |= (one | (gap & ((one << low_bits) - 1)) << 1) << (bits + high)
                bits += high + 1 + low_bits
                while bits >= 8:
                    code[at] = held & 255
                    held >>= 8
                    bits -= 8
                    at += 1
                gap = 0
            skip = 0
        if bits:
            code[at] = held & 255
            at += 1
        self.at = at

    def put_amounts(self, run: Run) -> None:
        """Gaps and amounts, signs in the lowest bit but one; the lowest bit is set where it is not in units."""
        self.number(AMOUNTS)
        self.number(run.count)
        last = 0
        for place in range(run.count):
            amount, exact = run.amounts[place], 1
            if amount & (UNIT - 1) == 0:
                amount >>= UNIT_BITS
                exact = 0
            size = 2 * amount if amount >= 0 else -2 * amount - 1
            self.number(run.slots[place] - last)
            self.number(size << 1 | exact)
            last = run.slots[place]


class Reader:
    """Reads a piece, series by series."""

    def __init__(self, code: bytes) -> None:
        self.code = code
        self.at = 0
        self.series = -1
        self.run = Run()
        self.adds: list[int] = []
        """Numbers of windows to which it is being added."""
        self.takes: list[int] = []
        """And from which it is being taken away."""

    def begin(self) -> bool:
        """`next`, for those without C types."""
        return self.next()

    def next(self) -> bool:
        """Read the next series into `run`; False at the end."""
        if self.at >= len(self.code):
            return False
        self.series += self.number()
        low_bits = self.number()
        count = self.number()
        self.run.reserve(count)
        self.run.count = count
        self.run.plain = low_bits < AMOUNTS
        if low_bits < AMOUNTS:
            self.samples(low_bits, count)
        else:
            self.entries(count)
        return True

    def number(self) -> int:
        """What `Packer.number` wrote."""
        code, at, value, shift = self.code, self.at, 0, 0
        byte = code[at]
        at += 1
        value = byte & 127
        while byte & 128:
            byte = code[at]
            at += 1
            shift += 7
            value |= (byte & 127) << shift
        self.at = at
        return value

    def samples(self, low_bits: int, count: int) -> None:
        """What `Packer.put_samples` wrote."""
        slots, amounts = pointers.ints(self.run.slots), pointers.cells(self.run.amounts)
        slot = self.number()
        code, at, end, held, bits = self.code, self.at, len(self.code), 0, 0
        mask = (1 << low_bits) - 1
        slots[0] = slot
        amounts[0] = UNIT
        for place in range(1, count):
            high = 0
            while True:
                if bits < 32 and at + 8 <= end:  # what does not fit is read again, and is the same then
                    word = pointers.little64(code, at)
                    held |= (word & ALL_BITS) << bits & ALL_BITS
                    taken = (63 - bits) >> 3
                    at += taken
                    bits += 8 * taken
                while bits < 32 and at < end:
                    byte = code[at]
                    held |= byte << bits
                    bits += 8
                    at += 1
                zeros = ZEROS[held & 255]
                high += zeros
                held >>= zeros
                bits -= zeros
                if zeros < 8:
                    break
            slot += (high << low_bits) | (held >> 1 & mask)
            held >>= 1 + low_bits
            bits -= 1 + low_bits
            slots[place] = slot
            amounts[place] = UNIT
        self.at = at - bits // 8

    def entries(self, count: int) -> None:
        """What `Packer.put_amounts` wrote."""
        slots, amounts = pointers.ints(self.run.slots), pointers.cells(self.run.amounts)
        code, at, slot = self.code, self.at, 0
        for turn in range(2 * count):
            byte = code[at]  # as in `number`
            at += 1
            value, shift = byte & 127, 0
            while byte & 128:
                byte = code[at]
                at += 1
                shift += 7
                value |= (byte & 127) << shift
            if not turn & 1:
                slot += value
                slots[turn >> 1] = slot
                continue
            exact = value & 1
            value >>= 1
            amount = (value + 1) >> 1
            if value & 1:
                amount = -amount
            amounts[turn >> 1] = amount if exact else amount * UNIT
        self.at = at


class Merge:
    """Makes one piece of several, in steps."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.packer = Packer()
        self.readers: list[Reader] = []
        self.run, self.spare = Run(), Run()
        self.begin(pieces)

    def begin(self, pieces: list[bytes]) -> None:
        """Read the first series of all."""
        for piece in pieces:
            reader = Reader(piece)
            if reader.next():
                self.readers.append(reader)

    def step(self, budget: int) -> int:
        """Go on for about `budget` entries; what is left of it: nothing, as long as there is more to do."""
        while budget > 0 and self.readers:
            budget -= self.next()
        return budget

    def done(self) -> bytes:
        """The piece, when nothing is left to do."""
        return self.packer.done()

    def next(self) -> int:
        """Write the next series; how many entries it had."""
        reader = self.readers[0]
        series = reader.series
        for reader in self.readers:
            if reader.series < series:
                series = reader.series
        self.run.count = 0
        self.run.plain = True
        ended = False
        for reader in self.readers:
            if reader.series == series:
                self.spare.merge(self.run, reader.run)
                self.run, self.spare = self.spare, self.run
                if not reader.next():
                    reader.series = -1
                    ended = True
        if ended:
            readers, self.readers = self.readers, []
            for reader in readers:
                if reader.series != -1:
                    self.readers.append(reader)
        self.packer.put(series, self.run)
        return self.run.count + 8


class Grain:
    """The values of one grain."""

    def __init__(self) -> None:
        self.sums: Sums | None = None
        self.log: Log | None = None
        self.pieces: list[bytes] = []
        self.merged = 0
        """Pieces that are being merged into a longer grain."""
        self.beyond: dict[int, int] | None = None
        """What is in no piece, as it is too large."""

    def add(self, key: int, amount: int) -> None:
        """Count an amount below LIMIT."""
        if amount == UNIT and key < SHORT and key & (SLOTS - FEW):
            if self.log is None:
                self.log = Log()
            self.log.add(key)
            if self.log.count >= FULL:
                self.pack()
        else:
            if self.sums is None:
                self.sums = Sums()
            self.sums.add(key, amount)

    def add_slots(self, first: int, slots: memoryview, count: int) -> None:
        """Count one UNIT under the key `first` plus a slot, for each of so many slots."""
        least = slots[0]
        for index in range(count):
            if slots[index] < least:
                least = slots[index]
        if least < FEW or first >= SHORT:
            for index in range(count):
                self.add(first + slots[index], UNIT)
            return
        if self.log is None:
            self.log = Log()
        self.log.add_slots(first, slots, count)
        if self.log.count >= FULL:
            self.pack()

    def add_large(self, key: int, amount: int) -> None:
        """Count an amount of any size."""
        if self.sums is None:
            self.sums = Sums()
        self.sums.add_beyond(key, amount)

    def loose(self) -> int:
        """How much is not packed."""
        return (0 if self.log is None else self.log.count) + (0 if self.sums is None else self.sums.count)

    def pack(self) -> int:
        """Pack what has come since the last time; how much it was."""
        count = self.loose()
        if self.sums is None and self.log is None:
            return count
        sums = Sums() if self.sums is None else self.sums
        sorted_count = SORTER.load(sums, self.log)
        if sums.beyond is not None:
            self.beyond = _added(self.beyond, sums.beyond)
        self.sums = None
        self.log = None
        packer, run = Packer(), Run()
        _pack(SORTER.keys, sorted_count, sums, packer, run)
        if packer.at:
            self.pieces.append(packer.done())
        return count

    def take(self, other: "Grain") -> None:
        """Hold what another holds, too."""
        other.pack()
        self.pieces = self.pieces + other.pieces
        if other.beyond is not None:
            self.beyond = _added(self.beyond, other.beyond)


class Log:
    """Samples as they came: their keys."""

    def __init__(self) -> None:
        self.count = 0
        self.keys = memoryview(array("I", [0]) * 256)

    def add(self, key: int) -> None:
        """Note one sample."""
        if self.count == len(self.keys):
            self.grow()
        self.keys[self.count] = key
        self.count += 1

    def add_slots(self, first: int, slots: memoryview, count: int) -> None:
        """Note a sample in each of these slots."""
        while self.count + count > len(self.keys):
            self.grow()
        for index in range(count):
            self.keys[self.count + index] = first + slots[index]
        self.count += count

    def grow(self) -> None:
        """Half as much room again."""
        keys = self.keys
        self.keys = memoryview(array("I", [0]) * (len(keys) + len(keys) // 2))
        self.keys[: len(keys)] = keys


def _added(one: dict[int, int] | None, other: dict[int, int]) -> dict[int, int]:
    sums = {} if one is None else dict(one)
    for key, amount in other.items():
        sums[key] = sums.get(key, 0) + amount
    return sums


class Sorter:
    """Sorts keys. Its memory is used again, as asking for it anew would take as long as sorting."""

    def __init__(self) -> None:
        self.keys = memoryview(array("q", [0]) * INSERTED)
        self.other = memoryview(array("q", [0]) * INSERTED)
        self.starts = memoryview(array("q", [0]) * DIGITS)

    def load(self, sums: Sums, log: Log | None) -> int:
        """Have in `keys` all keys, twice themselves, plus one where the amount stands in `sums`; how many."""
        count = sums.count + (0 if log is None else log.count)
        if count > len(self.keys):
            self.keys = memoryview(array("q", [0]) * count)
            self.other = memoryview(array("q", [0]) * count)
        at, keys = 0, pointers.cells(self.keys)
        for place in range(len(sums.keys)):
            key = sums.keys[place]
            if key != -1:
                keys[at] = key << 1 | 1
                at += 1
        if log is not None:
            for place in range(log.count):
                key = log.keys[place]
                keys[at] = key << 1
                at += 1
        if count <= INSERTED:
            self.insert(count)
        else:
            self.sort(count)
        return count

    def insert(self, count: int) -> None:
        """Sort a few."""
        keys = self.keys
        for place in range(1, count):
            key, at = keys[place], place
            while at > 0 and keys[at - 1] > key:
                keys[at] = keys[at - 1]
                at -= 1
            keys[at] = key

    def sort(self, count: int) -> None:
        """Sort many, by one digit after the other."""
        keys, other, starts = pointers.cells(self.keys), pointers.cells(self.other), pointers.cells(self.starts)
        every = shift = turns = 0
        for place in range(count):
            every |= keys[place]
        while every >> shift:
            for digit in range(DIGITS):
                starts[digit] = 0
            for place in range(count):
                starts[keys[place] >> shift & (DIGITS - 1)] += 1
            total = 0
            for digit in range(DIGITS):
                at = starts[digit]
                starts[digit] = total
                total += at
            for place in range(count):
                digit = keys[place] >> shift & (DIGITS - 1)
                at = starts[digit]
                starts[digit] = at + 1
                other[at] = keys[place]
            swap = keys
            keys = other
            other = swap
            shift += DIGIT_BITS
            turns += 1
        if turns & 1:
            self.keys, self.other = self.other, self.keys


def _pack(sorted_keys: memoryview, count: int, sums: Sums, packer: Packer, run: Run) -> None:
    """Write the amounts of sorted keys."""
    place, keys = 0, pointers.cells(sorted_keys)
    while place < count:
        series = keys[place] >> (SLOT_BITS + 1)
        stop, at = place, 0
        while stop < count and keys[stop] >> (SLOT_BITS + 1) == series:
            stop += 1
        run.reserve(stop - place)
        slots, amounts = pointers.ints(run.slots), pointers.cells(run.amounts)
        run.plain = True
        while place < stop:
            key = keys[place] >> 1
            amount = UNIT
            if keys[place] & 1:
                amount = sums.amounts[sums.place(key)]
            place += 1
            if amount:
                slots[at] = key & (SLOTS - 1)
                amounts[at] = amount
                run.plain = run.plain and amount == UNIT
                at += 1
        run.count = at
        packer.put(series, run)


SORTER: Final = Sorter()
