"""Memory under a stream of bodies: what the C library and the collector of cycles are told about it.

A body takes some hundred kilobytes for less than a millisecond. glibc would map such a block anew every time, or give
the top of the heap back after each and fault it in again, which is a third of what it costs to receive a body. Told
not to, it keeps `KEPT` at most. Elsewhere (musl, macOS) this changes nothing.

Python's collector looks for cycles after 700 new containers by default, with a stream several times a body, among what
lives for as long as a request is open; none of it is in cycles. What was made until the start lives for ever.
"""

import ctypes
import gc
from contextlib import suppress
from typing import Final

KEPT: Final = 8 * 2**20
"""Bytes of free memory at the top of the heap that are not given back."""
MAPPED: Final = 4 * 2**20
"""Larger blocks are mapped, and given back at once."""
GROWN: Final = 2**20
"""By so much the heap grows at a time."""
ARENAS: Final = 2
"""Heaps for all threads together; gRPC's threads would have one each, and leave their holes in it."""
YOUNG: Final = (10_000, 20, 20)
"""New containers after which cycles are looked for among them, and so on for the older ones."""

_M_TRIM_THRESHOLD: Final = -1
_M_TOP_PAD: Final = -2
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8


def expect_bodies() -> None:
    """Set the allocator up. To be called before threads begin."""
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in (
            (_M_TRIM_THRESHOLD, KEPT),
            (_M_TOP_PAD, GROWN),
            (_M_MMAP_THRESHOLD, MAPPED),
            (_M_ARENA_MAX, ARENAS),
        ):
            mallopt(option, value)


def settle() -> None:
    """Take what there is for what stays. To be called once everything runs."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*YOUNG)
