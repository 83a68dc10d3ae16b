"""Symmetric matrices, one or many at a time: shrunk covariances, logarithms, Riemannian mean and tangent space."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from ...runtime import Array, FloatArray

_MOST_STEPS, _CLOSE = 50, 1e-10
RULES = ("ledoit-wolf", "oas")


def of_eigenvalues(matrices: FloatArray, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return symmetric matrices with a function applied to their eigenvalues."""
    values, vectors = np.linalg.eigh(matrices)
    return (vectors * function(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def logarithms(matrices: FloatArray) -> FloatArray:
    """Return matrix logarithms."""
    return of_eigenvalues(matrices, np.log)


def tangent_vectors(matrices: FloatArray, mean: FloatArray) -> FloatArray:
    """Return matrices in the tangent space of their Riemannian mean M, ``log(M^(-1/2) C M^(-1/2))``."""
    white = of_eigenvalues(mean, lambda values: values**-0.5)
    return logarithms(white @ matrices @ white)


def riemannian_mean(matrices: FloatArray) -> FloatArray:
    """Return the mean in the affine-invariant metric (Moakher 2005), by gradient steps from the arithmetic mean."""
    mean, step, before = matrices.mean(axis=0), 1.0, np.inf
    for _ in range(_MOST_STEPS):
        root, gradient = of_eigenvalues(mean, np.sqrt), tangent_vectors(matrices, mean).mean(axis=0)
        size = float(np.linalg.norm(gradient))
        mean = root @ of_eigenvalues(step * gradient, np.exp) @ root
        if size <= _CLOSE * len(mean):
            break
        step, before = (step, size) if size < before else (step / 2, before)  # overshooting: shorter steps
    return mean


def triangle(matrices: Array) -> Array:
    """Return the upper triangles of symmetric matrices (n, p, p, ...) as vectors of the same norm, (n, p(p+1)/2, ...).

    Entries off the diagonal are multiplied by the root of 2.
    """
    size = matrices.shape[1]
    rows, columns = np.triu_indices(size)
    factors = np.where(rows == columns, 1.0, np.sqrt(2.0))
    return matrices[:, rows, columns] * factors.reshape(-1, *(1,) * (matrices.ndim - 3))


def matrix_power(matrix: FloatArray, power: float) -> FloatArray:
    """Return powers of symmetric matrices; directions without variance stay zero."""
    values, vectors = np.linalg.eigh(matrix)
    positive = values > np.finfo(np.float64).eps * values.shape[-1] * np.max(values, axis=-1, keepdims=True)
    powers = np.where(positive, np.where(positive, values, 1.0) ** power, 0.0)
    return (vectors * powers[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def check_shrinkage(shrinkage: Any) -> None:
    """Raise ValueError unless a shrinkage is a rule or a number from 0 to 1."""
    known = isinstance(shrinkage, str) and shrinkage in RULES
    number = isinstance(shrinkage, Real) and not isinstance(shrinkage, bool)
    if not known and not (number and 0 <= shrinkage <= 1):
        raise ValueError(f'shrinkage must be "ledoit-wolf", "oas" or a number from 0 to 1; got shrinkage={shrinkage!r}')


def shrunk(covariance: FloatArray, number: float, fourth: Array | float, shrinkage: str | float) -> FloatArray:
    """Return covariance matrices (..., p, p) moved towards the mean of their variances on the diagonal.

    By the rule of Ledoit and Wolf (2004), the oracle approximating shrinkage of Chen et al. (2010), or a share of the
    identity. ``number`` is that of the vectors behind each matrix, ``fourth`` the sum of the fourth powers of their
    norms, which only "ledoit-wolf" needs.
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
