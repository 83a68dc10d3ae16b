"""Summary of a comparison: mean scores with intervals, and differences to the best method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import nan

import numpy as np

from ..runtime import Array
from .comparison import CompareRow
from .intervals import PairedDifference, half_width, is_significant, paired_difference, score_interval
from .multiplicity import holm


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
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.evaluation import CompareSettings, compare, summarise
    >>> data = make_low_rank_classes(60, (6, 7), rank=1, random_state=0)
    >>> settings = CompareSettings(methods=("STM",), repeats=2, lam_grid=(1.0,))
    >>> (summary,) = summarise(list(compare(data.data, data.target, settings)), settings.methods)
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
    """Accuracy of a method minus that of the best one on the same test sets.

    ``p_value`` is two-sided and corrected for all pairs of methods (Holm 1979), since any of them could have been the
    best one on these test sets; ``low`` and ``high`` bound the uncorrected 95 % interval. None if there are too few
    groups.

    Examples
    --------
    >>> from tensormargin.evaluation import MethodDifference
    >>> MethodDifference("SVM", "STM", difference=-0.05, low=-0.11, high=0.01, p_value=0.2).best
    'STM'
    """

    method: str
    best: str
    difference: float
    low: float | None
    high: float | None
    p_value: float | None

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
        accuracies = [row.accuracy for row in own]
        low, high = _interval(own, groups)
        summaries.append(
            Summary(
                method=method,
                accuracy=float(np.nanmean(_right(own))),
                accuracy_sd=float(np.std(accuracies, ddof=1)) if len(own) > 1 else 0.0,
                accuracy_low=low,
                accuracy_high=high,
                fit_seconds=float(np.mean([row.fit_seconds for row in own])),
                n_parameters=own[0].n_parameters,
                margin_mean=float(np.mean([row.margin_mean for row in own])),
                margin_variance=float(np.mean([row.margin_variance for row in own])),
            )
        )
    return summaries


def differences_to_best(
    rows: Sequence[CompareRow], methods: Sequence[str], groups: Array | None = None
) -> list[MethodDifference]:
    """Return the paired difference of every other method to the best one; ties go to the method listed first.

    With equally good methods, the probability that any difference is significant is at most 5 %: p-values are corrected
    for all pairs of methods, not only for those with the method that happens to be the best.

    Examples
    --------
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.evaluation import CompareSettings, compare, differences_to_best
    >>> data = make_low_rank_classes(60, (6, 7), rank=1, random_state=0)
    >>> settings = CompareSettings(methods=("SVM", "STM"), repeats=3, lam_grid=(1.0,))
    >>> rows = list(compare(data.data, data.target, settings))
    >>> differences = differences_to_best(rows, settings.methods)
    >>> len(differences), differences[0].difference <= 0
    (1, True)
    """
    own = {method: _by_repeat(rows, method) for method in methods}
    best = max(methods, key=lambda method: float(np.nanmean(_right(own[method]))))
    others = [method for method in methods if method != best]
    pairs = [(method, best) for method in others] + list(combinations(others, 2))
    found = [_paired(own[first], own[second], groups) for first, second in pairs]
    p_values = holm([1.0 if one.p_value is None else one.p_value for one in found])
    return [
        MethodDifference(method, best, one.difference, one.low, one.high, None if one.p_value is None else p_value)
        for method, one, p_value in zip(others, found, p_values.tolist(), strict=False)
    ]


def _paired(rows: Sequence[CompareRow], others: Sequence[CompareRow], groups: Array | None) -> PairedDifference:
    by_split = np.array([row.accuracy - other.accuracy for row, other in zip(rows, others, strict=True)])
    return paired_difference(_right(rows), _right(others), groups, by_split=by_split, n_train=_n_train(rows))


def _interval(rows: Sequence[CompareRow], groups: Array | None) -> tuple[float | None, float | None]:
    """Return the bounds of the wider interval: over splits, or over tested samples (groups)."""
    tested = score_interval(_right(rows), groups, n_train=_n_train(rows))
    if tested.low is None or tested.high is None:
        return None, None
    n_test = float(np.mean([row.n_test for row in rows]))
    half = half_width([row.accuracy for row in rows], n_test / _n_train(rows))
    half = half if half > 0 else 0.0  # NaN for a single split
    return max(0.0, min(tested.low, tested.score - half)), min(1.0, max(tested.high, tested.score + half))


def _by_repeat(rows: Sequence[CompareRow], method: str) -> list[CompareRow]:
    return sorted((row for row in rows if row.method == method), key=lambda row: row.repeat)


def _right(rows: Sequence[CompareRow]) -> Array:
    """Return the outcomes of each split (1: correct, 0: wrong), NaN for samples outside its test set."""
    outcomes = np.full((len(rows), rows[0].n_train + rows[0].n_test), nan)
    for outcome, row in zip(outcomes, rows, strict=True):
        outcome[row.test] = row.right
    return outcomes


def _n_train(rows: Sequence[CompareRow]) -> float:
    return float(np.mean([row.n_train for row in rows]))
