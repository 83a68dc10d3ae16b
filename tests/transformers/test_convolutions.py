"""Tests of features of convolutions against their definition, and of what they are good for."""

from __future__ import annotations

import re
from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tensormargin import Tensorize, TensorMarginClassifier, load_model, save_model
from tensormargin.datasets import load_basic_motions
from tensormargin.fitting import without_native
from tensormargin.transformers import Convolutions
from tensormargin.transformers.representations._loops import Loops, convolutions, proportions, winners


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((7, 3, 40)).cumsum(axis=2)


def by_hand(step, series, place, combination):
    """Return the features of one kernel and dilation of a sample (channels x time), by NumPy's convolution."""
    n_dilations = len(step.dilations_)
    kernel, which = place // n_dilations % 84, place % n_dilations
    dilation = int(step.dilations_[which])
    spread = np.zeros(8 * dilation + 1)
    spread[::dilation] = step.kernels_[kernel]
    if hasattr(step, "padding_"):
        series = series - series.mean(axis=1, keepdims=True)
    convolved = np.convolve(series[combination].sum(axis=0), spread[::-1])[
        4 * dilation : 4 * dilation + series.shape[1]
    ]
    inside = 4 * dilation if (kernel + which) % 2 else 0
    convolved = convolved[inside : len(convolved) - inside]
    return (convolved[:, None] > step.biases_[place]).mean(axis=0)


@pytest.mark.parametrize("kernels", ["fixed", "random"])
@pytest.mark.parametrize("channels", ["combine", "each", 4])
def test_features_are_proportions_of_convolutions(X, channels, kernels):
    step = Convolutions(5000, channels, kernels).fit(X)
    features = step.transform(X).reshape(7, len(step.biases_), -1)
    for place in range(0, len(step.biases_), 97):
        combination = step._channels[step._starts[place] : step._starts[place + 1]]
        for sample in (0, 5):
            expected = by_hand(step, X[sample], place, combination)
            np.testing.assert_allclose(features[sample, place], expected, atol=1.5 / 40)  # ties with a threshold
    assert 0.3 < features.mean() < 0.7


def test_the_shape_is_of_channels_kernels_dilations_and_thresholds(X):
    assert Convolutions(10_000).fit(X).sample_shape_out_ == (84, 16, 7)
    assert Convolutions(10_000, 5).fit(X).sample_shape_out_ == (5, 84, 16, 1)
    assert Convolutions(10_000, "each").fit(X).sample_shape_out_ == (3, 84, 16, 2)
    assert Convolutions(1).fit(X).sample_shape_out_ == (84, 1, 1)
    cube = X[:, :2].reshape(7, 2, 8, 5)
    with pytest.raises(ValueError, match=r"at least 9 entries along mode=1; got n_features = 8"):
        Convolutions(mode=1).fit(cube)
    longer = np.concatenate([cube, cube], axis=2)
    assert Convolutions(1000, "each", mode=1).fit(longer).sample_shape_out_ == (2, 5, 84, 1, 1)


def test_thresholds_come_from_the_training_samples(X):
    step = Convolutions(2000).fit(X)
    for unit in (8.0, 2.0**300, 2.0**-300):
        scaled = Convolutions(2000).fit(unit * X)
        np.testing.assert_array_equal(scaled.biases_, unit * step.biases_)
        np.testing.assert_array_equal(scaled.transform(unit * X), step.transform(X))
    kernels = step.kernels_
    np.testing.assert_allclose(kernels.sum(axis=1), 0)
    assert len(np.unique(kernels, axis=0)) == 84


def test_the_same_seed_gives_the_same_features(X):
    np.testing.assert_array_equal(Convolutions(500).fit_transform(X), Convolutions(500).fit_transform(X))
    other = Convolutions(500, random_state=1).fit(X)
    assert not np.array_equal(other.biases_, Convolutions(500).fit(X).biases_)


@pytest.mark.parametrize("step", [Convolutions(2000), Convolutions(500, "each", "random")], ids=repr)
def test_a_constant_in_a_channel_changes_nothing(step, X):
    """In 0.2 zeros surrounded samples, so that a level was a step at both ends."""
    features = step.fit_transform(X)
    moved = step.transform(X + np.array([30.0, -7.0, 1000.0])[:, None])
    assert np.mean(moved != features) < 0.02  # ties with a threshold
    np.testing.assert_allclose(moved, features, atol=0.1)


def test_models_of_earlier_versions_continue_samples_with_zeros(X, tmp_path):
    y = np.arange(7) % 2
    model = make_pipeline(Convolutions(500), TensorMarginClassifier("cp", 1)).fit(X + 3.0, y)
    del model[0].padding_
    features = model[0].transform(X).reshape(7, len(model[0].biases_), -1)
    for place in (0, 150, 400):
        combination = model[0]._channels[model[0]._starts[place] : model[0]._starts[place + 1]]
        expected = by_hand(model[0], X[2], place, combination)
        np.testing.assert_allclose(features[2, place], expected, atol=1.5 / 40)
    save_model(tmp_path / "model.skops", model)
    loaded = load_model(tmp_path / "model.skops").model
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert not np.array_equal(features, clone(model[0]).fit(X).transform(X).reshape(features.shape))


def test_they_recognise_motions():
    motions = load_basic_motions()
    train = motions.split == "train"
    step = Convolutions(3000).fit(motions.data[train])
    features = step.transform(motions.data)
    ridge = make_pipeline(Tensorize(), StandardScaler(), RidgeClassifierCV())
    ours = TensorMarginClassifier("cp", 1)
    for model in (ridge, ours):
        model.fit(features[train], motions.target[train])
        assert model.score(features[~train], motions.target[~train]) >= 0.975


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (Convolutions(0), "n_features must be a whole number of at least 1; got n_features=0"),
        (Convolutions(channels="all"), 'channels must be "combine", "each" or a whole number; got channels=\'all\''),
        (Convolutions(channels=0), "got channels=0"),
        (Convolutions(kernels="learned"), 'kernels must be "fixed" or "random"; got kernels=\'learned\''),
        (Convolutions(n_dilations=0), "got n_dilations=0"),
        (Convolutions(mode=0), "at least 9 entries along mode=0; got n_features = 3. Resize the samples"),
        (Convolutions(mode=2), "from -2 to 1; got mode=2"),
    ],
    ids=repr,
)
def test_parameters_that_cannot_be(step, words, X):
    with pytest.raises(ValueError, match=re.escape(words)):
        step.fit(X)


def test_a_dask_array_is_looked_at_for_nan(X):
    da = pytest.importorskip("dask.array", reason="needs Dask")
    X[2, 1, 5] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        Convolutions(500).fit(da.from_array(X, chunks=(3, 3, 40)))


@pytest.mark.parametrize("channels", ["combine", "each", 3])
@pytest.mark.parametrize("kernels", ["fixed", "random"])
@pytest.mark.parametrize("size", [9, 31, 70])
def test_without_compiled_code_the_digits_are_the_same(channels, kernels, size):
    X = np.random.default_rng(size).standard_normal((5, 4, size))
    compiled = Convolutions(n_features=1000, channels=channels, kernels=kernels).fit(X)
    expected = compiled.transform(X)
    with without_native():
        plain = Convolutions(n_features=1000, channels=channels, kernels=kernels).fit(X)
        np.testing.assert_array_equal(plain.biases_, compiled.biases_)
        np.testing.assert_array_equal(plain.transform(X), expected)


SAMPLES = np.zeros((2, 3, 20), np.float32)
PLACES = {
    "taps": np.tile([0, 4, 8], (2, 1)),
    "values": np.ones((2, 3), np.float32),
    "dilations": np.array([1, 2]),
    "starts": np.arange(5),
    "channels": np.array([0, 1, 2, 0]),
}
WRONG_PLACES = {
    "a tap outside": ({"taps": np.tile([0, 4, 9], (2, 1))}, "taps of a kernel must be whole numbers from 0 to 8"),
    "four taps": ({"taps": np.zeros((2, 4), int), "values": np.ones((2, 4), np.float32)}, "every kernel needs 3 or 9"),
    "too few values": ({"values": np.ones((1, 3), np.float32)}, "each with a value"),
    "no dilation": ({"dilations": np.array([0, 1])}, "dilations must be whole numbers from 1 to 20; got 0 to 1"),
    "a long dilation": ({"dilations": np.array([1, 2**60])}, "dilations must be whole numbers from 1 to 20"),
    "dilations of another type": ({"dilations": np.array([1.0, 2.0])}, "dilations must be whole numbers; got float64"),
    "a start behind the channels": ({"starts": np.array([0, 1, 2, 3, 9])}, "starts of channels must be .* from 0 to 4"),
    "starts that descend": ({"starts": np.array([0, 3, 1, 3, 4])}, "starts of channels must not descend"),
    "too few places": ({"starts": np.arange(4)}, "places must be combinations x 2 kernels x 2 dilations; got 3"),
    "a channel outside": (
        {"channels": np.array([0, 1, 3, 0])},
        "channels must be whole numbers from 0 to 2; got 0 to 3",
    ),
    "a negative channel": ({"channels": np.array([0, -1, 2, 0])}, "channels must be whole numbers from 0 to 2"),
}


@pytest.mark.parametrize("way", [nullcontext, without_native])
@pytest.mark.parametrize("case", WRONG_PLACES)
def test_indices_out_of_range_never_reach_memory(case, way):
    change, words = WRONG_PLACES[case]
    loops = Loops(-1.0, **{**PLACES, **change})
    with way(), pytest.raises(ValueError, match=words):
        convolutions(SAMPLES, np.zeros(len(loops.starts) - 1, int), loops)
    with way(), pytest.raises(ValueError, match=words):
        proportions(SAMPLES, loops, np.zeros((len(loops.starts) - 1, 2), np.float32))
    if "taps" in change or "values" in change:
        return
    kernels = np.zeros((2, 1, 4, 9), np.float32)
    words = words.replace("places must be combinations x 2 kernels x 2 dilations; got 3", "kernels must have the shape")
    with way(), pytest.raises(ValueError, match=words):
        winners(SAMPLES, kernels, loops.dilations, loops.starts, loops.channels)


def test_rows_and_biases_belong_to_the_places():
    loops = Loops(-1.0, **PLACES)
    assert convolutions(SAMPLES, np.zeros(4, int), loops).shape == (4, 20)
    for rows, words in ((np.full(4, 2), "rows must be whole numbers from 0 to 1"), (np.zeros(3, int), "needs a row")):
        with pytest.raises(ValueError, match=words):
            convolutions(SAMPLES, rows, loops)
    for shape in ((3, 2), (4,)):
        with pytest.raises(ValueError, match="every place needs biases"):
            proportions(SAMPLES, loops, np.zeros(shape, np.float32))
    with pytest.raises(TypeError, match="contiguous array of float32"):
        proportions(SAMPLES.astype(float), loops, np.zeros((4, 2), np.float32))
