"""Regression tests: each case once broke the estimator."""

from __future__ import annotations

import numpy as np
import pytest
import tensorly as tl
from conftest import low_rank_classes
from sklearn.exceptions import NotFittedError

from tensormargin import TensorMarginClassifier, margin_report

pytestmark = pytest.mark.numerical


def actual_objective(clf, X, y, lam, mu1, mu2):
    """Return Eq. 7 with the intercept's penalty, from the fitted attributes alone."""
    X = X.astype(np.float64)
    signs = np.where(y == clf.classes_[1], 1.0, -1.0)
    margins = signs * (X.reshape(len(X), -1) @ clf.coef_[0].ravel() + clf.intercept_[0])
    value = 0.5 * np.sum(clf.coef_.astype(np.float64) ** 2) + mu1 * margins.var() - mu2 * margins.mean()
    if clf.fit_intercept:
        square = np.mean(np.sum((X - X.mean(axis=0)).reshape(len(X), -1) ** 2, axis=1))
        value += 0.5 * (clf.intercept_[0] + np.sum(clf.coef_[0] * X.mean(axis=0))) ** 2 / square
    return value + lam * np.mean(np.maximum(0, 1 - margins))


@pytest.mark.parametrize("mu1", [1e4, 1e8, 1e10, 1e12])
def test_a_strong_variance_term_on_few_samples(mu1):
    X = np.random.RandomState(0).randn(10, 20)
    y = np.where(np.arange(10) % 2, 1, -1)
    wide = TensorMarginClassifier("full", mu1=mu1, scale_free=False).fit(X, y)
    tall = TensorMarginClassifier("full", mu1=mu1, scale_free=False).fit(np.repeat(X, 3, axis=0), np.repeat(y, 3))
    assert wide.objective_[0] == pytest.approx(actual_objective(wide, X, y, 1.0, mu1, 1.0), rel=1e-4)
    assert wide.objective_[0] == pytest.approx(tall.objective_[0], rel=1e-3)


@pytest.mark.parametrize("factor", [1e4, 1e7, 1e8])
def test_one_sample_far_larger_than_the_others(factor):
    X = np.random.RandomState(0).randn(20, 30)
    y = np.where(np.arange(20) % 2, 1, -1)
    X[y > 0, :3] += 3
    X[0] *= factor
    clf = TensorMarginClassifier("full", mu1=0, mu2=0, scale_free=False, fit_intercept=False).fit(X, y)
    assert clf.objective_[0] == pytest.approx(actual_objective(clf, X, y, 1.0, 0, 0), rel=1e-4)
    assert clf.score(X, y) == 1.0


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_large_lam_converges_in_single_precision_too(dtype):
    rng = np.random.RandomState(0)
    y = np.arange(1500) % 2
    X = np.clip(rng.standard_normal((1500, 80)) * 40 + 120 + 6 * y[:, None], 0, 255).astype(dtype)
    clf = TensorMarginClassifier("full", mu1=0, mu2=0, scale_free=False).fit(X, y)  # warnings are errors here
    assert clf.history_["gap"][-1].max() <= 1e-4


@pytest.mark.parametrize(("n", "d", "lam"), [(200, 20, 1e4), (2000, 50, 1e6), (1500, 120, 1e8)])
def test_hinge_only_with_a_huge_lam_converges(n, d, lam):
    rng = np.random.RandomState(0)
    y = np.arange(n) % 2
    X = rng.standard_normal((n, d)) + 0.3 * y[:, None] * (rng.rand(d) < 0.2)
    clf = TensorMarginClassifier("full", lam=lam, mu1=0, mu2=0, scale_free=False).fit(X, y)
    assert clf.history_["gap"][-1].max() <= 1e-4


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(k, marks=pytest.mark.campaign) for k in (3, 4, 5))])
@pytest.mark.parametrize("name", ["cp", "tucker"])
def test_repeating_all_samples_does_not_matter_to_small_problems(name, seed):
    rng = np.random.RandomState(seed)
    n = rng.randint(40, 80)
    X, y = rng.randn(n, 9, 9), np.arange(n) % 2
    X[y > 0] += 0.3
    once = TensorMarginClassifier(name, mu1=0, mu2=0).fit(X, y)
    thrice = TensorMarginClassifier(name, mu1=0, mu2=0).fit(np.repeat(X, 3, axis=0), np.repeat(y, 3))
    np.testing.assert_allclose(thrice.decision_function(X), once.decision_function(X), atol=1e-4)


def test_the_scheme_is_that_of_the_fit_not_that_of_the_moment():
    rng = np.random.RandomState(0)
    y = np.arange(60) % 3
    X = rng.standard_normal((60, 4, 5)) + 3 * np.eye(4, 5)[None] * (y[:, None, None] - 1)
    clf = TensorMarginClassifier("cp", 1).fit(X, y)
    before = clf.predict(X)
    np.testing.assert_array_equal(clf.set_params(multi_class="ovr").predict(X), before)
    assert [report.classes for report in margin_report(clf, X, y)] == [(0, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize("change", ["labels", "scheme"])
def test_a_warm_start_needs_the_same_classes_and_scheme(change):
    rng = np.random.RandomState(0)
    y = np.arange(60) % 3
    X = rng.standard_normal((60, 4, 5)) + np.eye(4, 5)[None] * (y[:, None, None] - 1)
    warm = TensorMarginClassifier("cp", 1, warm_start=True).fit(X, y)
    scheme = "ovr" if change == "scheme" else "ovo"
    labels = y + 1 if change == "labels" else y
    cold = TensorMarginClassifier("cp", 1, multi_class=scheme).fit(X, labels)
    np.testing.assert_array_equal(warm.set_params(multi_class=scheme).fit(X, labels).coef_, cold.coef_)


def test_a_failed_fit_does_not_count_as_fitted():
    X, y = low_rank_classes(0, 20, (4, 5), 2.0)
    clf = TensorMarginClassifier("tucker", (1, 1, 1))
    with pytest.raises(ValueError, match="one number per mode"):
        clf.fit(X, y)
    with pytest.raises(NotFittedError):
        clf.predict(X)


def test_a_failed_refit_leaves_the_model_usable():
    X, y = low_rank_classes(0, 20, (4, 5), 2.0)
    clf = TensorMarginClassifier("tucker").fit(X, y)
    before = clf.predict(X)
    with pytest.raises(ValueError, match="at least two classes"):
        clf.fit(X[:, :3], np.ones(20))
    np.testing.assert_array_equal(clf.predict(X), before)


@pytest.mark.parametrize("change", [lambda X: X.reshape(len(X), -1), lambda X: X.transpose(0, 2, 1), lambda X: X[0]])
def test_every_wrong_shape_gets_the_message_about_shapes(change):
    X, y = low_rank_classes(0, 20, (4, 5), 2.0)
    with pytest.raises(ValueError, match=r"shape seen in fit, \(4, 5\)"):
        TensorMarginClassifier("cp").fit(X, y).predict(change(X))


def test_vectors_are_held_to_their_shape_too():
    X, y = low_rank_classes(0, 20, (4,), 2.0, rank=1)
    with pytest.raises(ValueError, match=r"shape seen in fit, \(4,\)"):
        TensorMarginClassifier("cp").fit(X, y).predict(np.repeat(X[:, :, None], 2, axis=2))


def test_huge_weights_are_weights():
    X, y = low_rank_classes(0, 20, (4, 5), 2.0)
    plain = TensorMarginClassifier("cp").fit(X, y)
    np.testing.assert_allclose(TensorMarginClassifier("cp").fit(X, y, np.full(20, 1e308)).coef_, plain.coef_)


@pytest.mark.parametrize("name", ["full", "cp", "tucker", "tt"])
def test_a_large_offset_costs_single_precision_no_more_than_the_samples_own_rounding(name):
    X, y = low_rank_classes(0, 60, (8, 8, 8), 3.0)
    rounded = (X + 1e4).astype(np.float32)
    single = TensorMarginClassifier(name).fit(rounded, y)
    double = TensorMarginClassifier(name).fit(rounded.astype(np.float64) - 1e4, y)
    np.testing.assert_allclose(single.objective_, double.objective_, rtol=1e-4)
    np.testing.assert_allclose(single.coef_, double.coef_, atol=2e-3 * np.abs(double.coef_).max())


def test_the_bound_of_zero_samples_is_that_of_the_intercept():
    X, y = low_rank_classes(0, 40, (4, 5), 3.0)
    clf = TensorMarginClassifier("cp").fit(X + 1, y)
    report = margin_report(clf, np.zeros((4, 4, 5)), [1, 1, -1, -1])
    assert report.sample_norm == 0
    assert report.intercept_norm == pytest.approx(abs(clf.intercept_[0]))
    added = report.rademacher.value - report.margin_loss
    confidence = 3 * np.sqrt(np.log(2 / report.delta_used) / 8)
    assert added == pytest.approx(2 * report.intercept_bound / np.sqrt(4) + confidence)


@pytest.mark.parametrize("name", ["cp", "tucker", "tt"])
def test_the_users_choice_of_tensorly_backend_does_not_matter(name, monkeypatch):
    X, y = low_rank_classes(0, 20, (4, 5), 2.0)
    entered = []
    original = tl.backend_context
    monkeypatch.setattr(tl, "backend_context", lambda *a, **k: entered.append(a) or original(*a, **k))
    TensorMarginClassifier(name).fit(X, y)
    assert entered == [("numpy",)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["full", "cp"])
def test_it_does_not_matter_which_sample_comes_first(name, dtype):
    """Check that a first sample that is an outlier does not become the pivot."""
    X, y = low_rank_classes(0, 20000, (8, 8), 3.0)
    X[0] += 1e6
    X = X.astype(dtype)
    weights = np.ones(20000)
    weights[0] = 1e-9
    first = TensorMarginClassifier(name).fit(X, y, weights)
    last = TensorMarginClassifier(name).fit(np.roll(X, -1, 0), np.roll(y, -1), np.roll(weights, -1))
    assert first.objective_[0] == pytest.approx(last.objective_[0], rel=1e-3)
    np.testing.assert_allclose(first.coef_, last.coef_, atol=0.02 * np.abs(last.coef_).max())


@pytest.mark.parametrize("lam", [1e2, 1e4, 1e6])
def test_single_precision_reaches_the_gap_whatever_lam_on_few_large_samples(lam):
    X = np.random.RandomState(0).standard_normal((300, 20, 20, 20))
    clf = TensorMarginClassifier("full", lam=lam, mu1=0, mu2=0, scale_free=False).fit(
        X, np.arange(300) % 2
    )  # warnings are errors
    assert clf.objective_[0] == pytest.approx(0.0196771, rel=1e-3)  # separable: the hard margin, whatever lam


def test_single_precision_reaches_the_gap_with_a_large_lam_on_many_samples():
    rng = np.random.RandomState(0)
    X, w = rng.standard_normal((20000, 8, 8)), rng.standard_normal((8, 8))
    y = (np.sum(X * w, axis=(1, 2)) + rng.standard_normal(20000) > 0).astype(int)
    clf = TensorMarginClassifier("full", lam=1e7, scale_free=False).fit(X, y)
    assert clf.history_["gap"][-1].max() <= 1e-4
