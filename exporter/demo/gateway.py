"""The simulated gateway: sees every request from its first byte to its last, with the spans of Envoy.

It holds at most `LIMIT` requests open towards the queue and refuses more with 503 and flag UO, as Envoy's circuit
breaker does: a bounded queue keeps waits bounded when demand is not. A client that hangs up leaves 200 and flag DC,
since the headers of a stream go out at once. All attributes are strings, as Envoy writes them.
"""

import asyncio
from typing import Final

from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from exporter.demo.model import SLOTS
from exporter.demo.process import Message, Send, call, serve, setup_from_command_line

LIMIT: Final = SLOTS + 56
"""56 jobs in the queue are about 3.5 s of waiting."""
W3C: Final = TraceContextTextMapPropagator()


class Gateway:
    def __init__(self, tracer: Tracer, upstream: int, limit: int = LIMIT) -> None:
        self._tracer = tracer
        self._upstream = upstream
        self._limit = limit
        self._open = 0

    async def answer(self, request: Message, send: Send) -> None:
        span = self._tracer.start_span("ingress", kind=SpanKind.SERVER, context=W3C.extract(request["headers"]))
        try:
            status, flags = await self._admit(span, request, send)
        except asyncio.CancelledError:
            status, flags = 200, "DC"
            raise
        finally:
            _finish(span, request, status, flags)

    async def _admit(self, span: Span, request: Message, send: Send) -> tuple[int, str]:
        """Status code and response flags of the request."""
        if self._open >= self._limit:
            await send({"event": "refused", "status": 503})
            return 503, "UO"
        self._open += 1
        try:
            return await self._forward(span, request, send)
        finally:
            self._open -= 1

    async def _forward(self, span: Span, request: Message, send: Send) -> tuple[int, str]:
        headers = dict(request["headers"])
        W3C.inject(headers, context=set_span_in_context(span))
        last = None
        try:
            async with call(self._upstream, {**request, "headers": headers}) as events:
                async for event in events:
                    last = event["event"]
                    await send(event)
        except OSError:
            await send({"event": "refused", "status": 503})
            return 503, "UF"
        return (200, "-") if last == "done" else (200, "UC")


def _finish(span: Span, request: Message, status: int, flags: str) -> None:
    span.set_attributes(
        {
            "component": "proxy",
            "node_id": "gateway-demo",
            "guid:x-request-id": request["headers"]["x-request-id"],
            "http.method": "POST",
            "http.url": "http://gateway.demo/v1/chat/completions",
            "http.protocol": "HTTP/1.1",
            "http.status_code": str(status),
            "response_flags": flags,
            "upstream_cluster": "llm-queue",
            "upstream_cluster.name": "llm-queue",
        }
    )
    if status >= 500:
        span.set_attribute("error", "true")
        span.set_status(StatusCode.ERROR)
    span.end()


def main() -> None:
    setup = setup_from_command_line()
    provider = setup.provider(
        {"service.name": "envoy-gateway", "telemetry.sdk.name": "envoy", "telemetry.sdk.language": "cpp"}
    )
    gateway = Gateway(provider.get_tracer("envoy"), setup.upstream)
    asyncio.run(serve(gateway.answer))
    provider.shutdown()


if __name__ == "__main__":
    main()
