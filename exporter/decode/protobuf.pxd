# Types for the compiled build; protobuf.py is the program.
cdef unsigned long long SIGN
cdef unsigned long long MASK
cdef long long SIGN_32
cdef long long MASK_32
cdef Py_ssize_t HEAD
cdef long long UNSET
cdef long long LATEST
cdef Py_ssize_t RECENT
cdef int NO_LIST
cdef int EMPTY_LIST
cdef int LIST
cimport cython
from libc.stdint cimport int64_t  # what functions return: with "long long" and "final" Cython 3.3 writes -1LLLL

cimport exporter.decode.words as words

@cython.final
cdef class Decoder:
    cdef object table_rows
    cdef long long *table
    cdef object key_rows
    cdef long long *key_places
    cdef bytes spelt
    cdef const unsigned char *spelling
    cdef Py_ssize_t table_mask
    cdef public dict event_names
    cdef public bytes body
    cdef const unsigned char *data
    cdef Py_ssize_t at
    cdef Py_ssize_t spans
    cdef Py_ssize_t seen
    cdef Py_ssize_t attribute_count
    cdef Py_ssize_t event_count
    cdef Py_ssize_t link_count
    cdef object head_rows
    cdef object attribute_rows
    cdef object event_rows
    cdef object link_rows
    cdef object recent_rows
    cdef long long *heads
    cdef long long *attributes
    cdef long long *events
    cdef long long *links
    cdef long long *recent
    cdef Py_ssize_t head_room
    cdef Py_ssize_t attribute_room
    cdef Py_ssize_t event_room
    cdef Py_ssize_t link_room
    cdef Py_ssize_t event_at
    cdef Py_ssize_t event_size
    cdef Py_ssize_t event_slot
    cdef public Py_ssize_t generation
    cdef public list groups
    cdef public list resources
    cdef Py_ssize_t body_slot
    cdef bint logs
    cdef dict resource_ids
    cdef dict scopes
    cdef dict names
    cdef Py_ssize_t resource
    cdef bytes scope
    cdef list refused
    cdef Py_ssize_t remembered

    @cython.locals(tag=cython.longlong, stop=Py_ssize_t)
    cdef int request(self, Py_ssize_t end) except -1
    @cython.locals(tag=cython.longlong, stop=Py_ssize_t)
    cdef int resource_spans(self, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(tag=cython.longlong, stop=Py_ssize_t, spans=Py_ssize_t, seen=Py_ssize_t, attributes=Py_ssize_t,
                   events=Py_ssize_t, links=Py_ssize_t, refused=Py_ssize_t)
    cdef void scope_spans(self, Py_ssize_t start, Py_ssize_t end) except *
    @cython.locals(tag=cython.longlong, at=Py_ssize_t, place=Py_ssize_t, alone=cython.bint)
    cdef bint items(self, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(names=dict)
    cdef dict names_in(self, bytes scope)
    @cython.locals(tag=cython.longlong, stop=Py_ssize_t)
    cdef int read_scope(self, Py_ssize_t end) except -1
    @cython.locals(data="const unsigned char *", heads="long long *", at=Py_ssize_t, row=Py_ssize_t,
                   attributes_from=Py_ssize_t, trace_at=Py_ssize_t,
                   span_at=Py_ssize_t, parent_at=Py_ssize_t, state_at=Py_ssize_t, name_at=Py_ssize_t,
                   name_to=Py_ssize_t, trace_length=Py_ssize_t, span_length=Py_ssize_t, parent_length=Py_ssize_t,
                   state_length=Py_ssize_t, begin=cython.longlong, finish=cython.longlong, kind=cython.longlong,
                   status=cython.longlong, dropped=cython.longlong, more=cython.bint, tag=cython.longlong,
                   stop=Py_ssize_t)
    cdef void span(self, Py_ssize_t start, Py_ssize_t end) except *
    @cython.locals(heads="long long *", row=Py_ssize_t, attributes_from=Py_ssize_t, trace_at=Py_ssize_t,
                   span_at=Py_ssize_t,
                   name_at=Py_ssize_t, name_to=Py_ssize_t, body_at=Py_ssize_t, body_to=Py_ssize_t,
                   trace_length=Py_ssize_t, span_length=Py_ssize_t, time=cython.longlong, observed=cython.longlong,
                   place=Py_ssize_t, tag=cython.longlong, stop=Py_ssize_t)
    cdef void log_record(self, Py_ssize_t start, Py_ssize_t end) except *
    @cython.locals(row=Py_ssize_t)
    cdef int text_body(self, Py_ssize_t start, Py_ssize_t end) except -1
    cdef int refuse(self, str reason, Py_ssize_t attributes_from) except -1
    cdef str time_fault(self, long long begin, long long finish)
    cdef str id_fault(self, Py_ssize_t trace_length, Py_ssize_t span_length, Py_ssize_t parent_length)
    @cython.locals(tag=cython.longlong)
    cdef int64_t status_code(self, Py_ssize_t end, long long code) except? -1
    @cython.locals(tag=cython.longlong, stop=Py_ssize_t)
    cdef int events_and_links(self, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(tag=cython.longlong, stop=Py_ssize_t, time=cython.longlong, name_at=Py_ssize_t, name_to=Py_ssize_t,
                   slot=Py_ssize_t, row=Py_ssize_t)
    cdef void event(self, Py_ssize_t start, Py_ssize_t end) except *
    @cython.locals(tag=cython.longlong, stop=Py_ssize_t, trace_at=Py_ssize_t, span_at=Py_ssize_t,
                   trace_length=Py_ssize_t, span_length=Py_ssize_t, row=Py_ssize_t)
    cdef void link(self, Py_ssize_t end) except *
    @cython.locals(data="const unsigned char *", key_to=Py_ssize_t, slot=Py_ssize_t)
    cdef inline int attribute(self, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(data="const unsigned char *", row=Py_ssize_t, attributes="long long *", size=Py_ssize_t)
    cdef inline int one_value(self, Py_ssize_t slot, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(tag=cython.longlong, stop=Py_ssize_t, key_at=Py_ssize_t, key_to=Py_ssize_t, value_at=Py_ssize_t,
                   value_to=Py_ssize_t, values=Py_ssize_t, slot=Py_ssize_t, row=Py_ssize_t)
    cdef void any_attribute(self, Py_ssize_t start, Py_ssize_t end) except *
    @cython.locals(tag=cython.longlong, stop=Py_ssize_t, state=cython.int)
    cdef int merged_value(self, Py_ssize_t start, Py_ssize_t end, Py_ssize_t row) except -1
    @cython.locals(tag=cython.longlong, stop=Py_ssize_t)
    cdef int value(self, Py_ssize_t start, Py_ssize_t end, Py_ssize_t row, int depth, int state) except -1
    @cython.locals(tag=cython.longlong, stop=Py_ssize_t, state=cython.int)
    cdef int first_of(self, Py_ssize_t start, Py_ssize_t end, Py_ssize_t row, int depth) except -1
    cdef Py_ssize_t resource_of(self, bytes message) except -1
    cdef Py_ssize_t group_of(self, bytes name) except -1
    @cython.locals(value=cython.longlong)
    cdef int64_t tag(self, Py_ssize_t end) except -1
    @cython.locals(size=cython.longlong)
    cdef inline Py_ssize_t length(self, Py_ssize_t end) except -1
    @cython.locals(at=Py_ssize_t)
    cdef inline int64_t varint(self, Py_ssize_t end) except? -1
    @cython.locals(at=Py_ssize_t, value=cython.ulonglong, part=cython.ulonglong,
                   shift=cython.int)
    cdef int64_t long_varint(self, Py_ssize_t end) except? -1
    @cython.locals(value=cython.longlong)
    cdef inline int64_t int32(self, Py_ssize_t end) except? -1
    cdef inline int64_t fixed64(self, Py_ssize_t end) except? -1
    @cython.locals(wire=cython.int)
    cdef int skip(self, long long tag, Py_ssize_t end) except -1
    cdef int forward(self, Py_ssize_t size, Py_ssize_t end) except -1
    @cython.locals(tag=cython.longlong)
    cdef void skip_group(self, long long opening, Py_ssize_t end, int depth) except *
    cdef int grow_heads(self) except -1
    cdef int grow_attributes(self) except -1
    cdef int grow_events(self) except -1
    cdef int grow_links(self) except -1
    cdef inline Py_ssize_t first_probe(self, Py_ssize_t size, Py_ssize_t last, Py_ssize_t middle) noexcept
    @cython.locals(data="const unsigned char *", size=Py_ssize_t, probe=Py_ssize_t, slot=Py_ssize_t, at=Py_ssize_t)
    cdef inline Py_ssize_t slot_of(self, Py_ssize_t start, Py_ssize_t end) noexcept
    cdef Py_ssize_t event_of(self, Py_ssize_t at, Py_ssize_t size) except? -1
    @cython.locals(place=Py_ssize_t, recent="long long *", group=Py_ssize_t)
    cdef inline Py_ssize_t group_at(self, Py_ssize_t at, Py_ssize_t size) except -1
    cdef int point(self) except -1
