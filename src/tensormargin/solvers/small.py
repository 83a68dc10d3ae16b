"""Small block problems, solved exactly by compiled code (`tensormargin._block_kernels`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import tuning
from .._typing import FloatArray
from ..objective import Certificate, MarginProblem

_GAP = 1e-12  # small problems are solved to the last digits, so that their solution does not depend on the way there
_GAP_NEEDED = 1e-9


class SmallSolution(NamedTuple):
    """The vector and intercept of a small block problem, its dual point, and the certificate of Eq. 12 at them."""

    vector: FloatArray
    intercept: float
    beta: FloatArray
    certificate: Certificate


def solve_small_block(design: Any, problem: MarginProblem, start: FloatArray | None) -> SmallSolution | None:
    """Return the solution of a small block problem, None if it is not small or rounding keeps it from its gap."""
    if not isinstance(design, np.ndarray) or design.size > tuning.SMALL_DESIGN:
        return None
    from .._block_kernels import solve_small

    objective = problem.objective
    *solved, primal, dual, scale = solve_small(
        np.ascontiguousarray(design, np.float64),
        problem.signs,
        objective.weights,
        (objective.lam, objective.mu1, objective.mu2),
        problem.bias_scale,
        objective.mu2 * objective.weights if start is None else start,
        (_GAP, tuning.DESCENT_TOL, tuning.NEAR_GAP),
        (tuning.SMALL_ROUNDS, tuning.FIRST_ROUND_IF_SMALL, tuning.FACE_WORK_IF_SMALL),
    )
    certificate = Certificate(primal, dual, scale)
    return SmallSolution(*solved, certificate) if certificate.relative_gap <= _GAP_NEEDED else None
