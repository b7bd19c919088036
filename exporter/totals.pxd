# Types for the compiled build; totals.py is the program.
cimport cython

from exporter cimport ahead
cimport exporter.decode.words as pointers

from exporter.grain cimport Run

cdef long long UNIT
cdef int UNIT_BITS
cdef long long LIMIT
cdef Py_ssize_t PAGE
cdef int PAGE_BITS
cdef Py_ssize_t PAGES
cdef int NIBBLES
cdef int BYTES
cdef int SHORTS
cdef int AMOUNTS
cdef long long ELSEWHERE
cdef unsigned long long LOW
cdef unsigned long long EVEN
cdef Py_ssize_t FIRST_EXTENT
cdef Py_ssize_t EXTENT
cdef Py_ssize_t START
cdef Py_ssize_t FIRST
cdef Py_ssize_t LENGTH
cdef Py_ssize_t LIVE
cdef long long NEAR
cdef Py_ssize_t QUEUE

@cython.final
cdef class Pool:
    cdef readonly object cells
    cdef object used_ground, spare_ground
    cdef Py_ssize_t bits, pages, fresh, spares
    cdef unsigned char[::1] used
    cdef int[::1] spare

    cdef int grow(self) except -1
    cdef Py_ssize_t take(self) except -2
    cdef int give_back(self, Py_ssize_t page) except -1

@cython.final
cdef class Totals:
    cdef Py_ssize_t windows
    cdef dict rows
    cdef list spare_rows
    cdef object near_ground, extents_ground, directory_ground, row_ground
    cdef readonly list series
    cdef int[::1] near
    cdef int[::1] extents
    cdef int[::1] directory
    cdef Py_ssize_t directory_used
    cdef dict spare_parts
    cdef Pool nibble_pool
    cdef Pool byte_pool
    cdef Pool short_pool
    cdef Pool amount_pool
    cdef dict beyond
    cdef readonly Py_ssize_t queued
    cdef int[::1] queue_slots
    cdef Py_ssize_t visits
    cdef int[::1] visit_places, visit_pages, visit_starts
    cdef list emptied
    cdef long long[::1] row_series
    cdef long long[::1] queue_amounts
    cdef long long[::1] page_sums
    cdef unsigned char[::1] nibbles
    cdef unsigned long long[::1] nibble_words
    cdef unsigned char[::1] bytes
    cdef unsigned long long[::1] words
    cdef unsigned short[::1] shorts
    cdef long long[::1] amounts
    cdef unsigned char[::1] nibble_used
    cdef unsigned char[::1] byte_used

    cdef Py_ssize_t place(self, Py_ssize_t window, long long series) except -1
    @cython.locals(row=Py_ssize_t, place=Py_ssize_t)
    cdef void tidy(self, long long series) except *
    @cython.locals(place=Py_ssize_t)
    cpdef int add(self, Py_ssize_t window, long long series, Py_ssize_t slot, amount) except -1
    @cython.locals(window=Py_ssize_t)
    cdef int queue_one(self, list windows, long long series, Py_ssize_t slot, long long amount) except -1
    @cython.locals(place=Py_ssize_t, last=int, slot=int, index=size_t, slots="int *", amounts="long long *",
                   run_slots="int *", run_amounts="long long *")
    cdef int queue(self, Py_ssize_t window, long long series, Run run, int sign) except -1
    cdef int _visit(self, Py_ssize_t place, Py_ssize_t page) except -1
    @cython.locals(visit=Py_ssize_t)
    cdef void flush(self) except *
    @cython.locals(visit=size_t, extent=size_t, at=int, handle=int, places="int *", pages="int *", extents="int *",
                   directory="int *")
    cdef int _touch(self) except -1
    @cython.locals(extents="int *", directory="int *", nibbles="unsigned char *", nibble_used="unsigned char *",
                   bytes_="unsigned char *", byte_used="unsigned char *", slots="int *", amounts="long long *",
                   visit=size_t, place=Py_ssize_t, handle=int, kind=int, page=size_t, at=size_t, cell=size_t, done=bint)
    cdef Py_ssize_t _add_queued(self, Py_ssize_t first) except -1
    cdef inline int _small(self, int kind, Py_ssize_t cell) except -1
    @cython.locals(shift=int)
    cdef inline int _set_small(self, int kind, Py_ssize_t cell, int total) except -1
    @cython.locals(handle=Py_ssize_t, kind=int, number=Py_ssize_t, cell=Py_ssize_t, old="long long",
                   total="long long", wanted=int)
    cdef void change(self, Py_ssize_t place, Py_ssize_t slot, long long amount) except *
    @cython.locals(page=Py_ssize_t, handle=Py_ssize_t, cell=Py_ssize_t, old="long long")
    cdef int _change_large(self, Py_ssize_t place, Py_ssize_t slot, amount) except -1
    @cython.locals(place=Py_ssize_t, page=Py_ssize_t, handle=Py_ssize_t)
    cpdef int clear(self, Py_ssize_t window) except -1

    @cython.locals(place=Py_ssize_t, page=Py_ssize_t, handle=Py_ssize_t, slot=Py_ssize_t, total="long long")
    cpdef dict slots(self, Py_ssize_t window, long long series)
    @cython.locals(handle=Py_ssize_t, total="long long")
    cpdef object total(self, Py_ssize_t window, long long series, Py_ssize_t slot)
    cpdef list numbers(self, Py_ssize_t window)
    cpdef bint has(self, Py_ssize_t window, long long series)
    @cython.locals(place=Py_ssize_t, start=Py_ssize_t, at=Py_ssize_t, whole="long long", amount="long long")
    cpdef tuple ranked(self, Py_ssize_t window, long long series, shares)
    @cython.locals(at=Py_ssize_t, handle=Py_ssize_t, below="long long", slot=Py_ssize_t)
    cdef Py_ssize_t _slot_at(self, Py_ssize_t place, long long needed) except -1
    @cython.locals(kind=int, number=Py_ssize_t, bytes_of="unsigned long long", lanes="unsigned long long", word="unsigned long long", at=Py_ssize_t,
                   whole="long long", cell=Py_ssize_t, amount="long long", value="long long")
    cdef Py_ssize_t _page_sum(self, Py_ssize_t handle) except -1
    @cython.locals(kind=int, cell=Py_ssize_t, value="long long")
    cdef Py_ssize_t _amount(self, Py_ssize_t handle, Py_ssize_t slot) except? -1

    @cython.locals(at=Py_ssize_t)
    cdef Py_ssize_t _find(self, Py_ssize_t place, Py_ssize_t page) except -1
    @cython.locals(handle=Py_ssize_t)
    cdef Py_ssize_t _make(self, Py_ssize_t place, Py_ssize_t page) except -1
    @cython.locals(kind=int, number=Py_ssize_t, pool=Pool)
    cdef int _note(self, Py_ssize_t place, Py_ssize_t page, Py_ssize_t handle, int change) except -1
    cdef int _give_back(self, Py_ssize_t place, Py_ssize_t page, Py_ssize_t handle) except -1
    @cython.locals(wide=Py_ssize_t, base=Py_ssize_t, slot=Py_ssize_t, amount="long long", old=Pool, new=Pool)
    cdef Py_ssize_t _widen(self, Py_ssize_t place, Py_ssize_t page, Py_ssize_t handle, int kind) except -1
    @cython.locals(number=Py_ssize_t, cell=Py_ssize_t, kind=int, pool=Pool)
    cdef int _wipe(self, Py_ssize_t handle) except -1
    cdef Pool _pool(self, int kind)
    @cython.locals(pool=Pool, page=Py_ssize_t)
    cdef Py_ssize_t _take(self, int kind) except -1
    cdef int _look(self) except -1
    cdef int _look_away(self) except -1
    @cython.locals(first=Py_ssize_t, stop=Py_ssize_t, length=Py_ssize_t, extent=Py_ssize_t, start=Py_ssize_t, at=Py_ssize_t, shift=Py_ssize_t)
    cdef int _extend(self, Py_ssize_t place, Py_ssize_t page) except -1
    @cython.locals(start=Py_ssize_t, size=Py_ssize_t)
    cdef Py_ssize_t _part(self, Py_ssize_t length) except -1
    @cython.locals(row=Py_ssize_t)
    cdef Py_ssize_t _new_row(self, long long series) except -1
    @cython.locals(count=Py_ssize_t, places=Py_ssize_t)
    cdef int _more_rows(self) except -1

cdef long long _rank(long long whole, numerator, denominator) except -1
@cython.locals(at=int)
cdef inline int _handle(int *extents, int *directory, size_t place, int page) noexcept
@cython.locals(shift=int, old=int)
cdef inline bint _count_nibble(
    unsigned char *nibbles, unsigned char *used, size_t page, size_t cell, long long amount) noexcept
@cython.locals(old=int)
cdef inline bint _count_byte(
    unsigned char *bytes_, unsigned char *used, size_t page, size_t cell, long long amount) noexcept
