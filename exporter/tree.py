"""Which spans of one gathering are one request.

A *node* is a span with a role of its own: client, gateway, queue, engine. Its *gate* is the nearest gateway or queue
around it. A chain of gates is one path, however many there are; its outermost one is where the request is counted.
Hops and parts add facts to the node around them.

Everything is decided from the rows in the order of their start, so the result does not depend on how they came.
"""

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
    announced: bool = False
    """It was given out before, as open."""
    evicted: bool = False


class Tree:
    """Resolves one gathering: rows by their place in the table."""

    def __init__(self, rows: dict[int, Row]) -> None:
        self.rows = rows
        self.order = sorted(rows, key=lambda at: (rows[at][record.START], rows[at][record.END], rows[at][record.SPAN]))
        self.places: dict[int, int] = {}
        for at in self.order:
            self.places.setdefault(rows[at][record.SPAN], at)
        self.above = {at: self._nearest(at) for at in self.order if rows[at][record.ROLE] != MISSING}
        self._nest_siblings()
        self.gates = [at for at in self.order if self._role(at) in (GATEWAY, QUEUE)]
        self.clients = [at for at in self.order if self._role(at) == CLIENT]
        self.gate: dict[int, int | None] = {at: self._gate_above(at) for at in self.above}
        self.ids = self._ids()
        self._join_engines()
        self.counted = self._counted()
        self.root = {at: self._root(at) for at in self.counted}
        self.client = self._clients()

    # Who is around whom.

    def _role(self, at: int) -> int:
        return self.rows[at][record.ROLE]

    def _parent(self, at: int) -> int | None:
        row = self.rows[at]
        found = self.places.get(row[record.PARENT]) if row[record.PARENT] else None
        if found is None and row[record.LINK] != MISSING:
            found = self.places.get(row[record.LINK])
        return found if found != at else None

    def _nearest(self, at: int) -> int | None:
        """The nearest client, gateway or queue above, through any known span."""
        found = self._parent(at)
        for _ in range(DEPTH):
            if found is None or self._role(found) in (CLIENT, GATEWAY, QUEUE):
                return found
            found = self._parent(found)
        return None

    def above_any(self, places: Iterable[int]) -> set[int]:
        """Every span above these, of whatever role."""
        found: set[int] = set()
        for at in places:
            above = self._parent(at)
            while above is not None and above not in found:
                found.add(above)
                above = self._parent(above)
        return found

    def _nest_siblings(self) -> None:
        """A gateway span that its process starts beside the server span that encloses it goes below that."""
        for at in self.above:
            row = self.rows[at]
            if row[record.WITHIN] == MISSING or self._same_process_above(at):
                continue
            around = [
                other for other in self.above
                if self.rows[other][record.SCOPE] == row[record.WITHIN]
                and self.rows[other][record.RESOURCE] == row[record.RESOURCE]
                and self.rows[other][record.PARENT] == row[record.PARENT] != 0
                and self.rows[other][record.START] <= row[record.START] <= self.rows[other][record.END]
            ]  # fmt: skip
            if around:
                self.above[at] = around[-1]

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
        for at in self.above:
            if self._role(at) == ENGINE and self.gate[at] is None:
                self.gate[at] = self._gate_by_id(self.rows[at][record.REQUEST_ID])
        taken = {self.gate[at] for at in self.above if self._role(at) == ENGINE}
        for at in self.above:
            if self._role(at) == ENGINE and self.gate[at] is None and self.above[at] is None:
                self.gate[at] = self._sole_gate(at, taken)
        waits = [gate for gate in self.gates if self._is_wait(gate)]
        for at in self.above if waits else ():
            if self._role(at) == ENGINE:
                self.gate[at] = self._wait_before(at, waits)
        taken = {self.above[at] for at in self.above if self._role(at) == ENGINE}
        for at in self.above:
            if self._role(at) == ENGINE and self.gate[at] is None and self.above[at] is None:
                client = self._client_by_id(self.rows[at][record.REQUEST_ID])
                self.above[at] = client if client is not None else self._sole_client(at, taken)

    def _is_wait(self, gate: int) -> bool:
        """Whether a span tells of a wait in a queue from its begin to its end."""
        row = self.rows[gate]
        return row[record.ROLE] == QUEUE and MISSING != row[record.ENQUEUED] <= row[record.DEQUEUED]

    def _wait_before(self, at: int, waits: list[int]) -> int | None:
        """The last wait that was over when the engine began and stands beside it, else the engine's gate."""
        gate, start = self.gate[at], self.rows[at][record.START]
        beside = [
            wait for wait in waits
            if wait != gate and self.gate[wait] == gate
            and self.rows[wait][record.DEQUEUED] <= start and self._same_trace(wait, at)
        ]  # fmt: skip
        return max(beside, key=lambda wait: self.rows[wait][record.DEQUEUED], default=gate)

    def _gate_by_id(self, identity: int) -> int | None:
        """The innermost gate of that id, if there is just one."""
        if identity == MISSING:
            return None
        found = [gate for gate in self.gates if identity in self.ids[gate]]
        inner = [gate for gate in found if not any(gate in self._chain(self.gate[other]) for other in found)]
        return inner[0] if len(inner) == 1 else None

    def _sole_gate(self, at: int, taken: set[int | None]) -> int | None:
        """The innermost gate of the trace, if that has one chain of gates and no engine is known to belong to it."""
        gates = [gate for gate in self.gates if self._same_trace(gate, at)]
        inner = [gate for gate in gates if not any(self.gate[other] == gate for other in gates)]
        if len(inner) != 1 or taken.intersection(gates) or len(self._chain(inner[0])) < len(gates):
            return None
        return inner[0]

    def _client_by_id(self, identity: int) -> int | None:
        """The innermost client of that id, if there is just one and it calls no gate."""
        if identity == MISSING or any(identity in ids for ids in self.ids.values()):
            return None
        return self._innermost([at for at in self.clients if self.rows[at][record.REQUEST_ID] == identity])

    def _sole_client(self, at: int, taken: set[int | None]) -> int | None:
        """The innermost client of a trace without gates, if no engine is known to belong to it."""
        if any(self._same_trace(gate, at) for gate in self.gates):
            return None
        client = self._innermost([client for client in self.clients if self._same_trace(client, at)])
        return None if client in taken else client

    def _innermost(self, clients: list[int]) -> int | None:
        inner = [at for at in clients if not any(self.above[other] == at for other in clients)]
        return inner[0] if len(inner) == 1 else None

    def _same_trace(self, one: int, other: int) -> bool:
        first, second = self.rows[one], self.rows[other]
        return (first[record.TRACE_HI], first[record.TRACE_LO]) == (second[record.TRACE_HI], second[record.TRACE_LO])

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
        return next((other for other in self._chain(self.gate[gate]) if other in self.counted), None)

    def _root(self, gate: int) -> int:
        outer = self._outer(gate)
        while outer is not None:
            gate, outer = outer, self._outer(outer)
        return gate

    def _counted_gate(self, at: int) -> int | None:
        return next((gate for gate in self._chain(self.gate[at]) if gate in self.counted), None)

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
        """The client of each root, and of each span that has a client but no gate."""
        client: dict[int, int] = {}
        for root in set(self.root.values()):
            around = self._outermost_client(root)
            if around is not None:
                client[root] = around
        for at in self.clients:
            identity = self.rows[at][record.REQUEST_ID]
            if at not in client.values() and self._outermost_client(at) is None and identity != MISSING:
                roots = {self.root[gate] for gate in self.counted if identity in self._path_ids(self.root[gate])}
                if len(roots) == 1 and not roots & client.keys():
                    client[roots.pop()] = at
        return client

    def _path_ids(self, root: int) -> set[int]:
        ids: set[int] = set()
        for gate in self.counted:
            if self.root[gate] == root:
                ids |= self.ids[gate]
        for at in self.above:
            home = self._counted_gate(at) if self._role(at) == ENGINE else None
            if home is not None and self.root[home] == root:
                ids.add(self.rows[at][record.REQUEST_ID])
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
        return self._lone(at) if role == ENGINE else None

    def _lone(self, at: int) -> int:
        """The first of the sequences that a lone engine span belongs with."""
        for other in self.above:
            if self._role(other) == ENGINE and self._owned_alone(other) and self._same_request(other, at):
                return other
        return at

    def _owned_alone(self, at: int) -> bool:
        return self._counted_gate(at) is None and self._outermost_client(at) is None

    def _same_request(self, one: int, other: int) -> bool:
        """Whether two engine spans are sequences of one request: the same parent, no other id, at the same time."""
        first, second = self.rows[one], self.rows[other]
        if one == other:
            return True
        if first[record.START] > second[record.END] or second[record.START] > first[record.END]:
            return False
        known = first[record.REQUEST_ID] != MISSING and second[record.REQUEST_ID] != MISSING
        if known and first[record.REQUEST_ID] != second[record.REQUEST_ID]:
            return False
        if self._anchor(one) == self._anchor(other):
            return known or self._anchor(one) != (None, 0)
        return False

    def _anchor(self, at: int) -> tuple[int | None, int]:
        gate = self.gate[at] if self.gate[at] is not None else self.above[at]
        return (gate, 0) if gate is not None else (None, self.rows[at][record.PARENT])

    def _path(self, places: list[int]) -> Path:
        clients = [at for at in places if self._role(at) == CLIENT and self._outermost_client(at) is None]
        nodes = [at for at in places if self._role(at) in (GATEWAY, QUEUE)]
        nodes.sort(key=lambda at: (len(self._chain(at)), self.rows[at][record.START]))
        engines: list[list[int]] = []
        for at in places:
            if self._role(at) == ENGINE:
                home = next((group for group in engines if any(self._same_request(one, at) for one in group)), None)
                if home is None:
                    engines.append([at])
                else:
                    home.append(at)
        gates = [self._counted_gate(group[0]) for group in engines]
        inside = {self._outer(at) for at in nodes}
        ended = any(self.rows[at][record.ENDED] != MISSING for at in places if self._role(at) != HOP)
        return Path(
            clients=[self.rows[at] for at in clients[:1]],
            nodes=[self.rows[at] for at in nodes],
            engines=[[self.rows[at] for at in group] for group in engines],
            hops=[self.rows[at] for at in places if self._role(at) == HOP],
            parts=[self.rows[at] for at in places if self._role(at) == PART],
            gates=[-1 if gate is None else nodes.index(gate) for gate in gates],
            leaves=[place for place, at in enumerate(nodes) if at not in inside or at in gates],
            open=bool(nodes) and self._role(nodes[0]) == QUEUE and not ended,
        )
