"""What is counted of requests: since the start, and in sliding windows.

Counts are integers in units of 1/WEIGHT_ONE request, since a sampled request may stand for several, and sums are
integer nanoseconds: adding them up gives the same whatever the order. Division is left to those who show them.

Everything of one combination of boundary, model, class and declared labels is one `Series`, so that it can expire as
one. What SLOs declare starts at zero and never expires.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice, product
from typing import Final, NamedTuple

from exporter import record
from exporter.budget import Budget
from exporter.config import Settings
from exporter.flight import Flight, Flights, Limit, Limits
from exporter.histogram import LIMIT_NS, slot_of_ns
from exporter.judge import Judgement, in_schedule, is_sample, judge, outermost, selects, value_of
from exporter.measure import Measured, Request, classify
from exporter.recognise import OTHER, Strings
from exporter.record import MISSING, WEIGHT_ONE
from exporter.tree import QUEUE, Row
from exporter.window import Moment, Windows
from slo_rules.slo import SLO, Objective
from slo_rules.vocabulary import EVIDENCES, METRICS, OUTCOMES

MAX_LIMITS: Final = 10_000
"""Combinations of labels for which it is remembered which limits apply."""
NOWHERE: Final = Moment()
"""Where what came too late for the windows is put."""
END_TO_END: Final = "end_to_end"
"""Where logs tell of arrivals."""

TTFT_EDGES: Final = (
    "0.001", "0.005", "0.01", "0.02", "0.04", "0.06", "0.08", "0.1", "0.25", "0.5", "0.75", "1", "2.5", "5", "7.5",
    "10", "20", "40", "80", "160", "320", "640",
)  # fmt: skip
"""Seconds: those of OpenTelemetry's gen_ai.server.time_to_first_token, then doubled."""
TPOT_EDGES: Final = ("0.01", "0.025", "0.05", "0.075", "0.1", "0.15", "0.2", "0.3", "0.4", "0.5", "0.75", "1", "2.5")
"""Those of gen_ai.server.time_per_output_token."""
DURATION_EDGES: Final = tuple(str(Fraction(2**power, 100)) for power in range(18))
"""Those of the gen_ai durations, 0.01 s doubled, up to 1310.72 s."""


class Exemplar(NamedTuple):
    """One request that stands for a bucket or a counter."""

    trace_hi: int
    trace_lo: int
    span: int
    time_ns: int


@dataclass(slots=True)
class Histogram:
    """Cumulative classic histogram: counts between edges (upper ones inclusive), and the sum of the values."""

    edges_ns: tuple[int, ...]
    counts: list[int]
    sum: int = 0
    exemplars: dict[int, tuple[Exemplar, int]] = field(default_factory=dict)
    """By bucket: the newest request in it, and its value."""

    @classmethod
    def empty(cls, edges_ns: tuple[int, ...]) -> "Histogram":
        """Nothing counted yet."""
        return cls(edges_ns, [0] * (len(edges_ns) + 1))

    def add(self, value_ns: int, weight: int, exemplar: Exemplar) -> None:
        """Count one value."""
        place = bisect_left(self.edges_ns, value_ns)
        self.counts[place] += weight
        self.sum += value_ns * weight
        self.exemplars[place] = (exemplar, value_ns)


EVALUATION_EDGES_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)


@dataclass(slots=True)
class Evaluations:
    """How long evaluations took, seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(EVALUATION_EDGES_S) + 1))
    sum_s: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(EVALUATION_EDGES_S, seconds)] += 1
        self.sum_s += seconds


@dataclass(slots=True)
class Distribution:
    """Everything since the start of one metric at one boundary, for the report."""

    slots: dict[int, int] = field(default_factory=dict)
    count: int = 0
    sum: int = 0
    largest_ns: int = 0

    def add(self, value_ns: int, slot: int, weight: int) -> None:
        """Count one value, whose slot in the layout is known."""
        self.slots[slot] = self.slots.get(slot, 0) + weight
        self.count += weight
        self.sum += value_ns * weight
        self.largest_ns = max(self.largest_ns, value_ns)


@dataclass(slots=True)
class Series:
    """All that is counted of one combination of labels."""

    labels: tuple[str, ...]
    """boundary, model, class, then the declared ones."""
    touched_ns: int
    completions: list[int] = field(default_factory=lambda: [0] * len(OUTCOMES))
    input: int | None = None
    """None until a span tells of input tokens; likewise the next three."""
    cached: int | None = None
    output: int | None = None
    items: int | None = None
    ttft: dict[str, Histogram] = field(default_factory=dict)
    tpot: dict[str, Histogram] = field(default_factory=dict)
    completion: dict[str, Histogram] = field(default_factory=dict)
    phase: dict[str, Histogram] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    """Window series by metric or phase."""


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


@dataclass(slots=True)
class Totals:
    """All that the report says of one boundary since the start."""

    arrivals: Counter[str] = field(default_factory=Counter)
    """By evidence."""
    in_flight: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    metrics: dict[str, Distribution] = field(default_factory=lambda: {metric: Distribution() for metric in METRICS})
    phases: dict[str, Distribution] = field(default_factory=dict)
    tokens: Counter[str] = field(default_factory=Counter)


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


# Slots of the window series of an SLO, and of an objective.
GOOD, BAD, UNKNOWN, GOOD_OUTPUT, ENDED, ENDED_OUTPUT = range(6)
SAMPLES, SURELY_MET, SURELY_BROKEN = range(3)
# Slots of the tokens of a boundary.
INPUT, CACHED, OUTPUT, ITEMS = range(4)


class Tally:
    """Counts finished requests."""

    def __init__(self, settings: Settings, slos: Sequence[SLO], strings: Strings) -> None:
        self.strings = strings
        self._declare(settings, slos)
        self.windows = Windows(self.window_lengths)
        self.slo_counts = {slo.name: SloCounts() for slo in self.slos}
        self.budgets = {slo.name: Budget(slo, self._burn_lengths()) for slo in self.slos}
        self.values: dict[str, set[str]] = {name: set() for name in self.label_names}
        self.numbers: dict[tuple[str, ...], int] = {}
        self.next_number = 0
        self.series: dict[tuple[str, ...], Series] = {}
        self.traffic: dict[tuple[str, str], Traffic] = {}
        self.totals: dict[str, Totals] = {}
        self.overflow: Counter[str] = Counter()
        self.out_of_range: Counter[str] = Counter()
        self.negative = 0
        self.joined: Counter[str] = Counter()
        self.unmatched: Counter[str] = Counter()
        self.waiting: dict[tuple[int, int], list[str]] = {}
        """By trace, the classes of the jobs that are known to wait in a queue."""
        self.flights = Flights()
        self.limits: dict[tuple[tuple[str, ...], ...], Limits] = {}
        """By the SLOs out of schedule and the labels that a record gives, the limits that its request may break."""
        self.now_ns = 0
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self._start_at_zero()

    def _declare(self, settings: Settings, slos: Sequence[SLO]) -> None:
        self.settings = settings
        self.slos = tuple(slos)
        self.judged_at = {slo.name: outermost(slo) for slo in self.slos}
        self.published = set(settings.publish)
        self.window_lengths = window_lengths(settings, slos)
        self.edges = {metric: edges_ns(metric, self.slos) for metric in (*METRICS, "phase")}
        self.label_names = ("model", "class", *(label.name for label in settings.labels.declared))

    def reconfigure(self, settings: Settings, slos: Sequence[SLO]) -> None:
        """Go on with other settings: SLOs keep their counts by name.

        A histogram with other edges begins anew; so do, in the windows, an SLO with other limits and, where labels
        change, all that carries them, and a budget with another period.
        """
        names, judged = self.label_names, {slo.name: _judged_by(slo) for slo in self.slos}
        self._declare(settings, slos)
        self.windows = Windows(self.window_lengths, self.windows)
        self.slo_counts = {slo.name: self.slo_counts.get(slo.name) or SloCounts() for slo in self.slos}
        lengths = self._burn_lengths()
        self.budgets = {slo.name: Budget(slo, lengths, self.budgets.get(slo.name)) for slo in self.slos}
        if names != self.label_names:
            self.series.clear()
            self._drop_numbers(lambda key: key[0] in (*METRICS, "phase"))
            self.values = {name: self.values.get(name, set()) for name in self.label_names}
        changed = judged.keys() - {slo.name for slo in self.slos if judged.get(slo.name) == _judged_by(slo)}
        self._drop_numbers(lambda key: key[0] in ("slo", "objective", "value") and key[1] in changed)
        for series in self.series.values():
            for metric in (*METRICS, "phase"):
                histograms = getattr(series, metric)
                for key in [key for key, each in histograms.items() if each.edges_ns != self.edges[metric]]:
                    del histograms[key]
        self._start_at_zero()
        self.limits.clear()
        for flight in self.flights.flights.values():
            flight.row[record.LABELS :] = [MISSING] * len(settings.labels.declared)
            flight.limits = self._limits(flight.row, flight.arrived_ns)

    def _burn_lengths(self) -> list[int]:
        """The windows of the alerts that are none of ours."""
        return [ns for ns in self.settings.alerts.burn_lengths_ns if ns not in self.window_lengths]

    def _drop_numbers(self, drop: Callable[[tuple[str, ...]], bool]) -> None:
        """Forget window series, so that those of the same names begin anew; what they held leaves in its time."""
        self.numbers = {key: number for key, number in self.numbers.items() if not drop(key)}

    def _start_at_zero(self) -> None:
        """Begin to count what SLOs speak of: a counter that began with its first event would hide it from increase().

        Which models and classes there are is known as far as selectors, class rules and default labels say.
        """
        self.lasting: set[tuple[str, ...]] = set()
        for slo in self.slos:
            for boundary in sorted(slo.boundaries & self.published):
                for values in islice(product(*self._foreseen(slo)), self.settings.limits.label_values):
                    capped = self._capped(dict(zip(self.label_names, values, strict=True)))
                    self.lasting |= {(boundary, *capped), (boundary, capped[1])}
                    self.traffic.setdefault((boundary, capped[1]), Traffic(0))
                    if (boundary, *capped) not in self.series:
                        self._series((boundary, *capped), 0)

    def _foreseen(self, slo: SLO) -> Iterator[tuple[str, ...]]:
        """The values of each label that an SLO's requests may have, as far as they are known beforehand."""
        selected = dict(slo.selector)
        labels = self.settings.labels
        known: dict[str, tuple[str, ...]] = {label.name: (label.default,) for label in labels.declared}
        known["model"] = (labels.model_default,)
        known["class"] = tuple(dict.fromkeys(("default", *(rule.name for rule in self.settings.classes))))
        for name in self.label_names:
            yield selected.get(name, known[name])

    # Counting.

    def count(self, request: Request, now_ns: int, *, in_windows: bool) -> list[tuple[Measured, dict[str, Judgement]]]:
        """Count one request at all its boundaries; gives them back with what the SLOs say of each."""
        labels = request.texts
        self.negative += request.negative
        if any(not row.open for row in request.boundaries):
            evicted = any(row.evicted for row in request.boundaries)
            self.joined["evicted" if evicted else "whole" if request.whole else "partial"] += 1
            if request.unmatched is not None:
                self.unmatched[request.unmatched] += 1
        capped = self._capped(labels)
        for row in request.boundaries:
            if row.boundary in self.published:
                told = request.flights if row.boundary == END_TO_END else ()
                self._count_row(row, capped, self._weight(row, request), now_ns, in_windows, told)
        return [(row, self._judge(row, request, labels, in_windows)) for row in request.boundaries]

    def _weight(self, row: Measured, request: Request) -> int:
        """Logs tell of every request, but not of the engine's part: there a span stands for what it was sampled for."""
        own = row.row[record.WEIGHT]
        if not request.flights or row.boundary != "model" or own == MISSING or self.settings.sampling != "honour":
            return request.weight
        return own

    def labels_of(self, request: Request) -> dict[str, str]:
        """The labels of a request, as the spans give them: not yet bounded."""
        return self.texts(request.model, request.klass, request.labels)

    def texts(self, model: int, klass: int, numbers: Sequence[int]) -> dict[str, str]:
        labels = {"model": self._text(model, self.settings.labels.model_default)}
        for label, number in zip(self.settings.labels.declared, numbers, strict=True):
            labels[label.name] = self._text(number, label.default)
        own = None if klass == MISSING else self.strings.text(klass)
        labels["class"] = classify(own, [(rule.name, rule.when) for rule in self.settings.classes], labels)
        return labels

    def _text(self, number: int, default: str) -> str:
        return default if number == MISSING else self.strings.text(number)

    def _capped(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Label values within their bounds: model, class, then the declared ones."""
        return tuple(self._within_bounds(name, labels[name]) for name in self.label_names)

    def _within_bounds(self, name: str, value: str) -> str:
        values = self.values[name]
        if value in values or value in (OTHER, ""):
            return value
        if len(values) >= self.settings.limits.label_values:
            self.overflow[name] += 1
            return OTHER
        values.add(value)
        return value

    def _count_row(
        self, row: Measured, capped: tuple[str, ...], weight: int, now_ns: int, in_windows: bool,
        told: Sequence[Flight],
    ) -> None:  # fmt: skip
        totals = self.totals.setdefault(row.boundary, Totals())
        entered = [each for each in told if each.entered]
        if not row.announced and not entered:
            at_ns = row.arrived_ns if row.arrived_ns is not None else row.row[record.START]
            if told:
                at_ns = min(each.arrived_ns for each in told)
            queued = row.row[record.ROLE] == QUEUE and row.row[record.ENQUEUED] != MISSING
            evidence = "log" if told else "span" if queued else "ended"
            self._arrive(row.boundary, capped[1], at_ns, evidence, weight, now_ns, in_windows)
        if row.open:
            totals.in_flight += weight
            self._traffic(row.boundary, capped[1], now_ns).in_flight["span"] += weight
            self.waiting.setdefault(_trace_of(row), []).append(capped[1])
            return
        labels_of_series = (row.boundary, *capped)
        if row.announced or entered:
            self._leave(row, totals, labels_of_series, weight, now_ns, entered)
        else:
            self._traffic(row.boundary, capped[1], now_ns).departures += weight
        came_as = entered[0].klass if entered else capped[1]
        self._complete(row, totals, labels_of_series, came_as, weight, now_ns, in_windows)

    def _traffic(self, boundary: str, klass: str, now_ns: int) -> Traffic:
        traffic = self.traffic.setdefault((boundary, klass), Traffic(now_ns))
        traffic.touched_ns = now_ns
        return traffic

    def _leave(
        self, row: Measured, totals: Totals, labels: tuple[str, ...], weight: int, now_ns: int,
        entered: Sequence[Flight],
    ) -> None:  # fmt: skip
        """Requests leave under the class under which they were seen to arrive; what came then may have said less.

        Several arrivals that turn out to be one request stay several, and it is not known how the others ended.
        """
        classes = self.waiting.pop(_trace_of(row), [])
        left = [(klass, "span") for klass in [*classes, *[labels[2]] * row.announced][: row.announced]]
        left += [(each.klass, "log") for each in entered]
        for klass, evidence in left:
            totals.in_flight -= weight
            traffic = self._traffic(row.boundary, klass, now_ns)
            traffic.in_flight[evidence] -= weight
            traffic.departures += weight
        if classes[row.announced :]:
            self.waiting[_trace_of(row)] = classes[row.announced :]
        if len(left) > 1:
            others = (len(left) - 1) * weight
            totals.outcomes["unknown"] += others
            self._series(labels, now_ns).completions[OUTCOMES.index("unknown")] += others

    def _arrive(
        self, boundary: str, klass: str, at_ns: int, evidence: str, weight: int, now_ns: int, in_windows: bool
    ) -> None:
        self.totals.setdefault(boundary, Totals()).arrivals[evidence] += weight
        self._traffic(boundary, klass, now_ns).arrivals[evidence] += weight
        self.first_ns = at_ns if self.first_ns is None else min(self.first_ns, at_ns)
        if in_windows:
            number = self.number("arrivals", boundary, klass)
            self.windows.add(at_ns, number, EVIDENCES.index(evidence), weight)

    # What logs tell of before it ends.

    def flight_of(self, row: Row, flush_ns: int) -> Flight:
        """A flight whose first record is `row`."""
        labels = self.texts(row[record.MODEL], row[record.CLASS], row[record.LABELS :])
        klass = self._within_bounds("class", labels["class"])
        lag_ns = 0 if row[record.EMITTED] == MISSING else row[record.SEEN] - row[record.EMITTED]
        limits = self._limits(row, row[record.ARRIVED])
        return Flight(row, klass, limits, flush_ns, row[record.SEEN], lag_ns, arrived_ns=row[record.ARRIVED])

    def enter(self, flight: Flight, now_ns: int, *, in_windows: bool) -> None:
        """Count a request as arrived and in flight."""
        flight.entered = True
        if END_TO_END in self.published:
            self._arrive(END_TO_END, flight.klass, flight.arrived_ns, "log", WEIGHT_ONE, now_ns, in_windows)
            self.totals[END_TO_END].in_flight += WEIGHT_ONE
            self._traffic(END_TO_END, flight.klass, now_ns).in_flight["log"] += WEIGHT_ONE

    def watch(self, flight: Flight, now_ns: int, *, in_windows: Callable[[int], bool]) -> None:
        """Count what a request is proven to have missed; note when to look at it again.

        `in_windows`: whether what happened at a time may still enter the windows.
        """
        later = []
        for slo, objective, sure in flight.limits:
            if not sure or slo.name in flight.missed:
                continue
            if flight.broken(objective, now_ns):
                if flight.inner:  # the other gateway's records tell of the same request
                    continue
                at_ns = flight.arrived_ns + objective.threshold_ns
                self._miss(slo, objective, flight, at_ns, in_windows(at_ns))
            elif objective.metric == "completion":
                later.append(flight.due_ns(objective))
        self.flights.look_again(flight, later)

    def _miss(self, slo: SLO, objective: Objective, flight: Flight, at_ns: int, in_windows: bool) -> None:
        flight.missed[slo.name] = objective.name
        counts = self.slo_counts[slo.name]
        counts.bad[objective.name] += WEIGHT_ONE
        counts.objective_eligible[objective.name] += WEIGHT_ONE
        self.budgets[slo.name].add(at_ns, 0, WEIGHT_ONE)
        if in_windows:
            self.windows.add(at_ns, self.number("slo", slo.name), BAD, WEIGHT_ONE)

    def _limits(self, row: Row, arrived_ns: int) -> Limits:
        """The limits that a request may break, by what a record of it says of its labels.

        Outside of a schedule limits neither bind nor bound anything.
        """
        known = self._known_labels(row)
        outside = tuple(slo.name for slo in self.slos if slo.schedule and not slo.schedule.covers(arrived_ns))
        key = (outside, *sorted(known.items()))
        limits = self.limits.get(key)
        if limits is None:
            if len(self.limits) >= MAX_LIMITS:
                self.limits.clear()
            limits = tuple(limit for limit in self._limits_by(known) if limit.slo.name not in outside)
            self.limits[key] = limits
        return limits

    def _limits_by(self, known: Mapping[str, str]) -> Iterator[Limit]:
        for slo in self.slos:
            if self.judged_at[slo.name] != END_TO_END or END_TO_END not in self.published:
                continue
            if any(label in known and known[label] not in values for label, values in slo.selector):
                continue
            sure = all(label in known for label, _ in slo.selector)
            for objective in slo.objectives:
                if objective.per_request and objective.boundary == END_TO_END:
                    yield Limit(slo, objective, sure)

    def _known_labels(self, row: Row) -> dict[str, str]:
        """The labels that a record gives itself: those that it does not give, a span may yet."""
        numbers = {"model": row[record.MODEL], "class": row[record.CLASS]}
        for place, label in enumerate(self.settings.labels.declared):
            numbers[label.name] = row[record.LABELS + place]
        return {name: self.strings.text(number) for name, number in numbers.items() if number != MISSING}

    def _complete(
        self, row: Measured, totals: Totals, labels: tuple[str, ...], came_as: str, weight: int, now_ns: int,
        in_windows: bool,
    ) -> None:  # fmt: skip
        """`came_as`: the class of the arrival, under which the windows set it against its end."""
        series = self._series(labels, now_ns)
        at_ns = ended_at(row)
        self.last_ns = at_ns if self.last_ns is None else max(self.last_ns, at_ns)
        outcome = OUTCOMES.index(row.outcome)
        series.completions[outcome] += weight
        totals.outcomes[row.outcome] += weight
        moment = self.windows.at(at_ns) if in_windows else NOWHERE
        moment.add(self.number("outcomes", row.boundary, came_as), outcome, weight)
        self._tokens(row, totals, series, weight, moment)
        self._values(row, totals, series, weight, moment)

    def _series(self, labels: tuple[str, ...], now_ns: int) -> Series:
        series = self.series.get(labels)
        if series is None:
            if len(self.series) >= self.settings.limits.series:
                self.overflow["series"] += 1
                labels = (labels[0], *(OTHER for _ in labels[1:]))
                series = self.series.get(labels)
            if series is None:
                series = self.series[labels] = Series(labels, now_ns)
        series.touched_ns = now_ns
        return series

    def _tokens(self, row: Measured, totals: Totals, series: Series, weight: int, moment: Moment) -> None:
        number = self.number("tokens", row.boundary)
        for slot, name in enumerate(("input", "cached", "output", "items")):
            amount = getattr(row, name)
            if amount is None:
                continue
            setattr(series, name, (getattr(series, name) or 0) + amount * weight)
            totals.tokens[name] += amount * weight
            moment.add(number, slot, amount * weight)

    def _values(self, row: Measured, totals: Totals, series: Series, weight: int, moment: Moment) -> None:
        exemplar = exemplar_of(row, ended_at(row))
        for metric in METRICS:
            value = value_of(metric, row)
            if value is None:
                continue
            sample = is_sample(metric, row)
            if sample or metric == "completion":
                key = self._histogram_key(metric, row)
                self._cumulate(getattr(series, metric), key, metric, value.ns, weight, exemplar)
            if sample:
                number = series.numbers.get(metric)
                if number is None:
                    number = series.numbers[metric] = self.number(metric, *series.labels)
                self._sample(totals.metrics[metric], number, metric, value.ns, weight, moment)
        for phase, ns in row.phases.items():
            self._cumulate(series.phase, phase, "phase", ns, weight, exemplar)
            number = series.numbers.get(phase)
            if number is None:
                number = series.numbers[phase] = self.number("phase", phase, *series.labels)
            distribution = totals.phases.get(phase)
            if distribution is None:
                distribution = totals.phases[phase] = Distribution()
            self._sample(distribution, number, "phase", ns, weight, moment)

    def _histogram_key(self, metric: str, row: Measured) -> str:
        """The label by which a metric's histogram is told apart: where a first token came from, formula, outcome."""
        if metric == "ttft":
            return row.first_token_from or ""
        return row.outcome if metric == "completion" else self.settings.tpot.formula

    def _cumulate(
        self, histograms: dict[str, Histogram], key: str, metric: str, ns: int, weight: int, exemplar: Exemplar
    ) -> None:
        histogram = histograms.get(key)
        if histogram is None:
            histogram = histograms[key] = Histogram.empty(self.edges[metric])
        histogram.add(ns, weight, exemplar)

    def _sample(
        self, distribution: Distribution, number: int, metric: str, ns: int, weight: int, moment: Moment
    ) -> None:
        if ns > LIMIT_NS:
            self.out_of_range[metric] += 1
        slot = slot_of_ns(ns)
        distribution.add(ns, slot, weight)
        moment.add(number, slot, weight)

    # TEMPORARY
    epoch = 0

    def plan(self, texts, boundaries):
        return texts, boundaries

    def announce(self, plan, cells, weight, now_ns, in_windows):
        self.count_sheet(plan, cells, weight, now_ns, in_windows, 0, -1, 0, -1, True)

    def count_sheet(self, plan, cells, weight, now_ns, in_windows, joined, unmatched, negative, announced, opened=False):
        from exporter import sheet as S
        from exporter.measure import Interval
        from slo_rules.vocabulary import FIRST_TOKEN_SOURCES, PHASES
        texts, boundaries = plan
        rows = []
        N = lambda v: None if v == MISSING else v
        for k, name in enumerate(boundaries):
            c = [cells[i] for i in range(k * S.WIDTH, (k + 1) * S.WIDTH)]
            row = [MISSING] * 60
            row[0], row[1], row[2] = c[0], c[1], c[2]
            row[record.START], row[record.END] = c[S.BEGAN], c[S.ENDED]
            if c[S.EVIDENCE] == EVIDENCES.index("span"):
                row[record.ROLE] = QUEUE; row[record.ENQUEUED] = 1
            rows.append(Measured(boundary=name, row=row, open=opened, announced=int(k == announced), arrived_ns=N(c[S.ARRIVED]), ended_ns=c[S.ENDED],
                ttft=None if c[S.TTFT] == MISSING else Interval(c[S.TTFT], N(c[S.TTFT_ERROR])), tpot_ns=N(c[S.TPOT]),
                completion=None if c[S.COMPLETION] == MISSING else Interval(c[S.COMPLETION], N(c[S.COMPLETION_ERROR])),
                ttft_applies=bool(c[S.TTFT_APPLIES]), tpot_applies=bool(c[S.TPOT_APPLIES]), silent=bool(c[S.SILENT]),
                first_token_from=None if c[S.SOURCE] == MISSING else FIRST_TOKEN_SOURCES[c[S.SOURCE]],
                outcome=OUTCOMES[c[S.OUTCOME]], input=N(c[S.INPUT]), output=N(c[S.OUTPUT]), cached=N(c[S.CACHED]),
                items=N(c[S.ITEMS]), phases={p: v for p, v in zip(PHASES, c[S.PHASES_FROM:]) if v != MISSING}))
        request = Request(boundaries=rows, model=MISSING, klass=MISSING, labels=(), weight=weight, seen_ns=0, whole=joined == 0,
            negative=negative, unmatched=None if unmatched < 0 else ("client", "engine")[unmatched], texts=texts)
        self.count(request, now_ns, in_windows=in_windows)

    # Judging.

    def _judge(
        self, row: Measured, request: Request, labels: Mapping[str, str], in_windows: bool
    ) -> dict[str, Judgement]:
        judgements: dict[str, Judgement] = {}
        weight = self._weight(row, request)
        if row.open or row.boundary not in self.published:
            return judgements
        for slo in self.slos:
            if not selects(slo, labels):
                continue
            self._rank(slo, row, weight, in_windows)
            if self.judged_at[slo.name] == row.boundary:
                judgements[slo.name] = judgement = judge(slo, row, request.boundaries)
                missed = next((each.missed[slo.name] for each in request.flights if slo.name in each.missed), None)
                if missed is not None and not judgement.failed:
                    judgements[slo.name] = judgement._replace(good=False, failed=(missed,))
                self._count_judgement(slo, row, judgement, weight, in_windows, missed)
        return judgements

    def _rank(self, slo: SLO, row: Measured, weight: int, in_windows: bool) -> None:
        """Enter a request into the percentiles of the objectives at its boundary."""
        if not in_schedule(slo, row):
            return
        for objective in slo.objectives:
            if objective.boundary != row.boundary or not is_sample(objective.metric, row) or not in_windows:
                continue
            value = value_of(objective.metric, row)
            if value is None:
                continue
            number, at_ns = self.number("objective", slo.name, objective.name), ended_at(row)
            self.windows.add(at_ns, number, SAMPLES, weight)
            error_ns = value.error_ns
            if error_ns is not None and value.ns + error_ns <= objective.threshold_ns:
                self.windows.add(at_ns, number, SURELY_MET, weight)
            elif error_ns is not None and value.ns - error_ns > objective.threshold_ns:
                self.windows.add(at_ns, number, SURELY_BROKEN, weight)
            self.windows.add(at_ns, self.number("value", slo.name, objective.name), slot_of_ns(value.ns), weight)

    def _count_judgement(
        self, slo: SLO, row: Measured, judgement: Judgement, weight: int, in_windows: bool, missed: str | None
    ) -> None:
        """`missed`: the objective under which the request was counted as bad before it ended."""
        counts, at_ns = self.slo_counts[slo.name], ended_at(row)
        output = (row.output or 0) * weight
        for objective, met in judgement.limits:
            if met in ("met", "broken") and objective.name != missed:
                counts.objective_eligible[objective.name] += weight
                counts.objective_good[objective.name] += weight if met == "met" else 0
        if missed is not None:
            slot = None
        elif judgement.good is None:
            counts.unjudged[judgement.reason] += weight
            slot = UNKNOWN if judgement.reason.startswith("unknown") else None
        elif judgement.good:
            counts.good += weight
            counts.good_output += output
            slot = GOOD
        else:
            failed = judgement.failed[0] if len(judgement.failed) == 1 else "several"
            counts.bad[failed] += weight
            counts.exemplars[failed] = exemplar_of(row, at_ns)
            slot = BAD
        if slot in (GOOD, BAD):
            self.budgets[slo.name].add(at_ns, weight if slot == GOOD else 0, weight if slot == BAD else 0)
        if not in_windows:
            return
        number = self.number("slo", slo.name)
        self.windows.add(at_ns, number, ENDED, weight)
        self.windows.add(at_ns, number, ENDED_OUTPUT, output)
        if slot is not None:
            self.windows.add(at_ns, number, slot, weight)
            self.windows.add(at_ns, number, GOOD_OUTPUT, output if slot == GOOD else 0)

    @property
    def as_of_ns(self) -> int | None:
        """The instant as of which windows and budgets are read; None before the first."""
        ends = [window.end_ns for window in self.windows.windows.values() if window.last]
        return max(ends, default=None)

    # Keeping house.

    def number(self, *key: str) -> int:
        """The number of a window series."""
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = self.next_number
            self.next_number += 1
        return number

    def expire(self, now_ns: int) -> None:
        """Drop series that were idle for as long as the setting says, and make room for other label values.

        Those that SLOs speak of last: they start at zero, and would hide their next event if they started anew with it.
        """
        oldest = now_ns - self.settings.limits.series_idle_ns
        idle = [labels for labels, each in self.series.items() if each.touched_ns < oldest]
        idle = [labels for labels in idle if labels not in self.lasting]
        for labels in idle:
            del self.series[labels]
        for key, each in list(self.traffic.items()):
            if each.touched_ns < oldest and not any(each.in_flight.values()) and key not in self.lasting:
                del self.traffic[key]
        if idle:
            self._forget_values()

    def _forget_values(self) -> None:
        """Keep the label values and window series of what is still counted or still in a window."""
        for place, name in enumerate(self.label_names, 1):
            self.values[name] = {labels[place] for labels in self.series if labels[place] not in (OTHER, "")}
        counted = {labels for window in self.windows.windows.values() for labels in window.totals}
        for key, number in list(self.numbers.items()):
            metric = key[0] in METRICS or key[0] == "phase"
            if metric and number not in counted and key[-len(self.label_names) - 1 :] not in self.series:
                del self.numbers[key]

    def by_kind(self, kind: str) -> Iterator[tuple[tuple[str, ...], int]]:
        """The window series of one kind: the rest of the key, and the number."""
        for key, number in self.numbers.items():
            if key[0] == kind:
                yield key[1:], number


def _judged_by(slo: SLO) -> tuple[object, ...]:
    """What decides how an SLO judges a request."""
    return slo.selector, slo.objectives, slo.schedule, slo.policies


def _trace_of(row: Measured) -> tuple[int, int]:
    return row.row[record.TRACE_HI], row.row[record.TRACE_LO]


def ended_at(row: Measured) -> int:
    """The event time of a completion: the end, or where that is not known the end of the span."""
    return row.ended_ns if row.ended_ns is not None else row.row[record.END]


def exemplar_of(row: Measured, at_ns: int) -> Exemplar:
    """The trace of a request, as an exemplar."""
    cells = row.row
    return Exemplar(cells[record.TRACE_HI], cells[record.TRACE_LO], cells[record.SPAN], at_ns)


def window_lengths(settings: Settings, slos: Iterable[SLO]) -> tuple[int, ...]:
    """The windows of the settings and those that SLOs declare, ascending."""
    declared = {objective.window_ns for slo in slos for objective in slo.objectives}
    return tuple(sorted(declared.union(settings.windows.durations_ns)))


def edges_ns(metric: str, slos: Iterable[SLO]) -> tuple[int, ...]:
    """Bucket edges of a metric: the usual ones, and every declared threshold."""
    usual = {"ttft": TTFT_EDGES, "tpot": TPOT_EDGES}.get(metric, DURATION_EDGES)
    declared = {objective.threshold_ns for objective in objectives_of(slos) if objective.metric == metric}
    return tuple(sorted(declared.union(int(Fraction(edge) * 1_000_000_000) for edge in usual)))


def objectives_of(slos: Iterable[SLO]) -> Iterator[Objective]:
    """All objectives of all SLOs."""
    for slo in slos:
        yield from slo.objectives
