"""The search on a device, which fits all values of lambda on all folds as one batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from time import perf_counter

from ..estimators import fit_many
from ..estimators.fit_steps import without_convergence_warnings
from .search import PathJob, PathResults, Training, models_along, run_path
from .splits import Split


def run_batched(training: Training, jobs: Sequence[PathJob], splits: Sequence[Split]) -> Iterator[PathResults]:
    """Yield the results of the jobs; jobs of one path are fitted together unless a preparation is fitted per fold."""
    for _, of_path in groupby(jobs, key=lambda job: job.number):
        same = list(of_path)
        if training.preparations[same[0].path.preparation] is None:
            yield from _run_folds(training, same, splits)
        else:
            for job in same:
                yield run_path(*training.arrays, *splits[job.split], job)


def _run_folds(training: Training, jobs: Sequence[PathJob], splits: Sequence[Split]) -> Iterator[PathResults]:
    """Fit every lambda on the training rows of every split at once, then evaluate the test rows."""
    models = [models_along(job.template, job.path, job.lams) for job in jobs]
    rows = [splits[job.split][0] for job in jobs for _ in job.lams]
    weights = {} if training.weights is None else {"sample_weight": training.weights}
    began = perf_counter()
    with without_convergence_warnings():
        fit_many([one for of_job in models for one in of_job], training.X, training.y, rows, **weights)
    seconds = (perf_counter() - began) / len(rows)
    for job, of_job in zip(jobs, models, strict=True):
        tested = training.part(splits[job.split][1])
        yield PathResults(job.number, job.split, [job.take(one, tested, seconds) for one in of_job])
