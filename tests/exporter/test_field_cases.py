"""Faults that people met doing this job, each as a small input with the right value worked out by hand.

A case stands for a kind of fault: K1 what is a first token, K2 the divisor of the time per token, K3 the end of the
tokens, K4 who is counted, K5 clocks, K6 joining, K7 OTLP on the wire, K8 percentiles, K9 windows that run out, K10
verdicts and units, K11 exposition, K12 bounds. Each docstring names the case and where somebody reported it.

Times are milliseconds after T0. A percentile may read up to 0.1 % high, as its histogram has three digits.
"""

import gzip
import json
import re
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from aiohttp import ClientSession
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from exporter.config import Address, Receive, Settings, Web
from exporter.histogram import LIMIT_NS
from exporter.profile import built_in
from exporter.receive.http import HttpReceiver
from exporter.serve import CannotListen, Declared, Exporter
from slo_rules.units import MINUTE_NS
from slo_rules.vocabulary import OUTCOMES
from tests.exporter.live import BROKER, EDGE, SERVER, Live, Scrape, slo, slos
from tests.exporter.spans import Attributes, Sent, body, chunks, envoy, event, json_body, ns, span, vllm

pytestmark = pytest.mark.both_builds

PROTOBUF, JSON = "application/x-protobuf", "application/json"
HOUR_MS = 3_600_000


def edge(
    start: float, end: float, stream: str = "", *, tokens: int | None = None, events: Sequence[Any] = (),
    attributes: Attributes | None = None, parent: Sent | None = None, resource: Attributes | None = None,
    failed: bool = False,
) -> Sent:  # fmt: skip
    """A request at the gateway of `live.EDGE`."""
    given = {"url.path": "/v1/chat/completions", "http.response.status_code": 200, **(attributes or {})}
    if tokens is not None:
        given["tokens"] = tokens
    return span("chat", scope="edge", start=start, end=end, attributes=given, events=[*chunks(stream), *events],
                parent=parent, resource=resource, failed=failed)  # fmt: skip


def server(
    start: float, end: float, stream: str = "", *, tokens: int | None = None, prompt: int | None = None,
    events: Sequence[Any] = (), parent: Sent | None = None, resource: Attributes | None = None, failed: bool = False,
) -> Sent:  # fmt: skip
    """A request at the model server of `live.SERVER`."""
    given = {key: value for key, value in (("tokens", tokens), ("prompt", prompt)) if value is not None}
    return span("generate", scope="token-server", start=start, end=end, attributes=given,
                events=[*chunks(stream), *events], parent=parent, resource=resource, failed=failed)  # fmt: skip


def run(kind: str, first: int, step: int, number: int) -> str:
    """Chunks of one token each."""
    return " ".join(f"{kind}@{first + step * index}(1)" for index in range(number))


def ms(value: float) -> Any:
    """Seconds of this many milliseconds, as a percentile may read them."""
    return pytest.approx(value / 1000, rel=1e-3)


def is_exactly(metric: dict[str, Any], count: int, value: float | None) -> None:
    """So many samples, all of the value; their mean and maximum are exact."""
    assert metric["count"] == count
    expected = None if value is None else pytest.approx(value / 1000, abs=1e-9)
    assert metric["mean"] == expected
    assert metric["max"] == expected


# K1: what counts as the first token.


@pytest.mark.parametrize(("emitter", "boundary"), [(edge, "end_to_end"), (server, "model")])
def test_a_frame_without_a_token_is_no_first_token(emitter: Any, boundary: str) -> None:
    """F01 (vllm-project/vllm#15106): a role or keepalive frame taken for a token."""
    live = Live()
    stream = "role@40(0) keepalive@60(0) content@900(1) content@920(1) content@940(1) usage@950(0)"
    live.feed(emitter(0, 960, stream, tokens=3))
    metrics = live.boundary(boundary)["metrics"]
    is_exactly(metrics["ttft"], 1, 900)
    is_exactly(metrics["tpot"], 1, 20)
    is_exactly(metrics["completion"], 1, 960)


@pytest.mark.parametrize("answer", ["content", "tool"])
def test_the_first_token_may_come_in_any_channel(answer: str) -> None:
    """F02 (vllm-project/guidellm#737): the first token looked for in the answer's channel only."""
    live = Live()
    live.feed(edge(0, 1410, f"{run('reasoning', 300, 10, 100)} {run(answer, 1300, 10, 11)}", tokens=111))
    metrics = live.boundary("end_to_end")["metrics"]
    is_exactly(metrics["ttft"], 1, 300)
    is_exactly(metrics["tpot"], 1, 10)


def test_an_answer_of_tool_calls_alone_has_a_first_token() -> None:
    """F02: the same kind without any other channel."""
    live = Live()
    live.feed(edge(0, 520, f"role@10(0) {run('tool', 300, 10, 21)}", tokens=21))
    is_exactly(live.boundary("end_to_end")["metrics"]["ttft"], 1, 300)


def test_a_missing_first_token_is_never_filled_with_the_end() -> None:
    """F04 (BerriAI/litellm#25598): without a first token of its own and none to derive it from, there is none."""
    live = Live()
    live.feed(edge(0, 2000, tokens=11, attributes={"stream": True}))
    metrics = live.boundary("end_to_end")["metrics"]
    is_exactly(metrics["ttft"], 0, None)
    is_exactly(metrics["tpot"], 0, None)
    is_exactly(metrics["completion"], 1, 2000)


def test_a_first_token_derived_from_the_model_is_labelled_so() -> None:
    """F04: the server's own values, and at the gateway the server's first token on the gateway's start."""
    live = Live()
    gateway = edge(0, 2000, tokens=11, attributes={"stream": True})
    live.feed(gateway, vllm(100, 1990, ttft=400, output=11, parent=gateway))
    model, outer = (live.boundary(name)["metrics"] for name in ("model", "end_to_end"))
    is_exactly(model["ttft"], 1, 400)
    is_exactly(model["completion"], 1, 1890)
    is_exactly(model["tpot"], 1, 149)
    is_exactly(outer["ttft"], 1, 500)
    is_exactly(outer["completion"], 1, 2000)
    counts = [
        (sample.labels["first_token_from"], sample.value)
        for sample in live.scrape(2000).where("inference_ttft_seconds_count", boundary="end_to_end")
    ]
    assert counts == [("model", 1)]


def test_an_answer_that_is_no_stream_has_no_first_token() -> None:
    """F05 (triton-inference-server/server#8063): non-streams put into TTFT with their whole duration."""
    live = Live()
    streams = [edge(0, 1000, f"content@{at}(1) content@990(9)", tokens=10, attributes={"stream": True})
               for at in (100, 110, 120, 130)]  # fmt: skip
    live.feed(*streams, edge(0, 20_000, "content@19990(10)", tokens=10, attributes={"stream": False}))
    metrics = live.boundary("end_to_end")["metrics"]
    assert (metrics["ttft"]["count"], metrics["ttft"]["p95"]) == (4, ms(130))
    completion = metrics["completion"]
    assert (completion["count"], completion["p50"], completion["p95"]) == (5, ms(1000), ms(20_000))
    assert metrics["tpot"]["count"] == 4


# K2: the divisor of the time per token. K3: when the tokens end.


def test_time_per_token_is_the_span_of_the_tokens_by_one_less_than_their_number() -> None:
    """F08 (envoyproxy/ai-gateway#1170): a wrong numerator, or n instead of n - 1."""
    live = Live()
    live.feed(edge(0, 2510, run("content", 500, 20, 101), tokens=101))
    is_exactly(live.boundary("end_to_end")["metrics"]["tpot"], 1, 20)


@pytest.mark.parametrize(("emitter", "boundary"), [(edge, "end_to_end"), (server, "model")])
def test_answers_of_one_token_or_none_have_no_time_per_token_and_are_judged_on_the_rest(
    emitter: Any, boundary: str
) -> None:
    """F09 (intel/ipex-llm#12271): N of 0 or 1 as NaN, zero or a division error."""
    live = Live(slo(f"ttft {boundary} 95 300ms 5m", f"tpot {boundary} 95 50ms 5m"))
    live.feed(
        emitter(0, 260, "content@250(1)", tokens=1),
        emitter(0, 90, "done@80(0)", tokens=0),
        emitter(0, 240, "content@200(1) content@230(1)", tokens=2),
    )
    found = live.boundary(boundary)
    assert found["arrivals"] == 3
    assert found["metrics"]["ttft"]["count"] == 2
    assert found["metrics"]["ttft"]["mean"] == pytest.approx(0.225)
    is_exactly(found["metrics"]["tpot"], 1, 30)
    assert found["metrics"]["completion"]["count"] == 3
    # The empty answer has no value that a limit could be held against.
    assert live.report()["slos"]["chat"]["good"] == 3
    values = [sample.value for sample in live.scrape(1000).samples]
    assert all(value == value and abs(value) != float("inf") for value in values)


def test_a_chunk_is_not_a_token() -> None:
    """F10 (vllm-project/vllm#42661): gaps between chunks taken for gaps between tokens."""
    live = Live()
    live.feed(server(0, 225, "content@100(1) content@140(4) content@180(4) content@220(1)", tokens=10))
    is_exactly(live.boundary("model")["metrics"]["tpot"], 1, 120 / 9)


def test_the_frame_that_ends_the_stream_is_not_its_last_token() -> None:
    """F12 (tugot17/tokenomics#16): a usage or done frame that ends the token clock."""
    live = Live()
    live.feed(edge(0, 905, "content@100(1) content@120(1) content@140(1) usage@900(0) done@901(0)", tokens=3))
    metrics = live.boundary("end_to_end")["metrics"]
    is_exactly(metrics["tpot"], 1, 20)
    is_exactly(metrics["completion"], 1, 905)


# K4: which requests are counted, and as what.


def test_aborted_requests_are_accounted_for() -> None:
    """F14 (vllm-project/vllm#31503): requests that the client gave up vanish. Completions are all that ended."""
    live = Live()
    spans = [envoy(10 * index + 1, 10 * index + 1001) for index in range(6)]
    spans += [envoy(20_000 + index, 22_000 + index, status=0, flags="DC") for index in range(3)]
    spans += [envoy(59_000, 59_500, status=500)]
    live.feed(*spans)
    report = live.report(60_000)
    found, window = report["boundaries"]["end_to_end"], report["windows"]["1m"]["boundaries"]["end_to_end"]
    assert (found["arrivals"], found["in_flight"]) == (10, 0)
    assert {outcome: count for outcome, count in found["outcomes"].items() if count} == {
        "ok": 6, "cancelled": 3, "error": 1,
    }  # fmt: skip
    assert window["arrivals_per_second"] == pytest.approx(10 / 60)
    assert window["completions_per_second"] == pytest.approx(10 / 60)
    assert window["outcomes"]["ok"] / 60 == pytest.approx(0.1)
    assert (window["metrics"]["completion"]["count"], window["metrics"]["completion"]["p95"]) == (6, ms(1000))


def error_in_the_stream(start: float) -> list[Sent]:
    return [edge(start, start + 5, events=[event("chunk", start + 4, {"kind": "error", "error": "overloaded"})])]


def error_of_the_span(start: float) -> list[Sent]:
    return [edge(start, start + 5, failed=True)]


def error_of_the_server(start: float) -> list[Sent]:
    gateway = edge(start, start + 5)
    return [gateway, server(start + 1, start + 4, parent=gateway, failed=True)]


@pytest.mark.parametrize("error_behind_200", [error_in_the_stream, error_of_the_span, error_of_the_server])
def test_errors_are_in_the_denominator_and_not_among_the_latencies(error_behind_200: Any) -> None:
    """F15 (ai-dynamo/aiperf#688): failures ranked among the answers, or dropped from the ratio."""
    live = Live(slo("completion end_to_end 95 1100ms 1m"))
    answers = []
    for index in range(18):
        gateway = edge(index, index + 1000)
        answers += [gateway, server(index + 1, index + 999, parent=gateway)]
    live.feed(*answers, edge(100, 105, attributes={"http.response.status_code": 500}), *error_behind_200(200))
    report = live.report(60_000)
    completion = report["boundaries"]["end_to_end"]["metrics"]["completion"]
    is_exactly(completion, 18, 1000)
    assert completion["p50"] == ms(1000)
    chat = report["slos"]["chat"]
    assert (chat["eligible"], chat["good"], chat["attainment"]) == (20, 18, pytest.approx(0.9))
    assert chat["windows"]["1m"]["goodput_requests_per_second"] == pytest.approx(0.3)


IDS: list[list[Attributes]] = [
    [{}] * 4,
    [{"gen_ai.request.id": "chatcmpl-abc"}] * 4,
    [{"gen_ai.request.id": f"{index}_chatcmpl-abc"} for index in range(4)],  # vLLM 0.10.2 to 0.13
]


@pytest.mark.parametrize("ids", IDS, ids=["no id", "one id", "numbered ids"])
@pytest.mark.parametrize("with_gateway", [True, False])
def test_the_sequences_of_one_request_are_one_request(ids: list[Attributes], with_gateway: bool) -> None:
    """F16 (vllm-project/vllm#56361): one request counted once for each of its choices, its prompt as often."""
    live = Live()
    gateway = edge(0, 1310, "content@205(1)", attributes={"stream": True})
    sequences = [
        vllm(0, 1000 + 100 * index, ttft=200 + 10 * index, prompt=100, output=10 * (index + 1), parent=gateway,
             attributes=ids[index])
        for index in range(4)
    ]  # fmt: skip
    live.feed(*([gateway] if with_gateway else []), *sequences)
    model = live.boundary("model")
    assert model["arrivals"] == 1
    is_exactly(model["metrics"]["ttft"], 1, 200)
    is_exactly(model["metrics"]["completion"], 1, 1300)
    assert (model["tokens"]["input"], model["tokens"]["output"]) == (100, 100)
    if with_gateway:
        outer = live.boundary("end_to_end")
        assert outer["arrivals"] == 1
        is_exactly(outer["metrics"]["ttft"], 1, 205)
        is_exactly(outer["metrics"]["completion"], 1, 1310)


def test_each_prompt_of_a_list_is_counted_once() -> None:
    """F16, the other way round: the prompts of one call differ, so their tokens add up; two calls stay two."""
    live = Live()
    gateway = edge(0, 1310)
    prompts = [vllm(0, 1000, prompt=100 + index, output=1, parent=gateway,
                    attributes={"gen_ai.request.id": f"cmpl-abc-{index}"}) for index in range(2)]  # fmt: skip
    live.feed(gateway, *prompts)
    assert live.boundary("model")["arrivals"] == 1
    assert live.boundary("model")["tokens"]["input"] == 201


def test_requests_whose_own_ids_are_numbered_stay_apart() -> None:
    """F16, the other way round: vLLM takes the id that a client chose, and clients number their requests."""
    live = Live()
    live.feed(*(vllm(0, 1000, prompt=100, output=1, attributes={"gen_ai.request.id": f"chatcmpl-job-{index}"})
                for index in range(3)))  # fmt: skip
    assert live.boundary("model")["arrivals"] == 3
    assert live.boundary("model")["tokens"]["input"] == 300


def test_a_mark_that_comes_again_does_not_replace_the_first() -> None:
    """F17 (inference-sim/inference-sim#1122): after a preemption the later marks overwrite the first."""
    live = Live()
    marks = [event("queued", 0), event("scheduled", 50), event("preempted", 250), event("queued", 250),
             event("scheduled", 1250)]  # fmt: skip
    stream = f"{run('content', 200, 20, 3)} first@1400(0) {run('content', 1400, 20, 2)}"
    live.feed(server(0, 1425, stream, tokens=5, events=marks))
    model = live.boundary("model")
    is_exactly(model["phases"]["engine_queue"], 1, 50)
    is_exactly(model["metrics"]["ttft"], 1, 200)
    is_exactly(model["metrics"]["tpot"], 1, 305)
    is_exactly(model["metrics"]["completion"], 1, 1425)


@pytest.mark.parametrize("relayed", ["", "content@3600(1) content@4990(139)"])
def test_attempts_are_no_requests_and_the_wait_for_a_failed_one_counts(relayed: str) -> None:
    """F18 (astaxie/TokenHub#120): each attempt counted as a request, or TTFT from the last attempt on."""
    live = Live()
    gateway = edge(0, 5010, relayed, tokens=140)
    failed = server(10, 3000, parent=gateway, failed=True)
    answered = server(3100, 5000, "content@3600(1) content@4990(139)", tokens=140, parent=gateway)
    live.feed(gateway, failed, answered)
    outer, model = live.boundary("end_to_end"), live.boundary("model")
    assert (outer["arrivals"], outer["outcomes"]["ok"], outer["outcomes"]["error"]) == (1, 1, 0)
    is_exactly(outer["metrics"]["ttft"], 1, 3600)
    assert (model["arrivals"], model["outcomes"]["ok"], model["outcomes"]["error"]) == (2, 1, 1)
    is_exactly(model["metrics"]["ttft"], 1, 500)
    is_exactly(model["metrics"]["tpot"], 1, 10)


def test_a_batch_that_is_sent_again_counts_once() -> None:
    """F19 (open-telemetry/opentelemetry-collector#11056): a third copy comes 20 s later, after the join is over."""
    live = Live(grace_ms=10_000)
    content = body(*(edge(index, index + 100, "content@50(1)") for index in range(5)))
    for at, duplicates in ((200, 0), (200, 5), (20_200, 10)):
        live.feed_body(content, at=at)
        live.tick(at + 15_000)
        found = live.boundary("end_to_end")
        assert (found["arrivals"], found["outcomes"]["ok"], found["metrics"]["ttft"]["count"]) == (5, 5, 5)
        assert live.report()["spans"].get("duplicate", 0) == duplicates
    assert live.scrape(40_000).total("goodput_exporter_spans_total", fate="duplicate") == 10


# K5: clocks.

GATEWAY_HOST, SERVER_HOST = {"host.name": "a"}, {"host.name": "b"}


def test_a_hop_between_two_clocks_is_not_measured_by_subtraction() -> None:
    """F22 (xLLM-AI/xllm#1914): the server's clock is 300 ms behind; no value mixes the two clocks."""
    live = Live()
    gateway = edge(0, 1000, "content@500(1) content@990(10)", tokens=11, resource=GATEWAY_HOST,
                   events=[event("dispatched", 1)])  # fmt: skip
    live.feed(gateway, server(-250, 690, "content@-50(1) content@680(10)", tokens=11, parent=gateway,
                              resource=SERVER_HOST), at=1000)  # fmt: skip
    outer, model = live.boundary("end_to_end"), live.boundary("model")
    is_exactly(outer["metrics"]["ttft"], 1, 500)
    is_exactly(outer["metrics"]["completion"], 1, 1000)
    is_exactly(model["metrics"]["ttft"], 1, 200)
    is_exactly(model["metrics"]["completion"], 1, 940)
    assert not {"network", "queue"} & outer["phases"].keys()


def test_a_difference_that_the_clocks_make_negative_is_no_sample_and_is_counted() -> None:
    """F22: a first token that could only be had across the clocks is not had."""
    live = Live()
    gateway = edge(0, 1000, resource=GATEWAY_HOST)
    live.feed(gateway, server(-250, 690, "content@-50(1) content@680(10)", tokens=11, parent=gateway,
                              resource=SERVER_HOST), at=1000)  # fmt: skip
    is_exactly(live.boundary("end_to_end")["metrics"]["ttft"], 0, None)
    is_exactly(live.boundary("model")["metrics"]["ttft"], 1, 200)
    assert live.report()["negative_intervals"] == 1


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
def test_a_span_that_ends_before_it_starts_is_refused_and_the_others_are_not(encoding: Any) -> None:
    """F23 (SigNoz/signoz-otel-collector#814): a duration of centuries takes over max, mean and p99."""
    live = Live()
    unset = edge(0, 100)
    unset.message.ClearField("end_time_unix_nano")
    receipt = live.feed(edge(0, 100), edge(100, 100 - 1e-6), unset, at=200, encoding=encoding)
    assert (receipt.accepted, receipt.rejected) == (1, 2)
    is_exactly(live.boundary("end_to_end")["metrics"]["completion"], 1, 100)
    assert live.report()["spans"]["malformed"] == 2
    scrape = live.scrape(1000)
    assert scrape.total("inference_completion_seconds_sum") == pytest.approx(0.1)
    assert scrape.total("goodput_exporter_spans_total", fate="malformed") == 2


# K6: joining spans into requests.


def test_late_spans_are_placed_by_their_own_time_and_future_ones_refused_each_by_name() -> None:
    """F24 (grafana/tempo#1537): slack 30 s. A span that is 35 s late is counted as late and added."""
    live = Live(delay_ms=30_000)
    live.feed(*(edge(end - 1000, end) for end in (565_000, 575_000, 640_000)), at=600_000)
    fates = {
        sample.labels["fate"]: sample.value for sample in live.scrape(600_000).where("goodput_exporter_spans_total")
    }
    assert {fate: count for fate, count in fates.items() if count} == {"used": 1, "late": 1, "future": 1}
    window = live.report(630_000)["windows"]["1m"]
    assert (window["from_unix_nano"], window["to_unix_nano"]) == (ns(540_000), ns(600_000))
    assert window["boundaries"]["end_to_end"]["outcomes"]["ok"] == 2
    # 10 s on the older of them has left the window, which a span counted as of its arrival would not have.
    for at, left in ((655_000, 1), (665_000, 0)):
        window = live.report(at)["windows"]["1m"]
        assert window["boundaries"]["end_to_end"]["outcomes"]["ok"] == left


WAITING = """
apiVersion: goodput/v1
kind: SourceProfile
metadata: {name: wait}
spec: {role: queue, match: [{scope: scheduler}], stamps: {enqueued: start, dequeued: end}}
"""
"""A queue that tells of each wait when it is over."""


@pytest.mark.parametrize(("scope", "kind"), [("broker", "producer"), ("scheduler", "internal")])
def test_a_request_longer_than_the_wait_for_its_spans_is_counted_once_and_whole(scope: str, kind: str) -> None:
    """F25 (open-telemetry/opentelemetry-collector-contrib#11888): the slowest requests drop out of the percentiles."""
    live = Live(grace_ms=5000, profile_files=(EDGE, SERVER, BROKER, WAITING))
    for index in range(9):
        gateway = edge(index, index + 1000)
        live.feed(gateway, server(index + 10, index + 990, parent=gateway))
    slow = edge(0, 40_000)
    parts = [
        (1000, span("wait", scope=scope, kind=kind, start=10, end=1000, parent=slow)),
        (39_000, server(1000, 39_000, parent=slow)),
        (40_000, slow),
    ]
    for second in range(1, 60):
        for at, part in parts:
            if at == second * 1000:
                live.feed(part, at=at)
        live.tick(second * 1000)
    outer, model = live.boundary("end_to_end"), live.boundary("model")
    assert (outer["arrivals"], outer["in_flight"], model["arrivals"]) == (10, 0, 10)
    completion = outer["metrics"]["completion"]
    assert (completion["count"], completion["p95"]) == (10, ms(40_000))


def test_a_wait_beside_the_work_is_where_the_service_begins() -> None:
    """F25: a queue that tells of the wait only, as a sibling of the model server's span."""
    live = Live(profile_files=(EDGE, SERVER, WAITING))
    gateway = edge(0, 5000)
    wait = span("wait", scope="scheduler", kind="internal", start=10, end=1000, parent=gateway)
    live.feed(gateway, wait, server(1005, 4900, parent=gateway))
    service = live.boundary("service")
    assert (service["arrivals"], service["outcomes"]["ok"]) == (1, 1)
    is_exactly(service["metrics"]["completion"], 1, 4890)
    is_exactly(service["phases"]["queue"], 1, 990)


def test_a_gateway_that_calls_a_model_and_another_gateway_is_the_service_of_the_first() -> None:
    """F26: each engine has an innermost gateway, also where that holds another one."""
    live = Live()
    outer = edge(0, 1000)
    inner = edge(500, 900, parent=outer)
    live.feed(outer, server(10, 400, parent=outer), inner, server(510, 890, parent=inner))
    service = live.boundary("service")
    assert (service["arrivals"], service["outcomes"]["ok"]) == (2, 2)
    assert service["metrics"]["completion"]["mean"] == pytest.approx((0.400 + 0.390) / 2)


@pytest.mark.parametrize("second_start", [2000, 600])
def test_several_requests_of_one_trace_are_several_requests(second_start: int) -> None:
    """F26 (BerriAI/litellm#34537): the trace of an agent taken for one request."""
    live = Live()
    app = span("agent", kind="internal", start=0, end=5000)
    first = edge(100, 1100, "content@400(1)", parent=app)
    second = edge(second_start, second_start + 500, f"content@{second_start + 150}(1)", parent=app)
    below = [server(150, 1090, parent=first, prompt=1),
             server(second_start + 50, second_start + 490, parent=second, prompt=2)]  # fmt: skip
    joined: dict[float, list[int | None]] = {}
    live.pipeline.sealed = lambda request, _: joined.update(
        {row.completion.ns / 1e6: [row.input for row in request.boundaries]
         for row in request.boundaries if row.boundary == "end_to_end" and row.completion}
    )  # fmt: skip
    live.feed(app, first, *below, second)
    outer = live.boundary("end_to_end")
    assert outer["arrivals"] == 2
    assert joined == {1000: [1, 1, 1], 500: [2, 2, 2]}
    ttft = outer["metrics"]["ttft"]
    assert (ttft["count"], ttft["max"], ttft["mean"]) == (2, 0.3, 0.225)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_consumer_that_only_links_to_its_producer_is_part_of_the_same_request(order: tuple[int, int]) -> None:
    """F28 (open-telemetry/opentelemetry-python-contrib#1362): a request that falls apart in two traces."""
    live = Live(grace_ms=5000)
    gateway = edge(0, 2000)
    publish = span("publish", scope="broker", kind="producer", start=10, end=20, parent=gateway)
    consume = span("consume", scope="broker", kind="consumer", start=1500, end=1990, links=[publish])
    generate = server(1510, 1980, "content@1700(1)", parent=consume)
    halves = ([gateway, publish], [consume, generate])
    for half in order:
        live.feed(*halves[half], at=2000)
    live.tick(10_000)
    outer = live.boundary("end_to_end")
    assert (outer["arrivals"], outer["in_flight"], outer["outcomes"]["ok"]) == (1, 0, 1)
    is_exactly(outer["phases"]["queue"], 1, 1480)
    is_exactly(live.boundary("model")["metrics"]["ttft"], 1, 190)


# K7: OTLP on the wire.


@asynccontextmanager
async def listening(live: Live, at: float) -> AsyncIterator[str]:
    """The real receiver in front of a pipeline; what comes comes at `at`."""
    receiver = HttpReceiver(live.pipeline, max_body=20 * 2**20, clock=lambda: ns(at))
    listener = socket.create_server(("127.0.0.1", 0))
    await receiver.start(listener)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1/traces"
    finally:
        await receiver.stop(grace_s=1)


class Answer(NamedTuple):
    """What the receiver said."""

    status: int
    content_type: str
    content: bytes


async def posted(url: str, content: bytes, headers: dict[str, str]) -> Answer:
    """Send one body over a connection of its own."""
    async with ClientSession() as session, session.post(url, data=content, headers=headers) as answer:
        return Answer(answer.status, answer.content_type, await answer.read())


async def test_ids_are_hex_in_json_and_join_with_the_bytes_of_protobuf() -> None:
    """F29 (open-telemetry/opentelemetry-collector#8720): ids in base64, or hex of one case only."""
    trace = bytes.fromhex("5b8efff798038103d269b633813fc60c")
    gateway = span("chat", scope="edge", start=0, end=100, trace=trace, attributes={"url.path": "/v1/completions"})
    lower, upper = json_body(gateway), json_body(gateway).replace(trace.hex().encode(), trace.hex().upper().encode())
    stray = json_body(edge(0, 100))
    base64 = re.sub(rb'"traceId": "\w+"', b'"traceId": "W47/95gDgQPSabYzgT/GDA=="', stray)
    assert lower != upper
    assert base64 != stray
    live = Live(grace_ms=5000)
    live.feed_body(upper, at=100, encoding="json")
    live.feed(server(10, 90, parent=gateway), at=100)
    async with listening(live, 100) as url:
        answer = await posted(url, base64, {"Content-Type": JSON})
    assert (answer.status, answer.content_type) == (200, JSON)
    assert int(json.loads(answer.content)["partialSuccess"]["rejectedSpans"]) == 1
    live.tick(10_000)
    assert live.boundary("end_to_end")["arrivals"] == 1
    assert live.boundary("model")["arrivals"] == 1
    assert live.report()["joined"] == {"whole": 1}


BODIES = [
    pytest.param("application/json; charset=utf-8", gzip.compress(json_body(edge(0, 100))), 200, id="gzip json"),
    pytest.param(PROTOBUF, gzip.compress(body(edge(0, 100))), 200, id="gzip protobuf"),
    pytest.param(PROTOBUF, gzip.compress(body(edge(0, 100)))[:-20], 400, id="truncated gzip"),
    pytest.param(JSON, gzip.compress(json_body(edge(0, 100)))[:-20], 400, id="truncated gzip json"),
    pytest.param(PROTOBUF, gzip.compress(b"\x0a\xff"), 400, id="not OTLP"),
    pytest.param("text/plain", gzip.compress(body(edge(0, 100))), 415, id="text"),
]


@pytest.mark.parametrize(("content_type", "content", "status"), BODIES)
async def test_compressed_bodies_are_read_and_bad_ones_answered_in_kind(
    content_type: str, content: bytes, status: int
) -> None:
    """F31 (open-telemetry/opentelemetry-collector#1344): 500 for what the sender did wrong is sent again for ever."""
    live = Live()
    headers = {"Content-Type": content_type, "Content-Encoding": "gzip"}
    async with listening(live, 100) as url:
        answer = await posted(url, content, headers)
    assert answer.status == status
    if status != 415:
        assert answer.content_type == content_type.partition(";")[0]
    received = live.scrape(1000).total("goodput_exporter_spans_received_total", transport="http")
    assert received == (1 if status == 200 else 0)


async def test_one_bad_span_does_not_cost_the_others_and_one_bad_value_not_its_span() -> None:
    """F32 (GreptimeTeam/greptimedb#7875): all-or-nothing batches lose good spans."""
    live = Live()
    spans = [vllm(index, index + 500, ttft=100, output=21) for index in range(10)]
    spans[3].message.trace_id = spans[3].message.trace_id[:15]
    spans[6] = vllm(6, 506, ttft=100, output="abc")
    async with listening(live, 1000) as url:
        answer = await posted(url, body(*spans), {"Content-Type": PROTOBUF})
    assert answer.status == 200
    reply = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert reply.rejected_spans == 1
    assert "span 3" in reply.error_message
    model = live.boundary("model")
    assert (model["outcomes"]["ok"], model["metrics"]["completion"]["count"]) == (9, 9)
    assert (model["metrics"]["ttft"]["count"], model["metrics"]["tpot"]["count"]) == (9, 8)
    assert sum(live.report()["attributes_dropped"].values()) == 1


def test_old_and_new_names_of_an_attribute_are_one_attribute() -> None:
    """F33 (open-telemetry/semantic-conventions#1200): half of the fleet without a time per token."""
    live = Live()
    old, new = {"gen_ai.usage.completion_tokens": 21}, {"gen_ai.usage.output_tokens": 21}
    live.feed(*(vllm(0, 500, ttft=100, attributes=names) for names in (old, new, old | new)))
    model = live.boundary("model")
    is_exactly(model["metrics"]["tpot"], 3, 20)
    assert model["tokens"]["output"] == 63


# K8: percentiles.


@pytest.mark.parametrize(("samples", "percentile"), [(60, 99), (19, 95)])
def test_a_percentile_is_a_value_that_so_many_percent_reach(samples: int, percentile: int) -> None:
    """F34 (HdrHistogram/HdrHistogram_py#14): the rank rounded half up answers 59 and 18."""
    live = Live(slo(f"completion end_to_end {percentile} 1s 5m"))
    live.feed(*(edge(0, end) for end in range(1, samples + 1)))
    report = live.report(10_000)
    assert report["boundaries"]["end_to_end"]["metrics"]["completion"][f"p{percentile}"] == ms(samples)
    window = report["windows"]["1m"]["boundaries"]["end_to_end"]["metrics"]["completion"]
    assert window[f"p{percentile}"] == ms(samples)
    assert report["slos"]["chat"]["objectives"]["completion"]["value_s"] == ms(samples)


def test_what_is_beyond_the_range_is_counted_at_its_end() -> None:
    """F36 (scylladb/scylla-cluster-tests#5776): samples beyond the range are lost, and they are the worst."""
    live = Live()
    beyond = 2 * LIMIT_NS / 1e6
    live.feed(*(edge(beyond - 1000, beyond) for _ in range(99)), *(edge(0, beyond) for _ in range(2)))
    report = live.report(beyond)
    for completion in (
        report["boundaries"]["end_to_end"]["metrics"]["completion"],
        report["windows"]["1m"]["boundaries"]["end_to_end"]["metrics"]["completion"],
    ):
        assert completion["count"] == 101
        assert completion["p50"] == ms(1000)
        assert completion["p99"] >= LIMIT_NS / 1e9
    scrape = live.scrape(beyond)
    assert scrape.total("goodput_exporter_samples_out_of_range_total", metric="completion") == 2
    assert scrape.total("inference_completion_seconds_count", boundary="end_to_end") == 101


def test_nothing_has_no_value() -> None:
    """F37 (HdrHistogram/HdrHistogram_c#116): an empty histogram that answers 0 makes a perfect SLO."""
    live = Live(slo("completion end_to_end 95 1s 5m"))
    objective = live.report(1000)["slos"]["chat"]["objectives"]["completion"]
    assert (objective["samples"], objective["value_s"], objective["verdict"]) == (0, None, "no_data")
    assert live.report()["slos"]["chat"]["attainment"] is None
    scrape = live.scrape(2000)
    verdicts = {sample.labels["verdict"]: sample.value for sample in scrape.where("inference_slo_verdict")}
    assert verdicts == {"met": 0, "violated": 0, "no_data": 1}
    assert scrape.total("inference_window_completion_seconds") is None
    assert scrape.total("inference_window_samples") in (None, 0)


REPLICAS = (
    [edge(500, 520, resource={"host.name": "a"}) for _ in range(900)],
    [edge(500, 1000, resource={"host.name": "b"}) for _ in range(100)],
)


@pytest.mark.parametrize("later", [0, 30_000])
def test_distributions_are_merged_and_percentiles_are_not(later: int) -> None:
    """F38 (scylladb/scylla-monitoring#1886): percentiles of replicas, or of two halves of a window, averaged."""
    live = Live(slo("completion end_to_end 95 1s 1m", "completion end_to_end 90 1s 1m"))
    live.feed(*REPLICAS[0])
    live.feed(*(edge(500 + later, 1000 + later, resource={"host.name": "b"}) for _ in range(100)))
    found = live.report(50_000)["slos"]["chat"]["objectives"]
    p95, p90 = found["completion_p95"], found["completion_p90"]
    assert (p95["samples"], p95["value_s"], p90["value_s"]) == (1000, ms(500), ms(20))


def test_the_histograms_of_two_exporters_add_up() -> None:
    """F38: each replica has an exporter of its own, and Prometheus adds them."""
    samples = []
    for spans in REPLICAS:
        live = Live()
        live.feed(*spans)
        samples += live.scrape(1000).samples
    both, name = Scrape(samples), "inference_completion_seconds"
    assert both.total(f"{name}_count", boundary="end_to_end") == 1000
    for quantile, value in ((0.95, 0.5), (0.9, 0.02)):
        below, edge_s = both.quantile_bucket(quantile, name, boundary="end_to_end")
        assert below < value <= edge_s


# K9: windows run out.


def test_a_window_empties_when_traffic_stops() -> None:
    """F40 (apache/gravitino#3152): the last percentile stays on show, or drops to 0."""
    live = Live(slo("completion end_to_end 95 10s 1m"))
    for second in range(1, 11):
        live.feed(edge(second * 1000 - 5000, second * 1000))
        live.tick(second * 1000)
    readings = ((11_000, 10, ms(5000), "met"), (66_500, 4, ms(5000), "met"), (80_000, 0, None, "no_data"))
    for at, count, p95, verdict in readings:
        report = live.report(at)
        window = report["windows"]["1m"]["boundaries"]["end_to_end"]
        assert (window["metrics"]["completion"]["count"], window["metrics"]["completion"]["p95"]) == (count, p95)
        assert window["completions_per_second"] == pytest.approx(count / 60)
        assert report["slos"]["chat"]["objectives"]["completion"]["verdict"] == verdict
    scrape = live.scrape(80_000)
    assert scrape.total("inference_window_completion_seconds", window="1m") is None
    assert scrape.total("inference_window_completions_per_second", window="1m") == 0


# K10: verdicts, no data, units.


def test_a_ratio_is_of_counts_and_a_time_without_traffic_weighs_nothing() -> None:
    """F42 (slok/sloth#133): 0/0 that poisons the budget, or counts as perfect."""
    live = Live(slo("completion end_to_end 95 1s 30m", spec="goodput: {target: 99%, period: 30d}"))
    live.feed(*(edge(239_000, 240_000) for _ in range(400)))
    live.tick(600_000)
    live.feed(*(edge(720_000, 721_000) for _ in range(90)), *(edge(719_000, 721_000) for _ in range(10)))
    window = live.report(1_800_000)["slos"]["chat"]["windows"]["30m"]
    assert (window["eligible"], window["good"]) == (500, 490)
    scrape = live.scrape(1_800_000)
    assert 1 - (scrape.total("inference_slo_attainment_ratio", window="30m") or 0) == pytest.approx(0.02)
    assert scrape.total("inference_slo_burn_rate", window="30m") == pytest.approx(2.0)
    assert scrape.total("inference_slo_burn_rate", window="5m") is None


def test_what_an_slo_counts_is_there_at_zero_from_the_start() -> None:
    """F43 (slok/sloth-common-sli-plugins#99): a counter that begins with its first event hides it from increase()."""
    live = Live(slo("completion end_to_end 95 1s 5m", "ttft model 95 1s 5m"))
    before = live.scrape(0)
    for boundary in ("end_to_end", "model"):
        assert before.total("inference_arrivals_total", boundary=boundary) == 0
        for outcome in OUTCOMES:
            assert before.total("inference_completions_total", boundary=boundary, outcome=outcome) == 0
    for name in ("eligible", "good", "bad"):
        assert before.total(f"inference_slo_{name}_requests_total", slo="chat") == 0
    for index in range(3):
        gateway = edge(index, 500 + index)
        live.feed(gateway, server(index, 499 + index, "content@100(1)", parent=gateway))
    after = live.scrape(1000)
    increases = {
        name: (after.total(name, **labels) or 0) - (before.total(name, **labels) or 0)
        for name, labels in (
            ("inference_slo_good_requests_total", {"slo": "chat"}),
            ("inference_slo_bad_requests_total", {"slo": "chat"}),
            ("inference_arrivals_total", {"boundary": "end_to_end"}),
            ("inference_completions_total", {"boundary": "end_to_end", "outcome": "ok"}),
        )
    }
    assert list(increases.values()) == [3, 0, 3, 3]
    # The very series of before went up: increase() is taken of each by itself.
    (counted,) = (sample for sample in after.where("inference_completions_total", outcome="ok", boundary="model"))
    assert before.total("inference_completions_total", **counted.labels) == 0


def test_what_an_slo_counts_does_not_begin_anew_after_a_time_without_traffic() -> None:
    """F43: a counter that goes and comes back with its next event hides that event, too."""
    live = Live(slo("completion end_to_end 95 1s 5m", spec="selector: {model: [a, b], class: interactive}"))
    named = {"boundary": "end_to_end", "model": "a", "class": "interactive"}
    asked = {"inference.class": "interactive", "gen_ai.request.model": "a"}
    live.feed(edge(0, 500, attributes=asked), vllm(0, 500))
    for at, others in ((1000, 1), (2 * HOUR_MS, None)):
        scrape = live.scrape(at)
        assert scrape.total("inference_completions_total", outcome="ok", **named) == 1
        assert scrape.total("inference_completions_total", outcome="ok", **named | {"model": "b"}) == 0
        assert scrape.total("inference_completions_total", outcome="ok", boundary="model") == others
        assert scrape.total("inference_arrivals_total", boundary="model") == others


@pytest.mark.parametrize(("written", "value"), [("95", 95), ('"p95"', 95), ("99.9", 100)])
def test_a_percentile_is_written_in_percent(written: str, value: int) -> None:
    """F44 (OpenSLO/OpenSLO#26): percent and fraction mixed."""
    live = Live(slo(f"completion end_to_end {written} 1s 5m"))
    live.feed(*(edge(0, end) for end in range(1, 101)))
    objective = live.report(10_000)["slos"]["chat"]["objectives"]["completion"]
    assert objective["value_s"] == ms(value)


@pytest.mark.parametrize("written", ["0.95", "950"])
def test_what_is_no_percentile_is_refused_with_the_name_of_the_field(written: str) -> None:
    """F44: 0.95 as a percentile would be the minimum, and the SLO always met."""
    _, problems = slos(slo(f"completion end_to_end {written} 1s 5m"))
    assert [problem.path for problem in problems] == ["spec.objectives[0].percentile"]
    assert written in problems[0].found


def test_a_target_of_all_requests_has_a_budget_of_none() -> None:
    """F44: target 100 %, one bad of 1000."""
    live = Live(slo("completion end_to_end 95 1s 5m", spec="goodput: {target: 100%, period: 30d}"))
    live.feed(*(edge(0, 1000) for _ in range(999)), edge(0, 1001))
    scrape = live.scrape(10_000)
    assert scrape.total("inference_slo_error_budget_remaining_ratio") == 0
    assert scrape.total("inference_slo_burn_rate") is None
    assert scrape.total("inference_slo_attainment_ratio", window="5m") == pytest.approx(0.999)


@pytest.mark.parametrize("threshold", ["500ms", "0.5s"])
@pytest.mark.parametrize("window", ["5m", "300s"])
@pytest.mark.parametrize(("ttft", "verdict"), [(400, "met"), (500, "met"), (600, "violated")])
def test_a_threshold_and_a_window_mean_what_their_unit_says(
    threshold: str, window: str, ttft: int, verdict: str
) -> None:
    """F45 (triton-inference-server/perf_analyzer#32): thresholds in one unit meet data in another."""
    live = Live(slo(f"ttft end_to_end 95 {threshold} {window}"))
    live.feed(*(edge(index, 1000, f"content@{ttft + index}(1)") for index in range(20)))
    objective = live.report(5000)["slos"]["chat"]["objectives"]["ttft"]
    assert (objective["samples"], objective["verdict"]) == (20, verdict)
    assert (objective["threshold_s"], objective["window"]) == (0.5, "5m")
    # So long and no longer.
    assert live.report(300_000)["slos"]["chat"]["objectives"]["ttft"]["samples"] == 20
    assert live.report(305_000)["slos"]["chat"]["objectives"]["ttft"]["samples"] == 0


@pytest.mark.parametrize(("objective", "field"), [
    ("ttft end_to_end 95 500 5m", "threshold"), ("ttft end_to_end 95 500ms 300", "window"),
])  # fmt: skip
def test_a_bare_number_is_no_duration(objective: str, field: str) -> None:
    """F45: 500 of what?"""
    _, problems = slos(slo(objective))
    assert [problem.path for problem in problems] == [f"spec.objectives[0].{field}"]


def test_goodput_is_there_and_zero_when_nothing_is_good() -> None:
    """F47 (vllm-project/guidellm#1085): goodput left out just when it matters."""
    live = Live(slo("completion end_to_end 95 1s 1m"))
    live.feed(*(edge(index, index + 3000) for index in range(10)))
    report = live.report(60_000)
    chat = report["slos"]["chat"]
    assert (chat["attainment"], chat["windows"]["1m"]["goodput_requests_per_second"]) == (0, 0)
    window = report["windows"]["1m"]["boundaries"]["end_to_end"]
    assert window["completions_per_second"] == pytest.approx(10 / 60)
    scrape = live.scrape(60_000)
    assert scrape.total("inference_slo_goodput_requests_per_second", window="1m") == 0
    assert scrape.total("inference_slo_attainment_ratio", window="1m") == 0


# K11: exposition.

ANY = Address("127.0.0.1", 0)


async def test_one_process_counts_and_a_second_one_on_its_ports_is_refused() -> None:
    """F50 (BerriAI/litellm#10595): workers that each count for themselves.

    There are no workers: one process and one event loop own all counts. What would share its ports is refused.
    """
    declared = Declared(
        replace(Settings(), receive=Receive(grpc=ANY, http=ANY), web=Web(listen=ANY),
                join=replace(Settings().join, grace_ns=0)), built_in(), [],
    )  # fmt: skip
    async with Exporter(lambda: declared, clock=lambda: ns(1000), drain_s=0.2) as exporter:
        for index in range(10):
            url, content = f"{exporter.http_url}/v1/traces", body(vllm(index, index + 100))
            assert (await posted(url, content, {"Content-Type": PROTOBUF})).status == 200
        counts = []
        for _ in range(10):
            async with ClientSession() as fresh, fresh.get(exporter.metrics_url) as answer:
                scrape = Scrape.of(await answer.text())
            counts.append(scrape.total("inference_completions_total", boundary="model", outcome="ok"))
        assert counts == [10] * 10
        for receive, web in (
            (Receive(grpc=exporter.grpc, http=ANY), Web(listen=ANY)),
            (Receive(grpc=ANY, http=exporter.http), Web(listen=ANY)),
            (Receive(grpc=ANY, http=ANY), Web(listen=exporter.web)),
        ):
            second = declared._replace(settings=replace(declared.settings, receive=receive, web=web))
            with pytest.raises(CannotListen):
                await Exporter(lambda second=second: second, clock=lambda: ns(1000)).__aenter__()  # type: ignore[misc]


def test_a_strange_model_name_does_not_cost_the_scrape() -> None:
    """F51 (kamon-io/Kamon#752): a quote, backslash or line feed that breaks the line."""
    name = 'a"b\\c\nd'
    live = Live()
    live.feed(vllm(0, 100, attributes={"gen_ai.request.model": name}))
    scrape = live.scrape(1000)
    assert [sample.value for sample in scrape.where("inference_completions_total", model=name, outcome="ok")] == [1]
    assert scrape.total("goodput_exporter_spans_total", fate="used") is not None


def test_seconds_are_seconds_and_no_suffix_is_doubled() -> None:
    """F53 (open-telemetry/opentelemetry-collector-contrib#18903): milliseconds under a name that says seconds."""
    live = Live(slo("ttft end_to_end 95 1s 5m", spec="goodput: {target: 99%, period: 30d}"))
    live.feed(edge(0, 1000, "content@123(1) content@900(1)", tokens=2))
    scrape = live.scrape(1000)
    assert scrape.total("inference_ttft_seconds_sum", boundary="end_to_end") == pytest.approx(0.123, abs=1e-12)
    for name in {sample.name for sample in scrape.samples}:
        assert name.count("_seconds") <= 1
        assert name.count("_total") <= 1
        assert not re.search("milli|_ms(_|$)", name)


def test_a_quantile_of_the_buckets_reaches_as_far_as_the_values() -> None:
    """F54 (vllm-project/vllm#15167): the highest finite bucket is too low and every quantile shows its bound."""
    live = Live()
    live.feed(*(edge(0, 300_000) for _ in range(100)))
    assert live.boundary("end_to_end")["metrics"]["completion"]["p99"] == ms(300_000)
    below, edge_s = live.scrape(300_000).quantile_bucket(0.99, "inference_completion_seconds", boundary="end_to_end")
    assert below < 300 <= edge_s < float("inf")


def test_the_buckets_are_made_for_seconds() -> None:
    """F54: bounds made for milliseconds put every value into the first."""
    live = Live()
    live.feed(*(edge(0, 2000, f"content@{10 * index}(1)") for index in range(1, 101)))
    assert live.boundary("end_to_end")["metrics"]["ttft"]["p95"] == ms(950)
    below, edge_s = live.scrape(2000).quantile_bucket(0.95, "inference_ttft_seconds", boundary="end_to_end")
    assert below < 0.95 <= edge_s
    assert edge_s - below <= 0.5


# K12: bounds.


def test_label_values_are_bounded_and_no_request_is_lost() -> None:
    """F56 (BerriAI/litellm#39136): every misspelt model makes a new series."""
    live = Live()
    held = []
    for batch in range(20):
        live.feed(*(
            vllm(index, index + 100, attributes={"gen_ai.request.model": f"model-{500 * batch + index}"})
            for index in range(500)
        ), at=1000)  # fmt: skip
        tally = live.pipeline.tally
        held.append((len(tally.series), len(tally.numbers), len(tally.windows.windows[MINUTE_NS].totals)))
    scrape = live.scrape(2000)
    counts = {s.labels["model"]: s.value for s in scrape.where("inference_completions_total", outcome="ok")}
    assert len(counts) == 101
    assert sum(counts.values()) == 10_000
    assert counts["other"] == 9900
    assert scrape.total("goodput_exporter_label_overflow_total", label="model") == 9900
    assert len(set(held)) == 1
