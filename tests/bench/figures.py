"""What was measured, and what was to be reached."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

RATIO: Final = "ratio"


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing that was measured several times."""

    case: str
    what: str
    samples: tuple[float, ...]
    unit: str = RATIO
    at_most: float | None = None
    at_least: float | None = None
    """The goal, if there is one."""

    @property
    def median(self) -> float:
        """Of the samples."""
        return statistics.median(self.samples)

    @property
    def goal(self) -> str:
        """In words; empty where there is none."""
        if self.at_most is not None:
            return f"≤ {number(self.at_most)}"
        return "" if self.at_least is None else f"≥ {number(self.at_least)}"

    @property
    def met(self) -> bool | None:
        """Whether the median is within the goal."""
        if self.at_most is not None:
            return self.median <= self.at_most
        return None if self.at_least is None else self.median >= self.at_least

    @property
    def said(self) -> str:
        """The same in words."""
        return {True: "met", False: "not met", None: ""}[self.met]

    def as_data(self) -> dict[str, Any]:
        """For a file of results."""
        return {
            "case": self.case, "what": self.what, "unit": self.unit, "median": _round(self.median),
            "least": _round(min(self.samples)), "most": _round(max(self.samples)), "runs": len(self.samples),
            "goal": self.goal, "said": self.said,
        }  # fmt: skip


def number(value: float) -> str:
    """With three significant digits, and thousands set apart."""
    if abs(value) >= 1_000:
        return f"{round(value):,}"
    return f"{_round(value):g}"


def _round(value: float) -> float:
    return float(f"{value:.3g}") if abs(value) < 1_000 else round(value)


COLUMNS: Final = ("case", "what", "median", "spread", "unit", "goal", "")


def cells(figure: dict[str, Any]) -> tuple[str, ...]:
    """A line of a table, from a figure as data."""
    spread = f"{number(figure['least'])} to {number(figure['most'])}" if figure["runs"] > 1 else ""
    return (
        figure["case"], figure["what"], number(figure["median"]), spread, figure["unit"], figure["goal"],
        figure["said"],
    )  # fmt: skip


def table(figures: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The lines of a table for a terminal."""
    rows = [COLUMNS, *map(cells, figures)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = ("<", "<", ">", ">", "<", "<", "<")
    for row in rows:
        padded = (f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True))
        yield "  ".join(padded).rstrip()
