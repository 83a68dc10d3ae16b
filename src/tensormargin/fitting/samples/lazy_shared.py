"""Dask arrays shared by many problems: candidates of a search, folds, pairs of classes, values of lambda.

All designs of a round are made by one computation that reads each chunk once. Several arrays that are computed
from the same chunks, such as the training sets of the folds after their preparations, share these reads, too. On a
worker the problems share the chunk as they share an array on a device (`SharedSamples`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ...runtime import Array, FloatArray, computed, slices, tuning
from ..contractions import Contraction
from .base import Moments, Sums, deviations, rows_of_noise
from .device import SharedSamples
from .lazy import LazySamples, gathered_together, sent
from .memory import MemorySamples

Request = tuple[int, tuple[Contraction, ...]]
"""A problem, and the contractions whose designs it needs side by side."""


@dataclass(frozen=True)
class LazyProblem:
    """A subset of the samples of one of the arrays: its rows, in ascending order, or None for all of them."""

    source: int
    rows: Array | None


class SharedLazySamples:
    """Samples in Dask arrays, with one dtype each, that are chunked along samples only and shared by problems."""

    def __init__(self, arrays: Sequence[Any], problems: Sequence[LazyProblem], dtypes: Sequence[np.dtype]) -> None:
        self._sources = [
            _Source(array, [problem.rows for problem in problems if problem.source == number], dtype)
            for number, (array, dtype) in enumerate(zip(arrays, dtypes, strict=True))
        ]
        seen = [0] * len(arrays)
        self._places: list[tuple[_Source, int]] = []
        for problem in problems:
            self._places.append((self._sources[problem.source], seen[problem.source]))
            seen[problem.source] += 1
        self._drawn: dict[_Source, tuple[Array, Array]] = {}  # by the first pass: rows of each source, and samples

    def pivot(self, problem: int) -> Array | None:
        """Return the tensor that has been subtracted from every sample of a problem, or None."""
        return self._places[problem][0].samples.pivot

    def first_pass(
        self, weights: Sequence[Array], signs: Sequence[Array], centred: bool, noise: bool = False
    ) -> list[Moments]:
        """Return the moments of each problem, and decide which pivots to subtract from now on."""
        typical = [source.samples.typical() if centred else None for source in self._sources]
        signed: list[list[Array]] = [[] for _ in self._sources]
        for (source, _), p, t in zip(self._places, weights, signs, strict=True):
            signed[self._sources.index(source)].append(p * t)
        wanted = [source.sums(own, one) for source, own, one in zip(self._sources, signed, typical, strict=True)]
        some = [source.rows_of_noise(own) for source, own in zip(self._sources, signed, strict=True)]
        few = [
            source.samples.lazy_rows(rows) if noise else None for source, rows in zip(self._sources, some, strict=True)
        ]
        values = computed(*(one.parts for one in wanted), *typical, *few)  # together, so that chunks are read once
        totals, pivots, drawn = (values[k : k + len(wanted)] for k in range(0, len(values), len(wanted)))
        self._drawn = dict(zip(self._sources, zip(some, drawn, strict=True), strict=True))
        found = [one.of_problems(total.ravel()) for one, total in zip(wanted, totals, strict=True)]
        moments = [
            found[self._sources.index(source)][number].moments(p, t, centred, source.samples.shape)
            for (source, number), p, t in zip(self._places, weights, signs, strict=True)
        ]
        for source, pivot in zip(self._sources, pivots, strict=True):
            own = [each.mean_square for each, (other, _) in zip(moments, self._places, strict=True) if other is source]
            if pivot is not None:
                source.samples.settle_pivot(pivot, min(own))
        return moments

    def noise(self, problem: int, weights: Array, signs: Array) -> Array:
        """Return how some samples of a problem differ from the mean of their class (`Samples.noise`)."""
        source, number = self._places[problem]
        rows, samples = self._drawn[source]
        chosen = rows_of_noise(signs, source.samples.shape)
        places = np.searchsorted(rows, source.rows_of(number)[chosen])
        return deviations(samples.reshape(len(rows), -1)[places], weights[chosen], signs[chosen])

    def n_bytes(self, request: Request) -> int:
        source, number = self._places[request[0]]
        return int(source.counts[number].sum()) * _width(request) * source.samples.dtype.itemsize

    def designs(self, requests: Sequence[Request]) -> list[Array]:
        """Return the designs of all requests, computed in one pass over the chunks."""
        wanted: dict[_Source, list[int]] = {}
        for k, (problem, _) in enumerate(requests):
            wanted.setdefault(self._places[problem][0], []).append(k)
        local = [[(self._places[requests[k][0]][1], requests[k][1]) for k in own] for own in wanted.values()]
        flat = gathered_together([source.designs(own) for source, own in zip(wanted, local, strict=True)])
        designs: dict[int, Array] = {}
        for (source, numbers), own, found in zip(wanted.items(), local, flat, strict=True):
            designs.update(zip(numbers, source.unpacked(own, found.ravel()), strict=True))
        return [designs[k] for k in range(len(requests))]


class _Source:
    """One of the arrays, with the samples that its problems use, and their counts in each chunk, by problem."""

    def __init__(self, array: Any, rows: Sequence[Array | None], dtype: np.dtype) -> None:
        n_total = int(array.shape[0])
        member = np.zeros((n_total, len(rows)), bool)
        for number, own in enumerate(rows):
            member[slice(None) if own is None else own, number] = True
        used = member.any(axis=1)
        self.samples = LazySamples.of(array, None if used.all() else np.flatnonzero(used), dtype)
        self._member = member if used.all() else member[used]
        bounds = self.samples.bounds
        self.counts = np.array([self._member[a:b].sum(axis=0) for a, b in pairwise(bounds)]).T
        self._known = sent(np.packbits(self._member, axis=1))

    def rows_of(self, problem: int) -> Array:
        """Return which of the used samples a problem has."""
        return np.flatnonzero(self._member[:, problem])

    def rows_of_noise(self, signed: Sequence[Array]) -> Array:
        """Return the samples that show the noise of all problems, given their signed weights."""
        shape = self.samples.shape
        return np.unique(np.concatenate([self.rows_of(k)[rows_of_noise(own, shape)] for k, own in enumerate(signed)]))

    def sums(self, signed: Sequence[Array], typical: Any) -> _LazySums:
        """Return the sums of each problem's samples minus a typical sample, not computed yet."""
        samples = self.samples
        less = samples.first_pivot(typical)
        cells = _cells(self._member, signed)
        if cells is None:
            every = _dense(self._member, signed)
            return _LazySums(samples, np.array([part for own in every for part in (np.abs(own), own)]), None, less)
        return _LazySums(samples, *cells, less)

    def designs(self, requests: Sequence[Request]) -> Any:
        """Return the designs of requests, flattened and concatenated chunk by chunk, not computed yet."""
        lengths = np.array([_width(request) for request in requests]) @ self.counts[[k for k, _ in requests]]
        known = {"member": self._known, "n_problems": len(self.counts), "requests": sent(list(requests))}
        return self.samples.on_chunks(_designs, (1,), self.samples.dtype, lengths, **known)

    def unpacked(self, requests: Sequence[Request], flat: Array) -> list[Array]:
        """Return each request's design from the results of all chunks."""
        widths = [_width(request) for request in requests]
        counts = self.counts[[number for number, _ in requests]]
        designs = [np.empty((int(own.sum()), width), flat.dtype) for own, width in zip(counts, widths, strict=True)]
        filled, begin = [0] * len(requests), 0
        for of_chunk in counts.T.tolist():
            for k, n_rows in enumerate(of_chunk):
                end = begin + n_rows * widths[k]
                designs[k][filled[k] : filled[k] + n_rows] = flat[begin:end].reshape(n_rows, widths[k])
                filled[k] += n_rows
                begin = end
        return designs


class _LazySums:
    """Sums over samples as a Dask array ``parts``, not computed yet.

    Either for each of the cells that ``factors`` names, samples with the same weight and sign in every problem, whose
    ``table`` has the signed weights; or, if these are too many, for each row of ``factors``.
    """

    def __init__(self, samples: LazySamples, factors: Array, table: FloatArray | None, less: Any) -> None:
        self._size = int(np.prod(samples.shape))
        self._table = table
        n_rows = len(factors) if table is None else table.shape[1]
        self._shape = n_rows, self._size + 1
        self.parts = samples.lazy_total(
            _combined, (n_rows * (self._size + 1),), factors=sent(factors), n_rows=n_rows, less=less
        )

    def of_problems(self, total: FloatArray) -> list[Sums]:
        """Return the sums of each problem."""
        total = total.reshape(self._shape)
        if self._table is None:
            return [Sums(p[:-1], t[:-1], float(p[-1])) for p, t in zip(total[::2], total[1::2], strict=True)]
        sums = []
        for own in self._table:
            with np.errstate(invalid="ignore"):  # shows up in the moments
                weighted, signed = np.abs(own) @ total, own @ total[:, :-1]
            sums.append(Sums(weighted[:-1], signed, float(weighted[-1])))
        return sums


def _dense(member: Array, signed: Sequence[Array]) -> Iterator[FloatArray]:
    """Yield the signed weights of each problem for all used samples, zero for those that are not its own."""
    for number, own in enumerate(signed):
        dense = np.zeros(len(member))
        dense[member[:, number]] = own
        yield dense


def _cells(member: Array, signed: Sequence[Array]) -> tuple[Array, FloatArray] | None:
    """Return the cell of each sample, and each problem's signed weight in each cell; None if cells are too many."""
    rng = np.random.default_rng(0)
    key = np.zeros(len(member), np.uint64)
    for dense in _dense(member, signed):
        factor = rng.integers(2**63, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        key = (key ^ (key >> np.uint64(29))) * factor + dense.view(np.uint64)
    _, first, codes = np.unique(key, return_index=True, return_inverse=True)
    if len(first) > 2 * len(signed):
        return None
    table = np.array([dense[first] for dense in _dense(member, signed)])
    if any(np.any(own[codes] != dense) for own, dense in zip(table, _dense(member, signed), strict=True)):
        return None  # two different columns have the same key
    return codes.ravel().astype(np.int32), table


def _width(request: Request) -> int:
    return sum(contraction.width for contraction in request[1])


# Functions that run on the workers


def _combined(samples: MemorySamples, where: slice, factors: Array, n_rows: int, less: Array | None) -> Array:
    """Return the sums of a chunk's samples minus a pivot, and of their squared norms, with factors or for cells."""
    size = int(np.prod(samples.shape))
    total = np.zeros((n_rows, size + 1))
    pivot = 0 if less is None else less.ravel().astype(samples.dtype)
    own = factors[..., where]
    held = np.empty((0, size))
    with np.errstate(over="ignore", invalid="ignore"):  # shows up in the moments
        for part, tensors in samples.chunks(tuning.CHUNK_BYTES // 4):  # in float64 twice as large, beside the chunk
            if len(tensors) > len(held):
                held = np.empty((len(tensors), size))
            rows = np.subtract(tensors.reshape(len(tensors), size), pivot, out=held[: len(tensors)])
            of_part = own[..., part]
            if of_part.ndim == 1:
                of_part = (np.arange(n_rows)[:, None] == of_part).astype(np.float64)
            total[:, :-1] += of_part @ rows
            total[:, -1] += of_part @ np.einsum("ij,ij->i", rows, rows)
    return total.reshape(1, -1)


def _designs(
    samples: MemorySamples, where: slice, member: Array, n_problems: int, requests: Sequence[Request]
) -> Array:
    """Return the designs of all requests for the samples of a chunk, flattened."""
    own = np.unpackbits(member[where], axis=1, count=n_problems).astype(bool)
    numbers = sorted({number for number, _ in requests if own[:, number].any()})
    place = {number: k for k, number in enumerate(numbers)}
    present = [(k, number, contractions) for k, (number, contractions) in enumerate(requests) if number in place]
    tensors = samples.matrix().reshape(-1, *samples.shape)
    shared = SharedSamples(tensors, [np.flatnonzero(own[:, number]) for number in numbers], samples.dtype)
    orders = [np.argsort(rows) for rows in shared.rows]
    groups: dict[object, list[tuple[int, int, int, Contraction]]] = {}
    for k, number, contractions in present:
        for slot, contraction in enumerate(contractions):
            groups.setdefault(contraction.sizes, []).append((k, slot, place[number], contraction))
    parts: dict[tuple[int, int], Array] = {}
    for members in groups.values():
        n_rows = max(len(shared.rows[problem]) for _, _, problem, _ in members)
        widest = max(contraction.wide for *_, contraction in members)
        step = max(1, tuning.CHUNK_DESIGNS_BYTES // max(1, 8 * n_rows * widest))
        for some in slices(slice(0, len(members)), step):
            batch = members[some]
            designs = shared.designs([problem for _, _, problem, _ in batch], [one for *_, one in batch])
            for (k, slot, problem, _), design in zip(batch, designs, strict=True):
                parts[k, slot] = design[orders[problem]]
    whole = [np.hstack([parts[k, slot] for slot in range(len(contractions))]).ravel() for k, _, contractions in present]
    return np.concatenate(whole)
