"""OpenSLO v1: every file of the specification's own projects is read, and our SLOs survive the way out and back."""

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from slo_rules.document import Node, Plain, Problem, Problems, read
from slo_rules.openslo import Imported, LeftOut, Objects, export_slos, import_slos, inline, read_objects
from slo_rules.slo import SLO, read_slos
from slo_rules.vocabulary import BOUNDARIES
from slo_rules.write import dump

DATA = Path(__file__).resolve().parents[1] / "data" / "openslo"
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "slos"
FILES = sorted(DATA.glob("*/*.yaml"))
REFUSED = {"inputs__validate__invalid-apiversion.yaml", "inputs__validate__unknown-field.yaml"}
INLINE = "openslosdk__test_data__inline__"
DANGLING = sorted(DATA.glob(f"go-sdk/{INLINE}inputs__*invalid*.yaml"))


def nodes(text: str, problems: list[Problem]) -> list[Node]:
    return read(text, "openslo.yaml", problems, None)


def objects(text: str) -> Objects:
    problems: list[Problem] = []
    found = read_objects(nodes(text, problems))
    if problems:
        raise Problems(problems)
    return found


def imported(text: str) -> Imported:
    problems: list[Problem] = []
    found = import_slos(read_objects(nodes(text, problems)), BOUNDARIES)
    if problems:
        raise Problems(problems)
    return found


def messages(text: str) -> list[str]:
    with pytest.raises(Problems) as caught:
        imported(text)
    return [str(problem) for problem in caught.value.items]


def contents(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def documents(path: Path) -> Iterable[Any]:
    """All objects of a file as PyYAML sees them."""
    for document in yaml.safe_load_all(contents(path)):
        yield from document if isinstance(document, list) else [document]


def plain(path: Path) -> list[Plain]:
    """All objects of a file, compared as texts: whether a time is quoted does not matter."""
    found: list[Plain] = []
    for node in nodes(contents(path), []):
        value = node.plain()
        found += value if isinstance(value, list) else [value]
    return found


# The files of the specification's own projects


def test_the_data_is_there() -> None:
    assert len(FILES) == 50
    assert len(DANGLING) == 5


@pytest.mark.parametrize("path", [p for p in FILES if p.name not in REFUSED], ids=lambda p: p.stem)
def test_every_file_is_read_and_each_object_of_it_is_read_or_named(path: Path) -> None:
    found = objects(contents(path))
    versions = [document["apiVersion"] for document in documents(path)]
    assert len(found.nodes) == versions.count("openslo/v1")
    assert len(found.left_out) == len(versions) - len(found.nodes)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_file_of_no_version_or_with_an_unknown_field_is_refused(name: str) -> None:
    with pytest.raises(Problems) as caught:
        objects(contents(DATA / "oslo" / name))
    (problem,) = caught.value.items
    assert (problem.path, problem.found) in [("apiVersion", '"foo"'), ("spec.markdown", '"markdown"')]


@pytest.mark.parametrize("path", [p for p in FILES if p.name not in REFUSED], ids=lambda p: p.stem)
def test_each_slo_is_imported_or_named_with_the_reason(path: Path) -> None:
    text = contents(path)
    names = sorted(f"SLO {d['metadata']['name']}" for d in documents(path) if d["kind"] == "SLO")
    problems: list[Problem] = []
    found = import_slos(read_objects(nodes(text, problems)), BOUNDARIES)
    left = sorted(each.what for each in found.left_out if each.what.startswith("SLO "))
    assert left + [f"SLO {slo.name}" for slo in found.slos] == names
    assert all("must name an object of the kind" in problem.rule for problem in problems)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("go-sdk/openslosdk__test_data__decode__v1_slos.yaml", "its metric source is Prometheus;"),
        ("spec-examples/budgeting-method__occurences-slo.yaml", "its metric source is Any;"),
        ("spec-examples/budgeting-method__timeslices-slo.yaml", "it has 2 objectives, and an SLO here has one target"),
        ("go-sdk/openslosdk__test_data__decode__v2alpha_slos.yaml", "openslo.com/v2alpha is not supported"),
        ("oslo/inputs__validate__v2alpha.yaml", "openslo.com/v2alpha is not supported, openslo/v1 is"),
        ("oslo/inputs__validate__v1alpha.yaml", "openslo/v1alpha is not supported, openslo/v1 is"),
    ],
)
def test_the_reason_says_what_is_foreign(name: str, reason: str) -> None:
    found = imported(contents(DATA / name))
    assert found.slos == []
    assert {each.reason.startswith(reason) for each in found.left_out if each.what.startswith("SLO ")} == {True}
    assert all(each.place.startswith("openslo.yaml:") for each in found.left_out)


# References


@pytest.mark.parametrize("path", DANGLING, ids=lambda p: p.stem)
def test_a_reference_to_nothing_is_refused(path: Path) -> None:
    problems: list[Problem] = []
    inline(read_objects(nodes(contents(path), problems)))
    (problem,) = problems
    assert problem.rule.startswith("must name an object of the kind ")
    assert problem.path.endswith("Ref")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("v1_slo", {}),
        ("v1_alert_policies_remove_refs", {}),
        ("v1_alert_policies_keep_refs", {"keep": True}),
        ("custom_config", {"only": ()}),
    ],
)
def test_references_are_resolved_as_the_go_sdk_resolves_them(name: str, settings: dict[str, Any]) -> None:
    found = objects(contents(DATA / "go-sdk" / f"{INLINE}inputs__{name}.yaml"))
    assert inline(found, **settings) == plain(DATA / "go-sdk" / f"{INLINE}outputs__{name}.yaml")


# Out and back

HEAD = "apiVersion: goodput/v1\nkind: SLO\nmetadata: {name: chat, labels: {team: serving, service: chat-api}}\nspec:\n"
ONE = "  objectives: [{metric: ttft, boundary: model, percentile: 99.9, threshold: 1us, window: 5m, name: start}]\n"
TWO = """\
  objectives:
    - {metric: ttft, boundary: end_to_end, percentile: 95, threshold: 1s, window: 5m}
    - {metric: tpot, boundary: end_to_end, percentile: 95, threshold: 50ms, window: 5m}
    - {metric: completion, boundary: model, percentile: 99, threshold: 30s, window: 30m, per_request: false}
"""
GOODPUT = "  goodput: {target: 99.95%, period: 28d}\n"
REST = """\
  description: An answer starts soon; $(this) and ${THAT} are text.
  selector: {class: interactive, model: [a, b]}
  schedule: {days: [mon, fri], from: "22:00", to: "06:00", timezone: Asia/Seoul, outside: outcome_only}
  policies: {single_token: fail, cancelled: bad, unknown: bad, minimum_samples: auto}
  expected: {requests_per_hour: 7200}
"""
CARRIED = {
    "one limit": ONE + GOODPUT,
    "one limit without a target": ONE,
    "one limit and all else": ONE + GOODPUT + REST,
    "joint limits": TWO + GOODPUT,
    "joint limits and all else": TWO + GOODPUT + REST,
    "a limit of the window only": ONE.replace("5m", "5m, per_request: false") + GOODPUT,
    "a week": TWO + "  goodput: {target: 90%, period: week}\n",
    "a month": ONE + "  goodput: {target: 99%, period: month, timezone: Asia/Seoul}\n",
    "a quarter": TWO + "  goodput: {target: 99%, period: quarter, timezone: America/New_York}\n",
    "hours": ONE + "  goodput: {target: 0.000000000000001, period: 90m}\n",
    "a long description": ONE + GOODPUT + f"  description: {'long ' * 300}\n",
    "batch": "  workload: batch\n  boundary: service\n  deadline: 6h\n" + GOODPUT,
}


def slos(text: str) -> list[SLO]:
    problems: list[Problem] = []
    found = read_slos(nodes(text, problems), BOUNDARIES, None)
    assert problems == []
    return found


@pytest.mark.parametrize("text", CARRIED.values(), ids=CARRIED.keys())
def test_what_is_exported_and_imported_again_is_the_same_slo(text: str) -> None:
    found = slos(HEAD + text)
    exported = export_slos(found)
    assert len(exported.documents) == 1
    assert imported(dump(exported.documents)).slos == found


def test_an_slo_without_labels_has_its_own_name_as_the_service() -> None:
    found = slos(HEAD.replace(", labels: {team: serving, service: chat-api}", "") + ONE)
    exported = export_slos(found)
    assert exported.documents[0]["spec"]["service"] == "chat"
    assert imported(dump(exported.documents)) == (found, [])


@pytest.mark.parametrize("text", CARRIED.values(), ids=CARRIED.keys())
def test_what_is_exported_is_valid_openslo(text: str) -> None:
    exported = export_slos(slos(HEAD + text))
    assert len(objects(dump(exported.documents)).nodes) == 1
    (document,) = exported.documents
    assert len(document["spec"].get("description", "")) <= 1050


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TWO, "it has no goodput target, and OpenSLO asks for one"),
        ("  workload: batch\n", "it has no goodput target, and OpenSLO asks for one"),
        (TWO + "  goodput: {target: 100%}\n", "its target is 100%, and OpenSLO takes less than that only"),
        (ONE.replace("99.9", "100"), "its target is 100%, and OpenSLO takes less than that only"),
        (ONE.replace("5m", "90s"), "1m30s is no whole number of minutes, which time windows are"),
    ],
)
def test_what_openslo_cannot_say_is_named(text: str, reason: str) -> None:
    assert export_slos(slos(HEAD + text)) == ([], [LeftOut("SLO chat", reason)])


def test_what_only_the_annotation_carries_is_named() -> None:
    exported = export_slos(slos(HEAD + TWO + GOODPUT + REST))
    assert [each.what for each in exported.left_out] == [
        f"{part} of SLO chat" for part in ("selector", "objectives", "schedule", "policies", "expected")
    ]


def test_one_limit_needs_no_annotation() -> None:
    (document,) = export_slos(slos(HEAD + ONE + GOODPUT)).documents
    assert "annotations" not in document["metadata"]
    assert document["spec"]["objectives"] == [
        {"displayName": "start", "op": "lte", "value": "0.000001", "target": "0.9995"}
    ]


# Import of what somebody wrote

OWN = """\
apiVersion: openslo/v1
kind: SLO
metadata: {name: chat}
spec:
  service: chat
  indicatorRef: first-token
  timeWindow: [{duration: 5m, isRolling: true}]
  budgetingMethod: Occurrences
  objectives: [{op: lte, value: 1.5, target: 0.99}]
---
apiVersion: openslo/v1
kind: SLI
metadata: {name: first-token}
spec: {thresholdMetric: {metricSource: {type: goodput, spec: {metric: ttft, boundary: end_to_end}}}}
"""


def test_a_threshold_over_a_short_window_is_a_percentile() -> None:
    found = imported(OWN)
    (objective,) = found.slos[0].objectives
    assert (objective.percentile, objective.threshold_ns, objective.window_ns) == (
        Fraction(99), 1_500_000_000, 300 * 10**9,
    )  # fmt: skip
    assert (found.slos[0].target, found.left_out) == (None, [])


def test_a_share_in_percent_is_read_too() -> None:
    (slo,) = imported(OWN.replace("target: 0.99", "targetPercent: 99.9")).slos
    assert float(slo.objectives[0].percentile) == 99.9


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("op: lte", "op: lt", "its condition is lt, and a limit here is lte"),
        ("op: lte, ", "", "its condition is None, and a limit here is lte"),
        ("value: 1.5, ", "", "it has no value to compare with"),
        (", target: 0.99", "", "it has no target"),
        ("Occurrences", "Timeslices", "it counts slices of time (Timeslices), and here requests are counted"),
        ("duration: 5m", "duration: 28d", "a percentile is taken over 7d at most"),
        ("duration: 5m", "duration: 1M", "its time window of 1M rolls along without a fixed length"),
        ("isRolling: true", "isRolling: false", "its time window does not roll along, and no calendar says when"),
        ("[{duration: 5m, isRolling: true}]", "[]", "it has 0 time windows, and an SLO here has one period"),
        (
            "isRolling: true", "calendar: {startTime: 2024-01-01, timeZone: UTC}",
            "a period of the calendar is 1w, 1M, 1Q here, not 5m",
        ),
        (
            "duration: 5m, isRolling: true", "duration: 1M, calendar: {startTime: 2024-01-02 00:00:00, timeZone: UTC}",
            "its time window starts at 2024-01-02 00:00:00, and a month begins at midnight of its first day here",
        ),
        (
            "duration: 5m, isRolling: true", "duration: 1w, calendar: {startTime: soon, timeZone: UTC}",
            "its time window starts at soon, which is no time",
        ),
        ("type: goodput", "type: Prometheus", "its metric source is Prometheus"),
        ("type: goodput, ", "metricSourceRef: thanos, ", "its metric source is thanos"),
    ],
)  # fmt: skip
def test_what_cannot_be_imported_is_named_with_the_reason(old: str, new: str, reason: str) -> None:
    assert old in OWN
    found = imported(OWN.replace(old, new))
    assert found.slos == []
    (left,) = found.left_out
    assert (left.what, left.place, left.reason.startswith(reason)) == ("SLO chat", "openslo.yaml:1:1", True)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "metric: ttft", "metric: ttfb",
            "openslo.yaml:14:71 spec.thresholdMetric.metricSource.spec.metric: must be one of: ttft, tpot, completion "
            '(did you mean ttft?), found "ttfb"',
        ),
        (
            "boundary: end_to_end", "boundary: end_to_end, percentil: 95",
            "openslo.yaml:14:99 spec.thresholdMetric.metricSource.spec.percentil: must be a known key: percentile, "
            'window, selector, metric, boundary (did you mean percentile?), found "percentil"',
        ),
        (
            "value: 1.5", "value: 90000",
            'openslo.yaml:9:33 spec.objectives[0].value: must be at least 1us and at most 1d, found "90000s"',
        ),
        (
            "indicatorRef: first-token", "indicatorRef: second-token",
            "openslo.yaml:6:17 spec.indicatorRef: must name an object of the kind SLI in the files given, "
            'found "second-token"',
        ),
        (
            "metadata: {name: chat}", "metadata: {name: Chat}",
            "openslo.yaml:3:18 metadata.name: must be at most 63 lower-case letters, digits and -, "
            'with a letter or digit at both ends, found "Chat"',
        ),
        (
            "metadata: {name: chat}", "metadata: {name: chat, annotations: {goodput/spec: '{'}}",
            'openslo.yaml:3:52 metadata.annotations["goodput/spec"]: must hold one document of YAML or JSON, found "{"',
        ),
        (
            "metadata: {name: chat}",
            "metadata: {name: chat, annotations: {goodput/spec: 'schedule: {from: \"8:00\", to: \"9:00\"}'}}",
            'openslo.yaml:3:52 metadata.annotations["goodput/spec"].schedule.from: must be a time from 00:00 to 24:00, '
            'such as 08:30, found "8:00"',
        ),
        (
            "metadata: {name: chat}", "metadata: {name: chat, annotations: {goodput/spec: 'objectives: []'}}",
            'openslo.yaml:3:52 metadata.annotations["goodput/spec"].objectives: must leave out objectives, '
            "which stands in the SLO itself, found a list",
        ),
    ],
)  # fmt: skip
def test_a_mistake_points_into_the_openslo_file(old: str, new: str, message: str) -> None:
    assert old in OWN
    assert message in messages(OWN.replace(old, new, 1))


def test_lesser_things_that_are_not_carried_are_named() -> None:
    text = OWN.replace("{name: chat}", "{name: chat, displayName: Chat, labels: {team: [a, b], a.b: c, env: [prod]}}")
    text = text.replace("objectives: [{op", "objectives: [{displayName: Good one, op").replace(
        "service: chat", "service: web"
    )
    found = imported(text)
    assert [each.what for each in found.left_out] == [
        "label team of SLO chat", "label a.b of SLO chat", "displayName of SLO chat",
        "displayName of the objective of SLO chat",
    ]  # fmt: skip
    assert found.slos[0].labels == (("env", "prod"), ("service", "web"))


# Golden files: to renew them, `goodput-exporter slo export slo.yaml > openslo.yaml`, and read the difference.


@pytest.mark.parametrize("name", ["chat", "agent", "batch"])
def test_a_whole_file_is_exported_to_the_byte(name: str) -> None:
    found = slos(contents(GOLDEN / name / "slo.yaml"))
    assert dump(export_slos(found).documents) == contents(GOLDEN / name / "openslo.yaml")
    assert imported(contents(GOLDEN / name / "openslo.yaml")).slos == [slo for slo in found if slo.target is not None]
