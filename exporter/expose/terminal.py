"""The report for people: tables of a fixed order, the same in a terminal and in a pipe."""

from collections.abc import Mapping
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from slo_rules.vocabulary import BOUNDARIES

NOTHING: Final = "-"
"""Shown where there is no data. Never 0."""
VERDICT_STYLE: Final = {"met": "green", "violated": "bold red", "no_data": "dim"}


def show(report: Mapping[str, Any], console: Console) -> None:
    """Print a report."""
    if not report["boundaries"]:
        console.print("No requests were found in these spans.")
    order = [*BOUNDARIES, *report["boundaries"]]
    for name in sorted(report["boundaries"], key=order.index):
        _boundary(name, report["boundaries"][name], console)
    if report["slos"]:
        _slos(report["slos"], console)
    _clocks(report["clocks"], console)
    _spans(report, console)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place == 0 else "right", no_wrap=True)
    return table


def _boundary(name: str, boundary: Mapping[str, Any], console: Console) -> None:
    console.rule(f"[bold]{name}", align="left", characters="-")
    outcomes = "  ".join(f"{outcome} {count(n)}" for outcome, n in boundary["outcomes"].items() if n)
    in_flight = f"  in flight {count(boundary['in_flight'])}" if boundary["in_flight"] else ""
    known = ", ".join(f"{evidence} {count(n)}" for evidence, n in boundary["evidence"].items())
    console.print(
        f"{count(boundary['arrivals'])} arrivals (known by: {known}):  {outcomes}{in_flight}", highlight=False
    )
    table = _table("", "", "count", "mean", "p50", "p95", "p99", "max", "error")
    for metric, values in boundary["metrics"].items():
        table.add_row(metric, *_values(values))
    for phase, values in boundary["phases"].items():
        table.add_row(f"  {phase}", *_values(values))
    console.print(table)
    rates = boundary["rates"]
    shown = [
        ("requests", rates["completions_per_second"]), ("input tokens", rates["input_tokens_per_second"]),
        ("output tokens", rates["output_tokens_per_second"]), ("total tokens", rates["total_tokens_per_second"]),
        ("items", rates["items_per_second"]),
    ]  # fmt: skip
    text = ", ".join(f"{number(value)} {what}/s" for what, value in shown if value is not None)
    speeds = [number(boundary["per_user_tokens_per_second"][key]) for key in ("p50", "p95", "p99")]
    if boundary["metrics"]["tpot"]["count"]:
        console.print(f"output tokens/s per user: {', '.join(speeds)} (at p50, p95, p99 of TPOT)", highlight=False)
    if text:
        arrived, grown = number(rates["arrivals_per_second"]), number(rates["backlog_growth_per_second"], sign=True)
        over = f"(over {duration(rates['seconds'])}; neither rate is the capacity)"
        console.print(f"{text}; {arrived} arrivals/s, backlog {grown}/s {over}\n", highlight=False)


def _values(values: Mapping[str, Any]) -> list[str]:
    times = [duration(values[key]) for key in ("mean", "p50", "p95", "p99", "max")]
    error = values["error_ratio"]
    return [count(values["count"]), *times, NOTHING if error is None else f"{error * 100:.2g} %"]


def _slos(slos: Mapping[str, Any], console: Console) -> None:
    console.rule("[bold]SLOs", align="left", characters="-")
    for name, slo in slos.items():
        console.print(f"[bold]{name}[/]: {_share(slo)}", highlight=False)
        for what in ("failed", "unjudged"):
            if slo[what]:
                parts = ", ".join(f"{key} {count(n)}" for key, n in slo[what].items())
                console.print(f"  {what}: {parts}", highlight=False)
        if slo["workload"] == "batch":
            console.print(f"  throughput: {_throughput(slo['windows'])}", highlight=False)
        if slo["objectives"]:
            console.print(_objectives(slo))


def _share(slo: Mapping[str, Any]) -> str:
    if not slo["objectives"]:
        return "batch, not judged"
    share = NOTHING if slo["attainment"] is None else f"{slo['attainment'] * 100:.2f} %"
    if slo["attainment_bounds"]:
        low, high = slo["attainment_bounds"]
        share += f" (between {low * 100:.2f} and {high * 100:.2f} % with the unknown ones)"
    target = "" if slo["target"] is None else f", target {slo['target'] * 100:g} %"
    if slo["goodput_requests_per_second"] is not None:
        target += f"; goodput {number(slo['goodput_requests_per_second'])}/s over all of the input"
    left = None if slo["budget"] is None else slo["budget"]["remaining"]
    budget = "" if left is None else f", {left * 100:.1f} % of the error budget left"
    return f"{count(slo['good'])} good of {count(slo['eligible'])}: {share}{target}{budget}"


def _throughput(windows: Mapping[str, Mapping[str, Any]]) -> str:
    """Over the longest window."""
    name, window = list(windows.items())[-1]
    rates = f"{number(window['completions_per_second'])} requests/s, {number(window['output_tokens_per_second'])}"
    return f"{rates} output tokens/s over {name}"


def _objectives(slo: Mapping[str, Any]) -> Table:
    table = _table("", "objective", "limit", "window", "value", "samples", "verdict", "goodput in window")
    for objective, each in slo["objectives"].items():
        goodput = slo["windows"][each["window"]]["goodput_requests_per_second"]
        verdict = each["verdict"]
        table.add_row(
            f"{objective} @ {each['boundary']}",
            f"p{each['percentile']:g} <= {duration(each['threshold_s'])}",
            each["window"],
            duration(each["value_s"]),
            count(each["samples"]),
            f"[{VERDICT_STYLE[verdict]}]{verdict.replace('_', ' ')}[/]",
            NOTHING if goodput is None else f"{number(goodput)}/s",
        )
    return table


def _clocks(clocks: list[Mapping[str, Any]], console: Console) -> None:
    known = [clock for clock in clocks if clock["offset_s"] is not None]
    if not known:
        return
    table = _table("Clocks", "clock", "ahead of", "by", "+/-")
    for clock in known:
        offset = f"{clock['offset_s'] * 1e3:+.3f} ms"
        names = escape(clock["clock"]), escape(clock["reference"])
        table.add_row(*names, offset, f"{clock['error_s'] * 1e3:.3f} ms")
    console.print(table)


def _spans(report: Mapping[str, Any], console: Console) -> None:
    for title, key in (("Spans", "spans"), ("No requests", "not_request"), ("Values dropped", "attributes_dropped"),
                       ("Not joined", "unmatched"), ("Out of range", "out_of_range")):  # fmt: skip
        if report[key]:
            parts = ", ".join(f"{name} {n}" for name, n in report[key].items())
            console.print(f"{title}: {parts}", highlight=False)
    if report["negative_intervals"]:
        console.print(f"Intervals that clocks made negative: {report['negative_intervals']}", highlight=False)
    for note in report["notes"]:
        console.print(f"[dim]{note}[/]", highlight=False)


def duration(value_s: float | None) -> str:
    """Seconds in the unit that reads best, three significant digits."""
    if value_s is None:
        return NOTHING
    if value_s < 1:
        return f"{value_s * 1e3:.3g} ms" if value_s else "0 ms"
    return f"{value_s:.3g} s" if value_s < 1000 else f"{value_s:.0f} s"


def number(value: float | None, *, sign: bool = False) -> str:
    """A rate."""
    if value is None:
        return NOTHING
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    return f"{value:{'+' if sign else ''},.{digits}f}"


def count(value: float) -> str:
    """A number of requests, whole unless sampled."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
