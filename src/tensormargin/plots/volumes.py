"""Volumes as in neuroimaging: three cuts with left and right and millimetres, and nilearn's viewer in notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..data import Orientation, millimetres, resampled
from ..inspection import MapText, weight_maps
from ..io import ModelFile
from ..runtime import Array, FloatArray
from .maps import Layers
from .style import GREEN, VERBATIM, add_scale, colour_limits, map_text, panels, peak, with_blanks

# Each cut: the axis that it is perpendicular to, its name, and the axes of its rows (upwards) and columns.
CUTS = ((0, "sagittal", 2, 1), (1, "coronal", 2, 0), (2, "axial", 1, 0))
_ENDS = (("L", "R"), ("P", "A"), ("I", "S"))


def plot_volume(
    map: Any,
    affine: Any = None,
    *,
    background: Any = None,
    background_affine: Any = None,
    at: Sequence[float] | None = None,
    radiological: bool = False,
    axes: Any = None,
    title: str | None = None,
    label: str | None = None,
) -> Array:
    """Draw a volume as a sagittal, a coronal and an axial cut, with left and right marked and places in mm.

    Parameters
    ----------
    map : array-like of shape (I, J, K)
        Entries that are not finite are left blank.
    affine : array-like of shape (4, 4), optional
        Maps indices to millimetres; by default indices are millimetres. The volume is turned to the closest standard
        orientation for display.
    background : array-like of shape (I', J', K'), optional
        Drawn in grey below, such as an anatomical image.
    background_affine : array-like of shape (4, 4), optional
        Its affine, if its grid is not that of the map; it is then resampled.
    at : sequence of 3 float, optional
        Where to cut, in mm; by default at the entry of largest absolute value.
    radiological : bool, default=False
        Whether the left of the person is on the right of the figure, as if seen from the feet; otherwise left is left.
    axes : sequence of 3 Axes, optional
    title : str, optional
    label : str, optional
        What the colours stand for, such as "red = house, blue = face".

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.plots import plot_volume
    >>> pattern = np.zeros((5, 6, 7))
    >>> pattern[1, 2, 3] = 1.0
    >>> axes = plot_volume(pattern, np.diag([2, 2, 2, 1]))
    >>> [ax.get_title() for ax in axes]
    ['x = 2 mm', 'y = 4 mm', 'z = 6 mm']
    """
    values = with_blanks(map)
    if values.ndim != 3 or not values.size:
        raise ValueError(
            f"a volume must have three modes; got an array of shape {values.shape}. For others, use plot_map"
        )
    given = np.eye(4) if affine is None else affine
    space = Orientation.of(given, values.shape)
    below = None if background is None else space.turned(_on_grid(background, background_affine, values.shape, given))
    layers = Layers(space.turned(values), below, colour_limits(values))
    where = _position(layers.values, space, at)
    drawn = panels(axes, (1, 3), **_layout(np.array(layers.values.shape) * space.voxel_size))
    place = millimetres(space.affine, where)
    for ax, cut in zip(drawn, CUTS, strict=True):
        image = _draw_cut(ax, cut, layers, space, where, radiological)
        ax.set_title(f"{'xyz'[cut[0]]} = {place[cut[0]] + 0.0:.0f} mm", fontsize="medium")
    add_scale(image, list(drawn), label, shrink=0.8)
    if title:
        drawn[0].figure.suptitle(title, fontsize="medium", **VERBATIM)
    return drawn


def view_map(
    model: Any,
    affine: Any = None,
    *,
    problem: int = 0,
    background: Any = None,
    threshold: float | None = None,
    title: str | None = None,
) -> Any:
    """Return a volume to look at in a notebook: nilearn's viewer, or `plot_volume` where nilearn is not installed.

    Parameters
    ----------
    model : array-like of shape (I, J, K), fitted model or ModelFile
        A map, such as an activation pattern; of a model its weight on the original samples (`weight_maps`).
    affine : array-like of shape (4, 4), optional
        Maps indices to millimetres. By default that in the file of the model, otherwise the identity.
    problem : int, default=0
        Of a model: the binary problem, in the order of ``clf.coef_``.
    background : NIfTI image, optional
        Drawn below, such as an anatomical image.
    threshold : float, optional
        Entries of smaller absolute value are left out, for nilearn's viewer.
    title : str, optional

    Returns
    -------
    nilearn's StatMapView, or ndarray of 3 Axes

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.plots import view_map
    >>> pattern = np.zeros((5, 6, 7))
    >>> pattern[1, 2, 3] = 1.0
    >>> view = view_map(pattern, np.diag([2, 2, 2, 1]), title="pattern")  # in a notebook: the last line of a cell
    """
    values, text, stored = _map_of(model, problem)
    given = next((one for one in (affine, stored) if one is not None), np.eye(4))
    if find_spec("nilearn") is None:
        under, its_affine = (None, None) if background is None else _parts(background)
        title = text.title if title is None else title
        options: dict[str, Any] = {"background": under, "background_affine": its_affine, "label": text.colours}
        return plot_volume(values, given, title=title, **options)
    title = "; ".join(filter(None, (text.title, text.colours))) if title is None else title
    import nibabel
    from nilearn.plotting import view_img

    make: Any = nibabel.Nifti1Image
    Orientation.of(given, values.shape)  # raises for what is not a volume
    image = make(np.nan_to_num(values).astype(np.float32), np.asarray(given, np.float64))
    options = {} if threshold is None else {"threshold": threshold}
    return view_img(image, bg_img=False if background is None else background, title=title or None, **options)


def _map_of(model: Any, problem: int) -> tuple[FloatArray, MapText, Any]:
    """Return the map to show, what stands next to it, and its affine if one is known."""
    stored = None
    if isinstance(model, ModelFile):
        stored = (model.facts.get("about") or {}).get("affine")
        model = model.model
    if not hasattr(model, "predict"):
        return np.asarray(model, np.float64), MapText("", "", ""), stored
    maps = weight_maps(model)
    if isinstance(maps, dict):
        raise ValueError(f"the model has several views, {', '.join(maps)}; give the map of one of them")
    return np.asarray(maps[problem], np.float64), map_text(model, problem, "weight"), stored


def _layout(extent: FloatArray) -> dict[str, Any]:
    """Return the size of a figure in proportion to the cuts."""
    widths = np.clip([extent[along] for _, _, _, along in CUTS] / extent.max(), 0.2, 1.0)
    heights = np.clip([extent[up] for _, _, up, _ in CUTS] / extent.max(), 0.2, 1.0)
    height = min(5.0, 0.9 + 8.2 * heights.max() / widths.sum())
    return {"width": 9.6, "height": height, "gridspec_kw": {"width_ratios": widths}}


def _parts(image: Any) -> tuple[Array, Any]:
    """Return the values of a NIfTI image, or of an array, and its affine if it has one."""
    return (np.asanyarray(image.dataobj), image.affine) if hasattr(image, "dataobj") else (np.asarray(image), None)


def _on_grid(background: Any, its_affine: Any, shape: tuple[int, ...], affine: Any) -> FloatArray:
    values, own = _parts(background)
    own = its_affine if its_affine is not None else own
    if own is not None:
        return resampled(values, own, shape, affine)
    if values.shape != shape:
        raise ValueError(f"background must have the map's shape {shape}, or give background_affine; got {values.shape}")
    return np.asarray(values, np.float64)


def _position(turned: FloatArray, space: Orientation, at: Sequence[float] | None) -> tuple[int, ...]:
    """Return the indices of the cuts in the turned volume."""
    if at is None:
        return peak(turned)
    place = np.asarray(at, np.float64)
    if place.shape != (3,) or not np.isfinite(place).all():
        raise ValueError(f"at must be a place x, y, z in mm; got at={at!r}")
    found = np.rint(millimetres(np.linalg.inv(space.affine), place)).astype(int)
    if np.any(found < 0) or np.any(found >= turned.shape):
        low, high = (millimetres(space.affine, corner) for corner in (np.zeros(3), np.array(turned.shape) - 1))
        raise ValueError(
            f"at must be within the volume, from {low.round(1).tolist()} to {high.round(1).tolist()} mm; got at={at!r}"
        )
    return tuple(found.tolist())


def _draw_cut(
    ax: Any,
    cut: tuple[int, str, int, int],
    layers: Layers,
    space: Orientation,
    where: tuple[int, ...],
    radiological: bool,
) -> Any:
    """Draw one cut, with the higher axis upwards, and return its image."""
    across, name, up, along = cut
    mirrored = radiological and along == 0

    def shown(matrix: Array) -> Array:  # of the two other axes, in their order
        upright = (matrix if up < along else matrix.T)[::-1]
        return upright[:, ::-1] if mirrored else upright

    turned, own = layers.values, layers.at(across, where[across])
    image = replace(own, values=shown(own.values), below=None if own.below is None else shown(own.below)).draw(ax)
    if layers.below is not None:
        ax.get_images()[0].set_clim(*np.percentile(layers.below, [1, 99]))  # the same greys in all cuts
    high, wide = turned.shape[up], turned.shape[along]
    ax.axhline(high - 1 - where[up], color=GREEN, linewidth=0.9)
    ax.axvline(wide - 1 - where[along] if mirrored else where[along], color=GREEN, linewidth=0.9)
    ax.set_aspect(space.voxel_size[up] / space.voxel_size[along])
    left, right = _ENDS[along][::-1] if mirrored else _ENDS[along]
    marks: dict[str, Any] = {"transform": ax.transAxes, "fontsize": "small", "fontweight": "bold"}
    ax.text(-0.02, 0.5, left, ha="right", va="center", **marks)
    ax.text(1.02, 0.5, right, ha="left", va="center", **marks)
    ax.set(xticks=[], yticks=[])
    ax.set_xlabel(name, fontsize="small")
    return image
