# Types for the compiled build; tally.py is the program.
cimport cython

from exporter cimport ahead
cimport exporter.decode.words as pointers
from exporter.account cimport Cells, Distributions, Edges, Sums, count_values
from exporter.histogram cimport own_slots
from exporter.pattern cimport Group, Panel, Selection
from exporter.series cimport Series
from exporter.window cimport Moment, Windows

cdef Py_ssize_t PLAN_ROW
cdef Py_ssize_t PUBLISHED
cdef Py_ssize_t IN_SERIES
cdef Py_ssize_t IN_TOTALS
cdef Py_ssize_t IN_TRAFFIC
cdef Py_ssize_t ARRIVALS
cdef Py_ssize_t ENDS
cdef Py_ssize_t TOKENS_NUMBER
cdef Py_ssize_t OVERFLOWED
cdef Py_ssize_t T_OUTCOMES
cdef Py_ssize_t T_ARRIVALS
cdef Py_ssize_t T_TOKENS
cdef Py_ssize_t T_TOLD
cdef Py_ssize_t T_IN_FLIGHT
cdef Py_ssize_t R_TOUCHED
cdef Py_ssize_t R_WAITED
cdef Py_ssize_t R_WAITING
cdef Py_ssize_t R_JOBS
cdef Py_ssize_t R_DEPARTURES
cdef Py_ssize_t R_ARRIVALS
cdef Py_ssize_t O_JOINED
cdef Py_ssize_t O_UNMATCHED
cdef Py_ssize_t O_NEGATIVE
cdef Py_ssize_t O_OUT_OF_RANGE
cdef Py_ssize_t OF_METRICS
cdef Py_ssize_t OF_PHASES
cdef Py_ssize_t OF_TOKENS
cdef Py_ssize_t NO_SOURCE
cdef long long OUTCOME_OK
cdef long long OUTCOME_CANCELLED
cdef long long SECOND
cdef long long LONGEST
cdef long long MISSING_CELL
cdef long long VERDICTS
cdef long long MOST_WEIGHT
cdef Moment NOWHERE
cdef long long[::1] START
cdef Py_ssize_t SERIES_CHANGED
cdef Py_ssize_t SERIES_COMPLETIONS
cdef Py_ssize_t SERIES_NUMBERS
cdef Py_ssize_t SERIES_TOKENS
cdef Py_ssize_t SERIES_TOLD
cdef Py_ssize_t SERIES_TOUCHED
cdef Py_ssize_t OF_COMPLETION
cdef Py_ssize_t OF_PHASE
cdef Py_ssize_t OF_TPOT
cdef Py_ssize_t OF_TTFT
cdef Py_ssize_t SERIES_CELLS
cdef Py_ssize_t WEIGHTS
cdef Py_ssize_t OUTPUTS
cdef Py_ssize_t NEWEST_IDS
cdef Py_ssize_t BEGAN
cdef Py_ssize_t EVIDENCE
cdef Py_ssize_t OUTCOME
cdef Py_ssize_t PHASES_FROM
cdef Py_ssize_t SOURCE
cdef Py_ssize_t SPAN
cdef Py_ssize_t TRACE_HI
cdef Py_ssize_t TRACE_LO
cdef Py_ssize_t TTFT
cdef Py_ssize_t WIDTH
cdef Py_ssize_t COMPLETION_CELL
cdef Py_ssize_t ENDED_CELL
cdef Py_ssize_t INPUT_CELL
cdef Py_ssize_t OUTPUT_CELL
cdef Py_ssize_t TPOT_CELL

@cython.final
cdef class Plan:
    cdef public tuple boundaries
    cdef public tuple capped
    cdef public tuple overflowed
    cdef public Panel panel
    cdef public Py_ssize_t length
    cdef public long long[::1] rows
    cdef public list series
    cdef public list distributions

@cython.final
cdef class Tally:
    cdef public object strings
    cdef readonly bint since_start
    cdef public long long epoch
    cdef public dict plans
    cdef public Cells cells
    cdef Py_ssize_t own
    cdef long long[::1] sheets, starts, values_ns, value_slots_of
    cdef Py_ssize_t count_of, first, stop
    cdef long long counted
    cdef public object kinds
    cdef public dict selections
    cdef public list retired
    cdef public object settings
    cdef public tuple slos
    cdef public dict judged_at
    cdef public set published
    cdef public tuple window_lengths
    cdef public dict edges
    cdef list buckets
    cdef public tuple label_names
    cdef public Windows windows
    cdef dict _slo_counts
    cdef dict _budgets
    cdef public dict values
    cdef public dict numbers
    cdef public Py_ssize_t next_number
    cdef public dict series
    cdef dict _traffic
    cdef dict _totals
    cdef object _overflow
    cdef object _out_of_range
    cdef object _negative
    cdef object _joined
    cdef object _unmatched
    cdef public dict waiting
    cdef public object flights
    cdef public dict limits
    cdef public set lasting
    cdef public long long now_ns
    cdef long long first_at
    cdef long long last_at

    cpdef Plan plan(self, texts, tuple boundaries)
    @cython.locals(first=Py_ssize_t)
    cpdef int count_sheets(
        self, Plan plan, long long[::1] sheets, long long[::1] starts, Py_ssize_t count, long long weight,
        long long now_ns, bint in_windows, Py_ssize_t joined, Py_ssize_t unmatched, long long negative,
        Py_ssize_t announced, long long[::1] waits) except -1
    @cython.locals(place=Py_ssize_t, index=Py_ssize_t)
    cdef int _count_alike(
        self, Plan plan, long long weight, long long now_ns, bint in_windows, Py_ssize_t joined, Py_ssize_t unmatched,
        long long negative, Py_ssize_t announced, long long[::1] waits) except -1
    @cython.locals(place=Py_ssize_t)
    cdef int open_series(self, Plan plan, long long now_ns) except -1
    @cython.locals(cells="long long *", place=Py_ssize_t, series=Py_ssize_t, cell=Py_ssize_t)
    cdef int touch_series(self, Plan plan) except -1
    @cython.locals(ttft=Edges, tpot=Edges, completion=Edges, phases=Edges, sheet="long long *", place=Py_ssize_t,
                   at=Py_ssize_t, series=Py_ssize_t, outcome=cython.longlong, source=cython.longlong, phase=Py_ssize_t)
    cdef int touch_histograms(self, Plan plan, long long[::1] sheets, Py_ssize_t start) except -1
    @cython.locals(histogram=Py_ssize_t)
    cdef int _touch_bucket(self, Py_ssize_t cell, Edges edges, long long ns) except -1
    cpdef Py_ssize_t announce(
        self, Plan plan, long long[::1] sheet, long long weight, long long now_ns, bint in_windows) except -1
    @cython.locals(row=Py_ssize_t, index=Py_ssize_t, traffic=Py_ssize_t)
    cdef int _leave_queue(
        self, Plan plan, Py_ssize_t place, long long[::1] waits, long long weight, long long now_ns) except -1
    @cython.locals(index=Py_ssize_t)
    cdef int _begin(self, Plan plan, long long[::1] sheets, long long[::1] starts, Py_ssize_t count) except -1
    cdef int _count_join(self, Py_ssize_t joined, Py_ssize_t unmatched, long long negative) except -1
    @cython.locals(row=Py_ssize_t, base=Py_ssize_t, sheets="long long *", starts="long long *",
                   evidence=cython.longlong, at_ns=cython.longlong, moment=Moment, amount=cython.longlong,
                   index=Py_ssize_t)
    cdef int _arrive_by_sheet(
        self, Plan plan, Py_ssize_t place, long long weight, long long now_ns, bint in_windows) except -1
    @cython.locals(row=Py_ssize_t)
    cdef int _depart(self, Plan plan, Py_ssize_t place, long long weight, long long now_ns) except -1
    @cython.locals(row=Py_ssize_t, base=Py_ssize_t, sheets="long long *", starts="long long *", series=Py_ssize_t,
                   at_ns=cython.longlong, outcome=cython.longlong, moment=Moment)
    cdef int _end(
        self, Plan plan, Py_ssize_t place, long long weight, long long now_ns, bint in_windows, long long ends) except -1
    @cython.locals(row=Py_ssize_t, base=Py_ssize_t, sheets="long long *", starts="long long *", series=Py_ssize_t,
                   totals=Py_ssize_t, slot=Py_ssize_t, amount=cython.longlong, tokens=cython.longlong, index=Py_ssize_t)
    cdef int _tokens(self, Plan plan, Py_ssize_t place, long long weight, Moment moment) except -1
    cdef int _few_tokens(
        self, Plan plan, Py_ssize_t row, Py_ssize_t slot, long long amount, long long weight, Moment moment) except -1
    @cython.locals(at=Py_ssize_t, outcome=cython.longlong, source=cython.longlong, cell=Py_ssize_t, good=bint,
                   phase=Py_ssize_t)
    cdef int _values(self, Plan plan, Py_ssize_t place, long long weight, Moment moment) except -1
    cdef int _rank(self, Panel panel, Py_ssize_t place, long long metric, long long weight, Moment moment) except -1
    @cython.locals(base=Py_ssize_t, count=Py_ssize_t, sheets="long long *", starts="long long *", values="long long *",
                   index=Py_ssize_t, longest_ns=cython.longlong, edges=Edges, histogram=Py_ssize_t)
    cdef bint _value(
        self, Plan plan, Py_ssize_t place, Py_ssize_t value, Py_ssize_t known, Py_ssize_t cell, long long weight,
        bint sample, Moment moment) except -1
    cdef object _count_beyond(self, Py_ssize_t value, Py_ssize_t count)
    @cython.locals(number=cython.longlong, distributions=Distributions)
    cdef int _samples(
        self, Plan plan, Py_ssize_t place, Py_ssize_t value, Py_ssize_t count, long long weight,
        Moment moment) except -1
    @cython.locals(base=Py_ssize_t, output=cython.longlong, ended_ns=cython.longlong, moment=Moment, place=Py_ssize_t,
                   pattern=Py_ssize_t, group=Group, block=Py_ssize_t, at=Py_ssize_t, verdict=cython.longlong)
    cdef int _judge(self, Panel panel, Py_ssize_t row, long long weight, bint in_windows) except -1
