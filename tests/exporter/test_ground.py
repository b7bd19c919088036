import pytest

from exporter.ground import Ground


def test_it_is_empty_and_keeps_what_is_there_when_it_grows() -> None:
    ground = Ground(1_000)
    cells = ground.view()
    assert (len(cells), any(cells)) == (1_000, False)
    cells[7], cells[999] = -5, 2**63 - 1
    del cells
    ground.grow(3_000)
    grown = ground.view()
    assert (len(grown), grown[7], grown[999], any(grown[1_000:])) == (3_000, -5, 2**63 - 1, False)


@pytest.mark.parametrize("format", ["q", "Q"])
def test_whoever_still_looks_at_it_keeps_the_old_cells(format: str) -> None:
    ground = Ground(600, format)
    before = ground.view()
    before[3] = 9
    ground.grow(1_200)
    grown = ground.view()
    grown[3] = 10
    assert (before[3], len(grown), grown[3]) == (9, 1_200, 10)
