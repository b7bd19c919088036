# Types for the compiled build; marks.py is the program.
cimport cython

from exporter cimport ahead
cimport exporter.decode.words as pointers

cdef int PART_BITS
cdef Py_ssize_t BUCKET
cdef Py_ssize_t SPARSE
cdef unsigned long long DOUBLED
cdef unsigned long long TURN
cdef unsigned long long HALF

@cython.final
cdef class Part:
    cdef unsigned long long buckets
    cdef readonly Py_ssize_t held
    cdef readonly unsigned long long[::1] cells

    cdef Py_ssize_t first(self, unsigned long long mark) except -1
    cdef Py_ssize_t second(self, unsigned long long mark) except -1
    cdef int touch(self, unsigned long long mark) except -1
    cpdef bint has(self, unsigned long long mark) except -1
    @cython.locals(cells="unsigned long long *", at=size_t, count=int, same=int)
    cdef Py_ssize_t seek(self, size_t bucket, unsigned long long key) except -2
    @cython.locals(bucket=size_t, other=size_t, key="unsigned long long", count=Py_ssize_t, other_count=Py_ssize_t, at=Py_ssize_t)
    cdef bint put(self, unsigned long long mark, unsigned long long turn) except -1
    @cython.locals(at=Py_ssize_t)
    cdef Py_ssize_t make_room(self, Py_ssize_t bucket, Py_ssize_t other) except -2
    @cython.locals(mark="unsigned long long", to=Py_ssize_t, count=Py_ssize_t)
    cdef bint move(self, Py_ssize_t at, Py_ssize_t bucket) except -1
    @cython.locals(old="unsigned long long[::1]", at=Py_ssize_t)
    cdef int resize(self, unsigned long long buckets) except -1
    @cython.locals(cells="unsigned long long[::1]", left=Py_ssize_t, bucket=size_t, to=size_t, at=size_t)
    cpdef int sweep(self, unsigned long long turn) except -1

@cython.final
cdef class Fingerprints:
    cdef readonly unsigned long long kept, now
    cdef readonly list parts
    cdef Py_ssize_t swept

    @cython.locals(part=Part)
    cpdef bint add(self, unsigned long long mark) except -1
    @cython.locals(part=Part)
    cdef int touch(self, unsigned long long mark) except -1
