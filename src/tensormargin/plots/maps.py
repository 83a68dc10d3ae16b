"""Plots of weights, activation patterns and other tensors as images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..data import AnyAxes, Axes, Axis, axes_in, checked_axes, colour_mode, colour_order
from ..inspection import ModelChain, activation_pattern, meaning_of_sign, view_maps, weight_maps
from ..runtime import Array, FloatArray
from ._problems import checked_view, problem_title
from ._style import BLUE, DARK, GREEN, GREY, VERBATIM, add_scale, panels, tidy, wrapped
from .modes import channel_name, fitting_axes, label_indices, label_line, line_places, mode_label, place_in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Panel

_DIVERGING, _SEQUENTIAL = "RdBu_r", "viridis"
_OVER_GREY = ("#b3ecff", "#3ab0ff", "#0072b2", "#454545", "#b03a00", "#f08a24", "#ffe08a")  # white would be background
_SHOWN_MODES = 3
_MOST_PICTURES = 5  # side by side
_LONGEST_SIDE = 4.0  # beyond this aspect ratio, images fill the panel instead of being drawn to scale
_CLEAR_BELOW, _OPAQUE_FROM = 0.1, 0.4  # shares of the largest absolute value; between them the background fades out


def plot_map(
    map: Any,
    *,
    background: Any = None,
    at: Sequence[int] | None = None,
    axes: Any = None,
    title: str | None = None,
    symmetric: bool = True,
    mode_axes: Axes | None = None,
    label: str | None = None,
) -> Array:
    """Draw a tensor: a line (order 1), an image (order 2), three channels of colours or three orthogonal cuts.

    Parameters
    ----------
    map : array-like of shape (I_1, ..., I_M)
        For order 4 and more, the first three modes are shown, with the others fixed at ``at``. Entries that are not
        finite are left blank.
    background : array-like, optional
        Image drawn in grey below the map, of the same shape or of the shape of its first three modes. The smaller an
        entry of the map, the more transparent it is.
    at : sequence of M int, optional
        Where to cut; by default at the entry of largest absolute value.
    axes : Axes or sequence of Axes, optional
        One, or three for order 3 and more; a new figure by default.
    title : str, optional
    symmetric : bool, default=True
        Whether the colours are diverging and symmetric about zero; otherwise they go from the smallest to the largest
        entry.
    mode_axes : sequence of M Axis, optional
        Names, units and coordinates of the modes, for labels and ticks. Of three modes with one of colours (red, green,
        blue), the channels are drawn side by side, over a background in its colours.
    label : str, optional
        What the colours (of a line, its height) stand for, such as "positive: house against face".

    Returns
    -------
    ndarray of 1 or 3 Axes
        Rows show the earlier mode, from top to bottom. The k-th of three cuts is perpendicular to mode k, the k-th of
        three channels is index k of the mode of colours.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.plots import plot_map
    >>> axes = plot_map(np.random.default_rng(0).standard_normal((8, 9, 7)))
    >>> len(axes)
    3
    """
    values = np.ma.filled(np.ma.masked_invalid(np.asarray(map, np.float64)), np.nan)
    if values.ndim == 0 or values.size == 0:
        raise ValueError(f"a map needs at least one mode and one entry; got an array of shape {values.shape}")
    where = _checked_position(values, at)
    modes = checked_axes(mode_axes, values.shape) or (Axis(),) * values.ndim
    below = None if background is None else _checked_background(background, values.shape, where)
    shown = _cut(values, where)
    drawn = panels(axes, _grid(shown), *_figure_size(shown))
    limits = _limits(values, symmetric)
    if shown.ndim == 1:
        _draw_line(drawn[0], shown, below, modes[0])
        drawn[0].set_ylabel(wrapped(label), fontsize="small", **VERBATIM)
    elif shown.ndim == 2:
        image = _draw_image(drawn[0], shown, below, limits, symmetric)
        _label_modes(drawn[0], shown.shape, modes, 0, 1)
    elif colour_mode(modes, values.shape) is not None:
        image = _draw_channels(drawn, shown, below, limits, symmetric, modes)
    else:
        image = _draw_cuts(drawn, shown, below, where, limits, symmetric, modes)
    if shown.ndim > 1:
        add_scale(image, list(drawn), label, shrink=0.85)
    _write_title(drawn, title, where, modes, colour_mode(modes, values.shape))
    return drawn


def plot_pictures(pictures: Mapping[str, Any], mode_axes: Axes) -> Array:
    """Draw colour images, such as the mean of each class, in their colours, all with the same limits.

    Parameters
    ----------
    pictures : mapping of str to array-like
        By title.
    mode_axes : tuple of three Axis
        One of them is that of colours, see `tensormargin.data.axes.colour_mode`.

    Returns
    -------
    ndarray of Axes
    """
    shown = true_colours(np.stack([np.asarray(one, np.float64) for one in pictures.values()]), mode_axes)
    columns = min(len(shown), _MOST_PICTURES)
    grid = (-(-len(shown) // columns), columns)
    drawn = panels(None, grid, 2.4 * grid[1], 2.4 * grid[0])
    for ax, (title, one) in zip(drawn, zip(pictures, shown, strict=True), strict=False):
        ax.imshow(one, interpolation="nearest")
        ax.set_title(title, fontsize="medium", **VERBATIM)
    for ax in drawn:
        ax.set_axis_off()
    return drawn


def true_colours(pictures: FloatArray, axes: Axes) -> FloatArray:
    """Return colour images as ``(..., rows, columns, 3)`` from 0 to 1: of 0 to 255, or of the range of other values."""
    mode = colour_mode(axes, pictures.shape[-3:])
    if mode is None:
        raise ValueError(f"one of three modes must be that of colours, with three entries; got {axes!r:.300}")
    shown = np.moveaxis(np.nan_to_num(pictures), mode - 3, -1)[..., colour_order(axes[mode])]
    low, high = float(shown.min()), float(shown.max())
    low, high = (0.0, 255.0) if low >= 0 and 1 < high <= 255 else (low, high)
    return np.clip((shown - low) / ((high - low) or 1.0), 0.0, 1.0)


def plot_weight(
    model: Any,
    X: Any = None,
    y: Any = None,
    groups: Any = None,
    *,
    confounds: Any = None,
    problem: int = 0,
    background: Any = None,
    axes: Any = None,
    view: str | None = None,
    mode_axes: AnyAxes = None,
) -> Array:
    """Draw the weight of a binary problem and, given samples, its activation pattern.

    Only the pattern should be interpreted.

    Parameters
    ----------
    model : estimator
        A fitted model, as `tensormargin.affine_form` takes it. The weight is shown as it acts on the original samples.
    X, y, groups, confounds : array-like, optional
        Samples, labels, groups and confounds for `tensormargin.inspection.patterns.activation_pattern`.
    problem : int, default=0
        The binary problem, in the order of ``clf.coef_``.
    background : array-like, optional
        Drawn in grey below, as in `plot_map`.
    axes : Axes or sequence of Axes, optional
        As many as are returned, row by row; a new figure by default.
    view : str, optional
        Which of several views. If steps before the classifier make the views and cannot be undone on the weight, it is
        shown as it acts on the view.
    mode_axes : tuple of Axis, or dictionary of them for several views, optional
        Names, units and coordinates of the modes of the original samples. By default those of X, or of the samples that
        the model was fitted to, if these were an xarray DataArray or a data frame.

    Returns
    -------
    ndarray of Axes of shape (n_maps, n_panels)
        The panels of the weight, then those of the pattern. Each map is cut at its own largest entry. Positive values
        speak for the class that the title names first.

    Examples
    --------
    >>> from tensormargin import TensorMarginClassifier
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.plots import plot_weight
    >>> data = make_low_rank_classes(60, (8, 9), random_state=0)
    >>> clf = TensorMarginClassifier("cp", 2).fit(data.data, data.target)
    >>> axes = plot_weight(clf, data.data, data.target)
    >>> [ax.get_title() for ax in axes.ravel()]
    ['weight, 1 against -1', 'pattern, 1 against -1']
    """
    classes = problem_title(model, problem)
    sign, view = meaning_of_sign(classes), checked_view(model, view)
    pattern = None
    known = axes_in(X) if mode_axes is None else mode_axes
    chain = ModelChain.of(model)
    modes: AnyAxes = chain.axes_of_maps(known) if view is None else chain.axes_of_view_maps(known)
    if view is not None:
        found = view_maps(model, X, y, groups, confounds)
        classes = f"{view}, {classes}"
        weight = found.weights[view][problem]
        pattern = None if found.patterns is None else found.patterns[view][problem]
    else:
        pattern = None if X is None else activation_pattern(model, X, y, groups, confounds)[problem]
        weight = weight_maps(model, None if pattern is None else pattern.shape)[problem]
    maps = {f"weight, {classes}": weight}
    if pattern is not None:
        maps[f"pattern, {classes}"] = pattern
    rows, columns = _grid(weight)
    width, height = _figure_size(weight)
    grid = (len(maps), columns) if columns > 1 else (rows, len(maps))
    size = (width, height * len(maps)) if columns > 1 else (width * len(maps), height)
    drawn = panels(axes, grid, *size).reshape(len(maps), -1)
    for row, (title, one) in zip(drawn, maps.items(), strict=True):
        own = fitting_axes(modes, one.shape, view)
        plot_map(one, background=background, axes=row, title=title, mode_axes=own, label=sign)
    return drawn


def _checked_position(values: FloatArray, at: Sequence[int] | None) -> tuple[int, ...]:
    if at is None:
        largest = np.argmax(np.nan_to_num(np.abs(values)))
        return tuple(int(i) for i in np.unravel_index(largest, values.shape))
    where = tuple(int(i) for i in at)
    if len(where) != values.ndim or not all(0 <= i < size for i, size in zip(where, values.shape, strict=True)):
        raise ValueError(f"at needs one index per mode within the map's shape {values.shape}; got at={at!r}")
    return where


def _cut(values: FloatArray, where: tuple[int, ...]) -> FloatArray:
    """Return the displayed modes, with the others fixed at ``where``."""
    return values[(slice(None),) * min(_SHOWN_MODES, values.ndim) + where[_SHOWN_MODES:]]


def _checked_background(background: Any, shape: tuple[int, ...], where: tuple[int, ...]) -> FloatArray:
    """Return the background for the displayed modes; raise ValueError if its shape does not match."""
    below = np.asarray(background, np.float64)
    if below.shape == shape:
        return _cut(below, where)
    if below.shape == shape[:_SHOWN_MODES]:
        return below
    raise ValueError(f"background must have the map's shape {shape}, or that of its first modes; got {below.shape}")


def _limits(values: FloatArray, symmetric: bool) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    if not symmetric and finite.size:
        return float(finite.min()), float(finite.max())
    largest = float(np.abs(finite).max(initial=0.0)) or 1.0  # a map of zeros is drawn in the middle of the scale
    return -largest, largest


def _grid(values: Array) -> tuple[int, int]:
    return (1, 1) if values.ndim < _SHOWN_MODES else (1, 3)


def _figure_size(values: Array) -> tuple[float, float]:
    return ((5.2, 3.2), (4.4, 3.6))[values.ndim - 1] if values.ndim < _SHOWN_MODES else (9.6, 3.2)


def _draw_line(ax: Panel, values: FloatArray, background: FloatArray | None, axis: Axis) -> None:
    places = line_places(axis, len(values))
    if background is not None:
        right = ax.twinx()
        right.plot(places, background, color=GREY, linewidth=1.0, alpha=0.6)
        right.set_ylabel("background", color=GREY)
    ax.axhline(0.0, color=DARK, linewidth=0.8)
    ax.plot(places, values, color=BLUE, linewidth=1.3, marker="o" if len(values) == 1 else None)
    ax.set_xlabel(mode_label(axis, 0), **VERBATIM)
    tidy(ax)
    if axis.values is not None:
        label_line(ax.xaxis, axis, len(values))


def _draw_image(
    ax: Panel, values: FloatArray, background: FloatArray | None, limits: tuple[float, float], symmetric: bool
) -> Any:
    """Draw a matrix, over a background if there is one, and return its image."""
    tall, wide = values.shape
    aspect: Literal["equal", "auto"] = "equal" if max(tall, wide) <= _LONGEST_SIDE * min(tall, wide) else "auto"
    opacity = None
    if background is not None:
        ax.imshow(background, cmap="gray", aspect=aspect, interpolation="nearest")  # or in colours, if it has them
        sizes = np.nan_to_num(np.abs(values)) / (max(np.abs(limits)) or 1.0)
        opacity = np.clip((sizes - _CLEAR_BELOW) / (_OPAQUE_FROM - _CLEAR_BELOW), 0.0, 1.0)
    return ax.imshow(
        values,
        cmap=_colours(symmetric, background is not None),
        vmin=limits[0],
        vmax=limits[1],
        alpha=opacity,
        aspect=aspect,
        interpolation="nearest",
    )


def _colours(symmetric: bool, over_grey: bool) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    if symmetric and over_grey:
        return LinearSegmentedColormap.from_list("over grey", _OVER_GREY)
    return _DIVERGING if symmetric else _SEQUENTIAL


def _draw_cuts(
    drawn: Array,
    values: FloatArray,
    background: FloatArray | None,
    where: tuple[int, ...],
    limits: tuple[float, float],
    symmetric: bool,
    modes: Axes,
) -> Any:
    for mode, ax in enumerate(drawn):
        row, column = (other for other in range(_SHOWN_MODES) if other != mode)
        at = [where[mode]]
        below = None if background is None else background.take(at, axis=mode).squeeze(mode)
        image = _draw_image(ax, values.take(at, axis=mode).squeeze(mode), below, limits, symmetric)
        ax.axhline(where[row], color=GREEN, linewidth=0.9)
        ax.axvline(where[column], color=GREEN, linewidth=0.9)
        _label_modes(ax, values.shape, modes, row, column)
    return image


def _draw_channels(
    drawn: Array,
    values: FloatArray,
    background: FloatArray | None,
    limits: tuple[float, float],
    symmetric: bool,
    modes: Axes,
) -> Any:
    """Draw red, green and blue side by side, over a background in its colours, and return the last image."""
    mode = colour_mode(modes, values.shape) or 0
    row, column = (other for other in range(_SHOWN_MODES) if other != mode)
    below = None if background is None else true_colours(background, modes)
    for index, ax in enumerate(drawn):
        image = _draw_image(ax, values.take([index], axis=mode).squeeze(mode), below, limits, symmetric)
        _label_modes(ax, values.shape, modes, row, column)
    return image


def _label_modes(ax: Panel, shape: Sequence[int], modes: Axes, row: int, column: int) -> None:
    ax.set_ylabel(mode_label(modes[row], row), **VERBATIM)
    ax.set_xlabel(mode_label(modes[column], column), **VERBATIM)
    for ruler, mode in ((ax.xaxis, column), (ax.yaxis, row)):
        label_indices(ruler, modes[mode], shape[mode])


def _write_title(
    drawn: Array, title: str | None, where: tuple[int, ...], modes: Axes, colours: int | None = None
) -> None:
    """Write the title and the positions of the cuts; those of modes that no panel shows go into the title.

    Of channels of ``colours``, it writes their names.
    """
    hidden = ", ".join(place_in_words(modes[mode], mode, where[mode]) for mode in range(_SHOWN_MODES, len(where)))
    first = ", ".join(part for part in (title, hidden) if part)
    if len(drawn) == 1:
        drawn[0].set_title(first, fontsize="medium", **VERBATIM)
        return
    for mode, ax in enumerate(drawn):
        place = place_in_words(modes[mode], mode, where[mode])
        ax.set_title(place if colours is None else channel_name(modes[colours], mode), fontsize="medium", **VERBATIM)
    if first:
        drawn[0].set_title(f"{first}\n", loc="left", fontsize="medium", **VERBATIM)
