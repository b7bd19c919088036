"""Families to text: Prometheus 0.0.4 and OpenMetrics 1.0.0.

Both formats are one line a sample, `name{label="value",...} number`, and differ in little: OpenMetrics drops `_total`
from the family's name, states units, carries exemplars and ends in `# EOF`. Both must stay true to these rules:

- A label value may hold anything a sender chose. Backslash, quote and line feed are escaped; lone surrogates, which
  UTF-8 cannot carry, become question marks. A strange value never costs the scrape.
- `le` is spelt as OpenMetrics in Go spells it (`1.0`, `0.25`, `1e+06`, `+Inf`), so that one limit has one spelling.
- Buckets are cumulative and the last one, `+Inf`, equals the count.
- A label with an empty value is the same as no label, and is left out.

A `Writer` keeps the label text of each series from one scrape to the next, as labels change rarely and values always
do. What a scrape did not show is forgotten with it, so the text kept is that of the living series.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from math import inf
from typing import Final, NamedTuple

from slo_rules.families import FamilySpec

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

LONGEST_EXEMPLAR: Final = 128
"""Characters of label names and values that OpenMetrics 1.0 allows an exemplar."""


class Exemplar(NamedTuple):
    """One request that stands for a bucket or a counter; `value` in the unit of the family, `unix_s` in seconds."""

    trace_id: str
    span_id: str
    value: float
    unix_s: float


class Point(NamedTuple):
    """One series of a counter or a gauge. An empty label value leaves the label out."""

    labels: tuple[str, ...]
    value: float
    exemplar: Exemplar | None = None


class HistogramPoint(NamedTuple):
    """One series of a histogram: finite ascending edges, one count more than edges, counts not cumulative.

    `exemplars` are by the index of the bucket in `counts`.
    """

    labels: tuple[str, ...]
    edges: tuple[float, ...]
    counts: Sequence[float]
    sum: float
    exemplars: Mapping[int, Exemplar]


class Family(NamedTuple):
    """A family and its series, each given once."""

    spec: FamilySpec
    points: Iterable[Point | HistogramPoint]


class Writer:
    """Writes scrapes, and reuses label text between them."""

    def __init__(self) -> None:
        self._labels: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}

    def text(self, families: Iterable[Family]) -> bytes:
        """All families in the Prometheus text format 0.0.4."""
        return _encode(self._write(families, openmetrics=False))

    def openmetrics(self, families: Iterable[Family]) -> bytes:
        """All families in OpenMetrics 1.0.0."""
        return _encode([*self._write(families, openmetrics=True), "# EOF\n"])

    def _write(self, families: Iterable[Family], *, openmetrics: bool) -> list[str]:
        lines: list[str] = []
        shown: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}
        for family in families:
            lines.append(_head(family.spec, openmetrics=openmetrics))
            # Families with the same label names share the text of their labels.
            names = family.spec.labels
            known, kept = self._labels.get(names, {}), shown.setdefault(names, {})
            for point in family.points:
                text = kept.get(point.labels) or known.get(point.labels)
                if text is None:
                    text = _label_text(names, point.labels)
                kept[point.labels] = text
                if isinstance(point, HistogramPoint):
                    _histogram(lines, family.spec.name, text, point, exemplars=openmetrics)
                else:
                    lines.append(_sample(family.spec, text, point, exemplars=openmetrics))
        self._labels = shown
        return lines


def write_text(families: Iterable[Family]) -> bytes:
    """The families in the Prometheus text format 0.0.4, without a memory of earlier scrapes."""
    return Writer().text(families)


def write_openmetrics(families: Iterable[Family]) -> bytes:
    """The families in OpenMetrics 1.0.0, without a memory of earlier scrapes."""
    return Writer().openmetrics(families)


def _encode(lines: list[str]) -> bytes:
    return "".join(lines).encode("utf-8", errors="replace")


def _head(spec: FamilySpec, *, openmetrics: bool) -> str:
    if not openmetrics:
        return f"# HELP {spec.name} {_escape_help(spec.help)}\n# TYPE {spec.name} {spec.kind}\n"
    name = spec.name.removesuffix("_total") if spec.kind == "counter" else spec.name
    unit = f"# UNIT {name} {spec.unit}\n" if spec.unit and name.endswith(f"_{spec.unit}") else ""
    return f"# HELP {name} {_escape(spec.help)}\n# TYPE {name} {spec.kind}\n{unit}"


def _label_text(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """`a="x",b="y"`, without braces. A wrong number of values raises ValueError."""
    pairs = zip(names, values, strict=True)
    return ",".join(f'{name}="{_escape(value)}"' for name, value in pairs if value)


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _escape_help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _sample(spec: FamilySpec, labels: str, point: Point, *, exemplars: bool) -> str:
    braced = f"{{{labels}}}" if labels else ""
    exemplar = _exemplar(point.exemplar) if exemplars and spec.kind == "counter" and point.exemplar else ""
    return f"{spec.name}{braced} {_number(point.value)}{exemplar}\n"


def _histogram(lines: list[str], name: str, labels: str, point: HistogramPoint, *, exemplars: bool) -> None:
    if len(point.counts) != len(point.edges) + 1:
        raise ValueError(f"{name}: {len(point.edges)} edges need one count more, found {len(point.counts)}")
    cumulative = list(accumulate(map(float, point.counts)))
    start = f'{name}_bucket{{{labels}{"," if labels else ""}le="'
    buckets = [f"{start}{end}{value!r}\n" for end, value in zip(_bucket_ends(point.edges), cumulative, strict=True)]
    if exemplars:
        for index, exemplar in point.exemplars.items():
            buckets[index] = buckets[index][:-1] + _exemplar(exemplar) + "\n"
    lines += buckets
    braced = f"{{{labels}}}" if labels else ""
    lines.append(f"{name}_sum{braced} {_number(point.sum)}\n{name}_count{braced} {cumulative[-1]!r}\n")


@lru_cache(maxsize=64)
def _bucket_ends(edges: tuple[float, ...]) -> tuple[str, ...]:
    """The rest of each bucket's line between `le="` and its number. Few different sets of edges are in use."""
    return tuple(f'{spell_edge(edge)}"}} ' for edge in (*edges, inf))


def spell_edge(edge: float) -> str:
    """A bucket's upper bound, not negative, as OpenMetrics in Go spells it: shortest digits, an exponent from 1e+06 on.

    Python's own spelling differs only in where exponents begin.
    """
    if edge == inf:
        return "+Inf"
    text = repr(float(edge))
    whole, _, fraction = text.partition(".")
    if "e" in text or len(whole) <= 6:
        return text
    digits = (whole[1:] + fraction).rstrip("0")
    return f"{whole[0]}{'.' if digits else ''}{digits}e+{len(whole) - 1:02d}"


_NOT_FINITE: Final = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}


def _number(value: float) -> str:
    # float() first: an integer and a NumPy number are to look alike.
    text = repr(float(value))
    return _NOT_FINITE.get(text, text)


def _exemplar(exemplar: Exemplar) -> str:
    """With its comment mark and leading space; the span id, then all, is left out where the labels are too long."""
    pairs = [(name, value) for name, value in (("trace_id", exemplar.trace_id), ("span_id", exemplar.span_id)) if value]
    while sum(len(name) + len(value) for name, value in pairs) > LONGEST_EXEMPLAR:
        pairs.pop()
    if not pairs:
        return ""
    labels = ",".join(f'{name}="{_escape(value)}"' for name, value in pairs)
    return f" # {{{labels}}} {_number(exemplar.value)} {exemplar.unix_s:.3f}"
