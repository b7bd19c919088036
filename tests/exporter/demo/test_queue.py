"""exporter.demo.queue: served in order, and spans like those of Celery's instrumentation."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from exporter.demo.process import Message, Send, call, listen
from exporter.demo.queue import JobQueue

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
REQUEST: Message = {"headers": {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "abc"}}


class Model:
    """Sends what it is told to, once it may, and keeps the requests."""

    def __init__(self, *events: str) -> None:
        self.events = events
        self.may = asyncio.Event()
        self.requests: list[Message] = []
        self.called = asyncio.Event()

    async def answer(self, request: Message, send: Send) -> None:
        self.requests.append(request)
        self.called.set()
        await self.may.wait()
        for event in self.events:
            await send({"event": event})


@pytest.fixture
async def model() -> Model:
    return Model("token", "done")


@pytest.fixture
async def port(model: Model, provider: TracerProvider) -> AsyncIterator[int]:
    async with listen(model.answer) as upstream:
        queue = JobQueue(provider.get_tracer("opentelemetry.instrumentation.celery"), upstream, workers=1)
        async with listen(queue.answer) as port:
            yield port


def by_kind(spans: InMemorySpanExporter, kind: SpanKind) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.kind == kind]


async def ask(port: int) -> list[str]:
    async with call(port, REQUEST) as events:
        return [event["event"] async for event in events]


async def test_a_job_leaves_producer_and_consumer_in_the_callers_trace(
    port: int, model: Model, spans: InMemorySpanExporter
) -> None:
    model.may.set()
    assert await ask(port) == ["token", "done"]
    (producer,), (consumer,) = by_kind(spans, SpanKind.PRODUCER), by_kind(spans, SpanKind.CONSUMER)
    assert (producer.name, consumer.name) == ("apply_async/llm.generate", "run/llm.generate")
    assert producer.parent is not None
    assert consumer.parent is not None
    assert producer.context is not None
    assert consumer.context is not None
    assert f"{producer.parent.span_id:016x}" == PARENT
    assert consumer.parent.span_id == producer.context.span_id
    assert model.requests[0]["headers"]["traceparent"] == f"00-{TRACE}-{consumer.context.span_id:016x}-01"
    made, ran = producer.attributes or {}, consumer.attributes or {}
    assert made["messaging.message.id"] == ran["messaging.message.id"]
    assert (made["celery.action"], ran["celery.action"], ran["celery.state"]) == ("apply_async", "run", "SUCCESS")


async def test_a_job_waits_for_a_worker_and_the_wait_lies_between_its_two_spans(
    port: int, model: Model, spans: InMemorySpanExporter
) -> None:
    async with asyncio.TaskGroup() as callers:
        callers.create_task(ask(port))
        await model.called.wait()
        callers.create_task(ask(port))
        model.may.set()
    first, second = by_kind(spans, SpanKind.CONSUMER)
    assert (second.start_time or 0) >= (first.end_time or 0)
    assert by_kind(spans, SpanKind.PRODUCER)[1].end_time is not None
    assert len(model.requests) == 2


async def test_who_hangs_up_in_the_queue_never_runs(port: int, model: Model, spans: InMemorySpanExporter) -> None:
    running = asyncio.create_task(ask(port))
    await model.called.wait()
    async with call(port, REQUEST) as events:
        while len(by_kind(spans, SpanKind.PRODUCER)) < 2:
            await asyncio.sleep(0)
        assert events
    model.may.set()
    await running
    assert await ask(port) == ["token", "done"], "the worker is free again"
    assert len(by_kind(spans, SpanKind.CONSUMER)) == 2


async def test_a_job_whose_caller_hangs_up_is_revoked(port: int, model: Model, spans: InMemorySpanExporter) -> None:
    async with call(port, REQUEST):
        await model.called.wait()
    while not by_kind(spans, SpanKind.CONSUMER):
        await asyncio.sleep(0)
    assert (by_kind(spans, SpanKind.CONSUMER)[0].attributes or {})["celery.state"] == "REVOKED"


async def test_an_answer_that_is_cut_fails_the_job(port: int, model: Model, spans: InMemorySpanExporter) -> None:
    model.events = ("token",)
    model.may.set()
    assert await ask(port) == ["token"]
    (consumer,) = by_kind(spans, SpanKind.CONSUMER)
    assert ((consumer.attributes or {})["celery.state"], consumer.status.status_code) == ("FAILURE", StatusCode.ERROR)


async def test_a_model_that_is_away_fails_the_job(provider: TracerProvider, spans: InMemorySpanExporter) -> None:
    async with listen(Model().answer) as closed:
        pass
    async with listen(JobQueue(provider.get_tracer("celery"), closed).answer) as port:
        assert await ask(port) == []
    assert (by_kind(spans, SpanKind.CONSUMER)[0].attributes or {})["celery.state"] == "FAILURE"
