import base64
import json
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from exporter.histogram import HistogramError, Layout
from exporter.hlog import INFLATED_LIMIT, Histogram, Interval, decode, decode_text, merged, read_log

S = 1_000_000_000
LAYOUT = Layout(lowest=1, highest=3_600_000_000, digits=3)


@pytest.fixture
def folder(data: Path) -> Path:
    return data / "hdrhistogram"


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def intervals(path: Path) -> list[Interval]:
    return list(read_log(path.read_text(encoding="utf-8").splitlines(keepends=True)))


def plain(words: bytes, *, cookie: int = 0x1C849313, length: int | None = None, offset: int = 0, digits: int = 3,
          lowest: int = 1, highest: int = 3_600_000_000, ratio: float = 1.0) -> bytes:  # fmt: skip
    size = len(words) if length is None else length
    return struct.pack(">Iiiiqqd", cookie, size, offset, digits, lowest, highest, ratio) + words


def compressed(payload: bytes) -> bytes:
    body = zlib.compress(payload)
    return struct.pack(">Ii", 0x1C849314, len(body)) + body


def text(payload: bytes) -> str:
    return base64.b64encode(compressed(payload)).decode()


# Payloads


def test_payloads_of_the_c_library_hold_their_known_values(folder: Path) -> None:
    for sample in load(folder / "encoded_samples.json")["samples"]:
        histogram = decode_text(sample["b64"])
        assert histogram.layout == LAYOUT
        assert histogram.total == sample["total"]
        for percentile, value in sample["percentiles"].items():
            reading = histogram.percentile(Fraction(percentile))
            assert reading == LAYOUT.highest_equivalent(LAYOUT.index_of(value)), percentile


def test_plain_and_compressed_payloads_of_the_rust_library_are_equal(folder: Path) -> None:
    histogram = decode((folder / "rust" / "seq-nums.hist").read_bytes())
    assert histogram == decode((folder / "rust" / "seq-nums.histz").read_bytes())
    assert histogram.layout == Layout(lowest=1, highest=(1 << 63) - 1, digits=3)
    assert histogram.total > 0


@given(st.lists(st.tuples(st.integers(0, 3_600_000_000), st.integers(1, 1 << 40)), max_size=30))
def test_what_the_library_encodes_is_read(values: list[tuple[int, int]]) -> None:
    library = HdrHistogram(1, 3_600_000_000, 3)
    counts: Counter[int] = Counter()
    for value, count in values:
        assert library.record_value(value, count)
        counts[LAYOUT.index_of(value)] += count
    assert decode_text(library.encode().decode()) == Histogram(layout=LAYOUT, counts=counts)


def test_a_payload_without_words_is_an_empty_histogram() -> None:
    histogram = decode(plain(b""))
    assert (histogram.total, histogram.percentile(Fraction(99))) == (0, None)


def zigzag(word: int) -> bytes:
    """One word as the format has it, at most 9 bytes."""
    z = (word << 1) ^ (word >> 63)
    out = bytearray()
    while z > 0x7F and len(out) < 8:
        out.append(z & 0x7F | 0x80)
        z >>= 7
    out.append(z)
    return bytes(out)


def test_the_largest_count_is_read() -> None:
    assert decode(plain(zigzag((1 << 55) - 1) * 3)).total == 3 * ((1 << 55) - 1)


def test_zeros_at_the_end_are_read_up_to_the_last_slot() -> None:
    assert decode(plain(zigzag(7) + zigzag(-(LAYOUT.size - 1)))).counts == {0: 7}
    assert decode(plain(zigzag(-(LAYOUT.size - 1)) + zigzag(7))).counts == {LAYOUT.size - 1: 7}


MALFORMED = [
    (b"", "a cookie and a length, found 0 bytes"),
    (b"\x1c\x84\x93", "found 3 bytes"),
    (b"HTTP/1.1 200", "begins with the cookie of encoding V2, found 0x48545450"),
    (plain(b"")[:39], "a header of 40 bytes, found 39 bytes"),
    (plain(b"\x02", length=2), "the length is that of the words, 1, found 2"),
    (plain(b"\x02", length=-1), "found -1"),
    (plain(b"\x02\x02", length=1), "the length is that of the words, 2, found 1"),
    (plain(b"\x02", digits=6), "significant digits are 0 to 5, found 6"),
    (plain(b"\x02", digits=-1), "found -1"),
    (plain(b"\x02", lowest=0), "the lowest value is at least 1, found 0"),
    (plain(b"\x02", lowest=100, highest=199), "at least twice the lowest"),
    (plain(b"\x02", highest=-1), "found -1"),
    (plain(b"\x02", offset=1024), "shifted and scaled histograms are not read, found offset 1024"),
    (plain(b"\x02", ratio=1e-9), "ratio 1e-09"),
    (plain(b"\x02", ratio=float("nan")), "ratio nan"),
    (plain(b"\x82"), "words are whole"),
    (plain(b"\x02" + b"\x80" * 7), "words are whole"),
    (plain(zigzag(1 << 55)), "below 2\\^55"),
    (plain(zigzag((1 << 63) - 1)), "below 2\\^55"),
    (plain(zigzag(1) * (LAYOUT.size + 1)), "at most 23552 slots"),
    (plain(zigzag(-LAYOUT.size) + zigzag(1)), "at most 23552 slots"),
    (plain(zigzag(1) + zigzag(-LAYOUT.size)), "at most 23552 slots"),
    (plain(zigzag(-(1 << 40))), "at most 23552 slots"),
    (compressed(plain(b"\x02"))[:-1], "the length is that of the compressed data"),
    (compressed(plain(b"\x02")) + b"\x00", "the length is that of the compressed data"),
    (compressed(compressed(plain(b"\x02"))), "a compressed payload holds a plain one"),
    (struct.pack(">Ii", 0x1C849314, 4) + b"\x00\x01\x02\x03", "zlib data"),
    (struct.pack(">Ii", 0x1C849314, 12) + zlib.compress(plain(b"\x02"))[:12], "one whole zlib stream"),
    (compressed(b"\x00" * (INFLATED_LIMIT + 1)), "inflates to at most"),
]


@pytest.mark.parametrize(("payload", "message"), MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_payload_is_refused(payload: bytes, message: str) -> None:
    with pytest.raises(HistogramError, match=message):
        decode(payload)


@pytest.mark.parametrize(
    ("cookie", "name"),
    [(0x1C849301, "V1"), (0x1C849321, "V1"), (0x1C849382, "V1"), (0x1C849308, "V0"), (0x1C849389, "V0")],
)
def test_older_encodings_are_refused_by_name(cookie: int, name: str) -> None:
    with pytest.raises(HistogramError, match=f"encoding {name} is not read, only V2 is, found cookie {cookie:#x}"):
        decode(plain(b"\x02", cookie=cookie))


@pytest.mark.parametrize("payload", ["HISTFAAA*", "HISTFAAAA", "ü", "HIST FAAA"])
def test_text_that_is_no_base64_is_refused(payload: str) -> None:
    with pytest.raises(HistogramError, match="a payload is base64"):
        decode_text(payload)


@given(st.binary(max_size=300))
def test_any_words_are_read_or_refused(words: bytes) -> None:
    try:
        histogram = decode(plain(words))
    except HistogramError:
        return
    assert all(0 <= slot < LAYOUT.size and count > 0 for slot, count in histogram.counts.items())


@given(st.data())
def test_a_payload_with_flipped_bytes_is_read_or_refused(draw: st.DataObject) -> None:
    payload = bytearray(compressed(plain(b"\x02\x07\x04\x01\x06")))
    for position in draw.draw(st.lists(st.integers(0, len(payload) - 1), max_size=4)):
        payload[position] ^= draw.draw(st.integers(1, 255))
    try:
        histogram = decode(bytes(payload))
    except HistogramError:
        return
    assert all(0 < count < 1 << 55 for count in histogram.counts.values())


def test_histograms_of_different_layouts_are_not_merged() -> None:
    other = Histogram(layout=Layout(lowest=1, highest=3_600_000_000, digits=2), counts={1: 1})
    with pytest.raises(HistogramError, match="within one layout, found 2"):
        merged([Histogram(layout=LAYOUT, counts={1: 1}), other])
    with pytest.raises(HistogramError, match="found 0"):
        merged([])


# Logs


def known_ranges(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    known = load(folder / "known_values.json")["files"][name]
    yield from known.get("source_tests", []) + known["computed"]


def within(rows: list[Interval], range_s: list[int] | None, start_ns: int) -> list[Interval]:
    if range_s is None:
        return rows
    low, high = (start_ns + edge * S for edge in range_s)
    return [row for row in rows if low <= row.start_unix_ns < high]


def re_recorded(rows: list[Interval]) -> Histogram:
    """All intervals in one layout of three digits, each slot at its lowest value: as the origin's tests add them up."""
    layout = Layout(lowest=1, highest=(1 << 63) - 1, digits=3)
    counts: Counter[int] = Counter()
    for row in rows:
        for slot, count in row.histogram.counts.items():
            counts[layout.index_of(row.histogram.layout.lowest_equivalent(slot))] += count
    return Histogram(layout=layout, counts=counts)


V2_LOGS = ["jHiccup-2.0.7S.logV2.hlog", "tagged-Log.logV2.hlog", "c/jHiccup-2.0.7S.logV3.hlog"]


@pytest.mark.parametrize("name", V2_LOGS)
def test_logs_hold_their_known_values(name: str, folder: Path) -> None:
    rows = intervals(folder / name)
    start_ns = 1_441_812_279_474_000_000
    for known in known_ranges(folder, name):
        chosen = within(rows, known["range_s"], start_ns)
        whole = re_recorded(chosen)
        slots = whole.counts.keys()
        assert whole.total == known["total"]
        assert len(chosen) == known.get("histograms", len(chosen))
        assert known.get("max") in (None, whole.layout.highest_equivalent(max(slots)))
        assert known.get("min") in (None, whole.layout.lowest_equivalent(min(slots)))
        assert known.get("p99.9") in (None, whole.percentile(Fraction("99.9")))
        for percentile, value in known.get("ceil", {}).items():
            assert whole.percentile(Fraction(percentile)) == value, percentile


@pytest.mark.parametrize("name", V2_LOGS)
def test_tags_are_those_of_the_lines(name: str, folder: Path) -> None:
    totals: Counter[str] = Counter()
    for row in intervals(folder / name):
        totals[str(row.tag)] += row.histogram.total
    known = [row["totals_by_tag"] for row in known_ranges(folder, name) if "totals_by_tag" in row]
    assert totals == known[0]


def test_the_tagged_half_of_the_tagged_log_equals_the_other(folder: Path) -> None:
    rows = intervals(folder / "tagged-Log.logV2.hlog")
    tagged = merged(row.histogram for row in rows if row.tag == "A")
    assert tagged == merged(row.histogram for row in rows if row.tag is None)
    assert tagged.total * 2 == 32_290


def test_starts_are_relative_to_the_start_of_the_log(folder: Path) -> None:
    first = intervals(folder / "jHiccup-2.0.7S.logV2.hlog")[0]
    assert (first.start_unix_ns, first.length_ns) == (1_441_812_279_601_000_000, 1_007_000_000)


@pytest.mark.parametrize(
    ("name", "line", "encoding"),
    [
        ("jHiccup-2.0.6.logV1.hlog", 5, "V1"),
        ("jHiccup-2.0.1.logV0.hlog", 5, "V0"),
        ("raphael.hlog", 4, "V1"),
        ("c/hiccup.140623.1028.10646.hlog", 5, "V0"),
    ],
)
def test_logs_of_older_encodings_are_refused_by_name(name: str, line: int, encoding: str, folder: Path) -> None:
    with pytest.raises(HistogramError, match=f"^line {line}: encoding {encoding} is not read"):
        intervals(folder / name)


def test_a_start_close_to_the_start_of_the_log_is_absolute_even_if_earlier(folder: Path) -> None:
    """The log of raphael, its payload in V2."""
    lines = (folder / "raphael.hlog").read_text(encoding="utf-8").splitlines()
    start, length, longest, _ = lines[-1].split(",")
    [interval] = read_log([*lines[:-1], f"{start},{length},{longest},{text(plain(zigzag(1)))}"])
    assert (interval.start_unix_ns, interval.length_ns) == (1_629_447_418_475_000_000, 63_182_000_000)


LINE = f"5.000,1.000,0.001,{text(plain(zigzag(1)))}"


@pytest.mark.parametrize(
    ("heads", "start_s"),
    [
        ([], 5),
        (["#[BaseTime: 1000.000 (seconds since epoch)]"], 1005),
        (["#[StartTime: 1000000000.000 (seconds since epoch), Sun Sep 09 2001]"], 1_000_000_005),
        (["#[StartTime: 1000.000 (seconds since epoch), Thu Jan 01 1970]"], 5),
        (["#[StartTime: 1000000000.000 (seconds since epoch), x]", "#[BaseTime: 7.000 (seconds since epoch)]"], 12),
        (["#", "# StartTime: 1000000000.000", '"StartTimestamp","Interval_Length"', ""], 5),
    ],
)
def test_a_start_counts_from_what_the_log_says(heads: list[str], start_s: int) -> None:
    assert [row.start_unix_ns for row in read_log([*heads, LINE])] == [start_s * S]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("invalid_histogram", "base64"),
        ("invalid_tag_key", r"\[Tag=name,\]start"),
        ("invalid_timestamp", r"\[Tag=name,\]start"),
        ("missing_histogram", r"\[Tag=name,\]start"),
    ],
)
def test_malformed_tagged_lines_are_refused(name: str, message: str, folder: Path) -> None:
    line = (folder / "c" / f"test_tagged_{name}.txt").read_text(encoding="utf-8")
    with pytest.raises(HistogramError, match=f"^line 3: .*{message}"):
        list(read_log(["# a comment", LINE, line]))


@pytest.mark.parametrize(
    "line",
    [
        LINE.replace("5.000", "-5.000"),
        LINE.replace("5.000", "nan"),
        LINE.replace("5.000", "5.0000000001"),
        LINE.replace("5.000", "9" * 13),
        "Tag=," + LINE,
        "Tag=a b," + LINE,
        LINE + ",",
        ",,,",
    ],
)
def test_malformed_lines_are_refused(line: str) -> None:
    with pytest.raises(HistogramError, match=r"^line 1: an interval is"):
        list(read_log([line]))


def test_the_lines_before_a_bad_one_are_read() -> None:
    rows = read_log([LINE, "nonsense"])
    assert next(rows).histogram.total == 1
    with pytest.raises(HistogramError, match=r"^line 2: "):
        next(rows)
