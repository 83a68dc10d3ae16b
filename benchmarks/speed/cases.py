"""The data of every case, its contenders, and the bounds that their ratios have to keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ..mnist import data_folder, read_mnist

LOW_RANK = ("SPMD-LRT", "HSPMD-LRT", "TuSPMD-LRT")
FLAT = ("LMDM", "SVM")
PEERS = ("LSSTM", "CPRegressor-1", "CPRegressor-2", "TuckerRegressor", "CP_PLSR")


@dataclass(frozen=True)
class Data:
    """Samples with labels, fresh ones to score on (the same where there are none), and the strengths of Eq. 7."""

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
        For a contender (or "" for all others) the names of those that its time is divided by; the fastest counts.
    bounds : dict
        The largest ratio allowed.
    tucker_shape : tuple of int
        Shape of the samples for Tucker weights, if it differs.
    runs : int
        Most timed fits, where the command line asks for more.
    size : float
        What the family grows in.
    needs_data : bool
        Whether TENSORMARGIN_DATA has to be set.
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
    images, labels = read_mnist("train")
    test_images, test_labels = read_mnist("t10k")
    pair, test_pair = np.isin(labels, (3, 8)), np.isin(test_labels, (3, 8))
    return Data(
        images[pair] / 255.0, labels[pair], test_images[test_pair] / 255.0, test_labels[test_pair], lam=100.0, mu=1.0
    )


def mnist_all_pairs() -> Data:
    """All 60,000 images, ten classes, 45 one-vs-one problems."""
    images, labels = read_mnist("train")
    test_images, test_labels = read_mnist("t10k")
    return Data(images / 255.0, labels, test_images / 255.0, test_labels, lam=100.0, mu=1.0)


def volumes() -> Data:
    """160 smooth noise volumes of 49x58x47 in float32, a blob in half of them."""
    from scipy.ndimage import gaussian_filter

    rng = np.random.RandomState(0)
    labels = np.arange(160) % 2
    X = np.empty((160, 49, 58, 47), np.float32)
    blob = np.zeros(X.shape[1:])
    blob[20:28, 30:40, 15:25] = 0.05
    for volume, label in zip(X, labels, strict=True):
        volume[:] = gaussian_filter(rng.standard_normal(volume.shape), 1.5) + label * blob
    return _by_scale(X, labels, X, labels)


def adrenal() -> Data:
    """AdrenalMNIST3D at 64^3: its 1,188 training volumes in float32 (1.2 GB) and its 298 test volumes."""
    stored = np.load(data_folder() / "adrenalmnist3d" / "adrenalmnist3d_64.npz")
    X, X_test = (stored[f"{part}_images"].astype(np.float32) for part in ("train", "test"))
    for array in (X, X_test):
        array /= 255.0
    return _by_scale(X, stored["train_labels"][:, 0], X_test, stored["test_labels"][:, 0])


def eeg() -> Data:
    """61 recordings of 64 electrodes x 64 time points."""
    stored = np.load(data_folder() / "eeg_alcoholism" / "eeg_alcoholism_61x64x64.npz")
    return _by_scale(stored["X"], stored["y"], stored["X"], stored["y"])


def noise(n: int, shape: tuple[int, ...], dtype: str = "f4", distance: float = 3.0) -> Data:
    """Make unit noise whose class means differ by a tensor of rank two."""
    rng = np.random.RandomState(0)
    vectors = rng.standard_normal((2, len(shape), max(shape)))
    difference = sum(_outer([vector[:size] for vector, size in zip(one, shape, strict=True)]) for one in vectors)
    difference *= distance / np.linalg.norm(difference)
    labels = np.arange(n) % 2
    X = np.empty((n, *shape), dtype)
    step = max(1, 2**22 // int(np.prod(shape)))
    for start in range(0, n, step):  # piece by piece: a million samples must not be there twice
        part = slice(start, min(start + step, n))
        chunk = rng.standard_normal((part.stop - part.start, *shape))
        chunk[labels[part] == 1] += difference
        X[part] = chunk
    return _by_scale(X, labels, X, labels)


def _outer(vectors: list[np.ndarray]) -> np.ndarray:
    product = np.ones(())
    for vector in vectors:
        product = np.multiply.outer(product, vector)
    return product


def _by_scale(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Data:
    """Use the strengths of the scale-free default, as the numbers that they are for these samples."""
    from tensormargin.samples import Samples

    n = len(X)
    spread = Samples(X).first_pass(np.full(n, 1 / n), np.ones(n), centred=True).mean_square
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

LARGEST_EXPONENT = {"samples": 1.1}  # of the time in the number of samples
LARGEST_EXCESS = 0.01  # of an objective over the converged one, relatively
LARGEST_LOSS = 0.002  # of accuracy on MNIST against the converged model
