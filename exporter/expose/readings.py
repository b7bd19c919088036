"""What the windows say of each series: percentiles, the samples behind them, and the longest of all.

There are many, and each takes a while, so they are read in turns with others: one series at a time, all of it at once.
"""

import time
from collections.abc import Iterator
from typing import Final

from exporter.expose.text import Grid
from exporter.histogram import quantile_slots, reading_ns
from exporter.report import PERCENTILES
from exporter.tally import Tally
from slo_rules.units import format_duration
from slo_rules.vocabulary import METRICS

TURN_S: Final = 0.002
"""For so long they are read in one go."""
KINDS: Final = (*METRICS, "phase")
ASKED: Final = (*PERCENTILES, 100)
"""The last one is the longest."""
NOTHING: Final = [None] * len(PERCENTILES)


class Readings:
    """All is there when `read` has come to its end. Windows may not move on meanwhile; a reload may replace them."""

    def __init__(self, tally: Tally) -> None:
        self.slots = tally.windows.slots
        self.lengths = tally.window_lengths
        self.series: dict[str, list[tuple[tuple[str, ...], int]]] = {kind: [] for kind in KINDS}
        for key, number in tally.numbers.items():
            series = self.series.get(key[0])
            if series is not None:
                series.append((key[1:], number))
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
        """Read all; halts every `TURN_S`."""
        begun = time.perf_counter()
        for kind in KINDS:
            for key, number in self.series[kind]:
                self.read_series(kind, key, number)
                if time.perf_counter() - begun > TURN_S:
                    yield
                    begun = time.perf_counter()

    def read_series(self, kind: str, key: tuple[str, ...], number: int) -> None:
        """Read all windows of one series."""
        counts: list[int | None] = []
        percentiles: list[int | None] = []
        for length in self.lengths:
            count, slots = quantile_slots(self.slots(length, number), ASKED)
            counts.append(count)
            if slots:
                self.note(kind, key, length, slots)
                percentiles += [self.reading(slot) for slot in slots]
            else:
                percentiles += NOTHING
        if kind == "phase":
            self.percentiles[kind].add(key[1:], key[:1], percentiles)
        else:
            self.percentiles[kind].add(key, (), percentiles)
            self.samples.add(key, (kind,), counts)

    def note(self, kind: str, key: tuple[str, ...], length: int, slots: list[int]) -> None:
        """Note what is shown and what was longest; leaves the slots of what is shown."""
        longest = slots.pop()
        if kind == "phase":
            return
        self.shown[kind].update(slots)
        if kind == "completion":
            place = (key[0], key[2], length)
            self.longest[place] = max(longest, self.longest.get(place, 0))

    def reading(self, slot: int) -> int:
        """What a percentile in a slot reads."""
        ns = self.ns.get(slot)
        if ns is None:
            ns = self.ns[slot] = reading_ns(slot)
        return ns
