"""One pass over the samples in a Dask array: their range, and a checksum of each."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..runtime import Array, computed

_KEPT = 4


@dataclass(frozen=True)
class Survey:
    """The smallest and largest entry of the samples, and a checksum of each: equal rows for copies of a sample."""

    minimum: float
    maximum: float
    digests: Array


_known: OrderedDict[str, Survey] = OrderedDict()  # by the name of the array, which says what it is computed from


def survey(X: Any) -> Survey:
    """Return the survey of a Dask array that is chunked along the samples; it is read once, however often one asks."""
    if X.name in _known:
        return _known[X.name]
    import dask

    parts = [dask.delayed(_of_chunk)(part) for part in X.to_delayed().reshape(X.numblocks[0], -1)[:, 0]]
    found = [one for one in computed(*parts) if len(one.digests)]
    result = Survey(
        min(one.minimum for one in found),
        max(one.maximum for one in found),
        np.concatenate([one.digests for one in found]),
    )
    _known[X.name] = result
    while len(_known) > _KEPT:
        _known.popitem(last=False)
    return result


def where_not_finite(X: Any) -> str:
    """Return which sample of a Dask array is the first with NaN or infinity, as the end of a message.

    This reads all samples once more. It is empty if all are finite, and only their squares are too large.
    """
    import dask

    parts = [dask.delayed(_not_finite)(part) for part in X.to_delayed().reshape(X.numblocks[0], -1)[:, 0]]
    found = np.concatenate(computed(*parts))
    return f" (the first is sample {int(found.argmax())})" if found.any() else ""


def _not_finite(part: Array) -> Array:
    return ~np.isfinite(np.asarray(part)).all(axis=tuple(range(1, part.ndim)))


def _of_chunk(part: Array) -> Survey:
    if not part.size:
        return Survey(np.inf, -np.inf, np.empty((0, 2), np.uint64))
    rows = np.ascontiguousarray(part).reshape(len(part), -1)
    return Survey(*_finite_range(rows), np.frombuffer(b"".join(map(digest, rows)), np.uint64).reshape(-1, 2))


def digest(sample: Array, dtype: str | None = None, size: int = 16) -> bytes:
    """Return a checksum of a sample: of its entries in C order.

    With a ``dtype`` of floating-point numbers it is that of the shape and of the entries rounded to this type, so that
    copies in other types have the same one.
    """
    if dtype is None:
        return hashlib.blake2b(sample.tobytes(), digest_size=size).digest()
    with np.errstate(over="ignore"):
        entries = sample.astype(dtype) + np.zeros((), dtype)  # without negative zeros
    entries[np.isnan(entries)] = np.nan
    return hashlib.blake2b(str(sample.shape).encode() + entries.tobytes(), digest_size=size).digest()


def _finite_range(rows: Array) -> tuple[float, float]:
    """Return the smallest and the largest entry; NaN, in samples that lack a view, does not count."""
    least, most = float(rows.min()), float(rows.max())
    if not np.isnan(least):
        return least, most
    there = rows[~np.isnan(rows)]
    return float(there.min(initial=np.inf)), float(there.max(initial=-np.inf))
