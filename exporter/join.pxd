# Types for the compiled build; join.py is the program.
cimport cython

cdef unsigned long long ODD
cdef unsigned long long MASK
cdef unsigned long long SEED

cdef class Marks:
    cdef public Py_ssize_t count
    cdef Py_ssize_t limit
    cdef Py_ssize_t mask
    cdef unsigned long long[::1] table

    cpdef bint put(self, unsigned long long mark) except *
    cdef unsigned long long near(self, unsigned long long mark) except? 1
    @cython.locals(at=Py_ssize_t)
    cdef Py_ssize_t place(self, unsigned long long mark) except -1
    @cython.locals(marks="unsigned long long[::1]", mark="unsigned long long", index=Py_ssize_t)
    cdef void grow(self) except *

cdef class Fingerprints:
    cdef readonly Marks young, old

    @cython.locals(mark="unsigned long long")
    cdef bint add_row(self, long long[::1] rows, Py_ssize_t base) except *
    @cython.locals(mark="unsigned long long")
    cdef int touch(self, long long[::1] rows, Py_ssize_t base) except -1

@cython.locals(mark="unsigned long long", cell=Py_ssize_t)
cpdef unsigned long long mark_at(long long[::1] rows, Py_ssize_t base) except? 1

cpdef unsigned long long trace_key(long long high, long long low)
