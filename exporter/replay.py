"""Recorded OTLP from files, in event time: what it finds in a file, and the rows it writes per request.

A file is one of: length-delimited bodies (each after its size as a varint, as in captures), one body, or JSON lines as
the Collector's file exporter writes them; any of them gzipped, whole or body by body. Which one it is, is found from
the bytes, as is whether it holds spans or log records. A folder stands for its files of these two.
"""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from io import SEEK_END, BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Protocol, cast

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from exporter import record
from exporter.decode.columns import BadBody
from exporter.judge import Judgement
from exporter.measure import Interval, Measured, Request
from exporter.pipeline import Pipeline
from exporter.receive import Encoding, Signal
from exporter.tally import Tally

SUFFIXES: Final = (".pb", ".json", ".jsonl", ".lines", ".otlp", ".gz", ".bin")
NO_OTLP: Final = ("metrics", "truth", "index", "profile", "inputs")
"""Starts of names that hold something else in a folder of captures."""
GZIP: Final = b"\x1f\x8b"
MAX_BODY: Final = 256 * 2**20
MAX_FILE: Final = 4 * 2**30
"""Bytes of one body, and of one file, when inflated."""


class Body(NamedTuple):
    """One body and where it stood."""

    place: str
    encoding: Encoding
    content: bytes
    signal: Signal = "traces"


class Unreadable(Exception):
    """A file that is no recorded OTLP; the message names the file and the place."""


def files_of(paths: Iterable[str]) -> list[Path]:
    """The files that files and folders stand for, in the order of their names. Raises Unreadable for none."""
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.is_file() and _holds_otlp(file.name))
            if not inside:
                raise Unreadable(f"{path}: no files of spans or logs in this folder ({', '.join(SUFFIXES)})")
            found += inside
        else:
            found.append(path)
    return found


def _holds_otlp(name: str) -> bool:
    return name.endswith(SUFFIXES) and not name.startswith(NO_OTLP)


def bodies(path: Path) -> Iterator[Body]:
    """The bodies of one file, which are all of one signal. Raises Unreadable."""
    signal: Signal | None = None
    for body in _bodies(path):
        signal = signal or signal_of(body)
        yield body._replace(signal=signal or "traces")


def signal_of(body: Body) -> Signal | None:
    """Whether a body holds spans or log records; None where it holds neither."""
    if body.encoding == "json":
        found = {b'"resourceSpans"': "traces", b'"resourceLogs"': "logs"}
        places = {body.content.find(key): signal for key, signal in found.items() if key in body.content}
        return cast("Signal", places[min(places)]) if places else None
    try:
        groups = ExportLogsServiceRequest.FromString(body.content).resource_logs
    except DecodeError:
        return None
    for item in (item for group in groups for scope in group.scope_logs for item in scope.log_records):
        # Read as a log record, a span has no time: its fields of those numbers are of another type.
        return "logs" if item.time_unix_nano or item.observed_time_unix_nano else "traces"
    return None


class Raw(Protocol):
    """Bytes, wherever they are."""

    def __len__(self) -> int: ...

    def __getitem__(self, where: slice, /) -> bytes: ...


class OnDisk:
    """The bytes of a file, read when they are asked for: recordings may be larger than memory."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.size = file.seek(0, SEEK_END)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, where: slice, /) -> bytes:
        start, stop, _ = where.indices(self.size)
        self.file.seek(start)
        content = self.file.read(max(0, stop - start))
        if len(content) < stop - start:
            raise Unreadable(f"{self.file.name}: it became shorter while it was read, at byte {start + len(content)}")
        return content


def _bodies(path: Path) -> Iterator[Body]:
    try:
        with path.open("rb") as file:
            yield from _bodies_in(_raw(file), path)
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}") from error


def _raw(file: BinaryIO) -> Raw:
    try:
        return OnDisk(file)
    except OSError:  # a pipe, or what the system makes up as it is read
        return file.read()


def _bodies_in(raw: Raw, path: Path) -> Iterator[Body]:
    if raw[:2] == GZIP:
        raw = inflate(raw[:], str(path), MAX_FILE)
    if not len(raw):
        return
    framed, whole = frames(raw)
    # "{" and a line feed may be taken for a frame of 123 bytes, and the tag of a body for a frame of 10.
    if raw[:1] == b"{" and (not whole or _is_document(raw[:])):
        yield from _json_bodies(raw[:], str(path))
    elif not whole and (not framed or _is_body(raw)):
        yield _body(raw[:], str(path))
    else:
        for number, (start, stop) in enumerate(framed):
            yield _body(raw[start:stop], f"{path}: body {number} at byte {start}")
        if not whole:
            start = framed[-1][1]
            yield Body(f"{path}: body {len(framed)} at byte {start}, cut off or broken", "protobuf", raw[start:])


def _json_bodies(raw: bytes, place: str) -> Iterator[Body]:
    """JSON lines, or one document over several lines."""
    lines = [(number, line) for number, line in enumerate(raw.splitlines(), 1) if line.strip()]
    if len(lines) == 1 or _is_document(raw):
        yield Body(place, "json", raw)
        return
    for number, line in lines:
        yield Body(f"{place}:{number}", "json", line)


def _is_document(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _body(content: bytes, place: str) -> Body:
    if content[:2] == GZIP:
        content = inflate(content, place, MAX_BODY)
    return Body(place, "json" if content.lstrip()[:1] == b"{" else "protobuf", content)


def inflate(content: bytes, place: str, limit: int) -> bytes:
    """Gunzip with a bound on what comes out. Raises Unreadable."""
    try:
        with gzip.GzipFile(fileobj=BytesIO(content)) as stream:
            inflated = stream.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise Unreadable(f"{place}: gzip that is cut off or broken: {error}") from error
    if len(inflated) > limit:
        raise Unreadable(f"{place}: more than {limit} bytes when inflated")
    return inflated


def frames(raw: Raw) -> tuple[list[tuple[int, int]], bool]:
    """Start and end of the length-delimited bodies at the front of a file, and whether they are all of it.

    Every one of them must itself begin like a body.
    """
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(raw):
        size, at = _varint(raw, at)
        if size is None or size > len(raw) - at or (size and not _begins_like_a_body(raw, at)):
            return found, False
        found.append((at, at + size))
        at += size
    return found, True


def _begins_like_a_body(raw: Raw, at: int) -> bool:
    front = raw[at : at + 2]
    return front[:1] in (b"\x0a", b"{") or front == GZIP


def _is_body(raw: Raw) -> bool:
    """Whether the file is one protobuf body: fields 1, each with its length, to the very end."""
    at = 0
    while at < len(raw) and raw[at : at + 1] == b"\x0a":
        size, at = _varint(raw, at + 1)
        if size is None:
            return False
        at += size
    return at == len(raw)


def _varint(raw: Raw, at: int) -> tuple[int | None, int]:
    """The number that stands there and where it ends; None where there is none."""
    size = shift = 0
    for byte in raw[at : at + 10]:
        size |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return size, at
        shift += 7
    return None, at


def feed(pipeline: Pipeline, body: Body) -> tuple[bool, str]:
    """Feed one body: whether it was OTLP, and what was wrong with it or with some of its spans."""
    try:
        receipt = pipeline.feed(body.content, encoding=body.encoding, transport="file", now_ns=0, signal=body.signal)
    except BadBody as error:
        return False, f"{body.place}: {error}"
    return True, f"{body.place}: {receipt.message}" if receipt.message else ""


# One row per request and boundary.


def rows_of(
    request: Request, judged: Iterable[tuple[Measured, Mapping[str, Judgement]]], tally: Tally
) -> Iterator[dict[str, Any]]:
    """What `replay --requests` writes: nothing that is not known is a number."""
    for row, judgements in judged:
        if row.boundary in tally.published and not row.open:
            yield row_of(row, judgements, request.texts)


def row_of(row: Measured, judgements: Mapping[str, Judgement], labels: Mapping[str, str]) -> dict[str, Any]:
    """One request at one boundary."""
    cells = row.row
    return {
        "trace_id": hexadecimal(cells[record.TRACE_HI]) + hexadecimal(cells[record.TRACE_LO]),
        "span_id": hexadecimal(cells[record.SPAN]),
        "boundary": row.boundary,
        **labels,
        "outcome": row.outcome,
        "arrived_unix_nano": row.arrived_ns,
        "first_token_unix_nano": row.first_token_ns,
        "ended_unix_nano": row.ended_ns,
        "ttft_s": _seconds(row.ttft),
        "tpot_s": None if row.tpot_ns is None else row.tpot_ns / 1e9,
        "completion_s": _seconds(row.completion),
        "input_tokens": row.input,
        "output_tokens": row.output,
        "cached_input_tokens": row.cached,
        "first_token_from": row.first_token_from,
        "uncertainty_s": uncertainty_s(row),
        "phases": {phase: ns / 1e9 for phase, ns in sorted(row.phases.items())},
        "slos": {
            name: {"good": judgement.good, "failed": list(judgement.failed)}
            for name, judgement in sorted(judgements.items())
        },
    }


def uncertainty_s(row: Measured) -> float | None:
    """The largest that its values may be off by, None where that is not known."""
    errors = [value.error_ns for value in (row.ttft, row.completion) if value is not None]
    if row.clock_error_ns is not None:
        errors.append(row.clock_error_ns)
    known = [error for error in errors if error is not None]
    return max(known) / 1e9 if known and len(known) == len(errors) else None


def hexadecimal(cell: int) -> str:
    """16 hex digits of a 64-bit cell."""
    return f"{cell & (2**64 - 1):016x}"


def _seconds(value: Interval | None) -> float | None:
    return None if value is None else value.ns / 1e9
