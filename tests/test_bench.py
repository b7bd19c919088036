"""The benchmarks' traffic is what it is said to be. How fast anything is, no test says."""

import time
from collections.abc import Iterator
from itertools import islice

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.bench import hurried, subject
from tests.bench.figures import Figure, table
from tests.bench.hurried import LULL_NS, Led
from tests.bench.inside import OPEN, SERIES, Fed, Growth, mix_of
from tests.bench.mix import BATCH, LATE_NS, Body, Chain, Mix
from tests.bench.options import Options
from tests.bench.profile import OTHERS, parts
from tests.bench.recorded import Recorded


@pytest.fixture(scope="module")
def mix() -> Mix:
    return Mix(2_000, under_way=200)


def test_a_body_of_the_mix_is_otlp_of_the_size_and_kind_of_real_ones(mix: Mix) -> None:
    for body in islice(mix.bodies(), 4, 6):
        request = ExportTraceServiceRequest.FromString(body.content)
        spans = [span for group in request.resource_spans for scope in group.scope_spans for span in scope.spans]
        assert len(spans) == body.spans == BATCH
        assert len(body.content) / BATCH == pytest.approx(570, rel=0.05)
        assert sum(len(span.attributes) for span in spans) / BATCH == pytest.approx(12, rel=0.05)
        assert {span.name for span in spans} == {"apply_async/llm.generate", "ingress", "llm_request"}


def test_a_mix_is_the_same_in_every_run(mix: Mix) -> None:
    assert list(mix.bodies()) == list(Mix(2_000, under_way=200).bodies())


def test_every_request_of_the_mix_is_joined_whole_and_judged(mix: Mix) -> None:
    fed = Fed(subject.pipeline(mix, 2))
    fed.end(mix.bodies(), mix.requests, judged=True)


def test_a_request_that_was_not_joined_is_noticed(mix: Mix) -> None:
    fed = Fed(subject.pipeline(mix, 2))
    with pytest.raises(subject.NotDone):
        fed.end(list(mix.bodies())[:-1], mix.requests, judged=True)


@pytest.mark.parametrize("growth", [OPEN, SERIES])
def test_mixes_that_differ_in_how_much_there_is_have_as_many_bodies_before_and_measured(growth: Growth) -> None:
    mixes = growth.mixes(Options(quick=True), 20)
    assert tuple(mixes) == growth.quick
    assert len({(mix.whole_from, mix.measured) for mix in mixes.values()}) == 1
    for mix in mixes.values():
        assert sum(1 for _ in mix.bodies()) >= mix.whole_from + mix.measured


def test_as_many_are_open_when_measuring_begins_as_later() -> None:
    mix = mix_of(60, under_way=1_000)
    fed, bodies = Fed(subject.pipeline(mix, 0)), mix.bodies()
    fed.feed(islice(bodies, mix.whole_from))
    begun = fed.pipeline.express.open
    fed.feed(islice(bodies, 60))
    assert begun == pytest.approx(3_000, rel=0.1)
    assert fed.pipeline.express.open == pytest.approx(begun, rel=0.05)


def ids_of(body: Body) -> Iterator[tuple[bytes, str]]:
    """The trace of each span of a server, and the id of its request."""
    for group in ExportTraceServiceRequest.FromString(body.content).resource_spans:
        for span in (span for scope in group.scope_spans for span in scope.spans):
            for attribute in span.attributes:
                if attribute.key == "gen_ai.request.id":
                    yield span.trace_id, attribute.value.string_value


def test_copies_of_recorded_bodies_are_other_requests_and_come_as_far_apart_as_they_did() -> None:
    stream = Recorded(1)
    bodies = list(stream.bodies())
    assert [body.now_ns for body in bodies] == sorted(body.now_ns for body in bodies)
    assert sum(body.spans for body in bodies) == stream.spans
    measured = bodies[stream.whole_from :][: stream.measured]
    assert len(bodies) % len(measured) == 0
    assert sum(body.spans for body in measured) * len(bodies) == stream.spans * len(measured)
    assert measured[-1].now_ns - measured[0].now_ns == pytest.approx(4e9, rel=0.05), "a copy begins every four seconds"
    traces, requests = map(set, zip(*(each for body in bodies for each in ids_of(body)), strict=True))
    copies = len(bodies) // len(measured)
    assert len(traces) % copies == len(requests) % copies == 0
    assert len(requests) > 1_000 * copies


def test_mixes_of_a_chain_follow_one_another() -> None:
    chain = Chain(Mix(3_000, under_way=500, requests_per_s=1_000, grace_ms=2_000), 4)
    bodies = list(chain.bodies())
    assert [body.now_ns for body in bodies] == sorted(body.now_ns for body in bodies)
    assert sum(body.spans for body in bodies) == chain.spans
    fed = Fed(subject.pipeline(chain.mix, 0))
    fed.end(bodies, chain.requests, judged=False)


def test_a_clock_that_is_led_goes_by_the_spans_and_then_by_itself(monkeypatch: pytest.MonkeyPatch, mix: Mix) -> None:
    assert hurried.LATE_NS == LATE_NS
    led, lull_ns = Led(mix.epoch_ns), [0]
    monkeypatch.setattr(time, "monotonic_ns", lambda: lull_ns[0])
    assert led() == mix.epoch_ns + LATE_NS
    fed = Fed(subject.pipeline(mix, 0))
    led.pipeline = fed.pipeline
    for body in islice(mix.bodies(), 5):
        fed.feed([body])
        assert led() == pytest.approx(body.now_ns, abs=LATE_NS)
    before, lull_ns[0] = led(), LULL_NS + 7
    assert led() == before + 7


def test_a_figure_says_whether_its_goal_was_met() -> None:
    slow, fast = (Figure("stages", "all", (low, 0.4, 0.5), at_most=0.36) for low in (0.3, 0.4))
    near = Figure("stages", "all", (0.1, 0.2, 0.9), at_least=0.2)
    assert [figure.said for figure in (slow, fast, near)] == ["not met", "not met", "met"]
    assert " ".join(list(table([near.as_data()]))[1].split()) == "stages all 0.2 0.1 to 0.9 ratio ≥ 0.2 met"


def test_a_profile_is_told_by_the_file_that_the_machine_code_is_in() -> None:
    lines = [
        "# Overhead|Shared Object",
        " 21.95% |express.cpython-311-x86_64-linux-gnu.so  ",
        "  8.05% |marks.cpython-311-x86_64-linux-gnu.so    ",
        "  7.50% |script.cpython-311-x86_64-linux-gnu.so",
        "  7.38% |libpython3.11.so.1.0",
        "  3.62% |[kernel.kallsyms]",
        "",
    ]
    assert parts(lines) == pytest.approx({"waiting and joining": 30, "measuring": 7.5, OTHERS: 11})
