"""Fits of many binary problems: one after the other or in threads on the host, or as one batch on a device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from threading import Lock
from typing import Any

from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from threadpoolctl import ThreadpoolController

from ..fitting import Fit, SampleArray, sample_array
from ..runtime import goes_to_cluster, tuning, worker_threads
from .binary_fit import FirstPasses, FitSpec, fit_binary

PLACES = ("auto", "host", "device")


def fit_specs(
    array: SampleArray, specs: Sequence[FitSpec], n_jobs: int | None, solver: str, passes: FirstPasses | None = None
) -> list[Fit]:
    """Return the fits of binary problems that use subsets of the same samples, whose first passes may be kept."""
    batched = _batched(array, specs, solver) if array.fits_in_batches else []
    alone = [k for k in range(len(specs)) if k not in batched]
    threads = available_threads()
    at_once = array.fits_at_once(at_most(n_jobs), len(specs))
    with worker_threads(threads if at_once == 1 else 1), one_blas_thread:
        fits = _fit_batches(array, specs, batched, solver) if batched else {}
        if at_once > 1:
            jobs = (delayed(fit_in_memory)(array.X, specs[k]) for k in alone)
            fits.update(zip(alone, Parallel(n_jobs=at_once, prefer="threads")(jobs), strict=True))
        else:
            fits.update((k, fit_binary(array, specs[k], passes)) for k in alone)
    return [fits[k] for k in range(len(specs))]


def at_most(n_jobs: int | None) -> int | None:
    """Return the number of jobs that pay: threads hinder each other, workers of a cluster do not."""
    return n_jobs if goes_to_cluster() else min(effective_n_jobs(n_jobs), tuning.MOST_THREADS)


def fit_on_arrays(specs: Sequence[tuple[SampleArray, FitSpec]], solver: str) -> list[Fit]:
    """Return the fits of binary problems that use subsets of one array, or of several Dask arrays."""
    array = specs[0][0]
    if not array.is_lazy or len(specs) == 1:
        return fit_specs(array, [spec for _, spec in specs], None, solver)
    from .lazy_fits import fit_lazily

    with worker_threads(available_threads()), one_blas_thread:
        return fit_lazily(specs)


def fit_in_memory(X: Any, spec: FitSpec) -> Fit:
    """Fit one binary problem; the samples are a separate argument, so that joblib recognises them."""
    return fit_binary(sample_array(X), spec)


def _fit_batches(array: SampleArray, specs: Sequence[FitSpec], numbers: list[int], solver: str) -> dict[int, Fit]:
    """Fit the problems with these indices: one batch with an intercept, another one without."""
    if array.is_lazy:
        from .lazy_fits import fit_lazily

        return dict(zip(numbers, fit_lazily([(array, specs[k]) for k in numbers]), strict=True))
    from .batched_fits import fit_batched

    fits: dict[int, Fit] = {}
    for centred in (True, False):
        batch = [k for k in numbers if specs[k].settings.fit_intercept == centred]
        if batch:
            fits.update(zip(batch, fit_batched(array, [specs[k] for k in batch], solver), strict=True))
    return fits


def _batched(array: SampleArray, specs: Sequence[FitSpec], solver: str) -> list[int]:
    """Return the indices of the problems to fit in lockstep.

    A single problem is faster on its own, with a start from some of the samples (`coarse_starts`). So is a full
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


@cache
def _threadpools() -> ThreadpoolController:
    return ThreadpoolController()  # finding the libraries takes milliseconds, so it is cached


def available_threads() -> int:
    """Return the number of threads that BLAS may use, which reflects the user's settings and joblib's."""
    of_blas = [library.num_threads for library in _threadpools().lib_controllers if library.user_api == "blas"]
    return min(max(of_blas, default=cpu_count()), cpu_count())


class _OneBlasThread:
    """Limit BLAS to one thread while `tensormargin.runtime.threads` is in use.

    The limit is global and fits may overlap: the first one to enter sets it, the last one to leave lifts it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._limits: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._limits = _threadpools().limit(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limits.restore_original_limits()


one_blas_thread = _OneBlasThread()
