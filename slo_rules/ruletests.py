"""Unit tests of the rules, in promtool's format: for each alert what makes it fire, keeps it silent and resolves it.

A test is a course of traffic in steps, the counters that exporters would show at each, and what must be firing at some
of them. Answers are worked out from the counts alone, as on paper: bad / eligible of the steps inside a window. Where
an instant would depend on how Prometheus extrapolates, two steps are left to it on either side.

The step is a fifth of the shortest window that the alert reads, so that a range holds six scrapes and may miss two.
promtool evaluates a whole file at one interval, so there is one file for each step. Where steps are too long for a sum
by the hour, nothing is known of a period of the calendar.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, gcd
from typing import Any, Final, NamedTuple

from slo_rules import rules, wording
from slo_rules.burn import LEAST_BAD, MOST_BAD, BurnWindow, decimal, least_bad
from slo_rules.rules import (
    HEADER,
    Group,
    RuleSet,
    RuleSettings,
    alert_labels,
    burn_alert,
    of_slo,
    selector,
    to_yaml,
    with_runbook,
)  # fmt: skip
from slo_rules.slo import SLO
from slo_rules.units import HOUR_NS, SECOND_NS, format_duration
from slo_rules.wording import Spent

STEPS_IN_SHORT: Final = 5
PERIOD_STEPS: Final = 120
MANY: Final = 100_000
"""Requests in a step, so many that chance plays no part."""
SLACK: Final = 2
"""Steps that are left to extrapolation."""
GAP: Final = 2
"""Scrapes missed: less than half the short window."""
QUIET_PER_HOUR: Final = 10
"""Requests, where the least bad count decides."""

COMMON: Final = "all_slos"
"""What the files are called whose rules belong to no SLO; no SLO has a name with an underscore."""

Values = list[int | None]


class Phase(NamedTuple):
    """Some steps of traffic of one exporter. `restart`: its counters begin at zero. Not `scraped`: nobody sees them."""

    steps: int
    good: int = 0
    bad: int = 0
    unknown: int = 0
    restart: bool = False
    scraped: bool = True


class Check(NamedTuple):
    """After `step` steps, `expr` has this value."""

    step: int
    expr: str
    value: float
    labels: str = "{}"


class Expected(NamedTuple):
    """After `step` steps, an alert with these labels and texts."""

    step: int
    alert: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test: the claim, the series of counters, and what must be true."""

    name: str
    step_ns: int
    series: Mapping[str, Values]
    checks: tuple[Check, ...] = ()
    alerts: tuple[Expected, ...] = ()


def unit_tests(slos: Sequence[SLO], settings: RuleSettings) -> dict[str, str]:
    """Files by name: the rules of each SLO alone, as promtool goes through all rules for each test, and their tests."""
    files: dict[str, str] = {}
    for slo in slos:
        groups = rules.slo_groups(slo, settings)
        files |= _files(slo.name, groups, _slo_cases(slo, settings))
    common = (*_backlog_cases(settings), *_exporter_cases(settings))
    return files | _files(COMMON, rules.common_groups(settings), common)


def _files(name: str, groups: tuple[Group, ...], found: Iterable[Case]) -> dict[str, str]:
    rule_file = f"{name}.rules.yml"
    by_step: dict[int, list[Case]] = {}
    for case in found:
        by_step.setdefault(case.step_ns, []).append(case)
    order = [group.name for group in groups]
    return {rule_file: rules.write_prometheus(RuleSet(groups=groups))} | {
        f"{name}.tests-{format_duration(step_ns)}.yml": _file(step_ns, cases, rule_file, order)
        for step_ns, cases in sorted(by_step.items())
    }


def cases(slos: Sequence[SLO], settings: RuleSettings) -> Iterator[Case]:
    """All tests."""
    for slo in slos:
        yield from _slo_cases(slo, settings)
    yield from _backlog_cases(settings)
    yield from _exporter_cases(settings)


def _slo_cases(slo: SLO, settings: RuleSettings) -> Iterator[Case]:
    if slo.target is not None and slo.period_ns is not None:
        for row, why in rules.rows(slo, settings.windows):
            if why is None:
                yield from _BurnCases(slo, row, settings, slo.period_ns, slo.target).cases()
        if slo.target < 1:
            yield from _period_cases(slo, settings, slo.period_ns, slo.target)
    yield from _data_cases(slo, settings)


# Courses of traffic


def traffic(slo: SLO, *phases: Phase, instance: str = "a:9464", after: int = 0) -> dict[str, Values]:
    """The counters of one exporter, at zero after `after` steps and then after each further one."""
    labels = f'instance="{instance}", job="goodput", slo="{slo.name}"'
    missing: Values = [None] * after
    if not slo.objectives:
        ended = _counted(phases, [phase.good + phase.bad for phase in phases])
        return {f'{rules.UNJUDGED}{{{labels}, reason="not_judged"}}': missing + ended}
    counters: dict[str, list[int]] = {
        f"{rules.ELIGIBLE}{{{labels}}}": [phase.good + phase.bad for phase in phases],
        f"{rules.GOOD}{{{labels}}}": [phase.good for phase in phases],
        f'{rules.BAD}{{{labels}, failed="{_failing(slo)}"}}': [phase.bad for phase in phases],
        f'{rules.UNJUDGED}{{{labels}, reason="unknown_value"}}': [phase.unknown for phase in phases],
    }
    series = {name: missing + _counted(phases, amounts) for name, amounts in counters.items()}
    if slo.calendar is not None:
        series[f"{rules.PERIOD_START}{{{labels}}}"] = missing + _counted(phases, [0] * len(phases))
    return series


def _counted(phases: Iterable[Phase], amounts: Iterable[int]) -> Values:
    values: Values = [0]
    total = 0
    for phase, amount in zip(phases, amounts, strict=True):
        total = 0 if phase.restart else total
        for _ in range(phase.steps):
            total += amount
            values.append(total if phase.scraped else None)
    return values


def _failing(slo: SLO) -> str:
    """What the bad requests of the tests fail."""
    return next((objective.name for objective in slo.objectives if objective.per_request), "error")


def is_firing(step: int, alert: str, firing: bool, slo: SLO | None = None) -> Check:
    """Whether an alert fires."""
    which = f', slo="{slo.name}"' if slo else ""
    expr = f'count(ALERTS{{alertname="{alert}", alertstate="firing"{which}}}) or vector(0)'
    return Check(step, expr, int(firing))


def is_absent(step: int, series: str) -> Check:
    """That there is no such series."""
    return Check(step, f"count({series}) or vector(0)", 0)


# Burn rates


class _BurnCases:
    def __init__(self, slo: SLO, row: BurnWindow, settings: RuleSettings, period_ns: int, target: Fraction) -> None:
        self.slo, self.row, self.settings = slo, row, settings
        self.period_ns, self.target = period_ns, target
        self.alert = burn_alert(row)
        self.step_ns = row.short_ns // STEPS_IN_SHORT
        self.long, self.short = ceil(Fraction(row.long_ns, self.step_ns)), STEPS_IN_SHORT
        self.ratio = row.factor(period_ns) * (1 - target)
        self.delay = ceil(self.long * self.ratio)
        """Steps until all bad fires, after a long window of good ones."""

    def cases(self) -> Iterator[Case]:
        yield self.spelt_out()
        end = 2 * self.short  # ratios that do not change are those of the long window from the start
        yield self.case("all good is silent", traffic(self.slo, Phase(end, MANY)), self.at(end, False))
        bad = int(MANY * self.ratio / 2)
        half = traffic(self.slo, Phase(end, MANY - bad, bad))
        yield self.case("half the burn rate is silent", half, self.at(end, False))
        yield self.course("fires after its share of the window, and resolves")
        yield self.course("a restart does not change the verdict", restart=True)
        yield self.course("missed scrapes do not change the verdict", gap=GAP)
        yield self.appearing()
        no_burn = of_slo(self.slo, rules.BURN, "ratio_rate", self.row.long_ns)
        idle = traffic(self.slo, Phase(end))
        yield self.case("no traffic is silent, and no burn rate", idle, self.at(end, False), is_absent(end, no_burn))
        for good, bad in ((1, 0), (0, 1)):
            yield self.few(f"one request is silent, {'good' if good else 'bad'}", good, bad, firing=False)
        yield from self.quiet()

    def case(self, name: str, series: Mapping[str, Values], *checks: Check, alerts: Sequence[Expected] = ()) -> Case:
        name = f"{self.slo.name} {self.alert}: {name}"
        return Case(name=name, step_ns=self.step_ns, series=series, checks=checks, alerts=tuple(alerts))

    def at(self, step: int, firing: bool) -> Check:
        return is_firing(step, self.alert, firing, self.slo)

    def spelt_out(self) -> Case:
        """All bad, for so long that every number is known."""
        end, row = self.long + SLACK, self.row
        spent = all_bad(self.slo, row.long_ns, self.step_ns, self.period_ns, self.target)
        text = wording.burning(self.slo, row, self.period_ns, self.target, spent)
        labels = alert_labels(
            self.slo,
            severity=rules.severity_of(self.slo, row),
            long_window=format_duration(row.long_ns),
            short_window=format_duration(row.short_ns),
        )
        expected = Expected(end, self.alert, labels, with_runbook(text, self.settings, self.alert, self.slo.name))
        return self.case("all bad fires, and says so", traffic(self.slo, Phase(end, bad=MANY)), alerts=[expected])

    def course(self, name: str, *, restart: bool = False, gap: int = 0) -> Case:
        """Good for the long window, then all bad until it fires, then good again."""
        fires = self.long + self.delay + SLACK
        ends = fires + self.short + SLACK
        bad = self.delay + SLACK - gap - 1
        phases = [Phase(self.long, MANY), Phase(bad, bad=MANY, restart=restart)]
        phases += [Phase(gap, bad=MANY, scraped=False), Phase(1, bad=MANY), Phase(ends - fires, MANY)]
        checks = [self.at(self.long, False)]
        if self.delay > SLACK and not gap:
            checks.append(self.at(self.long + self.delay - SLACK, False))
        checks += [self.at(fires, True), self.at(ends, False)]
        return self.case(name, traffic(self.slo, *(phase for phase in phases if phase.steps > 0)), *checks)

    def appearing(self) -> Case:
        """A second exporter, of which all is bad, appears half-way: two thirds of the window's requests are good."""
        half = self.long // 2
        series = traffic(self.slo, Phase(2 * half, MANY))
        series |= traffic(self.slo, Phase(half, bad=MANY), instance="b:9464", after=half)
        burn = of_slo(self.slo, rules.BURN, "ratio_rate", self.row.long_ns)
        right = Fraction(1, 3) / (1 - self.target)
        firing = Fraction(1, 3) > self.ratio
        near = f"abs({burn} - {decimal(right)}) < bool {decimal(right / 50)}"
        return self.case(
            "an exporter that appears half-way counts from there",
            series,
            Check(2 * half, near, 1, selector(self.slo)),
            self.at(2 * half, firing),
        )

    def few(self, name: str, good: int, bad: int, *, firing: bool) -> Case:
        """A few requests in a long window: the good ones one by one, the bad ones two steps before the end."""
        until = self.long - self.short
        places = [SLACK + 1 + place * (until - SLACK - 1) // max(good, 1) for place in range(good)]
        counts = {place: places.count(place) for place in places}
        phases = [Phase(1, counts.get(step, 0)) for step in range(1, self.long - 1)]
        phases += [Phase(1, bad=bad), Phase(1)]
        return self.case(name, traffic(self.slo, *phases), self.at(self.long, firing))

    def quiet(self) -> Iterator[Case]:
        """As few requests as the guard is for: one bad less than it takes, and as many as it takes."""
        requests = max(LEAST_BAD, int(Fraction(QUIET_PER_HOUR * self.row.long_ns, HOUR_NS)))
        least = max(LEAST_BAD, least_bad(requests, self.ratio))
        if least > min(requests, MOST_BAD):
            return
        for bad in (least - 1, least):
            name = f"{QUIET_PER_HOUR} requests an hour, {bad} of {requests} bad"
            yield self.few(name, requests - bad, bad, firing=bad == least)


def all_bad(slo: SLO, ns: int, step_ns: int, period_ns: int, target: Fraction) -> Spent:
    """The numbers of a window in which every request is bad, and so is everything before it."""
    budget = 1 - target
    requests = f"{float(MANY * Fraction(ns, step_ns)):.0f}"
    return Spent(
        burn=f"{float(1 / budget):.1f}",
        bad=requests,
        eligible=requests,
        attainment="0.00",
        lasts=f"{float(period_ns * budget / HOUR_NS):.1f}",
        left=f"{float(100 - 100 / budget):.0f}"
        if slo.calendar is None or 2 * step_ns < rules.CALENDAR_SLICE_NS
        else "?",
        failed=wording.failed_most(wording.cause(slo, _failing(slo)), requests),
    )


# The whole period


def _period_cases(slo: SLO, settings: RuleSettings, period_ns: int, target: Fraction) -> Iterator[Case]:
    """One step of a calendar is a fifth of a slice, so that a hundred are twenty slices."""
    name = rules.BELOW_TARGET
    if slo.calendar is None:
        step_ns, bad_steps = period_ns // PERIOD_STEPS // SECOND_NS * SECOND_NS or SECOND_NS, 10
        end = ceil(Fraction(period_ns, step_ns)) + SLACK
        spent = all_bad(slo, period_ns, step_ns, period_ns, target)
    else:
        step_ns, bad_steps, end = rules.CALENDAR_SLICE_NS // STEPS_IN_SHORT, 50, 100
        spent = all_bad(slo, end * step_ns, step_ns, period_ns, target)
    text = wording.below_target(slo, target, spent)
    expected = Expected(end, name, alert_labels(slo, severity="ticket"), with_runbook(text, settings, name, slo.name))

    def case(claim: str, phases: Sequence[Phase], *checks: Check, alerts: tuple[Expected, ...] = ()) -> Case:
        claim = f"{slo.name} {name}: {claim}"
        return Case(name=claim, step_ns=step_ns, series=traffic(slo, *phases), checks=checks, alerts=alerts)

    yield case("all bad fires, and says so", [Phase(end, bad=MANY)], alerts=(expected,))
    bad, after = int(MANY * (1 - target) / 2), 2 * bad_steps
    yield case("half the budget is silent", [Phase(after, MANY - bad, bad)], is_firing(after, name, False, slo))
    # Twice as many requests, by 1 / budget, as were bad: half of the budget is left.
    recovery = [Phase(bad_steps, bad=MANY), Phase(bad_steps, int(MANY * 2 / (1 - target)))]
    checks = (is_firing(bad_steps, name, True, slo), is_firing(after, name, False, slo))
    yield case("resolves when enough good requests have come", recovery, *checks)
    if slo.calendar is not None:
        left = of_slo(slo, rules.BUDGET, rules.ratio_of(slo.calendar), slo.calendar)
        whole = Check(after, f"sum({left})", 1)
        turned = case(
            "resolves when a period begins", [Phase(bad_steps, bad=MANY), Phase(bad_steps, MANY)], *checks, whole
        )
        yield replace(turned, series=_turning(turned.series, step_ns, bad_steps))


def _turning(series: Mapping[str, Values], step_ns: int, turn: int) -> dict[str, Values]:
    """The same, and a period of the calendar begins with the step `turn`."""
    start_s = turn * step_ns // SECOND_NS
    return {
        name: [start_s if place > turn else value for place, value in enumerate(values)]
        if name.startswith(rules.PERIOD_START)
        else values
        for name, values in series.items()
    }


# Data


def _data_cases(slo: SLO, settings: RuleSettings) -> Iterator[Case]:
    rule = settings.windows.no_data
    common = gcd(rule.window_ns, *rule.before_ns)
    step_ns = common // ceil(Fraction(STEPS_IN_SHORT * common, rule.window_ns))
    window, before, *rest = (ns // step_ns for ns in (rule.window_ns, *rule.before_ns))
    yield from _no_data_cases(slo, settings, step_ns, window, before, rest)
    if slo.objectives:
        yield from _unjudged_cases(slo, settings, step_ns, window)


def _no_data_cases(
    slo: SLO, settings: RuleSettings, step_ns: int, window: int, before: int, rest: Sequence[int]
) -> Iterator[Case]:
    name, requests = rules.NO_DATA, 1000
    stop = before + 2 * window
    fires, ends = stop + window + SLACK, stop + window + 2 * SLACK
    text = wording.no_data(slo, settings.windows, f"{requests * window}")
    expected = Expected(fires, name, alert_labels(slo, severity="ticket"), with_runbook(text, settings, name, slo.name))
    course = [Phase(stop, requests), Phase(fires - stop), Phase(ends - fires, requests)]
    checks = (is_firing(stop, name, False, slo), is_firing(ends, name, False, slo))
    claim = f"{slo.name} {name}: fires when requests stop, and resolves when they come again"
    yield Case(name=claim, step_ns=step_ns, series=traffic(slo, *course), checks=checks, alerts=(expected,))
    claim = f"{slo.name} {name}: silent where there were none before"
    idle = traffic(slo, Phase(fires))
    yield Case(name=claim, step_ns=step_ns, series=idle, checks=(is_firing(fires, name, False, slo),))
    for earlier in rest:
        # Silence at the beginning; `earlier` later there is silence again, and traffic `before` that.
        stop = earlier + window + SLACK
        course = [Phase(2 * window + SLACK), Phase(stop - 2 * window - SLACK, requests), Phase(window + SLACK)]
        end = stop + window
        claim = f"{slo.name} {name}: silent where it was silent {format_duration(earlier * step_ns)} ago"
        series = traffic(slo, *course)
        yield Case(name=claim, step_ns=step_ns, series=series, checks=(is_firing(end, name, False, slo),))


def _unjudged_cases(slo: SLO, settings: RuleSettings, step_ns: int, window: int) -> Iterator[Case]:
    name, unknown = rules.CANNOT_JUDGE, 1000
    fires, ends = window + SLACK, 2 * (window + SLACK)
    text = wording.unjudged(slo, settings.windows, f"{unknown * window}")
    expected = Expected(fires, name, alert_labels(slo, severity="ticket"), with_runbook(text, settings, name, slo.name))
    course = [Phase(fires, good=10, unknown=unknown), Phase(ends - fires, good=unknown, unknown=10)]
    claim = f"{slo.name} {name}: fires while most are unknown, and resolves"
    checks = (is_firing(ends, name, False, slo),)
    yield Case(name=claim, step_ns=step_ns, series=traffic(slo, *course), checks=checks, alerts=(expected,))
    claim = f"{slo.name} {name}: silent while most are judged"
    series = traffic(slo, Phase(fires, good=1000, unknown=100))
    yield Case(name=claim, step_ns=step_ns, series=series, checks=(is_firing(fires, name, False, slo),))


# Backlog and exporters


def _backlog_cases(settings: RuleSettings) -> Iterator[Case]:
    rule, name = settings.windows.backlog, rules.BACKLOG
    step_ns = rule.short_ns // STEPS_IN_SHORT
    long, hold = (ceil(Fraction(ns, step_ns)) for ns in (rule.long_ns, rule.hold_ns))
    arriving = max(60, 10 * rule.requests)
    growth = ceil(2 * rule.share * arriving)
    fires = long + hold + SLACK
    ends = fires + STEPS_IN_SHORT + SLACK
    labels = {"boundary": "end_to_end", "class": "interactive", "severity": "ticket"}
    text = wording.backlog(settings.windows, "interactive", "end_to_end", f"{growth * rule.long_ns // step_ns}")
    expected = Expected(fires, name, labels, with_runbook(text, settings, name))
    series = _flows([(fires, arriving, arriving - growth), (ends - fires, arriving, 2 * arriving)])
    yield Case(
        name=f"{name}: fires while arrivals exceed completions, and resolves",
        step_ns=step_ns,
        series=series,
        checks=(is_firing(max(0, hold - SLACK), name, False), is_firing(ends, name, False)),
        alerts=(expected,),
    )
    steady = _flows([(fires, arriving, arriving)])
    claim = f"{name}: silent while as many end as arrive"
    yield Case(name=claim, step_ns=step_ns, series=steady, checks=(is_firing(fires, name, False),))


def _flows(phases: Sequence[tuple[int, int, int]]) -> dict[str, Values]:
    """Arrivals and departures; these of two exporters."""
    common = 'boundary="end_to_end", class="interactive", instance="a:9464", job="goodput"'
    steps = [Phase(steps) for steps, _, _ in phases]
    half = [ended // 2 for _, _, ended in phases]
    rest = [ended - ended // 2 for _, _, ended in phases]
    return {
        f'{rules.ARRIVALS}{{{common}, evidence="span"}}': _counted(steps, [arrived for _, arrived, _ in phases]),
        f"{rules.DEPARTURES}{{{common}}}": _counted(steps, half),
        f"{rules.DEPARTURES}{{{common.replace('a:', 'b:')}}}": _counted(steps, rest),
    }


def _exporter_cases(settings: RuleSettings) -> Iterator[Case]:
    windows = settings.windows
    hold, labels = STEPS_IN_SHORT, {"instance": "a:9464", "job": "goodput"}
    step_ns = windows.exporter.hold_ns // hold
    where = '{instance="a:9464", job="goodput"}'
    info = f'{rules.BUILD_INFO}{{instance="a:9464", job="goodput", version="1", compiled="true"}}'
    bad = hold + SLACK
    seen: Values = [1] * 3
    told = {
        rules.EXPORTER_DOWN: (
            {"up" + where: [*seen, *[0] * bad, *seen], info: [*seen, *[None] * bad, *seen]},
            {**labels, "severity": "page"},
            wording.exporter_down("goodput", "a:9464", windows),
        ),
        rules.EXPORTER_ABSENT: (
            {info: [*[None] * (3 + bad), *seen]},
            {"severity": "page"},
            wording.exporter_absent(windows),
        ),
        rules.EXPORTER_RELOAD: (
            {rules.RELOADED + where: [*seen, *[0] * bad, *seen]},
            {**labels, "severity": "ticket"},
            wording.exporter_reload("goodput", "a:9464", windows),
        ),
    }  # fmt: skip
    well: dict[str, Values] = {"up" + where: [1] * 12, info: [1] * 12, rules.RELOADED + where: [1] * 12}
    for name, (series, exp_labels, text) in told.items():
        expected = Expected(bad + 2, name, exp_labels, with_runbook(text, settings, name))
        yield Case(
            name=f"{name}: fires, and resolves",
            step_ns=step_ns,
            series=series,
            checks=(is_firing(2, name, False), is_firing(bad + 4, name, False)),
            alerts=(expected,),
        )
        claim = f"{name}: silent while all is well"
        yield Case(name=claim, step_ns=step_ns, series=well, checks=(is_firing(11, name, False),))


# Writing


def _file(step_ns: int, found: Sequence[Case], rule_file: str, order: Sequence[str]) -> str:
    body = {
        "rule_files": [rule_file],
        "evaluation_interval": format_duration(step_ns),
        # Without it the order is any, and alerts that tell what another group recorded would tell old numbers.
        "group_eval_order": list(order),
        "tests": [_test(case) for case in found],
    }
    return "\n".join([HEADER, to_yaml(body)])


def _test(case: Case) -> dict[str, Any]:
    test: dict[str, Any] = {
        "name": case.name,
        "interval": format_duration(case.step_ns),
        "input_series": [{"series": name, "values": notation(values)} for name, values in case.series.items()],
    }
    if case.checks:
        test["promql_expr_test"] = [_check(check, case.step_ns) for check in case.checks]
    if case.alerts:
        test["alert_rule_test"] = [_expected(expected, case.step_ns) for expected in case.alerts]
    return test


def _check(check: Check, step_ns: int) -> dict[str, Any]:
    return {
        "expr": check.expr,
        "eval_time": format_duration(check.step * step_ns),
        "exp_samples": [{"labels": check.labels, "value": check.value}],
    }


def _expected(expected: Expected, step_ns: int) -> dict[str, Any]:
    alert = {"exp_labels": dict(expected.labels), "exp_annotations": dict(expected.annotations)}
    return {
        "eval_time": format_duration(expected.step * step_ns),
        "alertname": expected.alert,
        "exp_alerts": [alert],
    }


def notation(values: Sequence[int | None]) -> str:
    """Values as promtool writes them: `0+5x3` is 0 5 10 15, `_x2` is two missing ones."""
    parts, place = [], 0
    while place < len(values):
        length = _run(values, place)
        first = values[place]
        if first is None:
            parts.append(f"_x{length}")
        elif length == 1:
            parts.append(str(first))
        else:
            following = values[place + 1]
            assert following is not None  # a run of numbers
            parts.append(f"{first}{following - first:+d}x{length - 1}")
        place += length
    return " ".join(parts)


def _run(values: Sequence[int | None], place: int) -> int:
    """How many values from `place` on are all missing, or rise by the same amount."""
    end = place + 1
    while end < len(values) and _rise(values, end) == _rise(values, place + 1):
        if (values[end] is None) != (values[place] is None):
            break
        end += 1
    return end - place


def _rise(values: Sequence[int | None], place: int) -> int | None:
    before, after = values[place - 1], values[place]
    return None if before is None or after is None else after - before
