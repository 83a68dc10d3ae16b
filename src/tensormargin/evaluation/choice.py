"""The choice of a contender's hyperparameters by cross-validation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.pipeline import Pipeline

from .._typing import Array
from ..cluster import goes_to_cluster
from ..estimators import TensorMarginClassifier
from ..estimators.engine import one_blas_thread
from ..estimators.fit_steps import without_convergence_warnings
from ..samples import sample_array
from ..selection import splits_of
from ..selection.search import PreparedSplit, Training
from .contenders import Contender


@dataclass(frozen=True)
class Tuned:
    """An unfitted estimator with its chosen hyperparameters: its own (lambda, C, components) and the preparation."""

    estimator: Any
    values: dict[str, Any]

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
    groups: Array | None = None,
    n_jobs: int | None = None,
    scoring: str = "accuracy",
) -> Tuned:
    """Choose a contender's hyperparameters by cross-validated score; ties go to the first candidate."""
    if one.n_candidates == 1:
        return choose(one, [])
    return choose(one, candidate_scores(one, X, y, splits_of(folds, y, groups, seed), n_jobs, scoring).T)


def choose(one: Contender, scores: Iterable[Array]) -> Tuned:
    """Return the candidate with the best mean score, given its scores on each split; ties go to the first one.

    A contender with a single candidate needs no scores.
    """
    means = np.zeros(1) if one.n_candidates == 1 else np.mean(np.column_stack(list(scores)), axis=1)
    chosen = one.candidate(int(np.argmax(np.nan_to_num(means, nan=-np.inf))))
    return Tuned(clone(one.estimator).set_params(**chosen), chosen)


def candidate_scores(
    one: Contender,
    X: Array,
    y: Array,
    splits: Sequence[tuple[Array, Array]],
    n_jobs: int | None = None,
    scoring: str = "accuracy",
) -> Array:
    """Return the validation scores of a contender's candidates, one row per candidate and one column per split.

    They are those of scikit-learn's GridSearchCV (NaN where a fit fails, an error if all do), but preparations, and
    whatever else all values of the contender's own hyperparameter share, are computed once per split.
    """
    where = nullcontext() if goes_to_cluster() else parallel_config("threading", n_jobs=n_jobs)
    with without_convergence_warnings(), one_blas_thread, where:  # several fits may run at the same time
        columns = Parallel()(delayed(_scores_on_split)(X, y, *split, one, scoring) for split in splits)
    return np.column_stack(columns)


def single_steps(model: Any) -> list[Any]:
    """Return the steps of a pipeline whose last step may be a pipeline, too, without those that do nothing."""
    if not isinstance(model, Pipeline):
        return [model]
    *front, (_, last) = model.steps
    return [*(step for _, step in front if step not in (None, "passthrough")), *single_steps(last)]


def _scores_on_split(X: Array, y: Array, train: Array, test: Array, one: Contender, scoring: str) -> Array:
    """Return the scores of all candidates on one split."""
    scores = np.full(one.n_candidates, np.nan)
    failure: Exception | None = None
    fitted_after: dict[int, _AfterPreparation] = {}
    for number in range(one.n_candidates):
        chosen = one.candidate(number)
        preparation = id(chosen.pop("preparation", None))
        try:
            if preparation not in fitted_after:
                model = clone(one.estimator).set_params(**one.candidate(number))
                fitted_after[preparation] = _AfterPreparation(single_steps(model), X, y, train, test)
            own = {name.rpartition("__")[2]: value for name, value in chosen.items()}
            scores[number] = fitted_after[preparation].score(own, scoring)
        except (ValueError, ArithmeticError) as error:
            failure = error
    if failure is not None and np.isnan(scores).all():
        raise failure
    return scores


class _AfterPreparation:
    """A split after the steps in front of the last one, which were fitted on the training set."""

    def __init__(self, steps: Sequence[Any], X: Array, y: Array, train: Array, test: Array) -> None:
        *front, self._last = steps
        self._y, self._y_test = y[train], y[test]
        self._X, self._X_test = X[train], X[test]
        for step in front:
            self._X = step.fit_transform(self._X, self._y)
            self._X_test = step.transform(self._X_test)
        self._shared: PreparedSplit | None = None

    def score(self, parameters: dict[str, Any], scoring: str) -> float:
        """Return the score of the last step with these parameters on the test set."""
        model = clone(self._last).set_params(**parameters)
        if isinstance(model, TensorMarginClassifier):
            model._validate_params()
            model = self._split.fit_with(parameters)
        else:
            model.fit(self._X, self._y)
        return float(get_scorer(scoring)(model, self._X_test, self._y_test))

    @property
    def _split(self) -> PreparedSplit:
        """The training set, in a form that shares work between the fits of one method."""
        if self._shared is None:
            training, rows = Training(sample_array(self._X), self._y, None, [None]), np.arange(len(self._y))
            self._shared = PreparedSplit.of(training, (rows, rows[:0]), 0, self._last)
        return self._shared
