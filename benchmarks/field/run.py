"""Run the missing rows, each in a process of its own that is ended when its time is up."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from benchmarks.probabilities import calibration_error
from tensormargin.runtime import software_versions

from .contenders import IMPORTED, OURS, PACKAGES, WITH_PROBABILITIES, fitted
from .rows import DONE, SLOW, UNSUITABLE, Row, RowFile, as_hits, stopped
from .tasks import Split, loaded, named, some_rows

_NAN = float("nan")
SMALLEST = 1e-3
"""Smallest probability in a log loss: trees give some classes none at all, which would be an infinite loss."""
_WARM_UP = 4  # training samples of each class, and test samples, of a fit that is not timed
_LEAVING = 10.0  # seconds that a process has after its result, to clean up


@dataclass(frozen=True)
class Job:
    """One method on one split of a task."""

    task: str
    method: str
    seed: int
    repeat: int
    fold: int
    repeats: int

    @property
    def key(self) -> tuple[Any, ...]:
        """What identifies the row of this job."""
        return self.task, self.method, self.seed, self.repeat, self.fold

    @property
    def split(self) -> Split:
        """The train-test split."""
        return next(
            split
            for split in named(self.task).splits(self.repeats, self.seed)
            if (split.repeat, split.fold) == (self.repeat, self.fold)
        )


def all_jobs(tasks: Sequence[str], methods: Sequence[str], repeats: int, seed: int) -> list[Job]:
    """Return the jobs of all tasks, splits and methods; the first repeats of all tasks come first.

    Tasks are skipped if the library that ships them is not installed.
    """
    jobs = []
    for task in tasks:
        try:
            splits = list(named(task).splits(repeats, seed))
        except ImportError as error:
            print(f"{task} is skipped: {error}", file=sys.stderr)
            continue
        jobs += [Job(task, method, seed, split.repeat, split.fold, repeats) for split in splits for method in methods]
    return sorted(jobs, key=lambda job: job.repeat)


def warm_up(job: Job) -> None:
    """Fit a method to a few samples of a job, so that no import and no compilation is in the time of the job."""
    task, split = named(job.task), job.split
    bunch = loaded(task)
    X, y, groups = bunch.data, bunch.target, bunch.get("groups")
    each = min(_WARM_UP, np.unique(y[split.train], return_counts=True)[1].min())
    rows = some_rows(split.train, y, groups, each, np.random.RandomState(job.seed))
    with warnings.catch_warnings(), suppress(Exception):  # some methods cannot take so few, but have what they need
        warnings.simplefilter("ignore")
        model, _ = fitted(job.method, task, X[rows], y[rows], None if groups is None else groups[rows], job.seed)
        model.predict(X[split.test[:_WARM_UP]])


def result(job: Job, fit: Callable[..., tuple[Any, dict[str, Any]]] = fitted) -> Row:
    """Return the row of a job; ``fit`` takes what `fitted` takes."""
    task, split = named(job.task), job.split
    bunch = loaded(task)
    X, y, groups = bunch.data, bunch.target, bunch.get("groups")
    own = None if groups is None else groups[split.train]
    has_probabilities = job.method in WITH_PROBABILITIES
    began, processor = time.perf_counter(), time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fits that do not converge count too
            model, chosen = fit(job.method, task, X[split.train], y[split.train], own, job.seed)
            predicted = model.predict(X[split.test])
            seconds, processor = time.perf_counter() - began, time.process_time() - processor
            scores = [score(y[split.test], predicted) for score in (accuracy_score, balanced_accuracy_score)]
            certain = _of_probabilities(model, X[split.test], y[split.test]) if has_probabilities else {}
    except ValueError as error:  # other packages refuse some samples, such as matrices that are not definite
        if job.method == OURS:
            raise
        return _without_result(job, split, UNSUITABLE, 0.0, str(error))
    return Row(
        **_identity(job, split),
        status=DONE,
        accuracy=float(scores[0]),
        balanced_accuracy=float(scores[1]),
        seconds=round(seconds, 2),
        processor_seconds=round(processor, 2),
        chosen=json.dumps({name: _plain(value) for name, value in chosen.items()}),
        hits=as_hits(predicted == y[split.test]),
        **certain,
    )


def _of_probabilities(model: Any, X: Any, y: Any) -> dict[str, float]:
    """Return the log loss and the calibration error of class probabilities."""
    probabilities = np.asarray(model.predict_proba(X), np.float64)
    own = probabilities[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    right = model.classes_[probabilities.argmax(axis=1)] == y
    return {
        "log_loss": float(-np.log(np.maximum(own, SMALLEST)).mean()),
        "calibration_error": float(calibration_error(probabilities.max(axis=1), right)) / 100,
    }


def _plain(value: Any) -> Any:
    """Return a hyperparameter as JSON knows it."""
    if isinstance(value, np.generic):
        value = value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else " ".join(str(value).split())


def _identity(job: Job, split: Split) -> dict[str, Any]:
    bunch = loaded(named(job.task))
    return {
        "samples": "×".join(map(str, bunch.data.shape)),
        "classes": len(np.unique(bunch.target)),
        "n_folds": split.n_folds,
        **{"task": job.task, "repeat": job.repeat, "fold": job.fold, "method": job.method, "seed": job.seed},
        **{"n_train": len(split.train), "n_test": len(split.test), "versions": json.dumps(_versions(job.method))},
    }


def _versions(method: str) -> dict[str, str]:
    versions = software_versions()
    for package in PACKAGES.get(method, ()):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def _without_result(job: Job, split: Split, status: str, seconds: float, why: str) -> Row:
    nothing = {"accuracy": _NAN, "balanced_accuracy": _NAN, "processor_seconds": _NAN, "hits": ""}
    return Row(**_identity(job, split), **nothing, status=status, seconds=seconds, chosen=why)


def _send(job: Job, pipe: Any, limit: float) -> None:
    """Send the row of a job, or the error; runs in a process of its own, which the limit ends."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    try:
        signal.setitimer(signal.ITIMER_PROF, limit)  # of processor time, which does not depend on what else is running
        warm_up(job)
        signal.setitimer(signal.ITIMER_PROF, limit)
        pipe.send(result(job))
    except Exception as error:  # noqa: BLE001 - an error of one job must not end the others
        pipe.send(f"{type(error).__name__}: {error}")


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def limited(job: Job, limit: float) -> Row | str:
    """Return the row of a job ("slow" if it takes more than so many seconds of processor time), or an error message."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__, *IMPORTED])
    here, there = processes.Pipe(duplex=False)
    process = processes.Process(target=_send, args=(job, there, limit), daemon=True)
    process.start()
    there.close()
    try:
        return here.recv()
    except EOFError:
        process.join()
        if process.exitcode == -signal.SIGPROF:
            return _without_result(job, job.split, SLOW, limit, f"over {limit:g} s of processor time")
        return f"the process ended with exit status {process.exitcode}, perhaps for want of memory"
    finally:
        process.join(_LEAVING)
        process.kill()
        process.join()


def go(jobs: Sequence[Job], store: RowFile, n_jobs: int, limit: float, redo: bool = False) -> Iterator[Row | str]:
    """Run the jobs that have no row yet, store their rows, and yield these or messages about errors.

    Once a method was too slow on a split of a task, or cannot take its samples, its other splits are skipped.
    """
    rows = [] if redo else store.read()
    done = {row.key for row in rows if row.status == DONE}
    over = stopped(rows, limit)
    waiting = [job for job in jobs if job.key not in done]
    running: dict[Future[Row | str], Job] = {}
    with ThreadPoolExecutor(n_jobs) as pool:
        while waiting or running:
            waiting = [job for job in waiting if (job.task, job.method) not in over]
            while waiting and len(running) < n_jobs:
                job = waiting.pop(0)
                running[pool.submit(limited, job, limit)] = job
            for future in wait(running, return_when=FIRST_COMPLETED).done if running else ():
                job, found = running.pop(future), future.result()
                if isinstance(found, Row):
                    store.add(found)
                    over |= stopped([found], limit)
                    yield found
                else:
                    yield f"{job.task}, {job.method}, repeat {job.repeat}, fold {job.fold}: {found}"
