"""Fetches the gauges of model servers, each at its own pace, for `exporter.gauges` to read.

Each server has a task of its own, so that a slow one holds up no other. An answer has a period's time and a bounded
size, taken as it is sent: a redirect or a compressed body is not what was asked for. Whatever goes wrong is counted by
reason, logged once in a row, and tried again a period later; in between the level that was known grows old.

The level is of some instant between question and answer; the middle is taken.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, Self

from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar

from exporter.config import Scrape
from exporter.gauges import Gauges, Unreadable

MAX_BODY: Final = 8 * 2**20
"""Bytes. A body of vLLM is 54 kB an engine, one of Dynamo's front end 110 kB."""
HEADERS: Final = {"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity", "User-Agent": "goodput-exporter"}

_CHUNK: Final = 2**16
_SECOND_NS: Final = 1_000_000_000

_log = logging.getLogger(__name__)


class Scraper:
    """Scrapes servers for as long as its context lasts."""

    def __init__(self, gauges: Gauges, clock: Callable[[], int]) -> None:
        self._gauges = gauges
        self._clock = clock
        self._tasks: dict[Scrape, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        self._session = ClientSession(
            headers=HEADERS, cookie_jar=DummyCookieJar(), auto_decompress=False, timeout=ClientTimeout()
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = list(self._tasks.values())
        self.follow(())
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._session.close()

    def follow(self, sources: Iterable[Scrape]) -> None:
        """Scrape these from now on, and no others. They must be those of the gauges."""
        wanted = set(sources)
        for source in self._tasks.keys() - wanted:
            self._tasks.pop(source).cancel()
        for source in wanted - self._tasks.keys():
            self._tasks[source] = asyncio.create_task(self._follow(source))

    def check(self) -> None:
        """Raise what ended a task, should one end."""
        for task in self._tasks.values():
            if task.done():
                task.result()

    async def _follow(self, source: Scrape) -> None:
        loop = asyncio.get_running_loop()
        every_s = source.every_ns / _SECOND_NS
        told = "ok"
        while True:
            begun = loop.time()
            result = await self._scrape(source.url, every_s)
            if self._tasks.get(source) is not asyncio.current_task():
                return  # told to end, by a cancellation that was lost on the way
            self._gauges.results[source.url, result] += 1
            if result != told:
                level = logging.INFO if result == "ok" else logging.WARNING
                _log.log(level, "gauges of %s: %s", source.url, result)
                told = result
            await asyncio.sleep(max(0.0, begun + every_s - loop.time()))

    async def _scrape(self, url: str, timeout_s: float) -> str:
        """Read a server once; what became of it."""
        asked_ns = self._clock()
        try:
            body = await self._fetch(url, timeout_s)
            self._gauges.take(url, (asked_ns + self._clock()) // 2, body)
        except Unreadable as error:
            return error.result
        return "ok"

    async def _fetch(self, url: str, timeout_s: float) -> bytes:
        """The body of the answer. Raises Unreadable."""
        try:
            # Not aiohttp's own time limit, which can swallow a cancellation that comes with it.
            async with asyncio.timeout(timeout_s):
                return await self._get(url)
        except TimeoutError as error:
            raise Unreadable("timeout") from error
        except (ClientError, OSError, ValueError) as error:  # ValueError: of names that cannot be looked up
            raise Unreadable("unreachable") from error

    async def _get(self, url: str) -> bytes:
        async with self._session.get(url, allow_redirects=False) as answer:
            if answer.status != 200:
                raise Unreadable("status")
            body = bytearray()
            async for chunk in answer.content.iter_chunked(_CHUNK):
                body += chunk
                if len(body) > MAX_BODY:
                    raise Unreadable("too_large")
            return bytes(body)
