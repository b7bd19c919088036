"""The running program: files in, sockets open, reload and stop, with the real pipeline behind real sockets."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from aiohttp import ClientError, ClientSession
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client import parser

from exporter.config import Address, Join, Receive, Settings, Stop, Web
from exporter.expose.web import ReloadRefused
from exporter.profile import built_in
from exporter.receive.grpc import EXPORT
from exporter.serve import MAX_SCRAPERS, CannotListen, Declared, Exporter, Files, read_files, run
from slo_rules.document import Problems

NOW_NS = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
ANY = Address("127.0.0.1", 0)

SLO = """
apiVersion: goodput/v1
kind: SLO
metadata: {name: chat}
spec:
  objectives: [{metric: ttft, boundary: end_to_end, percentile: 95, threshold: 1s, window: 5m}]
  goodput: {target: 99%, period: 30d}
"""
PROFILE = """
apiVersion: goodput/v1
kind: SourceProfile
metadata: {name: NAME}
spec: {role: engine, match: [{scope: my.engine}], stamps: {arrived: start, ended: end}}
"""
PORTS = """
receive: {grpc: "127.0.0.1:0", http: "127.0.0.1:0"}
web: {listen: "127.0.0.1:0", enable_lifecycle: true}
"""


def settings(**places: Address) -> Settings:
    receive = Receive(grpc=places.get("grpc", ANY), http=places.get("http", ANY))
    return Settings(receive=receive, web=Web(listen=places.get("web", ANY)))


def exporter(where: Settings | None = None, *, drain_s: float = 0.2) -> Exporter:
    declared = Declared(where or settings(), built_in(), [])
    return Exporter(lambda: declared, clock=lambda: NOW_NS, drain_s=drain_s)


def one_span() -> bytes:
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    scope.scope.name = "vllm.tracing.otel"
    span = scope.spans.add(name="llm_request", kind=2, trace_id=bytes(range(1, 17)), span_id=bytes(range(1, 9)))
    span.start_time_unix_nano, span.end_time_unix_nano = NOW_NS - 2_000_000_000, NOW_NS - 1_000_000_000
    return request.SerializeToString()


async def post(url: str, body: bytes | AsyncIterator[bytes], *, expect100: bool = False) -> int:
    headers = {"Content-Type": "application/x-protobuf"}
    async with (
        ClientSession() as session,
        session.post(f"{url}/v1/traces", data=body, headers=headers, expect100=expect100) as answer,
    ):
        return answer.status


async def get(exporter: Exporter, path: str, method: str = "GET") -> tuple[int, str]:
    url = exporter.metrics_url.removesuffix("/metrics") + path
    async with ClientSession() as session, session.request(method, url) as answer:
        return answer.status, await answer.text()


async def scrape(exporter: Exporter) -> dict[tuple[str, ...], float]:
    """Values by name and label values."""
    _, text = await get(exporter, "/metrics")
    samples = [s for family in parser.text_string_to_metric_families(text) for s in family.samples]
    return {(s.name, *s.labels.values()): s.value for s in samples}


class Folder:
    """The files of one operator."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str) -> str:
        file = self.path / name
        file.write_text(text)
        return str(file)

    def files(self, config: str = "", slo: str = SLO) -> Files:
        return Files(config=self.write("config.yaml", PORTS + config), slos=(self.write("slo.yaml", slo),))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_without_files_there_are_the_defaults_the_built_in_profiles_and_no_slos() -> None:
    assert read_files(Files(), {}) == Declared(Settings(), built_in(), [])


def test_what_the_files_declare_is_read_together(folder: Folder) -> None:
    folder.write("mine.yaml", PROFILE.replace("NAME", "mine"))
    declared = read_files(folder.files("profiles: [mine.yaml]"), {})
    assert declared.settings.web.enable_lifecycle
    assert [profile.name for profile in declared.profiles] == ["mine", *(p.name for p in built_in())]
    assert [slo.name for slo in declared.slos] == ["chat"]


def test_a_profile_of_the_users_own_stands_for_the_built_in_one_of_its_name(folder: Folder) -> None:
    folder.write("mine.yaml", PROFILE.replace("NAME", "envoy"))
    profiles = read_files(folder.files("profiles: [mine.yaml]"), {}).profiles
    assert profiles[0].matches[0].scopes == ("my.engine",)
    assert [profile.name for profile in profiles].count("envoy") == 1


def test_every_problem_of_every_file_is_told_at_once(folder: Folder) -> None:
    folder.write("mine.yaml", PROFILE.replace("NAME", "mine").replace("engine,", "enginee,"))
    files = folder.files("profiles: [mine.yaml]\nwindow: {}", SLO.replace("ttft", "tttf"))
    missing = str(folder.path / "missing.yaml")
    with pytest.raises(Problems) as caught:
        read_files(Files(config=files.config, slos=(*files.slos, missing)), {})
    found = {(Path(problem.file).name, problem.path) for problem in caught.value.items}
    assert found == {
        ("config.yaml", "window"),
        ("mine.yaml", "spec.role"),
        ("slo.yaml", "spec.objectives[0].metric"),
        ("missing.yaml", ""),
    }


def test_two_profiles_of_one_name_are_refused(folder: Folder) -> None:
    folder.write("a.yaml", PROFILE.replace("NAME", "mine"))
    folder.write("b.yaml", PROFILE.replace("NAME", "mine"))
    with pytest.raises(Problems, match=r"b\.yaml.*mine is taken"):
        read_files(folder.files("profiles: [a.yaml, b.yaml]"), {})


@pytest.mark.parametrize("content", [b"\xff\xfe", None], ids=["not_utf8", "a_folder"])
def test_a_file_that_cannot_be_read_is_a_problem_of_that_file(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "config.yaml"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(Problems, match=r"config\.yaml:1:1: must be a readable file in UTF-8"):
        read_files(Files(config=str(path)), {})


async def test_spans_by_grpc_and_http_reach_one_pipeline_and_the_scrape() -> None:
    async with exporter() as running:
        assert await post(running.http_url, one_span()) == 200
        async with grpc.aio.insecure_channel(str(running.grpc)) as channel:
            export: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(EXPORT)
            await export(one_span())
        found = await scrape(running)
    assert found["goodput_exporter_spans_received_total", "http"] == 1
    assert found["goodput_exporter_spans_received_total", "grpc"] == 1
    assert found["goodput_exporter_export_calls_total", "http", "200"] == 1
    assert found["goodput_exporter_export_calls_total", "grpc", "OK"] == 1
    assert found["goodput_exporter_config_last_reload_successful",] == 1
    assert found["goodput_exporter_config_last_reload_success_timestamp_seconds",] == NOW_NS / 1e9


@pytest.mark.needs("promtool")
async def test_promtool_has_no_complaint_about_a_scrape() -> None:
    async with exporter() as running:
        await post(running.http_url, one_span())
        _, text = await get(running, "/metrics")
    done = subprocess.run(["promtool", "check", "metrics"], input=text.encode(), capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


async def test_a_running_exporter_is_ready_and_says_where_it_listens() -> None:
    async with exporter() as running:
        assert await get(running, "/-/ready") == (200, "goodput-exporter is ready.\n")
        assert len({running.grpc.port, running.http.port, running.web.port} - {0}) == 3


async def test_an_empty_host_is_every_interface() -> None:
    async with exporter(settings(web=Address("", 0))) as running:
        assert running.metrics_url == f"http://127.0.0.1:{running.web.port}/metrics"
        assert (await get(running, "/-/healthy"))[0] == 200


@pytest.mark.parametrize(
    ("place", "setting"), [("grpc", "receive.grpc"), ("http", "receive.http"), ("web", "web.listen")]
)
async def test_a_port_in_use_is_told_with_the_name_of_its_setting(place: str, setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(CannotListen) as caught:
            await exporter(settings(**{place: address})).__aenter__()
    assert str(caught.value) == f"{setting}: cannot listen on {address}: Address already in use"


def test_a_port_in_use_ends_the_program_with_one_line_and_exit_code_2(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = folder.write("config.yaml", f'web: {{listen: "127.0.0.1:{port}"}}')
        assert run(Files(config=config)) == 2
    printed = capsys.readouterr()
    assert printed.err == f"web.listen: cannot listen on 127.0.0.1:{port}: Address already in use\n"
    assert printed.out == ""


def test_bad_files_end_the_program_with_every_problem_and_exit_code_2(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder.files("windo: {}", SLO.replace("ttft", "tttf"))) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


async def test_a_reload_takes_what_the_files_say_now(folder: Folder) -> None:
    files = folder.files()
    async with Exporter(lambda: read_files(files, {}), drain_s=0.2) as running:
        assert (await scrape(running))["inference_slo_target_ratio", "chat"] == 0.99
        folder.files(slo=SLO.replace("99%", "95%"))
        assert (await get(running, "/-/reload", "POST"))[0] == 200
        assert (await scrape(running))["inference_slo_target_ratio", "chat"] == 0.95


async def test_a_reload_of_bad_files_is_refused_the_old_ones_stay_and_the_scrape_says_so(folder: Folder) -> None:
    files = folder.files()
    times = iter(range(NOW_NS, 2 * NOW_NS, 1_000_000_000))
    async with Exporter(lambda: read_files(files, {}), clock=lambda: next(times), drain_s=0.2) as running:
        folder.files(slo=SLO.replace("99%", "95%").replace("ttft", "tttf"))
        status, text = await get(running, "/-/reload", "POST")
        assert status == 500
        assert "slo.yaml:6:25 spec.objectives[0].metric" in text
        found = await scrape(running)
        assert found["inference_slo_target_ratio", "chat"] == 0.99
        assert found["goodput_exporter_config_last_reload_successful",] == 0
        assert found["goodput_exporter_config_last_reload_success_timestamp_seconds",] == NOW_NS / 1e9
        folder.files()
        running.reload()
        found = await scrape(running)
        assert found["goodput_exporter_config_last_reload_successful",] == 1
        assert found["goodput_exporter_config_last_reload_success_timestamp_seconds",] > NOW_NS / 1e9


async def test_reload_over_http_is_off_by_default() -> None:
    async with exporter() as running:
        assert (await get(running, "/-/reload", "POST"))[0] == 403


async def test_a_change_of_where_to_listen_is_said_to_wait_for_the_next_start(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    files = folder.files()
    async with Exporter(lambda: read_files(files, {}), drain_s=0.2) as running:
        folder.write("config.yaml", PORTS.replace("true", "false"))
        running.reload()
    assert "changes under receive and web take effect at the next start" in caplog.text


async def test_a_refused_reload_is_logged_for_a_signal_that_takes_no_answer(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    files = folder.files()
    async with Exporter(lambda: read_files(files, {}), drain_s=0.2) as running:
        folder.files("windo: {}")
        running.reload_and_log()
        with pytest.raises(ReloadRefused, match="windo"):
            running.reload()
    assert "config.yaml:4:1 windo" in caplog.text


async def test_a_body_under_way_is_taken_while_stopping_and_nothing_new_is() -> None:
    running = await exporter(drain_s=10).__aenter__()
    stopping: list[asyncio.Task[None]] = []
    later: list[int] = []

    async def body() -> AsyncIterator[bytes]:
        yield one_span()[:7]
        stopping.append(asyncio.create_task(running.__aexit__(None, None, None)))
        later.append((await get(running, "/-/ready"))[0])
        later.append(await post(running.http_url, one_span()))
        yield one_span()[7:]

    assert await post(running.http_url, body(), expect100=True) == 200
    assert later == [503, 503]
    await stopping[0]
    with pytest.raises(ClientError):
        await post(running.http_url, one_span())


async def test_a_sender_that_never_ends_holds_up_the_stop_no_longer_than_the_drain() -> None:
    running = await exporter().__aenter__()
    started = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"x"
        started.set()
        await asyncio.Event().wait()

    sending = asyncio.create_task(post(running.http_url, endless(), expect100=True))
    await started.wait()
    async with asyncio.timeout(5):
        await running.__aexit__(None, None, None)
    sending.cancel()
    with suppress(asyncio.CancelledError, ClientError):
        await sending


async def test_a_fault_in_the_evaluation_ends_the_program_and_is_not_lost() -> None:
    times = iter([NOW_NS])

    def clock() -> int:
        if (now := next(times, None)) is None:
            raise RuntimeError("no more time")
        return now

    declared = Declared(settings(), built_in(), [])
    with pytest.raises(RuntimeError, match="no more time"):
        async with Exporter(lambda: declared, clock=clock, drain_s=0.2) as running:
            await running.run_until(asyncio.Event())


PROGRAM = """
import logging, sys
from exporter.serve import Files, run
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
sys.exit(run(Files(config=sys.argv[1], slos=(sys.argv[2],))))
"""


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_sighup_reloads_and_sigterm_or_sigint_stops_with_exit_code_0(
    folder: Folder, checkout: Path, end: signal.Signals
) -> None:
    files = folder.files()
    command = [sys.executable, "-c", PROGRAM, str(files.config), *files.slos]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=checkout) as program:
        line: Callable[[], str] = program.stdout.readline  # type: ignore[union-attr]
        assert line().startswith("OTLP/gRPC on 127.0.0.1:")
        program.send_signal(signal.SIGHUP)
        assert line() == "reloaded\n"
        folder.files("windo: {}")
        program.send_signal(signal.SIGHUP)
        assert line() == "not reloaded, the old files stay in force:\n"
        assert "windo" in line()
        program.send_signal(end)
        assert line() == "stopping, within 25 s; a second signal ends at once\n"
        assert program.wait(timeout=15) == 0


# The end: what was sent is counted and read.


def ending_exporter(*, join_ns: int = 3600 * SECOND, grace_ns: int = 3600 * SECOND) -> Exporter:
    where = replace(settings(), join=Join(grace_ns=join_ns), stop=Stop(grace_ns=grace_ns))
    return Exporter(lambda: Declared(where, built_in(), []), clock=lambda: NOW_NS, drain_s=0.2)


async def told_to_stop(running: Exporter) -> "asyncio.Task[None]":
    ending = asyncio.create_task(running.wind_down())
    while (await get(running, "/-/ready"))[0] == 200:
        pass
    return ending


def counted(found: dict[tuple[str, ...], float]) -> float:
    return sum(value for key, value in found.items() if key[0] == "inference_completions_total" and "model" in key)


async def test_spans_that_come_after_the_signal_are_taken_and_read() -> None:
    async with ending_exporter(join_ns=0) as running:
        assert counted(await scrape(running)) == 0
        ending = await told_to_stop(running)
        assert await post(running.http_url, one_span()) == 200
        assert not ending.done()
        while not ending.done():
            assert counted(await scrape(running)) == 1


async def test_what_waits_to_be_joined_is_counted_when_time_runs_out_and_what_comes_then_is_refused() -> None:
    async with ending_exporter(grace_ns=SECOND) as running:
        await post(running.http_url, one_span())
        assert counted(await scrape(running)) == 0
        ending = await told_to_stop(running)
        while await post(running.http_url, one_span()) == 200:
            pass
        assert not ending.done()
        assert counted(await scrape(running)) == 1
        async with asyncio.timeout(0.3):
            await ending


async def test_a_scrape_that_does_not_come_is_waited_for_no_longer_than_the_grace() -> None:
    async with ending_exporter(grace_ns=SECOND // 2) as running:
        await post(running.http_url, one_span())
        await scrape(running)
        begun = time.monotonic()
        await running.wind_down()
        assert 0.4 < time.monotonic() - begun < 5


async def test_without_open_requests_and_scrapers_there_is_nothing_to_wait_for() -> None:
    async with ending_exporter() as running, asyncio.timeout(2):
        await running.wind_down()


async def test_every_scraper_is_waited_for_and_none_that_has_gone() -> None:
    async with ending_exporter() as running:
        now = time.monotonic()
        for address, ago_s in (("10.0.0.1", 5), ("10.0.0.2", 5), ("10.0.0.3", 600)):
            running._note_scrape(address, now - ago_s)
        ending = await told_to_stop(running)
        running._note_scrape("10.0.0.1", time.monotonic())
        running._note_scrape("10.0.0.2", now - 1)  # begun before the end was
        await get(running, "/-/ready")
        assert not ending.done()
        running._note_scrape("10.0.0.2", time.monotonic())
        async with asyncio.timeout(2):
            await ending


async def test_the_addresses_of_scrapers_are_bounded() -> None:
    async with exporter() as running:
        for last in range(100):
            running._note_scrape(f"10.0.0.{last}", 0.0)
        assert len(running._scrapes) == MAX_SCRAPERS
