"""Alternating minimisation over the blocks of a weight (the paper's Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from math import prod
from time import perf_counter
from typing import Any

import numpy as np

from ..runtime import Array, FloatArray, available_bytes, tuning
from .blocks import block_problem
from .designs import Matrix
from .formats import Block, Tangent, Weight
from .formats.base import TangentCore
from .formats.tucker import TuckerWeight
from .objective import Certificate, MarginProblem
from .samples.base import Samples, ViewFacts, drawn_rows
from .small_problems import SmallFit, small_fit
from .solvers import Solver, solve_dual_cd, solve_small_block


@dataclass(frozen=True)
class Start:
    """Starting point of a fit: a weight, of which only the blocks that the first solve holds fixed matter.

    A guess ``beta`` of the dual point implies that the weight is good; blocks are then solved less loosely.
    """

    weight: Weight
    beta: FloatArray | None = None
    raced: bool = False  # whether a second start is tried as well (`sweeps`)


@dataclass(frozen=True)
class Sweep:
    """Record of one pass over all blocks, or of one step that changes all of them together."""

    objectives: tuple[float, ...]  # Eq. 7 after each block; equal numbers if all were changed together
    gaps: tuple[float, ...]  # relative duality gap of each block's solve, or the largest one
    change: float  # ``||W_t - W_(t-1)|| / ||W_(t-1)||`` (Eq. 15)
    decrease: float  # of the objective over the sweep, relative to the sum of the absolute values of its terms
    seconds: float


@dataclass(frozen=True)
class Fit:
    """A fitted weight with its intercept, objective value, sweeps and convergence flag, and facts of several views."""

    weight: Weight
    intercept: float
    objective: float
    sweeps: tuple[Sweep, ...]
    converged: bool
    views: ViewFacts | None = None


@dataclass(frozen=True)
class BlockRequest:
    """A block to solve to a gap of ``gap_tol``, from a guess of its dual point; exactly if there are few samples."""

    block: Block | Tangent | TangentCore
    beta: FloatArray | None
    gap_tol: float
    of_few: bool = False
    wide: float = 1.0

    def design(self, read: Any) -> Any:
        """Return the design of the block, given what its contractions make of the samples."""
        return self.block.design(read) if isinstance(self.block, TangentCore) else read


@dataclass(frozen=True)
class SolvedBlock:
    """A block with its solution, relative duality gap, and dual point if the next solve can use it."""

    block: Block | Tangent | TangentCore
    vector: FloatArray
    intercept: float
    certificate: Certificate  # its primal value is Eq. 7 at this vector and intercept
    gap: float
    beta: FloatArray | None = None


_LONGEST_STEP = 64.0  # as in small_fit.c

Report = Callable[[int, "Sweep"], None]
Within = Callable[[list[Array], Weight, FloatArray | None], "_State | None"]
Sweeping = Generator[BlockRequest, SolvedBlock, Fit]
Solutions = Generator[BlockRequest, SolvedBlock, SolvedBlock]


def alternate(
    samples: Samples,
    problem: MarginProblem,
    start: Start,
    solver: Solver,
    tol: float,
    max_iter: int,
    report: Report | None = None,
) -> Fit:
    """Minimise Eq. 7 over the blocks of a weight, in turn or together, until it changes by at most ``tol`` (Eq. 15)."""
    solving = Solving(samples, problem, solver, tol)
    fit: Fit = solving.drive(sweeps(start, len(problem), tol, max_iter, report, solving, samples.is_remote))
    return fit


@dataclass(frozen=True)
class Solving:
    """Solves blocks one by one, and what can be done for samples in memory without a request for each step."""

    samples: Samples
    problem: MarginProblem
    solver: Solver
    tol: float

    def drive(self, requests: Generator[BlockRequest, SolvedBlock, Any]) -> Any:
        """Send solved blocks to a generator of requests, and return what it returns."""
        solved: Any = None
        contractions, read = None, None
        while True:
            try:
                request = requests.send(solved)
            except StopIteration as finished:
                return finished.value
            block = request.block
            if block.contractions is not contractions:
                contractions, read = block.contractions, None  # the last design is freed before the next one is made
                if isinstance(block, Block):
                    read = self.samples.design(block.contraction)
                else:  # the parts of a tangent space are always in memory
                    read = self.samples.side_by_side(contractions)
            solved = solve_block(request.design(read), request, self.problem, self.solver)

    def small(self, start: Start) -> SmallFit | None:
        """Return a small fit by compiled code; None if the general way is to be taken."""
        if self.solver is not solve_dual_cd:
            return None
        return small_fit(self.samples, self.problem, start.weight, start.beta, self.tol)

    def within(self, bases: list[Array], weight: Weight, beta: FloatArray | None) -> _State | None:
        """Fit a weight with its factors in the span of these bases; return the state reached, None if it is too large.

        The samples are contracted to the span once; sweeps there cost next to nothing.
        """
        sizes = tuple(basis.shape[1] for basis in bases)
        if len(self.problem) * prod(sizes) > tuning.SMALL_SAMPLES:
            return None
        core, factors = weight.core_and_factors()
        turned = [basis.T @ factor for basis, factor in zip(bases, factors, strict=True)]
        inside = replace(self, samples=self.samples.within(bases))
        start = Start(TuckerWeight(core, turned), beta)
        run = _Run(start, len(self.problem), self.tol, None, inside)
        small = inside.small(start)
        if small is not None:
            small.run(tuning.SUBSPACE_SWEEPS)
            run.take(small, 0.0)
        inside.drive(run.until(tuning.SUBSPACE_SWEEPS))
        state = run.reached()
        core, turned = state.weight.core_and_factors()
        state.weight = weight.with_core(core, [basis @ turn for basis, turn in zip(bases, turned, strict=True)])
        return state


def sweeps(
    start: Start,
    n_samples: int,
    tol: float,
    max_iter: int,
    report: Report | None = None,
    solving: Solving | None = None,
    remote: bool = False,
) -> Sweeping:
    """Yield one block request after the other and return the fit: the loop of `alternate` without the solves.

    If the samples are ``remote``, every step asks for them once where that is possible (`steps_in_one_pass`).
    A start that is to be ``raced`` has a rival, the solution of the convex problem over all tensors truncated to the
    rank, unless that would cost more than the sweeps. Both go on until one is ahead by more than half the last decrease
    of the other. As a generator, the loop lets a caller solve the blocks of many fits together.
    """
    one_pass = remote and steps_in_one_pass(start.weight, n_samples)
    runs = [_Run(start, n_samples, tol, report, solving, one_pass)]
    size = prod(start.weight.shape)
    is_cheap = n_samples * size * min(n_samples, size) <= tuning.CONVEX_WORK
    races = start.raced and is_cheap and len(start.weight.block_names) > 1
    small = None if solving is None else solving.small(start)
    if small is not None:
        began = perf_counter()
        yield from _make_small(small, start, races, max_iter, runs[0].final_gap)
        runs[0].take(small, perf_counter() - began)
    elif races:
        rival = yield from _rival(start, runs[0].final_gap)
        runs += [] if rival is None else [_Run(rival, n_samples, tol, report, solving, one_pass)]
    most = tuning.RACED_SWEEPS
    while len(runs) > 1 and most <= max_iter:
        for run in runs:
            yield from run.until(most)
        lead = _lead(runs)
        runs = [run for run in runs if run is lead or run.may_pass(lead)]
        most += 1
    best = _lead(runs)
    yield from best.until(max_iter)
    return best.fit()


def _rival(start: Start, gap_tol: float) -> Generator[BlockRequest, SolvedBlock, Start | None]:
    """Return the start that follows from the solution over all tensors, unless there is none."""
    relaxed = start.weight.relaxed()
    convex = yield BlockRequest(relaxed, None, gap_tol, wide=start.weight.wide)
    return Start(relaxed.replace(convex.vector), convex.beta) if np.all(np.isfinite(convex.vector)) else None


def _make_small(
    small: SmallFit, start: Start, races: bool, most: int, gap_tol: float
) -> Generator[BlockRequest, SolvedBlock, None]:
    """Let compiled code make the sweeps, from both starts if these race; few requests are left."""
    if races and small.truncates and small.run(most, from_all=True) is not None:
        return
    rival = (yield from _rival(start, gap_tol)) if races else None
    if rival is not None:
        small.add_start(rival.weight, rival.beta)
    small.run(most)


def _lead(runs: list[_Run]) -> _Run:
    """Return the run with the lower objective; the first one if they differ by no more than their solves do."""
    first, last = runs[0].state, runs[-1].state
    return runs[-1] if first.objective - last.objective > runs[0].final_gap * first.scale else runs[0]


class _Run:
    """The sweeps from one start.

    A sweep is a step in the tangent space (`_tangent_sweep`), or a pass over the blocks, for weights without such a
    space and, while that goes fast, for many samples; compiled code makes those of small problems (`take`). A block
    whose (inexact) solve would raise the objective is left unchanged, so the objective never rises (Theorem 2). Blocks
    are solved loosely while the sweeps still gain much, and to a gap of ``tol / 10`` at the end.
    """

    def __init__(
        self,
        start: Start,
        n_samples: int,
        tol: float,
        report: Report | None,
        solving: Solving | None,
        one_pass: bool = False,
    ) -> None:
        self._few = _are_few(n_samples, start.weight)
        ordered = start if self._few else replace(start, weight=start.weight.in_order_of_memory())
        self.state = _State(ordered, one_pass)
        self.final_gap = tuning.GAP_SHARE * tol
        self._tol, self._report = tol, report
        self._within = None
        if solving is not None and solving.samples.in_memory and not self._few and _solves_are_cheap(start.weight):
            self._within = solving.within
        self._rest = tol * (tuning.REST_SHARE_OF_FEW if self._few else tuning.REST_SHARE)
        self._one_block = len(start.weight.block_names) == 1
        steps = start.weight.has_tangent and (self._few or not start.weight.has_costly_tangent)
        self._has_tangent = not self._one_block and steps
        # A pass over the blocks gains less if there are several tensors.
        most = tuning.SAMPLES_PER_PARAMETER * start.weight.n_tensors**2 * start.weight.n_parameters
        self._from_start = self._has_tangent and (self._few or one_pass or n_samples <= most)
        tight = self._one_block or self._from_start
        self._gap_tol = max(self.final_gap, 0.0 if tight else _loosest_gap(start))
        self._leaves_out = self._from_start and start.weight.has_costly_tangent
        self._passes_next = False
        self._done: list[Sweep] = []
        self._converged = False

    def until(self, most: int) -> Generator[BlockRequest, SolvedBlock, None]:
        """Sweep until convergence, or until so many sweeps have been made in all."""
        done = self._done
        while not self._converged and len(done) < most and not _stalled(done, self.final_gap, self._gap_tol):
            sweep = yield from self._next_sweep()
            if not np.isfinite(self.state.objective):
                raise ValueError(
                    "no block has a finite objective (Eq. 7): lam, mu1 or mu2 is too large for samples of this "
                    "magnitude; lower it or scale the samples"
                )
            done.append(sweep)
            if self._report is not None:
                self._report(len(done), sweep)
            self._judge(sweep)
            self._gap_tol = max(self.final_gap, min(self._gap_tol, tuning.GAP_SHARE * sweep.decrease))

    def _judge(self, sweep: Sweep) -> None:
        """Decide whether the last sweep has converged.

        Steps that leave out directions of some blocks may gain nothing where a block still can: they have converged if
        a pass over the blocks gains next to nothing as well.
        """
        exact, passed = max(sweep.gaps) <= self.final_gap, self._passes_next
        settled = self._one_block or sweep.change <= self._tol or _left_to_fall(self._done) <= self._rest
        if passed:
            settled = sweep.decrease <= self._rest
        self._converged = exact and settled and passed is self._leaves_out
        self._passes_next = exact and settled and self._leaves_out and not passed

    def take(self, small: SmallFit, seconds: float) -> None:
        """Go on from what compiled code has reached: sweeps that it made in so many seconds."""
        state, n_blocks = self.state, len(self.state.weight.block_names)
        state.weight, state.beta = small.weight(), small.beta
        state.objective, state.intercept, state.scale = small.objective, small.intercept, small.scale
        self._converged = bool(small.converged)
        for objective, gap, change, decrease in small.records.tolist():
            each = seconds / len(small.records)
            self._done.append(Sweep((objective,) * n_blocks, (gap,) * n_blocks, change, decrease, each))
            if self._report is not None:
                self._report(len(self._done), self._done[-1])

    def _next_sweep(self) -> Generator[BlockRequest, SolvedBlock, Sweep]:
        if self._passes_next:
            return (yield from _sweep(self.state, self._gap_tol, self._few))
        if self._from_start or (self._has_tangent and len(self._done) >= tuning.FAST_SWEEPS):
            return (yield from _tangent_sweep(self.state, self._gap_tol, self._tol, self._few, self._within))
        return (yield from _sweep(self.state, self._gap_tol))

    def may_pass(self, other: _Run) -> bool:
        """Return whether half the last decrease, once more, would bring the objective below another's."""
        fall = 0.5 * self._done[-1].decrease * self.state.scale
        ended = self._converged or _stalled(self._done, self.final_gap, self._gap_tol)
        return not ended and self.state.objective - fall < other.state.objective

    def reached(self) -> _State:
        """Return the state, with the gap of the last sweep."""
        state = self.state
        state.gap = max(self._done[-1].gaps)
        return state

    def fit(self) -> Fit:
        state = self.reached()
        return Fit(state.weight, state.intercept, state.objective, tuple(self._done), self._converged)


def _solves_are_cheap(weight: Weight) -> bool:
    """Return whether contracting samples costs far more than solving blocks of a weight."""
    return prod(weight.shape) >= tuning.CHEAP_SOLVES * weight.n_parameters


def _are_few(n_samples: int, weight: Weight) -> bool:
    """Return whether samples are so few that compiled code fits them, wherever they are stored."""
    return n_samples * weight.largest_size <= tuning.SMALL_SAMPLES


def steps_in_one_pass(weight: Weight, n_samples: int) -> bool:
    """Return whether the design of a tangent space is small enough to be kept from one step to the next.

    A step then takes one pass over the samples: what they are contracted to at a point tells both whether the last step
    gained enough and where the next one leads.
    """
    fits = 4 * n_samples * weight.n_parameters <= round_bytes()
    return weight.has_core and len(weight.block_names) > 1 and fits and not _are_few(n_samples, weight)


def round_bytes() -> float:
    """Return the memory that the designs of one pass over samples on workers may use."""
    return max(tuning.ROUND_LEAST_BYTES, tuning.ROUND_SHARE * available_bytes())


def _loosest_gap(start: Start) -> float:
    """Return the gap for the blocks of the first sweep; 0 (tight) if contracting costs far more than solving."""
    if _solves_are_cheap(start.weight):
        return 0.0
    return tuning.LOOSEST_GAP if start.beta is None else tuning.LOOSEST_GAP_IF_GOOD


def _stalled(sweeps: list[Sweep], final_gap: float, gap_tol: float) -> bool:
    """Return whether rounding prevents further progress: the last two sweeps changed nothing."""
    return gap_tol <= final_gap and len(sweeps) > 1 and all(sweep.change == 0.0 for sweep in sweeps[-2:])


def _left_to_fall(sweeps: list[Sweep]) -> float:
    """Estimate how far the objective can still fall by continuing its last decreases as a geometric series.

    A single small decrease says little. If alternation is slow, a hundred of them may follow; if it is fast, stopping
    early saves three sweeps (rank-1 fit of MNIST: 4 sweeps instead of 7 at an objective 0.05 % higher).
    """
    falls = [sweep.decrease for sweep in sweeps[1:][-3:]]  # the decrease of the first sweep is unknown
    if not falls:
        return np.inf
    known = len(falls) == 3 and min(falls) > 0.0
    ratio = max(falls[1] / falls[0], falls[2] / falls[1]) if known else tuning.SLOWEST_DECAY
    return falls[-1] / (1.0 / min(ratio, tuning.SLOWEST_DECAY) - 1.0)


class _State:
    """State carried from block to block and from sweep to sweep."""

    def __init__(self, start: Start, one_pass: bool = False) -> None:
        self.weight = start.weight
        self.one_pass = one_pass  # whether a step and its refit share a design
        self.tangent: Tangent | None = None  # at the weight, if its design is known
        self.intercept = 0.0
        self.objective = np.inf
        self.scale = np.inf
        self.beta = start.beta  # the dual point, a warm start for the next block
        self.gap = np.inf  # of the last sweep's solves
        self.trial: Weight | None = None  # extrapolation of the last sweeps
        self.factors_before: list[Array] | None = None  # of a Tucker weight before the last step
        self._entry = self._exit = np.empty(0)

    def try_block(self, solved: SolvedBlock) -> bool:
        """Accept a solved block if its objective is finite and not higher; return whether it was accepted."""
        primal = solved.certificate.primal
        if not np.isfinite(primal) or primal > self.objective or isinstance(solved.block, Tangent):
            return False
        self.beta = solved.beta
        self.weight = solved.block.replace(solved.vector)
        self.tangent = solved.block.at(solved.vector) if isinstance(solved.block, TangentCore) else None
        self.intercept = solved.intercept
        self.objective = primal
        self.scale = solved.certificate.scale
        return True

    def refit(self, weight: Weight) -> Block | TangentCore:
        """Return the block to solve after a step to a weight."""
        return TangentCore(weight.tangent()) if self.one_pass else weight.refit()

    def extrapolate(self, entry: Weight) -> None:
        """Propose a start for the next sweep, given the start of the last one (Anderson acceleration of depth one).

        Two sweeps in the same direction, the second one shorter, are continued to the limit of that series. This saves
        a third to a half of the sweeps when alternation is slow (Tensor-Train, 60 samples of 20x20x20: 18 to 14, with
        ``tol=1e-5`` 124 to 66) and none when it is fast.
        """
        begin, end = entry.coordinates(), self.weight.coordinates()
        self.trial = None
        if self._exit.size:
            step, turn = end - begin, (end - begin) - (self._exit - self._entry)
            length = float(turn @ turn)
            if length > 0:
                self.trial = self.weight.at_coordinates(end - float(step @ turn) / length * (end - self._exit))
        self._entry, self._exit = begin, end


def solve_block(design: Any, request: BlockRequest, problem: MarginProblem, solver: Solver) -> SolvedBlock:
    """Return the solution of the requested block, given its design."""
    most = tuning.SMALL_SAMPLES if request.of_few else tuning.SMALL_DESIGN
    small = None
    if solver is solve_dual_cd and design.shape[0] * design.shape[1] <= most:
        rows = design.to_numpy() if isinstance(design, Matrix) else design
        small = solve_small_block(rows, problem, request.beta, request.gap_tol, request.wide)
    if small is not None:
        return SolvedBlock(request.block, *small[:3], small.certificate.relative_gap, small.beta)
    block = block_problem(design, problem, request.gap_tol, request.wide)
    solution = solver(block, request.beta, request.gap_tol)
    recovered = block.recover(solution.u, solution.margins)
    primal = problem.objective.value(recovered.squared_norm, recovered.margins)
    certificate = replace(solution.certificate, primal=primal)
    gap = max(certificate.relative_gap, solution.certificate.relative_gap)
    return SolvedBlock(request.block, recovered.vector, recovered.intercept, certificate, gap, solution.beta)


def _tangent_sweep(
    state: _State, gap_tol: float, tol: float, few: bool, within: Within | None
) -> Generator[BlockRequest, SolvedBlock, Sweep]:
    """Make a step in the tangent space of the weights of one rank, with the core fitted there.

    The tangent space contains every block, so its problem is a block problem like the others. A point where each block
    is optimal need not be stationary, since the hinge has corners; one where the tangent space promises no decrease is.
    And unlike a pass over the blocks, the step does not depend on the order of the modes (EEG, 61 samples of 64x64,
    large lambda: objectives 10 to 30 % lower than those of the best of eight starts without such steps).
    """
    began = perf_counter()
    gaps, n_blocks = [], len(state.weight.block_names)
    if not np.isfinite(state.objective):
        solved = yield BlockRequest(state.refit(state.weight), state.beta, gap_tol, few, state.weight.wide)
        gaps.append(solved.gap)
        if not state.try_block(solved):
            return _record(state, state.weight, np.inf, [np.inf] * n_blocks, gaps * n_blocks, began)
    before, objective_before = state.weight, state.objective
    tangent = state.tangent or before.tangent()
    best = yield BlockRequest(tangent, state.beta, gap_tol, few, state.weight.wide)
    gaps.append(best.gap)
    promised = state.objective - best.certificate.primal
    rest = tuning.GAP_SHARE if state.one_pass else tuning.STATIONARY_SHARE  # another pass has to pay
    if promised > rest * tol * state.scale:
        gap = None if within is None or tangent.bases is None else _step_within(state, tangent, best, within)
        if gap is None:
            tried = yield from _search_along(state, tangent, best, promised, gap_tol, few)
            state.try_block(tried)
            gap = tried.gap
        gaps.append(gap)
    gap = float(np.max(gaps))  # NaN if one of the solves has no value
    return _record(state, before, objective_before, [state.objective] * n_blocks, [gap] * n_blocks, began)


def _step_within(state: _State, tangent: Tangent, best: SolvedBlock, within: Within) -> float | None:
    """Fit the weight in the span of its factors, of their changes in the tangent space, and of the factors before.

    Where contractions cost far more than solves, this takes the place of a search along the step: as conjugate
    directions do, the factors before say what earlier steps have found. Returns the gap; None if it is not possible,
    or the objective would rise.
    """
    assert tangent.bases is not None
    bases, (_, factors) = tangent.bases(best.vector), state.weight.core_and_factors()
    found = None
    if state.factors_before is not None:
        found = within(_joined(bases, state.factors_before), state.weight, best.beta)
    found = found or within(bases, state.weight, best.beta)
    if found is None or not found.objective <= state.objective:
        return None
    state.weight, state.beta, state.intercept = found.weight, found.beta, found.intercept
    state.objective, state.scale, state.factors_before = found.objective, found.scale, factors
    return found.gap


def _joined(bases: list[Array], more: list[Array]) -> list[Array]:
    """Return orthonormal bases of what both span together, in modes that are not smaller than that."""
    fits = [one.shape[1] + other.shape[1] <= len(one) for one, other in zip(bases, more, strict=True)]
    every = zip(bases, more, fits, strict=True)
    return [np.linalg.qr(np.hstack([one, other]))[0] if fit else one for one, other, fit in every]


def _search_along(
    state: _State, tangent: Tangent, best: SolvedBlock, promised: float, gap_tol: float, few: bool
) -> Solutions:
    """Try ever shorter steps to the solution in the tangent space, and return the first one that gains enough.

    One that gains less than half of what was promised is halved as well; one that gains all of it is doubled as long as
    the objective falls. Where each of them takes a pass over the samples, the first one that gains anything is taken.
    """

    def step(part: float) -> Solutions:
        near = tangent.retract(tangent.vector + part * (best.vector - tangent.vector))
        return (yield BlockRequest(state.refit(near), best.beta, gap_tol, few, state.weight.wide))

    def gain(solved: SolvedBlock) -> float:
        return state.objective - solved.certificate.primal

    def lengthened(solved: SolvedBlock) -> Solutions:
        part = 2.0
        while gain(solved) >= promised and part <= _LONGEST_STEP:
            longer = yield from step(part)
            if not gain(longer) > gain(solved):
                break
            solved, part = longer, 2.0 * part
        return solved

    share = 1.0
    while True:
        tried = []
        for part in (share,) if state.one_pass else (share, share / 2):
            solved = yield from step(part)
            tried.append(solved)
            if gain(solved) >= tuning.GOOD_STEP * promised:
                return solved if part < 1.0 or state.one_pass else (yield from lengthened(solved))
        better = max(tried, key=gain)
        share /= 8
        if gain(better) >= 0.0 or share < tuning.SHORTEST_STEP:
            return better


def _record(
    state: _State, before: Weight, objective_before: float, objectives: list[float], gaps: list[float], began: float
) -> Sweep:
    moved = float(np.linalg.norm(state.weight.to_dense() - before.to_dense()))
    change = moved / before.norm if before.norm > 0 else np.inf
    decrease = (objective_before - state.objective) / state.scale if np.isfinite(objective_before) else 1.0
    return Sweep(tuple(objectives), tuple(gaps), change, decrease, perf_counter() - began)


def _sweep(state: _State, gap_tol: float, few: bool = False) -> Generator[BlockRequest, SolvedBlock, Sweep]:
    """Solve all blocks in turn (Algorithm 1); with few samples between steps in the tangent space."""
    began = perf_counter()
    start, entry, objective_before = state.weight, state.weight, state.objective
    objectives, gaps = [], []

    def solve(weight: Weight, index: int) -> Generator[BlockRequest, SolvedBlock, bool]:
        solved = yield BlockRequest(weight.block(index), state.beta, gap_tol, few, weight.wide)
        state.beta = solved.beta
        taken = state.try_block(solved)
        gaps.append(solved.gap)
        objectives.append(state.objective)
        return taken

    for index in range(len(entry.block_names)):
        if index == 0 and state.trial is not None:
            taken = yield from solve(state.trial, 0)
            if taken:
                entry = state.trial
                continue
            gaps.clear()
            objectives.clear()
        yield from solve(state.weight, index)
    if np.isfinite(objective_before) and not few:  # the scale of a start is arbitrary: its first sweep has no direction
        state.extrapolate(entry)
    return _record(state, start, objective_before, objectives, gaps, began)


def coarse_start(
    samples: Samples, problem: MarginProblem, weight: Weight, solver: Solver, tol: float, max_iter: int
) -> Start:
    """Return the start for all samples: the weight itself, or one fitted to a subset with the same share of classes.

    If a weight has far fewer parameters than there are samples, a fit to an eighth of the samples is already close to
    the final one, and gives a guess of the dual point, which tells the first solve which samples matter (MNIST, CP of
    rank 2: 4 sweeps over 12k images instead of 6, 0.13 instead of 0.15 s; a million samples gain more).
    """
    fewest = max(tuning.COARSE_SAMPLES, tuning.COARSE_SAMPLES_PER_PARAMETER * weight.n_parameters)
    if len(problem) < tuning.COARSE_SHARE * fewest:
        return Start(weight)
    rows = drawn_rows(problem.signs, samples.coarse_share)
    if len(rows) < fewest:
        return Start(weight)
    some = samples.take(rows), problem.subset(rows)
    start = coarse_start(*some, weight, solver, tol, max_iter)
    fit = alternate(*some, start, solver, max(tol, tuning.COARSE_TOL), max_iter)
    return Start(fit.weight, dual_guess(samples, problem, fit.weight, fit.intercept))


def dual_guess(samples: Samples, problem: MarginProblem, weight: Weight, intercept: float) -> Array | None:
    """Return the dual point with every sample at the bound that its margin implies; None if it is not worth a pass."""
    if samples.is_remote and steps_in_one_pass(weight, len(problem)):  # the first solve finds it
        return None
    scores = samples.scores(weight.to_dense()[None].astype(samples.dtype))[:, 0]
    return problem.objective.implied_dual(problem.signs * (scores + intercept))
