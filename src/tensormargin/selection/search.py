"""The fits of a search, along lambda on each split."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from .._namespace import as_array, rows_of, to_host
from .._typing import Array
from ..estimators import TensorMarginClassifier, fit_many
from ..estimators.fit_steps import without_convergence_warnings
from ..samples import SampleArray, sample_array
from .grid import LambdaPath
from .splits import Split

Part = tuple[Any, Array, dict[str, Array]]
"""Samples, their labels, and keyword arguments for `fit` and `score`."""


@dataclass(frozen=True)
class Training:
    """Labelled samples, their weights and the alternative preparations."""

    array: SampleArray
    y: Array
    weights: Array | None
    preparations: Sequence[Any]

    @property
    def X(self) -> Any:
        """The original samples."""
        return self.array.X

    def part(self, rows: Array) -> Part:
        """Return the samples, labels and keyword arguments for `fit` and `score` of these rows."""
        weights = {} if self.weights is None else {"sample_weight": self.weights[rows]}
        return rows_of(self.X, rows), self.y[rows], weights

    def prepared(self, split: Split, which: int) -> tuple[Part, Part, Any]:
        """Return the prepared training and test set of a split, and the preparation, fitted on the training set."""
        train, test = (self.part(rows) for rows in split)
        if self.preparations[which] is None:
            return train, test, None
        preparation = clone(self.preparations[which])
        prepared = as_array(preparation.fit_transform(train[0], train[1]))  # which may be set to give data frames
        return (prepared, *train[1:]), (as_array(preparation.transform(test[0])), *test[1:]), preparation


@dataclass(frozen=True)
class PathResults:
    """The results of the fits along lambda, for one path on one split.

    ``preparation`` is the fitted preparation, if it is needed to score the test rows later.
    """

    path: int
    split: int
    results: list[Any]
    preparation: Any = None


@dataclass(frozen=True)
class PathJob:
    """A path to fit on one split, with the indices of both, since results arrive in any order.

    ``take`` is called for each lambda with the fitted classifier, the test set and the fit time in seconds.
    """

    number: int
    split: int
    preparations: Sequence[Any]
    template: TensorMarginClassifier
    path: LambdaPath
    lams: Sequence[float]
    take: Callable[[TensorMarginClassifier, Part, float], Any]


def follow(
    template: TensorMarginClassifier,
    path: LambdaPath,
    lams: Sequence[float],
    X: Any,
    y: Array,
    weights: dict[str, Array],
) -> Iterator[tuple[TensorMarginClassifier, float]]:
    """Fit a path for each lambda in turn; yield the fitted classifiers and the fit times in seconds.

    Search, calibration and refit all use this function, so that the scored model is the one that is refitted. Each fit
    is warm-started from the one before; on a device all are fitted from scratch as one batch instead. A rank that is
    too high for these samples is lowered.
    """
    path = path.within(tuple(X.shape[1:]))
    if sample_array(X).fits_in_batches:
        models = models_along(template, path, lams)
        began = perf_counter()
        fit_many(models, X, y, None, **weights)
        seconds = (perf_counter() - began) / len(models)
        yield from ((model, seconds) for model in models)
        return
    classifier = clone(template).set_params(warm_start=True)
    for lam in lams:
        began = perf_counter()
        classifier.set_params(**path.parameters(lam)).fit(X, y, **weights)
        yield copy(classifier).set_params(warm_start=template.warm_start), perf_counter() - began


def models_along(
    template: TensorMarginClassifier, path: LambdaPath, lams: Sequence[float]
) -> list[TensorMarginClassifier]:
    """Return one unfitted classifier per lambda."""
    return [clone(template).set_params(**path.parameters(lam)) for lam in lams]


def lams_up_to(place: int, lams: Sequence[float], array: SampleArray) -> Sequence[float]:
    """Return the values of lambda to fit to obtain the one at ``place``, which is the last one."""
    return lams[place : place + 1] if array.fits_in_batches else lams[: place + 1]


def run_path(X: Array, y: Array, weights: Array | None, train: Array, test: Array, job: PathJob) -> PathResults:
    """Fit a path on the training rows and return the job's results for each fit on the test rows.

    The arrays are separate arguments, so that joblib recognises them: a cluster holds the samples, a job does not.
    """
    training = Training(sample_array(X), y, weights, job.preparations)
    fitted, tested, preparation = training.prepared((train, test), job.path.preparation)
    with without_convergence_warnings():
        fits = follow(job.template, job.path, job.lams, *fitted)
        results = [job.take(model, tested, seconds) for model, seconds in fits]
    needed = any(getattr(result, "waits", False) for result in results)
    return PathResults(job.number, job.split, results, preparation if needed else None)


def refit(training: Training, template: TensorMarginClassifier, path: LambdaPath, lams: Sequence[float]) -> Any:
    """Return the model for the last lambda, fitted to all samples: a classifier, or a Pipeline with its preparation."""
    X, y = training.X, training.y  # no indexing, which would copy the samples
    weights = {} if training.weights is None else {"sample_weight": training.weights}
    preparation = training.preparations[path.preparation]
    if preparation is not None:
        preparation = clone(preparation)
        X = as_array(preparation.fit_transform(X, y))
    fits = follow(template, path, lams, X, y, weights)
    with without_convergence_warnings():
        for _ in lams[:-1]:
            next(fits)
    classifier, _ = next(fits)  # the final fit may warn
    return classifier if preparation is None else Pipeline([("preparation", preparation), ("classifier", classifier)])


def left_out_scores(classifier: TensorMarginClassifier, tested: Part, fit_seconds: float) -> Array:
    """Return the binary scores of a fitted classifier on held-out samples."""
    return to_host(classifier.binary_scores(tested[0]))
