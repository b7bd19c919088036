"""Which spans were met in the last while, by 64-bit hashes.

A table of buckets that are a line of the cache each. A mark stands in either of two buckets, in that which is emptier,
and makes way for another if its other one has room, so nearly all cells are used before there must be more. In its
lowest bits it carries the *turn* in which it came, and those that came too many turns ago are swept out. The table is
cut into parts, which grow and are swept one by one, so nobody waits for long.

Among ten million spans the chance that any two share a hash, of which 61 bits count, is about 1 in 46,000.
"""

from typing import Final

from exporter import ahead
from exporter.decode import words as pointers
from exporter.ground import Ground

PARTS: Final = 64
PART_BITS: Final = 58
BUCKET: Final = 8
SPARSE: Final = 4
"""A part has so many times as many cells as marks, at most."""
DOUBLED: Final = 2048
"""Parts of fewer buckets, all together of up to 8 MB, get twice as many: to move marks costs more than to find them."""
TURNS: Final = 7
TURN: Final = 7
"""The bits in which a mark carries its turn, from 1 to TURNS."""
HALF: Final = 0xFFFF_FFFF


class Part:
    """The marks whose highest bits are the same."""

    def __init__(self) -> None:
        self.buckets = 64
        self.held = 0
        """Marks, at most."""
        self.cells = Ground(BUCKET * self.buckets, "Q").view()

    def first(self, mark: int) -> int:
        """Where the first of its buckets begins."""
        return ((mark >> 3 & HALF) * self.buckets >> 32) * BUCKET

    def second(self, mark: int) -> int:
        """And the second."""
        return ((mark >> 26 & HALF) * self.buckets >> 32) * BUCKET

    def touch(self, mark: int) -> None:
        """Bring near where a mark would stand."""
        ahead.prefetch(self.cells[self.first(mark)])
        ahead.prefetch(self.cells[self.second(mark)])

    def has(self, mark: int) -> bool:
        """Whether a mark is there."""
        return self.seek(self.first(mark), mark | TURN) < 0 or self.seek(self.second(mark), mark | TURN) < 0

    def seek(self, bucket: int, key: int) -> int:
        """How many marks a bucket has, which stand before what is free; -1 where one of them is the key."""
        count = same = 0
        cells = pointers.unsigned(self.cells)
        for at in range(bucket, bucket + BUCKET):
            count += cells[at] != 0  # to leave early would cost more: nobody can foretell where
            same |= cells[at] ^ key <= TURN
        return -1 if same else count

    def put(self, mark: int, turn: int) -> bool:
        """Put a mark in; whether it was not there."""
        bucket, other, key = self.first(mark), self.second(mark), mark | TURN
        count = self.seek(bucket, key)
        other_count = -1 if count < 0 else self.seek(other, key)
        if other_count < 0:
            return False
        if other_count < count:
            bucket, count = other, other_count
        at = bucket + count if count < BUCKET else self.make_room(bucket, other)
        if at < 0 and SPARSE * self.held > len(self.cells):
            self.resize(self.buckets + self.buckets // (1 if self.buckets < DOUBLED else 4))
            return self.put(mark, turn)
        if at < 0:  # nobody's hashes are like that by chance: a mark is lost, and nothing grows
            at = bucket
        self.cells[at] = key ^ TURN | turn
        self.held += 1
        return True

    def make_room(self, bucket: int, other: int) -> int:
        """Move one of the marks in two full buckets to the other bucket that it may be in; where, or -1."""
        for at in range(BUCKET):
            if self.move(bucket + at, bucket):
                return bucket + at
            if self.move(other + at, other):
                return other + at
        return -1

    def move(self, at: int, bucket: int) -> bool:
        """Have the mark in a cell of a bucket in the other bucket that it may be in; False where that is full."""
        mark = self.cells[at]
        to = self.first(mark) if self.first(mark) != bucket else self.second(mark)
        count = self.seek(to, mark | TURN)
        if count < 0 or count == BUCKET:
            return False
        self.cells[to + count] = mark
        return True

    def resize(self, buckets: int) -> None:
        """Have another number of buckets."""
        old, self.buckets, self.held = self.cells, buckets, 0
        self.cells = Ground(BUCKET * buckets, "Q").view()
        for at in range(len(old)):
            if old[at] != 0:
                self.put(old[at], old[at] & TURN)

    def sweep(self, turn: int) -> None:
        """Forget what came in a turn; become smaller if little is left."""
        cells, left = self.cells, 0
        for bucket in range(0, len(cells), BUCKET):
            to = bucket
            for at in range(bucket, bucket + BUCKET):
                if cells[at] != 0 and cells[at] & TURN != turn:
                    cells[to] = cells[at]
                    to += 1
            left += to - bucket
            for at in range(to, bucket + BUCKET):
                cells[at] = 0
        self.held = left
        if self.buckets > 64 and SPARSE * left < len(cells):
            self.resize(max(64, self.buckets // 2))


class Fingerprints:
    """Marks of the last `kept` turns, at least, where a turn is from one call of `turn` to the next."""

    def __init__(self, kept: int) -> None:
        """`kept`: up to TURNS - 1."""
        self.kept = kept
        self.now = 1
        self.parts = [Part() for _ in range(PARTS)]
        self.swept = PARTS
        """So many parts hold nothing of the turn that is to be forgotten."""

    def add(self, mark: int) -> bool:
        """Whether the mark is new."""
        mark = mark if mark >= BUCKET else mark + BUCKET
        part = self.parts[mark >> PART_BITS]
        return part.put(mark, self.now)

    def touch(self, mark: int) -> None:
        """Bring near where a mark would stand."""
        part = self.parts[mark >> PART_BITS]
        part.touch(mark)

    def __contains__(self, mark: int) -> bool:
        mark = mark if mark >= BUCKET else mark + BUCKET
        part = self.parts[mark >> PART_BITS]
        return part.has(mark)

    def turn(self) -> None:
        """Begin another turn, and with it to forget the oldest."""
        while self.sweep():
            pass
        self.now = self.now % TURNS + 1
        self.swept = 0

    def sweep(self) -> bool:
        """Go on with forgetting, for a millisecond or so; whether there was something to do."""
        if self.swept == PARTS:
            return False
        self.parts[self.swept].sweep((self.now + TURNS - self.kept - 1) % TURNS + 1)
        self.swept += 1
        return True
