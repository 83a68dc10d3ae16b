"""The operations that a block problem needs on its design matrix, and their implementation in memory.

`tensormargin.fitting.blocks` works with a matrix in memory, or with one that stays with the samples
(`tensormargin.fitting.samples.lazy`). Each part of the latter is a `Matrix` again, so every formula is written once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..runtime import Array, FloatArray, over_parts, slices, sum_over_parts, tuning
from .row_loops import combine, multiply


class Design(ABC):
    """An N x d matrix, in memory or elsewhere."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    in_memory: bool = False

    @abstractmethod
    def to_numpy(self) -> Array:
        """Return the whole matrix as an array in memory, transferred if it is elsewhere."""

    def rows(self, which: Array | slice) -> Array:
        """Return some rows, in the dtype of the design, without reading the others."""
        raise TypeError("rows can only be read from a design in memory")  # `block_problem` takes the other side

    @abstractmethod
    def weighted_sum(self, weights: Array) -> FloatArray:
        """Return ``sum_i weights_i z_i``, in float64: for a large lambda the terms almost cancel."""

    def weighted_sums(self, weights: Array) -> FloatArray:
        """Return the `weighted_sum` for each row of ``weights``."""
        return np.stack([self.weighted_sum(own) for own in weights])

    @abstractmethod
    def products(self, vector: Array) -> FloatArray:
        """Return ``z_i . vector`` for every row, in float64."""

    @abstractmethod
    def gram(self, centre: Array) -> FloatArray:
        """Return the inner products of the rows minus ``centre``, in float64; the caller may modify the result."""

    def whitening(
        self, centre: Array, weights: Array, signs: Array, bias: float, mu1: float
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return ``L^-T`` of `blocks` for rows minus ``centre``, and the second moment of each column.

        None if the block problem has to compute them itself.
        """
        return None


class Matrix(Design):
    """A design in memory; never modified."""

    in_memory = True

    def __init__(self, array: Array) -> None:
        self._array = array
        self.shape = (len(array), array.shape[1])
        self.dtype = array.dtype

    def to_numpy(self) -> Array:
        return self._array

    def rows(self, which: Array | slice) -> Array:
        return self._array[which]

    def weighted_sum(self, weights: Array) -> FloatArray:
        def add_up(part: slice) -> FloatArray:
            total = np.zeros(self.shape[1])
            combine(self._array[part], weights[part], total)
            return total

        return sum_over_parts(add_up, self.shape[0], self._array.nbytes)

    def weighted_sums(self, weights: Array) -> FloatArray:
        if len(weights) == 1:
            return self.weighted_sum(weights[0])[None]
        return weights @ self._array.astype(np.float64, copy=False)

    def products(self, vector: Array) -> FloatArray:
        products = np.empty(self.shape[0])
        factor = np.ascontiguousarray(vector, np.float64)

        def multiply_part(part: slice) -> None:
            multiply(self._array[part], factor, products[part])

        over_parts(multiply_part, self.shape[0], self._array.nbytes)
        return products

    def gram(self, centre: Array) -> FloatArray:
        """Return the inner products of the rows minus ``centre``, summed in float64 over chunks of columns."""
        n_samples, width = self.shape

        def add_up(part: slice) -> FloatArray:
            total = np.zeros((n_samples, n_samples))
            for columns in slices(part, max(1, tuning.GRAM_ENTRIES // n_samples)):
                chunk = np.subtract(self._array[:, columns], centre[columns], dtype=np.float64)
                total += chunk @ chunk.T
            return total

        return sum_over_parts(add_up, width, self._array.nbytes)


class Piece(Design):
    """Columns of a design: another design times a factor, with rows for the samples that it lacks.

    ``present`` are the rows that the design has, in ascending order (None for all of ``n_rows``), and ``shares`` their
    weights, which sum to one: the other rows are their weighted mean, or zero without shares.
    """

    def __init__(
        self,
        design: Design,
        n_rows: int,
        factor: float = 1.0,
        present: Array | None = None,
        shares: Array | None = None,
    ) -> None:
        self.shape = (n_rows, design.shape[1])
        self.dtype, self.in_memory = design.dtype, design.in_memory
        self._design = design
        self._factor = factor
        self._present = present
        self._missing = np.empty(0, int) if present is None else np.setdiff1d(np.arange(n_rows), present)
        self._fill = np.zeros(design.shape[1])
        if len(self._missing) and shares is not None:
            self._fill = design.weighted_sum(shares)
        self._gram: tuple[Array, FloatArray] | None = None  # of the last centre

    def to_numpy(self) -> Array:
        own = self._factor * self._design.to_numpy()
        if self._present is None:
            return own
        rows = np.empty((self.shape[0], *own.shape[1:]), own.dtype)
        rows[self._present] = own
        rows[self._missing] = self._factor * self._fill
        return rows

    def rows(self, which: Array | slice) -> Array:
        if self._present is None:
            return self._scaled(self._design.rows(which))
        wanted = np.arange(self.shape[0])[which]
        known = ~np.isin(wanted, self._missing)
        rows = np.empty((len(wanted), self.shape[1]), self.dtype)
        rows[known] = self._scaled(self._design.rows(np.searchsorted(self._present, wanted[known])))
        rows[~known] = self._factor * self._fill
        return rows

    def _scaled(self, rows: Array) -> Array:
        return rows if self._factor == 1.0 else np.multiply(rows, self._factor, dtype=self.dtype)

    def weighted_sum(self, weights: Array) -> FloatArray:
        if self._present is None:
            return self._factor * self._design.weighted_sum(weights)
        total = self._design.weighted_sum(weights[self._present]) + weights[self._missing].sum() * self._fill
        return self._factor * total

    def products(self, vector: Array) -> FloatArray:
        own = self._design.products(vector)
        if self._present is not None:
            every = np.empty(self.shape[0])
            every[self._present], every[self._missing] = own, float(self._fill @ vector)
            own = every
        return self._factor * own

    def gram(self, centre: Array) -> FloatArray:
        """Return the inner products of the rows minus ``centre``; must not be modified, since it is kept."""
        if self._gram is None or not np.array_equal(self._gram[0], centre):
            self._gram = (centre.copy(), self._new_gram(centre / self._factor) * self._factor**2)
        return self._gram[1]

    def _new_gram(self, centre: Array) -> FloatArray:
        own = self._design.gram(centre)
        if self._present is None:
            return own
        rest = self._fill - centre  # zero but for rounding where the centre is the mean
        along = self._design.products(rest) - float(centre @ rest)
        total = np.empty((self.shape[0],) * 2)
        total[np.ix_(self._present, self._present)] = own
        total[np.ix_(self._present, self._missing)] = along[:, None]
        total[np.ix_(self._missing, self._present)] = along
        total[np.ix_(self._missing, self._missing)] = float(rest @ rest)
        return total


class Stacked(Design):
    """Several designs side by side, none of which is copied."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self._ends = np.cumsum([piece.shape[1] for piece in pieces])
        self.shape = (pieces[0].shape[0], int(self._ends[-1]))
        self.dtype = max(pieces, key=lambda piece: piece.shape[1]).dtype  # where most of the time goes
        self.in_memory = all(piece.in_memory for piece in pieces)

    def _split(self, vector: Array) -> list[Array]:
        return np.split(vector, self._ends[:-1])

    def to_numpy(self) -> Array:
        return np.hstack([piece.to_numpy() for piece in self._pieces], dtype=self.dtype, casting="same_kind")

    def rows(self, which: Array | slice) -> Array:
        return np.hstack([piece.rows(which) for piece in self._pieces], dtype=self.dtype, casting="same_kind")

    def weighted_sum(self, weights: Array) -> FloatArray:
        return np.concatenate([piece.weighted_sum(weights) for piece in self._pieces])

    def products(self, vector: Array) -> FloatArray:
        total = np.zeros(self.shape[0])
        for piece, part in zip(self._pieces, self._split(vector), strict=True):
            total += piece.products(part)
        return total

    def gram(self, centre: Array) -> FloatArray:
        total = np.zeros((self.shape[0],) * 2)
        for piece, part in zip(self._pieces, self._split(centre), strict=True):
            total += piece.gram(part)
        return total
