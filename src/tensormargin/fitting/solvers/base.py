"""The interface of a solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ...runtime import FloatArray
from ..blocks import BlockProblem
from ..objective import Certificate


@dataclass(frozen=True)
class Solution:
    """A point of a block problem with its certificate.

    Attributes
    ----------
    beta : ndarray of shape (n_samples,)
        The dual point, inside the box.
    u : ndarray of shape (n_columns,)
        ``A'beta``, the primal point in whitened coordinates.
    margins : ndarray of shape (n_samples,)
        ``A u``.
    certificate : Certificate
        Primal and dual value at this point.
    n_epochs : int
        Number of passes over the rows.
    converged : bool
        Whether the relative duality gap is at most the requested tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.fitting.blocks import block_problem
    >>> from tensormargin.fitting.objective import MarginProblem, Objective
    >>> from tensormargin.fitting.solvers import SOLVERS
    >>> design, signs = np.random.default_rng(0).standard_normal((20, 3)), np.where(np.arange(20) % 2, 1.0, -1.0)
    >>> problem = block_problem(design, MarginProblem(signs, Objective(10.0, 1.0, 1.0, np.full(20, 1 / 20)), 0.0))
    >>> solution = SOLVERS["interior_point"](problem, tol=1e-6)
    >>> solution.converged, solution.certificate.relative_gap <= 1e-6
    (True, True)
    """

    beta: FloatArray
    u: FloatArray
    margins: FloatArray
    certificate: Certificate
    n_epochs: int
    converged: bool


class Solver(Protocol):
    """Solve a block problem to a relative duality gap of at most ``tol``.

    ``start`` is a dual point to start from; it is clipped to the box. The result is deterministic.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.fitting.blocks import block_problem
    >>> from tensormargin.fitting.objective import MarginProblem, Objective
    >>> from tensormargin.fitting.solvers import SOLVERS
    >>> design, signs = np.random.default_rng(0).standard_normal((20, 3)), np.where(np.arange(20) % 2, 1.0, -1.0)
    >>> problem = block_problem(design, MarginProblem(signs, Objective(10.0, 1.0, 1.0, np.full(20, 1 / 20)), 0.0))
    >>> values = [solver(problem, tol=1e-8, max_epochs=10000).certificate.primal for solver in SOLVERS.values()]
    >>> bool(np.isclose(values[0], values[1], rtol=1e-6))
    True
    """

    def __call__(
        self, problem: BlockProblem, start: FloatArray | None = None, tol: float = 1e-4, max_epochs: int = 1000
    ) -> Solution:
        """Return the solution with its certificate."""


def solution_at(problem: BlockProblem, beta: FloatArray, n_epochs: int, tol: float) -> Solution:
    """Return the solution at a dual point, with u, margins and certificate computed from ``beta`` alone."""
    u = problem.primal_point(beta)
    margins = problem.margins(u)
    certificate = problem.certify(u, beta, margins)
    return Solution(beta, u, margins, certificate, n_epochs, certificate.relative_gap <= tol)


def starting_point(problem: BlockProblem, start: FloatArray | None) -> FloatArray:
    """Return ``start`` clipped to the box, or by default the lower corner (no sample violates its margin)."""
    if start is None:
        return problem.lower.copy()
    return np.clip(start, problem.lower, problem.upper)
