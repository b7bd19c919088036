"""What may be asked over HTTP: the metrics, whether this program lives and is ready, and, where enabled, a reload.

The format of a scrape is agreed by the Accept header with its weights, as RFC 9110 section 12.5.1 says; where a
client accepts nothing that we write, it gets the plain text format, as Prometheus users expect, not a refusal. The
application holds no state of its own: what it shows and does comes in as functions.
"""

import asyncio
import gzip
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import Metric

from exporter.expose.text import OPENMETRICS, TEXT, Family, Point, Writer
from slo_rules.families import FamilySpec, Kind

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


class ReloadRefused(Exception):
    """The files were not taken; the message lists their problems, one a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What the pages show and do."""

    collect: Callable[[], Iterable[Family]]
    unready: Callable[[], str | None]
    """Why this program is not ready, None when it is."""
    scraped: Callable[[str, float], None] = lambda address, begun_s: None
    """Told of each scrape that was sent whole: who read it, and when it was begun by the monotonic clock."""
    reload: Callable[[], Awaitable[None]] | None = None
    """Reads the files anew, or raises ReloadRefused. None where reload over HTTP is disabled."""


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

    async def landing(self, _: web.Request) -> web.Response:
        return web.Response(text=LANDING, content_type="text/html")

    async def metrics(self, request: web.Request) -> web.Response:
        begun_s = time.monotonic()
        families = [*self._site.collect(), *process_families()]
        headers = {"Content-Type": agree_on_format(request.headers.getall("Accept", []))}
        openmetrics = headers["Content-Type"] == OPENMETRICS
        body = self._writer.openmetrics(families) if openmetrics else self._writer.text(families)
        headers["Vary"] = "Accept, Accept-Encoding"
        if len(body) >= _SMALLEST_ZIPPED and accepts_gzip(request.headers.getall("Accept-Encoding", [])):
            headers["Content-Encoding"] = "gzip"
            # In a thread, so that spans are taken meanwhile; the body is finished and shared with nobody.
            body = await asyncio.to_thread(gzip.compress, body, _ZIP_LEVEL)
        answer = web.Response(body=body, headers=headers)
        await answer.prepare(request)
        await answer.write_eof()
        self._site.scraped(request.remote or "", begun_s)
        return answer

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
    return [_of_prometheus_client(metric) for metric in ProcessCollector(registry=None).collect()]


def _of_prometheus_client(metric: Metric) -> Family:
    kind = _KINDS[metric.type]
    name = f"{metric.name}_total" if kind == "counter" else metric.name
    unit = next((unit for unit in ("seconds", "bytes") if metric.name.endswith(f"_{unit}")), "")
    spec = FamilySpec(name, kind, (), unit, metric.documentation)
    return Family(spec, [Point((), sample.value) for sample in metric.samples])
