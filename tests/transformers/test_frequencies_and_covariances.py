"""Tests of band power and covariances against SciPy, scikit-learn and their definitions."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.linalg import logm
from scipy.signal import butter, periodogram, sosfiltfilt, welch
from scipy.signal.windows import dpss
from sklearn.covariance import ledoit_wolf, oas
from sklearn.pipeline import make_pipeline

from tensormargin import TensorMarginClassifier, to_device
from tensormargin.transformers import BandPower, Covariances
from tensormargin.transformers.representations.covariances import logarithms, riemannian_mean

RATE = 128.0


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return 2 + np.cumsum(rng.standard_normal((8, 5, 512)), axis=1)


def test_the_power_of_the_eegs_bands_is_welchs(X):
    step = BandPower("eeg", sfreq=RATE).fit(X)
    frequencies, spectrum = welch(X, RATE, nperseg=512)  # two periods of half a hertz
    assert [name for name, _, _ in step.bands_] == ["delta", "theta", "alpha", "beta", "gamma"]
    for k, (_, low, high) in enumerate(step.bands_):
        expected = spectrum[..., (frequencies >= low) & (frequencies < high)].mean(axis=-1)
        np.testing.assert_allclose(step.transform(X)[..., k], np.log(expected), rtol=1e-10)
    np.testing.assert_allclose(step.transform(3 * X), step.transform(X) + 2 * np.log(3), rtol=1e-8)


def test_the_multitaper_spectrum_averages_scipys_periodograms(X):
    step = BandPower([(10, 20)], sfreq=RATE, method="multitaper", log=False).fit(X)
    frequencies = np.fft.rfftfreq(512, 1 / RATE)
    tapered = [periodogram(X, RATE, taper)[1] for taper in dpss(512, 4, 7)]
    expected = np.mean(tapered, axis=0)[..., (frequencies >= 10) & (frequencies < 20)].mean(axis=-1)
    np.testing.assert_allclose(step.transform(X)[..., 0], expected, rtol=1e-10)


@pytest.mark.parametrize("method", ["welch", "multitaper"])
def test_windows_have_spectra_of_their_own(X, method):
    step = BandPower(6, n_windows=3, method=method).fit(X)
    changed = step.transform(X)
    assert changed.shape == (8, 5, 6, 3)
    for window in range(3):
        part = X[..., 170 * window : 170 * (window + 1)]
        alone = BandPower(6, method=method).fit(part).transform(part)
        np.testing.assert_allclose(changed[..., window], alone, rtol=1e-8)


def test_time_may_be_any_mode(X):
    turned = np.moveaxis(X, 2, 1)
    expected = BandPower(6, n_windows=2).fit_transform(X)
    np.testing.assert_allclose(BandPower(6, n_windows=2, mode=0).fit_transform(turned), np.moveaxis(expected, 1, 3))
    np.testing.assert_allclose(
        BandPower(6, mode=0).fit_transform(turned), np.moveaxis(BandPower(6).fit_transform(X), 1, 2)
    )


@pytest.mark.parametrize("size", [2, 3, 9, 50, 300])
@pytest.mark.parametrize("bands", [1, 5, 40])
def test_log_spaced_bands_take_every_frequency_once(size, bands):
    X = np.random.default_rng(0).standard_normal((3, size))
    step = BandPower(bands).fit(X)
    assert 1 <= len(step.bands_) <= bands
    frequencies = np.fft.rfftfreq(min(size, 256))
    counts = [np.sum((frequencies >= low) & (frequencies < high)) for _, low, high in step.bands_]
    assert min(counts) >= 1
    assert sum(counts) == len(frequencies) - 1  # all but the constant


def test_frequencies_separate_what_has_no_mean():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    time = np.arange(256) / RATE
    phase = rng.uniform(0, 2 * np.pi, (120, 4, 1))
    X = np.sin(2 * np.pi * (10 + 4 * y)[:, None, None] * time + phase) + 2 * rng.standard_normal((120, 4, 256))
    train, test = slice(0, 60), slice(60, 120)
    raw = TensorMarginClassifier("cp", 1).fit(X[train], y[train])
    model = make_pipeline(BandPower(24, sfreq=RATE), TensorMarginClassifier("cp", 1)).fit(X[train], y[train])
    assert raw.score(X[test], y[test]) < 0.7
    assert model.score(X[test], y[test]) > 0.95


def test_a_silent_channel_is_weak_but_not_infinitely(X):
    step = BandPower(4).fit(X)
    X[0, 2] = 1.0
    changed = step.transform(X)
    assert np.isfinite(changed).all()
    assert changed[0, 2].max() < changed[1:, 2].min()


@pytest.mark.parametrize(("name", "theirs"), [("ledoit-wolf", ledoit_wolf), ("oas", oas)])
def test_covariances_are_scikit_learns(X, name, theirs):
    expected = np.stack([theirs(one.T)[0] for one in X])
    np.testing.assert_allclose(Covariances(metric="none", shrinkage=name).fit_transform(X), expected, rtol=1e-9)
    logs = np.stack([logm(one) for one in expected])
    np.testing.assert_allclose(Covariances(shrinkage=name).fit_transform(X), logs, rtol=1e-8, atol=1e-9)
    turned = np.moveaxis(X, 1, 2)
    np.testing.assert_allclose(Covariances(1, shrinkage=name).fit_transform(turned), logs, rtol=1e-8, atol=1e-9)
    folded = X.reshape(8, 5, 16, 32)
    np.testing.assert_allclose(Covariances(shrinkage=name).fit_transform(folded), logs, rtol=1e-8, atol=1e-9)


def test_the_riemannian_mean_is_where_logarithms_cancel(X):
    matrices = Covariances(metric="none").fit_transform(X)
    mean = riemannian_mean(matrices)
    tangent = Covariances(metric="tangent").fit(X)
    np.testing.assert_allclose(tangent.reference_[0], mean)
    np.testing.assert_allclose(tangent.transform(X).mean(axis=0), 0.0, atol=1e-9)
    mixing = np.random.default_rng(1).standard_normal((5, 5))
    turned = riemannian_mean(mixing @ matrices @ mixing.T)
    np.testing.assert_allclose(turned, mixing @ mean @ mixing.T, rtol=1e-7)  # it does not depend on the sensors


def test_the_mean_of_commuting_matrices_is_geometric():
    values = np.random.default_rng(0).uniform(0.1, 10, (6, 3))
    found = riemannian_mean(np.stack([np.diag(one) for one in values]))
    np.testing.assert_allclose(found, np.diag(np.exp(np.log(values).mean(axis=0))), atol=1e-9)


def test_the_tangent_space_does_not_depend_on_linear_mixing(X):
    """Distances in the tangent space are the same for any invertible mixture of the channels, without shrinkage."""
    mixing = np.random.default_rng(1).standard_normal((5, 5))
    one, other = (
        Covariances(metric="tangent", shrinkage=0.0, vectorize=True).fit_transform(given)
        for given in (X, np.einsum("dc,nct->ndt", mixing, X))
    )
    distances = [np.linalg.norm(found[0] - found[1:], axis=1) for found in (one, other)]
    np.testing.assert_allclose(*distances, rtol=1e-6)


@pytest.mark.parametrize("metric", ["log", "tangent", "none"])
def test_a_flat_weight_is_the_same_on_matrices_and_on_triangles(X, metric):
    y = np.arange(8) % 2
    matrices, vectors = (
        make_pipeline(Covariances(metric=metric, vectorize=vectorize), TensorMarginClassifier("full")).fit(X, y)
        for vectorize in (False, True)
    )
    assert vectors[0].sample_shape_out_ == (15,)
    np.testing.assert_allclose(matrices.decision_function(X), vectors.decision_function(X), rtol=1e-4, atol=1e-5)
    weight = matrices[-1].coef_[0]
    np.testing.assert_allclose(weight, weight.T, atol=1e-9 * np.abs(weight).max())


def test_bands_are_filtered_before(X):
    step = Covariances(metric="none", bands=["alpha", (20, 64.0)], sfreq=RATE, shrinkage=0.1)
    changed = step.fit_transform(X)
    assert changed.shape == (8, 5, 5, 2)
    alpha = sosfiltfilt(butter(4, (8 / 64, 13 / 64), "band", output="sos"), X, axis=-1)
    expected = np.stack([np.cov(one, bias=True) for one in alpha])
    expected = 0.9 * expected + 0.1 * np.trace(expected, axis1=1, axis2=2)[:, None, None] / 5 * np.eye(5)
    np.testing.assert_allclose(changed[..., 0], expected, rtol=1e-6, atol=1e-9)


@pytest.mark.torch
@pytest.mark.parametrize(
    "step", [BandPower("eeg", RATE), Covariances(metric="tangent", bands="eeg", sfreq=RATE)], ids=repr
)
def test_fitted_steps_move_to_another_library(step, X):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    step.fit(X)
    given = torch.asarray(X)
    np.testing.assert_allclose(to_device(step, given).transform(given).numpy(), step.transform(X), rtol=1e-9)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (BandPower("eeg"), "need the sampling frequency of the samples; got sfreq=None"),
        (BandPower([(1, 4)]), "Pass sfreq"),
        (Covariances(bands="eeg"), "got sfreq=None and bands='eeg'"),
        (BandPower("eeg", 64.0), "half the sampling frequency, 32 Hz, or below; got gamma (30 to 45 Hz) with sfreq=64"),
        (Covariances(bands=[(10, 70)], sfreq=RATE), "64 Hz, or below; got 10-70 Hz"),
        (BandPower([(4, 1)], RATE), "limits 0 <= low < high in Hz; got 4-1 Hz"),
        (BandPower(["omega"], RATE), "names of delta, theta, alpha, beta, gamma"),
        (BandPower([], RATE), "at least one; got bands=[]"),
        (BandPower([(1, 2, 3)], RATE), "pairs (low, high) in Hz"),
        (BandPower({"a": 3}, RATE), "got bands={'a': 3}"),
        (BandPower(None, RATE), "got bands=None"),
        (BandPower([(10.1, 10.2)], RATE), "one every 0.5 Hz for windows of 2 s; got 10.1-10.2 Hz"),
        (BandPower(0), "bands must be a whole number of at least 1; got bands=0"),
        (BandPower(4, -1.0), "sfreq must be a finite number above 0; got sfreq=-1.0"),
        (BandPower("eeg", np.nan), "got sfreq=nan"),
        (BandPower(4, mode="time"), "one of the 2 modes of the samples, from -2 to 1; got mode='time'"),
        (BandPower(4, method="fft"), 'method must be "welch" or "multitaper"; got method=\'fft\''),
        (
            BandPower(4, segment=1000),
            "segment must be a whole number from 2 to 512 entries of a window; got segment=1000",
        ),
        (BandPower(4, n_windows=400), "got n_windows=400"),
        (Covariances(2), "from -2 to 1; got mode=2"),
        (Covariances(metric="riemann"), 'metric must be "log", "tangent" or "none"; got metric=\'riemann\''),
        (Covariances(shrinkage=-1), "got shrinkage=-1"),
        (Covariances(bands="eeg", sfreq=RATE, time=0), "time and channels must be two modes"),
    ],
    ids=repr,
)
def test_parameters_that_cannot_be(step, words, X):
    with pytest.raises(ValueError, match=re.escape(words)):
        step.fit(X)


def test_logarithms_of_many_matrices(X):
    matrices = Covariances(metric="none").fit_transform(X)
    np.testing.assert_allclose(logarithms(matrices), [logm(one) for one in matrices], rtol=1e-8, atol=1e-10)
