"""Where binary problems are fitted: one after the other or in threads here, or as one batch on a device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from threading import Lock
from typing import Any

from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from threadpoolctl import ThreadpoolController

from .._namespace import has_float64, is_foreign, is_lazy, on_cpu
from ..alternate import Fit
from ..threads import worker_threads
from ._binary import Problem, fit_problem

PLACES = ("auto", "host", "device")


def fit_problems(X: Any, problems: Sequence[Problem], n_jobs: int | None, solver: str) -> list[Fit]:
    """Fit binary problems that use parts of the same samples."""
    together = _as_batch(X, problems, solver) if is_foreign(X) else []
    alone = [k for k in range(len(problems)) if k not in together]
    threads = _available_threads()
    # The workers of a cluster, or the device, are busy with one problem at a time.
    at_once = 1 if is_lazy(X) or is_foreign(X) else min(effective_n_jobs(n_jobs), len(problems))
    with worker_threads(threads if at_once == 1 else 1), _one_blas_thread:
        fits = _fit_batches(X, problems, together, solver) if together else {}
        jobs = (delayed(fit_problem)(X, problems[k]) for k in alone)
        fits.update(zip(alone, Parallel(n_jobs=at_once, prefer="threads")(jobs), strict=True))
    return [fits[k] for k in range(len(problems))]


def _fit_batches(X: Any, problems: Sequence[Problem], numbers: list[int], solver: str) -> dict[int, Fit]:
    """Fit the problems of these numbers, those with an intercept as one batch and those without as another."""
    from ._together import fit_together

    fits: dict[int, Fit] = {}
    for centred in (True, False):
        batch = [k for k in numbers if problems[k].settings.fit_intercept == centred]
        if batch:
            fits.update(zip(batch, fit_together(X, [problems[k] for k in batch], solver), strict=True))
    return fits


def _as_batch(X: Any, problems: Sequence[Problem], solver: str) -> list[int]:
    """Return the numbers of the problems that are fitted in lockstep.

    One alone is better off without: it begins on some of the samples (`tensormargin.coarse`). A full weight with more
    entries than there are samples has a Gram matrix that is far smaller than its design. A device without float64
    solves nothing.
    """
    if not has_float64(X) or (solver != "device" and on_cpu(X)):
        return []
    length, *sizes = (int(size) for size in X.shape)
    numbers = [
        k
        for k, problem in enumerate(problems)
        if problem.settings.format.name != "full"
        or prod(sizes) <= (length if problem.rows is None else len(problem.rows))
    ]
    several = sum(problems[k].settings.n_init for k in numbers) > 1
    return numbers if several or solver == "device" else []


@cache
def _threadpools() -> ThreadpoolController:
    return ThreadpoolController()  # finding the libraries takes milliseconds, so only once


def _available_threads() -> int:
    """Return as many threads as BLAS may use here: that follows from the user's settings and from joblib's."""
    of_blas = [library["num_threads"] for library in _threadpools().info() if library["user_api"] == "blas"]
    return min(max(of_blas, default=cpu_count()), cpu_count())


class _OneBlasThread:
    """Keep BLAS to one thread while `tensormargin.threads` share out the samples.

    The limit is the process's, and fits may overlap: the first one in sets it, the last one out lifts it.
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


_one_blas_thread = _OneBlasThread()
