"""What several test files share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tensormargin.datasets import fetch_mnist, make_low_rank_classes


@pytest.fixture(scope="session")
def data_folder() -> Path:
    folder = os.environ.get("TENSORMARGIN_DATA")
    if not folder:
        pytest.skip("needs real data: set TENSORMARGIN_DATA to the folder with the data sets")
    return Path(folder)


@pytest.fixture(scope="session")
def mnist(data_folder: Path) -> dict[str, np.ndarray]:
    """The whole of MNIST as uint8, keys X, y, X_test, y_test."""
    train, test = (fetch_mnist(subset) for subset in ("train", "test"))
    return {"X": train.data, "y": train.target, "X_test": test.data, "y_test": test.target}


def run(*arguments, **kwargs) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    command = [sys.executable, "-m", "tensormargin.cli", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "120"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, **kwargs)


def low_rank_classes(seed: int, n: int, shape: tuple[int, ...], delta: float, rank: int = 2):
    """Return (X, t) of unit noise whose class means differ by delta times a tensor of unit norm and this CP rank."""
    bunch = make_low_rank_classes(n, shape, rank, delta, random_state=seed)
    return bunch.data, bunch.target.astype(float)
