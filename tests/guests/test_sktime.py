"""sktime: its containers of time series are samples; where it hands over flattened ones, Tensorize folds them back."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from tensormargin import EqualLength, Tensorize, TensorMarginClassifier
from tensormargin.intake import as_samples
from tensormargin.report import describe_model

pytest.importorskip("sktime", reason="needs sktime: pip install sktime")

from sktime.classification.compose import SklearnClassifierPipeline
from sktime.datatypes import convert_to
from sktime.transformations.panel.reduce import Tabularizer

Y = np.arange(20) % 2
X = np.random.default_rng(0).standard_normal((20, 3, 12)) + Y[:, None, None]


@pytest.mark.parametrize("kind", ["numpy3D", "nested_univ", "df-list"])
def test_containers_of_panels(kind):
    given = convert_to(X, kind)
    expected = X if kind != "df-list" else np.swapaxes(X, 1, 2)  # a frame of sktime is time x channels
    np.testing.assert_array_equal(as_samples(given), expected)
    model = TensorMarginClassifier("cp", 1).fit(given, Y)
    np.testing.assert_array_equal(model.predict(given), model.predict(expected))


@pytest.mark.parametrize("kind", ["nested_univ", "df-list"])
def test_series_of_different_lengths(kind):
    given = convert_to(X, kind)
    if kind == "df-list":
        given = [frame.iloc[: 8 + row % 5] for row, frame in enumerate(given)]
    else:
        given = given.apply(lambda row: row.map(lambda cell: cell.iloc[: 8 + row.name % 5]), axis=1)
    with pytest.raises(ValueError, match="8 to 12 long"):
        TensorMarginClassifier().fit(given, Y)
    step = EqualLength(mode=0 if kind == "df-list" else -1)
    model = make_pipeline(step, TensorMarginClassifier("cp", 1)).fit(given, Y)
    assert model.score(given, Y) > 0.8


def test_samples_that_were_flattened_are_folded_back():
    flat = SklearnClassifierPipeline(TensorMarginClassifier("cp", 1), [Tabularizer()]).fit(X, Y)
    assert "vectors, so the weight is flat" in describe_model(flat.classifier_)
    folded = make_pipeline(Tensorize((3, 12)), TensorMarginClassifier("cp", 1))
    model = SklearnClassifierPipeline(folded, [Tabularizer()]).fit(X, Y)
    assert model.classifier_[-1].sample_shape_ == (3, 12)
    plain = TensorMarginClassifier("cp", 1).fit(X, Y)
    np.testing.assert_allclose(model.classifier_[-1].coef_, plain.coef_, rtol=1e-6)
