"""Flat weights by inner products that several problems share, against the paper's dual and fits of single problems."""

from contextlib import nullcontext

import numpy as np
import pytest
from tests.reference import paper_coefficients, random_block

from tensormargin.fitting import MarginProblem, Objective, SharedForm, native, row_loops, without_native

pytestmark = pytest.mark.numerical
compiled = pytest.mark.skipif(
    not native.has_native("tensormargin_descend_products"), reason="compiled code is missing: there was no C compiler"
)
both_ways = pytest.mark.parametrize(
    "way", [pytest.param(nullcontext, id="compiled", marks=compiled), pytest.param(without_native, id="python")]
)
STRENGTHS = [
    (5.0, 0.0, 0.0),
    (5.0, 2.0, 0.0),
    (50.0, 30.0, 3.0),
    (1.0, 1000.0, 0.0),
    (300.0, 0.0, 10.0),
    (0.0, 3.0, 2.0),
]


def form_of(gram, signs, strength, bias=0.0, weights=None, tol=1e-6):
    weights = np.full(len(gram), 1 / len(gram)) if weights is None else weights
    return SharedForm.of(gram, MarginProblem(signs, Objective(*strength, weights), bias), tol)


@both_ways
@pytest.mark.parametrize("strength", STRENGTHS, ids=str)
@pytest.mark.parametrize(("n", "d"), [(30, 90), (40, 12), (3, 5)])
def test_weights_are_those_of_the_papers_dual(way, n, d, strength):
    design, signs = random_block(n, d, seed=n)
    gram = design @ design.T
    with way():
        form = form_of(gram, signs, strength)
        for own in (signs, -signs, np.roll(signs, 1)):
            solution = form.solve(own, 1e-6)
            expected = design.T @ paper_coefficients(gram, own, *strength)
            length = max(float(np.linalg.norm(expected)), 1e-3)
            assert solution.certificate.relative_gap <= 1e-6
            np.testing.assert_allclose(design.T @ solution.shares, expected, atol=3e-4 * length)
            assert solution.intercept == 0.0


@pytest.mark.parametrize("seed", range(6))
def test_the_certificate_is_that_of_the_weight(seed):
    """Primal values are Eq. 7 of the weight, also with sample weights and an intercept; dual values are no higher."""
    design, signs = random_block(50, 80, seed)
    rng = np.random.RandomState(seed)
    weights = rng.rand(50) + 0.1
    weights /= weights.sum()
    objective, bias = Objective(*rng.rand(3) * [100, 50, 5], weights), 1.5
    centred = design - weights @ design
    form = SharedForm.of(centred @ centred.T, MarginProblem(signs, objective, bias), 1e-3)
    for tol in (1e-2, 1e-5):
        solution = form.solve(signs, tol)
        vector = centred.T @ solution.shares
        margins = signs * (centred @ vector + solution.intercept)
        value = objective.value(float(vector @ vector) + (solution.intercept / bias) ** 2, margins)
        assert solution.certificate.primal == pytest.approx(value, rel=1e-9)
        assert solution.certificate.dual <= value + 1e-9 * abs(value)
        assert solution.certificate.relative_gap <= tol


@both_ways
def test_few_samples_are_solved_exactly_whatever_the_tolerance(way):
    design, signs = random_block(60, 90, seed=4)
    form = form_of(design @ design.T, signs, (50.0, 30.0, 3.0))
    with way():
        assert form.solve(signs, 1e-2).certificate.relative_gap < 1e-11


def test_hard_problems_end_with_an_honest_gap():
    """Equal samples, one sample, samples of zeros and far too few epochs: what is returned says how good it is."""
    design, signs = random_block(40, 60, seed=1)
    equal = np.repeat(design[:1], 6, axis=0)
    for rows, own in ((equal, signs[:6]), (design[:1], signs[:1]), (np.zeros((4, 3)), signs[:4])):
        solution = form_of(rows @ rows.T, own, (5.0, 1.0, 1.0)).solve(own, 1e-6)
        assert solution.certificate.relative_gap <= 1e-6
    for scale in (1e-20, 1e20):
        strength = 5.0 / scale**2, 1.0 / scale**2, 1.0 / scale**2
        assert (
            form_of((scale * design) @ (scale * design).T, signs, strength).solve(signs, 1e-6)[2].relative_gap <= 1e-6
        )
    badly_scaled = design * np.logspace(0, 5, 60)
    solution = form_of(badly_scaled @ badly_scaled.T, signs, (1e4, 0.0, 0.0)).solve(signs, 1e-12)
    assert np.isfinite(solution.certificate.primal)
    assert 0.0 <= solution.certificate.relative_gap < 1.0


def test_no_form_where_rounding_would_spoil_it():
    design, signs = random_block(30, 50, seed=2)
    assert form_of(design @ design.T, signs, (1.0, 1e16, 0.0)) is None


@compiled
def test_the_same_epochs_are_made_in_either_way():
    design, signs = random_block(25, 40, seed=3)
    gram, vector, found = design @ design.T, design[:, 0].copy(), []
    bounds = signs, np.full(25, 0.1), np.full(25, 0.3)
    for way in (nullcontext, without_native):
        beta, seed = bounds[1].copy(), np.array([7], np.uint64)
        point = beta, gram @ (signs * beta), np.array([vector @ (signs * beta)])
        with way():
            epochs = row_loops.descend_products((gram, vector, 0.5), bounds, point, seed, 1e-6, 500)
        found.append((epochs, beta))
        np.testing.assert_allclose(point[1], gram @ (signs * beta), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(point[2], vector @ (signs * beta), rtol=1e-9, atol=1e-9)
    assert found[0][0] == found[1][0] < 500
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-9, atol=1e-12)
