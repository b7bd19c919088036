"""What the demo shows: pure functions from the exporter's report (its JSON shape) to rich renderables and plain lines.

Everything about requests comes from the report. The demo adds only its own phase, the time, and a history of readings
that it took from earlier reports. What the report does not know (null) is shown as a dash, never as 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from exporter.demo.trace import Phase, bounds

WINDOW: Final = "10s"
SHOWN: Final = ("end_to_end", "service", "model")
METRICS: Final = {"ttft": "s", "tpot": "ms", "completion": "s"}
"""With the unit in which each is shown."""
PERCENTILES: Final = ("p50", "p95", "p99")
OUTER: Final = "end_to_end"
SLO: Final = "chat"
STYLES: Final = {"met": "green", "violated": "bold red", "no_data": "dim"}
BARS: Final = " ▁▂▃▄▅▆▇█"

Report = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Rates per second over the window of one report; None where there is no traffic to speak of."""

    arrivals: float | None
    completions: float | None
    goodput: float | None
    attainment: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What only the demo knows. `phase` is None once the load is over."""

    phase: Phase | None
    elapsed_s: float
    total_s: float
    url: str
    history: Sequence[Reading]


def reading(report: Report) -> Reading:
    traffic, slo = _window(report, OUTER), _at(report, "slos", SLO, "windows", WINDOW)
    return Reading(
        arrivals=_at(traffic, "arrivals_per_second"),
        completions=_at(traffic, "completions_per_second"),
        goodput=_at(slo, "goodput_requests_per_second"),
        attainment=_at(slo, "attainment"),
    )


def picture(report: Report, moment: Moment) -> RenderableType:
    """The live screen, for 80 columns and 24 lines."""
    return Group(_head(moment), _traffic(report, moment), _latencies(report), _verdicts(report), _advice(moment))


def line(report: Report, moment: Moment) -> str:
    """One line for a log: the same figures, p50/p95/p99."""
    now = reading(report)
    traffic = f"arrivals {_rate(now.arrivals)} completions {_rate(now.completions)} goodput {_rate(now.goodput)}"
    parts = [f"{moment.elapsed_s:5.1f}s {_name(moment):8} {traffic} good {_share(now.attainment)}"]
    for boundary in SHOWN:
        cells = (f"{metric} {_cell(report, boundary, metric, '/')}" for metric in METRICS)
        parts.append(f"{boundary}: {' '.join(cells)}")
    verdicts = (f"{slo}/{name} {objective['verdict']}" for slo, name, objective in _objectives(report))
    return " | ".join([*parts, " ".join(verdicts)])


def summary(kept: Mapping[str, Report], last: Report, sent: int, endings: Mapping[str, int]) -> RenderableType:
    """The end: one column for each phase, where to look, and the clients' own count beside the exporter's."""
    table = Table(title="What the exporter saw, last 10 s of each phase", title_justify="left")
    table.add_column("")
    for phase in kept:
        table.add_column(phase, justify="right")
    for name, cells in _rows(kept):
        table.add_row(name, *cells)
    outer = _at(last, "boundaries", OUTER)
    theirs = f"Clients counted {sent} requests: {_outcomes(endings)}."
    ours = f"Exporter counted {_count(_at(outer, 'arrivals'))} arrivals: {_outcomes(_at(outer, 'outcomes'))}."
    return Group(table, Text("Look at", style="bold"), *_lessons(kept), Text(f"{theirs}\n{ours}"))


def inside(report: Report, phases: Sequence[Phase], started_unix_ns: int) -> str | None:
    """Name of the phase that holds the whole window of this report, None where the window spans two."""
    window = _at(report, "windows", WINDOW) or {}
    begin, end = window.get("from_unix_nano"), window.get("to_unix_nano")
    if begin is None or end is None:
        return None
    for name, (first, last) in bounds(phases).items():
        if started_unix_ns + first <= begin and end <= started_unix_ns + last:
            return name
    return None


def _head(moment: Moment) -> Text:
    style = "bold white on red" if _name(moment) == "surge" else "bold white on blue"
    text = Text.assemble((f" {_name(moment).upper()} ", style), f" {moment.elapsed_s:.0f} of {moment.total_s:.0f} s")
    return text.append(f"   metrics: {moment.url}", style="dim")


def _traffic(report: Report, moment: Moment) -> Table:
    table = Table.grid(padding=(0, 1))
    now = reading(report)
    series = {
        "arrivals": (now.arrivals, [past.arrivals for past in moment.history], "yellow"),
        "completions": (now.completions, [past.completions for past in moment.history], "cyan"),
        "goodput": (now.goodput, [past.goodput for past in moment.history], "green"),
    }
    top = max((value or 0 for _, past, _ in series.values() for value in past), default=0)
    for name, (value, past, style) in series.items():
        table.add_row(name, Text(f"{_rate(value)}/s", justify="right"), Text(_spark(past, top), style=style))
    growth = _rate(_at(_window(report, OUTER), "backlog_growth_per_second"))
    in_flight = _count(_at(report, "boundaries", OUTER, "in_flight"))
    table.add_row("", "", f"good {_share(now.attainment)}   backlog growth {growth}/s   in flight {in_flight}")
    return table


def _latencies(report: Report) -> Table:
    table = Table(title=f"p50  p95  p99 over the last {WINDOW}", title_justify="left", title_style="dim")
    table.add_column("boundary")
    for metric, unit in METRICS.items():
        table.add_column(f"{metric}, {unit}", justify="right")
    for boundary in SHOWN:
        table.add_row(boundary, *(_cell(report, boundary, metric, "  ") for metric in METRICS))
    return table


def _verdicts(report: Report) -> Table:
    table = Table.grid(padding=(0, 2))
    for slo, name, objective in _objectives(report):
        metric = objective["metric"]
        limit = f"p{objective['percentile']} <= {_length(objective['threshold_s'], metric)} {METRICS[metric]}"
        value = f"{_length(objective['value_s'], metric)} {METRICS[metric]} of {objective['samples']}"
        verdict = Text(objective["verdict"], style=STYLES.get(objective["verdict"], ""))
        table.add_row(f"{slo} {name}", limit, Text(value, justify="right"), verdict)
    return table


def _advice(moment: Moment) -> Text:
    return Text(moment.phase.advice if moment.phase else "The load is over; the last requests end.", style="italic")


def _rows(kept: Mapping[str, Report]) -> Iterator[tuple[str, list[str]]]:
    readings = [reading(report) for report in kept.values()]
    yield "arrivals/s", [_rate(now.arrivals) for now in readings]
    yield "completions/s", [_rate(now.completions) for now in readings]
    yield "  of the model", [_rate(_at(_window(report, "model"), "completions_per_second")) for report in kept.values()]
    yield "goodput/s", [_rate(now.goodput) for now in readings]
    yield "good", [_share(now.attainment) for now in readings]
    for metric, unit in METRICS.items():
        for boundary in (OUTER, "model"):
            cells = [_length(_value(report, boundary, metric, "p95"), metric) for report in kept.values()]
            yield f"{metric} p95 {boundary}, {unit}", cells
    for slo, name, _ in _objectives(next(iter(kept.values()), {})):
        yield f"{slo} {name}", [str(_at(r, "slos", slo, "objectives", name, "verdict")) for r in kept.values()]


def _lessons(kept: Mapping[str, Report]) -> Iterator[Text]:
    surge, calm = kept.get("surge", {}), kept.get("normal", {})
    now, before = reading(surge), reading(calm)
    yield Text(
        f"1. The surge brought {_rate(now.arrivals)} arrivals/s; the model completed"
        f" {_rate(_at(_window(surge, 'model'), 'completions_per_second'))}/s. The gateway's {_rate(now.completions)}"
        f" completions/s are every ending: {_outcomes(_at(_window(surge, OUTER), 'outcomes'))}."
    )
    outer, inner = (_length(_value(surge, boundary, "ttft", "p95"), "ttft") for boundary in (OUTER, "model"))
    yield Text(
        f"2. TTFT p95 in the surge: {outer} s end to end, {inner} s at the model. The wait is in the queue, and"
        " the model server's own figures do not show it."
    )
    yield Text(
        f"3. Goodput went from {_rate(before.goodput)}/s ({_share(before.attainment)} good) to {_rate(now.goodput)}/s"
        f" ({_share(now.attainment)}), although the engine was never busier."
    )


def _objectives(report: Report) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for slo, body in (report.get("slos") or {}).items():
        for name, objective in body["objectives"].items():
            yield slo, name, objective


def _cell(report: Report, boundary: str, metric: str, separator: str) -> str:
    return separator.join(_length(_value(report, boundary, metric, percentile), metric) for percentile in PERCENTILES)


def _window(report: Report, boundary: str) -> Report:
    return _at(report, "windows", WINDOW, "boundaries", boundary) or {}


def _value(report: Report, boundary: str, metric: str, percentile: str) -> float | None:
    value: float | None = _at(_window(report, boundary), "metrics", metric, percentile)
    return value


def _at(tree: Any, *path: str) -> Any:
    """The value at a path of keys, None where the path ends early."""
    for key in path:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree


def _name(moment: Moment) -> str:
    return moment.phase.name if moment.phase else "end"


def _spark(values: Sequence[float | None], top: float) -> str:
    steps = len(BARS) - 1
    return "".join(BARS[round((value or 0) / top * steps) if top else 0] for value in values)


def _length(seconds: float | None, metric: str) -> str:
    """In the metric's unit."""
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.1f}" if METRICS[metric] == "ms" else f"{seconds:.3f}" if seconds < 1 else f"{seconds:.2f}"


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _outcomes(counts: Mapping[str, int] | None) -> str:
    return ", ".join(f"{count} {name}" for name, count in (counts or {}).items() if count) or "-"


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)
