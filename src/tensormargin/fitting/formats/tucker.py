"""Tucker: a small core tensor multiplied by one factor matrix per mode.

Gauge: all factors have orthonormal columns. Then the core has the norm of the weight, and for factor m the LQ
decomposition of the core's unfolding, ``F_(m) = L Q``, moves the norm into ``V_m L``. This is the paper's ``V_m A^1/2``
(Eq. 8) without a matrix square root, so a rank-deficient core is no special case.

A sweep starts with the core: the first solve then gives the best weight in the subspaces that the start spans, and no
factor is fitted with a core that has not been fitted itself (MNIST 3 against 8: 9 sweeps instead of 15). A square
factor is not a block: it is invertible, so the core can absorb any change of it (MNIST as 7x4x7x4 with rank 4: 3 blocks
instead of 5).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace as replaced
from math import prod
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ...runtime import Array, FloatArray
from ..contractions import Contraction, best_split
from .base import Block, Rank, Tangent, Weight, leading_vectors, numpy_backend, whole_number_ranks

_DEFAULT_RANK = 4
_ROUNDING = 1e-14


class TuckerWeight(Weight):
    """``W = core x_1 V_1 ... x_M V_M`` with orthonormal columns in every ``V_m``."""

    name = "tucker"
    container = "TuckerTensor"

    def __init__(self, core: Array, factors: list[Array]) -> None:
        self.core = core
        self.factors = factors
        self.shape = tuple(len(factor) for factor in factors)

    @classmethod
    def valid_rank(cls, rank: Rank, shape: tuple[int, ...]) -> tuple[int, ...]:
        ranks = whole_number_ranks(rank, _DEFAULT_RANK, len(shape), ", or one per mode")
        if len(ranks) != len(shape):
            raise ValueError(
                f"a Tucker rank has one number per mode: samples of shape {shape} need {len(shape)}, got rank={rank!r}"
            )
        lowered = [min(r, size) for r, size in zip(ranks, shape, strict=True)]
        for mode, _ in sorted(enumerate(lowered), key=lambda pair: -pair[1]):  # to at most the product of the others
            lowered[mode] = min(lowered[mode], prod(lowered[:mode] + lowered[mode + 1 :]))
        return tuple(lowered)

    @classmethod
    def from_dense(cls, tensor: Array, rank: Rank, rng: np.random.RandomState) -> Self:
        ranks = cls.valid_rank(rank, tensor.shape)
        if tensor.ndim == 2:  # a fifth of the time of two eigendecompositions, if small
            left, lengths, right = np.linalg.svd(tensor, full_matrices=False)
            count = ranks[0]  # of both modes
            return cls(np.diag(lengths[:count]), [left[:, :count], np.ascontiguousarray(right[:count].T)])
        factors = [leading_vectors(tensor, mode, count) for mode, count in enumerate(ranks)]
        return cls(_multiply(tensor, enumerate(factor.T for factor in factors)), factors)

    @classmethod
    def from_tensorly(cls, tensor: Any, shape: tuple[int, ...]) -> Self:
        core, factors = tensor[0], tensor[1][: len(shape)]
        core = np.asarray(core, np.float64).reshape([factor.shape[1] for factor in factors])
        bases = [np.asarray(factor, np.float64) for factor in factors]
        for mode, factor in enumerate(bases):
            if not _is_orthonormal(factor):
                bases[mode], triangle = np.linalg.qr(factor)
                core = _multiply(core, [(mode, triangle)])
        return cls(core, bases)

    def to_tensorly(self, dtype: npt.DTypeLike = np.float64) -> Any:
        from tensorly.tucker_tensor import TuckerTensor

        core, factors = self.core.astype(dtype), [factor.astype(dtype) for factor in self.factors]
        if len(factors) == 1:  # TensorLy requires two modes: a vector becomes a one-column matrix
            core, factors = core[:, None], [*factors, np.ones((1, 1), dtype)]
        with numpy_backend():
            return TuckerTensor((core, factors))

    def _expanded(self) -> FloatArray:
        return _multiply(self.core, enumerate(self.factors))

    @property
    def block_names(self) -> tuple[str, ...]:
        return tuple("core" if mode is None else f"factor {mode + 1}" for mode in self._order)

    def block(self, index: int) -> Block:
        mode = self._order[index]
        return self._core_block() if mode is None else self._factor_block(mode)

    @property
    def _order(self) -> list[int | None]:
        """The blocks of a sweep in order: modes, and None for the core."""
        return [None, *(mode for mode in reversed(range(len(self.shape))) if self.core.shape[mode] < self.shape[mode])]

    @property
    def rank(self) -> tuple[int, ...]:
        return self.core.shape

    @property
    def n_parameters(self) -> int:
        return self.core.size + sum(factor.size for factor in self.factors)

    def _core_block(self) -> Block:
        split = best_split(self.shape)
        tail: Array = np.ones((1, 1))
        for factor in self.factors[split:]:
            tail = np.kron(tail, factor)
        return Block(
            vector=self.core.ravel(),
            contraction=Contraction("head", tuple(self.factors[:split]), prod(self.core.shape[:split]), tail[None]),
            replace=lambda vector: type(self)(vector.reshape(self.core.shape), self.factors),
        )

    def _factor_block(self, mode: int) -> Block:
        size, count = self.factors[mode].shape
        rows, lower = np.linalg.qr(_unfolded(self.core, mode).T)  # F_(m) = L Q with L = lower.T and Q = rows.T
        others = _without(self.core.shape, mode)

        def replace(vector: Array) -> TuckerWeight:
            basis, triangle = np.linalg.qr(vector.reshape(size, count))
            core = np.moveaxis((triangle @ rows.T).reshape(count, *others), 0, mode)
            return type(self)(core, [basis if k == mode else f for k, f in enumerate(self.factors)])

        return Block((self.factors[mode] @ lower.T).ravel(), self._contraction(mode, rows), replace)

    @property
    def has_core(self) -> bool:
        return True

    def core_and_factors(self) -> tuple[Array, list[Array]]:
        return self.core, self.factors

    def with_core(self, core: Array, factors: list[Array]) -> TuckerWeight:
        return type(self)(core, factors)

    def refit(self) -> Block:
        return self._core_block()

    def tangent(self) -> Tangent:
        """Return the tangent space: any core, and changes of the factors away from their own span."""
        free = [mode for mode, count in enumerate(self.core.shape) if count < self.shape[mode]]
        rows = {mode: np.linalg.qr(_unfolded(self.core, mode).T)[0] for mode in free}
        parts = (replaced(self._contraction(mode, rows[mode]), removed=self.factors[mode]) for mode in free)
        sizes = [self.core.size, *(self.factors[mode].size for mode in free)]

        def changed(vector: Array) -> tuple[Array, dict[int, Array]]:
            core, *changes = np.split(vector, np.cumsum(sizes)[:-1])
            changes = [one.reshape(self.factors[mode].shape) for mode, one in zip(free, changes, strict=True)]
            return core.reshape(self.core.shape), dict(zip(free, changes, strict=True))

        def retract(vector: Array) -> TuckerWeight:
            core, changes = changed(vector)
            terms: list[tuple[int | None, Array, Array]] = [(None, core, self.factors[0])]
            for mode, change in changes.items():
                folded = np.moveaxis(rows[mode].T.reshape(-1, *_without(self.core.shape, mode)), 0, mode)
                terms.append((mode, folded, change))
            return self._nearest(terms)

        def bases(vector: Array) -> list[Array]:
            return [basis for basis, _ in self._widened(changed(vector)[1])]

        vector = np.concatenate([self.core.ravel(), np.zeros(sum(sizes[1:]))])
        return Tangent(vector, (self._core_block().contraction, *parts), retract, bases)

    def _widened(self, changes: dict[int, Array]) -> list[tuple[Array, Array]]:
        """Return a basis per mode of the factor and its change, if there is one, and their coordinates in it."""
        pairs = []
        for mode, own in enumerate(self.factors):
            basis, triangle = np.linalg.qr(np.hstack([own, changes[mode]]) if mode in changes else own)
            pairs.append((basis, triangle))
        return pairs

    def _nearest(self, terms: list[tuple[int | None, Array, Array]]) -> TuckerWeight:
        """Return a weight of this rank near a sum of terms: a mode, a core, and the factor that replaces the mode's.

        The sum is a Tucker tensor of at most twice the rank, so that only a small core has to be decomposed.
        """
        pairs = self._widened({mode: factor for mode, _, factor in terms if mode is not None})
        whole: Array = np.zeros([basis.shape[1] for basis, _ in pairs])
        for mode, core, _ in terms:
            halves = (
                (k, triangle[:, own.shape[1] :] if k == mode else triangle[:, : own.shape[1]])
                for k, ((_, triangle), own) in enumerate(zip(pairs, self.factors, strict=True))
            )
            whole = whole + _multiply(core, halves)
        turns = [leading_vectors(whole, k, count) for k, count in enumerate(self.core.shape)]
        return type(self)(
            _multiply(whole, enumerate(turn.T for turn in turns)),
            [basis @ turn for (basis, _), turn in zip(pairs, turns, strict=True)],
        )

    def _contraction(self, mode: int, rows: Array) -> Contraction:
        """Contract the half without this mode with its factors, and the rest of the other half with the kernel."""
        split = best_split(self.shape)
        in_head = mode < split
        others = [k for k in range(len(self.shape)) if k != mode]
        kernel = _multiply(
            rows.reshape(*(self.core.shape[k] for k in others), -1),
            [(axis, self.factors[k]) for axis, k in enumerate(others) if (k < split) == in_head],
        )
        return Contraction(
            half="tail" if in_head else "head",
            matrices=tuple(self.factors[split:] if in_head else self.factors[:split]),
            size=self.shape[mode],
            kernel=kernel.reshape(prod(kernel.shape[:mode]), -1, rows.shape[1]),
        )


def _is_orthonormal(factor: Array) -> bool:
    """Return whether columns are orthonormal up to rounding, which takes a tenth of the time of decomposing them."""
    products = factor.T @ factor
    products.flat[:: len(products) + 1] -= 1.0
    return bool(np.abs(products).max() <= _ROUNDING)


def _unfolded(tensor: Array, mode: int) -> Array:
    return np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1)


def _without(sizes: tuple[int, ...], mode: int) -> tuple[int, ...]:
    return sizes[:mode] + sizes[mode + 1 :]


def _multiply(tensor: Array, matrices: Iterable[tuple[int, Array]]) -> Array:
    """Return a tensor with the given axes multiplied by matrices."""
    for axis, matrix in matrices:
        tensor = np.moveaxis(np.tensordot(matrix, tensor, (1, axis)), 0, axis)
    return tensor
