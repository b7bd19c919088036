"""From the stamps of one request to its values at each boundary. A pure function: no state, no clock.

Which stamps open and close a boundary, where its first token comes from and how its outcome is found is contract.md,
sections 2 to 5 and 9. Two rules hold throughout:

- Only stamps of one clock are subtracted as they are. Across clocks the difference carries an uncertainty; a negative
  difference gives no value and is counted.
- What is not known is None. Nothing is clamped, and no missing stamp is replaced by another that means something else.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from exporter import record
from exporter.align import Bound, Observation
from exporter.flight import Flight
from exporter.record import MISSING, WEIGHT_ONE
from exporter.tree import DEPTH, QUEUE, Path, Row
from slo_rules.vocabulary import FIRST_TOKEN_SOURCES, OUTCOMES

MODEL_SOURCE: Final = FIRST_TOKEN_SOURCES.index("model")
CANCELLED, TIMEOUT, SHED, ERROR, CLIENT_ERROR, OK = (
    OUTCOMES.index(name) for name in ("cancelled", "timeout", "shed", "error", "client_error", "ok")
)
GATEWAY_SEEN: Final = -1
"""What a lone client's span waits for in `Measured.awaits`: whether there are gateways at all."""


class Instant(NamedTuple):
    """A time and the clocks that were passed on the way to it, from the one it is compared with."""

    ns: int
    clocks: tuple[int, ...]


class Interval(NamedTuple):
    """A duration with what it may be off by; `error_ns` None where that is not known."""

    ns: int
    error_ns: int | None


@dataclass(slots=True, kw_only=True)
class Measured:
    """One request at one boundary. Times in Unix nanoseconds, durations in nanoseconds, None for what is not known."""

    boundary: str
    row: Row
    """The span that opened it."""
    arrived_ns: int | None = None
    first_token_ns: int | None = None
    ended_ns: int | None = None
    ttft: Interval | None = None
    tpot_ns: int | None = None
    completion: Interval | None = None
    ttft_applies: bool = True
    silent: bool = False
    """Known to have ended before a first token came."""
    tpot_applies: bool = True
    first_token_from: str | None = None
    outcome: str = "unknown"
    awaits: int | None = None
    """Route (or GATEWAY_SEEN) on which the outcome hangs: `unknown` if it is known to reach engines, else `ok`."""
    input: int | None = None
    output: int | None = None
    cached: int | None = None
    items: int | None = None
    phases: dict[str, int] = field(default_factory=dict)
    clock_error_ns: int | None = None
    """Of a value that the clocks made negative, and that therefore is not there."""
    open: bool = False
    announced: int = 0
    """Of it, jobs that were counted as arrived when they were seen to enter a queue."""
    evicted: bool = False


@dataclass(slots=True, kw_only=True)
class Request:
    """One request at all its boundaries, and what is the same for all of them."""

    boundaries: list[Measured]
    model: int
    klass: int
    labels: tuple[int, ...]
    weight: int
    seen_ns: int
    """When its newest span came."""
    whole: bool
    """Whether it was joined down to an engine."""
    negative: int = 0
    unmatched: str | None = None
    """The role of a span that found no gateway."""
    flights: Sequence[Flight] = ()
    """What logs told of it while it lasted."""
    texts: dict[str, str] = field(default_factory=dict)
    """The labels as text; whoever measures looks them up while they are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Settings that measuring goes by."""

    adjust: bool = False
    expect_engine: str = "auto"
    tpot_formula: str = "tokens_minus_one"
    weighted: bool = True
    boundaries: tuple[tuple[str, tuple[int, int], tuple[int, int]], ...] = ()
    """Of the user's own: name, (profile, stamp cell) that opens it, and that closes it."""


Along = Callable[[Iterable[int], int], Bound]


class Engine(NamedTuple):
    """One request to an engine, its sequences folded into one."""

    row: Row
    clock: int
    arrived: int
    enqueued: int
    scheduled: int
    first_token: int
    last_token: int
    ended: int
    input: int
    output: int
    cached: int
    tpot_ns: int | None
    outcome: int
    sequences: int


def observations(path: Path) -> Iterator[Observation]:
    """What the spans of a request say of the clocks of their hosts."""
    for node, outer in zip(path.nodes, path.outer, strict=True):
        if outer >= 0:
            yield from _observe(path, path.nodes[outer], node)
    for group, gate in zip(path.engines, path.gates, strict=True):
        around = path.nodes[gate : gate + 1] if gate >= 0 else path.clients
        for row in group if around else ():
            yield from _observe(path, around[0], row)
    if path.clients and path.nodes:
        yield from _observe(path, path.clients[0], path.nodes[0])


def _observe(path: Path, outer: Row, inner: Row) -> Iterator[Observation]:
    """The tightest cause there is: the hop that called, else the span around it."""
    hop = next((hop for hop in path.hops if hop[record.SPAN] == inner[record.PARENT]), None)
    cause = hop if hop is not None else outer
    if cause[record.CLOCK] == inner[record.CLOCK]:
        return
    waits = outer[record.ROLE] != QUEUE and own_outcome(outer) not in (CANCELLED, TIMEOUT, ERROR)
    yield Observation(
        cause[record.CLOCK],
        inner[record.CLOCK],
        inner[record.END] - cause[record.END] if waits else None,
        inner[record.START] - cause[record.START],
        max(row[record.END] for row in _rows(path)),
    )


def measure(path: Path, rules: Rules, along: Along, label_count: int) -> Request:
    """All boundaries of one request. `along`: bound on the last of a chain of clocks minus the first."""
    meter = _Meter(path, rules, along)
    boundaries = list(meter.boundaries())
    return Request(
        boundaries=boundaries,
        model=_first_cell(_inner_first(path), record.MODEL),
        klass=_first_cell(_rows(path), record.CLASS),
        labels=tuple(_first_cell(_rows(path), record.LABELS + index) for index in range(label_count)),
        weight=_weight(path) if rules.weighted else WEIGHT_ONE,
        seen_ns=max(row[record.SEEN] for row in _rows(path)),
        whole=bool(path.engines) and bool(path.nodes),
        negative=len(meter.impossible),
        unmatched=_unmatched(path),
    )


def _unmatched(path: Path) -> str | None:
    if path.nodes:
        return None
    return "client" if path.clients else "engine"


def _rows(path: Path) -> Iterator[Row]:
    """Outermost first."""
    yield from path.clients
    yield from path.nodes
    yield from path.parts
    for group in path.engines:
        yield from group
    yield from path.hops


def _inner_first(path: Path) -> Iterator[Row]:
    for group in path.engines:
        yield from group
    yield from path.parts
    yield from reversed(path.nodes)
    yield from path.clients


def _first_cell(rows: Iterable[Row], cell: int) -> int:
    return next((row[cell] for row in rows if row[cell] != MISSING), MISSING)


def _weight(path: Path) -> int:
    weight = next(_rows(path))[record.WEIGHT]
    return WEIGHT_ONE if weight == MISSING else weight


# Outcomes.


def own_outcome(row: Row) -> int:
    """What one span's own evidence says (contract, section 4), or MISSING."""
    status, evidence = row[record.STATUS], row[record.EVIDENCE]
    if evidence == CANCELLED or status == 499:
        return CANCELLED
    if evidence == TIMEOUT or status in (408, 504):
        return TIMEOUT
    if evidence == SHED or status == 429:
        return SHED
    if evidence == ERROR:
        return ERROR
    if status == 503:
        return SHED
    if evidence == CLIENT_ERROR or 400 <= status < 500:
        return CLIENT_ERROR
    if 500 <= status < 600 or row[record.FAILED] == 1:
        return ERROR
    return OK if evidence == OK else MISSING


def _found(value: int) -> int | None:
    return None if value == MISSING else value


class _Meter:
    """Holds what several boundaries of one request share."""

    def __init__(self, path: Path, rules: Rules, along: Along) -> None:
        self.path = path
        self.rules = rules
        self.along = along
        self.impossible: set[tuple[int, int]] = set()
        """Intervals that would be negative, each once however many boundaries meet it."""
        self.engines = [fold(group, rules.tpot_formula) for group in path.engines]
        served = [engine for engine in self.engines if engine.outcome == OK]
        self.served = served or self.engines
        self.around = dict(self._around())
        """Of each node and engine, by span id, the span ids of the nodes around it and its own."""

    def _around(self) -> Iterator[tuple[int, set[int]]]:
        path = self.path
        for place, node in enumerate(path.nodes):
            yield node[record.SPAN], self._chain(place)
        for engine, gate in zip(self.engines, path.gates, strict=True):
            yield engine.row[record.SPAN], self._chain(gate) | {engine.row[record.SPAN]}

    def _chain(self, place: int) -> set[int]:
        chain: set[int] = set()
        while place >= 0 and len(chain) < DEPTH:
            chain.add(self.path.nodes[place][record.SPAN])
            place = self.path.outer[place]
        return chain

    def boundaries(self) -> Iterator[Measured]:
        path = self.path
        if path.clients:
            yield self._client("client")
        if path.nodes:
            yield self._outer()
            if not path.open:
                yield from (self._service(place) for place in path.leaves)
        elif path.clients:
            yield self._client("end_to_end")
        yield from (self._model(engine) for engine in self.engines)
        if not path.open:
            yield from self._declared()

    # The boundaries.

    def _outer(self) -> Measured:
        path, root = self.path, self.path.nodes[0]
        closing, ended = self._close_of_path()
        measured = Measured(
            boundary="end_to_end", row=root, open=path.open, announced=path.announced, evicted=path.evicted
        )
        measured.arrived_ns = _found(opening(root))
        if path.open:
            return measured
        self._finish(measured, ended)
        self._decide(measured, closing if closing is not None else root, self.engines)
        self._tokens(measured, [*path.nodes, *path.parts], self.served)
        self._first_token(measured, path.nodes, self.served, ended)
        self._phases(measured, path.nodes, self.served)
        return measured

    def _close_of_path(self) -> tuple[Row | None, Instant | None]:
        """The span that closes the path, and when: the root's own end, or the last one where a queue is on the way."""
        nodes = self.path.nodes
        root = nodes[0]
        queued = any(node[record.ROLE] == QUEUE for node in nodes)
        if not queued and root[record.ENDED] != MISSING:
            return root, Instant(root[record.ENDED], (root[record.CLOCK],))
        ends = [node for node in nodes if node[record.ENDED] != MISSING] if queued else []
        if ends:
            last = max(ends, key=lambda node: (node[record.ENDED], node[record.SPAN]))
            return last, Instant(last[record.ENDED], self._clocks_to(nodes, last))
        return None, self._engine_end(nodes, self.served)

    def _engine_end(self, nodes: Sequence[Row], engines: Sequence[Engine]) -> Instant | None:
        ends = [engine for engine in engines if engine.ended != MISSING]
        if not ends:
            return None
        last = max(ends, key=lambda engine: (engine.ended, engine.row[record.SPAN]))
        return Instant(last.ended, (*self._clocks_to(nodes, last.row)[:-1], last.clock))

    def _clocks_to(self, rows: Sequence[Row], inner: Row) -> tuple[int, ...]:
        """The clocks on the way from the first of some rows to one inside it: those of the rows around that."""
        around = self.around.get(inner[record.SPAN], set())
        outer = [row for place, row in enumerate(rows) if place == 0 or row[record.SPAN] in around]
        return (*(row[record.CLOCK] for row in outer if row is not inner), inner[record.CLOCK])

    def _service(self, place: int) -> Measured:
        path, leaf = self.path, self.path.nodes[place]
        inside = [engine for engine, gate in zip(self.engines, path.gates, strict=True) if gate == place]
        served = [engine for engine in inside if engine.outcome == OK] or inside
        measured = Measured(boundary="service", row=leaf, evicted=path.evicted)
        measured.arrived_ns = _found(opening(leaf))
        ended = self._engine_end([leaf], served)
        self._finish(measured, ended)
        same = [node for node in path.nodes if node[record.RESOURCE] == leaf[record.RESOURCE]]
        telling = next((node for node in (leaf, *reversed(same)) if own_outcome(node) != MISSING), leaf)
        self._decide(measured, telling, inside)
        self._tokens(measured, [leaf, *path.parts], served)
        self._first_token(measured, [leaf], served, ended)
        self._phases(measured, [leaf], served)
        return measured

    def _client(self, boundary: str) -> Measured:
        path, row = self.path, self.path.clients[0]
        measured = Measured(boundary=boundary, row=row, evicted=path.evicted)
        measured.arrived_ns = _found(opening(row))
        ended = None if row[record.ENDED] == MISSING else Instant(row[record.ENDED], (row[record.CLOCK],))
        self._finish(measured, ended)
        outcome = own_outcome(row)
        engine_ended = any(engine.outcome == OK for engine in self.engines)
        measured.outcome = "unknown" if outcome == MISSING else OUTCOMES[outcome]
        if outcome == MISSING and engine_ended:
            measured.outcome = "ok"
        if boundary == "end_to_end":
            measured.awaits = GATEWAY_SEEN
        self._tokens(measured, [row, *path.nodes, *path.parts], self.served)
        self._first_token(measured, [row, *path.nodes], self.served, ended)
        self._phases(measured, [row, *path.nodes], self.served)
        return measured

    def _model(self, engine: Engine) -> Measured:
        measured = Measured(boundary="model", row=engine.row, evicted=self.path.evicted)
        measured.arrived_ns = _found(engine.arrived)
        ended = None if engine.ended == MISSING else Instant(engine.ended, (engine.clock,))
        self._finish(measured, ended)
        measured.outcome = OUTCOMES[engine.outcome]
        self._tokens(measured, [], [engine])
        self._first_token(measured, [], [engine], ended)
        self._phases(measured, [], [engine])
        return measured

    def _declared(self) -> Iterator[Measured]:
        """Boundaries of the user's own: the first span that opens one, the last that closes it."""
        for name, (open_profile, open_cell), (close_profile, close_cell) in self.rules.boundaries:
            opened = _stamped(self.path, open_profile, open_cell)
            closed = _stamped(self.path, close_profile, close_cell)
            if not opened:
                continue
            row = min(opened, key=lambda row: (row[open_cell], row[record.SPAN]))
            measured = Measured(boundary=name, row=row, evicted=self.path.evicted)
            measured.arrived_ns = row[open_cell]
            last = max(closed, key=lambda row: (row[close_cell], row[record.SPAN]), default=None)
            clocks = (row[record.CLOCK],) if last is None else (row[record.CLOCK], last[record.CLOCK])
            ended = None if last is None else Instant(last[close_cell], clocks)
            self._finish(measured, ended)
            self._decide(measured, last if last is not None else row, self.engines)
            self._tokens(measured, [*self.path.nodes, *self.path.parts], self.served)
            self._first_token(measured, [row], self.served, ended)
            yield measured

    # What they are made of.

    def _difference(self, later: Instant, earlier_ns: int) -> Interval:
        """A duration; below zero, and counted, where the clocks make it so."""
        error: int | None = 0
        ns = later.ns - earlier_ns
        if len(set(later.clocks)) > 1:
            bound = self.along(later.clocks, later.ns)
            shift = bound.shift if self.rules.adjust else 0
            ns, error = ns - shift, bound.distance(shift)
        if ns < 0:
            self.impossible.add((earlier_ns, later.ns))
        return Interval(ns, error)

    def _shown(self, instant: Instant) -> int:
        """An instant on the outer clock, as far as `adjust` puts it there."""
        if not self.rules.adjust or len(set(instant.clocks)) == 1:
            return instant.ns
        return instant.ns - self.along(instant.clocks, instant.ns).shift

    def _finish(self, measured: Measured, ended: Instant | None) -> None:
        if ended is None:
            return
        measured.ended_ns = self._shown(ended)
        if measured.arrived_ns is not None:
            measured.completion = self._kept(measured, self._difference(ended, measured.arrived_ns))

    def _kept(self, measured: Measured, value: Interval) -> Interval | None:
        """A value, unless the clocks made it negative."""
        if value.ns >= 0:
            return value
        measured.clock_error_ns = value.error_ns
        return None

    def _decide(self, measured: Measured, row: Row, engines: Sequence[Engine]) -> None:
        """The outcome at a gateway or queue."""
        if measured.evicted and measured.ended_ns is None:
            return
        outcome = own_outcome(row)
        if outcome != MISSING:
            measured.outcome = OUTCOMES[outcome]
        elif engines:
            measured.outcome = "ok" if any(engine.outcome == OK for engine in engines) else "error"
        elif 200 <= row[record.STATUS] < 300 and self.rules.expect_engine != "yes":
            measured.outcome = "ok"
            if self.rules.expect_engine == "auto" and row[record.ROUTE] != MISSING:
                measured.awaits = row[record.ROUTE]

    def _tokens(self, measured: Measured, rows: Sequence[Row], engines: Sequence[Engine]) -> None:
        """The engine's counts, else those of the span itself or of its parts."""
        measured.input = _sum(engine.input for engine in engines)
        measured.output = _sum(engine.output for engine in engines)
        measured.cached = _sum(engine.cached for engine in engines)
        if measured.input is None:
            measured.input = _found(_first_cell(rows, record.INPUT))
        if measured.output is None:
            measured.output = _found(_first_cell(rows, record.OUTPUT))
        if measured.cached is None:
            measured.cached = _found(_first_cell(rows, record.CACHED))
        measured.items = _found(_first_cell([*rows, *(engine.row for engine in engines)], record.ITEMS))

    def _first_token(
        self, measured: Measured, rows: Sequence[Row], engines: Sequence[Engine], ended: Instant | None
    ) -> None:
        """TTFT and TPOT: from the boundary's own first token, else from the engine's."""
        stream = _first_cell(_rows(self.path), record.STREAM) if measured.boundary != "model" else 1
        empty = measured.output == 0 and measured.outcome == "ok"
        if stream == 0 or empty:
            measured.ttft_applies = measured.tpot_applies = False
            return
        if measured.output is not None and measured.output <= 1:
            measured.tpot_applies = False
        own = next((place for place, row in enumerate(rows) if row[record.FIRST_TOKEN] != MISSING), None)
        if own is not None:
            self._own_first_token(measured, rows, own, engines, ended)
        elif any(row[record.SILENT] == 1 for row in rows):
            measured.silent = True
        else:
            self._derived_first_token(measured, rows, engines)

    def _own_first_token(
        self, measured: Measured, rows: Sequence[Row], own: int, engines: Sequence[Engine], ended: Instant | None
    ) -> None:
        row = rows[own]
        first = Instant(row[record.FIRST_TOKEN], self._clocks_to(rows, row))
        measured.first_token_from = FIRST_TOKEN_SOURCES[row[record.SOURCE]]
        self._set_ttft(measured, first)
        if sum(engine.sequences for engine in engines) > 1 and (slowest := _slowest(engines)) is not None:
            measured.tpot_ns = slowest
            return
        last = row[record.LAST_TOKEN]
        if last == MISSING and row[record.ENDED] != MISSING:
            last = row[record.ENDED]
        end = measured.completion.ns if measured.completion is not None else None
        measured.tpot_ns = per_token(self.rules.tpot_formula, first.ns, last, measured.output, end)

    def _derived_first_token(self, measured: Measured, rows: Sequence[Row], engines: Sequence[Engine]) -> None:
        known = [engine for engine in engines if engine.first_token != MISSING and engine.output != 0]
        measured.tpot_ns = _slowest(engines)
        if not known:
            return
        engine = min(known, key=lambda engine: (engine.first_token, engine.row[record.SPAN]))
        clocks = (*self._clocks_to(rows, engine.row)[:-1], engine.clock)
        own = measured.boundary == "model"
        measured.first_token_from = FIRST_TOKEN_SOURCES[engine.row[record.SOURCE] if own else MODEL_SOURCE]
        self._set_ttft(measured, Instant(engine.first_token, clocks))

    def _set_ttft(self, measured: Measured, first: Instant) -> None:
        measured.first_token_ns = self._shown(first)
        if measured.arrived_ns is not None:
            measured.ttft = self._kept(measured, self._difference(first, measured.arrived_ns))

    # Phases.

    def _phases(self, measured: Measured, nodes: Sequence[Row], engines: Sequence[Engine]) -> None:
        """What the completion latency was made of; only of requests that ended well."""
        if measured.completion is None or measured.outcome != "ok":
            return
        phases: dict[str, int] = {}
        self._gateway_phases(phases, nodes)
        self._queue_phases(phases, nodes)
        for engine in engines:
            _engine_phases(phases, engine)
        rest = measured.completion.ns - sum(phases.values())
        phases["unexplained"] = max(0, rest)
        if rest < 0:
            phases["over_explained"] = -rest
        measured.phases = phases

    def _gateway_phases(self, phases: dict[str, int], nodes: Sequence[Row]) -> None:
        for node in nodes:
            if node[record.ROLE] == QUEUE or node[record.ARRIVED] == MISSING:
                continue
            hops = [
                hop[record.DISPATCHED] for hop in self.path.hops
                if hop[record.PARENT] == node[record.SPAN] and hop[record.CLOCK] == node[record.CLOCK]
            ]  # fmt: skip
            dispatched = node[record.DISPATCHED] if node[record.DISPATCHED] != MISSING else min(hops, default=MISSING)
            if dispatched == MISSING:
                continue
            if dispatched >= node[record.ARRIVED]:
                phases["gateway"] = phases.get("gateway", 0) + dispatched - node[record.ARRIVED]
            self._network(phases, node, dispatched)

    def _network(self, phases: dict[str, int], node: Row, dispatched: int) -> None:
        """From the hand-over to the engine's arrival, where both are on one time line."""
        for engine in self.served:
            clocks = (node[record.CLOCK], engine.clock)
            if self.rules.adjust or len(set(clocks)) == 1:
                bound = self.along(clocks, engine.arrived)
                if bound.offset is not None and engine.arrived - bound.shift >= dispatched:
                    phases["network"] = engine.arrived - bound.shift - dispatched

    def _queue_phases(self, phases: dict[str, int], nodes: Sequence[Row]) -> None:
        """Each wait in a broker: from a producer to the next consumer."""
        put: Row | None = None
        for node in nodes:
            if node[record.ENQUEUED] != MISSING:
                put = node
            if node[record.DEQUEUED] != MISSING and put is not None:
                clocks = (put[record.CLOCK], node[record.CLOCK])
                wait = self._difference(Instant(node[record.DEQUEUED], clocks), put[record.ENQUEUED])
                if wait.ns >= 0:
                    phases["queue"] = phases.get("queue", 0) + wait.ns
                put = None


def _engine_phases(phases: dict[str, int], engine: Engine) -> None:
    parts = (
        ("engine_queue", engine.enqueued, engine.scheduled),
        ("prefill", engine.scheduled, engine.first_token),
        ("decode", engine.first_token, engine.last_token),
        ("postprocess", engine.last_token, engine.ended),
    )
    known = [(name, begin, end) for name, begin, end in parts if MISSING not in (begin, end) and end >= begin]
    for name, begin, end in known:
        phases[name] = phases.get(name, 0) + end - begin
    if not known and MISSING not in (engine.arrived, engine.ended):
        phases["engine"] = phases.get("engine", 0) + engine.ended - engine.arrived


def fold(group: Sequence[Row], formula: str) -> Engine:
    """The sequences of one engine request as one (n > 1, lists of prompts, split prefill and decode).

    Stamps are those of the host that ended last; others run on other clocks.
    """
    last = max(group, key=lambda row: (row[record.ENDED], row[record.SPAN]))
    rows = [row for row in group if row[record.CLOCK] == last[record.CLOCK]]
    inputs: dict[int, int] = {}
    for row in group:
        sequence = row[record.SEQUENCE_ID]
        inputs[sequence] = max(inputs.get(sequence, MISSING), row[record.INPUT])
    outcomes = [own_outcome(row) for row in group]
    bad = [outcome for outcome in outcomes if outcome not in (OK, MISSING)]
    return Engine(
        row=min(group, key=lambda row: (row[record.START], row[record.SPAN])),
        clock=last[record.CLOCK],
        arrived=_least(rows, record.ARRIVED),
        enqueued=_least(rows, record.ENQUEUED),
        scheduled=_least(rows, record.SCHEDULED),
        first_token=_least(rows, record.FIRST_TOKEN),
        last_token=max(row[record.LAST_TOKEN] for row in rows),
        ended=last[record.ENDED],
        input=_total(inputs.values()),
        output=_total(row[record.OUTPUT] for row in group),
        cached=_total(row[record.CACHED] for row in group),
        tpot_ns=max((tpot for row in rows if (tpot := _row_tpot(row, formula)) is not None), default=None),
        outcome=min(bad) if bad else OK if last[record.ENDED] != MISSING else OUTCOMES.index("unknown"),
        sequences=len(group),
    )


def _row_tpot(row: Row, formula: str) -> int | None:
    last = row[record.LAST_TOKEN] if row[record.LAST_TOKEN] != MISSING else row[record.ENDED]
    output = _found(row[record.OUTPUT])
    known = MISSING not in (row[record.ARRIVED], row[record.ENDED])
    return per_token(
        formula, row[record.FIRST_TOKEN], last, output, row[record.ENDED] - row[record.ARRIVED] if known else None
    )


def per_token(formula: str, first: int, last: int, output: int | None, completion_ns: int | None) -> int | None:
    """Time per output token by one of the formulas of definitions.md 1.2, nanoseconds; None where it is not defined."""
    if output is None or output < 1:
        return None
    if formula == "completion_over_tokens":
        return None if completion_ns is None else round_div(completion_ns, output)
    if MISSING in (first, last) or last < first or output < 2:
        return None
    return round_div(last - first, output - 1 if formula == "tokens_minus_one" else output)


def round_div(value: int, by: int) -> int:
    """Integer division, rounded half up."""
    return (2 * value + by) // (2 * by)


def opening(row: Row) -> int:
    """The earliest stamp that opens a span's boundary."""
    stamps = [row[cell] for cell in (record.ARRIVED, record.ENQUEUED, record.DEQUEUED) if row[cell] != MISSING]
    return min(stamps, default=MISSING)


def _stamped(path: Path, profile: int, cell: int) -> list[Row]:
    return [row for row in _rows(path) if row[record.PROFILE] == profile and row[cell] != MISSING]


def _slowest(engines: Iterable[Engine]) -> int | None:
    return max((engine.tpot_ns for engine in engines if engine.tpot_ns is not None), default=None)


def _least(rows: Iterable[Row], cell: int) -> int:
    return min((row[cell] for row in rows if row[cell] != MISSING), default=MISSING)


def _total(values: Iterable[int]) -> int:
    """A sum of which each part must be known."""
    total = 0
    for value in values:
        if value == MISSING:
            return MISSING
        total += value
    return total


def _sum(values: Iterable[int]) -> int | None:
    known = list(values)
    return _found(_total(known)) if known else None


def classify(klass: str | None, rules: Sequence[tuple[str, Sequence[tuple[str, Sequence[str]]]]],
             labels: Mapping[str, str]) -> str:  # fmt: skip
    """Workload class: the request's own, else the first rule whose labels all match, else `default`."""
    if klass is not None:
        return klass
    for name, when in rules:
        if all(labels.get(label) in values for label, values in when):
            return name
    return "default"
