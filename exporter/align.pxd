# Types for the compiled build; align.py is the program.
cdef class Offsets:
    cdef public dict pairs
    cdef public long long version
