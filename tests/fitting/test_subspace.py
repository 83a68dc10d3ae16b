"""Steps in the span of the factors, of their changes and of the factors before: Eq. 7 falls in each of them."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import low_rank_classes

from tensormargin.fitting import FORMATS, SOLVERS, MarginProblem, MemorySamples, Objective, Start, alternate
from tensormargin.fitting import alternation as alternate_module
from tensormargin.runtime import tuning

pytestmark = pytest.mark.numerical
SHAPE = (9, 8, 10)
HARD = {
    "noise": ({"lam": 1e3}, lambda X: X),
    "noise, huge lambda": ({"lam": 1e6}, lambda X: X),
    "margin terms": ({"lam": 10.0, "mu1": 100.0, "mu2": 30.0}, lambda X: X),
    "copies": ({"lam": 1e3}, lambda X: np.concatenate([X[:15], X[:15]])),
    "rounded": ({"lam": 1e3}, np.round),
    "one direction dwarfs the others": ({"lam": 1e3}, lambda X: X * np.geomspace(1.0, 1e4, SHAPE[0])[:, None, None]),
    "nearly one sample": ({"lam": 1e4}, lambda X: X[:1] + 1e-3 * X),
    "offset": ({"lam": 1e2}, lambda X: X + 100.0),
}


@pytest.fixture
def large(monkeypatch):
    """Let the samples of a test be many, and solves cheap; return the objective before and after each step."""
    monkeypatch.setattr(tuning, "SMALL_SAMPLES", 2**14)
    monkeypatch.setattr(tuning, "CHEAP_SOLVES", 1)
    monkeypatch.setattr(tuning, "FAST_SWEEPS", 0)
    steps = []

    def recorded(state, *rest):
        before = state.objective
        gap = step_within(state, *rest)
        steps.append((gap, before, state.objective, state.weight, state.intercept))
        return gap

    step_within = alternate_module._step_within
    monkeypatch.setattr(alternate_module, "_step_within", recorded)
    return steps


@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize(("name", "rank"), [("cp", 1), ("tucker", 2)], ids=str)
def test_eq_7_falls_in_every_step(case, name, rank, large):
    strengths, change = HARD[case]
    X, signs = low_rank_classes(5, 30, SHAPE, 0.2)
    X = change(X)
    if case == "copies":
        signs[15:] = signs[:15]
    objective = Objective(strengths["lam"], *(strengths.get(mu, 0.0) for mu in ("mu1", "mu2")), np.full(30, 1 / 30))
    problem = MarginProblem(signs, objective, 0.0)
    direction = np.tensordot(signs, X, 1)
    start = FORMATS[name].start_from(direction, FORMATS[name].valid_rank(rank, SHAPE), np.random.RandomState(0))
    fit = alternate(MemorySamples(X), problem, Start(start), SOLVERS["dual_cd"], 1e-5, 15)

    def value(weight):
        margins = signs * (X.reshape(30, -1) @ weight.to_dense().ravel())
        return objective.value(float(np.sum(weight.to_dense() ** 2)), margins)

    assert any(gap is not None for gap, *_ in large)
    for gap, before, after, weight, _ in large:
        assert after <= before if gap is not None else after == before
        assert value(weight) == pytest.approx(after, rel=1e-6)
    assert np.all(np.diff([sweep.objectives[-1] for sweep in fit.sweeps]) <= 0.0)
    assert value(fit.weight) == pytest.approx(fit.objective, rel=1e-6)
