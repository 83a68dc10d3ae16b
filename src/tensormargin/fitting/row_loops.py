"""Loops over the rows of large matrices in compiled code: moments of samples, products in double precision, descent.

Where nothing was compiled, NumPy and Python make the same steps.
"""

from __future__ import annotations

import numpy as np

from ..runtime import Array, FloatArray
from .native import run_native


def _named(stem: str, rows: Array) -> str:
    return f"tensormargin_{stem}_float{8 * rows.itemsize}"


def add_moments(
    samples: Array, pivot: Array, weights: FloatArray, signed_weights: FloatArray, sums: FloatArray
) -> None:
    """Add weighted sums of ``samples - pivot`` to two rows of ``sums``, and that of their squares to ``sums[2, 0]``.

    Each sample is read once, at memory bandwidth, whereas NumPy needs temporaries and four passes (64 samples of 1 MB:
    9 instead of 34 ms).
    """
    both = np.ascontiguousarray(weights, np.float64), np.ascontiguousarray(signed_weights, np.float64)
    rows, less = np.ascontiguousarray(samples), np.ascontiguousarray(pivot, samples.dtype)
    (n, width), name = rows.shape, _named("add_moments", rows)
    if run_native(name, n, width, rows, less, *both, sums, sizes=(rows.size, width, n, n, 3 * width)) is None:
        shifted = rows.astype(np.float64) - pivot
        sums[:2] += np.stack(both) @ shifted
        sums[2, 0] += np.einsum("i,ij,ij->", both[0], shifted, shifted)


def multiply(rows: Array, vector: FloatArray, out: FloatArray) -> None:
    """Write ``rows @ vector`` to ``out``, summing float32 rows in float64 without copying them."""
    rows = np.ascontiguousarray(rows)
    n, width = rows.shape
    if run_native(_named("multiply", rows), n, width, rows, vector, out, sizes=(rows.size, width, n)) is None:
        np.matmul(rows.astype(np.float64, copy=False), vector, out=out)


def combine(rows: Array, weights: FloatArray, out: FloatArray) -> None:
    """Add ``weights @ rows`` to ``out`` in float64, without copying float32 rows."""
    rows, weights = np.ascontiguousarray(rows), np.ascontiguousarray(weights, np.float64)
    n, width = rows.shape
    if run_native(_named("combine", rows), n, width, rows, weights, out, sizes=(rows.size, n, width)) is None:
        out += weights @ rows.astype(np.float64, copy=False)


def descend(
    problem: tuple[Array, FloatArray, FloatArray, FloatArray],
    beta: FloatArray,
    u: FloatArray,
    seed: Array,
    target: float,
    max_epochs: int,
) -> int:
    """Run epochs of coordinate descent in place until the estimated gap is at most ``target``; return their number.

    Shrinking: a coordinate at a bound is set aside if its gradient points outwards by more than any violation of the
    previous epoch. The caller checks the gap over all samples and calls again if shrinking was too aggressive.
    ``problem`` has the rows, their squared norms and the bounds, ``seed`` (one uint64) the state of the generator
    that shuffles the coordinates.
    """
    rows, squares, lower, upper = (np.ascontiguousarray(part) for part in problem)
    (n, width), order = rows.shape, np.arange(len(rows), dtype=np.int64)
    given = rows, squares, lower, upper, beta, u, order, seed
    sizes = rows.size, n, n, n, n, width, n, 1
    used = run_native(_named("descend", rows), n, width, *given, target, max_epochs, sizes=sizes)
    return (
        _descend_in_python((rows, squares, lower, upper), beta, u, seed, target, max_epochs) if used is None else used
    )


def descend_products(
    products: tuple[FloatArray, FloatArray, float],
    bounds: tuple[FloatArray, FloatArray, FloatArray],
    point: tuple[FloatArray, FloatArray, FloatArray],
    seed: Array,
    target: float,
    max_epochs: int,
) -> int:
    """Run `descend` given the inner products of the rows without their signs: a matrix, plus a factor times ``vv'``.

    ``products`` are matrix, v and factor, ``bounds`` the signs and bounds of the coordinates, and ``point`` these and
    what matrix and v make of the signed ones, all in place.
    """
    (matrix, vector, factor), (signs, lower, upper), (beta, scores, along) = products, bounds, point
    n, order = len(beta), np.arange(len(beta), dtype=np.int64)
    given = n, matrix, vector, factor, signs, lower, upper, beta, scores, along, order, seed
    sizes = n * n, n, n, n, n, n, n, 1, n, 1
    used = run_native("tensormargin_descend_products", *given, target, max_epochs, sizes=sizes)
    if used is not None:
        return used
    squares = np.diagonal(matrix) + factor * vector**2
    for epoch in range(max_epochs):
        _shuffle(places := order.tolist(), seed)
        order[:], gap = places, 0.0
        for i in places:
            gradient = float(signs[i] * (scores[i] + factor * vector[i] * along[0]) - 1.0)
            old, low, high = float(beta[i]), float(lower[i]), float(upper[i])
            gap += (high - old if gradient < 0.0 else old - low) * abs(gradient)
            best = high if gradient < 0.0 else low
            if squares[i] > 0.0:
                best = min(max(old - gradient / float(squares[i]), low), high)
            if best != old:
                beta[i], change = best, signs[i] * (best - old)
                along[0] += change * vector[i]
                scores += change * matrix[i]
        if gap <= target:
            return epoch + 1
    return max_epochs


def _descend_in_python(
    problem: tuple[Array, ...], beta: FloatArray, u: FloatArray, seed: Array, target: float, max_epochs: int
) -> int:
    """Run `descend` where nothing was compiled."""
    rows, active, bars = problem[0].astype(np.float64, copy=False), list(range(len(beta))), (-np.inf, np.inf)
    squares, lower, upper = (part.tolist() for part in problem[1:])
    for epoch in range(max_epochs):
        _shuffle(active, seed)
        kept, gap, lowest, highest = [], 0.0, 0.0, 0.0
        for i in active:
            old, low, high, gradient = float(beta[i]), lower[i], upper[i], float(rows[i] @ u) - 1.0
            if (old <= low and gradient > bars[1]) or (old >= high and gradient < bars[0]):
                continue
            kept.append(i)
            distance = high - old if gradient < 0.0 else old - low
            gap += distance * abs(gradient)
            if distance > 0.0:
                lowest, highest = min(lowest, gradient), max(highest, gradient)
            best = high if gradient < 0.0 else low  # of a row of zeros, where the objective is linear
            if squares[i] > 0.0:
                best = min(max(old - gradient / squares[i], low), high)
            if best != old:
                beta[i] = best
                u += (best - old) * rows[i]
        if gap <= target:
            return epoch + 1
        active, bars = kept, (lowest if lowest < 0.0 else -np.inf, highest if highest > 0.0 else np.inf)
    return max_epochs


def _shuffle(order: list[int], seed: Array) -> None:
    """Shuffle in place (Fisher-Yates with xorshift64), independently of any global random state."""
    state, bits = int(seed[0]), 2**64 - 1
    for last in range(len(order) - 1, 0, -1):
        state ^= state << 13 & bits
        state ^= state >> 7
        state ^= state << 17 & bits
        other = state % (last + 1)
        order[last], order[other] = order[other], order[last]
    seed[0] = state
