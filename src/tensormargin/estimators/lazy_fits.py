"""Binary problems on samples in Dask arrays, fitted in lockstep so that they share every read of a chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ..fitting import (
    FORMATS,
    BatchedFit,
    ChunkedDesign,
    Fit,
    LazyProblem,
    LazySamples,
    MemoryArray,
    SampleArray,
    SharedLazySamples,
    Span,
    alternate_on_host,
    in_range,
    working_dtype,
)
from ..runtime import FloatArray, available_bytes, tuning
from .batched_fits import distinct_problems, members_of
from .binary_fit import FitSpec, best_fit, fit_binary

OfArray = tuple[SampleArray, FitSpec]
"""A binary problem and the array of its samples."""


def fit_lazily(specs: Sequence[OfArray]) -> list[Fit]:
    """Return the best fit of each binary problem over its starts.

    Arrays that are computed from the same chunks share their reads. Problems are fitted in as many batches as the
    memory of the caller requires, whose means and weights are tensors of the size of a sample.
    """
    fits: dict[int, Fit] = {}
    for batch in batches(list(range(len(specs))), [prod(array.sample_shape) for array, _ in specs]):
        for centred in (True, False):
            own = [k for k in batch if specs[k][1].settings.fit_intercept == centred]
            flat = [k for k in own if specs[k][1].settings.format.name == "full"]
            others = [k for k in own if k not in flat]
            if others:
                fits.update(zip(others, _fit_in_lockstep([specs[k] for k in others], centred), strict=True))
            for same in _by_array([specs[k][0] for k in flat]):
                numbers = [flat[k] for k in same]
                flat_specs = [specs[k][1] for k in numbers]
                fits.update(zip(numbers, _fit_flat(specs[numbers[0]][0], flat_specs, centred), strict=True))
    return [fits[k] for k in range(len(specs))]


def batches(items: Sequence[Any], entries: Sequence[int]) -> list[list[Any]]:
    """Return the items divided into parts, given the entries of the dense tensors that each needs in memory."""
    most = max(tuning.ROUND_LEAST_BYTES, tuning.ROUND_SHARE * available_bytes())
    parts: list[list[Any]] = []
    taken = 0.0
    for item, size in zip(items, entries, strict=True):
        if not parts or taken + 16 * size > most:
            parts.append([])
            taken = 0.0
        parts[-1].append(item)
        taken += 16 * size
    return parts


def _by_array(arrays: Sequence[SampleArray]) -> list[list[int]]:
    """Return the indices of arrays that are the same."""
    same: dict[str, list[int]] = {}
    for number, array in enumerate(arrays):
        same.setdefault(array.X.name, []).append(number)
    return list(same.values())


def _fit_in_lockstep(specs: Sequence[OfArray], centred: bool) -> list[Fit]:
    arrays, source_of = [], [0] * len(specs)
    for number, same in enumerate(_by_array([array for array, _ in specs])):
        arrays.append(specs[same[0]][0])
        for k in same:
            source_of[k] = number
    parts, numbers = distinct_problems([spec for _, spec in specs], source_of)
    tol = min(spec.settings.tol for _, spec in specs)
    problems = [LazyProblem(source_of[k], specs[k][1].problem.rows) for k in parts]
    dtypes = [array.dtypes(tol) for array in arrays]
    samples = SharedLazySamples([array.X for array in arrays], problems, [of_array[0] for of_array in dtypes])
    shares, signs = [specs[k][1].shares for k in parts], [specs[k][1].problem.signs for k in parts]
    moments = samples.first_pass(shares, signs, centred)
    for k, one in zip(parts, moments, strict=True):
        own = dtypes[source_of[k]]
        told_in = own[0] if len(own) > 1 else working_dtype(specs[k][0].dtype)
        if not in_range(one, told_in, len(specs[k][1].shares)):
            return [fit_binary(array, spec) for array, spec in specs]  # handles or reports the problem
    members: list[BatchedFit] = []
    owners: list[int] = []
    for owner, ((_, spec), part) in enumerate(zip(specs, numbers, strict=True)):
        for member in members_of(spec, part, moments[part]):
            members.append(member)
            owners.append(owner)
    fits: list[list[Fit]] = [[] for _ in specs]
    for fit, owner in zip(alternate_on_host(samples, members), owners, strict=True):
        fits[owner].append(fit)
    return [best_fit(own, samples.pivot(part)) for own, part in zip(fits, numbers, strict=True)]


def _fit_flat(array: SampleArray, specs: Sequence[FitSpec], centred: bool) -> list[Fit]:
    """Return the fits of full weights, all of them to coordinates that are computed once."""
    from .engine import fit_specs  # not above: it imports this module

    flat = LazyCoordinates.of(array, centred)
    fits = fit_specs(MemoryArray(flat.coordinates), specs, 1, "host")
    dense = flat.on_samples(np.stack([fit.weight.to_dense() for fit in fits]))
    shift = dense @ flat.mean
    full, shape = FORMATS["full"], array.sample_shape
    return [
        replace(fit, weight=full.from_tensorly(weight.reshape(shape), shape), intercept=fit.intercept - float(less))
        for fit, weight, less in zip(fits, dense, shift, strict=True)
    ]


def coordinates_fit(n_samples: int, size: int) -> bool:
    """Return whether the coordinates of samples with so many entries, and the copies that solving makes, fit memory."""
    return tuning.COORDINATE_COPIES * 8 * n_samples * min(n_samples, size) <= available_bytes() / 4


@dataclass(frozen=True)
class LazyCoordinates:
    """Vectors whose inner products are those of the samples of a Dask array minus their mean.

    They are the samples themselves if these have fewer entries than there are samples, and otherwise computed from
    their inner products, as many numbers per sample as there are samples.

    Attributes
    ----------
    coordinates : ndarray of shape (n_samples, d)
    mean : ndarray of shape (n_entries,)
    """

    samples: LazySamples
    coordinates: FloatArray
    mean: FloatArray
    directions: FloatArray | None

    @classmethod
    def of(cls, array: SampleArray, centred: bool = True) -> LazyCoordinates:
        """Return the coordinates of all samples, relative to their mean if ``centred``."""
        samples = LazySamples.of(array.X)
        n_samples = len(samples)
        design = ChunkedDesign(samples)
        mean = np.zeros(design.shape[1])
        if centred:
            mean = design.weighted_sum(np.full(n_samples, 1.0 / n_samples))
        if design.shape[1] <= n_samples:
            rows = design.to_numpy().astype(np.float64)
            return cls(samples, rows - mean, mean, None)
        span = Span.of(design.gram(mean))
        return cls(samples, span.coordinates, mean, span.shares)

    def on_samples(self, weights: FloatArray) -> FloatArray:
        """Return weights of the coordinates, one per row, as weights of the flattened samples."""
        if self.directions is None:
            return weights
        factors = weights @ self.directions.T
        return self.samples.combined(factors) - factors.sum(axis=1)[:, None] * self.mean
