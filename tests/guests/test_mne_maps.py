"""Weights and patterns in MNE: its transformers before our classifiers, and its ways to read coefficients."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

mne = pytest.importorskip("mne", reason="needs MNE: pip install mne")

from mne.decoding import LinearModel, Scaler, SlidingEstimator, Vectorizer, get_coef  # noqa: E402

from tensormargin import (  # noqa: E402
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    activation_pattern,
    affine_form,
    load_model,
    margin_report,
    save_model,
    weight_maps,
)
from tensormargin.model_steps import sample_shape  # noqa: E402

CHANNELS, TIMES = 4, 6


def search(**parameters):
    return TensorMarginClassifierCV(("cp", "full"), (1,), (1,), (0,), cv=2, random_state=0, **parameters)


@pytest.fixture(scope="module")
def epochs():
    rng = np.random.default_rng(0)
    y = np.repeat([1, 2], 20)
    X = 1e-6 * (rng.normal(size=(40, CHANNELS, TIMES)) + 5 * np.arange(CHANNELS)[:, None])
    X[y == 2, 1:3, 2:4] += 1e-6
    return X, y


INFO = mne.create_info(CHANNELS, 100.0, "eeg")
STEPS = {
    "scaled by type": [Scaler(INFO)],
    "by the mean": [Scaler(scalings="mean")],
    "only centred": [Scaler(scalings="mean", with_std=False)],
    "by the median": [Scaler(scalings="median"), Vectorizer()],
    "vectors": [Vectorizer(), StandardScaler()],
    "both": [Scaler(scalings="mean"), Vectorizer(), StandardScaler()],
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("last", [TensorMarginClassifier("full"), search(), LinearModel(search())], ids=type)
def test_weights_go_back_through_transformers(steps, last, epochs):
    X, y = epochs
    flattened = [] if any(isinstance(step, Vectorizer) for step in steps) else [Vectorizer()]
    model = make_pipeline(*steps, *(flattened if isinstance(last, LinearModel) else []), last).fit(X, y)
    form = affine_form(model)
    np.testing.assert_allclose(form.scores(X)[:, 0], model.decision_function(X), rtol=1e-6, atol=1e-8)
    assert sample_shape(model) == (CHANNELS, TIMES)
    assert weight_maps(model).shape == activation_pattern(model, X, y).shape == (1, CHANNELS, TIMES)
    assert margin_report(model, X, y).n_samples == 40


def test_models_with_transformers_are_saved(epochs, tmp_path):
    X, y = epochs
    model = make_pipeline(Scaler(scalings="mean"), Vectorizer(), LinearModel(TensorMarginClassifier("full"))).fit(X, y)
    save_model(tmp_path / "model.skops", model)
    np.testing.assert_array_equal(load_model(tmp_path / "model.skops").model.predict(X), model.predict(X))
    with pytest.raises(TypeError, match=r"step 'scaler' \(Scaler\) holds .*Info"):
        save_model(tmp_path / "info.skops", make_pipeline(Scaler(INFO), TensorMarginClassifier()).fit(X, y))


def test_linear_models_have_filters_and_patterns(epochs):
    X, y = epochs
    model = make_pipeline(Vectorizer(), StandardScaler(), LinearModel(search()))
    model.fit(X, y)
    np.testing.assert_array_equal(model[-1].filters_, model[-1].model_.coef_[0])
    for attribute in ("filters_", "patterns_"):
        assert get_coef(model, attribute, inverse_transform=False).shape == (CHANNELS * TIMES,)
    theirs = get_coef(model, "patterns_") * model[1].scale_  # in the samples' own unit, up to the variance of the score
    ours = activation_pattern(model, X)[0].ravel()
    np.testing.assert_allclose(ours / np.linalg.norm(ours), theirs / np.linalg.norm(theirs), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("model", [TensorMarginClassifier("cp", 1), search()], ids=type)
def test_coefficients_are_found(model, epochs):
    X, y = epochs
    np.testing.assert_array_equal(get_coef(model.fit(X, y), "coef_"), model.coef_)
    sliding = SlidingEstimator(search(), scoring="accuracy", verbose=False)
    with mne.utils.use_log_level("error"):
        sliding.fit(1e6 * X, y)
    assert get_coef(sliding, "coef_").shape[-1] == TIMES
