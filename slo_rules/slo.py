"""Service level objectives: the model, and the reader of SLO files.

An SLO is a set of objectives over the requests that its selector picks. An objective promises a percentile of a metric
at a boundary over a window. Its threshold is at the same time a limit for each single request, and a request is good
if it ended well and met every limit. Two things follow, and the reader insists on them:

- A metric at a boundary has one limit. Where objectives state several thresholds (p95 <= 1s, p99 <= 3s), one of them is
  marked `per_request: true`, or all others `per_request: false`.
- An objective has a name that does not change when another file is edited, as dashboards and alerts refer to it.

The keys of a file, all under `spec`, are the fields of the classes below; their meaning stands there:

    template, parameters            what is shared with other SLOs (slo_rules/template.py)
    description, selector           SLO
    objectives: [{name, metric, boundary, percentile, threshold, window, per_request}]          Objective
    goodput: {target, period, timezone}                                                         SLO, Calendar
    schedule: {days, from, to, timezone, outside}                                               Schedule
    workload, boundary, deadline    SLO: work that nobody waits for
    policies: {single_token, cancelled, unknown, minimum_samples}                               Policies
    expected: {requests_per_hour}   SLO: what traffic to expect, which only the warnings go by

Every duration, size and ratio carries its unit. What can never hold or never matter is a warning with the reason: the
file is taken, as the author may know why.
"""

import math
import zoneinfo
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Final, Literal

from slo_rules.burn import BurnWindow, built_in, obstacle
from slo_rules.document import Node, optional
from slo_rules.template import Templates, is_template, read_templates
from slo_rules.units import DAY_NS, HOUR_NS, SECOND_NS, format_decimal, format_duration
from slo_rules.vocabulary import METRICS, OUTCOMES

API_VERSION: Final = "goodput/v1"
KIND: Final = "SLO"
DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MIN_THRESHOLD_NS: Final = 1000
MAX_THRESHOLD_NS: Final = DAY_NS
"""The range of the histograms: a limit beyond it could not be told from one that is never, or always, broken."""
MIN_WINDOW_NS: Final = 10 * SECOND_NS
MAX_WINDOW_NS: Final = 7 * DAY_NS
MIN_PERIOD_NS: Final = HOUR_NS
MAX_PERIOD_NS: Final = 366 * DAY_NS
DEFAULT_PERIOD_NS: Final = 30 * DAY_NS
DEADLINE_WINDOW_NS: Final = HOUR_NS
"""The window of the objective that a deadline is."""
KEYS: Final = (
    "description", "selector", "goodput", "schedule", "policies", "workload", "boundary", "deadline", "expected",
    "objectives",
)  # fmt: skip
"""What may stand under `spec`, beside the template and its parameters."""
RESERVED_NAMES: Final = ("several", *OUTCOMES)
"""Words that stand beside objective names in the label `failed`."""

_NAME: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_OBJECTIVE_NAME: Final = r"[a-z0-9_]{1,63}"
_LABEL: Final = r"[a-zA-Z_][a-zA-Z0-9_]*"
_CLOCK: Final = r"([01][0-9]|2[0-3]):[0-5][0-9]|24:00"

SingleToken = Literal["not_applicable", "fail"]
Cancelled = Literal["excluded_unless_broken", "excluded", "bad"]
Unknown = Literal["excluded", "bad"]
Outside = Literal["not_counted", "outcome_only"]
Workload = Literal["interactive", "batch"]
CalendarUnit = Literal["week", "month", "quarter"]
CALENDAR_UNITS: Final[Mapping[CalendarUnit, int]] = {"week": 7 * DAY_NS, "month": 30 * DAY_NS, "quarter": 90 * DAY_NS}
"""With the length that a burn rate takes for it, as a rate needs one that does not change with the month."""
Matchers = tuple[tuple[str, tuple[str, ...]], ...]
"""Labels with the values accepted of each; all labels must match, and none is a match for every request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """`percentile` (in percent) of `metric` at `boundary` over `window_ns` is at most `threshold_ns`."""

    name: str
    metric: str
    boundary: str
    percentile: Fraction
    threshold_ns: int
    window_ns: int
    per_request: bool
    """Whether the threshold is also the limit of each request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The minutes of the week, in local time, in which an SLO applies (`from`, `to`, `timezone`).

    A request belongs to the minute in which it arrived, by the clock on the wall: on the day when summer time begins,
    an hour of the schedule may be missing, on the day when it ends, an hour counts twice.
    """

    days: frozenset[int]
    """Monday is 0. A span over midnight belongs to the day on which it starts."""
    start_minute: int
    end_minute: int
    """Excluded, up to 1440; less than `start_minute` where the span runs over midnight."""
    timezone: str
    """A name of the time zone database; UTC if not given."""
    outside: Outside = "not_counted"
    """What becomes of requests outside: `not_counted` leaves them out altogether (unjudged, `outside_schedule`);
    `outcome_only` drops the limits but not the demand to answer: good if it ended well, bad if not. Either way they
    enter no percentile of an objective."""

    def covers(self, unix_ns: int) -> bool:
        """Whether the instant lies within the schedule."""
        local = datetime.fromtimestamp(unix_ns // SECOND_NS, zoneinfo.ZoneInfo(self.timezone))
        minute = local.hour * 60 + local.minute
        if self.start_minute < self.end_minute:
            return local.weekday() in self.days and self.start_minute <= minute < self.end_minute
        if minute >= self.start_minute:
            return local.weekday() in self.days
        return minute < self.end_minute and (local.weekday() - 1) % 7 in self.days


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """A period of the calendar: it begins at local midnight on a Monday, the first of a month, or of a quarter."""

    unit: CalendarUnit
    timezone: str

    def bounds(self, unix_ns: int) -> tuple[int, int]:
        """The start, included, and the end, excluded, of the period that holds an instant; Unix time in ns."""
        zone = zoneinfo.ZoneInfo(self.timezone)
        day = datetime.fromtimestamp(unix_ns // SECOND_NS, zone).replace(hour=0, minute=0, second=0, fold=0)
        start = self._start(day)
        # From the start, the longest week, month and quarter end within so many days, and the next one does not.
        later = start + timedelta(days={"week": 7, "month": 31, "quarter": 92}[self.unit])
        end = self._start(later)
        return int(start.timestamp()) * SECOND_NS, int(end.timestamp()) * SECOND_NS

    def _start(self, day: datetime) -> datetime:
        if self.unit == "week":
            return day - timedelta(days=day.weekday())
        return day.replace(day=1, month=day.month if self.unit == "month" else (day.month - 1) // 3 * 3 + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """What counts in the cases that a threshold does not settle."""

    single_token: SingleToken = "not_applicable"
    """Whether an answer of one token, which has no TPOT, is judged on its other limits or breaks that of TPOT.

    Either way it enters no percentile: those rank values, and there is none.
    """
    cancelled: Cancelled = "excluded_unless_broken"
    """Whether a request that the client gave up counts: as bad if a limit was broken by then, never, or as bad."""
    unknown: Unknown = "excluded"
    """Whether a request of which the end, or a value that a limit needs, is not known stands beside the eligible ones,
    as bounds of the attainment, or counts as bad."""
    minimum_samples: int | Literal["auto"] = 1
    """Below it an objective has no data. `auto`: as many as support the percentile, see `minimum_samples`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SLO:
    """A named set of objectives over the requests whose labels match `selector`."""

    name: str
    """`metadata.name`: unique over all files, at most 63 lower-case letters, digits and hyphens."""
    labels: tuple[tuple[str, str], ...] = ()
    """`metadata.labels`: whom it concerns; alerts carry them."""
    description: str = ""
    """What is promised, in plain words; alerts quote it."""
    selector: Matchers = ()
    """Labels of requests, each with the value or the list of values that match; without it, every request."""
    objectives: tuple[Objective, ...]
    """Empty for a batch workload without a deadline; one, named `deadline`, for one with."""
    target: Fraction | None = None
    """`goodput.target`: the share of eligible requests that shall be good, above 0 and up to 1 (`99%`, `0.99`)."""
    period_ns: int | None = None
    """`goodput.period`: what the target is measured over, given exactly if `target` is. A duration (`30d`, the
    default) rolls along; `week`, `month` and `quarter` begin anew with the calendar and have a nominal length here."""
    calendar: Calendar | None = None
    """The period if it is one of the calendar, in the time zone `goodput.timezone` (UTC if not given)."""
    schedule: Schedule | None = None
    policies: Policies = Policies()
    workload: Workload = "interactive"
    """`batch`: nobody waits for it. It has no objectives and is not judged, only its throughput is shown; with a
    `deadline`, a request is good if it ended well within it."""
    boundary: str | None = None
    """Where a batch workload is counted; `end_to_end` if not given, None for an interactive one."""
    expected_per_hour: Fraction | None = None
    """`expected.requests_per_hour`: the traffic that the author expects, for the warnings about what it can support."""

    @property
    def boundaries(self) -> frozenset[str]:
        """All boundaries that it speaks of."""
        own = {objective.boundary for objective in self.objectives}
        return frozenset(own if self.boundary is None else {*own, self.boundary})


def read_slos(
    nodes: Sequence[Node],
    boundaries: Collection[str],
    labels: Collection[str] | None,
    burn: Sequence[BurnWindow] | None = None,
) -> list[SLO]:
    """The SLOs of the documents of all files together, as their names are unique across files.

    `boundaries` and `labels` are the known ones; labels None means that any label may be selected. A row of `burn`, by
    default of the built-in windows, that cannot be an alert of an SLO is warned of. What is wrong is recorded with the
    nodes, and the result is to be used only if nothing is.
    """
    templates = read_templates(nodes)
    burn = built_in().burn if burn is None else burn
    taken: set[str] = set()
    read = [_read_slo(node, boundaries, labels, taken, templates, burn) for node in nodes if not is_template(node)]
    templates.warn_of_unused()
    return [slo for slo in read if slo is not None]


def minimum_samples(policy: int | Literal["auto"], percentile: Fraction) -> int:
    """The number of samples below which an objective has no data.

    `auto`: the least N with (percentile / 100)^N <= 0.01, so that N samples without a miss support the percentile at
    99 % confidence (90 for p95, 459 for p99). The maximum, p100, has no such N and takes 1.
    """
    if policy != "auto":
        return policy
    if percentile >= 100:
        return 1
    return math.ceil(-2 / (Decimal(percentile.numerator) / (100 * percentile.denominator)).log10())


def _read_slo(
    node: Node,
    boundaries: Collection[str],
    labels: Collection[str] | None,
    taken: set[str],
    templates: Templates,
    burn: Sequence[BurnWindow],
) -> SLO | None:
    fields = node.fields(required=("apiVersion", "kind", "metadata", "spec"))
    optional(fields, "apiVersion", lambda n: n.choice(API_VERSION), "")
    optional(fields, "kind", lambda n: n.choice(KIND), "")
    metadata = fields["metadata"].fields("labels", required=("name",)) if "metadata" in fields else {}
    name = optional(metadata, "name", lambda n: _read_name(n, taken), "")
    taken.add(name)
    if "spec" not in fields:
        return None
    spec, inherited = templates.fields(fields["spec"], KEYS)
    own: tuple[tuple[str, str], ...] = optional(metadata, "labels", _read_labels, ())
    calendar, target, period_ns = _read_goodput(spec["goodput"]) if "goodput" in spec else (None, None, None)
    workload = _read_workload(spec)
    boundary, objectives = _read_batch(spec, boundaries, target) if workload == "batch" else (None, ())
    if workload == "interactive":
        objectives = _read_interactive(fields["spec"], spec, boundaries)
    slo = SLO(
        name=name,
        labels=tuple((dict(_read_labels(inherited)) | dict(own)).items()) if inherited is not None else own,
        description=optional(spec, "description", lambda n: n.text(loose=True), ""),
        selector=optional(spec, "selector", lambda n: read_matchers(n, labels), ()),
        target=target,
        period_ns=period_ns,
        calendar=calendar,
        schedule=optional(spec, "schedule", _read_schedule, None),
        policies=optional(spec, "policies", _read_policies, Policies()),
        expected_per_hour=optional(spec, "expected", _read_expected, None),
        workload=workload,
        boundary=boundary,
        objectives=objectives,
    )
    _advise(slo, spec, burn)
    return slo if slo.name and (slo.objectives or slo.workload == "batch") else None


def _read_workload(spec: Mapping[str, Node]) -> Workload:
    workload: Workload = "interactive"
    return optional(spec, "workload", lambda n: n.choice("interactive", "batch"), workload)


def _read_interactive(node: Node, spec: Mapping[str, Node], boundaries: Collection[str]) -> tuple[Objective, ...]:
    for key in ("boundary", "deadline"):
        if key in spec:
            spec[key].problem("must come with workload: batch")
    if "objectives" not in spec and node.is_mapping:
        node.missing("objectives")
    return _read_objectives(spec["objectives"], boundaries) if "objectives" in spec else ()


def _read_batch(
    spec: Mapping[str, Node], boundaries: Collection[str], target: Fraction | None
) -> tuple[str, tuple[Objective, ...]]:
    boundary = optional(spec, "boundary", lambda n: n.choice(*boundaries), "end_to_end")
    deadline_ns = optional(spec, "deadline", lambda n: n.duration(MIN_THRESHOLD_NS, MAX_THRESHOLD_NS), None)
    if "objectives" in spec:
        spec["objectives"].problem("must be left out of a batch workload, which may have a deadline instead")
    for key in ("goodput", "schedule", "policies", "expected"):
        if key in spec and "deadline" not in spec:
            spec[key].problem("must come with a deadline: without one, a batch workload is not judged")
    return boundary, () if deadline_ns is None else (_deadline(boundary, deadline_ns, target),)


def _deadline(boundary: str, deadline_ns: int, target: Fraction | None) -> Objective:
    """A deadline as an objective: the share of the target, or everything, is to meet it."""
    return Objective(
        name="deadline",
        metric="completion",
        boundary=boundary,
        percentile=Fraction(100) if target is None else target * 100,
        threshold_ns=deadline_ns,
        window_ns=DEADLINE_WINDOW_NS,
        per_request=True,
    )


def _read_expected(node: Node) -> Fraction | None:
    fields = node.fields(required=("requests_per_hour",))
    return optional(fields, "requests_per_hour", lambda n: n.number(Fraction(1, 1000), 10**9), None)


def _read_name(node: Node, taken: Collection[str]) -> str | None:
    rule = "must be at most 63 lower-case letters, digits and -, with a letter or digit at both ends"
    name = node.text(pattern=_NAME, rule=rule)
    if name in taken:
        node.problem("must be the name of one SLO only, in all files")
        return None
    return name


def _read_labels(node: Node) -> tuple[tuple[str, str], ...]:
    pairs = []
    for name, key, value in node.entries():
        key.text(pattern=_LABEL, rule="must be a label name of letters, digits and _", loose=True)
        pairs.append((name, value.text(loose=True) or ""))
    return tuple(pairs)


def read_matchers(node: Node, labels: Collection[str] | None) -> Matchers:
    """Labels with the values they may have, written as one value or a list of them."""
    matchers = []
    for name, key, value in node.entries():
        if labels is not None:
            key.choice(*sorted(labels))
        values = tuple(text for item in value.items_or_one() if (text := item.text(loose=True)))
        if value.is_sequence and not values:
            value.problem("must hold at least one value")
        matchers.append((name, values))
    return tuple(matchers)


def _read_goodput(node: Node) -> tuple[Calendar | None, Fraction | None, int | None]:
    fields = node.fields("period", "timezone", required=("target",))
    target = optional(fields, "target", Node.ratio, None)
    period = fields.get("period")
    unit = next((unit for unit in CALENDAR_UNITS if period is not None and unit == period.scalar), None)
    if unit is not None:
        zone = optional(fields, "timezone", _read_timezone, "UTC")
        return Calendar(unit=unit, timezone=zone), target, CALENDAR_UNITS[unit]
    if "timezone" in fields:
        fields["timezone"].problem(f"must come with a period of the calendar: {', '.join(CALENDAR_UNITS)}")
    period_ns = optional(fields, "period", lambda n: n.duration(MIN_PERIOD_NS, MAX_PERIOD_NS), DEFAULT_PERIOD_NS)
    return None, target, period_ns


def _read_policies(node: Node) -> Policies:
    fields = node.fields("single_token", "cancelled", "unknown", "minimum_samples")
    default = Policies()
    return Policies(
        single_token=optional(
            fields, "single_token", lambda n: n.choice("not_applicable", "fail"), default.single_token
        ),
        cancelled=optional(
            fields, "cancelled", lambda n: n.choice("excluded_unless_broken", "excluded", "bad"), default.cancelled
        ),
        unknown=optional(fields, "unknown", lambda n: n.choice("excluded", "bad"), default.unknown),
        minimum_samples=optional(fields, "minimum_samples", _read_minimum_samples, default.minimum_samples),
    )


def _read_minimum_samples(node: Node) -> int | Literal["auto"] | None:
    return "auto" if node.scalar == "auto" else node.integer(1, 10**9, rule="must be auto or a whole number")


def _read_schedule(node: Node) -> Schedule:
    fields = node.fields("days", "timezone", "outside", required=("from", "to"))
    start = optional(fields, "from", _read_minute, None)
    end = optional(fields, "to", _read_minute, None)
    if start is not None and start == end:
        fields["to"].problem("must differ from the start; a whole day is 00:00 to 24:00")
    return Schedule(
        days=optional(fields, "days", _read_days, frozenset(range(7))),
        start_minute=start or 0,
        end_minute=end or 0,
        timezone=optional(fields, "timezone", _read_timezone, "UTC"),
        outside=optional(fields, "outside", lambda n: n.choice("not_counted", "outcome_only"), "not_counted"),
    )


def _read_days(node: Node) -> frozenset[int]:
    if node.is_sequence and not node.items():
        node.problem("must hold at least one day; leave it out for every day")
    return frozenset(DAYS.index(day) for item in node.items_or_one() if (day := item.choice(*DAYS)))


def _read_minute(node: Node) -> int | None:
    # Loose, since YAML takes a bare 22:00 for a number in base 60.
    text = node.text(pattern=_CLOCK, rule="must be a time from 00:00 to 24:00, such as 08:30", loose=True)
    return int(text[:2]) * 60 + int(text[3:]) if text else None


def _read_timezone(node: Node) -> str | None:
    name = node.text()
    try:
        return zoneinfo.ZoneInfo(name).key if name else None
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):  # OSError: a folder of the database, such as Asia
        node.problem("must be the name of a time zone, such as UTC or Asia/Seoul")
        return None


# Objectives


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """An objective before its name and its part in the per-request limit are settled among its neighbours."""

    node: Node
    given_name: str | None
    metric: str
    boundary: str
    percentile: Fraction
    threshold_ns: int
    window_ns: int
    per_request: bool | None

    @property
    def names(self) -> tuple[str, str, str]:
        """From the shortest to the most exact."""
        percentile = "p" + format_decimal(self.percentile).replace(".", "_")
        window = format_duration(self.window_ns)
        return (
            self.metric,
            f"{self.metric}_{percentile}",
            f"{self.metric}_{self.boundary}_{percentile}_{window}",
        )


def _read_objectives(node: Node, boundaries: Collection[str]) -> tuple[Objective, ...]:
    items = node.items()
    if node.is_sequence and not items:
        node.problem("must hold at least one objective")
    drafts = [draft for item in items if (draft := _read_objective(item, boundaries)) is not None]
    names = _settle_names(drafts)
    limits = _settle_limits(drafts)
    return tuple(
        Objective(
            name=name,
            metric=draft.metric,
            boundary=draft.boundary,
            percentile=draft.percentile,
            threshold_ns=draft.threshold_ns,
            window_ns=draft.window_ns,
            per_request=per_request,
        )
        for draft, name, per_request in zip(drafts, names, limits, strict=True)
    )


def _read_objective(node: Node, boundaries: Collection[str]) -> _Draft | None:
    fields = node.fields("name", "per_request", required=("metric", "boundary", "percentile", "threshold", "window"))
    name = optional(fields, "name", _read_objective_name, None)
    per_request = optional(fields, "per_request", Node.boolean, None)
    metric = optional(fields, "metric", lambda n: n.choice(*METRICS), None)
    boundary = optional(fields, "boundary", lambda n: n.choice(*boundaries), None)
    percentile = optional(fields, "percentile", Node.percentile, None)
    threshold_ns = optional(fields, "threshold", lambda n: n.duration(MIN_THRESHOLD_NS, MAX_THRESHOLD_NS), None)
    window_ns = optional(fields, "window", lambda n: n.duration(MIN_WINDOW_NS, MAX_WINDOW_NS), None)
    if metric is None or boundary is None or percentile is None or threshold_ns is None or window_ns is None:
        return None
    return _Draft(
        node=node,
        given_name=name,
        metric=metric,
        boundary=boundary,
        percentile=percentile,
        threshold_ns=threshold_ns,
        window_ns=window_ns,
        per_request=per_request,
    )


def _read_objective_name(node: Node) -> str | None:
    name = node.text(pattern=_OBJECTIVE_NAME, rule="must be at most 63 lower-case letters, digits and _")
    if name in RESERVED_NAMES:
        node.problem(f"must be another name than {', '.join(RESERVED_NAMES)}, which say why a request is bad")
    return name


def _settle_names(drafts: Sequence[_Draft]) -> list[str]:
    """For each objective the name it gives, else the shortest that no other objective could take for its own."""
    counts = Counter(name for draft in drafts for name in {*draft.names, draft.given_name} if name)
    names = []
    for draft in drafts:
        name = draft.given_name or next((name for name in draft.names if counts[name] == 1), draft.names[-1])
        if name in names:
            draft.node.problem(f"must differ from the other objectives, or have a name other than {name}")
        names.append(name)
    return names


def _settle_limits(drafts: Sequence[_Draft]) -> list[bool]:
    """Whether the threshold of each objective is a per-request limit."""
    groups: dict[tuple[str, str], list[_Draft]] = {}
    for draft in drafts:
        groups.setdefault((draft.metric, draft.boundary), []).append(draft)
    limits = {key: _limit(group) for key, group in groups.items()}
    return [
        draft.per_request is not False and draft.threshold_ns == limits[draft.metric, draft.boundary]
        for draft in drafts
    ]


def _limit(group: Sequence[_Draft]) -> int | None:
    """The one threshold that limits a request: the only one, the one marked, or the one left by those marked false."""
    marked = {draft.threshold_ns for draft in group if draft.per_request}
    unmarked = {draft.threshold_ns for draft in group if draft.per_request is None}
    candidates = marked or unmarked
    several = len({draft.threshold_ns for draft in group}) > 1
    if len(candidates) == 1 or not several:
        return next(iter(candidates), None)
    for draft in group:
        draft.node.problem(
            f"must say which threshold of {draft.metric} at {draft.boundary} limits a request: "
            "write per_request: true in exactly one objective",
            found=", ".join(format_duration(other.threshold_ns) for other in group),
        )
    return None


# Warnings

LEAST_FACTOR: Final = Fraction(1, 2)
"""Of a burn rate: an alert on less is one on requests that go as promised."""
NOTABLE_PER_SECOND: Final = 1
"""Requests a second beyond which the author is told how many an objective needs, where no traffic is expected."""


def _advise(slo: SLO, spec: Mapping[str, Node], burn: Sequence[BurnWindow]) -> None:
    """Warn of what the SLO states and no traffic, or not the expected one, can make true."""
    items = spec["objectives"].items() if "objectives" in spec and spec["objectives"].is_sequence else []
    if len(items) == len(slo.objectives):
        for node, objective in zip(items, slo.objectives, strict=True):
            for advice in _objective_advice(slo, objective):
                node.warn(f"{slo.name}: {advice}")
    limits = {objective.metric for objective in slo.objectives if objective.per_request}
    if slo.policies.single_token == "fail" and "tpot" not in limits and "policies" in spec:
        spec["policies"].warn(f"{slo.name}: single_token matters only where tpot limits a request, and none does")
    if "goodput" in spec:
        for advice in _goodput_advice(slo, burn):
            spec["goodput"].warn(f"{slo.name}: {advice}")


def _objective_advice(slo: SLO, objective: Objective) -> Iterator[str]:
    percentile, window = f"p{format_decimal(objective.percentile)}", format_duration(objective.window_ns)
    enough = minimum_samples(slo.policies.minimum_samples, objective.percentile)
    needed = max(enough, needed_samples(objective.percentile))
    reason = "to have data" if needed == enough else "to be anything but the slowest of them"
    needs = f"{percentile} over {window} needs {needed} requests {reason}"
    if slo.expected_per_hour is None:
        if needed * SECOND_NS > NOTABLE_PER_SECOND * objective.window_ns:
            yield f"{needs}; say under expected what traffic there is"
        return
    expected = slo.expected_per_hour * objective.window_ns / HOUR_NS
    if expected < needed:
        yield f"{needs}, and about {math.floor(expected)} are expected"


def needed_samples(percentile: Fraction) -> int:
    """The least number of samples of which the percentile is not just the largest."""
    return 1 if percentile >= 100 else math.ceil(100 / (100 - percentile))


def _goodput_advice(slo: SLO, burn: Sequence[BurnWindow]) -> Iterator[str]:
    if slo.target is None or slo.period_ns is None:
        return
    if slo.objectives and not any(objective.per_request for objective in slo.objectives):
        yield "no objective limits a request, so the target counts only how requests end"
    if slo.target == 1:
        yield "a target of 100% leaves no error budget: the first bad request exhausts it, and no burn rate is defined"
        return
    for row in burn:
        factor = row.factor(slo.period_ns)
        if row.long_ns < slo.period_ns and (why := obstacle(row, slo.period_ns, slo.target)):
            yield f"there is no {row.text}: {why}"
        elif row.long_ns < slo.period_ns and factor < LEAST_FACTOR:
            yield (
                f"the {row.text} fires at a burn rate of {float(factor):.2g} already, at which the budget lasts longer "
                f"than its period of {format_duration(slo.period_ns)}: `alerts` should have windows for it"
            )
    if slo.expected_per_hour is not None:
        allowed = (1 - slo.target) * slo.expected_per_hour * slo.period_ns / HOUR_NS
        if allowed < 1:
            yield f"about {float(allowed):.2g} bad requests are allowed in the period, so one overspends the budget"
