"""Templates: ten similar SLOs are ten lines, and a mistake is shown where it was made."""

import pytest

from slo_rules.document import Problem, Problems, read
from slo_rules.slo import SLO, read_slos
from slo_rules.vocabulary import BOUNDARIES

TEMPLATE = """\
apiVersion: goodput/v1
kind: SLOTemplate
metadata: {name: chat, labels: {team: serving, model: $(model)}}
spec:
  parameters: {model: , first: 1s, models: [a, b]}
  description: Chat on $(model), not $$(model).
  selector: {class: interactive, model: $(models)}
  objectives:
    - {metric: ttft, boundary: end_to_end, percentile: 95, threshold: $(first), window: 5m}
  goodput: {target: 99%}
---
"""
HEAD = "apiVersion: goodput/v1, kind: SLO"


def slo(name: str, spec: str) -> str:
    return f"{{{HEAD}, metadata: {{name: {name}}}, spec: {{{spec}}}}}\n---\n"


def slos(text: str, warnings: list[Problem] | None = None) -> list[SLO]:
    problems: list[Problem] = []
    found = read_slos(read(text, "slo.yaml", problems, {}, warnings), BOUNDARIES, ("class", "model"))
    if problems:
        raise Problems(problems)
    return found


def messages(text: str) -> list[str]:
    with pytest.raises(Problems) as caught:
        slos(text)
    return [str(problem) for problem in caught.value.items]


def test_a_parameter_stands_for_any_value_alone_and_for_a_single_one_in_a_text() -> None:
    (found,) = slos(TEMPLATE + slo("a", "template: chat, parameters: {model: llama, first: 800ms}"))
    assert found.description == "Chat on llama, not $(model)."
    assert found.selector == (("class", ("interactive",)), ("model", ("a", "b")))
    assert found.objectives[0].threshold_ns == 800_000_000
    assert found.labels == (("team", "serving"), ("model", "llama"))


def test_a_parameter_that_is_not_given_has_its_default() -> None:
    (found,) = slos(TEMPLATE + slo("a", "template: chat, parameters: {model: llama}"))
    assert found.objectives[0].threshold_ns == 10**9


def test_ten_similar_slos_are_ten_lines() -> None:
    lines = [slo(f"chat-{n}", f"template: chat, parameters: {{model: m{n}}}") for n in range(10)]
    assert [(each.name, each.labels[1][1]) for each in slos(TEMPLATE + "".join(lines))] == [
        (f"chat-{n}", f"m{n}") for n in range(10)
    ]


def test_a_key_of_the_slo_takes_the_place_of_the_template_s() -> None:
    own = "template: chat, parameters: {model: llama}, goodput: {target: 95%, period: 7d}, selector: {model: x}"
    (found,) = slos(TEMPLATE + slo("a", own))
    assert (float(found.target or 0), found.selector) == (0.95, (("model", ("x",)),))
    assert found.objectives[0].metric == "ttft"


def test_the_template_may_stand_in_another_file_and_after_its_slos() -> None:
    problems: list[Problem] = []
    first = read(slo("a", "template: chat, parameters: {model: llama}"), "a.yaml", problems, {})
    second = read(TEMPLATE, "b.yaml", problems, {})
    assert [each.name for each in read_slos(first + second, BOUNDARIES, None)] == ["a"]
    assert problems == []


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "template: chat, parameters: {model: llama, first: 3}",
            "slo.yaml:12:115 spec.parameters.first: must be a duration with its unit, "
            "such as 500ms, 1.5s, 5m, 1h or 30d, found 3",
        ),
        ("template: chat", "slo.yaml:12:64 spec: must give the parameter model of the template, found nothing"),
        (
            "template: chat, parameters: {model: llama, fist: 1s}",
            "slo.yaml:12:108 spec.parameters.fist: must be a known key: model, first, models "
            '(did you mean first?), found "fist"',
        ),
        ("template: char", 'slo.yaml:12:75 spec.template: must be one of: chat (did you mean chat?), found "char"'),
    ],
)  # fmt: skip
def test_a_mistake_in_an_slo_points_to_the_slo(spec: str, message: str) -> None:
    assert messages(TEMPLATE + slo("a", spec)) == [message]


def test_a_mistake_in_the_template_points_to_the_template_once() -> None:
    text = TEMPLATE.replace("percentile: 95", "percentile: 0.95")
    used = slo("a", "template: chat, parameters: {model: a}") + slo("b", "template: chat, parameters: {model: b}")
    assert messages(text + used) == [
        "slo.yaml:9:56 spec.objectives[0].percentile: must be a percentile in percent: write 95, found 0.95"
    ]


def test_a_list_cannot_stand_inside_a_text() -> None:
    text = TEMPLATE.replace("Chat on $(model)", "Chat on $(models)")
    assert messages(text + slo("a", "template: chat, parameters: {model: llama}")) == [
        "slo.yaml:6:16 spec.description: must be a single value to stand inside a text, found $(models)"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            TEMPLATE + TEMPLATE.replace("name: chat, ", ""),
            "slo.yaml:14:11 metadata.name: must be given, found nothing",
        ),
        (
            TEMPLATE.replace("first: 1s", "first: 1s, second: 2s"),
            "slo.yaml:5:36 spec.parameters.second: must be used: $(second) stands nowhere in the template, "
            'found "second"',
        ),
        (
            TEMPLATE.replace("Chat on $(model)", "Chat on $(modle)"),
            "slo.yaml:6:16 spec.description: must name a parameter, found $(modle)",
        ),
        (TEMPLATE + TEMPLATE, 'slo.yaml:14:18 metadata.name: must be the name of one template only, in all files, '
                              'found "chat"'),
        (TEMPLATE.replace("goodput:", "goodputs:"),
         "slo.yaml:10:3 spec.goodputs: must be a known key: description, selector, goodput, schedule, policies, "
         "workload, boundary, deadline, expected, objectives, parameters (did you mean goodput?), "
         'found "goodputs"'),
    ],
)  # fmt: skip
def test_a_wrong_template_is_refused(text: str, message: str) -> None:
    assert messages(text + slo("a", "template: chat, parameters: {model: llama}")) == [message]


def test_parameters_without_a_template_and_a_template_that_is_not_there_are_refused() -> None:
    objectives = "objectives: [{metric: ttft, boundary: model, percentile: 95, threshold: 1s, window: 5m}]"
    (message,) = messages(slo("a", f"{objectives}, parameters: {{a: 1}}"))
    assert message.endswith("spec.parameters: must come with a template, found a mapping")
    assert any("must name a template" in line for line in messages(slo("a", f"{objectives}, template: chat")))


def test_without_a_template_the_sign_of_a_parameter_is_plain_text() -> None:
    objectives = "objectives: [{metric: ttft, boundary: model, percentile: 95, threshold: 1s, window: 5m}]"
    (found,) = slos(slo("a", f"{objectives}, description: costs $(x)"))
    assert found.description == "costs $(x)"


def test_a_template_that_no_slo_uses_is_a_warning() -> None:
    warnings: list[Problem] = []
    assert slos(TEMPLATE, warnings) == []
    assert list(map(str, warnings)) == ["slo.yaml:1:1: is used by no SLO, so that nothing of it has been checked"]
