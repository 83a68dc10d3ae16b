"""The cases of the suite: data, contenders, and bounds on their ratios."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from tensormargin import datasets

LOW_RANK = ("SPMD-LRT", "HSPMD-LRT", "TuSPMD-LRT")
FLAT = ("LMDM", "SVM")
PEERS = ("LSSTM", "CPRegressor-1", "CPRegressor-2", "TuckerRegressor", "CP_PLSR")


@dataclass(frozen=True)
class Data:
    """Labelled samples, a test set (the same samples if there is none), and lambda and mu of Eq. 7."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    lam: float
    mu: float


@dataclass(frozen=True)
class Case:
    """One table of the suite.

    Attributes
    ----------
    load : callable
        Returns `Data`.
    contenders : tuple of str
        Names in `benchmarks.speed.contenders`.
    references : dict
        For each contender (or "" for all others), the contenders its time is divided by; the fastest counts.
    bounds : dict
        Largest ratio allowed, by contender.
    tucker_shape : tuple of int
        Shape of the samples for Tucker weights, if it differs.
    runs : int
        Largest number of timed fits, whatever the command line asks for.
    size : float
        The quantity that varies within a family of cases.
    needs_data : bool
        Whether TENSORMARGIN_DATA must be set.
    """

    load: Callable[[], Data]
    contenders: tuple[str, ...] = ("LinearSVC", *LOW_RANK, *FLAT)
    references: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"": ("LinearSVC",)})
    bounds: dict[str, float] = field(default_factory=dict)
    tucker_shape: tuple[int, ...] | None = None
    runs: int = 1000
    size: float = 0.0
    needs_data: bool = False


def mnist_pair() -> Data:
    """3 against 8: 11,982 images in [0, 1] as float64, lambda = 100 and mu = 1."""
    return _mnist((3, 8))


def mnist_all_pairs() -> Data:
    """All 60,000 images, ten classes, 45 one-vs-one problems."""
    return _mnist(range(10))


def _mnist(digits: Iterable[int]) -> Data:
    arrays = []
    for part in (datasets.fetch_mnist("train"), datasets.fetch_mnist("test")):
        rows = np.isin(part.target, list(digits))
        arrays += [part.data[rows] / 255.0, part.target[rows]]
    return Data(*arrays, lam=100.0, mu=1.0)


def volumes() -> Data:
    """160 smooth noise volumes of 49x58x47 in float32, a blob in half of them."""
    bunch = datasets.make_fmri_like(160, random_state=0)
    return _by_scale(bunch.data, bunch.target, bunch.data, bunch.target)


def adrenal() -> Data:
    """AdrenalMNIST3D at 64^3: its 1,188 training volumes in float32 (1.2 GB) and its 298 test volumes."""
    bunch = datasets.load_adrenal(64)
    arrays = []
    for part in ("train", "test"):
        rows = bunch.split == part
        images = bunch.data[rows].astype(np.float32)
        images /= 255.0
        arrays += [images, bunch.target[rows]]
    return _by_scale(*arrays)


def eeg() -> Data:
    """61 recordings of 64 electrodes x 64 time points."""
    bunch = datasets.load_eeg()
    return _by_scale(bunch.data, bunch.target, bunch.data, bunch.target)


def noise(n: int, shape: tuple[int, ...], dtype: str = "f4", distance: float = 3.0) -> Data:
    """Unit-variance noise whose class means differ by a tensor of rank two."""
    bunch = datasets.make_low_rank_classes(n, shape, 2, distance, dtype, random_state=0)
    return _by_scale(bunch.data, bunch.target, bunch.data, bunch.target)


def _by_scale(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Data:
    """Return the data with the scale-free default of lambda and mu, converted to numbers for these samples."""
    from tensormargin.fitting import MemorySamples

    n = len(X)
    spread = MemorySamples(X).first_pass(np.full(n, 1 / n), np.ones(n), centred=True).mean_square
    return Data(X, y, X_test, y_test, lam=300.0 / spread, mu=100.0 / spread)


CASES: dict[str, Case] = {
    "mnist": Case(
        mnist_pair,
        ("LinearSVC", "SPMD-LRT", "HSPMD-LRT", "TuSPMD-LRT", "STM", "STuM", "LMDM", "SVM"),
        bounds={"SPMD-LRT": 1.5, "HSPMD-LRT": 2.5, "TuSPMD-LRT": 6, "LMDM": 3},
        tucker_shape=(7, 4, 7, 4),
        needs_data=True,
    ),
    "mnist-45-pairs": Case(
        mnist_all_pairs,
        ("LinearSVC", *LOW_RANK, "LMDM"),
        bounds={"TuSPMD-LRT": 8},
        tucker_shape=(7, 4, 7, 4),
        runs=1,
        needs_data=True,
    ),
    "volumes": Case(volumes, bounds={"SPMD-LRT": 0.5, "HSPMD-LRT": 0.7, "TuSPMD-LRT": 1, "LMDM": 1}),
    "adrenal-64": Case(
        adrenal,
        ("LinearSVC", *LOW_RANK),
        bounds={"SPMD-LRT": 0.5, "HSPMD-LRT": 0.7, "TuSPMD-LRT": 1},
        runs=3,
        needs_data=True,
    ),
    "eeg": Case(eeg, needs_data=True),
    "peers": Case(
        partial(noise, 200, (30, 30, 30), "f8"),
        (*LOW_RANK, *PEERS, "LinearSVC"),
        references={
            "": ("LinearSVC",),
            "SPMD-LRT": ("LSSTM", "CPRegressor-1"),
            "HSPMD-LRT": ("CPRegressor-2",),
            "TuSPMD-LRT": ("TuckerRegressor",),
        },
        bounds={"SPMD-LRT": 0.05, "HSPMD-LRT": 0.05, "TuSPMD-LRT": 0.05},
        runs=3,
    ),
    **{
        f"samples-{n:.0e}".replace("e+0", "e"): Case(
            partial(noise, n, (16, 16)), (*LOW_RANK, "LMDM"), references={}, runs=3, size=n
        )
        for n in (10**3, 10**4, 10**5, 10**6)
    },
    **{
        f"entries-{size}^3": Case(
            partial(noise, 200, (size,) * 3), (*LOW_RANK, "LMDM"), references={}, runs=5, size=size**3
        )
        for size in (8, 16, 32, 64)
    },
    **{
        f"rank-{rank}": Case(
            partial(noise, 2000, (16, 16, 16)), (f"CP-{rank}", f"Tucker-{rank}"), references={}, runs=5, size=rank
        )
        for rank in (1, 2, 4, 8)
    },
}

LARGEST_EXPONENT = {"samples": 1.1}  # growth of the time with the number of samples
LARGEST_EXCESS = 0.01  # of an objective over the converged one, relative
LARGEST_LOSS = 0.002  # of accuracy on MNIST compared with the converged model
