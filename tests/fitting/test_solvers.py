"""Tests of the contract of every registered solver."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import box_qp, random_block

from tensormargin.fitting import SOLVERS, MarginProblem, Objective
from tensormargin.fitting.blocks import block_problem
from tensormargin.fitting.solvers import dual_cd

pytestmark = pytest.mark.numerical


def make(n, d, seed=0, lam=10.0, mu1=1.0, mu2=1.0, bias=1.0, dtype=np.float64):
    design, signs = random_block(n, d, seed)
    weights = np.random.RandomState(seed).rand(n) + 0.1
    return block_problem(
        design.astype(dtype), MarginProblem(signs, Objective(lam, mu1, mu2, weights / weights.sum()), bias)
    )


PROBLEMS = {
    "tall": lambda: make(400, 10),
    "wide": lambda: make(30, 200),
    "square": lambda: make(40, 39),
    "hinge only": lambda: make(300, 8, mu1=0.0, mu2=0.0),
    "separable": lambda: make(40, 60, lam=1e4, mu1=0.0, mu2=0.0),
    "strong variance": lambda: make(200, 8, mu1=1e4),
    "strong mean": lambda: make(200, 8, mu2=1e3),
    "tiny lam": lambda: make(200, 8, lam=1e-6),
    "no intercept": lambda: make(100, 8, bias=0.0),
    "single precision": lambda: make(400, 10, dtype=np.float32),
    "two samples": lambda: make(2, 3),
}
EACH = [(solver, problem) for solver in SOLVERS for problem in PROBLEMS]


def tolerance(name):
    return 1e-5 if name == "single precision" else 1e-7


@pytest.mark.parametrize(("solver", "name"), EACH)
def test_the_gap_is_reached_and_certified(solver, name):
    problem = PROBLEMS[name]()
    solution = SOLVERS[solver](problem, tol=tolerance(name), max_epochs=20000)
    assert solution.converged
    assert 0 <= solution.certificate.relative_gap <= tolerance(name)
    again = problem.certify(solution.u, solution.beta, problem.rows @ solution.u)
    assert again.primal == pytest.approx(solution.certificate.primal, rel=1e-5)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("scale", [1.0, 1e4, 1e6])
def test_equal_columns_do_not_end_in_a_singular_matrix(solver, scale):
    """With equal columns, such as neighbouring bands, the Newton system is numerically singular near the optimum."""
    for seed in range(20):
        rng = np.random.RandomState(seed)
        design = scale * np.repeat(rng.standard_normal((20, 3)), 2, axis=1)
        signs = np.where(np.arange(20) % 2, 1.0, -1.0)
        problem = block_problem(
            design, MarginProblem(signs, Objective(1e3 / scale**2, 0.0, 0.0, np.full(20, 1 / 20)), scale)
        )
        solution = SOLVERS[solver](problem, tol=1e-12, max_epochs=500)
        assert 0 <= solution.certificate.relative_gap < 1e-4


@pytest.mark.parametrize(("solver", "name"), EACH)
def test_kkt_conditions(solver, name):
    problem = PROBLEMS[name]()
    solution = SOLVERS[solver](problem, tol=tolerance(name), max_epochs=20000)
    beta, width = solution.beta, problem.upper - problem.lower
    assert np.all((beta >= problem.lower) & (beta <= problem.upper))
    np.testing.assert_allclose(solution.u, beta @ problem.rows, rtol=1e-4, atol=1e-5)
    # The gap is the sum of these violations of complementarity.
    violation = np.where(
        solution.margins < 1,
        (problem.upper - beta) * (1 - solution.margins),
        (beta - problem.lower) * (solution.margins - 1),
    )
    assert violation.max() <= 2 * tolerance(name) * solution.certificate.scale
    assert width.min() > 0


@pytest.mark.parametrize(("solver", "name"), EACH)
def test_agrees_with_a_general_qp_solver(solver, name):
    problem = PROBLEMS[name]()
    solution = SOLVERS[solver](problem, tol=tolerance(name), max_epochs=20000)
    rows = problem.rows.astype(np.float64)
    reference = box_qp(rows @ rows.T, -np.ones(len(rows)), problem.lower, problem.upper)
    reference = np.clip(reference, problem.lower, problem.upper)
    u = reference @ rows
    best = problem.certify(u, reference, rows @ u)
    scale = solution.certificate.scale
    assert abs(solution.certificate.dual - best.dual) <= 3 * tolerance(name) * scale


@pytest.mark.parametrize("solver", SOLVERS)
def test_same_bits_twice_and_the_start_is_not_written_to(solver):
    problem = PROBLEMS["tall"]()
    start = problem.lower.copy()
    first = SOLVERS[solver](problem, start, tol=1e-4)
    second = SOLVERS[solver](problem, start, tol=1e-4)
    np.testing.assert_array_equal(first.beta, second.beta)
    np.testing.assert_array_equal(start, problem.lower)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_warm_start_at_the_solution_is_at_once_done(solver):
    problem = PROBLEMS["tall"]()
    solution = SOLVERS[solver](problem, tol=1e-12, max_epochs=50000)
    again = SOLVERS[solver](problem, solution.beta, tol=1e-6)
    assert again.n_epochs <= 1


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_start_outside_the_box_is_clipped(solver):
    problem = PROBLEMS["tall"]()
    solution = SOLVERS[solver](problem, np.full(400, 1e9), tol=1e-5, max_epochs=20000)
    assert solution.converged


@pytest.mark.parametrize("solver", SOLVERS)
def test_running_out_of_epochs_is_told(solver):
    problem = make(3000, 40, lam=1e5, mu1=0.0, mu2=0.0)
    solution = SOLVERS[solver](problem, tol=1e-9, max_epochs=2)
    assert not solution.converged
    assert solution.certificate.relative_gap > 1e-9


@given(
    st.integers(2, 40),
    st.integers(1, 40),
    st.floats(1e-3, 1e3),
    st.floats(0, 100),
    st.floats(0, 100),
    st.integers(0, 99),
)
def test_coordinate_descent_solves_small_problems_exactly(n, d, lam, mu1, mu2, seed):
    solution = SOLVERS["dual_cd"](make(n, d, seed, lam, mu1, mu2), tol=1e-3)
    assert solution.certificate.relative_gap < 1e-8


@pytest.mark.parametrize("order", ["drawn", "alternating", "sorted"])
def test_descent_over_few_of_many_samples_says_at_which_bound_the_others_end(order):
    """Whatever the order of the labels: one sample in eight would be of a single class if they alternate."""
    n, rng = 9000, np.random.default_rng(0)
    signs = {"drawn": rng.choice([-1.0, 1.0], n), "alternating": np.where(np.arange(n) % 2, 1.0, -1.0)}
    signs["sorted"] = np.sort(signs["alternating"])
    design = rng.standard_normal((n, 10)) + 0.6 * signs[order][:, None]
    problem = block_problem(design, MarginProblem(signs[order], Objective(10.0, 1.0, 1.0, np.full(n, 1 / n)), 1.0))
    solution = dual_cd.solve_dual_cd(problem, tol=1e-7)
    beta = dual_cd._WorkingSet(problem).guess()
    assert solution.converged
    assert np.mean(np.abs(beta - solution.beta) < 1e-6 / n) > 0.9


def test_zero_rows_are_no_trouble():
    signs = np.array([1.0, -1.0, 1.0])
    problem = block_problem(np.zeros((3, 2)), MarginProblem(signs, Objective(1.0, 1.0, 1.0, np.full(3, 1 / 3)), 0.0))
    for solver in SOLVERS.values():
        solution = solver(problem, tol=1e-9)
        assert solution.converged
        np.testing.assert_array_equal(solution.u, 0)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("entry", "lam"), [(np.nan, 1.0), (1.0, 1e200)], ids=["nan", "overflow"])
def test_what_is_not_finite_is_not_called_solved(solver, entry, lam):
    design, signs = random_block(20, 3, 0)
    design[4, 1] = entry
    with np.errstate(all="ignore"):
        problem = block_problem(design, MarginProblem(signs, Objective(lam, 0.0, 0.0, np.full(20, 1 / 20)), 0.0))
        solution = SOLVERS[solver](problem, tol=1e-3, max_epochs=300)
    assert not solution.converged
    assert solution.certificate.relative_gap > 1e-3


@pytest.mark.parametrize("seed", range(20))
def test_a_step_to_the_minimum_on_a_face_is_cut_at_the_bounds_where_the_dual_rises_most(seed):
    rng = np.random.RandomState(seed)
    design, signs = rng.standard_normal((40, 30)), np.where(np.arange(40) % 2, 1.0, -1.0)
    problem = block_problem(design, MarginProblem(signs, Objective(5.0, 0.0, 0.0, np.full(40, 1 / 40)), 0.0))
    beta = problem.lower + rng.rand(40) * (problem.upper - problem.lower)
    free = np.flatnonzero(rng.rand(40) < 0.25)
    rows = problem.rows[free]
    gram, right = rows @ rows.T, 1.0 - rows @ problem.primal_point(beta)
    step = dual_cd._solve_semidefinite(gram, right)
    moved, hit = dual_cd._cut_at_bounds(beta[free], step, right, gram, problem.lower[free], problem.upper[free])

    def rise(change):
        return change @ right - 0.5 * change @ gram @ change

    lower, upper = problem.lower[free], problem.upper[free]
    assert np.all((moved >= lower) & (moved <= upper))
    np.testing.assert_array_equal(hit, (moved == lower) | (moved == upper))
    share = min(1.0, float((np.where(step > 0, upper - beta[free], beta[free] - lower) / np.abs(step)).min()))
    assert rise(moved - beta[free]) >= rise(share * step) - 1e-12
    np.testing.assert_allclose(gram @ step, right, atol=1e-8)
