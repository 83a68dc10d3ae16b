"""Random problems over orders, formats, weights, scales and types, with what must not change the answer.

The objective must never rise, must be that of the weight, and reach the gap; permuted and duplicated samples, weights
in place of copies and scaled samples must lead to the same optimum, up to the tolerance. Strengths too large for the
samples may be refused with a ValueError that says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from campaigns.outcome import Outcome
from tensormargin import TensorMarginClassifier
from tensormargin.fitting import FORMATS

Rng = np.random.Generator

REFUSED = ("too large", "scale X", "scale the samples", "divide X", "stay finite")
CONVEX = 2e-3  # largest relative difference of objectives of a convex problem: twice the tolerance
EXTREME = 0.05  # share of problems whose strengths are far too large for the samples
LOCAL = 0.5  # and of others, whose optima may differ where rounding does


@dataclass(frozen=True)
class Problem:
    """Samples, labels, weights and parameters."""

    X: Any
    y: Any
    sample_weight: Any
    parameters: dict[str, Any]

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        return f"{self.X.dtype}{self.X.shape}, {'weights, ' if self.sample_weight is not None else ''}{given}"

    @property
    def is_convex(self) -> bool:
        """Whether the weight is one block, so that there is one optimum."""
        return self.parameters["decomposition"] == "full" or self.X.ndim == 2


def random_problem(rng: Rng) -> Problem:
    """Draw a problem of two classes."""
    shape = tuple(rng.integers(1, 6, int(rng.integers(1, 5))).tolist())
    n = int(rng.integers(4, 50))
    y = rng.permutation(np.arange(n) % 2)
    X = rng.normal(rng.normal(0, rng.choice([0.1, 1.0, 3.0]), (2, *shape))[y], 1.0)
    dtype = [np.float64, np.float64, np.float32, np.uint8, np.int16][int(rng.integers(5))]
    scale_free = bool(rng.random() < 0.7)
    if dtype in (np.uint8, np.int16):
        X = (20 * X + 100).clip(0, 255).astype(dtype)
    else:
        X = (X * 10.0 ** (rng.uniform(-6, 6) if scale_free else rng.uniform(-1, 2))).astype(dtype)
    excess = 10.0 ** rng.uniform(6, 250) if rng.random() < EXTREME else 1.0
    mu1, mu2 = (0.0 if rng.random() < 0.4 else 10.0 ** rng.uniform(-2, 3) for _ in range(2))
    parameters = {
        "decomposition": sorted(FORMATS)[int(rng.integers(len(FORMATS)))],
        "rank": int(rng.integers(1, 4)),
        "lam": 10.0 ** rng.uniform(-3, 4) * (excess if rng.random() < 0.5 else 1.0),
        "mu1": mu1 * excess,
        "mu2": mu2,
        "scale_free": scale_free,
        "fit_intercept": bool(rng.random() < 0.8),
        "random_state": 0,
    }
    return Problem(X, y, rng.integers(1, 4, n) if rng.random() < 0.3 else None, parameters)


def fitted(problem: Problem, X: Any = None, y: Any = None, sample_weight: Any = None) -> Any:
    """Return a classifier fitted to the problem, or to other samples with its parameters."""
    model = TensorMarginClassifier(**problem.parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if X is None:
            return model.fit(problem.X, problem.y, problem.sample_weight)
        return model.fit(X, y, sample_weight)


# ---- what must hold ----


def objective_never_rises(problem: Problem, model: Any, rng: Rng) -> list[str]:
    """Return the largest rise, if there is one."""
    values = model.history_["block_objective"].ravel()
    rise = float(np.max(np.diff(values), initial=0.0))
    return [] if rise <= 1e-9 * max(abs(values[0]), abs(values[-1])) else [f"the objective rose by {rise:g}"]


def finite(problem: Problem, model: Any, rng: Rng) -> list[str]:
    """Return whether scores and weights are finite."""
    fine = np.isfinite(model.decision_function(problem.X)).all() and np.isfinite(model.coef_).all()
    return [] if fine else ["scores or weights are not finite"]


def gap_reached(problem: Problem, model: Any, rng: Rng) -> list[str]:
    """Return whether a fit that ended before the last sweep has a gap that is too large."""
    gaps, most = model.history_["gap"][-1], model.tol / 10
    ended = len(model.history_["gap"]) < model.max_iter
    stalled = len(model.history_["change"]) > 1 and not np.any(model.history_["change"][-2:])
    return [] if not ended or stalled or np.max(gaps) <= most * 1.0001 else [f"a gap of {np.max(gaps):g}"]


def objective_is_that_of_the_weight(problem: Problem, model: Any, rng: Rng) -> list[str]:
    """Return how much Eq. 7, computed from weight and intercept, differs from ``objective_``."""
    value, size, rounding = objective_of(problem, model)
    off = abs(value - model.objective_[0])
    most = (1e-5 if problem.X.dtype == np.float64 else 1e-3) * size + rounding
    return [] if off <= most else [f"the objective is off by {off / size:.2g}"]


def objective_of(problem: Problem, model: Any) -> tuple[float, float, float]:
    """Return Eq. 7, the sum of the absolute values of its terms, and what rounding of the weight may change in it."""
    X = problem.X.astype(np.float64).reshape(len(problem.X), -1)
    weights = np.ones(len(X)) if problem.sample_weight is None else problem.sample_weight.astype(float)
    weights = weights / weights.sum()
    signs, coef = np.where(problem.y == model.classes_[1], 1.0, -1.0), model.coef_[0].astype(np.float64).ravel()
    mean = weights @ X if model.fit_intercept else np.zeros(X.shape[1])
    square = float(weights @ np.sum((X - mean) ** 2, axis=1))
    unit = (300.0, 100.0) if model.scale_free else (1.0, 1.0)
    per = square if model.scale_free and square > 0 else 1.0
    lam, mu1, mu2 = model.lam * unit[0] / per, model.mu1 * unit[1] / per, model.mu2 * unit[1] / per
    margins = signs * (X @ coef + float(model.intercept_[0]))
    average = float(weights @ margins)
    shift = float(model.intercept_[0]) + float(coef @ mean)
    terms = [
        0.5 * float(coef @ coef),
        0.5 * shift**2 / square if model.fit_intercept and square > 0 else 0.0,
        mu1 * float(weights @ (margins - average) ** 2),
        -mu2 * average,
        lam * float(weights @ np.maximum(0.0, 1.0 - margins)),
    ]
    digits = float(np.finfo(model.coef_.dtype).eps) * float(np.mean(np.abs(X) @ np.abs(coef)) + abs(shift))
    rounding = 4 * digits * (lam + mu2 + 2 * mu1 * float(np.std(margins)))
    return sum(terms), sum(map(abs, terms)) or 1.0, rounding


def permuted_samples(problem: Problem, model: Any, rng: Rng) -> list[str]:
    """Return whether another order of the samples leads to another optimum."""
    order = rng.permutation(len(problem.X))
    weights = None if problem.sample_weight is None else problem.sample_weight[order]
    return _compare(problem, model, fitted(problem, problem.X[order], problem.y[order], weights), "permuted samples")


def copies_are_weights(problem: Problem, model: Any, rng: Rng) -> list[str]:
    """Return whether copies of samples differ from integer weights."""
    counts = rng.integers(1, 4, len(problem.X)) if problem.sample_weight is None else problem.sample_weight
    X, y = np.repeat(problem.X, counts, axis=0), np.repeat(problem.y, counts)
    weighted = model if problem.sample_weight is not None else fitted(problem, problem.X, problem.y, counts)
    return _compare(problem, weighted, fitted(problem, X, y), "copies instead of weights")


def scaled_samples(problem: Problem, model: Any, rng: Rng) -> list[str]:
    """Return whether scale-free fits depend on the scale."""
    if not model.scale_free or problem.X.dtype.kind != "f":
        return []
    factor = 2.0 ** int(rng.integers(-10, 11))  # exact in floating point
    other = fitted(problem, problem.X * np.asarray(factor, problem.X.dtype), problem.y, problem.sample_weight)
    return _compare(problem, model, other, "scaled samples", factor**2)


def _compare(problem: Problem, one: Any, other: Any, words: str, factor: float = 1.0) -> list[str]:
    """Return whether the objectives of two fits differ by more than their tolerance allows."""
    _, size, rounding = objective_of(problem, one)
    off = max(0.0, abs(one.objective_[0] - factor * other.objective_[0]) - rounding)
    off /= max(size, abs(one.objective_[0]))
    ended = all(len(model.history_["gap"]) < model.max_iter for model in (one, other))
    most = (CONVEX if problem.is_convex else LOCAL) if ended else np.inf
    return [] if off <= most else [f"{words}: the objective differs by {off:.2g}"]


CHECKS: tuple[Callable[[Problem, Any, Rng], list[str]], ...] = (
    objective_never_rises,
    finite,
    gap_reached,
    objective_is_that_of_the_weight,
    permuted_samples,
    copies_are_weights,
    scaled_samples,
)


def random_problems(number: int, seed: int) -> Outcome:
    """Return how many random problems satisfy all `CHECKS`."""
    outcome = Outcome("random problems")
    for case in range(number):
        rng = np.random.default_rng([seed, case])
        problem = random_problem(rng)
        faults: list[str] = []
        try:
            model = fitted(problem)
            for check in CHECKS if max(model.lam, model.mu1, model.mu2) < 1e6 else CHECKS[:2]:
                faults += check(problem, model, rng)
        except ValueError as error:
            outcome.counts["refused: strengths too large for the samples"] += 1
            faults += [] if any(words in str(error) for words in REFUSED) else [f"ValueError: {error}"]
        except Exception as error:  # noqa: BLE001 - to be counted
            faults.append(f"{type(error).__name__}: {error}")
        outcome.add(f"seed {seed}, case {case}: {problem}", faults)
    return outcome


# ---- the order of the modes ----


def permuted_modes(number: int, seed: int) -> Outcome:
    """Return how much the objective depends on the order of the modes; it is bad only for weights that must not.

    Only CP weights of rank two or more may: their passes amplify what rounding leaves. A Tensor-Train is reversed,
    since other orders are other sets of weights.
    """
    outcome = Outcome("permuted modes")
    for case in range(number):
        rng = np.random.default_rng([seed, case])
        shape = tuple(rng.integers(2, 7, int(rng.integers(2, 5))).tolist())
        y = rng.permutation(np.arange(int(rng.integers(8, 60))) % 2)
        X = rng.normal(rng.normal(0, rng.choice([0.1, 0.5, 2.0]), (2, *shape))[y], 1.0)
        name, rank = ("cp", "tucker", "tt")[case % 3], int(rng.choice([1, 1, 2, 3]))
        mu = float(rng.choice([0.0, 1.0, 10.0]))
        parameters = {"decomposition": name, "rank": rank, "lam": 10.0 ** rng.uniform(-2, 2), "mu1": mu, "mu2": mu}
        problem = Problem(X, y, None, parameters)
        order = np.arange(len(shape))[::-1] if name == "tt" and rank > 1 else rng.permutation(len(shape))
        one, other = fitted(problem), fitted(problem, X.transpose(0, *(order + 1)), y)
        off = abs(one.objective_[0] - other.objective_[0]) / max(abs(one.objective_[0]), 1e-12)
        free = rank > 1 and name == "cp" and len(shape) > 2
        outcome.add(f"seed {seed}, case {case}: {problem}", [] if free or off <= 1e-3 else [f"differs by {off:.2g}"])
        if free:
            outcome.counts["CP weights of rank two or more, which may differ"] += 1
            for most in (1e-2, 0.1):
                outcome.counts[f"of them by more than {most:.0%}"] += off > most
    return outcome
