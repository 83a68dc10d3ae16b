"""The fit of one binary problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite
from typing import Any

import numpy as np

from ..fitting import (
    NOT_DRAWN_FROM,
    SOLVERS,
    BinaryProblem,
    Fit,
    Format,
    MarginProblem,
    MemorySamples,
    Moments,
    Noise,
    Objective,
    Reading,
    Report,
    SampleArray,
    Samples,
    Start,
    Sweep,
    ViewsInSpan,
    ViewsWeight,
    Weight,
    alternate,
    coarse_start,
    dual_guess,
)
from ..runtime import Array, ForkSafeLock, tuning

# For samples of mean squared norm 1. Chosen by benchmarks/scale_rule.py on real data with four kinds of weight: this
# pair has the smallest worst-case loss (docs/method.md has the table).
SCALE_LAM = 300.0
SCALE_MU = 100.0


@dataclass(frozen=True)
class Strength:
    """The coefficients of Eq. 7, relative to a mean squared norm of one or not, before the samples' scale is known."""

    lam: float
    mu1: float
    mu2: float
    relative: bool

    def on_samples(self, mean_square: float) -> tuple[float, float, float]:
        """Return lam, mu1 and mu2 of Eq. 7 for samples with this mean squared (centred) norm."""
        unit = mean_square if self.relative and mean_square > 0 else 1.0
        lam, mu1, mu2 = self.lam / unit, self.mu1 / unit, self.mu2 / unit
        if not isfinite(lam + mu1 + mu2) or lam + mu2 < np.finfo(np.float64).tiny:
            raise ValueError(
                "lam, mu1 and mu2 must stay finite, and lam + mu2 at least 2.2e-308, on the samples' scale; got "
                f"{lam:g}, {mu1:g} and {mu2:g} for a mean squared norm of {mean_square:g}. Change them or scale X"
            )
        return lam, mu1, mu2


def strength_of(estimator: Any) -> Strength:
    """Return the strengths set by the parameters ``lam``, ``mu1``, ``mu2`` and ``scale_free`` of a classifier.

    Scale-free strengths are in units of `SCALE_LAM` and `SCALE_MU` over the mean squared norm of the centred samples:
    under X -> sX the same classifier needs all three divided by s^2.
    """
    lam, mu1, mu2 = float(estimator.lam), float(estimator.mu1), float(estimator.mu2)
    if not estimator.scale_free:
        return Strength(lam, mu1, mu2, relative=False)
    return Strength(lam * SCALE_LAM, mu1 * SCALE_MU, mu2 * SCALE_MU, relative=True)


@dataclass(frozen=True)
class FitSettings:
    """Validated settings shared by all binary problems; a view whose scale is None gets a mean squared norm of one."""

    format: Format
    rank: Any
    strength: Strength
    fit_intercept: bool
    init: str
    n_init: int
    tol: float
    max_iter: int
    verbose: int
    view_scales: Mapping[str, float | None] | None = None


@dataclass(frozen=True)
class LastFit:
    """Result of the previous fit, for a warm start."""

    weight: Weight
    intercept: float


@dataclass(frozen=True)
class FitSpec:
    """A binary problem and how to fit it."""

    problem: BinaryProblem
    shares: Array  # positive sample weights that sum to one
    settings: FitSettings
    last: LastFit | None  # for a warm start
    seed: int  # for random starts

    def margin_problem(self, moments: Moments) -> MarginProblem:
        """Return the optimisation problem (Eq. 7) for samples with these moments."""
        objective = Objective(*self.settings.strength.on_samples(moments.mean_square), self.shares)
        bias_scale = (float(np.sqrt(moments.mean_square)) or 1.0) if self.settings.fit_intercept else 0.0
        return MarginProblem(self.problem.signs, objective, bias_scale)

    def first_weights(self, moments: Moments, noise: Noise) -> list[Weight]:
        """Return the start of each of the ``n_init`` fits: the last fit or the class means, then random ones."""
        settings = self.settings
        rng = np.random.RandomState(self.seed) if self.draws(moments.signed_mean.shape) else NOT_DRAWN_FROM
        weights = []
        for attempt in range(settings.n_init):
            if attempt == 0 and self.last is not None:
                last = self.last.weight
                if moments.factors is not None and isinstance(last, ViewsWeight):  # made for views that are not scaled
                    last = last.times(1.0 / moments.factors)
                weights.append(last)
            elif attempt > 0 or settings.init == "random":
                direction = rng.standard_normal(moments.signed_mean.shape)
                weights.append(settings.format.from_dense(direction, settings.rank, rng))
            else:
                weights.append(settings.format.start_from(moments.signed_mean, settings.rank, rng, noise))
        return weights

    def races(self, attempt: int) -> bool:
        """Return whether a start of this number has a rival (`alternation.sweeps`): the class means only."""
        return attempt == 0 and self.last is None and self.settings.init == "mean"

    def reading(self) -> Reading:
        """Return how the samples are read in the first pass."""
        problem, settings = self.problem, self.settings
        how = settings.fit_intercept, settings.tol, settings.view_scales, settings.format.uses_noise(settings.rank)
        return Reading(problem.rows, self.shares, problem.signs, *how)

    @property
    def read_as(self) -> tuple[Any, ...]:
        """What the first pass depends on: fits that agree in it can share what it gives."""
        rows = None if self.problem.rows is None else self.problem.rows.tobytes()
        signs, shares, scales = self.problem.signs.tobytes(), self.shares.tobytes(), self.settings.view_scales
        return rows, signs, shares, self.settings.fit_intercept, self.settings.tol, scales and tuple(scales.items())

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
class FirstPass:
    """The samples of a binary problem after the first pass, and the first weights, by what they depend on."""

    samples: Samples
    moments: Moments
    starts: dict[tuple[Any, ...], list[Weight]] = field(default_factory=dict)

    def first_weights(self, spec: FitSpec) -> list[Weight]:
        """Return the start of each fit, computed once unless it is a warm start."""
        noise = partial(self.samples.noise, spec.shares, spec.problem.signs)
        if spec.last is not None:
            return spec.first_weights(self.moments, noise)
        key = spec.starts_as(self.moments.signed_mean.shape)
        if key not in self.starts:
            self.starts[key] = spec.first_weights(self.moments, noise)
        return self.starts[key]


class FirstPasses:
    """The first passes over one array, shared by fits that differ in strengths, decomposition and rank only.

    A pass takes as long as a third of a small fit. Kept are those of small problems, up to a total size.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], FirstPass] = {}
        self._lock = ForkSafeLock()
        self._left = tuning.KEPT_PASSES_BYTES

    def of(self, array: SampleArray, spec: FitSpec) -> FirstPass:
        """Return the samples of a binary problem after the first pass; several fits may use them at the same time."""
        key = spec.read_as
        found = self._kept.get(key) or self._keep(key, FirstPass(*array.read(spec.reading())))
        return replace(found, samples=found.samples.for_another_fit())

    def _keep(self, key: tuple[Any, ...], new: FirstPass) -> FirstPass:
        samples = new.samples
        if not isinstance(samples, MemorySamples) or samples.n_entries > tuning.SMALL_SAMPLES:
            return new
        with self._lock:
            n_bytes = samples.nbytes + 2 * samples.columns.nbytes  # and `kept_of_all`
            if n_bytes <= self._left and key not in self._kept:
                self._left -= n_bytes
                self._kept[key] = new
        return new

    def __reduce__(self) -> Any:  # copies in other processes start empty
        return FirstPasses, ()


def fit_binary(array: SampleArray, spec: FitSpec, passes: FirstPasses | None = None) -> Fit:
    """Return the best fit of a binary problem over ``n_init`` starts."""
    settings, last = spec.settings, spec.last
    passed = FirstPass(*array.read(spec.reading())) if passes is None else passes.of(array, spec)
    samples, moments = passed.samples, passed.moments
    problem = spec.margin_problem(moments)
    span = ViewsInSpan.of(samples, settings.format)
    read = samples if span is None else span.samples
    solver = SOLVERS["dual_cd"]
    fits = []
    for attempt, weight in enumerate(passed.first_weights(spec)):
        begin = weight if span is None else span.inside(weight)
        if last is not None and attempt == 0:  # already fitted: a coarse start would only spoil it
            intercept = last.intercept + at_pivot(weight, samples.pivot)
            intercept += 0.0 if span is None else span.at_means(weight)
            start = Start(begin, dual_guess(read, problem, begin, intercept))
        else:
            start = coarse_start(read, problem, begin, solver, settings.tol, settings.max_iter)
            start = replace(start, raced=spec.races(attempt))
        fits.append(alternate(read, problem, start, solver, settings.tol, settings.max_iter, spec.report))
    found = fits if span is None else [span.outside(fit) for fit in fits]
    return _for_given(best_fit(found, samples.pivot), samples, moments)


def _for_given(fit: Fit, samples: Samples, moments: Moments) -> Fit:
    """Return a fit to scaled views as one to the samples as they were given."""
    if moments.factors is None or not isinstance(fit.weight, ViewsWeight):
        return fit
    return replace(fit, weight=fit.weight.times(moments.factors), views=samples.view_facts(fit.weight.to_dense()))


def best_fit(fits: list[Fit], pivot: Array | None) -> Fit:
    """Return the fit with the lowest objective, with its intercept adjusted to samples without the pivot subtracted."""
    best = min(fits, key=lambda fit: fit.objective)
    return replace(best, intercept=best.intercept - at_pivot(best.weight, pivot))


def at_pivot(weight: Weight, pivot: Array | None) -> float:
    """Return the score of the pivot, by which subtracting it shifts the intercept."""
    return 0.0 if pivot is None else float(np.vdot(weight.to_dense(), pivot))


def _print_sweep(number: int, sweep: Sweep) -> None:
    print(  # noqa: T201 - verbose=1 prints, as in scikit-learn
        f"[tensormargin] sweep {number}: objective {sweep.objectives[-1]:.6g}, change {sweep.change:.1e}, "
        f"gap {max(sweep.gaps):.1e}, {sweep.seconds:.2f} s"
    )
