"""Laws of the arithmetic, over all samples and thresholds."""

from fractions import Fraction

from hypothesis import assume, given
from hypothesis import strategies as st

from slo_rules.slo import minimum_samples
from slo_rules.verdict import attainment, attainment_bounds, budget_remaining, burn_rate, rank, verdict

PERCENTILES = st.integers(10, 1000).map(lambda tenths: Fraction(tenths, 10))
SAMPLES = st.lists(st.integers(0, 50), min_size=1, max_size=200)
COUNTS = st.integers(0, 10**6)
TARGETS = st.integers(1, 9999).map(lambda share: Fraction(share, 10_000))


@given(PERCENTILES, SAMPLES, st.integers(-1, 51))
def test_the_nearest_rank_value_is_within_the_threshold_if_and_only_if_enough_samples_are(
    percentile: Fraction, samples: list[int], threshold: int
) -> None:
    """NR percentile <= T  <=>  count(x <= T) >= ceil(q N)."""
    n, within = len(samples), sum(value <= threshold for value in samples)
    value = sorted(samples)[rank(percentile, n) - 1]
    enough = within >= -(-percentile * n // 100)
    assert (value <= threshold) == enough
    assert verdict(percentile, n, within, 1) == ("met" if enough else "violated")


@given(PERCENTILES, st.integers(1, 10**9))
def test_the_rank_is_the_least_that_holds_its_share(percentile: Fraction, n: int) -> None:
    position = rank(percentile, n)
    assert 1 <= position <= n
    assert position * 100 >= percentile * n
    assert position == 1 or (position - 1) * 100 < percentile * n


@given(PERCENTILES, COUNTS, COUNTS, st.fractions(Fraction(1, 100), 100))
def test_a_weight_common_to_all_samples_changes_no_verdict(
    percentile: Fraction, within: int, beyond: int, weight: Fraction
) -> None:
    n = within + beyond
    assert verdict(percentile, n, within, 0) == verdict(percentile, n * weight, within * weight, 0)


@given(PERCENTILES, COUNTS, COUNTS)
def test_one_more_sample_within_the_threshold_never_turns_met_into_violated(
    percentile: Fraction, within: int, beyond: int
) -> None:
    assume(verdict(percentile, within + beyond, within, 1) == "met")
    assert verdict(percentile, within + beyond + 1, within + 1, 1) == "met"


@given(COUNTS, COUNTS, COUNTS)
def test_attainment_lies_between_its_bounds_and_is_them_when_nothing_is_unknown(
    good: int, bad: int, unknown: int
) -> None:
    bounds, share = attainment_bounds(good, good + bad, unknown), attainment(good, good + bad)
    assume(bounds is not None and share is not None)
    assert bounds is not None
    assert share is not None
    assert 0 <= bounds[0] <= share <= bounds[1] <= 1
    assert unknown or bounds == (share, share)


@given(COUNTS, COUNTS, TARGETS)
def test_what_is_burnt_and_what_is_left_make_the_budget(good: int, bad: int, target: Fraction) -> None:
    burnt, left = burn_rate(good, good + bad, target), budget_remaining(good, good + bad, target)
    assume(burnt is not None and left is not None)
    assert burnt is not None
    assert left is not None
    assert burnt + left == 1
    assert (left >= 0) == (Fraction(good, good + bad) >= target)


@given(st.integers(1, 999).map(lambda tenths: Fraction(tenths, 10)))
def test_the_automatic_minimum_is_the_least_with_confidence(percentile: Fraction) -> None:
    n, q = minimum_samples("auto", percentile), percentile / 100
    assert q**n <= Fraction(1, 100)
    assert n == 1 or q ** (n - 1) > Fraction(1, 100)
