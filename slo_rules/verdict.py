"""Verdicts and budgets: arithmetic on counts, exact from end to end.

A percentile objective is decided by counting, never by reading a value back from buckets. With q = percentile / 100 and
N samples, the nearest-rank percentile is the value at ascending position ceil(q N), so

    percentile <= T    if and only if    count(x <= T) >= ceil(q N)    if and only if    count(x <= T) >= q N

The last form holds for weighted samples too. Every count may be a Fraction, the sum of sampling weights. Nothing is
rounded, and "no data" is None or "no_data": it takes no part in arithmetic.
"""

import math
from fractions import Fraction
from typing import Literal

Count = int | Fraction
Verdict = Literal["met", "violated", "no_data"]


def rank(percentile: Fraction, n: int) -> int:
    """The nearest rank: the position, from 1 to `n`, of the percentile among `n` ascending values, `n` at least 1."""
    return max(1, math.ceil(percentile * n / 100))


def verdict(percentile: Fraction, n: Count, n_le_threshold: Count, minimum_samples: int) -> Verdict:
    """Whether the percentile of `n` samples is at most the threshold, which `n_le_threshold` of them do not exceed."""
    if n <= 0 or n < minimum_samples:
        return "no_data"
    return "met" if 100 * n_le_threshold >= percentile * n else "violated"


def attainment(good: Count, eligible: Count) -> Fraction | None:
    """The share of eligible requests that are good; None if there are none."""
    return Fraction(good, eligible) if eligible else None


def attainment_bounds(good: Count, eligible: Count, unknown: Count) -> tuple[Fraction, Fraction] | None:
    """The attainment if all unknown requests were bad, and if all were good; None if there is no request."""
    total = eligible + unknown
    return (Fraction(good, total), Fraction(good + unknown, total)) if total else None


def burn_rate(good: Count, eligible: Count, target: Fraction) -> Fraction | None:
    """How many times faster than the target allows the error budget is being used.

    None if nothing is eligible, and for a target of 1: there is no budget whose use could have a rate.
    """
    if not eligible or target == 1:
        return None
    rest = target.denominator - target.numerator  # one division, as there are many to tell at once
    return Fraction((eligible - good) * target.denominator, eligible * rest)


def budget_remaining(good: Count, eligible: Count, target: Fraction) -> Fraction | None:
    """The share of the error budget that is left, below 0 when overspent; None if nothing is eligible.

    A target of 1 has an empty budget: it is whole (1) until the first bad request exhausts it (0).
    """
    if not eligible:
        return None
    bad = Fraction(eligible - good)
    if target == 1:
        return Fraction(0 if bad else 1)
    return 1 - bad / eligible / (1 - target)
