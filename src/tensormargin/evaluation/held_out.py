"""Labelled samples, outer splits, held-out predictions, their pooled scores, and their ROC and reliability curves."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import auc, balanced_accuracy_score, roc_curve

from ..data import (
    NO_METADATA,
    AnyAxes,
    LeakageWarning,
    Metadata,
    any_scale,
    as_samples,
    axes_in,
    checked_labels,
    columns_in,
    converted,
    views_or_array,
    warn_of_leakage,
)
from ..fitting import loaded_if_small
from ..inspection import fit_model, last_estimator, metadata_for_last_step, samples_for_last_step
from ..io import SampleSet, groups_in_columns
from ..runtime import Array, FloatArray, as_array, take
from ..selection import TensorMarginAutoClassifier, splits_of
from ..transformers import takes_ragged
from .intervals import score_interval

SCORES = {"accuracy": "accuracy", "balanced_accuracy": "balanced accuracy"}
"""Scores of pooled held-out predictions, and their names in text."""

_MOST_BINS, _SMALLEST_BIN = 8, 10  # of reliability curves


@dataclass(frozen=True)
class Labelled:
    """Samples with their labels and metadata."""

    X: Any
    y: Array
    metadata: Metadata = NO_METADATA
    axes: AnyAxes = None
    affine: Any = None
    likely: str | None = None  # what looks like groups, in words

    @classmethod
    def checked(cls, model: Any, X: Any, y: Any, groups: Any, confounds: Any, views: bool = True) -> Labelled:
        """Return validated samples, which may be ``views`` and, if the model takes them, differ in length."""
        first = X[0] if isinstance(X, list | tuple) and X else X
        affine = getattr(first, "affine", None)  # of a NIfTI image
        likely = groups_in_columns(columns_in(X)) if groups is None else None
        if views:
            X, axes = converted(X, ragged=takes_ragged(model))
            X = loaded_if_small(views_or_array(X))
        else:
            X, axes = as_array(as_samples(X, ragged=takes_ragged(model))), axes_in(X)
        return cls(X, checked_labels(X, y), Metadata.checked(X, groups, confounds), axes, affine, likely)

    @property
    def groups(self) -> Array | None:
        """The group of each sample."""
        return self.metadata.groups

    @property
    def content(self) -> tuple[Any, ...]:
        """Everything that determines results, for checkpoints."""
        return self.X, self.y, *self.metadata.content

    def rows(self, rows: Array) -> Labelled:
        """Return some of the samples."""
        return Labelled(self.X[rows], self.y[rows], self.metadata.rows(rows))

    def warn_of_leakage(self) -> None:
        """Warn of what lets labels leak from training to test sets; called by what users call."""
        warn_of_leakage(self.X, self.y, self.metadata, stacklevel=4, axes=self.axes, more=self.likely)


@dataclass(frozen=True)
class OuterSplit:
    """One split into training and test set; ``train`` and ``test`` are row indices."""

    repeat: int
    fold: int
    train: Array
    test: Array


def outer_splits(cv: Any, y: Array, groups: Array | None, repeats: int, seed: int) -> list[OuterSplit]:
    """Return the cross-validation splits (`tensormargin.selection.splits_of`), reshuffled for each repeat."""
    return [
        OuterSplit(repeat, fold, *split)
        for repeat in range(repeats)
        for fold, split in enumerate(splits_of(cv, y, groups, seed + repeat))
    ]


@dataclass(frozen=True)
class HeldOut:
    """The last step of a model fitted on the training set of a split, and its predictions for the test set.

    ``training`` and ``test`` are the samples of both sets, transformed for that step.
    """

    estimator: Any
    training: Array
    test: Array
    predicted: Array


@any_scale()  # one person may have another scale than others
def predict_held_out(model: Any, samples: Labelled, split: OuterSplit, **extras: Any) -> HeldOut:
    """Fit a clone of a model on the training set of a split and predict its test set.

    Those of the ``extras`` (progress, checkpoint, deadline) that are not None and that the last step's `fit` takes are
    passed to it.
    """
    X_train, X_test = take(samples.X, split.train), samples.X[split.test]
    own, other = samples.metadata.rows(split.train), samples.metadata.rows(split.test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", LeakageWarning)  # the evaluation has warned
        taken = signature(last_estimator(model).fit).parameters
        extras = {name: value for name, value in extras.items() if value is not None and name in taken}
        fitted = fit_model(clone(model), X_train, samples.y[split.train], own, **extras)
    last = last_estimator(fitted)
    test = samples_for_last_step(fitted, X_test, other)
    predicted = np.asarray(last.predict(test, **metadata_for_last_step(fitted, other)))
    return HeldOut(last, samples_for_last_step(fitted, X_train, own), test, predicted)


def seeded(model: Any, seed: int) -> Any:
    """Return an unfitted copy of a model in which every ``random_state`` of None is the seed.

    Two evaluations of the same model with the same seed then give the same numbers.
    """
    model = clone(model)
    missing = {
        name: seed
        for name, value in model.get_params().items()
        if name.rpartition("__")[2] == "random_state" and value is None
    }
    return model.set_params(**missing) if missing else model


def settled_kind(model: Any, samples: Labelled) -> Any:
    """Return the model, one that guesses the kind of its samples with the kind of all samples.

    What the samples state, such as channels and times, is lost in the arrays of a split.
    """
    guesses = isinstance(model, TensorMarginAutoClassifier) and model.kind == "auto"
    return model.settled_for(samples.X, samples.axes, samples.affine) if guesses else model


def checked_score(model: Any, name: str | None) -> str:
    """Return a score, by default balanced accuracy if the model uses it as ``scoring``, otherwise accuracy."""
    if name is None:
        balanced = getattr(last_estimator(model), "scoring", None) == "balanced_accuracy"
        return "balanced_accuracy" if balanced else "accuracy"
    if name not in SCORES:
        raise ValueError(f"score must be one of {', '.join(SCORES)}; got {name!r}")
    return name


def pooled_score(name: str, y: Array, predicted: Array) -> float:
    """Return the accuracy, or balanced accuracy, of all held-out predictions pooled.

    Folds differ in size, and a small one may lack a class, so the mean over folds is not the share of correct
    predictions.
    """
    if name == "accuracy":
        return float(np.mean(y == predicted))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="y_pred contains classes not in y_true")
        return float(balanced_accuracy_score(y, predicted))


def prediction_rows(
    samples: SampleSet, repeat: int, rows: Array, predicted: Array, probability: Array | None = None
) -> list[dict[str, Any]]:
    """Return held-out predictions of some rows as JSON types; NaN probabilities are None."""
    names = [str(row) if samples.names is None else samples.names[row] for row in rows.tolist()]
    groups = [None] * len(rows) if samples.groups is None else samples.groups[rows].tolist()
    known = np.full(len(rows), np.nan) if probability is None else probability
    shares = [share if np.isfinite(share) else None for share in known.tolist()]
    columns = names, groups, samples.labels[rows].tolist(), predicted.tolist(), shares
    titles = ("repeat", "sample", "group", "label", "predicted", "probability")
    return [dict(zip(titles, (repeat, *row), strict=True)) for row in zip(*columns, strict=True)]


@dataclass(frozen=True)
class RocCurve:
    """The trade-off between two kinds of errors, over all thresholds of the probability of a class.

    Attributes
    ----------
    false_rate, true_rate : ndarray
        Shares of the other samples, and of the samples of the class, above each threshold, from the highest one down.
    area : float
        Area under the curve: the probability that a sample of the class has a higher probability than another one.

    Examples
    --------
    >>> from tensormargin.evaluation import roc
    >>> curve = roc([True, True, False, False], [0.9, 0.4, 0.6, 0.1])
    >>> curve.false_rate, curve.true_rate
    (array([0. , 0. , 0.5, 0.5, 1. ]), array([0. , 0.5, 0.5, 1. , 1. ]))
    """

    false_rate: FloatArray
    true_rate: FloatArray
    area: float


@dataclass(frozen=True)
class Reliability:
    """How often the predicted event happens, for samples with similar probabilities.

    Attributes
    ----------
    probability, observed : ndarray of shape (n_bins,)
        Mean probability and share of the samples where the event happened.
    low, high : ndarray of shape (n_bins,)
        95 % intervals of the shares, NaN where there are too few groups.
    count : ndarray of shape (n_bins,)
        Number of predictions.

    Examples
    --------
    >>> from tensormargin.evaluation import reliability
    >>> curve = reliability([True, False] * 10, [0.5] * 20)
    >>> curve.probability, curve.observed, curve.count
    (array([0.5]), array([0.5]), array([20]))
    """

    probability: FloatArray
    observed: FloatArray
    low: FloatArray
    high: FloatArray
    count: Array


def roc(of_class: Any, probability: Any) -> RocCurve | None:
    """Return the ROC curve of a class; None if all samples, or none, belong to it.

    Parameters
    ----------
    of_class : array-like of bool, of shape (n_predictions,)
        Which samples belong to the class.
    probability : array-like of shape (n_predictions,)
        Held-out probabilities of the class.

    Examples
    --------
    >>> from tensormargin.evaluation import roc
    >>> roc([True, True, False, False], [0.9, 0.4, 0.6, 0.1]).area
    0.75
    >>> roc([True, True], [0.9, 0.4]) is None
    True
    """
    own = np.asarray(of_class, bool)
    if own.all() or not own.any():
        return None
    false_rate, true_rate, _ = roc_curve(own, np.asarray(probability, np.float64))
    return RocCurve(false_rate, true_rate, float(auc(false_rate, true_rate)))


def reliability(happened: Any, probability: Any, units: Any = None) -> Reliability:
    """Return the reliability curve of some probabilities, in bins with about as many predictions each.

    Bins, means and shares are those of scikit-learn's `calibration_curve` with quantiles, which has no counts, and no
    intervals by group.

    Parameters
    ----------
    happened : array-like of bool, of shape (n_predictions,)
    probability : array-like of shape (n_predictions,)
    units : array-like of shape (n_predictions,), optional
        Groups of predictions that are not independent.

    Examples
    --------
    >>> from tensormargin.evaluation import reliability
    >>> curve = reliability([True, False, False, False, True, True] * 10, [0.2, 0.2, 0.2, 0.8, 0.8, 0.8] * 10)
    >>> curve.probability.round(2), curve.observed.round(2)
    (array([0.2, 0.8]), array([0.33, 0.67]))
    """
    outcome, values = np.asarray(happened, np.float64), np.asarray(probability, np.float64)
    n_bins = int(np.clip(len(values) // _SMALLEST_BIN, 1, _MOST_BINS))
    places = np.searchsorted(np.quantile(values, np.arange(1, n_bins) / n_bins), values)
    bins = [np.flatnonzero(places == place) for place in np.unique(places)]
    found = [score_interval(outcome[None, own], None if units is None else np.asarray(units)[own]) for own in bins]
    observed, low, high = np.array([(one.score, one.low, one.high) for one in found], np.float64).T  # None is NaN
    means, counts = ([of(values[own]) for own in bins] for of in (np.mean, len))
    return Reliability(np.array(means), observed, low, high, np.array(counts))
