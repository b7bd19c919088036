"""What alerts say to the person on call: plain sentences with the numbers, the limit, the class and the boundary.

Every number comes in as text. The rules give templates that Prometheus fills in when an alert fires; the unit tests of
the rules give the numbers themselves, and so say what must come out.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from slo_rules.burn import AlertWindows, BurnWindow, decimal
from slo_rules.slo import SLO, Objective
from slo_rules.units import format_decimal, format_duration

METRIC_WORDS: Final[Mapping[str, str]] = {
    "ttft": "time to first token",
    "tpot": "time per output token",
    "completion": "time to completion",
}
CAUSE_WORDS: Final[Mapping[str, str]] = {
    "several": "several limits at once",
    "error": "errors",
    "timeout": "time-outs",
    "shed": "requests that were refused under load",
    "cancelled": "requests that were cancelled",
}
"""What stands in the label `failed` beside the names of objectives."""

Annotations = dict[str, str]


class Spent(NamedTuple):
    """The numbers of an alert on the error budget. `failed`: a sentence on what failed most, or nothing."""

    burn: str
    bad: str
    eligible: str
    attainment: str
    lasts: str
    left: str
    failed: str


def burning(slo: SLO, row: BurnWindow, period_ns: int, target: Fraction, spent: Spent) -> Annotations:
    """The budget burns faster than a row of the table allows."""
    long, short = (format_duration(ns) for ns in (row.long_ns, row.short_ns))
    return {
        "summary": (
            f"SLO {slo.name} uses up its error budget {spent.burn} times as fast as its target allows "
            f"(limit {decimal(row.factor(period_ns))} over {long} and {short})."
        ),
        "description": (
            f"In the last {long}, {spent.bad} of {spent.eligible} requests were not good, and {spent.attainment} % "
            f"were; the target is {percent(target)} % over {period(slo)}.{spent.failed} At this rate the error budget "
            f"of {period(slo)} lasts {spent.lasts} hours; {spent.left} % of it is left. {population(slo)}"
        ),
    }


def below_target(slo: SLO, target: Fraction, spent: Spent) -> Annotations:
    """The budget is used up: over the whole period fewer requests were good than promised."""
    since = f"In the last {period(slo)}" if slo.calendar is None else f"Since {period(slo)} began"
    return {
        "summary": (
            f"Goodput of SLO {slo.name} is below its target: {spent.attainment} % of the requests of {period(slo)} "
            f"were good, {percent(target)} % should be."
        ),
        "description": (
            f"{since}, {spent.bad} of {spent.eligible} requests were not good. The error budget is used "
            f"up: {spent.left} % of it is left.{spent.failed} {population(slo)}"
        ),
    }


def no_data(slo: SLO, windows: AlertWindows, before: str) -> Annotations:
    """Requests are missing. `before`: how many there were earlier."""
    rule = windows.no_data
    window, ago = format_duration(rule.window_ns), format_duration(rule.before_ns[0])
    return {
        "summary": f"SLO {slo.name} sees no requests: none in the last {window}, {before} in the same time {ago} ago.",
        "description": (
            "While no request arrives, the SLO can be neither met nor broken. Either clients send nothing, or the "
            f"spans of their requests do not reach the exporter. {population(slo)}"
        ),
    }


def unjudged(slo: SLO, windows: AlertWindows, unknown: str) -> Annotations:
    """Requests are there, and most of them cannot be judged. `unknown`: how many of the last window."""
    window = format_duration(windows.no_data.window_ns)
    return {
        "summary": f"SLO {slo.name} cannot judge most of its requests: {unknown} in the last {window} are unknown.",
        "description": (
            "Spans are missing from these requests, or clocks are too far apart, so nobody knows whether they met "
            f"the limits. No other alert of this SLO can be relied on. {population(slo)}"
        ),
    }


def backlog(windows: AlertWindows, klass: str, boundary: str, growth: str) -> Annotations:
    """More arrives than is finished."""
    rule = windows.backlog
    long, share = format_duration(rule.long_ns), percent(rule.share)
    return {
        "summary": f"The backlog grows: {growth} more requests of class {klass} arrived at {boundary} than ended.",
        "description": (
            f"For {format_duration(rule.hold_ns)}, arrivals over {long} were more than {share} % above completions. "
            "If it goes on, every request waits longer than the one before it: add capacity, or shed load."
        ),
    }


def exporter_down(job: str, instance: str, windows: AlertWindows) -> Annotations:
    """A known exporter does not answer."""
    hold = format_duration(windows.exporter.hold_ns)
    return {
        "summary": f"The goodput exporter {instance} ({job}) does not answer.",
        "description": f"It has not been scraped for {hold}. Requests that it would have seen are not judged.",
    }


def exporter_absent(windows: AlertWindows) -> Annotations:
    """No exporter at all."""
    hold = format_duration(windows.exporter.hold_ns)
    return {
        "summary": "There is no goodput exporter: no SLO is measured.",
        "description": f"For {hold}, nothing that Prometheus scrapes was a goodput exporter.",
    }


def exporter_reload(job: str, instance: str, windows: AlertWindows) -> Annotations:
    """Files with mistakes."""
    return {
        "summary": f"The goodput exporter {instance} ({job}) could not read its files.",
        "description": (
            f"For {format_duration(windows.exporter.hold_ns)} it has gone by the files that it read before. "
            "Its log has the mistakes; so has `goodput-exporter check`."
        ),
    }


def cause(slo: SLO, failed: str) -> str:
    """What a value of the label `failed` means."""
    named = {objective.name: limit(objective) for objective in slo.objectives}
    return named.get(failed) or CAUSE_WORDS.get(failed, failed)


def causes(slo: SLO) -> dict[str, str]:
    """All values of `failed` that have words."""
    limits = [objective.name for objective in slo.objectives if objective.per_request]
    return {failed: cause(slo, failed) for failed in (*limits, *CAUSE_WORDS)}


def failed_most(words: str, count: str) -> str:
    """The sentence on what failed most."""
    return f" What failed most: {words} ({count})."


def limit(objective: Objective) -> str:
    """An objective as the limit of a request."""
    words = METRIC_WORDS[objective.metric]
    return f"{words} above {format_duration(objective.threshold_ns)} at {objective.boundary}"


def period(slo: SLO) -> str:
    """What the target is measured over."""
    return format_duration(slo.period_ns or 0) if slo.calendar is None else f"the {slo.calendar.unit}"


def population(slo: SLO) -> str:
    """Which requests an SLO is about, and where they are timed."""
    matchers = [f"{label} {_any(values)}" for label, values in slo.selector]
    which = f"requests of {' and '.join(matchers)}" if matchers else "all requests"
    boundaries = _all(sorted(slo.boundaries))
    return f"Counted: {which}, timed at {boundaries}{', within the schedule' if slo.schedule else ''}."


def percent(ratio: Fraction) -> str:
    """A ratio in percent, without the sign."""
    return format_decimal(100 * ratio)


def _any(values: Sequence[str]) -> str:
    return _listed(values, "or")


def _all(values: Sequence[str]) -> str:
    return _listed(values, "and")


def _listed(values: Sequence[str], word: str) -> str:
    *rest, last = values
    return f"{', '.join(rest)} {word} {last}" if rest else last
