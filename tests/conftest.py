"""What several test files share."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def data_folder() -> Path:
    folder = os.environ.get("TENSORMARGIN_DATA")
    if not folder:
        pytest.skip("needs real data: set TENSORMARGIN_DATA to the folder with the data sets")
    return Path(folder)


@pytest.fixture(scope="session")
def mnist(data_folder: Path) -> dict[str, np.ndarray]:
    """The whole of MNIST as uint8, keys X, y, X_test, y_test."""

    def read(name: str, offset: int) -> np.ndarray:
        raw = gzip.decompress((data_folder / "mnist" / f"{name}-ubyte.gz").read_bytes())
        return np.frombuffer(raw, np.uint8, offset=offset)

    return {
        "X": read("train-images-idx3", 16).reshape(-1, 28, 28),
        "y": read("train-labels-idx1", 8),
        "X_test": read("t10k-images-idx3", 16).reshape(-1, 28, 28),
        "y_test": read("t10k-labels-idx1", 8),
    }


def low_rank_classes(seed: int, n: int, shape: tuple[int, ...], delta: float, rank: int = 2):
    """Return (X, t) of unit noise whose class means differ by delta times a tensor of unit norm and this CP rank."""
    rng = np.random.RandomState(seed)
    difference = np.zeros(shape)
    for _ in range(rank):
        component = np.ones(())
        for size in shape:
            component = np.multiply.outer(component, rng.standard_normal(size))
        difference += component
    difference *= delta / np.linalg.norm(difference)
    signs = np.where(np.arange(n) % 2, 1.0, -1.0)
    return rng.standard_normal((n, *shape)) + np.multiply.outer(signs / 2, difference), signs
