"""Tests of the contract of every registered format: the gauge conditions, for any shape and rank."""

from __future__ import annotations

import numpy as np
import pytest
import tensorly as tl
from hypothesis import given
from hypothesis import strategies as st

from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV
from tensormargin.fitting import FORMATS, MemorySamples

pytestmark = pytest.mark.numerical

SHAPES = [(5,), (4, 6), (3, 4, 5), (7, 4, 7, 4), (2, 3, 1, 4), (2, 2, 2, 2, 2)]
CASES = [(name, shape) for name in FORMATS for shape in SHAPES]


def random_weight(name, shape, rank=None, seed=0):
    rng = np.random.RandomState(seed)
    return FORMATS[name].from_dense(rng.standard_normal(shape), FORMATS[name].valid_rank(rank, shape), rng)


def relative(actual, expected):
    return np.linalg.norm(actual - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_writing_the_unchanged_vector_back_leaves_the_weight_unchanged(name, shape):
    weight = random_weight(name, shape)
    for index in range(len(weight.block_names)):
        block = weight.block(index)
        assert relative(block.replace(block.vector).to_dense(), weight.to_dense()) < 1e-10


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_design_times_vector_is_the_inner_product(name, shape):
    weight = random_weight(name, shape)
    X = np.random.RandomState(1).standard_normal((11, *shape))
    samples = MemorySamples(X)
    expected = X.reshape(11, -1) @ weight.to_dense().ravel()
    for index in range(len(weight.block_names)):
        block = weight.block(index)
        np.testing.assert_allclose(samples.design(block.contraction) @ block.vector, expected, atol=1e-10)


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_the_vector_carries_the_whole_norm_also_after_a_change(name, shape):
    weight = random_weight(name, shape)
    rng = np.random.RandomState(2)
    X = rng.standard_normal((11, *shape))
    for index in range(len(weight.block_names)):
        block = weight.block(index)
        assert block.vector @ block.vector == pytest.approx(np.sum(weight.to_dense() ** 2))
        vector = rng.standard_normal(block.vector.shape)
        changed = block.replace(vector)
        assert np.sum(changed.to_dense() ** 2) == pytest.approx(vector @ vector)
        scores = X.reshape(11, -1) @ changed.to_dense().ravel()
        np.testing.assert_allclose(MemorySamples(X).design(block.contraction) @ vector, scores, atol=1e-9)
        weight = changed  # the next block must cope with whatever gauge this one left


@given(st.sampled_from(sorted(FORMATS)), st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 10**6))
def test_a_sweep_of_random_changes_keeps_the_contract(name, shape, seed):
    rng = np.random.RandomState(seed)
    weight = random_weight(name, tuple(shape), seed=seed)
    X = rng.standard_normal((4, *shape))
    samples = MemorySamples(X)
    for index in [*range(len(weight.block_names)), *rng.permutation(len(weight.block_names))]:
        block = weight.block(index)
        vector = rng.standard_normal(block.vector.shape)
        design = samples.design(block.contraction)
        weight = block.replace(vector)
        np.testing.assert_allclose(design @ vector, X.reshape(4, -1) @ weight.to_dense().ravel(), atol=1e-8)


def test_a_broken_gauge_is_detected():
    """Check that the contract can fail: a Tucker weight with a stretched factor violates the norm condition."""
    weight = random_weight("tucker", (4, 6))
    broken = type(weight)(weight.core, [2 * weight.factors[0], weight.factors[1]])
    block = broken.block(0)
    assert block.vector @ block.vector != pytest.approx(np.sum(broken.to_dense() ** 2))


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_tensorly_round_trip(name, shape):
    weight = random_weight(name, shape)
    container = weight.to_tensorly()
    dense = {
        "full": lambda tensor: tensor,
        "cp": tl.cp_to_tensor,
        "tucker": tl.tucker_to_tensor,
        "tt": tl.tt_to_tensor,
    }[name](container)
    np.testing.assert_allclose(dense.reshape(shape), weight.to_dense(), atol=1e-12)
    back = FORMATS[name].from_tensorly(container, shape)
    np.testing.assert_allclose(back.to_dense(), weight.to_dense(), atol=1e-12)
    assert back.rank == weight.rank


@pytest.mark.parametrize("shape", SHAPES[1:])  # TensorLy has no one-mode Tucker tensors
def test_an_arbitrary_tucker_tensor_is_brought_into_the_gauge(shape):
    rank = FORMATS["tucker"].valid_rank(None, shape)
    container = tl.random.random_tucker(shape, rank, random_state=np.random.RandomState(0))
    assert_in_gauge(FORMATS["tucker"].from_tensorly(container, shape), tl.tucker_to_tensor(container))


@pytest.mark.parametrize("shape", SHAPES[1:])  # nor CP ones
def test_an_arbitrary_cp_tensor_is_brought_into_the_gauge(shape):
    container = tl.random.random_cp(shape, 2, random_state=np.random.RandomState(0))
    container.weights = np.array([-1.5, 2.0])  # TensorLy's may be negative
    assert_in_gauge(FORMATS["cp"].from_tensorly(container, shape), tl.cp_to_tensor(container))


@pytest.mark.parametrize("shape", SHAPES)
def test_an_arbitrary_tensor_train_is_brought_into_the_gauge(shape):
    rank = (1, *FORMATS["tt"].valid_rank(None, shape), 1)
    container = tl.random.random_tt(shape, rank, random_state=np.random.RandomState(0))
    assert_in_gauge(FORMATS["tt"].from_tensorly(container, shape), tl.tt_to_tensor(container))


def assert_in_gauge(weight, dense):
    np.testing.assert_allclose(weight.to_dense(), dense, atol=1e-10)
    for index in range(len(weight.block_names)):
        vector = weight.block(index).vector
        assert vector @ vector == pytest.approx(np.sum(dense**2))


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_from_dense_recovers_a_tensor_of_that_rank(name):
    low = random_weight(name, (4, 5, 6), rank={"cp": 1, "tucker": (2, 3, 2), "tt": (2, 3), "full": None}[name])
    again = FORMATS[name].from_dense(low.to_dense(), low.rank, np.random.RandomState(0))
    np.testing.assert_allclose(again.to_dense(), low.to_dense(), atol=1e-10)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_zero_tensor_gives_a_usable_start(name):
    rank = FORMATS[name].valid_rank(None, (3, 4, 5))
    weight = FORMATS[name].from_dense(np.zeros((3, 4, 5)), rank, np.random.RandomState(0))
    design = MemorySamples(np.random.RandomState(0).standard_normal((6, 3, 4, 5))).design(weight.block(0).contraction)
    assert np.all(np.isfinite(design))
    assert np.linalg.matrix_rank(design) > 0


def test_collinear_cp_components_drop_the_null_direction():
    factor = np.ones((4, 2)) / 2
    weight = FORMATS["cp"].from_tensorly(
        (np.ones(2), [factor, np.random.RandomState(0).standard_normal((5, 2))]), (4, 5)
    )
    block = weight.block(1)
    assert block.vector.size == 5  # two equal columns leave one direction
    np.testing.assert_allclose(block.replace(block.vector).to_dense(), weight.to_dense(), atol=1e-12)


@pytest.mark.parametrize(
    ("name", "rank", "shape", "message"),
    [
        ("cp", (2, 2), (4, 5), "one whole number"),
        ("cp", 0, (4, 5), "at least 1"),
        ("cp", -1, (4, 5), "at least 1"),
        ("tucker", (2, 2, 2), (4, 5), "need 2"),
        ("tucker", (2, 0), (4, 5), "at least 1"),
        ("tucker", (2.0, 2), (4, 5), "whole number"),
        ("tucker", (True, True), (4, 5), "whole number"),
        ("tt", -3, (4, 5), "at least 1"),
        ("tt", (2, 2), (4, 5), "need 1"),
    ],
)
def test_invalid_ranks_state_rule_value_and_remedy(name, rank, shape, message):
    with pytest.raises(ValueError, match=message) as caught:
        FORMATS[name].valid_rank(rank, shape)
    assert repr(rank) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "rank", "shape", "expected"),
    [
        ("cp", None, (4, 5), 2),
        ("cp", None, (5,), 1),
        ("tucker", None, (3, 9, 9), (3, 4, 4)),
        ("tucker", None, (9,), (1,)),
        ("tucker", None, (2, 9), (2, 2)),
        ("tucker", 2, (4, 5), (2, 2)),
        ("tt", None, (3, 9, 9), (3, 4)),
        ("tt", None, (9,), ()),
        ("tt", 3, (9,), ()),
        ("tt", (1, 2, 3, 1), (4, 5, 6), (2, 3)),
        ("full", 2, (4, 5), None),
        ("full", (7, 7, 7), (4, 5), None),
        ("cp", 5, (4, 5), 4),
        ("cp", 2, (5,), 1),
        ("cp", 100, (2, 3, 4), 6),
        ("tucker", 6, (4, 5), (4, 4)),
        ("tucker", (1, 3), (4, 5), (1, 1)),
        ("tucker", (9, 2, 2), (9, 5, 5), (4, 2, 2)),
        ("tt", 5, (4, 5), (4,)),
        ("tt", (9, 9), (2, 3, 4), (2, 4)),
    ],
)
def test_complete_ranks(name, rank, shape, expected):
    assert FORMATS[name].valid_rank(rank, shape) == expected


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_a_format_knows_its_own_containers(name, shape):
    container = random_weight(name, shape).to_tensorly()
    assert [form.name for form in FORMATS.values() if form.wrote(container)] == [name]


def test_classifiers_and_searches_take_formats_that_others_register(monkeypatch):
    X, y = np.random.default_rng(0).standard_normal((20, 4, 3)), np.arange(20) % 2
    with pytest.raises(ValueError, match="decomposition"):
        TensorMarginClassifier("mine").fit(X, y)
    monkeypatch.setitem(FORMATS, "mine", type("Mine", (FORMATS["full"],), {"name": "mine"}))
    mine, full = TensorMarginClassifier("mine").fit(X, y), TensorMarginClassifier("full").fit(X, y)
    np.testing.assert_allclose(mine.coef_, full.coef_, rtol=1e-6)
    search = TensorMarginClassifierCV(decompositions=("mine",), lams=(1.0,), mus=(1.0,), cv=2).fit(X, y)
    assert search.best_params_["decomposition"] == "mine"
