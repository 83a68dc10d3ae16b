"""The unstructured weight: one block, so one convex solve (SVM and LMDM on flattened samples)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ...runtime import Array, FloatArray
from ..contractions import Contraction
from .base import Block, Rank, Weight


class FullWeight(Weight):
    """A dense weight tensor."""

    name = "full"
    container = "ndarray"

    def __init__(self, tensor: Array) -> None:
        self.tensor = np.asarray(tensor, np.float64)
        self.shape = self.tensor.shape

    @classmethod
    def valid_rank(cls, rank: Rank, shape: tuple[int, ...]) -> Rank:
        return None  # whatever is requested, as SVC's linear kernel ignores gamma

    @classmethod
    def from_dense(cls, tensor: Array, rank: Rank, rng: np.random.RandomState) -> Self:
        return cls(tensor)

    @classmethod
    def from_tensorly(cls, tensor: Any, shape: tuple[int, ...]) -> Self:
        return cls(tensor)

    def to_tensorly(self, dtype: npt.DTypeLike = np.float64) -> Array:
        return self.tensor.astype(dtype)

    def _expanded(self) -> FloatArray:
        return self.tensor

    @property
    def block_names(self) -> tuple[str, ...]:
        return ("weight",)

    def block(self, index: int) -> Block:
        return Block(
            vector=self.tensor.ravel(),
            contraction=Contraction("tail", (), self.tensor.size, np.ones((1, 1, 1))),
            replace=lambda vector: type(self)(vector.reshape(self.shape)),
        )

    def core_and_factors(self) -> tuple[Array, list[Array]]:
        """Return the entries as a core without factors, for one of several views."""
        return self.tensor.ravel(), []

    def with_core(self, core: Array, factors: list[Array]) -> FullWeight:
        return type(self)(core.reshape(self.shape))

    @property
    def rank(self) -> Rank:
        return None

    @property
    def n_parameters(self) -> int:
        return self.tensor.size
