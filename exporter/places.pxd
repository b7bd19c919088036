# Types for the compiled build; places.py is the program.
cimport cython

from exporter cimport ahead
cimport exporter.decode.words as pointers

cdef unsigned long long SEED
cdef unsigned long long ODD
cdef unsigned long long MASK
cdef long long NEVER

@cython.final
cdef class Some:
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t mask
    cdef unsigned long long[::1] cells

    @cython.locals(mask=Py_ssize_t, cells="unsigned long long *", at=Py_ssize_t)
    cpdef Py_ssize_t find(self, unsigned long long key) except? -3
    cdef Py_ssize_t home(self, unsigned long long key)
    cdef int touch(self, unsigned long long key) except -1
    @cython.locals(mask=Py_ssize_t, cells="unsigned long long *", at=Py_ssize_t)
    cpdef int put(self, unsigned long long key, long long place) except -1
    @cython.locals(mask=Py_ssize_t, cells="unsigned long long *", at=Py_ssize_t)
    cpdef int remove(self, unsigned long long key) except -1
    @cython.locals(mask=Py_ssize_t, cells="unsigned long long *", at=Py_ssize_t)
    cdef int close(self, Py_ssize_t hole) except -1
    @cython.locals(old="unsigned long long[::1]", size=Py_ssize_t, at=Py_ssize_t)
    cdef int grow(self) except -1

@cython.final
cdef class Places:
    cdef list parts

    @cython.locals(part=Some)
    cpdef Py_ssize_t find(self, unsigned long long key) except? -3
    @cython.locals(part=Some)
    cdef int touch(self, unsigned long long key) except -1
    @cython.locals(part=Some)
    cpdef int put(self, unsigned long long key, long long place) except -1
    @cython.locals(part=Some)
    cpdef int remove(self, unsigned long long key) except -1

@cython.final
cdef class Stack:
    cdef readonly Py_ssize_t count
    cdef readonly long long[::1] places

    cpdef int push(self, long long place) except -1
    cpdef Py_ssize_t pop(self) except? -3

@cython.final
cdef class Queue:
    cdef readonly long long first, popped
    cdef long long grace
    cdef object times_ground, places_ground
    cdef long long[::1] times
    cdef int[::1] places
    cdef long long[::1] heap
    cdef Py_ssize_t room
    cdef Py_ssize_t head, tail
    cdef readonly Py_ssize_t size

    @cython.locals(mask=Py_ssize_t, at=Py_ssize_t)
    cpdef int push(self, long long time, long long place, long long[::1] slots) except -1
    @cython.locals(at=Py_ssize_t, place=Py_ssize_t)
    cpdef Py_ssize_t pop(self) except? -3
    cdef int find_first(self) except -1
    @cython.locals(mask=Py_ssize_t, tail=Py_ssize_t, place=Py_ssize_t, size=Py_ssize_t, time="long long", slot="long long")
    cdef int tidy(self, long long[::1] slots) except -1
    cdef bint counts(self, long long time, Py_ssize_t at, long long[::1] slots) except -1
    @cython.locals(room=Py_ssize_t, count=Py_ssize_t, head=Py_ssize_t, at=Py_ssize_t)
    cdef int grow_ring(self) except -1
    @cython.locals(old="long long[::1]", heap="long long[::1]", at=Py_ssize_t, above=Py_ssize_t)
    cdef int push_heap(self, long long time, long long place) except -1
    @cython.locals(heap="long long[::1]", found="long long", time="long long", place="long long",
                   size=Py_ssize_t, at=Py_ssize_t, below=Py_ssize_t)
    cdef Py_ssize_t pop_heap(self) except? -3

@cython.final
cdef class Ranked:
    cdef long long[::1] heap
    cdef readonly Py_ssize_t size

    @cython.locals(at=Py_ssize_t)
    cpdef int push(self, long long first, long long second, long long third, long long place) except -1
    @cython.locals(found="long long", size=Py_ssize_t, at=Py_ssize_t, below=Py_ssize_t, other=Py_ssize_t,
                   place="long long")
    cpdef Py_ssize_t pop(self, long long first, long long second, long long third) except? -3
    cdef bint is_after(self, Py_ssize_t at, long long first, long long second, long long third, long long place) except -1
    cdef int set(self, Py_ssize_t at, long long first, long long second, long long third, long long place) except -1
    @cython.locals(cell=Py_ssize_t)
    cdef int copy(self, Py_ssize_t at, Py_ssize_t to) except -1
