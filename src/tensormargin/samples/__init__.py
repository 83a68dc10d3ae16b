"""Samples, wherever they live: in memory, on a device, on the workers of a cluster.

What the rest asks of them is the abstract class `Samples`. A new home of samples is a file here and a line in
`samples_of`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._namespace import is_foreign, is_lazy
from .._typing import Array
from .base import FEW_ENTRIES, Contraction, Moments, Samples, best_split, working_dtype
from .device import DeviceSamples
from .memory import MemorySamples


def samples_of(X: Any, rows: Array | None = None, dtype: np.dtype | None = None) -> Samples:
    """Return the samples of an array of any library, or some of its rows (in rising order)."""
    if is_lazy(X):
        from .lazy import LazySamples

        return LazySamples.of(X, rows, dtype)
    if is_foreign(X):
        return DeviceSamples(X, rows, dtype)
    return MemorySamples(X, rows, dtype)


def chunks_here(X: Any) -> Iterator[tuple[slice, Array]]:
    """Yield (positions, samples) of an array of any library as arrays of NumPy, one chunk in memory at a time."""
    if is_lazy(X):
        ends = np.cumsum(X.chunks[0]).tolist()
        for number, end in enumerate(ends):
            yield slice(end - X.chunks[0][number], end), np.asarray(X.blocks[number])
    elif is_foreign(X):
        yield from DeviceSamples(X).chunks_here()
    else:
        yield from MemorySamples(X).chunks()


__all__ = [
    "FEW_ENTRIES",
    "Contraction",
    "MemorySamples",
    "Moments",
    "Samples",
    "best_split",
    "chunks_here",
    "samples_of",
    "working_dtype",
]
