"""Rows of the join table, as recognising leaves them, in a few words. Times are seconds."""

from typing import Final

from exporter import record
from exporter.record import MISSING
from exporter.tree import Path, Row
from slo_rules.vocabulary import OUTCOMES, ROLES

S: Final = 1_000_000_000
CELLS: Final = {name.lower(): cell for name, cell in vars(record).items() if name.isupper() and isinstance(cell, int)}
TIMES: Final = tuple(record.STAMP_CELLS)


def row(
    role: str | None, name: str, *, parent: str = "", trace: int = 1, start: float = 0, end: float = 10,
    seen: float | None = None, link: str = "", evidence: str | None = None, width: int = record.LABELS, **cells: float,
) -> Row:  # fmt: skip
    """One row. Names of spans are their ids; `cells` are those of `exporter.record`, in lower case."""
    made = [MISSING] * width
    values: dict[str, int | None] = {
        "trace_hi": 0, "trace_lo": trace, "span": number(name), "parent": number(parent), "start": ns(start),
        "end": ns(end), "seen": ns(end if seen is None else seen), "role": None if role is None else ROLES.index(role),
        "profile": record.UNRECOGNISED if role is None else ROLES.index(role), "link": number(link) if link else None,
        "evidence": None if evidence is None else OUTCOMES.index(evidence), "clock": 1, "resource": 1, "failed": 0,
    }  # fmt: skip
    if role in ("client", "gateway", "engine"):
        values |= {"arrived": ns(start), "ended": ns(end)}
    if role == "engine":
        values["evidence"] = OUTCOMES.index("ok") if evidence is None else values["evidence"]
    for cell, value in cells.items():
        cell = "class" if cell == "klass" else cell
        values[cell] = ns(value) if cell in TIMES else int(value)
    for cell, given in values.items():
        if given is not None:
            made[CELLS[cell]] = given
    return made


def number(name: str) -> int:
    """A span id."""
    return int.from_bytes(name.encode(), "big")


def ns(seconds: float) -> int:
    """Nanoseconds; MISSING stays so."""
    return MISSING if seconds == MISSING else round(seconds * S)


def name_of(made: Row) -> str:
    """The other way."""
    span = made[record.SPAN]
    return span.to_bytes(8, "big").lstrip(b"\0").decode()


def shape(path: Path) -> str:
    """A request in short: `client > outer > inner: e1+e2@1 e3@-1; hop; part`, engines with the place of their gate."""
    engines = ("+".join(map(name_of, group)) + f"@{gate}" for group, gate in zip(path.engines, path.gates, strict=True))
    around = " > ".join(map(name_of, [*path.clients, *path.nodes]))
    inside = " ".join(engines)
    beside = "; ".join(" ".join(map(name_of, rows)) for rows in (path.hops, path.parts) if rows)
    return "".join((around, f": {inside}" if inside else "", f"; {beside}" if beside else ""))
