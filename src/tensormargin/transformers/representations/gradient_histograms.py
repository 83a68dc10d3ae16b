"""Histograms of the directions of gradients in the cells of a picture, as a tensor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from ...data import Axes, Axis, Metadata, fitted
from ...runtime import Array, FloatArray
from ..preparation._base import checked_count
from .base import Representation

_FLOOR = 1e-2  # energy of a flat neighbourhood, relative to the mean over the picture
_AROUND = 3  # cells of a neighbourhood, in both modes


@fitted.attributes(_axes=fitted.tuple_of(*[fitted.whole(1, "sample_shape_in_")] * 2))
@dataclass(eq=False, repr=False)
class GradientHistograms(Representation):
    """Replace pixels by histograms of the directions of gradients: row of cells x column of cells x direction.

    Histograms of oriented gradients (HOG; Dalal and Triggs 2005). The gradient at a pixel votes, weighted by its
    length, for the two closest directions and the closest cells, linearly interpolated. A histogram is divided by the
    root mean square of the 3 x 3 cells around it, so that contrast and brightness do not matter, and its square roots
    are taken. Votes of all other modes, such as colours, are added up.

    Parameters
    ----------
    n_cells : int, default=7
        Number of cells along both modes, at most one per pixel.
    n_directions : int, default=8
        Number of directions around the circle.
    modes : tuple of two int or str, default=(-2, -1)
        The modes of rows and columns, counted from 0 (negative numbers count from the last), or their names.
    vectorize : bool, default=False
        Return the features as vectors, for a flat weight.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import GradientHistograms
    >>> X = np.random.default_rng(0).normal(size=(10, 28, 28))
    >>> GradientHistograms().fit_transform(X).shape
    (10, 7, 7, 8)
    >>> GradientHistograms(4, modes=(0, 1), vectorize=True).fit_transform(X[:, :, :20, None]).shape
    (10, 128)
    """

    n_cells: int = 7
    n_directions: int = 8
    modes: tuple[int | str, ...] = (-2, -1)
    vectorize: bool = False

    makes_features = True
    _mode_parameters: ClassVar[tuple[str, ...]] = ("modes",)

    def _learn(self, X: Any, metadata: Metadata) -> None:
        rule = f"modes must be two different modes of the samples, rows and columns; got modes={self.modes!r}"
        if not isinstance(self.modes, tuple | list) or len(self.modes) != 2 or X.ndim < 3:
            raise ValueError(f"{rule} for samples of {X.ndim - 1} modes")
        rows, columns = (self._mode(one, X.ndim - 1, "modes") for one in self.modes)
        if rows == columns:
            raise ValueError(f"{rule}, which are the same")
        self._axes = rows + 1, columns + 1
        checked_count(self.n_cells, "n_cells")
        checked_count(self.n_directions, "n_directions", 2)

    def _shape_out(self) -> tuple[int, ...]:
        cells = (min(int(self.n_cells), self.sample_shape_in_[axis - 1]) for axis in self._axes)
        shape = (*cells, int(self.n_directions))
        return (prod(shape),) if self.vectorize else shape

    def _fits(self) -> dict[str, Any]:
        return {"_axes": len(set(self._axes)) == 2, **super()._fits()}

    def _represent(self, part: FloatArray) -> Array:
        pictures = np.moveaxis(part, self._axes, (-2, -1))
        pictures = pictures.reshape(len(part), -1, *pictures.shape[-2:])
        largest = np.abs(pictures).max(axis=(1, 2, 3), keepdims=True)
        down, across = _gradients(pictures / np.where(largest > 0, largest, 1.0))
        rows, columns = (_shares_of_cells(size, int(self.n_cells)) for size in pictures.shape[-2:])
        votes = (rows @ one @ columns.T for one in _votes(down, across, int(self.n_directions)))
        return _normalized(np.stack(list(votes), axis=-1)).reshape(len(part), *self.sample_shape_out_)

    def _axes_out(self, axes: Axes) -> Axes:
        if self.vectorize:
            return (Axis("feature"),)
        where = (axes[axis - 1].name or name for axis, name in zip(self._axes, ("row", "column"), strict=True))
        angles = np.arange(int(self.n_directions)) * 360.0 / int(self.n_directions)
        return (*(Axis(f"cell along {name}") for name in where), Axis("direction", "degrees", angles))

    def words(self) -> str:
        cells = f"{self.n_cells} x {self.n_cells} cells"
        return f"pixels were replaced by histograms of {self.n_directions} directions of gradients in {cells}"

    def brief(self) -> str:
        return f"histograms of gradients in {self.n_cells} x {self.n_cells} cells"


def _gradients(pictures: FloatArray) -> tuple[Array, Array]:
    """Return half the differences between the next and the last pixel in both modes, those at an edge to itself."""
    around = np.pad(pictures, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge") / 2
    down = around[..., 2:, 1:-1] - around[..., :-2, 1:-1]
    across = around[..., 1:-1, 2:] - around[..., 1:-1, :-2]
    return down, across


def _votes(down: Array, across: Array, n_directions: int) -> Iterator[Array]:
    """Yield the votes of all pixels for each direction, added up over all but the modes of the picture."""
    length = np.hypot(down, across)
    place = np.arctan2(down, across) * (n_directions / (2 * np.pi)) % n_directions
    below = np.floor(place)
    above = length * (place - below)
    below %= n_directions  # rounding may have led to the end, which is the beginning
    length -= above
    for direction in range(n_directions):
        before = (direction - 1) % n_directions
        yield (np.where(below == direction, length, 0.0) + np.where(below == before, above, 0.0)).sum(axis=1)


def _shares_of_cells(size: int, n_cells: int) -> FloatArray:
    """Return how much each pixel along a mode counts for each cell: all in its centre, nothing from the next on."""
    count = min(n_cells, size)
    width = size / count
    centres = (np.arange(count) + 0.5) * width
    return np.maximum(0.0, 1.0 - np.abs(np.arange(size) + 0.5 - centres[:, None]) / width)


def _normalized(histograms: FloatArray) -> FloatArray:
    """Return the square roots of histograms relative to those around them."""
    energy = np.square(histograms).sum(axis=-1)
    margin = _AROUND // 2
    around = np.pad(energy, ((0, 0), (margin, margin), (margin, margin)), mode="edge")
    near = np.lib.stride_tricks.sliding_window_view(around, (_AROUND, _AROUND), (1, 2)).mean(axis=(-2, -1))
    near += _FLOOR * energy.mean(axis=(1, 2), keepdims=True)
    return np.sqrt(histograms / np.sqrt(np.where(near > 0, near, 1.0))[..., None])
