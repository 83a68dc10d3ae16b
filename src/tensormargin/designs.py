"""The operations that a block problem needs on its design matrix, and their implementation in memory.

`tensormargin.blocks` works with a matrix in memory, or with one that stays with the samples
(`tensormargin.samples.lazy`). Each part of the latter is a `Matrix` again, so every formula is written once.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from . import tuning
from ._typing import Array, FloatArray
from .threads import over_parts, slices, sum_over_parts


class Design(Protocol):
    """An N x d matrix, in memory or elsewhere.

    Attributes
    ----------
    shape : tuple of int
    dtype : dtype
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    def here(self) -> Array:
        """Return the whole matrix as an array in memory, transferred if it is elsewhere."""

    def weighted_sum(self, weights: Array) -> FloatArray:
        """Return ``sum_i weights_i z_i``, in float64: for a large lambda the terms almost cancel."""

    def products(self, vector: Array) -> FloatArray:
        """Return ``z_i . vector`` for every row, in float64."""

    def gram(self, centre: Array) -> FloatArray:
        """Return the inner products of the rows minus ``centre``, in float64; the caller may modify the result."""


class Matrix:
    """A design in memory; never modified."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self.shape: tuple[int, int] = (len(array), array.shape[1])
        self.dtype = array.dtype

    def here(self) -> Array:
        """Return the array."""
        return self._array

    def weighted_sum(self, weights: Array) -> FloatArray:
        """Return ``sum_i weights_i z_i``, in float64."""
        from ._kernels import combine

        def add_up(part: slice) -> FloatArray:
            total = np.zeros(self.shape[1])
            combine(self._array[part], weights[part], total)
            return total

        return sum_over_parts(add_up, self.shape[0], self._array.nbytes)

    def products(self, vector: Array) -> FloatArray:
        """Return ``z_i . vector`` for every row, in float64."""
        from ._kernels import multiply

        products = np.empty(self.shape[0])
        factor = np.ascontiguousarray(vector)

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
