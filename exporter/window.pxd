# Types for the compiled build; window.py is the program.

cdef class Moment:
    cdef object grains
    cdef object late

    cpdef void add(self, long long series, Py_ssize_t slot, long long amount) except *
    cpdef void add_all(self, long long[::1] triples, Py_ssize_t count) except *
    cpdef void add_large(self, long long series, Py_ssize_t slot, amount) except *

cdef class Windows:
    cdef public dict windows
    cdef public list grains
    cdef public object now_ns
    cdef dict moments

    cpdef Moment at(self, long long time_ns)
    cpdef void add(self, long long time_ns, long long series, Py_ssize_t slot, amount) except *
    cpdef void advance(self, long long time_ns) except *
    cpdef void finish(self, long long time_ns) except *
