"""Every query of every dashboard, asked of a real Prometheus that scrapes real exporters under the generated rules.

Three exporters run. `recorded` gets captures of Envoy and vLLM, `mixed` those of a queue and of another engine, with
declared labels and classes; both are moved in time so that they end now, and sent within half a minute. `surge` watches
the demo. Prometheus scrapes each of them every 2 s, so `$__rate_interval` is filled in as 10s, and windows of alerts
are a sixtieth of the usual ones.

A replay of the bytes that `recorded` got says what is right. Values of windows, SLOs and clocks are those of the
report, exactly: the window holds all of the recording. Rates are what Prometheus extrapolates: a counter that is there
before the first request, at zero, has over the window the count of the report by its length, but for the part of a
scrape interval at either end.
"""

import asyncio
import io
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from rich.console import Console

from dashboards.frame import Settings
from dashboards.render import Source, fill, render
from dashboards.write import plain
from exporter.demo.run import run
from exporter.demo.trace import PHASES, SECOND_NS
from tests.e2e import recorded
from tests.e2e.programs import answers, environment, exporter_command, free_port, start, stop, until

PROMETHEUS_PROGRAM: Final = os.environ.get("GOODPUT_PROMETHEUS", "prometheus")
"""Another one by its path."""
PICTURES: Final = os.environ.get("GOODPUT_PICTURES")
"""Where to leave a picture of each dashboard."""
pytestmark = pytest.mark.needs(PROMETHEUS_PROGRAM)

SLO: Final = """\
apiVersion: goodput/v1
kind: SLO
metadata: {name: recorded}
spec:
  objectives:
    - {name: ttft, metric: ttft, boundary: end_to_end, percentile: 95, threshold: 1500ms, window: 5m}
    - {metric: tpot, boundary: end_to_end, percentile: 95, threshold: 30ms, window: 5m}
    - {metric: completion, boundary: end_to_end, percentile: 99, threshold: 8s, window: 5m}
    - {name: model_ttft, metric: ttft, boundary: model, percentile: 95, threshold: 1s, window: 5m}
  goodput: {target: 99%, period: 1h}
"""
NIGHTLY: Final = """\
apiVersion: goodput/v1
kind: SLO
metadata: {name: nightly}
spec:
  {selector: {class: batch}, workload: batch, boundary: end_to_end, deadline: 20s, goodput: {target: 95%, period: 1h}}
"""
RECORDED: Final = """\
receive: {grpc: "127.0.0.1:GRPC", http: "127.0.0.1:HTTP"}
web: {listen: "127.0.0.1:WEB"}
labels: {model: {default: tiny}}
classes: [{class: chat, when: {model: tiny}}]
accelerators: {tiny: 8}
windows: {durations: [1m, 5m], delay: 1s, lateness: 10m}
join: {grace: 3s}
"""
MIXED: Final = """\
receive: {grpc: "127.0.0.1:GRPC", http: "127.0.0.1:HTTP"}
web: {listen: "127.0.0.1:WEB"}
profiles: [profile.yaml]
labels: {model: {default: small}, task: {from: [celery.task_name]}}
classes: [{class: batch, when: {task: llm.generate}}, {class: mixed, when: {model: [small, images, unknown_model]}}]
accelerators: {images: 2}
windows: {durations: [1m, 5m], delay: 1s, lateness: 10m}
join: {grace: 3s}
"""
SURGE: Final = """\
receive: {grpc: "127.0.0.1:GRPC", http: "127.0.0.1:HTTP"}
web: {listen: "127.0.0.1:WEB"}
labels: {model: {default: demo}}
classes: [{class: demo, when: {model: demo}}]
windows: {durations: [10s, 1m, 5m], delay: 2s}
join: {grace: 1s}
"""
WINDOWS: Final = """\
apiVersion: goodput/v1
kind: AlertWindows
spec:
  burn:
    - {severity: page, long: 1m, short: 8s, budget: 2%}
    - {severity: page, long: 6m, short: 30s, budget: 5%}
    - {severity: ticket, long: 24m, short: 2m, budget: 10%}
  backlog: {long: 30s, short: 8s, for: 4s, share: 5%, requests: 10}
  no_data: {window: 1m, before: [24m, 168m], requests: 5}
  exporter: {for: 5s}
"""
PROMETHEUS: Final = """\
global: {scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 2s}
rule_files: [rules.yml]
scrape_configs: [{job_name: goodput, static_configs: [{targets: TARGETS}]}]
"""
SEND_S: Final = 30.0
EVERYTHING: Final = dict.fromkeys(("slo", "model", "class", "boundary", "instance"), ".+") | {
    "window": "5m", "__rate_interval": "10s", "datasource": "Prometheus", "tracing": "http://localhost:16686",
}  # fmt: skip

NEEDS_STARTS: Final = {"In flight, older than", "Oldest in flight", "Time to drain"}
"""Panels of what only access logs or gauges tell: empty until the exporter takes these. Empty is no zero."""


class Board(NamedTuple):
    """A dashboard as Grafana would read it."""

    name: str
    json: Mapping[str, Any]

    def panels(self) -> Iterator[Mapping[str, Any]]:
        """All that ask something."""
        yield from (panel for panel in self.json["panels"] if panel.get("targets"))


BOARDS: Final = [Board(name.removesuffix(".json"), json.loads(text)) for name, text in plain(Settings()).items()]
TARGETS: Final = [
    pytest.param(panel, target, id=f"{board.name}: {panel['title']}, {target['refId']}")
    for board in BOARDS
    for panel in board.panels()
    for target in panel["targets"]
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What came of it: where to ask, at which time, and what is right."""

    source: Source
    report: Mapping[str, Any]
    recorder: str
    """The exporter that received the recording, as the label `instance`."""
    traces: frozenset[str]
    """Trace ids of the requests in the recording."""

    def ask(self, expr: str, **values: str) -> list[tuple[dict[str, str], float]]:
        """The answer at the end."""
        found = self.source.now(fill(expr, EVERYTHING | values))
        return [(labels, points[0][1]) for labels, points in found if points]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, captures: Path) -> Iterator[Seen]:
    """A minute of captures and of surge."""
    folder = tmp_path_factory.mktemp("dashboards")
    with ExitStack() as stack:
        found = Rig(folder, stack).play(captures)
        if PICTURES:
            written = folder / "boards"
            written.mkdir()
            for name, text in plain(Settings()).items():
                (written / name).write_text(text, encoding="utf-8")
            render(sorted(written.iterdir()), found.source, {"__rate_interval": "10s"}, Path(PICTURES))
        yield found


@pytest.mark.parametrize(("panel", "target"), TARGETS)
def test_every_query_answers_without_error(panel: Mapping[str, Any], target: Mapping[str, Any], seen: Seen) -> None:
    found = (seen.source.now if target["instant"] else seen.source.over_time)(fill(target["expr"], EVERYTHING))
    if panel["title"] in NEEDS_STARTS:
        assert not found
    else:
        assert any(points for _, points in found)


# What is right


class Right(NamedTuple):
    """A number of a panel: the lines of which query, what the report says of each, and how far off it may be."""

    board: str
    panel: str
    ref: str
    report: Callable[[Mapping[str, Any]], Mapping[tuple[str, ...], float | None]]
    """By the values of `labels`."""
    labels: tuple[str, ...] = ()
    within: float = 1e-9
    chosen: Mapping[str, str] = {}


def at(report: Mapping[str, Any], *path: str) -> Any:
    """A value of the report."""
    for key in path:
        report = report[key]
    return report


def of_window(*path: str) -> Callable[[Mapping[str, Any]], Mapping[tuple[str, ...], float | None]]:
    """A value of the window at end_to_end."""
    return lambda report: {(): at(report, "windows", "5m", "boundaries", "end_to_end", *path)}


def of_slo(*path: str) -> Callable[[Mapping[str, Any]], Mapping[tuple[str, ...], float | None]]:
    """A value of the SLO."""
    return lambda report: {("recorded",): at(report, "slos", "recorded", *path)}


def percentiles(metric: str) -> Callable[[Mapping[str, Any]], Mapping[tuple[str, ...], float | None]]:
    """The percentiles of a metric in the window at end_to_end."""
    found = of_window("metrics", metric)
    return lambda report: {(name,): found(report)[()][f"p{name}"] for name in ("50", "95", "99")}  # type: ignore[index]


def per_boundary(*path: str) -> Callable[[Mapping[str, Any]], Mapping[tuple[str, ...], float | None]]:
    """A value of the window at each boundary."""
    return lambda report: {(name,): at(found, *path) for name, found in report["windows"]["5m"]["boundaries"].items()}


def counted(*path: str) -> Callable[[Mapping[str, Any]], Mapping[tuple[str, ...], float | None]]:
    """Counts as a rate over the window of 300 s."""
    return lambda report: {(name,): count / WINDOW_S for name, count in at(report, *path).items()}


def thresholds(report: Mapping[str, Any]) -> Mapping[tuple[str, ...], float | None]:
    """The limits of the SLO."""
    return {(name,): each["threshold_s"] for name, each in report["slos"]["recorded"]["objectives"].items()}


def verdicts(report: Mapping[str, Any]) -> Mapping[tuple[str, ...], float | None]:
    """Codes of the verdicts."""
    codes = {"met": 1.0, "violated": 2.0, "no_data": 3.0}
    return {(name,): codes[each["verdict"]] for name, each in report["slos"]["recorded"]["objectives"].items()}


def speeds(report: Mapping[str, Any]) -> Mapping[tuple[str, ...], float | None]:
    """Output tokens per second of one user."""
    return {name: 1 / (value or 0) for name, value in percentiles("tpot")(report).items()}


def samples(report: Mapping[str, Any]) -> Mapping[tuple[str, ...], float | None]:
    """How many samples the percentiles have."""
    found = at(report, "windows", "5m", "boundaries", "end_to_end", "metrics")
    return {(metric,): found[metric]["count"] for metric in found}


def burn(report: Mapping[str, Any]) -> Mapping[tuple[str, ...], float | None]:
    """The share of bad requests by the share that the target allows."""
    found = report["slos"]["recorded"]
    return {("recorded",): (1 - found["windows"]["5m"]["attainment"]) / (1 - found["target"])}


def phases(percentile: str) -> Callable[[Mapping[str, Any]], Mapping[tuple[str, ...], float | None]]:
    """The percentile of each phase at end_to_end; the window holds all."""
    return lambda report: {
        (name,): each[percentile] for name, each in at(report, "boundaries", "end_to_end", "phases").items()
    }


def refused(report: Mapping[str, Any]) -> Mapping[tuple[str, ...], float | None]:
    """Spans that were not used; the used ones are `late` where they are sent after their time."""
    return {key: value for key, value in counted("spans")(report).items() if key != ("used",)}


def clocks(field: str) -> Callable[[Mapping[str, Any]], Mapping[tuple[str, ...], float | None]]:
    """Offsets of clocks, or their errors."""
    return lambda report: {(each["reference"], each["clock"]): each[field] for each in report["clocks"]}


WINDOW_S: Final = 300
RATE: Final = 0.03
"""A counter's rate over the window may be off by a scrape interval of the 70 s that it is there."""
SLOT: Final = 2e-3
"""All of the input is read to the exact maximum, a window to the end of a slot."""
SLO_ONLY: Final = ("slo",)
RIGHT: Final = [
    Right("on-call", "Is the promise kept? Last $window, over all exporters", "B",
          of_slo("windows", "5m", "attainment"), SLO_ONLY),
    Right("on-call", "Is the promise kept? Last $window, over all exporters", "C", of_slo("target"), SLO_ONLY),
    Right("on-call", "Is the promise kept? Last $window, over all exporters", "D",
          of_slo("budget", "remaining"), SLO_ONLY),
    Right("on-call", "Is the promise kept? Last $window, over all exporters", "E", burn, SLO_ONLY),
    Right("on-call", "Since when: verdict of each objective", "A", verdicts, ("objective",)),
    Right("on-call", "Good requests against the target", "A", of_slo("windows", "5m", "attainment"), SLO_ONLY),
    Right("on-call", "Good requests against the target", "B", of_slo("target"), SLO_ONLY),
    Right("on-call", "Time to first token at $boundary", "A", percentiles("ttft"), ("percentile",)),
    Right("on-call", "Time per output token at $boundary", "A", percentiles("tpot"), ("percentile",)),
    Right("on-call", "Completion at $boundary", "A", percentiles("completion"), ("percentile",)),
    Right("on-call", "Goodput against the target", "A",
          of_slo("windows", "5m", "goodput_requests_per_second"), SLO_ONLY, RATE),
    Right("on-call", "Growth of the backlog, over $window", "A", per_boundary("backlog_growth_per_second"),
          ("boundary",), chosen={"boundary": ".+"}),
    Right("on-call", "What fails, requests per second", "A", counted("slos", "recorded", "failed"), ("failed",), RATE),
    Right("on-call", "Not judged", "A", counted("slos", "recorded", "unjudged"), ("reason",), RATE),
    Right("on-call", "Outcomes at $boundary", "A", counted("boundaries", "end_to_end", "outcomes"), ("outcome",), RATE),
    Right("on-call", "Arrivals against completions at $boundary", "A", of_window("arrivals_per_second"), (), RATE),
    Right("on-call", "Arrivals against completions at $boundary", "B", of_window("completions_per_second"), (), RATE),
    Right("on-call", "Limits", "A", thresholds, ("objective",)),
    Right("on-call", "Targets", "B", of_slo("period_s"), SLO_ONLY),
    Right("anatomy", "Phases at p50, $model at $boundary", "A", phases("p50"), ("phase",), SLOT),
    Right("anatomy", "Phases at p95, $model at $boundary", "A", phases("p95"), ("phase",), SLOT),
    Right("anatomy", "Phases at p95, $model at $boundary", "B", of_window("metrics", "completion", "p95")),
    Right("anatomy", "Time to first token p50 per boundary, $model", "A", per_boundary("metrics", "ttft", "p50"),
          ("boundary",)),
    Right("anatomy", "Time to first token p95 per boundary, $model", "A", per_boundary("metrics", "ttft", "p95"),
          ("boundary",)),
    Right("anatomy", "Time to first token p95 now, $model", "A", per_boundary("metrics", "ttft", "p95"), ("boundary",)),
    Right("anatomy", "Samples behind the percentiles, $model at $boundary", "A", samples, ("metric",)),
    Right("capacity", "Requests at $boundary", "B", of_window("completions_per_second"), (), RATE),
    Right("capacity", "Tokens at $boundary", "A", of_window("input_tokens_per_second"), (), RATE),
    Right("capacity", "Tokens at $boundary", "B", of_window("output_tokens_per_second"), (), RATE),
    Right("capacity", "Output tokens per second of one user at $boundary", "A", speeds, ("percentile",)),
    Right("capacity", "Goodput, last $window", "A",
          of_slo("windows", "5m", "goodput_requests_per_second"), SLO_ONLY),
    Right("capacity", "Good output tokens, last $window", "A",
          of_slo("windows", "5m", "goodput_output_tokens_per_second"), SLO_ONLY),
    Right("capacity", "Requests that each SLO selects, last $window", "A",
          of_slo("windows", "5m", "completions_per_second"), SLO_ONLY),
    Right("capacity", "Output tokens that each SLO selects, last $window", "A",
          of_slo("windows", "5m", "output_tokens_per_second"), SLO_ONLY),
    Right("exporter-health", "Spans by fate", "A", refused, ("fate",), RATE),
    Right("exporter-health", "Requests joined", "A", counted("joined"), ("result",), RATE),
    Right("exporter-health", "Clock offsets", "A", clocks("offset_s"), ("reference", "clock")),
    Right("exporter-health", "Uncertainty of clock offsets", "A", clocks("error_s"), ("reference", "clock")),
]  # fmt: skip
"""What a replay knows too. The other panels show what it has no part in: alerts, memory, exemplars, the other two."""


@pytest.mark.parametrize("right", RIGHT, ids=lambda right: f"{right.board}: {right.panel}, {right.ref}")
def test_a_panel_shows_the_number_of_the_report(right: Right, seen: Seen) -> None:
    (expr,) = (
        target["expr"]
        for board in BOARDS
        for panel in board.panels()
        for target in panel["targets"]
        if (board.name, panel["title"], target["refId"]) == right[:3]
    )
    only = {"model": "tiny", "class": "chat", "slo": "recorded", "boundary": "end_to_end", "instance": seen.recorder}
    answer = seen.ask(expr, **{**only, "__rate_interval": "5m", **right.chosen})
    shown = {tuple(labels[name] for name in right.labels): value for labels, value in answer}
    expected = {key: value for key, value in right.report(seen.report).items() if value is not None}
    assert expected
    assert {key: shown.get(key) for key in expected} == pytest.approx(expected, rel=right.within)


def test_twenty_panels_and_more_are_held_against_the_report() -> None:
    assert len({right[:3] for right in RIGHT}) >= 20


ANNOTATIONS: Final = {note["name"]: note["expr"] for board in BOARDS for note in board.json["annotations"]["list"]}


@pytest.mark.parametrize("name", ["Alerts", "Reloads"])
def test_an_annotation_marks_what_happened(name: str, seen: Seen) -> None:
    assert any(points for _, points in seen.source.over_time(ANNOTATIONS[name]))


def test_no_annotation_marks_what_did_not_happen(seen: Seen) -> None:
    assert not seen.source.over_time(ANNOTATIONS["Refused reloads"])


def test_exemplars_are_requests_of_the_recording(seen: Seen) -> None:
    """What a dot of the panel leads to: the trace id of a request that was slow or failed."""
    (panel,) = (panel for board in BOARDS for panel in board.panels() if panel["title"].startswith("Completion over"))
    asked = {
        "query": fill(panel["targets"][0]["expr"], EVERYTHING),
        "start": seen.source.end_s - WINDOW_S, "end": seen.source.end_s,  # the recording lies before what was sent
    }  # fmt: skip
    with urlopen(f"{seen.source.url}/api/v1/query_exemplars?{urlencode(asked)}", timeout=10) as answer:
        series = json.load(answer)["data"]
    traces = {
        exemplar["labels"]["trace_id"]
        for each in series
        for exemplar in each["exemplars"]
        if each["seriesLabels"]["instance"] == seen.recorder
    }
    assert traces
    assert traces <= seen.traces


# Without data


UNITS: Final = ("s", "percentunit")
DECLARED: Final = {"limit", "target", "period"}
"""What an SLO says of itself, whether there is traffic or not."""


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Source, Callable[[], None]]]:
    """An exporter with SLOs to which nobody sends anything, and how to end it."""
    with ExitStack() as stack:
        rig = Rig(tmp_path_factory.mktemp("idle"), stack, only="recorded")
        yield Source(url=rig.url, end_s=time.time(), range_s=10), rig.end_recorder


def answers_of(source: Source) -> Iterator[tuple[str, str, str]]:
    """Dashboard, panel and query of all that has an answer and speaks of times, shares or one user."""
    for board in BOARDS:
        for panel in board.panels():
            columns = [each["properties"] for each in panel["fieldConfig"]["overrides"]]
            for place, target in enumerate(panel["targets"]):
                unit = panel["fieldConfig"]["defaults"]["unit"]
                name = target["legendFormat"].split(" ")[0]
                if panel["type"] == "table":
                    own = {each["id"]: each["value"] for each in columns[place]}
                    unit, name = own["unit"], own["displayName"]
                told = unit in UNITS or "one user" in panel["title"]
                if told and name not in DECLARED and source.now(fill(target["expr"], EVERYTHING)):
                    yield board.name, panel["title"], target["refId"]


def test_without_requests_no_panel_shows_a_time_a_share_or_a_user_s_speed(
    idle: tuple[Source, Callable[[], None]],
) -> None:
    assert [each for each in answers_of(idle[0]) if each[0] != "exporter-health"] == []


def test_when_the_exporter_is_gone_no_panel_shows_its_last_numbers(idle: tuple[Source, Callable[[], None]]) -> None:
    source, end = idle
    end()
    until(
        "a failed scrape", lambda: [points[0][1] for _, points in replace(source, end_s=time.time()).now("up")] == [0]
    )
    now = replace(source, end_s=time.time())
    shown = [
        panel["title"]
        for board in BOARDS
        for panel in board.panels()
        for target in panel["targets"]
        if target["instant"] and "[" not in target["expr"] and now.now(fill(target["expr"], EVERYTHING))
    ]
    assert shown == []


# The rig


class External:
    """An exporter that runs on its own, as the demo needs it."""

    def __init__(self, grpc: int, http: int, web: int) -> None:
        self.grpc_url, self.http_url = f"http://127.0.0.1:{grpc}", f"http://127.0.0.1:{http}"
        self.metrics_url = f"http://127.0.0.1:{web}/metrics"

    def report(self, now_ns: int) -> Mapping[str, Any]:
        """Nothing to draw."""
        return {}


class Rig:
    """Three exporters, and Prometheus with the generated rules, up and scraped."""

    def __init__(self, folder: Path, stack: ExitStack, only: str = "") -> None:
        self._folder, self._stack = folder, stack
        names = (only,) if only else ("recorded", "mixed", "surge")
        kinds = ("grpc", "http", "web")
        self._ports = {f"{name}_{kind}": free_port() for name in names for kind in kinds}
        self.url = f"http://127.0.0.1:{free_port()}"
        self._write("profile.yaml", recorded.PROFILE)
        surge = files("exporter.demo").joinpath("slo.yaml").read_text(encoding="utf-8")
        self._recorder = self._start_exporter("recorded", RECORDED, SLO)
        if not only:
            self._start_exporter("mixed", MIXED, NIGHTLY)
            self._start_exporter("surge", SURGE, surge)
        self._start_prometheus([f"{name}.slo.yaml" for name in names], names[-1])

    def end_recorder(self) -> None:
        """Stop the exporter."""
        stop(self._recorder)

    def _write(self, name: str, text: str) -> str:
        (self._folder / name).write_text(text, encoding="utf-8")
        return name

    def _start_exporter(self, name: str, config: str, slo: str) -> "subprocess.Popen[bytes]":
        for kind in ("grpc", "http", "web"):
            config = config.replace(kind.upper(), str(self._ports[f"{name}_{kind}"]))
        files = (
            "--config.file",
            self._write(f"{name}.yaml", config),
            "--slo.file",
            self._write(f"{name}.slo.yaml", slo),
        )
        process = start(self._stack, self._folder, *exporter_command(), "serve", *files)
        until("a ready exporter", lambda: answers(f"http://127.0.0.1:{self._ports[f'{name}_web']}/-/ready"))
        return process

    def _start_prometheus(self, slos: Sequence[str], config_of: str) -> None:
        windows = ("--windows", self._write("windows.yaml", WINDOWS), "--scrape-interval", "2s")
        rules = self._run("rules", "generate", *slos, "--config.file", f"{config_of}.yaml", *windows)
        self._write("rules.yml", rules)
        targets = json.dumps([f"127.0.0.1:{port}" for name, port in self._ports.items() if name.endswith("web")])
        config = self._write("prometheus.yml", PROMETHEUS.replace("TARGETS", targets))
        start(self._stack, self._folder, PROMETHEUS_PROGRAM, f"--config.file={config}", "--storage.tsdb.path=data",
              f"--web.listen-address={self.url[7:]}", "--enable-feature=exemplar-storage")  # fmt: skip
        until("Prometheus", lambda: answers(f"{self.url}/-/ready"))
        until("scraped exporters", lambda: self._value("count(goodput_exporter_build_info)") == len(slos))

    def _run(self, *arguments: str) -> str:
        command = [*exporter_command(), *arguments]
        done = subprocess.run(command, cwd=self._folder, env=environment(), check=True, capture_output=True, text=True)
        return done.stdout

    def _value(self, expr: str) -> float | None:
        found = Source(url=self.url, end_s=time.time(), range_s=1).now(expr)
        return found[0][1][0][1] if found and found[0][1] else None

    def play(self, captures: Path) -> Seen:
        """Send the captures while the demo runs; what Prometheus knows when all is counted."""
        begun, now_ns = time.time(), time.time_ns()
        envoy = recorded.bodies([captures / "vllm-envoy", captures / "envoy-verbose-vllm"], now_ns, SEND_S)
        mixed = recorded.bodies([captures / "celery-envoy-vllm", captures / "dynamo-mocker"], now_ns, SEND_S)
        recorded.write(envoy, self._folder / "recorded.pb")
        senders = [
            threading.Thread(target=recorded.send, args=(bodies, self._ports[f"{name}_http"]), daemon=True)
            for name, bodies in (("recorded", envoy), ("mixed", [recorded.images(now_ns), *mixed]))
        ]
        for sender in senders:
            sender.start()
        phases = [replace(phase, length_ns=phase.length_ns * 2 // 3 // SECOND_NS * SECOND_NS) for phase in PHASES]
        assert asyncio.run(run(console=Console(file=io.StringIO()), phases=phases, exporter=self._demo)) == 0
        for sender in senders:
            sender.join(SEND_S)
        self._recorder.send_signal(signal.SIGHUP)
        sent, instance = time.time(), f"127.0.0.1:{self._ports['recorded_web']}"
        newest = f'inference_window_end_timestamp_seconds{{instance="{instance}"}}'
        until("settled windows", lambda: (self._value(newest) or 0) > sent + 3)
        files = ("--config.file", "recorded.yaml", "--slo.file", "recorded.slo.yaml", "recorded.pb")
        report = json.loads(self._run("replay", "--json", "--requests", "requests.jsonl", *files))
        rows = (self._folder / "requests.jsonl").read_text(encoding="utf-8").splitlines()
        until("a scrape of all", lambda: self._value("sum(up)") == 3)
        end_s = time.time()
        source = Source(url=self.url, end_s=end_s, range_s=end_s - begun)
        traces = frozenset(json.loads(row)["trace_id"] for row in rows)
        return Seen(source=source, report=report, recorder=instance, traces=traces)

    @asynccontextmanager
    async def _demo(self) -> AsyncIterator[External]:
        yield External(*(self._ports[f"surge_{kind}"] for kind in ("grpc", "http", "web")))
