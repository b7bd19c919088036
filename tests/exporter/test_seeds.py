"""The first numbers that anyone works out by hand, through a real pipeline. Times are milliseconds after T0."""

import pytest

from exporter.report import RATES_NOTE
from tests.exporter.live import EDGE, Live
from tests.exporter.spans import Sent, envoy, event, span, vllm

pytestmark = pytest.mark.both_builds


def test_one_request() -> None:
    """Sent at 0, first token at 450, last at 1400, 20 tokens: TTFT 450, completion 1400, 50 a token."""
    live = Live()
    live.feed(vllm(0, 1400, ttft=450, output=20))
    metrics = live.boundary("model")["metrics"]
    for metric, value in (("ttft", 0.45), ("completion", 1.4), ("tpot", 0.05)):
        assert (metrics[metric]["count"], metrics[metric]["mean"]) == (1, pytest.approx(value, abs=1e-9))


def test_throughput() -> None:
    """1,200 requests with 180,000 output tokens in 60 s: 20 requests and 3,000 output tokens a second."""
    live = Live()
    for second in range(60):
        end = 1000 * (second + 1)
        live.feed(*(vllm(end - 1, end, output=150, prompt=10) for _ in range(20)))
    window = live.report(60_000)["windows"]["1m"]["boundaries"]["model"]
    assert window["completions_per_second"] == pytest.approx(20)
    assert window["output_tokens_per_second"] == pytest.approx(3000)
    assert window["input_tokens_per_second"] == pytest.approx(200)


def arrivals_and_ends() -> list[Sent]:
    """For 60 s, 30 requests a second start; 22 a second end in that time, the others in the 20 s after it."""
    starts = [1 + 1000 * second + 30 * index for second in range(60) for index in range(30)]
    ends = [1000 * second + 1000 for second in range(60) for _ in range(22)]
    ends += [60_001 + 40 * index for index in range(len(starts) - len(ends))]
    return [envoy(start, max(start, end)) for start, end in zip(starts, ends, strict=True)]


def test_a_growing_backlog() -> None:
    """30 arrivals and 22 completions a second: the backlog grows by 8 a second, and neither rate is the capacity."""
    live = Live(delay_ms=20_000)
    spans = arrivals_and_ends()
    for second in range(1, 81):
        sent = [each for each in spans if second - 1 < each.end_ms / 1000 <= second]
        live.feed(*sent, at=1000 * second)
        live.tick(1000 * second)
    report = live.report(80_000)
    window = report["windows"]["1m"]["boundaries"]["end_to_end"]
    assert window["arrivals_per_second"] == pytest.approx(30)
    assert window["completions_per_second"] == pytest.approx(22)
    assert window["backlog_growth_per_second"] == pytest.approx(8)
    assert RATES_NOTE in report["notes"]
    assert "neither is the capacity" in RATES_NOTE
    scrape = live.scrape(80_000)
    growth = scrape.total("inference_window_backlog_growth_per_second", boundary="end_to_end", window="1m")
    assert growth == pytest.approx(8)


def test_a_growing_queue_is_seen_while_the_jobs_wait() -> None:
    """The same of jobs, whose producers tell of them before they end."""
    live = Live()
    produced, total = [], 0
    for second in range(60):
        start = 1000 * second
        produced += [span("publish", scope="broker", kind="producer", start=start + 1, end=start + 2)
                     for _ in range(30)]  # fmt: skip
        consumed = [span("consume", scope="broker", kind="consumer", start=start + 3, end=start + 900, links=[job])
                    for job in produced[total : total + 22]]  # fmt: skip
        live.feed(*produced[-30:], at=start + 2)
        live.feed(*consumed, at=start + 900)
        total += 22
    report = live.report(60_000)
    window = report["windows"]["1m"]["boundaries"]["end_to_end"]
    assert window["arrivals_per_second"] == pytest.approx(30)
    assert window["completions_per_second"] == pytest.approx(22)
    assert report["boundaries"]["end_to_end"]["in_flight"] == 480


def client(identity: str) -> Sent:
    """A call of an instrumented client."""
    attributes = {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.response.finish_reasons": "stop",
        "gen_ai.response.id": identity,
    }  # fmt: skip
    return span("chat", kind="client", start=0, end=1400, attributes=attributes)


@pytest.mark.parametrize("joined_by", ["parent", "id", "trace"])
def test_what_nobody_measured_is_unexplained(joined_by: str) -> None:
    """A client saw 1400, the model server reports 720, nothing else is known: 680 unexplained, and no network."""
    live = Live()
    call = client("chatcmpl-1")
    engine = {
        "parent": vllm(500, 1220, parent=call),
        "id": vllm(500, 1220, attributes={"gen_ai.request.id": "chatcmpl-1"}),
        "trace": vllm(500, 1220, trace=call.message.trace_id),
    }[joined_by]
    live.feed(call, engine)
    for boundary in ("client", "end_to_end"):
        phases = live.boundary(boundary)["phases"]
        assert {name: phase["mean"] for name, phase in phases.items()} == {
            "engine": pytest.approx(0.72), "unexplained": pytest.approx(0.68),
        }  # fmt: skip


def test_two_calls_that_may_be_the_engines_are_not_guessed_between() -> None:
    """The same with two clients in the trace and no id: the engine stands alone."""
    live = Live()
    calls = [client("chatcmpl-1"), client("chatcmpl-2")]
    calls[1].message.trace_id = calls[0].message.trace_id
    live.feed(*calls, vllm(500, 1220, trace=calls[0].message.trace_id))
    assert live.boundary("end_to_end")["phases"]["unexplained"]["mean"] == pytest.approx(1.4)
    assert live.boundary("model")["arrivals"] == 1


def test_between_two_hosts_the_network_is_not_claimed() -> None:
    """The same behind a gateway that says when it handed over, on another host whose clock nobody has aligned."""
    live = Live(profile_files=(EDGE,))
    gateway = span("chat", scope="edge", start=0, end=1400, attributes={"url.path": "/v1/completions"},
                   events=[event("dispatched", 20)], resource={"host.name": "a"})  # fmt: skip
    live.feed(gateway, vllm(100, 820, parent=gateway, resource={"host.name": "b"}))
    phases = live.boundary("end_to_end")["phases"]
    assert {name: phase["mean"] for name, phase in phases.items()} == {
        "gateway": pytest.approx(0.02), "engine": pytest.approx(0.72), "unexplained": pytest.approx(0.66),
    }  # fmt: skip
