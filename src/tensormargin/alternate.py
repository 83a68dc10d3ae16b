"""The sweep over blocks (the paper's Algorithm 1) and its record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from ._typing import Array, FloatArray
from .formats import Weight
from .problem import Certificate, Objective, Recovered, block_problem
from .samples import Samples
from .solvers import Solver

_LOOSEST_GAP = 1e-2
_GAP_SHARE = 0.1


@dataclass(frozen=True)
class Task:
    """One binary problem: the samples, their signs, the objective of Eq. 7 and the intercept's scale."""

    samples: Samples
    signs: FloatArray
    objective: Objective
    bias_scale: float


@dataclass(frozen=True)
class Sweep:
    """What one pass over all blocks did.

    Attributes
    ----------
    objectives : tuple of float
        Eq. 7 after each block.
    gaps : tuple of float
        Relative duality gap of each block's solve.
    change : float
        ``||W_t - W_(t-1)|| / ||W_(t-1)||`` (Eq. 15).
    decrease : float
        Fall of the objective over the sweep, relative to the sum of its terms' absolute values.
    seconds : float
    """

    objectives: tuple[float, ...]
    gaps: tuple[float, ...]
    change: float
    decrease: float
    seconds: float


@dataclass(frozen=True)
class Fit:
    """The fitted weight with its intercept, objective value, record and verdict."""

    weight: Weight
    intercept: float
    objective: float
    sweeps: tuple[Sweep, ...]
    converged: bool


def alternate(
    task: Task,
    start: Weight,
    solver: Solver,
    tol: float,
    max_iter: int,
    report: Callable[[int, Sweep], None] | None = None,
) -> Fit:
    """Minimise Eq. 7 over one block after the other until the weight stands still (Eq. 15).

    A block is kept as it was when its (inexact) solve would raise the objective, so the objective never rises
    (Theorem 2). Blocks are solved loosely while the sweeps still gain much, and to a gap of ``tol / 10`` at the end. A
    weight of one block is a convex problem: the first sweep that reaches that gap has the answer.

    Parameters
    ----------
    task : Task
    start : Weight
        Only the blocks that the first solve holds fixed matter.
    solver : Solver
    tol : float
        Bound on the relative change of W over a sweep.
    max_iter : int
        Most sweeps.
    report : callable, optional
        Called with the sweep's number and record.
    """
    state = _State(start)
    final_gap = _GAP_SHARE * tol
    one_block = len(start.block_names) == 1
    gap_tol = final_gap if one_block else max(final_gap, _LOOSEST_GAP)
    sweeps: list[Sweep] = []
    converged = False
    while not converged and len(sweeps) < max_iter:
        sweep = _sweep(task, state, solver, gap_tol)
        sweeps.append(sweep)
        if report is not None:
            report(len(sweeps), sweep)
        exact = max(sweep.gaps) <= final_gap
        converged = exact and (one_block or sweep.change <= tol or sweep.decrease <= final_gap)
        gap_tol = max(final_gap, min(gap_tol, _GAP_SHARE * sweep.decrease))
    return Fit(state.weight, state.intercept, state.objective, tuple(sweeps), converged)


class _State:
    """What a sweep carries from block to block."""

    def __init__(self, weight: Weight) -> None:
        self.weight = weight
        self.intercept = 0.0
        self.objective = np.inf
        self.scale = np.inf
        self.beta: Array | None = None  # the dual point; close to the next block's, so a warm start

    def accept(self, weight: Weight, recovered: Recovered, certificate: Certificate) -> None:
        self.weight = weight
        self.intercept = recovered.intercept
        self.objective = certificate.primal
        self.scale = certificate.scale


def _sweep(task: Task, state: _State, solver: Solver, gap_tol: float) -> Sweep:
    began = perf_counter()
    before, objective_before = state.weight.to_dense(), state.objective
    objectives, gaps = [], []
    for index in range(len(state.weight.block_names)):
        block = state.weight.block(index)
        design = block.design(task.samples)
        problem = block_problem(design, task.signs, task.objective, task.bias_scale)
        solution = solver(problem, state.beta, gap_tol)
        state.beta = solution.beta
        recovered = problem.recover(solution.u)
        # Judge the vector that is kept, not its whitened coordinates: what recovering it lost counts as gap.
        margins = task.signs * (design @ recovered.vector.astype(design.dtype) + recovered.intercept)
        certificate = replace(solution.certificate, primal=task.objective.value(recovered.squared_norm, margins))
        if certificate.primal <= state.objective:
            state.accept(block.replace(recovered.vector), recovered, certificate)
        objectives.append(state.objective)
        gaps.append(max(certificate.relative_gap, solution.certificate.relative_gap))
    after = state.weight.to_dense()
    length = float(np.linalg.norm(before))
    change = float(np.linalg.norm(after - before)) / length if length > 0 else np.inf
    decrease = (objective_before - state.objective) / state.scale if np.isfinite(objective_before) else 1.0
    return Sweep(tuple(objectives), tuple(gaps), change, decrease, perf_counter() - began)
