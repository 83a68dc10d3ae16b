"""Processes that are forked while threads fit, search and read: they do the same, with the same result, and end."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import numpy as np
from scipy.io import savemat
from threadpoolctl import threadpool_info

from campaigns.outcome import Outcome
from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV
from tensormargin.io import load_samples
from tensormargin.transformers import Convolutions

PATIENCE = 30  # seconds until a process that does not end counts as one that never will
LATEST = 0.05  # seconds between two forks
SWITCH = 1e-5  # seconds after which another thread gets its turn: more moments at which a fork may come

Work = Callable[[], Any]


def forked_children(number: int, seed: int) -> Outcome:
    """Return how processes end that are forked at random moments, while four threads work."""
    outcome, rng = Outcome("forks"), np.random.default_rng(seed)
    if not hasattr(os, "fork"):
        outcome.note("needs a system that forks")
        return outcome
    with TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of every fork beside threads
        works = _works(Path(name))
        expected = {which: work() for which, work in works.items()}  # all that is used has been imported
        threads, stop = _blas_threads(), threading.Event()
        of_threads = [[works["fit"]], [works["fit"]], [works["fit"]], list(works.values())]
        workers = [threading.Thread(target=_repeat, args=(own, stop)) for own in of_threads]
        for worker in workers:
            worker.start()
        interval = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH)
        try:
            for case in range(number):
                which = list(works)[case % len(works)]
                time.sleep(rng.uniform(0.0, LATEST))
                faults = _faults_of_child(works[which], expected[which], threads)
                outcome.add(f"seed {seed}, case {case}: {which}", faults)
        finally:
            sys.setswitchinterval(interval)
            stop.set()
            for worker in workers:
                worker.join()
        outcome.add(f"seed {seed}: after all forks", _wrong_threads(threads))
    return outcome


def _works(folder: Path) -> dict[str, Work]:
    """Return what threads and forked processes do, by name."""
    rng, y = np.random.default_rng(0), np.arange(60) % 3
    X = rng.normal(size=(60, 6, 12)) + 0.3 * y[:, None, None]
    savemat(folder / "samples.mat", {"X": X, "y": y})  # is read by another process

    def fit() -> Any:
        return TensorMarginClassifier("cp", 1).fit(X, y).coef_

    def search() -> Any:
        ways = [None, Convolutions(84, n_dilations=1)]
        model = TensorMarginClassifierCV(("full",), lams=(1.0,), mus=(1,), cv=2, preparation=ways, random_state=0)
        return model.fit(X, y).cv_results_["mean_test_score"]

    def read() -> Any:
        return load_samples(folder / "samples.mat").data

    return {"fit": fit, "search": search, "read": read}


def _repeat(works: list[Work], stop: threading.Event) -> None:
    """Do one work after another, until told to stop."""
    while not stop.is_set():
        for work in works:
            work()


def _faults_of_child(work: Work, expected: Any, threads: list[int]) -> list[str]:
    """Fork a process that does a work; return what is wrong with its result, or that it did not end."""
    with TemporaryFile("w+", encoding="utf-8") as said:
        process = os.fork()
        if process == 0:
            code = 1
            with suppress(BaseException):
                faulthandler.dump_traceback_later(PATIENCE, exit=True, file=said)
                faults = [
                    *_wrong_threads(threads),
                    *([] if np.allclose(work(), expected, equal_nan=True) else ["another result"]),
                ]
                said.write("; ".join([*faults, *_wrong_threads(threads)]))
                said.flush()
                code = 0
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        said.seek(0)
        text = said.read()
    if code:
        return [f"exit code {code}: {text}"]
    return [text] if text else []


def _blas_threads() -> list[int]:
    """Return the number of threads of each BLAS library."""
    return sorted(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")


def _wrong_threads(expected: list[int]) -> list[str]:
    found = _blas_threads()
    return [] if found == expected else [f"{found} threads of BLAS, not {expected}"]
