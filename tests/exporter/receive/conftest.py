"""A sink that records what it is given and answers as it is told."""

from dataclasses import dataclass, field

import pytest

from exporter.receive import Encoding, Receipt, Signal, Transport

TAKEN = Receipt(accepted=1, rejected=0, message="")


@dataclass
class Recorder:
    """Stands for the pipeline."""

    answer: Receipt | Exception = TAKEN
    bodies: list[bytes] = field(default_factory=list)
    fed: list[tuple[Encoding, Transport, int]] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    calls: list[tuple[Transport, str]] = field(default_factory=list)

    def feed(
        self, body: bytes, *, encoding: Encoding, transport: Transport, now_ns: int, signal: Signal = "traces"
    ) -> Receipt:
        self.signals.append(signal)
        self.bodies.append(body)
        self.fed.append((encoding, transport, now_ns))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def count_call(self, transport: Transport, code: str) -> None:
        self.calls.append((transport, code))


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()
