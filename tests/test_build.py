"""What a build brings: the files of this checkout, nothing of tests or deployment, and compiled modules in CI."""

import importlib
import importlib.machinery
import os
from importlib import metadata
from pathlib import Path

import pytest

IN_CI = os.environ.get("CI") == "true"
PACKAGES = ("exporter", "slo_rules", "dashboards")
KINDS = (".py", ".pxd", ".typed", ".yaml", ".csv", ".json")


def installed(package: str) -> Path:
    return Path(str(importlib.import_module(package).__file__)).parent


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.suffix in KINDS or path.name == "py.typed")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("package", PACKAGES)
def test_the_installed_package_is_that_of_this_checkout(package: str, checkout: Path) -> None:
    there, here = contents(installed(package)), contents(checkout / package)
    assert sorted(there) == sorted(here)
    assert [name for name in here if there[name] != here[name]] == [], "install again"


@pytest.mark.both_builds
@pytest.mark.skipif(not IN_CI, reason="a developer may test the checkout")
@pytest.mark.parametrize("package", PACKAGES)
def test_ci_tests_the_installed_package(package: str, checkout: Path) -> None:
    assert not installed(package).is_relative_to(checkout / package)


@pytest.mark.both_builds
@pytest.mark.skipif(not IN_CI, reason="a developer's machine may lack a compiler")
def test_ci_tests_the_build_it_asked_for(hot_module: str) -> None:
    file = str(importlib.import_module(hot_module).__file__)
    compiled = file.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))
    assert compiled == (os.environ.get("GOODPUT_EXPORTER_PURE") != "1")


def test_the_wheel_holds_the_packages_and_no_c() -> None:
    try:
        files = metadata.distribution("goodput-exporter").files
    except metadata.PackageNotFoundError:
        pytest.skip("not installed")
    assert files
    names = [str(name) for name in files if ".dist-info" not in name.parts[0] and name.name != "goodput-exporter"]
    if not any(name.endswith("exporter/__init__.py") for name in names):
        pytest.skip("an editable install")
    assert {name.split("/")[0] for name in names} == {*PACKAGES}
    assert [name for name in names if name.endswith((".c", ".h"))] == []
