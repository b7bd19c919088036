"""Requests that logs tell of while they last: which started and have not ended, how old they are, what they missed.

A flight begins with the first record of a request and ends with its last one. It is *settled* when the request has been
joined and counted, or has been given up: an end that never comes must not keep it for ever. What is told of a settled
flight comes too late and changes nothing. Each change depends on the records alone, not on their order.

A request that passes two gateways which both keep logs is told of twice under one id. The second telling is *inner*: it
is no arrival of its own, and stands in for the first where that has ended.
"""

import heapq
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from exporter import record
from exporter.histogram import slot_of_ns
from exporter.join import MAX_GATEWAYS, mark_of
from exporter.logs import flight_key
from exporter.marks import Fingerprints
from exporter.profile import RECORDS
from exporter.record import ENDING, MISSING, STARTED
from exporter.tree import Row
from slo_rules.slo import SLO, Objective

NEAR_NS: Final = 100_000_000
"""How far a span's start and that of a flight of the same request id may be apart, to be one request."""

SLACK_NS: Final = 1_000_000_000
"""How much longer than its flush interval an end is waited for."""
MAX_IDLE_DUES: Final = 1000
"""Entries of `Flights.dues` beyond two a flight that may speak of flights that have ended."""


class Limit(NamedTuple):
    """A limit that a request may break while it lasts."""

    slo: SLO
    objective: Objective
    sure: bool
    """Whether the SLO selects the request; otherwise it may, by a label that is not known yet."""


Limits = tuple[Limit, ...]


@dataclass(slots=True, eq=False)
class Flight:
    """One request at one gateway. Times in Unix nanoseconds on the gateway's clock, `seen_ns` on ours."""

    row: Row
    """Of its first record, with the start as its first record gave it."""
    klass: str
    limits: Limits
    flush_ns: int
    """How long its end may be on the way."""
    seen_ns: int
    """When its newest record came."""
    lag_ns: int
    """How much later than it was made the first record came: on the way, and by the difference of the clocks."""
    started: bool = False
    inner: bool = False
    entered: bool = False
    """Whether it has been counted as an arrival."""
    arrived_ns: int = 0
    emitted_ns: int = 0
    """When its newest record was made."""
    stream: bool | None = None
    first_ns: int | None = None
    ended_ns: int | None = None
    """As the record of its end says."""
    over_ns: int | None = None
    """The end, as its span says, which no record may tell any more."""
    again_ns: int | None = None
    """The latest time at which it was decided to look at it again."""
    missed: dict[str, str] = field(default_factory=dict)
    """By SLO, the objective whose limit was broken before the end."""

    @property
    def key(self) -> int:
        """Its number."""
        return self.row[record.FLIGHT]

    def learn(self, row: Sequence[int], seen_ns: int) -> None:
        """Take in what a record says."""
        kind = row[record.RECORD]
        if kind == STARTED or not self.started:
            self.arrived_ns = row[record.ARRIVED] if kind == STARTED else min(self.arrived_ns, row[record.ARRIVED])
        self.started |= kind == STARTED
        self.seen_ns = max(self.seen_ns, seen_ns)
        self.emitted_ns = max(self.emitted_ns, row[record.EMITTED])
        if row[record.STREAM] != MISSING:
            self.stream = row[record.STREAM] == 1
        if row[record.FIRST_TOKEN] != MISSING:
            self.first_ns = row[record.FIRST_TOKEN]
        if kind == ENDING:
            self.ended_ns = row[record.ENDED] if row[record.ENDED] != MISSING else row[record.END]

    def stand_in_for(self, other: "Flight") -> None:
        """Be the one that counts for a request in place of another, with what was counted of that."""
        self.inner, other.inner = False, True
        self.entered, other.entered = other.entered, False
        self.klass, other.klass = other.klass, self.klass
        self.missed = self.missed | other.missed

    def broken(self, objective: Objective, now_ns: int) -> bool:
        """Whether it is proven that the limit is broken, though the request has not ended (contract, section 6)."""
        deadline_ns = self.arrived_ns + objective.threshold_ns
        if objective.metric == "completion":
            return self.end_ns is None and now_ns >= self.due_ns(objective)
        if objective.metric != "ttft" or not self.stream:
            return False
        return self.emitted_ns >= deadline_ns if self.first_ns is None else self.first_ns > deadline_ns

    def due_ns(self, objective: Objective) -> int:
        """When, on our clock, an end before the deadline must have been told."""
        return self.arrived_ns + self.lag_ns + objective.threshold_ns + self.flush_ns + SLACK_NS

    @property
    def end_ns(self) -> int | None:
        """When it ended, whatever told so; None while it goes on."""
        return self.over_ns if self.ended_ns is None else self.ended_ns

    @property
    def first_told(self) -> bool:
        """Whether it is known when the first token came, or that none is waited for."""
        return self.first_ns is not None or self.stream is False

    def waits_at(self, metric: str, time_ns: int, *, surely: bool) -> bool:
        """Whether the metric had no value yet at an instant, and will, or may, have one."""
        if metric != "ttft":
            return metric == "completion"
        due = self.stream is True if surely else self.stream is not False
        return due and (self.first_ns is None or self.first_ns > time_ns)

    def goes_on_at(self, time_ns: int) -> bool:
        """Whether it had started and not ended at an instant."""
        return self.arrived_ns <= time_ns and (self.end_ns is None or self.end_ns > time_ns)


class Flights:
    """All that have not been settled, and what must be remembered of those that have."""

    def __init__(self) -> None:
        self.flights: dict[int, Flight] = {}
        self.of_identity: dict[int, dict[int, Flight]] = {}
        """By request id, those with it, by their numbers."""
        self.settled = Fingerprints(kept=2)
        self.recent: deque[Flight] = deque()
        """Settled ones whose end no window has reached."""
        self.healed: Counter[str] = Counter()
        """Requests whose start was not told, by the record that told of them."""
        self.lost_ends = 0
        self.dues: list[tuple[int, int]] = []
        """When to look at which flight again: a limit will have been broken then, unless it has ended."""
        self.known = False
        """Whether logs have told of any."""
        self._waiting: dict[tuple[str, int, bool], list[Waiting]] = {}

    def __iter__(self) -> Iterator[Flight]:
        """Those that have not ended, as far as is known, each request once."""
        return (each for each in self.flights.values() if each.end_ns is None and not each.inner)

    def is_new(self, row: Sequence[int]) -> bool:
        """Whether a record says what was not said before."""
        flight = self.flights.get(row[record.FLIGHT])
        if flight is None:
            return not any(mark_of(key) in self.settled for key in (row[record.FLIGHT], *keys_of(row)))
        told = {STARTED: flight.started, ENDING: flight.ended_ns is not None}
        return not told.get(row[record.RECORD], False)

    def tell(self, row: Sequence[int], seen_ns: int, begin: Callable[[Row], Flight]) -> Flight:
        """Take in a new record. `begin` makes a flight of its first one."""
        self._waiting.clear()
        flight = self.flights.get(row[record.FLIGHT])
        if flight is None:
            flight = self._begin(begin(list(row)))
        flight.learn(row, seen_ns)
        if row[record.RECORD] == ENDING and not flight.inner:
            self._stand_in(flight)
        return flight

    def _begin(self, flight: Flight) -> Flight:
        row = flight.row
        identity = row[record.REQUEST_ID]
        others = self.of_identity.setdefault(identity, {})
        if identity != MISSING and len(others) < MAX_GATEWAYS:
            self._nest(flight, list(others.values()))
        others[flight.key] = flight
        self.flights[flight.key] = flight
        self.known = True
        return flight

    def _nest(self, flight: Flight, others: Sequence[Flight]) -> None:
        """Find out whether one of its id is told of already, by another gateway, which may have ended by now.

        An id under which one gateway has several requests is not that of one request.
        """
        gateways = {each.row[record.RESOURCE] for each in others}
        if flight.row[record.RESOURCE] in gateways or len(gateways) < len(others):
            return
        beside = [each for each in others if each.ended_ns is None or each.ended_ns > flight.arrived_ns]
        flight.inner = bool(beside)
        for other in beside:
            if not other.inner and other.ended_ns is not None:
                flight.stand_in_for(other)

    def _stand_in(self, flight: Flight) -> None:
        """Let an inner flight of the same request go on in place of one that has ended."""
        others = self.of_identity[flight.row[record.REQUEST_ID]]
        for other in others.values() if len(others) <= MAX_GATEWAYS else ():
            if other.inner and other.ended_ns is None:
                other.stand_in_for(flight)
                return

    def end_by_span(self, row: Sequence[int]) -> None:
        """A gateway's span has ended, and with it what its records tell of, should the last of them be lost."""
        for key in keys_of(row) if self.known else ():
            flight = self.flights.get(key)
            if flight is not None and row[record.ENDED] != MISSING:
                flight.over_ns = row[record.ENDED]
                self._waiting.clear()

    def look_again(self, flight: Flight, due_ns: Sequence[int]) -> None:
        """At the earliest of these times, unless that is noted already."""
        if due_ns and (flight.again_ns is None or min(due_ns) > flight.again_ns):
            flight.again_ns = min(due_ns)
            heapq.heappush(self.dues, (flight.again_ns, flight.key))
        if len(self.dues) > 2 * len(self.flights) + MAX_IDLE_DUES:  # most of them have ended
            self.dues = [due for due in self.dues if due[1] in self.flights]
            heapq.heapify(self.dues)

    def decide_anew(self) -> None:
        """Look at nobody again, until that is decided anew."""
        self.dues.clear()
        for flight in self.flights.values():
            flight.again_ns = None

    def due(self, now_ns: int) -> Iterator[Flight]:
        """Those that are to be looked at again."""
        while self.dues and self.dues[0][0] <= now_ns:
            flight = self.flights.get(heapq.heappop(self.dues)[1])
            if flight is not None and flight.end_ns is None:
                yield flight

    def of(self, nodes: Sequence[Row]) -> list[Flight]:
        """The flights of one request, by its gateways' spans."""
        found = {}
        for node in nodes:
            flight = self.flights.get(node[record.FLIGHT]) or self._near(node)
            if flight is not None:
                found[flight.key] = flight
        return list(found.values())

    def _near(self, node: Row) -> Flight | None:
        """Of the flights with the request id of a span of which no record told, the one that started with it."""
        if node[record.REQUEST_ID] == MISSING:
            return None
        near = [
            (abs(each.arrived_ns - node[record.ARRIVED]), each.key, each)
            for each in self.of_identity.get(node[record.REQUEST_ID], {}).values()
            if abs(each.arrived_ns - node[record.ARRIVED]) <= NEAR_NS
        ]
        return min(near)[-1] if near else None

    def have_settled(self, nodes: Sequence[Row], *, ended: bool) -> bool:
        """Whether a request, of which spans tell only now, was counted by its records; once it has ended, it is."""
        if not self.known:
            return False
        found = any(mark_of(key) in self.settled for node in nodes for key in keys_of(node))
        if ended:
            self.remember(nodes)
        return found

    def remember(self, nodes: Sequence[Row]) -> None:
        """What records or spans tell of these gateways from now on comes too late."""
        for node in nodes:
            for key in keys_of(node):
                self.settled.add(mark_of(key))

    def settle(self, flight: Flight, ended_ns: int) -> None:
        """It has been counted; `ended_ns` where no record told of its end."""
        self._waiting.clear()
        del self.flights[flight.key]
        identity = flight.row[record.REQUEST_ID]
        others = self.of_identity[identity]
        del others[flight.key]
        if not others:
            del self.of_identity[identity]
        self.settled.add(mark_of(flight.key))
        if flight.ended_ns is None:
            flight.ended_ns = ended_ns
        if not flight.started:
            self.healed[RECORDS[flight.row[record.RECORD]]] += 1
        if not flight.inner:
            self.recent.append(flight)

    def undecided(self) -> "Undecided":
        """The requests in flight of which it is not known whether they kept the limits of an SLO."""
        alike: dict[tuple[int, bool, tuple[str, ...]], list[Flight]] = {}
        for flight in self:
            alike.setdefault((id(flight.limits), flight.first_told, tuple(flight.missed)), []).append(flight)
        return Undecided(
            [(sorted(each.arrived_ns for each in group), _open_limits(group[0])) for group in alike.values()]
        )

    def waiting(self, slo: SLO, objective: Objective, time_ns: int, *, surely: bool = True) -> list["Waiting"]:
        """What waited at an instant for a value of the metric and surely, or maybe, is the SLO's."""
        key = (objective.metric, time_ns, surely)
        if key not in self._waiting:
            self._waiting[key] = self._waiting_at(*key)
        return [group for group in self._waiting[key] if group.is_of(slo, objective, surely=surely)]

    def _waiting_at(self, metric: str, time_ns: int, surely: bool) -> list["Waiting"]:
        alike: dict[int, list[Flight]] = {}
        for flight in self.at(time_ns):
            if flight.waits_at(metric, time_ns, surely=surely):
                alike.setdefault(id(flight.limits), []).append(flight)
        return [
            Waiting(group[0].limits, sorted(time_ns - flight.arrived_ns for flight in group))
            for group in alike.values()
        ]

    def forget(self, time_ns: int) -> None:
        """Windows have reached an instant: what ended before is in them."""
        while self.recent and (self.recent[0].ended_ns or 0) <= time_ns:
            self.recent.popleft()

    def lost(self, oldest_ns: int) -> list[Flight]:
        """Those of which nothing was heard since then; also where the end was told and found no room in the join."""
        return [each for each in self.flights.values() if each.seen_ns < oldest_ns]

    def at(self, time_ns: int) -> Iterator[Flight]:
        """Those that were under way at an instant, as far as they are remembered."""
        for group in (self.flights.values(), self.recent):
            yield from (each for each in group if not each.inner and each.goes_on_at(time_ns))


class Undecided(NamedTuple):
    """Requests in flight by what is open of them: when they arrived, ascending, and by SLO the earliest open limit."""

    groups: list[tuple[list[int], dict[str, int]]]

    def at(self, slo: str, time_ns: int) -> int:
        """How many had an open limit of an SLO whose deadline had passed at an instant."""
        return sum(bisect_right(arrived, time_ns - open_[slo]) for arrived, open_ in self.groups if slo in open_)


def _open_limits(flight: Flight) -> dict[str, int]:
    """By SLO, the shortest limit that is neither kept nor broken for sure, in nanoseconds."""
    found: dict[str, int] = {}
    for slo, objective, _ in flight.limits:
        told = objective.metric == "tpot" or (objective.metric == "ttft" and flight.first_told)
        if not told and slo.name not in flight.missed:
            found[slo.name] = min(objective.threshold_ns, found.get(slo.name, objective.threshold_ns))
    return found


class Waiting:
    """Requests under the same limits that wait for a metric: their ages in nanoseconds, ascending."""

    def __init__(self, limits: Limits, ages: list[int]) -> None:
        self.limits = limits
        self.ages = ages

    def is_of(self, slo: SLO, objective: Objective, *, surely: bool) -> bool:
        """Whether the SLO surely, or maybe, selects them."""
        return any(
            limit.slo is slo and limit.objective is objective and (limit.sure or not surely) for limit in self.limits
        )

    @cached_property
    def slots(self) -> Counter[int]:
        """Their ages as a histogram."""
        return Counter(map(slot_of_ns, self.ages))


def keys_of(node: Sequence[int]) -> tuple[int, ...]:
    """The keys under which records may tell of a gateway's span: by its ids, or by its request id and start."""
    trace, span, identity = node[record.TRACE_LO], node[record.SPAN], node[record.REQUEST_ID]
    return flight_key(MISSING, MISSING, trace, span), flight_key(identity, node[record.START], trace, span)
