"""Fits against LinearSVC in one process, one after the other in each round, by processor time on one core."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from tensormargin import TensorMarginClassifier, datasets

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


def measure_large(rounds: int = 5) -> Measured:
    """Large fits: MNIST at lambda = 100; 160 volumes of 49x58x47, of mean squared norm one, at lambda = 1000."""
    measured: Measured = {}
    if "TENSORMARGIN_DATA" in os.environ:
        X, y = _mnist(3, 8)
        fits: Fits = {"MNIST 3-8, LinearSVC": (_linear_svc(X, y, 100.0), np.inf)}
        fits["MNIST 3-8, CP, rank 2"] = (_ours(X, y, "cp", 2, lam=100.0, mu=1.0), 2.5)
        fits["MNIST 3-8, CP, rank 2, no margin terms"] = (_ours(X, y, "cp", 2, lam=100.0, mu=0.0), 2.5)
        measured |= medians(fits, rounds)
        X, y = _mnist(5, 8)
        fits = {"MNIST 5-8, LinearSVC": (_linear_svc(X, y, 100.0), np.inf)}
        fits["MNIST 5-8, LMDM"] = (_ours(X, y, "full", None, lam=100.0, mu=1.0), 2.0)
        measured |= medians(fits, rounds)
    volumes = datasets.make_fmri_like(160, random_state=0)
    X, y = volumes.data - volumes.data.mean(axis=0), volumes.target
    X /= np.sqrt(np.mean(np.sum(X.reshape(160, -1) ** 2, axis=1, dtype=np.float64))).astype(X.dtype)
    fits = {"volumes, LinearSVC": (_linear_svc(X, y, 1000.0), np.inf)}
    for name, mu in (("volumes, Tucker", 1.0), ("volumes, Tucker, no margin terms", 0.0)):
        fits[name] = (_ours(X, y, "tucker", 4, lam=1000.0, mu=mu), 0.5)
    return measured | medians(fits, rounds)


def _mnist(negative: int, positive: int) -> tuple[np.ndarray, np.ndarray]:
    part = datasets.fetch_mnist("train")
    rows = np.isin(part.target, (negative, positive))
    return part.data[rows] / 255.0, part.target[rows]


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
