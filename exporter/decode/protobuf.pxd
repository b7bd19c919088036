# Types for the compiled build; protobuf.py is the program.
cdef unsigned long long SIGN
cdef unsigned long long MASK
cdef Py_ssize_t HEAD
cdef long long UNSET
cdef long long LATEST
cdef int NO_LIST
cdef int EMPTY_LIST
cdef int LIST
cimport cython

cdef class Decoder:
    cdef long long[::1] table
    cdef long long[::1] key_places
    cdef const unsigned char[::1] spelling
    cdef Py_ssize_t table_mask
    cdef public dict event_names
    cdef public bytes body
    cdef const unsigned char[::1] data
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
    cdef long long[::1] heads
    cdef long long[::1] attributes
    cdef long long[::1] events
    cdef long long[::1] links
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
    cdef void request(self, Py_ssize_t end) except *
    @cython.locals(tag=cython.longlong, stop=Py_ssize_t)
    cdef void resource_spans(self, Py_ssize_t start, Py_ssize_t end) except *
    @cython.locals(tag=cython.longlong, stop=Py_ssize_t)
    cdef void scope_spans(self, Py_ssize_t start, Py_ssize_t end) except *
    @cython.locals(names=dict)
    cdef dict names_in(self, bytes scope)
    @cython.locals(tag=cython.longlong, stop=Py_ssize_t)
    cdef void read_scope(self, Py_ssize_t end) except *
    @cython.locals(row=Py_ssize_t, attributes_from=Py_ssize_t, trace_at=Py_ssize_t,
                   span_at=Py_ssize_t, parent_at=Py_ssize_t, state_at=Py_ssize_t, name_at=Py_ssize_t,
                   name_to=Py_ssize_t, trace_length=Py_ssize_t, span_length=Py_ssize_t, parent_length=Py_ssize_t,
                   state_length=Py_ssize_t, begin=cython.longlong, finish=cython.longlong, kind=cython.longlong,
                   status=cython.longlong, dropped=cython.longlong, more=cython.bint, tag=cython.longlong,
                   stop=Py_ssize_t)
    cdef void span(self, Py_ssize_t start, Py_ssize_t end) except *
    @cython.locals(row=Py_ssize_t, attributes_from=Py_ssize_t, trace_at=Py_ssize_t, span_at=Py_ssize_t,
                   name_at=Py_ssize_t, name_to=Py_ssize_t, body_at=Py_ssize_t, body_to=Py_ssize_t,
                   trace_length=Py_ssize_t, span_length=Py_ssize_t, time=cython.longlong, observed=cython.longlong,
                   place=Py_ssize_t, tag=cython.longlong, stop=Py_ssize_t)
    cdef void log_record(self, Py_ssize_t start, Py_ssize_t end) except *
    @cython.locals(row=Py_ssize_t)
    cdef void text_body(self, Py_ssize_t start, Py_ssize_t end) except *
    cdef void refuse(self, str reason, Py_ssize_t attributes_from) except *
    cdef str time_fault(self, long long begin, long long finish)
    cdef str id_fault(self, Py_ssize_t trace_length, Py_ssize_t span_length, Py_ssize_t parent_length)
    @cython.locals(tag=cython.longlong)
    cdef long long status_code(self, Py_ssize_t end, long long code) except? -1
    @cython.locals(tag=cython.longlong, stop=Py_ssize_t)
    cdef void events_and_links(self, Py_ssize_t start, Py_ssize_t end) except *
    @cython.locals(tag=cython.longlong, stop=Py_ssize_t, time=cython.longlong, name_at=Py_ssize_t, name_to=Py_ssize_t,
                   slot=Py_ssize_t, row=Py_ssize_t)
    cdef void event(self, Py_ssize_t start, Py_ssize_t end) except *
    @cython.locals(tag=cython.longlong, stop=Py_ssize_t, trace_at=Py_ssize_t, span_at=Py_ssize_t,
                   trace_length=Py_ssize_t, span_length=Py_ssize_t, row=Py_ssize_t)
    cdef void link(self, Py_ssize_t end) except *
    @cython.locals(tag=cython.longlong, stop=Py_ssize_t, key_at=Py_ssize_t, key_to=Py_ssize_t, value_at=Py_ssize_t,
                   value_to=Py_ssize_t, values=Py_ssize_t, start=Py_ssize_t, slot=Py_ssize_t, row=Py_ssize_t)
    cdef void attribute(self, Py_ssize_t end) except *
    @cython.locals(tag=cython.longlong, stop=Py_ssize_t, state=cython.int)
    cdef void merged_value(self, Py_ssize_t start, Py_ssize_t end, Py_ssize_t row) except *
    @cython.locals(tag=cython.longlong, stop=Py_ssize_t)
    cdef int value(self, Py_ssize_t start, Py_ssize_t end, Py_ssize_t row, int depth, int state) except -1
    @cython.locals(tag=cython.longlong, stop=Py_ssize_t, state=cython.int)
    cdef int first_of(self, Py_ssize_t start, Py_ssize_t end, Py_ssize_t row, int depth) except -1
    cdef Py_ssize_t resource_of(self, bytes message) except -1
    cdef Py_ssize_t group_of(self, bytes name) except -1
    @cython.locals(value=cython.longlong)
    cdef long long tag(self, Py_ssize_t end) except -1
    @cython.locals(size=cython.longlong)
    cdef Py_ssize_t length(self, Py_ssize_t end) except -1
    @cython.locals(at=Py_ssize_t, value=cython.ulonglong, part=cython.ulonglong,
                   shift=cython.int)
    cdef long long varint(self, Py_ssize_t end) except? -1
    @cython.locals(value=cython.longlong)
    cdef long long int32(self, Py_ssize_t end) except? -1
    @cython.locals(at=Py_ssize_t, value=cython.ulonglong, part=cython.ulonglong,
                   place=Py_ssize_t)
    cdef long long fixed64(self, Py_ssize_t end) except? -1
    @cython.locals(value=cython.ulonglong, part=cython.ulonglong, place=Py_ssize_t)
    cdef long long big64(self, Py_ssize_t at) except? -1
    @cython.locals(wire=cython.int)
    cdef void skip(self, long long tag, Py_ssize_t end) except *
    cdef void forward(self, Py_ssize_t size, Py_ssize_t end) except *
    @cython.locals(tag=cython.longlong)
    cdef void skip_group(self, long long opening, Py_ssize_t end, int depth) except *
    cdef void grow_heads(self) except *
    cdef void grow_attributes(self) except *
    cdef void grow_events(self) except *
    cdef void grow_links(self) except *
    cdef Py_ssize_t first_probe(self, Py_ssize_t size, Py_ssize_t last, Py_ssize_t middle) noexcept
    @cython.locals(size=Py_ssize_t, probe=Py_ssize_t, slot=Py_ssize_t)
    cdef Py_ssize_t slot_of(self, Py_ssize_t start, Py_ssize_t end) except? -1
    @cython.locals(place=Py_ssize_t)
    cdef bint same(self, Py_ssize_t at, Py_ssize_t key_at, Py_ssize_t size) except -1
