"""How a new shape gets its act: a request of it goes through the rules on a tape.

The same functions do it as for every other request, in the same order as in `exporter.pipeline`; only counting is left
to whoever plays the act.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from exporter import record, sheet
from exporter.align import Offsets
from exporter.express import Act, Lesson, kept
from exporter.measure import Request, Rules, measure, observations
from exporter.record import COUNTED, MISSING
from exporter.recording import Num, Tape, Text, Unusual
from exporter.script import Script
from exporter.tree import GATEWAY, Path, Row, Tree
from slo_rules.vocabulary import FATES

NUMBERS: Final = frozenset({record.START, record.END, record.SEEN, *range(record.ARRIVED, record.STREAM)})
"""Cells that are reckoned with. The other varying ones are ids and texts."""
REASONS: Final = ("client", "engine")
"""Of requests that found no gateway."""
WHOLE, PARTIAL = range(2)


class _Stage:
    """The rows of a request on a tape."""

    def __init__(self, rows: Sequence[Row], offsets: Offsets) -> None:
        self.tape = Tape(offsets)
        self.loads: list[tuple[int, int, int]] = []
        self.rows = [self._traced(place, row) for place, row in enumerate(rows)]

    def _traced(self, place: int, row: Row) -> Row:
        traced = list(row)
        for cell in (record.TRACE_HI, record.TRACE_LO):
            traced[cell] = self.tape.text(row[cell], -1, cell)
        for index, cell in enumerate(kept(row), 1):
            if row[cell] == MISSING:
                continue
            if cell in NUMBERS:
                traced[cell] = number = self.tape.number(row[cell])
                self.loads.append((number.register, place, index))
            else:
                traced[cell] = self.tape.text(row[cell], place, index)
        return traced


def rehearse(
    lesson: Lesson, rules: Rules, offsets: Offsets, *, stamp: int, settle: Callable[[Request], tuple[bool, bool]]
) -> Act:
    """The act for requests like this one. Raises Unusual where there is none.

    `settle` decides what hangs on the state of the pipeline; it tells whether anything did, and whether the request
    ended in time for the windows.
    """
    rows = lesson.rows
    stage = _Stage(rows, offsets)
    tape = stage.tape
    found = list(Tree(dict(enumerate(stage.rows))).paths())
    if len(found) > 1:
        raise Unusual("several requests in one trace")
    places = found[0][0] if found else []
    fates = [_fate(row, place in places) for place, row in enumerate(rows)]
    if not found:
        tape.distinguish()
        return Act(_script(stage, len(tape.words), []), stamp=-1, opened=False, members=(), fates=fates)
    path = found[0][1]._replace(announced=int(lesson.announced))
    first = next(place for place, row in enumerate(stage.rows) if row is _spans(path)[0])
    if not lesson.whole:
        tape.distinguish()
        return Act(_script(stage, len(tape.words), []), stamp=-1, opened=path.open, members=places, fates=fates)
    for observation in observations(path):
        tape.observe(observation)
    end = tape.register_of(max(row[record.END] for row in _spans(path)))
    tape.distinguish()
    split = len(tape.words)
    request = measure(path, rules, tape.along, len(rows[0]) - record.LABELS)
    hanging, in_windows = settle(request)
    if path.open and not (len(request.boundaries) == 1 and request.boundaries[0].open):
        raise Unusual("a job in a queue that is more than that")
    announced = [place for place, row in enumerate(request.boundaries) if row.announced]
    cells = sheet.sheet_of(request.boundaries)
    tape.distinguish()
    stores = [(place, cell.register) for place, cell in enumerate(cells) if isinstance(cell, Num)]
    return Act(
        _script(stage, split, [end, *(register for _, register in stores)]),
        stamp=stamp if hanging else -1,
        opened=path.open,
        members=places,
        fates=fates,
        end=end,
        first=first,
        boundaries=tuple(row.boundary for row in request.boundaries),
        sheet=[0 if isinstance(cell, (Num, Text)) else cell for cell in cells],
        stores=stores,
        copies=[(place, cell.row, cell.cell) for place, cell in enumerate(cells) if isinstance(cell, Text)],
        labels=[_place(number) for number in (request.model, request.klass, *request.labels)],
        weight=request.weight,
        joined=WHOLE if request.whole else PARTIAL,
        unmatched=-1 if request.unmatched is None else REASONS.index(request.unmatched),
        negative=request.negative,
        in_windows=in_windows,
        announced=announced[0] if announced else -1,
    )


def _spans(path: Path) -> list[Row]:
    return [*path.clients, *path.nodes, *(row for group in path.engines for row in group)]


def _place(number: int) -> tuple[int, int]:
    return (number.row, number.cell) if isinstance(number, Text) else (-1, 0)


def _fate(row: Sequence[int], inside: bool) -> int:
    """The fate of a span, as the table gives it; one of a gateway that is part of no request is told apart."""
    if row[record.FATE] == COUNTED:
        return COUNTED
    if not inside and row[record.ROLE] == GATEWAY:
        return FATES.index("not_request")
    return FATES.index("used") if row[record.FATE] == MISSING else row[record.FATE]


def _script(stage: _Stage, split: int, wanted: Iterable[int]) -> Script:
    """What was recorded; `wanted`: registers that somebody reads when it has been played."""
    tape = stage.tape
    read = {*wanted, *(register for _, _, *pair in tape.words for register in pair)}
    read.update(end for site in tape.sites for end in site[:2])
    loads = [load for load in stage.loads if load[0] in read]
    ids = [(register, row, cell) for (row, cell), register in tape.ids.items()]
    return Script(tape.offsets, tape.words, split, tape.registers, tape.constants, loads, tape.sites, ids)
