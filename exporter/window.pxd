# Types for the compiled build; window.py is the program.
cimport cython

from exporter.grain cimport Grain, Reader
from exporter.totals cimport Totals

cdef long long SLOTS
cdef long long LIMIT
cdef Py_ssize_t KEPT
cdef long long LAST
cdef long long UNIT
cdef long long MOST_WEIGHT

@cython.final
cdef class Window:
    cdef readonly Py_ssize_t number
    cdef readonly object length_ns
    cdef readonly object grains
    cdef Mover mover
    cdef readonly long long size
    cdef readonly long long slice
    cdef readonly long long last
    cdef public long long entered
    cdef public long long left

@cython.final
cdef class Mover:
    cdef Totals counts
    cdef list windows
    cdef public list kept
    cdef public list readers

    cdef int settle(self) except -1
    cdef Py_ssize_t work(self, long long budget) except? -1
    @cython.locals(reader=Reader, series="long long", work=Py_ssize_t, window=Py_ssize_t, ended=bint)
    cdef Py_ssize_t next(self) except -1

@cython.final
cdef class Moment:
    cdef long long index
    cdef Grain grain
    cdef list others
    cdef list late
    cdef Totals totals

    @cython.locals(key="long long", grain=Grain)
    cpdef int add(self, long long series, Py_ssize_t slot, long long amount) except -1
    cpdef int add_product(self, long long series, Py_ssize_t slot, long long factor, long long weight) except -1
    @cython.locals(index=Py_ssize_t)
    cpdef int add_slots(self, long long series, long long[::1] slots, Py_ssize_t count, long long amount) except -1
    cpdef void add_large(self, long long series, Py_ssize_t slot, amount) except *

@cython.final
cdef class Windows:
    cdef readonly dict windows
    cdef readonly list grains
    cdef readonly object now_ns
    cdef readonly Totals counts
    cdef Mover mover
    cdef long long grain_ns

    @cython.locals(index="long long", found=Moment)
    cpdef Moment at(self, long long time_ns)
    cpdef bint is_at(self, Moment moment, long long time_ns) except -1
    cpdef int add(self, long long time_ns, long long series, Py_ssize_t slot, amount) except -1
    cpdef bint work(self, long long budget=*) except -1
    @cython.locals(window=Window)
    cpdef object total(self, length_ns, long long series, Py_ssize_t slot=*)
    @cython.locals(window=Window)
    cpdef object slots(self, length_ns, long long series)
    @cython.locals(window=Window)
    cpdef object ranked(self, length_ns, long long series, shares)

cdef object _times(factor, weight)
