"""The version stands in several files of deploy/, and is that of the package in all of them."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


@pytest.mark.parametrize(
    ("file", "pattern", "times"),
    [
        ("deploy/Dockerfile", r"^ARG VERSION=(.+)$", 1),
        ("deploy/helm/goodput-exporter/Chart.yaml", r"^(?:version|appVersion): (.+)$", 2),
        ("deploy/kustomize/overlays/sidecar/kustomization.yaml", r"newTag: ([\d.]+)\}", 1),
        ("deploy/kustomize/overlays/gateway/kustomization.yaml", r"newTag: ([\d.]+)\}", 1),
        ("deploy/compose/docker-compose.yaml", r"image: goodput-exporter:(.+)$", 1),
        ("README.md", r"/goodput-exporter:([\d.]+)", 1),
    ],
)
def test_it_is_the_version_of_the_package(file: str, pattern: str, times: int) -> None:
    found = re.findall(pattern, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    assert found == [VERSION] * times
