"""Whatever a server answers: levels that can be, or a reason that is counted."""

import gzip
from math import isfinite
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.gauges import RESULTS, SERVERS, Unreadable, read_gauges

CAPTURES = Path(__file__).resolve().parents[1] / "data" / "captures"
BODIES = [
    b"\n".join(line for line in gzip.decompress(file.read_bytes()).split(b"\n") if b"requests" in line)
    for file in sorted(CAPTURES.glob("*/metrics-after.txt.gz"))
]
NAMES = [name for server in SERVERS for name in (server.running, server.waiting, server.ended) if name]
PIECES = st.one_of(
    st.sampled_from(NAMES),
    st.sampled_from([
        "{", "}", '"', "\\", "=", ",", " ", "\t", "\n", "\r", "#", "\x1c", '{engine="0"}', "{__name__=", "tp_rank",
        "# TYPE ", " gauge", "1", "-1", "1e309", "NaN", "+Inf", "0x1", "1_0", "\u00e9", "\u2028",
    ]),
    st.text(max_size=4),
)  # fmt: skip


def check(body: bytes) -> None:
    """Nothing but a reading or Unreadable comes out of a body."""
    found, reason = None, ""
    try:
        found = read_gauges(body)
    except Unreadable as error:
        reason = error.result
    if found is None:
        assert reason in RESULTS[1:]
    else:
        assert all(isfinite(level) and level >= 0 for level in found[1:] if level is not None)


@settings(max_examples=300)
@given(st.lists(PIECES, max_size=30))
def test_pieces_of_the_format_in_any_order_are_levels_or_a_reason(pieces: list[str]) -> None:
    check("".join(pieces).encode("utf-8", errors="replace"))


@settings(max_examples=200)
@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4), st.lists(PIECES, max_size=6))
def test_whatever_follows_a_known_name_is_a_level_or_a_reason(names: list[str], pieces: list[str]) -> None:
    rest = "".join(pieces)
    check("\n".join(name + rest for name in names).encode("utf-8", errors="replace"))


@settings(max_examples=200)
@given(st.data())
def test_a_recorded_body_cut_and_changed_anywhere_is_levels_or_a_reason(data: st.DataObject) -> None:
    body = bytearray(data.draw(st.sampled_from(BODIES)))
    for _ in range(data.draw(st.integers(0, 8))):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    check(bytes(body[: data.draw(st.integers(0, len(body)))]))


@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_any_bytes_are_levels_or_a_reason(body: bytes) -> None:
    check(body)
