"""Tests of histograms of gradients against their definition, and of what they are good for."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tensormargin import Axis, TensorMarginClassifier
from tensormargin.transformers import GradientHistograms


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((4, 9, 13)).cumsum(axis=2)


def by_hand(picture, n_cells, n_directions):
    """Return the squares of the features of a picture, pixel by pixel (roots of rounding errors would be larger)."""
    sizes = picture.shape
    cells = [min(n_cells, size) for size in sizes]
    histograms = np.zeros((*cells, n_directions))
    for place in np.ndindex(sizes):
        gradient = []
        for mode, size in enumerate(sizes):
            after, before = list(place), list(place)
            after[mode], before[mode] = min(place[mode] + 1, size - 1), max(place[mode] - 1, 0)
            gradient.append((picture[tuple(after)] - picture[tuple(before)]) / 2)
        angle = np.arctan2(gradient[0], gradient[1]) / (2 * np.pi) * n_directions
        for cell in np.ndindex(*cells):
            share = np.hypot(*gradient)
            for at, number, size, count in zip(place, cell, sizes, cells, strict=True):
                share *= max(0.0, 1 - abs((at + 0.5) * count / size - number - 0.5))
            for direction in range(n_directions):
                apart = abs(angle - direction) % n_directions
                histograms[(*cell, direction)] += share * max(0.0, 1 - min(apart, n_directions - apart))
    energy = np.pad((histograms**2).sum(axis=2), 1, mode="edge")
    around = np.array([[energy[i : i + 3, j : j + 3].mean() for j in range(cells[1])] for i in range(cells[0])])
    return histograms / np.sqrt(around + 0.01 * energy[1:-1, 1:-1].mean())[..., None]


@pytest.mark.parametrize(("n_cells", "n_directions"), [(3, 8), (7, 5), (20, 2)])
def test_features_are_votes_of_pixels(n_cells, n_directions, X):
    found = GradientHistograms(n_cells, n_directions).fit_transform(X)
    for one, picture in zip(found, X, strict=True):
        np.testing.assert_allclose(one**2, by_hand(picture, n_cells, n_directions), rtol=1e-9, atol=1e-9)


def test_contrast_and_brightness_do_not_matter(X):
    features = GradientHistograms().fit_transform(X)
    for other in (7.0 * X + 3.0, 1e150 * X, 1e-300 * X):
        np.testing.assert_allclose(GradientHistograms().fit_transform(other), features, rtol=1e-6, atol=1e-6)
    assert not GradientHistograms().fit_transform(np.ones_like(X)).any()


def test_a_turned_picture_has_turned_features(X):
    features = GradientHistograms(4).fit_transform(X)
    turned = GradientHistograms(4).fit_transform(X[:, ::-1, ::-1])
    np.testing.assert_allclose(turned, np.roll(features[:, ::-1, ::-1], 4, axis=3), rtol=1e-9, atol=1e-9)


def test_the_modes_and_the_form_of_the_result(X):
    features = GradientHistograms(3).fit_transform(X)
    colours = np.stack([X, X], axis=1)  # the same picture twice: votes are doubled, and so is what they are divided by
    for modes in ((-2, -1), (1, 2)):
        np.testing.assert_allclose(GradientHistograms(3, modes=modes).fit_transform(colours), features, rtol=1e-12)
    last = np.moveaxis(colours, 1, 3)
    np.testing.assert_allclose(GradientHistograms(3, modes=(0, 1)).fit_transform(last), features, rtol=1e-12)
    flat = GradientHistograms(3, vectorize=True).fit(X)
    np.testing.assert_array_equal(flat.transform(X), features.reshape(4, -1))
    assert [axis.name for axis in flat.axes_out()] == ["feature"]
    step = GradientHistograms(3).fit(X)
    assert [axis.name for axis in step.axes_out()] == ["cell along row", "cell along column", "direction"]
    axes = step.axes_out((Axis("depth"), Axis("width")))
    assert [axis.name for axis in axes[:2]] == ["cell along depth", "cell along width"]
    assert axes[2].values.tolist() == [0, 45, 90, 135, 180, 225, 270, 315]


def test_they_recognise_directions_wherever_they_are():
    """Stripes of two directions at any place have the same mean; a low-rank weight on the histograms separates them."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    rows, columns = np.mgrid[:16, :16]
    waves = np.where(y[:, None, None] == 0, rows + columns, rows - columns) + rng.uniform(0, 16, (120, 1, 1))
    X = np.sin(waves) + 0.3 * rng.standard_normal((120, 16, 16))
    features = GradientHistograms(4).fit_transform(X)
    model = TensorMarginClassifier("cp", 1).fit(features[:60], y[:60])
    raw = TensorMarginClassifier("cp", 1).fit(X[:60], y[:60])
    assert model.score(features[60:], y[60:]) == 1.0
    assert raw.score(X[60:], y[60:]) < 0.8


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (GradientHistograms(0), "n_cells must be a whole number of at least 1; got n_cells=0"),
        (GradientHistograms(n_directions=1), "n_directions must be a whole number of at least 2; got n_directions=1"),
        (GradientHistograms(modes=(0, -2)), "rows and columns; got modes=(0, -2), which are the same"),
        (GradientHistograms(modes=-1), "rows and columns; got modes=-1 for samples of 2 modes"),
        (
            GradientHistograms(modes=(0, 2)),
            "modes must be one of the 2 modes of the samples, from -2 to 1; got modes=2",
        ),
    ],
    ids=repr,
)
def test_parameters_that_cannot_be(step, words, X):
    with pytest.raises(ValueError, match=re.escape(words)):
        step.fit(X)


def test_vectors_have_no_rows_and_columns():
    with pytest.raises(ValueError, match=re.escape("got modes=(-2, -1) for samples of 1 modes")):
        GradientHistograms().fit(np.ones((3, 9)))
