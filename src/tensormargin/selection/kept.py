"""Results of a search that an interrupted run has left in a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..checkpoints import Units
from .scoring import Result
from .search import PathJob, PathResults


def with_kept(
    units: Units, jobs: Sequence[PathJob], run: Callable[[list[PathJob]], Iterable[PathResults]]
) -> Iterator[PathResults]:
    """Yield the results of all jobs: those in the units first, then those of ``run``, which are added to the units.

    Results that wait for other splits (scores that need probabilities) hold a classifier and are not kept.
    """
    yield from (
        PathResults(job.number, job.split, [Result(**fields) for fields in units[_key(job)]])
        for job in jobs
        if _key(job) in units
    )
    for one in run([job for job in jobs if _key(job) not in units]):
        if not any(result.waits for result in one.results):
            units.add(_key(one), [dict(vars(result)) for result in one.results])
        yield one


def _key(one: Any) -> str:
    """Return the key of a job or of its results."""
    return f"{one.number if isinstance(one, PathJob) else one.path}/{one.split}"
