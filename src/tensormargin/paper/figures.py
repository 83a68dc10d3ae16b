"""Figures of the results page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..estimators import METHODS
from ..io import replacing

if TYPE_CHECKING:
    from .summary import CellSummary
    from .tables import TableResults

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


def draw(one: TableResults, folder: Path) -> list[tuple[str, str]]:
    """Save the table's figures in a folder; return captions and paths relative to its parent."""
    if len({data for data, _ in one.columns}) == 1 and len(one.columns) > 1:
        figures = {
            "accuracy": ("Accuracy against training size", accuracy_against_size(one)),
            "time": ("Seconds of one fit against training size", time_against_size(one)),
        }
    else:
        figures = {"accuracy": ("Accuracy of each method", accuracies(one))}
    for kind, (_, figure) in figures.items():
        with replacing(folder / f"{one.name}-{kind}.png") as temporary:
            figure.savefig(temporary, format="png", dpi=130, metadata={"Software": None})
    return [(caption, f"{folder.name}/{one.name}-{kind}.png") for kind, (caption, _) in figures.items()]


def accuracy_against_size(one: TableResults) -> Any:
    """Return a figure of accuracy against training size: the paper's, and ours on the same scale and enlarged."""
    figure = _figure(12.6, 4.2)
    paper, same_scale, enlarged = figure.subplots(1, 3)
    for method in _present(one):
        cells, style = _cells_of(one, method), _line_style(method)
        known = [cell for cell in cells if not np.isnan(cell.paper)]
        paper.plot([c.size for c in known], [c.paper for c in known], label=method, **style)
        spread = [0 if np.isnan(cell.sd) else cell.sd for cell in cells]
        for axes in (same_scale, enlarged):
            axes.errorbar([c.size for c in cells], [c.accuracy for c in cells], spread, capsize=2, **style)
    lowest = min(paper.get_ylim()[0], same_scale.get_ylim()[0])
    highest = max(paper.get_ylim()[1], same_scale.get_ylim()[1])
    titles = ("as the paper reports", "measured here, all methods tuned the same way", "the same, enlarged")
    for axes, title in zip((paper, same_scale, enlarged), titles, strict=True):
        _against_size(axes, one, title)
        if axes is not enlarged:
            axes.set_ylim(lowest, highest)
    paper.set_ylabel("mean accuracy of the pairs, %")
    figure.legend(loc="outside right center", frameon=False)
    return figure


def time_against_size(one: TableResults) -> Any:
    """Return a figure of median fit time against training size, on logarithmic axes."""
    figure = _figure(6.4, 4.2)
    axes = figure.subplots()
    for method in _present(one):
        cells = _cells_of(one, method)
        axes.plot([c.size for c in cells], [c.fit_seconds for c in cells], label=method, **_line_style(method))
    axes.set_yscale("log")
    _against_size(axes, one, "one pair, one core")
    axes.set_ylabel("seconds of one fit (median)")
    figure.legend(loc="outside right center", frameon=False)
    return figure


def _cells_of(one: TableResults, method: str) -> list[CellSummary]:
    return [cell for column in one.columns if (cell := one.cell(column, method)) is not None]


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
    methods = _present(one)
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
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{size // 1000}k" if size >= 1000 else str(size) for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("training images")
    axes.set_title(title, fontsize=10)
    axes.grid(color="#e6e6e6")
    axes.set_axisbelow(True)


def _present(one: TableResults) -> list[str]:
    held = {cell.method for cell in one.cells}
    return [method for method in METHODS if method in held]


def _figure(width: float, height: float) -> Any:
    """Return an empty figure that is independent of pyplot's global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")
