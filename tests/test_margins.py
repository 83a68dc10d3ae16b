"""The margin report: definitions, and bounds that hold."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import low_rank_classes
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from tensormargin import MarginReport, TensorMarginClassifier, margin_report


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


def test_the_rademacher_bound_is_theorem_1_with_its_ingredients(fitted):
    clf, X, y = fitted
    report = margin_report(clf, X, y, delta=0.1, rho=0.5)
    margins = y * clf.decision_function(X)
    radius = np.linalg.norm(X.reshape(120, -1), axis=1).max()
    product = np.linalg.norm(clf.coef_) * radius + abs(clf.intercept_[0])
    assert report.weight_norm * report.sample_norm == pytest.approx(product)
    expected = np.mean(margins <= 0.5) + 2 * product / (0.5 * np.sqrt(120)) + 3 * np.sqrt(np.log(20) / 240)
    assert report.rademacher.value == pytest.approx(expected)
    assert report.margin_loss == np.mean(margins <= 0.5)
    assert report.rademacher.rate == np.mean(margins <= 0)
    assert report.rademacher.vacuous == (expected >= 1)


def test_without_intercept_the_ingredients_are_the_plain_norms():
    X, y = low_rank_classes(0, 60, (4, 5), 3.0)
    clf = TensorMarginClassifier("cp", 1, fit_intercept=False).fit(X, y)
    report = margin_report(clf, X, y)
    assert report.weight_norm == pytest.approx(np.linalg.norm(clf.coef_))
    assert report.sample_norm == pytest.approx(np.linalg.norm(X.reshape(60, -1), axis=1).max())


@given(st.integers(0, 10**6), st.floats(0.1, 4.0))
@settings(deadline=None, max_examples=25)
def test_cantelli_holds_on_the_samples_themselves(seed, delta):
    X, y = low_rank_classes(seed, 30, (3, 4), delta)
    report = margin_report(TensorMarginClassifier("cp", 1, lam=1.0).fit(X, y), X, y)
    assert report.cantelli.rate <= report.cantelli.value + 1e-12
    assert 0 <= report.cantelli.value <= 1


def test_the_rademacher_bound_holds_for_fresh_samples(fitted):
    clf, X, y = fitted
    fresh, labels = low_rank_classes(0, 2120, (4, 5), 3.0)
    report = margin_report(clf, X, y)
    assert 1 - clf.score(fresh[120:], labels[120:]) <= report.rademacher.value


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
