"""Fits of many binary problems: one after the other or in threads on the host, or in lockstep.

On a device, fits in lockstep are contracted and solved as one batch. In Dask arrays, they share every read of a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from math import prod
from typing import Any

import numpy as np
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from threadpoolctl import ThreadpoolController

from ..fitting import (
    FORMATS,
    BatchedFit,
    Fit,
    MemoryArray,
    MemorySamples,
    Moments,
    SampleArray,
    SampleSpan,
    SharedSamples,
    Start,
    alternate_batched,
    alternate_on_host,
    in_range,
    in_rounds,
    sample_array,
    sweeps,
    working_dtype,
)
from ..runtime import Array, UsedByThreads, goes_to_cluster, tuning, worker_threads
from .binary_fit import FirstPasses, FitSpec, best_fit, fit_binary
from .flat_fits import flat_fits

PLACES = ("auto", "host", "device")
OfArray = tuple[SampleArray, FitSpec]
"""A binary problem and the array of its samples."""


def fit_specs(
    array: SampleArray, specs: Sequence[FitSpec], n_jobs: int | None, solver: str, passes: FirstPasses | None = None
) -> list[Fit]:
    """Return the fits of binary problems that use subsets of the same samples, whose first passes may be kept."""
    batched = _batched(array, specs, solver) if array.fits_in_batches else []
    flat = {} if batched else flat_fits(array, specs)
    alone = [k for k in range(len(specs)) if k not in batched and k not in flat]
    threads = 1 if array.in_memory and array.is_small else available_threads()  # asking takes as long as a step
    shares = array.in_memory and len(alone) > 1  # on a device all together
    at_once = min(effective_n_jobs(at_most(n_jobs)), len(specs)) if shares else 1
    with worker_threads(threads if at_once == 1 else 1), one_blas_thread:
        fits = dict(flat)
        if batched:
            fits.update(zip(batched, _fit_in_lockstep([(array, specs[k]) for k in batched], solver), strict=True))
        if at_once > 1:
            jobs = (delayed(fit_in_memory)(array.X, specs[k]) for k in alone)
            fits.update(zip(alone, Parallel(n_jobs=at_once, prefer="threads")(jobs), strict=True))
        else:
            fits.update((k, fit_binary(array, specs[k], passes)) for k in alone)
    return [fits[k] for k in range(len(specs))]


def at_most(n_jobs: int | None) -> int | None:
    """Return the number of jobs that is worthwhile: threads hinder each other, workers of a cluster do not."""
    return n_jobs if goes_to_cluster() else min(effective_n_jobs(n_jobs), tuning.MOST_THREADS)


def fit_on_arrays(specs: Sequence[OfArray], solver: str) -> list[Fit]:
    """Return the fits of binary problems that use subsets of one array, or of several Dask arrays."""
    array = specs[0][0]
    if not array.is_lazy or len(specs) == 1:
        return fit_specs(array, [spec for _, spec in specs], None, solver)
    with worker_threads(available_threads()), one_blas_thread:
        return _fit_in_lockstep(specs, solver)


def fit_in_memory(X: Any, spec: FitSpec) -> Fit:
    """Fit one binary problem; the samples are a separate argument, so that joblib recognises them."""
    return fit_binary(sample_array(X), spec)


def _batched(array: SampleArray, specs: Sequence[FitSpec], solver: str) -> list[int]:
    """Return the indices of the problems to fit in lockstep.

    A single problem is faster on its own, with a start from some of the samples (`coarse_start`). So is a full
    weight with more entries than samples, whose Gram matrix is far smaller than its design. Nothing is solved on a
    device without float64.
    """
    if array.is_lazy:
        return list(range(len(specs))) if sum(spec.settings.n_init for spec in specs) > 1 else []
    if not array.has_float64 or (solver != "device" and array.on_processor):
        return []
    numbers = [
        k
        for k, spec in enumerate(specs)
        if spec.settings.format.name != "full" or prod(array.sample_shape) <= len(spec.shares)
    ]
    several = sum(specs[k].settings.n_init for k in numbers) > 1
    return numbers if several or solver == "device" else []


def _fit_in_lockstep(specs: Sequence[OfArray], solver: str) -> list[Fit]:
    """Return the best fit of each binary problem over its starts: of an array on a device, or of Dask arrays.

    Those with an intercept and those without are fitted separately. Dask arrays that are computed from the same chunks
    share their reads, and their problems are fitted in as many batches as the memory of the caller requires, whose
    means and weights are tensors of the size of a sample.
    """
    lazy = bool(specs) and specs[0][0].is_lazy
    every = list(range(len(specs)))
    fits: dict[int, Fit] = {}
    for batch in in_rounds(every, [16 * prod(array.sample_shape) for array, _ in specs]) if lazy else [every]:
        for centred in (True, False):
            own = [k for k in batch if specs[k][1].settings.fit_intercept == centred]
            flat = [k for k in own if lazy and specs[k][1].settings.format.name == "full"]
            others = [k for k in own if k not in flat]
            if others:
                chosen = [specs[k] for k in others]
                fits.update(zip(others, _fit_shared(chosen, centred, solver), strict=True))
            for same in _by_array([specs[k][0] for k in flat]):
                numbers = [flat[k] for k in same]
                fits.update(zip(numbers, _fit_flat([specs[k] for k in numbers], centred), strict=True))
    return [fits[k] for k in every]


def _fit_shared(specs: Sequence[OfArray], centred: bool, solver: str) -> list[Fit]:
    """Return the best fit of each binary problem; problems on a device, or of Dask arrays, share their samples."""
    arrays, source_of = [], [0] * len(specs)
    for number, same in enumerate(_by_array([array for array, _ in specs])):
        arrays.append(specs[same[0]][0])
        for k in same:
            source_of[k] = number
    parts, numbers = _distinct_problems([spec for _, spec in specs], source_of)
    of_parts = [specs[k][1] for k in parts]
    dtypes = [array.dtypes(min(spec.settings.tol for _, spec in specs)) for array in arrays]
    samples: Any
    if arrays[0].is_lazy:
        from ..fitting import LazyProblem, SharedLazySamples

        problems = [LazyProblem(source_of[k], specs[k][1].problem.rows) for k in parts]
        samples = SharedLazySamples([array.X for array in arrays], problems, [own[0] for own in dtypes])
    else:
        samples = SharedSamples(arrays[0].X, [spec.problem.rows for spec in of_parts], dtypes[0][0])
        of_parts = [_reordered(spec, rows) for spec, rows in zip(of_parts, samples.rows, strict=True)]
    shares, signs = [spec.shares for spec in of_parts], [spec.problem.signs for spec in of_parts]
    noise = any(spec.settings.format.uses_noise(spec.settings.rank) for spec in of_parts)
    moments = samples.first_pass(shares, signs, centred, noise)
    for k, one in zip(parts, moments, strict=True):
        own = dtypes[source_of[k]]  # float32 samples are checked against float32, even if computed in float64
        checked_in = own[0] if len(own) > 1 else working_dtype(specs[k][0].dtype)
        if not in_range(one.mean_square, checked_in, len(specs[k][1].shares)):
            return [fit_binary(array, spec) for array, spec in specs]  # handles or reports the problem
    in_order = [
        replace(spec, problem=of_parts[part].problem, shares=of_parts[part].shares)
        for (_, spec), part in zip(specs, numbers, strict=True)
    ]
    on_host, batched = partial(alternate_on_host, samples), partial(alternate_batched, samples, solver=solver)
    lazy = arrays[0].is_lazy
    fits = _alternate_all(in_order, numbers, moments, samples.noise, on_host if lazy else batched, lazy)
    return [best_fit(own_fits, samples.pivot(part)) for own_fits, part in zip(fits, numbers, strict=True)]


def _alternate_all(
    specs: Sequence[FitSpec],
    parts: Sequence[int],
    moments: Sequence[Moments],
    noise: Callable[[int, Array, Array], Array],
    alternate: Callable[[list[BatchedFit]], Iterable[Fit]],
    remote: bool,
) -> list[list[Fit]]:
    """Return the fits of each binary problem, one per start, given the part of the samples that each uses."""
    members: list[BatchedFit] = []
    owners: list[int] = []
    for owner, (spec, part) in enumerate(zip(specs, parts, strict=True)):
        problem, settings = spec.margin_problem(moments[part]), spec.settings
        of_part = partial(noise, part, spec.shares, spec.problem.signs)
        for attempt, weight in enumerate(spec.first_weights(moments[part], of_part)):
            start = Start(weight, raced=spec.races(attempt))
            loop = sweeps(start, len(problem), settings.tol, settings.max_iter, spec.report, remote=remote)
            members.append(BatchedFit(part, problem, loop))
            owners.append(owner)
    fits: list[list[Fit]] = [[] for _ in specs]
    for fit, owner in zip(alternate(members), owners, strict=True):
        fits[owner].append(fit)
    return fits


def _fit_flat(specs: Sequence[OfArray], centred: bool) -> list[Fit]:
    """Return the fits of full weights to a Dask array, all of them to coordinates that are computed once."""
    from ..fitting import ChunkedDesign, LazySamples

    array = specs[0][0]
    with np.errstate(over="ignore", invalid="ignore"):
        span = SampleSpan.of(ChunkedDesign(LazySamples.of(array.X)), centred)
        readings = [spec.reading() for _, spec in specs]
        samples = [MemorySamples(span.coordinates, reading.rows) for reading in readings]
        moments = [own.first_pass(how.weights, how.signs, centred) for own, how in zip(samples, readings, strict=True)]
    checked_in = working_dtype(array.dtype)
    if not all(in_range(one.mean_square, checked_in, len(own)) for one, own in zip(moments, samples, strict=True)):
        return [fit_binary(array, spec) for _, spec in specs]  # handles or reports the problem
    fits = fit_specs(MemoryArray(span.coordinates), [spec for _, spec in specs], 1, "host")
    dense = span.outside(np.stack([fit.weight.to_dense() for fit in fits]))
    full, shape = FORMATS["full"], array.sample_shape
    return [
        replace(fit, weight=full.from_tensorly(weight.reshape(shape), shape), intercept=fit.intercept - float(less))
        for fit, weight, less in zip(fits, dense, dense @ span.mean, strict=True)
    ]


def _by_array(arrays: Sequence[SampleArray]) -> list[list[int]]:
    """Return the indices of arrays that are the same."""
    same: dict[Any, list[int]] = {}
    for number, array in enumerate(arrays):
        same.setdefault(array.X.name if array.is_lazy else id(array.X), []).append(number)
    return list(same.values())


def _distinct_problems(specs: Sequence[FitSpec], sources: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return one spec per distinct set of signed, weighted samples of one source, and the set of each spec."""
    known: dict[tuple[Any, ...], int] = {}
    first: list[int] = []
    sets: list[int] = []
    for index, (spec, source) in enumerate(zip(specs, sources, strict=True)):
        rows = b"" if spec.problem.rows is None else spec.problem.rows.tobytes()
        key = source, rows, spec.problem.signs.tobytes(), spec.shares.tobytes()
        if key not in known:
            known[key] = len(first)
            first.append(index)
        sets.append(known[key])
    return first, sets


def _reordered(spec: FitSpec, rows: Array) -> FitSpec:
    """Return the spec with its rows, so far in ascending order, in another order."""
    problem = spec.problem
    order = rows if problem.rows is None else np.searchsorted(problem.rows, rows)
    return replace(spec, problem=replace(problem, rows=rows, signs=problem.signs[order]), shares=spec.shares[order])


@cache
def _threadpools() -> ThreadpoolController:
    return ThreadpoolController()  # finding the libraries takes milliseconds, so it is cached


def available_threads() -> int:
    """Return the number of threads that BLAS may use, which reflects the user's settings and joblib's."""
    of_blas = _blas_threads()
    return of_blas if of_blas == 1 else min(of_blas or cpu_count(), cpu_count())


def _blas_threads() -> int:
    """Return the number of threads that BLAS uses; 0 if there is none that can be asked."""
    libraries = _threadpools().lib_controllers
    return max((library.num_threads for library in libraries if library.user_api == "blas"), default=0)


class _OneBlasThread(UsedByThreads):
    """Limit BLAS to one thread from the first of several overlapping fits to enter to the last one to leave."""

    def __init__(self) -> None:
        super().__init__()
        self._threads: list[tuple[Any, int]] = []  # of each library, before

    def _begin(self) -> None:
        libraries = [library for library in _threadpools().lib_controllers if library.user_api == "blas"]
        self._threads = [(library, library.num_threads) for library in libraries if library.num_threads > 1]
        for library, _ in self._threads:
            _set_threads(library, 1)

    def _end(self) -> None:
        for library, threads in self._threads:
            _set_threads(library, threads)


def _set_threads(library: Any, threads: int) -> None:
    """Set the number of threads of a library, which threadpoolctl 3.8 lets no thread do after another one."""
    heed_all = getattr(library, "clear_controlling_thread", lambda force: None)
    heed_all(force=True)
    library.set_num_threads(threads)
    heed_all(force=True)


one_blas_thread = _OneBlasThread()
