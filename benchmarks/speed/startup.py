"""Startup cost of a process: imports, and loading of compiled code."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

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


def measure_startup(runs: int = 7) -> dict[str, tuple[float, float, float]]:
    """Return seconds, ratio (or difference) and bound by name: medians over fresh processes, one after the other."""
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
        "import tensormargin": (package, package / svm, 1.3),
        "import tensormargin.estimators": (estimator, estimator / svm, 1.3),
        "first fit less a later one": (float(first), float(first - np.median(warm)), 1.0),
    }


def _run(code: str) -> list[float]:
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [float(number) for number in answer.stdout.split()]
