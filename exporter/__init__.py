"""goodput-exporter: from the spans of gateways, queues and model servers to verdicts about what users waited for."""

from importlib import import_module
from typing import Final

HOT: Final = (
    "decode.protobuf",
    "memo",
    "recognise",
    "tree",
    "marks",
    "join",
    "places",
    "script",
    "express",
    "align",
    "measure",
    "histogram",
    "grain",
    "totals",
    "window",
    "judge",
    "account",
    "series",
    "pattern",
    "tally",
    "expose.text",
    "expose.readings",
)
"""The modules on the way of every span and of every line of a scrape, which pyproject.toml has compiled."""


def compiled() -> bool:
    """Whether all of them run compiled; without, the results are the same, slower."""
    files = (str(import_module(f"exporter.{name}").__file__) for name in HOT)
    return not any(file.endswith(".py") for file in files)
