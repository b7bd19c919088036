"""From columns to stamps: which profile a span matches, and what it tells about a request.

Profiles are compiled once into `exporter.tables`, which speak of attribute slots. Which rules can apply is decided once
per distinct (resource, scope, name) and remembered; per span only the kind and attribute conditions are left. What the
text of an attribute means is asked once for each text and remembered, too (`exporter.memo`).

A value that cannot be (an interval below zero or longer than its span, a token count that is no number) loses the
value and is counted by reason; the span stays.

`recognise.pxd` beside this file gives the types with which it is compiled. Compiled, rows and tables are pointers: the
places in them come from the decoder and from `Tables`, never from a sender.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

import exporter.decode.columns as columns
import exporter.decode.words as words
import exporter.record as record
import exporter.tables as tables
from exporter import sampling
from exporter.config import Settings
from exporter.decode.columns import Batch, Group, Resource, Wanted
from exporter.memo import Memo
from exporter.profile import Match, SourceProfile
from exporter.texts import parsed, unnumbered

MISSING = record.MISSING
RANDOM = sampling.RANDOM
LONGEST_NS = 1 << 62
"""Beyond, a number is no interval and no time."""
LONGEST = float(LONGEST_NS)
TOO_MUCH = LONGEST_NS + 1
"""In place of any larger number."""
SAFE = LONGEST_NS // 10**9
"""A number up to this times any unit is exact in 64 bits."""

MAX_TEXT: Final = 256
"""Characters of a label value that are kept."""
MAX_STRINGS: Final = 20_000
"""Distinct label values that are kept for a while; the bound on the values of one label comes later."""
OTHER: Final = "other"

CLOCK_KEYS: Final = ("host.id", "host.name", "k8s.node.name")
REASONS: Final = ("not_a_number", "negative", "longer_than_span", "outside_span", "not_a_count", "sampling")
NOT_A_NUMBER, NEGATIVE, LONGER_THAN_SPAN, OUTSIDE_SPAN, NOT_A_COUNT, SAMPLING = range(6)
"""Why attribute values are refused."""
CHOICES_FROM, CHOICES_TO, CLOCK, RESOURCE, SCOPE, FACTS = range(6)
"""What is remembered of a group: its candidates, what its spans have in common, then the declared labels."""
UNKNOWN = -1


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
        """The number of a text that can be had back, or that of `other`. The same until the next turn."""
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
        """Forget the older half. Who remembers numbers of texts must ask for them anew."""
        self.old, self.young = self.young, {}

    def _remember(self, number: int, text: str) -> bool:
        if number in self.young:
            return True
        if len(self.young) >= self.limit:
            return number in self.old
        self.young[number] = text
        return True


class Rule(NamedTuple):
    """A profile by its number in the rows."""

    number: int
    profile: SourceProfile


def wanted_by(profiles: Iterable[SourceProfile], settings: Settings) -> Wanted:
    """All that any of the profiles, or a label, reads."""
    labels = (key for label in settings.labels.declared for key in label.attributes)
    keys = {*tables.MODEL_KEYS, *tables.CLASS_KEYS, *labels}
    events: set[str] = set()
    for profile in profiles:
        keys.update(profile.attributes())
        events.update(profile.events())
    return Wanted(keys, events)


class Recogniser:
    """Turns batches into rows of `exporter.record`."""

    def __init__(self, profiles: Sequence[SourceProfile], settings: Settings, wanted: Wanted, strings: Strings) -> None:
        self.strings = strings
        self.settings = settings
        self.width = record.LABELS + len(settings.labels.declared)
        self.rules = [Rule(number, profile) for number, profile in enumerate(profiles)]
        self.same_clock = {name: group[0] for group in settings.align.same_clock for name in group}
        self.dropped: Counter[str] = Counter()
        """Attribute values refused, by reason."""
        self.ignored: Counter[str] = Counter()
        """Spans that are no request, by reason."""
        self.last_seen = array("q", [MISSING]) * len(profiles)
        """Per profile, the newest end of a span that it matched."""
        self._set_up(tables.Tables(profiles, settings, wanted, strings.number))
        self.at_rows = memoryview(array("q", [-1]) * max(1, len(wanted.keys)))
        self.at = words.cells(self.at_rows)
        self.last_rows = memoryview(array("q", [MISSING]) * max(1, len(profiles)))
        self.last = words.cells(self.last_rows)
        self.row_rows = memoryview(array("q", bytes(8 * self.width)))
        self.rows = words.cells(self.row_rows)
        self.head_rows = self.attribute_rows = self.event_rows = self.link_rows = memoryview(array("q", [0]))
        self.blank_rows = memoryview(array("q", [MISSING]) * self.width)
        self.blank = words.cells(self.blank_rows)
        self.generation = 0
        self.fact_width = FACTS + len(settings.labels.declared)
        self.forget_groups()

    def _set_up(self, made: tables.Tables) -> None:
        """Tables, and what is counted by them."""
        self.tables = made
        self.memo = Memo(made.answers)
        self.code_rows = memoryview(made.code)
        self.code = words.cells(self.code_rows)
        self.places_rows = memoryview(array("q", [*made.rules, made.nothing]))
        self.places = words.cells(self.places_rows)
        self.nothing = made.nothing
        self.fronts = made.texts
        self.front_texts = self.fronts
        self.post_raw = b"POST"
        self.post_text = self.post_raw
        self.status, self.label, self.post = made.status, made.label, made.post
        self.threshold, self.weight, self.sampled = made.threshold, made.weight, made.sampled
        self.honours_sampling = self.settings.sampling == "honour"
        self.nearest_rows = memoryview(array("q", bytes(8 * (made.longest_skip + 1))))
        self.nearest = words.cells(self.nearest_rows)
        self.dropped_rows = memoryview(array("q", bytes(8 * len(REASONS))))
        self.dropped_now = words.cells(self.dropped_rows)
        self.ignored_rows = memoryview(array("q", bytes(8 * len(made.reasons))))
        self.ignored_now = words.cells(self.ignored_rows)
        labels = [cell for pair in made.labels for cell in pair]
        self.label_rows = memoryview(array("q", [*labels, 0]))
        self.label_lists = words.cells(self.label_rows)

    def forget(self) -> None:
        """Learn the groups and texts anew, so that what they name is remembered anew."""
        self.forget_groups()
        self.memo.forget()

    def forget_groups(self) -> None:
        """Learn the groups anew."""
        self.choices = array("q", [0])
        self.choice_rows = memoryview(self.choices)
        self.candidates = words.cells(self.choice_rows)
        self.runs: dict[tuple[int, ...], int] = {}
        self.fact_rows = memoryview(array("q", [UNKNOWN]) * (64 * self.fact_width))
        self.facts = words.cells(self.fact_rows)
        self.group_room = 64

    def recognise(self, batch: Batch, generation: int, seen_ns: int | None) -> "memoryview[int]":
        """One row per span, `width` cells each, valid until the next call. `seen_ns` None sets SEEN to the span's end.

        `generation`: of the decoder; where it is another one than before, groups have other numbers.
        """
        if generation != self.generation:
            self.forget_groups()
            self.generation = generation
        self._look_at(batch)
        self.by_end = seen_ns is None
        self.seen_ns = 0 if seen_ns is None else seen_ns
        spans: int = batch.spans
        if spans * self.width > len(self.row_rows):
            self.row_rows = memoryview(array("q", bytes(16 * spans * self.width)))
            self.rows = words.cells(self.row_rows)
        for slot in range(len(self.at_rows)):  # which an error in the middle of a span would leave behind
            self.at[slot] = -1
        for index in range(spans):
            self._span(index * self.width, index * columns.HEAD)
        self._sum_up()
        return self.row_rows[: spans * self.width]

    def _look_at(self, batch: Batch) -> None:
        self.batch = batch
        self.body = batch.body
        self.data = self.body
        if batch.heads is not self.head_rows:
            self.head_rows = batch.heads
            self.heads = words.cells(self.head_rows)
        if batch.attributes is not self.attribute_rows:
            self.attribute_rows = batch.attributes
            self.attributes = words.cells(self.attribute_rows)
        if batch.events is not self.event_rows:
            self.event_rows = batch.events
            self.events = words.cells(self.event_rows)
        if batch.links is not self.link_rows:
            self.link_rows = batch.links
            self.links = words.cells(self.link_rows)

    def _sum_up(self) -> None:
        """What was counted since the last time."""
        for place, reason in enumerate(REASONS):
            if self.dropped_now[place]:
                self.dropped[reason] += self.dropped_now[place]
                self.dropped_now[place] = 0
        for place in range(len(self.ignored_rows)):
            if self.ignored_now[place]:
                self.ignored[self.tables.reasons[place]] += self.ignored_now[place]
                self.ignored_now[place] = 0
        for place in range(len(self.last_seen)):
            if self.last[place] != self.last_seen[place]:
                self.last_seen[place] = self.last[place]

    # One span.

    def _span(self, row: int, head: int) -> int:
        rows, heads, attributes, at, code = self.rows, self.heads, self.attributes, self.at, self.code
        words.put(rows, row, self.blank, 0, self.width)
        words.put(rows, row, heads, head, record.SEEN)
        rows[row + record.SEEN] = heads[head + columns.END] if self.by_end else self.seen_ns
        rows[row + record.FAILED] = 1 if heads[head + columns.STATUS] == 2 else 0
        if heads[head + columns.LINKS_TO] > heads[head + columns.LINKS_FROM]:
            rows[row + record.LINK] = self.links[heads[head + columns.LINKS_FROM] * columns.LINK + 2]
        group = heads[head + columns.GROUP]
        known = group * self.fact_width
        if group >= self.group_room or self.facts[known] == UNKNOWN:
            self._learn(group)
        rows[row + record.CLOCK] = self.facts[known + CLOCK]
        rows[row + record.RESOURCE] = self.facts[known + RESOURCE]
        rows[row + record.SCOPE] = self.facts[known + SCOPE]
        start = heads[head + columns.ATTRIBUTES_FROM] * columns.ATTRIBUTE
        stop = heads[head + columns.ATTRIBUTES_TO] * columns.ATTRIBUTE
        place = start
        while place < stop:
            at[attributes[place]] = place  # the last of a key wins
            place += columns.ATTRIBUTE
        rule = self.nothing
        candidate = self._choose(known, heads[head + columns.KIND])
        if candidate < 0:
            rows[row + record.PROFILE] = record.UNRECOGNISED
        elif code[candidate] < 0:
            rows[row + record.PROFILE] = record.IGNORED
            self.ignored_now[code[candidate + 1]] += 1
        else:
            rule = self.places[code[candidate]]
            rows[row + record.PROFILE] = code[candidate]
            self._fill(row, head, rule)
            if rows[row + record.PROFILE] < 0:
                rule = self.nothing
        self._labels(row, rule, known)
        if heads[head + columns.STATE_LENGTH]:
            rows[row + record.WEIGHT] = self._weight(head)
        place = start
        while place < stop:
            at[attributes[place]] = -1
            place += columns.ATTRIBUTE
        return 0

    def _choose(self, known: int, kind: int) -> int:
        """The first candidate that the span fits, or -1."""
        code = self.code
        for choice in range(self.facts[known + CHOICES_FROM], self.facts[known + CHOICES_TO]):
            candidate = self.candidates[choice]
            kinds = code[candidate + 2]
            if kinds != 0 and not (0 <= kind < 6 and (kinds >> kind) & 1):
                continue
            if self._hold(code[candidate + 3], code[candidate + 4]):
                return candidate
        return -1

    def _hold(self, start: int, stop: int) -> bool:
        """Whether the span fulfils all conditions."""
        code = self.code
        condition = start
        while condition < stop:
            place = self.at[code[condition]]
            if (place >= 0) != (code[condition + 1] != 0):
                return False
            if code[condition + 2] >= 0 and place >= 0 and self._ask(code[condition + 2], place) == 0:
                return False
            condition += tables.CONDITION
        return True

    # One recognised span.

    def _fill(self, row: int, head: int, rule: int) -> int:
        rows, code = self.rows, self.code
        number = rows[row + record.PROFILE]
        if rows[row + record.END] > self.last[number]:
            self.last[number] = rows[row + record.END]
        if code[rule + tables.ABSENT] >= 0:
            self._leave_out(head, code[rule + tables.ABSENT])
        plain, stop = code[rule + tables.PLAIN_AT], code[rule + tables.PLAIN_AT + 1]
        while plain < stop:
            rows[row + code[plain]] = rows[row + code[plain + 1]]
            plain += tables.PLAIN
        stamp, stop = code[rule + tables.STAMPS_AT], code[rule + tables.STAMPS_AT + 1]
        while stamp < stop:
            self._stamp(row, head, rule, code[stamp], code[stamp + 1], code[stamp + 2])
            stamp += tables.STAMP
        count, stop = code[rule + tables.COUNTS_AT], code[rule + tables.COUNTS_AT + 1]
        while count < stop:
            rows[row + code[count]] = self._count(code[count + 1], code[count + 2])
            count += tables.COUNT
        rows[row + record.ROLE] = code[rule + tables.ROLE]
        rows[row + record.SOURCE] = code[rule + tables.SOURCE]
        rows[row + record.WITHIN] = code[rule + tables.WITHIN]
        self._request_id(row, rule)
        self._stream(row, head, rule)
        self._status(row, head, rule)
        wish, stop = code[rule + tables.OUTCOME_AT], code[rule + tables.OUTCOME_AT + 1]
        while wish < stop:
            place = self._wish(head, wish)
            if place >= 0:
                outcome = self._ask(code[wish + 2], place)
                if outcome >= 0:
                    rows[row + record.EVIDENCE] = outcome
                    break
            wish += tables.WISH
        self._route(row, rule)
        if code[rule + tables.OF_LOGS]:
            self._fill_record(row, head, rule)
        return 0

    def _fill_record(self, row: int, head: int, rule: int) -> int:
        """What only a log record tells."""
        rows, code = self.rows, self.code
        number = rows[row + record.PROFILE]
        kind, stop = code[rule + tables.RECORDS_AT], code[rule + tables.RECORDS_AT + 1]
        while kind < stop:
            if self._hold(code[kind + 1], code[kind + 2]):
                rows[row + record.RECORD] = code[kind]
                break
            kind += tables.KIND
        self._stamp(row, head, rule, record.EMITTED, code[rule + tables.EMITTED_AT], code[rule + tables.EMITTED_AT + 1])
        if rows[row + record.EMITTED] > self.last[number]:
            self.last[number] = rows[row + record.EMITTED]
        silent = rows[row + record.STREAM] == 1 and rows[row + record.FIRST_TOKEN] == MISSING
        if silent and rows[row + record.RECORD] == record.ENDING and code[rule + tables.TELLS_FIRST]:
            rows[row + record.SILENT] = 1
        if rows[row + record.RECORD] == MISSING:
            rows[row + record.PROFILE] = record.IGNORED
            self.ignored_now[0] += 1
        return 0

    def _leave_out(self, head: int, question: int) -> int:
        """Attributes whose text stands for no value."""
        start = self.heads[head + columns.ATTRIBUTES_FROM] * columns.ATTRIBUTE
        stop = self.heads[head + columns.ATTRIBUTES_TO] * columns.ATTRIBUTE
        place = start
        while place < stop:
            slot = self.attributes[place]
            if self.at[slot] == place and self._ask(question, place) == 1:
                self.at[slot] = -1
            place += columns.ATTRIBUTE
        return 0

    def _stamp(self, row: int, head: int, rule: int, cell: int, start: int, stop: int) -> int:
        """The first way that finds an instant."""
        rows = self.rows
        of_logs = self.code[rule + tables.OF_LOGS] != 0
        way = start
        while way < stop:
            time = self._time(row, head, way, of_logs)
            if of_logs:
                inside = 0 < time < LONGEST_NS
            else:
                inside = rows[row + record.START] - tables.SLACK_NS <= time <= rows[row + record.END] + tables.SLACK_NS
            if inside:
                rows[row + cell] = time
                return 0
            if time != MISSING:
                self.dropped_now[OUTSIDE_SPAN] += 1
            way += tables.WAY
        return 0

    def _time(self, row: int, head: int, way: int, of_logs: bool) -> int:
        """The instant that one way finds, or MISSING. Times and intervals are below 2^62, so that sums have room."""
        rows, code = self.rows, self.code
        slot, unit_ns = code[way + tables.SLOT], code[way + tables.UNIT]
        if code[way + tables.EVENT] >= 0:
            return self._event_time(head, way)
        if not self._hold(code[way + tables.WHERE_AT], code[way + tables.WHERE_AT + 1]):
            return MISSING
        if code[way + tables.ABSOLUTE]:
            return self._interval(slot, unit_ns, LONGEST_NS)
        base = rows[row + code[way + tables.BASE]]
        if slot < 0 or base == MISSING:
            return base
        length = LONGEST_NS  # no interval of a span is longer than this
        if not of_logs:
            length = min(LONGEST_NS, rows[row + record.END] - rows[row + record.START] + tables.SLACK_NS)
        interval = self._interval(slot, unit_ns, length)
        return MISSING if interval == MISSING else base + code[way + tables.SIGN] * interval

    def _event_time(self, head: int, way: int) -> int:
        """Time of the first or last such event. Where the sender dropped events, the first is not the first."""
        heads, events, code, nearest = self.heads, self.events, self.code, self.nearest
        event, last, skip = code[way + tables.EVENT], code[way + tables.LAST] != 0, code[way + tables.SKIP]
        where, until = code[way + tables.WHERE_AT], code[way + tables.WHERE_AT + 1]
        if heads[head + columns.DROPPED_EVENTS] and not last:
            return MISSING
        found = 0
        for index in range(heads[head + columns.EVENTS_FROM], heads[head + columns.EVENTS_TO]):
            place = index * columns.EVENT
            if events[place] != event or (until > where and not self._event_holds(place, where, until)):
                continue
            time = events[place + 1]
            slot = found  # into order among the first (or last) few
            while slot > 0 and (nearest[slot - 1] < time if last else nearest[slot - 1] > time):
                if slot <= skip:
                    nearest[slot] = nearest[slot - 1]
                slot -= 1
            if slot <= skip:
                nearest[slot] = time
                found = min(found + 1, skip + 1)
        return nearest[skip] if found > skip else MISSING

    def _event_holds(self, event: int, start: int, stop: int) -> bool:
        code = self.code
        condition = start
        while condition < stop:
            place = self._event_attribute(event, code[condition])
            if (place >= 0) != (code[condition + 1] != 0):
                return False
            if code[condition + 2] >= 0 and place >= 0 and self._ask(code[condition + 2], place) == 0:
                return False
            condition += tables.CONDITION
        return True

    def _event_attribute(self, event: int, slot: int) -> int:
        for index in range(self.events[event + 2], self.events[event + 3]):
            if self.attributes[index * columns.ATTRIBUTE] == slot:
                return index * columns.ATTRIBUTE
        return -1

    def _wish(self, head: int, wish: int) -> int:
        """Where the value stands, or -1."""
        slot, event = self.code[wish], self.code[wish + 1]
        if event < 0:
            return self.at[slot]
        for index in range(self.heads[head + columns.EVENTS_FROM], self.heads[head + columns.EVENTS_TO]):
            if self.events[index * columns.EVENT] == event:
                place = self._event_attribute(index * columns.EVENT, slot)
                if place >= 0:
                    return place
        return -1

    def _stream(self, row: int, head: int, rule: int) -> int:
        code = self.code
        wish, stop = code[rule + tables.STREAM_AT], code[rule + tables.STREAM_AT + 1]
        while wish < stop:
            place = self._wish(head, wish)
            if place >= 0:
                self.rows[row + record.STREAM] = self._ask(code[wish + 2], place)
                return 0
            if code[wish + 3] != MISSING:
                self.rows[row + record.STREAM] = code[wish + 3]
            wish += tables.WISH
        return 0

    def _status(self, row: int, head: int, rule: int) -> int:
        code = self.code
        wish, stop = code[rule + tables.STATUS_AT], code[rule + tables.STATUS_AT + 1]
        while wish < stop:
            place = self._wish(head, wish)
            status = self._status_at(place) if place >= 0 else -1
            if status >= 0:
                self.rows[row + record.STATUS] = status
                return 0
            wish += tables.WISH
        return 0

    def _status_at(self, place: int) -> int:
        kind, status, size = self.attributes[place + 1], self.attributes[place + 2], self.attributes[place + 3]
        if kind == columns.INTEGER and 0 <= status < 10_000:
            return status
        if kind == columns.STRING and size == 3 and self._are_digits(status, size):
            data = self.data
            return 100 * data[status] + 10 * data[status + 1] + data[status + 2] - 111 * 48
        return self._ask(self.status, place)

    def _are_digits(self, at: int, size: int) -> bool:
        for place in range(at, at + size):
            if not words.is_digit(self.data[place]):
                return False
        return True

    # Numbers.

    def _interval(self, slot: int, unit_ns: int, length: int) -> int:
        """Nanoseconds of an attribute; MISSING where it is absent or cannot be."""
        place = self.at[slot]
        if place < 0:
            return MISSING
        value = self._number(place, unit_ns)
        if value == MISSING:
            self.dropped_now[NOT_A_NUMBER] += 1
        elif value < 0:
            self.dropped_now[NEGATIVE] += 1
        elif value > length:
            self.dropped_now[LONGER_THAN_SPAN] += 1
        else:
            return value
        return MISSING

    def _count(self, start: int, stop: int) -> int:
        """The first of some attributes that is a count."""
        for cell in range(start, stop):
            place = self.at[self.code[cell]]
            if place < 0:
                continue
            value = self._number(place, 1)
            if 0 <= value <= tables.MAX_COUNT:
                return value
            self.dropped_now[NOT_A_COUNT] += 1
        return MISSING

    def _number(self, place: int, unit_ns: int) -> int:
        """A number times the unit, in whole nanoseconds; MISSING where it is none. Beyond 2^62 only the sign counts."""
        kind = self.attributes[place + 1]
        if kind == columns.INTEGER:
            return self._times(self.attributes[place + 2], unit_ns)
        if kind == columns.DOUBLE:
            value = words.double_of(self.attributes[place + 2])
            if not -LONGEST < value < LONGEST:
                return MISSING
            value *= unit_ns
            if -LONGEST <= value <= LONGEST:
                return words.nearest(value)
            return TOO_MUCH if value > 0 else -1
        return self._decimal(place, unit_ns) if kind == columns.STRING else MISSING

    def _times(self, value: int, unit_ns: int) -> int:
        if -SAFE <= value <= SAFE:
            return value * unit_ns
        if value > LONGEST_NS // unit_ns:
            return TOO_MUCH
        return -1 if value < 0 else value * unit_ns

    def _decimal(self, place: int, unit_ns: int) -> int:
        """The number that a text says: digits, and a few behind a point, are read here, all else by `parsed`."""
        data = self.data
        at = self.attributes[place + 2]
        stop = at + self.attributes[place + 3]
        whole = part = 0
        scale = 1
        start = at
        while at < stop and words.is_digit(data[at]) and at - start < 18:
            whole = 10 * whole + data[at] - 48
            at += 1
        if at == stop and at > start:
            return self._times(whole, unit_ns)
        if at < stop and data[at] == 46 and start < at < stop - 1 and stop - at <= 10 and whole < SAFE:
            at += 1
            while at < stop and words.is_digit(data[at]):
                part = 10 * part + data[at] - 48
                scale *= 10
                at += 1
            if at == stop:
                return whole * unit_ns + (2 * part * unit_ns + scale) // (2 * scale)
        return within_limits(parsed(self._text(place), unit_ns))

    # Ids.

    def _request_id(self, row: int, rule: int) -> int:
        code = self.code
        place = self._first(code[rule + tables.ID_AT], code[rule + tables.ID_AT + 1])
        if place < 0:
            return 0
        if self.attributes[place + 1] == columns.STRING:
            start = self.attributes[place + 2]
            self._read_id(row, rule, self.data, start, start + self.attributes[place + 3])
        else:
            raw = self._text(place).encode()
            self._read_id(row, rule, raw, 0, len(raw))
        return 0

    def _read_id(self, row: int, rule: int, data: bytes, start: int, stop: int) -> int:
        """The id that stands there, without what numbers it and what stands before it."""
        code = self.code
        if code[rule + tables.CHOICE] and self._may_be_choice(rule, data, start, stop):
            self._ask_id(row, rule, data[start:stop])
            return 0
        end = stop
        if code[rule + tables.NUMBERED] == tables.BACK_NUMBERED:
            end = self._unnumbered(rule, data, start, stop)
        elif code[rule + tables.NUMBERED]:
            self._ask_id(row, rule, data[start:stop])
            return 0
        first = start
        front, last = code[rule + tables.FRONTS_AT], code[rule + tables.FRONTS_AT + 1]
        while front < last:
            size = code[front + 1]
            if size <= end - start and words.same(self.front_texts, code[front], data, start, size):
                first = start + size
                break
            front += tables.FRONT
        if first < end:
            number = words.hashed(data, start, stop - start)
            self.rows[row + record.SEQUENCE_ID] = number
            whole = first == start and end == stop
            self.rows[row + record.REQUEST_ID] = number if whole else words.hashed(data, first, end - first)
        return 0

    def _may_be_choice(self, rule: int, data: bytes, start: int, stop: int) -> bool:
        """Whether the pattern of numbered choices must be asked: it wants a number and a mark at the front."""
        if self.code[rule + tables.CHOICE] != tables.FRONT_NUMBERED:
            return True
        at = start
        while at < stop and words.is_digit(data[at]):
            at += 1
        size = at - start
        if not 0 < size <= self.code[rule + tables.CHOICE_SIZE]:
            return False
        return at < stop and data[at] == self.code[rule + tables.CHOICE_MARK]

    def _unnumbered(self, rule: int, data: bytes, start: int, stop: int) -> int:
        """Where an id ends without the number at its back: `(.+)-[0-9]{1,n}`, unless it begins like some others."""
        code = self.code
        at = stop
        while at > start and words.is_digit(data[at - 1]):
            at -= 1
        if not 0 < stop - at <= code[rule + tables.NUMBERED_SIZE] or at - start < 2 or data[at - 1] != 45:
            return stop
        for place in range(start, at - 1):
            if data[place] == 10:  # a line feed, which a point does not match
                return stop
        front, last = code[rule + tables.NOT_NUMBERED_AT], code[rule + tables.NOT_NUMBERED_AT + 1]
        while front < last:
            size = code[front + 1]
            if size <= stop - start and words.same(self.front_texts, code[front], data, start, size):
                return stop
            front += tables.FRONT
        return at - 1

    def _ask_id(self, row: int, rule: int, raw: bytes) -> int:
        """The same by the profile's own patterns."""
        shape = self.rules[self.rows[row + record.PROFILE]].profile.request_id
        assert shape is not None
        sequence = unnumbered(raw.decode("utf-8", "replace"), shape.choice)
        text = unnumbered(sequence, shape.sequence)
        for front in shape.strip:
            if text.startswith(front):
                text = text[len(front) :]
                break
        if text:
            whole, own = sequence.encode(), text.encode()
            self.rows[row + record.SEQUENCE_ID] = words.hashed(whole, 0, len(whole))
            self.rows[row + record.REQUEST_ID] = words.hashed(own, 0, len(own))
        return 0

    # Texts.

    def _route(self, row: int, rule: int) -> int:
        rows, code = self.rows, self.code
        place = self._first(code[rule + tables.PATH_AT], code[rule + tables.PATH_AT + 1])
        if place >= 0:
            rows[row + record.ROUTE] = self._ask(code[rule + tables.PATH_QUESTION], place)
            rows[row + record.CALL] = self.memo.second
            method = self._first(code[rule + tables.METHOD_AT], code[rule + tables.METHOD_AT + 1])
            if method >= 0 and not self._is_post(method):
                rows[row + record.CALL] = 0
            return 0
        place = self._first(code[rule + tables.ROUTE_AT], code[rule + tables.ROUTE_AT + 1])
        if place >= 0:
            rows[row + record.ROUTE] = self._ask(code[rule + tables.ROUTE_QUESTION], place)
        return 0

    def _is_post(self, place: int) -> bool:
        """Whether the method is POST, in letters of any case."""
        at = self.attributes[place + 2]
        short = self.attributes[place + 1] == columns.STRING and self.attributes[place + 3] == 4
        return (short and words.same(self.data, at, self.post_text, 0, 4)) or self._ask(self.post, place) != 0

    def _labels(self, row: int, rule: int, known: int) -> int:
        rows, code = self.rows, self.code
        rows[row + record.MODEL] = self._label(code[rule + tables.MODEL_AT], code[rule + tables.MODEL_AT + 1])
        rows[row + record.CLASS] = self._label(code[rule + tables.CLASS_AT], code[rule + tables.CLASS_AT + 1])
        for index in range(self.width - record.LABELS):
            number = self._label(self.label_lists[2 * index], self.label_lists[2 * index + 1])
            rows[row + record.LABELS + index] = self.facts[known + FACTS + index] if number == MISSING else number
        return 0

    def _label(self, start: int, stop: int) -> int:
        """The number of the text of the first attribute that is there; MISSING where it is empty."""
        place = self._first(start, stop)
        return MISSING if place < 0 else self._ask(self.label, place)

    def _weight(self, head: int) -> int:
        heads = self.heads
        at, size = heads[head + columns.STATE_AT], heads[head + columns.STATE_LENGTH]
        if self._says_random(at, size):
            weight = sampling.weight_of(self.body[at : at + size], heads[head + columns.TRACE_LO])
        else:
            threshold = self.memo.ask(self.threshold, self.data, at, size)
            weight = MISSING
            if 0 <= threshold <= (heads[head + columns.TRACE_LO] & RANDOM):
                weight = self.memo.ask(self.weight, self.data, at, size)
        if weight == MISSING and self.honours_sampling and self.memo.ask(self.sampled, self.data, at, size):
            self.dropped_now[SAMPLING] += 1
        return weight

    def _says_random(self, at: int, size: int) -> bool:
        """Whether the trace state holds `rv:`, so that it differs from trace to trace."""
        for place in range(at, at + size - 2):
            if self.data[place] == 0x72 and self.data[place + 1] == 0x76 and self.data[place + 2] == 0x3A:
                return True
        return False

    def _first(self, start: int, stop: int) -> int:
        """Where the first of some attributes stands that is there, or -1."""
        for cell in range(start, stop):
            place = self.at[self.code[cell]]
            if place >= 0:
                return place
        return -1

    def _ask(self, question: int, place: int) -> int:
        """What the text of an attribute means."""
        attributes = self.attributes
        if attributes[place + 1] == columns.STRING:
            return self.memo.ask(question, self.data, attributes[place + 2], attributes[place + 3])
        return self.memo.answer(question, self._text(place))

    def _text(self, place: int) -> str:
        attributes = self.attributes
        kind, value = attributes[place + 1], attributes[place + 2]
        if kind == columns.STRING:
            return self.body[value : value + attributes[place + 3]].decode("utf-8", "replace")
        if kind == columns.BOOLEAN:
            return "true" if value else "false"
        if kind == columns.INTEGER:
            return str(value)
        return repr(words.double_of(value)) if kind == columns.DOUBLE else ""

    # What is known of a group.

    def _learn(self, number: int) -> None:
        while number >= self.group_room:
            grown = array("q", self.fact_rows)
            grown.extend([UNKNOWN] * len(grown))
            self.fact_rows = memoryview(grown)
            self.facts = words.cells(self.fact_rows)
            self.group_room *= 2
        group: Group = self.batch.groups[number]
        resource: Resource = self.batch.resources[group.resource]
        matched = self.tables.matches
        run = tuple(candidate for match, candidate in matched if may_match(match, group, resource))
        if run not in self.runs:
            self.runs[run] = len(self.choices)
            self.choices = array("q", [*self.choices, *run])
            self.choice_rows = memoryview(self.choices)
            self.candidates = words.cells(self.choice_rows)
        facts = [
            self.runs[run],
            self.runs[run] + len(run),
            self.strings.identity(self.clock_of(resource)),
            hash(tuple(sorted(resource.attributes.items()))),
            hash(group.scope),
            *(self._resource_label(resource, label.attributes) for label in self.settings.labels.declared),
        ]
        for place, fact in enumerate(facts):
            self.fact_rows[number * self.fact_width + place] = fact

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


def within_limits(value: int | None) -> int:
    """A number of any size as one of 64 bits, by the rules of `Recogniser._number`."""
    if value is None:
        return MISSING
    return max(-1, min(value, TOO_MUCH))


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
