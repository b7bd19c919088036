"""When a burning error budget is worth an alert: windows, factors, and how many bad requests it takes.

With a target s over a period P, the budget is B = 1 - s of the requests. A burn rate of 1 uses it up in just P. An
alert row says: fire when the share `budget` of it goes in the window `long`, that is at a burn rate of

    factor = budget * P / long

over `long` and, so that the alert ends soon after its cause, over `short`. At an error ratio e it fires after
long * factor * B / e, and ends at most `short` after the cause. A burn rate is at most 1 / B (everything is bad), so a
row whose factor * B is 1 or more can never fire.

Where requests are few, one bad request is a high error ratio. The guard asks whether that many could be bad by chance
if the true error ratio were p = factor * B, the highest that does not concern this row:

    fire only if P(X >= bad) <= 1 %, X binomial of N requests with p

For each N this holds from a least count of bad requests on, and that count grows with N by single steps, so a list of
the Ns at which it grows says all. Steps end at `MOST_BAD`: with that many bad requests chance no longer makes a large
difference to the ratio. Two bad requests it takes at least: one is an incident, and no rate.

Everything is exact: fractions, and for the binomial tail 50 decimal digits against a bound of 0.01.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cache
from importlib.resources import files
from typing import Final, Literal

from slo_rules.document import Node, Problem, Problems, optional, read
from slo_rules.units import DAY_NS, SECOND_NS, format_decimal, format_duration

CHANCE: Final = Decimal("0.01")
"""How probable the bad requests may be without a cause."""
LEAST_BAD: Final = 2
MOST_BAD: Final = 20
MAX_WINDOW_NS: Final = 366 * DAY_NS
MAX_ROWS: Final = 16
"""Each is an alert of every SLO, and two windows that the exporter counts."""

_DIGITS: Final = Context(prec=50)

Severity = Literal["page", "ticket"]
SEVERITIES: Final[tuple[Severity, ...]] = ("page", "ticket")


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnWindow:
    """An alert while the error budget burns faster than `budget` of it in `long`, over `long` and over `short`.

    Both windows must exceed the burn rate budget x period / long.
    """

    severity: Severity
    """Label of the alert; that of a batch workload, for which nobody waits, is always a ticket."""
    long_ns: int
    """The long window; another one in each row."""
    short_ns: int
    """The short window, so that the alert ends soon after its cause."""
    budget: Fraction
    """The share of the period's error budget."""

    def factor(self, period_ns: int) -> Fraction:
        """The burn rate that both windows must exceed."""
        return self.budget * period_ns / self.long_ns

    @property
    def text(self) -> str:
        """For people: "page over 1h and 5m"."""
        return f"{self.severity} over {format_duration(self.long_ns)} and {format_duration(self.short_ns)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """An alert while arrivals exceed completions over `long` by `share` and by `requests`, and still over `short`."""

    long_ns: int
    """The window of the excess."""
    short_ns: int
    """The window in which it must go on."""
    hold_ns: int
    """For how long both must hold."""
    share: Fraction
    """Of the arrivals."""
    requests: int
    """The least number of requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoData:
    """An alert when there was no request in `window`, though `requests` at least in the same one earlier."""

    window_ns: int
    """Without a request. Also the window in which most requests could not be judged."""
    before_ns: tuple[int, ...]
    """How much earlier; in each of them, as far as it is known."""
    requests: int
    """The least number of requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterGone:
    """An alert when an exporter is gone, or could not read its files."""

    hold_ns: int
    """For so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertWindows:
    """When alerts fire. The rows of `burn` are also burn rates that the exporter itself shows."""

    burn: tuple[BurnWindow, ...]
    backlog: Backlog
    no_data: NoData
    exporter: ExporterGone

    @property
    def burn_lengths_ns(self) -> tuple[int, ...]:
        """All windows over which a burn rate is needed, ascending."""
        return tuple(sorted({ns for row in self.burn for ns in (row.short_ns, row.long_ns)}))


def obstacle(row: BurnWindow, period_ns: int, target: Fraction) -> str | None:
    """Why a row cannot be an alert of an SLO with this target and period; None if it can."""
    if row.long_ns >= period_ns:
        return f"its window is not shorter than the period of {format_duration(period_ns)}"
    if target == 1:
        return "a target of 100% leaves no error budget that could burn"
    factor, highest = row.factor(period_ns), 1 / (1 - target)
    if factor >= highest:
        return (
            f"a burn rate above {decimal(factor)} cannot be reached, as with a target of "
            f"{format_decimal(100 * target)}% it is {decimal(highest)} at most"
        )
    return None


def least_bad(requests: int, ratio: Fraction) -> int:
    """The least number of bad among `requests` that has a chance of at most 1 % at the error ratio `ratio`, below 1.

    It is one more than `requests` where even all of them being bad is not that improbable.
    """
    least = 0
    while least <= requests and not _improbable(least, requests, ratio):
        least += 1
    return least


@cache
def steps(ratio: Fraction, most: int = MOST_BAD) -> tuple[int, ...]:
    """The numbers of requests from which `LEAST_BAD` + 1, `LEAST_BAD` + 2, … `most` bad ones are needed."""
    found: list[int] = []
    for least in range(LEAST_BAD, most):
        found.append(_first_probable(least, ratio, found[-1] + 1 if found else 1))
    return tuple(found)


def _first_probable(bad: int, ratio: Fraction, low: int) -> int:
    """The least number of requests, `low` or more, of which `bad` may be bad by chance."""
    high = max(low, bad)
    while _improbable(bad, high, ratio):
        high *= 2
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if _improbable(bad, middle, ratio) else (low, middle)
    return low


def _improbable(bad: int, requests: int, ratio: Fraction) -> bool:
    """Whether P(X >= bad) <= 1 %, X binomial of `requests` and `ratio`."""
    with localcontext(_DIGITS):
        p = Decimal(ratio.numerator) / ratio.denominator
        term = (1 - p) ** requests
        below = Decimal(0)
        for count in range(min(bad, requests + 1)):
            below += term
            term = term * (requests - count) / (count + 1) * p / (1 - p)
        return 1 - below <= CHANCE


def decimal(value: Fraction) -> str:
    """A number in decimal digits, exact up to 12 of them: "14.4", "0.933333333333"."""
    return f"{Decimal(value.numerator) / Decimal(value.denominator):.12g}"


# Reading


@cache
def built_in() -> AlertWindows:
    """The windows that hold where the settings say nothing else."""
    problems: list[Problem] = []
    text = files("slo_rules").joinpath("windows.yaml").read_text(encoding="utf-8")
    (node,) = read(text, "windows.yaml", problems, None, ours=True)
    windows = _read(node, None)
    if problems or windows is None:
        raise Problems(problems)
    return windows


def read_windows(node: Node) -> AlertWindows | None:
    """The windows of a mapping; a section that it leaves out is the built-in one."""
    return _read(node, built_in())


def _read(node: Node, default: AlertWindows | None) -> AlertWindows | None:
    names = ("burn", "backlog", "no_data", "exporter")
    fields = node.fields(*names, required=() if default else names)
    burn = optional(fields, "burn", _read_burn, default.burn if default else None)
    backlog = optional(fields, "backlog", _read_backlog, default.backlog if default else None)
    no_data = optional(fields, "no_data", _read_no_data, default.no_data if default else None)
    exporter = optional(fields, "exporter", _read_exporter, default.exporter if default else None)
    if burn is None or backlog is None or no_data is None or exporter is None:
        return None
    return AlertWindows(burn=burn, backlog=backlog, no_data=no_data, exporter=exporter)


def _read_burn(node: Node) -> tuple[BurnWindow, ...]:
    rows: list[BurnWindow] = []
    if node.is_sequence and len(node.items()) > MAX_ROWS:
        node.problem(f"must hold {MAX_ROWS} rows at most", str(len(node.items())))
    for item in node.items():
        row = _read_row(item)
        if row is not None and any(row.long_ns == other.long_ns for other in rows):
            item.problem("must have another long window than the rows before it")
        if row is not None:
            rows.append(row)
    return tuple(rows)


def _read_row(node: Node) -> BurnWindow | None:
    fields = node.fields(required=("severity", "long", "short", "budget"))
    severity = optional(fields, "severity", lambda n: n.choice(*SEVERITIES), None)
    long_ns, short_ns = (optional(fields, name, _read_window, None) for name in ("long", "short"))
    budget = optional(fields, "budget", Node.ratio, None)
    if severity is None or long_ns is None or short_ns is None or budget is None:
        return None
    _check_order(node, long_ns, short_ns)
    return BurnWindow(severity=severity, long_ns=long_ns, short_ns=short_ns, budget=budget)


def _read_backlog(node: Node) -> Backlog | None:
    fields = node.fields(required=("long", "short", "for", "share", "requests"))
    long_ns, short_ns, hold_ns = (optional(fields, name, _read_window, None) for name in ("long", "short", "for"))
    share = optional(fields, "share", Node.ratio, None)
    requests = optional(fields, "requests", lambda n: n.integer(1, 10**9), None)
    if long_ns is None or short_ns is None or hold_ns is None or share is None or requests is None:
        return None
    _check_order(node, long_ns, short_ns)
    return Backlog(long_ns=long_ns, short_ns=short_ns, hold_ns=hold_ns, share=share, requests=requests)


def _check_order(node: Node, long_ns: int, short_ns: int) -> None:
    if short_ns >= long_ns:
        node.problem("must have a short window below the long one", format_duration(short_ns))


def _read_no_data(node: Node) -> NoData | None:
    fields = node.fields(required=("window", "before", "requests"))
    window_ns = optional(fields, "window", _read_window, None)
    before_ns = optional(fields, "before", _read_before, None)
    requests = optional(fields, "requests", lambda n: n.integer(1, 10**9), None)
    if window_ns is None or before_ns is None or requests is None:
        return None
    return NoData(window_ns=window_ns, before_ns=before_ns, requests=requests)


def _read_before(node: Node) -> tuple[int, ...] | None:
    found: Sequence[Node] = node.items_or_one()
    if not found:
        node.problem("must hold at least one duration")
    return tuple(ns for item in found if (ns := _read_window(item)) is not None) or None


def _read_exporter(node: Node) -> ExporterGone | None:
    hold_ns = optional(node.fields(required=("for",)), "for", _read_window, None)
    return None if hold_ns is None else ExporterGone(hold_ns=hold_ns)


def _read_window(node: Node) -> int | None:
    ns = node.duration(SECOND_NS, MAX_WINDOW_NS)
    if ns is not None and ns % SECOND_NS:
        node.problem("must be whole seconds")
    return ns
