"""Is it above chance? A permutation test that respects groups."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets

from ._typing import Array
from ._validation import checked_groups
from .anatomy import before_last, fit_model, last_estimator
from .selection import Progress, splits_of


@dataclass(frozen=True)
class ChanceTest:
    """Result of `permutation_test`.

    Attributes
    ----------
    score : float
        Cross-validated accuracy with the true labels.
    permuted : ndarray of shape (n_permutations,)
        The same with permuted labels.
    p_value : float
        ``(1 + number of permuted scores >= score) / (1 + n_permutations)``; it cannot be smaller than
        ``1 / (1 + n_permutations)``.
    permuted_what : str
        What was exchanged: labels of samples, labels within groups, or labels of whole groups.
    """

    score: float
    permuted: Array
    p_value: float
    permuted_what: str


def permutation_test(
    model: Any,
    X: Any,
    y: Any,
    groups: Any = None,
    cv: Any = 5,
    n_permutations: int = 200,
    n_jobs: int | None = None,
    random_state: int | np.random.RandomState | None = None,
    progress: Progress | None = None,
) -> ChanceTest:
    """Test whether a model's cross-validated accuracy is above chance.

    Labels are exchanged between samples; with groups only within each group (fMRI runs), or, where all samples of a
    group have one label (recordings of a patient), between whole groups: exchanging within them would change nothing.

    Parameters
    ----------
    model : estimator
        A classifier or a Pipeline that ends in one; it is cloned. With `TensorMarginClassifierCV` all choices are made
        anew for every permutation: honest, and slow.
    X, y : array-like
    groups : array-like, optional
    cv : int or splitter, default=5
    n_permutations : int, default=200
    n_jobs : int, optional
        Permutations done at the same time.
    random_state : int, RandomState or None
    progress : callable, optional
        Called as ``progress(done, total, text)``.

    Examples
    --------
    >>> from tensormargin import TensorMarginClassifier, permutation_test
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> easy = make_low_rank_classes(40, (6, 6), rank=1, distance=6.0, random_state=0)
    >>> clf = TensorMarginClassifier("cp", 1)
    >>> permutation_test(clf, easy.data, easy.target, n_permutations=19, random_state=0).p_value
    0.05
    """
    X, y = np.asarray(X), np.asarray(y)
    check_classification_targets(y)
    if n_permutations < 1:
        raise ValueError(f"n_permutations must be at least 1; got {n_permutations}")
    groups = checked_groups(X, groups)
    rng = check_random_state(random_state)
    fold_seed = rng.randint(2**31 - 1)
    what = _exchanged(y, groups)
    model = clone(model)  # what it has learnt need not travel with every job
    labels = [y, *(_permuted(y, groups, what, rng) for _ in range(n_permutations))]
    jobs = (delayed(_numbered_score)(number, model, X, one, groups, cv, fold_seed) for number, one in enumerate(labels))
    scores = np.empty(len(labels))
    for done, (number, score) in enumerate(Parallel(n_jobs=n_jobs, return_as="generator_unordered")(jobs), start=1):
        scores[number] = score
        if progress is not None:
            progress(done, len(labels), f"{done - 1} of {n_permutations} permutations")
    p_value = (1 + np.sum(scores[1:] >= scores[0] - 1e-12)) / (1 + n_permutations)
    return ChanceTest(float(scores[0]), scores[1:], float(p_value), what)


def _exchanged(y: Array, groups: Array | None) -> str:
    if groups is None:
        return "labels of samples"
    if all(len(np.unique(y[groups == group])) == 1 for group in np.unique(groups)):
        return "labels of whole groups"
    return "labels within groups"


def _permuted(y: Array, groups: Array | None, what: str, rng: np.random.RandomState) -> Array:
    if groups is None:
        return rng.permutation(y)
    names, first, where = np.unique(groups, return_index=True, return_inverse=True)
    if what == "labels of whole groups":
        return rng.permutation(y[first])[where]
    permuted = y.copy()
    for number in range(len(names)):
        own = where == number
        permuted[own] = rng.permutation(permuted[own])
    return permuted


def _numbered_score(
    number: int, model: Any, X: Array, y: Array, groups: Array | None, cv: Any, seed: int
) -> tuple[int, float]:
    """Return the number and the mean accuracy over the folds."""
    scores = []
    for train, test in splits_of(cv, y, groups, seed):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            own, other = (None, None) if groups is None else (groups[train], groups[test])
            fitted = fit_model(clone(model), X[train], y[train], own)
        scores.append(last_estimator(fitted).score(before_last(fitted, X[test], other), y[test]))
    return number, float(np.mean(scores))
