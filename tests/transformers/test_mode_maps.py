"""Tests of matrices along modes against SciPy, scikit-learn and their definitions."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.ndimage import gaussian_filter1d
from scipy.signal import decimate
from sklearn.covariance import ledoit_wolf, oas
from sklearn.decomposition import PCA

from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV
from tensormargin.transformers import Decimate, Differences, ModeMap, Project, Smooth, Whiten, Xdawn
from tensormargin.transformers.representations.covariances import shrunk

SHAPE = (4, 40, 3)


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return 7 + np.einsum("nabc,da->ndbc", rng.standard_normal((9, *SHAPE)), rng.standard_normal((4, 4)))


def fibres(X, mode):
    return np.moveaxis(X, mode + 1, -1).reshape(-1, X.shape[mode + 1])


def test_a_matrix_multiplies_fibres(X):
    matrix = np.random.default_rng(1).standard_normal((2, 40))
    np.testing.assert_allclose(ModeMap(matrix, 1).fit_transform(X), np.einsum("ab,nxby->nxay", matrix, X), rtol=1e-12)


@pytest.mark.parametrize("width", [0.5, 1, 3.7])
def test_gaussian_smoothing_is_scipys(X, width):
    np.testing.assert_allclose(Smooth(width, 1).fit_transform(X), gaussian_filter1d(X, width, axis=2), rtol=1e-10)
    both = gaussian_filter1d(gaussian_filter1d(X, width, axis=2), 2.0, axis=3)
    np.testing.assert_allclose(Smooth((width, 2.0), (1, -1)).fit_transform(X), both, rtol=1e-10)


@pytest.mark.parametrize("width", [0.5, 1, 10])
def test_smoothing_by_the_laplacian_is_a_penalty_on_roughness(X, width):
    """The squared norm of S^-1 w is that of w, and of its differences times the squared width."""
    step = Smooth(width, 1, "laplacian").fit(X)
    smooth = step.matrices_[0]
    np.testing.assert_allclose(smooth, smooth.T, atol=1e-12)
    differences = np.diff(np.eye(40), axis=0)
    expected = np.eye(40) + width**2 * differences.T @ differences
    np.testing.assert_allclose(np.linalg.inv(smooth @ smooth), expected, atol=1e-8 * width**2)


@pytest.mark.parametrize("method", ["gaussian", "laplacian"])
def test_smoothing_keeps_constants_and_width_zero_keeps_all(X, method):
    np.testing.assert_allclose(Smooth(2.0, (0, 1, 2), method).fit_transform(np.ones_like(X)), 1.0, rtol=1e-10)
    np.testing.assert_allclose(Smooth(0.0, 1, method).fit_transform(X), X, rtol=1e-9)


def test_a_search_chooses_the_width():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    bump = np.exp(-0.5 * ((np.arange(60) - 30) / 8) ** 2)
    X = 2.0 * rng.standard_normal((60, 2, 60)) + np.where(y == 1, 0.5, -0.5)[:, None, None] * bump
    search = TensorMarginClassifierCV(
        preparation=[Smooth(0.0), Smooth(6.0)], decompositions=["full"], lams=[1.0], mus=[(0, 0)], cv=3, random_state=0
    ).fit(X, y)
    assert search.best_params_["preparation"].width == 6.0


@pytest.mark.parametrize("order", [1, 2, 3])
def test_differences_are_numpys(X, order):
    np.testing.assert_allclose(Differences(order, 1).fit_transform(X), np.diff(X, order, axis=2), atol=1e-10)


@pytest.mark.parametrize("method", ["fir", "iir"])
@pytest.mark.parametrize("factor", [2, 3, 5])
def test_decimation_is_scipys(X, method, factor):
    expected = decimate(X, factor, ftype=method, axis=2)
    np.testing.assert_allclose(Decimate(factor, 1, method).fit_transform(X), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize(("name", "theirs"), [("ledoit-wolf", ledoit_wolf), ("oas", oas)])
def test_shrinkage_is_scikit_learns(X, mode, name, theirs):
    step = Whiten(mode, name).fit(X)
    np.testing.assert_allclose(step.covariance_, theirs(fibres(X, mode))[0], rtol=1e-10, atol=1e-12)
    few = X[:1, :, :, :1]
    if mode < 2:  # few fibres, and much shrinkage
        np.testing.assert_allclose(Whiten(mode, name).fit(few).covariance_, theirs(fibres(few, mode))[0], rtol=1e-9)


@pytest.mark.parametrize("shrinkage", [0, 0.0, 0.3, 1])
def test_a_share_of_the_identity(X, shrinkage):
    covariance = np.cov(fibres(X, 0).T, bias=True)
    expected = (1 - shrinkage) * covariance + shrinkage * np.eye(4) * np.trace(covariance) / 4
    np.testing.assert_allclose(Whiten(0, shrinkage).fit(X).covariance_, expected, rtol=1e-10)


def test_many_matrices_are_shrunk_as_one_by_one(X):
    rows = [fibres(one[None], 0) for one in X]
    centred = [one - one.mean(axis=0) for one in rows]
    covariances = np.stack([one.T @ one / len(one) for one in centred])
    fourth = np.array([np.sum(np.sum(one**2, axis=1) ** 2) for one in centred])
    for name, theirs in (("ledoit-wolf", ledoit_wolf), ("oas", oas)):
        found = shrunk(covariances, len(rows[0]), fourth, name)
        np.testing.assert_allclose(found, [theirs(one)[0] for one in rows], rtol=1e-9)


def test_whitened_fibres_are_uncorrelated(X):
    white = Whiten(0, 0.0).fit_transform(X)
    np.testing.assert_allclose(np.cov(fibres(white, 0).T, bias=True), np.eye(4), atol=1e-9)
    X[:, 2] = 5.0
    assert np.ptp(Whiten(0, 0.0).fit_transform(X)[:, 2]) < 1e-9  # a constant channel has nothing to say


@pytest.mark.parametrize("mode", [0, 1])
def test_principal_components_are_scikit_learns(X, mode):
    step = Project(3, mode=mode).fit(X)
    pca = PCA(3).fit(fibres(X, mode))
    np.testing.assert_allclose(np.abs(step.matrices_[0]), np.abs(pca.components_), atol=1e-9)
    np.testing.assert_allclose(step.explained_variance_ratio_, pca.explained_variance_ratio_, rtol=1e-9)
    assert Project(99, mode=mode).fit(X).sample_shape_out_[mode] == SHAPE[mode]


def test_a_basis_and_an_atlas(X):
    basis = np.random.default_rng(1).standard_normal((2, 40))
    np.testing.assert_allclose(Project(basis=basis, mode=1).fit_transform(X), ModeMap(basis, 1).fit_transform(X))
    atlas = np.array([0, 7, 7, 2])
    expected = np.stack([X[:, 3], X[:, 1:3].mean(axis=1)], axis=1)
    np.testing.assert_allclose(Project(basis=atlas, mode=0).fit_transform(X), expected, rtol=1e-12)


def test_xdawn_solves_its_eigenproblem(X):
    y = np.array(list("abcabcabc"))
    step = Xdawn(2).fit(X, y)
    assert step.classes_.tolist() == ["a", "b", "c"]
    assert step.sample_shape_out_ == (6, 40, 3)
    noise = np.cov(fibres(X, 0).T, bias=True)
    evoked = np.cov(fibres(X[y == "b"].mean(axis=0)[None], 0).T, bias=True)
    best = eigh(evoked, noise)[1][:, -1]
    alike = step.matrices_[0][2] @ best / np.linalg.norm(best)
    assert abs(alike) == pytest.approx(1.0, abs=1e-6)


def test_xdawn_finds_a_response_in_noise():
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    wave = np.sin(np.arange(50) / 4)
    X = rng.standard_normal((80, 8, 50)) + 0.8 * y[:, None, None] * rng.standard_normal(8)[:, None] * wave
    X = np.einsum("dc,nct->ndt", rng.standard_normal((8, 8)), X)
    train, test = slice(0, 40), slice(40, 80)
    step = Xdawn(1).fit(X[train], y[train])
    model = TensorMarginClassifier("cp", 1).fit(step.transform(X[train]), y[train])
    assert model.score(step.transform(X[test]), y[test]) > 0.9
    with pytest.raises(ValueError, match="requires y to be passed"):
        Xdawn().fit(X)
    with pytest.raises(ValueError, match="one entry per sample"):
        Xdawn().fit(X, y[:5])


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (ModeMap(np.ones((3, 5)), 1), "one column for each of the 40 entries along mode=1; got shape (3, 5)"),
        (ModeMap([[np.nan] * 40], 1), "finite real numbers"),
        (ModeMap(np.ones((3, 4)), "channel"), "one of the 3 modes of the samples, from -3 to 2; got mode='channel'"),
        (Smooth(-1.0, 1), "width must be a finite number of at least 0"),
        (Smooth(np.inf, 1), "got width=inf"),
        (Smooth((1.0, 2.0), 1), "or one per mode (1); got width=(1.0, 2.0)"),
        (Smooth("wide", 1), "got width='wide'"),
        (Smooth(1.0, 3), "from -3 to 2; got mode=3"),
        (Smooth(1.0, (1, -2)), "none of them twice; got mode=(1, -2)"),
        (Smooth(1.0, ()), "at least one mode"),
        (Smooth(1.0, 1, "median"), "got method='median'"),
        (Whiten(0, "lw"), 'must be "ledoit-wolf", "oas" or a number from 0 to 1; got shrinkage=\'lw\''),
        (Whiten(0, 1.5), "got shrinkage=1.5"),
        (Differences(0), "got order=0"),
        (Differences(3), "got order=3"),
        (Decimate(0), "got factor=0"),
        (Decimate(2.0), "got factor=2.0"),
        (Decimate(2, 0, "iir"), 'more than 27 entries along the mode; got 4. Use method="fir"'),
        (Decimate(2, 1, "fft"), "got method='fft'"),
        (Project(0), "got n_components=0"),
        (Project(basis=np.ones((2, 7)), mode=1), "components of shape (n_components, 40)"),
        (Project(basis=np.zeros(40, int), mode=1), "some of them not 0"),
    ],
    ids=repr,
)
def test_parameters_that_cannot_be(step, words, X):
    with pytest.raises(ValueError, match=re.escape(words)):
        step.fit(X)
