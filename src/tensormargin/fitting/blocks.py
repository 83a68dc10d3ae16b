"""The convex problem of one block: the objective (Eq. 7) with all other blocks fixed (Eq. 12-14).

With margins ``m = Y v`` (``Y`` holds the signed design) and sample weights ``p`` that sum to one, a block solves

    min_v  1/2 |v|^2 + mu1 Var(m) - mu2 Mean(m) + lam Mean(max(0, 1 - m))                                  (Eq. 12)

The quadratic part is ``1/2 v'Qv`` with ``Q = I + 2 mu1 Y'(diag(p) - pp')Y = LL'``. In the coordinates ``u = L'v``,
``A = Y L^-T``, the remaining loss of each sample is ``lam max(0, 1 - m) - mu2 m``, with a slope between ``-(mu2 +
lam)`` and ``-mu2``. So the dual (Eq. 13) is the dual of a plain support vector machine with a shifted box:

    min_beta  1/2 |A'beta|^2 - sum(beta),    mu2 p_i <= beta_i <= (mu2 + lam) p_i,    u = A'beta            (Eq. 14)

where ``beta = alpha + mu2 p`` in the paper's notation. ``A`` has as many columns as the smaller of N and d: if d is
larger, the rows of a Cholesky factor of the N x N Gram matrix replace those of ``Y``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from math import prod
from typing import NamedTuple

import numpy as np
from scipy.linalg import qr

from ..runtime import Array, FloatArray, over_parts, slices, sum_over_parts, triangles, tuning
from .designs import Design, Matrix
from .objective import Certificate, MarginProblem, Objective


class Recovered(NamedTuple):
    """A solved block; the squared norm includes the penalty of the intercept."""

    vector: FloatArray
    intercept: float
    squared_norm: float
    margins: FloatArray


def block_problem(design: Array | Design, problem: MarginProblem, tol: float = 0.0, wide: float = 1.0) -> BlockProblem:
    """Return the block problem of a design matrix on the cheaper of its two sides.

    Row i of the design is the vector z_i with <W, Z_i> = v.z_i. A design that is not in memory is transferred unless it
    has more columns than rows. With an intercept, the columns are centred and a constant column of value ``bias_scale``
    is added, whose coefficient is penalised like the others. ``tol`` is the relative duality gap that the problem will
    be solved to: second moments of a float32 design are summed in float32 if their rounding error is far below it.
    Whitened problems with more than ``wide`` columns per sample are solved in the inner products of the samples.
    """
    design, stays = _placed(design, bool(problem.bias_scale))
    signed, objective = SignedDesign(design, problem), problem.objective
    n_samples, n_columns = signed.shape
    few = n_columns <= tuning.FAR_MORE_COLUMNS * n_samples and n_samples >= tuning.MANY_SAMPLES
    if not stays and (n_columns <= wide * n_samples or (objective.mu1 == 0.0 and few)):
        return FeatureSide(signed, objective, tol)
    return SampleSide(signed, objective, tol)


def _placed(design: Array | Design, bias: bool) -> tuple[Design, bool]:
    """Return the design, in memory unless it is so wide that its Gram matrix is enough, and whether it stays there."""
    if not isinstance(design, np.ndarray):
        n_samples, width = design.shape
        large = n_samples * width > tuning.SMALL_DESIGN
        if large and design.in_memory:
            return design, False
        if large and width + bias > n_samples:
            return design, True
        design = design.to_numpy()
    if design.size <= tuning.SMALL_DESIGN:
        design = design.astype(np.float64, copy=False)  # cheap, and allows an exact solution
    return Matrix(design), False


class BlockProblem(ABC):
    """One convex block problem in whitened coordinates; ``beta`` lies between ``lower`` and ``upper``."""

    def __init__(self, shape: tuple[int, int], signed: SignedDesign, objective: Objective) -> None:
        self.shape = shape  # of A
        self.signs, self._signed = signed.signs, signed
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
        half_square = 0.5 * float(u @ u)  # = 1/2 |v|^2 + mu1 Var(m)
        return self.objective.certificate(half_square, margins, float(np.sum(beta - self.lower)) - half_square)


class FeatureSide(BlockProblem):
    """Block problem in the d whitened columns of Y, of which ``A`` is never formed as a whole.

    Costs N d^2 (second moments) and d^3, or nothing if mu1 = 0. The solver reads the rows that it works on.
    """

    def __init__(self, signed: SignedDesign, objective: Objective, tol: float) -> None:
        super().__init__(signed.shape, signed, objective)
        if objective.mu1 > 0.0:
            elsewhere = signed.whitening_elsewhere(objective.mu1, tol)
            self._whitening = self._new_whitening(tol) if elsewhere is None else elsewhere

    def _new_whitening(self, tol: float) -> FloatArray:
        signed, objective = self._signed, self.objective
        mean, second = signed.second_moments(signed.dtype)
        # Single precision halves the time where it is accurate enough (12k x 257, two cores: 9 instead of 16 ms).
        samples = second[: signed.width, : signed.width]  # without the intercept's column, which is always float64
        if signed.dtype != np.float64 and moments_are_too_coarse(samples.diagonal(), objective.mu1, tol, signed.dtype):
            mean, second = signed.second_moments(np.dtype(np.float64))
        if moments_are_too_coarse(second.diagonal(), objective.mu1, tol):
            rows = signed.take(np.arange(signed.shape[0]), np.dtype(np.float64))
            return _whitening_of_rows(rows, objective)
        return _whitening(mean, second, objective.mu1)

    def rows_at(self, which: Array, dtype: np.dtype | None = None) -> Array:
        rows = np.empty((len(which), self.shape[1]), dtype or self._signed.dtype)
        matrix = None if self._whitening is None else self._whitening.astype(rows.dtype, copy=False)

        def whiten(part: slice) -> None:
            for where in _row_slices(rows.shape, part):
                signed = self._signed.take(which[where], rows.dtype)
                rows[where] = signed if matrix is None else _times_triangle(signed, matrix)

        over_parts(whiten, len(which), rows.nbytes)
        return rows

    def primal_point(self, beta: Array) -> FloatArray:
        combined = self._signed.combine(beta)
        return combined if self._whitening is None else combined @ self._whitening

    def margins(self, u: Array) -> FloatArray:
        return self._signed.times(self._unwhitened(u))

    def recover(self, u: Array, margins: Array) -> Recovered:
        return Recovered(*self._signed.as_block(self._unwhitened(u)), margins)  # `margins` used this very vector


class SampleSide(BlockProblem):
    """Block problem with a whitened Cholesky factor of YY': costs N^2 d + N^3 and stores nothing of size d."""

    def __init__(self, signed: SignedDesign, objective: Objective, tol: float) -> None:
        rows, self._chosen = cholesky_rows(signed.gram())
        super().__init__(rows.shape, signed, objective)
        self._triangle = rows[self._chosen]
        self._rows = rows
        if objective.mu1 > 0.0:
            mean = objective.weights @ rows
            weighted = rows * np.sqrt(objective.weights)[:, None]
            second = weighted.T @ weighted
            coarse = moments_are_too_coarse(second.diagonal(), objective.mu1, tol)
            self._whitening = _whitening_of_rows(rows, objective) if coarse else _whitening(mean, second, objective.mu1)
            self._rows = rows @ self._whitening

    @property
    def rows(self) -> Array:
        return self._rows

    def rows_at(self, which: Array, dtype: np.dtype | None = None) -> Array:
        return self._rows[which]

    def primal_point(self, beta: Array) -> FloatArray:
        return beta @ self._rows

    def margins(self, u: Array) -> FloatArray:
        return self._rows @ u

    def recover(self, u: Array, margins: Array) -> Recovered:
        # v = Y'c lies in the span of the rows that the factorisation chose, and there F'c = L^-T u. (Solving Q v =
        # Y'beta for v instead would suffer from cancellation when mu1 is large.)
        coefficients = np.zeros(self.shape[0])
        coefficients[self._chosen] = triangles.solve(self._triangle, self._unwhitened(u), transposed=True)
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
    scaled = gram / lengths
    scaled /= lengths[:, None]
    lower, order = triangles.pivoted_cholesky(scaled)
    rank = max(lower.shape[1], 1)
    rows = np.zeros((len(gram), rank))
    rows[order, : lower.shape[1]] = lower * lengths[order, None]
    if not rows.any():
        rows[order[0], 0] = np.finfo(float).tiny  # all samples are zero: keep the triangle invertible
    return rows, order[:rank]


def _whitening(mean: FloatArray, second: FloatArray, mu1: float) -> FloatArray:
    """Return ``L^-T`` with ``LL' = Q = I + 2 mu1 (second - mean mean')``."""
    quadratic = 2.0 * mu1 * (second - np.outer(mean, mean))
    quadratic.flat[:: len(mean) + 1] += 1.0
    return _transposed_inverse(triangles.cholesky(quadratic), mu1)


def _whitening_of_rows(rows: FloatArray, objective: Objective) -> FloatArray:
    """Return ``L^-T`` from the rows of ``Y`` themselves, without squares, for a ``mu1`` that is too large for them."""
    centred = rows - objective.weights @ rows
    centred *= np.sqrt(2.0 * objective.mu1 * objective.weights)[:, None]
    (triangle,) = qr(np.vstack([centred, np.eye(rows.shape[1])]), mode="r", overwrite_a=True, check_finite=False)
    return _transposed_inverse(triangle[: rows.shape[1]].T, objective.mu1)


def _times_triangle(rows: Array, triangle: Array) -> Array:
    """Return ``rows @ triangle`` for an upper triangle, in half the time of a product; the rows are overwritten."""
    triangles.multiply(rows, np.ascontiguousarray(triangle.T))
    return rows


def moments_are_too_coarse(squares: FloatArray, mu1: float, tol: float, dtype: np.dtype | type = np.float64) -> bool:
    """Return whether second moments rounded to ``dtype`` may change the relative gap by a good part of ``tol``.

    ``squares`` are those of single columns.

    An error e in the second moments adds 2 mu1 e to Q, whose identity part is 1, and so affects the gap. Moments that
    overflow are left to `_whitening`, which refuses them.
    """
    error = 2.0 * mu1 * float(squares.max()) * float(np.finfo(dtype).eps)
    return tuning.MOMENT_ROUNDING * tol < error < np.inf


def _transposed_inverse(lower: FloatArray | None, mu1: float) -> FloatArray:
    """Return ``L^-T`` for a lower triangle; raise ValueError if there is none."""
    inverse = None if lower is None else triangles.inverse(lower)
    if inverse is None or not np.all(np.isfinite(inverse)):
        raise ValueError(
            f"the block's quadratic form is not positive definite: mu1 = {mu1:g} is too large for samples of this "
            "magnitude; scale the samples or lower mu1"
        )
    return inverse.T


class SignedDesign:
    """The matrix ``Y`` with rows ``t_i (z_i - mean, bias_scale)``, which is never formed."""

    def __init__(self, design: Design, problem: MarginProblem) -> None:
        self._design = design
        self.signs = problem.signs
        self._weights = problem.objective.weights
        self._bias = problem.bias_scale
        self.dtype = design.dtype
        n_samples, self.width = design.shape
        self.shape = (n_samples, self.width + bool(self._bias))
        self._mean = design.weighted_sum(self._weights) if self._bias else np.zeros(self.width)

    def take(self, which: Array, dtype: np.dtype) -> Array:
        """Return some rows of ``Y`` in ``dtype``."""
        signs = self.signs[which].astype(dtype)
        width = self.width
        out = np.empty((len(signs), self.shape[1]), dtype)
        np.subtract(self._design.rows(which), self._mean.astype(dtype), out=out[:, :width])
        out[:, :width] *= signs[:, None]
        if self._bias:
            out[:, width] = self._bias * signs
        return out

    def second_moments(self, dtype: np.dtype) -> tuple[FloatArray, FloatArray]:
        """Return the weighted mean and second moments, where signs cancel, of the rows of ``Y``, in ``dtype``."""
        design, width = self._design, self.width
        centre, roots = self._mean.astype(dtype), np.sqrt(self._weights).astype(dtype)
        signed_roots = self.signs.astype(dtype) * roots

        def add_up(part: slice) -> FloatArray:
            total = np.zeros((width + 1, width))  # the mean above the second moments
            for where in _row_slices(design.shape, part, at_least=tuning.TALL * width):
                chunk = design.rows(where).astype(dtype, copy=False) - centre
                chunk *= roots[where, None]
                total[0] += signed_roots[where] @ chunk
                total[1:] += chunk.T @ chunk
            return total

        total = sum_over_parts(add_up, self.shape[0], prod(design.shape) * design.dtype.itemsize)
        mean, second = np.zeros(self.shape[1]), np.zeros((self.shape[1], self.shape[1]))
        mean[:width], second[:width, :width] = total[0], total[1:]
        if self._bias:
            mean[width] = self._bias * float(self._weights @ self.signs)
            second[width, width] = self._bias**2
        return mean, second

    def whitening_elsewhere(self, mu1: float, tol: float) -> FloatArray | None:
        """Return ``L^-T`` as the design has it from its device; None if it has not, or not accurately enough."""
        found = self._design.whitening(self._mean, self._weights, self.signs, self._bias, mu1)
        return None if found is None or moments_are_too_coarse(found[1], mu1, tol) else found[0]

    def gram(self) -> FloatArray:
        """Return ``YY'``."""
        total = self._design.gram(self._mean)
        total += self._bias**2
        total *= self.signs
        total *= self.signs[:, None]
        return total

    def combine(self, coefficients: Array) -> FloatArray:
        """Return ``Y'coefficients``."""
        signed = self.signs * coefficients
        total = float(signed.sum())
        vector = self._design.weighted_sum(signed) - total * self._mean
        return np.append(vector, total * self._bias) if self._bias else vector

    def times(self, vector: Array) -> FloatArray:
        """Return ``Y vector``, in float64."""
        products = self._design.products(vector[: self.width])
        products += self._intercept(vector)
        products *= self.signs
        return products

    def as_block(self, solution: Array) -> tuple[FloatArray, float, float]:
        """Return the vector and intercept for uncentred samples, and the squared norm of the solution."""
        return solution[: self.width], self._intercept(solution), float(solution @ solution)

    def _intercept(self, solution: Array) -> float:
        return float(self._bias * solution[-1] - self._mean @ solution[: self.width]) if self._bias else 0.0


def _row_slices(shape: tuple[int, int], within: slice, at_least: int = 1) -> Iterator[slice]:
    """Return slices of rows that fit into the processor's cache, for a matrix of this shape."""
    return slices(within, max(at_least, tuning.BLOCK_CHUNK_ENTRIES // max(1, shape[1])))
