"""Reads histograms that other programs recorded: HdrHistogram's V2 encoding, and the interval log (.hlog) around it.

A payload is a header of 40 bytes (cookie, length, offset, digits, lowest, highest, ratio; big endian), then one word
per slot: a count, or minus the length of a run of empty slots, each ZigZag LEB128. Compressed, it is zlib data
behind a cookie and a length; in a log, that in base64. A log names intervals, `[Tag=name,]start,length,max,payload`,
in seconds; start is relative to the log's BaseTime, or, where there is none, to its StartTime if the first start
lies more than a year before that; else it is absolute.

The words are decoded by the library `hdrhistogram`, which trusts what it is given: everything around them is checked
here first. The one error is HistogramError; in a log its message names the line. The encodings V0 and V1 are refused
by name.
"""

import binascii
import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt
from hdrh.codec import HdrPayload

from exporter.histogram import HistogramError, Layout, quantile_slot

INFLATED_LIMIT: Final = 16 * 1024 * 1024
"""Bytes of one payload after inflating. Three digits over the whole range have 56,320 slots of at most 9 bytes."""

_HEADER: Final = struct.Struct(">Iiiiqqd")
_ENVELOPE: Final = struct.Struct(">Ii")
_PLAIN: Final = 0x1C849303
_COMPRESSED: Final = 0x1C849304
_OLDER: Final = {0x1C849301: "V1", 0x1C849302: "V1", 0x1C849308: "V0", 0x1C849309: "V0"}
_WORD_SIZE: Final = 0xF0
_ONE_WORD: Final = b"\x02"
_NINE_BYTES: Final = re.compile(rb"[\x80-\xff]{8}")
"""A word of nine bytes, whose value the library misreads if it is close to 2^63. All other words end below 0x80."""

_NUMBER: Final = r"[0-9]{1,12}(?:\.[0-9]{1,9})?"
_INTERVAL: Final = re.compile(
    rf"(?:Tag=(?P<tag>[^, ]+),)?(?P<start>{_NUMBER}),(?P<length>{_NUMBER}),{_NUMBER},(?P<payload>[^,]+)"
)
_TIME: Final = re.compile(rf"#\[(StartTime|BaseTime): ({_NUMBER}) \(seconds since epoch\)")
_YEAR_NS: Final = 365 * 24 * 3600 * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Counts per slot of one layout; values are in whatever unit the recording program used."""

    layout: Layout
    counts: Mapping[int, int]

    @property
    def total(self) -> int:
        """How many values were recorded."""
        return sum(self.counts.values())

    def percentile(self, percentile: Fraction) -> int | None:
        """The nearest-rank percentile, read as the highest value of its slot; None if nothing was recorded."""
        slot = quantile_slot(self.counts, percentile)
        return None if slot is None else self.layout.highest_equivalent(slot)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """One line of a log: what was recorded from `start_unix_ns` on for `length_ns`."""

    start_unix_ns: int
    length_ns: int
    tag: str | None
    histogram: Histogram


def decode(data: bytes) -> Histogram:
    """The histogram in a V2 payload, plain or compressed. Raises HistogramError."""
    if len(data) < _ENVELOPE.size:
        raise HistogramError(f"a payload has a cookie and a length, found {len(data)} bytes")
    cookie, length = _ENVELOPE.unpack_from(data)
    kind = _kind(cookie)
    if kind == _PLAIN:
        return _decode_plain(data)
    if length != len(data) - _ENVELOPE.size:
        raise HistogramError(f"the length is that of the compressed data, {len(data) - _ENVELOPE.size}, found {length}")
    return _decode_plain(_inflate(data[_ENVELOPE.size :]))


def decode_text(text: str) -> Histogram:
    """The histogram in a payload in base64, as logs hold it. Raises HistogramError."""
    try:
        return decode(binascii.a2b_base64(text.encode("ascii"), strict_mode=True))
    except (binascii.Error, UnicodeEncodeError) as error:
        raise HistogramError(f"a payload is base64: {error}") from error


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """All values of histograms of one layout together. Raises HistogramError for none and for mixed layouts."""
    counts: Counter[int] = Counter()
    layouts: set[Layout] = set()
    for histogram in histograms:
        layouts.add(histogram.layout)
        counts.update(histogram.counts)
    if len(layouts) != 1:
        raise HistogramError(f"merging is exact within one layout, found {len(layouts)}")
    return Histogram(layout=layouts.pop(), counts=counts)


def read_log(lines: Iterable[str]) -> Iterator[Interval]:
    """The intervals of a log, as they are read. Raises HistogramError at the first line that is none."""
    times: dict[str, int] = {}
    offset_ns: int | None = None
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        if text.startswith("#"):
            times.update(_time(text))
        elif text and not text.startswith('"'):
            try:
                match = _match(text)
                if offset_ns is None:
                    offset_ns = _offset_ns(times, _nanoseconds(match["start"]))
                yield _interval(match, offset_ns)
            except HistogramError as error:
                raise HistogramError(f"line {number}: {error}") from error


def _kind(cookie: int) -> int:
    """The cookie without its word size. Raises HistogramError for anything but V2."""
    kind = cookie & ~_WORD_SIZE
    if kind in _OLDER:
        raise HistogramError(f"encoding {_OLDER[kind]} is not read, only V2 is, found cookie {cookie:#x}")
    if kind not in (_PLAIN, _COMPRESSED):
        raise HistogramError(f"a payload begins with the cookie of encoding V2, found {cookie:#x}")
    return kind


def _inflate(data: bytes) -> bytes:
    inflater = zlib.decompressobj()
    try:
        inflated = inflater.decompress(data, INFLATED_LIMIT)
    except zlib.error as error:
        raise HistogramError(f"a compressed payload is zlib data: {error}") from error
    if inflater.unconsumed_tail:
        raise HistogramError(f"a payload inflates to at most {INFLATED_LIMIT} bytes, found more")
    if not inflater.eof or inflater.unused_data:
        raise HistogramError("a compressed payload is one whole zlib stream, found less or more")
    return inflated


def _decode_plain(data: bytes) -> Histogram:
    if len(data) < _HEADER.size:
        raise HistogramError(f"a payload has a header of {_HEADER.size} bytes, found {len(data)} bytes")
    cookie, length, offset, digits, lowest, highest, ratio = _HEADER.unpack_from(data)
    if _kind(cookie) != _PLAIN:
        raise HistogramError(f"a compressed payload holds a plain one, found cookie {cookie:#x}")
    if length not in (len(data) - _HEADER.size, len(data)):  # older C libraries count the header too
        raise HistogramError(f"the length is that of the words, {len(data) - _HEADER.size}, found {length}")
    if offset != 0 or ratio != 1.0:
        raise HistogramError(f"shifted and scaled histograms are not read, found offset {offset} and ratio {ratio}")
    layout = Layout(lowest=lowest, highest=highest, digits=digits)
    return Histogram(layout=layout, counts=_counts(data, layout.size))


def _counts(data: bytes, size: int) -> dict[int, int]:
    """The counts by slot. `data` has a checked header."""
    if _NINE_BYTES.search(data, _HEADER.size) or (len(data) > _HEADER.size and data[-1] & 0x80):
        raise HistogramError("words are whole and below 2^55, found others")
    # The library does not see a last word, a run of empty slots, that leaves the array. So it gets one more to place.
    cells = _cells(data + _ONE_WORD, size + 1)
    slots = np.flatnonzero(cells)[:-1]
    return dict(zip(slots.tolist(), cells[slots].tolist(), strict=True))


def _cells(data: bytes, size: int) -> npt.NDArray[np.uint64]:
    try:
        payload = HdrPayload(8, compressed_payload=zlib.compress(data, 0))
        payload.init_counts(size)
    except (IndexError, OverflowError, ValueError) as error:
        raise HistogramError(f"words fill at most {size - 1} slots: {error}") from error
    return np.ctypeslib.as_array(payload.get_counts())


def _match(text: str) -> re.Match[str]:
    match = _INTERVAL.fullmatch(text)
    if match is None:
        raise HistogramError(f"an interval is [Tag=name,]start,length,max,payload, found {text[:80]!r}")
    return match


def _interval(match: re.Match[str], offset_ns: int) -> Interval:
    return Interval(
        start_unix_ns=offset_ns + _nanoseconds(match["start"]),
        length_ns=_nanoseconds(match["length"]),
        tag=match["tag"],
        histogram=decode_text(match["payload"]),
    )


def _time(comment: str) -> dict[str, int]:
    """The time in ns that a comment states, by its name; nothing for any other comment."""
    match = _TIME.match(comment)
    return {match[1]: _nanoseconds(match[2])} if match else {}


def _offset_ns(times: Mapping[str, int], first_ns: int) -> int:
    """What to add to every start of a log whose first one is `first_ns`."""
    base_ns = times.get("BaseTime")
    if base_ns is not None:
        return base_ns
    start_ns = times.get("StartTime", first_ns)
    return start_ns if first_ns < start_ns - _YEAR_NS else 0


def _nanoseconds(seconds: str) -> int:
    """Exact, as the digits say."""
    whole, _, fraction = seconds.partition(".")
    return int(whole) * 10**9 + int(fraction.ljust(9, "0"))
