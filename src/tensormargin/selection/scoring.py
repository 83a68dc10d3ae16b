"""Scores of fitted models on held-out samples, with probabilities if a scorer needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Self

import numpy as np

from .._namespace import to_host
from .._typing import Array, FloatArray
from ..calibration import calibrate, class_probabilities
from ..estimators import TensorMarginClassifier
from ..formats.base import Rank
from ..margins import cantelli_bound
from ..multiclass import binary_problems, class_codes
from .search import Part, PathResults, Training
from .splits import Split


class NeedsOtherSplitsError(RuntimeError):
    """Raised if probabilities are requested before the scores of the other splits are available."""


class SplitClassifier(TensorMarginClassifier):
    """The classifier of one split as passed to a scorer: returns NumPy arrays and has probabilities.

    Probabilities are calibrated on the held-out scores of the other splits. As long as these are missing,
    `predict_proba` records the call in ``asked_`` and raises.
    """

    calibration_: FloatArray | None
    asked_: bool

    @classmethod
    def of(cls, classifier: TensorMarginClassifier, calibration: FloatArray | None = None) -> Self:
        """Return a `SplitClassifier` with the attributes of a fitted classifier."""
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
    """The result of one fit.

    ``classifier`` and ``left_out``, its scores on the test rows, are kept while the score waits for the other splits.
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
    """Scores a fitted classifier on held-out samples."""

    scorer: Callable[..., float]

    def __call__(self, classifier: TensorMarginClassifier, tested: Part, fit_seconds: float) -> Result:
        """Return the result of a fit, without a score yet if the scorer needs probabilities."""
        scores = to_host(classifier.binary_scores(tested[0]))
        bound = _margin_bound(scores, classifier, tested)
        model, score = SplitClassifier.of(classifier), np.nan
        began = perf_counter()
        try:
            score = self.score(model, tested)
        except Exception:  # a scorer may turn `NeedsOtherSplitsError` into any other error
            if not model.asked_:
                raise
            # It is called again when the other splits are available; an error with another cause is raised then.
        result = Result(score, bound, fit_seconds, perf_counter() - began, classifier.n_parameters_, classifier.rank)
        return replace(result, classifier=classifier, left_out=scores) if model.asked_ else result

    def score(self, model: SplitClassifier, tested: Part) -> float:
        """Return the score of a model; raise ValueError if it is not finite."""
        X, y, weights = tested
        try:
            score = float(self.scorer(model, X, y, **weights))
        except ValueError as error:
            missing = np.setdiff1d(to_host(model.classes_), y)
            if missing.size == 0:
                raise
            raise ValueError(
                f"scoring failed on a test set without samples of {missing.tolist()}: {error}. Use another scoring, "
                "or folds whose test sets have all classes"
            ) from error
        if not np.isfinite(score) and not (model.asked_ and model.calibration_ is None):
            raise ValueError(
                f"scoring must give a finite number for every test set; got {score} for one with the classes "
                f"{np.unique(y).tolist()}. Use another scoring, or folds whose test sets have all classes"
            )
        return score


def _margin_bound(scores: Array, classifier: TensorMarginClassifier, tested: Part) -> float:
    """Return Cantelli's bound (Theorem 1) for the margins of the samples, averaged over the binary problems."""
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
    """Collects the results of each path until all splits are available, then computes scores that need probabilities.

    The probabilities of a split are its own scores calibrated on the held-out scores of the other splits, so that no
    extra fits are needed. The stored results of a path are dropped once it is scored.
    """

    training: Training
    splits: Sequence[Split]
    assess: Assess
    _arrived: dict[int, list[PathResults]] = field(default_factory=dict)

    def completed(self, one: PathResults) -> list[PathResults]:
        """Return the results of all splits of a path if this was the last one, otherwise an empty list."""
        same = self._arrived.setdefault(one.path, [])
        same.append(one)
        if len(same) < len(self.splits):
            return []
        del self._arrived[one.path]
        same.sort(key=lambda each: each.split)  # results arrive in any order, which affects sums
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
        """Return the calibration on the held-out samples of the other splits that this one does not hold out."""
        others = [one for one in same if one is not own and one.results[place].waits]
        rows = np.concatenate([np.empty(0, int), *(self.splits[one.split][1] for one in others)])
        other = ~np.isin(rows, self.splits[own.split][1])
        if not other.any():
            raise ValueError(
                "scoring asks for probabilities, which are calibrated on the samples that the other splits leave out; "
                f"got {len(self.splits)} splits, and split {own.split} has no others. Use two or more splits with "
                "different test sets, or a scoring by predict or decision_function, such as 'roc_auc'"
            )
        rows, scores = rows[other], np.concatenate([one.results[place].left_out for one in others])[other]
        classifier = own.results[place].classifier
        classes = to_host(classifier.classes_)
        weights = None if self.training.weights is None else self.training.weights[rows]
        codes = class_codes(self.training.y[rows], classes)
        return calibrate(scores, codes, weights, len(classes), classifier.multi_class_)
