"""shap: explanations of predictions.

`LinearExplainer` takes vectors only. It reads `coef_` and `intercept_` of the classifier, or of the search, where they
refer to the original samples. Its values add up to the scores of the binary problems, in the order of `problems_`. For
samples with more modes, and for whole pipelines, pass it the affine form of the model.
"""

from __future__ import annotations

import numpy as np
import pytest

shap = pytest.importorskip("shap", reason="needs shap: pip install shap")

from sklearn.preprocessing import StandardScaler

from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV

SEARCH = TensorMarginClassifierCV(("cp", "full"), (1,), (1,), (0,), cv=2, random_state=0, preparation=StandardScaler())


@pytest.fixture(scope="module")
def vectors():
    X = np.random.default_rng(0).normal(3, 2, (60, 12))
    X[30:, :4] += 2
    return X, np.repeat([0, 1], 30)


def test_tables_as_in_its_documentation(vectors):
    X, y = vectors
    X_new = X[:7]
    # page: Here `X` and `X_new` are tables:
    import shap

    from tensormargin import TensorMarginClassifier

    clf = TensorMarginClassifier("full").fit(X, y)
    explanation = shap.LinearExplainer(clf, X)(X_new)
    # page ends
    np.testing.assert_allclose(
        explanation.values.sum(axis=1) + explanation.base_values, clf.decision_function(X_new), rtol=1e-6
    )


def test_tensors_are_explained_by_the_affine_form(vectors):
    X, y = vectors[0].reshape(60, 3, 4), vectors[1]
    X_new = X[:5]
    # page: Samples with several modes, through all steps of a model:
    import shap
    from sklearn.pipeline import make_pipeline

    from tensormargin import TensorMarginClassifier, TensorScaler, affine_form

    model = make_pipeline(TensorScaler(), TensorMarginClassifier("cp", rank=1)).fit(X, y)
    weights, offsets = affine_form(model)
    explainer = shap.LinearExplainer((weights[0].ravel(), offsets[0]), X.reshape(len(X), -1))
    explanation = explainer(X_new.reshape(len(X_new), -1))
    values = explanation.values.reshape(X_new.shape)
    # page ends
    # shap itself refuses samples with several modes; which error it raises depends on its version
    with pytest.raises((NotImplementedError, ValueError)):
        shap.LinearExplainer(model[-1], X)(X_new)
    np.testing.assert_allclose(
        values.sum(axis=(1, 2)) + explanation.base_values, model.decision_function(X_new), rtol=1e-6
    )


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
