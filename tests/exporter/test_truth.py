"""What the program says of real servers against what their clients saw, on recorded bodies.

The rows are those of `replay --requests`; the clients' times are in each capture's `truth.jsonl` (AIPerf's records for
its own). `tests.exporter.truth` matches the two without the program. Differences are client minus ours, in
milliseconds, nearest rank. An upper bound is what an exact reading of the capture gives and about 30 % more; the
`floor` keeps a value that is far too long from passing: a gateway's interval lies within its client's, on one clock.
"""

import gzip
import json
import random
import socket
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc
import pytest
from aiohttp import ClientSession
from click.testing import CliRunner

from exporter.cli import main
from exporter.pipeline import REPLAY_LATENESS_NS, Pipeline
from exporter.receive import Encoding
from exporter.receive.grpc import EXPORT, GrpcReceiver
from exporter.receive.http import HttpReceiver
from exporter.replay import rows_of
from exporter.serve import Files, read_files
from tests.exporter.truth import (
    Pair,
    Row,
    Sent,
    Span,
    completion_ms,
    index_of,
    lines,
    merged,
    nearest_rank,
    pairs_of,
    recorded,
    requests_of,
    response_id,
    singles,
    spans_of,
    token_stamps,
    tpot_ms,
    ttft_ms,
)

CAPTURES: Final = (
    "aiperf-envoy-vllm",
    "celery-envoy-vllm",
    "clients-envoy-vllm",
    "dynamo-mocker",
    "dynamo-mocker-disagg",
    "envoy-accesslog-vllm",
    "envoy-own-request-id-vllm",
    "envoy-verbose-vllm",
    "gzip-client-node-vllm",
    "litellm-vllm",
    "node-gateway-vllm",
    "sglang-router-vllm",
    "skewed-envoy-vllm",
    "vllm-direct",
    "vllm-envoy",
    "vllm-envoy-http",
)
MICROSECOND: Final = 1e-6
OVER_SOCKETS_LIMIT: Final = 20 * 2**20
LATENESS_NS: Final = 20_000_000_000
DELAY_NS: Final = 6_000_000_000
"""Leaves 14 s for the spans of one request to end after each other: those of SGLang's router end up to 13.5 s late."""
PRODUCER: Final = 4
CONSUMER: Final = 5
ADJUST: Final = "align: {mode: adjust}\n"
NOT_SAMPLED: Final = (False, "ok")


@dataclass(frozen=True)
class Replayed:
    """A capture, what was recorded beside it, and what the program made of it."""

    report: dict[str, Any]
    rows: list[Row]
    sent: list[Sent]
    spans: list[Span]
    by_id: dict[tuple[str, str], Span] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_id.update({(span.trace, span.id): span for span in self.spans})

    def at(self, boundary: str) -> list[Row]:
        return [row for row in self.rows if row["boundary"] == boundary]

    def pairs(self, boundary: str = "end_to_end") -> list[Pair]:
        return pairs_of(self.at(boundary), self.sent, self.spans)

    def span(self, row: Row) -> Span:
        return self.by_id[row["trace_id"], row["span_id"]]

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    def outcomes(self, boundary: str = "end_to_end") -> dict[str, int]:
        return dict(Counter(row["outcome"] for row in self.at(boundary)))

    def untold(self, pairs: Iterable[Pair]) -> Counter[tuple[bool | None, str]]:
        """The client's requests without a row, by sampled flag and the client's outcome."""
        told = {id(pair.sent) for pair in pairs}
        return Counter((each["sampled"], each["outcome"]) for each in self.sent if id(each) not in told)


Replay = Callable[..., Replayed]


@pytest.fixture(scope="session")
def replayed(captures: Path, tmp_path_factory: pytest.TempPathFactory) -> Replay:
    """Runs the command line on a capture, once for each set of files."""
    known: dict[tuple[str, str, str], Replayed] = {}

    def run(capture: str, *, config: str = "", slos: str = "") -> Replayed:
        if (capture, config, slos) not in known:
            folder = tmp_path_factory.mktemp(capture)
            known[capture, config, slos] = _run(captures / capture, folder, config, slos)
        return known[capture, config, slos]

    return run


def _run(capture: Path, folder: Path, config: str, slos: str) -> Replayed:
    out = folder / "requests.jsonl"
    arguments = ["replay", str(capture), "--json", "--requests", str(out)]
    for option, text in (("--config.file", config), ("--slo.file", slos)):
        if text:
            file = folder / f"{option.strip('-')}.yaml"
            file.write_text(text, encoding="utf-8")
            arguments += [option, str(file)]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert (result.exit_code, result.stderr) == (0, "")
    truth = capture / "truth.jsonl"
    return Replayed(
        report=json.loads(result.stdout, parse_constant=pytest.fail),
        rows=lines(out),
        sent=lines(truth) if truth.exists() else [],
        spans=spans_of(capture),
    )


# The client's clock.


def outcomes(pairs: Iterable[Pair]) -> dict[tuple[str, str], int]:
    """Ours and the client's."""
    return dict(Counter((row["outcome"], sent["outcome"]) for row, sent in pairs))


def well_ended(pairs: Iterable[Pair], *, streams: bool = False) -> list[Pair]:
    both = [pair for pair in pairs if pair.row["outcome"] == "ok" == pair.sent["outcome"]]
    return [pair for pair in both if pair.sent["stream"]] if streams else both


def agree(differences: Iterable[float], *, p50: float | None = None, p95: float, floor: float = -1.0) -> None:
    """No difference below `floor`, and the percentiles not above their bounds."""
    known = list(differences)
    assert known
    assert min(known) >= floor
    assert p50 is None or nearest_rank(known, 50) <= p50
    assert nearest_rank(known, 95) <= p95


def completions(pairs: Iterable[Pair]) -> list[float]:
    return [completion_ms(sent) - row["completion_s"] * 1e3 for row, sent in well_ended(pairs, streams=True)]


def ttfts(pairs: Iterable[Pair]) -> list[float]:
    return [ttft_ms(sent) - row["ttft_s"] * 1e3 for row, sent in well_ended(pairs, streams=True)]


def tokens_equal(pairs: Iterable[Pair], *, compared: int) -> None:
    """Input and output tokens are those that the client was told, wherever it was."""
    told = [pair for pair in well_ended(pairs) if pair.sent["completion_tokens"] is not None]
    for row, sent in told:
        assert (row["input_tokens"], row["output_tokens"]) == (sent["prompt_tokens"], sent["completion_tokens"])
    assert len(told) == compared


def test_vllm_behind_envoy(replayed: Replay) -> None:
    run = replayed("vllm-envoy")
    pairs = run.pairs()
    assert len(run.at("end_to_end")) == len(pairs) == 252
    assert outcomes(pairs) == {("ok", "ok"): 225, ("cancelled", "aborted"): 17, ("client_error", "http_error"): 10}
    assert Counter(sent["sampled"] for _, sent in well_ended(pairs)) == {True: 220, None: 5}
    assert run.untold(pairs) == {NOT_SAMPLED: 3}
    agree(completions(pairs), p50=2, p95=12)
    agree(ttfts(pairs), p50=3, p95=13)
    tokens_equal(pairs, compared=222)


def test_envoy_says_who_hung_up_and_which_paths_it_does_not_know(replayed: Replay) -> None:
    run = replayed("vllm-envoy")
    flags = Counter((row["outcome"], run.span(row).attributes["response_flags"]) for row in run.at("end_to_end"))
    assert flags == {("ok", "-"): 225, ("cancelled", "DC"): 17, ("client_error", "-"): 10}
    unknown = [sent for row, sent in run.pairs() if sent["path"] == "/v1/chat/completionz"]
    assert [sent["status"] for sent in unknown] == [404]


def test_envoy_with_egress_spans_retries_and_timeouts(replayed: Replay) -> None:
    run = replayed("vllm-envoy-http")
    pairs = run.pairs()
    assert len(run.at("end_to_end")) == len(pairs) == 99
    assert outcomes(pairs) == {
        ("ok", "ok"): 73,
        ("cancelled", "aborted"): 10,
        ("client_error", "http_error"): 10,
        ("timeout", "transport_error"): 2,
        ("timeout", "http_error"): 2,
        ("error", "http_error"): 2,
    }
    assert Counter(sent["status"] for row, sent in pairs if row["outcome"] == "timeout") == {200: 2, 504: 2}
    failed = [run.span(row).attributes for row in run.at("end_to_end") if row["outcome"] == "error"]
    assert [(span["http.status_code"], span["response_flags"]) for span in failed] == [("503", "UF")] * 2
    assert run.untold(pairs) == {NOT_SAMPLED: 1}
    agree(completions(pairs), p50=2, p95=16)
    agree(ttfts(pairs), p50=3, p95=17)
    tokens_equal(pairs, compared=73)


def test_a_retry_of_the_gateway_is_one_request(replayed: Replay) -> None:
    run = replayed("vllm-envoy-http")
    retried = [row for row, sent in run.pairs() if sent["scenario"] == "gateway_retry"]
    assert [row["outcome"] for row in retried] == ["ok"] * 4
    tries = Counter(span.trace for span in run.named("router half_dead egress"))
    assert [tries[row["trace_id"]] for row in retried] == [2] * 4


def test_vllm_asked_directly(replayed: Replay) -> None:
    run = replayed("vllm-direct")
    pairs = run.pairs("model")
    assert {row["boundary"] for row in run.rows} == set(run.report["boundaries"]) == {"model"}
    assert (len(run.rows), len(pairs), len(run.named("llm_request"))) == (218, 218, 232)
    assert outcomes(pairs) == {("ok", "ok"): 218}
    assert run.untold(pairs) == {NOT_SAMPLED: 3, (True, "aborted"): 17, (True, "http_error"): 10}
    agree(completions(pairs), p50=5, p95=18)
    agree(ttfts(pairs), p50=5, p95=18)
    tokens_equal(pairs, compared=215)


@pytest.mark.parametrize("capture", ["vllm-direct", "vllm-envoy", "vllm-envoy-http", "skewed-envoy-vllm"])
def test_the_time_per_token_at_the_engine_is_the_one_that_the_client_sees(replayed: Replay, capture: str) -> None:
    """Chunks reach the client late in bursts, so those of short answers are further off."""
    differences = tpots(single_answers(replayed(capture).pairs("model")))
    agree(map(abs, differences), p50=0.1, p95=0.6)
    assert max(map(abs, differences)) <= 1.8


def single_answers(pairs: Iterable[Pair]) -> list[Pair]:
    """Streams of one sequence, of which two tokens or more are known to have come."""
    streams = [pair for pair in well_ended(pairs, streams=True) if (pair.sent["completion_tokens"] or 0) > 1]
    return [pair for pair in streams if pair.sent["n"] == pair.sent["prompts"] == 1]


def tpots(pairs: Iterable[Pair]) -> list[float]:
    return [tpot_ms(sent) - row["tpot_s"] * 1e3 for row, sent in pairs]


# AIPerf beside the spans of its run.


class Limits(NamedTuple):
    """Limits of both metrics in milliseconds, and what AIPerf's records say of them."""

    ttft: int
    itl: int
    good: int
    close: int

    @property
    def name(self) -> str:
        return f"ttft-{self.ttft}-itl-{self.itl}"

    def slo(self) -> str:
        objective = "{{metric: {}, boundary: end_to_end, percentile: 95, threshold: {}ms, window: 5m}}"
        return (
            f"apiVersion: goodput/v1\nkind: SLO\nmetadata: {{name: {self.name}}}\nspec:\n  objectives:\n"
            f"    - {objective.format('ttft', self.ttft)}\n    - {objective.format('tpot', self.itl)}\n"
        )

    def met_by(self, record: Mapping[str, Any]) -> bool:
        return metric(record, "time_to_first_token") <= self.ttft and metric(record, "inter_token_latency") <= self.itl

    def near(self, record: Mapping[str, Any]) -> bool:
        ttft, itl = metric(record, "time_to_first_token"), metric(record, "inter_token_latency")
        return abs(ttft - self.ttft) <= 14 or abs(itl - self.itl) <= 0.65


LIMITS: Final = (
    Limits(1200, 35, good=13, close=8),
    Limits(1400, 36, good=27, close=8),
    Limits(1500, 40, good=45, close=9),
    Limits(1800, 45, good=80, close=7),
    Limits(2000, 50, good=104, close=4),
)
AIPERF_SLOS: Final = "---\n".join(limits.slo() for limits in LIMITS)


def metric(record: Mapping[str, Any], name: str) -> float:
    return float(record["metrics"][name]["value"])


def aiperf_key(request_id: str) -> str:
    """AIPerf's id of a request but for the character where Envoy notes the sampling decision."""
    return request_id[:14] + request_id[15:]


def aiperf_pairs(run: Replayed, capture: Path) -> list[tuple[Row, dict[str, Any]]]:
    """Each row with AIPerf's record of the request."""
    records = {aiperf_key(each["metadata"]["x_request_id"]): each for each in lines(capture / "profile_export.jsonl")}
    keys = [aiperf_key(run.span(row).attributes["guid:x-request-id"]) for row in run.at("end_to_end")]
    assert sorted(keys) == sorted(records)
    return [(row, records[key]) for row, key in zip(run.at("end_to_end"), keys, strict=True)]


def profiled(pairs: Iterable[tuple[Row, dict[str, Any]]]) -> list[tuple[Row, dict[str, Any]]]:
    """Without the warm-up."""
    return [pair for pair in pairs if pair[1]["metadata"]["benchmark_phase"] == "profiling"]


def test_aiperf_saw_the_same_latencies(replayed: Replay, captures: Path) -> None:
    run = replayed("aiperf-envoy-vllm", slos=AIPERF_SLOS)
    pairs = aiperf_pairs(run, captures / "aiperf-envoy-vllm")
    assert (len(pairs), len(profiled(pairs)), run.outcomes()) == (122, 120, {"ok": 122})
    assert run.report["spans"]["not_request"] == 144
    others = Counter(span.attributes["http.method"] for span in run.named("ingress"))
    assert others == {"POST": 122, "GET": 141, "HEAD": 3}
    agree((metric(record, "request_latency") - row["completion_s"] * 1e3 for row, record in pairs), p95=6, floor=-6.5)
    agree((metric(record, "time_to_first_token") - row["ttft_s"] * 1e3 for row, record in pairs), p50=3, p95=10)
    agree((metric(record, "inter_token_latency") - row["tpot_s"] * 1e3 for row, record in pairs), p95=0.15, floor=-0.6)
    for row, record in pairs:
        told = (metric(record, "usage_prompt_tokens"), metric(record, "usage_completion_tokens"))
        assert (row["input_tokens"], row["output_tokens"]) == told


@pytest.mark.parametrize("limits", LIMITS, ids=lambda limits: limits.name)
def test_aiperf_calls_the_same_requests_good(replayed: Replay, captures: Path, limits: Limits) -> None:
    """But for those that lie as near to a limit as the two clocks are apart; these are listed."""
    run = replayed("aiperf-envoy-vllm", slos=AIPERF_SLOS)
    pairs = profiled(aiperf_pairs(run, captures / "aiperf-envoy-vllm"))
    theirs = {row["span_id"] for row, record in pairs if limits.met_by(record)}
    ours = {row["span_id"] for row, _ in pairs if row["slos"][limits.name]["good"]}
    close = {row["span_id"]: record["metadata"]["x_request_id"] for row, record in pairs if limits.near(record)}
    assert (len(theirs), len(close)) == (limits.good, limits.close)
    assert theirs ^ ours <= close.keys(), f"of the requests near the limits {sorted(close.values())}"
    assert abs(len(ours) - limits.good) <= limits.close


def test_the_report_counts_the_good_rows(replayed: Replay) -> None:
    run = replayed("aiperf-envoy-vllm", slos=AIPERF_SLOS)
    for limits in LIMITS:
        judged = [row["slos"][limits.name]["good"] for row in run.at("end_to_end")]
        said = run.report["slos"][limits.name]
        assert (said["eligible"], said["good"], said["bad"]) == (122, judged.count(True), judged.count(False))


# Queues.


def celery_spans(run: Replayed, row: Row, kind: int) -> list[Span]:
    return sorted((span for span in run.spans if (span.trace, span.kind) == (row["trace_id"], kind)), key=starts)


def starts(span: Span) -> int:
    return span.start


def since_enqueued_ms(sent: Sent, stamp: str) -> float:
    return float(sent[stamp] - sent["enqueue_unix_ns"]) / 1e6


def test_celery_jobs(replayed: Replay) -> None:
    run = replayed("celery-envoy-vllm")
    pairs = run.pairs()
    assert len(run.at("end_to_end")) == len(pairs) == len(run.sent) == 40
    assert outcomes(pairs) == {("ok", "ok"): 38, ("error", "task_error"): 2}
    straight = [pair for pair in pairs if pair.sent["scenario"] == "queued"]
    assert len(straight) == 35
    waits = [abs(since_enqueued_ms(sent, "dequeue_unix_ns") - row["phases"]["queue"] * 1e3) for row, sent in straight]
    assert nearest_rank(waits, 90) <= 2
    whole = [since_enqueued_ms(sent, "done_unix_ns") - row["completion_s"] * 1e3 for row, sent in straight]
    assert nearest_rank(map(abs, whole), 95) <= 7.2
    first = [since_enqueued_ms(sent, "first_content_unix_ns") - row["ttft_s"] * 1e3 for row, sent in straight]
    agree(first, p50=3.2, p95=23)
    tokens_equal(pairs, compared=38)


def test_the_wait_in_celery_is_from_the_producers_start_to_the_consumers(replayed: Replay) -> None:
    run = replayed("celery-envoy-vllm")
    for row, sent in run.pairs():
        if sent["scenario"] == "queued":
            (producer,), (consumer,) = celery_spans(run, row, PRODUCER), celery_spans(run, row, CONSUMER)
            assert round(row["phases"]["queue"] * 1e9) == consumer.start - producer.start


def test_a_retried_job_is_one_request(replayed: Replay) -> None:
    run = replayed("celery-envoy-vllm")
    retried = [pair for pair in run.pairs() if pair.sent["scenario"] != "queued"]
    assert Counter(row["outcome"] for row, _ in retried) == {"ok": 3, "error": 2}
    for row, sent in retried:
        producers, consumers = celery_spans(run, row, PRODUCER), celery_spans(run, row, CONSUMER)
        assert (len(producers), len(consumers)) == (2, 2)
        assert row["arrived_unix_nano"] == producers[0].start
        assert row["ended_unix_nano"] == max(span.end for span in consumers)
        if row["outcome"] == "ok":
            assert abs(since_enqueued_ms(sent, "done_unix_ns") - row["completion_s"] * 1e3) <= 2
        else:
            assert row["completion_s"] * 1e3 <= since_enqueued_ms(sent, "result_unix_ns")


# Other gateways.


def test_litellm(replayed: Replay) -> None:
    run = replayed("litellm-vllm")
    pairs = run.pairs()
    assert run.outcomes() == {"ok": 66, "cancelled": 5, "error": 1, "client_error": 10}
    assert outcomes(pairs) == {
        ("ok", "ok"): 65,
        ("cancelled", "aborted"): 5,
        ("error", "http_error"): 1,
        ("client_error", "http_error"): 10,
    }
    (probe,) = {row["span_id"] for row in run.at("end_to_end")} - {row["span_id"] for row, _ in pairs}
    before = min(sent["send_unix_ns"] for sent in run.sent)
    assert [row["arrived_unix_nano"] < before for row in run.at("end_to_end") if row["span_id"] == probe] == [True]
    assert run.untold(pairs) == {NOT_SAMPLED: 1}
    broken = [run.span(row).attributes for row in run.at("end_to_end") if row["outcome"] == "cancelled"]
    status = [(span["http.response.status_code"], span["error.type"]) for span in broken]
    assert status == [(200, "ConnectionError")] * 5
    assert [sent["status"] for row, sent in pairs if row["outcome"] == "error"] == [500]
    agree(completions(pairs), p50=1.9, p95=26)
    agree(ttfts(pairs), p50=14, p95=39)
    tokens_equal(pairs, compared=65)


def test_both_server_spans_of_litellm_are_one_request(replayed: Replay) -> None:
    run = replayed("litellm-vllm")
    assert (len(run.named("Received Proxy Server Request")), len(run.at("end_to_end"))) == (81, 82)
    assert {run.span(row).scope for row in run.at("end_to_end")} == {"fastapi"}
    assert (run.report["joined"], run.report["unmatched"]) == ({"partial": 16, "whole": 66}, {})
    assert len(run.at("model")) == 66


def test_litellm_without_a_traceparent_is_joined_by_the_id_of_the_response(replayed: Replay) -> None:
    run = replayed("litellm-vllm")
    engines = {response_id(span.attributes["gen_ai.request.id"]): span.trace for span in run.named("llm_request")}
    apart = [pair for pair in run.pairs() if pair.sent["trace_id"] is None]
    assert sorted(sent["stream"] for _, sent in apart) == [False, True]
    for row, sent in apart:
        assert engines[response_id(sent["response_id"])] != row["trace_id"]
        assert (row["first_token_unix_nano"] is not None) == sent["stream"]
        assert row["phases"]["decode"] > 0


def test_the_sglang_router(replayed: Replay) -> None:
    run = replayed("sglang-router-vllm")
    pairs = run.pairs()
    assert run.outcomes() == {"ok": 76, "client_error": 9, "unknown": 6}
    assert outcomes(pairs) == {("ok", "ok"): 75, ("unknown", "aborted"): 6, ("client_error", "http_error"): 9}
    assert {sent["path"] for sent in run.sent if id(sent) not in {id(pair.sent) for pair in pairs}} == {
        "/v1/chat/completionz"
    }
    assert {run.span(row).attributes["status_code"] for row in run.at("end_to_end") if row["outcome"] == "unknown"} == {
        "200"
    }
    agree(completions(pairs), p50=3.5, p95=14)
    agree(ttfts(pairs), p50=4.6, p95=20.6)
    tokens_equal(pairs, compared=75)


def test_the_sglang_router_loses_the_callers_trace_and_no_engine(replayed: Replay) -> None:
    run = replayed("sglang-router-vllm")
    assert not {sent["trace_id"] for sent in run.sent} & {span.trace for span in run.spans}
    assert (len(run.named("llm_request")), run.report["unmatched"]) == (79, {})
    engines = defaultdict(list)
    for span in run.named("llm_request"):
        engines[span.trace].append(span)
    joined = [row for row in run.at("end_to_end") if row["outcome"] == "ok"]
    assert sum(len(engines[row["trace_id"]]) for row in joined) == 79
    for row in joined:
        tokens = sum(span.attributes["gen_ai.usage.completion_tokens"] for span in engines[row["trace_id"]])
        assert row["output_tokens"] == tokens


def test_the_sglang_routers_own_end_is_not_taken(replayed: Replay) -> None:
    run = replayed("sglang-router-vllm")
    ends: dict[str, int] = {}
    for span in run.named("llm_request"):
        ends[span.trace] = max(ends.get(span.trace, 0), span.end)
    late_ns = []
    for row in run.at("end_to_end"):
        assert row["ended_unix_nano"] == ends.get(row["trace_id"])
        if row["ended_unix_nano"] is not None:
            late_ns.append(run.span(row).end - row["ended_unix_nano"])
    assert max(late_ns) > 13_000_000_000


@pytest.mark.parametrize(
    ("capture", "found", "completion", "ttft", "compared"),
    [
        ("node-gateway-vllm", {"ok": 69, "unknown": 6, "client_error": 10}, (4, 40), (4.9, 45), 69),
        ("gzip-client-node-vllm", {"ok": 32, "unknown": 3, "client_error": 2}, (8, 19), (10.3, 20.5), 32),
    ],
)
def test_a_node_proxy(
    replayed: Replay, capture: str, found: dict[str, int], completion: tuple[float, float],
    ttft: tuple[float, float], compared: int,
) -> None:  # fmt: skip
    run = replayed(capture)
    pairs = run.pairs()
    assert run.outcomes() == found
    assert outcomes(pairs) == {
        ("ok", "ok"): found["ok"],
        ("unknown", "aborted"): found["unknown"],
        ("client_error", "http_error"): found["client_error"],
    }
    statuses = {
        run.span(row).attributes["http.response.status_code"] for row, _ in pairs if row["outcome"] == "unknown"
    }
    assert statuses == {200}
    unsampled = sum(each["sampled"] is False for each in run.sent)
    assert sum(run.untold(pairs).values()) == unsampled
    agree(completions(pairs), p50=completion[0], p95=completion[1])
    agree(ttfts(pairs), p50=ttft[0], p95=ttft[1])
    tokens_equal(pairs, compared=compared)


# Instrumented clients.


def test_instrumented_clients(replayed: Replay) -> None:
    run = replayed("clients-envoy-vllm")
    ours, gateway = run.pairs("client"), run.pairs("end_to_end")
    assert len(ours) == len(gateway) == len(run.at("client")) == len(run.at("end_to_end")) == 132
    assert outcomes(ours) == {("ok", "ok"): 112, ("unknown", "aborted"): 12, ("client_error", "http_error"): 8}
    assert outcomes(gateway) == {("ok", "ok"): 112, ("cancelled", "aborted"): 12, ("client_error", "http_error"): 8}
    apart = [sent for sent in run.sent if "+inject" not in sent["via"]]
    assert run.report["unmatched"] == {"client": len(apart)} == {"client": 21}
    agree(completions(ours), p50=0.2, p95=2.2)
    agree(ttfts(ours), p50=0.9, p95=5.2)
    agree(completions(gateway), p50=6, p95=21.1)
    agree(ttfts(gateway), p50=6.7, p95=31.2)
    tokens_equal(ours, compared=112)
    tokens_equal(gateway, compared=112)


def test_the_gzipped_clients(replayed: Replay) -> None:
    run = replayed("gzip-client-node-vllm")
    pairs = run.pairs("client")
    assert outcomes(pairs) == {("ok", "ok"): 32, ("unknown", "aborted"): 3, ("client_error", "http_error"): 2}
    agree(completions(pairs), p50=0.2, p95=0.3)
    agree(ttfts(pairs), p50=0.6, p95=1.7)
    tokens_equal(pairs, compared=32)


def test_the_chunk_that_holds_only_usage_is_no_token(replayed: Replay) -> None:
    """It comes 0.07 ms or more after the last token."""
    run = replayed("clients-envoy-vllm")
    pairs = [pair for pair in single_answers(run.pairs("client")) if pair.sent["via"].startswith("traceloop")]
    assert len(pairs) == 24
    for row, sent in pairs:
        chunks = [at for at, name in run.span(row).events if name == "gen_ai.content.completion.chunk"]
        assert len(chunks) == sent["completion_tokens"] + 2
        gaps_ns = row["tpot_s"] * 1e9 * (sent["completion_tokens"] - 1)
        last_ns = row["first_token_unix_nano"] + gaps_ns
        truth_ns = token_stamps(sent)[-1]
        assert -200_000 <= last_ns - truth_ns <= 0 < chunks[-1] - truth_ns


@pytest.mark.parametrize(("flavour", "streams", "p50", "p95"), [
    ("traceloop", 24, 0.02, 0.13), ("genai-openai", 24, 0.12, 0.9), ("openinference", 36, 0.14, 1.2),
])  # fmt: skip
def test_the_time_per_token_of_a_client_is_that_of_its_chunks(
    replayed: Replay, flavour: str, streams: int, p50: float, p95: float
) -> None:
    """Where the client's span does not say when the last token came, it is the end of the stream: a little more."""
    every = single_answers(replayed("clients-envoy-vllm").pairs("client"))
    pairs = [pair for pair in every if pair.sent["via"].startswith(flavour)]
    assert len(pairs) == streams
    agree((-difference for difference in tpots(pairs)), p50=p50, p95=p95, floor=0)


# Clocks.


def test_the_offset_of_a_skewed_clock_is_found(replayed: Replay) -> None:
    for config in ("", ADJUST):
        (clock,) = replayed("skewed-envoy-vllm", config=config).report["clocks"]
        assert (clock["reference"], clock["clock"].split("/")[0]) == ("envoy-gateway-http", "vllm-tiny")
        assert abs(clock["offset_s"] + 0.120) <= 0.0005
        assert abs(clock["offset_s"] + 0.120) <= clock["error_s"]
        assert 2 * clock["error_s"] <= 0.0034


def test_a_skewed_clock_adjusted(replayed: Replay) -> None:
    run = replayed("skewed-envoy-vllm", config=ADJUST)
    pairs = run.pairs()
    assert outcomes(pairs) == {("ok", "ok"): 58, ("cancelled", "aborted"): 6}
    assert all(row["ttft_s"] is not None for row, _ in well_ended(pairs))
    agree(ttfts(pairs), p50=4, p95=15)
    agree(completions(pairs), p50=2, p95=13)
    (clock,) = run.report["clocks"]
    assert {row["uncertainty_s"] for row, _ in well_ended(pairs)} == {clock["error_s"]}
    assert run.report["negative_intervals"] == 0
    tokens_equal(pairs, compared=58)


def test_a_skewed_clock_reported(replayed: Replay) -> None:
    """Raw: the engine's first token on its own clock minus the gateway's start, as the spans have them."""
    run = replayed("skewed-envoy-vllm")
    pairs = well_ended(run.pairs())
    engines = {span.trace: span for span in run.named("llm_request")}
    negative = 0
    for row, _ in pairs:
        engine, gateway = engines[row["trace_id"]], run.span(row)
        first = engine.start + round(engine.attributes["gen_ai.latency.time_to_first_token"] * 1e9)
        raw = first - gateway.start
        negative += raw < 0
        assert (row["ttft_s"] is None) == (raw < 0)
        assert row["ttft_s"] is None or abs(row["ttft_s"] * 1e9 - raw) <= 2
        assert row["uncertainty_s"] >= 0.119
        assert row["completion_s"] * 1e9 == pytest.approx(gateway.end - gateway.start, abs=1)
    assert (len(pairs), negative, run.report["negative_intervals"]) == (58, 3, 3)
    assert run.report["boundaries"]["end_to_end"]["metrics"]["ttft"]["count"] == 55


def test_the_engines_own_values_need_no_clock_but_its_own(replayed: Replay) -> None:
    reported, adjusted = replayed("skewed-envoy-vllm"), replayed("skewed-envoy-vllm", config=ADJUST)
    assert reported.at("model") == adjusted.at("model")
    assert {row["uncertainty_s"] for row in reported.at("model")} == {0}


# Dynamo.


@pytest.mark.parametrize(
    ("capture", "found", "completion", "ttft", "compared", "without"),
    [
        ("dynamo-mocker", {"ok": 148, "cancelled": 17, "client_error": 6, "error": 4}, (8.1, 16.7), (8.2, 17), 145, 2),
        (
            "dynamo-mocker-disagg", {"ok": 144, "cancelled": 13, "client_error": 6, "error": 4},
            (10.4, 20.4), (11.6, 19.6), 143, 1,
        ),
    ],
)  # fmt: skip
def test_dynamo(
    replayed: Replay, capture: str, found: dict[str, int], completion: tuple[float, float],
    ttft: tuple[float, float], compared: int, without: int,
) -> None:  # fmt: skip
    run = replayed(capture)
    pairs = run.pairs()
    assert run.outcomes() == found
    assert outcomes(pairs) == {
        ("ok", "ok"): found["ok"],
        ("cancelled", "aborted"): found["cancelled"],
        ("client_error", "http_error"): 6,
        ("error", "http_error"): 4,
    }
    assert run.untold(pairs) == {NOT_SAMPLED: 1}
    agree(completions(pairs), p50=completion[0], p95=completion[1])
    agree(ttfts(pairs), p50=ttft[0], p95=ttft[1])
    whole = [pair for pair in well_ended(pairs) if not pair.sent["stream"]]
    silent = [pair for pair in whole if pair.sent["path"] == "/v1/completions"]
    assert [row["output_tokens"] for row, _ in silent] == [None] * without
    tokens_equal([pair for pair in pairs if pair not in silent], compared=compared)
    assert {row["first_token_from"] for row, _ in well_ended(pairs, streams=True)} == {"chunk"}
    agree(map(abs, tpots(single_answers(pairs))), p95=0.13)


def test_prefill_and_decode_on_two_workers_are_one_request(replayed: Replay) -> None:
    run = replayed("dynamo-mocker-disagg")
    workers = [span for span in run.named("handle_payload") if span.attributes["endpoint"] == "generate"]
    assert (len(workers), len(run.at("model"))) == (322, 161)
    assert run.report["spans"]["not_request"] == 1


# Envoy set up in other ways.


@pytest.mark.parametrize(
    ("capture", "found", "completion", "ttft", "compared"),
    [
        (
            "envoy-accesslog-vllm", {"ok": 155, "cancelled": 19, "client_error": 10, "timeout": 4, "error": 2},
            (8.1, 47.3), (8.8, 49.3), 155,
        ),
        (
            "envoy-verbose-vllm", {"ok": 66, "cancelled": 10, "client_error": 10, "timeout": 4, "error": 2},
            (2.6, 13.3), (3.1, 16.4), 66,
        ),
    ],
)  # fmt: skip
def test_envoy_with_access_logs_and_verbose_spans(
    replayed: Replay, capture: str, found: dict[str, int], completion: tuple[float, float],
    ttft: tuple[float, float], compared: int,
) -> None:  # fmt: skip
    run = replayed(capture)
    pairs = run.pairs()
    assert run.outcomes() == found
    assert outcomes(pairs) == {
        ("ok", "ok"): found["ok"],
        ("cancelled", "aborted"): found["cancelled"],
        ("client_error", "http_error"): 10,
        ("timeout", "transport_error"): 2,
        ("timeout", "http_error"): 2,
        ("error", "http_error"): 2,
    }
    assert run.untold(pairs) == {NOT_SAMPLED: 1}
    agree(completions(pairs), p50=completion[0], p95=completion[1])
    agree(ttfts(pairs), p50=ttft[0], p95=ttft[1])
    tokens_equal(pairs, compared=compared)


def test_verbose_spans_tell_how_long_the_gateway_kept_the_request(replayed: Replay) -> None:
    run = replayed("envoy-verbose-vllm")
    for row, _ in well_ended(run.pairs()):
        span = run.span(row)
        sent_on = [at for at, name in span.events if name == "first_upstream_tx_byte_sent"]
        assert round(row["phases"]["gateway"] * 1e9) == sent_on[0] - span.start


def test_callers_who_bring_their_own_request_id(replayed: Replay) -> None:
    """An id that is no UUID loses its spans before they come here; with a UUID nothing is lost."""
    run = replayed("envoy-own-request-id-vllm")
    pairs = run.pairs()
    assert len(run.at("end_to_end")) == len(pairs) == 7
    assert outcomes(pairs) == {("ok", "ok"): 7}
    told = {id(sent) for _, sent in pairs}
    lost = Counter(sent["scenario"] for sent in run.sent if id(sent) not in told)
    assert lost == {"own_request_id_text": 3, "own_request_id_text_no_traceparent": 3}
    agree(completions(pairs), p50=2.2, p95=2.6)
    agree(ttfts(pairs), p50=2.1, p95=4.4)
    tokens_equal(pairs, compared=7)


@pytest.mark.parametrize("capture", ["vllm-envoy", "vllm-envoy-http", "aiperf-envoy-vllm", "envoy-verbose-vllm"])
def test_the_values_are_those_of_the_spans_to_the_nanosecond(replayed: Replay, capture: str) -> None:
    """Requests with one engine span, read by hand."""
    run = replayed(capture)
    engines = defaultdict(list)
    for span in run.named("llm_request"):
        engines[span.trace].append(span)
    single = [row for row in run.at("end_to_end") if row["outcome"] == "ok" and len(engines[row["trace_id"]]) == 1]
    assert len(single) > 60
    for row in single:
        (engine,), gateway = engines[row["trace_id"]], run.span(row)
        attributes = engine.attributes
        ttft_ns = attributes["gen_ai.latency.time_to_first_token"] * 1e9
        assert row["completion_s"] * 1e9 == pytest.approx(gateway.end - gateway.start, abs=1)
        assert row["ttft_s"] * 1e9 == pytest.approx(engine.start + ttft_ns - gateway.start, abs=600)
        tokens = attributes["gen_ai.usage.completion_tokens"]
        if tokens < 2:
            assert row["tpot_s"] is None
        else:
            gap_ns = (attributes["gen_ai.latency.e2e"] * 1e9 - ttft_ns) / (tokens - 1)
            assert row["tpot_s"] * 1e9 == pytest.approx(gap_ns, abs=2)
        assert row["first_token_from"] == "model"


# What holds for every capture.


def test_every_recorded_capture_is_tested(data: Path) -> None:
    assert {path.name for path in (data / "captures").iterdir() if path.is_dir()} == set(CAPTURES)


@pytest.mark.parametrize("capture", CAPTURES)
def test_what_arrived_has_ended_or_is_open(replayed: Replay, capture: str) -> None:
    run = replayed(capture)
    for name, boundary in run.report["boundaries"].items():
        assert sum(boundary["outcomes"].values()) + boundary["in_flight"] == boundary["arrivals"]
        rows = run.outcomes(name)
        assert {outcome: count for outcome, count in boundary["outcomes"].items() if count} == rows


@pytest.mark.parametrize("capture", CAPTURES)
def test_the_phases_of_a_request_are_its_completion(replayed: Replay, capture: str) -> None:
    for config in ("", ADJUST):
        for row in replayed(capture, config=config).rows:
            phases = {phase: round(seconds * 1e9) for phase, seconds in row["phases"].items()}
            if row["outcome"] != "ok" or row["completion_s"] is None:
                assert phases == {}
                continue
            over = phases.pop("over_explained", 0)
            assert min(phases.values()) >= 0 == over * phases["unexplained"]
            assert sum(phases.values()) - over == round(row["completion_s"] * 1e9)


@pytest.mark.parametrize("capture", CAPTURES)
def test_every_span_has_one_fate(replayed: Replay, capture: str) -> None:
    run = replayed(capture)
    assert sum(run.report["spans"].values()) == run.report["input"]["spans"] == len(run.spans)
    stamps = [stamp for span in run.spans for stamp in (span.start, span.end)]
    assert run.report["input"]["first_unix_nano"] == min(span.start for span in run.spans)
    assert run.report["input"]["last_unix_nano"] == max(stamps)


@pytest.mark.parametrize("capture", CAPTURES)
def test_the_report_and_the_rows_hold_only_numbers_that_json_has(replayed: Replay, capture: str) -> None:
    run = replayed(capture)
    json.dumps([run.report, run.rows], allow_nan=False)


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_row_does_not_contradict_itself(replayed: Replay, capture: str) -> None:
    for row in replayed(capture).rows:
        for value, stamp in (("ttft_s", "first_token_unix_nano"), ("completion_s", "ended_unix_nano")):
            if row[value] is not None:
                assert round(row[value] * 1e9) == row[stamp] - row["arrived_unix_nano"] >= 0
        assert row["first_token_from"] is None or row["first_token_unix_nano"] is not None
        assert row["tpot_s"] is None or (row["tpot_s"] >= 0 and row["output_tokens"] >= 2)


@pytest.mark.parametrize("capture", CAPTURES)
def test_the_report_says_what_the_rows_say(replayed: Replay, capture: str) -> None:
    """Counts and sums exactly; percentiles never below, and above by the error that the report names and a microsecond,
    the unit in which latencies are counted, at most.
    """
    run = replayed(capture)
    for name, boundary in run.report["boundaries"].items():
        rows = run.at(name)
        for kind in ("input", "output", "cached_input"):
            known = [row[f"{kind}_tokens"] for row in rows if row[f"{kind}_tokens"] is not None]
            assert (boundary["tokens"][kind] or 0) == sum(known)
        for metric_name, said in boundary["metrics"].items():
            values = samples(rows, f"{metric_name}_s")
            assert said["count"] == len(values)
            if not values:
                continue
            for percentile in (50, 95, 99):
                exact, shown = nearest_rank(values, percentile), said[f"p{percentile}"]
                assert exact - 1e-12 <= shown <= (exact + MICROSECOND) * (1 + said["error_ratio"]) + 1e-12
            assert said["max"] == pytest.approx(max(values), abs=MICROSECOND)
            assert said["mean"] == pytest.approx(sum(values) / len(values), abs=MICROSECOND)


def samples(rows: Iterable[Row], metric_name: str) -> list[float]:
    """What a metric's percentiles are of: requests that ended well; TTFT also of those given up after it."""
    kinds = {"ok", "cancelled"} if metric_name == "ttft_s" else {"ok"}
    return [row[metric_name] for row in rows if row["outcome"] in kinds and row[metric_name] is not None]


@pytest.mark.parametrize("capture", CAPTURES)
def test_what_is_known_to_be_no_stream_has_no_first_token_outside_the_engine(replayed: Replay, capture: str) -> None:
    run = replayed(capture)
    known = {"litellm-vllm", "dynamo-mocker", "dynamo-mocker-disagg", "gzip-client-node-vllm"}
    for boundary in run.report["boundaries"].keys() - {"model"}:
        for row, sent in well_ended(run.pairs(boundary)):
            if not sent["stream"] and (capture in known or boundary == "client"):
                assert (row["ttft_s"], row["tpot_s"]) == (None, None)


# Any order, any cut, any way in.

Fed = tuple[bytes, Encoding]
WATCHED: Final = Limits(500, 25, good=0, close=0).slo()


class Watched(NamedTuple):
    """A pipeline and the rows that it has sealed."""

    pipeline: Pipeline
    rows: list[str]

    def result(self) -> tuple[str, list[str]]:
        """All that it says: the report to the byte, the rows without their order."""
        self.pipeline.finish()
        return json.dumps(self.pipeline.report(), sort_keys=True), sorted(self.rows)


@pytest.fixture
def watched(tmp_path: Path) -> Callable[..., Watched]:
    """Makes pipelines as `replay` does, with an SLO to judge by."""
    slo, settings = tmp_path / "slo.yaml", tmp_path / "config.yaml"
    slo.write_text(WATCHED, encoding="utf-8")

    def make(config: str = "", lateness_ns: int = REPLAY_LATENESS_NS) -> Watched:
        settings.write_text(config, encoding="utf-8")
        declared = read_files(Files(config=str(settings) if config else None, slos=(str(slo),)), {})
        rows: list[str] = []

        def sealed(request: Any, judged: Any) -> None:
            rows.extend(json.dumps(row, sort_keys=True) for row in rows_of(request, judged, pipeline.tally))

        pipeline = Pipeline(*declared, replay=True, lateness_ns=lateness_ns, sealed=sealed)
        return Watched(pipeline, rows)

    return make


def fed(watched: Watched, bodies: Iterable[Fed]) -> tuple[str, list[str]]:
    for body, encoding in bodies:
        receipt = watched.pipeline.feed(body, encoding=encoding, transport="file", now_ns=0)
        assert (receipt.rejected, receipt.message) == (0, "")
    return watched.result()


def bodies_of(folder: Path) -> list[Fed]:
    """Each body inflated, in the order of arrival."""
    return [(_inflated(folder, entry), _encoding(entry)) for entry in index_of(folder)]


def _inflated(folder: Path, entry: Mapping[str, Any]) -> bytes:
    body = recorded(folder, entry)
    return gzip.decompress(body) if entry["content_encoding"] == "gzip" else body


def _encoding(entry: Mapping[str, Any]) -> Encoding:
    return "json" if entry["content_type"] == "application/json" else "protobuf"


def orders(folder: Path) -> Iterator[tuple[str, list[Fed]]]:
    bodies = bodies_of(folder)
    yield "reversed", bodies[::-1]
    for seed in range(3):
        shuffled = bodies[:]
        random.Random(seed).shuffle(shuffled)
        yield f"shuffled {seed}", shuffled
    yield "all spans in one body", [(merged(requests_of(folder)), "protobuf")]
    spans: list[Fed] = [(body, "protobuf") for body in singles(requests_of(folder))]
    yield "a body for every span", spans
    random.Random(0).shuffle(spans)
    yield "a body for every span, shuffled", spans


@pytest.mark.parametrize(
    ("capture", "config"),
    [*((capture, "") for capture in CAPTURES), ("skewed-envoy-vllm", ADJUST), ("celery-envoy-vllm", ADJUST)],
)
def test_the_order_and_the_cut_of_the_bodies_change_nothing(
    captures: Path, watched: Callable[..., Watched], capture: str, config: str
) -> None:
    expected = fed(watched(config), bodies_of(captures / capture))
    for name, bodies in orders(captures / capture):
        assert fed(watched(config), bodies) == expected, name


@pytest.mark.parametrize("capture", CAPTURES)
def test_spans_that_are_late_as_may_be_change_nothing(
    captures: Path, watched: Callable[..., Watched], capture: str
) -> None:
    """Requests are then sealed on the way, not at the end of the input, and still know what all of it says."""
    folder = captures / capture
    expected = fed(watched(), bodies_of(folder))
    for seed in range(2):
        late = watched(lateness_ns=LATENESS_NS)
        assert fed(late, [(body, "protobuf") for body in delayed(folder, seed)]) == expected


def delayed(folder: Path, seed: int) -> list[bytes]:
    """A body for every span, each up to `DELAY_NS` behind the newest."""
    delays = random.Random(seed)
    ends = [span.end + delays.randrange(DELAY_NS) for span in spans_of(folder)]
    bodies = list(singles(requests_of(folder)))
    return [bodies[place] for place in sorted(range(len(bodies)), key=ends.__getitem__)]


@pytest.mark.parametrize("capture", CAPTURES)
async def test_real_sockets_change_nothing(captures: Path, watched: Callable[..., Watched], capture: str) -> None:
    folder = captures / capture
    expected = fed(watched(""), bodies_of(folder))
    received = watched("")
    await over_sockets(received.pipeline, folder)
    assert received.result() == expected
    transports = Counter(entry["transport"] for entry in index_of(folder))
    codes = {"grpc": "OK", "http": "200"}
    assert received.pipeline.calls == {(way, codes[way]): count for way, count in transports.items()}


async def over_sockets(pipeline: Pipeline, folder: Path) -> None:
    """Sends every body as it came, to real receivers whose clock says when it came."""
    now_ns = 0

    def clock() -> int:
        return now_ns

    listener = socket.create_server(("127.0.0.1", 0))
    http = HttpReceiver(pipeline, max_body=OVER_SOCKETS_LIMIT, clock=clock)
    rpc = GrpcReceiver(pipeline, max_body=OVER_SOCKETS_LIMIT, clock=clock)
    port = await rpc.start("127.0.0.1", 0)
    await http.start(listener)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/traces"
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel, ClientSession() as session:
            export: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(EXPORT)
            for entry in index_of(folder):
                now_ns = entry["arrived_unix_nano"]
                if entry["transport"] == "grpc":
                    assert await export(recorded(folder, entry)) == b""
                else:
                    await post(session, url, entry, recorded(folder, entry))
    finally:
        await rpc.stop(1)
        await http.stop(1)


async def post(session: ClientSession, url: str, entry: Mapping[str, Any], body: bytes) -> None:
    headers = {"Content-Type": entry["content_type"]}
    if entry["content_encoding"]:
        headers["Content-Encoding"] = entry["content_encoding"]
    async with session.post(url, data=body, headers=headers) as answer:
        assert (answer.status, answer.content_type) == (200, entry["content_type"])


def test_the_captures_hold_every_way_in(captures: Path) -> None:
    ways: Counter[Sequence[str]] = Counter()
    for capture in CAPTURES:
        for entry in index_of(captures / capture):
            ways[entry["transport"], _encoding(entry), entry["content_encoding"] or "plain"] += 1
    assert set(ways) == {
        ("grpc", "protobuf", "plain"),
        ("http", "protobuf", "plain"),
        ("http", "protobuf", "gzip"),
        ("http", "json", "plain"),
        ("http", "json", "gzip"),
    }
