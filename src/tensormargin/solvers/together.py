"""The interior-point method for many block problems at a time, on the device that their designs lie on.

Each iteration is made of a few products of large matrices, which suits matrix units; coordinate descent, one sample
after the other, does not. Other than in `tensormargin.solvers.interior_point` nothing is whitened: with ``v = Q^-1
Y'beta`` (Eq. 14) the Newton step of the dual point is ``D dbeta = r - Y dv`` where ``(Q + Y'D^-1 Y) dv = Y'D^-1 r``, so
the designs are read five times an iteration and never rewritten. All sums are made in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._namespace import inverses, like, namespace, to_host
from .._typing import Array, FloatArray
from ..problem import Certificate, Objective

_TO_THE_WALL = 0.995
_TOO_SHORT = 0.9
_CENTRE = 0.7
_MOST_ITERATIONS = 80
_MOST_IDLE = 12
_RIDGE = 1e-14
_TINY, _EPSILON = float(np.finfo(float).tiny), float(np.finfo(float).eps)


@dataclass(frozen=True)
class BlockSolution:
    """The vector and intercept of one block problem, with the certificate of Eq. 12 at them."""

    vector: FloatArray
    intercept: float
    certificate: Certificate


def solve_together(
    designs: Any,
    signs: Sequence[Array],
    objectives: Sequence[Objective],
    bias_scales: Sequence[float],
    tols: Sequence[float],
) -> list[BlockSolution]:
    """Solve several block problems of one width, each to its relative duality gap.

    Parameters
    ----------
    designs : array of shape (B, n, d)
        Rows beyond the samples of a problem are zero.
    signs : sequence of ndarray
        The labels of each problem, as many as it has samples.
    objectives : sequence of Objective
    bias_scales, tols : sequence of float
        As in `tensormargin.problem.block_problem`; bias scales are all zero or none is.
    """
    problems = _Problems(designs, signs, objectives, bias_scales)
    xp, goal, idle = problems.xp, like(np.asarray(tols), designs, np.float64), 0
    point = _first_point(problems)
    best, lowest = point.values, point.products
    for _ in range(_MOST_ITERATIONS):
        unfinished = best.gaps > goal
        if idle > _MOST_IDLE or not bool(xp.any(unfinished)):
            break
        point = _next_point(problems, point, unfinished)
        better = unfinished & (point.values.gaps < best.gaps)
        nearer = unfinished & (point.products < _TOO_SHORT * lowest)  # the gap falls late where lambda is large
        idle = 0 if bool(xp.any(better | nearer)) else idle + 1
        lowest = xp.where(nearer, point.products, lowest)
        best = best.replaced(point.values, better)
    return problems.solutions(best)


class _Problems:
    """Signed designs ``Y`` of a batch, their quadratic forms ``Q`` and boxes.

    Rows that only pad a problem are zero in ``Y``, in ``real`` and in ``weights``.
    """

    def __init__(
        self, designs: Any, signs: Sequence[Array], objectives: Sequence[Objective], bias_scales: Sequence[float]
    ) -> None:
        self.xp = xp = namespace(designs)
        n_problems, n_rows, self.width = designs.shape
        self._bias = np.asarray(bias_scales)
        self.weights = _padded(designs, [objective.weights for objective in objectives], n_rows)
        labels = _padded(designs, signs, n_rows)
        self.real = labels * labels
        self.count = xp.sum(self.real, axis=1)
        self.lam, mu1, self.mu2 = (
            like(np.array([getattr(objective, name) for objective in objectives]), designs, np.float64)
            for name in ("lam", "mu1", "mu2")
        )
        self.lower = self.mu2[:, None] * self.weights
        self.upper = (self.mu2 + self.lam)[:, None] * self.weights
        self.padding = 1.0 - self.real
        self.floor = _EPSILON * (self.upper - self.lower) + self.padding
        has_bias = int(bool(self._bias.any()))
        self.rows = xp.empty((n_problems, n_rows, self.width + has_bias), dtype=xp.float64, device=designs.device)
        self.rows[:, :, : self.width] = xp.astype(designs, xp.float64, copy=False)
        self.mean = self.weights[:, None, :] @ self.rows[:, :, : self.width] if has_bias else None
        if self.mean is not None:
            self.rows[:, :, : self.width] -= self.mean
            self.rows[:, :, self.width] = like(self._bias[:, None], designs, np.float64)
        self.rows *= labels[:, :, None]
        self.quadratic = self._quadratic(mu1[:, None, None])
        self._definite = _Definite(self.quadratic)

    def _quadratic(self, mu1: Any) -> Any:
        """Return ``Q = I + 2 mu1 Y'(diag(p) - pp')Y``."""
        xp, mean = self.xp, self.weights[:, None, :] @ self.rows
        second = self.gram(self.weights) - xp.matrix_transpose(mean) @ mean
        return xp.eye(second.shape[1], dtype=xp.float64, device=second.device) + 2.0 * mu1 * second

    def gram(self, factors: Any) -> Any:
        """Return ``Y' diag(factors) Y``."""
        return self.xp.matrix_transpose(self.rows) @ (self.rows * factors[:, :, None])

    def combine(self, coefficients: Any) -> Any:
        """Return ``Y'coefficients`` as columns."""
        return self.xp.matrix_transpose(coefficients[:, None, :] @ self.rows)

    def times(self, vectors: Any) -> Any:
        """Return ``Y vectors`` for columns."""
        return (self.rows @ vectors)[:, :, 0]

    def evaluate(self, beta: Any) -> tuple[_Values, Any]:
        """Return primal and dual values at dual points, from these alone, and ``1 - margins`` (zero for padding)."""
        xp, vectors = self.xp, self._definite.solve(self.combine(beta))
        margins = self.times(vectors)
        short = self.real - margins
        half_square = 0.5 * xp.sum(beta * margins, axis=1)
        mean_term = self.mu2 * xp.sum(self.weights * margins, axis=1)
        hinge_term = self.lam * xp.sum(self.weights * xp.clip(short, min=0.0), axis=1)
        values = _Values(
            vectors,
            primal=half_square - mean_term + hinge_term,
            dual=xp.sum(beta - self.lower, axis=1) - half_square,
            scale=half_square + xp.abs(mean_term) + hinge_term,
        )
        return values, short

    def solutions(self, values: _Values) -> list[BlockSolution]:
        """Return what is kept of each problem, with the centring undone."""
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
    """Primal points with primal and dual values of a batch."""

    def __init__(self, vectors: Any, primal: Any, dual: Any, scale: Any) -> None:
        self.vectors, self.primal, self.dual, self.scale = vectors, primal, dual, scale
        xp = namespace(primal)
        gaps = (primal - dual) / xp.where(scale > 0, scale, 1.0)
        self.gaps = xp.where(xp.isfinite(gaps), gaps, float("inf"))  # infinite where rounding has left no number

    def replaced(self, other: _Values, where: Any) -> _Values:
        """Take the other values for some of the problems."""
        xp = namespace(self.primal)
        return _Values(
            xp.where(where[:, None, None], other.vectors, self.vectors),
            *(xp.where(where, getattr(other, name), getattr(self, name)) for name in ("primal", "dual", "scale")),
        )


@dataclass(frozen=True)
class _Point:
    """Dual points strictly inside their boxes, with the multipliers of lower and upper bounds.

    Attributes
    ----------
    beta : array of shape (B, n)
    low, high : array
        Distances to the bounds; one for padding.
    below, above : array
        Multipliers of the bounds; zero for padding.
    values : _Values
    short : array
        ``1 - margins``, minus the gradient; zero for padding.
    """

    beta: Any
    low: Any
    high: Any
    below: Any
    above: Any
    values: _Values
    short: Any

    @property
    def products(self) -> Any:
        """Sum of distance times multiplier: zero at the optimum."""
        return namespace(self.beta).sum(self.low * self.below + self.high * self.above, axis=1)


@dataclass(frozen=True)
class _Step:
    beta: Any
    below: Any
    above: Any


def _first_point(problems: _Problems) -> _Point:
    xp = problems.xp
    beta = (problems.lower + problems.upper) / 2
    values, short = problems.evaluate(beta)
    slack = xp.sum(xp.abs(short), axis=1) / problems.count + _TINY
    slack = slack[:, None] * problems.real
    # below - above = gradient: a feasible start
    return _at(problems, beta, xp.clip(-short, min=0.0) + slack, xp.clip(short, min=0.0) + slack, (values, short))


def _at(problems: _Problems, beta: Any, below: Any, above: Any, evaluated: tuple[_Values, Any]) -> _Point:
    xp = problems.xp
    low = xp.maximum(beta - problems.lower, problems.floor)  # rounding may have put a coordinate on the wall
    high = xp.maximum(problems.upper - beta, problems.floor)
    return _Point(beta, low, high, below, above, *evaluated)


def _next_point(problems: _Problems, point: _Point, unfinished: Any) -> _Point:
    """Return the points after one predictor-corrector step of the problems that are unfinished."""
    xp, count = problems.xp, 2.0 * problems.count
    system = _NewtonSystem(problems, point)
    mean = point.products / count
    predictor = system.step(None, None)
    reached = _moved_products(point, predictor, system.length(predictor, 1.0)) / count
    step = system.step((reached / mean) ** 3 * mean, predictor)
    length = system.length(step, _TO_THE_WALL)
    caught = unfinished & (_moved_products(point, step, length) / count > _TOO_SHORT * mean)
    if bool(xp.any(caught)):  # at a wall: back towards the centre
        centring = system.step(_CENTRE * mean, None)
        step = _Step(
            *(
                xp.where(caught[:, None], getattr(centring, name), getattr(step, name))
                for name in ("beta", "below", "above")
            )
        )
        length = system.length(step, _TO_THE_WALL)
    length = xp.where(unfinished & xp.isfinite(length), length, 0.0)[:, None]
    beta = xp.clip(point.beta + length * step.beta, problems.lower, problems.upper)
    below, above = point.below + length * step.below, point.above + length * step.above
    return _at(problems, beta, below, above, problems.evaluate(beta))


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
    """``(Y Q^-1 Y' + D) x = r`` with diagonal D, solved through the k x k matrices ``Q + Y'D^-1 Y``."""

    def __init__(self, problems: _Problems, point: _Point) -> None:
        self._problems, self._point = problems, point
        self._scaling = 1.0 / (point.below / point.low + point.above / point.high + problems.padding)
        self._matrix = _Definite(problems.quadratic + problems.gram(self._scaling))

    def step(self, target: Any, predictor: _Step | None) -> _Step:
        """Return the step towards complementarity ``target`` (None: zero), with second-order terms of the predictor."""
        point, problems = self._point, self._problems
        low_target = high_target = 0.0 if target is None else target[:, None] * problems.real
        if predictor is not None:
            low_target = low_target - predictor.beta * predictor.below
            high_target = high_target + predictor.beta * predictor.above
        right = point.short
        if target is not None:
            right = right + low_target / point.low - high_target / point.high
        vectors = self._matrix.solve(problems.combine(self._scaling * right))
        beta = self._scaling * (right - problems.times(vectors))
        return _Step(
            beta,
            (low_target - point.below * beta) / point.low - point.below,
            (high_target + point.above * beta) / point.high - point.above,
        )

    def length(self, step: _Step, share: float) -> Any:
        """Return how much of a step may be made: this share of the way to the nearest wall, at most all of it."""
        point, xp, padding = self._point, self._problems.xp, self._problems.padding
        ratios = (
            step.beta / -point.low,
            step.beta / point.high,
            step.below / -(point.below + padding),
            step.above / -(point.above + padding),
        )
        fastest = xp.max(xp.stack([xp.max(ratio, axis=1) for ratio in ratios]), axis=0)
        return 1.0 / xp.clip(fastest / share, min=1.0)


class _Definite:
    """Symmetric positive definite matrices to solve with, scaled to a unit diagonal first: their entries differ by far.

    Of an inverse that rounding has spoiled, one correction saves what can be saved.
    """

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


def _padded(designs: Any, vectors: Sequence[Array], length: int) -> Any:
    """Return vectors as rows of one array, zero beyond their ends."""
    rows = np.zeros((len(vectors), length))
    for row, vector in zip(rows, vectors, strict=True):
        row[: len(vector)] = vector
    return like(rows, designs, np.float64)
