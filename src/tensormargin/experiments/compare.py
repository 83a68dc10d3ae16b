"""Methods side by side on one data set, all tuned alike on training data only."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold, StratifiedShuffleSplit
from sklearn.utils.multiclass import check_classification_targets

from .._typing import Array
from ..margins import MarginReport, margin_report
from ..methods import METHODS, check_methods, make_method
from .fitting import watched_fit

LAM_GRID = ("0.01*scale", "0.1*scale", "scale", "10*scale")


@dataclass(frozen=True)
class CompareSettings:
    """How a comparison is done.

    Attributes
    ----------
    methods : sequence of str
        Names from `tensormargin.METHODS`.
    repeats : int
        Random stratified splits into training and test part.
    test_size : float
        Share of the test part.
    lam_grid : sequence
        Values of ``lam`` to choose from, the same for all methods.
    folds : int
        Folds of the cross-validation on the training part that chooses ``lam``.
    seed : int
        Seed of the splits.
    """

    methods: Sequence[str] = tuple(METHODS)
    repeats: int = 5
    test_size: float = 0.25
    lam_grid: Sequence[str | float] = LAM_GRID
    folds: int = 3
    seed: int = 0


@dataclass(frozen=True)
class CompareRow:
    """One method on one split.

    ``fit_seconds`` is the time of one fit with the chosen ``lam``; ``margin_mean`` and ``margin_variance`` are taken
    over the test part and averaged over the binary problems; ``n_parameters`` counts one binary problem's.
    """

    method: str
    repeat: int
    seed: int
    accuracy: float
    fit_seconds: float
    lam: str | float
    n_parameters: int
    margin_mean: float
    margin_variance: float
    n_train: int
    n_test: int
    converged: bool


@dataclass(frozen=True)
class Summary:
    """Means over the splits; ``accuracy_sd`` is the standard deviation over them (0 for a single one)."""

    method: str
    accuracy: float
    accuracy_sd: float
    fit_seconds: float
    n_parameters: int
    margin_mean: float
    margin_variance: float


def compare(X: Array, y: Array, settings: CompareSettings, n_jobs: int = 1) -> Iterator[CompareRow]:
    """Return an iterator over one row for every method and split, in the order in which they are done.

    Labels or settings with which no comparison is possible raise ValueError at once.
    """
    _check_comparable(y, settings)
    splitter = StratifiedShuffleSplit(settings.repeats, test_size=settings.test_size, random_state=settings.seed)
    splits = list(splitter.split(X, y))
    jobs = (
        delayed(_row)(X, y, train, test, method, repeat, settings)
        for repeat, (train, test) in enumerate(splits)
        for method in settings.methods
    )
    rows: Iterator[CompareRow] = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(jobs)
    return rows


def _check_comparable(y: Array, settings: CompareSettings) -> None:
    """Raise ValueError for labels or settings with which no comparison is possible."""
    check_methods(settings.methods)
    check_classification_targets(y)
    labels, counts = np.unique(y, return_counts=True)
    if len(labels) < 2:
        raise ValueError(f"a comparison needs at least two classes; all labels are {labels.tolist()}")
    smallest, rarest = int(counts.min()), labels.tolist()[counts.argmin()]
    in_training = smallest - int(np.ceil(smallest * settings.test_size))
    if in_training < settings.folds:
        raise ValueError(
            f"class {rarest!r} has {smallest} samples, so a training part of {1 - settings.test_size:.0%} has about "
            f"{in_training}; {settings.folds}-fold cross-validation needs {settings.folds} of each class. Use fewer "
            "folds, a smaller test part, or more samples"
        )
    if int(smallest * settings.test_size) < 1:
        raise ValueError(
            f"class {rarest!r} has {smallest} samples, so a test part of {settings.test_size:.1%} may hold none of "
            f"them; use a test part of at least {1 / smallest:.0%}"
        )


def summarise(rows: Sequence[CompareRow], methods: Sequence[str]) -> list[Summary]:
    """Average the rows of each method."""
    summaries = []
    for method in methods:
        own = [row for row in rows if row.method == method]
        accuracies = [row.accuracy for row in own]
        summaries.append(
            Summary(
                method=method,
                accuracy=float(np.mean(accuracies)),
                accuracy_sd=float(np.std(accuracies, ddof=1)) if len(own) > 1 else 0.0,
                fit_seconds=float(np.mean([row.fit_seconds for row in own])),
                n_parameters=own[0].n_parameters,
                margin_mean=float(np.mean([row.margin_mean for row in own])),
                margin_variance=float(np.mean([row.margin_variance for row in own])),
            )
        )
    return summaries


def _row(
    X: Array, y: Array, train: Array, test: Array, method: str, repeat: int, settings: CompareSettings
) -> CompareRow:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a lam that was tried and not taken says nothing
        lam = _chosen_lam(X[train], y[train], method, settings)
    fit = watched_fit(make_method(method, lam=lam), X[train], y[train])
    clf = fit.classifier
    reports = margin_report(clf, X[test], y[test])
    margins = [reports] if isinstance(reports, MarginReport) else reports
    return CompareRow(
        method=method,
        repeat=repeat,
        seed=settings.seed,
        accuracy=float(clf.score(X[test], y[test])),
        fit_seconds=fit.seconds,
        lam=lam,
        n_parameters=clf.n_parameters_,
        margin_mean=float(np.mean([report.mean for report in margins])),
        margin_variance=float(np.mean([report.variance for report in margins])),
        n_train=len(train),
        n_test=len(test),
        converged=fit.converged,
    )


def _chosen_lam(X: Array, y: Array, method: str, settings: CompareSettings) -> Any:
    """Return the value with the best cross-validated accuracy on the training part; the smallest of equals."""
    if len(settings.lam_grid) == 1:
        return settings.lam_grid[0]
    folds = StratifiedKFold(settings.folds, shuffle=True, random_state=settings.seed)
    search = GridSearchCV(make_method(method), {"lam": list(settings.lam_grid)}, cv=folds, refit=False)
    return search.fit(X, y).best_params_["lam"]
