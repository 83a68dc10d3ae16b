"""Read access to N tensor samples: chunks, moments, and contractions shared between blocks.

Samples stay where and as they are. Every pass walks over them in chunks of whole samples and casts a chunk only
if it has to, so that integer arrays, row subsets and memory maps are not copied as a whole (except by `Samples.matrix`,
for a full weight). NumPy's ``matmul``
contracts samples-first arrays at the speed of memory (MNIST, 12k images, one mode: 2 ms in float32; reordering them
to samples-last would cost 51 ms once).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np

from ._typing import Array

_CHUNK_BYTES = 16 * 2**20
_CACHED_CHUNK_BYTES = 2**20
_KRONECKER_COLUMNS = 16
_WASTEFUL_PRODUCT = 20_000


def working_dtype(dtype: np.dtype) -> np.dtype:
    """Return the floating type in which samples of ``dtype`` are contracted.

    Types whose values float32 holds exactly (float32, float16, integers of 16 bits, booleans) use float32.
    """
    exact_in_single = np.can_cast(dtype, np.float32, casting="safe")
    return np.dtype(np.float32 if exact_in_single else np.float64)


@dataclass(frozen=True)
class Moments:
    """First and second moments of weighted, signed samples.

    Attributes
    ----------
    signed_mean : ndarray of shape (I_1, ..., I_M)
        ``sum_i p_i t_i (Z_i - centre)``.
    mean_square : float
        ``sum_i p_i ||Z_i - centre||^2``.
    offset_square : float
        Squared norm of a sample, to hold against the others' distances from it.
    """

    signed_mean: Array
    mean_square: float
    offset_square: float


class Samples:
    """N tensors of one shape, contracted in chunks.

    Parameters
    ----------
    array : ndarray of shape (n_total, I_1, ..., I_M)
        Any real dtype; may be read-only or memory-mapped.
    rows : ndarray of int, optional
        The samples to use, in this order; all of them by default. They are gathered chunk by chunk.
    """

    def __init__(self, array: Array, rows: Array | None = None) -> None:
        self._array = array
        self._rows = rows
        self.shape: tuple[int, ...] = array.shape[1:]
        self.dtype = working_dtype(array.dtype)
        self.split = _best_split(self.shape)
        self._question: tuple[str, list[Array]] = ("", [])
        self._answer = np.empty(0, self.dtype)

    def __len__(self) -> int:
        return len(self._array) if self._rows is None else len(self._rows)

    def chunks(self, n_bytes: int = _CHUNK_BYTES) -> Iterator[tuple[slice, Array]]:
        """Yield (positions, samples) with the samples C-contiguous and in the working dtype."""
        step = max(1, n_bytes // max(1, prod(self.shape) * self.dtype.itemsize))
        for start in range(0, len(self), step):
            where = slice(start, min(start + step, len(self)))
            part = self._array[where] if self._rows is None else self._array[self._rows[where]]
            yield where, np.ascontiguousarray(part, dtype=self.dtype)

    def matrix(self) -> Array:
        """Return the samples as rows of an N x prod(I) matrix; a view where the array allows it."""
        if self._rows is None and self._array.dtype == self.dtype:
            return self._array.reshape(len(self), -1)
        flat = np.empty((len(self), prod(self.shape)), self.dtype)
        for where, part in self.chunks():
            flat[where] = part.reshape(len(part), -1)
        return flat

    def vary(self, centred: bool) -> bool:
        """Tell whether any sample differs from the first one (from zero if not ``centred``)."""
        reference = next(self.chunks(1))[1][0] if centred else 0.0
        return any(bool(np.any(part != reference)) for _, part in self.chunks())

    def moments(self, weights: Array, signs: Array, centred: bool) -> Moments:
        """Return signed mean and mean squared norm in one pass.

        Distances are taken from the first sample, so that a large common offset does not cancel digits.
        """
        first = next(self.chunks(1))[1][0].ravel()
        pivot = first if centred else np.zeros_like(first)
        sums = np.zeros((2, pivot.size))
        square = 0.0
        for where, part in self.chunks(_CACHED_CHUNK_BYTES):
            offset = part.reshape(len(part), -1) - pivot
            square += float(weights[where] @ np.einsum("ij,ij->i", offset, offset))
            sums += np.stack([weights[where], weights[where] * signs[where]]).astype(self.dtype) @ offset
        mean, signed = sums
        if centred:
            signed = signed - float(weights @ signs) * mean
            square -= float(mean @ mean)
        offset_square = float(np.square(first, dtype=np.float64).sum())
        return Moments(signed.reshape(self.shape), max(square, 0.0), offset_square)

    def contract_head(self, matrices: Sequence[Array]) -> Array:
        """Contract the modes before ``split``; return an N x q x (tail sizes) array.

        ``matrices`` holds one I_m x R_m matrix a mode (q is the product of the R_m), or one matrix for all of them
        together. The last answer of either half is kept and returned again for equal matrices: the blocks of the other
        half share it, so a sweep over all modes reads the samples twice (a dimension tree of two halves). The next
        answer overwrites it.
        """
        kept = self.shape[self.split :]
        return self._remembered("head", matrices, 1, prod(kept)).reshape(len(self), -1, *kept)

    def contract_tail(self, matrices: Sequence[Array]) -> Array:
        """Contract the modes from ``split`` on; return an N x (head sizes) x q array (see `contract_head`)."""
        kept = self.shape[: self.split]
        if not matrices:  # samples of order 1 have no tail: nothing to contract, nothing to copy
            return self.matrix().reshape(len(self), *kept, 1)
        return self._remembered("tail", matrices, prod(kept), 1).reshape(len(self), *kept, -1)

    def _remembered(self, half: str, matrices: Sequence[Array], outer: int, inner: int) -> Array:
        known, known_matrices = self._question
        if half != known or not _same(known_matrices, matrices):
            self._answer = self._contract(matrices, self._answer, outer, inner)
            self._question = (half, list(matrices))
        return self._answer

    def _contract(self, matrices: Sequence[Array], memory: Array, outer: int, inner: int) -> Array:
        """Contract the modes between ``outer`` leading and ``inner`` trailing entries, the last mode first.

        The answer is written to ``memory`` where that fits: fresh pages cost as much as the product itself.
        """
        merged = _merge_small([np.asarray(matrix, self.dtype) for matrix in matrices])
        sizes = [len(matrix) for matrix in merged]
        columns = prod(matrix.shape[1] for matrix in merged)
        size = len(self) * outer * columns * inner
        out = (memory if memory.size == size else np.empty(size, self.dtype)).reshape(len(self), -1)
        for where, part in self.chunks():
            tensors = part.reshape(len(part) * outer, *sizes, inner)
            for axis in range(len(merged), 1, -1):
                tensors = _mode_product(tensors, axis, merged[axis - 1])
            _mode_product(tensors, 1, merged[0], out[where])
        return out


def _mode_product(tensors: Array, axis: int, matrix: Array, out: Array | None = None) -> Array:
    """Contract one axis (never the first) with the rows of ``matrix``."""
    shape = tensors.shape
    lo, hi, columns = prod(shape[:axis]), prod(shape[axis + 1 :]), matrix.shape[1]
    if hi == 1:
        out = np.matmul(tensors.reshape(lo, -1), matrix, out=_viewed(out, (lo, columns)))
    else:
        out = np.matmul(matrix.T, tensors.reshape(lo, shape[axis], hi), out=_viewed(out, (lo, columns, hi)))
    return out.reshape(*shape[:axis], columns, *shape[axis + 1 :])


def _viewed(array: Array | None, shape: tuple[int, ...]) -> Array | None:
    return None if array is None else array.reshape(shape)


def contract_around(partial: Array, size: int, kernel: Array) -> Array:
    """Contract what stands before and after one axis: ``out[n, i, r] = sum_lt partial[n, l, i, t] kernel[l, t, r]``.

    Parameters
    ----------
    partial : ndarray with N * L * size * T entries
    size : int
        Length of the axis that is kept.
    kernel : ndarray of shape (L, T, r)

    Returns
    -------
    ndarray of shape (N, size * r)
    """
    lead, trail, columns = kernel.shape
    kernel = kernel.astype(partial.dtype, copy=False)
    n_samples = partial.size // (lead * size * trail)
    if lead == 1:
        out = partial.reshape(-1, trail) @ kernel[0]
    elif lead * trail * columns * size**2 <= _WASTEFUL_PRODUCT:
        # One product with a matrix that is mostly zero beats thousands of tiny ones (MNIST, Tucker: 5 against 20 ms).
        spread = np.einsum("ltr,ij->litjr", kernel, np.eye(size, dtype=kernel.dtype))
        out = partial.reshape(n_samples, -1) @ spread.reshape(lead * size * trail, size * columns)
    elif trail == 1:
        out = np.matmul(kernel[:, 0, :].T, partial.reshape(n_samples, lead, size)).transpose(0, 2, 1)
    else:
        out = np.matmul(partial.reshape(n_samples, lead, size, trail), kernel).sum(axis=1)
    return out.reshape(n_samples, size * columns)


def _merge_small(matrices: list[Array]) -> list[Array]:
    """Replace the matrices by their Kronecker product where that has few columns.

    One product with 16 columns is as fast as two with 4 and leaves no intermediate.
    """
    if prod(matrix.shape[1] for matrix in matrices) > _KRONECKER_COLUMNS:
        return matrices
    return [reduce(np.kron, matrices)]


def _best_split(shape: tuple[int, ...]) -> int:
    """Return the number of leading modes that makes the two partial contractions smallest together."""
    if len(shape) == 1:
        return 1
    return min(range(1, len(shape)), key=lambda k: prod(shape[:k]) + prod(shape[k:]))


def _same(kept: list[Array], asked: Sequence[Array]) -> bool:
    return len(kept) == len(asked) and all(np.array_equal(a, b) for a, b in zip(kept, asked, strict=True))
