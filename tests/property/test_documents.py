"""The readers of files keep one promise whatever they are given: a file is accepted, or it is refused with Problems."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from exporter.config import read_settings
from slo_rules.document import Problem, read
from slo_rules.openslo import export_slos, import_slos, inline, read_objects
from slo_rules.slo import read_slos
from slo_rules.vocabulary import BOUNDARIES, METRICS
from slo_rules.write import document_of, dump, write_documents

SLO = """\
apiVersion: goodput/v1
kind: SLO
metadata: {name: chat, labels: {team: serving}}
spec:
  description: An answer starts soon.
  selector: {class: interactive, model: [a, b]}
  objectives:
    - {metric: ttft, boundary: end_to_end, percentile: p95, threshold: 1s, window: 5m, name: start}
    - &slow {metric: tpot, boundary: model, percentile: 99.9, threshold: 50ms, window: 1h, per_request: false}
  goodput: {target: 99%, period: 30d}
  schedule: {days: [mon, fri], from: "22:00", to: "06:00", timezone: Asia/Seoul}
  policies: {single_token: fail, cancelled: bad, minimum_samples: auto}
"""
TEMPLATE = """\
apiVersion: goodput/v1
kind: SLOTemplate
metadata: {name: chat, labels: {model: $(model)}}
spec:
  parameters: {model: , first: 1s, models: [a, b]}
  description: Chat on $(model), not $$(model).
  selector: {model: $(models)}
  objectives: [{metric: ttft, boundary: model, percentile: 95, threshold: $(first), window: 5m}]
---
apiVersion: goodput/v1
kind: SLO
metadata: {name: chat-a}
spec:
  template: chat
  parameters: {model: a, first: 2s}
  goodput: {target: 99%, period: month, timezone: Asia/Seoul}
  expected: {requests_per_hour: 10}
---
{apiVersion: goodput/v1, kind: SLO, metadata: {name: b}, spec: {workload: batch, boundary: model, deadline: 6h}}
"""
OPENSLO = """\
apiVersion: openslo/v1
kind: SLO
metadata: {name: chat, labels: {env: [prod]}, annotations: {goodput/spec: 'schedule: {from: "08:00", to: "20:00"}'}}
spec:
  service: web
  indicatorRef: sli
  timeWindow: [{duration: 1w, isRolling: false, calendar: {startTime: 2024-01-01 00:00:00, timeZone: UTC}}]
  budgetingMethod: Occurrences
  objectives: [{op: lte, value: 1.5, target: 0.99, displayName: start}]
  alertPolicies: [{alertPolicyRef: page}]
---
- apiVersion: openslo/v1
  kind: SLI
  metadata: {name: sli}
  spec:
    thresholdMetric:
      metricSource: {type: goodput, spec: {metric: ttft, boundary: model, percentile: 95, window: 5m, selector: {a: b}}}
- {apiVersion: openslo/v1, kind: AlertPolicy, metadata: {name: page}, spec: {conditions: [{conditionRef: burn}]}}
- apiVersion: openslo/v1
  kind: AlertCondition
  metadata: {name: burn}
  spec: {severity: page, condition: {kind: burnrate, op: gt, threshold: 2, lookbackWindow: 1h, alertAfter: 5m}}
"""
CONFIGURATION = """\
receive: {grpc: "127.0.0.1:4317", http: "[::1]:4318", max_body: 20MiB}
web: {listen: ":9464", enable_lifecycle: false}
profiles: [none/*.yaml]
publish: [model, agent]
boundaries: {agent: {open: arrived@litellm, close: ended@litellm}}
labels: {model: {default: "${MODEL}"}, tenant: {from: [x-tenant], default: none}}
classes: [{class: batch, when: {tenant: nightly, model: [a, b]}}]
windows: {durations: [1m, 5m], delay: 20s, lateness: 60s}
join: {grace: 10s, max_open: 200000, max_age: 10m}
align: {mode: adjust, same_clock: [[a, b]]}
accelerators: {llama: 8}
sampling: ignore
tpot: {formula: tokens}
limits: {label_values: 10, series_idle: 1h, series: 200}
requests: {expect_engine: no, embeddings: true, path: /v1/}
"""
FRAGMENTS = [
    *"{}[]:,-?&*!|>%@`#'\"\\\n\t ~=.0",
    "<<: ", "*slow", "&slow ", "!!python/none ", "---\n", "...\n", "null", "[[[[[[[[", '"\\uD800"', '"\\0"', "\ufeff",
    "\x85", "1e999", "9" * 400, "0.95", "-1", "true", "${MODEL}", "${", "$${X}", "${NONE}", "99%", "1000000000000000d",
    "0s", "p", "é", "$(model)", "$(", "$$(x)", "$(models)", "template: chat\n", "{{", "1M", "openslo/v1", "\U0001f600",
]  # fmt: skip


def refused(text: str) -> bool:
    """Reads a text as every kind of file; anything but a list of well-placed problems fails the test."""
    problems: list[Problem] = []
    read_slos(read(text, "fuzz.yaml", problems, {"MODEL": "m"}), BOUNDARIES, ("class", "model"))
    no_slo = bool(problems)
    read_settings(None, text, {"MODEL": "m"}, problems)
    objects = read_objects(read(text, "fuzz.yaml", problems, None))
    inline(objects)
    import_slos(objects, BOUNDARIES)
    lines = text.count("\n") + text.count("\r") + text.count("\x85") + text.count("\u2028") + text.count("\u2029") + 1
    for problem in problems:
        assert 1 <= problem.line <= lines
        assert problem.column >= 1
        assert problem.rule.startswith("must ")
        str(problem).encode()
    return no_slo


def test_the_seeds_are_accepted_so_that_their_mutations_reach_every_reader() -> None:
    problems: list[Problem] = []
    assert len(read_slos(read(SLO, "slo.yaml", problems, {}), BOUNDARIES, ("class", "model"))) == 1
    assert read_settings(None, CONFIGURATION, {"MODEL": "m"}, problems).labels.model_default == "m"
    assert len(read_slos(read(TEMPLATE, "slo.yaml", problems, {}), BOUNDARIES, ("class", "model"))) == 2
    assert len(import_slos(read_objects(read(OPENSLO, "openslo.yaml", problems, None)), BOUNDARIES).slos) == 1
    assert problems == []


@given(st.text())
def test_any_text_is_accepted_or_refused_with_problems(text: str) -> None:
    refused(text)


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join))
def test_any_run_of_yaml_fragments_is_accepted_or_refused_with_problems(text: str) -> None:
    refused(text)


@given(
    st.sampled_from([SLO, CONFIGURATION, TEMPLATE, OPENSLO]),
    st.lists(
        st.tuples(st.integers(0, 1300), st.integers(0, 12), st.sampled_from(FRAGMENTS) | st.text(max_size=4)),
        min_size=1,
        max_size=4,
    ),
)
def test_any_mutation_of_a_valid_file_is_accepted_or_refused_with_problems(
    text: str, edits: list[tuple[int, int, str]]
) -> None:
    for start, length, insert in edits:
        text = text[:start] + insert + text[start + length :]
    refused(text)


KEYS = sorted(
    {
        str(node.value)
        for node in yaml.scan("---\n".join((SLO, CONFIGURATION, TEMPLATE, OPENSLO)))
        if isinstance(node, yaml.ScalarToken)
    }
)
VALUES = st.recursive(
    st.sampled_from([*KEYS, *METRICS, "", "10s", "95", 95, 0.99, True, None, -1, 10**30, "a" * 100]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=20,
)


@given(VALUES)
def test_any_structure_of_the_known_words_is_accepted_or_refused_with_problems(value: object) -> None:
    refused(yaml.safe_dump(value))


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "kind", "apiVersion"]), VALUES, min_size=4))
def test_any_content_under_the_right_keys_is_accepted_or_refused_with_problems(value: object) -> None:
    refused(yaml.safe_dump(value))


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "- - ", "!!map {a: ", "&a [", "[["])
def test_deep_nesting_is_refused(opening: str) -> None:
    assert refused(opening * 50_000)


@pytest.mark.parametrize("width", [2, 100])
def test_aliases_that_expand_without_end_are_refused(width: int) -> None:
    lines = [f"- &a0 [{', '.join('x' * width)}]"]
    lines += [f"- &a{i + 1} [{', '.join([f'*a{i}'] * width)}]" for i in range(40)]
    assert refused("\n".join(lines))


@pytest.mark.parametrize("text", ["&a [*a]", "&a {b: *a}", "&a {*a : b}", "- &a {b: [c, {d: *a}]}"])
def test_an_alias_that_holds_itself_is_refused(text: str) -> None:
    assert refused(text)


def test_a_file_of_the_greatest_size_is_refused_by_its_values() -> None:
    assert refused("[" + "1," * 500_000 + "]")


@given(
    st.lists(
        st.tuples(
            st.integers(0, 900), st.integers(0, 6), st.sampled_from(["", "1", "$", "(", "a", "9", "false", "UTC"])
        ),
        max_size=2,
    )
)
def test_an_slo_that_is_accepted_is_the_same_after_writing_and_after_openslo(edits: list[tuple[int, int, str]]) -> None:
    """Whatever can be read can be written; what OpenSLO can carry comes back from it unchanged."""
    text = SLO
    for start, length, insert in edits:
        text = text[:start] + insert + text[start + length :]
    problems: list[Problem] = []
    slos = read_slos(read(text, "slo.yaml", problems, {}), BOUNDARIES, ("class", "model"))
    if problems:
        return
    assert read_slos(read(write_documents(map(document_of, slos)), "w", problems, {}), BOUNDARIES, None) == slos
    exported = export_slos(slos)
    back = import_slos(read_objects(read(dump(exported.documents), "o", problems, None)), BOUNDARIES)
    assert problems == []
    if exported.documents:
        assert back.slos == slos
