"""The other side of a capture: what its client saw, and what its bodies hold, read without the program under test.

Spans come from protobuf's own parsers, the client's times from `truth.jsonl`. A row (as `replay --requests` writes it)
and a request of the client belong together by, in this order: the trace with the caller's span, the trace where one
request alone used it, the id of the response, the time. Every match is one to one.
"""

import base64
import gzip
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

Row = dict[str, Any]
"""One line of `replay --requests`."""
Sent = dict[str, Any]
"""One line of `truth.jsonl`."""

NEAR_NS: Final = 100_000_000
"""How long after the client's send a row that knows nothing else of its caller may begin."""
AHEAD_NS: Final = 2_000_000
"""And how long before it: Node cuts its stamps to whole milliseconds."""


class Span(NamedTuple):
    """What the tests need of a span. Times in Unix nanoseconds, ids in hex, `parent` empty at a root."""

    trace: str
    id: str
    parent: str
    name: str
    scope: str
    service: str
    kind: int
    start: int
    end: int
    status: int
    attributes: dict[str, Any]
    events: tuple[tuple[int, str], ...]


class Pair(NamedTuple):
    """A row and the request that it is about."""

    row: Row
    sent: Sent


# Bodies.


def index_of(folder: Path) -> list[dict[str, Any]]:
    """The bodies of a capture in the order of their arrival."""
    return lines(folder / "index.jsonl")


def lines(path: Path) -> list[dict[str, Any]]:
    """The documents of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def recorded(folder: Path, entry: Mapping[str, Any]) -> bytes:
    """One body as it came, still compressed if it came so."""
    start, length = int(entry["offset"]), int(entry["length"])
    return (folder / str(entry["file"])).read_bytes()[start : start + length]


def requests_of(folder: Path) -> Iterator[ExportTraceServiceRequest]:
    """Every body, read by protobuf's own parsers."""
    for entry in index_of(folder):
        body = recorded(folder, entry)
        if entry["content_encoding"] == "gzip":
            body = gzip.decompress(body)
        yield read_json(body) if entry["content_type"] == "application/json" else read_protobuf(body)


def read_protobuf(body: bytes) -> ExportTraceServiceRequest:
    """A protobuf body."""
    return ExportTraceServiceRequest.FromString(body)


def read_json(body: bytes) -> ExportTraceServiceRequest:
    """A JSON body. OTLP writes ids in hex where protobuf's JSON has base64."""
    document = json.loads(body)
    for resource in document["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for holder in (span, *span.get("links", ())):
                    for key in holder.keys() & {"traceId", "spanId", "parentSpanId"}:
                        holder[key] = base64_of(holder[key])
    return json_format.ParseDict(document, ExportTraceServiceRequest(), ignore_unknown_fields=True)


def base64_of(digits: str) -> str:
    """Hex digits in base64."""
    return base64.b64encode(bytes.fromhex(digits)).decode()


def merged(requests: Iterable[ExportTraceServiceRequest]) -> bytes:
    """All spans in one body."""
    whole = ExportTraceServiceRequest()
    for request in requests:
        whole.MergeFrom(request)
    return whole.SerializeToString()


def singles(requests: Iterable[ExportTraceServiceRequest]) -> Iterator[bytes]:
    """A body for every span."""
    for request in requests:
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    single = ExportTraceServiceRequest()
                    outer = single.resource_spans.add(resource=resource.resource, schema_url=resource.schema_url)
                    outer.scope_spans.add(scope=scope.scope, schema_url=scope.schema_url, spans=[span])
                    yield single.SerializeToString()


def spans_of(folder: Path) -> list[Span]:
    """Every span of a capture."""
    return [span for request in requests_of(folder) for span in _spans(request)]


def _spans(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for resource in request.resource_spans:
        service = {each.key: _plain(each.value) for each in resource.resource.attributes}.get("service.name", "")
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Span(
                    trace=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    name=span.name,
                    scope=scope.scope.name,
                    service=service,
                    kind=span.kind,
                    start=span.start_time_unix_nano,
                    end=span.end_time_unix_nano,
                    status=span.status.code,
                    attributes={each.key: _plain(each.value) for each in span.attributes},
                    events=tuple((event.time_unix_nano, event.name) for event in span.events),
                )


def _plain(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    return None if kind is None else getattr(value, kind)


# Which row is about which request of the client.


def pairs_of(rows: Sequence[Row], sent: Sequence[Sent], spans: Sequence[Span]) -> list[Pair]:
    """The rows of one boundary with their requests; rows that no request explains are left out."""
    matcher = _Matcher(sent, spans)
    return list(matcher.pairs(rows))


def response_id(text: str) -> str:
    """An id of a response without what servers put around it."""
    return re.sub(r"[-_]\d{1,2}$", "", re.sub(r"^(chatcmpl|cmpl|resp|msg)[-_]", "", text))


class _Matcher:
    """Keeps count of the requests that have their row."""

    def __init__(self, sent: Sequence[Sent], spans: Sequence[Span]) -> None:
        self.sent = sent
        self.parents = {(span.trace, span.id): span.parent for span in spans}
        self.by_caller = {(each["trace_id"], each["parent_span_id"]): each for each in sent if each["trace_id"]}
        uses = Counter(each["trace_id"] for each in sent)
        self.by_trace = {each["trace_id"]: each for each in sent if uses[each["trace_id"]] == 1}
        self.by_response = {response_id(each["response_id"]): each for each in sent if each.get("response_id")}
        self.responses: defaultdict[str, set[str]] = defaultdict(set)
        self.own_response: dict[tuple[str, str], str] = {}
        for span in spans:
            for key in ("gen_ai.request.id", "gen_ai.response.id"):
                if isinstance(found := span.attributes.get(key), str):
                    self.responses[span.trace].add(response_id(found))
                    self.own_response[span.trace, span.id] = response_id(found)
        self.taken: set[int] = set()

    def pairs(self, rows: Sequence[Row]) -> Iterator[Pair]:
        waiting = list(rows)
        for rule in (self._by_caller, self._by_trace, self._by_own_response, self._by_response, self._by_time):
            left = []
            for row in waiting:
                found = rule(row)
                if found is None or id(found) in self.taken:
                    left.append(row)
                else:
                    self.taken.add(id(found))
                    yield Pair(row, found)
            waiting = left

    def _by_caller(self, row: Row) -> Sent | None:
        return self.by_caller.get((row["trace_id"], self.parents.get((row["trace_id"], row["span_id"]), "")))

    def _by_trace(self, row: Row) -> Sent | None:
        return self.by_trace.get(row["trace_id"])

    def _by_own_response(self, row: Row) -> Sent | None:
        return self.by_response.get(self.own_response.get((row["trace_id"], row["span_id"]), ""))

    def _by_response(self, row: Row) -> Sent | None:
        found = self.responses[row["trace_id"]]
        return self.by_response.get(next(iter(found))) if len(found) == 1 else None

    def _by_time(self, row: Row) -> Sent | None:
        """The request without a row that was sent nearest before the row began."""
        after = {
            row["arrived_unix_nano"] - each["send_unix_ns"]: each
            for each in self.sent
            if id(each) not in self.taken and each.get("send_unix_ns") is not None
        }
        near = [ns for ns in after if -AHEAD_NS <= ns <= NEAR_NS]
        return after[min(near, key=abs)] if near else None


# What the client's clock says. Milliseconds.


def completion_ms(sent: Sent) -> float:
    """From the send to the last byte."""
    return float(sent["end_unix_ns"] - sent["send_unix_ns"]) / 1e6


def token_stamps(sent: Sent) -> list[int]:
    """When the chunks came that brought a token: with text, or with a higher count of tokens than the chunk before.

    The role, and the usage at the end, are no tokens; a token may have no text.
    """
    stamps, count = [], None
    for at, _, size, tokens in sent["events"]:
        if size or (count is not None and tokens is not None and tokens > count):
            stamps.append(at)
        count = tokens
    return stamps


def ttft_ms(sent: Sent) -> float:
    """From the send to the first token."""
    return float(token_stamps(sent)[0] - sent["send_unix_ns"]) / 1e6


def tpot_ms(sent: Sent) -> float:
    """Mean gap between the tokens, by the server's count of them. For one sequence of two or more."""
    stamps = token_stamps(sent)
    return (stamps[-1] - stamps[0]) / 1e6 / float(sent["completion_tokens"] - 1)


def nearest_rank(values: Iterable[float], percentile: int) -> float:
    """The smallest value that at least `percentile` per cent of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(1, math.ceil(len(ordered) * percentile / 100)) - 1]
