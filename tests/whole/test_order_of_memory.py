"""Results do not depend on how samples lie in memory: in C or Fortran order, with gaps, backwards, or read-only."""

from __future__ import annotations

import inspect
import warnings
from functools import cache

import numpy as np
import pytest
from campaigns.every_class import LAST, SMALL, _classifiers, _steps, samples
from conftest import fewer_folds
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV

import tensormargin
from tensormargin import (
    SampleSet,
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    Views,
    ViewTransformer,
    activation_pattern,
    fit_many,
    margin_report,
    nested_evaluation,
    permutation_test,
    transformers,
    view_shares,
)
from tensormargin.data import TrainingRecord, fingerprint
from tensormargin.data.leakage import duplicate_samples
from tensormargin.data.sample_summaries import grid_of, summaries
from tensormargin.datasets import standardise_runs
from tensormargin.evaluation import data_facts
from tensormargin.io import digest, load_samples
from tensormargin.transformers import resize

X, Y = samples()


def with_gaps(array):
    wide = np.full((2 * array.shape[0], *array.shape[1:-1], 3 * array.shape[-1]), np.nan, array.dtype)
    wide[::2, ..., 1::3] = array
    return wide[::2, ..., 1::3]


def backwards(array):
    return np.ascontiguousarray(array[::-1, ..., ::-1])[::-1, ..., ::-1]


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


LAYOUTS = [np.asfortranarray, with_gaps, backwards, read_only]
every_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda one: one.__name__)


def same(found, expected):
    """Compare up to rounding: sums may be added up in another order."""
    if isinstance(expected, Views):
        found, expected = dict(found.items()), dict(expected.items())
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            same(found[name], value)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            same(*pair)
    elif isinstance(expected, float | np.ndarray) and np.asarray(expected).dtype.kind == "f":
        room = 1e-6 * float(np.nanmax(np.abs(expected), initial=1e-300))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=room)
    else:
        np.testing.assert_array_equal(found, expected)


@cache
def transformers_to_try():
    deconfound = transformers.Deconfound()
    return [
        *_steps(),
        deconfound,
        ViewTransformer({"first": transformers.TensorScaler(), "second": transformers.Clip()}),
    ]


def changed(step, X):
    """Return what a transformer makes of the samples that it was fitted to."""
    if isinstance(step, ViewTransformer):
        views = Views(first=X, second=X[:, :2])
        return clone(step).fit(views).transform(views)
    more = {"confounds": X[:, 0, :2]} if isinstance(step, transformers.Deconfound) else {}
    return clone(step).fit(X, Y, **more).transform(X, **more)


@every_layout
def test_transformers(layout):
    for step in transformers_to_try():
        for kind in (np.float64, np.float32):
            with warnings.catch_warnings(action="ignore"):
                same(changed(step, layout(X.astype(kind))), changed(step, X.astype(kind)))


def test_every_transformer_is_tried():
    tried = {type(step) for step in transformers_to_try()}
    public = [getattr(module, name) for module in (tensormargin, transformers) for name in module.__all__]
    classes = {one for one in public if inspect.isclass(one) and hasattr(one, "transform")}
    abstract = {one for one in classes if any(issubclass(other, one) for other in tried - {one})}
    assert classes - abstract <= tried


@cache
def fitted_in_order(number):
    model = clone(classifiers()[number])
    with warnings.catch_warnings(action="ignore"):
        return model.fit(X, Y)


@cache
def classifiers():
    searches = GridSearchCV, RandomizedSearchCV
    return [
        one for one in _classifiers() if not isinstance(one, searches) and not hasattr(getattr(one, "cv", 0), "split")
    ]


@every_layout
def test_classifiers(layout):
    for number, template in enumerate(classifiers()):
        first = fitted_in_order(number)
        with warnings.catch_warnings(action="ignore"):
            other = clone(template).fit(layout(X), Y)
        same(other.predict(layout(X)), first.predict(X))
        same(other.decision_function(X) if hasattr(other, "decision_function") else 0, *scores(first))
        same(first.predict(layout(X)), first.predict(X))


def scores(model):
    return [model.decision_function(X) if hasattr(model, "decision_function") else 0]


def fields(found):
    return {name: value for name, value in vars(found).items() if isinstance(value, float | np.ndarray)}


def sample_set(X):
    return SampleSet(X, Y, None, None, None, "memory", "array", ())


RUNS = np.arange(len(X)) // 8
CALLS = {
    "activation_pattern": lambda X: activation_pattern(fitted_in_order(0), X),
    "fit_many": lambda X: [clf.coef_ for clf in fit_many([clone(LAST), clone(LAST)], X, Y, [None, np.arange(20)])],
    "margin_report": lambda X: fields(margin_report(fitted_in_order(0), X, Y)),
    "nested_evaluation": lambda X: fields(nested_evaluation(TensorMarginClassifierCV(**SMALL), X, Y, cv=2)),
    "permutation_test": lambda X: fields(permutation_test(clone(LAST), X, Y, cv=2, n_permutations=3, random_state=0)),
    "view_shares": lambda X: view_shares(fitted_to_views(), Views(first=X, second=X[:, :2])),
    "standardise_runs": lambda X: standardise_runs(X.reshape(len(X), -1), RUNS),
    "data_facts": lambda X: data_facts(sample_set(X)),
    "digest": lambda X: digest({"X": X}),
    "resize": lambda X: resize(X, (3, 6)),
    "fingerprint": lambda X: fingerprint([X]),
    "duplicate_samples": lambda X: duplicate_samples(np.concatenate([X, X[:3]])),
    "summaries": lambda X: [one.descriptors for one in summaries(X, {"": grid_of(X)}).values()],
}


@cache
def fitted_to_views():
    return TensorMarginClassifier("cp", 1).fit(Views(first=X, second=X[:, :2]), Y)


@every_layout
@pytest.mark.parametrize("name", CALLS)
def test_functions(name, layout):
    with warnings.catch_warnings(action="ignore"), fewer_folds():
        same(CALLS[name](layout(X)), CALLS[name](X.copy()))


@every_layout
def test_what_a_model_remembers_of_its_samples(layout):
    """In 0.2, samples in Fortran order were described wrongly: all of them were unlike themselves."""
    record = TrainingRecord.of(layout(X))
    compared = record.compare(X)
    assert not compared.unlike.any()
    assert compared.used.all()
    same(compared.facts, TrainingRecord.of(X).compare(layout(X)).facts)
    assert record.summary == TrainingRecord.of(X).summary


def test_what_a_file_keeps_of_samples(tmp_path):
    """Arrays of MATLAB and NIfTI files come in Fortran order."""
    for name, array in (("c", X), ("f", np.asfortranarray(X))):
        np.savez(tmp_path / f"{name}.npz", X=array, y=Y)
    first, other = (load_samples(tmp_path / f"{name}.npz") for name in "cf")
    record = TrainingRecord.of(other.data)
    assert not record.compare(first.data).unlike.any()
    assert record.compare(other.data).used.all()
