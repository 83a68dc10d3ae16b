"""Nested cross-validation: unbiased scores for a model that chooses its own hyperparameters."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone

from ..data import Checkpoint, FactsMixin, Metadata, Units, any_scale, check_classes, units_of
from ..inspection import last_estimator, metadata_for_last_step, predicted_labels
from ..runtime import Array, Deadline, EqualStages, FloatArray, Progress, is_lazy
from ..selection import kept_products, splits_of
from ..transformers import UnseenCategoryWarning, shared
from .held_out import (
    HeldOut,
    Labelled,
    OuterSplit,
    checked_score,
    outer_splits,
    pooled_score,
    predict_held_out,
    seeded,
    settled_kind,
)
from .intervals import PairedDifference, ScoreInterval, paired_difference, score_interval
from .references import REFERENCE, Reference, alternatives_of

CHOSEN = ("chosen", "reference_chosen", "matched_chosen")
"""Fields of `OuterFold` that may hold a preparation."""

FOLD = 1.5
"""Seconds that an outer fold takes, with its references, per second of its search (benchmarks/forecasts.py)."""


@dataclass(frozen=True)
class OuterFold:
    """One outer fold: scores and chosen hyperparameters of the model and of the flat references.

    The reference takes the samples as they are, the matched one the representation that the model has chosen.
    ``unseen`` lists the classes of the test set that the training set lacks; their samples cannot be predicted
    correctly. ``absent`` lists the classes that the test set lacks, which changes the chance level in this fold.
    ``cut`` names what the budget ended early, "search" and "reference". ``groups`` are those of the test set.

    Examples
    --------
    >>> from tensormargin.evaluation import OuterFold
    >>> fold = OuterFold(0, 0, 40, 20, 0.95, 0.9, {"decomposition": "cp"}, {"svc__C": 1.0}, seconds=0.5)
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
    matched_score: float = np.nan
    matched_chosen: dict[str, Any] = field(default_factory=dict)
    cut: tuple[str, ...] = ()
    groups: tuple[Any, ...] = ()


@dataclass(frozen=True, repr=False)
class NestedEvaluation(FactsMixin):
    """Held-out predictions of a nested cross-validation, and their scores.

    Scores pool all held-out predictions, so they agree with the confusion matrix of these.

    Attributes
    ----------
    folds : sequence of OuterFold
    labels : ndarray of shape (n_samples,)
    groups : ndarray of shape (n_samples,) or None
    predicted, reference_predicted : ndarray of shape (n_repeats, n_samples)
        Held-out predictions of the model, and of a flat LinearSVC tuned in the same way, in each repeat.
    matched_predicted : ndarray of that shape or None
        The same of a LinearSVC on the representation that the model has chosen in each fold. None if that is always the
        samples as they are.
    confidence : ndarray of shape (n_repeats, n_samples)
        The model's probability of the predicted label, NaN for models without probabilities.
    tested : ndarray of bool, of shape (n_repeats, n_samples)
        False for samples that were never tested: a splitter may leave samples out, and folds whose training set would
        lack a class are dropped.
    score : {"accuracy", "balanced_accuracy"}
        The score of `interval`, `reference_interval` and `difference`.
    scheme : str
        How the samples were split, in words.
    seed : int
    probabilities : ndarray of shape (n_repeats, n_samples, n_classes) or None
        Probability of each class, in sorted order, for held-out samples; zero for a class that the training set of the
        fold lacks, NaN for samples that were never tested. None for models without probabilities.
    n_planned : int
        Number of outer folds that were planned; a budget may leave time for fewer.

    Examples
    --------
    `nested_evaluation` returns one.

    >>> from dataclasses import fields
    >>> from tensormargin.evaluation import NestedEvaluation
    >>> [field.name for field in fields(NestedEvaluation)][:4]
    ['folds', 'labels', 'groups', 'predicted']
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
    matched_predicted: Array | None = None
    n_planned: int = 0

    def _facts(self) -> list[tuple[str, str]]:
        references = {f"flat {REFERENCE}": self.flat, f"{REFERENCE} on the chosen representation": self.matched}
        facts = [(self.score.replace("_", " "), str(self.interval))]
        for name, one in references.items():
            if one is not None:
                certain = "" if one.difference.p_value is None else f" (p = {one.difference.p_value:.2g})"
                gain = f"{100 * one.difference.difference + 0.0:+.1f} points{certain}"
                facts += [(name, str(one.interval)), ("difference", gain)]
        worst = [f"{group} {one}" for group, one in list(self.by_group.items())[:3]]
        facts += [("worst groups", ", ".join(worst))] if worst else []
        return [*facts, ("tested", f"{int(self.tested.any(axis=0).sum())} samples in {self.scheme}")]

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
        return self.flat.accuracy

    @property
    def reference_balanced_accuracy(self) -> float:
        """Balanced accuracy of the flat LinearSVC."""
        return self.flat.balanced_accuracy

    @cached_property
    def interval(self) -> ScoreInterval:
        """The model's score with its 95 % interval, by group if there are groups.

        It is for the expected score on new samples (of new groups) of models that are chosen and fitted as this one is,
        on training sets of the size of those of the outer folds, and covers it in 90 to 99 % of data sets
        (docs/reliability.md).
        """
        return score_interval(self.right, self.groups, self._strata, self.n_train)

    @cached_property
    def by_group(self) -> dict[Any, ScoreInterval]:
        """The accuracy in each group, with Wilson's interval over its samples, worst first; empty without groups."""
        if self.groups is None:
            return {}
        rows = {group: self.groups == group for group in np.unique(self.groups[self.tested.any(axis=0)]).tolist()}
        scores = {group: score_interval(self.right[:, own]) for group, own in rows.items()}
        return dict(sorted(scores.items(), key=lambda item: item[1].score))

    @property
    def reference_interval(self) -> ScoreInterval:
        """The score of the flat LinearSVC with its 95 % interval."""
        return self.flat.interval

    @property
    def cut(self) -> str:
        """What the budget did to the evaluation, in words; empty if nothing."""
        number = len(self.folds)
        searches, references = (sum(what in fold.cut for fold in self.folds) for what in ("search", "reference"))
        ended = [f"the search in {searches} of {number} outer folds"] if searches else []
        ended += [f"the tuning of the flat {REFERENCE} in {references} of {number} outer folds"] if references else []
        parts = [f"cut {' and '.join(ended)}"] if ended else []
        missing = self.n_planned - number
        parts += [f"left no time for {missing} of {self.n_planned} outer folds"] if missing > 0 else []
        return " and ".join(parts)

    @property
    def difference(self) -> PairedDifference:
        """The model's score minus the reference's, paired, with its 95 % interval.

        Where the budget cut the search or the reference in a fold, neither of them is what it would be with more time,
        and there is no interval and no p-value.
        """
        return self.flat.difference

    @cached_property
    def flat(self) -> ReferenceScores:
        """The scores of a flat LinearSVC on the samples as they are."""
        return self._scores_of(self.reference_predicted)

    @cached_property
    def matched(self) -> ReferenceScores | None:
        """The scores of a flat LinearSVC on the representations that the model has chosen.

        None if the model has always chosen the samples as they are.
        """
        if self.matched_predicted is None:
            return None
        return self._scores_of(self.matched_predicted)

    def _scores_of(self, predicted: Array) -> ReferenceScores:
        right = self._right(predicted)
        return ReferenceScores(
            predicted,
            self._pooled("accuracy", predicted),
            self._pooled("balanced_accuracy", predicted),
            score_interval(right, self.groups, self._strata, self.n_train),
            self.minus(right, cut=any(fold.cut for fold in self.folds)),
        )

    def minus(self, right: Array, cut: bool) -> PairedDifference:
        """Return the score minus another one on the same splits, which has no interval if a budget has ``cut`` one."""
        found = paired_difference(self.right, right, self.groups, self._strata, self.n_train)
        return found.without_interval() if cut else found

    @property
    def right(self) -> FloatArray:
        """Whether each held-out prediction is correct, one row per repeat; NaN for samples that were never tested."""
        return self._right(self.predicted)

    @property
    def n_train(self) -> float:
        """Mean size of the training sets of the outer folds."""
        return float(np.mean([fold.n_train for fold in self.folds]))

    @property
    def _strata(self) -> Array | None:
        return self.labels if self.score == "balanced_accuracy" else None

    def _right(self, predicted: Array) -> FloatArray:
        return np.where(self.tested, predicted == self.labels, np.nan)


@dataclass(frozen=True)
class ReferenceScores:
    """Held-out predictions of a reference, their scores, and the model's score minus the reference's, paired."""

    predicted: Array
    accuracy: float
    balanced_accuracy: float
    interval: ScoreInterval
    difference: PairedDifference


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
    budget: float | Deadline | None = None,
) -> NestedEvaluation:
    """Evaluate a model, including its hyperparameter search, and a tuned flat LinearSVC on the same splits.

    The reference uses the model's class weights, and its C is chosen on the same inner splits by the same score. If the
    model chooses a representation of the samples, there are two references: LinearSVC on the samples as they are, and
    on the representation chosen on each training set.

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
        Used for the folds, and for what is random in a model without a ``random_state``.
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
    budget : float, optional
        Seconds for the evaluation. They are shared equally by the outer folds, and in each by the search and the
        reference; folds that would not end in time are left out, except for the first. With a ``budget`` of the model
        alone, each search has so many seconds, and so has each reference.

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
    samples = Labelled.checked(model, X, y, groups, confounds)
    samples.warn_of_leakage()
    score, model = checked_score(model, score), settled_kind(seeded(model, seed), samples)
    y, groups = samples.y, samples.groups
    splits = checked_outer_splits(cv, y, groups, repeats, seed)
    predicted, reference_predicted, matched_predicted = (np.zeros((repeats, len(y)), y.dtype) for _ in range(3))
    classes, folds, deadline = np.unique(y), list[OuterFold](), Deadline.of(budget)
    probabilities = np.full((repeats, len(y), len(classes)), np.nan)
    confidence, tested = np.full((repeats, len(y)), np.nan), np.zeros((repeats, len(y)), bool)
    limits = [deadline.budget] if deadline.limited else []
    held_back = warnings.catch_warnings(action="ignore", category=UnseenCategoryWarning)  # issued once, above
    content = (model, *samples.content, splits, seed, score, *limits)
    with units_of(checkpoint, "evaluation", *content) as units, shared, held_back:
        for split, result in _OuterLoop(model, samples, seed, score, units).results(splits, progress, deadline):
            where = split.repeat, split.test
            predicted[where], reference_predicted[where] = result.predicted, result.reference_predicted
            matched_predicted[where] = result.matched_predicted
            probabilities[where], tested[where] = result.probabilities, True
            columns = np.searchsorted(classes, result.predicted)
            confidence[where] = probabilities[split.repeat, split.test, columns]
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
        matched_predicted=matched_predicted if any(fold.matched_chosen for fold in folds) else None,
        n_planned=len(splits),
    )


def checked_outer_splits(cv: Any, y: Array, groups: Array | None, repeats: int, seed: int) -> list[OuterSplit]:
    """Return the outer splits; raise ValueError, before any work, if a training set is too small to choose on."""
    check_classes(y, in_folds=True)
    splits = outer_splits(cv, y, groups, repeats, seed)
    for split in splits:
        _check_can_choose(y[split.train], None if groups is None else groups[split.train], seed)
    return splits


def _check_can_choose(y: Array, groups: Array | None, seed: int) -> None:
    try:
        splits_of(2, y, groups, seed)
    except ValueError as error:
        remedy = "More outer folds leave more for training"
        if groups is not None and len(np.unique(groups)) < 2:
            remedy = "Use smaller groups (runs, blocks), no groups (--no-groups), or no evaluation (--outer-folds 0)"
        raise ValueError(
            f"the training set of an outer fold ({len(y)} samples) is too small to choose on: {error}. {remedy}"
        ) from error


@dataclass(frozen=True)
class _Tested:
    fold: OuterFold
    predicted: Array
    reference_predicted: Array
    matched_predicted: Array
    probabilities: Array | float

    def storable(self, alternatives: Sequence[Any]) -> dict[str, Any]:
        """Return the result as data; preparations, which are objects, are replaced by their positions."""

        def place(used: Any) -> Any:
            return next((k for k, one in enumerate(alternatives) if one is used), used)

        return {**vars(self), "fold": _with_preparations(vars(self.fold), place)}

    @classmethod
    def restored(cls, stored: Mapping[str, Any], alternatives: Sequence[Any]) -> _Tested:
        """Return a result from `storable`, for the same model."""
        fold = _with_preparations(stored["fold"], lambda place: clone(alternatives[place], safe=False))
        return cls(**{**stored, "fold": OuterFold(**fold)})


def _with_preparations(fold: Mapping[str, Any], changed: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the fields of a fold with every chosen preparation changed."""
    own = {name: fold[name] for name in CHOSEN if "preparation" in fold[name]}
    return {**fold, **{name: {**one, "preparation": changed(one["preparation"])} for name, one in own.items()}}


@dataclass(frozen=True)
class _OuterLoop:
    """The loop over the outer folds of a model and its references."""

    model: Any
    samples: Labelled
    seed: int
    score: str
    units: Units

    def results(
        self, splits: Sequence[OuterSplit], progress: Progress | None, deadline: Deadline
    ) -> Iterator[tuple[OuterSplit, _Tested]]:
        """Yield the outer splits with their results, from the units or computed and then added to them."""
        units, number = self.units, len(splits)
        keys = [f"{split.repeat}/{split.fold}" for split in splits]
        kept = sum(key in units for key in keys)
        if kept and progress is not None:
            progress(kept, number, f"{kept} of {number} outer folds")
        stages = EqualStages(progress, number, expected=1 / FOLD)
        for done, (key, split) in enumerate(zip(keys, splits, strict=True)):
            if key in units:
                yield split, _Tested.restored(units[key], alternatives_of(last_estimator(self.model)))
                continue
            n_left, least = number - done, fold_seconds(deadline)
            if deadline.limited and least:  # as many as the time left allows, if each takes as little as it can
                n_left = min(n_left, int(max(deadline.left, 0.0) / least))
            if not n_left and done:
                break
            within = stages.begin(done, f"outer fold {done + 1} of {number}")
            inside = None if is_lazy(self.samples.X) else units.below(key)  # a Dask array would be read to identify it
            with kept_products:
                result, alternatives = self._test(split, within, inside, deadline.part(1 / max(n_left, 1)))
            units.finish(key, result.storable(alternatives))
            stages.end()
            yield split, result

    @any_scale()
    def _test(
        self, split: OuterSplit, progress: Progress | None, checkpoint: Checkpoint | None, deadline: Deadline
    ) -> tuple[_Tested, Sequence[Any]]:
        """Fit the model and the references on the training set of a split and score them on its test set.

        Also returns the preparations that the model chose from.
        """
        began, y = perf_counter(), self.samples.y
        half = deadline.part(0.5) if deadline.limited else None
        running = {"progress": progress, "checkpoint": checkpoint, "deadline": half}
        held_out = predict_held_out(self.model, self.samples, split, **running)
        model, other = held_out.estimator, self.samples.metadata.rows(split.test)
        training = Labelled(held_out.training, y[split.train], self.samples.metadata.rows(split.train))
        within = deadline if deadline.limited else Deadline.of(getattr(last_estimator(self.model), "budget", None))
        reference, matched = Reference(model, training, self.seed, self.score).both(within)
        y_test, reference_predicted = y[split.test], predicted_labels(reference.estimator, held_out.test, other)
        matched_predicted = reference_predicted
        if matched is not reference:
            matched_predicted = predicted_labels(matched.estimator, held_out.test, other)
        cuts = {"search": getattr(model, "stopped_", ""), "reference": reference.cut or matched.cut}
        fold = OuterFold(
            repeat=split.repeat,
            fold=split.fold,
            n_train=len(split.train),
            n_test=len(split.test),
            score=pooled_score(self.score, y_test, held_out.predicted),
            reference_score=pooled_score(self.score, y_test, reference_predicted),
            chosen=dict(getattr(model, "best_params_", {})),
            reference_chosen=reference.values,
            seconds=perf_counter() - began,
            unseen=tuple(np.setdiff1d(y_test, training.y).tolist()),
            absent=tuple(np.setdiff1d(y, y_test).tolist()),
            matched_score=pooled_score(self.score, y_test, matched_predicted),
            matched_chosen={} if matched is reference else matched.values,
            cut=tuple(what for what, happened in cuts.items() if happened),
            groups=() if other.groups is None else tuple(np.unique(other.groups).tolist()),
        )
        probabilities = _probabilities(held_out, np.unique(y), other)
        result = _Tested(fold, held_out.predicted, reference_predicted, matched_predicted, probabilities)
        return result, alternatives_of(model)


def fold_seconds(deadline: Deadline) -> float:
    """Return the fewest seconds that an outer fold takes, from what has been measured."""
    return deadline.costs.of("search") + 2 * deadline.costs.of("reference", "search")


def _probabilities(held_out: HeldOut, classes: Array, metadata: Metadata) -> Array | float:
    """Return the probabilities of all classes, zero for those that the training set lacks; NaN if there are none."""
    model = held_out.estimator
    if not hasattr(model, "predict_proba"):
        return np.nan
    found: Array = np.zeros((len(held_out.predicted), len(classes)))
    own = np.asarray(model.predict_proba(held_out.test, **metadata_for_last_step(model, metadata)))
    found[:, np.searchsorted(classes, model.classes_)] = own
    return found


def _scheme(cv: Any, folds: int, repeats: int, groups: Array | None) -> str:
    if not isinstance(cv, int):
        return f"{folds} splits by {type(cv).__name__}"
    kind = "stratified folds" if groups is None else "folds that keep groups together"
    return f"{folds} {kind}" + (f", drawn {repeats} times" if repeats > 1 else "")
