"""The choice of a contender's hyperparameters by cross-validation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from sklearn.base import clone
from sklearn.metrics import get_scorer

from ..data import NO_METADATA, Metadata
from ..estimators import TensorMarginClassifier, one_blas_thread, without_convergence_warnings
from ..fitting import sample_array
from ..runtime import Array, Costs, Deadline, goes_to_cluster
from ..selection import PreparedSplit, Training, splits_of
from ..transformers import fit_transformed, transformed
from .contenders import Contender

_LAST = 1.5  # seconds of a fit to all samples, per second of one to those of a split
_FAILURES = (ValueError, ArithmeticError)


@dataclass(frozen=True)
class Tuned:
    """An unfitted estimator with its chosen hyperparameters: its own (lambda, C, components) and the preparation.

    ``cut`` says whether there was no time to try all of them on all splits.
    """

    estimator: Any
    values: dict[str, Any]
    cut: bool = False

    @property
    def value(self) -> Any:
        """The chosen value of the estimator's own hyperparameter, None if it has none."""
        return next((value for name, value in self.values.items() if name != "preparation"), None)


def tuned(
    one: Contender,
    X: Array,
    y: Array,
    folds: int,
    seed: int,
    metadata: Metadata | Array | None = None,
    n_jobs: int | None = None,
    scoring: str = "accuracy",
) -> Tuned:
    """Choose a contender's hyperparameters by cross-validated score; ties go to the first candidate.

    A vector instead of `Metadata` stands for groups.
    """
    if one.n_candidates == 1:
        return choose(one, [])
    metadata = Metadata.of(metadata)
    splits = splits_of(folds, y, metadata.groups, seed)
    return choose(one, candidate_scores(one, X, y, splits, n_jobs, scoring, metadata).T)


def tuned_behind(
    one: Contender,
    preparation: Any,
    X: Array,
    y: Array,
    splits: Sequence[tuple[Array, Array]],
    n_jobs: int | None,
    scoring: str,
    metadata: Metadata,
    deadline: Deadline | None = None,
) -> Tuned:
    """Choose a contender's hyperparameters behind a preparation, None for none.

    Those that have been tried on the most splits before the ``deadline`` are compared; if there is no split on which
    all have been, the middle of them is taken.
    """
    deadline, behind = Deadline.of(deadline), one.behind(preparation)
    scores = candidate_scores(behind, X, y, splits, n_jobs, scoring, metadata, deadline)
    if not deadline.limited or np.isfinite(scores).all():
        return choose(behind, scores.T)
    if not np.isfinite(scores).all(axis=0).any():
        scores = np.eye(behind.n_candidates)[[behind.n_candidates // 2]].T
    return replace(choose(behind, scores.T), cut=True)


def choose(one: Contender, scores: Iterable[Array]) -> Tuned:
    """Return the candidate with the best mean score, given its scores on each split; ties go to the first one.

    A contender with a single candidate needs no scores.
    """
    means = np.zeros(1) if one.n_candidates == 1 else _means(np.column_stack(list(scores)))
    chosen = one.candidate(int(np.argmax(means)))
    return Tuned(clone(one.estimator).set_params(**chosen), chosen)


def _means(scores: Array) -> Array:
    """Return the mean score of each candidate, minus infinity for those that others have more scores than."""
    known = np.isfinite(scores)
    counts = known.sum(axis=1)
    means = np.where(known, scores, 0.0).sum(axis=1) / np.maximum(counts, 1)
    return np.where((counts == counts.max()) & (counts > 0), means, -np.inf)


def candidate_scores(
    one: Contender,
    X: Array,
    y: Array,
    splits: Sequence[tuple[Array, Array]],
    n_jobs: int | None = None,
    scoring: str = "accuracy",
    metadata: Metadata = NO_METADATA,
    deadline: Deadline | None = None,
) -> Array:
    """Return the validation scores of a contender's candidates, one row per candidate and one column per split.

    They are those of scikit-learn's GridSearchCV (NaN where a fit fails, an error if all do), but the steps before the
    last one, and whatever else the candidates share, are computed once per split, and metadata are passed when
    predicting, too. They are NaN, too, for fits that are not expected to end before a ``deadline``.
    """
    time = _Time(Deadline.of(deadline))
    where = nullcontext() if goes_to_cluster() else parallel_config("threading", n_jobs=n_jobs)
    with without_convergence_warnings(), one_blas_thread, where:  # several fits may run at the same time
        columns = Parallel()(delayed(_scores_on_split)(X, y, *split, one, scoring, metadata, time) for split in splits)
    return np.column_stack(columns)


@dataclass
class _Time:
    """Whether there is time for another fit, and for the last one, to all samples, which is after it."""

    deadline: Deadline
    costs: Costs = field(default_factory=Costs)

    def is_left(self) -> bool:
        return not self.deadline.limited or self.deadline.allows((1 + _LAST) * self.costs.of("fit"))

    @contextmanager
    def measured(self) -> Iterator[None]:
        began = self.deadline.now()
        yield
        self.costs.add("fit", self.deadline.now() - began)


def _scores_on_split(
    X: Array, y: Array, train: Array, test: Array, one: Contender, scoring: str, metadata: Metadata, time: _Time
) -> Array:
    """Return the scores of all candidates on one split."""
    scores, scorer, failures = np.full(one.n_candidates, np.nan), get_scorer(scoring), list[Exception]()
    for numbers in one.sharing_steps():
        if not time.is_left():
            break
        try:
            with time.measured():
                front = one.steps_before_last(numbers[0])
                prepared = fit_transformed(front, X[train], y[train], metadata.rows(train))
                tested = transformed(front, X[test], metadata.rows(test))
        except _FAILURES as error:
            failures.append(error)
            continue
        fits = _SharedFits(prepared, y[train])
        for number in numbers:
            if not time.is_left():
                break
            try:
                with time.measured():
                    scores[number] = scorer(fits.of(one.last(number)), tested, y[test])
            except _FAILURES as error:
                failures.append(error)
    if failures and np.isnan(scores).all():
        raise failures[-1]
    return scores


class _SharedFits:
    """Fits to one training set, which share their first passes over it if they are ours."""

    def __init__(self, X: Array, y: Array) -> None:
        self._X, self._y = X, y
        self._split: PreparedSplit | None = None

    def of(self, estimator: Any) -> Any:
        """Return the fitted estimator."""
        if not isinstance(estimator, TensorMarginClassifier):
            return estimator.fit(self._X, self._y)
        estimator._validate_params()
        if self._split is None:
            training, rows = Training(sample_array(self._X), self._y, None, [None]), np.arange(len(self._y))
            self._split = PreparedSplit.of(training, (rows, rows[:0]), 0, estimator)
        return self._split.fit_with(estimator.get_params(deep=False))
