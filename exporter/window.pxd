# Types for the compiled build; window.py is the program.
cimport cython

from exporter.grain cimport Grain, Reader
from exporter.totals cimport Totals

cdef long long SLOTS
cdef long long LIMIT
cdef Py_ssize_t KEPT

cdef class Window:
    cdef readonly Py_ssize_t number
    cdef readonly object length_ns
    cdef readonly object grains
    cdef readonly Totals counts
    cdef Moments moments
    cdef readonly long long size
    cdef readonly long long slice
    cdef readonly long long last
    cdef readonly long long entered
    cdef readonly long long left
    cdef list readers
    cdef int sign

    cpdef void settle(self) except *
    @cython.locals(reader=Reader)
    cpdef long long work(self, long long budget) except? -1
    @cython.locals(last="long long", each=Grain)
    cdef long long _begin(self, long long first, int sign) except? -1

cdef class Moment:
    cdef long long index
    cdef Grain grain
    cdef list others
    cdef list late
    cdef Totals totals

    @cython.locals(key="long long", grain=Grain)
    cpdef void add(self, long long series, Py_ssize_t slot, long long amount) except *
    @cython.locals(place=Py_ssize_t)
    cpdef void add_all(self, long long[::1] triples, Py_ssize_t count) except *
    cpdef void add_large(self, long long series, Py_ssize_t slot, amount) except *

cdef class Moments:
    cdef list kept
    cdef bint empty

    cdef void clear(self) except *

cdef class Windows:
    cdef readonly dict windows
    cdef readonly list grains
    cdef readonly object now_ns
    cdef readonly Totals counts
    cdef Moments moments
    cdef long long grain_ns

    @cython.locals(index="long long", found=Moment)
    cpdef Moment at(self, long long time_ns)
    cpdef void add(self, long long time_ns, long long series, Py_ssize_t slot, amount) except *
    cpdef bint work(self, long long budget=*) except *
    @cython.locals(window=Window)
    cpdef object total(self, length_ns, long long series, Py_ssize_t slot=*)
    @cython.locals(window=Window)
    cpdef object slots(self, length_ns, long long series)
    @cython.locals(window=Window)
    cpdef object ranked(self, length_ns, long long series, shares)
