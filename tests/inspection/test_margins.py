"""Tests of the margin report: definitions, and validity of the bounds."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import low_rank_classes
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.datasets import load_digits

from tensormargin import MarginReport, TensorMarginClassifier, margin_report
from tensormargin.inspection import margins


@pytest.fixture(scope="module")
def fitted():
    X, y = low_rank_classes(0, 120, (4, 5), 3.0)
    return TensorMarginClassifier("cp", 1).fit(X, y), X, y


def test_statistics_are_those_of_the_margins(fitted):
    clf, X, y = fitted
    report = margin_report(clf, X, y)
    margins = y * clf.decision_function(X)
    np.testing.assert_allclose(report.margins, margins)
    assert report.mean == pytest.approx(margins.mean())
    assert report.variance == pytest.approx(margins.var())
    assert report.minimum == margins.min()
    assert report.classes == (-1, 1)
    assert repr(report.classes) == "(-1.0, 1.0)"
    assert report.n_samples == 120


def level(size: float, rho: float) -> int:
    """Return the smallest j with 2^j rho >= size, by search."""
    j = -40
    while 2.0**j * rho < size:
        j += 1
    return j


def share(j: int) -> float:
    """Return the share of delta that level j gets."""
    return 1 / (2 * j * (j + 1)) if j >= 1 else 1 / (2 * (1 - j) * (2 - j))


def union_bound(margins, weight, intercept, radius, delta, rho):
    """Return the smallest bound over all classes that contain the fit, as in the notes of MarginReport."""
    n = len(margins)
    values = []
    for j in range(level(weight, rho), 40):
        for k in [None] if intercept is None else range(level(intercept, rho), 40):
            product = 2.0**j * rho * radius + (0.0 if k is None else 2.0**k * rho)
            own_delta = delta * share(j) * (1.0 if k is None else share(k))
            values.append(2 * product / (rho * np.sqrt(n)) + 3 * np.sqrt(np.log(2 / own_delta) / (2 * n)))
    return np.mean(margins <= rho) + min(values)


def plain_bound(report):
    """Return the second and third term of Theorem 1 as if the norms had been known before the fit."""
    product = report.weight_norm * report.sample_norm + report.intercept_norm
    root = np.sqrt(report.n_samples)
    return 2 * product / (report.rho * root), 3 * np.sqrt(np.log(2 / report.delta) / 2) / root


class TestRademacherBound:
    @pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
    @pytest.mark.parametrize(("delta", "rho"), [(0.05, 1.0), (0.1, 0.5), (0.01, 3.0)])
    def test_it_is_the_smallest_of_the_grid(self, fitted, delta, rho, unit):
        _, X, y = fitted
        X = unit * X
        clf = TensorMarginClassifier("cp", 1).fit(X, y)
        report = margin_report(clf, X, y, delta=delta, rho=rho)
        margins = y * clf.decision_function(X)
        radius = np.linalg.norm(X.reshape(120, -1), axis=1).max()
        weight, intercept = np.linalg.norm(clf.coef_), abs(clf.intercept_[0])
        expected = union_bound(margins, weight, intercept, radius, delta, rho)
        assert report.rademacher.value == pytest.approx(expected, rel=1e-12)
        assert report.margin_loss == np.mean(margins <= rho)
        assert report.rademacher.rate == np.mean(margins <= 0)
        assert report.rademacher.vacuous == (expected >= 1)

    def test_the_report_has_every_number_of_it(self, fitted):
        clf, X, y = fitted
        report = margin_report(clf, X, y, delta=0.1, rho=0.5)
        assert report.weight_norm == pytest.approx(np.linalg.norm(clf.coef_))
        assert report.intercept_norm == pytest.approx(abs(clf.intercept_[0]))
        assert report.sample_norm == pytest.approx(np.linalg.norm(X.reshape(120, -1), axis=1).max())
        assert report.weight_bound >= report.weight_norm
        assert report.intercept_bound >= report.intercept_norm
        product = report.weight_bound * report.sample_norm + report.intercept_bound
        confidence = 3 * np.sqrt(np.log(2 / report.delta_used) / (2 * report.n_samples))
        expected = report.margin_loss + 2 * product / (report.rho * np.sqrt(report.n_samples)) + confidence
        assert report.rademacher.value == pytest.approx(expected, rel=1e-12)
        j, k = (int(np.log2(bound / report.rho)) for bound in (report.weight_bound, report.intercept_bound))
        assert report.delta_used == pytest.approx(0.1 * share(j) * share(k), rel=1e-12)

    def test_without_intercept_only_the_weight_needs_a_grid(self):
        X, y = low_rank_classes(0, 60, (4, 5), 3.0)
        clf = TensorMarginClassifier("cp", 1, fit_intercept=False).fit(X, y)
        report = margin_report(clf, X, y)
        assert (report.intercept_norm, report.intercept_bound) == (0, 0)
        radius = np.linalg.norm(X.reshape(60, -1), axis=1).max()
        expected = union_bound(report.margins, np.linalg.norm(clf.coef_), None, radius, 0.05, 1.0)
        assert report.rademacher.value == pytest.approx(expected, rel=1e-12)

    def test_the_shares_of_delta_add_up_to_one(self):
        assert sum(share(j) for j in range(-2000, 2001)) == pytest.approx(1, abs=1e-3)
        assert sum(share(j) for j in range(-2000, 2001)) < 1

    @given(st.floats(1e-6, 1e3), st.floats(0, 1e3), st.floats(0, 1e3), st.integers(1, 10**6), st.floats(1e-6, 0.5))
    def test_it_costs_a_factor_of_two_and_a_double_logarithm(self, weight, intercept, radius, n, delta):
        """Compare with Theorem 1 for the norms of the fit, which a union bound over the grid cannot undercut."""
        norms, rho = margins._Norms(weight, intercept, radius), 1.0
        added, weight_bound, intercept_bound, _ = margins._smallest_excess(norms, n, rho, delta)
        assert weight_bound >= weight
        assert intercept_bound >= intercept
        complexity = 2 * (weight * radius + intercept) / np.sqrt(n)
        confidence = 3 * np.sqrt(np.log(2 / delta) / (2 * n))
        assert added >= (complexity + confidence) * (1 - 1e-12)
        tries = np.prod([(2 + abs(np.log2(max(size, 2.0**-64)))) * 2 for size in (weight, intercept)])
        widened = 3 * np.sqrt((np.log(2 / delta) + 2 * np.log(tries)) / (2 * n))
        assert added <= (2 * complexity + widened) * (1 + 1e-12)
        more = margins._Norms(1.5 * weight, intercept, radius), margins._Norms(weight, 1.5 * intercept, radius)
        assert all(margins._smallest_excess(one, n, rho, delta)[0] >= added for one in more)
        assert margins._smallest_excess(norms, n, rho, delta / 2)[0] >= added
        assert margins._smallest_excess(norms, 2 * n, rho, delta)[0] <= added

    def test_it_holds_and_says_something_where_samples_are_many(self):
        """The true error is known: a tenth of the labels is flipped, and the noise is Gaussian."""
        flipped, spread = 0.1, 0.3
        for seed in range(10):
            rng = np.random.default_rng(seed)
            truth = np.repeat([-1.0, 1.0], 2000)
            X = rng.normal(scale=spread, size=(4000, 2, 2))
            X[:, 0, 0] += truth
            y = np.where(rng.random(4000) < flipped, -truth, truth)
            clf = TensorMarginClassifier("full").fit(X, y)
            weight, intercept = clf.coef_[0], clf.intercept_[0]
            sides = np.array([1.0, -1.0])
            right = norm.cdf((weight[0, 0] + sides * intercept) / (spread * np.linalg.norm(weight)))
            error = flipped + (1 - 2 * flipped) * (1 - right.mean())
            bound = margin_report(clf, X, y, rho=0.5).rademacher
            assert bound.rate - 0.05 < error <= bound.value < 0.75

    def test_it_holds_where_every_label_is_noise(self):
        """No training margin is below 1, yet half of all new samples are misclassified."""
        for seed in range(10):
            rng = np.random.default_rng(seed)
            X, y = rng.normal(size=(40, 10, 40)), np.repeat([-1.0, 1.0], 20)
            report = margin_report(
                TensorMarginClassifier("full", lam=1e3, mu1=0.0, mu2=0.0, scale_free=False).fit(X, y), X, y, rho=0.99
            )
            assert report.margin_loss == 0
            second, third = plain_bound(report)
            assert third < 0.7 < second  # the term with the norms accounts for the overfit
            assert report.rademacher.value >= 0.5
            assert report.rademacher.vacuous


@given(st.integers(0, 10**6), st.floats(0.1, 4.0))
def test_cantelli_holds_on_the_samples_themselves(seed, delta):
    X, y = low_rank_classes(seed, 30, (3, 4), delta)
    report = margin_report(TensorMarginClassifier("cp", 1, scale_free=False).fit(X, y), X, y)
    assert report.cantelli.rate <= report.cantelli.value + 1e-12
    assert 0 <= report.cantelli.value <= 1


@pytest.mark.parametrize(("scheme", "count"), [("ovo", 3), ("ovr", 3)])
def test_several_classes_give_one_report_a_problem(scheme, count):
    X, y = load_digits(n_class=3, return_X_y=True)
    clf = TensorMarginClassifier("full", multi_class=scheme).fit(X, y)
    reports = margin_report(clf, X, y)
    assert len(reports) == count
    assert all(isinstance(report, MarginReport) for report in reports)
    if scheme == "ovo":
        assert [report.classes for report in reports] == [(0, 1), (0, 2), (1, 2)]
        assert reports[0].n_samples == np.sum(y < 2)
    else:
        assert [report.classes for report in reports] == [(None, 0), (None, 1), (None, 2)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"delta": 0.0}, "delta"), ({"delta": 1.5}, "delta"), ({"rho": 0.0}, "rho"), ({"rho": float("nan")}, "rho")],
)
def test_bad_parameters_are_refused(fitted, arguments, message):
    with pytest.raises(ValueError, match=message):
        margin_report(*fitted, **arguments)


def test_unknown_and_missing_labels_are_refused(fitted):
    clf, X, y = fitted
    with pytest.raises(ValueError, match=r"not seen in fit: \[7"):
        margin_report(clf, X, np.where(y > 0, 7, -1))
    with pytest.raises(ValueError, match="inconsistent"):
        margin_report(clf, X, y[1:])
