"""The first stage: OTLP bodies from senders. `grpc` and `http` carry them to whatever takes bodies, and answer for it.

A sender learns one of four things: taken (perhaps in part), never send this again, send it later, or wrong door. What
the pipeline says decides which, and the two transports only spell it; the words they share are in `answers`.
"""

from collections.abc import Callable
from typing import Final, Literal, NamedTuple, Protocol

Encoding = Literal["protobuf", "json"]
Signal = Literal["traces", "logs"]
Transport = Literal["grpc", "http", "file"]
Clock = Callable[[], int]
"""Unix time in nanoseconds."""

STOPPING: Final = "goodput-exporter is stopping; send again later"
STOPPING_RETRY_S: Final = 5
"""Long enough for a restart or for the sender to find another replica."""


class Receipt(NamedTuple):
    """What became of the spans or log records of one body. A message without rejected ones is a warning."""

    accepted: int
    rejected: int
    message: str


class Full(Exception):
    """There is no room for this body now."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Room:
    """How many bytes of bodies may be held at once while they come in."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0

    def take(self, size: int) -> None:
        """Hold more. Raises Full where that is too much."""
        if self._held + size > self._limit:
            raise Full(f"bodies of {self._limit} bytes are on their way in already; send again later", 1)
        self._held += size

    def give(self, size: int) -> None:
        """Hold less."""
        self._held -= size


class Sink(Protocol):
    """What takes the bodies."""

    def feed(
        self, body: bytes, *, encoding: Encoding, transport: Transport, now_ns: int, signal: Signal = "traces"
    ) -> Receipt:
        """Take one decompressed body. Raises BadBody for what is not OTLP, Full where there is no room."""

    def count_call(self, transport: Transport, code: str) -> None:
        """Count one answer to a sender."""
