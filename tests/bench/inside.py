"""What the pipeline costs in this process, without transports, in CPU time of this thread.

Time is the stream's own: the pipeline is told that a body comes when the mix says so, and ticks once in each of its
seconds. Who defers work to the tick gains nothing, since it is counted with the rest.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, Final, TypeVar

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from exporter.allocator import settle
from exporter.pipeline import FUTURE_NS, Pipeline
from tests.bench import subject
from tests.bench.figures import Figure
from tests.bench.mix import BATCH, LONGEST, REQUESTS_PER_S, SPANS, UNDER_WAY, WAITING, Body, Mix
from tests.bench.options import Options
from tests.bench.recorded import Recorded

T = TypeVar("T")

SLOS: Final = 20

_AT_ONCE: Final = 64
"""Bodies in memory at a time."""
_S: Final = 1_000_000_000


class Fed:
    """A pipeline, and the time that it is told."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.ticks_s: list[float] = []
        """How long each evaluation took."""
        self._tick_ns = 0

    def feed(self, bodies: Iterable[Body]) -> None:
        """Feed it, and tick as seconds go by."""
        feed = self.pipeline.feed
        for content, _, now_ns in bodies:
            feed(content, encoding="protobuf", transport="grpc", now_ns=now_ns)
            if now_ns >= self._tick_ns:
                self._tick_until(now_ns)

    def _tick_until(self, now_ns: int) -> None:
        for tick_ns in range(self._tick_ns or now_ns, now_ns + 1, _S):
            self.ticks_s.append(cpu_s(self.pipeline.tick, tick_ns))
            self._tick_ns = tick_ns + _S

    def end(self, bodies: Iterable[Body], requests: int, *, judged: bool) -> None:
        """Feed it the rest, and check that it did its work. Raises NotDone."""
        rest = list(bodies)
        self.feed(rest)
        grace_ns = self.pipeline.settings.join.grace_ns
        end_ns = rest[-1].now_ns + grace_ns + 2 * _S
        self._tick_until(end_ns)
        subject.check(subject.exposed(self.pipeline, end_ns), requests, judged=judged)


def cpu_s(work: Callable[[T], object], what: T) -> float:
    """How long it takes this thread."""
    before = time.thread_time()
    work(what)
    return time.thread_time() - before


def parse(bodies: Iterable[Body]) -> None:
    """What everybody else begins with: protobuf's own parse, without a look at what is in it."""
    from_string = ExportTraceServiceRequest.FromString
    for content, _, _ in bodies:
        from_string(content)


def stages(options: Options) -> Iterator[Figure]:
    """The whole pipeline against protobuf's parse of the same bodies, and where its time goes."""
    per_round = 20 if options.quick else 200
    mix = mix_of(options.rounds * per_round, under_way=UNDER_WAY // 30 if options.quick else UNDER_WAY)
    bodies = mix.bodies()
    fed = {count: Fed(subject.pipeline(mix, count)) for count in (20, 0)}
    first = list(islice(bodies, mix.whole_from))
    for each in fed.values():
        each.feed(first)
    taken = Stages(mix)
    taken.times(first)
    settle()
    rounds = [_round(list(islice(bodies, per_round)), fed, taken) for _ in range(options.rounds)]
    rest = list(bodies)
    for count, each in fed.items():
        each.end(rest, mix.requests, judged=count > 0)
    return _of_stages(rounds)


def mix_of(bodies: int, under_way: int = UNDER_WAY, **others: Any) -> Mix:
    """A mix that has some bodies more than it takes to have as many under way as ever.

    Requests go on to arrive while these come: there are as many more as the longest lasts.
    """
    warm = Mix(0, under_way=under_way, before=others.get("before", 0)).whole_from
    grace_ms = 1_000 * WAITING * under_way // REQUESTS_PER_S
    requests = (warm + bodies) * BATCH // SPANS + LONGEST * under_way
    return Mix(requests, under_way=under_way, **{"grace_ms": grace_ms, **others})


def _round(bodies: Sequence[Body], fed: dict[int, Fed], taken: "Stages") -> dict[str, float]:
    """CPU µs a span of everything, in one round."""
    times = {"protobuf": cpu_s(parse, bodies)}
    times |= {f"{count} SLOs": cpu_s(each.feed, bodies) for count, each in fed.items()}
    times |= taken.times(bodies)
    times["rest"] = times["20 SLOs"] - sum(times[name] for name in Stages.NAMES)
    spans = sum(body.spans for body in bodies)
    return {name: seconds / spans * 1e6 for name, seconds in times.items()}


def _of_stages(rounds: Sequence[dict[str, float]]) -> Iterator[Figure]:
    def ratios(name: str) -> tuple[float, ...]:
        return tuple(each[name] / each["protobuf"] for each in rounds)

    yield Figure("stages", "pipeline with 20 SLOs : protobuf's parse", ratios("20 SLOs"), at_most=0.36)
    yield Figure("stages", "pipeline without SLOs : protobuf's parse", ratios("0 SLOs"))
    for name in (*Stages.NAMES, "rest"):
        if any(each[name] for each in rounds):
            yield Figure("stages", f"· {name} : protobuf's parse", ratios(name))
    for name, what in (("protobuf", "protobuf's parse"), ("20 SLOs", "pipeline with 20 SLOs")):
        yield Figure("stages", f"{what}, CPU a span", tuple(each[name] for each in rounds), "µs")


class Stages:
    """The stages one by one, each given what the one before it made. What it takes to be asked is in none of them."""

    NAMES: Final = ("decode", "recognise", "receive into the join", "seal, measure and count")

    def __init__(self, mix: Mix) -> None:
        self.whole = subject.pipeline(mix, 20)

    def times(self, bodies: Sequence[Body]) -> dict[str, float]:
        """Seconds of CPU by stage."""
        times = dict.fromkeys(self.NAMES, 0.0)
        whole, windows = self.whole, self.whole.settings.windows
        for content, spans, now_ns in bodies:
            marks = [time.thread_time()]
            batch = whole.decoder.decode(content)
            marks.append(time.thread_time())
            rows = whole.recogniser.recognise(batch, whole.decoder.generation, now_ns)
            marks.append(time.thread_time())
            whole.express.receive(rows, spans, now_ns, FUTURE_NS, windows.delay_ns, windows.lateness_ns)
            marks.append(time.thread_time())
            whole._advance(now_ns)
            marks.append(time.thread_time())
            for name, (begun, ended) in zip(self.NAMES, pairwise(marks), strict=True):
                times[name] += ended - begun
        return times


class Stream:
    """A pipeline that is fed a mix of its own, in rounds."""

    def __init__(self, mix: Mix, slo_count: int) -> None:
        self.mix = mix
        self.fed = Fed(subject.pipeline(mix, slo_count))
        self._judged = slo_count > 0
        self._bodies = mix.bodies()
        self.round(mix.whole_from)

    def round(self, bodies: int) -> float:
        """CPU µs a span of the next bodies."""
        seconds, spans = 0.0, 0
        while some := list(islice(self._bodies, min(bodies, _AT_ONCE))):
            seconds += cpu_s(self.fed.feed, some)
            spans += sum(body.spans for body in some)
            bodies -= len(some)
        return seconds / max(spans, 1) * 1e6

    def end(self) -> None:
        """Feed it the rest. Raises NotDone."""
        self.fed.end(self._bodies, self.mix.requests, judged=self._judged)


@dataclass(frozen=True)
class Growth:
    """Mixes that differ in how much there is of something."""

    name: str
    what: str
    counts: tuple[int, ...]
    quick: tuple[int, ...]
    of: Callable[[int, bool], dict[str, int]]
    """The fields of a mix with so much of it, and whether it is a quick one."""

    def mixes(self, options: Options, bodies: int) -> dict[int, Mix]:
        """By count, with so many bodies to measure and as many before these in each: as many marks of spans."""
        fields = {count: self.of(count, options.quick) for count in (self.quick if options.quick else self.counts)}
        before = max(
            Mix(0, **each).whole_from + known_from(each.get("models", 0)) for each in fields.values()
        )  # fmt: skip
        return {count: mix_of(bodies, before=before, measured=bodies, **each) for count, each in fields.items()}

    def figures(self, case: str, rounds: Sequence[dict[int, float]], at_most: float | None = None) -> Iterator[Figure]:
        """From CPU µs a span by count, in several rounds."""
        few, *counts = rounds[0]
        for count in counts:
            ratios = tuple(each[count] / each[few] for each in rounds)
            yield Figure(case, f"CPU a span with {count:,} {self.what} : with {few:,}", ratios, at_most=at_most)
        yield Figure(case, f"CPU a span with {few:,} {self.what}", tuple(each[few] for each in rounds), "µs")

    def __call__(self, options: Options) -> Iterator[Figure]:
        """Whether that makes a span dearer for the pipeline alone."""
        per_round = 20 if options.quick else 200
        streams = {
            count: Stream(mix, SLOS) for count, mix in self.mixes(options, options.rounds * per_round).items()
        }  # fmt: skip
        rounds = [{count: each.round(per_round) for count, each in streams.items()} for _ in range(options.rounds)]
        for stream in streams.values():
            stream.end()
        return self.figures(self.name, rounds)


def known_from(models: int) -> int:
    """The bodies by which nothing of a model is met for the first time any more: outcomes of one in a hundred."""
    return 100 * models * SPANS // BATCH if models > UNDER_WAY // 100 else 0


def models_of(series: int) -> int:
    """Models with which there are so many series: each has one at three boundaries."""
    return -(-series // 3)


OPEN: Final = Growth(
    "open", "open requests", (1_000, 100_000, 1_000_000), (1_000, 10_000), lambda count, quick: {
        "under_way": count // 3},
)  # fmt: skip
SERIES: Final = Growth(
    "series", "series", (10, 1_000, 10_000), (10, 300), lambda count, quick: {
        "under_way": UNDER_WAY // 30 if quick else UNDER_WAY, "models": models_of(count)},
)  # fmt: skip


def tick(options: Options) -> Iterator[Figure]:
    """The evaluation that runs every second, and the longest that anything else holds up the rest."""
    requests_per_s = 55
    mix = Mix(
        requests_per_s * (150 if options.quick else 3_700), models=models_of(1_000), requests_per_s=requests_per_s,
        under_way=5 * requests_per_s, grace_ms=10_000,
    )  # fmt: skip
    fed = Fed(subject.pipeline(mix, 100))
    fed.end(mix.bodies(), mix.requests, judged=True)
    longest = tuple(1e3 * max(fed.ticks_s[-start:][:12]) for start in range(72, 12, -12))
    yield Figure("tick", "evaluation, CPU of the longest of 12", longest, "ms", at_most=20)


def captures(options: Options) -> Iterator[Figure]:
    """The pipeline against protobuf's parse on bodies of real servers."""
    stream = Recorded(options.rounds * (1 if options.quick else 6))
    fed = Fed(subject.pipeline(Mix(0, grace_ms=stream.grace_ms), SLOS))
    bodies = stream.bodies()
    fed.feed(islice(bodies, stream.whole_from))
    rounds = [list(islice(bodies, stream.measured // options.rounds)) for _ in range(options.rounds)]
    times = [(cpu_s(parse, some), cpu_s(fed.feed, some)) for some in rounds]
    yield Figure("captures", "pipeline with 20 SLOs : protobuf's parse", tuple(ours / parsed for parsed, ours in times))
    spans = [sum(body.spans for body in some) for some in rounds]
    costs = tuple(ours / count * 1e6 for (_, ours), count in zip(times, spans, strict=True))
    yield Figure("captures", "pipeline with 20 SLOs, CPU a span", costs, "µs")
