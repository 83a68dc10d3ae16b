"""Tests of the API reference: every public name has a page, a summary and an example, and the examples run."""

from __future__ import annotations

import copy
import doctest
import inspect
import re
import runpy
import sys
import warnings
from collections import defaultdict
from pathlib import Path

import matplotlib as mpl
import pytest

from tensormargin.datasets import CATALOGUE, is_at_hand

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))
import api_reference as reference  # noqa: E402

sys.path.remove(str(DOCS))

NAMES = reference.public_names()
PACKAGES = sorted({one.package for one in NAMES})
NEEDS = {"export_onnx": "onnx", "on_cluster": "distributed", "RowStore": "pyarrow", "read_anatomy": "nibabel"}
NEEDS |= dict.fromkeys(("Run", "read_results", "read_summaries", "write_summaries", "write_page"), "pyarrow")


def files_are_missing(one):
    """Return whether the function loads a data set that is not on this machine."""
    entries = [entry for entry in CATALOGUE.values() if getattr(entry.load, "func", entry.load) is one.value]
    return bool(entries) and not any(map(is_at_hand, entries))


@pytest.fixture(autouse=True)
def _figures_are_not_shown():
    backend = mpl.get_backend()
    mpl.use("Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")
    mpl.use(backend)


def test_no_public_name_lacks_an_example():
    assert [one.full for one in NAMES if not one.has_example] == []


def test_every_public_name_has_a_summary_of_one_sentence_or_more():
    assert [one.full for one in NAMES if not one.summary.endswith((".", ":"))] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_examples_run(package, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner, parser, failures = doctest.DocTestRunner(), doctest.DocTestParser(), []
    before = _dask_settings()
    for one in (one for one in NAMES if one.package == package):
        if files_are_missing(one) or (one.name in NEEDS and not _is_installed(NEEDS[one.name])):
            continue
        said = []
        test = parser.get_doctest(one.text, {}, one.full, None, None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runner.run(test, out=said.append)
        failures += said
    assert not failures, "".join(failures)
    assert not list(tmp_path.iterdir()), "examples leave files behind"
    assert _dask_settings() == before, "examples change Dask's settings"


def _dask_settings():
    if not _is_installed("distributed"):  # its import adds settings of its own
        return None
    import dask

    return copy.deepcopy(dask.config.config)


def _is_installed(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def test_all_packages_are_public_or_known_to_be_internal():
    """A new package with exported names must be added to the reference, or here."""
    internal = {"runtime", "data", "fitting", "inspection", "cli"}
    source = DOCS.parent / "src" / "tensormargin"
    packages = {path.parent.name for path in source.glob("*/__init__.py")}
    assert packages - internal == {
        package.partition(".")[2] for package in reference.PACKAGES if package.count(".") == 1
    }


def test_pages_are_written_once(tmp_path):
    reference.write(tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert {f"{one.full}.rst" for one in NAMES} < set(before)
    (tmp_path / "old.rst").write_text("a name that is gone")
    reference.write(tmp_path)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_no_name_has_two_pages():
    homes = defaultdict(set)
    for one in NAMES:
        if not one.is_constant:
            homes[inspect.unwrap(one.value)].add(one.full)
    assert all(len(pages) == 1 for pages in homes.values())


def test_the_first_page_says_what_the_results_say():
    """Fails if a result changes, so that the headline is changed as well."""
    page, field, results, method = (
        (DOCS / f"{name}.md").read_text("utf-8") for name in ("index", "field", "results", "method")
    )
    page = " ".join(page.split()).replace("\N{MINUS SIGN}", "-")
    own, name, other = re.search(r"\| best mean rank.*? \| ([\d.]+), next (.+) ([\d.]+) \|", field).groups()
    assert f"is {own} ({name} has {other})" in page
    gains = dict(re.findall(r"^\| ([^|]+) \|.*\| ([+-][\d.]+) \| [\d.e-]+ \| [\d.e-]+ \|$", field, re.MULTILINE))
    for method_name in (name, "LinearSVC"):
        gain = float(gains[method_name])
        assert f"{abs(gain)} points {'above' if gain >= 0 else 'below'} that of {method_name}" in page
    methods, numbers = (re.search(rf"^\| {word} \| (.+) \|$", field, re.MULTILINE)[1] for word in ("median", "seconds"))
    seconds = dict(zip(methods.split(" | "), numbers.split(" | "), strict=True))
    assert f"a median of {seconds['ours']} s" in page
    assert f"per split, against {seconds['MiniRocket']} s of MiniRocket" in page
    behind = dict(re.findall(r"(\w+) ([\d.]+)", re.search(r"more behind: (.*?) \|", field)[1]))
    assert all(f"`{name}` ({points}" in page for name, points in behind.items())
    for subject, count in (
        ("The margin terms (mu1 = mu2 = 1)", 36),
        ("The low-rank weight in place of the flat one", 60),
    ):
        line = next(line for line in results.splitlines() if line.startswith(f"- {subject}: of {count} comparisons"))
        assert "in 0 and 0 after Holm's correction" in line
        low, high = re.search(r"(-[\d.]+) to (\+[\d.]+) points", line).groups()
        assert f"({low} to {high} points" in page
    for table, words in (
        (1, "between {} and {} points"),
        (2, "In the worst of 32 cases it is {:.0f} to {:.0f} points"),
    ):
        rows = [line.split("|")[2:6:3] for line in method.split("| λ \\ μ |")[table].splitlines()[2:7]]
        alone, with_terms = ([float(cell.strip(" *")) for cell in column] for column in zip(*rows, strict=True))
        assert words.format(min(with_terms), max(with_terms)) in page
        if table == 1:
            assert f"Without the margin terms these are {min(alone)} to {max(alone)} and" in page
        else:
            assert f"and {min(alone):.0f} to {max(alone):.0f} points" in page


class TestLinks:
    links = runpy.run_path(str(DOCS / "links.py"))

    def broken(self, tmp_path, body):
        (tmp_path / "index.html").write_text(f'<h2 id="here">A</h2>{body}')
        (tmp_path / "other.html").write_text('<h2 id="there">B</h2>')
        self.links["_page"].cache_clear()
        return self.links["broken_links"](tmp_path)

    @pytest.mark.parametrize("link", ["other.html", "other.html#there", "#here", "https://example.org/x", "mailto:a@b"])
    def test_good_links(self, tmp_path, link):
        assert self.broken(tmp_path, f'<a href="{link}">') == []

    @pytest.mark.parametrize("link", ["none.html", "other.html#nowhere", "#nowhere", "../none.png"])
    def test_broken_links(self, tmp_path, link):
        (line,) = self.broken(tmp_path, f'<a href="{link}">')
        assert line.startswith(f"index.html: {link} ")

    @pytest.mark.parametrize(
        "element",
        [
            '<script src="https://a.org/x.js">',
            '<link rel="stylesheet" href="//a.org/x.css">',
            '<img src="http://a.org/x">',
        ],
    )
    def test_nothing_is_loaded_from_elsewhere(self, tmp_path, element):
        (line,) = self.broken(tmp_path, element)
        assert line.endswith("is loaded from another site")
