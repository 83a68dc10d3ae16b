"""The fits of a search: candidates on the training sets of the splits."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import groupby
from math import ceil
from threading import Lock
from time import perf_counter
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from ..data import NO_METADATA, Metadata, shape_of, views_or_array
from ..estimators import TensorMarginClassifier, TrainingSet, fit_training_set, training_set
from ..fitting import SampleArray, sample_array
from ..runtime import Array, Costs, Deadline, rows_of, tuning
from ..transformers import fit_transformed, transformed
from .flat import flat_features
from .grid import Candidate
from .inner_products import InnerProducts
from .race import Unit
from .splits import Split

Part = tuple[Any, Array, dict[str, Array]]
"""Samples, their labels, and keyword arguments for `fit` and `score`."""


_LARGEST_JOB = 8  # fits; progress is told of after each job
_REFIT = 1.5  # seconds of a fit to all samples, per second of one to a training set
_UNKNOWN = 4.0  # the same for the first fit after another preparation, per second of the longest fit so far


@dataclass(frozen=True)
class Training:
    """Labelled samples, their weights and metadata, and the alternative preparations."""

    array: SampleArray
    y: Array
    weights: Array | None
    preparations: Sequence[Any]
    metadata: Metadata = NO_METADATA

    @property
    def X(self) -> Any:
        """The original samples."""
        return self.array.X

    @property
    def arrays(self) -> tuple[Any, Array, Array | None, Metadata]:
        """Samples, labels, weights and metadata, as `run_job` takes them."""
        return self.X, self.y, self.weights, self.metadata

    @property
    def content(self) -> tuple[Any, ...]:
        """The same, for checkpoints."""
        return self.X, self.y, self.weights, *self.metadata.content

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
        prepared = views_or_array(fit_transformed(preparation, train[0], train[1], self.metadata.rows(split[0])))
        return (prepared, *train[1:]), self.transformed_part(preparation, split[1]), preparation

    def transformed_part(self, preparation: Any, rows: Array) -> Part:
        """Return the part of these rows after a fitted preparation (None for no preparation)."""
        X, y, weights = self.part(rows)
        X = X if preparation is None else views_or_array(transformed(preparation, X, self.metadata.rows(rows)))
        return X, y, weights

    def prepared_whole(self, which: int) -> tuple[Any, Any]:
        """Return all samples after a preparation fitted to them, and the preparation; the original samples for None."""
        if self.preparations[which] is None:
            return self.X, None  # taking rows would copy the samples
        preparation = clone(self.preparations[which])
        return views_or_array(fit_transformed(preparation, self.X, self.y, self.metadata)), preparation


@dataclass
class HeldOut:
    """The test set of a split after a preparation that was fitted on the training set (None for no preparation)."""

    tested: Part
    preparation: Any


@dataclass
class PreparedSplit(HeldOut):
    """The validated training set of a split, and its test set, after one preparation.

    Everything that all candidates on the split share is computed once: the preparation, the validation of the samples,
    and features for flat weights.

    Attributes
    ----------
    fitted : TrainingSet
    template : TensorMarginClassifier
        An unfitted classifier that has seen the training set's shape.
    """

    fitted: TrainingSet
    template: TensorMarginClassifier
    _flat: Any = None
    _products: InnerProducts | None = None

    @classmethod
    def of(cls, training: Training, split: Split, which: int, template: TensorMarginClassifier) -> PreparedSplit:
        """Return a split of the samples after one of the preparations."""
        (X, y, weights), tested, preparation = training.prepared(split, which)
        own = clone(template)
        return cls(tested, preparation, training_set(own, X, y, weights.get("sample_weight"), for_many=True), own)

    @property
    def nbytes(self) -> int:
        """Size of the samples in memory."""
        arrays = (self.fitted.array, sample_array(self.tested[0]))
        return sum(array.X.nbytes for array in arrays if array.in_memory)

    def fit(self, candidate: Candidate, by_scores: bool) -> tuple[TensorMarginClassifier, Array | None]:
        """Return a candidate fitted to the training set; a rank that is too high for the samples is lowered.

        If only its scores of the test set are needed (``by_scores``), these may come with it, instead of its weights.
        """
        classifier = self._with(candidate.within(self.fitted.array.sample_shape).parameters)
        if by_scores:
            if self._products is None:
                self._products = InnerProducts(self.fitted, self.tested[0], classifier.fit_intercept)
            if self._products.pay(classifier):
                return self._products.fit(classifier)
        return self._fit(classifier), None

    def fit_with(self, parameters: dict[str, Any]) -> TensorMarginClassifier:
        """Return the template with these parameters, which are valid, fitted to the training set."""
        return self._fit(self._with(parameters))

    def _with(self, parameters: dict[str, Any]) -> TensorMarginClassifier:
        classifier = copy(self.template)
        for name, value in parameters.items():
            setattr(classifier, name, value)  # without the checks of `set_params`
        return classifier

    def _fit(self, classifier: TensorMarginClassifier) -> TensorMarginClassifier:
        if self._flat is None:
            self._flat = flat_features(self.fitted.array, classifier.fit_intercept)
        if self._flat.pay(classifier):
            fitted: TensorMarginClassifier = self._flat.fit(classifier, self.fitted)
            return fitted
        return fit_training_set(classifier, self.fitted, for_scoring=True)


@dataclass
class SplitCache:
    """Prepared splits, shared by the jobs of one process as long as they are small; copies of it start empty."""

    _kept: dict[tuple[int, int], PreparedSplit] = field(default_factory=dict)
    _busy: dict[tuple[int, int], Any] = field(default_factory=dict)
    _lock: Any = field(default_factory=Lock)

    def get(self, key: tuple[int, int], prepare: Callable[[], PreparedSplit]) -> PreparedSplit:
        """Return the split and preparation with this key, from the cache or newly prepared."""
        with self._lock:
            busy = self._busy.setdefault(key, Lock())
        with busy:  # others that need the same split wait, those that need another one do not
            if key in self._kept:
                return self._kept[key]
            new = prepare()
            with self._lock:
                if new.nbytes + sum(one.nbytes for one in self._kept.values()) <= tuning.KEPT_SPLITS_BYTES:
                    self._kept[key] = new
            return new

    def __reduce__(self) -> Any:
        return SplitCache, ()


@dataclass(frozen=True)
class Job:
    """Candidates to fit on one split after one preparation.

    ``take`` is called with each fitted classifier, the split, the fit time in seconds and, if they are known already,
    the binary scores of the test set; its result is returned.
    Candidates other than ``always`` are fitted only if they, and a fit to all samples after them, are expected to end
    before the ``deadline``.
    """

    split: int
    which: int
    candidates: Sequence[tuple[int, Candidate]]
    preparations: Sequence[Any]
    template: TensorMarginClassifier
    take: Any
    deadline: Deadline
    always: int
    cache: SplitCache
    costs: Costs

    def due(self, number: int, candidate: Candidate) -> bool:
        """Return whether a candidate is still to be fitted."""
        if number == self.always or not self.deadline.limited:
            return True
        return self.deadline.allows((1 + _REFIT) * (self._prepares + self._fits(candidate)))

    @property
    def _prepares(self) -> float:
        """Seconds that the preparation of a split is expected to take."""
        return self.costs.of(("prepare", self.which))

    def _fits(self, candidate: Candidate) -> float:
        """Return the seconds that a fit is expected to take: those of a similar one, or more than any other."""
        known = self.costs.of(_form(candidate), ("fit", self.which))
        return known or _UNKNOWN * self.costs.of("fit")

    def measured(self, candidate: Candidate, seconds: float) -> None:
        """Take in how long a fit took."""
        for kind in (_form(candidate), ("fit", self.which), "fit"):
            self.costs.add(kind, seconds)


def _form(candidate: Candidate) -> Hashable:
    return candidate.preparation, repr(candidate.decomposition), candidate.multi_class


def jobs_of(
    units: Sequence[Unit], tried: Sequence[Candidate], n_at_once: int, job: Callable[..., Job]
) -> Iterator[Job]:
    """Yield jobs for the units: a few candidates on one split after one preparation."""

    def place(unit: Unit) -> tuple[int, int]:
        return unit[1], tried[unit[0]].preparation

    most = min(_LARGEST_JOB, ceil(len(units) / (10 * n_at_once)))
    for (split, which), same in groupby(sorted(units, key=place), key=place):
        own = [(number, tried[number]) for number, _ in same]
        for start in range(0, len(own), most):
            yield job(split, which, own[start : start + most])


def run_job(
    X: Array, y: Array, weights: Array | None, metadata: Metadata, train: Array, test: Array, job: Job
) -> list[tuple[Unit, Any]]:
    """Fit the candidates of a job and return the results of those that were due.

    The arrays are separate arguments, so that joblib recognises them: the samples are on the cluster, not in each job.
    """
    if not any(job.due(*one) for one in job.candidates):
        return []
    training = Training(sample_array(X), y, weights, job.preparations, metadata)

    def prepare() -> PreparedSplit:
        began = job.deadline.now()
        split = PreparedSplit.of(training, (train, test), job.which, job.template)
        job.costs.add(("prepare", job.which), job.deadline.now() - began)
        return split

    split = job.cache.get((job.split, job.which), prepare)
    results = []
    for number, candidate in job.candidates:
        if job.due(number, candidate):
            began, at = perf_counter(), job.deadline.now()
            classifier, scores = split.fit(candidate, job.take.by_scores)
            results.append(((number, job.split), job.take(classifier, split, perf_counter() - began, scores)))
            job.measured(candidate, job.deadline.now() - at)
    return results


def refit(training: Training, template: TensorMarginClassifier, candidate: Candidate) -> Any:
    """Return a candidate fitted to all samples: a classifier, or a Pipeline with its preparation."""
    weights = {} if training.weights is None else {"sample_weight": training.weights}
    X, preparation = training.prepared_whole(candidate.preparation)
    parameters = candidate.within(shape_of(X)).parameters
    classifier = clone(template).set_params(**parameters).fit(X, training.y, **weights)
    return classifier if preparation is None else Pipeline([("preparation", preparation), ("classifier", classifier)])
