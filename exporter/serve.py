"""The rim of the running program: sockets, signals, files and the clock, around one pipeline.

Everything happens in one event loop, which owns all state. Once a second the pipeline is told the time; in between it
is fed by the receivers and read by scrapes, so nobody sees half a change: each feeds in one go, and a scrape copies all
counts in one go. The windows' percentiles it reads in turns with the receivers; the time is not told meanwhile.

A reload reads the configuration, profile and SLO files anew, all of them, and takes them only if none has a problem;
otherwise what was in force stays so. Where to listen and how large bodies may be is settled at the start.

To stop on a signal is to say so first (not ready), and to lose nothing that others still have to say or to read:

1. Spans are taken as before, since a model server that was told to stop together with this program still ends its
   requests. This lasts until no request waits for more spans and whoever has scraped of late has read that, for two
   fifths of `stop.grace` at most. Where nobody has scraped, nobody is waited for. (What says nothing until later than
   that must be told to stop first, as Kubernetes does with what has native sidecars.)
2. If it was not enough, what comes now is refused (UNAVAILABLE and 503; senders keep it and send it to the next one),
   what waits is counted, and the last scrape is waited for, within the rest of `stop.grace`.

A second signal ends the program at once. Then sockets close: what is under way is finished, for `DRAIN_S` at most, and
the metrics go last.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, NamedTuple, NoReturn, Self

from aiohttp import web

from exporter import allocator
from exporter.config import Address, Settings, read_settings
from exporter.expose.collect import collect_in_turns
from exporter.expose.text import Family, Point
from exporter.expose.web import ReloadRefused, Site, application
from exporter.pipeline import Pipeline
from exporter.profile import SourceProfile, built_in, check_names, read_profiles
from exporter.receive import Clock
from exporter.receive.grpc import GrpcReceiver
from exporter.receive.http import HttpReceiver
from exporter.scrape import Scraper
from slo_rules.document import Node, Problem, Problems, read
from slo_rules.families import FAMILY
from slo_rules.slo import SLO, read_slos

TICK_S: Final = 1.0
DRAIN_S: Final = 10.0
"""Within the 30 s that Kubernetes gives a pod, with room for what else stops in it."""

_SETTLE_SHARE: Final = 0.4
"""Of `stop.grace`, for spans that still come. The rest is for a last scrape; they may be 15 s apart."""
_SETTLED_EVERY_S: Final = 0.1
SCRAPER_KNOWN_S: Final = 120.0
"""After this time without a scrape an address is not waited for: a minute is the longest usual interval."""
MAX_SCRAPERS: Final = 16

_RECEIVERS_SHARE: Final = 0.8
_SCRAPES_SHARE: Final = 0.1
"""Of the time to drain, one after the other, with a rest for the closing of sockets."""

WRONG_USE: Final = 2
"""Exit code."""

_NANOSECONDS: Final = 1_000_000_000

_log = logging.getLogger(__name__)


class CannotListen(Exception):
    """An address cannot be listened on; the message names the setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files that an operator named."""

    config: str | None = None
    slos: tuple[str, ...] = ()


class Declared(NamedTuple):
    """What the files say together."""

    settings: Settings
    profiles: Sequence[SourceProfile]
    slos: Sequence[SLO]


def run(files: Files, adjust: Callable[[Settings], Settings] = lambda settings: settings) -> int:
    """Serve until SIGTERM or SIGINT; the exit code. `adjust` lets the command line win over the file, on reload too."""

    def read_again() -> Declared:
        warnings: list[Problem] = []
        declared = read_files(files, os.environ, warnings)
        for warning in warnings:
            _log.warning("%s", warning)
        return declared._replace(settings=adjust(declared.settings))

    allocator.expect_bodies()
    try:
        asyncio.run(serve(read_again))
    except (Problems, CannotListen) as error:
        print(error, file=sys.stderr)
        return WRONG_USE
    return 0


async def serve(read_again: Callable[[], Declared]) -> None:
    """Serve until SIGTERM or SIGINT, and reload at SIGHUP. Raises Problems and CannotListen, at the start only."""
    stop = asyncio.Event()
    exporter = Exporter(read_again, reports=False)
    with _handling(stop.set, exporter.reload_and_log):
        async with exporter:
            allocator.settle()
            await exporter.run_until(stop)
            await exporter.wind_down()


def read_files(files: Files, environment: Mapping[str, str], warnings: list[Problem] | None = None) -> Declared:
    """What the files declare. Raises Problems, with all that is wrong in any of them.

    What can hardly be meant is added to `warnings`.
    """
    problems: list[Problem] = []
    text = "" if files.config is None else read_text(files.config, problems)
    settings = read_settings(files.config, text, environment, problems)
    profiles = _read_profiles(settings.profiles, environment, problems)
    if files.config is not None:
        check_boundaries(files.config, text, profiles, environment, problems)
    slos = _read_slos(files.slos, settings, environment, problems, warnings)
    if problems:
        raise Problems(problems)
    return Declared(settings, profiles, slos)


def read_text(path: str, problems: list[Problem]) -> str:
    """The text of a file; one that cannot be read is a problem, and empty."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        found = error.strerror or str(error)
    except UnicodeDecodeError as error:
        found = f"byte {error.start} that is not"
    problems.append(Problem(file=path, line=1, column=1, path="", rule="must be a readable file in UTF-8", found=found))
    return ""


def _read_profiles(
    paths: Sequence[str], environment: Mapping[str, str], problems: list[Problem]
) -> list[SourceProfile]:
    """The user's profiles, then the built-in ones whose name they do not take."""
    own: list[tuple[SourceProfile, Node]] = []
    for path in paths:
        for node in read(read_text(path, problems), path, problems, environment):
            own += [(profile, node) for profile in read_profiles([node])]
    check_names(own)
    names = {profile.name for profile, _ in own}
    return [*(profile for profile, _ in own), *(profile for profile in built_in() if profile.name not in names)]


def _read_slos(
    paths: Sequence[str],
    settings: Settings,
    environment: Mapping[str, str],
    problems: list[Problem],
    warnings: list[Problem] | None,
) -> list[SLO]:
    texts = [(path, read_text(path, problems)) for path in paths]
    nodes = [node for path, text in texts for node in read(text, path, problems, environment, warnings)]
    return read_slo_nodes(nodes, settings)


def read_slo_nodes(nodes: Sequence[Node], settings: Settings) -> list[SLO]:
    """The SLOs of some documents, which may speak of the boundaries that are published here and of declared labels."""
    labels = ("model", "class", *(label.name for label in settings.labels.declared))
    return read_slos(nodes, settings.publish, labels, settings.alerts.burn)


def check_boundaries(
    path: str, text: str, profiles: Sequence[SourceProfile], environment: Mapping[str, str], problems: list[Problem]
) -> None:
    """Declared boundaries must open and close at profiles that there are, and at stamps that those give."""
    stamps = {profile.name: profile.stamps for profile in profiles}
    found: list[Problem] = []
    nodes = read(text, path, found, environment)[:1]
    found.clear()  # what else is wrong has been told by others
    for node in nodes:
        for end in (end for _, _, boundary in _inside(node, "boundaries") for end in _entries(boundary)):
            stamp, _, profile = (end.scalar or "").partition("@")
            if profile and profile not in stamps:
                end.problem(f"must name a source profile, one of {', '.join(sorted(stamps))}")
            elif profile and stamp not in stamps[profile]:
                end.problem(f"must be a stamp that {profile} gives: {', '.join(stamps[profile]) or 'none'}")
    problems += found


def _inside(node: Node, name: str) -> list[tuple[str, Node, Node]]:
    found = next((value for key, _, value in node.entries() if key == name), None) if node.is_mapping else None
    return found.entries() if found is not None and found.is_mapping else []


def _entries(node: Node) -> list[Node]:
    return [value for _, _, value in node.entries()] if node.is_mapping else []


class Exporter:
    """A running exporter, as an asynchronous context: it listens inside and has stopped after.

    Entering raises Problems for bad files and CannotListen for an address that cannot be had.
    """

    grpc: Address
    http: Address
    web: Address
    """Where it listens, with the ports that the system chose for port 0."""

    def __init__(
        self, read_again: Callable[[], Declared], *, clock: Clock = time.time_ns, drain_s: float = DRAIN_S,
        reports: bool = True,
    ) -> None:  # fmt: skip
        """`reports`: whether `report` will be asked for."""
        self._reports = reports
        self._read_again = read_again
        self._clock = clock
        self._drain_s = drain_s
        self._unready: str | None = "starting"
        self._stack = AsyncExitStack()
        self._reloaded = True
        self._scrapes: dict[str, float] = {}
        self._scraped = asyncio.Event()
        self._windows = asyncio.Lock()
        """Held by who reads the windows in turns with others, and who moves them on."""

    async def __aenter__(self) -> Self:
        declared = self._read_again()
        self._started_with = declared.settings
        self._pipeline = Pipeline(*declared, reports=self._reports)
        self._reloaded_ns = self._clock()
        async with AsyncExitStack() as stack:
            self._scraper = await stack.enter_async_context(Scraper(self._pipeline.gauges, self._clock))
            await self._serve_web(stack)
            await self._receive(stack)
            self._scraper.follow(declared.settings.sources.scrape)
            self._ticker = asyncio.create_task(self._tick())
            self._stack = stack.pop_all()
        self._unready = None
        _log.info("OTLP/gRPC on %s, OTLP/HTTP on %s, metrics on %s", self.grpc, self.http, self.web)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._unready = "stopping"
        await self._stack.aclose()
        self._ticker.cancel()
        with suppress(asyncio.CancelledError):
            await self._ticker

    @property
    def grpc_url(self) -> str:
        """For OTLP exporters over gRPC on this machine."""
        return f"http://{_local(self.grpc)}"

    @property
    def http_url(self) -> str:
        """For OTLP exporters over HTTP on this machine; they add /v1/traces."""
        return f"http://{_local(self.http)}"

    @property
    def metrics_url(self) -> str:
        """What to scrape on this machine."""
        return f"http://{_local(self.web)}/metrics"

    def report(self, now_ns: int) -> dict[str, Any]:
        """The pipeline's report."""
        return self._pipeline.report(now_ns)

    async def run_until(self, stop: asyncio.Event) -> None:
        """Return once `stop` is set; raise what ended the ticker, should it end."""
        waiting = asyncio.create_task(stop.wait())
        await asyncio.wait((waiting, self._ticker), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._ticker.done():
            self._ticker.result()

    async def wind_down(self) -> None:
        """Take what is still sent, then let the scrapers read it; at the latest `stop.grace` after the call."""
        self._unready = "stopping"
        grace_s = self._pipeline.settings.stop.grace_ns / _NANOSECONDS
        _log.info("stopping, within %g s; a second signal ends at once", grace_s)
        end_s = time.monotonic() + grace_s
        with suppress(TimeoutError):
            await asyncio.wait_for(self._settle(), grace_s * _SETTLE_SHARE)
            return
        self._grpc.refuse()
        self._http.refuse()
        self._pipeline.seal_all(self._clock())
        with suppress(TimeoutError):
            await asyncio.wait_for(self._last_scrapes(time.monotonic()), end_s - time.monotonic())

    async def _settle(self) -> None:
        """Return when no request waits for more spans, and the scrapers have read all that came."""
        bodies = -1
        while bodies != self._pipeline.bodies:
            while self._pipeline.open:
                await asyncio.sleep(_SETTLED_EVERY_S)
            bodies = self._pipeline.bodies
            await self._last_scrapes(time.monotonic())

    async def _last_scrapes(self, since_s: float) -> None:
        """Return when each address that has scraped of late has begun another scrape and got it."""
        due = {address for address, at_s in self._scrapes.items() if since_s - at_s < SCRAPER_KNOWN_S}
        while any(self._scrapes.get(address, since_s) < since_s for address in due):
            self._scraped.clear()
            await self._scraped.wait()

    def _note_scrape(self, address: str, begun_s: float) -> None:
        self._scrapes.pop(address, None)
        self._scrapes[address] = begun_s
        if len(self._scrapes) > MAX_SCRAPERS:
            del self._scrapes[next(iter(self._scrapes))]
        self._scraped.set()

    def reload(self) -> None:
        """Read the files anew and go by them. Raises ReloadRefused, and keeps the old ones, if they have problems."""
        try:
            declared = self._read_again()
        except Problems as problems:
            self._reloaded = False
            raise ReloadRefused(str(problems)) from problems
        if _fixed(declared.settings) != _fixed(self._started_with):
            _log.warning("changes under receive and web take effect at the next start")
        self._pipeline.reconfigure(*declared)
        self._scraper.follow(declared.settings.sources.scrape)
        self._reloaded, self._reloaded_ns = True, self._clock()
        _log.info("reloaded")

    def reload_and_log(self) -> None:
        """The same for a caller who takes no answer."""
        try:
            self.reload()
        except ReloadRefused as refusal:
            _log.error("not reloaded, the old files stay in force:\n%s", refusal)

    async def _tick(self) -> NoReturn:
        while True:
            async with self._windows:  # which stand still while a scrape reads them
                begun, spent_s = time.perf_counter(), 0.0
                self._scraper.check()
                for _ in self._pipeline.tick_in_steps(self._clock()):
                    spent_s += time.perf_counter() - begun
                    await asyncio.sleep(0)
                    begun = time.perf_counter()
                self._pipeline.evaluations.add(spent_s + time.perf_counter() - begun)
            await asyncio.sleep(TICK_S)

    async def _serve_web(self, stack: AsyncExitStack) -> None:
        settings = self._started_with.web
        reload = self._reload_for_web if settings.enable_lifecycle else None
        site = Site(
            collect=self._collect, unready=lambda: self._unready, scraped=self._note_scrape, reload=reload,
            reading=lambda: self._windows,
        )  # fmt: skip
        runner = web.AppRunner(application(site), access_log=None, shutdown_timeout=self._drain_s * _SCRAPES_SHARE / 2)
        stack.push_async_callback(runner.cleanup)
        listener = _socket("web.listen", settings.listen)
        self.web = Address(settings.listen.host, listener.getsockname()[1])
        await runner.setup()
        await web.SockSite(runner, listener).start()

    async def _reload_for_web(self) -> None:
        self.reload()

    def _collect(self) -> Iterator[Family | None]:
        reloads = list(self._reload_families())
        yield from collect_in_turns(self._pipeline, self._clock())
        yield from reloads

    def _reload_families(self) -> Iterator[Family]:
        at_s = self._reloaded_ns / _NANOSECONDS
        yield Family(FAMILY["goodput_exporter_config_last_reload_successful"], [Point((), self._reloaded)])
        yield Family(FAMILY["goodput_exporter_config_last_reload_success_timestamp_seconds"], [Point((), at_s)])

    async def _receive(self, stack: AsyncExitStack) -> None:
        settings = self._started_with.receive
        self._http = http = HttpReceiver(self._pipeline, max_body=settings.max_body, clock=self._clock)
        self._grpc = grpc = GrpcReceiver(self._pipeline, max_body=settings.max_body, clock=self._clock)
        grace_s = self._drain_s * _RECEIVERS_SHARE

        async def drain() -> None:
            grpc.refuse()
            await asyncio.gather(http.stop(grace_s), grpc.stop(grace_s))

        stack.push_async_callback(drain)
        listener = _socket("receive.http", settings.http)
        self.http = Address(settings.http.host, listener.getsockname()[1])
        await http.start(listener)
        # Asked first, as gRPC does not say why it cannot have an address.
        _socket("receive.grpc", settings.grpc).close()
        self.grpc = Address(settings.grpc.host, await grpc.start(settings.grpc.host, settings.grpc.port))


def _socket(setting: str, address: Address) -> socket.socket:
    """Bound and listening; on every interface and both IP versions where the host is empty."""
    both = not address.host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, dualstack_ipv6=both)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise CannotListen(f"{setting}: cannot listen on {address}: {reason}") from error


def _local(address: Address) -> Address:
    """How to reach from this machine what listens on `address`."""
    return Address("127.0.0.1", address.port) if address.host in ("", "0.0.0.0", "::") else address


def _fixed(settings: Settings) -> tuple[object, object]:
    return settings.receive, settings.web


@contextmanager
def _handling(stop: Callable[[], None], reload: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    ends = (signal.SIGTERM, signal.SIGINT)

    def stop_once() -> None:
        stop()
        for number in ends:  # so that a second one ends the program at once
            loop.remove_signal_handler(number)

    for number in ends:
        loop.add_signal_handler(number, stop_once)
    loop.add_signal_handler(signal.SIGHUP, reload)
    try:
        yield
    finally:
        for number in (*ends, signal.SIGHUP):
            loop.remove_signal_handler(number)
