"""How SLOs judge many requests at once: requests that stand alike to every limit have one judgement.

What `exporter.judge` says of a request depends on its outcome, on the schedules that it falls into, and on where its
values lie among the thresholds, so this is what a *pattern* is made of: for each metric at each boundary, how many
thresholds lie below the value with and without what its clocks leave open, and what is known of it otherwise. The
first request of a pattern is judged; all others are counted with it. Counts by pattern are put together by SLO when
somebody reads them: to count a request costs the same however many SLOs select it.

SLOs that share few thresholds would make many patterns, so they are judged in groups that have few. Likewise where a
value lies among the thresholds of the objectives is counted once for all objectives of a metric at a boundary.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from exporter.account import Cells, Sums, zeros
from exporter.decode import words as pointers
from exporter.judge import Judgement, judge
from exporter.measure import Interval, Measured
from exporter.record import MISSING
from exporter.sheet import (
    ARRIVED,
    COMPLETION,
    COMPLETION_ERROR,
    OUTCOME,
    OUTPUT,
    SILENT,
    TPOT,
    TPOT_APPLIES,
    TTFT,
    TTFT_APPLIES,
    TTFT_ERROR,
    WIDTH,
)
from exporter.window import Moment
from slo_rules.slo import SLO, Schedule
from slo_rules.vocabulary import METRICS, OUTCOMES

# Slots of the window series of an SLO.
GOOD, BAD, UNKNOWN, GOOD_OUTPUT, ENDED, ENDED_OUTPUT = range(6)
NEITHER: Final = -1

MOST_SPLITS: Final = 4096
"""Ways in which exact values can lie among the thresholds of one group."""
MOST_SCHEDULES: Final = 16
"""Of one group, a bit each."""
MOST_VERDICTS: Final = 32_768
"""Of one group: a verdict has two slots of a window series."""
MOST_PATTERNS: Final = 30_000
"""Of one group that still counts. What is just being counted may bring some more, and as many verdicts."""
MOST_THRESHOLDS: Final = 200
"""That are counted together: each pair of places among them is a slot of a window series."""
MOST_SECONDS: Final = 4096
NEVER: Final = (1 << 63) - 1
BEYOND: Final = 1 << 62
"""Times as long are never within a threshold, and are not added to."""

OF_TTFT, OF_TPOT, OF_COMPLETION = range(len(METRICS))
OK: Final = OUTCOMES.index("ok")
CANCELLED: Final = OUTCOMES.index("cancelled")
# What is known of the values that an objective looks at, beside where they lie.
IS_UNKNOWN, IS_SINGLE, HAS_VALUE, ALL_KNOWN = 1, 2, 4, 8
ANSWER: Final = 3
"""Cells of an answer: what is known, the least that the longest value surely is, the most that any may be."""
RANK: Final = 6
"""Cells of a rank in a program: metric, first and last threshold, numbers of window series, schedule or -1."""
COMMON: Final = 256
"""Places among thresholds below it are counted for many values together."""
# Cells of a pattern: weight, output tokens (a pair), and the newest request: its place in time, ids, end.
WEIGHTS, OUTPUTS, NEWEST, NEWEST_IDS = 0, 1, 3, 4
PATTERN_CELLS: Final = 8
PATTERN_ODD: Final = 0x9E3779B97F4A7C15
PATTERN_MASK: Final = (1 << 64) - 1


class Thresholds:
    """Runs of ascending thresholds, one after the other."""

    def __init__(self) -> None:
        self.cells = zeros(16)
        self.count = 0

    def add(self, thresholds: Iterable[int]) -> int:
        """Another run; where it ends."""
        for threshold in thresholds:
            if self.count == len(self.cells):
                grown = zeros(2 * self.count)
                grown[: self.count] = self.cells
                self.cells = grown
            self.cells[self.count] = threshold
            self.count += 1
        return self.count

    def below(self, start: int, end: int, value: int) -> int:
        """How many of the run from `start` to `end` a value exceeds."""
        low, high, cells = start, end, pointers.cells(self.cells)
        if not 0 <= start <= end <= len(self.cells):
            raise IndexError(f"no run from {start} to {end}")
        while low < high:
            middle = (low + high) >> 1
            if cells[middle] < value:
                low = middle + 1
            else:
                high = middle
        return low - start


class Rank:
    """Objectives of one metric at one boundary whose samples are the same requests."""

    def __init__(self, boundary: str, metric: int, schedule: int, numbers: tuple[int, int]) -> None:
        self.boundary = boundary
        self.metric = metric
        self.schedule = schedule
        """Index into the schedules of the selection, or -1."""
        self.number, self.values = numbers
        """Window series of places among the thresholds, and of slots of the layout."""
        self.objectives: dict[tuple[str, str], int] = {}
        """Thresholds by SLO and objective."""

    @property
    def thresholds(self) -> list[int]:
        """Ascending."""
        return sorted(set(self.objectives.values()))

    def counts(self, slots: Mapping[int, int], slo: str, objective: str) -> tuple[int, int, int]:
        """Of the samples in these slots: all, those that surely met the threshold, and that surely did not."""
        thresholds = self.thresholds
        place, width = thresholds.index(self.objectives[slo, objective]), len(thresholds) + 1
        met = broken = 0
        for slot, amount in slots.items():
            most, least = (slot, slot) if slot < width else divmod(slot - width, width)
            met += amount if most <= place else 0
            broken += amount if least > place else 0
        return sum(slots.values()), met, broken


class Kind(NamedTuple):
    """One judgement by one SLO, with the cells of all requests that it was made of."""

    slo: str
    judgement: Judgement
    place: int


class Kinds:
    """All that was judged, which is the same for many patterns of many groups."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        self.all: dict[tuple[str, Judgement], Kind] = {}

    def of(self, slo: str, judgement: Judgement) -> Kind:
        """That of a judgement by an SLO."""
        kind = self.all.get((slo, judgement))
        if kind is None:
            kind = self.all[slo, judgement] = Kind(slo, judgement, self.cells.allocate(PATTERN_CELLS))
        return kind

    def counted(self) -> Iterator[tuple[int, Kind]]:
        """Those that have counts, which their reader clears: the number of the newest request among all."""
        for kind in self.all.values():
            newest = self.cells.value(kind.place + NEWEST)
            if newest:
                yield newest, kind

    def release(self) -> None:
        """Give the cells back."""
        for kind in self.all.values():
            self.cells.release(kind.place, PATTERN_CELLS)


class Group:
    """SLOs that judge the same requests at one boundary."""

    def __init__(self, boundary: str, number: int, kinds: Kinds) -> None:
        self.boundary = boundary
        self.number = number
        """Window series: two slots of each verdict, requests and their output tokens."""
        self.cells = kinds.cells
        self.slos: list[SLO] = []
        self.limits: dict[tuple[int, str], set[int]] = {}
        """Thresholds by metric and boundary: a dimension of the pattern each."""
        self.schedules: list[int] = []
        self.count = 0
        self.judgements: list[tuple[Judgement, ...]] = []
        self.kinds = kinds
        self.verdicts: list[tuple[int, ...]] = []
        """By SLO, the slot in which all patterns with this verdict are counted."""
        self._verdict_numbers: dict[tuple[int, ...], int] = {}
        self.pending = Sums()
        """By second and verdict, for the budgets."""
        self.budgeted = False

    def takes(self, slo: SLO, schedules: Sequence[int]) -> bool:
        """Whether it has room for another SLO."""
        limits = self._with(slo)
        splits = 1
        for thresholds in limits.values():
            splits *= len(thresholds) + 1
        return splits <= MOST_SPLITS and len({*self.schedules, *schedules}) <= MOST_SCHEDULES

    def add(self, slo: SLO, schedules: Sequence[int]) -> None:
        """Judge by another SLO too."""
        self.limits = self._with(slo)
        self.slos.append(slo)
        self.schedules = sorted({*self.schedules, *schedules})
        self.budgeted |= slo.period_ns is not None

    def _with(self, slo: SLO) -> dict[tuple[int, str], set[int]]:
        limits = {key: set(thresholds) for key, thresholds in self.limits.items()}
        for each in slo.objectives:
            if each.per_request:
                limits.setdefault((METRICS.index(each.metric), each.boundary), set()).add(each.threshold_ns)
        return limits

    def close(self) -> None:
        """All SLOs are known: make room for patterns."""
        self.dimensions = [*self.limits]
        self.width = 2 + len(self.dimensions)
        self.places = {slo.name: place for place, slo in enumerate(self.slos)}
        self.thresholds = Thresholds()
        self.starts = _table([0, *(self.thresholds.add(sorted(self.limits[each])) for each in self.dimensions)])
        self.code = zeros(self.width)
        self.codes = zeros(16 * self.width)
        self.blocks = zeros(16)
        self.verdict_of = zeros(16)
        self.judged_as = zeros(16 * len(self.slos))
        self.mask = 31
        self.index = zeros(32)

    def find(self) -> int:
        """The pattern whose code stands in `code`, -1 where there is none yet."""
        at = self.slot_of(0)
        while self.index[at]:
            if self.is_code(self.index[at] - 1):
                return self.index[at] - 1
            at = (at + 1) & self.mask
        return -1

    def slot_of(self, start: int) -> int:
        """Where to look for the code in `code`; `start` 0."""
        mark, code = start, pointers.cells(self.code)
        for place in range(self.width):
            mark = ((mark ^ code[place]) * PATTERN_ODD) & PATTERN_MASK
            mark ^= mark >> 31
        return mark & self.mask

    def is_code(self, pattern: int) -> bool:
        """Whether a pattern has the code in `code`."""
        start, codes, code = pattern * self.width, pointers.cells(self.codes), pointers.cells(self.code)
        for place in range(self.width):
            if codes[start + place] != code[place]:
                return False
        return True

    def learn(self, judgements: tuple[Judgement, ...]) -> int:
        """A new pattern with the code in `code`, judged so by each of the SLOs."""
        pattern = self.count
        self._make_room()
        self.count += 1
        for place in range(self.width):
            self.codes[pattern * self.width + place] = self.code[place]
        self.blocks[pattern] = self.cells.allocate(PATTERN_CELLS)
        kinds = [self.kinds.of(slo.name, judgement) for slo, judgement in zip(self.slos, judgements, strict=True)]
        self.judgements.append(tuple(kind.judgement for kind in kinds))
        for place, kind in enumerate(kinds):
            self.judged_as[pattern * len(self.slos) + place] = kind.place
        verdict = tuple(slot_of(judgement) for judgement in judgements)
        self.verdict_of[pattern] = self._verdict_numbers.setdefault(verdict, len(self.verdicts))
        if self.verdict_of[pattern] == len(self.verdicts):
            self.verdicts.append(verdict)
        self._enter(pattern)
        return pattern

    def _make_room(self) -> None:
        if self.count == len(self.blocks):
            for name, width in (("codes", self.width), ("blocks", 1), ("verdict_of", 1), ("judged_as", len(self.slos))):
                grown = zeros(2 * self.count * width)
                grown[: self.count * width] = getattr(self, name)
                setattr(self, name, grown)
        if 2 * self.count > self.mask:
            code = list(self.code)
            self.mask = 2 * self.mask + 1
            self.index = zeros(self.mask + 1)
            for pattern in range(self.count):
                for place in range(self.width):
                    self.code[place] = self.codes[pattern * self.width + place]
                self._enter(pattern)
            for place in range(self.width):
                self.code[place] = code[place]

    def _enter(self, pattern: int) -> None:
        """Find it, from now on, by the code in `code`."""
        at = self.slot_of(0)
        while self.index[at]:
            at = (at + 1) & self.mask
        self.index[at] = pattern + 1

    # Counts by SLO.

    def settle(self) -> None:
        """Add what patterns have counted since this was done last to the counts of the judgements that they are."""
        cells, slos = self.cells, len(self.slos)
        for pattern in range(self.count):
            block = self.blocks[pattern]
            newest = cells.cells[block + NEWEST]
            if not newest:
                continue
            for place in range(slos):
                target = self.judged_as[pattern * slos + place]
                for cell in range(NEWEST):
                    cells.share(block + cell, target + cell)
                if newest > cells.cells[target + NEWEST]:
                    for cell in range(NEWEST, PATTERN_CELLS):
                        cells.cells[target + cell] = cells.cells[block + cell]
            cells.clear(block, PATTERN_CELLS)

    def settle_budgets(self) -> Iterator[tuple[str, int, int, int]]:
        """What was counted since this was asked last: SLO, second, good and bad."""
        counts: dict[tuple[int, int], list[int]] = {}
        for key, weight in self.pending.items():
            second, verdict = divmod(key, MOST_VERDICTS)
            for place, slot in enumerate(self.verdicts[verdict]):
                if slot in (GOOD, BAD):
                    counts.setdefault((place, second), [0, 0])[slot] += weight
        self.pending.clear()
        for (place, second), (good, bad) in counts.items():
            yield self.slos[place].name, second, good, bad

    def read(self, slots: Mapping[int, int], slo: str, into: Counter[int]) -> None:
        """Add what is in the slots of its window series to those of an SLO."""
        place = self.places[slo]
        for key, amount in slots.items():
            verdict, output = divmod(key, 2)
            slot = self.verdicts[verdict][place]
            into[ENDED_OUTPUT if output else ENDED] += amount
            if not output and slot != NEITHER:
                into[slot] += amount
            elif output and slot == GOOD:
                into[GOOD_OUTPUT] += amount


class Selection:
    """The SLOs that select the same requests."""

    def __init__(
        self, slos: Sequence[SLO], judged_at: Mapping[str, str], number: Callable[[], int], kinds: Kinds
    ) -> None:
        """`number`: of a new window series."""
        self.slos = tuple(slos)
        self.kept = {slo.name for slo in slos}
        """Those whose counts in the windows still hold."""
        self.ended_ns = 0
        """When it was replaced by another."""
        self.schedules: list[Schedule] = list(dict.fromkeys(slo.schedule for slo in slos if slo.schedule is not None))
        self.ranks: list[Rank] = []
        self.groups: list[Group] = []
        self.panels: dict[tuple[str, ...], Panel] = {}
        self._seconds: dict[int, memoryview] = {}
        self.always = zeros(len(self.schedules) + 1)
        for place in range(len(self.schedules)):
            self.always[place] = 1
        for slo in slos:
            schedule = -1 if slo.schedule is None else self.schedules.index(slo.schedule)
            self._rank(slo, schedule, number)
            self._group(slo, schedule, judged_at[slo.name], number, kinds)
        for group in self.groups:
            group.close()

    def _rank(self, slo: SLO, schedule: int, number: Callable[[], int]) -> None:
        for each in slo.objectives:
            metric = METRICS.index(each.metric)
            alike = [
                rank for rank in self.ranks
                if (rank.boundary, rank.metric, rank.schedule) == (each.boundary, metric, schedule)
                and len(rank.thresholds) < MOST_THRESHOLDS
            ]  # fmt: skip
            if not alike:
                alike = [Rank(each.boundary, metric, schedule, (number(), number()))]
                self.ranks += alike
            alike[0].objectives[slo.name, each.name] = each.threshold_ns

    def _group(self, slo: SLO, schedule: int, boundary: str, number: Callable[[], int], kinds: Kinds) -> None:
        schedules = [schedule] if schedule >= 0 else []
        groups = [each for each in self.groups if each.boundary == boundary and each.takes(slo, schedules)]
        if not groups:
            groups = [Group(boundary, number(), kinds)]
            self.groups += groups
        groups[0].add(slo, schedules)

    def inside(self, arrived_ns: int) -> memoryview:
        """For each schedule 1 if it covers the arrival, or that is not known; else 0."""
        if arrived_ns == MISSING or not self.schedules:
            return self.always
        second = arrived_ns // 1_000_000_000
        found = self._seconds.get(second)
        if found is None:
            if len(self._seconds) >= MOST_SECONDS:
                self._seconds.clear()
            found = self._seconds[second] = zeros(len(self.schedules) + 1)
            for place, schedule in enumerate(self.schedules):
                found[place] = schedule.covers(arrived_ns)
        return found

    def release(self) -> None:
        """Give its cells back."""
        for group in self.groups:
            for place in list(group.blocks)[: group.count]:
                group.cells.release(place, PATTERN_CELLS)

    def panel(self, boundaries: tuple[str, ...]) -> "Panel":
        """How requests with these boundaries are looked at."""
        panel = self.panels.get(boundaries)
        if panel is None:
            panel = self.panels[boundaries] = Panel(self, boundaries)
        return panel


class Panel:
    """What is asked of the rows of requests with the same boundaries, in tables for one pass over a sheet."""

    def __init__(self, selection: Selection, boundaries: tuple[str, ...]) -> None:
        self.selection = selection
        self.boundaries = boundaries
        self.scheduled = bool(selection.schedules)
        self.inside = selection.always
        questions: dict[tuple[int, tuple[int, ...]], int] = {}
        self.groups: list[Group] = []
        asked: list[int] = []
        starts, ranks, rank_at, group_at = [0], list[int](), [0], [0]
        self.thresholds = Thresholds()
        for row, boundary in enumerate(boundaries):
            for rank in selection.ranks:
                if rank.boundary == boundary:
                    start = self.thresholds.count
                    end = self.thresholds.add(rank.thresholds)
                    ranks += [rank.metric, start, end, rank.number, rank.values, rank.schedule]
            for group in selection.groups:
                if group.boundary == boundary:
                    self.groups.append(group)
                    for metric, at in group.dimensions:
                        rows = (row,) if at == boundary else _places(boundaries, at)
                        asked.append(questions.setdefault((metric, rows), len(questions)))
                    starts.append(len(asked))
            rank_at.append(len(ranks) // RANK)
            group_at.append(len(self.groups))
        self.ranks, self.rank_at = _table(ranks), _table(rank_at)
        self.group_at, self.asked, self.asked_at = _table(group_at), _table(asked), _table(starts)
        self.question_count = len(questions)
        self.questions = _table([cell for metric, rows in questions for cell in (metric, len(rows), *rows)])
        self.answers = zeros(ANSWER * len(questions) + 1)
        self.found = zeros(len(self.groups) + 1)
        """Of the last request, the pattern in each of the groups."""
        self.sheet = zeros(1)
        self.start = 0
        self.common = zeros(COMMON)

    def answer(self, sheet: memoryview, start: int) -> None:
        """Look at the request whose first cell is at `start`: find what its patterns are made of."""
        if not 0 <= start <= len(sheet) - WIDTH * len(self.boundaries):
            raise IndexError(f"no sheet of {len(self.boundaries)} rows at {start}")
        self.sheet = sheet
        self.start = start
        at = 0
        for question in range(self.question_count):
            count = self.questions[at + 1]
            self._answer(question, self.questions[at], at + 2, count)
            at += 2 + count

    def _answer(self, question: int, metric: int, start: int, count: int) -> None:
        sheet = pointers.cells(self.sheet)  # `answer` has looked
        known, least, most = (0 if count else IS_UNKNOWN), -1, -1
        for place in range(start, start + count):
            base = self.start + self.questions[place] * WIDTH
            error = 0
            if metric == OF_TPOT:
                if not sheet[base + TPOT_APPLIES]:
                    if sheet[base + TTFT_APPLIES] and sheet[base + OUTPUT] == 1:
                        known |= IS_SINGLE
                    continue
                value = sheet[base + TPOT]
            elif metric == OF_COMPLETION:
                value = sheet[base + COMPLETION]
                error = sheet[base + COMPLETION_ERROR]
            else:
                if not sheet[base + TTFT_APPLIES]:
                    continue
                value = sheet[base + TTFT]
                error = sheet[base + TTFT_ERROR]
                if value == MISSING and sheet[base + SILENT]:
                    # It waited until the end: beyond a limit that is broken, before it nothing is known.
                    known |= IS_UNKNOWN
                    value = sheet[base + COMPLETION]
                    error = sheet[base + COMPLETION_ERROR]
                    if value != MISSING and error != MISSING and value - error > least:
                        least = value - error
                    continue
            if value == MISSING or error == MISSING:
                known |= IS_UNKNOWN
                continue
            known |= HAS_VALUE
            if value - error > least:
                least = value - error
            value = value + error if value < BEYOND and error < BEYOND else NEVER
            if value > most:
                most = value
        at = ANSWER * question
        self.answers[at] = known
        self.answers[at + 1] = least
        self.answers[at + 2] = most

    def judges(self, row: int) -> bool:
        """Whether anything is judged at a row."""
        return self.group_at[row] < self.group_at[row + 1]

    def enter(self, row: int) -> None:
        """Go on with one of the rows."""
        if self.scheduled:
            self.inside = self.selection.inside(self.sheet[self.start + row * WIDTH + ARRIVED])

    def rank(
        self, row: int, metric: int, sheets: memoryview, starts: memoryview, first: int, stop: int, slots: memoryview,
        weight: int, moment: Moment,
    ) -> None:  # fmt: skip
        """Enter the samples of a metric into the percentiles of the objectives at the boundary of a row.

        Of the requests from `first` to `stop`, whose cells begin at `starts`; `slots`: those of the layout.
        """
        for rank in range(self.rank_at[row], self.rank_at[row + 1]):
            at = RANK * rank
            if self.ranks[at] != metric:
                continue
            highest = -1
            for index in range(first, stop):
                base = starts[index] + row * WIDTH
                if not 0 <= base <= len(sheets) - WIDTH:
                    raise IndexError(f"no row at {base}")
                if self.ranks[at + 5] >= 0 and not self.selection.inside(sheets[base + ARRIVED])[self.ranks[at + 5]]:
                    continue
                place = self.place(at, metric, sheets, base)
                if place < COMMON:
                    self.common[place] += weight
                    highest = max(highest, place)
                else:
                    moment.add(self.ranks[at + 3], place, weight)
                if self.ranks[at + 5] >= 0:
                    moment.add(self.ranks[at + 4], slots[index - first], weight)
            for place in range(highest + 1):
                moment.add(self.ranks[at + 3], place, self.common[place])
                self.common[place] = 0
            if self.ranks[at + 5] < 0:
                moment.add_slots(self.ranks[at + 4], slots, stop - first, weight)

    def place(self, at: int, metric: int, sheets: memoryview, base: int) -> int:
        """Where the value of a metric lies among the thresholds of a rank."""
        start, end = self.ranks[at + 1], self.ranks[at + 2]
        error, row = 0, pointers.cells(sheets)  # `rank` has looked
        if metric == OF_TTFT:
            value = row[base + TTFT]
            error = row[base + TTFT_ERROR]
        elif metric == OF_COMPLETION:
            value = row[base + COMPLETION]
            error = row[base + COMPLETION_ERROR]
        else:
            value = row[base + TPOT]
        least, most = 0, end - start
        if error != MISSING:
            least = self.thresholds.below(start, end, value - error)
            if error == 0:
                most = least
            elif value < BEYOND and error < BEYOND:
                most = self.thresholds.below(start, end, value + error)
        return least if most == least else (most + 1) * (end - start + 1) + least

    def pattern(self, place: int, row: int) -> int:
        """The pattern of the request in the group at a place; -1 where it is new, its code then stands in the group."""
        group = self.groups[place]
        code, base, inside = group.code, self.start + row * WIDTH, 0
        outcome = self.sheet[base + OUTCOME]
        code[0] = outcome
        if self.scheduled:
            for bit, schedule in enumerate(group.schedules):
                inside |= self.inside[schedule] << bit
        code[1] = inside
        limited = outcome in (OK, CANCELLED)
        first = self.asked_at[place]
        for dimension in range(group.width - 2):
            start, end = group.starts[dimension], group.starts[dimension + 1]
            at = ANSWER * self.asked[first + dimension]
            known = self.answers[at]
            least = group.thresholds.below(start, end, self.answers[at + 1])
            most = 0
            if not known & IS_UNKNOWN:
                most = group.thresholds.below(start, end, self.answers[at + 2])
            width = end - start + 1
            code[2 + dimension] = (known * width + least) * width + most if limited else 0
        return group.find()

    def judge(self, place: int, row: int) -> int:
        """Judge a request whose pattern is new; the number of the pattern."""
        group = self.groups[place]
        rows = measured(self.sheet[self.start :], self.boundaries)
        return group.learn(tuple(judge(slo, rows[row], rows) for slo in group.slos))

    def judgements(self, row: int) -> Iterator[tuple[str, Judgement]]:
        """What the SLOs said of a row of the last request."""
        for place in range(self.group_at[row], self.group_at[row + 1]):
            group = self.groups[place]
            for slo, judgement in zip(group.slos, group.judgements[self.found[place]], strict=True):
                yield slo.name, judgement


def measured(sheet: memoryview, boundaries: Sequence[str]) -> list[Measured]:
    """The rows of a sheet as `exporter.judge` reads them."""
    return [_measured(sheet[row * WIDTH : (row + 1) * WIDTH], boundary) for row, boundary in enumerate(boundaries)]


def _measured(cells: memoryview, boundary: str) -> Measured:
    return Measured(
        boundary=boundary,
        row=[],
        arrived_ns=_known(cells, ARRIVED),
        ttft=_interval(cells, TTFT, TTFT_ERROR),
        tpot_ns=_known(cells, TPOT),
        completion=_interval(cells, COMPLETION, COMPLETION_ERROR),
        ttft_applies=bool(cells[TTFT_APPLIES]),
        tpot_applies=bool(cells[TPOT_APPLIES]),
        silent=bool(cells[SILENT]),
        outcome=OUTCOMES[cells[OUTCOME]],
        output=_known(cells, OUTPUT),
    )


def _known(cells: memoryview, cell: int) -> int | None:
    return None if cells[cell] == MISSING else cells[cell]


def _interval(cells: memoryview, cell: int, error: int) -> Interval | None:
    return None if cells[cell] == MISSING else Interval(cells[cell], _known(cells, error))


def slot_of(judgement: Judgement) -> int:
    """The slot of the window series of an SLO in which a request so judged is counted, NEITHER for none."""
    if judgement.good is None:
        return UNKNOWN if judgement.reason.startswith("unknown") else NEITHER
    return GOOD if judgement.good else BAD


def _places(boundaries: Sequence[str], boundary: str) -> tuple[int, ...]:
    return tuple(place for place, each in enumerate(boundaries) if each == boundary)


def _table(numbers: Iterable[int]) -> memoryview:
    cells = list(numbers)
    table = zeros(len(cells) + 1)
    for place, number in enumerate(cells):
        table[place] = number
    return table
