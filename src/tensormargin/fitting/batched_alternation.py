"""Many fits in lockstep.

On a device, blocks of equal size are contracted and solved together. In Dask arrays, the next blocks of all fits are
contracted in one pass over the chunks, and solved in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..runtime import Array, available_bytes, free_bytes, to_host, tuning
from .alternation import BlockRequest, Fit, SolvedBlock, Sweeping, solve_block
from .objective import MarginProblem
from .samples.shared import SharedSamples
from .solvers import SOLVERS
from .solvers.interior_point import solve_batched

if TYPE_CHECKING:
    from .samples.lazy_shared import SharedLazySamples


@dataclass(frozen=True)
class BatchedFit:
    """One fit of a batch.

    Attributes
    ----------
    part : int
        Index of its samples in `SharedSamples.rows` or `SharedLazySamples`.
    problem : MarginProblem
        With its samples in the order of these rows.
    loop : Sweeping
        Generator of its block requests.
    """

    part: int
    problem: MarginProblem
    loop: Sweeping


def alternate_batched(samples: SharedSamples, members: Sequence[BatchedFit], solver: str = "auto") -> list[Fit]:
    """Return the fits of all members, as from `alternation.alternate`, solving their blocks in batches.

    Members whose next blocks have equal sizes are contracted and solved together, the largest such group first; members
    that are ahead wait until the others reach the same block. ``solver`` says where blocks are solved: "device",
    "host", or "auto" for the faster of the two, decided per group.
    """
    waiting = {k: next(member.loop) for k, member in enumerate(members)}
    fits: dict[int, Fit] = {}
    while waiting:
        group = _largest_group(waiting)
        for part in _that_fit(group, members, samples, waiting):
            solved = _solve(samples, [members[k] for k in part], [waiting[k] for k in part], solver)
            for k, one in zip(part, solved, strict=True):
                _go_on(k, members[k].loop, one, waiting, fits)
    return [fits[k] for k in range(len(members))]


def alternate_on_host(samples: SharedLazySamples, members: Sequence[BatchedFit]) -> list[Fit]:
    """Return the fits of all members, whose samples are in Dask arrays, solving their blocks in memory.

    In each round, the designs of all members' next blocks are computed in one pass over the samples; in several passes
    if they would take too much memory together.
    """
    solver = SOLVERS["dual_cd"]
    waiting = {k: next(member.loop) for k, member in enumerate(members)}
    fits: dict[int, Fit] = {}
    while waiting:
        for some in _passes(samples, members, waiting):
            requests = [(members[k].part, waiting[k].block.contractions) for k in some]
            for k, design in zip(some, samples.designs(requests), strict=True):
                solved = solve_block(design, waiting[k], members[k].problem, solver)
                _go_on(k, members[k].loop, solved, waiting, fits)
    return [fits[k] for k in range(len(members))]


def _passes(
    samples: SharedLazySamples, members: Sequence[BatchedFit], waiting: dict[int, BlockRequest]
) -> list[list[int]]:
    """Return the waiting members divided into parts whose designs fit into the memory that a pass may use."""
    most = max(tuning.ROUND_LEAST_BYTES, tuning.ROUND_SHARE * available_bytes())
    parts: list[list[int]] = []
    taken = 0
    for k, request in waiting.items():
        needed = samples.n_bytes((members[k].part, request.block.contractions))
        if not parts or taken + needed > most:
            parts.append([])
            taken = 0
        parts[-1].append(k)
        taken += needed
    return parts


def _go_on(k: int, loop: Sweeping, solved: SolvedBlock, waiting: dict[int, BlockRequest], fits: dict[int, Fit]) -> None:
    """Send a loop its solved block; store its next request, or its fit."""
    try:
        waiting[k] = loop.send(solved)
    except StopIteration as finished:
        del waiting[k]
        fits[k] = finished.value


def _largest_group(waiting: dict[int, BlockRequest]) -> list[int]:
    groups: dict[object, list[int]] = {}
    for k, request in waiting.items():
        sizes = tuple(contraction.sizes for contraction in request.block.contractions)
        groups.setdefault(sizes, []).append(k)
    return max(groups.values(), key=len)


def _that_fit(
    group: list[int], members: Sequence[BatchedFit], samples: SharedSamples, waiting: dict[int, BlockRequest]
) -> list[list[int]]:
    """Return the group divided into parts whose designs fit into the memory that a batch may use."""
    n_rows = max(len(samples.rows[members[k].part]) for k in group)
    width = sum(contraction.wide for contraction in waiting[group[0]].block.contractions)
    step = max(
        1, int(tuning.DEVICE_MEMORY_SHARE * free_bytes(samples.like)) // (tuning.DESIGN_COPIES * 8 * n_rows * width)
    )
    return [group[first : first + step] for first in range(0, len(group), step)]


def _solve(
    samples: SharedSamples, members: list[BatchedFit], requests: list[BlockRequest], solver: str
) -> list[SolvedBlock]:
    which = [member.part for member in members]
    designs = samples.side_by_side(
        [
            samples.designs(which, contractions)
            for contractions in zip(*(request.block.contractions for request in requests), strict=True)
        ]
    )
    if solver == "device" or (solver == "auto" and faster_on_device(*designs.shape)):
        return _solve_there(designs, members, requests)
    return _solve_here(to_host(designs), members, requests)


def _solve_here(designs: Array, members: list[BatchedFit], requests: list[BlockRequest]) -> list[SolvedBlock]:
    solver = SOLVERS["dual_cd"]
    return [
        solve_block(design[: len(one.problem)], request, one.problem, solver)
        for design, one, request in zip(designs, members, requests, strict=True)
    ]


def _solve_there(designs: Any, members: list[BatchedFit], requests: list[BlockRequest]) -> list[SolvedBlock]:
    solutions = solve_batched(
        designs, [member.problem for member in members], [request.gap_tol for request in requests]
    )
    return [
        SolvedBlock(
            request.block, one.vector, one.intercept, one.certificate, one.certificate.relative_gap, request.beta
        )
        for request, one in zip(requests, solutions, strict=True)
    ]


def faster_on_device(n_members: int, n_rows: int, width: int) -> bool:
    """Estimate whether a batch is solved faster on the device than one problem at a time on the host."""
    here = n_members * (tuning.HERE_SECONDS + tuning.HERE_SECONDS_PER_ENTRY * n_rows * width)
    return here > tuning.THERE_SECONDS + tuning.THERE_SECONDS_PER_PRODUCT * n_members * n_rows * width**2
