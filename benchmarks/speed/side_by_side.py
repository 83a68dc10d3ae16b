"""Fits against LinearSVC in one process, one after the other in each round, by processor time on one core."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from tensormargin import TensorMarginClassifier

Measured = dict[str, tuple[float, float, float]]
"""Seconds, ratio to the reference, and bound of the ratio, by name."""

Fits = dict[str, tuple[Callable[[], object], float]]
"""What is timed, and the bound of its ratio to the first one, by name."""

SMALL = {
    "full": ("full", None, 0.7),
    "rank 1": ("cp", 1, 1.0),
    "CP, rank 2": ("cp", 2, 1.0),
    "Tensor-Train, rank 2": ("tt", 2, 1.0),
    "Tucker, rank 2": ("tucker", 2, 1.5),
}
"""Decomposition, rank, and largest ratio."""


def measure_digits(rounds: int = 41) -> Measured:
    """Small fits: digits 3 against 8, pixels in [0, 1], lambda = 100 without margin terms, not scale-free."""
    images, labels = load_digits(return_X_y=True)
    rows = np.isin(labels, (3, 8))
    X, y = images[rows].reshape(-1, 8, 8) / 16.0, labels[rows]
    fits: Fits = {"LinearSVC": (_linear_svc(X, y, 100.0), np.inf)}
    for name, (decomposition, rank, bound) in SMALL.items():
        fits[name] = (_ours(X, y, decomposition, rank, lam=100.0, mu=0.0), bound)
    return medians(fits, rounds)


def medians(fits: Fits, rounds: int) -> Measured:
    """Return the median processor time of each, over rounds through all of them after a warm-up."""
    taken: dict[str, list[float]] = {name: [] for name in fits}
    with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
        for number in range(rounds + 1):
            for name, (fit, _) in fits.items():
                began = time.process_time()
                fit()
                if number > 0:  # the first one compiles
                    taken[name].append(time.process_time() - began)
    seconds = {name: float(np.median(own)) for name, own in taken.items()}
    unit = next(iter(seconds.values()))
    return {name: (own, own / unit, fits[name][1]) for name, own in seconds.items()}


def _linear_svc(X: np.ndarray, y: np.ndarray, lam: float) -> Callable[[], object]:
    model = LinearSVC(loss="hinge", C=lam / len(y), random_state=0)
    return partial(model.fit, X.reshape(len(X), -1), y)


def _ours(
    X: np.ndarray, y: np.ndarray, decomposition: str, rank: object, lam: float, mu: float
) -> Callable[[], object]:
    settings = {"lam": lam, "mu1": mu, "mu2": mu, "scale_free": False}
    return lambda: TensorMarginClassifier(decomposition, rank, **settings).fit(X, y)
