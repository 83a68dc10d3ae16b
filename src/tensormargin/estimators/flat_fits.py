"""Flat weights of many small binary problems, by inner products of samples.

A flat weight is a combination of the samples of its problem, so inner products are all that its fit needs. They are
computed once for all samples; those of a pair of classes are a block of them, and compiled code solves one problem
after the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from time import perf_counter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ..fitting import (
    OFFSET_LOSS,
    Certificate,
    Fit,
    FlatSolution,
    FullWeight,
    Moments,
    SampleArray,
    SharedForm,
    Sweep,
    ViewArray,
    ViewFacts,
    ViewsFormat,
    ViewsWeight,
    range_of,
    shares_of_variance,
    solve_flat,
    working_dtype,
)
from ..runtime import Array, FloatArray, tuning
from .binary_fit import FitSettings, FitSpec

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
    """Inner products of samples, n x n for each view, relative to their mean if weights have an intercept.

    ``crosses`` are those of other samples (rows) with them (columns), for each view.
    """

    names: tuple[str, ...]
    grams: FloatArray
    ranges: FloatArray  # of each view, see `solve_flat`
    means: list[FloatArray]
    crosses: list[FloatArray]

    @classmethod
    def of(
        cls,
        samples: Mapping[str, Array],
        centred: bool,
        dtype: type = np.float64,
        others: Mapping[str, Array] = MappingProxyType({}),
    ) -> Products:
        """Return the inner products of each view's samples, and of other samples with them, computed in ``dtype``.

        They may overflow, see `solve`.
        """
        grams = np.empty((len(samples), *[len(next(iter(samples.values())))] * 2))
        largest_offset = OFFSET_LOSS / float(np.finfo(dtype).eps)
        ranges = [(*range_of(working_dtype(array.dtype)), largest_offset) for array in samples.values()]
        found = cls(tuple(samples), grams, np.array(ranges), [], [])
        for gram, (name, array) in zip(grams, samples.items(), strict=True):
            rows = array.reshape(len(array), -1)
            # any point near the mean will do; one of double precision would cost two more conversions
            with np.errstate(over="ignore", invalid="ignore"):
                mean = rows.mean(axis=0, dtype=dtype) if centred else np.zeros(rows.shape[1], dtype)
                rows = _centred_rows(rows, mean, dtype)
                gram[...] = rows @ rows.T
                found.means.append(mean)
                if name in others:
                    found.crosses.append(_centred_rows(others[name], mean, dtype) @ rows.T)
        return found

    def solve(self, specs: Sequence[FitSpec]) -> FlatSolutions | None:
        """Return the flat weights of binary problems of these samples; None if rounding or their size prevents it."""
        if not np.all(np.isfinite(np.einsum("vnn->v", self.grams))):
            return None
        every = np.arange(self.grams.shape[1])
        rows = [every if spec.problem.rows is None else spec.problem.rows for spec in specs]
        small = None
        if max(map(len, rows)) ** 2 <= tuning.SMALL_GRAM:
            small = self._solve_small(specs, rows)
        return self._solve_in_groups(specs, rows) if small is None else small

    def _scales(self, settings: FitSettings) -> FloatArray:
        """Return the factor of each view: NaN for a mean squared norm of one, 0 for one that is left out."""
        used: Any = settings.view_scales or {ALONE: 1.0}
        return np.array([used.get(name, 0.0) for name in self.names], np.float64)  # None becomes NaN

    def _solve_small(self, specs: Sequence[FitSpec], rows: Sequence[Array]) -> FlatSolutions | None:
        """Solve small problems by compiled code, if there is any."""
        settings = specs[0].settings
        strength = settings.strength
        solved = solve_flat(
            self.grams,
            self._scales(settings),
            self.ranges,
            rows,
            np.concatenate([spec.problem.signs for spec in specs]),
            np.concatenate([spec.shares for spec in specs]),
            np.array([strength.lam, strength.mu1, strength.mu2]),
            (settings.fit_intercept, strength.relative),
        )
        if solved is None:
            return None
        gaps = [Certificate(*one).relative_gap for one in solved.answers[:, 1:].tolist()]
        intercepts, objectives = solved.answers[:, :2].T
        return FlatSolutions(self, rows, solved.coefficients, solved.factors, intercepts, objectives, np.array(gaps))

    def _solve_in_groups(self, specs: Sequence[FitSpec], rows: Sequence[Array]) -> FlatSolutions | None:
        """Solve problems one by one, those that differ in their signs only (one-vs-rest) with one factorisation."""
        groups = defaultdict(list)
        for number, spec in enumerate(specs):
            groups[rows[number].tobytes(), spec.shares.tobytes()].append(number)
        found: list[Any] = [None] * len(specs)
        for numbers in groups.values():
            solved = self._solve_alike([specs[k] for k in numbers], rows[numbers[0]])
            if solved is None:
                return None
            for number, one in zip(numbers, solved, strict=True):
                found[number] = one
        coefficients, *others = zip(*found, strict=True)
        return FlatSolutions(self, rows, np.concatenate(coefficients), *map(np.array, others))

    def _solve_alike(self, specs: Sequence[FitSpec], rows: Array) -> Iterator[tuple[Any, ...]] | None:
        """Return coefficients, squared factors of the views, intercept, objective and gap of each problem."""
        settings, shares = specs[0].settings, specs[0].shares
        grams = self.grams if len(rows) == self.grams.shape[1] else self.grams[:, rows[:, None], rows]
        scales, centred = self._scales(settings), settings.fit_intercept
        of_means = shares @ grams @ shares if centred else 0.0
        squares = np.maximum(np.diagonal(grams, axis1=1, axis2=2) @ shares - of_means, 0.0)
        least, most, offset = self.ranges.T
        in_range = (squares >= least) & (squares <= most / len(rows)) & (of_means / offset <= squares)
        if not np.all(in_range | (scales == 0.0)):
            return None
        factors = np.where(np.isnan(scales), 1.0 / np.where(squares > 0, squares, 1.0), scales**2)
        gram = np.tensordot(factors, grams, 1)
        weights = shares if centred else np.zeros(len(gram))  # of the samples in their mean
        at_mean = gram @ weights
        gram += float(weights @ at_mean) - at_mean - at_mean[:, None]
        problem = specs[0].margin_problem(Moments(at_mean, float(factors @ squares)))
        tol = tuning.GAP_SHARE * settings.tol
        form = SharedForm.of(gram, problem, tol)
        if form is None:
            return None
        found = (form.solve(spec.problem.signs, tol) for spec in specs)
        return (_around_mean(one, factors, weights, at_mean) for one in found)


def _around_mean(
    solution: FlatSolution, factors: FloatArray, weights: FloatArray, at_mean: FloatArray
) -> tuple[FloatArray, FloatArray, float, float, float]:
    """Return coefficients of samples that are not centred at their weighted mean, and what else is kept of a fit."""
    coefficients = solution.shares - weights * solution.shares.sum()
    intercept, certificate = solution.intercept - float(coefficients @ at_mean), solution.certificate
    return coefficients, factors, intercept, certificate.primal, certificate.relative_gap


def _centred_rows(array: Array, mean: FloatArray, dtype: type) -> FloatArray:
    """Return samples as vectors, relative to a mean."""
    rows = array.reshape(len(array), -1)
    return np.subtract(rows, mean, out=np.empty(rows.shape, dtype), casting="same_kind")


@dataclass(frozen=True)
class FlatSolutions:
    """The flat weights of binary problems as combinations of samples, with intercepts and certificates."""

    products: Products
    rows: Sequence[Array]
    coefficients: FloatArray  # of the rows of all problems, one after the other
    factors: FloatArray  # of the views in each problem, squared
    intercepts: FloatArray  # for samples relative to the mean of the inner products
    objectives: FloatArray
    gaps: FloatArray  # relative

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
    return {k: weights.fit(k, spec, seconds) for k, spec in enumerate(specs) if solved.gaps[k] <= enough}


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
        weights = [
            own.T @ one.reshape(len(one), -1) - np.outer(own.sum(axis=0), mean)
            for own, one, mean in zip(shares, samples, means, strict=True)
        ]
        at_means = np.stack([own @ mean for own, mean in zip(weights, means, strict=True)], axis=-1)
        scores = np.stack([gram @ own for gram, own in zip(grams, shares, strict=True)], axis=-1)
        shapes = [(len(own), *one.shape[1:]) for own, one in zip(weights, samples, strict=True)]
        return cls(solved, [own.reshape(shape) for own, shape in zip(weights, shapes, strict=True)], at_means, scores)

    def fit(self, number: int, spec: FitSpec, seconds: float) -> Fit:
        """Return one of the fits."""
        own = [FullWeight(weights[number]) for weights in self.weights]
        primal = float(self.solved.objectives[number])
        sweep = Sweep((primal,), (float(self.solved.gaps[number]),), np.inf, 1.0, seconds)
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
