"""The samples of a search: prepared training and test sets of the splits, and which preparations a budget allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from ..data import NO_METADATA, Metadata, Views, shape_of, views_or_array
from ..estimators import TensorMarginClassifier, TrainingSet, fit_training_set, training_set
from ..fitting import SampleArray, sample_array
from ..runtime import Array, Deadline, ForkSafeLock, rows_of, tuning
from ..transformers import fit_transformed, transformed
from .grid import Candidate
from .inner_products import InnerProducts, kept_products
from .splits import Split

Part = tuple[Any, Array, dict[str, Array]]
"""Samples, their labels, and keyword arguments for `fit` and `score`."""
Place = tuple[int, int]
"""Numbers of a split and of a preparation."""

_TRIAL = 16  # samples that every preparation is timed on
_TRIALS = 0.1  # share of the time left that these trials may take
_PREPARING = 0.4  # share of the time left for the preparation of all splits, so that something remains for the fits
_COMPILES = 0.1  # seconds of a trial from which it is repeated, since the first one may have compiled something


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
    and inner products for flat weights. The ``template`` is an unfitted classifier that has seen the shape of samples.
    """

    fitted: TrainingSet
    template: TensorMarginClassifier
    key: str | None = None  # of what others may need, too (`kept_products`)
    _products: InnerProducts | None = None

    @classmethod
    def of(cls, training: Training, split: Split, which: int, template: TensorMarginClassifier) -> PreparedSplit:
        """Return a split of the samples after one of the preparations."""
        (X, y, weights), tested, preparation = training.prepared(split, which)
        own = copy(template)
        several = isinstance(X, Views)  # the products of one tensor are not kept, and a key takes time
        key = kept_products.key(training, split, training.preparations[which]) if several else None
        return cls(tested, preparation, training_set(own, X, y, weights.get("sample_weight"), for_many=True), own, key)

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
                self._products = InnerProducts(self.fitted, self.tested[0], self.template)
            solved = self._products.fit(classifier) if self._products.is_worthwhile(classifier) else None
            if solved is not None:
                kept_products.add(self.key, self._products)
                return solved
        return fit_training_set(classifier, self.fitted, for_scoring=True), None

    def fit_with(self, parameters: dict[str, Any]) -> TensorMarginClassifier:
        """Return the template with these parameters, which are valid, fitted to the training set."""
        return fit_training_set(self._with(parameters), self.fitted, for_scoring=True)

    def _with(self, parameters: dict[str, Any]) -> TensorMarginClassifier:
        classifier = copy(self.template)
        for name, value in parameters.items():
            setattr(classifier, name, value)  # without the checks of `set_params`
        return classifier


@dataclass
class SplitCache:
    """Prepared splits, shared by the jobs of one process as long as they are small; copies of it start empty."""

    _kept: dict[Place, PreparedSplit] = field(default_factory=dict)
    _busy: dict[Place, Any] = field(default_factory=dict)
    _lock: Any = field(default_factory=ForkSafeLock)

    def get(self, key: Place, prepare: Callable[[], PreparedSplit]) -> PreparedSplit:
        """Return the split and preparation with this key, from the cache or newly prepared."""
        with self._lock:
            busy = self._busy.setdefault(key, ForkSafeLock())
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


def refit(training: Training, template: TensorMarginClassifier, candidate: Candidate) -> Any:
    """Return a candidate fitted to all samples: a classifier, or a Pipeline with its preparation."""
    weights = {} if training.weights is None else {"sample_weight": training.weights}
    X, preparation = training.prepared_whole(candidate.preparation)
    parameters = candidate.within(shape_of(X)).parameters
    classifier = clone(template).set_params(**parameters).fit(X, training.y, **weights)
    return classifier if preparation is None else Pipeline([("preparation", preparation), ("classifier", classifier)])


def affordable(training: Training, n_splits: int, deadline: Deadline) -> list[int]:
    """Return the numbers of the alternative preparations that a deadline allows on all splits, the cheapest first.

    Each is timed on a few samples. There is always at least one of them.
    """
    number = len(training.preparations)
    if number == 1 or not deadline.limited or training.array.is_lazy:
        return list(range(number))
    seconds = _trial_seconds(training, deadline)
    times = len(training.y) / min(_TRIAL, len(training.y)) * (n_splits + 1)
    order = sorted(seconds, key=lambda which: (seconds[which], which))
    fits = times * np.cumsum([seconds[which] for which in order]) <= _PREPARING * deadline.left
    return order[: max(int(np.argmin([*fits, False])), 1)]


def _trial_seconds(training: Training, deadline: Deadline) -> dict[int, float]:
    """Return what each preparation takes for a few samples, by its number, if there is time to try it.

    They are those of an earlier search with the same deadline if there was one.
    """
    shape, costs = repr(shape_of(training.X)), deadline.costs
    rows = _some_of_each_class(training.y)
    few = replace(
        training,
        array=sample_array(rows_of(training.X, rows)),
        y=training.y[rows],
        weights=None,
        metadata=training.metadata.rows(rows),
    )
    seconds: dict[int, float] = {}
    within = deadline.part(_TRIALS)
    for which, one in enumerate(training.preparations):
        key = ("trial", shape, which)
        if one is not None and key not in costs and ("trials", shape) not in costs and (within.allows() or not seconds):
            costs.add(key, _seconds_of(one, few, deadline))
        if one is None or key in costs:
            seconds[which] = costs.of(key)
    costs.add(("trials", shape), 0.0)
    return seconds


def _seconds_of(preparation: Any, few: Training, deadline: Deadline) -> float:
    """Return the seconds of a preparation; 0 if it fails, so that it fails, or not, where it is needed."""
    taken = 0.0
    for _ in range(2):
        began = deadline.now()
        try:
            fit_transformed(clone(preparation), few.X, few.y, few.metadata)
        except (ValueError, ArithmeticError):
            return 0.0
        taken = deadline.now() - began
        if taken < _COMPILES:
            break
    return taken


def _some_of_each_class(y: Array) -> Array:
    """Return the rows of a few samples, the same number of each class as far as possible."""
    _, codes = np.unique(y, return_inverse=True)
    place = np.empty(len(y), int)
    for code in range(codes.max() + 1):
        own = np.flatnonzero(codes == code)
        place[own] = np.arange(len(own))
    return np.sort(np.argsort(place, kind="stable")[:_TRIAL])
