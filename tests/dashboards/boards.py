"""The dashboards of these tests, and the rules beside them."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from dashboards.frame import Settings
from dashboards.write import plain
from exporter.config import Settings as Configuration
from exporter.serve import read_slo_nodes
from slo_rules.document import Problem, read
from slo_rules.rules import Rule, RuleSettings, generate
from slo_rules.slo import SLO

CHAT = """\
apiVersion: goodput/v1
kind: SLO
metadata: {name: chat}
spec:
  description: Answers start within a second.
  objectives:
    - {metric: ttft, boundary: end_to_end, percentile: 95, threshold: 1s, window: 10m}
    - {metric: tpot, boundary: model, percentile: 95, threshold: 50ms, window: 30m}
  goodput: {target: 99%, period: 30d}
"""


class Query(NamedTuple):
    """One query of a panel, and where it stands."""

    board: str
    panel: Mapping[str, Any]
    target: Mapping[str, Any]

    @property
    def expr(self) -> str:
        """In PromQL."""
        return str(self.target["expr"])

    def __str__(self) -> str:
        return f"{self.board}: {self.panel['title']}, {self.target['refId']}"


@cache
def boards() -> Mapping[str, Mapping[str, Any]]:
    """By file name without suffix."""
    return {name.removesuffix(".json"): json.loads(text) for name, text in plain(Settings()).items()}


def panels() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All panels but headings, each with its dashboard."""
    for name, board in boards().items():
        yield from ((name, panel) for panel in board["panels"] if panel["type"] != "row")


def queries() -> list[Query]:
    """All queries."""
    return [Query(name, panel, target) for name, panel in panels() for target in panel.get("targets", ())]


def annotations() -> set[str]:
    """The queries of all annotations."""
    return {note["expr"] for board in boards().values() for note in board["annotations"]["list"]}


def slos(text: str = CHAT) -> list[SLO]:
    """The SLOs of a file."""
    problems: list[Problem] = []
    found = read_slo_nodes(read(text, "slo.yaml", problems, {}), Configuration())
    assert not problems
    return found


def rules() -> list[Rule]:
    """The rules of an SLO."""
    return [rule for group in generate(slos(), RuleSettings()).groups for rule in group.rules]


@cache
def recorded() -> dict[str, frozenset[str]]:
    """The labels of every recorded series: those that its expression groups by, or the SLO's."""
    found = {}
    for rule in rules():
        if rule.record:
            grouping = re.search(r"by \(([^)]*)\)", rule.expr)
            level = {"slo": "slo", "slo_failed": "slo, failed", "boundary_class": "boundary, class"}
            names = grouping[1] if grouping else level[rule.record.split(":")[0]]
            found[rule.record] = frozenset(names.split(", "))
    return found
