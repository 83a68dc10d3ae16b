"""Tests of transformers: results, learning from training samples only, and pulling weights back."""

from __future__ import annotations

import re
import tracemalloc
from copy import deepcopy

import numpy as np
import pytest
import sklearn
from conftest import low_rank_classes
from estimator_checks import every_check
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from tensormargin import TensorMarginClassifier
from tensormargin.report.sentences import describe_step
from tensormargin.transformers import Crop, KeepsTensors, Mask, Recipe, Resize, Tensorize, TensorScaler, resize
from tensormargin.transformers.preparation.resizing import resizing_matrix

SHAPE = (6, 5, 4)
BRAIN = np.zeros(SHAPE, bool)
BRAIN[1:4, 2:5, 1:3] = True
TRANSFORMERS = [
    TensorScaler(),
    TensorScaler("global"),
    TensorScaler(1),
    TensorScaler((0, 2)),
    TensorScaler(with_mean=False),
    TensorScaler(with_std=False),
    Tensorize((2, 3, -1)),
    Tensorize((-1,)),
    Mask(),
    Mask("bright"),
    Mask(BRAIN),
    Crop(),
    Crop("bright"),
    Crop(BRAIN, margin=1),
    Resize((3, 9)),
    Resize((12, 5, 2)),
]
INVERTIBLE = [one for one in TRANSFORMERS if isinstance(one, TensorScaler | Tensorize)]
every_transformer = pytest.mark.parametrize("transformer", TRANSFORMERS, ids=repr)


@pytest.fixture
def X():
    """Return samples with a dark, constant border and entries of very different means and variances."""
    rng = np.random.default_rng(0)
    samples = np.zeros((30, *SHAPE))
    inside = (slice(None), slice(1, 5), slice(1, 5), slice(0, 3))
    part = samples[inside]
    samples[inside] = rng.normal(rng.uniform(5, 50, part.shape[1:]), rng.uniform(0.1, 3, part.shape[1:]), part.shape)
    return samples


@pytest.fixture
def groups():
    return np.repeat(["a", "b", "c"], [8, 10, 12])


@every_check(
    [
        TensorScaler(),
        TensorScaler("global"),
        TensorScaler(0),
        TensorScaler(with_mean=False),
        Tensorize(),
        Mask(),
        Mask("bright"),
        Crop(),
        Resize((2,)),
    ]
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_by_entry_is_scikit_learns_scaler_on_vectors(X):
    theirs = StandardScaler().fit_transform(X.reshape(30, -1)).reshape(X.shape)
    np.testing.assert_allclose(TensorScaler().fit_transform(X), theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("per", "axes", "shape"),
    [
        ("entry", (0,), SHAPE),
        ("global", (0, 1, 2, 3), (1, 1, 1)),
        (0, (0, 2, 3), (6, 1, 1)),
        (2, (0, 1, 2), (1, 1, 4)),
        ((0, 1), (0, 3), (6, 5, 1)),
        ((2, 0), (0, 2), (6, 1, 4)),
    ],
)
def test_means_and_deviations_are_numpys(X, per, axes, shape):
    X = X + np.random.default_rng(1).standard_normal(X.shape)  # nothing is constant
    scaler = TensorScaler(per).fit(X)
    assert scaler.mean_.shape == scaler.scale_.shape == shape
    mean, deviation = X.mean(axis=axes, keepdims=True), X.std(axis=axes, keepdims=True)
    np.testing.assert_allclose(scaler.mean_, mean[0], rtol=1e-12)
    np.testing.assert_allclose(scaler.scale_, deviation[0], rtol=1e-12)
    np.testing.assert_allclose(scaler.transform(X), (X - mean) / deviation, rtol=1e-10, atol=1e-12)


def test_statistics_are_the_same_in_pieces(X, monkeypatch):
    whole = TensorScaler(1).fit(X)
    monkeypatch.setattr("tensormargin.runtime.tuning.PASS_ENTRIES", 7 * X[0].size)
    pieces = TensorScaler(1).fit(X)
    np.testing.assert_allclose(pieces.mean_, whole.mean_, rtol=1e-13)
    np.testing.assert_allclose(pieces.scale_, whole.scale_, rtol=1e-13)


@pytest.mark.parametrize(("with_mean", "with_std"), [(True, False), (False, True), (False, False)])
def test_centring_and_scaling_can_be_left_out(X, with_mean, with_std):
    changed = TensorScaler(with_mean=with_mean, with_std=with_std).fit_transform(X)
    theirs = StandardScaler(with_mean=with_mean, with_std=with_std).fit_transform(X.reshape(30, -1))
    np.testing.assert_allclose(changed, theirs.reshape(X.shape), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, -7.0, 1e30, 1e-30])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("per", ["entry", "global", 0])
@pytest.mark.parametrize("n_samples", [2, 101, 5003])
def test_constants_become_zero(value, dtype, per, n_samples):
    constant = np.full((n_samples, 3, 2), value, dtype)
    scaler = TensorScaler(per).fit(constant)
    np.testing.assert_array_equal(scaler.scale_, 1.0)
    np.testing.assert_allclose(scaler.transform(constant), 0.0, atol=10 * np.finfo(dtype).eps * abs(value))


def test_a_large_offset_does_not_hide_what_varies():
    rng = np.random.default_rng(0)
    X = 1e6 + rng.standard_normal((50, 4, 3))
    scaled = TensorScaler().fit_transform(X)
    np.testing.assert_allclose(scaled.std(axis=0), 1.0, rtol=1e-6)
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-9)


@pytest.mark.parametrize(
    ("given", "working"),
    [
        (np.float64, np.float64),
        (np.float32, np.float32),
        (np.float16, np.float32),
        (np.int64, np.float64),
        (np.uint8, np.float32),
        (np.int16, np.float32),
        (bool, np.float32),
    ],
)
def test_scaling_works_in_the_precision_of_the_classifier(given, working):
    X = np.random.default_rng(0).integers(0, 2 if given is bool else 100, (40, 3, 4)).astype(given)
    scaled = TensorScaler().fit_transform(X)
    assert scaled.dtype == working
    exact = StandardScaler().fit_transform(X.astype(np.float64).reshape(40, -1)).reshape(X.shape)
    np.testing.assert_allclose(scaled, exact, atol=20 * np.finfo(working).eps)


@every_transformer
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8, np.int32])
def test_samples_stay_as_they_are_however_they_lie_in_memory(transformer, dtype, X):
    X = np.abs(X).astype(dtype)
    before = X.copy()
    X.flags.writeable = False
    changed = clone(transformer).fit_transform(X)
    np.testing.assert_array_equal(X, before)
    fortran = clone(transformer).fit_transform(np.asfortranarray(X))
    np.testing.assert_allclose(fortran, changed, rtol=1e-6)
    np.testing.assert_allclose(clone(transformer).fit_transform(X.tolist()), changed, rtol=1e-4, atol=1e-4)
    strided = np.repeat(X, 2, axis=0)[::2]
    np.testing.assert_array_equal(clone(transformer).fit(X).transform(strided), changed)


@every_transformer
def test_what_is_learned_comes_from_training_samples_only(transformer, X):
    fitted = clone(transformer).fit(X[:20])
    alone = fitted.transform(X[20:25])
    state = deepcopy(vars(fitted))
    np.testing.assert_array_equal(fitted.transform(np.concatenate([X[20:25], 1e6 + X[25:]]))[:5], alone)
    np.testing.assert_equal(vars(fitted), state)


@every_transformer
def test_shapes(transformer, X):
    fitted = clone(transformer).fit(X)
    assert fitted.sample_shape_in_ == SHAPE
    assert fitted.transform(X[:3]).shape == (3, *fitted.sample_shape_out_)
    assert fitted.n_features_in_ == 6
    with pytest.raises(ValueError, match=r"shape seen in fit, \(6, 5, 4\); got \(5, 6, 4\)"):
        fitted.transform(np.swapaxes(X, 1, 2))
    with pytest.raises(ValueError, match="NaN"):
        fitted.transform(np.full_like(X, np.nan))
    with pytest.raises(NotFittedError):
        clone(transformer).transform(X)


@pytest.mark.parametrize("transformer", INVERTIBLE, ids=repr)
def test_inverse_gives_the_samples_back(transformer, X):
    fitted = clone(transformer).fit(X)
    back = fitted.inverse_transform(fitted.transform(X))
    assert back.shape == X.shape
    np.testing.assert_allclose(back, X, rtol=1e-12, atol=1e-10)


def test_the_inverse_of_a_crop_puts_the_box_back_in_its_place(X):
    crop = Crop().fit(X)
    np.testing.assert_array_equal(crop.inverse_transform(crop.transform(X)), X)  # X is zero outside the box
    shifted = crop.inverse_transform(crop.transform(X + 1.0))
    np.testing.assert_array_equal(shifted[(slice(None), *crop.box_)], (X + 1.0)[(slice(None), *crop.box_)])
    assert shifted.sum() < (X + 1.0).sum()


@pytest.mark.parametrize("transformer", [TensorScaler(), Tensorize((-1,)), Crop()], ids=repr)
def test_inverse_needs_a_fit(transformer, X):
    with pytest.raises(NotFittedError):
        transformer.inverse_transform(X)


CHAINS = [
    [Mask(BRAIN), Crop(BRAIN, margin=1), Resize((4, 4)), TensorScaler(0), Tensorize((-1, 2))],
    [TensorScaler(), Tensorize((3, 10, 4)), Resize((5,)), TensorScaler("global")],
    [Resize((9, 7, 2)), Mask("bright"), Crop("varying"), TensorScaler((0, 1))],
]


def assert_scores_differ_by_a_constant(chain, X):
    """Check ``<W, chain(x)> - <pulled W, x>`` on the fitted samples and on samples far from them."""
    rng = np.random.default_rng(5)
    weight = rng.standard_normal(chain[-1].sample_shape_out_)
    fresh = np.concatenate([X, rng.normal(0, 30, X.shape)])
    out, pulled = fresh, weight
    for step in chain:
        out = step.transform(out)
    for step in reversed(chain):
        pulled = step.pull_back(pulled)
    assert pulled.shape == chain[0].sample_shape_in_
    difference = np.tensordot(out, weight, weight.ndim) - np.tensordot(fresh, pulled, pulled.ndim)
    np.testing.assert_allclose(difference, difference[0], rtol=1e-9, atol=1e-9 * np.abs(out).max() * weight.size)
    assert np.ptp(np.tensordot(out, weight, weight.ndim)) > 1e-3  # equal scores would prove nothing


@every_transformer
def test_a_weight_pulled_back_gives_the_same_scores(transformer, X):
    assert_scores_differ_by_a_constant([clone(transformer).fit(X)], X)


@pytest.mark.parametrize("steps", CHAINS, ids=lambda steps: " ".join(type(step).__name__ for step in steps))
def test_a_weight_pulled_back_through_a_chain_gives_the_same_scores(steps, X):
    chain, ready = [], X
    for step in steps:
        chain.append(clone(step).fit(ready))
        ready = chain[-1].transform(ready)
    assert_scores_differ_by_a_constant(chain, X)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=3), st.data())
def test_pulling_back_is_the_transpose_of_resizing(shape, data):
    new = tuple(data.draw(st.integers(1, 8)) for _ in range(data.draw(st.integers(1, len(shape)))))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4, *shape))
    step = Resize(new).fit(X)
    weight = rng.standard_normal(step.sample_shape_out_)
    scores = np.tensordot(step.transform(X), weight, weight.ndim)
    np.testing.assert_allclose(scores, np.tensordot(X, step.pull_back(weight), len(shape)), rtol=1e-10, atol=1e-10)


def test_scaling_by_group_leaves_the_weight(X, groups):
    weight = np.random.default_rng(0).standard_normal(SHAPE)
    np.testing.assert_array_equal(TensorScaler(by_group=True).fit(X, groups=groups).pull_back(weight), weight)


@pytest.mark.parametrize("per", ["entry", "global", 1])
def test_by_group_each_group_is_scaled_as_if_it_were_alone(X, groups, per):
    order = np.random.default_rng(0).permutation(30)
    X, groups = X[order], groups[order]
    scaled = TensorScaler(per, by_group=True).fit_transform(X, groups=groups)
    for group in "abc":
        own = groups == group
        np.testing.assert_allclose(scaled[own], TensorScaler(per).fit_transform(X[own]), rtol=1e-12, atol=1e-12)


def test_by_group_new_groups_need_nothing_of_the_old_ones(X, groups):
    scaler = TensorScaler(by_group=True).fit(X, groups=groups)
    assert scaler.mean_ is None
    assert scaler.scale_ is None
    fresh = 5 + 3 * X[:10]
    changed = scaler.transform(fresh, groups=np.full(10, "new"))
    np.testing.assert_allclose(changed, TensorScaler().fit_transform(fresh), rtol=1e-10, atol=1e-12)


def test_by_group_needs_groups(X, groups):
    scaler = TensorScaler(by_group=True)
    with pytest.raises(ValueError, match="by_group=True needs groups, one for each sample"):
        scaler.fit(X)
    scaler.fit(X, groups=groups)
    with pytest.raises(ValueError, match="by_group=True needs groups, one for each sample"):
        scaler.transform(X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        scaler.transform(X, groups=groups[:-1])
    with pytest.raises(ValueError, match="no one inverse"):
        scaler.inverse_transform(X)


def test_groups_reach_a_pipeline_by_metadata_routing(groups):
    X, y = low_rank_classes(0, 30, (4, 5), 6.0)
    X = X + 20.0 * np.unique(groups, return_inverse=True)[1][:, None, None]
    pipeline = make_pipeline(TensorScaler(by_group=True), Tensorize((2, 2, 5)), TensorMarginClassifier("cp", 1))
    with sklearn.config_context(enable_metadata_routing=True):
        fitted = clone(pipeline).fit(X, y, groups=groups)
        predicted = fitted.predict(X, groups=groups)
        scores = cross_validate(
            pipeline, X, y, params={"groups": groups}, cv=GroupKFold(3), error_score="raise", return_estimator=True
        )
        with pytest.raises(ValueError, match="needs groups"):
            pipeline.fit(X, y)
    by_hand = Tensorize((2, 2, 5)).fit_transform(TensorScaler(by_group=True).fit_transform(X, groups=groups))
    np.testing.assert_array_equal(predicted, fitted[-1].predict(by_hand))
    for (train, test), score, one in zip(
        GroupKFold(3).split(X, y, groups), scores["test_score"], scores["estimator"], strict=True
    ):
        own = TensorMarginClassifier("cp", 1).fit(by_hand[train], y[train])  # each group is independent of the others
        np.testing.assert_allclose(one[-1].coef_, own.coef_, rtol=1e-8, atol=1e-10)
        assert score == own.score(by_hand[test], y[test])


def test_scaling_makes_one_copy():
    X = np.random.default_rng(0).standard_normal((400, 50, 50)).astype(np.float32)
    scaler = TensorScaler().fit(X)
    tracemalloc.start()
    scaler.transform(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.2 * X.nbytes


def test_learning_makes_no_copy(monkeypatch):
    monkeypatch.setattr("tensormargin.runtime.tuning.PASS_ENTRIES", 2**16)
    X = np.random.default_rng(0).integers(0, 255, (1000, 50, 50), dtype=np.uint8)
    tracemalloc.start()
    TensorScaler().fit(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.0 * X.nbytes  # a float64 copy would be eight times as large


@pytest.mark.parametrize("transformer", [Tensorize((5, 6, 4)), Crop(BRAIN)], ids=repr)
def test_other_shapes_of_the_same_numbers_are_no_copies(transformer, X):
    assert np.shares_memory(transformer.fit_transform(X), X)


@pytest.mark.parametrize("per", ["mode", 3, -1, (0, 3), (0.0,), [0], None])
def test_scaler_rejects_modes_that_are_not_there(per, X):
    with pytest.raises(ValueError, match=re.escape(f"modes from 0 to 2 of these samples; got per={per!r}")):
        TensorScaler(per).fit(X)


def test_folding_keeps_the_order_of_entries(X):
    np.testing.assert_array_equal(Tensorize((6, 20)).fit_transform(X), X.reshape(30, 6, 20))
    fitted = Tensorize((-1, 3, 4)).fit(X)
    assert fitted.sample_shape_out_ == (10, 3, 4)
    np.testing.assert_array_equal(fitted.transform(X[:0:-1]), X[:0:-1].reshape(29, 10, 3, 4))


@pytest.mark.parametrize("shape", [(7, 4), (-1, -1, 6), (-2, -60), (0, 3), (-1, 0), (-1, 7), (120.0,), (), 120, "6x20"])
def test_folding_rejects_shapes_of_another_size(shape, X):
    with pytest.raises(ValueError, match=re.escape(f"got shape={shape!r}")):
        Tensorize(shape).fit(X)


def test_masks(X):
    varying = np.ptp(X, axis=0) > 0
    assert 0 < varying.sum() < varying.size
    np.testing.assert_array_equal(Mask().fit(X).mask_, varying)
    np.testing.assert_array_equal(Mask("bright").fit(X).mask_, Mask("bright").fit(-5 + 3 * X).mask_)
    masked = Mask(BRAIN).fit_transform(X + 1)
    np.testing.assert_array_equal(masked[:, ~BRAIN], 0)
    np.testing.assert_array_equal(masked[:, BRAIN], (X + 1)[:, BRAIN])
    assert Mask().fit_transform(X.astype(np.float32)).dtype == np.float32
    assert Mask(BRAIN.astype(int).tolist()).fit(X).mask_.dtype == bool


def test_bright_parts_two_kinds_of_entries():
    rng = np.random.default_rng(0)
    head = np.zeros((12, 12), bool)
    head[3:9, 4:10] = True
    X = np.where(head, rng.normal(100, 5, (20, 12, 12)), rng.normal(10, 5, (20, 12, 12)))
    np.testing.assert_array_equal(Mask("bright").fit(X).mask_, head)
    assert Crop("bright").fit(X).box_ == (slice(3, 9), slice(4, 10))


@given(st.integers(0, 2**31), st.integers(2, 40))
def test_bright_is_otsus_threshold(seed, size):
    """Compare with the definition: no other threshold on the same 256 bins separates better."""
    mean = np.random.default_rng(seed).gamma(1.0, 1.0, size)
    mask = Mask("bright").fit(np.stack([mean, mean])).mask_
    centres = np.linspace(mean.min(), mean.max(), 513)[1::2]
    edges = np.linspace(mean.min(), mean.max(), 257)
    binned = centres[np.clip(np.searchsorted(edges, mean, side="right") - 1, 0, 255)]

    def between(part):
        return part.mean() * (1 - part.mean()) * (binned[part].mean() - binned[~part].mean()) ** 2

    best = max(between(binned > edge) for edge in edges[1:-1])
    assert between(mask) == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("margin", [0, 1, 10])
def test_crop_is_the_smallest_box_and_its_margin(margin, X):
    crop = Crop(BRAIN, margin=margin).fit(X)
    expected = tuple(
        slice(max(0, first - margin), min(size, last + margin))
        for (first, last), size in zip([(1, 4), (2, 5), (1, 3)], SHAPE, strict=True)
    )
    assert crop.box_ == expected
    np.testing.assert_array_equal(crop.transform(X), X[(slice(None), *expected)])


@pytest.mark.parametrize("kind", [Mask, Crop])
def test_masks_that_cannot_be(kind, X):
    with pytest.raises(ValueError, match="mask must be 'varying', 'bright' or an array of bool; got 'dark'"):
        kind("dark").fit(X)
    for rule in ("varying", "bright"):
        with pytest.raises(ValueError, match=f"mask='{rule}' leaves no entry"):
            kind(rule).fit(np.ones((5, 3, 3)))
    with pytest.raises(ValueError, match=r"samples' shape \(6, 5, 4\) and at least one true entry; got shape \(6, 5\)"):
        kind(BRAIN[..., 0]).fit(X)
    with pytest.raises(ValueError, match="with 0"):
        kind(np.zeros(SHAPE, bool)).fit(X)


def test_crop_rejects_a_negative_margin(X):
    with pytest.raises(ValueError, match="margin must be at least 0; got margin=-1"):
        Crop(margin=-1).fit(X)


sizes = st.integers(1, 40)


@given(sizes, sizes)
def test_resizing_takes_weighted_means(before, after):
    matrix = resizing_matrix(before, after)
    assert matrix.shape == (after, before)
    assert matrix.min() >= 0
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-12)  # constants stay constant
    np.testing.assert_allclose(matrix, matrix[::-1, ::-1], atol=1e-12)  # symmetric in left and right
    assert matrix.sum(axis=0).min() > 0  # every old value counts


@given(st.integers(2, 20), st.integers(0, 30))
def test_enlarging_keeps_ramps_in_the_interior(before, more):
    after = before + more
    places = (np.arange(after) + 0.5) * before / after - 0.5
    interior = (places >= 0) & (places <= before - 1)
    np.testing.assert_allclose((resizing_matrix(before, after) @ np.arange(before))[interior], places[interior])


@pytest.mark.parametrize("size", [1, 2, 7])
def test_the_same_size_changes_nothing(size):
    np.testing.assert_array_equal(resizing_matrix(size, size), np.eye(size))
    image = np.random.default_rng(0).standard_normal((size, 5))
    np.testing.assert_array_equal(resize(image, (size, 5)), image)


@pytest.mark.parametrize("after", [4, 8, 16])
def test_shrinking_averages(after):
    """Check that pixel-sized noise is averaged out, and that the mean changes by no more than the border's weight."""
    rng = np.random.default_rng(0)
    image = rng.uniform(0, 1, (32, 32))
    small = resize(image, (after, after))
    assert abs(small.mean() - image.mean()) < 0.02
    stripes = np.tile([0.0, 1.0], (32, 16))
    np.testing.assert_allclose(resize(stripes, (after, after))[:, 1:-1], 0.5, atol=1e-12)
    assert small.std() < image.std() * after / 32 * 1.1


def test_resizing_works_along_the_first_axes_and_leaves_the_others():
    image = np.random.default_rng(0).uniform(0, 255, (10, 8, 3)).astype(np.uint8)
    small = resize(image, (5, 4))
    assert small.dtype == np.float32
    assert small.flags.c_contiguous
    expected = np.einsum("ai,bj,ijc->abc", resizing_matrix(10, 5), resizing_matrix(8, 4), image)
    np.testing.assert_allclose(small, expected, rtol=1e-5)
    stack = Resize((5, 4)).fit_transform(np.stack([image, image[::-1]]))
    np.testing.assert_allclose(stack, [small, small[::-1]], rtol=1e-4)
    with pytest.raises(ValueError, match=r"shape \(10, 8, 3\) has no 4 axes"):
        resize(image, (5, 4, 3, 2))


@pytest.mark.parametrize("shape", [(0, 3), (-1,), (2, 2, 2, 2), (), 3, (2.5, 2)])
def test_resize_rejects_sizes_that_cannot_be(shape, X):
    with pytest.raises(ValueError, match=re.escape(f"got shape={shape!r}") + "$"):
        Resize(shape).fit(X)


def test_a_recipe_becomes_its_steps_in_their_order():
    recipe = Recipe(mask="varying", crop="bright", resize=(4, 4), scale="mode 2", tensorize=(2, 2, 4))
    inner = recipe.inner()
    assert isinstance(inner, Pipeline)
    assert [name for name, _ in inner.steps] == ["mask", "crop", "resize", "scale", "tensorize"]
    assert inner["crop"].mask == "bright"
    assert inner["scale"].per == 1
    assert inner["resize"].shape == (4, 4)
    assert inner["tensorize"].shape == (2, 2, 4)
    assert recipe.outer() == []
    assert len(recipe.words()) == 5


def test_a_recipe_of_nothing_and_of_one_step(X):
    assert Recipe().inner() is None
    assert Recipe().words() == Recipe().outer() == []
    assert Recipe().scaled_by_group(X, None) is X
    single = Recipe(scale="entry").inner()
    assert isinstance(single, TensorScaler)
    assert single.per == "entry"
    assert Recipe(scale="global").inner().per == "global"


def test_a_recipe_by_group(X, groups):
    recipe = Recipe(by_group=True, crop="varying")
    ((_, outer),) = recipe.outer()
    assert outer.by_group
    assert isinstance(recipe.inner(), Crop)
    np.testing.assert_array_equal(recipe.scaled_by_group(X, groups), outer.fit_transform(X, groups=groups))
    with pytest.raises(ValueError, match="needs groups"):
        recipe.scaled_by_group(X, None)
    assert "within each group" in recipe.words()[0]


@pytest.mark.parametrize("scale", ["mode 0", "mode", "mode -1", "mode 1x", "Entry", ""])
def test_a_recipe_rejects_scales_it_does_not_know(scale):
    with pytest.raises(ValueError, match=re.escape(f'"mode K" with K from 1; got {scale!r}')):
        Recipe(scale=scale).inner()


@pytest.mark.parametrize("step", ["mask", "crop"])
def test_a_recipe_cannot_tell_bright_entries_after_scaling_by_group(step):
    with pytest.raises(ValueError, match="after scaling by group, which makes every mean zero"):
        Recipe(by_group=True, **{step: "bright"}).inner()


def test_steps_say_what_they_do(X):
    """Modes are counted from 1 in text, from 0 in code."""
    end = "by statistics of the training samples"
    assert TensorScaler(1).words() == f"every index of mode 2 was centred and scaled to unit variance {end}"
    assert TensorScaler((0, 2), with_mean=False).words() == (
        f"every index of modes 1 and 3 was scaled to unit variance {end}"
    )
    assert TensorScaler(with_mean=False, with_std=False).words() == "samples were left as they are"
    assert Tensorize((-1,)).fit(X).words() == "samples were folded to 120"
    assert Crop(BRAIN, margin=1).fit(X).words() == (
        f"samples were cut to the smallest box that holds a mask of {BRAIN.sum()} of 120 voxels, with a margin of 1 "
        "(5 x 4 x 4)"
    )
    assert Mask("bright").words() == "entries that are not bright over the training samples were set to zero"
    assert describe_step(TensorScaler(0)) == Recipe(scale="mode 1").words()[0] == TensorScaler(0).words()


def test_a_transformer_says_all_that_it_must():
    with pytest.raises(TypeError, match="abstract"):
        KeepsTensors()
