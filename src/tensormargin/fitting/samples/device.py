"""Samples in an array of PyTorch, CuPy or another array API library, contracted on their device.

The formulas are those of `samples.memory`, in the array API and for any number of weights at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from ...runtime import (
    Array,
    FloatArray,
    cast,
    dtype_of,
    has_float64,
    like,
    namespace,
    slices,
    thin_product,
    to_host,
    tuning,
)
from ..contractions import Contraction, best_split
from ..designs import Design
from .base import Moments, Samples, Sums, offset_costs_digits, typical_rows, working_dtype
from .memory import merge_small, same_matrices


class DeviceSamples(Samples):
    """Samples on a device.

    Parameters
    ----------
    array : array of shape (n_total, I_1, ..., I_M)
        Used without a copy if it has the dtype of the computations, otherwise converted once.
    rows : ndarray of int, optional
        The samples to use, gathered into a new array on the device; all of them by default.
    dtype : dtype, optional
        Dtype of the computations; by default the one that holds the samples without loss.
    pivot : ndarray of shape (I_1, ..., I_M), optional
        Subtracted from every sample that is read.
    """

    def __init__(
        self, array: Any, rows: Array | None = None, dtype: np.dtype | None = None, pivot: Array | None = None
    ) -> None:
        self._xp = namespace(array)
        self.dtype = working_dtype(dtype_of(array)) if dtype is None else dtype
        if rows is not None:
            array = self._xp.take(array, like(rows, array), axis=0)
        self.array = cast(array, self.dtype)
        self.shape = tuple(array.shape[1:])
        self.pivot = pivot
        self._shifted = False  # whether the array has had the pivot subtracted
        self._question: tuple[str, Sequence[Array]] = ("", [])
        self._answer: Any = None

    def __len__(self) -> int:
        return int(self.array.shape[0])

    def take(self, rows: Array) -> DeviceSamples:
        """Return a subset of the samples, gathered on the device."""
        chosen = DeviceSamples(self.array, rows, self.dtype, self.pivot)
        chosen._shifted = self._shifted
        return chosen

    def first_pass(self, weights: Array, signs: Array, centred: bool) -> Moments:
        """Return the signed mean and the mean squared norm, and decide whether to subtract a pivot from now on."""
        typical = self.typical() if centred else np.zeros(self.shape)
        sums, squares = self.add_up(np.stack([weights, weights * signs]), typical)
        moments = Sums(sums[0], sums[1], float(weights @ squares)).moments(weights, signs, centred, self.shape)
        if offset_costs_digits(typical, moments.mean_square, self):
            self.pivot = typical.astype(self.dtype)
        return moments

    def typical(self) -> Array:
        """Return the entrywise median of a few samples."""
        few = to_host(self._xp.take(self.array, like(typical_rows(len(self)), self.array), axis=0))
        typical: Array = np.median(few.astype(np.float64), axis=0)
        return typical

    def add_up(self, weights: Array, pivot: Array) -> tuple[Array, Array]:
        """Return the sum of the samples minus a pivot for each row of ``weights``, and their squared norms."""
        xp, size = self._xp, prod(self.shape)
        less = like(pivot.ravel(), self.array, self.dtype)
        factors = like(weights, self.array, self.dtype)
        sums, squares = np.zeros((len(weights), size)), np.empty(len(self))
        for where in self._slices():
            part = xp.reshape(self.array[where, ...], (-1, size)) - less
            sums += to_host(factors[:, where] @ part)
            squares[where] = to_host(xp.sum(part * part, axis=1))
        return sums, squares

    def shift(self, pivot: Array) -> None:
        """Replace the samples by a copy with a pivot subtracted."""
        self.pivot = pivot.astype(self.dtype)
        self.array = self.array - like(self.pivot, self.array)
        self._shifted = True

    def vary(self, centred: bool) -> bool:
        """Return whether any sample differs from the first one (from zero if not ``centred``)."""
        reference = self.array[0, ...] if centred else 0.0
        return any(bool(self._xp.any(self.array[where, ...] != reference)) for where in self._slices())

    def scores(self, weights: Array) -> Array:
        """Return ``<W_k, Z_i>`` for dense weights, as an N x n_weights NumPy array."""
        return to_host(self.on_device_scores(like(weights, self.array, self.dtype)))

    def on_device_scores(self, weights: Any) -> Any:
        """Return `scores` as an array on the device, for weights on the device."""
        xp = self._xp
        columns = xp.matrix_transpose(xp.reshape(weights, (weights.shape[0], -1)))
        scores = [thin_product(xp.reshape(part, (part.shape[0], -1)), columns) for _, part in self._parts()]
        return scores[0] if len(scores) == 1 else xp.concat(scores, axis=0)

    def design(self, contraction: Contraction) -> Array | Design:
        """Return the design of a block as a NumPy array, computed on the device; for a full weight it stays there."""
        if contraction.is_whole:
            parts = [part for _, part in self._parts()]
            whole = parts[0] if len(parts) == 1 else self._xp.concat(parts, axis=0)
            rows = self._xp.reshape(whole, (len(self), -1))
            return DeviceDesign(rows) if has_float64(rows) else to_host(rows)
        kernel = like(contraction.kernel[None], self.array, self.dtype)
        return to_host(around(self._partial(contraction)[None, ...], contraction.size, kernel)[0, ...])

    def _partial(self, contraction: Contraction) -> Any:
        """Return the samples with one half contracted; cached and reused for equal matrices."""
        half, matrices = contraction.half, contraction.matrices
        if half != self._question[0] or not same_matrices(self._question[1], matrices):
            answers = [contract_half(part, half, matrices) for _, part in self._parts()]
            self._answer = answers[0] if len(answers) == 1 else self._xp.concat(answers, axis=0)
            self._question = (half, matrices)
        return self._answer

    def chunks_here(self) -> Iterator[tuple[slice, Array]]:
        """Yield (positions, samples) as NumPy arrays."""
        for where in self._slices():
            yield where, to_host(self.array[where, ...])

    def _parts(self) -> Iterator[tuple[slice, Any]]:
        """Yield (positions, samples) minus the pivot; all samples at once if nothing has to be subtracted."""
        if self.pivot is None or self._shifted:
            yield slice(0, len(self)), self.array
            return
        less = like(self.pivot, self.array, self.dtype)
        for where in self._slices():
            yield where, self.array[where, ...] - less

    def _slices(self) -> Iterator[slice]:
        return slices(
            slice(0, len(self)), max(1, tuning.DEVICE_CHUNK_BYTES // (prod(self.shape) * self.dtype.itemsize))
        )


class DeviceDesign(Design):
    """Samples as rows of a matrix that stays on its device; sums are in float64, part by part."""

    def __init__(self, array: Any) -> None:
        self._xp = namespace(array)
        self._array = array
        self.shape = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = dtype_of(array)

    def to_numpy(self) -> Array:
        """Return the matrix as a NumPy array."""
        return to_host(self._array)

    def weighted_sum(self, weights: Array) -> FloatArray:
        """Return ``sum_i weights_i z_i``."""
        total = np.zeros(self.shape[1])
        factors = like(weights, self._array, np.float64)
        for where in self._slices(self.shape):
            total += to_host(factors[where] @ self._double(self._array[where, :]))
        return total

    def products(self, vector: Array) -> FloatArray:
        """Return ``z_i . vector`` for every row."""
        column = like(vector, self._array, np.float64)
        parts = [to_host(self._double(self._array[where, :]) @ column) for where in self._slices(self.shape)]
        return np.concatenate(parts)

    def gram(self, centre: Array) -> FloatArray:
        """Return the inner products of the rows minus ``centre``."""
        xp, (n_rows, _) = self._xp, self.shape
        less = like(centre, self._array, np.float64)
        total = xp.zeros((n_rows, n_rows), dtype=less.dtype, device=less.device)
        for where in self._slices(self.shape[::-1]):
            part = self._double(self._array[:, where]) - less[where]
            total = total + part @ xp.matrix_transpose(part)
        return to_host(total)

    def _double(self, part: Any) -> Any:
        return self._xp.astype(part, self._xp.float64)

    @staticmethod
    def _slices(shape: tuple[int, int]) -> Iterator[slice]:
        return slices(slice(0, shape[0]), max(1, tuning.DEVICE_CHUNK_BYTES // (8 * shape[1])))


def contract_half(samples: Any, half: str, matrices: Sequence[Array]) -> Any:
    """Contract the modes of one half of every sample; return N rows of q x (tail sizes), or of (head sizes) x q.

    ``matrices`` are the small NumPy arrays of a `Contraction`.
    """
    xp, shape = namespace(samples), tuple(samples.shape)
    if not matrices:
        return xp.reshape(samples, (shape[0], -1))
    split = 1 + best_split(shape[1:])
    outer, inner = (1, prod(shape[split:])) if half == "head" else (prod(shape[1:split]), 1)
    merged = merge_small(list(matrices))
    tensors = xp.reshape(samples, (shape[0] * outer, *(len(matrix) for matrix in merged), inner))
    for axis in range(len(merged), 0, -1):
        tensors = _mode_product(tensors, axis, merged[axis - 1])
    return xp.reshape(tensors, (shape[0], -1))


def _mode_product(tensors: Any, axis: int, matrix: Array) -> Any:
    """Contract one axis (never the first) with the rows of ``matrix``."""
    xp, shape = namespace(tensors), tuple(tensors.shape)
    before, after = prod(shape[:axis]), prod(shape[axis + 1 :])
    if after == 1:
        product = thin_product(xp.reshape(tensors, (before, shape[axis])), like(matrix, tensors, dtype_of(tensors)))
    else:
        rows = like(matrix.T, tensors, dtype_of(tensors))
        product = thin_product(rows, xp.reshape(tensors, (before, shape[axis], after)))
    return xp.reshape(product, (*shape[:axis], matrix.shape[1], *shape[axis + 1 :]))


def around(partial: Any, size: int, kernel: Any) -> Any:
    """Contract the entries before and after one axis, for a batch of weights.

    Parameters
    ----------
    partial : array of shape (B, N, L * size * T)
    size : int
        Length of the remaining axis.
    kernel : array of shape (B, L, T, r)

    Returns
    -------
    array of shape (B, N, size * r)
    """
    xp = namespace(partial)
    n_batch, lead, trail, columns = kernel.shape
    n_samples = partial.shape[1]
    if lead > 1:
        partial = xp.reshape(partial, (n_batch, n_samples, lead, size, trail))
        partial = xp.permute_dims(partial, (0, 1, 3, 2, 4))  # one large matrix product instead of many small ones
    flat = xp.reshape(partial, (n_batch, n_samples * size, lead * trail))
    product = flat @ xp.reshape(kernel, (n_batch, lead * trail, columns))
    return xp.reshape(product, (n_batch, n_samples, size * columns))
