import gzip
import json
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from exporter.histogram import (
    LAYOUT,
    LIMIT_NS,
    TOP_SLOT,
    HistogramError,
    Layout,
    error_ratio,
    largest_error,
    quantile_slot,
    reading_ns,
    slot_of_ns,
)
from slo_rules.verdict import rank

MS = 1_000_000
PERCENTILES = st.sampled_from([Fraction(p) for p in (1, 50, 90, 95, 99, "99.9", 100)])
LAYOUTS = st.sampled_from(
    [
        LAYOUT,
        Layout(lowest=1, highest=3_600_000_000, digits=3),
        Layout(lowest=1024, highest=3_600_000_000, digits=3),
        Layout(lowest=20_000, highest=3_600_000_000_000, digits=2),
        Layout(lowest=1, highest=(1 << 63) - 1, digits=5),
        Layout(lowest=3, highest=6, digits=0),
    ]
)


def counted(durations_ns: Iterable[int]) -> Counter[int]:
    return Counter(map(slot_of_ns, durations_ns))


def exact(values: list[int], percentile: Fraction) -> int:
    return sorted(values)[rank(percentile, len(values)) - 1]


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


# The layout


def test_the_layout_is_that_of_the_other_implementations(data: Path) -> None:
    facts = load(data / "hdrhistogram" / "equivalence.json")
    params, derived = facts["params"], facts["derived"]
    layout = Layout(lowest=params["lowest"], highest=params["highest"], digits=params["significant_digits"])
    assert layout.unit_bits == derived["unit_magnitude"]
    assert 2 << layout.half_bits == derived["sub_bucket_count"]
    assert layout.half_bits == derived["sub_bucket_half_count_magnitude"]
    assert layout.size == derived["counts_len"]


@pytest.mark.parametrize("lowest", [1, 1024])
def test_highest_equivalent_values_are_those_of_the_other_implementations(lowest: int, data: Path) -> None:
    facts = load(data / "hdrhistogram" / "equivalence.json")
    values = facts["highest_equivalent"] if lowest == 1 else facts["unit_1024_highest_equivalent"]["values"]
    layout = Layout(lowest=lowest, highest=3_600_000_000, digits=3)
    assert {value: layout.highest_equivalent(layout.index_of(int(value))) for value in values} == values


@given(st.integers(0, 3_600_000_000), st.integers(1, 5), st.sampled_from([1, 7, 1024]))
def test_slots_are_those_of_the_library(value: int, digits: int, lowest: int) -> None:
    layout = Layout(lowest=lowest, highest=3_600_000_000, digits=digits)
    library = HdrHistogram(lowest, 3_600_000_000, digits)
    assert layout.size == library.counts_len
    assert layout.index_of(value) == library.get_counts_array_index(value)
    assert layout.highest_equivalent(layout.index_of(value)) == library.get_highest_equivalent_value(value)


@given(LAYOUTS, st.data())
def test_a_slot_holds_its_value_and_nothing_of_its_neighbours(layout: Layout, draw: st.DataObject) -> None:
    value = draw.draw(st.integers(0, layout.highest))
    slot = layout.index_of(value)
    assert 0 <= slot < layout.size
    assert layout.lowest_equivalent(slot) <= value <= layout.highest_equivalent(slot)
    assert layout.lowest_equivalent(slot + 1) == layout.highest_equivalent(slot) + 1


@given(LAYOUTS, st.data())
def test_a_slot_is_at_most_two_parts_in_s_wide(layout: Layout, draw: st.DataObject) -> None:
    value = draw.draw(st.integers(0, layout.highest))
    slot, sub_buckets = layout.index_of(value), 2 << layout.half_bits
    if value < sub_buckets << layout.unit_bits:
        assert layout.width(slot) == 1 << layout.unit_bits
    else:
        assert Fraction(layout.width(slot), layout.lowest_equivalent(slot)) <= Fraction(2, sub_buckets)


@given(st.integers(0, LAYOUT.highest))
def test_the_error_ratio_bounds_what_a_reading_adds(value: int) -> None:
    slot = LAYOUT.index_of(value)
    assert LAYOUT.highest_equivalent(slot) - value <= LAYOUT.error_ratio(slot) * value
    assert LAYOUT.error_ratio(slot) < Fraction(1, 1024)


def test_a_slot_of_one_integer_has_no_error() -> None:
    assert [LAYOUT.error_ratio(slot) for slot in (0, 1, 2047)] == [0, 0, 0]
    assert LAYOUT.error_ratio(2048) == Fraction(1, 2048)


@pytest.mark.parametrize(
    ("lowest", "highest", "digits", "message"),
    [
        (0, 100, 3, "lowest value is at least 1, found 0"),
        (-5, 100, 3, "found -5"),
        (10, 19, 3, "at least twice the lowest and below 2\\^63, found 19"),
        (1, 1 << 63, 3, "below 2\\^63"),
        (1, 100, 6, "significant digits are 0 to 5, found 6"),
        (1, 100, -1, "found -1"),
        (1 << 50, (1 << 63) - 1, 5, "leave no room in 63 bits"),
    ],
)
def test_a_layout_outside_the_format_is_refused(lowest: int, highest: int, digits: int, message: str) -> None:
    with pytest.raises(HistogramError, match=message):
        Layout(lowest=lowest, highest=highest, digits=digits)


# Durations


@pytest.mark.parametrize(
    ("duration_ns", "slot"),
    [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2), (2_047_000, 2047), (2_047_001, 2048), (2_049_000, 2048)],
)
def test_durations_are_rounded_up_to_the_microsecond(duration_ns: int, slot: int) -> None:
    assert slot_of_ns(duration_ns) == slot


@given(st.integers(0, LIMIT_NS))
def test_a_reading_never_understates_a_duration(duration_ns: int) -> None:
    reading = reading_ns(slot_of_ns(duration_ns))
    assert duration_ns <= reading <= (duration_ns + 999) * (1 + Fraction(1, 1024))


@given(st.integers(LIMIT_NS + 1, 1 << 70))
def test_a_duration_beyond_the_range_goes_to_the_top_slot(duration_ns: int) -> None:
    assert slot_of_ns(duration_ns) == TOP_SLOT
    assert slot_of_ns(LIMIT_NS) < TOP_SLOT
    assert reading_ns(TOP_SLOT) > LIMIT_NS


def test_samples_beyond_the_range_are_kept() -> None:
    """F36: 99 requests of one second and 2 of twice the longest."""
    counts = counted([1000 * MS] * 99 + [2 * LIMIT_NS] * 2)
    assert counts.total() == 101
    assert quantile_slot(counts, Fraction(99)) == TOP_SLOT


# Percentiles


def test_an_empty_window_has_no_percentile() -> None:
    """F37."""
    assert [quantile_slot({}, Fraction(p)) for p in (50, 95, 99)] == [None, None, None]


@pytest.mark.parametrize(("n", "percentile", "ms"), [(60, 99, 60), (19, 95, 19), (60, 50, 30), (19, 1, 1)])
def test_ranks_are_never_rounded_down(n: int, percentile: int, ms: int) -> None:
    """F34: half-up rounding answers 59 and 18."""
    counts = counted(ms * MS for ms in range(1, n + 1))
    assert quantile_slot(counts, Fraction(percentile)) == slot_of_ns(ms * MS)


def rank_vectors(data: Path) -> Iterable[tuple[list[int], Fraction, int]]:
    for vector in load(data / "derived" / "percentile_rank_vectors.json")["vectors"]:
        if vector["data"] == "ties":
            values = [1] * 90 + [2] * 9 + [100]
        elif vector["data"] == "single":
            values = [vector["nearest_rank"]]
        else:
            values = list(range(1, vector["n"] + 1))
        yield values, Fraction(str(vector["p"])), vector["nearest_rank"]


def test_nearest_rank_vectors_hold(data: Path) -> None:
    checked = 0
    for values, percentile, expected in rank_vectors(data):
        slot = quantile_slot(Counter(map(LAYOUT.index_of, values)), percentile)
        assert slot is not None
        assert LAYOUT.highest_equivalent(slot) == expected
        checked += 1
    assert checked == 25


@given(st.lists(st.integers(0, 10**12), min_size=1), PERCENTILES)
def test_a_percentile_is_the_exact_one_or_above_it_by_less_than_a_slot(durations: list[int], p: Fraction) -> None:
    slot = quantile_slot(counted(durations), p)
    assert slot is not None
    value = exact(durations, p)
    assert slot == slot_of_ns(value)
    assert value <= reading_ns(slot) <= (value + 999) * (1 + Fraction(1, 1024))


@given(st.lists(st.integers(0, 10**12)), st.lists(st.integers(0, 10**12)), PERCENTILES)
def test_windows_that_are_added_read_as_one_window_of_all(first: list[int], second: list[int], p: Fraction) -> None:
    added = counted(first) + counted(second)
    assert added == counted(first + second)
    assert quantile_slot(added, p) == quantile_slot(counted(first + second), p)


@given(st.dictionaries(st.integers(0, TOP_SLOT), st.integers(1, 50), min_size=1), st.integers(2, 9), PERCENTILES)
def test_weights_in_a_finer_unit_change_nothing(counts: dict[int, int], unit: int, p: Fraction) -> None:
    finer = {slot: count * unit for slot, count in counts.items()}
    assert quantile_slot(finer, p) == quantile_slot(counts, p)


def test_a_weight_counts_as_that_many_samples() -> None:
    assert quantile_slot({1: 99, 2: 1}, Fraction(99)) == 1
    assert quantile_slot({1: 98, 2: 2}, Fraction(99)) == 2


def test_a_percentile_above_100_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 100, found 101"):
        quantile_slot({1: 1}, Fraction(101))


# Latencies of real services: 2,845 requests of 19 runs


def requests(data: Path) -> dict[str, list[dict[str, Any]]]:
    runs: dict[str, list[dict[str, Any]]] = {}
    with gzip.open(data / "llmperf" / "individual.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line, parse_float=Decimal)
            runs.setdefault(row["run"], []).append(row)
    return runs


def in_ns(seconds: Decimal) -> int:
    return round(seconds * 10**9)


def tpot_ns(row: dict[str, Any]) -> int:
    return in_ns((row["end_to_end_latency_s"] - row["ttft_s"]) / (row["number_output_tokens"] - 1))


def close(counts: Counter[int], known: dict[str, float]) -> bool:
    readings = {p: reading_ns(quantile_slot(counts, Fraction(p)) or 0) for p in known}
    return all(abs(readings[p] - value * 1e9) <= 0.0013 * value * 1e9 for p, value in known.items())


def test_counts_and_percentiles_of_real_services_are_right(data: Path) -> None:
    known = load(data / "llmperf" / "known_values.json")["runs"]
    runs = requests(data)
    assert runs.keys() == known.keys()
    for run, rows in runs.items():
        ended = [row for row in rows if row["error_code"] is None]
        ttft = counted(in_ns(row["ttft_s"]) for row in ended)
        completion = counted(in_ns(row["end_to_end_latency_s"]) for row in ended)
        tpot = counted(map(tpot_ns, ended))
        good = sum(in_ns(row["ttft_s"]) <= 1000 * MS and tpot_ns(row) <= 50 * MS for row in ended)
        assert (len(rows), len(ended)) == (known[run]["started"], known[run]["ok"]), run
        assert ttft.total() == completion.total() == tpot.total() == known[run]["ok"], run
        assert good == known[run]["good(ttft<=1,tpot<=0.05)"], run
        assert close(ttft, known[run]["nearest_rank"]["ttft_s"]), run
        assert close(completion, known[run]["nearest_rank"]["e2e_s"]), run
        assert close(tpot, known[run]["tpot_s_n_minus_1"]), run


@given(slots=st.sets(st.one_of(st.integers(0, TOP_SLOT), st.integers(0, 5000)), min_size=1))
def test_the_largest_error_of_slots_is_found_among_the_least_of_each_width(slots: set[int]) -> None:
    assert largest_error(slots) == max(map(error_ratio, slots))
