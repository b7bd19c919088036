"""Spans to requests: a bounded table of the spans that wait for the rest of their request.

How it works
    Rows are kept in one flat array; a `Gathering` lists those of one trace, or of several traces that a link or a
    shared request id ties together. It is looked at when the newest of its rows is `grace` old; each request whose
    newest row is that old is taken out as a `Path`, the others stay. A job that is still in a queue is given out once
    as open and stays until it is taken from the queue, or until `max_age`.

How spans find each other
    A log record of a span's end is that span told once more: the two become one row (`told_twice`).
    By parent, through any known span; by link, where there is no parent; by request id; and, last, an engine span
    belongs to the one gateway request of its trace (`exporter.tree`). What remains alone is measured alone.

What must stay true
    The result depends on which rows a gathering holds, never on the order in which they came.
    Every row that comes in has one fate; every row that is stored is freed exactly once.
"""

import heapq
import os
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from exporter import record
from exporter.marks import Fingerprints
from exporter.record import MISSING
from exporter.tree import GATEWAY, Path, Row, Tree
from slo_rules.vocabulary import FATES

MAX_ROWS: Final = 10_000
"""Spans of one gathering; further ones are evicted on arrival."""
TRACES_OF_ID: Final = 16
"""Traces that one request id ties together; in more of them it says nothing: some clients always send the same."""
MAX_TIED: Final = 256
"""Spans of traces that are tied to one gathering: senders choose links and ids, and may give all requests the same."""
ROWS_PER_TRACE: Final = 8
"""On average, when as many traces wait as may."""
CLOCKS_APART_NS: Final = 100_000_000
"""How far the clocks of two gateways may differ for one to be seen inside the other."""
MAX_GATEWAYS: Final = 16
"""Log records of one request id that are looked at for one being inside another."""
KEPT_TURNS: Final = 6
"""For how many turns of the marks duplicates are known: the last, which goes on, and five before it."""
NEVER: Final = 2**63 - 1
MASK: Final = 2**64 - 1
ODD: Final = 0x9E3779B97F4A7C15
SEED: Final = int.from_bytes(os.urandom(8), "little")
"""So that nobody can choose spans whose marks collide."""


class Gathering:
    """The waiting rows of one trace, or of several that belong together."""

    __slots__ = ("due", "ids", "keys", "logs", "rows", "spans", "waiting")

    def __init__(self, key: int) -> None:
        self.rows: list[int] = []
        self.keys = [key]
        self.ids: list[int] = []
        self.due = NEVER
        self.logs = False
        """Whether a log record is among them."""
        self.spans: dict[int, int] | None = None
        """Once there are logs, where the row of each span is; None where that must be found out anew."""
        self.waiting: set[int] = set()
        """Span ids of jobs that were given out as open."""


class Front(Protocol):
    """Another place where traces wait."""

    open: int
    stored: int

    def give_oldest(self, due: int) -> Gathering | None:
        """Put the trace there that waits longest into the table, if it is looked at before `due`."""
        ...


class Table:
    """The join table. Times are in the unit of the rows' SEEN: nanoseconds of arrival, or of the event in a replay."""

    def __init__(self, width: int, *, grace_ns: int, max_open: int, max_age_ns: int) -> None:
        self.width = width
        self.grace_ns = grace_ns
        self.max_open = max_open
        self.max_age_ns = max_age_ns
        self.cells = memoryview(array("q", bytes(8 * width * 256)))
        self.free = [place * width for place in range(255, -1, -1)]
        self.gatherings: dict[int, Gathering] = {}
        self.by_id: dict[int, Gathering] = {}
        self.traces_of: dict[int, int] = {}
        """Traces in which an id was met, for those met in several."""
        self.heap: list[tuple[int, int, Gathering]] = []
        self.pushes = 0
        self.fingerprints = Fingerprints(KEPT_TURNS)
        self.fates: Counter[str] = Counter()
        self.open = 0
        """Traces, or groups of traces, that wait."""
        self.stored = 0
        """Rows that wait."""
        self.telling = False
        """Whether somebody wants to know what was done with, and clears these lists:"""
        self.forgotten_keys: list[int] = []
        self.forgotten_ids: list[int] = []

    # In.

    def is_new(self, row: Sequence[int]) -> bool:
        """Whether this span was not seen before; it counts as seen from now on."""
        return self.fingerprints.add(fingerprint(row))

    def add(self, row: Sequence[int], links: Iterable[int] = ()) -> None:
        """Take one row. `links`: keys (`trace_key`) of other traces that it points to."""
        gathering = self._gathering(trace_key(row[record.TRACE_HI], row[record.TRACE_LO]))
        if len(gathering.rows) >= MAX_ROWS:
            self.fates["evicted"] += 1
            return
        for other in links:
            gathering = self._link(gathering, other)
        if row[record.REQUEST_ID] != MISSING:
            gathering = self._identify(gathering, row[record.REQUEST_ID])
        if row[record.RECORD] != MISSING:
            gathering.logs = True
        if not gathering.logs or not self._join_tellings(gathering, row):
            at = self._store(row)
            gathering.rows.append(at)
            if gathering.spans is not None:
                gathering.spans.setdefault(row[record.SPAN], at)
        self._schedule(gathering, row[record.SEEN] + self.grace_ns)

    def _join_tellings(self, gathering: Gathering, row: Sequence[int]) -> bool:
        """Whether the span of a row was told by the other side already; if so, its row now says what both say."""
        told_by_log, cells = row[record.RECORD] != MISSING, self.cells
        if gathering.spans is None:
            gathering.spans = {cells[at + record.SPAN]: at for at in gathering.rows}
        at = gathering.spans.get(row[record.SPAN], -1)
        if at < 0 or any(cells[at + cell] != row[cell] for cell in (record.SPAN, record.TRACE_LO, record.TRACE_HI)):
            return False
        if (cells[at + record.RECORD] == MISSING) != told_by_log:
            return False
        stored = cells[at : at + self.width].tolist()
        span, log = (stored, row) if told_by_log else (row, stored)
        cells[at : at + self.width] = array("q", told_twice(span, log))
        return True

    def _gathering(self, key: int) -> Gathering:
        gathering = self.gatherings.get(key)
        if gathering is None:
            gathering = self.gatherings[key] = Gathering(key)
            self.open += 1
        return gathering

    def _link(self, gathering: Gathering, key: int) -> Gathering:
        other = self.gatherings.get(key)
        if other is not None:
            return self._tie(gathering, other)
        if len(gathering.keys) < MAX_TIED:
            gathering.keys.append(key)
            self.gatherings[key] = gathering
        return gathering

    def _identify(self, gathering: Gathering, identity: int) -> Gathering:
        other = self.by_id.get(identity)
        if other is None:
            self.by_id[identity] = gathering
            gathering.ids.append(identity)
            return gathering
        if other is gathering:
            return gathering
        self.traces_of[identity] = self.traces_of.get(identity, 1) + 1
        return gathering if self._means_nothing(identity) else self._tie(gathering, other)

    def _means_nothing(self, identity: int) -> bool:
        return self.traces_of.get(identity, 1) > TRACES_OF_ID

    def _tie(self, one: Gathering, other: Gathering) -> Gathering:
        """Two gatherings become one, unless that would grow without bound."""
        if one is other or len(one.rows) + len(other.rows) > MAX_TIED or len(one.keys) + len(other.keys) > MAX_TIED:
            return one
        if len(one.rows) < len(other.rows):
            one, other = other, one
        one.rows += other.rows
        one.keys += other.keys
        one.ids += other.ids
        one.waiting |= other.waiting
        one.logs |= other.logs
        one.spans = None
        for key in other.keys:
            self.gatherings[key] = one
        for identity in other.ids:
            self.by_id[identity] = one
        self.open -= 1
        self._schedule(one, other.due)
        other.due = MISSING
        return one

    def _store(self, row: Sequence[int]) -> int:
        if not self.free:
            self._grow()
        at = self.free.pop()
        self.stored += 1
        cells = self.cells
        for cell in range(self.width):
            cells[at + cell] = row[cell]
        return at

    def _grow(self) -> None:
        size = len(self.cells)
        grown = array("q", self.cells)
        grown.frombytes(bytes(8 * size))
        self.cells = memoryview(grown)
        self.free = list(range(2 * size - self.width, size - self.width, -self.width))

    def _schedule(self, gathering: Gathering, due: int) -> None:
        """Look at the gathering at `due`, or earlier; it is looked at again while its rows are too young."""
        if due < gathering.due:
            gathering.due = due
            self.pushes += 1
            heapq.heappush(self.heap, (due, self.pushes, gathering))

    def know(self, key: int, identity: int) -> None:
        """Let a request id lead to a trace that waits."""
        self._identify(self.gatherings[key], identity)

    def look_at(self, key: int, due: int) -> None:
        """Look at a trace that waits at `due`, or earlier."""
        self._schedule(self.gatherings[key], due)

    def retime(self, *, grace_ns: int, max_age_ns: int) -> None:
        """Go on with other times, if they are; what waits is looked at when it may be due by them."""
        before_ns, self.grace_ns = self.grace_ns, grace_ns
        age_ns, self.max_age_ns = self.max_age_ns, max_age_ns
        if (before_ns, age_ns) == (grace_ns, max_age_ns):
            return
        self.heap.clear()
        for gathering in dict.fromkeys(self.gatherings.values()):
            oldest, due, gathering.due = self._oldest(gathering), gathering.due, NEVER
            ages = due == oldest + age_ns  # as what waits in a queue does
            self._schedule(gathering, oldest + (max_age_ns if ages else min(grace_ns, max_age_ns)))

    def announce_anew(self) -> None:
        """Give out as open once more what still waits in a queue: nobody counted it before."""
        for gathering in dict.fromkeys(self.gatherings.values()):
            if gathering.waiting:
                gathering.waiting.clear()
                self._schedule(gathering, self._oldest(gathering) + self.grace_ns)

    def _oldest(self, gathering: Gathering) -> int:
        return min(self.cells[at + record.SEEN] for at in gathering.rows)

    def widen(self, width: int, profiles: Sequence[int]) -> None:
        """Go on with rows of another width: declared labels are forgotten, profiles get new numbers."""
        used = [at for gathering in set(self.gatherings.values()) for at in gathering.rows]
        cells = array("q", [MISSING]) * (len(self.cells) // self.width * width)
        for at in used:
            to = at // self.width * width
            cells[to : to + record.LABELS] = array("q", self.cells[at : at + record.LABELS])
            if cells[to + record.PROFILE] >= 0:
                cells[to + record.PROFILE] = profiles[cells[to + record.PROFILE]]
        for gathering in set(self.gatherings.values()):
            gathering.rows = [at // self.width * width for at in gathering.rows]
            gathering.spans = None
        self.free = [at // self.width * width for at in self.free]
        self.cells, self.width = memoryview(cells), width

    # Out.

    @property
    def first_due(self) -> int:
        """When something is to be looked at next; NEVER where nothing waits."""
        return self.heap[0][0] if self.heap else NEVER

    def seal(self, now: int, until: int | None = None) -> Iterator[Path]:
        """The requests whose newest span is `grace` old at `now`, of those that were to be looked at by `until`."""
        while self.first_due <= (now if until is None else until):
            due, _, gathering = heapq.heappop(self.heap)
            if gathering.due == due:
                gathering.due = NEVER
                yield from self._take(gathering, now - self.grace_ns, now - self.max_age_ns)

    def evict(self, front: "Front | None" = None) -> Iterator[Path]:
        """The oldest requests, as long as more than `max_open` traces wait, or more spans than they should have.

        `front`: where more of them wait.
        """
        while self._crowded(front):
            gathering = next(iter(self.gatherings.values()), None)
            older = None if front is None else front.give_oldest(NEVER if gathering is None else gathering.due)
            oldest = older or gathering
            if oldest is None:
                return
            yield from self._close(oldest, NEVER)

    def _crowded(self, front: "Front | None") -> bool:
        traces = self.open + (0 if front is None else front.open)
        rows = self.stored + (0 if front is None else front.stored)
        return traces > self.max_open or rows > self.max_open * ROWS_PER_TRACE

    def finish(self) -> Iterator[Path]:
        """All that is left, at the end of the input; jobs still in a queue are given out as open."""
        for gathering in list(dict.fromkeys(self.gatherings.values())):
            yield from self._close(gathering, MISSING)

    def _close(self, gathering: Gathering, expired: int) -> Iterator[Path]:
        evicted = expired == NEVER
        for path in self._take(gathering, NEVER, expired, "evicted" if evicted else "used"):
            yield path._replace(evicted=True) if evicted else path
        if gathering.rows:
            for at in gathering.rows:
                self._free(at, self.cells[at : at + self.width], "used")
            self._forget(gathering)

    def _take(self, gathering: Gathering, ripe: int, expired: int, fate: str = "used") -> list[Path]:
        """Take out the requests whose newest row was seen by `ripe`, or whose oldest was by `expired`.

        Open ones wait until they have expired.
        """
        rows = {at: self.cells[at : at + self.width].tolist() for at in gathering.rows}
        for row in rows.values():
            if self._means_nothing(row[record.REQUEST_ID]):
                row[record.REQUEST_ID] = MISSING
        if gathering.logs:
            nest_tellings(rows.values())
        again, paths = NEVER, []
        done: set[int] = set()
        waiting: set[int] = set()
        tree = Tree(rows)
        for places, path in tree.paths():
            newest = max(rows[at][record.SEEN] for at in places)
            oldest = min(rows[at][record.SEEN] for at in places)
            announced = sum(node[record.SPAN] in gathering.waiting for node in path.nodes)
            if newest > ripe and oldest > expired:
                again = min(again, newest + self.grace_ns, oldest + self.max_age_ns)
                waiting.update(places)
            elif path.open and oldest > expired:
                again = min(again, oldest + self.max_age_ns)
                waiting.update(places)
                if not announced:
                    gathering.waiting.add(path.nodes[0][record.SPAN])
                    paths.append(path)
            else:
                done.update(places)
                paths.append(path._replace(announced=announced, evicted=path.open, open=False))
        # A span that is part of no request may still be what ties the spans of one together.
        waiting |= tree.above_any(waiting.union(at for at in rows if rows[at][record.SEEN] > ripe and at not in done))
        self._settle(gathering, rows, done, waiting, ripe, again, fate)
        return paths

    def _settle(
        self, gathering: Gathering, rows: dict[int, Row], done: set[int], waiting: set[int], ripe: int, again: int,
        fate: str,
    ) -> None:  # fmt: skip
        """Free what was taken and what is old and part of no request; look again when the next of the rest is old."""
        left = []
        for at, row in rows.items():
            if at in done:
                self._free(at, row, fate)
            elif at in waiting:
                left.append(at)
            elif row[record.SEEN] > ripe:
                left.append(at)
                again = min(again, row[record.SEEN] + self.grace_ns)
            else:
                self._free(at, row, "not_request" if row[record.ROLE] == GATEWAY else "used")
        gathering.rows, gathering.spans = left, None
        if left:
            self._schedule(gathering, again)
        else:
            self._forget(gathering)

    def _free(self, at: int, row: Sequence[int], fate: str) -> None:
        found = row[record.FATE]
        if found != record.COUNTED:
            self.fates[FATES[found] if found != MISSING and fate == "used" else fate] += 1
        self.free.append(at)
        self.stored -= 1

    def _forget(self, gathering: Gathering) -> None:
        for key in gathering.keys:
            del self.gatherings[key]
        for identity in gathering.ids:
            del self.by_id[identity]
            self.traces_of.pop(identity, None)
        gathering.due = MISSING
        self.open -= 1
        if self.telling:
            self.forgotten_keys += gathering.keys
            self.forgotten_ids += gathering.ids


def nest_tellings(rows: Iterable[Row]) -> None:
    """Put a gateway that only its log tells of inside the one of the same request id that ran around it.

    Its log names no parent. The same gateway never stands inside itself, as clients may send one id with all requests.
    """
    told: dict[int, list[Row]] = {}
    for row in rows:
        if row[record.RECORD] == record.ENDING and row[record.REQUEST_ID] != MISSING:
            told.setdefault(row[record.REQUEST_ID], []).append(row)
    for group in (group for group in told.values() if 1 < len(group) <= MAX_GATEWAYS):
        for row in group:
            around = [other for other in group if _runs_around(other, row)]
            if around and not row[record.PARENT]:
                outer = max(around, key=lambda other: (other[record.START], other[record.SPAN]))
                row[record.PARENT] = outer[record.SPAN]


def _runs_around(outer: Row, inner: Row) -> bool:
    """Their clocks may differ a little."""
    if outer[record.RESOURCE] == inner[record.RESOURCE]:
        return False
    if outer[record.END] - outer[record.START] <= inner[record.END] - inner[record.START]:
        return False
    return (
        outer[record.START] - CLOCKS_APART_NS <= inner[record.START]
        and inner[record.END] <= outer[record.END] + CLOCKS_APART_NS
    )


def told_twice(span: Sequence[int], log: Sequence[int]) -> list[int]:
    """One row from a span's and that of the log record of its end: the log says what the span does not.

    A span of no profile says who is around it, and nothing more.
    """
    known = span[record.ROLE] != MISSING
    row = [mine if mine != MISSING else theirs for mine, theirs in zip(span, log, strict=True)]
    row[record.SEEN] = max(span[record.SEEN], log[record.SEEN])
    row[record.PROFILE] = span[record.PROFILE] if known else log[record.PROFILE]
    if span[record.FIRST_TOKEN] == MISSING:
        row[record.SOURCE] = log[record.SOURCE]
    row[record.CALL] = max(span[record.CALL], log[record.CALL])
    row[record.FATE] = span[record.FATE]
    row[record.RECORD] = record.TOLD_TWICE if known else log[record.RECORD]
    return row


def mark_of(key: int) -> int:
    """A signed number as a mark of `Fingerprints`, where all bits of a mark hang on all bits of a number."""
    mark = ((key & MASK) ^ SEED) * ODD & MASK
    return mark ^ mark >> 29


def trace_key(high: int, low: int) -> int:
    """A trace id in one number."""
    return (low & MASK) ^ (high * ODD & MASK)


def fingerprint(row: Sequence[int]) -> int:
    """A hash of trace, span, start and end: what makes two deliveries of one span alike."""
    return mark_at(memoryview(array("q", row[: record.END + 1])), 0)


def mark_at(rows: memoryview, base: int) -> int:
    """The fingerprint of the row that begins at `base` of a flat array: of all its first cells but the parent."""
    mark = SEED
    for cell in range(6):
        if cell != 3:
            mark = (mark ^ (rows[base + cell] & MASK)) * ODD & MASK
            mark ^= mark >> 29
    return mark or ODD


def seed() -> int:
    """The number that makes the hashes of this process its own."""
    return SEED
