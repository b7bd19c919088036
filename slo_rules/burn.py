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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cache
from importlib.resources import files
from typing import Final, Literal

from slo_rules.document import Node, Problem, Problems, optional, read
from slo_rules.units import DAY_NS, SECOND_NS, format_decimal, format_duration

API_VERSION: Final = "goodput/v1"
KIND: Final = "AlertWindows"
CHANCE: Final = Decimal("0.01")
"""How probable the bad requests may be without a cause."""
LEAST_BAD: Final = 2
MOST_BAD: Final = 20
MAX_WINDOW_NS: Final = 366 * DAY_NS

_DIGITS: Final = Context(prec=50)

Severity = Literal["page", "ticket"]
SEVERITIES: Final[tuple[Severity, ...]] = ("page", "ticket")


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnWindow:
    """One row: alert when `budget` of the period's error budget goes in `long_ns`, and `short_ns` agrees."""

    severity: Severity
    long_ns: int
    short_ns: int
    budget: Fraction

    def factor(self, period_ns: int) -> Fraction:
        """The burn rate that both windows must exceed."""
        return self.budget * period_ns / self.long_ns

    @property
    def text(self) -> str:
        """For people: "page over 1h and 5m"."""
        return f"{self.severity} over {format_duration(self.long_ns)} and {format_duration(self.short_ns)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Alert when arrivals exceed completions over `long_ns` by `share` and by `requests`, and still over `short_ns`."""

    long_ns: int
    short_ns: int
    hold_ns: int
    share: Fraction
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoData:
    """Alert when there was no request for `window_ns`, though `requests` in the window `before_ns` earlier."""

    window_ns: int
    before_ns: tuple[int, ...]
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertWindows:
    """All that says when alerts fire."""

    burn: tuple[BurnWindow, ...]
    backlog: Backlog
    no_data: NoData
    exporter_hold_ns: int


def obstacle(row: BurnWindow, period_ns: int, target: Fraction) -> str | None:
    """Why a row cannot be an alert of an SLO with this target and period; None if it can."""
    if row.long_ns > period_ns:
        return f"its window is longer than the period of {format_duration(period_ns)}"
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
    """The windows that come with the package."""
    text = files("slo_rules").joinpath("windows.yaml").read_text(encoding="utf-8")
    return read_windows(text, "windows.yaml", {}, None)


def read_windows(text: str, file: str, environment: Mapping[str, str], default: AlertWindows | None) -> AlertWindows:
    """The windows of a file; a section that it leaves out is that of `default`. Raises Problems."""
    problems: list[Problem] = []
    nodes = read(text, file, problems, environment)
    windows = _read(nodes[0], default) if nodes else default
    for node in nodes[1:]:
        node.problem("must be the only document of its file")
    if problems or windows is None:
        raise Problems(problems or [Problem(file=file, line=1, column=1, path="", rule="must hold windows", found="")])
    return windows


def _read(node: Node, default: AlertWindows | None) -> AlertWindows | None:
    fields = node.fields(required=("apiVersion", "kind", "spec"))
    optional(fields, "apiVersion", lambda n: n.choice(API_VERSION), "")
    optional(fields, "kind", lambda n: n.choice(KIND), "")
    names = ("burn", "backlog", "no_data", "exporter")
    spec = fields["spec"].fields(*names, required=() if default else names) if "spec" in fields else {}
    burn = optional(spec, "burn", _read_burn, default.burn if default else None)
    backlog = optional(spec, "backlog", _read_backlog, default.backlog if default else None)
    no_data = optional(spec, "no_data", _read_no_data, default.no_data if default else None)
    hold_ns = optional(spec, "exporter", _read_exporter, default.exporter_hold_ns if default else None)
    if burn is None or backlog is None or no_data is None or hold_ns is None:
        return None
    return AlertWindows(burn=burn, backlog=backlog, no_data=no_data, exporter_hold_ns=hold_ns)


def _read_burn(node: Node) -> tuple[BurnWindow, ...]:
    rows: list[BurnWindow] = []
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


def _read_exporter(node: Node) -> int | None:
    return optional(node.fields(required=("for",)), "for", _read_window, None)


def _read_window(node: Node) -> int | None:
    ns = node.duration(SECOND_NS, MAX_WINDOW_NS)
    if ns is not None and ns % SECOND_NS:
        node.problem("must be whole seconds")
    return ns
