"""Channels over time or frequency: lines on top of each other (butterfly plot), and an image with ticks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data import Axis, checked_axes
from ..runtime import FloatArray
from ._style import DARK, GREY, PALETTE, VERBATIM, add_legend, add_scale, given_or_new, tidy, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMED = 40  # of more channels, every second, third, ... is named
_LONGEST_LEGEND = 8
_COLOURS = "RdBu_r"
_LABELLED = 3  # channels of a long list that are named beside their lines


def plot_butterfly(
    values: Any,
    modes: Sequence[Axis] | None = None,
    *,
    ax: Axes | None = None,
    title: str | None = None,
    ylabel: str = "",
) -> Axes:
    """Draw one line per channel over time or frequency, all in one panel.

    Parameters
    ----------
    values : array-like of shape (n_channels, n_points)
        A pattern, a weight or a mean sample. Entries that are not finite are left blank.
    modes : sequence of 2 Axis, optional
        Names, units and coordinates of the two modes, for ticks and names; see `tensormargin.data.axes.axes_of`.
    ax : Axes, optional
    title, ylabel : str, optional

    Returns
    -------
    Axes
        The channels with the largest absolute values are named, all of them if there are few.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import Axis
    >>> from tensormargin.plots import plot_butterfly
    >>> pattern = np.random.default_rng(0).standard_normal((3, 50))
    >>> modes = Axis("channel", values=["Fz", "Cz", "Pz"]), Axis("time", "ms", np.arange(50) * 4.0 - 40)
    >>> ax = plot_butterfly(pattern, modes, ylabel="pattern")
    >>> ax.get_xlabel(), [text.get_text() for text in ax.get_legend().get_texts()]
    ('time (ms)', ['Fz', 'Cz', 'Pz'])
    """
    lines, (channels, points) = _checked(values, modes)
    ax = given_or_new(ax, 6.4, 3.4)
    at = coordinates(points, lines.shape[1])
    sizes = np.nan_to_num(np.abs(lines)).max(axis=1, initial=0.0)
    named = _named_lines(sizes)
    colours = _colours(len(lines), channels, named)
    drawn = [
        ax.plot(
            at,
            line,
            color=colours[place],
            linewidth=1.6 if place in named and len(lines) > _LONGEST_LEGEND else 0.9,
            alpha=1.0 if place in named else 0.55,
            zorder=3 if place in named else 2,
            marker="o" if lines.shape[1] == 1 else None,
        )[0]
        for place, line in enumerate(lines)
    ]
    ax.axhline(0.0, color=DARK, linewidth=0.6)
    if at[0] < 0 < at[-1]:
        ax.axvline(0.0, color=GREY, linewidth=0.8, linestyle=":")  # the event
    tidy(ax)
    ax.margins(x=0.0)
    label_axis(ax.xaxis, points, 1)
    ax.set_ylabel(wrapped(ylabel), **VERBATIM)
    ax.set_title(title or "", fontsize="medium", **VERBATIM)
    add_legend(ax, [drawn[place] for place in named], [_name(channels, place) for place in named], ncols=2)
    return ax


def plot_channels(
    values: Any,
    modes: Sequence[Axis] | None = None,
    *,
    ax: Axes | None = None,
    title: str | None = None,
    limit: float | None = None,
    symmetric: bool = True,
    label: str | None = None,
) -> Axes:
    """Draw a matrix, such as channels x time, as an image with the names and coordinates of its modes as ticks.

    Parameters
    ----------
    values : array-like of shape (n_rows, n_columns)
    modes : sequence of 2 Axis, optional
        Of the rows and of the columns. Unequal steps are drawn to scale; cm⁻¹ decreases from left to right.
    ax : Axes, optional
    title : str, optional
    limit : float, optional
        Largest absolute value of the colours; by default that of the values.
    symmetric : bool, default=True
        Whether the colours are diverging and symmetric about zero; otherwise they go from the smallest to the largest
        value.
    label : str, optional
        What the colours stand for, such as "positive: house against face".

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import Axis
    >>> from tensormargin.plots import plot_channels
    >>> pattern = np.random.default_rng(0).standard_normal((3, 50))
    >>> modes = Axis("channel", values=["Fz", "Cz", "Pz"]), Axis("time", "ms", np.arange(50) * 4.0 - 40)
    >>> ax = plot_channels(pattern, modes)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('time (ms)', 'channel')
    """
    matrix, (rows, columns) = _checked(values, modes)
    ax = given_or_new(ax, 6.4, min(7.0, max(3.0, 1.2 + 0.13 * len(matrix))))
    finite = matrix[np.isfinite(matrix)]
    most = float(np.abs(finite).max(initial=0.0)) if limit is None else abs(float(limit))
    ends = (-(most or 1.0), most or 1.0)
    if not symmetric and finite.size:
        ends = (float(finite.min()), float(finite.max()))
    edges = _edges(columns, matrix.shape[1]), _edges(rows, matrix.shape[0])
    options: dict[str, Any] = {"cmap": _COLOURS if symmetric else "viridis", "vmin": ends[0], "vmax": ends[1]}
    image = ax.pcolormesh(*edges, np.ma.masked_invalid(matrix), rasterized=True, **options)
    label_axis(ax.xaxis, columns, 1)
    label_axis(ax.yaxis, rows, 0)
    if not rows.is_numeric:
        ax.set_ylim(matrix.shape[0] - 0.5, -0.5)  # the first channel on top
    add_scale(image, ax, label)
    ax.set_title(title or "", fontsize="medium", **VERBATIM)
    return ax


def coordinates(axis: Axis, size: int) -> FloatArray:
    """Return the coordinates of a mode, or its indices if they are unknown or names."""
    return np.asarray(axis.values, np.float64) if axis.is_numeric else np.arange(size, dtype=np.float64)


def label_axis(side: Any, axis: Axis, number: int) -> None:
    """Write the label of a mode and, for names, its ticks, on an axis of a figure; wavenumbers decrease."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

    side.set_label_text(axis.label or f"mode {number + 1}", **VERBATIM)
    if axis.is_numeric:
        if axis.unit in WAVENUMBERS:
            side.set_inverted(True)
    elif axis.values is None:
        side.set_major_locator(MaxNLocator(nbins="auto", integer=True))
    else:
        every = -(-len(axis.values) // _NAMED)
        places = range(0, len(axis.values), every)
        side.set_major_locator(FixedLocator(places))
        names = [str(axis.values[place]) for place in places]
        side.set_major_formatter(FuncFormatter(lambda value, _: names[round(value / every)] if names else ""))
        for label in side.get_ticklabels():
            label.update({**VERBATIM, "fontsize": 7 if len(axis.values) > 16 else 8})
        if number:
            side.set_tick_params(rotation=90 if len(axis.values) > 8 else 0)


WAVENUMBERS = ("cm-1", "cm^-1", "1/cm", "cm⁻¹")
"""Units of wavenumbers, which spectra show in decreasing order."""


def _checked(values: Any, modes: Sequence[Axis] | None) -> tuple[FloatArray, tuple[Axis, Axis]]:
    matrix = np.asarray(values, np.float64)
    if matrix.ndim != 2 or not matrix.size:
        raise ValueError(
            f"this plot needs a matrix, such as channels x time; got an array of shape {matrix.shape}. Take one of the "
            "binary problems, or average over the other modes"
        )
    found = checked_axes(modes, matrix.shape) or (Axis(), Axis())
    return np.where(np.isfinite(matrix), matrix, np.nan), (found[0], found[1])


def _name(axis: Axis, place: int) -> str:
    return axis.spoken(place) if axis.values is not None else f"{axis.name or 'channel'} {place + 1}"


def _named_lines(sizes: FloatArray) -> list[int]:
    """Return the lines that the legend names: all if there are few, otherwise those with the largest values."""
    if len(sizes) <= _LONGEST_LEGEND:
        return list(range(len(sizes)))
    return [int(place) for place in np.argsort(-sizes, kind="stable")[:_LABELLED]]


def _colours(count: int, channels: Axis, named: Sequence[int]) -> list[Any]:
    """Return one colour per line: in order of the coordinates, or grey for all but the lines that are named."""
    import matplotlib as mpl

    if channels.is_numeric:
        return list(mpl.colormaps["viridis"](np.linspace(0.0, 0.9, count)))
    colours = [GREY] * count
    for number, place in enumerate(named):
        colours[place] = (*PALETTE, DARK, GREY)[number]
    return colours


def _edges(axis: Axis, size: int) -> FloatArray:
    """Return the borders between the entries of a mode."""
    at = coordinates(axis, size)
    if size == 1:
        return np.array([at[0] - 0.5, at[0] + 0.5])
    if not (np.all(np.diff(at) > 0) or np.all(np.diff(at) < 0)):  # unordered coordinates have no borders
        at = np.arange(size, dtype=np.float64)
    middles = (at[1:] + at[:-1]) / 2
    return np.concatenate([[2 * at[0] - middles[0]], middles, [2 * at[-1] - middles[-1]]])
