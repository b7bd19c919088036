# Types for the compiled build; pattern.py is the program.
cimport cython

cimport exporter.decode.words as pointers
from exporter.account cimport Cells, Sums
from exporter.window cimport Moment

cdef long long NEVER
cdef long long BEYOND
cdef long long MISSING
cdef Py_ssize_t WIDTH
cdef Py_ssize_t ARRIVED
cdef Py_ssize_t COMPLETION
cdef Py_ssize_t COMPLETION_ERROR
cdef Py_ssize_t OUTCOME
cdef Py_ssize_t OUTPUT
cdef Py_ssize_t SILENT
cdef Py_ssize_t TPOT
cdef Py_ssize_t TPOT_APPLIES
cdef Py_ssize_t TTFT
cdef Py_ssize_t TTFT_APPLIES
cdef Py_ssize_t TTFT_ERROR
cdef long long OF_TTFT
cdef long long OF_TPOT
cdef long long OF_COMPLETION
cdef long long OK
cdef long long CANCELLED
cdef long long IS_UNKNOWN
cdef long long IS_SINGLE
cdef long long HAS_VALUE
cdef Py_ssize_t ANSWER
cdef Py_ssize_t RANK
cdef Py_ssize_t COMMON
cdef unsigned long long PATTERN_ODD
cdef unsigned long long PATTERN_MASK

@cython.final
cdef class Thresholds:
    cdef public long long[::1] cells
    cdef public Py_ssize_t count

    @cython.locals(low=Py_ssize_t, high=Py_ssize_t, cells="long long *", middle=Py_ssize_t)
    cpdef Py_ssize_t below(self, Py_ssize_t start, Py_ssize_t end, long long value) except -1

@cython.final
cdef class Group:
    cdef public str boundary
    cdef public long long number
    cdef public Cells cells
    cdef public list slos
    cdef public dict limits
    cdef public list schedules
    cdef public Py_ssize_t count
    cdef public list judgements
    cdef public object kinds
    cdef public list verdicts
    cdef public dict _verdict_numbers
    cdef public long long[::1] verdict_of
    cdef public Sums pending
    cdef public bint budgeted
    cdef public list dimensions
    cdef public Py_ssize_t width
    cdef public dict places
    cdef public long long[::1] starts
    cdef public Thresholds thresholds
    cdef public long long[::1] code
    cdef public long long[::1] codes
    cdef public long long[::1] blocks
    cdef public long long[::1] judged_as
    cdef public unsigned long long mask
    cdef public long long[::1] index

    @cython.locals(at=Py_ssize_t)
    cpdef Py_ssize_t find(self) except -2
    @cython.locals(mark="unsigned long long", code="long long *", place=Py_ssize_t)
    cpdef Py_ssize_t slot_of(self, unsigned long long start) except -1
    @cython.locals(place=Py_ssize_t, codes="long long *", code="long long *", start=Py_ssize_t)
    cpdef bint is_code(self, Py_ssize_t pattern) except -1
    @cython.locals(slos=Py_ssize_t, pattern=Py_ssize_t, block=Py_ssize_t, place=Py_ssize_t, cell=Py_ssize_t,
                   target=Py_ssize_t, newest=cython.longlong)
    cpdef void settle(self) except *

@cython.final
cdef class Selection:
    cdef public tuple slos
    cdef public set kept
    cdef public long long ended_ns
    cdef public list schedules
    cdef public list ranks
    cdef public list groups
    cdef public dict panels
    cdef public dict _seconds
    cdef public long long[::1] always

    cpdef object inside(self, long long arrived_ns)

@cython.final
cdef class Panel:
    cdef public Selection selection
    cdef public tuple boundaries
    cdef public bint scheduled
    cdef public long long[::1] inside
    cdef public list groups
    cdef public long long[::1] asked_at
    cdef public Thresholds thresholds
    cdef public long long[::1] ranks
    cdef public long long[::1] rank_at
    cdef public long long[::1] group_at
    cdef public long long[::1] asked
    cdef public Py_ssize_t question_count
    cdef public long long[::1] questions
    cdef public long long[::1] answers
    cdef public long long[::1] found
    cdef public long long[::1] sheet, common
    cdef public Py_ssize_t start

    @cython.locals(at=Py_ssize_t, question=Py_ssize_t, count=Py_ssize_t)
    cpdef int answer(self, long long[::1] sheet, Py_ssize_t start) except -1
    @cython.locals(sheet="long long *", known=cython.longlong, least=cython.longlong, most=cython.longlong,
                   place=Py_ssize_t, base=Py_ssize_t, value=cython.longlong, error=cython.longlong, at=Py_ssize_t)
    cdef int _answer(self, Py_ssize_t question, long long metric, Py_ssize_t start, Py_ssize_t count) except -1
    cpdef bint judges(self, Py_ssize_t row) except -1
    cpdef int enter(self, Py_ssize_t row) except -1
    @cython.locals(rank=Py_ssize_t, at=Py_ssize_t, highest=Py_ssize_t, index=Py_ssize_t, base=Py_ssize_t,
                   place=Py_ssize_t)
    cpdef int rank(
        self, Py_ssize_t row, long long metric, long long[::1] sheets, long long[::1] starts, Py_ssize_t first,
        Py_ssize_t stop, long long[::1] slots, long long weight, Moment moment) except -1
    @cython.locals(start=Py_ssize_t, end=Py_ssize_t, row="long long *", value=cython.longlong, error=cython.longlong,
                   least=cython.longlong, most=cython.longlong)
    cdef Py_ssize_t place(self, Py_ssize_t at, long long metric, long long[::1] sheets, Py_ssize_t base) except -1
    @cython.locals(group=Group, code="long long[::1]", base=Py_ssize_t, inside=cython.longlong,
                   outcome=cython.longlong, limited=bint, first=Py_ssize_t, dimension=Py_ssize_t, start=Py_ssize_t,
                   end=Py_ssize_t, at=Py_ssize_t, known=cython.longlong, least=cython.longlong, most=cython.longlong,
                   width=cython.longlong)
    cpdef Py_ssize_t pattern(self, Py_ssize_t place, Py_ssize_t row) except -2
