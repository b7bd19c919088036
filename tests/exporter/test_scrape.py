"""exporter.scrape: real answers, and every other kind, over real sockets."""

import asyncio
import gzip
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from prometheus_client.parser import text_string_to_metric_families

from exporter.config import Address, Receive, Scrape, Settings, Sources, Web
from exporter.gauges import Gauges
from exporter.profile import built_in
from exporter.scrape import MAX_BODY, Scraper
from exporter.serve import Declared, Exporter

CAPTURES = Path(__file__).resolve().parents[1] / "data" / "captures"
VLLM = gzip.decompress((CAPTURES / "envoy-accesslog-vllm" / "metrics-after.txt.gz").read_bytes())
BUSY = VLLM.replace(b'num_requests_running{engine="0",model_name="tiny"} 0.0', b'num_requests_running{engine="0"} 4.0')
NOW_NS = 1_700_000_000_000_000_000
SECOND = 10**9
QUICK_NS = 50_000_000
"""So short that a busy machine may be too late for it: only where a time-out does no harm."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """A server that answers so; its URL."""
    app = web.Application()
    app.router.add_get("/metrics", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    finally:
        await runner.cleanup()


def answering(body: bytes, status: int = 200, **headers: str) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return answer


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_so():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def scraping(*urls: str, every_ns: int = QUICK_NS) -> AsyncIterator[tuple[Scraper, Gauges]]:
    sources = [Scrape(url=url, every_ns=every_ns) for url in urls]
    gauges = Gauges(sources, 3_600 * SECOND)
    async with Scraper(gauges, lambda: NOW_NS) as scraper:
        scraper.follow(sources)
        yield scraper, gauges


def tried(gauges: Gauges) -> int:
    return sum(gauges.results.values())


async def test_the_gauges_of_a_server_are_read_again_and_again() -> None:
    async with serving(answering(BUSY)) as url, scraping(url) as (_, gauges):
        await until(lambda: gauges.results[url, "ok"] >= 3)
        assert gauges.level("model", NOW_NS) == 4


async def test_a_level_is_of_the_middle_between_question_and_answer() -> None:
    times = iter((NOW_NS, NOW_NS + 2 * SECOND))
    async with serving(answering(BUSY)) as url:
        source = Scrape(url=url, every_ns=10 * SECOND)
        gauges = Gauges([source], SECOND)
        async with Scraper(gauges, lambda: next(times)) as scraper:
            scraper.follow([source])
            await until(lambda: tried(gauges) == 1)
    assert gauges.level("model", NOW_NS + 31 * SECOND) == 4
    assert gauges.level("model", NOW_NS + 31 * SECOND + 1) is None


async def endless(request: web.Request) -> web.StreamResponse:
    """A body without end, as fast as it is read."""
    answer = web.StreamResponse()
    await answer.prepare(request)
    while True:
        await answer.write(b"# nothing to see here\n" * 4096)


async def dripping(request: web.Request) -> web.StreamResponse:
    """A body that never stands still and never ends."""
    answer = web.StreamResponse()
    await answer.prepare(request)
    while True:
        await answer.write(b"#\n")
        await asyncio.sleep(0.005)


async def silent(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def cut(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Length": str(len(BUSY))})
    await answer.prepare(request)
    await answer.write(BUSY[:1000])
    assert request.transport is not None
    request.transport.close()
    return answer


@pytest.mark.parametrize(
    ("result", "handler"),
    [
        ("status", answering(BUSY, status=503)),
        ("status", answering(BUSY, status=302, Location="/metrics")),
        ("no_gauges", answering(b"<html>vLLM</html>")),
        ("no_gauges", answering(b"")),
        ("no_gauges", answering(gzip.compress(BUSY), Content_Encoding="gzip")),
        ("malformed", answering(BUSY.replace(b" 4.0", b" four"))),
        ("malformed", answering(BUSY.replace(b" 4.0", b" NaN"))),
        ("too_large", answering(BUSY + b"#" * MAX_BODY)),
        ("too_large", endless),
        ("timeout", dripping),
        ("timeout", silent),
        ("unreachable", cut),
    ],
)
async def test_what_is_no_level_is_counted_by_reason(result: str, handler: Handler) -> None:
    every_ns = QUICK_NS if result == "timeout" else 60 * SECOND
    async with serving(handler) as url, scraping(url, every_ns=every_ns) as (_, gauges):
        await until(lambda: tried(gauges) > 0)
        assert gauges.results[url, result] == tried(gauges)
        assert (gauges.level("model", NOW_NS), gauges.boundaries) == (None, set())


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    async with serving(answering(BUSY)) as url:
        pass
    nowhere = "http://" + "a" * 64 + ".example/metrics"  # longer than a name may be: no look-up, a ValueError
    async with scraping(url, nowhere) as (_, gauges):
        await until(lambda: gauges.results[url, "unreachable"] > 1 and gauges.results[nowhere, "unreachable"] > 1)


async def test_a_slow_server_holds_up_no_other() -> None:
    async with serving(silent) as slow, serving(answering(BUSY)) as quick:
        sources = [Scrape(url=slow, every_ns=60 * SECOND), Scrape(url=quick, every_ns=QUICK_NS)]
        gauges = Gauges(sources, SECOND)
        async with Scraper(gauges, lambda: NOW_NS) as scraper:
            scraper.follow(sources)
            await until(lambda: gauges.results[quick, "ok"] >= 5)
            assert not any(count for (url, _), count in gauges.results.items() if url == slow)


async def test_a_stop_that_comes_with_a_time_out_is_a_stop() -> None:
    """Both cancel the same task; neither may take the other for its own."""
    quick_s = QUICK_NS / SECOND
    async with serving(silent) as url:
        for place in range(20):
            async with asyncio.timeout(10), scraping(url):
                await asyncio.sleep(quick_s * (0.97 + place * 0.003))
                time.sleep(0.005)  # so that both are due when the loop goes on


async def test_a_change_of_fortune_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="exporter.scrape")
    bodies = [b"", b"", BUSY, BUSY]

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=bodies.pop(0) if len(bodies) > 1 else bodies[0])

    async with serving(answer) as url, scraping(url, every_ns=SECOND // 2) as (_, gauges):
        await until(lambda: gauges.results[url, "ok"] >= 2)
    assert caplog.messages == [f"gauges of {url}: no_gauges", f"gauges of {url}: ok"]


async def test_a_server_that_is_no_longer_named_is_left_alone_and_one_that_stays_goes_on() -> None:
    async with (
        serving(answering(BUSY)) as stays,
        serving(answering(BUSY)) as goes,
        scraping(stays, goes) as (scraper, gauges),
    ):
        await until(lambda: gauges.results[goes, "ok"] > 0 and gauges.results[stays, "ok"] > 0)
        left = [Scrape(url=stays, every_ns=QUICK_NS)]
        gauges.reconfigure(left, SECOND)
        scraper.follow(left)
        before = gauges.results[stays, "ok"]
        await until(lambda: gauges.results[stays, "ok"] > before + 2)
        assert gauges.results[goes, "ok"] == 0
        scraper.check()


async def test_a_fault_of_our_own_is_not_lost() -> None:
    async with serving(answering(BUSY)) as url, scraping(url) as (scraper, gauges):
        gauges.reconfigure([], SECOND)  # but not the scraper
        with pytest.raises(KeyError):
            await until(lambda: bool(scraper.check()))  # type: ignore[func-returns-value]


# In the running program.


async def samples(exporter: Exporter, name: str) -> dict[tuple[str, ...], float]:
    async with ClientSession() as session, session.get(exporter.metrics_url) as answer:
        families = text_string_to_metric_families(await answer.text())
    found = (sample for family in families for sample in family.samples)
    return {tuple(each.labels.values()): each.value for each in found if each.name == name}


async def shown(exporter: Exporter, name: str, labels: tuple[str, ...], value: float) -> None:
    """Wait until a series has at least this value."""
    async with asyncio.timeout(10):
        while (await samples(exporter, name)).get(labels, -1) < value:
            await asyncio.sleep(0.01)


ANYWHERE = Address("127.0.0.1", 0)
PLAIN = Settings(receive=Receive(grpc=ANYWHERE, http=ANYWHERE), web=Web(listen=ANYWHERE))
IN_FLIGHT = "inference_in_flight_requests"
SCRAPES = "goodput_exporter_scrapes_total"
ALL = ("model", "all", "gauge")


def with_source(url: str) -> Settings:
    return replace(PLAIN, sources=Sources(scrape=(Scrape(url=url, every_ns=QUICK_NS),)))


async def test_a_level_is_in_the_scrape_while_its_server_answers_and_gone_when_it_is_old() -> None:
    now_ns, status = NOW_NS, 200

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=BUSY, status=status)

    async with serving(answer) as url:
        declared = Declared(with_source(url), built_in(), [])
        async with Exporter(lambda: declared, clock=lambda: now_ns, drain_s=0.2) as running:
            await shown(running, IN_FLIGHT, ALL, 4)
            assert (await samples(running, SCRAPES))[url, "malformed"] == 0
            status = 503
            await shown(running, SCRAPES, (url, "status"), 1)
            assert (await samples(running, IN_FLIGHT))[ALL] == 4
            now_ns += 4 * QUICK_NS
            assert ALL not in await samples(running, IN_FLIGHT)


async def test_a_reload_begins_and_ends_the_reading_of_servers() -> None:
    declared = Declared(PLAIN, built_in(), [])
    async with (
        serving(answering(BUSY)) as url,
        Exporter(lambda: declared, clock=lambda: NOW_NS, drain_s=0.2) as running,
    ):
        assert await samples(running, SCRAPES) == {}
        declared = declared._replace(settings=with_source(url))
        running.reload()
        await shown(running, IN_FLIGHT, ALL, 4)
        declared = declared._replace(settings=PLAIN)
        running.reload()
        assert await samples(running, SCRAPES) == {}
        assert ALL not in await samples(running, IN_FLIGHT)
