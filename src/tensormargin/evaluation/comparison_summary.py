"""Summary of a comparison: mean scores with intervals, differences from one method, and the winner's model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np

from ..estimators import KERNEL_METHODS, METHODS, without_convergence_warnings
from ..inspection import fit_model
from ..io import SampleSet
from ..runtime import Array
from .comparison import CompareRow, CompareSettings
from .contenders import contender, tuned
from .held_out import Labelled, prediction_rows
from .intervals import PairedDifference, half_width, holm, is_significant, paired_difference, score_interval


@dataclass(frozen=True)
class Summary:
    """Means over the splits; ``accuracy_sd`` is the standard deviation over the splits (0 for a single one).

    ``accuracy`` is the share of correct predictions in all test sets pooled. ``accuracy_low`` and ``accuracy_high``
    bound a 95 % interval of the expected accuracy on new samples (groups) of models that the method fits to training
    sets of this size: the wider of Student's interval over the splits and Wilson's over the tested samples or groups,
    whose width is positive even if all splits agree; both are corrected for overlapping training sets (Nadeau and
    Bengio 2003; `tensormargin.evaluation.intervals`). None for fewer than five groups.

    Examples
    --------
    >>> from tensormargin.evaluation import Summary
    >>> summary = Summary("STM", 0.9, 0.02, 0.8, 0.95, 0.004, 14, margin_mean=1.1, margin_variance=0.3)
    >>> summary.accuracy_low <= summary.accuracy <= summary.accuracy_high
    True
    """

    method: str
    accuracy: float
    accuracy_sd: float
    accuracy_low: float | None
    accuracy_high: float | None
    fit_seconds: float
    n_parameters: int
    margin_mean: float
    margin_variance: float


@dataclass(frozen=True)
class MethodDifference:
    """Accuracy of a method minus that of the method that all are compared with, on the same test sets.

    Attributes
    ----------
    method, against : str
    difference : float
    low, high : float or None
        Ends of the uncorrected 95 % interval. These and what follows are None if there are too few groups.
    p_value : float or None
        Two-sided, corrected for the number of comparisons (Holm 1979).
    detectable : float or None
        The true difference that would have been found in four of five such comparisons.

    Examples
    --------
    >>> from tensormargin.evaluation import MethodDifference
    >>> MethodDifference("STM", "SVM", difference=0.05, low=-0.01, high=0.11, p_value=0.2, detectable=0.1).significant
    False
    """

    method: str
    against: str
    difference: float
    low: float | None
    high: float | None
    p_value: float | None
    detectable: float | None = None

    @property
    def significant(self) -> bool:
        """Whether the interval excludes zero and the corrected p-value is below 5 %."""
        return is_significant(self.low, self.high, self.p_value)


def summarise(rows: Sequence[CompareRow], methods: Sequence[str], groups: Array | None = None) -> list[Summary]:
    """Return one summary per method; ``groups`` holds the groups of all samples.

    Examples
    --------
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.evaluation import CompareSettings, compare, summarise
    >>> data = make_low_rank_classes(60, (6, 7), rank=1, random_state=0)
    >>> settings = CompareSettings(methods=("SVM", "STM"), repeats=2, lam_grid=(1.0,))
    >>> rows = list(compare(data.data, data.target, settings))
    >>> [(one.method, one.n_parameters) for one in summarise(rows, settings.methods)]
    [('SVM', 43), ('STM', 14)]
    """
    summaries = []
    for method in methods:
        own = [row for row in rows if row.method == method]
        names = ("fit_seconds", "margin_mean", "margin_variance")
        means = {name: float(np.mean([getattr(row, name) for row in own])) for name in names}
        spread = float(np.std([row.accuracy for row in own], ddof=1)) if len(own) > 1 else 0.0
        accuracy = float(np.nanmean(_right(own))), spread, *_interval(own, groups)
        summaries.append(Summary(method, *accuracy, n_parameters=own[0].n_parameters, **means))
    return summaries


def differences_from(
    against: str, rows: Sequence[CompareRow], methods: Sequence[str], groups: Array | None = None
) -> list[MethodDifference]:
    """Return the paired difference of every other method from one that was chosen before the scores were known.

    If no method differs from it, the probability that any difference is significant is at most 5 %. Differences between
    the other methods are not tested: each further pair would make all of them harder to find.

    Examples
    --------
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.evaluation import CompareSettings, compare, differences_from
    >>> data = make_low_rank_classes(60, (6, 7), rank=1, random_state=0)
    >>> settings = CompareSettings(methods=("SVM", "STM"), repeats=4, lam_grid=(1.0,))
    >>> rows = list(compare(data.data, data.target, settings))
    >>> (difference,) = differences_from("SVM", rows, settings.methods)
    >>> difference.method, difference.detectable > 0
    ('STM', True)
    """
    by_method = {
        method: sorted((row for row in rows if row.method == method), key=lambda row: row.repeat) for method in methods
    }
    others = [method for method in methods if method != against]
    paired = [_paired(by_method[method], by_method[against], groups) for method in others]
    p_values = holm([1.0 if one.p_value is None else one.p_value for one in paired])
    return [
        MethodDifference(method, against, one.difference, one.low, one.high, p_value, one.detectable(len(others)))
        if one.p_value is not None
        else MethodDifference(method, against, one.difference, None, None, None)
        for method, one, p_value in zip(others, paired, p_values.tolist(), strict=True)
    ]


def _paired(rows: Sequence[CompareRow], others: Sequence[CompareRow], groups: Array | None) -> PairedDifference:
    return paired_difference(_right(rows), _right(others), groups, n_train=_n_train(rows))


def _interval(rows: Sequence[CompareRow], groups: Array | None) -> tuple[float | None, float | None]:
    """Return the bounds of the wider interval: over splits, or over tested samples (groups)."""
    tested = score_interval(_right(rows), groups, n_train=_n_train(rows))
    if tested.low is None or tested.high is None:
        return None, None
    n_test = float(np.mean([row.n_test for row in rows]))
    half = half_width([row.accuracy for row in rows], n_test / _n_train(rows))
    half = half if half > 0 else 0.0  # NaN for a single split
    return max(0.0, min(tested.low, tested.score - half)), min(1.0, max(tested.high, tested.score + half))


def _right(rows: Sequence[CompareRow]) -> Array:
    """Return the outcomes of each split (1: correct, 0: wrong), NaN for samples outside its test set."""
    outcomes = np.full((len(rows), rows[0].n_train + rows[0].n_test), nan)
    for outcome, row in zip(outcomes, rows, strict=True):
        outcome[row.test] = row.right
    return outcomes


def _n_train(rows: Sequence[CompareRow]) -> float:
    return float(np.mean([row.n_train for row in rows]))


@dataclass(frozen=True)
class Winner:
    """A method of a comparison, fitted to all samples.

    Attributes
    ----------
    method : str
        The most accurate method that has weights and margins to show: not LinearSVC, CP-PLSR or the majority class.
    best : str
        The most accurate method of all.
    model : estimator
        Fitted; its hyperparameters were chosen by cross-validation on all samples.
    predictions : list of dict
        One per held-out prediction of ``method`` in the comparison: "repeat", "sample", "group", "label", "predicted"
        and "probability", which is None.

    Examples
    --------
    >>> from tensormargin.evaluation import Winner
    >>> Winner("STM", "LinearSVC", model=None, predictions=[]).best
    'LinearSVC'
    """

    method: str
    best: str
    model: Any
    predictions: list[dict[str, Any]]


def fit_winner(
    samples: SampleSet, settings: CompareSettings, rows: Sequence[CompareRow], n_jobs: int | None = None
) -> Winner | None:
    """Return the winner of a comparison, fitted to all samples; None if no method has weights to show.

    Parameters
    ----------
    samples : SampleSet
        The compared samples; their data are those that `compare` took.
    settings : CompareSettings
    rows : sequence of CompareRow
        All rows of the comparison.
    n_jobs : int, optional
        Number of fits at a time in the choice of hyperparameters.

    Examples
    --------
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.evaluation import CompareSettings, compare, fit_winner
    >>> from tensormargin.io import SampleSet
    >>> data = make_low_rank_classes(60, (6, 7), rank=1, random_state=0)
    >>> settings = CompareSettings(methods=("STM", "LinearSVC"), repeats=2, lam_grid=(1.0,))
    >>> samples = SampleSet(data.data, data.target, None, None, None, "noise", "plain", ())
    >>> rows = list(compare(data.data, data.target, settings))
    >>> winner = fit_winner(samples, settings, rows)
    >>> winner.method, winner.model.predict(data.data[:2]).shape
    ('STM', (2,))
    """
    shares = {
        name: float(np.concatenate([row.right for row in rows if row.method == name]).mean())
        for name in settings.entries
    }
    own = [name for name in settings.entries if name in METHODS or name in KERNEL_METHODS]
    if not own:
        return None
    method = max(own, key=shares.__getitem__)
    one = contender(method, settings.lam_grid).behind(settings.preparation)
    data = samples.data, samples.labels, samples.groups, samples.confounds
    given = Labelled.checked(settings.preparation, *data, views=False)
    with without_convergence_warnings():
        chosen = tuned(one, given, settings.folds, settings.seed, n_jobs)
        model = fit_model(chosen.estimator, given.X, given.y, given.metadata)
    predictions = [
        line
        for row in rows
        if row.method == method and row.predicted is not None
        for line in prediction_rows(samples, row.repeat, row.test, row.predicted)
    ]
    return Winner(method, max(settings.entries, key=shares.__getitem__), model, predictions)
