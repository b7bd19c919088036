"""Exporter health: whether what the other dashboards show can be trusted."""

from typing import Final

from dashboards import frame
from dashboards.frame import Board, Row, Settings
from dashboards.panels import (
    BYTES,
    COUNT,
    GREEN,
    GREY,
    ORANGE,
    PER_SECOND,
    PLAIN,
    RED,
    SECONDS,
    SHARE,
    Column,
    Panel,
    Query,
    graph,
    grid,
    number,
)
from dashboards.query import INSTANCE, RATE, Vector, family, share

FATE_COLORS: Final = {
    "^used$": GREEN, "^late$": "yellow", "^too_late$": ORANGE, "^future$": "purple", "^duplicate$": "light-blue",
    "^unrecognised$": "blue", "^not_request$": GREY, "^malformed$": RED, "^evicted$": "dark-red",
}  # fmt: skip
BUILD: Final = family("goodput_exporter_build_info", *INSTANCE)
JOINED: Final = family("goodput_exporter_requests_joined_total", *INSTANCE)
WATERMARK: Final = family("goodput_exporter_watermark_timestamp_seconds", *INSTANCE)


def board(_: Settings) -> Board:
    """The dashboard for the question whether the exporter itself is well."""
    return Board(
        uid="goodput-exporter-health",
        title="Goodput / Exporter health",
        description="Whether the other dashboards can be trusted: what came, what was refused, how late.",
        variables=(frame.instance,),
        top=_now(),
        rows=[
            Row("What comes in, and what becomes of it", _spans()),
            Row("Joining and lateness", _joining()),
            Row("Clocks", _clocks()),
            Row("The program", _program()),
        ],
    )


def _now() -> list[Panel]:
    size = (4, 4)
    reloaded = family("goodput_exporter_config_last_reload_successful", *INSTANCE)
    unbalanced = family("goodput_exporter_unbalanced_requests", *INSTANCE)
    largest = Vector(f"max (abs({unbalanced}))", frozenset())
    return [
        number(
            "Exporters", "How many are scraped and answer. Fewer than there should be: see the alerts.",
            COUNT, Query(Vector(f"count ({BUILD})", frozenset()), "exporters"), size=size,
        ),
        number(
            "Age of the newest span",
            "How long ago the newest span ended. Grows while nothing comes: check senders and the address that "
            "`receive` listens on.",
            SECONDS, Query(_age(WATERMARK.least()), "newest span"), size=size,
            steps=((None, GREEN), (60, ORANGE), (300, RED)),
        ),
        number(
            "Joined down to an engine, last hour",
            "Share of requests that were joined from the outermost span down to an engine's. Low: traceparent does not "
            "reach the engine, or one side sends no spans.",
            SHARE, Query(_whole("1h"), "whole"), size=size, steps=((None, RED), (0.5, ORANGE), (0.9, GREEN)),
        ),
        number(
            "Unbalanced requests",
            "Arrivals less outcomes less in flight, the largest of all boundaries. Anything but 0 is a fault of the "
            "program: report it.",
            COUNT, Query(largest, "unbalanced"), size=size, steps=((None, GREEN), (1, RED)),
        ),
        number(
            "Last reload",
            "Whether the last reading of all files succeeded on every exporter. Refused: the old files stay in force; "
            "the log has every mistake.",
            PLAIN, Query(reloaded.least(), "files"), size=size, words={"1": ("TAKEN", GREEN), "0": ("REFUSED", RED)},
        ),
        number(
            "Series held, of all families",
            "How many series the exporters hold. Near `limits.series` times the families: fewer labels.",
            COUNT, Query(family("goodput_exporter_series", *INSTANCE).sum(), "series"), size=size,
        ),
    ]  # fmt: skip


def _age(stamp: Vector) -> Vector:
    return Vector(f"time() - {stamp}", stamp.labels)


def _whole(over: str) -> Vector:
    whole = family("goodput_exporter_requests_joined_total", *INSTANCE, only={"result": "whole"})
    return share(whole.per_second(over).sum(), JOINED.per_second(over).sum())


def _spans() -> list[Panel]:
    fates = family("goodput_exporter_spans_total", *INSTANCE).per_second().sum("fate")
    received = family("goodput_exporter_spans_received_total", *INSTANCE).per_second().sum("transport")
    answers = family("goodput_exporter_export_calls_total", *INSTANCE).per_second().sum("transport", "code")
    dropped = family("goodput_exporter_attributes_dropped_total", *INSTANCE).per_second().sum("reason")
    negative = family("goodput_exporter_negative_intervals_total", *INSTANCE).per_second().sum()
    beyond = family("goodput_exporter_samples_out_of_range_total", *INSTANCE).per_second().sum("metric")
    other = family("goodput_exporter_label_overflow_total", *INSTANCE).per_second().sum("label")
    seen = family("goodput_exporter_profile_last_seen_timestamp_seconds", *INSTANCE).worst("profile")
    return [
        graph(
            "Spans by fate",
            "What became of every span, each reason. `unrecognised`: no profile knows it. `late`, `too_late`: raise "
            "windows.delay and windows.lateness, or look at the senders. `malformed`, `evicted`: lost.",
            PER_SECOND, Query(fates, "{{fate}}"), size=(12, 9), stacked=True, colors=FATE_COLORS,
        ),
        graph(
            "Spans received, by transport",
            "Spans of accepted bodies. None: the senders' address, the loopback default of `receive`, the network.",
            PER_SECOND, Query(received, "{{transport}}"), size=(6, 9), stacked=True,
        ),
        graph(
            "Answers to senders",
            "Export calls by answer. Other codes than 200 and OK: see Answers to senders in the README.",
            PER_SECOND, Query(answers, "{{transport}} {{code}}"), size=(6, 9),
        ),
        graph(
            "Values refused",
            "Impossible attributes by reason, and intervals that would be negative since clocks differ. The value is "
            "lost, the span is used.",
            PER_SECOND, Query(dropped, "{{reason}}"), Query(negative, "negative intervals"), size=(8, 8),
        ),
        graph(
            "Values beyond what is kept",
            "Samples longer than a histogram holds, and requests whose label became `other` since it has its full "
            "number of values (limits.label_values).",
            PER_SECOND, Query(beyond, "too long: {{metric}}"), Query(other, "other: {{label}}"), size=(8, 8),
        ),
        graph(
            "Source profiles, since last seen",
            "Time since the newest span of each profile. One that grows alone: that emitter stopped, or changed its "
            "spans.",
            SECONDS, Query(_age(seen), "{{profile}}"), size=(8, 8),
        ),
    ]  # fmt: skip


def _joining() -> list[Panel]:
    opened = family("goodput_exporter_open_requests", *INSTANCE).worst("instance")
    most = family("goodput_exporter_open_requests_limit", *INSTANCE).least("instance")
    ends = family("inference_window_end_timestamp_seconds", *INSTANCE).least("instance")
    return [
        graph(
            "Requests joined",
            "Whole: down to an engine. Partial: one side alone. Evicted: given up since the table was full.",
            PER_SECOND, Query(JOINED.per_second().sum("result"), "{{result}}"), size=(6, 8), stacked=True,
            colors={"^whole$": GREEN, "^partial$": ORANGE, "^evicted$": RED},
        ),
        graph(
            "Joined down to an engine",
            "Share of whole ones among the joined requests. A fall: spans of one side are missing.",
            SHARE, Query(_whole(RATE), "whole"), size=(6, 8), ceiling=1,
        ),
        graph(
            "Open requests",
            "Requests that wait for more spans. At the limit (join.max_open) the oldest are evicted.",
            COUNT, Query(opened, "{{instance}}"), Query(most, "limit {{instance}}"), size=(6, 8),
        ),
        graph(
            "Lag of spans and windows",
            "Time since the newest span, and since the end of the newest window. The second is windows.delay and a "
            "slice by design.",
            SECONDS,
            Query(_age(WATERMARK.least("instance")), "spans {{instance}}"), Query(_age(ends), "windows {{instance}}"),
            size=(6, 8),
        ),
    ]  # fmt: skip


def _clocks() -> list[Panel]:
    offset = family("inference_clock_offset_seconds", *INSTANCE).worst("reference", "clock")
    error = family("inference_clock_offset_error_seconds", *INSTANCE).worst("reference", "clock")
    worst = family("inference_window_error_ratio", *INSTANCE).worst("metric")
    return [
        graph(
            "Clock offsets",
            "By how much each clock is ahead of the clock of its caller. Beyond what the limits allow: set "
            "align.mode: adjust, or repair the clocks.",
            SECONDS, Query(offset, "{{clock}} ahead of {{reference}}"), size=(9, 9), floor=None,
        ),
        graph(
            "Uncertainty of clock offsets",
            "Half the width of the bounds of each offset. An offset smaller than this may be none. Values across these "
            "clocks are that uncertain.",
            SECONDS, Query(error, "{{clock}} and {{reference}}"), size=(9, 9),
        ),
        graph(
            "Error of percentiles",
            "The largest relative error of any percentile that is shown, by metric: 0.1 %, more where values are a "
            "few microseconds.",
            SHARE, Query(worst, "{{metric}}"), size=(6, 9),
        ),
    ]  # fmt: skip


def _program() -> list[Panel]:
    buckets = family("goodput_exporter_evaluation_duration_seconds", *INSTANCE, suffix="_bucket").per_second()
    spent = family("goodput_exporter_evaluation_duration_seconds", *INSTANCE, suffix="_sum").per_second()
    times = family("goodput_exporter_evaluation_duration_seconds", *INSTANCE, suffix="_count").per_second()
    series = family("goodput_exporter_series", *INSTANCE).sum("family")
    reloaded = family("goodput_exporter_config_last_reload_success_timestamp_seconds", *INSTANCE).least("instance")
    return [
        graph(
            "Evaluation time",
            "How long one evaluation of windows and SLOs takes, each second. Near 1 s: fewer windows, labels or SLOs.",
            SECONDS,
            Query(buckets.quantile(0.99, "instance"), "p99 {{instance}}"),
            Query(share(spent.sum("instance"), times.sum("instance")), "mean {{instance}}"),
            size=(6, 8),
        ),
        graph(
            "Scrape time", "How long Prometheus waits for a scrape. Near its timeout: fewer labels.",
            SECONDS, Query(_of_ours("scrape_duration_seconds"), "{{instance}}"), size=(6, 8),
        ),
        graph(
            "Series by family", "What the exporters hold. Growth without new models or classes: a label is too rich.",
            COUNT, Query(series, "{{family}}"), size=(6, 8), stacked=True,
        ),
        graph(
            "Memory", "Resident memory. Follows the traffic of ten minutes, open requests and series.",
            BYTES, Query(_of_ours("process_resident_memory_bytes"), "{{instance}}"), size=(6, 8),
        ),
        graph(
            "CPU", "Cores in use. Near 1: the loop is full; spread traces over more exporters.",
            PLAIN, Query(_of_ours(f"rate(process_cpu_seconds_total[{RATE}])"), "{{instance}}"), size=(6, 8),
        ),
        graph(
            "Since the last good reload", "Age of the files in force. Falls to zero at each reload or start.",
            SECONDS, Query(_age(reloaded), "{{instance}}"), size=(6, 8),
        ),
        grid(
            "Builds", "Version of each exporter, and whether its compiled modules are in use (without: slower).",
            Column(BUILD.worst("instance", "version", "compiled"), "up", COUNT), size=(12, 8),
            names={"instance": "exporter", "version": "version", "compiled": "compiled"},
        ),
    ]  # fmt: skip


def _of_ours(expr: str) -> Vector:
    """A series that every target has, of the exporters only."""
    return Vector(f"{expr}\nand on (instance, job) {BUILD}", BUILD.labels)
