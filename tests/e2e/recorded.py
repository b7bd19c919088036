"""Recorded spans as if they came now: captures and a few spans of our own, moved in time, at the speed we like."""

import json
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic, sleep
from typing import Final, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

PROFILE: Final = """\
apiVersion: goodput/v1
kind: SourceProfile
metadata: {name: image-server}
spec:
  role: engine
  match: [{scope: image-server}]
  stamps: {arrived: start, first_token: {from: arrived, plus: first_ms, unit: ms}, ended: end}
  tokens: {input: [prompt], cached_input: [cached], output: [tokens]}
  items: [images]
  labels: {model: [model]}
"""
"""What no capture has: items, and input from a cache."""
MODEL: Final = "images"
WORK: Final = {"prompt": 100, "cached": 60, "tokens": 11, "images": 2}
GATEWAY: Final = {
    "component": "proxy", "http.method": "POST", "http.url": "http://gw/v1/chat/completions", "http.status_code": "200",
    "response_flags": "-",
}  # fmt: skip


class Body(NamedTuple):
    """A body and when it shall be sent, in seconds from the first."""

    at_s: float
    content: bytes


def bodies(folders: Sequence[Path], now_ns: int, over_s: float) -> list[Body]:
    """Captures, moved so that each ends a second before `now_ns`, to be sent within `over_s`, in their order."""
    found: list[tuple[int, bytes]] = []
    for folder in folders:
        requests = list(_requests(folder))
        last_ns = max(span.end_time_unix_nano for _, request in requests for span in _spans(request))
        shift_ns = now_ns - 1_000_000_000 - last_ns
        for arrived_ns, request in requests:
            for span in _spans(request):
                span.start_time_unix_nano += shift_ns
                span.end_time_unix_nano += shift_ns
                for event in span.events:
                    event.time_unix_nano += shift_ns
            found.append((arrived_ns + shift_ns, request.SerializeToString()))
    found.sort()
    first, last = found[0][0], found[-1][0]
    return [Body((at - first) / (last - first) * over_s, content) for at, content in found]


def _requests(folder: Path) -> Iterator[tuple[int, ExportTraceServiceRequest]]:
    content = (folder / "traces.pb").read_bytes()
    for line in (folder / "index.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry["file"] == "traces.pb":
            raw = content[entry["offset"] : entry["offset"] + entry["length"]]
            yield entry["arrived_unix_nano"], ExportTraceServiceRequest.FromString(raw)


def _spans(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            yield from scope.spans


def images(now_ns: int) -> Body:
    """Twenty requests for images through Envoy, one with an impossible value, and three without an engine's span."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "images"
    envoy, engine = resource.scope_spans.add(), resource.scope_spans.add()
    envoy.scope.name, engine.scope.name = "envoy", "image-server"
    for number in range(23):
        span = envoy.spans.add(
            name="ingress", kind=2, trace_id=(number + 1).to_bytes(16, "big"), span_id=bytes([1] * 8)
        )
        span.start_time_unix_nano = now_ns - (40 - number) * 1_000_000_000
        span.end_time_unix_nano = span.start_time_unix_nano + 900_000_000
        for key, text in {**GATEWAY, "guid:x-request-id": f"image-{number}"}.items():
            span.attributes.add(key=key).value.string_value = text
        if number < 20:
            served = engine.spans.add(name="make", kind=2, trace_id=span.trace_id, span_id=bytes([2] * 8))
            served.parent_span_id = span.span_id
            served.start_time_unix_nano = span.start_time_unix_nano + 50_000_000
            served.end_time_unix_nano = served.start_time_unix_nano + 800_000_000
            served.attributes.add(key="model").value.string_value = MODEL
            for key, amount in {**WORK, "first_ms": 300 if number else -1}.items():
                served.attributes.add(key=key).value.int_value = amount
    return Body(0.0, request.SerializeToString())


def send(found: list[Body], port: int) -> None:
    """Post every body at its time to OTLP/HTTP on this machine."""
    connection, started = HTTPConnection("127.0.0.1", port, timeout=10), monotonic()
    for body in found:
        sleep(max(0.0, started + body.at_s - monotonic()))
        connection.request("POST", "/v1/traces", body.content, {"Content-Type": "application/x-protobuf"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        answer.read()
    connection.close()


def write(found: list[Body], path: Path) -> None:
    """As a recording that `replay` reads: each body after its length."""
    path.write_bytes(b"".join(_varint(len(body.content)) + body.content for body in found))


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])
