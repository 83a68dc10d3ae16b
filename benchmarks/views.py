"""Fits of several views against the fits of the same views one by one, and the memory that they take.

``python -m benchmarks.views`` prints one line per case: the processor time of the fit to all views divided by the sum
of those to each view, and the peak of the memory allocated during the fit divided by the size of the samples. It fails
if one of the ratios of times exceeds `BOUND`, or a peak `PEAK` for samples that need no conversion.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator

import numpy as np

from tensormargin import TensorMarginClassifier, Views

BOUND = 1.5
PEAK = 0.75
REPEATS = 3
CASES: dict[str, tuple[int, dict[str, tuple[int, ...]]]] = {
    "60 x 8x20 and 6x9": (60, {"a": (8, 20), "b": (6, 9)}),
    "60 x 8x20 and 5 covariates": (60, {"a": (8, 20), "b": (5,)}),
    "200 x 60x60 and 40x50": (200, {"a": (60, 60), "b": (40, 50)}),
    "300 x 10x12x14 and 20x30": (300, {"a": (10, 12, 14), "b": (20, 30)}),
    "2000 x 20x20 and 16x16": (2000, {"a": (20, 20), "b": (16, 16)}),
    "3000 x 28x28 and 10 covariates": (3000, {"a": (28, 28), "b": (10,)}),
}
WEIGHTS = (("cp", 1), ("tucker", 2))
HARD_CASES: dict[str, tuple[int, dict[str, tuple[int, ...]], tuple[str, int | None]]] = {
    "60 x 6x7x8 and 5x6x4": (60, {"a": (6, 7, 8), "b": (5, 6, 4)}, ("cp", 2)),
    "300 x 10x12x14 and 8x9x10": (300, {"a": (10, 12, 14), "b": (8, 9, 10)}, ("cp", 2)),
    "60 x 8x20 and a vector of 2000": (60, {"a": (8, 20), "b": (2000,)}, ("cp", 1)),
    "200 x 20x20 and a vector of 1000": (200, {"a": (20, 20), "b": (1000,)}, ("cp", 1)),
    "300 x 10x12x14 and 3000": (300, {"a": (10, 12, 14), "b": (3000,)}, ("tucker", 2)),
    "200 x 60x60 and a vector of 5000": (200, {"a": (60, 60), "b": (5000,)}, ("cp", 1)),
    "2000 x vectors of 300 and 300": (2000, {"a": (300,), "b": (300,)}, ("full", None)),
    "1000 x 20x20 and 20x20": (1000, {"a": (20, 20), "b": (20, 20)}, ("full", None)),
    "150 x 60x60 and 40x50": (150, {"a": (60, 60), "b": (40, 50)}, ("full", None)),
}
"""Cases that are harder than most: full weights of long vectors, of two wide views, and CP weights of higher order."""


def planted(n_samples: int, shapes: dict[str, tuple[int, ...]], strength: float = 2.0) -> tuple[Views, np.ndarray]:
    """Return float32 samples whose classes differ by a rank-one tensor in every view."""
    rng, y, views = np.random.RandomState(0), np.arange(n_samples) % 2, {}
    for name, shape in shapes.items():
        signal = np.ones(())
        for size in shape:
            signal = np.multiply.outer(signal, rng.standard_normal(size))
        signal *= strength / np.linalg.norm(signal)
        noise = rng.standard_normal((n_samples, *shape))
        views[name] = (noise + np.multiply.outer(2.0 * y - 1.0, signal)).astype(np.float32)
    return Views(views), y


def seconds(fit: Callable[[], object]) -> float:
    """Return the least processor time of a few runs."""
    times = []
    for _ in range(REPEATS):
        began = time.process_time()
        fit()
        times.append(time.process_time() - began)
    return min(times)


def peak(fit: Callable[[], object]) -> int:
    """Return the most memory that a run has allocated."""
    tracemalloc.start()
    fit()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def every_case() -> Iterator[tuple[str, int, dict[str, tuple[int, ...]], tuple[str, int | None]]]:
    """Yield the name, the number of samples, the shapes and the weights of all cases."""
    for case, (n_samples, shapes) in CASES.items():
        for weights in WEIGHTS:
            yield case, n_samples, shapes, weights
    for case, (n_samples, shapes, weights) in HARD_CASES.items():
        yield case, n_samples, shapes, weights


def main() -> int:
    """Print all ratios; return 1 if one is too large."""
    failed, ratios = False, []
    print(f"{'samples':<34}{'weights':<12}{'all views':>12}{'one by one':>12}{'ratio':>8}")
    for case, n_samples, shapes, (decomposition, rank) in every_case():
        X, y = planted(n_samples, shapes)
        model = TensorMarginClassifier(decomposition, rank=rank)
        together = seconds(lambda m=model, X=X, y=y: m.fit(X, y))
        alone = sum(seconds(lambda m=model, X=X[name], y=y: m.fit(X, y)) for name in X.names)
        ratios.append(together / alone)
        times = f"{1e3 * together:>9.1f} ms{1e3 * alone:>9.1f} ms{together / alone:>8.2f}"
        note = f"  above {BOUND}" if ratios[-1] > BOUND else ""
        print(f"{case:<34}{f'{decomposition} {rank}':<12}{times}{note}", flush=True)
    above = sum(ratio > BOUND for ratio in ratios)
    print(f"mean ratio {np.mean(ratios):.2f}, largest {max(ratios):.2f}; {above} of {len(ratios)} above {BOUND}")
    failed |= above > 0
    X, y = planted(200, {"a": (90, 100), "b": (30, 40, 6)})
    for decomposition, rank in (("full", None), *WEIGHTS):
        model = TensorMarginClassifier(decomposition, rank=rank)
        share = peak(lambda m=model, X=X, y=y: m.fit(X, y)) / X.nbytes
        failed |= share > PEAK
        print(f"memory, {X.nbytes / 2**20:.0f} MB of float32, {decomposition}: {share:.2f} times the samples")
    return int(failed)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.exit(main())
