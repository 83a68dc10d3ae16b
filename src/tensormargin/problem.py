"""The objective of the paper (Eq. 7) and the convex problem that is left of it when one block is free (Eq. 12-14).

With margins ``m = Y v`` (``Y`` holds the signed design) and sample weights ``p`` that sum to one, a block solves

    min_v  1/2 |v|^2 + mu1 Var(m) - mu2 Mean(m) + lam Mean(max(0, 1 - m))                                  (Eq. 12)

The quadratic part is ``1/2 v'Qv`` with ``Q = I + 2 mu1 Y'(diag(p) - pp')Y = LL'``. In the coordinates ``u = L'v``,
``A = Y L^-T`` what is left of each sample is the loss ``lam max(0, 1 - m) - mu2 m``, and its slope lies between
``-(mu2 + lam)`` and ``-mu2``. So the dual (Eq. 13) is the dual of a plain support vector machine with a shifted box:

    min_beta  1/2 |A'beta|^2 - sum(beta),    mu2 p_i <= beta_i <= (mu2 + lam) p_i,    u = A'beta            (Eq. 14)

where ``beta = alpha + mu2 p`` in the paper's notation. ``A`` has as many columns as the smaller of N and d: where d is
larger, the rows of a Cholesky factor of the N x N Gram matrix stand in for those of ``Y``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, solve_triangular

from ._typing import Array, FloatArray

_CHUNK_ENTRIES = 2**18  # temporaries of 2 MB stay in the processor's cache
_GRAM_ENTRIES = 2**21
_MANY_SAMPLES = 1000
_FAR_MORE = 20


@dataclass(frozen=True)
class Objective:
    """The parameters of Eq. 7 with the weights of the samples.

    Attributes
    ----------
    lam, mu1, mu2 : float
        The paper's lambda, mu_1 and mu_2, on the data as they come.
    weights : ndarray of shape (n_samples,)
        Non-negative, summing to one; ``1/N`` each without sample weights.
    """

    lam: float
    mu1: float
    mu2: float
    weights: FloatArray

    def value(self, squared_norm: float, margins: Array) -> float:
        """Return Eq. 7 for a weight of this squared norm and these margins."""
        mean = float(self.weights @ margins)
        variance = float(self.weights @ (margins - mean) ** 2)
        hinge = float(self.weights @ np.maximum(0.0, 1.0 - margins))
        return 0.5 * squared_norm + self.mu1 * variance - self.mu2 * mean + self.lam * hinge


@dataclass(frozen=True)
class Certificate:
    """Primal and dual value at one point: proof of how far from optimal it is.

    Attributes
    ----------
    primal, dual : float
        Values of Eq. 12 and of its dual; the optimum lies between them.
    scale : float
        Sum of the absolute values of the primal's terms, the unit of `relative_gap`. It equals the primal value
        when ``mu2 = 0`` and, unlike it, cannot vanish or change its sign.
    """

    primal: float
    dual: float
    scale: float

    @property
    def relative_gap(self) -> float:
        """``(primal - dual) / scale``, not below zero."""
        return max(self.primal - self.dual, 0.0) / self.scale if self.scale > 0 else 0.0


class BlockProblem:
    """One convex block problem in whitened coordinates (see the module's head).

    Attributes
    ----------
    rows : ndarray of shape (n_samples, n_columns)
        The matrix ``A``.
    lower, upper : ndarray of shape (n_samples,)
        Bounds of ``beta``.
    """

    def __init__(self, rows: Array, objective: Objective, recover: Callable[[Array], Recovered]) -> None:
        self.rows = rows
        self.objective = objective
        self.lower = objective.mu2 * objective.weights
        self.upper = (objective.mu2 + objective.lam) * objective.weights
        self._recover = recover

    def certify(self, u: Array, beta: Array, margins: Array) -> Certificate:
        """Return primal and dual value for ``u = A'beta`` and ``margins = A u``."""
        objective = self.objective
        half_square = 0.5 * float(u @ u)  # = 1/2 |v|^2 + mu1 Var(m)
        mean_term = objective.mu2 * float(objective.weights @ margins)
        hinge_term = objective.lam * float(objective.weights @ np.maximum(0.0, 1.0 - margins))
        return Certificate(
            primal=half_square - mean_term + hinge_term,
            dual=float(np.sum(beta - self.lower)) - half_square,
            scale=half_square + abs(mean_term) + hinge_term,
        )

    def recover(self, u: Array) -> Recovered:
        """Return the block's vector and the intercept that belong to a point (Eq. 14)."""
        return self._recover(u)

    def primal_point(self, beta: Array) -> FloatArray:
        """Return ``u = A'beta``, summed in float64 whatever the dtype of the rows."""
        u = np.zeros(self.rows.shape[1])
        for where in _row_slices(self.rows.shape):
            u += beta[where] @ self.rows[where].astype(np.float64, copy=False)
        return u

    def margins(self, u: Array) -> FloatArray:
        """Return ``A u``, in float64 whatever the dtype of the rows."""
        margins = np.empty(len(self.rows))
        for where in _row_slices(self.rows.shape):
            margins[where] = self.rows[where].astype(np.float64, copy=False) @ u
        return margins


@dataclass(frozen=True)
class Recovered:
    """A solved block: its vector, the intercept, and the squared norm of both (the intercept as it is penalised)."""

    vector: FloatArray
    intercept: float
    squared_norm: float


def block_problem(design: Array, signs: Array, objective: Objective, bias_scale: float) -> BlockProblem:
    """Build the block problem of a design matrix.

    Parameters
    ----------
    design : ndarray of shape (n_samples, d)
        Row i is the vector z_i with <W, Z_i> = v.z_i. Read, never written.
    signs : ndarray of shape (n_samples,)
        The labels t_i, 1 or -1.
    objective : Objective
    bias_scale : float
        Zero for no intercept. Otherwise the design's columns are centred and one constant column of this value is
        added; its coefficient is penalised like the others, that is, the intercept b' of the centred samples costs
        ``1/2 (b' / bias_scale)^2``.
    """
    signed = _SignedDesign(design, signs, objective.weights, bias_scale)
    return _by_features(signed, objective) if _few_columns(signed.shape, objective) else _by_samples(signed, objective)


def _few_columns(shape: tuple[int, int], objective: Objective) -> bool:
    """Tell whether to work with the d columns of Y or with the N x N Gram matrix.

    Whitening makes the smaller side cheaper. Without it (mu1 = 0) Y is used as it is, and from about a thousand samples
    on that beats the N^3 of the Gram matrix (4000 x 8000: 1.0 s against 8.0 s) unless d is larger by far.
    """
    n_samples, n_columns = shape
    unwhitened = objective.mu1 == 0.0 and n_samples >= _MANY_SAMPLES and n_columns <= _FAR_MORE * n_samples
    return n_columns <= n_samples or unwhitened


def _by_features(signed: _SignedDesign, objective: Objective) -> BlockProblem:
    """Whiten the d columns of Y; costs N d^2 + d^3, and nothing when mu1 = 0."""
    rows = signed.matrix()
    whitening = _whiten(rows, objective)

    def recover(u: Array) -> Recovered:
        return signed.as_block(u if whitening is None else whitening @ u)

    return BlockProblem(rows, objective, recover)


def _by_samples(signed: _SignedDesign, objective: Objective) -> BlockProblem:
    """Whiten a Cholesky factor of the Gram matrix YY'; costs N^2 d + N^3 and holds nothing of size d."""
    rows, chosen = _cholesky_rows(signed.gram())
    triangle = rows[chosen]
    whitening = _whiten(rows, objective)

    def recover(u: Array) -> Recovered:
        # v = Y'c lies in the span of the rows that the factorisation chose, and there F'c = L^-T u. (Solving Q v =
        # Y'beta for v instead would subtract numbers that differ in the last digits only when mu1 is large.)
        coefficients = np.zeros(len(rows))
        target = u if whitening is None else whitening @ u
        coefficients[chosen] = solve_triangular(triangle, target, lower=True, trans=1)
        return signed.as_block(signed.combine(coefficients))

    return BlockProblem(rows, objective, recover)


class _SignedDesign:
    """The matrix ``Y``: rows ``t_i (z_i - mean, bias_scale)``, made chunk by chunk in float64."""

    def __init__(self, design: Array, signs: Array, weights: Array, bias_scale: float) -> None:
        self._design = design
        self._signs = signs
        self._bias = bias_scale
        self._mean = _column_means(design, weights) if bias_scale else np.zeros(design.shape[1])
        self.shape = (len(design), design.shape[1] + bool(bias_scale))

    def matrix(self) -> Array:
        """Return ``Y`` in the design's dtype."""
        out = np.empty(self.shape, self._design.dtype)
        width = self._design.shape[1]
        for rows in _row_slices(self.shape):
            chunk = np.subtract(self._design[rows], self._mean, dtype=np.float64)
            chunk *= self._signs[rows, None]
            out[rows, :width] = chunk
        if self._bias:
            out[:, width] = self._bias * self._signs
        return out

    def gram(self) -> FloatArray:
        """Return ``YY'``, summed over chunks of columns that are centred in float64 first."""
        n_samples, width = self._design.shape
        total = np.full((n_samples, n_samples), self._bias**2)
        step = max(1, _GRAM_ENTRIES // n_samples)
        for start in range(0, width, step):
            columns = slice(start, start + step)
            chunk = np.subtract(self._design[:, columns], self._mean[columns], dtype=np.float64)
            total += chunk @ chunk.T
        total *= self._signs
        total *= self._signs[:, None]
        return total

    def combine(self, coefficients: Array) -> FloatArray:
        """Return ``Y'coefficients``."""
        signed = self._signs * coefficients
        total = float(signed.sum())
        vector = (signed.astype(self._design.dtype) @ self._design).astype(np.float64) - total * self._mean
        return np.append(vector, total * self._bias) if self._bias else vector

    def as_block(self, solution: Array) -> Recovered:
        """Split a solution into vector and intercept, and undo the centring."""
        vector = solution[: self._design.shape[1]]
        bias = float(self._bias * solution[-1] - self._mean @ vector) if self._bias else 0.0
        return Recovered(vector, bias, float(solution @ solution))


def _whiten(rows: Array, objective: Objective) -> Array | None:
    """Replace ``Y`` by ``A = Y L^-T`` in place and return ``L^-T``; None for the identity (mu1 = 0).

    Written with NumPy's products alone: alternating between NumPy's and SciPy's own copies of BLAS makes their threads
    wait for each other (a Tucker fit on MNIST took 1.6 times as long).
    """
    if objective.mu1 == 0.0:
        return None
    n_columns = rows.shape[1]
    second = np.zeros((n_columns, n_columns))
    mean = np.zeros(n_columns)
    for where in _row_slices(rows.shape):
        chunk = rows[where].astype(np.float64, copy=False)
        mean += objective.weights[where] @ chunk
        weighted = chunk * np.sqrt(objective.weights[where])[:, None]
        second += weighted.T @ weighted
    quadratic = 2.0 * objective.mu1 * (second - np.outer(mean, mean))
    quadratic.flat[:: n_columns + 1] += 1.0
    whitening: Array = np.linalg.inv(_cholesky(quadratic, objective.mu1)).T
    for where in _row_slices(rows.shape):
        rows[where] = rows[where].astype(np.float64, copy=False) @ whitening
    return whitening


def _cholesky(quadratic: FloatArray, mu1: float) -> Array:
    try:
        factor: Array = np.linalg.cholesky(quadratic)
    except np.linalg.LinAlgError:
        factor = np.full_like(quadratic, np.nan)
    if not np.all(np.isfinite(factor)):
        raise FloatingPointError(
            f"the block's quadratic form is not positive definite: mu1 = {mu1:g} is too large for samples of this "
            "magnitude; scale the samples or lower mu1"
        )
    return factor


def _cholesky_rows(gram: FloatArray) -> tuple[FloatArray, Array]:
    """Return F with ``FF' = gram`` and the positions of as many rows that make a lower triangle (pivoted Cholesky).

    F has as many columns as the Gram matrix has numerical rank. That is judged after scaling all samples to the same
    norm: beside one very large sample the others must not count as zero.
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


def _column_means(design: Array, weights: Array) -> FloatArray:
    means = np.zeros(design.shape[1])
    for rows in _row_slices(design.shape):
        means += weights[rows] @ design[rows].astype(np.float64)
    return means


def _row_slices(shape: tuple[int, int]) -> Iterator[slice]:
    step = max(1, _CHUNK_ENTRIES // max(1, shape[1]))
    for start in range(0, shape[0], step):
        yield slice(start, min(start + step, shape[0]))
