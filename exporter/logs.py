"""Log records of a gateway to rows: that a request started, that it goes on, and how it ended.

A record is read as a span is, by a log profile. What stands in its row at last is the gateway's span as far as the
record knows it: where the record names the span, trace and span id are those of the span, so that `exporter.join` can
put the two together; where it names none, they are made from the request's id and its start.
"""

from collections.abc import Sequence
from typing import Final

from exporter import record
from exporter.config import Settings
from exporter.decode import columns
from exporter.decode.columns import Wanted
from exporter.profile import RECORDS, SourceProfile
from exporter.recognise import Recogniser, Rule, Strings
from exporter.record import ENDING, IGNORED, MISSING

UNIDENTIFIED: Final = -3
"""In place of a profile: the record names neither a span nor a request, or not when it started."""


class LogRecogniser(Recogniser):
    """Turns batches of log records into rows. `first`: the number of its first profile in the rows."""

    def __init__(
        self, profiles: Sequence[SourceProfile], settings: Settings, wanted: Wanted, strings: Strings, first: int
    ) -> None:
        super().__init__(profiles, settings, wanted, strings)
        self.first = first
        self.records = [
            [(RECORDS.index(name), self._conditions(match.attributes)) for name, match in profile.records.items()]
            for profile in profiles
        ]
        self.emitted = [tuple(map(self._way, profile.emitted)) for profile in profiles]

    def _span(self, rows: memoryview, row: int, head: int, seen_ns: int | None) -> None:
        super()._span(rows, row, head, seen_ns)
        if rows[row + record.PROFILE] >= 0:
            rows[row + record.PROFILE] += self.first
            _place(rows, row, int(self.batch.heads[head + columns.START]))
            if seen_ns is None:
                rows[row + record.SEEN] = rows[row + record.END]

    def _fill(self, rows: memoryview, row: int, head: int, rule: Rule) -> None:
        self._leave_out(rule.profile.absent)
        super()._fill(rows, row, head, rule)
        rows[row + record.RECORD] = self._record(rule.number)
        self._stamp(rows, row, head, record.EMITTED, self.emitted[rule.number])
        self.last_seen[rule.number] = max(self.last_seen[rule.number], rows[row + record.EMITTED])
        silent = rows[row + record.STREAM] == 1 and rows[row + record.FIRST_TOKEN] == MISSING
        if silent and rows[row + record.RECORD] == ENDING and "first_token" in rule.profile.stamps:
            rows[row + record.SILENT] = 1
        if rows[row + record.RECORD] == MISSING:
            rows[row + record.PROFILE] = IGNORED
            self.ignored["log_record"] += 1

    def _leave_out(self, absent: str | None) -> None:
        """Attributes whose text stands for no value."""
        for slot, place in enumerate(self.at):
            if place >= 0 and absent is not None and self._text(place) == absent:
                self.at[slot] = -1

    def _record(self, number: int) -> int:
        """Which of the records of a request it is."""
        return next((kind for kind, conditions in self.records[number] if self._hold(conditions)), MISSING)

    def _inside(self, rows: memoryview, row: int, time: int) -> bool:
        return 0 < time < 2**62

    def _length(self, rows: memoryview, row: int) -> int | None:
        return None


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
