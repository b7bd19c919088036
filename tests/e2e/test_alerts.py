"""The whole chain, live: spans to exporters, scrapes, generated rules, Alertmanager, and a webhook that hears of it.

Period and windows are a sixtieth of the usual ones, so that factors are the same and an hour is a minute: 30d becomes
12h, the page over 1h and 5m one over 1m and 5s. Prometheus scrapes and evaluates each second. For a target s = 0.99 and
an error ratio e = 0.5 after a long window w of good traffic, the page is due after w * 14.4 * 0.01 / 0.5 = 17.28 s.

Five exporters run. One gets every request, of the SLO `chat`; two get half of them each, of an SLO `halves` that says
the same. Two more get a fifth of them, and are disturbed while the budget burns: `restarted` is stopped and started
anew, its sender holding back what is not taken; `gapped` cannot be scraped for 2 s, less than half of the short window.
Their pages are due at the same time. What the first three and Prometheus say must agree:

- summed counters, and the budget over the period: exactly. Counters are scraped before the first request, so that
  Prometheus extrapolates all of them alike, and that cancels out in a ratio.
- ratios over a window: within 5 %. Prometheus sees a window from scrape to scrape, and the exporter in slices of a
  second that end a second ago: each end may be off by a second or so of 60.

The slow test (`pytest -m slow`, ten minutes) has the real windows and a history that promtool filled in: an hour of
good traffic, then all bad, so that the page over 1h and 5m is due after 3600 s * 14.4 * 0.01 = 518.4 s.
"""

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import which
from typing import Any, Final
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client import parser

from tests.e2e.programs import START_LIMIT_S, answers, environment, exporter_command, free_port, start, stop, until

SLO: Final = """\
apiVersion: goodput/v1
kind: SLO
metadata: {name: NAME, labels: {team: serving}}
spec:
  selector: {model: llama}
  objectives:
    - {metric: ttft, boundary: model, percentile: 99, threshold: 100ms, window: 1m}
    - {metric: completion, boundary: model, percentile: 99, threshold: 1s, window: 1m}
  goodput: {target: 99%, period: PERIOD}
"""
CONFIG: Final = """\
receive: {grpc: "127.0.0.1:0", http: "127.0.0.1:HTTP"}
web: {listen: "127.0.0.1:WEB"}
labels: {model: {default: llama}}
windows: {durations: [1m], delay: 1s}
join: {grace: 100ms}
"""
ALERTS: Final = """\
alerts:
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
SLOS: Final = ("chat", "halves", "halves", "restarted", "gapped")
"""Of each exporter."""
RESTARTED: Final = 3
GAPPED: Final = 4
LONG_S: Final = 60.0
SHORT_S: Final = 5.0
GAP_S: Final = 2.0
DUE_S: Final = LONG_S * 14.4 * 0.01 / 0.5
SLOW_DUE_S: Final = 3600 * 14.4 * 0.01
HISTORY_S: Final = 4000
ALERT: Final = "ErrorBudgetBurn1m"
SLOW_ALERT: Final = "ErrorBudgetBurn1h"
BATCHES_PER_S: Final = 10
BATCH: Final = 20
SMALL_BATCH: Final = 4
WINDOW_TOLERANCE: Final = 0.05
BUDGET_TOLERANCE: Final = 1e-9

PROMETHEUS_PROGRAM: Final = os.environ.get("PROMETHEUS", "prometheus")
PROMTOOL: Final = os.environ.get("PROMTOOL", "promtool")
"""Other versions by their paths."""
ALERTMANAGER_PROGRAM: Final = "prometheus-alertmanager" if which("prometheus-alertmanager") else "alertmanager"
pytestmark = pytest.mark.needs(PROMETHEUS_PROGRAM, PROMTOOL, ALERTMANAGER_PROGRAM)


@dataclass(slots=True)
class Hook:
    """What the webhook heard: when, and which alert."""

    heard: list[tuple[float, dict[str, Any]]] = field(default_factory=list)

    def first(self, status: str, slo: str, name: str = ALERT) -> tuple[float, dict[str, Any]] | None:
        for at, alert in list(self.heard):
            labels = alert["labels"]
            if alert["status"] == status and labels["alertname"] == name and labels["slo"] == slo:
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
    resets: float
    """Of the counter of good requests of the exporter that was started anew."""
    behind_s: float
    """By how much the load fell behind: on a machine so busy, nothing is due when it should be."""
    missed_scrapes: float
    """Of the exporter that could not be scraped for a while."""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Two minutes of load, seen through the chain."""
    folder = tmp_path_factory.mktemp("alerts")
    with ExitStack() as stack:
        hook = Hook()
        gate = Gate()
        chain = Chain(folder, SLOS, stack, period="12h", alerts=ALERTS)
        chain.scrape_through(GAPPED, stack.enter_context(_gated(gate, chain.exporters[GAPPED])))
        chain.start(stack.enter_context(_listening(hook)))
        played = _play(chain, hook, gate, stack.enter_context(_loading(chain, bad_every=2)))
    print(
        f"due {DUE_S} s, heard {played.fired_s}, over {played.resolved_s}, recorded {played.recorded}, {played.shown}, "
        f"load {played.behind_s} s behind"
    )
    return played


def test_the_page_is_heard_when_it_is_due(outcome: Outcome) -> None:
    assert DUE_S - 2 <= outcome.fired_s["chat"] <= DUE_S + 3


def test_two_exporters_with_half_of_the_requests_page_as_one(outcome: Outcome) -> None:
    assert DUE_S - 2 <= outcome.fired_s["halves"] <= DUE_S + 3


@pytest.mark.parametrize("slo", ["restarted", "gapped"])
def test_a_restart_and_a_gap_in_the_scrapes_do_not_change_the_verdict(outcome: Outcome, slo: str) -> None:
    assert DUE_S - 2 <= outcome.fired_s[slo] <= DUE_S + 3
    assert 0 <= outcome.resolved_s[slo] <= SHORT_S + 3
    assert outcome.alerts[slo]["labels"]["severity"] == "page"


def test_the_restart_and_the_gap_were_there(outcome: Outcome) -> None:
    assert outcome.resets == 1
    assert 1 <= outcome.missed_scrapes <= GAP_S + 1


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


@pytest.mark.slow
def test_the_page_over_an_hour_is_heard_when_it_is_due(tmp_path: Path) -> None:
    with ExitStack() as stack:
        hook = Hook()
        chain = Chain(tmp_path, ["chat"], stack, period="30d")
        chain.fill_in(BATCHES_PER_S * BATCH)
        chain.start(stack.enter_context(_listening(hook)))
        load = stack.enter_context(_loading(chain, bad_every=1))
        bad_from = load.switch(bad=True)
        until("the page", lambda: hook.first("firing", "chat", SLOW_ALERT), SLOW_DUE_S + 30)
        heard = hook.first("firing", "chat", SLOW_ALERT)
        assert heard is not None
        print(f"due {SLOW_DUE_S} s, heard {heard[0] - bad_from}")
        assert SLOW_DUE_S - 2 <= heard[0] - bad_from <= SLOW_DUE_S + 3
        assert heard[1]["labels"]["long_window"] == "1h"


# The course of events


def _play(chain: "Chain", hook: Hook, gate: "Gate", load: "Load") -> Outcome:
    slos = set(SLOS)
    until("a long window of good requests", lambda: load.sent_s > LONG_S + 3, LONG_S + 20)
    bad_from = load.switch(bad=True)
    until("some bad requests", lambda: time.time() > bad_from + 3, 5)
    gate.open.clear()
    until("the end of the gap", lambda: time.time() > bad_from + 3 + GAP_S, 5)
    gate.open.set()
    chain.restart(RESTARTED)
    until("the pages", lambda: all(hook.first("firing", slo) for slo in slos), DUE_S + 10)
    good_from = load.switch(bad=False)
    until("the end of the pages", lambda: all(hook.first("resolved", slo) for slo in slos), 30)
    until("bad requests amid the window", lambda: time.time() > good_from + SHORT_S + 5, 20)
    burn = "slo:inference_slo_burn_rate:ratio_rate1m"
    recorded = {slo: chain.value(f'{burn}{{slo="{slo}"}}') for slo in ("chat", "halves")}
    resets = chain.value('resets(inference_slo_good_requests_total{slo="restarted"}[2m])')
    missed = chain.value(f'sum(count_over_time(up{{instance=~".*:{chain.scraped[GAPPED]}"}}[2m])) '
                         f'- sum(sum_over_time(up{{instance=~".*:{chain.scraped[GAPPED]}"}}[2m]))')  # fmt: skip
    shown = {"chat": chain.value('inference_slo_burn_rate{slo="chat",window="1m"}')}
    load.stop()
    budgets = chain.settled_budgets()
    fired, resolved = ({slo: hook.first(status, slo) for slo in slos} for status in ("firing", "resolved"))
    return Outcome(
        fired_s={slo: heard[0] - bad_from for slo, heard in fired.items() if heard},
        resolved_s={slo: heard[0] - good_from for slo, heard in resolved.items() if heard},
        alerts={slo: heard[1] for slo, heard in fired.items() if heard},
        recorded=recorded,
        shown=shown,
        counters={"whole": chain.counters(chain.exporters[:1]), "halves": chain.counters(chain.exporters[1:3])},
        budgets=budgets,
        resets=resets,
        behind_s=load.behind_s,
        missed_scrapes=missed,
    )


# Load


class Load:
    """Requests of a model server, 200 a second: all to the first exporter, every other batch to one of the next two.

    The others get small batches; one that is not taken is kept, and sent again with the next.
    """

    def __init__(self, ports: list[int], bad_every: int) -> None:
        self._connections = [HTTPConnection("127.0.0.1", port, timeout=10) for port in ports]
        self._kept: list[list[bytes]] = [[] for _ in ports]
        self._bad_every = bad_every
        self._bad = False
        self._ends = threading.Event()
        self._switched = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._started = time.monotonic()
        self._switched_at = 0.0
        self._number = 0
        self.behind_s = 0.0
        self.failure: BaseException | None = None
        self._thread.start()

    @property
    def sent_s(self) -> float:
        self._check()
        return time.monotonic() - self._started

    def switch(self, *, bad: bool) -> float:
        """From the next batch on, one request in `bad_every` is bad, or none; the time of that batch."""
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
                self.behind_s = max(self.behind_s, time.monotonic() - due)
        except BaseException as failure:
            self.failure = failure

    def _send(self) -> None:
        bad, now_ns = self._bad, time.time_ns()
        bad_every = self._bad_every if bad else 0
        body = _spans(self._number, BATCH, now_ns, bad_every)
        if not self._switched.is_set():
            self._switched_at = now_ns / 1e9
            self._switched.set()
        for place in (0, 1 + self._number % 2)[: len(self._connections)]:
            self._post(place, body)
        small = _spans(self._number, SMALL_BATCH, now_ns, bad_every)
        for place in range(3, len(self._connections)):
            self._kept[place].append(small)
            self._post_kept(place)
        self._number += 1

    def _post(self, place: int, body: bytes) -> None:
        connection = self._connections[place]
        connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        answer.read()

    def _post_kept(self, place: int) -> None:
        kept = self._kept[place]
        try:
            while kept:
                self._post(place, kept[0])
                kept.pop(0)
        except (OSError, HTTPException, AssertionError):  # stopped, stopping
            self._connections[place].close()


def _spans(number: int, count: int, now_ns: int, bad_every: int) -> bytes:
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    scope.scope.name = "vllm.tracing.otel"
    for place in range(count):
        trace = (number * BATCH + place + 1).to_bytes(16, "big")
        span = scope.spans.add(name="llm_request", kind=2, trace_id=trace, span_id=trace[8:])
        span.start_time_unix_nano, span.end_time_unix_nano = now_ns - 200_000_000, now_ns
        ttft = 0.15 if bad_every and place % bad_every == bad_every - 1 else 0.05
        for key, value in (("gen_ai.latency.time_to_first_token", ttft), ("gen_ai.latency.e2e", 0.2)):
            span.attributes.add(key=key).value.double_value = value
        span.attributes.add(key="gen_ai.usage.completion_tokens").value.int_value = 5
    return request.SerializeToString()


@contextmanager
def _loading(chain: "Chain", bad_every: int) -> Iterator[Load]:
    load = Load(chain.receivers, bad_every)
    try:
        yield load
    finally:
        load.stop()


# Processes


class Chain:
    """Exporters, and once they are started Prometheus and Alertmanager, up and scraped."""

    def __init__(self, folder: Path, slos: Sequence[str], stack: ExitStack, *, period: str, alerts: str = "") -> None:
        self._folder, self._slos, self._stack = folder, slos, stack
        self._alerts = alerts
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.receivers = [free_port() for _ in slos]
        self.exporters = [free_port() for _ in slos]
        self.scraped = [*self.exporters]
        self._prometheus = free_port()
        for name in slos:
            self._write(f"{name}.yaml", SLO.replace("NAME", name).replace("PERIOD", period))
        for place in range(len(slos)):
            self._start_exporter(place)
        self._generate_rules()

    def scrape_through(self, place: int, port: int) -> None:
        """Scrape an exporter at another port."""
        self.scraped[place] = port

    def start(self, hook: int) -> None:
        """Start Alertmanager, which tells a webhook, and Prometheus; wait until it has scraped."""
        alertmanager = free_port()
        targets = json.dumps([f"127.0.0.1:{port}" for port in self.scraped])
        text = PROMETHEUS.replace("ALERTMANAGER", str(alertmanager)).replace("TARGETS", targets)
        self._write("alertmanager.yml", ALERTMANAGER.replace("HOOK", str(hook)))
        self._start(ALERTMANAGER_PROGRAM, "--config.file=alertmanager.yml", "--storage.path=alertmanager",
                    f"--web.listen-address=127.0.0.1:{alertmanager}", "--cluster.listen-address=")  # fmt: skip
        self._start(PROMETHEUS_PROGRAM, f"--config.file={self._write('prometheus.yml', text)}",
                    "--storage.tsdb.path=prometheus", f"--web.listen-address=127.0.0.1:{self._prometheus}")  # fmt: skip
        until("Alertmanager", lambda: answers(f"http://127.0.0.1:{alertmanager}/-/ready"), START_LIMIT_S)
        until("Prometheus", lambda: answers(f"http://127.0.0.1:{self._prometheus}/-/ready"), START_LIMIT_S)
        until("scraped exporters", lambda: self.values("sum(up)") == [len(self._slos)], START_LIMIT_S)

    def restart(self, place: int) -> None:
        """Stop an exporter, and start it anew."""
        stop(self._processes[place])
        self._start_exporter(place)

    def fill_in(self, per_s: int) -> None:
        """A history of good requests up to now, second by second, of the first exporter."""
        labels = f'{{instance="127.0.0.1:{self.scraped[0]}",job="goodput",slo="{self._slos[0]}"'
        now = int(time.time())
        lines = []
        for name, more, amount in (("eligible", "", per_s), ("good", "", per_s), ("bad", ',failed="ttft"', 0)):
            lines.append(f"# TYPE inference_slo_{name}_requests counter")
            for place in range(HISTORY_S):
                series = f"inference_slo_{name}_requests_total{labels}{more}}}"
                lines.append(f"{series} {place * amount} {now - HISTORY_S + place}")
        self._write("history.om", "\n".join([*lines, "# EOF", ""]))
        command = [PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", "history.om", "prometheus"]
        subprocess.run(command, cwd=self._folder, check=True, capture_output=True)

    def _write(self, name: str, text: str) -> str:
        (self._folder / name).write_text(text, encoding="utf-8")
        return name

    def _start_exporter(self, place: int) -> None:
        ports = {"HTTP": str(self.receivers[place]), "WEB": str(self.exporters[place])}
        text = CONFIG.replace("HTTP", ports["HTTP"]).replace("WEB", ports["WEB"]) + self._alerts
        config = self._write(f"config-{place}.yaml", text)
        command = [*exporter_command(), "serve", "--config.file", config, "--slo.file", f"{self._slos[place]}.yaml"]
        self._processes[place] = self._start(*command)
        ready = f"http://127.0.0.1:{self.exporters[place]}/-/ready"
        until("a ready exporter", lambda: answers(ready), START_LIMIT_S)

    def _generate_rules(self) -> None:
        command = [
            *exporter_command(), "rules", "generate", *(f"{slo}.yaml" for slo in dict.fromkeys(self._slos)),
            "--config.file", "config-0.yaml", "--scrape-interval", "1s", "--output", "rules.yml",
            "--runbook-url", "https://runbooks.example/{alert}/{slo}",
        ]  # fmt: skip
        subprocess.run(command, cwd=self._folder, env=environment(), check=True)

    def _start(self, *command: str) -> "subprocess.Popen[bytes]":
        return start(self._stack, self._folder, *command)

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


class Gate:
    """Lets scrapes through while it is open."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()


@contextmanager
def _gated(gate: Gate, port: int) -> Iterator[int]:
    """What stands before an exporter; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not gate.open.is_set():
                self.send_error(503)
                return
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                text = answer.read()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with _served(Handler) as own:
        yield own


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

    with _served(Handler) as port:
        yield port


@contextmanager
def _served(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()
