"""Samples in an array of PyTorch, CuPy or another array API library, contracted on their device.

The formulas are those of `samples.memory`, in the array API and for any number of weights at a time.

Samples can be shared by many problems: one-vs-one pairs, folds, values of lambda, several starts. Those that belong to
the same problems form a cell (a class, for pairs; a fold). Cells are stored contiguously, and a contraction multiplies
each by the matrices of all its problems together: the samples are read once, not once per problem, and the product is
large enough for the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from ...runtime import (
    Array,
    FloatArray,
    cast,
    dtype_of,
    has_float64,
    inverse_of_factor,
    like,
    namespace,
    slices,
    thin_product,
    to_host,
    tuning,
)
from ..contractions import Contraction, best_split
from ..designs import Design, Matrix
from .base import (
    HalfContraction,
    Moments,
    Samples,
    Sums,
    deviations,
    made_by_halves,
    offset_costs_digits,
    rows_of_noise,
    typical_rows,
    working_dtype,
)
from .memory import merge_small


class DeviceSamples(Samples):
    """Samples on a device, with the arguments of `MemorySamples`; copied only if rows or the dtype require it."""

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
        self._last = HalfContraction()

    def __len__(self) -> int:
        return int(self.array.shape[0])

    def take(self, rows: Array) -> DeviceSamples:
        chosen = DeviceSamples(self.array, rows, self.dtype, self.pivot)
        chosen._shifted = self._shifted
        return chosen

    def noise(self, weights: Array, signs: Array) -> Array:
        rows = rows_of_noise(signs, self.shape)
        return deviations(self.rows_on_host(rows), weights[rows], signs[rows])

    def rows_on_host(self, rows: Array) -> Array:
        """Return some samples as rows of a matrix in memory, in float64."""
        taken = to_host(self._xp.take(self.array, like(rows, self.array), axis=0))
        return taken.reshape(len(rows), -1).astype(np.float64)

    def first_pass(self, weights: Array, signs: Array, centred: bool, noise: bool = False) -> Moments:
        typical = self.typical() if centred else np.zeros(self.shape)
        sums, squares = self.add_up(np.stack([weights, weights * signs]), typical)
        moments = Sums(sums[0], sums[1], float(weights @ squares)).moments(weights, signs, centred, self.shape)
        if offset_costs_digits(typical, moments.mean_square, self):
            self.pivot = typical.astype(self.dtype)
        return moments

    def typical(self) -> Array:
        """Return the entrywise median of a few samples."""
        few = self._xp.take(self.array, like(typical_rows(len(self)), self.array), axis=0)
        count, few = few.shape[0], self._xp.sort(few, axis=0)
        middle = [to_host(few[place, ...]).astype(np.float64) for place in ((count - 1) // 2, count // 2)]
        typical: Array = (middle[0] + middle[1]) / 2
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
        reference = self.array[0, ...] if centred else 0.0
        return any(bool(self._xp.any(self.array[where, ...] != reference)) for where in self._slices())

    def scores(self, weights: Array) -> Array:
        return to_host(self.on_device_scores(like(weights, self.array, self.dtype)))

    def on_device_scores(self, weights: Any) -> Any:
        """Return `scores` as an array on the device, for weights on the device."""
        xp = self._xp
        columns = xp.matrix_transpose(xp.reshape(weights, (weights.shape[0], -1)))
        return self._joined([thin_product(xp.reshape(part, (part.shape[0], -1)), columns) for part in self._parts()])

    def design(self, contraction: Contraction) -> Array | Design:
        """Return the design of a block as a NumPy array, computed on the device; for a full weight it stays there."""
        if contraction.is_whole:
            rows = self._xp.reshape(self._joined(list(self._parts())), (len(self), -1))
            return DeviceDesign(rows) if has_float64(rows) else to_host(rows)
        return to_host(self._contracted(contraction))

    def _contracted(self, contraction: Contraction) -> Any:
        kernel = like(contraction.kernel[None], self.array, self.dtype)
        return around(self._partial(contraction)[None, ...], contraction.size, kernel)[0, ...]

    def side_by_side(self, contractions: Sequence[Contraction]) -> Array | Design:
        """Return the designs of several contractions as one; on the device as well if it is worth its while."""

        def projected(contraction: Contraction) -> Any:
            return without_removed(self._contracted(contraction)[None, ...], [contraction.removed])[0, ...]

        return held(self._xp.concat(made_by_halves(contractions, projected), axis=1))

    def _partial(self, contraction: Contraction) -> Any:
        """Return the samples with one half contracted; cached and reused for equal matrices."""
        half, matrices = contraction.half, contraction.matrices
        if not self._last.is_of(half, matrices):
            result = self._joined([contract_half(part, half, matrices) for part in self._parts()])
            self._last = HalfContraction(half, matrices, result)
        return self._last.result

    def _joined(self, parts: list[Any]) -> Any:
        return parts[0] if len(parts) == 1 else self._xp.concat(parts, axis=0)

    def numpy_chunks(self) -> Iterator[tuple[slice, Array]]:
        for where in self._slices():
            yield where, to_host(self.array[where, ...])

    def _parts(self) -> Iterator[Any]:
        """Yield the samples minus the pivot, in parts; all samples at once if nothing has to be subtracted."""
        if self.pivot is None or self._shifted:
            yield self.array
            return
        less = like(self.pivot, self.array, self.dtype)
        for where in self._slices():
            yield self.array[where, ...] - less

    def _slices(self) -> Iterator[slice]:
        return slices(
            slice(0, len(self)), max(1, tuning.DEVICE_CHUNK_BYTES // (prod(self.shape) * self.dtype.itemsize))
        )


def held(design: Any) -> Array | Design:
    """Return a design from a device in memory; a large one is kept there as well, for what takes long here."""
    n_rows, width = design.shape
    if n_rows * width <= tuning.SMALL_DESIGN or n_rows * width**2 < tuning.HELD_PRODUCTS or not has_float64(design):
        return to_host(design)
    return HeldDesign(design)


class DeviceDesign(Design):
    """Samples as rows of a matrix that stays on its device; sums are in float64, part by part."""

    def __init__(self, array: Any) -> None:
        self._xp = namespace(array)
        self._array = array
        self.shape = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = dtype_of(array)

    def to_numpy(self) -> Array:
        return to_host(self._array)

    def weighted_sum(self, weights: Array) -> FloatArray:
        total = np.zeros(self.shape[1])
        factors = like(weights, self._array, np.float64)
        for where in self._slices(self.shape):
            total += to_host(factors[where] @ self._double(self._array[where, :]))
        return total

    def products(self, vector: Array) -> FloatArray:
        column = like(vector, self._array, np.float64)
        parts = [to_host(self._double(self._array[where, :]) @ column) for where in self._slices(self.shape)]
        return np.concatenate(parts)

    def gram(self, centre: Array) -> FloatArray:
        xp, (n_rows, _) = self._xp, self.shape
        less = like(centre, self._array, np.float64)
        total = xp.zeros((n_rows, n_rows), dtype=less.dtype, device=less.device)
        for where in self._slices(self.shape[::-1]):
            part = self._double(self._array[:, where]) - less[where]
            total = total + part @ xp.matrix_transpose(part)
        return to_host(total)

    def whitening(
        self, centre: Array, weights: Array, signs: Array, bias: float, mu1: float
    ) -> tuple[FloatArray, FloatArray] | None:
        xp = self._xp
        less, roots, signed = (
            like(one, self._array, np.float64) for one in (centre, np.sqrt(weights), signs * np.sqrt(weights))
        )
        width = self.shape[1] + bool(bias)
        total = xp.zeros((width + 1, width), dtype=less.dtype, device=less.device)  # the mean above the second moments
        for where in self._slices(self.shape):
            part = self._double(self._array[where, :]) - less
            if bias:
                part = xp.concat([part, xp.full_like(part[:, :1], bias)], axis=1)
            part = part * roots[where, None]
            total = total + xp.concat([signed[where][None, :], xp.matrix_transpose(part)], axis=0) @ part
        mean, second = total[0, :], total[1:, :]
        quadratic = 2.0 * mu1 * (second - mean[:, None] * mean[None, :])
        quadratic = quadratic + xp.eye(width, dtype=quadratic.dtype, device=quadratic.device)
        inverse = inverse_of_factor(quadratic)
        return None if inverse is None else (to_host(inverse), to_host(xp.linalg.diagonal(second)))

    def _double(self, part: Any) -> Any:
        return self._xp.astype(part, self._xp.float64)

    @staticmethod
    def _slices(shape: tuple[int, int]) -> Iterator[slice]:
        return slices(slice(0, shape[0]), max(1, tuning.DEVICE_CHUNK_BYTES // (8 * shape[1])))


class HeldDesign(Matrix):
    """A design in memory that its device still has as well: that squares and inverts it in a fraction of the time."""

    def __init__(self, array: Any) -> None:
        super().__init__(to_host(array))
        self._there = DeviceDesign(array)

    def gram(self, centre: Array) -> FloatArray:
        return self._there.gram(centre)

    def whitening(
        self, centre: Array, weights: Array, signs: Array, bias: float, mu1: float
    ) -> tuple[FloatArray, FloatArray] | None:
        return self._there.whitening(centre, weights, signs, bias, mu1)


def contract_half(samples: Any, half: str, matrices: Sequence[Array]) -> Any:
    """Contract the modes of one half of every sample; return N rows of q x (tail sizes), or of (head sizes) x q."""
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
    """Contract partial results (B, N, L * size * T) around one axis with kernels (B, L, T, r) to (B, N, size * r)."""
    xp = namespace(partial)
    n_batch, lead, trail, columns = kernel.shape
    n_samples = partial.shape[1]
    if lead > 1:
        partial = xp.reshape(partial, (n_batch, n_samples, lead, size, trail))
        partial = xp.permute_dims(partial, (0, 1, 3, 2, 4))  # one large matrix product instead of many small ones
    flat = xp.reshape(partial, (n_batch, n_samples * size, lead * trail))
    product = flat @ xp.reshape(kernel, (n_batch, lead * trail, columns))
    return xp.reshape(product, (n_batch, n_samples, size * columns))


def without_removed(designs: Any, removed: Sequence[Array | None]) -> Any:
    """Return designs (B, N, d) without the removed directions, as `Contraction.projected` does for one."""
    present = [one for one in removed if one is not None]
    if not present:
        return designs
    xp = namespace(designs)
    directions = like(np.stack(present)[:, None], designs, dtype_of(designs))
    along = xp.reshape(designs, (*designs.shape[:2], directions.shape[2], -1))
    parts = xp.matmul(directions, xp.matmul(xp.matrix_transpose(directions), along))
    return xp.reshape(along - parts, designs.shape)


@dataclass(frozen=True)
class _Cell:
    """Consecutive samples, and the first row that they occupy in each of their problems, as {problem: row}."""

    where: slice
    offsets: dict[int, int]


class SharedSamples:
    """Samples shared by problems, whose ``rows`` are in the order of their designs, with one pivot for all of them."""

    def __init__(self, X: Any, rows: Sequence[Array | None], dtype: np.dtype | None = None) -> None:
        n_total = int(X.shape[0])
        order, self._cells = _cells(n_total, rows)
        in_place = len(order) == n_total and bool(np.all(order == np.arange(n_total)))
        self._samples = DeviceSamples(X, None if in_place else order, dtype)
        self._xp = namespace(X)
        self.shape, self.dtype = self._samples.shape, self._samples.dtype
        self.rows: list[Array] = [
            np.concatenate([order[cell.where] for cell in self._cells if problem in cell.offsets])
            for problem in range(len(rows))
        ]

    def pivot(self, problem: int) -> Array | None:
        """Return the tensor that has been subtracted from every sample of a problem, the same for all, or None."""
        return self._samples.pivot

    @property
    def like(self) -> Any:
        """An array in the library and on the device of the samples."""
        return self._samples.array

    def first_pass(
        self, weights: Sequence[Array], signs: Sequence[Array], centred: bool, noise: bool = False
    ) -> list[Moments]:
        """Return the moments of each problem, given weights and signs in the order of `rows`."""
        n_samples = len(self._samples)
        both = np.zeros((2 * len(weights), n_samples))
        for cell in self._cells:
            for problem, first in cell.offsets.items():
                part = slice(first, first + cell.where.stop - cell.where.start)
                both[2 * problem, cell.where] = weights[problem][part]
                both[2 * problem + 1, cell.where] = weights[problem][part] * signs[problem][part]
        typical = self._samples.typical() if centred else np.zeros(self.shape)
        sums, squares = self._samples.add_up(both, typical)
        moments = [
            Sums(sums[2 * k], sums[2 * k + 1], float(both[2 * k] @ squares)).moments(p, t, centred, self.shape)
            for k, (p, t) in enumerate(zip(weights, signs, strict=True))
        ]
        if any(offset_costs_digits(typical, one.mean_square, self._samples) for one in moments):
            self._samples.shift(typical)
        return moments

    def noise(self, problem: int, weights: Array, signs: Array) -> Array:
        """Return how some samples of a problem differ from the mean of their class (`Samples.noise`)."""
        cells = [cell.where for cell in self._cells if problem in cell.offsets]
        places = np.concatenate([np.arange(where.start, where.stop) for where in cells])
        in_order = np.argsort(self.rows[problem])  # so that the same ones are drawn as in memory
        rows = in_order[rows_of_noise(signs[in_order], self.shape)]
        return deviations(self._samples.rows_on_host(places[rows]), weights[rows], signs[rows])

    def designs(self, which: Sequence[int], contractions: Sequence[Contraction]) -> Any:
        """Return the designs of some problems as one array of shape (len(which), rows of the largest, d).

        The contractions must have equal sizes. Problems with fewer rows are padded with zeros.
        """
        partial = self._partials(which, contractions)
        kernel = np.stack([contraction.kernel for contraction in contractions])
        if kernel.size == len(which) and np.all(kernel == 1.0):
            designs = partial
        else:
            designs = around(partial, contractions[0].size, like(kernel, self.like, self.dtype))
        return without_removed(designs, [contraction.removed for contraction in contractions])

    def side_by_side(self, parts: list[Any]) -> Any:
        """Return designs of the same problems as one."""
        return parts[0] if len(parts) == 1 else self._xp.concat(parts, axis=2)

    def _partials(self, which: Sequence[int], contractions: Sequence[Contraction]) -> Any:
        """Return the samples of the problems with one half contracted, padded to the same number of rows."""
        xp, array = self._xp, self.like
        n_rows = max(len(self.rows[problem]) for problem in which)
        kernel = contractions[0].kernel
        width = kernel.shape[0] * kernel.shape[1] * contractions[0].size
        partials = xp.zeros((len(which), n_rows, width), dtype=array.dtype, device=array.device)
        matrices = [reduce(np.kron, one.matrices) if one.matrices else None for one in contractions]
        for cell in self._cells:
            own = [k for k, problem in enumerate(which) if problem in cell.offsets]
            if own:
                parts = self._contract(cell.where, contractions[0].half, [matrices[k] for k in own])
                for k, part in zip(own, parts, strict=True):
                    first = cell.offsets[which[k]]
                    partials[k, first : first + part.shape[0], :] = part
        return partials

    def _contract(self, where: slice, half: str, matrices: list[Array | None]) -> list[Any]:
        """Contract one half of consecutive samples with several matrices at a time; return one result per matrix."""
        xp, part = self._xp, self.like[where, ...]
        count = part.shape[0]
        if matrices[0] is None:
            return [xp.reshape(part, (count, -1))] * len(matrices)
        split = best_split(self.shape)
        head, tail = prod(self.shape[:split]), prod(self.shape[split:])
        together = np.concatenate([matrix for matrix in matrices if matrix is not None], axis=1)  # none is None here
        if half == "head":
            product = thin_product(like(together.T, part, self.dtype), xp.reshape(part, (count, head, tail)))
            product = xp.reshape(product, (count, len(matrices), -1))
            return [product[:, k, :] for k in range(len(matrices))]
        product = thin_product(xp.reshape(part, (count * head, tail)), like(together, part, self.dtype))
        product = xp.reshape(product, (count, head, len(matrices), -1))
        return [xp.reshape(product[:, :, k, :], (count, -1)) for k in range(len(matrices))]


def _cells(n_total: int, rows: Sequence[Array | None]) -> tuple[Array, list[_Cell]]:
    """Return the samples that belong to any problem, ordered by cell, and the cells."""
    member = np.zeros((n_total, len(rows)), bool)
    for problem, own in enumerate(rows):
        member[slice(None) if own is None else own, problem] = True
    packed = np.packbits(member, axis=1)
    keys = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, cell_of = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(cell_of, kind="stable")
    taken = [0] * len(rows)
    cells, begin, left_out = [], 0, 0
    for number, size in enumerate(np.bincount(cell_of).tolist()):
        problems = np.flatnonzero(member[first[number]]).tolist()
        if not problems:  # unused samples sort first: their key is zero
            left_out = size
            continue
        cells.append(_Cell(slice(begin, begin + size), {problem: taken[problem] for problem in problems}))
        for problem in problems:
            taken[problem] += size
        begin += size
    return order[left_out:], cells
