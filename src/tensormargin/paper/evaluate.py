"""Jobs of the workers: score candidate lambda and mu on validation data, or fit and test pairs of classes.

Every job runs on one thread, so that its results do not depend on the number of parallel jobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.utils import Bunch
from threadpoolctl import threadpool_limits

from ..estimators import METHODS, SCALE_LAM, SCALE_MU, TensorMarginClassifier, make_method
from ..evaluation import timed_fit
from ..runtime import Array
from .protocols import Evaluation, Pair, Where, inner_splits, load_once, seed_of
from .rows import CellKey, Row, TuningRow, versions_text


@dataclass(frozen=True)
class Strengths:
    """Values of lambda and of mu1 = mu2."""

    lam: float
    mu: float


@dataclass(frozen=True)
class EvaluationJob:
    """Pairs of one cell: to fit with the chosen strengths or, if ``chosen`` is None, to score all candidates."""

    evaluation: Evaluation
    cell: CellKey
    pairs: tuple[Pair, ...]
    chosen: Strengths | None = None


def has_margin_terms(method: str) -> bool:
    """Return whether a method has the margin terms of mu1 and mu2."""
    return METHODS[method].get("mu1", 1.0) > 0


def run_job(job: EvaluationJob, sent: Bunch | None = None) -> list[Any]:
    """Return the job's rows: `TuningRow` without chosen strengths, `Row` with them.

    The data set is loaded unless it is sent with the job.
    """
    with threadpool_limits(1):
        bunch = load_once(job.evaluation.load) if sent is None else sent
        cell = job.cell
        train, test = job.evaluation.split(bunch, Where(cell.size, cell.repeat, cell.fold, cell.seed))
        if job.chosen is None:
            return [row for pair in job.pairs for row in _tune(job, bunch, train, pair)]
        return [_score(job, bunch, train, test, pair, job.chosen) for pair in job.pairs]


def _classifier(job: EvaluationJob, strengths: Strengths, **parameters: Any) -> TensorMarginClassifier:
    evaluation, method = job.evaluation, job.cell.method
    if evaluation.tucker_rank is not None and _is_tucker(method):
        parameters["rank"] = evaluation.tucker_rank
    parameters["random_state"] = seed_of(job.cell.seed, "start")
    return make_method(method, **parameters).set_params(**_strength_parameters(job, strengths))


def _strength_parameters(job: EvaluationJob, strengths: Strengths) -> dict[str, Any]:
    mu = strengths.mu
    if not job.evaluation.grid.relative:
        return {"lam": strengths.lam, "mu1": mu, "mu2": mu, "scale_free": False}
    return {"lam": strengths.lam / SCALE_LAM, "mu1": mu / SCALE_MU, "mu2": mu / SCALE_MU}


def _is_tucker(method: str) -> bool:
    return METHODS[method]["decomposition"] == "tucker"


def _samples(job: EvaluationJob, bunch: Bunch, rows: Array) -> Array:
    """Return the method's samples: float32, divided by ``divisor``, reshaped for Tucker weights if requested."""
    samples = bunch.data[rows].astype(np.float32)
    if job.evaluation.divisor != 1.0:
        samples /= np.float32(job.evaluation.divisor)
    shape = job.evaluation.tucker_shape
    return samples.reshape(-1, *shape) if shape is not None and _is_tucker(job.cell.method) else samples


def _of_pair(bunch: Bunch, rows: Array, pair: Pair) -> Array:
    return rows[np.isin(bunch.target[rows], pair)]


def _tune(job: EvaluationJob, bunch: Bunch, train: Array, pair: Pair) -> Iterator[TuningRow]:
    """Score every candidate of the grid on validation sets taken from the training data.

    Along lambda, each fit is a warm start from the previous one.
    """
    rows = _of_pair(bunch, train, pair)
    labels = bunch.target[rows]
    groups, positions = (None if bunch.get(name) is None else bunch[name][rows] for name in ("groups", "positions"))
    samples = _samples(job, bunch, rows)
    seed = seed_of(job.cell.seed, "validation", job.cell.size, job.cell.repeat, job.cell.fold, pair)
    splits = inner_splits(job.evaluation.validation, labels, groups, positions, seed)
    grid = job.evaluation.grid
    for mu in grid.mus if has_margin_terms(job.cell.method) else (0.0,):
        correct, seconds = np.zeros(len(grid.lams), int), np.zeros(len(grid.lams))
        for inner, validation in splits:
            classifier = _classifier(job, Strengths(grid.lams[0], mu), warm_start=True)
            inner_samples, validation_samples = samples[inner], samples[validation]
            for position, lam in enumerate(grid.lams):
                classifier.set_params(**_strength_parameters(job, Strengths(lam, mu)))
                fit = timed_fit(classifier, inner_samples, labels[inner])
                seconds[position] += fit.seconds
                correct[position] += np.sum(classifier.predict(validation_samples) == labels[validation])
        tested = sum(len(validation) for _, validation in splits)
        for lam, right, spent in zip(grid.lams, correct, seconds, strict=True):
            yield TuningRow.of(
                job.cell, pair, lam=lam, mu=mu, n_correct=int(right), n_tested=tested, seconds=float(spent)
            )


def _score(job: EvaluationJob, bunch: Bunch, train: Array, test: Array, pair: Pair, chosen: Strengths) -> Row:
    """Fit on the pair's whole training set and return the result on its test set."""
    train, test = _of_pair(bunch, train, pair), _of_pair(bunch, test, pair)
    samples, labels = _samples(job, bunch, train), bunch.target[train]
    fit = timed_fit(_classifier(job, chosen), samples, labels)
    samples = _samples(job, bunch, test)
    began = perf_counter()
    predicted = fit.classifier.predict(samples)
    predict_seconds = perf_counter() - began
    n_correct = int(np.sum(predicted == bunch.target[test]))
    return Row.of(
        job.cell,
        pair,
        n_train=len(train),
        n_test=len(test),
        n_correct=n_correct,
        accuracy=n_correct / len(test),
        lam=chosen.lam,
        mu=chosen.mu,
        relative=job.evaluation.grid.relative,
        fit_seconds=fit.seconds,
        predict_seconds=predict_seconds,
        sweeps=int(fit.classifier.n_iter_),
        gap=float(np.max(fit.classifier.history_["gap"][-1])),
        objective=float(fit.classifier.objective_[0]),
        converged=fit.converged,
        n_parameters=int(fit.classifier.n_parameters_),
        versions=versions_text(),
    )
