"""The DuSK kernel (He et al. 2014): components of a CP decomposition of every sample."""

from __future__ import annotations

import numpy as np

from ...runtime import Array, FloatArray
from .components import ComponentKernel

_SWEEPS = 100
_TOL = 1e-9  # of the sample's squared norm, the change of the residual at which its sweeps end
_RCOND = 1e-10


class DuSK(ComponentKernel):
    """Components of a CP decomposition of ``rank`` terms (at most the size of the shortest mode)."""

    words = "DuSK kernel"

    def factors(self, X: Array) -> list[FloatArray]:
        """Return the factors of the CP decompositions."""
        return cp_factors(X, min(self.rank, *X.shape[1:]))


def cp_factors(X: FloatArray, rank: int) -> list[FloatArray]:
    """Return the CP factors of every sample, an array of shape (n_samples, rank, I_m) per mode.

    Vectors are their own component, and for matrices the singular value decomposition is the best one. Otherwise
    alternating least squares start from the HOSVD, so that the result is repeatable. All samples are updated together,
    and each stops by itself: its factors do not depend on the others.
    """
    if X.ndim == 2:
        return [X[:, None, :]]
    if X.ndim == 3:
        left, values, right = np.linalg.svd(X, full_matrices=False)
        return [left[:, :, :rank].transpose(0, 2, 1) * values[:, :rank, None], right[:, :rank]]
    return _alternating(X, rank)


def _alternating(X: FloatArray, rank: int) -> list[FloatArray]:
    factors = [_leading(X, mode, rank) for mode in range(X.ndim - 1)]
    squares = np.einsum("nd,nd->n", *(X.reshape(len(X), -1),) * 2)
    active, fits = np.arange(len(X)), np.zeros(len(X))
    for _ in range(_SWEEPS):
        own = [factor[active] for factor in factors]
        explained = _sweep(X[active], own)
        for factor, new in zip(factors, own, strict=True):
            factor[active] = new
        change = np.abs(explained - fits[active])
        fits[active] = explained
        active = active[change > _TOL * squares[active]]
        if not len(active):
            break
    return factors


def _leading(X: FloatArray, mode: int, rank: int) -> FloatArray:
    """Return the leading left singular vectors of the unfoldings along a mode."""
    unfolded = np.moveaxis(X, mode + 1, 1).reshape(len(X), X.shape[mode + 1], -1)
    vectors = np.linalg.eigh(unfolded @ unfolded.transpose(0, 2, 1))[1]
    return np.ascontiguousarray(vectors[:, :, : -rank - 1 : -1].transpose(0, 2, 1))


def _sweep(X: FloatArray, factors: list[FloatArray]) -> FloatArray:
    """Update the factors of all modes in turn; return the squared norms that the components explain.

    Afterwards all modes but the last have factors of norm one.
    """
    for mode in range(len(factors)):
        others = [factor for place, factor in enumerate(factors) if place != mode]
        gram = np.prod([one @ one.transpose(0, 2, 1) for one in others], axis=0)
        products = _contracted(X, factors, mode)
        new = np.linalg.pinv(gram, rcond=_RCOND, hermitian=True) @ products
        if mode < len(factors) - 1:
            norms = np.linalg.norm(new, axis=2, keepdims=True)
            new = np.divide(new, norms, out=np.zeros_like(new), where=norms > 0)
        factors[mode] = new
    return np.einsum("nrd,nrd->n", products, new)


def _contracted(X: FloatArray, factors: list[FloatArray], mode: int) -> FloatArray:
    """Return the samples contracted with the factors of all modes but one, of shape (n, rank, I_mode)."""
    out = np.moveaxis(X, mode + 1, 1)
    others = [factor for place, factor in enumerate(factors) if place != mode]
    first = others[-1]
    out = (out.reshape(len(X), -1, first.shape[2]) @ first.transpose(0, 2, 1)).reshape(*out.shape[:-1], first.shape[1])
    for factor in reversed(others[:-1]):
        out = np.einsum("n...br,nrb->n...r", out, factor)
    return out.transpose(0, 2, 1)
