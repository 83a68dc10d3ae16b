"""Plots of weights, activation patterns and other tensors as images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..data import AnyAxes, Axes, Axis, axes_in, colour_mode, colour_order
from ..inspection import ModelChain, activation_pattern, view_maps, weight_maps
from ..runtime import Array, FloatArray
from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Panel

_OVER_GREY = ("#b3ecff", "#3ab0ff", "#0072b2", "#454545", "#9c1414", "#e53935", "#ff9d94")  # white would be background
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

    Rows show the earlier mode, from top to bottom. The k-th of three cuts is perpendicular to mode k, the k-th of three
    channels is index k of the mode of colours.

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
        What the colours (of a line, its height) stand for, such as "red = house, blue = face".

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.plots import plot_map
    >>> axes = plot_map(np.random.default_rng(0).standard_normal((8, 9, 7)))
    >>> len(axes)
    3
    """
    values = style.with_blanks(map)
    if values.ndim == 0 or values.size == 0:
        raise ValueError(f"a map needs at least one mode and one entry; got an array of shape {values.shape}")
    where = style.peak(values) if at is None else tuple(int(i) for i in at)
    if len(where) != values.ndim or not all(0 <= i < size for i, size in zip(where, values.shape, strict=True)):
        raise ValueError(f"at needs one index per mode within the map's shape {values.shape}; got at={at!r}")
    modes = style.axes_or_empty(mode_axes, values.shape)
    colours = colour_mode(modes, values.shape)
    shown = _cut(values, where)
    below = None if background is None else _checked_background(background, values.shape, where)
    layers = Layers(shown, below, style.colour_limits(values, symmetric), symmetric)
    n_panels, width, height = _layout(shown)
    drawn = style.panels(axes, (1, n_panels), width, height)
    if shown.ndim == 1:
        _draw_line(drawn[0], shown, below, modes[0])
        drawn[0].set_ylabel(style.wrapped(label), fontsize="small", **style.VERBATIM)
    elif shown.ndim == 2:
        image = layers.draw(drawn[0])
        _label_modes(drawn[0], shown.shape, modes, 0, 1)
    else:
        image = _draw_panels(drawn, layers, where, modes, colours)
    if shown.ndim > 1:
        style.add_scale(image, list(drawn), label, shrink=0.85)
    _write_titles(drawn, title, where, modes, colours)
    return drawn


@dataclass(frozen=True)
class Layers:
    """The values of a map and what is drawn below them, with their colours."""

    values: Array
    below: Array | None
    limits: tuple[float, float]
    symmetric: bool = True

    def at(self, mode: int, index: int) -> Layers:
        """Return a cut perpendicular to a mode."""
        below = None if self.below is None else self.below.take(index, axis=mode)
        return replace(self, values=self.values.take(index, axis=mode), below=below)

    def draw(self, ax: Panel) -> Any:
        """Draw a matrix over its background, in grey or in the colours that it has, and return its image."""
        from matplotlib.colors import LinearSegmentedColormap

        tall, wide = self.values.shape
        aspect: Literal["equal", "auto"] = "equal" if max(tall, wide) <= _LONGEST_SIDE * min(tall, wide) else "auto"
        colours: Any = style.DIVERGING if self.symmetric else style.SEQUENTIAL
        opacity = None
        if self.below is not None:
            ax.imshow(self.below, cmap="gray", aspect=aspect, interpolation="nearest")
            sizes = np.nan_to_num(np.abs(self.values)) / (max(np.abs(self.limits)) or 1.0)
            opacity = np.clip((sizes - _CLEAR_BELOW) / (_OPAQUE_FROM - _CLEAR_BELOW), 0.0, 1.0)
            colours = LinearSegmentedColormap.from_list("over grey", _OVER_GREY) if self.symmetric else colours
        ends: dict[str, Any] = {"vmin": self.limits[0], "vmax": self.limits[1]}
        return ax.imshow(self.values, cmap=colours, alpha=opacity, aspect=aspect, interpolation="nearest", **ends)


def plot_pictures(pictures: Mapping[str, Any], mode_axes: Axes) -> Array:
    """Draw colour images by title, such as the mean of each class, in their colours, all with the same limits."""
    shown = true_colours(np.stack([np.asarray(one, np.float64) for one in pictures.values()]), mode_axes)
    columns = min(len(shown), _MOST_PICTURES)
    grid = (-(-len(shown) // columns), columns)
    drawn = style.panels(None, grid, 2.4 * grid[1], 2.4 * grid[0])
    for ax, (title, one) in zip(drawn, zip(pictures, shown, strict=True), strict=False):
        ax.imshow(one, interpolation="nearest")
        style.write_title(ax, title)
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

    The class of each sign stands beside the colours. Only the pattern should be interpreted.

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
        The panels of the weight, then those of the pattern, each cut at its own largest entry.

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
    texts = {what: style.map_text(model, problem, what) for what in ("weight", "pattern")}
    view = style.checked_view(model, view)
    known = axes_in(X) if mode_axes is None else mode_axes
    chain = ModelChain.of(model)
    modes: AnyAxes
    if view is not None:
        found = view_maps(model, X, y, groups, confounds)
        modes = chain.axes_of_view_maps(known)
        weight = found.weights[view][problem]
        pattern = None if found.patterns is None else found.patterns[view][problem]
    else:
        modes = chain.axes_of_maps(known)
        pattern = None if X is None else activation_pattern(model, X, y, groups, confounds)[problem]
        weight = weight_maps(model, None if pattern is None else pattern.shape)[problem]
    maps = {"weight": weight} if pattern is None else {"weight": weight, "pattern": pattern}
    columns, width, height = _layout(weight)
    rows = len(maps) if columns > 1 else 1  # maps of several panels are below each other, others side by side
    across = columns if columns > 1 else len(maps)
    drawn = style.panels(axes, (rows, across), width * len(maps) / rows, height * rows).reshape(len(maps), -1)
    for row, (what, values) in zip(drawn, maps.items(), strict=True):
        text, own = texts[what], style.fitting_axes(modes, values.shape, view)
        title = text.title if view is None else f"{view}: {text.title}"
        plot_map(values, background=background, axes=row, title=title, mode_axes=own, label=text.colours)
    return drawn


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


def _layout(values: Array) -> tuple[int, float, float]:
    """Return the number of panels of a map, and width and height of its figure in inches."""
    return ((1, 5.2, 3.2), (1, 4.4, 3.6), (3, 9.6, 3.2))[min(values.ndim, _SHOWN_MODES) - 1]


def _draw_line(ax: Panel, values: FloatArray, background: FloatArray | None, axis: Axis) -> None:
    from matplotlib import colormaps

    places = style.line_places(axis, len(values))
    if background is not None:
        right = ax.twinx()
        right.plot(places, background, color=style.GREY, linewidth=1.0, alpha=0.6)
        right.set_ylabel("background", color=style.GREY)
    ax.axhline(0.0, color=style.DARK, linewidth=0.8)
    ax.plot(places, values, color=style.DARK, linewidth=1.3, marker="o" if len(values) == 1 else None)
    for end, side in ((0.0, np.minimum), (1.0, np.maximum)):  # the colours of signs, as in images
        ax.fill_between(places, side(values, 0.0), color=colormaps[style.DIVERGING](0.1 + 0.8 * end), linewidth=0.0)
    ax.set_xlabel(style.mode_label(axis, 0), **style.VERBATIM)
    style.tidy(ax)
    if axis.values is not None and not style.is_scale(axis):
        style.label_indices(ax.xaxis, axis, len(values))


def _draw_panels(drawn: Array, layers: Layers, where: tuple[int, ...], modes: Axes, colours: int | None) -> Any:
    """Draw one cut perpendicular to each mode, or the channels of ``colours`` side by side; return the last image."""
    below = None if layers.below is None or colours is None else true_colours(layers.below, modes)
    for number, ax in enumerate(drawn):
        mode, index = (number, where[number]) if colours is None else (colours, number)
        row, column = (other for other in range(_SHOWN_MODES) if other != mode)
        own = layers.at(mode, index)
        image = (own if below is None else replace(own, below=below)).draw(ax)
        if colours is None:
            ax.axhline(where[row], color=style.GREEN, linewidth=0.9)
            ax.axvline(where[column], color=style.GREEN, linewidth=0.9)
        _label_modes(ax, layers.values.shape, modes, row, column)
    return image


def _label_modes(ax: Panel, shape: Sequence[int], modes: Axes, row: int, column: int) -> None:
    for ruler, mode in ((ax.yaxis, row), (ax.xaxis, column)):
        ruler.set_label_text(style.mode_label(modes[mode], mode), **style.VERBATIM)
        style.label_indices(ruler, modes[mode], shape[mode])


def _write_titles(drawn: Array, title: str | None, where: tuple[int, ...], modes: Axes, colours: int | None) -> None:
    """Write the title and what the panels show: the places of the cuts, or the names of the channels of ``colours``.

    The places of modes that no panel shows go into the title.
    """
    places = [
        f"{axis.name or f'mode {mode + 1}'} at {at if axis.values is None else axis.spoken(at)}"
        for mode, (axis, at) in enumerate(zip(modes, where, strict=True))
    ]
    first = ", ".join(part for part in (title, *places[_SHOWN_MODES:]) if part)
    if len(drawn) == 1:
        style.write_title(drawn[0], first)
        return
    for number, ax in enumerate(drawn):
        style.write_title(ax, places[number] if colours is None else style.channel_name(modes[colours], number))
    if first:
        drawn[0].set_title(f"{first}\n", loc="left", fontsize="medium", **style.VERBATIM)
