"""Constants that compiled modules read from C are those of the Python module beside them."""

import importlib
import re
from pathlib import Path

import pytest

import exporter

FOLDER = Path(str(exporter.__file__)).parent


@pytest.mark.parametrize("name", ["record", "tables", "decode.columns"])
def test_the_constants_in_c_are_those_in_python(name: str) -> None:
    module = importlib.import_module(f"exporter.{name}")
    text = (FOLDER / f"{name.replace('.', '/')}.pxd").read_text()
    found = {key: int(value) for key, value in re.findall(r"^    (\w+) = (-?\d+)$", text, re.MULTILINE)}
    assert len(found) > 20
    assert {key: getattr(module, key) for key in found} == found
