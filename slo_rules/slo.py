"""Service level objectives: the model, and the reader of SLO files.

An SLO is a set of objectives over the requests that its selector picks. An objective promises a percentile of a metric
at a boundary over a window. Its threshold is at the same time a limit for each single request, and a request is good
if it ended well and met every limit. Two things follow, and the reader insists on them:

- A metric at a boundary has one limit. Where objectives state several thresholds (p95 <= 1s, p99 <= 3s), one of them is
  marked `per_request: true`, or all others `per_request: false`.
- An objective has a name that does not change when another file is edited, as dashboards and alerts refer to it.
"""

import math
import zoneinfo
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Final, Literal

from slo_rules.document import Node, optional
from slo_rules.units import DAY_NS, HOUR_NS, SECOND_NS, format_decimal, format_duration
from slo_rules.vocabulary import METRICS, OUTCOMES

API_VERSION: Final = "goodput/v1"
KIND: Final = "SLO"
DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MAX_THRESHOLD_NS: Final = DAY_NS
"""The end of the histograms' range: a limit above it could not be told from one that is never broken."""
MIN_WINDOW_NS: Final = 10 * SECOND_NS
MAX_WINDOW_NS: Final = 7 * DAY_NS
MIN_PERIOD_NS: Final = HOUR_NS
MAX_PERIOD_NS: Final = 366 * DAY_NS
DEFAULT_PERIOD_NS: Final = 30 * DAY_NS
RESERVED_NAMES: Final = ("several", *OUTCOMES)
"""Words that stand beside objective names in the label `failed`."""

_NAME: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_OBJECTIVE_NAME: Final = r"[a-z0-9_]{1,63}"
_LABEL: Final = r"[a-zA-Z_][a-zA-Z0-9_]*"
_CLOCK: Final = r"([01][0-9]|2[0-3]):[0-5][0-9]|24:00"

SingleToken = Literal["not_applicable", "fail"]
Cancelled = Literal["excluded_unless_broken", "excluded", "bad"]
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
    """The minutes of the week, in local time, in which an SLO applies."""

    days: frozenset[int]
    """Monday is 0. A span over midnight belongs to the day on which it starts."""
    start_minute: int
    end_minute: int
    """Excluded, up to 1440; less than `start_minute` where the span runs over midnight."""
    timezone: str

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
class Policies:
    """What counts in the cases that a threshold does not settle."""

    single_token: SingleToken = "not_applicable"
    """Whether an answer of one token is left out of TPOT or breaks its limit."""
    cancelled: Cancelled = "excluded_unless_broken"
    minimum_samples: int | Literal["auto"] = 1
    """Below it an objective has no data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SLO:
    """A named set of objectives over the requests whose labels match `selector`."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    description: str = ""
    selector: Matchers = ()
    objectives: tuple[Objective, ...]
    target: Fraction | None = None
    """The share of eligible requests that shall be good, above 0 and up to 1."""
    period_ns: int | None = None
    """What the target is measured over; given exactly if `target` is."""
    schedule: Schedule | None = None
    policies: Policies = Policies()


def read_slos(nodes: Sequence[Node], boundaries: Collection[str], labels: Collection[str] | None) -> list[SLO]:
    """The SLOs of the documents of all files together, as their names are unique across files.

    `boundaries` and `labels` are the known ones; labels None means that any label may be selected. What is wrong is
    recorded with the nodes, and the result is to be used only if nothing is.
    """
    slos: dict[str, SLO] = {}
    for node in nodes:
        slo = _read_slo(node, boundaries, labels, slos)
        if slo is not None:
            slos[slo.name] = slo
    return list(slos.values())


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
    node: Node, boundaries: Collection[str], labels: Collection[str] | None, taken: Collection[str]
) -> SLO | None:
    fields = node.fields(required=("apiVersion", "kind", "metadata", "spec"))
    optional(fields, "apiVersion", lambda n: n.choice(API_VERSION), "")
    optional(fields, "kind", lambda n: n.choice(KIND), "")
    metadata = fields["metadata"].fields("labels", required=("name",)) if "metadata" in fields else {}
    name = optional(metadata, "name", lambda n: _read_name(n, taken), "")
    if "spec" not in fields:
        return None
    known = ("description", "selector", "goodput", "schedule", "policies")
    spec = fields["spec"].fields(*known, required=("objectives",))
    target, period_ns = _read_goodput(spec["goodput"]) if "goodput" in spec else (None, None)
    slo = SLO(
        name=name,
        labels=optional(metadata, "labels", _read_labels, ()),
        description=optional(spec, "description", lambda n: n.text(loose=True), ""),
        selector=optional(spec, "selector", lambda n: read_matchers(n, labels), ()),
        objectives=optional(spec, "objectives", lambda n: _read_objectives(n, boundaries), ()),
        target=target,
        period_ns=period_ns,
        schedule=optional(spec, "schedule", _read_schedule, None),
        policies=optional(spec, "policies", _read_policies, Policies()),
    )
    return slo if slo.name and slo.objectives else None


def _read_name(node: Node, taken: Collection[str]) -> str | None:
    rule = "must be at most 63 lower-case letters, digits and -, with a letter or digit at both ends"
    name = node.text(pattern=_NAME, rule=rule)
    if name in taken:
        node.problem("must be the name of one SLO only, in all files")
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


def _read_goodput(node: Node) -> tuple[Fraction | None, int | None]:
    fields = node.fields("period", required=("target",))
    target = optional(fields, "target", Node.ratio, None)
    period_ns = optional(fields, "period", lambda n: n.duration(MIN_PERIOD_NS, MAX_PERIOD_NS), DEFAULT_PERIOD_NS)
    return target, period_ns


def _read_policies(node: Node) -> Policies:
    fields = node.fields("single_token", "cancelled", "minimum_samples")
    default = Policies()
    return Policies(
        single_token=optional(
            fields, "single_token", lambda n: n.choice("not_applicable", "fail"), default.single_token
        ),
        cancelled=optional(
            fields, "cancelled", lambda n: n.choice("excluded_unless_broken", "excluded", "bad"), default.cancelled
        ),
        minimum_samples=optional(fields, "minimum_samples", _read_minimum_samples, default.minimum_samples),
    )


def _read_minimum_samples(node: Node) -> int | Literal["auto"] | None:
    return "auto" if node.scalar == "auto" else node.integer(1, 10**9, rule="must be auto or a whole number")


def _read_schedule(node: Node) -> Schedule:
    fields = node.fields("days", "timezone", required=("from", "to"))
    start = optional(fields, "from", _read_minute, None)
    end = optional(fields, "to", _read_minute, None)
    if start is not None and start == end:
        fields["to"].problem("must differ from the start; a whole day is 00:00 to 24:00")
    return Schedule(
        days=optional(fields, "days", _read_days, frozenset(range(7))),
        start_minute=start or 0,
        end_minute=end or 0,
        timezone=optional(fields, "timezone", _read_timezone, "UTC"),
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
    threshold_ns = optional(fields, "threshold", lambda n: n.duration(1, MAX_THRESHOLD_NS), None)
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
