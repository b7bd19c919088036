"""Memory that is asked of the system itself: zero at first, of which only what is used counts, and that can grow.

A table that doubles would otherwise be copied, which takes as long as everybody has to wait, and needs both copies.
"""

import mmap
import sys
from array import array
from contextlib import suppress
from typing import Final

NOTHING: Final = memoryview(array("q", [0]))
"""What to look at while a view is given up, so that its ground can grow."""
LARGE: Final = 1 << 22
"""Bytes from which on the system may use its large pages, which are found faster."""
_FLAGS: int = 0 if sys.platform == "win32" else mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


class Ground:
    """Cells of one format, as `memoryview` knows them: those of 64 bits are "q" and "Q"."""

    def __init__(self, count: int, format: str = "q") -> None:
        self.format = format
        self.memory = _memory(8 * count)

    def view(self) -> memoryview:
        """All cells."""
        return memoryview(self.memory).cast(self.format)  # type: ignore[call-overload,no-any-return]

    def grow(self, count: int) -> None:
        """Have so many cells, the first of them as they were. Whoever holds a view keeps what is old."""
        try:
            self.memory.resize(8 * count)
            _advise(self.memory)
        except (BufferError, OSError, SystemError, ValueError):  # somebody looks at it, or the system cannot move it
            grown = _memory(8 * count)
            grown[: len(self.memory)] = self.memory[:]
            self.memory = grown


def _memory(size: int) -> mmap.mmap:
    memory = mmap.mmap(-1, size, flags=_FLAGS) if _FLAGS else mmap.mmap(-1, size)
    _advise(memory)
    return memory


def _advise(memory: mmap.mmap) -> None:
    if len(memory) >= LARGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
