"""Samples in a Dask array, contracted on the workers and never transferred to the caller.

On a worker a chunk is a `MemorySamples`; this module sends the same call to all chunks and combines the results. A half
contraction stays on the workers as long as the blocks of the other half share it. The design of a block is transferred,
part by part, into one array.

Everything that stays on the workers is a persisted collection, never scattered data: the scheduler knows how to
recompute each part, back to reading the chunk, if a worker is lost. Under Dask's single-machine schedulers the same
graphs run in the caller's process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.core import flatten

from ...runtime import (
    Array,
    FloatArray,
    ForkSafeLock,
    arriving,
    available_bytes,
    client_in_use,
    computed,
    gathered,
    slices,
    tuning,
)
from ..contractions import Contraction
from ..designs import Design, Matrix
from .base import (
    HalfContraction,
    Moments,
    Samples,
    Sums,
    deviations,
    drawn_rows,
    offset_costs_digits,
    rows_of_noise,
    typical_rows,
    working_dtype,
)
from .memory import MemorySamples, contract_around

_THRESHOLD = "distributed.admin.large-graph-warning-threshold"

_NOTHING_DRAWN = np.empty(0, np.int64), np.empty(0)

_configuring = ForkSafeLock()


class LazySamples(Samples):
    """Samples in a Dask array that is chunked along the samples only."""

    def __init__(self, array: da.Array, layout: Layout) -> None:
        self._array = array
        self._layout = layout
        self._known = sent(layout)
        self.shape = tuple(array.shape[1:])
        self.dtype = layout.dtype
        self._shift: Any = None  # the pivot on the workers
        self._of_noise: Array | None = None  # samples that the first pass has brought
        self._drawn = _NOTHING_DRAWN  # rows and samples of a subset, until it is taken
        self._last = HalfContraction()
        # What the half is computed from: the scheduler must not release data before it has seen the tasks that need it.
        self._origin: da.Array | None = None

    @classmethod
    def of(cls, X: da.Array, rows: Array | None = None, dtype: np.dtype | None = None) -> LazySamples:
        """Return all samples of an array, or some of its rows (in ascending order)."""
        return cls(X, Layout.of(X.chunks[0], rows, working_dtype(X.dtype) if dtype is None else dtype))

    def __len__(self) -> int:
        return int(self._layout.bounds[-1])

    @property
    def is_remote(self) -> bool:
        return True

    @property
    def coarse_share(self) -> int:
        """One in how many samples the first sweeps use, which are made by the caller."""
        return max(tuning.COARSE_SHARE, -(-self.nbytes // tuning.COARSE_BYTES))

    def take(self, rows: Array) -> MemorySamples:
        """Return a subset of the samples, which are transferred unless the first pass has brought them."""
        drawn, taken = self._drawn
        if np.array_equal(drawn, rows):
            self._drawn = _NOTHING_DRAWN
        else:
            taken = _gathered(self.lazy_rows(rows))
        return MemorySamples(taken.reshape(-1, *self.shape), None, self.dtype, self.pivot, shifted=True)

    def noise(self, weights: Array, signs: Array) -> Array:
        rows = rows_of_noise(signs, self.shape)
        if self._of_noise is None:
            self._of_noise = _gathered(self.lazy_rows(rows)).reshape(-1, prod(self.shape))
        return deviations(self._of_noise, weights[rows], signs[rows])

    def lazy_rows(self, rows: Array) -> da.Array:
        """Return a subset of the samples as a Dask array, not computed yet."""
        lengths = np.diff(np.searchsorted(rows, self._layout.bounds))
        return self.on_chunks(_taken, self.shape, self.dtype, lengths, rows=sent(rows))

    def first_pass(self, weights: Array, signs: Array, centred: bool, noise: bool = False) -> Moments:
        """Return the moments; subtract the pivot from samples that are rounded, or if it costs digits.

        The same pass brings a subset of the samples, if a fit may start on that.
        """
        typical = self.typical() if centred else None
        less = self.first_pivot(typical)
        both, width = sent((weights, weights * signs)), 2 * prod(self.shape) + 1
        rows = drawn_rows(signs, self.coarse_share)
        drawn = self.lazy_rows(rows) if len(rows) >= tuning.COARSE_SAMPLES else None
        total = self.lazy_total(_sums, (width,), weights=both, less=less)
        some = self.lazy_rows(rows_of_noise(signs, self.shape)) if noise else None
        total, drawn, some, typical = dask.persist(total, drawn, some, typical)  # together: chunks are read once
        flat = _gathered(total).ravel()
        sums = Sums(flat[: width // 2], flat[width // 2 : -1], float(flat[-1]))
        moments = sums.moments(weights, signs, centred, self.shape)
        self._of_noise = None if some is None else _gathered(some).reshape(-1, prod(self.shape))
        if typical is not None:
            self.settle_pivot(computed(typical)[0], moments.mean_square)
        if drawn is not None:
            self._drawn = rows, _gathered(drawn)
            if self.as_it_is and self.pivot is not None:  # decided after they were read
                np.subtract(self._drawn[1], self.pivot.ravel(), out=self._drawn[1])
        return moments

    def first_pivot(self, typical: da.Array | None) -> Any:
        """Subtract a typical sample, not computed yet, from samples that are rounded; else return what sums need."""
        less = None if typical is None else typical.to_delayed(optimize_graph=False).item()
        if self.as_it_is:
            return less
        self._shift = less
        return None

    def settle_pivot(self, typical: Array, mean_square: float) -> None:
        """Subtract a typical sample from now on: from samples that are rounded, or if a common offset costs digits."""
        if self.as_it_is:
            if not offset_costs_digits(typical, mean_square, self):
                return
            typical = typical.astype(self.dtype)
        self.pivot, self._shift = typical, sent(typical)

    @property
    def as_it_is(self) -> bool:
        """Whether the samples are stored in the dtype of the computations."""
        return bool(self._array.dtype == self.dtype)

    @property
    def bounds(self) -> Array:
        """Positions of the first sample of each chunk, and the number of samples."""
        return self._layout.bounds

    def typical(self) -> da.Array:
        """Return the entrywise median of a few samples, not computed yet: it reads chunks that others read as well."""
        places = map(self._layout.find, typical_rows(len(self)))
        one = {"chunks": ((1,), *self._array.chunks[1:]), "meta": self._array._meta}
        few = da.concatenate([self._array.blocks[number].map_blocks(_row, row=row, **one) for number, row in places])
        few = few.rechunk({0: -1})
        return few.map_blocks(_median, chunks=one["chunks"], meta=_nothing(few.ndim, np.float64))[0]

    def vary(self, centred: bool) -> bool:
        reference = self.take(np.array([0])).matrix().reshape(self.shape) if centred else 0.0
        known = {"method": "differ", "arguments": sent((reference,))}
        return bool(_gathered(self.on_chunks(_call, (1,), np.dtype(bool), self._layout.ones, **known)).any())

    def scores(self, weights: Array) -> Array:
        return _gathered(self.lazy_scores(weights))

    def lazy_scores(self, weights: Array) -> da.Array:
        """Return `scores` as a Dask array, not computed yet; all axes but the first two have length 1."""
        return self._called("scores", len(weights), np.result_type(weights, self.dtype), weights)

    def design(self, contraction: Contraction) -> Array | Design:
        """Return the design of a block; for a full weight it stays on the workers."""
        if contraction.is_whole:
            return ChunkedDesign(self)
        if not contraction.matrices:  # samples of order 1 have no tail, so blocks share nothing
            return _gathered(self._called("design", contraction.width, self.dtype, contraction))
        partial = self._partial(contraction.half, contraction.matrices)
        chunks = (partial.chunks[0], (contraction.width,), *partial.chunks[2:])
        meta, rest = _nothing(partial.ndim, self.dtype), sent(replace(contraction, matrices=()))
        return _gathered(partial.map_blocks(_around, contraction=rest, chunks=chunks, meta=meta))

    def side_by_side(self, contractions: Sequence[Contraction]) -> Array:
        """Return the designs of several contractions as one matrix, in one pass over the samples."""
        width = sum(contraction.width for contraction in contractions)
        return _gathered(self._called("side_by_side", width, self.dtype, tuple(contractions)))

    def _partial(self, half: str, matrices: Sequence[Array]) -> da.Array:
        """Return the samples with one half contracted, on the workers; cached and reused for equal matrices."""
        if not self._last.is_of(half, matrices):
            self._last = HalfContraction()  # frees the workers' memory before the next one is computed
            kept = prod(self.shape) // prod(len(matrix) for matrix in matrices)
            width = kept * prod(matrix.shape[1] for matrix in matrices)
            parts = self._called("partial", width, self.dtype, half, matrices)
            self._origin = parts
            self._last = HalfContraction(half, matrices, *dask.persist(parts))
        return self._last.result

    def _called(self, method: str, width: int, dtype: Any, *arguments: Any) -> da.Array:
        """Return the lazy results of a method of `MemorySamples`, which have so many columns, for all chunks."""
        return self.on_chunks(_call, (width,), dtype, method=method, arguments=sent(arguments))

    def on_chunks(
        self,
        function: Callable[..., Array],
        tail: tuple[int, ...],
        dtype: Any,
        lengths: Array | None = None,
        **arguments: Any,
    ) -> da.Array:
        """Return the lazy results of a function for the samples of each chunk, concatenated along the first axis.

        The function gets a chunk's samples, their positions among all samples, and the arguments. Its results have
        ``lengths`` in the first axis, by default the number of samples in each chunk (chunks with an empty result are
        not read), and the shape ``tail`` in the others, to which axes of length 1 are appended.
        """
        lengths = np.diff(self._layout.bounds) if lengths is None else lengths
        tail = (*tail, *[1] * (self._array.ndim - 1 - len(tail)))  # same ndim, so that Dask fuses it with reading
        results = self._array.map_blocks(
            _of_chunk,
            function=function,
            layout=self._known,
            pivot=self._shift,
            **arguments,
            token=f"tensormargin{function.__name__}",
            chunks=(tuple(lengths.tolist()), *((size,) for size in tail)),
            meta=_nothing(self._array.ndim, dtype),
        )
        touched = np.flatnonzero(lengths)
        return results if len(touched) == len(lengths) else results.blocks[touched.tolist()]

    def total(self, function: Callable[..., Array], shape: tuple[int, ...], **arguments: Any) -> FloatArray:
        """Return the sum of a function's results (of length 1) over all chunks, computed on the workers."""
        return _gathered(self.lazy_total(function, shape, **arguments)).ravel()

    def lazy_total(self, function: Callable[..., Array], shape: tuple[int, ...], **arguments: Any) -> da.Array:
        """Return this sum as a Dask array, not computed yet."""
        return _sum(self.on_chunks(function, shape, np.dtype(np.float64), self._layout.ones, **arguments))


class ChunkedDesign(Design):
    """The samples as rows of a matrix that stays on the workers (a `tensormargin.fitting.designs.Design`)."""

    def __init__(self, samples: LazySamples) -> None:
        self._samples = samples
        self.shape = (len(samples), prod(samples.shape))
        self.dtype = samples.dtype

    def to_numpy(self) -> Array:
        return _gathered(self._rows())

    def _rows(self) -> da.Array:
        rows = self._samples._called("matrix", self.shape[1], self.dtype)
        return rows[(slice(None), slice(None), *[0] * (rows.ndim - 2))]

    def weighted_sum(self, weights: Array) -> FloatArray:
        return self.weighted_sums(weights[None])[0]

    def weighted_sums(self, weights: Array) -> FloatArray:
        width = self.shape[1]
        parts = [weights[some] for some in slices(slice(0, len(weights)), max(1, tuning.ARRIVING_BYTES // (8 * width)))]
        sums = [self._samples.total(_weighted_sums, (len(own) * width,), weights=sent(own)) for own in parts]
        return np.concatenate(sums).reshape(-1, width)

    def products(self, vector: Array) -> FloatArray:
        return self._samples.scores(vector.reshape(1, *self._samples.shape)).ravel()

    def gram(self, centre: Array) -> FloatArray:
        """Sum over slabs of columns of all samples on the workers, between which every entry moves once."""
        n_samples, width = self.shape
        if client_in_use() is None:
            return self._gram_in_parts(centre)
        columns = min(width, max(n_samples, tuning.SLAB_BYTES // (n_samples * self.dtype.itemsize)))
        slabs = self._rows().rechunk((n_samples, columns), method="tasks").T
        parts = slabs.map_blocks(
            _slab_gram,
            centre=sent(centre),
            columns=columns,
            chunks=((1,) * slabs.numblocks[0], (n_samples,), (n_samples,)),
            new_axis=2,
            meta=_nothing(3, np.float64),
        )
        return _gathered(_sum(parts))

    def _gram_in_parts(self, centre: Array) -> FloatArray:
        """Return the same without a cluster, where all slabs together need not fit into memory: one after the other."""
        n_samples, width = self.shape
        most = max(tuning.ROUND_LEAST_BYTES, tuning.LOADED_SHARE * available_bytes())
        columns = int(min(width, max(1, most // (n_samples * self.dtype.itemsize))))
        total = np.zeros((n_samples, n_samples))
        for where in slices(slice(0, width), columns):
            total += Matrix(_gathered(self._rows()[:, where])).gram(centre[where])
        return total


@dataclass(frozen=True)
class Layout:
    """Which samples each chunk holds: from ``bounds[k]`` to ``bounds[k + 1]`` of those that are used."""

    rows: tuple[Array | None, ...]  # the used samples of each chunk, as rows of the chunk; None for all
    bounds: Array
    dtype: np.dtype  # of the computations

    @classmethod
    def of(cls, lengths: Sequence[int], rows: Array | None, dtype: np.dtype) -> Layout:
        """Return the layout for chunks of these lengths, using all samples or some rows (in ascending order)."""
        starts = np.concatenate([[0], np.cumsum(lengths)])
        if rows is None:
            return cls((None,) * len(lengths), starts, dtype)
        bounds = np.searchsorted(rows, starts)
        within = [rows[a:b] - start for (a, b), start in zip(pairwise(bounds), starts, strict=False)]
        return cls(tuple(within), bounds, dtype)

    @property
    def ones(self) -> Array:
        """One for each chunk that has samples, zero for the others."""
        return np.minimum(np.diff(self.bounds), 1)

    def find(self, position: int) -> tuple[int, int]:
        """Return the index of the chunk that holds a sample, and the sample's row in it."""
        number = int(np.searchsorted(self.bounds, position, side="right")) - 1
        rows, row = self.rows[number], int(position - self.bounds[number])
        return number, row if rows is None else int(rows[row])


# Functions that run on the workers


def _of_chunk(
    chunk: Array,
    function: Callable[..., Array],
    layout: Layout,
    pivot: Array | None,
    block_id: Any = None,
    **arguments: Any,
) -> Array:
    """Return the result of a function for the samples of a chunk."""
    number = block_id[0]
    samples = MemorySamples(np.asarray(chunk), layout.rows[number], layout.dtype, pivot)
    result = function(samples, slice(layout.bounds[number], layout.bounds[number + 1]), **arguments)
    return _with_axes(result, chunk.ndim)


def _with_axes(array: Array, count: int) -> Array:
    """Return an array with axes of length 1 appended, up to ``count`` axes."""
    return array.reshape(array.shape + (1,) * (count - array.ndim))


def _call(samples: MemorySamples, where: slice, method: str, arguments: tuple[Any, ...]) -> Array:
    return np.asarray(getattr(samples, method)(*arguments))


def _around(partial: Array, contraction: Contraction) -> Array:
    return _with_axes(contract_around(partial, contraction.size, contraction.kernel), partial.ndim)


def _taken(samples: MemorySamples, where: slice, rows: Array) -> Array:
    first, last = np.searchsorted(rows, (where.start, where.stop))
    return samples.take(rows[first:last] - where.start).matrix().reshape(-1, *samples.shape)


def _sums(samples: MemorySamples, where: slice, weights: tuple[Array, Array], less: Array | None) -> Array:
    plain, signed = weights
    with np.errstate(over="ignore", invalid="ignore"):  # shows up in the moments
        sums = samples.add_up(plain[where], signed[where], np.zeros(samples.shape) if less is None else less)
    return np.concatenate([sums.weighted, sums.signed, [sums.squares]])[None]


def _weighted_sums(samples: MemorySamples, where: slice, weights: Array) -> Array:
    own, total = weights[:, where], np.zeros((len(weights), prod(samples.shape)))
    for part, tensors in samples.chunks():
        total += own[:, part] @ tensors.reshape(len(tensors), -1).astype(np.float64, copy=False)
    return total.reshape(1, -1)


def _slab_gram(slab: Array, centre: Array, columns: int, block_id: Any = None) -> Array:
    first = columns * block_id[0]
    return Matrix(slab.T).gram(centre[first : first + len(slab)])[None]


def _row(chunk: Array, row: int) -> Array:
    return chunk[row : row + 1]


def _median(few: Array) -> Array:
    return MemorySamples(few).typical()[None]


def _add(parts: Array, axis: Any, keepdims: bool) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return parts.sum(axis=axis, keepdims=keepdims)


# Transfer of arguments and results


def sent(value: Any) -> Any:
    """Return small data as a persisted object that all chunks share and the scheduler can send again."""
    # Silences "large graph", which is intended. A setting made before distributed is imported would hide its defaults.
    quietly = {_THRESHOLD: "1TiB"} if "distributed" in sys.modules else {}
    with _configuring, dask.config.set(quietly):
        return dask.persist(dask.delayed(value, traverse=False))[0]


def _sum(parts: da.Array) -> da.Array:
    """Return the sum over the first axis, by tree reduction."""
    return da.reduction(parts, _add, _add, axis=0, dtype=parts.dtype, split_every=tuning.TREE)


def _gathered(parts: da.Array) -> Array:
    """Return a Dask array as a local matrix, filled as its parts arrive so that it is never held twice."""
    return gathered_together([parts])[0]


def gathered_together(arrays: Sequence[da.Array]) -> list[Array]:
    """Return Dask arrays as local matrices; what several are computed from is computed once.

    No worker holds more than the parts that have not arrived yet.
    """
    matrices = [np.empty((one.shape[0], prod(one.shape[1:])), one.dtype) for one in arrays]
    for which, end, part in _arriving([_in_small_parts(one) for one in arrays]):
        matrices[which][end - len(part) : end] = part.reshape(len(part), -1)
    return matrices


def _in_small_parts(array: da.Array) -> da.Array:
    """Return a Dask array in chunks that the caller can hold in addition to the whole."""
    rows = max(1, tuning.ARRIVING_BYTES // max(1, prod(array.shape[1:]) * array.dtype.itemsize))
    pieces = [where for length in array.chunks[0] for where in slices(slice(0, length), rows)]
    return array.rechunk({0: tuple(where.stop - where.start for where in pieces)}, method="tasks")


def _arriving(arrays: Sequence[da.Array]) -> Iterator[tuple[int, int, Array]]:
    """Yield which array a part is of, the row at which it ends and its values, in any order, a few at a time."""
    client, ends = client_in_use(), [np.cumsum(one.chunks[0]).tolist() for one in arrays]
    if client is None and len(arrays) > 1:  # a few at a time, each chunk would be read for every array
        yield from ((which, len(whole), whole) for which, whole in enumerate(dask.compute(*arrays)))
        return
    if client is None:
        blocks = list(arrays[0].to_delayed().ravel())
        for some in slices(slice(0, len(blocks)), tuning.CHUNKS_AT_ONCE):
            yield from ((0, *part) for part in zip(ends[0][some], dask.compute(*blocks[some]), strict=True))
        return
    from distributed import futures_of

    persisted = client.persist(list(arrays))
    places: dict[Any, list[tuple[int, int]]] = {}
    for which, one in enumerate(persisted):
        for end, key in zip(ends[which], flatten(one.__dask_keys__()), strict=True):
            places.setdefault(key, []).append((which, end))
    waiting = arriving(client, futures_of(persisted))
    del persisted, one  # lets workers release a part once it has arrived
    together = max(1, tuning.ARRIVING_BYTES * len(places) // max(1, sum(one.nbytes for one in arrays)))
    for done in waiting:
        while done:
            futures, done = done[:together], done[together:]
            keys, values = [future.key for future in futures], gathered(client, futures)
            del futures
            yield from ((*place, part) for key, part in zip(keys, values, strict=True) for place in places[key])


def loaded(X: da.Array) -> Array:
    """Return a Dask array as a NumPy array, filled as its chunks arrive so that it is never held twice."""
    return _gathered(X).reshape(X.shape)


def _nothing(ndim: int, dtype: Any) -> Array:
    """Return an empty array as Dask's ``meta``."""
    return np.empty((0,) * ndim, dtype)
