"""Covariance matrices shrunk towards a multiple of the identity, one or many at a time."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from ...runtime import Array, FloatArray

RULES = ("ledoit-wolf", "oas")


def check_shrinkage(shrinkage: Any) -> None:
    """Raise ValueError unless a shrinkage is a rule or a number from 0 to 1."""
    known = isinstance(shrinkage, str) and shrinkage in RULES
    number = isinstance(shrinkage, Real) and not isinstance(shrinkage, bool)
    if not known and not (number and 0 <= shrinkage <= 1):
        raise ValueError(f'shrinkage must be "ledoit-wolf", "oas" or a number from 0 to 1; got shrinkage={shrinkage!r}')


def shrunk(covariance: FloatArray, number: float, fourth: Array | float, shrinkage: str | float) -> FloatArray:
    """Return covariance matrices moved towards the mean of their variances on the diagonal.

    Parameters
    ----------
    covariance : ndarray of shape (..., p, p)
        Mean products of centred vectors.
    number : float
        Number of vectors that each matrix was computed from.
    fourth : float or ndarray of shape (...)
        Sum over the vectors of the fourth power of their norms, which only "ledoit-wolf" needs.
    shrinkage : {"ledoit-wolf", "oas"} or float
        Ledoit and Wolf (2004), the oracle approximating shrinkage of Chen et al. (2010), or the share of the identity.
    """
    size = covariance.shape[-1]
    level = np.trace(covariance, axis1=-2, axis2=-1) / size
    squares = np.sum(covariance * covariance, axis=(-2, -1)) / size
    share = _share(level, squares, size, number, fourth, shrinkage)
    identity = (share * level)[..., None, None] * np.eye(size)
    return (1.0 - share)[..., None, None] * covariance + identity


def _share(
    level: FloatArray, squares: FloatArray, size: int, number: float, fourth: Array | float, shrinkage: str | float
) -> FloatArray:
    """Return the share of the identity, from 0 to 1."""
    if not isinstance(shrinkage, str):
        return np.full(np.shape(level), float(shrinkage))
    apart = squares - level * level  # squared distance to the identity, per row
    with np.errstate(divide="ignore", invalid="ignore"):
        if shrinkage == "ledoit-wolf":
            noise = (np.asarray(fourth) / number - size * squares) / (size * number)
            share = np.minimum(noise, apart) / apart
        else:
            mean_square = squares / size
            share = (mean_square + level * level) / ((number + 1.0) * (mean_square - level * level / size))
    return np.clip(np.where(apart > 0, share, 0.0 if shrinkage == "ledoit-wolf" else 1.0), 0.0, 1.0)
