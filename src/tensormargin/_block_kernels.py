"""One small block problem from its contracted design to a certified solution, compiled and without the GIL.

The same algorithm as `tensormargin.blocks` and `tensormargin.solvers.dual_cd` have for large problems (Eq. 12-14), and
the same inner loop (`tensormargin._kernels.descend`), but a call for each step would take ten times as long as the
arithmetic if samples are few. `tests/test_small_blocks.py` holds both against each other and a general QP solver.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ._kernels import _REORDER, descend

_TINY = np.finfo(np.float64).tiny
_EPSILON = np.finfo(np.float64).eps
_FIRST_WIDTH = 0.1  # of the rounded corner of the hinge, and the factor by which it shrinks


@njit(cache=True, nogil=True)
def solve_small(design, signs, weights, strengths, bias, start, gaps, limits):
    """Solve Eq. 12 for one design.

    Parameters
    ----------
    design : float64 array of shape (n_samples, d)
    signs, weights : float64 arrays of shape (n_samples,)
    strengths : tuple of float
        lam, mu1, mu2.
    bias : float
        Zero for no intercept.
    start : float64 array of shape (n_samples,)
        A dual point to start from; it is clipped to the box.
    gaps : tuple of float
        The relative gap to reach, the one at which descent hands over to the exact solve on the free coordinates, and
        the one above which a further round of descent is not worth trying.
    limits : tuple of int
        Rounds of descent, epochs of each, and multiplications of an exact solve.

    Returns
    -------
    vector : float64 array of shape (d,)
    intercept : float
    beta : float64 array of shape (n_samples,)
    primal, dual, scale : float
        Eq. 12 at the vector and intercept, its dual value, and the unit of the relative gap.
    """
    lam, mu1, mu2 = strengths
    signed, mean = _signed_rows(design, signs, weights, bias)
    wide = signed.shape[1] > signed.shape[0]
    rows, chosen = _gram_factor(signed) if wide else (signed, np.empty(0, np.int64))
    factor = _inverse_factor(rows, weights, mu1) if mu1 > 0.0 else np.empty((0, 0))
    whitened = rows @ factor.T if mu1 > 0.0 else rows
    lower, upper = mu2 * weights, (mu2 + lam) * weights
    beta = np.minimum(np.maximum(start, lower), upper)
    _optimise(whitened, lower, upper, beta, gaps, limits, lam, mu2, weights)
    u = beta @ whitened
    half_square = 0.5 * (u @ u)
    dual = np.sum(beta - lower) - half_square
    solution = factor.T @ u if mu1 > 0.0 else u
    if wide:
        solution = _in_span(signed, rows, chosen, solution)
    primal, scale = _evaluate(signed @ solution, solution, weights, lam, mu1, mu2)
    d = design.shape[1]
    vector = solution[:d].copy()
    intercept = bias * solution[d] - mean @ vector if bias > 0.0 else 0.0
    return vector, intercept, beta, primal, dual, scale


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _signed_rows(design, signs, weights, bias):
    """Return the rows ``t_i (z_i - mean, bias)`` and the mean (`tensormargin.blocks.signed_design`)."""
    n, d = design.shape
    mean = np.zeros(d)
    if bias > 0.0:
        for i in range(n):
            for j in range(d):
                mean[j] += weights[i] * design[i, j]
    rows = np.empty((n, d + 1 if bias > 0.0 else d))
    for i in range(n):
        for j in range(d):
            rows[i, j] = signs[i] * (design[i, j] - mean[j])
        if bias > 0.0:
            rows[i, d] = signs[i] * bias
    return rows, mean


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _inverse_factor(rows, weights, mu1):
    """Return ``L^-1`` with ``LL' = Q = I + 2 mu1 Y'(diag(p) - pp')Y``."""
    n, k = rows.shape
    centred = np.empty((n, k))
    mean = weights @ rows
    for i in range(n):
        root = np.sqrt(2.0 * mu1 * weights[i])
        for j in range(k):
            centred[i, j] = root * (rows[i, j] - mean[j])
    quadratic = centred.T @ centred
    for j in range(k):
        quadratic[j, j] += 1.0
    factor = np.linalg.cholesky(quadratic)
    inverse = np.zeros((k, k))
    for i in range(k):  # row by row: L[i] inverse = e_i
        inverse[i, i] = 1.0
        for j in range(i):
            scale = factor[i, j]
            for c in range(j + 1):
                inverse[i, c] -= scale * inverse[j, c]
        for c in range(i + 1):
            inverse[i, c] /= factor[i, i]
    return inverse


@njit(cache=True, nogil=True)
def _gram_factor(rows):
    """Return F with ``FF' = YY'`` and the rows that form a lower triangle: pivoted Cholesky of the scaled Gram matrix.

    See `tensormargin.blocks.sample_side`.
    """
    n = len(rows)
    gram = rows @ rows.T
    lengths = np.sqrt(np.diag(gram))
    for i in range(n):
        if not lengths[i] > 0.0:
            lengths[i] = 1.0
    left = np.array([gram[i, i] / (lengths[i] * lengths[i]) for i in range(n)])
    factor, pivots, rank = np.zeros((n, n)), np.zeros(n, np.int64), 0
    for column in range(n):
        pivot = np.argmax(left)
        if left[pivot] <= n * _EPSILON:
            break
        root = np.sqrt(left[pivot])
        pivots[column], rank = pivot, column + 1
        known = factor[:, :column] @ factor[pivot, :column]
        for i in range(n):
            if left[i] > -1.0:
                factor[i, column] = (gram[i, pivot] / (lengths[i] * lengths[pivot]) - known[i]) / root
                left[i] -= factor[i, column] ** 2
        factor[pivot, column] = root
        left[pivot] = -2.0  # done
    if rank == 0:
        rank, factor[0, 0] = 1, _TINY  # all samples are zero: keep the triangle invertible
    kept = np.empty((n, rank))
    for i in range(n):
        for j in range(rank):
            kept[i, j] = factor[i, j] * lengths[i]
    return kept, pivots[:rank].copy()


@njit(cache=True, nogil=True)
def _in_span(signed, rows, chosen, solution):
    """Return the vector ``Y'c`` with ``F'c = solution`` for coefficients of the chosen rows only."""
    rank = len(chosen)
    coefficients = solution.copy()
    for i in range(rank - 1, -1, -1):  # the triangle of the chosen rows, transposed
        for j in range(i + 1, rank):
            coefficients[i] -= rows[chosen[j], i] * coefficients[j]
        coefficients[i] /= rows[chosen[i], i]
    total = np.zeros(signed.shape[1])
    for j in range(rank):
        total += coefficients[j] * signed[chosen[j]]
    return total


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _evaluate(margins, solution, weights, lam, mu1, mu2):
    """Return the value of Eq. 12 and the sum of the absolute values of its terms."""
    mean = weights @ margins
    variance, hinge = 0.0, 0.0
    for i in range(len(margins)):
        variance += weights[i] * (margins[i] - mean) ** 2
        hinge += weights[i] * max(0.0, 1.0 - margins[i])
    half_square = 0.5 * (solution @ solution) + mu1 * variance
    return half_square - mu2 * mean + lam * hinge, half_square + abs(mu2 * mean) + lam * hinge


@njit(cache=True, nogil=True)
def _certify(rows, beta, lower, weights, lam, mu2, u, margins):
    """Write ``u = A'beta`` and the margins; return the relative gap, the dual value and the scale."""
    u[:] = beta @ rows
    margins[:] = rows @ u
    half_square = 0.5 * (u @ u)
    mean, hinge, total = 0.0, 0.0, 0.0
    for i in range(len(beta)):
        mean += weights[i] * margins[i]
        hinge += weights[i] * max(0.0, 1.0 - margins[i])
        total += beta[i] - lower[i]
    scale = half_square + abs(mu2 * mean) + lam * hinge
    gap = half_square - mu2 * mean + lam * hinge - (total - half_square)
    relative = max(gap, 0.0) / scale if scale > 0.0 else 0.0
    return relative if np.isfinite(gap) else np.inf, total - half_square, scale


@njit(cache=True, nogil=True)
def _optimise(rows, lower, upper, beta, gaps, limits, lam, mu2, weights):
    """Run descent, then an exact solve on the free coordinates, then Newton's method as far as needed; in place."""
    goal, descent_gap, near = gaps
    rounds, epochs, work = limits
    n, k = rows.shape
    squares = np.empty(n)
    for i in range(n):
        squares[i] = rows[i] @ rows[i]
    u, margins = np.empty(k), np.empty(n)
    gap, dual, scale = _certify(rows, beta, lower, weights, lam, mu2, u, margins)
    if gap <= goal or not np.isfinite(gap):
        return
    seed = np.array([0x9E3779B97F4A7C15], np.uint64)
    for _ in range(rounds):
        descend(rows, squares, lower, upper, beta, u, np.arange(n), seed, 0.5 * descent_gap * scale, epochs)
        gap, dual, scale = _certify(rows, beta, lower, weights, lam, mu2, u, margins)
        gap = _finish(rows, lower, upper, beta, gap, u, margins, work, lam, mu2, weights)
        if gap <= goal or gap > near:
            break
    if gap > goal:
        _newton(rows, lower, upper, beta, (goal, gap), work, lam, mu2, weights)


@njit(cache=True, nogil=True)
def _finish(rows, lower, upper, beta, gap, u, margins, work, lam, mu2, weights):
    """Solve exactly on the free coordinates, in place, if that lowers the gap; return the gap.

    At the optimum about as many coordinates are free as there are columns; if far more are, the point is not near it.
    """
    n, k = rows.shape
    free = 0
    for i in range(n):
        free += lower[i] < beta[i] < upper[i]
    if free == 0 or free > 1.5 * k + 8:
        return gap
    moved, point = beta.copy(), u.copy()
    _minimise_on_face(rows, lower, upper, moved, point, work)
    other, dual, scale = _certify(rows, moved, lower, weights, lam, mu2, point, margins)
    if other < gap:
        beta[:], u[:] = moved, point
        return other
    return gap


@njit(cache=True, nogil=True)
def _newton(rows, lower, upper, beta, gaps, work, lam, mu2, weights):
    """Minimise by a semismooth Newton method on a hinge that is rounded off less and less, in place.

    With the corner of the hinge rounded off over a width of ``delta``, ``beta`` follows from the margins, and the Newton
    system has as many rows as there are columns. Descent crawls where lambda is large and there are no margin terms;
    this does not.
    """
    goal, best = gaps
    n, k = rows.shape
    u, margins = np.empty(k), np.empty(n)
    _certify(rows, beta, lower, weights, lam, mu2, u, margins)
    point, trial = u.copy(), np.empty(n)
    delta = _FIRST_WIDTH
    while best > goal and delta > 1e-10:
        for _ in range(50):
            margins = rows @ point
            for i in range(n):
                trial[i] = weights[i] * (mu2 + lam * min(max((1.0 - margins[i]) / delta, 0.0), 1.0))
            gradient = point - trial @ rows
            if gradient @ gradient <= 1e-20 * (1.0 + point @ point):
                break
            curvature = np.eye(k)
            inside = np.flatnonzero((margins < 1.0) & (margins > 1.0 - delta))
            own = rows[inside] * np.sqrt(lam / delta * weights[inside]).reshape(-1, 1)
            curvature += own.T @ own
            step = np.linalg.solve(curvature, gradient)
            slope, change = gradient @ step, rows @ step
            value = _rounded(point, margins, weights, lam, mu2, delta)
            length = 1.0
            while length > 1e-8:
                if _rounded(point - length * step, margins - length * change, weights, lam, mu2, delta) <= (
                    value - 1e-4 * length * slope
                ):
                    break
                length *= 0.5
            point -= length * step
            if length <= 1e-8:
                break
        moved = np.minimum(np.maximum(trial, lower), upper)
        gap, dual, scale = _certify(rows, moved, lower, weights, lam, mu2, u, margins)
        gap = _finish(rows, lower, upper, moved, gap, u, margins, work, lam, mu2, weights)
        if gap < best:
            best = gap
            beta[:] = moved
        delta *= _FIRST_WIDTH


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _rounded(point, margins, weights, lam, mu2, delta):
    """Return the objective with the corner of the hinge rounded off."""
    total = 0.5 * (point @ point)
    for i in range(len(margins)):
        short = 1.0 - margins[i]
        loss = 0.0
        if short >= delta:
            loss = short - 0.5 * delta
        elif short > 0.0:
            loss = 0.5 * short * short / delta
        total += weights[i] * (lam * loss - mu2 * margins[i])
    return total


@njit(cache=True, nogil=True)
def _minimise_on_face(rows, lower, upper, beta, u, work):
    """Minimise over the free coordinates with the others fixed, fixing those that reach a bound; in place."""
    free = np.flatnonzero((beta > lower) & (beta < upper))
    while 0 < free.size and work > 0:
        work -= free.size**2 * (free.size + rows.shape[1])
        own = rows[free]
        step = _solve_semidefinite(own, 1.0 - own @ u)
        share = 1.0
        for place in range(free.size):
            i = free[place]
            room = upper[i] - beta[i] if step[place] > 0.0 else beta[i] - lower[i]
            if step[place] != 0.0:
                share = min(share, room / abs(step[place]))
        kept = 0
        for place in range(free.size):
            i, old = free[place], beta[free[place]]
            room = upper[i] - old if step[place] > 0.0 else old - lower[i]
            if share < 1.0 and abs(step[place]) * share >= room:
                beta[i] = upper[i] if step[place] > 0.0 else lower[i]
            else:
                beta[i] = min(max(old + share * step[place], lower[i]), upper[i])
                free[kept] = i
                kept += 1
            change = beta[i] - old
            for j in range(rows.shape[1]):
                u[j] += change * rows[i, j]
        if share >= 1.0 or kept == free.size:
            return
        free = free[:kept]


@njit(cache=True, nogil=True)
def _solve_semidefinite(rows, right):
    """Return the solution of ``rows rows' x = right``; a tiny ridge makes repeated rows share the step evenly."""
    gram = rows @ rows.T
    ridge = 1e-13 * np.trace(gram) + _TINY
    for i in range(len(gram)):
        gram[i, i] += ridge
    inverse = np.linalg.inv(gram)
    solution = inverse @ right
    return solution + inverse @ (right - rows @ (solution @ rows))
