"""Log records of a gateway to rows: that a request started, that it goes on, and how it ended.

A record is read as a span is, by a log profile. What stands in its row at last is the gateway's span as far as the
record knows it: where the record names the span, trace and span id are those of the span, so that `exporter.join` can
put the two together; where it names none, they are made from the request's id and its start.
"""

from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Final

from exporter import record
from exporter.config import Settings
from exporter.decode.columns import Batch, Wanted
from exporter.profile import SourceProfile
from exporter.recognise import Recogniser, Strings
from exporter.record import ENDING, MISSING

UNIDENTIFIED: Final = -3
"""In place of a profile: the record names neither a span nor a request, or not when it started."""


class LogRecogniser:
    """Turns batches of log records into rows, as `Recogniser` does. `first`: the number of its first profile."""

    def __init__(
        self, profiles: Sequence[SourceProfile], settings: Settings, wanted: Wanted, strings: Strings, first: int
    ) -> None:
        self.recogniser = Recogniser(profiles, settings, wanted, strings)
        self.first = first
        self.width = self.recogniser.width
        self.rules = self.recogniser.rules
        self.last_seen = self.recogniser.last_seen
        self.forget = self.recogniser.forget

    @property
    def dropped(self) -> Counter[str]:
        """Attribute values refused, by reason."""
        return self.recogniser.dropped

    @dropped.setter
    def dropped(self, counter: Counter[str]) -> None:
        self.recogniser.dropped = counter

    @property
    def ignored(self) -> Counter[str]:
        """Records that are no request, by reason."""
        return self.recogniser.ignored

    @ignored.setter
    def ignored(self, counter: Counter[str]) -> None:
        self.recogniser.ignored = counter

    def recognise(self, batch: Batch, generation: int, seen_ns: int | None) -> "memoryview[int]":
        """One row per record, as of spans, but valid for good: flights keep theirs."""
        rows = memoryview(array("q", self.recogniser.recognise(batch, generation, seen_ns)))
        for row in range(0, len(rows), self.width):
            if rows[row + record.PROFILE] >= 0:
                rows[row + record.PROFILE] += self.first
                _place(rows, row, rows[row + record.START])
                if seen_ns is None:
                    rows[row + record.SEEN] = rows[row + record.END]
        return rows


def flight_key(identity: int, time: int, trace: int, span: int) -> int:
    """What all records of a request have in common: its id, which several may share, with its start, or its span."""
    if MISSING not in (identity, time):
        return hash((identity, time))
    return hash((trace, span)) if span else identity


def _place(rows: memoryview, row: int, time: int) -> None:
    """Give a recognised record the ids and the span that it stands for."""
    identity, arrived = rows[row + record.REQUEST_ID], rows[row + record.ARRIVED]
    spanned = bool(rows[row + record.SPAN])
    if arrived == MISSING or (identity == MISSING and not spanned):
        rows[row + record.PROFILE] = UNIDENTIFIED
        return
    if rows[row + record.RECORD] != ENDING:
        rows[row + record.ENDED] = MISSING
    rows[row + record.FLIGHT] = flight_key(identity, time, rows[row + record.TRACE_LO], rows[row + record.SPAN])
    if not spanned:
        rows[row + record.TRACE_HI], rows[row + record.TRACE_LO] = identity, rows[row + record.FLIGHT]
        rows[row + record.SPAN] = rows[row + record.FLIGHT] or 1
    if rows[row + record.CALL] == MISSING:  # logged as a request, without its path
        rows[row + record.CALL] = 1
    rows[row + record.START] = arrived
    rows[row + record.END] = max(arrived, rows[row + record.ENDED], rows[row + record.EMITTED])
    rows[row + record.FATE] = record.COUNTED
