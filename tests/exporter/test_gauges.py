"""exporter.gauges: bodies of real servers, recorded levels beside the client's truth, and when nothing is said."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from exporter.config import Scrape
from exporter.gauges import MAX_LINE, MAX_TEXT, Flow, Gauges, Unreadable, read_gauges

pytestmark = pytest.mark.both_builds

CAPTURES = Path(__file__).resolve().parents[1] / "data" / "captures"
SECOND = 10**9
T0 = 1_700_000_000 * SECOND
URL = "http://127.0.0.1:8000/metrics"
OTHER = "http://127.0.0.1:8001/metrics"
DYNAMO_REFUSED = ("error_bad_json", "error_not_found", "error_bad_max_tokens")


def recorded(capture: str, name: str) -> bytes:
    return gzip.decompress((CAPTURES / capture / f"{name}.gz").read_bytes())


def rows(capture: str, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in recorded(capture, name).splitlines()]


def vllm(running: float, waiting: float = 0, ended: float | None = 0) -> bytes:
    labels = '{engine="0",model_name="tiny"}'
    lines = [f"vllm:num_requests_running{labels} {running}", f"vllm:num_requests_waiting{labels} {waiting}"]
    if ended is not None:
        lines.append(f'vllm:request_success_total{{finished_reason="stop",model_name="tiny"}} {ended}')
    return "\n".join(lines).encode()


def dynamo(running: float, ended: float) -> bytes:
    return f"dynamo_frontend_inflight_requests {running}\ndynamo_frontend_requests_total {ended}\n".encode()


def gauges(*sources: Scrape, keep_s: int = 3_600) -> Gauges:
    return Gauges(sources or (Scrape(url=URL),), keep_s * SECOND)


def scraped(*levels: float, ended: float | None = 0, every_s: int = 5) -> Gauges:
    """One server that was scraped at T0 and every five seconds from then on."""
    found = gauges(Scrape(url=URL, every_ns=every_s * SECOND))
    for place, level in enumerate(levels):
        found.take(URL, T0 + place * every_s * SECOND, vllm(level, ended=ended))
    return found


def flow(of: Gauges, to_s: float, length_s: float = 60) -> Flow | None:
    to_ns = T0 + int(to_s * SECOND)
    return of.flow("model", to_ns - int(length_s * SECOND), to_ns)


# Reading.


def test_the_gauges_of_recorded_bodies_are_read() -> None:
    found = read_gauges(recorded("envoy-accesslog-vllm", "metrics-after.txt"))
    assert (found.server.name, *found[1:]) == ("vLLM", 0, 0, 160)
    found = read_gauges(recorded("dynamo-mocker", "metrics-after.txt"))
    assert (found.server.name, *found[1:]) == ("Dynamo", 0, 0, 173)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("SGLang", "sglang:num_running_reqs 3\nsglang:num_queue_reqs 4\nsglang:num_requests_total 9\n"),
        (
            "TensorRT-LLM",
            "trtllm_num_requests_running 3\ntrtllm_num_requests_waiting 4\ntrtllm_num_requests_completed_total 9\n",
        ),
        ("TGI", "tgi_batch_current_size 3\ntgi_queue_size 4\ntgi_request_success 9\ntgi_request_count 16\n"),
    ],
)
def test_the_names_of_other_servers_are_known(name: str, body: str) -> None:
    found = read_gauges(body.encode())
    assert (found.server.name, found.server.boundary, *found[1:]) == (name, "model", 3, 4, 9)


def test_the_front_end_of_dynamo_is_a_service_and_what_it_queues_is_among_what_is_in_flight() -> None:
    body = dynamo(16, 3) + b"dynamo_frontend_queued_requests 15\n"
    found = read_gauges(body)
    assert (found.server.boundary, found.running, found.waiting) == ("service", 16, 0)


def test_engines_are_added_up() -> None:
    body = b"".join(
        b'vllm:num_requests_%s{engine="%d",model_name="m"} %d\n' % (name, engine, level)
        for name, levels in ((b"running", (1, 2)), (b"waiting", (4, 8)))
        for engine, level in enumerate(levels)
    )
    assert read_gauges(body)[1:] == (3, 12, None)


def test_ranks_that_work_on_the_same_requests_count_them_once_and_data_parallel_ones_apart() -> None:
    body = "".join(
        f'sglang:num_{name}_reqs{{dp_rank="{dp}",tp_rank="{tp}",pp_rank="0"}} {level + dp}\n'
        for name, level in (("running", 10), ("queue", 20))
        for dp in (0, 1)
        for tp in (0, 1)
    )
    assert read_gauges(body.encode())[1:3] == (10 + 11, 20 + 21)


@pytest.mark.parametrize(
    ("result", "body"),
    [
        ("no_gauges", b""),
        ("no_gauges", b"<html><body>vllm:num_requests_running 3</body></html>"),
        ("no_gauges", b"vllm:num_requests_running 3\n"),
        ("no_gauges", b"vllm:num_requests_running 3\nvllm:num_requests_waiting_by_reason 4\n"),
        ("no_gauges", recorded("dynamo-mocker-disagg", "metrics-before.txt")),
        ("malformed", b"vllm:num_requests_running\nvllm:num_requests_waiting 4\n"),
        ("malformed", b'vllm:num_requests_running{engine="0} 3\nvllm:num_requests_waiting 4\n'),
        ("malformed", b'vllm:num_requests_running{engine="\xff"} 3\nvllm:num_requests_waiting 4\n'),
        ("malformed", vllm(float("nan"))),
        ("malformed", vllm(float("inf"))),
        ("malformed", vllm(-1)),
        ("malformed", b"vllm:num_requests_running " + b"9" * 400 + b"\nvllm:num_requests_waiting 4\n"),
        ("too_large", b'vllm:num_requests_running{a="' + b"x" * MAX_LINE + b'"} 3\nvllm:num_requests_waiting 4\n'),
        ("too_large", b"vllm:num_requests_running 3\n" * (MAX_TEXT // 20)),
    ],
)  # fmt: skip
def test_what_tells_no_level_is_named_and_never_zero(result: str, body: bytes) -> None:
    with pytest.raises(Unreadable) as caught:
        read_gauges(body)
    assert caught.value.result == result


# Recorded levels beside the client's truth.


def replayed(capture: str) -> tuple[Gauges, dict[int, float | None]]:
    """The series of a capture, and by time each level as it was read then."""
    found, levels = gauges(Scrape(url=URL, every_ns=SECOND)), {}
    boundary = "service" if "dynamo" in capture else "model"
    for row in rows(capture, "metrics-series.jsonl"):
        time_ns = (row["asked_unix_ns"] + row["got_unix_ns"]) // 2
        ended = sum(row["success"].values())
        body = dynamo(row["running"], ended) if "dynamo" in capture else vllm(row["running"], row["waiting"], ended)
        found.take(URL, time_ns, body)
        levels[time_ns] = found.level(boundary, time_ns)
    return found, levels


@pytest.mark.parametrize(
    ("capture", "scrapes", "equal", "within_one"),
    # Those of vllm that differ by more are in the first step of a burst, after which it sets its gauges.
    [("envoy-accesslog-vllm", 127, 104, 119), ("dynamo-mocker", 104, 103, 104)],
)
def test_levels_follow_the_client(capture: str, scrapes: int, equal: int, within_one: int) -> None:
    _, levels = replayed(capture)
    truth = rows(capture, "truth.jsonl")
    off: Counter[int] = Counter()
    for time_ns, level in levels.items():
        open_then = [each for each in truth if each["send_unix_ns"] <= time_ns < each["end_unix_ns"]]
        answers = len(open_then) if "dynamo" in capture else sum(each["n"] * each["prompts"] for each in open_then)
        assert level is not None
        off[abs(round(level) - answers)] += 1
    assert (sum(off.values()), off[0], off[0] + off[1]) == (scrapes, equal, within_one)


def test_over_a_run_of_vllm_arrivals_are_those_that_ended_well_as_it_counts_no_other_and_n_answers_are_n() -> None:
    of, levels = replayed("envoy-accesslog-vllm")
    times = list(levels)
    truth = rows("envoy-accesslog-vllm", "truth.jsonl")
    found = of.flow("model", times[0], times[-1])
    assert found is not None
    assert found.arrivals is not None
    well = sum(each["n"] * each["prompts"] for each in truth if each["outcome"] == "ok")
    assert round(found.arrivals * (times[-1] - times[0]) / SECOND, 6) == well == 159
    assert Counter(each["outcome"] for each in truth)["aborted"] == 19
    assert found.backlog_growth == 0


@pytest.mark.parametrize("length_s", [10, 30])
def test_in_every_window_of_a_run_of_dynamo_arrivals_are_those_that_the_client_sent(length_s: int) -> None:
    of, levels = replayed("dynamo-mocker")
    times = list(levels)
    sent = [
        each["send_unix_ns"]
        for each in rows("dynamo-mocker", "truth.jsonl")
        if each["scenario"] not in DYNAMO_REFUSED  # these never reach its counters
    ]
    windows = 0
    for place, from_ns in enumerate(times):
        later = next((to_ns for to_ns in times[place:] if to_ns >= from_ns + length_s * SECOND), None)
        found = None if later is None else of.flow("service", from_ns, later)
        if later is not None and found is not None and found.arrivals is not None:
            came = sum(from_ns < each <= later for each in sent)
            assert found.arrivals * (later - from_ns) / SECOND == pytest.approx(came)
            windows += 1
    assert windows > 40


# Flow balance.


def test_a_hung_server_takes_on_what_it_does_not_finish() -> None:
    of = scraped(*range(0, 26, 2), ended=100)
    assert flow(of, 60) == Flow(arrivals=24 / 60, backlog_growth=24 / 60, in_flight=24)


def test_arrivals_are_what_was_finished_and_what_is_left_over() -> None:
    of = gauges()
    for second in range(0, 65, 5):  # 30/s in, 22/s out
        of.take(URL, T0 + second * SECOND, vllm(4, 8 * second, ended=22 * second))
    assert flow(of, 60) == Flow(arrivals=30, backlog_growth=8, in_flight=484)


def test_a_request_that_leaves_uncounted_is_missing_from_arrivals_and_not_from_growth() -> None:
    of = scraped(*([10] * 12), 7, ended=5)
    assert flow(of, 60) == Flow(arrivals=None, backlog_growth=-3 / 60, in_flight=7)


def test_a_server_that_was_started_anew_tells_no_arrivals_over_the_start() -> None:
    of = gauges()
    for second in range(0, 125, 5):
        of.take(URL, T0 + second * SECOND, vllm(3, ended=100 + second if second < 30 else second))
    found = flow(of, 60)
    assert found == Flow(arrivals=None, backlog_growth=0, in_flight=3)
    assert flow(of, 90) == Flow(arrivals=1, backlog_growth=0, in_flight=3)


def test_a_server_that_counts_nothing_tells_its_growth_only() -> None:
    assert flow(scraped(*range(13), ended=None), 60) == Flow(arrivals=None, backlog_growth=12 / 60, in_flight=12)


@pytest.mark.parametrize(("to_s", "told"), [(60, True), (65, True), (66, False), (55, True), (54, False)])
def test_a_rate_needs_a_scrape_within_one_period_of_both_edges(to_s: int, told: bool) -> None:
    assert (flow(scraped(*([1] * 13)), to_s) is not None) == told


def test_a_rate_is_over_the_time_between_its_scrapes() -> None:
    of = scraped(*range(13))
    found = flow(of, 63)  # from the one at 5 s to that at 60 s
    assert found is not None
    assert found.backlog_growth == pytest.approx(11 / 55)


def test_one_lost_scrape_at_an_edge_does_no_harm_and_two_do() -> None:
    of = gauges()
    for second in (0, 10, 60, 65, 80, 140):
        of.take(URL, T0 + second * SECOND, vllm(1))
    assert flow(of, 65) is not None
    assert flow(of, 72.5) is None


def test_a_window_of_fewer_than_four_periods_has_no_rate() -> None:
    of = scraped(*([1] * 20))
    assert flow(of, 60, length_s=20) is not None
    assert flow(of, 60, length_s=19) is None


# The level.


def test_a_level_is_shown_for_three_periods_and_then_disappears() -> None:
    of = scraped(7)
    assert of.level("model", T0 + 15 * SECOND) == 7
    assert of.level("model", T0 + 15 * SECOND + 1) is None


def test_several_servers_are_told_together_or_not_at_all() -> None:
    of = gauges(Scrape(url=URL), Scrape(url=OTHER))
    of.take(URL, T0, vllm(1))
    assert (of.boundaries, of.level("model", T0)) == ({"model"}, None)
    of.take(OTHER, T0, vllm(2))
    assert of.level("model", T0) == 3
    of.take(URL, T0 + 20 * SECOND, vllm(1))
    assert of.level("model", T0 + 20 * SECOND) is None


def test_servers_of_other_boundaries_stand_apart() -> None:
    of = gauges(Scrape(url=URL), Scrape(url=OTHER))
    of.take(URL, T0, vllm(1))
    of.take(OTHER, T0, dynamo(5, 0))
    assert (of.level("model", T0), of.level("service", T0)) == (1, 5)


def test_rates_of_several_servers_are_added_up() -> None:
    of = gauges(Scrape(url=URL), Scrape(url=OTHER))
    for second in range(0, 65, 5):
        of.take(URL, T0 + second * SECOND, vllm(second, ended=0))
        of.take(OTHER, T0 + (second + 2) * SECOND, vllm(2 * second, ended=second))
    assert flow(of, 60) == Flow(arrivals=4, backlog_growth=3, in_flight=180)


def test_another_server_at_the_same_address_begins_anew() -> None:
    of = scraped(1, 2, 3)
    of.take(URL, T0 + 15 * SECOND, dynamo(5, 0))
    assert (of.level("model", T0 + 15 * SECOND), of.level("service", T0 + 15 * SECOND)) == (None, 5)


def test_a_clock_that_is_set_back_takes_the_samples_of_the_future_with_it() -> None:
    of = scraped(*range(30))
    of.take(URL, T0 + 62 * SECOND, vllm(99))
    found = flow(of, 62)
    assert found is not None
    assert found.in_flight == 99
    assert flow(of, 120) is None


def test_a_reload_keeps_the_levels_of_servers_that_stay_and_counts_only_those() -> None:
    of = scraped(7)
    of.results[URL, "ok"] += 1
    of.reconfigure([Scrape(url=URL), Scrape(url=OTHER)], SECOND)
    assert of.results[URL, "ok"] == 1
    assert of.results[OTHER, "timeout"] == 0
    assert (OTHER, "timeout") in of.results
    of.reconfigure([Scrape(url=URL)], SECOND)
    assert of.level("model", T0) == 7
    of.reconfigure([], SECOND)
    assert (of.level("model", T0), of.boundaries, dict(of.results)) == (None, set(), {})


def test_memory_follows_the_longest_window_and_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    of = gauges(keep_s=60)
    body = vllm(1)
    for place in range(100):
        of.take(URL, T0 + place * 5 * SECOND, body)
    assert flow(of, 495) is not None
    assert flow(of, 400) is None
    monkeypatch.setattr("exporter.gauges.MAX_SAMPLES", 100)
    endless = gauges(keep_s=10**6)
    for place in range(110):
        endless.take(URL, T0 + place * 5 * SECOND, body)
    assert flow(endless, 545, length_s=490) is not None
    assert flow(endless, 545, length_s=510) is None
