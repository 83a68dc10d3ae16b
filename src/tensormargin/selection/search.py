"""The work of a search: fits along lambda on parts of the samples, and the choice between their scores."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, check_cv
from sklearn.pipeline import Pipeline

from .._namespace import is_foreign, rows_of, to_host
from .._typing import Array
from ..estimators import TensorMarginClassifier, fit_many
from ..formats.base import Rank
from .grid import Path

Split = tuple[Array, Array]
Part = tuple[Any, Array, dict[str, Array]]
"""Samples, their labels, and keyword arguments for `fit` and `score`."""

_ORDERS = 10  # in which groups are shuffled before a fold is given up that would leave a class out of training


class Progress(Protocol):
    """Takes the state of a long piece of work."""

    def __call__(self, done: float, total: float, text: str) -> None:
        """Show it."""


@dataclass(frozen=True)
class Training:
    """Labelled samples, their weights and the alternatives of what is done to them before the classifier."""

    X: Any
    y: Array
    weights: Array | None
    preparations: Sequence[Any]

    def part(self, rows: Array) -> Part:
        """Return samples, labels and keyword arguments for `fit` and `score` of these rows."""
        weights = {} if self.weights is None else {"sample_weight": self.weights[rows]}
        return rows_of(self.X, rows), self.y[rows], weights

    def prepared(self, split: Split, which: int) -> tuple[Part, Part, Any]:
        """Return both parts of a split after a preparation, which learns from the first of them only, and it."""
        train, test = (self.part(rows) for rows in split)
        if self.preparations[which] is None:
            return train, test, None
        preparation = clone(self.preparations[which])
        prepared = preparation.fit_transform(train[0], train[1])
        return (prepared, *train[1:]), (preparation.transform(test[0]), *test[1:]), preparation


@dataclass(frozen=True)
class PathResults:
    """What was taken of each fit along lambda, for one path on one split.

    ``preparation`` is the fitted one, if there is one and it is needed to score the test rows later.
    """

    path: int
    split: int
    results: list[Any]
    preparation: Any = None


@dataclass(frozen=True)
class PathJob:
    """What to fit on one split: a path, its number and the split's (results come in any order).

    ``take`` is called for each lambda with the fitted classifier, the test part and the seconds of the fit.
    """

    number: int
    split: int
    preparations: Sequence[Any]
    template: TensorMarginClassifier
    path: Path
    lams: Sequence[float]
    take: Callable[[TensorMarginClassifier, Part, float], Any]


def follow(
    template: TensorMarginClassifier, path: Path, lams: Sequence[float], X: Any, y: Array, weights: dict[str, Array]
) -> Iterator[tuple[TensorMarginClassifier, float]]:
    """Fit a path for each lambda in turn; yield the fitted classifiers and the seconds of each fit.

    Search, calibration and refit all fit this way, so that what is scored is what is refitted. Each fit starts from the
    one before; on a device all are fitted as one batch instead, each from scratch. A rank that is too high for these
    samples is lowered.
    """
    path = path.within(tuple(X.shape[1:]))
    if is_foreign(X):
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


def models_along(template: TensorMarginClassifier, path: Path, lams: Sequence[float]) -> list[TensorMarginClassifier]:
    """Return an unfitted classifier for each lambda."""
    return [clone(template).set_params(**path.parameters(lam)) for lam in lams]


def lams_up_to(place: int, lams: Sequence[float], X: Any) -> Sequence[float]:
    """Return the values of lambda to fit in order to get the one at ``place``, which comes last."""
    return lams[place : place + 1] if is_foreign(X) else lams[: place + 1]


def run_path(X: Array, y: Array, weights: Array | None, train: Array, test: Array, job: PathJob) -> PathResults:
    """Follow a path on the training rows, and take what the job asks for of each fit and the test rows.

    The arrays are arguments of their own, so that joblib finds them: a cluster has the samples, and a job has not.
    """
    training = Training(X, y, weights, job.preparations)
    fitted, tested, preparation = training.prepared((train, test), job.path.preparation)
    with unfinished_fits_are_fine():
        fits = follow(job.template, job.path, job.lams, *fitted)
        results = [job.take(model, tested, seconds) for model, seconds in fits]
    needed = any(getattr(result, "waits", False) for result in results)
    return PathResults(job.number, job.split, results, preparation if needed else None)


def refit(training: Training, template: TensorMarginClassifier, path: Path, lams: Sequence[float]) -> Any:
    """Return the model of the last lambda, fitted to all samples: a classifier, or a Pipeline with its preparation."""
    X, y = training.X, training.y  # all of them as they lie: taking rows would copy the samples
    weights = {} if training.weights is None else {"sample_weight": training.weights}
    preparation = training.preparations[path.preparation]
    if preparation is not None:
        preparation = clone(preparation)
        X = preparation.fit_transform(X, y)
    fits = follow(template, path, lams, X, y, weights)
    with unfinished_fits_are_fine():
        for _ in lams[:-1]:
            next(fits)
    classifier, _ = next(fits)  # the one that is kept may warn
    return classifier if preparation is None else Pipeline([("preparation", preparation), ("classifier", classifier)])


def unfinished_fits_are_fine() -> Any:
    """Return a context without warnings of convergence: a model that was tried and not taken says nothing."""
    return warnings.catch_warnings(action="ignore", category=ConvergenceWarning)


def left_out_scores(classifier: TensorMarginClassifier, tested: Part, fit_seconds: float) -> Array:
    """Return the binary scores that a fitted classifier gives samples that were left out."""
    return to_host(classifier.binary_scores(tested[0]))


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
    paths: Sequence[Path],
    lams: Sequence[float],
    done: Sequence[PathResults],
    preparations: Sequence[Any],
    n_splits: int,
) -> dict[str, Any]:
    """Return a ``cv_results_`` as scikit-learn's searches have it, one row for each path and lambda.

    ``n_parameters`` is the largest number over the splits, which a preparation may leave samples of different shapes.
    """
    scores, bounds, fit_seconds, score_seconds = (np.empty((len(paths), len(lams), n_splits)) for _ in range(4))
    n_parameters = np.zeros(len(paths), int)
    for one in done:
        tables = ((scores, "score"), (bounds, "bound"), (fit_seconds, "fit_seconds"), (score_seconds, "score_seconds"))
        for table, name in tables:
            table[one.path, :, one.split] = [getattr(result, name) for result in one.results]
        n_parameters[one.path] = max(n_parameters[one.path], one.results[-1].n_parameters)
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
        column = _objects([parameters[name] for parameters in params])
        results[f"param_{name}"] = np.ma.masked_array(column, mask=False)
    results["params"] = params
    results["asked_rank"] = _objects([path.asked for path in paths for _ in lams])
    by_split = scores.reshape(-1, n_splits)
    results.update({f"split{k}_test_score": by_split[:, k] for k in range(n_splits)})
    results["mean_test_score"], results["std_test_score"] = by_split.mean(axis=1), by_split.std(axis=1)
    results["rank_test_score"] = rankdata(-results["mean_test_score"], method="min").astype(np.int32)
    results["mean_margin_bound"] = bounds.reshape(-1, n_splits).mean(axis=1)
    results["n_parameters"] = np.repeat(n_parameters, len(lams))
    return results


def _objects(values: Sequence[Any]) -> Array:
    """Return an array of objects as they are: NumPy would make rows of tuples."""
    column = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        column[row] = value
    return column


def lowered_on_splits(paths: Sequence[Path], done: Sequence[PathResults]) -> list[tuple[str, Rank, Rank]]:
    """Return decomposition, rank asked for and rank used of the fits whose training samples allowed no higher rank."""
    used = ((paths[one.path], result.rank) for one in done for result in one.results)
    lowered = ((path, rank) for path, rank in used if rank != path.rank)
    notes = ((path.decomposition, path.rank if path.asked is None else path.asked, rank) for path, rank in lowered)
    return list(dict.fromkeys(notes))


DEFAULT_RULE = "best"
"""The rule of `choose` that the search and ``tensormargin fit`` use unless told otherwise.

Measured by benchmarks/rules.py on 22 data sets (benchmarks/results/rules.md): no rule is significantly better than
another, and this is the one that people expect.
"""


def choose(results: dict[str, Any], n_splits: int, rule: str) -> int:
    """Return the index of the selected candidate.

    "best" takes the highest mean score; ties go to the model with the fewest parameters. The other rules look at all
    candidates whose mean is at most one standard error of the best one's below it: "simplest" takes the one with the
    fewest parameters, "margins" the one with the smallest `mean_margin_bound`.
    """
    means = results["mean_test_score"]
    best = int(np.argmax(means))
    slack = 0.0 if rule == "best" else results["std_test_score"][best] / np.sqrt(max(n_splits - 1, 1))
    eligible = np.flatnonzero(means >= means[best] - slack - 1e-12)
    sizes = results["n_parameters"][eligible]
    keys = (eligible, sizes, results["mean_margin_bound"][eligible]) if rule == "margins" else (eligible, sizes)
    return int(eligible[np.lexsort(keys)[0]])
