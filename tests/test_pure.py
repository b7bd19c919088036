"""The program without its compiled modules: the same numbers, only slower."""

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import exporter
from exporter import HOT, compiled

CAPTURES = ("vllm-envoy", "node-gateway-vllm", "celery-envoy-vllm", "skewed-envoy-vllm")
SLO = """\
apiVersion: goodput/v1
kind: SLO
metadata: {name: chat}
spec:
  objectives:
    - {metric: ttft, boundary: end_to_end, percentile: 95, threshold: 1s, window: 5m}
    - {metric: tpot, boundary: end_to_end, percentile: 95, threshold: 50ms, window: 5m}
"""


@pytest.fixture(scope="module")
def pure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the two packages, without anything that is compiled."""
    folder = tmp_path_factory.mktemp("pure")
    for package in ("exporter", "slo_rules"):
        source = Path(str(exporter.__file__)).parent.parent / package
        shutil.copytree(source, folder / package, ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    return folder


def replay(packages: Path, seed: int, *arguments: str) -> bytes:
    """The report of a replay with the packages in this folder. Nothing may hang on the seed of hashes."""
    environment = {**os.environ, "PYTHONPATH": str(packages), "PYTHONHASHSEED": str(seed)}
    command = [sys.executable, "-m", "exporter", "replay", "--json", *arguments]
    return subprocess.run(command, env=environment, cwd=packages, capture_output=True, check=True).stdout


@pytest.mark.parametrize("capture", CAPTURES)
def test_both_builds_give_the_same_report_to_the_byte(pure: Path, captures: Path, tmp_path: Path, capture: str) -> None:
    (tmp_path / "slo.yaml").write_text(SLO)
    arguments = [str(captures / capture), "--slo.file", str(tmp_path / "slo.yaml")]
    installed = Path(str(exporter.__file__)).parent.parent
    report = replay(pure, 1, *arguments)
    assert report == replay(installed, 2, *arguments)
    assert b'"ttft"' in report


def test_without_compiled_modules_the_program_says_so(pure: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(pure)}
    command = [sys.executable, "-c", "import exporter; print(exporter.compiled())"]
    assert subprocess.run(command, env=environment, cwd=pure, capture_output=True, check=True).stdout == b"False\n"


@pytest.mark.both_builds
def test_the_program_says_whether_it_is_compiled() -> None:
    origins = [str(importlib.util.find_spec(f"exporter.{name}").origin) for name in HOT]  # type: ignore[union-attr]
    assert compiled() == all(origin.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)) for origin in origins)


def test_what_is_compiled_is_what_the_build_compiles(checkout: Path) -> None:
    settings = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))
    built = {module["name"] for module in settings["tool"]["setuptools"]["ext-modules"]}
    assert built == {f"exporter.{name}" for name in HOT}
