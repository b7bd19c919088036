"""What is known, as plain data: the body of `replay --json`, of the terminal report and of the demo's screen.

Base units (seconds, requests, tokens), keys sorted by whoever writes them down, None where there is no data. Only what
follows from the spans stands here: nothing of transports, arrival times or lateness, so that a replay in any order and
the same spans over sockets give the same report.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from exporter import gauges
from exporter.account import Distribution
from exporter.flight import Undecided
from exporter.gauges import Flow
from exporter.histogram import error_ratio, least_ns, quantile_slot, reading_ns
from exporter.pattern import BAD, ENDED, ENDED_OUTPUT, GOOD, GOOD_OUTPUT, UNKNOWN
from exporter.record import WEIGHT_ONE
from exporter.series import SloCounts, Totals
from exporter.tally import CACHED, END_TO_END, INPUT, ITEMS, OUTPUT, Tally
from slo_rules.slo import SLO, Objective, minimum_samples
from slo_rules.units import format_duration
from slo_rules.verdict import Verdict, attainment, attainment_bounds, budget_remaining, burn_rate, verdict
from slo_rules.vocabulary import EVIDENCES, METRICS, OUTCOMES

if TYPE_CHECKING:
    from exporter.pipeline import Pipeline

SCHEMA: Final = "goodput-exporter/report/v1"
PERCENTILES: Final = (50, 95, 99)
SECOND: Final = 1_000_000_000
ENDED_SLOT: Final = EVIDENCES.index("ended")
BEYOND: Final = 2**62
"""A slot above all others: of what never ends."""
RATES_NOTE: Final = "Arrival and completion rates say what was asked and what was done; neither is the capacity."
CLOCKS_NOTE: Final = (
    "Some requests could not be judged, and some clocks have no bound between them (a queue gives none). "
    "Where they are one clock say so: align.same_clock, or host.name in the resources of the senders."
)
WAITING_NOTE: Final = (
    "Spans come when a request has ended: requests that had not ended are in none of the counts, "
    "except jobs seen to enter a queue, and those that logs tell of."
)


def report(pipeline: "Pipeline") -> dict[str, Any]:
    """The report of a pipeline as it stands."""
    tally = pipeline.tally
    span_s = _between(tally.first_ns, tally.last_ns)
    undecided = tally.flights.undecided()
    return {
        "schema": SCHEMA,
        "as_of_unix_nano": tally.last_ns,
        "input": {
            "spans": sum(pipeline.received.values()),
            "first_unix_nano": pipeline.oldest_ns,
            "last_unix_nano": pipeline.newest_ns or None,
        },
        "boundaries": {name: _boundary(totals, span_s) for name, totals in sorted(tally.totals.items())},
        "windows": {format_duration(length): _window(pipeline, length) for length in tally.window_lengths},
        "slos": {slo.name: _slo(tally, slo, span_s, undecided) for slo in tally.slos},
        "clocks": _clocks(pipeline),
        "spans": {
            fate: count for fate, count in sorted(pipeline.fates.items()) if count and fate not in ("late", "too_late")
        },
        "not_request": dict(sorted(pipeline.recogniser.ignored.items())),
        "attributes_dropped": dict(sorted(pipeline.recogniser.dropped.items())),
        "joined": dict(sorted(tally.joined.items())),
        "unmatched": dict(sorted(tally.unmatched.items())),
        "negative_intervals": tally.negative,
        "out_of_range": dict(sorted(tally.out_of_range.items())),
        "notes": _notes(pipeline),
    }


def _notes(pipeline: "Pipeline") -> list[str]:
    notes = [RATES_NOTE, WAITING_NOTE]
    if pipeline.undecided:
        notes.append(f"{pipeline.undecided} answers without an engine span were taken for ok: too many to hold back.")
    uncertain = any(counts.unjudged.get("unknown_value") for counts in pipeline.tally.slo_counts.values())
    if uncertain and any(bound.offset is None for _, _, bound in pipeline.offsets.newest()):
        notes.append(CLOCKS_NOTE)
    return notes


def _clocks(pipeline: "Pipeline") -> list[dict[str, Any]]:
    text = pipeline.strings.text
    return sorted(
        (
            {
                "reference": text(outer),
                "clock": text(inner),
                "offset_s": None if bound.offset is None else seconds(bound.offset),
                "error_s": None if bound.error is None else seconds(bound.error),
            }
            for outer, inner, bound in pipeline.offsets.newest()
        ),
        key=lambda clock: (str(clock["reference"]), str(clock["clock"])),
    )


def _boundary(totals: Totals, span_s: float | None) -> dict[str, Any]:
    completions, arrivals = sum(totals.outcomes.values()), sum(totals.arrivals.values())
    tokens = {name: requests(totals.tokens[name]) if name in totals.tokens else None
              for name in ("input", "cached", "output", "items")}  # fmt: skip
    tokens["cached_input"] = tokens.pop("cached")
    return {
        "arrivals": requests(arrivals),
        "evidence": {name: requests(totals.arrivals[name]) for name in EVIDENCES if totals.arrivals[name]},
        "in_flight": requests(totals.in_flight),
        "outcomes": {outcome: requests(totals.outcomes[outcome]) for outcome in OUTCOMES},
        "metrics": {metric: summary(totals.metrics[metric]) for metric in METRICS},
        "phases": {phase: summary(each) for phase, each in sorted(totals.phases.items())},
        "tokens": tokens,
        "per_user_tokens_per_second": per_user(totals.metrics["tpot"]),
        "rates": _rates(arrivals, completions, totals.tokens, span_s),
    }


def _rates(arrivals: int, completions: int, tokens: Counter[str], span_s: float | None) -> dict[str, Any]:
    """Over all of the input: from the first arrival to the last end."""
    per_second = {
        "arrivals_per_second": arrivals,
        "completions_per_second": completions,
        "backlog_growth_per_second": arrivals - completions,
        "input_tokens_per_second": tokens.get("input"),
        "output_tokens_per_second": tokens.get("output"),
        "total_tokens_per_second": tokens["input"] + tokens["output"] if tokens.keys() & {"input", "output"} else None,
        "items_per_second": tokens.get("items"),
    }
    rates = {name: rate(amount, span_s) for name, amount in per_second.items()}
    return {"seconds": span_s, **rates}


def summary(distribution: Distribution) -> dict[str, Any]:
    """Count, mean, percentiles, maximum of all values since the start, and the largest error of the percentiles."""
    if not distribution.count:
        return dict.fromkeys(("mean", "p50", "p95", "p99", "max", "error_ratio"), None) | {"count": 0}
    slots = [quantile_slot(distribution.slots, Fraction(percentile)) or 0 for percentile in PERCENTILES]
    return {
        "count": requests(distribution.count),
        "mean": seconds(Fraction(distribution.sum, distribution.count)),
        "max": seconds(distribution.largest_ns),
        "error_ratio": float(max(error_ratio(slot) for slot in slots)),
    } | {  # the maximum is exact, and no percentile is above it
        f"p{percentile}": seconds(min(reading_ns(slot), distribution.largest_ns))
        for percentile, slot in zip(PERCENTILES, slots, strict=True)
    }


def per_user(tpot: Distribution) -> dict[str, Any]:
    """Output tokens per second that a user sees, 1 / TPOT: half of the requests are at least as fast as `p50`."""
    slots = [quantile_slot(tpot.slots, Fraction(percentile)) for percentile in PERCENTILES]
    return {
        f"p{percentile}": SECOND / reading_ns(slot) if slot else None
        for percentile, slot in zip(PERCENTILES, slots, strict=True)
    }


# Windows.


def _window(pipeline: "Pipeline", length_ns: int) -> dict[str, Any]:
    tally = pipeline.tally
    window = tally.windows.windows[length_ns]
    boundaries = {name: _window_boundary(tally, length_ns, name) for name in sorted(tally.totals)}
    for name in pipeline.told_by_gauges:
        boundaries[name] = boundaries.get(name, {}) | _flow(pipeline.flow(name, length_ns), length_ns)
    end_ns = window.end_ns if window.last else None
    return {
        "from_unix_nano": None if end_ns is None else end_ns - length_ns,
        "to_unix_nano": end_ns,
        "boundaries": boundaries,
    }


def _flow(flow: Flow | None, length_ns: int) -> dict[str, Any]:
    """What gauges tell of a window, in place of what ended requests tell; by evidence, the arrivals that rest on it."""
    arrivals = None if flow is None else flow.arrivals
    return {
        "evidence": {} if arrivals is None else {gauges.EVIDENCE: arrivals * length_ns / SECOND},
        "arrivals_not_yet_known_s": None,
        "arrivals_per_second": arrivals,
        "backlog_growth_per_second": None if flow is None else flow.backlog_growth,
        "in_flight": None if flow is None else flow.in_flight,
    }


def _window_boundary(tally: Tally, length_ns: int, boundary: str) -> dict[str, Any]:
    length_s = length_ns / SECOND
    told = merged(tally, length_ns, "arrivals", boundary)
    arrivals = sum(told.values())
    outcomes = merged(tally, length_ns, "outcomes", boundary)
    completions = sum(outcomes.values())
    tokens = merged(tally, length_ns, "tokens", boundary)
    return {
        "arrivals_per_second": rate(arrivals, length_s),
        "completions_per_second": rate(completions, length_s),
        "backlog_growth_per_second": rate(arrivals - completions, length_s),
        "evidence": {name: requests(told[slot]) for slot, name in enumerate(EVIDENCES) if told[slot]},
        "arrivals_not_yet_known_s": None if told.keys() - {ENDED_SLOT} else tail_s(tally, length_ns, boundary),
        "input_tokens_per_second": rate(tokens.get(INPUT, 0), length_s),
        "cached_input_tokens_per_second": rate(tokens.get(CACHED, 0), length_s),
        "output_tokens_per_second": rate(tokens.get(OUTPUT, 0), length_s),
        "items_per_second": rate(tokens.get(ITEMS, 0), length_s),
        "outcomes": {name: requests(outcomes.get(slot, 0)) for slot, name in enumerate(OUTCOMES)},
        "metrics": {metric: percentiles(merged(tally, length_ns, metric, boundary)) for metric in METRICS},
    }


def tail_s(tally: Tally, length_ns: int, boundary: str, klass: str | None = None) -> float | None:
    """How long before the end of a window arrivals may still be missing where only ends tell of them, seconds.

    That is the longest request in the window: one that came as late may not have ended yet.
    """
    slots = [
        slot
        for key, number in tally.by_kind("completion")
        if key[0] == boundary and klass in (None, key[2])
        for slot in tally.windows.slots(length_ns, number)
    ]
    return seconds(reading_ns(max(slots))) if slots else None


def merged(tally: Tally, length_ns: int, kind: str, boundary: str) -> Counter[int]:
    """The slots of all window series of one kind at one boundary, added up."""
    slots: Counter[int] = Counter()
    for key, number in tally.by_kind(kind):
        if key[0] == boundary:
            slots.update(tally.windows.slots(length_ns, number))
    return slots


def percentiles(slots: Mapping[int, int]) -> dict[str, Any]:
    """p50, p95, p99 by nearest rank, and how many samples they rank; None where there are none."""
    found: dict[str, Any] = {"count": requests(sum(slots.values()))}
    for percentile in PERCENTILES:
        slot = quantile_slot(slots, Fraction(percentile)) if slots else None
        found[f"p{percentile}"] = None if slot is None else seconds(reading_ns(slot))
    return found


# SLOs.


def _slo(tally: Tally, slo: SLO, span_s: float | None, undecided: Undecided) -> dict[str, Any]:
    counts = tally.slo_counts[slo.name]
    pending = undecided.at(slo.name, tally.now_ns) * WEIGHT_ONE
    unknown = unknowns(counts) + pending
    bounds = attainment_bounds(counts.good, counts.eligible, unknown) if unknown else None
    return {
        "workload": slo.workload,
        "target": None if slo.target is None else float(slo.target),
        "period_s": None if slo.period_ns is None else seconds(slo.period_ns),
        "calendar": None if slo.calendar is None else slo.calendar.unit,
        "budget": _budget(tally, slo),
        "eligible": requests(counts.eligible),
        "good": requests(counts.good),
        "bad": requests(sum(counts.bad.values())),
        "failed": {name: requests(count) for name, count in sorted(counts.bad.items())},
        "pending": requests(pending),
        "unjudged": {reason: requests(count) for reason, count in sorted(counts.unjudged.items())},
        "goodput_requests_per_second": rate(counts.good, span_s) if counts.eligible or unknown else None,
        "goodput_output_tokens_per_second": rate(counts.good_output, span_s) if counts.eligible or unknown else None,
        "attainment": ratio(attainment(counts.good, counts.eligible)),
        "attainment_bounds": None if bounds is None else [float(bound) for bound in bounds],
        "objectives": {objective.name: _objective(tally, slo, objective) for objective in slo.objectives},
        "windows": {
            format_duration(length): _slo_window(tally, slo, length, undecided) for length in tally.window_lengths
        },
    }


def _budget(tally: Tally, slo: SLO) -> dict[str, Any] | None:
    """What is left of the error budget in the present period, of which only what this program has seen counts."""
    as_of_ns = tally.as_of_ns
    if slo.target is None or as_of_ns is None:
        return None
    good, bad, from_ns = tally.budgets[slo.name].read(as_of_ns)
    burns = {format_duration(ns): float(burn) for ns, burn in burn_rates(tally, slo).items()}
    return {
        "from_unix_nano": from_ns,
        "eligible": requests(good + bad),
        "bad": requests(bad),
        "remaining": ratio(budget_remaining(good, good + bad, slo.target)),
        "burn_rates": burns,
    }


def burn_rates(tally: Tally, slo: SLO) -> dict[int, Fraction]:
    """Burn rates by the length of the window, of the settings or of the alerts; none where nothing was eligible."""
    if slo.target is None:
        return {}
    slots = {ns: tally.slo_slots(ns, slo.name) for ns in tally.window_lengths}
    counts = {ns: (each.get(GOOD, 0), each.get(BAD, 0)) for ns, each in slots.items()}
    counts |= tally.budgets[slo.name].read_windows(tally.as_of_ns or 0)
    burns = {ns: burn_rate(good, good + bad, slo.target) for ns, (good, bad) in sorted(counts.items())}
    return {ns: burn for ns, burn in burns.items() if burn is not None}


def unknowns(counts: SloCounts) -> int:
    """Requests that may have been good or bad."""
    return sum(count for reason, count in counts.unjudged.items() if reason.startswith("unknown"))


def _objective(tally: Tally, slo: SLO, objective: Objective) -> dict[str, Any]:
    values = tally.value_slots(objective.window_ns, slo.name, objective.name)
    slot = quantile_slot(values, objective.percentile) if values else None
    return {
        "metric": objective.metric,
        "boundary": objective.boundary,
        "percentile": float(objective.percentile),
        "threshold_s": seconds(objective.threshold_ns),
        "window": format_duration(objective.window_ns),
        "per_request": objective.per_request,
        "verdict": objective_verdict(tally, slo, objective),
        "value_s": None if slot is None else seconds(reading_ns(slot)),
        "samples": requests(sum(values.values())),
        **_in_flight_bounds(tally, slo, objective, values),
    }


def _in_flight_bounds(tally: Tally, slo: SLO, objective: Objective, values: Mapping[int, int]) -> dict[str, Any]:
    """Between which values the percentile lies, whatever becomes of what is in flight; only where logs tell of it.

    From below every request in flight has the age that it has, from above it never ends (None).
    """
    bounds = percentile_bounds(tally, slo, objective, values)
    if bounds is None:
        return {}
    return {"bounds_s": [None if bound is None else seconds(bound) for bound in bounds]}


def percentile_bounds(
    tally: Tally, slo: SLO, objective: Objective, values: Mapping[int, int]
) -> tuple[int | None, int | None] | None:
    """The bounds of a percentile in nanoseconds, None for no bound; None where nothing tells what is in flight."""
    if not tally.flights.known or objective.boundary != END_TO_END or objective.metric == "tpot":
        return None
    end_ns = tally.windows.windows[objective.window_ns].end_ns
    least, most = Counter(values), Counter(values)
    for group in tally.flights.waiting(slo, objective, end_ns):
        least.update({slot: count * WEIGHT_ONE for slot, count in group.slots.items()})
    for group in tally.flights.waiting(slo, objective, end_ns, surely=False):
        most[BEYOND] += len(group.ages) * WEIGHT_ONE
    low, high = quantile_slot(least, objective.percentile), quantile_slot(most, objective.percentile)
    return None if low is None else least_ns(low), None if high in (None, BEYOND) else reading_ns(high)


def objective_verdict(tally: Tally, slo: SLO, objective: Objective) -> Verdict:
    """Whether the percentile keeps its threshold over the window, by counting; none where clocks leave it open."""
    counted, met, broken = tally.sample_counts(objective.window_ns, slo.name, objective.name)
    samples = Fraction(counted, WEIGHT_ONE)
    least = Fraction(met, WEIGHT_ONE)
    most = samples - Fraction(broken, WEIGHT_ONE)
    enough = minimum_samples(slo.policies.minimum_samples, objective.percentile)
    groups = tally.flights.waiting(slo, objective, tally.windows.windows[objective.window_ns].end_ns)
    waiting = sum(len(group.ages) for group in groups)
    kept = sum(bisect_right(group.ages, objective.threshold_ns) for group in groups)
    if kept < waiting and verdict(objective.percentile, samples + waiting, most + kept, enough) == "violated":
        return "violated"  # however soon all that is in flight ends
    surely = verdict(objective.percentile, samples, least, enough)
    return surely if surely == verdict(objective.percentile, samples, most, enough) else "no_data"


def _slo_window(tally: Tally, slo: SLO, length_ns: int, undecided: Undecided) -> dict[str, Any]:
    counts = tally.slo_slots(length_ns, slo.name)
    good, bad, unknown = (counts.get(slot, 0) for slot in (GOOD, BAD, UNKNOWN))
    unknown += undecided.at(slo.name, tally.windows.windows[length_ns].end_ns) * WEIGHT_ONE
    bounds = attainment_bounds(good, good + bad, unknown) if unknown else None
    judged = good + bad + unknown
    ended, output = counts.get(ENDED, 0), counts.get(ENDED_OUTPUT, 0)
    return {
        "completions_per_second": rate(ended, length_ns / SECOND),
        "output_tokens_per_second": rate(output, length_ns / SECOND),
        "eligible": requests(good + bad),
        "good": requests(good),
        "unknown": requests(unknown),
        "attainment": ratio(attainment(good, good + bad)),
        "attainment_bounds": None if bounds is None else [float(bound) for bound in bounds],
        "goodput_requests_per_second": rate(good, length_ns / SECOND) if judged else None,
        "goodput_output_tokens_per_second": rate(counts.get(GOOD_OUTPUT, 0), length_ns / SECOND) if judged else None,
    }


# Numbers.


def seconds(ns: int | Fraction) -> float:
    """Nanoseconds in seconds."""
    return float(Fraction(ns) / SECOND)


def requests(weight: int) -> int | float:
    """Weight units in requests: whole unless sampled."""
    return weight // WEIGHT_ONE if weight % WEIGHT_ONE == 0 else weight / WEIGHT_ONE


def rate(weight: int | None, length_s: float | None) -> float | None:
    """Weight units per second."""
    return None if weight is None or not length_s else weight / WEIGHT_ONE / length_s


def ratio(value: Fraction | None) -> float | None:
    """A share, None where there is none."""
    return None if value is None else float(value)


def _between(first_ns: int | None, last_ns: int | None) -> float | None:
    return None if first_ns is None or last_ns is None or last_ns <= first_ns else seconds(last_ns - first_ns)
