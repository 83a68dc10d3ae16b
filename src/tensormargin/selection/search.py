"""The work of a search: fits along lambda on parts of the samples, and the choice between their scores."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, check_cv

from .._typing import Array
from ..estimators._multiclass import binary_tasks, class_codes
from ..margins import cantelli_bound
from .grid import Path

Split = tuple[Array, Array]

_ORDERS = 10  # in which groups are shuffled before a fold is given up that would leave a class out of training


class Progress(Protocol):
    """Takes the state of a long piece of work."""

    def __call__(self, done: float, total: float, text: str) -> None:
        """Show it."""


@dataclass(frozen=True)
class Training:
    """Labelled samples, their weights and the alternatives of what is done to them before the classifier."""

    X: Array
    y: Array
    weights: Array | None
    preparations: Sequence[Any]

    def part(self, rows: Array) -> tuple[Array, Array, dict[str, Array]]:
        """Return samples, labels and keyword arguments for `fit` and `score` of these rows."""
        weights = {} if self.weights is None else {"sample_weight": self.weights[rows]}
        return self.X[rows], self.y[rows], weights

    def prepared(self, split: Split, which: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return both parts of a split after a preparation, which learns from the first of them only."""
        train, test = (self.part(rows) for rows in split)
        if self.preparations[which] is None:
            return train, test
        preparation = clone(self.preparations[which])
        prepared = preparation.fit_transform(train[0], train[1])
        return (prepared, *train[1:]), (preparation.transform(test[0]), *test[1:])


@dataclass(frozen=True)
class PathScores:
    """Scores and times along lambda of one path on one split."""

    path: int
    split: int
    scores: list[float]
    bounds: list[float]
    fit_seconds: list[float]
    score_seconds: list[float]
    n_parameters: int


def score_path(
    training: Training, template: Any, path: Path, lams: Sequence[float], split: Split, scorer: Callable[..., float]
) -> tuple[list[float], list[float], list[float], list[float], int]:
    """Fit on the first part of the split for every lambda, each fit from the one before; score on the second part."""
    (X, y, weights), (X_test, y_test, test_weights) = training.prepared(split, path.preparation)
    classifier = clone(template).set_params(warm_start=True, n_jobs=1)
    scores, bounds, fit_seconds, score_seconds = [], [], [], []
    for lam in lams:
        classifier.set_params(**path.parameters(lam))
        began = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a model that was tried and not taken says nothing
            classifier.fit(X, y, **weights)
        fitted = perf_counter()
        scores.append(_finite(float(scorer(classifier, X_test, y_test, **test_weights)), y_test))
        fit_seconds.append(fitted - began)
        score_seconds.append(perf_counter() - fitted)
        bounds.append(_margin_bound(classifier, X_test, y_test, **test_weights))
    return scores, bounds, fit_seconds, score_seconds, classifier.n_parameters_


def _margin_bound(classifier: Any, X: Array, y: Array, sample_weight: Array | None = None) -> float:
    """Return Cantelli's bound (Theorem 1) for the margins of the samples, the mean over the binary problems."""
    scores = classifier.binary_scores(X).astype(np.float64)
    tasks = binary_tasks(class_codes(y, classifier.classes_), len(classifier.classes_), classifier.multi_class_)
    bounds = []
    for column, task in enumerate(tasks):
        rows = np.arange(len(y)) if task.rows is None else task.rows
        weights = None if sample_weight is None else sample_weight[rows]
        if len(rows) and (weights is None or weights.sum() > 0):
            bounds.append(cantelli_bound(task.signs * scores[rows, column], weights))
    return float(np.mean(bounds)) if bounds else 1.0


def _finite(score: float, y: Array) -> float:
    if not np.isfinite(score):
        raise ValueError(
            f"scoring must give a finite number for every test part; got {score} for one with the classes "
            f"{np.unique(y).tolist()}. Use another scoring, or folds whose test parts have all classes"
        )
    return score


def run_path(number: int, where: int, *arguments: Any) -> PathScores:
    """Return what `score_path` gives, with the numbers of path and split: results come in any order."""
    return PathScores(number, where, *score_path(*arguments))


def splits_of(cv: Any, y: Array, groups: Array | None, random_state: int) -> list[Split]:
    """Return the splits of a cross-validation.

    A number of folds means stratified folds in random order, which keep groups together where there are groups, and no
    more folds than the smallest class has samples (groups).
    """
    rows = np.zeros(len(y))
    if cv is not None and not isinstance(cv, int | np.integer):
        return list(check_cv(cv, y, classifier=True).split(rows, y, groups))
    smallest = _smallest_class(y, groups)
    folds = min(5 if cv is None else int(cv), smallest)
    if folds < 2:
        kind = "samples" if groups is None else "groups"
        raise ValueError(
            f"cross-validation needs at least 2 folds and 2 {kind} of each class; got cv={cv!r} and a class with "
            f"{smallest}. Leave that class out, or bring more {kind}"
        )
    if groups is None:
        return list(StratifiedKFold(folds, shuffle=True, random_state=random_state).split(rows, y))
    return _group_splits(folds, y, groups, random_state)


def _smallest_class(y: Array, groups: Array | None) -> int:
    if groups is None:
        return int(np.unique(y, return_counts=True)[1].min())
    return min(len(np.unique(groups[y == label])) for label in np.unique(y))


def _group_splits(folds: int, y: Array, groups: Array, seed: int) -> list[Split]:
    """Return stratified folds of groups; of several orders one in which every training part has all classes.

    Where there is none, the splits of the best order that have them.
    """
    n_classes = len(np.unique(y))
    best: list[Split] = []
    for attempt in range(_ORDERS):
        splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=(seed + attempt) % 2**32)
        splits = splitter.split(np.zeros(len(y)), y, groups)
        whole = [(train, test) for train, test in splits if len(np.unique(y[train])) == n_classes and len(test)]
        best = max(best, whole, key=len)
        if len(best) == folds:
            return best
    if not best:
        raise ValueError(
            "the groups cannot be divided so that every training part has all classes; use fewer folds, or groups that "
            "hold more than one class"
        )
    return best


def check_training_parts(splits: list[Split], y: Array) -> None:
    """Raise ValueError where a training part lacks a class, which a given splitter or list of splits may do."""
    classes = np.unique(y)
    for number, (train, _) in enumerate(splits):
        missing = np.setdiff1d(classes, y[train])
        if missing.size:
            raise ValueError(
                f"every training part must have all classes; that of split {number} by cv has no sample of "
                f"{missing.tolist()}. Use other splits, or a number of folds"
            )


def tabulate(
    paths: Sequence[Path], lams: Sequence[float], done: Sequence[PathScores], preparations: Sequence[Any], n_splits: int
) -> dict[str, Any]:
    """Return a ``cv_results_`` as scikit-learn's searches have it, one row for each path and lambda."""
    scores, bounds, fit_seconds, score_seconds = (np.empty((len(paths), len(lams), n_splits)) for _ in range(4))
    n_parameters = np.empty((len(paths), 1), int)
    for one in done:
        scores[one.path, :, one.split] = one.scores
        bounds[one.path, :, one.split] = one.bounds
        fit_seconds[one.path, :, one.split] = one.fit_seconds
        score_seconds[one.path, :, one.split] = one.score_seconds
        n_parameters[one.path] = one.n_parameters
    params = [
        ({"preparation": preparations[path.preparation]} if len(preparations) > 1 else {}) | path.parameters(lam)
        for path in paths
        for lam in lams
    ]
    results: dict[str, Any] = {}
    for name, table in (("fit_time", fit_seconds), ("score_time", score_seconds)):
        rows = table.reshape(-1, n_splits)
        results[f"mean_{name}"], results[f"std_{name}"] = rows.mean(axis=1), rows.std(axis=1)
    for name in params[0]:
        column = np.empty(len(params), dtype=object)
        for row, parameters in enumerate(params):
            column[row] = parameters[name]
        results[f"param_{name}"] = np.ma.masked_array(column, mask=False)
    results["params"] = params
    by_split = scores.reshape(-1, n_splits)
    results.update({f"split{k}_test_score": by_split[:, k] for k in range(n_splits)})
    results["mean_test_score"], results["std_test_score"] = by_split.mean(axis=1), by_split.std(axis=1)
    results["rank_test_score"] = rankdata(-results["mean_test_score"], method="min").astype(np.int32)
    results["mean_margin_bound"] = bounds.reshape(-1, n_splits).mean(axis=1)
    results["n_parameters"] = np.repeat(n_parameters[:, 0], len(lams))
    return results


def choose(results: dict[str, Any], n_splits: int, rule: str) -> int:
    """Return the row to take.

    "best" is the best mean score, and of equals the one with fewest parameters. The others look at all rows whose mean
    is at most one standard error of the best row's below it: "simplest" takes the one with fewest parameters, "margins"
    the one with the smallest `mean_margin_bound`. On few samples the accuracy takes few values; margins tell more.
    """
    means = results["mean_test_score"]
    best = int(np.argmax(means))
    slack = 0.0 if rule == "best" else results["std_test_score"][best] / np.sqrt(max(n_splits - 1, 1))
    eligible = np.flatnonzero(means >= means[best] - slack - 1e-12)
    sizes = results["n_parameters"][eligible]
    keys = (eligible, sizes, results["mean_margin_bound"][eligible]) if rule == "margins" else (eligible, sizes)
    return int(eligible[np.lexsort(keys)[0]])


def out_of_fold(
    training: Training, which: int, classifier: Any, splits: Sequence[Split], n_jobs: int | None
) -> Iterator[tuple[Array, Array]]:
    """Yield rows and the binary scores that a classifier fitted without them gives them."""
    for split in splits:
        (X, y, weights), (X_test, _, _) = training.prepared(split, which)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = clone(classifier).set_params(n_jobs=n_jobs).fit(X, y, **weights)
        yield split[1], fitted.binary_scores(X_test)
