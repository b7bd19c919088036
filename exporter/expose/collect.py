"""The state of a pipeline as families, made anew for each scrape.

What is empty is absent: a window without samples has no percentile, an SLO without eligible requests no attainment.
What an SLO declares is there from the start, at zero.

All counts are of one instant: they are copied in one go, so that what must add up does. What windows and budgets say is
much, and is read in turns with others: all of one series or SLO at once, and everything as of the same end, as long as
whoever collects lets no tick come between.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from exporter import gauges, pattern, record
from exporter.account import Histogram
from exporter.expose.readings import Readings, in_turns
from exporter.expose.text import Family, Grid, HistogramPoint, Histograms, Point, exemplar, units
from exporter.histogram import largest_error, reading_ns
from exporter.record import WEIGHT_ONE
from exporter.report import ENDED_SLOT, SECOND, burn_rates, objective_verdict, percentile_bounds
from exporter.series import EVALUATION_EDGES_S
from exporter.tally import END_TO_END, Tally
from slo_rules import verdict
from slo_rules.families import FAMILY
from slo_rules.slo import SLO
from slo_rules.units import format_decimal, format_duration
from slo_rules.vocabulary import FATES, FATES_OF_RECORDS, METRICS, OUTCOMES, VERDICTS

if TYPE_CHECKING:
    from exporter.pipeline import Pipeline

AGES_S = (1, 2, 5, 10, 30, 60, 120, 300, 600)
"""Of requests in flight."""

Points = Iterable[Point | HistogramPoint]


def collect(pipeline: "Pipeline", now_ns: int) -> list[Family]:
    """Every family but those of the process and of reloads. `now_ns`: for ages of what is in flight."""
    return [family for family in collect_in_turns(pipeline, now_ns) if family is not None]


def collect_in_turns(pipeline: "Pipeline", now_ns: int) -> Iterator[Family | None]:
    """The same; None where others may have their turn, except those who move windows on."""
    for _ in pipeline.count_in_steps():
        yield None
    scrape = None
    while scrape is None or scrape.windows is not pipeline.tally.windows:  # else a reload came between: begin anew
        scrape = _Scrape(pipeline, now_ns)
        families = scrape.families()
        for _ in scrape.read():
            yield None
            if scrape.windows is not pipeline.tally.windows:
                break
    yield from families


class _Scrape:
    def __init__(self, pipeline: "Pipeline", now_ns: int) -> None:
        self.pipeline = pipeline
        self.now_ns = now_ns
        self.by_gauges = sorted(pipeline.told_by_gauges)
        self.tally: Tally = pipeline.tally
        self.declared = self.tally.label_names[2:]
        # Looked at once: each look has them brought up to date.
        self.traffic, self.slo_counts = self.tally.traffic, self.tally.slo_counts
        self.cells = self.tally.cells.copy()
        self.windows = self.tally.windows
        self.readings = Readings(self.tally)
        self.errors: list[Point] = []
        self.tails: list[Point] = []
        self.only_ends_tell = list(self._only_ends_tell())
        self.of_slos = _OfSlos(self.tally)

    def families(self) -> list[Family]:
        """All families; those of `read` are empty yet."""
        return [*self.requests(), *self.of_windows(), *self.slos(), *self.surroundings(), *self.self()]

    def read(self) -> Iterator[None]:
        """Read what takes long; halts where others may have their turn."""
        yield  # what is of one instant took its time, too
        yield from self.readings.read()
        yield from in_turns(self.tally.slos, self.of_slos.read)
        shown, longest = self.readings.shown, self.readings.longest
        self.errors += [Point((metric,), float(largest_error(slots))) for metric, slots in shown.items() if slots]
        self.tails += [
            Point((boundary, klass, format_duration(length)), reading_ns(longest[boundary, klass, length]) / SECOND)
            for boundary, klass, length in self.only_ends_tell
            if (boundary, klass, length) in longest
        ]

    def family(self, name: str, points: Points) -> Family:
        kept = isinstance(points, list | Grid | Histograms)
        return Family(FAMILY[name].with_labels(self.declared), points if kept else list(points))

    # Since the start.

    def requests(self) -> Iterator[Family]:
        for metric in (*METRICS, "phase"):
            yield self.family(f"inference_{metric}_seconds", self._histograms(metric))
        yield self.family("inference_arrivals_total", self._arrivals())
        yield self.family("inference_completions_total", self._completions())
        departures = (Point(key, units(traffic.departures)) for key, traffic in self.traffic.items())
        yield self.family("inference_departures_total", departures)
        yield from self._in_flight()
        for name, cell in (("input_tokens", "input"), ("cached_input_tokens", "cached"), ("output_tokens", "output"),
                           ("items", "items")):  # fmt: skip
            yield self.family(f"inference_{name}_total", self._tokens(cell))

    def _arrivals(self) -> Iterator[Point]:
        """What SLOs speak of starts at zero, whichever evidence comes."""
        for key, traffic in self.traffic.items():
            lasting = ("log", "ended") if key in self.tally.lasting else ()
            for evidence in sorted({*traffic.arrivals, *lasting}):
                yield Point((*key, evidence), units(traffic.arrivals[evidence]))

    def _in_flight(self) -> Iterator[Family]:
        """Absent where nothing tells of requests before they end."""
        ages: dict[str, list[float]] = {key[1]: [] for key, t in self.traffic.items() if "log" in t.in_flight}
        for flight in self.tally.flights:
            if flight.klass in ages:  # else the boundary is not published here
                ages[flight.klass].append(max(0, self.now_ns - flight.lag_ns - flight.arrived_ns) / SECOND)
        for found in ages.values():
            found.sort()
        counts = [Point((END_TO_END, klass, "log"), len(each)) for klass, each in ages.items()]
        for key, traffic in self.traffic.items():
            if "span" in traffic.in_flight:
                counts.append(Point((*key, "span"), units(traffic.in_flight["span"])))
        for boundary in self.by_gauges:
            level = self.pipeline.gauges.level(boundary, self.now_ns)
            if level is not None:
                counts.append(Point((boundary, gauges.CLASS, gauges.EVIDENCE), level))
        yield self.family("inference_in_flight_requests", counts)
        older = (
            Point((END_TO_END, klass, format_duration(int(age * SECOND))), len(found) - bisect_right(found, age))
            for klass, found in ages.items()
            for age in AGES_S
        )
        yield self.family("inference_in_flight_older_requests", older)
        oldest = (Point((END_TO_END, klass), found[-1]) for klass, found in ages.items() if found)
        yield self.family("inference_oldest_in_flight_seconds", oldest)
        yield self.family("inference_backlog_drain_seconds", self._drain(ages))

    def _drain(self, ages: Mapping[str, list[float]]) -> Iterator[Point]:
        """At the rate of completions in the shortest window; absent while nothing completes."""
        length = min(self.tally.window_lengths)
        for klass, found in ages.items():
            number = self.tally.number("outcomes", END_TO_END, klass)
            done = sum(self.tally.windows.slots(length, number).values())
            if done:
                yield Point((END_TO_END, klass), len(found) * WEIGHT_ONE * (length / SECOND) / done)

    def _tokens(self, cell: str) -> Grid:
        grid = Grid()
        for series in self.tally.series.values():
            grid.add(series.labels, (), (getattr(series, cell),))
        return grid

    def _histograms(self, metric: str) -> Histograms:
        columns = Histograms(self.cells)
        lasts: dict[str, tuple[str]] = {}
        for series in self.tally.series.values():
            histograms: Mapping[str, Histogram] = getattr(series, metric)
            for key, each in histograms.items():
                columns.add(series.labels, lasts.setdefault(key, (key,)), each.edges_ns, each.place)
        return columns

    def _completions(self) -> Grid:
        grid = Grid([(outcome,) for outcome in OUTCOMES])
        for series in self.tally.series.values():
            grid.add(series.labels, (), series.completions)
        return grid

    # Windows.

    def of_windows(self) -> Iterator[Family]:
        for kind, percentiles in self.readings.percentiles.items():
            yield self.family(f"inference_window_{kind}_seconds", percentiles)
        yield self.family("inference_window_samples", self.readings.samples)
        yield self.family("inference_window_error_ratio", self.errors)
        as_of_ns = self.tally.as_of_ns
        end = [] if as_of_ns is None else [Point((), as_of_ns / SECOND)]
        yield self.family("inference_window_end_timestamp_seconds", end)
        rates: dict[str, Callable[[int, int], int]] = {
            "arrivals": lambda arrivals, _: arrivals,
            "completions": lambda _, completions: completions,
            "backlog_growth": lambda arrivals, completions: arrivals - completions,
        }
        for name, choose in rates.items():
            by_gauges = [] if name == "completions" else self.by_gauges
            points = (*self._rates(choose, by_gauges), *self._gauge_rates(name, by_gauges))
            yield self.family(f"inference_window_{name}_per_second", points)
        yield self.family("inference_window_arrivals_tail_seconds", self.tails)

    def _gauge_rates(self, name: str, boundaries: Iterable[str]) -> Iterator[Point]:
        for boundary in boundaries:
            for length in self.tally.window_lengths:
                flow = self.pipeline.flow(boundary, length)
                value = None if flow is None else getattr(flow, name)
                if value is not None:
                    yield Point((boundary, gauges.CLASS, format_duration(length)), value)

    def _rates(self, choose: Callable[[int, int], int], without: Collection[str]) -> Iterator[Point]:
        for boundary, klass in self.traffic:
            for length in self.tally.window_lengths if boundary not in without else ():
                arrivals = sum(
                    self.tally.windows.slots(length, self.tally.number("arrivals", boundary, klass)).values()
                )
                done = sum(self.tally.windows.slots(length, self.tally.number("outcomes", boundary, klass)).values())
                value = units(choose(arrivals, done)) / (length / SECOND)
                yield Point((boundary, klass, format_duration(length)), value)

    def _only_ends_tell(self) -> Iterator[tuple[str, str, int]]:
        """Boundary, class and window: a request as long as the longest may not have ended yet."""
        for boundary, klass in self.traffic:
            number = self.tally.number("arrivals", boundary, klass)
            for length in self.tally.window_lengths if boundary not in self.by_gauges else ():
                if not self.windows.slots(length, number).keys() - {ENDED_SLOT}:
                    yield boundary, klass, length

    # SLOs.

    def slos(self) -> Iterator[Family]:
        one = [(slo, self.slo_counts[slo.name]) for slo in self.tally.slos]
        yield self.family(
            "inference_slo_eligible_requests_total", (Point((s.name,), units(c.eligible)) for s, c in one)
        )
        yield self.family("inference_slo_good_requests_total", (Point((s.name,), units(c.good)) for s, c in one))
        yield self.family("inference_slo_bad_requests_total", self._bad())
        yield self.family("inference_slo_unjudged_requests_total", self._unjudged())
        for name in ("eligible", "good"):
            points = (
                Point((slo.name, objective.name), units(getattr(count, f"objective_{name}")[objective.name]))
                for slo, count in one
                for objective in slo.objectives
                if objective.per_request
            )
            yield self.family(f"inference_slo_objective_{name}_requests_total", points)
        yield self.family(
            "inference_slo_good_output_tokens_total", (Point((s.name,), units(c.good_output)) for s, c in one)
        )
        for name, read in self.of_slos.points.items():
            yield self.family(f"inference_slo_{name}", read)
        yield self.family("inference_slo_percentile_bound_seconds", self._percentile_bounds())
        yield from self._declarations()

    def _bad(self) -> Iterator[Point]:
        for slo in self.tally.slos:
            counts = self.slo_counts[slo.name]
            limits = [objective.name for objective in slo.objectives if objective.per_request]
            policies = slo.policies
            ruled = [name for name in ("cancelled", "unknown") if getattr(policies, name) == "bad"]
            for failed in sorted({*limits, "several", "error", "timeout", "shed", *ruled, *counts.bad}):
                found = counts.exemplars.get(failed)
                yield Point(
                    (slo.name, failed), units(counts.bad[failed]), None if found is None else exemplar(found, 1.0)
                )

    def _unjudged(self) -> Iterator[Point]:
        for slo in self.tally.slos:
            counts = self.slo_counts[slo.name].unjudged
            ruled = ["not_judged"] if not slo.objectives else []
            if slo.schedule is not None and slo.schedule.outside == "not_counted":
                ruled.append("outside_schedule")
            for reason in sorted({"client_error", "cancelled", "unknown", "unknown_value", *ruled, *counts}):
                yield Point((slo.name, reason), units(counts[reason]))

    def _percentile_bounds(self) -> Iterator[Point]:
        for slo in self.tally.slos if self.tally.flights.known else ():
            for objective in slo.objectives:
                values = self.tally.value_slots(objective.window_ns, slo.name, objective.name)
                low, high = percentile_bounds(self.tally, slo, objective, values) or (None, None)
                if low is not None:
                    yield Point((slo.name, objective.name, "lower"), low / SECOND)
                    yield Point((slo.name, objective.name, "upper"), math.inf if high is None else high / SECOND)

    def _declarations(self) -> Iterator[Family]:
        slos = self.tally.slos
        targets = (Point((slo.name,), float(slo.target)) for slo in slos if slo.target is not None)
        yield self.family("inference_slo_target_ratio", targets)
        periods = (Point((slo.name,), slo.period_ns / SECOND) for slo in slos if slo.period_ns is not None)
        yield self.family("inference_slo_period_seconds", periods)
        yield self.family("inference_slo_period_start_timestamp_seconds", self._period_starts())
        yield self.family("inference_slo_threshold_seconds", self._thresholds())
        yield self.family("inference_slo_error_budget_remaining_ratio", self.of_slos.remaining)

    def _thresholds(self) -> Iterator[Point]:
        for slo in self.tally.slos:
            for each in slo.objectives:
                percentile, window = format_decimal(each.percentile), format_duration(each.window_ns)
                labels = (slo.name, each.name, each.metric, each.boundary, percentile, window)
                yield Point(labels, each.threshold_ns / SECOND)

    def _period_starts(self) -> Iterator[Point]:
        """Of periods of the calendar: rules cannot know it, as Prometheus knows no time zones."""
        as_of_ns = self.tally.as_of_ns
        for slo in self.tally.slos if as_of_ns is not None else ():
            if slo.calendar is not None:
                yield Point((slo.name,), slo.calendar.bounds(as_of_ns or 0)[0] / SECOND)

    # Around and about itself.

    def surroundings(self) -> Iterator[Family]:
        text = self.pipeline.strings.text
        bounds = list(self.pipeline.offsets.newest())
        offsets = (
            Point((text(a), text(b)), bound.offset / SECOND) for a, b, bound in bounds if bound.offset is not None
        )
        yield self.family("inference_clock_offset_seconds", offsets)
        errors = (Point((text(a), text(b)), bound.error / SECOND) for a, b, bound in bounds if bound.error is not None)
        yield self.family("inference_clock_offset_error_seconds", errors)
        declared = (Point((model,), number) for model, number in self.pipeline.settings.accelerators)
        yield self.family("inference_accelerators", declared)

    def self(self) -> Iterator[Family]:
        pipeline, counts = self.pipeline, self.tally
        compiled = "true" if pipeline.compiled else "false"
        yield self.family("goodput_exporter_build_info", [Point((version_text(), compiled), 1)])
        received = (Point((name,), pipeline.received[name]) for name in ("grpc", "http", *sorted(pipeline.received)))
        yield self.family("goodput_exporter_spans_received_total", {point.labels: point for point in received}.values())
        yield self.family("goodput_exporter_spans_total", (Point((fate,), pipeline.fates[fate]) for fate in FATES))
        records = pipeline.records_received
        received = (Point((name,), records[name]) for name in ("grpc", "http", *sorted(records)))
        yield self.family(
            "goodput_exporter_log_records_received_total", {point.labels: point for point in received}.values()
        )
        yield self.family(
            "goodput_exporter_log_records_total",
            (Point((fate,), pipeline.record_fates[fate]) for fate in FATES_OF_RECORDS),
        )
        healed = (Point((kind,), counts.flights.healed[kind]) for kind in ("progress", "end"))
        yield self.family("goodput_exporter_lost_starts_total", healed)
        yield self.family("goodput_exporter_lost_ends_total", [Point((), counts.flights.lost_ends)])
        yield self.family("goodput_exporter_export_calls_total", _counter(pipeline.calls))
        yield self.family("goodput_exporter_scrapes_total", _counter(pipeline.gauges.results))
        yield self.family("goodput_exporter_attributes_dropped_total", _counter(pipeline.recogniser.dropped))
        yield self.family("goodput_exporter_negative_intervals_total", [Point((), counts.negative)])
        out = (Point((metric,), counts.out_of_range[metric]) for metric in (*METRICS, "phase"))
        yield self.family("goodput_exporter_samples_out_of_range_total", out)
        over = (Point((label,), counts.overflow[label]) for label in (*counts.label_names, "series"))
        yield self.family("goodput_exporter_label_overflow_total", over)
        joined = (Point((result,), counts.joined[result]) for result in ("whole", "partial", "evicted"))
        yield self.family("goodput_exporter_requests_joined_total", joined)
        yield self.family("goodput_exporter_open_requests", [Point((), pipeline.open)])
        yield self.family("goodput_exporter_open_requests_limit", [Point((), pipeline.table.max_open)])
        yield self.family("goodput_exporter_series", self._series_counts())
        yield self.family("goodput_exporter_unbalanced_requests", self._unbalanced())
        newest = [Point((), pipeline.newest_ns / SECOND)] if pipeline.newest_ns else ()
        yield self.family("goodput_exporter_watermark_timestamp_seconds", newest)
        yield self.family("goodput_exporter_profile_last_seen_timestamp_seconds", self._last_seen())
        seconds = pipeline.evaluations
        point = HistogramPoint((), EVALUATION_EDGES_S, seconds.counts, seconds.sum_s, {})
        yield self.family("goodput_exporter_evaluation_duration_seconds", [point])

    def _series_counts(self) -> Iterator[Point]:
        for metric in (*METRICS, "phase"):
            yield Point(
                (f"inference_{metric}_seconds",), sum(len(getattr(s, metric)) for s in self.tally.series.values())
            )
        yield Point(("inference_completions_total",), len(self.tally.series) * len(OUTCOMES))

    def _unbalanced(self) -> Iterator[Point]:
        for boundary, totals in self.tally.totals.items():
            difference = sum(totals.arrivals.values()) - sum(totals.outcomes.values()) - totals.in_flight
            yield Point((boundary,), units(difference))

    def _last_seen(self) -> Iterator[Point]:
        for recogniser in (self.pipeline.recogniser, self.pipeline.log_recogniser):
            for rule, seen_ns in zip(recogniser.rules, recogniser.last_seen, strict=True):
                if seen_ns != record.MISSING:
                    yield Point((rule.profile.name,), seen_ns / SECOND)


class _OfSlos:
    """What windows and budgets say of SLOs, as far as they have been read, one at a time."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.as_of_ns = tally.as_of_ns
        self.windows = [(ns, tally.windows.windows[ns].end_ns, format_duration(ns)) for ns in tally.window_lengths]
        self.undecided = tally.flights.undecided()
        self.attainments: list[Point] = []
        self.bounds: list[Point] = []
        self.goodput: list[Point] = []
        self.tokens: list[Point] = []
        self.ended: list[Point] = []
        self.output: list[Point] = []
        self.burn_rates: list[Point] = []
        self.verdicts: list[Point] = []
        self.remaining: list[Point] = []
        """Of the budget of the present period, what this program has seen; rules over the counters outlive it."""
        self.points = {
            "attainment_ratio": self.attainments,
            "attainment_bound_ratio": self.bounds,
            "goodput_requests_per_second": self.goodput,
            "goodput_output_tokens_per_second": self.tokens,
            "completions_per_second": self.ended,
            "output_tokens_per_second": self.output,
            "burn_rate": self.burn_rates,
            "verdict": self.verdicts,
        }

    def read(self, slo: SLO) -> None:
        """Read all of one SLO."""
        for length, end_ns, text in self.windows:
            self._read_window(length, end_ns, (slo.name, text), self.tally.slo_slots(length, slo.name))
        for length, burn in burn_rates(self.tally, slo).items():
            self.burn_rates.append(Point((slo.name, format_duration(length)), float(burn)))
        if self.as_of_ns is not None and slo.target is not None:
            good, bad, _ = self.tally.budgets[slo.name].read(self.as_of_ns)
            left = verdict.budget_remaining(good, good + bad, slo.target)
            if left is not None:
                self.remaining.append(Point((slo.name,), float(left)))
        for objective in slo.objectives:
            found = objective_verdict(self.tally, slo, objective)
            self.verdicts += [Point((slo.name, objective.name, each), float(each == found)) for each in VERDICTS]

    def _read_window(self, length: int, end_ns: int, labels: tuple[str, str], slots: Mapping[int, int]) -> None:
        good, bad, unknown = (slots.get(slot, 0) for slot in (pattern.GOOD, pattern.BAD, pattern.UNKNOWN))
        unknown += self.undecided.at(labels[0], end_ns) * WEIGHT_ONE
        share = verdict.attainment(good, good + bad)
        between = verdict.attainment_bounds(good, good + bad, unknown) if unknown else None
        self.ended.append(Point(labels, units(slots.get(pattern.ENDED, 0)) / (length / SECOND)))
        self.output.append(Point(labels, units(slots.get(pattern.ENDED_OUTPUT, 0)) / (length / SECOND)))
        if share is not None:
            self.attainments.append(Point(labels, float(share)))
        if between is not None:
            lower, upper = between
            self.bounds.append(Point((*labels, "lower"), float(lower)))
            self.bounds.append(Point((*labels, "upper"), float(upper)))
        if good + bad + unknown:
            self.goodput.append(Point(labels, units(good) / (length / SECOND)))
            self.tokens.append(Point(labels, units(slots.get(pattern.GOOD_OUTPUT, 0)) / (length / SECOND)))


def _counter(counts: Mapping[str, int] | Mapping[tuple[str, str], int]) -> Iterator[Point]:
    for key, count in counts.items():
        yield Point(key if isinstance(key, tuple) else (key,), count)


def version_text() -> str:
    """The installed version."""
    try:
        return version("goodput-exporter")
    except PackageNotFoundError:
        return "unknown"
