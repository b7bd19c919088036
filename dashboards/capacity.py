"""Throughput and capacity: how much work is done, how much of it is good, for whom, and on how many accelerators."""

from typing import Final

from dashboards import frame
from dashboards.frame import Board, Row, Settings
from dashboards.on_call import ATTAINMENT, COMPLETIONS, DEPARTURES, GOOD
from dashboards.panels import (
    PER_SECOND,
    REQUESTS_PER_SECOND,
    SECONDS,
    TOKENS_PER_SECOND,
    Panel,
    Query,
    graph,
    scatter,
)
from dashboards.query import REQUESTS, SLO, TRAFFIC, WINDOW, Vector, family

INPUT: Final = family("inference_input_tokens_total", *REQUESTS)
CACHED: Final = family("inference_cached_input_tokens_total", *REQUESTS)
OUTPUT: Final = family("inference_output_tokens_total", *REQUESTS)
ITEMS: Final = family("inference_items_total", *REQUESTS)
ARRIVALS: Final = family("inference_arrivals_total", *TRAFFIC)
ACCELERATORS: Final = family("inference_accelerators", "model").worst("model")
LIMITED: Final = "Tokens are counted when a request ends."


def board(_: Settings) -> Board:
    """The dashboard for whoever plans capacity or compares settings."""
    return Board(
        uid="goodput-capacity",
        title="Goodput / Throughput and capacity",
        description="How much work is done, how much of it is good, for whom, and on how many accelerators.",
        variables=(frame.slo, frame.window, frame.boundary, frame.model, frame.klass),
        top=_throughput(),
        rows=[
            Row("Speed: what one user sees, and what all get together", _speed()),
            Row("Goodput, and per accelerator", _goodput()),
            Row("Interactive beside batch", _classes()),
        ],
        since="now-6h",
    )


def _throughput() -> list[Panel]:
    total = Vector(f"{INPUT.per_second().sum()}\n+ {OUTPUT.per_second().sum()}", frozenset())
    return [
        graph(
            "Requests at $boundary",
            "Requests that start and requests that end in any way, of all models. Neither is the capacity: that is "
            "the load up to which the share of good requests holds, see below.",
            REQUESTS_PER_SECOND,
            Query(ARRIVALS.per_second().sum(), "arrivals"), Query(DEPARTURES.per_second().sum(), "completions"),
            size=(8, 8),
        ),
        graph(
            "Tokens at $boundary",
            f"Input, output, their total, and the cached part of the input, each for itself. {LIMITED}",
            TOKENS_PER_SECOND,
            Query(INPUT.per_second().sum(), "input"), Query(OUTPUT.per_second().sum(), "output"),
            Query(total, "total"), Query(CACHED.per_second().sum(), "cached input"),
            size=(8, 8),
        ),
        graph(
            "Output tokens by model",
            f"Which model does the work. {LIMITED}",
            TOKENS_PER_SECOND, Query(OUTPUT.per_second().sum("model"), "{{model}}"), size=(8, 8), stacked=True,
        ),
    ]  # fmt: skip


def _speed() -> list[Panel]:
    tpot = family("inference_window_tpot_seconds", *REQUESTS, "window").worst("percentile")
    speed = Vector(f"1 / {tpot}", tpot.labels)
    return [
        graph(
            "Output tokens per second of one user at $boundary",
            "1 / TPOT: half of the requests are at least as fast as p50, all but one in twenty as fast as p95. Falls "
            "as the batch grows.",
            TOKENS_PER_SECOND, Query(speed, "p{{percentile}}"), size=(8, 8),
        ),
        graph(
            "Output tokens per second of all",
            f"All users together. Rises with the batch until the engine is full. {LIMITED}",
            TOKENS_PER_SECOND, Query(OUTPUT.per_second().sum("model"), "{{model}}"), size=(8, 8),
        ),
        graph(
            "Items per second",
            "Work without tokens: images, scores. Only there where a source profile counts items.",
            PER_SECOND, Query(ITEMS.per_second().sum("model"), "{{model}}"), size=(8, 8),
        ),
    ]  # fmt: skip


def _goodput() -> list[Panel]:
    requests = family("inference_slo_goodput_requests_per_second", *SLO, "window").sum("slo")
    tokens = family("inference_slo_goodput_output_tokens_per_second", *SLO, "window").sum("slo")
    load = Vector(f"sum ({ARRIVALS.per_second(WINDOW)})", frozenset())
    return [
        graph(
            "Goodput, last $window",
            "Requests per second that met every limit, added up over exporters.",
            REQUESTS_PER_SECOND, Query(requests, "{{slo}}"), size=(8, 8),
        ),
        graph(
            "Good output tokens, last $window",
            "Output tokens of good requests: the throughput that counts.",
            TOKENS_PER_SECOND, Query(tokens, "{{slo}}"), size=(8, 8),
        ),
        scatter(
            "Good requests against load",
            "A point for each instant: arrivals per second at $boundary, and the share of good requests, over the "
            "window. Where the points begin to fall is what the service can carry.",
            Query(load, "load"), Query(ATTAINMENT, "{{slo}}"), size=(8, 8),
        ),
        graph(
            "Output tokens per accelerator",
            "By model, where the number of accelerators is declared (`accelerators` in the configuration).",
            TOKENS_PER_SECOND, Query(_per_accelerator(OUTPUT.per_second().sum("model")), "{{model}}"), size=(8, 8),
        ),
        graph(
            "Requests per accelerator",
            "Completions at $boundary by model, where the number of accelerators is declared.",
            REQUESTS_PER_SECOND, Query(_per_accelerator(COMPLETIONS.per_second().sum("model")), "{{model}}"),
            size=(8, 8),
        ),
        graph(
            "Goodput per accelerator",
            "Good requests by the accelerators of the chosen models: choose the models that the SLO selects. Compare "
            "settings by this number.",
            REQUESTS_PER_SECOND,
            Query(Vector(f"{GOOD.per_second(WINDOW).sum('slo')}\n/ on () group_left () sum ({ACCELERATORS})",
                         frozenset({"slo"})), "{{slo}}"),
            size=(8, 8),
        ),
    ]  # fmt: skip


def _per_accelerator(amount: Vector) -> Vector:
    return Vector(f"{amount}\n/ on (model) {ACCELERATORS}", amount.labels)


def _classes() -> list[Panel]:
    p95 = {"percentile": "95"}
    return [
        graph(
            "Completions by class at $boundary", "Requests that end, by workload class: who uses the service.",
            REQUESTS_PER_SECOND, Query(COMPLETIONS.per_second().sum("class"), "{{class}}"), size=(8, 8), stacked=True,
        ),
        graph(
            "Output tokens by class", f"Whose work the engine does. {LIMITED}",
            TOKENS_PER_SECOND, Query(OUTPUT.per_second().sum("class"), "{{class}}"), size=(8, 8), stacked=True,
        ),
        graph(
            "Time to first token p95 by class at $boundary",
            "Whether batch work makes interactive requests wait: if both rise together, give batch less.",
            SECONDS,
            Query(family("inference_window_ttft_seconds", *REQUESTS, "window", only=p95).worst("class"), "{{class}}"),
            size=(8, 8),
        ),
        graph(
            "Requests that each SLO selects, last $window",
            "Ended in any way, judged or not: the throughput of batch SLOs, for which nobody waits.",
            REQUESTS_PER_SECOND,
            Query(family("inference_slo_completions_per_second", *SLO, "window").sum("slo"), "{{slo}}"),
            size=(12, 8),
        ),
        graph(
            "Output tokens that each SLO selects, last $window",
            "Of requests that ended in any way, judged or not.",
            TOKENS_PER_SECOND,
            Query(family("inference_slo_output_tokens_per_second", *SLO, "window").sum("slo"), "{{slo}}"),
            size=(12, 8),
        ),
    ]  # fmt: skip
