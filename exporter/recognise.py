"""From columns to stamps: which profile a span matches, and what it tells about a request.

A profile is compiled once into `Rule`s that speak of attribute slots. Which rules can apply is decided once per
distinct (resource, scope, name) and remembered; per span only the kind and attribute conditions are left.

A value that cannot be (an interval below zero or longer than its span, a token count that is no number) loses the
value and is counted by reason; the span stays.
"""

import math
import re
import struct
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from exporter import record
from exporter.config import Settings
from exporter.decode import columns
from exporter.decode.columns import Batch, Group, Resource, Wanted
from exporter.profile import Condition, Evidence, Match, Source, SourceProfile, Stamp, Stream
from exporter.record import IGNORED, MISSING, UNRECOGNISED
from exporter.sampling import weight_of
from slo_rules.vocabulary import FIRST_TOKEN_SOURCES, OUTCOMES, ROLES, STAMPS

SLACK_NS: Final = 100_000_000
"""How much longer than its span an interval may be: emitters mix wall and monotonic clocks."""
MAX_COUNT: Final = 10**9
"""Tokens or items of one request."""
MAX_TEXT: Final = 256
"""Characters of a label value that are kept."""
MAX_STRINGS: Final = 20_000
"""Distinct label values that are kept for a while; the bound on the values of one label comes later."""
OTHER: Final = "other"

MODEL_KEYS: Final = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
CLASS_KEYS: Final = ("inference.class",)
CLOCK_KEYS: Final = ("host.id", "host.name", "k8s.node.name")
NO_CALL: Final = ("/models", "/metrics", "/health", "/tokenize", "/detokenize", "/load", "/ping", "/version")
EMBEDDINGS: Final = "/embeddings"
WHOLE: Final = re.compile(r"-?[0-9]{1,19}")
DECIMAL: Final = re.compile(r"([0-9]{1,19})\.([0-9]{1,18})")
DECIMALS: Final = 18
WHOLE_UNIT: Final = 10**DECIMALS
UNITS_TEXT: Final = re.compile(r"([0-9.]+)(ns|us|µs|ms|s)")


class Strings:
    """Text to numbers (64-bit hashes) and back, for as long as a row can live.

    Two halves, of which the older is dropped in turn. Each has a bound, as senders choose the text: what finds no room
    is `other` where it is a label; where only sameness counts (routes, scopes, clocks) it keeps its number.
    """

    def __init__(self, limit: int = MAX_STRINGS) -> None:
        self.limit = limit
        self.young: dict[int, str] = {}
        self.old: dict[int, str] = {}

    def number(self, text: str) -> int:
        """The number of a text that can be had back, or that of `other`."""
        text = text[:MAX_TEXT]
        number = hash(text)
        return number if self._remember(number, text) else hash(OTHER)

    def identity(self, text: str) -> int:
        """The number of a text, whether or not it can be had back."""
        number = hash(text)
        self._remember(number, text[:MAX_TEXT])
        return number

    def text(self, number: int) -> str:
        """The text of a number."""
        return self.young.get(number) or self.old.get(number) or OTHER

    def turn(self) -> None:
        """Forget the older half."""
        self.old, self.young = self.young, {}

    def _remember(self, number: int, text: str) -> bool:
        if number in self.young:
            return True
        if len(self.young) >= self.limit:
            return number in self.old
        self.young[number] = text
        return True


class Wish(NamedTuple):
    """A `Source` in slots; event -1 is the span itself."""

    slot: int
    event: int


class Rule(NamedTuple):
    """One profile, compiled."""

    number: int
    profile: SourceProfile
    role: int
    source: int
    stamps: tuple[tuple[int, tuple["Way", ...]], ...]
    input: tuple[int, ...]
    output: tuple[int, ...]
    cached: tuple[int, ...]
    items: tuple[int, ...]
    model: tuple[int, ...]
    klass: tuple[int, ...]
    request_id: tuple[int, ...]
    stream: tuple[tuple[Wish, re.Pattern[str], int | None], ...]
    status: tuple[Wish, ...]
    method: tuple[int, ...]
    path: tuple[int, ...]
    route: tuple[int, ...]
    outcome: tuple[tuple[Wish, re.Pattern[str], int], ...]
    within: int


class Way(NamedTuple):
    """One `Stamp` in cells and slots."""

    base: int
    event: int
    last: bool
    skip: int
    where: tuple[tuple[int, re.Pattern[str] | None, bool], ...]
    slot: int
    absolute: bool
    sign: int
    unit_ns: int


class Candidate(NamedTuple):
    """A rule, or a reason to ignore, with what is left to ask of each span."""

    rule: Rule | None
    reason: str
    kinds: tuple[int, ...]
    conditions: tuple[tuple[int, re.Pattern[str] | None, bool], ...]


class Known(NamedTuple):
    """What is remembered of a group."""

    candidates: tuple[Candidate, ...]
    clock: int
    resource: int
    scope: int
    resource_labels: tuple[int, ...]


def wanted_by(profiles: Iterable[SourceProfile], settings: Settings) -> Wanted:
    """All that any of the profiles, or a label, reads."""
    keys = {*MODEL_KEYS, *CLASS_KEYS, *(key for label in settings.labels.declared for key in label.attributes)}
    events: set[str] = set()
    for profile in profiles:
        keys.update(profile.attributes())
        events.update(profile.events())
    return Wanted(keys, events)


class Recogniser:
    """Turns batches into rows of `exporter.record`."""

    def __init__(self, profiles: Sequence[SourceProfile], settings: Settings, wanted: Wanted, strings: Strings) -> None:
        self.wanted = wanted
        self.strings = strings
        self.settings = settings
        self.width = record.LABELS + len(settings.labels.declared)
        self.rules = [self._compile(number, profile) for number, profile in enumerate(profiles)]
        self.same_clock = {name: group[0] for group in settings.align.same_clock for name in group}
        self.model_slots = tuple(wanted.key(key) for key in MODEL_KEYS)
        self.class_slots = tuple(wanted.key(key) for key in CLASS_KEYS)
        self.label_slots = [tuple(wanted.key(key) for key in label.attributes) for label in settings.labels.declared]
        self.blank = array("q", [MISSING]) * self.width
        self.known: dict[int, Known] = {}
        self.generation = 0
        self.dropped: Counter[str] = Counter()
        """Attribute values refused, by reason."""
        self.ignored: Counter[str] = Counter()
        """Spans that are no request, by reason."""
        self.last_seen = [MISSING] * len(profiles)
        """Per profile, the newest end of a span that it matched."""
        self.at = [-1] * max(1, len(wanted.keys))
        self.batch = Batch(b"", 0, memoryview(b""), memoryview(b""), memoryview(b""), memoryview(b""), [], [], [])

    def forget(self) -> None:
        """Learn the groups anew, so that what they name is remembered anew."""
        self.known.clear()

    def recognise(self, batch: Batch, generation: int, seen_ns: int | None) -> "array[int]":
        """One row per span, `width` cells each. `seen_ns` None sets SEEN to the end of the span."""
        if generation != self.generation:
            self.known.clear()
            self.generation = generation
        self.batch = batch
        rows = self.blank * batch.spans
        view = memoryview(rows)
        for index in range(batch.spans):
            self._span(view, index * self.width, index * columns.HEAD, seen_ns)
        return rows

    def _span(self, rows: memoryview, row: int, head: int, seen_ns: int | None) -> None:
        heads = self.batch.heads
        rows[row : row + 6] = heads[head : head + 6]
        rows[row + record.SEEN] = heads[head + columns.END] if seen_ns is None else seen_ns
        rows[row + record.FAILED] = 1 if heads[head + columns.STATUS] == 2 else 0
        if heads[head + columns.LINKS_TO] > heads[head + columns.LINKS_FROM]:
            rows[row + record.LINK] = self.batch.links[heads[head + columns.LINKS_FROM] * columns.LINK + 2]
        known = self.known.get(heads[head + columns.GROUP])
        if known is None:
            known = self._learn(heads[head + columns.GROUP])
        rows[row + record.CLOCK] = known.clock
        rows[row + record.RESOURCE] = known.resource
        rows[row + record.SCOPE] = known.scope
        touched = self._gather(heads[head + columns.ATTRIBUTES_FROM], heads[head + columns.ATTRIBUTES_TO])
        candidate = self._choose(known.candidates, heads[head + columns.KIND])
        if candidate is None:
            rows[row + record.PROFILE] = UNRECOGNISED
        elif candidate.rule is None:
            rows[row + record.PROFILE] = IGNORED
            self.ignored[candidate.reason] += 1
        else:
            self._fill(rows, row, head, candidate.rule)
        self._labels(rows, row, known)
        if heads[head + columns.STATE_LENGTH]:
            rows[row + record.WEIGHT] = self._weight(head)
        for slot in touched:
            self.at[slot] = -1

    def _gather(self, first: int, stop: int) -> list[int]:
        """Note where the attributes of this span stand; the last of a key wins."""
        attributes = self.batch.attributes
        touched = []
        for place in range(first * columns.ATTRIBUTE, stop * columns.ATTRIBUTE, columns.ATTRIBUTE):
            slot = attributes[place]
            self.at[slot] = place
            touched.append(slot)
        return touched

    def _choose(self, candidates: tuple[Candidate, ...], kind: int) -> Candidate | None:
        for candidate in candidates:
            if (not candidate.kinds or kind in candidate.kinds) and self._hold(candidate.conditions):
                return candidate
        return None

    def _hold(self, conditions: tuple[tuple[int, re.Pattern[str] | None, bool], ...]) -> bool:
        for slot, pattern, present in conditions:
            if (self.at[slot] >= 0) != present:
                return False
            if pattern is not None and not pattern.fullmatch(self._text(self.at[slot])):
                return False
        return True

    # One recognised span.

    def _fill(self, rows: memoryview, row: int, head: int, rule: Rule) -> None:
        rows[row + record.PROFILE] = rule.number
        rows[row + record.ROLE] = rule.role
        end = self.batch.heads[head + columns.END]
        self.last_seen[rule.number] = max(self.last_seen[rule.number], end)
        for cell, ways in rule.stamps:
            self._stamp(rows, row, head, cell, ways)
        rows[row + record.INPUT] = self._count(rule.input)
        rows[row + record.OUTPUT] = self._count(rule.output)
        rows[row + record.CACHED] = self._count(rule.cached)
        rows[row + record.ITEMS] = self._count(rule.items)
        rows[row + record.SOURCE] = rule.source
        rows[row + record.WITHIN] = rule.within
        self._request_id(rows, row, rule)
        for wish, pattern, absent in rule.stream:
            text = self._wish(head, wish)
            if text is not None:
                rows[row + record.STREAM] = 1 if pattern.fullmatch(text) else 0
                break
            if absent is not None:
                rows[row + record.STREAM] = absent
        for wish in rule.status:
            status = self._wish(head, wish)
            if status is not None and status.isdecimal():
                rows[row + record.STATUS] = int(status[:4])
                break
        for wish, pattern, outcome in rule.outcome:
            text = self._wish(head, wish)
            if text is not None and pattern.fullmatch(text):
                rows[row + record.EVIDENCE] = outcome
                break
        self._route(rows, row, rule)

    def _stamp(self, rows: memoryview, row: int, head: int, cell: int, ways: tuple[Way, ...]) -> None:
        for way in ways:
            if way.event < 0 and way.where and not self._hold(way.where):
                continue
            if way.event >= 0:
                time = self._event_time(head, way)
            elif way.absolute:
                time = self._interval(way.slot, way.unit_ns, None)
            elif way.slot < 0:
                time = rows[row + way.base]
            else:
                time = self._offset(rows[row + way.base], way, self._length(rows, row))
            if time == MISSING:
                continue
            if self._inside(rows, row, time):
                rows[row + cell] = time
                return
            self.dropped["outside_span"] += 1

    def _inside(self, rows: memoryview, row: int, time: int) -> bool:
        return bool(rows[row + record.START] - SLACK_NS <= time <= rows[row + record.END] + SLACK_NS)

    def _length(self, rows: memoryview, row: int) -> int | None:
        """No interval of a span is longer than this."""
        return int(rows[row + record.END] - rows[row + record.START])

    def _offset(self, base: int, way: Way, length: int | None) -> int:
        if base == MISSING:
            return MISSING
        interval = self._interval(way.slot, way.unit_ns, length)
        return MISSING if interval == MISSING else base + way.sign * interval

    def _interval(self, slot: int, unit_ns: int, length: int | None) -> int:
        """Nanoseconds of an attribute; MISSING where it is absent or cannot be."""
        place = self.at[slot]
        if place < 0:
            return MISSING
        value = self._number(place, unit_ns)
        if value is None:
            self.dropped["not_a_number"] += 1
        elif value < 0:
            self.dropped["negative"] += 1
        elif value > 2**62 or (length is not None and value > length + SLACK_NS):
            self.dropped["longer_than_span"] += 1
        else:
            return value
        return MISSING

    def _number(self, place: int, unit_ns: int) -> int | None:
        """A number times the unit, in whole nanoseconds."""
        attributes = self.batch.attributes
        kind = attributes[place + 1]
        if kind == columns.INTEGER:
            return int(attributes[place + 2]) * unit_ns
        if kind == columns.DOUBLE:
            return scaled(as_double(attributes[place + 2]), unit_ns)
        return parsed(self._text(place), unit_ns) if kind == columns.STRING else None

    def _event_time(self, head: int, way: Way) -> int:
        """Time of the first or last such event. Where the sender dropped events, the first is not the first."""
        heads, events = self.batch.heads, self.batch.events
        if heads[head + columns.DROPPED_EVENTS] and not way.last:
            return MISSING
        times = []
        for index in range(heads[head + columns.EVENTS_FROM], heads[head + columns.EVENTS_TO]):
            place = index * columns.EVENT
            if events[place] == way.event and (not way.where or self._event_holds(place, way.where)):
                times.append(events[place + 1])
        times.sort(reverse=way.last)
        return times[way.skip] if len(times) > way.skip else MISSING

    def _event_holds(self, event: int, where: tuple[tuple[int, re.Pattern[str] | None, bool], ...]) -> bool:
        for slot, pattern, present in where:
            place = self._event_attribute(event, slot)
            if (place >= 0) != present:
                return False
            if pattern is not None and not pattern.fullmatch(self._text(place)):
                return False
        return True

    def _event_attribute(self, event: int, slot: int) -> int:
        events, attributes = self.batch.events, self.batch.attributes
        for index in range(events[event + 2], events[event + 3]):
            if attributes[index * columns.ATTRIBUTE] == slot:
                return index * columns.ATTRIBUTE
        return -1

    def _wish(self, head: int, wish: Wish) -> str | None:
        if wish.event < 0:
            place = self.at[wish.slot]
            return self._text(place) if place >= 0 else None
        heads, events = self.batch.heads, self.batch.events
        for index in range(heads[head + columns.EVENTS_FROM], heads[head + columns.EVENTS_TO]):
            if events[index * columns.EVENT] == wish.event:
                place = self._event_attribute(index * columns.EVENT, wish.slot)
                if place >= 0:
                    return self._text(place)
        return None

    def _text(self, place: int) -> str:
        attributes = self.batch.attributes
        kind, value = attributes[place + 1], attributes[place + 2]
        if kind == columns.STRING:
            return self.batch.body[value : value + attributes[place + 3]].decode("utf-8", "replace")
        if kind == columns.BOOLEAN:
            return "true" if value else "false"
        if kind == columns.INTEGER:
            return str(value)
        return repr(as_double(value)) if kind == columns.DOUBLE else ""

    def _first(self, slots: tuple[int, ...]) -> int:
        for slot in slots:
            if self.at[slot] >= 0:
                return self.at[slot]
        return -1

    def _count(self, slots: tuple[int, ...]) -> int:
        for slot in slots:
            place = self.at[slot]
            if place < 0:
                continue
            value = self._number(place, 1)
            if value is not None and 0 <= value <= MAX_COUNT:
                return value
            self.dropped["not_a_count"] += 1
        return MISSING

    def _request_id(self, rows: memoryview, row: int, rule: Rule) -> None:
        place = self._first(rule.request_id)
        shape = rule.profile.request_id
        if place < 0 or shape is None:
            return
        sequence = unnumbered(self._text(place), shape.choice)
        text = unnumbered(sequence, shape.sequence)
        for front in shape.strip:
            if text.startswith(front):
                text = text[len(front) :]
                break
        if not text:
            return
        rows[row + record.SEQUENCE_ID] = hash(sequence)
        rows[row + record.REQUEST_ID] = hash(text)

    def _route(self, rows: memoryview, row: int, rule: Rule) -> None:
        place = self._first(rule.path)
        if place >= 0:
            path = path_of(self._text(place))
            rows[row + record.ROUTE] = hash((rule.profile.name, path))
            method = self._first(rule.method)
            rows[row + record.CALL] = self._is_call(self._text(method) if method >= 0 else "POST", path)
        elif rule.route and (place := self._first(rule.route)) >= 0:
            rows[row + record.ROUTE] = hash((rule.profile.name, self._text(place)))

    def _is_call(self, method: str, path: str) -> int:
        requests = self.settings.requests
        if method.upper() != "POST" or requests.path not in path:
            return 0
        if path.endswith(NO_CALL) or (path.endswith(EMBEDDINGS) and not requests.embeddings):
            return 0
        return 1

    def _labels(self, rows: memoryview, row: int, known: Known) -> None:
        rule = self.rules[rows[row + record.PROFILE]] if rows[row + record.PROFILE] >= 0 else None
        place = self._first(rule.model) if rule is not None and rule.model else self._first(self.model_slots)
        if place >= 0 and (text := self._text(place)):
            rows[row + record.MODEL] = self.strings.number(text)
        place = self._first(rule.klass) if rule is not None and rule.klass else self._first(self.class_slots)
        if place >= 0 and (text := self._text(place)):
            rows[row + record.CLASS] = self.strings.number(text)
        for index, slots in enumerate(self.label_slots):
            place = self._first(slots)
            text = self._text(place) if place >= 0 else ""
            rows[row + record.LABELS + index] = self.strings.number(text) if text else known.resource_labels[index]

    def _weight(self, head: int) -> int:
        heads = self.batch.heads
        at, length = heads[head + columns.STATE_AT], heads[head + columns.STATE_LENGTH]
        state = self.batch.body[at : at + length]
        weight = weight_of(state, heads[head + columns.TRACE_LO])
        if weight == MISSING and b"ot=" in state and self.settings.sampling == "honour":
            self.dropped["sampling"] += 1
        return weight

    # What is known of a group.

    def _learn(self, number: int) -> Known:
        group: Group = self.batch.groups[number]
        resource: Resource = self.batch.resources[group.resource]
        candidates = []
        for rule in self.rules:
            for match in rule.profile.matches:
                if may_match(match, group, resource):
                    candidates.append(Candidate(rule, "", match.kinds, self._conditions(match.attributes)))
        for rule in self.rules:
            for ignore in rule.profile.ignores:
                if may_match(ignore.match, group, resource):
                    conditions = self._conditions(ignore.match.attributes)
                    candidates.append(Candidate(None, ignore.reason, ignore.match.kinds, conditions))
        known = Known(
            tuple(candidates),
            self.strings.identity(self.clock_of(resource)),
            hash(tuple(sorted(resource.attributes.items()))),
            hash(group.scope),
            tuple(self._resource_label(resource, label.attributes) for label in self.settings.labels.declared),
        )
        self.known[number] = known
        return known

    def clock_of(self, resource: Resource) -> str:
        """Name of the clock that a resource's stamps are read on (contract, section 5)."""
        attributes = resource.attributes
        name = next((attributes[key] for key in CLOCK_KEYS if attributes.get(key)), None)
        if name is None:
            service, instance = attributes.get("service.name", ""), attributes.get("service.instance.id", "")
            if service in self.same_clock:
                return self.same_clock[service]
            name = f"{service}/{instance}" if instance else service
        return self.same_clock.get(name, name)

    def _resource_label(self, resource: Resource, keys: tuple[str, ...]) -> int:
        text = next((resource.attributes[key] for key in keys if resource.attributes.get(key)), None)
        return MISSING if text is None else self.strings.number(text)

    # Profiles to slots.

    def _compile(self, number: int, profile: SourceProfile) -> Rule:
        def slots(keys: Iterable[str]) -> tuple[int, ...]:
            return tuple(map(self.wanted.key, keys))

        return Rule(
            number=number,
            profile=profile,
            role=ROLES.index(profile.role),
            source=FIRST_TOKEN_SOURCES.index(profile.first_token_from),
            stamps=tuple((record.STAMP_CELLS[stamp], tuple(map(self._way, ways))) for stamp, ways in ordered(profile)),
            input=slots(profile.tokens.get("input", ())),
            output=slots(profile.tokens.get("output", ())),
            cached=slots(profile.tokens.get("cached_input", ())),
            items=slots(profile.items),
            model=slots(profile.labels.get("model", ())),
            klass=slots(profile.labels.get("class", ())),
            request_id=slots(profile.request_id.attributes if profile.request_id else ()),
            stream=tuple(self._stream(stream) for stream in profile.stream),
            status=tuple(map(self._source, profile.status)),
            method=slots(profile.method),
            path=slots(profile.path),
            route=slots(profile.route),
            outcome=tuple(self._evidence(evidence) for evidence in profile.outcome),
            within=MISSING if profile.within is None else hash(profile.within),
        )

    def _way(self, stamp: Stamp) -> Way:
        cells = {"start": record.START, "end": record.END, "time": record.START, "observed": record.END}
        cells |= record.STAMP_CELLS
        return Way(
            base=cells[stamp.base],
            event=-1 if stamp.event is None else self.wanted.event(stamp.event),
            last=stamp.last,
            skip=stamp.skip,
            where=self._conditions(stamp.where),
            slot=-1 if stamp.attribute is None else self.wanted.key(stamp.attribute),
            absolute=stamp.absolute,
            sign=stamp.sign,
            unit_ns=stamp.unit_ns,
        )

    def _conditions(self, conditions: Iterable[Condition]) -> tuple[tuple[int, re.Pattern[str] | None, bool], ...]:
        return tuple((self.wanted.key(each.attribute), each.pattern, each.present) for each in conditions)

    def _source(self, source: Source) -> Wish:
        return Wish(self.wanted.key(source.attribute), -1 if source.event is None else self.wanted.event(source.event))

    def _stream(self, stream: Stream) -> tuple[Wish, re.Pattern[str], int | None]:
        return self._source(stream.source), stream.pattern, stream.absent

    def _evidence(self, evidence: Evidence) -> tuple[Wish, re.Pattern[str], int]:
        return self._source(evidence.source), evidence.pattern, OUTCOMES.index(evidence.outcome)


def ordered(profile: SourceProfile) -> list[tuple[str, tuple[Stamp, ...]]]:
    """The stamps of a profile, each after those that it is counted from."""
    done: dict[str, tuple[Stamp, ...]] = {}
    waiting = dict(profile.stamps)
    while waiting:
        for name in STAMPS:
            if name in waiting and all(way.base not in waiting for way in waiting[name]):
                done[name] = waiting.pop(name)
    return list(done.items())


def may_match(match: Match, group: Group, resource: Resource) -> bool:
    """Whether scope, name and resource allow the match."""
    if match.scopes and not any(fnmatchcase(group.scope, scope) for scope in match.scopes):
        return False
    if match.names and not any(fnmatchcase(group.name, name) for name in match.names):
        return False
    for condition in match.resource:
        value = resource.attributes.get(condition.attribute)
        if (value is not None) != condition.present:
            return False
        if condition.pattern is not None and not condition.pattern.fullmatch(value or ""):
            return False
    return True


def unnumbered(identity: str, pattern: re.Pattern[str] | None) -> str:
    """A numbered id without its number: the group of the pattern. Any other id as it is."""
    match = pattern.fullmatch(identity) if pattern is not None else None
    return match[1] if match else identity


def as_double(bits: int) -> float:
    """The double whose bits these are."""
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])


def scaled(value: float, unit_ns: int) -> int | None:
    """A float times the unit, rounded to whole nanoseconds; None where there is no such number."""
    return round(value * unit_ns) if math.isfinite(value) and abs(value) < 2**62 else None


def parsed(text: str, unit_ns: int) -> int | None:
    """A decimal number as text, or a duration with its own unit such as `850.3ms`."""
    match = UNITS_TEXT.fullmatch(text)
    if match:
        text, unit_ns = match[1], {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 10**9}[match[2]]
    if WHOLE.fullmatch(text):  # exactly, as a time in nanoseconds has more digits than a float
        return int(text) * unit_ns
    if match := DECIMAL.fullmatch(text):
        digits = int(match[1] + match[2].ljust(DECIMALS, "0"))
        return (2 * digits * unit_ns + WHOLE_UNIT) // (2 * WHOLE_UNIT)
    try:
        return scaled(float(text), unit_ns)
    except ValueError:
        return None


def path_of(url: str) -> str:
    """Path of a URL or of a request target, without query."""
    path = url.split("?", 1)[0].split("#", 1)[0]
    scheme, mark, rest = path.partition("://")
    return "/" + rest.partition("/")[2] if mark and "/" not in scheme else path
