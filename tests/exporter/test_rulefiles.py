"""The commands that make rules and test them, as a user types them."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from exporter.cli import main
from exporter.rulefiles import RULE_FILE

SLO = """\
apiVersion: goodput/v1
kind: SLO
metadata: {name: chat}
spec:
  objectives: [{metric: ttft, boundary: model, percentile: 95, threshold: 1s, window: 5m}]
"""
EXAMPLES = ("chat", "agent", "batch")
RUNBOOK = "https://runbooks.example/{alert}?slo={slo}"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["rules", *map(str, arguments)])


@pytest.fixture
def slo_file(tmp_path: Path) -> Path:
    path = tmp_path / "slo.yaml"
    path.write_text(SLO, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", EXAMPLES)
def test_rules_go_to_standard_output_and_what_is_left_out_to_standard_error(checkout: Path, name: str) -> None:
    folder = checkout / "tests" / "golden" / "slos" / name
    result = run("generate", folder / "slo.yaml", "--runbook-url", RUNBOOK)
    assert result.exit_code == 0
    assert result.stdout == (folder / "goodput.rules.yml").read_text(encoding="utf-8")
    assert ("left out: SLO batch, page over 1h and 5m" in result.stderr) == (name == "batch")


def test_an_object_of_the_operator_has_the_name_and_labels_that_are_given(slo_file: Path) -> None:
    result = run("generate", slo_file, "--format", "operator", "--name", "slos", "--label", "release=prom")
    assert "  name: slos\n" in result.stdout
    assert "    release: prom\n" in result.stdout


def test_rules_go_to_a_file_if_one_is_named(slo_file: Path, tmp_path: Path) -> None:
    assert run("generate", slo_file, "--output", tmp_path / "rules.yml").stdout == ""
    assert (tmp_path / "rules.yml").read_text(encoding="utf-8") == run("generate", slo_file).stdout


def test_several_files_make_one_set_of_rules(slo_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(SLO.replace("name: chat", "name: other"), encoding="utf-8")
    text = run("generate", slo_file, other).stdout
    assert text.count("- name: goodput-slo-") == 2
    assert text.count("- name: goodput-exporter") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--scrape-interval", "2m"), "window 5m must be at least 8m"),
        (("--scrape-interval", "15"), "must be a duration with its unit"),
        (("--config.file", "nowhere.yaml"), "nowhere.yaml:1:1"),
        (("--label", "release"), "must be NAME=VALUE, found release"),
        (("--output", "no/such/folder/rules.yml"), "No such file or directory"),
    ],
)
def test_wrong_use_ends_with_two_and_says_why(slo_file: Path, arguments: tuple[str, ...], message: str) -> None:
    result = run("generate", slo_file, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_mistakes_in_an_slo_file_are_told_with_their_places(slo_file: Path) -> None:
    slo_file.write_text(SLO.replace("1s", "1"), encoding="utf-8")
    result = run("generate", slo_file)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"{slo_file}:5:")


def test_windows_of_one_s_own_come_from_the_configuration(slo_file: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("alerts: {burn: [{severity: page, long: 30m, short: 2m, budget: 1%}]}\n", encoding="utf-8")
    text = run("generate", slo_file, "--config.file", config).stdout
    assert "slo:inference_slo_attainment:ratio_rate30m" in text
    assert "slo:inference_slo_attainment:ratio_rate6h" not in text


def test_a_mistake_in_the_windows_is_told_with_its_place(slo_file: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("alerts:\n  burn: [{severity: page, long: 5m, short: 1h, budget: 1%}]\n", encoding="utf-8")
    result = run("generate", slo_file, "--config.file", config)
    assert result.exit_code == 2
    assert f"{config}:2:10 alerts.burn[0]: must have a short window below the long one" in result.stderr


@pytest.mark.needs("promtool")
def test_tests_are_written_and_passed(slo_file: Path, tmp_path: Path) -> None:
    result = run("test", slo_file, "--output", tmp_path / "made")
    assert result.exit_code == 0, result.output
    assert "SUCCESS" in result.stdout
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == [
        "all_slos.rules.yml",
        "all_slos.tests-1m.yml",
        "chat.rules.yml",
        "chat.tests-12m.yml",
        RULE_FILE,
    ]


def test_without_promtool_tests_are_written_and_it_is_said_that_they_did_not_run(
    slo_file: Path, tmp_path: Path
) -> None:
    result = run("test", slo_file, "--output", tmp_path / "made", "--promtool", "no-such-promtool")
    assert result.exit_code == 0
    assert "not run: there is no no-such-promtool" in result.stderr
    assert (tmp_path / "made" / "chat.tests-12m.yml").exists()


def test_a_failed_test_ends_with_one(slo_file: Path, tmp_path: Path) -> None:
    promtool = tmp_path / "promtool"
    promtool.write_text("#!/bin/sh\necho FAILED\nexit 1\n", encoding="utf-8")
    promtool.chmod(0o755)
    result = run("test", slo_file, "--promtool", promtool)
    assert result.exit_code == 1
    assert "FAILED" in result.stdout
