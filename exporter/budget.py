"""Good and bad requests of the last period of an SLO, so that the budget shown here is that of the rules.

A period is long (30 days) and its counts are wanted to the request, not its order: so it is cut into `SLICES` slices of
event time, and read over the newest so many of them, the present one included. That covers the period less one slice
at least, an edge of 1/720 of it. What happened before this process started is not known here; Prometheus knows it.
"""

from typing import Final

SLICES: Final = 720
"""An hour each for 30 days."""


class Budget:
    """Sums over a sliding period; amounts are of any unit."""

    __slots__ = ("_slices", "slice_ns")

    def __init__(self, period_ns: int) -> None:
        self.slice_ns = max(1, period_ns // SLICES)
        self._slices: dict[int, tuple[int, int]] = {}

    def add(self, time_ns: int, good: int, bad: int) -> None:
        """Count what ended at a time."""
        index = time_ns // self.slice_ns
        before = self._slices.get(index)
        if before is None:
            self._forget(index)
            before = (0, 0)
        self._slices[index] = (before[0] + good, before[1] + bad)

    def counts(self, now_ns: int) -> tuple[int, int]:
        """Good and bad of the period up to a time."""
        newest = now_ns // self.slice_ns
        inside = [counts for index, counts in self._slices.items() if newest - SLICES < index <= newest]
        return sum(good for good, _ in inside), sum(bad for _, bad in inside)

    def _forget(self, index: int) -> None:
        """Drop what no reading needs when there is something as new as `index`; twice a period is kept at most."""
        if len(self._slices) >= 2 * SLICES:
            self._slices = {each: counts for each, counts in self._slices.items() if each > index - SLICES}
