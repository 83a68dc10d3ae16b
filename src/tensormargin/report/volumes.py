"""Maps for the interactive viewer of the page, packed into one byte per entry."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from .._typing import Array

LONGEST_MODE = 128
"""Longer modes are reduced to this size, to keep the page small enough to send."""


def packed_map(values: Array, name: str) -> dict[str, Any]:
    """Return a map as JSON types.

    Returns
    -------
    dict
        "shape" and "bytes" (base64, from -127 to 127) of the displayed map; "largest" is the value of 127. "edges"
        holds, for each mode of reduced size, the first index of each displayed entry, followed by the original size;
        None for other modes. "peak" is the entry of largest absolute value with its original indices, "start" the
        indices of the displayed entry that contains it.
    """
    values = np.nan_to_num(np.asarray(values, np.float64))
    edges = [_edges(size) for size in values.shape]
    shown = _block_means(values, edges)
    peak = np.unravel_index(np.argmax(np.abs(values)), values.shape)
    largest = float(np.abs(shown).max(initial=0.0))
    whole = np.round(shown / (largest or 1.0) * 127).astype(np.int8)
    return {
        "name": name,
        "shape": list(whole.shape),
        "largest": largest,
        "bytes": base64.b64encode(whole.tobytes()).decode(),
        "edges": [None if len(own) > size else own.tolist() for own, size in zip(edges, values.shape, strict=True)],
        "start": [int(np.searchsorted(own, at, side="right")) - 1 for own, at in zip(edges, peak, strict=True)],
        "peak": {"at": [int(at) for at in peak], "value": float(values[peak])},
    }


def packed_background(values: Array) -> str:
    """Return a grey background for a map of the same shape, as bytes (base64) from 0 to 255."""
    values = np.nan_to_num(np.asarray(values, np.float64))
    shown = _block_means(values, [_edges(size) for size in values.shape])
    low, high = np.percentile(shown, [1, 99])
    scaled = np.clip((shown - low) / ((high - low) or 1.0), 0, 1)
    return base64.b64encode(np.round(scaled * 255).astype(np.uint8).tobytes()).decode()


def _edges(size: int) -> Array:
    """Return the first index of each displayed entry, followed by the size of the mode."""
    count = min(size, LONGEST_MODE)
    return np.arange(count + 1) * size // count


def _block_means(values: Array, edges: list[Array]) -> Array:
    """Return the mean over the block of each displayed entry."""
    for mode, own in enumerate(edges):
        if len(own) <= values.shape[mode]:
            lengths = np.diff(own).reshape(-1, *[1] * (values.ndim - mode - 1))
            values = np.add.reduceat(values, own[:-1], axis=mode) / lengths
    return values
