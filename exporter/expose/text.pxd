# Types for the compiled build; text.py is the program.
cimport cython

from exporter.account cimport Cells

cdef Py_ssize_t CHUNK
cdef long long EXACT_SUM
cdef long long LARGE
cdef long long WEIGHT_BITS
cdef long long WEIGHT_MASK
cdef Py_ssize_t STRIDE
cdef Py_ssize_t SEEN
cdef Py_ssize_t OF_SUM
cdef long long SECOND
cdef long long MS
cdef unsigned long long MASK

cdef class Grid:
    cdef readonly list ends
    cdef readonly bint in_ns
    cdef readonly list keys
    cdef readonly list middles
    cdef readonly list numbers

    cpdef void add(self, tuple key, tuple middle, numbers) except *

cdef class Histograms:
    cdef readonly Cells cells
    cdef readonly list keys
    cdef readonly list middles
    cdef readonly list edges
    cdef readonly list places

    cpdef void add(self, tuple key, tuple middle, tuple edges, place) except *
    cpdef object point(self, row)
    cdef bint carried(self, row) except -1

cdef class Page:
    cdef readonly bint openmetrics
    cdef dict all_known
    cdef public dict shown
    cdef public list pieces
    cdef public Py_ssize_t lines
    cdef object spec
    cdef str name
    cdef tuple names
    cdef dict known
    cdef dict kept
    cdef tuple middle_names
    cdef dict middles
    cdef Py_ssize_t at
    cdef object edges
    cdef list ends
    cdef dict texts

    cpdef bytes take(self)
    cdef void get_ready(self, points) except *
    cdef void use_labels(self, tuple names) except *
    @cython.locals(text=str)
    cdef str labels(self, tuple key)
    @cython.locals(text=str, more=str)
    cdef str both(self, tuple key, tuple middle)
    cdef void point(self, point) except *
    @cython.locals(keys=list, middles=list)
    cdef Py_ssize_t grid(self, Grid grid, Py_ssize_t row) except -1
    @cython.locals(start=str, pieces=list, texts=dict, at=Py_ssize_t, end=str, text=str)
    cdef void grid_row(self, str labels, list numbers, bint in_ns) except *
    @cython.locals(keys=list, middles=list, labels=str, carried=dict, inexact=bint)
    cdef Py_ssize_t histograms(self, Histograms columns, Py_ssize_t row) except -1
    @cython.locals(ends=list, pieces=list, openmetrics=bint, start=str, braced=str, begun=Py_ssize_t, text=str,
                   cumulative="long long", number="long long", at=Py_ssize_t, bucket=Py_ssize_t, whole="long long",
                   rest="long long", spelt=str)
    cdef bint histogram(self, str labels, long long[::1] cells, Py_ssize_t place) except -1
    cdef str seen(self, long long[::1] cells, Py_ssize_t at)

cdef str requests(weight)
cdef str exact(long long weight)
cdef str seconds(ns)
cdef str weighted_seconds(total)
@cython.locals(rest="long long")
cdef str decimal(long long ns)
cdef object exact_sum(whole, rest)
@cython.locals(high="unsigned long long", low="unsigned long long", own="unsigned long long")
cdef str ids(long long hi, long long lo, long long span)
cdef str moment(ns)
@cython.locals(ms="long long", rest="long long")
cdef str clear_moment(long long ns)
