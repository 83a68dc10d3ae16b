"""Tensor-Train: a chain of third-order cores joined by bonds.

Gauge: mixed canonical form. Cores left of the centre have orthonormal columns as (r I) x r' matrices, cores right of
it orthonormal rows as r x (I r') matrices. The centre core thus has the norm of the weight and is the free block.
Moving the centre by one takes a QR decomposition and changes only two neighbouring cores. Weights of three modes with
bonds r and r' are the Tucker weights of rank (r, r r', r').
"""

from __future__ import annotations

from dataclasses import replace as replaced
from functools import reduce
from math import prod
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from ...runtime import Array, FloatArray
from ..contractions import Contraction, best_split
from .base import Block, Rank, Tangent, Weight, modes_by_content, numpy_backend, whole_number_ranks
from .cp import CPWeight
from .tucker import TuckerWeight

_DEFAULT_RANK = 4


class TTWeight(Weight):
    """``W[i_1..i_M] = G_1[i_1] G_2[i_2] ... G_M[i_M]``, canonical around ``centre``."""

    name = "tt"
    container = "TTTensor"

    def __init__(self, cores: list[Array], centre: int, backwards: bool = False) -> None:
        self.cores = cores
        self.centre = centre
        self.backwards = backwards  # whether sweeps and truncations begin at the last core
        self.shape = tuple(core.shape[1] for core in cores)

    @classmethod
    def valid_rank(cls, rank: Rank, shape: tuple[int, ...]) -> tuple[int, ...]:
        ranks = whole_number_ranks(rank, _DEFAULT_RANK, len(shape) - 1, ", or one per bond")
        if len(ranks) == len(shape) + 1 and ranks[0] == ranks[-1] == 1:
            ranks = ranks[1:-1]  # TensorLy's convention, with the two outer bonds
        if len(ranks) != len(shape) - 1:
            raise ValueError(
                f"a Tensor-Train rank has one number per bond between neighbouring modes: samples of shape {shape} "
                f"need {len(shape) - 1}, got rank={rank!r}"
            )
        bonds = [1, *ranks, 1]  # lowered until each core can have orthonormal columns and rows
        for k, size in enumerate(shape[:-1]):
            bonds[k + 1] = min(bonds[k + 1], bonds[k] * size)
        for k in range(len(shape) - 1, 0, -1):
            bonds[k] = min(bonds[k], bonds[k + 1] * shape[k])
        return tuple(bonds[1:-1])

    @classmethod
    def from_dense(cls, tensor: Array, rank: Rank, rng: np.random.RandomState) -> Self:
        ranks = cls.valid_rank(rank, tensor.shape)
        if tensor.ndim > 2 and set(ranks) == {1}:  # cutting off one mode after the other would depend on their order
            return cls._of_rank_one(*CPWeight.from_dense(tensor, 1, rng).core_and_factors())
        backwards = _is_backwards(tensor, ranks)
        if tensor.ndim == 3:  # as a Tucker weight, without a first and a last mode
            first, last = ranks
            tucker = TuckerWeight.from_dense(tensor, (first, min(tensor.shape[1], first * last), last), rng)
            return cls._of_three(*tucker.core_and_factors(), backwards)
        return cls._cut(tensor.T, ranks[::-1])._mirrored() if backwards else cls._cut(tensor, ranks)

    @classmethod
    def _cut(cls, tensor: Array, ranks: tuple[int, ...]) -> Self:
        """Return an approximation of a dense tensor, with one mode after the other cut off by a truncated SVD."""
        cores, left, rest = [], 1, tensor
        for size, count in zip(tensor.shape, ranks, strict=False):
            u, s, vt = np.linalg.svd(rest.reshape(left * size, -1), full_matrices=False)
            cores.append(u[:, :count].reshape(left, size, count))
            rest, left = s[:count, None] * vt[:count], count
        cores.append(rest.reshape(left, tensor.shape[-1], 1))
        return cls(cores, len(cores) - 1)

    @classmethod
    def from_tensorly(cls, tensor: Any, shape: tuple[int, ...]) -> Self:
        cores = [np.asarray(core, np.float64) for core in tensor]
        weight = cls(cores, 0)
        for centre in range(1, len(cores)):  # canonical form around the last core
            weight = weight._moved_right(centre)
        if len(cores) > 1 and _is_backwards(weight.to_dense(), weight.rank):
            return cls(weight._centred_at(0).cores, 0, True)
        return weight

    def to_tensorly(self, dtype: npt.DTypeLike = np.float64) -> Any:
        from tensorly.tt_tensor import TTTensor

        with numpy_backend():
            return TTTensor([core.astype(dtype) for core in self.cores])

    def _expanded(self) -> FloatArray:
        return _left_matrix(self.cores).reshape(self.shape)

    @property
    def block_names(self) -> tuple[str, ...]:
        return tuple(f"core {k + 1}" for k in self._order)

    @property
    def _order(self) -> range:
        """The cores in the order of a sweep."""
        order = range(len(self.cores))
        return order[::-1] if self.backwards else order

    @property
    def rank(self) -> tuple[int, ...]:
        return tuple(core.shape[2] for core in self.cores[:-1])

    @property
    def n_parameters(self) -> int:
        return sum(core.size for core in self.cores)

    def block(self, index: int) -> Block:
        return self._block_of(self._order[index])

    def _block_of(self, centre: int) -> Block:
        weight = self._centred_at(centre)
        left, size, right = weight.cores[centre].shape

        def replace(vector: Array) -> TTWeight:
            new = vector.reshape(size, left, right).transpose(1, 0, 2)
            return weight._with([new if k == centre else core for k, core in enumerate(weight.cores)], centre)

        return Block(weight.cores[centre].transpose(1, 0, 2).ravel(), weight._contraction(), replace)

    def refit(self) -> Block:
        return super().refit() if self.has_core else self._block_of(self.centre)

    @property
    def has_tangent(self) -> bool:
        """Whether there is more than one core."""
        return len(self.cores) > 1

    @property
    def has_core(self) -> bool:
        """Whether this is a tensor of two or three modes or of rank one, which are Tucker weights as well."""
        return len(self.cores) in (2, 3) or (len(self.cores) > 3 and set(self.rank) == {1})

    def tangent(self) -> Tangent:
        """Return the tangent space: changes of each core away from its span, and any last core."""
        if self.has_core:
            return super().tangent()
        weights = [self._centred_at(k) for k in range(len(self.cores))]
        left = weights[-1].cores  # orthonormal as columns, but for the last
        parts = [
            replaced(weight._contraction(), removed=core.transpose(1, 0, 2).reshape(-1, core.shape[2]))
            for weight, core in zip(weights, left[:-1], strict=False)
        ]
        sizes = [core.size for core in left]

        def retract(vector: Array) -> TTWeight:
            changes = [
                part.reshape(core.shape[1], core.shape[0], core.shape[2]).transpose(1, 0, 2)
                for part, core in zip(np.split(vector, np.cumsum(sizes)[:-1]), left, strict=True)
            ]
            return self._rounded(_sum_of_changes(left, changes, weights[0].cores))

        vector = np.concatenate([np.zeros(sum(sizes[:-1])), left[-1].transpose(1, 0, 2).ravel()])
        return Tangent(vector, (*parts, weights[-1]._contraction()), retract)

    def _rounded(self, cores: list[Array]) -> TTWeight:
        """Return a weight of this rank near a longer chain, truncated in its direction."""
        if self.backwards:
            return self._mirrored()._rounded(_mirrored(cores))._mirrored()
        cores = list(cores)
        for k in range(len(cores) - 1, 0, -1):
            basis, triangle = np.linalg.qr(cores[k].reshape(len(cores[k]), -1).T)
            cores[k] = basis.T.reshape(-1, *cores[k].shape[1:])
            cores[k - 1] = np.tensordot(cores[k - 1], triangle.T, 1)
        for k, count in enumerate(self.rank):
            left, values, right = np.linalg.svd(cores[k].reshape(-1, cores[k].shape[2]), full_matrices=False)
            cores[k] = left[:, :count].reshape(*cores[k].shape[:2], -1)
            cores[k + 1] = np.tensordot(values[:count, None] * right[:count], cores[k + 1], 1)
        return type(self)(cores, len(cores) - 1)

    def _with(self, cores: list[Array], centre: int) -> Self:
        """Return a weight of other cores with the same direction."""
        return type(self)(cores, centre, self.backwards)

    def _mirrored(self) -> Self:
        """Return the weight with its modes reversed."""
        return type(self)(_mirrored(self.cores), len(self.cores) - 1 - self.centre, not self.backwards)

    def with_core(self, core: Array, factors: list[Array]) -> TTWeight:
        if len(factors) == 2:
            return type(self)([factors[0][None], (core @ factors[1].T)[:, :, None]], 1)
        if len(factors) > 3:
            return self._of_rank_one(core, factors)
        return self._of_three(core, factors, self.backwards)

    @classmethod
    def _of_three(cls, core: Array, factors: list[Array], backwards: bool) -> Self:
        first, second, third = factors
        return cls([first[None], np.einsum("abc,jb->ajc", core, second), third.T[:, :, None]], 1, backwards)

    @classmethod
    def _of_rank_one(cls, core: Array, factors: list[Array]) -> Self:
        cores = [factor.T[:, :, None] for factor in factors]
        return cls([*cores[:-1], core.item() * cores[-1]], len(cores) - 1)

    def as_tucker(self) -> TuckerWeight:
        if len(self.cores) == 3:
            first, middle, last = self._centred_at(1).cores
            rows = middle.transpose(1, 0, 2).reshape(middle.shape[1], -1)
            second = np.eye(len(rows))
            if rows.shape[1] < len(rows):
                second, rows = np.linalg.qr(rows)
            core = rows.reshape(-1, len(middle), len(last)).transpose(1, 0, 2)
            return TuckerWeight(core, [first[0], second, last[:, :, 0].T])
        if len(self.cores) > 3:
            lengths = [float(np.linalg.norm(core)) for core in self.cores]
            units = [
                core[0] / length if length > 0 else np.full(core[0].shape, core.size**-0.5)  # zero has any direction
                for core, length in zip(self.cores, lengths, strict=True)
            ]
            return TuckerWeight(np.full((1,) * len(units), prod(lengths)), units)
        first, last = self.cores
        return TuckerWeight.from_tensorly((np.eye(first.shape[2]), [first[0], last[:, :, 0].T]), self.shape)

    def _contraction(self) -> Contraction:
        """Contract every mode but the centre's with the interfaces left and right of it."""
        split, k = best_split(self.shape), self.centre
        head, tail = self.cores[:split], self.cores[split:]
        if k < split:  # leaves N x I_1 .. I_split x r, or the samples if there is no tail
            matrices = (_right_matrix(tail),) if tail else ()
            left, right = head[:k], head[k + 1 :]
        else:  # leaves N x r x I_split+1 .. I_M
            matrices = (_left_matrix(head),)
            left, right = tail[: k - split], tail[k - split + 1 :]
        bond_left, size, bond_right = self.cores[k].shape
        left_matrix = _left_matrix(left) if left else np.eye(bond_left)
        right_matrix = _right_matrix(right) if right else np.eye(bond_right)
        kernel = np.einsum("la,tb->ltab", left_matrix, right_matrix)
        half: Literal["head", "tail"] = "tail" if k < split else "head"
        return Contraction(half, matrices, size, kernel.reshape(*kernel.shape[:2], -1))

    def _centred_at(self, index: int) -> TTWeight:
        weight = self
        while weight.centre < index:
            weight = weight._moved_right(weight.centre + 1)
        while weight.centre > index:
            weight = weight._moved_left(weight.centre - 1)
        return weight

    def _moved_right(self, centre: int) -> Self:
        old, new = self.cores[centre - 1], self.cores[centre]
        basis, triangle = np.linalg.qr(old.reshape(-1, old.shape[2]))
        cores = list(self.cores)
        cores[centre - 1] = basis.reshape(*old.shape[:2], -1)
        cores[centre] = np.tensordot(triangle, new, 1)
        return self._with(cores, centre)

    def _moved_left(self, centre: int) -> Self:
        old, new = self.cores[centre + 1], self.cores[centre]
        basis, triangle = np.linalg.qr(old.reshape(old.shape[0], -1).T)
        cores = list(self.cores)
        cores[centre + 1] = basis.T.reshape(-1, *old.shape[1:])
        cores[centre] = np.tensordot(new, triangle.T, 1)
        return self._with(cores, centre)


def _mirrored(cores: list[Array]) -> list[Array]:
    """Return a chain from its other end."""
    return [core.transpose(2, 1, 0) for core in reversed(cores)]


def _is_backwards(tensor: Array, ranks: tuple[int, ...]) -> bool:
    """Return whether truncations and sweeps begin at the last mode: for a tensor and its reversal, at the same one."""
    forwards, backwards = (tensor.shape, ranks), (tensor.shape[::-1], ranks[::-1])
    if forwards != backwards:
        return forwards > backwards
    order = modes_by_content(tensor)
    return order.index(0) > order.index(tensor.ndim - 1)


def _sum_of_changes(left: list[Array], changes: list[Array], right: list[Array]) -> list[Array]:
    """Return the chain of ``sum_k left_1 .. left_(k-1) changes_k right_(k+1) .. right_M``."""
    first = np.concatenate([left[0], changes[0]], axis=2)
    last = np.concatenate([changes[-1], right[-1]], axis=0)
    middle = []
    for own, change, other in zip(left[1:-1], changes[1:-1], right[1:-1], strict=True):
        above = np.concatenate([own, change], axis=2)
        below = np.concatenate([np.zeros((len(other), own.shape[1], own.shape[2])), other], axis=2)
        middle.append(np.concatenate([above, below], axis=0))
    return [first, *middle, last]


def _left_matrix(cores: list[Array]) -> Array:
    """Return the (r_0 I_1 .. I_k) x r_k matrix of a chain of cores."""
    chain = reduce(lambda left, core: np.tensordot(left, core, 1), cores)
    return chain.reshape(-1, chain.shape[-1])


def _right_matrix(cores: list[Array]) -> Array:
    """Return the (I_k .. I_M r_M) x r_(k-1) matrix of a chain of cores."""
    chain = reduce(lambda left, core: np.tensordot(left, core, 1), cores)
    return chain.reshape(len(chain), -1).T
