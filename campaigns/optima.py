"""How far fits with default settings end from better optima: those of other starts, and those of more sweeps."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np

from campaigns.outcome import Outcome
from campaigns.problems import Problem, fitted, objective_of
from tensormargin import TensorMarginClassifier
from tensormargin.fitting import FORMATS
from tensormargin.runtime import tuning

KINDS = (("cp", 1), ("cp", 2), ("cp", 4), ("tucker", 2), ("tucker", 4), ("tt", 2), ("tt", 4))
STARTS = 20
TIGHT = 1e-7  # tol to which fits are continued
SAME = 1e-6  # relative: samples are read anew for each fit


def hard_problem(seed: int, case: int) -> Problem:
    """Draw a problem with many local optima: noise with class means of full or low rank, spread unevenly or not."""
    rng = np.random.default_rng([seed, case])
    order = int(rng.choice([2, 3, 3, 4]))
    shape = tuple(rng.integers(3, {2: 20, 3: 11, 4: 7}[order], order).tolist())
    y = rng.permutation(np.arange(int(rng.integers(16, 120))) % 2)
    if rng.random() < 0.5:
        X = rng.normal(rng.normal(0, rng.choice([0.1, 0.3, 1.0]), (2, *shape))[y], 1.0)
    else:
        means = FORMATS["cp"].from_dense(rng.normal(size=shape), 2, np.random.RandomState(0)).to_dense()
        means *= rng.choice([1.0, 2.0, 4.0]) / np.linalg.norm(means)
        X = rng.normal(np.stack([-means, means])[y] / 2, 1.0)
        for mode in np.flatnonzero(rng.random(order) < 0.5) + 1:
            spread = np.linalg.qr(rng.normal(size=(X.shape[mode],) * 2))[0] * np.geomspace(1, 0.2, X.shape[mode])
            X = np.moveaxis(np.tensordot(X, spread, (mode, 1)), -1, mode)
    name, rank = KINDS[case % len(KINDS)]
    mu = float(rng.choice([0.0, 1.0, 1.0, 1.0]))
    strengths = {"lam": 10.0 ** rng.uniform(-1, 1.5), "mu1": mu, "mu2": mu}
    return Problem(X, y, None, {"decomposition": name, "rank": rank, **strengths, "random_state": 0})


def excess(problem: Problem, model: Any, better: Any) -> float:
    """Return how far one objective is above another, relative to the sum of the absolute values of its terms."""
    _, size, _ = objective_of(problem, better)
    return float(model.objective_[0] - better.objective_[0]) / size


def other_starts(number: int, seed: int) -> list[Outcome]:
    """Return how often the objective is above that of the best of 20 starts."""

    def best(problem: Problem) -> Any:
        parameters = {**problem.parameters, "n_init": STARTS}
        return fitted(Problem(problem.X, problem.y, None, parameters))

    return _compared("starts", number, seed, best, (0.01, 0.1))


def only_passes() -> Any:
    """Return a context in which fits pass over the blocks, as the paper's Algorithm 1, without any other steps."""
    constants = {"SAMPLES_PER_PARAMETER": 0, "SMALL_SAMPLES": 0, "FAST_SWEEPS": 10**6, "CONVEX_WORK": 0}
    return mock.patch.multiple(tuning, **constants)


def continued(problem: Problem) -> Any:
    """Return a default fit that was continued to a tolerance of 1e-7, as it was made and by the paper's Algorithm 1."""
    model = TensorMarginClassifier(**problem.parameters, warm_start=True).fit(problem.X, problem.y)
    model.set_params(tol=TIGHT, max_iter=1000).fit(problem.X, problem.y)
    with only_passes():
        return model.fit(problem.X, problem.y)


def continued_fits(number: int, seed: int) -> list[Outcome]:
    """Return how often the objective falls when a fit is continued to a tolerance of 1e-7, and then by Algorithm 1."""
    return _compared("continued fits", number, seed, continued, (TensorMarginClassifier().tol / 2, 0.01))


def _compared(name: str, number: int, seed: int, better: Any, levels: tuple[float, ...]) -> list[Outcome]:
    outcomes = {kind: Outcome(f"{name}: {kind}") for kind in ("cp", "tucker", "tt")}
    for case in range(number):
        problem, outcome = hard_problem(seed, case), outcomes[KINDS[case % len(KINDS)][0]]
        off = excess(problem, fitted(problem), better(problem))
        outcome.add(f"seed {seed}, case {case}: {problem}", [] if off >= -SAME else [f"it rose by {-off:.2g}"])
        for level in levels:
            outcome.counts[f"more than {100 * level:g} % above"] += off > level
        outcome.largest["largest share above"] = max(off, outcome.largest.get("largest share above", 0.0))
    return list(outcomes.values())
