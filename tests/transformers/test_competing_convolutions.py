"""Tests of the counts of competing convolutions against their definition, and of what they are good for."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tensormargin import TensorMarginClassifier
from tensormargin.datasets import load_basic_motions
from tensormargin.fitting import without_native
from tensormargin.transformers import CompetingConvolutions


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((5, 3, 40)).cumsum(axis=2)


def by_hand(step, sample, signal, group, which):
    """Return sums of the largest results and counts of the smallest ones of a group, by NumPy's convolution."""
    place = (signal * step.kernels_.shape[1] + group) * len(step.dilations_) + which
    channels = step._channels[step._starts[place] : step._starts[place + 1]]
    relative = (sample - sample.mean(axis=1, keepdims=True)) / step.scale_  # beyond its ends a sample has its mean
    series = np.diff(relative, n=signal)[channels].sum(axis=0)
    dilation = int(step.dilations_[which])
    spread = np.zeros((step.kernels_.shape[2], 8 * dilation + 1))
    spread[:, ::dilation] = step.kernels_[signal, group]
    results = np.array([np.convolve(series, one[::-1])[4 * dilation :][: len(series)] for one in spread])
    every = np.arange(len(spread))[:, None]
    sums = np.where(results.argmax(axis=0) == every, results, 0).sum(axis=1)
    return np.column_stack([sums, (results.argmin(axis=0) == every).sum(axis=1)])


def test_features_are_roots_of_what_the_winners_have(X):
    step = CompetingConvolutions(6, 4).fit(X)
    found = step.transform(X)
    assert found.shape == (5, 2, 3, 3, 4, 2)
    assert step.dilations_.tolist() == [1, 2, 4]
    for place in np.ndindex(5, 2, 3, 3):
        expected = np.sqrt(by_hand(step, X[place[0]], *place[1:]).clip(0) / 40)
        np.testing.assert_allclose(found[place], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose((found[..., 1] ** 2).sum(axis=-1)[:, 0], 1, rtol=1e-6)  # one wins each time


def test_a_constant_in_a_channel_changes_nothing(X):
    step = CompetingConvolutions(8).fit(X)
    moved = step.transform(X + np.array([30.0, -7.0, 1000.0])[:, None])
    np.testing.assert_allclose(moved, step.transform(X), rtol=1e-2, atol=1e-2)


def test_kernels_add_up_to_zero_and_channels_differ_between_groups(X):
    step = CompetingConvolutions().fit(X)
    np.testing.assert_allclose(step.kernels_.sum(axis=-1), 0, atol=1e-12)
    np.testing.assert_allclose(np.abs(step.kernels_).sum(axis=-1), 1)
    assert set(np.diff(step._starts)) == {1, 2, 3}


def test_the_unit_of_the_samples_does_not_matter(X):
    features = CompetingConvolutions(8).fit_transform(X)
    for unit in (8.0, 2.0**300, 2.0**-300):
        np.testing.assert_allclose(CompetingConvolutions(8).fit_transform(unit * X), features, rtol=1e-5, atol=1e-6)
    assert np.isfinite(CompetingConvolutions(8).fit_transform(np.zeros_like(X))).all()


def test_the_mode_and_the_form_of_the_result(X):
    features = CompetingConvolutions(8).fit_transform(X)
    np.testing.assert_array_equal(CompetingConvolutions(8, mode=0).fit_transform(X.swapaxes(1, 2)), features)
    flat = CompetingConvolutions(8, vectorize=True).fit(X)
    np.testing.assert_array_equal(flat.transform(X), features.reshape(5, -1))
    assert [axis.name for axis in flat.axes_out()] == ["feature"]
    axes = CompetingConvolutions(8).fit(X).axes_out()
    assert [axis.name for axis in axes] == ["signal", "group", "dilation", "kernel", "count"]
    assert not np.array_equal(CompetingConvolutions(8, random_state=1).fit_transform(X), features)


def test_words_name_the_mode(X):
    rows, columns = CompetingConvolutions(2, 3, mode=-2), CompetingConvolutions(2, 3).fit(X)
    assert columns.words() == "mode 2 was replaced by counts of the winners of 2 groups of 3 random convolutions each"
    assert rows.words().startswith("mode 2 from the end was replaced by counts")
    assert columns.brief() == "competing convolutions"
    assert rows.fit(X.swapaxes(1, 2)).brief() == "competing convolutions along mode 1"


def test_they_recognise_motions():
    motions = load_basic_motions()
    train = motions.split == "train"
    features = CompetingConvolutions(32).fit(motions.data[train]).transform(motions.data)
    model = TensorMarginClassifier("cp", 1).fit(features[train], motions.target[train])
    assert model.score(features[~train], motions.target[~train]) >= 0.95


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (CompetingConvolutions(1), "n_groups must be a whole number of at least 2; got n_groups=1"),
        (CompetingConvolutions(n_kernels=1), "n_kernels must be a whole number of at least 2; got n_kernels=1"),
        (CompetingConvolutions(mode=0), "at least 9 entries along mode=0; got n_features = 3. Resize the samples"),
        (CompetingConvolutions(mode=2), "from -2 to 1; got mode=2"),
    ],
    ids=repr,
)
def test_parameters_that_cannot_be(step, words, X):
    with pytest.raises(ValueError, match=re.escape(words)):
        step.fit(X)


@pytest.mark.parametrize("shape", [(5, 1, 9), (4, 3, 40), (3, 6, 71)], ids=str)
def test_without_compiled_code_the_digits_are_the_same(shape):
    X = np.random.default_rng(0).standard_normal(shape)
    expected = CompetingConvolutions(n_groups=8).fit_transform(X)
    with without_native():
        np.testing.assert_array_equal(CompetingConvolutions(n_groups=8).fit_transform(X + 0.0), expected)
