"""exporter.demo.gateway: what it lets through, what it refuses, and spans like Envoy's."""

import asyncio

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from exporter.demo.gateway import Gateway
from exporter.demo.process import Message, Send, call, listen

REQUEST: Message = {"headers": {"x-request-id": "abc"}}


async def answering(request: Message, send: Send) -> None:
    await send({"event": "token"})
    await send({"event": "done"})


async def cutting(request: Message, send: Send) -> None:
    await send({"event": "token"})


async def silent(request: Message, send: Send) -> None:
    await send({"event": "token"})
    await asyncio.Event().wait()


async def ask(port: int) -> list[str]:
    async with call(port, REQUEST) as events:
        return [event["event"] async for event in events]


def ending(spans: InMemorySpanExporter) -> tuple[object, object]:
    attributes = spans.get_finished_spans()[0].attributes or {}
    return attributes["http.status_code"], attributes["response_flags"]


async def test_a_request_leaves_one_ingress_span_with_text_attributes(
    provider: TracerProvider, spans: InMemorySpanExporter
) -> None:
    async with listen(answering) as upstream, listen(Gateway(provider.get_tracer("envoy"), upstream).answer) as port:
        assert await ask(port) == ["token", "done"]
    (span,) = spans.get_finished_spans()
    attributes = span.attributes or {}
    assert (span.name, span.kind, span.parent) == ("ingress", SpanKind.SERVER, None)
    assert all(isinstance(value, str) for value in attributes.values())
    assert str(attributes["http.url"]).endswith("/v1/chat/completions")
    assert (attributes["http.method"], attributes["guid:x-request-id"]) == ("POST", "abc")
    assert ending(spans) == ("200", "-")


async def test_the_trace_context_reaches_the_next_hop(provider: TracerProvider, spans: InMemorySpanExporter) -> None:
    seen: list[Message] = []

    async def keeping(request: Message, send: Send) -> None:
        seen.append(request)

    async with listen(keeping) as upstream, listen(Gateway(provider.get_tracer("envoy"), upstream).answer) as port:
        await ask(port)
    context = spans.get_finished_spans()[0].context
    assert context is not None
    assert seen[0]["headers"]["traceparent"].startswith(f"00-{context.trace_id:032x}-{context.span_id:016x}-")


async def test_beyond_its_limit_the_gateway_sheds(provider: TracerProvider, spans: InMemorySpanExporter) -> None:
    gateway = Gateway(provider.get_tracer("envoy"), 0, limit=0)
    async with listen(gateway.answer) as port:
        assert await ask(port) == ["refused"]
    assert ending(spans) == ("503", "UO")
    assert spans.get_finished_spans()[0].status.status_code == StatusCode.ERROR


async def test_an_ended_request_makes_room_for_the_next(provider: TracerProvider) -> None:
    async with (
        listen(answering) as upstream,
        listen(Gateway(provider.get_tracer("envoy"), upstream, limit=1).answer) as port,
    ):
        assert [await ask(port), await ask(port)] == [["token", "done"], ["token", "done"]]


@pytest.mark.parametrize(("upstream_does", "status", "flags"), [(silent, "200", "DC"), (cutting, "200", "UC")])
async def test_a_broken_stream_keeps_its_200_and_says_who_broke_it(
    provider: TracerProvider, spans: InMemorySpanExporter, upstream_does: object, status: str, flags: str
) -> None:
    assert callable(upstream_does)
    async with (
        listen(upstream_does) as upstream,
        listen(Gateway(provider.get_tracer("envoy"), upstream).answer) as port,
    ):
        async with call(port, REQUEST) as events:
            assert (await anext(events))["event"] == "token"
        while not spans.get_finished_spans():
            await asyncio.sleep(0)
    assert ending(spans) == (status, flags)


async def test_an_upstream_that_is_away_is_a_503(provider: TracerProvider, spans: InMemorySpanExporter) -> None:
    async with listen(answering) as closed:
        pass
    async with listen(Gateway(provider.get_tracer("envoy"), closed).answer) as port:
        assert await ask(port) == ["refused"]
    assert ending(spans) == ("503", "UF")
