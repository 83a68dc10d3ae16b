"""Many fits in lockstep.

On a device, blocks of equal size are contracted and solved together. In Dask arrays, the next blocks of all fits are
contracted in one pass over the chunks, and solved in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ..runtime import free_bytes, tuning
from .alternation import BlockRequest, Fit, SolvedBlock, Sweeping, round_bytes, solve_block
from .objective import MarginProblem
from .samples.device import SharedSamples, held
from .solvers import SOLVERS
from .solvers.interior_point import solve_batched

if TYPE_CHECKING:
    from .samples.lazy_shared import SharedLazySamples

Item = TypeVar("Item")


@dataclass(frozen=True)
class BatchedFit:
    """One fit of a batch: its problem, on one ``part`` of the shared samples, and the loop of its block requests."""

    part: int
    problem: MarginProblem
    loop: Sweeping


Round = Callable[[dict[int, BlockRequest]], Iterable[tuple[int, SolvedBlock]]]
"""Solves some of the blocks that members wait for; a member that is solved gets ahead of those that still wait."""


def alternate_batched(samples: SharedSamples, members: Sequence[BatchedFit], solver: str = "auto") -> list[Fit]:
    """Return the fits of all members, as from `alternation.alternate`, solving their blocks in batches.

    Members whose next blocks have equal sizes are contracted and solved together, the largest such group first; members
    that are ahead wait until the others reach the same block. ``solver`` says where blocks are solved: "device",
    "host", or "auto" for the faster of the two, decided per group.
    """

    def solve_largest_group(waiting: dict[int, BlockRequest]) -> Iterable[tuple[int, SolvedBlock]]:
        groups: dict[object, list[int]] = {}
        for k, request in waiting.items():
            groups.setdefault(tuple(one.sizes for one in request.block.contractions), []).append(k)
        group = max(groups.values(), key=len)
        n_rows = max(len(samples.rows[members[k].part]) for k in group)
        width = sum(contraction.wide for contraction in waiting[group[0]].block.contractions)
        most = tuning.DEVICE_MEMORY_SHARE * free_bytes(samples.like)  # for the designs and their copies
        step = max(1, int(most) // (tuning.DESIGN_COPIES * 8 * n_rows * width))
        for first in range(0, len(group), step):
            part = group[first : first + step]
            solved = _solve(samples, [members[k] for k in part], [waiting[k] for k in part], solver)
            yield from zip(part, solved, strict=True)

    return _in_lockstep(members, solve_largest_group)


def alternate_on_host(samples: SharedLazySamples, members: Sequence[BatchedFit]) -> list[Fit]:
    """Return the fits of all members to Dask arrays: blocks are contracted in few passes, and solved in memory."""

    def solve_all(waiting: dict[int, BlockRequest]) -> Iterable[tuple[int, SolvedBlock]]:
        wanted = {k: (members[k].part, request.block.contractions) for k, request in waiting.items()}
        for some in in_rounds(list(wanted), [samples.n_bytes(request) for request in wanted.values()]):
            for k, design in zip(some, samples.designs([wanted[k] for k in some]), strict=True):
                contractions, again = wanted[k][1], True
                while again:  # a design may serve several requests, one after the other
                    request = waiting[k]
                    yield k, solve_block(request.design(design), request, members[k].problem, SOLVERS["dual_cd"])
                    again = k in waiting and waiting[k].block.contractions is contractions

    return _in_lockstep(members, solve_all)


def _in_lockstep(members: Sequence[BatchedFit], solve_round: Round) -> list[Fit]:
    """Send each loop its solved blocks, round by round, until all have returned their fits."""
    waiting = {k: next(member.loop) for k, member in enumerate(members)}
    fits: dict[int, Fit] = {}
    while waiting:
        for k, solved in solve_round(waiting):
            try:
                waiting[k] = members[k].loop.send(solved)
            except StopIteration as finished:
                del waiting[k]
                fits[k] = finished.value
    return [fits[k] for k in range(len(members))]


def in_rounds(items: Sequence[Item], n_bytes: Sequence[float]) -> list[list[Item]]:
    """Return the items divided into parts that fit, with so many bytes each, into the memory that a round may use."""
    most = round_bytes()
    parts: list[list[Item]] = []
    taken = 0.0
    for item, needed in zip(items, n_bytes, strict=True):
        if not parts or taken + needed > most:
            parts.append([])
            taken = 0.0
        parts[-1].append(item)
        taken += needed
    return parts


def _solve(
    samples: SharedSamples, members: list[BatchedFit], requests: list[BlockRequest], solver: str
) -> list[SolvedBlock]:
    which = [member.part for member in members]
    every = zip(*(request.block.contractions for request in requests), strict=True)
    designs = samples.side_by_side([samples.designs(which, contractions) for contractions in every])
    if solver == "device" or (solver == "auto" and faster_on_device(*designs.shape)):
        return _solve_on_device(designs, members, requests)
    return _solve_on_host(designs, members, requests)


def _solve_on_host(designs: Any, members: list[BatchedFit], requests: list[BlockRequest]) -> list[SolvedBlock]:
    return [
        solve_block(held(designs[k, : len(one.problem), :]), request, one.problem, SOLVERS["dual_cd"])
        for k, (one, request) in enumerate(zip(members, requests, strict=True))
    ]


def _solve_on_device(designs: Any, members: list[BatchedFit], requests: list[BlockRequest]) -> list[SolvedBlock]:
    problems, gaps = [member.problem for member in members], [request.gap_tol for request in requests]
    return [
        SolvedBlock(request.block, *solution[:3], solution.certificate.relative_gap, request.beta)
        for request, solution in zip(requests, solve_batched(designs, problems, gaps), strict=True)
    ]


def faster_on_device(n_members: int, n_rows: int, width: int) -> bool:
    """Estimate whether a batch is solved faster on the device than one problem at a time on the host."""
    on_host = n_members * (tuning.HOST_SECONDS + tuning.HOST_SECONDS_PER_ENTRY * n_rows * width)
    return on_host > tuning.DEVICE_SECONDS + tuning.DEVICE_SECONDS_PER_PRODUCT * n_members * n_rows * width**2
