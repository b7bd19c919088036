"""Specs for sloth: of the shape of its own examples, and with our counters as queries."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from slo_rules.document import Problem, read
from slo_rules.families import FAMILY
from slo_rules.openslo import LeftOut
from slo_rules.slo import SLO, read_slos
from slo_rules.sloth import export_slos
from slo_rules.vocabulary import BOUNDARIES
from slo_rules.write import dump

HERE = Path(__file__).resolve().parents[1]
GOLDEN = HERE / "golden" / "slos"
OBJECTIVE = "objectives: [{metric: ttft, boundary: model, percentile: 95, threshold: 1s, window: 5m}]"


def slos(text: str) -> list[SLO]:
    problems: list[Problem] = []
    found = read_slos(read(text, "slo.yaml", problems, {}), BOUNDARIES, None)
    assert problems == []
    return found


def slo(name: str, goodput: str, labels: str = "{}") -> str:
    spec = ", ".join(filter(None, (OBJECTIVE, goodput)))
    return (
        f"{{apiVersion: goodput/v1, kind: SLO, metadata: {{name: {name}, labels: {labels}}}, spec: {{{spec}}}}}\n---\n"
    )


def shape(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every key with the type of its value; what users name themselves is left out."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from (
                [(f"{path}.*", "str")] if path.endswith(("labels", "annotations")) else shape(inner, f"{path}.{key}")
            )
    elif isinstance(value, list):
        for inner in value:
            yield from shape(inner, f"{path}[]")
    else:
        yield path, "number" if isinstance(value, int | float) else type(value).__name__


def known_shapes() -> set[tuple[str, str]]:
    files = (HERE / "data" / "sloth").glob("*.yml")
    return {
        each for file in files for document in yaml.safe_load_all(file.read_text("utf-8")) for each in shape(document)
    }


@pytest.mark.parametrize("name", ["chat", "agent", "batch"])
def test_a_whole_file_is_exported_to_the_byte_and_in_the_shape_of_sloth_s_examples(name: str) -> None:
    expected = (GOLDEN / name / "sloth.yaml").read_text(encoding="utf-8")
    assert dump(export_slos(slos((GOLDEN / name / "slo.yaml").read_text(encoding="utf-8"))).documents) == expected
    (document,) = yaml.safe_load_all(expected)
    found = set(shape(document))
    assert found <= known_shapes()
    assert (".version", "str") in found


def test_the_queries_are_of_exported_counters_with_the_window_left_to_sloth() -> None:
    (document,) = export_slos(slos(slo("chat", "goodput: {target: 99.95%}"))).documents
    (spec,) = document["slos"]
    assert str(spec["objective"]) == "99.95"
    for key, family in (("error_query", "bad"), ("total_query", "eligible")):
        name = f"inference_slo_{family}_requests_total"
        assert spec["sli"]["events"][key] == f'sum(rate({name}{{slo="chat"}}[{{{{.window}}}}]))'
        assert FAMILY[name].labels[0] == "slo"


def test_the_slos_of_one_service_are_one_document() -> None:
    text = slo("a", "goodput: {target: 99%}", "{service: web, team: x}") + slo("b", "goodput: {target: 99%}")
    documents = export_slos(slos(text + slo("c", "goodput: {target: 90%}", "{service: web}"))).documents
    assert [(d["service"], [each["name"] for each in d["slos"]]) for d in documents] == [
        ("web", ["a", "c"]),
        ("b", ["b"]),
    ]
    assert documents[0]["slos"][0]["labels"] == {"team": "x"}


@pytest.mark.parametrize(
    ("goodput", "left_out"),
    [
        ("", LeftOut("SLO chat", "it has no goodput target")),
        ("goodput: {target: 100%}", LeftOut("SLO chat", "its target is 100%, and sloth takes less than that only")),
        (
            "goodput: {target: 99%, period: 7d}",
            LeftOut(
                "period of SLO chat", "it is 7d, and sloth's is one for all: start it with --default-slo-period=7d"
            ),
        ),
        (
            "goodput: {target: 99%, period: month}",
            LeftOut("period of SLO chat", "it is a month of the calendar, and sloth's rolls along"),
        ),
    ],
)
def test_what_sloth_cannot_say_is_named(goodput: str, left_out: LeftOut) -> None:
    assert export_slos(slos(slo("chat", goodput))).left_out == [left_out]
