"""Colours, axes, legends and text options shared by all plots."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..runtime import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

# Okabe and Ito's colour-blind-safe palette.
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
DARK, GREY, LIGHT = "#222222", "#767676", "#e6e6e6"
DASHES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

_WIDEST_LABEL = 40  # letters
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

# For text that comes from the data, in which "$" and "_" are literal characters, not mathematics.
VERBATIM: dict[str, Any] = {"parse_math": False, "usetex": False}


def given_or_new(ax: Axes | None, width: float = 5.2, height: float = 3.6) -> Axes:
    """Return ``ax``, or the axes of a new pyplot figure (inches)."""
    return panels(ax, (1, 1), width, height)[0]


def panels(axes: Any, grid: tuple[int, int], width: float, height: float) -> Array:
    """Return one axes per grid cell, row by row: the given ones, or those of a new pyplot figure (inches)."""
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
    """Draw a light grid behind the data and remove the top and right spines."""
    ax.grid(axis=grid, color=LIGHT, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def whole_ticks(*axes: Axis) -> None:
    """Restrict the ticks to integers, for axes that count."""
    from matplotlib.ticker import MaxNLocator

    for axis in axes:
        axis.set_major_locator(MaxNLocator(nbins="auto", integer=True, steps=[1, 2, 5, 10]))


def decades(axis: Axis) -> None:
    """Put ticks at powers of ten only, written in plain text: Matplotlib takes longer for its own than for the rest."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    axis.set_major_formatter(FuncFormatter(lambda value, _: "10" + str(round(np.log10(value))).translate(_RAISED)))
    axis.set_minor_locator(NullLocator())


def add_legend(ax: Axes, handles: Sequence[Any], labels: Sequence[str], **options: Any) -> None:
    """Add a legend with verbatim labels; older Matplotlib leaves out labels with a leading underscore."""
    legend = ax.legend(handles, [str(k) for k in range(len(handles))], fontsize="small", frameon=False, **options)
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.update({**VERBATIM, "text": label})


def legend_beside(ax: Axes, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Add a legend to the right of the axes if the figure's layout makes room, otherwise at the best place inside."""
    makes_room = ax.figure.get_layout_engine() is not None
    where: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)} if makes_room else {"loc": "best"}
    add_legend(ax, handles, labels, **where)


def add_scale(image: Any, axes: Any, label: str | None, **options: Any) -> None:
    """Add a colour bar with a verbatim label beside one or several axes."""
    bar = image.figure.colorbar(image, ax=axes, pad=0.02, **options)
    bar.formatter.set_powerlimits((-2, 3))
    bar.set_label(wrapped(label), fontsize="small", **VERBATIM)


def wrapped(label: str | None) -> str:
    """Return the label of values in lines that fit beside a panel, whatever the names of classes."""
    return "\n".join(fill(line, _WIDEST_LABEL) for line in (label or "").splitlines())
