"""OTLP protobuf to columns, without building a message.

The reader walks the wire format of ExportTraceServiceRequest or ExportLogsServiceRequest (opentelemetry-proto 1.x)
once; the two differ in nothing but the innermost message. It follows protobuf's
own rules, so that both agree on every valid body: fields in any order, the last of a scalar wins, repeated parts of a
message merge, a known field of another wire type is an unknown field, unknown fields (groups too) are skipped.

Two kinds of fault are told apart. A body whose structure is broken raises `BadBody`. A span that is well formed and
says something impossible (an id of the wrong length, an end before its start) is left out and named in
`Batch.refused`; the others stay.

`protobuf.pxd` beside this file gives the types with which it is compiled; uncompiled it does the same, slower.
"""

from array import array

from exporter.decode import columns
from exporter.decode.columns import BODY, BadBody, Batch, Group, Refused, Resource, Wanted

SIGN = 1 << 63
MASK = (1 << 64) - 1
HEAD = columns.HEAD
UNSET = -(1 << 63)
"""In place of a time that a log record does not give."""
LATEST = 1 << 62
"""Times from here on (the year 2116) are refused, so that stamps and intervals can be added without overflow."""
GROUPS = 10_000
"""Distinct (resource, scope, name) remembered; beyond, all are forgotten and learnt anew."""
REMEMBERED = 1 << 25
"""Bytes of names, scopes and resources that are remembered, likewise."""
MOST = 2 * GROUPS
"""Names, scopes and resources that one body may bring; what comes beyond counts as nameless."""
ENTRY = 256
"""What remembering costs beside the text, about."""
DEPTH = 100
"""Nested groups in unknown fields, as in protobuf's own parser."""
NO_LIST, EMPTY_LIST, LIST = 0, 1, 2
"""What an AnyValue was last set to."""


class Decoder:
    """Turns bodies into batches. One instance is used for all bodies, since it remembers what it has seen."""

    def __init__(self, wanted: Wanted) -> None:
        self.event_names = wanted.events
        self.learn_keys(wanted.keys)
        self.body_slot = wanted.keys.get(BODY.encode(), -1)
        self.logs = False
        self.body = b""
        self.data = memoryview(b"")
        self.at = 0
        self.spans = 0
        self.seen = 0
        self.attribute_count = 0
        self.event_count = 0
        self.link_count = 0
        self.head_rows = memoryview(array("q", bytes(8 * HEAD * 64)))
        self.heads = self.head_rows
        self.attribute_rows = memoryview(array("q", bytes(8 * 4 * 512)))
        self.attributes = self.attribute_rows
        self.event_rows = memoryview(array("q", bytes(8 * 4 * 64)))
        self.events = self.event_rows
        self.link_rows = memoryview(array("q", bytes(8 * 3 * 16)))
        self.links = self.link_rows
        self.generation = 0
        self.forget()

    def learn_keys(self, keys: dict[bytes, int]) -> None:
        """An open table of the wanted keys, so that a key is looked up where it stands in the body."""
        size = 64
        while size < 4 * len(keys):
            size *= 2
        self.table_mask = size - 1
        table = array("q", [-1]) * size
        places = array("q", [0]) * (2 * len(keys) + 2)
        spelling = b""
        for key, slot in keys.items():
            places[2 * slot] = len(spelling)
            places[2 * slot + 1] = len(key)
            spelling += key
            probe = self.first_probe(len(key), key[len(key) - 1], key[len(key) >> 1])
            while table[probe] >= 0:
                probe = (probe + 1) & self.table_mask
            table[probe] = slot
        self.table = memoryview(table)
        self.key_places = memoryview(places)
        self.spelling = memoryview(spelling)

    def forget(self) -> None:
        """Drop the remembered groups; group numbers start again and `generation` goes up."""
        self.generation += 1
        self.groups: list[Group] = []
        self.resources: list[Resource] = []
        self.resource_ids: dict[bytes, int] = {}
        self.scopes: dict[tuple[int, bytes], dict[bytes, int]] = {}
        self.names: dict[bytes, int] = {}
        self.resource = 0
        self.scope = b""
        self.refused: list[Refused] = []
        self.remembered = 0

    def decode(self, body: bytes, logs: bool = False) -> Batch:
        """Columns of one body. Raises BadBody if it is not an ExportTraceServiceRequest, or with `logs` one of logs.

        Of a log record the row has the time in START and the observed time in END, UNSET where they are not given.
        """
        self.logs = logs
        if len(self.groups) > GROUPS or self.remembered > REMEMBERED:
            self.forget()
        self.body = body
        self.data = memoryview(body)
        self.spans = self.seen = self.attribute_count = self.event_count = self.link_count = 0
        self.refused = []
        self.request(len(body))
        return Batch(
            body, self.spans, self.head_rows, self.attribute_rows, self.event_rows, self.link_rows,
            self.groups, self.resources, self.refused,
        )  # fmt: skip

    # The messages, outermost first. Each reads from its start to `end`.

    def request(self, end: int) -> None:
        self.at = 0
        while self.at < end:
            tag = self.tag(end)
            if tag == 0x0A:  # resource_spans = 1
                stop = self.length(end)
                self.resource_spans(self.at, stop)
                self.at = stop
            else:
                self.skip(tag, end)

    def resource_spans(self, start: int, end: int) -> None:
        parts = []
        self.at = start
        while self.at < end:
            tag = self.tag(end)
            if tag == 0x0A:  # resource = 1; may stand behind the spans
                stop = self.length(end)
                parts.append(self.body[self.at : stop])
                self.at = stop
            else:
                self.skip(tag, end)
        self.resource = self.resource_of(b"".join(parts))
        self.at = start
        while self.at < end:
            tag = self.tag(end)
            if tag == 0x12:  # scope_spans = 2
                stop = self.length(end)
                self.scope_spans(self.at, stop)
                self.at = stop
            else:
                self.skip(tag, end)

    def scope_spans(self, start: int, end: int) -> None:
        self.scope = b""
        self.at = start
        while self.at < end:
            tag = self.tag(end)
            if tag == 0x0A:  # scope = 1
                stop = self.length(end)
                self.read_scope(stop)
            else:
                self.skip(tag, end)
        self.names = self.names_in(self.scope)
        self.at = start
        while self.at < end:
            tag = self.tag(end)
            if tag == 0x12:  # spans = 2, log_records = 2
                stop = self.length(end)
                if self.logs:
                    self.log_record(self.at, stop)
                else:
                    self.span(self.at, stop)
                self.at = stop
            else:
                self.skip(tag, end)

    def names_in(self, scope: bytes) -> dict[bytes, int]:
        """The groups of the present resource and this scope, by the name of their spans."""
        key = (self.resource, scope)
        if len(self.scopes) >= MOST and key not in self.scopes:
            self.scope = scope = b""
            key = (self.resource, scope)
        names = self.scopes.get(key)
        if names is None:
            names = self.scopes[key] = {}
            self.remembered += ENTRY + len(scope)
        return names

    def read_scope(self, end: int) -> None:
        while self.at < end:
            tag = self.tag(end)
            if tag == 0x0A:  # name = 1
                stop = self.length(end)
                self.scope = self.body[self.at : stop]
                self.at = stop
            else:
                self.skip(tag, end)

    def span(self, start: int, end: int) -> None:
        """One span: a row of `heads`, or an entry of `refused`."""
        if (self.spans + 1) * HEAD > len(self.heads):
            self.grow_heads()
        row = self.spans * HEAD
        attributes_from = self.attribute_count
        trace_at = span_at = parent_at = state_at = name_at = name_to = 0
        trace_length = span_length = parent_length = state_length = 0
        begin = finish = kind = status = dropped = 0
        more = False
        self.at = start
        while self.at < end:
            tag = self.tag(end)
            if tag == 0x4A:  # attributes = 9
                stop = self.length(end)
                self.attribute(stop)
            elif tag == 0x0A:  # trace_id = 1
                stop = self.length(end)
                trace_at = self.at
                trace_length = stop - self.at
                self.at = stop
            elif tag == 0x12:  # span_id = 2
                stop = self.length(end)
                span_at = self.at
                span_length = stop - self.at
                self.at = stop
            elif tag == 0x22:  # parent_span_id = 4
                stop = self.length(end)
                parent_at = self.at
                parent_length = stop - self.at
                self.at = stop
            elif tag == 0x2A:  # name = 5
                stop = self.length(end)
                name_at = self.at
                name_to = stop
                self.at = stop
            elif tag == 0x39:  # start_time_unix_nano = 7
                begin = self.fixed64(end)
            elif tag == 0x41:  # end_time_unix_nano = 8
                finish = self.fixed64(end)
            elif tag == 0x30:  # kind = 6
                kind = self.int32(end)
            elif tag == 0x7A:  # status = 15
                stop = self.length(end)
                status = self.status_code(stop, status)
            elif tag == 0x1A:  # trace_state = 3
                stop = self.length(end)
                state_at = self.at
                state_length = stop - self.at
                self.at = stop
            elif tag == 0x60:  # dropped_events_count = 12
                dropped = self.varint(end) & 0xFFFFFFFF
            elif tag == 0x5A or tag == 0x6A:  # events = 11, links = 13
                self.at = self.length(end)
                more = True
            else:
                self.skip(tag, end)
        self.seen += 1
        if trace_length != 16 or span_length != 8 or (parent_length != 0 and parent_length != 8):
            self.refuse(self.id_fault(trace_length, span_length, parent_length), attributes_from)
            return
        self.heads[row] = self.big64(trace_at)
        self.heads[row + 1] = self.big64(trace_at + 8)
        self.heads[row + 2] = self.big64(span_at)
        self.heads[row + 3] = self.big64(parent_at) if parent_length else 0
        if (self.heads[row] == 0 and self.heads[row + 1] == 0) or self.heads[row + 2] == 0:
            self.refuse("trace_id and span_id must not be zero", attributes_from)
            return
        if begin <= 0 or finish < begin or finish >= LATEST:
            self.refuse(self.time_fault(begin, finish), attributes_from)
            return
        self.heads[row + 4] = begin
        self.heads[row + 5] = finish
        self.heads[row + 6] = kind
        self.heads[row + 7] = status
        self.heads[row + 8] = self.group_of(self.body[name_at:name_to])
        self.heads[row + 9] = attributes_from
        self.heads[row + 10] = self.attribute_count
        self.heads[row + 11] = self.event_count
        self.heads[row + 13] = self.link_count
        if more:
            self.events_and_links(start, end)
        self.heads[row + 12] = self.event_count
        self.heads[row + 14] = self.link_count
        self.heads[row + 15] = state_at
        self.heads[row + 16] = state_length
        self.heads[row + 17] = dropped
        self.spans += 1

    def log_record(self, start: int, end: int) -> None:
        """One log record: a row of `heads`, or an entry of `refused`."""
        if (self.spans + 1) * HEAD > len(self.heads):
            self.grow_heads()
        row = self.spans * HEAD
        attributes_from = self.attribute_count
        trace_at = span_at = name_at = name_to = body_at = body_to = 0
        trace_length = span_length = 0
        time = observed = 0
        self.at = start
        while self.at < end:
            tag = self.tag(end)
            if tag == 0x32:  # attributes = 6
                stop = self.length(end)
                self.attribute(stop)
            elif tag == 0x09:  # time_unix_nano = 1
                time = self.fixed64(end)
            elif tag == 0x59:  # observed_time_unix_nano = 11
                observed = self.fixed64(end)
            elif tag == 0x4A:  # trace_id = 9
                stop = self.length(end)
                trace_at = self.at
                trace_length = stop - self.at
                self.at = stop
            elif tag == 0x52:  # span_id = 10
                stop = self.length(end)
                span_at = self.at
                span_length = stop - self.at
                self.at = stop
            elif tag == 0x2A:  # body = 5
                stop = self.length(end)
                body_at = self.at
                body_to = stop
                self.at = stop
            elif tag == 0x62:  # event_name = 12
                stop = self.length(end)
                name_at = self.at
                name_to = stop
                self.at = stop
            else:
                self.skip(tag, end)
        self.seen += 1
        if (trace_length != 0 and trace_length != 16) or (span_length != 0 and span_length != 8):
            self.refuse(self.id_fault(trace_length or 16, span_length or 8, 0), attributes_from)
            return
        if time < 0 or observed < 0 or time >= LATEST or observed >= LATEST:
            self.refuse(self.time_fault(time, observed), attributes_from)
            return
        if body_to > body_at and self.body_slot >= 0:
            self.text_body(body_at, body_to)
        self.heads[row] = self.big64(trace_at) if trace_length else 0
        self.heads[row + 1] = self.big64(trace_at + 8) if trace_length else 0
        self.heads[row + 2] = self.big64(span_at) if span_length else 0
        self.heads[row + 3] = 0
        self.heads[row + 4] = time if time else UNSET
        self.heads[row + 5] = observed if observed else UNSET
        self.heads[row + 6] = 0
        self.heads[row + 7] = 0
        self.heads[row + 8] = self.group_of(self.body[name_at:name_to])
        self.heads[row + 9] = attributes_from
        self.heads[row + 10] = self.attribute_count
        for place in range(11, HEAD):
            self.heads[row + place] = 0
        self.spans += 1

    def text_body(self, start: int, end: int) -> None:
        """The body of a log record, as one more attribute."""
        if (self.attribute_count + 1) * 4 > len(self.attributes):
            self.grow_attributes()
        row = self.attribute_count * 4
        self.attributes[row] = self.body_slot
        self.attributes[row + 1] = 0
        self.value(start, end, row, 0, NO_LIST)
        if self.attributes[row + 1] != 0:
            self.attribute_count += 1

    def refuse(self, reason: str, attributes_from: int) -> None:
        self.attribute_count = attributes_from
        self.refused.append(Refused(self.seen - 1, reason))

    def id_fault(self, trace_length: int, span_length: int, parent_length: int) -> str:
        if trace_length != 16:
            return f"trace_id must have 16 bytes, found {trace_length}"
        if span_length != 8:
            return f"span_id must have 8 bytes, found {span_length}"
        return f"parent_span_id must have 8 bytes or none, found {parent_length}"

    def time_fault(self, begin: int, finish: int) -> str:
        if begin == 0:
            return "start_time_unix_nano must be given"
        if begin < 0 or finish < 0 or begin >= LATEST or finish >= LATEST:
            return f"times must be below 2^62 nanoseconds, found {begin & MASK} to {finish & MASK}"
        return f"end_time_unix_nano must not be before start_time_unix_nano, found {begin} to {finish}"

    def status_code(self, end: int, code: int) -> int:
        while self.at < end:
            tag = self.tag(end)
            if tag == 0x18:  # code = 3
                code = self.int32(end)
            else:
                self.skip(tag, end)
        return code

    def events_and_links(self, start: int, end: int) -> None:
        # A second walk, so that the attributes of a span stay together whatever stands between them.
        self.at = start
        while self.at < end:
            tag = self.tag(end)
            if tag == 0x5A:
                stop = self.length(end)
                self.event(self.at, stop)
                self.at = stop
            elif tag == 0x6A:
                stop = self.length(end)
                self.link(stop)
            else:
                self.skip(tag, end)

    def event(self, start: int, end: int) -> None:
        time = name_at = name_to = 0
        self.at = start
        while self.at < end:
            tag = self.tag(end)
            if tag == 0x12:  # name = 2
                stop = self.length(end)
                name_at = self.at
                name_to = stop
                self.at = stop
            elif tag == 0x09:  # time_unix_nano = 1
                time = self.fixed64(end)
            else:
                self.skip(tag, end)
        slot = self.event_names.get(self.body[name_at:name_to], -1)
        if slot < 0:
            return
        if (self.event_count + 1) * 4 > len(self.events):
            self.grow_events()
        row = self.event_count * 4
        self.events[row] = slot
        self.events[row + 1] = time
        self.events[row + 2] = self.attribute_count
        self.at = start
        while self.at < end:
            tag = self.tag(end)
            if tag == 0x1A:  # attributes = 3
                stop = self.length(end)
                self.attribute(stop)
            else:
                self.skip(tag, end)
        self.events[row + 3] = self.attribute_count
        self.event_count += 1

    def link(self, end: int) -> None:
        trace_at = span_at = trace_length = span_length = 0
        while self.at < end:
            tag = self.tag(end)
            if tag == 0x0A:  # trace_id = 1
                stop = self.length(end)
                trace_at = self.at
                trace_length = stop - self.at
                self.at = stop
            elif tag == 0x12:  # span_id = 2
                stop = self.length(end)
                span_at = self.at
                span_length = stop - self.at
                self.at = stop
            else:
                self.skip(tag, end)
        if trace_length != 16 or span_length != 8:
            return
        if (self.link_count + 1) * 3 > len(self.links):
            self.grow_links()
        row = self.link_count * 3
        self.links[row] = self.big64(trace_at)
        self.links[row + 1] = self.big64(trace_at + 8)
        self.links[row + 2] = self.big64(span_at)
        self.link_count += 1

    def attribute(self, end: int) -> None:
        """A KeyValue from `at` to `end`; kept if its key is wanted."""
        key_at = key_to = value_at = value_to = 0
        values = 0
        start = self.at
        while self.at < end:
            tag = self.tag(end)
            if tag == 0x0A:  # key = 1
                stop = self.length(end)
                key_at = self.at
                key_to = stop
                self.at = stop
            elif tag == 0x12:  # value = 2
                stop = self.length(end)
                value_at = self.at
                value_to = stop
                values += 1
                self.at = stop
            else:
                self.skip(tag, end)
        slot = self.slot_of(key_at, key_to)
        if slot < 0:
            return
        if (self.attribute_count + 1) * 4 > len(self.attributes):
            self.grow_attributes()
        row = self.attribute_count * 4
        self.attributes[row] = slot
        self.attributes[row + 1] = 0
        if values > 1:  # parts of one message merge: the last value that is set wins
            self.merged_value(start, end, row)
        elif values:
            self.value(value_at, value_to, row, 0, NO_LIST)
        if self.attributes[row + 1] != 0:
            self.attribute_count += 1
        self.at = end

    def merged_value(self, start: int, end: int, row: int) -> None:
        self.at = start
        state = NO_LIST
        while self.at < end:
            tag = self.tag(end)
            if tag == 0x12:
                stop = self.length(end)
                state = self.value(self.at, stop, row, 0, state)
                self.at = stop
            else:
                self.skip(tag, end)

    def value(self, start: int, end: int, row: int, depth: int, state: int) -> int:
        """An AnyValue into the attribute at `row`; left as it is where no member is set.

        `state` says whether what was set last is a list, as parts of a list merge, too; the new state is given back.
        """
        self.at = start
        while self.at < end:
            tag = self.tag(end)
            if tag == 0x2A:  # array_value = 5
                stop = self.length(end)
                if state == NO_LIST:
                    self.attributes[row + 1] = 5
                if state != LIST:
                    state = self.first_of(self.at, stop, row, depth)
                self.at = stop
                continue
            if tag == 0x0A:  # string_value = 1
                stop = self.length(end)
                self.attributes[row + 1] = 1
                self.attributes[row + 2] = self.at
                self.attributes[row + 3] = stop - self.at
                self.at = stop
            elif tag == 0x18:  # int_value = 3
                self.attributes[row + 1] = 3
                self.attributes[row + 2] = self.varint(end)
            elif tag == 0x21:  # double_value = 4
                self.attributes[row + 1] = 4
                self.attributes[row + 2] = self.fixed64(end)
            elif tag == 0x10:  # bool_value = 2
                self.attributes[row + 1] = 2
                self.attributes[row + 2] = 1 if self.varint(end) != 0 else 0
            elif tag == 0x32 or tag == 0x3A:  # kvlist_value = 6, bytes_value = 7
                self.at = self.length(end)
                self.attributes[row + 1] = 5
            elif tag == 0x40:  # string_value_strindex = 8, of profiles
                self.varint(end)
                self.attributes[row + 1] = 5
            else:
                self.skip(tag, end)
                continue
            state = NO_LIST
        return state

    def first_of(self, start: int, end: int, row: int, depth: int) -> int:
        self.at = start
        state = EMPTY_LIST
        while self.at < end:
            tag = self.tag(end)
            if tag == 0x0A and state == EMPTY_LIST and depth == 0:  # values = 1
                stop = self.length(end)
                self.value(self.at, stop, row, depth + 1, NO_LIST)
                self.at = stop
                state = LIST
            else:
                self.skip(tag, end)
        return state

    # What is remembered.

    def first_probe(self, size: int, last: int, middle: int) -> int:
        return ((size * 31 + last) * 31 + middle) & self.table_mask

    def slot_of(self, start: int, end: int) -> int:
        """Slot of the wanted key that stands there, else -1."""
        size = end - start
        if size == 0:
            return -1
        probe = self.first_probe(size, self.data[end - 1], self.data[start + (size >> 1)])
        while True:
            slot = self.table[probe]
            if slot < 0:
                return -1
            if self.key_places[2 * slot + 1] == size and self.same(start, self.key_places[2 * slot], size):
                return slot
            probe = (probe + 1) & self.table_mask

    def same(self, at: int, key_at: int, size: int) -> bool:
        for place in range(size):
            if self.data[at + place] != self.spelling[key_at + place]:
                return False
        return True

    def resource_of(self, message: bytes) -> int:
        known = self.resource_ids.get(message, -1)
        if known < 0 and len(self.resources) >= MOST:
            message = b""
            known = self.resource_ids.get(message, -1)
        if known < 0:
            known = len(self.resources)
            self.resources.append(Resource(resource_attributes(message)))
            self.resource_ids[message] = known
            self.remembered += ENTRY + len(message)
        return known

    def group_of(self, name: bytes) -> int:
        group = self.names.get(name, -1)
        if group < 0 and len(self.groups) >= MOST:
            name = b""
            group = self.names.get(name, -1)
        if group < 0:
            group = len(self.groups)
            self.groups.append(Group(self.resource, text(self.scope), text(name)))
            self.names[name] = group
            self.remembered += ENTRY + len(name)
        return group

    # The wire.

    def tag(self, end: int) -> int:
        value = self.varint(end)
        if value < 8 or value > 0xFFFFFFFF:
            raise BadBody(f"byte {self.at}: not a protobuf field")
        return value

    def length(self, end: int) -> int:
        """Where the length-delimited field that begins here ends; `at` is left on its first byte."""
        size = self.varint(end)
        if size < 0 or size > end - self.at:
            raise BadBody(f"byte {self.at}: a field of {size & MASK} bytes goes beyond the end of its message")
        return self.at + size

    def varint(self, end: int) -> int:
        at = self.at
        value = shift = 0
        while True:
            if at >= end:
                raise BadBody(f"byte {at}: the body ends inside a number")
            part = self.data[at]
            at += 1
            value |= (part & 127) << shift
            if part < 128:
                break
            shift += 7
            if shift > 63:
                raise BadBody(f"byte {at}: a number of more than 10 bytes")
        self.at = at
        return ((value & MASK) ^ SIGN) - SIGN

    def int32(self, end: int) -> int:
        """A number of 32 bits, of which protobuf ignores what is above them."""
        value = self.varint(end)
        return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000

    def fixed64(self, end: int) -> int:
        if end - self.at < 8:
            raise BadBody(f"byte {self.at}: the body ends inside a number")
        at = self.at
        value = 0
        for place in range(8):
            part = self.data[at + 7 - place]
            value = (value << 8) | part
        self.at = at + 8
        return (value ^ SIGN) - SIGN

    def big64(self, at: int) -> int:
        value = 0
        for place in range(8):
            part = self.data[at + place]
            value = (value << 8) | part
        return (value ^ SIGN) - SIGN

    def skip(self, tag: int, end: int) -> None:
        """Pass over the value of a field that is not read."""
        wire = tag & 7
        if wire == 2:
            self.at = self.length(end)
        elif wire == 0:
            self.varint(end)
        elif wire == 1:
            self.forward(8, end)
        elif wire == 5:
            self.forward(4, end)
        elif wire == 3:
            self.skip_group(tag, end, 1)
        else:
            raise BadBody(f"byte {self.at}: wire type {wire} has no meaning here")

    def forward(self, size: int, end: int) -> None:
        if size > end - self.at:
            raise BadBody(f"byte {self.at}: the body ends inside a field")
        self.at += size

    def skip_group(self, opening: int, end: int, depth: int) -> None:
        if depth > DEPTH:
            raise BadBody(f"byte {self.at}: groups nested deeper than {DEPTH}")
        while True:
            tag = self.tag(end)
            if tag & 7 == 4:
                if tag >> 3 != opening >> 3:
                    raise BadBody(f"byte {self.at}: a group ends that did not begin")
                return
            if tag & 7 == 3:
                self.skip_group(tag, end, depth + 1)
            else:
                self.skip(tag, end)

    # Room.

    def grow_heads(self) -> None:
        self.head_rows = doubled(self.head_rows)
        self.heads = self.head_rows

    def grow_attributes(self) -> None:
        self.attribute_rows = doubled(self.attribute_rows)
        self.attributes = self.attribute_rows

    def grow_events(self) -> None:
        self.event_rows = doubled(self.event_rows)
        self.events = self.event_rows

    def grow_links(self) -> None:
        self.link_rows = doubled(self.link_rows)
        self.links = self.link_rows


def doubled(rows: memoryview) -> memoryview:
    """The same rows with as much room again."""
    grown = array("q", rows)
    grown.frombytes(bytes(len(rows) * 8))
    return memoryview(grown)


def text(raw: bytes) -> str:
    """Bytes of a string field as text; what is not UTF-8 shows as U+FFFD."""
    return raw.decode("utf-8", "replace")


def resource_attributes(message: bytes) -> dict[str, str]:
    """Attributes of a Resource message as text, numbers in decimal. Rare, so protobuf's own parser reads it."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource as Message

    try:
        attributes = Message.FromString(message).attributes
    except DecodeError as error:
        raise BadBody(f"resource: {error}") from error
    found = {}
    for attribute in attributes:
        kind = attribute.value.WhichOneof("value")
        if kind == "bool_value":
            found[attribute.key] = "true" if attribute.value.bool_value else "false"
        elif kind in ("string_value", "int_value", "double_value"):
            found[attribute.key] = str(getattr(attribute.value, kind))
    return found
