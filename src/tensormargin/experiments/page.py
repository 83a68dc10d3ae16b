"""The page of results: Markdown tables, findings and figures, all from the summaries in the folders of a run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path

from ..io import BadFileError, replacing
from ..methods import METHODS
from .runner import Run
from .summary import CellSummary, Difference, differences, read_csv, summarise_rows, write_csv

BASELINES = ("SVM", "LMDM", "STM", "STuM")
PROPOSED = ("SPMD-LRT", "HSPMD-LRT", "TuSPMD-LRT")
MARGIN_TERMS = (("LMDM", "SVM"), ("SPMD-LRT", "STM"), ("TuSPMD-LRT", "STuM"))
"""Pairs that differ in the margin terms only."""
LOW_RANK = (
    ("STM", "SVM"),
    ("STuM", "SVM"),
    ("SPMD-LRT", "LMDM"),
    ("HSPMD-LRT", "LMDM"),
    ("TuSPMD-LRT", "LMDM"),
)
"""Pairs that differ in the form of the weight only."""

TITLES = {
    "table2": "Table 2: MNIST",
    "table4": "Table 4: ORL faces, 32x32",
    "table5": "Table 5: ORL faces, 64x64",
    "table6": "Table 6: resting-state fMRI",
    "open": "The open counterpart of Table 6",
}
_PROTOCOLS = {
    "table2": "Balanced random subsets of the training images (60,000: all of them), the full test set, the mean over "
    "the 45 pairs of digits, five repeats. 28x28 images; 7x4x7x4 with ranks 4,4,4,4 for Tucker weights. With all "
    "60,000 images the repeats differ in the part on which lambda is chosen only.",
    "table4": "Eight training and two test images a person, the mean over the 780 pairs of people, five random splits. "
    "8x4x8x4 with ranks 4,4,4,4 for Tucker weights.",
    "table5": "As Table 4, with images of 64x64, and 8x8x8x8 for Tucker weights.",
    "table6": "Leave-one-out on ADNI, five folds on ADHD-200, ranks 4,4,4 for Tucker weights.",
    "open": "Haxby: 28 pairs of categories, each of 12 runs left out in turn. EEG: ten times five folds. Indian Pines: "
    "patches of 5x5x200, 36 pairs of the nine largest classes, 10 or 30 training patches a class, test patches from "
    "other parts of the scene that share no pixel with a training patch, ten repeats. AdrenalMNIST3D 28x28x28: its "
    "published split and five folds. Tucker ranks are 4 in every mode.",
}
_HEAD = """# Results

This page is made by `tensormargin results` from the summaries under `{results}/`; do not edit it. Those are made by
`tensormargin reproduce table2` and so on, which anyone can run: every row carries its seed and the versions of the
software.

How it was done, for all seven methods alike:

- The runner draws the splits and counts the right predictions; a method sees training data only.
- lambda comes from one grid for all methods ({lams}). It is chosen for each method, training size and split by
  the share of right predictions on parts of the training data that the fits did not see, pooled over several pairs of
  classes; the smallest of equals wins. Then every pair is fitted on its whole training part.
- mu1 = mu2 = 1 as in the paper. In rows marked "mu chosen" it comes from {mus} in the same way.
- On the open data the grids count in units of one over the mean squared norm of the centred samples (the paper's
  numbers would mean something else on every data set).
- ± is the standard deviation over the splits. Fit times are medians of single fits on one core, with the chosen lambda,
  while the other core was busy with another fit.
- Intervals are 95 %. Where there are many pairs of classes they come from leaving out one class at a time with all its
  pairs; elsewhere from the splits, with the variance corrected for overlapping training parts.
"""


@dataclass(frozen=True)
class TableResults:
    """Summaries of one table."""

    name: str
    cells: list[CellSummary]
    differences: list[Difference]

    @property
    def columns(self) -> list[tuple[str, int]]:
        """Return data sets with sizes, in their order."""
        return list(dict.fromkeys((cell.data, cell.size) for cell in self.cells))

    def cell(self, column: tuple[str, int], method: str, tuned: str = "lam") -> CellSummary | None:
        """Return one cell, None where it was not measured."""
        for cell in self.cells:
            if (cell.data, cell.size, cell.method, cell.tuned) == (*column, method, tuned):
                return cell
        return None

    def difference(self, column: tuple[str, int], first: str, second: str, tuned: str = "lam") -> Difference | None:
        """Return one difference, None where it was not measured."""
        for one in self.differences:
            if (one.data, one.size, one.first, one.second, one.tuned) == (*column, first, second, tuned):
                return one
        return None


def read_results(folder: str | Path) -> list[TableResults]:
    """Read the summaries of all tables in a folder of results."""
    found = []
    for name in TITLES:
        path = Path(folder) / name
        if (path / "summary.csv").is_file():
            cells = read_csv(path / "summary.csv", CellSummary)
            found.append(TableResults(name, cells, read_csv(path / "differences.csv", Difference)))
    if not found:
        raise BadFileError(f"{folder}: holds no summary.csv of a table; run `tensormargin reproduce` first")
    return found


def write_summaries(run: Run) -> str:
    """Write the rows of a run's folder as one file, and summaries of its complete cells; return the Markdown."""
    for store in (run.rows, run.tuning):
        store.export()
    rows = run.complete_rows()
    cells, paired = summarise_rows(rows, run.protocol), differences(rows, run.protocol)
    write_csv(run.folder / "summary.csv", cells)
    write_csv(run.folder / "differences.csv", paired)
    one = TableResults(run.settings.table, cells, paired)
    text = "\n".join([f"# {TITLES[one.name]}\n", accuracy_table(one), _bullets(findings(one)), time_table(one)])
    text += "\n" + difference_table(one)
    with replacing(run.folder / "summary.md") as temporary:
        temporary.write_text(text)
    return text


def write_page(folder: str | Path, path: str | Path) -> None:
    """Write the page of results, with its figures in a folder beside it that has the page's name."""
    from .figures import draw

    results, path = read_results(folder), Path(path)
    pictures = {one.name: draw(one, path.parent / path.stem) for one in results}
    with replacing(path) as temporary:
        temporary.write_text(page_text(results, folder, pictures))


def page_text(
    results: Sequence[TableResults], folder: str | Path, pictures: dict[str, list[tuple[str, str]]] | None = None
) -> str:
    """Return the page as Markdown."""
    lams, mus = _grids(folder)
    parts = [_HEAD.format(results=Path(folder).name, lams=lams, mus=mus), "## In short\n", _bullets(_in_short(results))]
    for one in results:
        parts += [f"## {TITLES[one.name]}\n", _PROTOCOLS[one.name] + "\n", accuracy_table(one), _bullets(findings(one))]
        for caption, picture in (pictures or {}).get(one.name, []):
            parts.append(f"![{caption}]({picture})\n")
        parts += ["Seconds for one fit (median):\n", time_table(one)]
        parts += ["Differences in points, paired, with 95 % intervals (bold: the interval does not hold 0):\n"]
        parts += [difference_table(one)]
    parts.append(_versions(results))
    return "\n".join(parts)


def _grids(folder: str | Path) -> tuple[str, str]:
    """Return the values of lambda and mu that were chosen from, as text."""
    lams, mus = dict[str, None](), dict[str, None]()
    for path in sorted(Path(folder).glob("*/settings.json")):
        for entry in json.loads(path.read_text()).values():
            if isinstance(entry, dict):
                lams[", ".join(f"{lam:g}" for lam in entry["lams"])] = None
                mus[", ".join(f"{mu:g}" for mu in sorted(entry["mus"] + entry["more_mus"]))] = None
    return " or ".join(lams), " or ".join(mus)


# ----------------------------------------------------------------------------------------------------------- tables


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; all but the first column to the right."""
    ruler = [":--", *["--:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (header, ruler, *lines)) + "\n"


def _headings(one: TableResults) -> list[str]:
    many_data = len({data for data, _ in one.columns}) > 1
    sizes = {data: [size for name, size in one.columns if name == data] for data, _ in one.columns}
    return [
        f"{data} ({size})" if many_data and len(sizes[data]) > 1 else data if many_data else f"{size:,}"
        for data, size in one.columns
    ]


def _variants(one: TableResults) -> list[tuple[str, str]]:
    tuned = {(cell.method, cell.tuned) for cell in one.cells}
    return [(method, kind) for kind in ("lam", "lam+mu") for method in METHODS if (method, kind) in tuned]


def _name(method: str, tuned: str) -> str:
    return f"{method}, mu chosen" if tuned == "lam+mu" else method


def accuracy_table(one: TableResults) -> str:
    """Return accuracies in percent with the paper's figures in brackets; the best of each column in bold."""
    best = {column: max(c.accuracy for c in one.cells if (c.data, c.size) == column) for column in one.columns}
    lines = []
    for method, tuned in _variants(one):
        line = [_name(method, tuned)]
        for column in one.columns:
            cell = one.cell(column, method, tuned)
            line.append("" if cell is None else _accuracy(cell, best[column]))
        lines.append(line)
    return markdown(["accuracy % (paper)", *_headings(one)], lines)


def _accuracy(cell: CellSummary, best: float) -> str:
    text = f"{cell.accuracy:.2f}" if isnan(cell.sd) else f"{cell.accuracy:.2f} ± {cell.sd:.2f}"
    text = f"**{text}**" if round(cell.accuracy, 2) == round(best, 2) else text
    if cell.tuned != "lam" or not _has_paper(cell.data):
        return text
    return f"{text} ({'-' if isnan(cell.paper) else f'{cell.paper:.2f}'})"


def _has_paper(data: str) -> bool:
    return data.startswith(("MNIST", "ORL", "ADNI", "ADHD"))


def time_table(one: TableResults) -> str:
    """Return the median seconds of one fit."""
    lines = []
    for method, tuned in _variants(one):
        if tuned == "lam":
            cells = [one.cell(column, method) for column in one.columns]
            lines.append([method, *["" if cell is None else f"{cell.fit_seconds:.3g}" for cell in cells]])
    return markdown(["fit s", *_headings(one)], lines)


def difference_table(one: TableResults) -> str:
    """Return the differences that tell whether the margin terms and the low-rank weight help."""
    lines = []
    for pairs, tuned in ((MARGIN_TERMS, "lam"), (MARGIN_TERMS, "lam+mu"), (LOW_RANK, "lam")):
        for first, second in pairs:
            found = [one.difference(column, first, second, tuned) for column in one.columns]
            if any(found):
                lines.append([f"{_name(first, tuned)} - {second}", *["" if d is None else _interval(d) for d in found]])
    return markdown(["difference", *_headings(one)], lines)


def _interval(one: Difference) -> str:
    if isnan(one.low):
        return f"{one.difference:+.2f}"
    text = f"{one.difference:+.2f} [{one.low:+.2f}, {one.high:+.2f}]"
    return text if one.low <= 0 <= one.high else f"**{text}**"


# --------------------------------------------------------------------------------------------------------- findings


def _bullets(sentences: Iterable[str]) -> str:
    return "".join(f"- {sentence}\n" for sentence in sentences)


def findings(one: TableResults) -> list[str]:
    """Return what the numbers of one table say, in words."""
    return [
        sentence
        for sentence in (
            _against_paper(one.cells, PROPOSED, "The proposed methods"),
            _against_paper(one.cells, BASELINES, "The baselines"),
            _question([one], MARGIN_TERMS, "lam", "The margin terms (mu1 = mu2 = 1)"),
            _question([one], MARGIN_TERMS, "lam+mu", "The margin terms with a chosen mu"),
            _question([one], LOW_RANK, "lam", "The low-rank weight in place of the flat one"),
            _edges(one.cells),
            _unconverged(one.cells),
        )
        if sentence
    ]


def _in_short(results: Sequence[TableResults]) -> list[str]:
    cells = [cell for one in results for cell in one.cells]
    sentences = (
        _against_paper(cells, PROPOSED, "The proposed methods"),
        _against_paper(cells, BASELINES, "The baselines"),
        _question(results, MARGIN_TERMS, "lam", "The margin terms (mu1 = mu2 = 1)"),
        _question(results, MARGIN_TERMS, "lam+mu", "The margin terms with a chosen mu"),
        _question(results, LOW_RANK, "lam", "The low-rank weight in place of the flat one"),
    )
    return [sentence for sentence in sentences if sentence]


def _against_paper(cells: Sequence[CellSummary], methods: Sequence[str], who: str) -> str:
    """Say how a group of methods does beside the paper's figures."""
    own = [cell for cell in cells if cell.method in methods and cell.tuned == "lam" and not isnan(cell.paper)]
    if not own:
        return ""
    below = [cell for cell in own if round(cell.accuracy, 2) < cell.paper]
    gains = [cell.accuracy - cell.paper for cell in own]
    text = (
        f"{who} ({', '.join(methods)}) are at or above the paper's figure in {len(own) - len(below)} of the {len(own)} "
        f"cells that it fills, by {min(gains):+.2f} to {max(gains):+.2f} points"
    )
    if below:
        text += "; below it: " + ", ".join(f"{c.method} on {c.data} {c.size}" for c in below)
    return text + "."


def _question(results: Sequence[TableResults], pairs: Sequence[tuple[str, str]], tuned: str, what: str) -> str:
    """Say in how many comparisons the first of each pair is better, worse, or not shown to differ."""
    found = [
        difference
        for one in results
        for column in one.columns
        for first, second in pairs
        if (difference := one.difference(column, first, second, tuned)) is not None
    ]
    if not found:
        return ""
    count = {
        verdict: sum(difference.verdict == verdict for difference in found)
        for verdict in ("better", "worse", "no difference shown", "no interval")
    }
    values = [difference.difference for difference in found]
    text = (
        f"{what}: better in {count['better']} of {len(found)} comparisons, worse in {count['worse']}, no difference "
        f"shown in {count['no difference shown']}"
    )
    if count["no interval"]:
        text += f", no interval (a single split) in {count['no interval']}"
    return f"{text}; {min(values):+.2f} to {max(values):+.2f} points."


def _edges(cells: Sequence[CellSummary]) -> str:
    """Say where lambda was mostly chosen at an end of its grid."""
    bound = [cell for cell in cells if cell.at_edge > 0.5]
    if not bound:
        return ""
    smallest = min(cell.lam for cell in cells)
    low = [cell for cell in bound if cell.lam == smallest]
    high = [f"{_name(cell.method, cell.tuned)} on {cell.data} {cell.size}" for cell in bound if cell.lam != smallest]
    parts = []
    if low:
        parts.append(f"the smallest value in {len(low)} of {len(cells)} cells (of equally good ones it is taken)")
    if high:
        parts.append("the largest for " + ", ".join(high))
    return "lambda was mostly chosen at an end of the grid: " + "; ".join(parts) + "."


def _unconverged(cells: Sequence[CellSummary]) -> str:
    stopped, fits = sum(cell.unconverged for cell in cells), sum(cell.n_fits for cell in cells)
    return f"{stopped} of {fits:,} fits stopped before they converged." if stopped else ""


def _versions(results: Sequence[TableResults]) -> str:
    texts = dict.fromkeys(cell.versions for one in results for cell in one.cells)
    lines = [", ".join(f"{name} {version}" for name, version in json.loads(text).items()) for text in texts]
    return "Made with " + "; ".join(lines) + ".\n"
