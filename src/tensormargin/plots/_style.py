"""What all plots share: colours, where they are drawn, and text that is shown as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

# Okabe and Ito's colours, which people with any of the common colour blindnesses tell apart.
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
DARK, GREY, LIGHT = "#222222", "#767676", "#e6e6e6"
DASHES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

# For text that comes from the data: "$" is a dollar there and "_" an underscore, never mathematics.
VERBATIM: dict[str, Any] = {"parse_math": False, "usetex": False}


def given_or_new(ax: Axes | None, width: float = 5.2, height: float = 3.6) -> Axes:
    """Return ``ax``, or the axes of a new pyplot figure (inches)."""
    return panels(ax, (1, 1), width, height)[0]


def panels(axes: Any, grid: tuple[int, int], width: float, height: float) -> Array:
    """Return as many axes as the grid has cells, row by row: those given, or those of a new pyplot figure (inches)."""
    rows, columns = grid
    if axes is None:
        import matplotlib.pyplot as plt

        _, created = plt.subplots(rows, columns, figsize=(width, height), layout="constrained", squeeze=False)
        return created.ravel()
    given = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if given.size != rows * columns:
        raise ValueError(f"this plot has {rows * columns} panels; got {given.size} axes. Pass that many, or None")
    return given


def tidy(ax: Axes, grid: Literal["both", "x", "y"] = "both") -> None:
    """Give axes a light grid behind the data and no frame where there is no scale."""
    ax.grid(axis=grid, color=LIGHT, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def whole_ticks(*axes: Axis) -> None:
    """Put ticks at whole numbers only: what is counted has none in between."""
    from matplotlib.ticker import MaxNLocator

    for axis in axes:
        axis.set_major_locator(MaxNLocator(nbins="auto", integer=True, steps=[1, 2, 5, 10]))


def add_legend(ax: Axes, handles: Sequence[Any], labels: Sequence[str], **options: Any) -> None:
    """Add a legend that shows the labels as they are; older Matplotlib leaves out those with an underscore in front."""
    legend = ax.legend(handles, [str(k) for k in range(len(handles))], fontsize="small", frameon=False, **options)
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.update({**VERBATIM, "text": label})


def legend_beside(ax: Axes, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Add a long legend to the right of axes whose figure makes room for it, otherwise where it hides least."""
    makes_room = ax.figure.get_layout_engine() is not None
    where: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)} if makes_room else {"loc": "best"}
    add_legend(ax, handles, labels, **where)
