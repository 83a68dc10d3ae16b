"""One binary problem from samples to fitted weight."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from .._typing import Array
from ..alternate import Fit, Sweep, Task, alternate
from ..formats import Weight
from ..formats.base import Rank
from ..problem import Objective
from ..samples import Moments, Samples
from ..solvers import SOLVERS
from ._multiclass import BinaryTask
from ._scale import Strength

_LARGE_OFFSET = 1e6


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


def fit_binary(
    X: Array, pair: BinaryTask, weights: Array, settings: BinarySettings, warm: Weight | None, seed: int
) -> Fit:
    """Fit one binary problem; the best of ``n_init`` starts."""
    rng = np.random.RandomState(seed)
    rows, signs = _positive_rows(pair, weights)
    samples = Samples(X, rows)
    chosen = weights if rows is None else weights[rows]
    shares = chosen / chosen.sum()
    moments = samples.moments(shares, signs, settings.fit_intercept)
    _check_magnitude(samples, moments, settings.fit_intercept)
    bias_scale = float(np.sqrt(moments.mean_square)) or 1.0
    task = Task(
        samples=samples,
        signs=signs,
        objective=Objective(*settings.strength.on_samples(moments.mean_square), shares),
        bias_scale=bias_scale if settings.fit_intercept else 0.0,
    )

    fits = []
    for attempt in range(settings.n_init):
        if attempt == 0 and warm is not None:
            start = warm
        else:
            random = attempt > 0 or settings.init == "random"
            direction = rng.standard_normal(samples.shape) if random else moments.signed_mean
            start = settings.format.from_dense(direction, settings.rank, rng)
        report = _print_sweep if settings.verbose else None
        fits.append(alternate(task, start, SOLVERS["dual_cd"], settings.tol, settings.max_iter, report))
    return min(fits, key=lambda fit: fit.objective)


def _check_magnitude(samples: Samples, moments: Moments, centred: bool) -> None:
    """Raise where squared norms leave the range of the dtype; warn where an offset swallows the digits of float32."""
    name, limits = samples.dtype.name, np.finfo(samples.dtype)
    if not np.isfinite(moments.mean_square):
        raise ValueError(
            f"the samples' squared norms overflow {name}; divide X by a constant or pass float64 without NaN"
        )
    if moments.mean_square < limits.tiny / limits.eps and samples.vary(centred):
        raise ValueError(
            f"the samples' mean squared norm is {moments.mean_square:.1e}, too small for {name}; multiply X by a "
            "constant or pass float64"
        )
    if centred and name == "float32" and moments.offset_square > _LARGE_OFFSET * moments.mean_square > 0:
        warnings.warn(
            f"the samples' common offset is {np.sqrt(moments.offset_square / moments.mean_square):.0f} times their "
            "spread, so float32 loses digits; subtract a constant tensor from X or pass float64",
            UserWarning,
            stacklevel=2,
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
