"""Maps for the interactive viewer of the page, packed into two bytes per entry."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from ..runtime import Array, FloatArray

LONGEST_MODE = 128
"""Longer modes are reduced to this size, to keep the page small enough to send."""
_POWERS = 36  # of ten that a code of two bytes can tell apart


def packed_map(values: Array, name: str) -> dict[str, Any]:
    """Return a map as JSON types.

    Returns
    -------
    dict
        "shape" and "codes" (base64) of the displayed map, with its values to the three digits that the page shows, see
        `three_digits`; "lowest" is the power of ten of the smallest ones and "largest" the largest absolute value.
        "edges" holds, for each mode of reduced size, the first index of each displayed entry, followed by the original
        size; None for other modes. "peak" is the entry of largest absolute value with its original indices, "start"
        the indices of the displayed entry that contains it.
    """
    values = np.nan_to_num(np.asarray(values, np.float64))
    edges = [_edges(size) for size in values.shape]
    shown = _block_means(values, edges)
    peak = np.unravel_index(np.argmax(np.abs(values)), values.shape)
    codes, lowest = three_digits(shown)
    return {
        "name": name,
        "shape": list(shown.shape),
        "largest": float(np.abs(shown).max(initial=0.0)),
        "lowest": lowest,
        "codes": base64.b64encode(codes.astype("<u2").tobytes()).decode(),
        "edges": [None if len(own) > size else own.tolist() for own, size in zip(edges, values.shape, strict=True)],
        "start": [int(np.searchsorted(own, at, side="right")) - 1 for own, at in zip(edges, peak, strict=True)],
        "peak": {"at": [int(at) for at in peak], "value": float(values[peak])},
    }


def three_digits(values: FloatArray) -> tuple[Array, int]:
    """Return finite numbers to three significant digits, as whole numbers below 2**16, and the lowest power of ten.

    A number d.dd * 10**(lowest + k) is 1 + 2 * (900 * k + ddd - 100), plus 1 if it is negative. Zero is 0, and so are
    numbers that are smaller than the largest one by 36 powers of ten.
    """
    sizes = np.abs(values)
    with np.errstate(divide="ignore"):
        powers = np.maximum(np.floor(np.log10(sizes)), -290)
    lowest = int(powers.max(initial=-290)) - _POWERS + 1
    digits = np.rint(sizes / 10.0 ** (powers - 2))  # 1000 is the code of 1.00 at the next power
    codes = 1 + 2 * (900 * (powers - lowest) + digits - 100) + (values < 0)
    return np.where((digits >= 100) & (powers >= lowest), codes, 0).astype(np.uint16), lowest


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
