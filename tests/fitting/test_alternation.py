"""Tests of the sweep loop: descent, reproducibility, convergence warnings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import low_rank_classes
from hypothesis import given
from hypothesis import strategies as st

from tensormargin.fitting import FORMATS, SOLVERS, MarginProblem, MemorySamples, Objective, Start, alternate
from tensormargin.fitting.blocks import block_problem

pytestmark = pytest.mark.numerical

SHAPE = (5, 4, 6)


def run(name, X, signs, seed=0, tol=1e-4, max_iter=50, solver=SOLVERS["dual_cd"], lam=20.0, mu=1.0, bias=2.0):
    rng = np.random.RandomState(seed)
    start = FORMATS[name].from_dense(rng.standard_normal(X.shape[1:]), FORMATS[name].valid_rank(None, X.shape[1:]), rng)
    problem = MarginProblem(signs, Objective(lam, mu, mu, np.full(len(X), 1 / len(X))), bias)
    return alternate(MemorySamples(X), problem, Start(start), solver, tol, max_iter), problem


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("mu", [0.0, 5.0])
@pytest.mark.parametrize("n", [40, 400])
def test_the_objective_never_rises_from_block_to_block(name, mu, n):
    X, signs = low_rank_classes(0, n, SHAPE, 2.0)
    fit, _ = run(name, X, signs, mu=mu)
    values = np.concatenate([sweep.objectives for sweep in fit.sweeps])
    assert np.all(np.diff(values) <= 0)
    assert values[-1] == fit.objective


@pytest.mark.parametrize("name", FORMATS)
def test_the_reported_objective_is_that_of_the_reported_weight(name):
    X, signs = low_rank_classes(1, 100, SHAPE, 2.0)
    fit, problem = run(name, X, signs, bias=2.0)
    weight = fit.weight.to_dense()
    margins = signs * (X.reshape(100, -1) @ weight.ravel() + fit.intercept)
    centred_bias = fit.intercept + np.sum(weight * X.mean(axis=0))
    squared = np.sum(weight**2) + (centred_bias / 2.0) ** 2
    assert problem.objective.value(squared, margins) == pytest.approx(fit.objective, rel=1e-8)


@pytest.mark.parametrize("name", FORMATS)
def test_same_seed_same_bits(name):
    X, signs = low_rank_classes(2, 60, SHAPE, 2.0)
    first, _ = run(name, X, signs)
    second, _ = run(name, X, signs)
    np.testing.assert_array_equal(first.weight.to_dense(), second.weight.to_dense())
    assert first.intercept == second.intercept


@given(st.sampled_from(sorted(FORMATS)), st.integers(0, 1000), st.floats(0.01, 1e3), st.floats(0, 50))
def test_descent_for_any_parameters(name, seed, lam, mu):
    X, signs = low_rank_classes(seed, 24, (3, 4, 2), 1.0)
    fit, _ = run(name, X, signs, seed, lam=lam, mu=mu, max_iter=5)
    values = np.concatenate([sweep.objectives for sweep in fit.sweeps])
    assert np.all(np.diff(values) <= 0)
    assert np.all(np.isfinite(values))


def test_a_block_is_kept_when_its_solve_would_raise_the_objective():
    """Check that a solver that fails after the first sweep does not spoil the weight."""
    X, signs = low_rank_classes(3, 60, SHAPE, 2.0)
    good = SOLVERS["dual_cd"]
    calls = []

    def erratic(problem, start=None, tol=1e-4, max_epochs=1000):
        calls.append(1)
        if len(calls) <= 4:
            return good(problem, start, tol, max_epochs)
        return good(problem, problem.lower, 1.0, 0)  # the corner of the box, with its true certificate

    fit, _ = run("tucker", X, signs, solver=erratic, max_iter=3)
    values = np.concatenate([sweep.objectives for sweep in fit.sweeps])
    assert np.all(np.diff(values) <= 0)
    assert values[4] == values[3]


def spoiling(solver, after):
    """Return a solver whose solutions are NaN from the given call onwards."""
    calls = []

    def spoiled(problem, start=None, tol=1e-4, max_epochs=1000):
        calls.append(1)
        solution = solver(problem, start, tol, max_epochs)
        return solution if len(calls) <= after else replace(solution, u=np.nan * solution.u)

    return spoiled


@pytest.mark.parametrize("name", ["cp", "tucker", "tt"])
def test_a_block_is_kept_when_its_objective_is_not_a_number(name):
    X, signs = low_rank_classes(3, 60, SHAPE, 2.0)
    fit, _ = run(name, X, signs, solver=spoiling(SOLVERS["dual_cd"], after=8), max_iter=8)
    good, _ = run(name, X, signs, solver=spoiling(SOLVERS["dual_cd"], after=1000), max_iter=8)
    values, expected = (np.array([sweep.objectives[-1] for sweep in one.sweeps]) for one in (fit, good))
    n_good = int(np.argmax(values != expected[: len(values)]))
    assert n_good >= 1  # the first sweep was not spoiled
    assert np.all(np.isfinite(values))
    assert np.all(values[n_good:] == values[n_good])  # no solution was accepted any more
    assert values[-1] > good.objective
    assert max(fit.sweeps[-1].gaps) == np.inf
    assert not fit.converged
    assert np.all(np.isfinite(fit.weight.to_dense()))


@pytest.mark.parametrize("name", FORMATS)
def test_no_finite_objective_at_all_is_an_error_with_a_remedy(name):
    X, signs = low_rank_classes(3, 60, SHAPE, 2.0)
    with pytest.raises(ValueError, match=r"no block has a finite objective.*lower it or scale the samples"):
        run(name, X, signs, solver=spoiling(SOLVERS["dual_cd"], after=0))


def test_one_block_takes_one_sweep():
    X, signs = low_rank_classes(4, 60, SHAPE, 2.0)
    fit, _ = run("full", X, signs)
    assert len(fit.sweeps) == 1
    assert fit.converged


def test_too_few_sweeps_are_not_called_converged():
    X, signs = low_rank_classes(5, 300, SHAPE, 1.0)
    fit, _ = run("tucker", X, signs, tol=1e-8, max_iter=2)
    assert not fit.converged
    assert len(fit.sweeps) == 2


def test_converged_means_stationary():
    """Check that no single block can be improved by more than tol after convergence to a small tol."""
    X, signs = low_rank_classes(6, 200, SHAPE, 2.0)
    fit, problem = run("tucker", X, signs, tol=1e-7, max_iter=500)
    assert fit.converged

    for index in range(len(fit.weight.block_names)):
        block = fit.weight.block(index)
        one = block_problem(MemorySamples(X).design(block.contraction), problem)
        best = SOLVERS["dual_cd"](one, tol=1e-10).certificate
        assert fit.objective - best.primal <= 1e-5 * best.scale
