"""The short way from spans to counts, for requests like those that came before.

Most requests of a service look alike: the same spans by the same emitters, hanging together in the same way, and only
ids, hosts, times and token counts differ. Those wait here, in flat arrays; when a request is whole, its *shape* (which
kinds of spans there are, and which ids, clocks and resources are the same) leads to an `Act`, the tape of what joining
and measuring did with an earlier one, which is played for its numbers (`exporter.script`). The rules are not here: they
are in `exporter.tree` and `exporter.measure`, which every new shape goes through twice before it has an act
(`exporter.rehearse`).

Spans of other applications that say nothing, and tie none together that say something, are part of no shape. They are
freed as they grow old, and traces of nothing else are never looked at more closely.

What is unusual goes the general way, through `exporter.join`: spans with links, traces that share a request id, jobs
that are still in a queue, several requests in one trace, log records, shapes that were not seen before, numbers for
which no act holds. The trace is then *handed over*, and stays there.

What must stay true
    A trace is in one place: here, or in the table, which is then noted here by `ELSEWHERE`.
    What is given out or counted, and when, is what the table would have given out.
    Spans choose ids, times and kinds: all that grows with them has a bound.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from exporter import ahead, record
from exporter.align import AHEAD_NS, BUCKET_NS
from exporter.decode import words as pointers
from exporter.ground import NOTHING, Ground
from exporter.join import NEVER, Gathering, Table, mark_at, trace_key
from exporter.marks import Fingerprints
from exporter.places import Places, Queue, Ranked, Stack, grown
from exporter.record import MISSING
from exporter.script import Script
from exporter.tally import Plan, Tally
from slo_rules.vocabulary import FATES

HEAD: Final = (
    record.SPAN, record.PARENT, record.START, record.END, record.SEEN, record.CLOCK, record.RESOURCE, record.REQUEST_ID,
    record.SEQUENCE_ID,
)  # fmt: skip
"""The cells of a row that differ from one request to the next, and are kept of every row, after the kind of it."""
TAIL: Final = (
    record.ARRIVED, record.ENQUEUED, record.DEQUEUED, record.DISPATCHED, record.SCHEDULED, record.FIRST_TOKEN,
    record.LAST_TOKEN, record.ENDED, record.INPUT, record.OUTPUT, record.CACHED, record.ITEMS, record.MODEL,
    record.CLASS,
)  # fmt: skip
"""Likewise, but only those that there are in spans of a kind are kept; the declared labels follow."""
FIXED: Final = tuple(cell for cell in range(2, record.LABELS) if cell not in HEAD + TAIL)
"""The others, but for the trace id: together with which cells there are, they make a *kind* of span."""
LINE: Final = 8
"""Cells of a line of the cache. What is kept of a row has some lines of its own."""
LINES: Final = 3
"""Rows that need more have as many as the widest, since room is not shared by rows of different sizes."""
BESIDE: Final = 8
"""So many rows of a trace are noted in its slot; where there are more, all of them in a block."""
MOST_ROWS: Final = 24
"""Of one trace: as many as a block of the widest rows has cells."""
ROWS_AT_ONCE: Final = 64
"""So much room is made for, of the same size."""
MOST_KINDS: Final = 8192
MOST_SHAPES: Final = 8192
MOST_PLANS: Final = 65_536
"""Of all acts together, of about 800 bytes each."""
MOST_ACTS: Final = 16
"""Of one shape."""
REHEARSED_AT_ONCE: Final = 8
REHEARSAL: Final = 20
"""What a rehearsal costs, as many times as the general way, has to be earned: by so many requests on the short way, or
by a second. So shapes that never come again cost little."""
TOGETHER: Final = 4096
"""So many requests wait to be counted together, those that are counted alike one value after the other. From then on
those that wait longest, and all that are alike with them, are counted as others come: nobody is held up for long. Those
who read call `flush` first."""
ENOUGH: Final = 512
ALIKE: Final = 16
"""So many wait where, on average, so many are alike: they stay in nearer caches."""
BY_ONE_PLAN: Final = 256
"""All their rows may be judged as none was before, and a selection that has become full must have room for them."""
TOUCHED: Final = 64
"""Rows that are received in one go, likewise."""
GATHERED: Final = 32
"""Requests that are looked at in one go: what is known of them is asked for before."""
NEAR: Final = 64
"""So many combinations of labels are in the caches anyway."""
MOST_CREDIT: Final = 200 * REHEARSAL
ODD: Final = 0x9E3779B97F4A7C15
MASK: Final = 0xFFFFFFFFFFFFFFFF
ELSEWHERE: Final = -2
"""In place of a slot: the table has it."""


class Planned:
    """A plan (`exporter.tally`) and the labels that it is for, and who waits to be counted by it together."""

    def __init__(self, numbers: tuple[int, ...], plan: Plan, epoch: int) -> None:
        self.numbers = memoryview(array("q", numbers))
        self.plan = plan
        self.epoch = epoch
        self.opened = False
        """Whether its series have their places."""
        self.waiting = 0
        self.last = -1
        """Of those who wait, the last; each leads to the one before it."""


class Act:
    """What is done for requests of one shape whose numbers pass the guards of one script."""

    def __init__(
        self, script: Script, *, stamp: int, opened: bool, members: Sequence[int], fates: Sequence[int], end: int = 0,
        first: int = 0, boundaries: tuple[str, ...] = (), sheet: Sequence[int] = (),
        stores: Sequence[tuple[int, int]] = (), copies: Sequence[tuple[int, int, int]] = (),
        labels: Sequence[tuple[int, int]] = (), weight: int = 0, joined: int = 0, unmatched: int = -1,
        negative: int = 0, in_windows: bool = True, announced: int = -1,
    ) -> None:  # fmt: skip
        """`members`: the rows of the request. `fates`: of each row.

        `stores`: cell of the sheet, register. `copies`: cell of the sheet, row, cell. `labels`: row, cell.
        """
        self.script = script
        self.stamp = stamp
        """What was known of gateways when it was recorded, -1 where that does not matter."""
        self.opened = opened
        """A job that is still in a queue."""
        self.members = sum(1 << member for member in members)
        """A bit for each row of the request; none where no row is part of one."""
        self.halfway = not boundaries and self.members != 0
        """Good only for telling whether to wait, or to leave it to the table."""
        self.passing = self.halfway and not opened
        """Good only while there is something to wait for."""
        self.covering = len(members) == len(fates)
        """All spans are part of the request, so it waits or goes as one."""
        self.fates = memoryview(array("q", fates))
        """Of each row, by its number in vocabulary.FATES; COUNTED where it was counted when it came."""
        self.end = end
        """Register of the newest end."""
        self.first = first
        """The outermost span."""
        self.boundaries = boundaries
        self.sheet = memoryview(array("q", sheet) or array("q", [0]))
        self.size = len(self.sheet)
        self.stores = memoryview(array("q", [cell for store in stores for cell in store]) or array("q", [0]))
        self.stored = len(stores)
        self.copies = memoryview(array("q", [cell for copy in copies for cell in copy]) or array("q", [0]))
        self.copied = len(copies)
        self.labels = memoryview(array("q", [cell for label in labels for cell in label]))
        self.labelled = len(labels)
        self.weight = weight
        self.joined = joined
        self.unmatched = unmatched
        self.negative = negative
        self.in_windows = in_windows
        self.announced = announced
        """The row of the sheet that was counted as arrived when it entered a queue, or -1."""
        self.plans: dict[int, Planned] = {}
        """By a hash of the labels; shared with acts that are alike."""
        known = tuple([cell for cell, _ in stores]), tuple([cell for cell, _, _ in copies])
        self.alike = (
            boundaries, tuple(sheet), known, self.labelled, weight, joined, unmatched, negative, in_windows, announced,
        )  # fmt: skip
        """Those who have the same here differ in how requests are told and reckoned, not in how they are counted."""
        if not all(0 <= cell < self.size and script.has(register) for cell, register in stores):
            raise IndexError(f"a sheet of {self.size} cells from {stores}")
        if not all(0 <= cell < self.size for cell, _, _ in copies):
            raise IndexError(f"a sheet of {self.size} cells from {copies}")


class Shape:
    """Kinds of spans and how their ids stand to each other, with what is done for such requests."""

    def __init__(self, look: list[int]) -> None:
        self.look = memoryview(array("q", look))
        self.acts: list[Act] = []
        self.misses = 0
        self.hopeless = -1
        """The stamp under which rehearsing it failed."""

    def teach(self, act: Act | None, stamp: int) -> None:
        """Note what a rehearsal has found."""
        if act is None or len(self.acts) >= MOST_ACTS:
            self.hopeless = stamp
        else:
            self.acts.append(act)


class Lesson(NamedTuple):
    """A shape to rehearse."""

    shape: Shape
    rows: list[list[int]]
    whole: bool
    """Whether they are all that will come."""
    announced: bool


class Express:
    """The traces that wait to go the short way. Times are in the unit of the rows' SEEN."""

    def __init__(
        self, table: Table, tally: Tally, plan: Callable[[Act, tuple[int, ...]], Plan],
        replay: bool,
    ) -> None:  # fmt: skip
        """`plan` makes plans; in a `replay` requests are measured when all that bounds their clocks is known."""
        self.table = table
        self.tally = tally
        self.plan = plan
        self.replay = replay
        self.fingerprints: Fingerprints = table.fingerprints
        self.marks = memoryview(array("Q", bytes(8 * TOUCHED)))
        """Of the rows that are being received."""
        table.telling = True
        self.grace_ns = table.grace_ns
        self.max_age_ns = table.max_age_ns
        self.width = table.width
        self.varying = memoryview(array("q", [*HEAD, *TAIL, *range(record.LABELS, self.width)]))
        self.fixed = memoryview(array("q", FIXED))
        self.row_ground = Ground(4 * LINE * ROWS_AT_ONCE)
        self.cells = self.row_ground.view()
        """Of rows that wait: the kind, the cells of HEAD, and those of the others that there are."""
        self.cells_used = 0
        self.free_rows = [Stack() for _ in range(lines_of(len(self.varying)) + 1)]
        """By their lines."""
        self.slot_ground = Ground(16 * 256)
        self.slots = self.slot_ground.view()
        self.free_slots = Stack()
        for slot in range(255, -1, -1):
            self.free_slots.push(slot)
        self.traces = Places()
        self.ids = Places()
        self.put_offs = Ranked()
        """Slots that are to be measured, by when that can be done, and the start and span of the outermost span."""
        self.soon = Queue(self.grace_ns)
        self.later = Queue()
        """Those who wait for more spans, and the jobs that wait in a queue and might be too old some day."""
        self.kind_size = len(FIXED) + 4 + len(self.varying) - len(HEAD)
        self.kinds = memoryview(array("q", bytes(8 * 64 * self.kind_size)))
        """By kind: the fixed cells, which of the varying ones there are, the lines of a row, how many cells it has
        beside those of HEAD, and which; last, whether it says nothing but what it stands in."""
        self.kinds_known = 0
        self.guesses = memoryview(array("q", [-1]) * 64)
        """The kinds of the rows that came last, by what tells most kinds apart."""
        self.kind_of = memoryview(array("q", bytes(8 * 4 * MOST_KINDS)))
        self.shapes: dict[int, Shape] = {}
        self.plans: dict[tuple[object, ...], dict[int, Planned]] = {}
        """Those of acts that are alike: requests of different shapes are counted together."""
        self.planned_so_far, self.planned_in = 0, tally.epoch
        """How many these are, and for which epoch."""
        self.sheet_size = 0
        self.sheets = memoryview(array("q", [0]))
        """Of requests that wait to be counted: a sheet of `sheet_size` cells for each of their numbers."""
        self.befores = memoryview(array("q", range(-1, TOGETHER - 1)))
        self.traffic = memoryview(array("q", bytes(8 * TOGETHER)))
        """By number: who comes before it, where it was announced."""
        self.free_number = TOGETHER - 1
        """A number that nobody has; each leads to another."""
        self.some = memoryview(array("q", bytes(8 * TOGETHER)))
        self.some_traffic = memoryview(array("q", bytes(8 * TOGETHER)))
        """Of those that are counted together: where their sheets begin, where they were announced."""
        self.dues = memoryview(array("q", bytes(16 * GATHERED)))
        self.gathered = self.taken = 0
        """Who is looked at next: when that is due, and the slot. So many there were, and were taken."""
        self.put_off_slots = memoryview(array("q", bytes(8 * GATHERED)))
        self.measured = self.to_measure = 0
        """Who is measured next. So many of these there were, and have been."""
        self.leaving = False
        """Everything has been handed over: none goes this way any more."""
        self.uncounted = 0
        self.awaited: list[tuple[Act, Planned]] = []
        """By whom some wait to be counted, those first that have waited longest."""
        self.counted = 0
        """So many of these have been."""
        self.places = memoryview(array("q", bytes(8 * MOST_ROWS)))
        """The rows of the slot that is looked at: those that its shape is made of, then those that say nothing."""
        self.shaped = self.lined = 0
        """How many there are of the former, and of all."""
        self.above = memoryview(array("q", bytes(8 * MOST_ROWS)))
        """Where in `places` stands what is around each."""
        self.newest = self.oldest = 0
        """When the last and the first of some of them came."""
        self.look = memoryview(array("q", bytes(8 * (MOST_ROWS * 2 + 1))))
        self.looked = 0
        self.touched = memoryview(array("q", bytes(8 * len(self.free_rows))))
        """Free rows that were brought near, by their lines."""
        self.fates = memoryview(array("q", bytes(8 * len(FATES))))
        self.odd: list[int] = []
        """Of the rows received last, those that must go the general way."""
        self.lessons: list[Lesson] = []
        self.stamp = 0
        self.credit = MOST_CREDIT
        self.open = 0
        self.stored = 0
        self.newest_ns = 0
        self.oldest_ns = NEVER
        for key in table.gatherings:
            self.traces.put(key & MASK, ELSEWHERE)
        for identity in table.by_id:
            self.ids.put(identity & MASK, ELSEWHERE)

    # In.

    def receive(
        self, rows: memoryview, count: int, now_ns: int, future_ns: int, delay_ns: int, lateness_ns: int
    ) -> list[int]:
        """Take in rows, one after the other in a flat array; gives the numbers of those that the table must take.

        Fates that are known on arrival are counted and written into the rows. Cells and fates stand as numbers, as C
        wants them: those of `exporter.record` (4 start, 5 end, 7 profile, 38 fate) and vocabulary.FATES, in order.
        """
        self.odd = []
        for index in range(count):
            if index % TOUCHED == 0:
                self.touch(rows, index, min(index + TOUCHED, count))
            base = index * self.width
            end = rows[base + 5]
            if not self.replay and end > now_ns + future_ns:
                self.fates[3] += 1
                continue
            if not self.fingerprints.add(self.marks[index % TOUCHED]):
                self.fates[4] += 1
                continue
            if end > self.newest_ns:
                self.newest_ns = end
            if rows[base + 4] < self.oldest_ns:
                self.oldest_ns = rows[base + 4]
            if rows[base + 7] == -1:
                self.fates[5] += 1
                rows[base + 38] = -1
            elif rows[base + 7] == -2:
                self.fates[6] += 1
                continue
            elif not self.replay and now_ns - end > delay_ns:
                rows[base + 38] = 2 if now_ns - end > lateness_ns else 1
            if not self.take(rows, base):
                self.odd.append(index)
        return self.odd

    def touch(self, rows: memoryview, first: int, stop: int) -> None:
        """Bring near what will be looked up. A look-up waits for memory; many at once wait together."""
        for index in range(first, stop):
            base = index * self.width
            mark = self.marks[index - first] = mark_at(rows, base)
            self.traces.touch(trace_key(rows[base], rows[base + 1]))
            self.fingerprints.touch(mark)
            if rows[base + 29] != MISSING:
                self.ids.touch(rows[base + 29])
        for lines in range(len(self.touched)):
            self.touched[lines] = 0
        for index in range(first, stop):
            base = index * self.width
            slot = self.traces.find(trace_key(rows[base], rows[base + 1]))
            if slot >= 0:
                self.touch_slot(slot)
            self.touch_free(self.guesses[self.guess(rows, base)])

    def touch_slot(self, slot: int) -> None:
        """Bring near a trace that waits."""
        ahead.prefetch(self.slots[16 * slot])
        ahead.prefetch(self.slots[16 * slot + 8])

    def touch_row(self, place: int) -> None:
        """Bring near a row that waits; hardly any has more than three lines."""
        ahead.prefetch(self.cells[place])
        ahead.prefetch(self.cells[place + 8])
        ahead.prefetch(self.cells[place + 16])

    def touch_free(self, kind: int) -> None:
        """Bring near where another row of a kind will be kept."""
        if kind >= 0:
            lines = self.lines(kind)
            free = self.free_rows[lines]
            if self.touched[lines] < free.count:
                self.touched[lines] += 1
                self.touch_row(free.places[free.count - self.touched[lines]])

    def take(self, rows: memoryview, base: int) -> bool:
        """Keep a row, or hand over what belongs to it; whether it was kept."""
        key = trace_key(rows[base], rows[base + 1])
        slot = self.traces.find(key)
        identity = rows[base + 29]
        kind = -1
        if slot != ELSEWHERE and rows[base + 11] == MISSING and rows[base + 39] == MISSING:
            kind = self.kind(rows, base)
        at = 16 * slot
        fits = kind >= 0 and (slot < 0 or (self.slots[at + 3] < MOST_ROWS and self.is_of(at, rows, base)))
        owner = -1 if identity == MISSING else self.ids.find(identity)
        if not fits or (owner != -1 and owner != slot):
            self.release(key)
            if identity != MISSING:
                self.release_id(identity)
            return False
        if slot < 0:
            slot = self.begin(key, rows[base], rows[base + 1], rows[base + 6])
        if identity != MISSING and owner < 0:
            self.ids.put(identity, slot)
        self.store(slot, rows, base, kind)
        return True

    def is_of(self, at: int, rows: memoryview, base: int) -> bool:
        """Whether a row is of the trace whose slot begins at `at`, and not of another with the same key."""
        return bool(self.slots[at + 1] == rows[base] and self.slots[at + 2] == rows[base + 1])

    def begin(self, key: int, high: int, low: int, seen: int) -> int:
        """A slot for a new trace."""
        if self.free_slots.count == 0:
            self.add_slots()
        slot = self.free_slots.pop()
        at = 16 * slot
        self.slots[at + 1] = high
        self.slots[at + 2] = low
        self.slots[at + 3] = 0
        self.slots[at + 4] = seen
        self.slots[at + 5] = seen
        self.slots[at + 7] = -1
        self.traces.put(key, slot)
        self.slots[at] = seen + self.grace_ns
        self.soon.push(seen + self.grace_ns, slot, self.slots)
        self.open += 1
        return slot

    def look_at(self, slot: int, due: int) -> None:
        """Look at a slot at some time, and not at the time that was noted before."""
        self.slots[16 * slot] = due
        if self.replay or due != self.slots[16 * slot + 4] + self.grace_ns or due <= self.soon.popped:
            self.soon.push(due, slot, self.slots)  # else it is in the queue since the newest row came

    def store(self, slot: int, rows: memoryview, base: int, kind: int) -> None:
        """Copy what varies of a row."""
        place, at = self.row_for(self.lines(kind)), 16 * slot
        if self.slots[at + 3] == BESIDE:
            self.slots[at + 8] = self.block_of(at)
        cells, row, kinds = pointers.cells(self.cells), pointers.cells(rows), pointers.cells(self.kinds)
        cells[place] = kind
        pointers.put(cells, place + 1, row, base + 2, 5)  # HEAD
        pointers.put(cells, place + 6, row, base + 9, 2)
        pointers.put(cells, place + 8, row, base + 29, 2)
        more = kind * self.kind_size + len(self.fixed) + 2
        for index in range(1, kinds[more] + 1):
            cells[place + 9 + index] = row[base + kinds[more + index]]
        self.note(at, self.slots[at + 3], place)
        self.slots[at + 3] += 1
        seen = rows[base + 6]
        if seen > self.slots[at + 4]:
            self.slots[at + 4] = seen
            if not self.replay:  # rows come in the order of these times, which no queue has to sort
                self.soon.push(seen + self.grace_ns, slot, self.slots)
        if seen < self.slots[at + 5]:
            self.slots[at + 5] = seen
        if seen + self.grace_ns < self.slots[at]:  # what waited in a queue goes on, or it came earlier than the others
            self.look_at(slot, seen + self.grace_ns)
        self.stored += 1

    def row_at(self, at: int, number: int) -> int:
        """The place of one of the rows of the slot that begins at `at`."""
        if self.slots[at + 3] > BESIDE:
            return self.cells[self.slots[at + 8] + number]
        return self.slots[at + 8 + number]

    def note(self, at: int, number: int, place: int) -> None:
        """Note the place of a row in the slot that begins at `at`, or in its block."""
        if number < BESIDE:
            self.slots[at + 8 + number] = place
        else:
            self.cells[self.slots[at + 8] + number] = place

    def block_of(self, at: int) -> int:
        """A block with the places of the rows of a slot, which has room for no more."""
        block = self.row_for(LINES)
        pointers.put(pointers.cells(self.cells), block, pointers.cells(self.slots), at + 8, BESIDE)
        return block

    def free_block(self, block: int) -> None:
        """Have its room again."""
        free = self.free_rows[LINES]
        free.push(block)

    def kind(self, rows: memoryview, base: int) -> int:
        """The number of the kind of a row, -1 where no more kinds are told apart."""
        given, row, varying = 0, pointers.cells(rows), pointers.cells(self.varying)
        for index in range(len(self.varying)):
            given = given * 2 + (row[base + varying[index]] != MISSING)
        guess = self.guess(rows, base)
        number = self.guesses[guess]
        if not self.is_kind(number, rows, base, given):
            number = self.guesses[guess] = self.find_kind(rows, base, given)
        return number

    def guess(self, rows: memoryview, base: int) -> int:
        """What tells most kinds apart."""
        return (rows[base + 7] * 31 + rows[base + 26]) & 63

    def lines(self, kind: int) -> int:
        """Of a row of a kind."""
        return self.kinds[kind * self.kind_size + len(self.fixed) + 1]

    def is_kind(self, number: int, rows: memoryview, base: int, given: int) -> bool:
        """Whether a row is of a kind."""
        if number < 0:
            return False
        row, fixed, kinds = pointers.cells(rows), pointers.cells(self.fixed), pointers.cells(self.kinds)
        size = len(self.fixed)
        place = number * self.kind_size
        differs = kinds[place + size] ^ given
        for index in range(size):
            differs |= kinds[place + index] ^ row[base + fixed[index]]
        return differs == 0

    def find_kind(self, rows: memoryview, base: int, given: int) -> int:
        """The number of the kind of a row in which the cells of `given` are."""
        mixed = self.mix(17, given)
        for index in range(len(self.fixed)):
            mixed = self.mix(mixed, rows[base + self.fixed[index]])
        mask = len(self.kind_of) - 1
        at = mixed & mask
        while self.kind_of[at] != 0:
            if self.is_kind(self.kind_of[at] - 1, rows, base, given):
                return self.kind_of[at] - 1
            at = (at + 1) & mask
        return self.new_kind(rows, base, given, at)

    def new_kind(self, rows: memoryview, base: int, given: int, at: int) -> int:
        """Number a kind that was not met before."""
        size = len(self.fixed)
        if self.kinds_known >= MOST_KINDS or len(self.varying) > 62:
            return -1
        number = self.kinds_known
        if (number + 1) * self.kind_size > len(self.kinds):
            self.kinds = grown(self.kinds)
        self.kinds_known += 1
        place = number * self.kind_size
        for index in range(size):
            self.kinds[place + index] = rows[base + self.fixed[index]]
        self.kinds[place + size] = given
        more = place + size + 2
        for index in range(9, len(self.varying)):  # after HEAD
            if rows[base + self.varying[index]] != MISSING:
                self.kinds[more] += 1
                self.kinds[more + self.kinds[more]] = self.varying[index]
        lines = lines_of(9 + self.kinds[more])
        self.kinds[more - 1] = lines if lines <= LINES else len(self.free_rows) - 1
        self.kinds[place + self.kind_size - 1] = rows[base + 8] == MISSING and rows[base + 38] == -1
        self.kind_of[at] = number + 1
        return number

    def renumber(self) -> None:
        """Forget the kinds of which no span waits. Shapes, which go by the numbers of kinds, are learnt anew."""
        kinds, size, numbers = self.kinds, self.kind_size, dict[int, int]()
        self.kinds = memoryview(array("q", bytes(8 * len(kinds))))
        self.kind_of = memoryview(array("q", bytes(8 * len(self.kind_of))))
        self.kinds_known = 0
        self.guesses = memoryview(array("q", [-1]) * 64)
        self.forget_shapes()
        for place in self.waiting_rows():
            old = self.cells[place]
            if old not in numbers:
                numbers[old] = self.kinds_known
                self.kinds_known += 1
                to = numbers[old] * size
                self.kinds[to : to + size] = kinds[old * size : (old + 1) * size]
                self.list_kind(numbers[old])
            self.cells[place] = numbers[old]

    def waiting_rows(self) -> Iterator[int]:
        """The places of all rows."""
        for at in range(0, len(self.slots), 16):
            if self.slots[at] != NEVER:
                for index in range(self.slots[at + 3]):
                    yield self.row_at(at, index)

    def list_kind(self, number: int) -> None:
        """Let a kind be found by its cells."""
        size, mask = len(self.fixed), len(self.kind_of) - 1
        place = number * self.kind_size
        mixed = self.mix(17, self.kinds[place + size])
        for index in range(size):
            mixed = self.mix(mixed, self.kinds[place + index])
        at = mixed & mask
        while self.kind_of[at] != 0:
            at = (at + 1) & mask
        self.kind_of[at] = number + 1

    def mix(self, mixed: int, cell: int) -> int:
        """A step of a hash; what is the same is compared in any case."""
        mixed = (mixed ^ (cell & MASK)) * ODD & MASK
        return mixed ^ (mixed >> 29)

    def row_for(self, lines: int) -> int:
        """Room for a row."""
        free = self.free_rows[lines]
        if free.count == 0:
            self.add_rows(free, LINE * lines)
        return free.pop()

    def add_rows(self, free: Stack, size: int) -> None:
        """Room for some more rows of so many cells."""
        first = self.cells_used
        self.cells_used += ROWS_AT_ONCE * size
        if self.cells_used + LINE > len(self.cells):  # three lines from each row on are there, to be brought near
            self.cells = NOTHING
            self.row_ground.grow(2 * self.cells_used)
            self.cells = self.row_ground.view()
        for index in range(ROWS_AT_ONCE - 1, -1, -1):
            free.push(first + index * size)

    def add_slots(self) -> None:
        """Twice the room for traces."""
        count = len(self.slots) // 16
        self.slots = NOTHING
        self.slot_ground.grow(32 * count)
        self.slots = self.slot_ground.view()
        for slot in range(2 * count - 1, count - 1, -1):
            self.free_slots.push(slot)

    # To the table.

    def release(self, key: int) -> None:
        """Leave a trace to the table, now and from now on."""
        slot = self.traces.find(key)
        if slot >= 0:
            self.hand_over(slot)
        self.traces.put(key, ELSEWHERE)

    def release_id(self, identity: int) -> None:
        """Leave what has a request id to the table, likewise."""
        key = identity & MASK
        slot = self.ids.find(key)
        if slot >= 0:
            self.hand_over(slot)
        self.ids.put(key, ELSEWHERE)

    def hand_over(self, slot: int) -> int:
        """Give a trace to the table, as it would stand there; its key there."""
        rows, due, announced = self.rows_of(slot), self.slots[16 * slot], self.slots[16 * slot + 7]
        job = -1 if announced < 0 else self.cells[announced + 1]
        self.drop(slot, True)
        key = trace_key(rows[0][0], rows[0][1])
        self.traces.put(key, ELSEWHERE)
        for row in rows:
            identity, silent = row[29], row[8] == MISSING and row[38] == -1
            if silent:
                row[29] = MISSING  # it was passed on to it
            self.table.add(row)
            if identity != MISSING:
                self.ids.put(identity & MASK, ELSEWHERE)
                if silent:
                    self.table.know(key, identity)
        self.table.look_at(key, due)
        if announced >= 0:
            self.table.gatherings[key].waiting.add(job)
            self.tally.remember((rows[0][0], rows[0][1]), self.slots[16 * slot + 6])
        return key

    def hand_over_all(self) -> None:
        """Give everything to the table; what was put off is left to whoever has it measured."""
        self.leaving = True
        while self.first_due() != NEVER:
            slot = self.next_slot()
            if slot >= 0:
                self.hand_over(slot)

    def next_slot(self) -> int:
        """The slot that is to be looked at next; -1 where that was noted for another time since."""
        time = self.first_listed()
        if self.taken < self.gathered and self.dues[2 * self.taken] <= time:
            time, slot = self.dues[2 * self.taken], self.dues[2 * self.taken + 1]
            self.taken += 1
        else:
            slot = self.pop()
        return slot if self.slots[16 * slot] == time else -1

    def pop(self) -> int:
        """Take out the slot that is noted for the earliest time, of those that were not gathered."""
        return self.soon.pop() if self.soon.first <= self.later.first else self.later.pop()

    def first_due(self) -> int:
        """When the next slot is to be looked at; the largest number there is where there is none."""
        time = self.first_listed()
        if self.taken < self.gathered and self.dues[2 * self.taken] < time:
            return self.dues[2 * self.taken]
        return time

    def first_listed(self) -> int:
        """Likewise, of those that were not gathered."""
        time, later = self.soon.first, self.later.first
        return time if time <= later else later

    def forget(self) -> None:
        """Note which traces and ids the table has done with."""
        for key in self.table.forgotten_keys:
            self.traces.remove(key & MASK)
        for identity in self.table.forgotten_ids:
            self.ids.remove(identity & MASK)
        self.table.forgotten_keys.clear()
        self.table.forgotten_ids.clear()

    def rows_of(self, slot: int) -> list[list[int]]:
        """The rows of a trace, whole again, in the order of their coming."""
        at, rows = 16 * slot, []
        for index in range(self.slots[at + 3]):
            place = self.row_at(at, index)
            kind = self.cells[place] * self.kind_size
            row = [MISSING] * self.width
            row[0], row[1] = self.slots[at + 1], self.slots[at + 2]
            for number, cell in enumerate(self.fixed):
                row[cell] = self.kinds[kind + number]
            more = kind + len(self.fixed) + 2
            cells = [*HEAD, *(self.kinds[more + number] for number in range(1, self.kinds[more] + 1))]
            for number, cell in enumerate(cells, 1):
                row[cell] = self.cells[place + number]
            rows.append(row)
        return rows

    def drop(self, slot: int, known: bool) -> None:
        """Free a slot and its rows; `known`: its trace and ids still lead to it."""
        at = 16 * slot
        if known:
            self.unlist(slot)
        for index in range(self.slots[at + 3]):
            self.free_row(self.row_at(at, index))
        if self.slots[at + 3] > BESIDE:
            self.free_block(self.slots[at + 8])
        self.slots[at] = NEVER
        self.free_slots.push(slot)

    def free_row(self, place: int) -> None:
        """Have room again."""
        free = self.free_rows[self.lines(self.cells[place])]
        free.push(place)

    def unlist(self, slot: int) -> None:
        """Let its trace and ids lead to a slot no more."""
        at = 16 * slot
        self.traces.remove(trace_key(self.slots[at + 1], self.slots[at + 2]))
        for index in range(self.slots[at + 3]):
            identity = self.cells[self.row_at(at, index) + 8]
            if identity != MISSING:
                self.ids.remove(identity)
        self.open -= 1
        self.stored -= self.slots[at + 3]

    # Out.

    def seal(self, now: int, until: int, most: int) -> bool:
        """Count the requests whose newest span is old enough at `now`, of those to be looked at by `until`.

        Hands over up to `most`; whether there are more.
        """
        handed = 0
        while handed < most and self.first_due() <= until:
            if self.taken == self.gathered:
                self.gather(until)
            slot = self.next_slot()
            if slot >= 0 and not self.seal_slot(slot, now):
                self.hand_over(slot)
                handed += 1
        return self.first_due() <= until

    def gather(self, until: int) -> None:
        """Take out some who are to be looked at by `until`, and bring near what is known of them."""
        count, self.gathered, self.taken = 0, 0, 0
        while count < GATHERED:
            due = self.first_listed()
            if due > until:
                break
            slot = self.pop()
            self.dues[2 * count] = due
            self.dues[2 * count + 1] = slot
            self.touch_slot(slot)
            count += 1
        for index in range(count):
            at = 16 * self.dues[2 * index + 1]
            if self.slots[at] == self.dues[2 * index]:
                self.traces.touch(trace_key(self.slots[at + 1], self.slots[at + 2]))
                for row in range(self.slots[at + 3]):
                    self.touch_row(self.row_at(at, row))
        for index in range(count):
            at = 16 * self.dues[2 * index + 1]
            if self.slots[at] == self.dues[2 * index]:
                for row in range(self.slots[at + 3]):
                    identity = self.cells[self.row_at(at, row) + 8]
                    if identity != MISSING:
                        self.ids.touch(identity)
        self.gathered = count

    def seal_slot(self, slot: int, now: int) -> bool:
        """Count, defer or keep waiting what is in a slot; False where the table must see to it."""
        at = 16 * slot
        if not self.line_up(slot):
            return False
        if self.shaped == 0:
            return self.stay(slot, None, 0, now)
        newest, oldest = self.slots[at + 4], self.slots[at + 5]
        if self.shaped < self.lined:
            self.find_ages((1 << self.shaped) - 1)
            newest, oldest = self.newest, self.oldest
        due, expiry = newest + self.grace_ns, oldest + self.max_age_ns
        if expiry < due:
            due = expiry
        shape = self.find_shape(slot)
        if shape is None:
            return False
        for act in shape.acts:
            if (act.stamp >= 0 and act.stamp != self.stamp) or (act.passing and due <= now):
                continue
            if not act.script.begin(self.cells, self.places, due <= now):
                continue
            if act.members == 0:
                return self.stay(slot, act, 0, now)
            alone = act.covering and self.shaped == self.lined
            if due > now:
                if alone:
                    self.look_at(slot, due)
                    return True
                self.find_ages(act.members)
                if self.newest + self.grace_ns <= now:
                    return False
                return self.stay(slot, act, act.members, now)
            if act.halfway or not (act.covering or newest + self.grace_ns <= now):
                return False
            if act.opened:
                return self.wait(slot, act, expiry, now)
            left = 0 if alone else self.left(0, act.members, now)
            if left != 0 and (left < 0 or self.replay or not self.pass_on_ids(left)):
                return False
            if self.replay:
                self.put_off(slot, act)
                return True
            if act.script.go_on():
                self.count(slot, act, now)
                self.go_on_with(slot, act, left, NEVER if left == 0 else self.young_due(left, now))
                return True
        self.miss(slot, shape, due <= now)
        return False

    def stay(self, slot: int, act: Act | None, waiting: int, now: int) -> bool:
        """Go on waiting, for the rest of a request that these rows are of, without what needs to wait no more.

        False where the table must see to it.
        """
        left = self.left(waiting, 0, now)
        if left < 0 or not self.pass_on_ids(left):
            return False
        due = self.young_due(left & ~waiting, now)
        if waiting:
            self.find_ages(waiting)
            due = min(due, self.newest + self.grace_ns, self.oldest + self.max_age_ns)
        self.go_on_with(slot, act, left, due)
        return True

    def left(self, waiting: int, gone: int, now: int) -> int:
        """Which rows stay: those that wait, young ones and what is around these; -1 where that goes round in a circle.

        As in `Table`: what is old and part of no request is freed, but for what ties younger spans together.
        """
        left, young = waiting, now - self.grace_ns
        for row in range(self.lined):
            if self.cells[self.places[row] + 5] > young:
                left |= 1 << row
        left &= ~gone
        if left == 0 or self.lined == 1:
            return left
        if not self.find_above():
            return -1
        found = left
        for row in range(self.lined):
            if found >> row & 1:
                around = self.above[row]
                while around >= 0 and not left >> around & 1:
                    left |= 1 << around
                    around = self.above[around]
        return left & ~gone

    def find_above(self) -> bool:
        """Find what is around each row; False where it goes round in a circle, or several have one id."""
        for row in range(self.lined):
            place = self.places[row]
            span, parent = self.cells[place + 1], self.cells[place + 2]
            self.above[row] = -1
            for other in range(self.lined):
                if other != row:
                    if self.cells[self.places[other] + 1] == span:
                        return False
                    if parent != 0 and self.cells[self.places[other] + 1] == parent:
                        self.above[row] = other
        for row in range(self.lined):
            around = self.above[row]
            for _ in range(self.lined):
                if around < 0:
                    break
                around = self.above[around]
            if around >= 0:
                return False
        return True

    def young_due(self, rows: int, now: int) -> int:
        """When the first of the young ones among some rows is to be looked at."""
        due = NEVER
        for row in range(self.lined):
            seen = self.cells[self.places[row] + 5]
            if rows >> row & 1 and seen + self.grace_ns > now and seen + self.grace_ns < due:
                due = seen + self.grace_ns
        return due

    def find_ages(self, rows: int) -> None:
        """Find when the first and the last of some rows came."""
        self.newest, self.oldest = MISSING, NEVER
        for row in range(self.lined):
            if rows >> row & 1:
                seen = self.cells[self.places[row] + 5]
                self.newest = max(self.newest, seen)
                self.oldest = min(self.oldest, seen)

    def pass_on_ids(self, left: int) -> bool:
        """Let the rows that stay have the request ids of those that go, by which a trace is known until it is done.

        False where there are not enough that say nothing else. What was passed on by then does no harm.
        """
        if left == 0:
            return True
        for row in range(self.lined):
            identity = self.cells[self.places[row] + 8]
            if identity != MISSING and not left >> row & 1 and not self.pass_on(identity, left):
                return False
        return True

    def pass_on(self, identity: int, left: int) -> bool:
        """Likewise, of one."""
        room = -1
        for row in range(self.lined):
            if left >> row & 1:
                held = self.cells[self.places[row] + 8]
                if held == identity:
                    return True
                if held == MISSING and row >= self.shaped:
                    room = row
        if room >= 0:
            self.cells[self.places[room] + 8] = identity
        return room >= 0

    def go_on_with(self, slot: int, act: Act | None, left: int, due: int) -> None:
        """Count what became of the other rows, free them, and look at what is left at some time."""
        if act is not None:
            self.settle_fates(act, left)
        if left == 0:
            self.drop(slot, True)
        else:
            self.thin_out(slot, left)
            self.slots[16 * slot] = due
            self.soon.push(due, slot, self.slots)  # it may have dropped the time of what is the newest only now

    def thin_out(self, slot: int, left: int) -> None:
        """Free the rows of a slot that are not left."""
        at, kept = 16 * slot, 0
        self.find_ages(left)
        self.slots[at + 4], self.slots[at + 5] = self.newest, self.oldest
        announced = self.slots[at + 7]
        block = self.slots[at + 8] if self.lined > BESIDE else -1
        for row in range(self.lined):
            if left >> row & 1:
                self.places[kept] = self.places[row]
                kept += 1
            else:
                self.free_row(self.places[row])
        self.stored -= self.lined - kept
        self.slots[at + 3], self.slots[at + 7] = kept, -1
        for row in range(kept):
            if kept > BESIDE:
                self.cells[block + row] = self.places[row]
            else:
                self.slots[at + 8 + row] = self.places[row]
            if self.places[row] == announced:
                self.slots[at + 7] = announced
        if block >= 0 and kept <= BESIDE:
            self.free_block(block)

    def wait(self, slot: int, act: Act, expiry: int, now: int) -> bool:
        """Count a job that waits in a queue as arrived, once, and go on waiting; False where that took too long."""
        at = 16 * slot
        if expiry <= now or self.replay or not act.covering or self.shaped < self.lined:
            return False
        if self.slots[at + 7] < 0:
            if not act.script.go_on():
                return False
            self.slots[at + 7] = self.places[act.first]
            self.fill(slot, act, act.sheet, 0)
            self.slots[at + 6] = self.tally.announce(
                self.planned(act).plan, act.sheet, act.weight, now, act.in_windows
            )  # fmt: skip
        self.slots[at] = expiry
        self.later.push(expiry, slot, self.slots)
        return True

    def put_off(self, slot: int, act: Act) -> None:
        """In a replay: measure it when all that bounds its clocks is known."""
        self.unlist(slot)
        self.slots[16 * slot] = NEVER - 1  # another pair in the queue may have had the same time
        self.settle_fates(act, 0)
        place, ready = self.places[act.first], known_ns(act.script.value(act.end))
        self.put_offs.push(ready, self.cells[place + 3], self.cells[place + 1], slot)

    def measure(self, ready: int, start: int, span: int, now: int) -> int:
        """Count what was put off up to these numbers; -1 at the end.

        Or a slot, which is left to its caller, that must go the general way.
        """
        while True:
            if self.measured == self.to_measure:
                self.gather_put_off(ready, start, span)
            if self.to_measure == 0:
                return -1
            self.measured += 1
            slot = self.put_off_slots[self.measured - 1]
            if not self.measure_slot(slot, now):
                return slot

    def gather_put_off(self, ready: int, start: int, span: int) -> None:
        """Take some out that come no later than these numbers, and bring near what is known of them."""
        self.measured = self.to_measure = 0
        while self.to_measure < GATHERED:
            slot = self.put_offs.pop(ready, start, span)
            if slot < 0:
                break
            self.touch_slot(slot)
            self.put_off_slots[self.to_measure] = slot
            self.to_measure += 1
        for index in range(self.to_measure):
            at = 16 * self.put_off_slots[index]
            for row in range(self.slots[at + 3]):
                self.touch_row(self.row_at(at, row))

    def measure_slot(self, slot: int, now: int) -> bool:
        """Count what was put off; False, and it stays, where that must be done the general way."""
        shape = None if self.leaving or not self.line_up(slot) else self.find_shape(slot)
        if shape is None:
            return False
        for act in shape.acts:
            fits = len(act.boundaries) > 0 and (act.stamp < 0 or act.stamp == self.stamp)
            if fits and act.script.begin(self.cells, self.places, False) and act.script.go_on():
                self.count(slot, act, now)
                self.drop(slot, False)
                return True
        self.miss(slot, shape, True)
        return False

    def miss(self, slot: int, shape: Shape, whole: bool) -> None:
        """Note that no act fits. A shape that comes again is worth a rehearsal."""
        shape.misses += 1
        wanted = shape.misses > 1 and shape.hopeless != self.stamp and len(self.lessons) < REHEARSED_AT_ONCE
        if wanted and self.credit >= REHEARSAL:
            self.credit -= REHEARSAL
            self.lessons.append(Lesson(shape, self.rows_in_order(slot), whole, bool(self.slots[16 * slot + 7] >= 0)))

    def learn(self, lesson: Lesson, act: Act | None) -> None:
        """Note what a rehearsal has found; None for nothing."""
        if act is not None:
            act.plans = self.plans.setdefault(act.alike, {})
        lesson.shape.teach(act, self.stamp)

    def forget_shapes(self) -> None:
        """Learn all shapes anew."""
        self.shapes.clear()
        self.plans.clear()
        self.planned_so_far = 0

    def rows_in_order(self, slot: int) -> list[list[int]]:
        """The rows that a shape is made of, in their order."""
        rows = self.rows_of(slot)
        places = [self.row_at(16 * slot, index) for index in range(len(rows))]
        return [rows[places.index(self.places[index])] for index in range(self.shaped)]

    def find_shape(self, slot: int) -> Shape | None:
        """The shape of the rows in `places`; None for what has no shape."""
        mixed = self.describe(self.shaped, self.slots[16 * slot + 7] >= 0)
        if self.looked == 0:
            return None
        shape = self.shapes.get(mixed)
        if shape is None:
            if len(self.shapes) >= MOST_SHAPES:
                self.forget_shapes()
            shape = self.shapes[mixed] = Shape(list(self.look[: self.looked]))
        return shape if self.looks_like(shape) and shape.hopeless != self.stamp else None

    def looks_like(self, shape: Shape) -> bool:
        """Whether the shape is that in `look`, and not another of the same hash."""
        if len(shape.look) != self.looked:
            return False
        for index in range(self.looked):
            if shape.look[index] != self.look[index]:
                return False
        return True

    def line_up(self, slot: int) -> bool:
        """Put the rows of a slot into `places`, sorted by start and end; False where that does not tell them apart.

        Spans that say nothing, and do not stand between two that say something, come last, and are part of no shape.
        """
        at, silent = 16 * slot, False
        self.lined = self.shaped = self.slots[at + 3]
        for row in range(self.lined):
            place = self.places[row] = self.row_at(at, row)
            silent |= self.says_nothing(place)
        return (not silent or self.part()) and self.sort()

    def says_nothing(self, place: int) -> bool:
        """Whether a row tells of no more than what its span stands in."""
        return bool(self.kinds[(self.cells[place] + 1) * self.kind_size - 1])

    def part(self) -> bool:
        """Bring those to the end that make no difference; False where spans go round in a circle."""
        if not self.find_above():
            return False
        needed = 0
        for row in range(self.lined):
            if not self.says_nothing(self.places[row]):
                needed |= 1 << row
                between, around = 0, self.above[row]
                while around >= 0 and self.says_nothing(self.places[around]):
                    between |= 1 << around
                    around = self.above[around]
                if around >= 0:
                    needed |= between
        self.shaped = 0
        for row in range(self.lined):
            if needed >> row & 1:
                place = self.places[row]
                self.places[row] = self.places[self.shaped]
                self.places[self.shaped] = place
                self.shaped += 1
        return True

    def sort(self) -> bool:
        """Sort the rows of the shape by start and end; False where that does not tell them apart."""
        for index in range(1, self.shaped):
            row = self.places[index]
            start, end = self.cells[row + 3], self.cells[row + 4]
            to = index
            while to > 0:
                before = self.places[to - 1]
                if self.cells[before + 3] < start or (self.cells[before + 3] == start and self.cells[before + 4] < end):
                    break
                if self.cells[before + 3] == start and self.cells[before + 4] == end:
                    return False
                self.places[to] = before
                to -= 1
            self.places[to] = row
        return True

    def describe(self, count: int, announced: bool) -> int:
        """Write the shape of the rows in `places` into `look`; a hash of it."""
        cells, places = pointers.cells(self.cells), pointers.cells(self.places)
        self.look[0] = mixed = 1 if announced else 0
        at = 1
        for index in range(count):
            row = places[index]
            span, parent, identity, sequence = (
                cells[row + 1], cells[row + 2], cells[row + 8], cells[row + 9],
            )  # fmt: skip
            parent_is = parent_as = identity_as = sequence_as = clock_as = resource_as = -1
            for other in range(count):
                beside = places[other]
                if parent != 0 and cells[beside + 1] == parent and parent_is < 0:
                    parent_is = other
                if cells[beside + 2] == parent and parent_as < 0:
                    parent_as = other
                if cells[beside + 8] == identity and identity_as < 0:
                    identity_as = other
                if cells[beside + 9] == sequence and sequence_as < 0:
                    sequence_as = other
                if cells[beside + 6] == cells[row + 6] and clock_as < 0:
                    clock_as = other
                if cells[beside + 7] == cells[row + 7] and resource_as < 0:
                    resource_as = other
                if other != index and cells[beside + 1] == span:
                    self.looked = 0  # two spans of one id
                    return 0
            self.look[at] = cells[row]
            if parent == 0:
                parent_is = MOST_ROWS
            self.look[at + 1] = (
                resource_as << 25 | clock_as << 20 | (parent_is + 1) << 15 | parent_as << 10 | identity_as << 5
                | sequence_as
            )  # fmt: skip
            mixed = self.mix(self.mix(mixed, self.look[at]), self.look[at + 1])
            at += 2
        self.looked = at
        return mixed

    # Counting.

    def settle_fates(self, act: Act, left: int) -> None:
        """Count what became of the spans that an act is for, but of those that are left."""
        for row in range(self.shaped):
            if act.fates[row] >= 0 and not left >> row & 1:
                self.fates[act.fates[row]] += 1

    def count(self, slot: int, act: Act, now: int) -> None:
        """Have a request counted, together with others."""
        self.earn(1)
        if act.size > self.sheet_size:
            self.flush(now)
            self.sheet_size = act.size
            self.sheets = Ground(TOGETHER * self.sheet_size).view()  # of which mostly few are used
        planned = self.planned(act)
        if not planned.opened:
            planned.opened = True
            self.tally.open_series(planned.plan, now)
        number = self.free_number
        self.fill(slot, act, self.sheets, self.sheet_size * number)
        self.free_number = self.befores[number]
        self.traffic[number] = self.slots[16 * slot + 6]
        self.befores[number] = planned.last
        if planned.waiting == 0:
            self.awaited.append((act, planned))
        planned.last = number
        planned.waiting += 1
        self.uncounted += 1
        while self.uncounted == TOGETHER or (
            self.uncounted >= ENOUGH and ALIKE * (len(self.awaited) - self.counted) <= self.uncounted
        ):
            self.flush_some(now, 1)

    def flush(self, now: int) -> None:
        """Count those that wait."""
        self.flush_some(now, TOGETHER)

    def flush_some(self, now: int, most: int) -> bool:
        """Count `most` of those that wait, or as many more as are alike; whether there are others."""
        while self.uncounted > 0 and most > 0:
            if len(self.awaited) - self.counted > NEAR:  # else all of it is near
                self.touch_series(self.counted + 16, self.counted + 8)
            act, planned = self.awaited[self.counted]
            self.counted += 1
            most -= planned.waiting
            self.count_some(act, planned, now)
        if self.counted >= TOGETHER or self.uncounted == 0:
            del self.awaited[: self.counted]
            self.counted = 0
        return self.uncounted > 0

    def touch_series(self, far: int, nearer: int) -> None:
        """Bring near where those are counted that come in a moment."""
        if far < len(self.awaited):
            planned = self.awaited[far][1]
            self.tally.touch_series(planned.plan)
        if nearer < len(self.awaited):
            planned = self.awaited[nearer][1]
            self.tally.touch_histograms(planned.plan, self.sheets, self.sheet_size * planned.last)

    def count_some(self, act: Act, planned: Planned, now: int) -> None:
        """Count those that wait for the same, some at a time: a plan may have become void by those before."""
        count, number = planned.waiting, planned.last
        planned.waiting, planned.last = 0, -1
        self.uncounted -= count
        for index in range(count - 1, -1, -1):
            self.some[index] = self.sheet_size * number
            self.some_traffic[index] = self.traffic[number]
            before = self.befores[number]
            self.befores[number], self.free_number = self.free_number, number
            number = before
        for first in range(0, count, BY_ONE_PLAN):
            if planned.epoch != self.tally.epoch:
                planned.plan, planned.epoch = self.plan(act, tuple(planned.numbers)), self.tally.epoch
            self.tally.count_sheets(
                planned.plan, self.sheets, self.some[first:], min(count - first, BY_ONE_PLAN), act.weight, now,
                act.in_windows, act.joined, act.unmatched, act.negative, act.announced, self.some_traffic[first:],
            )  # fmt: skip

    def earn(self, credit: int) -> None:
        """Gain credit for rehearsals."""
        self.credit = min(self.credit + credit, MOST_CREDIT)

    def fill(self, slot: int, act: Act, sheet: memoryview, start: int) -> None:
        """Write the sheet of a request."""
        to, registers = pointers.cells(sheet), act.script.registers
        stores, copies = pointers.cells(act.stores), pointers.cells(act.copies)
        if start + act.size > len(sheet):
            raise IndexError(f"no room for {act.size} cells from {start} on")
        pointers.put(to, start, pointers.cells(act.sheet), 0, act.size)
        for index in range(0, 2 * act.stored, 2):
            to[start + stores[index]] = registers[stores[index + 1]]
        for index in range(0, 3 * act.copied, 3):
            if copies[index + 1] < 0:
                to[start + copies[index]] = self.slots[16 * slot + 1 + copies[index + 2]]
            else:
                to[start + copies[index]] = self.cells[self.places[copies[index + 1]] + copies[index + 2]]

    def planned(self, act: Act) -> Planned:
        """The plan for the labels of the rows in `places`."""
        mixed = 1
        for index in range(act.labelled):
            mixed = self.mix(mixed, self.label(act, index))
        planned = act.plans.get(mixed)
        if planned is None or planned.epoch != self.tally.epoch or not self.fits(act, planned):
            if self.planned_so_far >= MOST_PLANS or self.planned_in != self.tally.epoch:
                self.forget_plans()
            numbers = tuple([self.label(act, index) for index in range(act.labelled)])
            plan = self.plan(act, numbers)
            planned = act.plans[mixed] = Planned(numbers, plan, self.tally.epoch)
            self.planned_so_far += 1
        return planned

    def forget_plans(self) -> None:
        """Look all plans up anew: those of another epoch are void, and there may be no more."""
        for plans in self.plans.values():
            plans.clear()
        self.planned_so_far, self.planned_in = 0, self.tally.epoch

    def label(self, act: Act, index: int) -> int:
        """The number of one of the labels."""
        if act.labels[2 * index] < 0:
            return MISSING
        return self.cells[self.places[act.labels[2 * index]] + act.labels[2 * index + 1]]

    def fits(self, act: Act, planned: Planned) -> bool:
        """Whether a plan is for the labels of the rows in `places`."""
        for index in range(act.labelled):
            if planned.numbers[index] != self.label(act, index):
                return False
        return True

    def give_oldest(self, due: int) -> Gathering | None:
        """Hand over the trace that waits longest, if it is looked at before `due`."""
        while self.first_due() < due:
            slot = self.next_slot()
            if slot >= 0:
                return self.table.gatherings[self.hand_over(slot)]
        return None

    def fates_so_far(self) -> Iterator[tuple[str, int]]:
        """The fates counted since it was asked last."""
        for number, name in enumerate(FATES):
            if self.fates[number]:
                count, self.fates[number] = self.fates[number], 0
                yield name, count


def known_ns(newest_ns: int) -> int:
    """When, in a replay, all is known that bounds the clocks of a request, by the newest end of its spans."""
    return ((newest_ns + AHEAD_NS) // BUCKET_NS + 1) * BUCKET_NS


def lines_of(cells: int) -> int:
    """The lines that a row takes which has so many cells beside its kind."""
    return -(-(1 + cells) // LINE)


def kept(row: Sequence[int]) -> list[int]:
    """Which cells of a row are kept, in their order, from the second on: the first is its kind."""
    more = (*TAIL, *range(record.LABELS, len(row)))
    return [*HEAD, *(cell for cell in more if row[cell] != MISSING)]
