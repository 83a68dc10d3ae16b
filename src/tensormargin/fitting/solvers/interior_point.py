"""Mehrotra's interior-point method for many block problems at a time, on the device of their designs.

Each iteration consists of a few products of large matrices, which suit a GPU, unlike coordinate descent, which visits
one sample at a time. No whitening is needed: with ``r`` the residual of the margins, a Newton step of the block's
vector and of the dual point (Eq. 14: ``Q v = Y'beta``) solves

    (Q + Y'D^-1 Y) dv = Y'D^-1 r + (Y'beta - Q v),    D dbeta = r - Y dv

so the designs are read five times per iteration and never modified. All sums are in float64. Three measures keep the
certificate accurate for a large lambda (`lam |z|^2` of 1e14 is solved to a gap of 1e-6):

- The vectors are iterates. Computed from the dual point they would be sums of cancelling terms as large as lambda.
- So are the distances to both bounds, one of which may be far below the rounding error of the bound itself.
- No step aims at less complementarity than the gap requires. Margins that should be 1 then end above 1 by more than
  rounding errors, which a large lambda would turn into a large loss; and the systems stay solvable.

Problems that still miss their gap, because ``Q + Y'D^-1 Y`` is numerically singular, are solved again by least squares,
which need half the digits (`LeastSquares`).

On the host, with a batch of one, the method is slower than coordinate descent on most problems, but far less sensitive
to their conditioning (`solve_interior_point`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ...runtime import Array, FloatArray, inverses, like, namespace, rows_of, slices, to_host, tuning
from ..blocks import BlockProblem
from ..objective import BlockSolution, Certificate, MarginProblem
from .base import Solution, solution_at, starting_point

_TINY = float(np.finfo(float).tiny)
_EPSILON = float(np.finfo(float).eps)
_RIDGE = 1e-14


def solve_batched(designs: Any, problems: Sequence[MarginProblem], tols: Sequence[float]) -> list[BlockSolution]:
    """Return the solutions of several block problems of one width, each to its relative duality gap.

    Designs have the shape (B, n, d), and rows of zeros beyond the samples of a problem. Either all problems have an
    intercept, or none has.
    """
    solutions = _solve(designs, problems, tols, careful=False)
    short = [k for k, tol in enumerate(tols) if solutions[k].certificate.relative_gap > tol]
    for where in slices(slice(0, len(short)), max(1, len(solutions) // tuning.LEAST_SQUARES_COPIES)):
        some = short[where]
        again = _solve(
            rows_of(designs, np.array(some)), [problems[k] for k in some], [tols[k] for k in some], careful=True
        )
        for k, other in zip(some, again, strict=True):
            solutions[k] = min(solutions[k], other, key=lambda solution: solution.certificate.relative_gap)
    return solutions


def solve_interior_point(
    problem: BlockProblem, start: FloatArray | None = None, tol: float = 1e-4, max_epochs: int = 1000
) -> Solution:
    """Solve a block problem by Mehrotra's method; a start is used only if it is good enough already."""
    best = solution_at(problem, starting_point(problem, start), 0, tol)
    if best.converged or max_epochs < 1:
        return best
    rows = problem.rows
    if rows.shape[1] > rows.shape[0]:
        (triangle,) = scipy.linalg.qr(rows.T, mode="r", check_finite=False)
        rows = triangle[: len(rows)].T  # the same inner products, in fewer columns
    # The rows are whitened and signed: only the hinge and the mean of the margins remain in the objective.
    whitened = MarginProblem(np.ones(len(rows)), replace(problem.objective, mu1=0.0), 0.0)
    inside, n_epochs = _iterate(_Batch(rows[None], [whitened], careful=False), [tol], max_epochs, tuning.MOST_IDLE)
    beta = np.clip(problem.lower + inside.alpha[0], problem.lower, problem.upper)
    found = solution_at(problem, beta, n_epochs, tol)
    return min(best, found, key=lambda one: one.certificate.relative_gap)


def _solve(
    designs: Any, problems: Sequence[MarginProblem], tols: Sequence[float], careful: bool
) -> list[BlockSolution]:
    """Return solutions as `solve_batched` does, each as good as rounding allows; by least squares if ``careful``."""
    batch = _Batch(designs, problems, careful)
    best, _ = _iterate(batch, tols, tuning.BATCH_MOST_ITERATIONS, tuning.BATCH_MOST_IDLE)
    return batch.solutions(best)


def _iterate(batch: _Batch, tols: Sequence[float], most_iterations: int, most_idle: int) -> tuple[_Values, int]:
    """Return the best points of all iterations, and the number of iterations."""
    xp, goal, idle, done = batch.xp, like(np.asarray(tols), batch.rows, np.float64), 0, 0
    point = _first_point(batch)
    best, lowest, unit = point.values, point.products, point.values.scale
    while done < most_iterations:
        unfinished = best.gaps > goal
        if idle > most_idle or not bool(xp.any(unfinished)):
            break
        done += 1
        point = _next_point(batch, point, unfinished, tuning.LEAST_SHARE * goal * unit)
        better = unfinished & (point.values.gaps < best.gaps)
        nearer = unfinished & (point.products < tuning.TOO_SHORT * lowest)  # the gap falls late for a large lambda
        idle = 0 if bool(xp.any(better | nearer)) else idle + 1
        lowest = xp.where(nearer, point.products, lowest)
        unit = xp.where(point.values.scale < unit, point.values.scale, unit)  # meaningless at a far point
        best = best.replaced(point.values, better)
    return best, done


class _Batch:
    """The signed designs ``Y`` of a batch of problems, their quadratic forms ``Q`` and boxes.

    Padding rows are zero in ``Y``, in ``real`` and in ``weights``. Dual points are stored as ``alpha = beta - lower``,
    between zero and ``span``.
    """

    def __init__(self, designs: Any, problems: Sequence[MarginProblem], careful: bool) -> None:
        self.xp = xp = namespace(designs)
        n_problems, n_rows, self.width = designs.shape
        self._bias = np.array([problem.bias_scale for problem in problems])
        self.weights = _padded(designs, [problem.objective.weights for problem in problems], n_rows)
        labels = _padded(designs, [problem.signs for problem in problems], n_rows)
        self.real = labels * labels
        self.count = xp.sum(self.real, axis=1)
        self.lam, self.mu1, self.mu2 = (
            like(np.array([getattr(problem.objective, name) for problem in problems]), designs, np.float64)
            for name in ("lam", "mu1", "mu2")
        )
        self.span = self.lam[:, None] * self.weights
        self.padding = 1.0 - self.real
        has_bias = int(bool(self._bias.any()))
        self.rows = xp.empty((n_problems, n_rows, self.width + has_bias), dtype=xp.float64, device=designs.device)
        self.rows[:, :, : self.width] = xp.astype(designs, xp.float64, copy=False)
        self.mean = self.weights[:, None, :] @ self.rows[:, :, : self.width] if has_bias else None
        if self.mean is not None:
            self.rows[:, :, : self.width] -= self.mean
            self.rows[:, :, self.width] = like(self._bias[:, None], designs, np.float64)
        self.rows *= labels[:, :, None]
        spread, self.quadratic = self._quadratic()
        self.careful = careful
        self._spread = spread if careful else None
        self._definite = self.system(None)
        self._lowest = self.mu2[:, None, None] * self.combine(self.weights)  # Y'lower

    def _quadratic(self) -> tuple[Any, Any]:
        """Return ``C`` and ``Q = I + C'C``, where ``C'C = 2 mu1 Y'(diag(p) - pp')Y``."""
        xp = self.xp
        unit = xp.eye(self.rows.shape[2], dtype=xp.float64, device=self.rows.device)
        if not bool(xp.any(self.mu1 > 0.0)):
            shape = (self.rows.shape[0], *unit.shape)
            return self.rows[:, :0, :], xp.broadcast_to(unit, shape)
        mean = self.weights[:, None, :] @ self.rows
        roots = xp.sqrt(2.0 * self.mu1[:, None] * self.weights)
        spread = (self.rows - mean) * roots[:, :, None]  # subtracting pp' later would cause cancellation
        return spread, unit + self_products(spread)

    def system(self, factors: Any) -> Definite | LeastSquares:
        """Return a solver for ``Q + Y' diag(factors) Y`` (``Q`` alone if None)."""
        if self._spread is not None:
            roots = () if factors is None else (self.rows * self.xp.sqrt(factors)[:, :, None],)
            return LeastSquares(self._spread, *roots)
        if factors is None:
            return Definite(self.quadratic)
        return Definite(self.quadratic + self_products(self.rows * self.xp.sqrt(factors)[:, :, None]))

    def combine(self, coefficients: Any) -> Any:
        """Return ``Y'coefficients`` as columns."""
        return self.xp.matrix_transpose(coefficients[:, None, :] @ self.rows)

    def times(self, vectors: Any) -> Any:
        """Return ``Y vectors`` for columns."""
        return (self.rows @ vectors)[:, :, 0]

    def vectors(self, alpha: Any) -> Any:
        """Return ``Q^-1 Y'beta`` (Eq. 14) as columns."""
        return self._definite.solve(self._lowest + self.combine(alpha))

    def evaluate(self, alpha: Any, vectors: Any) -> tuple[_Values, Any, Any]:
        """Return the primal and dual values, ``1 - margins`` (zero for padding), and ``Y'beta - Q v``."""
        xp, margins = self.xp, self.times(vectors)
        mean = xp.sum(self.weights * margins, axis=1)
        variance = xp.sum(self.weights * (margins - mean[:, None]) ** 2, axis=1)
        short = self.real - margins
        half_square = 0.5 * xp.sum(vectors**2, axis=(1, 2)) + self.mu1 * variance
        hinge_term = self.lam * xp.sum(self.weights * xp.clip(short, min=0.0), axis=1)
        mean_term = self.mu2 * mean
        combined = self._lowest + self.combine(alpha)
        values = _Values(
            vectors,
            alpha,
            primal=half_square - mean_term + hinge_term,
            dual=xp.sum(alpha, axis=1) - 0.5 * self._definite.inverse_square(combined),
            scale=half_square + xp.abs(mean_term) + hinge_term,
        )
        return values, short, combined - self.applied(vectors)

    def applied(self, vectors: Any) -> Any:
        """Return ``Q vectors``; through ``C``, if stored, to avoid the rounding errors of ``C'C``."""
        if self._spread is None:
            return self.quadratic @ vectors
        return vectors + self.xp.matrix_transpose(self._spread) @ (self._spread @ vectors)

    def solutions(self, values: _Values) -> list[BlockSolution]:
        """Return the solution of each problem for uncentred samples."""
        columns = to_host(values.vectors)[:, :, 0]
        vectors = columns[:, : self.width]
        intercepts = np.zeros(len(columns))
        if self.mean is not None:
            centres = np.sum(to_host(self.mean)[:, 0, :] * vectors, axis=1)
            intercepts = self._bias * columns[:, self.width] - centres
        certificates = np.stack([to_host(part) for part in (values.primal, values.dual, values.scale)], axis=1)
        return [
            BlockSolution(vector, intercept, Certificate(*certificate))
            for vector, intercept, certificate in zip(vectors, intercepts.tolist(), certificates.tolist(), strict=True)
        ]


class _Values:
    """Primal and dual points of a batch, with their primal and dual values."""

    def __init__(self, vectors: Any, alpha: Any, primal: Any, dual: Any, scale: Any) -> None:
        self.vectors, self.alpha, self.primal, self.dual, self.scale = vectors, alpha, primal, dual, scale
        xp = namespace(primal)
        gaps = xp.abs(primal - dual) / xp.where(scale > 0, scale, 1.0)  # negative only by rounding
        self.gaps = xp.where(xp.isfinite(gaps), gaps, float("inf"))  # infinite for NaN

    def replaced(self, other: _Values, where: Any) -> _Values:
        """Return these values with those of some problems replaced by the other ones."""
        xp = namespace(self.primal)
        return _Values(
            xp.where(where[:, None, None], other.vectors, self.vectors),
            xp.where(where[:, None], other.alpha, self.alpha),
            *(xp.where(where, getattr(other, name), getattr(self, name)) for name in ("primal", "dual", "scale")),
        )


class _Point(NamedTuple):
    """Dual points strictly inside their boxes, with the multipliers of the bounds, and primal points."""

    low: Any  # distances of the dual points from the bounds, of shape (B, n); one for padding
    high: Any
    below: Any  # multipliers of the bounds; zero for padding
    above: Any
    vectors: Any  # of shape (B, k, 1)
    values: _Values
    short: Any  # ``1 - margins``; zero for padding
    lag: Any  # ``Y'beta - Q v``; zero at the optimum

    @property
    def products(self) -> Any:
        """Sum of distance times multiplier (complementarity): zero at the optimum."""
        return namespace(self.low).sum(self.low * self.below + self.high * self.above, axis=1)


class _Step(NamedTuple):
    """A change of the dual points, of the multipliers of their bounds, and of the primal points."""

    beta: Any
    below: Any
    above: Any
    vectors: Any


def _first_point(batch: _Batch) -> _Point:
    xp, middle = batch.xp, batch.span / 2
    vectors = batch.vectors(middle)
    values, short, lag = batch.evaluate(middle, vectors)
    slack = xp.sum(xp.abs(short), axis=1) / batch.count + _TINY
    slack = slack[:, None] * batch.real
    below, above = xp.clip(-short, min=0.0) + slack, xp.clip(short, min=0.0) + slack  # below - above = -short
    distance = middle + batch.padding
    return _Point(distance, distance, below, above, vectors, values, short, lag)


def _next_point(batch: _Batch, point: _Point, unfinished: Any, least: Any) -> _Point:
    """Return the points after one step of the unfinished problems, towards a sum of products of at least ``least``."""
    xp, count = batch.xp, 2.0 * batch.count
    system = _NewtonSystem(batch, point)
    mean, least = point.products / count, least / count
    predictor = system.step(None, None)
    reached = _moved_products(point, predictor, system.length(predictor, 1.0)) / count
    target = xp.maximum((reached / mean) ** 3 * mean, xp.minimum(least, mean))
    step = system.step(target, predictor)
    length = system.length(step, tuning.TO_THE_WALL)
    caught = (
        unfinished & (mean > 2.0 * least) & (_moved_products(point, step, length) / count > tuning.TOO_SHORT * mean)
    )
    if bool(xp.any(caught)):  # stopped by a bound: step back towards the centre
        row, column = caught[:, None], caught[:, None, None]
        step = _Step(*map(xp.where, (row, row, row, column), system.step(tuning.CENTRE * mean, None), step))
        length = system.length(step, tuning.TO_THE_WALL)
    length = xp.where(unfinished & xp.isfinite(length), length, 0.0)[:, None]
    low, high = point.low + length * step.beta, point.high - length * step.beta
    below, above = point.below + length * step.below, point.above + length * step.above
    vectors = point.vectors + length[:, :, None] * step.vectors
    alpha = xp.where(low < high, low, batch.span - high) * batch.real  # computed from the nearer bound
    return _Point(low, high, below, above, vectors, *batch.evaluate(alpha, vectors))


def _moved_products(point: _Point, step: _Step, length: Any) -> Any:
    """Return `_Point.products` after a step of this length."""
    xp, length = namespace(length), length[:, None]
    way = length * step.beta
    return xp.sum(
        (point.low + way) * (point.below + length * step.below)
        + (point.high - way) * (point.above + length * step.above),
        axis=1,
    )


class _NewtonSystem:
    """``Y dv + D dbeta = r`` and ``Q dv - Y'dbeta = lag`` with diagonal D, through the matrices ``Q + Y'D^-1 Y``."""

    def __init__(self, batch: _Batch, point: _Point) -> None:
        self._batch, self._point = batch, point
        self._scaling = 1.0 / (point.below / point.low + point.above / point.high + batch.padding)
        self._matrix = batch.system(self._scaling)

    def step(self, target: Any, predictor: _Step | None) -> _Step:
        """Return the step towards complementarity ``target`` (None for 0), with second-order terms of the predictor."""
        point, batch = self._point, self._batch
        low_target = high_target = 0.0 if target is None else target[:, None] * batch.real
        if predictor is not None:
            low_target = low_target - predictor.beta * predictor.below
            high_target = high_target + predictor.beta * predictor.above
        right = point.short
        if target is not None:
            right = right + low_target / point.low - high_target / point.high
        vectors, beta = self._solve(right, point.lag)
        if batch.careful:  # refine with the residuals of both equations
            right = right - batch.times(vectors) - beta / self._scaling
            more = self._solve(right, point.lag - batch.applied(vectors) + batch.combine(beta))
            vectors, beta = vectors + more[0], beta + more[1]
        return _Step(
            beta,
            (low_target - point.below * beta) / point.low - point.below,
            (high_target + point.above * beta) / point.high - point.above,
            vectors,
        )

    def _solve(self, right: Any, lag: Any) -> tuple[Any, Any]:
        """Return ``dv`` and ``dbeta``."""
        vectors = self._matrix.solve(self._batch.combine(self._scaling * right) + lag)
        return vectors, self._scaling * (right - self._batch.times(vectors))

    def length(self, step: _Step, share: float) -> Any:
        """Return the step length: this share of the distance to the nearest bound, at most 1."""
        point, xp, padding = self._point, self._batch.xp, self._batch.padding
        ratios = (
            step.beta / -point.low,
            step.beta / point.high,
            step.below / -(point.below + padding),
            step.above / -(point.above + padding),
        )
        fastest = xp.max(xp.stack([xp.max(ratio, axis=1) for ratio in ratios]), axis=0)
        return 1.0 / xp.clip(fastest / share, min=1.0)


def _padded(designs: Any, vectors: Sequence[Array], length: int) -> Any:
    """Return the vectors as rows of one array, padded with zeros."""
    rows = np.zeros((len(vectors), length))
    for row, vector in zip(rows, vectors, strict=True):
        row[: len(vector)] = vector
    return like(rows, designs, np.float64)


class Definite:
    """Solves with symmetric positive definite matrices, scaled to a unit diagonal and refined once."""

    def __init__(self, matrices: Any) -> None:
        xp = namespace(matrices)
        roots = 1.0 / xp.sqrt(xp.linalg.diagonal(matrices))
        self._roots = roots[:, :, None]
        self._matrices = matrices * self._roots * roots[:, None, :]
        unit = xp.eye(matrices.shape[1], dtype=matrices.dtype, device=matrices.device)
        self._inverses = inverses(self._matrices + _RIDGE * unit)

    def solve(self, columns: Any) -> Any:
        """Return ``x`` with ``matrix x = columns``."""
        right = self._roots * columns
        rough = self._inverses @ right
        return self._roots * (rough + self._inverses @ (right - self._matrices @ rough))

    def inverse_square(self, columns: Any) -> Any:
        """Return an upper bound of ``u' matrix^-1 u`` for columns u, if ``matrix - I`` is positive semidefinite.

        With ``u = matrix x + r`` the value is ``2 u'x - x' matrix x + r' matrix^-1 r``, with a last term of at most
        ``|r|^2``. A bound on the rounding errors of the matrix entries is added to both, so that certificates stay
        valid.
        """
        xp, right, solved = namespace(columns), self._roots * columns, self.solve(columns) / self._roots
        image = self._matrices @ solved
        size = xp.sum(xp.abs(solved), axis=1, keepdims=True)
        lost = 2.0 * _EPSILON * size  # rounding error of each entry of the image
        residual = (xp.abs(right - image) + lost) / self._roots
        return xp.sum(solved * (2.0 * right - image) + residual**2, axis=(1, 2)) + (lost * size)[:, 0, 0]


class LeastSquares:
    """Solves with ``I + sum of M'M`` for matrices M, by a QR decomposition instead of that sum.

    Much slower, but works for condition numbers up to 1e30, whereas the sum is singular beyond 1e15.
    """

    def __init__(self, *matrices: Any) -> None:
        xp, (n_problems, _, width) = namespace(matrices[0]), matrices[0].shape
        unit = xp.eye(width, dtype=matrices[0].dtype, device=matrices[0].device)
        stacked = xp.concat([xp.broadcast_to(unit, (n_problems, width, width)), *matrices], axis=1)
        roots = 1.0 / xp.sqrt(xp.sum(stacked**2, axis=1))
        self._roots = roots[:, :, None]
        _, triangles = xp.linalg.qr(stacked * roots[:, None, :], mode="reduced")
        self._inverses = inverses(triangles)

    def solve(self, columns: Any) -> Any:
        """Return ``x`` with ``matrix x = columns``."""
        return self._roots * (self._inverses @ self._half_solved(columns))

    def inverse_square(self, columns: Any) -> Any:
        """Return ``u' matrix^-1 u`` for columns u."""
        return namespace(columns).sum(self._half_solved(columns) ** 2, axis=(1, 2))

    def _half_solved(self, columns: Any) -> Any:
        return namespace(columns).matrix_transpose(self._inverses) @ (self._roots * columns)


def self_products(matrices: Any) -> Any:
    """Return ``M'M`` for each matrix M; NumPy halves the work when it sees that both factors are the same."""
    xp = namespace(matrices)
    if xp is np:
        return np.stack([matrix.T @ matrix for matrix in matrices])
    return xp.matrix_transpose(matrices) @ matrices
