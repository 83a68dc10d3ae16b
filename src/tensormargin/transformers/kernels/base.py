"""What a kernel of tensors is: a representation of every sample, and values for blocks of pairs of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from ...runtime import Array, FloatArray


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
        self.shape = shape
        self.rank = rank
        self.gamma = gamma
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
