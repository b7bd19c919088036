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

cdef class Mover:
    cdef Totals counts
    cdef list windows
    cdef public list kept
    cdef public list readers

    cdef void settle(self) except *
    cdef long long work(self, long long budget) except? -1
    @cython.locals(reader=Reader, series="long long", work=Py_ssize_t, window=Py_ssize_t, ended=bint)
    cdef Py_ssize_t next(self) except -1

cdef class Moment:
    cdef long long index
    cdef Grain grain
    cdef list others
    cdef list late
    cdef Totals totals

    @cython.locals(key="long long", grain=Grain)
    cpdef void add(self, long long series, Py_ssize_t slot, long long amount) except *
    cpdef void add_product(self, long long series, Py_ssize_t slot, long long factor, long long weight) except *
    @cython.locals(index=Py_ssize_t)
    cpdef void add_slots(self, long long series, long long[::1] slots, Py_ssize_t count, long long amount) except *
    cpdef void add_large(self, long long series, Py_ssize_t slot, amount) except *

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
    cpdef void add(self, long long time_ns, long long series, Py_ssize_t slot, amount) except *
    cpdef bint work(self, long long budget=*) except *
    @cython.locals(window=Window)
    cpdef object total(self, length_ns, long long series, Py_ssize_t slot=*)
    @cython.locals(window=Window)
    cpdef object slots(self, length_ns, long long series)
    @cython.locals(window=Window)
    cpdef object ranked(self, length_ns, long long series, shares)

cdef object _times(factor, weight)
