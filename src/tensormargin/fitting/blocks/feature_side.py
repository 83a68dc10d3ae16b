"""A block problem in the d columns of its design."""

from __future__ import annotations

import numpy as np

from ...runtime import Array, FloatArray, over_parts
from ..objective import Objective
from .base import BlockProblem, Recovered, moments_are_too_coarse, whitening, whitening_of_rows
from .signed_design import SignedDesign, row_slices


class FeatureSide(BlockProblem):
    """Block problem with the d columns of Y whitened: costs N d^2 (second moments) and d^3, or nothing if mu1 = 0.

    ``A`` is never formed as a whole. Products with it are computed with ``Y`` and ``L^-T`` in turn, and the solver asks
    for the rows that it works on, usually a fraction of them.
    """

    def __init__(self, signed: SignedDesign, objective: Objective, tol: float) -> None:
        super().__init__(signed.shape, objective)
        self._signed = signed
        if objective.mu1 > 0.0:
            mean, second = signed.second_moments(signed.dtype)
            # Single precision halves the time where it is accurate enough (12k x 257, two cores: 9 instead of 16 ms).
            samples = second[: signed.width, : signed.width]  # without the intercept's column, which is always float64
            if signed.dtype != np.float64 and moments_are_too_coarse(samples, objective.mu1, tol, signed.dtype):
                mean, second = signed.second_moments(np.dtype(np.float64))
            if moments_are_too_coarse(second, objective.mu1, tol):
                rows = signed.take(np.arange(signed.shape[0]), np.dtype(np.float64))
                self._whitening = whitening_of_rows(rows, objective)
            else:
                self._whitening = whitening(mean, second, objective.mu1)

    def rows_at(self, which: Array, dtype: np.dtype | None = None) -> Array:
        """Return some rows of ``A``."""
        rows = np.empty((len(which), self.shape[1]), dtype or self._signed.dtype)
        matrix = None if self._whitening is None else self._whitening.astype(rows.dtype, copy=False)

        def whiten(part: slice) -> None:
            for where in row_slices(rows.shape, part):
                signed = self._signed.take(which[where], rows.dtype)
                rows[where] = signed if matrix is None else signed @ matrix

        over_parts(whiten, len(which), rows.nbytes)
        return rows

    def primal_point(self, beta: Array) -> FloatArray:
        """Return ``u = A'beta``."""
        combined = self._signed.combine(beta)
        return combined if self._whitening is None else combined @ self._whitening

    def margins(self, u: Array) -> FloatArray:
        """Return ``A u``."""
        return self._signed.times(self._unwhitened(u))

    def recover(self, u: Array, margins: Array) -> Recovered:
        """Return the block's vector and intercept (Eq. 14)."""
        vector, intercept, squared_norm = self._signed.as_block(self._unwhitened(u))
        return Recovered(vector, intercept, squared_norm, margins)  # `margins` used this very vector
