"""Protobuf's wire format, written by hand: what no message class would write, a sender still may."""

import struct

MASK = 2**64 - 1


def varint(value: int, *, spare: int = 0) -> bytes:
    """A number in base 128; `spare` bytes longer than it need be."""
    value &= MASK
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    for _ in range(min(spare, 10 - len(out))):
        out[-1] |= 128
        out.append(0)
    return bytes(out)


def number(field: int, value: int, *, spare: int = 0) -> bytes:
    """A varint field."""
    return varint(field << 3) + varint(value, spare=spare)


def fixed64(field: int, value: int) -> bytes:
    """A field of eight bytes."""
    return varint(field << 3 | 1) + (value & MASK).to_bytes(8, "little")


def fixed32(field: int, value: int) -> bytes:
    """A field of four bytes."""
    return varint(field << 3 | 5) + (value & 0xFFFFFFFF).to_bytes(4, "little")


def double(field: int, value: float) -> bytes:
    """A double field."""
    return varint(field << 3 | 1) + struct.pack("<d", value)


def block(field: int, *parts: bytes | str, spare: int = 0) -> bytes:
    """A length-delimited field: a message of these parts, bytes, or a string."""
    content = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    return varint(field << 3 | 2) + varint(len(content), spare=spare) + content


def group(field: int, *parts: bytes) -> bytes:
    """A group, which no OTLP message has."""
    return varint(field << 3 | 3) + b"".join(parts) + varint(field << 3 | 4)


# OTLP, by field number.

TRACE, SPAN = bytes(range(1, 17)), bytes(range(1, 9))


def body(*spans: bytes, resource: bytes = b"", scope: bytes = b"") -> bytes:
    """An ExportTraceServiceRequest with one resource and one scope."""
    return block(1, block(1, resource), block(2, block(1, scope), *(block(2, span) for span in spans)))


def span(*others: bytes, trace: bytes = TRACE, id: bytes = SPAN, start: int = 1_000, end: int = 2_000) -> bytes:
    """The least that a span must have, and `others` behind it."""
    return b"".join((block(1, trace), block(2, id), fixed64(7, start), fixed64(8, end), *others))


def attribute(key: str, *value: bytes, field: int = 9) -> bytes:
    """A KeyValue; `value` is the inside of its AnyValue."""
    return block(field, block(1, key), block(2, *value))
