"""Passes over samples of any kind: parts of an array, or the chunks of a Dask array on its workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from ...data import NOT_FINITE, where_not_finite
from ...fitting import working_dtype
from ...runtime import Array, cast, computed, dtype_of, has_float64, is_lazy, like, namespace, tuning

OfPart = Callable[..., Any]
Join = Callable[[Any, Any], Any]


def floating(X: Any) -> np.dtype[Any]:
    """Return the floating dtype for computations with samples: lossless if the device supports it."""
    return working_dtype(dtype_of(X)) if has_float64(X) else np.dtype(np.float32)


def widest(X: Any) -> np.dtype[Any]:
    """Return the floating dtype for statistics."""
    return np.dtype(np.float64 if has_float64(X) else np.float32)


def parts(X: Any) -> Iterator[slice]:
    """Yield slices of samples, so that the whole array need not be copied."""
    entries = max(1, prod(X.shape[1:]))
    step = max(1, tuning.PASS_ENTRIES // entries, min(tuning.PASS_SAMPLES, 4 * tuning.PASS_ENTRIES // entries))
    for begin in range(0, X.shape[0], step):
        yield slice(begin, min(begin + step, X.shape[0]))  # the array API has no slices beyond the end


def reduced(X: Any, of_part: OfPart, join: Join, beside: Array | None = None) -> Any:
    """Return the tuples ``of_part(samples)`` of all parts of X combined with ``join``, in one pass.

    With ``beside``, a vector with one entry per sample, ``of_part`` gets the entries of the part as well. For a Dask
    array only the tuples leave the workers. It has not been checked for NaN, so that is done here.
    """
    found = statistics(X, of_part, join, beside=beside)[0]
    if not is_lazy(X):
        return found
    (found,) = computed(found)
    if not all(np.all(np.isfinite(value)) for value in found):
        raise ValueError(f"{NOT_FINITE}{where_not_finite(X)}")
    return found


def statistics(
    X: Any, of_part: OfPart, join: Join, codes: Array | None = None, beside: Array | None = None
) -> dict[int, Any]:
    """Return the same per group, by code (0 for all samples without ``codes``); lazily if X is lazy."""
    if is_lazy(X):
        return _on_workers(X, of_part, join, codes, beside)
    found: dict[int, Any] = {}
    for where in parts(X):
        part, own = X[where, ...], None if codes is None else codes[where]
        entries = () if beside is None else (beside[where],)  # of samples without groups
        present = _present(part.shape[0], own)
        for code in present:
            rows = None if len(present) == 1 else like(np.flatnonzero(own == code), part)
            value = of_part(part if rows is None else namespace(part).take(part, rows, axis=0), *entries)
            found[code] = join(found[code], value) if code in found else value
    return found


def _present(n_samples: int, codes: Array | None) -> list[int]:
    if codes is None:
        return [0] if n_samples else []
    return [int(code) for code in np.unique(codes)]


def _present_in_chunks(X: Any, codes: Array | None) -> Iterator[list[int]]:
    ends = np.cumsum(X.chunks[0])
    for end, length in zip(ends.tolist(), X.chunks[0], strict=True):
        yield _present(length, None if codes is None else codes[end - length : end])


def _only(block: Any) -> Any:
    """Return the single block that Dask has wrapped in nested lists, one per mode that the result lacks."""
    while isinstance(block, list):
        block = block[0]
    return block


def _on_workers(
    X: Any, of_part: OfPart, join: Join, codes: Array | None, beside: Array | None = None
) -> dict[int, Any]:
    """Return delayed values, computed per chunk on its worker and joined by tree reduction."""
    from dask.array import blockwise

    pairs = [(None, None) if vector is None else (chunked(vector, X), (0,)) for vector in (codes, beside)]
    arrays = X, tuple(range(X.ndim)), *pairs[0], *pairs[1]
    values = blockwise(_of_chunk, (0,), *arrays, of_part=of_part, join=join, dtype=object, meta=np.empty(0, object))
    of_code = defaultdict(list)
    for value, present in zip(values.to_delayed(), _present_in_chunks(X, codes), strict=True):
        for code in present:
            of_code[code].append(value[code])
    return {code: _tree(delayed, join) for code, delayed in of_code.items()}


def _of_chunk(block: Any, codes: Array | None, beside: Array | None, of_part: OfPart, join: Join) -> dict[int, Any]:
    with np.errstate(all="ignore"):  # `reduced` reports NaN and infinity
        return statistics(_only(block), of_part, join, codes, beside)


def _tree(values: list[Any], join: Join) -> Any:
    from dask.delayed import delayed

    joined, step = delayed(_join_all), tuning.JOINED_AT_ONCE
    while len(values) > 1:
        values = [joined(join, values[begin : begin + step]) for begin in range(0, len(values), step)]
    return values[0]


def _join_all(join: Join, values: list[Any]) -> Any:
    with np.errstate(all="ignore"):
        return reduce(join, values)


def chunked(vector: Array, X: Any) -> Any:
    """Return a vector with one entry per sample as a Dask array with the chunks of X."""
    from dask.array import from_array

    return from_array(vector, chunks=(X.chunks[0],))


def added(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the sums of two tuples, entry by entry."""
    return tuple(a + b for a, b in zip(one, other, strict=True))


def number_and_sum(part: Any) -> tuple[int, Any]:
    """Return the number of some samples and their sum."""
    return part.shape[0], namespace(part).sum(cast(part, widest(part)), axis=0)


def without_explained(X: Any, positions: Array, rows: Array, coefficients: Any) -> Any:
    """Return samples minus what their rows explain, ``rows @ coefficients``; ``positions`` are those among the rows."""
    xp, dtype = namespace(X), floating(X)
    out = cast(X, dtype, copy=True)
    for where in parts(X):
        explained = like(rows[positions[where]], X, dtype_of(coefficients)) @ coefficients
        out[where, ...] -= cast(xp.reshape(explained, tuple(out[where, ...].shape)), dtype)
    return out


def in_order(X: Any) -> Any:
    """Return an array in C order."""
    return namespace(X).reshape(namespace(X).reshape(X, (-1,)), X.shape)


def by_chunk(X: Any, codes: Array, of_code: Mapping[int, Any]) -> Any:
    """Return a Dask array with one chunk per chunk of X: the values of the groups in it, by code."""
    from dask.array import concatenate, from_delayed
    from dask.delayed import delayed

    none = np.empty(0, object)
    own = (delayed({code: of_code[code] for code in present}) for present in _present_in_chunks(X, codes))
    return concatenate([from_delayed(values, (1,), meta=none) for values in own])


def mapped(X: Any, change: Callable[..., Any], *beside: Any, dtype: Any = None) -> Any:
    """Return the Dask array with ``change`` applied to each chunk of samples; nothing is computed.

    X is chunked along the samples only, and ``beside`` are vectors with the same chunks, which ``change`` gets as well.
    It is one node of the graph, whatever the number of chunks. Without a ``dtype``, which is that of samples of the
    same shape, it is called without samples to find out what it returns.
    """
    from dask.array import blockwise
    from dask.delayed import delayed

    none = np.empty_like(X._meta, shape=(0, *X.shape[1:]), dtype=dtype)
    made = change(none) if dtype is None else none
    shared = min(X.ndim, made.ndim)
    return blockwise(
        _changed,
        tuple(range(made.ndim)),
        delayed(change, traverse=False),
        None,
        X,
        tuple(range(X.ndim)),
        *(each for vector in beside for each in (vector, (0,))),
        new_axes={axis: made.shape[axis] for axis in range(shared, made.ndim)},
        adjust_chunks={axis: made.shape[axis] for axis in range(1, shared)},
        align_arrays=False,
        dtype=made.dtype,
        meta=made,
    )


def _changed(change: Callable[..., Any], block: Any, *beside: Any) -> Any:
    return change(_only(block), *beside)
