"""The critical-difference plot: average ranks on an axis; bars join methods that do not differ significantly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensormargin.plots.style import BLUE, DARK, VERMILION, given_or_new


def plot_ranks(
    names: Sequence[str], ranks: Sequence[float], groups: Sequence[Sequence[int]], highlighted: str = "", ax: Any = None
) -> Any:
    """Draw average ranks, the best on the left, and return the axes.

    Parameters
    ----------
    names : sequence of str
    ranks : sequence of float
        Average rank of each method.
    groups : sequence of sequences of int
        Methods that a bar joins.
    highlighted : str
        Name to draw in another colour.
    ax : matplotlib Axes, optional
    """
    order = np.argsort(ranks, kind="stable")
    half = (len(order) + 1) // 2
    step, first = 0.5, 0.35 + 0.22 * len(groups)  # height of a line of text, and of the first one below the axis
    ax = given_or_new(ax, 7.5, 1.0 + 0.3 * (half + len(groups)))
    low, high = 1, max(2, len(names))
    ax.hlines(0, low, high, color=DARK, linewidth=1)
    for tick in range(low, high + 1):
        ax.vlines(tick, 0, 0.15, color=DARK, linewidth=1)
        ax.text(tick, 0.22, str(tick), ha="center", va="bottom", color=DARK)
    for place, column in enumerate(order):
        left = place < half
        height = -(first + step * (place if left else len(order) - 1 - place))
        end = low - 0.1 if left else high + 0.1
        colour = VERMILION if names[column] == highlighted else DARK
        ax.plot([ranks[column], ranks[column], end], [0, height, height], color=colour, linewidth=1)
        label = f"{names[column]}  {ranks[column]:.2f}" if left else f"{ranks[column]:.2f}  {names[column]}"
        ax.text(end, height, f" {label} ", ha="right" if left else "left", va="center", color=colour)
    for line, group in enumerate(groups):
        ends = [ranks[column] for column in group]
        ax.hlines(-0.2 - 0.22 * line, min(ends) - 0.05, max(ends) + 0.05, color=BLUE, linewidth=4)
    width = 0.45 * (high - low)
    ax.set_xlim(low - width, high + width)
    ax.set_ylim(-(first + step * half), 0.8)
    ax.set_axis_off()
    return ax
