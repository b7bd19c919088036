"""Recorded spans as if they came now: captures and a few spans of our own, moved in time, at the speed we like."""

import json
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic, sleep
from typing import Final, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

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
    request, envoy, engine = _through_envoy("image-server")
    for number in range(23):
        span = _asked(envoy, number, now_ns - (40 - number) * 1_000_000_000)
        if number < 20:
            served = _served(engine, span, "make", {**WORK, "first_ms": 300 if number else -1})
            served.attributes.add(key="model").value.string_value = MODEL
    return Body(0.0, request.SerializeToString())


def first(now_ns: int) -> Body:
    """One request through Envoy to vLLM, which makes every counter."""
    request, envoy, engine = _through_envoy("vllm.tracing.otel")
    tokens = {"gen_ai.usage.prompt_tokens": 10, "gen_ai.usage.completion_tokens": 5}
    served = _served(engine, _asked(envoy, 99, now_ns - 2_000_000_000), "llm_request", tokens)
    served.attributes.add(key="gen_ai.latency.time_to_first_token").value.double_value = 0.2
    return Body(0.0, request.SerializeToString())


def starts(now_ns: int) -> Body:
    """Log records of Envoy: eight requests that come and do not end, and one that does."""
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    for number in range(9):
        for kind, after_s in (("DownstreamStart", 0.0), ("DownstreamEnd", 0.5))[: 2 if number == 8 else 1]:
            record = records.add(time_unix_nano=now_ns, observed_time_unix_nano=now_ns)
            values = {"access_log_type": kind, "response_flags": "-", "method": "POST", "path": "/v1/chat/completions",
                      "request_id": f"log-{number}", "emit_time": f"{now_ns / 1e9 + after_s:.6f}",
                      "response_code": "200" if after_s else "-"}  # fmt: skip
            for key, text in values.items():
                record.attributes.add(key=key).value.string_value = text
    return Body(0.0, request.SerializeToString())


def _through_envoy(scope: str) -> tuple[ExportTraceServiceRequest, ScopeSpans, ScopeSpans]:
    """A body, and where spans of Envoy and of an engine go."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "own"
    envoy, engine = resource.scope_spans.add(), resource.scope_spans.add()
    envoy.scope.name, engine.scope.name = "envoy", scope
    return request, envoy, engine


def _asked(envoy: ScopeSpans, number: int, start_ns: int) -> Span:
    span = envoy.spans.add(name="ingress", kind=2, trace_id=(number + 1).to_bytes(16, "big"), span_id=bytes([1] * 8))
    span.start_time_unix_nano, span.end_time_unix_nano = start_ns, start_ns + 900_000_000
    for key, text in {**GATEWAY, "guid:x-request-id": f"own-{number}"}.items():
        span.attributes.add(key=key).value.string_value = text
    return span


def _served(engine: ScopeSpans, span: Span, name: str, amounts: Mapping[str, int]) -> Span:
    served = engine.spans.add(name=name, kind=2, trace_id=span.trace_id, span_id=bytes([2] * 8))
    served.parent_span_id = span.span_id
    served.start_time_unix_nano = span.start_time_unix_nano + 50_000_000
    served.end_time_unix_nano = served.start_time_unix_nano + 800_000_000
    for key, amount in amounts.items():
        served.attributes.add(key=key).value.int_value = amount
    return served


def send(found: list[Body], port: int, path: str = "/v1/traces") -> None:
    """Post every body at its time to OTLP/HTTP on this machine."""
    connection, started = HTTPConnection("127.0.0.1", port, timeout=10), monotonic()
    for body in found:
        sleep(max(0.0, started + body.at_s - monotonic()))
        connection.request("POST", path, body.content, {"Content-Type": "application/x-protobuf"})
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
