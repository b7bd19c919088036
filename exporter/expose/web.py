"""What may be asked over HTTP: the metrics, whether this program lives and is ready, and, where enabled, a reload.

The format of a scrape is agreed by the Accept header with its weights, as RFC 9110 section 12.5.1 says; where a
client accepts nothing that we write, it gets the plain text format, as Prometheus users expect, not a refusal. The
application holds no state of its own: what it shows and does comes in as functions.

A scrape is read and written in turns with everything else that the event loop has to do, one scrape at a time. Of what
has been written `MAX_ANSWERS` are kept until their clients have taken them, so memory is bounded; others wait in line.
"""

import asyncio
import time
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aiohttp import web

from exporter.expose.text import OPENMETRICS, TEXT, Family, Point, Writer
from slo_rules.families import FamilySpec, Kind

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

LIFECYCLE_DISABLED: Final = (
    "Reload over HTTP is disabled: set web.enable_lifecycle: true (or start with --web.enable-lifecycle), "
    "or send SIGHUP.\n"
)
LANDING: Final = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>goodput-exporter</title></head>
<body>
<h1>goodput-exporter</h1>
<p>Latency, goodput and SLO verdicts of LLM services, from their OpenTelemetry spans.</p>
<ul>
<li><a href="metrics">Metrics</a></li>
<li><a href="-/healthy">Healthy</a></li>
<li><a href="-/ready">Ready</a></li>
</ul>
</body>
</html>
"""

_SMALLEST_ZIPPED: Final = 1024
_ZIP_LEVEL: Final = 1
"""The fastest: scrapes are frequent, near and shrink tenfold anyhow."""
_GZIP: Final = 16 + zlib.MAX_WBITS
MAX_ANSWERS: Final = 4
TAKE_S: Final = 60.0
"""A client that has not taken its answer by then is cut off, or a few of them would keep everybody from scraping."""


class ReloadRefused(Exception):
    """The files were not taken; the message lists their problems, one a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What the pages show and do."""

    collect: Callable[[], Iterable[Family | None]]
    """What a scrape shows; None where others may have their turn."""
    unready: Callable[[], str | None]
    """Why this program is not ready, None when it is."""
    scraped: Callable[[str, float], None] = lambda address, begun_s: None
    """Told of each scrape that was sent whole: who read it, and when it was begun by the monotonic clock."""
    reload: Callable[[], Awaitable[None]] | None = None
    """Reads the files anew, or raises ReloadRefused. None where reload over HTTP is disabled."""
    reading: Callable[[], AbstractAsyncContextManager[object]] = nullcontext
    """The context of a collection: others may have their turn, but must leave alone what is read in turns."""


def application(site: Site) -> web.Application:
    """The pages of `site`."""
    pages = _Pages(site)
    app = web.Application()
    app.add_routes(
        [
            web.get("/", pages.landing),
            web.get("/metrics", pages.metrics),
            *(web.get(path, pages.healthy) for path in ("/-/healthy", "/healthz")),
            *(web.get(path, pages.ready) for path in ("/-/ready", "/readyz")),
            web.post("/-/reload", pages.reload),
            web.put("/-/reload", pages.reload),
        ]
    )
    return app


class _Pages:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._writer = Writer()
        self._one = asyncio.Lock()
        self._answers = asyncio.Semaphore(MAX_ANSWERS)

    async def landing(self, _: web.Request) -> web.Response:
        return web.Response(text=LANDING, content_type="text/html")

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        headers = {"Content-Type": agree_on_format(request.headers.getall("Accept", []))}
        headers["Vary"] = "Accept, Accept-Encoding"
        async with self._answers:
            async with self._one:
                begun_s = time.monotonic()
                chunks = await self._scrape(headers["Content-Type"] == OPENMETRICS)
            large = sum(map(len, chunks)) >= _SMALLEST_ZIPPED
            if large and accepts_gzip(request.headers.getall("Accept-Encoding", [])):
                headers["Content-Encoding"] = "gzip"
                # In a thread, so that spans are taken meanwhile; the chunks are finished and shared with nobody.
                chunks = await asyncio.to_thread(_zipped, chunks)
            answer = web.StreamResponse(headers=headers)
            answer.content_length = sum(map(len, chunks))
            await _send(request, answer, chunks)
        self._site.scraped(request.remote or "", begun_s)
        return answer

    async def _scrape(self, openmetrics: bool) -> list[bytes]:
        families = []
        async with self._site.reading():
            for family in self._site.collect():
                if family is None:
                    await asyncio.sleep(0)
                else:
                    families.append(family)
        chunks = []
        for chunk in self._writer.chunks([*families, *process_families()], openmetrics=openmetrics):
            chunks.append(chunk)
            await asyncio.sleep(0)
        return chunks

    async def healthy(self, _: web.Request) -> web.Response:
        return web.Response(text="goodput-exporter is healthy.\n")

    async def ready(self, _: web.Request) -> web.Response:
        reason = self._site.unready()
        if reason is None:
            return web.Response(text="goodput-exporter is ready.\n")
        return web.Response(status=503, text=f"goodput-exporter is not ready: {reason}.\n")

    async def reload(self, _: web.Request) -> web.Response:
        if self._site.reload is None:
            return web.Response(status=403, text=LIFECYCLE_DISABLED)
        try:
            await self._site.reload()
        except ReloadRefused as refusal:
            return web.Response(status=500, text=f"Not reloaded, the old files stay in force:\n{refusal}\n")
        return web.Response(text="Reloaded.\n")


async def _send(request: web.Request, answer: web.StreamResponse, chunks: list[bytes]) -> None:
    """Send an answer; what has been sent is let go. Ends the connection of a client that does not take it."""
    try:
        async with asyncio.timeout(TAKE_S):
            await answer.prepare(request)
            if request.method != "HEAD":
                chunks.reverse()
                while chunks:
                    await answer.write(chunks.pop())
            await answer.write_eof()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("the answer was not taken") from None


def _zipped(chunks: Iterable[bytes]) -> list[bytes]:
    zipper = zlib.compressobj(_ZIP_LEVEL, wbits=_GZIP)
    zipped = [zipper.compress(chunk) for chunk in chunks]
    return [part for part in (*zipped, zipper.flush()) if part]


def agree_on_format(accept: Iterable[str]) -> str:
    """The content type to answer with: OpenMetrics if named and weighted no lower than plain text, else plain text."""
    openmetrics = text = 0.0
    for kind, parameters, weight in _weighted(accept):
        if kind == "application/openmetrics-text" and parameters.get("version", "1.0.0") == "1.0.0":
            openmetrics = max(openmetrics, weight)
        # A wildcard speaks for the plain format alone: a client that reads the other one names it.
        elif kind in ("text/plain", "text/*", "*/*") and parameters.get("version", "0.0.4") == "0.0.4":
            text = max(text, weight)
    return OPENMETRICS if openmetrics and openmetrics >= text else TEXT


def accepts_gzip(accept_encoding: Iterable[str]) -> bool:
    """Whether the client takes gzip, by name or by `*`; an explicit weight of 0 forbids it."""
    weights = {coding: weight for coding, _, weight in _weighted(accept_encoding)}
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def _weighted(headers: Iterable[str]) -> Iterator[tuple[str, dict[str, str], float]]:
    """Each element of a weighted list: name, parameters, weight. An element whose weight is unreadable is no offer."""
    for element in ",".join(headers).split(","):
        name, *rest = (part.strip().lower() for part in element.split(";"))
        parameters = {key.strip(): value.strip().strip('"') for key, _, value in (part.partition("=") for part in rest)}
        try:
            weight = float(parameters.pop("q", "1"))
        except ValueError:
            continue
        if name and 0 <= weight <= 1:
            yield name, parameters, weight


_KINDS: Final[dict[str, Kind]] = {"counter": "counter", "gauge": "gauge"}


def process_families() -> list[Family]:
    """The `process_*` families of prometheus-client: memory, processor time, files. None without /proc."""
    from prometheus_client import ProcessCollector  # slow to import, and nobody has to be ready for a scrape

    return [_of_prometheus_client(metric) for metric in ProcessCollector(registry=None).collect()]


def _of_prometheus_client(metric: "Metric") -> Family:
    kind = _KINDS[metric.type]
    name = f"{metric.name}_total" if kind == "counter" else metric.name
    unit = next((unit for unit in ("seconds", "bytes") if metric.name.endswith(f"_{unit}")), "")
    spec = FamilySpec(name, kind, (), unit, metric.documentation)
    return Family(spec, [Point((), sample.value) for sample in metric.samples])
