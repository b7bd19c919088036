"""All stages in a row, and the only module that knows them all: bytes in, counts out.

The same pipeline runs live and in a replay. Live, time is what `tick` says, and a request is measured when its newest
span is `join.grace` old. In a replay, time is the newest span's end: a request is measured when nothing within the
allowed lateness can change it or the clock bounds around it, and nothing is late or evicted.

What is first learnt later: whether a 2xx without an engine's span is suspicious depends on whether its route ever
reaches engines (`requests.expect_engine: auto`), and whether a client's span stands alone on whether there are
gateways. Live, what is known so far decides. A replay holds such requests back until it is known, at the end of input
at the latest.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from exporter import compiled, record
from exporter.align import BUCKET_NS, Offsets
from exporter.config import Settings
from exporter.decode import columns
from exporter.decode.columns import Batch
from exporter.decode.jsonbody import to_protobuf
from exporter.decode.protobuf import Decoder
from exporter.express import MOST_KINDS, REHEARSAL, Act, Express, known_ns
from exporter.flight import Flight
from exporter.gauges import Flow, Gauges
from exporter.join import NEVER, Table, trace_key
from exporter.judge import Judgement
from exporter.logs import UNIDENTIFIED, LogRecogniser
from exporter.measure import GATEWAY_SEEN, Measured, Request, Rules, measure, observations
from exporter.profile import SourceProfile
from exporter.receive import Encoding, Receipt, Signal, Transport
from exporter.recognise import Recogniser, Strings, wanted_by
from exporter.record import IGNORED, MISSING, UNRECOGNISED, WEIGHT_ONE
from exporter.recording import Unusual
from exporter.rehearse import rehearse
from exporter.report import report
from exporter.series import Evaluations
from exporter.tally import END_TO_END, Tally, ended_at
from exporter.tree import GATEWAY, Path, Row, Tree
from slo_rules.slo import SLO
from slo_rules.units import SECOND_NS
from slo_rules.vocabulary import FATES

FUTURE_NS: Final = 30_000_000_000
"""How far ahead of our clock a span may end. Beyond, the sender's clock cannot be trusted with a window."""
REMEMBER_NS: Final = 600_000_000_000
"""For how long duplicates are known, at least."""
REPLAY_LATENESS_NS: Final = 600_000_000_000
MAX_HELD: Final = 200_000
"""Requests that a replay holds back; beyond, they are decided by what is known, and the report says so."""
MAX_ROUTES: Final = 10_000
DUE_AT_ONCE: Final = 500
"""Requests in flight that are looked at in one go for having missed a limit: if a server hangs all are due at once."""
COUNTED_AT_ONCE: Final = 128
"""Requests that are counted before others may have their turn."""
HANDED_AT_ONCE: Final = 64
"""Traces that go the general way at the end of input before it is tried to learn from them."""
MESSAGES: Final = 3
"""Refused spans that are spelt out to their sender; the rest are counted."""

Sealed = Callable[[Request, list[tuple[Measured, dict[str, Judgement]]]], None]
"""Told of each request when it has been counted."""


class Pipeline:
    """One exporter's state. Not for use by several threads."""

    def __init__(
        self, settings: Settings, profiles: Sequence[SourceProfile], slos: Sequence[SLO], *,
        replay: bool = False, lateness_ns: int = REPLAY_LATENESS_NS, sealed: Sealed | None = None, reports: bool = True,
    ) -> None:  # fmt: skip
        """`reports`: whether `report` will be asked for, for which more is kept than for metrics."""
        self.replay = replay
        self.lateness_ns = lateness_ns
        self.sealed = sealed
        self.strings = Strings()
        self.record_fates: Counter[str] = Counter()
        """What became of the log records."""
        self.records_received: Counter[str] = Counter()
        self._configure(settings, profiles)
        self._tally = Tally(settings, slos, self.strings, since_start=reports)
        self.table = Table(
            self.recogniser.width,
            grace_ns=lateness_ns if replay else settings.join.grace_ns,
            max_open=2**62 if replay else settings.join.max_open,
            max_age_ns=2**61 if replay else settings.join.max_age_ns,
        )
        self.offsets = Offsets()
        self.gauges = Gauges(settings.sources.scrape, self._looks_back_ns)
        self.routes: set[int] = set()
        self.gateway_seen = False
        self.pending: list[tuple[int, int, int, int, Path]] = []
        """In a replay, what is measured when it can be, with what comes the short way between."""
        self.held: dict[int, list[Request]] = {}
        self.held_count = 0
        self.undecided = 0
        self.received: Counter[str] = Counter()
        self.calls: Counter[tuple[str, str]] = Counter()
        self.evaluations = Evaluations()
        """Told by whoever calls `tick` and has a clock."""
        self.bodies = 0
        self.newest_ns = 0
        self.oldest_ns: int | None = None
        self.now_ns = 0
        self.turned_ns = self.marked_ns = 0
        self.settled_ns = 0
        self._new_express()

    def _new_express(self) -> None:
        self.express = Express(self.table, self._tally, self._plan, self.replay)
        self._stamp()

    def _stamp(self) -> None:
        """Tell the short way what is known of gateways."""
        self.express.stamp = 2 * len(self.routes) + self.gateway_seen

    @property
    def tally(self) -> Tally:
        """What is counted, up to now."""
        self.express.flush(self.now_ns)
        return self._tally

    @property
    def fates(self) -> Counter[str]:
        """What became of the spans."""
        for fate, count in self.express.fates_so_far():
            self.table.fates[fate] += count
        return self.table.fates

    @property
    def open(self) -> int:
        """Traces, or groups of traces, that wait for more spans."""
        return self.express.open + self.table.open

    @property
    def stored(self) -> int:
        """Spans that wait."""
        return self.express.stored + self.table.stored

    def _configure(self, settings: Settings, profiles: Sequence[SourceProfile]) -> None:
        self.settings = settings
        of_spans = [profile for profile in profiles if not profile.of_logs]
        of_logs = [profile for profile in profiles if profile.of_logs]
        self.profiles = [*of_spans, *of_logs]
        wanted, wanted_of_logs = wanted_by(of_spans, settings), wanted_by(of_logs, settings)
        self.decoder, self.log_decoder = Decoder(wanted), Decoder(wanted_of_logs)
        before = getattr(self, "recogniser", None)
        self.recogniser = Recogniser(of_spans, settings, wanted, self.strings)
        if before is not None:
            self.recogniser.dropped, self.recogniser.ignored = before.dropped, before.ignored
        self.log_recogniser = LogRecogniser(of_logs, settings, wanted_of_logs, self.strings, len(of_spans))
        self.log_recogniser.dropped, self.log_recogniser.ignored = self.recogniser.dropped, self.recogniser.ignored
        self.rules = Rules(
            adjust=settings.align.mode == "adjust",
            expect_engine=settings.requests.expect_engine,
            tpot_formula=settings.tpot.formula,
            weighted=settings.sampling == "honour",
            boundaries=tuple(self._declared_boundaries()),
        )

    def _declared_boundaries(self) -> Iterable[tuple[str, tuple[int, int], tuple[int, int]]]:
        places = {profile.name: place for place, profile in enumerate(self.profiles)}
        for boundary in self.settings.boundaries:
            ends = [
                (places.get(end.profile, MISSING), record.STAMP_CELLS[end.stamp])
                for end in (boundary.open, boundary.close)
            ]
            yield boundary.name, ends[0], ends[1]

    def reconfigure(self, settings: Settings, profiles: Sequence[SourceProfile], slos: Sequence[SLO]) -> None:
        """Go on with other settings. What waits to be joined stays, counters do not go back."""
        names = [profile.name for profile in self.profiles]
        self.express.hand_over_all()
        self.express.flush(self.now_ns)
        self.fates  # noqa: B018  (takes over what is counted there)
        self._configure(settings, profiles)
        places = {profile.name: place for place, profile in enumerate(self.profiles)}
        self.table.widen(self.recogniser.width, [places.get(name, UNRECOGNISED) for name in names])
        self.table.max_open = settings.join.max_open
        self.table.retime(grace_ns=settings.join.grace_ns, max_age_ns=settings.join.max_age_ns)
        if END_TO_END in settings.publish and END_TO_END not in self._tally.published:
            self.table.announce_anew()
        self._tally.reconfigure(settings, slos)
        self._tally.flights.decide_anew()  # other limits, other deadlines
        for flight in self._tally.flights.flights.values():
            if flight.ended_ns is None and not self.replay:
                self._follow(flight, self.now_ns)
        self.gauges.reconfigure(settings.sources.scrape, self._looks_back_ns)
        self._new_express()

    # In.

    def feed(
        self, body: bytes, *, encoding: Encoding, transport: Transport, now_ns: int, signal: Signal = "traces"
    ) -> Receipt:
        """Take one inflated body. Raises BadBody, and takes nothing, if it is not OTLP."""
        logs = signal == "logs"
        reasons = {}
        if encoding == "json":
            body, refused = to_protobuf(body, logs)
            reasons = {each.place: each.reason for each in refused}
        batch = self.log_decoder.decode(body, True) if logs else self.decoder.decode(body)
        self.bodies += 1
        received, fates = (self.records_received, self.record_fates) if logs else (self.received, self.fates)
        received[transport] += batch.spans + len(batch.refused)
        fates["malformed"] += len(batch.refused)
        if logs:
            self._take_records(batch, now_ns)
        else:
            self._take(batch, now_ns)
        self._advance(now_ns)
        return _receipt(batch, reasons, "log record" if logs else "span")

    def count_call(self, transport: Transport, code: str) -> None:
        """Count one answer to a sender."""
        self.calls[transport, code] += 1

    def _take(self, batch: Batch, now_ns: int) -> None:
        rows = memoryview(self.recogniser.recognise(batch, self.decoder.generation, None if self.replay else now_ns))
        if self._tally.flights.known or self.sealed is not None:
            self.express.hand_over_all()
            self._take_generally(rows, batch, now_ns)
            return
        windows = self.settings.windows
        odd = self.express.receive(rows, batch.spans, now_ns, FUTURE_NS, windows.delay_ns, windows.lateness_ns)
        for index in odd:
            self._take_odd(rows, batch, index)
        self.newest_ns = max(self.newest_ns, self.express.newest_ns)
        if self.express.oldest_ns != NEVER:
            self.oldest_ns = min(self.express.oldest_ns, self.oldest_ns or NEVER)

    def _take_odd(self, rows: memoryview, batch: Batch, index: int) -> None:
        """A row that the short way does not take, and what it points to."""
        width = self.recogniser.width
        links = self._links(batch, index)
        for key in links:
            self.express.release(key)
        self.table.add(rows[index * width : (index + 1) * width], links)

    def _take_generally(self, rows: memoryview, batch: Batch, now_ns: int) -> None:
        width = self.recogniser.width
        for index in range(batch.spans):
            row = rows[index * width : (index + 1) * width]
            fate = self._fate(row, now_ns)
            if fate in ("late", "too_late"):  # counted with the others of its request, which may turn out to be none
                row[record.FATE] = FATES.index(fate)
            elif fate is not None:
                self.fates[fate] += 1
                row[record.FATE] = record.COUNTED
            if fate not in ("future", "duplicate", "not_request"):
                self.table.add(row, self._links(batch, index))
                if row[record.ROLE] == GATEWAY:
                    self._tally.flights.end_by_span(row)

    def _fate(self, row: memoryview, now_ns: int) -> str | None:
        """The fate of a span where it is known on arrival; the others have theirs when their request is sealed."""
        end_ns = row[record.END]
        if not self.replay and end_ns > now_ns + FUTURE_NS:
            return "future"
        if not self.table.is_new(row):
            return "duplicate"
        self.newest_ns = max(self.newest_ns, end_ns)
        self.oldest_ns = row[record.START] if self.oldest_ns is None else min(self.oldest_ns, row[record.START])
        if row[record.PROFILE] == UNRECOGNISED:
            return "unrecognised"
        if row[record.PROFILE] == IGNORED:
            return "not_request"
        if self.replay or now_ns - end_ns <= self.settings.windows.delay_ns:
            return None
        return "too_late" if now_ns - end_ns > self.settings.windows.lateness_ns else "late"

    # In: log records.

    def _take_records(self, batch: Batch, now_ns: int) -> None:
        recogniser = self.log_recogniser
        rows = recogniser.recognise(batch, self.log_decoder.generation, None if self.replay else now_ns)
        width = recogniser.width
        for index in range(batch.spans):
            row = rows[index * width : (index + 1) * width]
            fate = self._record_fate(row, now_ns)
            self.record_fates[fate] += 1
            if fate == "used":
                if not self._tally.flights.known:  # from here on spans and records are joined in one place
                    self.express.hand_over_all()
                self._tell(row, now_ns)

    def _record_fate(self, row: Sequence[int], now_ns: int) -> str:
        known = {UNRECOGNISED: "unrecognised", IGNORED: "not_request", UNIDENTIFIED: "malformed"}
        if row[record.PROFILE] in known:
            return known[row[record.PROFILE]]
        if not self.replay and row[record.END] > now_ns + FUTURE_NS:
            return "future"
        if row[record.CALL] == 0:
            return "not_request"
        return "used" if self._tally.flights.is_new(row) else "duplicate"

    def _tell(self, row: Sequence[int], now_ns: int) -> None:
        """Go by what a log record says of a request."""
        self.newest_ns = max(self.newest_ns, row[record.END])
        self.oldest_ns = row[record.START] if self.oldest_ns is None else min(self.oldest_ns, row[record.START])
        flight = self._tally.flights.tell(row, row[record.SEEN], self._begin)
        if not self.replay:  # in a replay all is known before anything is counted
            self._follow(flight, now_ns)
        if row[record.RECORD] == record.ENDING:
            self.table.add(row)

    def _follow(self, flight: Flight, now_ns: int) -> None:
        """Count a request as in flight, and what it is proven to have missed."""
        if not flight.entered and not flight.inner:
            self._tally.enter(flight, now_ns, in_windows=self._recent(flight.arrived_ns))
        if flight.ended_ns is None:
            self._tally.watch(flight, now_ns, in_windows=self._recent)

    def _begin(self, row: Row) -> Flight:
        return self._tally.flight_of(row, self.profiles[row[record.PROFILE]].flush_ns)

    def _recent(self, time_ns: int) -> bool:
        """Whether what happened then may still enter the windows."""
        return self.replay or self.now_ns - time_ns <= self.settings.windows.lateness_ns

    def _give_up(self, flight: Flight) -> None:
        """Count a request whose end never came."""
        self._tally.flights.lost_ends += 1
        row = list(flight.row)
        row[record.RECORD] = record.ENDING
        row[record.START] = row[record.ARRIVED] = flight.arrived_ns
        row[record.END] = row[record.SEEN] = max(self.now_ns, row[record.END])
        self._measure(Path([], [row], [-1], [], [], [], [], [0], evicted=True))

    def _look_after_flights(self) -> None:
        flights = self._tally.flights
        for flight in flights.lost(self.now_ns - self.settings.join.max_age_ns):
            self._give_up(flight)
        if len(flights.flights) > self.settings.join.max_open:
            under_way = list(flights)
            for flight in under_way[: max(0, len(under_way) - self.settings.join.max_open)]:
                self._give_up(flight)

    def _links(self, batch: Batch, index: int) -> list[int]:
        head = index * columns.HEAD
        first, last = batch.heads[head + columns.LINKS_FROM], batch.heads[head + columns.LINKS_TO]
        places = range(first * columns.LINK, last * columns.LINK, columns.LINK)
        return [trace_key(batch.links[place], batch.links[place + 1]) for place in places]

    # On.

    def tick(self, now_ns: int) -> None:
        """Say what time it is: about once a second, live."""
        for _ in self.tick_in_steps(now_ns):
            pass

    def tick_in_steps(self, now_ns: int) -> Iterator[None]:
        """The same; halts every few milliseconds, where others may have their turn."""
        self._advance(now_ns)
        yield from self.count_in_steps()
        self.express.earn(REHEARSAL)
        self._look_after_flights()
        self._tally.windows.aim(now_ns - self.settings.windows.delay_ns)
        self._tally.flights.forget(min(each.end_ns for each in self._tally.windows.windows.values()))
        while self._tally.windows.work():
            yield
        yield from self.count_in_steps()  # before anything expires, or it would be where they are to be counted
        self._tally.expire(now_ns)
        self.offsets.forget(now_ns)
        self._turn(now_ns, self.settings.join.max_age_ns + self.settings.join.grace_ns)

    def count_in_steps(self) -> Iterator[None]:
        """Count who waits for it, and likewise halt; not for ever, if others come as fast."""
        for _ in range(0, self.express.uncounted + 1, COUNTED_AT_ONCE):
            if not self.express.flush_some(self.now_ns, COUNTED_AT_ONCE):
                return
            yield
        self.express.flush(self.now_ns)

    def _turn(self, now_ns: int, age_ns: int) -> None:
        """Forget, bit by bit, the marks of duplicates, and in halves the texts of rows, which may be `age_ns` old."""
        fingerprints = self.table.fingerprints
        fingerprints.sweep()
        if now_ns - self.marked_ns > (REMEMBER_NS + age_ns * self.replay) // (fingerprints.kept - 1):
            self.marked_ns = now_ns
            fingerprints.turn()
        if now_ns - self.turned_ns > REMEMBER_NS + age_ns:
            self.turned_ns = now_ns
            self._tally.flights.settled.turn()
            self.strings.turn()
            self.recogniser.forget()
            self.log_recogniser.forget()
            if self.express.kinds_known > MOST_KINDS // 2:
                self.express.renumber()

    def _advance(self, now_ns: int) -> None:
        """Seal what is ripe."""
        self.now_ns = self._tally.now_ns = self.newest_ns if self.replay else now_ns
        self._seal(self.now_ns)
        for path in self.table.evict(self.express):
            self._resolve(path)
        self.express.forget()
        if self.replay:
            self._advance_replay(self.newest_ns - self.lateness_ns)
            return
        for flight in islice(self._tally.flights.due(now_ns), DUE_AT_ONCE):
            self._tally.watch(flight, now_ns, in_windows=self._recent)

    def _seal(self, now_ns: int) -> None:
        """Seal what is due in `express` and in the table, in the order in which it is due."""
        express, table = self.express, self.table
        while min(express.first_due(), table.first_due) <= now_ns:
            express.seal(now_ns, min(now_ns, table.first_due), 1)
            for path in table.seal(now_ns, min(now_ns, express.first_due())):
                self._resolve(path)
            self._rehearse()
            express.forget()

    def _rehearse(self) -> None:
        """Learn the short way for requests that came the general way."""
        lessons, self.express.lessons = self.express.lessons, []
        for lesson in lessons:
            try:
                act = rehearse(lesson, self.rules, self.offsets, stamp=self.express.stamp, settle=self._settle)
            except Unusual:
                act = None
            self.express.learn(lesson, act)

    def _settle(self, request: Request) -> tuple[bool, bool]:
        """Decide what hangs on the present state; whether anything does, and whether windows still take the request."""
        hanging = request.unmatched is not None or any(row.awaits is not None for row in request.boundaries)
        if self.replay and self._awaited(request) is not None:
            raise Unusual("to be held back")
        self._decide(request)
        if not request.boundaries:
            raise Unusual("nothing to count")
        return hanging, self.replay or self._in_time(request)

    def _plan(self, act: Act, numbers: tuple[int, ...]) -> Any:
        return self._tally.plan(self._tally.texts(numbers[0], numbers[1], numbers[2:]), act.boundaries)

    def _advance_replay(self, watermark_ns: int) -> None:
        self._measure_until(watermark_ns)
        if watermark_ns - self.settled_ns > BUCKET_NS:
            self.settled_ns = watermark_ns
            self.express.flush(self.now_ns)
            if self._tally.last_ns is not None:  # at the end they are read as of the last end of a request
                self._tally.windows.pass_by(min(watermark_ns, self._tally.last_ns))
            self.offsets.forget(watermark_ns - self.lateness_ns)
            self._tally.flights.forget(watermark_ns - self.lateness_ns)
            self._turn(watermark_ns, 2 * self.lateness_ns)

    def seal_all(self, now_ns: int) -> None:
        """Seal what still waits for spans: no more will come."""
        self._advance(now_ns)
        more = True
        while more:
            more = self.express.seal(NEVER - 1, NEVER - 1, HANDED_AT_ONCE)
            for path in self.table.finish():
                self._resolve(path)
            self._rehearse()
            self.express.forget()

    def finish(self) -> None:
        """End of the input of a replay."""
        self.seal_all(self.now_ns)
        self._measure_until(NEVER - 1)
        self.express.flush(self.now_ns)
        held, self.held, self.held_count = self.held, {}, 0
        for requests in held.values():
            for request in requests:
                self._count(request)
        for flight in list(self._tally.flights):
            self._tally.enter(flight, self.now_ns, in_windows=True)
            self._tally.watch(flight, self.now_ns, in_windows=self._recent)
        if self._tally.last_ns is not None:
            self._tally.windows.finish(self._tally.last_ns)

    def _resolve(self, path: Path) -> None:
        """Learn from a request what others need to know; measure it once they have been learnt from, too."""
        for observation in observations(path):
            self.offsets.observe(observation)
        self._learn(path)
        if not self.replay:
            self._measure(path)
            return
        rows = [*path.clients, *path.nodes, *(row for group in path.engines for row in group)]
        first = rows[0]
        newest_ns = max(row[record.END] for row in rows)
        entry = (known_ns(newest_ns), first[record.START], first[record.SPAN], int(path.open), path)
        heapq.heappush(self.pending, entry)

    def _measure_until(self, watermark_ns: int) -> None:
        """Measure what waited for so much of the replay to be known."""
        while True:
            ripe = bool(self.pending) and self.pending[0][0] <= watermark_ns
            before = self.pending[0][:3] if ripe else (watermark_ns + 1, 0, 0)
            slot = self.express.measure(*before, self.now_ns)
            if slot >= 0:
                self._measure_generally(slot)
            elif ripe:
                self._measure(heapq.heappop(self.pending)[-1])
            else:
                return

    def _measure_generally(self, slot: int) -> None:
        """Measure what was put off on the short way, and can go no further there."""
        self._rehearse()
        rows = dict(enumerate(self.express.rows_of(slot)))
        self.express.drop(slot, False)
        for _, path in Tree(rows).paths():
            self._measure(path)

    def _learn(self, path: Path) -> None:
        if path.nodes and not self.gateway_seen:
            self.gateway_seen = True
            self._stamp()
            self._release(GATEWAY_SEEN)
        if not path.engines:
            return
        known = {node[record.ROUTE] for node in path.nodes} - self.routes - {MISSING}
        if len(self.routes) + len(known) <= MAX_ROUTES:
            self.routes |= known
            self._stamp()
            for route in known:
                self._release(route)

    def _measure(self, path: Path) -> None:
        flights = self._land(path.nodes)
        told_before = not flights and self._tally.flights.have_settled(path.nodes, ended=not path.open)
        request = measure(path, self.rules, self.offsets.along, len(self.settings.labels.declared))
        if told_before:  # but not at the engine, of which no log tells
            self._tally.unmatched["counted_before"] += 1
            request.boundaries = [row for row in request.boundaries if row.boundary == "model"]
        if flights:  # logs tell of every request, whatever the spans around it were sampled for
            request.flights, request.weight = flights, WEIGHT_ONE
        request.texts = self._tally.labels_of(request)
        self._hold_or_count(request)

    def _land(self, nodes: Sequence[Row]) -> list[Flight]:
        """The flights of a request that has been joined, which are done with."""
        if not self._tally.flights.known:
            return []
        flights = self._tally.flights.of(nodes)
        starts = {flight.key: flight.arrived_ns for flight in flights}
        for node in nodes:
            if node[record.RECORD] == record.ENDING and node[record.FLIGHT] in starts:
                node[record.START] = node[record.ARRIVED] = starts[node[record.FLIGHT]]
        if flights:
            self._tally.flights.remember(nodes)
        for flight in flights:
            self._tally.flights.settle(flight, max(node[record.END] for node in nodes))
        return flights

    def _hold_or_count(self, request: Request) -> None:
        awaited = self._awaited(request)
        if self.replay and awaited is not None:
            self._hold(awaited, request)
        else:
            self._count(request)

    def _awaited(self, request: Request) -> int | None:
        """What is not known yet and must be, to count this request."""
        for row in request.boundaries:
            if row.awaits is not None and not self._known(row.awaits):
                return row.awaits
        return None

    def _known(self, awaited: int) -> bool:
        return self.gateway_seen if awaited == GATEWAY_SEEN else awaited in self.routes

    def _hold(self, awaited: int, request: Request) -> None:
        if self.held_count >= MAX_HELD:
            self.undecided += 1
            self._count(request)
            return
        self.held_count += 1
        self.held.setdefault(awaited, []).append(request)

    def _release(self, awaited: int) -> None:
        """Count what was held back for this, unless it waits for something else, too."""
        requests = self.held.pop(awaited, [])
        self.held_count -= len(requests)
        for request in requests:
            self._hold_or_count(request)

    def _count(self, request: Request) -> None:
        self._decide(request)
        in_windows = self.replay or self._in_time(request)
        judged = self._tally.count(request, self.now_ns, in_windows=in_windows, listened=self.sealed is not None)
        if self.sealed is not None:
            self.sealed(request, judged)

    def _decide(self, request: Request) -> None:
        """Settle outcomes that hang on what is now known."""
        alone = request.unmatched == "client" and not self.gateway_seen
        if alone or (request.unmatched == "engine" and not self.gateway_seen):
            request.unmatched = None
        kept = []
        for row in request.boundaries:
            if row.awaits is not None and row.awaits != GATEWAY_SEEN and self._known(row.awaits):
                row.outcome, row.phases = "unknown", {}
            if row.awaits != GATEWAY_SEEN or not self.gateway_seen:
                kept.append(row)
        request.boundaries = kept

    def _in_time(self, request: Request) -> bool:
        ended_ns = max((ended_at(row) for row in request.boundaries), default=request.seen_ns)
        return request.seen_ns - ended_ns <= self.settings.windows.lateness_ns

    # Out.

    @property
    def _looks_back_ns(self) -> int:
        """How old the beginning of a window may be; a window ends with a slice, which is 10 s at most."""
        return max(self._tally.window_lengths) + self.settings.windows.delay_ns + 10 * SECOND_NS

    @property
    def told_by_gauges(self) -> set[str]:
        """Boundaries of scraped servers at which nothing told of a request before it had ended."""
        early = {boundary for (boundary, _), traffic in self._tally.traffic.items() if traffic.in_flight}
        return (self.gauges.boundaries & self._tally.published) - early

    def flow(self, boundary: str, length_ns: int) -> Flow | None:
        """What gauges tell of the window of this length."""
        end_ns = self._tally.windows.windows[length_ns].end_ns
        return self.gauges.flow(boundary, end_ns - length_ns, end_ns)

    def report(self, now_ns: int | None = None) -> dict[str, Any]:
        """Everything that is known, as plain data with sorted keys. `now_ns` is only for the caller's convenience.

        Raises RuntimeError if what only reports show was not kept.
        """
        if not self._tally.since_start:
            raise RuntimeError("this pipeline was told that nobody asks for reports")
        return report(self)

    @property
    def compiled(self) -> bool:
        """Whether the compiled modules are in use."""
        return compiled()


def _receipt(batch: Batch, reasons: dict[int, str], item: str) -> Receipt:
    rejected = len(batch.refused)
    told = [f"{item} {each.place}: {reasons.get(each.place, each.reason)}" for each in batch.refused[:MESSAGES]]
    more = [f"{rejected - MESSAGES} more"] if rejected > MESSAGES else []
    return Receipt(batch.spans, rejected, "; ".join([*told, *more]))
