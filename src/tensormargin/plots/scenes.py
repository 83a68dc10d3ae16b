"""Classified scenes as images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._typing import Array
from ..io import replacing
from ._style import GREY, LIGHT, add_legend, panels

_MOST_NAMED = 40  # classes in the legend
_WIDTH, _LEGEND = 4.4, 1.9  # inches of a panel, and of a column of the legend


def plot_scene(
    predicted: Any,
    truth: Any = None,
    *,
    background: Any = 0,
    names: Mapping[Any, str] | None = None,
    axes: Any = None,
) -> Array:
    """Draw the class of every pixel of a scene, beside the ground truth if there is one.

    Parameters
    ----------
    predicted : array-like of shape (rows, columns)
        Class of each pixel, numbers or text.
    truth : array-like of shape (rows, columns), optional
        The true classes, drawn in the same colours.
    background : default=0
        Class of pixels without a known class in ``truth``, drawn in light grey.
    names : mapping from classes to str, optional
        Their names in the legend.
    axes : sequence of Axes, optional
        One, or two with ``truth``; a new figure by default.

    Returns
    -------
    ndarray of 1 or 2 Axes
        The ground truth comes first.
    """
    shown = _shown(predicted, truth)
    classes = _classes(shown, background)
    titles = ["predicted"] if truth is None else ["ground truth", "predicted"]
    ax = panels(axes, (1, len(shown)), *_size(shown, len(classes)))
    colours = _colours(len(classes))
    for panel, values, title in zip(ax, shown, titles, strict=True):
        panel.imshow(_painted(values, classes, colours), interpolation="nearest")
        panel.set_title(title, fontsize="medium")
        panel.set_xticks([])
        panel.set_yticks([])
        for spine in panel.spines.values():
            spine.set_color(GREY)
    _legend(ax[-1], classes, colours, names or {}, truth is not None and bool(np.any(shown[0] == background)))
    return ax


def save_scene(path: str | Path, predicted: Any, truth: Any = None, *, background: Any = 0) -> None:
    """Write the classes of the pixels as ``.npy``, or as PNG as `plot_scene` draws them, atomically."""
    path = Path(path)
    with replacing(path) as temporary:
        if path.suffix.lower() == ".npy":
            with temporary.open("wb") as file:
                np.save(file, np.asarray(predicted), allow_pickle=False)
            return
        from matplotlib.figure import Figure

        shown = _shown(predicted, truth)
        figure = Figure(figsize=_size(shown, len(_classes(shown, background))), layout="constrained")
        figure.subplots(1, len(shown), squeeze=False)
        plot_scene(predicted, truth, background=background, axes=figure.axes)
        figure.savefig(temporary, format="png", dpi=150)


def _shown(predicted: Any, truth: Any) -> list[Array]:
    """Return the scenes to draw, if they have one class per pixel; as text if one of them is."""
    shown = [np.asarray(one) for one in ((predicted,) if truth is None else (truth, predicted))]
    if any(one.ndim != 2 or one.shape != shown[0].shape for one in shown):
        raise ValueError(
            "a classified scene has one class per pixel, and the ground truth the same rows and columns; got shapes "
            f"{', '.join(str(one.shape) for one in shown)}"
        )
    return [one.astype(str) for one in shown] if any(one.dtype.kind in "US" for one in shown) else shown


def _size(shown: Sequence[Array], n_classes: int) -> tuple[float, float]:
    """Return width and height of a figure, in inches."""
    height = max(2.2, _WIDTH * min(2.5, shown[0].shape[0] / shown[0].shape[1]))
    return _WIDTH * len(shown) + _LEGEND * (1 + (n_classes > 20)), height


def _classes(shown: Sequence[Array], background: Any) -> list[Any]:
    found: set[Any] = set()
    for one in shown:
        found.update(np.unique(one).tolist())
    found.discard(background)
    return sorted(found, key=lambda one: (isinstance(one, str), one))


def _colours(number: int) -> Array:
    """Return colours that can be told apart as far as possible, as whole numbers up to 255."""
    from matplotlib import colormaps

    if number <= 20:
        order = [*range(0, 20, 2), *range(1, 20, 2)]
        chosen = np.array([colormaps["tab20"](order[k])[:3] for k in range(number)]).reshape(-1, 3)
    else:
        chosen = colormaps["gist_ncar"](np.linspace(0.03, 0.97, number))[:, :3]
    return np.rint(255 * chosen).astype(np.uint8)


def _painted(values: Array, classes: Sequence[Any], colours: Array) -> Array:
    from matplotlib.colors import to_rgb

    painted = np.empty((*values.shape, 3), np.uint8)
    painted[...] = np.rint(255 * np.array(to_rgb(LIGHT)))
    for label, colour in zip(classes, colours, strict=True):
        painted[values == label] = colour
    return painted


def _legend(ax: Any, classes: Sequence[Any], colours: Array, names: Mapping[Any, str], unknown: bool) -> None:
    from matplotlib.patches import Patch

    named = [str(names.get(label, label)) for label in classes[:_MOST_NAMED]]
    handles = [Patch(color=colour / 255) for colour in colours[:_MOST_NAMED]]
    if unknown:
        named, handles = [*named, "no class"], [*handles, Patch(color=LIGHT)]
    if len(classes) > _MOST_NAMED:
        named[-1] = f"{named[-1]} and {len(classes) - _MOST_NAMED} more"
    where: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5), "borderaxespad": 0.0}
    add_legend(ax, handles, named, **where, ncols=1 + (len(named) > 20))
