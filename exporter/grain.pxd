# Types for the compiled build; grain.py is the program.
cimport cython

cimport exporter.decode.words as pointers

cdef long long SLOTS
cdef int SLOT_BITS
cdef unsigned long long ODD
cdef unsigned long long ALL_BITS
cdef long long UNIT
cdef int UNIT_BITS
cdef long long LIMIT
cdef long long SHORT
cdef long long FEW
cdef Py_ssize_t FULL
cdef int DIGIT_BITS
cdef Py_ssize_t DIGITS
cdef Py_ssize_t INSERTED
cdef int AMOUNTS
cdef Py_ssize_t REPEATS
cdef const unsigned char[::1] ZEROS

@cython.final
cdef class Sums:
    cdef Py_ssize_t count
    cdef Py_ssize_t mask
    cdef long long[::1] keys
    cdef long long[::1] amounts
    cdef dict beyond

    @cython.locals(mask=Py_ssize_t, at=Py_ssize_t)
    cdef Py_ssize_t place(self, long long key) except -1
    @cython.locals(at=Py_ssize_t, total="long long")
    cdef int add(self, long long key, long long amount) except -1
    cdef int add_beyond(self, long long key, amount) except -1
    @cython.locals(keys="long long[::1]", amounts="long long[::1]", key="long long", place=Py_ssize_t, at=Py_ssize_t)
    cdef int grow(self) except -1

@cython.final
cdef class Run:
    cdef Py_ssize_t count
    cdef Py_ssize_t room
    cdef int[::1] slots
    cdef long long[::1] amounts
    cdef bint plain

    cdef int reserve(self, Py_ssize_t count) except -1
    @cython.locals(slots="int *", amounts="long long *", ones="int *", one_amounts="long long *", others="int *",
                   other_amounts="long long *", left=Py_ssize_t, right=Py_ssize_t, at=Py_ssize_t)
    cdef int merge(self, Run one, Run other) except -1
    @cython.locals(slots="int[::1]", amounts="long long[::1]", at=Py_ssize_t, place=Py_ssize_t, slot=int, total="long long")
    cdef int combine(self) except -1
    @cython.locals(slots="int *", amounts="long long *", units=Py_ssize_t, entries=Py_ssize_t, last=int,
                   place=Py_ssize_t, amount="long long")
    cdef Py_ssize_t units(self) except -1

@cython.final
cdef class Packer:
    cdef unsigned char[::1] code
    cdef Py_ssize_t at
    cdef long long series

    cdef bytes done(self)
    @cython.locals(units=Py_ssize_t)
    cdef int put(self, long long series, Run run) except -1
    @cython.locals(code="unsigned char[::1]")
    cdef int reserve(self, Py_ssize_t count) except -1
    @cython.locals(code="unsigned char *", at=Py_ssize_t)
    cdef int number(self, unsigned long long value) except -1
    @cython.locals(slots="int *", amounts="long long *", last=int, low_bits=int, code="unsigned char *",
                   at=Py_ssize_t, held="unsigned long long", bits=int, skip=Py_ssize_t, place=Py_ssize_t,
                   repeats=Py_ssize_t, gap="unsigned long long", high="unsigned long long", one="unsigned long long",
                   _again=Py_ssize_t)
    cdef int put_samples(self, Run run, Py_ssize_t units) except -1
    @cython.locals(last=int, place=Py_ssize_t, amount="long long", exact="unsigned long long",
                   size="unsigned long long")
    cdef int put_amounts(self, Run run) except -1

@cython.final
cdef class Reader:
    cdef bytes code
    cdef Py_ssize_t at
    cdef long long series
    cdef Run run
    cdef readonly list adds
    cdef readonly list takes

    cpdef bint begin(self) except -1
    @cython.locals(low_bits=int, count=Py_ssize_t)
    cdef bint next(self) except -1
    @cython.locals(code=bytes, at=Py_ssize_t, value="unsigned long long", shift=int, byte="unsigned long long")
    cdef Py_ssize_t number(self) except? -1
    @cython.locals(slots="int *", amounts="long long *", slot=int, code=bytes,
                   at=Py_ssize_t, end=Py_ssize_t, held="unsigned long long", bits=int, mask="unsigned long long",
                   place=Py_ssize_t, high=int, zeros=int, byte="unsigned long long", word="unsigned long long", taken=int)
    cdef int samples(self, int low_bits, Py_ssize_t count) except -1
    @cython.locals(slots="int *", amounts="long long *", slot=int, code=bytes, at=Py_ssize_t, turn=Py_ssize_t,
                   byte="unsigned long long", value="unsigned long long", shift=int, exact=bint, amount="long long")
    cdef int entries(self, Py_ssize_t count) except -1

@cython.final
cdef class Merge:
    cdef Packer packer
    cdef list readers
    cdef Run run
    cdef Run spare

    @cython.locals(reader=Reader)
    cdef int begin(self, list pieces) except -1
    cpdef Py_ssize_t step(self, Py_ssize_t budget) except? -1
    cpdef bytes done(self)
    @cython.locals(series="long long", reader=Reader, first=Reader, ended=bint)
    cdef Py_ssize_t next(self) except -1

@cython.final
cdef class Log:
    cdef Py_ssize_t count
    cdef unsigned int[::1] keys

    cdef int add(self, unsigned int key) except -1
    @cython.locals(index=Py_ssize_t)
    cdef int add_slots(self, long long first, long long[::1] slots, Py_ssize_t count) except -1
    @cython.locals(keys="unsigned int[::1]")
    cdef int grow(self) except -1

@cython.final
cdef class Grain:
    cdef Sums sums
    cdef Log log
    cdef public list pieces
    cdef public Py_ssize_t merged
    cdef public dict beyond

    cdef int add(self, long long key, long long amount) except -1
    @cython.locals(index=Py_ssize_t, least="long long")
    cdef void add_slots(self, long long first, long long[::1] slots, Py_ssize_t count) except *
    cpdef int add_large(self, long long key, amount) except -1
    cpdef Py_ssize_t loose(self) except -1
    @cython.locals(sums=Sums, packer=Packer, run=Run, count=Py_ssize_t, sorted_count=Py_ssize_t)
    cpdef Py_ssize_t pack(self) except -1
    cpdef int take(self, Grain other) except -1

@cython.final
cdef class Sorter:
    cdef long long[::1] keys
    cdef long long[::1] other
    cdef long long[::1] starts

    @cython.locals(count=Py_ssize_t, keys="long long *", at=Py_ssize_t, place=Py_ssize_t, key="long long")
    cdef Py_ssize_t load(self, Sums sums, Log log) except -1
    @cython.locals(keys="long long[::1]", place=Py_ssize_t, key="long long", at=Py_ssize_t)
    cdef int insert(self, Py_ssize_t count) except -1
    @cython.locals(keys="long long *", other="long long *", swap="long long *", starts="long long *",
                   every="long long", shift=int, turns=int, place=Py_ssize_t, digit=Py_ssize_t, total="long long", at=Py_ssize_t)
    cdef int sort(self, Py_ssize_t count) except -1

cdef Sorter SORTER

@cython.locals(keys="long long *", slots="int *", amounts="long long *", place=Py_ssize_t, stop=Py_ssize_t,
               series="long long", at=Py_ssize_t, key="long long", amount="long long")
cdef int _pack(long long[::1] sorted_keys, Py_ssize_t count, Sums sums, Packer packer, Run run) except -1

