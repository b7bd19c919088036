# Types for the compiled build; script.py is the program.
cimport cython

from exporter.align cimport Offsets
cimport exporter.decode.words as pointers

cdef long long BUCKET_NS
cdef long long MOST
cdef long long MOST_LOADED
cdef long long HALF
cdef long long MISSING
cdef unsigned long long ODD
cdef unsigned long long MASK
cdef Py_ssize_t ENTRY
cdef Py_ssize_t ENTRIES
cdef Py_ssize_t MOST_CLOCKS

@cython.final
cdef class Site:
    cdef readonly long long low, high
    cdef readonly long long[::1] clocks
    cdef readonly Py_ssize_t count

@cython.final
cdef class Script:
    cdef readonly Offsets offsets
    cdef readonly list sites
    cdef long long[::1] word_cells, register_cells, loads
    cdef long long *words
    cdef long long *registers
    cdef Py_ssize_t split, length, loaded, all_loaded

    @cython.locals(load=size_t, value="long long", loads="long long *", registers="long long *")
    cpdef bint begin(self, long long[::1] cells, long long[::1] places, bint observing) except -1
    cpdef bint go_on(self) except -1
    cpdef Py_ssize_t value(self, Py_ssize_t register) except? -1
    @cython.locals(at=size_t, code="long long", into=size_t, a=size_t, b=size_t, value="long long",
                   words="long long *", registers="long long *")
    cdef bint play(self, Py_ssize_t first, Py_ssize_t last, bint observing) except -1
    cdef bint small(self, long long one, long long other)
    @cython.locals(bucket="long long", at=Py_ssize_t, known="long long *")
    cdef bint along(self, Site site, long long time_ns) except -1
    @cython.locals(bucket="long long", high="long long", low="long long", at=Py_ssize_t, known="long long *",
                   held=bint)
    cdef int observe(self, Site site, long long time_ns) except -1
    @cython.locals(bucket="long long", known="long long *")
    cdef int tell(self, Site site, Py_ssize_t at, long long low, long long high, long long time_ns) except -1
    @cython.locals(place=Py_ssize_t)
    cdef list clocks_of(self, Site site)
    @cython.locals(mixed="unsigned long long", clocks="long long *", place=Py_ssize_t)
    cdef Py_ssize_t entry(self, Site site, long long bucket) except -1
    @cython.locals(clocks="long long *", place=Py_ssize_t)
    cdef bint holds(self, long long *known, Py_ssize_t at, Site site, long long bucket) except -1
    @cython.locals(place=Py_ssize_t)
    cdef int note(self, long long *known, Py_ssize_t at, Site site, long long bucket) except -1
