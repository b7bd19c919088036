"""What is sent to: the exporter, servers that drop everything, and the OpenTelemetry Collector."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from tests.bench import subject
from tests.bench.mix import Mix
from tests.bench.processes import cpu_s, fetch, free_port, helper, listens, memory_mb, running
from tests.bench.sender import IN_FLIGHT, Sending, Sent, Stream

Transport = Literal["grpc", "http", "gzip"]


@dataclass(frozen=True, slots=True)
class Receiver:
    """A program that takes spans."""

    process: int
    ports: dict[str, int]

    def send(
        self, stream: Stream, transport: Transport, *, speed: float = 0, bodies: int = 0, calls: int = IN_FLIGHT
    ) -> Sent:
        """Send it a stream, from another process."""
        way: Literal["grpc", "http"] = "grpc" if transport == "grpc" else "http"
        sending = Sending(stream, way, self.ports[way], self.process, transport == "gzip", bodies, speed, calls)
        return Sent(**json.loads(helper("sender", sending.as_json())))

    @property
    def cpu_s(self) -> float:
        """Since its start."""
        return cpu_s(self.process)

    @property
    def peak_mb(self) -> float:
        """The most memory that it had."""
        return memory_mb(self.process, "VmHWM")

    @property
    def rss_mb(self) -> float:
        """The memory that it has."""
        return memory_mb(self.process)


class Exporter(Receiver):
    """The one that this is about."""

    __slots__ = ()

    def scrape(self) -> str:
        """What Prometheus would read."""
        return fetch(self.metrics_url) or ""

    @property
    def metrics_url(self) -> str:
        """Where."""
        return f"http://127.0.0.1:{self.ports['web']}/metrics"


@contextmanager
def exporter(
    mix: Mix, slo_count: int, program: Sequence[str] = ("exporter", "serve"), delay_ms: int = 20_000
) -> Iterator[Exporter]:
    """`goodput-exporter serve`, with settings for a mix."""
    ports = {name: free_port() for name in ("grpc", "http", "web")}
    with TemporaryDirectory() as folder:
        config, slos = Path(folder, "config.yaml"), Path(folder, "slo.yaml")
        config.write_text(subject.config_file(mix, delay_ms, **ports), encoding="utf-8")
        slos.write_text(subject.slo_file(slo_count, mix.models), encoding="utf-8")
        command = [sys.executable, "-m", *program, "--config.file", str(config)]
        command += ["--slo.file", str(slos)] if slo_count else []
        ready = f"http://127.0.0.1:{ports['web']}/-/ready"
        with running(command, lambda: fetch(ready) is not None, Path(folder, "log")) as process:
            yield Exporter(process, ports)


@contextmanager
def null_server(transport: Transport, *, own: bool = False) -> Iterator[Receiver]:
    """One that drops what comes, or the exporter's own receiver with a sink that does."""
    way, port = "grpc" if transport == "grpc" else "http", free_port()
    command = [sys.executable, "-m", "tests.bench.null", way, str(port), *(["own"] if own else [])]
    with TemporaryDirectory() as folder, running(command, lambda: listens(port), Path(folder, "log")) as process:
        yield Receiver(process, {way: port})


@contextmanager
def collector(path: str, *, by_trace: bool) -> Iterator[Receiver]:
    """An OpenTelemetry Collector that counts spans one by one, or after it has brought those of a trace together."""
    ports = {name: free_port() for name in ("grpc", "http", "web")}
    with TemporaryDirectory() as folder:
        config = Path(folder, "otelcol.yaml")
        processors = ", processors: [groupbytrace]" if by_trace else ""
        config.write_text(COLLECTOR.format(**ports, processors=processors), encoding="utf-8")
        command = [path, "--config", str(config)]
        with running(command, lambda: listens(ports["grpc"]), Path(folder, "log")) as process:
            yield Receiver(process, ports)


COLLECTOR: Final = """
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: "127.0.0.1:{grpc}", max_recv_msg_size_mib: 64}}
      http: {{endpoint: "127.0.0.1:{http}"}}
processors:
  groupbytrace: {{wait_duration: 10s, num_traces: 200000, num_workers: 1}}
connectors:
  span_metrics:
    histogram: {{explicit: {{buckets: [10ms, 20ms, 50ms, 100ms, 200ms, 500ms, 1s, 2s, 5s, 10s, 20s]}}}}
    dimensions: [{{name: gen_ai.response.model}}, {{name: http.status_code}}]
    metrics_flush_interval: 15s
exporters:
  prometheus: {{endpoint: "127.0.0.1:{web}"}}
service:
  telemetry: {{metrics: {{level: none}}, logs: {{level: warn}}}}
  pipelines:
    traces: {{receivers: [otlp]{processors}, exporters: [span_metrics]}}
    metrics: {{receivers: [span_metrics], exporters: [prometheus]}}
"""
"""With the defaults of its own components where they say nothing else."""
