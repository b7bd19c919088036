"""Source profiles: data that says how to recognise one emitter's spans and what they tell. Files, no code.

A profile names the role of the span, how it is recognised, and where its stamps, token counts, labels, outcome and
ids stand (contract: `apiVersion: goodput/v1`, `kind: SourceProfile`). The built-in ones lie in `exporter/profiles`,
one file per emitter, and are listed in `BUILT_IN` in the order in which they are tried; a user's own come first.

A `LogProfile` says the same of log records that a gateway sends when a request starts, while it lasts, and when it has
ended. Such a record is read like a span: `time` and `observed` stand in the places of `start` and `end`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Final

from slo_rules.document import Node, Problem, read
from slo_rules.vocabulary import FIRST_TOKEN_SOURCES, OUTCOMES, ROLES, STAMPS

KINDS: Final = ("unspecified", "internal", "server", "client", "producer", "consumer")
"""Span kinds, at the place of their number in OTLP."""

UNITS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
OF_BOTH: Final = (
    "ignore", "stamps", "first_token_from", "tokens", "items", "labels", "request_id", "stream", "status", "method",
    "path", "route", "outcome",
)  # fmt: skip
OF_SPANS: Final = ("within", "several")
OF_LOGS: Final = ("absent", "emitted", "flush")
MAX_FLUSH_NS: Final = 60_000_000_000
RECORDS: Final = ("start", "progress", "end")
MATCHED: Final = ("scope", "name", "kind", "attributes", "resource")
"""What a span can be recognised by."""
TIMES_OF_A_SPAN: Final = ("start", "end")
TIMES_OF_A_LOG: Final = ("time", "observed")
"""What a span, or a log record, says of itself outside its attributes."""
WAYS: Final = {
    "event": {"event", "pick", "skip", "where"},
    "attribute": {"attribute", "unit", "where"},
    "from": {"from", "plus", "minus", "unit", "where"},
}
"""What may be said of a stamp, by how it is found."""
CHOSEN_NAMES: Final = ("service.name", "service.namespace", "service.instance.id")
"""Resource attributes that users choose, so that no profile may go by them."""

BUILT_IN: Final = (
    "vllm", "envoy", "envoy-egress", "litellm", "litellm-call", "dynamo", "dynamo-worker", "dynamo-handler", "smg",
    "celery", "openinference", "openllmetry", "genai-client", "fastapi", "http-server",
    "envoy-accesslog", "dynamo-log",
)  # fmt: skip
KIND_OF_SPANS, KIND_OF_LOGS = "SourceProfile", "LogProfile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a value stands: an attribute of the span, or of its first event of that name."""

    attribute: str
    event: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A value that must match a whole pattern; without a pattern it must only be there (or not be there)."""

    attribute: str
    pattern: re.Pattern[str] | None = None
    present: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """All that is given must hold. Names and scopes may use `*`."""

    scopes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    kinds: tuple[int, ...] = ()
    attributes: tuple[Condition, ...] = ()
    resource: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """One way to find an instant: a base (`start`, `end`, a stamp, an event, a time), plus or minus an interval.

    Conditions `where` are those of the event, or of the span where there is none.
    """

    base: str = "start"
    event: str | None = None
    last: bool = False
    skip: int = 0
    where: tuple[Condition, ...] = ()
    attribute: str | None = None
    """An absolute time, or the interval that is added to the base."""
    absolute: bool = False
    sign: int = 1
    unit_ns: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestId:
    """The id that several emitters of one request share, once `strip` is taken from its front.

    Where an emitter numbers what belongs to one request, a pattern of the whole id has the id without the number as its
    only group: `choice` for several answers to one prompt, `sequence` for the prompts of a list.
    """

    attributes: tuple[str, ...]
    strip: tuple[str, ...] = ()
    choice: re.Pattern[str] | None = None
    sequence: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Whether the answer was a stream."""

    source: Source
    pattern: re.Pattern[str]
    absent: int | None = None
    """What the absence of the value says: 1 a stream, 0 none, None nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A value that tells the outcome."""

    source: Source
    pattern: re.Pattern[str]
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    """Spans that are no request at all, and why."""

    match: Match
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProfile:
    """What one emitter's spans mean."""

    name: str
    role: str
    matches: tuple[Match, ...]
    ignores: tuple[Ignore, ...] = ()
    stamps: Mapping[str, tuple[Stamp, ...]] = field(default_factory=dict)
    first_token_from: str = "token"
    tokens: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    items: tuple[str, ...] = ()
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    request_id: RequestId | None = None
    stream: tuple[Stream, ...] = ()
    status: tuple[Source, ...] = ()
    method: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    route: tuple[str, ...] = ()
    outcome: tuple[Evidence, ...] = ()
    within: str | None = None
    """Scope whose span of the same process and parent encloses this one, where the two are siblings."""
    several: Mapping[str, str] = field(default_factory=dict)
    records: Mapping[str, Match] = field(default_factory=dict)
    """Of a log profile: how its records at the start, in between and at the end are told apart; empty for spans."""
    absent: str | None = None
    """The text that stands for no value."""
    emitted: tuple[Stamp, ...] = ()
    """When a record was made."""
    flush_ns: int = 0
    """How long the emitter keeps a record back, at most."""

    @property
    def of_logs(self) -> bool:
        """Whether it speaks of log records."""
        return bool(self.records)

    def attributes(self) -> Iterator[str]:
        """Every attribute key that is read, of the span or of its events."""
        for match in (*self.matches, *(ignore.match for ignore in self.ignores), *self.records.values()):
            yield from (condition.attribute for condition in match.attributes)
        for stamp in self._stamps():
            yield from (condition.attribute for condition in stamp.where)
            if stamp.attribute is not None:
                yield stamp.attribute
        for keys in (*self.tokens.values(), *self.labels.values(), self.items, self.method, self.path, self.route):
            yield from keys
        yield from self.request_id.attributes if self.request_id else ()
        yield from (source.attribute for source in self._sources())

    def events(self) -> Iterator[str]:
        """Every event name that is read."""
        for event in (*(way.event for way in self._stamps()), *(source.event for source in self._sources())):
            if event is not None:
                yield event

    def _stamps(self) -> Iterator[Stamp]:
        for ways in (*self.stamps.values(), self.emitted):
            yield from ways

    def _sources(self) -> Iterator[Source]:
        yield from self.status
        yield from (stream.source for stream in self.stream)
        yield from (evidence.source for evidence in self.outcome)


def built_in() -> list[SourceProfile]:
    """The profiles that come with the program, in the order in which they are tried."""
    problems: list[Problem] = []
    folder = resources.files("exporter") / "profiles"
    profiles = []
    for name in BUILT_IN:
        file = folder / f"{name}.yaml"
        profiles += read_profiles(read(file.read_text("utf-8"), f"{name}.yaml", problems, {}, ours=True))
    if problems:
        raise AssertionError("\n".join(map(str, problems)))
    return profiles


def read_profiles(nodes: Sequence[Node]) -> list[SourceProfile]:
    """The profiles of one file; what is wrong is recorded with the nodes."""
    return [profile for node in nodes if (profile := _profile(node)) is not None]


def check_names(profiles: Sequence[tuple[SourceProfile, Node]]) -> None:
    """Profiles of the user's own must have different names."""
    seen: set[str] = set()
    for profile, node in profiles:
        if profile.name in seen:
            node.problem(f"must have a name of its own, {profile.name} is taken")
        seen.add(profile.name)


def _profile(node: Node) -> SourceProfile | None:
    top = node.fields(required=("apiVersion", "kind", "metadata", "spec"))
    if "apiVersion" in top:
        top["apiVersion"].choice("goodput/v1")
    kind = top["kind"].choice(KIND_OF_SPANS, KIND_OF_LOGS) if "kind" in top else None
    if "metadata" not in top or "spec" not in top:
        return None
    metadata = top["metadata"].fields("labels", required=("name",))
    name = metadata["name"].text(pattern=r"[a-z0-9]([a-z0-9-]*[a-z0-9])?") if "name" in metadata else None
    return _spec(top["spec"], name or "?", of_logs=kind == KIND_OF_LOGS)


def _spec(node: Node, name: str, *, of_logs: bool) -> SourceProfile | None:
    spec = node.fields(*OF_BOTH, *(OF_LOGS if of_logs else OF_SPANS),
                       required=("role", "match", *(("records",) if of_logs else ())))  # fmt: skip
    role = spec["role"].choice(*(("gateway",) if of_logs else ROLES)) if "role" in spec else None
    matches = tuple(_match(item) for item in spec["match"].items()) if "match" in spec else ()
    if "match" in spec and spec["match"].is_sequence and not matches:
        spec["match"].problem("must hold at least one way to recognise the span")
    profile = SourceProfile(
        name=name,
        role=role or ROLES[0],
        matches=matches,
        ignores=tuple(_ignore(item) for item in spec["ignore"].items()) if "ignore" in spec else (),
        stamps=_stamps(spec["stamps"], of_logs) if "stamps" in spec else {},
        first_token_from=(spec["first_token_from"].choice(*FIRST_TOKEN_SOURCES) if "first_token_from" in spec else None)
        or "token",
        tokens=_keys_by(spec.get("tokens"), "input", "output", "cached_input"),
        items=_keys(spec.get("items")),
        labels=_keys_by(spec.get("labels"), "model", "class"),
        request_id=_request_id(spec["request_id"]) if "request_id" in spec else None,
        stream=tuple(_stream(item) for item in _some(spec.get("stream"))),
        status=tuple(_source(item) for item in _some(spec.get("status"))),
        method=_keys(spec.get("method")),
        path=_keys(spec.get("path")),
        route=_keys(spec.get("route")),
        outcome=tuple(_evidence(item) for item in spec["outcome"].items()) if "outcome" in spec else (),
        within=spec["within"].text() if "within" in spec else None,
        several=_several(spec["several"]) if "several" in spec else {},
        records=_records(spec["records"]) if "records" in spec else {},
        absent=spec["absent"].text() if "absent" in spec else None,
        emitted=_ways(spec["emitted"], "emitted", of_logs) if "emitted" in spec else (),
        flush_ns=(spec["flush"].duration(low_ns=0, high_ns=MAX_FLUSH_NS) if "flush" in spec else None) or 0,
    )
    if role not in (None, "part") and not profile.stamps and "stamps" not in spec:
        node.problem("must give stamps, which are what a request is timed by")
    return None if role is None or not matches else profile


def _some(node: Node | None) -> list[Node]:
    """The elements of a list; anything else is a list of one."""
    if node is None:
        return []
    return node.items() if node.is_sequence else [node]


def _keys(node: Node | None) -> tuple[str, ...]:
    return tuple(key for item in _some(node) if (key := item.text()) is not None)


def _keys_by(node: Node | None, *known: str) -> dict[str, tuple[str, ...]]:
    return {key: _keys(value) for key, value in node.fields(*known).items()} if node is not None else {}


def _match(node: Node) -> Match:
    return _match_of(node, node.fields(*MATCHED))


def _match_of(node: Node, fields: Mapping[str, Node]) -> Match:
    if node.is_mapping and not any(_says_something(fields[key]) for key in MATCHED if key in fields):
        node.problem("must say how to recognise the span: scope, name, kind, attributes or resource")
    for key, _, value in fields["resource"].entries() if "resource" in fields else ():
        if key in CHOSEN_NAMES:
            value.problem("must not go by a name that users choose")
    return Match(
        scopes=_globs(fields.get("scope")),
        names=_globs(fields.get("name")),
        kinds=tuple(KINDS.index(kind) for item in _some(fields.get("kind")) if (kind := item.choice(*KINDS))),
        attributes=_conditions(fields.get("attributes")),
        resource=_conditions(fields.get("resource")),
    )


def _records(node: Node) -> dict[str, Match]:
    return {key: _match(value) for key, value in node.fields(*RECORDS[:-1], required=("end",)).items()}


def _says_something(node: Node) -> bool:
    """Whether it is no empty list or mapping, which would match everything."""
    return bool(node.entries() if node.is_mapping else node.items() if node.is_sequence else True)


def _globs(node: Node | None) -> tuple[str, ...]:
    # A scope may be empty: Envoy before 1.40 sends none.
    return tuple(item.scalar if item.scalar == "" else item.text() or "" for item in _some(node))


def _conditions(node: Node | None) -> tuple[Condition, ...]:
    found = []
    for key, _, value in node.entries() if node is not None else ():
        if value.scalar in ("present", "absent"):
            found.append(Condition(attribute=key, present=value.scalar == "present"))
        elif (pattern := _pattern(value)) is not None:
            found.append(Condition(attribute=key, pattern=pattern))
    return tuple(found)


def _pattern(node: Node) -> re.Pattern[str] | None:
    text = node.text(loose=True)
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        node.problem(f"must be a regular expression ({error})")
        return None


def _ignore(node: Node) -> Ignore:
    fields = node.fields(*MATCHED, required=("reason",))
    reason = fields["reason"].text(pattern=r"[a-z][a-z0-9_]*") if "reason" in fields else None
    return Ignore(match=_match_of(node, fields), reason=reason or "ignored")


def _stamps(node: Node, of_logs: bool) -> dict[str, tuple[Stamp, ...]]:
    stamps = {key: _ways(value, key, of_logs) for key, value in node.fields(*STAMPS).items()}
    for key in stamps:
        _follow(node, stamps, key)
    return stamps


def _follow(node: Node, stamps: Mapping[str, tuple[Stamp, ...]], first: str) -> None:
    """Stamps that lean on each other must not do so in a circle, nor on one that is not given."""
    open_ends, seen = [first], set()
    while open_ends:
        key = open_ends.pop()
        for way in stamps.get(key, ()):
            if way.base in STAMPS and way.base not in stamps:
                node.problem(f"must give the stamp {way.base}, which {key} is counted from")
            elif way.base == first:
                node.problem(f"must not count {first} from itself")
                return
            elif way.base in STAMPS and way.base not in seen:
                seen.add(way.base)
                open_ends.append(way.base)


def _ways(node: Node, stamp: str, of_logs: bool) -> tuple[Stamp, ...]:
    return tuple(way for item in _some(node) if (way := _stamp(item, stamp, of_logs)) is not None)


def _stamp(node: Node, stamp: str, of_logs: bool) -> Stamp | None:
    bases = TIMES_OF_A_LOG if of_logs else TIMES_OF_A_SPAN
    if node.is_scalar:
        base = node.choice(*bases)
        return Stamp(base=base) if base else None
    fields = node.fields("from", "plus", "minus", "unit", "event", "pick", "skip", "where", "attribute")
    ways = [key for key in ("event", "attribute", "from") if key in fields]
    if len(ways) != 1:
        node.problem(f"must be {', '.join(bases)}, or a mapping with one of event, attribute, from")
        return None
    for key in fields.keys() - WAYS[ways[0]]:
        fields[key].problem(f"must not stand beside {ways[0]}")
    if "event" in fields:
        pick = fields["pick"].choice("first", "last") if "pick" in fields else "first"
        skip = fields["skip"].integer(0, 16) if "skip" in fields else 0
        return Stamp(event=fields["event"].text(), last=pick == "last", skip=skip or 0,
                     where=_conditions(fields.get("where")))  # fmt: skip
    where = _conditions(fields.get("where"))
    unit = fields["unit"].choice(*UNITS) if "unit" in fields else None
    if "unit" not in fields:
        node.problem(f"must give the unit, one of {', '.join(UNITS)}")
    if "attribute" in fields:
        return Stamp(attribute=fields["attribute"].text(), absolute=True, unit_ns=UNITS[unit or "ns"], where=where)
    base = fields["from"].choice(*bases, *(name for name in STAMPS if name != stamp))
    signs = [key for key in ("plus", "minus") if key in fields]
    if len(signs) != 1:
        node.problem("must give plus or minus, the attribute that holds the interval")
        return None
    attribute = fields[signs[0]].text()
    return Stamp(base=base or bases[0], attribute=attribute, sign=1 if signs[0] == "plus" else -1,
                 unit_ns=UNITS[unit or "ns"], where=where)  # fmt: skip


def _source(node: Node) -> Source:
    if node.is_scalar:
        return Source(attribute=node.text() or "?")
    fields = node.fields("event", required=("attribute",))
    return _source_of(fields)


def _source_of(fields: Mapping[str, Node]) -> Source:
    return Source(
        attribute=(fields["attribute"].text() if "attribute" in fields else None) or "?",
        event=fields["event"].text() if "event" in fields else None,
    )


def _request_id(node: Node) -> RequestId:
    fields = node.fields("strip", "choice", "sequence", required=("attribute",))
    return RequestId(
        attributes=_keys(fields.get("attribute")),
        strip=_keys(fields.get("strip")),
        choice=_unnumbered(fields["choice"]) if "choice" in fields else None,
        sequence=_unnumbered(fields["sequence"]) if "sequence" in fields else None,
    )


def _unnumbered(node: Node) -> re.Pattern[str] | None:
    """A pattern of a numbered id."""
    pattern = _pattern(node)
    if pattern is not None and pattern.groups != 1:
        node.problem("must have one group, which holds the id without the number", found=pattern.pattern)
        return None
    return pattern


def _stream(node: Node) -> Stream:
    fields = (
        node.fields("event", "matches", "absent", required=("attribute",)) if node.is_mapping else {"attribute": node}
    )
    absent = fields["absent"].boolean() if "absent" in fields else None
    return Stream(
        source=_source_of(fields),
        pattern=(_pattern(fields["matches"]) if "matches" in fields else None) or re.compile("true|True|1"),
        absent=None if absent is None else int(absent),
    )


def _evidence(node: Node) -> Evidence:
    fields = node.fields("event", required=("attribute", "matches", "is"))
    return Evidence(
        source=_source_of(fields),
        pattern=(_pattern(fields["matches"]) if "matches" in fields else None) or re.compile(""),
        outcome=(fields["is"].choice(*OUTCOMES) if "is" in fields else None) or "unknown",
    )


def _several(node: Node) -> dict[str, str]:
    """How the sequences of one request become one; the only way there is, spelt out for the reader of the file."""
    right = {"first_token": "min", "ended": "max", "output": "sum"}
    return {key: value.choice(right[key]) or right[key] for key, value in node.fields(*right).items()}
