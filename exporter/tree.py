"""Which spans of one gathering are one request.

A *node* is a span with a role of its own: client, gateway, queue, engine. Its *gate* is the nearest gateway or queue
around it. A chain of gates is one path, however many there are; its outermost one is where the request is counted.
Hops and parts add facts to the node around them.

Everything is decided from the rows in the order of their start, so the result does not depend on how they came.
It is decided anew each time that a trace is looked at, so no step may take longer than its spans are many.
"""

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from exporter import record
from exporter.record import MISSING
from slo_rules.vocabulary import ROLES

CLIENT: Final = ROLES.index("client")
GATEWAY: Final = ROLES.index("gateway")
QUEUE: Final = ROLES.index("queue")
ENGINE: Final = ROLES.index("engine")
HOP: Final = ROLES.index("hop")
PART: Final = ROLES.index("part")
DEPTH: Final = 64
"""Parents that are followed from one span."""

Row = list[int]
"""One row outside of the table; `exporter.record` says what stands where."""


class Path(NamedTuple):
    """The spans of one request, outermost and earliest first."""

    clients: list[Row]
    """The instrumented client's span, none or one."""
    nodes: list[Row]
    """Gateways and queues."""
    outer: list[int]
    """Of each of them, the place of the one around it, or -1."""
    engines: list[list[Row]]
    """Requests to an engine, each with its sequences."""
    hops: list[Row]
    parts: list[Row]
    gates: list[int]
    """Of each engine request, the place in `nodes` of the gateway or queue around it, or -1."""
    leaves: list[int]
    """Places in `nodes` of those that have an engine, or nothing, right inside."""
    open: bool = False
    """Still in a queue: it has arrived and not ended."""
    announced: int = 0
    """Jobs of it that were given out before, as open."""
    evicted: bool = False


class Tree:
    """Resolves one gathering: rows by their place in the table."""

    def __init__(self, rows: dict[int, Row]) -> None:
        self.rows = rows
        self.order = sorted(rows, key=self._when)
        self.places: dict[int, int] = {}
        for at in self.order:
            self.places.setdefault(rows[at][record.SPAN], at)
        self.parent = {at: self._parent(at) for at in self.order}
        self._open_circles()
        self.above = {at: self._nearest(at) for at in self.order if rows[at][record.ROLE] != MISSING}
        self._nest_siblings()
        self.gates = [at for at in self.order if self._role(at) in (GATEWAY, QUEUE)]
        self.clients = [at for at in self.order if self._role(at) == CLIENT]
        self.gate: dict[int, int | None] = {at: self._gate_above(at) for at in self.above}
        self.ids = self._ids()
        self.gates_of_id = inverted(self.ids)
        self.gates_of_trace = self._by_trace(self.gates)
        self._join_engines()
        self.counted = self._counted()
        self.root = self._roots()
        self.client = self._clients()
        self.lone = self._sequences(at for at in self.above if self._role(at) == ENGINE and self._owned_alone(at))

    # Who is around whom.

    def _role(self, at: int) -> int:
        return self.rows[at][record.ROLE]

    def _when(self, at: int) -> tuple[int, ...]:
        row = self.rows[at]
        return row[record.START], row[record.END], row[record.SPAN], row[record.TRACE_HI], row[record.TRACE_LO]

    def _trace(self, at: int) -> tuple[int, int]:
        return self.rows[at][record.TRACE_HI], self.rows[at][record.TRACE_LO]

    def _by_trace(self, places: Iterable[int]) -> dict[tuple[int, int], list[int]]:
        traces: dict[tuple[int, int], list[int]] = {}
        for at in places:
            traces.setdefault(self._trace(at), []).append(at)
        return traces

    def _parent(self, at: int) -> int | None:
        row = self.rows[at]
        found = self.places.get(row[record.PARENT]) if row[record.PARENT] else None
        if found is None and row[record.LINK] != MISSING:
            found = self.places.get(row[record.LINK])
        return found if found != at else None

    def _open_circles(self) -> None:
        """Spans that say to be inside each other, as no sender should: the first of them has no parent."""
        seen: set[int] = set()
        for start in self.order:
            walk: dict[int, None] = {}
            at: int | None = start
            while at is not None and at not in seen and at not in walk:
                walk[at] = None
                at = self.parent[at]
            if at in walk:
                steps = list(walk)
                self.parent[min(steps[steps.index(at) :], key=self._when)] = None
            seen.update(walk)

    def _nearest(self, at: int) -> int | None:
        """The nearest client, gateway or queue above, through any known span."""
        found = self.parent[at]
        for _ in range(DEPTH):
            if found is None or self._role(found) in (CLIENT, GATEWAY, QUEUE):
                return found
            found = self.parent[found]
        return None

    def above_any(self, places: Iterable[int]) -> set[int]:
        """Every span above these, of whatever role."""
        found: set[int] = set()
        for at in places:
            above = self.parent[at]
            while above is not None and above not in found:
                found.add(above)
                above = self.parent[above]
        return found

    def _nest_siblings(self) -> None:
        """A gateway span that its process starts beside the server span that encloses it goes below that."""
        beside: dict[tuple[int, ...], list[int]] = {}
        for at in self.above if any(self.rows[at][record.WITHIN] != MISSING for at in self.above) else ():
            row = self.rows[at]
            if row[record.PARENT] and row[record.ROLE] == GATEWAY:
                key = row[record.SCOPE], row[record.RESOURCE], row[record.PARENT]
                beside.setdefault(key, []).append(at)
        for at in self.above if beside else ():
            row = self.rows[at]
            if row[record.WITHIN] != MISSING and not self._same_process_above(at):
                key = row[record.WITHIN], row[record.RESOURCE], row[record.PARENT]
                around = self._enclosing(at, beside.get(key, []))
                if around is not None:
                    self.above[at] = around

    def _enclosing(self, at: int, siblings: list[int]) -> int | None:
        """Of siblings in their order, the last that runs when this span starts."""
        start = self.rows[at][record.START]
        first = bisect_right(siblings, start, key=lambda other: self.rows[other][record.START])
        for other in siblings[max(0, first - DEPTH) : first][::-1]:
            if start <= self.rows[other][record.END] and not self._is_above(at, other):
                return other
        return None

    def _is_above(self, at: int, other: int) -> bool:
        """Whether a span is the other one or around it."""
        found: int | None = other
        for _ in range(DEPTH):
            if found is None or found == at:
                break
            found = self.above[found]
        return found is not None

    def _same_process_above(self, at: int) -> bool:
        above = self.above[at]
        return above is not None and self.rows[above][record.SCOPE] == self.rows[at][record.WITHIN]

    def _gate_above(self, at: int) -> int | None:
        found = self.above[at]
        for _ in range(DEPTH):
            if found is None or self._role(found) != CLIENT:
                return found
            found = self.above[found]
        return None

    def _chain(self, gate: int | None) -> list[int]:
        """A gate and those around it, innermost first."""
        chain: list[int] = []
        while gate is not None and gate not in chain and len(chain) < DEPTH:
            chain.append(gate)
            gate = self.gate[gate]
        return chain

    # Who belongs to whom without being around.

    def _ids(self) -> dict[int, set[int]]:
        """The request ids that each gate goes by: its own and those of its parts."""
        ids: dict[int, set[int]] = {gate: set() for gate in self.gates}
        for at in self.above:
            identity = self.rows[at][record.REQUEST_ID]
            owner = at if at in ids else self.above[at] if self._role(at) == PART else None
            if identity != MISSING and owner in ids:
                ids[owner].add(identity)
        return ids

    def _join_engines(self) -> None:
        engines = [at for at in self.above if self._role(at) == ENGINE]
        by_id = {identity: self._innermost_gate(gates) for identity, gates in self.gates_of_id.items()}
        for at in engines:
            if self.gate[at] is None:
                self.gate[at] = by_id.get(self.rows[at][record.REQUEST_ID])
        taken = {self.gate[at] for at in engines}
        sole = {trace: self._sole_gate(gates, taken) for trace, gates in self.gates_of_trace.items()}
        for at in engines:
            if self.gate[at] is None and self.above[at] is None:
                self.gate[at] = sole.get(self._trace(at))
        waits = self._waits()
        for at in engines if waits else ():
            self.gate[at] = self._wait_before(at, waits)
        self._join_to_clients(engines)

    def _join_to_clients(self, engines: list[int]) -> None:
        """Engines without a gate may stand in a client's span without being told so."""
        ids = inverted({at: {self.rows[at][record.REQUEST_ID]} for at in self.clients})
        by_id = {identity: self._innermost(clients) for identity, clients in ids.items()}
        taken = {self.above[at] for at in engines}
        sole = {trace: self._innermost(clients) for trace, clients in self._by_trace(self.clients).items()}
        for at in engines:
            if self.gate[at] is not None or self.above[at] is not None:
                continue
            identity, trace = self.rows[at][record.REQUEST_ID], self._trace(at)
            client = by_id.get(identity) if identity != MISSING and identity not in self.gates_of_id else None
            if client is None and trace not in self.gates_of_trace and sole.get(trace) not in taken:
                client = sole.get(trace)
            self.above[at] = client

    def _waits(self) -> dict[tuple[int | None, tuple[int, int]], list[int]]:
        """The spans that tell of a wait in a queue from its begin to its end, by what they stand in, by their end."""
        waits: dict[tuple[int | None, tuple[int, int]], list[int]] = {}
        for gate in self.gates:
            row = self.rows[gate]
            if row[record.ROLE] == QUEUE and MISSING != row[record.ENQUEUED] <= row[record.DEQUEUED]:
                waits.setdefault((self.gate[gate], self._trace(gate)), []).append(gate)
        for beside in waits.values():
            beside.sort(key=lambda wait: self.rows[wait][record.DEQUEUED])
        return waits

    def _wait_before(self, at: int, waits: dict[tuple[int | None, tuple[int, int]], list[int]]) -> int | None:
        """The last wait that was over when the engine began and stands beside it, else the engine's gate."""
        beside = waits.get((self.gate[at], self._trace(at)), [])
        over = bisect_right(beside, self.rows[at][record.START], key=lambda wait: self.rows[wait][record.DEQUEUED])
        return beside[over - 1] if over else self.gate[at]

    def _innermost_gate(self, gates: list[int]) -> int | None:
        """The innermost of some gates, if there is just one."""
        around = {outer for gate in gates for outer in self._chain(self.gate[gate])}
        inner = [gate for gate in gates if gate not in around]
        return inner[0] if len(inner) == 1 else None

    def _sole_gate(self, gates: list[int], taken: set[int | None]) -> int | None:
        """The innermost gate of a trace, if that has one chain of gates and no engine is known to belong to it."""
        around = {self.gate[gate] for gate in gates}
        inner = [gate for gate in gates if gate not in around]
        if len(inner) != 1 or taken.intersection(gates) or len(self._chain(inner[0])) < len(gates):
            return None
        return inner[0]

    def _innermost(self, clients: list[int]) -> int | None:
        around = {self.above[client] for client in clients}
        inner = [client for client in clients if client not in around]
        return inner[0] if len(inner) == 1 else None

    # Which gates are requests.

    def _counted(self) -> set[int]:
        """Calls of the inference API, queues, and, where none of these is in the chain, the gates above an engine."""
        counted = {gate for gate in self.gates if self._role(gate) == QUEUE or self.rows[gate][record.CALL] == 1}
        for at in self.above:
            if self._role(at) == ENGINE:
                chain = self._chain(self.gate[at])
                if not counted.intersection(chain):
                    counted.update(chain)
        return counted

    def _outer(self, gate: int) -> int | None:
        """The nearest counted gate around a gate."""
        return self._nearest_counted(self.gate[gate])

    def _counted_gate(self, at: int) -> int | None:
        """The nearest counted gate around any node."""
        return self._nearest_counted(self.gate[at])

    def _nearest_counted(self, gate: int | None) -> int | None:
        for _ in range(DEPTH):
            if gate is None or gate in self.counted:
                return gate
            gate = self.gate[gate]
        return None

    def _roots(self) -> dict[int, int]:
        """The outermost counted gate around each counted gate."""
        root: dict[int, int] = {}
        for gate in self.gates:
            way = []
            while gate in self.counted and gate not in root:
                way.append(gate)
                outer = self._outer(gate)
                if outer is None:
                    root[gate] = gate
                else:
                    gate = outer
            for inner in way:
                root[inner] = root[gate]
        return root

    # Clients.

    def _outermost_client(self, at: int) -> int | None:
        """The outermost client span around a span, below any gate."""
        found, client = self.above[at], None
        for _ in range(DEPTH):
            if found is None or self._role(found) != CLIENT:
                break
            client, found = found, self.above[found]
        return client

    def _clients(self) -> dict[int, int]:
        """The client of each root that has one: the outermost around it, else one that knows its request id."""
        tried: dict[int, int] = {}
        for root in sorted(set(self.root.values()), key=self._when):
            around = self._outermost_client(root)
            if around is not None:
                tried[around] = root  # a client that tried again goes with the last try
        client = {root: around for around, root in tried.items()}
        roots_of_id = inverted(self._path_ids())
        taken = set(client.values())
        for at in self.clients:
            roots = roots_of_id.get(self.rows[at][record.REQUEST_ID], [])
            if len(roots) == 1 and roots[0] not in client and at not in taken and self._outermost_client(at) is None:
                client[roots[0]] = at
        return client

    def _path_ids(self) -> dict[int, set[int]]:
        """The request ids of each root: those of its gates and of the engines inside."""
        ids: dict[int, set[int]] = {}
        for gate in self.counted:
            ids.setdefault(self.root[gate], set()).update(self.ids[gate])
        for at in self.above:
            home = self._counted_gate(at) if self._role(at) == ENGINE else None
            if home is not None and self.rows[at][record.REQUEST_ID] != MISSING:
                ids[self.root[home]].add(self.rows[at][record.REQUEST_ID])
        return ids

    # The result.

    def paths(self) -> Iterator[tuple[list[int], Path]]:
        """Each request with the places of its rows, in the order of their start."""
        members: dict[int, list[int]] = {}
        owner_of_client = {client: root for root, client in self.client.items()}
        for at in self.above:
            owner = self._owner(at, owner_of_client)
            if owner is not None:
                members.setdefault(owner, []).append(at)
        for places in members.values():
            path = self._path(places)
            if path.clients or path.nodes or path.engines:
                yield places, path

    def _owner(self, at: int, owner_of_client: dict[int, int]) -> int | None:
        """The span that stands for the request which this span belongs to."""
        role = self._role(at)
        if role in (GATEWAY, QUEUE) and at in self.counted:
            return self.root[at]
        gate = self._counted_gate(at) if role != CLIENT else None
        if gate is not None:
            return self.root[gate]
        if role in (GATEWAY, QUEUE):
            return None
        client = self._outermost_client(at)
        if role == CLIENT:
            inner = at if client is None else client
            return owner_of_client.get(inner, inner)
        if client is not None:
            return owner_of_client.get(client, client)
        return self.lone[at] if role == ENGINE else None

    def _owned_alone(self, at: int) -> bool:
        return self._counted_gate(at) is None and self._outermost_client(at) is None

    def _sequences(self, engines: Iterable[int]) -> dict[int, int]:
        """Of each engine span, in their order, the first with which it is one request (n > 1, lists of prompts).

        That is: in the same gate or under the same parent, without a different id, and at the same time. Without a gate
        or parent, the id and the very start must be the same: clients may send one id with all their requests.
        """
        first: dict[int, int] = {}
        running: defaultdict[tuple[tuple[int | None, int], int | None], deque[int]] = defaultdict(deque)
        for at in engines:
            row, anchor = self.rows[at], self._anchor(at)
            identity = row[record.REQUEST_ID]
            fitting: list[int | None]
            if anchor[0] is None and not row[record.PARENT]:
                fitting = [identity] if identity != MISSING else []
            else:
                fitting = [identity, MISSING] if identity != MISSING else [None]
            heads = [head for kind in fitting for head in self._still(running[anchor, kind], row[record.START])]
            first[at] = first[min(heads, key=self._when)] if heads else at
            running[anchor, identity].append(at)
            running[anchor, None].append(at)
        return first

    def _still(self, running: deque[int], start: int) -> list[int]:
        """The first of some engine spans that has not ended by then; what stands before it is dropped."""
        while running and self.rows[running[0]][record.END] < start:
            running.popleft()
        return [running[0]] if running else []

    def _anchor(self, at: int) -> tuple[int | None, int]:
        """What sequences of one request share: the gate or client, the parent, and without these the very start."""
        gate = self.gate[at] if self.gate[at] is not None else self.above[at]
        row = self.rows[at]
        return (gate, 0) if gate is not None else (None, row[record.PARENT] or row[record.START])

    def _path(self, places: list[int]) -> Path:
        clients = [at for at in places if self._role(at) == CLIENT and self._outermost_client(at) is None]
        nodes = [at for at in places if self._role(at) in (GATEWAY, QUEUE)]
        nodes.sort(key=lambda at: (len(self._chain(at)), self.rows[at][record.START]))
        engines: dict[int, list[int]] = {}
        for at, first in self._sequences(at for at in places if self._role(at) == ENGINE).items():
            engines.setdefault(first, []).append(at)
        gates = [self._counted_gate(first) for first in engines]
        place_of = {at: place for place, at in enumerate(nodes)}
        inside = {self._outer(at) for at in nodes}
        ended = any(self.rows[at][record.ENDED] != MISSING for at in places if self._role(at) != HOP)
        return Path(
            clients=[self.rows[at] for at in clients[:1]],
            nodes=[self.rows[at] for at in nodes],
            outer=[-1 if outer is None else place_of[outer] for outer in map(self._outer, nodes)],
            engines=[[self.rows[at] for at in group] for group in engines.values()],
            hops=[self.rows[at] for at in places if self._role(at) == HOP],
            parts=[self.rows[at] for at in places if self._role(at) == PART],
            gates=[-1 if gate is None else place_of[gate] for gate in gates],
            leaves=[place for place, at in enumerate(nodes) if at not in inside or at in gates],
            open=bool(nodes) and self._role(nodes[0]) == QUEUE and not ended,
        )


def inverted(ids: dict[int, set[int]]) -> dict[int, list[int]]:
    """The places that go by each id, in their order."""
    places: dict[int, list[int]] = {}
    for at, known in ids.items():
        for identity in known:
            if identity != MISSING:
                places.setdefault(identity, []).append(at)
    return places
