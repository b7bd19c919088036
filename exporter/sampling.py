"""How many requests a sampled span stands for, from the `ot` entry of its trace state.

OpenTelemetry's tracestate handling: `th` is the rejection threshold T, 1 to 14 hex digits padded with zeros to 56 bits;
a span is kept if its randomness R (`rv`, else the last 7 bytes of the trace id) is at least T, so it stands for
2^56 / (2^56 - T) requests. Absent, malformed, or R < T (such a span cannot have been kept): not known.
"""

import re
from fractions import Fraction
from typing import Final, NamedTuple

from exporter.record import MISSING, WEIGHT_ONE

BITS: Final = 56
RANDOM: Final = 2**BITS - 1
"""The bits of a trace id that are random."""
MAX_WEIGHT: Final = 2**40
"""Beyond a million million requests for one span something else is wrong."""
_THRESHOLD: Final = re.compile(r"[0-9a-f]{1,14}")
_RANDOM: Final = re.compile(r"[0-9a-f]{14}")


class Sampling(NamedTuple):
    """What a trace state says; None where it does not, or wrongly."""

    threshold: int | None
    randomness: int | None


def read_state(state: str) -> Sampling:
    """The `ot` entry of a trace state."""
    entries = dict(part.strip().partition("=")[::2] for part in reversed(state.split(",")))
    values = dict(part.partition(":")[::2] for part in reversed(entries.get("ot", "").split(";")))
    threshold, randomness = values.get("th", ""), values.get("rv", "")
    return Sampling(
        int(threshold.ljust(14, "0"), 16) if _THRESHOLD.fullmatch(threshold) else None,
        int(randomness, 16) if _RANDOM.fullmatch(randomness) else None,
    )


def adjusted_count(sampling: Sampling, trace_random: int | None = None) -> Fraction | None:
    """Requests per kept span; None where it is not known. `trace_random`: the low 56 bits of the trace id."""
    if sampling.threshold is None:
        return None
    randomness = sampling.randomness if sampling.randomness is not None else trace_random
    if randomness is not None and randomness < sampling.threshold:
        return None
    return Fraction(2**BITS, 2**BITS - sampling.threshold)


def weight_of(state: bytes, trace_lo: int) -> int:
    """The weight cell of a row: units of 1/WEIGHT_ONE, or MISSING."""
    return _units(adjusted_count(read_state(state.decode("utf-8", "replace")), trace_lo & RANDOM))


def weight_of_kept(sampling: Sampling) -> int:
    """The same where the randomness is known to be high enough, or is what the trace state itself says."""
    return _units(adjusted_count(sampling))


def _units(count: Fraction | None) -> int:
    return MISSING if count is None or count > MAX_WEIGHT else round(count * WEIGHT_ONE)
