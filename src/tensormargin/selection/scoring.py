"""Scores of fitted models on samples that were left out, with probabilities where a scorer asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Self

import numpy as np

from .._namespace import to_host
from .._typing import Array, FloatArray
from ..estimators import TensorMarginClassifier
from ..formats.base import Rank
from ..margins import cantelli_bound
from ..multiclass import binary_problems, class_codes
from .calibration import calibrate, class_probabilities
from .search import Part, PathResults, Training
from .splits import Split


class NeedsOtherSplitsError(RuntimeError):
    """Probabilities were asked for before the scores of the other splits were there."""


class SplitClassifier(TensorMarginClassifier):
    """What a scorer is given: the classifier of one split, whose answers are NumPy's arrays, with probabilities.

    Probabilities are calibrated on the scores of samples that the other splits left out. As long as those are missing,
    `predict_proba` notes in ``asked_`` that it was called, and raises.
    """

    calibration_: FloatArray | None
    asked_: bool

    @classmethod
    def of(cls, classifier: TensorMarginClassifier, calibration: FloatArray | None = None) -> Self:
        """Return a fitted classifier as one for scorers."""
        one = cls()
        one.__dict__.update(vars(classifier), calibration_=calibration, asked_=False)
        return one

    def decision_function(self, X: Any) -> Array:
        """Return the scores of `TensorMarginClassifier.decision_function`."""
        return to_host(super().decision_function(X))

    def predict(self, X: Any) -> Array:
        """Return the predicted labels."""
        return to_host(super().predict(X))

    def predict_proba(self, X: Any) -> FloatArray:
        """Return class probabilities, one column per class."""
        self.asked_ = True
        if self.calibration_ is None:
            raise NeedsOtherSplitsError("probabilities are calibrated when the scores of all splits are there")
        return class_probabilities(to_host(self.binary_scores(X)), self.calibration_, self.multi_class_)


@dataclass(frozen=True)
class Result:
    """What became of one fit.

    ``classifier`` and ``left_out``, its scores of the test rows, are kept as long as the score waits for the other
    splits.
    """

    score: float
    bound: float
    fit_seconds: float
    score_seconds: float
    n_parameters: int
    rank: Rank
    classifier: TensorMarginClassifier | None = None
    left_out: Array | None = None

    @property
    def waits(self) -> bool:
        """Whether the score waits for the other splits."""
        return self.left_out is not None


@dataclass(frozen=True)
class Assess:
    """Scores a fitted classifier on samples that were left out."""

    scorer: Callable[..., float]

    def __call__(self, classifier: TensorMarginClassifier, tested: Part, fit_seconds: float) -> Result:
        """Return what became of the fit; without a score yet if the scorer asks for probabilities."""
        scores = to_host(classifier.binary_scores(tested[0]))
        bound = _margin_bound(scores, classifier, tested)
        model, score = SplitClassifier.of(classifier), np.nan
        began = perf_counter()
        try:
            score = self.score(model, tested)
        except Exception:  # a scorer may answer `NeedsOtherSplitsError` with any error of its own
            if not model.asked_:
                raise
            # It is asked again when the other splits are there; an error of another cause is raised then.
        result = Result(score, bound, fit_seconds, perf_counter() - began, classifier.n_parameters_, classifier.rank)
        return replace(result, classifier=classifier, left_out=scores) if model.asked_ else result

    def score(self, model: SplitClassifier, tested: Part) -> float:
        """Return the score of a model, a finite number."""
        X, y, weights = tested
        try:
            score = float(self.scorer(model, X, y, **weights))
        except ValueError as error:
            missing = np.setdiff1d(to_host(model.classes_), y)
            if missing.size == 0:
                raise
            raise ValueError(
                f"scoring failed on a test part without samples of {missing.tolist()}: {error}. Use another scoring, "
                "or folds whose test parts have all classes"
            ) from error
        if not np.isfinite(score) and not (model.asked_ and model.calibration_ is None):
            raise ValueError(
                f"scoring must give a finite number for every test part; got {score} for one with the classes "
                f"{np.unique(y).tolist()}. Use another scoring, or folds whose test parts have all classes"
            )
        return score


def _margin_bound(scores: Array, classifier: TensorMarginClassifier, tested: Part) -> float:
    """Return Cantelli's bound (Theorem 1) for the margins of the samples, the mean over the binary problems."""
    _, y, weights = tested
    classes = to_host(classifier.classes_)
    problems = binary_problems(class_codes(y, classes), len(classes), classifier.multi_class_)
    bounds = []
    for column, problem in enumerate(problems):
        rows = np.arange(len(y)) if problem.rows is None else problem.rows
        own = weights["sample_weight"][rows] if weights else None
        if len(rows) and (own is None or own.sum() > 0):
            bounds.append(cantelli_bound(problem.signs * scores[rows, column].astype(np.float64), own))
    return float(np.mean(bounds)) if bounds else 1.0


@dataclass(frozen=True)
class Waiting:
    """Keeps the results of each path until all of its splits are there, and scores what asked for probabilities.

    Those of a split come from its own scores and a calibration on the left-out scores of the other splits, so that no
    fit is made for them. What a path kept is dropped as soon as it is scored.
    """

    training: Training
    splits: Sequence[Split]
    assess: Assess
    _arrived: dict[int, list[PathResults]] = field(default_factory=dict)

    def completed(self, one: PathResults) -> list[PathResults]:
        """Return the results of all splits of a path if these are the last of them, otherwise none."""
        same = self._arrived.setdefault(one.path, [])
        same.append(one)
        if len(same) < len(self.splits):
            return []
        del self._arrived[one.path]
        same.sort(key=lambda each: each.split)  # results come in any order, and sums depend on it
        return [self._scored(own, same) for own in same]

    def _scored(self, own: PathResults, same: list[PathResults]) -> PathResults:
        if not any(result.waits for result in own.results):
            return own
        tested = self.training.transformed_part(own.preparation, self.splits[own.split][1])
        results = []
        for place, result in enumerate(own.results):
            if result.waits:
                model = SplitClassifier.of(result.classifier, self._calibration(own, same, place))
                began = perf_counter()
                score = self.assess.score(model, tested)
                took = result.score_seconds + perf_counter() - began
                result = replace(result, score=score, score_seconds=took, classifier=None, left_out=None)
            results.append(result)
        return PathResults(own.path, own.split, results)

    def _calibration(self, own: PathResults, same: list[PathResults], place: int) -> FloatArray:
        """Return the calibration on what the other splits left out and this one did not."""
        others = [one for one in same if one is not own and one.results[place].waits]
        rows = np.concatenate([np.empty(0, int), *(self.splits[one.split][1] for one in others)])
        other = ~np.isin(rows, self.splits[own.split][1])
        if not other.any():
            raise ValueError(
                "scoring asks for probabilities, which are calibrated on the samples that the other splits leave out; "
                f"got {len(self.splits)} splits, and split {own.split} has no others. Use two or more splits with "
                "different test parts, or a scoring by predict or decision_function, such as 'roc_auc'"
            )
        rows, scores = rows[other], np.concatenate([one.results[place].left_out for one in others])[other]
        classifier = own.results[place].classifier
        classes = to_host(classifier.classes_)
        weights = None if self.training.weights is None else self.training.weights[rows]
        codes = class_codes(self.training.y[rows], classes)
        return calibrate(scores, codes, weights, len(classes), classifier.multi_class_)
