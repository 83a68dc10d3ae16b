"""Tests of threads over parts: order, bitwise results, errors and cleanup."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import low_rank_classes
from threadpoolctl import threadpool_info, threadpool_limits

import tensormargin.estimators.engine as engine
from tensormargin import TensorMarginClassifier
from tensormargin.runtime import over_parts, worker_threads

LARGE = 2**30


@pytest.mark.parametrize("n_items", [1, 2, 3, 15, 16, 17, 1000])
@pytest.mark.parametrize("n_bytes", [0, 2**23, LARGE])
@pytest.mark.parametrize("count", [1, 3])
def test_the_parts_cover_everything_once_and_in_order(n_items, n_bytes, count):
    with worker_threads(count):
        parts = over_parts(lambda part: list(range(part.start, part.stop)), n_items, n_bytes)
    assert [item for part in parts for item in part] == list(range(n_items))
    assert all(parts)


def test_little_work_stays_in_the_calling_thread():
    with worker_threads(3):
        assert over_parts(lambda part: threading.current_thread(), 100, 1000) == [threading.current_thread()]
        assert threading.current_thread() not in over_parts(lambda part: threading.current_thread(), 100, LARGE)


def test_outside_the_context_there_are_no_threads():
    with worker_threads(3):
        over_parts(lambda part: None, 100, LARGE)
    alive = threading.active_count()
    assert set(over_parts(lambda part: threading.current_thread(), 100, LARGE)) == {threading.current_thread()}
    assert threading.active_count() == alive


def test_an_error_in_a_part_reaches_the_caller():
    def fail(part):
        if part.start:
            raise KeyError("second part")

    with worker_threads(2), pytest.raises(KeyError, match="second part"):
        over_parts(fail, 100, LARGE)


def test_numpy_error_settings_hold_in_the_threads():
    with worker_threads(2), np.errstate(over="raise"), pytest.raises(FloatingPointError):
        over_parts(lambda part: np.float32(1e38) * np.float32(1e38), 100, LARGE)


@pytest.mark.parametrize(("name", "rank"), [("full", None), ("cp", 2), ("tucker", 3), ("tt", 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_number_of_threads_gives_the_same_bits(name, rank, dtype, monkeypatch):
    X, y = low_rank_classes(0, 9000, (12, 14), 2.0)
    X = X.astype(dtype)
    found = []
    for count in (1, 2, 5):
        monkeypatch.setattr(engine, "available_threads", lambda count=count: count)
        found.append(TensorMarginClassifier(name, rank).fit(X, y))
    for other in found[1:]:
        np.testing.assert_array_equal(other.coef_, found[0].coef_)
        np.testing.assert_array_equal(other.intercept_, found[0].intercept_)


def test_as_many_threads_as_blas_was_allowed():
    with threadpool_limits(1):
        assert engine.available_threads() == 1


def test_fits_that_overlap_leave_the_threads_of_blas_as_they_were():
    X, y = low_rank_classes(0, 400, (10, 10, 10), 1.0)
    before = [library["num_threads"] for library in threadpool_info()]
    with ThreadPoolExecutor(4) as pool:
        tols = (1e-3, 1e-5, 1e-4, 1e-6)
        fits = [pool.submit(TensorMarginClassifier("cp", tol=tol, max_iter=500).fit, X, y) for tol in tols]
    assert all(fit.result().score(X, y) > 0.5 for fit in fits)
    assert [library["num_threads"] for library in threadpool_info()] == before


def test_the_limit_is_lifted_by_the_last_one_out():
    def threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    before = threads()
    limit = engine._OneBlasThread()
    with limit:
        with limit:
            assert set(threads()) == {1}
        assert set(threads()) == {1}
    assert threads() == before
