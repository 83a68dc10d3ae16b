"""A primal-dual interior-point method: few iterations, each with large matrix products and one k x k inverse.

Slower than coordinate descent on most problems, but far less sensitive to their conditioning. Runs
`tensormargin.fitting.solvers.batched_interior_point` with a batch of one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg

from ...runtime import FloatArray
from ..blocks import BlockProblem
from ..objective import MarginProblem
from .base import Solution, solution_at, starting_point
from .batched_interior_point import dual_point


def solve_interior_point(
    problem: BlockProblem, start: FloatArray | None = None, tol: float = 1e-4, max_epochs: int = 1000
) -> Solution:
    """Solve a block problem by Mehrotra's predictor-corrector method.

    See `solvers.base.Solver` for the arguments. An epoch is an iteration. A start is used only if it is
    already good enough: interior-point methods gain nothing from a start near a corner.
    """
    best = solution_at(problem, starting_point(problem, start), 0, tol)
    if best.converged or max_epochs < 1:
        return best
    rows = problem.rows
    if rows.shape[1] > rows.shape[0]:
        rows = scipy.linalg.qr(rows.T, mode="r", check_finite=False)[0][
            : len(rows)
        ].T  # the same inner products, in fewer columns
    # The rows are whitened and signed: only the hinge and the mean of the margins remain in the objective.
    whitened = MarginProblem(np.ones(len(rows)), replace(problem.objective, mu1=0.0), 0.0)
    above_lower, n_epochs = dual_point(rows, whitened, tol, max_epochs)
    beta = np.clip(problem.lower + above_lower, problem.lower, problem.upper)
    found = solution_at(problem, beta, n_epochs, tol)
    return min(best, found, key=lambda one: one.certificate.relative_gap)
