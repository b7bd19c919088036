"""On call: is the promise kept now, if not since when, which limit fails, and at which boundary."""

from typing import Final

from grafana_foundation_sdk.builders import timeseries

from dashboards import frame
from dashboards.frame import ALERTS, Board, Row, Settings
from dashboards.panels import (
    COUNT,
    GREEN,
    GREY,
    NO_DATA,
    ORANGE,
    PLAIN,
    RED,
    REQUESTS_PER_SECOND,
    SECONDS,
    SHARE,
    Column,
    Panel,
    Query,
    graph,
    grid,
    of_each,
    states,
    words,
)
from dashboards.query import RATIO, REQUESTS, SLO, TRAFFIC, WINDOW, Vector, family, rule, share
from slo_rules import rules
from slo_rules.slo import SLO as Promise
from slo_rules.units import format_decimal, format_duration
from slo_rules.vocabulary import VERDICTS

GOOD: Final = family("inference_slo_good_requests_total", *SLO)
ELIGIBLE: Final = family("inference_slo_eligible_requests_total", *SLO)
BAD: Final = family("inference_slo_bad_requests_total", *SLO)
UNJUDGED: Final = family("inference_slo_unjudged_requests_total", *SLO)
TARGET: Final = family("inference_slo_target_ratio", *SLO).worst("slo")
ATTAINMENT: Final = share(GOOD.per_second(WINDOW).sum("slo"), ELIGIBLE.per_second(WINDOW).sum("slo"))
ALLOWED: Final = Vector(f"(1 - {TARGET} > 0)", TARGET.labels)
BURN: Final = Vector(f"(1 - {ATTAINMENT})\n/ {ALLOWED}", TARGET.labels)
BUDGET: Final = Vector(
    f"{rule(rules.BUDGET, f'{RATIO}.+').worst('slo')}\n"
    f"or {family('inference_slo_error_budget_remaining_ratio', *SLO).least('slo')}",
    TARGET.labels,
)
"""As the rules record it over the whole period; where there are no rules, what the exporters saw since they started."""
COMPLETIONS: Final = family("inference_completions_total", *REQUESTS)
DEPARTURES: Final = family("inference_departures_total", *TRAFFIC)
"""Of all models, as arrivals are: what a request is for is not known when it starts."""
FAILURES: Final = ("error", "timeout", "shed")

PERCENTILE_COLORS: Final = {"^p50.*": "blue", "^p95.*": "orange", "^p99.*": "purple"}
OUTCOME_COLORS: Final = {
    "^ok$": GREEN, "^error$": RED, "^timeout$": "dark-orange", "^shed$": "purple", "^cancelled$": "yellow",
    "^client_error$": "light-blue", "^unknown$": GREY,
}  # fmt: skip
STATES: Final = {"1": ("KEPT", GREEN), "0": ("BROKEN", RED)}
VERDICT_STATES: Final = {"1": ("kept", GREEN), "2": ("broken", RED), "3": (NO_DATA, GREY)}
BURN_STEPS: Final = ((None, GREEN), (1, ORANGE), (6, RED))
BUDGET_STEPS: Final = ((None, RED), (0, ORANGE), (0.25, GREEN))


def board(settings: Settings) -> Board:
    """The dashboard that the pages open."""
    return Board(
        uid="goodput-on-call",
        title="Goodput / On call",
        description="Is the promise kept now? If not: since when, which limit fails, and at which boundary.",
        variables=(frame.slo, frame.window, frame.boundaries, frame.model, frame.klass),
        top=[*_now(), *_since_when()],
        rows=[
            Row("Where: each boundary against its limits", _where()),
            Row("What fails, and how fast the budget goes", _which_limit()),
            Row("Do completions keep up with arrivals?", _backlog()),
            Row("What became of the requests", _outcomes()),
            Row("What is promised", _promises(settings)),
        ],
    )


# Now.


def _now() -> list[Panel]:
    kept = Vector(f"{ATTAINMENT}\n+ 1e-9 >= bool on (slo) {TARGET}", TARGET.labels)  # a ratio of rates is not exact
    most = Vector(
        f"topk by (slo) (1, {BAD.increase().sum('slo', 'failed')} > 0)\n"
        f'or on (slo) label_replace(0 * ({ELIGIBLE.increase().sum("slo")} > 0), "failed", "nothing", "", "")',
        BAD.labels,
    )
    loaded = rule(rules.SEEN, "rate.+").group()
    alerts = Vector(
        f'count by (alertname, slo, severity) (ALERTS{{alertstate="firing", alertname=~"{ALERTS}"}})\n'
        f'or on () label_replace(0 * {loaded}, "alertname", "none", "", "")',
        frozenset({"alertname", "slo", "severity"}),
    )
    return [
        grid(
            "Is the promise kept? Last $window, over all exporters",
            "Promise: whether the share of good requests is at or above the target. Good: ended ok and met every "
            "limit. Budget left: of the bad requests that the whole period allows; negative: overspent. Burn rate: how "
            "many times faster than allowed it goes; above 1 the promise of the period breaks if it lasts. Fails most: "
            "a limit that failed alone, `several` at once, or an outcome. If broken: find where red begins below, then "
            "that metric under Where.",
            Column(kept, "promise", PLAIN, words=STATES),
            Column(ATTAINMENT, "good", SHARE),
            Column(TARGET, "target", SHARE),
            Column(BUDGET, "budget left", SHARE, BUDGET_STEPS),
            Column(BURN, "burn rate", PLAIN, BURN_STEPS),
            Column(most, "so many", COUNT),
            size=(16, 7), names={"slo": "SLO"}, late={"failed": "fails most"},
        ),
        grid(
            "Alerts that fire",
            "Alerts of the generated rules, and how many series each fires for. Their text says what to do. No data: "
            "the rules are not loaded.",
            Column(alerts, "series", COUNT, ((None, GREEN), (1, RED))),
            size=(8, 7), names={"alertname": "alert", "slo": "SLO", "severity": "severity"},
        ),
    ]  # fmt: skip


def _since_when() -> list[Panel]:
    by = ("slo", "objective")
    held = {
        verdict: family("inference_slo_verdict", *SLO, only={"verdict": verdict}).worst(*by).is_(1)
        for verdict in VERDICTS
    }
    state = f"2 * ({held['violated']})\nor ({held['met']})\nor 3 * ({held['no_data']})"
    where = family("inference_slo_threshold_seconds", *SLO).group(*by, "boundary")
    verdict = Vector(f"({state})\n* on (slo, objective) group_left (boundary) {where}", where.labels)
    return [
        states(
            "Since when: verdict of each objective",
            "Whether the percentile of each objective keeps its threshold over its own window, by exact count; broken "
            "on one exporter is broken. Where red begins is when it broke. No data: too few samples, or clocks too "
            "uncertain.",
            Query(verdict, "{{slo}} {{objective}} @ {{boundary}}"), size=(12, 9), words=VERDICT_STATES,
        ),
        graph(
            "Good requests against the target",
            "Good by eligible requests over the window, and the target. A gap means that no request was eligible.",
            SHARE, Query(ATTAINMENT, "{{slo}}"), Query(TARGET, "target {{slo}}"),
            size=(12, 9), floor=None, ceiling=1,
        ),
    ]  # fmt: skip


def _which_limit() -> list[Panel]:
    asked = Vector(f"{ELIGIBLE.per_second(WINDOW).sum('slo')}\n* on (slo) {TARGET}", TARGET.labels)
    eligible, good = _objective("eligible"), _objective("good")
    beyond = share(Vector(f"({eligible} - {good})", eligible.labels), eligible)
    return [
        graph(
            "What fails, requests per second",
            "Bad requests by cause. A limit by name: it failed alone. `several`: more than one limit at once. The "
            "others are outcomes. Start with the largest.",
            REQUESTS_PER_SECOND, Query(BAD.per_second().sum("slo", "failed"), "{{failed}} ({{slo}})"),
            size=(8, 8), stacked=True,
        ),
        graph(
            "Requests beyond each limit",
            "Share of requests beyond each limit, alone or with others. Compare with the graph to the left: much here "
            "and little there means that the limit fails together with another one.",
            SHARE, Query(beyond, "{{objective}} ({{slo}})"), size=(8, 8),
        ),
        graph(
            "Burn rate over the windows of the alerts",
            "As the generated rules record it, over all exporters. An alert needs a long and a short window above its "
            "factor. The line is 1: the whole budget in just the period.",
            PLAIN, Query(_recorded_burn(), "{{over}} ({{slo}})"), size=(8, 8), line=1,
        ),
        graph(
            "Percentile of each objective, if what is in flight ended now or never",
            "Bounds of the percentile of each objective; of several exporters the widest. The lower one above the "
            "limit: it is broken, whatever comes. Needs access logs.",
            SECONDS,
            Query(_percentile_bound("lower").least("slo", "objective"), "now: {{objective}} ({{slo}})"),
            Query(_percentile_bound("upper").worst("slo", "objective"), "never: {{objective}} ({{slo}})"),
            size=(24, 7),
        ),
        graph(
            "Goodput against the target",
            "Good requests per second, and how many the target asks for of those that came. The distance is what is "
            "lost.",
            REQUESTS_PER_SECOND,
            Query(GOOD.per_second(WINDOW).sum("slo"), "good ({{slo}})"), Query(asked, "asked ({{slo}})"),
            size=(12, 7),
        ),
        graph(
            "Not judged",
            "Requests that are neither good nor bad, by reason: they are in no share. Many `unknown`: spans are lost, "
            "or clocks too uncertain.",
            REQUESTS_PER_SECOND, Query(UNJUDGED.per_second().sum("slo", "reason"), "{{reason}} ({{slo}})"),
            size=(12, 7), stacked=True,
        ),
    ]  # fmt: skip


def _objective(kind: str) -> Vector:
    return family(f"inference_slo_objective_{kind}_requests_total", *SLO).per_second(WINDOW).sum("slo", "objective")


def _percentile_bound(which: str) -> Vector:
    return family("inference_slo_percentile_bound_seconds", *SLO, only={"bound": which})


def _recorded_burn() -> Vector:
    series = rule(rules.BURN, f"{RATIO}.+")
    text = f'label_replace({series}, "over", "$2", "__name__", ".*:{RATIO}(.+)")'
    return Vector(text, frozenset({"slo", "over"}))


# Where.


def _where() -> list[Panel]:
    texts = {
        "ttft": ("Time to first token", "Above its limit at end_to_end but not at model: the wait is before the "
                 "engine, in the queue or the gateway. Above it at both: the engine is full."),
        "tpot": ("Time per output token", "Above its limit: the batch is too large for the engine, or long prompts "
                 "hold it up."),
        "completion": ("Completion", "Grows with TTFT, TPOT and the length of answers: see Anatomy for the phase "
                       "that grew."),
    }  # fmt: skip
    return [of_each(_latency(metric, *text), "boundary", most=4) for metric, text in texts.items()]


def _latency(metric: str, title: str, advice: str) -> timeseries.Panel:
    value = family(f"inference_window_{metric}_seconds", *REQUESTS, "window").worst("percentile")
    limit = family("inference_slo_threshold_seconds", "boundary", *SLO, only={"metric": metric})
    return graph(
        f"{title} at $boundary",
        f"Exact percentiles of the last $window; of several models, classes or exporters the worst. Dashed: the "
        f"limits of the SLOs, each over its own window. {advice}",
        SECONDS,
        Query(value, "p{{percentile}}"),
        Query(limit.worst("slo", "percentile"), "limit p{{percentile}} ({{slo}})"),
        size=(24, 8),
        colors=PERCENTILE_COLORS,
    )


# Backlog.


def _backlog() -> list[Panel]:
    growth = family("inference_window_backlog_growth_per_second", *TRAFFIC, "window").sum("boundary")
    started = family("inference_in_flight_requests", *TRAFFIC).sum("boundary", "evidence")
    return [
        of_each(
            graph(
                "Arrivals against completions at $boundary",
                "Requests that start and requests that end, in any way. Arrivals above completions: the backlog grows. "
                "Neither is the capacity. Where only ended requests are seen, both are equal. Of all models.",
                REQUESTS_PER_SECOND,
                Query(family("inference_arrivals_total", *TRAFFIC).per_second().sum(), "arrivals"),
                Query(DEPARTURES.per_second().sum(), "completions"),
                size=(24, 8), colors={"^arrivals$": ORANGE, "^completions$": GREEN},
            ),
            "boundary", most=4,
        ),
        graph(
            "Growth of the backlog, over $window",
            "Arrivals less completions per second. Above zero for long: add capacity or shed load.",
            REQUESTS_PER_SECOND, Query(growth, "{{boundary}}"), size=(12, 8), floor=None,
        ),
        graph(
            "In flight",
            "Requests that started and have not ended, by what tells of them. Without access logs or gauges only jobs "
            "of a queue are seen.",
            COUNT, Query(started, "{{boundary}} (by {{evidence}})"), size=(12, 8),
        ),
        graph(
            "Arrivals not yet known",
            "The end of the window in which arrivals may be missing, since only ends tell of them. Access logs or "
            "gauges of the server end this.",
            SECONDS,
            Query(family("inference_window_arrivals_tail_seconds", *TRAFFIC, "window").worst("boundary", "class"),
                  "{{boundary}} {{class}}"),
            size=(6, 8),
        ),
        graph(
            "In flight, older than",
            "Requests that started longer ago than each age. Old ones that grow: something hangs. Needs access logs.",
            COUNT,
            Query(
                family("inference_in_flight_older_requests", *TRAFFIC).sum("boundary", "age"), "{{boundary}} > {{age}}"
            ),
            size=(6, 8),
        ),
        graph(
            "Oldest in flight",
            "Time since the start of the oldest request that has not ended. A straight rise: it hangs. Needs access "
            "logs.",
            SECONDS,
            Query(family("inference_oldest_in_flight_seconds", *TRAFFIC).worst("boundary", "class"),
                  "{{boundary}} {{class}}"),
            size=(6, 8),
        ),
        graph(
            "Time to drain",
            "What is in flight by the present rate of completions, if nothing more came. Longer than clients wait: "
            "shed load. Needs access logs.",
            SECONDS,
            Query(family("inference_backlog_drain_seconds", *TRAFFIC).worst("boundary", "class"),
                  "{{boundary}} {{class}}"),
            size=(6, 8),
        ),
    ]  # fmt: skip


# Outcomes.


def _outcomes() -> list[Panel]:
    outcomes = COMPLETIONS.per_second().sum("outcome")
    failed = family("inference_completions_total", *REQUESTS, only={"outcome": FAILURES})
    by_class = COMPLETIONS.per_second().sum("boundary", "class")
    by_model = COMPLETIONS.per_second().sum("boundary", "model")
    return [
        of_each(
            graph(
                "Outcomes at $boundary",
                "How requests ended, each in one way. Shed: refused under load. Cancelled: the client left. Unknown: a "
                "2xx without an engine's span.",
                REQUESTS_PER_SECOND, Query(outcomes, "{{outcome}}"), size=(24, 8), stacked=True, colors=OUTCOME_COLORS,
            ),
            "boundary", most=4,
        ),
        grid(
            "By model, class and boundary, last $window",
            "One row for each: which model, class or boundary is the slow or failing one. Percentiles are the worst "
            "of the exporters.",
            Column(COMPLETIONS.per_second(WINDOW).sum(*REQUESTS), "completions", REQUESTS_PER_SECOND),
            Column(share(failed.per_second(WINDOW).sum(*REQUESTS), COMPLETIONS.per_second(WINDOW).sum(*REQUESTS)),
                   "failed", SHARE, ((None, "text"), (0.01, ORANGE), (0.05, RED))),
            *(Column(_p95(metric), f"{metric} p95", SECONDS) for metric in ("ttft", "tpot", "completion")),
            size=(24, 8), names={"boundary": "boundary", "model": "model", "class": "class"},
        ),
        graph(
            "Completions by class", "Requests that end, by workload class. A class that stops: look at its senders.",
            REQUESTS_PER_SECOND, Query(by_class, "{{class}} @ {{boundary}}"), size=(12, 7),
        ),
        graph(
            "Completions by model", "Requests that end, by model. A model that stops: look at its servers.",
            REQUESTS_PER_SECOND, Query(by_model, "{{model}} @ {{boundary}}"), size=(12, 7),
        ),
    ]  # fmt: skip


def _p95(metric: str) -> Vector:
    return family(
        f"inference_window_{metric}_seconds", *REQUESTS, "window", only={"percentile": "95"}
    ).worst(*REQUESTS)  # fmt: skip


# Promises.


def _promises(settings: Settings) -> list[Panel]:
    limits = family("inference_slo_threshold_seconds", *SLO)
    began = family("inference_slo_period_start_timestamp_seconds", *SLO).worst("slo")
    panels: list[Panel] = [
        grid(
            "Targets",
            "The share of eligible requests that shall meet every limit, the period over which it is promised, and for "
            "a period of the calendar when it began.",
            Column(TARGET, "target", SHARE),
            Column(family("inference_slo_period_seconds", *SLO).worst("slo"), "period", "dtdurations"),
            Column(Vector(f"1000 * {began}", began.labels), "began", "dateTimeAsIso"),
            size=(10, 7), names={"slo": "SLO"},
        ),
        grid(
            "Limits",
            "The declared objectives: the percentile of a metric at a boundary shall not exceed the limit, over the "
            "window.",
            Column(limits.worst("slo", "objective", "metric", "boundary", "percentile", "window"), "limit", SECONDS),
            size=(14, 7),
            names={"slo": "SLO", "objective": "objective", "metric": "metric", "percentile": "percentile",
                   "boundary": "boundary", "window": "over"},
        ),
        graph(
            "Good requests, if the unknown ones were all bad or all good",
            "Bounds of the share of good requests; of several exporters the widest. Only there while some requests "
            "cannot be judged. Far apart: do not trust the share.",
            SHARE,
            Query(_bound("lower").least("slo"), "if bad ({{slo}})"),
            Query(_bound("upper").worst("slo"), "if good ({{slo}})"),
            size=(24, 7), floor=None, ceiling=1,
        ),
    ]  # fmt: skip
    if settings.slos:
        text = "\n".join(["| SLO | promise |", "| --- | --- |", *map(_sentence, settings.slos)])
        panels.append(words("In words", "As the SLO files say.", text, size=(24, 3 + len(settings.slos))))
    return panels


def _bound(which: str) -> Vector:
    return family("inference_slo_attainment_bound_ratio", *SLO, "window", only={"bound": which})


def _sentence(slo: Promise) -> str:
    limits = ", ".join(
        f"{each.metric} p{format_decimal(each.percentile)} ≤ {format_duration(each.threshold_ns)} at {each.boundary}"
        for each in slo.objectives
    )
    target = "" if slo.target is None else f" {format_decimal(100 * slo.target)} % of requests meet every limit."
    return f"| {slo.name} | {slo.description} {limits}.{target} |".replace("  ", " ")
