"""What every format of the weight tensor offers to the sweep loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from .._typing import Array, FloatArray
from ..contractions import Contraction

Rank = int | tuple[int, ...] | None


@dataclass(frozen=True)
class Block:
    """One free part of a weight, in a gauge where it carries the weight's whole norm.

    Attributes
    ----------
    vector : ndarray of shape (d,)
        ``v`` with ``|v| = ||W||_F`` (Eq. 8).
    contraction : Contraction
        Makes of samples the N x d matrix with ``design @ v = <W, Z_i>`` (Eq. 9).
    replace : callable
        Maps a new ``v`` to the weight that has it in this block.
    """

    vector: FloatArray
    contraction: Contraction
    replace: Callable[[Array], Weight]


class Weight(ABC):
    """A weight tensor in some format; immutable, and ignorant of labels."""

    name: ClassVar[str]
    container: ClassVar[str]  # the type that `to_tensorly` returns
    shape: tuple[int, ...]

    @classmethod
    @abstractmethod
    def valid_rank(cls, rank: Rank, shape: tuple[int, ...]) -> Rank:
        """Return the complete rank for samples of this shape: the largest valid one not above ``rank``.

        None stands for the default. What is no rank at all (zero, negative, the wrong number of numbers) raises
        ValueError.
        """

    @classmethod
    @abstractmethod
    def from_dense(cls, tensor: Array, rank: Rank, rng: np.random.RandomState) -> Self:
        """Approximate a dense tensor by truncated singular value decompositions of its unfoldings."""

    @classmethod
    @abstractmethod
    def from_tensorly(cls, tensor: Any, shape: tuple[int, ...]) -> Self:
        """Read back what `to_tensorly` gave for a weight of this shape."""

    @classmethod
    def wrote(cls, tensor: Any) -> bool:
        """Tell whether `to_tensorly` of a weight of this format returned ``tensor``."""
        return type(tensor).__name__ == cls.container

    @abstractmethod
    def to_tensorly(self, dtype: npt.DTypeLike = np.float64) -> Any:
        """Return the matching TensorLy container of arrays of this dtype, or an array for a full weight."""

    def to_dense(self) -> FloatArray:
        """Return the weight as an array of ``shape``, made once: not to be written to."""
        return self._dense

    @cached_property
    def _dense(self) -> FloatArray:
        return self._expanded()

    @abstractmethod
    def _expanded(self) -> FloatArray:
        """Make the array of ``shape``."""

    def coordinates(self) -> FloatArray:
        """Return a vector that moves little where the weight moves little, to extrapolate in."""
        return self.to_dense().ravel()

    def at_coordinates(self, vector: Array) -> Weight:
        """Return the weight of the same rank that is, or is near to, the one with these `coordinates`."""
        return self.from_dense(vector.reshape(self.shape), self.rank, np.random.RandomState(0))

    @property
    @abstractmethod
    def block_names(self) -> tuple[str, ...]:
        """Names of the blocks, in the order of a sweep, which may come back to a block."""

    @abstractmethod
    def block(self, index: int) -> Block:
        """Return one block with the gauge moved to it."""

    @property
    @abstractmethod
    def rank(self) -> Rank:
        """The complete rank, as `valid_rank` returns it."""

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Number of entries stored."""


def whole_number_rank(rank: Rank, what: str) -> None:
    """Raise for a rank that is not made of positive whole numbers."""
    entries = rank if isinstance(rank, tuple) else (rank,)
    for entry in entries:
        if isinstance(entry, bool) or not isinstance(entry, (int, np.integer)) or entry < 1:
            raise ValueError(f"rank must be {what}, all at least 1; got rank={rank!r}")


def numpy_backend() -> Any:
    """Return a context in which TensorLy's containers take NumPy arrays, whatever backend the user has chosen."""
    import tensorly

    return tensorly.backend_context("numpy", local_threadsafe=True)


def leading_vectors(tensor: Array, mode: int, count: int) -> FloatArray:
    """Return the ``count`` leading left singular vectors of the mode's unfolding; orthonormal even for a zero tensor.

    Works on the smaller side of the unfolding and completes the basis where the unfolding has too few directions.
    """
    unfolded = np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1)
    size = len(unfolded)
    if size <= unfolded.shape[1]:
        _, vectors = eigh(unfolded @ unfolded.T, subset_by_index=(size - count, size - 1))
        return vectors[:, ::-1]
    left, _, _ = np.linalg.svd(unfolded, full_matrices=False)
    if left.shape[1] < count:
        extra = np.random.RandomState(0).standard_normal((len(left), count - left.shape[1]))
        left, _ = np.linalg.qr(np.hstack([left, extra]))
    return left[:, :count]
