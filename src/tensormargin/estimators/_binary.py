"""One binary problem from samples to fitted weight."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from .._namespace import dtype_of, has_float64, is_foreign
from .._typing import Array
from ..alternate import Fit, Report, Start, Sweep, Task, alternate
from ..coarse import coarse_start, dual_guess
from ..formats import Weight
from ..formats.base import Rank
from ..problem import Objective
from ..samples import FEW_ENTRIES, Moments, Samples, samples_of, working_dtype
from ..solvers import SOLVERS
from ._multiclass import BinaryTask
from ._scale import Strength

_MANY_ENTRIES = 2**20
_SINGLE_TOL = 5e-4


class NotFiniteError(ValueError):
    """The samples, or their squares, are not finite numbers."""


@dataclass(frozen=True)
class BinarySettings:
    """What all binary problems of a fit have in common, validated."""

    format: type[Weight]
    rank: Rank
    strength: Strength
    fit_intercept: bool
    init: str
    n_init: int
    tol: float
    max_iter: int
    verbose: int


@dataclass(frozen=True)
class LastFit:
    """Where a warm start begins."""

    weight: Weight
    intercept: float


@dataclass(frozen=True)
class Problem:
    """One binary problem and how it is to be fitted.

    Attributes
    ----------
    rows : ndarray of int or None
        The samples that take part, in rising order; None for all of them.
    signs : ndarray of shape (n_rows,)
        1 for the positive class, -1 otherwise.
    shares : ndarray of shape (n_rows,)
        Sample weights that sum to one, all positive: a sample of weight zero must not count at all.
    settings : BinarySettings
    last : LastFit or None
        Where to begin.
    seed : int
        For random starts.
    """

    rows: Array | None
    signs: Array
    shares: Array
    settings: BinarySettings
    last: LastFit | None
    seed: int

    @classmethod
    def of(cls, pair: BinaryTask, weights: Array, settings: BinarySettings, last: LastFit | None, seed: int) -> Problem:
        """Return the problem of one pair, given a weight for every sample."""
        rows, signs = pair.rows, pair.signs
        if not np.all(weights > 0):
            rows = np.arange(len(weights)) if rows is None else rows
            kept = weights[rows] > 0
            rows, signs = rows[kept], signs[kept]
        chosen = weights if rows is None else weights[rows]
        return cls(rows, signs, chosen / chosen.sum(), settings, last, seed)

    def within(self, rows: Array) -> Problem:
        """Return the same problem for an array in which the samples at hand are some rows."""
        return replace(self, rows=rows if self.rows is None else rows[self.rows])

    def objective(self, moments: Moments) -> tuple[Objective, float]:
        """Return Eq. 7 on samples with these moments, and the scale of the intercept (zero for none)."""
        objective = Objective(*self.settings.strength.on_samples(moments.mean_square), self.shares)
        return objective, (float(np.sqrt(moments.mean_square)) or 1.0) if self.settings.fit_intercept else 0.0

    def first_weights(self, moments: Moments) -> list[Weight]:
        """Return where each of the ``n_init`` fits begins: at the last fit or the class means, the others anywhere."""
        settings, rng = self.settings, np.random.RandomState(self.seed)
        weights = []
        for attempt in range(settings.n_init):
            if attempt == 0 and self.last is not None:
                weights.append(self.last.weight)
                continue
            random = attempt > 0 or settings.init == "random"
            direction = rng.standard_normal(moments.signed_mean.shape) if random else moments.signed_mean
            weights.append(settings.format.from_dense(direction, settings.rank, rng))
        return weights

    @property
    def report(self) -> Report | None:
        """What is called after each sweep."""
        return _print_sweep if self.settings.verbose else None


def fit_problem(X: Any, problem: Problem) -> Fit:
    """Fit one binary problem; the best of ``n_init`` starts."""
    settings, last = problem.settings, problem.last
    samples, moments = _read(X, problem)
    objective, bias_scale = problem.objective(moments)
    task = Task(samples, problem.signs, objective, bias_scale)
    solver = SOLVERS["dual_cd"]
    fits = []
    for weight in problem.first_weights(moments):
        if last is not None and weight is last.weight:  # fitted to all samples: beginning on fewer could only spoil it
            start = Start(weight, dual_guess(task, weight, last.intercept + at_pivot(weight, samples.pivot)))
        else:
            start = coarse_start(task, weight, solver, settings.tol, settings.max_iter)
        fits.append(alternate(task, start, solver, settings.tol, settings.max_iter, problem.report))
    return best_fit(fits, samples.pivot)


def best_fit(fits: list[Fit], pivot: Array | None) -> Fit:
    """Return the fit with the lowest objective, its intercept that of samples from which nothing is subtracted."""
    best = min(fits, key=lambda fit: fit.objective)
    return replace(best, intercept=best.intercept - at_pivot(best.weight, pivot))


def at_pivot(weight: Weight, pivot: Array | None) -> float:
    """Return the score of what is subtracted from every sample: by that the intercept of the samples differs."""
    return 0.0 if pivot is None else float(np.sum(weight.to_dense() * pivot))


def _read(X: Any, problem: Problem) -> tuple[Samples, Moments]:
    """Read the samples for the first time; return them and their moments."""
    centred = problem.settings.fit_intercept
    own, dtypes = working_dtype(dtype_of(X)), _dtypes(X, problem.settings.tol)
    for dtype in dtypes:
        samples = samples_of(X, problem.rows, dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            moments = samples.first_pass(problem.shares, problem.signs, centred)
        told_in = samples.dtype if len(dtypes) > 1 else own  # float64 may hold what float32 samples are refused for
        if in_range(moments, told_in, len(samples)):
            break
    else:
        _reject(samples, moments, centred, own.name)
    return samples, moments


def _dtypes(X: Any, tol: float) -> list[np.dtype]:
    """Return what to contract in, the first that the samples are in the range of.

    Large arrays are contracted in float32 even if they are float64, unless a small ``tol`` asks for more digits than
    that gives: half the bytes make every pass twice as fast (rank-1 fit of 12k MNIST images: 0.23 to 0.12 s), and the
    solves and sums stay in float64. The samples are centred before they are rounded. Arrays on a device keep their
    type. Few samples cost next to nothing in float64, and the answer then is the same whoever contracts them.
    """
    own = working_dtype(dtype_of(X))
    if few_entries(X):
        return [np.dtype(np.float64)]
    single = prod(X.shape) >= _MANY_ENTRIES and tol >= _SINGLE_TOL and not is_foreign(X)
    return [np.dtype(np.float32), own] if single else [own]


def few_entries(X: Any) -> bool:
    """Tell whether the samples are so few and small that they are contracted in float64 whatever their type."""
    return prod(X.shape) <= FEW_ENTRIES and has_float64(X)


def in_range(moments: Moments, dtype: np.dtype, n_samples: int) -> bool:
    """Tell whether squared norms stay inside the range of the dtype."""
    limits = np.finfo(dtype)
    smallest, largest = float(limits.tiny) / float(limits.eps), float(limits.max) / n_samples
    return smallest <= moments.mean_square <= largest


def _reject(samples: Samples, moments: Moments, centred: bool, name: str) -> None:
    """Raise for squared norms outside the range of a dtype, unless they vanish because all samples are the same."""
    if not moments.mean_square < 1.0:
        raise NotFiniteError(
            f"the samples' squared norms overflow {name}; divide X by a constant or pass float64 without NaN"
        )
    if samples.vary(centred):
        raise ValueError(
            f"the samples' mean squared norm is {moments.mean_square:.1e}, too small for {name}; multiply X by a "
            "constant or pass float64"
        )


def _print_sweep(number: int, sweep: Sweep) -> None:
    print(  # noqa: T201 - what verbose=1 asks for, as in scikit-learn
        f"[tensormargin] sweep {number}: objective {sweep.objectives[-1]:.6g}, change {sweep.change:.1e}, "
        f"gap {max(sweep.gaps):.1e}, {sweep.seconds:.2f} s"
    )
