"""Tests of the block problem against the paper's equations as printed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import paper_block, random_block

from tensormargin.fitting import SOLVERS, MarginProblem, Objective
from tensormargin.fitting.blocks import block_problem
from tensormargin.fitting.objective import Certificate

pytestmark = pytest.mark.numerical

SIDES = [(30, 5), (6, 40), (12, 12)]


@pytest.mark.parametrize("shape", SIDES)
@pytest.mark.parametrize(("mu1", "mu2"), [(0.0, 0.0), (1.0, 1.0), (5.0, 0.0), (0.0, 3.0)])
def test_agrees_with_eq_13_and_14_solved_by_a_general_qp_solver(shape, mu1, mu2):
    design, signs = random_block(*shape, seed=1)
    lam = 7.0
    expected = paper_block(design, signs, lam, mu1, mu2)
    weights = np.full(shape[0], 1 / shape[0])
    problem = block_problem(design, MarginProblem(signs, Objective(lam, mu1, mu2, weights), 0.0))
    solution = SOLVERS["dual_cd"](problem, tol=1e-10)
    np.testing.assert_allclose(problem.recover(solution.u, solution.margins).vector, expected, atol=2e-5)


@pytest.mark.parametrize("shape", SIDES)
@pytest.mark.parametrize("bias_scale", [0.0, 2.0])
@pytest.mark.parametrize("mu1", [0.0, 2.0])
def test_primal_value_is_the_objective_of_eq_7(shape, bias_scale, mu1):
    design, signs = random_block(*shape, seed=2)
    weights = np.random.RandomState(0).rand(shape[0])
    objective = Objective(3.0, mu1, 0.5, weights / weights.sum())
    problem = block_problem(design + 5.0, MarginProblem(signs, objective, bias_scale))
    solution = SOLVERS["dual_cd"](problem, tol=1e-6)
    found = problem.recover(solution.u, solution.margins)
    margins = signs * ((design + 5.0) @ found.vector + found.intercept)
    np.testing.assert_allclose(margins, solution.margins, atol=1e-8)
    assert objective.value(found.squared_norm, margins) == pytest.approx(solution.certificate.primal, rel=1e-9)


def test_both_sides_give_the_same_block():
    """With d > N columns the problem is whitened on the sample side, without the zero columns on the feature side."""
    design, signs = random_block(20, 19, seed=3)
    objective = Objective(5.0, 1.0, 1.0, np.full(20, 1 / 20))
    wide = np.hstack([design, np.zeros((20, 10))])
    found = []
    for matrix in (design, wide):
        problem = block_problem(matrix, MarginProblem(signs, objective, 0.0))
        solution = SOLVERS["dual_cd"](problem, tol=1e-11)
        found.append(problem.recover(solution.u, solution.margins).vector[:19])
    np.testing.assert_allclose(found[0], found[1], atol=1e-7)


def test_many_samples_without_variance_term_need_no_gram_matrix():
    design, signs = random_block(1000, 1100, seed=6)
    objective = Objective(5.0, 0.0, 1.0, np.full(1000, 1 / 1000))
    assert block_problem(design, MarginProblem(signs, objective, 1.0)).rows.shape == (1000, 1101)
    whitened = block_problem(design, MarginProblem(signs, Objective(5.0, 1.0, 1.0, objective.weights), 1.0))
    assert whitened.rows.shape[1] <= 1000


@given(st.integers(2, 25), st.integers(1, 25), st.floats(0, 20), st.floats(0, 20), st.integers(0, 10**6))
def test_weak_duality_at_any_dual_point(n, d, mu1, mu2, seed):
    rng = np.random.RandomState(seed)
    design, signs = random_block(n, d, seed)
    problem = block_problem(design, MarginProblem(signs, Objective(4.0, mu1, mu2, np.full(n, 1 / n)), 1.0))
    beta = problem.lower + rng.rand(n) * (problem.upper - problem.lower)
    u = beta @ problem.rows
    certificate = problem.certify(u, beta, problem.rows @ u)
    assert certificate.primal >= certificate.dual - 1e-9 * certificate.scale
    assert certificate.scale >= abs(certificate.primal) - 1e-12


def test_adding_a_constant_row_changes_nothing_with_an_intercept():
    design, signs = random_block(30, 4, seed=4)
    objective = Objective(5.0, 1.0, 1.0, np.full(30, 1 / 30))
    scores = []
    for shift in (0.0, 1e4):
        problem = block_problem(design + shift, MarginProblem(signs, objective, 1.5))
        solution = SOLVERS["dual_cd"](problem, tol=1e-10)
        found = problem.recover(solution.u, solution.margins)
        scores.append((design + shift) @ found.vector + found.intercept)
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-6)


def test_the_intercept_is_penalised_as_documented():
    """If all samples are equal, only b is left: min 1/2 (b/c)^2 + hinge, solved by hand."""
    signs = np.array([1.0, 1.0, 1.0, -1.0])
    design = np.zeros((4, 1))
    objective = Objective(0.1, 0.0, 0.0, np.full(4, 0.25))
    problem = block_problem(design, MarginProblem(signs, objective, 0.5))
    solution = SOLVERS["dual_cd"](problem, tol=1e-10)
    b = problem.recover(solution.u, solution.margins).intercept
    # stationary at b / c^2 = lam * (share of + minus share of -) as long as |b| < 1
    assert b == pytest.approx(0.1 * 0.5 * 0.5**2)


def test_a_quadratic_form_that_overflows_says_what_to_do():
    design, signs = random_block(30, 4, seed=5)
    with pytest.raises(ValueError, match="scale the samples or lower mu1"), np.errstate(all="ignore"):
        block_problem(design * 1e200, MarginProblem(signs, Objective(1.0, 1.0, 1.0, np.full(30, 1 / 30)), 0.0))


@pytest.mark.parametrize("values", [(np.nan, 0.0, 1.0), (1.0, np.nan, 1.0), (np.nan,) * 3, (np.inf, 1.0, np.inf)])
def test_a_certificate_that_is_not_finite_proves_nothing(values):
    assert Certificate(*values).relative_gap == np.inf
    assert Certificate(2.0, 1.0, 4.0).relative_gap == 0.25
    assert Certificate(1.0, 1.5, 4.0).relative_gap == 0.125  # no better than a positive one
    assert Certificate(0.0, 0.0, 0.0).relative_gap == 0.0
