"""What is counted of requests: since the start, and in sliding windows.

Counts are integers in units of 1/WEIGHT_ONE request, since a sampled request may stand for several, and sums are
integer nanoseconds: adding them up gives the same whatever the order. Division is left to those who show them.

Everything of one combination of boundary, model, class and declared labels is one `Series`, so that it can expire as
one. What SLOs declare starts at zero and never expires.

How it is fast: all that is the same for requests with the same labels and boundaries is looked up once, into a `Plan`.
By it a request is counted from its sheet (`exporter.sheet`) by adding to cells of flat arrays, without an object and
whatever the number of SLOs (`exporter.pattern`). What is read (`totals`, `traffic`, `slo_counts`, `budgets` and the
counters) is brought up to date by reading it.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Final

from exporter import ahead, record
from exporter.account import Cells, Distributions, Edges, Exemplar, count_values, zeros
from exporter.budget import SECOND_NS, Budget
from exporter.config import Settings
from exporter.decode import words as pointers
from exporter.flight import Flight, Flights, Limit, Limits
from exporter.histogram import LIMIT_NS, own_slots
from exporter.judge import Judgement, judge, outermost, selects
from exporter.measure import Measured, Request, classify
from exporter.pattern import (
    BAD,
    ENDED,
    ENDED_OUTPUT,
    GOOD,
    GOOD_OUTPUT,
    MOST_PATTERNS,
    MOST_VERDICTS,
    NEITHER,
    NEWEST_IDS,
    OUTPUTS,
    PATTERN_CELLS,
    WEIGHTS,
    Kinds,
    Panel,
    Selection,
    slot_of,
)
from exporter.recognise import OTHER, Strings
from exporter.record import MISSING, MOST_WEIGHT, WEIGHT_ONE
from exporter.series import CHANGED as SERIES_CHANGED
from exporter.series import COMPLETIONS as SERIES_COMPLETIONS
from exporter.series import NUMBERS as SERIES_NUMBERS
from exporter.series import (
    OF_COMPLETION,
    OF_PHASE,
    OF_TPOT,
    OF_TTFT,
    SERIES_CELLS,
    SOURCES,
    TOKENS,
    Series,
    SloCounts,
    Totals,
    Traffic,
    edges_ns,
)
from exporter.series import TOKEN_SUMS as SERIES_TOKENS
from exporter.series import TOLD as SERIES_TOLD
from exporter.series import TOUCHED as SERIES_TOUCHED
from exporter.sheet import (
    BEGAN,
    EVIDENCE,
    OUTCOME,
    PHASES_FROM,
    SOURCE,
    SPAN,
    TRACE_HI,
    TRACE_LO,
    TTFT,
    WIDTH,
    sheet_of,
)
from exporter.sheet import COMPLETION as COMPLETION_CELL
from exporter.sheet import ENDED as ENDED_CELL
from exporter.sheet import INPUT as INPUT_CELL
from exporter.sheet import OUTPUT as OUTPUT_CELL
from exporter.sheet import TPOT as TPOT_CELL
from exporter.tree import Row
from exporter.window import Moment, Windows
from slo_rules.slo import SLO, Objective
from slo_rules.vocabulary import EVIDENCES, METRICS, OUTCOMES, PHASES

MAX_LIMITS: Final = 10_000
"""Combinations of labels for which it is remembered which limits apply."""
MAX_PLANS: Final = 50_000
"""Combinations of labels and boundaries for which it is remembered how to count."""
MAX_PENDING: Final = 100_000
"""Seconds and verdicts that wait to be put into budgets where nobody reads."""
RETIRED_NS: Final = 600_000_000_000
"""How much longer than the longest window patterns are kept that count no more."""
END_TO_END: Final = "end_to_end"
"""Where logs tell of arrivals."""
JOINED: Final = ("whole", "partial", "evicted")
UNMATCHED: Final = ("client", "engine")
"""The roles of spans that found no gateway."""

SAMPLES, SURELY_MET, SURELY_BROKEN = range(3)
# Slots of the tokens of a boundary; they are the places in series.TOKENS.
INPUT, CACHED, OUTPUT, ITEMS = range(len(TOKENS))

# A row of a plan: whether its boundary is published, the places of series, totals and traffic (0: not yet looked up),
# the numbers of window series of arrivals (plus one, 0: not yet), ends and tokens, and whether the series overflowed.
PUBLISHED, IN_SERIES, IN_TOTALS, IN_TRAFFIC, ARRIVALS, ENDS, TOKENS_NUMBER, OVERFLOWED = range(8)
PLAN_ROW: Final = 8
# What totals and traffic have still to add up, and what is counted without a boundary.
T_OUTCOMES: Final = 0
T_ARRIVALS: Final = len(OUTCOMES)
T_TOKENS: Final = T_ARRIVALS + len(EVIDENCES)
T_TOLD: Final = T_TOKENS + 2 * len(TOKENS)
T_IN_FLIGHT: Final = T_TOLD + len(TOKENS)
TOTALS_CELLS: Final = T_IN_FLIGHT + 1
R_TOUCHED: Final = 0
R_DEPARTURES: Final = 1
R_WAITED: Final = 2
"""Whether jobs were announced or left, and how many more."""
R_WAITING: Final = 3
R_JOBS: Final = 4
"""Jobs that will leave here, however they are weighed then: as long as there are any, the place stays."""
R_ARRIVALS: Final = 5
TRAFFIC_CELLS: Final = R_ARRIVALS + len(EVIDENCES)
O_JOINED: Final = 0
O_UNMATCHED: Final = len(JOINED)
O_NEGATIVE: Final = O_UNMATCHED + len(UNMATCHED)
O_OUT_OF_RANGE: Final = O_NEGATIVE + 1
OWN_CELLS: Final = O_OUT_OF_RANGE + len(METRICS) + 1

OF_METRICS: Final = len(METRICS)
"""How many metrics stand before the phases, where both are numbered."""
OF_PHASES: Final = len(PHASES)
OF_TOKENS: Final = len(TOKENS)
NO_SOURCE: Final = len(SOURCES) - 1
OUTCOME_OK: Final = OUTCOMES.index("ok")
OUTCOME_CANCELLED: Final = OUTCOMES.index("cancelled")
UNKNOWN: Final = OUTCOMES.index("unknown")
SECOND: Final = SECOND_NS
LONGEST: Final = LIMIT_NS
MISSING_CELL: Final = MISSING
MOST: Final = (1 << 63) - 1
VERDICTS: Final = MOST_VERDICTS
NOWHERE: Final = Moment()
START: Final = zeros(1)
"""Where the only sheet begins."""


class Plan:
    """All that is the same for requests with the same labels and boundaries. Valid as long as `Tally.epoch` stays."""

    def __init__(
        self, boundaries: tuple[str, ...], capped: tuple[str, ...], overflowed: tuple[str, ...], panel: Panel
    ) -> None:
        self.boundaries = boundaries
        self.capped = capped
        """Label values within their bounds: model, class, then the declared ones."""
        self.overflowed = overflowed
        """Labels whose values are beyond their bounds."""
        self.panel = panel
        self.length = len(boundaries)
        self.rows = zeros(PLAN_ROW * len(boundaries))
        self.series: list[Series | None] = [None] * len(boundaries)
        self.distributions: list[Distributions | None] = [None] * len(boundaries)


class Tally:
    """Counts finished requests."""

    def __init__(
        self, settings: Settings, slos: Sequence[SLO], strings: Strings, *, since_start: bool = True
    ) -> None:  # fmt: skip
        """`since_start`: whether `totals` has distributions, which cost memory and time."""
        self.strings = strings
        self.since_start = since_start
        self.epoch = 0
        """Goes up whenever plans must be made anew."""
        self.plans: dict[tuple[object, ...], Plan] = {}
        self.cells = Cells()
        self.kinds = Kinds(self.cells)
        self.own = self.cells.allocate(OWN_CELLS)
        self.sheets = zeros(1)
        self.starts = START
        self.count_of = 0
        """Requests that are being counted, and of them those that ended at one moment."""
        self.first = self.stop = 0
        self.values_ns = zeros(64)
        self.value_slots_of = zeros(64)
        """Of one value of these."""
        self.counted = 0
        """Judgements, which are numbered so that the newest is known."""
        self.selections: dict[tuple[str, ...], Selection] = {}
        self.retired: list[Selection] = []
        """Those that count no more, and are still in windows."""
        self._declare(settings, slos)
        self.windows = Windows(self.window_lengths)
        self._slo_counts = {slo.name: SloCounts() for slo in self.slos}
        self._budgets = {slo.name: Budget(slo, self._burn_lengths()) for slo in self.slos}
        self.values: dict[str, set[str]] = {name: set() for name in self.label_names}
        self.numbers: dict[tuple[str, ...], int] = {}
        self.next_number = 0
        self.series: dict[tuple[str, ...], Series] = {}
        self._traffic: dict[tuple[str, str], Traffic] = {}
        self._totals: dict[str, Totals] = {}
        self._overflow: Counter[str] = Counter()
        self._out_of_range: Counter[str] = Counter()
        self._negative = 0
        self._joined: Counter[str] = Counter()
        self._unmatched: Counter[str] = Counter()
        self.waiting: dict[tuple[int, int], list[str]] = {}
        """By trace, the classes of the jobs that are known to wait in a queue."""
        self.flights = Flights()
        self.limits: dict[tuple[tuple[str, ...], ...], Limits] = {}
        """By the SLOs out of schedule and the labels that a record gives, the limits that its request may break."""
        self.now_ns = 0
        self.first_at = MISSING
        self.last_at = MISSING
        self._start_at_zero()

    def _declare(self, settings: Settings, slos: Sequence[SLO]) -> None:
        self.settings = settings
        self.slos = tuple(slos)
        self.judged_at = {slo.name: outermost(slo) for slo in self.slos}
        self.published = set(settings.publish)
        self.window_lengths = window_lengths(settings, slos)
        self.edges = {metric: edges_ns(metric, self.slos) for metric in (*METRICS, "phase")}
        self.buckets = [Edges(edges) for edges in self.edges.values()]
        self.label_names = ("model", "class", *(label.name for label in settings.labels.declared))

    def reconfigure(self, settings: Settings, slos: Sequence[SLO]) -> None:
        """Go on with other settings: SLOs keep their counts by name.

        A histogram with other edges begins anew; so do, in the windows, an SLO with other limits and, where labels
        change, all that carries them, and a budget with another period.
        """
        self._settle_slos()
        names, judged = self.label_names, {slo.name: _judged_by(slo) for slo in self.slos}
        self._declare(settings, slos)
        self.windows = Windows(self.window_lengths, self.windows)
        self._slo_counts = {slo.name: self._slo_counts.get(slo.name) or SloCounts() for slo in self.slos}
        lengths = self._burn_lengths()
        self._budgets = {slo.name: Budget(slo, lengths, self._budgets.get(slo.name)) for slo in self.slos}
        if names != self.label_names:
            for series in self.series.values():
                series.release()
            self.series.clear()
            self._drop_numbers(lambda key: key[0] in (*METRICS, "phase"))
            self.values = {name: self.values.get(name, set()) for name in self.label_names}
        changed = judged.keys() - {slo.name for slo in self.slos if judged.get(slo.name) == _judged_by(slo)}
        self._drop_numbers(lambda key: key[0] == "slo" and key[1] in changed)
        for selection in list(self.selections.values()):
            self._retire(selection)
        self.kinds.release()
        self.kinds = Kinds(self.cells)
        for selection in self.retired:
            selection.kept -= changed
        edges = dict(zip(self.edges, self.buckets, strict=True))
        for series in self.series.values():
            series.renew(edges, self.settings.tpot.formula)
        if END_TO_END not in self.published:
            self._let_go()
        self._plan_anew()
        self._start_at_zero()
        self.limits.clear()
        for flight in self.flights.flights.values():
            flight.row[record.LABELS :] = [MISSING] * len(settings.labels.declared)
            flight.limits = self._limits(flight.row, flight.arrived_ns)

    def _let_go(self) -> None:
        """Nobody is in flight where ends are counted no more: how these will end, nobody will know."""
        labels = {label.name: label.default for label in self.settings.labels.declared}
        for (boundary, klass), traffic in self.traffic.items():
            left = sum(traffic.in_flight.values())
            if boundary == END_TO_END and left:
                known = labels | {"model": self.settings.labels.model_default, "class": klass}
                traffic.departures += left
                traffic.in_flight.clear()
                self.totals[boundary].in_flight -= left
                self._end_unknown(boundary, self._capped(known, self._overflow)[0], left, self.now_ns)
                self.windows.add(self.now_ns, self.number("outcomes", boundary, klass), UNKNOWN, left)
        self.waiting.clear()
        for flight in self.flights.flights.values():
            flight.entered = False

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
                    capped, _ = self._capped(dict(zip(self.label_names, values, strict=True)), self._overflow)
                    self.lasting |= {(boundary, *capped), (boundary, capped[1])}
                    self._traffic.setdefault((boundary, capped[1]), Traffic(0))
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

    # Labels.

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

    def _capped(
        self, labels: Mapping[str, str], overflow: Counter[str] | None = None
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Label values within their bounds: model, class, then the declared ones; and which labels were beyond."""
        beyond: Counter[str] = Counter()
        capped = tuple(self._within_bounds(name, labels[name], beyond) for name in self.label_names)
        if overflow is not None:
            overflow.update(beyond)
        return capped, tuple(beyond)

    def _within_bounds(self, name: str, value: str, overflow: Counter[str]) -> str:
        values = self.values[name]
        if value in values or value in (OTHER, ""):
            return value
        if len(values) >= self.settings.limits.label_values:
            overflow[name] += 1
            return OTHER
        values.add(value)
        return value

    # Plans.

    def plan(self, texts: Mapping[str, str], boundaries: tuple[str, ...]) -> Plan:
        """How to count requests with these labels, as `labels_of` gives them, and a sheet of these boundaries."""
        key = (boundaries, *texts.values())
        found = self.plans.get(key)
        if found is None:
            if len(self.plans) >= MAX_PLANS:
                self.plans.clear()
            found = self.plans[key] = self._new_plan(texts, boundaries)
        return found

    def _new_plan(self, texts: Mapping[str, str], boundaries: tuple[str, ...]) -> Plan:
        capped, overflowed = self._capped(texts)
        plan = Plan(boundaries, capped, overflowed, self._selection(texts).panel(boundaries))
        for place, boundary in enumerate(boundaries):
            row = PLAN_ROW * place
            plan.rows[row + PUBLISHED] = boundary in self.published
            plan.rows[row + ENDS] = -1
        return plan

    def _selection(self, texts: Mapping[str, str]) -> Selection:
        slos = [slo for slo in self.slos if selects(slo, texts)]
        key = tuple(slo.name for slo in slos)
        found = self.selections.get(key)
        if found is None:
            found = self.selections[key] = Selection(slos, self.judged_at, self._new_number, self.kinds)
        return found

    def _plan_anew(self) -> None:
        """All plans are void."""
        self.epoch += 1
        self.plans.clear()

    def _retire(self, selection: Selection) -> None:
        """Count by another selection from now on."""
        if selection in self.retired:  # two of its groups have become full at once
            return
        selection.ended_ns = self.now_ns
        selection.panels.clear()
        self.retired.append(selection)
        self.selections = {key: each for key, each in self.selections.items() if each is not selection}

    def _open_row(self, plan: Plan, place: int, now_ns: int) -> None:
        """Look up where a row of a plan is counted."""
        row, boundary = PLAN_ROW * place, plan.boundaries[place]
        totals = self._totals_of(boundary)
        plan.rows[row + IN_TOTALS] = totals.place
        plan.distributions[place] = totals.distributions if self.since_start else None
        plan.rows[row + ENDS] = self.number("outcomes", boundary, plan.capped[1])
        plan.rows[row + TOKENS_NUMBER] = self.number("tokens", boundary)
        labels = (boundary, *plan.capped)
        series = self._series(labels, now_ns)
        plan.series[place] = series
        plan.rows[row + OVERFLOWED] = series.labels != labels
        if series.labels != labels:
            self._overflow["series"] -= 1  # which is counted with each request
        plan.rows[row + IN_SERIES] = series.place

    def _open_traffic(self, plan: Plan, place: int, now_ns: int) -> None:
        """Look up where arrivals and departures of a row of a plan are counted."""
        traffic = self._touch(plan.boundaries[place], plan.capped[1], now_ns)
        if not traffic.place:
            traffic.place = self.cells.allocate(TRAFFIC_CELLS)
        plan.rows[PLAN_ROW * place + IN_TRAFFIC] = traffic.place

    def _open_arrivals(self, plan: Plan, place: int) -> None:
        number = self.number("arrivals", plan.boundaries[place], plan.capped[1])
        plan.rows[PLAN_ROW * place + ARRIVALS] = number + 1

    def _totals_of(self, boundary: str) -> Totals:
        totals = self._totals.get(boundary)
        if totals is None:
            totals = self._totals[boundary] = Totals(place=self.cells.allocate(TOTALS_CELLS))
        return totals

    def _touch(self, boundary: str, klass: str, now_ns: int) -> Traffic:
        traffic = self._traffic.setdefault((boundary, klass), Traffic(now_ns))
        traffic.touched_ns = now_ns
        return traffic

    def _series(self, labels: tuple[str, ...], now_ns: int) -> Series:
        series = self.series.get(labels)
        if series is None:
            if len(self.series) >= self.settings.limits.series:
                self._overflow["series"] += 1
                labels = (labels[0], *(OTHER for _ in labels[1:]))
                series = self.series.get(labels)
            if series is None:
                series = self.series[labels] = Series(labels, self.cells, now_ns)
        series.touched_ns = now_ns
        return series

    # Counting: by a plan.

    def count_sheets(
        self, plan: Plan, sheets: memoryview, starts: memoryview, count: int, weight: int, now_ns: int,
        in_windows: bool, joined: int, unmatched: int, negative: int, announced: int, waits: memoryview,
    ) -> None:  # fmt: skip
        """Count requests that have ended and of which no log told before.

        `sheets`: theirs, of the plan's boundaries, the first cell of each in `starts`. They are alike: of all of them
        the same is known, and all ended in the same way. `joined`: index into JOINED; `unmatched`: into UNMATCHED, or
        -1; `negative`: intervals that the clocks made so, of each; `announced`: the row that has been counted as
        waiting in the traffic at a place of `waits`, or -1.
        """
        if weight <= MOST_WEIGHT:
            self._begin(plan, sheets, starts, count)
            self._count_alike(plan, weight, now_ns, in_windows, joined, unmatched, negative, announced, waits)
        else:  # so that sums of weights fit into 64 bits
            for first in range(count):
                self._begin(plan, sheets, starts[first:], 1)
                self._count_alike(
                    plan, weight, now_ns, in_windows, joined, unmatched, negative, announced, waits[first:]
                )  # fmt: skip

    def _count_alike(
        self, plan: Plan, weight: int, now_ns: int, in_windows: bool, joined: int, unmatched: int, negative: int,
        announced: int, waits: memoryview,
    ) -> None:  # fmt: skip
        self._count_join(joined, unmatched, negative)
        for place in range(plan.length):
            if plan.rows[PLAN_ROW * place + PUBLISHED]:
                if place == announced:
                    self._leave_queue(plan, place, waits, weight, now_ns)
                else:
                    self._arrive_by_sheet(plan, place, weight, now_ns, in_windows)
                    self._depart(plan, place, weight, now_ns)
                self._end(plan, place, weight, now_ns, in_windows, -1)
        for index in range(self.count_of):
            plan.panel.answer(self.sheets, self.starts[index])
            for place in range(plan.length):
                if plan.rows[PLAN_ROW * place + PUBLISHED] and plan.panel.judges(place):
                    self._judge(plan.panel, place, weight, in_windows)

    def open_series(self, plan: Plan, now_ns: int) -> None:
        """Have the series of a plan take their places, which are given to who comes first."""
        for place in range(plan.length):
            if plan.rows[PLAN_ROW * place + PUBLISHED] and not plan.rows[PLAN_ROW * place + IN_SERIES]:
                self._open_row(plan, place, now_ns)

    def touch_series(self, plan: Plan) -> None:
        """Bring near the series of a plan."""
        cells = pointers.cells(self.cells.cells)
        for place in range(plan.length):
            series = plan.rows[PLAN_ROW * place + IN_SERIES]
            for cell in range(series, series + SERIES_CELLS, 8):
                ahead.prefetch(cells[cell])

    def touch_histograms(self, plan: Plan, sheets: memoryview, start: int) -> None:
        """Bring near the buckets in which the values of a sheet are counted."""
        if not 0 <= start <= len(sheets) - WIDTH * plan.length:
            raise IndexError(f"no sheet of {plan.length} rows at {start}")
        ttft, tpot, completion, phases = self.buckets[0], self.buckets[1], self.buckets[2], self.buckets[OF_METRICS]
        sheet = pointers.cells(sheets)
        for place in range(plan.length):
            at, series = start + WIDTH * place, plan.rows[PLAN_ROW * place + IN_SERIES]
            if not series:
                continue
            outcome, source = sheet[at + OUTCOME], sheet[at + SOURCE]
            self._touch_bucket(
                series + OF_TTFT + (NO_SOURCE if source == MISSING_CELL else source), ttft, sheet[at + TTFT]
            )
            self._touch_bucket(series + OF_TPOT, tpot, sheet[at + TPOT_CELL])
            self._touch_bucket(series + OF_COMPLETION + outcome, completion, sheet[at + COMPLETION_CELL])
            for phase in range(OF_PHASES):
                self._touch_bucket(series + OF_PHASE + phase, phases, sheet[at + PHASES_FROM + phase])

    def _touch_bucket(self, cell: int, edges: Edges, ns: int) -> None:
        histogram = self.cells.cells[cell]
        if ns != MISSING_CELL and histogram:
            ahead.prefetch(self.cells.cells[edges.place(histogram, ns)])

    def announce(self, plan: Plan, sheet: memoryview, weight: int, now_ns: int, in_windows: bool) -> int:
        """Count a job that waits in a queue, the one row of a sheet, as arrived; the place of its traffic or 0."""
        self._begin(plan, sheet, START, 1)
        if not plan.rows[PUBLISHED]:
            return 0
        self._arrive_by_sheet(plan, 0, weight, now_ns, in_windows)
        self.cells.gain(plan.rows[IN_TOTALS] + T_IN_FLIGHT, weight)
        self.cells.gain(plan.rows[IN_TRAFFIC] + R_WAITING, weight)
        self.cells.cells[plan.rows[IN_TRAFFIC] + R_WAITED] = 1
        self.cells.cells[plan.rows[IN_TRAFFIC] + R_JOBS] += 1
        self.cells.cells[plan.rows[IN_TRAFFIC] + R_TOUCHED] = now_ns
        return plan.rows[IN_TRAFFIC]

    def remember(self, trace: tuple[int, int], place: int) -> None:
        """Have a job that was announced leave as one that is joined the general way; `place`: of its traffic."""
        for (_, klass), traffic in self._traffic.items():
            if place and traffic.place == place:
                self.cells.cells[place + R_JOBS] -= 1
                self.waiting.setdefault(trace, []).append(klass)

    def _wait(self, boundary: str, klass: str, trace: tuple[int, int], weight: int, now_ns: int) -> None:
        self._totals_of(boundary).in_flight += weight
        self._touch(boundary, klass, now_ns).in_flight["span"] += weight
        self.waiting.setdefault(trace, []).append(klass)

    def _leave_queue(self, plan: Plan, place: int, waits: memoryview, weight: int, now_ns: int) -> None:
        """Count that what was announced has left, under the class under which it came."""
        row = PLAN_ROW * place
        if not plan.rows[row + IN_TOTALS]:
            plan.rows[row + IN_TOTALS] = self._totals_of(plan.boundaries[place]).place
        self.cells.gain(plan.rows[row + IN_TOTALS] + T_IN_FLIGHT, -weight * self.count_of)
        for index in range(self.count_of):
            traffic = waits[index]
            self.cells.gain(traffic + R_WAITING, -weight)
            self.cells.cells[traffic + R_WAITED] = 1
            self.cells.cells[traffic + R_JOBS] -= 1
            self.cells.gain(traffic + R_DEPARTURES, weight)
            self.cells.cells[traffic + R_TOUCHED] = now_ns

    def _begin(self, plan: Plan, sheets: memoryview, starts: memoryview, count: int) -> None:
        self.sheets = sheets
        self.starts = starts
        self.count_of = count
        if plan.overflowed:
            for _ in range(count):
                self._overflow.update(plan.overflowed)
        for index in range(count):
            if not 0 <= starts[index] <= len(sheets) - WIDTH * plan.length:
                raise IndexError(f"no sheet of {plan.length} rows at {starts[index]}")
        if count > len(self.values_ns):
            self.values_ns = zeros(2 * count)
            self.value_slots_of = zeros(2 * count)

    def _count_join(self, joined: int, unmatched: int, negative: int) -> None:
        self.cells.gain(self.own + O_JOINED + joined, self.count_of)
        if unmatched >= 0:
            self.cells.gain(self.own + O_UNMATCHED + unmatched, self.count_of)
        if negative:
            self.cells.gain(self.own + O_NEGATIVE, negative * self.count_of)

    def _arrive_by_sheet(self, plan: Plan, place: int, weight: int, now_ns: int, in_windows: bool) -> None:
        """Count the arrivals of a row."""
        row, base = PLAN_ROW * place, WIDTH * place
        sheets, starts = pointers.cells(self.sheets), pointers.cells(self.starts)  # `_begin` has looked
        if not plan.rows[row + IN_TOTALS]:
            plan.rows[row + IN_TOTALS] = self._totals_of(plan.boundaries[place]).place
        if not plan.rows[row + IN_TRAFFIC]:
            self._open_traffic(plan, place, now_ns)
        evidence = sheets[starts[0] + base + EVIDENCE]
        self.cells.gain(plan.rows[row + IN_TOTALS] + T_ARRIVALS + evidence, weight * self.count_of)
        self.cells.gain(plan.rows[row + IN_TRAFFIC] + R_ARRIVALS + evidence, weight * self.count_of)
        if in_windows and not plan.rows[row + ARRIVALS]:
            self._open_arrivals(plan, place)
        moment = NOWHERE
        amount = 0
        for index in range(self.count_of):
            at_ns = sheets[starts[index] + base + BEGAN]
            if self.first_at == MISSING_CELL or at_ns < self.first_at:
                self.first_at = at_ns
            if not in_windows:
                continue
            if amount == 0 or not self.windows.is_at(moment, at_ns):
                moment.add(plan.rows[row + ARRIVALS] - 1, evidence, amount)
                moment = self.windows.at(at_ns)
                amount = 0
            amount += weight
        moment.add(plan.rows[row + ARRIVALS] - 1, evidence, amount)

    def _depart(self, plan: Plan, place: int, weight: int, now_ns: int) -> None:
        """Count that what arrived under its class has left."""
        row = PLAN_ROW * place
        if not plan.rows[row + IN_TRAFFIC]:
            self._open_traffic(plan, place, now_ns)
        self.cells.gain(plan.rows[row + IN_TRAFFIC] + R_DEPARTURES, weight * self.count_of)
        self.cells.cells[plan.rows[row + IN_TRAFFIC] + R_TOUCHED] = now_ns

    def _end(self, plan: Plan, place: int, weight: int, now_ns: int, in_windows: bool, ends: int) -> None:
        """Count the ends of a row. `ends`: the window series of ends if it is another than the plan's."""
        row, base = PLAN_ROW * place, WIDTH * place
        sheets, starts = pointers.cells(self.sheets), pointers.cells(self.starts)
        if not plan.rows[row + IN_SERIES]:
            self._open_row(plan, place, now_ns)
        if plan.rows[row + OVERFLOWED]:
            self._overflow["series"] += self.count_of
        series, outcome = plan.rows[row + IN_SERIES], sheets[starts[0] + base + OUTCOME]
        self.cells.cells[series + SERIES_TOUCHED] = now_ns
        self.cells.cells[series + SERIES_CHANGED] += self.count_of
        self.cells.gain(series + SERIES_COMPLETIONS + outcome, weight * self.count_of)
        self.cells.gain(plan.rows[row + IN_TOTALS] + T_OUTCOMES + outcome, weight * self.count_of)
        if ends < 0:
            ends = plan.rows[row + ENDS]
        moment, self.first = NOWHERE, 0
        while self.first < self.count_of:
            self.stop = self.first
            if in_windows:
                moment = self.windows.at(sheets[starts[self.first] + base + ENDED_CELL])
            while self.stop < self.count_of:
                at_ns = sheets[starts[self.stop] + base + ENDED_CELL]
                if in_windows and self.stop > self.first and not self.windows.is_at(moment, at_ns):
                    break
                if self.last_at == MISSING_CELL or at_ns > self.last_at:
                    self.last_at = at_ns
                self.stop += 1
            moment.add(ends, outcome, weight * (self.stop - self.first))
            self._tokens(plan, place, weight, moment)
            self._values(plan, place, weight, moment)
            self.first = self.stop

    def _tokens(self, plan: Plan, place: int, weight: int, moment: Moment) -> None:
        row, base = PLAN_ROW * place, WIDTH * place + INPUT_CELL
        series, totals = plan.rows[row + IN_SERIES], plan.rows[row + IN_TOTALS]
        sheets, starts = pointers.cells(self.sheets), pointers.cells(self.starts)
        for slot in range(OF_TOKENS):
            if sheets[starts[self.first] + base + slot] == MISSING_CELL:
                continue
            self.cells.cells[series + SERIES_TOLD + slot] = 1
            self.cells.cells[totals + T_TOLD + slot] = 1
            amount = 0
            for index in range(self.first, self.stop):
                tokens = sheets[starts[index] + base + slot]
                if tokens > MOST_WEIGHT:
                    self._few_tokens(plan, row, slot, amount, weight, moment)
                    amount = 0
                    self._few_tokens(plan, row, slot, tokens, weight, moment)
                else:
                    amount += tokens
            self._few_tokens(plan, row, slot, amount, weight, moment)

    def _few_tokens(self, plan: Plan, row: int, slot: int, amount: int, weight: int, moment: Moment) -> None:
        self.cells.gain_product(plan.rows[row + IN_SERIES] + SERIES_TOKENS + 2 * slot, amount, weight)
        self.cells.gain_product(plan.rows[row + IN_TOTALS] + T_TOKENS + 2 * slot, amount, weight)
        moment.add_product(plan.rows[row + TOKENS_NUMBER], slot, amount, weight)

    def _values(self, plan: Plan, place: int, weight: int, moment: Moment) -> None:
        """The metrics, samples of what ended well and the latencies of what did not; then the phases."""
        at = self.starts[self.first] + WIDTH * place
        outcome, source = self.sheets[at + OUTCOME], self.sheets[at + SOURCE]
        if outcome in (OUTCOME_OK, OUTCOME_CANCELLED):
            cell = OF_TTFT + (NO_SOURCE if source == MISSING_CELL else source)
            if self._value(plan, place, 0, TTFT, cell, weight, True, moment):
                self._rank(plan.panel, place, 0, weight, moment)
        if outcome == OUTCOME_OK and self._value(plan, place, 1, TPOT_CELL, OF_TPOT, weight, True, moment):
            self._rank(plan.panel, place, 1, weight, moment)
        good = outcome == OUTCOME_OK
        if self._value(plan, place, 2, COMPLETION_CELL, OF_COMPLETION + outcome, weight, good, moment) and good:
            self._rank(plan.panel, place, 2, weight, moment)
        for phase in range(OF_PHASES):
            self._value(plan, place, OF_METRICS + phase, PHASES_FROM + phase, OF_PHASE + phase, weight, True, moment)

    def _rank(self, panel: Panel, place: int, metric: int, weight: int, moment: Moment) -> None:
        panel.rank(
            place, metric, self.sheets, self.starts, self.first, self.stop, self.value_slots_of, weight, moment
        )  # fmt: skip

    def _value(
        self, plan: Plan, place: int, value: int, known: int, cell: int, weight: int, sample: bool, moment: Moment
    ) -> bool:
        """Count one value of each request, if it is known.

        `value`: index into the metrics, then the phases; `known`: its cell in the sheet; `cell`: that of its histogram
        in the series.
        """
        base, count = WIDTH * place + known, self.stop - self.first
        sheets, starts = pointers.cells(self.sheets), pointers.cells(self.starts)
        values = pointers.cells(self.values_ns)
        if sheets[starts[self.first] + base] == MISSING_CELL:
            return False
        for index in range(count):
            values[index] = sheets[starts[self.first + index] + base]
        longest_ns = own_slots(self.values_ns, self.value_slots_of, count)
        histogram = self.cells.cells[plan.rows[PLAN_ROW * place + IN_SERIES] + cell]
        if not histogram:
            histogram = self._open_histogram(plan, place, value, cell)
        edges = self.buckets[value if value < OF_METRICS else OF_METRICS]
        count_values(
            self.cells, histogram, edges, self.values_ns, self.value_slots_of, count, weight, self.sheets, self.starts,
            self.first, WIDTH * place,
        )  # fmt: skip
        if sample:
            if longest_ns > LONGEST:
                self._count_beyond(value, count)
            self._samples(plan, place, value, count, weight, moment)
        return True

    def _samples(self, plan: Plan, place: int, value: int, count: int, weight: int, moment: Moment) -> None:
        """Enter values into the percentiles."""
        number = self.cells.cells[plan.rows[PLAN_ROW * place + IN_SERIES] + SERIES_NUMBERS + value]
        if not number:
            number = self._open_number(plan, place, value)
        distributions = plan.distributions[place]
        if distributions is not None:
            distributions.add_all(value, self.values_ns, self.value_slots_of, count, weight)
        moment.add_slots(number - 1, self.value_slots_of, count, weight)

    def _count_beyond(self, value: int, count: int) -> None:
        """Count the values that the layout has no slot for."""
        beyond = sum(self.values_ns[index] > LONGEST for index in range(count))
        self.cells.gain(self.own + O_OUT_OF_RANGE + min(value, OF_METRICS), beyond)

    def _open_histogram(self, plan: Plan, place: int, value: int, cell: int) -> int:
        series = plan.series[place]
        assert series is not None
        metric, key = "phase", PHASES[cell - OF_PHASE] if cell >= OF_PHASE else ""
        if value < OF_METRICS:
            keys = (*SOURCES, self.settings.tpot.formula, *OUTCOMES)
            metric, key = METRICS[value], keys[cell - OF_TTFT]
        return series.histogram(metric, key, cell, self.buckets[min(value, OF_METRICS)]).place

    def _open_number(self, plan: Plan, place: int, value: int) -> int:
        series = plan.series[place]
        assert series is not None
        key = (METRICS[value],) if value < OF_METRICS else ("phase", PHASES[value - OF_METRICS])
        number = self.number(*key, *series.labels) + 1
        self.cells.cells[series.place + SERIES_NUMBERS + value] = number
        return number

    def _judge(self, panel: Panel, row: int, weight: int, in_windows: bool) -> None:
        """Count a row of the request that the panel has looked at for the SLOs that judge there, by pattern."""
        base = panel.start + WIDTH * row
        output, ended_ns = max(0, self.sheets[base + OUTPUT_CELL]), self.sheets[base + ENDED_CELL]
        moment = self.windows.at(ended_ns) if in_windows else NOWHERE
        panel.enter(row)
        for place in range(panel.group_at[row], panel.group_at[row + 1]):
            pattern = panel.pattern(place, row)
            if pattern < 0:
                pattern = self._judge_first(panel, place, row)
            panel.found[place] = pattern
            group = panel.groups[place]
            block = group.blocks[pattern]
            self.cells.gain(block + WEIGHTS, weight)
            self.cells.gain_product(block + OUTPUTS, output, weight)
            self.counted += 1
            at = block + NEWEST_IDS
            self.cells.cells[at - 1] = self.counted
            self.cells.cells[at] = self.sheets[base + TRACE_HI]
            self.cells.cells[at + 1] = self.sheets[base + TRACE_LO]
            self.cells.cells[at + 2] = self.sheets[base + SPAN]
            self.cells.cells[at + 3] = ended_ns
            verdict = group.verdict_of[pattern]
            moment.add(group.number, 2 * verdict, weight)
            moment.add_product(group.number, 2 * verdict + 1, output, weight)
            if group.budgeted:
                group.pending.add(ended_ns // SECOND * VERDICTS + verdict, weight)
                if group.pending.count > MAX_PENDING:
                    self._settle_budgets()

    def _judge_first(self, panel: Panel, place: int, row: int) -> int:
        """Judge a request that stands to its limits like none before; make room where there were too many.

        What is just being counted may go on with a selection that is full: there is room for some more.
        """
        pattern = panel.judge(place, row)
        if pattern + 1 == MOST_PATTERNS:
            self._retire(panel.selection)
            self._plan_anew()
        return pattern

    # Counting: what more is known of a request than its sheet says.

    def count(
        self, request: Request, now_ns: int, *, in_windows: bool, listened: bool = True
    ) -> list[tuple[Measured, dict[str, Judgement]]]:
        """Count one request at all its boundaries; gives them back with what the SLOs say of each, if so wished."""
        rows = request.boundaries
        plan = self.plan(request.texts, tuple(row.boundary for row in rows))
        sheet = memoryview(array("q", (min(max(cell, MISSING), MOST) for cell in sheet_of(rows))))
        self._begin(plan, sheet, START, 1)
        plan.panel.answer(sheet, 0)
        if any(not row.open for row in rows):
            evicted = any(row.evicted for row in rows)
            joined = JOINED.index("evicted" if evicted else "whole" if request.whole else "partial")
            unmatched = -1 if request.unmatched is None else UNMATCHED.index(request.unmatched)
            self._count_join(joined, unmatched, request.negative)
        else:
            self._negative += request.negative
        missed = {name for flight in request.flights for name in flight.missed}
        for place, row in enumerate(rows):
            if row.boundary in self.published:
                told = request.flights if row.boundary == END_TO_END else ()
                self._count_row(plan, place, row, self._weight(row, request), now_ns, in_windows, told, not missed)
        if missed:
            return [(row, self._judge_missed(plan, row, request, in_windows)) for row in rows]
        if not listened:
            return []
        return [(row, self._judgements(plan, place, row)) for place, row in enumerate(rows)]

    def _judgements(self, plan: Plan, place: int, row: Measured) -> dict[str, Judgement]:
        shown = not row.open and row.boundary in self.published
        return dict(plan.panel.judgements(place)) if shown else {}

    def _weight(self, row: Measured, request: Request) -> int:
        """Logs tell of every request, but not of the engine's part: there a span stands for what it was sampled for."""
        own = row.row[record.WEIGHT]
        if not request.flights or row.boundary != "model" or own == MISSING or self.settings.sampling != "honour":
            return request.weight
        return own

    def _count_row(
        self, plan: Plan, place: int, row: Measured, weight: int, now_ns: int, in_windows: bool,
        told: Sequence[Flight], judged: bool,
    ) -> None:  # fmt: skip
        entered = [each for each in told if each.entered]
        klass = plan.capped[1]
        if told and not entered and not row.announced:
            at_ns = min(each.arrived_ns for each in told)
            self._arrive(row.boundary, klass, at_ns, "log", weight, now_ns, in_windows)
        elif not entered and not row.announced:
            self._arrive_by_sheet(plan, place, weight, now_ns, in_windows)
        if row.open:
            self._wait(row.boundary, klass, _trace_of(row), weight, now_ns)
            return
        if row.announced or entered:
            self._leave(row.boundary, plan.capped, _trace_of(row), row.announced, weight, now_ns, entered)
        else:
            self._depart(plan, place, weight, now_ns)
        came_as = entered[0].klass if entered else klass  # under which the windows set the arrival against its end
        ends = -1 if came_as == klass else self.number("outcomes", row.boundary, came_as)
        self._end(plan, place, weight, now_ns, in_windows, ends)
        if judged:
            self._judge(plan.panel, place, weight, in_windows)

    def _leave(
        self, boundary: str, capped: tuple[str, ...], trace: tuple[int, int], announced: int, weight: int, now_ns: int,
        entered: Sequence[Flight],
    ) -> None:  # fmt: skip
        """Requests leave under the class under which they were seen to arrive; what came then may have said less.

        Several arrivals that turn out to be one request stay several, and it is not known how the others ended.
        """
        totals, classes = self._totals_of(boundary), self.waiting.pop(trace, [])
        left = [(klass, "span") for klass in [*classes, *[capped[1]] * announced][:announced]]
        left += [(each.klass, "log") for each in entered]
        for klass, evidence in left:
            totals.in_flight -= weight
            traffic = self._touch(boundary, klass, now_ns)
            traffic.in_flight[evidence] -= weight
            traffic.departures += weight
        if classes[announced:]:
            self.waiting[trace] = classes[announced:]
        if len(left) > 1:
            self._end_unknown(boundary, capped, (len(left) - 1) * weight, now_ns)

    def _end_unknown(self, boundary: str, capped: tuple[str, ...], weight: int, now_ns: int) -> None:
        """Count ends of which nothing is known."""
        self._totals_of(boundary).outcomes["unknown"] += weight
        self._series((boundary, *capped), now_ns).complete(UNKNOWN, weight)

    def _arrive(
        self, boundary: str, klass: str, at_ns: int, evidence: str, weight: int, now_ns: int, in_windows: bool
    ) -> None:
        self._totals_of(boundary).arrivals[evidence] += weight
        self._touch(boundary, klass, now_ns).arrivals[evidence] += weight
        self.first_at = at_ns if self.first_at == MISSING else min(self.first_at, at_ns)
        if in_windows:
            number = self.number("arrivals", boundary, klass)
            self.windows.add(at_ns, number, EVIDENCES.index(evidence), weight)

    # What logs tell of before it ends.

    def flight_of(self, row: Row, flush_ns: int) -> Flight:
        """A flight whose first record is `row`."""
        labels = self.texts(row[record.MODEL], row[record.CLASS], row[record.LABELS :])
        klass = self._within_bounds("class", labels["class"], self._overflow)
        lag_ns = 0 if row[record.EMITTED] == MISSING else row[record.SEEN] - row[record.EMITTED]
        limits = self._limits(row, row[record.ARRIVED])
        return Flight(row, klass, limits, flush_ns, row[record.SEEN], lag_ns, arrived_ns=row[record.ARRIVED])

    def enter(self, flight: Flight, now_ns: int, *, in_windows: bool) -> None:
        """Count a request as arrived and in flight, where such are published."""
        if END_TO_END in self.published:
            flight.entered = True
            self._arrive(END_TO_END, flight.klass, flight.arrived_ns, "log", WEIGHT_ONE, now_ns, in_windows)
            self._totals[END_TO_END].in_flight += WEIGHT_ONE
            self._touch(END_TO_END, flight.klass, now_ns).in_flight["log"] += WEIGHT_ONE

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
        counts = self._slo_counts[slo.name]
        counts.bad[objective.name] += WEIGHT_ONE
        counts.objective_eligible[objective.name] += WEIGHT_ONE
        self._budgets[slo.name].add(at_ns, 0, WEIGHT_ONE)
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

    def _judge_missed(self, plan: Plan, row: Measured, request: Request, in_windows: bool) -> dict[str, Judgement]:
        """Judge a request of which something was counted as missed before it ended."""
        judgements: dict[str, Judgement] = {}
        if row.open or row.boundary not in self.published:
            return judgements
        for slo in plan.panel.selection.slos:
            if self.judged_at[slo.name] == row.boundary:
                judgements[slo.name] = judgement = judge(slo, row, request.boundaries)
                missed = next((each.missed[slo.name] for each in request.flights if slo.name in each.missed), None)
                if missed is not None and not judgement.failed:
                    judgements[slo.name] = judgement._replace(good=False, failed=(missed,))
                self._count_judgement(slo, row, judgement, self._weight(row, request), in_windows, missed)
        return judgements

    def _count_judgement(
        self, slo: SLO, row: Measured, judgement: Judgement, weight: int, in_windows: bool, missed: str | None
    ) -> None:
        """`missed`: the objective under which the request was counted as bad before it ended."""
        at_ns = ended_at(row)
        output = (row.output or 0) * weight
        _count_limits(self.slo_counts[slo.name], judgement, weight, missed)
        slot = NEITHER
        if missed is None:
            slot = slot_of(judgement)
            _count_verdict(self.slo_counts[slo.name], judgement, weight, output, exemplar_of(row, at_ns))
        if slot in (GOOD, BAD):
            self.budgets[slo.name].add(at_ns, weight if slot == GOOD else 0, weight if slot == BAD else 0)
        if not in_windows:
            return
        number = self.number("slo", slo.name)
        self.windows.add(at_ns, number, ENDED, weight)
        self.windows.add(at_ns, number, ENDED_OUTPUT, output)
        if slot != NEITHER:
            self.windows.add(at_ns, number, slot, weight)
            self.windows.add(at_ns, number, GOOD_OUTPUT, output if slot == GOOD else 0)

    # Reading.

    @property
    def first_ns(self) -> int | None:
        """The first arrival."""
        return None if self.first_at == MISSING else self.first_at

    @property
    def last_ns(self) -> int | None:
        """The last end."""
        return None if self.last_at == MISSING else self.last_at

    @property
    def totals(self) -> dict[str, Totals]:
        """By boundary."""
        for totals in self._totals.values():
            place = totals.place
            self._move(place + T_OUTCOMES, OUTCOMES, totals.outcomes)
            self._move(place + T_ARRIVALS, EVIDENCES, totals.arrivals)
            totals.in_flight += self.cells.take(place + T_IN_FLIGHT)
            for slot, name in enumerate(TOKENS):
                if self.cells.take(place + T_TOLD + slot):
                    totals.tokens[name] += self.cells.product(place + T_TOKENS + 2 * slot)
                    self.cells.clear(place + T_TOKENS + 2 * slot, 2)
        return self._totals

    @property
    def traffic(self) -> dict[tuple[str, str], Traffic]:
        """By boundary and class."""
        for traffic in self._traffic.values():
            if traffic.place:
                traffic.touched_ns = max(traffic.touched_ns, self.cells.take(traffic.place + R_TOUCHED))
                traffic.departures += self.cells.take(traffic.place + R_DEPARTURES)
                self._move(traffic.place + R_ARRIVALS, EVIDENCES, traffic.arrivals)
                if self.cells.take(traffic.place + R_WAITED):
                    traffic.in_flight["span"] += self.cells.take(traffic.place + R_WAITING)
        return self._traffic

    @property
    def overflow(self) -> Counter[str]:
        """Requests whose label values, or series, were beyond their bounds, by label or `series`."""
        return self._overflow

    @property
    def out_of_range(self) -> Counter[str]:
        """Values beyond the range of the layout, by metric or `phase`."""
        self._move(self.own + O_OUT_OF_RANGE, (*METRICS, "phase"), self._out_of_range)
        return self._out_of_range

    @property
    def negative(self) -> int:
        """Intervals that the clocks made negative."""
        self._negative += self.cells.take(self.own + O_NEGATIVE)
        return self._negative

    @property
    def joined(self) -> Counter[str]:
        """Requests by how much of them was joined."""
        self._move(self.own + O_JOINED, JOINED, self._joined)
        return self._joined

    @property
    def unmatched(self) -> Counter[str]:
        """Requests without a gateway by the role of their outermost span, and spans of what was counted before."""
        self._move(self.own + O_UNMATCHED, UNMATCHED, self._unmatched)
        return self._unmatched

    def _move(self, place: int, names: Sequence[str], into: Counter[str]) -> None:
        """Add what is in cells to the counter that shows it."""
        for offset, name in enumerate(names):
            amount = self.cells.take(place + offset)
            if amount:
                into[name] += amount

    @property
    def slo_counts(self) -> dict[str, SloCounts]:
        """By SLO."""
        self._settle_slos()
        return self._slo_counts

    @property
    def budgets(self) -> dict[str, Budget]:
        """By SLO."""
        self._settle_budgets()
        return self._budgets

    def _settle_slos(self) -> None:
        """Put what was counted by pattern where it is shown: in the order of the newest requests, for the exemplars."""
        cells = self.cells
        for selection in self._all_selections():
            for group in selection.groups:
                group.settle()
        for _, kind in sorted(self.kinds.counted(), key=lambda each: each[0]):
            weight, output = cells.value(kind.place + WEIGHTS), cells.product(kind.place + OUTPUTS)
            exemplar = Exemplar(*(cells.cells[kind.place + NEWEST_IDS + cell] for cell in range(4)))
            _count_limits(self._slo_counts[kind.slo], kind.judgement, weight, None)
            _count_verdict(self._slo_counts[kind.slo], kind.judgement, weight, output, exemplar)
            cells.clear(kind.place, PATTERN_CELLS)
        self._settle_budgets()

    def _settle_budgets(self) -> None:
        for selection in self._all_selections():
            for group in selection.groups:
                for slo, second, good, bad in group.settle_budgets():
                    self._budgets[slo].add(second * SECOND_NS, good, bad)

    def _all_selections(self) -> Iterator[Selection]:
        yield from self.selections.values()
        yield from self.retired

    def slo_slots(self, length_ns: int, slo: str) -> Mapping[int, int]:
        """What is counted of an SLO in a window, by GOOD and its like."""
        slots = Counter(self.windows.slots(length_ns, self.number("slo", slo)))
        for selection in self._all_selections():
            for group in selection.groups if slo in selection.kept else ():
                if slo in group.places:
                    group.read(self.windows.slots(length_ns, group.number), slo, slots)
        return slots

    def value_slots(self, length_ns: int, slo: str, objective: str) -> Mapping[int, int]:
        """The samples of an objective in a window, by slot of the layout."""
        found = [
            slots
            for selection in self._all_selections() if slo in selection.kept
            for rank in selection.ranks if (slo, objective) in rank.objectives
            if (slots := self.windows.slots(length_ns, rank.values))
        ]  # fmt: skip
        if len(found) == 1:
            return found[0]
        merged: Counter[int] = Counter()
        for slots in found:
            merged.update(slots)
        return merged

    def sample_counts(self, length_ns: int, slo: str, objective: str) -> tuple[int, int, int]:
        """Of the samples of an objective in a window: all, those surely within the threshold, and surely beyond."""
        counts = [0, 0, 0]
        for selection in self._all_selections():
            for rank in selection.ranks if slo in selection.kept else ():
                if (slo, objective) in rank.objectives:
                    slots = self.windows.slots(length_ns, rank.number)
                    counts = [a + b for a, b in zip(counts, rank.counts(slots, slo, objective), strict=True)]
        return counts[SAMPLES], counts[SURELY_MET], counts[SURELY_BROKEN]

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
            number = self.numbers[key] = self._new_number()
        return number

    def _new_number(self) -> int:
        self.next_number += 1
        return self.next_number - 1

    def expire(self, now_ns: int) -> None:
        """Drop series that were idle for as long as the setting says, and make room for other label values.

        Those that SLOs speak of last: they start at zero, and would hide their next event if they started anew with it.
        """
        oldest = now_ns - self.settings.limits.series_idle_ns
        idle = [labels for labels, each in self.series.items() if each.touched_ns < oldest]
        idle = [labels for labels in idle if labels not in self.lasting]
        for labels in idle:
            self.series.pop(labels).release()
        gone = [
            key for key, each in self.traffic.items()
            if each.touched_ns < oldest and not any(each.in_flight.values()) and key not in self.lasting
            and not (each.place and self.cells.value(each.place + R_JOBS))
        ]  # fmt: skip
        for key in gone:
            place = self._traffic.pop(key).place
            if place:
                self.cells.release(place, TRAFFIC_CELLS)
        if idle:
            self._forget_values()
        if idle or gone:
            self._plan_anew()
        if self.retired:
            self._drop_retired(now_ns)

    def _drop_retired(self, now_ns: int) -> None:
        """Forget selections that count no more once nothing that they counted is in a window."""
        oldest = now_ns - max(self.window_lengths) - RETIRED_NS
        gone = [selection for selection in self.retired if selection.ended_ns < oldest]
        if gone:
            self._settle_slos()
            for selection in gone:
                selection.release()
            self.retired = [selection for selection in self.retired if selection.ended_ns >= oldest]

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


def _count_limits(counts: SloCounts, judgement: Judgement, weight: int, missed: str | None) -> None:
    """`missed`: an objective that was counted before."""
    for objective, met in judgement.limits:
        if met in ("met", "broken") and objective.name != missed:
            counts.objective_eligible[objective.name] += weight
            counts.objective_good[objective.name] += weight if met == "met" else 0


def _count_verdict(counts: SloCounts, judgement: Judgement, weight: int, output: int, exemplar: Exemplar) -> None:
    if judgement.good is None:
        counts.unjudged[judgement.reason] += weight
    elif judgement.good:
        counts.good += weight
        counts.good_output += output
    else:
        failed = judgement.failed[0] if len(judgement.failed) == 1 else "several"
        counts.bad[failed] += weight
        counts.exemplars[failed] = exemplar
