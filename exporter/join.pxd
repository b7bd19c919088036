# Types for the compiled build; join.py is the program.
cimport cython

cdef unsigned long long ODD
cdef unsigned long long MASK
cdef unsigned long long SEED

@cython.locals(mark="unsigned long long", cell=Py_ssize_t)
cpdef unsigned long long mark_at(long long[::1] rows, Py_ssize_t base) except? 1

cpdef unsigned long long trace_key(long long high, long long low)
