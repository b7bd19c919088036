"""The error budget of one SLO, and how fast it burns: good and bad requests over long times, by event time.

What rolls along (a period, a window of the alerts) is a ring of slices, read as of an instant as the slices that have
a part in it: at most one slice too much at each end, 1/720 of a period (an hour of 30 days) and 1/120 of a window. A
period of the calendar is exact: what ended since it began and before the next begins. All know only what this program
has seen; the rules over the exported counters outlive it.

Requests are counted by the second first, and put into the rings when these are read: to count one costs the same
however many windows there are.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from slo_rules.slo import SLO, Calendar

SLICES: Final = 720
"""Of a rolling period."""
WINDOW_SLICES: Final = 120
KEPT: Final = 2
"""Periods of the calendar that are kept: the present one, and one beside it for what is early or late."""
SECOND_NS: Final = 1_000_000_000
MOST_PENDING: Final = 3600
"""Seconds that may wait to be put into the rings where nobody reads."""


class Ring:
    """Good and bad requests of the last `length_ns`, in slices."""

    def __init__(self, length_ns: int, slices: int) -> None:
        self.length_ns = length_ns
        self.slices = slices
        self.slice_ns = -(-length_ns // slices)
        self.counts: dict[int, list[int]] = {}
        """Good and bad, by the start of the slice."""

    def add(self, at_ns: int, good: int, bad: int) -> None:
        """Count what ended at a time."""
        _add(self.counts, at_ns // self.slice_ns * self.slice_ns, good, bad, self.slices + 2)

    def read(self, as_of_ns: int) -> tuple[int, int, int]:
        """Good, bad, and the start of what they are counted over, in what ends at an instant."""
        from_ns = as_of_ns - self.length_ns
        inside = [counts for at, counts in self.counts.items() if from_ns - self.slice_ns < at <= as_of_ns]
        return sum(good for good, _ in inside), sum(bad for _, bad in inside), from_ns


class CalendarCounts:
    """Good and bad requests by period of the calendar."""

    def __init__(self, calendar: Calendar) -> None:
        self.calendar = calendar
        self.counts: dict[int, list[int]] = {}
        """Good and bad, by the start of the period."""
        self._bounds = (0, 0)

    def add(self, at_ns: int, good: int, bad: int) -> None:
        """Count what ended at a time."""
        _add(self.counts, self._start(at_ns), good, bad, KEPT)

    def read(self, as_of_ns: int) -> tuple[int, int, int]:
        """Good, bad, and the start of what they are counted over, in the period that holds an instant."""
        start_ns = self._start(as_of_ns)
        good, bad = self.counts.get(start_ns, (0, 0))
        return good, bad, start_ns

    def _start(self, at_ns: int) -> int:
        if not self._bounds[0] <= at_ns < self._bounds[1]:
            self._bounds = self.calendar.bounds(at_ns)
        return self._bounds[0]


def _add(counts: dict[int, list[int]], start_ns: int, good: int, bad: int, kept: int) -> None:
    """Add to a slice; what is older than any reading will need is dropped, by the newest."""
    slice_counts = counts.get(start_ns)
    if slice_counts is None:
        slice_counts = counts[start_ns] = [0, 0]
        for start in sorted(counts)[:-kept]:
            del counts[start]
    slice_counts[0] += good
    slice_counts[1] += bad


class Budget:
    """Counts of one SLO in the units of its caller; none without a target, which has a period."""

    def __init__(self, slo: SLO, lengths_ns: Sequence[int] = (), before: "Budget | None" = None) -> None:
        """Counts for the period of `slo` and windows of some lengths; those of `before` are taken over."""
        self.pending: dict[int, list[int]] = {}
        """Good and bad, by the start of the second."""
        self.period = _period(slo)
        self.windows = {ns: Ring(ns, WINDOW_SLICES) for ns in lengths_ns if ns < (slo.period_ns or 0)}
        if before is not None and self.period is not None:
            before.settle()
            self._take_over(before)

    def _take_over(self, before: "Budget") -> None:
        mine, theirs = self.period, before.period
        if isinstance(mine, Ring) and isinstance(theirs, Ring) and mine.length_ns == theirs.length_ns:
            self.period = theirs
        elif isinstance(mine, CalendarCounts) and isinstance(theirs, CalendarCounts):
            self.period = theirs if mine.calendar == theirs.calendar else mine
        self.windows |= {ns: ring for ns, ring in before.windows.items() if ns in self.windows}

    def add(self, at_ns: int, good: int, bad: int) -> None:
        """Count what ended at a time."""
        if self.period is None:
            return
        counts = self.pending.get(at_ns // SECOND_NS)
        if counts is None:
            if len(self.pending) >= MOST_PENDING:
                self.settle()
            counts = self.pending[at_ns // SECOND_NS] = [0, 0]
        counts[0] += good
        counts[1] += bad

    def settle(self) -> None:
        """Put what was counted by the second where it belongs."""
        for second, (good, bad) in self.pending.items():
            for each in (self.period, *self.windows.values()):
                if each is not None:
                    each.add(second * SECOND_NS, good, bad)
        self.pending.clear()

    def read(self, as_of_ns: int) -> tuple[int, int, int]:
        """Good, bad, and the start of what they are counted over, in the period that holds an instant or ends there."""
        self.settle()
        return (0, 0, as_of_ns) if self.period is None else self.period.read(as_of_ns)

    def read_windows(self, as_of_ns: int) -> Mapping[int, tuple[int, int]]:
        """Good and bad by the length of the window that ends at an instant."""
        self.settle()
        return {ns: ring.read(as_of_ns)[:2] for ns, ring in self.windows.items()}


def _period(slo: SLO) -> "Ring | CalendarCounts | None":
    if slo.calendar is not None:
        return CalendarCounts(slo.calendar)
    return None if slo.period_ns is None else Ring(slo.period_ns, SLICES)
