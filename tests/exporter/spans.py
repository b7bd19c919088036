"""OTLP bodies as senders write them, from spans in a few words. Times are milliseconds after T0.

A span is made with `span`, or with `envoy` and `vllm` as those emitters write theirs; `body` and `json_body` turn
spans into one export call. Ids are made up, and the same in every run.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

T0_NS: Final = 1_700_000_000_000_000_000

Value = str | bool | int | float
Attributes = Mapping[str, Value]

_NUMBERS = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A span with the scope and the resource that it is sent under."""

    message: Span
    scope: str
    resource: tuple[tuple[str, Value], ...]

    @property
    def end_ms(self) -> float:
        """When it ends, milliseconds after T0."""
        return (self.message.end_time_unix_nano - T0_NS) / 1e6


def ns(ms: float) -> int:
    """Unix nanoseconds of milliseconds after T0."""
    return T0_NS + round(ms * 1e6)


def span(
    name: str, *, scope: str = "", kind: str = "server", start: float, end: float | None,
    attributes: Attributes | None = None, events: Sequence[Span.Event] = (), parent: Sent | None = None,
    links: Sequence[Sent] = (), resource: Attributes | None = None, trace: bytes | None = None, state: str = "",
    failed: bool = False,
) -> Sent:  # fmt: skip
    """One span; `end` None is not set. In the trace of its parent, else in `trace`, else in one of its own."""
    made = Span(
        trace_id=parent.message.trace_id if parent else trace or _identifier(16),
        span_id=_identifier(8),
        parent_span_id=parent.message.span_id if parent else b"",
        trace_state=state,
        name=name,
        kind=Span.SpanKind.Value(f"SPAN_KIND_{kind.upper()}"),
        start_time_unix_nano=ns(start),
        end_time_unix_nano=0 if end is None else ns(end),
        attributes=_key_values(attributes or {}),
        events=events,
        links=[Span.Link(trace_id=link.message.trace_id, span_id=link.message.span_id) for link in links],
        status=Status(code=Status.STATUS_CODE_ERROR if failed else Status.STATUS_CODE_UNSET),
    )
    return Sent(message=made, scope=scope, resource=tuple((resource or {"host.name": "one-host"}).items()))


def event(name: str, at: float, attributes: Attributes | None = None) -> Span.Event:
    """An event of a span."""
    return Span.Event(name=name, time_unix_nano=ns(at), attributes=_key_values(attributes or {}))


def chunks(text: str) -> list[Span.Event]:
    """Events of a stream: `role@40(0) content@900(1)` are a chunk without and one with a token."""
    found = re.findall(r"(\w+)@([0-9.-]+)(?:\((\d+)\))?", text)
    assert len(found) == len(text.split()), text
    return [event("chunk", float(at), {"kind": kind, "tokens": int(tokens or 0)}) for kind, at, tokens in found]


def envoy(
    start: float, end: float, *, status: int = 200, flags: str = "-", path: str = "/v1/chat/completions",
    parent: Sent | None = None, resource: Attributes | None = None, state: str = "", trace: bytes | None = None,
) -> Sent:  # fmt: skip
    """Envoy's ingress span of a POST."""
    attributes = {
        "guid:x-request-id": _identifier(16).hex(), "response_flags": flags, "http.status_code": str(status),
        "http.method": "POST", "http.url": f"http://gateway{path}",
    }  # fmt: skip
    return span("ingress", scope="envoy", start=start, end=end, attributes=attributes, parent=parent,
                resource=resource, state=state, trace=trace)  # fmt: skip


def vllm(
    start: float, end: float, *, ttft: float | None = None, output: Value | None = None, prompt: int | None = None,
    parent: Sent | None = None, attributes: Attributes | None = None, resource: Attributes | None = None,
    state: str = "", trace: bytes | None = None, failed: bool = False,
) -> Sent:  # fmt: skip
    """vLLM's span of a request (or of one sequence of it). `ttft` in milliseconds, which vLLM writes in seconds."""
    known: dict[str, Value | None] = {
        "gen_ai.latency.time_to_first_token": None if ttft is None else ttft / 1000,
        "gen_ai.usage.completion_tokens": output,
        "gen_ai.usage.prompt_tokens": prompt,
    }
    given = {key: value for key, value in known.items() if value is not None} | dict(attributes or {})
    return span("llm_request", scope="vllm.tracing.otel", start=start, end=end, attributes=given, parent=parent,
                resource=resource, state=state, trace=trace, failed=failed)  # fmt: skip


def of_models(at: float, models: Iterable[int]) -> list[Sent]:
    """Spans of vLLM that end at a time and are alike, but for their models."""
    named = [{"gen_ai.response.model": f"model-{model}"} for model in models]
    return [vllm(at - 800, at - 10, ttft=9, output=9, attributes=each) for each in named]


def request_of(spans: Sequence[Sent]) -> ExportTraceServiceRequest:
    """One export call, as a message."""
    request = ExportTraceServiceRequest()
    for (resource, scope), group in groupby(spans, key=lambda sent: (sent.resource, sent.scope)):
        resource_spans = request.resource_spans.add()
        resource_spans.resource.attributes.extend(_key_values(dict(resource)))
        scope_spans = resource_spans.scope_spans.add()
        scope_spans.scope.name = scope
        scope_spans.spans.extend(sent.message for sent in group)
    return request


def body(*spans: Sent) -> bytes:
    """One export call in protobuf."""
    return request_of(spans).SerializeToString()


def json_body(*spans: Sent) -> bytes:
    """One export call in OTLP's JSON, which writes ids in hex and enums as numbers."""
    document = MessageToDict(request_of(spans), use_integers_for_enums=True)
    sent = iter(spans)
    for resource_spans in document["resourceSpans"]:
        for scope_spans in resource_spans["scopeSpans"]:
            for each in scope_spans["spans"]:
                _hex_ids(each, next(sent).message)
    return json.dumps(document).encode()


def _hex_ids(written: dict[str, Any], message: Span) -> None:
    written["traceId"] = message.trace_id.hex()
    written["spanId"] = message.span_id.hex()
    written["parentSpanId"] = message.parent_span_id.hex()
    for link, meant in zip(written.get("links", []), message.links, strict=True):
        link["traceId"], link["spanId"] = meant.trace_id.hex(), meant.span_id.hex()


def _identifier(size: int) -> bytes:
    return hashlib.sha256(str(next(_NUMBERS)).encode()).digest()[:size]


def _key_values(attributes: Attributes) -> list[KeyValue]:
    return [KeyValue(key=key, value=_any_value(value)) for key, value in attributes.items()]


def _any_value(value: Value) -> AnyValue:
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    return AnyValue(int_value=value) if isinstance(value, int) else AnyValue(double_value=value)
