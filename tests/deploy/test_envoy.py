"""Envoy's configuration, in Envoy itself: of each request there are records at its start, while it lasts and at its
end, and a span, whatever id the client brought; and the exporter makes requests of the spans.
"""

import shutil
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import Request, urlopen

import grpc
import pytest
import yaml
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from exporter.config import Settings
from exporter.pipeline import Pipeline
from exporter.profile import built_in
from tests.e2e.programs import free_port, start, until

ROOT = Path(__file__).parents[2]
ENVOY = shutil.which("envoy") or str(Path(sys.executable).with_name("envoy"))
LONG_S = 1.5
"""Longer than the interval of the records in between."""


class ModelServer(BaseHTTPRequestHandler):
    """Streams two chunks, the second after LONG_S where the path says so."""

    def do_POST(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"data: 1\n\n")
        self.wfile.flush()
        if "long" in self.path:
            time.sleep(LONG_S)
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@dataclass
class Sink:
    """What Envoy has sent."""

    traces: list[bytes] = field(default_factory=list)
    logs: list[bytes] = field(default_factory=list)
    records: list[dict[str, str]] = field(default_factory=list)

    def spans(self) -> list[dict[str, str]]:
        requests = map(ExportTraceServiceRequest.FromString, self.traces)
        scopes = [scope for each in requests for resource in each.resource_spans for scope in resource.scope_spans]
        return [values(span.attributes) for scope in scopes for span in scope.spans if span.kind == 2]

    def take_traces(self, body: bytes, _: object) -> bytes:
        self.traces.append(body)
        return b""

    def take_logs(self, body: bytes, _: object) -> bytes:
        self.logs.append(body)
        for resource in ExportLogsServiceRequest.FromString(body).resource_logs:
            for scope in resource.scope_logs:
                self.records += [values(record.attributes) for record in scope.log_records]
        return b""


def values(attributes: Iterable[KeyValue]) -> dict[str, str]:
    return {each.key: each.value.string_value for each in attributes}


@pytest.fixture(scope="module")
def sink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sink]:
    """Four requests have gone through Envoy, and all is told of them."""
    with ExitStack() as stack:
        found, gateway = Sink(), free_port()
        server = grpc.server(ThreadPoolExecutor(4))
        for signal, take in (("trace.v1.Trace", found.take_traces), ("logs.v1.Logs", found.take_logs)):
            service = f"opentelemetry.proto.collector.{signal}Service"
            handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(take)
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": handler}),))
        exporter = server.add_insecure_port("127.0.0.1:0")
        server.start()
        stack.callback(server.stop, None)
        model = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), ModelServer))
        threading.Thread(target=model.serve_forever).start()
        stack.callback(model.shutdown)
        text = (ROOT / "deploy" / "envoy" / "envoy.yaml").read_text(encoding="utf-8")
        for usual, other in ((10000, gateway), (8000, model.server_address[1]), (4317, exporter), (9901, free_port())):
            assert text.count(f"port_value: {usual}}}") == 1
            text = text.replace(f"port_value: {usual}}}", f"port_value: {other}}}")
        folder = tmp_path_factory.mktemp("envoy")
        (folder / "envoy.yaml").write_text(text)
        node = ["--service-cluster", "gateway", "--service-node", "gw-1"]
        start(stack, folder, ENVOY, "-c", "envoy.yaml", *node, "--concurrency", "1", "--use-dynamic-base-id")
        until("Envoy", lambda: asked(gateway, "/v1/chat/completions", "of-the-clients-own"), 60)
        for path, name in (("/v1/chat/completions", str(uuid.uuid4())), ("/v1/completions", ""), ("/v1/long", "")):
            assert asked(gateway, path, name)
        until("the end of each request", lambda: kinds(found)["DownstreamEnd"] == 4)
        until("a span of each request", lambda: len(found.spans()) == 4)
        yield found


def asked(port: int, path: str, name: str) -> bool:
    headers = {"x-request-id": name} if name else {}
    try:
        with urlopen(Request(f"http://127.0.0.1:{port}{path}", b"{}", headers), timeout=10) as answer:
            return bool(answer.read().endswith(b"[DONE]\n\n"))
    except OSError:
        return False


def kinds(sink: Sink) -> Counter[str]:
    return Counter(each["access_log_type"] for each in sink.records)


def test_each_request_is_told_of_at_its_start_while_it_lasts_and_at_its_end(sink: Sink) -> None:
    found = kinds(sink)
    assert (found["DownstreamStart"], found["DownstreamEnd"]) == (4, 4)
    assert found["DownstreamPeriodic"] >= 1
    ended = [each for each in sink.records if each["access_log_type"] == "DownstreamEnd"]
    assert all(each["response_code"] == "200" and each["content_type"] == "text/event-stream" for each in ended)
    long = next(each for each in ended if each["path"] == "/v1/long")
    assert float(long["us_rx_body_beg_us"]) / 1e6 < 1 < LONG_S <= float(long["duration_ms"]) / 1e3


def test_records_and_spans_of_a_request_have_one_id_and_clients_may_bring_any(sink: Sink) -> None:
    ids = {each["guid:x-request-id"] for each in sink.spans()}
    assert "of-the-clients-own" in ids
    assert ids == {each["request_id"] for each in sink.records}


@pytest.mark.parametrize(("logs", "evidence", "first_tokens"), [(False, {"ended": 4}, 0), (True, {"log": 4}, 4)])
def test_the_exporter_makes_requests_of_the_spans_and_more_with_the_records(
    sink: Sink, logs: bool, evidence: dict[str, int], first_tokens: int
) -> None:
    pipeline = Pipeline(Settings(), built_in(), [], replay=True)
    for body in sink.traces:
        pipeline.feed(body, encoding="protobuf", transport="file", now_ns=0)
    for body in sink.logs if logs else ():
        pipeline.feed(body, encoding="protobuf", transport="file", now_ns=0, signal="logs")
    pipeline.finish()
    report = pipeline.report()["boundaries"]["end_to_end"]
    assert (report["arrivals"], report["evidence"], report["outcomes"]["ok"]) == (4, evidence, 4)
    assert report["metrics"]["ttft"]["count"] == first_tokens


def test_the_configuration_for_other_pods_differs_in_places_only() -> None:
    home = yaml.safe_load((ROOT / "deploy" / "envoy" / "envoy.yaml").read_text(encoding="utf-8"))
    other = (ROOT / "deploy/kustomize/overlays/gateway/envoy-config.yaml").read_text(encoding="utf-8")
    back = other.replace("address: vllm,", "address: 127.0.0.1,").replace(
        "address: goodput-exporter,", "address: 127.0.0.1,"
    )
    assert yaml.safe_load(back) == home
    assert other != back
