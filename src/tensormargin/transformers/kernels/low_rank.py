"""Features of kernels: pivoted Cholesky of the kernel matrix, columns on demand, and landmarks for Nyström's method."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh

from ...runtime import Array, FloatArray, triangles, tuning
from .kernels import Kernel

_CANDIDATES = 128  # pivots looked at together, so that columns are updated by matrix products
_NEAR_LARGEST = 0.5  # of the largest residual: pivots of a block are at least that large
_ROUNDING = 1e-6  # of the largest value: a residual below minus that much is no rounding


class Root(NamedTuple):
    """A lower triangular root of the kernel matrix of the landmarks, whose positions are ``pivots``."""

    pivots: Array
    lower: FloatArray


def row_blocks(n_rows: int, entries_per_row: int) -> Iterator[slice]:
    """Yield slices of rows so small that a block has a bounded number of entries."""
    step = max(1, tuning.KERNEL_ENTRIES // max(1, entries_per_row))
    for begin in range(0, n_rows, step):
        yield slice(begin, min(begin + step, n_rows))  # the array API has no slices beyond the end


def columns(kernel: Kernel, rows: Array, landmarks: Array) -> Any:
    """Return the kernel's values of all samples and some landmarks, of shape (n_samples, n_landmarks)."""
    out = np.empty((len(rows), len(landmarks)), kernel.dtype)
    for where in row_blocks(len(rows), len(landmarks) * kernel.entries_per_pair(rows)):
        out[where] = kernel.block(rows[where], landmarks)
    return out


def diagonal(kernel: Kernel, rows: Array) -> FloatArray:
    """Return k(x, x) of all samples; raise ValueError if the kernel cannot be used."""
    values = kernel.diagonal(rows)
    if not np.all(np.isfinite(values)):
        raise ValueError(f"k(x, x) must be finite; the {kernel.words} gives {values[~np.isfinite(values)][0]}. Scale X")
    if np.any(values < 0):
        raise ValueError(_not_positive(kernel, float(values.min())))
    if not np.any(values > 0):
        raise ValueError(
            f"the {kernel.words} is zero for all training samples, so it has no features. Check the samples"
        )
    return values


def _not_positive(kernel: Kernel, value: float) -> str:
    return (
        f"a kernel must be positive semi-definite; the {kernel.words} leaves {value:.3g} on the diagonal of its matrix."
        " Use another kernel, or set its negative eigenvalues to zero"
    )


def pivoted_cholesky(kernel: Kernel, rows: Array, tol: float, most: int) -> tuple[Root, FloatArray, FloatArray]:
    """Return a root, features F with ``K = F F'`` up to ``tol`` or as ``most`` get, and what is left of each k(x, x).

    Columns of K are computed for the pivots only, in blocks: of the samples with the largest residuals those are taken
    that are still among the largest after the others of their block. K itself is never formed.
    """
    values = diagonal(kernel, rows)
    residuals, floor = values.copy(), tol * float(values.max())
    features, pivots = np.empty((len(rows), min(most, 4 * _CANDIDATES)), order="F"), np.empty(0, np.intp)
    while (largest := float(residuals.max())) > floor and len(pivots) < most:
        done = len(pivots)
        chosen, new = _block_of_pivots(kernel, rows, features[:, :done], residuals, largest, floor, most - done)
        if not len(chosen):  # the residuals were rounding
            break
        if done + len(chosen) > features.shape[1]:
            wider = np.empty((len(rows), min(most, 2 * features.shape[1] + len(chosen))), order="F")
            wider[:, :done] = features[:, :done]
            features = wider
        features[:, done : done + len(chosen)] = new
        pivots = np.append(pivots, chosen)
        residuals -= np.einsum("nr,nr->n", new, new)
        residuals[pivots] = 0.0
        lowest = float(residuals.min())
        if lowest < -_ROUNDING * float(values.max()):
            raise ValueError(_not_positive(kernel, lowest))
        floor = max(floor, -2.0 * lowest)  # residuals as small as the rounding of others are rounding
    features = features[:, : len(pivots)]
    return Root(pivots, np.tril(features[pivots])), features, np.maximum(residuals, 0.0)


def _block_of_pivots(
    kernel: Kernel, rows: Array, features: FloatArray, residuals: FloatArray, largest: float, floor: float, most: int
) -> tuple[Array, FloatArray]:
    """Return new pivots and their columns of features."""
    count = min(_CANDIDATES, most, len(rows))
    near = max(floor, _NEAR_LARGEST * largest)
    chosen = np.argsort(-residuals, kind="stable")[:count]
    chosen = chosen[residuals[chosen] >= near]
    left = columns(kernel, rows, kernel.landmarks(rows, chosen)) - features @ features[chosen].T
    root = _small_root(left[chosen], near)
    chosen, left = chosen[root.pivots], left[:, root.pivots]
    return chosen, features_of(root, left) if len(chosen) else left


def _small_root(matrix: FloatArray, least: float) -> Root:
    """Return the pivoted Cholesky root of a small matrix, of pivots that are at least that large; perhaps of none."""
    lower, order = triangles.pivoted_cholesky(matrix, least * (1 - 1e-12))
    rank = lower.shape[1]
    return Root(order[:rank], lower[:rank])


def landmark_root(kernel: Kernel, rows: Array, chosen: Array, tol: float) -> Root:
    """Return the root for landmarks at some positions; those that depend on others are left out."""
    matrix = columns(kernel, rows[chosen], kernel.landmarks(rows, chosen))
    root = _small_root(matrix, tol * float(np.max(np.diagonal(matrix))))
    return Root(chosen[root.pivots], root.lower)


def features_of(root: Root, values: FloatArray) -> FloatArray:
    """Return the features ``F_P^-1 k(P, x)`` of samples from their values with the landmarks."""
    return triangles.solve(root.lower, values)


def leading_components(features: FloatArray, count: int) -> FloatArray:
    """Return the directions with the largest share of the samples' squared norms, of shape (n_features, count)."""
    n_features = features.shape[1]
    vectors = eigh(features.T @ features, subset_by_index=[n_features - count, n_features - 1])[1]
    return np.ascontiguousarray(vectors[:, ::-1])


def projection(root: Root, directions: FloatArray) -> FloatArray:
    """Return the matrix that takes values with the landmarks to the features along some directions."""
    return triangles.solve(root.lower, directions.T, transposed=True).T


def uniform_landmarks(kernel: Kernel, rows: Array, count: int, rng: np.random.RandomState) -> Array:
    """Return the positions of random samples."""
    return rng.choice(len(rows), count, replace=False)


def spread_landmarks(kernel: Kernel, rows: Array, count: int, rng: np.random.RandomState) -> Array:
    """Return the positions of samples far from each other: k-means++ in the space of the kernel.

    The next landmarks are drawn with probabilities proportional to the squared distance to the nearest one so far, a
    few at a time.
    """
    values = diagonal(kernel, rows)
    chosen = rng.choice(len(rows), 1)
    distances = np.full(len(rows), np.inf)
    new = chosen
    while True:
        near = columns(kernel, rows, kernel.landmarks(rows, new))
        apart = values[:, None] + values[new] - 2.0 * near
        np.minimum(distances, apart.min(axis=1), out=distances)
        distances[chosen] = 0.0
        np.maximum(distances, 0.0, out=distances)
        left = np.flatnonzero(distances)
        at_once = min(count - len(chosen), max(1, count // 16), len(left))
        if at_once == 0:  # enough, or all others are copies of landmarks
            return chosen
        shares = distances[left] / distances[left].sum()
        new = left[rng.choice(len(left), at_once, replace=False, p=shares)]
        chosen = np.append(chosen, new)


def leverage_landmarks(kernel: Kernel, rows: Array, count: int, rng: np.random.RandomState) -> Array:
    """Return the positions of samples drawn by approximate ridge leverage scores (Musco and Musco 2017).

    The scores, ``k(x, x) - k(x, S) (K_SS + ridge)^-1 k(S, x)``, use half as many uniform landmarks S; the ridge is the
    mean of the smaller half of the eigenvalues of K_SS.
    """
    values = diagonal(kernel, rows)
    first = uniform_landmarks(kernel, rows, max(1, count // 2), rng)
    cross = columns(kernel, rows, kernel.landmarks(rows, first))
    own = cross[first]
    ridge = max(float(np.mean(np.linalg.eigvalsh(own)[: (len(own) + 1) // 2])), 1e-10 * float(values.max()))
    lower = np.linalg.cholesky(own + ridge * np.eye(len(own)))
    explained = features_of(Root(first, lower), cross)
    scores = np.maximum(values - np.einsum("nm,nm->n", explained, explained), 0.0)
    scores = scores + 1e-12 * scores.max() + np.finfo(np.float64).tiny  # so that there are always enough to draw
    return rng.choice(len(rows), count, replace=False, p=scores / scores.sum())


LANDMARKS: dict[str, Callable[[Kernel, Array, int, np.random.RandomState], Array]] = {
    "k-means++": spread_landmarks,
    "leverage": leverage_landmarks,
    "uniform": uniform_landmarks,
}
"""Ways to choose landmarks."""
