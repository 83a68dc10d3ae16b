"""Flat weights of binary problems that share samples and sample weights: one-vs-rest.

Their quadratic forms (Eq. 12) are ``I + 2 mu1 (S - m m')``, where the second moments S are the same and only the mean
margins m, which depend on the signs, differ. One factorisation of ``I + 2 mu1 S`` serves all of them; what is left is a
change of rank one, which has a square root in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..runtime import Array, FloatArray, triangles
from .alternation import alternate, coarse_start
from .blocks import moments_are_too_coarse
from .formats.full import FullWeight
from .objective import MarginProblem
from .samples.memory import MemorySamples
from .solvers import SOLVERS


class FlatSolution(NamedTuple):
    """A flat weight and its intercept, the objective (Eq. 7), and the relative duality gap."""

    vector: FloatArray
    intercept: float
    objective: float
    gap: float


@dataclass(frozen=True)
class SharedForm:
    """Samples whitened by the part of the quadratic form that all signs share; of ``problem``, signs do not matter."""

    rows: FloatArray  # with the intercept's column
    factor: FloatArray | None  # of the shared part; None for the identity
    problem: MarginProblem

    @classmethod
    def of(cls, coordinates: FloatArray, problem: MarginProblem, tol: float) -> SharedForm | None:
        """Return the form for samples, one per row, that are centred if there is an intercept.

        None if rounding of the second moments would change a relative gap by a good part of ``tol``.
        """
        bias, objective = problem.bias_scale, problem.objective
        rows = np.column_stack([coordinates, np.full(len(coordinates), bias)]) if bias else coordinates
        if objective.mu1 == 0.0:
            return cls(rows, None, problem)
        weighted = rows * np.sqrt(objective.weights)[:, None]
        form = weighted.T @ weighted
        if moments_are_too_coarse(form.diagonal(), objective.mu1, tol):
            return None
        form *= 2.0 * objective.mu1
        form.flat[:: len(form) + 1] += 1.0
        factor = triangles.cholesky(form)
        return None if factor is None else cls(triangles.solve(factor, rows), factor, problem)

    def solve(self, signs: Array, tol: float, max_iter: int) -> FlatSolution:
        """Return the weight and intercept for samples with these labels, 1 or -1."""
        objective = self.problem.objective
        signed = objective.weights * signs
        mean, stretch = signed @ self.rows, 0.0
        square = float(mean @ mean)
        if square > 0.0:  # (I - 2 mu1 m m')^(-1/2) = I + stretch m m'
            stretch = (1.0 / np.sqrt(1.0 - 2.0 * objective.mu1 * square) - 1.0) / square
        rows = self.rows + np.outer(self.rows @ mean, stretch * mean)
        samples, solver = MemorySamples(rows), SOLVERS["dual_cd"]
        problem = MarginProblem(signs, replace(objective, mu1=0.0), 0.0)
        start = coarse_start(samples, problem, FullWeight(signed @ rows), solver, tol, max_iter)
        fit = alternate(samples, problem, start, solver, tol, max_iter)
        vector = fit.weight.to_dense()
        vector = vector + stretch * float(mean @ vector) * mean
        if self.factor is not None:
            vector = triangles.solve(self.factor, vector, transposed=True)
        bias, gap = self.problem.bias_scale, max(fit.sweeps[-1].gaps)
        if not bias:
            return FlatSolution(vector, 0.0, fit.objective, gap)
        return FlatSolution(vector[:-1], bias * float(vector[-1]), fit.objective, gap)
