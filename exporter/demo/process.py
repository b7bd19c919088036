"""What makes a simulated service: a child process, a conversation per request, and spans over OTLP. Both ends are here.

A service listens on a free port of loopback and prints that port as its first line: so the parent knows it is ready,
and a child that dies first is seen as the end of that output. It lives until its standard input ends, which also
happens when the parent is killed: no orphan stays. It runs in a session of its own, so that Ctrl-C reaches the parent
only and the parent decides the order of stopping.

A conversation is one connection: one line of JSON with the request, then lines with events. Whoever closes the
connection gives up; the service cancels its work on it, which closes its own connection to the next service in turn.
"""

import asyncio
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, NoReturn

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

HOST: Final = "127.0.0.1"
EXPORT_DELAY_MS: Final = 300
START_LIMIT_S: Final = 30
STOP_LIMIT_S: Final = 5

Message = dict[str, Any]
Send = Callable[[Message], Awaitable[None]]
Handle = Callable[[Message, Send], Coroutine[Any, Any, None]]


class ChildFailed(RuntimeError):
    """A service did not start, or ended before it was told to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a service is told on its command line. `otlp` is the address of the exporter, `upstream` a port."""

    otlp: str
    transport: Literal["grpc", "http"]
    upstream: int = 0

    def provider(self, resource: Mapping[str, str]) -> TracerProvider:
        """The SDK as an application sets it up, but for an export delay short enough to watch."""
        # One host name for all three services: they share this machine's clock, and real ones say so the same way.
        provider = TracerProvider(sampler=ALWAYS_ON, resource=Resource({"host.name": "demo", **resource}))
        provider.add_span_processor(BatchSpanProcessor(self._exporter(), schedule_delay_millis=EXPORT_DELAY_MS))
        return provider

    def _exporter(self) -> SpanExporter:
        if self.transport == "grpc":
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as OverGrpc

            return OverGrpc(endpoint=self.otlp, insecure=True)
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as OverHttp

        return OverHttp(endpoint=f"{self.otlp}/v1/traces")


def setup_from_command_line() -> Setup:
    return Setup(**json.loads(sys.argv[1]))


async def serve(handle: Handle, *jobs: Coroutine[Any, Any, NoReturn]) -> None:
    """Answer conversations until standard input ends. Raises what a job raises."""
    async with listen(handle) as port:
        print(json.dumps({"port": port}), flush=True)
        parent = asyncio.create_task(_parent_gone().wait())
        done, _ = await asyncio.wait({parent, *map(asyncio.create_task, jobs)}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


@asynccontextmanager
async def listen(handle: Handle) -> AsyncIterator[int]:
    """Answer conversations meanwhile; gives the port."""
    server = await asyncio.start_server(lambda reader, writer: _converse(handle, reader, writer), HOST, 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()


@asynccontextmanager
async def call(port: int, request: Message) -> AsyncIterator[AsyncIterator[Message]]:
    """Open a conversation; the value yields its events until the other side closes. Raises OSError."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(json.dumps(request).encode() + b"\n")
        yield (json.loads(line) async for line in reader)
    finally:
        writer.close()


@asynccontextmanager
async def child(name: str, setup: Setup) -> AsyncIterator[tuple[int, asyncio.Task[NoReturn]]]:
    """Run the module `exporter.demo.<name>` as a process. Gives its port, and a task that raises ChildFailed if it ends
    by itself. On leaving, the service sends its last spans and ends; one that does not is killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", f"exporter.demo.{name}", json.dumps(asdict(setup)),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=_environment(), start_new_session=True,
    )  # fmt: skip
    try:
        port = await _port(name, process)
        watch = asyncio.create_task(_watch(name, process))
        try:
            yield port, watch
        finally:
            watch.cancel()
    finally:
        await _stop(process)


async def _converse(handle: Handle, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async def send(event: Message) -> None:
        writer.write(json.dumps(event).encode() + b"\n")
        await writer.drain()

    async def gone() -> None:
        with suppress(ConnectionError):
            await reader.read()

    try:
        line = await reader.readline()
        if not line:
            return
        work, left = asyncio.create_task(handle(json.loads(line), send)), asyncio.create_task(gone())
        await asyncio.wait({work, left}, return_when=asyncio.FIRST_COMPLETED)
        work.cancel()
        left.cancel()
        with suppress(asyncio.CancelledError, ConnectionError):
            await work
    finally:
        writer.close()


def _parent_gone() -> asyncio.Event:
    event, loop = asyncio.Event(), asyncio.get_running_loop()

    def wait() -> None:
        # The bare file descriptor: a lock of sys.stdin held by this thread would trouble the interpreter's end.
        os.read(0, 1)
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(event.set)

    threading.Thread(target=wait, daemon=True).start()
    return event


def _environment() -> dict[str, str]:
    """Ours, without settings that would bend the SDK or send loopback traffic through a proxy."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    paths = os.pathsep.join(path for path in sys.path if path)
    return {**kept, "PYTHONPATH": paths, "no_proxy": HOST, "NO_PROXY": HOST, "no_grpc_proxy": HOST}


async def _port(name: str, process: asyncio.subprocess.Process) -> int:
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), START_LIMIT_S)
    except TimeoutError:
        raise ChildFailed(f"the simulated {name} is not ready after {START_LIMIT_S} s") from None
    if not line:
        raise ChildFailed(f"the simulated {name} ended with code {await process.wait()} before it was ready")
    return int(json.loads(line)["port"])


async def _watch(name: str, process: asyncio.subprocess.Process) -> NoReturn:
    raise ChildFailed(f"the simulated {name} ended with code {await process.wait()} during the run")


async def _stop(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), STOP_LIMIT_S)
    except TimeoutError:
        process.kill()
        await process.wait()
