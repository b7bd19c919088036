"""The load: what the clients send, and when.

Gaps between arrivals and token counts come from a recorded conversation service (see the head of conversation.csv).
The run has phases with a rate each. A phase takes as many consecutive rows as it has requests and stretches their gaps
to its length: bursts stay as recorded, only the time scale changes. The seed says at which row the run begins and which
clients are impatient; the same seed gives the same load.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import accumulate, cycle, islice, pairwise
from random import Random
from typing import Final

SECOND_NS: Final = 1_000_000_000
IMPATIENT_SHARE: Final = 0.15
PATIENCE_S: Final = (1.5, 3.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A stretch of the run. The engine of `model` can do about 16 requests/s of this trace."""

    name: str
    length_ns: int
    per_second: float
    advice: str
    """What to look at meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One request. `at_ns` counts from the start of the run; `patience_ns` is how long its client waits for a first
    token, None without limit."""

    at_ns: int
    input_tokens: int
    output_tokens: int
    patience_ns: int | None


PHASES: Final = (
    Phase(
        name="normal",
        length_ns=12 * SECOND_NS,
        per_second=8,
        advice="Completions keep up with arrivals, and nearly every request is good.",
    ),
    Phase(
        name="surge",
        length_ns=14 * SECOND_NS,
        per_second=32,
        advice="Twice what the engine can do: TTFT end to end runs away, the model's own TTFT does not.",
    ),
    Phase(
        name="recovery",
        length_ns=22 * SECOND_NS,
        per_second=6,
        advice="The queue drains first, then TTFT falls, and goodput comes back last.",
    ),
)


def arrivals(phases: Sequence[Phase], seed: int) -> tuple[Arrival, ...]:
    """All requests of the run, in order of time."""
    random = Random(seed)
    rows = _recorded()
    source = islice(cycle(rows), random.randrange(len(rows)), None)
    return tuple(
        arrival for phase, start_ns in _starts(phases) for arrival in _of_phase(phase, start_ns, source, random)
    )


def phase_at(phases: Sequence[Phase], elapsed_ns: int) -> Phase | None:
    """The phase that holds this instant, None after the last one."""
    return next((phase for phase, start_ns in _starts(phases) if elapsed_ns < start_ns + phase.length_ns), None)


def bounds(phases: Sequence[Phase]) -> dict[str, tuple[int, int]]:
    """Name of each phase with its start and end, in ns from the start of the run."""
    return {phase.name: (start_ns, start_ns + phase.length_ns) for phase, start_ns in _starts(phases)}


def _starts(phases: Sequence[Phase]) -> Iterator[tuple[Phase, int]]:
    return zip(phases, accumulate((phase.length_ns for phase in phases), initial=0), strict=False)


def _of_phase(
    phase: Phase, start_ns: int, source: Iterator[tuple[float, int, int]], random: Random
) -> Iterator[Arrival]:
    rows = list(islice(source, round(phase.per_second * phase.length_ns / SECOND_NS)))
    before = list(accumulate((gap for gap, _, _ in rows), initial=0.0))
    for elapsed, (_, input_tokens, output_tokens) in zip(before, rows, strict=False):
        yield Arrival(
            at_ns=start_ns + int(elapsed / before[-1] * phase.length_ns),
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            patience_ns=_patience_ns(random),
        )


def _patience_ns(random: Random) -> int | None:
    impatient = random.random() < IMPATIENT_SHARE
    return int(random.uniform(*PATIENCE_S) * SECOND_NS) if impatient else None


def _recorded() -> list[tuple[float, int, int]]:
    """Rows of gap to the next row in recorded seconds, input tokens, output tokens."""
    text = files("exporter.demo").joinpath("conversation.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    return [
        (float(after["seconds"]) - float(row["seconds"]), int(row["input_tokens"]), int(row["output_tokens"]))
        for row, after in pairwise(rows)
    ]
