"""Samples on a device, shared by many problems: one-vs-one pairs, folds, values of lambda, several starts.

Samples that belong to the same problems form a cell (a class, for pairs; a fold). Cells are stored contiguously, and a
contraction multiplies each by the matrices of all its problems together: the samples are read once, not once per
problem, and the product is large enough for the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from ...runtime import Array, like, namespace, thin_product
from ..contractions import Contraction, best_split
from .base import Moments, Sums, offset_costs_digits
from .device import DeviceSamples, around


@dataclass(frozen=True)
class _Cell:
    """Consecutive samples, and the first row that they occupy in each of their problems, as {problem: row}."""

    where: slice
    offsets: dict[int, int]


class SharedSamples:
    """Samples shared by several problems.

    Parameters
    ----------
    X : array of shape (n_total, I_1, ..., I_M)
        Array of an array API library.
    rows : sequence of ndarray of int, or None
        The samples of each problem; None for all samples.
    dtype : dtype, optional
        As in `DeviceSamples`.

    Attributes
    ----------
    rows : list of ndarray of int
        The samples of each problem, in the row order of its designs.
    pivot : ndarray or None
        As in `Samples`; the same for all problems.
    """

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

    @property
    def pivot(self) -> Array | None:
        """The tensor that has been subtracted from every sample, or None."""
        return self._samples.pivot

    @property
    def like(self) -> Any:
        """An array in the library and on the device of the samples."""
        return self._samples.array

    def first_pass(self, weights: Sequence[Array], signs: Sequence[Array], centred: bool) -> list[Moments]:
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
        return self._projected(designs, [contraction.removed for contraction in contractions])

    def _projected(self, designs: Any, removed: list[Array | None]) -> Any:
        """Return designs without the removed directions, as `Contraction.projected` does for one."""
        present = [one for one in removed if one is not None]
        if not present:
            return designs
        xp = self._xp
        directions = like(np.stack(present)[:, None], self.like, self.dtype)
        along = xp.reshape(designs, (*designs.shape[:2], directions.shape[2], -1))
        parts = xp.matmul(directions, xp.matmul(xp.matrix_transpose(directions), along))
        return xp.reshape(along - parts, designs.shape)

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
            asking = [k for k, problem in enumerate(which) if problem in cell.offsets]
            if asking:
                answers = self._contract(cell.where, contractions[0].half, [matrices[k] for k in asking])
                for k, answer in zip(asking, answers, strict=True):
                    first = cell.offsets[which[k]]
                    partials[k, first : first + answer.shape[0], :] = answer
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
