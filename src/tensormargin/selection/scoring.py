"""Scores of fitted models on held-out samples, their table, and the selection of a candidate from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Self

import numpy as np
from scipy.stats import rankdata

from ..estimators import TensorMarginClassifier
from ..fitting import (
    Rank,
    binary_problems,
    calibrate,
    class_codes,
    class_probabilities,
    combine_scores,
    predicted_codes,
    sample_array,
)
from ..inspection import cantelli_bound
from ..runtime import Array, FloatArray, to_host
from .grid import Candidate
from .race import Race, Unit
from .splits import Split
from .training import HeldOut, Part, Training


class NeedsOtherSplitsError(RuntimeError):
    """Raised if probabilities are requested before the scores of the other splits are available."""


class SplitClassifier(TensorMarginClassifier):
    """The classifier of one split as passed to a scorer: returns NumPy arrays and has probabilities.

    Probabilities are calibrated on the held-out scores of the other splits. As long as these are missing,
    `predict_proba` records the call in ``requested_`` and raises.
    """

    calibration_: FloatArray | None
    requested_: bool
    known_: tuple[Any, Array] | None  # samples and their binary scores, which then are not computed again

    @classmethod
    def of(
        cls,
        classifier: TensorMarginClassifier,
        calibration: FloatArray | None = None,
        known: tuple[Any, Array] | None = None,
    ) -> Self:
        """Return a `SplitClassifier` with the attributes of a fitted classifier."""
        one = cls()
        one.__dict__.update(vars(classifier), calibration_=calibration, requested_=False, known_=known)
        return one

    def binary_scores(self, X: Any) -> Array:
        """Return the scores of `TensorMarginClassifier.binary_scores`."""
        if self.known_ is not None and X is self.known_[0]:
            return self.known_[1]
        return to_host(super().binary_scores(X))

    def decision_function(self, X: Any) -> Array:
        """Return the scores of `TensorMarginClassifier.decision_function`."""
        return to_host(combine_scores(self.binary_scores(X), self.classes_.shape[0], self.multi_class_))

    def predict(self, X: Any) -> Array:
        """Return the predicted labels."""
        decisions = combine_scores(self.binary_scores(X), self.classes_.shape[0], self.multi_class_)
        return to_host(self.classes_)[predicted_codes(decisions)]

    def predict_proba(self, X: Any) -> FloatArray:
        """Return class probabilities, one column per class."""
        self.requested_ = True
        if self.calibration_ is None:
            raise NeedsOtherSplitsError("probabilities are calibrated when the scores of all splits are there")
        return class_probabilities(to_host(self.binary_scores(X)), self.calibration_, self.multi_class_)


@dataclass(frozen=True)
class Result:
    """The result of one fit.

    ``left_out`` are its binary scores of the test rows. ``classifier`` and ``preparation`` are kept as long as the
    score depends on the other splits.
    """

    score: float
    bound: float
    fit_seconds: float
    score_seconds: float
    n_parameters: int
    rank: Any
    left_out: Array | None = None
    classifier: TensorMarginClassifier | None = None
    preparation: Any = None

    @property
    def waits(self) -> bool:
        """Whether the score depends on the other splits."""
        return self.classifier is not None

    @property
    def scores(self) -> Array:
        """The binary scores of the test rows, which must have been kept."""
        assert self.left_out is not None
        return self.left_out

    def forgotten(self) -> Result:
        """Return the numbers only."""
        return replace(self, left_out=None, classifier=None, preparation=None)


@dataclass(frozen=True)
class Assess:
    """Scores a fitted classifier on held-out samples.

    ``keep_scores`` says whether results hold the scores of the held-out samples. With ``accuracy`` the scorer is not
    called: the share of correct predictions is computed from these scores. With ``by_scores`` it is one of
    scikit-learn's, which depends on the model by its decisions only.
    """

    scorer: Callable[..., float]
    accuracy: bool = False
    keep_scores: bool = True
    by_scores: bool = False

    def __call__(
        self, classifier: TensorMarginClassifier, split: HeldOut, fit_seconds: float, scores: Array | None = None
    ) -> Result:
        """Return the result of a fit, without a score yet if the scorer needs probabilities.

        ``scores`` are the binary scores of the test set if they are known already.
        """
        began = perf_counter()
        X, y, weights = tested = split.tested
        if scores is None:
            scores = to_host(classifier.scores_in(sample_array(X)))
        bound = _margin_bound(scores, classifier, tested)
        waits, score = False, np.nan
        if self.accuracy and not weights:
            classes = to_host(classifier.classes_)
            codes = predicted_codes(combine_scores(scores, len(classes), classifier.multi_class_))
            score = float(np.mean(classes[codes] == y))
        else:
            score, waits = self._called(classifier, tested, scores)
        seconds = perf_counter() - began
        result = Result(score, bound, fit_seconds, seconds, classifier.n_parameters_, classifier.rank)
        if waits:
            return replace(result, left_out=scores, classifier=classifier, preparation=split.preparation)
        return replace(result, left_out=scores) if self.keep_scores else result

    def _called(self, classifier: TensorMarginClassifier, tested: Part, scores: Array) -> tuple[float, bool]:
        """Return the scorer's number, and whether it has to be called again with probabilities."""
        model = SplitClassifier.of(classifier, known=(tested[0], scores))
        try:
            return self.score(model, tested), model.requested_
        except Exception:  # a scorer may turn `NeedsOtherSplitsError` into any other error
            if not model.requested_:
                raise
            return np.nan, True  # an error with another cause is raised when it is called again

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
        if not np.isfinite(score) and not (model.requested_ and model.calibration_ is None):
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
class WithProbabilities:
    """Scores by scorers that need probabilities.

    The probabilities of a split are its own scores calibrated on the held-out scores of the candidate's other splits,
    so that no extra fits are needed. As long as the candidate has no other splits, they are calibrated on the split
    itself: such a score only says which candidates go on.
    """

    training: Training
    splits: Sequence[Split]
    assess: Assess

    def scored(self, own: Mapping[int, Result], complete: bool) -> dict[int, Result]:
        """Return the results of a candidate with their scores; when it is complete, without their classifiers."""
        return {split: self._scored(split, result, own, complete) for split, result in own.items()}

    def _scored(self, split: int, result: Result, own: Mapping[int, Result], complete: bool) -> Result:
        if result.classifier is None:
            return result
        tested = self.training.transformed_part(result.preparation, self.splits[split][1])
        began = perf_counter()
        calibration = self._calibration(split, own, result.classifier, complete)
        model = SplitClassifier.of(result.classifier, calibration, (tested[0], result.scores))
        score = self.assess.score(model, tested)
        result = replace(result, score=score, score_seconds=result.score_seconds + perf_counter() - began)
        return replace(result, classifier=None, preparation=None) if complete else result

    def _calibration(
        self, split: int, own: Mapping[int, Result], classifier: TensorMarginClassifier, complete: bool
    ) -> FloatArray:
        """Return the calibration on the held-out samples of the other splits that this one does not hold out."""
        others = [one for one in sorted(own) if one != split and own[one].waits]
        rows = np.concatenate([np.empty(0, int), *(self.splits[one][1] for one in others)])
        kept = ~np.isin(rows, self.splits[split][1])
        if kept.any():
            rows = rows[kept]
            scores = np.concatenate([own[one].scores for one in others])[kept]
        elif complete:
            raise ValueError(
                "scoring asks for probabilities, which are calibrated on the samples that the other splits leave out; "
                f"got {len(self.splits)} splits, and split {split} has no others. Use two or more splits with "
                "different test sets, or a scoring by predict or decision_function, such as 'roc_auc'"
            )
        else:
            rows, scores = self.splits[split][1], own[split].scores
        classes = to_host(classifier.classes_)
        weights = None if self.training.weights is None else self.training.weights[rows]
        codes = class_codes(self.training.y[rows], classes)
        return calibrate(scores, codes, weights, len(classes), classifier.multi_class_)


def tabulate(
    tried: Sequence[Candidate], done: Mapping[Unit, Result], race: Race, preparations: Sequence[Any]
) -> dict[str, Any]:
    """Return a ``cv_results_`` as in scikit-learn, with one row per candidate.

    Means and standard deviations are over the splits on which a candidate was fitted. ``n_parameters`` is the maximum
    over these, since a preparation may give each of them a different sample shape.
    """
    n_splits = race.n_splits
    names = {"score": "test_score", "bound": "margin_bound", "fit_seconds": "fit_time", "score_seconds": "score_time"}
    tables = {name: np.full((len(tried), n_splits), np.nan) for name in names}
    n_parameters = np.zeros(len(tried), int)
    for (row, split), result in done.items():
        if split >= n_splits:  # a smaller one
            continue
        for name, table in tables.items():
            table[row, split] = getattr(result, name)
        n_parameters[row] = max(n_parameters[row], result.n_parameters)
    params = [
        ({"preparation": preparations[one.preparation]} if len(preparations) > 1 else {}) | one.parameters
        for one in tried
    ]
    results: dict[str, Any] = {}
    for name in ("fit_seconds", "score_seconds"):
        results[f"mean_{names[name]}"], results[f"std_{names[name]}"] = _mean_and_spread(tables[name])
    for name in params[0]:
        column = _objects([parameters[name] for parameters in params])
        results[f"param_{name}"] = np.ma.masked_array(column, mask=False)
    results["params"] = params
    results["asked_rank"] = _objects([one.requested for one in tried])
    scores = tables["score"]
    results.update({f"split{k}_test_score": scores[:, k] for k in range(n_splits)})
    results["mean_test_score"], results["std_test_score"] = _mean_and_spread(scores)
    results["smoothed_test_score"] = race.smoothed().mean
    results["rank_test_score"] = _ranks(results["mean_test_score"], np.isfinite(scores).sum(axis=1))
    results["mean_margin_bound"] = _mean_and_spread(tables["bound"])[0]
    results["n_parameters"] = n_parameters
    results["n_splits_done"] = np.isfinite(scores).sum(axis=1)
    results["dropped"] = _objects(race.dropped)
    return results


def _mean_and_spread(table: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of the known entries of each row; NaN for rows without any."""
    known = np.isfinite(table)
    counts = np.where(known.any(axis=1), known.sum(axis=1), np.nan)
    means = np.where(known, table, 0.0).sum(axis=1) / counts
    squares = np.where(known, (table - means[:, None]) ** 2, 0.0)
    return means, np.sqrt(squares.sum(axis=1) / counts)


def _ranks(means: Array, n_done: Array) -> Array:
    """Return the ranks of the candidates by their means; those not fitted on all splits come after the others."""
    complete = n_done == n_done.max()
    means = np.round(means, 12)  # sums in another order are no difference
    ranks = np.empty(len(means), np.int32)
    ranks[complete] = rankdata(-means[complete], method="min")
    ranks[~complete] = complete.sum() + rankdata(-np.nan_to_num(means[~complete], nan=-np.inf), method="min")
    return ranks


def _objects(values: Sequence[Any]) -> Array:
    """Return a one-dimensional object array; ``np.array`` would turn tuples into rows."""
    column = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        column[row] = value
    return column


def lowered_on_splits(tried: Sequence[Candidate], done: Mapping[Unit, Result]) -> list[tuple[str, Rank, Rank]]:
    """Return decomposition, requested rank and used rank of the fits whose samples were too small for the rank."""
    used = ((tried[row], done[row, split].rank) for row, split in sorted(done))
    notes = (
        (one.decomposition, one.rank if one.requested is None else one.requested, rank)
        for one, rank in used
        if rank != one.rank
    )
    return list(dict.fromkeys(notes))


DEFAULT_RULE = "best"
"""The default rule of `select_candidate` in the search and in ``tensormargin fit``.

Measured by benchmarks/rules.py on 22 data sets (benchmarks/results/rules.md) and by benchmarks/search.py: no rule is
significantly better than another, and this is the one that users expect.
"""


LUCK = 2.0
"""Standard errors by which the best of many candidates must be above the default: one of many is always lucky. With
one standard error, two EEG and fMRI tasks lose 2 to 5 points to such choices (docs/field.md)."""


def needed_score(score: float, n_scored: int) -> float:
    """Return the score above which the best candidate is selected instead of a default with this score.

    It is higher by `LUCK` standard errors of the difference of two proportions of ``n_scored`` samples, and one sample.
    """
    # Agresti and Coull's two successes and two failures keep the standard error above zero.
    share = (min(max(score, 0.0), 1.0) * n_scored + 2) / (n_scored + 4)
    return score + (1 + LUCK * float(np.sqrt(2 * share * (1 - share) * (n_scored + 4)))) / (n_scored + 4)


def select_candidate(results: dict[str, Any], n_splits: int, rule: str, default: int = 0, n_scored: int = 1) -> int:
    """Return the index of the selected candidate.

    "smoothed" takes the highest ``smoothed_test_score``, "best" the highest mean score; ties go to the model with the
    fewest parameters. The other rules consider all candidates within one standard error of the best mean score:
    "simplest" takes the one with the fewest parameters, "margins" the one with the smallest ``mean_margin_bound``.
    "default" takes the ``default`` candidate unless the best one is above `needed_score`, given ``n_scored`` samples.
    Candidates that were dropped are never selected.
    """
    if rule == "default" and results["dropped"][default]:  # the budget did not allow it on all splits
        rule = "best"
    if rule == "default":
        best = select_candidate(results, n_splits, "best")
        needed = needed_score(results["mean_test_score"][default], n_scored)
        return best if results["mean_test_score"][best] > needed else default
    scores = results["smoothed_test_score" if rule == "smoothed" else "mean_test_score"]
    means = np.where([not reason for reason in results["dropped"]], scores, -np.inf)
    best = int(np.argmax(means))
    slack = 0.0 if rule in ("smoothed", "best") else results["std_test_score"][best] / np.sqrt(max(n_splits - 1, 1))
    eligible = np.flatnonzero(means >= means[best] - slack - 1e-12)
    sizes = results["n_parameters"][eligible]
    keys = (eligible, sizes, results["mean_margin_bound"][eligible]) if rule == "margins" else (eligible, sizes)
    return int(eligible[np.lexsort(keys)[0]])
