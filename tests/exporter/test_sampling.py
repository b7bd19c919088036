"""How many requests a sampled span stands for, and that it is counted for so many everywhere."""

import json
from pathlib import Path
from typing import Any

import pytest

from exporter.record import MISSING, WEIGHT_ONE
from exporter.sampling import MAX_WEIGHT, adjusted_count, read_state, weight_of
from tests.exporter.live import Live, slo
from tests.exporter.spans import envoy, vllm

pytestmark = pytest.mark.both_builds

ALWAYS_KEPT = b"\x01" * 8 + b"\x00" + b"\xff" * 7
"""A trace id whose randomness is above any threshold."""


def vectors() -> list[Any]:
    path = Path(__file__).parent.parent / "data" / "derived" / "sampling_vectors.json"
    return [
        pytest.param(vector, id=vector["tracestate"] or "none") for vector in json.loads(path.read_text())["vectors"]
    ]


@pytest.mark.parametrize("vector", vectors())
def test_a_trace_state_says_how_many_requests_it_stands_for(vector: dict[str, Any]) -> None:
    found = read_state(vector["tracestate"])
    assert found.threshold == (None if vector["threshold"] is None else int(vector["threshold"], 16))
    count = adjusted_count(found)
    assert (count is not None) == vector["known"]
    if count is not None:
        assert float(count) == vector["adjusted_count"]
        assert float(1 / count) == vector["probability"]


def test_a_span_that_its_trace_id_would_not_have_kept_says_nothing() -> None:
    half = read_state("ot=th:8")
    assert adjusted_count(half, 0x80000000000000) == 2
    assert adjusted_count(half, 0x7FFFFFFFFFFFFF) is None
    # Explicit randomness stands in for that of the trace id.
    assert adjusted_count(read_state("ot=th:8;rv:80000000000000"), 0) == 2


@pytest.mark.parametrize(("state", "weight"), [(b"ot=th:c", 4 * WEIGHT_ONE), (b"ot=th:0", WEIGHT_ONE), (b"", MISSING),
                                               (b"\xff", MISSING), (b"ot=th:fffffffffffffe", MISSING)])  # fmt: skip
def test_a_weight_is_a_whole_number_of_units_or_missing(state: bytes, weight: int) -> None:
    assert weight_of(state, 2**56 - 1) == weight


def test_no_span_stands_for_more_than_a_bound() -> None:
    state = f"ot=th:{2**56 - 2**56 // MAX_WEIGHT:014x}".encode()
    assert weight_of(state, 2**56 - 1) == MAX_WEIGHT * WEIGHT_ONE


def test_the_weight_of_the_outermost_span_counts_for_the_whole_request_everywhere() -> None:
    live = Live(slo("completion end_to_end 95 1s 1m"))
    quarter = envoy(1, 1001, state="ot=th:c", trace=ALWAYS_KEPT)
    live.feed(quarter, vllm(101, 901, ttft=100, output=10, prompt=5, parent=quarter, state="ot=th:8"))
    live.feed(envoy(1, 2001))
    report = live.report(60_000)
    outer, model = report["boundaries"]["end_to_end"], report["boundaries"]["model"]
    assert (outer["arrivals"], outer["outcomes"]["ok"], model["arrivals"]) == (5, 4, 4)
    assert model["tokens"] == {"input": 20, "output": 40, "cached_input": None, "items": None}
    window = report["windows"]["1m"]["boundaries"]["end_to_end"]
    assert window["completions_per_second"] == pytest.approx(5 / 60)
    assert window["output_tokens_per_second"] == pytest.approx(40 / 60)
    chat = report["slos"]["chat"]
    assert (chat["good"], chat["windows"]["1m"]["goodput_requests_per_second"]) == (4, pytest.approx(4 / 60))


def test_percentiles_rank_by_weight() -> None:
    live = Live()
    spans = [envoy(0, 1000, state="ot=th:c", trace=ALWAYS_KEPT), *(envoy(0, 100) for _ in range(4))]
    live.feed(*spans)
    completion = live.boundary("end_to_end")["metrics"]["completion"]
    assert completion["count"] == 8
    assert completion["p50"] == pytest.approx(0.1, rel=1e-3)
    assert completion["mean"] == pytest.approx((4 * 1.0 + 4 * 0.1) / 8)
    live.feed(envoy(0, 1001, state="ot=th:0", trace=ALWAYS_KEPT))
    assert live.boundary("end_to_end")["metrics"]["completion"]["p50"] == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("state", ["ot=th:C", "ot=th:8;rv:6e6d1a75832a2f", "ot=rv:abcdabcdabcdff", "ot=p:8;r:62"])
def test_a_state_that_cannot_be_used_counts_as_one_and_is_told(state: str) -> None:
    live = Live()
    live.feed(envoy(0, 100, state=state, trace=ALWAYS_KEPT))
    assert live.boundary("end_to_end")["arrivals"] == 1
    assert live.report()["attributes_dropped"] == {"sampling": 1}
    assert live.scrape(1000).total("goodput_exporter_attributes_dropped_total", reason="sampling") == 1


@pytest.mark.parametrize("state", ["", "other=value", "ot=th:0"])
def test_spans_that_were_not_sampled_are_nothing_to_tell_of(state: str) -> None:
    live = Live()
    live.feed(envoy(0, 100, state=state, trace=ALWAYS_KEPT))
    assert live.boundary("end_to_end")["arrivals"] == 1
    assert live.report()["attributes_dropped"] == {}


def test_sampling_can_be_ignored() -> None:
    live = Live(sampling="ignore")
    live.feed(envoy(0, 100, state="ot=th:c", trace=ALWAYS_KEPT), envoy(0, 100, state="ot=th:C"))
    assert live.boundary("end_to_end")["arrivals"] == 2
    assert live.report()["attributes_dropped"] == {}
