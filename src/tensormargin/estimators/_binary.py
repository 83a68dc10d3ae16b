"""One binary problem from samples to fitted weight."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._typing import Array
from ..alternate import Fit, Start, Sweep, Task, alternate
from ..coarse import coarse_start, dual_guess
from ..formats import Weight
from ..formats.base import Rank
from ..problem import Objective
from ..samples import Moments, Samples, working_dtype
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


def fit_binary(
    X: Array, pair: BinaryTask, weights: Array, settings: BinarySettings, last: LastFit | None, seed: int
) -> Fit:
    """Fit one binary problem; the best of ``n_init`` starts."""
    rng = np.random.RandomState(seed)
    rows, signs = _positive_rows(pair, weights)
    chosen = weights if rows is None else weights[rows]
    shares = chosen / chosen.sum()
    samples, moments = _read(X, rows, shares, signs, settings)
    bias_scale = float(np.sqrt(moments.mean_square)) or 1.0
    task = Task(
        samples=samples,
        signs=signs,
        objective=Objective(*settings.strength.on_samples(moments.mean_square), shares),
        bias_scale=bias_scale if settings.fit_intercept else 0.0,
    )

    solver = SOLVERS["dual_cd"]
    report = _print_sweep if settings.verbose else None
    fits = []
    for attempt in range(settings.n_init):
        if attempt == 0 and last is not None:  # fitted to all samples: beginning on fewer could only spoil it
            start = Start(last.weight, dual_guess(task, last.weight, last.intercept + _at_pivot(last.weight, samples)))
        else:
            random = attempt > 0 or settings.init == "random"
            direction = rng.standard_normal(samples.shape) if random else moments.signed_mean
            weight = settings.format.from_dense(direction, settings.rank, rng)
            start = coarse_start(task, weight, solver, settings.tol, settings.max_iter)
        fits.append(alternate(task, start, solver, settings.tol, settings.max_iter, report))
    best = min(fits, key=lambda fit: fit.objective)
    return replace(best, intercept=best.intercept - _at_pivot(best.weight, samples))


def _at_pivot(weight: Weight, samples: Samples) -> float:
    """Return the score of what is subtracted from every sample: by that the intercept of the samples differs."""
    return 0.0 if samples.pivot is None else float(np.sum(weight.to_dense() * samples.pivot))


def _read(
    X: Array, rows: Array | None, shares: Array, signs: Array, settings: BinarySettings
) -> tuple[Samples, Moments]:
    """Read the samples for the first time; return them and their moments.

    Large arrays are contracted in float32 even if they are float64, unless a small ``tol`` asks for more digits than
    that gives: half the bytes make every pass twice as fast (rank-1 fit of 12k MNIST images: 0.23 to 0.12 s), and the
    solves and sums stay in float64. The samples are centred before they are rounded.
    """
    dtypes = [working_dtype(X.dtype)]
    if X.size >= _MANY_ENTRIES and settings.tol >= _SINGLE_TOL:
        dtypes.insert(0, np.dtype(np.float32))
    for dtype in dtypes:
        samples = Samples(X, rows, dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            moments = samples.first_pass(shares, signs, settings.fit_intercept)
        if _in_range(samples, moments):
            break
    else:
        _reject(samples, moments, settings.fit_intercept)
    return samples, moments


def _in_range(samples: Samples, moments: Moments) -> bool:
    """Tell whether squared norms stay inside the range of the dtype."""
    limits = np.finfo(samples.dtype)
    smallest, largest = float(limits.tiny) / float(limits.eps), float(limits.max) / len(samples)
    return smallest <= moments.mean_square <= largest


def _reject(samples: Samples, moments: Moments, centred: bool) -> None:
    """Raise for squared norms outside the range of the dtype, unless they vanish because all samples are the same."""
    name = samples.dtype.name
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


def _positive_rows(pair: BinaryTask, weights: Array) -> tuple[Array | None, Array]:
    """Return rows and signs of the samples with positive weight: the others must not count at all."""
    if np.all(weights > 0):
        return pair.rows, pair.signs
    rows = np.arange(len(weights)) if pair.rows is None else pair.rows
    kept = weights[rows] > 0
    return rows[kept], pair.signs[kept]
