"""Labels of modes (names, units and coordinates) and of binary problems in figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data import AnyAxes, Axes, Axis, checked_axes
from ..inspection import ModelChain
from ..runtime import Array
from .style import VERBATIM, whole_ticks

if TYPE_CHECKING:
    from matplotlib.axis import Axis as FigureAxis

WAVENUMBERS = ("cm-1", "cm^-1", "1/cm", "cm⁻¹")
"""Units of wavenumbers, which spectra show in decreasing order."""

_MOST_NAMES = {"x": 24, "y": 32}  # of channels that are legible along an axis of a panel
_MOST_NAMED = 40  # of more channels of a large panel, every second, third, ... is named
_NUMBERS = 6  # ticks with coordinates


def problem_title(model: Any, problem: int) -> str:
    """Return the title of a binary problem, which names its classes; raise ValueError if there is no such problem."""
    names = ModelChain.of(model).problem_names
    if not 0 <= problem < len(names):
        raise ValueError(
            f"problem counts the binary problems from 0; got problem={problem!r}, and there are {len(names)}"
        )
    return names[problem]


def checked_view(model: Any, view: str | None) -> str | None:
    """Return the name of the view to draw, None for a model of one tensor; raise ValueError if there is none."""
    shape = ModelChain.of(model).classifier.sample_shape_
    if not isinstance(shape, dict):
        if view is not None:
            raise ValueError(
                f"view names one of several views; got view={view!r}, and the model has one tensor. Leave it out"
            )
        return None
    if view is None and len(shape) == 1:
        return next(iter(shape))
    if view not in shape:
        raise ValueError(f"view must be one of the model's views, {', '.join(map(repr, shape))}; got view={view!r}")
    return view


def fitting_axes(axes: AnyAxes, shape: Sequence[int], view: str | None = None) -> Axes:
    """Return one axis per mode of an array: the given ones, of a view if there are several, or empty ones.

    Axes that were worked out from a model are left out if they do not fit, such as those of images before a masker.
    """
    own = axes.get(view or "") if isinstance(axes, Mapping) else axes
    try:
        return axes_or_empty(own, shape)
    except ValueError:
        return (Axis(),) * len(shape)


def axes_or_empty(axes: Sequence[Axis] | None, shape: Sequence[int]) -> Axes:
    """Return the given axes, which must fit the shape, or empty ones."""
    return checked_axes(axes, shape) or (Axis(),) * len(shape)


def mode_name(axis: Axis, mode: int) -> str:
    """Return the name of a mode, "mode 1" and so on if it has none."""
    return axis.name or f"mode {mode + 1}"


def mode_label(axis: Axis, mode: int) -> str:
    """Return the name of a mode with its unit, if its coordinates are known."""
    shown = axis.label if axis.values is not None else axis.name
    return shown or f"mode {mode + 1}"


def format_place(axis: Axis, mode: int, index: int) -> str:
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
    side = "x" if ruler.axis_name == "x" else "y"  # type: ignore[attr-defined]
    if _is_scale(axis):
        places, texts = _round_coordinates(axis)
        ruler.set_ticks(places)
        ruler.set_ticklabels(texts, **VERBATIM)
    elif axis.values is not None and not axis.is_numeric and size <= _MOST_NAMES[side]:
        names = axis.values.tolist()
        upright = side == "x" and sum(map(len, names)) > _MOST_NAMES["x"]
        ruler.set_ticks(np.arange(size))
        font = "x-small" if size > 12 else "small"
        ruler.set_ticklabels(names, rotation=90 if upright else 0, fontsize=font, **VERBATIM)
    else:
        whole_ticks(ruler)


def label_axis(ruler: Any, axis: Axis, mode: int) -> None:
    """Write the label of a mode along an axis in its coordinates, with names as ticks; wavenumbers decrease."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

    ruler.set_label_text(axis.label or f"mode {mode + 1}", **VERBATIM)
    if axis.is_numeric:
        if axis.unit in WAVENUMBERS:
            ruler.set_inverted(True)
    elif axis.values is None:
        ruler.set_major_locator(MaxNLocator(nbins="auto", integer=True))
    else:
        every = -(-len(axis.values) // _MOST_NAMED)
        places = range(0, len(axis.values), every)
        names = [str(axis.values[place]) for place in places]
        ruler.set_major_locator(FixedLocator(places))
        ruler.set_major_formatter(FuncFormatter(lambda value, _: names[round(value / every)] if names else ""))
        for label in ruler.get_ticklabels():
            label.update({**VERBATIM, "fontsize": 7 if len(axis.values) > 16 else 8})
        if mode:
            ruler.set_tick_params(rotation=90 if len(axis.values) > 8 else 0)


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
