"""Startup cost of a process: imports, loading of compiled code, commands that only read a model, and a small fit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from tensormargin import TensorMarginClassifier, TensorScaler, save_model
from tensormargin.selection import auto_model

LARGEST_RATIO = 1.3
LARGEST_RATIO_OF_A_FIT = 3.0

_IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
_FITS = """
import time
import numpy as np
from tensormargin import TensorMarginClassifier
X, y = np.random.RandomState(0).rand(400, 12, 12), np.arange(400) % 2
for _ in range(4):
    t = time.perf_counter()
    TensorMarginClassifier("cp").fit(X, y)
    print(time.perf_counter() - t)
"""
_COMMAND = "from tensormargin.cli import main; main()"  # as in the installed script
_FIT = "fit digits --decomposition cp --rank 1 --folds 2 --outer-folds 0 --no-report --fresh"
_REFERENCE = "process of import sklearn.svm"


def measure_startup(runs: int = 7) -> dict[str, tuple[float, float, float]]:
    """Return seconds, ratio (or difference) and bound by name: medians over fresh processes, one after the other."""
    return {**measure_imports(runs), **measure_commands(runs)}


def measure_imports(runs: int = 7) -> dict[str, tuple[float, float, float]]:
    """Return the same for imports, and for the first fit of a process compared with later ones."""
    _run(_FITS)  # fills the compilation cache
    packages = ("sklearn.svm", "tensormargin", "tensormargin.estimators")
    imports = {name: [] for name in packages}
    fits = []
    for _ in range(runs):
        for name in packages:
            imports[name] += _run(_IMPORT.format(name))
        fits.append(_run(_FITS))
    svm, package, estimator = (float(np.median(imports[name])) for name in packages)
    first, *warm = np.median(fits, axis=0)
    return {
        "import sklearn.svm": (svm, 1.0, np.inf),
        "import tensormargin": (package, package / svm, LARGEST_RATIO),
        "import tensormargin.estimators": (estimator, estimator / svm, LARGEST_RATIO),
        "first fit less a later one": (float(first), float(first - np.median(warm)), 1.0),
    }


def measure_commands(runs: int = 7) -> dict[str, tuple[float, float, float]]:
    """Return the same for commands: processor time of whole processes, which others disturb less."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        commands = {_REFERENCE: ["import sklearn.svm"]}
        for kind, model in _write_models(folder).items():
            predict = ["predict", model, str(folder / "data.npz"), "-o", str(folder / "predictions.csv")]
            commands[f"predict, {kind}"] = [_COMMAND, *predict]
            commands[f"inspect, {kind}"] = [_COMMAND, "inspect", model]
        commands[_FIT] = [_COMMAND, *_FIT.split(), "-o", str(folder / "digits.skops")]
        for arguments in commands.values():
            _processor_seconds(arguments)  # fills the caches of bytecode and of files
        times = {name: [] for name in commands}
        for _ in range(runs):
            for name, arguments in commands.items():
                times[name].append(_processor_seconds(arguments))
    seconds = {name: float(np.median(values)) for name, values in times.items()}
    svm = seconds.pop(_REFERENCE)
    bounds = dict.fromkeys(seconds, LARGEST_RATIO) | {_FIT: LARGEST_RATIO_OF_A_FIT}
    return {_REFERENCE: (svm, 1.0, np.inf), **{name: (s, s / svm, bounds[name]) for name, s in seconds.items()}}


def _write_models(folder: Path) -> dict[str, str]:
    """Write samples, and models of rank one fitted to them; return the paths of the models by kind."""
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], 20)
    X = rng.standard_normal((60, 6, 20))
    for row, label in enumerate("abc"):
        X[y == label, row] += 1.0
    np.savez(folder / "data.npz", X=X, y=y)
    rank_one = TensorMarginClassifier("cp", 1)
    models = {
        "classifier": rank_one.fit(X, y),
        "pipeline": make_pipeline(TensorScaler(), clone(rank_one)).fit(X, y),
        "search": auto_model(decompositions=("cp",), ranks=(1,)).fit(X, y),
    }
    for kind, model in models.items():
        save_model(folder / f"{kind}.skops", model)
    return {kind: str(folder / f"{kind}.skops") for kind in models}


def _processor_seconds(arguments: list[str]) -> float:
    before = os.times()
    subprocess.run([sys.executable, "-c", *arguments], env=_environment(), stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _environment() -> dict[str, str]:
    """Return the environment without the variable that forbids bytecode files, which an installed package has."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _run(code: str) -> list[float]:
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [float(number) for number in answer.stdout.split()]
