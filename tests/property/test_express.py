"""The short way counts as the general way does, whatever comes in whatever order."""

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.config import Align, Join, Settings, Windows
from exporter.expose.collect import collect
from exporter.expose.text import write_text
from exporter.pipeline import Pipeline
from tests.exporter.live import BROKER, profiles, slo, slos
from tests.exporter.spans import Sent, body, envoy, ns, span, vllm

pytestmark = pytest.mark.both_builds

PROFILES = profiles(BROKER)
SLOS, _ = slos(
    slo("ttft end_to_end 95 200ms 5m", "tpot end_to_end 95 30ms 1m", "completion service 99 2s 5m", name="outer"),
    slo("ttft model 50 100ms 1m", "completion model 90 1s 5m", name="inner", spec="selector: {model: small}"),
)
GPU = {"host.name": "gpu"}
TWO_CLOCKS = {1, 6}
"""Shapes with a span of another host."""


def request(rng: Random, shape: int, at: float) -> list[Sent]:
    """The spans of one request, or of some in one trace, of one of a dozen shapes."""
    length = rng.uniform(1, 4_000)
    gateway = envoy(at, at + length, status=rng.choice((200, 200, 200, 429, 503)), flags=rng.choice(("-", "-", "DC")))

    def engine(parent: Sent | None, **more: Any) -> Sent:
        start, end = at + length * rng.uniform(0, 0.3), at + length * rng.uniform(0.4, 1)
        output = rng.choice((None, 0, 1, 2, rng.randrange(1, 400)))
        ttft = rng.choice((None, (end - start) * rng.uniform(0, 1)))
        model = {"gen_ai.response.model": rng.choice(("small", "large"))} if rng.random() < 0.9 else {}
        return vllm(start, end, ttft=ttft, output=output, prompt=rng.randrange(1, 99), parent=parent,
                    attributes=model, **more)  # fmt: skip

    def queued(parent: Sent | None) -> list[Sent]:
        put = span("put", scope="broker", kind="producer", start=at, end=at + 1, parent=parent)
        wait = rng.choice((5, 50, 15_000))
        taken = span("take", scope="broker", kind="consumer", start=at + wait, end=at + wait + length, parent=put)
        return [put, taken, vllm(at + wait + 1, at + wait + length, ttft=length / 3, output=9, parent=taken)]

    def beside() -> list[Sent]:
        agent, spans = span("agent", start=at, end=at + 9_000), []
        for step in range(3):
            one = envoy(at + step, at + step + length, parent=agent)
            spans += [one, engine(one)]
        return [agent, *spans]

    def within(around: Sent) -> list[Sent]:
        return [around, gateway, engine(around)]

    made: list[Callable[[], list[Sent]]] = [
        lambda: [gateway, engine(gateway)],
        lambda: [gateway, engine(gateway, resource=GPU)],
        lambda: queued(None),
        lambda: [gateway, *queued(gateway)],
        lambda: [engine(None)],
        lambda: [gateway],
        lambda: [gateway, engine(gateway), engine(gateway, resource=GPU)],
        lambda: within(envoy(at + 1, at + length, parent=gateway)),
        lambda: within(span("app", start=at, end=at + length, parent=gateway)),
        lambda: [gateway, envoy(at, at + length, path="/v1/models", trace=gateway.message.trace_id)],
        beside,
        lambda: [gateway, gateway, engine(gateway)],
    ]
    return made[shape]()


def text_of(pipeline: Pipeline, now_ns: int) -> list[str]:
    """What is exposed; which series was there first does not matter."""
    return sorted(write_text(collect(pipeline, now_ns)).decode().splitlines())


def fed(bodies: Sequence[tuple[float, list[Sent]]], made: Settings, *, short: bool, replay: bool) -> Pipeline:
    """A pipeline that has taken all, by the short way where it can, or by the general way alone."""
    pipeline = Pipeline(made, PROFILES, SLOS, replay=replay, sealed=None if short else lambda request, judged: None)
    tick = bodies[0][0]
    for at, spans in bodies:
        while not replay and tick < at:
            pipeline.tick(ns(tick))
            tick += 1_000
        pipeline.feed(body(*spans), encoding="protobuf", transport="http", now_ns=ns(at))
    if replay:
        pipeline.finish()
    for _ in range(0 if replay else 60):
        tick += 1_000
        pipeline.tick(ns(tick))
    return pipeline


def batches(rng: Random, sent: list[Sent]) -> list[tuple[float, list[Sent]]]:
    """Spans as they come: each some time after its end, many in a body."""
    coming = sorted((each.end_ms + rng.choice((0, 20, 500, 3_000)), place) for place, each in enumerate(sent))
    bodies = []
    while coming:
        size = rng.choice((1, 2, 7, 40))
        bodies.append((coming[min(size, len(coming)) - 1][0], [sent[place] for _, place in coming[:size]]))
        coming = coming[size:]
    return bodies


def traffic(rng: Random, shapes: set[int]) -> list[tuple[float, list[Sent]]]:
    """A minute of requests of these shapes.

    Before it comes one from which the gateway's route is known: of two that come at once, either may be sealed first,
    and what hangs on the first one to show a route would hang on that.
    """
    first = envoy(-60_000, -59_000)
    every = sorted(shapes)
    sent = [each for at in range(0, 60_000, 700) for each in request(rng, rng.choice(every), at + rng.uniform(0, 99))]
    return [(-59_000, [first, vllm(-59_900, -59_100, parent=first)]), *batches(rng, sent)]


SHAPES = st.sets(st.integers(0, 11), min_size=1, max_size=4)


@settings(max_examples=20)
@given(
    st.integers(0, 2**32), SHAPES, st.booleans(), st.sampled_from(("report", "adjust")),
    st.sampled_from((1_000, 10_000)),
)  # fmt: skip
def test_the_short_way_counts_as_the_general_way_does(
    seed: int, shapes: set[int], replay: bool, mode: Any, grace_ms: int
) -> None:
    # Live, of two that come at once either may be sealed first, and so be judged before the clocks have a bound.
    bodies = traffic(Random(seed), shapes if replay else shapes - TWO_CLOCKS or {0})
    made = Settings(join=Join(grace_ns=grace_ms * 1_000_000), align=Align(mode=mode), windows=Windows(delay_ns=0))
    short, general = (fed(bodies, made, short=way, replay=replay) for way in (True, False))
    assert short.report() == general.report()
    now_ns = ns(bodies[-1][0] + 1_000)
    assert text_of(short, now_ns) == text_of(general, now_ns)
    assert short.fates == general.fates
    assert (short.open, short.stored) == (general.open, general.stored)


@settings(max_examples=10)
@given(st.integers(0, 2**32), SHAPES)
def test_where_there_is_no_room_nothing_is_lost(seed: int, shapes: set[int]) -> None:
    bodies = traffic(Random(seed), shapes)
    made = Settings(join=Join(grace_ns=1_000_000_000, max_open=7), windows=Windows(delay_ns=0))
    short = fed(bodies, made, short=True, replay=False)
    assert short.open <= 7
    assert sum(short.fates.values()) + short.stored == sum(short.received.values())
    for boundary in short.report()["boundaries"].values():
        assert boundary["arrivals"] == sum(boundary["outcomes"].values()) + boundary["in_flight"]


def test_requests_that_look_alike_go_the_short_way() -> None:
    rng = Random(1)
    sent = [each for at in range(0, 60_000, 100) for each in request(rng, 1, at)]
    pipeline = fed(batches(rng, sent), Settings(windows=Windows(delay_ns=0)), short=True, replay=False)
    misses = sum(shape.misses for shape in pipeline.express.shapes.values())
    assert 0 < misses < 600 / 3, "of 600 requests, some of each shape and of each way its numbers stand to each other"


def test_exposition_has_no_difference_to_hide() -> None:
    rng = Random(2)
    sent = [each for at in range(0, 20_000, 500) for each in request(rng, 0, at)]
    pipeline = fed(batches(rng, sent), Settings(windows=Windows(delay_ns=0)), short=True, replay=False)
    text = "\n".join(text_of(pipeline, ns(30_000)))
    assert re.search(r'inference_slo_bad_requests_total\{slo="outer",failed="\w+"\} [1-9]', text)
    assert re.search(r'goodput_exporter_requests_joined_total\{result="whole"\} [1-9]', text)
