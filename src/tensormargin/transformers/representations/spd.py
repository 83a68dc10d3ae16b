"""Symmetric positive definite matrices: logarithms, their Riemannian mean, and the tangent space there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...runtime import Array, FloatArray

_MOST_STEPS, _CLOSE = 50, 1e-10


def of_eigenvalues(matrices: FloatArray, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return symmetric matrices with a function applied to their eigenvalues."""
    values, vectors = np.linalg.eigh(matrices)
    return (vectors * function(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def logarithms(matrices: FloatArray) -> FloatArray:
    """Return matrix logarithms."""
    return of_eigenvalues(matrices, np.log)


def inverse_root(matrix: FloatArray) -> FloatArray:
    """Return the inverse square root of matrices."""
    return of_eigenvalues(matrix, lambda values: values**-0.5)


def riemannian_mean(matrices: FloatArray) -> FloatArray:
    """Return the mean in the affine-invariant metric (Moakher 2005), by gradient steps from the arithmetic mean.

    Parameters
    ----------
    matrices : ndarray of shape (n, p, p)
    """
    mean, step, before = matrices.mean(axis=0), 1.0, np.inf
    for _ in range(_MOST_STEPS):
        root, white = of_eigenvalues(mean, np.sqrt), inverse_root(mean)
        gradient = logarithms(white @ matrices @ white).mean(axis=0)
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
