"""Numbers that write down what is done with them, so that it can be done again with other numbers.

The rules of joining and measuring are written once, over plain integers (`exporter.tree`, `exporter.measure`). Run over
`Num`s they leave a `Tape` behind: each sum as an operation, and each comparison as a *guard*, with the answer that was
found. Where the guards of other numbers get the same answers, the rules would do the same operations, so the tape is as
good as the rules, and many times faster (`exporter.script`).

What must stay true: whatever a number decides is on the tape. What could decide without a trace (an operation that has
no code) raises `Unusual`, and there is no tape.
"""

from typing import Any, Final, NoReturn

from exporter.align import MOST_CLOCKS, Bound, Observation, Offsets
from exporter.record import MISSING

ADD, SUBTRACT, MULTIPLY, DIVIDE, ALONG, OBSERVE = range(6)
"""Operations: register `a` with register `b` into register `into`. DIVIDE rounds down."""
LESS, LESS_EQUAL, EQUAL, NOT_LESS, NOT_LESS_EQUAL, NOT_EQUAL = range(6, 12)
"""Guards: how register `a` must stand to register `b`."""
LARGEST: Final = 2**62
"""Numbers from here on are none that spans give; sums of them might not fit into 64 bits."""


class Unusual(Exception):
    """What is recorded cannot be repeated with other numbers."""


class Tape:
    """What was done with some numbers."""

    def __init__(self, offsets: Offsets) -> None:
        self.offsets = offsets
        self.words: list[tuple[int, int, int, int]] = []
        self.registers = 0
        self.constants: dict[int, int] = {}
        """The register of each constant."""
        self.sites: list[tuple[int, ...]] = []
        """Of each ALONG and OBSERVE the registers of the ends of the bound, and of the clocks."""
        self.known: dict[tuple[int, int, int], Any] = {}
        """What was found already, by code and registers."""
        self.hashed: list[Num] = []
        self.ids: dict[tuple[int, int], int] = {}
        """The register of each id that is handed on, by row and cell."""

    def number(self, value: int) -> "Num":
        """A new register, and the number in it."""
        if not -LARGEST < value < LARGEST:
            raise Unusual("a number out of range")
        made = Num(value)
        made.tape, made.register = self, self.registers
        self.registers += 1
        return made

    def text(self, value: int, row: int, cell: int) -> "Text":
        """An id that stands there."""
        made = Text(value)
        made.tape, made.row, made.cell = self, row, cell
        return made

    def register_of(self, value: int) -> int:
        """The register of a number or constant."""
        if isinstance(value, Num):
            return value.register
        if isinstance(value, Text) or not -LARGEST < value < LARGEST:
            raise Unusual("no number to reckon with")
        if value not in self.constants:
            self.constants[int(value)] = self.registers
            self.registers += 1
        return self.constants[value]

    def register_of_id(self, value: int) -> int:
        """The register of an id that is handed on, wherever it stands."""
        known: dict[Any, int] = self.ids if isinstance(value, Text) else self.constants
        key = (value.row, value.cell) if isinstance(value, Text) else int(value)
        if key not in known:
            known[key] = self.registers
            self.registers += 1
        return known[key]

    def reckon(self, code: int, one: int, other: int, value: int) -> "Num":
        """Note an operation and its result."""
        key = (code, self.register_of(one), self.register_of(other))
        if key not in self.known:
            self.known[key] = made = self.number(value)
            self.words.append((code, made.register, key[1], key[2]))
        found: Num = self.known[key]
        return found

    def guard(self, code: int, one: int, other: int, answer: bool) -> bool:
        """Note a comparison and its answer."""
        return self._guard((code, self.register_of(one), self.register_of(other)), answer)

    def order(self, one: int, other: int) -> bool:
        """Note whether one id is less than the other."""
        if not isinstance(one, Text) or not isinstance(other, Text) or min(one.row, other.row) < 0:
            raise Unusual("the order of ids that stand in no row")
        return self._guard((LESS, self.register_of_id(one), self.register_of_id(other)), int(one) < int(other))

    def _guard(self, key: tuple[int, int, int], answer: bool) -> bool:
        code = key[0]
        if key not in self.known:
            self.known[key] = answer
            self.words.append((code if answer else code + NOT_LESS - LESS, 0, key[1], key[2]))
        return answer

    def distinguish(self) -> None:
        """Note which of the numbers that were looked up in sets and dictionaries are the same."""
        for place, number in enumerate(self.hashed):
            for other in self.hashed[:place]:
                if other is not number:
                    self.guard(EQUAL, number, other, int(number) == int(other))

    def along(self, clocks: Any, time_ns: int) -> Bound:
        """The bound on a chain of clocks, which will be asked for anew."""
        chain = tuple(clocks)
        if len(set(chain)) == 1:
            return Bound(0, 0)
        if len(chain) > MOST_CLOCKS:
            raise Unusual("a longer chain of clocks than is remembered")
        bound = self.offsets.along(chain, int(time_ns))
        low = None if bound.low is None else self.number(bound.low)
        high = None if bound.high is None else self.number(bound.high)
        ends = [-1 if end is None else end.register for end in (low, high)]
        self.words.append((ALONG, len(self.sites), self.register_of(time_ns), 0))
        self.sites.append((*ends, *map(self.register_of_id, chain)))
        return Bound(low, high)

    def observe(self, seen: Observation) -> None:
        """An observation, which will be made anew."""
        low = -1 if seen.low is None else self.register_of(seen.low)
        self.words.append((OBSERVE, len(self.sites), self.register_of(seen.time_ns), 0))
        clocks = self.register_of_id(seen.outer), self.register_of_id(seen.inner)
        self.sites.append((low, self.register_of(seen.high), *clocks))


def _refuse(*_: Any) -> NoReturn:
    raise Unusual("an operation that cannot be repeated")


class Num(int):
    """A number on a tape. It is what it is in a dictionary, too: `Tape.distinguish` sees to that."""

    tape: Tape
    register: int

    def __add__(self, other: int) -> "Num":
        return self.tape.reckon(ADD, self, other, int(self) + int(other))

    def __radd__(self, other: int) -> "Num":
        return self.tape.reckon(ADD, self, other, int(self) + int(other))

    def __sub__(self, other: int) -> "Num":
        return self.tape.reckon(SUBTRACT, self, other, int(self) - int(other))

    def __rsub__(self, other: int) -> "Num":
        return self.tape.reckon(SUBTRACT, other, self, int(other) - int(self))

    def __mul__(self, other: int) -> "Num":
        return self.tape.reckon(MULTIPLY, self, other, int(self) * int(other))

    def __rmul__(self, other: int) -> "Num":
        return self.tape.reckon(MULTIPLY, self, other, int(self) * int(other))

    def __floordiv__(self, other: int) -> "Num":
        return self.tape.reckon(DIVIDE, self, other, int(self) // int(other))

    def __rfloordiv__(self, other: int) -> "Num":
        return self.tape.reckon(DIVIDE, other, self, int(other) // int(self))

    def __neg__(self) -> "Num":
        return self.tape.reckon(SUBTRACT, 0, self, -int(self))

    def __lt__(self, other: int) -> bool:
        return _compare(self, other, LESS, self, other)

    def __gt__(self, other: int) -> bool:
        return _compare(self, other, LESS, other, self)

    def __le__(self, other: int) -> bool:
        return _compare(self, other, LESS_EQUAL, self, other)

    def __ge__(self, other: int) -> bool:
        return _compare(self, other, LESS_EQUAL, other, self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and _compare(self, other, EQUAL, self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        return self != 0

    def __hash__(self) -> int:
        self.tape.hashed.append(self)
        return int.__hash__(self)

    __mod__ = __rmod__ = __divmod__ = __rdivmod__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _refuse
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = _refuse
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __abs__ = __pos__ = _refuse
    __round__ = __trunc__ = __floor__ = __ceil__ = __float__ = _refuse


def _compare(number: Num, other: int, code: int, one: int, two: int) -> bool:
    answers = {LESS: int.__lt__, LESS_EQUAL: int.__le__, EQUAL: int.__eq__}
    answer = bool(answers[code](int(one), int(two)))
    if other == MISSING and not isinstance(other, Num):
        return answer  # which cells there are is known beforehand
    return number.tape.guard(code, one, two, answer)


class Text(int):
    """An id or the number of a text. Whether two are the same is known beforehand.

    Which is less, by which ties of times are broken, is a guard.
    """

    tape: Tape
    row: int
    """Where it stands; -1 for the ids of the trace, which stand in none."""
    cell: int

    def __lt__(self, other: int) -> bool:
        return self.tape.order(self, other)

    def __gt__(self, other: int) -> bool:
        return self.tape.order(other, self)

    __le__ = __ge__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = _refuse

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and int(self) == int(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return int.__hash__(self)
