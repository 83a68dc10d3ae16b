"""Weights of several views: one weight each, every one in its own format.

Gauge: ``||W||^2`` is the sum over the views, so the vectors of their blocks, side by side, have the norm of the whole.
Blocks of different views are linear together: the first blocks of all views are one block of the whole, and so on. A
view that has no block left is one column, its scores divided by the norm of its weight; the solution then also has its
best strength. Full weights are linear in their entries. A few entries are added to every block and so are always at
their optimum; many are one block of their own, for all such views together, and one column in the others. Where all
views have a tangent space, that of the whole is theirs side by side, with all entries of full weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ...data import errors_name_view
from ...runtime import Array, FloatArray, tuning
from ..contractions import Contraction, Direction, OfView, SideBySide
from .base import Block, Noise, Rank, Tangent, Weight
from .full import FullWeight

Ranks = tuple[Rank, ...]


@dataclass(frozen=True)
class ViewsFormat:
    """The formats of several views.

    Attributes
    ----------
    names : tuple of str
    shapes : tuple of tuple of int
        Shape of one sample in each view.
    formats : tuple of type
        The `Weight` of each view.

    Examples
    --------
    >>> from tensormargin.fitting.formats import FORMATS, ViewsFormat
    >>> form = ViewsFormat(("eeg", "age"), ((4, 5), (1,)), (FORMATS["cp"], FORMATS["full"]))
    >>> form.names
    ('eeg', 'age')
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    formats: tuple[type[Weight], ...]

    @property
    def name(self) -> str:
        """Text for the format, as single formats have one."""
        return "views"

    @property
    def sizes(self) -> list[int]:
        """Number of entries of one sample in each view."""
        return [prod(shape) for shape in self.shapes]

    def split(self, vector: Array) -> list[Array]:
        """Return the tensor of each view from all of them flattened, one after the other."""
        parts = np.split(vector, np.cumsum(self.sizes)[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def valid_ranks(self, ranks: Sequence[Rank]) -> Ranks:
        """Return the complete rank of each view."""
        found = []
        for name, form, rank, shape in zip(self.names, self.formats, ranks, self.shapes, strict=True):
            with errors_name_view(name):
                found.append(form.valid_rank(rank, shape))
        return tuple(found)

    def draws(self, rank: Any, shape: tuple[int, ...]) -> bool:
        every = zip(self.formats, rank, self.shapes, strict=True)
        return any(form.draws(own, its_shape) for form, own, its_shape in every)

    def uses_noise(self, rank: Any) -> bool:
        return any(form.uses_noise(own) for form, own in zip(self.formats, rank, strict=True))

    def from_dense(self, tensor: Array, rank: Any, rng: np.random.RandomState) -> ViewsWeight:
        every = zip(self.formats, self.split(tensor), rank, strict=True)
        return ViewsWeight.of(self, [form.from_dense(part, own, rng) for form, part, own in every])

    def start_from(
        self, tensor: Array, rank: Any, rng: np.random.RandomState, noise: Noise | None = None
    ) -> ViewsWeight:
        parts = zip(self.formats, self.split(tensor), rank, self._noise_of_each(noise), strict=True)
        return ViewsWeight.of(self, [form.start_from(part, its_rank, rng, own) for form, part, its_rank, own in parts])

    def _noise_of_each(self, noise: Noise | None) -> Sequence[Noise | None]:
        if noise is None:
            return [None] * len(self.formats)
        rows, ends = cache(noise), np.cumsum(self.sizes)[:-1]

        def of_view(view: int) -> Array:
            columns: Array = np.split(rows(), ends, axis=1)[view]
            return columns

        return [partial(of_view, view) for view in range(len(self.formats))]


@dataclass(frozen=True)
class _Part:
    """The weight of one view: ``unit`` times ``strength``; its direction is the same object for all strengths."""

    unit: Weight
    strength: float = 1.0

    @property
    def norm(self) -> float:
        """The norm, with the sign of the strength."""
        return self.strength * self.unit.norm

    @property
    def is_flat(self) -> bool:
        """Whether the weight is linear in its entries."""
        return isinstance(self.unit, FullWeight)

    def block(self, index: int) -> Block:
        block = self.unit.block(index)
        return replace(block, vector=self.strength * block.vector)

    def refit(self) -> Block:
        block = self.unit.refit()
        return replace(block, vector=self.strength * block.vector)

    def tangent(self) -> Tangent:
        """Return the tangent space, which for a full weight is everything."""
        if self.is_flat:
            block = self.block(0)
            return Tangent(block.vector, block.contractions, block.replace)
        tangent = self.unit.tangent()
        return replace(tangent, vector=self.strength * tangent.vector)

    def strengthened(self, vector: Array) -> _Part:
        """Return the part with another norm, the only entry of a vector."""
        return replace(self, strength=float(vector[0]) / self.unit.norm)

    def scaled(self) -> Weight:
        """Return the weight."""
        if self.strength == 1.0:
            return self.unit
        block = self.block(0)
        return block.replace(block.vector)


@dataclass(frozen=True)
class _Columns:
    """Some columns of a composite design: their present coefficients, and how they are computed and written back."""

    view: int
    vector: FloatArray
    contractions: tuple[Contraction | Direction, ...]
    replace: Callable[[Array], _Part]


class ViewsWeight(Weight):
    """One weight per view; dense, they are flattened and concatenated.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.fitting.formats import FORMATS, ViewsFormat
    >>> form = ViewsFormat(("eeg", "age"), ((4, 5), (1,)), (FORMATS["cp"], FORMATS["full"]))
    >>> weight = form.from_dense(np.arange(21.0), (1, None), np.random.RandomState(0))
    >>> type(weight).__name__, weight.to_dense().shape
    ('ViewsWeight', (21,))
    """

    name = "views"
    container = "tuple"

    def __init__(self, form: ViewsFormat, parts: Sequence[_Part]) -> None:
        self.form = form
        self._parts = tuple(parts)
        self.shape = (sum(form.sizes),)

    @classmethod
    def of(cls, form: ViewsFormat, weights: Sequence[Weight]) -> ViewsWeight:
        """Return the weights of several views as one."""
        return cls(form, [_Part(weight) for weight in weights])

    @cached_property
    def weights(self) -> list[Weight]:
        """The weight of each view."""
        return [part.scaled() for part in self._parts]

    def times(self, factors: Array) -> ViewsWeight:
        """Return the weights multiplied by one factor each."""
        pairs = zip(self._parts, factors.tolist(), strict=True)
        return type(self)(self.form, [replace(part, strength=part.strength * factor) for part, factor in pairs])

    @classmethod
    def valid_rank(cls, rank: Rank, shape: tuple[int, ...]) -> Rank:
        raise NotImplementedError("see ViewsFormat")

    @classmethod
    def from_dense(cls, tensor: Array, rank: Rank, rng: np.random.RandomState) -> ViewsWeight:
        raise NotImplementedError("see ViewsFormat")

    @classmethod
    def from_tensorly(cls, tensor: Any, shape: tuple[int, ...]) -> ViewsWeight:
        raise NotImplementedError("see ViewsFormat")

    def to_tensorly(self, dtype: npt.DTypeLike = np.float64) -> Any:
        return tuple(weight.to_tensorly(dtype) for weight in self.weights)

    def _expanded(self) -> FloatArray:
        return np.concatenate([part.strength * part.unit.to_dense().ravel() for part in self._parts])

    def coordinates(self) -> FloatArray:
        return np.concatenate([weight.coordinates() for weight in self.weights])

    def at_coordinates(self, vector: Array) -> Weight:
        weights = self.weights
        ends = np.cumsum([len(weight.coordinates()) for weight in weights])[:-1]
        pairs = zip(weights, np.split(vector, ends), strict=True)
        return self.of(self.form, [weight.at_coordinates(own) for weight, own in pairs])

    @property
    def rank(self) -> Any:
        return tuple(part.unit.rank for part in self._parts)

    @property
    def n_parameters(self) -> int:
        return sum(part.unit.n_parameters for part in self._parts)

    @cached_property
    def _flat(self) -> list[int]:
        return [view for view, part in enumerate(self._parts) if part.is_flat]

    @cached_property
    def _low_rank(self) -> list[int]:
        return [view for view, part in enumerate(self._parts) if not part.is_flat]

    @cached_property
    def _rides(self) -> bool:
        """Whether full weights have so few entries that they can be part of every block."""
        sizes = [part.unit.n_parameters for part in self._parts]
        others = sum(sizes[view] for view in self._low_rank)
        return others == 0 or sum(sizes) - others <= others

    @cached_property
    def _n_blocks(self) -> list[int]:
        """Number of blocks of each view; zero for full weights."""
        return [0 if part.is_flat else len(part.unit.block_names) for part in self._parts]

    @cached_property
    def block_names(self) -> tuple[str, ...]:
        counts, parts = self._n_blocks, self._parts
        named = [
            ", ".join(
                f"{self.form.names[view]}: {parts[view].unit.block_names[index]}"
                for view, count in enumerate(counts)
                if index < count
            )
            for index in range(max(counts))
        ]
        return tuple(named) if named and self._rides else (*named, "full weights")

    def block(self, index: int) -> Block:
        """Return a block of each view that has one of this number, side by side, with the strengths of the others."""
        counts = self._n_blocks
        if index == max(counts):
            return self._block(self._strengths(self._low_rank), whole=True)
        solved = [view for view in self._low_rank if index < counts[view]]
        columns = [self._of_block(view, self._parts[view].block(index)) for view in solved]
        columns += self._strengths([view for view in self._low_rank if view not in solved])
        return self._block(columns, whole=self._rides)

    def relaxed(self) -> Block:
        return self._block_of([self._of_block(view, weight.relaxed()) for view, weight in enumerate(self.weights)])

    def in_order_of_memory(self) -> ViewsWeight:
        return self.of(self.form, [weight.in_order_of_memory() for weight in self.weights])

    @property
    def has_tangent(self) -> bool:
        return all(part.is_flat or part.unit.has_tangent for part in self._parts)

    @property
    def has_costly_tangent(self) -> bool:
        return any(not part.is_flat and part.unit.has_costly_tangent for part in self._parts)

    @property
    def has_core(self) -> bool:
        """Whether all weights but small full ones are the Tucker weights of one rank."""
        return self._rides and all(part.is_flat or part.unit.has_core for part in self._parts)

    @property
    def largest_size(self) -> int:
        if not self._rides:  # wide designs in every sweep, for which BLAS is faster than code for small ones
            return tuning.SMALL_SAMPLES + 1
        return max(self.form.sizes)

    @property
    def wide(self) -> float:
        return tuning.WIDE_IF_VIEWS

    @property
    def n_tensors(self) -> int:
        return max(1, len(self._low_rank))

    @property
    def n_modes(self) -> int:
        return max(len(shape) for shape in self.form.shapes)

    def tucker_tensors(self) -> list[tuple[Array, list[Array]]]:
        return [weight.core_and_factors() for weight in self.weights]

    def with_tucker_tensors(self, tensors: list[tuple[Array, list[Array]]]) -> Weight:
        pairs = zip(self.weights, tensors, strict=True)
        return self.of(self.form, [weight.with_core(core, factors) for weight, (core, factors) in pairs])

    def refit(self) -> Block:
        """Return the block of all cores, with the entries of full weights or, of large ones, their strengths."""
        columns = [self._of_block(view, self._parts[view].refit()) for view in self._low_rank]
        return self._block(columns, whole=self._rides)

    def tangent(self) -> Tangent:
        flat_last = [*self._low_rank, *self._flat]
        columns = [self._of_block(view, self._parts[view].tangent()) for view in flat_last]
        return Tangent(*_side_by_side(columns), self._writer(columns))

    def _block(self, columns: list[_Columns], whole: bool) -> Block:
        """Return a block of these columns and of the full weights: all of their entries, or their strengths."""
        if not whole:
            return self._block_of(columns + self._strengths(self._flat))
        return self._block_of(columns + [self._of_block(view, self._parts[view].block(0)) for view in self._flat])

    def _block_of(self, columns: list[_Columns]) -> Block:
        vector, parts = _side_by_side(columns)
        return Block(vector, SideBySide(parts), self._writer(columns))

    def _of_block(self, view: int, block: Block | Tangent) -> _Columns:
        write = block.retract if isinstance(block, Tangent) else block.replace
        return _Columns(view, block.vector, block.contractions, lambda vector: _Part(write(vector)))

    def _strengths(self, views: list[int]) -> list[_Columns]:
        """Return one column for each of some views that are not zero: the scores of its direction."""
        parts = ((view, self._parts[view]) for view in views)
        return [
            _Columns(view, np.array([part.norm]), (part.unit.direction,), part.strengthened)
            for view, part in parts
            if part.norm != 0.0
        ]

    def _writer(self, columns: list[_Columns]) -> Callable[[Array], ViewsWeight]:
        """Return the function that writes a new vector of these columns into the weight."""
        ends = np.cumsum([len(one.vector) for one in columns])[:-1]

        def write(vector: Array) -> ViewsWeight:
            parts = list(self._parts)
            for one, own in zip(columns, np.split(vector, ends), strict=True):
                parts[one.view] = one.replace(own)
            return type(self)(self.form, parts)

        return write


def _side_by_side(columns: list[_Columns]) -> tuple[FloatArray, tuple[OfView, ...]]:
    parts = tuple(OfView(one.view, contraction) for one in columns for contraction in one.contractions)
    return np.concatenate([one.vector for one in columns]), parts
