"""What a body says, read twice: by protobuf's own parser, and out of the columns that the decoder left."""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from exporter.decode import columns
from exporter.decode.columns import Batch, Wanted

WANTED = Wanted(["a", "tokens", "gen_ai.latency.e2e", "gen_ai.usage.completion_tokens"], ["token", "exception"])
LATEST = 2**62

Value = bytes | int | None
Attribute = tuple[bytes, int, Value]


class Seen(NamedTuple):
    """One span, as far as the program is interested in it."""

    trace: bytes
    span: bytes
    parent: bytes
    start: int
    end: int
    kind: int
    status: int
    name: str
    scope: str
    resource: dict[str, str]
    attributes: list[Attribute]
    events: list[tuple[bytes, int, list[Attribute]]]
    links: list[tuple[bytes, bytes]]
    state: bytes
    dropped_events: int


# By the columns.


def seen_of(batch: Batch, wanted: Wanted = WANTED) -> list[Seen]:
    """The spans of a batch."""
    return [_row(batch, wanted, at * columns.HEAD) for at in range(batch.spans)]


def _row(batch: Batch, wanted: Wanted, row: int) -> Seen:
    head = batch.heads[row : row + columns.HEAD].tolist()
    group = batch.groups[head[columns.GROUP]]
    events = {slot: name for name, slot in wanted.events.items()}
    state = head[columns.STATE_AT]
    return Seen(
        trace=_bytes(head[columns.TRACE_HI]) + _bytes(head[columns.TRACE_LO]),
        span=_bytes(head[columns.SPAN]),
        parent=_bytes(head[columns.PARENT]),
        start=head[columns.START],
        end=head[columns.END],
        kind=head[columns.KIND],
        status=head[columns.STATUS],
        name=group.name,
        scope=group.scope,
        resource=batch.resources[group.resource].attributes,
        attributes=_attributes(batch, wanted, head[columns.ATTRIBUTES_FROM], head[columns.ATTRIBUTES_TO]),
        events=[
            (events[slot], time & (2**64 - 1), _attributes(batch, wanted, first, last))
            for slot, time, first, last in _cells(batch.events, columns.EVENT, head[11], head[12])
        ],
        links=[
            (_bytes(high) + _bytes(low), _bytes(span))
            for high, low, span in _cells(batch.links, columns.LINK, head[13], head[14])
        ],
        state=batch.body[state : state + head[columns.STATE_LENGTH]],
        dropped_events=head[columns.DROPPED_EVENTS],
    )


def _attributes(batch: Batch, wanted: Wanted, first: int, last: int) -> list[Attribute]:
    keys = {slot: key for key, slot in wanted.keys.items()}
    found: list[Attribute] = []
    for slot, kind, value, length in _cells(batch.attributes, columns.ATTRIBUTE, first, last):
        if kind == columns.STRING:
            found.append((keys[slot], kind, batch.body[value : value + length]))
        else:
            found.append((keys[slot], kind, None if kind == columns.OTHER else value))
    return found


def _cells(rows: memoryview, width: int, first: int, last: int) -> Iterable[list[int]]:
    return (rows[at * width : (at + 1) * width].tolist() for at in range(first, last))


def _bytes(cell: int) -> bytes:
    return (cell & (2**64 - 1)).to_bytes(8, "big")


# By protobuf.


def told_by_protobuf(body: bytes, wanted: Wanted = WANTED) -> tuple[list[Seen], list[int]]:
    """The usable spans of a body, and the numbers of the others. Raises DecodeError."""
    seen, refused, place = [], [], 0
    for group in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = _texts(group.resource.attributes)
        for scoped in group.scope_spans:
            for span in scoped.spans:
                if is_usable(span):
                    seen.append(_span(span, scoped.scope.name, resource, wanted))
                else:
                    refused.append(place)
                place += 1
    return seen, refused


def is_usable(span: Span) -> bool:
    """Whether ids and times are possible."""
    ids = len(span.trace_id) == 16 and len(span.span_id) == 8 and len(span.parent_span_id) in (0, 8)
    times = 0 < span.start_time_unix_nano <= span.end_time_unix_nano < LATEST
    return ids and times and any(span.trace_id) and any(span.span_id)


def _span(span: Span, scope: str, resource: dict[str, str], wanted: Wanted) -> Seen:
    return Seen(
        trace=span.trace_id,
        span=span.span_id,
        parent=span.parent_span_id or bytes(8),
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        kind=span.kind,
        status=span.status.code,
        name=span.name,
        scope=scope,
        resource=resource,
        attributes=_wanted(span.attributes, wanted),
        events=[
            (event.name.encode(), event.time_unix_nano, _wanted(event.attributes, wanted))
            for event in span.events
            if event.name.encode() in wanted.events
        ],
        links=[
            (link.trace_id, link.span_id)
            for link in span.links
            if len(link.trace_id) == 16 and len(link.span_id) == 8
        ],
        state=span.trace_state.encode(),
        dropped_events=span.dropped_events_count,
    )  # fmt: skip


def _wanted(attributes: "RepeatedCompositeFieldContainer[KeyValue]", wanted: Wanted) -> list[Attribute]:
    found: list[Attribute] = []
    for attribute in attributes:
        key, kind = attribute.key.encode(), attribute.value.WhichOneof("value")
        if key in wanted.keys and kind is not None:
            found.append((key, *_value(attribute.value, within_list=False)))
    return found


def _value(value: AnyValue, *, within_list: bool) -> tuple[int, Value]:
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return columns.STRING, value.string_value.encode()
    if kind == "bool_value":
        return columns.BOOLEAN, int(value.bool_value)
    if kind == "int_value":
        return columns.INTEGER, value.int_value
    if kind == "double_value":
        return columns.DOUBLE, struct.unpack("<q", struct.pack("<d", value.double_value))[0]
    if kind == "array_value" and value.array_value.values and not within_list:
        return _value(value.array_value.values[0], within_list=True)
    return columns.OTHER, None


def _texts(attributes: "RepeatedCompositeFieldContainer[KeyValue]") -> dict[str, str]:
    found = {}
    for attribute in attributes:
        kind = attribute.value.WhichOneof("value")
        if kind == "bool_value":
            found[attribute.key] = "true" if attribute.value.bool_value else "false"
        elif kind in ("string_value", "int_value", "double_value"):
            found[attribute.key] = str(getattr(attribute.value, kind))
    return found
