"""Sends bodies from a process of its own, so that making them costs the receiver nothing.

    python -m tests.bench.sender JSON

The argument is a `Sending`, the line that it prints a `Sent`. Bodies are made, and compressed, before the first is
sent, unless there are too many, or they are sent at the pace of the stream's own time: then they are made as they are
due.
"""

import dataclasses
import gzip
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

import grpc

from exporter.receive.grpc import EXPORT
from tests.bench.mix import Body, Chain, Mix
from tests.bench.processes import cpu_s
from tests.bench.recorded import Recorded

Stream = Mix | Recorded | Chain

IN_FLIGHT: Final = 4
GZIP_LEVEL: Final = 6
"""As most senders have it."""


@dataclass(frozen=True, slots=True)
class Sending:
    """What to send where. A mix with an epoch of 0 begins now."""

    stream: Stream
    transport: Literal["grpc", "http"]
    port: int
    server: int
    """The receiver's process."""
    gzip: bool = False
    bodies: int = 0
    """Only so many, if not 0."""
    speed: float = 0
    """How fast the stream's own time goes by; 0 sends as fast as the receiver takes it."""
    calls: int = IN_FLIGHT
    """At a time, each over a connection of its own."""

    def as_json(self) -> str:
        """For the command line."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def of(cls, text: str) -> "Sending":
        """The reverse."""
        fields = json.loads(text)
        return cls(**{**fields, "stream": _stream(fields["stream"])})


def _stream(fields: dict[str, Any]) -> Stream:
    if "mix" in fields:
        return Chain(Mix(**fields["mix"]), fields["count"])
    return Recorded(**fields) if "copies" in fields else Mix(**fields)


@dataclass(frozen=True, slots=True)
class Sent:
    """How it went, of the bodies that are measured."""

    spans: int
    seconds: float
    sender_s: float
    """CPU seconds of the sender, in between."""
    server_s: float
    """CPU seconds of the receiver, in between."""

    @property
    def per_s(self) -> float:
        """Spans a second."""
        return self.spans / self.seconds

    @property
    def server_us(self) -> float:
        """CPU µs of the receiver a span."""
        return self.server_s / self.spans * 1e6


class Refused(Exception):
    """A body was not taken."""


def send(sending: Sending) -> Sent:
    """Send all bodies of the stream. Raises Refused."""
    bodies = enumerate(islice(_paced(sending) if sending.speed else _ready(sending), sending.bodies or None))
    whole_from, measured = sending.stream.whole_from, sending.stream.measured
    wait_s = 0 if measured else 2e-3 * sending.stream.grace_ms
    lock = threading.Lock()
    begun = marked = _Mark.of(sending, 0)
    ended: _Mark | None = None
    spans = 0

    def work() -> None:
        nonlocal marked, ended, spans
        post = poster(sending.transport, sending.port, gzipped=sending.gzip)
        while True:
            with lock:
                number, body = next(bodies, (-1, None))
                if body is None:
                    return
                if marked is begun and number >= whole_from:
                    now = _Mark.of(sending, spans)
                    marked = now if now.wall_s - begun.wall_s > wait_s else begun
                if measured and number == whole_from + measured:
                    ended = _Mark.of(sending, spans)
                spans += body.spans
            post(body.content)

    with ThreadPoolExecutor(sending.calls) as pool:
        for done in [pool.submit(work) for _ in range(sending.calls)]:
            done.result()
    return marked.until(ended or _Mark.of(sending, spans))


class _Mark(NamedTuple):
    """How far it is."""

    spans: int
    wall_s: float
    sender_s: float
    server_s: float

    @classmethod
    def of(cls, sending: Sending, spans: int) -> "_Mark":
        return cls(spans, time.perf_counter(), time.process_time(), cpu_s(sending.server))

    def until(self, later: "_Mark") -> Sent:
        return Sent(
            later.spans - self.spans, later.wall_s - self.wall_s, later.sender_s - self.sender_s,
            later.server_s - self.server_s,
        )  # fmt: skip


def _ready(sending: Sending) -> Iterator[Body]:
    """All of them at once, so that only sending takes time; of a chain, as they are asked for."""
    made = islice(_from_now(sending.stream).bodies(), sending.bodies or None)
    packed = (_packed(body, sending.gzip) for body in made)
    return packed if isinstance(sending.stream, Chain) else iter(list(packed))


def _paced(sending: Sending) -> Iterator[Body]:
    """Each when it is due."""
    stream = _from_now(sending.stream)
    for body in stream.bodies():
        due_ns = stream.epoch_ns + (body.now_ns - stream.epoch_ns) / sending.speed
        time.sleep(max(0.0, (due_ns - time.time_ns()) / 1e9))
        yield _packed(body, sending.gzip)


def _from_now(stream: Stream) -> Stream:
    if isinstance(stream, Mix) and not stream.epoch_ns:
        return dataclasses.replace(stream, epoch_ns=time.time_ns())
    return stream


def _packed(body: Body, gzipped: bool) -> Body:
    return body._replace(content=gzip.compress(body.content, GZIP_LEVEL)) if gzipped else body


def poster(transport: Literal["grpc", "http"], port: int, *, gzipped: bool = False) -> Callable[[bytes], None]:
    """What sends one body over a connection of its own and waits for the answer; raises Refused."""
    return _over_grpc(port) if transport == "grpc" else _over_http(port, gzipped)


def _over_grpc(port: int) -> Callable[[bytes], None]:
    channel = grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)])
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(EXPORT)

    def post(body: bytes) -> None:
        call(body)

    return post


def _over_http(port: int, gzipped: bool) -> Callable[[bytes], None]:
    """By hand: a client library costs more than the receiver."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    coding = "Content-Encoding: gzip\r\n" if gzipped else ""
    head = f"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n{coding}Content-Length: "

    def post(body: bytes) -> None:
        connection.sendall(b"%s%d\r\n\r\n" % (head.encode(), len(body)))
        connection.sendall(body)
        answer = connection.recv(4096)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise Refused(answer.decode(errors="replace"))

    return post


if __name__ == "__main__":
    print(json.dumps(dataclasses.asdict(send(Sending.of(sys.argv[1])))))
