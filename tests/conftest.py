"""What every test may use: the package under test, recorded data, and a marker for programs of the system.

The tests are about the installed package, not about the checkout around them, whichever way pytest was started: the
checkout leaves the import path before any test is read. Where nothing is installed, the checkout itself is tested,
except in CI (CI=true), which stops.
"""

import gzip
import importlib.machinery
import importlib.util
import os
import shutil
import sys
import tomllib
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent
IN_CI = os.environ.get("CI") == "true"

hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if IN_CI else "default")


def leave_checkout() -> None:
    """Makes `import exporter` find what is installed. Without this, `python -m pytest` finds the checkout."""
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]
    if importlib.util.find_spec("exporter") is None:
        if IN_CI:
            pytest.exit("CI tests the installed package, and none is installed", returncode=4)
        sys.path.insert(0, str(ROOT))


leave_checkout()


def is_compiled(name: str) -> bool:
    """Whether importing this module would load machine code."""
    spec = importlib.util.find_spec(name)
    return spec is not None and str(spec.origin).endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))


def hot_path() -> list[str]:
    """The modules that a build compiles where it can."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [module["name"] for module in settings["tool"]["setuptools"]["ext-modules"]]


def pytest_report_header() -> str:
    spec = importlib.util.find_spec("exporter")
    place = Path(spec.origin).parent if spec and spec.origin else None
    compiled = [name for name in hot_path() if is_compiled(name)]
    return f"under test: {place}, compiled: {', '.join(compiled) or 'nothing'}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives `hot_module` to a test: once for each module of the hot path."""
    if "hot_module" in metafunc.fixturenames:
        metafunc.parametrize("hot_module", hot_path())


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test whose programs are not on this machine; in CI that is a failure, as a skip there would hide it."""
    for marker in item.iter_markers("needs"):
        missing = [program for program in marker.args if shutil.which(program) is None]
        if missing and IN_CI:
            pytest.fail(f"needs {', '.join(missing)}, which CI must have", pytrace=False)
        if missing:
            pytest.skip(f"needs {', '.join(missing)}")


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The folder that holds pyproject.toml."""
    return ROOT


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of recorded data; tests/data/README.md says where it is from."""
    return ROOT / "tests" / "data"


@pytest.fixture(scope="session")
def captures(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like tests/data/captures, with every file unpacked: `captures / "vllm-envoy" / "truth.jsonl"`."""
    unpacked = tmp_path_factory.mktemp("captures")
    for source in (data / "captures").glob("*/*"):
        target = unpacked / source.parent.name / source.name
        target.parent.mkdir(exist_ok=True)
        if source.suffix == ".gz":
            target.with_suffix("").write_bytes(gzip.decompress(source.read_bytes()))
        else:
            target.symlink_to(source)
    return unpacked
