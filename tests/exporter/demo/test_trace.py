"""exporter.demo.trace: the load is the recorded one, stretched to the phases."""

from importlib.resources import files
from itertools import pairwise
from statistics import fmean, pstdev

import pytest

from exporter.demo.trace import PHASES, SECOND_NS, Phase, arrivals, bounds, phase_at

TWO = (
    Phase(name="slow", length_ns=10 * SECOND_NS, per_second=2, advice=""),
    Phase(name="fast", length_ns=5 * SECOND_NS, per_second=20, advice=""),
)


def test_the_same_seed_gives_the_same_load_and_another_seed_another() -> None:
    assert arrivals(PHASES, 1) == arrivals(PHASES, 1)
    assert arrivals(PHASES, 1) != arrivals(PHASES, 2)


def test_each_phase_has_its_rate_and_stays_inside_its_bounds() -> None:
    load = arrivals(TWO, 1)
    slow = [arrival for arrival in load if arrival.at_ns < 10 * SECOND_NS]
    assert len(slow) == 20
    assert len(load) - len(slow) == 100
    assert load[0].at_ns >= 0
    assert load[-1].at_ns < 15 * SECOND_NS


def test_arrivals_are_in_order_of_time() -> None:
    assert all(one.at_ns <= next_.at_ns for one, next_ in pairwise(arrivals(PHASES, 3)))


def test_bursts_stay_as_recorded() -> None:
    gaps = [after.at_ns - before.at_ns for before, after in pairwise(arrivals(TWO, 1)[20:])]
    assert pstdev(gaps) / fmean(gaps) > 0.7, "evenly spaced arrivals would have 0, Poisson ones 1"


def test_token_counts_are_recorded_pairs() -> None:
    text = files("exporter.demo").joinpath("conversation.csv").read_text(encoding="utf-8")
    recorded = {tuple(map(int, row.split(",")[1:])) for row in text.splitlines() if row[0].isdigit()}
    assert {(arrival.input_tokens, arrival.output_tokens) for arrival in arrivals(PHASES, 1)} <= recorded


def test_the_recorded_file_carries_its_attribution() -> None:
    head = files("exporter.demo").joinpath("conversation.csv").read_text(encoding="utf-8")[:400]
    assert all(words in head for words in ("Azure/AzurePublicDataset", "CC-BY-4.0", "Patel", "ISCA 2024", "Changed"))


def test_some_clients_are_impatient_and_most_are_not() -> None:
    impatient = sum(arrival.patience_ns is not None for arrival in arrivals(PHASES, 1))
    assert 0.05 < impatient / len(arrivals(PHASES, 1)) < 0.3


@pytest.mark.parametrize(
    ("elapsed_ns", "name"),
    [(0, "slow"), (10 * SECOND_NS - 1, "slow"), (10 * SECOND_NS, "fast"), (15 * SECOND_NS, None)],
)
def test_a_phase_holds_its_first_instant_and_not_its_last(elapsed_ns: int, name: str | None) -> None:
    phase = phase_at(TWO, elapsed_ns)
    assert (phase and phase.name) == name


def test_bounds_follow_each_other() -> None:
    assert bounds(TWO) == {"slow": (0, 10 * SECOND_NS), "fast": (10 * SECOND_NS, 15 * SECOND_NS)}
