"""Tests of intervals of scores and differences: formulas against their definitions, and simulated coverage."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import sparse_product
from scipy.stats import binomtest, norm, t, ttest_1samp
from sklearn.metrics import balanced_accuracy_score

sys.path.insert(0, str(Path(__file__).parents[2]))  # campaigns are not installed

from campaigns import intervals as simulated

from tensormargin.evaluation import corrected_error
from tensormargin.evaluation.intervals import (
    difference_inflation,
    half_width,
    inflation,
    mcnemar,
    paired_difference,
    score_interval,
    wilson,
)

DRAWS = 400
Z = 1.959963984540054


def test_the_error_is_nadeau_and_bengios():
    values = np.array([0.8, 0.9, 0.7, 0.85, 0.75])
    expected = np.sqrt(np.var(values, ddof=1) * (1 / 5 + 1 / 4))
    assert corrected_error(values, 0.25) == pytest.approx(expected, rel=1e-12)
    assert half_width(values, 0.25) == pytest.approx(2.7764451051977987 * expected, rel=1e-9)
    plain = ttest_1samp(values, 0).confidence_interval(0.95)
    assert half_width(values, 0.0) == pytest.approx((plain.high - plain.low) / 2, rel=1e-9)
    assert np.isnan(corrected_error([0.5], 0.25))
    assert np.isnan(half_width([0.5], 0.25))


@pytest.mark.parametrize(("right", "count"), [(0, 10), (7, 10), (24, 24), (399, 400)])
def test_wilsons_interval_is_where_the_score_test_does_not_reject(right, count):
    """Check that its ends p solve (share - p)^2 = z^2 p (1 - p) / n; the width is positive even if all trials agree."""
    share = right / count
    low, high = wilson(share, count)
    assert 0 <= low < high <= 1
    assert low <= share <= high
    for end in (low, high):
        if 0 < end < 1:
            assert (share - end) ** 2 == pytest.approx(Z**2 * end * (1 - end) / count, rel=1e-9)


def test_without_groups_the_unit_is_the_sample():
    right = np.repeat([1.0, 0.0], [30, 10])
    found = score_interval(right)
    assert (found.unit, found.n_units, found.score) == ("sample", 40, 0.75)
    assert (found.low, found.high) == pytest.approx(wilson(0.75, 40))
    untested = np.concatenate([right, np.full(7, np.nan)])
    assert score_interval(untested) == found


def test_repeats_add_no_samples():
    right = np.random.default_rng(0).integers(0, 2, (3, 50)).astype(float)
    found = score_interval(right)
    assert found.score == pytest.approx(right.mean())
    assert found.n_units == 50
    assert (found.low, found.high) == pytest.approx(wilson(right.mean(), 50))


def test_with_groups_the_interval_is_korn_and_graubards():
    rng = np.random.default_rng(1)
    sizes = np.array([3, 8, 5, 12, 9, 4, 7])
    groups = np.repeat(np.arange(7), sizes)
    right = (rng.uniform(size=48) < np.repeat(rng.uniform(0.4, 1.0, 7), sizes)).astype(float)
    shares = np.array([right[groups == g].mean() for g in range(7)])
    p = right.mean()
    variance = 7 / 6 * np.sum(sizes**2 * (shares - p) ** 2) / 48**2
    number, quantile = p * (1 - p) / variance, t.ppf(0.975, 6)
    assert number < 48
    found = score_interval(right, groups)
    assert (found.unit, found.n_units) == ("group", 7)
    assert (found.low, found.high) == pytest.approx(wilson(p, number, quantile), rel=1e-12)
    names = np.array(list("gfedcba"))[groups]
    assert score_interval(right, names) == found


def test_fewer_than_five_groups_give_no_interval():
    right, groups = np.tile([1.0, 0.0, 1.0], 8), np.repeat(np.arange(4), 6)
    found = score_interval(right, groups)
    assert (found.low, found.high, found.n_units) == (None, None, 4)
    difference = paired_difference(right, 1 - right, groups)
    assert (difference.low, difference.high, difference.p_value) == (None, None, None)
    assert not difference.significant
    assert score_interval(right, np.arange(24) % 5).low is not None


def test_groups_that_are_all_right_still_leave_doubt():
    groups = np.repeat(np.arange(8), 10)
    found = score_interval(np.ones(80), groups)
    assert found.low < wilson(1.0, 80)[0] < found.high == 1.0
    one_wrong = score_interval(np.r_[np.ones(79), 0.0], groups)
    assert one_wrong.low < found.low


def test_no_held_out_sample_is_an_error():
    with pytest.raises(ValueError, match="at least one held-out sample"):
        score_interval(np.full((2, 5), np.nan))


def draws_of_groups(n_groups, size, mean, correlation, seed):
    """Yield correct predictions of groups with different probabilities and the given within-group correlation."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), size)
    for _ in range(DRAWS):
        shares = np.full(n_groups, mean)
        if correlation:
            strength = 1 / correlation - 1
            shares = rng.beta(mean * strength, (1 - mean) * strength, n_groups)
        yield groups, (rng.uniform(size=len(groups)) < shares[groups]).astype(float)


@pytest.mark.parametrize(
    ("n_groups", "size", "mean", "correlation"),
    [
        (10, 40, 0.7, 0.1),
        (8, 40, 0.5, 0.05),
        (8, 40, 0.5, 0.2),
        (30, 5, 0.9, 0.1),
        (12, 20, 0.8, 0.3),
        (20, 10, 0.6, 0),
    ],
)
def test_intervals_over_groups_cover_what_they_say(n_groups, size, mean, correlation):
    covered, by_sample = [], []
    for groups, right in draws_of_groups(n_groups, size, mean, correlation, seed=n_groups + size):
        for kept, found in ((covered, score_interval(right, groups)), (by_sample, score_interval(right))):
            kept.append(found.low <= mean <= found.high)
    assert 0.90 <= np.mean(covered) <= 0.99
    if size >= 20:
        assert np.mean(by_sample) < 0.85  # intervals over samples undercover


@pytest.mark.parametrize(("n_groups", "size", "mean", "correlation"), [(5, 8, 0.75, 0.9), (6, 20, 0.9, 0.6)])
def test_few_groups_that_may_all_be_right_are_covered_after_cross_validation(n_groups, size, mean, correlation):
    found = [
        score_interval(right, groups, n_train=0.8 * len(groups))
        for groups, right in draws_of_groups(n_groups, size, mean, correlation, seed=n_groups)
    ]
    assert np.mean([one.low <= mean <= one.high for one in found]) >= 0.90


def test_few_rare_samples_that_may_all_be_right_are_covered():
    y = (np.arange(200) < 8).astype(int)
    draws = np.random.default_rng(8).uniform(size=(DRAWS, 200)) < np.array([0.97, 0.75])[y]
    found = [score_interval(right, strata=y) for right in draws]
    assert 0.93 <= np.mean([one.low <= 0.86 <= one.high for one in found]) <= 0.99


@pytest.mark.parametrize(("count", "mean"), [(24, 0.5), (40, 0.7), (61, 0.8), (400, 0.95)])
def test_intervals_over_samples_cover_what_they_say(count, mean):
    draws = np.random.default_rng(count).uniform(size=(DRAWS, count)) < mean
    found = [score_interval(right) for right in draws]
    assert 0.90 <= np.mean([one.low <= mean <= one.high for one in found]) <= 0.99


@pytest.mark.parametrize("grouped", [False, True])
def test_intervals_of_balanced_accuracy_cover_what_they_say(grouped):
    """Classes of 160 and 40 samples; groups of ten with both classes and different probabilities."""
    rng = np.random.default_rng(5)
    y = np.tile(np.repeat([0, 1], [8, 2]), 20)
    groups = np.repeat(np.arange(20), 10)
    truth, covered = np.array([0.9, 0.6]), []
    for _ in range(DRAWS):
        shift = 0.1 * rng.choice([-1, 1], 20)[groups] if grouped else 0.0
        right = (rng.uniform(size=200) < truth[y] + shift).astype(float)
        found = score_interval(right, groups if grouped else None, strata=y)
        covered.append(found.low <= 0.75 <= found.high)
    assert found.score == pytest.approx(balanced_accuracy_score(y, np.where(right == 1, y, 1 - y)))
    assert 0.90 <= np.mean(covered) <= 0.99


def test_the_variance_of_outcomes_that_share_training_samples():
    """Normal scores with correlations of 1/200 add up to one; then their signs do, to the inflation less one."""
    assert inflation(0.5, 1.0) == pytest.approx(1 + 2 / np.pi)
    assert difference_inflation(0.5, 1.0) == pytest.approx(1 + 2 / np.pi)  # two methods that have nothing in common
    assert inflation(0.3, 0.0) == difference_inflation(0.3, 0.0) == 1.0
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((4000, 200)) * np.sqrt(1 - 1 / 200) + rng.standard_normal((4000, 1)) / np.sqrt(200)
    for share in (0.5, 0.75, 0.95):
        right = scores < norm.ppf(share)
        found = right.mean(axis=1).var() / (share * (1 - share) / 200)
        assert found == pytest.approx(inflation(share, 1.0), rel=0.1)  # four standard errors


def test_without_training_sets_the_score_is_that_of_one_model():
    """More training samples per held-out one leave less doubt; none at all, no doubt about the training sets."""
    right = np.repeat([1.0, 0.0], [30, 10])
    plain, many, few = (score_interval(right, n_train=n_train) for n_train in (None, 1000, 32))
    assert few.low < many.low < plain.low < plain.high < many.high < few.high
    number = 40 / inflation(32 / 44, 40 / 32)
    assert (few.low, few.high) == pytest.approx(wilson(0.75, number))
    assert "overlapping training sets" in few.method
    assert "overlapping training sets" not in plain.method
    perfect = score_interval(np.ones(40), n_train=32)
    assert 0.8 < perfect.low < wilson(1.0, 40)[0] < perfect.high == 1.0


@pytest.mark.parametrize(("kind", "n_samples"), sparse_product(list(simulated.KINDS), list(simulated.SIZES)))
def test_intervals_of_cross_validation_cover_the_expected_score(kind, n_samples):
    """Accuracies of 50, 75 and 95 %; without a correction, intervals at 50 % cover it in 85 to 90 % of data sets.

    The error of one simulated coverage is too large for the upper bound, so that is for the mean of the three.
    """
    settings = [simulated.Setting(kind, n_samples, one, simulated.FEW) for one in simulated.ACCURACIES]
    covered, zero_covered = np.transpose([simulated.coverage(setting, 200, seed=1) for setting in settings])
    assert min(covered) >= 0.90, covered
    assert np.mean(covered) <= 0.99, covered
    assert min(zero_covered) >= 0.90, zero_covered


def test_the_p_value_is_mcnemars():
    rng = np.random.default_rng(0)
    ours, theirs = (rng.uniform(size=(2, 60)) < [[0.8], [0.6]]).astype(float)
    only_ours, only_theirs = int(np.sum(ours > theirs)), int(np.sum(ours < theirs))
    expected = binomtest(only_ours, only_ours + only_theirs, 0.5).pvalue
    assert mcnemar(ours, theirs) == pytest.approx(expected)
    assert paired_difference(ours, theirs).p_value == pytest.approx(expected)
    assert mcnemar(ours, ours) == 1.0
    doubled = mcnemar(np.tile(ours, 2), np.tile(theirs, 2), factor=2.0)
    assert doubled == pytest.approx(expected)  # twice the samples, with half of the information each


def test_the_interval_by_sample_is_bonett_and_prices():
    ours, theirs = np.repeat([1.0, 0.0, 1.0, 0.0], [30, 10, 8, 3]), np.repeat([1.0, 0.0, 0.0, 1.0], [30, 10, 8, 3])
    ahead, behind = 9 / 53, 4 / 53
    error = np.sqrt((ahead + behind - (ahead - behind) ** 2) / 53)
    found = paired_difference(ours, theirs)
    assert found.difference == pytest.approx(5 / 51)
    assert (found.unit, found.n_units) == ("sample", 51)
    assert found.error == pytest.approx(error)
    assert (found.low, found.high) == pytest.approx((ahead - behind - Z * error, ahead - behind + Z * error))
    other = paired_difference(theirs, ours)
    assert (other.low, other.high) == pytest.approx((-found.high, -found.low))


def test_equal_predictions_do_not_make_an_interval_of_width_zero():
    right = np.repeat([1.0, 0.0], [20, 4])
    for found in (
        paired_difference(right, right),
        paired_difference(right, right, np.arange(24) % 6),
        paired_difference(np.tile(right, (3, 1)), np.tile(right, (3, 1)), n_train=27),
    ):
        assert found.difference == 0.0
        assert found.low < -0.01
        assert found.high > 0.01
        assert found.p_value == pytest.approx(1.0)
        assert not found.significant


def test_repeats_of_one_outcome_say_as_much_as_the_outcome():
    rng = np.random.default_rng(3)
    ours, theirs = (rng.uniform(size=(2, 200)) < 0.7).astype(float)
    once = paired_difference(ours, theirs, n_train=150)
    repeated = paired_difference(np.tile(ours, (4, 1)), np.tile(theirs, (4, 1)), n_train=150)
    assert (repeated.low, repeated.high, repeated.error) == pytest.approx((once.low, once.high, once.error))
    assert repeated.p_value == pytest.approx(2 * norm.sf(abs(once.low + once.high) / 2 / once.error))


def test_repeats_that_disagree_average_out():
    """Two repeats with independent outcomes of each sample have half of the variance of one."""
    rng = np.random.default_rng(4)
    ours, theirs = (rng.uniform(size=(2, 2, 20_000)) < 0.7).astype(float)
    errors = [paired_difference(ours[:count], theirs[:count]).error for count in (1, 2)]
    assert errors[0] / errors[1] == pytest.approx(np.sqrt(2), rel=0.02)


def test_the_detectable_difference_is_found_in_four_of_five_data_sets():
    rng = np.random.default_rng(5)

    def differences(gain):
        shares = np.array([[[0.6 + gain]], [[0.6]]])
        draws = [(rng.uniform(size=(2, 2, 120)) < shares).astype(float) for _ in range(400)]
        return [paired_difference(*outcomes) for outcomes in draws]

    equal = differences(0.0)
    detectable = np.median([one.detectable() for one in equal])
    assert detectable == pytest.approx(2.8 * np.sqrt(2 * 0.24 / 240), abs=0.01)
    assert np.mean([one.significant for one in differences(detectable)]) == pytest.approx(0.8, abs=0.07)
    assert equal[0].detectable(6) > equal[0].detectable()


@pytest.mark.parametrize("kind", ["samples", "groups", "classes"])
def test_intervals_of_differences_cover_what_they_say(kind):
    """Both methods are correct on largely the same samples; with groups, the difference varies between groups."""
    rng = np.random.default_rng(7)
    groups, y = np.repeat(np.arange(12), 10), np.tile([0, 0, 0, 1, 1], 24)
    covered, significant = [], []
    for _ in range(DRAWS):
        shift = 0.15 * rng.standard_normal(12)[groups] if kind == "groups" else 0.0
        easy = rng.uniform(size=120)
        ours = easy + 0.8 * rng.uniform(size=120) + shift < 1.0
        theirs = easy + 0.8 * rng.uniform(size=120) < 1.0
        found = paired_difference(
            ours.astype(float),
            theirs.astype(float),
            groups if kind == "groups" else None,
            y if kind == "classes" else None,
        )
        covered.append(found.low <= 0.0 <= found.high)
        significant.append(found.significant)
    assert 0.90 <= np.mean(covered) <= 0.99
    assert np.mean(significant) <= 0.1
