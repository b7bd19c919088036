"""Anatomy of a request: where its time goes, phase by phase, and boundary by boundary."""

from typing import Final

from dashboards import frame
from dashboards.frame import Board, Row, Settings
from dashboards.on_call import PERCENTILE_COLORS
from dashboards.panels import COUNT, SECONDS, SHARE, Panel, Query, bars, graph, linked
from dashboards.query import REQUESTS, WINDOW, Vector, family, share
from slo_rules.vocabulary import PHASES

UNEXPLAINED: Final = ("unexplained", "over_explained")
COLORS: Final = dict(
    zip(
        (f"^{phase}$" for phase in PHASES),
        (
            "purple",
            "light-blue",
            "orange",
            "yellow",
            "blue",
            "green",
            "super-light-blue",
            "dark-blue",
            "#808080",
            "red",
        ),
        strict=True,
    )
)  # fmt: skip
EXCESS: Final = {"phase": "over_explained"}
"""By what phases explain too much: no part of the request."""
PERCENTILES: Final = ("50", "95")


def board(_: Settings) -> Board:
    """The dashboard for the question which part of a request is slow."""
    return Board(
        uid="goodput-anatomy",
        title="Goodput / Anatomy of a request",
        description="Where the time of a request goes: gateway, queue, prefill, decode, what follows, and the rest.",
        variables=(frame.window, frame.boundary, frame.one_model, frame.klass, frame.tracing),
        top=_phases(),
        rows=[Row("Boundaries side by side", _boundaries()), Row("Distributions, and traces to open", _traces())],
    )


def _phases() -> list[Panel]:
    ok = {"outcome": "ok"}
    count = family("inference_completion_seconds", *REQUESTS, suffix="_count", only=ok).per_second(WINDOW).sum()
    total = family("inference_completion_seconds", *REQUESTS, suffix="_sum", only=ok).per_second(WINDOW).sum()
    phase = family("inference_phase_seconds", *REQUESTS, suffix="_sum", but=EXCESS).per_second(WINDOW).sum("phase")
    rest = family("inference_phase_seconds", *REQUESTS, suffix="_sum", only={"phase": UNEXPLAINED})
    return [
        *(_stack(percentile) for percentile in PERCENTILES),
        graph(
            "Phases of the mean request, $model at $boundary",
            "Mean of each phase of requests that ended ok, over the window. They add up to the mean completion, and "
            "beyond it by what is over-explained. The phase that grew is where to look.",
            SECONDS,
            Query(share(phase, count), "{{phase}}"), Query(share(total, count), "in all"),
            size=(12, 9), stacked=True, colors=COLORS,
        ),
        graph(
            "Unexplained share, $model at $boundary",
            "Part of the completion latency that no phase explains, and part by which phases explain too much. High: a "
            "source sends too few stamps, or clocks differ (see Exporter health).",
            SHARE, Query(share(rest.per_second(WINDOW).sum("phase"), total), "{{phase}}"), size=(12, 9), colors=COLORS,
        ),
    ]  # fmt: skip


def _stack(percentile: str) -> Panel:
    at = {"percentile": percentile}
    phase = family("inference_window_phase_seconds", *REQUESTS, "window", only=at, but=EXCESS)
    whole = family("inference_window_completion_seconds", *REQUESTS, "window", only=at)
    return graph(
        f"Phases at p{percentile}, $model at $boundary",
        f"The p{percentile} of each phase, and of the completion. Each phase has its own slow requests, so percentiles "
        "do not add up exactly; means do, below. Of several classes or exporters the worst.",
        SECONDS,
        Query(phase.worst("phase"), "{{phase}}"),
        Query(whole.worst(), f"in all p{percentile}"),
        size=(12, 9),
        stacked=True,
        colors=COLORS,
    )


def _boundaries() -> list[Panel]:
    lines = [
        graph(
            f"Time to first token p{percentile} per boundary, $model",
            "The same requests timed at each place. The distance between two lines is the wait between these places.",
            SECONDS,
            Query(_first_token(percentile), "{{boundary}}"),
            size=(9, 8),
        )
        for percentile in PERCENTILES
    ]
    now = bars(
        "Time to first token p95 now, $model",
        "The same, as of now. A long bar outside and a short one inside: the wait is before the engine.",
        SECONDS,
        Query(_first_token("95"), "{{boundary}}"),
        size=(6, 8),
    )
    return [*lines, now]


def _first_token(percentile: str) -> Vector:
    found = family("inference_window_ttft_seconds", "model", "class", "window", only={"percentile": percentile})
    return found.worst("boundary")


def _traces() -> list[Panel]:
    samples = family("inference_window_samples", *REQUESTS, "window").sum("metric")
    count = graph(
        "Samples behind the percentiles, $model at $boundary",
        "How many requests the percentiles are made of. A p99 of fewer than a hundred is the slowest request.",
        COUNT,
        Query(samples, "{{metric}}"),
        size=(12, 9),
    )
    titles = {"ttft": "Time to first token", "tpot": "Time per output token", "completion": "Completion"}
    return [*(_distribution(metric, title) for metric, title in titles.items()), count]


def _distribution(metric: str, title: str) -> Panel:
    ended_ok = {"outcome": "ok"} if metric == "completion" else None  # the other two have no others
    buckets = family(f"inference_{metric}_seconds", *REQUESTS, suffix="_bucket", only=ended_ok).per_second()
    panel = graph(
        f"{title} over all exporters, $model at $boundary",
        "From the histograms, added up over exporters; as fine as their buckets, which have edges at the limits. Dots "
        "are slow or failed requests: one leads to its trace, if the data source says where traces are (see README).",
        SECONDS,
        *(Query(buckets.quantile(q), f"p{100 * q:.0f}", exemplars=True) for q in (0.5, 0.95, 0.99)),
        size=(12, 9),
        colors=PERCENTILE_COLORS,
    )
    return linked(panel, "Open tracing", "${tracing}")
