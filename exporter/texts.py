"""What the texts of attributes mean: numbers, durations, paths and numbered ids."""

import math
import re
from typing import Final

WHOLE: Final = re.compile(r"-?[0-9]{1,19}")
DECIMAL: Final = re.compile(r"([0-9]{1,19})\.([0-9]{1,18})")
DECIMALS: Final = 18
WHOLE_UNIT: Final = 10**DECIMALS
UNITS_TEXT: Final = re.compile(r"([0-9.]+)(ns|us|µs|ms|s)")


def scaled(value: float, unit_ns: int) -> int | None:
    """A float times the unit, rounded to whole nanoseconds; None where there is no such number."""
    return round(value * unit_ns) if math.isfinite(value) and abs(value) < 2**62 else None


def parsed(text: str, unit_ns: int) -> int | None:
    """A decimal number as text, or a duration with its own unit such as `850.3ms`."""
    match = UNITS_TEXT.fullmatch(text)
    if match:
        text, unit_ns = match[1], {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 10**9}[match[2]]
    if WHOLE.fullmatch(text):  # exactly, as a time in nanoseconds has more digits than a float
        return int(text) * unit_ns
    if match := DECIMAL.fullmatch(text):
        digits = int(match[1] + match[2].ljust(DECIMALS, "0"))
        return (2 * digits * unit_ns + WHOLE_UNIT) // (2 * WHOLE_UNIT)
    try:
        return scaled(float(text), unit_ns)
    except ValueError:
        return None


def status_of(text: str) -> int:
    """A status code, -1 where it is none."""
    return int(text[:4]) if text.isdecimal() else -1


def path_of(url: str) -> str:
    """Path of a URL or of a request target, without query."""
    path = url.split("?", 1)[0].split("#", 1)[0]
    scheme, mark, rest = path.partition("://")
    return "/" + rest.partition("/")[2] if mark and "/" not in scheme else path


def unnumbered(identity: str, pattern: re.Pattern[str] | None) -> str:
    """A numbered id without its number: the group of the pattern. Any other id as it is."""
    match = pattern.fullmatch(identity) if pattern is not None else None
    return match[1] if match and match[1] is not None else identity
