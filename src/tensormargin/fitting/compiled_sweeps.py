"""Sweeps of small fits by compiled code (`tensormargin.fitting.native`), without a Python call for each step.

The code makes the same steps as `alternation` for weights with a tangent space; whether to go on is decided
there, for both.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from ..runtime import Array, FloatArray, tuning
from .formats import Weight
from .native import NativeCall, has_native, limits, strengths
from .objective import MarginProblem
from .samples import Samples

_MOST_MODES = 16  # as in small_fit.c
_FUNCTION = "tensormargin_sweep"


class SmallSweep(NamedTuple):
    """The largest relative gap of a sweep's solves, the relative change of the weight, and the objective before it."""

    gap: float
    change: float
    objective_before: float


class SmallSweeps:
    """A small fit in progress; ``beta`` is the dual point of the present weight."""

    def __init__(
        self, columns: Array, problem: MarginProblem, weight: Weight, beta: FloatArray | None, tol: float
    ) -> None:
        objective = problem.objective
        tensors = weight.tucker_tensors()
        self._format = weight
        self.n_blocks = len(weight.block_names)  # of the weight in its own format
        orders = np.array([len(factors) for _, factors in tensors], np.int64)
        self._shapes = [(core.shape, [len(factor) for factor in factors]) for core, factors in tensors]
        sizes = np.array([size for core, own in self._shapes for size in own or core], np.int64)
        ranks = np.array([rank for core, _ in self._shapes for rank in core], np.int64)
        self._core = np.concatenate([core.ravel() for core, _ in tensors])
        self._factors = np.concatenate([factor.ravel() for _, factors in tensors for factor in factors])
        self._state = np.array([np.inf, 0.0, 0.0])  # objective, intercept, scale
        self._gap_needed = tuning.GAP_SHARE * tol
        self.beta: FloatArray = objective.mu2 * objective.weights if beta is None else beta.copy()
        self._made = np.empty(3)
        steps = np.array([tuning.SHORTEST_STEP, tuning.STATIONARY_SHARE * tol, tuning.GOOD_STEP])
        self._call = NativeCall(
            _FUNCTION,
            len(self.beta),
            len(orders),
            *(orders, sizes, ranks, columns, problem.signs, objective.weights, strengths(objective)),
            problem.bias_scale,
            *(limits(weight.wide), steps, self._core, self._factors, self.beta, self._state, self._made),
        )

    @property
    def objective(self) -> float:
        return float(self._state[0])

    @property
    def intercept(self) -> float:
        return float(self._state[1])

    @property
    def scale(self) -> float:
        """Sum of the absolute values of the terms of the objective."""
        return float(self._state[2])

    def sweep(self) -> SmallSweep | None:
        """Make one sweep; None if rounding keeps a solve from its gap, or memory is missing."""
        failed = self._call()
        made = SmallSweep(*self._made.tolist())
        return None if failed or not made.gap <= self._gap_needed else made

    def weight(self) -> Weight:
        """Return the present weight."""
        core, factors = self._core.copy(), self._factors.copy()
        tensors = []
        for ranks, sizes in self._shapes:
            own = []
            for size, rank in zip(sizes, ranks, strict=False):
                own.append(factors[: size * rank].reshape(size, rank))
                factors = factors[size * rank :]
            tensors.append((core[: prod(ranks)].reshape(ranks), own))
            core = core[prod(ranks) :]
        return self._format.with_tucker_tensors(tensors)


def small_sweeps(
    samples: Samples, problem: MarginProblem, weight: Weight, beta: FloatArray | None, tol: float
) -> SmallSweeps | None:
    """Return the fit of a small problem by compiled code, or None if it is not small or the code was not compiled."""
    if not samples.in_memory or len(samples) * weight.largest_size > tuning.SMALL_SAMPLES:
        return None
    if weight.n_modes > _MOST_MODES or not weight.has_core or len(weight.block_names) == 1:
        return None
    return SmallSweeps(samples.columns, problem, weight, beta, tol) if has_native(_FUNCTION) else None
