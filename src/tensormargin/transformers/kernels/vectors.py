"""Kernels of samples as vectors: RBF, linear, a function, and kernel matrices that were computed before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ...runtime import Array, FloatArray
from .base import Kernel, decaying, squared_distances

_PAIRS_FOR_DIAGONAL = 16  # samples per call of a function, of whose n^2 values n are used


class RBF(Kernel):
    """``exp(-gamma |x - y|^2)``."""

    words = "RBF kernel"

    def represent(self, X: Array) -> Array:
        """Return the samples as vectors."""
        return X.reshape(len(X), -1).astype(self.dtype, copy=False)

    def block(self, rows: Array, landmarks: Array) -> FloatArray:
        """Return the values of all pairs."""
        return decaying(squared_distances(rows, landmarks.astype(self.dtype, copy=False)), self.gamma)

    def diagonal(self, rows: Array) -> FloatArray:
        """Return ones."""
        return np.ones(len(rows))

    def squared_distance(self, rows: Array, others: Array) -> float:
        """Return the mean squared distance of pairs of vectors."""
        return float(np.mean(np.sum((rows - others) ** 2, axis=1)))


class Linear(RBF):
    """``<x, y>``: behind it, a flat classifier is the one on the samples themselves."""

    words = "linear kernel"
    has_gamma: ClassVar[bool] = False

    def block(self, rows: Array, landmarks: Array) -> FloatArray:
        """Return the inner products of all pairs."""
        return rows @ landmarks.T

    def diagonal(self, rows: Array) -> FloatArray:
        """Return the squared norms."""
        return np.einsum("nd,nd->n", rows, rows)


class Function(Kernel):
    """A function of two arrays of samples that returns the values of all pairs."""

    words = "kernel"
    has_gamma: ClassVar[bool] = False

    def __init__(self, shape: tuple[int, ...], function: Callable[[Array, Array], Any]) -> None:
        super().__init__(shape)
        self.function = function

    def represent(self, X: Array) -> Array:
        """Return the samples as they are."""
        return X

    def block(self, rows: Array, landmarks: Array) -> FloatArray:
        """Return what the function returns; raise ValueError if it is not one number per pair."""
        values = np.asarray(self.function(rows, landmarks), np.float64)
        if values.shape != (len(rows), len(landmarks)):
            raise ValueError(
                f"kernel(X, Y) must return an array of shape (n_samples_X, n_samples_Y); got {values.shape} for "
                f"{len(rows)} and {len(landmarks)} samples. Return one value per pair"
            )
        return values

    def diagonal(self, rows: Array) -> FloatArray:
        """Return the value of each sample with itself."""
        step = _PAIRS_FOR_DIAGONAL
        parts = [rows[begin : begin + step] for begin in range(0, len(rows), step)]
        return np.concatenate([np.empty(0), *(np.diagonal(self.block(part, part)) for part in parts)])


class Precomputed(Kernel):
    """A kernel matrix: row i of X has the values of sample i with all training samples."""

    words = "precomputed kernel"
    has_gamma: ClassVar[bool] = False

    def check(self, X: Any) -> None:
        """Raise ValueError unless the matrix is square and symmetric."""
        if X.ndim != 2 or X.shape[0] != X.shape[1]:
            raise ValueError(
                'kernel="precomputed" needs the square matrix of the values of all pairs of training samples; got X '
                f"of shape {tuple(X.shape)}. Pass K(train, train) to fit and K(new, train) to transform"
            )
        scale = float(np.max(np.abs(X), initial=0.0))
        if not np.allclose(X, X.T, rtol=0.0, atol=1e-6 * scale):
            apart = float(np.max(np.abs(X - X.T)))
            raise ValueError(
                f"a kernel matrix must be symmetric; K and K.T differ by up to {apart:.3g}. Pass (K + K.T) / 2 if that "
                "is rounding"
            )

    def represent(self, X: Array) -> Array:
        """Return the rows of the matrix."""
        return X.astype(np.float64, copy=False)

    def landmarks(self, rows: Array, chosen: Array) -> Array:
        """Return the columns to take."""
        return chosen

    def block(self, rows: Array, landmarks: Array) -> FloatArray:
        """Return the columns of the landmarks."""
        return rows[:, landmarks]

    def diagonal(self, rows: Array) -> FloatArray:
        """Return the diagonal of the training samples' matrix."""
        return np.diagonal(rows).copy()
