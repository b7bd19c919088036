# Types for the compiled build; memo.py is the program.
cimport cython
from libc.stdint cimport int64_t

cimport exporter.decode.words as words

cdef Py_ssize_t TRIES
cdef Py_ssize_t MARK
cdef Py_ssize_t KEY
cdef Py_ssize_t HEAD
cdef Py_ssize_t TAIL
cdef Py_ssize_t ANSWER
cdef Py_ssize_t SECOND
cdef Py_ssize_t TEXT
cdef Py_ssize_t ENTRY
cdef Py_ssize_t SHORT
cdef long long SIZES

@cython.final
cdef class Memo:
    cdef object answers
    cdef Py_ssize_t limit
    cdef long long mask
    cdef Py_ssize_t longest
    cdef unsigned long long seed
    cdef object entry_rows
    cdef long long *entries
    cdef object latest_rows
    cdef long long *latest
    cdef bytearray room
    cdef const unsigned char *texts
    cdef Py_ssize_t used
    cdef Py_ssize_t count
    cdef public long long second

    @cython.locals(place=Py_ssize_t)
    cpdef int forget(self) except -1
    @cython.locals(raw=bytes)
    cpdef int64_t answer(self, int64_t question, str text) except? -77
    @cython.locals(entries="long long *", key=cython.longlong, entry=Py_ssize_t)
    cdef inline int64_t ask(self, int64_t question, const unsigned char *data, Py_ssize_t at,
                            Py_ssize_t size) except? -77
    @cython.locals(entries="long long *")
    cdef inline bint holds(self, Py_ssize_t entry, const unsigned char *data, Py_ssize_t at, Py_ssize_t size) noexcept
    @cython.locals(entries="long long *", mark=cython.longlong, key=cython.longlong, place=Py_ssize_t,
                   entry=Py_ssize_t, known=cython.bint, _=Py_ssize_t)
    cdef int64_t look_up(self, int64_t question, const unsigned char *data, Py_ssize_t at, Py_ssize_t size) except? -77
    @cython.locals(answer=cython.longlong, size=Py_ssize_t, place=Py_ssize_t, entry=Py_ssize_t, _=Py_ssize_t)
    cdef int64_t learn(self, int64_t question, bytes raw, long long mark) except? -77
