from collections.abc import Mapping
from pathlib import Path

import pytest

from exporter.check import check_files

SLO = """\
apiVersion: goodput/v1
kind: SLO
metadata: {name: chat}
spec:
  objectives:
    - {metric: ttft, boundary: end_to_end, percentile: 95, threshold: 1s, window: 5m}
"""
PROFILE = """\
apiVersion: goodput/v1
kind: SourceProfile
metadata: {name: own}
spec:
  role: engine
  match: [{name: x}]
  stamps: {arrived: start, ended: end}
"""
CONFIG = "windows: {delay: 10s}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(folder: Path, environment: Mapping[str, str] | None = None, **files: str) -> list[str]:
    """What is wrong with these files; the names of all of them are given on the command line."""
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return [str(problem) for problem in check_files([f"{name}.yaml" for name in files], environment or {})]


def test_files_without_a_mistake_have_none(folder: Path) -> None:
    assert check(folder, slo=SLO, profile=PROFILE, config=CONFIG) == []


def test_an_empty_file_is_no_mistake(folder: Path) -> None:
    assert check(folder, empty="") == []


def test_every_mistake_of_every_file_is_told_in_the_order_of_the_files(folder: Path) -> None:
    found = check(
        folder,
        slo=SLO.replace("ttft", "ttfb").replace("1s", "1"),
        profile=PROFILE.replace("engine", "motor").replace("ended: end", "ended: stop"),
        config="windows: {delay: 10}\nlabel: {}\n",
    )
    assert [line.split(": ")[0] for line in found] == [
        "config.yaml:1:18 windows.delay", "config.yaml:2:1 label", "profile.yaml:5:9 spec.role",
        "profile.yaml:7:35 spec.stamps.ended", "slo.yaml:6:16 spec.objectives[0].metric",
        "slo.yaml:6:71 spec.objectives[0].threshold",
    ]  # fmt: skip
    assert all(", found " in line for line in found)


def test_one_file_may_hold_slos_and_profiles(folder: Path) -> None:
    assert check(folder, both=f"{SLO}---\n{PROFILE}") == []
    assert len(check(folder, both=f"{SLO}---\n{PROFILE.replace('engine', 'x')}---\n{SLO}")) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "kind: Pod\napiVersion: v1\n",
            "x.yaml:1:7 kind: must be one of: SLO, SLOTemplate, SourceProfile, LogProfile, found",
        ),
        ("apiVersion: goodput/v1\nmetadata: {}\n", "x.yaml:1:1 kind: must be given, found nothing"),
        ("a: [", "x.yaml:1:5: must be YAML"),
        ("- a\n", "x.yaml:1:1: must be a mapping"),
    ],
)  # fmt: skip
def test_what_is_none_of_the_three_is_refused(folder: Path, text: str, message: str) -> None:
    assert any(line.startswith(message) for line in check(folder, x=text))


def test_a_file_that_cannot_be_read_is_a_mistake(folder: Path) -> None:
    (folder / "bytes.yaml").write_bytes(b"a: \xff")
    found = [str(problem) for problem in check_files(["gone.yaml", "bytes.yaml"], {})]
    assert found == [
        "bytes.yaml:1:1: must be a readable file in UTF-8, found byte 3 that is not",
        "gone.yaml:1:1: must be a readable file in UTF-8, found No such file or directory",
    ]


def test_a_file_that_is_named_twice_is_read_once(folder: Path) -> None:
    (folder / "slo.yaml").write_text(SLO.replace("1s", "1"))
    assert len(check_files(["slo.yaml", "slo.yaml"], {})) == 1


def test_slos_are_checked_against_the_configuration_beside_them(folder: Path) -> None:
    slo = SLO.replace("spec:\n", "spec:\n  selector: {tenant: a}\n")
    (alone,) = check(folder, slo=slo)
    assert alone.startswith("slo.yaml:5:14 spec.selector.tenant: must be one of: class, model")
    assert check(folder, slo=slo, config="labels: {tenant: {from: [x-tenant]}}\n") == []
    assert check(folder, config="labels: {tenant: {from: [x-tenant]}}\n", slo=slo) == []


def test_names_are_unique_over_all_files(folder: Path) -> None:
    (slo,) = check(folder, slo=SLO, other=SLO)
    assert "metadata.name" in slo
    (profile,) = check(folder, profile=PROFILE, second=PROFILE)
    assert "must have a name of its own, own is taken" in profile


def test_a_boundary_speaks_of_profiles_and_stamps_that_there_are(folder: Path) -> None:
    config = "boundaries: {agent: {open: arrived@own, close: ended@%s}}\n"
    assert check(folder, config=config % "envoy", profile=PROFILE) == []
    (unknown,) = check(folder, config=config % "enovy", profile=PROFILE)
    assert unknown.startswith("config.yaml:1:48 boundaries.agent.close: must name a source profile, one of celery")
    (stamp,) = check(folder, config=(config % "own").replace("ended", "dequeued"), profile=PROFILE)
    assert "must be a stamp that own gives: arrived, ended" in stamp


def test_profiles_that_the_configuration_names_are_checked_too(folder: Path) -> None:
    (folder / "my").mkdir()
    (folder / "my" / "own.yaml").write_text(PROFILE.replace("engine", "motor"))
    (found,) = check(folder, config="profiles: ['my/*.yaml']\n")
    assert found.startswith("./my/own.yaml:5:9 spec.role: must be one of: client")
    assert len(check_files(["config.yaml", "my/own.yaml"], {})) == 1, "once, if it is named as well"


def test_variables_come_from_the_environment(folder: Path) -> None:
    text = SLO.replace("1s", '"${LIMIT}"')
    (missing,) = check(folder, slo=text)
    assert "must name a variable of the environment" in missing
    assert check(folder, {"LIMIT": "1s"}, slo=text) == []
