"""Whatever the bytes: columns or BadBody. And where protobuf's own parser takes a body, both read the same in it."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from exporter.decode.columns import BadBody
from exporter.decode.protobuf import Decoder
from exporter.replay import bodies
from tests.exporter import wire
from tests.exporter.decode.oracle import WANTED, seen_of, told_by_protobuf

pytestmark = pytest.mark.both_builds

DECODER = Decoder(WANTED)
"""One for all examples, as in the program: nothing may be left over from the body before."""

Bytes = st.SearchStrategy[bytes]

NUMBERS = st.one_of(
    st.integers(0, 5),
    st.sampled_from([2**31, 2**32, 2**32 + 2, 2**62, 2**63 - 1, 2**63, 2**64 - 1]),
    st.integers(0, 2**64 - 1),
)
SPARE = st.sampled_from([0, 0, 0, 0, 1, 3])
TEXTS = st.text(max_size=4)
KEYS = st.sampled_from(["a", "tokens", "b", "", "gen_ai.latency.e2e", "gen_ai.latency.e3e"])


def block(field: int, content: Bytes) -> Bytes:
    return st.builds(lambda part, spare: wire.block(field, part, spare=spare), content, SPARE)


def text(field: int, content: st.SearchStrategy[str] = TEXTS) -> Bytes:
    return block(field, content.map(str.encode))


def number(field: int, values: st.SearchStrategy[int] = NUMBERS) -> Bytes:
    return st.builds(lambda value, spare: wire.number(field, value, spare=spare), values, SPARE)


def fixed64(field: int, values: st.SearchStrategy[int] = NUMBERS) -> Bytes:
    return values.map(lambda value: wire.fixed64(field, value))


def any_field(fields: st.SearchStrategy[int]) -> Bytes:
    """A field of some number in some wire type, groups in groups among them."""
    plain = st.one_of(
        st.builds(wire.number, fields, NUMBERS),
        st.builds(wire.fixed64, fields, NUMBERS),
        st.builds(wire.fixed32, fields, NUMBERS),
        st.builds(wire.block, fields, st.binary(max_size=3)),
    )
    return st.recursive(plain, lambda inner: st.builds(wire.group, fields, inner, inner), max_leaves=4)


UNKNOWN = any_field(st.sampled_from([17, 18, 200, 2**29 - 1]))


def mistyped(known: dict[int, int]) -> Bytes:
    """A known field of another wire type, which is an unknown field."""
    pairs = [(field, other) for field, own in known.items() for other in (0, 1, 2, 3, 5) if other != own]
    shapes = {
        0: lambda field: wire.number(field, 5),
        1: lambda field: wire.fixed64(field, 5),
        2: lambda field: wire.block(field, b"\x08\x01"),
        3: lambda field: wire.group(field, wire.number(1, 5)),
        5: lambda field: wire.fixed32(field, 5),
    }
    return st.sampled_from(pairs).map(lambda pair: shapes[pair[1]](pair[0]))


def message(*fields: Bytes, types: dict[int, int], least: int = 0) -> Bytes:
    """Fields in any order and number, unknown and mistyped ones between them."""
    usual = st.one_of(*fields)
    each = st.one_of(usual, usual, usual, UNKNOWN, mistyped(types))
    return st.lists(each, min_size=least, max_size=5).map(b"".join)


@st.composite
def with_required(draw: st.DrawFn, required: list[Bytes], rest: Bytes) -> bytes:
    """The required fields and the rest, in any order."""
    parts = [*(draw(part) for part in required), draw(rest)]
    return b"".join(draw(st.permutations(parts)))


ANY_TYPES = {1: 2, 2: 0, 3: 0, 4: 1, 5: 2, 6: 2, 7: 2}


def any_value(inner: Bytes) -> Bytes:
    array = message(block(1, inner), types={1: 2})
    pairs = message(block(1, block(1, TEXTS.map(str.encode))), types={1: 2})
    return message(
        text(1), number(2), number(3), fixed64(4), block(5, array), block(6, pairs), block(7, st.binary(max_size=3)),
        types=ANY_TYPES,
    )  # fmt: skip


VALUE = any_value(any_value(any_value(st.just(b""))))
KEY_VALUE = message(text(1, KEYS), block(2, VALUE), types={1: 2, 2: 2}, least=1)
PAIR = with_required([text(1, KEYS)], block(2, VALUE))
ATTRIBUTES = st.one_of(PAIR, PAIR, KEY_VALUE)

EVENT = message(
    fixed64(1), text(2, st.sampled_from(["token", "exception", "other", ""])), block(3, ATTRIBUTES), number(4),
    types={1: 1, 2: 2, 3: 2, 4: 0},
)  # fmt: skip
IDS = st.sampled_from([wire.TRACE, wire.SPAN, bytes(16), bytes(8), b"", b"\xff" * 16, b"\xff" * 8, b"\x00" * 15])
LINK = message(block(1, IDS), block(2, IDS), text(3), types={1: 2, 2: 2, 3: 2})
STATUS = message(text(2), number(3), types={2: 2, 3: 0})
SPAN_TYPES = {1: 2, 2: 2, 3: 2, 4: 2, 5: 2, 6: 0, 7: 1, 8: 1, 9: 2, 10: 0, 11: 2, 12: 0, 13: 2, 14: 0, 15: 2, 16: 5}
TIMES = st.one_of(st.integers(0, 3), st.integers(10**18, 10**18 + 3), NUMBERS)
SPAN_FIELDS = message(
    block(1, IDS), block(2, IDS), text(3), block(4, IDS), text(5), number(6), fixed64(7, TIMES), fixed64(8, TIMES),
    block(9, ATTRIBUTES), block(9, ATTRIBUTES), block(11, EVENT), block(11, EVENT), number(12), block(13, LINK),
    block(15, STATUS),
    types=SPAN_TYPES,
)  # fmt: skip
SPAN = with_required(
    [st.just(wire.block(1, wire.TRACE)), st.just(wire.block(2, wire.SPAN)), fixed64(7, st.integers(1, 9)),
     fixed64(8, st.integers(10, 19))],
    SPAN_FIELDS,
)  # fmt: skip
RESOURCE = message(block(1, ATTRIBUTES), number(2), types={1: 2, 2: 0})
SCOPE = message(text(1), text(2), types={1: 2, 2: 2})
SCOPE_SPANS = message(block(1, SCOPE), block(2, SPAN), block(2, SPAN_FIELDS), text(3), types={1: 2, 2: 2, 3: 2})
RESOURCE_SPANS = message(block(1, RESOURCE), block(2, SCOPE_SPANS), text(3), types={1: 2, 2: 2, 3: 2})
REQUEST = message(block(1, RESOURCE_SPANS), types={1: 2})


def agrees_with_protobuf(body: bytes) -> bool:
    """Whether protobuf takes the body; if so, the decoder must read the same in it."""
    try:
        told, refused = told_by_protobuf(body)
    except DecodeError:
        with suppress(BadBody):
            DECODER.decode(body)
        return False
    batch = DECODER.decode(body)
    assert seen_of(batch) == told
    assert [each.place for each in batch.refused] == refused
    return True


def one(*fields: bytes) -> bytes:
    return wire.body(wire.span(*fields))


STRING_A, STRING_B = wire.block(1, "x"), wire.block(1, "y")


@settings(max_examples=400)
@given(REQUEST)
@example(one(wire.number(6, 2**32 + 2), wire.number(12, 2**32), wire.block(15, wire.number(3, 2**32 + 2))))
@example(one(wire.number(6, 2**64 - 1)))
@example(one(wire.number(12, 2**31)))
@example(one(wire.attribute("a", wire.block(5, wire.block(1, STRING_A)), wire.block(5, wire.block(1, STRING_B)))))
@example(one(wire.attribute("a", wire.block(5), wire.block(5, wire.block(1, STRING_B)))))
@example(one(wire.attribute("a", wire.block(5, wire.block(1, STRING_A)), STRING_B, wire.block(5))))
@example(one(wire.block(9, wire.block(1, "a"), wire.block(2, wire.block(5)), wire.block(2, wire.block(5, b"\n\0")))))
@example(one(wire.block(9, wire.block(2, STRING_A), wire.block(1, "a"), wire.block(2), wire.block(1, "tokens"))))
@example(one(wire.block(15, wire.number(3, 2)), wire.block(15, wire.block(2, "no code"))))
@example(wire.body(wire.span(start=2**63, end=2**63 + 1), wire.span(end=2**64 - 1)))
def test_on_every_body_that_protobuf_takes_the_two_agree(body: bytes) -> None:
    assert agrees_with_protobuf(body)


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_any_bytes_are_columns_or_a_bad_body(body: bytes) -> None:
    agrees_with_protobuf(body)


@pytest.fixture(scope="module")
def recorded(data: Path) -> list[bytes]:
    """A few bodies of every emitter, small enough to be tried often."""
    return list(_recorded(data / "captures"))


def _recorded(folder: Path) -> Iterator[bytes]:
    for file in sorted((*folder.glob("*/traces.pb"), *folder.glob("*/traces.pb.gz"))):
        small = [body.content for body in bodies(file) if len(body.content) < 6_000]
        yield from sorted(small, key=len)[:: max(1, len(small) // 3)]


def test_recorded_bodies_are_read_as_protobuf_reads_them(recorded: list[bytes]) -> None:
    assert len(recorded) > 40
    assert all(agrees_with_protobuf(body) for body in recorded)


@st.composite
def mutations(draw: st.DrawFn) -> tuple[str, float, bytes]:
    kind = draw(st.sampled_from(["set", "cut", "insert", "drop", "repeat"]))
    return kind, draw(st.floats(0, 1, exclude_max=True)), draw(st.binary(min_size=1, max_size=4))


def mutated(body: bytes, mutation: tuple[str, float, bytes]) -> bytes:
    kind, share, part = mutation
    at = int(share * len(body))
    if kind == "set":
        return body[:at] + part + body[at + len(part) :]
    if kind == "cut":
        return body[:at]
    if kind == "insert":
        return body[:at] + part + body[at:]
    if kind == "drop":
        return body[:at] + body[at + len(part) :]
    return body[:at] + body[at // 2 : at] + body[at:]


@settings(max_examples=400)
@given(st.integers(0, 2**16), st.lists(mutations(), min_size=1, max_size=3))
def test_a_mutated_body_is_columns_or_a_bad_body(
    recorded: list[bytes], choice: int, changes: list[tuple[str, float, bytes]]
) -> None:
    body = recorded[choice % len(recorded)]
    for change in changes:
        body = mutated(body, change)
    agrees_with_protobuf(body)
