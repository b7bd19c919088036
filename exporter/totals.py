"""Running totals of many series in some windows: exact, and as small as the numbers that they hold.

The slots of a series lie in pages of 64. A page has cells of half a byte, then of one, of two, of eight, as its amounts
need it: the narrow ones count whole UNITs, the widest are amounts themselves; one beyond LIMIT stands in a dictionary.
Pages without amounts are given back, so memory follows what is in the windows.
"""

from array import array
from collections.abc import Sequence
from typing import Final

from exporter import ahead
from exporter.decode import words as pointers
from exporter.grain import Run
from exporter.ground import NOTHING, Ground
from exporter.record import WEIGHT_ONE

UNIT: Final = WEIGHT_ONE
UNIT_BITS: Final = WEIGHT_ONE.bit_length() - 1
LIMIT: Final = 0x4000_0000_0000_0000
PAGE: Final = 64
PAGE_BITS: Final = 6
PAGES: Final = 1024
"""Pages of a series at most."""
NIBBLES: Final = 0
"""Kinds of pages, by their cells: half a byte, one, two, eight."""
BYTES: Final = 1
SHORTS: Final = 2
AMOUNTS: Final = 3
ELSEWHERE: Final = -0x7FFF_FFFF_FFFF_FFFF
"""The cell of an amount that stands in the dictionary."""
LOW: Final = 0x0F0F_0F0F_0F0F_0F0F
"""Every other half byte of eight bytes."""
EVEN: Final = 0x00FF_00FF_00FF_00FF
"""Every other byte of eight."""
START: Final = 0
"""Numbers of a place."""
FIRST: Final = 1
LENGTH: Final = 2
LIVE: Final = 3
NEAR: Final = 1_048_576
"""Series below it are found without a dictionary."""
QUEUE: Final = 2_048
"""Amounts that are added at once."""
FIRST_EXTENT: Final = 4
EXTENT: Final = 32
"""Pages of a series are listed in multiples of it: few, or many more."""
NO_BYTES: Final = memoryview(bytearray(1))
NO_SHORTS: Final = memoryview(array("H", [0]))
NO_NUMBERS: Final = memoryview(array("i", [0]))
NO_WORDS: Final = memoryview(array("Q", [0]))
"""What to look at while a view is given up."""


class Pool:
    """Pages of one kind, with cells of some bits each. It grows where it is, so that nobody waits for long."""

    def __init__(self, format: str, bits: int) -> None:
        self.bits = bits
        self.pages = 16
        self.fresh = 0
        """Pages from here on were never taken."""
        self.spares = 0
        self.cells = Ground(self.pages * PAGE // 64 * bits, format)
        self.used_ground = Ground(self.pages // 8, "B")
        self.spare_ground = Ground(self.pages // 2, "i")
        self.used = self.used_ground.view()
        """By page: cells that are not 0."""
        self.spare = self.spare_ground.view()
        """Those that were given back."""

    def grow(self) -> None:
        """An eighth more pages; nobody else may hold a view."""
        self.pages += 16 + self.pages // 64 * 8
        self.cells.grow(self.pages * PAGE // 64 * self.bits)
        self.used = NO_BYTES
        self.used_ground.grow(self.pages // 8)
        self.used = self.used_ground.view()
        self.spare = NO_NUMBERS
        self.spare_ground.grow(self.pages // 2)
        self.spare = self.spare_ground.view()

    def take(self) -> int:
        """A page of zeros; -1 where there must be more."""
        if self.spares:
            self.spares -= 1
            return self.spare[self.spares]
        if self.fresh == self.pages:
            return -1
        self.fresh += 1
        return self.fresh - 1

    def give_back(self, page: int) -> None:
        """Take a page of zeros back."""
        self.spare[self.spares] = page
        self.spares += 1


class Totals:
    """Totals by series and slot in `windows` windows, numbered from 0.

    What there is of a series in one window is known by a *place*; its pages are listed in a part of the directory. A
    page is known by `4 * number + kind + 1`, none by 0.
    """

    def __init__(self, windows: int) -> None:
        self.windows = windows
        self.rows: dict[int, int] = {}
        """By series, the first of its places, one for each window."""
        self.spare_rows = [0]
        self.series = [0] * windows
        """How many there are in each window."""
        self.near_ground = Ground(32, "i")
        self.near = self.near_ground.view()
        """By series, where its number is not too large, its row and one; else 0."""
        self.extents_ground = Ground(2 * windows, "i")
        self.extents = self.extents_ground.view()
        """Four numbers a place: where its part of the directory starts, the first page in it, its length, its pages."""
        self.directory_ground = Ground(32, "i")
        self.directory = self.directory_ground.view()
        self.directory_used = 0
        self.spare_parts: dict[int, list[int]] = {}
        """By length."""
        self.nibble_pool, self.byte_pool = Pool("B", 4), Pool("B", 8)
        self.short_pool, self.amount_pool = Pool("H", 16), Pool("q", 64)
        self.beyond: dict[int, int] = {}
        """By cell of the amounts."""
        self.queued = 0
        self.queue_slots = memoryview(array("i", bytes(4 * QUEUE)))
        self.emptied: list[int] = []
        """Series of which a window holds nothing any more."""
        self.row_ground = Ground(windows)
        self.row_series = self.row_ground.view()
        """By row and window, the series; only where the window is the first."""
        self.queue_amounts = memoryview(array("q", bytes(8 * QUEUE)))
        self.visits = 0
        """Pages that are visited for what is queued, one run of it after the other."""
        self.visit_places = memoryview(array("i", bytes(4 * QUEUE)))
        self.visit_pages = memoryview(array("i", bytes(4 * QUEUE)))
        self.visit_starts = memoryview(array("i", bytes(4 * QUEUE + 4)))
        self.page_sums = memoryview(array("q", [0]) * PAGES)
        self._look()

    # What is added.

    def place(self, window: int, series: int) -> int:
        """Where a series is counted in a window; `tidy` it when it may have become empty."""
        if 0 <= series < len(self.near) and self.near[series]:
            return self.near[series] - 1 + window
        row = self.rows.get(series)
        if row is None:
            row = self._new_row(series)
        return row + window

    def tidy(self, series: int) -> None:
        """Forget a series that is in no window."""
        row = self.place(0, series)
        for place in range(row, row + self.windows):
            if self.extents[4 * place + LIVE]:
                return
        del self.rows[series]
        if 0 <= series < len(self.near):
            self.near[series] = 0
        self.spare_rows.append(row)

    def add(self, window: int, series: int, slot: int, amount: int) -> None:
        """Add an amount of any size."""
        self.flush()
        place = self.place(window, series)
        if -LIMIT < amount < LIMIT:
            self.change(place, slot, amount)
        else:
            self._change_large(place, slot, amount)
        self.tidy(series)

    def queue_one(self, windows: Sequence[int], series: int, slot: int, amount: int) -> None:
        """Add an amount below LIMIT in these windows: at once, or when the queue is full or flushed."""
        for window in windows:
            if self.queued == QUEUE:
                self.flush()
            self._visit(self.place(window, series), slot >> PAGE_BITS)
            self.queue_slots[self.queued] = slot
            self.queue_amounts[self.queued] = amount
            self.queued += 1

    def queue(self, window: int, series: int, run: Run, sign: int) -> None:
        """Add, or with a sign of -1 take away, what a run holds, likewise."""
        slots, amounts = pointers.ints(self.queue_slots), pointers.cells(self.queue_amounts)
        run_slots, run_amounts = pointers.ints(run.slots), pointers.cells(run.amounts)
        place, last = self.place(window, series), -1
        for index in range(run.count):
            if self.queued == QUEUE:
                self.flush()
                place, last = self.place(window, series), -1
            slot = run_slots[index]
            if slot >> PAGE_BITS != last:
                last = slot >> PAGE_BITS
                self._visit(place, last)
            slots[self.queued] = slot
            amounts[self.queued] = sign * run_amounts[index]
            self.queued += 1

    def _visit(self, place: int, page: int) -> None:
        """Have what is queued from here on be for this page."""
        self.visit_places[self.visits] = place
        self.visit_pages[self.visits] = page
        self.visit_starts[self.visits] = self.queued
        self.visits += 1

    def flush(self) -> None:
        """Add what is queued.

        Memory is slow where it is asked for one thing after another, so all pages are asked for first.
        """
        if self.queued == 0:
            return
        self.visit_starts[self.visits] = self.queued
        self._touch()
        visit = 0
        while visit < self.visits:
            visit = self._add_queued(visit)
        self.queued = self.visits = 0
        if self.emptied:
            emptied, self.emptied = self.emptied, []
            for series in emptied:
                if series in self.rows:
                    self.tidy(series)

    def _touch(self) -> None:
        """Bring near the pages that will be visited, and before them what leads there."""
        extents, directory = pointers.ints(self.extents), pointers.ints(self.directory)
        places, pages = pointers.ints(self.visit_places), pointers.ints(self.visit_pages)
        for visit in range(self.visits):
            ahead.prefetch(extents[4 * places[visit]])
        for visit in range(self.visits):
            extent = 4 * places[visit]
            at = pages[visit] - extents[extent + FIRST]
            if 0 <= at < extents[extent + LENGTH]:
                ahead.prefetch(directory[extents[extent + START] + at])
        for visit in range(self.visits):
            handle = _handle(extents, directory, places[visit], pages[visit])
            if handle & 3 == NIBBLES + 1:
                ahead.prefetch(self.nibbles[(handle >> 2) * PAGE // 2])
                ahead.prefetch(self.nibble_used[handle >> 2])
            elif handle & 3 == BYTES + 1:
                ahead.prefetch(self.bytes[(handle >> 2) * PAGE])
                ahead.prefetch(self.byte_used[handle >> 2])

    def _add_queued(self, first: int) -> int:
        """Add what is queued, from one visit on; the visit to go on with, since pages may have moved."""
        extents, directory = pointers.ints(self.extents), pointers.ints(self.directory)
        nibbles, nibble_used = pointers.octets(self.nibbles), pointers.octets(self.nibble_used)
        bytes_, byte_used = pointers.octets(self.bytes), pointers.octets(self.byte_used)
        slots, amounts = pointers.ints(self.queue_slots), pointers.cells(self.queue_amounts)
        for visit in range(first, self.visits):
            place = self.visit_places[visit]
            handle = _handle(extents, directory, place, self.visit_pages[visit])
            kind, page = (handle & 3) - 1, handle >> 2
            for at in range(self.visit_starts[visit], self.visit_starts[visit + 1]):
                cell, done = page * PAGE + (slots[at] & (PAGE - 1)), False
                if kind == NIBBLES:
                    done = _count_nibble(nibbles, nibble_used, page, cell, amounts[at])
                elif kind == BYTES:
                    done = _count_byte(bytes_, byte_used, page, cell, amounts[at])
                if not done:
                    self.change(place, slots[at], amounts[at])
                    self.visit_starts[visit] = at + 1
                    return visit
        return self.visits

    def _small(self, kind: int, cell: int) -> int:
        """What is in a narrow cell."""
        if kind == NIBBLES:
            return self.nibbles[cell >> 1] >> 4 * (cell & 1) & 15
        return self.bytes[cell] if kind == BYTES else self.shorts[cell]

    def _set_small(self, kind: int, cell: int, total: int) -> None:
        if kind == NIBBLES:
            shift = 4 * (cell & 1)
            self.nibbles[cell >> 1] = self.nibbles[cell >> 1] & 0xF0 >> shift | total << shift
        elif kind == BYTES:
            self.bytes[cell] = total
        else:
            self.shorts[cell] = total

    def change(self, place: int, slot: int, amount: int) -> None:
        """Add an amount below LIMIT to one total."""
        handle = self._find(place, slot >> PAGE_BITS)
        if handle == 0:
            handle = self._make(place, slot >> PAGE_BITS)
        kind, number = (handle - 1) & 3, (handle - 1) >> 2
        cell = number * PAGE + (slot & (PAGE - 1))
        if kind == AMOUNTS:
            old = self.amounts[cell]
            if old == ELSEWHERE:
                self._change_large(place, slot, amount)
                return
            total = old + amount
            if total >= LIMIT or total <= -LIMIT:
                self.beyond[cell] = total
                total = ELSEWHERE
            self.amounts[cell] = total
        else:
            old = self._small(kind, cell)
            total = old + (amount >> UNIT_BITS)
            wanted = AMOUNTS
            if not amount & (UNIT - 1) and 0 <= total <= 65535:
                wanted = SHORTS if total > 255 else BYTES if total > 15 else NIBBLES
            if wanted > kind:
                self._widen(place, slot >> PAGE_BITS, handle, wanted)
                self.change(place, slot, amount)
                return
            self._set_small(kind, cell, total)
        if (old == 0) != (total == 0):
            self._note(place, slot >> PAGE_BITS, handle, 1 if old == 0 else -1)

    def _change_large(self, place: int, slot: int, amount: int) -> None:
        page = slot >> PAGE_BITS
        handle = self._find(place, page) or self._make(place, page)
        if (handle - 1) & 3 != AMOUNTS:
            handle = self._widen(place, page, handle, AMOUNTS)
        cell = ((handle - 1) >> 2) * PAGE + (slot & (PAGE - 1))
        old = self.amounts[cell]
        total = (self.beyond.pop(cell) if old == ELSEWHERE else old) + amount
        if -LIMIT < total < LIMIT:
            self.amounts[cell] = total
        else:
            self.beyond[cell] = total
            self.amounts[cell] = ELSEWHERE
        if (old == 0) != (total == 0):
            self._note(place, page, handle, 1 if old == 0 else -1)

    def clear(self, window: int) -> None:
        """Forget all that is in a window."""
        for series, row in list(self.rows.items()):
            place = row + window
            for page in range(
                self.extents[4 * place + FIRST], self.extents[4 * place + FIRST] + self.extents[4 * place + LENGTH]
            ):
                handle = self._find(place, page)
                if handle:
                    self._wipe(handle)
                    self._give_back(place, page, handle)
            self.tidy(series)

    # What is read.

    def slots(self, window: int, series: int) -> dict[int, int]:
        """The totals of a series by slot, ascending; those that are not 0."""
        row = self.rows.get(series)
        found: dict[int, int] = {}
        if row is None:
            return found
        place = row + window
        for page in range(
            self.extents[4 * place + FIRST], self.extents[4 * place + FIRST] + self.extents[4 * place + LENGTH]
        ):
            handle = self._find(place, page)
            if handle:
                for slot in range(page << PAGE_BITS, (page + 1) << PAGE_BITS):
                    total = self._amount(handle, slot)
                    if total == ELSEWHERE:
                        found[slot] = self.beyond[((handle - 1) >> 2) * PAGE + (slot & (PAGE - 1))]
                    elif total:
                        found[slot] = total
        return found

    def total(self, window: int, series: int, slot: int) -> int:
        """One total."""
        row = self.rows.get(series)
        if row is None:
            return 0
        handle = self._find(row + window, slot >> PAGE_BITS)
        if handle == 0:
            return 0
        total = self._amount(handle, slot)
        return self.beyond[((handle - 1) >> 2) * PAGE + (slot & (PAGE - 1))] if total == ELSEWHERE else total

    def numbers(self, window: int) -> list[int]:
        """The series in a window."""
        return [series for series, row in self.rows.items() if self.extents[4 * (row + window) + LIVE]]

    def has(self, window: int, series: int) -> bool:
        """Whether a series is in a window."""
        row = self.rows.get(series)
        return row is not None and self.extents[4 * (row + window) + LIVE] != 0

    def ranked(self, window: int, series: int, shares: Sequence[tuple[int, int]]) -> tuple[int, ...] | None:
        """The sum of a series, then the slots of some percentiles by nearest rank; None where there is nothing.

        A share is a numerator and a denominator. Raises OverflowError where sums do not stay below LIMIT.
        """
        row = self.rows.get(series)
        if row is None or self.extents[4 * (row + window) + LIVE] == 0:
            return None
        place = row + window
        whole, start = 0, self.extents[4 * place + START]
        for at in range(self.extents[4 * place + LENGTH]):
            amount = 0
            if self.directory[start + at]:
                amount = self._page_sum(self.directory[start + at])
                whole += amount
                if whole >= LIMIT:
                    raise OverflowError
            self.page_sums[at] = amount
        return (whole, *[self._slot_at(place, _rank(whole, share[0], share[1])) for share in shares])

    def _slot_at(self, place: int, needed: int) -> int:
        """The least slot up to which amounts add up to as much, by the sums of pages that `ranked` has left."""
        at, below = 0, 0
        while below + self.page_sums[at] < needed:
            below += self.page_sums[at]
            at += 1
            if at == self.extents[4 * place + LENGTH]:
                raise ValueError("a percentile is at most 100")
        handle = self.directory[self.extents[4 * place + START] + at]
        slot = (self.extents[4 * place + FIRST] + at) << PAGE_BITS
        below += self._amount(handle, slot)
        while below < needed:
            slot += 1
            below += self._amount(handle, slot)
        return slot

    def _page_sum(self, handle: int) -> int:
        """All amounts of a page. Raises OverflowError for one that is negative or beyond LIMIT / 64."""
        kind, number = (handle - 1) & 3, (handle - 1) >> 2
        if kind == NIBBLES:
            bytes_of = 0
            for at in range(4 * number, 4 * number + 4):
                word = self.nibble_words[at]
                bytes_of += (word & LOW) + (word >> 4 & LOW)
            lanes = (bytes_of & EVEN) + (bytes_of >> 8 & EVEN)
            lanes = (lanes & 0xFFFF) + (lanes >> 16 & 0xFFFF) + (lanes >> 32 & 0xFFFF) + (lanes >> 48)
            return lanes << UNIT_BITS
        if kind == BYTES:
            lanes = 0
            for at in range(8 * number, 8 * number + 8):
                word = self.words[at]
                lanes += (word & EVEN) + (word >> 8 & EVEN)
            lanes = (lanes & 0xFFFF) + (lanes >> 16 & 0xFFFF) + (lanes >> 32 & 0xFFFF) + (lanes >> 48)
            return lanes << UNIT_BITS
        whole = 0
        for cell in range(PAGE * number, PAGE * (number + 1)):
            if kind == SHORTS:
                value = self.shorts[cell]
                whole += value << UNIT_BITS
            else:
                amount = self.amounts[cell]
                if amount < 0 or amount >= LIMIT // PAGE:
                    raise OverflowError
                whole += amount
        return whole

    def _amount(self, handle: int, slot: int) -> int:
        kind = (handle - 1) & 3
        cell = ((handle - 1) >> 2) * PAGE + (slot & (PAGE - 1))
        if kind == AMOUNTS:
            return self.amounts[cell]
        value = self._small(kind, cell)
        return value << UNIT_BITS

    # Pages.

    def _find(self, place: int, page: int) -> int:
        return _handle(pointers.ints(self.extents), pointers.ints(self.directory), place, page)

    def _make(self, place: int, page: int) -> int:
        """A new page of the narrowest cells."""
        if not 0 <= page - self.extents[4 * place + FIRST] < self.extents[4 * place + LENGTH]:
            self._extend(place, page)
        handle = self._take(NIBBLES)
        self.directory[self.extents[4 * place + START] + page - self.extents[4 * place + FIRST]] = handle
        self.extents[4 * place + LIVE] += 1
        if self.extents[4 * place + LIVE] == 1:
            self.series[place % self.windows] += 1
        return handle

    def _note(self, place: int, page: int, handle: int, change: int) -> None:
        """That more or fewer cells of a page are not 0; give it back where none is."""
        kind, number = (handle - 1) & 3, (handle - 1) >> 2
        pool = self._pool(kind)
        pool.used[number] += change
        if pool.used[number] == 0:
            self._give_back(place, page, handle)

    def _give_back(self, place: int, page: int, handle: int) -> None:
        self._pool((handle - 1) & 3).give_back((handle - 1) >> 2)
        self.directory[self.extents[4 * place + START] + page - self.extents[4 * place + FIRST]] = 0
        self.extents[4 * place + LIVE] -= 1
        if self.extents[4 * place + LIVE] == 0:
            self.series[place % self.windows] -= 1
            self.emptied.append(self.row_series[place - place % self.windows])
            self.spare_parts.setdefault(self.extents[4 * place + LENGTH], []).append(self.extents[4 * place + START])
            self.extents[4 * place + LENGTH] = 0

    def _widen(self, place: int, page: int, handle: int, kind: int) -> int:
        """The same page with wider cells."""
        wide = self._take(kind)
        base = ((wide - 1) >> 2) * PAGE
        for slot in range(PAGE):
            amount = self._amount(handle, slot)
            if kind == AMOUNTS:
                self.amounts[base + slot] = amount
            else:
                self._set_small(kind, base + slot, amount >> UNIT_BITS)
        old, new = self._pool((handle - 1) & 3), self._pool(kind)
        new.used[(wide - 1) >> 2] = old.used[(handle - 1) >> 2]
        self._wipe(handle)
        old.give_back((handle - 1) >> 2)
        self.directory[self.extents[4 * place + START] + page - self.extents[4 * place + FIRST]] = wide
        return wide

    def _wipe(self, handle: int) -> None:
        kind, number = (handle - 1) & 3, (handle - 1) >> 2
        self._pool(kind).used[number] = 0
        for cell in range(PAGE * number, PAGE * (number + 1)):
            if kind < AMOUNTS:
                self._set_small(kind, cell, 0)
            else:
                if self.amounts[cell] == ELSEWHERE:
                    del self.beyond[cell]
                self.amounts[cell] = 0

    def _pool(self, kind: int) -> Pool:
        if kind <= BYTES:
            return self.nibble_pool if kind == NIBBLES else self.byte_pool
        return self.short_pool if kind == SHORTS else self.amount_pool

    def _take(self, kind: int) -> int:
        pool = self._pool(kind)
        page = pool.take()
        if page < 0:
            self._look_away()
            pool.grow()
            self._look()
            page = pool.take()
        return 4 * page + kind + 1

    def _look(self) -> None:
        """Take views of the pages."""
        self.nibbles = self.nibble_pool.cells.view()
        self.nibble_words = self.nibble_pool.cells.view().cast("Q")
        self.bytes = self.byte_pool.cells.view()
        self.words = self.byte_pool.cells.view().cast("Q")
        self.shorts = self.short_pool.cells.view()
        self.amounts = self.amount_pool.cells.view()
        self.nibble_used = self.nibble_pool.used
        self.byte_used = self.byte_pool.used

    def _look_away(self) -> None:
        """Let go of them: what somebody sees cannot grow where it is."""
        self.nibbles = self.bytes = self.nibble_used = self.byte_used = NO_BYTES
        self.nibble_words = self.words = NO_WORDS
        self.shorts = NO_SHORTS
        self.amounts = NOTHING

    # The directory.

    def _extend(self, place: int, page: int) -> None:
        """Make room for a page."""
        length = self.extents[4 * place + LENGTH]
        extent = EXTENT if length else FIRST_EXTENT
        first, stop = page, page + 1
        if length:
            first = min(first, self.extents[4 * place + FIRST])
            stop = max(stop, self.extents[4 * place + FIRST] + length)
        first, stop = first // extent * extent, -(-stop // extent) * extent
        start = self._part(stop - first)
        for at in range(start, start + stop - first):
            self.directory[at] = 0
        shift = self.extents[4 * place + FIRST] - first
        for at in range(length):
            self.directory[start + shift + at] = self.directory[self.extents[4 * place + START] + at]
        if length:
            self.spare_parts.setdefault(length, []).append(self.extents[4 * place + START])
        self.extents[4 * place + START] = start
        self.extents[4 * place + FIRST] = first
        self.extents[4 * place + LENGTH] = stop - first

    def _part(self, length: int) -> int:
        spare = self.spare_parts.get(length)
        if spare:
            return spare.pop()
        start = self.directory_used
        if start + length > len(self.directory):
            size = (start + length) // 2 + start // 8 + 32
            self.directory = NO_NUMBERS
            self.directory_ground.grow(size)
            self.directory = self.directory_ground.view()
        self.directory_used += length
        return start

    def _new_row(self, series: int) -> int:
        if not self.spare_rows:
            self._more_rows()
        row = self.rows[series] = self.spare_rows.pop()
        self.row_series[row] = series
        if 0 <= series < NEAR:
            if series >= len(self.near):
                self.near = NO_NUMBERS
                self.near_ground.grow(series // 2 + series // 4 + 32)
                self.near = self.near_ground.view()
            self.near[series] = row + 1
        return row

    def _more_rows(self) -> None:
        count = len(self.row_series)
        places = count + (count // 4 // self.windows + 16) * self.windows
        self.extents = NO_NUMBERS
        self.extents_ground.grow(2 * places)
        self.extents = self.extents_ground.view()
        self.row_series = NOTHING
        self.row_ground.grow(places)
        self.row_series = self.row_ground.view()
        self.spare_rows.extend(range(places - self.windows, count - 1, -self.windows))


def _rank(whole: int, numerator: int, denominator: int) -> int:
    """slo_rules.verdict.rank, of a share."""
    return max(1, -(-whole * numerator // denominator))


def _handle(extents: memoryview, directory: memoryview, place: int, page: int) -> int:
    """The handle of a page, 0 for none."""
    at = page - extents[4 * place + FIRST]
    return directory[extents[4 * place + START] + at] if 0 <= at < extents[4 * place + LENGTH] else 0


def _count_nibble(nibbles: memoryview, used: memoryview, page: int, cell: int, amount: int) -> bool:
    """Add one UNIT more or less to a cell of half a byte.

    False, and nothing is done, where that is no way: where the cell would be too small, or the page the first time or
    no more in use.
    """
    shift = 4 * (cell & 1)
    old = nibbles[cell >> 1] >> shift & 15
    if amount == UNIT:
        if old == 15 or used[page] == 0:
            return False
        nibbles[cell >> 1] += 1 << shift
        used[page] += old == 0
        return True
    if amount != -UNIT or old == 0 or (old == 1 and used[page] == 1):
        return False
    nibbles[cell >> 1] -= 1 << shift
    used[page] -= old == 1
    return True


def _count_byte(bytes_: memoryview, used: memoryview, page: int, cell: int, amount: int) -> bool:
    """Likewise, of a byte."""
    old = bytes_[cell]
    if amount == UNIT:
        if old == 255 or used[page] == 0:
            return False
        bytes_[cell] += 1
        used[page] += old == 0
        return True
    if amount != -UNIT or old == 0 or (old == 1 and used[page] == 1):
        return False
    bytes_[cell] -= 1
    used[page] -= old == 1
    return True
