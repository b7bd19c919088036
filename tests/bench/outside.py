"""What the running program costs, transports and all, against servers that drop what comes and the Collector."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tests.bench import receivers, subject
from tests.bench.figures import Figure
from tests.bench.inside import mix_of
from tests.bench.mix import SPANS, UNDER_WAY, Mix
from tests.bench.options import Options
from tests.bench.receivers import Exporter, Transport
from tests.bench.sender import Sent

SLOS: Final = 20
GRACE_MS: Final = 250
"""At least: what else runs on the machine may hold up a span for so long."""
SETTLE_LIMIT_S: Final = 30


def paced_for(mix: Mix, transport: Transport, options: Options) -> Mix:
    """The same mix, with a grace that fits the rate at which the exporter takes it."""
    trial = mix_of(30 if options.quick else 300, UNDER_WAY // 30, grace_ms=1_000, epoch_ns=0)
    with receivers.exporter(trial, SLOS) as exporter:
        taken = exporter.send(trial, transport)
    return replace(mix, grace_ms=max(GRACE_MS, round(2_000 * mix.under_way * SPANS / taken.per_s)))


def settle(of: Exporter, mix: Mix) -> None:
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
        mix = mix_of(bodies, UNDER_WAY // 30 if options.quick else UNDER_WAY, epoch_ns=0)
        mix = paced_for(mix, self.transport, options)
        runs = [(self._null(mix), self._exporter(mix)) for _ in range(options.rounds)]
        goal = {"grpc": 0.7, "http": 0.55, "gzip": 0.75}[self.transport]
        ratios = tuple(sent.per_s / null.per_s for null, sent in runs)
        yield Figure(self.transport, "throughput : null server's", ratios, at_least=goal)
        yield Figure(self.transport, "CPU a span : null server's", tuple(s.server_us / n.server_us for n, s in runs))
        for name, sents in zip(("null server", "exporter"), zip(*runs, strict=True), strict=True):
            yield Figure(self.transport, f"{name}: spans a second", tuple(each.per_s for each in sents), "1/s")
            yield Figure(self.transport, f"{name}: CPU a span", tuple(each.server_us for each in sents), "µs")
            yield Figure(self.transport, f"{name}: sender's core, share", tuple(e.sender_s / e.seconds for e in sents))

    def _null(self, mix: Mix) -> Sent:
        with receivers.null_server(self.transport) as null:
            return null.send(mix, self.transport)

    def _exporter(self, mix: Mix) -> Sent:
        with receivers.exporter(mix, SLOS) as exporter:
            sent = exporter.send(mix, self.transport)
            settle(exporter, mix)
            return sent
