"""Kernels of samples as sums of rank-one components: each is one vector, its factors beside each other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from ...runtime import Array, FloatArray
from .base import Kernel, decaying, squared_distances


class ComponentKernel(Kernel):
    """``sum_rs prod_m exp(-gamma |x_r^m - y_s^m|^2)`` over pairs of components of two samples.

    The product over the modes is one exponential of the distance of the components' concatenated factors, so that the
    values of a block are those of an RBF kernel of components, summed.
    """

    @abstractmethod
    def factors(self, X: Array) -> list[FloatArray]:
        """Return the factors of the components, an array of shape (n_samples, n_components, I_m) per mode."""

    def represent(self, X: Array) -> Array:
        """Return the components with unique signs and norms spread evenly, of shape (n, n_components, sum of I_m)."""
        return np.concatenate(balanced(with_unique_signs(self.factors(X.astype(np.float64, copy=False)))), axis=2)

    def block(self, rows: Array, landmarks: Array) -> FloatArray:
        """Return the values of all pairs."""
        distances = squared_distances(rows.reshape(-1, rows.shape[2]), landmarks.reshape(-1, landmarks.shape[2]))
        values = decaying(distances, self.gamma)
        return values.reshape(*rows.shape[:2], *landmarks.shape[:2]).sum(axis=(1, 3))

    def diagonal(self, rows: Array) -> FloatArray:
        """Return the value of each sample with itself."""
        return decaying(_distances_within(rows, rows), self.gamma).sum(axis=(1, 2))

    def entries_per_pair(self, rows: Array) -> int:
        """Return the number of pairs of components."""
        return int(rows.shape[1]) ** 2

    def squared_distance(self, rows: Array, others: Array) -> float:
        """Return the mean squared distance of pairs of components."""
        return float(np.mean(_distances_within(rows, others)))


def _distances_within(rows: FloatArray, others: FloatArray) -> FloatArray:
    """Return the squared distances of the components of sample i in both arrays, of shape (n, R, R)."""
    centre = others.mean(axis=1, keepdims=True)
    rows, others = rows - centre, others - centre
    products = rows @ others.transpose(0, 2, 1)
    squares = [np.einsum("nrd,nrd->nr", one, one) for one in (rows, others)]
    return np.maximum(squares[0][:, :, None] + squares[1][:, None, :] - 2.0 * products, 0.0)


def balanced(factors: Sequence[FloatArray]) -> list[FloatArray]:
    """Return factors of the same components whose norms are equal in all modes."""
    norms = np.stack([np.linalg.norm(factor, axis=2) for factor in factors])
    with np.errstate(divide="ignore"):  # a component of zeros stays one
        common = np.exp(np.log(norms).mean(axis=0))
    scales = np.divide(common, norms, out=np.zeros_like(norms), where=norms > 0)
    return [factor * scale[:, :, None] for factor, scale in zip(factors, scales, strict=True)]


def with_unique_signs(factors: Sequence[FloatArray]) -> list[FloatArray]:
    """Return factors whose largest entry (in magnitude) is positive; the last mode takes the sign of the product."""
    signs = [signs_of_largest(factor) for factor in factors[:-1]]
    last = factors[-1] * np.prod([np.ones(factors[-1].shape[:2]), *signs], axis=0)[:, :, None]
    return [*(factor * sign[:, :, None] for factor, sign in zip(factors, signs, strict=False)), last]


def signs_of_largest(vectors: FloatArray) -> FloatArray:
    """Return the sign of the entry of largest magnitude of each vector; 1 for zeros."""
    places = np.argmax(np.abs(vectors), axis=2)[:, :, None]
    return np.where(np.take_along_axis(vectors, places, axis=2)[:, :, 0] < 0, -1.0, 1.0)
