"""No name is used that nobody exports, and none is exported for nobody: in dashboards, rules and the README."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from slo_rules.families import FAMILIES, FAMILY, FamilySpec
from tests.dashboards.boards import Query, annotations, panels, queries, recorded, rules
from tests.dashboards.promql import OURS, family_of, faults, selectors, uses
from tests.e2e.programs import environment

FREE: Final[frozenset[str]] = frozenset()
"""Families that no panel, rule or line of the README speaks of, on purpose."""
FILTERS: Final = {"boundary", "model", "class", "slo", "window"}
UNFILTERED: Final = {
    "inference_completions_total": {"model"},  # beside arrivals, which have no model
    "inference_accelerators": FILTERS,  # of all models where it divides what SLOs count
    "inference_slo_threshold_seconds": {"boundary", "window"},  # listed for all boundaries; each has its own window
    "inference_window_ttft_seconds": {"boundary"},  # boundaries side by side
}  # fmt: skip
"""Labels that are variables elsewhere, and by which these families may stay unfiltered."""


@pytest.fixture(scope="module")
def prose(checkout: Path) -> str:
    """The README without its generated tables."""
    text = (checkout / "README.md").read_text(encoding="utf-8")
    return re.sub(r"<!-- begin (\w+) -->.*?<!-- end \1 -->", "", text, flags=re.DOTALL)


@cache
def expressions() -> list[str]:
    """All that is asked of Prometheus by what is generated."""
    return [*(query.expr for query in queries()), *annotations(), *(rule.expr for rule in rules())]


def told(text: str) -> Iterator[tuple[str, str]]:
    """Series and labels that a text names: each series alone, and with each label in braces behind it."""
    for match in re.finditer(rf"({OURS.pattern})\b(?!\.\*)(?:\{{([^}}]*)\}})?", text):
        yield match[1], ""
        for label in re.findall(r"(?:^|,)\s*(\w+)", match[3] or ""):
            yield match[1], label


def all_faults(prose: str, families: Mapping[str, FamilySpec], about: str = "") -> list[str]:
    """Everything that names what is not in these families; where `about` is given, among what speaks of it."""
    asked = (expr for expr in expressions() if about in expr)
    found = [fault for expr in asked for fault in faults(expr, families, recorded())]
    for name, label in told(prose):
        family = family_of(name, families)
        if family is None or label not in {"", "le", *family.labels}:
            found.append(f"README: no {name} {label}")
    return found


@pytest.mark.parametrize("query", queries(), ids=str)
def test_every_query_names_series_and_labels_that_there_are(query: Query) -> None:
    assert list(faults(query.expr, FAMILY, recorded())) == []


@pytest.mark.parametrize("query", queries(), ids=str)
def test_every_legend_names_labels_that_the_query_has(query: Query) -> None:
    for label in re.findall(r"{{(\w+)}}", query.target["legendFormat"]):
        assert re.search(rf"\b{label}\b", query.expr), label


def test_rules_annotations_and_readme_name_series_and_labels_that_there_are(prose: str) -> None:
    assert all_faults(prose, FAMILY) == []


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_family_is_in_the_table_of_the_readme_and_of_use_to_someone(
    family: FamilySpec, checkout: Path, prose: str
) -> None:
    assert f"| `{family.name}` |" in (checkout / "README.md").read_text(encoding="utf-8")
    used = {name for expr in expressions() if family.name in expr for name, _ in uses(expr, FAMILY)}
    named = {found.name for name, _ in told(prose) if (found := family_of(name, FAMILY))}
    assert (family.name in used | named) != (family.name in FREE)


def test_every_query_is_filtered_by_each_variable_that_its_family_has_as_a_label() -> None:
    for query in queries():
        for selector in selectors(query.expr):
            family = family_of(selector.name or "", FAMILY)
            used = {matcher.name for matcher in selector.matchers.matchers}
            if family is not None and query.board == "exporter-health":
                assert "instance" in used, query
            elif family is not None:
                assert FILTERS & {*family.labels} - used <= UNFILTERED.get(family.name, set()), query


# Renames


def renames() -> Iterator[tuple[str, str]]:
    """Every family, and every label of every family."""
    for family in FAMILIES:
        yield from ((family.name, label) for label in ("", *family.labels))


def renamed(name: str, label: str) -> tuple[FamilySpec, ...]:
    """The families with one name, or one label of one family, changed."""
    family = FAMILY[name]
    if label:
        changed = replace(family, labels=tuple(f"{each}x" if each == label else each for each in family.labels))
    else:
        changed = replace(family, name=name.replace("_", "_x", 1))
    return tuple(changed if each.name == name else each for each in FAMILIES)


def test_whatever_uses_an_old_name_or_label_is_found(prose: str) -> None:
    used = {use for expr in expressions() for use in uses(expr, FAMILY)}
    used |= {(family.name, label) for name, label in told(prose) if (family := family_of(name, FAMILY))}
    assert len(used) > 150
    for name, label in sorted(used - {(name, "le") for name in FAMILY}):
        families = {family.name: family for family in renamed(name, label)}
        assert all_faults(prose, families, about=name), (name, label)


MAKE_AFTER_RENAMES: Final = """
import importlib, json, sys
import dashboards.write
from slo_rules import families
from slo_rules.families import FamilySpec

def made():
    for name in [name for name in sys.modules if name.startswith(("dashboards.", "slo_rules."))]:
        if name != "slo_rules.families":
            package, _, module = name.rpartition(".")
            delattr(sys.modules[package], module)
            del sys.modules[name]
    write, frame = importlib.import_module("dashboards.write"), importlib.import_module("dashboards.frame")
    return "".join(write.plain(frame.Settings()).values())

before, answers = made(), []
for fields in json.load(sys.stdin):
    families.FAMILIES = tuple(FamilySpec(name, kind, tuple(labels), unit, text) for name, kind, labels, unit, text in fields)
    families.FAMILY = {family.name: family for family in families.FAMILIES}
    try:
        answers.append("unchanged" if made() == before else "followed")
    except (KeyError, ValueError):
        answers.append("refused")
print(json.dumps(answers))
"""  # noqa: E501


def test_after_a_rename_dashboards_follow_or_are_not_made() -> None:
    used = sorted({use for query in queries() for use in uses(query.expr, FAMILY)})
    asked = [[[f.name, f.kind, f.labels, f.unit, f.help] for f in renamed(*use)] for use in used]
    command = [sys.executable, "-P", "-c", MAKE_AFTER_RENAMES]
    done = subprocess.run(
        command, input=json.dumps(asked), capture_output=True, text=True, check=True, env=environment()
    )
    answers = dict(zip(used, json.loads(done.stdout), strict=True))
    assert [use for use, answer in answers.items() if answer == "unchanged"] == []
    assert len(answers) > 150


def test_every_panel_of_the_dashboards_is_there_to_be_asked() -> None:
    assert len(list(panels())) > 60


def test_arrivals_and_completions_of_one_graph_are_those_of_the_same_requests() -> None:
    for _, panel in panels():
        told = [set(re.findall(r'(\w+)=~"\$', target["expr"])) for target in panel.get("targets", ())
                if re.match(r"sum \(rate\(inference_(arrivals|completions)_total", target["expr"])]  # fmt: skip
        assert all(filters == told[0] for filters in told), panel["title"]


def test_percentiles_of_the_completion_are_those_of_requests_that_ended_ok() -> None:
    for query in queries():
        if "inference_completion_seconds" in query.expr:
            assert 'outcome="ok"' in query.expr, query
