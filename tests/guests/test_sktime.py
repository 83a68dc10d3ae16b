"""sktime: pipelines for time series.

sktime's panels (`numpy3D`, `pd-multiindex`, nested frames, lists of frames) are samples, channels × time; in a list of
frames they are time × channels. Series may differ in length where the first step is `EqualLength`, and in
`TensorMarginAutoClassifier`.
Pipelines that end in a scikit-learn classifier flatten panels silently, and the weight is then flat.
`Tensorize((channels, times))` before the classifier folds them back, in `SklearnClassifierPipeline` and in
`TSCGridSearchCV`.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sktime", reason="needs sktime: pip install sktime")

from sklearn.pipeline import make_pipeline
from sktime.classification.compose import SklearnClassifierPipeline
from sktime.datatypes import convert_to
from sktime.transformations.panel.reduce import Tabularizer

from tensormargin import EqualLength, Tensorize, TensorMarginAutoClassifier, TensorMarginClassifier
from tensormargin.data import as_samples
from tensormargin.report import describe_model

Y = np.arange(20) % 2
X = np.random.default_rng(0).standard_normal((20, 3, 12)) + Y[:, None, None]


@pytest.mark.parametrize("kind", ["numpy3D", "nested_univ", "pd-multiindex", "df-list"])
def test_containers_of_panels(kind):
    given = convert_to(X, kind)
    expected = X if kind != "df-list" else np.swapaxes(X, 1, 2)  # a frame of sktime is time x channels
    np.testing.assert_array_equal(as_samples(given), expected)
    model = TensorMarginClassifier("cp", 1).fit(given, Y)
    np.testing.assert_array_equal(model.predict(given), model.predict(expected))


@pytest.mark.parametrize("kind", ["nested_univ", "pd-multiindex", "df-list"])
def test_series_of_different_lengths(kind):
    given = convert_to(X, kind)
    if kind == "df-list":
        given = [frame.iloc[: 8 + row % 5] for row, frame in enumerate(given)]
    elif kind == "pd-multiindex":
        given = shortened(given)
    else:
        given = given.apply(lambda row: row.map(lambda cell: cell.iloc[: 8 + row.name % 5]), axis=1)
    with pytest.raises(ValueError, match="8 to 12 long"):
        TensorMarginClassifier().fit(given, Y)
    step = EqualLength(mode=0 if kind == "df-list" else -1)
    model = make_pipeline(step, TensorMarginClassifier("cp", 1)).fit(given, Y)
    assert model.score(given, Y) > 0.8


def shortened(frame):
    """Return a panel whose series have 8 to 12 times."""
    rows, times = (frame.index.get_level_values(level) for level in (0, 1))
    return frame[times < 8 + rows % 5]


@pytest.mark.parametrize("unequal", [False, True])
def test_panels_in_the_classifier_to_begin_with(unequal):
    frame = convert_to(X, "pd-multiindex")
    frame.columns = ["x", "y", "z"]
    frame = shortened(frame) if unequal else frame
    model = TensorMarginAutoClassifier(lams=(1,), mus=(0,), cv=2, random_state=0).fit(frame, Y)
    assert model.kind_ == "series"
    assert model.score(frame, Y) > 0.8
    assert model.axes_in_[0].values.tolist() == ["x", "y", "z"]
    series = [X[row][:, : 8 + row % 5] if unequal else X[row] for row in range(20)]
    np.testing.assert_array_equal(model.predict(frame), model.predict(series))
    np.testing.assert_array_equal(model.predict(frame[["x", "z", "y"]]), model.predict(frame))
    with pytest.raises(ValueError, match="channel"):
        model.predict(frame[["x", "z"]])


def test_rows_of_panels_are_in_the_order_of_time():
    frame = convert_to(X, "pd-multiindex")
    with pytest.raises(ValueError, match=r"order of time; those of 0 are not.*sort_index"):
        as_samples(frame[::-1].sort_index(level=0, sort_remaining=False))
    table = frame.groupby(level=0).head(1)  # one row per instance: a table of vectors, as before
    assert as_samples(table) is table


def test_samples_that_were_flattened_are_folded_back():
    flat = SklearnClassifierPipeline(TensorMarginClassifier("cp", 1), [Tabularizer()]).fit(X, Y)
    assert "vectors, so the weight is flat" in describe_model(flat.classifier_)
    folded = make_pipeline(Tensorize((3, 12)), TensorMarginClassifier("cp", 1))
    model = SklearnClassifierPipeline(folded, [Tabularizer()]).fit(X, Y)
    assert model.classifier_[-1].sample_shape_ == (3, 12)
    plain = TensorMarginClassifier("cp", 1).fit(X, Y)
    np.testing.assert_allclose(model.classifier_[-1].coef_, plain.coef_, rtol=1e-6)


def test_pipelines_as_in_its_tutorials():
    y, X_new = Y, X
    # page: Samples with 3 channels and 12 time points; `*` creates a `SklearnClassifierPipeline`:
    import numpy as np
    from sklearn.pipeline import make_pipeline
    from sktime.transformations.series.func_transform import FunctionTransformer

    from tensormargin import Tensorize, TensorMarginClassifier

    folded = make_pipeline(Tensorize((3, 12)), TensorMarginClassifier("cp", rank=1, probability=True))
    model = FunctionTransformer(np.tanh) * folded
    model.fit(X, y).predict_proba(X_new)
    # page ends
    assert model.classifier_[-1].sample_shape_ == (3, 12)
    assert model.score(X, y) > 0.8
    np.testing.assert_allclose(model.predict_proba(X_new), model.classifier_.predict_proba(np.tanh(X.reshape(20, -1))))


def test_searches():
    from sktime.classification.model_selection import TSCGridSearchCV

    folded = make_pipeline(Tensorize((3, 12)), TensorMarginClassifier("cp", 1))
    model = SklearnClassifierPipeline(folded, [Tabularizer()])
    search = TSCGridSearchCV(model, {"classifier__tensormarginclassifier__lam": [0.1, 1]}, cv=2).fit(X, Y)
    assert search.best_score_ > 0.7
