"""Tests of connectomes, spectra, imputation, detrending and patches against SciPy, scikit-learn and definitions."""

from __future__ import annotations

import re

import numpy as np
import pytest
import sklearn
from scipy.signal import detrend, savgol_filter
from scipy.stats import zscore
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline

from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV, Views
from tensormargin.datasets import load_indian_pines
from tensormargin.transformers import Connectome, Detrend, Impute, Patches, Spectra


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return 4 + np.cumsum(rng.standard_normal((12, 5, 40)), axis=2)


# --- connectomes


def test_the_three_sources_give_the_same_connectome(X):
    matrices = np.stack([np.corrcoef(one) for one in X])
    rows, columns = np.triu_indices(5, 1)
    expected = np.arctanh(matrices * (1 - np.eye(5)))
    for source, given in (("series", X), ("matrix", matrices), ("triangle", matrices[:, rows, columns])):
        np.testing.assert_allclose(Connectome(source).fit_transform(given), expected, rtol=1e-9, atol=1e-12)
    plain = Connectome("matrix", fisher=False).fit_transform(3 * matrices)
    np.testing.assert_allclose(plain, 3 * matrices * (1 - np.eye(5)), rtol=1e-12)


def test_the_weight_of_a_connectome_is_symmetric_and_that_of_its_pairs(X):
    y = np.arange(12) % 2
    matrix, pairs = (
        make_pipeline(Connectome("series", vectorize=one), TensorMarginClassifier("full")).fit(X, y)
        for one in (False, True)
    )
    weight = matrix[-1].coef_[0]
    np.testing.assert_allclose(weight, weight.T, atol=1e-9 * np.abs(weight).max())
    assert pairs[0].sample_shape_out_ == (10,)
    np.testing.assert_allclose(pairs.decision_function(X), matrix.decision_function(X), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.sqrt(2) * weight[np.triu_indices(5, 1)], pairs[-1].coef_[0], rtol=1e-3, atol=1e-4)


def test_perfect_correlations_stay_finite():
    ones = np.ones((3, 4, 4))
    assert np.isfinite(Connectome().fit_transform(ones)).all()


# --- spectra


def test_snv_is_a_z_score_per_spectrum(X):
    np.testing.assert_allclose(Spectra().fit_transform(X), zscore(X, axis=-1), rtol=1e-9)
    np.testing.assert_allclose(Spectra(mode=0).fit_transform(X), zscore(X, axis=1), rtol=1e-9)
    np.testing.assert_allclose(Spectra().fit_transform(2.5 * X - 7), Spectra().fit_transform(X), rtol=1e-8)


def test_msc_removes_offset_and_slope_relative_to_the_training_mean(X):
    train = X[:8]
    step = Spectra("msc").fit(train)
    reference = train.mean(axis=(0, 1))
    np.testing.assert_allclose(step.reference_, reference, rtol=1e-12)
    changed = step.transform(X)
    for sample in (0, 11):
        slope, offset = np.polyfit(reference, X[sample, 2], 1)
        np.testing.assert_allclose(changed[sample, 2], (X[sample, 2] - offset) / slope, rtol=1e-7)
    scattered = 3 + 0.2 * reference + np.zeros((1, 5, 40))
    np.testing.assert_allclose(step.transform(scattered)[0, 0], reference, rtol=1e-9)


@pytest.mark.parametrize(("derivative", "window", "degree"), [(0, 7, 2), (1, 11, 2), (2, 9, 4)])
def test_derivatives_are_scipys(X, derivative, window, degree):
    ours = Spectra(None, derivative, window, degree).fit_transform(X)
    expected = savgol_filter(X, window, degree, deriv=derivative, axis=-1)
    np.testing.assert_allclose(ours, expected, rtol=1e-8, atol=1e-9)
    both = Spectra("snv", derivative, window, degree).fit_transform(X)
    np.testing.assert_allclose(both, savgol_filter(zscore(X, axis=-1), window, degree, deriv=derivative), atol=1e-9)


# --- imputation


def with_holes(X, share=0.2, seed=1):
    holes = X.copy()
    holes[np.random.default_rng(seed).uniform(size=X.shape) < share] = np.nan
    return holes


def test_means_are_scikit_learns(X):
    holes = with_holes(X)
    theirs = SimpleImputer().fit(holes[:8].reshape(8, -1))
    ours = Impute().fit(holes[:8])
    np.testing.assert_allclose(ours.transform(holes), theirs.transform(holes.reshape(12, -1)).reshape(X.shape))
    assert not np.isnan(ours.transform(np.full_like(X, np.nan))).any()


def test_interpolation_is_numpys(X):
    holes = with_holes(X)
    holes[0, 0] = np.nan
    filled = Impute("interpolate").fit(holes).transform(holes)
    for sample, channel in ((3, 2), (7, 4)):
        fibre = holes[sample, channel]
        known = np.flatnonzero(~np.isnan(fibre))
        np.testing.assert_allclose(filled[sample, channel], np.interp(np.arange(40), known, fibre[known]))
    np.testing.assert_allclose(filled[0, 0], np.nanmean(holes[:, 0], axis=0))  # nothing is known of it
    turned = Impute("interpolate", mode=0).fit_transform(np.moveaxis(holes[1:], 1, 2))
    np.testing.assert_allclose(turned, np.moveaxis(Impute("interpolate").fit_transform(holes[1:]), 1, 2), rtol=1e-12)


def low_rank_samples(noise=0.05):
    rng = np.random.default_rng(0)
    X = 10 + np.einsum("nr,rab->nab", rng.standard_normal((80, 2)), rng.standard_normal((2, 5, 8)))
    return X + noise * rng.standard_normal(X.shape)


def test_components_find_what_is_missing_of_low_rank_samples():
    X = low_rank_samples()
    holes = with_holes(X, 0.3)
    missing = np.isnan(holes)
    step = Impute("low-rank", rank=2).fit(holes[:50])
    for rows in (slice(0, 50), slice(50, 80)):  # new samples as well
        error = (step.transform(holes[rows]) - X[rows])[missing[rows]]
        of_means = (Impute().fit(holes[:50]).transform(holes[rows]) - X[rows])[missing[rows]]
        assert error.std() < 0.15 * of_means.std()
    assert step.noise_ == pytest.approx(0.05**2, rel=0.3)
    assert step.n_iter_ < 100


def test_components_of_complete_samples_are_principal():
    X = low_rank_samples(0.3)
    step = Impute("low-rank", rank=2, tol=1e-8, max_iter=500).fit(X)
    flat = X.reshape(80, -1)
    principal = np.linalg.svd(flat - flat.mean(axis=0), full_matrices=False)[2][:2]
    found = np.linalg.qr(step.components_.reshape(2, -1).T)[0]
    assert np.linalg.svd(principal @ found)[1].min() > 0.999
    np.testing.assert_allclose(step.mean_.ravel(), flat.mean(axis=0), rtol=1e-3)


@pytest.mark.parametrize("method", ["mean", "interpolate", "low-rank"])
def test_known_entries_stay(X, method):
    holes = with_holes(X)
    filled = Impute(method).fit_transform(holes)
    known = ~np.isnan(holes)
    np.testing.assert_array_equal(filled[known], X[known])
    assert np.isfinite(filled).all()
    da = pytest.importorskip("dask.array", reason="needs Dask")
    lazy = da.from_array(holes, chunks=(5, 5, 40))
    np.testing.assert_allclose(Impute(method).fit_transform(lazy).compute(), filled, rtol=1e-6)


def test_a_mask_is_a_view(X):
    holes = with_holes(X).astype(np.float32)
    step = Impute(mask=True).fit(holes)
    views = step.transform(holes)
    assert isinstance(views, Views)
    assert views.shapes == step.sample_shape_out_ == {"samples": (5, 40), "missing": (5, 40)}
    np.testing.assert_array_equal(views["missing"], np.isnan(holes))
    np.testing.assert_array_equal(views["samples"], Impute().fit_transform(holes))
    da = pytest.importorskip("dask.array", reason="needs Dask")
    lazy = clone(step).fit_transform(da.from_array(holes, chunks=(5, 5, 40)))
    np.testing.assert_array_equal(lazy["missing"].compute(), np.isnan(holes))


def test_what_is_missing_can_tell_classes_apart():
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X = rng.standard_normal((80, 4, 6))
    X[:, 1, 2:5][(y == 1)[:, None] & (rng.uniform(size=(80, 3)) < 0.7)] = np.nan
    model = make_pipeline(Impute(mask=True), TensorMarginClassifier("cp", 1)).fit(X[:40], y[:40])
    assert model.score(X[40:], y[40:]) > 0.8


@pytest.mark.parametrize("mask", [False, True])
def test_searches_take_missing_entries_that_are_imputed(X, mask):
    y = np.arange(12) % 2
    holes = with_holes(X + y[:, None, None])
    kept = {"decompositions": ["cp"], "ranks": [1], "lams": [1.0], "mus": [(0, 0)], "cv": 2}
    search = TensorMarginClassifierCV(preparation=[Impute(mask=mask)], **kept).fit(holes, y)
    assert search.predict(holes).shape == (12,)
    with pytest.raises(ValueError, match="NaN"):
        TensorMarginClassifierCV(preparation=[Impute(), None], **kept).fit(holes, y)


# --- detrending


def test_runs_are_detrended_as_scipy_does(X):
    groups = np.array(list("aabbabbabaab"))
    changed = Detrend().fit_transform(X, groups=groups)
    for group in "ab":
        own = groups == group
        np.testing.assert_allclose(changed[own], detrend(X[own], axis=0), atol=1e-9)
    constant = Detrend(0).fit_transform(X, groups=groups)
    np.testing.assert_allclose(constant[groups == "a"].mean(axis=0), 0, atol=1e-9)
    alone = Detrend(3).fit_transform(X[:1], groups=["x"])
    np.testing.assert_allclose(alone, 0, atol=1e-9)


def test_samples_are_detrended_as_scipy_does(X):
    np.testing.assert_allclose(Detrend(mode=1).fit_transform(X), detrend(X, axis=-1), atol=1e-9)


def test_runs_do_not_leak_into_each_other(X):
    groups = np.repeat(["a", "b", "c"], 4)
    changed = Detrend().fit(X[:8], groups=groups[:8]).transform(X[8:], groups=groups[8:])
    np.testing.assert_allclose(changed, Detrend().fit_transform(X, groups=groups)[8:], atol=1e-9)


def test_runs_reach_a_pipeline_by_metadata_routing(X):
    y, groups = np.arange(12) % 2, np.repeat(["a", "b", "c"], 4)
    model = make_pipeline(Detrend(), TensorMarginClassifier("cp", 1))
    with sklearn.config_context(enable_metadata_routing=True):
        model.fit(X, y, groups=groups)
        predicted = model.predict(X, groups=groups)
    np.testing.assert_array_equal(predicted, model[-1].predict(Detrend().fit_transform(X, groups=groups)))
    search = TensorMarginClassifierCV(
        decompositions=["cp"], ranks=[1], lams=[1.0], mus=[(0, 0)], cv=GroupKFold(3), preparation=[Detrend()]
    )
    assert search.fit(X, y, groups=groups).predict(X, groups=groups).shape == (12,)
    with pytest.raises(ValueError, match="groups"):
        search.fit(X, y)


# --- patches


@pytest.fixture
def scene():
    rng = np.random.default_rng(0)
    truth = np.zeros((14, 20), int)
    truth[2:9, 3:18] = rng.integers(1, 4, (7, 15))
    return rng.integers(0, 99, (14, 20, 6)).astype(np.uint16), truth


@pytest.mark.parametrize("size", [1, 3, 5])
def test_patches_lie_around_their_pixels(scene, size):
    cube, truth = scene
    cut = Patches(size, tile=4).cut(cube, truth)
    assert cut.data.shape == (105, size, size, 6)
    np.testing.assert_array_equal(cut.target, truth[tuple(cut.positions.T)])
    np.testing.assert_array_equal(cut.data[:, size // 2, size // 2], cube[tuple(cut.positions.T)])
    row, column = cut.positions[40]
    half = size // 2
    np.testing.assert_array_equal(cut.data[40], cube[row - half : row + half + 1, column - half : column + half + 1])
    places = {}
    for group, (row, column) in zip(cut.groups, cut.positions, strict=True):
        assert places.setdefault(group, (row // 4, column // 4)) == (row // 4, column // 4)


def test_predictions_are_painted_back(scene):
    cube, truth = scene
    patches = Patches(3)
    cut = patches.cut(cube, truth)
    np.testing.assert_array_equal(patches.paint(cut.target, cut), truth)
    everywhere = patches.cut(cube)
    assert everywhere.target is None
    np.testing.assert_array_equal(patches.paint(everywhere.data[:, 1, 1], everywhere), cube)
    named = patches.paint(np.where(cut.target == 1, "corn", "soy"), cut, fill="")
    assert named[0, 0] == ""
    assert set(named[truth == 1]) == {"corn"}
    scores = patches.paint(np.ones((105, 3)), cut, fill=np.nan)
    assert scores.shape == (14, 20, 3)
    assert np.isnan(scores[0, 0]).all()
    some = patches.cut(cube, truth, classes=[1, 3])
    assert set(some.target) == {1, 3}


def test_images_without_bands_and_names_as_labels(scene):
    cube, truth = scene
    named = np.array(["", "corn", "soy", "hay"])[truth]
    cut = Patches(3).cut(cube[..., 0], named, background="")
    assert cut.data.shape == (105, 3, 3)
    assert set(cut.target) == {"corn", "soy", "hay"}


def test_indian_pines_are_such_patches():
    try:
        small = load_indian_pines(3, (1, 7))
    except (OSError, ImportError) as error:
        pytest.skip(f"needs the scene: {error}")
    assert small.data.shape[1:] == (3, 3, 200)
    assert set(small.target) == {1, 7}


# --- parameters that cannot be


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (Connectome(), 'source="matrix" needs matrices, region x region, symmetric, of at least two regions'),
        (Connectome("triangle"), 'source="triangle" needs vectors of r (r - 1) / 2 entries'),
        (Connectome("graph"), 'source must be "matrix", "series" or "triangle"; got source=\'graph\''),
        (Spectra("emsc"), 'scatter must be "snv", "msc" or None; got scatter=\'emsc\''),
        (Spectra(derivative=1), "a derivative needs a window; got derivative=1 and window=None"),
        (Spectra(window=4), "window must be odd; got window=4. Use 3 or 5"),
        (Spectra(window=99), "from 1 to 40, as the mode has n_features = 40 entries; got window=99"),
        (Spectra(window=5, degree=5), "degree must be a whole number from 0 to 4, below the window; got degree=5"),
        (Spectra(derivative=3, window=5), "derivative must be a whole number from 0 to 2"),
        (Spectra(mode="band"), "from -2 to 1; got mode='band'"),
        (Impute("median"), 'method must be "mean", "interpolate" or "low-rank"; got method=\'median\''),
        (Impute(rank=0), "got rank=0"),
        (Impute(tol=0), "tol must be a finite number above 0; got tol=0"),
        (Detrend(-1, mode=0), "got degree=-1"),
        (Detrend(), "Detrend(mode=None) needs groups, the run of each sample"),
        (Detrend(mode=2), "from -2 to 1; got mode=2"),
    ],
    ids=repr,
)
def test_parameters_that_cannot_be(step, words, X):
    with pytest.raises(ValueError, match=re.escape(words)):
        step.fit(X)


def test_values_that_cannot_be(X):
    square = X[:, :, :5]
    with pytest.raises(ValueError, match=r"needs symmetric matrices; got entries \(i, j\) and \(j, i\) that differ by"):
        Connectome().fit(square).transform(square)
    with pytest.raises(ValueError, match=r"needs correlations from -1 to 1; got values of up to"):
        Connectome("triangle").fit_transform(5 + np.zeros((4, 6)))
    infinite = X.copy()
    infinite[2, 1, 3] = np.inf
    for method in ("fit", "transform"):
        with pytest.raises(ValueError, match=r"missing entries must be NaN; got infinity"):
            getattr(Impute().fit(X), method)(infinite)


def test_scenes_that_cannot_be(scene):
    cube, truth = scene
    with pytest.raises(ValueError, match=r"size must be an odd number of pixels; got size=4\. Use 3 or 5"):
        Patches(4).cut(cube)
    with pytest.raises(ValueError, match=r"more rows and columns than half a patch, 15; got shape \(14, 20, 6\)"):
        Patches(31).cut(cube)
    with pytest.raises(ValueError, match=r"one label per pixel of the scene, \(14, 20\); got shape \(14, 19\)"):
        Patches(3).cut(cube, truth[:, 1:])
    with pytest.raises(ValueError, match="classes must be labels of the scene, 1, 2, 3; got 9"):
        Patches(3).cut(cube, truth, classes=[1, 9])
    with pytest.raises(ValueError, match="got only the background, 0"):
        Patches(3).cut(cube, 0 * truth)
    with pytest.raises(ValueError, match=r"one value for each of the 105 patches; got shape \(3,\)"):
        Patches(3).paint([1, 2, 3], Patches(3).cut(cube, truth))
