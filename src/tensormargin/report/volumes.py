"""Maps for the sliders of the page: a byte an entry."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from .._typing import Array
from ..preparation import resize

LONGEST_MODE = 128
"""Longer modes are shown at this size: a page must stay small enough to send."""


def packed_map(values: Array, name: str) -> dict[str, Any]:
    """Return a map as JSON: its shape, bytes (base64) from -127 to 127, and what 127 stands for."""
    shown = _small(np.nan_to_num(np.asarray(values, np.float64)))
    largest = float(np.abs(shown).max(initial=0.0))
    whole = np.round(shown / (largest or 1.0) * 127).astype(np.int8)
    return {
        "name": name,
        "shape": list(whole.shape),
        "largest": largest,
        "bytes": base64.b64encode(whole.tobytes()).decode(),
        "start": [int(i) for i in np.unravel_index(np.argmax(np.abs(shown)), shown.shape)],
        "reduced": shown.shape != np.shape(values),
    }


def packed_background(values: Array) -> str:
    """Return the bytes (base64) of a grey image of the same form, from 0 to 255."""
    shown = _small(np.nan_to_num(np.asarray(values, np.float64)))
    low, high = np.percentile(shown, [1, 99])
    scaled = np.clip((shown - low) / ((high - low) or 1.0), 0, 1)
    return base64.b64encode(np.round(scaled * 255).astype(np.uint8).tobytes()).decode()


def _small(values: Array) -> Array:
    shape = tuple(min(size, LONGEST_MODE) for size in values.shape)
    return values if shape == values.shape else resize(values, shape)
