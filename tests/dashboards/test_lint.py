"""The dashboards have no fault that our lint knows, and the lint finds each of them where it is made."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.dashboards.boards import boards
from tests.dashboards.lint import faults

Board = dict[str, Any]


@pytest.mark.parametrize("name", boards())
def test_a_dashboard_has_no_fault(name: str) -> None:
    assert faults(boards()[name]) == []


def panel(board: Board) -> Board:
    """The first graph."""
    found: Board = next(each for each in board["panels"] if each["type"] == "timeseries")
    return found


def target(board: Board) -> Board:
    """Its first query."""
    found: Board = panel(board)["targets"][0]
    return found


MISTAKES: dict[str, Callable[[Board], Any]] = {
    "has an id, which belongs to one Grafana": lambda b: b.update(id=7),
    "has no uid of ours": lambda b: b.update(uid=""),
    "must be edited at import": lambda b: b.update(__inputs=[]),
    "has panels without an id of their own": lambda b: b["panels"][1].update(id=b["panels"][0]["id"]),
    "has two panels called": lambda b: b["panels"][1].update(title=b["panels"][0]["title"]),
    "has a fixed data source": lambda b: target(b).update(datasource={"type": "prometheus", "uid": "P1809"}),
    "is not declared": lambda b: target(b).update(expr="up{job='$job'}"),
    "is not used": lambda b: b["templating"]["list"].append({**b["templating"]["list"][-1], "name": "tenant"}),
    "takes series of others for All": lambda b: [v.update(allValue=".*") for v in b["templating"]["list"]],
    "is beyond the grid": lambda b: panel(b)["gridPos"].update(x=20),
    "lies on": lambda b: b["panels"][1].update(gridPos=dict(b["panels"][0]["gridPos"])),
    "has no unit": lambda b: panel(b)["fieldConfig"]["defaults"].pop("unit"),
    "does not say when there is no data": lambda b: panel(b)["fieldConfig"]["defaults"].update(noValue="0"),
    "has no description": lambda b: panel(b).update(description="A graph"),
    "has no legend": lambda b: panel(b)["options"]["legend"].update(showLegend=False),
    "has a query without a legend": lambda b: target(b).update(legendFormat=""),
    "shows a past value": lambda b: target(b).update(instant=True),
    "averages": lambda b: target(b).update(expr="avg(up)"),
    "makes a number of no data": lambda b: target(b).update(expr="up or vector(0)"),
    "selects on le": lambda b: target(b).update(expr='rate(x_bucket{le="1.0"}[$window])'),
    "adds up percentiles": lambda b: target(b).update(expr="sum by (model) (inference_window_ttft_seconds)"),
    "has a range of 5m": lambda b: target(b).update(expr="rate(x[5m])"),
    "divides by what may be zero": lambda b: target(b).update(expr="x\n/ y"),
    ".tilte is no key of it": lambda b: panel(b).update(tilte="TTFT"),
    ".lineWidth is no key of it": lambda b: panel(b)["options"].update(lineWidth=1),
    "'2', not <class 'int'>": lambda b: b["templating"]["list"][0].update(auto_count="2"),
    "'x', not one of": lambda b: panel(b).update(repeatDirection="x"),
    "'many', not one of": lambda b: panel(b)["options"]["tooltip"].update(mode="many"),
}  # fmt: skip
"""What the lint says of each, and how it is made."""


@pytest.mark.parametrize("says", MISTAKES)
def test_the_lint_finds(says: str) -> None:
    board = json.loads(json.dumps(copy.deepcopy(boards()["on-call"])))
    MISTAKES[says](board)
    assert [fault for fault in faults(board) if says in fault]
