"""Tests of loops over rows: compiled code, and what NumPy and Python do where nothing was compiled."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

from tensormargin.fitting import native, row_loops, without_native

compiled = pytest.mark.skipif(
    not native.has_native("tensormargin_fit"), reason="compiled code is missing: there was no C compiler"
)
pytestmark = pytest.mark.numerical
every_type = pytest.mark.parametrize("dtype", [np.float32, np.float64])
both_ways = pytest.mark.parametrize(
    "way", [pytest.param(nullcontext, id="compiled", marks=compiled), pytest.param(without_native, id="python")]
)
SHAPES = [(1, 1), (3, 5), (4, 16), (7, 19), (9, 2050), (12, 4099)]


def rows_of(shape, dtype, seed=0):
    rows = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    rows.flags.writeable = False
    return rows


@both_ways
@every_type
@pytest.mark.parametrize("shape", [*SHAPES, (0, 4), (4, 0)], ids=str)
def test_products_are_those_of_numpy_in_double_precision(way, dtype, shape):
    rows, vector, weights = rows_of(shape, dtype), rows_of(shape[1], float, 1), rows_of(shape[0], float, 2)
    products, sums = np.full(shape[0], np.nan), np.ones(shape[1])
    with way():
        row_loops.multiply(rows, vector, products)
        row_loops.combine(rows, weights, sums)
    np.testing.assert_allclose(products, rows.astype(float) @ vector, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sums, 1.0 + weights @ rows.astype(float), rtol=1e-12, atol=1e-12)


@both_ways
@every_type
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_moments_add_up(way, dtype, shape):
    rows, pivot = rows_of(shape, dtype), rows_of(shape[1], dtype, 1)
    weights, signed_weights = rows_of(shape[0], float, 2) ** 2, rows_of(shape[0], float, 3)
    sums = np.ones((3, shape[1]))
    with way():
        row_loops.add_moments(rows, pivot, weights, signed_weights, sums)
    shifted = rows.astype(float) - pivot
    np.testing.assert_allclose(sums[0], 1.0 + weights @ shifted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sums[1], 1.0 + signed_weights @ shifted, rtol=1e-12, atol=1e-12)
    assert sums[2, 0] == pytest.approx(1.0 + weights @ (shifted**2).sum(axis=1), rel=1e-12)
    assert np.all(sums[2, 1:] == 1.0)


@both_ways
@every_type
@pytest.mark.parametrize(("n", "width"), [(30, 3), (20, 21), (1, 4), (5, 1)])
def test_descent_minimises_over_the_box(way, dtype, n, width):
    rows = rows_of((n, width), dtype)
    squares = np.einsum("ij,ij->i", rows, rows, dtype=float)
    lower, upper = np.full(n, 0.01), np.full(n, 0.2)
    beta, seed = lower.copy(), np.array([1], np.uint64)
    u = beta @ rows.astype(float)
    with way():
        used = row_loops.descend((rows, squares, lower, upper), beta, u, seed, 1e-9, 100_000)
    assert 0 < used < 100_000
    assert seed[0] != 1 or n == 1
    np.testing.assert_allclose(u, beta @ rows.astype(float), atol=1e-6)
    assert np.all((beta >= lower) & (beta <= upper))
    gradient = rows.astype(float) @ u - 1.0
    at_lower, at_upper = beta == lower, beta == upper  # bounds are reached exactly
    assert np.all(gradient[at_lower] > -1e-4)
    assert np.all(gradient[at_upper] < 1e-4)
    np.testing.assert_allclose(gradient[~at_lower & ~at_upper], 0.0, atol=1e-4)


@compiled
@every_type
def test_arrays_that_do_not_fit_together_are_refused(dtype):
    rows, long, seed = rows_of((5, 3), dtype), np.zeros(6), np.array([1], np.uint64)
    calls = [
        lambda: row_loops.multiply(rows, np.zeros(2), np.zeros(5)),
        lambda: row_loops.multiply(rows, np.zeros(3), np.zeros(4)),
        lambda: row_loops.combine(rows, long, np.zeros(3)),
        lambda: row_loops.add_moments(rows, np.zeros(3), long, long, np.zeros((3, 3))),
        lambda: row_loops.add_moments(rows, np.zeros(3), long[:5], long[:5], np.zeros((2, 3))),
        lambda: row_loops.descend((rows, long, long, long), long, np.zeros(3), seed, 1e-9, 10),
        lambda: row_loops.descend((rows, *[long[:5]] * 3), long[:5], np.zeros(2), seed, 1e-9, 10),
        lambda: row_loops.descend_products(
            (np.eye(5), long[:5], 1.0), (long[:5],) * 3, (long, long, np.zeros(1)), seed, 1e-9, 10
        ),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"needs arrays with \[.*\] entries; got"):
            call()


@compiled
def test_arrays_of_other_types_are_refused():
    rows = rows_of((5, 3), float)
    for vector in (np.zeros(3, np.int64), np.zeros(3, np.float32), np.zeros(6)[::2]):
        with pytest.raises(TypeError, match="contiguous array of float64"):
            row_loops.multiply(rows, vector, np.zeros(5))
    with pytest.raises(TypeError, match="contiguous array of uint64"):
        row_loops.descend((rows, *[np.zeros(5)] * 3), np.zeros(5), np.zeros(3), np.array([1]), 1e-9, 10)


@both_ways
def test_a_row_of_zeros_goes_to_its_upper_bound(way):
    beta, u = np.zeros(2), np.zeros(1)
    problem = np.array([[0.0], [1.0]]), np.array([0.0, 1.0]), np.zeros(2), np.array([0.3, 5.0])
    with way():
        row_loops.descend(problem, beta, u, np.array([7], np.uint64), 1e-12, 100)
    np.testing.assert_allclose(beta, [0.3, 1.0])


@compiled
def test_the_same_epochs_are_made_in_either_way():
    """As long as no coordinate is set aside: the order of the others is another one then."""
    rows = rows_of((40, 6), float)
    problem = rows, np.einsum("ij,ij->i", rows, rows), np.zeros(40), np.full(40, 1e3)
    found = []
    for way in (nullcontext, without_native):
        beta, u, seed = np.full(40, 500.0), 500.0 * rows.sum(axis=0), np.array([3], np.uint64)
        with way():
            row_loops.descend(problem, beta, u, seed, 0.0, 1)
        found.append((beta, u, int(seed[0])))
    (beta, u, seed), (other_beta, other_u, other_seed) = found
    np.testing.assert_allclose(beta, other_beta, rtol=1e-9)
    np.testing.assert_allclose(u, other_u, rtol=1e-9, atol=1e-9)
    assert seed == other_seed
