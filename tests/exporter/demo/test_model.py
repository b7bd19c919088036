"""exporter.demo.model: continuous batching, and spans like vLLM's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from exporter.demo.model import PREFILL_NS, SEQUENCE_NS, STEP_NS, Engine, ModelServer, Sequence
from exporter.demo.process import Message, call, listen
from exporter.demo.trace import PHASES, SECOND_NS, arrivals

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


def sequence(input_tokens: int = 10, output_tokens: int = 3) -> Sequence:
    return Sequence(input_tokens=input_tokens, output_tokens=output_tokens, queued_ns=0)


def request(output_tokens: int) -> Message:
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "abc"}
    return {"headers": headers, "input_tokens": 10, "output_tokens": output_tokens}


@pytest.fixture
async def port(provider: TracerProvider) -> AsyncIterator[int]:
    server = ModelServer(provider.get_tracer("vllm.tracing.otel"))
    steps = asyncio.create_task(server.drive())
    async with listen(server.answer) as port:
        yield port
    steps.cancel()
    with suppress(asyncio.CancelledError):
        await steps


def test_a_step_costs_its_base_its_batch_and_its_prompts() -> None:
    engine = Engine()
    engine.add(sequence(input_tokens=10))
    engine.add(sequence(input_tokens=20))
    assert engine.begin(0) == STEP_NS + 2 * SEQUENCE_NS + 30 * PREFILL_NS
    engine.end(1)
    assert engine.begin(1) == STEP_NS + 2 * SEQUENCE_NS, "a prompt is prefilled once"


def test_a_sequence_is_reported_with_its_first_and_its_last_token() -> None:
    engine, one = Engine(), sequence(output_tokens=3)
    engine.add(one)
    reported = []
    for now_ns in (10, 20, 30):
        engine.begin(now_ns - 10)
        reported.append(engine.end(now_ns))
    assert reported == [[one], [], [one]]
    assert (one.scheduled_ns, one.first_ns, one.last_ns) == (0, 10, 30)
    assert engine.idle


def test_who_finds_no_slot_waits_until_one_is_free() -> None:
    engine, first, second = Engine(slots=1), sequence(output_tokens=1), sequence(output_tokens=1)
    engine.add(first)
    engine.add(second)
    engine.begin(0)
    assert engine.end(10) == [first]
    engine.begin(10)
    assert engine.end(20) == [second]
    assert second.scheduled_ns == 10


def test_prompts_beyond_the_limit_of_a_step_wait_for_the_next_and_a_larger_one_goes_alone() -> None:
    engine, small, huge = Engine(), sequence(input_tokens=1), sequence(input_tokens=100_000)
    engine.add(small)
    engine.add(huge)
    assert engine.begin(0) == STEP_NS + SEQUENCE_NS + PREFILL_NS
    engine.end(1)
    assert engine.begin(1) == STEP_NS + 2 * SEQUENCE_NS + 100_000 * PREFILL_NS


def test_a_dropped_sequence_frees_its_slot_and_gets_no_token() -> None:
    engine, gone, waiting = Engine(slots=1), sequence(), sequence()
    engine.add(gone)
    engine.add(waiting)
    engine.begin(0)
    engine.drop(gone)
    assert engine.end(1) == []
    engine.begin(1)
    assert engine.end(2) == [waiting]


def test_the_surge_is_about_twice_what_a_full_engine_can_do() -> None:
    engine, now_ns, done = Engine(), 0, 0
    for arrival in arrivals(PHASES, 1):
        engine.add(sequence(arrival.input_tokens, arrival.output_tokens))
    while now_ns < 20 * SECOND_NS:
        now_ns += engine.begin(now_ns)
        done += sum(answer.finished for answer in engine.end(now_ns))
    surge = max(phase.per_second for phase in PHASES)
    assert 1.7 < surge / (done / 20) < 2.4


async def test_an_answer_leaves_one_span_as_vllm_makes_it(port: int, spans: InMemorySpanExporter) -> None:
    async with call(port, request(output_tokens=3)) as events:
        assert [event["event"] async for event in events] == ["token", "done"]
    (span,) = spans.get_finished_spans()
    attributes = span.attributes or {}
    assert (span.name, span.kind, getattr(span.instrumentation_scope, "name", None)) == (
        "llm_request",
        SpanKind.SERVER,
        "vllm.tracing.otel",
    )
    assert span.context is not None
    assert span.parent is not None
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    assert attributes["gen_ai.usage.prompt_tokens"] == 10
    assert attributes["gen_ai.usage.completion_tokens"] == 3
    assert attributes["gen_ai.request.id"] == "chatcmpl-abc"
    length_s = ((span.end_time or 0) - (span.start_time or 0)) / SECOND_NS
    first, whole = (attributes[f"gen_ai.latency.{name}"] for name in ("time_to_first_token", "e2e"))
    assert isinstance(first, float)
    assert isinstance(whole, float)
    assert 0 < first < whole <= length_s


async def test_a_one_token_answer_has_no_decode_time(port: int, spans: InMemorySpanExporter) -> None:
    async with call(port, request(output_tokens=1)) as events:
        assert [event["event"] async for event in events] == ["token", "done"]
    (span,) = spans.get_finished_spans()
    assert (span.attributes or {})["gen_ai.latency.time_in_model_decode"] == 0


async def test_an_aborted_answer_leaves_no_span_and_frees_the_engine(port: int, spans: InMemorySpanExporter) -> None:
    async with call(port, request(output_tokens=1_000_000)) as events:
        assert (await anext(events))["event"] == "token"
    async with call(port, request(output_tokens=1)) as events:
        assert [event["event"] async for event in events] == ["token", "done"]
    assert len(spans.get_finished_spans()) == 1
