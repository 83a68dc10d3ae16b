"""Dask workers that are killed at random moments: the answer is that of this machine, or one clear error."""

from __future__ import annotations

import logging
import os
import signal
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from campaigns.outcome import Outcome
from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV, on_cluster
from tensormargin.runtime import tuning

MOST_KILLS = 3  # a job that loses four workers ends the run
LONGEST_WAIT = 1.5  # seconds between two of them


def killed_workers(number: int, seed: int) -> Outcome:
    """Return whether searches survive the death of up to three workers."""
    return _killed(Outcome("killed workers, searches"), search, number, seed)


def killed_lazy_workers(number: int, seed: int) -> Outcome:
    """Return whether fits of Dask arrays survive the death of up to three workers."""
    return _killed(Outcome("killed workers, Dask arrays"), lazy_fit, number, seed)


def _killed(outcome: Outcome, work: Callable[..., Any], number: int, seed: int) -> Outcome:
    try:
        import distributed
    except ImportError:
        outcome.note("needs Dask: pip install 'tensormargin[dask]'")
        return outcome
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    X, y = _samples()
    tuning.LOADED_SHARE = 0.0  # Dask arrays stay where they are
    expected = work(X, y, None)
    for case in range(number):
        rng = np.random.default_rng([seed, case])
        n_workers = int(rng.integers(1, 3))
        with (  # a new one each time, since Dask gives up a worker that is killed while it starts
            distributed.LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None) as cluster,
            distributed.Client(cluster) as client,
        ):
            killer = _Killer(cluster, rng)
            faults = _outcome(work, X, y, client, expected, killer)
        outcome.counts["workers killed"] += killer.killed
        outcome.add(f"seed {seed}, case {case}: {killer.killed} of {n_workers} workers", faults)
    return outcome


class _Killer(threading.Thread):
    """Kills up to three workers at random moments, until it is told to stop."""

    def __init__(self, cluster: Any, rng: np.random.Generator) -> None:
        super().__init__(daemon=True)
        self.cluster, self.rng = cluster, rng
        self.killed, self.stop = 0, threading.Event()

    def run(self) -> None:
        """Wait and kill."""
        for _ in range(int(self.rng.integers(1, MOST_KILLS + 1))):
            if self.stop.wait(self.rng.uniform(0.0, LONGEST_WAIT)):
                return
            while not (processes := self._processes()):
                if self.stop.wait(0.05):
                    return
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(processes[int(self.rng.integers(len(processes)))], signal.SIGKILL)
                self.killed += 1

    def _processes(self) -> list[int]:
        """Return the workers that the scheduler knows; Dask does not replace a worker that dies before it is known."""
        known = set(self.cluster.scheduler.workers)
        return [one.pid for one in list(self.cluster.workers.values()) if one.worker_address in known and one.pid]


def _outcome(work: Callable[..., Any], X: Any, y: Any, client: Any, expected: Any, killer: _Killer) -> list[str]:
    """Return what is wrong with the answer of the workers."""
    killer.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = work(X, y, client)
    except Exception as error:  # noqa: BLE001 - to be counted
        return [f"{type(error).__name__}: {error}"[:300]]
    finally:
        killer.stop.set()
        killer.join()
    fine = all(
        np.allclose(one, other, rtol=1e-6, atol=1e-9, equal_nan=True)
        for one, other in zip(found, expected, strict=True)
    )
    return [] if fine else ["another answer than on this machine"]


def _samples() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    y = np.arange(240) % 2
    return rng.normal(size=(240, 12, 14)) + 0.2 * y[:, None, None], y


def search(X: Any, y: Any, client: Any) -> tuple[Any, ...]:
    """Return the scores and the choice of a search."""
    model = TensorMarginClassifierCV(("cp",), ranks=(1, 2), lams=(0.1, 1.0, 10.0), mus=(0, 1), cv=4, random_state=0)
    if client is None:
        model.fit(X, y)
    else:
        with on_cluster(client, X, timeout=60):  # the worker may be dead already
            model.fit(X, y)
    return model.cv_results_["mean_test_score"], model.best_index_


def lazy_fit(X: Any, y: Any, client: Any) -> tuple[Any, ...]:
    """Return the weight of a fit to a Dask array."""
    import dask.array

    samples = X if client is None else dask.array.from_array(X, chunks=(40, *X.shape[1:]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # equal after any number of sweeps
        model = TensorMarginClassifier("cp", 2, tol=1e-8, max_iter=8).fit(samples, y)
    return model.coef_ / np.abs(model.coef_).max(), model.objective_
