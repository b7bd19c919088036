"""The budget of the last period, against sums over a list."""

from exporter.budget import SLICES, Budget

HOUR = 3600 * 10**9
PERIOD = SLICES * HOUR


def test_nothing_is_counted_at_first() -> None:
    assert Budget(PERIOD).counts(PERIOD) == (0, 0)


def test_what_ended_within_the_period_counts_until_it_is_over() -> None:
    budget = Budget(PERIOD)
    budget.add(10 * HOUR, 7, 2)
    budget.add(10 * HOUR + 1, 1, 1)
    assert budget.counts(10 * HOUR + 1) == (8, 3)
    assert budget.counts(9 * HOUR + PERIOD) == (8, 3)
    assert budget.counts(10 * HOUR + PERIOD) == (0, 0)


def test_what_is_late_counts_where_it_belongs() -> None:
    budget = Budget(PERIOD)
    budget.add(PERIOD, 1, 0)
    budget.add(0, 0, 1)
    assert budget.counts(PERIOD) == (1, 0)
    assert budget.counts(PERIOD - 1) == (0, 1)


def test_sums_are_those_of_the_slices_inside_and_memory_is_bounded() -> None:
    budget = Budget(PERIOD)
    for hour in range(5 * SLICES):
        budget.add(hour * HOUR, hour, 1)
        first = max(0, hour - SLICES + 1)
        assert budget.counts(hour * HOUR) == (sum(range(first, hour + 1)), hour + 1 - first)
        assert len(budget._slices) <= 2 * SLICES


def test_a_period_shorter_than_the_slices_has_one_nanosecond_each() -> None:
    budget = Budget(10)
    budget.add(5, 1, 0)
    assert budget.counts(5) == (1, 0)
