"""The error budget counts over the period that the SLO declares, and over no more."""

from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest

from exporter.budget import MOST_PENDING, SLICES, Budget, Ring
from slo_rules.slo import SLO, Calendar

SECOND = 10**9
HOUR = 3600 * SECOND
DAY = 24 * HOUR
ROLLING = SLO(name="chat", objectives=(), target=Fraction(99, 100), period_ns=30 * DAY)
MONTHLY = replace(ROLLING, calendar=Calendar(unit="month", timezone="Asia/Seoul"))
NOW = 1000 * DAY


def at(text: str, timezone: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(timezone)).timestamp()) * SECOND


def test_a_rolling_budget_forgets_what_is_older_than_its_period() -> None:
    budget = Budget(ROLLING)
    budget.add(NOW, 5, 1)
    assert budget.read(NOW) == (5, 1, NOW - 30 * DAY)
    assert budget.read(NOW + 30 * DAY - 1)[:2] == (5, 1)
    assert budget.read(NOW + 30 * DAY + HOUR)[:2] == (0, 0)


def test_a_rolling_budget_holds_at_most_one_slice_too_much() -> None:
    budget = Budget(ROLLING)
    for age in range(0, 40 * DAY, HOUR // 2):
        budget.add(NOW - age, 1, 0)
    assert 30 * 48 <= budget.read(NOW)[0] <= 30 * 48 + 3


def test_the_memory_of_a_budget_is_bounded() -> None:
    budget = Budget(ROLLING)
    for hour in range(5000):
        budget.add(NOW + hour * HOUR, 1, 0)
    assert isinstance(budget.period, Ring)
    assert budget.read(NOW + 4999 * HOUR)[0] >= SLICES
    assert len(budget.period.counts) <= SLICES + 2
    assert not budget.pending


def test_what_nobody_reads_is_bounded_too() -> None:
    budget = Budget(ROLLING)
    for second in range(3 * MOST_PENDING):
        budget.add(NOW + second * SECOND, 1, 0)
    assert len(budget.pending) <= MOST_PENDING
    assert budget.read(NOW + HOUR * 3)[0] == 3 * MOST_PENDING


def test_windows_forget_what_is_older_than_their_length() -> None:
    budget = Budget(ROLLING, [HOUR, 6 * HOUR])
    budget.add(NOW - 2 * HOUR, 5, 1)
    budget.add(NOW - HOUR // 2, 7, 3)
    budget.add(NOW + HOUR, 100, 100)
    assert budget.read_windows(NOW) == {HOUR: (7, 3), 6 * HOUR: (12, 4)}
    assert budget.read_windows(NOW - HOUR) == {HOUR: (5, 1), 6 * HOUR: (5, 1)}


def test_a_window_as_long_as_the_period_says_nothing_that_the_budget_does_not() -> None:
    assert Budget(replace(ROLLING, period_ns=HOUR), [HOUR // 2, HOUR]).windows.keys() == {HOUR // 2}


def test_a_reload_keeps_the_windows_that_stay() -> None:
    before = Budget(ROLLING, [HOUR])
    before.add(NOW, 5, 1)
    assert Budget(MONTHLY, [HOUR, 2 * HOUR], before).read_windows(NOW) == {HOUR: (5, 1), 2 * HOUR: (0, 0)}


def test_a_calendar_budget_counts_from_the_start_of_the_period() -> None:
    budget = Budget(MONTHLY)
    start = at("2026-03-01", "Asia/Seoul")
    budget.add(start - 1, 7, 7)
    budget.add(start, 5, 1)
    budget.add(start + 20 * DAY, 5, 0)
    assert budget.read(start + 20 * DAY) == (10, 1, start)
    assert budget.read(start - 1) == (7, 7, at("2026-02-01", "Asia/Seoul"))


def test_a_calendar_budget_is_whole_again_when_the_next_period_begins_even_without_traffic() -> None:
    budget = Budget(MONTHLY)
    budget.add(at("2026-03-15", "Asia/Seoul"), 5, 1)
    assert budget.read(at("2026-04-01", "Asia/Seoul"))[:2] == (0, 0)


def test_what_comes_late_counts_in_the_period_in_which_it_ended() -> None:
    budget = Budget(MONTHLY)
    march, april = at("2026-03-31T23:59", "Asia/Seoul"), at("2026-04-01T00:01", "Asia/Seoul")
    budget.add(april, 1, 0)
    budget.add(march, 0, 1)
    assert budget.read(april)[:2] == (1, 0)
    assert budget.read(march)[:2] == (0, 1)


def test_without_a_target_there_is_no_budget() -> None:
    budget = Budget(replace(ROLLING, target=None, period_ns=None), [HOUR])
    budget.add(NOW, 5, 1)
    assert budget.read(NOW) == (0, 0, NOW)
    assert budget.read_windows(NOW) == {}


@pytest.mark.parametrize(("slo", "kept"), [(ROLLING, True), (MONTHLY, False)])
def test_a_reload_keeps_the_counts_of_the_same_period(slo: SLO, kept: bool) -> None:
    before = Budget(ROLLING)
    before.add(NOW, 5, 1)
    assert (Budget(slo, before=before).read(NOW)[:2] == (5, 1)) is kept
