# Types for the compiled build; series.py is the program.
cimport cython
from exporter.account cimport Cells
from exporter.histogram cimport own_slot

cdef int SLOT_GROUP_BITS
cdef Py_ssize_t H_CHANGES
cdef Py_ssize_t H_BUCKETS
cdef Py_ssize_t H_BUCKET
cdef Py_ssize_t MORE_SLOTS

@cython.final
cdef class Edges:
    cdef public tuple edges_ns
    cdef public Py_ssize_t count
    cdef public Py_ssize_t size
    cdef public long long[::1] edges
    cdef public long long[::1] starts

    @cython.locals(place=Py_ssize_t)
    cpdef Py_ssize_t bucket(self, long long ns, long long slot) except -1

@cython.locals(at=Py_ssize_t, block="long long[::1]")
cpdef int count_value(
    Cells cells, Py_ssize_t place, Py_ssize_t bucket, long long ns, long long weight, long long trace_hi,
    long long trace_lo, long long span, long long time_ns) except -1

@cython.final
cdef class Distribution:
    cdef Cells cells
    cdef Py_ssize_t place
    cdef long long largest

    @cython.locals(at=Py_ssize_t)
    cpdef int add(self, long long value_ns, long long slot, long long weight) except -1

@cython.final
cdef class Series:
    cdef public tuple labels
    cdef public Cells cells
    cdef public Py_ssize_t place
    cdef public dict ttft
    cdef public dict tpot
    cdef public dict completion
    cdef public dict phase
