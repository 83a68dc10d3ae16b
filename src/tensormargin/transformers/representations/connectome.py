"""Connectivity matrices."""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np

from ...data import Axes, Axis, Metadata
from ...runtime import Array, FloatArray, as_like
from ..preparation._base import checked_choice
from ..preparation._passes import reduced
from .base import Representation, as_double
from .covariances import pair_axis
from .symmetric import of_eigenvalues, riemannian_mean, tangent_vectors, triangle

_ALMOST = 1.0 - 1e-7  # a correlation of 1 has no Fisher transform
_ROUNDING = 1e-5
_SMALLEST = 1e-6  # eigenvalue of a correlation matrix in the tangent space


class Connectome(Representation):
    """Turn correlations between regions into symmetric matrices of Fisher's z.

    The weight on symmetric matrices is symmetric, and a low-rank weight is a sum of a few networks.

    Parameters
    ----------
    source : {"matrix", "series", "triangle"}, default="matrix"
        What samples are: symmetric region x region matrices of correlations; region x time series, whose correlations
        are computed; or vectors of the correlations above the diagonal, row by row.
    fisher : bool, default=True
        Whether to replace correlations r by ``arctanh(r)``. Leave it out for values that are transformed already.
    vectorize : bool, default=False
        Whether to return the entries above the diagonal as vectors, multiplied by the root of 2. A weight without a low
        rank is the same either way, since scores and norms are.
    tangent : bool, default=False
        Whether to map the correlation matrices to the tangent space of their Riemannian mean over the training samples
        instead, which takes all correlations into account for each of them. Then ``fisher`` does not matter, and
        vectors include the diagonal.

    Attributes
    ----------
    n_regions_ : int
    reference_ : ndarray of shape (n_regions, n_regions) or None
        The mean, for ``tangent``.
    sample_shape_in_, sample_shape_out_ : tuple of int
        The diagonal of matrices is zero, except in the tangent space.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import Connectome
    >>> X = np.random.default_rng(0).normal(size=(20, 6, 100))
    >>> Connectome("series").fit_transform(X).shape
    (20, 6, 6)
    >>> Connectome("triangle").fit_transform(np.zeros((20, 15))).shape
    (20, 6, 6)
    """

    def __init__(
        self, source: str = "matrix", fisher: bool = True, vectorize: bool = False, tangent: bool = False
    ) -> None:
        self.source = source
        self.fisher = fisher
        self.vectorize = vectorize
        self.tangent = tangent

    def _learn(self, X: Any, metadata: Metadata) -> tuple[int, ...]:
        checked_choice(self.source, "source", ("matrix", "series", "triangle"))
        self.n_regions_ = self._regions(tuple(int(size) for size in X.shape[1:]))
        pairs = self.n_regions_ * (self.n_regions_ + (1 if self.tangent else -1)) // 2
        self.reference_ = None
        if self.tangent:
            (matrices,) = reduced(X, self._correlations_of, lambda one, other: (np.concatenate([one[0], other[0]]),))
            self.reference_ = as_like(riemannian_mean(matrices), X)
        return (pairs,) if self.vectorize else (self.n_regions_, self.n_regions_)

    def _regions(self, shape: tuple[int, ...]) -> int:
        if self.source == "triangle":
            size = (1 + isqrt(1 + 8 * shape[0])) // 2
            if len(shape) == 1 and size * (size - 1) // 2 == shape[0]:
                return size
            rule = 'source="triangle" needs vectors of r (r - 1) / 2 entries for r regions'
        elif len(shape) == 2 and shape[0] > 1 and (self.source == "series" or shape[0] == shape[1]):
            return shape[0]
        else:
            kind = "region x time" if self.source == "series" else "region x region, symmetric"
            rule = f'source="{self.source}" needs matrices, {kind}, of at least two regions'
        raise ValueError(
            f"{rule}; got samples of shape {shape}, n_features = {shape[0]}. Reshape them, or name another"
        )

    def _represent(self, part: FloatArray) -> Array:
        if self.tangent:
            matrices = tangent_vectors(*self._correlations_of(part), as_double(self.reference_))
            return triangle(matrices) if self.vectorize else matrices
        matrices = self._matrices(part) * (1.0 - np.eye(self.n_regions_))
        matrices = _fisher(matrices) if self.fisher else matrices
        if not self.vectorize:
            return matrices
        return triangle(matrices)[:, np.not_equal(*np.triu_indices(self.n_regions_))]

    def _correlations_of(self, part: Any) -> tuple[FloatArray]:
        """Return correlation matrices, with ones on the diagonal and eigenvalues above zero."""
        eye = np.eye(self.n_regions_)
        matrices = self._matrices(as_double(part)) * (1.0 - eye) + eye
        return (of_eigenvalues(matrices, lambda values: np.maximum(values, _SMALLEST)),)

    def _matrices(self, part: FloatArray) -> FloatArray:
        """Return symmetric matrices of correlations, whatever their diagonal."""
        if self.source == "series":
            matrices = _correlations(part)
        elif self.source == "matrix":
            matrices = _symmetric(part)
        else:
            matrices = np.zeros((len(part), self.n_regions_, self.n_regions_))
            rows, columns = np.triu_indices(self.n_regions_, 1)
            matrices[:, rows, columns] = matrices[:, columns, rows] = part
        return matrices

    def _axes_out(self, axes: Axes) -> Axes:
        region = axes[0] if self.source != "triangle" else Axis()
        region = region if region.name else Axis("region", region.unit, region.values)
        return (pair_axis(region, self.tangent),) if self.vectorize else (region, region)

    @property
    def makes_features(self) -> bool:
        return self.vectorize

    def words(self) -> str:
        what = {"series": "series", "matrix": "matrices", "triangle": "vectors"}[self.source]
        kind = "Fisher's z of correlations" if self.fisher else "connectivity"
        kind = "correlations, in the tangent space of their mean over the training samples," if self.tangent else kind
        return f"{what} were turned into symmetric matrices of {kind} between regions"

    def brief(self) -> str:
        return "tangent space of correlations" if self.tangent else "Fisher's z" if self.fisher else "connectivity"


def _correlations(part: FloatArray) -> FloatArray:
    """Return the correlations of regions; those of a constant region are zero."""
    centred = part - part.mean(axis=2, keepdims=True)
    norms = np.linalg.norm(centred, axis=2, keepdims=True)
    varies = norms > 1e-12 * np.abs(part).max(axis=2, keepdims=True, initial=0.0)
    rows = np.where(varies, centred, 0.0) / np.where(varies, norms, 1.0)
    return rows @ np.swapaxes(rows, 1, 2)


def _symmetric(part: FloatArray) -> FloatArray:
    turned = np.swapaxes(part, 1, 2)
    apart = float(np.abs(part - turned).max(initial=0.0))
    if apart > _ROUNDING * float(np.abs(part).max(initial=1.0)):
        raise ValueError(
            f'source="matrix" needs symmetric matrices; got entries (i, j) and (j, i) that differ by {apart:.3g}. Pass '
            "X + X.transpose(0, 2, 1), or use the matrices without Connectome"
        )
    return (part + turned) / 2


def _fisher(matrices: FloatArray) -> FloatArray:
    largest = float(np.abs(matrices).max(initial=0.0))
    if largest > 1.0 + _ROUNDING:
        raise ValueError(
            f"fisher=True needs correlations from -1 to 1; got values of up to {largest:.3g}. Use fisher=False for "
            "values that are transformed already"
        )
    return np.arctanh(np.clip(matrices, -_ALMOST, _ALMOST))
