"""What the gauges of a model server tell of requests that have not ended, for where nothing tells it sooner.

A scrape gives the level, how many requests are in the server, and from the same instant the server's own count of
those that it has finished. Over any interval arrivals - completions = change of the level, so two scrapes give

- backlog growth, the change of the level. It is right whatever became of the requests.
- arrivals, finished + change of the level. The count is the server's own and not that of our spans: it is of the same
  requests as the level, and neither sampling nor a lost or late span changes it.

What leaves without being counted is in neither term: a request that its client gave up (vLLM's, TGI's) is missing from
the arrivals once it has left. Where that makes them negative, or the count went back because the server was started
anew, nothing is said of arrivals. A request for n answers is n requests here, as the servers count.

An instant is told by the scrape next to it, at most one period away; a rate is over the time between its two scrapes.
A level is shown for three periods. What several servers tell together is known when each of them tells it.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import Final, NamedTuple

from exporter.config import Scrape

EVIDENCE: Final = "gauge"
CLASS: Final = "all"
"""A gauge knows no classes. It stands alone at its boundary, so that sums over classes count nothing twice."""

NEAR: Final = 1
"""Periods between an edge of a window and the scrape that tells of it: one in a row may be lost."""
FRESH: Final = 3
"""Periods for which the newest level is shown."""
LEAST: Final = 4
"""Periods in a window: the two scrapes may then be apart by half or one and a half of it, seldom by that much."""
MAX_SAMPLES: Final = 20_000
"""Kept of one server, at about 150 bytes: a day at five seconds. Longer windows have no rates."""
MAX_TEXT: Final = 2**18
MAX_LINE: Final = 2**12
"""Bytes of the lines that matter, all of them and each; 250 bytes of vLLM's. While they are parsed nobody is served."""

RESULTS: Final = ("ok", "no_gauges", "malformed", "too_large", "status", "timeout", "unreachable")
"""What becomes of a scrape."""

_SECOND_NS: Final = 1_000_000_000


class Server(NamedTuple):
    """The gauges of a kind of server. What is there several times with other labels is added up."""

    name: str
    boundary: str
    """Where its requests are in flight."""
    running: str
    waiting: str | None
    """None where the running ones include those that wait."""
    ended: str
    """Counter of finished requests."""


SERVERS: Final = (
    Server(
        "vLLM", "model", "vllm:num_requests_running", "vllm:num_requests_waiting",
        "vllm:request_success_total",
    ),  # aborts by clients are not in it, although there is a label for them
    Server(
        "SGLang", "model", "sglang:num_running_reqs", "sglang:num_queue_reqs",
        "sglang:num_requests_total",
    ),  # num_aborted_requests_total counts calls for an abort, and some of those requests are counted here too
    Server(
        "TensorRT-LLM", "model", "trtllm_num_requests_running", "trtllm_num_requests_waiting",
        "trtllm_num_requests_completed_total",
    ),  # from the statistics of iterations, as the gauges are
    Server(
        "TGI", "model", "tgi_batch_current_size", "tgi_queue_size",
        "tgi_request_success",
    ),  # tgi_request_failure also counts what was refused and never waited
    Server(
        "Dynamo", "service", "dynamo_frontend_inflight_requests", None,
        "dynamo_frontend_requests_total",
    ),  # the front end, which is a gateway: errors and cancelled ones are counted
)  # fmt: skip

_NAMES: Final = tuple(name for each in SERVERS for name in (each.running, each.waiting, each.ended) if name)
_PREFIXES: Final = tuple(name.encode() for name in _NAMES)
_RANKS: Final = frozenset(("tp_rank", "pp_rank", "moe_ep_rank"))
"""Labels of SGLang's workers that share one set of requests, where all are told to report; dp_rank parts them."""


class Unreadable(Exception):
    """A body that tells no level; `result` is one of RESULTS."""

    def __init__(self, result: str) -> None:
        super().__init__(result)
        self.result = result


class Reading(NamedTuple):
    """What one body tells, in requests."""

    server: Server
    running: float
    waiting: float
    ended: float | None
    """Since the server's start; None where it does not say, as some do before the first one."""


class Flow(NamedTuple):
    """What two scrapes tell of the time between them."""

    arrivals: float | None
    """Requests per second."""
    backlog_growth: float
    """Requests per second."""
    in_flight: float
    """Requests, at the later scrape."""


def read_gauges(body: bytes) -> Reading:
    """The gauges in a body in Prometheus' text format. Raises Unreadable.

    A level of which one part is missing is not known: it is not the sum of the others.
    """
    totals = _totals(body)
    for server in SERVERS:
        running = totals.get(server.running)
        waiting = 0.0 if server.waiting is None else totals.get(server.waiting)
        if running is not None and waiting is not None:
            return Reading(server, running, waiting, totals.get(server.ended))
    raise Unreadable("no_gauges")


def _totals(body: bytes) -> dict[str, float]:
    """Sums over the label sets of the names that matter."""
    # Only their lines are parsed: most of a body is histograms.
    lines = [line for line in body.split(b"\n") if line.lstrip(b" \t").startswith(_PREFIXES)]
    if sum(map(len, lines)) > MAX_TEXT or any(len(line) > MAX_LINE for line in lines):
        raise Unreadable("too_large")
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for name, labels, value in _samples(b"\n".join(lines)):
        values = found.setdefault(name, {})
        values[labels] = max(values.get(labels, 0.0), value)
    return {name: sum(values.values()) for name, values in found.items()}


def _samples(text: bytes) -> Iterator[tuple[str, tuple[tuple[str, str], ...], float]]:
    """Name, labels but for ranks, and value of each sample that matters."""
    from prometheus_client.parser import text_string_to_metric_families  # slow to import, and few scrape anything

    try:
        for family in text_string_to_metric_families(text.decode()):
            for sample in (sample for sample in family.samples if sample.name in _NAMES):
                value = float(sample.value)
                if not isfinite(value) or value < 0:
                    raise Unreadable("malformed")
                yield sample.name, tuple(sorted(i for i in sample.labels.items() if i[0] not in _RANKS)), value
    except (ValueError, IndexError, OverflowError) as error:  # the parser's own index errors too
        raise Unreadable("malformed") from error


class _Sample(NamedTuple):
    at_ns: int
    level: float
    ended: float | None
    run: int
    """Another one since the counter went back."""


class _Source:
    """The samples of one server, oldest first."""

    def __init__(self, every_ns: int) -> None:
        self.every_ns = every_ns
        self.boundary: str | None = None
        self.samples: list[_Sample] = []
        self.ended: float | None = None
        self.run = 0

    def add(self, at_ns: int, reading: Reading, keep_ns: int) -> None:
        if reading.server.boundary != self.boundary:
            self.boundary, self.samples = reading.server.boundary, []
        if reading.ended is not None:
            self.run += self.ended is not None and reading.ended < self.ended
            self.ended = reading.ended
        del self.samples[self._place(at_ns) :]  # of a clock that was set back
        self.samples.append(_Sample(at_ns, reading.running + reading.waiting, reading.ended, self.run))
        oldest_ns = at_ns - keep_ns - 2 * NEAR * self.every_ns
        del self.samples[: max(self._place(oldest_ns), len(self.samples) - MAX_SAMPLES)]

    def level(self, now_ns: int) -> float | None:
        """The newest level, unless it is old."""
        if not self.samples or abs(now_ns - self.samples[-1].at_ns) > FRESH * self.every_ns:
            return None
        return self.samples[-1].level

    def flow(self, from_ns: int, to_ns: int) -> Flow | None:
        first, last = self._near(from_ns), self._near(to_ns)
        if first is None or last is None or to_ns - from_ns < LEAST * self.every_ns:
            return None
        seconds = (last.at_ns - first.at_ns) / _SECOND_NS
        change = last.level - first.level
        arrivals = None
        if first.ended is not None and last.ended is not None and first.run == last.run:
            arrivals = last.ended - first.ended + change
        if arrivals is not None and arrivals < 0:
            arrivals = None
        return Flow(None if arrivals is None else arrivals / seconds, change / seconds, last.level)

    def _place(self, at_ns: int) -> int:
        return bisect_left(self.samples, at_ns, key=lambda sample: sample.at_ns)

    def _near(self, at_ns: int) -> _Sample | None:
        place = self._place(at_ns)
        beside = self.samples[max(place - 1, 0) : place + 1]
        nearest = min(beside, key=lambda sample: abs(sample.at_ns - at_ns), default=None)
        return nearest if nearest and abs(nearest.at_ns - at_ns) <= NEAR * self.every_ns else None


class Gauges:
    """The servers that are scraped, and what they tell. Time comes from outside."""

    def __init__(self, sources: Iterable[Scrape], keep_ns: int) -> None:
        self.results: Counter[tuple[str, str]] = Counter()
        """Scrapes by URL and what became of them."""
        self._sources: dict[str, _Source] = {}
        self.reconfigure(sources, keep_ns)

    def reconfigure(self, sources: Iterable[Scrape], keep_ns: int) -> None:
        """Go on with other servers; those that stay keep their samples, which are kept for `keep_ns` from now on."""
        before, self._sources = self._sources, {}
        for source in sources:
            self._sources[source.url] = before.get(source.url) or _Source(source.every_ns)
            self._sources[source.url].every_ns = source.every_ns
        self._keep_ns = keep_ns
        self.results = Counter(
            {(url, result): self.results[url, result] for url in self._sources for result in RESULTS}
        )

    def take(self, url: str, at_ns: int, body: bytes) -> None:
        """Take the answer of a server at an instant. Raises Unreadable."""
        self._sources[url].add(at_ns, read_gauges(body), self._keep_ns)

    @property
    def boundaries(self) -> set[str]:
        """Those of the servers that have told of themselves."""
        return {source.boundary for source in self._sources.values() if source.boundary is not None}

    def level(self, boundary: str, now_ns: int) -> float | None:
        """Requests in flight."""
        levels = [source.level(now_ns) for source in self._at(boundary)]
        known = [level for level in levels if level is not None]
        return sum(known) if known and len(known) == len(levels) else None

    def flow(self, boundary: str, from_ns: int, to_ns: int) -> Flow | None:
        """What the scrapes nearest to two instants tell."""
        flows = [source.flow(from_ns, to_ns) for source in self._at(boundary)]
        known = [flow for flow in flows if flow is not None]
        if not known or len(known) < len(flows):
            return None
        arrivals = [flow.arrivals for flow in known if flow.arrivals is not None]
        return Flow(
            sum(arrivals) if len(arrivals) == len(known) else None,
            sum(flow.backlog_growth for flow in known),
            sum(flow.in_flight for flow in known),
        )

    def _at(self, boundary: str) -> Sequence[_Source]:
        """The servers of a boundary, and those that have not told yet what they are."""
        return [source for source in self._sources.values() if source.boundary in (boundary, None)]
