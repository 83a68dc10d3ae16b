"""Binary problems fitted as one batch on the device of the samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..fitting import (
    BatchedFit,
    Fit,
    Moments,
    SampleArray,
    SharedSamples,
    Start,
    alternate_batched,
    in_range,
    sweeps,
    working_dtype,
)
from ..runtime import Array
from .binary_fit import FitSpec, best_fit, fit_binary


def fit_batched(array: SampleArray, specs: Sequence[FitSpec], solver: str) -> list[Fit]:
    """Return the best fit of each binary problem over its starts, fitted in lockstep.

    Either all problems have an intercept, or none has.
    """
    numbers_of_parts, numbers = distinct_problems(specs)
    parts = [specs[k] for k in numbers_of_parts]
    dtype = np.dtype(np.float64) if array.is_small else None
    samples = SharedSamples(array.X, [part.problem.rows for part in parts], dtype)
    ordered = [_reordered(part, rows) for part, rows in zip(parts, samples.rows, strict=True)]
    shares, signs = [part.shares for part in ordered], [part.problem.signs for part in ordered]
    moments = samples.first_pass(shares, signs, specs[0].settings.fit_intercept)
    own = working_dtype(array.dtype)  # float32 samples are checked against float32, even if computed in float64
    if not all(in_range(one, own, len(part)) for one, part in zip(moments, shares, strict=True)):
        return [fit_binary(array, spec) for spec in specs]  # handles or reports the problem
    members: list[BatchedFit] = []
    owners: list[int] = []
    for owner, (spec, part) in enumerate(zip(specs, numbers, strict=True)):
        own_samples = replace(spec, problem=ordered[part].problem, shares=ordered[part].shares)
        for member in members_of(own_samples, part, moments[part]):
            members.append(member)
            owners.append(owner)
    fits = alternate_batched(samples, members, solver)
    return [
        best_fit([fit for fit, whose in zip(fits, owners, strict=True) if whose == owner], samples.pivot)
        for owner in range(len(specs))
    ]


def members_of(spec: FitSpec, part: int, moments: Moments) -> list[BatchedFit]:
    """Return the fits of a binary problem, one per start, for samples with these moments."""
    problem, settings = spec.margin_problem(moments), spec.settings
    starts = [Start(weight, raced=spec.races(attempt)) for attempt, weight in enumerate(spec.first_weights(moments))]
    return [
        BatchedFit(part, problem, sweeps(start, len(problem), settings.tol, settings.max_iter, spec.report))
        for start in starts
    ]


def distinct_problems(specs: Sequence[FitSpec], sources: Sequence[int] | None = None) -> tuple[list[int], list[int]]:
    """Return the index of one spec per distinct set of signed and weighted samples, and the set of each spec.

    ``sources`` tells apart samples in different arrays.
    """
    known: dict[tuple[Any, ...], int] = {}
    parts: list[int] = []
    numbers: list[int] = []
    for index, spec in enumerate(specs):
        rows = b"" if spec.problem.rows is None else spec.problem.rows.tobytes()
        source = 0 if sources is None else sources[index]
        key = source, rows, spec.problem.signs.tobytes(), spec.shares.tobytes()
        if key not in known:
            known[key] = len(parts)
            parts.append(index)
        numbers.append(known[key])
    return parts, numbers


def _reordered(spec: FitSpec, rows: Array) -> FitSpec:
    """Return the spec with its rows, so far in ascending order, in another order."""
    problem = spec.problem
    order = rows if problem.rows is None else np.searchsorted(problem.rows, rows)
    return replace(spec, problem=replace(problem, rows=rows, signs=problem.signs[order]), shares=spec.shares[order])
