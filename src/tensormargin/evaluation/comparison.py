"""Comparison of methods on one data set, all tuned in the same way on training data only."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from math import nan
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
from sklearn.utils.multiclass import check_classification_targets

from .._namespace import as_array
from .._typing import Array
from .._validation import checked_groups, checked_labels
from ..cluster import goes_to_cluster
from ..estimators import TensorMarginClassifier
from ..intake import as_samples
from ..leakage import warn_of_duplicates
from ..margins import MarginReport, margin_report
from ..methods import METHODS, check_methods
from ..model_steps import last_estimator
from ..preparation import takes_ragged
from ..selection import splits_of
from .contenders import LAM_GRID, MAJORITY, PEERS, Contender, contender
from .timing import timed_fit


@dataclass(frozen=True)
class CompareSettings:
    """Settings of a comparison.

    Attributes
    ----------
    methods : sequence of str
        Names from `tensormargin.METHODS`, and "LinearSVC" (scikit-learn) and "CP-PLSR" (TensorLy).
    repeats : int
        Number of random train-test splits: stratified, and keeping groups together if there are any.
    test_size : float
        Proportion of the samples in the test set.
    lam_grid : sequence
        Candidate values of ``lam``, the same for all methods of the paper.
    folds : int
        Number of cross-validation folds of the training set, used to choose ``lam``.
    seed : int
        Seed of the splits.
    preparation : transformer, optional
        Transformer applied before every method, fitted on each training set.
    """

    methods: Sequence[str] = tuple(METHODS)
    repeats: int = 5
    test_size: float = 0.25
    lam_grid: Sequence[float] = LAM_GRID
    folds: int = 3
    seed: int = 0
    preparation: Any = None

    @property
    def entries(self) -> tuple[str, ...]:
        """The methods, followed by the majority-class baseline."""
        return (*(name for name in self.methods if name != MAJORITY), MAJORITY)


@dataclass(frozen=True)
class CompareRow:
    """One method on one split.

    ``fit_seconds`` is the time of one fit with the chosen ``lam`` (for a peer, its own hyperparameter).
    ``margin_mean`` and ``margin_variance`` are computed on the test set and averaged over the binary problems; NaN for
    peers. ``n_parameters`` refers to one binary problem (for a peer, its own count). ``test`` holds the row indices of
    the test set, ``right`` whether each was predicted correctly.
    """

    method: str
    repeat: int
    seed: int
    accuracy: float
    fit_seconds: float
    lam: float | None
    n_parameters: int
    margin_mean: float
    margin_variance: float
    n_train: int
    n_test: int
    converged: bool
    test: Array = field(repr=False, compare=False)
    right: Array = field(repr=False, compare=False)


def compare(
    X: Any, y: Any, settings: CompareSettings, n_jobs: int | None = None, groups: Any = None
) -> Iterator[CompareRow]:
    """Return an iterator over one row per method and split, in order of completion.

    The majority class is included (`CompareSettings.entries`). Labels or settings that rule out a comparison raise
    ValueError immediately.
    """
    check_methods(settings.methods, (*METHODS, *PEERS, MAJORITY))
    X = as_array(as_samples(X, ragged=takes_ragged(settings.preparation)))
    y, groups = checked_labels(X, y), checked_groups(X, groups)
    warn_of_duplicates(X, groups)
    splits = comparison_splits(y, settings, groups)
    jobs = (
        delayed(_row)(X, y, groups, *split, name, repeat, settings)
        for repeat, split in enumerate(splits)
        for name in settings.entries
    )
    rows: Iterator[CompareRow] = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(jobs)
    return rows


def comparison_splits(y: Array, settings: CompareSettings, groups: Array | None) -> list[tuple[Array, Array]]:
    """Return the train-test splits, or raise ValueError if there are none.

    With groups, each split tests on one fold of a stratified group k-fold whose folds have about ``test_size``.
    """
    check_classification_targets(y)
    if groups is None:
        _check_comparable(y, settings)
        splitter = StratifiedShuffleSplit(settings.repeats, test_size=settings.test_size, random_state=settings.seed)
        return list(splitter.split(np.zeros(len(y)), y))
    folds = max(2, round(1 / settings.test_size))
    splits: list[tuple[Array, Array]] = []
    for shuffle in range(settings.repeats):
        if len(splits) < settings.repeats:
            splits += splits_of(folds, y, groups, settings.seed + shuffle)
    for train, _ in splits[: settings.repeats]:
        splits_of(settings.folds, y[train], groups[train], settings.seed)  # raises if lambda cannot be chosen
    return splits[: settings.repeats]


def _check_comparable(y: Array, settings: CompareSettings) -> None:
    """Raise ValueError for labels or settings that rule out a comparison."""
    labels, counts = np.unique(y, return_counts=True)
    if len(labels) < 2:
        raise ValueError(f"a comparison needs at least two classes; all labels are {labels.tolist()}")
    smallest, rarest = int(counts.min()), labels.tolist()[counts.argmin()]
    in_training = smallest - int(np.ceil(smallest * settings.test_size))
    if in_training < settings.folds:
        raise ValueError(
            f"class {rarest!r} has {smallest} samples, so a training set of {1 - settings.test_size:.0%} has about "
            f"{in_training}; {settings.folds}-fold cross-validation needs {settings.folds} of each class. Use fewer "
            "folds, a smaller test set, or more samples"
        )
    if int(smallest * settings.test_size) < 1:
        raise ValueError(
            f"class {rarest!r} has {smallest} samples, so a test set of {settings.test_size:.1%} may hold none of "
            f"them; use a test set of at least {1 / smallest:.0%}"
        )


def _row(
    X: Array,
    y: Array,
    groups: Array | None,
    train: Array,
    test: Array,
    name: str,
    repeat: int,
    settings: CompareSettings,
) -> CompareRow:
    own_groups = None if groups is None else groups[train]
    one = contender(name, settings.lam_grid).behind(settings.preparation)
    chosen = tuned(one, X[train], y[train], settings.folds, settings.seed, own_groups)
    fit = timed_fit(chosen.estimator, X[train], y[train])
    mean, variance, n_parameters = _margins_and_size(fit.classifier, X[test], y[test])
    right = np.asarray(fit.classifier.predict(X[test]) == y[test])
    return CompareRow(
        method=name,
        repeat=repeat,
        seed=settings.seed,
        accuracy=float(right.mean()),
        fit_seconds=fit.seconds,
        lam=chosen.value,
        n_parameters=n_parameters,
        margin_mean=mean,
        margin_variance=variance,
        n_train=len(train),
        n_test=len(test),
        converged=fit.converged,
        test=test,
        right=right,
    )


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
    if all(len(values) == 1 for values in one.grid.values()):
        chosen = {name: values[0] for name, values in one.grid.items()}
    else:
        grid = {name: list(values) for name, values in one.grid.items()}
        splits = splits_of(folds, y, groups, seed)
        search = GridSearchCV(one.estimator, grid, cv=splits, refit=False, scoring=scoring)
        where = nullcontext() if goes_to_cluster() else parallel_config("threading", n_jobs=n_jobs)
        with warnings.catch_warnings(), where:
            warnings.simplefilter("ignore", ConvergenceWarning)  # irrelevant for candidates that are not selected
            chosen = search.fit(X, y).best_params_
    return Tuned(clone(one.estimator).set_params(**chosen), chosen)


def _margins_and_size(model: Any, X: Array, y: Array) -> tuple[float, float, int]:
    """Return the mean and variance of the test margins, averaged over binary problems, and the parameter count."""
    classifier = last_estimator(model)
    if not isinstance(classifier, TensorMarginClassifier):
        return nan, nan, _size_of_peer(classifier)
    reports = margin_report(model, X, y)
    margins = [reports] if isinstance(reports, MarginReport) else reports
    mean, variance = (float(np.mean([getattr(one, name) for one in margins])) for name in ("mean", "variance"))
    return mean, variance, classifier.n_parameters_


def _size_of_peer(classifier: Any) -> int:
    """Return the number of parameters of one binary problem, or the peer's own ``n_parameters_``."""
    if isinstance(classifier, DummyClassifier):
        return 0
    last = last_estimator(classifier)
    return int(classifier.n_parameters_ if hasattr(classifier, "n_parameters_") else last.coef_[0].size + 1)
