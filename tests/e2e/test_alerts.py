"""The whole chain, live: spans to exporters, scrapes, generated rules, Alertmanager, and a webhook that hears of it.

Period and windows are a sixtieth of the usual ones, so that factors are the same and an hour is a minute: 30d becomes
12h, the page over 1h and 5m one over 1m and 5s. Prometheus scrapes and evaluates each second. For a target s = 0.99 and
an error ratio e = 0.5 after a long window w of good traffic, the page is due after w * 14.4 * 0.01 / 0.5 = 17.28 s.

Three exporters run: one gets every request, of the SLO `chat`; two get half of them each, of an SLO `halves` that says
the same. What they and Prometheus say must agree:

- summed counters, and the budget over the period: exactly. Counters are scraped before the first request, so that
  Prometheus extrapolates all of them alike, and that cancels out in a ratio.
- ratios over a window: within 5 %. Prometheus sees a window from scrape to scrape, and the exporter in slices of a
  second that end a second ago: each end may be off by a second or so of 60.
"""

import json
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import which
from typing import Any, Final
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client import parser

from tests.e2e.programs import answers, environment, exporter_command, free_port, start, until

SLO: Final = """\
apiVersion: goodput/v1
kind: SLO
metadata: {name: NAME, labels: {team: serving}}
spec:
  selector: {model: llama}
  objectives:
    - {metric: ttft, boundary: model, percentile: 99, threshold: 100ms, window: 1m}
    - {metric: completion, boundary: model, percentile: 99, threshold: 1s, window: 1m}
  goodput: {target: 99%, period: 12h}
"""
CONFIG: Final = """\
receive: {grpc: "127.0.0.1:0", http: "127.0.0.1:HTTP"}
web: {listen: "127.0.0.1:WEB"}
labels: {model: {default: llama}}
windows: {durations: [1m], delay: 1s}
join: {grace: 100ms}
"""
WINDOWS: Final = """\
apiVersion: goodput/v1
kind: AlertWindows
spec:
  burn:
    - {severity: page, long: 1m, short: 5s, budget: 2%}
    - {severity: page, long: 6m, short: 30s, budget: 5%}
    - {severity: ticket, long: 24m, short: 2m, budget: 10%}
    - {severity: ticket, long: 72m, short: 6m, budget: 10%}
  backlog: {long: 30s, short: 5s, for: 15s, share: 5%, requests: 10}
  no_data: {window: 1m, before: [24m, 168m], requests: 5}
  exporter: {for: 5s}
"""
PROMETHEUS: Final = """\
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [rules.yml]
alerting: {alertmanagers: [{static_configs: [{targets: ["127.0.0.1:ALERTMANAGER"]}]}]}
scrape_configs: [{job_name: goodput, static_configs: [{targets: TARGETS}]}]
"""
ALERTMANAGER: Final = """\
route: {receiver: hook, group_by: [alertname, slo], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}
receivers: [{name: hook, webhook_configs: [{url: "http://127.0.0.1:HOOK/", send_resolved: true}]}]
"""
LONG_S: Final = 60.0
SHORT_S: Final = 5.0
DUE_S: Final = LONG_S * 14.4 * 0.01 / 0.5
ALERT: Final = "ErrorBudgetBurn1m"
BATCHES_PER_S: Final = 10
BATCH: Final = 40
WINDOW_TOLERANCE: Final = 0.05
BUDGET_TOLERANCE: Final = 1e-9

ALERTMANAGER_PROGRAM: Final = "prometheus-alertmanager" if which("prometheus-alertmanager") else "alertmanager"
pytestmark = pytest.mark.needs("prometheus", ALERTMANAGER_PROGRAM)


@dataclass(slots=True)
class Hook:
    """What the webhook heard: when, and which alert."""

    heard: list[tuple[float, dict[str, Any]]] = field(default_factory=list)

    def first(self, status: str, slo: str) -> tuple[float, dict[str, Any]] | None:
        for at, alert in list(self.heard):
            labels = alert["labels"]
            if alert["status"] == status and labels["alertname"] == ALERT and labels["slo"] == slo:
                return at, alert
        return None


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of it. Times are seconds since the first bad request, or since the last one."""

    fired_s: dict[str, float]
    resolved_s: dict[str, float]
    alerts: dict[str, dict[str, Any]]
    recorded: dict[str, float]
    """What Prometheus says, by the name of the series and the SLO, with bad requests amid the window."""
    shown: dict[str, float]
    """What the exporters say at the same time, and their budgets and counters at the end."""
    counters: dict[str, dict[tuple[str, ...], float]]
    budgets: tuple[float, float]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Two minutes of load, seen through the chain."""
    folder = tmp_path_factory.mktemp("alerts")
    with ExitStack() as stack:
        hook = Hook()
        chain = Chain(folder, stack.enter_context(_listening(hook)), stack)
        played = _play(chain, hook, stack.enter_context(_loading(chain)))
    print(
        f"due {DUE_S} s, heard {played.fired_s}, over {played.resolved_s}, recorded {played.recorded}, {played.shown}"
    )
    return played


def test_the_page_is_heard_when_it_is_due(outcome: Outcome) -> None:
    assert DUE_S - 2 <= outcome.fired_s["chat"] <= DUE_S + 3


def test_two_exporters_with_half_of_the_requests_page_as_one(outcome: Outcome) -> None:
    assert DUE_S - 2 <= outcome.fired_s["halves"] <= DUE_S + 3


def test_the_end_is_heard_within_the_short_window(outcome: Outcome) -> None:
    assert 0 <= outcome.resolved_s["chat"] <= SHORT_S + 3


def test_the_page_has_the_labels_of_its_row_and_of_the_slo(outcome: Outcome) -> None:
    assert outcome.alerts["chat"]["labels"] == {
        "alertname": ALERT,
        "slo": "chat",
        "severity": "page",
        "long_window": "1m",
        "short_window": "5s",
        "team": "serving",
    }


def test_the_page_says_what_happens_and_which_limit_fails(outcome: Outcome) -> None:
    text = outcome.alerts["chat"]["annotations"]
    assert text["summary"].startswith("SLO chat uses up its error budget 1")
    assert "(limit 14.4 over 1m and 5s)" in text["summary"]
    assert "the target is 99 % over 12h" in text["description"]
    assert "What failed most: time to first token above 100ms at model (" in text["description"]
    assert "Counted: requests of model llama, timed at model." in text["description"]
    assert text["runbook_url"] == "https://runbooks.example/ErrorBudgetBurn1m/chat"


def test_counters_of_two_exporters_sum_to_those_of_one(outcome: Outcome) -> None:
    whole, halves = outcome.counters["whole"], outcome.counters["halves"]
    assert halves == whole
    assert whole["inference_slo_good_requests_total",] > 0
    assert whole["inference_slo_bad_requests_total", "ttft"] > 0


def test_window_ratios_of_two_exporters_are_those_of_one(outcome: Outcome) -> None:
    assert outcome.recorded["halves"] == pytest.approx(outcome.recorded["chat"], rel=WINDOW_TOLERANCE)


def test_the_exporter_s_own_burn_rate_is_that_of_prometheus(outcome: Outcome) -> None:
    assert outcome.shown["chat"] > 1
    assert outcome.shown["chat"] == pytest.approx(outcome.recorded["chat"], rel=WINDOW_TOLERANCE)


def test_the_exporter_s_own_budget_is_that_of_prometheus(outcome: Outcome) -> None:
    own, of_prometheus = outcome.budgets
    assert own < 1
    assert own == pytest.approx(of_prometheus, abs=BUDGET_TOLERANCE)


# The course of events


def _play(chain: "Chain", hook: Hook, load: "Load") -> Outcome:
    until("a long window of good requests", lambda: load.sent_s > LONG_S + 3, LONG_S + 20)
    bad_from = load.switch(bad=True)
    until("the pages", lambda: all(hook.first("firing", slo) for slo in ("chat", "halves")), DUE_S + 10)
    good_from = load.switch(bad=False)
    until("the end of the pages", lambda: all(hook.first("resolved", slo) for slo in ("chat", "halves")), 30)
    until("bad requests amid the window", lambda: time.time() > good_from + SHORT_S + 5, 20)
    burn = "slo:inference_slo_burn_rate:ratio_rate1m"
    recorded = {slo: chain.value(f'{burn}{{slo="{slo}"}}') for slo in ("chat", "halves")}
    shown = {"chat": chain.value('inference_slo_burn_rate{slo="chat",window="1m"}')}
    load.stop()
    budgets = chain.settled_budgets()
    fired, resolved = (
        {slo: hook.first(status, slo) for slo in ("chat", "halves")} for status in ("firing", "resolved")
    )
    return Outcome(
        fired_s={slo: heard[0] - bad_from for slo, heard in fired.items() if heard},
        resolved_s={slo: heard[0] - good_from for slo, heard in resolved.items() if heard},
        alerts={slo: heard[1] for slo, heard in fired.items() if heard},
        recorded=recorded,
        shown=shown,
        counters={"whole": chain.counters(chain.exporters[:1]), "halves": chain.counters(chain.exporters[1:])},
        budgets=budgets,
    )


# Load


class Load:
    """Requests of a model server, 400 a second: all to the first exporter, every other batch to one of the others."""

    def __init__(self, ports: list[int]) -> None:
        self._connections = [HTTPConnection("127.0.0.1", port, timeout=10) for port in ports]
        self._bad = False
        self._ends = threading.Event()
        self._switched = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._started = time.monotonic()
        self._switched_at = 0.0
        self._number = 0
        self.failure: BaseException | None = None
        self._thread.start()

    @property
    def sent_s(self) -> float:
        self._check()
        return time.monotonic() - self._started

    def switch(self, *, bad: bool) -> float:
        """From the next batch on, every other request is bad, or none; the time of that batch."""
        self._switched.clear()
        self._bad = bad
        assert self._switched.wait(5)
        self._check()
        return self._switched_at

    def stop(self) -> None:
        self._ends.set()
        self._thread.join(10)
        for connection in self._connections:
            connection.close()
        self._check()

    def _check(self) -> None:
        assert self.failure is None, self.failure

    def _run(self) -> None:
        try:
            due = time.monotonic()
            while not self._ends.wait(max(0.0, due - time.monotonic())):
                due += 1 / BATCHES_PER_S
                self._send()
        except BaseException as failure:
            self.failure = failure

    def _send(self) -> None:
        bad, now_ns = self._bad, time.time_ns()
        body = _spans(self._number, now_ns, bad)
        if not self._switched.is_set():
            self._switched_at = now_ns / 1e9
            self._switched.set()
        for place in (0, 1 + self._number % 2):
            connection = self._connections[place]
            connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
        self._number += 1


def _spans(number: int, now_ns: int, bad: bool) -> bytes:
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    scope.scope.name = "vllm.tracing.otel"
    for place in range(BATCH):
        trace = (number * BATCH + place + 1).to_bytes(16, "big")
        span = scope.spans.add(name="llm_request", kind=2, trace_id=trace, span_id=trace[8:])
        span.start_time_unix_nano, span.end_time_unix_nano = now_ns - 200_000_000, now_ns
        ttft = 0.15 if bad and place % 2 else 0.05
        for key, value in (("gen_ai.latency.time_to_first_token", ttft), ("gen_ai.latency.e2e", 0.2)):
            span.attributes.add(key=key).value.double_value = value
        span.attributes.add(key="gen_ai.usage.completion_tokens").value.int_value = 5
    return request.SerializeToString()


@contextmanager
def _loading(chain: "Chain") -> Iterator[Load]:
    load = Load(chain.receivers)
    try:
        yield load
    finally:
        load.stop()


# Processes


class Chain:
    """Three exporters, Prometheus and Alertmanager, up and scraped."""

    def __init__(self, folder: Path, hook: int, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self.receivers = [free_port() for _ in range(3)]
        self.exporters = [free_port() for _ in range(3)]
        self._prometheus, alertmanager = free_port(), free_port()
        for name in ("chat", "halves"):
            self._write(f"{name}.yaml", SLO.replace("NAME", name))
        for place, slo in enumerate(("chat", "halves", "halves")):
            self._start_exporter(place, slo)
        self._generate_rules()
        targets = json.dumps([f"127.0.0.1:{port}" for port in self.exporters])
        text = PROMETHEUS.replace("ALERTMANAGER", str(alertmanager)).replace("TARGETS", targets)
        self._write("alertmanager.yml", ALERTMANAGER.replace("HOOK", str(hook)))
        self._start(ALERTMANAGER_PROGRAM, "--config.file=alertmanager.yml", "--storage.path=alertmanager",
                    f"--web.listen-address=127.0.0.1:{alertmanager}", "--cluster.listen-address=")  # fmt: skip
        self._start("prometheus", f"--config.file={self._write('prometheus.yml', text)}",
                    "--storage.tsdb.path=prometheus", f"--web.listen-address=127.0.0.1:{self._prometheus}")  # fmt: skip
        until("Alertmanager", lambda: answers(f"http://127.0.0.1:{alertmanager}/-/ready"))
        until("Prometheus", lambda: answers(f"http://127.0.0.1:{self._prometheus}/-/ready"))
        eligible = "count(inference_slo_eligible_requests_total)"
        until("three scraped exporters", lambda: self.values(eligible) == [3.0])

    def _write(self, name: str, text: str) -> str:
        (self._folder / name).write_text(text, encoding="utf-8")
        return name

    def _start_exporter(self, place: int, slo: str) -> None:
        ports = {"HTTP": str(self.receivers[place]), "WEB": str(self.exporters[place])}
        text = CONFIG.replace("HTTP", ports["HTTP"]).replace("WEB", ports["WEB"])
        config = self._write(f"config-{place}.yaml", text)
        self._start(*exporter_command(), "serve", "--config.file", config, "--slo.file", f"{slo}.yaml")
        ready = f"http://127.0.0.1:{self.exporters[place]}/-/ready"
        until("a ready exporter", lambda: answers(ready))

    def _generate_rules(self) -> None:
        command = [
            *exporter_command(), "rules", "generate", "chat.yaml", "halves.yaml", "--scrape-interval", "1s",
            "--windows", self._write("windows.yaml", WINDOWS), "--output", "rules.yml",
            "--runbook-url", "https://runbooks.example/{alert}/{slo}",
        ]  # fmt: skip
        subprocess.run(command, cwd=self._folder, env=environment(), check=True)

    def _start(self, *command: str) -> None:
        start(self._stack, self._folder, *command)

    def values(self, expr: str) -> list[float]:
        """What Prometheus answers now."""
        url = f"http://127.0.0.1:{self._prometheus}/api/v1/query?query={quote(expr)}"
        with urlopen(url, timeout=5) as answer:
            found = json.load(answer)["data"]["result"]
        return [float(each["value"][1]) for each in found]

    def value(self, expr: str) -> float:
        """The one value."""
        (value,) = self.values(expr)
        return value

    def settled_budgets(self) -> tuple[float, float]:
        """The budget that the first exporter shows, and that which Prometheus records, when all is counted."""
        own = "inference_slo_error_budget_remaining_ratio{slo='chat'}"
        recorded = "slo:inference_slo_error_budget_remaining:ratio_rate12h{slo='chat'}"
        changes = "sum(changes(inference_slo_eligible_requests_total[4s]))"
        until("settled counters", lambda: self.values(changes) == [0.0], 20)
        return self.value(own), self.value(recorded)

    def counters(self, ports: list[int]) -> dict[tuple[str, ...], float]:
        """The counters of SLOs, summed over exporters, by name and all labels but the SLO's."""
        sums: dict[tuple[str, ...], float] = {}
        for port in ports:
            for name, labels, value in _scrape(port):
                if name.startswith("inference_slo_") and name.endswith("_total"):
                    key = (name, *(text for label, text in sorted(labels.items()) if label != "slo"))
                    sums[key] = sums.get(key, 0.0) + value
        return sums


def _scrape(port: int) -> Iterator[tuple[str, Mapping[str, str], float]]:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


@contextmanager
def _listening(hook: Hook) -> Iterator[int]:
    """A webhook receiver; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            at = time.time()
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            hook.heard += [(at, alert) for alert in body["alerts"]]
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()
