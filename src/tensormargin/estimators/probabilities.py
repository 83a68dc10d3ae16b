"""Probabilities of a single classifier, calibrated by cross-validation on its training set."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from ..data import content_ranks
from ..fitting import calibrate
from ..runtime import Array, rows_of, to_host
from .fit_steps import ToFit, TrainingSet, fit_all, without_convergence_warnings

_FOLDS = 5


class WithProbabilities:
    """A method that exists only if ``probability`` is set, like scikit-learn's `available_if`.

    The AttributeError itself has the remedy; that of `available_if` hides it in a chained exception.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, classifier: Any, kind: type | None = None) -> Any:
        """Return the bound method of a classifier with probabilities; raise AttributeError for others."""
        if classifier is None:
            return self.method
        if not classifier.probability:
            name = type(classifier).__name__
            raise AttributeError(
                f"{name} has {self.method.__name__} only with probability=True; set it before fit. For a classifier "
                "that is fitted already, use sklearn.calibration.CalibratedClassifierCV(FrozenEstimator(clf)) with "
                "samples held out from the fit; TensorMarginClassifierCV always has probabilities"
            )
        return MethodType(self.method, classifier)


def calibrate_on_folds(classifier: Any, training: TrainingSet) -> None:
    """Set ``calibration_``, the sigmoids fitted to the scores of held-out samples, and ``n_splits_``."""
    X, weights = training.array.X, training.weights
    classes, codes = np.unique(training.labels, return_inverse=True)
    present = np.flatnonzero(weights > 0)  # samples of weight zero are ignored
    folds = np.full(len(weights), -1)
    folds[present] = _folds(classes, codes[present], content_ranks(X)[present], classifier.random_state)
    tests = [np.flatnonzero(folds == fold) for fold in range(folds.max() + 1)]
    models = [clone(classifier).set_params(probability=False, warm_start=False) for _ in tests]
    with without_convergence_warnings():  # the fit to all samples has already warned
        others = (np.setdiff1d(present, test) for test in tests)
        fit_all([ToFit(one, X, training.labels, own, weights) for one, own in zip(models, others, strict=True)])
    scores = np.concatenate(
        [to_host(one.binary_scores(rows_of(X, own))) for one, own in zip(models, tests, strict=True)]
    )
    rows = np.concatenate(tests)
    calibration = calibrate(scores, codes[rows], weights[rows], len(classes), classifier.multi_class)
    classifier.n_splits_ = len(tests)
    classifier.calibration_ = training.array.kept(calibration)


def _folds(classes: Array, codes: Array, contents: Array, random_state: Any) -> Array:
    """Return the stratified fold of each sample; -1 for the only sample of a class, which is never held out.

    Copies of a sample share a fold. A weight of two is then the same as two copies, in any order of the samples, and
    no copy of a held-out sample is in the training set.
    """
    rng = check_random_state(random_state)
    distinct = [np.unique(contents[codes == code]) for code in range(len(classes))]
    n_folds = min((len(own) for own in distinct if len(own) > 1), default=0)
    if not n_folds:
        raise ValueError(
            f"probability=True needs a class with at least two different samples, to leave one out; {classes.tolist()} "
            "have one each. Add samples, or set probability=False"
        )
    n_folds = min(n_folds, _FOLDS)
    folds, dealt = np.full(len(codes), -1), 0
    for code, own in enumerate(distinct):
        if len(own) > 1:
            where = codes == code
            fold_of = (dealt + rng.permutation(len(own))) % n_folds
            folds[where] = fold_of[np.searchsorted(own, contents[where])]
            dealt += len(own)
    return folds
