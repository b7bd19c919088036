"""The group `slo`: what is printed, what is named on standard error, and the exit codes."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from exporter.cli import main

SLO = """\
apiVersion: goodput/v1
kind: SLO
metadata: {name: chat}
spec:
  objectives:
  - {name: ttft, metric: ttft, boundary: end_to_end, percentile: 95, threshold: 1s, window: 5m}
  goodput: {target: 99%, period: 30d}
"""
PLAIN = SLO.replace("chat", "plain").replace("  goodput: {target: 99%, period: 30d}\n", "").replace("5m", "90s")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("slo.yaml").write_text(SLO, encoding="utf-8")
    Path("plain.yaml").write_text(PLAIN, encoding="utf-8")
    (tmp_path / "data").symlink_to(data)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["slo", *arguments])


def test_an_slo_goes_out_as_openslo_and_comes_back_as_it_was(files: Path) -> None:
    exported = run("export", "slo.yaml")
    assert exported.exit_code == 0
    Path("openslo.yaml").write_text(exported.stdout, encoding="utf-8")
    imported = run("import", "openslo.yaml")
    assert (imported.exit_code, imported.stdout, imported.stderr) == (0, SLO, "")


def test_what_can_hardly_be_meant_is_warned_of_where_it_stands_in_the_openslo_file(files: Path) -> None:
    Path("openslo.yaml").write_text(run("export", "slo.yaml").stdout.replace("0.99", "0.9"), encoding="utf-8")
    result = run("import", "openslo.yaml")
    assert result.exit_code == 0
    assert "target: 90%" in result.stdout
    assert result.stderr.startswith("warning: openslo.yaml:")
    assert "goodput: chat: there is no page over 1h and 5m: a burn rate above 14.4 cannot be reached" in result.stderr


def test_sloth_is_another_format(files: Path) -> None:
    result = run("export", "slo.yaml", "--format", "sloth")
    assert result.exit_code == 0
    assert result.stdout.startswith("version: prometheus/v1\nservice: chat\n")


@pytest.mark.parametrize(
    ("format_", "reason"),
    [
        ("openslo", "SLO plain: 1m30s is no whole number of minutes, which time windows are\n"),
        ("sloth", "SLO plain: it has no goodput target\n"),
    ],
)
def test_an_slo_that_is_left_out_is_named_and_told_by_the_exit_code(files: Path, format_: str, reason: str) -> None:
    result = run("export", "slo.yaml", "plain.yaml", "--format", format_)
    assert (result.exit_code, result.stderr) == (1, reason)
    assert "name: chat\n" in result.stdout


def test_foreign_slos_are_named_and_told_by_the_exit_code(files: Path) -> None:
    result = run("import", "data/openslo/oslo/inputs__validate__v1.yaml")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "inputs__validate__v1.yaml:1:3: SLO web-availability: its metric source is Prometheus" in result.stderr


@pytest.mark.parametrize("command", ["import", "export"])
def test_a_file_with_mistakes_is_refused(files: Path, command: str) -> None:
    result = run(command, "data/openslo/oslo/inputs__validate__invalid-apiversion.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "invalid-apiversion.yaml:1:13 apiVersion: must be one of" in result.stderr


def test_boundaries_of_the_configuration_are_known(files: Path) -> None:
    configuration = "boundaries: {agent: {open: arrived@litellm, close: ended@litellm}}\n"
    Path("config.yaml").write_text(configuration, encoding="utf-8")
    Path("slo.yaml").write_text(SLO.replace("end_to_end", "agent"), encoding="utf-8")
    assert run("export", "slo.yaml").exit_code == 2
    exported = run("export", "slo.yaml", "--config.file", "config.yaml")
    Path("openslo.yaml").write_text(exported.stdout, encoding="utf-8")
    assert run("import", "openslo.yaml").exit_code == 2
    assert "boundary: agent" in run("import", "openslo.yaml", "--config.file", "config.yaml").stdout


def test_every_command_has_an_example_in_its_help() -> None:
    for command in ("import", "export"):
        assert "Example: goodput-exporter slo" in run(command, "--help").stdout
