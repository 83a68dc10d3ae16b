"""The search on a device, which fits many candidates on many splits as one batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from time import perf_counter
from typing import Any

from sklearn.base import clone

from ..estimators import fit_many, without_convergence_warnings
from ..runtime import Array
from .grid import Candidate
from .lazy_search import run_lazily
from .race import Unit
from .search import HeldOut, Job, Training
from .splits import Split


def run_batched(training: Training, jobs: Sequence[Job], splits: Sequence[Split]) -> Iterator[list[tuple[Unit, Any]]]:
    """Yield the results of the jobs.

    Candidates of one decomposition and rank are fitted together: on all splits if there is no preparation, otherwise
    on each split by itself. After the deadline only those that are always fitted are. Candidates on a Dask array are
    fitted together whatever their form (`tensormargin.selection.lazy_search`).
    """
    if training.array.is_lazy:
        yield from run_lazily(training, jobs, splits)
        return
    plain = [job for job in jobs if training.preparations[job.which] is None]
    if plain:
        held_out = {job.split: HeldOut(training.part(splits[job.split][1]), None) for job in plain}
        rows = {job.split: splits[job.split][0] for job in plain}
        yield from _fitted((training.X, training.y, training.weights), rows, held_out, plain)
    for job in jobs:
        if training.preparations[job.which] is not None:
            (X, y, weights), tested, preparation = training.prepared(splits[job.split], job.which)
            held_out = {job.split: HeldOut(tested, preparation)}
            yield from _fitted((X, y, weights.get("sample_weight")), {}, held_out, [job])


def _fitted(
    samples: tuple[Any, Array, Array | None],
    rows: Mapping[int, Array],
    held_out: Mapping[int, HeldOut],
    jobs: Sequence[Job],
) -> Iterator[list[tuple[Unit, Any]]]:
    """Fit candidates to the training rows of their splits (all samples if none are given); evaluate their test sets."""
    X, y, weights = samples
    shape = tuple(int(size) for size in X.shape[1:])
    units = [(number, one.within(shape), job) for job in jobs for number, one in job.candidates]

    def form(unit: tuple[int, Candidate, Job]) -> str:
        return repr((unit[1].decomposition, unit[1].rank))

    for _, same in groupby(sorted(units, key=form), key=form):
        batch = [unit for unit in same if unit[2].due(*unit[:2])]
        models = [clone(job.template).set_params(**one.parameters) for _, one, job in batch]
        began = perf_counter()
        with without_convergence_warnings():
            fit_many(models, X, y, [rows.get(job.split) for _, _, job in batch], weights)
        seconds = (perf_counter() - began) / max(len(batch), 1)
        yield [
            ((number, job.split), job.take(model, held_out[job.split], seconds))
            for (number, _, job), model in zip(batch, models, strict=True)
        ]
