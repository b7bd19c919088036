"""Bodies of real servers (tests/data/captures), as often as needed, every time as other requests.

Each copy has its own ids of traces and spans and its own ids inside attributes, and comes after the one before it.
"""

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from google.protobuf.message import Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from tests.bench.mix import Body

CAPTURES: Final = Path(__file__).resolve().parent.parent / "data" / "captures"
_ID: Final = re.compile(r"[0-9a-f]{8}(?=(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{24})")
"""The beginning of an id of 128 bits."""
_AFTER_NS: Final = 5_000_000


def bodies(copies: int, epoch_ns: int) -> Iterator[Body]:
    """All recorded protobuf bodies of spans, in turns; `now_ns` begins at the epoch and goes on through the copies."""
    originals = [_sorted_by_time(folder) for folder in sorted(CAPTURES.iterdir()) if folder.is_dir()]
    shift_ns = epoch_ns
    for copy in range(copies):
        for capture in originals:
            begun_ns = capture[0][0]
            for arrived_ns, content in capture:
                yield _moved(content, copy + 1, shift_ns - begun_ns, shift_ns + arrived_ns - begun_ns)
            shift_ns += capture[-1][0] - begun_ns + _AFTER_NS


def _sorted_by_time(folder: Path) -> list[tuple[int, bytes]]:
    """When each body of a capture arrived, and the body."""
    file, found = _file(folder), []
    for line in (folder / "index.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry["file"] == "traces.pb":
            content = file[entry["offset"] :][: entry["length"]]
            plain = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
            found.append((entry["arrived_unix_nano"], plain))
    return sorted(found)


def _file(folder: Path) -> bytes:
    plain = folder / "traces.pb"
    return plain.read_bytes() if plain.exists() else gzip.decompress((folder / "traces.pb.gz").read_bytes())


def _moved(content: bytes, copy: int, by_ns: int, now_ns: int) -> Body:
    request = ExportTraceServiceRequest.FromString(content)
    spans = [span for group in request.resource_spans for scope in group.scope_spans for span in scope.spans]
    for span in spans:
        span.start_time_unix_nano += by_ns
        span.end_time_unix_nano += by_ns
        for event in span.events:
            event.time_unix_nano += by_ns
        for holder in (span, *span.links):
            for field in ("trace_id", "span_id", "parent_span_id"):
                _renumber(holder, field, copy)
        _rename(chain(span.attributes, *(event.attributes for event in span.events)), copy)
    return Body(request.SerializeToString(), len(spans), now_ns)


def _renumber(holder: Message, field: str, copy: int) -> None:
    value = getattr(holder, field, b"")
    if value:
        setattr(holder, field, (int.from_bytes(value[:4], "big") ^ copy).to_bytes(4, "big") + value[4:])


def _rename(attributes: Iterable[KeyValue], copy: int) -> None:
    for attribute in attributes:
        text = attribute.value.string_value
        if text and _ID.search(text):
            attribute.value.string_value = _ID.sub(lambda found: f"{int(found[0], 16) ^ copy:08x}", text)
