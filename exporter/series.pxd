# Types for the compiled build; series.py is the program.
cimport cython
from exporter.account cimport Cells

@cython.final
cdef class Series:
    cdef public tuple labels
    cdef public Cells cells
    cdef public Py_ssize_t place
    cdef public dict ttft
    cdef public dict tpot
    cdef public dict completion
    cdef public dict phase
