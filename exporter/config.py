"""The configuration: what an operator may set, its defaults, and the reader of its file.

`Settings()` is the exporter without a configuration file, and an empty file says the same. Every key is optional, an
unknown one is refused, and the reader records every mistake before it returns: a configuration with a problem is never
used. Profile files are only found here; SLO files are named on the command line.
"""

import dataclasses
import glob
import os.path
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final, Literal, TypeVar

from yarl import URL

from slo_rules.burn import AlertWindows, built_in, read_windows
from slo_rules.document import Node, Problem, optional, read
from slo_rules.families import FAMILIES
from slo_rules.slo import MAX_WINDOW_NS, MIN_WINDOW_NS, Matchers, read_matchers
from slo_rules.units import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS, format_duration
from slo_rules.vocabulary import BOUNDARIES, STAMPS, TPOT_FORMULAS

RESERVED_LABELS: Final = frozenset({"le", "quantile", "job", "instance"}.union(*(family.labels for family in FAMILIES)))
"""Labels that already mean something beside those that users declare."""

MAX_DURATIONS: Final = 16
"""Every window costs a set of gauges per series and a ring of slices."""

MAX_SCRAPES: Final = 64
"""Each keeps up to 3 MB of levels."""

_NAME: Final = r"[a-z][a-z0-9_]{0,62}"
_LABEL: Final = r"[a-zA-Z][a-zA-Z0-9_]{0,62}"
_INSTANT: Final = re.compile(rf"({'|'.join(STAMPS)})@([A-Za-z0-9][A-Za-z0-9._-]*)")
_ADDRESS: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]*):([0-9]{1,5})")

H = TypeVar("H", bound=Hashable)
TpotFormula = Literal["tokens_minus_one", "tokens", "completion_over_tokens"]


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. An empty host is every interface; port 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receive:
    """Where spans come in. Loopback by default: whoever can send spans can change what the SLOs say."""

    grpc: Address = Address("127.0.0.1", 4317)
    """Where OTLP over gRPC is taken, host:port; an empty host is every interface."""
    http: Address = Address("127.0.0.1", 4318)
    """Where OTLP over HTTP is taken, at /v1/traces."""
    max_body: int = 20 * 2**20
    """Bytes of one export call after inflating."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """Where metrics and health are read."""

    listen: Address = Address("", 9464)
    """Where /metrics, /-/healthy and /-/ready are served."""
    enable_lifecycle: bool = False
    """Whether POST /-/reload is answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """What happens between SIGTERM and the end."""

    grace_ns: int = 25 * SECOND_NS
    """For taking what is still sent, then for one more scrape by whoever scraped of late. Shorter than the pod's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """A stamp as one source profile sees it, written `ended@litellm`."""

    stamp: str
    profile: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """A boundary of the user's own."""

    name: str
    open: Instant
    """The stamp and the source profile whose earliest span opens it, as `arrived@litellm`."""
    close: Instant
    """The stamp and the source profile whose latest span closes it, as `ended@litellm`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A label of the user's own: the first of the attributes that a request carries, else the default."""

    name: str
    attributes: tuple[str, ...]
    """Attributes of a span, else of its resource; the first that is there gives the value."""
    default: str = ""
    """The value where none of the attributes is there; empty leaves the label out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What a request is labelled with beside its boundary and class."""

    model_default: str = "unknown"
    """The model of requests that name none."""
    declared: tuple[Label, ...] = ()
    """Further labels, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRule:
    """Requests whose labels match are of the class `name`; the first matching rule wins."""

    name: str
    """The class of requests that match."""
    when: Matchers
    """Labels, each with the value or the list of values that match; all of them must."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """What the gauges look back on."""

    durations_ns: tuple[int, ...] = (MINUTE_NS, 5 * MINUTE_NS, 30 * MINUTE_NS, HOUR_NS)
    """The windows, each 10 s to 7 d, beside those that SLOs name; ascending."""
    delay_ns: int = 20 * SECOND_NS
    """How far behind the present a window ends, so that spans still on their way are in it."""
    lateness_ns: int = 60 * SECOND_NS
    """How far behind a value may be and still enter the windows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """How long spans wait for the other spans of their request."""

    grace_ns: int = 10 * SECOND_NS
    """Since the newest span. Twice the 5 s for which OpenTelemetry SDKs batch."""
    max_open: int = 200_000
    """Requests; beyond it the oldest is evicted, and counted."""
    max_age_ns: int = 10 * MINUTE_NS
    """For jobs that were seen to enter a queue: without an end by then they are given up, and counted as evicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Align:
    """What is done about the clocks of different hosts."""

    mode: Literal["report", "adjust"] = "report"
    """`report` shows raw differences with their uncertainty, `adjust` takes the estimated offset off first."""
    same_clock: tuple[tuple[str, ...], ...] = ()
    """Groups of names that stand for one clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tpot:
    """The formula of time per output token."""

    formula: TpotFormula = "tokens_minus_one"
    """(last token - first token) / (tokens - 1), the same / tokens, or completion / tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on what traffic can make grow."""

    label_values: int = 100
    """Of each label; further ones become `other`, and are counted."""
    series_idle_ns: int = HOUR_NS
    """After it a series without traffic is dropped."""
    series: int = 20_000
    """Combinations of boundary, model, class and declared labels; further ones are `other`, and are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Which gateway spans are requests to a model."""

    expect_engine: Literal["auto", "yes", "no"] = "auto"
    """Whether a 2xx without an engine span is `unknown`; `auto`: where the route has been seen to reach an engine."""
    embeddings: bool = False
    """Whether embedding calls are requests."""
    path: str = "/v1/"
    """What the path of a request holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """A model server whose gauges tell how many requests are in it. Not read by replay."""

    url: str = "http://127.0.0.1:8000/metrics"
    """Prometheus text over `http` or `https`, of any host; redirects are not followed. It is shown in /metrics."""
    every_ns: int = 5 * SECOND_NS
    """1 s to 1 m; also the longest time an answer may take. Windows shorter than four of it have no rates from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What is read beside the spans that come in."""

    scrape: tuple[Scrape, ...] = ()
    """Model servers, each once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of the configuration."""

    receive: Receive = field(default_factory=Receive)
    web: Web = field(default_factory=Web)
    stop: Stop = field(default_factory=Stop)
    profiles: tuple[str, ...] = ()
    """Paths of the user's source profiles, in the order of the patterns, then of the names."""
    publish: tuple[str, ...] = BOUNDARIES
    """Boundaries that are counted, judged and shown here; without this key all, the user's own too."""
    boundaries: tuple[Boundary, ...] = ()
    """Boundaries of the user's own, by name."""
    labels: Labels = field(default_factory=Labels)
    classes: tuple[ClassRule, ...] = ()
    """Rules for requests that name no class in the attribute `inference.class`; without a match it is `default`."""
    windows: Windows = field(default_factory=Windows)
    alerts: AlertWindows = field(default_factory=built_in)
    join: Join = field(default_factory=Join)
    align: Align = field(default_factory=Align)
    accelerators: tuple[tuple[str, int], ...] = ()
    """Model and the number of accelerators that serve it."""
    sampling: Literal["honour", "ignore"] = "honour"
    """Whether the weight that a sampler wrote into the trace state counts."""
    tpot: Tpot = field(default_factory=Tpot)
    limits: Limits = field(default_factory=Limits)
    requests: Requests = field(default_factory=Requests)
    sources: Sources = field(default_factory=Sources)


def read_settings(path: str | None, text: str, environment: Mapping[str, str], problems: list[Problem]) -> Settings:
    """The settings in `text`, the contents of the file `path`, or the defaults where it says nothing.

    Patterns of profiles are relative to the folder of `path`, or to the working directory without one. The result is
    to be used only if `problems` is still empty.
    """
    nodes = read(text, path or "configuration", problems, environment)
    for node in nodes[1:]:
        node.problem("must be the only document of the file")
    return _read_settings(nodes[0], Path(path or "").parent) if nodes else Settings()


def _read_settings(node: Node, folder: Path) -> Settings:
    fields = node.fields(*(item.name for item in dataclasses.fields(Settings)))
    boundaries = optional(fields, "boundaries", _read_boundaries, Settings().boundaries)
    known = (*BOUNDARIES, *(boundary.name for boundary in boundaries))
    labels = optional(fields, "labels", _read_labels, Labels())
    known_labels = ("model", *(label.name for label in labels.declared))
    return Settings(
        receive=optional(fields, "receive", _read_receive, Receive()),
        web=optional(fields, "web", _read_web, Web()),
        stop=optional(fields, "stop", _read_stop, Stop()),
        profiles=optional(fields, "profiles", lambda n: _find_profiles(n, folder), ()),
        publish=optional(fields, "publish", lambda n: _read_publish(n, known), known),
        boundaries=boundaries,
        labels=labels,
        classes=optional(fields, "classes", lambda n: _read_classes(n, known_labels), ()),
        windows=optional(fields, "windows", _read_windows, Windows()),
        alerts=optional(fields, "alerts", read_windows, built_in()),
        join=optional(fields, "join", _read_join, Join()),
        align=optional(fields, "align", _read_align, Align()),
        accelerators=optional(fields, "accelerators", _read_accelerators, ()),
        sampling=optional(fields, "sampling", lambda n: n.choice("honour", "ignore"), Settings().sampling),
        tpot=optional(fields, "tpot", _read_tpot, Tpot()),
        limits=optional(fields, "limits", _read_limits, Limits()),
        requests=optional(fields, "requests", _read_requests, Requests()),
        sources=optional(fields, "sources", _read_sources, Sources()),
    )


def _read_receive(node: Node) -> Receive:
    fields = node.fields("grpc", "http", "max_body")
    default = Receive()
    return Receive(
        grpc=optional(fields, "grpc", _read_address, default.grpc),
        http=optional(fields, "http", _read_address, default.http),
        max_body=optional(fields, "max_body", lambda n: n.size(2**10, 2**30), default.max_body),
    )


def _read_web(node: Node) -> Web:
    fields = node.fields("listen", "enable_lifecycle")
    default = Web()
    return Web(
        listen=optional(fields, "listen", _read_address, default.listen),
        enable_lifecycle=optional(fields, "enable_lifecycle", Node.boolean, default.enable_lifecycle),
    )


def _read_stop(node: Node) -> Stop:
    fields = node.fields("grace")
    return Stop(grace_ns=optional(fields, "grace", lambda n: n.duration(0, HOUR_NS), Stop().grace_ns))


def _read_address(node: Node) -> Address | None:
    # Loose, since YAML takes a bare 1:4317 for a number in base 60.
    match = _ADDRESS.fullmatch(node.scalar or "")
    if match and int(match[2]) <= 65535:
        return Address(match[1].strip("[]"), int(match[2]))
    node.problem("must be host:port with a port up to 65535, such as 127.0.0.1:4317, [::1]:4317 or :9464")
    return None


def _find_profiles(node: Node, folder: Path) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for item in node.items_or_one():
        pattern = os.path.join(glob.escape(str(folder)), item.text() or "")
        paths = sorted(filter(os.path.isfile, glob.glob(pattern)))
        if not paths and not glob.has_magic(item.scalar or ""):
            item.problem(f"must name a file, or be a pattern such as profiles/*.yaml, relative to {folder}")
        found.update(dict.fromkeys(paths))
    return tuple(found)


def _read_boundaries(node: Node) -> tuple[Boundary, ...]:
    boundaries = []
    for name, key, value in node.entries():
        key.text(pattern=_NAME, rule="must be a name of lower-case letters, digits and _")
        if name in BOUNDARIES:
            key.problem(f"must be another name than those of the built-in boundaries {', '.join(BOUNDARIES)}")
        fields = value.fields(required=("open", "close"))
        opened = optional(fields, "open", _read_instant, None)
        closed = optional(fields, "close", _read_instant, None)
        if opened and opened == closed:
            fields["close"].problem("must be another instant than open")
        if opened and closed:
            boundaries.append(Boundary(name=name, open=opened, close=closed))
    return tuple(boundaries)


def _read_instant(node: Node) -> Instant | None:
    match = _INSTANT.fullmatch(node.scalar or "")
    if not match:
        node.problem(f"must be stamp@profile, such as ended@litellm, the stamp one of {', '.join(STAMPS)}")
        return None
    return Instant(stamp=match[1], profile=match[2])


def _read_labels(node: Node) -> Labels:
    declared = []
    model_default = None
    for name, key, value in node.entries():
        if name == "model":
            model_default = optional(value.fields("default"), "default", _read_text, None)
        elif name == "class":
            key.problem("must be set by classes, not by labels")
        else:
            declared.append(_read_label(name, key, value))
    return Labels(model_default=model_default or Labels().model_default, declared=tuple(declared))


def _read_label(name: str, key: Node, value: Node) -> Label:
    if key.text(pattern=_LABEL, rule="must be a label name of letters, digits and _") in RESERVED_LABELS:
        key.problem("must be another name: the exporter's own series have this label")
    fields = value.fields("default", required=("from",))
    attributes: tuple[str, ...] = optional(fields, "from", lambda n: _each(n, Node.text), ())
    return Label(name=name, attributes=attributes, default=optional(fields, "default", _read_text, ""))


def _read_text(node: Node) -> str | None:
    return node.text(loose=True)


def _read_classes(node: Node, labels: Collection[str]) -> tuple[ClassRule, ...]:
    rules = []
    for item in node.items():
        fields = item.fields(required=("class", "when"))
        name = optional(fields, "class", _read_text, "")
        when: Matchers = optional(fields, "when", lambda n: read_matchers(n, labels), ())
        if "when" in fields and fields["when"].is_mapping and not when:
            fields["when"].problem("must hold at least one label")
        rules.append(ClassRule(name=name, when=when))
    return tuple(rules)


def _read_windows(node: Node) -> Windows:
    fields = node.fields("durations", "delay", "lateness")
    default = Windows()
    return Windows(
        durations_ns=optional(fields, "durations", _read_durations, default.durations_ns),
        delay_ns=optional(fields, "delay", lambda n: n.duration(0, HOUR_NS), default.delay_ns),
        lateness_ns=optional(fields, "lateness", lambda n: n.duration(0, HOUR_NS), default.lateness_ns),
    )


def _read_durations(node: Node) -> tuple[int, ...]:
    durations = _each(node, lambda item: item.duration(MIN_WINDOW_NS, MAX_WINDOW_NS))
    if node.is_sequence and not 1 <= len(node.items()) <= MAX_DURATIONS:
        node.problem(f"must hold 1 to {MAX_DURATIONS} durations", str(len(node.items())))
    return tuple(sorted(durations))


def _read_join(node: Node) -> Join:
    fields = node.fields("grace", "max_open", "max_age")
    default = Join()
    join = Join(
        grace_ns=optional(fields, "grace", lambda n: n.duration(0, HOUR_NS), default.grace_ns),
        max_open=optional(fields, "max_open", lambda n: n.integer(1, 10**8), default.max_open),
        max_age_ns=optional(fields, "max_age", lambda n: n.duration(SECOND_NS, DAY_NS), default.max_age_ns),
    )
    if join.grace_ns > join.max_age_ns:
        found = f"{format_duration(join.grace_ns)} and {format_duration(join.max_age_ns)}"
        node.problem("must have a grace of at most max_age", found)
    return join


def _read_align(node: Node) -> Align:
    fields = node.fields("mode", "same_clock")
    default = Align()
    groups = optional(fields, "same_clock", lambda n: _each(n, _read_group), default.same_clock)
    twice = [name for name, count in Counter(chain.from_iterable(groups)).items() if count > 1]
    if twice:
        fields["same_clock"].problem("must have each name in one group only", ", ".join(twice))
    return Align(mode=optional(fields, "mode", lambda n: n.choice("report", "adjust"), default.mode), same_clock=groups)


def _read_group(node: Node) -> tuple[str, ...] | None:
    if not node.is_sequence or len(node.items()) < 2:
        node.problem("must be a group of two names or more, such as [node-a, node-a.example.org]")
        return None
    return _each(node, _read_text)


def _read_accelerators(node: Node) -> tuple[tuple[str, int], ...]:
    return tuple((model, value.integer(1, 10**6) or 1) for model, _, value in node.entries())


def _read_tpot(node: Node) -> Tpot:
    fields = node.fields("formula")
    return Tpot(formula=optional(fields, "formula", lambda n: n.choice(*TPOT_FORMULAS), Tpot().formula))


def _read_limits(node: Node) -> Limits:
    fields = node.fields("label_values", "series_idle", "series")
    default = Limits()
    return Limits(
        label_values=optional(fields, "label_values", lambda n: n.integer(1, 10**5), default.label_values),
        series_idle_ns=optional(
            fields, "series_idle", lambda n: n.duration(MINUTE_NS, 366 * DAY_NS), default.series_idle_ns
        ),
        series=optional(fields, "series", lambda n: n.integer(1, 10**7), default.series),
    )


def _read_requests(node: Node) -> Requests:
    fields = node.fields("expect_engine", "embeddings", "path")
    default = Requests()
    return Requests(
        expect_engine=optional(fields, "expect_engine", lambda n: n.choice("auto", "yes", "no"), default.expect_engine),
        embeddings=optional(fields, "embeddings", Node.boolean, default.embeddings),
        path=optional(fields, "path", lambda n: n.text(pattern="/.*", rule="must begin with /"), default.path),
    )


def _read_sources(node: Node) -> Sources:
    fields = node.fields("scrape")
    scrape: tuple[Scrape, ...] = optional(fields, "scrape", _read_scrapes, ())
    return Sources(scrape=scrape)


def _read_scrapes(node: Node) -> tuple[Scrape, ...]:
    scrapes: dict[str, Scrape] = {}
    for item in node.items():
        fields = item.fields("url", "every")
        default = Scrape()
        url = optional(fields, "url", _read_url, default.url)
        every_ns = optional(fields, "every", lambda n: n.duration(SECOND_NS, MINUTE_NS), default.every_ns)
        if url in scrapes:
            fields.get("url", item).problem("must be given once", url)
        scrapes[url] = Scrape(url=url, every_ns=every_ns)
    if len(scrapes) > MAX_SCRAPES:
        node.problem(f"must hold at most {MAX_SCRAPES} servers", str(len(scrapes)))
    return tuple(scrapes.values())


def _read_url(node: Node) -> str | None:
    """An address in its one spelling, by which it is told from others."""
    text = node.text()
    if text is None:
        return None
    try:
        url = URL(text)
    except ValueError:
        url = URL()
    if url.scheme in ("http", "https") and url.host and url.user is None and url.password is None and not url.fragment:
        return str(url)
    node.problem("must be a URL without user and fragment, such as http://127.0.0.1:8000/metrics")
    return None


def _read_publish(node: Node, known: tuple[str, ...]) -> tuple[str, ...]:
    published = _each(node, lambda item: item.choice(*known))
    if node.is_sequence and not node.items():
        node.problem("must name at least one boundary")
    return published


def _each(node: Node, get: Callable[[Node], H | None]) -> tuple[H, ...]:
    """What `get` makes of each element of a list; an element that is there twice is a problem."""
    values: dict[H, None] = {}
    for item in node.items():
        value = get(item)
        if value in values:
            item.problem("must be given once")
        elif value is not None:
            values[value] = None
    return tuple(values)
