# Types for the compiled build; recognise.py is the program.
cimport cython
from libc.stdint cimport int64_t

cimport exporter.decode.columns as columns
cimport exporter.decode.words as words
cimport exporter.record as record
cimport exporter.tables as tables
from exporter.memo cimport Memo

cdef long long MISSING
cdef long long RANDOM
cdef long long LONGEST_NS
cdef double LONGEST
cdef long long TOO_MUCH
cdef long long SAFE
cdef Py_ssize_t NOT_A_NUMBER
cdef Py_ssize_t NEGATIVE
cdef Py_ssize_t LONGER_THAN_SPAN
cdef Py_ssize_t OUTSIDE_SPAN
cdef Py_ssize_t NOT_A_COUNT
cdef Py_ssize_t SAMPLING
cdef Py_ssize_t CHOICES_FROM
cdef Py_ssize_t CHOICES_TO
cdef Py_ssize_t CLOCK
cdef Py_ssize_t RESOURCE
cdef Py_ssize_t SCOPE
cdef Py_ssize_t FACTS
cdef long long UNKNOWN

@cython.final
cdef class Recogniser:
    cdef public object strings
    cdef public object settings
    cdef readonly Py_ssize_t width
    cdef readonly list rules
    cdef public dict same_clock
    cdef public object dropped
    cdef public object ignored
    cdef readonly object last_seen
    cdef object tables
    cdef Memo memo
    cdef object code_rows
    cdef long long *code
    cdef object places_rows
    cdef long long *places
    cdef Py_ssize_t nothing
    cdef bytes fronts
    cdef const unsigned char *front_texts
    cdef long long status
    cdef long long label
    cdef long long post
    cdef bytes post_raw
    cdef const unsigned char *post_text
    cdef long long threshold
    cdef long long weight
    cdef long long sampled
    cdef bint honours_sampling
    cdef object nearest_rows
    cdef long long *nearest
    cdef object dropped_rows
    cdef long long *dropped_now
    cdef object ignored_rows
    cdef long long *ignored_now
    cdef object label_rows
    cdef long long *label_lists
    cdef object at_rows
    cdef long long *at
    cdef object last_rows
    cdef long long *last
    cdef object row_rows
    cdef long long *rows
    cdef object blank_rows
    cdef long long *blank
    cdef public long long generation
    cdef Py_ssize_t fact_width
    cdef object choices
    cdef object choice_rows
    cdef long long *candidates
    cdef dict runs
    cdef object fact_rows
    cdef long long *facts
    cdef Py_ssize_t group_room
    cdef readonly object batch
    cdef bytes body
    cdef const unsigned char *data
    cdef object head_rows
    cdef long long *heads
    cdef object attribute_rows
    cdef long long *attributes
    cdef object event_rows
    cdef long long *events
    cdef object link_rows
    cdef long long *links
    cdef bint by_end
    cdef long long seen_ns

    @cython.locals(spans=Py_ssize_t, index=Py_ssize_t, slot=Py_ssize_t)
    cpdef recognise(self, batch, long long generation, seen_ns)
    @cython.locals(place=Py_ssize_t)
    cdef int _sum_up(self) except -1
    @cython.locals(rows="long long *", heads="long long *", attributes="long long *", at="long long *",
                   code="long long *", group=Py_ssize_t, known=Py_ssize_t, start=Py_ssize_t,
                   stop=Py_ssize_t, place=Py_ssize_t, rule=Py_ssize_t, candidate=Py_ssize_t)
    cdef int _span(self, Py_ssize_t row, Py_ssize_t head) except -1
    @cython.locals(code="long long *", choice=Py_ssize_t, candidate=Py_ssize_t, kinds=cython.longlong)
    cdef inline Py_ssize_t _choose(self, Py_ssize_t known, long long kind) except -2
    @cython.locals(code="long long *", condition=Py_ssize_t, place=Py_ssize_t)
    cdef inline int _hold(self, Py_ssize_t start, Py_ssize_t stop) except -1
    @cython.locals(rows="long long *", code="long long *", number=Py_ssize_t, plain=Py_ssize_t, count=Py_ssize_t,
                   stamp=Py_ssize_t,
                   wish=Py_ssize_t,
                   stop=Py_ssize_t,
                   place=Py_ssize_t, outcome=cython.longlong)
    cdef inline int _fill(self, Py_ssize_t row, Py_ssize_t head, Py_ssize_t rule) except -1
    @cython.locals(rows="long long *", code="long long *", number=Py_ssize_t, kind=Py_ssize_t, stop=Py_ssize_t,
                   silent=cython.bint)
    cdef int _fill_record(self, Py_ssize_t row, Py_ssize_t head, Py_ssize_t rule) except -1
    @cython.locals(start=Py_ssize_t, stop=Py_ssize_t, place=Py_ssize_t, slot=Py_ssize_t)
    cdef int _leave_out(self, Py_ssize_t head, long long question) except -1
    @cython.locals(rows="long long *", of_logs=cython.bint, way=Py_ssize_t, time=cython.longlong, inside=cython.bint)
    cdef int _stamp(self, Py_ssize_t row, Py_ssize_t head, Py_ssize_t rule, Py_ssize_t cell, Py_ssize_t start,
                    Py_ssize_t stop) except -1
    @cython.locals(rows="long long *", code="long long *", slot=Py_ssize_t, unit_ns=cython.longlong,
                   base=cython.longlong, length=cython.longlong, interval=cython.longlong)
    cdef inline int64_t _time(self, Py_ssize_t row, Py_ssize_t head, Py_ssize_t way, bint of_logs) except? -77
    @cython.locals(heads="long long *", events="long long *", code="long long *", nearest="long long *",
                   event=cython.longlong, last=cython.bint, skip=Py_ssize_t, where=Py_ssize_t, until=Py_ssize_t,
                   found=Py_ssize_t, index=Py_ssize_t, place=Py_ssize_t, time=cython.longlong, slot=Py_ssize_t)
    cdef int64_t _event_time(self, Py_ssize_t head, Py_ssize_t way) except? -77
    @cython.locals(code="long long *", condition=Py_ssize_t, place=Py_ssize_t)
    cdef int _event_holds(self, Py_ssize_t event, Py_ssize_t start, Py_ssize_t stop) except -1
    @cython.locals(index=Py_ssize_t)
    cdef Py_ssize_t _event_attribute(self, Py_ssize_t event, long long slot) noexcept
    @cython.locals(slot=cython.longlong, event=cython.longlong, index=Py_ssize_t, place=Py_ssize_t)
    cdef inline Py_ssize_t _wish(self, Py_ssize_t head, Py_ssize_t wish) noexcept
    @cython.locals(code="long long *", wish=Py_ssize_t, place=Py_ssize_t, stop=Py_ssize_t)
    cdef inline int _stream(self, Py_ssize_t row, Py_ssize_t head, Py_ssize_t rule) except -1
    @cython.locals(code="long long *", wish=Py_ssize_t, place=Py_ssize_t, status=cython.longlong, stop=Py_ssize_t)
    cdef inline int _status(self, Py_ssize_t row, Py_ssize_t head, Py_ssize_t rule) except -1
    @cython.locals(data="const unsigned char *", kind=cython.longlong, status=cython.longlong, size=cython.longlong)
    cdef inline int64_t _status_at(self, Py_ssize_t place) except? -77
    @cython.locals(place=Py_ssize_t)
    cdef inline bint _are_digits(self, Py_ssize_t at, Py_ssize_t size) noexcept
    @cython.locals(place=Py_ssize_t, value=cython.longlong)
    cdef inline int64_t _interval(self, Py_ssize_t slot, long long unit_ns, long long length) except? -77
    @cython.locals(cell=Py_ssize_t, place=Py_ssize_t, value=cython.longlong)
    cdef inline int64_t _count(self, Py_ssize_t start, Py_ssize_t stop) except? -77
    @cython.locals(kind=cython.longlong, value=double)
    cdef inline int64_t _number(self, Py_ssize_t place, long long unit_ns) except? -77
    cdef inline int64_t _times(self, long long value, long long unit_ns) noexcept
    @cython.locals(data="const unsigned char *", at=Py_ssize_t, stop=Py_ssize_t, start=Py_ssize_t,
                   whole=cython.longlong, part=cython.longlong, scale=cython.longlong)
    cdef int64_t _decimal(self, Py_ssize_t place, long long unit_ns) except? -77
    @cython.locals(code="long long *", place=Py_ssize_t, start=Py_ssize_t, raw=bytes)
    cdef inline int _request_id(self, Py_ssize_t row, Py_ssize_t rule) except -1
    @cython.locals(code="long long *", first=Py_ssize_t, end=Py_ssize_t, front=Py_ssize_t, last=Py_ssize_t,
                   size=Py_ssize_t, number=cython.longlong, whole=cython.bint)
    cdef inline int _read_id(self, Py_ssize_t row, Py_ssize_t rule, const unsigned char *data, Py_ssize_t start,
                      Py_ssize_t stop) except -1
    @cython.locals(at=Py_ssize_t, size=Py_ssize_t)
    cdef inline bint _may_be_choice(self, Py_ssize_t rule, const unsigned char *data, Py_ssize_t start,
                             Py_ssize_t stop) noexcept
    @cython.locals(code="long long *", at=Py_ssize_t, place=Py_ssize_t, front=Py_ssize_t, last=Py_ssize_t,
                   size=Py_ssize_t)
    cdef inline Py_ssize_t _unnumbered(self, Py_ssize_t rule, const unsigned char *data, Py_ssize_t start,
                                Py_ssize_t stop) noexcept
    @cython.locals(whole=bytes, own=bytes)
    cdef int _ask_id(self, Py_ssize_t row, Py_ssize_t rule, bytes raw) except -1
    @cython.locals(rows="long long *", code="long long *", place=Py_ssize_t, method=Py_ssize_t)
    cdef inline int _route(self, Py_ssize_t row, Py_ssize_t rule) except -1
    @cython.locals(at=Py_ssize_t, short=cython.bint)
    cdef inline int _is_post(self, Py_ssize_t place) except -1
    @cython.locals(rows="long long *", code="long long *", index=Py_ssize_t, number=cython.longlong)
    cdef inline int _labels(self, Py_ssize_t row, Py_ssize_t rule, Py_ssize_t known) except -1
    @cython.locals(place=Py_ssize_t)
    cdef inline int64_t _label(self, Py_ssize_t start, Py_ssize_t stop) except? -77
    @cython.locals(heads="long long *", at=Py_ssize_t, size=Py_ssize_t, threshold=cython.longlong,
                   weight=cython.longlong)
    cdef int64_t _weight(self, Py_ssize_t head) except? -77
    @cython.locals(place=Py_ssize_t)
    cdef bint _says_random(self, Py_ssize_t at, Py_ssize_t size) noexcept
    @cython.locals(cell=Py_ssize_t, place=Py_ssize_t)
    cdef inline Py_ssize_t _first(self, Py_ssize_t start, Py_ssize_t stop) noexcept
    @cython.locals(attributes="long long *")
    cdef inline int64_t _ask(self, long long question, Py_ssize_t place) except? -77
    @cython.locals(attributes="long long *", kind=cython.longlong, value=cython.longlong)
    cdef str _text(self, Py_ssize_t place)
