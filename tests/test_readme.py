"""README.md says what the program does: its tables come from the code, its examples print what it shows."""

import importlib.util
import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from exporter.cli import main
from exporter.config import Settings, read_settings
from exporter.expose.collect import collect
from exporter.expose.text import write_text
from exporter.pipeline import Pipeline
from exporter.profile import BUILT_IN, CHOSEN_NAMES, KINDS, UNITS, built_in, read_profiles
from exporter.tables import NO_CALL
from slo_rules.document import Problem, read
from slo_rules.families import FAMILIES, FAMILY
from slo_rules.slo import read_slos
from slo_rules.vocabulary import (
    BOUNDARIES,
    FATES,
    FIRST_TOKEN_SOURCES,
    METRICS,
    OUTCOMES,
    PHASES,
    ROLES,
    STAMPS,
    TPOT_FORMULAS,
    VERDICTS,
)

NOW_NS = 1_700_000_000_000_000_000
SECOND_NS = 1_000_000_000


@pytest.fixture(scope="module")
def script(checkout: Path) -> Any:
    """The module `.ci/readme.py`."""
    spec = importlib.util.spec_from_file_location("readme", checkout / ".ci" / "readme.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def text(checkout: Path) -> str:
    return (checkout / "README.md").read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next of the same depth."""
    return text.split(f"\n{heading}\n")[1].split(f"\n{heading.split()[0]} ")[0]


# Generated parts.


def test_tables_are_those_of_the_code(script: Any, text: str) -> None:
    assert script.with_tables(text) == text


def test_examples_print_what_is_shown(script: Any, text: str) -> None:
    assert script.with_examples(text) == text


def test_a_table_without_a_place_is_refused(script: Any, text: str) -> None:
    with pytest.raises(ValueError, match="begin families"):
        script.with_tables(text.replace("<!-- begin families -->", ""))


def test_a_change_of_an_output_is_noticed(script: Any) -> None:
    shown = "```console\n$ echo new\nold\n```\n"
    assert script.with_examples(shown) == "```console\n$ echo new\nnew\n```\n"


def test_a_setting_without_a_docstring_is_refused(script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "undocumented.py"
    module.write_text("from dataclasses import dataclass\n@dataclass\nclass Silent:\n    key: int = 1\n")
    spec = importlib.util.spec_from_file_location("undocumented", module)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "undocumented", found)  # where inspect finds the source
    spec.loader.exec_module(found)
    with pytest.raises(KeyError, match="key"):
        list(script._keys(found.Silent, ""))


# Completeness, by what the readers themselves say that they know.


def known_keys(probe: Callable[[list[Problem]], object]) -> set[str]:
    """The keys that the reader of one mapping names when it meets one that it does not know."""
    problems: list[Problem] = []
    probe(problems)
    rules = [problem.rule for problem in problems if problem.found == '"zzz"']
    assert len(rules) == 1, problems
    return set(rules[0].removeprefix("must be a known key: ").split(" (")[0].split(", "))


def known_settings(yaml: str) -> set[str]:
    return known_keys(lambda problems: read_settings("c.yaml", yaml, {}, problems))


MAPPINGS = {
    "boundaries.NAME": "boundaries: {agent: {zzz: 1}}",
    "labels.model": "labels: {model: {zzz: 1}}",
    "labels.NAME": "labels: {tenant: {zzz: 1}}",
    "classes[]": "classes: [{zzz: 1}]",
    "sources.scrape[]": "sources: {scrape: [{zzz: 1}]}",
    "alerts.burn[]": "alerts: {burn: [{zzz: 1}]}",
    "alerts.backlog": "alerts: {backlog: {zzz: 1}}",
    "alerts.no_data": "alerts: {no_data: {zzz: 1}}",
    "alerts.exporter": "alerts: {exporter: {zzz: 1}}",
    **{
        name: f"{name}: {{zzz: 1}}"
        for name in ("receive", "web", "stop", "windows", "alerts", "join", "align", "tpot", "limits", "requests")
    },
}
"""Every mapping of the configuration file, with a key that it does not know."""


def test_every_setting_is_in_the_table(script: Any) -> None:
    listed = {key.removesuffix("[]") for key, _, _ in script.settings()}
    tops = {re.split(r"[.\[]", key)[0] for key in listed}
    assert tops == known_settings("zzz: 1")
    for name, yaml in MAPPINGS.items():
        assert {f"{name}.{key}" for key in known_settings(yaml)} <= listed
    inside = {f"{name}.{key}" for name, yaml in MAPPINGS.items() for key in known_settings(yaml)}
    assert {key for key in listed if "." in key} - inside == {
        "boundaries.NAME", "labels.NAME", "accelerators.MODEL", "sources.scrape",
    }  # fmt: skip


def test_the_defaults_that_are_shown_are_the_defaults(script: Any) -> None:
    """The table, read as a configuration file, says what no file says."""
    lines: dict[str, list[str]] = {}
    for key, default, _ in script.settings():
        if default.startswith("`") and "NAME" not in key:
            above, _, last = key.rpartition(".")
            lines.setdefault(above, []).append(f"{last}: {yaml_of(default.strip('`'))}")
    tops = [line for above, inside in lines.items() if not above for line in inside]
    nested = [f"{above}: {{{', '.join(inside)}}}" for above, inside in lines.items() if above and "." not in above]
    labels = f"labels: {{model: {{{', '.join(lines['labels.model'])}}}}}"
    problems: list[Problem] = []
    read_again = read_settings("c.yaml", "\n".join([*tops, *nested, labels]), {}, problems)
    assert not problems
    assert read_again == Settings()


def yaml_of(shown: str) -> str:
    return shown if shown.startswith("[") else json.dumps(shown) if ":" in shown else shown


def known_of_profile(yaml: str) -> set[str]:
    return known_keys(lambda problems: read_profiles(read(yaml, "p.yaml", problems, {})))


def known_of_slo(yaml: str) -> set[str]:
    return known_keys(lambda problems: read_slos(read(yaml, "s.yaml", problems, {}), BOUNDARIES, None))


def test_every_key_of_a_profile_is_in_the_reference(text: str) -> None:
    reference = section(text, "## Source profiles")
    rows = dict(re.findall(r"^\| (`.+?`(?:, `.+?`)*) \| (.+) \|$", reference, re.MULTILINE))
    top = {key for keys in rows for key in re.findall(r"`(\w+)`", keys)}
    of_spans, of_logs = PROFILE.format("zzz: 1"), PROFILE.format("zzz: 1").replace("SourceProfile", "LogProfile")
    assert top == known_of_profile(of_spans) | known_of_profile(of_logs)
    for key, value in {
        "match": "[{zzz: 1}]", "ignore": "[{reason: x, zzz: 1}]", "stamps": "{zzz: 1}",
        "request_id": "{zzz: 1}", "stream": "[{zzz: 1}]", "outcome": "[{zzz: 1}]", "several": "{zzz: 1}",
        "tokens": "{zzz: 1}", "labels": "{zzz: 1}",
    }.items():  # fmt: skip
        meaning = next(meaning for keys, meaning in rows.items() if f"`{key}`" in keys)
        if key == "ignore":
            meaning += next(meaning for keys, meaning in rows.items() if "`match`" in keys)
        body = PROFILE.replace(" match: [{{name: x}}],", "") if key == "match" else PROFILE
        yaml = body.format(f"{key}: {value}")
        for each in known_of_profile(yaml):
            assert re.search(rf"\b{each}\b", meaning), f"{key}.{each}"


PROFILE = """
apiVersion: goodput/v1
kind: SourceProfile
metadata: {{name: x}}
spec: {{role: engine, match: [{{name: x}}], {0}}}
"""


def test_the_slo_with_all_keys_has_all_keys(script: Any, text: str) -> None:
    body = next(block.body for block in script.blocks(text) if block.body.startswith("# file: all-slo-keys.yaml"))
    shown = set(re.findall(r"\w+(?=:(?: |$))", body, re.MULTILINE))
    head = "apiVersion: goodput/v1\nkind: SLO\n"
    assert known_of_slo(f"{head}metadata: {{name: x, zzz: 1}}\nspec: {{objectives: []}}") <= shown
    for spec in ("objectives: [], zzz: 1", "objectives: [{zzz: 1}]", "goodput: {zzz: 1}", "schedule: {zzz: 1}",
                 "policies: {zzz: 1}"):  # fmt: skip
        assert known_of_slo(f"{head}metadata: {{name: x}}\nspec: {{{spec}}}") <= shown, spec


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: str(family.name))
def test_every_family_is_in_the_table(text: str, family: Any) -> None:
    assert f"| `{family.name}` | {family.kind} |" in section(text, "## Metrics")


def test_every_family_that_is_spoken_of_exists(text: str) -> None:
    named = set(re.findall(r"`((?:inference|goodput_exporter)_[a-z_]+)(?:\{[^`]*)?`", text))
    assert named
    assert named <= FAMILY.keys()


@pytest.mark.parametrize(
    "words",
    [METRICS, BOUNDARIES, OUTCOMES, ROLES, STAMPS, PHASES, FATES, FIRST_TOKEN_SOURCES, TPOT_FORMULAS, VERDICTS,
     BUILT_IN, KINDS, UNITS, CHOSEN_NAMES, NO_CALL],
    ids=["metrics", "boundaries", "outcomes", "roles", "stamps", "phases", "fates", "first token", "formulas",
         "verdicts", "profiles", "kinds", "units", "names that users choose", "paths that are no request"],
)  # fmt: skip
def test_every_word_of_the_vocabulary_is_there(text: str, words: tuple[str, ...]) -> None:
    assert [word for word in words if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text)] == []


# What is not run by the script.


def test_every_command_line_names_commands_and_options_that_exist(script: Any, text: str) -> None:
    used = set()
    for block in script.blocks(text):
        lines = script.commands(block.body) if block.mark == "console" else block.body.splitlines()
        for line in lines if block.mark in ("console", "sh") else ():
            for call in re.findall(r"(?:^|&& )goodput-exporter ([^|;&>#]+)", line):
                name, *arguments = shlex.split(call)
                command = main.commands[name]
                if isinstance(command, click.Group):
                    command = command.commands[arguments[0]]
                options = {option for each in command.params for option in each.opts if isinstance(each, click.Option)}
                assert {each for each in arguments if each.startswith("--")} <= options, line
                used.add(name)
    assert used == main.commands.keys() - {"health"}
    assert "`goodput-exporter health`" in text


def test_the_request_sent_by_hand_makes_the_series_that_are_shown(script: Any, text: str) -> None:
    tour = section(text, "### Serve, without a configuration")
    body = re.search(r"-d '(\{.*\})'$", tour, re.MULTILINE | re.DOTALL)
    assert body is not None
    sent = body[1].replace("'$((now-1400000000))'", str(NOW_NS - 1_400_000_000)).replace("'$now'", str(NOW_NS))
    pipeline = Pipeline(Settings(), built_in(), [])
    pipeline.feed(sent.encode(), encoding="json", transport="http", now_ns=NOW_NS)
    for second in range(32):
        pipeline.tick(NOW_NS + second * SECOND_NS)
    scraped = write_text(collect(pipeline, NOW_NS + 32 * SECOND_NS)).decode().splitlines()
    pattern = re.search(r"grep '(.+)'", tour)
    assert pattern is not None
    found = [line for line in scraped if re.search(pattern[1], line)]
    shown = [line for line in tour.splitlines() if line.startswith("inference_")]
    assert shown == found[: len(shown)]
    assert len(shown) == 3


def test_every_link_inside_leads_to_a_heading(text: str) -> None:
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    assert {*re.findall(r"\]\(#([^)]+)\)", text)} <= anchors
