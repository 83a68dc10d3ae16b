"""Topographic maps: values of EEG channels on the head, seen from above."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..runtime import Array, FloatArray, listed
from .electrodes import electrode_positions, flattened
from .style import DARK, DIVERGING, VERBATIM, add_scale, colour_limits, panels, write_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST_CHANNELS = 4
"""Fewer channels with a position say nothing about the places between them."""

_RESOLUTION = 96  # pixels across the head
_CONTOURS = 6
_NAMED = 20  # with more channels their names would overlap
_BAR = {"shrink": 0.7, "aspect": 15}


def plot_topography(
    values: Any,
    channels: Sequence[str],
    montage: Any = None,
    *,
    ax: Axes | None = None,
    title: str | None = None,
    limit: float | None = None,
    colorbar: bool = True,
    label: str | None = None,
) -> Axes:
    """Draw one value per channel on the head: nose at the top, left on the left.

    Parameters
    ----------
    values : array-like of shape (n_channels,)
        Channels whose value is not finite are left out.
    channels : sequence of str
        Their names, such as "Fz" or "EEG C3-REF"; those without a known position are left out with a warning.
    montage : str, montage of MNE, mapping or None, default=None
        Where the channels are: see `electrode_positions`. By default the 10-20, 10-10 and 10-5 systems.
    ax : Axes, optional
    title : str, optional
    limit : float, optional
        Largest absolute value of the colours, which are symmetric about zero; by default that of the values.
    colorbar : bool, default=True
    label : str, optional
        What the colours stand for, such as "positive: house against face".

    Returns
    -------
    Axes

    Examples
    --------
    >>> from tensormargin.plots import plot_topography
    >>> channels = ["Fz", "C3", "Cz", "C4", "Pz"]
    >>> values = [0.1, -0.8, 0.0, 0.9, 0.2]
    >>> ax = plot_topography(values, channels, title="pattern")
    >>> ax.get_title()
    'pattern'
    """
    shown = np.asarray(values, np.float64)
    if shown.shape != (len(channels),):
        raise ValueError(f"there must be one value per channel; got shape {shown.shape} for {len(channels)} channels")
    placed = _placed(channels, montage)
    image, (only,) = _draw_heads(panels(ax, (1, 1), 3.6, 3.2), shown[None], placed, [title], limit)
    if colorbar:
        add_scale(image, [only], label, **_BAR)
    return only


def plot_topographies(
    values: Any,
    channels: Sequence[str],
    montage: Any = None,
    *,
    titles: Sequence[str] | None = None,
    axes: Any = None,
    limit: float | None = None,
    colorbar: bool = True,
    label: str | None = None,
) -> Array:
    """Draw several topographic maps in a row, with the same colours.

    Parameters
    ----------
    values : array-like of shape (n_maps, n_channels)
    channels, montage, limit, colorbar, label
        See `plot_topography`.
    titles : sequence of str, optional
        One per map.
    axes : sequence of n_maps Axes, optional

    Returns
    -------
    ndarray of n_maps Axes

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.plots import plot_topographies
    >>> channels = ["Fz", "C3", "Cz", "C4", "Pz"]
    >>> values = np.random.default_rng(0).standard_normal((2, 5))
    >>> axes = plot_topographies(values, channels, titles=["100 ms", "300 ms"])
    >>> [ax.get_title() for ax in axes]
    ['100 ms', '300 ms']
    """
    shown = np.asarray(values, np.float64)
    if shown.ndim != 2 or shown.shape[1] != len(channels) or not len(shown):
        raise ValueError(
            f"there must be one row per map and one column per channel; got shape {shown.shape} for {len(channels)} "
            "channels"
        )
    titles = [""] * len(shown) if titles is None else list(titles)
    if len(titles) != len(shown):
        raise ValueError(f"there must be one title per map; got {len(titles)} for {len(shown)} maps")
    placed, new_size = _placed(channels, montage), (0.9 + 2.1 * len(shown), 2.5)
    image, drawn = _draw_heads(panels(axes, (1, len(shown)), *new_size), shown, placed, titles, limit)
    if colorbar:
        add_scale(image, list(drawn), label, **_BAR)
    return drawn


def _placed(channels: Sequence[str], montage: Any) -> dict[int, tuple[str, FloatArray]]:
    """Return name and flat position of the channels with a known one, by row number; warn of the others."""
    names = [str(channel) for channel in channels]
    found = electrode_positions(names, montage)
    lacking = [name for name in names if name not in found]
    if len(found) < FEWEST_CHANNELS:
        raise ValueError(
            f"a topographic map needs at least {FEWEST_CHANNELS} channels with known positions; got {len(found)} of "
            f"{len(names)}, and none is known of {listed(lacking, most=8) or 'any'}. Name them as in the 10-20 system, "
            "or give montage"
        )
    if lacking:
        unknown = listed(lacking, most=8)
        warnings.warn(f"left out of the topographic map, since no position is known: {unknown}", stacklevel=3)
    return {row: (name, flattened(found[name])[0]) for row, name in enumerate(names) if name in found}


def _draw_heads(
    drawn: Array, values: FloatArray, placed: Mapping[int, Any], titles: Sequence[str | None], limit: float | None
) -> tuple[Any, Array]:
    """Draw one map per row of values, and return the last image and the axes."""
    names, positions = zip(*placed.values(), strict=True)
    shown = values[:, list(placed)]
    most = colour_limits(shown, limit=limit)[1]
    for ax, own, title in zip(drawn, shown, titles, strict=True):
        image = _draw_head(ax, own, np.array(positions), names, most)
        write_title(ax, title)
    return image, drawn


def _draw_head(ax: Axes, values: FloatArray, positions: FloatArray, names: Sequence[str], most: float) -> Any:
    """Draw a map within the outline of the head, and return its image."""
    from matplotlib.patches import Circle

    there = np.isfinite(values)
    grid = np.linspace(-1.0, 1.0, _RESOLUTION)
    surface = _interpolated(positions[there], values[there], grid)
    inside = Circle((0.0, 0.0), 1.0, transform=ax.transData)
    options: dict[str, Any] = {"extent": (-1, 1, -1, 1), "origin": "lower"}
    image = ax.imshow(surface, cmap=DIVERGING, vmin=-most, vmax=most, interpolation="bilinear", **options)
    image.set_clip_path(inside)
    if np.ptp(surface) > 1e-9 * most:
        lines = ax.contour(grid, grid, surface, _CONTOURS, colors=DARK, linewidths=0.4, alpha=0.6, linestyles="solid")
        lines.set_clip_path(inside)
    ax.add_patch(Circle((0.0, 0.0), 1.0, fill=False, edgecolor=DARK, linewidth=1.2))
    turn, angles = np.radians(10.0), np.linspace(-np.pi / 2, np.pi / 2, 20)
    ax.plot([-np.sin(turn), 0.0, np.sin(turn)], [np.cos(turn), 1.13, np.cos(turn)], color=DARK, linewidth=1.2)  # nose
    for side in (-1, 1):  # ears
        ax.plot(side * (1.0 + 0.08 * np.cos(angles)), 0.18 * np.sin(angles), color=DARK, linewidth=1.2)
    ax.scatter(positions[there, 0], positions[there, 1], s=6, color=DARK, linewidths=0)
    if len(names) <= _NAMED:
        for (x, y), name in zip(positions, names, strict=True):
            ax.annotate(name, (x, y), (0, 3), textcoords="offset points", ha="center", fontsize=6, **VERBATIM)
    ax.set_xlim(-1.2, 1.2)
    ax.set_ylim(-1.2, 1.25)
    ax.set_aspect("equal")
    ax.set_axis_off()
    return image


def _interpolated(positions: FloatArray, values: FloatArray, grid: FloatArray) -> FloatArray:
    """Return a smooth surface through the values, one row per y; beyond the outermost channels it levels off."""
    from scipy.interpolate import RBFInterpolator

    if not len(values):
        return np.zeros((len(grid), len(grid)))
    places, first = np.unique(positions.round(6), axis=0, return_index=True)  # old and new names of one place
    own = values[first]
    around = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    rim = 1.4 * np.column_stack([np.cos(around), np.sin(around)])
    closeness = 1 / np.sum((rim[:, None] - places) ** 2, axis=2) ** 2
    beyond = (closeness @ own) / closeness.sum(axis=1)
    surface = RBFInterpolator(np.vstack([places, rim]), np.concatenate([own, beyond]), kernel="thin_plate_spline")
    x, y = np.meshgrid(grid, grid)
    return np.asarray(surface(np.column_stack([x.ravel(), y.ravel()]))).reshape(x.shape)
