"""The interface between block problems and solvers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, qr

from ...runtime import Array, FloatArray, tuning
from ..objective import Certificate, Objective


class BlockProblem(ABC):
    """One convex block problem in whitened coordinates (see `tensormargin.fitting.blocks`).

    Attributes
    ----------
    lower, upper : ndarray of shape (n_samples,)
        Bounds on ``beta``.
    shape : tuple of int
        Number of samples and number of columns of ``A``.
    """

    def __init__(self, shape: tuple[int, int], objective: Objective) -> None:
        self.shape = shape
        self.objective = objective
        self.lower = objective.mu2 * objective.weights
        self.upper = (objective.mu2 + objective.lam) * objective.weights
        self._whitening: Array | None = None  # L^-T, None for the identity (mu1 = 0)

    def _unwhitened(self, u: Array) -> FloatArray:
        """Return ``L^-T u``."""
        return u if self._whitening is None else self._whitening @ u

    @abstractmethod
    def rows_at(self, which: Array, dtype: np.dtype | None = None) -> Array:
        """Return some rows of ``A``, by default in the dtype of the samples."""

    @abstractmethod
    def primal_point(self, beta: Array) -> FloatArray:
        """Return ``u = A'beta``, always summed in float64."""

    @abstractmethod
    def margins(self, u: Array) -> FloatArray:
        """Return ``A u``, always in float64."""

    @abstractmethod
    def recover(self, u: Array, margins: Array) -> Recovered:
        """Return the block's vector and intercept at the point ``u`` with the given margins (Eq. 14)."""

    @property
    def rows(self) -> Array:
        """All of ``A``, in float64."""
        return self.rows_at(np.arange(self.shape[0]), np.dtype(np.float64))

    def certify(self, u: Array, beta: Array, margins: Array) -> Certificate:
        """Return the primal and dual value for ``u = A'beta`` and ``margins = A u``."""
        objective = self.objective
        half_square = 0.5 * float(u @ u)  # = 1/2 |v|^2 + mu1 Var(m)
        mean_term = objective.mu2 * float(objective.weights @ margins)
        hinge_term = objective.lam * float(objective.weights @ np.maximum(0.0, 1.0 - margins))
        return Certificate(
            primal=half_square - mean_term + hinge_term,
            dual=float(np.sum(beta - self.lower)) - half_square,
            scale=half_square + abs(mean_term) + hinge_term,
        )


@dataclass(frozen=True)
class Recovered:
    """A solved block.

    Attributes
    ----------
    vector : ndarray of shape (d,)
    intercept : float
    squared_norm : float
        Squared norm of the vector plus the penalty of the intercept.
    margins : ndarray of shape (n_samples,)
        Margins computed from the vector and the intercept.
    """

    vector: FloatArray
    intercept: float
    squared_norm: float
    margins: FloatArray


def whitening(mean: FloatArray, second: FloatArray, mu1: float) -> FloatArray:
    """Return ``L^-T`` with ``LL' = Q = I + 2 mu1 (second - mean mean')``."""
    quadratic = 2.0 * mu1 * (second - np.outer(mean, mean))
    quadratic.flat[:: len(mean) + 1] += 1.0
    factor, failed = lapack.dpotrf(quadratic, lower=1)
    return _inverse(np.ascontiguousarray(factor.T), mu1, bool(failed))


def whitening_of_rows(rows: FloatArray, objective: Objective) -> FloatArray:
    """Return ``L^-T`` from the rows of ``Y`` themselves, for a ``mu1`` that makes `moments_are_too_coarse`.

    ``L'`` is the triangle of the centred rows above an identity. Nothing is squared, so that the error of Q is that of
    the rows times the root of mu1, not mu1.
    """
    centred = rows - objective.weights @ rows
    centred *= np.sqrt(2.0 * objective.mu1 * objective.weights)[:, None]
    (triangle,) = qr(np.vstack([centred, np.eye(rows.shape[1])]), mode="r", overwrite_a=True, check_finite=False)
    return _inverse(triangle[: rows.shape[1]], objective.mu1)


def moments_are_too_coarse(second: FloatArray, mu1: float, tol: float, dtype: np.dtype | type = np.float64) -> bool:
    """Return whether second moments rounded to ``dtype`` may change the relative gap by a good part of ``tol``.

    An error e in the second moments adds 2 mu1 e to Q, whose identity part is 1, and so affects the gap. Moments that
    overflow are left to `whitening`, which refuses them.
    """
    error = 2.0 * mu1 * float(second.diagonal().max()) * float(np.finfo(dtype).eps)
    return tuning.MOMENT_ROUNDING * tol < error < np.inf


def _inverse(triangle: FloatArray, mu1: float, failed: bool = False) -> FloatArray:
    """Return the inverse of an upper triangle."""
    inverse, singular = lapack.dtrtri(triangle)
    if failed or singular or not np.all(np.isfinite(inverse)):
        raise ValueError(
            f"the block's quadratic form is not positive definite: mu1 = {mu1:g} is too large for samples of this "
            "magnitude; scale the samples or lower mu1"
        )
    return np.ascontiguousarray(inverse)
