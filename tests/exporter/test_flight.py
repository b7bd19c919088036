"""Requests that logs tell of while they last: what is in flight, what is missed before the end, what is lost.

Times are seconds after T0. Records are those of Envoy as its own attributes spell them, "-" for what is absent.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any, Final

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from exporter import join
from exporter.config import Settings
from exporter.expose.collect import collect
from exporter.expose.text import Writer
from exporter.pipeline import Pipeline
from exporter.profile import built_in
from slo_rules.document import Problem, read
from slo_rules.slo import read_slos
from slo_rules.vocabulary import BOUNDARIES
from tests.exporter.live import Scrape

T0_NS: Final = 1_800_000_000_000_000_000
SECOND_NS: Final = 1_000_000_000
CHAT: Final = """
apiVersion: goodput/v1
kind: SLO
metadata: {name: chat}
spec:
  objectives:
    - {metric: ttft, boundary: end_to_end, percentile: 95, threshold: 2s, window: 1m}
    - {metric: completion, boundary: end_to_end, percentile: 95, threshold: 10s, window: 1m}
  goodput: {target: 0.9, period: 30d}
"""


def ns(at: float) -> int:
    return T0_NS + round(at * SECOND_NS)


def body(*records: Mapping[str, str | int]) -> bytes:
    request = ExportLogsServiceRequest()
    for record in records:
        group = request.resource_logs.add()
        group.resource.attributes.add(key="service.name", value=AnyValue(string_value=str(record.get("node", "gw"))))
        item = group.scope_logs.add().log_records.add(time_unix_nano=int(record["time"]))
        item.trace_id, item.span_id = bytes.fromhex(str(record["trace"])), bytes.fromhex(str(record["span"]))
        item.attributes.extend(
            KeyValue(key=key, value=AnyValue(string_value=str(value)))
            for key, value in record.items() if key not in ("time", "trace", "span", "node")
        )  # fmt: skip
    return request.SerializeToString()


def envoy(kind: str, *, start: float, at: float, identity: str = "r1", **attributes: Any) -> dict[str, str | int]:
    """One access log record made at a time, of a request that started at another."""
    known, number = kind != "Start", abs(hash(identity))
    return {
        "time": ns(start), "trace": f"{number:016x}00ffffffff{number % 2**24:06x}" if known else "",
        "span": f"{abs(hash((identity, start))) % 2**63 + 1:016x}" if known else "",
        "access_log_type": f"Downstream{kind}", "request_id": identity, "method": "POST",
        "path": "/v1/chat/completions", "emit_time": f"{ns(at) // SECOND_NS}.{ns(at) % SECOND_NS:09d}",
        "response_code": "0", "response_flags": "-", "content_type": "-", "us_rx_body_beg_us": "-", "ds_tx_end_us": "-",
        **attributes,
    }  # fmt: skip


STREAM: Final = {"response_code": "200", "content_type": "text/event-stream"}
WELL: Final = STREAM | {"us_rx_body_beg_us": "500000", "ds_tx_end_us": "1000000"}


class Live:
    """A pipeline with one SLO and time that goes on second by second."""

    def __init__(self, slos: str = CHAT, **settings: Any) -> None:
        problems: list[Problem] = []
        declared = read_slos(read(slos, "slos.yaml", problems, {}), BOUNDARIES, ("model", "class"))
        assert not problems, problems
        self.pipeline = Pipeline(replace(Settings(), **settings), built_in(), declared)
        self.at = 0.0

    def tell(self, *records: Mapping[str, str | int], at: float | None = None) -> None:
        """Records that come at a time."""
        if at is not None:
            self.go_on(at)
        self.pipeline.feed(body(*records), encoding="protobuf", transport="grpc", now_ns=ns(self.at), signal="logs")

    def go_on(self, at: float) -> None:
        """Tick each second, and at the time itself."""
        while self.at + 1 < at:
            self.at += 1
            self.pipeline.tick(ns(self.at))
        self.at = at
        self.pipeline.tick(ns(at))

    @property
    def slo(self) -> dict[str, Any]:
        found: dict[str, Any] = self.pipeline.report()["slos"]["chat"]
        return found

    @property
    def gateway(self) -> dict[str, Any]:
        found: dict[str, Any] = self.pipeline.report()["boundaries"]["end_to_end"]
        return found

    def scrape(self) -> Scrape:
        return Scrape.of(Writer().text(collect(self.pipeline, ns(self.at))).decode())


# In flight


def test_a_request_is_in_flight_from_its_start_to_its_end() -> None:
    live = Live()
    live.tell(envoy("Start", start=0, at=0), at=0.1)
    assert (live.gateway["arrivals"], live.gateway["in_flight"]) == (1, 1)
    live.go_on(6.1)
    text = live.scrape()
    assert text.total("inference_in_flight_requests", evidence="log") == 1
    assert text.total("inference_oldest_in_flight_seconds") == pytest.approx(6.0)
    assert text.total("inference_in_flight_older_requests", age="5s") == 1
    assert text.total("inference_in_flight_older_requests", age="10s") == 0
    live.tell(envoy("End", start=0, at=7, **WELL), at=7.1)
    assert live.scrape().total("inference_in_flight_requests", evidence="log") == 0
    live.go_on(20)
    assert live.gateway["outcomes"]["ok"] == 1
    assert live.scrape().total("goodput_exporter_unbalanced_requests", boundary="end_to_end") == 0


def test_without_logs_nothing_is_said_to_be_in_flight() -> None:
    live = Live()
    live.go_on(5)
    for family in ("in_flight_requests", "in_flight_older_requests", "oldest_in_flight_seconds"):
        assert live.scrape().total(f"inference_{family}") is None


def test_ends_alone_say_nothing_of_what_is_in_flight_and_name_the_tail(live_spans: Live) -> None:
    text = live_spans.scrape()
    assert text.total("inference_arrivals_total", boundary="model", evidence="ended") == 1
    assert text.total("inference_in_flight_requests", boundary="model") is None
    tail = text.total("inference_window_arrivals_tail_seconds", boundary="model", window="1m")
    assert tail == pytest.approx(3, rel=0.001)
    window = live_spans.pipeline.report()["windows"]["1m"]["boundaries"]["model"]
    assert (window["evidence"], window["arrivals_not_yet_known_s"]) == ({"ended": 1}, pytest.approx(3, rel=0.001))


@pytest.fixture
def live_spans() -> Live:
    """One span of vLLM, 3 s long, in the windows."""
    live = Live()
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add()
    spans.scope.name = "vllm.tracing.otel"
    spans.spans.add(
        name="llm_request", kind=2, trace_id=b"t" * 16, span_id=b"s" * 8, start_time_unix_nano=ns(1),
        end_time_unix_nano=ns(4),
    )  # fmt: skip
    live.pipeline.feed(request.SerializeToString(), encoding="protobuf", transport="grpc", now_ns=ns(4))
    live.go_on(30)
    return live


# Misses before the end


def test_a_first_token_that_does_not_come_is_a_miss_once_a_record_proves_it() -> None:
    live = Live()
    live.tell(envoy("Start", start=0, at=0))
    live.tell(envoy("Periodic", start=0, at=1.9, **STREAM), at=1.9)
    assert (live.slo["bad"], live.slo["pending"]) == (0, 0)
    live.go_on(2.5)
    assert (live.slo["bad"], live.slo["pending"]) == (0, 1)
    assert live.slo["attainment_bounds"] == [0, 1]
    live.tell(envoy("Periodic", start=0, at=2.9, **STREAM), at=2.9)
    assert (live.slo["failed"], live.slo["pending"]) == ({"ttft": 1}, 0)


def test_a_first_token_that_came_late_is_a_miss_as_soon_as_it_is_told() -> None:
    live = Live()
    live.tell(envoy("Start", start=0, at=0))
    live.tell(envoy("Periodic", start=0, at=2.9, **STREAM | {"us_rx_body_beg_us": "2000001"}), at=2.9)
    assert live.slo["failed"] == {"ttft": 1}


def test_a_first_token_in_time_is_no_miss_and_not_pending() -> None:
    live = Live()
    live.tell(envoy("Start", start=0, at=0))
    live.tell(envoy("Periodic", start=0, at=5, **STREAM | {"us_rx_body_beg_us": "2000000"}), at=5)
    assert (live.slo["bad"], live.slo["pending"]) == (0, 0)


def test_what_is_not_known_to_be_a_stream_is_pending_until_the_completion_limit_decides() -> None:
    live = Live()
    live.tell(envoy("Start", start=0, at=0))
    live.tell(envoy("Periodic", start=0, at=5), at=5)
    assert (live.slo["bad"], live.slo["pending"]) == (0, 1)
    live.go_on(11.9)
    assert live.slo["bad"] == 0
    live.go_on(12)  # the limit of 10 s, 1 s for the flush and 1 s more
    assert (live.slo["failed"], live.slo["pending"]) == ({"completion": 1}, 0)


def test_an_answer_at_once_is_waited_for_no_first_token() -> None:
    live = Live()
    live.tell(envoy("Start", start=0, at=0))
    live.tell(envoy("Periodic", start=0, at=5, response_code="200", content_type="application/json"), at=5)
    assert (live.slo["bad"], live.slo["pending"]) == (0, 0)


def test_the_completion_limit_is_told_by_our_clock_as_the_records_came() -> None:
    live = Live()
    live.tell(envoy("Start", start=0, at=0), at=3)  # on the way, or clocks that differ, by 3 s
    live.go_on(14.9)
    assert live.slo["bad"] == 0
    live.go_on(15)
    assert live.slo["failed"] == {"completion": 1}


def test_a_miss_is_counted_once_whatever_comes_later() -> None:
    live = Live()
    live.tell(envoy("Start", start=0, at=0))
    live.tell(envoy("Periodic", start=0, at=2.9, **STREAM), at=2.9)
    live.go_on(13)
    late = STREAM | {"us_rx_body_beg_us": "3000000", "ds_tx_end_us": "13000000"}
    live.tell(envoy("End", start=0, at=13, **late), at=13)
    live.go_on(40)
    assert (live.slo["failed"], live.slo["good"], live.slo["unjudged"]) == ({"ttft": 1}, 0, {})
    assert live.gateway["outcomes"]["ok"] == 1
    window = live.slo["windows"]["1m"]
    assert (window["eligible"], window["good"], window["unknown"]) == (1, 0, 0)
    text = live.scrape()
    for name, n in (("eligible", 1), ("good", 0)):
        assert text.total(f"inference_slo_objective_{name}_requests_total", objective="ttft") == n
    assert text.total("inference_slo_objective_eligible_requests_total", objective="completion") == 1


def test_a_miss_enters_the_window_at_its_deadline() -> None:
    live = Live()
    live.tell(envoy("Start", start=0, at=0))
    live.tell(envoy("Periodic", start=0, at=2.9, **STREAM), at=2.9)
    live.go_on(21.9)
    assert live.slo["windows"]["1m"]["eligible"] == 0
    live.go_on(22.1)
    assert live.slo["windows"]["1m"]["eligible"] == 1


@pytest.mark.parametrize(("label", "bad"), [({}, 0), ({"inference.class": "chat"}, 1), ({"inference.class": "x"}, 0)])
def test_only_what_the_slo_surely_selects_is_missed_early(label: dict[str, str], bad: int) -> None:
    live = Live(CHAT.replace("  objectives:", "  selector: {class: chat}\n  objectives:"))
    live.tell(envoy("Start", start=0, at=0, **label))
    live.tell(envoy("Periodic", start=0, at=3, **STREAM, **label), at=3)
    assert live.slo["bad"] == bad
    assert live.slo["pending"] == (0 if label else 1)


def test_a_schedule_holds_before_the_end_too() -> None:
    # T0 is a Friday, 08:00 UTC.
    at_night = CHAT.replace("  objectives:", '  schedule: {from: "20:00", to: "22:00", timezone: UTC}\n  objectives:')
    live = Live(at_night)
    live.tell(envoy("Start", start=0, at=0))
    live.go_on(40)
    assert (live.slo["bad"], live.slo["pending"]) == (0, 0)
    objective = live.slo["objectives"]["completion"]
    assert (objective["verdict"], objective["bounds_s"]) == ("no_data", [None, None])


# Percentiles while requests are in flight


def test_what_is_in_flight_bounds_the_percentiles_and_may_prove_a_violation() -> None:
    live = Live()
    for number in range(19):
        live.tell(envoy("Start", start=0, at=0, identity=f"q{number}"))
        live.tell(envoy("End", start=0, at=1, identity=f"q{number}", **WELL), at=max(live.at, 1))
    for number in range(2):
        live.tell(envoy("Start", start=2, at=2, identity=f"slow{number}"), at=max(live.at, 2))
    live.go_on(26)
    objective = live.slo["objectives"]["completion"]
    assert objective["verdict"] == "met"
    assert objective["bounds_s"] == [pytest.approx(4, rel=0.001), None]  # 21 requests: the 20th is one of the slow
    live.go_on(33)
    objective = live.slo["objectives"]["completion"]
    assert (objective["verdict"], objective["samples"]) == ("violated", 19)
    assert live.scrape().total("inference_slo_percentile_bound_seconds", objective="completion", bound="upper") == inf


def test_what_may_turn_out_to_be_a_stream_leaves_the_percentile_without_an_upper_bound() -> None:
    live = Live()
    live.tell(envoy("Start", start=0, at=0), envoy("End", start=0, at=1, **WELL), at=1)
    live.tell(*(envoy("Start", start=2, at=2, identity=f"q{number}") for number in range(20)), at=2)
    live.go_on(30)  # no headers yet
    assert live.slo["objectives"]["ttft"]["bounds_s"] == [pytest.approx(0.5, rel=0.001), None]


# What is lost


def test_a_lost_start_is_healed_by_the_next_record() -> None:
    live = Live()
    live.tell(envoy("Periodic", start=0, at=1, **STREAM), at=1)
    assert (live.gateway["arrivals"], live.gateway["in_flight"]) == (1, 1)
    live.tell(envoy("End", start=0, at=2, **WELL), envoy("End", start=1, at=2, identity="r2", **WELL), at=2)
    live.go_on(20)
    assert (live.gateway["arrivals"], live.gateway["outcomes"]["ok"]) == (2, 2)
    text = live.scrape()
    for record, n in (("progress", 1), ("end", 1)):
        assert text.total("goodput_exporter_lost_starts_total", healed_by=record) == n


def test_a_start_whose_end_never_comes_ends_as_unknown_and_is_counted_once() -> None:
    live = Live(CHAT.replace("10s", "24h"), join=replace(Settings().join, max_age_ns=60 * SECOND_NS))
    live.tell(envoy("Start", start=0, at=0))
    live.go_on(61)
    assert (live.gateway["outcomes"]["unknown"], live.gateway["in_flight"]) == (1, 0)
    assert live.slo["unjudged"] == {"unknown": 1}
    assert live.scrape().total("goodput_exporter_lost_ends_total") == 1
    live.tell(envoy("End", start=0, at=62, **WELL), at=62)
    live.go_on(90)
    assert (live.gateway["arrivals"], sum(live.gateway["outcomes"].values())) == (1, 1)
    assert live.pipeline.record_fates["duplicate"] == 1


def test_an_end_that_finds_no_room_in_the_join_keeps_no_request_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "MAX_ROWS", 2)
    live = Live(join=replace(Settings().join, max_age_ns=60 * SECOND_NS))
    names = [f"q{number}" for number in range(3)]
    live.tell(*(envoy("Start", start=0, at=0, identity=name) for name in names))
    live.tell(*(envoy("End", start=0, at=1, identity=name, **WELL) | {"trace": "ab" * 16} for name in names), at=1)
    live.go_on(70)
    assert (live.gateway["in_flight"], sum(live.gateway["outcomes"].values())) == (0, 3)
    assert not live.pipeline.tally.flights.flights


def test_progress_keeps_a_long_request_alive() -> None:
    live = Live(join=replace(Settings().join, max_age_ns=60 * SECOND_NS))
    live.tell(envoy("Start", start=0, at=0))
    for second in range(20, 300, 20):
        live.tell(envoy("Periodic", start=0, at=second, **STREAM), at=second)
    assert live.gateway["in_flight"] == 1


def test_what_is_in_flight_has_a_bound() -> None:
    live = Live(join=replace(Settings().join, max_open=3))
    live.tell(*(envoy("Start", start=0, at=0, identity=f"q{number}") for number in range(5)))
    live.go_on(1)
    assert (live.gateway["in_flight"], live.gateway["outcomes"]["unknown"]) == (3, 2)


def test_a_record_told_twice_is_a_duplicate() -> None:
    live = Live()
    live.tell(*[envoy("Start", start=0, at=0)] * 2)
    live.tell(*[envoy("End", start=0, at=1, **WELL)] * 2, at=1)
    live.go_on(20)
    live.tell(envoy("End", start=0, at=1, **WELL))
    assert (live.gateway["arrivals"], live.gateway["outcomes"]["ok"]) == (1, 1)
    assert live.pipeline.record_fates == {"used": 2, "duplicate": 3, "malformed": 0}


def test_one_request_id_for_all_is_no_reason_to_take_them_for_one() -> None:
    live = Live()
    live.tell(*(envoy("Start", start=number, at=number) for number in range(3)), at=3)
    assert live.gateway["in_flight"] == 3


def test_a_second_gateway_on_the_way_is_no_second_arrival() -> None:
    live = Live()
    live.tell(envoy("Start", start=0, at=0), envoy("Start", start=0.01, at=0.01, node="inner"), at=0.02)
    assert (live.gateway["arrivals"], live.gateway["in_flight"]) == (1, 1)
    live.tell(envoy("End", start=0.01, at=1, node="inner", **WELL), at=1)
    assert live.scrape().total("inference_in_flight_requests", evidence="log") == 1
    live.tell(envoy("End", start=0, at=1.01, **WELL), at=1.01)
    live.go_on(20)
    assert (live.gateway["arrivals"], sum(live.gateway["outcomes"].values())) == (1, 1)


def test_a_request_at_two_gateways_is_missed_once() -> None:
    live = Live()
    live.tell(envoy("Start", start=0, at=0), envoy("Start", start=0.01, at=0.01, node="inner"), at=0.02)
    inner = envoy("Periodic", start=0.01, at=2.95, node="inner", **STREAM)
    live.tell(envoy("Periodic", start=0, at=2.9, **STREAM), inner, at=3)
    live.go_on(20)
    assert live.slo["failed"] == {"ttft": 1}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_gateways_that_tell_in_batches_tell_of_one_request(order: tuple[int, int]) -> None:
    live = Live()
    batches = (
        (envoy("Start", start=0, at=0), envoy("End", start=0, at=0.91, **WELL)),
        tuple(envoy(kind, start=0.01, at=0.9, node="inner", **WELL) for kind in ("Start", "End")),
    )
    for at, number in zip((1, 1.1), order, strict=True):
        live.tell(*batches[number], at=at)
    live.go_on(20)
    assert (live.gateway["arrivals"], live.gateway["outcomes"]["ok"], live.gateway["in_flight"]) == (1, 1, 0)
    assert sum(live.gateway["outcomes"].values()) == 1


def test_a_request_leaves_under_the_class_under_which_it_came() -> None:
    live = Live()
    outer = {"inference.class": "chat"}
    inner = envoy("Start", start=0.01, at=0.01, node="inner")
    live.tell(envoy("Start", start=0, at=0, **outer), inner, at=0.02)
    live.tell(envoy("End", start=0, at=1, **WELL, **outer), at=1)
    live.tell(envoy("End", start=0.01, at=0.99, node="inner", **WELL), at=1.01)
    live.go_on(20)
    assert [count for each in live.pipeline.tally.traffic.values() for count in each.in_flight.values()] == [0]


def test_one_request_id_for_all_says_nothing_at_several_gateways_either() -> None:
    live = Live()
    came = ((0, "a"), (1, "a"), (2, "b"), (3, "b"))
    live.tell(*(envoy("Start", start=at, at=at, node=node) for at, node in came), at=4)
    assert live.gateway["in_flight"] == 4


def test_a_sampled_span_of_a_request_whose_end_no_record_tells_counts_once() -> None:
    live = Live()
    live.tell(envoy("Start", start=0, at=0))
    request = ExportTraceServiceRequest()
    known = {"guid:x-request-id": "r1", "response_flags": "-", "http.status_code": "200", "http.method": "POST",
             "http.url": "http://gw/v1/chat/completions"}  # fmt: skip
    request.resource_spans.add().scope_spans.add().spans.add(
        name="ingress", kind=2, trace_id=b"t" * 16, span_id=b"s" * 8, trace_state="ot=th:c;rv:ffffffffffffff",
        start_time_unix_nano=ns(0), end_time_unix_nano=ns(3),
        attributes=[KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in known.items()],
    )  # fmt: skip
    live.go_on(3.1)
    live.pipeline.feed(request.SerializeToString(), encoding="protobuf", transport="grpc", now_ns=ns(3.1))
    live.go_on(20)
    assert (live.gateway["arrivals"], live.gateway["outcomes"]["ok"], live.gateway["in_flight"]) == (1, 1, 0)


def test_a_record_that_does_not_say_when_it_was_made_is_taken_as_it_comes() -> None:
    live = Live()
    live.tell(envoy("Start", start=0, at=0) | {"emit_time": "-"})
    live.go_on(5)
    assert live.scrape().total("inference_oldest_in_flight_seconds") == pytest.approx(5)
    live.go_on(13)
    assert live.slo["failed"] == {"completion": 1}


def test_a_class_that_only_spans_tell_leaves_no_backlog_behind() -> None:
    live = Live()
    live.tell(envoy("Start", start=0, at=0))
    end = envoy("End", start=0, at=1, **WELL)
    request = ExportTraceServiceRequest()
    known = {"guid:x-request-id": "r1", "response_flags": "-", "http.status_code": "200", "http.method": "POST",
             "http.url": "http://gw/v1/chat/completions", "inference.class": "chat"}  # fmt: skip
    request.resource_spans.add().scope_spans.add().spans.add(
        name="ingress", kind=2, trace_id=bytes.fromhex(str(end["trace"])), span_id=bytes.fromhex(str(end["span"])),
        start_time_unix_nano=ns(0), end_time_unix_nano=ns(1),
        attributes=[KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in known.items()],
    )  # fmt: skip
    live.tell(end, at=1)
    live.pipeline.feed(request.SerializeToString(), encoding="protobuf", transport="grpc", now_ns=ns(1))
    live.go_on(30)
    text = live.scrape()
    assert text.total("inference_completions_total", boundary="end_to_end", **{"class": "chat"}) == 1
    for rate, value in (("arrivals", 1 / 60), ("completions", 1 / 60), ("backlog_growth", 0)):
        found = text.total(f"inference_window_{rate}_per_second", boundary="end_to_end", window="1m")
        assert found == pytest.approx(value), rate


def test_get_requests_are_none() -> None:
    live = Live()
    live.tell(envoy("Start", start=0, at=0, method="GET", path="/v1/models"))
    assert live.pipeline.record_fates["not_request"] == 1
    assert "end_to_end" not in live.pipeline.report()["boundaries"]


def test_records_of_no_request_and_of_no_profile_are_told_apart() -> None:
    live = Live()
    nameless = envoy("Start", start=0, at=0, identity="-", stream_id="-")
    live.tell(nameless, envoy("Upstream", start=0, at=0) | {"access_log_type": "NotSet"}, envoy("Thing", start=0, at=0))
    assert live.pipeline.record_fates == {"malformed": 1, "unrecognised": 1, "not_request": 1}


def test_what_is_in_flight_outlives_a_reload() -> None:
    live = Live()
    live.tell(envoy("Start", start=0, at=0))
    pipeline = live.pipeline
    pipeline.reconfigure(Settings(), built_in(), pipeline.tally.slos)
    live.tell(envoy("Periodic", start=0, at=3, **STREAM), at=3)
    assert (live.gateway["in_flight"], live.slo["failed"]) == (1, {"ttft": 1})


def test_what_is_in_flight_is_known_once_its_boundary_is_published() -> None:
    live = Live(publish=("service",))
    live.tell(envoy("Start", start=0, at=0))
    for boundaries, waiting in ((("end_to_end",), 1), (("service",), 0), (("end_to_end",), 1)):
        live.pipeline.reconfigure(replace(Settings(), publish=boundaries), built_in(), [])
        assert live.pipeline.report()["boundaries"].get("end_to_end", {}).get("in_flight", 0) == waiting
    live.tell(envoy("End", start=0, at=7, **WELL), at=7.1)
    live.go_on(20)
    assert (live.gateway["in_flight"], live.gateway["outcomes"]["ok"]) == (0, 1)


def test_a_deadline_is_noted_once_however_many_reloads_there_are() -> None:
    live = Live()
    live.tell(*(envoy("Start", start=0, at=0, identity=f"r{each}") for each in range(20)), at=0.1)
    pipeline = live.pipeline
    for _ in range(4):
        pipeline.reconfigure(pipeline.settings, built_in(), pipeline.tally.slos)
    assert len(pipeline.tally.flights.dues) == 20
    live.go_on(13)
    assert live.slo["failed"] == {"completion": 20}


def test_a_limit_that_a_reload_brings_holds_for_what_is_in_flight() -> None:
    live = Live(CHAT.replace("10s", "300s"))
    live.tell(envoy("Start", start=0, at=0))
    live.go_on(5)
    live.pipeline.reconfigure(Settings(), built_in(), Live().pipeline.tally.slos)
    live.go_on(13)
    assert live.slo["failed"] == {"completion": 1}


# Faults that were met


def span(kind: str, *, identity: str, start: float, end: float, state: str = "", trace: bytes = b"") -> bytes:
    """A body with Envoy's span, or vLLM's, of a request."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add()
    spans.scope.name = "vllm.tracing.otel" if kind == "engine" else "envoy"
    told = envoy("End", start=start, at=end, identity=identity)
    item = spans.spans.add(
        name="llm_request" if kind == "engine" else "ingress", kind=2, trace_state=state,
        trace_id=trace or bytes.fromhex(str(told["trace"])), start_time_unix_nano=ns(start), end_time_unix_nano=ns(end),
    )  # fmt: skip
    own = bytes.fromhex(str(told["span"]))
    other = bytes([own[0] ^ 1]) + own[1:]
    item.span_id, item.parent_span_id = (other, own) if kind == "engine" else (own, b"")
    known = {"gen_ai.request.id": f"chatcmpl-{identity}"} if kind == "engine" else {
        "guid:x-request-id": identity, "response_flags": "-", "http.status_code": "200", "http.method": "POST",
        "http.url": "http://gw/v1/chat/completions",
    }  # fmt: skip
    item.attributes.extend(KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in known.items())
    return request.SerializeToString()


def test_an_end_that_only_the_span_tells_is_no_miss() -> None:
    live = Live()
    live.tell(envoy("Start", start=0, at=0))
    live.go_on(3.1)
    live.pipeline.feed(
        span("gateway", identity="r1", start=0, end=3), encoding="protobuf", transport="grpc", now_ns=ns(3.1)
    )
    live.go_on(4)
    assert live.scrape().total("inference_in_flight_requests", evidence="log") == 0
    live.go_on(30)
    assert live.slo["failed"] == {}
    assert (live.gateway["arrivals"], live.gateway["outcomes"]["ok"]) == (1, 1)


@pytest.mark.parametrize("replay", [True, False])
def test_who_gave_up_after_the_limit_without_a_token_was_missed(replay: bool) -> None:
    live = Live()
    if replay:
        live.pipeline = Pipeline(Settings(), built_in(), live.pipeline.tally.slos, replay=True)
    gone = STREAM | {"response_flags": "DC"}
    live.pipeline.feed(
        body(envoy("Start", start=0, at=0), envoy("End", start=0, at=3, **gone),
             envoy("Start", start=0, at=0, identity="r2"), envoy("End", start=0, at=1.9, identity="r2", **gone)),
        encoding="protobuf", transport="grpc", now_ns=ns(3), signal="logs",
    )  # fmt: skip
    if replay:
        live.pipeline.finish()
    else:
        live.go_on(30)
    assert (live.slo["failed"], live.slo["unjudged"]) == ({"ttft": 1}, {"cancelled": 1})


def test_at_the_engine_sampled_spans_stand_for_what_they_were_sampled_for() -> None:
    live = Live()
    for number in range(4):
        identity = f"q{number}"
        live.tell(
            envoy("Start", start=0, at=0, identity=identity), envoy("End", start=0, at=1, identity=identity, **WELL)
        )
    for kind in ("gateway", "engine"):  # one of four is sampled
        live.pipeline.feed(
            span(kind, identity="q0", start=0, end=1, state="ot=th:c"), encoding="protobuf", transport="grpc",
            now_ns=ns(1),
        )  # fmt: skip
    live.go_on(30)
    boundaries = live.pipeline.report()["boundaries"]
    assert (boundaries["end_to_end"]["arrivals"], boundaries["model"]["arrivals"]) == (4, 4)


def test_an_engine_that_is_late_with_its_gateway_is_counted_at_the_engine() -> None:
    live = Live()
    live.tell(envoy("Start", start=0, at=0), envoy("End", start=0, at=1, **WELL), at=1)
    live.go_on(30)
    for kind in ("gateway", "engine"):
        live.pipeline.feed(
            span(kind, identity="r1", start=0, end=1), encoding="protobuf", transport="grpc", now_ns=ns(30)
        )
    live.go_on(60)
    boundaries = live.pipeline.report()["boundaries"]
    assert (boundaries["end_to_end"]["arrivals"], boundaries["model"]["arrivals"]) == (1, 1)


def test_gateways_whose_clocks_differ_a_little_are_one_arrival() -> None:
    live = Live()
    live.tell(envoy("Start", start=0, at=0), envoy("Start", start=-0.005, at=-0.005, node="inner"), at=0.02)
    live.tell(envoy("End", start=-0.005, at=0.99, node="inner", **WELL), envoy("End", start=0, at=1, **WELL), at=1)
    live.go_on(20)
    assert (live.gateway["arrivals"], sum(live.gateway["outcomes"].values())) == (1, 1)


def test_what_waits_to_be_joined_takes_no_room_of_what_is_in_flight() -> None:
    live = Live(join=replace(Settings().join, max_open=5))
    for number in range(8):
        identity = f"q{number}"
        live.tell(
            envoy("Start", start=0, at=0, identity=identity), envoy("End", start=0, at=1, identity=identity, **WELL)
        )
    live.tell(*(envoy("Start", start=1, at=1, identity=f"r{number}") for number in range(5)), at=1)
    live.go_on(3)
    assert live.gateway["outcomes"]["unknown"] == 0


def test_departures_are_counted_under_the_class_of_arrival() -> None:
    live = Live()
    live.tell(envoy("Start", start=0, at=0, **{"inference.class": "a"}))
    live.tell(envoy("End", start=0, at=1, **WELL, **{"inference.class": "b"}), at=1)
    live.go_on(20)
    text = live.scrape()
    for klass, n in (("a", 1), ("b", None)):
        assert text.total("inference_arrivals_total", boundary="end_to_end", **{"class": klass}) == n
        assert text.total("inference_departures_total", boundary="end_to_end", **{"class": klass}) == n
    assert text.total("inference_completions_total", boundary="end_to_end", **{"class": "b"}) == 1
