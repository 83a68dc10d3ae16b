"""Tests of contractions against einsum, for any dtype, subset, memory order or chunk size."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from conftest import library
from hypothesis import given
from hypothesis import strategies as st

from tensormargin.fitting import FORMATS, MemorySamples, sample_array, working_dtype
from tensormargin.fitting.samples.memory import contract_around
from tensormargin.runtime import tuning

pytestmark = pytest.mark.numerical

shapes = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


@given(shapes, st.integers(1, 6), st.integers(0, 10**6))
def test_half_contractions_equal_einsum(shape, rank, seed):
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((7, *shape))
    samples = MemorySamples(X)
    k = samples.split
    matrices = [rng.standard_normal((size, rank)) for size in shape]
    head = X.reshape(7, int(np.prod(shape[:k])), -1)
    merged_head = _kron(matrices[:k])
    expected = np.einsum("nab,ar->nrb", head, merged_head)
    np.testing.assert_allclose(samples.partial("head", matrices[:k]).reshape(expected.shape), expected, atol=1e-10)
    if k < len(shape):
        expected = np.einsum("nab,br->nar", head, _kron(matrices[k:]))
        np.testing.assert_allclose(samples.partial("tail", matrices[k:]).reshape(expected.shape), expected, atol=1e-10)


@given(st.integers(1, 4), st.integers(1, 40), st.integers(1, 4), st.integers(1, 3), st.integers(0, 10**6))
def test_contract_around_equals_einsum(lead, size, trail, columns, seed):
    rng = np.random.RandomState(seed)
    partial = rng.standard_normal((5, lead, size, trail))
    kernel = rng.standard_normal((lead, trail, columns))
    expected = np.einsum("nlit,ltr->nir", partial, kernel).reshape(5, -1)
    np.testing.assert_allclose(contract_around(partial, size, kernel), expected, atol=1e-10)


def _kron(matrices):
    product = np.ones((1, 1))
    for matrix in matrices:
        product = np.kron(product, matrix)
    return product


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float16, np.float32, np.float64, np.int64, bool])
def test_dtypes_are_contracted_exactly_enough(dtype):
    rng = np.random.RandomState(0)
    X = (10 * rng.rand(9, 4, 5)).astype(dtype)
    vector = rng.standard_normal((4, 1))
    expected = np.einsum("nab,ar->nrb", X.astype(np.float64), vector)
    np.testing.assert_allclose(
        MemorySamples(X).partial("head", [vector]).reshape(expected.shape), expected, rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("u1", "f4"), ("i2", "f4"), ("f2", "f4"), ("?", "f4"), ("f4", "f4"), ("i4", "f8"), ("u8", "f8"), ("f8", "f8")],
)
def test_single_precision_only_where_it_holds_every_value(dtype, expected):
    assert working_dtype(np.dtype(dtype)) == np.dtype(expected)


def test_rows_are_a_subset_in_their_order(monkeypatch):
    monkeypatch.setattr(tuning, "CHUNK_BYTES", 100)  # several chunks
    X = np.random.RandomState(0).standard_normal((20, 3, 4))
    rows = np.array([5, 1, 19, 1])
    vector = np.arange(3.0)[:, None]
    chosen = MemorySamples(X, rows)
    assert len(chosen) == 4
    np.testing.assert_allclose(chosen.partial("head", [vector]), MemorySamples(X[rows]).partial("head", [vector]))
    np.testing.assert_array_equal(chosen.matrix(), X[rows].reshape(4, -1))


def test_whole_arrays_are_viewed_not_copied():
    X = np.random.RandomState(0).standard_normal((20, 3, 4))
    assert np.shares_memory(MemorySamples(X).matrix(), X)
    assert all(np.shares_memory(part, X) for _, part in MemorySamples(X).chunks(100))


def test_samples_are_never_cast_as_a_whole():
    """With weights of another type, scores need a few chunks; a contraction needs no more than its result."""
    samples = MemorySamples(np.zeros((2048, 64, 64, 2), np.float32))  # 67 MB
    for ask in (lambda: samples.scores(np.ones((3, 64, 64, 2))), lambda: samples.partial("head", [np.ones((64, 1))])):
        tracemalloc.start()
        answer = ask()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= answer.nbytes + 4 * tuning.CHUNK_BYTES


def test_an_equal_question_is_answered_without_reading_the_samples_again():
    X = np.random.RandomState(0).standard_normal((20, 3, 4))
    samples = MemorySamples(X)
    vector = np.arange(3.0)[:, None]
    first = samples.partial("head", [vector]).copy()
    X[:] = 0
    np.testing.assert_array_equal(samples.partial("head", [vector.copy()]), first)
    np.testing.assert_array_equal(samples.partial("head", [2 * vector]), 0)


@pytest.mark.parametrize("centred", [True, False])
def test_moments(centred):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((50, 3, 4)) + 100
    weights = rng.rand(50)
    weights /= weights.sum()
    signs = np.where(rng.rand(50) > 0.3, 1.0, -1.0)
    moments = MemorySamples(X).first_pass(weights, signs, centred)
    shifted = X - np.tensordot(weights, X, 1) if centred else X
    np.testing.assert_allclose(moments.signed_mean, np.tensordot(weights * signs, shifted, 1), atol=1e-12)
    np.testing.assert_allclose(moments.mean_square, weights @ (shifted**2).sum(axis=(1, 2)), rtol=1e-12)


def test_moments_survive_a_large_offset_in_single_precision():
    rng = np.random.RandomState(0)
    noise = rng.standard_normal((200, 10, 10))
    weights, signs = np.full(200, 1 / 200), np.where(np.arange(200) % 2, 1.0, -1.0)
    shifted = (noise + 1000).astype(np.float32)
    plain = MemorySamples(noise).first_pass(weights, signs, centred=True)
    offset = MemorySamples(shifted).first_pass(weights, signs, centred=True)
    assert offset.mean_square == pytest.approx(plain.mean_square, rel=1e-3)


def in_dask(X):
    da = pytest.importorskip("dask.array", reason="needs Dask: pip install 'tensormargin[dask]'")
    return da.from_array(X, chunks=(4, *X.shape[1:]))


def in_library(name):
    module, device = library(name)
    return lambda X: module.asarray(X.copy(), device=device)


HOMES = {
    "memory": lambda X: X,
    "memory, cast": lambda X: X.astype(np.int64),
    "dask": in_dask,
    "torch": lambda X: in_library("torch")(X),
    "array_api_strict": lambda X: in_library("array_api_strict")(X),
}


ON_A_DEVICE = ("torch", "array_api_strict")
READ = [(home, passed) for home in HOMES for passed in ("nothing", "first pass")]


@pytest.mark.parametrize(("home", "passed"), [*READ, *((home, "shift") for home in ON_A_DEVICE)])
def test_what_is_taken_has_the_pivot_subtracted_once(home, passed):
    """The pivot may be subtracted when samples are read, in a copy, or in the samples that they were taken from."""
    X = np.round(100 * np.random.RandomState(0).standard_normal((11, 3, 4))) + 1e9
    samples = sample_array(HOMES[home](X)).samples()
    if passed == "shift":
        samples.shift(X[0])
    elif passed == "first pass":
        samples.first_pass(np.full(11, 1 / 11), np.where(np.arange(11) % 2, 1.0, -1.0), centred=True)
    assert (samples.pivot is None) == (passed == "nothing")
    expected = X if samples.pivot is None else X - samples.pivot
    contraction = FORMATS["full"](np.ones((3, 4))).block(0).contraction
    some = samples.take(np.array([1, 4, 5, 9]))
    for taken, rows in ((samples, slice(None)), (some, [1, 4, 5, 9]), (some.take(np.array([0, 3])), [1, 9])):
        design = taken.design(contraction)
        design = design if isinstance(design, np.ndarray) else design.to_numpy()
        np.testing.assert_allclose(design, expected[rows].reshape(len(design), -1), rtol=0, atol=1e-6)


@pytest.mark.parametrize("home", [home for home in HOMES if home != "memory, cast"])
@pytest.mark.parametrize(("offset", "few", "many"), [(0.0, False, False), (100.0, True, False), (1e7, True, True)])
def test_an_offset_is_subtracted_where_it_costs_digits_or_where_that_costs_nothing(
    home, offset, few, many, monkeypatch
):
    X = np.random.RandomState(0).standard_normal((11, 3, 4)) + offset
    for entries, subtracted in ((X.size, few), (X.size - 1, many)):
        monkeypatch.setattr(tuning, "FEW_ENTRIES", entries)
        samples = sample_array(HOMES[home](X)).samples()
        samples.first_pass(np.full(11, 1 / 11), np.where(np.arange(11) % 2, 1.0, -1.0), centred=True)
        assert (samples.pivot is not None) == subtracted
