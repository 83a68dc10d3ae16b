"""Compiled inner loops: moments of the samples, products in double precision, dual coordinate descent.

A separate module, so that importing the package does not import numba; the compiled code is cached on disk. The
functions have no annotations (see mypy in pyproject.toml): numba infers the types and compiles one version per
signature. Arrays are copied in loops: one assignment to a slice takes three seconds to compile.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_REORDER = {"reassoc", "contract", "nsz"}  # allows vectorised dot products


_TILE = 2048  # columns; their sums stay in the L1 cache


@njit(cache=True, nogil=True, fastmath=_REORDER)
def add_moments(samples, pivot, weights, signed_weights, sums):
    """Add weighted sums of ``samples - pivot`` to the two rows of ``sums``; return the weighted sum of squares.

    Each sample is read once, at memory bandwidth, whereas NumPy needs temporaries and four passes (64 samples of 1 MB:
    9 instead of 34 ms). Four samples are processed at a time, so that the sums are written a quarter as often; the last
    group is padded with samples of weight zero.
    """
    n_samples, n_columns = samples.shape
    last = n_samples - 1
    w, s = np.zeros(n_samples + 3), np.zeros(n_samples + 3)
    for i in range(n_samples):
        w[i], s[i] = weights[i], signed_weights[i]
    total = 0.0
    for start in range(0, n_columns, _TILE):
        tile = slice(start, min(start + _TILE, n_columns))
        pivots, plain, signed = pivot[tile], sums[0, tile], sums[1, tile]
        for i in range(0, n_samples, 4):
            rows = samples[i, tile], samples[min(i + 1, last), tile], samples[min(i + 2, last), tile]
            final_row = samples[min(i + 3, last), tile]
            square = 0.0
            for j in range(pivots.size):
                a, b, c = rows[0][j] - pivots[j], rows[1][j] - pivots[j], rows[2][j] - pivots[j]
                d = final_row[j] - pivots[j]
                square += w[i] * a * a + w[i + 1] * b * b + w[i + 2] * c * c + w[i + 3] * d * d
                plain[j] += w[i] * a + w[i + 1] * b + w[i + 2] * c + w[i + 3] * d
                signed[j] += s[i] * a + s[i + 1] * b + s[i + 2] * c + s[i + 3] * d
            total += square
    return total


@njit(cache=True, nogil=True, fastmath=_REORDER)
def multiply(rows, vector, out):
    """Write ``rows @ vector`` to ``out``, summing float32 rows in float64 without copying them."""
    for i in range(rows.shape[0]):
        row, total = rows[i], 0.0
        for k in range(row.size):
            total += row[k] * vector[k]
        out[i] = total


@njit(cache=True, nogil=True, fastmath=_REORDER)
def combine(rows, weights, out):
    """Add ``weights @ rows`` to ``out`` in float64; four rows at a time, so ``out`` is written a quarter as often."""
    n_rows = rows.shape[0]
    for i in range(0, n_rows - 3, 4):
        a, b, c, d = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for k in range(out.size):
            out[k] += a * rows[i, k] + b * rows[i + 1, k] + c * rows[i + 2, k] + d * rows[i + 3, k]
    for i in range(n_rows - n_rows % 4, n_rows):
        for k in range(out.size):
            out[k] += weights[i] * rows[i, k]


@njit(cache=True, nogil=True)
def descend(problem, beta, u, order, seed, target, max_epochs):
    """Run epochs of coordinate descent in place until the estimated gap is at most ``target``; return their number.

    Shrinking: a coordinate at a bound is set aside if its gradient points outwards by more than any violation of the
    previous epoch. The caller checks the gap over all samples and calls again if shrinking was too aggressive.
    ``problem`` has the rows, their squared norms and the bounds, ``seed`` (one uint64) the state of the generator
    that shuffles the coordinates.
    """
    n_active = order.shape[0]
    low_bar, high_bar = -np.inf, np.inf
    for epoch in range(max_epochs):
        _shuffle(order, n_active, seed)
        gap, low_bar, high_bar, n_active = _epoch(problem, beta, u, order, n_active, low_bar, high_bar)
        if gap <= target:
            return epoch + 1
        low_bar = low_bar if low_bar < 0.0 else -np.inf
        high_bar = high_bar if high_bar > 0.0 else np.inf
    return max_epochs


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _epoch(problem, beta, u, order, n_active, low_bar, high_bar):
    """Visit the active coordinates once; return the estimated gap, the worst violations and the number still active."""
    rows, squares, lower, upper = problem
    n_columns = rows.shape[1]
    gap, lowest, highest = 0.0, 0.0, 0.0
    position = 0
    while position < n_active:
        i = order[position]
        gradient = -1.0
        for k in range(n_columns):
            gradient += rows[i, k] * u[k]
        old = beta[i]
        if _settled(old, gradient, lower[i], upper[i], low_bar, high_bar):
            n_active -= 1
            order[position], order[n_active] = order[n_active], i
            continue
        position += 1
        distance = upper[i] - old if gradient < 0.0 else old - lower[i]
        gap += distance * abs(gradient)
        if distance > 0.0:
            lowest, highest = min(lowest, gradient), max(highest, gradient)
        step = _clipped_step(old, gradient, squares[i], lower[i], upper[i]) - old
        if step != 0.0:
            beta[i] = old + step
            for k in range(n_columns):
                u[k] += step * rows[i, k]
    return gap, lowest, highest, n_active


@njit(cache=True, nogil=True, inline="always")
def _settled(old, gradient, low, high, low_bar, high_bar):
    """Return whether a coordinate is at a bound and pushed against it harder than any other is pulled away."""
    return (old <= low and gradient > high_bar) or (old >= high and gradient < low_bar)


@njit(cache=True, nogil=True, inline="always")
def _clipped_step(old, gradient, square, low, high):
    if square > 0.0:
        return min(max(old - gradient / square, low), high)
    return high if gradient < 0.0 else low  # the objective is linear for a zero row


@njit(cache=True, nogil=True)
def _shuffle(order, n_active, seed):
    """Shuffle in place (Fisher-Yates with xorshift64), independently of any global random state."""
    state = seed[0]
    for last in range(n_active - 1, 0, -1):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        other = np.int64(state % np.uint64(last + 1))
        order[last], order[other] = order[other], order[last]
    seed[0] = state
