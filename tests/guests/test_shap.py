"""Explanations of shap for our classifiers and for whole models."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

shap = pytest.importorskip("shap", reason="needs shap: pip install shap")

from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV, affine_form  # noqa: E402
from tensormargin.preparation import TensorScaler  # noqa: E402

SEARCH = TensorMarginClassifierCV(("cp", "full"), (1,), (1,), (0,), cv=2, random_state=0, preparation=StandardScaler())


@pytest.fixture(scope="module")
def vectors():
    X = np.random.default_rng(0).normal(3, 2, (60, 12))
    X[30:, :4] += 2
    return X, np.repeat([0, 1], 30)


@pytest.mark.parametrize("model", [TensorMarginClassifier("full"), SEARCH], ids=type)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_linear_explanations_add_up_to_the_scores(model, n_classes, vectors):
    X, y = vectors
    y = y if n_classes == 2 else np.arange(60) % 3
    model.fit(X, y)
    explainer = shap.LinearExplainer(model, X)
    values = explainer(X[:7])
    total = values.values.sum(axis=1) + values.base_values
    np.testing.assert_allclose(total.reshape(7, -1), model.binary_scores(X[:7]), rtol=1e-6, atol=1e-6)


def test_whole_models_are_explained_by_their_affine_form(vectors):
    X, y = vectors[0].reshape(60, 3, 4), vectors[1]
    model = make_pipeline(TensorScaler(), TensorMarginClassifier("cp", 1)).fit(X, y)
    form = affine_form(model)
    flat = X.reshape(60, -1)
    explainer = shap.LinearExplainer((form.weights[0].ravel(), form.offsets[0]), flat)
    values = explainer(flat[:5])
    np.testing.assert_allclose(
        values.values.sum(axis=1) + values.base_values, model.decision_function(X[:5]), rtol=1e-6
    )
