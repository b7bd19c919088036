"""Bodies of real servers (tests/data/captures), as often as needed, every time as other requests.

Each copy has its own ids of traces and spans and its own ids inside attributes.
"""

import gzip
import heapq
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from google.protobuf.message import Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from tests.bench.mix import Body, Mix

CAPTURES: Final = Path(__file__).resolve().parent.parent / "data" / "captures"
_ID: Final = re.compile(
    r"(?<![0-9A-Za-z])([0-9a-f]{8}(?=((-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{24}|[0-9a-f]{8})(?![0-9A-Za-z]))"
    r"|(?<=-)[0-9A-Za-z]{4}(?=[0-9A-Za-z]{20}(?![0-9A-Za-z])))"
)
"""The beginning of an id: of 128 or 64 bits, or what SGLang's router draws."""
_EVERY_NS: Final = 4_000_000_000
"""After which the next copy begins."""


@dataclass(frozen=True)
class Recorded:
    """A stream in which many copies of all servers send side by side, as long after one another as they did."""

    copies: int
    """That are measured: so many times what one copy of all has."""
    epoch_ns: int = Mix.epoch_ns
    grace_ms: int = 10_000
    """Of the join that takes it."""

    @property
    def spans(self) -> int:
        """Of the whole stream."""
        return self._all * sum(capture.spans for capture in _captures())

    @property
    def whole_from(self) -> int:
        """The first body that is measured: as many copies send as ever."""
        before_ns = (_longest_ns() - at_ns for capture in _captures() for at_ns in capture.at_ns)
        return sum(-(-each // _EVERY_NS) for each in before_ns)

    @property
    def measured(self) -> int:
        """Bodies that are measured."""
        return self.copies * sum(len(capture.at_ns) for capture in _captures())

    def bodies(self) -> Iterator[Body]:
        """All of them as they arrive, made as they are asked for."""
        parts = (self._copy(capture, copy) for copy in range(self._all) for capture in _captures())
        return heapq.merge(*parts, key=lambda body: body.now_ns)

    @property
    def _all(self) -> int:
        """Copies, with those before the ones that are measured."""
        return self.copies - -_longest_ns() // _EVERY_NS

    def _copy(self, capture: "_Capture", copy: int) -> Iterator[Body]:
        begun_ns = self.epoch_ns + copy * _EVERY_NS
        for at_ns, content in zip(capture.at_ns, capture.contents, strict=True):
            yield _moved(content, copy + 1, begun_ns - capture.begun_ns, begun_ns + at_ns)


class _Capture(NamedTuple):
    """The bodies of spans of one recording."""

    begun_ns: int
    """When the first came."""
    at_ns: Sequence[int]
    """How long after that each came."""
    contents: Sequence[bytes]

    @property
    def spans(self) -> int:
        """In all of them."""
        return sum(_moved(content, 0, 0, 0).spans for content in self.contents)


@cache
def _captures() -> Sequence[_Capture]:
    return [_read(folder) for folder in sorted(CAPTURES.iterdir()) if folder.is_dir()]


@cache
def _longest_ns() -> int:
    return 1 + max(capture.at_ns[-1] for capture in _captures())


def _read(folder: Path) -> _Capture:
    file, found = _file(folder), []
    for line in (folder / "index.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry["file"] == "traces.pb":
            content = file[entry["offset"] :][: entry["length"]]
            plain = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
            found.append((entry["arrived_unix_nano"], plain))
    arrived_ns, contents = zip(*sorted(found), strict=True)
    return _Capture(arrived_ns[0], [each - arrived_ns[0] for each in arrived_ns], contents)


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
            attribute.value.string_value = _ID.sub(lambda found: _another(found[0], copy), text)


def _another(beginning: str, copy: int) -> str:
    return f"{copy:04x}" if len(beginning) == 4 else f"{int(beginning, 16) ^ copy:08x}"
