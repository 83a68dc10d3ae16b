"""One pass over samples: checksums and ranges, and descriptors by which a `TrainingRecord` tells other samples."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial, reduce
from itertools import islice, pairwise
from math import ceil, prod
from typing import Any, NamedTuple

import numpy as np

from ..runtime import Array, as_array, computed, dtype_of, is_foreign, is_lazy, like, namespace, to_host
from .conversion import is_ragged, shape_of_samples
from .scale import ONE
from .validation import chunked_along_samples
from .views import Views

DIGEST_BYTES = 8
MOST_CELLS = 32  # of the grid of means
SIGNATURE = 4  # projections: two unrelated samples agree in all of them, up to rounding, less than once in 1e15 pairs
FLOOR = 1e-6  # standard deviation of a constant sample, relative to the scale of the training samples

_MOST_ENTRIES = 2**15  # of a sample that are described; of larger ones every second, third, ... along each mode
_BYTES_AT_ONCE, _COPIED_ENTRIES = 2**24, 2**17
_COMPARED_FIRST = 64  # entries
_FEW = 7  # entries that NumPy adds one after the other, whatever their strides
_KEPT = 4  # surveys
ROUNDING = 1e-5  # relative difference of copies: single precision leaves 1e-7, six digits of text 5e-6
LEAST_SPREAD = 1e-7  # of directions; below, all samples are multiples of one
_PROBES, _LEVELS = 256, 8  # fewer distinct values among these entries are no evidence: few counts have multiples


class Summary(NamedTuple):
    """What one pass over samples keeps: a digest, the root mean square and descriptors of each sample.

    ``signatures`` are those of `signatures`, ``moments`` the mean and the standard deviation. All are NaN for a sample
    that lacks the view.
    """

    digests: Array
    signatures: Array
    scale: Array
    moments: Array
    descriptors: Array


def summaries(X: Any, grids: Mapping[str, tuple[int, ...]], hashed: bool = True) -> dict[str, Summary]:
    """Return the summary of each view that has a grid; the chunks of Dask arrays are read once.

    Without ``hashed``, the first projection of a sample serves as its digest: hashing takes a fifth of the time.
    """
    parts = {name: list(_parts(view, grids[name], hashed)) for name, view in views_by_name(X).items() if name in grids}
    found = iter(computed(*(part for own in parts.values() for part in own)))
    return {
        name: Summary(*map(np.concatenate, zip(*islice(found, len(own)), strict=True))) for name, own in parts.items()
    }


def views_by_name(X: Any) -> dict[str, Any]:
    """Return the views of samples, the only one by the name `ONE`."""
    return dict(X.items()) if isinstance(X, Views) else {ONE: as_array(X)}


def _parts(X: Any, grid: tuple[int, ...], hashed: bool) -> Iterator[Any]:
    described = partial(_described, grid=grid, hashed=hashed)
    if is_lazy(X):
        X = chunked_along_samples(X)
        yield from _over_chunks(X, described)
    elif is_ragged(X):
        yield from (described(np.asarray(sample)[None]) for sample in X)
    else:
        step = max(1, _BYTES_AT_ONCE // max(1, prod(X.shape[1:]) * dtype_of(X).itemsize))
        yield from (described(to_host(X[start : start + step, ...])) for start in range(0, len(X), step))


def _described(part: Array, grid: tuple[int, ...], hashed: bool) -> Summary:
    """Return the summary of some samples in memory, of few at a time since it takes several copies of them."""
    part = np.asarray(part)
    step = max(1, _COPIED_ENTRIES // max(1, prod(part.shape[1:])))
    few = [_described_at_once(part[start : start + step], grid, hashed) for start in range(0, max(1, len(part)), step)]
    return Summary(*map(np.concatenate, zip(*few, strict=True)))


def _described_at_once(part: Array, grid: tuple[int, ...], hashed: bool) -> Summary:
    part = part.reshape(len(part), *(part.shape[1:] or (1,)))
    directions = signatures(part)
    bytes_of_digest = np.dtype((np.void, DIGEST_BYTES))
    if hashed:
        checksums = np.array(digests(part, "<f4", DIGEST_BYTES), bytes_of_digest)
    else:
        checksums = directions[:, 0].copy().view(bytes_of_digest)
    part = np.array(part[_strides(part.shape)], np.float64, order="C")  # `rows` is the same memory
    rows = part.reshape(len(part), -1)
    missing = ~np.isfinite(rows)
    complete = not missing.any()
    if not complete:
        rows[missing] = 0.0
    largest = np.maximum(rows.max(axis=1, initial=0.0), -rows.min(axis=1, initial=0.0))
    rows /= _or_one(largest)[:, None]  # so that squares are finite
    count = rows.shape[1] if complete else np.maximum((~missing).sum(axis=1), 1)
    mean = rows.sum(axis=1) / count
    rms = np.sqrt(_sums_of_squares(rows) / count)
    rows -= mean[:, None]
    if not complete:
        rows[missing] = 0.0
    spread = np.sqrt(_sums_of_squares(rows) / count)
    spread[spread <= FLOOR * rms] = 0.0
    rows /= _or_one(spread)[:, None]
    rows[spread == 0] = 0.0
    moments = np.column_stack([mean, spread]) * largest[:, None]
    ends = [np.abs(rows).mean(axis=1), rows.max(axis=1), -rows.min(axis=1)]  # of standardized entries
    shape = np.log(np.maximum(np.column_stack(ends), FLOOR))
    descriptors = np.column_stack([shape, *_roughness(part), _means(part, grid)])
    scale = rms * largest
    for values in () if complete else (scale, moments, descriptors):
        values[missing.all(axis=1)] = np.nan
    return Summary(checksums, directions, scale, moments, descriptors)


def _sums_of_squares(rows: Array) -> Array:
    sums: Array = np.einsum("ij,ij->i", rows, rows)
    return sums


def _or_one(values: Array) -> Array:
    found: Array = np.where(values > 0, values, 1.0)
    return found


def _strides(shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Return slices that leave about `_MOST_ENTRIES` entries per sample."""
    steps = [1] * (len(shape) - 1)
    left = list(shape[1:])
    while prod(left) > _MOST_ENTRIES:
        mode = int(np.argmax(left))
        steps[mode] += 1
        left[mode] = ceil(shape[mode + 1] / steps[mode])
    return (slice(None), *(slice(None, None, step) for step in steps))


def _roughness(part: Array) -> Iterator[Array]:
    """Yield the logarithm of the mean squared difference of neighbours along each mode; that of noise is 0."""
    for mode in range(1, part.ndim):
        if part.shape[mode] == 1:
            yield np.zeros(len(part))
            continue
        differences = np.diff(part, axis=mode).reshape(len(part), -1)
        yield np.log(np.maximum(_sums_of_squares(differences) / (2 * differences.shape[1]), FLOOR))


def grid_of(X: Any) -> tuple[int, ...]:
    """Return into how many parts each mode is divided, at most `MOST_CELLS` in all; the longest mode first."""
    shape = [size or 1 for size in shape_of_samples(X)] or [1]
    if is_ragged(X):
        shape = np.min([sample.shape for sample in X], axis=0).tolist()
    parts = [1] * len(shape)
    while True:
        able = [
            k
            for k, size in enumerate(shape)
            if parts[k] < size and prod(parts) // parts[k] * (parts[k] + 1) <= MOST_CELLS
        ]
        if not able:
            return tuple(parts)
        parts[max(able, key=lambda k: shape[k] / parts[k])] += 1


def _means(part: Array, grid: tuple[int, ...]) -> Array:
    """Return the means of the parts of a grid."""
    for mode, count in enumerate(grid, start=1):
        size = part.shape[mode]
        if size % count == 0 and size // count <= _FEW:
            step, before = size // count, (slice(None),) * mode
            part = reduce(np.add, [part[(*before, slice(first, None, step))] for first in range(step)]) / step
            continue
        edges = [min(size - 1, size * k // count) for k in range(count)] + [size]
        cells = [
            part.take(range(first, max(first + 1, last)), axis=mode).mean(axis=mode) for first, last in pairwise(edges)
        ]
        part = np.stack(cells, axis=mode)
    return part.reshape(len(part), -1)


@dataclass(frozen=True)
class Survey:
    """The smallest and largest entry of the samples; of each a checksum (equal rows for copies), and what follows."""

    minimum: float
    maximum: float
    digests: Array
    signatures: Array
    probes: Array


_known: OrderedDict[str, Survey] = OrderedDict()  # by the name of the array, which says what it is computed from


def survey(X: Any) -> Survey:
    """Return the survey of a Dask array that is chunked along the samples; it is read once, however often one asks."""
    if X.name in _known:
        return _known[X.name]
    found = [one for one in computed(*_over_chunks(X, _of_chunk)) if len(one.digests)]
    result = Survey(
        min(one.minimum for one in found),
        max(one.maximum for one in found),
        np.concatenate([one.digests for one in found]),
        np.concatenate([one.signatures for one in found]),
        np.concatenate([one.probes for one in found]),
    )
    _known[X.name] = result
    while len(_known) > _KEPT:
        _known.popitem(last=False)
    return result


def _over_chunks(X: Any, function: Callable[[Array], Any]) -> list[Any]:
    """Return the delayed results of a function for the chunks of a Dask array along the samples."""
    import dask

    return [dask.delayed(function)(part) for part in X.to_delayed().reshape(X.numblocks[0], -1)[:, 0]]


def where_not_finite(X: Any) -> str:
    """Return the first sample of a Dask array that is not finite, as the end of a message; this reads all of it."""
    found = np.concatenate(computed(*_over_chunks(X, _not_finite)))
    return f" (the first is sample {int(found.argmax())})" if found.any() else ""


def _not_finite(part: Array) -> Array:
    return ~np.isfinite(np.asarray(part)).all(axis=tuple(range(1, part.ndim)))


def _of_chunk(part: Array) -> Survey:
    if not part.size:
        return Survey(np.inf, -np.inf, np.empty((0, 2), np.uint64), np.empty((0, SIGNATURE)), np.empty((0, 1)))
    rows = np.ascontiguousarray(part).reshape(len(part), -1)
    there = rows[~np.isnan(rows)] if np.isnan(rows.min()) else rows  # NaN, in samples that lack a view, does not count
    ends = float(there.min(initial=np.inf)), float(there.max(initial=-np.inf))
    checksums = np.frombuffer(b"".join(digests(rows)), np.uint64).reshape(-1, 2)
    return Survey(*ends, checksums, signatures(rows), probes_of(rows))


def digests(samples: Array, dtype: str | None = None, size: int = 16) -> list[bytes]:
    """Return a checksum of each sample: of its entries in C order.

    With a ``dtype`` of floating-point numbers it is that of the shape and of the entries rounded to this type, so that
    copies in other types have the same one.
    """
    begun = hashlib.blake2b(digest_size=size)
    if dtype is not None:
        with np.errstate(over="ignore"):
            samples = samples.astype(dtype) + np.zeros((), dtype)  # without negative zeros
        samples[np.isnan(samples)] = np.nan
        begun.update(str(samples.shape[1:]).encode())
    width, entries = samples.itemsize * prod(samples.shape[1:]), samples.tobytes()
    found = []
    for row in range(len(samples)):
        checksum = begun.copy()
        checksum.update(entries[row * width : (row + 1) * width])
        found.append(checksum.digest())
    return found


def probes_of(X: Any) -> Array:
    """Return a few entries of each sample: samples that differ rarely agree in all of them."""
    shape = X.shape[1:]
    positions = np.unique(np.linspace(0, prod(shape) - 1, _COMPARED_FIRST).astype(np.intp))
    if is_foreign(X):
        xp = namespace(X)
        probes = to_host(xp.take(xp.reshape(X, (X.shape[0], -1)), like(positions, X), axis=1))
    else:  # avoids copying non-contiguous samples
        probes = X[(slice(None), *np.unravel_index(positions, shape))]
    return np.ascontiguousarray(probes)


def signatures(samples: Array) -> Array:
    """Return the direction of each sample, seen in a few random projections: equal for a sample and its multiples.

    It is NaN for a sample of few distinct values, such as a constant or binary one, whose multiples may be no copies.
    """
    rows = samples.reshape(len(samples), -1)
    width, weights = rows.shape[1], _random_weights()
    found = np.zeros((len(rows), SIGNATURE))
    if not rows.size:
        return np.full_like(found, np.nan)
    step = max(1, _COPIED_ENTRIES // width)
    probed = np.unique(np.linspace(0, width - 1, _PROBES).astype(np.intp))
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        for first in range(0, len(rows), step):
            some, projected = rows[first : first + step], found[first : first + step]
            for number, start in enumerate(range(0, width, len(weights))):
                block = some[:, start : start + len(weights)].astype(np.float64)
                projected += block @ weights[: block.shape[1]] * weights[number % len(weights)]
            probes = some[:, probed].astype(np.float64)
            levels = np.rint(probes / (10 * ROUNDING * np.abs(probes).max(axis=1, keepdims=True))).astype(np.int16)
            distinct = 1 + np.count_nonzero(np.diff(np.sort(levels, axis=1), axis=1), axis=1)
            projected[distinct < _LEVELS] = np.nan
        largest = np.take_along_axis(found, np.abs(found).argmax(axis=1)[:, None], axis=1)
        found /= np.sign(largest) * np.linalg.norm(found, axis=1, keepdims=True)
    found[~np.isfinite(found).all(axis=1)] = np.nan
    return found


@cache
def _random_weights() -> Array:
    return np.random.default_rng(0).standard_normal((_MOST_ENTRIES, SIGNATURE))


def spread_of(directions: Array) -> float:
    """Return how much the directions of samples differ: half of them by less from their mean."""
    return float(np.median(np.linalg.norm(directions - directions.mean(axis=0), axis=1)))


def with_near_copies(contents: Array, directions: Array, n_known: int | None = None) -> Array:
    """Return integer contents, with the same integer for samples that are copies up to scale and rounding.

    Samples are copies if their `signatures` differ by rounding, and by much less than those of samples otherwise do:
    samples may also be alike because all are, up to small deviations from a common mean. How much they differ is seen
    from the first ``n_known`` samples, by default from all.
    """
    _, rows = np.unique(contents, return_index=True)
    rows = rows[np.isfinite(directions[rows]).all(axis=1)]
    directions = directions[rows]
    typical = directions[rows < (len(contents) if n_known is None else n_known)]
    if len(rows) < 2 or not len(typical):
        return contents
    spread = spread_of(typical)
    if spread < LEAST_SPREAD:
        return contents
    rounding = min(ROUNDING, 1e-4 * spread, spread / (10 * len(rows)))  # samples of real data differ by more
    sets = np.zeros(len(rows), np.intp)
    for projection in directions.T:  # a set ends where one of its projections has a gap
        order = np.lexsort((projection, sets))
        ends = (np.diff(sets[order]) > 0) | (np.diff(projection[order]) > rounding)
        sets[order] = np.concatenate([[0], np.cumsum(ends)])
    first = np.unique(sets, return_index=True)[1][sets]
    copies = np.abs(directions - directions[first]).max(axis=1) <= 2 * rounding  # the ends of a chain may be none
    names = np.arange(contents.max() + 1)
    names[contents[rows[copies]]] = contents[rows[first[copies]]]
    joined: Array = names[contents]
    return joined
