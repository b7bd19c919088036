# Types for the compiled build; readings.py is the program.
cimport cython
from exporter.expose.text cimport Grid

cdef class Readings:
    cdef object ranked
    cdef tuple lengths
    cdef list series
    cdef readonly dict percentiles
    cdef readonly Grid samples
    cdef readonly dict shown
    cdef readonly dict longest
    cdef dict ns

    @cython.locals(kind=str, key=tuple, counts=list, percentiles=list, slots=list)
    cpdef void read_series(self, tuple series) except *
    cdef void note(self, str kind, tuple key, length, list slots) except *
    cdef object reading(self, slot)
