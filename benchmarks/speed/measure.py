"""Measure one contender on one case in this process: ``python -m benchmarks.speed.measure CASE NAME RUNS``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .cases import CASES, Case, Data
from .contenders import accuracy, contender, value

_LONG = 5.0  # seconds; longer fits are timed only once
_TUCKER = ("TuSPMD-LRT", "STuM")


def measure(case: Case, name: str, runs: int) -> dict:
    """Return the times, peak memory, objective and accuracy, and the objective and accuracy after convergence."""
    data = case.load()
    if case.tucker_shape and name in _TUCKER:
        data = replace(data, X=_reshaped(data.X, case), X_test=_reshaped(data.X_test, case))
    fit = contender(name, data)
    read = _median(lambda: data.X.sum(), 5)
    first, model = _timed(fit)  # warm-up: compiles
    before = _memory("VmRSS")
    _reset_peak()
    times = []
    while len(times) < (1 if first > _LONG else min(runs, case.runs)):
        seconds, model = _timed(fit)
        times.append(seconds)
    memory = _memory("VmHWM") - before
    row = {
        "times": times,
        "read_seconds": read,
        "sample_bytes": data.X.nbytes,
        "memory_bytes": memory,
        "sweeps": model.sweeps,
        "objective": value(model, data)[0],
        "accuracy": accuracy(model, data),
    }
    return {**row, **_converged(model.converge, data)}


def _converged(converge: Callable | None, data: Data) -> dict[str, float]:
    """Return the objective and accuracy of the converged model, NaN if there is none."""
    if converge is None:
        return dict.fromkeys(("converged_objective", "converged_scale", "converged_accuracy"), float("nan"))
    model = converge()
    objective, scale = value(model, data)
    return {"converged_objective": objective, "converged_scale": scale, "converged_accuracy": accuracy(model, data)}


def _reshaped(X: np.ndarray, case: Case) -> np.ndarray:
    return X.reshape(len(X), *case.tucker_shape)


def _timed(function: Callable) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = function()
    return time.perf_counter() - began, answer


def _median(function: Callable, runs: int) -> float:
    return float(np.median([_timed(function)[0] for _ in range(runs)]))


def _memory(field: str) -> float:
    """Return a field of the process status in bytes; NaN on systems other than Linux."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return float("nan")
    return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith(field))


def _reset_peak() -> None:
    reset = Path("/proc/self/clear_refs")
    if reset.exists():
        reset.write_text("5", encoding="utf-8")


if __name__ == "__main__":
    try:
        print(json.dumps(measure(CASES[sys.argv[1]], sys.argv[2], int(sys.argv[3]))))
    except ImportError as error:
        print(json.dumps({"missing": error.name}))
