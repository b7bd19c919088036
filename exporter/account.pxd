# Types for the compiled build; account.py is the program.
cimport cython

cimport exporter.decode.words as pointers
from exporter.histogram cimport own_slot

cdef long long CARRY
cdef long long MOST_FACTOR
cdef long long MOST_WHOLE
cdef long long REST
cdef int WHOLE_BITS
cdef unsigned long long ODD
cdef unsigned long long MASK
cdef int GROUP_BITS
cdef Py_ssize_t BUCKET
cdef Py_ssize_t LINE
cdef Py_ssize_t SUM
cdef Py_ssize_t ALL_SLOTS
cdef Py_ssize_t ENDED

@cython.final
cdef class Cells:
    cdef object _ground
    cdef public long long[::1] cells
    cdef public Py_ssize_t used
    cdef public dict free
    cdef public dict carried

    cpdef Py_ssize_t allocate(self, Py_ssize_t size) except -1
    cpdef void release(self, Py_ssize_t place, Py_ssize_t size) except *
    @cython.locals(index=Py_ssize_t)
    cpdef void clear(self, Py_ssize_t place, Py_ssize_t size) except *
    @cython.locals(total=cython.longlong)
    cpdef int gain(self, Py_ssize_t place, long long amount) except -1
    cdef int _carry(self, Py_ssize_t place, amount) except -1
    @cython.locals(whole=cython.longlong, rest=cython.longlong)
    cpdef int gain_product(self, Py_ssize_t place, long long factor, long long weight) except -1
    cdef object _gain_beyond(self, place, factor, weight)
    cpdef object value(self, Py_ssize_t place)
    cdef object _exact(self, cell, carried)
    cpdef object product(self, Py_ssize_t place)
    cdef object _scaled(self, whole)
    cpdef void share(self, Py_ssize_t source, Py_ssize_t target) except *
    cpdef object take(self, Py_ssize_t place)

@cython.final
cdef class Sums:
    cdef public Py_ssize_t count
    cdef unsigned long long mask
    cdef int shift
    cdef long long[::1] table
    cdef dict carried

    @cython.locals(place=Py_ssize_t, total=cython.longlong)
    cpdef int add(self, long long key, long long amount) except -1
    cdef int _carry(self, key, amount) except -1
    @cython.locals(index="unsigned long long")
    cdef Py_ssize_t place(self, unsigned long long key) except -1
    @cython.locals(old="long long[::1]", index=Py_ssize_t, place=Py_ssize_t)
    cdef void grow(self) except *

@cython.final
cdef class Edges:
    cdef public tuple edges_ns
    cdef public Py_ssize_t count
    cdef public Py_ssize_t size
    cdef public long long[::1] edges
    cdef public long long[::1] starts

    @cython.locals(place=Py_ssize_t, edges="long long *")
    cpdef Py_ssize_t bucket(self, long long ns, long long slot) except -1
    cdef Py_ssize_t place(self, Py_ssize_t histogram, long long ns) except -1

@cython.locals(index=Py_ssize_t, ns=cython.longlong, bucket=Py_ssize_t, at=size_t, sheet=Py_ssize_t, last=Py_ssize_t,
               block="long long *", edges_ns="long long *", groups="long long *", values="long long *",
               layout_slots="long long *", begins="long long *", shown="long long *", whole=cython.longlong, plain=bint)
cpdef int count_values(
    Cells cells, Py_ssize_t place, Edges edges, long long[::1] values_ns, long long[::1] slots, Py_ssize_t count,
    long long weight, long long[::1] sheets, long long[::1] starts, Py_ssize_t first, Py_ssize_t base) except -1

@cython.final
cdef class Distributions:
    cdef public long long[::1] slots
    cdef public Cells sums
    cdef public Py_ssize_t place
    cdef public long long[::1] largest
    cdef public dict carried

    @cython.locals(index=size_t, at=size_t, total=cython.longlong)
    cpdef int add_all(
        self, Py_ssize_t metric, long long[::1] values_ns, long long[::1] slots, Py_ssize_t count,
        long long weight) except -1
    cdef int _carry(self, place, amount) except -1
