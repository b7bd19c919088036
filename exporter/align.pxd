# Types for the compiled build; align.py is the program.
cdef class Recent:
    cdef readonly long long[::1] cells

cdef class Offsets:
    cdef public dict pairs
    cdef public long long version
    cdef readonly Recent asked, told
