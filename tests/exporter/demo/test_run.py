"""exporter.demo.run: three processes, their spans, and a clean end, against a receiver that only keeps spans."""

import io
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from exporter.config import read_settings
from exporter.demo.run import SETTLE_S, Exporter, in_process, load, run
from exporter.demo.screen import SLO
from exporter.demo.trace import SECOND_NS, Phase
from slo_rules.document import Problem, read
from slo_rules.slo import read_slos
from slo_rules.vocabulary import BOUNDARIES

if TYPE_CHECKING:
    from tests.exporter.demo.conftest import Sink

SHORT = (Phase(name="normal", length_ns=SECOND_NS, per_second=10, advice=""),)
LONG = (Phase(name="normal", length_ns=600 * SECOND_NS, per_second=5, advice=""),)


class InterruptAtFirstLine(io.StringIO):
    """Sends this process a signal, as Ctrl-C would, when the first report line is written."""

    def write(self, text: str) -> int:
        if "arrivals" in text:
            signal.raise_signal(signal.SIGINT)
        return super().write(text)


def given(sink: "Sink") -> Callable[[], AbstractAsyncContextManager[Exporter]]:
    @asynccontextmanager
    async def exporter() -> AsyncIterator[Exporter]:
        yield sink

    return exporter


def no_children_left() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


async def test_every_request_leaves_its_four_spans_in_one_trace_with_the_right_parents(sink: "Sink") -> None:
    console = Console(file=io.StringIO(), width=80)
    assert await run(console=console, phases=SHORT, settle_s=0, exporter=given(sink)) == 0
    names = ["ingress", "apply_async/llm.generate", "run/llm.generate", "llm_request"]
    traces = [{span.trace_id: span for span in sink.named(name)} for name in names]
    assert [len(spans) for spans in traces] == [10, 10, 10, 10]
    for ingress in traces[0].values():
        chain = [spans[ingress.trace_id] for spans in traces]
        assert [span.parent_span_id for span in chain] == [b"", *(span.span_id for span in chain[:3])]
    assert no_children_left()


async def test_gateway_and_model_speak_grpc_and_the_queue_http(sink: "Sink") -> None:
    await run(console=Console(file=io.StringIO()), phases=SHORT, settle_s=0, exporter=given(sink))
    assert {(transport, scope) for transport, scope, _ in sink.spans} == {
        ("grpc", "envoy"),
        ("http", "opentelemetry.instrumentation.celery"),
        ("grpc", "vllm.tracing.otel"),
    }


@pytest.fixture
def signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
async def test_ctrl_c_ends_everything_with_exit_code_0_and_a_second_one_is_ignored(sink: "Sink") -> None:
    console = Console(file=InterruptAtFirstLine(), width=80)
    assert await run(console=console, phases=LONG, exporter=given(sink)) == 0
    assert no_children_left()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().endswith("Stopped.\n")


async def test_a_service_that_cannot_start_ends_the_demo_with_exit_code_1(
    sink: "Sink", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    console = Console(file=io.StringIO(), width=200)
    assert await run(console=console, phases=SHORT, settle_s=0, exporter=given(sink)) == 1
    assert isinstance(console.file, io.StringIO)
    assert "the simulated model ended with code 1 before it was ready" in console.file.getvalue()


async def test_the_exporter_of_the_demo_counts_every_request_once() -> None:
    seen: list[Exporter] = []

    @asynccontextmanager
    async def keeping() -> AsyncIterator[Exporter]:
        async with in_process() as exporter:
            seen.append(exporter)
            yield exporter

    assert await run(console=Console(file=io.StringIO(), width=80), phases=SHORT, exporter=keeping) == 0
    outer = seen[0].report(time.time_ns())["boundaries"]["end_to_end"]
    assert (outer["arrivals"], outer["outcomes"]["ok"], outer["in_flight"]) == (10, 10, 0)


async def test_an_exporter_elsewhere_is_only_sent_to_round_after_round(sink: "Sink") -> None:
    console = Console(file=io.StringIO(), width=80)
    assert await load(sink, console=console, phases=SHORT, rounds=2) == 0
    assert len(sink.named("ingress")) == len(sink.named("llm_request")) == 20
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().count("10 requests sent to") == 2
    assert no_children_left()


def test_the_shipped_settings_and_slos_have_no_problems() -> None:
    problems: list[Problem] = []
    demo = files("exporter.demo")
    settings = read_settings("config.yaml", demo.joinpath("config.yaml").read_text(encoding="utf-8"), {}, problems)
    nodes = read(demo.joinpath("slo.yaml").read_text(encoding="utf-8"), "slo.yaml", problems, {})
    slos = read_slos(nodes, BOUNDARIES, None)
    assert problems == []
    assert [slo.name for slo in slos] == [SLO, "model-server"]
    waits_ns = settings.join.grace_ns + settings.windows.delay_ns
    assert waits_ns < SETTLE_S * SECOND_NS, "the last requests are sealed and read before the end"
