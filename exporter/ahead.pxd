# For the compiled build, where the argument is a cell of a flat table; nothing is read.
cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define GOODPUT_PREFETCH(cell) __builtin_prefetch((const void *) &(cell))
    #else
    #define GOODPUT_PREFETCH(cell) ((void) (cell))
    #endif
    """
    void prefetch "GOODPUT_PREFETCH" (...) noexcept
