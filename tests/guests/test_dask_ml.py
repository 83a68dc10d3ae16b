"""dask-ml: predictions in parallel, and searches.

`ParallelPostFit` around a classifier can be cloned, pickled and fitted, and predicts NumPy arrays with any number of
modes. Its `predict`, `predict_proba` and `transform` of Dask arrays are for tables only: to determine the output type,
dask-ml calls the model with one sample whose shape is the size of the first mode, and it assumes that exactly one axis
is dropped. Either use the classifier without the wrapper, which takes Dask arrays and predicts chunk by chunk (see
[cluster.md](cluster.md)), or flatten the array and put `Tensorize(shape)` first.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest

REASON = "needs dask-ml: pip install dask-ml"
pytest.importorskip("dask_ml", reason=REASON)
wrappers = pytest.importorskip("dask_ml.wrappers", reason=REASON)

import dask
import dask.array as da
from conftest import low_rank_classes
from sklearn.base import clone

from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV

SHAPE = (4, 5)
X, SIGNS = low_rank_classes(0, 30, SHAPE, 4.0)
Y = np.where(SIGNS > 0, "yes", "no")
MODELS = [
    TensorMarginClassifier("cp", 1, probability=True, random_state=0),
    TensorMarginClassifierCV(("cp", "full"), (1,), (1,), (1,), cv=2, random_state=0),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=type)


@pytest.fixture(autouse=True)
def here():
    """Use Dask without a cluster."""
    with dask.config.set(scheduler="synchronous"):
        yield


def chunked(array):
    return da.from_array(array, chunks=(10, *array.shape[1:]))


@every_model
@pytest.mark.parametrize("samples", [X, X.reshape(30, -1)], ids=["matrices", "vectors"])
def test_clones_and_pickles(model, samples):
    wrapped = wrappers.ParallelPostFit(clone(model)).fit(samples, Y)
    plain = clone(model).fit(samples, Y)
    for one in (wrapped, clone(wrapped).fit(samples, Y), pickle.loads(pickle.dumps(wrapped))):
        np.testing.assert_array_equal(one.predict(samples), plain.predict(samples))
        np.testing.assert_array_equal(one.predict_proba(samples), plain.predict_proba(samples))
    assert wrapped.score(samples, Y) == plain.score(samples, Y)
    lazily = clone(wrapped).fit(chunked(samples), Y)
    assert np.mean(lazily.predict(samples) == plain.predict(samples)) > 0.9


@every_model
def test_tables_are_predicted_lazily(model):
    table = X.reshape(30, -1)
    wrapped = wrappers.ParallelPostFit(clone(model)).fit(table, Y)
    lazy = wrapped.predict(chunked(table))
    assert isinstance(lazy, da.Array)
    np.testing.assert_array_equal(lazy.compute(), wrapped.predict(table))
    np.testing.assert_allclose(wrapped.predict_proba(chunked(table)).compute(), wrapped.predict_proba(table))
    np.testing.assert_allclose(
        wrapped.predict_log_proba(chunked(table)).compute(), wrapped.estimator.predict_log_proba(table)
    )


def test_tensors_are_predicted_lazily_another_way():
    y, X_new = Y, chunked(X)
    # page: Here `X_new` is a Dask array of shape (samples, 4, 5):
    from dask_ml.wrappers import ParallelPostFit
    from sklearn.pipeline import make_pipeline

    from tensormargin import Tensorize, TensorMarginClassifier

    clf = TensorMarginClassifier("cp", rank=1, probability=True).fit(X, y)
    lazy = clf.predict_proba(X_new)  # a Dask array, nothing is computed yet

    folded = make_pipeline(Tensorize((4, 5)), TensorMarginClassifier("cp", rank=1, probability=True))
    wrapped = ParallelPostFit(folded).fit(X.reshape(len(X), -1), y)
    same = wrapped.predict_proba(X_new.reshape(len(X_new), -1))
    # page ends
    assert isinstance(lazy, da.Array)
    np.testing.assert_allclose(lazy.compute().sum(axis=1), 1)
    np.testing.assert_array_equal(same.compute().argmax(axis=1), lazy.compute().argmax(axis=1))


def test_the_page_is_right_about_tensors_in_dask_arrays():
    wrapped = wrappers.ParallelPostFit(clone(MODELS[0])).fit(X, Y)
    with pytest.raises(ValueError, match=r"the shape seen in fit, \(4, 5\); got \(4,\)"):
        wrapped.predict(chunked(X))


def test_searches():
    y = Y
    # page: Searches accept any number of modes:
    from dask_ml.model_selection import GridSearchCV

    from tensormargin import TensorMarginClassifier

    search = GridSearchCV(TensorMarginClassifier("cp", rank=1), {"lam": [0.1, 1, 10]}, cv=3).fit(X, y)
    search.best_params_
    # page ends
    assert search.score(X, y) > 0.8
    assert search.best_estimator_.sample_shape_ == SHAPE
