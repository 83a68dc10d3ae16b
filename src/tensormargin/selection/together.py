"""The search on a device: all values of lambda on all folds as one batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from time import perf_counter
from typing import Any

from sklearn.base import clone

from .._typing import Array
from ..estimators import TensorMarginClassifier, fit_many
from .search import PathJob, PathScores, Split, Training, assess, unfinished_fits_are_fine


def run_together(training: Training, jobs: Sequence[PathJob], splits: Sequence[Split]) -> Iterator[PathScores]:
    """Yield the results of the jobs: those of one path together, unless a preparation differs from fold to fold."""
    for _, of_path in groupby(jobs, key=lambda job: job.number):
        same = list(of_path)
        if training.preparations[same[0].path.preparation] is None:
            yield from _run_folds(training, same, splits)
        else:
            for job in same:
                yield _run_prepared(training, job, splits[job.split])


def _run_folds(training: Training, jobs: Sequence[PathJob], splits: Sequence[Split]) -> Iterator[PathScores]:
    """Fit every lambda on the training rows of every split at once; then score."""
    models = [_models(job) for job in jobs]
    rows = [splits[job.split][0] for job in jobs for _ in job.lams]
    weights = {} if training.weights is None else {"sample_weight": training.weights}
    seconds = _fit([one for of_job in models for one in of_job], training.X, training.y, rows, **weights)
    for job, of_job in zip(jobs, models, strict=True):
        tested = training.part(splits[job.split][1])
        yield PathScores(job.number, job.split, [assess(one, tested, job.scorer, seconds) for one in of_job])


def _run_prepared(training: Training, job: PathJob, split: Split) -> PathScores:
    """Fit every lambda on the prepared training part of a split at once; then score."""
    (X, y, weights), tested = training.prepared(split, job.path.preparation)
    models = _models(job)
    seconds = _fit(models, X, y, None, **weights)
    return PathScores(job.number, job.split, [assess(one, tested, job.scorer, seconds) for one in models])


def _models(job: PathJob) -> list[TensorMarginClassifier]:
    return [clone(job.template).set_params(**job.path.parameters(lam)) for lam in job.lams]


def _fit(models: list[TensorMarginClassifier], X: Any, y: Array, rows: list[Array] | None, **weights: Array) -> float:
    """Fit the models as one batch; return each one's share of the time."""
    began = perf_counter()
    with unfinished_fits_are_fine():
        fit_many(models, X, y, rows, **weights)
    return (perf_counter() - began) / len(models)
