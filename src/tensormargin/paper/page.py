"""The results page: Markdown tables, findings and figures, made from the summaries of the runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ..estimators import METHODS
from ..io import BadFileError, all_or_none, replacing
from . import summary
from .runner import Run
from .summary import CellSummary, Difference, Record
from .tables import TableResults, accuracy_table, difference_table, findings, in_short, time_table

TITLES = {
    "table2": "Table 2: MNIST",
    "table4": "Table 4: ORL faces, 32x32",
    "table5": "Table 5: ORL faces, 64x64",
    "table6": "Table 6: resting-state fMRI",
    "open": "The open counterpart of Table 6",
}
_PROTOCOLS = {
    "table2": "Balanced random subsets of the training images (60,000: all of them), the full test set, the mean over "
    "the 45 pairs of digits. 28x28 images; 7x4x7x4 with ranks 4,4,4,4 for Tucker weights. lambda "
    "is chosen on a fifth of the training images of 15 pairs. With all 60,000 images there is nothing to repeat.",
    "table4": "Eight training and two test images per person, the mean over the 780 pairs of people, random splits. "
    "8x4x8x4 with ranks 4,4,4,4 for Tucker weights. lambda is chosen on two of the eight training images of 60 pairs.",
    "table5": "As Table 4, with images of 64x64, and 8x8x8x8 for Tucker weights.",
    "table6": "Leave-one-out on ADNI, five folds on ADHD-200, ranks 4,4,4 for Tucker weights.",
    "open": "Haxby: 28 pairs of categories, each of 12 runs left out in turn. EEG: five folds, repeated. "
    "Indian Pines: patches of 5x5x200, 36 pairs of the nine largest classes, 10 or 30 training patches per class, test "
    "patches from other parts of the scene that share no pixel with a training patch. AdrenalMNIST3D 28x28x28: its "
    "published split, and five folds (which may put the two glands of a person on both sides; the file does not tell). "
    "Tucker ranks are 4 in every mode. Always answering with the larger class would be right in 50 % of the cases of "
    "Haxby, 64 % of EEG, 68 % of Indian Pines, 77 % and 78 % of AdrenalMNIST3D.",
}
_HEAD = """# Results

This page is made by `tensormargin results` from the summaries under `{results}/`; do not edit it. Those are made by
`tensormargin reproduce table2` and so on, which anyone can run. Every cell of a `summary.csv` carries the seed and the
software versions of its rows. The rows of single fits are not kept here; the same seed makes them again.

How it was done, in the same way for all seven methods:

- The runner draws the splits and counts the right predictions; a method sees training data only.
- lambda comes from one grid for all methods ({lams}). It is chosen for each method, training size and split by
  the share of right predictions on parts of the training data that the fits did not see, pooled over several pairs of
  classes; ties go to the smallest. Then every pair is fitted on its whole training set.
- mu1 = mu2 = 1 as in the paper. In rows marked "mu chosen" it comes from {mus} in the same way.
- The paper's lambda and mu mean something else on data in another unit. On the open data both count in units of one
  over the mean squared norm of the centred samples, and mu1 = mu2 = 1 is the estimator's scale-free default, 100 of
  those.
- ± is the standard deviation over the splits. Fit times are medians of single fits on one core with the chosen lambda,
  with as many fits side by side as there were jobs, on a machine that also did other things: only large ratios mean
  something.
- Intervals are 95 %, one by one. On MNIST, ORL and Indian Pines they come from leaving out one class at a time with all
  its pairs; elsewhere from the splits, with the variance corrected for overlapping training sets.
- Of so many intervals some miss 0 by chance. So a method is called better or worse only where Student's p-value that
  belongs to the interval is at most 0.05 after Holm's correction for all differences of its table: every two methods,
  mu chosen or not, in every column (`differences.csv` has them all). That is strict where many differences rest on few
  classes, as on MNIST: none of them is certain by itself, however many intervals miss 0.
"""
# One hue per form of the weight (flat, rank one, CP, Tucker); dashed or hollow without margin terms.
_STYLES = {
    "SVM": ("#6b6b6b", "--", "s"),
    "LMDM": ("#6b6b6b", "-", "s"),
    "STM": ("#d1495b", "--", "o"),
    "SPMD-LRT": ("#d1495b", "-", "o"),
    "HSPMD-LRT": ("#e39b2d", "-", "D"),
    "STuM": ("#1f78b4", "--", "^"),
    "TuSPMD-LRT": ("#1f78b4", "-", "^"),
}
_BEFORE_C = " numba compiled the fits then; this version compiles them from C, and the table was not made again."
_DIFFERENCES = """Differences in points, paired, with 95 % intervals (bold: the interval does not hold 0; with a star:
also after Holm's correction):
"""


def read_results(folder: str | Path) -> list[TableResults]:
    """Return the summaries of all tables in a results folder.

    Examples
    --------
    >>> import tempfile
    >>> from tensormargin.paper import read_results, write_summaries
    >>> from tensormargin.paper.runner import example_run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = write_summaries(example_run(f"{folder}/open"))
    ...     [table.name for table in read_results(folder)]
    ['open']
    """
    found = [_read_table(Path(folder) / name) for name in TITLES if (Path(folder) / name / "summary.csv").is_file()]
    if not found:
        raise BadFileError(
            f"{folder}: holds no summary.csv of a table (quick ones do not count); run `tensormargin reproduce` first"
        )
    return found


def _read_table(folder: Path) -> TableResults:
    cells = summary.read_csv(folder / "summary.csv", CellSummary)
    return TableResults(folder.name, cells, summary.read_csv(folder / "differences.csv", Difference))


def write_summaries(run: Run) -> str:
    """Write a run's rows to one file, and summaries of its complete cells; return the summary as Markdown.

    Examples
    --------
    >>> import tempfile
    >>> from tensormargin.paper import write_summaries
    >>> from tensormargin.paper.runner import example_run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = write_summaries(example_run(f"{folder}/open"))
    >>> text.splitlines()[0]
    '# The open counterpart of Table 6'
    """
    run.tuning.export()
    rows = run.complete(run.rows.export())
    cells, paired = summary.summarise_rows(rows, run.protocol), summary.differences(rows, run.protocol)
    cells, paired = _of_other_data(run, "summary.csv", cells), _of_other_data(run, "differences.csv", paired)
    paired = summary.corrected(paired)  # including the differences of other data
    of_cells, of_pairs = summary.csv_text(cells), summary.csv_text(paired)
    as_read = summary.from_csv(of_cells, CellSummary), summary.from_csv(of_pairs, Difference)  # with fewer digits
    text = summary_text(TableResults(run.settings.table, *as_read))
    with all_or_none():
        for name, content in (("summary.csv", of_cells), ("differences.csv", of_pairs), ("summary.md", text)):
            with replacing(run.folder / name) as temporary:
                temporary.write_text(content)
    return text


def summary_text(one: TableResults) -> str:
    """Return the summary of one table as Markdown."""
    parts = [f"# {TITLES[one.name]}\n", accuracy_table(one), _bullets(findings(one)), time_table(one)]
    return "\n".join([*parts, difference_table(one)])


def read_summaries(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the cells and paired differences that `write_summaries` wrote for one table.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensormargin.paper import read_summaries, write_summaries
    >>> from tensormargin.paper.runner import example_run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = write_summaries(example_run(f"{folder}/open"))
    ...     sorted({cell["method"] for cell in read_summaries(Path(folder, "open"))["summary"]})
    ['STM', 'SVM']
    """
    one = _read_table(folder)
    return {"summary": [asdict(cell) for cell in one.cells], "differences": [asdict(pair) for pair in one.differences]}


def _of_other_data(run: Run, name: str, records: list[Record]) -> list[Record]:
    """Return the records, preceded by the stored ones of data sets that are not part of this run (table6)."""
    path = run.folder / name
    if not path.is_file() or not records:
        return records
    try:
        stored = summary.read_csv(path, type(records[0]))
    except BadFileError:  # from an older version, or damaged: it is rewritten
        return records
    known = {evaluation.data for evaluation in run.protocol}
    return [record for record in stored if record.data not in known] + records


def write_page(folder: str | Path, path: str | Path) -> None:
    """Write the results page, with its figures in a folder of the same name next to it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensormargin.paper import write_page, write_summaries
    >>> from tensormargin.paper.runner import example_run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = write_summaries(example_run(f"{folder}/open"))
    ...     write_page(folder, f"{folder}/page.md")
    ...     Path(folder, "page.md").read_text().splitlines()[0]
    '# Results'
    """
    results, path = read_results(folder), Path(path)
    pictures = {one.name: draw(one, path.parent / path.stem) for one in results}
    with replacing(path) as temporary:
        temporary.write_text(page_text(results, folder, pictures))


def page_text(
    results: Sequence[TableResults], folder: str | Path, pictures: dict[str, list[tuple[str, str]]] | None = None
) -> str:
    """Return the results page as Markdown."""
    lams, mus = _grids(folder, [one.name for one in results])
    parts = [_HEAD.format(results=Path(folder).name, lams=lams, mus=mus), "## In short\n", _bullets(in_short(results))]
    for one in results:
        parts += [f"## {TITLES[one.name]}\n", _PROTOCOLS[one.name] + "\n", accuracy_table(one), _bullets(findings(one))]
        for caption, picture in (pictures or {}).get(one.name, []):
            parts.append(f"![{caption}]({picture})\n")
        parts += ["Seconds for one fit (median):\n", time_table(one), _DIFFERENCES, difference_table(one)]
        texts = dict.fromkeys(text for cell in one.cells for text in cell.versions.split(" | "))
        versions = [", ".join(f"{name} {version}" for name, version in json.loads(text).items()) for text in texts]
        older = any("numba" in json.loads(text) for text in texts)
        parts.append(f"Made with {'; '.join(versions)}.{_BEFORE_C if older else ''}\n")
    return "\n".join(parts)


def _grids(folder: str | Path, tables: Iterable[str]) -> tuple[str, str]:
    """Return the candidate values of lambda and mu as text."""
    lams, mus = dict[str, None](), dict[str, None]()
    for path in (Path(folder) / table / "settings.json" for table in tables):
        for entry in json.loads(path.read_text()).values() if path.is_file() else ():
            if isinstance(entry, dict):
                unit = " on the open data" if entry["relative"] else ""
                lams[", ".join(f"{lam:g}" for lam in entry["lams"])] = None
                mus[", ".join(f"{mu:g}" for mu in sorted(entry["mus"] + entry["more_mus"])) + unit] = None
    return " or ".join(lams), " or ".join(mus)


def _bullets(sentences: Iterable[str]) -> str:
    return "".join(f"- {sentence}\n" for sentence in sentences)


def draw(one: TableResults, folder: Path) -> list[tuple[str, str]]:
    """Save the table's figures in a folder; return captions and paths relative to its parent."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    if len({data for data, _ in one.columns}) == 1 and len(one.columns) > 1:
        figures = {
            "accuracy": ("Accuracy against training size", accuracy_against_size(one)),
            "time": ("Seconds of one fit against training size", time_against_size(one)),
        }
    else:
        figures = {"accuracy": ("Accuracy of each method", accuracies(one))}
    for kind, (_, figure) in figures.items():
        with replacing(folder / f"{one.name}-{kind}.png") as temporary:
            figure.set_dpi(130)
            canvas: Any = FigureCanvasAgg(figure)
            canvas.print_png(temporary, metadata={"Software": None})  # savefig lays it out twice
    return [(caption, f"{folder.name}/{one.name}-{kind}.png") for kind, (caption, _) in figures.items()]


def accuracy_against_size(one: TableResults) -> Any:
    """Return a figure of accuracy against training size: the paper's, and ours on the same scale and enlarged."""
    figure = _figure(12.6, 4.2)
    paper, same_scale, enlarged = figure.subplots(1, 3)
    for method, cells in _cells_of(one).items():
        style = _line_style(method)
        known = [cell for cell in cells if not np.isnan(cell.paper)]
        paper.plot([c.size for c in known], [c.paper for c in known], label=method, **style)
        spread = [0 if np.isnan(cell.sd) else cell.sd for cell in cells]
        for axes in (same_scale, enlarged):
            axes.errorbar([c.size for c in cells], [c.accuracy for c in cells], spread, capsize=2, **style)
    lows, highs = zip(paper.get_ylim(), same_scale.get_ylim(), strict=True)
    titles = ("as the paper reports", "measured here, all methods tuned the same way", "the same, enlarged")
    for axes, title in zip((paper, same_scale, enlarged), titles, strict=True):
        _against_size(axes, one, title)
    for axes in (paper, same_scale):
        axes.set_ylim(min(lows), max(highs))
    paper.set_ylabel("mean accuracy of the pairs, %")
    figure.legend(loc="outside right center", frameon=False)
    return figure


def time_against_size(one: TableResults) -> Any:
    """Return a figure of median fit time against training size, on logarithmic axes."""
    figure = _figure(6.4, 4.2)
    axes = figure.subplots()
    for method, cells in _cells_of(one).items():
        axes.plot([c.size for c in cells], [c.fit_seconds for c in cells], label=method, **_line_style(method))
    axes.set(yscale="log", ylabel="seconds of one fit (median)")
    _against_size(axes, one, "one pair, one core")
    figure.legend(loc="outside right center", frameon=False)
    return figure


def _cells_of(one: TableResults) -> dict[str, list[CellSummary]]:
    """Return the cells of each method that was measured, in the order of the columns."""
    cells = {name: [cell for at in one.columns if (cell := one.cell(at, name)) is not None] for name in METHODS}
    return {name: own for name, own in cells.items() if own}


def _line_style(method: str) -> dict[str, Any]:
    colour, dash, marker = _STYLES[method]
    return {"color": colour, "linestyle": dash, "marker": marker, "markersize": 5}


def accuracies(one: TableResults) -> Any:
    """Return a figure of accuracies with standard deviations, one panel per column; crosses mark the paper's."""
    columns = one.columns
    wide = min(len(columns), 3)
    tall = int(np.ceil(len(columns) / wide))
    figure = _figure(1.2 + 3.4 * wide, 0.5 + 2.6 * tall)
    grid = figure.subplots(tall, wide, squeeze=False, sharey=True)
    methods = list(_cells_of(one))
    for axes, column in zip(grid.ravel(), columns, strict=False):
        for position, method in enumerate(methods):
            cell = one.cell(column, method)
            if cell is None:
                continue
            colour, dash, marker = _STYLES[method]
            filled = "white" if dash == "--" else colour
            spread = 0 if np.isnan(cell.sd) else cell.sd
            axes.errorbar(
                cell.accuracy, position, xerr=spread, color=colour, marker=marker, markerfacecolor=filled, capsize=2
            )
            if not np.isnan(cell.paper):
                axes.plot(cell.paper, position, "x", color="black", markersize=5)
        axes.set_title(f"{column[0]} ({column[1]})" if len(columns) > 1 else column[0], fontsize=10)
        axes.grid(axis="x", color="#e6e6e6")
        axes.set_axisbelow(True)
        axes.set_xlabel("accuracy, %  (x: the paper's)" if one.has_paper(column[0]) else "accuracy, %")
    grid[0, 0].set_yticks(range(len(methods)), methods)
    grid[0, 0].invert_yaxis()
    for axes in grid.ravel()[len(columns) :]:
        axes.set_visible(False)
    return figure


def _against_size(axes: Any, one: TableResults, title: str) -> None:
    sizes = [size for _, size in one.columns]
    axes.set(xscale="log", xlabel="training images")
    axes.set_xticks(sizes, [f"{size // 1000}k" if size >= 1000 else str(size) for size in sizes])
    axes.minorticks_off()
    axes.set_title(title, fontsize=10)
    axes.grid(color="#e6e6e6")
    axes.set_axisbelow(True)


def _figure(width: float, height: float) -> Any:
    """Return an empty figure that is independent of pyplot's global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")
