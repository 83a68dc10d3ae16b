"""Triangular factors and systems, against SciPy's, and that threads need not wait for them."""

import sys
import threading
import time

import numpy as np
import pytest
from scipy import linalg

from tensormargin.runtime import triangles


@pytest.fixture(params=[1, 2, 7, 40])
def lower(request):
    rng = np.random.default_rng(request.param)
    return np.tril(rng.standard_normal((request.param,) * 2)) + 3 * np.eye(request.param)


def test_cholesky_is_that_of_scipy(lower):
    matrix = lower @ lower.T
    kept = matrix.copy()
    for given in (matrix, np.asfortranarray(matrix)):
        np.testing.assert_allclose(np.tril(triangles.cholesky(given)), linalg.cholesky(matrix, lower=True), rtol=1e-10)
    np.testing.assert_array_equal(matrix, kept)


@pytest.mark.parametrize("matrix", [[[1.0, 2.0], [2.0, 1.0]], [[0.0]], [[-1.0, 0.0], [0.0, 1.0]]])
def test_no_cholesky_of_a_matrix_that_is_not_positive_definite(matrix):
    assert triangles.cholesky(np.array(matrix)) is None


@pytest.mark.parametrize("rank", [1, 3, 10])
def test_pivoted_cholesky_has_the_rank_of_the_matrix(rank):
    points = np.random.default_rng(rank).standard_normal((10, rank))
    matrix = points @ points.T
    lower, order = triangles.pivoted_cholesky(matrix)
    assert lower.shape == (10, rank)
    assert sorted(order) == list(range(10))
    np.testing.assert_allclose(lower @ lower.T, matrix[np.ix_(order, order)], atol=1e-12)
    np.testing.assert_array_equal(lower, np.tril(lower))
    _, pivots, rank_of_scipy, _ = linalg.lapack.dpstrf(matrix, lower=1)
    np.testing.assert_array_equal(order, pivots - 1)
    assert rank_of_scipy == rank


def test_pivoted_cholesky_stops_at_a_tolerance():
    lower, order = triangles.pivoted_cholesky(np.diag([1.0, 9.0, 4.0]), tol=2.0)
    np.testing.assert_array_equal(order[:2], [1, 2])
    np.testing.assert_array_equal(lower, [[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    assert triangles.pivoted_cholesky(np.zeros((3, 3)))[0].shape == (3, 0)


def test_inverse(lower):
    with_garbage = lower + np.triu(np.full(lower.shape, 7.0), 1)
    np.testing.assert_allclose(triangles.inverse(with_garbage) @ lower, np.eye(len(lower)), atol=1e-10)
    np.testing.assert_allclose(triangles.inverse(np.asfortranarray(lower)) @ lower, np.eye(len(lower)), atol=1e-10)
    lower[-1, -1] = 0.0
    assert triangles.inverse(lower) is None


def test_nothing_is_made_of_nothing():
    empty = np.empty((0, 0))
    assert triangles.cholesky(empty).shape == triangles.inverse(empty).shape == (0, 0)
    assert triangles.pivoted_cholesky(empty)[0].shape == (0, 0)
    assert triangles.solve(empty, np.empty((3, 0))).shape == (3, 0)
    triangles.multiply(np.empty((3, 0)), empty)


@pytest.mark.parametrize("transposed", [False, True])
def test_solutions_are_those_of_scipy(lower, transposed):
    rows = np.random.default_rng(0).standard_normal((5, len(lower)))
    with_garbage = lower + np.triu(np.full(lower.shape, np.nan), 1)
    for given in (rows, np.asfortranarray(rows), rows.astype(np.float32).astype(np.float64)):
        expected = linalg.solve_triangular(lower, given.T, lower=True, trans=int(transposed)).T
        np.testing.assert_allclose(triangles.solve(with_garbage, given, transposed), expected, rtol=1e-9, atol=1e-12)
    alone = linalg.solve_triangular(lower, rows[0], lower=True, trans=int(transposed))
    np.testing.assert_allclose(triangles.solve(lower, rows[0], transposed), alone, rtol=1e-9, atol=1e-12)
    assert triangles.solve(lower, rows[:0], transposed).shape == (0, len(lower))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_made_in_place(lower, dtype):
    rows = np.random.default_rng(1).standard_normal((6, len(lower))).astype(dtype)
    expected = rows @ lower.T
    triangles.multiply(rows, lower.astype(dtype))
    np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-4 if dtype == np.float32 else 1e-12)


def test_what_is_no_c_contiguous_matrix_of_the_same_type_is_refused():
    square = np.eye(4)
    with pytest.raises(TypeError, match="contiguous"):
        triangles.multiply(np.asfortranarray(np.ones((3, 4))), square)
    with pytest.raises(TypeError, match="contiguous"):
        triangles.multiply(np.ones((3, 4), np.float32), square)


def test_other_threads_run_meanwhile():
    """A thread that only counts goes on counting during a long factorisation, unless the lock is held."""
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((1200, 1200))
    matrix = matrix @ matrix.T
    count, stop = [0], threading.Event()

    def work():
        while not stop.is_set():
            count[0] += 1
            time.sleep(0)

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=work)
    thread.start()
    try:
        sys.setswitchinterval(10.0)  # nobody is made to give the lock up
        before = count[0]
        triangles.pivoted_cholesky(matrix)
        during = count[0] - before
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
    assert during > 50
