"""Tests of where fits end: from two starts, and by the rule that stops them."""

from __future__ import annotations

import numpy as np
import pytest
from campaigns.optima import continued, excess, hard_problem
from campaigns.problems import fitted

from tensormargin import TensorMarginClassifier, Views
from tensormargin.fitting import FORMATS
from tensormargin.runtime import tuning


@pytest.mark.parametrize("case", [39, 52])
def test_the_full_weight_is_the_better_start_of_some_problems(case, monkeypatch):
    problem = hard_problem(0, case)
    from_two = fitted(problem)
    monkeypatch.setattr(tuning, "CONVEX_WORK", 0)
    assert excess(problem, fitted(problem), from_two) > 0.03


def test_on_average_two_starts_end_lower_than_one(monkeypatch):
    problems = [hard_problem(0, case) for case in range(35, 56)]
    from_two = [fitted(problem) for problem in problems]
    monkeypatch.setattr(tuning, "CONVEX_WORK", 0)
    lower = [excess(problem, fitted(problem), two) for problem, two in zip(problems, from_two, strict=True)]
    assert np.mean(lower) > 0.002
    assert np.mean(np.array(lower) < -0.01) < 0.06  # the better one after few sweeps need not be so at the end


@pytest.mark.parametrize("init", ["mean", "random"])
def test_only_class_means_have_a_second_start(init, monkeypatch):
    seen = []

    def relaxed(self):
        seen.append(self.shape)
        return relaxation(self)

    relaxation = FORMATS["tucker"].relaxed
    monkeypatch.setattr(FORMATS["tucker"], "relaxed", relaxed)
    monkeypatch.setattr(tuning, "MOST_EIGENVECTORS", 0)  # compiled code would make the start itself
    problem = hard_problem(0, 3)
    model = TensorMarginClassifier("tucker", 2, init=init, n_init=2, random_state=0, warm_start=True)
    model.fit(problem.X, problem.y)
    assert len(seen) == (init == "mean")
    model.fit(problem.X, problem.y)  # from the last fit
    assert len(seen) == (init == "mean")
    model.set_params(warm_start=False).fit(np.tile(problem.X, (4, 1, 1, 1)), np.tile(problem.y, 4))
    assert len(seen) == (init == "mean")  # too many samples


def test_the_second_start_of_views_is_that_of_their_full_weights():
    problem = hard_problem(0, 45)
    views = Views({"a": problem.X, "b": problem.X[:, 0] ** 2})
    full = TensorMarginClassifier("full").fit(views, problem.y)
    largest = {"a": max(problem.X.shape[1:]), "b": max(problem.X.shape[2:])}
    model = TensorMarginClassifier("tucker", largest).fit(views, problem.y)
    assert model.objective_[0] == pytest.approx(full.objective_[0], rel=1e-6)
    assert model.n_iter_ <= 3


@pytest.mark.parametrize("case", [123, 130, 165])
def test_fits_that_still_fall_by_percents_do_not_stop(case):
    problem = hard_problem(0, case)
    assert excess(problem, fitted(problem), continued(problem)) < 5e-3
