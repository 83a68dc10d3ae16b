"""The interface of a weight format, as used by the sweep loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, ClassVar, NamedTuple, Protocol, Self, cast

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from ...runtime import Array, FloatArray, triangles
from ..contractions import Contraction, Direction

Rank = int | tuple[int, ...] | None
Noise = Callable[[], Array]
"""Returns tensors, flattened as rows, that differ from each other as samples of one class do."""

NOT_DRAWN_FROM = np.random.RandomState(0)
"""For a start that draws no numbers: to make another generator takes as long as a step of a small fit."""

_SYMMETRIC = 1e-6  # relative: samples in float32 are symmetric up to rounding
_TILT = 0.1  # 0.1 to 2 do equally well
_RIDGE = 0.1  # share of the mean variance that is added to second moments
_MOST_MOMENTS = 256  # entries of a mode: a longer one has few samples for its moments, and takes long


@dataclass(frozen=True)
class Block:
    """One free part of a weight, in a gauge where its norm is the norm of the weight.

    Attributes
    ----------
    vector : ndarray of shape (d,)
        ``v`` with ``|v| = ||W||_F`` (Eq. 8).
    contraction : Contraction, or SideBySide for several views
        Turns samples into the N x d design with ``design @ v = <W, Z_i>`` (Eq. 9).
    replace : callable
        Returns the weight with a new ``v`` in this block.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.fitting.formats import FORMATS
    >>> weight = FORMATS["cp"].from_dense(np.outer([1.0, 2.0], [3.0, 0.0, 4.0]), 1, np.random.RandomState(0))
    >>> block = weight.block(0)
    >>> bool(np.isclose(np.linalg.norm(block.vector), np.linalg.norm(weight.to_dense())))
    True
    >>> bool(np.allclose(block.replace(2 * block.vector).to_dense(), 2 * weight.to_dense()))
    True
    """

    vector: FloatArray
    contraction: Any
    replace: Callable[[Array], Weight]

    @property
    def contractions(self) -> tuple[Any, ...]:
        """The contraction, as in `Tangent`."""
        return (self.contraction,)

    def seen_as(self, other: Callable[[Weight], Weight]) -> Block:
        """Return the block of the same weight in another format, given the conversion to it."""
        return Block(self.vector, self.contraction, lambda vector: other(self.replace(vector)))


@dataclass(frozen=True)
class Tangent:
    """The tangent space of all weights of one rank at a weight, in an orthonormal basis.

    Attributes
    ----------
    vector : ndarray of shape (d,)
        The weight itself, which lies in the space.
    contractions : tuple of Contraction, or of OfView for several views
        Turn samples into parts of the N x d design, side by side.
    retract : callable
        Returns a weight of the same rank close to the one with a new vector.
    bases : callable, or None
        Returns an orthonormal basis per mode in which the factors of a Tucker weight lie, and their changes to a new
        vector; None if the weight is none.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.fitting.formats import FORMATS
    >>> weight = FORMATS["tucker"].from_dense(np.outer([1.0, 2.0], [3.0, 0.0, 4.0]), (1, 1), np.random.RandomState(0))
    >>> tangent = weight.tangent()
    >>> tangent.vector.shape
    (6,)
    >>> bool(np.allclose(tangent.retract(tangent.vector).to_dense(), weight.to_dense()))
    True
    """

    vector: FloatArray
    contractions: tuple[Any, ...]
    retract: Callable[[Array], Weight]
    bases: Callable[[Array], list[Array]] | None = None

    def seen_as(self, other: Callable[[Weight], Weight]) -> Tangent:
        """Return the tangent space of the same weight in another format, given the conversion to it."""
        return Tangent(self.vector, self.contractions, lambda vector: other(self.retract(vector)), self.bases)


@dataclass(frozen=True)
class TangentCore:
    """The core of a weight as a block, whose design is the first part of that of the tangent space at the weight.

    For formats with `Weight.has_core`: the tangent space contains the weights with any other core.
    """

    tangent: Tangent

    @property
    def contractions(self) -> tuple[Any, ...]:
        """Those of the tangent space."""
        return self.tangent.contractions

    def design(self, tangent_design: Array) -> Array:
        """Return the columns of the core."""
        return np.ascontiguousarray(tangent_design[:, : self.contractions[0].width])

    def replace(self, vector: Array) -> Weight:
        """Return the weight with another core."""
        return self.tangent.retract(self.at(vector).vector)

    def at(self, vector: Array) -> Tangent:
        """Return the same space with the coordinates of the weight with another core."""
        changes = np.zeros(len(self.tangent.vector) - len(vector))
        return replace(self.tangent, vector=np.concatenate([vector, changes]))


class Components(NamedTuple):
    """A core that is a sum of rank-one tensors: factors of unit columns and lengths, and the modes of its blocks.

    ``fitted`` is the mode that `refit` solves, ``in_turn`` are those of all blocks in sweep order.
    """

    factors: list[Array]
    lengths: Array
    fitted: int
    in_turn: Sequence[int]


class Weight(ABC):
    """A weight tensor in some format; immutable and independent of labels.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.fitting.formats import FORMATS, Weight
    >>> weight = FORMATS["tt"].from_dense(np.ones((3, 4, 5)), 1, np.random.RandomState(0))
    >>> isinstance(weight, Weight), weight.rank, weight.n_parameters, weight.block_names
    (True, (1, 1), 12, ('core 1', 'core 2', 'core 3'))
    """

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
        """Return an approximation of a dense tensor, from truncated SVDs of its unfoldings."""

    @classmethod
    def draws(cls, rank: Rank, shape: tuple[int, ...]) -> bool:
        """Return whether `from_dense` draws random numbers for a tensor of this shape."""
        return False

    @classmethod
    def uses_noise(cls, rank: Rank) -> bool:
        """Return whether `start_from` asks for the noise: starts of higher rank gain nothing from it."""
        return rank is not None and bool(np.max(rank, initial=1) == 1)

    @classmethod
    def start_from(cls, tensor: Array, rank: Rank, rng: np.random.RandomState, noise: Noise | None = None) -> Self:
        """Return the start of a fit near a dense tensor; of rank one, near it where the noise is white.

        Truncated in other coordinates, a single component follows the strongest noise along a mode.
        """
        direction = _in_unit_range(tensor)
        tilted = _tilted(direction)
        if noise is None or tensor.ndim == 1 or not cls.uses_noise(rank) or tilted is not direction:
            return cls.from_dense(tilted, rank, rng)
        roots = _roots_of_moments(_in_unit_range(noise().reshape(-1, *tensor.shape)))
        for mode, root in enumerate(roots):
            direction = np.moveaxis(triangles.solve(root, np.moveaxis(direction, mode, -1)), -1, mode)
        start = cls.from_dense(direction, rank, rng)
        core, factors = start.core_and_factors()
        turned = (triangles.solve(*pair, transposed=True).T for pair in zip(roots, (f.T for f in factors), strict=True))
        return cast(Self, start.with_core(core, [factor / np.linalg.norm(factor) for factor in turned]))

    @classmethod
    @abstractmethod
    def from_tensorly(cls, tensor: Any, shape: tuple[int, ...]) -> Self:
        """Return the weight of this shape from the container that `to_tensorly` returned."""

    @classmethod
    def wrote(cls, tensor: Any) -> bool:
        """Return whether ``tensor`` is what `to_tensorly` returns for this format."""
        return type(tensor).__name__ == cls.container

    @abstractmethod
    def to_tensorly(self, dtype: npt.DTypeLike = np.float64) -> Any:
        """Return the corresponding TensorLy container with arrays of this dtype, or an array for a full weight."""

    def to_dense(self) -> FloatArray:
        """Return the weight as an array of ``shape``; it is cached and must not be modified."""
        return self._dense

    @cached_property
    def _dense(self) -> FloatArray:
        return self._expanded()

    @abstractmethod
    def _expanded(self) -> FloatArray:
        """Return the array of ``shape``, not cached."""

    @cached_property
    def norm(self) -> float:
        """The Frobenius norm."""
        return float(np.linalg.norm(self.to_dense()))

    @cached_property
    def direction(self) -> Direction:
        """The weight divided by its norm, as a column of a design."""
        return Direction(self.to_dense() / self.norm)

    def coordinates(self) -> FloatArray:
        """Return a vector that depends continuously on the weight, for extrapolation."""
        return self.to_dense().ravel()

    def at_coordinates(self, vector: Array) -> Weight:
        """Return a weight of the same rank with, or close to, the given `coordinates`."""
        return self.from_dense(vector.reshape(self.shape), self.rank, self._generator())

    def _generator(self) -> np.random.RandomState:
        return np.random.RandomState(0) if self.draws(self.rank, self.shape) else NOT_DRAWN_FROM

    @property
    @abstractmethod
    def block_names(self) -> tuple[str, ...]:
        """Names of the blocks in sweep order; a block may occur more than once."""

    @abstractmethod
    def block(self, index: int) -> Block:
        """Return a block, in its gauge."""

    def relaxed(self) -> Block:
        """Return the block of all tensors of this shape, whose replacement is truncated to the rank of this weight."""
        whole = Contraction("tail", (), prod(self.shape), np.ones((1, 1, 1)))

        def truncated(vector: Array) -> Weight:
            return self.start_from(vector.reshape(self.shape), self.rank, self._generator())

        return Block(self.to_dense().ravel(), whole, truncated)

    def in_order_of_memory(self) -> Weight:
        """Return the weight with its blocks in the order in which a sweep reads the samples least often."""
        return self

    @property
    def has_tangent(self) -> bool:
        """Whether there is an orthonormal basis for the tangent space of the weights of this rank."""
        return self.has_core

    @property
    def has_costly_tangent(self) -> bool:
        """Whether steps in the tangent space pay for few samples only: passes over the blocks read these less often."""
        return False

    def tangent(self) -> Tangent:
        """Return the tangent space at this weight, for formats with `has_tangent`."""
        return self.as_tucker().tangent().seen_as(self._from_tucker)

    @property
    def has_core(self) -> bool:
        """Whether the weights of this rank are the Tucker weights of one rank."""
        return False

    def as_tucker(self) -> Weight:
        """Return the same weight as a Tucker weight, for formats with `has_core`."""
        raise NotImplementedError

    def core_and_factors(self) -> tuple[Array, list[Array]]:
        """Return the weight as a core and orthonormal factors, for formats with `has_core`."""
        return self.as_tucker().core_and_factors()

    def with_core(self, core: Array, factors: list[Array]) -> Weight:
        """Return the weight with this core and these orthonormal factors, for formats with `has_core`."""
        raise NotImplementedError

    def _from_tucker(self, weight: Weight) -> Weight:
        return self.with_core(*weight.core_and_factors())

    def tucker_tensors(self) -> list[tuple[Array, list[Array]]]:
        """Return core and orthonormal factors of the tensor of each view; a full weight is a core without factors."""
        return [self.core_and_factors()]

    def with_tucker_tensors(self, tensors: list[tuple[Array, list[Array]]]) -> Weight:
        """Return the weight with these cores and factors."""
        return self.with_core(*tensors[0])

    def components(self) -> Components | None:
        """Return the core of a sum of rank-one tensors as such a sum; None for weights that any core makes up."""
        return None

    def with_components(self, spans: list[Array], factors: list[Array], lengths: Array) -> Weight:
        """Return the weight with these spans, and factors of the core in these, for formats with `components`."""
        raise NotImplementedError

    @property
    def largest_size(self) -> int:
        """Number of entries that says whether a fit is small: those of the weight, or of the largest of several."""
        return prod(self.shape)

    @property
    def wide(self) -> float:
        """Columns of a design, per sample, above which its inner products are cheaper to work with."""
        return 1.0

    @property
    def n_tensors(self) -> int:
        """Number of low-rank tensors, each with its own blocks; more than one for several views."""
        return 1

    @property
    def n_modes(self) -> int:
        """Order of the weight; the largest one of several views."""
        return len(self.shape)

    def refit(self) -> Block:
        """Return the block to solve after a step in the tangent space."""
        return self.as_tucker().refit().seen_as(self._from_tucker) if self.has_core else self.block(0)

    @property
    @abstractmethod
    def rank(self) -> Rank:
        """The rank in normal form, as returned by `valid_rank`."""

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Number of stored entries."""


def _in_unit_range(tensor: Array) -> Array:
    """Return the tensor times a power of two, which rounds nothing, with entries that can be squared repeatedly."""
    largest = float(np.max(np.abs(tensor), initial=0.0))
    return np.ldexp(tensor, -np.frexp(largest)[1]) if np.isfinite(largest) else tensor


def _roots_of_moments(tensors: Array) -> list[Array]:
    """Return a triangular root of the second moments of tensors along each mode; the identity for long modes."""
    roots = []
    for mode in range(1, tensors.ndim):
        size, others = tensors.shape[mode], [axis for axis in range(tensors.ndim) if axis != mode]
        moments = np.tensordot(tensors, tensors, (others, others)) if size <= _MOST_MOMENTS else np.eye(size)
        variance = np.trace(moments) / size
        root = triangles.cholesky(moments / variance + _RIDGE * np.eye(size)) if variance > 0 else None
        roots.append(np.eye(size) if root is None else root)
    return roots


def _tilted(direction: Array) -> Array:
    """Return a start for symmetric matrices with an antisymmetric part, which no such sample can tell; others as given.

    Every step from a symmetric start leads to a symmetric weight, although others of the same rank can be better: their
    symmetric parts have twice the rank (schizo_fnc, 86 matrices of 28x28: objectives 5 to 50 % lower).
    """
    if direction.ndim != 2 or direction.shape[0] != direction.shape[1]:
        return direction
    length = float(np.linalg.norm(direction))
    if np.linalg.norm(direction - direction.T) > _SYMMETRIC * length:
        return direction
    random = np.random.RandomState(0).standard_normal(direction.shape)
    turned = random - random.T
    return direction + _TILT * length * turned / (float(np.linalg.norm(turned)) or 1.0)


class Format(Protocol):
    """How weights are represented: a subclass of `Weight`, or the formats of several views.

    Examples
    --------
    >>> from tensormargin.fitting.formats import FORMATS
    >>> FORMATS["cp"].valid_rank(20, (4, 5))
    4
    """

    @property
    def name(self) -> str:
        """Name of the format."""

    def draws(self, rank: Any, shape: tuple[int, ...]) -> bool:
        """Return whether `from_dense` draws random numbers for a tensor of this shape."""

    def uses_noise(self, rank: Any) -> bool:
        """Return whether `start_from` asks for the noise."""

    def from_dense(self, tensor: Array, rank: Any, rng: np.random.RandomState) -> Weight:
        """Return an approximation of a dense tensor."""

    def start_from(self, tensor: Array, rank: Any, rng: np.random.RandomState, noise: Noise | None = None) -> Weight:
        """Return the start of a fit near a dense tensor; of rank one, near it where the noise is white."""


def whole_number_ranks(rank: Rank, default: int, count: int, each: str) -> tuple[int, ...]:
    """Return the numbers of a rank, repeated if there is one for all; raise ValueError if one is not positive."""
    given = default if rank is None else rank
    ranks = given if isinstance(given, tuple) else (given,) * count
    for one in ranks if isinstance(given, tuple) else (given,):
        if isinstance(one, bool) or not isinstance(one, (int, np.integer)) or one < 1:
            raise ValueError(
                f"rank must be a whole number{each}, all at least 1; got rank={given!r}. Pass 1 for the lowest rank "
                f"or None for {default}"
            )
    return tuple(int(one) for one in ranks)


def plain_rank(rank: Rank) -> Rank:
    """Return a rank with equal numbers written as one, in Python's integers."""
    if isinstance(rank, tuple):
        return int(rank[0]) if len(set(rank)) == 1 else tuple(int(one) for one in rank)
    return rank if rank is None else int(rank)


def numpy_backend() -> Any:
    """Return a context in which TensorLy uses NumPy, whatever backend the user has chosen."""
    import tensorly

    return tensorly.backend_context("numpy", local_threadsafe=True)


def modes_by_content(tensor: Array) -> list[int]:
    """Return the modes in an order that depends on the entries of a tensor, and not on the order of its modes."""
    tensor = _in_unit_range(tensor)
    unfolded = [np.moveaxis(tensor, mode, 0).reshape(size, -1) for mode, size in enumerate(tensor.shape)]
    spread = [float(np.sum((one @ one.T) ** 2)) if len(one) <= one.shape[1] else np.inf for one in unfolded]
    return sorted(range(tensor.ndim), key=lambda mode: (tensor.shape[mode], spread[mode]))


def leading_vectors(tensor: Array, mode: int, count: int) -> FloatArray:
    """Return the ``count`` leading left singular vectors of a mode's unfolding; orthonormal even for a zero tensor."""
    unfolded = np.moveaxis(_in_unit_range(tensor), mode, 0).reshape(tensor.shape[mode], -1)
    size = len(unfolded)
    if size <= unfolded.shape[1]:
        _, vectors = eigh(unfolded @ unfolded.T, subset_by_index=(size - count, size - 1))
        return vectors[:, ::-1]
    left, _, _ = np.linalg.svd(unfolded, full_matrices=False)
    if left.shape[1] < count:
        extra = np.random.RandomState(0).standard_normal((len(left), count - left.shape[1]))
        left, _ = np.linalg.qr(np.hstack([left, extra]))
    return left[:, :count]
