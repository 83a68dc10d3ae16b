"""Tests of special cases with known solutions: flat SVM, full rank, and the support tensor machine."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import low_rank_classes
from reference import box_qp
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

from tensormargin import TensorMarginClassifier

pytestmark = pytest.mark.numerical


def hinge_objective(coef, intercept, X, signs, lam, bias_cost=0.0):
    margins = signs * (X.reshape(len(X), -1) @ coef.ravel() + intercept)
    return 0.5 * np.sum(coef**2) + bias_cost + lam * np.mean(np.maximum(0, 1 - margins))


@pytest.mark.parametrize("lam", [0.1, 10.0, 1000.0])
@pytest.mark.parametrize("shape", [(400, 6), (30, 80)])
def test_flat_without_margin_terms_is_linear_svc(lam, shape):
    X, signs = low_rank_classes(0, shape[0], shape[1:], 2.0, rank=1)
    ours = TensorMarginClassifier("full", lam=lam, mu1=0, mu2=0, scale_free=False, fit_intercept=False, tol=1e-5).fit(
        X, signs
    )
    theirs = LinearSVC(loss="hinge", C=lam / len(X), fit_intercept=False, tol=1e-8, max_iter=10**7, random_state=0).fit(
        X, signs
    )
    reference = hinge_objective(theirs.coef_, 0.0, X, signs, lam)
    assert ours.objective_[0] == pytest.approx(reference, rel=1e-4)
    assert hinge_objective(ours.coef_, 0.0, X, signs, lam) == pytest.approx(reference, rel=1e-4)


def test_flat_with_intercept_is_linear_svc_with_the_documented_intercept_scaling():
    X, labels = load_digits(n_class=2, return_X_y=True)
    signs = np.where(labels == 1, 1.0, -1.0)
    centred = X - X.mean(axis=0)
    scale = np.sqrt(np.mean(np.sum(centred**2, axis=1)))
    ours = TensorMarginClassifier("full", lam=0.5, mu1=0, mu2=0, scale_free=False, tol=1e-6).fit(X, signs)
    theirs = LinearSVC(
        loss="hinge", C=0.5 / len(X), intercept_scaling=scale, tol=1e-9, max_iter=10**7, random_state=0
    ).fit(centred, signs)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    shifted = ours.intercept_ + ours.coef_[0] @ X.mean(axis=0)
    np.testing.assert_allclose(shifted, theirs.intercept_, atol=1e-3)


@pytest.mark.parametrize("mu", [0.0, 2.0])
@pytest.mark.parametrize(("decomposition", "rank"), [("tucker", (4, 5, 6)), ("tt", (4, 6)), ("cp", 20)])
def test_full_rank_reaches_the_flat_optimum(decomposition, rank, mu):
    X, signs = low_rank_classes(1, 80, (4, 5, 6), 1.0)
    settings = {"scale_free": False, "lam": 5.0, "mu1": mu, "mu2": mu, "tol": 1e-6, "max_iter": 2000}
    flat = TensorMarginClassifier("full", **settings).fit(X, signs)
    structured = TensorMarginClassifier(decomposition, rank, **settings).fit(X, signs)
    assert structured.objective_[0] == pytest.approx(flat.objective_[0], rel=1e-3)
    assert structured.objective_[0] >= flat.objective_[0] - 1e-5 * abs(flat.objective_[0])


def test_rank_one_without_margin_terms_is_the_support_tensor_machine():
    """Compare with the classical STM: alternate a dual SVM over the two vectors of a rank-one weight.

    Where it stops, each vector is optimal, but the two of them together need not be. So ours may end lower, at a point
    where alternation changes nothing any more.
    """
    X, signs = low_rank_classes(2, 100, (6, 7), 2.0, rank=1)
    lam = 8.0
    ours = TensorMarginClassifier(
        "cp", 1, lam=lam, mu1=0, mu2=0, scale_free=False, fit_intercept=False, tol=1e-7, max_iter=500
    )
    ours.fit(X, signs)
    from_the_mean = alternated(X, signs, lam, np.linalg.svd(np.tensordot(signs, X, 1))[2][0], 40)
    assert ours.objective_[0] <= from_the_mean * (1 + 1e-4)
    assert ours.objective_[0] == pytest.approx(from_the_mean, rel=0.02)
    from_ours = alternated(X, signs, lam, np.linalg.svd(ours.coef_[0])[2][0], 5)
    assert ours.objective_[0] == pytest.approx(from_ours, rel=1e-4)


def alternated(X, signs, lam, right, rounds):
    """Return the objective that the classical STM reaches from the second vector of a weight."""
    for _ in range(rounds):
        left = support_vectors_weight(np.einsum("nab,b->na", X, right), signs, lam)
        left /= np.linalg.norm(left)
        right = support_vectors_weight(np.einsum("nab,a->nb", X, left), signs, lam)
        weight = np.outer(left, right)
        right /= np.linalg.norm(right)
    return hinge_objective(weight, 0.0, X, signs, lam)


def support_vectors_weight(design, signs, lam):
    """Return the weight of a linear SVM without intercept, from its dual."""
    signed = signs[:, None] * design
    bounds = np.zeros(len(design)), np.full(len(design), lam / len(design))
    return box_qp(signed @ signed.T, -np.ones(len(design)), *bounds) @ signed


def test_vectors_make_all_decompositions_equal():
    X, signs = low_rank_classes(3, 60, (9,), 2.0, rank=1)
    scores = [
        TensorMarginClassifier(name, tol=1e-6).fit(X, signs).decision_function(X)
        for name in ("full", "cp", "tucker", "tt")
    ]
    for score in scores[1:]:
        np.testing.assert_allclose(score, scores[0], rtol=1e-6)
