"""The short way counts as the general way does, whatever comes in whatever order."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.config import Align, Join, Limits, Settings, Windows
from exporter.expose.collect import collect
from exporter.expose.text import write_text
from exporter.pipeline import Pipeline
from exporter.record import WEIGHT_ONE
from tests.exporter.live import BROKER, profiles, slo, slos
from tests.exporter.spans import Sent, body, envoy, ns, span, vllm

pytestmark = pytest.mark.both_builds

PROFILES = profiles(BROKER)
SLOS, _ = slos(
    slo("ttft end_to_end 95 200ms 5m", "tpot end_to_end 95 30ms 1m", "completion service 99 2s 5m", name="outer"),
    slo("ttft model 50 100ms 1m", "completion model 90 1s 5m", name="inner", spec="selector: {model: small}"),
)
GPU = {"host.name": "gpu"}
TWO_CLOCKS = {1, 6, 12, 13}
"""Shapes with a span of another host."""


def host(rng: Random, role: str, count: int) -> tuple[float, dict[str, str]]:
    """One of some hosts of a role: how far its clock is ahead, in milliseconds, and its resource."""
    number = rng.randrange(count)
    return 37.5 * number - 60, {"host.name": f"{role}-{number}"}


def request(rng: Random, shape: int, at: float) -> list[Sent]:
    """The spans of one request, or of some in one trace, of one of some shapes."""
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

    def apart(parent: Sent | None) -> list[Sent]:
        ahead, resource = host(rng, "gateway", 4)
        one = envoy(at + ahead, at + ahead + length, parent=parent, resource=resource)
        ahead, resource = host(rng, "gpu", 5)
        start, end = at + ahead + length * rng.uniform(0, 0.3), at + ahead + length * rng.uniform(0.4, 1)
        return [one, vllm(start, end, ttft=(end - start) / 3, output=9, parent=one, resource=resource)]

    def put_apart() -> list[Sent]:
        ahead, resource = host(rng, "worker", 3)
        put = span("put", scope="broker", kind="producer", start=at - 9 + ahead, end=at - 8 + ahead, resource=resource)
        return [put, *apart(put)]

    def others(around: Sequence[Sent | None], most: int, last: float) -> list[Sent]:
        """Spans of other applications, one in the other or beside each other; some go on for `last` milliseconds."""
        made = list(around)
        for _ in range(rng.randint(1, most)):
            start = at + rng.uniform(-5, 9)
            end = start + rng.choice((1, length, rng.uniform(0, last)))
            made.append(span(f"work-{rng.randrange(3)}", start=start, end=end, parent=rng.choice(made)))
        return [each for each in made if each is not None]

    def amid(most: int, last: float) -> list[Sent]:
        """A request among these, in one of them, around some, and through one."""
        client = span("client", start=at - 2, end=at + rng.choice((length, last)))
        one = envoy(at, at + length, parent=client)
        through = span("through", start=at + 1, end=at + rng.choice((2, length)), parent=one)
        return others([client, one, through, engine(rng.choice((one, through)))], most, last)

    def job() -> list[Sent]:
        return others(queued(None), 5, 20_000)

    def tried_again() -> list[Sent]:
        """Two traces with one request id, the first with a client that ends late."""
        client = span("client", start=at - 2, end=at + 14_000)
        first, again = envoy(at, at + length, parent=client), envoy(at, at + rng.choice((9_000, 30_000)))
        again.message.attributes[0].CopyFrom(first.message.attributes[0])
        return [client, first, again]

    def several() -> list[Sent]:
        """A request for several answers, which begin at the same time."""
        count, ends = rng.randint(2, 4), at + length
        answers = [vllm(at + 1, ends - rng.uniform(0, length / 2), ttft=length / 9, output=9, parent=gateway)
                   for _ in range(count)]  # fmt: skip
        return [gateway, *answers]

    def page() -> list[Sent]:
        return others([envoy(at, at + length, path="/v1/models"), None], 4, 20_000)

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
        lambda: apart(None),
        put_apart,
        lambda: amid(4, 9_000),
        lambda: amid(20, 30_000),
        lambda: others([None], 4, 30_000),
        job,
        tried_again,
        page,
        several,
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


SHAPES = st.sets(st.integers(0, 20), min_size=1, max_size=4)


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


@pytest.mark.parametrize("mode", ["report", "adjust"])
@pytest.mark.parametrize("seed", range(3))
def test_one_shape_holds_for_all_hosts_whatever_their_clocks(seed: int, mode: Any) -> None:
    rng = Random(seed)
    sent = [each for at in range(0, 240_000, 400) for each in request(rng, 12 + at // 400 % 2, at)]
    bodies, made = batches(rng, sent), Settings(align=Align(mode=mode), windows=Windows(delay_ns=0))
    short, general = (fed(bodies, made, short=way, replay=True) for way in (True, False))
    assert short.report() == general.report()
    misses = sum(shape.misses for shape in short.express.shapes.values())
    assert 0 < misses < 600 / 3, "of 600 requests of 20 and 60 combinations of hosts"


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


def put(at: float, gateway: Sent | None = None) -> Sent:
    return span("put", scope="broker", kind="producer", start=at, end=at + 1, parent=gateway)


def take(at: float, job: Sent) -> tuple[Sent, Sent]:
    taken = span("take", scope="broker", kind="consumer", start=at, end=at + 50, parent=job)
    return taken, vllm(at + 1, at + 50, ttft=5, output=9, parent=taken)


def in_flight(pipeline: Pipeline) -> dict[tuple[str, str], float]:
    return {key: sum(each.in_flight.values()) for key, each in pipeline.tally.traffic.items()}


@pytest.mark.parametrize("more", [0, 1, 10])
def test_a_slot_that_is_used_again_at_once_is_put_off_once(more: int) -> None:
    pair = [envoy(at, at + 50) for at in (*range(0, 4_000, 100), 800_000, 900_000)]
    bodies: list[tuple[float, list[Sent]]] = [
        (0, [gateway, vllm(gateway.end_ms - 49, gateway.end_ms - 9, ttft=5, output=9, parent=gateway)])
        for gateway in pair
    ]
    linked = envoy(900_000, 900_050)
    bodies[-1:-1] = [
        (0, [linked]),
        (0, [span("x", start=900_001, end=900_002, parent=linked, links=[envoy(0, 1)])]),
    ]
    bodies += [(0, [envoy(1_600_000 + at, 1_600_050 + at)]) for at in range(0, 10 * more, 10)]
    for short in (True, False):
        pipeline = fed(bodies, Settings(windows=Windows(delay_ns=0)), short=short, replay=True)
        assert (pipeline.open, pipeline.stored) == (0, 0)
        arrivals = {name: each["arrivals"] for name, each in pipeline.report()["boundaries"].items()}
        assert arrivals == {"end_to_end": 43 + more, "service": 43 + more, "model": 42}


def test_a_job_that_goes_on_shortly_before_it_is_too_old_is_sealed_when_it_is() -> None:
    late = put(100_000)
    taken, answered = take(694_000, late)
    bodies = [(at + 5.0, [put(at)]) for at in range(0, 30_000, 1_000)]
    bodies += [(100_005, [late]), (695_000, [taken]), (702_000, [answered])]
    for short in (True, False):
        pipeline = fed(bodies, Settings(windows=Windows(delay_ns=0)), short=short, replay=False)
        outcomes = pipeline.report()["boundaries"]["end_to_end"]["outcomes"]
        assert {name: count for name, count in outcomes.items() if count} == {"unknown": 31}


def test_where_a_job_will_leave_is_not_given_away_while_it_waits() -> None:
    """A reload that publishes a boundary while a job waits makes nobody in flight there while the next one does."""
    made = Settings(
        windows=Windows(delay_ns=0), join=Join(grace_ns=ns(1_000) - ns(0), max_age_ns=ns(3_600_000) - ns(0)),
        limits=Limits(series_idle_ns=ns(60_000) - ns(0)),
    )  # fmt: skip
    declared, _ = slos(slo("completion service 99 2s 5m"))
    for short in (True, False):
        hidden = replace(made, publish=("service", "model"))
        pipeline = Pipeline(hidden, PROFILES, declared, sealed=None if short else lambda request, judged: None)
        tick = 0

        def feed(at: float, *spans: Sent, of: Pipeline = pipeline) -> None:
            nonlocal tick
            for tick in range(tick + 1_000, int(at) + 1, 1_000):  # noqa: B020
                of.tick(ns(tick))
            if spans:
                of.feed(body(*spans), encoding="protobuf", transport="http", now_ns=ns(at))

        gateway = envoy(0, 4_000)
        feed(5, job := put(1, gateway))
        feed(3_000)
        pipeline.reconfigure(made, PROFILES, declared)
        feed(5_000, gateway, *take(3_900, job))
        for at in range(10_000, 190_000, 6_000):
            gateway = envoy(at - 1, at + 3_000)
            feed(at + 5, job := put(at, gateway))
            feed(at + 5_000, gateway, *take(at + 2_500, job))
        gateway = envoy(195_000, 404_000)
        feed(195_006, job := put(195_001, gateway))
        feed(196_500, vllm(196_400, 196_450, ttft=5, output=9))
        feed(395_000, envoy(394_000, 399_000, status=503))
        feed(405_000, gateway, *take(403_900, job))
        feed(407_000, envoy(401_000, 406_000, status=503))
        feed(415_000)
        counts = pipeline.tally.slo_counts["chat"]
        assert (counts.good, dict(counts.bad)) == (32 * WEIGHT_ONE, {"shed": 2 * WEIGHT_ONE})
        assert in_flight(pipeline).keys() == {(name, "default") for name in ("service", "end_to_end", "model")}
