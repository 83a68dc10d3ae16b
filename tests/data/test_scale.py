"""Tests of the scale of samples in Python: another unit is refused unless the scores do not depend on it."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import low_rank_classes
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline

from tensormargin import (
    TensorMarginAutoClassifier,
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    TensorScaler,
    Views,
    any_scale,
    load_model,
    nested_evaluation,
    save_model,
)
from tensormargin.transformers import Connectome

FEW = {"decompositions": ("cp",), "ranks": (1,), "lams": (1,), "mus": (0,), "cv": 2, "random_state": 0}


@pytest.fixture(scope="module")
def volts():
    X, y = low_rank_classes(0, 40, (3, 30), 4.0)
    return 1e-6 * X, y


@pytest.mark.parametrize(
    "model",
    [
        TensorMarginClassifier("cp", 1, probability=True),
        TensorMarginClassifierCV(**FEW),
        TensorMarginAutoClassifier(**FEW),
        make_pipeline(TensorScaler(), TensorMarginClassifier("cp", 1, probability=True)),
    ],
    ids=["classifier", "search", "auto", "pipeline"],
)
def test_microvolts_for_volts_are_refused(model, volts, tmp_path):
    X, y = volts
    model.fit(X, y)
    for method in ("predict", "decision_function", "predict_proba"):
        getattr(model, method)(X)
        with pytest.raises(ValueError, match=r"scale of the training samples; .*Divide them by about 1e\+06"):
            getattr(model, method)(1e6 * X)
    if hasattr(model, "scale_in_"):  # a scaler in front leaves little of samples that are too small
        with pytest.raises(ValueError, match=r"Multiply them by about 1e\+06.*any_scale\(\).*--any-scale"):
            model.score(1e-6 * X[:3], y[:3])
    with any_scale():
        assert model.predict(1e6 * X).shape == y.shape
    save_model(tmp_path / "m.skops", model)
    again = load_model(tmp_path / "m.skops").model
    with pytest.raises(ValueError, match="must have the scale"):
        again.predict(1e6 * X)


def test_other_samples_of_the_same_unit_are_predicted(volts):
    """Brighter ones, few unusual ones, empty ones, and all where the scores do not depend on the scale."""
    X, y = volts
    model = TensorMarginClassifier("cp", 1).fit(X, y)
    for other in (5 * X, X[:2] / 50, 9 * X[:2], 0 * X, X.astype("f4"), X[:1]):
        model.predict(other)
    search = TensorMarginClassifierCV(preparation=Connectome("series"), **FEW).fit(X, y)
    np.testing.assert_array_equal(search.predict(1e6 * X), search.predict(X))
    views = Views(eeg=X, age=np.arange(40.0))
    model.fit(views, y)
    model.predict(views)
    with pytest.raises(ValueError, match=r"view 'eeg': the root mean square"):
        model.predict(Views(eeg=1e6 * X, age=np.arange(40.0)))


def test_evaluations_hold_out_persons_of_another_scale(volts):
    X, y = volts
    persons = np.arange(40) // 10
    X = X * np.array([1.0, 1.0, 1.0, 1000.0])[persons, None, None]
    nested = nested_evaluation(TensorMarginClassifierCV(**FEW), X, y, groups=persons, cv=4)
    assert nested.tested.all()
    with any_scale():
        assert np.isfinite(
            cross_val_score(TensorMarginClassifier("cp", 1), X, y, groups=persons, cv=GroupKFold(4))
        ).all()


def test_models_without_a_scale_predict_as_before(volts):
    """As those of files of version 0.2."""
    X, y = volts
    model = TensorMarginClassifier("cp", 1).fit(X, y)
    expected = model.predict(X)
    del model.scale_in_
    np.testing.assert_array_equal(model.predict(X), expected)
    model.predict(1e6 * X)
