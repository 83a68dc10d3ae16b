"""Spectra: lines against wavelength or wavenumber at full resolution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data import Axis, checked_axes
from ..runtime import Array, FloatArray
from ._style import DARK, DASHES, PALETTE, VERBATIM, add_legend, panels, tidy, wrapped
from .channels import coordinates, label_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST_LEGEND = 10


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
        One, or two if there are ``means``; a new figure by default.
    title, ylabel : str, optional

    Returns
    -------
    ndarray of 1 or 2 Axes

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import Axis
    >>> from tensormargin.plots import plot_spectra
    >>> nm = np.linspace(400, 700, 31)
    >>> peak = np.exp(-(((nm - 550) / 30) ** 2))
    >>> axes = plot_spectra(
    ...     {"mixed against pure": -peak}, Axis("wavelength", "nm", nm), means={"pure": 1 + peak, "mixed": 1 + 0 * peak}
    ... )
    >>> len(axes), axes[1].get_xlabel()
    (2, 'wavelength (nm)')
    """
    patterns = _named_lines(lines, "lines")
    below = {} if means is None else _named_lines(means, "means")
    sizes = {len(line) for line in (*patterns.values(), *below.values())}
    if len(sizes) != 1:
        raise ValueError(f"all spectra must have the same number of wavelengths; got {sorted(sizes)}")
    size = sizes.pop()
    axis = (checked_axes([axis or Axis()], (size,)) or (Axis(),))[0]
    drawn = panels(axes, (2 if below else 1, 1), 6.8, 4.6 if below else 3.0)
    drawn[0].axhline(0.0, color=DARK, linewidth=0.8)
    for ax, shown, words in zip(drawn, (patterns, below), (ylabel, "mean of the class"), strict=False):
        _draw_lines(ax, shown, coordinates(axis, size))
        ax.set_ylabel(wrapped(words), **VERBATIM)
        label_axis(ax.xaxis, axis, 0)
    if below:
        drawn[0].set_xlabel("")
    drawn[0].set_title(title or "", fontsize="medium", **VERBATIM)
    return drawn


def _named_lines(lines: Any, what: str) -> dict[str, FloatArray]:
    if isinstance(lines, Mapping):
        found = {str(name): np.asarray(line, np.float64) for name, line in lines.items()}
    else:
        rows = np.atleast_2d(np.asarray(lines, np.float64))
        found = {str(place + 1): row for place, row in enumerate(rows)}
    wrong = [line.shape for line in found.values() if line.ndim != 1 or not line.size]
    if wrong or not found:
        raise ValueError(f"{what} must have one number per wavelength; got {wrong[0] if wrong else 'no line'}")
    return found


def _draw_lines(ax: Axes, lines: Mapping[str, FloatArray], at: FloatArray) -> None:
    drawn = [
        ax.plot(
            at,
            np.where(np.isfinite(line), line, np.nan),
            color=PALETTE[k % len(PALETTE)],
            linestyle=DASHES[k // len(PALETTE) % len(DASHES)],
            linewidth=1.2,
            marker="o" if line.size == 1 else None,
        )[0]
        for k, line in enumerate(lines.values())
    ]
    tidy(ax)
    ax.margins(x=0.0)
    if 1 < len(drawn) <= _LONGEST_LEGEND or (len(drawn) == 1 and "1" not in lines):
        add_legend(ax, drawn, list(lines), loc="best")
