"""The sheet of one request, by which it is counted: a row of flat signed 64-bit integers for each of its boundaries.

It holds what `exporter.measure` found, and nothing else; `exporter.record` has the spans that this was found from.
What is not known is `MISSING`. Times are Unix nanoseconds, durations nanoseconds.
"""

from collections.abc import Sequence
from typing import Final

from exporter import record
from exporter.measure import Measured
from exporter.record import MISSING
from exporter.tree import QUEUE
from slo_rules.vocabulary import EVIDENCES, FIRST_TOKEN_SOURCES, OUTCOMES, PHASES

TRACE_HI: Final = 0
TRACE_LO: Final = 1
SPAN: Final = 2
"""Of the span that opened the boundary."""
ARRIVED: Final = 3
BEGAN: Final = 4
"""The event time of the arrival: the arrival, or where that is not known the start of the span."""
ENDED: Final = 5
"""The event time of the completion: the end, or where that is not known the end of the span."""
OUTCOME: Final = 6
"""Index into vocabulary.OUTCOMES."""
TTFT: Final = 7
TTFT_ERROR: Final = 8
"""What it may be off by; MISSING where that is not known, or there is no TTFT. Likewise for the completion."""
TPOT: Final = 9
COMPLETION: Final = 10
COMPLETION_ERROR: Final = 11
TTFT_APPLIES: Final = 12
"""1 or 0, like the next two."""
TPOT_APPLIES: Final = 13
SILENT: Final = 14
SOURCE: Final = 15
"""Index into vocabulary.FIRST_TOKEN_SOURCES, or MISSING."""
INPUT: Final = 16
CACHED: Final = 17
OUTPUT: Final = 18
ITEMS: Final = 19
EVIDENCE: Final = 20
"""What its arrival is known from, where it was not counted before: index into vocabulary.EVIDENCES."""
PHASES_FROM: Final = 21
"""The first of the phases, in the order of vocabulary.PHASES; MISSING for one that there is not."""
WIDTH: Final = PHASES_FROM + len(PHASES)


def sheet_of(rows: Sequence[Measured]) -> list[int]:
    """The boundaries of a request one after the other, `WIDTH` cells each."""
    return [cell for row in rows for cell in _cells(row)]


def _cells(row: Measured) -> list[int]:
    span, ttft, completion = row.row, row.ttft, row.completion
    queued = span[record.ROLE] == QUEUE and span[record.ENQUEUED] != MISSING
    return [
        span[record.TRACE_HI],
        span[record.TRACE_LO],
        span[record.SPAN],
        _cell(row.arrived_ns),
        span[record.START] if row.arrived_ns is None else row.arrived_ns,
        span[record.END] if row.ended_ns is None else row.ended_ns,
        OUTCOMES.index(row.outcome),
        MISSING if ttft is None else ttft.ns,
        MISSING if ttft is None else _cell(ttft.error_ns),
        _cell(row.tpot_ns),
        MISSING if completion is None else completion.ns,
        MISSING if completion is None else _cell(completion.error_ns),
        int(row.ttft_applies),
        int(row.tpot_applies),
        int(row.silent),
        MISSING if row.first_token_from is None else FIRST_TOKEN_SOURCES.index(row.first_token_from),
        _cell(row.input),
        _cell(row.cached),
        _cell(row.output),
        _cell(row.items),
        EVIDENCES.index("span" if queued else "ended"),
        *(_cell(row.phases.get(phase)) for phase in PHASES),
    ]


def _cell(value: int | None) -> int:
    return MISSING if value is None else value
