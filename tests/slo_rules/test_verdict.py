import json
from fractions import Fraction
from pathlib import Path

import pytest

from slo_rules.verdict import attainment, attainment_bounds, budget_remaining, burn_rate, rank, verdict

VECTORS = json.loads(
    (Path(__file__).parents[1] / "data/derived/percentile_rank_vectors.json").read_text(), parse_float=str
)["vectors"]
DATA = {
    "1..100": list(range(1, 101)),
    "1..160": list(range(1, 161)),
    "1..11": list(range(1, 12)),
    "ties": [1] * 90 + [2] * 9 + [100],
}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['data']}-p{vector['p']}")
def test_the_rank_is_the_nearest_rank_of_the_recorded_vectors(vector: dict[str, str | int]) -> None:
    n = int(vector["n"])
    values = DATA.get(str(vector["data"]), [int(vector["nearest_rank"])])
    assert len(values) == n
    assert values[rank(Fraction(vector["p"]), n) - 1] == vector["nearest_rank"]


def test_the_rank_is_exact_where_floats_are_not() -> None:
    """0.07 * 100 is 7.000000000000001 to a float, which would be rank 8."""
    assert rank(Fraction(7), 100) == 7


def test_no_samples_are_no_data_and_never_met() -> None:
    assert verdict(Fraction(95), 0, 0, minimum_samples=1) == "no_data"
    assert verdict(Fraction(95), 0, 0, minimum_samples=0) == "no_data"


def test_fewer_samples_than_the_minimum_are_no_data() -> None:
    assert verdict(Fraction(95), 89, 89, minimum_samples=90) == "no_data"
    assert verdict(Fraction(95), 90, 90, minimum_samples=90) == "met"


@pytest.mark.parametrize(("within", "expected"), [(95, "met"), (94, "violated"), (100, "met"), (0, "violated")])
def test_the_percentile_is_within_the_threshold_if_its_share_of_the_samples_is(within: int, expected: str) -> None:
    assert verdict(Fraction(95), 100, within, minimum_samples=1) == expected


def test_weights_of_sampled_requests_are_counted_as_they_are() -> None:
    assert verdict(Fraction(90), Fraction(25, 2), Fraction(45, 4), minimum_samples=1) == "met"
    assert verdict(Fraction(90), Fraction(25, 2), Fraction(449, 40), minimum_samples=1) == "violated"


def test_attainment_is_zero_when_none_is_good_and_absent_when_none_is_eligible() -> None:
    assert attainment(0, 10) == 0
    assert attainment(0, 0) is None


def test_unknown_requests_leave_attainment_between_bounds() -> None:
    assert attainment_bounds(8, 9, 1) == (Fraction(8, 10), Fraction(9, 10))
    assert attainment_bounds(0, 0, 4) == (Fraction(0), Fraction(1))
    assert attainment_bounds(0, 0, 0) is None


def test_the_burn_rate_is_a_ratio_of_counts_over_the_whole_window() -> None:
    """Six slots of which three had no traffic: 10 bad of 500 burn a budget of 1 % twice as fast as allowed."""
    finished, bad = [400, 0, 100, 0, 0, 0], [0, 0, 10, 0, 0, 0]
    assert attainment(sum(finished) - sum(bad), sum(finished)) == 1 - Fraction(2, 100)
    assert burn_rate(sum(finished) - sum(bad), sum(finished), Fraction(99, 100)) == 2


def test_a_burn_rate_is_never_rounded() -> None:
    assert burn_rate(2, 3, Fraction(99, 100)) == Fraction(100, 3)


def test_without_eligible_requests_there_is_no_burn_rate_and_no_budget_reading() -> None:
    assert burn_rate(0, 0, Fraction(99, 100)) is None
    assert budget_remaining(0, 0, Fraction(99, 100)) is None


@pytest.mark.parametrize(
    ("good", "remaining"), [(1000, Fraction(1)), (995, Fraction(1, 2)), (990, Fraction(0)), (970, Fraction(-2))]
)
def test_the_remaining_budget_falls_below_zero_when_overspent(good: int, remaining: Fraction) -> None:
    assert budget_remaining(good, 1000, Fraction(99, 100)) == remaining


def test_a_target_of_all_requests_is_exhausted_by_the_first_bad_one() -> None:
    assert budget_remaining(1000, 1000, Fraction(1)) == 1
    assert budget_remaining(999, 1000, Fraction(1)) == 0
    assert burn_rate(999, 1000, Fraction(1)) is None
