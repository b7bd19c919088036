"""`check`: mistakes end with exit code 1, warnings are told and leave it at 0."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from exporter.cli import main
from exporter.serve import Files, read_files
from slo_rules.document import Problem

HEAD = "apiVersion: goodput/v1\nkind: SLO\nmetadata: {name: chat}\nspec:\n"
OBJECTIVE = "  objectives: [{metric: ttft, boundary: model, percentile: 95, threshold: 1s, window: 5m}]\n"


@pytest.mark.parametrize(
    ("rest", "code", "said"),
    [
        ("", 0, "1 file without a mistake"),
        (
            "  goodput: {target: 90%}\n",
            0,
            "warning: slo.yaml:6:12 spec.goodput: chat: there is no page over 1h and 5m: a burn rate above 14.4",
        ),
        ("  goodput: {target: 90}\n", 1, "slo.yaml:6:21 spec.goodput.target: must be a percentage or a ratio"),
        ("  selector: {tenant: a}\n", 1, "slo.yaml:6:14 spec.selector.tenant: must be one of: class, model"),
    ],
)
def test_warnings_alone_are_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rest: str, code: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("slo.yaml").write_text(HEAD + OBJECTIVE + rest, encoding="utf-8")
    result = CliRunner().invoke(main, ["check", "slo.yaml"])
    assert (result.exit_code, said in result.output) == (code, True)


def test_templates_are_checked_with_the_slos_that_use_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    template = HEAD.replace("SLO", "SLOTemplate") + "  parameters: {first: }\n" + OBJECTIVE.replace("1s", "$(first)")
    slo = HEAD + "  template: chat\n  parameters: {first: 3}\n"
    Path("template.yaml").write_text(template, encoding="utf-8")
    Path("slo.yaml").write_text(slo, encoding="utf-8")
    result = CliRunner().invoke(main, ["check", "template.yaml", "slo.yaml"])
    assert result.exit_code == 1
    assert "slo.yaml:6:23 spec.parameters.first: must be a duration with its unit" in result.output


def test_what_serves_is_told_the_warnings_too(tmp_path: Path) -> None:
    path = tmp_path / "slo.yaml"
    path.write_text(HEAD + OBJECTIVE + "  goodput: {target: 90%}\n", encoding="utf-8")
    warnings: list[Problem] = []
    assert len(read_files(Files(slos=(str(path),)), {}, warnings).slos) == 1
    assert [warning.path for warning in warnings] == ["spec.goodput"]
