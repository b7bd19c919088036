"""The error budget of one SLO over its period: good and bad requests, by event time.

A rolling period is a ring of slices, SLICES of them for the whole period, and is read as of an instant as the whole
slices that end after its start: at most one slice too much, 1/720 of the period (an hour of 30 days). A period of the
calendar is exact: what ended since it began and before the next begins. Both know only what this program has seen; the
rules over the exported counters outlive it.
"""

from typing import Final

from slo_rules.slo import SLO, Calendar

SLICES: Final = 720
"""Of a rolling period."""
KEPT: Final = 2
"""Periods of the calendar that are kept: the present one, and one beside it for what is early or late."""


class Budget:
    """Counts of one SLO in the units of its caller."""

    def __init__(self, slo: SLO, before: "Budget | None" = None) -> None:
        """Counts for the period of `slo`, those of `before` taken over if it has the same period."""
        self.period_ns = slo.period_ns or 0
        self.calendar: Calendar | None = slo.calendar
        self.counts: dict[int, list[int]] = {}
        """Good and bad, by the start of the slice or of the period of the calendar."""
        self._bounds = (0, 0)
        if before is not None and (before.period_ns, before.calendar) == (self.period_ns, self.calendar):
            self.counts = before.counts

    def add(self, at_ns: int, good: int, bad: int) -> None:
        """Count what ended at a time; nothing without a target, which has a period."""
        if not self.period_ns:
            return
        start_ns = self._start(at_ns)
        counts = self.counts.get(start_ns)
        if counts is None:
            counts = self.counts[start_ns] = [0, 0]
            self._drop()
        counts[0] += good
        counts[1] += bad

    def read(self, as_of_ns: int) -> tuple[int, int, int]:
        """Good, bad, and the start of what they are counted over, in the period that holds an instant or ends there."""
        if self.calendar is not None:
            start_ns = self._start(as_of_ns)
            good, bad = self.counts.get(start_ns, (0, 0))
            return good, bad, start_ns
        from_ns = as_of_ns - self.period_ns
        inside = [counts for start_ns, counts in self.counts.items() if start_ns + self._slice_ns > from_ns]
        return sum(good for good, _ in inside), sum(bad for _, bad in inside), from_ns

    @property
    def _slice_ns(self) -> int:
        return -(-self.period_ns // SLICES)

    def _start(self, at_ns: int) -> int:
        if self.calendar is None:
            return at_ns // self._slice_ns * self._slice_ns
        if not self._bounds[0] <= at_ns < self._bounds[1]:
            self._bounds = self.calendar.bounds(at_ns)
        return self._bounds[0]

    def _drop(self) -> None:
        """Bound what is kept, by the newest: what is older than any reading will need."""
        kept = KEPT if self.calendar is not None else SLICES + 2
        for start_ns in sorted(self.counts)[:-kept]:
            del self.counts[start_ns]
