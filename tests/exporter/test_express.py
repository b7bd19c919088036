import heapq
from array import array
from dataclasses import replace
from itertools import count, pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from exporter import express, record
from exporter.config import Label, Labels, Settings
from exporter.express import MOST_ACTS
from exporter.join import trace_key
from exporter.pipeline import Pipeline
from exporter.places import Places, Queue
from exporter.profile import built_in
from exporter.record import MISSING
from tests.exporter.live import Live, slo
from tests.exporter.spans import Sent, body, envoy, ns, of_models, span, vllm

pytestmark = pytest.mark.both_builds

LABELS = tuple(Label(name=name, attributes=(name,)) for name in ("tenant", "tier"))
MOST_ROWS = 24
"""As in exporter.express, where it is C's once that is compiled."""
KEYS = st.integers(0, 7) | st.integers(0, 2**64 - 1)


@given(st.lists(st.tuples(KEYS, st.integers(-2, 2**40), st.booleans()), max_size=3_000))
def test_places_are_a_mapping(steps: list[tuple[int, int, bool]]) -> None:
    places, oracle = Places(), dict[int, int]()
    for key, place, put in steps:
        key = key or 1  # 0 and 1 are one key
        if put:
            places.put(key, place)
            oracle[key] = place
        else:
            places.remove(key)
            oracle.pop(key, None)
        assert places.count == len(oracle)
    for key, _, _ in steps:
        assert places.find(key or 1) == oracle.get(key or 1, -1)


@given(st.lists(st.integers(0, 50) | st.none(), max_size=300), st.booleans())
def test_a_queue_gives_the_earliest_first(steps: list[int | None], rising: bool) -> None:
    queue, oracle, now = Queue(), list[tuple[int, int]](), 0
    slots = memoryview(array("q", bytes(8 * 16 * 20 * 300)))
    for number, step in enumerate(steps * 20):
        if step is None:
            assert queue.first == (oracle[0][0] if oracle else 2**63 - 1)
            if oracle:
                time, place = queue.first, queue.pop()
                oracle.remove((time, place))
                heapq.heapify(oracle)
        else:
            now = now + step if rising else step
            slots[16 * number] = now
            queue.push(now, number, slots)
            heapq.heappush(oracle, (now, number))


def test_a_queue_keeps_a_time_that_may_yet_be_that_of_its_slot() -> None:
    queue, slots = Queue(10), memoryview(array("q", bytes(8 * 16 * 5_000)))
    slots[16 * 7], slots[16 * 7 + 4] = 30, 25
    queue.push(35, 7, slots)
    for number in range(100, 5_000):  # so many that it must tidy, or grow
        slots[16 * number] = -1
        queue.push(number, number, slots)
    assert (queue.first, queue.pop(), queue.popped) == (35, 7, 35)
    assert queue.first > 4_000, "others had no such time"


def test_who_waits_is_never_sorted_as_long_as_the_clock_goes_on() -> None:
    of = Live(grace_ms=2_000)
    alike(of, 3, seed=1)
    gateways = [envoy(at, at + 500) for at in range(10_000, 30_000, 100)]
    for each, at in enumerate(range(10_000, 30_000, 100)):
        of.feed(vllm(at + 10, at + 60, ttft=5, output=50, parent=gateways[each]), at=at + 70)
        if each >= 8:
            of.feed(gateways[each - 8], at=at + 80)  # while others have begun since
        of.tick(at + 90)
        assert of.pipeline.express.soon.size == 0
    of.feed(*gateways[-8:], at=30_000)
    of.tick(90_000)
    assert of.boundary("end_to_end")["outcomes"]["ok"] == 203


def test_a_job_whose_work_came_after_the_clock_was_set_back_is_counted() -> None:
    of = Live(grace_ms=1_000)
    for each, back in enumerate((0, 0, 0, 0, 3_000)):
        at = 20_000 * (1 + each)
        put = span("send", scope="broker", kind="producer", start=at - 3_900, end=at - 3_899)
        of.feed(put, at=at)
        of.tick(at + 1_100)
        work = span("work", scope="broker", kind="consumer", start=at - 3_800, end=at - 3_790, parent=put)
        of.feed(work, at=at + 1_500 - back)
        of.tick(at + 2_600 - back)
        of.tick(at + 2_700)
    assert of.pipeline.express.open == 0
    gateway = of.boundary("end_to_end")
    assert (gateway["arrivals"], gateway["in_flight"], sum(gateway["outcomes"].values())) == (5, 0, 5)


def alike(of: Live, count: int, seed: int, status: int = 200) -> None:
    rng = Random(seed)
    for each in range(count):
        at = 1_000 * each
        gateway = envoy(at, at + rng.uniform(100, 900), status=status)
        engine = vllm(at + 10, at + rng.uniform(20, 99), ttft=5, output=rng.randrange(3, 99), parent=gateway)
        of.feed(gateway, engine, at=at + 900)
        of.tick(at + 950)


def test_a_request_like_two_before_it_is_counted_by_their_act() -> None:
    of = Live(slo("completion end_to_end 95 2s 5m"))
    alike(of, 10, seed=3)
    (shape,) = of.pipeline.express.shapes.values()
    assert (len(shape.acts), shape.misses) == (1, 2)
    assert of.report()["slos"]["chat"]["good"] == 10


def test_an_act_does_not_outlive_what_it_hangs_on() -> None:
    of = Live()
    for each in range(4):
        of.feed(envoy(1_000 * each, 1_000 * each + 500), at=1_000 * each + 500)
        of.tick(1_000 * each + 600)
    outcomes = of.boundary("end_to_end")["outcomes"]
    assert outcomes["ok"] == 4, "no engine was seen behind this route yet"
    alike(of, 1, seed=1)
    of.feed(envoy(9_000, 9_500), at=9_500)
    of.tick(9_600)
    assert of.boundary("end_to_end")["outcomes"]["unknown"] == 1


def test_a_shape_whose_numbers_never_stand_alike_has_a_bound() -> None:
    of = Live()
    rng = Random(5)
    for each in range(400):
        at = 1_000 * each
        gateway = envoy(at, at + 900)
        engines = [vllm(at + rng.randrange(1, 400), at + rng.randrange(401, 899), ttft=rng.randrange(900), output=9,
                        parent=gateway) for _ in range(6)]  # fmt: skip
        of.feed(gateway, *engines, at=at + 900)
        of.tick(at + 950)
    shapes = of.pipeline.express.shapes.values()
    assert all(len(shape.acts) <= MOST_ACTS for shape in shapes)
    assert of.boundary("end_to_end")["arrivals"] == 400


def test_shapes_that_do_not_come_again_are_not_rehearsed_for_ever() -> None:
    of = Live()
    for each in range(600):  # each shape twice: another number of spans of other applications between the two
        at = 1_000 * each
        spans = [envoy(at, at + 900)]
        for bit in range(5):
            other = "b" if each // 2 >> bit & 1 else "a"
            spans.append(span(other, scope=f"{other}-{each // 64}", start=at + bit, end=at + 800, parent=spans[-1]))
        of.feed(*spans, vllm(at + 10, at + 700, ttft=5, output=3, parent=spans[-1]), at=at + 900)
        of.pipeline.seal_all(ns(at + 950))
    assert of.pipeline.express.credit < 20
    assert sum(len(shape.acts) for shape in of.pipeline.express.shapes.values()) <= 200 + 600 / 20
    assert of.boundary("end_to_end")["arrivals"] == 600


def test_spans_of_other_applications_make_no_shape() -> None:
    of, rng = Live(), Random(2)
    for each in range(40):
        at = 1_000 * each
        client = span("client", start=at - 1, end=at + 950)
        gateway = envoy(at, at + 900, parent=client)
        through = span("through", start=at + 1, end=at + 890, parent=gateway)
        spans = [client, gateway, through, vllm(at + 10, at + 800, ttft=5, output=3, parent=through)]
        for _ in range(rng.randrange(MOST_ROWS - 4)):
            start = at + rng.uniform(-50, 800)
            name, around = f"work-{rng.randrange(9)}", rng.choice([*spans[4:], client, gateway])
            spans.append(span(name, start=start, end=start + rng.uniform(0, 99), parent=around))
        rng.shuffle(spans)
        of.feed(*spans, at=at + 950)
        of.tick(at + 960)
    (shape,) = of.pipeline.express.shapes.values()
    assert shape.misses == 2
    assert (of.pipeline.open, of.pipeline.stored, of.pipeline.tally.joined) == (0, 0, {"whole": 40})


@pytest.mark.parametrize("more", [0, 1, 10])
def test_a_trace_of_many_spans_is_joined(more: int) -> None:
    of = Live(grace_ms=1_000)
    for each in range(5):
        at = 10_000 * each
        gateway = envoy(at, at + 900)
        others = [span("work", start=at + step, end=at + 800, parent=gateway) for step in range(MOST_ROWS - 2 + more)]
        of.feed(*others, at=at + 850)
        of.feed(gateway, vllm(at + 10, at + 800, ttft=5, output=3, parent=gateway), at=at + 1_000)
        of.tick(at + 1_900)
        assert of.pipeline.stored == 2, "of the others nothing is young, or stands around what is"
        of.tick(at + 2_100)
        assert (of.pipeline.open, of.pipeline.stored) == (0, 0)
    assert of.pipeline.tally.joined == {"whole": 5}
    assert bool(of.pipeline.express.shapes) == (more == 0), "with one more it is the table's"
    assert of.pipeline.fates["unrecognised"] == 5 * (MOST_ROWS - 2 + more)


def test_a_trace_without_a_request_is_freed_as_it_grows_old_and_teaches_nothing() -> None:
    of = Live(grace_ms=2_000)
    for each in range(4):
        at = 10_000 * each
        outer = span("outer", start=at, end=at + 9_000)
        around = span("around", start=at, end=at + 25, parent=outer)
        of.feed(around, span("inner", start=at + 10, end=at + 20, parent=outer), at=at + 30)
        of.feed(span("young", start=at + 1_000, end=at + 1_500, parent=around), at=at + 1_600)
        of.tick(at + 2_100)
        assert (of.pipeline.open, of.pipeline.stored) == (1, 2), "the young one, and what it stands in"
        of.tick(at + 3_700)
        assert (of.pipeline.open, of.pipeline.stored) == (0, 0)
    assert not of.pipeline.express.shapes
    assert of.pipeline.fates["unrecognised"] == 12


def test_a_request_goes_when_it_is_old_and_leaves_what_came_later_to_wait() -> None:
    of = Live(grace_ms=2_000)
    for each in range(6):
        at = 10_000 * each
        client = span("client", start=at - 1, end=at + 1_400)
        gateway = envoy(at, at + 900, parent=client)
        of.feed(gateway, vllm(at + 10, at + 800, ttft=5, output=3, parent=gateway), at=at + 950)
        of.feed(client, at=at + 1_500)
        of.tick(at + 3_000)
        assert of.pipeline.tally.joined == {"whole": each + 1}
        assert (of.pipeline.open, of.pipeline.stored) == (1, 1)
        assert of.pipeline.express.ids.count == 1, "by its request id the trace is known until it is done"
        of.tick(at + 3_600)
        assert (of.pipeline.open, of.pipeline.stored) == (0, 0)
        assert (of.pipeline.express.ids.count, of.pipeline.express.traces.count) == (0, 0)
    (shape,) = of.pipeline.express.shapes.values()
    assert shape.misses == 2


def test_a_job_that_is_done_goes_when_it_is_old_whatever_else_goes_on_in_its_trace() -> None:
    of = Live(grace_ms=1_000)
    for each in range(6):
        at = 10_000 * each
        put = span("send", scope="broker", kind="producer", start=at, end=at + 1)
        of.feed(put, at=at + 10)
        of.tick(at + 1_100)
        assert of.boundary("end_to_end")["in_flight"] == 1
        work = span("work", scope="broker", kind="consumer", start=at + 3_000, end=at + 3_100, parent=put)
        of.feed(work, at=at + 3_150)
        of.feed(span("other", start=at + 3_050, end=at + 3_900, parent=work), at=at + 4_000)
        of.tick(at + 4_200)
        assert sum(of.boundary("end_to_end")["outcomes"].values()) == each + 1
        of.tick(at + 6_000)
        assert (of.pipeline.open, of.pipeline.stored) == (0, 0)


def test_a_job_is_in_flight_though_another_of_its_trace_was_done_and_something_else_goes_on_there() -> None:
    of = Live(grace_ms=10_000)

    def job(at: float, trace: bytes | None) -> tuple[Sent, Sent]:
        put = span("send", scope="broker", kind="producer", start=at, end=at + 1, trace=trace)
        return put, span("work", scope="broker", kind="consumer", start=at + 29_000, end=at + 29_900, parent=put)

    for each in range(8):
        at, trace = 200_000 * each, bytes([each + 1]) * 16
        for begun in (at, at + 42_000):
            put, work = job(begun, trace)
            of.feed(put, at=begun + 5)
            of.tick(begun + 4_000)  # now the other one goes
            of.tick(begun + 18_000)
            assert of.boundary("end_to_end")["in_flight"] == 1
            of.feed(work, at=begun + 30_000)
            of.feed(span("other", start=begun + 34_000, end=begun + 34_999, trace=trace), at=begun + 35_000)
            of.tick(begun + 41_000)
            assert of.boundary("end_to_end")["in_flight"] == 0
    assert (of.pipeline.open, of.boundary("end_to_end")["arrivals"]) == (1, 16)


def test_a_job_is_announced_once_whatever_else_of_its_trace_goes_before_it() -> None:
    of = Live(grace_ms=10_000)
    for each in range(14):
        at = 200_000 * each
        put = span("send", scope="broker", kind="producer", start=at, end=at + 1)
        work = span("work", scope="broker", kind="consumer", start=at + 34_000, end=at + 34_900, parent=put)
        answer = vllm(at - 50, at + 34_050, ttft=5, output=9, parent=work)  # by a clock that is behind
        of.feed(put, at=at + 5)
        of.tick(at + 11_000)
        of.feed(span("other", start=at, end=at + 29_900, parent=put), at=at + 30_000)
        of.feed(work, answer, at=at + 35_000)
        of.tick(at + 42_000)  # the other one goes, and the job stays
        if each > 7:
            of.feed(span("linked", start=at, end=at + 42_000, parent=put, links=[envoy(0, 1)]), at=at + 42_001)
        of.tick(at + 90_000)
    end = of.boundary("end_to_end")
    assert (of.pipeline.open, end["arrivals"], end["in_flight"]) == (0, 14, 0)


def test_a_request_id_that_was_passed_on_is_not_that_of_the_span_that_has_it() -> None:
    of = Live(grace_ms=10_000)
    for each in range(6):
        at = 100_000 * each
        gateway = envoy(at, at + 900)
        other = span("other", start=at, end=at + 5_000, parent=gateway)
        of.feed(gateway, vllm(at + 10, at + 800, ttft=5, output=3, parent=gateway), at=at + 950)
        of.feed(other, at=at + 6_000)
        of.tick(at + 11_000)
        assert of.pipeline.tally.joined == {"whole": each + 1}
        assert of.pipeline.express.ids.count == 1
        if each == 5:
            of.pipeline.express.hand_over_all()
            (gathering,) = of.pipeline.table.gatherings.values()
            (at_row,) = gathering.rows
            assert of.pipeline.table.cells[at_row + record.REQUEST_ID] == MISSING
            assert list(of.pipeline.table.by_id.values()) == [gathering]
        of.tick(at + 90_000)
    assert (of.pipeline.open, of.pipeline.table.by_id) == (0, {})


def test_what_is_left_of_a_request_that_was_too_old_is_freed_though_many_others_came_meanwhile() -> None:
    of = Live(join=replace(Settings().join, grace_ns=ns(10_000) - ns(0), max_age_ns=ns(20_000) - ns(0)))
    for each in range(8):
        at = 100_000 * each
        gateway = envoy(at, at + 19_000)
        of.feed(gateway, at=at + 1)
        of.feed(vllm(at + 8_000, at + 8_900, ttft=5, output=9, parent=gateway), at=at + 9_000)
        of.feed(span("other", start=at + 1, end=at + 16_900, parent=gateway), at=at + 17_000)
        of.feed(vllm(at + 17_500, at + 18_400, ttft=5, output=9, parent=gateway), at=at + 18_500)
        for more in range(2_500 * (each > 5)):
            of.feed(envoy(at + 17_500, at + 17_600), at=at + 18_600 + more / 10)
        of.tick(at + 20_100)
        of.tick(at + 60_000)
        assert (of.pipeline.open, of.pipeline.stored) == (0, 0)


def test_a_reload_keeps_what_waits() -> None:
    pipeline = Pipeline(Settings(), built_in(), [])
    gateway = envoy(0, 500)
    pipeline.feed(body(gateway), encoding="protobuf", transport="http", now_ns=ns(500))
    assert (pipeline.open, pipeline.stored) == (1, 1)
    pipeline.reconfigure(Settings(), built_in(), [])
    assert (pipeline.open, pipeline.stored) == (1, 1)
    pipeline.feed(
        body(vllm(10, 400, ttft=5, output=3, parent=gateway)), encoding="protobuf", transport="http", now_ns=ns(600)
    )
    pipeline.tick(ns(60_000))
    assert pipeline.tally.joined["whole"] == 1
    assert pipeline.fates["used"] == 2


@given(st.integers(0, 2**32), st.lists(st.integers(0, 2**20 - 1), min_size=1, max_size=9))
def test_rows_wait_as_they_came(seed: int, kinds: list[int]) -> None:
    """Whichever cells there are, and whoever waited where they wait now. `kinds`: a bit for each cell that may be."""
    rng = Random(seed)
    of = Pipeline(Settings(labels=Labels(declared=LABELS)), built_in(), []).express
    may_be = [*express.TAIL, record.REQUEST_ID, record.SEQUENCE_ID, *range(record.LABELS, of.width)]
    waiting: dict[tuple[int, int], list[list[int]]] = {}
    for number in range(300):
        row = [MISSING] * of.width
        for bit, cell in enumerate(may_be):
            if rng.choice(kinds) >> bit & 1:
                row[cell] = rng.randrange(-(2**62), 2**62)
        for cell in (record.PARENT, record.CLOCK, record.RESOURCE, record.STATUS):
            row[cell] = rng.randrange(4)
        trace = rng.choice([*waiting, (rng.randrange(2**62), number)])
        row[record.TRACE_HI], row[record.TRACE_LO], row[record.SPAN] = *trace, number + 1
        row[record.START], row[record.END], row[record.SEEN], row[record.PROFILE] = number, number, number, 0
        odd = of.receive(memoryview(array("q", row)), 1, number, 0, 1, 2)
        if odd:  # one more than may be in a trace
            waiting.pop(trace)
            continue
        waiting.setdefault(trace, []).append(row)
        if rng.random() < 0.2:
            trace = rng.choice(list(waiting))
            of.drop(of.traces.find(trace_key(*trace)), True)
            del waiting[trace]
        if rng.random() < 0.05:
            of.renumber()
    for trace, rows in waiting.items():
        assert of.rows_of(of.traces.find(trace_key(*trace))) == rows


def test_rows_of_ever_other_sizes_take_room_for_three_sizes_at_most() -> None:
    labels = tuple(Label(name=f"label{number}", attributes=("x",)) for number in range(37))
    of = Pipeline(Settings(labels=Labels(declared=labels)), built_in(), []).express
    more = [*express.TAIL, *range(record.LABELS, of.width)]
    for many in range(0, len(more) + 1, 3):
        for number in range(500):
            row = [MISSING] * of.width
            row[: record.PROFILE + 1] = many, number + 1, number + 1, 0, number, number, number, 0
            for cell in more[:many]:
                row[cell] = 7
            assert not of.receive(memoryview(array("q", row)), 1, number, 0, 1, 2)
        for number in range(500):
            of.drop(of.traces.find(trace_key(many, number + 1)), True)
    lines = 2 + 3 + 8
    assert len(of.row_ground.memory) <= 2 * 64 * lines * (500 + 64)


def test_kinds_of_spans_that_do_not_come_any_more_are_forgotten() -> None:
    of = Live(grace_ms=2_000)
    for each in range(30):
        at = 1_000 * each
        gateway = envoy(at, at + 900, status=201 + each)
        of.feed(gateway, vllm(at + 10, at + 800, ttft=5, output=3, parent=gateway), at=at + 900)
        of.tick(at + 950)
    express = of.pipeline.express
    assert (express.open, express.kinds_known) == (2, 31)
    express.renumber()
    assert express.kinds_known == 3, "two gateways, and an engine"
    alike(of, 30, seed=1)
    assert express.kinds_known == 4
    of.tick(99_000)
    assert (of.boundary("end_to_end")["arrivals"], of.pipeline.tally.joined) == (60, {"whole": 60})


def test_who_waits_to_be_counted_keeps_the_series_in_which_it_will_be() -> None:
    of, rng = Live(limits=replace(Settings().limits, series_idle_ns=ns(60_000) - ns(0))), Random(1)

    def asked(model: str, at: float, count: int) -> None:
        named = {"gen_ai.response.model": model}
        ages = [rng.uniform(200, 900) for _ in range(count)]
        of.feed(*(vllm(at - age, at, ttft=age * rng.random(), output=9, attributes=named) for age in ages))

    for at in range(5):
        asked("seldom", 10 * at, 1)
        of.tick(10 * at + 1)
    for at in range(99_000, 99_900, 100):
        asked("often", at, 500)
    of.pipeline.express.flush(ns(99_999))
    steps = of.pipeline.tick_in_steps(ns(100_000))
    next(steps)  # there is too much to move at once
    asked("seldom", 100_000, 1)
    for _ in steps:
        pass
    scrape = of.scrape(100_001)
    assert scrape.total("inference_completions_total", boundary="model", model="seldom") == 6
    assert scrape.total("inference_completions_total", boundary="model", model="often") == 4_500


def test_the_last_place_for_a_series_is_that_of_who_comes_first() -> None:
    of = Live(limits=replace(Settings().limits, series=2))

    def asked(model: str, at: float, **others: Any) -> None:
        of.feed(vllm(at - 90, at, ttft=5, output=9, attributes={"gen_ai.response.model": model}, **others))

    for at in range(5):
        asked("known", 100 * at)
        of.tick(100 * at + 1)
    asked("first", 1_000)  # the short way, on which it waits to be counted with others
    asked("second", 1_001, state="ot=th:8")  # the general way
    scrape = of.scrape(1_002)
    models = {sample.labels["model"] for sample in scrape.where("inference_completions_total", boundary="model")}
    assert models == {"known", "first", "other"}


def alternate(of: Live, **either: tuple[Any, Any]) -> None:
    """A dozen requests of gateways that differ in one thing."""
    for each in range(12):
        at = 1_000 * each
        gateway = envoy(at, at + 900, **{name: values[each % 2] for name, values in either.items()})
        of.feed(gateway, vllm(at + 10, at + 800, ttft=5, output=3, parent=gateway), at=at + 900)
        of.tick(at + 950)
    of.tick(99_000)
    assert of.boundary("end_to_end")["outcomes"]["ok"] == 12


def test_requests_of_other_hosts_have_the_same_shape() -> None:
    of = Live()
    alternate(of, resource=({"host.name": "one"}, {"host.name": "other"}))
    (shape,) = of.pipeline.express.shapes.values()
    assert shape.misses == 2


def test_several_answers_that_begin_together_go_the_short_way() -> None:
    of, rng = Live(), Random(4)
    for each in range(100):
        at = 1_000 * each
        gateway = envoy(at, at + 900)
        answers = [vllm(at + 10, at + rng.uniform(100, 890), ttft=50, output=9, parent=gateway) for _ in range(3)]
        of.feed(gateway, *answers, at=at + 900)
        of.tick(at + 950)
    (shape,) = of.pipeline.express.shapes.values()
    assert shape.misses < 20, "whichever of them has the least id, and is the first"
    assert of.boundary("end_to_end")["outcomes"]["ok"] == of.boundary("model")["arrivals"] == 100


def test_requests_of_other_shapes_are_counted_by_the_same_plans_if_that_makes_no_difference() -> None:
    of = Live()
    alternate(of, status=(200, 201))
    shapes = of.pipeline.express.shapes.values()
    one, other = (act for shape in shapes for act in shape.acts if act.boundaries)
    assert one.plans is other.plans
    assert len(one.plans) == 1


def test_who_waits_when_plans_become_void_is_counted_by_new_ones() -> None:
    of = Live(slo("completion model 95 2s 5m"))
    alike(of, 10, seed=3)
    of.pipeline.express.flush(ns(10_000))
    gateway = envoy(10_000, 10_900)
    of.feed(gateway, vllm(10_010, 10_060, ttft=5, output=50, parent=gateway), at=10_950)
    of.pipeline.seal_all(ns(20_000))
    tally = of.pipeline._tally  # `tally` would have it counted
    (old,) = tally.selections.values()
    tally._retire(old)
    tally._retire(old)
    tally._plan_anew()
    of.tick(21_000)
    (new,) = tally.selections.values()
    assert tally.retired == [old]
    assert [sum(group.count for group in each.groups) for each in (old, new)] == [1, 1], "patterns"
    assert of.report()["slos"]["chat"]["good"] == 11


def test_requests_are_counted_in_steps_and_those_that_come_meanwhile_once() -> None:
    of, rng = Live(), Random(1)

    def asked(at: float, count: int) -> None:
        for _ in range(count):
            named = {"gen_ai.response.model": f"model-{rng.randrange(90)}"}
            of.feed(vllm(at - rng.uniform(200, 900), at, ttft=9, output=9, attributes=named), at=at)

    for at in range(0, 100, 10):
        asked(at, 1)
        of.tick(at + 5_000)
    asked(9_000, 900)
    steps = of.pipeline.tick_in_steps(ns(12_000))
    assert next(steps, "done") is None, "some are left for another step"
    asked(12_100, 7)
    for _ in steps:
        pass
    of.tick(60_000)
    assert of.boundary("model")["outcomes"]["ok"] == 917


def test_plans_have_a_bound_whatever_requests_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(express, "MOST_PLANS", 5)
    of, sampled = Live(), [f"ot=rv:ffffffffffffff;th:{threshold}" for threshold in "08c"]
    for each in range(390):
        at, named = 1_000 * each, {"gen_ai.response.model": f"model-{each % 13}"}
        of.feed(vllm(at, at + 900, ttft=9, output=9, attributes=named, state=sampled[each // 13 % 3]), at=at + 950)
        of.tick(at + 990)
        kept = of.pipeline.express.plans
        assert sum(len(plans) for plans in kept.values()) <= 5
    assert len(kept) == 3
    of.tick(499_000)
    assert of.boundary("model")["outcomes"]["ok"] == 130 * (1 + 2 + 4)


def records_of(*gateways: Sent) -> bytes:
    """What Envoy logs of requests when they have ended."""
    request = ExportLogsServiceRequest()
    for gateway in gateways:
        span = gateway.message
        seconds, rest = divmod(span.end_time_unix_nano, 10**9)
        named = {
            "access_log_type": "DownstreamEnd", "method": "POST", "path": "/v1/chat/completions",
            "request_id": next(each.value.string_value for each in span.attributes if each.key == "guid:x-request-id"),
            "emit_time": f"{seconds}.{rest:09}", "response_code": "200", "response_flags": "-",
            "us_rx_body_beg_us": "500", "ds_tx_end_us": "900",
        }  # fmt: skip
        request.resource_logs.add().scope_logs.add().log_records.add(
            time_unix_nano=span.start_time_unix_nano, trace_id=span.trace_id, span_id=span.span_id,
            attributes=[KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in named.items()],
        )  # fmt: skip
    return request.SerializeToString()


@pytest.mark.parametrize("requests", [60, 300, 700])
def test_a_replay_of_spans_and_then_of_logs_tells_of_each_request_once(requests: int) -> None:
    pipeline, gateways = Pipeline(Settings(), built_in(), [], replay=True), []
    for at in range(0, 1_000 * requests, 1_000):
        gateways.append(envoy(at, at + 900))
        engine = vllm(at + 10, at + 890, ttft=5, output=3, parent=gateways[-1])
        pipeline.feed(body(gateways[-1], engine), encoding="protobuf", transport="http", now_ns=0)
    assert pipeline.express.shapes or requests < 700, "some are sealed, and wait to be measured"
    for gateway in gateways:
        pipeline.feed(records_of(gateway), encoding="protobuf", transport="http", now_ns=0, signal="logs")
    pipeline.finish()
    assert pipeline.report()["boundaries"]["end_to_end"]["arrivals"] == requests
    assert pipeline.report()["boundaries"]["model"]["arrivals"] == requests
    assert pipeline.tally.joined == {"whole": requests}


def test_a_request_of_which_the_first_log_record_tells_is_joined_with_it() -> None:
    of = Live(grace_ms=2_000)
    alike(of, 10, seed=3)
    gateway = envoy(20_000, 20_900)
    of.feed(gateway, vllm(20_010, 20_060, ttft=5, output=50, parent=gateway), at=20_950)
    told = records_of(gateway)
    of.pipeline.feed(told, encoding="protobuf", transport="http", now_ns=ns(21_000), signal="logs")
    of.tick(90_000)
    assert of.boundary("end_to_end")["arrivals"] == 11
    assert of.pipeline.tally.joined == {"whole": 11}


def test_a_job_leaves_its_queue_though_logs_tell_of_other_requests() -> None:
    of = Live(grace_ms=1_000)
    other = envoy(0, 900)
    of.pipeline.feed(records_of(other), encoding="protobuf", transport="http", now_ns=ns(1_000), signal="logs")
    put = span("send", scope="broker", kind="producer", start=0, end=1)
    of.feed(put, at=1_000)
    of.tick(9_000)
    assert (of.boundary("end_to_end")["arrivals"], of.boundary("end_to_end")["in_flight"]) == (2, 1)
    of.feed(span("work", scope="broker", kind="consumer", start=60_000, end=60_050, parent=put), at=60_050)
    of.tick(90_000)
    gateway = of.boundary("end_to_end")
    assert (gateway["arrivals"], gateway["in_flight"], sum(gateway["outcomes"].values())) == (2, 0, 2)


def test_a_tick_ends_though_others_come_as_fast_as_it_counts() -> None:
    of = Live()
    for at in range(1_000, 6_000, 1_000):
        of.feed(*of_models(at, [0]), at=at)
        of.tick(at + 900)
    of.feed(*of_models(10_000, [number % 90 for number in range(1_500)]), at=10_000)
    halts = 0
    for _ in of.pipeline.tick_in_steps(ns(10_000)):
        halts += 1
        assert halts < 100
        of.feed(*of_models(10_000, [number % 90 for number in range(300)]), at=10_000)
    assert of.boundary("model")["outcomes"]["ok"] == 5 + 1_500 + 300 * halts


def test_as_many_wait_as_may_and_as_others_come_those_are_counted_that_wait_longest() -> None:
    of, waiting, number = Live(), list[int](), count()

    def asked(at: float, requests: int, gateways: bool) -> None:
        spans = []
        for _ in range(requests):
            named = {"gen_ai.response.model": f"model-{next(number) % 300}"}
            gateway = envoy(at - 900, at) if gateways else None
            spans.append(vllm(at - 800, at - 10, ttft=9, output=9, attributes=named, parent=gateway))
            if gateway is not None:
                spans.append(gateway)
        of.feed(*spans, at=at)

    for at in range(1_000, 11_000, 1_000):
        asked(at, 1, gateways=False)
        of.tick(at + 900)
    for at in range(20_000, 80_000, 100):
        asked(at, 18, gateways=22_000 < at < 40_000)  # which have larger sheets
        waiting.append(of.pipeline.express.uncounted)
    assert any(later < sooner for sooner, later in pairwise(waiting[:100])), "counted, to make room for larger sheets"
    assert max(waiting) < 4_096
    assert min(waiting[-50:]) > 4_096 - 90, "never all that wait are counted, once so many do"
    of.tick(99_000)
    assert of.pipeline.express.uncounted == 0
    assert of.boundary("model")["outcomes"]["ok"] == 10 + 600 * 18
