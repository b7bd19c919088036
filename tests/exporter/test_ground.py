import pytest

from exporter.ground import LARGE, Ground


@pytest.mark.parametrize("count", [1_000, 200_000, 270_000])
@pytest.mark.parametrize("more", [3_000, 30_000, 700_000])
def test_it_is_empty_and_keeps_what_is_there_when_it_grows(count: int, more: int) -> None:
    ground = Ground(count)
    cells = ground.view()
    assert (len(cells), any(cells)) == (count, False)
    cells[7], cells[count - 1] = -5, 2**63 - 1
    del cells
    ground.grow(count + more)
    grown = ground.view()
    assert (len(grown), grown[7], grown[count - 1], any(grown[count:])) == (count + more, -5, 2**63 - 1, False)


@pytest.mark.parametrize(("count", "pages"), [(300_000, 2), (2**18, 1), (2**18 + 1, 2)])
def test_what_is_large_is_a_whole_number_of_large_pages(count: int, pages: int) -> None:
    ground = Ground(10)
    ground.grow(count)
    assert len(ground.memory) == len(Ground(count).memory) == pages * LARGE


@pytest.mark.parametrize("format", ["q", "Q"])
def test_whoever_still_looks_at_it_keeps_the_old_cells(format: str) -> None:
    ground = Ground(600, format)
    before = ground.view()
    before[3] = 9
    ground.grow(1_200)
    grown = ground.view()
    grown[3] = 10
    assert (before[3], len(grown), grown[3]) == (9, 1_200, 10)
