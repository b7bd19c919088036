"""Writing an SLO is the inverse of reading it."""

from fractions import Fraction

import pytest

from slo_rules.document import Problem, read
from slo_rules.slo import SLO, Objective, Policies, read_slos
from slo_rules.vocabulary import BOUNDARIES
from slo_rules.write import document_of, write_documents

HEAD = "apiVersion: goodput/v1\nkind: SLO\nmetadata: {name: chat, labels: {team: serving, tier: '1'}}\nspec:\n"
OBJECTIVES = """\
  objectives:
    - {metric: ttft, boundary: end_to_end, percentile: 99.9, threshold: 1500ms, window: 5m, name: first}
    - {metric: ttft, boundary: end_to_end, percentile: 50, threshold: 1ms, window: 90s, per_request: false}
"""
TEXTS = {
    "the least": OBJECTIVES,
    "a rolling period": OBJECTIVES + "  goodput: {target: 99.95%, period: 28d}\n",
    "a period of the calendar": OBJECTIVES + "  goodput: {target: 1, period: quarter, timezone: Asia/Seoul}\n",
    "a schedule": OBJECTIVES + "  schedule: {days: [sat, mon], from: 22:00, to: 06:30, outside: outcome_only}\n",
    "policies": OBJECTIVES
    + "  policies: {single_token: fail, cancelled: bad, unknown: bad, minimum_samples: auto}\n"
    + "  expected: {requests_per_hour: 0.5}\n",
    "texts": OBJECTIVES
    + '  description: "yes $${HOME} $$${A} ${ $(x) # é"\n  selector: {model: [a, "1"], class: "no"}\n',
    "batch": "  workload: batch\n",
    "batch with a deadline": "  workload: batch\n  boundary: service\n  deadline: 6h\n  goodput: {target: 99%}\n",
}


def slos(text: str) -> list[SLO]:
    problems: list[Problem] = []
    found = read_slos(read(text, "slo.yaml", problems, {}), BOUNDARIES, None)
    assert problems == []
    return found


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_what_is_written_reads_as_the_same_slo(text: str) -> None:
    found = slos(HEAD + text)
    assert slos(write_documents(map(document_of, found))) == found


def test_an_slo_is_written_as_people_write_it() -> None:
    objective = Objective(
        name="ttft", metric="ttft", boundary="model", percentile=Fraction(95), threshold_ns=10**9,
        window_ns=300 * 10**9, per_request=True,
    )  # fmt: skip
    slo = SLO(name="chat", selector=(("model", ("a",)),), objectives=(objective,), policies=Policies(unknown="bad"))
    assert write_documents([document_of(slo)]) == (
        "apiVersion: goodput/v1\n"
        "kind: SLO\n"
        "metadata: {name: chat}\n"
        "spec:\n"
        "  selector: {model: a}\n"
        "  objectives:\n"
        "  - {name: ttft, metric: ttft, boundary: model, percentile: 95, threshold: 1s, window: 5m}\n"
        "  policies: {unknown: bad}\n"
    )
