"""Channels over time or frequency, as lines on top of each other or as an image, and spectra as lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data import Axis
from ..runtime import Array, FloatArray
from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_CHANNELS, _MOST_SPECTRA = 8, 10  # in a legend
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

    The channels with the largest absolute values are named, all of them if there are few.

    Parameters
    ----------
    values : array-like of shape (n_channels, n_points)
        A pattern, a weight or a mean sample. Entries that are not finite are left blank.
    modes : sequence of 2 Axis, optional
        Names, units and coordinates of the two modes, for ticks and names; see `tensormargin.data.axes.axes_of`.
    ax : Axes, optional
    title, ylabel : str, optional

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
    lines, (channels, points) = _checked_matrix(values, modes)
    ax = style.given_or_new(ax, 6.4, 3.4)
    at = _coordinates(points, lines.shape[1])
    few = len(lines) <= _MOST_CHANNELS
    largest = np.argsort(-np.nan_to_num(np.abs(lines)).max(axis=1), kind="stable")
    named = list(range(len(lines))) if few else largest[:_LABELLED].tolist()
    colours = _line_colours(len(lines), channels, named)
    look: dict[str, Any] = {"marker": "o" if len(at) == 1 else None, "linewidth": 0.9, "alpha": 0.55, "zorder": 2}
    marked = look | {"linewidth": 0.9 if few else 1.6, "alpha": 1.0, "zorder": 3}
    drawn = [
        ax.plot(at, line, color=colours[place], **(marked if place in named else look))[0]
        for place, line in enumerate(lines)
    ]
    ax.axhline(0.0, color=style.DARK, linewidth=0.6)
    if at[0] < 0 < at[-1]:
        ax.axvline(0.0, color=style.GREY, linewidth=0.8, linestyle=":")  # the event
    style.tidy(ax)
    ax.margins(x=0.0)
    style.label_axis(ax.xaxis, points, 1)
    ax.set_ylabel(style.wrapped(ylabel), **style.VERBATIM)
    style.write_title(ax, title)
    names = [
        channels.spoken(place) if channels.values is not None else f"{channels.name or 'channel'} {place + 1}"
        for place in named
    ]
    style.add_legend(ax, [drawn[place] for place in named], names, ncols=2)
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
        What the colours stand for, such as "red = house, blue = face".

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
    matrix, (rows, columns) = _checked_matrix(values, modes)
    ax = style.given_or_new(ax, 6.4, min(7.0, max(3.0, 1.2 + 0.13 * len(matrix))))
    low, high = style.colour_limits(matrix, symmetric, limit)
    edges = _edges(columns, matrix.shape[1]), _edges(rows, matrix.shape[0])
    options: dict[str, Any] = {"cmap": style.DIVERGING if symmetric else style.SEQUENTIAL, "vmin": low, "vmax": high}
    image = ax.pcolormesh(*edges, np.ma.masked_invalid(matrix), rasterized=True, **options)
    style.label_axis(ax.xaxis, columns, 1)
    style.label_axis(ax.yaxis, rows, 0)
    if not rows.is_numeric:
        ax.set_ylim(matrix.shape[0] - 0.5, -0.5)  # the first channel on top
    style.add_scale(image, ax, label)
    style.write_title(ax, title)
    return ax


def plot_spectra(
    lines: Any,
    axis: Axis | None = None,
    *,
    means: Mapping[str, Any] | None = None,
    axes: Any = None,
    title: str | None = None,
    ylabel: str = "pattern",
) -> Array:
    """Draw patterns or weights against wavelength, and the mean spectrum of each class beneath.

    Parameters
    ----------
    lines : mapping of str to array-like of shape (n_wavelengths,), or array-like
        By name, such as "adulterated against pure"; or one line, or one per row.
    axis : Axis, optional
        Name, unit and coordinates of the wavelengths; wavenumbers (cm⁻¹) decrease from left to right.
    means : mapping of str to array-like of shape (n_wavelengths,), optional
        The mean spectrum of each class.
    axes : Axes or sequence of Axes, optional
        One, or two if there are ``means``, and as many are returned; a new figure by default.
    title, ylabel : str, optional

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import Axis
    >>> from tensormargin.plots import plot_spectra
    >>> axis, peak = Axis("wavelength", "nm", np.linspace(400, 700, 31)), np.hanning(31)
    >>> axes = plot_spectra({"mixed against pure": -peak}, axis, means={"pure": 1 + peak, "mixed": 1 + 0 * peak})
    >>> len(axes), axes[1].get_xlabel()
    (2, 'wavelength (nm)')
    """
    patterns = _checked_lines(lines, "lines")
    below = {} if means is None else _checked_lines(means, "means")
    sizes = {len(line) for line in (*patterns.values(), *below.values())}
    if len(sizes) != 1:
        raise ValueError(f"all spectra must have the same number of wavelengths; got {sorted(sizes)}")
    size = sizes.pop()
    (axis,) = style.axes_or_empty([axis or Axis()], (size,))
    drawn = style.panels(axes, (2 if below else 1, 1), 6.8, 4.6 if below else 3.0)
    drawn[0].axhline(0.0, color=style.DARK, linewidth=0.8)
    for ax, shown, what in zip(drawn, (patterns, below), (ylabel, "mean of the class"), strict=False):
        _draw_spectra(ax, shown, _coordinates(axis, size))
        ax.set_ylabel(style.wrapped(what), **style.VERBATIM)
        style.label_axis(ax.xaxis, axis, 0)
    if below:
        drawn[0].set_xlabel("")
    style.write_title(drawn[0], title)
    return drawn


def _checked_matrix(values: Any, modes: Sequence[Axis] | None) -> tuple[FloatArray, tuple[Axis, ...]]:
    matrix = np.asarray(values, np.float64)
    if matrix.ndim != 2 or not matrix.size:
        raise ValueError(
            f"this plot needs a matrix, such as channels x time; got an array of shape {matrix.shape}. Take one of the "
            "binary problems, or average over the other modes"
        )
    return style.with_blanks(matrix), style.axes_or_empty(modes, matrix.shape)


def _checked_lines(lines: Any, what: str) -> dict[str, FloatArray]:
    if not isinstance(lines, Mapping):
        lines = {str(place + 1): row for place, row in enumerate(np.atleast_2d(np.asarray(lines, np.float64)))}
    found = {str(name): np.asarray(line, np.float64) for name, line in lines.items()}
    wrong = [line.shape for line in found.values() if line.ndim != 1 or not line.size]
    if wrong or not found:
        raise ValueError(f"{what} must have one number per wavelength; got {wrong[0] if wrong else 'no line'}")
    return found


def _coordinates(axis: Axis, size: int) -> FloatArray:
    """Return the coordinates of a mode, or its indices if they are unknown or names."""
    return np.asarray(axis.values, np.float64) if axis.is_numeric else np.arange(size, dtype=np.float64)


def _edges(axis: Axis, size: int) -> FloatArray:
    """Return the borders between the entries of a mode."""
    at = _coordinates(axis, size)
    if size == 1:
        return np.array([at[0] - 0.5, at[0] + 0.5])
    if not (np.all(np.diff(at) > 0) or np.all(np.diff(at) < 0)):  # unordered coordinates have no borders
        at = np.arange(size, dtype=np.float64)
    middles = (at[1:] + at[:-1]) / 2
    return np.concatenate([[2 * at[0] - middles[0]], middles, [2 * at[-1] - middles[-1]]])


def _line_colours(count: int, channels: Axis, named: Sequence[int]) -> list[Any]:
    """Return one colour per line: in order of the coordinates, or grey for all but the lines that are named."""
    import matplotlib as mpl

    if channels.is_numeric:
        return list(mpl.colormaps[style.SEQUENTIAL](np.linspace(0.0, 0.9, count)))
    own = dict(zip(named, (*style.PALETTE, style.DARK, style.GREY), strict=False))
    return [own.get(place, style.GREY) for place in range(count)]


def _draw_spectra(ax: Axes, lines: Mapping[str, FloatArray], at: FloatArray) -> None:
    drawn = []
    for k, line in enumerate(lines.values()):
        dashes, colour = (
            style.DASHES[k // len(style.PALETTE) % len(style.DASHES)],
            style.PALETTE[k % len(style.PALETTE)],
        )
        marker = "o" if line.size == 1 else None
        drawn += ax.plot(at, style.with_blanks(line), color=colour, linestyle=dashes, linewidth=1.2, marker=marker)
    style.tidy(ax)
    ax.margins(x=0.0)
    if 1 < len(drawn) <= _MOST_SPECTRA or (len(drawn) == 1 and "1" not in lines):
        style.add_legend(ax, drawn, list(lines), loc="best")
