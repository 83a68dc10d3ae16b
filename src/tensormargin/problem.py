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

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isfinite

import numpy as np
from scipy.linalg import lapack, solve_triangular

from ._typing import Array, FloatArray
from .designs import Design, Matrix
from .threads import over_parts, slices, sum_over_parts

SMALL_DESIGN = 2**15  # entries; such a problem is solved exactly whatever tolerance is asked for
_CHUNK_ENTRIES = 2**18  # temporaries of 2 MB stay in the processor's cache
_TALL = 2  # rows a column, so that adding up d x d moments is little beside computing them
_GAP_SHARE = 0.1
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
        """``(primal - dual) / scale``, not below zero; infinite where one of them is no finite number."""
        gap = self.primal - self.dual
        if not isfinite(gap):
            return inf
        return max(gap, 0.0) / self.scale if self.scale > 0 else 0.0


class BlockProblem(ABC):
    """One convex block problem in whitened coordinates (see the module's head).

    Attributes
    ----------
    lower, upper : ndarray of shape (n_samples,)
        Bounds of ``beta``.
    shape : tuple of int
        Number of samples and of columns of ``A``.
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
        """Return some rows of ``A``, in the dtype of the samples unless told otherwise."""

    @abstractmethod
    def primal_point(self, beta: Array) -> FloatArray:
        """Return ``u = A'beta``, summed in float64 whatever the dtype of the samples."""

    @abstractmethod
    def margins(self, u: Array) -> FloatArray:
        """Return ``A u``, in float64 whatever the dtype of the samples."""

    @abstractmethod
    def recover(self, u: Array, margins: Array) -> Recovered:
        """Return the block's vector and the intercept that belong to a point with its margins (Eq. 14)."""

    @property
    def rows(self) -> Array:
        """The whole of ``A`` in float64."""
        return self.rows_at(np.arange(self.shape[0]), np.dtype(np.float64))

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


@dataclass(frozen=True)
class Recovered:
    """A solved block.

    Attributes
    ----------
    vector : ndarray of shape (d,)
    intercept : float
    squared_norm : float
        Of the vector and the intercept, the latter as it is penalised.
    margins : ndarray of shape (n_samples,)
        Those of the vector and the intercept, computed from them.
    """

    vector: FloatArray
    intercept: float
    squared_norm: float
    margins: FloatArray


def block_problem(
    design: Array | Design, signs: Array, objective: Objective, bias_scale: float, tol: float = 0.0
) -> BlockProblem:
    """Build the block problem of a design matrix.

    Parameters
    ----------
    design : ndarray of shape (n_samples, d), or Design
        Row i is the vector z_i with <W, Z_i> = v.z_i. Read, never written. One that is elsewhere stays there if it has
        more columns than rows; otherwise it is brought here.
    signs : ndarray of shape (n_samples,)
        The labels t_i, 1 or -1.
    objective : Objective
    bias_scale : float
        Zero for no intercept. Otherwise the design's columns are centred and one constant column of this value is
        added; its coefficient is penalised like the others, that is, the intercept b' of the centred samples costs
        ``1/2 (b' / bias_scale)^2``.
    tol : float
        The relative duality gap that the problem will be solved to. Second moments of a float32 design are summed in
        float32 where their rounding is far below it.
    """
    design, stays = _placed(design, bool(bias_scale))
    signed = _SignedDesign(design, signs, objective.weights, bias_scale)
    if not stays and _few_columns(signed.shape, objective):
        return _FeatureSide(signed, objective, tol)
    return _SampleSide(signed, objective)


def _placed(design: Array | Design, bias: bool) -> tuple[Design, bool]:
    """Return the design where it is worked on, and whether that is elsewhere.

    The Gram matrix is all that the samples' side needs at hand. The rows of a long or small design are.
    """
    if not isinstance(design, np.ndarray):
        n_samples, width = design.shape
        if width + bias > n_samples and n_samples * width > SMALL_DESIGN:
            return design, True
        design = design.here()
    if design.size <= SMALL_DESIGN:
        design = design.astype(np.float64, copy=False)  # costs nothing, and allows to solve the problem exactly
    return Matrix(design), False


def _few_columns(shape: tuple[int, int], objective: Objective) -> bool:
    """Tell whether to work with the d columns of Y or with the N x N Gram matrix.

    Whitening makes the smaller side cheaper. Without it (mu1 = 0) Y is used as it is, and from about a thousand samples
    on that beats the N^3 of the Gram matrix (4000 x 8000: 1.0 s against 8.0 s) unless d is larger by far.
    """
    n_samples, n_columns = shape
    unwhitened = objective.mu1 == 0.0 and n_samples >= _MANY_SAMPLES and n_columns <= _FAR_MORE * n_samples
    return n_columns <= n_samples or unwhitened


class _FeatureSide(BlockProblem):
    """The d columns of Y are whitened: N d^2 for their second moments and d^3, and nothing when mu1 = 0.

    ``A`` itself is never formed as a whole. Its products with vectors go through ``Y`` and ``L^-T`` one after the
    other, and the solver asks for the rows that it works on, most often a fraction of them.
    """

    def __init__(self, signed: _SignedDesign, objective: Objective, tol: float) -> None:
        super().__init__(signed.shape, objective)
        self._signed = signed
        if objective.mu1 > 0.0:
            mean, second = signed.second_moments(signed.dtype)
            # An error e of the second moments shows as 2 mu1 e beside the 1 of the identity in Q, and so in the gap.
            # Single precision halves the time where it can be had: 9 instead of 16 ms for 12k x 257 on two cores.
            rounding = float(second.diagonal()[: signed.width].max()) * np.finfo(signed.dtype).eps
            if signed.dtype != np.float64 and 2.0 * objective.mu1 * rounding > _GAP_SHARE * tol:
                mean, second = signed.second_moments(np.dtype(np.float64))
            self._whitening = _whitening(mean, second, objective.mu1)

    def rows_at(self, which: Array, dtype: np.dtype | None = None) -> Array:
        rows = np.empty((len(which), self.shape[1]), dtype or self._signed.dtype)
        whitening = None if self._whitening is None else self._whitening.astype(rows.dtype, copy=False)

        def whiten(part: slice) -> None:
            for where in _row_slices(rows.shape, part):
                signed = self._signed.take(which[where], rows.dtype)
                rows[where] = signed if whitening is None else signed @ whitening

        over_parts(whiten, len(which), rows.nbytes)
        return rows

    def primal_point(self, beta: Array) -> FloatArray:
        combined = self._signed.combine(beta)
        return combined if self._whitening is None else combined @ self._whitening

    def margins(self, u: Array) -> FloatArray:
        return self._signed.times(self._unwhitened(u))

    def recover(self, u: Array, margins: Array) -> Recovered:
        vector, intercept, squared_norm = self._signed.as_block(self._unwhitened(u))
        return Recovered(vector, intercept, squared_norm, margins)  # `margins` used this very vector


class _SampleSide(BlockProblem):
    """A Cholesky factor of the Gram matrix YY' is whitened; costs N^2 d + N^3 and holds nothing of size d."""

    def __init__(self, signed: _SignedDesign, objective: Objective) -> None:
        rows, self._chosen = _cholesky_rows(signed.gram())
        super().__init__(rows.shape, objective)
        self._signed = signed
        self._triangle = rows[self._chosen]
        self._rows = rows
        if objective.mu1 > 0.0:
            mean = objective.weights @ rows
            weighted = rows * np.sqrt(objective.weights)[:, None]
            self._whitening = _whitening(mean, weighted.T @ weighted, objective.mu1)
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
        # Y'beta for v instead would subtract numbers that differ in the last digits only when mu1 is large.)
        coefficients = np.zeros(self.shape[0])
        coefficients[self._chosen] = solve_triangular(
            self._triangle, self._unwhitened(u), lower=True, trans=1, check_finite=False
        )
        combined = self._signed.combine(coefficients)
        # Judge the vector that is kept, not its whitened coordinates: what recovering it lost counts as gap.
        return Recovered(*self._signed.as_block(combined), self._signed.times(combined))


class _SignedDesign:
    """The matrix ``Y``: rows ``t_i (z_i - mean, bias_scale)``, used without being formed."""

    def __init__(self, design: Design, signs: Array, weights: Array, bias_scale: float) -> None:
        self._design = design
        self._signs = signs
        self._weights = weights
        self._bias = bias_scale
        self.dtype = design.dtype
        n_samples, self.width = design.shape
        self.shape = (n_samples, self.width + bool(bias_scale))
        self._mean = design.weighted_sum(weights) if bias_scale else np.zeros(self.width)

    def take(self, which: Array, dtype: np.dtype) -> Array:
        """Return some rows of ``Y`` in ``dtype``."""
        signs = self._signs[which].astype(dtype)
        width = self.width
        out = np.empty((len(signs), self.shape[1]), dtype)
        np.subtract(self._design.here()[which], self._mean.astype(dtype), out=out[:, :width])
        out[:, :width] *= signs[:, None]
        if self._bias:
            out[:, width] = self._bias * signs
        return out

    def second_moments(self, dtype: np.dtype) -> tuple[FloatArray, FloatArray]:
        """Return the weighted mean and second moments of the rows of ``Y``, computed in ``dtype`` chunk by chunk.

        The signs cancel in the second moments, and centred columns are orthogonal to the constant one.
        """
        design, width = self._design.here(), self.width
        centre, roots = self._mean.astype(dtype), np.sqrt(self._weights).astype(dtype)
        signed_roots = self._signs.astype(dtype) * roots

        def add_up(part: slice) -> FloatArray:
            total = np.zeros((width + 1, width))  # the mean above the second moments
            for where in _row_slices(self._design.shape, part, at_least=_TALL * width):
                chunk = design[where].astype(dtype, copy=False) - centre
                chunk *= roots[where, None]
                total[0] += signed_roots[where] @ chunk
                total[1:] += chunk.T @ chunk
            return total

        total = sum_over_parts(add_up, self.shape[0], design.nbytes)
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
        """Return vector and intercept with the centring undone, and the squared norm of the solution."""
        vector = solution[: self.width]
        intercept = float(self._bias * solution[-1] - self._mean @ vector) if self._bias else 0.0
        return vector, intercept, float(solution @ solution)


def _whitening(mean: FloatArray, second: FloatArray, mu1: float) -> FloatArray:
    """Return ``L^-T`` with ``LL' = Q = I + 2 mu1 (second - mean mean')``."""
    quadratic = 2.0 * mu1 * (second - np.outer(mean, mean))
    quadratic.flat[:: len(mean) + 1] += 1.0
    factor, failed = lapack.dpotrf(quadratic, lower=1)
    inverse, singular = lapack.dtrtri(factor, lower=1)
    if failed or singular or not np.all(np.isfinite(inverse)):
        raise FloatingPointError(
            f"the block's quadratic form is not positive definite: mu1 = {mu1:g} is too large for samples of this "
            "magnitude; scale the samples or lower mu1"
        )
    return np.ascontiguousarray(inverse.T)


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


def _row_slices(shape: tuple[int, int], within: slice, at_least: int = 1) -> Iterator[slice]:
    return slices(within, max(at_least, _CHUNK_ENTRIES // max(1, shape[1])))
