"""The few things that C does with bytes in one instruction, for the compiled modules and for the uncompiled ones.

`words.pxd` beside this file holds the same functions for C; a module that is compiled uses those, through its own .pxd.
Neither checks a bound: who calls makes sure that what is read is there.
"""

import struct
from typing import TypeVar

Cells = TypeVar("Cells")


def cells(rows: Cells) -> Cells:
    """The numbers of a memory view, to be read and written without checks in C. The view must outlive them."""
    return rows


def unsigned(rows: Cells) -> Cells:
    """Likewise, without a sign."""
    return rows


def ints(rows: Cells) -> Cells:
    """Likewise, numbers of 32 bits."""
    return rows


def octets(rows: Cells) -> Cells:
    """Likewise, bytes."""
    return rows


def bits(number: int) -> int:
    """How many bits a number has that is not negative."""
    return number.bit_length()


def little64(data: bytes, at: int) -> int:
    """The 8 bytes from `at`, the last of which is the highest."""
    return int.from_bytes(data[at : at + 8], "little", signed=True)


def big64(data: bytes, at: int) -> int:
    """The 8 bytes from `at`, the first of which is the highest."""
    return int.from_bytes(data[at : at + 8], "big", signed=True)


def same(data: bytes | bytearray, at: int, others: bytes, there: int, size: int) -> bool:
    """Whether `size` bytes of the one are those of the other."""
    return data[at : at + size] == others[there : there + size]


def head(data: bytes, at: int, size: int) -> int:
    """The first 8 bytes of some, or all where they are fewer."""
    return int.from_bytes(data[at : at + min(size, 8)], "little", signed=size >= 8)


def tail(data: bytes, at: int, size: int) -> int:
    """The last 8 bytes of some, 0 where they are fewer: up to 16 bytes are told by their size, their head and this."""
    return little64(data, at + size - 8) if size >= 8 else 0


def hashed(data: bytes, at: int, size: int) -> int:
    """Python's hash of some bytes, which is that of the text where they are ASCII."""
    return hash(bytes(data[at : at + size]))


def mixed(data: bytes, at: int, size: int, seed: int) -> int:
    """A number from 0 to 2^62 for a look-up in a table: quick, and not safe from those who choose the bytes."""
    return hash((seed, bytes(data[at : at + size]))) & 0x3FFFFFFFFFFFFFFF


def copied(rows: bytearray, to: int, data: bytes, at: int, size: int) -> None:
    """Put `size` bytes where there is room for them."""
    rows[to : to + size] = data[at : at + size]


def put(rows: "memoryview[int]", to: int, others: "memoryview[int]", at: int, size: int) -> None:
    """Copy `size` cells."""
    rows[to : to + size] = others[at : at + size]


def double_of(bits: int) -> float:
    """The double whose bits these are."""
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])


def nearest(value: float) -> int:
    """A number below 2^51 rounded to a whole one, half to even."""
    return round(value)


def is_digit(byte: int) -> bool:
    """Whether it is one of the ten digits of ASCII."""
    return 48 <= byte <= 57
