"""Flat weights of many small binary problems, by inner products of samples.

A flat weight is a combination of the samples of its problem, so inner products are all that its fit needs. They are
computed once for all samples; those of a pair of classes are a block of them, and compiled code solves one problem
after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from time import perf_counter
from typing import NamedTuple

import numpy as np

from ..fitting import (
    Certificate,
    Fit,
    FullWeight,
    SampleArray,
    Sweep,
    ViewArray,
    ViewFacts,
    ViewsFormat,
    ViewsWeight,
    shares_of_variance,
    solve_flat,
)
from ..runtime import Array, FloatArray, tuning
from .binary_fit import FitSpec

ALONE = ""
"""The name of the only tensor per sample."""

_FEW = 3  # problems from which all inner products are worth computing


def suits_products(array: SampleArray) -> bool:
    """Return whether samples are in memory, none lacks a view, and they are few compared with their entries."""
    size = sum(map(prod, array.sample_shapes))
    small = len(array) <= tuning.MOST_INNER_PRODUCTS and 8 * len(array) * size <= tuning.FLAT_BASIS_BYTES
    if not array.in_memory or not small or len(array) >= size:
        return False
    return not isinstance(array, ViewArray) or not any(map(len, array.missing.values()))


class Products(NamedTuple):
    """Inner products of samples, n x n for each view, relative to their mean if weights have an intercept."""

    names: tuple[str, ...]
    grams: FloatArray
    means: list[FloatArray]

    @classmethod
    def of(cls, samples: Mapping[str, Array], centred: bool) -> Products:
        """Return the inner products of each view's samples."""
        means, grams = [], np.empty((len(samples), *[len(next(iter(samples.values())))] * 2))
        for gram, array in zip(grams, samples.values(), strict=True):
            rows = as_rows(array)
            means.append(rows.mean(axis=0) if centred else np.zeros(rows.shape[1]))
            rows -= means[-1]
            np.matmul(rows, rows.T, out=gram)
        return cls(tuple(samples), grams, means)

    def solve(self, specs: Sequence[FitSpec]) -> FlatSolutions | None:
        """Return the flat weights of binary problems of these samples; None if they are not for compiled code."""
        settings = specs[0].settings
        every = np.arange(self.grams.shape[1])
        rows = [every if spec.problem.rows is None else spec.problem.rows for spec in specs]
        if max(map(len, rows)) ** 2 > tuning.SMALL_DESIGN:
            return None
        used = settings.view_scales or {ALONE: 1.0}
        scales = np.array([_as_number(used[name]) if name in used else 0.0 for name in self.names])
        strength = settings.strength
        solved = solve_flat(
            self.grams,
            scales,
            rows,
            np.concatenate([spec.problem.signs for spec in specs]),
            np.concatenate([spec.shares for spec in specs]),
            np.array([strength.lam, strength.mu1, strength.mu2]),
            (settings.fit_intercept, strength.relative),
        )
        return None if solved is None else FlatSolutions(self, rows, *solved)


def as_rows(array: Array) -> FloatArray:
    """Return a copy of samples as vectors, in float64."""
    return array.reshape(len(array), -1).astype(np.float64)


def _as_number(scale: float | None) -> float:
    return np.nan if scale is None else scale


@dataclass(frozen=True)
class FlatSolutions:
    """The flat weights of binary problems as combinations of samples, with intercepts and certificates."""

    products: Products
    rows: Sequence[Array]
    coefficients: FloatArray  # of the rows of all problems, one after the other
    factors: FloatArray  # of the views in each problem, squared
    answers: FloatArray  # intercept, primal, dual and scale of each problem

    @property
    def intercepts(self) -> FloatArray:
        """Of each problem, for samples relative to the mean of the inner products."""
        return self.answers[:, 0]

    def gap(self, number: int) -> float:
        """Return the relative duality gap of a problem."""
        return Certificate(*self.answers[number, 1:].tolist()).relative_gap

    def shares(self, view: int) -> FloatArray:
        """Return the share of each sample of a view (rows) in each weight (columns)."""
        shares = np.zeros((self.products.grams.shape[1], len(self.rows)))
        columns = np.repeat(np.arange(len(self.rows)), [len(rows) for rows in self.rows])
        shares[np.concatenate(self.rows), columns] = self.coefficients
        shares *= self.factors[:, view]
        return shares


def flat_fits(array: SampleArray, specs: Sequence[FitSpec]) -> dict[int, Fit]:
    """Return the fits of problems with flat weights of more entries than there are samples, by their number.

    There are none if each problem is better fitted by itself; those that rounding keeps from their gap are missing.
    """
    settings = specs[0].settings
    if len(specs) < _FEW or settings.verbose or any(spec.last is not None for spec in specs):
        return {}
    form = settings.format
    is_flat = all(one is FullWeight for one in (form.formats if isinstance(form, ViewsFormat) else (form,)))
    if not is_flat or not suits_products(array):
        return {}
    began = perf_counter()
    X = array.X
    samples = {ALONE: X} if settings.view_scales is None else {name: X[name] for name in settings.view_scales}
    solved = Products.of(samples, settings.fit_intercept).solve(specs)
    if solved is None:
        return {}
    weights = _Weights.of(solved, list(samples.values()))
    seconds = (perf_counter() - began) / len(specs)
    enough = tuning.GAP_SHARE * settings.tol
    return {k: weights.fit(k, spec, seconds) for k, spec in enumerate(specs) if solved.gap(k) <= enough}


@dataclass(frozen=True)
class _Weights:
    """Flat weights of several problems on the samples, one array per view with one weight per row."""

    solved: FlatSolutions
    weights: list[FloatArray]
    at_means: FloatArray  # scores of the mean that inner products are relative to, one per problem and view
    scores: FloatArray  # of the other samples, relative to them: one per sample, problem and view

    @classmethod
    def of(cls, solved: FlatSolutions, samples: Sequence[Array]) -> _Weights:
        grams, means = solved.products.grams, solved.products.means
        shares = [solved.shares(view) for view in range(len(samples))]
        weights = [own.T @ as_rows(one) for own, one in zip(shares, samples, strict=True)]
        at_means = np.stack([own @ mean for own, mean in zip(weights, means, strict=True)], axis=-1)
        scores = np.stack([gram @ own for gram, own in zip(grams, shares, strict=True)], axis=-1)
        shapes = [(len(own), *one.shape[1:]) for own, one in zip(weights, samples, strict=True)]
        return cls(solved, [own.reshape(shape) for own, shape in zip(weights, shapes, strict=True)], at_means, scores)

    def fit(self, number: int, spec: FitSpec, seconds: float) -> Fit:
        """Return one of the fits."""
        own = [FullWeight(weights[number]) for weights in self.weights]
        primal = float(self.solved.answers[number, 1])
        sweep = Sweep((primal,), (self.solved.gap(number),), np.inf, 1.0, seconds)
        intercept = float(self.solved.intercepts[number] - self.at_means[number].sum())
        fit, form = Fit(own[0], intercept, primal, (sweep,), converged=True), spec.settings.format
        if not isinstance(form, ViewsFormat):
            return fit
        scores = self.scores[self.solved.rows[number], number] + self.at_means[number]
        centred = spec.settings.fit_intercept
        shares = spec.shares if centred else np.full(len(scores), 1.0 / len(scores))
        means = shares @ scores if centred else np.zeros(len(own))
        facts = ViewFacts(np.sqrt(self.solved.factors[number]), means, shares_of_variance(scores, shares))
        return replace(fit, weight=ViewsWeight.of(form, own), views=facts)
