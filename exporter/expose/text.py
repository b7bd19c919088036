"""Families to text: Prometheus 0.0.4 and OpenMetrics 1.0.0.

Both formats are one line a sample, `name{label="value",...} number`, and differ in little: OpenMetrics drops `_total`
from the family's name, states units, carries exemplars and ends in `# EOF`. Both must stay true to these rules:

- A label value may hold anything a sender chose. Backslash, quote and line feed are escaped; lone surrogates, which
  UTF-8 cannot carry, become question marks. A strange value never costs the scrape.
- `le` is spelt as OpenMetrics in Go spells it (`1.0`, `0.25`, `1e+06`, `+Inf`), so that one limit has one spelling.
- Buckets are cumulative and the last one, `+Inf`, equals the count.
- A label with an empty value is the same as no label, and is left out.

A large family comes as rows of exact integers (`Grid`, `Histograms`), which go straight to text without an object for
each series or line. What is written is to the byte what would be written of its points.

A `Writer` keeps the label text of each series from one scrape to the next, as labels change rarely and values always
do. What a scrape did not show is forgotten with it, so the text kept is that of the living series.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from math import inf
from typing import Final, Literal, NamedTuple

from exporter.account import Cells, layout
from exporter.record import WEIGHT_ONE
from slo_rules.families import FamilySpec
from slo_rules.units import SECOND_NS

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

LONGEST_EXEMPLAR: Final = 128
"""Characters of label names and values that OpenMetrics 1.0 allows an exemplar."""
CHUNK_LINES: Final = 4096
"""About so many lines are written in one go, which takes a millisecond or two."""

EXACT: Final = 2**53
"""Integers up to here are doubles, so that sums of integers are sums of doubles."""
FITS: Final = 2**62
"""Integers below are safe in the compiled loops."""
SHORT_NS: Final = 10**15
"""Below, the decimal digits of nanoseconds are the shortest that tell the double in seconds: 15 digits do for sure."""
LONG_NS: Final = 100_000
"""From here on Python spells seconds without an exponent."""

# These have C types in text.pxd.
CHUNK = CHUNK_LINES
EXACT_SUM = EXACT
LARGE = 1 << 61
WEIGHT_BITS = 20
WEIGHT_MASK = 0xFFFFF
STRIDE, OF_SUM, SEEN = layout()
SECOND = 1_000_000_000
MS = 1_000_000
MASK = 0xFFFF_FFFF_FFFF_FFFF


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


Key = tuple[str, ...]
"""Label values."""


class Grid:
    """Counters or gauges in columns: rows of series that differ in their last labels, which are `ends` in each row.

    `numbers` has those of one row after another: weight units, or nanoseconds; None is no series. Columns, not rows, so
    that there are no containers which the garbage collector would have to look through again and again.
    """

    def __init__(self, ends: Sequence[Key] = ((),), unit: Literal["weight", "ns"] = "weight") -> None:
        self.ends = list(ends)
        self.in_ns = unit == "ns"
        self.keys: list[Key] = []
        """By row, the first labels."""
        self.middles: list[Key] = []
        """By row, the labels between."""
        self.numbers: list[int | None] = []

    def add(self, key: Key, middle: Key, numbers: Sequence[int | None]) -> None:
        """Append a row. Raises ValueError for a wrong number of numbers."""
        if len(numbers) != len(self.ends):
            raise ValueError(f"{len(self.ends)} last labels need as many numbers, found {len(numbers)}")
        self.keys.append(key)
        self.middles.append(middle)
        self.numbers += numbers

    def __iter__(self) -> Iterator[Point]:
        numbers = iter(self.numbers)
        for key, middle in zip(self.keys, self.middles, strict=True):
            for end, number in zip(self.ends, numbers, strict=False):
                if number is not None:
                    value = number / SECOND_NS if self.in_ns else units(number)
                    yield Point((*key, *middle, *end), value)


class Histograms:
    """Histograms of durations in columns: where they stand in the cells in which they are counted, or in a copy."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        self.keys: list[Key] = []
        self.middles: list[Key] = []
        """By row, the last labels."""
        self.edges: list[tuple[int, ...]] = []
        self.places: list[int] = []

    def add(self, key: Key, middle: Key, edges: tuple[int, ...], place: int) -> None:
        """Append a row: upper edges in ns, and where its cells begin."""
        self.keys.append(key)
        self.middles.append(middle)
        self.edges.append(edges)
        self.places.append(place)

    def __iter__(self) -> Iterator[HistogramPoint]:
        return map(self.point, range(len(self.keys)))

    def point(self, row: int) -> HistogramPoint:
        """One of them."""
        cells, edges, place = self.cells, self.edges[row], self.places[row]
        buckets = [place + STRIDE * bucket for bucket in range(len(edges) + 1)]
        counts = [cells.value(bucket) for bucket in buckets]
        exemplars = {}
        for number, (bucket, count) in enumerate(zip(buckets, counts, strict=True)):
            if count:
                *seen, ns = [cells.cells[cell] for cell in range(bucket + SEEN, bucket + SEEN + 5)]
                exemplars[number] = exemplar(seen, ns / SECOND_NS)
        return HistogramPoint(
            (*self.keys[row], *self.middles[row]),
            tuple([edge / SECOND_NS for edge in edges]),
            [units(count) for count in counts],
            sum([cells.product(bucket + OF_SUM) for bucket in buckets]) / (WEIGHT_ONE * SECOND_NS),
            exemplars,
        )

    def carried(self, row: int) -> bool:
        """Whether a cell of a row is not all that is counted there."""
        place = self.places[row]
        return any(place <= cell < place + STRIDE * (len(self.edges[row]) + 1) for cell in self.cells.carried)


class Family(NamedTuple):
    """A family and its series, each given once."""

    spec: FamilySpec
    points: Iterable[Point | HistogramPoint]


class Writer:
    """Writes scrapes, and reuses label text between them."""

    def __init__(self) -> None:
        self._labels: dict[Key, dict[Key, str]] = {}

    def text(self, families: Iterable[Family]) -> bytes:
        """All families in the Prometheus text format 0.0.4."""
        return b"".join(self.chunks(families, openmetrics=False))

    def openmetrics(self, families: Iterable[Family]) -> bytes:
        """All families in OpenMetrics 1.0.0."""
        return b"".join(self.chunks(families, openmetrics=True))

    def chunks(self, families: Iterable[Family], *, openmetrics: bool) -> Iterator[bytes]:
        """The same in chunks of `CHUNK_LINES` lines or some more, each written when it is asked for."""
        page = Page(self._labels, openmetrics)
        for family in families:
            for _ in page.write(family):
                yield page.take()
        if openmetrics:
            page.pieces.append("# EOF\n")
        yield page.take()
        self._labels = page.shown


class Page:
    """A scrape that is being written. `pieces` is the text since the last `take`."""

    def __init__(self, known: dict[Key, dict[Key, str]], openmetrics: bool) -> None:
        self.openmetrics = openmetrics
        self.all_known = known
        self.shown: dict[Key, dict[Key, str]] = {}
        """By label names and values, the text of labels: as far as it was known, and what was used of it."""
        self.pieces: list[str] = []
        self.lines = 0

    def take(self) -> bytes:
        """What was written since."""
        text = "".join(self.pieces)
        self.pieces = []
        self.lines = 0
        return text.encode("utf-8", errors="replace")

    def write(self, family: Family) -> Iterator[None]:
        """Write a family; halts whenever there is enough to take."""
        spec, points = family
        self.spec, self.name = spec, spec.name
        self.pieces.append(_head(spec, openmetrics=self.openmetrics))
        self.lines += 3
        if isinstance(points, Grid | Histograms):
            row, rows = 0, len(points.keys)
            if rows:
                self.get_ready(points)
            while row < rows:
                row = self.grid(points, row) if isinstance(points, Grid) else self.histograms(points, row)
                if self.lines >= CHUNK_LINES:
                    yield
            return
        self.use_labels(spec.labels)
        for point in points:
            self.point(point)
            if self.lines >= CHUNK_LINES:
                yield

    def get_ready(self, points: "Grid | Histograms") -> None:
        """For rows of a family."""
        names, key, middle = self.spec.labels, len(points.keys[0]), len(points.middles[0])
        self.use_labels(names[:key])
        self.middle_names = names[key : key + middle]
        self.middles: dict[Key, str] = {}
        self.at = 0
        self.edges: tuple[int, ...] = ()
        self.texts: dict[int, str] = {}
        """Of numbers, as many are alike."""
        if isinstance(points, Grid):
            self.ends = [_label_text(names[key + middle :], end) for end in points.ends]
            self.ends = [f"{end}}} " if end else "" for end in self.ends]

    def use_labels(self, names: Key) -> None:
        # Families with the same (first) label names share the text of their labels.
        self.names = names
        self.known = self.all_known.get(names, {})
        self.kept = self.shown.setdefault(names, {})

    def labels(self, key: Key) -> str:
        """The text of the (first) labels of a series."""
        text = self.kept.get(key)
        if text is None:
            text = self.known.get(key)
            if text is None:
                text = _label_text(self.names, key)
            self.kept[key] = text
        return text

    def both(self, key: Key, middle: Key) -> str:
        """The text of the labels of a row."""
        text = self.labels(key)
        if not middle:
            return text
        more = self.middles.get(middle)
        if more is None:
            more = self.middles[middle] = _label_text(self.middle_names, middle)
        return f"{text},{more}" if text and more else text or more

    def point(self, point: Point | HistogramPoint) -> None:
        """Write one series."""
        text = self.labels(point.labels)
        if isinstance(point, HistogramPoint):
            self.lines += _histogram(self.pieces, self.name, text, point, exemplars=self.openmetrics)
        else:
            self.pieces.append(_sample(self.spec, text, point, exemplars=self.openmetrics))
            self.lines += 1

    def grid(self, grid: Grid, row: int) -> int:
        """Write rows from `row` on until there is enough to take; the next row."""
        keys, middles = grid.keys, grid.middles
        while row < len(keys) and self.lines < CHUNK:
            self.grid_row(self.both(keys[row], middles[row]), grid.numbers, grid.in_ns)
            row += 1
        return row

    def grid_row(self, labels: str, numbers: list[int | None], in_ns: bool) -> None:
        """Write the series of the next row."""
        start = f"{self.name}{{{labels}," if labels else f"{self.name}{{"
        pieces, texts, at = self.pieces, self.texts, self.at
        for end in self.ends:
            number = numbers[at]
            at += 1
            if number is None:
                continue
            text = texts.get(number)
            if text is None:
                text = texts[number] = seconds(number) + "\n" if in_ns else requests(number)
            if end:
                pieces.append(start)
                pieces.append(end)
            else:
                pieces.append(f"{self.name}{{{labels}}} " if labels else f"{self.name} ")
            pieces.append(text)
            self.lines += 1
        self.at = at

    def histograms(self, columns: Histograms, row: int) -> int:
        """Write rows from `row` on until there is enough to take; the next row."""
        keys, middles, carried = columns.keys, columns.middles, columns.cells.carried
        while row < len(keys) and self.lines < CHUNK:
            labels, edges = self.both(keys[row], middles[row]), columns.edges[row]
            if edges is not self.edges:
                self.edges, self.ends = edges, bucket_ends(tuple([edge / SECOND_NS for edge in edges]))
            inexact = carried and columns.carried(row)
            if inexact or not self.histogram(labels, columns.cells.cells, columns.places[row]):
                point = columns.point(row)
                self.lines += _histogram(self.pieces, self.name, labels, point, exemplars=self.openmetrics)
            row += 1
        return row

    def histogram(self, labels: str, cells: memoryview, place: int) -> bool:
        """Write a histogram, unless its counts are beyond what doubles tell apart, or its sum beyond a C integer."""
        ends, pieces, openmetrics = self.ends, self.pieces, self.openmetrics
        start = f'{self.name}_bucket{{{labels}{"," if labels else ""}le="'
        begun, cumulative, whole, rest, text, at = len(pieces), 0, 0, 0, "0.0\n", place
        for bucket in range(len(ends)):
            number = cells[at]
            pieces.append(start)
            pieces.append(ends[bucket])
            if number:
                cumulative += number
                whole += cells[at + OF_SUM]
                rest += cells[at + OF_SUM + 1]
                if number > EXACT_SUM or cumulative > EXACT_SUM or whole > LARGE or rest > LARGE:
                    del pieces[begun:]
                    return False
                text = exact(cumulative)
                pieces.append(f"{text[:-1]}{self.seen(cells, at)}\n" if openmetrics else text)
            else:
                pieces.append(text)
            at += STRIDE
        braced = f"{{{labels}}}" if labels else ""
        spelt = weighted_seconds(exact_sum(whole, rest)) if rest else seconds(whole)
        pieces.append(f"{self.name}_sum{braced} {spelt}\n{self.name}_count{braced} {text}")
        self.lines += len(ends) + 2
        return True

    def seen(self, cells: memoryview, at: int) -> str:
        """The exemplar of a bucket, as `_exemplar` writes it."""
        at += SEEN
        value = seconds(cells[at + 4])
        return f"{ids(cells[at], cells[at + 1], cells[at + 2])} {value} {moment(cells[at + 3])}"


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


def _histogram(lines: list[str], name: str, labels: str, point: HistogramPoint, *, exemplars: bool) -> int:
    """How many lines it has."""
    if len(point.counts) != len(point.edges) + 1:
        raise ValueError(f"{name}: {len(point.edges)} edges need one count more, found {len(point.counts)}")
    cumulative = list(accumulate(map(float, point.counts)))
    start = f'{name}_bucket{{{labels}{"," if labels else ""}le="'
    buckets = [f"{start}{end}{value!r}\n" for end, value in zip(bucket_ends(point.edges), cumulative, strict=True)]
    if exemplars:
        for index, exemplar in point.exemplars.items():
            buckets[index] = buckets[index][:-1] + _exemplar(exemplar) + "\n"
    lines += buckets
    braced = f"{{{labels}}}" if labels else ""
    lines.append(f"{name}_sum{braced} {_number(point.sum)}\n{name}_count{braced} {cumulative[-1]!r}\n")
    return len(buckets) + 2


@lru_cache(maxsize=64)
def bucket_ends(edges: tuple[float, ...]) -> list[str]:
    """The rest of each bucket's line between `le="` and its number. Few different sets of edges are in use."""
    return [f'{spell_edge(edge)}"}} ' for edge in (*edges, inf)]


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


# Counted as integers.


def units(weight: int) -> float:
    """Weight units in requests."""
    return weight // WEIGHT_ONE if weight % WEIGHT_ONE == 0 else weight / WEIGHT_ONE


def exemplar(seen: Sequence[int], value: float) -> Exemplar:
    """An exemplar as text, of trace_hi, trace_lo, span and time in ns."""
    hi, lo, span, time_ns = seen
    trace = f"{hi & (2**64 - 1):016x}{lo & (2**64 - 1):016x}"
    return Exemplar(trace, f"{span & (2**64 - 1):016x}", value, time_ns / SECOND_NS)


def requests(weight: int) -> str:
    """Weight units in requests, as `_number` spells them, and the end of the line."""
    return exact(weight) if 0 <= weight < FITS else f"{_number(weight / WEIGHT_ONE)}\n"


def exact(weight: int) -> str:
    """The same of an integer from 0 to 2^62."""
    if weight & WEIGHT_MASK:
        return f"{_number(weight / WEIGHT_ONE)}\n"
    return f"{weight >> WEIGHT_BITS}.0\n"


def seconds(ns: int) -> str:
    """Nanoseconds in seconds, as `_number` spells them."""
    return decimal(ns) if LONG_NS <= ns < SHORT_NS else _number(ns / SECOND_NS)


def weighted_seconds(total: int) -> str:
    """Nanoseconds times weight units in seconds."""
    if total % WEIGHT_ONE == 0:
        return seconds(total // WEIGHT_ONE)
    return _number(total / (WEIGHT_ONE * SECOND_NS))


def decimal(ns: int) -> str:
    """The exact digits of nanoseconds in seconds."""
    rest = ns % SECOND
    return f"{ns // SECOND}.{rest:09d}".rstrip("0") if rest else f"{ns // SECOND}.0"


def exact_sum(whole: int, rest: int) -> int:
    """Nanoseconds times weight units, of whole requests and of what is left. Without C types, as it may be large."""
    return whole * WEIGHT_ONE + rest


def ids(hi: int, lo: int, span: int) -> str:
    """The labels of an exemplar."""
    high, low, own = hi & MASK, lo & MASK, span & MASK
    return f' # {{trace_id="{high:016x}{low:016x}",span_id="{own:016x}"}}'


def moment(ns: int) -> str:
    """A time in seconds to the millisecond, rounded as the double in seconds is."""
    return (clear_moment(ns) if 0 <= ns < FITS else "") or f"{ns / SECOND_NS:.3f}"


def clear_moment(ns: int) -> str:
    """The same, or nothing near the middle between two milliseconds: the double is off by less than 500 ns."""
    ms, rest = ns // MS, ns % MS
    if 499_000 < rest < 501_000:
        return ""
    if rest > 500_000:
        ms += 1
    return f"{ms // 1000}.{ms % 1000:03d}"
