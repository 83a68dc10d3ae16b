"""Warm starts from a fit to a few of many samples.

If a weight has far fewer parameters than there are samples, a fit to an eighth of the samples is already close to the
final one. Most of the sweeps are made on these, and the few that remain on all samples (MNIST, CP of rank 2: 4 sweeps
over 12k images instead of 6, 0.13 instead of 0.15 s; a million samples gain more). The resulting guess of the dual
point tells the first solve which samples matter (`tensormargin.fitting.solvers.dual_cd`).
"""

from __future__ import annotations

import numpy as np

from ..runtime import Array, tuning
from .alternation import Start, alternate
from .formats import Weight
from .objective import MarginProblem
from .samples import Samples
from .solvers import Solver


def coarse_start(
    samples: Samples, problem: MarginProblem, weight: Weight, solver: Solver, tol: float, max_iter: int
) -> Start:
    """Return the start for all samples: the weight itself, or one fitted to a subset.

    The subset is drawn with a fixed seed and holds the same share of both classes.
    """
    fewest = max(tuning.COARSE_SAMPLES, tuning.COARSE_SAMPLES_PER_PARAMETER * weight.n_parameters)
    if len(problem) < tuning.COARSE_SHARE * fewest:
        return Start(weight)
    rows = _draw(problem.signs)
    if len(rows) < fewest:
        return Start(weight)
    some = samples.take(rows), problem.subset(rows)
    start = coarse_start(*some, weight, solver, tol, max_iter)
    fit = alternate(*some, start, solver, max(tol, tuning.COARSE_TOL), max_iter)
    return Start(fit.weight, dual_guess(samples, problem, fit.weight, fit.intercept))


def _draw(signs: Array) -> Array:
    rng = np.random.RandomState(0)
    classes = [np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)]
    drawn = [rng.permutation(rows)[: max(1, len(rows) // tuning.COARSE_SHARE)] for rows in classes]
    return np.sort(np.concatenate(drawn))


def dual_guess(samples: Samples, problem: MarginProblem, weight: Weight, intercept: float) -> Array:
    """Return the dual point with every sample at the bound that its margin implies."""
    scores = samples.scores(weight.to_dense()[None].astype(samples.dtype))[:, 0]
    margins = problem.signs * (scores + intercept)
    objective = problem.objective
    return (objective.mu2 + objective.lam * (margins < 1.0)) * objective.weights
