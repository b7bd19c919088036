"""The examples are run, not only shown: Prometheus, Alertmanager, Collector and the compose file.

Prometheus 3 and a Collector are run where `GOODPUT_PROMETHEUS3` and `GOODPUT_OTELCOL` name them.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import grpc
import pytest
import yaml
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from prometheus_client import parser

from exporter.serve import Files, read_files
from tests.e2e.programs import answers, environment, exporter_command, free_port, start, until

DEPLOY = Path(__file__).parents[2] / "deploy"
SLO = DEPLOY / "kustomize" / "base" / "slo.yaml"
PROMETHEUS_3 = os.environ.get("GOODPUT_PROMETHEUS3", "")
COLLECTOR = os.environ.get("GOODPUT_OTELCOL", "")


class Exporter:
    """A running one, with the shipped SLOs."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        grpc_port, http_port, self.port = free_port(), free_port(), free_port()
        self.grpc = f"127.0.0.1:{grpc_port}"
        config = {
            "receive": {"grpc": self.grpc, "http": f"127.0.0.1:{http_port}"},
            "web": {"listen": f"127.0.0.1:{self.port}"},
            "join": {"grace": "100ms"},
        }
        folder.mkdir()
        (folder / "config.yaml").write_text(json.dumps(config))
        start(stack, folder, *exporter_command(), "serve", "--config.file=config.yaml", f"--slo.file={SLO}")
        until("exporter", lambda: answers(f"http://127.0.0.1:{self.port}/-/ready"))

    def value(self, wanted: str, **labels: str) -> float:
        with urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        samples = [each for family in parser.text_string_to_metric_families(text) for each in family.samples]
        return sum(each.value for each in samples if each.name == wanted and labels.items() <= each.labels.items())


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


# Prometheus.


@pytest.mark.needs("promtool")
def test_promtool_takes_the_configuration_for_2_42_and_its_rules() -> None:
    command = ["promtool", "check", "config", str(DEPLOY / "prometheus" / "prometheus-2.42.yaml")]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "SUCCESS" in said.stdout
    assert "FAILED" not in said.stdout + said.stderr  # what it finds strange, it lets pass


@pytest.mark.needs("prometheus")
def test_prometheus_2_42_scrapes_by_it(stack: ExitStack, tmp_path: Path) -> None:
    command = ["prometheus", "--enable-feature=native-histograms,exemplar-storage"]
    scrapes_and_evaluates(stack, tmp_path, command, "prometheus-2.42.yaml")


@pytest.mark.skipif(not PROMETHEUS_3, reason="needs GOODPUT_PROMETHEUS3")
def test_prometheus_3_scrapes_by_its_own(stack: ExitStack, tmp_path: Path) -> None:
    command = [PROMETHEUS_3, "--enable-feature=exemplar-storage"]
    scrapes_and_evaluates(stack, tmp_path, command, "prometheus-3.yaml")


def scrapes_and_evaluates(stack: ExitStack, folder: Path, command: list[str], name: str) -> None:
    """The configuration as it is, but for where the exporter is and how often it is scraped."""
    exporter = Exporter(stack, folder / "exporter")
    text = (DEPLOY / "prometheus" / name).read_text().replace("goodput-exporter:9464", f"127.0.0.1:{exporter.port}")
    (folder / "prometheus.yaml").write_text(text.replace("15s", "1s"))
    rules = yaml.safe_load((DEPLOY / "prometheus" / "goodput.rules.yml").read_text())
    for group in rules["groups"]:
        group["interval"] = "1s"
    (folder / "goodput.rules.yml").write_text(yaml.safe_dump(rules))
    port = free_port()
    options = ["--config.file=prometheus.yaml", f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.path=data"]
    start(stack, folder, *command, *options)
    until("Prometheus", lambda: answers(f"http://127.0.0.1:{port}/-/ready"))

    def asked(path: str, **parameters: str) -> Any:
        with urlopen(f"http://127.0.0.1:{port}/api/v1/{path}?{urlencode(parameters)}", timeout=5) as answer:
            return json.load(answer)["data"]

    until("a scrape", lambda: asked("query", query='up{job="goodput-exporter"} == 1')["result"])
    until("a recording rule", lambda: asked("query", query="slo:inference_slo_eligible_requests:rate5m")["result"])
    evaluated = [rule for group in asked("rules")["groups"] for rule in group["rules"] if rule["health"] != "unknown"]
    assert {rule["health"] for rule in evaluated} == {"ok"}
    assert len(evaluated) > 20


# Alertmanager.


@pytest.mark.needs("amtool")
@pytest.mark.parametrize(("severity", "receiver"), [("page", "pager"), ("ticket", "tickets")])
def test_alerts_go_where_their_severity_says(severity: str, receiver: str) -> None:
    path = DEPLOY / "alertmanager" / "alertmanager.yaml"
    subprocess.run(["amtool", "check-config", path], check=True)
    command = ["amtool", "config", "routes", "test", f"--config.file={path}", f"severity={severity}", "slo=chat"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == receiver


def test_every_shipped_alert_has_a_severity_that_is_routed() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "goodput.rules.yml").read_text())["groups"]
    found = {rule["labels"]["severity"] for group in rules for rule in group["rules"] if "alert" in rule}
    assert found == {"page", "ticket"}


# Collector.


@pytest.mark.skipif(not COLLECTOR, reason="needs GOODPUT_OTELCOL")
def test_the_collector_gives_every_span_to_the_exporter_and_to_the_tracing_backend(
    stack: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = Exporter(stack, tmp_path / "exporter")
    backend = Backend(stack)
    text = (DEPLOY / "collector" / "collector.yaml").read_text()
    ports = {f"}}:{port}": f"}}:{free_port()}" for port in (4317, 4318)}
    for usual, free in ports.items():
        text = text.replace(usual, free)
    (tmp_path / "collector.yaml").write_text(text)
    for name, value in (("LISTEN", "127.0.0.1"), ("GOODPUT", exporter.grpc), ("TRACING", backend.address)):
        monkeypatch.setenv(name, value)
    start(stack, tmp_path, COLLECTOR, "--config=collector.yaml")
    url = f"http://127.0.0.1:{ports['}:4318'][2:]}/v1/traces"
    until("the collector", lambda: posted(url, request(1)))
    until("the span at the exporter", lambda: exporter.value("inference_completions_total", boundary="model") == 1)
    until("the span at the backend", lambda: backend.spans == 1)


class Backend:
    """The smallest tracing backend."""

    def __init__(self, stack: ExitStack) -> None:
        self.spans = 0
        server = grpc.server(ThreadPoolExecutor(1))
        handler = grpc.unary_unary_rpc_method_handler(
            self._export,
            request_deserializer=ExportTraceServiceRequest.FromString,
            response_serializer=ExportTraceServiceResponse.SerializeToString,
        )
        service = "opentelemetry.proto.collector.trace.v1.TraceService"
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": handler}),))
        self.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        stack.callback(server.stop, None)

    def _export(self, body: ExportTraceServiceRequest, _: object) -> ExportTraceServiceResponse:
        self.spans += sum(len(scope.spans) for each in body.resource_spans for scope in each.scope_spans)
        return ExportTraceServiceResponse()


def request(number: int) -> bytes:
    body = ExportTraceServiceRequest()
    scope = body.resource_spans.add().scope_spans.add()
    scope.scope.name = "vllm.tracing.otel"
    ids = {"trace_id": number.to_bytes(16, "big"), "span_id": number.to_bytes(8, "big")}
    span = scope.spans.add(name="llm_request", kind=2, **ids)
    span.end_time_unix_nano = time.time_ns()
    span.start_time_unix_nano = span.end_time_unix_nano - 1_000_000_000
    return body.SerializeToString()


def posted(url: str, body: bytes) -> bool:
    try:
        with urlopen(Request(url, body, {"Content-Type": "application/x-protobuf"}), timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


# The compose file.


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose" / "docker-compose.yaml").read_text())["services"]
    return found


def test_everything_that_the_compose_file_mounts_or_builds_is_there() -> None:
    folder = DEPLOY / "compose"
    for name, service in compose().items():
        for volume in service.get("volumes", []):
            assert (folder / volume.split(":")[0]).exists(), (name, volume)
        if build := service.get("build"):
            assert (folder / build["context"] / build["dockerfile"]).is_file()


def test_the_exporter_of_the_compose_file_takes_its_files_and_the_demo_its_arguments() -> None:
    service = compose()["goodput-exporter"]
    mounted = {
        inside: str(DEPLOY / "compose" / outside) for outside, inside, _ in (v.split(":") for v in service["volumes"])
    }
    given = dict(each.removeprefix("--").split("=") for each in service["command"][1:])
    found = read_files(Files(config=mounted[given["config.file"]], slos=(mounted[given["slo.file"]],)), {})
    assert (found.settings.receive.grpc.host, [slo.name for slo in found.slos]) == ("", ["chat", "engine"])
    shown = subprocess.run(
        [*exporter_command(), "demo", "--help"], capture_output=True, text=True, check=True, env=environment()
    ).stdout
    assert "--otlp HOST" in shown
    assert shlex.join(compose()["demo"]["command"]) == "demo --otlp=goodput-exporter"


def test_the_dashboards_are_where_the_provisioning_says() -> None:
    inside = yaml.safe_load((DEPLOY / "compose" / "provisioning" / "dashboards" / "goodput.yaml").read_text())
    mounted = [volume.split(":") for volume in compose()["grafana"]["volumes"]]
    (outside,) = [outside for outside, target, _ in mounted if target == inside["providers"][0]["options"]["path"]]
    assert (DEPLOY / "compose" / outside / "on-call.json").is_file()


@pytest.mark.needs("unshare", "ip")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a loopback of its own with the usual ports free")
def test_the_commands_of_the_compose_file_make_requests_of_the_demos_load() -> None:
    words = {name: service["command"] for name, service in compose().items() if "command" in service}
    volumes = [volume.split(":")[:2] for volume in compose()["goodput-exporter"]["volumes"]]
    serve, demo = shlex.join(words["goodput-exporter"]), shlex.join(words["demo"])
    for outside, inside in volumes:
        serve = serve.replace(inside, str(DEPLOY / "compose" / outside))
    program = shlex.join(exporter_command())
    script = f"""
        set -e
        ip link set lo up
        trap 'kill $(jobs -p); wait' EXIT
        {program} {serve} & until {program} health >/dev/null 2>&1; do sleep 0.1; done
        {program} {demo.replace("=goodput-exporter", "=127.0.0.1")} &
        asked() {{ {shlex.quote(sys.executable)} -c '{ASKED}'; }}
        until asked | grep '^inference_completions_total.*"end_to_end".*"ok"'; do sleep 0.5; done
    """
    done = subprocess.run(
        ["unshare", "--net", "bash", "-c", script],
        capture_output=True, text=True, check=False, env=environment(), timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert 'model="demo"' in done.stdout


ASKED = """
from urllib.request import urlopen
print(urlopen("http://127.0.0.1:9464/metrics").read().decode())
"""


def test_a_page_hides_only_tickets_on_the_budget_of_the_same_slo() -> None:
    """Labels that both alerts lack are equal to Alertmanager, so an SLO must be asked for on both sides."""
    text = (DEPLOY / "alertmanager" / "alertmanager.yaml").read_text(encoding="utf-8")
    rules = yaml.safe_load(text)["inhibit_rules"]
    for rule in rules:
        for side in ("source_matchers", "target_matchers"):
            assert 'slo =~ ".+"' in rule[side]
        (names,) = (matcher for matcher in rule["target_matchers"] if matcher.startswith("alertname"))
        pattern = names.split('"')[1]
        assert re.fullmatch(pattern, "ErrorBudgetBurn3d")
        assert not any(re.fullmatch(pattern, name) for name in ("SLOCannotJudge", "SLONoRequests", "BacklogGrowing"))
