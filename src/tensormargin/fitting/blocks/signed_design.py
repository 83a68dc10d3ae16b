"""The design of a block multiplied by the labels, without forming the product."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from ...runtime import Array, FloatArray, slices, sum_over_parts, tuning
from ..designs import Design, DesignHere, is_here
from ..objective import MarginProblem


class SignedDesign:
    """The matrix ``Y`` with rows ``t_i (z_i - mean, bias_scale)``, which is never formed."""

    def __init__(self, design: Design, problem: MarginProblem) -> None:
        self._design = design
        self._signs = problem.signs
        self._weights = problem.objective.weights
        self._bias = problem.bias_scale
        self.dtype = design.dtype
        n_samples, self.width = design.shape
        self.shape = (n_samples, self.width + bool(self._bias))
        self._mean = design.weighted_sum(self._weights) if self._bias else np.zeros(self.width)

    def _here(self) -> DesignHere:
        if not is_here(self._design):
            raise TypeError("rows can only be read from a design in memory")  # `block_problem` takes the other side
        return self._design

    def take(self, which: Array, dtype: np.dtype) -> Array:
        """Return some rows of ``Y`` in ``dtype``."""
        signs = self._signs[which].astype(dtype)
        width = self.width
        out = np.empty((len(signs), self.shape[1]), dtype)
        np.subtract(self._here().rows(which), self._mean.astype(dtype), out=out[:, :width])
        out[:, :width] *= signs[:, None]
        if self._bias:
            out[:, width] = self._bias * signs
        return out

    def second_moments(self, dtype: np.dtype) -> tuple[FloatArray, FloatArray]:
        """Return the weighted mean and second moments of the rows of ``Y``, computed in ``dtype`` chunk by chunk.

        The signs cancel in the second moments, and the centred columns are orthogonal to the constant one.
        """
        design, width = self._here(), self.width
        centre, roots = self._mean.astype(dtype), np.sqrt(self._weights).astype(dtype)
        signed_roots = self._signs.astype(dtype) * roots

        def add_up(part: slice) -> FloatArray:
            total = np.zeros((width + 1, width))  # the mean above the second moments
            for where in row_slices(self._design.shape, part, at_least=tuning.TALL * width):
                chunk = design.rows(where).astype(dtype, copy=False) - centre
                chunk *= roots[where, None]
                total[0] += signed_roots[where] @ chunk
                total[1:] += chunk.T @ chunk
            return total

        total = sum_over_parts(add_up, self.shape[0], prod(design.shape) * design.dtype.itemsize)
        mean, second = np.zeros(self.shape[1]), np.zeros((self.shape[1], self.shape[1]))
        mean[:width], second[:width, :width] = total[0], total[1:]
        if self._bias:
            mean[width] = self._bias * float(self._weights @ self._signs)
            second[width, width] = self._bias**2
        return mean, second

    def gram(self) -> FloatArray:
        """Return ``YY'``."""
        total = self._design.gram(self._mean)
        total += self._bias**2
        total *= self._signs
        total *= self._signs[:, None]
        return total

    def combine(self, coefficients: Array) -> FloatArray:
        """Return ``Y'coefficients``."""
        signed = self._signs * coefficients
        total = float(signed.sum())
        vector = self._design.weighted_sum(signed) - total * self._mean
        return np.append(vector, total * self._bias) if self._bias else vector

    def times(self, vector: Array) -> FloatArray:
        """Return ``Y vector``, in float64."""
        width = self.width
        offset = float(self._bias * vector[-1] - self._mean @ vector[:width]) if self._bias else 0.0
        products = self._design.products(vector[:width])
        products += offset
        products *= self._signs
        return products

    def as_block(self, solution: Array) -> tuple[FloatArray, float, float]:
        """Return the vector and intercept for uncentred samples, and the squared norm of the solution."""
        vector = solution[: self.width]
        intercept = float(self._bias * solution[-1] - self._mean @ vector) if self._bias else 0.0
        return vector, intercept, float(solution @ solution)


def row_slices(shape: tuple[int, int], within: slice, at_least: int = 1) -> Iterator[slice]:
    """Return slices of rows that fit into the processor's cache, for a matrix of this shape."""
    return slices(within, max(at_least, tuning.BLOCK_CHUNK_ENTRIES // max(1, shape[1])))
