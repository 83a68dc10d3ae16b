"""An honest estimate for a model that chooses its own parameters: test parts that the whole choice never saw."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from .._typing import Array
from ..anatomy import before_last, fit_model, last_estimator
from ..cluster import take
from ..selection import Progress, splits_of
from .compare import tuned
from .contenders import contender
from .intervals import corrected_error, half_width

REFERENCE = "LinearSVC"


@dataclass(frozen=True)
class OuterFold:
    """One test part: how many of it the model and the flat reference got right, and what each chose."""

    repeat: int
    fold: int
    n_train: int
    n_test: int
    accuracy: float
    reference: float
    chosen: dict[str, Any]
    reference_chosen: dict[str, Any]
    seconds: float


@dataclass(frozen=True)
class NestedEvaluation:
    """Accuracy on samples that neither the fit nor any choice has seen.

    Attributes
    ----------
    folds : sequence of OuterFold
    predicted : ndarray of shape (n_repeats, n_samples)
        The label that each sample got when it was in the test part (of each repeat).
    confidence : ndarray of shape (n_repeats, n_samples)
        Its probability by the model, NaN for models without probabilities.
    tested : ndarray of bool, of shape (n_repeats, n_samples)
        False for a sample that was in no test part, so that it has no prediction: a splitter may leave samples out,
        and so do folds whose training part would lack a class.
    scheme : str
        How the samples were divided, in words.
    seed : int
    """

    folds: Sequence[OuterFold]
    predicted: Array
    confidence: Array
    tested: Array
    scheme: str
    seed: int

    @property
    def accuracies(self) -> Array:
        """Accuracy on each test part."""
        return np.array([fold.accuracy for fold in self.folds])

    @property
    def references(self) -> Array:
        """Accuracy of the reference on each test part."""
        return np.array([fold.reference for fold in self.folds])

    @property
    def accuracy(self) -> float:
        """Mean over the test parts."""
        return float(self.accuracies.mean())

    @property
    def reference(self) -> float:
        """The same for a flat LinearSVC that chose its C on the same training parts."""
        return float(self.references.mean())

    @property
    def overlap(self) -> float:
        """Samples in the test parts over those in the training parts."""
        return sum(fold.n_test for fold in self.folds) / sum(fold.n_train for fold in self.folds)

    def interval(self, values: Array) -> tuple[float, float]:
        """Return a 95 % interval around the mean of values, one a fold (Nadeau and Bengio 2003)."""
        half = half_width(values, self.overlap)
        return float(values.mean() - half), float(values.mean() + half)

    @property
    def standard_error(self) -> float:
        """Of the accuracy."""
        return corrected_error(self.accuracies, self.overlap)

    @property
    def gain_error(self) -> float:
        """Standard error of the difference to the reference, paired by test part."""
        return corrected_error(self.accuracies - self.references, self.overlap)


def nested_evaluation(
    model: Any,
    X: Array,
    y: Array,
    groups: Array | None = None,
    cv: Any = 5,
    repeats: int = 1,
    seed: int = 0,
    progress: Progress | None = None,
) -> NestedEvaluation:
    """Evaluate a model with all its choices, and a tuned flat LinearSVC beside it on the same divisions.

    Parameters
    ----------
    model : estimator
        `TensorMarginClassifierCV`, or a Pipeline that ends in it; it is cloned.
    X, y : arrays
    groups : array, optional
        They stay together in the outer and in the inner splits.
    cv : int or splitter, default=5
        Outer folds.
    repeats : int, default=1
        Times that the folds are cut anew.
    seed : int, default=0
    progress : callable, optional
        Called as ``progress(done, total, text)``.
    """
    splits = [
        (repeat, fold, split)
        for repeat in range(repeats)
        for fold, split in enumerate(splits_of(cv, y, groups, seed + repeat))
    ]
    for _, _, (train, _) in splits:  # raises before any work where a training part is too small to choose on
        _check_can_choose(y[train], None if groups is None else groups[train], seed)
    predicted = np.zeros((repeats, len(y)), y.dtype)
    confidence = np.full((repeats, len(y)), np.nan)
    has_been_tested = np.zeros((repeats, len(y)), bool)
    folds = []
    for done, (repeat, fold, split) in enumerate(splits):
        began = perf_counter()
        told = None if progress is None else _share_of(progress, done, len(splits))
        tested = _test(model, X, y, groups, split, told, seed)
        train, test = split
        predicted[repeat, test], confidence[repeat, test] = tested.predicted, tested.confidence
        has_been_tested[repeat, test] = True
        folds.append(
            OuterFold(
                repeat=repeat,
                fold=fold,
                n_train=len(train),
                n_test=len(test),
                accuracy=float(np.mean(tested.predicted == y[test])),
                reference=tested.reference,
                chosen=tested.chosen,
                reference_chosen=tested.reference_chosen,
                seconds=perf_counter() - began,
            )
        )
    scheme = _scheme(cv, len(splits) // repeats, repeats, groups)
    return NestedEvaluation(folds, predicted, confidence, has_been_tested, scheme, seed)


def _check_can_choose(y: Array, groups: Array | None, seed: int) -> None:
    try:
        splits_of(2, y, groups, seed)
    except ValueError as error:
        raise ValueError(
            f"the training part of an outer fold ({len(y)} samples) is too small to choose on: {error}. More outer "
            "folds leave more for training"
        ) from error


@dataclass(frozen=True)
class _Tested:
    predicted: Array
    confidence: Array | float
    chosen: dict[str, Any]
    reference: float
    reference_chosen: dict[str, Any]


def _test(
    model: Any,
    X: Array,
    y: Array,
    groups: Array | None,
    split: tuple[Array, Array],
    progress: Progress | None,
    seed: int,
) -> _Tested:
    """Fit model and reference on the first part of a split and try them on the second."""
    X_train, X_test = take(X, split[0]), X[split[1]]
    y_train, y_test = (y[rows] for rows in split)
    own, other = (None, None) if groups is None else (groups[rows] for rows in split)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = fit_model(clone(model), X_train, y_train, own, **({} if progress is None else {"progress": progress}))
        last = last_estimator(fitted)
        seen, ready = before_last(fitted, X_train, own), before_last(fitted, X_test, other)
        alternatives = getattr(last, "preparation", None)
        flat = contender(REFERENCE).behind(
            *(alternatives if isinstance(alternatives, list | tuple) else [alternatives])
        )
        reference = tuned(flat, seen, y_train, 5, seed, own, getattr(last, "n_jobs", None))
        reference_accuracy = reference.estimator.fit(seen, y_train).score(ready, y_test)
    return _Tested(
        predicted=last.predict(ready),
        confidence=last.predict_proba(ready).max(axis=1) if hasattr(last, "predict_proba") else np.nan,
        chosen=dict(getattr(last, "best_params_", {})),
        reference=float(reference_accuracy),
        reference_chosen=reference.values,
    )


def _share_of(progress: Progress, before: int, folds: int) -> Progress:
    """Return a progress for one outer fold as part of the whole."""

    def show(done: float, total: float, text: str) -> None:
        progress(before + done / total, folds, f"outer fold {before + 1} of {folds}, {text}")

    return show


def _scheme(cv: Any, folds: int, repeats: int, groups: Array | None) -> str:
    if not isinstance(cv, int):
        return f"{folds} splits by {cv}"
    kind = "stratified folds" if groups is None else "folds that keep groups together"
    return f"{folds} {kind}" + (f", cut {repeats} times" if repeats > 1 else "")
