from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter import record
from exporter.tree import DEPTH, ENGINE, GATEWAY, QUEUE, Path, Row, Tree
from tests.exporter.rows import name_of, row, shape

pytestmark = pytest.mark.both_builds


def paths(*rows: Row) -> list[Path]:
    return [path for _, path in Tree(dict(enumerate(rows))).paths()]


def shapes(*rows: Row) -> list[str]:
    return [shape(path) for path in paths(*rows)]


def gate(name: str, parent: str = "", **cells: Any) -> Row:
    """A gateway's span of a call of the inference API."""
    return row("gateway", name, parent=parent, **({"call": 1} | cells))


def engine(name: str, parent: str = "", **cells: Any) -> Row:
    return row("engine", name, parent=parent, **({"start": 1, "end": 9} | cells))


def client(name: str, parent: str = "", **cells: Any) -> Row:
    return row("client", name, parent=parent, **cells)


# By parent

SHAPES: dict[str, tuple[list[Row], list[str]]] = {
    "an engine under its gateway": ([gate("g"), engine("e", "g")], ["g: e@0"]),
    "an engine alone": ([engine("e")], [": e@-1"]),
    "an engine whose parent was never seen": ([engine("e", "lost")], [": e@-1"]),
    "a gateway alone": ([gate("g")], ["g"]),
    "through spans of no role": (
        [gate("g"), row(None, "x", parent="g"), row(None, "y", parent="x"), engine("e", "y")],
        ["g: e@0"],
    ),
    "through a hop, which is a fact of the gateway": (
        [gate("g"), row("hop", "h", parent="g"), engine("e", "h")],
        ["g: e@0; h"],
    ),
    "a part tells of what is around it": ([gate("g"), row("part", "p", parent="g")], ["g; p"]),
    "gateways in a row are one path, counted at the outermost": (
        [gate("a"), gate("b", "a", start=1), engine("e", "b", start=2)],
        ["a > b: e@1"],
    ),
    "a fan of gateways is one path": (
        [
            gate("a"),
            gate("b", "a", start=1),
            gate("c", "a", start=2),
            engine("e", "b", start=2),
            engine("f", "c", start=3),
        ],
        ["a > b > c: e@1 f@2"],
    ),
    "a client around a gateway": ([client("c"), gate("g", "c"), engine("e", "g")], ["c > g: e@0"]),
    "of clients in a row the outermost counts": (
        [client("o"), client("i", "o"), gate("g", "i"), engine("e", "g")],
        ["o > g: e@0"],
    ),
    "a client that tries again goes with its last try": (
        [client("c"), gate("a", "c", end=1), gate("b", "c", start=2), engine("e", "b", start=3)],
        ["a", "c > b: e@0"],
    ),
    "a client around an engine": ([client("c"), engine("e", "c")], ["c: e@-1"]),
    "a client alone": ([client("c")], ["c"]),
    "several requests of one trace": (
        [
            row(None, "agent"),
            gate("a", "agent"),
            engine("e", "a"),
            gate("b", "agent", start=11),
            engine("f", "b", start=12),
        ],
        ["a: e@0", "b: f@0"],
    ),
    "several clients of one trace": (
        [client("c", "agent"), gate("a", "c"), client("d", "agent", start=11), gate("b", "d", start=11)],
        ["c > a", "d > b"],
    ),
    "what is around a call and no call itself is left out": (
        [gate("web", call=0), gate("g", "web", start=1), engine("e", "g", start=2)],
        ["g: e@0"],
    ),
    "what is certainly no call is no request": ([gate("g", call=0)], []),
    "what may be a call is none without an engine": ([gate("g", call=record.MISSING)], []),
    "what may be a call is one with an engine inside": ([gate("g", call=record.MISSING), engine("e", "g")], ["g: e@0"]),
    "even what is no call by its path is one with an engine inside": (
        [gate("g", call=0), engine("e", "g")],
        ["g: e@0"],
    ),
    "spans of no role are nothing": ([row(None, "x"), row(None, "y", parent="x")], []),
    "a hop alone is nothing": ([row("hop", "h")], []),
    "a part alone is nothing": ([row("part", "p")], []),
}


@pytest.mark.parametrize(("rows", "expected"), SHAPES.values(), ids=SHAPES)
def test_spans_find_each_other_by_parent(rows: list[Row], expected: list[str]) -> None:
    assert shapes(*rows) == expected


@pytest.mark.parametrize(("rows", "expected"), SHAPES.values(), ids=SHAPES)
def test_the_places_given_back_are_those_of_the_rows(rows: list[Row], expected: list[str]) -> None:
    for places, path in Tree(dict(enumerate(rows))).paths():
        inside = [
            *path.clients,
            *path.nodes,
            *path.hops,
            *path.parts,
            *(each for group in path.engines for each in group),
        ]
        found = {name_of(rows[place]) for place in places}
        assert {name_of(each) for each in inside} <= found
        assert len(places) == len(found)


# Without a parent

WITHOUT_PARENT: dict[str, tuple[list[Row], list[str]]] = {
    "a link stands for a parent": (
        [row("queue", "p", enqueued=0, arrived=0), row("queue", "w", link="p", trace=2, start=3, dequeued=3, ended=9)],
        ["p > w"],
    ),
    "a known parent goes before a link": ([gate("a"), gate("b"), engine("e", "a", link=0)], ["a: e@0", "b"]),
    "a link counts where the parent was never seen": (
        [gate("g"), row("engine", "e", parent="lost", link="g")],
        ["g: e@0"],
    ),
    "a shared request id": ([gate("g", request_id=5), engine("e", request_id=5, trace=2)], ["g: e@0"]),
    "a request id that two gateways have tells nothing": (
        [gate("a", request_id=5), gate("b", request_id=5), engine("e", request_id=5, trace=2)],
        ["a", "b", ": e@-1"],
    ),
    "of a row of gateways with one id the innermost is meant": (
        [gate("a", request_id=5), gate("b", "a", request_id=5), engine("e", request_id=5, trace=2)],
        ["a > b: e@1"],
    ),
    "an id that stands in a part": (
        [gate("g"), row("part", "p", parent="g", request_id=5), engine("e", request_id=5, trace=2)],
        ["g: e@0; p"],
    ),
    "the only gateway of the trace": ([gate("g"), engine("e", "lost")], ["g: e@0"]),
    "the only row of gateways of the trace": ([gate("a"), gate("b", "a"), engine("e", "lost")], ["a > b: e@1"]),
    "not one of two": ([gate("a"), gate("b"), engine("e", "lost")], ["a", "b", ": e@-1"]),
    "not one that has an engine": (
        [gate("g"), engine("e", "g"), engine("f", "lost", start=2)],
        ["g: e@0", ": f@-1"],
    ),
    "not one of another trace": ([gate("g"), engine("e", "lost", trace=2)], ["g", ": e@-1"]),
    "a client by id, where the trace is broken": (
        [client("c", request_id=5), gate("g", trace=2), engine("e", "g", trace=2, request_id=5)],
        ["c > g: e@0"],
    ),
}


@pytest.mark.parametrize(("rows", "expected"), WITHOUT_PARENT.values(), ids=WITHOUT_PARENT)
def test_spans_find_each_other_without_a_parent(rows: list[Row], expected: list[str]) -> None:
    assert shapes(*rows) == expected


def sibling(name: str, *, scope: int, within: int = record.MISSING, **cells: Any) -> Row:
    return gate(name, "caller", scope=scope, within=within, **cells)


SIBLINGS: dict[str, tuple[list[Row], list[str]]] = {
    "two server spans of one process and request are one": (
        [sibling("web", scope=8), sibling("llm", scope=9, within=8, start=1)],
        ["web > llm"],
    ),
    "also where both begin at once": ([sibling("web", scope=8), sibling("llm", scope=9, within=8)], ["web > llm"]),
    "not of another process": (
        [sibling("web", scope=8), sibling("llm", scope=9, within=8, resource=2)],
        ["llm", "web"],
    ),
    "not one after the other": (
        [sibling("web", scope=8, end=1), sibling("llm", scope=9, within=8, start=2)],
        ["web", "llm"],
    ),
    "each in its own": (
        [
            sibling("w1", scope=8, end=3),
            sibling("l1", scope=9, within=8, start=1, end=2),
            sibling("w2", scope=8, start=4),
            sibling("l2", scope=9, within=8, start=5),
        ],
        ["w1 > l1", "w2 > l2"],
    ),
}


@pytest.mark.parametrize(("rows", "expected"), SIBLINGS.values(), ids=SIBLINGS)
def test_siblings_of_one_process_are_one_request(rows: list[Row], expected: list[str]) -> None:
    assert shapes(*rows) == expected


# Engines of one request

ENGINES: dict[str, tuple[list[Row], list[str]]] = {
    "n > 1: at the same time": ([gate("g"), engine("e", "g"), engine("f", "g", start=2)], ["g: e+f@0"]),
    "a retry: one after the other": (
        [gate("g"), engine("e", "g", end=4), engine("f", "g", start=5)],
        ["g: e@0 f@0"],
    ),
    "other ids are other requests, even at the same time": (
        [gate("g"), engine("e", "g", request_id=1), engine("f", "g", request_id=2)],
        ["g: e@0 f@0"],
    ),
    "a list of prompts: one id": (
        [gate("g"), engine("e", "g", request_id=1), engine("f", "g", request_id=1)],
        ["g: e+f@0"],
    ),
    "without a gateway, by the same unseen parent": ([engine("e", "lost"), engine("f", "lost")], [": e+f@-1"]),
    "without a gateway and parent, by the id": (
        [engine("e", request_id=1), engine("f", request_id=1), engine("h", request_id=2)],
        [": e+f@-1", ": h@-1"],
    ),
    "without a gateway, parent and id each is its own": ([engine("e"), engine("f")], [": e@-1", ": f@-1"]),
}


@pytest.mark.parametrize(("rows", "expected"), ENGINES.values(), ids=ENGINES)
def test_engine_spans_are_sequences_or_requests_of_their_own(rows: list[Row], expected: list[str]) -> None:
    assert shapes(*rows) == expected


# Queues


def test_a_job_in_a_queue_is_open_until_it_has_ended() -> None:
    put = row("queue", "p", enqueued=0, arrived=0)
    taken = row("queue", "w", parent="p", start=3, dequeued=3, ended=9)
    assert [path.open for path in paths(put)] == [True]
    assert [path.open for path in paths(put, taken)] == [False]
    assert [path.open for path in paths(put, engine("e", "p"))] == [False]


def test_a_gateway_without_an_end_is_not_open() -> None:
    assert [path.open for path in paths(gate("g", ended=record.MISSING))] == [False]


def test_leaves_are_where_nothing_or_an_engine_is_right_inside() -> None:
    (path,) = paths(gate("a"), gate("b", "a", start=1), gate("c", "a", start=2), engine("e", "b", start=3))
    assert path.leaves == [1, 2]


# What no sender should send


@pytest.mark.parametrize("size", [1, 2, 3, DEPTH + 2])
@pytest.mark.parametrize("role", ["gateway", "client", "queue", "hop", None])
def test_spans_in_a_circle_are_requests_all_the_same(role: str | None, size: int) -> None:
    circle = [row(role, f"{n}", parent=f"{(n + 1) % size}", start=n, call=1) for n in range(size)]
    found = paths(*circle, engine("e", "0"))
    assert [name_of(path.engines[0][0]) for path in found if path.engines] == ["e"]


def test_siblings_in_a_circle_are_requests_all_the_same() -> None:
    rows = [gate("a", "p", scope=1, within=2), gate("b", "p", scope=2, within=1), gate("p", "a", start=1)]
    assert len(shapes(*rows, engine("e", "a"))) == 1


def test_a_long_chain_is_followed_so_far() -> None:
    between = [row(None, f"{n}", parent=f"{n - 1}" if n else "g") for n in range(DEPTH + 5)]
    near, far = f"{DEPTH - 2}", f"{DEPTH + 4}"
    assert shapes(gate("g"), gate("h"), *between, engine("e", near)) == ["g: e@0", "h"]
    assert shapes(gate("g"), gate("h"), *between, engine("e", far)) == ["g", "h", ": e@-1"]


@pytest.mark.parametrize("kind", ["alone", "apart", "by id", "clients by id", "retries"])
def test_a_trace_of_many_requests_is_resolved_in_passing(kind: str) -> None:
    """Each look at a trace takes time in which nothing else is done: it must grow with the spans, not their square."""
    rows = []
    for n in range(3_000):
        times: dict[str, Any] = {"start": n, "end": n + 0.5}
        if kind == "alone":
            rows.append(engine(f"e{n}", **times))
        elif kind == "apart":
            rows += [gate(f"g{n}", **times), engine(f"e{n}", "lost", **times)]
        elif kind == "by id":
            rows += [gate(f"g{n}", request_id=n, **times), engine(f"e{n}", request_id=n, trace=n + 2, **times)]
        elif kind == "clients by id":
            rows += [client(f"c{n}", request_id=n, **times), gate(f"g{n}", trace=n + 2, request_id=n, **times)]
        else:
            rows += [*([gate("g", end=3_000)] if n == 0 else []), engine(f"e{n}", "g", **times)]
    looked_at = 0

    class Counted(list[int]):
        def __getitem__(self, place):  # type: ignore[no-untyped-def]
            nonlocal looked_at
            looked_at += 1
            return super().__getitem__(place)

    found = list(Tree({at: Counted(each) for at, each in enumerate(rows)}).paths())
    assert len(found) == {"apart": 6_000, "retries": 1}.get(kind, 3_000)
    assert looked_at < 300 * len(rows)


# Order


@pytest.mark.parametrize("rows", [rows for rows, _ in (SHAPES | WITHOUT_PARENT | SIBLINGS | ENGINES).values()])
def test_the_order_in_which_spans_came_changes_nothing(rows: list[Row]) -> None:
    for order in permutations(rows):
        assert shapes(*order) == shapes(*rows)


NAMES = [f"s{n}" for n in range(10)]


@st.composite
def forests(draw: st.DrawFn) -> list[Row]:
    """Spans of a few traces with any role, parent, link and id, circles among them."""
    rows = []
    for name in NAMES[: draw(st.integers(1, 10))]:
        start = draw(st.integers(0, 5))
        rows.append(
            row(
                draw(
                    st.sampled_from(["client", "gateway", "gateway", "queue", "engine", "engine", "hop", "part", None])
                ),
                name,
                parent=draw(st.sampled_from(["", "lost", *NAMES])),
                link=draw(st.sampled_from(["", "", "", *NAMES])),
                trace=draw(st.sampled_from([1, 1, 2])),
                start=start,
                end=start + draw(st.integers(0, 5)),
                call=draw(st.sampled_from([0, 1, 1, record.MISSING])),
                request_id=draw(st.sampled_from([7, 8, record.MISSING, record.MISSING])),
                scope=draw(st.integers(1, 2)),
                within=draw(st.sampled_from([1, 2, record.MISSING, record.MISSING])),
            )
        )
    return rows


@settings(max_examples=300)
@given(forests().flatmap(lambda rows: st.tuples(st.just(rows), st.permutations(rows))))
def test_any_spans_in_any_order_give_the_same_requests(orders: tuple[list[Row], list[Row]]) -> None:
    assert shapes(*orders[0]) == shapes(*orders[1])


@settings(max_examples=300)
@given(forests())
def test_every_engine_and_every_call_is_part_of_just_one_request(rows: list[Row]) -> None:
    found = Tree(dict(enumerate(rows))).paths()
    places = [(place, path) for taken, path in found for place in taken]
    assert len({place for place, _ in places}) == len(places)
    needed = [
        name_of(each) for each in rows
        if each[record.ROLE] in (ENGINE, QUEUE) or (each[record.ROLE] == GATEWAY and each[record.CALL] == 1)
    ]  # fmt: skip
    shown = [
        name_of(each)
        for path in paths(*rows)
        for each in (*path.nodes, *(each for group in path.engines for each in group))
    ]
    assert set(needed) <= set(shown)
    assert len(shown) == len(set(shown))
