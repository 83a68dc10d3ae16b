"""Colours, axes, limits, legends and text options shared by all plots."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..runtime import Array, FloatArray, join_with_and

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

# Okabe and Ito's colour-blind-safe palette.
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
DARK, GREY, LIGHT = "#222222", "#767676", "#e6e6e6"
DIVERGING, SEQUENTIAL = "RdBu_r", "viridis"
DASHES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

_WIDEST_LABEL = 40  # letters
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

# For text that comes from the data, in which "$" and "_" are literal characters, not mathematics.
VERBATIM: dict[str, Any] = {"parse_math": False, "usetex": False}


def given_or_new(ax: Axes | None, width: float = 5.2, height: float = 3.6) -> Axes:
    """Return ``ax``, or the axes of a new pyplot figure (inches)."""
    return panels(ax, (1, 1), width, height)[0]


def panels(axes: Any, grid: tuple[int, int], width: float, height: float, **options: Any) -> Array:
    """Return one axes per grid cell, row by row: the given ones, or those of a new pyplot figure (inches)."""
    rows, columns = grid
    if axes is None:
        import matplotlib.pyplot as plt

        size = (width, height)
        _, created = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, **options)
        return created.ravel()
    given = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if given.size != rows * columns:
        raise ValueError(f"this plot has {rows * columns} panels; got {given.size} axes. Pass that many, or None")
    return given


def check_lengths(entry: str, **columns: Any) -> None:
    """Raise ValueError unless all columns have the same number of entries, at least one; ``entry`` says of what."""
    lengths = [len(column) for column in columns.values()]
    if len(set(lengths)) > 1 or not lengths[0]:
        raise ValueError(f"{join_with_and(columns)} need one entry per {entry}; got {join_with_and(lengths)}")


def with_blanks(values: Any) -> FloatArray:
    """Return an array of floats with NaN for all that is not finite or masked."""
    return np.ma.filled(np.ma.masked_invalid(np.asarray(values, np.float64)), np.nan)


def peak(values: FloatArray) -> tuple[int, ...]:
    """Return the indices of the entry of largest absolute value."""
    largest = np.argmax(np.nan_to_num(np.abs(values)))
    return tuple(int(place) for place in np.unravel_index(largest, values.shape))


def colour_limits(values: FloatArray, symmetric: bool = True, limit: float | None = None) -> tuple[float, float]:
    """Return the ends of a scale of colours: the smallest and largest value, or symmetric ones about zero."""
    finite = values[np.isfinite(values)]
    if not symmetric and finite.size:
        return float(finite.min()), float(finite.max())
    largest = float(np.abs(finite).max(initial=0.0)) if limit is None else abs(float(limit))
    return -(largest or 1.0), largest or 1.0  # a map of zeros is drawn in the middle of the scale


def line_style(number: int) -> dict[str, Any]:
    """Return colour and dashes of a line, which differ from those of the line before without colours, too."""
    dashes = DASHES[(number + number // len(PALETTE)) % len(DASHES)]
    return {"color": PALETTE[number % len(PALETTE)], "linestyle": dashes}


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


def write_title(ax: Axes, title: str | None) -> None:
    """Write a title verbatim."""
    ax.set_title(title or "", fontsize="medium", **VERBATIM)


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
