"""Kernels: a representation of every sample, and values for blocks of pairs of them.

Those of vectors first, then those of tensors: Grassmann of subspaces of the unfoldings, DuSK and TT-MMK of rank-one
components.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from ...runtime import Array, FloatArray

_PAIRS_FOR_DIAGONAL = 16  # samples per call of a function, of whose n^2 values n are used
_NEAR = 1e-6  # of the largest squared distance: smaller ones are differences of much larger numbers
_SWEEPS = 100
_TOL = 1e-9  # of the sample's squared norm, the change of the residual at which its sweeps end
_RCOND = 1e-10


class Kernel(ABC):
    """A positive semi-definite function of two samples.

    Samples are first represented one by one (by vectors, bases of subspaces or components), in blocks of any size: the
    representation of a sample does not depend on the others. Values are then computed for all pairs of a block.

    Parameters
    ----------
    shape : tuple of int
        Shape of a sample.
    rank : int
        Upper bound of the number of components or of the dimension of subspaces; what the samples do not allow is
        lowered. Ignored by kernels without such a number.
    gamma : float
        Width of the kernel, for kernels that have one.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import KERNELS
    >>> kernel = KERNELS["rbf"]((4, 5), gamma=0.1)
    >>> rows = kernel.represent(np.random.default_rng(0).standard_normal((6, 4, 5)))
    >>> kernel.block(rows, rows).shape
    (6, 6)
    >>> bool(np.allclose(kernel.diagonal(rows), 1))
    True
    """

    words: ClassVar[str]
    """Name of the kernel in text."""
    has_gamma: ClassVar[bool] = True

    def __init__(self, shape: tuple[int, ...], rank: int = 1, gamma: float = 1.0) -> None:
        self.shape, self.rank, self.gamma = shape, rank, gamma
        self.dtype: np.dtype[Any] = np.dtype(np.float64)  # of the values; kernels of vectors can be computed in float32

    def check(self, X: Any) -> None:  # noqa: B027 - most kernels take any samples
        """Raise ValueError if training samples do not suit the kernel."""

    @abstractmethod
    def represent(self, X: Array) -> Array:
        """Return the representations of samples, one per row."""

    @abstractmethod
    def block(self, rows: Array, landmarks: Array) -> FloatArray:
        """Return the values of all pairs of a represented sample and a landmark, of shape (n_rows, n_landmarks)."""

    @abstractmethod
    def diagonal(self, rows: Array) -> FloatArray:
        """Return the value of each represented sample with itself."""

    def landmarks(self, rows: Array, chosen: Array) -> Array:
        """Return what has to be kept of some of the training samples, given by their positions."""
        return rows[chosen]

    def entries_per_pair(self, rows: Array) -> int:
        """Return the number of intermediate numbers per value of a block, which limits the size of blocks."""
        return 1

    def squared_distance(self, rows: Array, others: Array) -> float:
        """Return the mean squared distance of pairs of samples, twice the unit of ``1 / gamma``."""
        raise NotImplementedError

    def usual_gamma(self, unit: float) -> float:
        """Return the width for samples whose mean squared distance is twice this unit, which is above zero."""
        return 1.0 / unit


class RBF(Kernel):
    """``exp(-gamma |x - y|^2)``."""

    words = "RBF kernel"

    def represent(self, X: Array) -> Array:
        return X.reshape(len(X), -1).astype(self.dtype, copy=False)

    def block(self, rows: Array, landmarks: Array) -> FloatArray:
        return decaying(squared_distances(rows, landmarks.astype(self.dtype, copy=False)), self.gamma)

    def diagonal(self, rows: Array) -> FloatArray:
        return np.ones(len(rows))

    def squared_distance(self, rows: Array, others: Array) -> float:
        """Return the mean squared distance of pairs of vectors."""
        return float(np.mean(np.sum((rows - others) ** 2, axis=1)))


class Exponential(RBF):
    """``exp(-gamma |x - y|)``: rougher than the RBF kernel, and less sensitive to its width and to noise entries."""

    words = "exponential kernel"

    def block(self, rows: Array, landmarks: Array) -> FloatArray:
        squares = squared_distances(rows, landmarks)
        near, others = np.nonzero(squares <= _NEAR * squares.max(initial=0.0))  # the root would enlarge their errors
        for begin in range(0, len(near), len(rows)):
            some, beside = near[begin : begin + len(rows)], others[begin : begin + len(rows)]
            squares[some, beside] = np.sum((rows[some] - landmarks[beside]) ** 2, axis=1)
        return decaying(np.sqrt(squares, out=squares), self.gamma)

    def usual_gamma(self, unit: float) -> float:
        return float((2.0 * unit) ** -0.5)


class Linear(RBF):
    """``<x, y>``: behind it, a flat classifier is the one on the samples themselves."""

    words = "linear kernel"
    has_gamma: ClassVar[bool] = False

    def block(self, rows: Array, landmarks: Array) -> FloatArray:
        return rows @ landmarks.T

    def diagonal(self, rows: Array) -> FloatArray:
        return np.einsum("nd,nd->n", rows, rows)


class Function(Kernel):
    """A function of two arrays of samples that returns the values of all pairs."""

    words = "kernel"
    has_gamma: ClassVar[bool] = False

    def __init__(self, shape: tuple[int, ...], function: Callable[[Array, Array], Any]) -> None:
        super().__init__(shape)
        self.function = function

    def represent(self, X: Array) -> Array:
        return X

    def block(self, rows: Array, landmarks: Array) -> FloatArray:
        """Return what the function returns; raise ValueError if it is not one number per pair."""
        values = np.asarray(self.function(rows, landmarks), np.float64)
        if values.shape != (len(rows), len(landmarks)):
            raise ValueError(
                f"kernel(X, Y) must return an array of shape (n_samples_X, n_samples_Y); got {values.shape} for "
                f"{len(rows)} and {len(landmarks)} samples. Return one value per pair"
            )
        return values

    def diagonal(self, rows: Array) -> FloatArray:
        step = _PAIRS_FOR_DIAGONAL
        parts = [rows[begin : begin + step] for begin in range(0, len(rows), step)]
        return np.concatenate([np.empty(0), *(np.diagonal(self.block(part, part)) for part in parts)])


class Precomputed(Kernel):
    """A kernel matrix: row i of X has the values of sample i with all training samples."""

    words = "precomputed kernel"
    has_gamma: ClassVar[bool] = False

    def check(self, X: Any) -> None:
        """Raise ValueError unless the matrix is square and symmetric."""
        if X.ndim != 2 or X.shape[0] != X.shape[1]:
            raise ValueError(
                'kernel="precomputed" needs the square matrix of the values of all pairs of training samples; got X '
                f"of shape {tuple(X.shape)}. Pass K(train, train) to fit and K(new, train) to transform"
            )
        scale = float(np.max(np.abs(X), initial=0.0))
        if not np.allclose(X, X.T, rtol=0.0, atol=1e-6 * scale):
            apart = float(np.max(np.abs(X - X.T)))
            raise ValueError(
                f"a kernel matrix must be symmetric; K and K.T differ by up to {apart:.3g}. Pass (K + K.T) / 2 if that "
                "is rounding"
            )

    def represent(self, X: Array) -> Array:
        return X.astype(np.float64, copy=False)

    def landmarks(self, rows: Array, chosen: Array) -> Array:
        return chosen

    def block(self, rows: Array, landmarks: Array) -> FloatArray:
        return rows[:, landmarks]

    def diagonal(self, rows: Array) -> FloatArray:
        return np.diagonal(rows).copy()


def squared_distances(rows: Array, columns: Array) -> Array:
    """Return the squared Euclidean distances of all pairs of vectors, never negative.

    Both are shifted by the mean of the columns, so that a common offset does not cost precision.
    """
    centre = columns.mean(axis=0, dtype=np.float64).astype(columns.dtype)
    rows, columns = rows - centre, columns - centre
    out = rows @ columns.T
    out *= -2.0
    out += np.einsum("nd,nd->n", rows, rows)[:, None]
    out += np.einsum("nd,nd->n", columns, columns)
    return np.maximum(out, 0.0, out=out)


def decaying(exponents: Array, gamma: float) -> Array:
    """Return ``exp(-gamma exponents)``, in place."""
    exponents *= -float(gamma)
    return np.exp(exponents, out=exponents)


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
            products = own.reshape(-1, own.shape[2]) @ other.reshape(-1, other.shape[2]).T
            products *= products
            overlaps = products.reshape(*own.shape[:2], *other.shape[:2]).sum(axis=(1, 3))
            exponents += _dimensions(own)[:, None] + _dimensions(other) - 2.0 * overlaps
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
