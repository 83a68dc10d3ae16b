"""Labels of modes in figures: names, units and coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data import AnyAxes, Axes, Axis, checked_axes
from ..runtime import Array
from ._style import VERBATIM, whole_ticks

if TYPE_CHECKING:
    from matplotlib.axis import Axis as FigureAxis

_MOST_NAMES = {"x": 24, "y": 32}  # of channels that are legible along an axis of a panel
_NUMBERS = 6  # ticks with coordinates


def fitting_axes(axes: AnyAxes, shape: Sequence[int], view: str | None = None) -> Axes:
    """Return one axis per mode of an array: the given ones, of a view if there are several, or empty ones.

    Axes that were worked out from a model are left out if they do not fit, such as those of images before a masker.
    """
    own = axes.get(view or "") if isinstance(axes, Mapping) else axes
    try:
        return checked_axes(own, shape) or (Axis(),) * len(shape)
    except ValueError:
        return (Axis(),) * len(shape)


def mode_name(axis: Axis, mode: int) -> str:
    """Return the name of a mode, "mode 1" and so on if it has none."""
    return axis.name or f"mode {mode + 1}"


def mode_label(axis: Axis, mode: int) -> str:
    """Return the name of a mode with its unit, if its coordinates are known."""
    shown = axis.label if axis.values is not None else axis.name
    return shown or f"mode {mode + 1}"


def place_in_words(axis: Axis, mode: int, index: int) -> str:
    """Return where a mode is cut: "time at 132 ms", or "mode 1 at 3" with the index counted from 0."""
    at = str(index) if axis.values is None else axis.spoken(index)
    return f"{mode_name(axis, mode)} at {at}"


def channel_name(axis: Axis, index: int) -> str:
    """Return the name of a channel along a mode of colours: its coordinate, or the colour that its place stands for."""
    return str(axis.values[index]) if axis.values is not None else ("red", "green", "blue")[index]


def line_places(axis: Axis, size: int) -> Array:
    """Return where the entries of a mode are drawn along a line: at their coordinates if these rise or fall."""
    return axis.values if _is_scale(axis) else np.arange(size)


def label_line(ruler: FigureAxis, axis: Axis, size: int) -> None:
    """Put ticks along a line that was drawn at `line_places`."""
    if not _is_scale(axis):
        label_indices(ruler, axis, size)


def label_indices(ruler: FigureAxis, axis: Axis, size: int) -> None:
    """Put ticks along an axis that counts indices: names if they are legible, round coordinates, or numbers."""
    if _is_scale(axis):
        marks, texts = _round_coordinates(axis)
        _set_ticks(ruler, marks, texts)
    elif axis.values is not None and not axis.is_numeric and size <= _MOST_NAMES[_side(ruler)]:
        names = axis.values.tolist()
        upright = _side(ruler) == "x" and sum(map(len, names)) > _MOST_NAMES["x"]
        _set_ticks(
            ruler, np.arange(size), names, rotation=90 if upright else 0, fontsize="x-small" if size > 12 else "small"
        )
    else:
        whole_ticks(ruler)


def _side(ruler: FigureAxis) -> str:
    return "x" if ruler.axis_name == "x" else "y"  # type: ignore[attr-defined]


def _set_ticks(ruler: FigureAxis, marks: Any, texts: Sequence[str], **options: Any) -> None:
    ruler.set_ticks(np.asarray(marks))
    ruler.set_ticklabels(list(texts), **VERBATIM, **options)


def _is_scale(axis: Axis) -> bool:
    """Return whether coordinates are numbers that rise or fall, so that they can be read off between ticks."""
    if not axis.is_numeric or len(axis.values) < 2:
        return False
    steps = np.diff(axis.values)
    return bool((steps > 0).all() or (steps < 0).all())


def _round_coordinates(axis: Axis) -> tuple[Array, list[str]]:
    """Return round coordinates within the mode: where they are, in indices, and their texts."""
    from matplotlib.ticker import MaxNLocator

    values = axis.values
    order = np.argsort(values)
    low, high = float(values.min()), float(values.max())
    slack = 1e-9 * (high - low)
    ticks = np.asarray(MaxNLocator(_NUMBERS).tick_values(low, high))
    ticks = ticks[(ticks >= low - slack) & (ticks <= high + slack)]
    return np.interp(ticks, values[order], order), [f"{tick + 0.0:.6g}" for tick in ticks]
