"""The simulated job queue between the gateway and the model server, with the spans of Celery's instrumentation.

Whoever calls it publishes a job (`apply_async/llm.generate`, PRODUCER, ended as soon as the job is in the queue). A
free worker takes the oldest job and runs it (`run/llm.generate`, CONSUMER, child of the PRODUCER) by calling the model
server. The queue is the line before a semaphore: it is served in order, and a caller who hangs up leaves it.
"""

import asyncio
import uuid
from typing import Final

from opentelemetry import context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from exporter.demo.model import SLOTS
from exporter.demo.process import Message, Send, call, serve, setup_from_command_line

TASK: Final = "llm.generate"
W3C: Final = TraceContextTextMapPropagator()


class JobQueue:
    """As many workers as the engine has slots: what has to wait, waits here and not in the engine."""

    def __init__(self, tracer: Tracer, upstream: int, workers: int = SLOTS) -> None:
        self._tracer = tracer
        self._upstream = upstream
        self._workers = asyncio.Semaphore(workers)

    async def answer(self, request: Message, send: Send) -> None:
        job = str(uuid.uuid4())
        published = self._publish(job, W3C.extract(request["headers"]))
        async with self._workers:
            await self._run(job, published, request, send)

    def _publish(self, job: str, caller: context.Context) -> context.Context:
        with self._tracer.start_as_current_span(
            f"apply_async/{TASK}", context=caller, kind=SpanKind.PRODUCER, attributes=_attributes("apply_async", job)
        ) as span:
            span.set_attribute("messaging.destination_kind", "queue")
            return set_span_in_context(span)

    async def _run(self, job: str, published: context.Context, request: Message, send: Send) -> None:
        with self._tracer.start_as_current_span(
            f"run/{TASK}", context=published, kind=SpanKind.CONSUMER, attributes=_attributes("run", job)
        ) as span:
            headers = dict(request["headers"])
            W3C.inject(headers)
            try:
                state = await self._generate({**request, "headers": headers}, send)
            except asyncio.CancelledError:
                # Celery says REVOKED of a task that is terminated because nobody wants its result any more.
                span.set_attribute("celery.state", "REVOKED")
                raise
            _finish(span, state)

    async def _generate(self, request: Message, send: Send) -> str:
        last = None
        try:
            async with call(self._upstream, request) as events:
                async for event in events:
                    last = event["event"]
                    await send(event)
        except OSError:
            return "FAILURE"
        return "SUCCESS" if last == "done" else "FAILURE"


def _attributes(action: str, job: str) -> dict[str, str]:
    return {
        "celery.action": action,
        "celery.task_name": TASK,
        "messaging.message.id": job,
        "messaging.destination": "celery",
    }


def _finish(span: Span, state: str) -> None:
    span.set_attribute("celery.state", state)
    if state == "FAILURE":
        span.set_status(StatusCode.ERROR)


def main() -> None:
    setup = setup_from_command_line()
    provider = setup.provider({"service.name": "llm-queue", "telemetry.sdk.language": "python"})
    queue = JobQueue(provider.get_tracer("opentelemetry.instrumentation.celery"), setup.upstream)
    asyncio.run(serve(queue.answer))
    provider.shutdown()


if __name__ == "__main__":
    main()
