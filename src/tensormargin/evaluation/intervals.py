"""Confidence intervals for held-out scores and for the difference between two of them.

The input is an array of held-out outcomes of shape (n_repeats, n_samples): 1 or 0 for a sample in a test set, NaN for a
sample in none. A score is the mean over samples (accuracy), or the mean over classes of the per-class means (balanced
accuracy); the classes are then the strata.

Samples of one group (a subject, a recording) are not independent, so with groups the unit of an interval is the group:
a thousand scans of eight people say little more about the next person than eight numbers do.

What an interval is for: with ``n_train``, the expected score on new samples (of new groups) of models that the same
procedure fits to training sets of that size, drawn as these samples were; without it, that of one given model. The
held-out predictions of a procedure share training samples and are not independent, either: see `inflation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import cos, exp, nan, pi, sqrt

import numpy as np
from scipy.special import betainc, ndtr, ndtri, stdtr, stdtrit

from ..runtime import Array, FloatArray

CONFIDENCE = 0.95
_POWER = 0.8  # share of the data sets in which a detectable difference is found
FEWEST_GROUPS = 5
"""With fewer groups the between-group variance is too uncertain for an interval."""


@dataclass(frozen=True)
class ScoreInterval:
    """A held-out score with its 95 % interval, which is None if there are fewer than `FEWEST_GROUPS` groups.

    ``unit`` is what counts as an independent observation, "sample" or "group"; ``method`` says how the interval was
    computed.
    """

    score: float
    low: float | None
    high: float | None
    unit: str
    n_units: int
    method: str

    def __str__(self) -> str:
        ends = "" if self.low is None or self.high is None else f" ({100 * self.low:.1f} to {100 * self.high:.1f})"
        return f"{100 * self.score:.1f} %{ends}"


@dataclass(frozen=True)
class PairedDifference:
    """The difference between two scores on the same held-out samples, with its 95 % interval.

    Interval, two-sided p-value and standard error are None if there are fewer than `FEWEST_GROUPS` groups, or if a
    budget has cut what is compared. ``unit`` is what the scores are paired by, "sample" or "group"; ``method`` says how
    interval and p-value were computed.
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

    def detectable(self, n_tests: int = 1) -> float | None:
        """Return the true difference that would be significant in four of five data sets like this.

        For the smallest of ``n_tests`` p-values that are corrected by Holm's method; None if there is no interval.
        """
        if self.error is None:
            return None
        level = (1 - CONFIDENCE) / (2 * n_tests)
        quantile = ndtri(1 - level) if self.unit == "sample" else stdtrit(self.n_units - 1, 1 - level)
        return float(min(1.0, (quantile + ndtri(_POWER)) * self.error))

    def without_interval(self) -> PairedDifference:
        """Return the difference alone, for scores that a budget has cut."""
        return replace(self, low=None, high=None, p_value=None, error=None)


def is_significant(low: float | None, high: float | None, p_value: float | None) -> bool:
    """Return whether an interval excludes zero and its p-value is below 5 %; False if any of them is None."""
    if low is None or high is None or p_value is None:
        return False
    return (low > 0 or high < 0) and p_value < 1 - CONFIDENCE


def score_interval(
    right: Array, groups: Array | None = None, strata: Array | None = None, n_train: float | None = None
) -> ScoreInterval:
    """Return the score of held-out samples with its 95 % interval.

    Without groups this is Wilson's interval. With groups, Wilson's interval uses the between-group variance through the
    effective number of samples, ``score (1 - score) / variance`` (at most the actual number; Korn and Graubard 1998),
    and the quantile of Student's t with ``n_groups - 1`` degrees of freedom replaces the normal one. With ``n_train``,
    the mean size of the training sets, the variance is multiplied by its `inflation`. ``strata`` are the classes, for
    balanced accuracy.
    """
    mean = _HeldOutMean.of(right, groups, strata)
    if groups is not None and mean.n_groups < FEWEST_GROUPS:
        return ScoreInterval(mean.value, None, None, "group", mean.n_groups, "too few groups")
    number = mean.effective_number()
    if n_train is not None:
        number = mean.effective_number(inflation(_shrunk(mean.value, number), len(mean.values) / n_train))
    if groups is None:
        ends = wilson(mean.value, number)
        return ScoreInterval(mean.value, *ends, "sample", len(mean.values), _format_method("Wilson's", n_train))
    ends = wilson(mean.value, number, student_quantile(mean.n_groups - 1))
    method = "Wilson's with the effective number of samples and Student's t (Korn and Graubard 1998)"
    return ScoreInterval(mean.value, *ends, "group", mean.n_groups, _format_method(method, n_train))


def paired_difference(
    ours: Array, theirs: Array, groups: Array | None = None, strata: Array | None = None, n_train: float | None = None
) -> PairedDifference:
    """Return the difference between two scores on the same held-out samples with its 95 % interval.

    Scores are paired by group if there are groups (Student's t on the between-group variance), otherwise by sample:
    Bonett and Price's interval (2012) with McNemar's exact test, or, if samples were tested more than once, the same
    interval of the means over the repeats, with the normal test that belongs to it. By group, the interval is never
    narrower and the p-value never smaller than by sample, so that groups that happen to agree do not give an interval
    of width zero. With ``n_train``, the variance is multiplied by `difference_inflation`. Outcomes are NaN in the same
    places.
    """
    mean = _HeldOutMean.of(np.asarray(ours) - theirs, groups, strata)
    factor = 1.0
    if n_train is not None:
        differing = float(np.nanmean(np.abs(np.asarray(ours) - theirs)))
        factor = difference_inflation(_shrunk(differing, len(mean.values)), len(mean.values) / n_train)
        if groups is None:  # the bound holds only where noise is most of the weight; the mean of 84 simulations is half
            factor = (1.0 + factor) / 2
    at_least = factor if groups is None else 1.0
    exact = strata is None and len(mean.values) == np.sum(~np.isnan(np.asarray(ours, dtype=float)))
    by_sample = _paired_by_sample(mean, mcnemar(ours, theirs, at_least) if exact else None, at_least)
    by_sample = replace(by_sample, method=_format_method(by_sample.method, n_train))
    if groups is None:
        return by_sample
    if mean.n_groups < FEWEST_GROUPS:
        return PairedDifference(mean.value, None, None, None, None, "group", mean.n_groups, "too few groups")
    method = _format_method("Student's t over groups", n_train)
    return _by_student(by_sample, sqrt(factor * mean.group_variance), mean.n_groups, method)


def inflation(share: float, tested_to_train: float) -> float:
    """Return the variance of a cross-validated score, divided by that of as many independent outcomes.

    Samples in each other's training sets tend to be right or wrong together: with z the normal quantile of the share,
    the correlations of an outcome with all others add up to at most ``phi(z)^2 / (share (1 - share))`` (derived in
    docs/method.md). The ratio of sizes is that of Nadeau and Bengio (2003), whose correction has one in place of these
    sums: held-out samples per sample of a training set, 1.25 for five folds, 0 for one given model.
    """
    density = exp(-(float(ndtri(share)) ** 2) / 2) / sqrt(2 * pi)
    return 1.0 + tested_to_train * density**2 / (share * (1 - share))


def difference_inflation(differing: float, tested_to_train: float) -> float:
    """Return the `inflation` of the variance of a difference between two scores.

    The more often two classifiers agree, the more of the noise in their scores is the same and cancels: if scores of
    both are normal with the correlation ``cos(pi differing)``, what correlations of scores add up to is at most one
    minus that. ``differing`` is the share of the held-out samples that only one of the two gets right.
    """
    return 1.0 + tested_to_train * (1 - cos(pi * differing)) / (pi * differing)


def _shrunk(share: float, number: float) -> float:
    """Return a share with two successes and two failures added, which is never 0 or 1 (Agresti and Coull 1998)."""
    return (share * number + 2) / (number + 4)


def _format_method(method: str, n_train: float | None) -> str:
    return method if n_train is None else f"{method}, corrected for overlapping training sets (Nadeau and Bengio 2003)"


def _paired_by_sample(mean: _HeldOutMean, p_value: float | None, factor: float) -> PairedDifference:
    """Return the difference paired by sample; if ``p_value`` is None, it comes from the normal approximation."""
    smoothed, error = mean.smoothed(factor)
    half = _normal_quantile() * error
    method = "McNemar's exact test and Bonett and Price's interval"
    if p_value is None:
        p_value, method = 2 * float(ndtr(-abs(smoothed) / error)), "Bonett and Price's interval"
    ends = max(-1.0, smoothed - half), min(1.0, smoothed + half)
    return PairedDifference(mean.value, *ends, p_value, error, "sample", len(mean.values), method)


def _by_student(by_sample: PairedDifference, error: float, n_units: int, method: str) -> PairedDifference:
    """Widen the by-sample interval to Student's with this standard error, and take the larger p-value."""
    difference, half = by_sample.difference, student_quantile(n_units - 1) * error
    p_value = student_p_value(difference, error, n_units - 1)
    low = max(-1.0, min(difference - half, by_sample.low or 0.0))
    high = min(1.0, max(difference + half, by_sample.high or 0.0))
    p_value, error = max(p_value, by_sample.p_value or 0.0), max(error, by_sample.error or 0.0)
    return PairedDifference(difference, low, high, p_value, error, "group", n_units, method)


def mcnemar(ours: Array, theirs: Array, factor: float = 1.0) -> float:
    """Return the p-value of McNemar's exact test, with counts divided by ``factor``.

    Null hypothesis: a sample that only one of the two gets right is equally likely to be either's.
    """
    fewer, more = sorted(int(np.sum(one)) / factor for one in (np.asarray(ours) > theirs, np.asarray(ours) < theirs))
    return min(1.0, 2 * float(betainc(more, fewer + 1, 0.5))) if more else 1.0  # twice the binomial tail


def corrected_error(values: Sequence[float] | Array, test_to_train: float) -> float:
    """Return the standard error of a mean over splits whose training sets overlap (Nadeau and Bengio 2003)."""
    n = len(values)
    return float(np.sqrt(np.var(values, ddof=1) * (1 / n + test_to_train))) if n > 1 else nan


def half_width(values: Sequence[float] | Array, test_to_train: float) -> float:
    """Return half the width of Student's interval around the mean over splits; NaN for a single split."""
    return student_quantile(len(values) - 1) * corrected_error(values, test_to_train) if len(values) > 1 else nan


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

    ``values`` are the mean outcomes of each tested sample over the repeats; their ``weights`` sum to one, with equal
    sums in all strata.
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
    def group_variance(self) -> float:
        """``G / (G - 1) sum_g (sum_(i in g) w_i (value_i - mean of its stratum))^2``."""
        assert self.group is not None
        deviations = self.values - self._stratum_means[self.stratum]
        sums = np.bincount(self.group, weights=self.weights * deviations)
        return self.n_groups / (self.n_groups - 1) * float(sums @ sums)

    def effective_number(self, factor: float = 1.0) -> float:
        """Return the number of independent trials that would give the score ``factor`` times its variance.

        Half an outcome of either kind is added to each stratum (Jeffreys), since the variance of a few samples that
        are all right is not zero. If at most two groups have errors, or at most two anything else, the variance
        between groups is hardly known: a group is added in which all samples are right or all are wrong.
        """
        if_equal = 1.0 / float(self.weights @ self.weights)
        if self.group is None:
            totals = np.bincount(self.stratum)
            shares = (self._stratum_means * totals + 0.5) / (totals + 1)
            variance = float(np.sum(self.weights**2 * (shares * (1 - shares))[self.stratum]))
            return min(if_equal, float(shares.mean() * (1 - shares.mean())) / (factor * variance))
        share, variance = self.value, self.group_variance
        with_errors, with_successes = (len(np.unique(self.group[own])) for own in (self.values < 1, self.values > 0))
        if min(with_errors, with_successes) <= 2:
            share = _shrunk(share, self.n_groups)
            variance = (self.n_groups * variance + share * (1 - share) / self.n_groups) / (self.n_groups + 1)
        return min(if_equal, share * (1 - share) / (factor * variance)) if variance > 0 else if_equal

    def smoothed(self, factor: float) -> tuple[float, float]:
        """Return the difference paired by sample, and its standard error (Bonett and Price 2012).

        The numbers of samples are divided by ``factor``. Two samples are added to each stratum, one for either side, so
        that the error is not zero if no outcomes differ. Differences of samples that were tested several times are
        means over the repeats, whose variance is that of the values, not of a share.
        """
        counts = 1.0 / np.bincount(self.stratum, weights=self.weights**2)
        n_strata = len(counts)
        counts /= n_strata**2 * factor
        first, second = (
            counts * n_strata * np.bincount(self.stratum, weights=self.weights * self.values**power) for power in (1, 2)
        )
        means = first / (counts + 2)
        variances = ((second + 2) / (counts + 2) - means**2) / (counts + 2)
        return float(np.mean(means)), sqrt(float(np.sum(variances))) / n_strata


def _normal_quantile() -> float:
    return float(ndtri(0.5 + CONFIDENCE / 2))


def student_quantile(freedom: int) -> float:
    """Return the quantile of Student's t for a two-sided 95 % interval."""
    return float(stdtrit(freedom, 0.5 + CONFIDENCE / 2))


def student_p_value(difference: float, error: float, freedom: int) -> float:
    """Return the two-sided p-value of a difference with this standard error; NaN if the error is NaN."""
    if error == 0.0:
        return 0.0 if difference else 1.0
    return 2 * float(stdtr(freedom, -abs(difference) / error))


def holm(p_values: Sequence[float] | Array) -> FloatArray:
    """Return p-values adjusted for multiple tests (Holm 1979).

    Rejecting every hypothesis whose adjusted p-value is at most alpha keeps the family-wise error rate at or below
    alpha, whatever the dependence between the tests. NaN marks a test that was not done; it stays NaN and does not
    count.
    """
    adjusted = np.array(p_values, np.float64)
    done = np.flatnonzero(~np.isnan(adjusted))
    order = done[np.argsort(adjusted[done], kind="stable")]
    still_there = np.arange(len(order), 0, -1)  # hypotheses not yet rejected at each step
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(still_there * adjusted[order]))
    return adjusted
