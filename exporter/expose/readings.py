"""What the windows say of each series: percentiles, the samples behind them, and the longest of all.

It is much, so it is read in turns with others: one series at a time, all windows of it at once.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final, TypeVar

from exporter.expose.text import Grid
from exporter.histogram import reading_ns
from exporter.report import PERCENTILES
from exporter.tally import Tally
from slo_rules.units import format_duration
from slo_rules.vocabulary import METRICS

TURN_S: Final = 0.001
"""For about so long there is nobody else's turn."""
KINDS: Final = (*METRICS, "phase")
SHARES: Final = tuple((percentile, 100) for percentile in PERCENTILES)
"""As fractions."""
AND_LONGEST: Final = (*SHARES, (1, 1))
NOTHING: Final = [None] * len(PERCENTILES)


Item = TypeVar("Item")


def in_turns(items: Iterable[Item], work: Callable[[Item], None]) -> Iterator[None]:
    """Do some work for each item; halts where it is somebody else's turn."""
    begun = time.perf_counter()
    for item in items:
        work(item)
        if time.perf_counter() - begun > TURN_S:
            yield
            begun = time.perf_counter()


class Readings:
    """All is there when `read` has come to its end. Windows may not move on meanwhile."""

    def __init__(self, tally: Tally) -> None:
        self.ranked = tally.windows.ranked
        self.lengths = tally.window_lengths
        by_kind: dict[str, list[tuple[tuple[str, ...], int]]] = {kind: [] for kind in KINDS}
        for series in tally.numbers.items():
            if series[0][0] in by_kind:
                by_kind[series[0][0]].append(series)
        self.series = list(chain.from_iterable(by_kind.values()))
        """Kind and labels, and the number."""
        windows = [(format_duration(length),) for length in self.lengths]
        ends = [(*window, str(percentile)) for window in windows for percentile in PERCENTILES]
        self.percentiles = {kind: Grid(ends, "ns") for kind in KINDS}
        self.samples = Grid(windows)
        self.shown: dict[str, set[int]] = {metric: set() for metric in METRICS}
        """Slots of the percentiles."""
        self.longest: dict[tuple[str, str, int], int] = {}
        """Slot of the longest request, by boundary, class and window."""
        self.ns: dict[int, int] = {}

    def read(self) -> Iterator[None]:
        """Read all; halts where it is somebody else's turn."""
        return in_turns(self.series, self.read_series)

    def read_series(self, series: tuple[tuple[str, ...], int]) -> None:
        """Read all windows of one."""
        key, number = series
        kind, key = key[0], key[1:]
        counts: list[int | None] = []
        percentiles: list[int | None] = []
        shares = AND_LONGEST if kind == "completion" else SHARES
        for length in self.lengths:
            found = self.ranked(length, number, shares)
            if found is None:
                counts.append(0)
                percentiles += NOTHING
                continue
            count, *slots = found
            counts.append(count)
            self.note(kind, key, length, slots)
            for slot in slots:
                percentiles.append(self.reading(slot))
        if kind == "phase":
            self.percentiles[kind].add(key[1:], key[:1], percentiles)
        else:
            self.percentiles[kind].add(key, (), percentiles)
            self.samples.add(key, (kind,), counts)

    def note(self, kind: str, key: tuple[str, ...], length: int, slots: list[int]) -> None:
        """Note what is shown and what was longest; leaves the slots of what is shown."""
        if kind == "completion":
            place = (key[0], key[2], length)
            self.longest[place] = max(slots.pop(), self.longest.get(place, 0))
        if kind != "phase":
            self.shown[kind].update(slots)

    def reading(self, slot: int) -> int:
        """What a percentile in a slot reads."""
        ns = self.ns.get(slot)
        if ns is None:
            ns = self.ns[slot] = reading_ns(slot)
        return ns
