"""Outer splits, held-out predictions and their pooled scores."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import balanced_accuracy_score

from ..data import Checkpoint, LeakageWarning, Metadata
from ..inspection import fit_model, last_estimator, metadata_for_last_step, samples_for_last_step
from ..runtime import Array, Deadline, Progress, take
from ..selection import splits_of

SCORES = {"accuracy": "accuracy", "balanced_accuracy": "balanced accuracy"}
"""Scores of pooled held-out predictions, and their names in text."""


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
    """A model fitted on the training set of a split, with its predictions for the test set.

    Attributes
    ----------
    estimator : estimator
        The last step of the model.
    training, test : array
        The samples of both sets, transformed for that step.
    predicted : ndarray of shape (n_test,)
    """

    estimator: Any
    training: Array
    test: Array
    predicted: Array


def predict_held_out(
    model: Any,
    X: Array,
    y: Array,
    metadata: Metadata,
    split: OuterSplit,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
    deadline: Deadline | None = None,
) -> HeldOut:
    """Fit a clone of a model on the training set of a split and predict its test set.

    ``progress``, ``checkpoint`` and ``deadline`` are passed to the last step's `fit`, if it takes them.
    """
    X_train, X_test = take(X, split.train), X[split.test]
    own, other = metadata.rows(split.train), metadata.rows(split.test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", LeakageWarning)  # the evaluation has warned
        taken = signature(last_estimator(model).fit).parameters
        extras = {"progress": progress, "checkpoint": checkpoint, "deadline": deadline}
        extras = {name: value for name, value in extras.items() if value is not None and name in taken}
        fitted = fit_model(clone(model), X_train, y[split.train], own, **extras)
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
