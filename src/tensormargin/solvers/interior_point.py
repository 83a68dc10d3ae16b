"""A primal-dual interior-point method: few iterations, each made of large matrix products and one k x k inverse.

Slower than coordinate descent on most problems, but far less sensitive to their conditioning. Rounding limits it to
relative gaps of about 1e-8, or worse where lambda is extreme.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import tuning
from .._typing import FloatArray
from ..blocks import BlockProblem
from .base import Solution, solution_at, starting_point


def solve_interior_point(
    problem: BlockProblem, start: FloatArray | None = None, tol: float = 1e-4, max_epochs: int = 1000
) -> Solution:
    """Solve a block problem by Mehrotra's predictor-corrector method on its dual.

    See `tensormargin.solvers.base.Solver` for the arguments. An epoch is an iteration. A start is used only if it is
    good enough already: interior-point methods gain nothing from the neighbourhood of a corner.
    """
    best = solution_at(problem, starting_point(problem, start), 0, tol)
    if best.converged or max_epochs < 1:
        return best
    rows = problem.rows
    point = _Point(problem, rows)
    for epoch in range(1, max_epochs + 1):
        if not np.finfo(float).tiny <= point.complementarity < np.inf:
            break  # rounding: no further progress is possible
        try:
            system = _NewtonSystem(rows, point)
        except np.linalg.LinAlgError:
            break  # equal columns and entries so large that the unit matrix is lost in rounding
        predictor = system.step(target=0.0)
        reached = point.moved(predictor, 1.0).complementarity
        centring = (reached / point.complementarity) ** 3
        moved = point.moved(system.step(centring * point.complementarity, predictor), tuning.TO_THE_WALL)
        if (
            moved.complementarity > tuning.TOO_SHORT * point.complementarity
        ):  # caught at a wall: back towards the centre
            moved = point.moved(system.step(tuning.CENTRE * point.complementarity), tuning.TO_THE_WALL)
        point = moved
        solution = solution_at(problem, point.beta, epoch, tol)
        if solution.converged:
            return solution
        if solution.certificate.relative_gap < best.certificate.relative_gap:
            best = solution
        if epoch - best.n_epochs > tuning.MOST_IDLE:
            break  # the same
    return Solution(best.beta, best.u, best.margins, best.certificate, epoch, best.converged)


@dataclass(frozen=True)
class _Step:
    beta: FloatArray
    below: FloatArray
    above: FloatArray


class _Point:
    """A dual point strictly inside the box with the multipliers of its lower and upper bounds."""

    def __init__(self, problem: BlockProblem, rows: FloatArray) -> None:
        self.lower, self.upper = problem.lower, problem.upper
        self.beta = (self.lower + self.upper) / 2
        gradient = rows @ (self.beta @ rows) - 1.0
        slack = float(np.mean(np.abs(gradient))) + np.finfo(float).tiny
        self.below = np.maximum(gradient, 0.0) + slack  # below - above = gradient: a feasible start
        self.above = np.maximum(-gradient, 0.0) + slack

    @property
    def complementarity(self) -> float:
        """Mean product of distance and multiplier: zero at the optimum."""
        products = (self.beta - self.lower) @ self.below + (self.upper - self.beta) @ self.above
        return float(products) / (2 * len(self.beta))

    def moved(self, step: _Step, share: float) -> _Point:
        """Go this share of the way to the nearest wall, at most the whole step."""
        length = share * min(
            _room(self.beta - self.lower, step.beta),
            _room(self.upper - self.beta, -step.beta),
            _room(self.below, step.below),
            _room(self.above, step.above),
        )
        point = object.__new__(_Point)
        point.lower, point.upper = self.lower, self.upper
        point.beta = np.clip(self.beta + min(length, 1.0) * step.beta, self.lower, self.upper)
        point.below = self.below + min(length, 1.0) * step.below
        point.above = self.above + min(length, 1.0) * step.above
        return point


def _room(distance: FloatArray, step: FloatArray) -> float:
    """Return how many steps fit before the first distance is used up (at least one step asked for)."""
    shrinking = step < 0
    return float(np.min(distance[shrinking] / -step[shrinking], initial=1.0 / tuning.TO_THE_WALL))


class _NewtonSystem:
    """``(AA' + D) x = r`` with diagonal D.

    Solved as it stands if A has as many columns as rows, otherwise through the k x k matrix ``I + A'D^-1 A``
    (Woodbury).
    """

    def __init__(self, rows: FloatArray, point: _Point) -> None:
        floor = np.finfo(float).eps * (point.upper - point.lower)  # rounding may have put a coordinate on the wall
        self._rows, self._point = rows, point
        self._low = np.maximum(point.beta - point.lower, floor)
        self._high = np.maximum(point.upper - point.beta, floor)
        self._diagonal = point.below / self._low + point.above / self._high
        self._gradient = rows @ (point.beta @ rows) - 1.0
        self._direct = rows.shape[0] <= rows.shape[1]
        if self._direct:
            self._inverse = np.linalg.inv(rows @ rows.T + np.diag(self._diagonal))
        else:
            scaled = rows / np.sqrt(self._diagonal)[:, None]
            self._inverse = np.linalg.inv(np.eye(rows.shape[1]) + scaled.T @ scaled)

    def step(self, target: float, predictor: _Step | None = None) -> _Step:
        """Return the step towards complementarity ``target``, with second-order terms of the predictor."""
        point = self._point
        low_target = target - (predictor.beta * predictor.below if predictor else 0.0)
        high_target = target + (predictor.beta * predictor.above if predictor else 0.0)
        right = -self._gradient + low_target / self._low - high_target / self._high
        beta = self._solve(right)
        return _Step(
            beta,
            (low_target - point.below * beta) / self._low - point.below,
            (high_target + point.above * beta) / self._high - point.above,
        )

    def _solve(self, right: FloatArray) -> FloatArray:
        solution = self._rough_solution(right)
        residual = right - self._diagonal * solution - self._rows @ (solution @ self._rows)
        return solution + self._rough_solution(residual)

    def _rough_solution(self, right: FloatArray) -> FloatArray:
        if self._direct:
            return self._inverse @ right
        scaled = right / self._diagonal
        return scaled - (self._rows @ (self._inverse @ (scaled @ self._rows))) / self._diagonal
