"""Tests of all representations together: scikit-learn's checks, any kind of array, no leakage, saved models."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import numpy as np
import pytest
from estimator_checks import every_check
from scipy.signal import lfilter
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import tensormargin.transformers
from tensormargin import NotAffineError, TensorMarginClassifier, affine_form, load_model, save_model, weight_maps
from tensormargin.report.sentences import describe_step
from tensormargin.runtime import device_of, to_host
from tensormargin.transformers import (
    AnovaMask,
    BandPower,
    Clip,
    CompetingConvolutions,
    Connectome,
    Convolutions,
    Covariances,
    Decimate,
    Detrend,
    Differences,
    GradientHistograms,
    Impute,
    IntervalQuantiles,
    ModeMap,
    Project,
    Smooth,
    Spectra,
    TensorScaler,
    Whiten,
    Xdawn,
)

N, SHAPE = 24, (4, 30)
MATRIX = np.random.default_rng(3).standard_normal((5, 4))
LINEAR = {
    "matrix": ModeMap(MATRIX, 0),
    "smooth": Smooth(2.0),
    "smooth both": Smooth((1.0, 0.5), (1, 0)),
    "smooth by the Laplacian": Smooth(1.5, method="laplacian"),
    "whiten": Whiten(),
    "whiten by OAS": Whiten(0, "oas"),
    "differences": Differences(),
    "second differences": Differences(2, mode=1),
    "decimate": Decimate(3),
    "project": Project(2, mode=0),
    "atlas": Project(basis=np.repeat([0, 4, 7], 10)),
    "xdawn": Xdawn(2),
    "xdawn with means": Xdawn(2, templates=True),
    "anova": AnovaMask(0.5),
    "detrend": Detrend(2, mode=1),
    "derivatives": Spectra(None, derivative=1, window=5),
}
OTHERS = {
    "log power": BandPower(5),
    "power of bands": BandPower([(2, 6), ("alpha")], sfreq=30.0, log=False),
    "multitaper": BandPower(4, method="multitaper", n_windows=2),
    "covariances": Covariances(metric="none"),
    "log-covariances": Covariances(vectorize=True),
    "tangent space": Covariances(metric="tangent", shrinkage="ledoit-wolf"),
    "tangent space of bands": Covariances(metric="tangent", bands={"low": (0, 5), "high": (5, 15)}, sfreq=30.0),
    "convolutions": Convolutions(200),
    "convolutions of each channel": Convolutions(1000, channels="each"),
    "random convolutions": Convolutions(600, channels=3, kernels="random"),
    "competing convolutions": CompetingConvolutions(8, 4),
    "quantiles over intervals": IntervalQuantiles(500, 4),
    "histograms of gradients": GradientHistograms(3),
    "connectome": Connectome("series"),
    "pairs": Connectome("series", fisher=False, vectorize=True),
    "tangent connectome": Connectome("series", tangent=True),
    "clip": Clip(3.0),
    "snv": Spectra(),
    "msc": Spectra("msc", derivative=2, window=7, degree=3),
    "detrend runs": Detrend(),
    "impute": Impute(),
    "interpolate": Impute("interpolate"),
    "impute by components": Impute("low-rank", rank=2),
}
TRANSFORMERS = LINEAR | OTHERS
ROUGH = {name for name in OTHERS if "convolutions" in name}  # jump where a number crosses a threshold
BY_GROUP = {"detrend runs"}
TAKES_NAN = {"impute", "interpolate", "impute by components"}
every_transformer = pytest.mark.parametrize("name", TRANSFORMERS)


def samples():
    """Return recordings with classes of different frequencies, channels of different scales, and drifts."""
    rng = np.random.default_rng(0)
    time = np.arange(SHAPE[1]) / SHAPE[1]
    y = np.arange(N) % 2
    waves = np.sin(2 * np.pi * ((4 + 4 * y)[:, None, None] * time + rng.uniform(size=(N, SHAPE[0], 1))))
    drift = rng.normal(size=(N, SHAPE[0], 1)) * time
    X = (waves + drift + 0.3 * rng.normal(size=(N, *SHAPE)) + 0.5 * y[:, None, None]) * np.array(
        [[1.0], [2], [5], [10]]
    )
    return X + 3.0, np.array(["slow", "fast"])[y]


X, Y = samples()
GROUPS = np.repeat(["a", "b", "c"], N // 3)


@every_check(
    [
        BandPower(),
        BandPower(3, method="multitaper", log=False),
        Covariances(),
        Covariances(metric="tangent"),
        Smooth(),
        Smooth(method="laplacian"),
        Whiten(),
        Differences(),
        Decimate(),
        Project(),
        Xdawn(),
        AnovaMask(),
        Spectra(),
        Spectra("msc"),
        Detrend(mode=0),
        Impute(),
        Impute("interpolate"),
        Impute("low-rank"),
    ]
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def fitted(name, given=X, rows=slice(None)):
    return clone(TRANSFORMERS[name]).fit(given, Y[rows], groups=GROUPS[rows])


@every_transformer
def test_parameters_can_be_set_and_cloned(name):
    one = TRANSFORMERS[name]
    copied = clone(one).set_params(**one.get_params())
    assert repr(copied) == repr(one)
    before = describe_step(one)
    assert before.strip()
    assert describe_step(fitted(name)).strip()


@every_transformer
def test_tensors_stay_tensors_whatever_holds_them(name):
    expected = fitted(name).transform(X, groups=GROUPS)
    step = fitted(name)
    assert expected.shape == (N, *step.sample_shape_out_)
    assert np.isfinite(expected).all()
    order = np.asfortranarray(X)
    frozen = X.copy()
    frozen.flags.writeable = False
    for given in (order, frozen, X.tolist()):
        np.testing.assert_allclose(fitted(name, given).transform(given, groups=GROUPS), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(frozen, X)


@every_transformer
def test_single_precision_stays_single(name):
    single = X.astype(np.float32)
    changed = fitted(name, single).transform(single, groups=GROUPS)
    expected = fitted(name).transform(X, groups=GROUPS)
    assert changed.dtype == np.float32
    if name not in ROUGH:
        np.testing.assert_allclose(changed, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())
    whole = np.rint(10 * X).astype(np.int16)
    assert fitted(name, whole).transform(whole, groups=GROUPS).dtype.kind == "f"


@every_transformer
def test_samples_on_disk(name, tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_array_equal(
        fitted(name, mapped).transform(mapped, groups=GROUPS), fitted(name).transform(X, groups=GROUPS)
    )


@every_transformer
@pytest.mark.parametrize("chunks", [(7, 1, 16), (24,), (0, 12, 12)], ids=str)
def test_dask_gives_what_memory_gives(name, chunks):
    da = pytest.importorskip("dask.array", reason="needs Dask")
    import dask

    with dask.config.set(scheduler="synchronous"):
        lazy = da.from_array(X, chunks=(chunks, *SHAPE))
        here, there = fitted(name), fitted(name, lazy)
        expected, changed = here.transform(X, groups=GROUPS), there.transform(lazy, groups=GROUPS)
        assert (changed.shape, changed.dtype, changed.chunks[0]) == (expected.shape, expected.dtype, chunks)
        np.testing.assert_allclose(changed.compute(), expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())


@every_transformer
def test_other_libraries_give_what_numpy_gives(name, put):
    given = put(X)
    there = fitted(name, given)
    changed, expected = there.transform(given, groups=GROUPS), fitted(name).transform(X, groups=GROUPS)
    assert type(changed) is type(given)
    assert device_of(changed) == device_of(given)
    learned = [key for key, value in vars(there).items() if isinstance(value, np.ndarray) and key != "classes_"]
    assert not learned or there.get_params().keys() >= set(learned)  # all else lies where the samples lie
    np.testing.assert_allclose(to_host(changed), expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())


@every_transformer
def test_parts_of_the_samples_give_the_same(name, monkeypatch):
    expected = fitted(name).transform(X, groups=GROUPS)
    monkeypatch.setattr("tensormargin.runtime.tuning.PASS_ENTRIES", 4 * X[0].size)
    monkeypatch.setattr("tensormargin.runtime.tuning.PASS_SAMPLES", 1)
    np.testing.assert_allclose(
        fitted(name).transform(X, groups=GROUPS), expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max()
    )


@every_transformer
def test_nothing_leaks_from_one_sample_to_another(name):
    """Test samples neither change what was learned nor each other: permuting them permutes what becomes of them."""
    if name in BY_GROUP:
        pytest.skip("works within groups")
    train, test = slice(0, 14), slice(14, N)
    step = fitted(name, X[train], train)
    changed = step.transform(X[test])
    order = np.random.default_rng(0).permutation(N - 14)
    np.testing.assert_allclose(step.transform(X[test][order]), changed[order], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(step.transform(X[test][:1]), changed[:1], rtol=1e-8, atol=1e-10 * np.abs(changed).max())
    pipeline = make_pipeline(clone(TRANSFORMERS[name]), TensorMarginClassifier("full")).fit(X[train], Y[train])
    np.testing.assert_allclose(
        pipeline[0].transform(X[test]), changed, rtol=1e-10, atol=1e-12
    )  # a pipeline learns from the training samples only


@pytest.mark.parametrize("name", LINEAR)
def test_a_weight_pulled_back_gives_the_same_scores(name):
    step = fitted(name)
    rng = np.random.default_rng(7)
    fresh = 5 + 20 * rng.standard_normal((10, *SHAPE))
    weight = rng.standard_normal(step.sample_shape_out_)
    scores = np.tensordot(step.transform(fresh), weight, weight.ndim)
    pulled = step.pull_back(weight)
    assert pulled.shape == SHAPE
    difference = scores - np.tensordot(fresh, pulled, 2)
    np.testing.assert_allclose(difference, difference[0], rtol=1e-9, atol=1e-8 * np.abs(scores).max())
    assert np.ptp(scores) > 1e-3


@pytest.mark.parametrize("name", LINEAR)
def test_weights_are_mapped_to_the_samples(name):
    model = make_pipeline(clone(LINEAR[name]), TensorMarginClassifier("full")).fit(X, Y)
    form = affine_form(model)
    scores = np.tensordot(X, form.weights[0], 2) + form.offsets[0]
    expected = model.decision_function(X)
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    assert weight_maps(model).shape == (1, *SHAPE)


@pytest.mark.parametrize("name", OTHERS)
def test_maps_of_what_is_not_linear_are_drawn_behind_it(name):
    step = fitted(name)
    with pytest.raises(TypeError, match="cannot pull a weight back through"):
        step.pull_back(np.ones(step.sample_shape_out_))
    if name in BY_GROUP:
        return
    model = make_pipeline(clone(OTHERS[name]), TensorMarginClassifier("full")).fit(X, Y)
    with pytest.raises(NotAffineError, match="not linear in the samples"):
        affine_form(model)
    maps = weight_maps(model)
    assert maps.shape == (1, *step.sample_shape_out_)
    scores = np.tensordot(model[0].transform(X), maps[0], maps.ndim - 1)
    difference = scores - model.decision_function(X)
    np.testing.assert_allclose(difference, difference[0], atol=1e-6 * max(1.0, np.abs(scores).max()))


@every_transformer
def test_saved_models_load_again(name, tmp_path):
    step = fitted(name)
    changed = step.transform(X, groups=GROUPS)
    model = TensorMarginClassifier("full").fit(changed, Y)
    pipeline = make_pipeline(step, model)
    save_model(tmp_path / "model.skops", pipeline)
    loaded = load_model(tmp_path / "model.skops").model
    np.testing.assert_array_equal(loaded[0].transform(X, groups=GROUPS), changed)
    np.testing.assert_array_equal(loaded[-1].predict(changed), model.predict(changed))


@every_transformer
def test_hostile_samples(name):
    holes = X.copy()
    holes[3, 2, 5] = np.nan
    if name not in TAKES_NAN:
        with pytest.raises(ValueError, match="NaN"):
            fitted(name, holes)
        with pytest.raises(ValueError, match="NaN"):
            fitted(name).transform(holes, groups=GROUPS)
    with pytest.raises(ValueError, match=r"shape seen in fit, \(4, 30\)"):
        fitted(name).transform(X[:, :, :20], groups=GROUPS)
    constant = np.ones((6, *SHAPE))
    changed = clone(TRANSFORMERS[name]).fit(constant, Y[:6], groups=GROUPS[:6]).transform(constant, groups=GROUPS[:6])
    assert np.isfinite(changed).all()
    zeros = fitted(name).transform(np.zeros_like(X), groups=GROUPS)
    assert np.isfinite(zeros).all()
    one = clone(TRANSFORMERS[name]).fit(X[:1], Y[:1], groups=GROUPS[:1])
    assert np.isfinite(one.transform(X[:1], groups=GROUPS[:1])).all()


@pytest.mark.parametrize(
    "module", [one.name for one in pkgutil.iter_modules(tensormargin.transformers.representations.__path__)]
)
def test_examples_in_docstrings(module):
    result = doctest.testmod(importlib.import_module(f"tensormargin.transformers.representations.{module}"))
    assert result.failed == 0


def test_every_representation_has_its_line_here():
    kinds = {type(one).__name__ for one in TRANSFORMERS.values()} | {"Patches"}
    wing, package = tensormargin.transformers, "tensormargin.transformers.representations."
    public = {name for name in wing.__all__ if getattr(getattr(wing, name), "__module__", "").startswith(package)}
    assert kinds - {"AnovaMask"} == public  # which is one of the masks
    assert kinds <= set(tensormargin.__all__)


def test_the_page_runs():
    page = Path(__file__).parents[2] / "docs" / "representations.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 50
    assert result.failed == 0


def potentials(seed, n=120, channels=8, times=40):
    """Return mixed coloured sources, one of which has a bump at the same time in all samples of the second class."""
    rng, y = np.random.default_rng(seed), np.arange(n) % 2
    sources = lfilter([1.0], [1.0, -0.9], rng.standard_normal((n, channels, times + 20)), axis=2)[..., 20:]
    bump = np.exp(-0.5 * ((np.arange(times) - 20) / 4) ** 2)
    sources[:, 0] += 7.0 * y[:, None] * bump * rng.uniform(0.5, 1.5, (n, 1))
    return np.einsum("dc,nct->ndt", rng.standard_normal((channels, channels)), sources), y


def test_potentials_by_the_recipe_of_the_pages():
    """Covariances of filtered channels alone lose what is phase-locked; beside templates they do not."""
    recipes = {
        "without": make_pipeline(Xdawn(4), Covariances()),
        "templates": make_pipeline(Xdawn(4, templates=True), Covariances()),
        "filters": make_pipeline(Xdawn(4), TensorScaler(per=0)),
    }
    accuracies = {name: [] for name in recipes}
    for seed in range(4):
        X, y = potentials(seed)
        for name, steps in recipes.items():
            model = make_pipeline(clone(steps), TensorMarginClassifier("full")).fit(X[:80], y[:80])
            accuracies[name].append(model.score(X[80:], y[80:]))
    without, templates, filters = (np.mean(one) for one in accuracies.values())
    assert templates > max(without + 0.05, filters - 0.04), accuracies
    form = affine_form(make_pipeline(Xdawn(2, templates=True), TensorMarginClassifier("cp", 1)).fit(X, y))
    model = make_pipeline(Xdawn(2, templates=True), TensorMarginClassifier("cp", 1)).fit(X, y)
    np.testing.assert_allclose(form.scores(X)[:, 0], model.decision_function(X), rtol=1e-8, atol=1e-8)
