"""Construction of a block problem on the cheaper of its two sides."""

from __future__ import annotations

import numpy as np

from ...runtime import Array, tuning
from ..designs import Design, Matrix, is_here
from ..objective import MarginProblem, Objective
from .base import BlockProblem
from .feature_side import FeatureSide
from .sample_side import SampleSide
from .signed_design import SignedDesign


def block_problem(design: Array | Design, problem: MarginProblem, tol: float = 0.0, wide: float = 1.0) -> BlockProblem:
    """Return the block problem of a design matrix.

    Parameters
    ----------
    design : ndarray of shape (n_samples, d), or Design
        Row i is the vector z_i with <W, Z_i> = v.z_i. Never modified. A design that is not in memory is transferred
        unless it has more columns than rows.
    problem : MarginProblem
        With an intercept, the columns of the design are centred and a constant column of value ``bias_scale`` is added,
        whose coefficient is penalised like the others.
    tol : float
        The relative duality gap that the problem will be solved to. Second moments of a float32 design are summed in
        float32 if their rounding error is far below it.
    wide : float
        Columns per sample above which whitened problems are solved in the inner products of the samples.
    """
    design, stays = _placed(design, bool(problem.bias_scale))
    signed = SignedDesign(design, problem)
    if not stays and _few_columns(signed.shape, problem.objective, wide):
        return FeatureSide(signed, problem.objective, tol)
    return SampleSide(signed, problem.objective, tol)


def _placed(design: Array | Design, bias: bool) -> tuple[Design, bool]:
    """Return the design, transferred to memory if needed, and whether it stays elsewhere.

    A wide design can stay, since its Gram matrix is enough. A long or small one is needed in memory. Designs side by
    side that are in memory already are not copied.
    """
    if not isinstance(design, np.ndarray):
        n_samples, width = design.shape
        large = n_samples * width > tuning.SMALL_DESIGN
        if large and is_here(design):
            return design, False
        if large and width + bias > n_samples:
            return design, True
        design = design.here()
    if design.size <= tuning.SMALL_DESIGN:
        design = design.astype(np.float64, copy=False)  # cheap, and allows an exact solution
    return Matrix(design), False


def _few_columns(shape: tuple[int, int], objective: Objective, wide: float) -> bool:
    """Return whether to work with the d columns of Y rather than the N x N Gram matrix.

    With whitening the smaller side is cheaper. Without it (mu1 = 0) Y itself is used, and from about a thousand samples
    on this beats the N^3 of the Gram matrix (4000 x 8000: 1.0 s against 8.0 s) unless d is much larger than N.
    """
    n_samples, n_columns = shape
    unwhitened = (
        objective.mu1 == 0.0 and n_samples >= tuning.MANY_SAMPLES and n_columns <= tuning.FAR_MORE_COLUMNS * n_samples
    )
    return n_columns <= wide * n_samples or unwhitened
