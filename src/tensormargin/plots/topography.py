"""Topographic maps: values of EEG channels on the head, seen from above, and the positions of electrodes.

The 10-20, 10-10 and 10-5 systems divide the head by proportions. On a sphere with the vertex Cz on top: the midline
from the nasion to the inion is divided into steps of 5 %; the ring through Fpz, T7, Oz and T8 is 10 % above the lowest
ring, through nasion, ears and inion; from each point of the ring to the midline runs an arc of a circle, divided into
eighths. Nasion and inion lie below the equator, since the sphere is that of the scalp: 10 % of the midline are 23
degrees.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from ..runtime import Array, FloatArray, listed
from .style import DARK, DIVERGING, VERBATIM, add_scale, colour_limits, panels, write_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST_CHANNELS = 4
"""Fewer channels with a position say nothing about the places between them."""

_RESOLUTION = 96  # pixels across the head
_CONTOURS = 6
_NAMED = 20  # with more channels their names would overlap
# Rows from the nasion to the inion, 5 % of the midline apart; near the temples some have other letters.
_ROWS = (
    *("N", "NFp", "Fp", "AFp", "AF", "AFF", "F", "FFC", "FC", "FCC", "C"),
    *("CCP", "CP", "CPP", "P", "PPO", "PO", "POO", "O", "OI", "I"),
)
_AT_TEMPLES = {"FFC": "FFT", "FC": "FT", "FCC": "FTT", "C": "T", "CCP": "TTP", "CP": "TP", "CPP": "TPP"}
_TENTH = 23.0  # degrees
_RING, _LOWEST = 4 * _TENTH, 5 * _TENTH  # from the vertex
_RIM = (_RING + _LOWEST) / 2  # where figures draw the outline of the head
_OLD_NAMES = {"T3": "T7", "T4": "T8", "T5": "P7", "T6": "P8", "A1": "T9", "A2": "T10", "M1": "TP9", "M2": "TP10"}

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
    montage : str, montage, Info or Epochs of MNE, mapping or None, default=None
        Where the channels are: see `electrode_positions`. By default the 10-20, 10-10 and 10-5 systems.
    ax : Axes, optional
    title : str, optional
    limit : float, optional
        Largest absolute value of the colours, which are symmetric about zero; by default that of the values.
    colorbar : bool, default=True
    label : str, optional
        What the colours stand for, such as "red = house, blue = face".

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
    image, (only,) = _draw_heads(panels(ax, (1, 1), 3.6, 3.2), shown[None], _placed(channels, montage), [title], limit)
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
        As many are returned; those of a new figure by default.

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
            f"there must be one row per map and one column per channel ({len(channels)}); got shape {shown.shape}"
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
    if montage is not None and not found:
        raise ValueError(
            f"the montage must have some of the channels, {listed(names, most=8)}; it has none of them, but "
            f"{listed(_of_montage(montage), most=8) or 'no positions'}. Give that of these channels"
        )
    if montage is None and len(found) < FEWEST_CHANNELS:
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
    ax.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.25), aspect="equal")
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


def electrode_positions(channels: Sequence[str], montage: Any = None) -> dict[str, FloatArray]:
    """Return the positions of the channels that are known, on a sphere of radius 1.

    Parameters
    ----------
    channels : sequence of str
        Names; upper and lower case, "EEG " in front, and "-REF", "-LE", "-AVG" or dots behind make no difference.
    montage : str, montage, Info or Epochs of MNE, mapping or None, default=None
        A name of one of MNE's montages ("biosemi64"), a montage, an Info or what has one (Epochs, Raw, Evoked), which
        may have other channels as well, or positions by name with two or three coordinates (x to the right, y to the
        front, z up; two coordinates are of the flattened head, whose outline has radius 1). By default the 10-20, 10-10
        and 10-5 systems.

    Returns
    -------
    dict of str to ndarray of shape (3,)
        By the names as given, in their order; channels without a known position are left out.

    Examples
    --------
    >>> from tensormargin.plots import electrode_positions
    >>> list(electrode_positions(["Cz", "EEG C3-REF", "EOG"]))
    ['Cz', 'EEG C3-REF']
    >>> electrode_positions(["Cz"])["Cz"].round(6).tolist()
    [0.0, 0.0, 1.0]
    """
    names = [str(channel) for channel in channels]
    known = _standard() if montage is None else _of_montage(montage)
    return {name: known[_bare(name)] for name in names if _bare(name) in known}


def flattened(positions: Array) -> FloatArray:
    """Return positions on the sphere in the plane: the distance from the middle is the angle from the vertex.

    The circle of radius 1, the outline of the head, runs between the ring of Fpz, T7, Oz and T8 and that of the ears.
    """
    x, y, z = np.asarray(positions, np.float64).reshape(-1, 3).T
    angle = np.arctan2(np.hypot(x, y), z) / np.radians(_RIM)
    azimuth = np.arctan2(y, x)
    return np.column_stack([angle * np.cos(azimuth), angle * np.sin(azimuth)])


def _bare(name: str) -> str:
    """Return a name without case, prefix, reference and dots."""
    bare = name.strip().casefold().removeprefix("eeg").strip(" ._-")
    return re.sub(r"-(ref|le|avg|ar|av)$", "", bare)


@cache
def _standard() -> dict[str, FloatArray]:
    """Return all positions of the 10-5 system, which includes the other two."""
    found: dict[str, FloatArray] = {}
    for row, share in zip(_ROWS, np.linspace(0.0, 1.0, len(_ROWS)), strict=True):
        azimuth = 180.0 * share  # from the front, along the ring
        angle = _LOWEST * (2 * share - 1)
        found[f"{row}z"] = middle = _at(abs(angle), 0.0 if angle <= 0 else 180.0)
        for side, last_digits in ((-1, (1, 3, 5, 7, 9)), (1, (2, 4, 6, 8, 10))):
            ring = _at(_RING, side * azimuth)
            for step, digit in enumerate(last_digits):
                for half in (False, True):
                    letters = _AT_TEMPLES.get(row, row) if step >= 3 else row
                    name = f"{letters}{digit}{'h' if half else ''}"
                    below = _at(_RIM if half else _LOWEST, side * azimuth)
                    found[name] = below if step == 4 else _on_arc(ring, middle, (3 - step) / 4 + half / 8)
        found |= _ends_of_the_ring(row)
    found |= {old: found[new] for old, new in _OLD_NAMES.items()}
    return {_bare(name): position for name, position in found.items()}


def _ends_of_the_ring(row: str) -> dict[str, FloatArray]:
    """Return the electrodes beside Fpz and Oz, which lie on the rings: 5 % of a ring are 18 degrees."""
    polar = {"N": _LOWEST, "NFp": _RIM, "Fp": _RING, "O": _RING, "OI": _RIM, "I": _LOWEST}.get(row)
    if polar is None:
        return {}
    turned = 180.0 if row in ("O", "OI", "I") else 0.0
    return {
        f"{row}{digit}{letter}": _at(polar, side * abs(turned - degrees))
        for side, digit in ((-1, 1), (1, 2))
        for letter, degrees in (("h", 9.0), ("", 18.0))
    }


def _at(polar: float, azimuth: float) -> FloatArray:
    """Return the point at an angle from the vertex and an angle from the front, clockwise seen from above."""
    polar, azimuth = np.radians(polar), np.radians(azimuth)
    return np.array([np.sin(polar) * np.sin(azimuth), np.sin(polar) * np.cos(azimuth), np.cos(polar)])


def _on_arc(ring: FloatArray, middle: FloatArray, share: float) -> FloatArray:
    """Return the point at a share of the way from the ring to the midline, on the circle that is symmetric about it.

    The circle runs through the ring on both sides and through the midline, so it lies in a plane with the x axis.
    """
    other = ring * (-1, 1, 1)
    along = middle - (ring + other) / 2
    length = float(np.linalg.norm(along))
    if length < 1e-12 or abs(ring[0]) < 1e-12:  # the row is a single point
        return middle
    along = along / length
    radius = (ring[0] ** 2 + length**2) / (2 * length)
    centre = middle - radius * along
    angle = np.arctan2(abs(ring[0]), float(np.dot(ring - centre, along))) * (1 - share)
    aside = np.array([np.sign(ring[0]), 0.0, 0.0])
    return np.asarray(centre + radius * (np.cos(angle) * along + np.sin(angle) * aside))


def _of_montage(montage: Any) -> dict[str, FloatArray]:
    """Return the positions of a montage on the sphere, by bare names."""
    montage = _named(montage) if isinstance(montage, str) else _of_info(montage)
    if hasattr(montage, "get_positions"):
        places = {name: np.asarray(own, np.float64) for name, own in montage.get_positions()["ch_pos"].items()}
        names = [name for name, own in places.items() if np.isfinite(own).all()]
        points = np.array([places[name] for name in names]).reshape(-1, 3)
        if len(points) >= 10:  # as seen from the middle of the sphere that fits them best; fewer may lie in a plane
            design = np.column_stack([2 * points, np.ones(len(points))])
            points = points - np.linalg.lstsq(design, np.sum(points**2, axis=1), rcond=None)[0][:3]
        lengths = np.linalg.norm(points, axis=1, keepdims=True)
        return {_bare(name): own for name, own in zip(names, points / lengths, strict=True)}
    if isinstance(montage, Mapping):
        return {_bare(str(name)): _given(str(name), own) for name, own in montage.items()}
    kind = type(montage).__name__
    raise TypeError(
        f"montage must be the name of one of MNE's montages, a montage, an Info, or positions by name; got {kind}"
    )


def _of_info(montage: Any) -> Any:
    """Return the montage of MNE's Info, or of what has one, such as Epochs; other objects as they are."""
    holder = getattr(montage, "info", montage)
    if not hasattr(holder, "get_montage") or not hasattr(holder, "ch_names"):
        return montage
    found = holder.get_montage()
    if found is None:
        raise ValueError(
            f"the Info must state the positions of its channels, {listed(holder.ch_names, most=8)}; it has none. Set "
            "them with set_montage, or leave montage out for names of the 10-20 system"
        )
    return found


def _named(name: str) -> Any:
    if find_spec("mne") is None:
        raise ImportError(
            f"montage={name!r} names one of MNE's montages, which needs MNE: pip install mne. Without it, leave "
            "montage out for names of the 10-20, 10-10 and 10-5 systems, or give positions by name"
        )
    from mne.channels import get_builtin_montages, make_standard_montage

    try:
        return make_standard_montage(name)
    except ValueError:
        known = ", ".join(get_builtin_montages())
        raise ValueError(f"montage must be one of MNE's montages, {known}; got {name!r}") from None


def _given(name: str, position: Any) -> FloatArray:
    place, got = np.asarray(position, np.float64), f"got {position!r} for {name!r}"
    if place.shape not in ((2,), (3,)) or not np.isfinite(place).all():
        raise ValueError(f"the position of a channel must be two or three finite numbers; {got}")
    if place.shape == (2,):
        return _at(_RIM * float(np.hypot(*place)), float(np.degrees(np.arctan2(place[0], place[1]))))
    length = float(np.linalg.norm(place))
    if length == 0.0:
        raise ValueError(f"the position of a channel must not be the middle of the head; {got}")
    return place / length
