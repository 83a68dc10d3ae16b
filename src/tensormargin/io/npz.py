"""Labelled samples from a NumPy archive."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from .._typing import Array


class BadFileError(ValueError):
    """A file that cannot be used; the message names the file, the fault and the remedy."""


def load_npz(path: str | Path, samples: str = "X", labels: str = "y") -> tuple[Array, Array]:
    """Read samples and labels from an ``.npz`` file; never unpickles.

    Parameters
    ----------
    path : str or Path
    samples, labels : str
        Names of the arrays of shape (n_samples, I_1, ..., I_M) and (n_samples,).
    """
    path = Path(path)
    if not path.is_file():
        raise BadFileError(f"{path}: no such file; give the path of an .npz file with arrays {samples} and {labels}")
    if not zipfile.is_zipfile(path):
        raise BadFileError(f"{path}: not an .npz file, or cut short; write it with numpy.savez(path, X=..., y=...)")
    try:
        with np.load(path, allow_pickle=False) as stored:
            missing = [key for key in (samples, labels) if key not in stored]
            if missing:
                held = ", ".join(stored) or "none"
                raise BadFileError(f"{path}: has no array {' and '.join(missing)}; it holds {held}")
            X, y = stored[samples], stored[labels]
    except BadFileError:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise BadFileError(f"{path}: cannot be read ({error}); arrays of Python objects are not accepted") from error
    return _checked(path, X, y, samples, labels)


def _checked(path: Path, X: Array, y: Array, samples: str, labels: str) -> tuple[Array, Array]:
    if not (np.issubdtype(X.dtype, np.number) or X.dtype == bool) or np.iscomplexobj(X):
        raise BadFileError(f"{path}: {samples} must hold real numbers, has dtype {X.dtype}")
    if X.ndim < 2 or X.size == 0:
        raise BadFileError(
            f"{path}: {samples} must have the shape (n_samples, I_1, ...), none of them 0; has {X.shape}"
        )
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if np.issubdtype(y.dtype, np.inexact) and not np.all(np.isfinite(y)):
        raise BadFileError(f"{path}: {labels} holds NaN or infinity; leave samples without a label out")
    if y.shape != X.shape[:1]:
        raise BadFileError(f"{path}: {labels} must hold one label a sample, {len(X)} of them; its shape is {y.shape}")
    if np.issubdtype(X.dtype, np.inexact) and not np.all(np.isfinite(X)):
        raise BadFileError(f"{path}: {samples} holds NaN or infinity; remove or impute those entries first")
    return X, y
