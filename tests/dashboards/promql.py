"""What an expression speaks of: families, labels that select them, labels that its results are grouped by."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import promql_parser

from slo_rules.families import FamilySpec

SCRAPED: Final = frozenset({"instance", "job", "__name__"})
OURS: Final = re.compile(r"(inference|goodput_exporter)_\w+")
SUFFIXES: Final = ("_bucket", "_sum", "_count")
OTHERS: Final = frozenset({"up", "ALERTS", "process_resident_memory_bytes", "process_cpu_seconds_total",
                           "scrape_duration_seconds"})  # fmt: skip
"""Series of Prometheus itself, and of any process."""
OF_ALERTS: Final = frozenset({"alertname", "alertstate", "severity", "slo", "boundary", "class"})


@cache
def parse(expr: str) -> Any:
    """The tree of an expression, with Grafana's variables filled in as durations where durations stand."""
    return promql_parser.parse(re.sub(r"\[\$\w+\]", "[5m]", expr))


def nodes(tree: Any) -> Iterator[Any]:
    """All parts of a tree."""
    yield tree
    for name in ("lhs", "rhs", "expr", "param", "vector_selector"):
        if (child := getattr(tree, name, None)) is not None:
            yield from nodes(child)
    for child in getattr(tree, "args", None) or ():
        yield from nodes(child)


def selectors(expr: str) -> Iterator[Any]:
    """The series that an expression selects."""
    yield from (node for node in nodes(parse(expr)) if isinstance(node, promql_parser.VectorSelector))


def family_of(name: str, families: Mapping[str, FamilySpec]) -> FamilySpec | None:
    """The family that a series is of."""
    if name in families:
        return families[name]
    stem = next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), "")
    found = families.get(stem)
    return found if found is not None and found.kind == "histogram" else None


def uses(expr: str, families: Mapping[str, FamilySpec]) -> Iterator[tuple[str, str]]:
    """Families, and labels of families: each family alone, and with each label that selects it or that it may give."""
    grouped = {label for node in nodes(parse(expr)) for label in _grouping(node)}
    for selector in selectors(expr):
        family = family_of(selector.name or "", families)
        if family is not None:
            yield family.name, ""
            for label in {matcher.name for matcher in selector.matchers.matchers} | grouped:
                if label in family.labels:
                    yield family.name, label


def faults(expr: str, families: Mapping[str, FamilySpec], recorded: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """What an expression names that nobody has: a series, a label of a series, a label to group by."""
    for node in nodes(parse(expr)):
        below = [part for part in nodes(node) if isinstance(part, promql_parser.VectorSelector)]
        if isinstance(node, promql_parser.VectorSelector):
            found = _labels(node, families, recorded)
            used = {matcher.name for matcher in node.matchers.matchers} - SCRAPED
            if found is None:
                yield f"no series {node.name or node}"
            else:
                yield from (f"{node.name} has no label {label}" for label in used - found)
        elif below:
            made = {str(call.args[1].val) for call in nodes(node) if _is_replace(call)}
            has = SCRAPED.union(made, *(_labels(part, families, recorded) or () for part in below))
            yield from (f"nothing in {node} has the label {label}" for label in set(_grouping(node)) - has)


def _grouping(node: Any) -> Iterator[str]:
    """The labels that an aggregation keeps."""
    if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
        yield from node.modifier.labels


def _is_replace(node: Any) -> bool:
    return isinstance(node, promql_parser.Call) and node.func.name == "label_replace"


def _labels(
    selector: Any, families: Mapping[str, FamilySpec], recorded: Mapping[str, frozenset[str]]
) -> frozenset[str] | None:
    """The labels that the selected series have; None where there are no such series."""
    name: str | None = selector.name
    if name is None:  # a pattern for the names of recorded series
        patterns = [matcher.value for matcher in selector.matchers.matchers if matcher.name == "__name__"]
        found = [labels for each, labels in recorded.items() if patterns and re.fullmatch(patterns[0], each)]
        return frozenset().union(*found) if found else None
    if name in recorded:
        return recorded[name]
    if name in OTHERS:
        return OF_ALERTS if name == "ALERTS" else frozenset()
    family = family_of(name, families)
    return None if family is None else frozenset(family.labels) | ({"le"} if name.endswith("_bucket") else set())
