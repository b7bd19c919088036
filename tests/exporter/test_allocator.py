"""Memory is set up where that is possible, and the program runs where it is not."""

import ctypes
import os
import subprocess
import sys

import pytest

from exporter import allocator


@pytest.mark.parametrize("missing", [OSError("no such library"), AttributeError("mallopt")])
def test_another_c_library_changes_nothing(monkeypatch: pytest.MonkeyPatch, missing: Exception) -> None:
    def library(name: None) -> None:
        raise missing

    monkeypatch.setattr(ctypes, "CDLL", library)
    allocator.expect_bodies()


def test_what_was_made_until_the_start_is_looked_at_no_more() -> None:
    shown = "print(gc.get_freeze_count() > 0, *gc.get_threshold())"
    code = f"import gc; from exporter import allocator; allocator.settle(); {shown}"
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", code], env=paths, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", *map(str, allocator.YOUNG)]
