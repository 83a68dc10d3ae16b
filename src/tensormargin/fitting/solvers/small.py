"""Small block problems, solved exactly by compiled code (`tensormargin.fitting.native`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...runtime import FloatArray, tuning
from ..native import has_native, native_call
from ..objective import Certificate, MarginProblem, Objective

_FUNCTION = "tensormargin_solve_small"
_GAP = 1e-12  # small problems are solved to the last digits, so that their solution does not depend on the way there


def strengths(objective: Objective) -> FloatArray:
    """Return lambda and mu as compiled code takes them."""
    return np.array([objective.lam, objective.mu1, objective.mu2])


def limits(wide: float = 1.0) -> FloatArray:
    """Return the limits of a block's solve as compiled code takes them; see `block_problem` for ``wide``."""
    return np.array(
        [
            _GAP,
            tuning.SMALL_DESCENT_TOL,
            tuning.NEAR_GAP,
            tuning.SMALL_ROUNDS,
            tuning.SMALL_EPOCHS,
            tuning.FACE_WORK_IF_SMALL,
            wide,
        ]
    )


class SmallSolution(NamedTuple):
    """The vector and intercept of a small block problem, its dual point, and the certificate of Eq. 12 at them."""

    vector: FloatArray
    intercept: float
    beta: FloatArray
    certificate: Certificate


def solve_small_block(
    design: Any, problem: MarginProblem, start: FloatArray | None, gap_tol: float, wide: float = 1.0
) -> SmallSolution | None:
    """Return the solution of a small block problem.

    None if it is not in memory, if rounding keeps it from its gap, or if the code was not compiled: the general way is
    then to be taken.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.fitting.objective import MarginProblem, Objective
    >>> from tensormargin.fitting.solvers import solve_small_block
    >>> design, signs = np.random.default_rng(0).standard_normal((20, 3)), np.where(np.arange(20) % 2, 1.0, -1.0)
    >>> problem = MarginProblem(signs, Objective(10.0, 1.0, 1.0, np.full(20, 1 / 20)), 0.0)
    >>> solution = solve_small_block(design, problem, None, 1e-6)
    >>> solution is None or len(solution.vector)
    3
    """
    if not isinstance(design, np.ndarray) or not has_native(_FUNCTION):
        return None
    objective = problem.objective
    design = np.ascontiguousarray(design, np.float64)
    beta = objective.mu2 * objective.weights if start is None else start.copy()
    vector, answer = np.empty(design.shape[1]), np.empty(4)
    solve = native_call(
        _FUNCTION,
        *design.shape,
        design,
        problem.signs,
        objective.weights,
        strengths(objective),
        problem.bias_scale,
        limits(wide),
        beta,
        vector,
        answer,
    )
    failed = solve()
    intercept, *values = answer.tolist()
    certificate = Certificate(*values)
    if failed or not certificate.relative_gap <= gap_tol:
        return None
    return SmallSolution(vector, intercept, beta, certificate)
