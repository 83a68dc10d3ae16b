"""Checkpoints: runs that are killed at random moments and resumed, and units whose files are damaged."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from campaigns.files import DAMAGES
from campaigns.outcome import Outcome
from tensormargin import Checkpoint, TensorMarginClassifierCV, TensorScaler, nested_evaluation, permutation_test
from tensormargin.data import checkpoints
from tensormargin.evaluation import CompareSettings, compare

KILLS = 3  # of one run, at most
PATIENCE = 60.0  # seconds until a run must have ended
ROOT = Path(__file__).parents[1]


def samples_of(problem: int) -> tuple[Any, Any]:
    """Return random samples of two classes."""
    rng, y = np.random.default_rng(problem), np.arange(24) % 2
    return rng.normal(size=(24, 3, 4)) + 0.7 * y[:, None, None], y


def _search(**options: Any) -> TensorMarginClassifierCV:
    settings = {"decompositions": ("full", "cp"), "ranks": (1,), "lams": (0.1, 1), "mus": (0, 1), "cv": 2}
    return TensorMarginClassifierCV(**{**settings, "random_state": 0, **options})


def searched(problem: int, **running: Any) -> list[Any]:
    """Return scores, choice and weight of a search."""
    model = _search(cv=4).fit(*samples_of(problem), **running)
    return [model.cv_results_["mean_test_score"], sorted(model.best_params_.items()), model.coef_]


def evaluated(problem: int, **running: Any) -> list[Any]:
    """Return the predictions of a nested evaluation, whose searches keep units of their own."""
    model = _search(preparation=[None, TensorScaler("global")])
    nested = nested_evaluation(model, *samples_of(problem), cv=3, **running)
    return [nested.predicted, nested.probabilities, nested.reference_predicted, nested.matched_predicted]


def permuted(problem: int, **running: Any) -> list[Any]:
    """Return the scores of a permutation test."""
    model = _search(decompositions=("full",), lams=(1,))
    test = permutation_test(model, *samples_of(problem), cv=2, n_permutations=15, random_state=0, **running)
    return [test.score, test.permuted]


def compared(problem: int, **running: Any) -> list[Any]:
    """Return the rows of a comparison."""
    settings = CompareSettings(("SVM", "STM", "LinearSVC"), repeats=3, lam_grid=(0.1, 1.0), folds=2)
    rows = sorted(compare(*samples_of(problem), settings, **running), key=lambda row: (row.method, row.repeat))
    return [[row.method, row.repeat, row.accuracy, row.predicted] for row in rows]


COMPUTATIONS: dict[str, Callable[..., list[Any]]] = {
    function.__name__: function for function in (searched, evaluated, permuted, compared)
}


def result(name: str, problem: int, **running: Any) -> str:
    """Return a digest of what a computation has found."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)  # as of work that cannot be kept
        found = COMPUTATIONS[name](problem, **running)
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        return hashlib.sha256(repr(found).encode()).hexdigest()


# ---- killed runs ----


def main(name: str, problem: str, folder: str) -> None:
    """Run a computation with a checkpoint, which writes every unit at once, in a process that may be killed."""
    vars(checkpoints).update(_SECONDS=0.0, _SHARE=0.0)
    result(name, 0)  # loads what it needs
    checkpoint = Checkpoint(folder)
    print("begun", flush=True)
    print(result(name, int(problem), checkpoint=checkpoint), int(checkpoint.resumed), flush=True)
    checkpoint.remove()


def killed_runs(number: int, seed: int) -> Outcome:
    """Return whether runs that are killed, and then resumed, give the result of an uninterrupted run."""
    outcome = Outcome("killed and resumed runs")
    for case in range(number):
        rng = np.random.default_rng([seed, case])
        name, problem = list(COMPUTATIONS)[case % len(COMPUTATIONS)], int(rng.integers(2**31))
        result(name, problem)  # loads what it needs
        began = time.perf_counter()
        expected = result(name, problem)
        took = time.perf_counter() - began
        with TemporaryDirectory() as parent:
            folder = Path(parent)
            (folder / "photos").mkdir()
            (folder / "photos" / "1.jpg").touch()
            os.utime(folder / "photos", (0, 0))  # long ago, but not of a checkpoint
            ends = [_run(name, problem, folder, float(rng.uniform(0, 2 * took))) for _ in range(KILLS)]
            ends.append(_run(name, problem, folder))
            left = sorted(path.name for path in folder.rglob("*"))
        faults = [said for _, _, said in ends if said]
        faults += [f"another result: {digest}" for digest, _, _ in ends if digest not in ("", expected)]
        faults += [] if ends[-1][0] else ["no result"]
        faults += [] if left == ["1.jpg", "photos"] else [f"left {left}"]
        outcome.counts["kills"] += sum(not digest for digest, _, _ in ends[:KILLS])
        outcome.counts["runs that found units of a killed one"] += sum(resumed == "1" for _, resumed, _ in ends)
        outcome.add(f"seed {seed}, case {case}: {name}", faults)
    return outcome


def _run(name: str, problem: int, folder: Path, wait: float | None = None) -> tuple[str, str, str]:
    """Run `main` in a process, killed after a while; return result, whether it found units, and errors."""
    command = [sys.executable, "-m", "campaigns.checkpoints", name, str(problem), str(folder)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True, cwd=ROOT, start_new_session=True) as process:  # type: ignore[call-overload]
        begun = process.stdout.readline()
        if wait is not None and begun:
            time.sleep(wait)
            process.kill()
        try:
            out, said = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            return "", "0", f"did not end within {PATIENCE:g} s"
    digest, _, resumed = out.strip().partition(" ")
    return digest, resumed, "" if process.returncode in (0, -9) else said[-400:]


# ---- damaged files ----


class _StoppedError(Exception):
    """Raised in the middle of a computation."""


def _stop_halfway(done: float, total: float, _: str) -> None:
    if 0 < total <= 2 * done:
        raise _StoppedError


def edit(content: bytes, rng: np.random.Generator) -> bytes:
    """Change a digit: the file stays well-formed."""
    places = [found.start() for found in re.finditer(rb"[0-9]", content)]
    place = places[rng.integers(len(places))] if places else 0
    return content[:place] + str(rng.integers(10)).encode() + content[place + 1 :]


def nest(content: bytes, rng: np.random.Generator) -> bytes:
    """Nest lists or dictionaries very deeply."""
    return (b"[", b'{"a": ')[rng.integers(2)] * 100_000


def empty(content: bytes, rng: np.random.Generator) -> bytes:
    """Remove the content."""
    return b""


def damaged_units(number: int, seed: int) -> Outcome:
    """Return whether a computation gives the same result if files of its checkpoint are damaged."""
    outcome = Outcome("damaged checkpoints")
    damages = (*DAMAGES, edit, edit, edit, nest, empty)
    with TemporaryDirectory() as parent:
        folder, expected = Path(parent), {}
        for name in COMPUTATIONS:
            expected[name] = result(name, seed)
            vars(checkpoints).update(_SECONDS=0.0, _SHARE=0.0)
            try:
                result(name, seed, checkpoint=Checkpoint(folder / name), progress=_stop_halfway)
            except _StoppedError:
                outcome.counts["interrupted computations, the units of which were damaged"] += 1
        for case in range(number):
            rng = np.random.default_rng([seed, case])
            name = list(COMPUTATIONS)[case % len(COMPUTATIONS)]
            copy = shutil.copytree(folder / name, folder / "damaged")
            files = sorted(path for path in copy.rglob("*") if path.is_file())
            done = []
            for path in rng.permutation(np.array(files, object))[: rng.integers(1, 4)]:
                damage = damages[rng.integers(len(damages))]
                other = files[rng.integers(len(files))].read_bytes() if rng.random() < 0.1 else path.read_bytes()
                path.write_bytes(damage(other, rng))
                done.append(f"{path.relative_to(copy)}: {damage.__name__}")
            outcome.add(f"seed {seed}, case {case}: {name}, {', '.join(done)}", _faults(name, seed, copy, expected))
            shutil.rmtree(copy, ignore_errors=True)
    return outcome


def _faults(name: str, problem: int, folder: Path, expected: dict[str, str]) -> list[str]:
    try:
        found = result(name, problem, checkpoint=Checkpoint(folder))
    except Exception as error:  # noqa: BLE001 - any error is a fault
        return [f"{type(error).__name__}: {error}"]
    return [] if found == expected[name] else ["another result"]


if __name__ == "__main__":
    main(*sys.argv[1:])
