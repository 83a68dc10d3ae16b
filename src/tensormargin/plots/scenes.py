"""Classified scenes: the predicted class of every pixel beside the ground truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._typing import Array
from ._style import LIGHT, VERBATIM, panels

_SURE_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442")


def plot_scene(
    predicted: Any,
    truth: Any = None,
    classes: Mapping[Any, str] | Sequence[Any] | None = None,
    *,
    background: Any = 0,
    axes: Any = None,
    title: str | None = None,
) -> Array:
    """Draw a classified scene, beside the ground truth if there is one, with a legend of the classes.

    Parameters
    ----------
    predicted : array-like of shape (rows, columns)
        The class of each pixel, as `Patches.paint` returns it.
    truth : array-like of shape (rows, columns), optional
        Labels of the pixels; the third panel then marks those that are predicted wrongly.
    classes : mapping from labels to names, or sequence of labels, optional
        Names and order of the classes in the legend; by default all labels.
    background : default=0
        Label of pixels without a class, drawn in light grey.
    axes : Axes or sequence of Axes, optional
        One, or three with ``truth``; a new figure by default.
    title : str, optional

    Returns
    -------
    ndarray of 1 or 3 Axes
    """
    shown = _checked(predicted, "predicted", None)
    true = None if truth is None else _checked(truth, "truth", shown.shape)
    names = _names(shown, true, classes, background)
    drawn = panels(axes, (1, 1 if true is None else 3), 5.2 if true is None else 11.0, 4.2)
    _draw_classes(drawn[0], shown, names)
    drawn[0].set_title(title or "predicted", fontsize="medium", **VERBATIM)
    if true is not None:
        _draw_classes(drawn[1], true, names)
        drawn[1].set_title("ground truth", fontsize="medium")
        _draw_errors(drawn[2], shown, true, background)
    _add_names(drawn, names)
    return drawn


def _checked(labels: Any, what: str, shape: tuple[int, ...] | None) -> Array:
    found = np.asarray(labels)
    if found.ndim != 2 or not found.size or (shape is not None and found.shape != shape):
        wanted = "rows x columns" if shape is None else f"those of the prediction, {shape}"
        raise ValueError(f"{what} must have one label per pixel of the scene, {wanted}; got shape {found.shape}")
    return found


def _names(shown: Array, true: Array | None, classes: Any, background: Any) -> dict[Any, str]:
    """Return the names of the classes by label, in the order of the legend."""
    there = np.unique(shown if true is None else np.concatenate([shown.ravel(), true.ravel()]))
    found = [label for label in there.tolist() if label != background]
    if classes is None:
        return {label: str(label) for label in found}
    pairs = classes.items() if isinstance(classes, Mapping) else ((label, label) for label in classes)
    given = {label: str(name) for label, name in pairs if label != background}
    unknown = [label for label in found if label not in given]
    if unknown:
        raise ValueError(
            f"classes must have a name for each label of the scene; got none for {', '.join(map(str, unknown[:8]))}"
        )
    return given


def _palette(count: int) -> list[Any]:
    """Return distinct colours: those that the colour-blind can tell apart if they are enough."""
    import matplotlib as mpl

    if count <= len(_SURE_COLOURS):
        return list(_SURE_COLOURS[:count])
    many: list[Any] = [colour for name in ("tab20", "tab20b", "tab20c") for colour in mpl.colormaps[name].colors]  # type: ignore[attr-defined]
    many = [colour for colour in many if max(colour) - min(colour) > 0.1]  # greys stand for no class
    return [many[place % len(many)] for place in range(count)]


def _draw_classes(ax: Any, labels: Array, names: Mapping[Any, str]) -> None:
    from matplotlib.colors import to_rgb

    pixels = np.full((*labels.shape, 3), to_rgb(LIGHT))
    for label, colour in zip(names, _palette(len(names)), strict=True):
        pixels[labels == label] = to_rgb(colour)
    _image(ax, pixels)


def _draw_errors(ax: Any, shown: Array, true: Array, background: Any) -> None:
    from matplotlib.colors import to_rgb

    tested = (true != background) & (shown != background)
    wrong = tested & (shown != true)
    pixels = np.full((*shown.shape, 3), to_rgb(LIGHT))
    pixels[tested] = to_rgb("#9db8c9")
    pixels[wrong] = to_rgb("#b2182b")
    _image(ax, pixels)
    share = f"{100 * wrong.sum() / tested.sum():.1f} % wrong" if tested.any() else "no pixel with both"
    ax.set_title(f"errors in red: {share}", fontsize="medium")


def _image(ax: Any, pixels: Array) -> None:
    ax.imshow(pixels, interpolation="nearest")
    ax.set_xticks([])
    ax.set_yticks([])


def _add_names(drawn: Array, names: Mapping[Any, str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=colour) for colour in _palette(len(names))]
    figure = drawn[0].figure
    outside = "outside right center" if figure.get_layout_engine() is not None else "center right"
    legend = figure.legend(handles, [str(k) for k in range(len(handles))], loc=outside, fontsize="small", frameon=False)
    for text, name in zip(legend.get_texts(), names.values(), strict=True):
        text.update({**VERBATIM, "text": name})
