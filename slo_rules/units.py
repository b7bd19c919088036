"""Quantities as people write them, read exactly: durations, sizes, percentiles and ratios.

A quantity carries its unit, so that 500 is never taken for milliseconds by one reader and for seconds by the next.
Nothing passes through a float: results are integers or fractions, and what is written is what is compared.
Every function that reads raises ValueError with the rule as its message; the caller adds the place and the value.
"""

import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

SECOND_NS: Final = 10**9
MINUTE_NS: Final = 60 * SECOND_NS
HOUR_NS: Final = 60 * MINUTE_NS
DAY_NS: Final = 24 * HOUR_NS

_DURATION_UNITS: Final = {
    "d": DAY_NS, "h": HOUR_NS, "m": MINUTE_NS, "s": SECOND_NS, "ms": 10**6, "us": 10**3, "µs": 10**3, "ns": 1,
}  # fmt: skip
_FORMAT_UNITS: Final = ("d", "h", "m", "s", "ms", "us", "ns")
_SIZE_UNITS: Final = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}

# Digits are bounded: a number of a thousand digits is a mistake, and costly to compute with.
_DECIMAL: Final = r"[0-9]{1,15}(?:\.[0-9]{1,15})?"
_DURATION_PART: Final = re.compile(rf"({_DECIMAL})(d|h|ms|m|s|us|µs|ns)")
_DURATION: Final = re.compile(rf"(?:{_DURATION_PART.pattern})+")
_SIZE: Final = re.compile(rf"({_DECIMAL})({'|'.join(_SIZE_UNITS)})")
_PERCENTILE: Final = re.compile(r"p?([0-9]{1,3}(?:\.[0-9]{1,9})?)")
_RATIO: Final = re.compile(rf"({_DECIMAL})(%?)")


def parse_duration(text: str) -> int:
    """Nanoseconds of "100ms", "1.5h", "1m30s"; the unit is required, and the result is a whole number."""
    if not _DURATION.fullmatch(text):
        raise ValueError("must be a duration with its unit, such as 500ms, 1.5s, 5m, 1h or 30d")
    total = sum(Fraction(number) * _DURATION_UNITS[unit] for number, unit in _DURATION_PART.findall(text))
    if total.denominator != 1:
        raise ValueError("must be a whole number of nanoseconds")
    return int(total)


@lru_cache(maxsize=1024)
def format_duration(ns: int) -> str:
    """The shortest text that `parse_duration` reads as `ns`, 0 or more: "5m", "1h", "1m30s", "1s500ms"."""
    parts = []
    for unit in _FORMAT_UNITS:
        count, ns = divmod(ns, _DURATION_UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def parse_size(text: str) -> int:
    """Bytes of "20MiB" or "64kB"; the unit is required."""
    match = _SIZE.fullmatch(text)
    if not match:
        raise ValueError("must be a size with its unit, such as 512KiB, 20MiB or 1GiB")
    size = Fraction(match[1]) * _SIZE_UNITS[match[2]]
    if size.denominator != 1:
        raise ValueError("must be a whole number of bytes")
    return int(size)


def format_size(size: int) -> str:
    """The text that `parse_size` reads as `size`: "20MiB", or bytes if it is not a whole number of KiB."""
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % _SIZE_UNITS[unit] == 0:
            return f"{size // _SIZE_UNITS[unit]}{unit}"
    return f"{size}B"


def parse_percentile(text: str) -> Fraction:
    """The percentile, in percent, of "95", "p95" or "99.9".

    Below 1 is refused: 0.95 is the 95th percentile to some and nearly the minimum to others.
    """
    match = _PERCENTILE.fullmatch(text)
    percentile = Fraction(match[1]) if match else None
    if percentile is not None and 0 < percentile < 1:
        raise ValueError(f"must be a percentile in percent: write {format_decimal(percentile * 100)}")
    if percentile is None or not 1 <= percentile <= 100:
        raise ValueError("must be a percentile from 1 to 100, such as 95, p95 or 99.9")
    return percentile


def parse_ratio(text: str) -> Fraction:
    """The ratio, above 0 and up to 1, of "99%" or "0.99"."""
    match = _RATIO.fullmatch(text)
    ratio = Fraction(match[1]) / (100 if match[2] else 1) if match else None
    if match and ratio is not None and 1 < ratio <= 100 and not match[2]:
        raise ValueError(f"must be a percentage or a ratio: write {match[1]}% or {format_decimal(ratio / 100)}")
    if ratio is None or not 0 < ratio <= 1:
        raise ValueError("must be a share above 0 and up to 1, such as 99% or 0.99")
    return ratio


def format_decimal(value: Fraction) -> str:
    """A fraction that has a finite decimal form, written in it: "95", "99.9"."""
    text = f"{Decimal(value.numerator) / Decimal(value.denominator):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
