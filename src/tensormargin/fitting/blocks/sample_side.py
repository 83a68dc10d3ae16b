"""A block problem in the N x N inner products of its samples."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack, solve_triangular

from ...runtime import Array, FloatArray
from ..objective import Objective
from .base import BlockProblem, Recovered, moments_are_too_coarse, whitening, whitening_of_rows
from .signed_design import SignedDesign


class SampleSide(BlockProblem):
    """Block problem with a whitened Cholesky factor of YY': costs N^2 d + N^3 and stores nothing of size d."""

    def __init__(self, signed: SignedDesign, objective: Objective, tol: float) -> None:
        rows, self._chosen = cholesky_rows(signed.gram())
        super().__init__(rows.shape, objective)
        self._signed = signed
        self._triangle = rows[self._chosen]
        self._rows = rows
        if objective.mu1 > 0.0:
            mean = objective.weights @ rows
            weighted = rows * np.sqrt(objective.weights)[:, None]
            second = weighted.T @ weighted
            coarse = moments_are_too_coarse(second, objective.mu1, tol)
            self._whitening = whitening_of_rows(rows, objective) if coarse else whitening(mean, second, objective.mu1)
            self._rows = rows @ self._whitening

    @property
    def rows(self) -> Array:
        """All of ``A``."""
        return self._rows

    def rows_at(self, which: Array, dtype: np.dtype | None = None) -> Array:
        """Return some rows of ``A``."""
        return self._rows[which]

    def primal_point(self, beta: Array) -> FloatArray:
        """Return ``u = A'beta``."""
        return beta @ self._rows

    def margins(self, u: Array) -> FloatArray:
        """Return ``A u``."""
        return self._rows @ u

    def recover(self, u: Array, margins: Array) -> Recovered:
        """Return the block's vector and intercept (Eq. 14)."""
        # v = Y'c lies in the span of the rows that the factorisation chose, and there F'c = L^-T u. (Solving Q v =
        # Y'beta for v instead would suffer from cancellation when mu1 is large.)
        coefficients = np.zeros(self.shape[0])
        coefficients[self._chosen] = solve_triangular(
            self._triangle, self._unwhitened(u), lower=True, trans=1, check_finite=False
        )
        combined = self._signed.combine(coefficients)
        # Evaluate the recovered vector, not its whitened coordinates, so that the gap includes the error of recovery.
        return Recovered(*self._signed.as_block(combined), self._signed.times(combined))


def cholesky_rows(gram: FloatArray) -> tuple[FloatArray, Array]:
    """Return F with ``FF' = gram`` and the positions of the rows that form a lower triangle (pivoted Cholesky).

    The number of columns of F is the numerical rank of the Gram matrix. It is determined after scaling all samples to
    the same norm, so that one very large sample does not make the others count as zero.
    """
    lengths = np.sqrt(np.diag(gram))
    lengths = np.where(lengths > 0, lengths, 1.0)
    packed, pivots, rank, _ = lapack.dpstrf(gram / np.outer(lengths, lengths), lower=1)
    rank = max(int(rank), 1)
    order = pivots - 1
    rows = np.empty((len(gram), rank))
    rows[order] = np.tril(packed)[:, :rank] * lengths[order, None]
    if not rows.any():
        rows[order[0], 0] = np.finfo(float).tiny  # all samples are zero: keep the triangle invertible
    return rows, order[:rank]
