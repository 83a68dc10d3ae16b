"""The fit of one binary problem."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np

from .. import tuning
from .._typing import Array
from ..alternate import Fit, Report, Start, Sweep, alternate
from ..coarse import coarse_start, dual_guess
from ..formats import Weight
from ..formats.base import Rank
from ..multiclass import BinaryProblem
from ..objective import MarginProblem, Objective
from ..samples import MemorySamples, Moments, SampleArray, Samples, working_dtype
from ..solvers import SOLVERS
from .strength import Strength

_SYMMETRIC = 1e-6  # relative: samples in float32 are symmetric up to rounding
_NOT_DRAWN_FROM = np.random.RandomState(0)  # to make another one takes as long as a step of a small fit
_TILT = 0.1  # 0.1 to 2 do equally well


class NotFiniteError(ValueError):
    """The samples or their squares are not finite."""


@dataclass(frozen=True)
class FitSettings:
    """Validated settings shared by all binary problems of a fit."""

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
    """Result of the previous fit, for a warm start."""

    weight: Weight
    intercept: float


@dataclass(frozen=True)
class FitSpec:
    """A binary problem and how to fit it.

    Attributes
    ----------
    problem : BinaryProblem
    shares : ndarray of shape (n_rows,)
        Positive sample weights that sum to one.
    settings : FitSettings
    last : LastFit or None
        Warm start.
    seed : int
        Seed for random starts.
    """

    problem: BinaryProblem
    shares: Array
    settings: FitSettings
    last: LastFit | None
    seed: int

    def margin_problem(self, moments: Moments) -> MarginProblem:
        """Return the optimisation problem (Eq. 7) for samples with these moments."""
        objective = Objective(*self.settings.strength.on_samples(moments.mean_square), self.shares)
        bias_scale = (float(np.sqrt(moments.mean_square)) or 1.0) if self.settings.fit_intercept else 0.0
        return MarginProblem(self.problem.signs, objective, bias_scale)

    def first_weights(self, moments: Moments) -> list[Weight]:
        """Return the start of each of the ``n_init`` fits: the last fit or the class means, then random ones."""
        settings = self.settings
        rng = np.random.RandomState(self.seed) if self.draws(moments.signed_mean.shape) else _NOT_DRAWN_FROM
        weights = []
        for attempt in range(settings.n_init):
            if attempt == 0 and self.last is not None:
                weights.append(self.last.weight)
                continue
            random = attempt > 0 or settings.init == "random"
            direction = rng.standard_normal(moments.signed_mean.shape) if random else _tilted(moments.signed_mean)
            weights.append(settings.format.from_dense(direction, settings.rank, rng))
        return weights

    @property
    def read_as(self) -> tuple[Any, ...]:
        """What the first pass depends on: fits that agree in it can share what it gives."""
        rows = None if self.problem.rows is None else self.problem.rows.tobytes()
        signs, shares = self.problem.signs.tobytes(), self.shares.tobytes()
        return rows, signs, shares, self.settings.fit_intercept, self.settings.tol

    def draws(self, shape: tuple[int, ...]) -> bool:
        """Return whether random numbers are drawn for the first weights of this shape."""
        settings = self.settings
        return settings.n_init > 1 or settings.init == "random" or settings.format.draws(settings.rank, shape)

    def starts_as(self, shape: tuple[int, ...]) -> tuple[Any, ...]:
        """Return what the first weights of this shape depend on besides the samples."""
        settings = self.settings
        return settings.format, settings.rank, settings.init, settings.n_init, self.seed if self.draws(shape) else None

    @property
    def report(self) -> Report | None:
        """Callback after each sweep, or None."""
        return _print_sweep if self.settings.verbose else None


@dataclass(frozen=True)
class Reading:
    """The samples of a binary problem after the first pass, and the first weights, by what they depend on."""

    samples: Samples
    moments: Moments
    starts: dict[tuple[Any, ...], list[Weight]] = field(default_factory=dict)

    def first_weights(self, spec: FitSpec) -> list[Weight]:
        """Return the start of each fit, computed once unless it is a warm start."""
        if spec.last is not None:
            return spec.first_weights(self.moments)
        key = spec.starts_as(self.moments.signed_mean.shape)
        if key not in self.starts:
            self.starts[key] = spec.first_weights(self.moments)
        return self.starts[key]


class Readings:
    """The first passes over one array, shared by fits that differ in strengths, decomposition and rank only.

    A pass takes as long as a third of a small fit. Kept are those of small problems, up to a total size.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], Reading] = {}
        self._lock = Lock()
        self._left = tuning.KEPT_READINGS_BYTES

    def of(self, array: SampleArray, spec: FitSpec) -> Reading:
        """Return the samples of a binary problem after the first pass; several fits may use them at the same time."""
        key = spec.read_as
        found = self._kept.get(key) or self._keep(key, _read(array, spec))
        return replace(found, samples=found.samples.for_another_fit())

    def _keep(self, key: tuple[Any, ...], new: Reading) -> Reading:
        samples = new.samples
        if not isinstance(samples, MemorySamples) or samples.n_entries > tuning.SMALL_SAMPLES:
            return new
        with self._lock:
            n_bytes = samples.nbytes + samples.columns.nbytes
            if n_bytes <= self._left and key not in self._kept:
                self._left -= n_bytes
                self._kept[key] = new
        return new

    def __reduce__(self) -> Any:  # copies in other processes start empty
        return Readings, ()


def fit_binary(array: SampleArray, spec: FitSpec, readings: Readings | None = None) -> Fit:
    """Return the best fit of a binary problem over ``n_init`` starts."""
    settings, last = spec.settings, spec.last
    reading = _read(array, spec) if readings is None else readings.of(array, spec)
    samples = reading.samples
    problem = spec.margin_problem(reading.moments)
    solver = SOLVERS["dual_cd"]
    fits = []
    for weight in reading.first_weights(spec):
        if last is not None and weight is last.weight:  # already fitted: a coarse start would only spoil it
            intercept = last.intercept + at_pivot(weight, samples.pivot)
            start = Start(weight, dual_guess(samples, problem, weight, intercept))
        else:
            start = coarse_start(samples, problem, weight, solver, settings.tol, settings.max_iter)
        fits.append(alternate(samples, problem, start, solver, settings.tol, settings.max_iter, spec.report))
    return best_fit(fits, samples.pivot)


def _tilted(direction: Array) -> Array:
    """Return a start for symmetric matrices with an antisymmetric part, which no such sample can tell; others as given.

    Every step from a symmetric start leads to a symmetric weight, although others of the same rank can be better: their
    symmetric parts have twice the rank (schizo_fnc, 86 matrices of 28x28: objectives 5 to 50 % lower).
    """
    if direction.ndim != 2 or direction.shape[0] != direction.shape[1]:
        return direction
    length = float(np.linalg.norm(direction))
    if np.linalg.norm(direction - direction.T) > _SYMMETRIC * length:
        return direction
    random = np.random.RandomState(0).standard_normal(direction.shape)
    turned = random - random.T
    return direction + _TILT * length * turned / (float(np.linalg.norm(turned)) or 1.0)


def best_fit(fits: list[Fit], pivot: Array | None) -> Fit:
    """Return the fit with the lowest objective, with its intercept adjusted to samples without the pivot subtracted."""
    best = min(fits, key=lambda fit: fit.objective)
    return replace(best, intercept=best.intercept - at_pivot(best.weight, pivot))


def at_pivot(weight: Weight, pivot: Array | None) -> float:
    """Return the score of the pivot, by which subtracting it shifts the intercept."""
    return 0.0 if pivot is None else float(np.vdot(weight.to_dense(), pivot))


def _read(array: SampleArray, spec: FitSpec) -> Reading:
    """Make the first pass over the samples."""
    centred = spec.settings.fit_intercept
    own, dtypes = working_dtype(array.dtype), array.dtypes(spec.settings.tol)
    for dtype in dtypes:
        samples = array.samples(spec.problem.rows, dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            moments = samples.first_pass(spec.shares, spec.problem.signs, centred)
        told_in = samples.dtype if len(dtypes) > 1 else own  # float32 samples must fit float32
        if in_range(moments, told_in, len(samples)):
            break
    else:
        _reject(samples, moments, centred, own.name)
    return Reading(samples, moments)


def in_range(moments: Moments, dtype: np.dtype, n_samples: int) -> bool:
    """Return whether squared norms are within the range of the dtype."""
    limits = np.finfo(dtype)
    smallest, largest = float(limits.tiny) / float(limits.eps), float(limits.max) / n_samples
    return smallest <= moments.mean_square <= largest


def _reject(samples: Samples, moments: Moments, centred: bool, name: str) -> None:
    """Raise for squared norms outside the range of a dtype, unless they are zero because all samples are equal."""
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
    print(  # noqa: T201 - verbose=1 prints, as in scikit-learn
        f"[tensormargin] sweep {number}: objective {sweep.objectives[-1]:.6g}, change {sweep.change:.1e}, "
        f"gap {max(sweep.gaps):.1e}, {sweep.seconds:.2f} s"
    )
