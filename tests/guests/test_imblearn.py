"""imbalanced-learn: samplers for rare classes.

Samplers act in `fit` and do nothing when predicting, so weights, patterns and reports pass through them. They take
vectors only: flatten before them and fold back after them. `class_weight="balanced"` needs no sampler: it weights
classes inversely to their frequency.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("imblearn", reason="needs imbalanced-learn: pip install imbalanced-learn")

from imblearn.combine import SMOTETomek
from imblearn.over_sampling import SMOTE, RandomOverSampler
from imblearn.pipeline import make_pipeline
from imblearn.under_sampling import RandomUnderSampler
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from tensormargin import (
    Tensorize,
    TensorMarginClassifier,
    activation_pattern,
    affine_form,
    load_model,
    margin_report,
    save_model,
    weight_maps,
)
from tensormargin.inspection import ModelChain, fit_model

SAMPLERS = [
    RandomOverSampler(random_state=0),
    RandomUnderSampler(random_state=0),
    SMOTE(random_state=0),
    SMOTETomek(random_state=0),
]


@pytest.fixture(scope="module")
def imbalanced():
    rng = np.random.default_rng(0)
    y = (np.arange(60) < 15).astype(int)
    return rng.normal(3, 2, (60, 20)) + 2 * y[:, None] * (np.arange(20) < 6), y


@pytest.mark.parametrize("sampler", SAMPLERS, ids=type)
def test_models_with_samplers(sampler, imbalanced, tmp_path):
    X, y = imbalanced
    model = make_pipeline(StandardScaler(), sampler, Tensorize((4, 5)), TensorMarginClassifier("cp", 1))
    theirs, ours = clone(model).fit(X, y), fit_model(clone(model), X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), rtol=1e-6)
    assert [type(step).__name__ for step in ModelChain.of(theirs).steps] == ["StandardScaler", "Tensorize"]
    np.testing.assert_allclose(affine_form(theirs).scores(X)[:, 0], theirs.decision_function(X), rtol=1e-6)
    assert weight_maps(theirs).shape == activation_pattern(theirs, X, y).shape == (1, 20)
    assert margin_report(theirs, X, y).n_samples == 60
    with pytest.raises(TypeError, match=r"imblearn\.pipeline\.Pipeline\. Save it with joblib yourself"):
        save_model(tmp_path / "model.skops", theirs)
    steps = [step for step in theirs.steps if not hasattr(step[1], "fit_resample")]  # the others predict
    save_model(tmp_path / "model.skops", Pipeline(steps))
    np.testing.assert_array_equal(load_model(tmp_path / "model.skops").model.predict(X), theirs.predict(X))


def test_tensors_are_flattened_and_folded_back(imbalanced):
    X, y = imbalanced[0].reshape(60, 4, 5), imbalanced[1]
    # page: SMOTE on samples of shape (4, 5):
    from imblearn.over_sampling import SMOTE
    from imblearn.pipeline import make_pipeline

    from tensormargin import Tensorize, TensorMarginClassifier

    model = make_pipeline(Tensorize((-1,)), SMOTE(random_state=0), Tensorize((4, 5)), TensorMarginClassifier("cp"))
    model.fit(X, y)
    # page ends
    assert model[-1].sample_shape_ == (4, 5)
    assert weight_maps(model).shape == (1, 4, 5)
    np.testing.assert_allclose(affine_form(model).scores(X)[:, 0], model.decision_function(X), rtol=1e-6)
    for sampler in SAMPLERS:
        with pytest.raises(ValueError, match="dim 3"):
            sampler.fit_resample(X, y)


def test_ensembles_with_balanced_samples(imbalanced):
    from imblearn.ensemble import BalancedBaggingClassifier

    X, y = imbalanced
    folded = make_pipeline(Tensorize((4, 5)), TensorMarginClassifier("cp", 1))
    assert BalancedBaggingClassifier(folded, n_estimators=2, random_state=0).fit(X, y).score(X, y) > 0.7


def test_groups_follow_samples_that_are_taken_as_they_are(imbalanced):
    X, y = imbalanced
    groups = np.arange(60) % 6
    last = TensorMarginClassifier("full")
    fit_model(make_pipeline(RandomUnderSampler(random_state=0), last), X, y, groups)
    with pytest.raises(ValueError, match=r"SMOTE makes new samples.*RandomOverSampler"):
        fit_model(make_pipeline(SMOTE(random_state=0), last), X, y, groups)


def test_searches_over_pipelines_with_samplers(imbalanced):
    X, y = imbalanced
    model = make_pipeline(RandomOverSampler(random_state=0), TensorMarginClassifier("full"))
    search = GridSearchCV(model, {"tensormarginclassifier__mu1": [0.0, 1.0]}, cv=2).fit(X, y)
    np.testing.assert_allclose(affine_form(search).scores(X)[:, 0], search.decision_function(X), rtol=1e-6)
