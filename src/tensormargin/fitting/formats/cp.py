"""CP: a sum of R rank-one tensors.

Gauge: columns have unit norm; their lengths are in ``scales``. CP has no orthonormal gauge: for factor m,
``||W||^2 = tr(V diag(s) G diag(s) V')`` with ``G`` the Hadamard product of the other factors' Gram matrices. The
eigenvectors of ``G`` whiten the block; directions in its null space leave ``W`` unchanged and are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as replaced
from functools import cached_property, reduce
from math import prod
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ...runtime import Array, FloatArray, tuning
from ..contractions import Contraction, best_split
from .base import (
    Block,
    Components,
    Rank,
    Tangent,
    Weight,
    leading_vectors,
    modes_by_content,
    numpy_backend,
    whole_number_ranks,
)
from .tucker import TuckerWeight

_DEFAULT_RANK = 2
_NULL = 1e-10
_DEPENDENT = 1e-2
"""Share of the largest singular value below which no step is made in a direction of the tangent space: nearly equal
components would change much and the weight little. With 1e-5, CP weights of rank 2 and 4 (`campaigns.optima`) take a
tenth more sweeps and end 0.3 % higher. As in small_fit.c."""
_SMALLEST = 1e-4  # share of the largest component, as in small_fit.c: shorter ones change as if they were as long


class CPWeight(Weight):
    """``W = sum_r s_r v_r^(1) o ... o v_r^(M)`` with unit columns."""

    name = "cp"
    container = "CPTensor"

    def __init__(self, scales: Array, factors: list[Array], order: Sequence[int] | None = None) -> None:
        self.scales = scales
        self.factors = factors
        self.order = range(len(factors)) if order is None else order  # of the modes, in a pass over the blocks
        self.shape = tuple(len(factor) for factor in factors)

    @classmethod
    def valid_rank(cls, rank: Rank, shape: tuple[int, ...]) -> int:
        if isinstance(rank, tuple):
            raise ValueError(f"a CP rank is one whole number; got rank={rank!r}")
        (count,) = whole_number_ranks(rank, _DEFAULT_RANK, 1, "")
        return min(count, prod(shape) // max(shape))  # with that many components it can write any tensor

    @classmethod
    def from_dense(cls, tensor: Array, rank: Rank, rng: np.random.RandomState) -> Self:
        count = cls.valid_rank(rank, tensor.shape)
        if len(tensor.shape) == 2:  # the leading singular vectors are the best approximation
            left, lengths, right = np.linalg.svd(tensor, full_matrices=False)
            return cls(lengths[:count], [left[:, :count], np.ascontiguousarray(right[:count].T)])
        order = modes_by_content(tensor)
        factors = dict.fromkeys(range(tensor.ndim), tensor)
        for mode in order:
            vectors = leading_vectors(tensor, mode, min(count, tensor.shape[mode]))
            extra = rng.standard_normal((len(vectors), count - vectors.shape[1]))
            factors[mode] = _unit_columns(np.hstack([vectors, extra]))[0]
        return cls._refined(tensor, list(factors.values()), order)

    @classmethod
    def draws(cls, rank: Rank, shape: tuple[int, ...]) -> bool:
        return len(shape) > 2 and cls.valid_rank(rank, shape) > min(shape)

    @classmethod
    def _refined(cls, tensor: Array, factors: list[Array], order: list[int]) -> Self:
        """Return the weight with its factors refined by alternating least squares on a dense tensor.

        The singular vectors of the unfoldings are good directions, but are not matched across modes. Matching them on
        one tensor is cheap compared with doing so on all samples (AdrenalMNIST3D at 64^3, rank 2: 4 sweeps instead of
        7).
        """
        scales = np.ones(factors[0].shape[1])
        unfolded = [np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1) for mode in range(tensor.ndim)]
        for _ in range(tuning.CP_REFINEMENTS if len(factors) > 1 else 0):
            for mode in order:
                others = _without(factors, mode)
                gram, products = _gram(others), unfolded[mode] @ _columns(others)
                try:
                    solution = np.linalg.solve(gram, products.T).T  # a tenth of the time of a pseudo-inverse
                except np.linalg.LinAlgError:  # equal columns
                    solution = products @ np.linalg.pinv(gram)
                factors[mode], scales = _unit_columns(solution)
        return cls(scales, factors, order)

    @classmethod
    def from_tensorly(cls, tensor: Any, shape: tuple[int, ...]) -> Self:
        scales, factors = np.asarray(tensor[0], np.float64), [np.asarray(factor, np.float64) for factor in tensor[1]]
        weight = cls(scales, factors)._with(scales, factors)
        return cls(weight.scales, weight.factors, modes_by_content(weight.to_dense()))

    def _with(self, scales: Array, factors: list[Array]) -> Self:
        """Return the weight with other scales and factors, of any lengths and signs."""
        units = []
        for factor in factors:
            unit, lengths = _unit_columns(factor)
            units.append(unit)
            scales = scales * lengths
        units[0] = np.where(scales < 0, -units[0], units[0])
        return type(self)(np.abs(scales), units, self.order)

    def to_tensorly(self, dtype: npt.DTypeLike = np.float64) -> Any:
        from tensorly.cp_tensor import CPTensor

        with numpy_backend():
            return CPTensor((self.scales.astype(dtype), [factor.astype(dtype) for factor in self.factors]))

    def _expanded(self) -> FloatArray:
        return (_columns(self.factors) @ self.scales).reshape(self.shape)

    def coordinates(self) -> FloatArray:
        """Return the factors with the scales spread evenly: extrapolating them keeps the rank, unlike dense tensors."""
        shares = self.scales ** (1.0 / len(self.factors))  # scales are lengths, never negative
        return np.concatenate([(factor * shares).ravel() for factor in self.factors])

    def at_coordinates(self, vector: Array) -> CPWeight:
        count = len(self.scales)
        ends = np.cumsum([size * count for size in self.shape])[:-1]
        factors = [part.reshape(-1, count) for part in np.split(vector, ends)]
        return self._with(np.ones(count), factors)

    @property
    def block_names(self) -> tuple[str, ...]:
        return tuple(f"factor {mode + 1}" for mode in self.order)

    def relaxed(self) -> Block:
        block = super().relaxed()

        def truncated(vector: Array) -> CPWeight:  # with the blocks of a fit in the same order, whatever its start is
            weight = block.replace(vector)
            assert isinstance(weight, CPWeight)
            return type(self)(weight.scales, weight.factors, self.order)

        return Block(block.vector, block.contraction, truncated)

    def in_order_of_memory(self) -> CPWeight:
        return type(self)(self.scales, self.factors)

    @property
    def rank(self) -> int:
        return len(self.scales)

    @property
    def n_parameters(self) -> int:
        return sum(factor.size for factor in self.factors)

    def block(self, index: int) -> Block:
        mode = self.order[index]
        vectors, roots = self._gauge(mode)
        free = (self.factors[mode] * self.scales) @ (vectors * roots)

        def replace(vector: Array) -> CPWeight:
            factor, scales = _unit_columns(vector.reshape(free.shape) @ (vectors / roots).T)
            return type(self)(scales, [factor if k == mode else f for k, f in enumerate(self.factors)], self.order)

        return Block(free.ravel(), self._contraction(mode, vectors / roots), replace)

    @property
    def has_core(self) -> bool:
        """Whether this is a matrix or a tensor of rank one; the factors of others have no orthonormal directions."""
        return len(self.shape) == 2 or len(self.scales) == 1

    def with_core(self, core: Array, factors: list[Array]) -> CPWeight:
        if len(self.scales) == 1:
            sign = np.sign(core.item()) or 1.0
            return type(self)(np.abs(core.ravel()), [sign * factors[0], *factors[1:]], self.order)
        left, scales, right = np.linalg.svd(core)
        return type(self)(scales, [factors[0] @ left, factors[1] @ right.T], self.order)

    def as_tucker(self) -> TuckerWeight:
        if len(self.scales) == 1:
            return TuckerWeight(self.scales.reshape((1,) * len(self.shape)), self.factors)
        return TuckerWeight.from_tensorly((np.diag(self.scales), self.factors), self.shape)

    @property
    def has_tangent(self) -> bool:
        """Whether there is more than one factor, and few enough components for a basis of what they span together."""
        spanned = prod(min(size, len(self.scales)) for size in self.shape)
        return self.has_core or (len(self.factors) > 1 and spanned <= tuning.CP_CORE)

    @property
    def has_costly_tangent(self) -> bool:
        return not self.has_core

    def refit(self) -> Block:
        return super().refit() if self.has_core else self.block(self._fitted)

    @property
    def _fitted(self) -> int:
        """Number of the block that is solved after a step: the last one of few columns."""
        few = [index for index, mode in enumerate(self.order) if self.factors[mode].size <= tuning.CP_REFIT]
        return few[-1] if few else 0

    def tucker_tensors(self) -> list[tuple[Array, list[Array]]]:
        if self.has_core:
            return super().tucker_tensors()
        spans, turned = self._spans
        return [((_columns(turned) @ self.scales).reshape([len(one) for one in turned]), spans)]

    def components(self) -> Components | None:
        return None if self.has_core else Components(self._spans[1], self.scales, self.order[self._fitted], self.order)

    def with_components(self, spans: list[Array], factors: list[Array], lengths: Array) -> CPWeight:
        pairs = zip(spans, factors, strict=True)
        return type(self)(lengths, [span @ factor.reshape(span.shape[1], -1) for span, factor in pairs], self.order)

    @cached_property
    def _spans(self) -> tuple[list[Array], list[Array]]:
        """Orthonormal bases of the spans of the factors, and the factors in these."""
        spans = [np.linalg.qr(factor)[0] for factor in self.factors]
        return spans, [span.T @ factor for span, factor in zip(spans, self.factors, strict=True)]

    def tangent(self) -> Tangent:
        """Return the tangent space: changes of each factor away from its own span, and sums of changes within."""
        if self.has_core:
            return super().tangent()
        spans, turned = self._spans
        free = [mode for mode, span in enumerate(spans) if span.shape[1] < len(span)]
        whitening = {mode: np.divide(*self._gauge(mode, _DEPENDENT**2)) for mode in free}
        parts = (replaced(self._contraction(mode, whitening[mode]), removed=spans[mode]) for mode in free)
        within, changes_within, inner = self._changes_within(spans, turned)
        ends = np.cumsum([span.shape[1] * len(self.scales) for span in spans])[:-1]
        lengths = self.scales ** (1.0 / len(spans))
        others = np.maximum(lengths, _SMALLEST ** (1.0 / len(spans)) * (lengths.max() or 1.0)) ** (len(spans) - 1)
        sizes = [within.width, *(len(spans[mode]) * whitening[mode].shape[1] for mode in free)]

        def retract(vector: Array) -> CPWeight:
            own, *away = np.split(vector, np.cumsum(sizes)[:-1])
            turns = np.split(changes_within @ (own - inner), ends)
            changes = [span @ turn.reshape(span.shape[1], -1) for span, turn in zip(spans, turns, strict=True)]
            for mode, part in zip(free, away, strict=True):
                changes[mode] = (
                    changes[mode] + part.reshape(len(spans[mode]), len(whitening[mode].T)) @ whitening[mode].T
                )
            moved = [f * lengths + change / others for f, change in zip(self.factors, changes, strict=True)]
            return self._with(np.ones(len(self.scales)), moved)

        return Tangent(np.concatenate([inner, np.zeros(sum(sizes[1:]))]), (within, *parts), retract)

    def _changes_within(self, spans: list[Array], turned: list[Array]) -> tuple[Contraction, Array, Array]:
        """Return the part of the tangent space in the span of all factors, as a contraction of the samples.

        Also returns the changes of all factors, one after the other, that each of its directions stands for, and the
        coordinates of the weight.
        """
        shape, count = tuple(len(one) for one in turned), len(self.scales)
        core = _columns(turned) @ self.scales
        jacobian = []
        for mode, size in enumerate(shape):
            lead, trail = _columns(turned[:mode], count), _columns(turned[mode + 1 :], count)
            change = np.einsum("lr,ij,tr->litjr", lead, np.eye(size), trail)
            jacobian.append(change.reshape(len(core), size * count))
        left, values, right = np.linalg.svd(np.hstack(jacobian), full_matrices=False)
        kept = ~(values <= _DEPENDENT * values[0])
        basis, changes = left[:, kept], right[kept].T / values[kept]
        split = best_split(self.shape)
        kernel = basis.reshape(prod(shape[:split]), *shape[split:], -1)
        for axis, span in enumerate(spans[split:], 1):
            kernel = np.moveaxis(np.tensordot(span, kernel, (1, axis)), 0, axis)
        within = Contraction("head", tuple(spans[:split]), 1, kernel.reshape(1, -1, basis.shape[1]))
        return within, changes, basis.T @ core

    def _gauge(self, mode: int, null: float = _NULL) -> tuple[Array, Array]:
        """Return eigenvectors of the other factors' inner products, and roots of the eigenvalues that do not vanish."""
        others = _without(self.factors, mode)
        if len(self.scales) == 1:  # unit columns
            return np.ones((1, 1)), np.ones(1)
        values, vectors = np.linalg.eigh(_gram(others) if others else np.ones((len(self.scales),) * 2))
        kept = ~(values <= null * values[-1])  # NaN stays, for others to see
        return vectors[:, kept], np.sqrt(values[kept])

    def _contraction(self, mode: int, whitening: Array) -> Contraction:
        """Contract the half without this mode with its rank-one columns, the rest of the other half with the kernel."""
        split, count = best_split(self.shape), len(self.scales)
        head, tail = self.factors[:split], self.factors[split:]
        if mode < split:  # leaves N x I_1 .. I_split x R, or the samples if there is no tail
            lead, trail, entries = head[:mode], head[mode + 1 :], "lr,tr,rj->ltrj"
            columns = [_columns(tail)] if tail else []
            n_trail = prod(len(factor) for factor in trail) * count
        else:  # leaves N x R x I_split+1 .. I_M
            lead, trail, entries = tail[: mode - split], tail[mode - split + 1 :], "lr,tr,rj->rltj"
            columns = [_columns(head)]
            n_trail = prod(len(factor) for factor in trail)
        kernel = np.einsum(entries, _columns(lead, count), _columns(trail, count), whitening)
        kernel = kernel.reshape(-1, n_trail, whitening.shape[1])
        return Contraction("tail" if mode < split else "head", tuple(columns), self.shape[mode], kernel)


def _without(factors: list[Array], mode: int) -> list[Array]:
    return factors[:mode] + factors[mode + 1 :]


def _gram(factors: list[Array]) -> Array:
    """Return the inner products of the rank-one tensors formed by the factors' columns."""
    return reduce(np.multiply, (factor.T @ factor for factor in factors))


def _columns(factors: list[Array], count: int = 1) -> Array:
    """Return the Khatri-Rao product: column r is the outer product of the factors' columns r, flattened."""
    if not factors:
        return np.ones((1, count))
    return reduce(lambda left, right: (left[:, None] * right).reshape(-1, right.shape[1]), factors)


def _unit_columns(matrix: Array) -> tuple[Array, Array]:
    """Return the matrix with unit columns, and the column lengths; a zero column becomes constant, with length zero."""
    lengths = np.sqrt(np.einsum("ij,ij->j", matrix, matrix))
    if lengths.all():
        return matrix / lengths, lengths
    return np.where(lengths > 0, matrix / np.where(lengths > 0, lengths, 1.0), 1.0 / np.sqrt(len(matrix))), lengths
