"""Batches of symmetric positive definite systems, solved on their device."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime import inverses, namespace

_RIDGE = 1e-14
_EPSILON = float(np.finfo(float).eps)


class Definite:
    """Solves with symmetric positive definite matrices, scaled to a unit diagonal because their entries vary widely.

    One step of iterative refinement corrects rounding errors of the inverse.
    """

    def __init__(self, matrices: Any) -> None:
        xp = namespace(matrices)
        roots = 1.0 / xp.sqrt(xp.linalg.diagonal(matrices))
        self._roots = roots[:, :, None]
        self._matrices = matrices * self._roots * roots[:, None, :]
        unit = xp.eye(matrices.shape[1], dtype=matrices.dtype, device=matrices.device)
        self._inverses = inverses(self._matrices + _RIDGE * unit)

    def solve(self, columns: Any) -> Any:
        """Return ``x`` with ``matrix x = columns``."""
        right = self._roots * columns
        rough = self._inverses @ right
        return self._roots * (rough + self._inverses @ (right - self._matrices @ rough))

    def inverse_square(self, columns: Any) -> Any:
        """Return an upper bound of ``u' matrix^-1 u`` for columns u, if ``matrix - I`` is positive semidefinite.

        With ``u = matrix x + r`` the value is ``2 u'x - x' matrix x + r' matrix^-1 r``, with a last term of at most
        ``|r|^2``. A bound on the rounding errors of the matrix entries is added to both, so that certificates stay
        valid.
        """
        xp, right, solved = namespace(columns), self._roots * columns, self.solve(columns) / self._roots
        image = self._matrices @ solved
        size = xp.sum(xp.abs(solved), axis=1, keepdims=True)
        lost = 2.0 * _EPSILON * size  # rounding error of each entry of the image
        residual = (xp.abs(right - image) + lost) / self._roots
        return xp.sum(solved * (2.0 * right - image) + residual**2, axis=(1, 2)) + (lost * size)[:, 0, 0]


class LeastSquares:
    """Solves with ``I + sum of M'M`` for matrices M, by a QR decomposition instead of that sum.

    Much slower, but works for condition numbers up to 1e30, whereas the sum is singular beyond 1e15.
    """

    def __init__(self, *matrices: Any) -> None:
        xp, (n_problems, _, width) = namespace(matrices[0]), matrices[0].shape
        unit = xp.eye(width, dtype=matrices[0].dtype, device=matrices[0].device)
        stacked = xp.concat([xp.broadcast_to(unit, (n_problems, width, width)), *matrices], axis=1)
        roots = 1.0 / xp.sqrt(xp.sum(stacked**2, axis=1))
        self._roots = roots[:, :, None]
        _, triangles = xp.linalg.qr(stacked * roots[:, None, :], mode="reduced")
        self._inverses = inverses(triangles)

    def solve(self, columns: Any) -> Any:
        """Return ``x`` with ``matrix x = columns``."""
        return self._roots * (self._inverses @ self._half_solved(columns))

    def inverse_square(self, columns: Any) -> Any:
        """Return ``u' matrix^-1 u`` for columns u."""
        return namespace(columns).sum(self._half_solved(columns) ** 2, axis=(1, 2))

    def _half_solved(self, columns: Any) -> Any:
        return namespace(columns).matrix_transpose(self._inverses) @ (self._roots * columns)


def self_products(matrices: Any) -> Any:
    """Return ``M'M`` for each matrix M; NumPy halves the work when it sees that both factors are the same."""
    xp = namespace(matrices)
    if xp is np:
        return np.stack([matrix.T @ matrix for matrix in matrices])
    return xp.matrix_transpose(matrices) @ matrices
