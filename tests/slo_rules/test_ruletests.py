"""The generated unit tests: written as they were looked over, passed by the rules, and failed by wrong ones."""

import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from slo_rules.burn import BurnWindow, built_in
from slo_rules.rules import RuleSettings, generate, rows, write_prometheus
from slo_rules.ruletests import cases, notation, unit_tests
from slo_rules.slo import SLO
from slo_rules.units import HOUR_NS, MINUTE_NS, SECOND_NS

PROMTOOL = os.environ.get("PROMTOOL", "promtool")
"""Another version by its path."""
Make = Callable[..., SLO]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([7], "7"),
        ([0, 5, 10, 15], "0+5x3"),
        ([3, 3, 3], "3+0x2"),
        ([9, 8], "9-1x1"),
        ([None, None, 1, 2, None], "_x2 1+1x1 _x1"),
        ([0, 1, 2, 2, 2, 0, 4], "0+1x2 2+0x1 0+4x1"),
    ],
)
def test_values_are_written_as_promtool_reads_them(values: list[int | None], text: str) -> None:
    assert notation(values) == text


def test_tests_are_those_that_were_looked_over_to_the_byte(
    example: Path, example_slos: list[SLO], settings: RuleSettings
) -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in example.glob("*.tests-*.yml")}
    common = {path.name: path.read_text(encoding="utf-8") for path in example.parent.glob("*.tests-*.yml")}
    made = unit_tests(example_slos, settings)
    assert {name: text for name, text in made.items() if ".tests-" in name} == written | common


def test_the_rules_of_the_tests_are_all_rules(example_slos: list[SLO], settings: RuleSettings) -> None:
    files = unit_tests(example_slos, settings)
    apart = [yaml.safe_load(text)["groups"] for name, text in files.items() if name.endswith(".rules.yml")]
    together = yaml.safe_load(write_prometheus(generate(example_slos, settings)))["groups"]
    assert [group for groups in apart for group in groups] == together


def test_every_alert_has_tests_that_fire_it_keep_it_silent_and_resolve_it(
    example_slos: list[SLO], settings: RuleSettings
) -> None:
    told = list(cases(example_slos, settings))
    made = generate(example_slos, settings)
    for alert in (rule.alert for group in made.groups for rule in group.rules if rule.alert):
        own = [case for case in told if f"{alert}:" in case.name]
        assert any(expected.alert == alert for case in own for expected in case.alerts)
        assert any("silent" in case.name for case in own)
        assert any("resolves" in case.name for case in own)


def test_every_burn_rate_alert_has_the_hard_cases(example_slos: list[SLO], settings: RuleSettings) -> None:
    found = example_slos[0]
    names = [case.name for case in cases([found], settings)]
    for row, why in rows(found, built_in()):
        own = [each for each in names if f" ErrorBudgetBurn{row.text.split()[2]}: " in each]
        for claim in ("no traffic", "one request", "restart", "half-way", "missed scrapes", "all bad", "all good"):
            assert any(claim in each for each in own) == (why is None)


def test_ten_requests_an_hour_fire_from_the_least_bad_count_on(slo: Make, settings: RuleSettings) -> None:
    names = [case.name for case in cases([slo(target=Fraction("0.999"))], settings) if "requests an hour" in case.name]
    assert [name.partition("hour, ")[2] for name in names] == [
        "1 of 10 bad", "2 of 10 bad",
        "2 of 60 bad", "3 of 60 bad",
        "3 of 240 bad", "4 of 240 bad",
        "3 of 720 bad", "4 of 720 bad",
    ]  # fmt: skip


@pytest.mark.needs("promtool")
def test_the_rules_pass_their_tests(example_slos: list[SLO], settings: RuleSettings, tmp_path: Path) -> None:
    files = unit_tests(example_slos, settings)
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    def passes(name: str) -> str:
        command = [PROMTOOL, "test", "rules", name]
        run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return "" if run.returncode == 0 else run.stdout + run.stderr

    names = [name for name in files if ".tests-" in name]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # one promtool keeps one processor busy
        assert dict(zip(names, pool.map(passes, names), strict=True)) == dict.fromkeys(names, "")


@pytest.mark.needs("promtool")
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (" > 14.4", " > 20"),
        (" > 14.4", " > 8"),
        ('least1h{slo="chat"} - 0.5', 'least1h{slo="chat"} - 2.5'),
        ('least1h{slo="chat"} - 0.5', 'least1h{slo="chat"} + 0.5'),
        ("and slo:inference_slo_burn_rate:ratio_rate5m", "and slo:inference_slo_burn_rate:ratio_rate1h"),
        ("sum by (slo) (rate(inference_slo_eligible", "max by (slo) (rate(inference_slo_eligible"),
        ("severity: page", "severity: ticket"),
        ("requests were not good", "requests were good"),
    ],
)
def test_wrong_rules_fail_their_tests(
    right: str, wrong: str, tmp_path: Path, slo: Make, settings: RuleSettings
) -> None:
    settings = replace(settings, windows=replace(built_in(), burn=built_in().burn[:1]))
    text = write_prometheus(generate([slo()], settings))
    assert right in text
    (tmp_path / "chat.rules.yml").write_text(text.replace(right, wrong), encoding="utf-8")
    (tmp_path / "test.yml").write_text(unit_tests([slo()], settings)["chat.tests-1m.yml"], encoding="utf-8")
    run = subprocess.run([PROMTOOL, "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, check=False)
    assert run.returncode == 1


def test_tests_follow_windows_of_one_s_own(slo: Make) -> None:
    quick = BurnWindow(severity="page", long_ns=MINUTE_NS, short_ns=5 * SECOND_NS, budget=Fraction("0.02"))
    windows = replace(built_in(), burn=(quick,))
    settings = RuleSettings(windows=windows, scrape_interval_ns=SECOND_NS)
    tests = unit_tests([slo(period_ns=12 * HOUR_NS)], settings)
    assert yaml.safe_load(tests["chat.tests-1s.yml"])["evaluation_interval"] == "1s"
    assert "ErrorBudgetBurn1m: all bad fires" in tests["chat.tests-1s.yml"]
