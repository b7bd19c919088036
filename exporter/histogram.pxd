# Types for the compiled build; histogram.py is the program.
cimport cython

cdef long long OWN_HALF_BITS
cdef long long LONGEST_NS
cdef long long TOP
cdef const unsigned char[::1] LENGTHS

@cython.locals(value=cython.longlong, rest=cython.longlong, shift=cython.longlong)
cpdef long long own_slot(long long duration_ns) except? -1
@cython.locals(index=size_t, longest=cython.longlong, duration_ns=cython.longlong)
cpdef long long own_slots(long long[::1] durations_ns, long long[::1] slots, Py_ssize_t count) except? -1
