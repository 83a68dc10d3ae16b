"""Kernels: a representation of every sample, and values for blocks of pairs of them. Here those of vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ...runtime import Array, FloatArray

_PAIRS_FOR_DIAGONAL = 16  # samples per call of a function, of whose n^2 values n are used


class Kernel(ABC):
    """A positive semi-definite function of two samples.

    Samples are first represented one by one (by vectors, bases of subspaces or components), in blocks of any size: the
    representation of a sample does not depend on the others. Values are then computed for all pairs of a block.

    Parameters
    ----------
    shape : tuple of int
        Shape of a sample.
    rank : int
        Upper bound of the number of components or of the dimension of subspaces; what the samples do not allow is
        lowered. Ignored by kernels without such a number.
    gamma : float
        Width of the kernel, for kernels that have one.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import KERNELS
    >>> kernel = KERNELS["rbf"]((4, 5), gamma=0.1)
    >>> rows = kernel.represent(np.random.default_rng(0).standard_normal((6, 4, 5)))
    >>> kernel.block(rows, rows).shape
    (6, 6)
    >>> bool(np.allclose(kernel.diagonal(rows), 1))
    True
    """

    words: ClassVar[str]
    """Name of the kernel in text."""
    has_gamma: ClassVar[bool] = True

    def __init__(self, shape: tuple[int, ...], rank: int = 1, gamma: float = 1.0) -> None:
        self.shape, self.rank, self.gamma = shape, rank, gamma
        self.dtype: np.dtype[Any] = np.dtype(np.float64)  # of the values; kernels of vectors can be computed in float32

    def check(self, X: Any) -> None:  # noqa: B027 - most kernels take any samples
        """Raise ValueError if training samples do not suit the kernel."""

    @abstractmethod
    def represent(self, X: Array) -> Array:
        """Return the representations of samples, one per row."""

    @abstractmethod
    def block(self, rows: Array, landmarks: Array) -> FloatArray:
        """Return the values of all pairs of a represented sample and a landmark, of shape (n_rows, n_landmarks)."""

    @abstractmethod
    def diagonal(self, rows: Array) -> FloatArray:
        """Return the value of each represented sample with itself."""

    def landmarks(self, rows: Array, chosen: Array) -> Array:
        """Return what has to be kept of some of the training samples, given by their positions."""
        return rows[chosen]

    def entries_per_pair(self, rows: Array) -> int:
        """Return the number of intermediate numbers per value of a block, which limits the size of blocks."""
        return 1

    def squared_distance(self, rows: Array, others: Array) -> float:
        """Return the mean squared distance of pairs of samples, the unit of ``1 / gamma``."""
        raise NotImplementedError


class RBF(Kernel):
    """``exp(-gamma |x - y|^2)``."""

    words = "RBF kernel"

    def represent(self, X: Array) -> Array:
        return X.reshape(len(X), -1).astype(self.dtype, copy=False)

    def block(self, rows: Array, landmarks: Array) -> FloatArray:
        return decaying(squared_distances(rows, landmarks.astype(self.dtype, copy=False)), self.gamma)

    def diagonal(self, rows: Array) -> FloatArray:
        return np.ones(len(rows))

    def squared_distance(self, rows: Array, others: Array) -> float:
        """Return the mean squared distance of pairs of vectors."""
        return float(np.mean(np.sum((rows - others) ** 2, axis=1)))


class Linear(RBF):
    """``<x, y>``: behind it, a flat classifier is the one on the samples themselves."""

    words = "linear kernel"
    has_gamma: ClassVar[bool] = False

    def block(self, rows: Array, landmarks: Array) -> FloatArray:
        return rows @ landmarks.T

    def diagonal(self, rows: Array) -> FloatArray:
        return np.einsum("nd,nd->n", rows, rows)


class Function(Kernel):
    """A function of two arrays of samples that returns the values of all pairs."""

    words = "kernel"
    has_gamma: ClassVar[bool] = False

    def __init__(self, shape: tuple[int, ...], function: Callable[[Array, Array], Any]) -> None:
        super().__init__(shape)
        self.function = function

    def represent(self, X: Array) -> Array:
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
        return X.astype(np.float64, copy=False)

    def landmarks(self, rows: Array, chosen: Array) -> Array:
        return chosen

    def block(self, rows: Array, landmarks: Array) -> FloatArray:
        return rows[:, landmarks]

    def diagonal(self, rows: Array) -> FloatArray:
        return np.diagonal(rows).copy()


def squared_distances(rows: Array, columns: Array) -> Array:
    """Return the squared Euclidean distances of all pairs of vectors, never negative.

    Both are shifted by the mean of the columns, so that a common offset does not cost precision.
    """
    centre = columns.mean(axis=0, dtype=np.float64).astype(columns.dtype)
    rows, columns = rows - centre, columns - centre
    out = rows @ columns.T
    out *= -2.0
    out += np.einsum("nd,nd->n", rows, rows)[:, None]
    out += np.einsum("nd,nd->n", columns, columns)
    return np.maximum(out, 0.0, out=out)


def decaying(exponents: Array, gamma: float) -> Array:
    """Return ``exp(-gamma exponents)``, in place."""
    exponents *= -float(gamma)
    return np.exp(exponents, out=exponents)
