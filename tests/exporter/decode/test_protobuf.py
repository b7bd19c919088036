import struct

import pytest
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from exporter.decode import columns
from exporter.decode.columns import BadBody, Batch, Group, Refused, Wanted
from exporter.decode.protobuf import GROUPS, MOST, Decoder
from tests.exporter.decode.oracle import WANTED, Seen, seen_of
from tests.exporter.wire import SPAN, TRACE, attribute, block, body, double, fixed64, group, number, span, varint

pytestmark = pytest.mark.both_builds

TEXT = block(1, "text")


def decode(content: bytes, wanted: Wanted = WANTED) -> Batch:
    return Decoder(wanted).decode(content)


def only(*fields: bytes) -> Seen:
    """What is read of one span with these fields."""
    batch = decode(body(span(*fields)))
    assert batch.refused == []
    (seen,) = seen_of(batch)
    return seen


def test_a_span_becomes_a_row() -> None:
    fields = (
        block(3, "ot=th:8"),
        block(4, b"\x09" * 8),
        block(5, "POST /v1"),
        number(6, 2),
        number(12, 3),
        attribute("a", TEXT),
        block(11, fixed64(1, 1_500), block(2, "token"), attribute("tokens", number(3, 1), field=3)),
        block(13, block(1, b"\x05" * 16), block(2, b"\x06" * 8)),
        block(15, number(3, 2)),
    )
    resource = attribute("host.name", block(1, "n1"), field=1)
    (seen,) = seen_of(decode(body(span(*fields), resource=resource, scope=block(1, "vllm"))))
    assert seen == Seen(
        trace=TRACE, span=SPAN, parent=b"\x09" * 8, start=1_000, end=2_000, kind=2, status=2, name="POST /v1",
        scope="vllm", resource={"host.name": "n1"}, attributes=[(b"a", columns.STRING, b"text")],
        events=[(b"token", 1_500, [(b"tokens", columns.INTEGER, 1)])], links=[(b"\x05" * 16, b"\x06" * 8)],
        state=b"ot=th:8", dropped_events=3,
    )  # fmt: skip


def test_what_a_span_does_not_say_is_empty() -> None:
    assert only()[2:] == (bytes(8), 1_000, 2_000, 0, 0, "", "", {}, [], [], [], b"", 0)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (block(1, "text"), (columns.STRING, b"text")),
        (block(1, ""), (columns.STRING, b"")),
        (number(2, 1), (columns.BOOLEAN, 1)),
        (number(2, 2**40), (columns.BOOLEAN, 1)),
        (number(3, 7), (columns.INTEGER, 7)),
        (number(3, -7), (columns.INTEGER, -7)),
        (double(4, 0.25), (columns.DOUBLE, struct.unpack("<q", struct.pack("<d", 0.25))[0])),
        (block(5, block(1, block(1, "first")), block(1, number(3, 2))), (columns.STRING, b"first")),
        (block(5, block(1, number(3, 2)), block(1, block(1, "second"))), (columns.INTEGER, 2)),
        (block(5), (columns.OTHER, None)),
        (block(5, block(1, block(5, block(1, TEXT)))), (columns.OTHER, None)),
        (block(6), (columns.OTHER, None)),
        (block(7, b"raw"), (columns.OTHER, None)),
        (number(3, 1) + block(1, "last"), (columns.STRING, b"last")),
        (block(1, "lost") + block(7), (columns.OTHER, None)),
    ],
    ids=range(15),
)
def test_a_value_keeps_its_type(value: bytes, read: tuple[int, object]) -> None:
    assert only(attribute("a", value)).attributes == [(b"a", *read)]


def test_an_attribute_without_a_value_is_absent() -> None:
    assert only(attribute("a"), block(9, block(1, "a"))).attributes == []


def test_keys_that_nobody_asked_for_are_left_out() -> None:
    fields = [attribute(key, TEXT) for key in ("b", "", "aa", "A", "gen_ai.latency.e3e", "gen_ai.latency.e2e")]
    assert [key for key, _, _ in only(*fields).attributes] == [b"gen_ai.latency.e2e"]


def test_a_thousand_wanted_keys_are_told_apart() -> None:
    names = [f"key.{number:04}" for number in range(1_000)]
    batch = decode(body(span(*(attribute(name, block(1, name)) for name in [*names, "key.1000"]))), Wanted(names, []))
    cells = batch.attributes[: 4 * 1_000].tolist()
    assert [batch.body[at : at + 8].decode() for at in cells[2::4]] == names
    assert batch.heads[columns.ATTRIBUTES_TO] == 1_000


def test_attributes_of_a_span_stay_together_whatever_stands_between_them() -> None:
    event = block(11, block(2, "token"), attribute("a", number(3, 9), field=3))
    seen = only(attribute("a", number(3, 1)), event, attribute("tokens", number(3, 2)), event)
    assert [value for _, _, value in seen.attributes] == [1, 2]
    assert [[value for _, _, value in attributes] for _, _, attributes in seen.events] == [[9], [9]]


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 1_000])
def test_there_is_room_for_any_number_of_rows(rows: int) -> None:
    fields = [attribute("a", number(3, n)) for n in range(9)]
    fields += [block(11, fixed64(1, n), block(2, "token")) for n in range(3)]
    fields += [block(13, block(1, TRACE), block(2, SPAN))] * 2
    spans = seen_of(decode(body(*(span(*fields, end=2_000 + n) for n in range(rows)))))
    assert [each.end for each in spans] == [2_000 + n for n in range(rows)]
    assert {(len(each.attributes), len(each.events), len(each.links)) for each in spans} == {(9, 3, 2)}


def test_a_resource_may_stand_behind_its_spans_and_in_parts() -> None:
    parts = [attribute(key, block(1, "x"), field=1) for key in ("one", "two")]
    scoped = block(2, block(2, span()), block(1, block(1, "scope")))
    (seen,) = seen_of(decode(block(1, block(1, parts[0]), scoped, block(1, parts[1]))))
    assert (seen.resource, seen.scope) == ({"one": "x", "two": "x"}, "scope")


def test_resource_attributes_are_text() -> None:
    resource = b"".join(
        attribute(key, value, field=1)
        for key, value in {"s": TEXT, "i": number(3, 7), "d": double(4, 0.5), "b": number(2, 1), "o": block(6)}.items()
    )
    (seen,) = seen_of(decode(body(span(), resource=resource)))
    assert seen.resource == {"s": "text", "i": "7", "d": "0.5", "b": "true"}


def test_text_that_is_not_utf_8_is_shown_with_replacement_characters() -> None:
    batch = decode(body(span(block(5, b"a\xffb")), scope=block(1, b"\xfe")))
    assert batch.groups == [Group(resource=0, scope="\ufffd", name="a\ufffdb")]


# Spans that are not usable


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"trace": TRACE[:15]}, "trace_id must have 16 bytes, found 15"),
        ({"trace": b""}, "trace_id must have 16 bytes, found 0"),
        ({"id": SPAN + b"\x01"}, "span_id must have 8 bytes, found 9"),
        ({"trace": bytes(16)}, "trace_id and span_id must not be zero"),
        ({"id": bytes(8)}, "trace_id and span_id must not be zero"),
        ({"start": 0}, "start_time_unix_nano must be given"),
        ({"start": 7, "end": 6}, "end_time_unix_nano must not be before start_time_unix_nano, found 7 to 6"),
        ({"end": 2**62}, f"times must be below 2^62 nanoseconds, found 1000 to {2**62}"),
        (
            {"start": 2**63 + 1, "end": 2**63 + 2},
            f"times must be below 2^62 nanoseconds, found {2**63 + 1} to {2**63 + 2}",
        ),
    ],
)
def test_an_impossible_span_is_refused_by_name_and_the_others_stay(fields: dict[str, bytes | int], reason: str) -> None:
    bad = span(attribute("a", number(3, 2)), **fields)  # type: ignore[arg-type]
    good = [span(attribute("a", number(3, value)), id=bytes(7) + bytes([value])) for value in (1, 3)]
    batch = decode(body(good[0], bad, good[1]))
    assert batch.refused == [Refused(place=1, reason=reason)]
    assert [value for each in seen_of(batch) for _, _, value in each.attributes] == [1, 3]


def test_a_parent_must_have_eight_bytes_or_none() -> None:
    batch = decode(body(span(block(4, b"\x01" * 7)), span(block(4, b"")), span(block(4, bytes(8)))))
    assert batch.refused == [Refused(0, "parent_span_id must have 8 bytes or none, found 7")]
    assert [each.parent for each in seen_of(batch)] == [bytes(8), bytes(8)]


@pytest.mark.parametrize(("start", "end"), [(1, 1), (1, 2**62 - 1), (2**62 - 1, 2**62 - 1)])
def test_times_at_the_edge_are_taken(start: int, end: int) -> None:
    (seen,) = seen_of(decode(body(span(start=start, end=end))))
    assert (seen.start, seen.end) == (start, end)


@pytest.mark.parametrize("link", [b"", block(1, TRACE), block(2, SPAN), block(1, SPAN) + block(2, SPAN)])
def test_a_link_with_bad_ids_is_left_out_and_its_span_stays(link: bytes) -> None:
    assert only(block(13, link), block(13, block(1, TRACE), block(2, SPAN))).links == [(TRACE, SPAN)]


# Bodies that are not OTLP


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x00", "byte 1: not a protobuf field"),
        (b"\x07", "byte 1: not a protobuf field"),
        (varint(2**32), "byte 5: not a protobuf field"),
        (b"\x0a", "byte 1: the body ends inside a number"),
        (b"\x0a\x05\x0a", "byte 2: a field of 5 bytes goes beyond the end of its message"),
        (b"\x0a" + varint(2**64 - 1), f"byte 11: a field of {2**64 - 1} bytes goes beyond the end of its message"),
        (b"\x10" + b"\x80" * 10, "byte 11: a number of more than 10 bytes"),
        (b"\x15\x00", "byte 1: the body ends inside a field"),
        (b"\x11" + bytes(7), "byte 1: the body ends inside a field"),
        (b"\x0c", "byte 1: wire type 4 has no meaning here"),
        (b"\x0e", "byte 1: wire type 6 has no meaning here"),
        (b"\x13\x1c", "byte 2: a group ends that did not begin"),
        (b"\x13\x08\x01", "byte 3: the body ends inside a number"),
        (b"\x13" * 101 + b"\x14" * 101, "byte 101: groups nested deeper than 100"),
        (body(span(b"\x39" + bytes(7))), "byte 57: the body ends inside a number"),
        (body(span(), resource=b"\x0a\x01"), "resource: Error parsing message"),
    ],
    ids=range(16),
)
def test_a_body_that_is_not_otlp_is_refused_with_the_place(content: bytes, message: str) -> None:
    with pytest.raises(BadBody) as caught:
        decode(content)
    assert str(caught.value).startswith(message)


def test_a_bad_body_leaves_nothing_behind() -> None:
    decoder = Decoder(WANTED)
    good = body(span(attribute("a", number(3, 1))))
    with pytest.raises(BadBody):
        decoder.decode(good + good + b"\x0a")
    assert len(seen_of(decoder.decode(good))) == 1
    assert decoder.decode(b"").spans == 0


def test_every_cut_of_a_body_is_refused_or_read_as_protobuf_reads_it() -> None:
    whole = body(span(attribute("a", TEXT), group(20, number(1, 1))), scope=block(1, "s"))
    for size in range(len(whole)):
        try:
            ExportTraceServiceRequest.FromString(whole[:size])
        except DecodeError:
            with pytest.raises(BadBody):
                decode(whole[:size])
        else:
            assert decode(whole[:size]).spans == 0


# What is remembered


def test_groups_keep_their_numbers_from_body_to_body() -> None:
    decoder = Decoder(WANTED)
    for _ in range(2):
        batch = decoder.decode(body(span(block(5, "x")), span(block(5, "y")), span(block(5, "x"))))
        assert batch.heads[columns.GROUP :: columns.HEAD].tolist()[:3] == [0, 1, 0]
    assert (len(batch.groups), len(batch.resources), decoder.generation) == (2, 1, 1)


def endless(kind: str) -> bytes:
    """A body that brings new things to remember, more than the decoder will."""
    many = range(GROUPS + 2)
    if kind == "names":
        return body(*(span(block(5, str(n))) for n in many))
    if kind == "scopes":
        return block(1, *(block(2, block(1, block(1, str(n) * 800))) for n in many))
    return b"".join(block(1, block(1, attribute("x", block(1, str(n) * 800), field=1))) for n in many)


@pytest.mark.parametrize("kind", ["names", "scopes", "resources"])
def test_what_is_remembered_is_bounded(kind: str) -> None:
    """Resources and scopes that hold no span count, too."""
    decoder = Decoder(WANTED)
    decoder.decode(endless(kind))
    batch = decoder.decode(body(span(block(5, "x"))))
    assert (decoder.generation, len(batch.groups), len(batch.resources)) == (2, 1, 1)


def test_what_one_body_brings_is_bounded_too() -> None:
    """What comes beyond counts as without a name; what is known already does not."""
    scopes = (block(2, block(1, block(1, str(n))), block(2, span(block(5, "x")))) for n in (*range(MOST + 2), 0))
    seen = seen_of(decode(block(1, *scopes)))
    assert [each.scope for each in seen[MOST - 1 :]] == [str(MOST - 1), "", "", "0"]


def test_long_names_are_forgotten_sooner() -> None:
    decoder, bodies = Decoder(WANTED), 0
    while decoder.generation == 1 and bodies < 100:
        decoder.decode(body(span(block(5, "n" * 2**20 + str(bodies)))))
        bodies += 1
    assert bodies == 33  # 32 of 1 MiB fill it, and the next body finds it full
