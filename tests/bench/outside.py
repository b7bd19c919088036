"""What the running program costs, transports and all, against servers that drop what comes and the Collector."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.bench import receivers, recorded, subject
from tests.bench.figures import Figure
from tests.bench.hurried import clock
from tests.bench.inside import SLOS, Growth, mix_of, models_of
from tests.bench.mix import BATCH, SPANS, UNDER_WAY, WAITING, Chain, Mix
from tests.bench.options import Options
from tests.bench.prober import Prober
from tests.bench.processes import ROOT, SUBJECT_CORE, environment, helper, pinned
from tests.bench.receivers import Exporter, Transport
from tests.bench.sender import Sent, Stream
from tests.exporter.wire import varint

GRACE_MS: Final = 250
"""At least: what else runs on the machine may hold up a span for so long."""
SETTLE_LIMIT_S: Final = 30
MOST_PER_S: Final = 60_000
"""Requests: what a core takes while windows of 1m, 5m and 30m are full and moved."""
WINDOW_SLICE_S: Final = 12
"""After which what was sent is in every window, however long its slices."""


def steady(bodies: int, under_way: int, transport: Transport) -> Mix:
    """A mix with a grace that fits the rate at which the exporter takes it, and some bodies more than fill that."""
    trial = mix_of(30, UNDER_WAY // 30, grace_ms=1_000, epoch_ns=0)
    with receivers.exporter(trial, SLOS) as exporter:
        before_s = exporter.cpu_s
        filling = exporter.send(trial, transport)
        settle(exporter, trial)
        span_s = (exporter.cpu_s - before_s) / trial.spans
    grace_s = max(GRACE_MS / 1e3, WAITING * under_way * SPANS * span_s)
    mix = mix_of(bodies + int(2 * grace_s * filling.per_s / BATCH), under_way, epoch_ns=0)
    return replace(mix, grace_ms=round(1e3 * grace_s))


def settle(of: Exporter, mix: Mix | Chain) -> None:
    """Wait until all requests have been counted, and check that they were. Raises NotDone."""
    for _ in range(SETTLE_LIMIT_S):
        time.sleep(mix.grace_ms / 1e3 + 1)
        text = of.scrape()
        if not subject.total(text, "goodput_exporter_open_requests"):
            break
    subject.check(text, mix.requests, judged=True)


def over(transport: Transport) -> "Case":
    """Throughput and CPU over one transport."""
    return Case(transport)


@dataclass(frozen=True)
class Case:
    """One transport."""

    transport: Transport

    def __call__(self, options: Options) -> Iterator[Figure]:
        bodies = (40 if options.quick else 800) // (2 if self.transport == "gzip" else 1)
        mix = steady(bodies, UNDER_WAY // 30 if options.quick else UNDER_WAY, self.transport)
        peaks: list[float] = []
        runs = [(_null(mix, self.transport), self._exporter(mix, peaks)) for _ in range(options.rounds)]
        goal = {"grpc": 0.7, "http": 0.55, "gzip": 0.75}[self.transport]
        yield from _against_null(self.transport, runs, goal)
        yield Figure(self.transport, "exporter, peak RSS", tuple(peaks), "MB")
        if options.otelcol:
            ours = [sent.server_us for _, sent in runs]
            yield from self._against_collector(options.otelcol, mix, ours)

    def _against_collector(self, path: str, mix: Mix, ours: Sequence[float]) -> Iterator[Figure]:
        costs = [_collected(path, mix, self.transport, by_trace=False) for _ in ours]
        goal = {"grpc": 0.5, "http": 0.3, "gzip": 0.4}[self.transport]
        yield from _compared(self.transport, "spanmetrics", ours, costs, goal)
        if self.transport == "grpc":
            few = replace(mix, requests=mix.requests // 4, grace_ms=10_000)
            costs = [_collected(path, few, "grpc", by_trace=True) for _ in ours]
            yield from _compared("grpc", "groupbytrace", ours, costs, 0.03)
            peaks = tuple(_peak_mb(few) / peak for _, peak in costs)
            yield Figure("grpc", "peak RSS, both with 10 s of waiting : Collector's", peaks, at_most=0.15)
            yield Figure("grpc", "Collector with groupbytrace, peak RSS", tuple(peak for _, peak in costs), "MB")

    def _exporter(self, mix: Mix, peaks: list[float]) -> Sent:
        """What else runs on the machine may hold up a span for longer than the grace; then it is tried with more."""
        for grace_ms in (mix.grace_ms, 2 * mix.grace_ms, 4 * mix.grace_ms):
            with receivers.exporter(replace(mix, grace_ms=grace_ms), SLOS) as exporter, suppress(subject.NotDone):
                sent = exporter.send(mix, self.transport)
                settle(exporter, mix)
                if sent.spans == mix.spans:
                    raise subject.NotDone("all was sent before anything was due to be counted")
                peaks.append(exporter.peak_mb)
                return sent
        raise subject.NotDone(f"requests are not whole with {grace_ms} ms of grace, or come faster than that")


@dataclass(frozen=True)
class Grown:
    """Whether there being more of something makes a span dearer for the whole program, over gRPC."""

    growth: Growth

    def __call__(self, options: Options) -> Iterator[Figure]:
        mixes = self.growth.mixes(options, 40 if options.quick else 600)
        rounds = [{count: self._cost_us(mix) for count, mix in mixes.items()} for _ in range(options.rounds)]
        return self.growth.figures(f"grpc-{self.growth.name}", rounds, at_most=1.2)

    def _cost_us(self, mix: Mix) -> float:
        with receivers.exporter(mix, SLOS, ("tests.bench.hurried", "0", str(mix.epoch_ns))) as exporter:
            sent = exporter.send(mix, "grpc", calls=1)  # in order, as grace may be some milliseconds
            settle(exporter, mix)
            return sent.server_us


@dataclass(frozen=True)
class Captured:
    """The same on bodies of real servers, which are small."""

    transport: Transport

    def __call__(self, options: Options) -> Iterator[Figure]:
        case, stream = f"captures-{self.transport}", recorded.Recorded(1 if options.quick else 20)
        runs = [(_null(stream, self.transport), self._exporter(stream)) for _ in range(options.rounds)]
        yield from _against_null(case, runs)
        if options.otelcol:
            costs = [_collected(options.otelcol, stream, self.transport, by_trace=False) for _ in runs]
            yield from _compared(case, "spanmetrics", [sent.server_us for _, sent in runs], costs)

    def _exporter(self, stream: recorded.Recorded) -> Sent:
        mix = Mix(0, grace_ms=stream.grace_ms)
        with receivers.exporter(mix, SLOS, ("tests.bench.hurried", "0", str(stream.epoch_ns))) as exporter:
            sent = exporter.send(stream, self.transport)
            subject.check_taken(exporter.scrape(), stream.spans)
            return sent


def _null(stream: Stream, transport: Transport) -> Sent:
    with receivers.null_server(transport) as null:
        return null.send(stream, transport)


def _against_null(case: str, runs: Sequence[tuple[Sent, Sent]], goal: float | None = None) -> Iterator[Figure]:
    ratios = tuple(sent.per_s / null.per_s for null, sent in runs)
    yield Figure(case, "throughput : null server's", ratios, at_least=goal)
    yield Figure(case, "CPU a span : null server's", tuple(s.server_us / n.server_us for n, s in runs))
    for name, sents in zip(("null server", "exporter"), zip(*runs, strict=True), strict=True):
        yield Figure(case, f"{name}, spans a second", tuple(each.per_s for each in sents), "1/s")
        yield Figure(case, f"{name}, CPU a span", tuple(each.server_us for each in sents), "µs")
        yield Figure(case, f"{name}, sender's CPU", tuple(each.sender_s / each.seconds for each in sents), "cores")


def _collected(path: str, stream: Stream, transport: Transport, *, by_trace: bool) -> tuple[float, float]:
    """CPU µs a span of the Collector, with all that it does later, and its peak RSS in MB."""
    with receivers.collector(path, by_trace=by_trace) as collector:
        before_s = collector.cpu_s
        collector.send(stream, transport)
        time.sleep(12 if by_trace else 1)
        return (collector.cpu_s - before_s) / stream.spans * 1e6, collector.peak_mb


def _compared(
    case: str, theirs: str, ours: Sequence[float], costs: Sequence[tuple[float, float]], goal: float | None = None
) -> Iterator[Figure]:
    ratios = tuple(our / cost for our, (cost, _) in zip(ours, costs, strict=True))
    yield Figure(case, f"CPU a span : that of the Collector with {theirs}", ratios, at_most=goal)
    yield Figure(case, f"Collector with {theirs}, CPU a span", tuple(cost for cost, _ in costs), "µs")


def _peak_mb(mix: Mix) -> float:
    with receivers.exporter(mix, SLOS) as exporter:
        exporter.send(mix, "grpc")
        settle(exporter, mix)
        return exporter.peak_mb


def scrape(options: Options) -> Iterator[Figure]:
    """Reading 100,000 lines, and how long that holds up what is sent meanwhile."""
    models = models_of(30 if options.quick else 300)
    mix = Mix(20 * models, models=models, under_way=models, grace_ms=1_000, epoch_ns=0)
    with receivers.exporter(mix, SLOS, delay_ms=0) as exporter:
        exporter.send(mix, "grpc")
        settle(exporter, mix)
        time.sleep(WINDOW_SLICE_S)
        lines = exporter.scrape().count("\n")
        runs = [_scraped(exporter) for _ in range(options.rounds)]
    scale = 100_000 / lines
    yield Figure("scrape", "CPU, for 100,000 lines", tuple(scale * cpu_ms for cpu_ms, _ in runs), "ms", at_most=100)
    yield Figure("scrape", "longest wait of a sender meanwhile", tuple(wait for _, wait in runs), "ms", at_most=20)
    yield Figure("scrape", "lines", (lines,), "")


def _scraped(exporter: Exporter) -> tuple[float, float]:
    """CPU ms of one scrape, and the longest that anybody waited, ms."""
    before_s = exporter.cpu_s
    exporter.scrape()
    cpu_ms = 1e3 * (exporter.cpu_s - before_s)
    with Prober(exporter.ports["http"]) as prober:
        helper("reader", exporter.metrics_url)
    return cpu_ms, prober.longest_ms


def stall(options: Options) -> Iterator[Figure]:
    """The longest that anybody waits while spans come and windows are evaluated, with 1,000 series and 100 SLOs."""
    part_s = 1 if options.quick else 6
    per_s = 100 if options.quick else 10_000 // SPANS
    mix = Mix(
        per_s * part_s * (options.rounds + 4), models=models_of(1_000), requests_per_s=per_s, under_way=5 * per_s,
        grace_ms=10_000, epoch_ns=0,
    )  # fmt: skip
    with receivers.exporter(mix, 100, delay_ms=0) as exporter, ThreadPoolExecutor() as pool:
        sending = pool.submit(exporter.send, mix, "grpc", speed=1)
        time.sleep(3 * part_s)
        longest = []
        for _ in range(options.rounds):
            with Prober(exporter.ports["http"]) as prober:
                time.sleep(part_s)
            longest.append(prober.longest_ms)
        sending.result()
    yield Figure("stall", "longest wait of a sender at 10,000 spans a second", tuple(longest), "ms", at_most=20)


def start(options: Options) -> Iterator[Figure]:
    """From the start of the program to its being ready, once its bytecode has been compiled."""
    mix = Mix(1)
    times = [_start_s(mix) for _ in range(options.rounds + 1)][1:]
    yield Figure("start", "start to ready", tuple(times), "s", at_most=0.8)


def _start_s(mix: Mix) -> float:
    begun = time.perf_counter()
    with receivers.exporter(mix, SLOS):
        return time.perf_counter() - begun


def memory(options: Options) -> Iterator[Figure]:
    """Resident memory: idle, after an hour of 10,000 spans a second, half an hour later, and with 100,000 open jobs.

    The exporter's clock goes fast, so that an hour takes some minutes.
    """
    speed, full_s, more_s, per_s = (2, 16, 4, 100) if options.quick else (5, 3_660, 1_800, 3_333)
    ready_s = 15 if options.quick else 120  # the sender makes its mix first, and must not begin behind time
    mix = Mix(
        per_s * (full_s + more_s), models=models_of(1_000), requests_per_s=per_s, under_way=5 * per_s, grace_ms=10_000,
        epoch_ns=time.time_ns() + ready_s * 10**9,
    )  # fmt: skip
    hurried = ("tests.bench.hurried", str(speed), str(mix.epoch_ns))
    with receivers.exporter(mix, SLOS, hurried) as exporter, ThreadPoolExecutor() as pool:
        time.sleep(2)
        yield Figure("memory", "idle", (exporter.rss_mb,), "MB", at_most=80)
        sending = pool.submit(exporter.send, mix, "grpc", speed=speed)
        while clock(speed, mix.epoch_ns) < mix.epoch_ns + full_s * 10**9 and not sending.done():
            time.sleep(0.1)
        exporter.scrape()  # what that takes is there half an hour later, too
        full_mb = exporter.rss_mb
        yield Figure("memory", "1,000 series, windows of 1m, 5m, 30m, 1h", (full_mb,), "MB", at_most=200)
        sending.result()
        settle(exporter, mix)
        yield Figure("memory", "CPU a span, windows moved and all", (exporter.cpu_s / mix.spans * 1e6,), "µs")
        yield Figure("memory", "30 minutes later : then", (exporter.rss_mb / full_mb,), at_most=1.05)
        count = 1_000 if options.quick else 100_000
        jobs = replace(mix, requests=count, under_way=10**9, requests_per_s=2 * 10**8, seed=2)
        exporter.send(replace(jobs, epoch_ns=clock(speed, mix.epoch_ns)), "grpc", bodies=count // BATCH)
        yield Figure("memory", "and 100,000 open requests more", (exporter.rss_mb,), "MB", at_most=260)


def flood(options: Options) -> Iterator[Figure]:
    """Resident memory after an hour at the highest rate that it takes, with as many requests open as in life.

    The exporter's clock goes by the spans: the hour has as many as come at MOST_PER_S, however fast these are sent.
    """
    seconds, per_s = (30, 1_000) if options.quick else (3_660, MOST_PER_S)
    each = Mix(10 * per_s, models=models_of(1_000), requests_per_s=per_s, under_way=5 * per_s, grace_ms=10_000)
    stream = Chain(each, seconds // 10)
    led = ("tests.bench.hurried", "0", str(stream.epoch_ns))
    with receivers.exporter(each, SLOS, led) as exporter:
        sent = exporter.send(stream, "grpc")
        full_mb = exporter.rss_mb
        settle(exporter, stream)
    yield Figure("flood", "spans a second", (sent.per_s,), "1/s")
    yield Figure("flood", "CPU a span", (sent.server_us,), "µs")
    what = f"RSS after an hour of {SPANS * per_s:,} spans a second, 1,000 series, windows of 1m, 5m, 30m, 1h"
    yield Figure("flood", what, (full_mb,), "MB")


def replay(options: Options) -> Iterator[Figure]:
    """A recorded file of 3 M spans, an hour of 300 requests a second."""
    requests = 10_000 if options.quick else 1_000_000
    mix = Mix(requests, requests_per_s=300, under_way=1_500)
    with TemporaryDirectory() as folder:
        path = Path(folder, "traces.pb")
        with open(path, "wb") as file:
            for body in mix.bodies():
                file.write(varint(len(body.content)) + body.content)
        rates = tuple(_replayed(mix, path) for _ in range(options.rounds))
    yield Figure("replay", "spans a second of CPU", rates, "1/s", at_least=1_000_000)


def _replayed(mix: Mix, path: Path) -> float:
    command = [sys.executable, "-m", "exporter", "replay", str(path), "--json"]
    before = os.times()
    with pinned(SUBJECT_CORE):
        done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, check=True)
    after = os.times()
    outcomes = json.loads(done.stdout)["boundaries"]["end_to_end"]["outcomes"]
    if sum(outcomes.values()) != mix.requests:
        raise subject.NotDone(f"{mix.requests} requests recorded, {outcomes}")
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    return mix.spans / seconds
