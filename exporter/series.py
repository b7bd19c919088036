"""What is kept of the counts since the start: of a combination of labels, of a boundary, of an SLO.

What grows with the number of label values lies in blocks of `Cells`, of which the objects here are views: a block is
found by its place, and counted into without touching an object. The layout of a block stands beside its view.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from exporter.account import Cells, Distribution, Distributions, Edges, Exemplar, Histogram
from slo_rules.slo import SLO, Objective
from slo_rules.vocabulary import FIRST_TOKEN_SOURCES, METRICS, OUTCOMES, PHASES

TTFT_EDGES: Final = (
    "0.001", "0.005", "0.01", "0.02", "0.04", "0.06", "0.08", "0.1", "0.25", "0.5", "0.75", "1", "2.5", "5", "7.5",
    "10", "20", "40", "80", "160", "320", "640",
)  # fmt: skip
"""Seconds: those of OpenTelemetry's gen_ai.server.time_to_first_token, then doubled."""
TPOT_EDGES: Final = ("0.01", "0.025", "0.05", "0.075", "0.1", "0.15", "0.2", "0.3", "0.4", "0.5", "0.75", "1", "2.5")
"""Those of gen_ai.server.time_per_output_token."""
DURATION_EDGES: Final = tuple(str(Fraction(2**power, 100)) for power in range(18))
"""Those of the gen_ai durations, 0.01 s doubled, up to 1310.72 s."""
EVALUATION_EDGES_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
TOKENS: Final = ("input", "cached", "output", "items")

# A series: when it was touched, its mark of change, counts by outcome, tokens (pairs), whether there were any, the
# places of its histograms, the numbers of its window series plus one. The last two are zero where there is none yet.
TOUCHED, CHANGED, COMPLETIONS = 0, 1, 2
TOKEN_SUMS: Final = COMPLETIONS + len(OUTCOMES)
TOLD: Final = TOKEN_SUMS + 2 * len(TOKENS)
HISTOGRAMS: Final = TOLD + len(TOKENS)
SOURCES: Final = (*FIRST_TOKEN_SOURCES, "")
"""By which TTFT is told apart; last where it is not known what told of the first token."""
OF_TTFT: Final = HISTOGRAMS
OF_TPOT: Final = OF_TTFT + len(SOURCES)
OF_COMPLETION: Final = OF_TPOT + 1
OF_PHASE: Final = OF_COMPLETION + len(OUTCOMES)
NUMBERS: Final = OF_PHASE + len(PHASES)
SERIES_CELLS: Final = NUMBERS + len(METRICS) + len(PHASES)


@dataclass(slots=True)
class Evaluations:
    """How long evaluations took, seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(EVALUATION_EDGES_S) + 1))
    sum_s: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(EVALUATION_EDGES_S, seconds)] += 1
        self.sum_s += seconds


class Series:
    """All that is counted of one combination of labels: a view of a block of cells."""

    def __init__(self, labels: tuple[str, ...], cells: Cells, touched_ns: int) -> None:
        self.labels = labels
        """boundary, model, class, then the declared ones."""
        self.cells = cells
        self.place = cells.allocate(SERIES_CELLS)
        self.touched_ns = touched_ns
        self.ttft: dict[str, Histogram] = {}
        self.tpot: dict[str, Histogram] = {}
        self.completion: dict[str, Histogram] = {}
        self.phase: dict[str, Histogram] = {}

    @property
    def touched_ns(self) -> int:
        """When it was counted last."""
        return self.cells.value(self.place + TOUCHED)

    @touched_ns.setter
    def touched_ns(self, now_ns: int) -> None:
        self.cells.cells[self.place + TOUCHED] = now_ns

    @property
    def version(self) -> int:
        """Goes up with each request."""
        return self.cells.value(self.place + CHANGED)

    @property
    def completions(self) -> list[int]:
        """By outcome, in the order of the vocabulary."""
        return [self.cells.value(self.place + COMPLETIONS + outcome) for outcome in range(len(OUTCOMES))]

    @property
    def input(self) -> int | None:
        """None until a span tells of input tokens; likewise the next three."""
        return self._tokens(0)

    @property
    def cached(self) -> int | None:
        return self._tokens(1)

    @property
    def output(self) -> int | None:
        return self._tokens(2)

    @property
    def items(self) -> int | None:
        return self._tokens(3)

    def _tokens(self, place: int) -> int | None:
        told = self.cells.value(self.place + TOLD + place)
        return self.cells.product(self.place + TOKEN_SUMS + 2 * place) if told else None

    def complete(self, outcome: int, weight: int) -> None:
        """Count requests that ended with an outcome."""
        self.cells.gain(self.place + COMPLETIONS + outcome, weight)
        self.cells.gain(self.place + CHANGED, 1)

    def histogram(self, metric: str, key: str, cell: int, edges: Edges) -> Histogram:
        """A new histogram, found from now on in a cell of the block."""
        place = self.cells.allocate(edges.size)
        found = Histogram(edges, self.cells, place)
        getattr(self, metric)[key] = found
        self.cells.cells[self.place + cell] = place
        return found

    def renew(self, edges: dict[str, Edges], formula: str) -> None:
        """Drop the histograms with other edges than these; find those of TPOT by a formula."""
        block, cells = self.cells.cells, self.cells
        places = set()
        for metric, wanted in edges.items():
            histograms: dict[str, Histogram] = getattr(self, metric)
            for key, each in list(histograms.items()):
                if each.edges_ns != wanted.edges_ns:
                    del histograms[key]
                    cells.release(each.place, each.edges.size)
                    places.add(each.place)
        for cell in range(self.place + HISTOGRAMS, self.place + NUMBERS):
            if block[cell] in places:
                block[cell] = 0
        of_formula = self.tpot.get(formula)
        block[self.place + OF_TPOT] = 0 if of_formula is None else of_formula.place

    def release(self) -> None:
        """Give all of its cells back."""
        for metric in (*METRICS, "phase"):
            for each in getattr(self, metric).values():
                self.cells.release(each.place, each.edges.size)
        self.cells.release(self.place, SERIES_CELLS)


@dataclass(slots=True)
class Traffic:
    """Arrivals of one boundary and class; they carry no model, as it is not known yet."""

    touched_ns: int
    arrivals: Counter[str] = field(default_factory=Counter)
    """By evidence."""
    departures: int = 0
    """Of those that arrived under this class, whatever they were in the end."""
    in_flight: Counter[str] = field(default_factory=Counter)
    """Counted as arrived and not as ended, by evidence: `log`, or `span` for jobs that are known to wait in a queue."""
    place: int = 0
    """Of the cells with what is still to be added."""


@dataclass(slots=True)
class Totals:
    """All that the report says of one boundary since the start."""

    arrivals: Counter[str] = field(default_factory=Counter)
    """By evidence."""
    in_flight: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    distributions: Distributions = field(
        default_factory=lambda: Distributions(len(METRICS) + len(PHASES)), compare=False
    )
    """Of the metrics, then of the phases."""
    metrics: dict[str, Distribution] = field(init=False)
    tokens: Counter[str] = field(default_factory=Counter)
    place: int = field(default=0, compare=False)
    """Of the cells with what is still to be added."""

    def __post_init__(self) -> None:
        self.metrics = {metric: Distribution(self.distributions, place) for place, metric in enumerate(METRICS)}

    @property
    def phases(self) -> dict[str, Distribution]:
        """Those that there were."""
        found = {phase: Distribution(self.distributions, place) for place, phase in enumerate(PHASES, len(METRICS))}
        return {phase: each for phase, each in found.items() if each.count}


@dataclass(slots=True)
class SloCounts:
    """All that is counted of one SLO since the start."""

    good: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    unjudged: Counter[str] = field(default_factory=Counter)
    good_output: int = 0
    objective_eligible: Counter[str] = field(default_factory=Counter)
    objective_good: Counter[str] = field(default_factory=Counter)
    exemplars: dict[str, Exemplar] = field(default_factory=dict)

    @property
    def eligible(self) -> int:
        """Good and bad."""
        return self.good + sum(self.bad.values())


def edges_ns(metric: str, slos: Iterable[SLO]) -> tuple[int, ...]:
    """Bucket edges of a metric: the usual ones, and every declared threshold."""
    usual = {"ttft": TTFT_EDGES, "tpot": TPOT_EDGES}.get(metric, DURATION_EDGES)
    declared = {objective.threshold_ns for objective in objectives_of(slos) if objective.metric == metric}
    return tuple(sorted(declared.union(int(Fraction(edge) * 1_000_000_000) for edge in usual)))


def objectives_of(slos: Iterable[SLO]) -> Iterable[Objective]:
    """All objectives of all SLOs."""
    for slo in slos:
        yield from slo.objectives
