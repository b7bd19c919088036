"""The pages over real sockets: formats as agreed by Accept, health, reload, and nothing else."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer
from prometheus_client import Metric, parser
from prometheus_client.openmetrics import parser as openmetrics_parser

from exporter.expose import web
from exporter.expose.text import CHUNK_LINES, OPENMETRICS, TEXT, Family, Point
from exporter.expose.web import ReloadRefused, Site, accepts_gzip, agree_on_format, application
from slo_rules.families import FAMILY

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


def families() -> Iterable[Family]:
    yield Family(FAMILY["goodput_exporter_spans_total"], [Point((f"fate_{n}",), n) for n in range(50)])


@asynccontextmanager
async def visitor(site: Site) -> AsyncIterator[ClientSession]:
    async with TestServer(application(site)) as server:
        plain = {"Accept-Encoding": "identity"}
        async with ClientSession(server.make_url("/"), auto_decompress=False, headers=plain) as me:
            yield me


def read_openmetrics(text: str) -> dict[str, Metric]:
    found = openmetrics_parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    return {family.name: family for family in found}


def site(unready: Callable[[], str | None] = lambda: None) -> Site:
    return Site(collect=families, unready=unready)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/*", TEXT),
        ("text/plain", TEXT),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", TEXT),
        ("application/json", TEXT),
        (PROMETHEUS_2, OPENMETRICS),
        (PROMETHEUS_3, OPENMETRICS),
        ("application/openmetrics-text", OPENMETRICS),
        ("Application/OpenMetrics-Text; Version=1.0.0", OPENMETRICS),
        ('application/openmetrics-text; version="1.0.0"', OPENMETRICS),
        ("application/openmetrics-text;version=0.0.1", TEXT),
        ("application/openmetrics-text;version=2.0.0", TEXT),
        ("application/openmetrics-text;q=0", TEXT),
        ("application/openmetrics-text;q=0, text/plain;q=0.1", TEXT),
        ("application/openmetrics-text;q=0.5, text/plain;q=0.9", TEXT),
        ("application/openmetrics-text;q=0.5, text/plain;version=1.0.0;q=0.9", OPENMETRICS),
        ("application/openmetrics-text;q=0.5, */*;q=0.4", OPENMETRICS),
        ("application/openmetrics-text;q=0.4, */*;q=0.5", TEXT),
        ("text/plain, application/openmetrics-text", OPENMETRICS),
        ("application/openmetrics-text;q=much", TEXT),
        ("application/openmetrics-text;q=2", TEXT),
        (";;,,;q=,", TEXT),
    ],
)
def test_the_format_follows_the_accept_header_and_its_weights(accept: str, expected: str) -> None:
    assert agree_on_format([accept]) == expected


def test_accept_headers_given_twice_count_as_one_list() -> None:
    assert agree_on_format(["text/plain;q=0.5", "application/openmetrics-text"]) == OPENMETRICS


@pytest.mark.parametrize(
    ("accept_encoding", "expected"),
    [
        ("", False), ("gzip", True), ("GZIP", True), ("deflate, gzip;q=0.1", True), ("*", True), ("identity", False),
        ("gzip;q=0", False), ("*, gzip;q=0", False), ("gzip, *;q=0", True), ("gzip;q=0.0, *;q=1", False),
    ],
)  # fmt: skip
def test_gzip_is_used_only_where_it_is_accepted(accept_encoding: str, expected: bool) -> None:
    assert accepts_gzip([accept_encoding]) == expected


async def test_metrics_are_plain_text_by_default() -> None:
    async with visitor(site()) as me, me.get("/metrics") as answer:
        assert (answer.status, answer.headers["Content-Type"]) == (200, TEXT)
        found = parser.text_string_to_metric_families(await answer.text())
        samples = [sample for family in found for sample in family.samples]
    assert len([s for s in samples if s.name == "goodput_exporter_spans_total"]) == 50


async def test_metrics_are_openmetrics_for_prometheus() -> None:
    async with visitor(site()) as me, me.get("/metrics", headers={"Accept": PROMETHEUS_3}) as answer:
        assert (answer.status, answer.headers["Content-Type"]) == (200, OPENMETRICS)
        found = read_openmetrics(await answer.text())
    assert len(found["goodput_exporter_spans"].samples) == 50


async def test_the_process_is_described_beside_the_families() -> None:
    async with visitor(site()) as me, me.get("/metrics", headers={"Accept": PROMETHEUS_3}) as answer:
        found = read_openmetrics(await answer.text())
    assert found["process_resident_memory_bytes"].samples[0].value > 1e6
    assert (found["process_cpu_seconds"].type, found["process_cpu_seconds"].unit) == ("counter", "seconds")


async def test_a_zipped_scrape_is_the_same_scrape() -> None:
    async with visitor(site()) as me:
        async with me.get("/metrics", headers={"Accept-Encoding": "gzip;q=0.5"}) as answer:
            assert answer.headers["Content-Encoding"] == "gzip"
            zipped = gzip.decompress(await answer.read())
        async with me.get("/metrics", headers={"Accept-Encoding": "gzip;q=0"}) as answer:
            assert "Content-Encoding" not in answer.headers
            plain = await answer.read()
    assert zipped.partition(b"# HELP process_")[0] == plain.partition(b"# HELP process_")[0]


async def test_head_has_the_headers_of_get_and_no_body() -> None:
    async with visitor(site()) as me, me.head("/metrics") as answer:
        assert (answer.status, answer.headers["Content-Type"]) == (200, TEXT)
        assert int(answer.headers["Content-Length"]) > 1000
        assert await answer.read() == b""


# In turns


def large(lines: int) -> Callable[[], Iterator[Family]]:
    """A scrape of so many lines, about 60 bytes each."""

    def collect() -> Iterator[Family]:
        yield Family(FAMILY["goodput_exporter_spans_total"], [Point((f"fate_{n}",), n) for n in range(lines)])

    return collect


async def test_others_have_their_turn_while_a_scrape_is_read_and_written() -> None:
    turns = {"reading": 0, "writing": 0, "after": 0}
    now = "reading"
    lock = asyncio.Lock()

    def collect() -> Iterator[Family | None]:
        nonlocal now
        for _ in range(100):
            assert lock.locked(), "nobody whom the scrape excludes has a turn"
            yield None
        yield from large(50_000)()
        now = "writing"

    def scraped(address: str, begun_s: float) -> None:
        nonlocal now
        now = "after"

    async def ingest() -> None:
        while True:
            turns[now] += lock.locked() == (now == "reading")
            await asyncio.sleep(0)

    seen = Site(collect=collect, unready=lambda: None, scraped=scraped, reading=lambda: lock)
    async with visitor(seen) as me:
        other = asyncio.create_task(ingest())
        async with me.head("/metrics") as answer:  # without a body there is nothing else to wait for
            assert answer.status == 200
        other.cancel()
    assert turns["reading"] >= 100
    assert turns["writing"] >= 50_000 // CHUNK_LINES


async def test_scrapes_are_collected_one_at_a_time() -> None:
    under_way = most = 0

    def collect() -> Iterator[Family | None]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        yield None
        yield from large(10)()
        under_way -= 1

    async with visitor(Site(collect=collect, unready=lambda: None)) as me:
        answers = await asyncio.gather(*(me.get("/metrics") for _ in range(10)))
        bodies = [(await answer.text()).partition("# HELP process_")[0] for answer in answers]
    assert (most, len(set(bodies))) == (1, 1)


async def test_who_does_not_take_an_answer_is_cut_off_and_the_next_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "TAKE_S", 0.2)
    scraped = []
    told = Site(collect=large(200_000), unready=lambda: None, scraped=lambda address, _: scraped.append(address))
    async with TestServer(application(told)) as server:
        stuck = []
        for _ in range(web.MAX_ANSWERS):
            reader, writer = await asyncio.open_connection(server.host, server.port, limit=1024)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: here\r\nAccept-Encoding: identity\r\n\r\n")
            stuck.append((reader, writer))
        async with ClientSession(server.make_url("/")) as me, me.get("/metrics") as answer:
            assert (await answer.text()).count("fate_") == 200_000
        assert len(scraped) == 1
        for reader, writer in stuck:
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await reader.readexactly(20_000_000)
            writer.close()


@pytest.mark.parametrize("path", ["/-/healthy", "/-/ready", "/healthz", "/readyz"])
async def test_a_ready_program_is_healthy_and_ready_under_both_names(path: str) -> None:
    async with visitor(site()) as me, me.get(path) as answer:
        assert answer.status == 200


async def test_a_program_that_is_not_ready_says_why_and_is_healthy() -> None:
    async with visitor(site(unready=lambda: "stopping")) as me:
        for path in ("/-/ready", "/readyz"):
            async with me.get(path) as answer:
                assert (answer.status, await answer.text()) == (503, "goodput-exporter is not ready: stopping.\n")
        async with me.get("/-/healthy") as answer:
            assert answer.status == 200


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_reload_is_forbidden_unless_enabled_and_the_answer_names_the_setting(method: str) -> None:
    async with visitor(site()) as me, me.request(method, "/-/reload") as answer:
        assert answer.status == 403
        assert "web.enable_lifecycle: true" in await answer.text()


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_reload_reads_the_files_where_it_is_enabled(method: str) -> None:
    reloads = []

    async def reload() -> None:
        reloads.append(method)

    enabled = Site(collect=families, unready=lambda: None, reload=reload)
    async with visitor(enabled) as me, me.request(method, "/-/reload") as answer:
        assert answer.status == 200
    assert reloads == [method]


async def test_a_refused_reload_answers_with_every_problem() -> None:
    async def reload() -> None:
        raise ReloadRefused("a.yaml:1:2 spec: one\nb.yaml:3:4 spec: two")

    enabled = Site(collect=families, unready=lambda: None, reload=reload)
    async with visitor(enabled) as me, me.post("/-/reload") as answer:
        assert answer.status == 500
        assert (await answer.text()).splitlines()[1:] == ["a.yaml:1:2 spec: one", "b.yaml:3:4 spec: two"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/-/reload", 405), ("POST", "/metrics", 405), ("DELETE", "/-/ready", 405), ("POST", "/", 405),
        ("GET", "/v1/traces", 404), ("GET", "/metrics/", 404), ("GET", "/debug", 404),
    ],
)  # fmt: skip
async def test_there_is_nothing_else(method: str, path: str, status: int) -> None:
    async with visitor(site()) as me, me.request(method, path) as answer:
        assert answer.status == status


async def test_the_landing_page_leads_to_pages_that_exist() -> None:
    async with visitor(site()) as me:
        async with me.get("/") as answer:
            assert (answer.status, answer.content_type) == (200, "text/html")
            links = [part.partition('"')[0] for part in (await answer.text()).split('href="')[1:]]
        assert links == ["metrics", "-/healthy", "-/ready"]
        for link in links:
            async with me.get("/" + link) as answer:
                assert answer.status == 200


def test_only_these_pages_are_registered() -> None:
    paths = {route.resource.canonical for route in application(site()).router.routes() if route.resource}
    assert paths == {"/", "/metrics", "/-/healthy", "/-/ready", "/healthz", "/readyz", "/-/reload"}
