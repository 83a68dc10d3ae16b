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
from ..model_steps import fit_transformed, transformed
from ..samples import SampleArray, sample_array
from .grid import LambdaPath
from .splits import Split

Part = tuple[Any, Array, dict[str, Array]]
"""Samples, their labels, and keyword arguments for `fit` and `score`."""


@dataclass(frozen=True)
class Training:
    """Labelled samples, their weights and groups, and the alternative preparations."""

    array: SampleArray
    y: Array
    weights: Array | None
    preparations: Sequence[Any]
    groups: Array | None = None

    @property
    def X(self) -> Any:
        """The original samples."""
        return self.array.X

    @property
    def arrays(self) -> tuple[Any, Array, Array | None, Array | None]:
        """Samples, labels, weights and groups, as `run_path` takes them."""
        return self.X, self.y, self.weights, self.groups

    def part(self, rows: Array) -> Part:
        """Return the samples, labels and keyword arguments for `fit` and `score` of these rows."""
        weights = {} if self.weights is None else {"sample_weight": self.weights[rows]}
        return rows_of(self.X, rows), self.y[rows], weights

    def prepared(self, split: Split, which: int) -> tuple[Part, Part, Any]:
        """Return the prepared training and test set of a split, and the preparation, fitted on the training set."""
        train = self.part(split[0])
        if self.preparations[which] is None:
            return train, self.part(split[1]), None
        preparation = clone(self.preparations[which])
        prepared = as_array(fit_transformed(preparation, train[0], train[1], self.groups_of(split[0])))
        return (prepared, *train[1:]), self.transformed_part(preparation, split[1]), preparation

    def transformed_part(self, preparation: Any, rows: Array) -> Part:
        """Return the part of these rows after a fitted preparation (None for no preparation)."""
        X, y, weights = self.part(rows)
        X = X if preparation is None else as_array(transformed(preparation, X, self.groups_of(rows)))
        return X, y, weights

    def groups_of(self, rows: Array) -> Array | None:
        """Return the groups of these rows, or None if there are no groups."""
        return None if self.groups is None else self.groups[rows]

    def prepared_whole(self, which: int) -> tuple[Any, Any]:
        """Return all samples after a preparation fitted to them, and the preparation; the original samples for None."""
        if self.preparations[which] is None:
            return self.X, None  # taking rows would copy the samples
        preparation = clone(self.preparations[which])
        return as_array(fit_transformed(preparation, self.X, self.y, self.groups)), preparation


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


def run_path(
    X: Array, y: Array, weights: Array | None, groups: Array | None, train: Array, test: Array, job: PathJob
) -> PathResults:
    """Fit a path on the training rows and return the job's results for each fit on the test rows.

    The arrays are separate arguments, so that joblib recognises them: the samples are on the cluster, not in each job.
    """
    training = Training(sample_array(X), y, weights, job.preparations, groups)
    fitted, tested, preparation = training.prepared((train, test), job.path.preparation)
    with without_convergence_warnings():
        fits = follow(job.template, job.path, job.lams, *fitted)
        results = [job.take(model, tested, seconds) for model, seconds in fits]
    needed = any(getattr(result, "waits", False) for result in results)
    return PathResults(job.number, job.split, results, preparation if needed else None)


def refit(training: Training, template: TensorMarginClassifier, path: LambdaPath, lams: Sequence[float]) -> Any:
    """Return the model for the last lambda, fitted to all samples: a classifier, or a Pipeline with its preparation."""
    weights = {} if training.weights is None else {"sample_weight": training.weights}
    X, preparation = training.prepared_whole(path.preparation)
    fits = follow(template, path, lams, X, training.y, weights)
    with without_convergence_warnings():
        for _ in lams[:-1]:
            next(fits)
    classifier, _ = next(fits)  # the final fit may warn
    return classifier if preparation is None else Pipeline([("preparation", preparation), ("classifier", classifier)])


def left_out_scores(classifier: TensorMarginClassifier, tested: Part, fit_seconds: float) -> Array:
    """Return the binary scores of a fitted classifier on held-out samples."""
    return to_host(classifier.binary_scores(tested[0]))
