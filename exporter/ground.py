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
LARGE: Final = 1 << 21
"""Bytes from which on the system may use its large pages, which are found faster. Then it is a whole number of these:
Linux (since 6.7) has such begin where a large page does, so that those stay what they are if it must move."""
_FLAGS: int = 0 if sys.platform == "win32" else mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


class Ground:
    """Cells of one format, as `memoryview` knows them: those of 64 bits are "q" and "Q"."""

    def __init__(self, count: int, format: str = "q") -> None:
        self.format = format
        self.count = count
        self.memory = _memory(8 * count)

    def view(self) -> memoryview:
        """All cells."""
        cells = memoryview(self.memory)[: 8 * self.count]
        return cells.cast(self.format)  # type: ignore[call-overload,no-any-return]

    def grow(self, count: int) -> None:
        """Have so many cells, the first of them as they were. Who holds a view keeps the old ones, or shares them."""
        self.count, size = count, _whole(8 * count)
        if len(self.memory) == size:
            return
        try:
            self.memory.resize(size)
            _advise(self.memory)
        except (BufferError, OSError, SystemError, ValueError):  # somebody looks at it, or the system cannot move it
            grown = _memory(size)
            grown[: len(self.memory)] = self.memory[:]
            self.memory = grown


def _whole(size: int) -> int:
    """As many bytes, or some more."""
    return size if size < LARGE else -(-size // LARGE) * LARGE


def _memory(size: int) -> mmap.mmap:
    size = _whole(size)
    memory = mmap.mmap(-1, size, flags=_FLAGS) if _FLAGS else mmap.mmap(-1, size)
    _advise(memory)
    return memory


def _advise(memory: mmap.mmap) -> None:
    if len(memory) >= LARGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
