"""Samples in memory: chunks, moments, and contractions shared between blocks.

Samples are read in chunks of whole samples. Float32 arrays are used without a copy. Others are cast once, in the first
pass, to a working copy of at most about half their size, or chunk by chunk in every pass if that copy would be too
large (small integers, memory maps). NumPy's ``matmul`` contracts samples-first arrays at memory bandwidth (MNIST, 12k
images, one mode: 2 ms in float32; reordering them to samples-last would cost 51 ms once).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy as shallow_copy
from functools import reduce
from itertools import combinations
from math import prod
from mmap import mmap

import numpy as np

from ...runtime import Array, over_parts, slices, sum_over_parts, tuning
from ..contractions import Contraction, best_split
from ..row_loops import add_moments
from .base import HalfContraction, Moments, Samples, Sums, offset_costs_digits, typical_rows, working_dtype


class MemorySamples(Samples):
    """Samples in a NumPy array of any real dtype, which may be read-only or memory-mapped, contracted in chunks.

    ``rows`` are the samples to use, in this order (None for all). The ``dtype`` of the computations is by default the
    one that holds the samples without loss. A ``pivot`` is subtracted from every sample that is read, unless the array
    is already ``shifted``.
    """

    def __init__(
        self,
        array: Array,
        rows: Array | None = None,
        dtype: np.dtype | None = None,
        pivot: Array | None = None,
        shifted: bool = False,
    ) -> None:
        self._array = array
        self._rows = rows
        self.shape = array.shape[1:]
        self.dtype = working_dtype(array.dtype) if dtype is None else dtype
        self.split = best_split(self.shape)
        self.pivot = pivot
        self._shifted = shifted
        self._last = HalfContraction()

    @property
    def in_memory(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self._array) if self._rows is None else len(self._rows)

    def take(self, rows: Array) -> MemorySamples:
        positions = rows if self._rows is None else self._rows[rows]
        chosen = MemorySamples(np.empty((len(rows), *self.shape), self.dtype), pivot=self.pivot, shifted=True)
        for where in slices(slice(0, len(rows)), self._samples_in(tuning.CHUNK_BYTES)):
            self._cast(self._array[positions[where]], chosen._array[where])
        return chosen

    def chunks(self, n_bytes: int = tuning.CHUNK_BYTES, within: slice | None = None) -> Iterator[tuple[slice, Array]]:
        """Yield (positions, samples), with the samples C-contiguous, in the working dtype and minus the pivot."""
        for where in slices(within or slice(0, len(self)), self._samples_in(n_bytes)):
            yield where, self._cast(self._raw(where))

    def _raw(self, where: slice) -> Array:
        return self._array[where] if self._rows is None else self._array[self._rows[where]]

    def _samples_in(self, n_bytes: int) -> int:
        return max(1, n_bytes // max(1, prod(self.shape) * self.dtype.itemsize))

    def _cast(self, part: Array, out: Array | None = None) -> Array:
        """Return samples minus the pivot, in the working dtype (written to ``out`` if given)."""
        if self.pivot is None or self._shifted:
            if out is None:
                return np.ascontiguousarray(part, dtype=self.dtype)
            np.copyto(out, part, casting="same_kind")
            return out
        out = np.empty(part.shape, self.dtype) if out is None else out
        return np.subtract(part, self.pivot, out=out, casting="same_kind")

    @property
    def _is_ready(self) -> bool:
        """Return whether nothing is left to do to the samples when they are read."""
        return self._rows is None and self._array.dtype == self.dtype and (self.pivot is None or self._shifted)

    def matrix(self) -> Array:
        if self._is_ready:
            return self._array.reshape(len(self), -1)
        flat = np.empty((len(self), prod(self.shape)), self.dtype)
        for where, part in self.chunks():
            flat[where] = part.reshape(len(part), -1)
        return flat

    def for_another_fit(self) -> MemorySamples:
        """Return the same samples for a fit at the same time: it has its own memory of the last contraction."""
        other = shallow_copy(self)
        other._last, other.kept_of_all = HalfContraction(), self.kept_of_all
        return other

    def vary(self, centred: bool) -> bool:
        return self.differ(next(self.chunks(1))[1][0] if centred else 0.0)

    def differ(self, reference: Array | float) -> bool:
        return any(bool(np.any(part != reference)) for _, part in self.chunks())

    def first_pass(self, weights: Array, signs: Array, centred: bool, noise: bool = False) -> Moments:
        """Return the moments; keep a working copy of samples that are cast, or the pivot if the offset costs digits."""
        as_it_is = self._rows is None and self._array.dtype == self.dtype
        copy = None if as_it_is or not self._may_copy() else np.empty((len(self), *self.shape), self.dtype)
        typical = self.typical().astype(self.dtype) if centred else np.zeros(self.shape, self.dtype)
        if centred and not as_it_is:
            self.pivot = typical
        sums = self.add_up(weights, weights * signs, typical if as_it_is else np.zeros(self.shape), copy)
        moments = sums.moments(weights, signs, centred, self.shape)
        if copy is not None:
            self._array, self._rows, self._shifted = copy, None, True
        elif as_it_is and offset_costs_digits(typical, moments.mean_square, self):
            self.pivot = typical
        return moments

    def add_up(self, weights: Array, signed_weights: Array, pivot: Array, copy: Array | None = None) -> Sums:
        """Return the sums of the samples minus another pivot; the cast samples are stored in ``copy`` if given."""
        less = pivot.astype(self.dtype).ravel()

        def add_part(part: slice) -> Array:
            total = np.zeros((3, less.size))  # weighted sum, signed sum, and the sum of squares in [2, 0]
            for where in slices(part, max(tuning.CHUNK_SAMPLES, self._samples_in(tuning.CHUNK_BYTES))):
                samples = self._cast(self._raw(where), None if copy is None else copy[where])
                add_moments(samples.reshape(len(samples), -1), less, weights[where], signed_weights[where], total)
            return total

        weighted, signed, squares = sum_over_parts(add_part, len(self), self.nbytes)
        return Sums(weighted, signed, float(squares[0]))

    def typical(self) -> Array:
        few = typical_rows(len(self))
        positions = few if self._rows is None else self._rows[few]
        rows = list(self._array[positions].astype(np.float64))
        for a, b in combinations(range(len(rows)), 2):  # a sixth of the time of np.sort
            rows[a], rows[b] = np.minimum(rows[a], rows[b]), np.maximum(rows[a], rows[b])
        lower, upper = rows[(len(few) - 1) // 2], rows[len(few) // 2]
        return lower + (upper - lower) / 2

    def _may_copy(self) -> bool:
        """Return whether a working copy is small compared with the samples, and these are not memory-mapped."""
        return not _is_mapped(self._array) and self.nbytes <= max(
            tuning.COPY_BYTES, tuning.COPY_SHARE * self._array.nbytes
        )

    def scores(self, weights: Array) -> Array:
        columns = weights.reshape(len(weights), -1).T
        scores = np.empty((len(self), len(weights)), np.result_type(weights, self.dtype))

        def multiply(within: slice) -> None:
            for where, part in self.chunks(within=within):
                scores[where] = part.reshape(len(part), -1) @ columns

        over_parts(multiply, len(self), self.nbytes)
        return scores

    def design(self, contraction: Contraction) -> Array:
        """Return the design of a block; for a full weight a view of the samples, if possible.

        The blocks of a half share a contraction, so a sweep reads the samples twice (a dimension tree of two halves).
        """
        if contraction.is_whole:
            return self.matrix()
        partial = self.partial(contraction.half, contraction.matrices)
        return contract_around(partial, contraction.size, contraction.kernel)

    def partial(self, half: str, matrices: Sequence[Array]) -> Array:
        """Return the samples with one half contracted: N rows of q x (tail sizes), or of (head sizes) x q."""
        if not matrices:  # samples of order 1 have no tail: nothing to contract
            return self.matrix()
        if not self._last.is_of(half, matrices):
            kept = prod(self.shape[self.split :] if half == "head" else self.shape[: self.split])
            outer, inner = (1, kept) if half == "head" else (kept, 1)
            turns = self._last.turns_to(half, matrices)
            if turns is None:
                result = self._contract(matrices, self._last.result, outer, inner)
            else:  # the last contraction has all that is needed, and is smaller than the samples
                sizes = tuple(len(turn) for turn in turns)
                shape = (*sizes, inner) if half == "head" else (outer, *sizes)
                last = MemorySamples(self._last.result.reshape(len(self), *shape), dtype=self.dtype)
                result = last._contract(turns, None, outer, inner)
            self._last = HalfContraction(half, list(matrices), result)
        return self._last.result

    def within(self, bases: Sequence[Array]) -> MemorySamples:
        partial = self.partial("head", bases[: self.split]).reshape(len(self), -1)
        rest = bases[self.split :]
        lead = prod(basis.shape[1] for basis in bases[: self.split])
        tail = MemorySamples(partial.reshape(len(self), lead, *self.shape[self.split :]), dtype=self.dtype)
        inside = tail._contract(rest, None, lead, 1) if rest else partial
        array = inside.astype(np.float64).reshape(len(self), *(basis.shape[1] for basis in bases))
        return MemorySamples(array)

    def _contract(self, matrices: Sequence[Array], memory: Array | None, outer: int, inner: int) -> Array:
        """Contract the modes between ``outer`` leading and ``inner`` trailing entries, into ``memory`` if it fits."""
        merged = merge_small([np.asarray(matrix, self.dtype) for matrix in matrices])
        sizes = [len(matrix) for matrix in merged]
        columns = prod(matrix.shape[1] for matrix in merged)
        size = len(self) * outer * columns * inner
        reused = memory if memory is not None and memory.size == size else np.empty(size, self.dtype)
        out = reused.reshape(len(self), -1)
        no_temporary = len(merged) == 1 and self._is_ready and self._array.flags.c_contiguous
        n_bytes = self.nbytes if no_temporary else tuning.CHUNK_BYTES

        def contract_part(within: slice) -> None:
            for where, part in self.chunks(n_bytes, within):
                tensors = part.reshape(len(part) * outer, *sizes, inner)
                for axis in range(len(merged), 1, -1):
                    tensors = _mode_product(tensors, axis, merged[axis - 1])
                _mode_product(tensors, 1, merged[0], out[where])

        over_parts(contract_part, len(self), self.nbytes)
        return out


def _mode_product(tensors: Array, axis: int, matrix: Array, out: Array | None = None) -> Array:
    """Contract one axis (never the first) with the rows of ``matrix``."""
    shape = tensors.shape
    lo, hi, columns = prod(shape[:axis]), prod(shape[axis + 1 :]), matrix.shape[1]
    if out is not None:
        out = out.reshape((lo, columns) if hi == 1 else (lo, columns, hi))
    if hi == 1:
        out = np.matmul(tensors.reshape(lo, -1), matrix, out=out)
    else:
        out = np.matmul(matrix.T, tensors.reshape(lo, shape[axis], hi), out=out)
    return out.reshape(*shape[:axis], columns, *shape[axis + 1 :])


def contract_around(partial: Array, size: int, kernel: Array) -> Array:
    """Return ``out[n, i, r] = sum_lt partial[n, l, i, t] kernel[l, t, r]``, with one axis left, as N x (size * r)."""
    lead, trail, columns = kernel.shape
    kernel = kernel.astype(partial.dtype, copy=False)
    partial = partial.reshape(-1, lead * size * trail)
    product = _around_product(size, kernel)
    out = np.empty((len(partial), size * columns), partial.dtype)

    def contract_part(part: slice) -> None:
        product(partial[part], out[part])

    over_parts(contract_part, len(partial), partial.nbytes)
    return out


def _around_product(size: int, kernel: Array) -> Callable[[Array, Array], object]:
    """Return the function ``(partial, out) -> None`` that is fastest for these sizes."""
    lead, trail, columns = kernel.shape
    if kernel.size == 1:
        return lambda partial, out: np.multiply(partial, kernel.item(), out=out)
    if lead == 1:
        return lambda partial, out: np.matmul(partial.reshape(-1, trail), kernel[0], out=out.reshape(-1, columns))
    if lead * trail * columns * size**2 <= tuning.WASTEFUL_PRODUCT:
        # One product with a mostly zero matrix beats thousands of tiny ones (MNIST, Tucker: 5 against 20 ms).
        spread = np.einsum("ltr,ij->litjr", kernel, np.eye(size, dtype=kernel.dtype))
        spread = spread.reshape(lead * size * trail, size * columns)
        return lambda partial, out: np.matmul(partial, spread, out=out)
    if trail == 1:
        transposed = kernel[:, 0, :].T
        return lambda partial, out: np.copyto(
            out.reshape(-1, size, columns), np.matmul(transposed, partial.reshape(-1, lead, size)).transpose(0, 2, 1)
        )
    return lambda partial, out: np.sum(
        np.matmul(partial.reshape(-1, lead, size, trail), kernel), axis=1, out=out.reshape(-1, size, columns)
    )


def merge_small(matrices: list[Array]) -> list[Array]:
    """Return the matrices, or their Kronecker product if it has few columns: as fast, without an intermediate."""
    if prod(matrix.shape[1] for matrix in matrices) > tuning.KRONECKER_COLUMNS:
        return matrices
    return [reduce(np.kron, matrices)]


def _is_mapped(array: Array) -> bool:
    """Return whether an array is, or is a view of, a memory map."""
    base: object = array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            return True
        base = base.base
    return isinstance(base, mmap)
