"""OTLP JSON to OTLP protobuf, so that one decoder decides what a span means.

The mapping is OTLP's own (opentelemetry-proto, "JSON Protobuf Encoding"), not protobuf's generic one: lowerCamelCase
keys, trace and span ids in hex of either case, enums as integers, 64-bit integers as strings or numbers. Unknown keys
are ignored, null counts as absent. Only what the decoder reads is written.

A body that is not of that shape raises `BadBody` with the JSON path. A span or log record with an id or a number that
cannot be read is handed on as one that the decoder refuses; what was wrong with it is in the second part of the result.
"""

import json
import math
import struct
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from exporter.decode.columns import BadBody, Refused

DEPTH = 32
"""Values nested deeper than this are not read."""


HEX = frozenset("0123456789abcdefABCDEF")
BROKEN_RECORD = b"\x4a\x01\x00"
"""A log record whose trace id has one byte: the decoder refuses it, as it does a span without an id."""


class Unreadable(ValueError):
    """A member of one span that cannot be read; the span goes, the body stays."""


def to_protobuf(body: bytes, logs: bool = False) -> tuple[bytes, list[Refused]]:
    """An ExportTraceServiceRequest (with `logs` one of logs) in protobuf; what could not be carried over, and why."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadBody(f"not JSON: {error}") from error
    writer = Writer(LOGS) if logs else Writer(SPANS)
    return writer.request(document), writer.refused


class Shape(NamedTuple):
    """What tells the requests of two signals apart."""

    signal: str
    items: str
    message: Callable[[dict[str, Any], str], bytes]
    broken: bytes


class Writer:
    """Writes one request of spans or log records; counts these so that refused ones can be named."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.refused: list[Refused] = []
        self.seen = 0

    def request(self, document: Any) -> bytes:
        parts = []
        for place, group in members(document, "$", f"resource{self.shape.signal}"):
            resource = mapping(group.get("resource"), f"{place}.resource")
            inner = [submessage(1, key_values(resource.get("attributes"), f"{place}.resource.attributes"))]
            for scope_place, scoped in members(group, place, f"scope{self.shape.signal}"):
                inner.append(submessage(2, self.scoped(scoped, scope_place)))
            parts.append(submessage(1, b"".join(inner)))
        return b"".join(parts)

    def scoped(self, scoped: dict[str, Any], place: str) -> bytes:
        name = mapping(scoped.get("scope"), f"{place}.scope").get("name")
        parts = [submessage(1, string(1, text(name, f"{place}.scope.name")))]
        for item_place, item in members(scoped, place, self.shape.items):
            parts.append(submessage(2, self.item(item, item_place)))
        return b"".join(parts)

    def item(self, item: dict[str, Any], place: str) -> bytes:
        self.seen += 1
        try:
            return self.shape.message(item, place)
        except Unreadable as error:
            self.refused.append(Refused(self.seen - 1, str(error)))
            return self.shape.broken


def span_message(span: dict[str, Any], place: str) -> bytes:
    parts = [
        data(1, identifier(span, "traceId", 16)),
        data(2, identifier(span, "spanId", 8)),
        data(4, identifier(span, "parentSpanId", 8, optional=True)),
        string(3, text(span.get("traceState"), f"{place}.traceState")),
        string(5, text(span.get("name"), f"{place}.name")),
        number(6, integer(span, "kind", 2**31)),
        b"\x39" + integer(span, "startTimeUnixNano", 2**63).to_bytes(8, "little"),
        b"\x41" + integer(span, "endTimeUnixNano", 2**63).to_bytes(8, "little"),
        key_values(span.get("attributes"), f"{place}.attributes", 9),
        number(12, integer(span, "droppedEventsCount", 2**32)),
        submessage(15, number(3, integer(mapping(span.get("status"), f"{place}.status"), "code", 2**31))),
    ]
    for event_place, event in members(span, place, "events"):
        parts.append(submessage(11, event_message(event, event_place)))
    for _, link in members(span, place, "links"):
        parts.append(submessage(13, link_message(link)))
    return b"".join(parts)


def log_message(item: dict[str, Any], place: str) -> bytes:
    body = any_value(mapping(item.get("body"), f"{place}.body"), f"{place}.body", 0)
    return b"".join((
        b"\x09" + integer(item, "timeUnixNano", 2**63).to_bytes(8, "little"),
        b"\x59" + integer(item, "observedTimeUnixNano", 2**63).to_bytes(8, "little"),
        submessage(5, body),
        key_values(item.get("attributes"), f"{place}.attributes", 6),
        data(9, identifier(item, "traceId", 16, optional=True)),
        data(10, identifier(item, "spanId", 8, optional=True)),
        string(12, text(item.get("eventName"), f"{place}.eventName")),
    ))  # fmt: skip


SPANS = Shape("Spans", "spans", span_message, b"")
LOGS = Shape("Logs", "logRecords", log_message, BROKEN_RECORD)


def link_message(link: dict[str, Any]) -> bytes:
    """A link; one with ids that cannot be read stays empty, and the decoder leaves it out."""
    try:
        return data(1, identifier(link, "traceId", 16)) + data(2, identifier(link, "spanId", 8))
    except Unreadable:
        return b""


def event_message(event: dict[str, Any], place: str) -> bytes:
    return b"".join((
        b"\x09" + integer(event, "timeUnixNano", 2**63).to_bytes(8, "little"),
        string(2, text(event.get("name"), f"{place}.name")),
        key_values(event.get("attributes"), f"{place}.attributes", 3),
    ))  # fmt: skip


# Reading JSON.


def members(parent: Any, place: str, key: str) -> Iterable[tuple[str, dict[str, Any]]]:
    """The objects of a list member, each with its path; an absent member is an empty list."""
    found = mapping(parent, place).get(key)
    if found is None:
        return
    if not isinstance(found, list):
        raise BadBody(f"{place}.{key}: must be a list, found {brief(found)}")
    for index, item in enumerate(found):
        where = f"{place}.{key}[{index}]"
        yield where, mapping(item, where)


def mapping(value: Any, place: str) -> dict[str, Any]:
    if value is None and place != "$":
        return {}
    if not isinstance(value, dict):
        raise BadBody(f"{place}: must be an object, found {brief(value)}")
    return value


def text(value: Any, place: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadBody(f"{place}: must be a string, found {brief(value)}")
    return value


def identifier(span: dict[str, Any], key: str, size: int, *, optional: bool = False) -> bytes:
    """An id in hex. Base64, which generic protobuf tools write, has another length and is refused."""
    value = span.get(key)
    if optional and value in (None, ""):
        return b""
    if not isinstance(value, str) or len(value) != 2 * size or not HEX.issuperset(value):
        raise Unreadable(f"{key} must be {2 * size} hex characters, found {brief(value)}")
    return bytes.fromhex(value)


def integer(span: dict[str, Any], key: str, limit: int) -> int:
    """A non-negative integer below `limit`, written as a number or as a string; absent is 0."""
    value = span.get(key)
    if value is None:
        return 0
    found = whole(value)
    if found is None or not 0 <= found < limit:
        raise Unreadable(f"{key} must be an integer from 0 to {limit - 1}, found {brief(value)}")
    return found


def whole(value: Any) -> int | None:
    """The integer that a JSON number or string stands for, or None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value == int(value) else None
    if isinstance(value, str) and len(value) <= 20 and value.removeprefix("-").isdecimal() and value.isascii():
        return int(value)
    return None


def brief(value: Any) -> str:
    if isinstance(value, (dict, list)):  # may be nested deeper than repr() can follow
        return "an object" if isinstance(value, dict) else "a list"
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


# Writing protobuf.


def key_values(attributes: Any, place: str, field: int = 1) -> bytes:
    if attributes is None:
        return b""
    if not isinstance(attributes, list):
        raise BadBody(f"{place}: must be a list, found {brief(attributes)}")
    parts = []
    for index, attribute in enumerate(attributes):
        where = f"{place}[{index}]"
        found = mapping(attribute, where)
        value = any_value(mapping(found.get("value"), f"{where}.value"), f"{where}.value", 0)
        parts.append(submessage(field, string(1, text(found.get("key"), f"{where}.key")) + submessage(2, value)))
    return b"".join(parts)


def any_value(value: dict[str, Any], place: str, depth: int) -> bytes:
    """An AnyValue; a member of the wrong type leaves it without a value, so that only the attribute is lost."""
    for key, write in VALUES.items():
        member = value.get(key)
        if member is not None:
            return write(member)
    array = value.get("arrayValue")
    if array is not None and depth < DEPTH:
        parts = [submessage(1, any_value(item, where, depth + 1)) for where, item in members(array, place, "values")]
        return submessage(5, b"".join(parts))
    return submessage(6, b"") if any(value.get(key) is not None for key in ("kvlistValue", "bytesValue")) else b""


def string_value(member: Any) -> bytes:
    return submessage(1, encoded(member)) if isinstance(member, str) else b""


def bool_value(member: Any) -> bytes:
    return b"\x10" + varint(int(member)) if isinstance(member, bool) else b""


def int_value(member: Any) -> bytes:
    found = whole(member)
    return b"\x18" + varint(found & (2**64 - 1)) if found is not None and -(2**63) <= found < 2**63 else b""


def double_value(member: Any) -> bytes:
    if isinstance(member, bool) or not isinstance(member, (int, float, str)):
        return b""
    try:
        return b"\x21" + struct.pack("<d", float(member))
    except (ValueError, OverflowError):
        return b""


VALUES: dict[str, Callable[[Any], bytes]] = {
    "stringValue": string_value,
    "boolValue": bool_value,
    "intValue": int_value,
    "doubleValue": double_value,
}


def encoded(value: str) -> bytes:
    return value.encode("utf-8", "replace")


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def submessage(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def data(field: int, content: bytes) -> bytes:
    return submessage(field, content) if content else b""


def string(field: int, content: str) -> bytes:
    return data(field, encoded(content))


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value) if value else b""
