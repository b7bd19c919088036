"""OTLP protobuf to columns, without building a message.

The reader walks the wire format of ExportTraceServiceRequest or ExportLogsServiceRequest (opentelemetry-proto 1.x)
once; the two differ in nothing but the innermost message. It follows protobuf's
own rules, so that both agree on every valid body: fields in any order, the last of a scalar wins, repeated parts of a
message merge, a known field of another wire type is an unknown field, unknown fields (groups too) are skipped.

Two kinds of fault are told apart. A body whose structure is broken raises `BadBody`. A span that is well formed and
says something impossible (an id of the wrong length, an end before its start) is left out and named in
`Batch.refused`; the others stay.

How it is quick
    What every SDK writes has a short way: a tag and a length of one byte, a key before its value, and nothing else. All
    the rest goes by the general way, which is the one that reads everything.

`protobuf.pxd` beside this file gives the types with which it is compiled; uncompiled it does the same, slower.
Compiled, `data`, the rows and the table are pointers, whose bounds nobody checks but this code: a byte is read where
`at < end` has been seen to hold, and every `end` lies in the body; a row is written after `grow_…` has made room.
"""

from array import array

import exporter.decode.words as words
from exporter.decode import columns
from exporter.decode.columns import BODY, BadBody, Batch, Group, Refused, Resource, Wanted

SIGN = 1 << 63
MASK = (1 << 64) - 1
SIGN_32 = 1 << 31
MASK_32 = (1 << 32) - 1
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
RECENT = 8
"""Names of spans that are found by their bytes, within one scope; a power of two."""
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
        self.data = self.body
        self.at = 0
        self.spans = 0
        self.seen = 0
        self.attribute_count = 0
        self.event_count = 0
        self.link_count = 0
        self.head_rows = room_for(HEAD * 64)
        self.attribute_rows = room_for(4 * 512)
        self.event_rows = room_for(4 * 64)
        self.link_rows = room_for(3 * 16)
        self.point()
        self.recent_rows = room_for(3 * RECENT)
        self.recent = words.cells(self.recent_rows)
        self.event_at = self.event_slot = 0
        self.event_size = -1
        self.generation = 0
        self.forget()

    def learn_keys(self, keys: dict[bytes, int]) -> None:
        """An open table of the wanted keys, so that a key is looked up where it stands in the body."""
        size = 64
        while size < 8 * len(keys):
            size *= 2
        self.table_mask = size - 1
        self.table_rows = memoryview(array("q", [-1]) * size)
        self.table = words.cells(self.table_rows)
        self.key_rows = room_for(2 * len(keys) + 2)
        self.key_places = words.cells(self.key_rows)
        self.spelt = b"".join(keys)
        self.spelling = self.spelt
        at = 0
        for key, slot in keys.items():
            self.key_rows[2 * slot] = at
            self.key_rows[2 * slot + 1] = len(key)
            at += len(key)
            if key:
                probe = self.first_probe(len(key), key[len(key) - 1], key[len(key) >> 1])
                while self.table_rows[probe] >= 0:
                    probe = (probe + 1) & self.table_mask
                self.table_rows[probe] = slot

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
        self.data = self.body
        self.event_size = -1
        self.spans = self.seen = self.attribute_count = self.event_count = self.link_count = 0
        self.refused = []
        self.request(len(self.body))
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
        """The spans of one scope, whose name usually stands before them. Where it does not, they are read again."""
        spans, seen, attributes = self.spans, self.seen, self.attribute_count
        events, links, refused = self.event_count, self.link_count, len(self.refused)
        self.scope = b""
        self.at = start
        if start < end and self.data[start] == 0x0A:
            self.tag(end)
            self.read_scope(self.length(end))
        if self.items(self.at, end):
            return
        self.spans, self.seen, self.attribute_count = spans, seen, attributes
        self.event_count, self.link_count = events, links
        del self.refused[refused:]
        self.scope = b""
        self.at = start
        while self.at < end:
            tag = self.tag(end)
            if tag == 0x0A:  # scope = 1
                stop = self.length(end)
                self.read_scope(stop)
            else:
                self.skip(tag, end)
        self.items(start, end)

    def items(self, start: int, end: int) -> bool:
        """Read the spans or log records; whether no part of the scope stood among them."""
        self.names = self.names_in(self.scope)
        for place in range(RECENT):
            self.recent[3 * place + 1] = -1
        alone = True
        at = start
        while at < end:
            self.at = at
            tag = self.tag(end)
            if tag == 0x12:  # spans = 2, log_records = 2
                at = self.length(end)
                if self.logs:
                    self.log_record(self.at, at)
                else:
                    self.span(self.at, at)
            else:
                alone = alone and tag != 0x0A
                self.skip(tag, end)
                at = self.at
        return alone

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
        if (self.spans + 1) * HEAD > self.head_room:
            self.grow_heads()
        data = self.data
        attributes_from = self.attribute_count
        trace_at = span_at = parent_at = state_at = name_at = name_to = 0
        trace_length = span_length = parent_length = state_length = 0
        begin = finish = kind = status = dropped = 0
        more = False
        at = start
        while at < end:
            tag = data[at]
            at += 1
            if tag == 0x4A and at < end and data[at] < 128 and data[at] < end - at:  # attributes = 9
                stop = at + 1 + data[at]
                self.attribute(at + 1, stop)
                at = stop
                continue
            if tag >= 128 or tag < 8:
                if tag == 0x85 and end - at >= 5 and data[at] == 1:  # flags = 16, of which nothing is read
                    at += 5
                    continue
                self.at = at - 1
                tag = self.tag(end)
                at = self.at
            if tag & 7 == 2:
                if at < end and data[at] < 128 and data[at] < end - at:
                    stop = at + 1 + data[at]
                    at += 1
                else:
                    self.at = at
                    stop = self.length(end)
                    at = self.at
                if tag == 0x4A:
                    self.attribute(at, stop)
                elif tag == 0x0A:  # trace_id = 1
                    trace_at = at
                    trace_length = stop - at
                elif tag == 0x12:  # span_id = 2
                    span_at = at
                    span_length = stop - at
                elif tag == 0x22:  # parent_span_id = 4
                    parent_at = at
                    parent_length = stop - at
                elif tag == 0x2A:  # name = 5
                    name_at = at
                    name_to = stop
                elif tag == 0x7A:  # status = 15
                    self.at = at
                    status = self.status_code(stop, status)
                elif tag == 0x1A:  # trace_state = 3
                    state_at = at
                    state_length = stop - at
                elif tag == 0x5A or tag == 0x6A:  # events = 11, links = 13
                    more = True
                at = stop
                continue
            self.at = at
            if tag == 0x39:  # start_time_unix_nano = 7
                begin = self.fixed64(end)
            elif tag == 0x41:  # end_time_unix_nano = 8
                finish = self.fixed64(end)
            elif tag == 0x30:  # kind = 6
                kind = self.int32(end)
            elif tag == 0x60:  # dropped_events_count = 12
                dropped = self.varint(end) & MASK_32
            else:
                self.skip(tag, end)
            at = self.at
        self.seen += 1
        row = self.spans * HEAD
        heads = self.heads
        if trace_length != 16 or span_length != 8 or (parent_length != 0 and parent_length != 8):
            self.refuse(self.id_fault(trace_length, span_length, parent_length), attributes_from)
            return
        heads[row] = words.big64(data, trace_at)
        heads[row + 1] = words.big64(data, trace_at + 8)
        heads[row + 2] = words.big64(data, span_at)
        heads[row + 3] = words.big64(data, parent_at) if parent_length else 0
        if (heads[row] == 0 and heads[row + 1] == 0) or heads[row + 2] == 0:
            self.refuse("trace_id and span_id must not be zero", attributes_from)
            return
        if begin <= 0 or finish < begin or finish >= LATEST:
            self.refuse(self.time_fault(begin, finish), attributes_from)
            return
        heads[row + 4] = begin
        heads[row + 5] = finish
        heads[row + 6] = kind
        heads[row + 7] = status
        heads[row + 8] = self.group_at(name_at, name_to - name_at)
        heads[row + 9] = attributes_from
        heads[row + 10] = self.attribute_count
        heads[row + 11] = self.event_count
        heads[row + 13] = self.link_count
        if more:
            self.events_and_links(start, end)
        heads[row + 12] = self.event_count
        heads[row + 14] = self.link_count
        heads[row + 15] = state_at
        heads[row + 16] = state_length
        heads[row + 17] = dropped
        self.spans += 1

    def log_record(self, start: int, end: int) -> None:
        """One log record: a row of `heads`, or an entry of `refused`."""
        if (self.spans + 1) * HEAD > self.head_room:
            self.grow_heads()
        row = self.spans * HEAD
        heads = self.heads
        attributes_from = self.attribute_count
        trace_at = span_at = name_at = name_to = body_at = body_to = 0
        trace_length = span_length = 0
        time = observed = 0
        self.at = start
        while self.at < end:
            tag = self.tag(end)
            if tag == 0x32:  # attributes = 6
                stop = self.length(end)
                self.attribute(self.at, stop)
                self.at = stop
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
        heads[row] = words.big64(self.data, trace_at) if trace_length else 0
        heads[row + 1] = words.big64(self.data, trace_at + 8) if trace_length else 0
        heads[row + 2] = words.big64(self.data, span_at) if span_length else 0
        heads[row + 3] = 0
        heads[row + 4] = time if time else UNSET
        heads[row + 5] = observed if observed else UNSET
        heads[row + 6] = 0
        heads[row + 7] = 0
        heads[row + 8] = self.group_at(name_at, name_to - name_at)
        heads[row + 9] = attributes_from
        heads[row + 10] = self.attribute_count
        for place in range(11, HEAD):
            heads[row + place] = 0
        self.spans += 1

    def text_body(self, start: int, end: int) -> None:
        """The body of a log record, as one more attribute."""
        if (self.attribute_count + 1) * 4 > self.attribute_room:
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
        slot = self.event_of(name_at, name_to - name_at)
        if slot < 0:
            return
        if (self.event_count + 1) * 4 > self.event_room:
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
                self.attribute(self.at, stop)
                self.at = stop
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
        if (self.link_count + 1) * 3 > self.link_room:
            self.grow_links()
        row = self.link_count * 3
        self.links[row] = words.big64(self.data, trace_at)
        self.links[row + 1] = words.big64(self.data, trace_at + 8)
        self.links[row + 2] = words.big64(self.data, span_at)
        self.link_count += 1

    def attribute(self, start: int, end: int) -> int:
        """A KeyValue; kept if its key is wanted."""
        data = self.data
        if end - start >= 4 and data[start] == 0x0A and data[start + 1] < 128:  # key = 1
            key_to = start + 2 + data[start + 1]
            # value = 2, which fills the rest
            if key_to + 2 <= end and data[key_to] == 0x12 and data[key_to + 1] == end - key_to - 2 < 128:
                slot = self.slot_of(start + 2, key_to)
                if slot >= 0:
                    self.one_value(slot, key_to + 2, end)
                return 0
        self.any_attribute(start, end)
        return 0

    def one_value(self, slot: int, start: int, end: int) -> int:
        """The value of an attribute, which is there once."""
        if (self.attribute_count + 1) * 4 > self.attribute_room:
            self.grow_attributes()
        data = self.data
        row = self.attribute_count * 4
        attributes = self.attributes
        attributes[row] = slot
        attributes[row + 1] = 0
        size = end - start
        if size >= 2 and data[start] == 0x0A and data[start + 1] == size - 2:  # string_value = 1
            attributes[row + 1] = 1
            attributes[row + 2] = start + 2
            attributes[row + 3] = size - 2
        elif size == 9 and data[start] == 0x21:  # double_value = 4
            attributes[row + 1] = 4
            attributes[row + 2] = words.little64(data, start + 1)
        elif size == 2 and data[start] == 0x18 and data[start + 1] < 128:  # int_value = 3
            attributes[row + 1] = 3
            attributes[row + 2] = data[start + 1]
        else:
            self.value(start, end, row, 0, NO_LIST)
        if attributes[row + 1] != 0:
            self.attribute_count += 1
        return 0

    def any_attribute(self, start: int, end: int) -> None:
        """A KeyValue in any of the ways in which it can be written."""
        key_at = key_to = value_at = value_to = 0
        values = 0
        self.at = start
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
        if values <= 1:
            self.one_value(slot, value_at, value_to)
            return
        if (self.attribute_count + 1) * 4 > self.attribute_room:
            self.grow_attributes()
        row = self.attribute_count * 4
        self.attributes[row] = slot
        self.attributes[row + 1] = 0
        self.merged_value(start, end, row)  # parts of one message merge: the last value that is set wins
        if self.attributes[row + 1] != 0:
            self.attribute_count += 1

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
        data = self.data
        probe = self.first_probe(size, data[end - 1], data[start + (size >> 1)])
        while True:
            slot = self.table[probe]
            if slot < 0:
                return -1
            at = self.key_places[2 * slot]
            if self.key_places[2 * slot + 1] == size and words.same(data, start, self.spelling, at, size):
                return slot
            probe = (probe + 1) & self.table_mask

    def event_of(self, at: int, size: int) -> int:
        """Slot of the wanted event whose name stands there, else -1. One name often follows itself."""
        if self.event_size != size or not words.same(self.data, self.event_at, self.data, at, size):
            self.event_slot = self.event_names.get(self.body[at : at + size], -1)
            self.event_at = at
            self.event_size = size
        return self.event_slot

    def group_at(self, at: int, size: int) -> int:
        """Group of the spans of this scope whose name stands there."""
        place = 3 * ((size + self.data[at + size - 1]) & (RECENT - 1)) if size else 0
        recent = self.recent
        if recent[place + 1] == size and words.same(self.data, recent[place], self.data, at, size):
            return recent[place + 2]
        group = self.group_of(self.body[at : at + size])
        recent[place] = at
        recent[place + 1] = size
        recent[place + 2] = group
        return group

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
        if self.at < end and 8 <= self.data[self.at] < 128:
            self.at += 1
            return self.data[self.at - 1]
        value = self.varint(end)
        if value < 8 or value > MASK_32:
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
        if at < end and self.data[at] < 128:
            self.at = at + 1
            return self.data[at]
        if end - at > 1 and self.data[at + 1] < 128:
            self.at = at + 2
            return (self.data[at] & 127) | (self.data[at + 1] << 7)
        return self.long_varint(end)

    def long_varint(self, end: int) -> int:
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
        return ((value & MASK_32) ^ SIGN_32) - SIGN_32

    def fixed64(self, end: int) -> int:
        if end - self.at < 8:
            raise BadBody(f"byte {self.at}: the body ends inside a number")
        self.at += 8
        return words.little64(self.data, self.at - 8)

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

    def point(self) -> None:
        """Look at the rows where they are now."""
        self.heads = words.cells(self.head_rows)
        self.head_room = len(self.head_rows)
        self.attributes = words.cells(self.attribute_rows)
        self.attribute_room = len(self.attribute_rows)
        self.events = words.cells(self.event_rows)
        self.event_room = len(self.event_rows)
        self.links = words.cells(self.link_rows)
        self.link_room = len(self.link_rows)

    def grow_heads(self) -> None:
        self.head_rows = doubled(self.head_rows)
        self.point()

    def grow_attributes(self) -> None:
        self.attribute_rows = doubled(self.attribute_rows)
        self.point()

    def grow_events(self) -> None:
        self.event_rows = doubled(self.event_rows)
        self.point()

    def grow_links(self) -> None:
        self.link_rows = doubled(self.link_rows)
        self.point()


def room_for(cells: int) -> memoryview:
    """So many cells, all zero."""
    return memoryview(array("q", bytes(8 * cells)))


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
