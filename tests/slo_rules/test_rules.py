"""Rules as text: the same as those that were looked over, accepted by Prometheus, and without the known mistakes."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from slo_rules.burn import built_in
from slo_rules.families import FAMILY
from slo_rules.rules import (
    ATTAINMENT,
    BELOW_TARGET,
    BUDGET,
    BURN,
    GOOD,
    Group,
    RangeTooShort,
    Rule,
    RuleSet,
    RuleSettings,
    generate,
    write_operator,
    write_prometheus,
)
from slo_rules.slo import CALENDAR_UNITS, SLO, Calendar, CalendarUnit
from slo_rules.units import MINUTE_NS, parse_duration

PROMTOOL = os.environ.get("PROMTOOL", "promtool")
"""Another version by its path."""
Make = Callable[..., SLO]


def rules_of(made: RuleSet) -> Iterator[Rule]:
    for group in made.groups:
        yield from group.rules


def alerts(made: RuleSet) -> dict[str, Rule]:
    return {rule.alert: rule for rule in rules_of(made) if rule.alert}


def records(made: RuleSet) -> dict[str, str]:
    return {rule.record: rule.expr for rule in rules_of(made) if rule.record}


def groups(made: RuleSet) -> Mapping[str, Group]:
    return {group.name: group for group in made.groups}


def test_rules_are_those_that_were_looked_over_to_the_byte(
    example: Path, example_slos: list[SLO], settings: RuleSettings
) -> None:
    made = generate(example_slos, settings)
    assert write_prometheus(made) == (example / "goodput.rules.yml").read_text(encoding="utf-8")
    assert write_operator(made, "goodput-exporter", {}) == (example / "operator.yml").read_text(encoding="utf-8")


@pytest.mark.needs("promtool")
def test_promtool_accepts_the_rules(example: Path, tmp_path: Path) -> None:
    spec = yaml.safe_load((example / "operator.yml").read_text(encoding="utf-8"))["spec"]
    (tmp_path / "operator.yml").write_text(yaml.safe_dump(spec), encoding="utf-8")
    files = [example / "goodput.rules.yml", tmp_path / "operator.yml"]
    subprocess.run([PROMTOOL, "check", "rules", "--lint=all", "--lint-fatal", *map(str, files)], check=True)


def test_the_operator_gets_the_same_groups(example: Path) -> None:
    plain, wrapped = (yaml.safe_load((example / name).read_text()) for name in ("goodput.rules.yml", "operator.yml"))
    assert wrapped["spec"]["groups"] == plain["groups"]
    assert wrapped["kind"] == "PrometheusRule"


def test_several_slos_have_groups_of_their_own_and_share_the_rest(slo: Make, settings: RuleSettings) -> None:
    made = generate([slo(), slo(name="agent")], settings)
    assert list(groups(made)) == [
        "goodput-period-chat",
        "goodput-slo-chat",
        "goodput-period-agent",
        "goodput-slo-agent",
        "goodput-backlog",
        "goodput-exporter",
    ]


@pytest.mark.parametrize("other", ["chat-period", "period-chat", "period"])
def test_no_names_of_slos_make_two_groups_of_one_name(slo: Make, settings: RuleSettings, other: str) -> None:
    names = [group.name for group in generate([slo(), slo(name=other)], settings).groups]
    assert sorted(set(names)) == sorted(names)


def test_counters_are_made_rates_before_they_are_summed(example_slos: list[SLO], settings: RuleSettings) -> None:
    for rule in rules_of(generate(example_slos, settings)):
        assert not re.search(r"(rate|increase)\(\s*sum", rule.expr)
        for family in re.findall(r"\binference_\w+_total", rule.expr):
            assert re.search(rf"(rate|increase)\({family}{{", rule.expr)


def test_every_family_that_rules_read_is_exported_and_picked_by_a_label_of_ours(
    example_slos: list[SLO], settings: RuleSettings
) -> None:
    for rule in rules_of(generate(example_slos, settings)):
        for family, matchers in re.findall(r"(?<![:\w])((?:inference|goodput)_\w+)(\{[^}]*\})?", rule.expr):
            assert family in FAMILY
            assert family.startswith("goodput_") or 'slo="' in matchers or 'boundary!=""' in matchers


@pytest.mark.parametrize("scrape", ["15s", "60s", "75s"])
def test_every_range_holds_four_scrapes(slo: Make, scrape: str) -> None:
    scrape_ns = parse_duration(scrape)
    made = generate([slo()], RuleSettings(scrape_interval_ns=scrape_ns))
    ranges = [found for rule in rules_of(made) for found in re.findall(r"\[(\w+)\]", rule.expr)]
    assert ranges
    assert min(parse_duration(each) for each in ranges) >= 4 * scrape_ns


def test_a_window_of_fewer_scrapes_is_refused(slo: Make) -> None:
    with pytest.raises(RangeTooShort, match="window 5m must be at least 8m: 4 scrapes at an interval of 2m"):
        generate([slo()], RuleSettings(scrape_interval_ns=2 * MINUTE_NS))


def test_an_alert_that_can_never_fire_is_left_out_and_named(slo: Make, settings: RuleSettings) -> None:
    made = generate([slo(target=Fraction("0.9"))], settings)
    assert "ErrorBudgetBurn1h" not in alerts(made)
    assert "ErrorBudgetBurn6h" in alerts(made)
    (left_out,) = made.left_out
    assert left_out.startswith("SLO chat, page over 1h and 5m: a burn rate above 14.4 cannot be reached")
    assert f"# Left out. {left_out}." in write_prometheus(made).splitlines()


@pytest.mark.parametrize("period", ["1h", "6h", "1d", "3d", "7d", "30d"])
def test_nothing_is_recorded_twice_whatever_the_period(slo: Make, settings: RuleSettings, period: str) -> None:
    made = generate([slo(period_ns=parse_duration(period))], settings)
    names = [rule.record for rule in rules_of(made) if rule.record]
    assert len(names) == len(set(names))
    assert f"slo:inference_slo_eligible_requests:rate{period}" in names


def test_a_target_of_all_has_no_budget_and_no_alert_on_one(slo: Make, settings: RuleSettings) -> None:
    made = generate([slo(target=Fraction(1))], settings)
    assert not any(BURN.removesuffix("_rate") in name for name in records(made))
    assert not any(name.startswith("ErrorBudget") or name == BELOW_TARGET for name in alerts(made))
    assert len(made.left_out) == 4


def test_an_slo_without_a_target_has_ratios_and_the_alerts_on_data(slo: Make, settings: RuleSettings) -> None:
    made = generate([slo(target=None, period_ns=None)], settings)
    assert "slo:inference_slo_attainment:ratio_rate1h" in records(made)
    assert {name for name, rule in alerts(made).items() if "slo" in rule.labels} == {"SLONoRequests", "SLOCannotJudge"}


def test_work_that_is_not_judged_has_its_throughput_and_the_alert_on_no_requests(
    slo: Make, settings: RuleSettings
) -> None:
    unjudged = slo(objectives=(), workload="batch", boundary="model", target=None, period_ns=None)
    made = generate([unjudged], settings)
    of_slo = {rule.record or rule.alert for rule in rules_of(made) if "slo" in rule.labels}
    throughput = {f"slo:inference_slo_seen_requests:rate{ns}" for ns in ("5m", "30m", "1h", "2h", "6h", "1d", "3d")}
    assert of_slo == throughput | {"SLONoRequests"}


def test_nobody_is_woken_for_a_batch_workload(slo: Make, settings: RuleSettings) -> None:
    found = alerts(generate([slo(workload="batch")], settings))
    severities = {name: rule.labels["severity"] for name, rule in found.items() if "slo" in rule.labels}
    assert "ErrorBudgetBurn1h" in severities
    assert set(severities.values()) == {"ticket"}


@pytest.mark.parametrize("unit", ["week", "month", "quarter"])
def test_a_period_of_the_calendar_is_summed_from_its_beginning(
    slo: Make, settings: RuleSettings, unit: CalendarUnit
) -> None:
    calendar = Calendar(unit=unit, timezone="Asia/Seoul")
    names = records(generate([slo(calendar=calendar, period_ns=CALENDAR_UNITS[unit])], settings))
    assert f"slo:inference_slo_error_budget_remaining:ratio_increase_{unit}" in names
    start = f"slo:inference_slo_period_start_timestamp_seconds:max_{unit}"
    assert (
        f'{start}{{slo="chat"}} @ end() + 3600 <= time()' in names[f"slo:inference_slo_good_requests:increase_{unit}"]
    )
    assert not any("30d" in expr for expr in names.values())


def test_attainment_goodput_and_budget_are_recorded_for_the_windows_and_the_period(
    slo: Make, settings: RuleSettings
) -> None:
    names = records(generate([slo()], settings))
    for window in ("5m", "30m", "1h", "2h", "6h", "1d", "3d", "30d"):
        assert f"slo:{ATTAINMENT.removesuffix('_ratio')}:ratio_rate{window}" in names
        assert f"slo:{GOOD.removesuffix('_total')}:rate{window}" in names
    assert f"slo:{BUDGET.removesuffix('_ratio')}:ratio_rate30d" in names


def test_a_month_is_read_less_often_and_before_the_alerts_that_speak_of_it(slo: Make, settings: RuleSettings) -> None:
    (period, main, *_) = generate([slo()], settings).groups
    assert period.interval_ns == 2 * MINUTE_NS
    assert main.interval_ns is None


def test_pages_and_tickets_are_told_apart_by_a_label_and_windows_by_the_name(slo: Make, settings: RuleSettings) -> None:
    found = alerts(generate([slo()], settings))
    burning = {name: rule.labels["severity"] for name, rule in found.items() if name.startswith("ErrorBudgetBurn")}
    assert burning == {
        "ErrorBudgetBurn1h": "page",
        "ErrorBudgetBurn6h": "page",
        "ErrorBudgetBurn1d": "ticket",
        "ErrorBudgetBurn3d": "ticket",
    }


def test_alerts_carry_the_labels_of_the_slo_but_for_those_that_are_ours(slo: Make, settings: RuleSettings) -> None:
    labels = (("team", "serving"), ("severity", "mild"))
    rule = alerts(generate([slo(labels=labels)], settings))["ErrorBudgetBurn1h"]
    assert rule.labels == {
        "team": "serving", "severity": "page", "slo": "chat", "long_window": "1h", "short_window": "5m",
    }  # fmt: skip


def test_the_runbook_link_names_alert_and_slo_and_without_one_there_is_none(slo: Make, settings: RuleSettings) -> None:
    assert alerts(generate([slo()], settings))["ErrorBudgetBurn1h"].annotations["runbook_url"] == (
        "https://runbooks.example/ErrorBudgetBurn1h?slo=chat"
    )
    assert all("runbook_url" not in rule.annotations for rule in rules_of(generate([slo()], RuleSettings())))


def test_a_value_of_the_user_s_is_no_template(slo: Make, settings: RuleSettings) -> None:
    made = generate([slo(selector=(("model", ("{{ $value }}",)),), labels=(("team", "{{x}}"),))], settings)
    rule = alerts(made)["ErrorBudgetBurn1h"]
    assert rule.labels["team"] == '{{ "{{" }}x}}'
    assert 'model {{ "{{" }} $value }}' in rule.annotations["description"]


def test_windows_of_one_s_own_make_other_alerts(slo: Make) -> None:
    windows = replace(built_in(), burn=built_in().burn[1:2])
    found = alerts(generate([slo()], RuleSettings(windows=windows)))
    assert [name for name in found if name.startswith("ErrorBudgetBurn")] == ["ErrorBudgetBurn6h"]


@pytest.mark.needs("promtool")
def test_a_restart_of_one_of_two_exporters_is_no_loss_and_no_spike(
    slo: Make, tmp_path: Path, settings: RuleSettings
) -> None:
    """Departures of one go from 100 to 160, of the other from 500 to 20 over a restart: 60 + 20 in the window.

    Prometheus 3, which leaves out the sample at its beginning, extrapolates to less than one more.
    """
    (tmp_path / "rules.yml").write_text(write_prometheus(generate([slo()], settings)), encoding="utf-8")
    labels = 'boundary="model", class="chat"'
    test = {
        "interval": "1m",
        "input_series": [
            {"series": f'inference_departures_total{{{labels}, instance="a"}}', "values": "100+2x30"},
            {"series": f'inference_departures_total{{{labels}, instance="b"}}', "values": "500x14 20x15"},
        ],
        "promql_expr_test": [
            {
                "expr": "abs(boundary_class:inference_departures:rate30m * 1800 - 80) < bool 1",
                "eval_time": "30m",
                "exp_samples": [{"labels": '{boundary="model", class="chat"}', "value": 1}],
            }
        ],
    }
    body = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [test]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(body), encoding="utf-8")
    subprocess.run([PROMTOOL, "test", "rules", "test.yml"], cwd=tmp_path, check=True)


TEN_IN_AN_HOUR = "0x5 1x5 2x5 3x5 4x5 5x5 6x5 7x5 8x5 9x5 10x6"
"""One every six minutes; the counter at each minute."""
COURSES: dict[str, tuple[list[tuple[str, str]], float | None, float | None, float | None, bool]] = {
    # Counters of eligible and of good requests by the minute, of one exporter or two, from minute 0 to 60; then, worked
    # out by hand, the requests of that hour, the share of good ones, the burn rate (0.001 may be bad), and the verdict.
    "no traffic": ([("0x60", "0x60")], 0, None, None, False),
    "one request, good": ([("0x29 1x30", "0x29 1x30")], 1, 1, 0, False),
    "one request, bad": ([("0x57 1x2", "0x60")], 1, 0, 1000, False),
    "10 requests an hour, one bad": (
        [(TEN_IN_AN_HOUR, "0x5 1x5 2x5 3x5 4x5 5x5 6x5 7x5 8x5 9x12")], 10, 0.9, 100, False,
    ),
    "10 requests an hour, the first two bad": (
        [(TEN_IN_AN_HOUR, "0x17 1x5 2x5 3x5 4x5 5x5 6x5 7x5 8x6")], 10, 0.8, 200, False
    ),
    "10 requests an hour, the last two bad": (
        [("0x5 1x5 2x5 3x5 4x5 5x5 6x5 7x5 8x9 9x1 10x6", "0x5 1x5 2x5 3x5 4x5 5x5 6x5 7x5 8x18")], 10, 0.8, 200, True,
    ),
    "all bad": ([("0+10x60", "0x60")], 600, 0, 1000, True),
    "all good": ([("0+10x60", "0+10x60")], 600, 1, 0, False),
    "a tenth bad, and the counters reset in the middle": (
        [("0+10x30 10+10x29", "0+9x30 9+9x29")], 600, 0.9, 100, True
    ),
    "a second exporter, of which all is bad, from the middle on": (
        [("0+10x60", "0+10x60"), ("_x30 0+10x30", "_x30 0x30")], 900, 2 / 3, 1000 / 3, True
    ),
}  # fmt: skip


@pytest.mark.needs("promtool")
@pytest.mark.parametrize("name", COURSES)
def test_an_hour_worked_out_by_hand(name: str, slo: Make, settings: RuleSettings, tmp_path: Path) -> None:
    series, requests, attainment, burn, pages = COURSES[name]
    page = replace(settings, windows=replace(built_in(), burn=built_in().burn[:1]))
    text = write_prometheus(generate([slo(target=Fraction("0.999"))], page))
    (tmp_path / "rules.yml").write_text(text, encoding="utf-8")
    counters = [
        {"series": f'inference_slo_{family}_requests_total{{slo="chat", instance="{place}"}}', "values": values}
        for place, pair in enumerate(series)
        for family, values in zip(("eligible", "good"), pair, strict=True)
    ]
    right = {"eligible_requests:increase1h": requests, "attainment:ratio_rate1h": attainment,
             "burn_rate:ratio_rate1h": burn}  # fmt: skip
    checks = [
        (f"count(slo:inference_slo_{name}) or vector(0)", 0)
        if value is None
        else (f"abs(sum(slo:inference_slo_{name}) - {value}) < bool 0.001", 1)
        for name, value in right.items()
    ]
    checks.append(('count(ALERTS{alertname="ErrorBudgetBurn1h", alertstate="firing"}) or vector(0)', int(pages)))
    expected = [
        {"expr": expr, "eval_time": "60m", "exp_samples": [{"labels": "{}", "value": value}]} for expr, value in checks
    ]
    test = {"interval": "1m", "input_series": counters, "promql_expr_test": expected}
    body = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [test]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(body), encoding="utf-8")
    run = subprocess.run(
        [PROMTOOL, "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


COMMON = """
rule_files: [rules.yml]
evaluation_interval: 1m
tests:
  - name: one class of two grows
    interval: 1m
    input_series:
      - {series: 'inference_arrivals_total{boundary="end_to_end",class="a",evidence="log"}', values: '0+60x120'}
      - {series: 'inference_departures_total{boundary="end_to_end",class="a"}', values: '0+50x120'}
      - {series: 'inference_arrivals_total{boundary="end_to_end",class="b",evidence="log"}', values: '0+60x120'}
      - {series: 'inference_departures_total{boundary="end_to_end",class="b"}', values: '0+60x120'}
    promql_expr_test:
      - {expr: 'count(ALERTS{alertname="BacklogGrowing",class="a",alertstate="firing"})', eval_time: 90m,
         exp_samples: [{value: 1}]}
      - {expr: 'count(ALERTS{alertname="BacklogGrowing",class="b",alertstate="firing"})', eval_time: 90m}
  - name: one exporter of two stays away
    interval: 1m
    input_series:
      - {series: 'up{instance="a",job="g"}', values: '1x10 0x200'}
      - {series: 'up{instance="b",job="g"}', values: '1x210'}
      - {series: 'goodput_exporter_build_info{instance="a",job="g"}', values: '1x10 _x200'}
      - {series: 'goodput_exporter_build_info{instance="b",job="g"}', values: '1x210'}
    promql_expr_test:
      - {expr: 'count(ALERTS{alertname="GoodputExporterDown",alertstate="firing"})', eval_time: 180m,
         exp_samples: [{value: 1}]}
"""


@pytest.mark.needs("promtool")
def test_common_alerts_tell_no_tale(slo: Make, settings: RuleSettings, tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(write_prometheus(generate([slo()], settings)), encoding="utf-8")
    (tmp_path / "tests.yml").write_text(COMMON, encoding="utf-8")
    found = subprocess.run([PROMTOOL, "test", "rules", "tests.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
