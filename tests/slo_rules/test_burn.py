"""Alert windows: the numbers of the SRE workbook and of sloth, and the guard against chance, by hand."""

from dataclasses import replace
from fractions import Fraction
from math import comb
from pathlib import Path

import pytest
import yaml

from slo_rules.burn import (
    MOST_BAD,
    AlertWindows,
    BurnWindow,
    ExporterGone,
    built_in,
    decimal,
    least_bad,
    obstacle,
    read_windows,
    steps,
)
from slo_rules.document import Problem, read
from slo_rules.units import DAY_NS, HOUR_NS, MINUTE_NS, parse_duration

MONTH_NS = 30 * DAY_NS
ROW = "{severity: page, long: 1h, short: 5m, budget: 2%}"


def sloth(path: Path) -> tuple[int, tuple[BurnWindow, ...]]:
    """Period and rows of one of sloth's window files."""
    spec = yaml.safe_load(path.read_text())["spec"]
    rows = tuple(
        BurnWindow(
            severity=severity,
            long_ns=parse_duration(row["longWindow"]),
            short_ns=parse_duration(row["shortWindow"]),
            budget=Fraction(str(row["errorBudgetPercent"])) / 100,
        )
        for severity in ("page", "ticket")
        for row in (spec[severity]["quick"], spec[severity]["slow"])
    )
    return parse_duration(spec["sloPeriod"]), rows


def factors(period_ns: int, rows: tuple[BurnWindow, ...]) -> list[Fraction]:
    return [row.factor(period_ns) for row in rows]


def read_text(text: str) -> tuple[AlertWindows | None, list[str]]:
    found: list[Problem] = []
    (node,) = read(text, "config.yaml", found, {})
    return read_windows(node), [str(problem) for problem in found]


@pytest.mark.parametrize("name", ["google-28d", "google-30d"])
def test_the_built_in_windows_are_those_that_sloth_takes_from_the_workbook(data: Path, name: str) -> None:
    period_ns, rows = sloth(data / "sloth" / "windows-builtin" / f"{name}.yaml")
    assert built_in().burn == rows
    assert factors(period_ns, built_in().burn) == factors(period_ns, rows)


def test_factors_are_those_of_the_workbook_for_thirty_days() -> None:
    assert factors(MONTH_NS, built_in().burn) == [Fraction("14.4"), 6, 3, 1]


def test_factors_follow_the_period() -> None:
    expected = [Fraction("13.44"), Fraction("5.6"), Fraction("2.8"), Fraction(14, 15)]
    assert factors(28 * DAY_NS, built_in().burn) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("7d", ["13.44", "3.5", "1.4", "0.98"]), ("custom-30d", ["14.4", "4.8", "3", "1"])],
)
def test_windows_of_one_s_own_have_the_factors_that_sloth_gives_them(
    data: Path, name: str, expected: list[str]
) -> None:
    period_ns, rows = sloth(data / "sloth" / "windows" / f"{name}.yaml")
    assert [decimal(factor) for factor in factors(period_ns, rows)] == expected


@pytest.mark.parametrize(("hours", "factor", "least"), [(1, "14.4", 2), (6, "6", 3), (24, "3", 4), (72, "1", 4)])
def test_ten_requests_an_hour_at_99_9_percent(hours: int, factor: str, least: int) -> None:
    assert least_bad(10 * hours, Fraction(factor) / 1000) == least


def tail(bad: int, requests: int, ratio: Fraction) -> Fraction:
    """P(X >= bad), from the definition."""
    return sum(
        (comb(requests, k) * ratio**k * (1 - ratio) ** (requests - k) for k in range(bad, requests + 1)), Fraction(0)
    )


@pytest.mark.parametrize("ratio", ["0.001", "0.0144", "0.06", "0.3", "0.72", "0.9"])
def test_the_least_bad_count_is_the_first_with_a_chance_of_one_percent_at_most(ratio: str) -> None:
    p = Fraction(ratio)
    for requests in (0, 1, 2, 3, 10, 60, 90):
        least = least_bad(requests, p)
        assert tail(least, requests, p) <= Fraction(1, 100)
        assert least == 0 or tail(least - 1, requests, p) > Fraction(1, 100)


@pytest.mark.parametrize("ratio", ["0.001", "0.0144", "0.144", "0.72"])
def test_steps_say_what_the_least_bad_count_is(ratio: str) -> None:
    p = Fraction(ratio)
    found = steps(p)
    for requests in range(2, min(found[-1], 400)):
        assert 2 + sum(requests >= step for step in found) == min(max(2, least_bad(requests, p)), MOST_BAD)


def row(*, long_ns: int = HOUR_NS, budget: str = "0.02") -> BurnWindow:
    return BurnWindow(severity="page", long_ns=long_ns, short_ns=5 * MINUTE_NS, budget=Fraction(budget))


def test_a_row_that_can_fire_has_no_obstacle() -> None:
    assert obstacle(row(), MONTH_NS, Fraction("0.99")) is None


@pytest.mark.parametrize("target", ["0.9", "0.5"])
def test_a_burn_rate_above_the_highest_possible_one_is_an_obstacle(target: str) -> None:
    assert "cannot be reached" in str(obstacle(row(), MONTH_NS, Fraction(target)))


def test_the_highest_possible_burn_rate_itself_is_never_exceeded() -> None:
    assert obstacle(row(budget="1/72"), MONTH_NS, Fraction("0.9")) == (
        "a burn rate above 10 cannot be reached, as with a target of 90% it is 10 at most"
    )


def test_a_target_of_all_leaves_nothing_to_burn() -> None:
    assert "no error budget" in str(obstacle(row(), MONTH_NS, Fraction(1)))


def test_a_window_as_long_as_the_period_is_an_obstacle() -> None:
    for days in (1, 3):
        assert "not shorter than the period of 1d" in str(
            obstacle(row(long_ns=days * DAY_NS), DAY_NS, Fraction("0.99"))
        )


def test_a_section_that_is_not_given_is_the_built_in_one() -> None:
    assert read_text(f"burn: [{ROW}]") == (replace(built_in(), burn=(row(),)), [])
    assert read_text("exporter: {for: 1m}") == (replace(built_in(), exporter=ExporterGone(hold_ns=MINUTE_NS)), [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"burn: [{ROW}, {ROW}]", "config.yaml:1:59 burn[1]: must have another long window than the rows before it"),
        (f"burn: [{ROW.replace('5m', '2h')}]", "config.yaml:1:8 burn[0]: must have a short window below the long one"),
        (f"burn: [{ROW.replace('5m', '5s500ms')}]", "config.yaml:1:42 burn[0].short: must be whole seconds"),
        (f"burn: [{ROW.replace('5m', '5')}]", "burn[0].short: must be a duration with its unit"),
        (f"burn: [{ROW.replace('page', 'pager')}]", "burn[0].severity: must be one of: page, ticket"),
        (f"burn: [{ROW.replace(', budget: 2%', '')}]", "burn[0].budget: must be given"),
        ("burn: [" + ", ".join(ROW.replace("1h", f"{hours}h") for hours in range(1, 18)) + "]", "must hold 16 rows"),
        ("no_data: {window: 1h, before: [], requests: 5}", "no_data.before: must hold at least one duration"),
        ("exporter: {for: 5m, long: 3m}", "exporter.long: must be a known key: for"),
        ("windows: {}", "must be a known key: burn, backlog, no_data, exporter"),
    ],
)
def test_mistakes_are_named_with_their_place(text: str, problem: str) -> None:
    _, (found,) = read_text(text)
    assert found.startswith("config.yaml:1:")
    assert problem in found
