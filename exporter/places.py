"""Where things are, by a 64-bit number, and what is due when: flat tables that cost the same however much is open."""

from array import array
from typing import Final

from exporter import ahead
from exporter.decode import words as pointers
from exporter.ground import NOTHING, Ground
from exporter.join import NEVER, seed

SEED: Final = seed()
ODD: Final = 0x9E3779B97F4A7C15
MASK: Final = 0xFFFFFFFFFFFFFFFF
NO_PLACES: Final = memoryview(array("i", [0]))
"""What to look at while a view is given up."""


class Some:
    """A part of a mapping: an open table."""

    def __init__(self) -> None:
        self.count = 0
        self.mask = 63
        self.cells = memoryview(array("Q", bytes(16 * 64)))
        """Keys, 0 where there is none, and places less ELSEWHERE."""

    def find(self, key: int) -> int:
        """The place of a key, -1 where there is none."""
        key = key & MASK or 1
        mask, cells = self.mask, pointers.unsigned(self.cells)
        at = self.home(key)
        while cells[2 * at] != 0:
            if cells[2 * at] == key:
                return cells[2 * at + 1] - 2
            at = (at + 1) & mask
        return -1

    def home(self, key: int) -> int:
        """Where a key stands if nothing is in its way."""
        return ((key ^ SEED) * ODD & MASK) >> 20 & self.mask

    def touch(self, key: int) -> None:
        """Bring near where a key would stand."""
        ahead.prefetch(self.cells[2 * self.home(key & MASK or 1)])

    def put(self, key: int, place: int) -> None:
        """Set the place of a key."""
        key = key & MASK or 1
        mask, cells = self.mask, pointers.unsigned(self.cells)
        at = self.home(key)
        while cells[2 * at] != 0 and cells[2 * at] != key:
            at = (at + 1) & mask
        if cells[2 * at] == 0:
            self.count += 1
        cells[2 * at] = key
        cells[2 * at + 1] = place + 2
        if 4 * self.count > 3 * mask:
            self.grow()

    def remove(self, key: int) -> None:
        """Forget a key. What stands behind it moves up, so no search ends too early."""
        key = key & MASK or 1
        mask, cells = self.mask, pointers.unsigned(self.cells)
        at = self.home(key)
        while cells[2 * at] != 0 and cells[2 * at] != key:
            at = (at + 1) & mask
        if cells[2 * at] == key:
            self.count -= 1
            self.close(at)

    def close(self, hole: int) -> None:
        """Fill a hole with what stands behind it and might be sought there."""
        mask, cells, at = self.mask, pointers.unsigned(self.cells), hole
        while True:
            at = (at + 1) & mask
            if cells[2 * at] == 0:
                break
            if ((at - self.home(cells[2 * at])) & mask) >= ((at - hole) & mask):
                cells[2 * hole] = cells[2 * at]
                cells[2 * hole + 1] = cells[2 * at + 1]
                hole = at
        cells[2 * hole] = 0

    def grow(self) -> None:
        """Twice the room."""
        old, size = self.cells, self.mask + 1
        self.mask = 2 * size - 1
        self.count = 0
        self.cells = Ground(4 * size, "Q").view()
        for at in range(size):
            if old[2 * at] != 0:
                self.put(old[2 * at], old[2 * at + 1] - 2)


class Places:
    """A mapping of 64-bit numbers, signed or not, to places or ELSEWHERE. It grows part by part: nobody waits long."""

    def __init__(self) -> None:
        self.parts = [Some() for _ in range(16)]

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(part.count for part in self.parts)

    def find(self, key: int) -> int:
        """The place of a key, -1 where there is none."""
        part = self.parts[(((key & MASK) ^ SEED) * ODD & MASK) >> 60]
        return part.find(key)

    def touch(self, key: int) -> None:
        """Bring near where a key would stand."""
        part = self.parts[(((key & MASK) ^ SEED) * ODD & MASK) >> 60]
        part.touch(key)

    def put(self, key: int, place: int) -> None:
        """Set the place of a key."""
        part = self.parts[(((key & MASK) ^ SEED) * ODD & MASK) >> 60]
        part.put(key, place)

    def remove(self, key: int) -> None:
        """Forget a key."""
        part = self.parts[(((key & MASK) ^ SEED) * ODD & MASK) >> 60]
        part.remove(key)


class Stack:
    """Places, of which that which came last is taken first."""

    def __init__(self) -> None:
        self.count = 0
        self.places = memoryview(array("q", bytes(8 * 64)))

    def push(self, place: int) -> None:
        """Put one on top."""
        if self.count == len(self.places):
            self.places = grown(self.places)
        self.places[self.count] = place
        self.count += 1

    def pop(self) -> int:
        """Take the topmost; there must be one."""
        self.count -= 1
        return self.places[self.count]


class Queue:
    """Pairs of a time and a slot, by time. Mostly times come in their order: then nothing is sorted.

    A slot may be noted for several times; that in its cell, `16 * slot`, is the one that counts. One that is `grace`
    later than what is in `16 * slot + 4` may yet be.
    """

    def __init__(self, grace: int = NEVER) -> None:
        self.grace = grace
        self.room = 1024
        self.times_ground, self.places_ground = Ground(self.room), Ground(self.room // 2, "i")
        self.times, self.places = self.times_ground.view(), self.places_ground.view()
        """Of those that came in order, from `head` to `tail`, in a ring."""
        self.head = 0
        self.tail = 0
        self.heap = memoryview(array("q", bytes(16 * 1024)))
        self.size = 0
        """Pairs that came out of order, which a heap sorts."""
        self.first = NEVER
        """The earliest time, or the largest number there is."""
        self.popped = -1
        """The latest time that was taken out: all later ones are still there."""

    def push(self, time: int, place: int, slots: memoryview) -> None:
        """Put a pair in; where there is no room, what no longer counts goes first."""
        if self.tail - self.head == self.room or 2 * self.size == len(self.heap):
            self.tidy(slots)
        mask = self.room - 1
        if self.tail != self.head and time < self.times[(self.tail - 1) & mask]:
            self.push_heap(time, place)
        else:
            self.times[self.tail & mask] = time
            self.places[self.tail & mask] = place
            self.tail += 1
        if time < self.first:
            self.first = time

    def pop(self) -> int:
        """Take out the slot with the earliest time."""
        if self.first > self.popped:
            self.popped = self.first
        at = self.head & (self.room - 1)
        if self.size and (self.tail == self.head or self.heap[0] < self.times[at]):
            place = self.pop_heap()
        else:
            place = self.places[at]
            self.head += 1
        self.find_first()
        return place

    def find_first(self) -> None:
        """Look for the earliest time anew."""
        self.first = NEVER
        if self.tail != self.head:
            self.first = self.times[self.head & (self.room - 1)]
        if self.size and self.heap[0] < self.first:
            self.first = self.heap[0]

    def tidy(self, slots: memoryview) -> None:
        """Drop the pairs that no longer count, and have room."""
        mask, tail = self.room - 1, self.head
        for place in range(self.head, self.tail):
            time, slot = self.times[place & mask], self.places[place & mask]
            if self.counts(time, 16 * slot, slots):
                self.times[tail & mask] = time
                self.places[tail & mask] = slot
                tail += 1
        self.tail = tail
        if 2 * (self.tail - self.head) > mask:
            self.grow_ring()
        size, self.size = self.size, 0
        for place in range(size):
            time, slot = self.heap[2 * place], self.heap[2 * place + 1]
            if self.counts(time, 16 * slot, slots):
                self.push_heap(time, slot)
        if 4 * self.size > len(self.heap):
            self.heap = grown(self.heap)
        self.find_first()

    def counts(self, time: int, at: int, slots: memoryview) -> bool:
        """Whether a time is that of a slot, or may yet be."""
        return bool(slots[at] == time or time - slots[at + 4] == self.grace)

    def grow_ring(self) -> None:
        """Twice the room: what stands before the head, as the ring had come to its end, goes on behind it."""
        room, count, head = self.room, self.tail - self.head, self.head & (self.room - 1)
        self.times, self.places = NOTHING, NO_PLACES
        self.times_ground.grow(2 * room)
        self.places_ground.grow(room)
        self.times, self.places = self.times_ground.view(), self.places_ground.view()
        for at in range(head):
            self.times[room + at] = self.times[at]
            self.places[room + at] = self.places[at]
        self.room, self.head, self.tail = 2 * room, head, head + count

    def push_heap(self, time: int, place: int) -> None:
        """A pair that comes before one which is there already."""
        at = self.size
        self.size += 1
        heap = self.heap
        while at > 0 and time < heap[2 * ((at - 1) >> 1)]:
            above = (at - 1) >> 1
            heap[2 * at] = heap[2 * above]
            heap[2 * at + 1] = heap[2 * above + 1]
            at = above
        heap[2 * at] = time
        heap[2 * at + 1] = place

    def pop_heap(self) -> int:
        """The first of the heap."""
        heap = self.heap
        found = heap[1]
        self.size -= 1
        size, at = self.size, 0
        time, place = heap[2 * size], heap[2 * size + 1]
        below = 1
        while below < size:
            if below + 1 < size and heap[2 * below + 2] < heap[2 * below]:
                below += 1
            if heap[2 * below] >= time:
                break
            heap[2 * at] = heap[2 * below]
            heap[2 * at + 1] = heap[2 * below + 1]
            at = below
            below = 2 * at + 1
        heap[2 * at] = time
        heap[2 * at + 1] = place
        return found


class Ranked:
    """Places by three numbers each: what is least comes first."""

    def __init__(self) -> None:
        self.heap = memoryview(array("q", bytes(32 * 1024)))
        self.size = 0

    def push(self, first: int, second: int, third: int, place: int) -> None:
        """Put a place in."""
        if 4 * self.size == len(self.heap):
            self.heap = grown(self.heap)
        at = self.size
        self.size += 1
        while at > 0 and self.is_after((at - 1) >> 1, first, second, third, place):
            self.copy((at - 1) >> 1, at)
            at = (at - 1) >> 1
        self.set(at, first, second, third, place)

    def pop(self, first: int, second: int, third: int) -> int:
        """Take the least out, if it is no more than these numbers; else -1."""
        if self.size == 0 or self.is_after(0, first, second, third, self.heap[3]):
            return -1
        found = self.heap[3]
        self.size -= 1
        size, at, below = self.size, 0, 1
        first, second, third = self.heap[4 * size], self.heap[4 * size + 1], self.heap[4 * size + 2]
        place = self.heap[4 * size + 3]
        while below < size:
            other = 4 * below + 4
            if below + 1 < size and self.is_after(
                below, self.heap[other], self.heap[other + 1], self.heap[other + 2], self.heap[other + 3]
            ):
                below += 1
            if self.is_after(below, first, second, third, place):
                break
            self.copy(below, at)
            at = below
            below = 2 * at + 1
        self.set(at, first, second, third, place)
        return found

    def is_after(self, at: int, first: int, second: int, third: int, place: int) -> bool:
        """Whether what stands there comes after these numbers."""
        at = 4 * at
        if self.heap[at] != first:
            return self.heap[at] > first
        if self.heap[at + 1] != second:
            return self.heap[at + 1] > second
        if self.heap[at + 2] != third:
            return self.heap[at + 2] > third
        return self.heap[at + 3] > place

    def set(self, at: int, first: int, second: int, third: int, place: int) -> None:
        """Have these numbers stand there."""
        self.heap[4 * at], self.heap[4 * at + 1] = first, second
        self.heap[4 * at + 2], self.heap[4 * at + 3] = third, place

    def copy(self, at: int, to: int) -> None:
        """Have in one place what is in another."""
        for cell in range(4):
            self.heap[4 * to + cell] = self.heap[4 * at + cell]


def grown(cells: memoryview) -> memoryview:
    """The same cells, and as many again."""
    grown = memoryview(array("q", [0]) * (2 * len(cells)))
    grown[: len(cells)] = cells
    return grown
