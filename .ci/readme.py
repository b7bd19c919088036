#!/usr/bin/env python3
"""Keeps README.md true: writes its tables from the code, and the output of its examples from running them.

    python .ci/readme.py            rewrites README.md
    python .ci/readme.py --check    changes nothing, and fails with the difference if there is one

Tables stand between `<!-- begin NAME -->` and `<!-- end NAME -->`. Settings are the dataclasses of exporter/config.py,
each explained by the docstring under its field; families are those of slo_rules/families.py; speed is what
`python -m tests.bench --json tests/bench/results.json` measured last.

Examples are ```console blocks: lines that begin with `$ ` are run by bash, and what each prints stands below it. All
of them share one folder, in order. A file that they need is a block whose first line is `# file: NAME`. Blocks with
another mark (```sh, ```text) are not run: they need a network, a minute, or somebody else's program.
"""

import ast
import dataclasses
import difflib
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # for a checkout that is not installed

from exporter import config  # noqa: E402
from slo_rules.burn import BurnWindow  # noqa: E402
from slo_rules.families import FAMILIES, OF_REQUESTS, FamilySpec  # noqa: E402
from slo_rules.units import format_decimal, format_duration, format_size  # noqa: E402
from tests.bench.figures import COLUMNS, cells  # noqa: E402

README = ROOT / "README.md"

KEYS = {
    "labels.model_default": "labels.model.default",
    "labels.declared": "labels.NAME",
    "boundaries": "boundaries.NAME",
    "accelerators": "accelerators.MODEL",
    "classes": "classes[]",
    "classes[].name": "classes[].class",
    "labels.NAME.attributes": "labels.NAME.from",
    "alerts.burn": "alerts.burn[]",
    "alerts.backlog.hold_ns": "alerts.backlog.for",
    "alerts.exporter.hold_ns": "alerts.exporter.for",
    "sources.scrape": "sources.scrape[]",
}
"""Where the file has another key than the field's name. NAME and MODEL are the user's own words."""
GROUPS = {
    "boundaries.NAME": config.Boundary,
    "labels.NAME": config.Label,
    "classes[]": config.ClassRule,
    "alerts.burn[]": BurnWindow,
    "sources.scrape[]": config.Scrape,
}
"""Keys that hold a mapping of their own, and the class that says which keys that has."""
NAMED = ("boundaries.NAME.name", "labels.NAME.name")
"""Fields that are the key above them."""
SIZES = ("receive.max_body",)


# Settings.


def settings_table() -> str:
    """Every key of the configuration file, its default and meaning."""
    rows = [f"| `{key}` | {default} | {meaning} |" for key, default, meaning in settings()]
    return "\n".join(["| key | default | meaning |", "| --- | --- | --- |", *rows])


def settings() -> Iterator[tuple[str, str, str]]:
    """Key, default and meaning, in the order of the classes; a key that only holds others has no default."""
    yield from _keys(config.Settings, "", config.Settings())


def _keys(cls: type[Any], above: str, defaults: object = None) -> Iterator[tuple[str, str, str]]:
    texts, hints = docstrings(cls), get_type_hints(cls)
    for field in dataclasses.fields(cls):
        plain = above + field.name.removesuffix("_ns")
        key = KEYS.get(above + field.name, plain)
        if key in NAMED:
            continue
        group = GROUPS.get(key, hints[field.name])
        if dataclasses.is_dataclass(group) and group not in (config.Address, config.Instant):
            assert isinstance(group, type)
            yield key, "", " ".join((group.__doc__ or "").split())
            inside = getattr(defaults, field.name, None)
            yield from _keys(group, f"{key}.", inside if isinstance(inside, group) else None)
        else:
            value = field.default if defaults is None else getattr(defaults, field.name)
            yield key, _default(field, value, key), _meaning(texts[field.name], hints[field.name])


def docstrings(cls: type[Any]) -> dict[str, str]:
    """The docstring under each field of a class. Raises KeyError for a field without one, when it is asked for."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    texts = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                texts[name] = " ".join(text.split())
    return texts


def _default(field: "dataclasses.Field[Any]", value: Any, key: str) -> str:
    if value is dataclasses.MISSING:
        return "required" if field.default_factory is dataclasses.MISSING else "none"
    if value in ((), ""):
        return "none"
    if field.name.endswith("_ns"):
        values = value if isinstance(value, tuple) else (value,)
        shown = [format_duration(each) for each in values]
    elif key in SIZES:
        shown = [format_size(value)]
    elif isinstance(value, Fraction):
        shown = [f"{format_decimal(100 * value)}%"]
    else:
        shown = [str(each).lower() if isinstance(each, bool) else str(each)
                 for each in (value if isinstance(value, tuple) else (value,))]  # fmt: skip
    return f"`[{', '.join(shown)}]`" if isinstance(value, tuple) else f"`{shown[0]}`"


def _meaning(text: str, hint: Any) -> str:
    if get_origin(hint) is UnionType or get_origin(hint) is not Literal:
        return text
    return f"{text} One of {', '.join(f'`{choice}`' for choice in get_args(hint))}."


# Families.


def families_table() -> str:
    """Every exported family."""
    rows = [f"| `{each.name}` | {each.kind} | {_labels(each)} | {each.help} |" for each in FAMILIES]
    return "\n".join(["| family | type | labels | meaning |", "| --- | --- | --- | --- |", *rows])


def _labels(family: FamilySpec) -> str:
    if not family.takes_declared_labels:
        return ", ".join(family.labels)
    return ", ".join(["*B*", *family.labels[len(OF_REQUESTS) :]])


# Speed.


def speed_table() -> str:
    """The figures that were measured last, and how."""
    results = json.loads((ROOT / "tests" / "bench" / "results.json").read_text(encoding="utf-8"))
    how = (
        f"{results['date']}, commit {results['commit']}, {'compiled' if results['compiled'] else 'not compiled'}, "
        f"Python {results['python']}, {results['machine']}: `{results['command']}`"
    )
    rows = [f"| {' | '.join(cells(figure))} |" for figure in results["figures"]]
    head = [f"| {' | '.join(COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}"]
    return "\n".join([how, "", *head, *rows])


TABLES = {"settings": settings_table, "families": families_table, "speed": speed_table}


def with_tables(text: str) -> str:
    """The text with every table written anew. Raises ValueError if one has no place."""
    for name, table in TABLES.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"README.md must have {begin} and {end} once each")
        before, rest = text.split(begin)
        text = f"{before}{begin}\n\n{table()}\n\n{end}{rest.split(end)[1]}"
    return text


# Examples.


BLOCK = re.compile(r"^```(?P<mark>[a-z]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# file: (?P<name>[\w.-]+)\n")


class Block(NamedTuple):
    """A fenced block: its mark, what is in it, and where that begins and ends in the text."""

    mark: str
    body: str
    start: int
    stop: int


def blocks(text: str) -> list[Block]:
    """The fenced blocks, in order."""
    return [Block(found["mark"], found["body"], *found.span("body")) for found in BLOCK.finditer(text)]


def commands(body: str) -> list[str]:
    """The command lines of a console block."""
    return [line.removeprefix("$ ") for line in body.splitlines() if line.startswith("$ ")]


def with_examples(text: str) -> str:
    """The text with the output of every console block written anew."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tests").symlink_to(ROOT / "tests")
        shim = Path(folder) / "bin" / "goodput-exporter"
        shim.parent.mkdir()
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m exporter "$@"\n')
        shim.chmod(0o755)
        pieces, at = [], 0
        for block in blocks(text):
            if found := FILE.match(block.body):
                (Path(folder) / found["name"]).write_text(block.body[found.end() :], encoding="utf-8")
            elif block.mark == "console":
                pieces += [text[at : block.start], _run(block.body, folder)]
                at = block.stop
        return "".join([*pieces, text[at:]])


def _run(body: str, folder: str) -> str:
    packages = [str(Path(inspect.getfile(config)).parent.parent), os.environ.get("PYTHONPATH", "")]
    environment = {
        "PATH": f"{folder}/bin{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, packages)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C.UTF-8",
    }
    shown = []
    for command in commands(body):
        done = subprocess.run(
            ["bash", "-c", f"exec 2>&1; {command}"],
            cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        shown += [f"$ {command}", *(line.rstrip() for line in done.stdout.splitlines())]
    return "\n".join([*shown, ""])


def main(arguments: list[str]) -> int:
    """Rewrite README.md, or with `--check` say whether that would change it."""
    before = README.read_text(encoding="utf-8")
    after = with_examples(with_tables(before))
    if arguments == ["--check"]:
        difference = difflib.unified_diff(before.splitlines(), after.splitlines(), "README.md", "as it should be")
        print("\n".join(difference), end="")
        return int(before != after)
    if arguments:
        print(__doc__)
        return 2
    README.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
