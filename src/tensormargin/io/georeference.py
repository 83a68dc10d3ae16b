"""Where scenes lie on earth, and ground truths brought to the pixels of a scene."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..data import BadFileError, parsing
from ..runtime import Array, FloatArray, counted
from .readers import envi
from .readers.process import call

_TO_ENVI, _TO_GEOTIFF = ".geotiff.place_in_envi", ".geotiff.place_in_geotiff"
_SAME_SYSTEM = ".geotiff.same_system"
_ROUNDING = 0.1  # pixels by which grids may differ, since headers have few digits


@dataclass(frozen=True)
class Georeference:
    """Where a scene lies on earth, as its file states it; nothing by default.

    Attributes
    ----------
    source : str
        The file.
    envi : mapping from str to str
        Fields of an ENVI header: map info, projection info, coordinate system string.
    crs, transform : str, tuple of 6 float
        Coordinate system (WKT) and affine transform of a GeoTIFF, as rasterio has them.

    Examples
    --------
    >>> from tensormargin.io import Georeference
    >>> Georeference("field.hdr", {"map info": "{UTM, 1, 1, 5e5, 4e6, 20, 20, 16, North, WGS-84}"}).in_envi()
    {'map info': '{UTM, 1, 1, 5e5, 4e6, 20, 20, 16, North, WGS-84}'}
    """

    source: str = ""
    envi: Mapping[str, str] = field(default_factory=dict)
    crs: str = ""
    transform: tuple[float, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether the file says where the scene lies."""
        return bool(self.envi or self.transform)

    def in_envi(self) -> dict[str, str]:
        """Return the fields of an ENVI header; none if they could not say it exactly."""
        if self.envi or not self.transform:
            return dict(self.envi)
        with parsing(Path(self.source), "a georeference", "write a GeoTIFF instead (.tif)"):
            found: dict[str, str] = call(_TO_ENVI, Path(self.source), self.crs, list(self.transform))
        return found

    def in_geotiff(self) -> tuple[str, tuple[float, ...]]:
        """Return coordinate system (WKT) and transform, "" and () if there are none; needs rasterio for ENVI."""
        if self.transform or not self.envi:
            return self.crs, self.transform
        with parsing(Path(self.source), "a georeference", 'correct "map info" in its header, or write a map as .hdr'):
            crs, transform = call(_TO_GEOTIFF, Path(self.source), dict(self.envi))
        return crs, tuple(transform)


class Placement(NamedTuple):
    """Row and column of a scene at which a ground truth begins, and the steps, 1 or -1, in which it is read."""

    first: tuple[int, int]
    steps: tuple[int, int]

    def placed(self, pixels: Array, shape: tuple[int, ...], fill: Any) -> Array:
        """Return the pixels of a ground truth where the scene, of this shape, has them."""
        turned = pixels[:: self.steps[0], :: self.steps[1]]
        inside, taken = [], []
        for first, length, own in zip(self.first, shape, turned.shape, strict=False):
            inside.append(slice(max(first, 0), min(length, first + own)))
            taken.append(slice(max(-first, 0), min(own, length - first)))
        kind = np.result_type(pixels.dtype, np.min_scalar_type(fill))
        whole = np.full((*shape, *pixels.shape[2:]), fill, kind)
        whole[tuple(inside)] = turned[tuple(taken)]
        return whole

    @property
    def words(self) -> str:
        """What is done to a ground truth: moved and flipped."""
        names = (("row", "down", "up"), ("column", "to the right", "to the left"))
        moved = [
            f"moved {counted(abs(by), name)} {after if by > 0 else before}"
            for by, (name, after, before) in zip(self.first, names, strict=True)
            if by
        ]
        flipped = [f"{name}s reversed" for step, (name, *_) in zip(self.steps, names, strict=True) if step < 0]
        return " and ".join([*flipped, *moved])


def placement(
    scene: Georeference, shape: tuple[int, ...], truth: Georeference, size: tuple[int, ...]
) -> Placement | None:
    """Return where a ground truth of some rows and columns lies in a scene; None if one of them does not say where.

    Raises `BadFileError` unless it lies on the scene's grid of pixels and overlaps it.
    """
    grids = _grids(scene, truth)
    if grids is None:
        return None
    if not np.isfinite(grids).all() or not np.linalg.det(grids[0]):
        raise _elsewhere(scene, truth, f"{_spoken(grids[0])}, and {_spoken(grids[1])}")
    between = np.linalg.inv(grids[0]) @ grids[1]  # from columns and rows of the ground truth to those of the scene
    rows, columns = size[:2]
    corners = between @ [[0, columns], [0, rows], [1, 1]]
    near = np.rint(corners)
    steps = np.rint(np.diag(between)[:2]).astype(int)
    straight = np.abs(between[:2, :2] - np.diag(steps)) @ [columns, rows]
    if set(np.abs(steps)) != {1} or max(np.abs(corners - near).max(), straight.max()) > _ROUNDING:
        raise _elsewhere(scene, truth, f"{_spoken(grids[0])}, and {_spoken(grids[1])}")
    left, top = near[:2].min(axis=1).astype(int).tolist()
    if not (-rows < top < shape[0] and -columns < left < shape[1]):
        raise _elsewhere(
            scene, truth, f"it begins {top} rows below and {left} columns right of it, where nothing overlaps"
        )
    return Placement((top, left), (int(steps[1]), int(steps[0])))


def _grids(scene: Georeference, truth: Georeference) -> tuple[FloatArray, FloatArray] | None:
    """Return the matrices from column and row to a place in the same system; None if one of them is not known."""
    if not (scene.is_known and truth.is_known):
        return None
    nowhere: tuple[str, tuple[float, ...]] = ("", ())
    (system, grid), (other, other_grid) = (envi.place_of(one.envi) or nowhere for one in (scene, truth))
    if find_spec("rasterio") is not None and not (grid and other_grid and system == other):
        (system, grid), (other, other_grid) = (one.in_geotiff() for one in (scene, truth))
        if system and other and system != other and call(_SAME_SYSTEM, Path(scene.source), system, other):
            other = system
    if not (grid and other_grid):
        return None
    if system and other and system != other:
        raise _elsewhere(scene, truth, "their coordinate systems differ")
    matrix, other_matrix = (np.array([*one, 0, 0, 1], np.float64).reshape(3, 3) for one in (grid, other_grid))
    return matrix, other_matrix


def _spoken(grid: FloatArray) -> str:
    (a, b, x), (c, d, y) = grid[:2].tolist()
    return f"pixels of {a:.6g} x {d:.6g}{f' (turned by {b:.3g}, {c:.3g})' if b or c else ''} from {x:.10g}, {y:.10g}"


def _elsewhere(scene: Georeference, truth: Georeference, why: str) -> BadFileError:
    return BadFileError(
        f"{truth.source}: a ground truth must have the pixels of its scene, {scene.source}, but for whole rows and "
        f"columns: {why}. Warp it to the grid of the scene (gdalwarp -r near -te ... -ts ...), or correct its place"
    )
