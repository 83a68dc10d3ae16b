"""Tests of docs/neighbours.md: it is what the tests against other libraries make, and its snippets are complete."""

from __future__ import annotations

import ast
import builtins
import runpy
import symtable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "docs" / "neighbours.py"))
FILES = sorted((ROOT / "tests" / "guests").glob("test_*.py"))


def tables(table):
    yield table
    for child in table.get_children():
        yield from tables(child)


def free_names(code):
    """Return the names that code uses but neither defines nor imports."""
    top = symtable.symtable(code, "snippet", "exec")
    symbols = [one for table in tables(top) for one in table.get_symbols() if table is top or one.is_global()]
    used = {one.get_name() for one in symbols if one.is_referenced()}
    bound = {one.get_name() for one in top.get_symbols() if one.is_assigned() or one.is_imported()}
    return used - bound - set(dir(builtins))


def test_the_page_is_the_one_that_the_tests_make():
    assert SCRIPT["PAGE"].read_text() == SCRIPT["page"](), "run python docs/neighbours.py"


@pytest.mark.parametrize("section", SCRIPT["sections"](), ids=lambda one: one.title)
def test_snippets_import_what_they_use(section):
    assert section.text
    assert section.snippets
    for snippet in section.snippets:
        assert free_names(snippet.code) <= set(SCRIPT["GIVEN"])
        assert snippet.lead_in.endswith(":")


@pytest.mark.parametrize("path", FILES, ids=lambda one: one.stem)
def test_nothing_heavy_is_imported_where_a_library_is_missing(path):
    """Collecting the files costs nothing in plain pytest: they skip before they import anything else."""
    body = ast.parse(path.read_text()).body
    skips = [place for place, node in enumerate(body) if "importorskip" in ast.unparse(node)]
    before = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in body[: skips[0]]
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert before <= {"__future__", "pickle", "numpy", "pytest"}


def test_snippets_must_end(tmp_path):
    path = tmp_path / "test_one.py"
    path.write_text('"""One: a library."""\n\n# page: Some lines:\nprint(1)\n')
    with pytest.raises(ValueError, match="must end with '# page ends'; 'Some lines:' does not"):
        SCRIPT["section_of"](path)
    path.write_text('"""A library."""\n')
    with pytest.raises(ValueError, match="must begin with 'Title: summary'; got 'A library"):
        SCRIPT["section_of"](path)
