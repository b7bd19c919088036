# Types for the compiled build; express.py is the program.
cimport cython

from exporter cimport ahead
cimport exporter.decode.words as pointers

from exporter.join cimport mark_at, trace_key
from exporter.marks cimport Fingerprints
from exporter.places cimport Places, Queue, Ranked, Stack
from exporter.script cimport Script
from exporter.tally cimport Plan, Tally

cdef unsigned long long ODD
cdef unsigned long long MASK
cdef long long MISSING
cdef long long ELSEWHERE
cdef long long NEVER

cdef long long AHEAD_NS
cdef long long BUCKET_NS
cdef long long MOST_CREDIT
cdef Py_ssize_t TOGETHER
cdef Py_ssize_t ENOUGH
cdef Py_ssize_t ALIKE
cdef Py_ssize_t BY_ONE_PLAN
cdef Py_ssize_t NEAR
cdef Py_ssize_t TOUCHED
cdef Py_ssize_t GATHERED
cdef Py_ssize_t LINE
cdef Py_ssize_t LINES
cdef Py_ssize_t BESIDE
cdef Py_ssize_t MOST_ROWS
cdef Py_ssize_t ROWS_AT_ONCE

cpdef long long known_ns(long long newest_ns) except? -1
cpdef Py_ssize_t lines_of(Py_ssize_t cells)

@cython.final
cdef class Planned:
    cdef long long[::1] numbers
    cdef public Plan plan
    cdef public long long epoch
    cdef bint opened
    cdef Py_ssize_t waiting, last

@cython.final
cdef class Act:
    cdef readonly Script script
    cdef readonly long long stamp
    cdef readonly bint opened, halfway, passing, covering, in_windows
    cdef readonly long long members
    cdef long long[::1] fates, sheet, stores, copies, labels
    cdef Py_ssize_t size, stored, copied, labelled
    cdef readonly Py_ssize_t end, first
    cdef readonly tuple boundaries
    cdef readonly long long weight, negative
    cdef readonly int joined, unmatched, announced
    cdef public dict plans
    cdef readonly tuple alike

@cython.final
cdef class Shape:
    cdef long long[::1] look
    cdef readonly list acts
    cdef readonly long long misses, hopeless

@cython.final
cdef class Express:
    cdef readonly Tally tally
    cdef readonly object table, plan, row_ground, slot_ground
    cdef readonly bint replay
    cdef readonly Fingerprints fingerprints
    cdef unsigned long long[::1] marks
    cdef readonly Py_ssize_t width, kind_size
    cdef long long[::1] varying, fixed, cells, slots, kinds, kind_of, guesses, places, above, look, touched, fates
    cdef list free_rows
    cdef Stack free_slots
    cdef Py_ssize_t cells_used, looked, shaped, lined
    cdef long long newest, oldest
    cdef readonly Py_ssize_t kinds_known
    cdef readonly Places traces, ids
    cdef readonly Queue soon, later
    cdef readonly Ranked put_offs
    cdef long long[::1] put_off_slots
    cdef Py_ssize_t measured, to_measure
    cdef bint leaving
    cdef readonly dict shapes, plans
    cdef readonly Py_ssize_t planned_so_far, planned_in
    cdef long long[::1] dues
    cdef Py_ssize_t gathered, taken
    cdef long long[::1] sheets, befores, traffic, some, some_traffic
    cdef Py_ssize_t sheet_size, free_number, counted
    cdef readonly Py_ssize_t uncounted
    cdef list awaited
    cdef public list odd, lessons
    cdef public long long stamp
    cdef readonly long long credit
    cdef readonly long long grace_ns, max_age_ns
    cdef readonly long long open, stored, newest_ns, oldest_ns

    @cython.locals(index=Py_ssize_t, base=Py_ssize_t, end="long long")
    cpdef list receive(self, long long[::1] rows, Py_ssize_t count, long long now_ns, long long future_ns,
                       long long delay_ns, long long lateness_ns)
    cdef int touch_slot(self, size_t slot) except -1
    cdef int touch_row(self, size_t place) except -1
    @cython.locals(lines=Py_ssize_t, free=Stack)
    cdef int touch_free(self, Py_ssize_t kind) except -1
    @cython.locals(index=size_t, base=size_t, lines=Py_ssize_t, slot="long long", mark="unsigned long long")
    cdef int touch(self, long long[::1] rows, size_t first, size_t stop) except -1
    @cython.locals(key="unsigned long long", slot="long long", identity="long long", kind="long long", at=Py_ssize_t,
                   fits=bint, owner="long long")
    cdef bint take(self, long long[::1] rows, Py_ssize_t base) except -1
    cdef bint is_of(self, Py_ssize_t at, long long[::1] rows, Py_ssize_t base) except -1
    @cython.locals(slot="long long", at=Py_ssize_t)
    cdef Py_ssize_t begin(self, unsigned long long key, long long high, long long low, long long seen) except -1
    @cython.locals(free=Stack)
    cdef Py_ssize_t row_for(self, Py_ssize_t lines) except -1
    @cython.locals(first=Py_ssize_t, index=Py_ssize_t)
    cdef int add_rows(self, Stack free, Py_ssize_t size) except -1
    @cython.locals(count=Py_ssize_t, slot=Py_ssize_t)
    cdef int add_slots(self) except -1
    cdef int look_at(self, Py_ssize_t slot, long long due) except -1
    @cython.locals(place=size_t, at=size_t, cells="long long *", row="long long *", kinds="long long *", index=size_t,
                   more=size_t, seen="long long")
    cdef int store(self, Py_ssize_t slot, long long[::1] rows, Py_ssize_t base, long long kind) except -1
    cdef Py_ssize_t row_at(self, size_t at, size_t number) except -1
    cdef int note(self, size_t at, Py_ssize_t number, long long place) except -1
    @cython.locals(block=Py_ssize_t)
    cdef Py_ssize_t block_of(self, Py_ssize_t at) except -1
    @cython.locals(free=Stack)
    cdef int free_block(self, Py_ssize_t block) except -1
    @cython.locals(given="long long", row="long long *", varying="long long *", index=size_t, guess=size_t,
                   number="long long")
    cdef Py_ssize_t kind(self, long long[::1] rows, Py_ssize_t base) except -2
    cdef Py_ssize_t guess(self, long long[::1] rows, Py_ssize_t base) except -1
    cdef Py_ssize_t lines(self, Py_ssize_t kind) except -1
    @cython.locals(row="long long *", fixed="long long *", kinds="long long *", size=size_t, place=size_t,
                   differs="long long", index=size_t)
    cdef bint is_kind(self, long long number, long long[::1] rows, Py_ssize_t base, long long given) except -1
    @cython.locals(mixed="unsigned long long", index=Py_ssize_t, mask=Py_ssize_t, at=Py_ssize_t)
    cdef Py_ssize_t find_kind(self, long long[::1] rows, Py_ssize_t base, long long given) except -2
    @cython.locals(size=Py_ssize_t, number=Py_ssize_t, place=Py_ssize_t, more=Py_ssize_t, lines=Py_ssize_t, index=Py_ssize_t)
    cdef Py_ssize_t new_kind(self, long long[::1] rows, Py_ssize_t base, long long given, Py_ssize_t at) except -2
    @cython.locals(size=Py_ssize_t, mask=Py_ssize_t, place=Py_ssize_t, mixed="unsigned long long", index=Py_ssize_t,
                   at=Py_ssize_t)
    cdef int list_kind(self, Py_ssize_t number) except -1
    cdef unsigned long long mix(self, unsigned long long mixed, long long cell) noexcept
    @cython.locals(at=Py_ssize_t, index=Py_ssize_t)
    cpdef int drop(self, Py_ssize_t slot, bint known) except -1
    @cython.locals(free=Stack)
    cdef int free_row(self, Py_ssize_t place) except -1
    @cython.locals(at=Py_ssize_t, index=Py_ssize_t, identity="long long")
    cdef int unlist(self, Py_ssize_t slot) except -1
    @cython.locals(time="long long", slot="long long")
    cdef Py_ssize_t next_slot(self) except -2
    @cython.locals(time="long long")
    cpdef long long first_due(self)
    @cython.locals(time="long long", later="long long")
    cdef long long first_listed(self)
    cdef Py_ssize_t pop(self) except? -3
    @cython.locals(count=Py_ssize_t, due="long long", slot="long long", at=size_t, index=Py_ssize_t, row=Py_ssize_t,
                   identity="long long")
    cdef int gather(self, long long until) except -1
    @cython.locals(handed=Py_ssize_t, slot="long long")
    cpdef bint seal(self, long long now, long long until, Py_ssize_t most) except -1
    @cython.locals(at=Py_ssize_t, newest="long long", oldest="long long", due="long long", expiry="long long",
                   left="long long", alone=bint, shape=Shape, act=Act)
    cdef bint seal_slot(self, Py_ssize_t slot, long long now) except -1
    @cython.locals(left="long long", due="long long")
    cdef bint stay(self, Py_ssize_t slot, Act act, long long waiting, long long now) except -1
    @cython.locals(left="long long", found="long long", young="long long", row=Py_ssize_t, around="long long")
    cdef Py_ssize_t left(self, long long waiting, long long gone, long long now) except -2
    @cython.locals(row=Py_ssize_t, other=Py_ssize_t, place=size_t, span="long long", parent="long long",
                   around="long long")
    cdef bint find_above(self) except -1
    @cython.locals(due="long long", seen="long long", row=Py_ssize_t)
    cdef Py_ssize_t young_due(self, long long rows, long long now) except -1
    @cython.locals(seen="long long", row=Py_ssize_t)
    cdef int find_ages(self, long long rows) except -1
    @cython.locals(row=Py_ssize_t, identity="long long")
    cdef bint pass_on_ids(self, long long left) except -1
    @cython.locals(row=Py_ssize_t, room=Py_ssize_t, held="long long")
    cdef bint pass_on(self, long long identity, long long left) except -1
    cdef int go_on_with(self, Py_ssize_t slot, Act act, long long left, long long due) except -1
    @cython.locals(at=Py_ssize_t, kept=Py_ssize_t, row=Py_ssize_t, block=Py_ssize_t, announced="long long")
    cdef int thin_out(self, Py_ssize_t slot, long long left) except -1
    @cython.locals(at=Py_ssize_t)
    cdef bint wait(self, Py_ssize_t slot, Act act, long long expiry, long long now) except -1
    @cython.locals(place=Py_ssize_t, ready="long long")
    cdef int put_off(self, Py_ssize_t slot, Act act) except -1
    @cython.locals(slot=Py_ssize_t)
    cpdef Py_ssize_t measure(self, long long ready, long long start, long long span, long long now) except -2
    @cython.locals(slot=Py_ssize_t, index=Py_ssize_t, at=Py_ssize_t, row=Py_ssize_t)
    cdef int gather_put_off(self, long long ready, long long start, long long span) except -1
    @cython.locals(shape=Shape, act=Act, fits=bint)
    cdef bint measure_slot(self, Py_ssize_t slot, long long now) except -1
    cdef int miss(self, Py_ssize_t slot, Shape shape, bint whole) except -1
    @cython.locals(mixed="unsigned long long", shape=Shape)
    cdef Shape find_shape(self, Py_ssize_t slot)
    @cython.locals(index=Py_ssize_t)
    cdef bint looks_like(self, Shape shape) except -1
    @cython.locals(at=size_t, row=Py_ssize_t, place=Py_ssize_t, silent=bint)
    cdef bint line_up(self, Py_ssize_t slot) except -1
    cdef bint says_nothing(self, Py_ssize_t place) except -1
    @cython.locals(needed="long long", between="long long", row=Py_ssize_t, around="long long", place=Py_ssize_t)
    cdef bint part(self) except -1
    @cython.locals(index=Py_ssize_t, row=size_t, start="long long", end="long long", to=Py_ssize_t, before=size_t)
    cdef bint sort(self) except -1
    @cython.locals(mixed="unsigned long long", cells="long long *", places="long long *",
                   at=Py_ssize_t, index=Py_ssize_t, row=Py_ssize_t, other=Py_ssize_t, beside=Py_ssize_t, cell=Py_ssize_t,
                   span="long long", parent="long long", identity="long long", sequence="long long",
                   parent_is="long long", parent_as="long long", identity_as="long long",
                   sequence_as="long long", clock_as="long long", resource_as="long long")
    cdef unsigned long long describe(self, Py_ssize_t count, bint announced)
    @cython.locals(row=Py_ssize_t)
    cdef int settle_fates(self, Act act, long long left) except -1
    @cython.locals(planned=Planned, number=Py_ssize_t)
    cdef int count(self, Py_ssize_t slot, Act act, long long now) except -1
    cpdef int flush(self, long long now) except -1
    @cython.locals(act=Act, planned=Planned)
    cpdef bint flush_some(self, long long now, Py_ssize_t most) except -1
    @cython.locals(planned=Planned)
    cdef int touch_series(self, Py_ssize_t far, Py_ssize_t nearer) except -1
    @cython.locals(count=Py_ssize_t, number=Py_ssize_t, before=Py_ssize_t, index=Py_ssize_t, first=Py_ssize_t)
    cdef int count_some(self, Act act, Planned planned, long long now) except -1
    cpdef int earn(self, long long credit) except -1
    @cython.locals(to="long long *", registers="long long *", stores="long long *", copies="long long *", index=size_t)
    cdef int fill(self, Py_ssize_t slot, Act act, long long[::1] sheet, Py_ssize_t start) except -1
    @cython.locals(mixed="unsigned long long", index=Py_ssize_t, planned=Planned)
    cdef Planned planned(self, Act act)
    @cython.locals(plans=dict)
    cdef int forget_plans(self) except -1
    cdef Py_ssize_t label(self, Act act, Py_ssize_t index) except? -1
    @cython.locals(index=Py_ssize_t)
    cdef bint fits(self, Act act, Planned planned) except -1
