"""Nested cross-validation: unbiased scores for a model that chooses its own hyperparameters."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from .._namespace import is_lazy
from .._typing import Array, FloatArray
from .._validation import checked_labels
from ..checkpoints import Checkpoint, Units, units_of
from ..leakage import warn_of_duplicates
from ..metadata import Metadata
from ..model_steps import fit_model, last_estimator, metadata_for_last_step, predicted_labels
from ..notebooks import facts_table
from ..preparation import takes_ragged
from ..preparation.sharing import shared
from ..progress import EqualStages, Progress
from ..samples import loaded_if_small
from ..selection import TensorMarginClassifierCV, splits_of
from ..selection.splits import Split
from ..views import views_or_array, views_or_samples
from .choice import Tuned, tuned_behind
from .contenders import contender
from .held_out import HeldOut, OuterSplit, check_score, outer_splits, pooled_score, predict_held_out
from .intervals import PairedDifference, ScoreInterval, paired_difference, score_interval
from .lazy_reference import lazy_reference

REFERENCE = "LinearSVC"


@dataclass(frozen=True)
class OuterFold:
    """One outer fold: scores and chosen hyperparameters of the model and of the flat reference.

    ``unseen`` lists the classes of the test set that the training set lacks; their samples cannot be predicted
    correctly. ``absent`` lists the classes that the test set lacks, which changes the chance level in this fold.

    Examples
    --------
    >>> from tensormargin import TensorMarginClassifierCV, nested_evaluation
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> data = make_low_rank_classes(60, (6, 7), rank=1, random_state=0)
    >>> search = TensorMarginClassifierCV(decompositions=("cp",), ranks=(1,), lams=(1.0,), mus=(1.0,), cv=3)
    >>> fold = nested_evaluation(search, data.data, data.target, cv=3).folds[0]
    >>> fold.n_train, fold.n_test, fold.chosen["decomposition"]
    (40, 20, 'cp')
    """

    repeat: int
    fold: int
    n_train: int
    n_test: int
    score: float
    reference_score: float
    chosen: dict[str, Any]
    reference_chosen: dict[str, Any]
    seconds: float
    unseen: tuple[Any, ...] = ()
    absent: tuple[Any, ...] = ()


@dataclass(frozen=True)
class NestedEvaluation:
    """Held-out predictions of a nested cross-validation, and their scores.

    Scores pool all held-out predictions, so they agree with the confusion matrix of these.

    Attributes
    ----------
    folds : sequence of OuterFold
    labels : ndarray of shape (n_samples,)
    groups : ndarray of shape (n_samples,) or None
    predicted, reference_predicted : ndarray of shape (n_repeats, n_samples)
        Held-out predictions of the model, and of a flat LinearSVC tuned in the same way, in each repeat.
    confidence : ndarray of shape (n_repeats, n_samples)
        The model's probability of the predicted label, NaN for models without probabilities.
    tested : ndarray of bool, of shape (n_repeats, n_samples)
        False for samples in no test set, which have no prediction: a splitter may leave samples out, and folds whose
        training set would lack a class are dropped.
    score : {"accuracy", "balanced_accuracy"}
        The score of `interval`, `reference_interval` and `difference`.
    scheme : str
        How the samples were split, in words.
    seed : int
    probabilities : ndarray of shape (n_repeats, n_samples, n_classes) or None
        Probability of each class, in sorted order, for held-out samples; zero for a class that the training set of the
        fold lacks, NaN for samples in no test set. None for models without probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import TensorMarginClassifierCV, nested_evaluation
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> data = make_low_rank_classes(60, (6, 7), rank=1, random_state=0)
    >>> search = TensorMarginClassifierCV(decompositions=("cp",), ranks=(1,), lams=(1.0,), mus=(1.0,), cv=3)
    >>> nested = nested_evaluation(search, data.data, data.target, cv=3)
    >>> bool(np.isclose(nested.accuracy, (nested.predicted[0] == data.target).mean()))
    True
    """

    folds: Sequence[OuterFold]
    labels: Array
    groups: Array | None
    predicted: Array
    reference_predicted: Array
    confidence: Array
    tested: Array
    score: str
    scheme: str
    seed: int
    probabilities: Array | None = None

    def __repr__(self) -> str:
        return f"NestedEvaluation({'; '.join(f'{name} {value}' for name, value in self._facts())})"

    def _repr_html_(self) -> str:
        return facts_table("NestedEvaluation", self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        """Return the scores with their intervals, in words."""
        gain = self.difference
        certain = "" if gain.p_value is None else f" (p = {gain.p_value:.2g})"
        return [
            (self.score.replace("_", " "), str(self.interval)),
            (f"flat {REFERENCE}", str(self.reference_interval)),
            ("difference", f"{100 * gain.difference + 0.0:+.1f} points{certain}"),
            ("tested", f"{int(self.tested.any(axis=0).sum())} samples in {self.scheme}"),
        ]

    def _pooled(self, score: str, predicted: Array) -> float:
        labels = np.broadcast_to(self.labels, self.tested.shape)
        return pooled_score(score, labels[self.tested], predicted[self.tested])

    @property
    def accuracy(self) -> float:
        """Share of correct predictions."""
        return self._pooled("accuracy", self.predicted)

    @property
    def balanced_accuracy(self) -> float:
        """Mean over the classes of the share of correct predictions."""
        return self._pooled("balanced_accuracy", self.predicted)

    @property
    def reference(self) -> float:
        """Accuracy of the flat LinearSVC."""
        return self._pooled("accuracy", self.reference_predicted)

    @property
    def reference_balanced_accuracy(self) -> float:
        """Balanced accuracy of the flat LinearSVC."""
        return self._pooled("balanced_accuracy", self.reference_predicted)

    @cached_property
    def interval(self) -> ScoreInterval:
        """The model's score with its 95 % interval, by group if there are groups."""
        return score_interval(self.right, self.groups, self._strata)

    @cached_property
    def reference_interval(self) -> ScoreInterval:
        """The score of the flat LinearSVC with its 95 % interval."""
        return score_interval(self._right(self.reference_predicted), self.groups, self._strata)

    @cached_property
    def difference(self) -> PairedDifference:
        """The model's score minus the reference's, paired, with its 95 % interval."""
        return paired_difference(
            self.right,
            self._right(self.reference_predicted),
            self.groups,
            self._strata,
            by_split=self._differences_by_fold() if len(self.tested) > 1 else None,
            test_to_train=sum(fold.n_test for fold in self.folds) / sum(fold.n_train for fold in self.folds),
        )

    @property
    def right(self) -> FloatArray:
        """Whether each held-out prediction is correct, one row per repeat; NaN for samples in no test set."""
        return self._right(self.predicted)

    @property
    def _strata(self) -> Array | None:
        return self.labels if self.score == "balanced_accuracy" else None

    def _right(self, predicted: Array) -> FloatArray:
        return np.where(self.tested, predicted == self.labels, np.nan)

    def _differences_by_fold(self) -> FloatArray:
        return np.array([fold.score - fold.reference_score for fold in self.folds])


def nested_evaluation(
    model: Any,
    X: Any,
    y: Any,
    groups: Any = None,
    cv: Any = 5,
    repeats: int = 1,
    seed: int = 0,
    progress: Progress | None = None,
    score: str | None = None,
    checkpoint: Checkpoint | None = None,
    confounds: Any = None,
) -> NestedEvaluation:
    """Evaluate a model, including its hyperparameter search, and a tuned flat LinearSVC on the same splits.

    The reference uses the model's class weights, and is tuned over the model's preparations by the same score.

    Parameters
    ----------
    model : estimator
        `TensorMarginClassifierCV`, or a Pipeline that ends in it; it is cloned.
    X : array-like of shape (n_samples, I_1, ..., I_M), or Views
        The reference takes the views flattened, each scaled to the same norm.
    y : array-like of shape (n_samples,)
    groups : array-like of shape (n_samples,), optional
        Samples of one group stay together in the outer and inner splits.
    cv : int or splitter, default=5
        Outer folds.
    repeats : int, default=1
        Number of times the cross-validation is repeated with new folds.
    seed : int, default=0
    progress : callable, optional
        Called as ``progress(done, total, text)``.
    score : {"accuracy", "balanced_accuracy"}, optional
        Score of the intervals and of the comparison with the reference; by default balanced accuracy if the model uses
        it as ``scoring``, otherwise accuracy.
    checkpoint : Checkpoint, optional
        Keeps finished outer folds and the scores of the candidates in unfinished ones, so that an interrupted
        evaluation can be resumed.
    confounds : array-like of shape (n_samples, n_confounds), optional
        Confounds of the samples, for a model that removes them (`Deconfound`); learned on training sets only.

    Examples
    --------
    >>> from tensormargin import TensorMarginClassifierCV, nested_evaluation
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> data = make_low_rank_classes(80, (8, 9), rank=1, random_state=0)
    >>> search = TensorMarginClassifierCV(decompositions=("full", "cp"), ranks=(1,), lams=(1.0,), mus=(1.0,), cv=3)
    >>> nested = nested_evaluation(search, data.data, data.target, cv=4)
    >>> len(nested.folds), nested.predicted.shape
    (4, (1, 80))
    >>> nested.interval.low <= nested.accuracy <= nested.interval.high
    True
    """
    X = loaded_if_small(views_or_array(views_or_samples(X, ragged=takes_ragged(model))))
    y, metadata = checked_labels(X, y), Metadata.checked(X, groups, confounds)
    groups = metadata.groups
    warn_of_duplicates(X, groups)
    score = _score_of(model) if score is None else score
    check_score(score)
    splits = outer_splits(cv, y, groups, repeats, seed)
    for split in splits:  # raise before any work if a training set is too small to choose on
        _check_can_choose(y[split.train], None if groups is None else groups[split.train], seed)
    predicted, reference_predicted = (np.zeros((repeats, len(y)), y.dtype) for _ in range(2))
    confidence = np.full((repeats, len(y)), np.nan)
    probabilities = np.full((repeats, len(y), len(np.unique(y))), np.nan)
    tested = np.zeros((repeats, len(y)), bool)
    folds = []
    contents = (model, X, y, *metadata.content, splits, seed, score)
    with units_of(checkpoint, "evaluation", *contents) as units, shared():
        for split, result in _tests(model, X, y, metadata, splits, progress, seed, score, units):
            where = split.repeat, split.test
            predicted[where], reference_predicted[where] = result.predicted, result.reference_predicted
            probabilities[where], tested[where] = result.probabilities, True
            confidence[where] = _of_predicted(result, y)
            folds.append(result.fold)
    return NestedEvaluation(
        folds=folds,
        labels=y,
        groups=groups,
        predicted=predicted,
        reference_predicted=reference_predicted,
        confidence=confidence,
        tested=tested,
        score=score,
        scheme=_scheme(cv, len(splits) // repeats, repeats, groups),
        seed=seed,
        probabilities=None if np.isnan(probabilities).all() else probabilities,
    )


def _score_of(model: Any) -> str:
    return "balanced_accuracy" if getattr(last_estimator(model), "scoring", None) == "balanced_accuracy" else "accuracy"


def _alternatives(search: Any) -> Sequence[Any]:
    """Return the preparations that a search chooses from; None stands for no preparation."""
    preparation = getattr(search, "preparation", None)
    return preparation if isinstance(preparation, list | tuple) else [preparation]


def _check_can_choose(y: Array, groups: Array | None, seed: int) -> None:
    try:
        splits_of(2, y, groups, seed)
    except ValueError as error:
        raise ValueError(
            f"the training set of an outer fold ({len(y)} samples) is too small to choose on: {error}. More outer "
            "folds leave more for training"
        ) from error


@dataclass(frozen=True)
class _Tested:
    fold: OuterFold
    predicted: Array
    reference_predicted: Array
    probabilities: Array | float


def _tests(
    model: Any,
    X: Array,
    y: Array,
    metadata: Metadata,
    splits: Sequence[OuterSplit],
    progress: Progress | None,
    seed: int,
    score: str,
    units: Units,
) -> Iterator[tuple[OuterSplit, _Tested]]:
    """Yield the outer splits with their results, from the units or computed and then added to them."""
    keys = [f"{split.repeat}/{split.fold}" for split in splits]
    kept = sum(key in units for key in keys)
    if kept and progress is not None:
        progress(kept, len(splits), f"{kept} of {len(splits)} outer folds")
    stages = EqualStages(progress, len(splits))
    for done, (key, split) in enumerate(zip(keys, splits, strict=True)):
        if key in units:
            yield split, _restored(units[key], model)
            continue
        told = stages.begin(done, f"outer fold {done + 1} of {len(splits)}")
        inside = None if is_lazy(X) else units.below(key)  # a Dask array would be read to identify its rows
        result, alternatives = _test(model, X, y, metadata, split, told, seed, score, inside)
        units.finish(key, _storable(result, alternatives))
        stages.end()
        yield split, result


def _storable(result: _Tested, alternatives: Sequence[Any]) -> dict[str, Any]:
    """Return a result as data; preparations, which are objects, are replaced by their positions."""
    fold = dict(vars(result.fold))
    for name in ("chosen", "reference_chosen"):
        fold[name] = dict(fold[name])
        if "preparation" in fold[name]:
            value = fold[name]["preparation"]
            places = [k for k, one in enumerate(alternatives) if one is value or (one, value) == (None, "passthrough")]
            fold[name]["preparation"] = places[0] if places else value
    return {**vars(result), "fold": fold}


def _restored(stored: Mapping[str, Any], model: Any) -> _Tested:
    """Return a result from `_storable`, for the same model."""
    alternatives = _alternatives(last_estimator(model))
    fold = dict(stored["fold"])
    for name, without in (("chosen", None), ("reference_chosen", "passthrough")):
        if "preparation" in fold[name]:
            one = alternatives[fold[name]["preparation"]]
            fold[name] = {**fold[name], "preparation": without if one is None else clone(one)}
    return _Tested(**{**stored, "fold": OuterFold(**fold)})


def _test(
    model: Any,
    X: Array,
    y: Array,
    metadata: Metadata,
    split: OuterSplit,
    progress: Progress | None,
    seed: int,
    score: str,
    checkpoint: Checkpoint | None,
) -> tuple[_Tested, Sequence[Any]]:
    """Fit the model and the reference on the training set of a split and score them on its test set.

    Also returns the preparations that both chose from.
    """
    began = perf_counter()
    held_out = predict_held_out(model, X, y, metadata, split, progress, checkpoint)
    own, other = metadata.rows(split.train), metadata.rows(split.test)
    reference = _reference(held_out, y[split.train], own, seed, score)
    reference_predicted = predicted_labels(reference.estimator, held_out.test, other)
    y_test = y[split.test]
    fold = OuterFold(
        repeat=split.repeat,
        fold=split.fold,
        n_train=len(split.train),
        n_test=len(split.test),
        score=pooled_score(score, y_test, held_out.predicted),
        reference_score=pooled_score(score, y_test, reference_predicted),
        chosen=dict(getattr(held_out.estimator, "best_params_", {})),
        reference_chosen=reference.values,
        seconds=perf_counter() - began,
        unseen=tuple(np.setdiff1d(y_test, y[split.train]).tolist()),
        absent=tuple(np.setdiff1d(y, y_test).tolist()),
    )
    result = _Tested(fold, held_out.predicted, reference_predicted, _probabilities(held_out, np.unique(y), other))
    return result, _alternatives(held_out.estimator)


def _reference(held_out: HeldOut, y: Array, metadata: Metadata, seed: int, score: str) -> Tuned:
    """Return the flat LinearSVC, tuned and fitted on the training set as transformed for the model's last step."""
    model = held_out.estimator
    flat = contender(REFERENCE, class_weight=getattr(model, "class_weight", None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if is_lazy(held_out.training):
            return lazy_reference(flat, _alternatives(model), held_out.training, y, metadata, 5, seed, score)
        splits, n_jobs = _inner_splits(model, y, metadata.groups, seed), getattr(model, "n_jobs", None)
        chosen = tuned_behind(flat, _alternatives(model), held_out.training, y, splits, n_jobs, score, metadata)
        fit_model(chosen.estimator, held_out.training, y, metadata)
    return chosen


def _inner_splits(model: Any, y: Array, groups: Array | None, seed: int) -> list[Split]:
    """Return the splits that the reference is tuned on: the model's, so that both share what is computed on them."""
    if isinstance(model, TensorMarginClassifierCV) and isinstance(model.random_state, int | np.integer):
        return model.splits(y, groups)
    return splits_of(5, y, groups, seed)


def _probabilities(held_out: HeldOut, classes: Array, metadata: Metadata) -> Array | float:
    """Return the probabilities of all classes, zero for those that the training set lacks; NaN if there are none."""
    model = held_out.estimator
    if not hasattr(model, "predict_proba"):
        return np.nan
    found: Array = np.zeros((len(held_out.predicted), len(classes)))
    own = np.asarray(model.predict_proba(held_out.test, **metadata_for_last_step(model, metadata)))
    found[:, np.searchsorted(classes, model.classes_)] = own
    return found


def _of_predicted(result: _Tested, y: Array) -> Array | float:
    """Return the probability of each predicted class."""
    if isinstance(result.probabilities, float):
        return result.probabilities
    columns = np.searchsorted(np.unique(y), result.predicted)
    found: Array = result.probabilities[np.arange(len(columns)), columns]
    return found


def _scheme(cv: Any, folds: int, repeats: int, groups: Array | None) -> str:
    if not isinstance(cv, int):
        return f"{folds} splits by {cv}"
    kind = "stratified folds" if groups is None else "folds that keep groups together"
    return f"{folds} {kind}" + (f", drawn {repeats} times" if repeats > 1 else "")
