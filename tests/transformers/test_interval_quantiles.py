"""Tests of quantiles over intervals against NumPy's, and of what they are good for."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tensormargin import TensorMarginClassifier
from tensormargin.datasets import load_basic_motions
from tensormargin.transformers import IntervalQuantiles, TensorScaler


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((5, 3, 41)).cumsum(axis=2)


def signals(X):
    return X, np.diff(X), np.diff(X, 2), np.abs(np.fft.rfft(X))


@pytest.mark.parametrize("n_quantiles", [2, 5, 8])
def test_features_are_quantiles(X, n_quantiles):
    step = IntervalQuantiles(n_quantiles=n_quantiles).fit(X)
    found = step.transform(X)
    shares = np.linspace(0, 1, n_quantiles)
    for place, signal in enumerate(signals(X)):
        for which, ends in enumerate(np.rint(step.intervals_ * signal.shape[-1]).astype(int)):
            inside = signal[..., slice(*ends)]
            expected = np.moveaxis(np.quantile(inside, shares, axis=-1), 0, -1)
            expected[..., 1::2] -= inside.mean(axis=-1, keepdims=True)
            np.testing.assert_allclose(found[:, :, place, which], expected, atol=1e-10)


def test_intervals_are_halves_of_halves_and_those_between(X):
    step = IntervalQuantiles(depth=3).fit(X)
    expected = [(0, 1), (0, 0.5), (0.5, 1), (0.25, 0.75), (0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1)]
    np.testing.assert_array_equal(step.intervals_[:8], expected)
    np.testing.assert_array_equal(step.intervals_[8:], [(0.125, 0.375), (0.375, 0.625), (0.625, 0.875)])


def test_long_and_many_series_have_more_and_fewer_intervals():
    depths = [
        len(IntervalQuantiles(**given).fit(np.zeros((2, *shape))).intervals_)
        for shape, given in [((3,), {}), ((8,), {}), ((3, 100), {}), ((1, 5000), {}), ((64, 100), {})]
    ]
    assert depths == [1, 4, 57, 120, 4]
    assert IntervalQuantiles(1).fit(np.zeros((2, 3, 100))).sample_shape_out_ == (3, 4, 1, 8)
    assert np.isfinite(IntervalQuantiles().fit_transform(np.ones((2, 3)))).all()


def test_the_mode_and_the_form_of_the_result(X):
    features = IntervalQuantiles().fit_transform(X)
    np.testing.assert_array_equal(IntervalQuantiles(mode=0).fit_transform(X.swapaxes(1, 2)), features)
    flat = IntervalQuantiles(vectorize=True).fit(X)
    np.testing.assert_array_equal(flat.transform(X), features.reshape(5, -1))
    assert [axis.name for axis in flat.axes_out()] == ["feature"]
    names = [axis.name for axis in IntervalQuantiles().fit(X).axes_out()]
    assert names[1:] == ["signal", "interval", "quantile"]


def test_they_recognise_motions():
    motions = load_basic_motions()
    train = motions.split == "train"
    step = IntervalQuantiles(2000).fit(motions.data[train])
    features = TensorScaler(per=(0, 1)).fit_transform(step.transform(motions.data))
    model = TensorMarginClassifier("cp", 1).fit(features[train], motions.target[train])
    assert model.score(features[~train], motions.target[~train]) >= 0.9


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (IntervalQuantiles(0), "n_features must be a whole number of at least 1; got n_features=0"),
        (IntervalQuantiles(n_quantiles=1), "n_quantiles must be a whole number of at least 2; got n_quantiles=1"),
        (IntervalQuantiles(depth=0), "depth must be a whole number of at least 1; got depth=0"),
        (IntervalQuantiles(mode=2), "from -2 to 1; got mode=2"),
        (IntervalQuantiles(mode=0), "at least 3 entries along mode=0; got n_features = 2"),
    ],
    ids=repr,
)
def test_parameters_that_cannot_be(step, words, X):
    with pytest.raises(ValueError, match=re.escape(words)):
        step.fit(X[:, :2] if "3 entries" in words else X)
