"""What tests of rules share: the three example files, and an SLO to vary."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from slo_rules.document import Problem, read
from slo_rules.rules import RuleSettings
from slo_rules.slo import SLO, Objective, read_slos
from slo_rules.units import DAY_NS, MINUTE_NS, SECOND_NS
from slo_rules.vocabulary import BOUNDARIES


@pytest.fixture(params=["chat", "agent", "batch"])
def example(checkout: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with an SLO file and everything that is generated from it."""
    return checkout / "tests" / "golden" / "slos" / str(request.param)


@pytest.fixture
def example_slos(example: Path) -> list[SLO]:
    problems: list[Problem] = []
    text = (example / "slo.yaml").read_text(encoding="utf-8")
    found = read_slos(read(text, "slo.yaml", problems, {}), BOUNDARIES, ("class", "model"))
    assert not problems
    return found


@pytest.fixture
def settings() -> RuleSettings:
    """Those with which the examples were generated."""
    return RuleSettings(runbook_url="https://runbooks.example/{alert}?slo={slo}")


@pytest.fixture
def slo() -> Callable[..., SLO]:
    """Makes an SLO of chats, with what is given of its fields."""
    objective = Objective(
        name="ttft", metric="ttft", boundary="end_to_end", percentile=Fraction(95), threshold_ns=SECOND_NS,
        window_ns=5 * MINUTE_NS, per_request=True,
    )  # fmt: skip
    plain = SLO(name="chat", objectives=(objective,), target=Fraction("0.99"), period_ns=30 * DAY_NS)

    def changed(**fields: Any) -> SLO:
        return replace(plain, **fields)

    return changed
