"""The published results: complete, as good as the paper's where the project says so, and the page that they make."""

from __future__ import annotations

from math import isnan
from pathlib import Path

import pytest

from tensormargin import METHODS
from tensormargin.experiments import PROTOCOLS, read_results, write_page
from tensormargin.experiments.findings import PROPOSED

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def results():
    return {one.name: one for one in read_results(ROOT / "results")}


@pytest.mark.parametrize("table", ["table2", "table4", "table5", "open"])
def test_every_cell_is_filled(table, results):
    cells = {(cell.data, cell.size, cell.method): cell for cell in results[table].cells if cell.tuned == "lam"}
    for evaluation in PROTOCOLS[table]():
        for size in evaluation.sizes:
            for method in METHODS:
                cell = cells[evaluation.data, size, method]
                repeats = 1 if size in evaluation.once else evaluation.repeats
                assert cell.n_splits == repeats * evaluation.folds
                assert cell.n_fits % cell.n_splits == 0
                assert cell.largest_gap <= 1e-4 or cell.unconverged > 0


@pytest.mark.parametrize("table", ["table2", "table4", "table5"])
def test_the_proposed_methods_reach_the_papers_figures(table, results):
    compared = [cell for cell in results[table].cells if cell.method in PROPOSED and not isnan(cell.paper)]
    assert len(compared) >= (11 if table == "table2" else 3)
    for cell in compared:
        assert cell.accuracy >= cell.paper, cell


def test_the_page_is_the_one_that_the_summaries_make(tmp_path):
    write_page(ROOT / "results", tmp_path / "results.md")
    assert (ROOT / "docs" / "results.md").read_text() == (tmp_path / "results.md").read_text()
    drawn = {path.name for path in (tmp_path / "results").iterdir()}
    assert drawn == {path.name for path in (ROOT / "docs" / "results").iterdir()}
