from fractions import Fraction

import pytest

from slo_rules.units import (
    format_decimal,
    format_duration,
    format_size,
    parse_duration,
    parse_percentile,
    parse_ratio,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1s", 10**9),
        ("100ms", 10**8),
        ("50us", 50_000),
        ("50µs", 50_000),
        ("7ns", 7),
        ("1.5h", 5_400 * 10**9),
        ("30d", 2_592_000 * 10**9),
        ("1m30s", 90 * 10**9),
        ("0s", 0),
        ("0.1s", 10**8),
    ],
)
def test_a_duration_is_whole_nanoseconds(text: str, ns: int) -> None:
    assert parse_duration(text) == ns


@pytest.mark.parametrize(("one", "other"), [("500ms", "0.5s"), ("5m", "300s"), ("24h", "1d")])
def test_two_spellings_of_a_duration_are_one_value(one: str, other: str) -> None:
    assert parse_duration(one) == parse_duration(other)


@pytest.mark.parametrize(
    "text", ["500", "", "s", "1 s", "-1s", "1S", "1M", "1e3s", "1.s", ".5s", "1s ", "1:30", "\u0665s"]
)
def test_a_duration_without_a_known_unit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a duration with its unit, such as 500ms"):
        parse_duration(text)


def test_a_part_of_a_nanosecond_is_refused() -> None:
    with pytest.raises(ValueError, match="must be a whole number of nanoseconds"):
        parse_duration("0.5ns")


@pytest.mark.parametrize("text", ["0s", "5m", "1h", "30d", "1m30s", "50ms", "1s500ms", "1h30m", "50us", "1ns"])
def test_a_duration_is_written_as_it_is_read(text: str) -> None:
    assert format_duration(parse_duration(text)) == text


@pytest.mark.parametrize(
    ("text", "size"), [("20MiB", 20 * 2**20), ("1.5KiB", 1536), ("64kB", 64_000), ("10B", 10), ("1GiB", 2**30)]
)
def test_a_size_is_bytes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "rule"), [("20", "with its unit"), ("20mb", "with its unit"), ("0.5B", "a whole number of bytes")]
)
def test_a_size_without_a_unit_or_with_half_bytes_is_refused(text: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        parse_size(text)


@pytest.mark.parametrize("text", ["0B", "1000B", "20MiB", "3KiB", "2GiB"])
def test_a_size_is_written_as_it_is_read(text: str) -> None:
    assert format_size(parse_size(text)) == text


@pytest.mark.parametrize(
    ("text", "percentile"),
    [("95", Fraction(95)), ("p95", Fraction(95)), ("99.9", Fraction(999, 10)), ("100", Fraction(100))],
)
def test_a_percentile_is_in_percent(text: str, percentile: Fraction) -> None:
    assert parse_percentile(text) == percentile


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("0.95", "must be a percentile in percent: write 95"),
        ("0.999", "must be a percentile in percent: write 99.9"),
        ("p0.5", "must be a percentile in percent: write 50"),
        ("950", "must be a percentile from 1 to 100, such as 95, p95 or 99.9"),
        ("0", "must be a percentile from 1 to 100"),
        ("-5", "must be a percentile from 1 to 100"),
        ("95%", "must be a percentile from 1 to 100"),
        ("", "must be a percentile from 1 to 100"),
    ],
)
def test_a_fraction_is_not_taken_for_a_percentile(text: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        parse_percentile(text)


@pytest.mark.parametrize(
    ("text", "ratio"),
    [
        ("99%", Fraction(99, 100)),
        ("0.99", Fraction(99, 100)),
        ("99.9%", Fraction(999, 1000)),
        ("100%", Fraction(1)),
        ("1", Fraction(1)),
        ("0.5%", Fraction(1, 200)),
    ],
)
def test_a_ratio_is_read_as_percentage_or_fraction(text: str, ratio: Fraction) -> None:
    assert parse_ratio(text) == ratio


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("99", "must be a percentage or a ratio: write 99% or 0.99"),
        ("99.9", "must be a percentage or a ratio: write 99.9% or 0.999"),
        ("101%", "must be a share above 0 and up to 1, such as 99% or 0.99"),
        ("950", "must be a share above 0 and up to 1"),
        ("0", "must be a share above 0 and up to 1"),
        ("0%", "must be a share above 0 and up to 1"),
        ("99 %", "must be a share above 0 and up to 1"),
    ],
)
def test_a_percentage_without_its_sign_is_refused_with_both_spellings(text: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        parse_ratio(text)


def test_a_decimal_is_written_without_zeros_or_exponent() -> None:
    values = [Fraction(100), Fraction(999, 10), Fraction(1, 10**9), Fraction(0)]
    assert [format_decimal(value) for value in values] == ["100", "99.9", "0.000000001", "0"]
