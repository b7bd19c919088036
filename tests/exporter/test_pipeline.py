import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.config import Label, Labels, Settings
from exporter.decode.columns import BadBody
from exporter.pipeline import FUTURE_NS, Pipeline
from exporter.profile import built_in
from exporter.receive import Receipt
from tests.exporter import wire
from tests.exporter.live import BROKER, Live, profiles, slo, slos
from tests.exporter.spans import Sent, body, envoy, json_body, ns, span, vllm

pytestmark = pytest.mark.both_builds

MINUTE = 60_000


def live(*slo_files: str, **settings: Any) -> Live:
    """As it runs without a configuration: 20 s of delay, 10 s of grace."""
    return Live(*slo_files, profile_files=(), delay_ms=20_000, grace_ms=10_000, **settings)


def fates(of: Live) -> dict[str, int]:
    return {fate: count for fate, count in of.pipeline.fates.items() if count}


def outcomes(report: dict[str, Any], boundary: str = "end_to_end") -> dict[str, int]:
    found = report["boundaries"].get(boundary, {}).get("outcomes", {})
    return {outcome: count for outcome, count in found.items() if count}


def replayed(bodies: Sequence[bytes], *slo_files: str, expect: Literal["auto", "yes", "no"] = "auto") -> dict[str, Any]:
    """The report of a replay."""
    base = Settings()
    settings = replace(base, requests=replace(base.requests, expect_engine=expect))
    pipeline = Pipeline(settings, profiles(BROKER), slos(*slo_files)[0], replay=True)
    for content in bodies:
        pipeline.feed(content, encoding="protobuf", transport="file", now_ns=0)
    pipeline.finish()
    return pipeline.report()


# What becomes of spans


def test_a_joined_request_is_used_once_it_is_old_enough() -> None:
    of = live()
    gateway = envoy(0, 1_000)
    of.feed(gateway, vllm(100, 900, ttft=50, output=5, parent=gateway), at=2_000)
    of.tick(11_999)
    assert (fates(of), of.report()["boundaries"]) == ({}, {})
    of.tick(12_000)
    assert fates(of) == {"used": 2}
    assert outcomes(of.report()) == {"ok": 1}


@pytest.mark.parametrize(("ahead_ns", "fate"), [(FUTURE_NS, {"used": 1}), (FUTURE_NS + 1, {"future": 1})])
def test_a_span_that_ends_far_in_the_future_is_not_used(ahead_ns: int, fate: dict[str, int]) -> None:
    of = live()
    sent = envoy(0, 1_000)
    of.pipeline.feed(body(sent), encoding="protobuf", transport="http", now_ns=ns(1_000) - ahead_ns)
    of.tick(60_000)
    assert fates(of) == fate


def test_a_span_that_was_from_the_future_is_taken_when_it_is_sent_again() -> None:
    of = live()
    sent = envoy(0, 40_000)
    of.feed(sent, at=1_000)
    of.feed(sent, at=39_000)
    of.tick(60_000)
    assert fates(of) == {"future": 1, "used": 1}


@pytest.mark.parametrize("again", [1_001, 15_000, 9 * MINUTE])
def test_a_span_that_is_sent_again_counts_once_before_sealing_and_after(again: int) -> None:
    of = live()
    sent = [envoy(0, 1_000)]
    sent.append(vllm(100, 900, parent=sent[0]))
    of.feed(*sent, at=1_000)
    for second in range(2, again // 1_000):
        of.tick(second * 1_000)
    of.feed(*sent, at=again)
    of.tick(20 * MINUTE)
    assert fates(of) == {"used": 2, "duplicate": 2}
    assert outcomes(of.report()) == {"ok": 1}


def test_duplicates_are_forgotten_in_the_end() -> None:
    of = live()
    sent = envoy(0, 1_000)
    of.feed(sent, at=1_000)
    for minute in range(1, 61):
        of.tick(minute * MINUTE)
    of.feed(sent, at=60 * MINUTE)
    assert "duplicate" not in fates(of)


@pytest.mark.parametrize(
    ("behind_ms", "fate", "in_windows"),
    [(20_000, "used", True), (20_001, "late", True), (60_000, "late", True), (60_001, "too_late", False)],
)
def test_a_late_value_is_counted_and_one_that_is_too_late_reaches_counters_only(
    behind_ms: int, fate: str, in_windows: bool
) -> None:
    of = live(slo("completion end_to_end 95 2s 5m"))
    of.feed(envoy(0, 1_000), at=1_000 + behind_ms)
    report = of.report(1_000 + behind_ms + 30_000)
    assert fates(of) == {fate: 1}
    assert outcomes(report) == {"ok": 1}
    assert report["boundaries"]["end_to_end"]["arrivals"] == 1
    assert report["slos"]["chat"]["good"] == 1
    window = report["windows"]["5m"]["boundaries"]["end_to_end"]
    assert (window["outcomes"]["ok"], window["metrics"]["completion"]["count"]) == (in_windows, in_windows)
    assert window["arrivals_per_second"] == in_windows / 300
    assert report["slos"]["chat"]["windows"]["5m"]["eligible"] == in_windows
    assert report["slos"]["chat"]["objectives"]["completion"]["samples"] == in_windows


def test_the_end_of_a_request_tells_whether_it_is_too_late() -> None:
    """A long request is not late by the spans that ended early in it."""
    of = live()
    gateway = envoy(0, 100_000)
    of.feed(vllm(100, 900, parent=gateway), at=98_000)
    of.feed(gateway, at=100_000)
    report = of.report(125_000)
    assert fates(of) == {"too_late": 1, "used": 1}
    assert report["windows"]["5m"]["boundaries"]["end_to_end"]["outcomes"]["ok"] == 1


def test_spans_that_no_profile_knows_and_those_that_are_no_request_are_counted_apart() -> None:
    of = live()
    start_up = span("Worker init", scope="vllm.worker", kind="internal", start=0, end=9)
    health = envoy(0, 9, path="/health")
    of.feed(span("SELECT", kind="client", start=0, end=9), start_up, health, at=9)
    of.tick(60_000)
    assert fates(of) == {"unrecognised": 1, "not_request": 2}
    assert of.report()["not_request"] == {"start_up": 1}
    assert of.report()["boundaries"] == {}


def test_beyond_max_open_the_oldest_is_evicted_and_unknown() -> None:
    base = Settings()
    of = live(join=replace(base.join, max_open=2))
    for number in range(4):
        of.feed(envoy(number, 1_000 + number), at=2_000)
    assert fates(of) == {"evicted": 2}
    of.tick(60_000)
    report = of.report()
    assert fates(of) == {"evicted": 2, "used": 2}
    assert report["joined"] == {"evicted": 2, "partial": 2}
    assert sum(outcomes(report).values()) == report["boundaries"]["end_to_end"]["arrivals"] == 4


# Answers to senders


def test_a_body_with_bad_spans_is_taken_in_part() -> None:
    of = live()
    bad = [envoy(5, 4), envoy(5, 5), envoy(7, 6)]
    assert of.feed(envoy(0, 9), *bad, at=9) == Receipt(
        accepted=2,
        rejected=2,
        message=f"span 1: end_time_unix_nano must not be before start_time_unix_nano, found {ns(5)} to {ns(4)}; "
        f"span 3: end_time_unix_nano must not be before start_time_unix_nano, found {ns(7)} to {ns(6)}",
    )
    assert fates(of) == {"malformed": 2}


def test_only_a_few_bad_spans_are_spelt_out() -> None:
    of = live()
    receipt = of.feed(*(envoy(5, 4) for _ in range(10)), at=9)
    assert (receipt.accepted, receipt.rejected) == (0, 10)
    assert receipt.message.count("span ") == 3
    assert receipt.message.endswith("; 7 more")


def test_json_names_what_the_sender_wrote() -> None:
    of = live()
    content = json.loads(json_body(envoy(0, 9), envoy(0, 9)))
    content["resourceSpans"][0]["scopeSpans"][0]["spans"][1]["traceId"] = "xyz"
    receipt = of.feed_body(json.dumps(content).encode(), at=9, encoding="json")
    assert receipt == Receipt(1, 1, "span 1: traceId must be 32 hex characters, found 'xyz'")


@pytest.mark.parametrize("content", [b"\x0a\x05", b"nonsense"])
def test_a_bad_body_changes_nothing(content: bytes) -> None:
    of = live()
    before = of.report()
    with pytest.raises(BadBody):
        of.feed_body(body(envoy(0, 1)) + content, at=9)
    assert of.report() == before
    assert of.pipeline.table.stored == 0


def test_json_and_protobuf_of_the_same_spans_give_the_same_report() -> None:
    reports = []
    for encoding in ("protobuf", "json"):
        of = live()
        gateway = envoy(0, 1_000)
        engine = vllm(100, 900, ttft=50, output=5, parent=gateway)
        of.feed(gateway, engine, at=1_000, encoding=encoding)
        reports.append(of.report(60_000))
    assert reports[0] == reports[1]


# Whether a 2xx without an engine is known to be good


def chat(start: float, *, engine: bool, path: str = "/v1/chat/completions") -> list[Sent]:
    gateway = envoy(start, start + 1_000, path=path)
    inside = [vllm(start + 100, start + 900, ttft=50, output=5, parent=gateway)] if engine else []
    return [gateway, *inside]


@pytest.mark.parametrize(
    ("expect", "expected"),
    [("auto", {"ok": 2, "unknown": 1}), ("yes", {"ok": 1, "unknown": 2}), ("no", {"ok": 3})],
)
def test_live_what_is_known_so_far_decides(expect: Literal["auto", "yes", "no"], expected: dict[str, int]) -> None:
    base = Settings()
    of = live(requests=replace(base.requests, expect_engine=expect))
    for number, engine in enumerate((False, True, False)):
        of.feed(*chat(number * 20_000, engine=engine), at=number * 20_000 + 1_000)
        of.tick(number * 20_000 + 19_000)
    assert outcomes(of.report()) == expected


@pytest.mark.parametrize(
    ("expect", "expected"),
    [("auto", {"ok": 1, "unknown": 2}), ("yes", {"ok": 1, "unknown": 2}), ("no", {"ok": 3})],
)
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_a_replay_knows_it_from_the_start(
    expect: Literal["auto", "yes", "no"], expected: dict[str, int], order: tuple[int, ...]
) -> None:
    bodies = [body(*chat(number * 20 * MINUTE, engine=number == 1)) for number in range(3)]
    assert outcomes(replayed([bodies[place] for place in order], expect=expect)) == expected


def test_a_route_that_never_reaches_an_engine_is_ok() -> None:
    other = chat(0, engine=False, path="/v1/images/generations")
    assert outcomes(replayed([body(*chat(0, engine=True), *other)])) == {"ok": 2}


def nested(start: float, *, engine: bool) -> list[Sent]:
    """Two gateways with routes of their own."""
    outer = envoy(start, start + 1_000, path="/outer/v1/x")
    inner = envoy(start + 1, start + 999, path="/inner/v1/x", parent=outer)
    return [outer, inner, *([vllm(start + 100, start + 900, parent=inner)] if engine else [])]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_request_that_hangs_on_two_routes_waits_for_both(order: tuple[int, ...]) -> None:
    bodies = [body(*nested(0, engine=False)), body(*nested(30 * MINUTE, engine=True))]
    report = replayed([bodies[place] for place in order])
    assert outcomes(report) == outcomes(report, "service") == {"ok": 1, "unknown": 1}


# Replay


def test_a_replay_is_read_as_of_the_last_end_of_a_request() -> None:
    """Whatever comes after it, and however it is cut into bodies."""
    spans = [*chat(0, engine=True), *(span("SELECT", start=n * MINUTE, end=n * MINUTE + 1) for n in range(1, 60))]
    whole = replayed([body(*spans)])
    assert replayed([body(each) for each in spans]) == whole
    assert whole["as_of_unix_nano"] == ns(1_000)
    assert whole["windows"]["1m"]["to_unix_nano"] == ns(1_000)
    assert whole["windows"]["1m"]["boundaries"]["end_to_end"]["outcomes"]["ok"] == 1


def test_a_replay_knows_duplicates_as_far_as_spans_may_be_out_of_order() -> None:
    hour = 60 * MINUTE
    sent = [envoy(minute * MINUTE, minute * MINUTE + 10) for minute in range(60)]
    pipeline = Pipeline(Settings(), built_in(), [], replay=True, lateness_ns=ns(hour) - ns(0))
    for each in [*sent, *sent]:
        pipeline.feed(body(each), encoding="protobuf", transport="file", now_ns=0)
    pipeline.finish()
    assert pipeline.fates["duplicate"] == 60


def job(start: float, wait: float, *, taken: bool = True) -> list[Sent]:
    put = span("send", scope="broker", kind="producer", start=start, end=start + 1)
    get = span("work", scope="broker", kind="consumer", start=start + wait, end=start + wait + 50, parent=put)
    return [put, get] if taken else [put]


def test_a_job_that_still_waits_is_in_flight_and_no_outcome() -> None:
    report = replayed([body(*job(0, 10)), body(*job(1_000, 10, taken=False))])
    boundary = report["boundaries"]["end_to_end"]
    assert (boundary["arrivals"], boundary["in_flight"], sum(boundary["outcomes"].values())) == (2, 1, 1)


def test_live_a_job_is_in_flight_until_it_has_ended() -> None:
    of = Live(grace_ms=10_000)
    put, taken = job(0, 60_000)
    seen = []
    of.feed(put, at=1)
    for at in (5_000, 11_000, 59_000):
        of.tick(at)
        seen.append([(b["arrivals"], b["in_flight"]) for b in of.report()["boundaries"].values()])
    of.feed(taken, at=60_050)
    of.tick(71_000)
    boundary = of.boundary("end_to_end")
    assert seen == [[], [(1, 1)], [(1, 1)]]
    assert (boundary["arrivals"], boundary["in_flight"]) == (1, 0)
    assert sum(boundary["outcomes"].values()) == 1


def test_in_flight_is_zero_of_every_class_when_all_jobs_have_ended() -> None:
    """Of which class a job is may be known only when it has ended."""
    of = Live(grace_ms=1_000)
    put, taken = job(0, 60_000)
    of.feed(put, at=1)
    of.tick(5_000)
    of.feed(taken, vllm(60_001, 60_010, parent=taken, attributes={"inference.class": "batch"}), at=60_050)
    scrape = of.scrape(70_000)
    flights = {sample.labels["class"]: sample.value for sample in scrape.where("inference_in_flight_requests")
               if sample.labels["boundary"] == "end_to_end"}  # fmt: skip
    assert set(flights.values()) == {0}
    assert scrape.total("inference_arrivals_total", boundary="end_to_end") == 1


def traffic() -> list[Sent]:
    """A quarter of an hour of everything."""
    spans: list[Sent] = []
    for number in range(45):
        start = number * 20_000.0
        spans += chat(start, engine=number % 3 != 0)
        spans += job(start, 10 if number % 4 else 400_000, taken=number % 7 != 0)
        spans += nested(start, engine=number % 5 == 0)
        spans.append(span("SELECT", start=start, end=start + 1))
    return spans


TRAFFIC = traffic()
RIGHT = replayed([body(*TRAFFIC)], slo("ttft end_to_end 95 100ms 5m", "completion end_to_end 95 2s 10m"))


@settings(max_examples=15)
@given(st.data())
def test_a_replay_gives_the_same_report_in_any_order_within_its_lateness(data: st.DataObject) -> None:
    """Each span up to ten minutes out of its place, in bodies of any size, some of them twice."""
    delays = data.draw(st.lists(st.integers(0, 595_000), min_size=len(TRAFFIC), max_size=len(TRAFFIC)))
    order = [sent for _, sent in sorted(zip(delays, TRAFFIC, strict=True), key=lambda each: each[0] + each[1].end_ms)]
    sizes = data.draw(st.lists(st.integers(1, 60), min_size=1))
    report = replayed(list(cut(order, sizes)), slo("ttft end_to_end 95 100ms 5m", "completion end_to_end 95 2s 10m"))
    assert json.dumps(report, sort_keys=True) == json.dumps(RIGHT, sort_keys=True)


def cut(spans: Sequence[Sent], sizes: Sequence[int]) -> Iterator[bytes]:
    at = place = 0
    while at < len(spans):
        size = sizes[place % len(sizes)]
        yield body(*spans[at : at + size])
        at, place = at + size, place + 1


# Reload


def test_a_reload_in_the_middle_of_a_request_loses_nothing() -> None:
    of = live(slo("completion end_to_end 95 2s 5m"))
    done, half = chat(0, engine=True), chat(20_000, engine=True)
    of.feed(*done, at=1_000)
    of.tick(12_000)
    of.feed(half[0], at=21_000)
    labels = Labels(declared=(Label(name="tenant", attributes=("x-tenant",)),))
    settings = replace(of.pipeline.settings, labels=labels)
    declared, _ = slos(slo("completion end_to_end 95 2s 5m"), slo("ttft model 95 1s 1m", name="second"))
    of.pipeline.reconfigure(settings, profiles(BROKER), declared)
    of.feed(half[1], at=21_500)
    report = of.report(60_000)
    assert outcomes(report) == {"ok": 2}
    assert (report["slos"]["chat"]["good"], report["slos"]["second"]["good"]) == (2, 1)
    assert fates(of) == {"used": 4}
    assert report["windows"]["5m"]["boundaries"]["end_to_end"]["outcomes"]["ok"] == 2


def expire(of: Live, age_ms: int) -> None:
    join = replace(of.pipeline.settings.join, max_age_ns=age_ms * 1_000_000)
    of.pipeline.reconfigure(replace(of.pipeline.settings, join=join), profiles(BROKER), [])


def publish(of: Live, *boundaries: str) -> None:
    settings = replace(of.pipeline.settings, publish=boundaries)
    of.pipeline.reconfigure(settings, profiles(BROKER), of.pipeline.tally.slos)


@pytest.mark.parametrize("publications", [("service end_to_end",), ("service", "service", "end_to_end"),
                                          ("end_to_end", "service", "service end_to_end")])  # fmt: skip
def test_a_job_is_in_flight_while_it_waits_and_its_boundary_is_published(publications: tuple[str, ...]) -> None:
    of = Live(grace_ms=1_000, publish=("service",))
    put, taken = job(0, 60_000)
    of.feed(put, at=1)
    of.tick(5_000)
    for at, publication in enumerate(publications):
        publish(of, *publication.split())
        of.tick(6_000 + at)
        waiting = of.report()["boundaries"].get("end_to_end", {}).get("in_flight", 0)
        assert waiting == ("end_to_end" in publication)
    of.feed(taken, at=60_050)
    scrape = of.scrape(71_000)
    assert {sample.value for sample in scrape.where("inference_in_flight_requests")} == {0}
    counted = sum("end_to_end" in publication for publication in publications)  # anew each time
    for family in ("arrivals", "departures", "completions"):
        assert scrape.total(f"inference_{family}_total", boundary="end_to_end") == counted
    assert scrape.total("goodput_exporter_unbalanced_requests", boundary="end_to_end") == 0
    growth = "inference_window_backlog_growth_per_second"
    assert scrape.total(growth, boundary="end_to_end", window="5m") == 0


def test_a_job_that_went_while_its_boundary_was_not_published_is_not_in_flight() -> None:
    of = Live(grace_ms=1_000)
    put, taken = job(0, 60_000)
    of.feed(put, at=1)
    of.tick(5_000)
    publish(of, "service")
    of.feed(taken, at=60_050)
    of.tick(71_000)
    publish(of, "end_to_end", "service")
    gateway = of.boundary("end_to_end")
    assert (gateway["arrivals"], gateway["in_flight"], outcomes(of.report())) == (1, 0, {"unknown": 1})


@pytest.mark.parametrize("ages_ms", [(600_000,), (600_000, 300_000)])
def test_what_waits_is_noted_once_however_many_reloads_there_are(ages_ms: tuple[int, ...]) -> None:
    of = Live(grace_ms=1_000)
    of.feed(*(sent for _ in range(50) for sent in job(0, 60_000, taken=False)), at=1)
    for at in range(6):
        expire(of, ages_ms[at % len(ages_ms)])
        of.tick(5_000 + at)
    assert (len(of.pipeline.table.heap), of.boundary("end_to_end")["in_flight"]) == (50, 50)
    assert of.pipeline.table.first_due == ns(1 + ages_ms[-1])


def test_a_shorter_age_that_a_reload_brings_holds_for_what_waits() -> None:
    of = Live(grace_ms=1_000)
    of.feed(*job(0, 60_000, taken=False), at=1)
    of.tick(5_000)
    for at, age_ms in ((6_000, 30_000), (7_000, 20_000)):  # at the second it waits in the table
        expire(of, age_ms)
        of.tick(at)
        assert of.boundary("end_to_end")["in_flight"] == 1
    of.tick(21_000)
    assert of.boundary("end_to_end")["in_flight"] == 0


@pytest.mark.parametrize("labels", [(), ("tenant",), ("tenant", "team")])
def test_after_a_reload_of_labels_a_scrape_has_the_new_ones_only(labels: tuple[str, ...]) -> None:
    of = live(labels=Labels(declared=(Label(name="tenant", attributes=("x-tenant",), default="d"),)))
    of.feed(*chat(0, engine=True), at=1_000)
    of.tick(12_000)
    declared = Labels(declared=tuple(Label(name=name, attributes=(f"x-{name}",), default="d") for name in labels))
    of.pipeline.reconfigure(replace(of.pipeline.settings, labels=declared), built_in(), [])
    of.feed(*chat(20_000, engine=True), at=21_000)
    scrape = of.scrape(60_000)
    (sample,) = scrape.where("inference_window_samples", boundary="model", metric="ttft", window="5m")
    assert sample.labels.keys() == {"boundary", "model", "class", "metric", "window", *labels}


def test_a_scrape_right_after_a_reload_shows_the_windows_as_before() -> None:
    of = live(slo("completion end_to_end 95 2s 5m"))
    of.feed(*chat(0, engine=True), at=1_000)
    before = of.report(40_000)["windows"]["1m"]["boundaries"]["end_to_end"]
    assert before["outcomes"]["ok"] == 1
    of.pipeline.reconfigure(of.pipeline.settings, built_in(), of.pipeline.tally.slos)
    assert of.report()["windows"]["1m"]["boundaries"]["end_to_end"] == before


@pytest.mark.parametrize(("threshold", "verdict"), [("2s", "met"), ("500ms", "violated")])
def test_a_new_threshold_is_not_judged_by_what_was_counted_under_the_old(threshold: str, verdict: str) -> None:
    of = live(slo("completion end_to_end 95 2s 5m"))
    of.feed(*(envoy(0, 1_000) for _ in range(20)), at=1_000)
    of.tick(40_000)
    of.pipeline.reconfigure(of.pipeline.settings, built_in(), slos(slo(f"completion end_to_end 95 {threshold} 5m"))[0])
    of.feed(envoy(40_000, 41_000), at=41_000)
    assert of.report(80_000)["slos"]["chat"]["objectives"]["completion"]["verdict"] == verdict


def test_profiles_may_change_their_places_in_a_reload() -> None:
    of = live()
    gateway, engine = chat(0, engine=True)
    of.feed(gateway, at=1_000)
    of.pipeline.reconfigure(of.pipeline.settings, built_in()[::-1], [])
    of.feed(engine, at=1_500)
    assert outcomes(of.report(60_000)) == {"ok": 1}
    assert outcomes(of.report(), "model") == {"ok": 1}


# What no sender should send


@pytest.mark.parametrize("times", [(1, 1), (1, 2**62 - 1), (2**62 - 1, 2**62 - 1), (2**62 - 2, 2**62 - 1)])
@pytest.mark.parametrize("replay", [False, True])
def test_times_at_the_edges_are_no_harm(times: tuple[int, int], replay: bool) -> None:
    """Stamps are added to, windows are counted in, ages are subtracted from such times."""
    e2e = wire.attribute("gen_ai.latency.e2e", wire.double(4, 0.05))
    ttft = wire.attribute("gen_ai.latency.time_to_first_token", wire.double(4, 0.05))
    fields = (wire.block(5, "llm_request"), wire.number(6, 2), e2e, ttft)
    content = wire.body(wire.span(*fields, start=times[0], end=times[1]), scope=wire.block(1, "vllm.tracing.otel"))
    pipeline = Pipeline(Settings(), built_in(), [], replay=replay)
    pipeline.feed(content, encoding="protobuf", transport="http", now_ns=ns(0))
    pipeline.feed(body(*chat(0, engine=True)), encoding="protobuf", transport="http", now_ns=ns(1_000))
    pipeline.tick(ns(60_000))
    pipeline.finish()
    assert outcomes(pipeline.report()) == {"ok": 1}
