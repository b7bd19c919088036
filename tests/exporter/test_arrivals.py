"""What gateways' logs say of arrivals, first tokens and ends, against the clients' own clocks and the servers' gauges.

Figures are those that an exact reading of the recordings gives (tests/data/logs, tests/data/captures).
"""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import pytest

from exporter.pipeline import Pipeline
from exporter.receive import Signal
from exporter.replay import bodies, feed, rows_of
from exporter.serve import Files, read_files
from tests.exporter.truth import pairs_of, spans_of, ttft_ms

Row = dict[str, Any]
SECOND_NS: Final = 1_000_000_000
LOGS: Final = ("envoy-accesslog-vllm", "envoy-verbose-vllm", "envoy-own-request-id-vllm", "dynamo-mocker",
               "dynamo-mocker-disagg")  # fmt: skip


class Level(NamedTuple):
    """A scrape of a server's gauges."""

    at_ns: int
    requests: int
    """Running and waiting; of Dynamo, all in flight."""


def documents(path: Path) -> list[dict[str, Any]]:
    """JSON lines, gzipped or not."""
    if not path.exists():
        path = path.with_name(path.name + ".gz")
    raw = path.read_bytes()
    return [json.loads(line) for line in (gzip.decompress(raw) if path.suffix == ".gz" else raw).splitlines()]


def traces_of(data: Path, name: str) -> Path:
    return next((data / "captures" / name).glob("traces.pb*"))


def logs_of(data: Path, name: str) -> Path:
    return data / "logs" / name / "logs.pb.gz"


def levels(data: Path, name: str) -> list[Level]:
    found = []
    for scrape in documents(data / "logs" / name / "metrics-series.jsonl"):
        if "got_unix_ns" in scrape:
            number = scrape["running"] + (scrape["waiting"] if name.startswith("envoy") else 0)
            found.append(Level((scrape["asked_unix_ns"] + scrape["got_unix_ns"]) // 2, int(number)))
    return found


class Replay:
    """A recording, replayed: its report and its rows at the gateway."""

    def __init__(self, data: Path, name: str, *files: Path) -> None:
        self.rows: list[Row] = []
        self.pipeline = Pipeline(*read_files(Files(), {}), replay=True, sealed=self._sealed)
        for body in chain.from_iterable(map(bodies, files or (traces_of(data, name), logs_of(data, name)))):
            assert feed(self.pipeline, body) == (True, "")
        self.pipeline.finish()
        self.truth = documents(data / "captures" / name / "truth.jsonl")
        self.report = self.pipeline.report()

    def _sealed(self, request: Any, judged: Any) -> None:
        found = rows_of(request, judged, self.pipeline.tally)
        self.rows += [row for row in found if row["boundary"] == "end_to_end"]

    @property
    def gateway(self) -> dict[str, Any]:
        found: dict[str, Any] = self.report["boundaries"]["end_to_end"]
        return found

    def outcomes(self) -> dict[str, int]:
        return {outcome: n for outcome, n in self.gateway["outcomes"].items() if n}

    def under_way(self, at_ns: int) -> int:
        return sum(row["arrived_unix_nano"] <= at_ns < row["ended_unix_nano"] for row in self.rows)

    def sent_and_not_ended(self, at_ns: int) -> int:
        return sum(sent["send_unix_ns"] <= at_ns < sent["end_unix_ns"] for sent in self.truth)


class Body(NamedTuple):
    at_ns: int
    content: bytes
    signal: Signal


def received(data: Path, name: str) -> Iterator[Body]:
    """Every body of a run in the order in which it came."""
    spans = [body.content for body in bodies(traces_of(data, name))]
    records = [body.content for body in bodies(logs_of(data, name))]
    spans_at = [entry["arrived_unix_nano"] for entry in documents(data / "captures" / name / "index.jsonl")]
    records_at = map(int, gzip.decompress((data / "logs" / name / "received.txt.gz").read_bytes()).split())
    found = [Body(at, content, "traces") for at, content in zip(spans_at, spans, strict=True)]
    found += [Body(at, content, "logs") for at, content in zip(records_at, records, strict=True)]
    yield from sorted(found, key=lambda body: body.at_ns)


def differences(pairs: Iterator[tuple[int, int]]) -> Counter[int]:
    return Counter(ours - theirs for ours, theirs in pairs)


@pytest.mark.parametrize(
    ("name", "evidence", "outcomes"),
    [
        ("envoy-accesslog-vllm", {"log": 191},
         {"ok": 156, "cancelled": 19, "client_error": 10, "timeout": 4, "error": 2}),
        ("envoy-verbose-vllm", {"log": 93}, {"ok": 67, "cancelled": 10, "client_error": 10, "timeout": 4, "error": 2}),
        ("envoy-own-request-id-vllm", {"log": 13}, {"ok": 13}),
        ("dynamo-mocker", {"log": 172, "ended": 4}, {"ok": 149, "cancelled": 17, "client_error": 6, "error": 4}),
        ("dynamo-mocker-disagg", {"log": 164, "ended": 4},
         {"ok": 145, "cancelled": 13, "client_error": 6, "error": 4}),
    ],
)  # fmt: skip
def test_every_request_is_counted_once_sampled_or_not(
    data: Path, name: str, evidence: dict[str, int], outcomes: dict[str, int]
) -> None:
    replay = Replay(data, name)
    assert (replay.gateway["evidence"], replay.outcomes()) == (evidence, outcomes)
    assert replay.gateway["arrivals"] == len(replay.rows) == len(replay.truth)
    assert replay.gateway["in_flight"] == 0


def test_the_first_token_at_the_gateway_is_the_clients(data: Path) -> None:
    replay = Replay(data, "envoy-accesslog-vllm")
    spans = spans_of(data / "captures" / "envoy-accesslog-vllm")
    streams = [sent for sent in replay.truth if sent["outcome"] == "ok" and sent["status"] == 200 and sent["stream"]]
    pairs = [pair for pair in pairs_of(replay.rows, replay.truth, spans) if pair.sent in streams]
    ratios = [ttft_ms(sent) / (row["ttft_s"] * 1000) for row, sent in pairs]
    assert len(streams) == len(ratios) == 126
    assert 1 <= median(ratios) <= 1.01
    assert {row["first_token_from"] for row in replay.rows if row["ttft_s"] is not None} == {"byte"}


def test_headers_are_not_taken_for_a_token(data: Path) -> None:
    logged = Replay(data, "envoy-verbose-vllm")
    assert logged.gateway["metrics"]["ttft"]["count"] == 52 + 6  # well-ended streams, and cancelled after a token
    silent = Pipeline(*read_files(Files(), {}), replay=True)
    for body in bodies(traces_of(data, "envoy-verbose-vllm")):
        if b"llm_request" not in body.content:
            feed(silent, body)
    silent.finish()
    gateway = silent.report()["boundaries"]["end_to_end"]
    assert (gateway["arrivals"], gateway["metrics"]["ttft"]["count"]) == (92, 0)


def test_callers_with_their_own_ids_lose_their_spans_and_are_counted_all_the_same(data: Path) -> None:
    replay = Replay(data, "envoy-own-request-id-vllm")
    assert replay.report["joined"] == {"partial": 6, "whole": 7}
    assert all(None not in (row["ttft_s"], row["completion_s"]) for row in replay.rows)
    assert sum(row["output_tokens"] is None for row in replay.rows) == 6


@pytest.mark.parametrize("name", ["dynamo-mocker", "dynamo-mocker-disagg"])
def test_where_no_span_has_a_first_token_there_is_none(data: Path, name: str) -> None:
    with_logs, without = Replay(data, name), Replay(data, name, traces_of(data, name))
    for metric in ("ttft", "tpot"):
        assert with_logs.gateway["metrics"][metric]["count"] == without.gateway["metrics"][metric]["count"]
    first = {row["first_token_unix_nano"] for row in with_logs.rows}
    assert not first & {row["ended_unix_nano"] for row in with_logs.rows} - {None}


@pytest.mark.parametrize(
    ("name", "truth", "gauges"),
    [
        ("envoy-accesslog-vllm", {0: 123, -1: 4}, 120),
        ("dynamo-mocker", {0: 103, -1: 1}, 104),
        ("dynamo-mocker-disagg", {0: 69}, 69),
    ],
)
def test_arrivals_less_completions_are_what_clients_and_gauges_say(
    data: Path, name: str, truth: dict[int, int], gauges: int
) -> None:
    replay, scrapes = Replay(data, name), levels(data, name)
    assert differences((replay.under_way(at), replay.sent_and_not_ended(at)) for at, _ in scrapes) == truth
    near = differences((replay.under_way(at), number) for at, number in scrapes)
    assert sum(count for difference, count in near.items() if abs(difference) <= 1) == gauges
    known = differences((sum(1 for _ in replay.pipeline.tally.flights.at(at)), number) for at, number in scrapes)
    assert known == near


class Live:
    """A run as it came, with a look at each scrape."""

    def __init__(self, data: Path, name: str) -> None:
        self.pipeline = Pipeline(*read_files(Files(), {}))
        self.levels: list[Level] = []
        scrapes = [level.at_ns for level in levels(data, name)]
        tick_ns = scrapes[0]
        for body in received(data, name):
            while scrapes and scrapes[0] < body.at_ns:
                self.levels.append(Level(scrapes[0], sum(1 for _ in self.pipeline.tally.flights)))
                del scrapes[0]
            while tick_ns < body.at_ns:
                self.tick(tick_ns)
                tick_ns += SECOND_NS
            self.pipeline.feed(
                body.content, encoding="protobuf", transport="grpc", now_ns=body.at_ns, signal=body.signal
            )
        self.tick(body.at_ns + 60 * SECOND_NS)
        self.levels += [Level(at_ns, 0) for at_ns in scrapes]

    def tick(self, now_ns: int) -> None:
        self.pipeline.tick(now_ns)
        for totals in self.pipeline.tally.totals.values():
            assert sum(totals.arrivals.values()) == sum(totals.outcomes.values()) + totals.in_flight


def test_by_receipt_envoys_logs_are_late_at_one_scrape(data: Path) -> None:
    live, replay = Live(data, "envoy-accesslog-vllm"), Replay(data, "envoy-accesslog-vllm")
    off = [at for at, number in live.levels if abs(number - replay.sent_and_not_ended(at)) > 1]
    assert [round((at - live.levels[0].at_ns) / SECOND_NS) for at in off] == [43]


@pytest.mark.parametrize("name", LOGS[:1] + LOGS[3:])
def test_live_and_replay_count_alike(data: Path, name: str) -> None:
    live, replay = Live(data, name).pipeline.report(), Replay(data, name).report
    for boundary, counts in replay["boundaries"].items():
        for key in ("arrivals", "evidence", "in_flight", "outcomes"):
            assert counts[key] == live["boundaries"][boundary][key]


@pytest.mark.parametrize("name", LOGS)
def test_spans_first_or_logs_first_give_the_same_report(data: Path, name: str) -> None:
    one, other = traces_of(data, name), logs_of(data, name)
    assert Replay(data, name, one, other).report == Replay(data, name, other, one).report
