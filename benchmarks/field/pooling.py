"""Pooled entries: what gradient boosting is given of a sample, a few hundred numbers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import numpy as np

_MOST = 500  # entries of a pooled sample, if those of the whole sample are not more
_QUANTILES = (0, 0.25, 0.5, 0.75, 1)


def pooled(X: Any, modes: tuple[int, ...]) -> np.ndarray:
    """Return mean, standard deviation and quartiles of dyadic blocks of some modes, for each entry of the other ones.

    The whole sample is a block; it is halved along all these modes as long as there are at most 500 numbers, and
    a block has more than one entry along each of them. Without modes to pool, samples are flattened.
    """
    X = np.asarray(X, np.float64)
    if not modes:
        return X.reshape(len(X), -1)
    sizes = [X.shape[mode + 1] for mode in modes]
    channels = np.moveaxis(X, [mode + 1 for mode in modes], range(-len(modes), 0)).reshape(len(X), -1, *sizes)
    found = [_statistics(block) for parts in _halvings(channels.shape[1], sizes) for block in _blocks(channels, parts)]
    return np.concatenate(found, axis=1)


def _halvings(n_channels: int, sizes: list[int]) -> Iterator[int]:
    """Yield into how many parts each mode is cut."""
    parts, total = 1, 0
    while parts == 1 or 2 * parts <= min(sizes):
        total += (2 + len(_QUANTILES)) * n_channels * parts ** len(sizes)
        if total > _MOST and parts > 1:
            return
        yield parts
        parts *= 2


def _blocks(X: np.ndarray, parts: int) -> Iterator[np.ndarray]:
    """Yield samples x channels x entries of each block."""
    bounds = [np.linspace(0, size, parts + 1).astype(int) for size in X.shape[2:]]
    for block in product(*(pairwise(own) for own in bounds)):
        yield X[(..., *(slice(*ends) for ends in block))].reshape(*X.shape[:2], -1)


def _statistics(block: np.ndarray) -> np.ndarray:
    found = [block.mean(-1), block.std(-1), *np.quantile(block, _QUANTILES, axis=-1)]
    return np.concatenate(found, axis=1)
