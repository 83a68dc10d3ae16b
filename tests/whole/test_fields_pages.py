"""Tests of the pages in docs/fields, and of the commands that any page shows.

Tables are those of the code, examples run, and commands print what the pages say (marked `pages`: minutes).
"""

from __future__ import annotations

import ast
import builtins
import re
import runpy
import shlex
from importlib import import_module
from pathlib import Path

import click
import pytest

from tensormargin.cli import main
from tensormargin.selection import KINDS
from tensormargin.selection.kinds import WAYS

DOCS = Path(__file__).parents[2] / "docs"
PUBLIC = [f"tensormargin{wing}" for wing in ("", ".datasets", ".io", ".plots", ".transformers")]
SCRIPT = runpy.run_path(str(DOCS / "fields" / "make.py"))
PAGES = sorted((DOCS / "fields").glob("*.md"))
SHOWING = [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("guide/*.md")), *PAGES]


def anchors_of(text):
    """Return the addresses of the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def commands_in(text):
    """Return the commands in the code blocks of a page, as lists of arguments."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    found = (re.match(r"(?:\$ |.* && )?tensormargin (.*)", line) for line in lines)
    return [shlex.split(one[1], comments=True) for one in found if one]


def test_there_is_a_page_for_each_data_set():
    assert {page.stem for page in PAGES} == set(SCRIPT["DATA"])
    assert {path.name for path in (DOCS / "fields").glob("*.png")} == {f"{page.stem}.png" for page in PAGES}


@pytest.mark.parametrize("page", SHOWING, ids=lambda page: page.stem)
def test_commands_exist(page):
    """Commands on pages have the options that they show."""
    for arguments in commands_in(page.read_text(encoding="utf-8")):
        parse(main, arguments)


def parse(command, arguments):
    """Let a command, or that of a group, parse its arguments."""
    if isinstance(command, click.Group):
        parse(command.commands[arguments[0]], arguments[1:])
    else:
        command.make_context(command.name, list(arguments))


@pytest.fixture(scope="module")
def folder(page, tmp_path_factory):
    """Return the folder in which the examples of a page were run; they must be right."""
    if missing := SCRIPT["missing_for"](page.stem):
        pytest.skip(f"needs {missing}")
    path = tmp_path_factory.mktemp(page.stem)
    result = SCRIPT["run_examples"](page, path)
    assert result.attempted > 10
    assert result.failed == 0
    return path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem, scope="module")
class TestPage:
    def test_tables_are_those_of_the_code_and_of_the_benchmark(self, page):
        text = page.read_text(encoding="utf-8")
        assert text.count("<!-- tried: ") == text.count("<!-- reached: ") == 1
        assert SCRIPT["filled"](text) == text, "run python docs/fields/make.py"

    def test_examples_run_and_draw_the_figure(self, page, folder):
        assert (folder / f"{page.stem}.png").stat().st_size > 1000

    @pytest.mark.pages
    def test_commands_print_what_the_page_says(self, page, folder):
        for command, shown in SCRIPT["commands_of"](page.read_text(encoding="utf-8")):
            printed = SCRIPT["output_of"](command, folder)
            assert SCRIPT["agree"](shown, printed), (
                f"python docs/fields/make.py {page.stem} --commands writes what {command} prints now:\n{printed}"
            )

    def test_figures_are_small_and_shown(self, page):
        assert f"]({page.stem}.png)" in page.read_text(encoding="utf-8")
        assert page.with_suffix(".png").stat().st_size < 100_000

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


@pytest.mark.parametrize("page", [DOCS / "start.md", *sorted(DOCS.glob("guide/*.md"))], ids=lambda page: page.stem)
def test_what_blocks_of_python_use_is_imported(page):
    """Blocks that are pasted get samples and models from the reader, functions and classes from their own imports."""
    there = set(dir(builtins))
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        nodes = list(ast.walk(ast.parse(block)))
        used = {node.id for node in nodes if isinstance(node, ast.Name)}
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module.startswith("tensormargin"):
                assert all(hasattr(import_module(node.module), each.name) for each in node.names), block
            if isinstance(node, ast.Import | ast.ImportFrom):
                there |= {each.asname or each.name.partition(".")[0] for each in node.names}
        there |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        public = {name for module in PUBLIC for name in import_module(module).__all__}
        missing = {name for name in used - there if name in public or name in {"np", "pd", "plt", "torch"}}
        assert not missing, f"{sorted(missing)}: not imported before\n{block}"


def test_the_guide_lists_all_kinds():
    guide = (DOCS / "guide" / "fit.md").read_text(encoding="utf-8")
    for name, kind in KINDS.items():
        line = next(line for line in guide.splitlines() if line.startswith(f"| `{name}` |"))
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells[1:] == [kind.samples, ", ".join(kind.alone), ", ".join(kind.together)]
    assert all(f"| {name} |" in guide for name in WAYS)


def test_first_steps_show_what_the_page_on_series_shows():
    """They fit the same samples, so they need no run of their own."""
    ((_, shown),) = SCRIPT["commands_of"]((DOCS / "fields" / "series.md").read_text(encoding="utf-8"))
    assert shown.partition("\n")[2].replace("motions.", "basic-motions.") in (DOCS / "start.md").read_text(
        encoding="utf-8"
    )


class TestAgree:
    SHOWN = "80 samples\nChosen from 480 models: rank 1, lambda 1, mu 1\nAccuracy: 97.5 % (p = 0.03), significant, 12 s"

    @pytest.mark.parametrize(
        ("old", "new"), [("97.5", "98.8"), ("p = 0.03", "p = 1e-05"), ("mu 1", "mu 10 and 0"), ("12 s", "9.5 s")]
    )
    def test_takes_what_differs_between_machines(self, old, new):
        assert SCRIPT["agree"](self.SHOWN, self.SHOWN.replace(old, new))

    @pytest.mark.parametrize(
        ("old", "new"),
        [("480", "160"), ("97.5", "93.1"), ("significant", "not significant"), ("rank 1", "rank 2"), ("80", "81")],
    )
    def test_refuses_what_matters(self, old, new):
        assert not SCRIPT["agree"](self.SHOWN, self.SHOWN.replace(old, new))
