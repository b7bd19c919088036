"""The end of a pod: exporter and model server are told to stop together, while requests end and Prometheus scrapes.

The model server goes on for three seconds, as one that finishes what it has begun. A scraper comes every five seconds
and says nothing of when. What it has read when the exporter has ended is all that anybody will ever know.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client import parser

CONFIG: Final = """\
receive: {grpc: "127.0.0.1:0", http: "127.0.0.1:0"}
web: {listen: "127.0.0.1:0"}
join: {grace: GRACE}
"""
SCRAPE_S: Final = 5.0
MODEL_SERVER_S: Final = 3.0
GRACE_OF_A_POD_S: Final = 30.0


class Sidecar:
    """A running exporter."""

    def __init__(self, program: "subprocess.Popen[str]") -> None:
        self.program = program
        assert program.stderr is not None
        words = program.stderr.readline().replace('"', "").replace(",", "").split()
        self.traces = f"http://{words[words.index('OTLP/HTTP') + 2]}/v1/traces"
        self.metrics = f"http://{words[-1]}/metrics"

    def send(self, number: int) -> bool:
        """One request; whether it was taken."""
        request = ExportTraceServiceRequest()
        scope = request.resource_spans.add().scope_spans.add()
        scope.scope.name = "vllm.tracing.otel"
        ids = {"trace_id": number.to_bytes(16, "big"), "span_id": number.to_bytes(8, "big")}
        span = scope.spans.add(name="llm_request", kind=2, **ids)
        span.end_time_unix_nano = time.time_ns()
        span.start_time_unix_nano = span.end_time_unix_nano - 1_000_000_000
        body, kind = request.SerializeToString(), {"Content-Type": "application/x-protobuf"}
        try:
            with urlopen(Request(self.traces, body, kind), timeout=5) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    def scrape(self) -> float | None:
        """Requests that are counted; None where nobody answers any more."""
        try:
            with urlopen(self.metrics, timeout=5) as answer:
                text = answer.read().decode()
        except (URLError, OSError):
            return None
        samples = [each for family in parser.text_string_to_metric_families(text) for each in family.samples]
        return sum(
            each.value
            for each in samples
            if each.name == "inference_completions_total" and each.labels["boundary"] == "model"
        )


@contextmanager
def serving(folder: Path, grace: str) -> Iterator[Sidecar]:
    config = folder / "config.yaml"
    config.write_text(CONFIG.replace("GRACE", grace))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "exporter", "serve", "--config.file", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder) as program:
        try:
            yield Sidecar(program)
        finally:
            with suppress(ProcessLookupError):
                program.kill()


@pytest.mark.parametrize("grace", ["1s", "10m"], ids=["as_soon_as_all_is_joined", "although_much_waits_to_be_joined"])
def test_all_that_was_sent_before_the_model_server_stopped_is_in_the_last_scrape(tmp_path: Path, grace: str) -> None:
    read: list[float] = []
    with serving(tmp_path, grace) as sidecar:
        ended = threading.Event()

        def scraping() -> None:
            while not ended.is_set() and (found := sidecar.scrape()) is not None:
                read.append(found)
                ended.wait(SCRAPE_S)

        scraper = threading.Thread(target=scraping)
        scraper.start()
        sent, told_s = 0, 0.0
        begun_s = time.monotonic()
        while not told_s or time.monotonic() - told_s < MODEL_SERVER_S:
            assert sidecar.send(sent + 1)
            sent += 1
            if not told_s and time.monotonic() - begun_s > 1:
                told_s = time.monotonic()
                sidecar.program.send_signal(signal.SIGTERM)
            time.sleep(0.05)  # the pace of the traffic
        assert sidecar.program.wait(GRACE_OF_A_POD_S) == 0
        took_s = time.monotonic() - told_s
        ended.set()
        scraper.join()
    print(f"{sent} sent, read {read}, {took_s:.1f} s")
    assert sent > 40
    assert read[-1] == sent
    assert took_s < GRACE_OF_A_POD_S


def test_it_leaves_at_once_when_told_twice(tmp_path: Path) -> None:
    with serving(tmp_path, "10m") as sidecar:
        assert sidecar.scrape() == 0
        assert sidecar.send(1)
        sidecar.program.send_signal(signal.SIGTERM)
        assert sidecar.program.stderr is not None
        assert "a second signal ends at once" in sidecar.program.stderr.readline()
        sidecar.program.send_signal(signal.SIGTERM)
        assert sidecar.program.wait(2) == -signal.SIGTERM
