import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from exporter.config import Label, Labels, Settings, Sources
from exporter.config import Scrape as Server
from exporter.expose import readings
from exporter.expose.collect import collect, collect_in_turns
from exporter.expose.text import Family, write_openmetrics, write_text
from exporter.gauges import RESULTS
from exporter.pipeline import Pipeline
from exporter.profile import built_in
from exporter.record import WEIGHT_ONE
from exporter.replay import bodies
from slo_rules.families import FAMILIES
from slo_rules.vocabulary import FATES, OUTCOMES, VERDICTS
from tests.exporter.live import Live, Scrape, slo, slos
from tests.exporter.spans import envoy, ns, of_models, vllm

pytestmark = pytest.mark.both_builds

CHAT = slo("ttft end_to_end 95 1s 5m", "completion end_to_end 99 30s 30m", spec="goodput: {target: 99%, period: 30d}")
OF_RELOADS = {name.name for name in FAMILIES if name.name.startswith("goodput_exporter_config_last_reload")}
CAPTURES = Path(__file__).resolve().parents[2] / "data" / "captures"


def families(of: Pipeline, now_ns: int = 0) -> dict[str, Family]:
    return {family.spec.name: family for family in collect(of, now_ns)}


def replayed(capture: Path) -> Pipeline:
    """A pipeline that has seen a capture, with an SLO and a label of the user's own."""
    settings = replace(Settings(), labels=Labels(declared=(Label(name="service", attributes=("service.name",)),)))
    pipeline = Pipeline(settings, built_in(), slos(CHAT)[0], replay=True)
    for file in (*capture.glob("traces.pb*"), *capture.glob("traces.json.lines*")):
        for body in bodies(file):
            pipeline.feed(body.content, encoding=body.encoding, transport="file", now_ns=0)
    pipeline.finish()
    return pipeline


@pytest.fixture(scope="module", params=sorted(path.name for path in CAPTURES.iterdir() if path.is_dir()))
def capture(request: pytest.FixtureRequest) -> Pipeline:
    return replayed(CAPTURES / str(request.param))


# Every family


def test_every_family_is_there_and_none_beside(capture: Pipeline) -> None:
    names = [family.spec.name for family in collect(capture, 0)]
    assert set(names) == {family.name for family in FAMILIES} - OF_RELOADS
    assert len(names) == len(set(names))


def test_every_series_has_the_labels_of_its_family(capture: Pipeline) -> None:
    for family in collect(capture, 0):
        points = list(family.points)
        assert {len(point.labels) for point in points} <= {len(family.spec.labels)}
        assert len({point.labels for point in points}) == len(points), family.spec.name
        if family.spec.takes_declared_labels:
            assert family.spec.labels[:4] == ("boundary", "model", "class", "service")


def test_prometheus_parsers_read_a_scrape(capture: Pipeline) -> None:
    scraped = collect(capture, 0)
    read = {family.name for family in prometheus(write_text(scraped).decode())}
    assert {f"inference_{name}_seconds" for name in ("ttft", "tpot", "completion", "phase")} <= read
    opened = {
        family.name
        for family in openmetrics(write_openmetrics(scraped).decode())  # type: ignore[no-untyped-call]
    }
    assert {family.spec.name.removesuffix("_total") for family in scraped} == opened


@pytest.mark.needs("promtool")
def test_promtool_has_no_complaint(capture: Pipeline) -> None:
    run = subprocess.run(
        ["promtool", "check", "metrics"], input=write_text(collect(capture, 0)), capture_output=True, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")


def test_counts_agree_with_the_report(capture: Pipeline) -> None:
    scrape = Scrape.of(write_text(collect(capture, 0)).decode())
    report = capture.report()
    for name, boundary in report["boundaries"].items():
        assert scrape.total("inference_arrivals_total", boundary=name) == boundary["arrivals"]
        for outcome, count in boundary["outcomes"].items():
            assert (scrape.total("inference_completions_total", boundary=name, outcome=outcome) or 0) == count
        counted = scrape.total("inference_ttft_seconds_count", boundary=name) or 0
        assert counted == boundary["metrics"]["ttft"]["count"]
        assert scrape.total("goodput_exporter_unbalanced_requests", boundary=name) == 0
        assert (scrape.total("inference_output_tokens_total", boundary=name) or 0) == (
            boundary["tokens"]["output"] or 0
        )
    assert (
        sum(scrape.total("goodput_exporter_spans_total", fate=fate) or 0 for fate in FATES) == report["input"]["spans"]
    )


# Empty is absent, and declared is zero


def test_what_an_slo_declares_is_there_from_the_start() -> None:
    scrape = Live(CHAT).scrape(0)
    for name in ("eligible_requests", "good_requests", "good_output_tokens"):
        assert [each.value for each in scrape.where(f"inference_slo_{name}_total", slo="chat")] == [0]
    for objective in ("ttft", "completion"):
        for name in ("eligible", "good"):
            assert scrape.total(f"inference_slo_objective_{name}_requests_total", objective=objective) == 0
        assert {
            each.labels["verdict"]: each.value for each in scrape.where("inference_slo_verdict", objective=objective)
        } == {verdict: float(verdict == "no_data") for verdict in VERDICTS}
    failed = {each.labels["failed"]: each.value for each in scrape.where("inference_slo_bad_requests_total")}
    assert failed == dict.fromkeys(failed, 0)
    assert {"ttft", "completion", "several", "error", "timeout", "shed"} <= failed.keys()
    assert scrape.total("inference_completions_total", boundary="end_to_end") == 0


def test_the_lines_of_an_slo_are_series() -> None:
    scrape = Live(CHAT).scrape(0)
    thresholds = {
        each.labels["objective"]: (each.labels["percentile"], each.labels["window"], each.value)
        for each in scrape.where("inference_slo_threshold_seconds")
    }
    assert thresholds == {"ttft": ("95", "5m", 1), "completion": ("99", "30m", 30)}
    assert scrape.total("inference_slo_target_ratio") == 0.99
    assert scrape.total("inference_slo_period_seconds") == 30 * 86_400


def test_where_nothing_was_judged_there_is_no_ratio() -> None:
    scrape = Live(CHAT).scrape(0)
    for name in (
        "attainment_ratio",
        "attainment_bound_ratio",
        "goodput_requests_per_second",
        "burn_rate",
        "error_budget_remaining_ratio",
    ):
        assert list(scrape.where(f"inference_slo_{name}")) == []


def served(live: Live, at: float, ttft: float = 100, lasting: float = 1_000) -> None:
    gateway = envoy(at, at + lasting)
    live.feed(gateway, vllm(at, at + lasting - 100, ttft=ttft, output=11, parent=gateway), at=at + lasting)


def test_a_window_shows_what_is_in_it_and_nothing_when_it_is_empty() -> None:
    live = Live(CHAT)
    served(live, 0)
    full, empty = live.scrape(30_000), live.scrape(120_000)
    labels = {"boundary": "end_to_end", "window": "1m", "model": "unknown"}
    shown = {each.labels["percentile"]: each.value for each in full.where("inference_window_ttft_seconds", **labels)}
    assert shown == dict.fromkeys(("50", "95", "99"), pytest.approx(0.1, rel=0.001))
    assert full.total("inference_window_samples", metric="ttft", **labels) == 1
    assert list(empty.where("inference_window_ttft_seconds", **labels)) == []
    assert empty.total("inference_window_samples", metric="ttft", **labels) == 0
    assert empty.total("inference_window_samples", metric="ttft", **(labels | {"window": "5m"})) == 1


def test_goodput_is_zero_when_there_is_traffic_and_none_is_good() -> None:
    live = Live(CHAT)
    served(live, 0, ttft=1_500, lasting=3_000)
    scrape = live.scrape(30_000)
    assert scrape.total("inference_slo_goodput_requests_per_second", window="1m") == 0
    assert scrape.total("inference_slo_attainment_ratio", window="1m") == 0
    assert scrape.total("inference_slo_bad_requests_total", failed="ttft") == 1
    assert scrape.total("inference_slo_verdict", objective="ttft", verdict="violated") == 1
    assert scrape.total("inference_slo_burn_rate", window="1m") == pytest.approx(100)


def test_rates_are_per_second_of_the_window() -> None:
    live = Live(CHAT)
    for second in range(30):
        served(live, second * 1_000)
    scrape = live.scrape(60_000)
    rates = {"boundary": "end_to_end", "window": "1m"}
    assert scrape.total("inference_window_completions_per_second", **rates) == pytest.approx(0.5)
    assert scrape.total("inference_window_arrivals_per_second", **rates) == pytest.approx(29 / 60), (
        "one began as it begins"
    )
    assert scrape.total("inference_slo_goodput_requests_per_second", window="1m") == pytest.approx(0.5)
    assert scrape.total("inference_slo_goodput_output_tokens_per_second", window="1m") == pytest.approx(5.5)
    assert scrape.total("inference_window_end_timestamp_seconds") == ns(60_000) / 1e9


def test_slow_requests_are_exemplars_with_their_trace() -> None:
    live = Live(CHAT)
    gateway = envoy(0, 1_000)
    live.feed(gateway)
    live.tick(5_000)
    text = write_openmetrics(collect(live.pipeline, 0)).decode()
    (line,) = [
        line for line in text.splitlines() if line.startswith("inference_completion_seconds_bucket") and " # " in line
    ]
    assert gateway.message.trace_id.hex() in line
    assert gateway.message.span_id.hex() in line
    assert 'le="1.28"' in line


def test_buckets_have_an_edge_on_each_threshold() -> None:
    live = Live(slo("ttft end_to_end 95 123ms 5m"))
    served(live, 0)
    edges = {
        each.labels["le"] for each in live.scrape(30_000).where("inference_ttft_seconds_bucket", boundary="end_to_end")
    }
    assert {"0.123", "0.1", "1.0", "640.0", "+Inf"} <= edges


# In turns


def in_windows(family: Family) -> bool:
    """Whether it is read in turns: not of the instant of the counts, but as of the end of the windows."""
    name = family.spec.name
    return "window" in family.spec.labels or "_window_" in name or name.endswith(("remaining_ratio", "slo_verdict"))


def test_all_counts_are_of_one_instant_whatever_is_counted_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "TURN_S", 0.0)
    live = Live(CHAT)
    served(live, 0)
    live.tick(30_000)
    before = write_openmetrics([each for each in collect(live.pipeline, ns(30_000)) if not in_windows(each)])
    found, turns = [], 0
    for family in collect_in_turns(live.pipeline, ns(30_000)):
        if family is None:
            turns += 1
            served(live, 30_000 + turns, ttft=1_500, lasting=3_000)
        elif not in_windows(family):
            found.append(family)
    assert turns > 10
    assert write_openmetrics(found) == before
    later = [each for each in collect(live.pipeline, ns(30_000)) if not in_windows(each)]
    assert write_openmetrics(later) != before


def test_those_who_wait_to_be_counted_are_counted_in_turns_first() -> None:
    live = Live()
    for at in range(0, 5_000, 1_000):
        live.feed(*of_models(at, [0]), at=at)
        live.tick(at + 900)
    live.feed(*of_models(10_000, [number % 400 for number in range(1_500)]), at=10_000)
    waiting = [live.pipeline.express.uncounted]
    for family in collect_in_turns(live.pipeline, ns(10_000)):
        waiting.append(live.pipeline.express.uncounted)
        if family is not None and family.spec.name == "inference_completions_total":
            assert Scrape.of(write_text([family]).decode()).total(family.spec.name, boundary="model") == 5 + 1_500
    assert waiting[0] > 1_000
    assert max(before - after for before, after in pairwise(waiting)) < 300
    assert waiting[-1] == 0


def test_a_reload_meanwhile_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "TURN_S", 0.0)
    live = Live(CHAT)
    served(live, 0)
    live.tick(30_000)
    other, _ = slos(slo("completion service 90 2s 1m", name="other"))
    turns = collect_in_turns(live.pipeline, ns(30_000))
    assert [next(turns) for _ in range(5)] == [None] * 5
    live.pipeline.reconfigure(replace(live.pipeline.settings, publish=("service",)), live.pipeline.profiles, other)
    rest = [family for family in turns if family is not None]
    assert write_text(rest) == write_text(collect(live.pipeline, ns(30_000)))


# About itself


def test_every_fate_outcome_and_bound_is_told_from_the_start() -> None:
    scrape = Live().scrape(0)
    assert {each.labels["fate"] for each in scrape.where("goodput_exporter_spans_total")} == set(FATES)
    assert scrape.total("goodput_exporter_open_requests") == 0
    assert scrape.total("goodput_exporter_open_requests_limit") == 200_000
    assert {each.labels["result"] for each in scrape.where("goodput_exporter_requests_joined_total")} == {
        "whole",
        "partial",
        "evicted",
    }
    assert scrape.total("goodput_exporter_build_info") == 1


def test_an_outcome_that_did_not_happen_is_zero_beside_one_that_did() -> None:
    live = Live()
    served(live, 0)
    found = {
        each.labels["outcome"]: each.value
        for each in live.scrape(30_000).where("inference_completions_total", boundary="service")
    }
    assert found == {outcome: float(outcome == "ok") for outcome in OUTCOMES}


def test_a_boundary_without_tokens_has_no_counter_of_tokens() -> None:
    live = Live()
    live.feed(envoy(0, 1_000))
    scrape = live.scrape(30_000)
    assert list(scrape.where("inference_output_tokens_total", boundary="end_to_end")) == []
    assert list(scrape.where("inference_items_total")) == []


def test_profiles_tell_when_they_were_last_seen() -> None:
    live = Live()
    served(live, 0)
    seen = {
        each.labels["profile"]: each.value
        for each in live.scrape(30_000).where("goodput_exporter_profile_last_seen_timestamp_seconds")
    }
    assert seen == {"envoy": ns(1_000) / 1e9, "vllm": ns(900) / 1e9}


# By gauges

URL = "http://127.0.0.1:8000/metrics"
GROWTH, ARRIVALS = "inference_window_backlog_growth_per_second", "inference_window_arrivals_per_second"


def take(live: Live, at: float, level: int, ended: int) -> None:
    """A scrape of vLLM."""
    body = f"vllm:num_requests_running {level}\nvllm:num_requests_waiting 0\nvllm:request_success_total {ended}\n"
    live.pipeline.gauges.take(URL, ns(at), body.encode())


def hanging(**settings: Any) -> Live:
    """A server that finishes one request at 9 s, and none of the two more that come every second."""
    live = Live(sources=Sources(scrape=(Server(url=URL),)), **settings)
    for second in range(0, 66, 5):
        take(live, second * 1_000, 2 * second, int(second > 5))
    served(live, 8_000)
    return live


def test_a_server_that_hangs_is_seen_by_its_gauges_while_ended_requests_say_that_all_is_well() -> None:
    labels = {"boundary": "model", "window": "1m"}
    by_gauges, by_ends = hanging().scrape(65_000), Live()
    served(by_ends, 8_000)
    assert by_ends.scrape(65_000).total(GROWTH, **labels) == 0
    assert by_gauges.total(GROWTH, **labels) == pytest.approx(2)
    assert by_gauges.total("inference_in_flight_requests", boundary="model") == 130


def test_what_gauges_tell_stands_alone_at_its_boundary_and_names_its_evidence() -> None:
    scrape = hanging().scrape(65_000)
    told = [each.labels for name in (ARRIVALS, GROWTH) for each in scrape.where(name, boundary="model", window="1m")]
    assert told == [{"boundary": "model", "class": "all", "window": "1m"}] * 2
    (level,) = scrape.where("inference_in_flight_requests", boundary="model")
    assert level.labels == {"boundary": "model", "class": "all", "evidence": "gauge"}
    for name in (ARRIVALS, GROWTH):
        assert {each.labels["class"] for each in scrape.where(name, boundary="end_to_end")} == {"default"}
    assert scrape.total("inference_window_completions_per_second", boundary="model", window="1m") == pytest.approx(
        1 / 60
    )
    assert scrape.total("inference_arrivals_total", boundary="model") == 1


def test_a_window_that_scrapes_do_not_cover_has_no_rate_rather_than_that_of_ended_requests() -> None:
    scrape = hanging().scrape(65_000)
    assert {each.labels["window"] for each in scrape.where(GROWTH, boundary="model")} == {"1m"}
    assert {each.labels["window"] for each in scrape.where(GROWTH, boundary="service")} == {"1m", "5m", "30m", "1h"}


def test_a_level_that_is_old_is_absent_and_no_other_takes_its_place() -> None:
    live = hanging()
    assert list(live.scrape(81_000).where("inference_in_flight_requests", boundary="model")) == []


def test_where_requests_are_seen_before_they_end_gauges_are_silent() -> None:
    live = hanging()
    live.pipeline.tally.traffic["model", "default"].in_flight["span"] = WEIGHT_ONE
    scrape = live.scrape(65_000)
    assert {each.labels["class"] for name in (ARRIVALS, GROWTH) for each in scrape.where(name)} == {"default"}
    assert "gauge" not in {each.labels["evidence"] for each in scrape.where("inference_in_flight_requests")}


def test_gauges_of_a_boundary_that_is_not_published_are_silent() -> None:
    scrape = hanging(publish=("end_to_end", "service")).scrape(65_000)
    assert {each.labels["boundary"] for each in scrape.where(GROWTH)} == {"end_to_end", "service"}
    assert list(scrape.where("inference_in_flight_requests", boundary="model")) == []


def test_the_report_says_which_numbers_rest_on_gauges() -> None:
    window = hanging().report(65_000)["windows"]["1m"]["boundaries"]
    told = {key: window["model"][key] for key in ("arrivals_per_second", "backlog_growth_per_second", "in_flight")}
    assert told == {"arrivals_per_second": pytest.approx(121 / 60), "backlog_growth_per_second": 2, "in_flight": 130}
    assert window["model"]["evidence"] == {"gauge": pytest.approx(121)}
    assert window["model"]["completions_per_second"] == pytest.approx(1 / 60)
    assert "gauge" not in window["service"].get("evidence", {})


def test_a_server_without_spans_is_told_by_its_gauges_alone() -> None:
    live = Live(sources=Sources(scrape=(Server(url=URL),)))
    for second in range(0, 66, 5):
        take(live, second * 1_000, 3, second)
    scrape, window = live.scrape(65_000), live.report()["windows"]["1m"]["boundaries"]
    assert scrape.total(ARRIVALS, boundary="model", window="1m") == pytest.approx(1)
    assert list(scrape.where("inference_window_completions_per_second")) == []
    assert window == {
        "model": {
            "evidence": {"gauge": 60}, "arrivals_not_yet_known_s": None, "arrivals_per_second": 1,
            "backlog_growth_per_second": 0, "in_flight": 3,
        }
    }  # fmt: skip


def test_every_result_of_a_scrape_is_told_from_the_start() -> None:
    scrape = Live(sources=Sources(scrape=(Server(url=URL),))).scrape(0)
    found = {each.labels["result"]: each.value for each in scrape.where("goodput_exporter_scrapes_total", source=URL)}
    assert found == dict.fromkeys(RESULTS, 0)
