"""The data sets' folder, which TENSORMARGIN_DATA names, and MNIST from it."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np


def data_folder() -> Path:
    """Return the folder, or end the program with what to do."""
    folder = os.environ.get("TENSORMARGIN_DATA")
    if not folder:
        raise SystemExit("set TENSORMARGIN_DATA to the folder with the data sets")
    return Path(folder)


def read_mnist(part: str) -> tuple[np.ndarray, np.ndarray]:
    """Return images (n, 28, 28) and labels as uint8; ``part`` is "train" or "t10k"."""

    def read(name: str, offset: int) -> np.ndarray:
        raw = gzip.decompress((data_folder() / "mnist" / f"{part}-{name}-ubyte.gz").read_bytes())
        return np.frombuffer(raw, np.uint8, offset=offset)

    return read("images-idx3", 16).reshape(-1, 28, 28), read("labels-idx1", 8)
