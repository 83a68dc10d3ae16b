"""Labelled samples from a NumPy archive."""

from __future__ import annotations

from pathlib import Path

from .._typing import Array
from .arrays import check_labelled, read_arrays


def load_npz(path: str | Path, samples: str = "X", labels: str = "y") -> tuple[Array, Array]:
    """Read samples and labels from an ``.npz`` file; never unpickles.

    Parameters
    ----------
    path : str or Path
    samples, labels : str
        Names of the arrays of shape (n_samples, I_1, ..., I_M) and (n_samples,).
    """
    arrays = read_arrays(path, (samples, labels))
    return check_labelled(path, arrays[samples], arrays[labels], samples, labels)
