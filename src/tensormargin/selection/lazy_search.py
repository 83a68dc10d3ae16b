"""The search on a Dask array: all candidates, on all splits, after all preparations, share the reads of the chunks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from math import prod
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone

from ..estimators import TensorMarginClassifier, ToFit, fit_batch, without_convergence_warnings
from ..runtime import Array, computed
from .grid import Candidate
from .race import Unit
from .search import HeldOut, Job, PreparedSplit, Training
from .splits import Split

_Unit = tuple[int, Candidate, Job]


def without_full_if_too_large(
    decompositions: Sequence[str], training: Training, shapes: Sequence[tuple[int, ...]]
) -> Sequence[str]:
    """Return the decompositions that can be fitted to samples in a Dask array; for other samples, all of them.

    A full weight needs the samples, or their inner products, in memory. If these are too large, it is left out with a
    warning; raise ValueError if nothing else is asked for.
    """
    if not training.array.is_lazy or "full" not in decompositions:
        return decompositions
    from ..estimators import coordinates_fit

    if all(coordinates_fit(len(training.y), prod(shape)) for shape in shapes):
        return decompositions
    why = (
        f"a full weight of {len(training.y)} samples with {prod(shapes[0])} entries needs the samples, or their inner "
        "products, in memory, which they would fill"
    )
    others = [name for name in decompositions if name != "full"]
    if not others:
        raise ValueError(f"{why}. Use another decomposition, or fewer samples")
    warnings.warn(f"{why}: it is not among the candidates", stacklevel=4)
    return others


def run_lazily(training: Training, jobs: Sequence[Job], splits: Sequence[Split]) -> Iterator[list[tuple[Unit, Any]]]:
    """Yield the results of the jobs, batch by batch: as many candidates together as the caller's memory allows.

    A preparation is fitted once per split, and the chunks that it transforms are those that all others read.
    """
    from ..estimators import batches

    held_out: dict[tuple[int, int], HeldOut] = {}
    for job in jobs:
        if (job.split, job.which) not in held_out:
            held_out[job.split, job.which] = _held_out(training, splits[job.split], job)
    units = [(number, candidate, job) for job in jobs for number, candidate in job.candidates]
    sizes = [
        prod(held_out[job.split, job.which].tested[0].shape[1:]) * _n_problems(training, one) for _, one, job in units
    ]
    for batch in batches(units, sizes):
        due = [unit for unit in batch if unit[2].due(*unit[:2])]
        if due:
            yield _fitted(training, due, splits, held_out)


def _n_problems(training: Training, candidate: Candidate) -> int:
    n_classes = len(np.unique(training.y))
    return n_classes if candidate.multi_class == "ovr" else n_classes * (n_classes - 1) // 2


def _held_out(training: Training, split: Split, job: Job) -> HeldOut:
    """Return the test set of a split, and after a preparation also its training set."""
    if training.preparations[job.which] is None:
        return HeldOut(training.part(split[1]), None)
    return job.cache.get((job.split, job.which), lambda: PreparedSplit.of(training, split, job.which, job.template))


def _fitted(
    training: Training, units: Sequence[_Unit], splits: Sequence[Split], held_out: dict[tuple[int, int], HeldOut]
) -> list[tuple[Unit, Any]]:
    began = perf_counter()
    tasks = []
    for _, candidate, job in units:
        own = held_out[job.split, job.which]
        shape = tuple(own.tested[0].shape[1:])
        model = clone(job.template).set_params(**candidate.within(shape).parameters)
        if isinstance(own, PreparedSplit):
            fitted = own.fitted
            tasks.append(ToFit(model, fitted.array.X, fitted.labels, None, fitted.weights))
        else:
            tasks.append(ToFit(model, training.X, training.y, splits[job.split][0], training.weights))
    with without_convergence_warnings():
        models = fit_batch(tasks)
    seconds = (perf_counter() - began) / len(units)
    places = [(job.split, job.which) for _, _, job in units]
    scores = _scores(models, places, held_out)
    return [
        ((number, job.split), job.take(model, held_out[place], seconds, own))
        for (number, _, job), model, place, own in zip(units, models, places, scores, strict=True)
    ]


def _scores(
    models: Sequence[TensorMarginClassifier],
    places: Sequence[tuple[int, int]],
    held_out: dict[tuple[int, int], HeldOut],
) -> list[Array]:
    """Return the binary scores of each model on its test set, all of them in one pass over the samples."""
    from ..fitting import LazySamples

    asked = []
    for place in dict.fromkeys(places):
        own = [k for k, other in enumerate(places) if other == place]
        coef = np.concatenate([models[k].coef_ for k in own])
        asked.append((own, LazySamples.of(held_out[place].tested[0]).lazy_scores(coef)))
    answers = computed(*(answer for _, answer in asked))
    scores: dict[int, Array] = {}
    for (own, _), answer in zip(asked, answers, strict=True):
        columns = np.cumsum([len(models[k].coef_) for k in own])[:-1]
        parts = np.split(answer.reshape(len(answer), -1), columns, axis=1)
        scores.update((k, part + models[k].intercept_) for k, part in zip(own, parts, strict=True))
    return [scores[k] for k in range(len(models))]
