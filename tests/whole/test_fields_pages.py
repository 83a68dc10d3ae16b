"""Tests of the pages in docs/fields: their tables are those of the code, their examples run, their commands exist."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from tensormargin.cli.fit import fit_command
from tensormargin.datasets import CATALOGUE, is_at_hand
from tensormargin.selection import KINDS
from tensormargin.selection.kinds import WAYS

DOCS = Path(__file__).parents[2] / "docs"
SCRIPT = runpy.run_path(str(DOCS / "fields" / "make.py"))
PAGES = sorted((DOCS / "fields").glob("*.md"))


def anchors_of(text):
    """Return the addresses of the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_there_is_a_page_for_each_data_set():
    assert {page.stem for page in PAGES} == set(SCRIPT["DATA"])
    assert {path.name for path in (DOCS / "fields").glob("*.png")} == {f"{page.stem}.png" for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
class TestPage:
    def test_tables_are_those_of_the_code_and_of_the_benchmark(self, page):
        text = page.read_text(encoding="utf-8")
        assert text.count("<!-- tried: ") == text.count("<!-- reached: ") == 1
        assert SCRIPT["filled"](text) == text, "run python docs/fields/make.py"

    def test_examples_run_and_draw_the_figure(self, page, tmp_path):
        needed = SCRIPT["DATA"][page.stem]
        if not is_at_hand(CATALOGUE[needed]):
            pytest.skip(f"needs {needed}: set TENSORMARGIN_DATA to the folder with the data sets")
        if page.stem == "volumes":
            pytest.importorskip("nibabel", reason="needs nibabel: pip install 'tensormargin[neuro]'")
        result = SCRIPT["run_examples"](page, tmp_path)
        assert result.attempted > 10
        assert result.failed == 0
        assert (tmp_path / f"{page.stem}.png").stat().st_size > 1000

    def test_figures_are_small_and_shown(self, page):
        assert f"]({page.stem}.png)" in page.read_text(encoding="utf-8")
        assert page.with_suffix(".png").stat().st_size < 100_000

    def test_commands_exist(self, page):
        commands = SCRIPT["commands_of"](page.read_text(encoding="utf-8"))
        assert commands
        for name, *arguments in commands:
            assert name == "fit"
            assert fit_command.make_context("fit", arguments).params["kind"] in KINDS

    def test_commands_show_what_they_print(self, page):
        text = page.read_text(encoding="utf-8")
        assert re.search(r"\$ tensormargin [^`]*\n\n\d+ samples of [^`]*Accuracy on held-out samples: ", text)

    def test_links_lead_somewhere(self, page):
        links = re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8"))
        assert links
        for file, anchor in links:
            target = page.parent / file
            assert target.exists(), file
            assert not anchor or anchor in anchors_of(target.read_text(encoding="utf-8")), anchor

    @pytest.mark.parametrize("start", ["../README.md", "guide.md", "representations.md"])
    def test_other_pages_link_to_it(self, page, start):
        assert f"fields/{page.name})" in (DOCS / start).read_text(encoding="utf-8")


def test_the_guide_lists_all_kinds():
    guide = (DOCS / "guide" / "fit.md").read_text(encoding="utf-8")
    for name, kind in KINDS.items():
        line = next(line for line in guide.splitlines() if line.startswith(f"| `{name}` |"))
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells[1:] == [kind.samples, ", ".join(kind.alone), ", ".join(kind.together)]
    assert all(f"| {name} |" in guide for name in WAYS)
