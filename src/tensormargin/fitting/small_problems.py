"""Small block problems, solved exactly by compiled code.

It also makes small fits in one call: the same steps as `alternation` for weights with a tangent space.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..runtime import Array, FloatArray, tuning
from . import native
from .formats import Weight
from .objective import BlockSolution, Certificate, MarginProblem, Objective
from .samples.base import Samples

_N_LIMITS = 7
_MOST_MODES, _RECORDED, _NO_START = 16, 4, 4  # as in small_fit.c
_MOST_RECORDS = 10_000  # sweeps of one call
_GAP = 1e-12  # small problems are solved to the last digits, so that their solution does not depend on the way there


def strengths(objective: Objective) -> FloatArray:
    """Return lambda and mu as compiled code takes them."""
    return np.array([objective.lam, objective.mu1, objective.mu2])


def limits(wide: float = 1.0) -> FloatArray:
    """Return the limits of a block's solve as compiled code takes them; see `block_problem` for ``wide``."""
    descent = tuning.SMALL_DESCENT_TOL, tuning.NEAR_GAP, tuning.SMALL_ROUNDS, tuning.SMALL_EPOCHS
    return np.array([_GAP, *descent, tuning.FACE_WORK_IF_SMALL, wide])


def solve_small_block(
    design: Any, problem: MarginProblem, start: FloatArray | None, gap_tol: float, wide: float = 1.0
) -> BlockSolution | None:
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
    if not isinstance(design, np.ndarray) or not native.has_native("tensormargin_solve_small"):
        return None
    objective = problem.objective
    design = np.ascontiguousarray(design, np.float64)
    beta = objective.mu2 * objective.weights if start is None else start.copy()
    (n, d), vector, found = design.shape, np.empty(design.shape[1]), np.empty(4)
    solve = native.NativeCall(
        "tensormargin_solve_small",
        *(n, d),
        *(design, problem.signs, objective.weights, strengths(objective)),
        problem.bias_scale,
        *(limits(wide), beta, vector, found),
        sizes=(n * d, n, n, 3, _N_LIMITS, n, d, 4),
    )
    failed = solve()
    intercept, *values = found.tolist()
    certificate = Certificate(*values)
    if failed or not certificate.relative_gap <= gap_tol:
        return None
    return BlockSolution(vector, intercept, certificate, beta)


class FlatAnswers(NamedTuple):
    """Of several binary problems: coefficients of their samples, squared factors of the views, and what they amount to.

    ``answers`` are the intercept, the primal and dual value of Eq. 7, and the scale of the certificate; the primal
    value of a problem that could not be solved is infinite.
    """

    coefficients: FloatArray
    factors: FloatArray
    answers: FloatArray


def solve_flat(
    grams: FloatArray,
    scales: FloatArray,
    ranges: FloatArray,
    rows: Sequence[Array],
    signs: FloatArray,
    weights: FloatArray,
    strengths: FloatArray,
    kind: tuple[bool, bool],
) -> FlatAnswers | None:
    """Solve small binary problems over all weights on several views, given inner products of all samples in each.

    ``signs`` and ``weights`` are those of the ``rows`` of all problems, one after the other. A view whose scale is NaN
    is scaled to a mean squared norm of one; 0 leaves one out. ``ranges`` are the smallest mean squared norm of each
    view, the largest sum of squared norms, and the largest squared norm of the mean, relative to the mean squared norm:
    problems outside are not solved. ``kind`` says whether weights have an intercept, and
    whether ``strengths`` (lambda, mu1, mu2) are relative to a mean squared norm of one. None if the code was not
    compiled.
    """
    if not native.has_native("tensormargin_solve_flat"):
        return None
    problems, (views, n, _) = len(rows), grams.shape
    every, ends = np.concatenate(rows), np.cumsum([len(own) for own in rows])
    native.check_indices("rows", every, 0, n - 1)
    found = FlatAnswers(np.empty(len(every)), np.empty((problems, views)), np.empty((problems, 4)))
    solve = native.NativeCall(
        "tensormargin_solve_flat",
        *(n, views, grams, scales, ranges, problems, ends, every, signs, weights, strengths),
        *(np.array(kind, np.int64), limits(), *found),
        sizes=(
            *(views * n * n, views, 3 * views, problems, *[len(every)] * 3, 3),
            *(2, _N_LIMITS, len(every), problems * views, 4 * problems),
        ),
    )
    return None if solve() else found


class SmallFit:
    """A small fit; `weight` and ``beta``, its dual point, are those of the solution.

    ``records`` has a row per sweep: the objective after it, the largest relative gap of its solves, the relative
    change of the weight, and the decrease of the objective, relative to the sum ``scale`` of the absolute values of its
    terms.
    """

    def __init__(
        self, samples: Samples, problem: MarginProblem, weight: Weight, beta: FloatArray | None, tol: float
    ) -> None:
        tensors = weight.tucker_tensors()
        self._format, self._problem, self._samples, self._tol = weight, problem, samples, tol
        self._components = weight.components()
        self._shapes = [(core.shape, [len(factor) for factor in factors]) for core, factors in tensors]
        self._entries = [self._flat(weight, beta)]
        self.objective, self.intercept, self.scale, self.converged = np.inf, 0.0, np.inf, False
        self.records: FloatArray = np.empty((0, _RECORDED))
        # The start from all tensors takes all eigenvectors, which takes long if there are many, and no rank-one steps.
        plain = self._components is None and all(len(sizes) < 3 or max(ranks) > 1 for ranks, sizes in self._shapes)
        self.truncates = plain and all(max(sizes, default=1) <= tuning.MOST_EIGENVECTORS for _, sizes in self._shapes)

    def _flat(self, weight: Weight, beta: FloatArray | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return all cores, all factors and what else makes up the weight, and the dual point."""
        objective, tensors, components = self._problem.objective, weight.tucker_tensors(), weight.components()
        beta = objective.mu2 * objective.weights if beta is None else beta
        cores = [core.ravel() for core, _ in tensors]
        factors = [factor.ravel() for _, factors in tensors for factor in factors]
        factors += [] if components is None else [part.ravel() for part in (*components.factors, components.lengths)]
        return np.concatenate(cores), np.concatenate(factors or [np.empty(0)]), beta

    def add_start(self, weight: Weight, beta: FloatArray | None) -> None:
        """Let sweeps begin at a second start as well; the one that gets ahead goes on."""
        self._entries.append(self._flat(weight, beta))

    def run(self, most: int, from_all: bool = False) -> bool | None:
        """Make at most so many sweeps, and return whether all solves were exact; what was reached is kept anyway.

        ``from_all`` takes the solution over all tensors, truncated, as a second start. None if the caller has to make
        that (`add_start`), since it takes random numbers.
        """
        objective, most = self._problem.objective, min(most, _MOST_RECORDS)
        first, last = self._entries[0], self._entries[-1]
        core, factors, self.beta = (np.concatenate(pair) for pair in zip(first, last, strict=True))
        state, records = np.array([np.inf, 0.0, np.inf, 0.0, 0.0]), np.empty((2 * most, _RECORDED))
        tol, few = self._tol, tuning.REST_SHARE_OF_FEW
        steps = tuning.SHORTEST_STEP, tuning.STATIONARY_SHARE * tol, tuning.GOOD_STEP
        stop = tol, tuning.GAP_SHARE * tol, few * tol, tuning.SLOWEST_DECAY, tuning.RACED_SWEEPS, most
        orders = np.array([len(sizes) for _, sizes in self._shapes], np.int64)
        sizes = np.array([size for ranks, own in self._shapes for size in own or ranks], np.int64)
        ranks = np.array([rank for ranks, _ in self._shapes for rank in ranks], np.int64)
        own, kept = self._components, self._kept() if from_all else None
        components = np.array([0, 0] if own is None else [len(own.lengths), own.fitted, *own.in_turn], np.int64)
        n, rules = len(objective.weights), np.array([*steps, *stop, 0 if from_all else len(self._entries)], float)
        n_entries = sum(prod(sizes or ranks) for ranks, sizes in self._shapes)
        n_core = sum(prod(ranks) for ranks, _ in self._shapes)
        n_factors = sum(size * rank for pair in self._shapes for rank, size in zip(*pair, strict=False))
        n_factors += 0 if own is None else sum(part.size for part in (*own.factors, own.lengths))
        fit = native.NativeCall(
            "tensormargin_fit",
            *(n, len(orders), orders, sizes, ranks, components, self._samples.columns, kept),
            *(self._problem.signs, objective.weights, strengths(objective), self._problem.bias_scale),
            *(limits(self._format.wide), rules, core, factors, self.beta, state, records),
            sizes=(
                *(len(self._shapes), sizes.size, ranks.size, components.size, n_entries * n),
                *(() if kept is None else ((n + 1) * (n_entries + n + 1),)),
                *(n, n, 3, _N_LIMITS, 10, 2 * n_core, 2 * n_factors, 2 * n, 5, 2 * most * _RECORDED),
            ),
        )
        failed = fit()
        if kept is not None and kept[-1]:
            self._samples.kept_of_all[:] = [(self._problem, kept)]
        if failed == _NO_START:
            return None
        self.beta = self.beta[: len(objective.weights)]
        self._core, self._factors = core, factors
        self.objective, self.intercept, self.scale, done, self.converged = state.tolist()
        self.records = records[: int(done)]
        return not failed

    def _kept(self) -> FloatArray | None:
        """Return what an earlier fit has left of the solution over all tensors, or memory for it; see small.h.

        None if there are so many samples that their Gram matrix is not used.
        """
        own, (size, n) = self._problem, self._samples.columns.shape
        if size + 1 <= self._format.wide * n:
            return None
        for other, kept in self._samples.kept_of_all:
            pairs = (other.signs, own.signs), (other.objective.weights, own.objective.weights)
            if other.bias_scale == own.bias_scale and all(np.array_equal(*pair) for pair in pairs):
                return kept
        return np.zeros((n + 1) * (size + n + 1))

    def weight(self) -> Weight:
        """Return the weight that was reached."""
        core, factors, tensors = self._core, self._factors, []
        for ranks, sizes in self._shapes:
            own = []
            for size, rank in zip(sizes, ranks, strict=False):
                own.append(factors[: size * rank].reshape(size, rank))
                factors = factors[size * rank :]
            tensors.append((core[: prod(ranks)].reshape(ranks), own))
            core = core[prod(ranks) :]
        if self._components is not None:
            inner = [len(factor) * len(factor.T) for factor in self._components.factors]
            *parts, lengths, _ = np.split(factors, np.cumsum([*inner, len(self._components.lengths)]))
            return self._format.with_components(tensors[0][1], parts, lengths)
        return self._format.with_tucker_tensors(tensors)


def small_fit(
    samples: Samples, problem: MarginProblem, weight: Weight, beta: FloatArray | None, tol: float
) -> SmallFit | None:
    """Return the fit of a small problem by compiled code, or None if it is not small or the code was not compiled."""
    if not samples.in_memory or len(samples) * weight.largest_size > tuning.SMALL_SAMPLES:
        return None
    is_known = weight.has_core or (weight.has_tangent and weight.components() is not None)
    if weight.n_modes > _MOST_MODES or not is_known or len(weight.block_names) == 1:
        return None
    return SmallFit(samples, problem, weight, beta, tol) if native.has_native("tensormargin_fit") else None
