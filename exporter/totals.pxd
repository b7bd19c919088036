# Types for the compiled build; totals.py is the program.
cimport cython

from exporter cimport ahead

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

cdef class Pool:
    cdef readonly object cells
    cdef object used_ground, spare_ground
    cdef Py_ssize_t bits, pages, fresh, spares
    cdef unsigned char[::1] used
    cdef int[::1] spare

    cdef void grow(self) except *
    cdef Py_ssize_t take(self) except -2
    cdef int give_back(self, Py_ssize_t page) except -1

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
    cdef long long taken
    cdef readonly Py_ssize_t queued
    cdef int[::1] queue_places
    cdef int[::1] queue_slots
    cdef list emptied
    cdef long long[::1] row_series
    cdef long long[::1] queue_amounts
    cdef long long[::1] queue_cells
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
    cpdef void add(self, Py_ssize_t window, long long series, Py_ssize_t slot, amount) except *
    @cython.locals(window=Py_ssize_t)
    cdef int queue_one(self, list windows, long long series, Py_ssize_t slot, long long amount) except -1
    @cython.locals(place=Py_ssize_t, done=Py_ssize_t, at=Py_ssize_t, count=Py_ssize_t, index=Py_ssize_t,
                   slots="int[::1]", places="int[::1]", amounts="long long[::1]")
    cdef int queue(self, Py_ssize_t window, long long series, Run run, int sign) except -1
    @cython.locals(taken="long long", at=Py_ssize_t, cell=Py_ssize_t, amount="long long", old=int, kind=int,
                   slots="int[::1]", places="int[::1]", amounts="long long[::1]", cells="long long[::1]")
    cdef void flush(self) except *
    @cython.locals(at=Py_ssize_t, cell=Py_ssize_t, slot=int, page=int, place=int, last_place=int,
                   last_page=int, base="long long", slots="int[::1]", places="int[::1]", cells="long long[::1]")
    cdef void _look_up(self) except *
    @cython.locals(at=Py_ssize_t, handle=Py_ssize_t)
    cdef inline Py_ssize_t _cell(self, Py_ssize_t place, Py_ssize_t slot) except -2
    cdef inline bint _use(self, int kind, Py_ssize_t page) except -1
    cdef inline int _small(self, int kind, Py_ssize_t cell) except -1
    @cython.locals(shift=int)
    cdef inline int _set_small(self, int kind, Py_ssize_t cell, int total) except -1
    @cython.locals(handle=Py_ssize_t, kind=int, number=Py_ssize_t, cell=Py_ssize_t, old="long long",
                   total="long long", wanted=int)
    cdef void change(self, Py_ssize_t place, Py_ssize_t slot, long long amount) except *
    @cython.locals(page=Py_ssize_t, handle=Py_ssize_t, cell=Py_ssize_t, old="long long")
    cdef void _change_large(self, Py_ssize_t place, Py_ssize_t slot, amount) except *
    @cython.locals(place=Py_ssize_t, page=Py_ssize_t, handle=Py_ssize_t)
    cpdef void clear(self, Py_ssize_t window) except *

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
    cdef long long _page_sum(self, Py_ssize_t handle) except -1
    @cython.locals(kind=int, cell=Py_ssize_t, value="long long")
    cdef long long _amount(self, Py_ssize_t handle, Py_ssize_t slot) except? -1

    @cython.locals(at=Py_ssize_t)
    cdef Py_ssize_t _find(self, Py_ssize_t place, Py_ssize_t page) except -1
    @cython.locals(handle=Py_ssize_t)
    cdef Py_ssize_t _make(self, Py_ssize_t place, Py_ssize_t page) except -1
    @cython.locals(kind=int, number=Py_ssize_t, pool=Pool)
    cdef void _note(self, Py_ssize_t place, Py_ssize_t page, Py_ssize_t handle, int change) except *
    cdef void _give_back(self, Py_ssize_t place, Py_ssize_t page, Py_ssize_t handle) except *
    @cython.locals(wide=Py_ssize_t, base=Py_ssize_t, slot=Py_ssize_t, amount="long long", old=Pool, new=Pool)
    cdef Py_ssize_t _widen(self, Py_ssize_t place, Py_ssize_t page, Py_ssize_t handle, int kind) except -1
    @cython.locals(number=Py_ssize_t, cell=Py_ssize_t, kind=int, pool=Pool)
    cdef void _wipe(self, Py_ssize_t handle) except *
    cdef Pool _pool(self, int kind)
    @cython.locals(pool=Pool, page=Py_ssize_t)
    cdef Py_ssize_t _take(self, int kind) except -1
    cdef void _look(self) except *
    cdef void _look_away(self) except *
    @cython.locals(first=Py_ssize_t, stop=Py_ssize_t, length=Py_ssize_t, extent=Py_ssize_t, start=Py_ssize_t, at=Py_ssize_t, shift=Py_ssize_t)
    cdef void _extend(self, Py_ssize_t place, Py_ssize_t page) except *
    @cython.locals(start=Py_ssize_t, size=Py_ssize_t)
    cdef Py_ssize_t _part(self, Py_ssize_t length) except -1
    @cython.locals(row=Py_ssize_t)
    cdef Py_ssize_t _new_row(self, long long series) except -1
    @cython.locals(count=Py_ssize_t, places=Py_ssize_t)
    cdef void _more_rows(self) except *

cdef long long _rank(long long whole, numerator, denominator) except -1
