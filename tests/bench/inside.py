"""What the pipeline costs in this process, without transports, in CPU time of this thread.

Time is the stream's own: the pipeline is told that a body comes when the mix says so, and ticks once in each of its
seconds. Who defers work to the tick gains nothing, since it is counted with the rest.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from exporter.decode.protobuf import Decoder
from exporter.pipeline import Pipeline
from tests.bench import subject
from tests.bench.figures import Figure
from tests.bench.mix import BATCH, REQUESTS_PER_S, SPANS, UNDER_WAY, Body, Mix
from tests.bench.options import Options

_S: Final = 1_000_000_000


class Fed:
    """A pipeline, and the time that it is told."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self._tick_ns = 0

    def feed(self, bodies: Iterable[Body]) -> None:
        """Feed it, and tick as seconds go by."""
        feed = self.pipeline.feed
        for content, _, now_ns in bodies:
            feed(content, encoding="protobuf", transport="grpc", now_ns=now_ns)
            if now_ns >= self._tick_ns:
                self.pipeline.tick(now_ns)
                self._tick_ns = now_ns + _S

    def end(self, bodies: Iterable[Body], requests: int, *, judged: bool) -> None:
        """Feed it the rest, and check that it did its work. Raises NotDone."""
        rest = list(bodies)
        self.feed(rest)
        end_ns = rest[-1].now_ns + 2 * _S
        self.pipeline.tick(end_ns)
        subject.check(subject.exposed(self.pipeline, end_ns), requests, judged=judged)


def cpu_s(work: Callable[[], object]) -> float:
    """How long it takes this thread."""
    before = time.thread_time()
    work()
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
    rounds = [_round(list(islice(bodies, per_round)), fed, taken) for _ in range(options.rounds)]
    rest = list(bodies)
    for count, each in fed.items():
        each.end(rest, mix.requests, judged=count > 0)
    return _of_stages(rounds)


def mix_of(bodies: int, under_way: int = UNDER_WAY, **others: Any) -> Mix:
    """A mix that has some bodies more than it takes to have as many under way as ever, and a last one."""
    warm = Mix(0, under_way=under_way).whole_from
    grace_ms = 2_000 * under_way // REQUESTS_PER_S
    return Mix((warm + bodies + 1) * BATCH // SPANS, under_way=under_way, **{"grace_ms": grace_ms, **others})


def _round(bodies: Sequence[Body], fed: dict[int, Fed], taken: "Stages") -> dict[str, float]:
    """CPU µs a span of everything, in one round."""
    times = {"protobuf": cpu_s(lambda: parse(bodies))}
    times |= {f"{count} SLOs": cpu_s(lambda each=each: each.feed(bodies)) for count, each in fed.items()}
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
    """The stages one by one, each given what the one before it made. One that has no such form any more takes 0."""

    NAMES: Final = ("decode", "recognise", "join")

    def __init__(self, mix: Mix) -> None:
        self.whole = subject.pipeline(mix, 20)
        self.decoder: Decoder = self.whole.decoder

    def times(self, bodies: Sequence[Body]) -> dict[str, float]:
        """Seconds of CPU by stage."""
        times = dict.fromkeys(self.NAMES, 0.0)
        for content, spans, now_ns in bodies:
            begun = time.thread_time()
            batch = self.decoder.decode(content)
            decoded = time.thread_time()
            rows = self.whole.recogniser.recognise(batch, self.decoder.generation, now_ns)
            recognised = time.thread_time()
            times["decode"] += decoded - begun
            times["recognise"] += recognised - decoded
            with suppress(AttributeError, TypeError):
                self._join(memoryview(rows), spans, now_ns)
                times["join"] += time.thread_time() - recognised
        return times

    def _join(self, rows: "memoryview[int]", spans: int, now_ns: int) -> None:
        table: Any = self.whole.table
        width = self.whole.recogniser.width
        for index in range(spans):
            row = rows[index * width : (index + 1) * width]
            if table.is_new(row):
                table.add(row)
        for _ in table.seal(now_ns):
            pass
