"""Synthetic data sets with known ground truth."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from sklearn.utils import Bunch, check_random_state

from ..runtime import Array
from ._store import described

_ENTRIES_AT_ONCE = 2**22  # in blocks, so that a million samples are not held in memory twice


def make_low_rank_classes(
    n_samples: int = 200,
    shape: Sequence[int] = (30, 30, 30),
    rank: int = 2,
    distance: float = 6.0,
    dtype: Any = np.float64,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch:
    """Generate two classes of unit-variance noise whose means differ by a tensor of low CP rank.

    Parameters
    ----------
    n_samples : int, default=200
        Half of the samples are in each class, alternating.
    shape : sequence of int, default=(30, 30, 30)
    rank : int, default=2
        CP rank of the difference between the means.
    distance : float, default=6.0
        Norm of that difference, in standard deviations of the noise of one entry.
    dtype : dtype, default=float64
    random_state : int, RandomState instance or None

    Returns
    -------
    Bunch
        ``data``, ``target`` (-1 and 1), ``difference`` (the mean of class 1 minus that of class -1), ``best_accuracy``
        (of the Bayes classifier), ``DESCR``.

    Examples
    --------
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> make_low_rank_classes(10, (4, 5), random_state=0).data.shape
    (10, 4, 5)
    """
    from scipy.stats import norm

    shape = _checked(n_samples, shape)
    if rank < 1:
        raise ValueError(f"rank must be at least 1; got {rank}")
    rng = check_random_state(random_state)
    difference = np.zeros(shape)
    for _ in range(rank):
        difference += _outer([rng.standard_normal(size) for size in shape])
    difference *= distance / np.linalg.norm(difference)
    signs = np.where(np.arange(n_samples) % 2, 1, -1)
    data = np.empty((n_samples, *shape), dtype)
    step = max(1, _ENTRIES_AT_ONCE // difference.size)
    for start in range(0, n_samples, step):
        part = slice(start, start + step)
        halves = np.multiply.outer(signs[part] / 2, difference)
        halves += rng.standard_normal(halves.shape)
        data[part] = halves
    best = float(norm.cdf(distance / 2))
    values = {"shape": "x".join(map(str, shape)), "rank": rank, "distance": distance, "best": best}
    return described(
        "low_rank_classes", None, values, data=data, target=signs, difference=difference, best_accuracy=best
    )


def make_fmri_like(
    n_samples: int = 160,
    shape: Sequence[int] = (49, 58, 47),
    height: float = 0.5,
    radius: float = 4.0,
    smoothness: float = 1.5,
    dtype: Any = np.float32,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch:
    """Generate volumes of smooth noise, with a blob in those of class 1 that resembles an activation.

    Parameters
    ----------
    n_samples : int, default=160
        Half of the samples are in each class, alternating.
    shape : sequence of int, default=(49, 58, 47)
        By default that of the paper's ADHD-200 volumes.
    height : float, default=0.5
        Peak of the blob in standard deviations of the noise.
    radius : float, default=4.0
        Standard deviation of the blob in voxels.
    smoothness : float, default=1.5
        Standard deviation of the Gaussian that smooths the noise, in voxels.
    dtype : dtype, default=float32
    random_state : int, RandomState instance or None

    Returns
    -------
    Bunch
        ``data``, ``target`` (0 and 1), ``blob`` (the mean of class 1 minus that of class 0), ``DESCR``.

    Examples
    --------
    >>> from tensormargin.datasets import make_fmri_like
    >>> make_fmri_like(10, (8, 9, 7), random_state=0).data.shape
    (10, 8, 9, 7)
    """
    from scipy.ndimage import gaussian_filter

    shape = _checked(n_samples, shape)
    rng = check_random_state(random_state)
    centre = tuple(int(rng.randint(size // 4, size - size // 4)) for size in shape)
    profiles = [np.exp(-0.5 * ((np.arange(n) - c) / radius) ** 2) for n, c in zip(shape, centre, strict=True)]
    blob = height * _outer(profiles)
    target = np.arange(n_samples) % 2
    data = np.empty((n_samples, *shape), dtype)
    impulse = np.zeros(shape)
    impulse[tuple(size // 2 for size in shape)] = 1.0
    spread = np.linalg.norm(gaussian_filter(impulse, smoothness, mode="wrap"))  # deviation of smoothed unit noise
    for position, label in enumerate(target):
        noise = gaussian_filter(rng.standard_normal(shape), smoothness, mode="wrap")
        data[position] = noise / spread + label * blob
    values = {"shape": "x".join(map(str, shape)), "centre": centre, "height": height, "radius": radius}
    return described("fmri_like", None, values, data=data, target=target, blob=blob.astype(dtype))


def _checked(n_samples: int, shape: Sequence[int]) -> tuple[int, ...]:
    if n_samples < 2:
        raise ValueError(f"n_samples must be at least 2, one for each class; got {n_samples}")
    if not len(shape) or min(shape) < 1:
        raise ValueError(f"shape must have one size of at least 1 for each mode; got {tuple(shape)}")
    return tuple(int(size) for size in shape)


def _outer(vectors: Sequence[Array]) -> Array:
    return reduce(np.multiply.outer, vectors)
