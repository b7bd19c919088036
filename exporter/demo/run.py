"""The run: exporter, services and clients up, the picture moving, everything down again in the right order.

Order of stopping: first the clients are done, then each service from the outside in sends its last spans and ends, then
the exporter has `SETTLE_S` to seal what came, and stops last. Ctrl-C takes the same way from wherever the run is.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from itertools import count
from typing import Any, Final, NoReturn, Protocol

from rich.console import Console
from rich.live import Live

from exporter import serve
from exporter.demo.clients import Tally, send
from exporter.demo.process import ChildFailed, Setup, child
from exporter.demo.screen import Moment, Reading, Report, inside, line, picture, reading, summary
from exporter.demo.trace import PHASES, SECOND_NS, Phase, arrivals, phase_at
from exporter.serve import CannotListen, Files, read_files

SETTLE_S: Final = 4.0
"""join.grace + windows.delay of config.yaml, and a second for the exporter's tick."""
TICK_S: Final = 1.0


class Receiver(Protocol):
    """Where to send spans."""

    @property
    def grpc_url(self) -> str: ...

    @property
    def http_url(self) -> str: ...


class Exporter(Receiver, Protocol):
    """What the demo needs of a running exporter: where to send spans, where to scrape, and its report."""

    @property
    def metrics_url(self) -> str: ...

    def report(self, now_ns: int) -> Report: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """An exporter of somebody else's."""

    grpc_url: str
    http_url: str


@dataclass(slots=True, kw_only=True)
class State:
    """What the demo has seen so far."""

    phases: Sequence[Phase]
    started_unix_ns: int = 0
    tally: Tally = field(default_factory=Tally)
    history: list[Reading] = field(default_factory=list)
    kept: dict[str, Report] = field(default_factory=dict)
    """The last report whose window lies inside the phase, by phase."""
    last: Report = field(default_factory=dict)

    def take(self, report: Report) -> None:
        self.last = report
        self.history.append(reading(report))
        phase = inside(report, self.phases, self.started_unix_ns)
        if phase is not None:
            self.kept[phase] = report

    def moment(self, url: str, now_ns: int) -> Moment:
        elapsed_ns = now_ns - self.started_unix_ns
        return Moment(
            phase=phase_at(self.phases, elapsed_ns),
            elapsed_s=elapsed_ns / SECOND_NS,
            total_s=sum(phase.length_ns for phase in self.phases) / SECOND_NS,
            url=url,
            history=self.history[-60:],
        )


async def run(
    *,
    console: Console | None = None,
    phases: Sequence[Phase] = PHASES,
    seed: int = 1,
    settle_s: float = SETTLE_S,
    exporter: Callable[[], AbstractAsyncContextManager[Exporter]] | None = None,
) -> int:
    """Play the demo. Returns the exit code: 0 at the end and after Ctrl-C, 1 if something could not run."""
    console, state = console or Console(), State(phases=phases)
    with _interruptible():
        try:
            async with (exporter or in_process)() as running:
                await _play(running, state, console, seed, settle_s)
        except asyncio.CancelledError:
            console.print("Stopped.")
        except (ChildFailed, CannotListen) as error:
            console.print(f"The demo cannot go on: {error}.", style="red")
            return 1
    if state.kept:
        console.print(summary(state.kept, state.last, state.tally.sent, state.tally.endings))
    return 0


async def load(
    receiver: Receiver, *, console: Console, phases: Sequence[Phase] = PHASES, seed: int = 1, rounds: int | None = None
) -> int:
    """Only send, to an exporter elsewhere, round after round until Ctrl-C or SIGTERM. The exit code is as of `run`."""
    with _interruptible():
        try:
            async with _services(receiver) as (port, guards):
                for number in count() if rounds is None else range(rounds):
                    tally = Tally()
                    await _unless(guards, send(arrivals(phases, seed + number), port, tally))
                    console.print(f"round {number + 1}: {tally.sent} requests sent to {receiver.grpc_url}")
        except asyncio.CancelledError:
            console.print("Stopped.")
        except ChildFailed as error:
            console.print(f"The demo cannot go on: {error}.", style="red")
            return 1
    return 0


@asynccontextmanager
async def in_process() -> AsyncIterator[Exporter]:
    """The exporter on free ports of this process, with the demo's own settings and SLOs."""
    with as_file(files("exporter.demo")) as folder:
        declared = Files(config=str(folder / "config.yaml"), slos=(str(folder / "slo.yaml"),))
        async with serve.Exporter(lambda: read_files(declared, {})) as exporter:
            yield exporter


async def _play(exporter: Exporter, state: State, console: Console, seed: int, settle_s: float) -> None:
    console.print("Starting a gateway, a queue and a model server...")
    async with AsyncExitStack() as services:
        port, guards = await services.enter_async_context(_services(exporter))
        state.started_unix_ns = time.time_ns()
        async with _showing(exporter, state, console) as show:
            await _unless([*guards, show], send(arrivals(state.phases, seed), port, state.tally))
            await services.aclose()
            await _unless([show], asyncio.sleep(settle_s))


@asynccontextmanager
async def _services(exporter: Receiver) -> AsyncIterator[tuple[int, list[asyncio.Task[NoReturn]]]]:
    """The port of the gateway, and the tasks that raise when a service ends early. The gateway is stopped first."""
    async with (
        child("model", Setup(otlp=exporter.grpc_url, transport="grpc")) as (model, model_ends),
        child("queue", Setup(otlp=exporter.http_url, transport="http", upstream=model)) as (queue, queue_ends),
        child("gateway", Setup(otlp=exporter.grpc_url, transport="grpc", upstream=queue)) as (gateway, gateway_ends),
    ):
        yield gateway, [model_ends, queue_ends, gateway_ends]


@asynccontextmanager
async def _showing(exporter: Exporter, state: State, console: Console) -> AsyncIterator[asyncio.Task[NoReturn]]:
    task = asyncio.create_task(_show(exporter, state, console))
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _show(exporter: Exporter, state: State, console: Console) -> NoReturn:
    """Read the report every second and draw it: live on a terminal, else one line each."""
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    with live or nullcontext():
        while True:
            await asyncio.sleep(TICK_S)
            now_ns = time.time_ns()
            state.take(exporter.report(now_ns))
            moment = state.moment(exporter.metrics_url, now_ns)
            if live:
                live.update(picture(state.last, moment), refresh=True)
            else:
                console.print(line(state.last, moment), soft_wrap=True, markup=False, highlight=False)


async def _unless(guards: Sequence[asyncio.Task[NoReturn]], work: Coroutine[Any, Any, None]) -> None:
    """Do the work; if a guard ends first, raise what it raises."""
    task = asyncio.create_task(work)
    try:
        done, _ = await asyncio.wait({task, *guards}, return_when=asyncio.FIRST_COMPLETED)
        for finished in done:
            finished.result()
    finally:
        task.cancel()


@contextmanager
def _interruptible() -> Iterator[None]:
    """While inside, the first Ctrl-C or SIGTERM cancels the current task. Once that has happened, further ones are
    ignored to the end of the process, so that an impatient user sees no traceback from its last moments."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        if not stopping:
            stopping = True
            loop.call_soon_threadsafe(task.cancel)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if stopping else handler)
