"""Confidence intervals for held-out scores and for the difference between two of them.

The input is an array of held-out outcomes of shape (n_repeats, n_samples): 1 or 0 for a sample in a test set, NaN for a
sample in none. A score is the mean over samples (accuracy), or the mean over classes of the per-class means (balanced
accuracy); the classes are then the strata.

Samples of one group (a subject, a recording) are not independent, so with groups the unit of an interval is the group:
a thousand scans of eight people say little more about the next person than eight numbers do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from scipy.stats import binom
from scipy.stats import norm as normal
from scipy.stats import t as student

from .._typing import Array, FloatArray

CONFIDENCE = 0.95
FEWEST_GROUPS = 5
"""With fewer groups the between-group variance is too uncertain for an interval."""


@dataclass(frozen=True)
class ScoreInterval:
    """A held-out score with its 95 % interval.

    Attributes
    ----------
    score : float
    low, high : float or None
        None if there are fewer than `FEWEST_GROUPS` groups.
    unit : {"sample", "group"}
        What counts as an independent observation.
    n_units : int
    """

    score: float
    low: float | None
    high: float | None
    unit: str
    n_units: int

    def __str__(self) -> str:
        ends = "" if self.low is None or self.high is None else f" ({100 * self.low:.1f} to {100 * self.high:.1f})"
        return f"{100 * self.score:.1f} %{ends}"


@dataclass(frozen=True)
class PairedDifference:
    """The difference between two scores on the same held-out samples, with its 95 % interval.

    Attributes
    ----------
    difference : float
    low, high, p_value, error : float or None
        Interval, two-sided p-value and standard error; None if there are fewer than `FEWEST_GROUPS` groups, or if a
        budget has cut what is compared.
    unit : {"sample", "group", "split"}
        What the two scores are paired by.
    n_units : int
    method : str
        How the interval and the p-value were computed, in words.
    """

    difference: float
    low: float | None
    high: float | None
    p_value: float | None
    error: float | None
    unit: str
    n_units: int
    method: str

    @property
    def significant(self) -> bool:
        """Whether the interval excludes zero and the p-value is below 5 %."""
        return is_significant(self.low, self.high, self.p_value)

    def without_interval(self) -> PairedDifference:
        """Return the difference alone, for scores that a budget has cut."""
        return replace(self, low=None, high=None, p_value=None, error=None)


def is_significant(low: float | None, high: float | None, p_value: float | None) -> bool:
    """Return whether an interval excludes zero and its p-value is below 5 %; False if any of them is None."""
    if low is None or high is None or p_value is None:
        return False
    return (low > 0 or high < 0) and p_value < 1 - CONFIDENCE


def score_interval(right: Array, groups: Array | None = None, strata: Array | None = None) -> ScoreInterval:
    """Return the score of held-out samples with its 95 % interval.

    Without groups this is Wilson's interval. With groups, Wilson's interval uses the between-group variance through the
    effective number of samples, ``score (1 - score) / variance`` (at most the actual number; Korn and Graubard 1998),
    and the quantile of Student's t with ``n_groups - 1`` degrees of freedom replaces the normal one.

    Parameters
    ----------
    right : array of shape (n_repeats, n_samples)
        1 for a correct held-out prediction, 0 for a wrong one, NaN if there is none.
    groups : array of shape (n_samples,), optional
    strata : array of shape (n_samples,), optional
        The classes, for balanced accuracy.
    """
    mean = _HeldOutMean.of(right, groups, strata)
    if groups is None:
        ends = wilson(mean.value, mean.effective_number())
        return ScoreInterval(mean.value, *ends, "sample", len(mean.values))
    if mean.n_groups < FEWEST_GROUPS:
        return ScoreInterval(mean.value, None, None, "group", mean.n_groups)
    ends = wilson(mean.value, mean.effective_number(), student_quantile(mean.n_groups - 1))
    return ScoreInterval(mean.value, *ends, "group", mean.n_groups)


def paired_difference(
    ours: Array,
    theirs: Array,
    groups: Array | None = None,
    strata: Array | None = None,
    by_split: Array | None = None,
    test_to_train: float = 0.0,
) -> PairedDifference:
    """Return the difference between two scores on the same held-out samples with its 95 % interval.

    Scores are paired by group if there are groups (Student's t on the between-group variance); otherwise by split if
    the samples were split more than once (Nadeau and Bengio 2003), and by sample if not (McNemar's exact test with
    Bonett and Price's interval, 2012). By group or by split, the interval is never narrower and the p-value never
    smaller than by sample, so groups or splits that happen to agree do not give an interval of width zero.

    Parameters
    ----------
    ours, theirs : array of shape (n_repeats, n_samples)
        See ``right`` in `score_interval`; NaN in the same places.
    groups, strata : array of shape (n_samples,), optional
    by_split : array of shape (n_splits,), optional
        The difference on each test set, if the samples were split more than once.
    test_to_train : float, default=0.0
        Ratio of test set size to training set size.
    """
    mean = _HeldOutMean.of(np.asarray(ours) - theirs, groups, strata)
    by_sample = _paired_by_sample(mean, mcnemar(ours, theirs) if strata is None else None)
    if groups is not None:
        if mean.n_groups < FEWEST_GROUPS:
            return PairedDifference(mean.value, None, None, None, None, "group", mean.n_groups, "too few groups")
        return _by_student(by_sample, sqrt(mean.group_variance), mean.n_groups, "group", "Student's t over groups")
    if by_split is not None and len(by_split) > 1:
        said = "Student's t over splits, corrected for overlapping training sets (Nadeau and Bengio 2003)"
        return _by_student(by_sample, corrected_error(by_split, test_to_train), len(by_split), "split", said)
    return by_sample


def _paired_by_sample(mean: _HeldOutMean, p_value: float | None) -> PairedDifference:
    """Return the difference for independent samples; if ``p_value`` is None, it comes from the normal approximation."""
    smoothed, error = mean.smoothed()
    half = _normal_quantile() * error
    said = "McNemar's exact test, Bonett and Price's interval"
    if p_value is None:
        p_value, said = 2 * float(normal.sf(abs(smoothed) / error)), "Bonett and Price's interval within each class"
    ends = max(-1.0, smoothed - half), min(1.0, smoothed + half)
    return PairedDifference(mean.value, *ends, p_value, error, "sample", len(mean.values), said)


def _by_student(by_sample: PairedDifference, error: float, n_units: int, unit: str, said: str) -> PairedDifference:
    """Widen the by-sample interval to Student's with this standard error, and take the larger p-value."""
    difference, half = by_sample.difference, student_quantile(n_units - 1) * error
    p_value = student_p_value(difference, error, n_units - 1)
    return PairedDifference(
        difference,
        low=max(-1.0, min(difference - half, by_sample.low or 0.0)),
        high=min(1.0, max(difference + half, by_sample.high or 0.0)),
        p_value=max(p_value, by_sample.p_value or 0.0),
        error=max(error, by_sample.error or 0.0),
        unit=unit,
        n_units=n_units,
        method=said,
    )


def mcnemar(ours: Array, theirs: Array) -> float:
    """Return the p-value of McNemar's exact test.

    Null hypothesis: a sample that only one of the two gets right is equally likely to be either's.
    """
    ours_only = int(np.sum(np.asarray(ours) > theirs))
    theirs_only = int(np.sum(np.asarray(ours) < theirs))
    return min(1.0, 2 * float(binom.cdf(min(ours_only, theirs_only), ours_only + theirs_only, 0.5)))


def corrected_error(values: Sequence[float] | Array, test_to_train: float) -> float:
    """Return the standard error of a mean over splits whose training sets overlap (Nadeau and Bengio 2003).

    Parameters
    ----------
    values : sequence of float
        One value per split.
    test_to_train : float
        Ratio of test set size to training set size.
    """
    n = len(values)
    return float(np.sqrt(np.var(values, ddof=1) * (1 / n + test_to_train))) if n > 1 else float("nan")


def half_width(values: Sequence[float] | Array, test_to_train: float) -> float:
    """Return half the width of Student's interval around the mean over splits; NaN for a single split."""
    if len(values) < 2:
        return float("nan")
    return student_quantile(len(values) - 1) * corrected_error(values, test_to_train)


def wilson(share: float, count: float, quantile: float | None = None) -> tuple[float, float]:
    """Return Wilson's 95 % interval for a probability, given the share of successes in ``count`` independent trials.

    ``count`` need not be an integer. ``quantile`` replaces the normal quantile.
    """
    z = _normal_quantile() if quantile is None else quantile
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return (0.0 if share == 0 else max(0.0, centre - half)), (1.0 if share == 1 else min(1.0, centre + half))


@dataclass(frozen=True)
class _HeldOutMean:
    """Mean of held-out outcomes over samples, or mean over strata of the within-stratum means, with its variance.

    Attributes
    ----------
    values : ndarray of shape (n_tested,)
        Mean outcome of each tested sample over the repeats.
    weights : ndarray of shape (n_tested,)
        They sum to one, with equal sums in all strata.
    stratum : ndarray of int, of shape (n_tested,)
    group : ndarray of int, of shape (n_tested,), or None
    """

    values: FloatArray
    weights: FloatArray
    stratum: Array
    group: Array | None

    @classmethod
    def of(cls, outcomes: Array, groups: Array | None, strata: Array | None) -> _HeldOutMean:
        """Return the mean of outcomes in which NaN marks samples that were not tested."""
        outcomes = np.atleast_2d(np.asarray(outcomes, dtype=float))
        times = np.sum(~np.isnan(outcomes), axis=0)  # once per repeat, unless the splits left a sample out
        tested = times > 0
        if not tested.any():
            raise ValueError("a score needs at least one held-out sample; no sample was in a test set")
        times = times[tested]
        names = np.zeros(len(times)) if strata is None else np.asarray(strata)[tested]
        labels, stratum = np.unique(names, return_inverse=True)
        totals = np.bincount(stratum, weights=times)
        return cls(
            values=np.nansum(outcomes[:, tested], axis=0) / times,
            weights=times / (len(labels) * totals[stratum]),
            stratum=stratum,
            group=None if groups is None else np.unique(np.asarray(groups)[tested], return_inverse=True)[1],
        )

    @property
    def n_groups(self) -> int:
        return 0 if self.group is None else int(self.group.max()) + 1

    @property
    def value(self) -> float:
        return float(self._stratum_means.mean())

    @property
    def _stratum_means(self) -> FloatArray:
        sums, totals = (np.bincount(self.stratum, weights=part) for part in (self.weights * self.values, self.weights))
        return np.asarray(sums / totals, dtype=np.float64)

    @property
    def sample_variance(self) -> float:
        """Variance of the mean for independent samples with one probability per stratum."""
        shares = self._stratum_means[self.stratum]
        return float(np.sum(self.weights**2 * shares * (1 - shares)))

    @property
    def group_variance(self) -> float:
        """``G / (G - 1) sum_g (sum_(i in g) w_i (value_i - mean of its stratum))^2``."""
        assert self.group is not None
        deviations = self.values - self._stratum_means[self.stratum]
        sums = np.bincount(self.group, weights=self.weights * deviations)
        return self.n_groups / (self.n_groups - 1) * float(sums @ sums)

    def effective_number(self) -> float:
        """Return the number of independent trials that would give the score the same variance.

        If all outcomes are equal, their variance is zero; one outcome is then flipped.
        """
        if len(self.values) > 1 and np.ptp(self.values) == 0.0 and self.values[0] in (0.0, 1.0):
            flipped = self.values.copy()
            flipped[np.argmax(self.weights)] = 1.0 - flipped[0]
            return replace(self, values=flipped).effective_number()
        variance = self.sample_variance if self.group is None else self.group_variance
        if_alike = 1.0 / float(self.weights @ self.weights)
        return min(if_alike, self.value * (1 - self.value) / variance) if variance > 0 else if_alike

    def smoothed(self) -> tuple[float, float]:
        """Return the difference paired by sample, and its standard error (Bonett and Price 2012).

        Two samples are added to each stratum, one for either side, so that the error is not zero if no outcomes differ.
        """
        counts = 1.0 / np.bincount(self.stratum, weights=self.weights**2)
        n_strata = len(counts)
        counts /= n_strata**2
        ahead, behind = (
            (counts * n_strata * np.bincount(self.stratum, weights=self.weights * part) + 1) / (counts + 2)
            for part in (np.maximum(self.values, 0.0), np.maximum(-self.values, 0.0))
        )
        variances = (ahead + behind - (ahead - behind) ** 2) / (counts + 2)
        return float(np.mean(ahead - behind)), sqrt(float(np.sum(variances))) / n_strata


def _normal_quantile() -> float:
    return float(normal.ppf(0.5 + CONFIDENCE / 2))


def student_quantile(freedom: int) -> float:
    """Return the quantile of Student's t for a two-sided 95 % interval."""
    return float(student.ppf(0.5 + CONFIDENCE / 2, freedom))


def student_p_value(difference: float, error: float, freedom: int) -> float:
    """Return the two-sided p-value of a difference with this standard error; NaN if the error is NaN."""
    if error == 0.0:
        return 0.0 if difference else 1.0
    return 2 * float(student.sf(abs(difference) / error, freedom))
