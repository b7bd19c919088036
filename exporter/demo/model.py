"""The simulated model server: continuous batching in real time, and the spans of vLLM V1.

Every step decodes one token for each running sequence and prefills the prompts that were just admitted. A step takes
`STEP_NS`, plus `SEQUENCE_NS` for each running sequence, plus `PREFILL_NS` for each prompt token of the admitted: so
TPOT grows with the batch, and a long prompt holds everybody up. At most `SLOTS` sequences run, the others wait in
order.

With the recorded token counts (1,180 in and 215 out on average) a full batch does about
1 / (215 / 48 * 11.2 ms + 1180 * 10 us) = 16 requests/s.
"""

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from typing import Final, NoReturn

from opentelemetry.trace import SpanKind, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from exporter.demo.process import Message, Send, serve, setup_from_command_line

SLOTS: Final = 48
STEP_NS: Final = 5_000_000
SEQUENCE_NS: Final = 130_000
PREFILL_NS: Final = 10_000
PREFILL_TOKENS: Final = 8192
"""Prompt tokens admitted in one step; a longer prompt is admitted alone."""


@dataclass(slots=True, kw_only=True, eq=False)
class Sequence:
    """One answer in the making. Stamps are ns of the engine's monotonic clock, 0 until they happen."""

    input_tokens: int
    output_tokens: int
    queued_ns: int
    scheduled_ns: int = 0
    first_ns: int = 0
    last_ns: int = 0
    generated: int = 0

    @property
    def finished(self) -> bool:
        return self.generated >= self.output_tokens


class Engine:
    """Who runs, who waits, and how long a step takes. Reads no clock."""

    def __init__(self, slots: int = SLOTS) -> None:
        self._slots = slots
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._running

    def add(self, sequence: Sequence) -> None:
        self._waiting.append(sequence)

    def drop(self, sequence: Sequence) -> None:
        """Forget a sequence that its client gave up; one that is not here is fine."""
        for place in (self._waiting, self._running):
            if sequence in place:
                place.remove(sequence)

    def begin(self, now_ns: int) -> int:
        """Start a step: admit what fits. Returns the length of the step in ns."""
        prompt_tokens = 0
        while self._waiting and len(self._running) < self._slots:
            if prompt_tokens and prompt_tokens + self._waiting[0].input_tokens > PREFILL_TOKENS:
                break
            sequence = self._waiting.popleft()
            sequence.scheduled_ns = now_ns
            prompt_tokens += sequence.input_tokens
            self._running.append(sequence)
        return STEP_NS + SEQUENCE_NS * len(self._running) + PREFILL_NS * prompt_tokens

    def end(self, now_ns: int) -> list[Sequence]:
        """End the step. Returns the sequences that got their first or their last token in it."""
        stepped, self._running = self._running, []
        for sequence in stepped:
            sequence.generated += 1
            sequence.last_ns = now_ns
            sequence.first_ns = sequence.first_ns or now_ns
            if not sequence.finished:
                self._running.append(sequence)
        return [sequence for sequence in stepped if sequence.generated == 1 or sequence.finished]


class ModelServer:
    """The engine on the clock, with one span for each answer that was finished. Aborted answers leave no span."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._engine = Engine()
        self._news: dict[Sequence, asyncio.Queue[int]] = {}
        self._work = asyncio.Event()

    async def drive(self) -> NoReturn:
        """Step for ever. The next step is due a step's length after the last one was due, so lateness never adds up."""
        while True:
            self._work.clear()
            if self._engine.idle:
                await self._work.wait()
            due_ns = time.monotonic_ns()
            while not self._engine.idle:
                due_ns += self._engine.begin(time.monotonic_ns())
                await asyncio.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)
                for sequence in self._engine.end(time.monotonic_ns()):
                    self._news[sequence].put_nowait(time.time_ns())

    async def answer(self, request: Message, send: Send) -> None:
        arrived_unix_ns = time.time_ns()
        sequence = Sequence(
            input_tokens=request["input_tokens"], output_tokens=request["output_tokens"], queued_ns=time.monotonic_ns()
        )
        news = self._news[sequence] = asyncio.Queue()
        self._engine.add(sequence)
        self._work.set()
        try:
            first_unix_ns = await news.get()
            await send({"event": "token"})
            last_unix_ns = first_unix_ns if sequence.output_tokens == 1 else await news.get()
            self._span(request, sequence, arrived_unix_ns, first_unix_ns, last_unix_ns)
            await send({"event": "done"})
        finally:
            self._engine.drop(sequence)
            del self._news[sequence]

    def _span(self, request: Message, sequence: Sequence, arrived: int, first: int, last: int) -> None:
        """vLLM makes its span when the answer is out, with an explicit start; it says neither status nor model."""
        span = self._tracer.start_span(
            "llm_request",
            context=TraceContextTextMapPropagator().extract(request["headers"]),
            kind=SpanKind.SERVER,
            start_time=arrived,
            attributes={
                "gen_ai.latency.time_to_first_token": (first - arrived) / 1e9,
                "gen_ai.latency.e2e": (last - arrived) / 1e9,
                "gen_ai.latency.time_in_queue": (sequence.scheduled_ns - sequence.queued_ns) / 1e9,
                "gen_ai.latency.time_in_model_prefill": (sequence.first_ns - sequence.scheduled_ns) / 1e9,
                "gen_ai.latency.time_in_model_decode": (sequence.last_ns - sequence.first_ns) / 1e9,
                "gen_ai.latency.time_in_model_inference": (sequence.last_ns - sequence.scheduled_ns) / 1e9,
                "gen_ai.usage.prompt_tokens": sequence.input_tokens,
                "gen_ai.usage.completion_tokens": sequence.generated,
                "gen_ai.request.id": f"chatcmpl-{request['headers']['x-request-id']}",
                "gen_ai.request.max_tokens": sequence.output_tokens,
                "gen_ai.request.n": 1,
            },
        )
        span.end()


def main() -> None:
    provider = setup_from_command_line().provider(
        {"service.name": "vllm-demo", "vllm.instrumenting_module_name": "vllm.llm_engine"}
    )
    server = ModelServer(provider.get_tracer("vllm.tracing.otel"))
    asyncio.run(serve(server.answer, server.drive()))
    provider.shutdown()


if __name__ == "__main__":
    main()
