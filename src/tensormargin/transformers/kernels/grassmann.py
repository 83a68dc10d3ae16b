"""The Grassmann kernel (Signoretto, De Lathauwer and Suykens 2011): distances of subspaces of the unfoldings."""

from __future__ import annotations

from math import prod

import numpy as np

from ...runtime import Array, FloatArray
from .base import Kernel, decaying


class Grassmann(Kernel):
    """``prod_m exp(-gamma |P_m(X) - P_m(Y)|^2)``.

    P_m projects on the leading right singular subspace of the mode-m unfolding, of dimension ``rank`` or less. No
    projector is formed: ``|P - Q|^2 = 2k - 2 |U'V|^2`` for orthonormal bases U and V. The kernel does not depend on the
    scale of the samples, and its factor of mode m not on rotations of that mode.

    A representation has the bases of all modes beside each other, of shape (k, sum of their lengths); shorter bases
    are filled up with zeros.
    """

    words = "Grassmann kernel"

    def represent(self, X: Array) -> Array:
        """Return the bases of the subspaces."""
        bases = [right_subspaces(X, mode, self.rank) for mode in range(X.ndim - 1)]
        most = max(basis.shape[1] for basis in bases)
        return np.concatenate([_filled_up(basis, most) for basis in bases], axis=2)

    def _modes(self, rows: Array) -> list[Array]:
        """Return the bases of each mode."""
        lengths = [prod(self.shape) // size for size in self.shape]
        return np.split(rows, np.cumsum(lengths)[:-1].tolist(), axis=2)

    def block(self, rows: Array, landmarks: Array) -> FloatArray:
        """Return the values of all pairs."""
        exponents = np.zeros((len(rows), len(landmarks)))
        for own, other in zip(self._modes(rows), self._modes(landmarks), strict=True):
            dimensions = _dimensions(own)[:, None] + _dimensions(other)
            exponents += dimensions - 2.0 * _squared_overlaps(own, other)
        return decaying(np.maximum(exponents, 0.0, out=exponents), self.gamma)

    def diagonal(self, rows: Array) -> FloatArray:
        """Return ones."""
        return np.ones(len(rows))

    def entries_per_pair(self, rows: Array) -> int:
        """Return the number of pairs of basis vectors."""
        return int(rows.shape[1]) ** 2

    def squared_distance(self, rows: Array, others: Array) -> float:
        """Return the mean of the squared distances, summed over the modes."""
        total = 0.0
        for own, other in zip(self._modes(rows), self._modes(others), strict=True):
            overlaps = np.sum((own @ other.transpose(0, 2, 1)) ** 2, axis=(1, 2))
            total += float(np.mean(_dimensions(own) + _dimensions(other) - 2.0 * overlaps))
        return total


def right_subspaces(X: Array, mode: int, rank: int) -> FloatArray:
    """Return orthonormal bases of the leading right singular subspaces of the unfoldings, of shape (n, k, length).

    Vectors of singular values that are zero are left out (zero): they would be arbitrary.
    """
    size, others = X.shape[mode + 1], prod(X.shape[1:]) // X.shape[mode + 1]
    unfolded = np.moveaxis(X, mode + 1, 1).reshape(len(X), size, others).astype(np.float64, copy=False)
    k = min(rank, size, others)
    _, values, right = np.linalg.svd(unfolded, full_matrices=False)
    kept = values[:, :k] > values[:, :1] * max(size, others) * np.finfo(np.float64).eps
    return right[:, :k] * kept[:, :, None]


def _filled_up(basis: FloatArray, most: int) -> FloatArray:
    return np.pad(basis, ((0, 0), (0, most - basis.shape[1]), (0, 0)))


def _dimensions(bases: FloatArray) -> FloatArray:
    """Return the dimensions of subspaces."""
    return np.einsum("nkd,nkd->n", bases, bases)


def _squared_overlaps(own: FloatArray, other: FloatArray) -> FloatArray:
    """Return ``|U'V|^2`` for all pairs of bases."""
    products = own.reshape(-1, own.shape[2]) @ other.reshape(-1, other.shape[2]).T
    products *= products
    return products.reshape(*own.shape[:2], *other.shape[:2]).sum(axis=(1, 3))
