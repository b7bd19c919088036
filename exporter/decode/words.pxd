# The functions of words.py in C. What differs is the speed.
from libc.math cimport rint
from libc.string cimport memcmp, memcpy

cdef extern from *:
    """
    /* Python's own hash of bytes, under the name that it has in this version. */
    #if PY_VERSION_HEX >= 0x030E0000
    #define words_hash(data, size) Py_HashBuffer(data, size)
    #else
    extern Py_hash_t _Py_HashBytes(const void *, Py_ssize_t);
    #define words_hash(data, size) _Py_HashBytes(data, size)
    #endif
    """
    Py_hash_t words_hash(const void *data, Py_ssize_t size) noexcept


cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define words_bits(number) ((number) ? 64 - __builtin_clzll(number) : 0)
    #else
    static int words_bits(unsigned long long number) { int bits = 0; while (number) { number >>= 1; bits++; } return bits; }
    #endif
    """
    int words_bits(unsigned long long number) noexcept


cdef inline int bits(unsigned long long number) noexcept:
    return words_bits(number)


cdef inline long long *cells(long long[::1] rows) noexcept:
    return &rows[0]


cdef inline unsigned long long *unsigned(unsigned long long[::1] rows) noexcept:
    return &rows[0]


cdef inline int *ints(int[::1] rows) noexcept:
    return &rows[0]


cdef inline unsigned char *octets(unsigned char[::1] rows) noexcept:
    return &rows[0]


cdef inline unsigned long long _ordered(const unsigned char *data) noexcept:
    # Compilers know this for one load.
    cdef unsigned long long a = data[0], b = data[1], c = data[2], d = data[3]
    cdef unsigned long long e = data[4], f = data[5], g = data[6], h = data[7]
    return a | (b << 8) | (c << 16) | (d << 24) | (e << 32) | (f << 40) | (g << 48) | (h << 56)


cdef inline long long little64(const unsigned char *data, Py_ssize_t at) noexcept:
    return <long long>_ordered(data + at)


cdef inline long long big64(const unsigned char *data, Py_ssize_t at) noexcept:
    cdef const unsigned char *from_ = data + at
    cdef unsigned long long a = from_[0], b = from_[1], c = from_[2], d = from_[3]
    cdef unsigned long long e = from_[4], f = from_[5], g = from_[6], h = from_[7]
    return <long long>((a << 56) | (b << 48) | (c << 40) | (d << 32) | (e << 24) | (f << 16) | (g << 8) | h)


cdef inline unsigned long long _any64(const unsigned char *data) noexcept:
    cdef unsigned long long value
    memcpy(&value, data, 8)
    return value


cdef inline bint same(const unsigned char *data, Py_ssize_t at, const unsigned char *others, Py_ssize_t there,
                      Py_ssize_t size) noexcept:
    # Texts are short, so a call of memcmp costs more than they do.
    cdef const unsigned char *one = data + at
    cdef const unsigned char *other = others + there
    cdef Py_ssize_t place = 0
    if size < 8:
        while place < size:
            if one[place] != other[place]:
                return False
            place += 1
        return True
    while place + 8 < size:
        if _any64(one + place) != _any64(other + place):
            return False
        place += 8
    return _any64(one + size - 8) == _any64(other + size - 8)


cdef inline long long head(const unsigned char *data, Py_ssize_t at, Py_ssize_t size) noexcept:
    cdef unsigned long long part = 0
    if size >= 8:
        return little64(data, at)
    while size > 0:
        size -= 1
        part = (part << 8) | data[at + size]
    return <long long>part


cdef inline long long tail(const unsigned char *data, Py_ssize_t at, Py_ssize_t size) noexcept:
    return little64(data, at + size - 8) if size >= 8 else 0


cdef inline Py_hash_t hashed(const unsigned char *data, Py_ssize_t at, Py_ssize_t size) noexcept:
    return words_hash(data + at, size)


cdef inline long long mixed(const unsigned char *data, Py_ssize_t at, Py_ssize_t size,
                           unsigned long long seed) noexcept:
    cdef const unsigned char *here = data + at
    cdef unsigned long long number = seed ^ <unsigned long long>size
    cdef unsigned long long part = 0
    cdef Py_ssize_t place = 0
    if size >= 8:
        while place + 8 < size:
            number = (number ^ _any64(here + place)) * 0x9E3779B97F4A7C15ULL
            number ^= number >> 32
            place += 8
        part = _any64(here + size - 8)
    else:
        while place < size:
            part = (part << 8) | here[place]
            place += 1
    number = (number ^ part) * 0x9E3779B97F4A7C15ULL
    number = (number ^ (number >> 32)) * 0x9E3779B97F4A7C15ULL  # the highest bytes must reach the lowest bits
    return <long long>((number ^ (number >> 32)) & 0x3FFFFFFFFFFFFFFFULL)


cdef inline void copied(unsigned char[::1] rows, Py_ssize_t to, const unsigned char *data, Py_ssize_t at,
                        Py_ssize_t size) noexcept:
    if size > 0:
        memcpy(&rows[to], data + at, size)


cdef inline void put(long long *rows, Py_ssize_t to, const long long *others, Py_ssize_t at, Py_ssize_t size) noexcept:
    memcpy(rows + to, others + at, size * sizeof(long long))


cdef inline double double_of(long long bits) noexcept:
    cdef double value
    memcpy(&value, &bits, 8)
    return value


cdef inline long long nearest(double value) noexcept:
    return <long long>rint(value)


cdef inline bint is_digit(unsigned char byte) noexcept:
    return 48 <= byte <= 57
