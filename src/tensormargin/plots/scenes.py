"""Classified scenes: the class of every pixel, beside the ground truth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..io import MAPS, Georeference, replacing, save_array, save_class_map
from ..runtime import Array
from .style import GREY, LIGHT, PALETTE, add_legend, panels, save_png

_MOST_NAMED = 40  # classes in the legend
_WIDTH, _LEGEND = 4.0, 1.9  # inches of a panel, and of a column of the legend
_RIGHT, _WRONG = "#9db8c9", "#b2182b"


def plot_scene(
    predicted: Any,
    truth: Any = None,
    classes: Sequence[Any] | None = None,
    *,
    background: Any = 0,
    names: Mapping[Any, str] | None = None,
    errors: bool = False,
    axes: Any = None,
) -> Array:
    """Draw the class of every pixel of a scene, beside the ground truth if there is one.

    Parameters
    ----------
    predicted : array-like of shape (rows, columns)
        Class of each pixel, numbers or text, as `Patches.paint` returns them.
    truth : array-like of shape (rows, columns), optional
        The true classes, drawn in the same colours.
    classes : sequence, optional
        The classes in the order of the legend, which fixes their colours; by default those of the scene, sorted.
    background : default=0
        Class of pixels without a known class, drawn in light grey.
    names : mapping from classes to str, optional
        Their names in the legend.
    errors : bool, default=False
        Whether another panel marks the pixels that are predicted wrongly, with their share.
    axes : sequence of Axes, optional
        As many as are returned; a new figure by default.

    Returns
    -------
    ndarray of 1 to 3 Axes
        The ground truth comes first, the errors last.

    Examples
    --------
    >>> from tensormargin.plots import plot_scene
    >>> truth, predicted = [[1, 1, 0], [2, 2, 0]], [[1, 2, 2], [2, 2, 2]]
    >>> axes = plot_scene(predicted, truth, names={1: "corn", 2: "oats"}, errors=True)
    >>> len(axes), axes[0].get_title(), axes[1].get_title()
    (3, 'ground truth', 'predicted')
    """
    shown = _shown(predicted, truth)
    if errors and truth is None:
        raise ValueError("errors=True compares the prediction with the ground truth; give truth, or leave errors out")
    known = _classes(shown, background, classes)
    titles = ["predicted"] if truth is None else ["ground truth", "predicted"]
    n_panels = len(shown) + errors
    width = _WIDTH * n_panels + _LEGEND * (1 + (len(known) > 20))
    height = max(2.2, 0.4 + _WIDTH * min(2.5, shown[0].shape[0] / shown[0].shape[1]))
    drawn = panels(axes, (1, n_panels), width, height)
    colours = _colours(len(known))
    for ax, values, title in zip(drawn, shown, titles, strict=False):
        parts = [(values == label, colour) for label, colour in zip(known, colours, strict=True)]
        _draw_image(ax, values.shape, parts, title)
    if errors:
        tested = (shown[0] != background) & (shown[1] != background)
        wrong = tested & (shown[0] != shown[1])
        share = f"{100 * wrong.sum() / tested.sum():.1f} % wrong" if tested.any() else "no pixel has both"
        _draw_image(drawn[-1], wrong.shape, [(tested, _RIGHT), (wrong, _WRONG)], f"errors in red: {share}")
    unknown = truth is not None and bool(np.any(shown[0] == background))
    _legend(drawn[-1], known, colours, names or {}, unknown)
    return drawn


def save_scene(
    path: str | Path,
    predicted: Any,
    truth: Any = None,
    classes: Sequence[Any] | None = None,
    *,
    background: Any = 0,
    names: Mapping[int, str] | None = None,
    georeference: Georeference | None = None,
) -> None:
    """Write the classes of the pixels as ``.npy``, as PNG as `plot_scene` draws them, or as a map, atomically.

    Maps, in the same colours, are GeoTIFF (``.tif``) or ENVI (``.hdr``) files in the place that ``georeference`` says,
    with the names of the classes by number; see `io.save_class_map`. ``classes`` are those that there may be.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from tensormargin.plots import save_scene
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_scene(f"{folder}/classes.npy", [[1, 1, 2], [2, 2, 2]])
    ...     np.load(f"{folder}/classes.npy").shape
    (2, 3)
    """
    path = Path(path)
    if path.suffix.lower() == ".npy":
        with replacing(path) as temporary, temporary.open("wb") as file:
            save_array(file, np.asarray(predicted))
        return
    shown = _shown(predicted, truth)
    given = np.array(list(map(str, classes or ())) if shown[0].dtype.kind in "US" else classes or ())
    known = _classes([*shown, given], background, None)
    if path.suffix.lower() in MAPS:
        colours = dict(zip(known, _colours(len(known)), strict=True))
        own = _classes([shown[-1], given], background, None)
        save_class_map(path, shown[-1], own, [colours[label] for label in own], names, georeference)
        return
    with replacing(path) as temporary:
        save_png(temporary, plot_scene(predicted, truth, known, background=background), {})


def _shown(predicted: Any, truth: Any) -> list[Array]:
    """Return the scenes to draw, if they have one class per pixel; as text if one of them is."""
    shown = [np.asarray(one) for one in ((predicted,) if truth is None else (truth, predicted))]
    if any(one.ndim != 2 or not one.size or one.shape != shown[0].shape for one in shown):
        raise ValueError(
            "a classified scene has one class per pixel, and the ground truth the same rows and columns; got shapes "
            f"{', '.join(str(one.shape) for one in shown)}"
        )
    return [one.astype(str) for one in shown] if any(one.dtype.kind in "US" for one in shown) else shown


def _classes(shown: Sequence[Array], background: Any, given: Sequence[Any] | None) -> list[Any]:
    found: set[Any] = set().union(*(np.unique(one).tolist() for one in shown))
    found.discard(background)
    if given is None:
        return sorted(found, key=lambda one: (isinstance(one, str), one))
    lacking = sorted(map(str, found.difference(given)))
    if lacking:
        raise ValueError(f"classes must hold all classes of the scene; got none for {', '.join(lacking[:8])}")
    return [label for label in given if label != background]


def _colours(number: int) -> Array:
    """Return colours that can be told apart as far as possible, grey is no class."""
    from matplotlib import colormaps
    from matplotlib.colors import to_rgb

    if number <= len(PALETTE):  # which the colour-blind can tell apart
        return np.array([to_rgb(one) for one in PALETTE[:number]]).reshape(-1, 3)
    many = np.array([colormaps[name](k)[:3] for name in ("tab20", "tab20b", "tab20c") for k in range(20)])
    many = many[np.ptp(many, axis=1) > 0.1]
    return many[:number] if number <= len(many) else colormaps["gist_ncar"](np.linspace(0.03, 0.97, number))[:, :3]


def _draw_image(ax: Any, shape: tuple[int, ...], parts: Iterable[tuple[Array, Any]], title: str) -> None:
    """Draw an image in light grey with the pixels of each part in its colour."""
    from matplotlib.colors import to_rgb

    pixels = np.full((*shape, 3), to_rgb(LIGHT))
    for where, colour in parts:
        pixels[where] = to_rgb(colour)
    ax.imshow(np.rint(255 * pixels).astype(np.uint8), interpolation="nearest")
    ax.set_title(title, fontsize="medium")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_color(GREY)


def _legend(ax: Any, classes: Sequence[Any], colours: Array, names: Mapping[Any, str], unknown: bool) -> None:
    from matplotlib.patches import Patch

    named = [str(names.get(label, label)) for label in classes[:_MOST_NAMED]]
    handles = [Patch(color=colour) for colour in colours[:_MOST_NAMED]]
    if unknown:
        named, handles = [*named, "no class"], [*handles, Patch(color=LIGHT)]
    if len(classes) > _MOST_NAMED:
        named[-1] = f"{named[-1]} and {len(classes) - _MOST_NAMED} more"
    where: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5), "borderaxespad": 0.0}
    add_legend(ax, handles, named, **where, ncols=1 + (len(named) > 20))
