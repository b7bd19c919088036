# Types for the compiled build; histogram.py is the program.
cimport cython

cimport exporter.decode.words as words

cdef long long OWN_HALF_BITS
cdef long long LONGEST_NS
cdef long long TOP

@cython.locals(value="unsigned long long", shift=int)
cpdef long long own_slot(long long duration_ns) except -1
cdef long long _beyond(long long duration_ns) except -1
@cython.locals(durations="long long *", to="long long *", index=Py_ssize_t, longest=cython.longlong,
               duration_ns=cython.longlong)
cpdef long long own_slots(long long[::1] durations_ns, long long[::1] slots, Py_ssize_t count) except? -1
