"""Kernels of tensors: Grassmann of subspaces of the unfoldings, DuSK and TT-MMK of rank-one components."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from math import prod

import numpy as np

from ...runtime import Array, FloatArray
from .kernels import Kernel, decaying, squared_distances

_SWEEPS = 100
_TOL = 1e-9  # of the sample's squared norm, the change of the residual at which its sweeps end
_RCOND = 1e-10


class Grassmann(Kernel):
    """``prod_m exp(-gamma |P_m(X) - P_m(Y)|^2)``.

    P_m projects on the leading right singular subspace of the mode-m unfolding, of dimension ``rank`` or less. No
    projector is formed: ``|P - Q|^2 = 2k - 2 |U'V|^2`` for orthonormal bases U and V. The kernel does not depend on the
    scale of the samples, and its factor of mode m not on rotations of that mode.

    A representation has the bases of all modes beside each other, of shape (k, sum of their lengths); shorter bases
    are filled up with zeros.
    """

    words = "Grassmann kernel"

    def represent(self, X: Array) -> Array:
        bases = [right_subspaces(X, mode, self.rank) for mode in range(X.ndim - 1)]
        most = max(basis.shape[1] for basis in bases)
        filled = [np.pad(basis, ((0, 0), (0, most - basis.shape[1]), (0, 0))) for basis in bases]
        return np.concatenate(filled, axis=2)

    def _modes(self, rows: Array) -> list[Array]:
        """Return the bases of each mode."""
        lengths = [prod(self.shape) // size for size in self.shape]
        return np.split(rows, np.cumsum(lengths)[:-1].tolist(), axis=2)

    def block(self, rows: Array, landmarks: Array) -> FloatArray:
        exponents = np.zeros((len(rows), len(landmarks)))
        for own, other in zip(self._modes(rows), self._modes(landmarks), strict=True):
            dimensions = _dimensions(own)[:, None] + _dimensions(other)
            exponents += dimensions - 2.0 * _squared_overlaps(own, other)
        return decaying(np.maximum(exponents, 0.0, out=exponents), self.gamma)

    def diagonal(self, rows: Array) -> FloatArray:
        return np.ones(len(rows))

    def entries_per_pair(self, rows: Array) -> int:
        return int(rows.shape[1]) ** 2

    def squared_distance(self, rows: Array, others: Array) -> float:
        """Return the mean of the squared distances, summed over the modes."""
        total = 0.0
        for own, other in zip(self._modes(rows), self._modes(others), strict=True):
            overlaps = np.sum((own @ other.transpose(0, 2, 1)) ** 2, axis=(1, 2))
            total += float(np.mean(_dimensions(own) + _dimensions(other) - 2.0 * overlaps))
        return total


def right_subspaces(X: Array, mode: int, rank: int) -> FloatArray:
    """Return orthonormal bases of the leading right singular subspaces of the unfoldings, of shape (n, k, length).

    Vectors of singular values that are zero are left out (zero): they would be arbitrary.
    """
    size, others = X.shape[mode + 1], prod(X.shape[1:]) // X.shape[mode + 1]
    unfolded = np.moveaxis(X, mode + 1, 1).reshape(len(X), size, others).astype(np.float64, copy=False)
    k = min(rank, size, others)
    _, values, right = np.linalg.svd(unfolded, full_matrices=False)
    kept = values[:, :k] > values[:, :1] * max(size, others) * np.finfo(np.float64).eps
    return right[:, :k] * kept[:, :, None]


def _dimensions(bases: FloatArray) -> FloatArray:
    """Return the dimensions of subspaces."""
    return np.einsum("nkd,nkd->n", bases, bases)


def _squared_overlaps(own: FloatArray, other: FloatArray) -> FloatArray:
    """Return ``|U'V|^2`` for all pairs of bases."""
    products = own.reshape(-1, own.shape[2]) @ other.reshape(-1, other.shape[2]).T
    products *= products
    return products.reshape(*own.shape[:2], *other.shape[:2]).sum(axis=(1, 3))


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
        distances = squared_distances(rows.reshape(-1, rows.shape[2]), landmarks.reshape(-1, landmarks.shape[2]))
        values = decaying(distances, self.gamma)
        return values.reshape(*rows.shape[:2], *landmarks.shape[:2]).sum(axis=(1, 3))

    def diagonal(self, rows: Array) -> FloatArray:
        return decaying(_distances_within(rows, rows), self.gamma).sum(axis=(1, 2))

    def entries_per_pair(self, rows: Array) -> int:
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


class DuSK(ComponentKernel):
    """Components of a CP decomposition of ``rank`` terms (at most the size of the shortest mode)."""

    words = "DuSK kernel"

    def factors(self, X: Array) -> list[FloatArray]:
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


class TTMMK(ComponentKernel):
    """Components of a Tensor-Train of rank ``rank`` at every bond: all chains of fibres through its cores.

    The signs of the singular vectors are made unique, and the norm of a chain is spread evenly over its fibres.
    """

    words = "TT-MMK kernel"

    def factors(self, X: Array) -> list[FloatArray]:
        return chains(tensor_trains(X, self.rank))


def tensor_trains(X: FloatArray, rank: int) -> list[FloatArray]:
    """Return the Tensor-Train cores of every sample by truncated SVDs, of shape (n_samples, left, I_m, right)."""
    n_samples, *sizes = X.shape
    cores, rest, bond = list[FloatArray](), X, 1
    for mode, size in enumerate(sizes[:-1]):
        left, values, right = np.linalg.svd(
            rest.reshape(n_samples, bond * size, prod(sizes[mode + 1 :])), full_matrices=False
        )
        k = min(rank, values.shape[1])
        signs = signs_of_largest(left[:, :, :k].transpose(0, 2, 1))
        cores.append((left[:, :, :k] * signs[:, None, :]).reshape(n_samples, bond, size, k))
        rest, bond = right[:, :k] * (values[:, :k] * signs)[:, :, None], k
    return [*cores, rest.reshape(n_samples, bond, sizes[-1], 1)]


def chains(cores: list[FloatArray]) -> list[FloatArray]:
    """Return the fibres of all chains through the cores, an array of shape (n_samples, n_chains, I_m) per mode."""
    factors = [np.moveaxis(cores[0][:, 0], 2, 1)]
    ends = np.arange(cores[0].shape[3])  # the right index of each chain
    for core in cores[1:]:
        bond = core.shape[3]
        factors = [np.repeat(factor, bond, axis=1) for factor in factors]
        before, ends = np.repeat(ends, bond), np.tile(np.arange(bond), len(ends))
        factors.append(core[:, before, :, ends].transpose(1, 0, 2))
    return factors
