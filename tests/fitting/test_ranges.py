"""Samples, weights and strengths beyond the range of their type: the same refusal however a fit is made."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import library, low_rank_classes, run

from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV, TensorScaler, Views
from tensormargin.estimators import fit_steps
from tensormargin.fitting import without_native
from tensormargin.runtime import to_host, tuning

pytestmark = [pytest.mark.numerical, pytest.mark.filterwarnings("error::RuntimeWarning")]
STRENGTHS = {"lam": 1e-30, "mu1": 0.0, "mu2": 0.0}


def fit_in_memory(X, y, **parameters):
    return TensorMarginClassifier(**parameters).fit(X, y)


def fit_in_python(X, y, **parameters):
    with without_native():
        return TensorMarginClassifier(**parameters).fit(X, y)


def fit_by_shared_forms(X, y, **parameters):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "SMALL_GRAM", 0)
        return TensorMarginClassifier(**parameters).fit(X, y)


def fit_views(X, y, **parameters):
    return TensorMarginClassifier(**parameters).fit(Views({"whole": X, "first": X[:, 0]}), y)


def fit_on_device(X, y, **parameters):
    module, device = library("array_api_strict")
    X = module.asarray(X, device=device)
    return TensorMarginClassifier(**parameters, solver="device", n_init=2).fit(X, y)


def fit_lazily(X, y, **parameters):
    dask_array = pytest.importorskip("dask.array")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "LOADED_SHARE", 0.0)
        return TensorMarginClassifier(**parameters).fit(dask_array.from_array(X, chunks=(9, *X.shape[1:])), y)


def search(X, y, **parameters):
    grid = {"decompositions": ("full",), "lams": (parameters.pop("lam", 1.0),)}
    return TensorMarginClassifierCV(**grid, cv=2).fit(X, y)


ROUTES = [fit_in_memory, fit_in_python, fit_by_shared_forms, fit_views, fit_on_device, fit_lazily]


def classes(n_classes):
    X, _ = low_rank_classes(0, 30, (4, 10), 2.0)
    y = np.arange(30) % n_classes
    X[np.arange(30), 0, y] += 2.0
    return X, y


@pytest.mark.parametrize("fit", [*ROUTES, search])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    ("factor", "dtype", "words"),
    [
        (1e155, np.float64, "entries of X must be at most|squared norms overflow float64"),
        (1e-200, np.float64, "too small for float64: it must be at least 1.0e-292"),
        (1e25, np.float32, "squared norms overflow float32"),
        (1e-42, np.float32, "too small for float32"),
    ],
)
def test_magnitudes_get_the_same_refusal_on_every_route(fit, n_classes, factor, dtype, words):
    X, y = classes(n_classes)
    with pytest.raises(ValueError, match=words):
        fit((X * factor).astype(dtype), y, decomposition="full")


@pytest.mark.parametrize("fit", ROUTES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_magnitudes_within_the_range_are_fitted(fit, n_classes):
    X, y = classes(n_classes)
    clf, same = (fit(X * factor, y, decomposition="full") for factor in (1e145, 1.0))
    np.testing.assert_allclose(to_host(clf.intercept_), to_host(same.intercept_), rtol=1e-6)


@pytest.mark.parametrize("fit", [route for route in ROUTES if route is not fit_views])  # views are scaled first
@pytest.mark.parametrize("decomposition", ["full", "cp"])
def test_strengths_that_vanish_on_the_samples_scale_are_refused(fit, decomposition):
    X, y = classes(3)
    with pytest.raises(ValueError, match=r"lam \+ mu2 at least 2.2e-308.*got 0, 0 and 0"):
        fit(X * 1e150, y, decomposition=decomposition, **STRENGTHS)


def test_an_infinite_strength_is_refused():
    X, y = classes(2)
    with pytest.raises(ValueError, match="must stay finite"):
        TensorMarginClassifier("cp", lam=1e308).fit(X * 1e-3, y)


@pytest.mark.parametrize("fit", [fit_in_memory, fit_by_shared_forms])
def test_an_outlier_costs_the_other_classes_no_digits(fit):
    X, y = classes(3)
    X[2] *= 1e10  # of the third class; inner products relative to the mean of all samples would lose the others
    clf = fit(X, y, decomposition="full")
    alone = fit(X[y < 2], y[y < 2], decomposition="full")
    np.testing.assert_allclose(clf.coef_[0], alone.coef_[0], rtol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_that_leave_one_sample_are_told_so(n_classes):
    X, y = classes(n_classes)
    with pytest.raises(ValueError, match=r"sample_weight and class_weight must leave samples that differ.*1.0e-18 of"):
        TensorMarginClassifier("full").fit(X, y, np.where(np.arange(30) == 0, 1.0, 1e-18))


def test_no_fit_returns_what_is_not_finite(monkeypatch):
    fit_specs = fit_steps.fit_specs

    def spoiled(*arguments):
        fits = fit_specs(*arguments)
        object.__setattr__(fits[0], "intercept", np.nan)
        return fits

    monkeypatch.setattr(fit_steps, "fit_specs", spoiled)
    X, y = classes(2)
    clf = TensorMarginClassifier("cp", lam=3.0)
    with pytest.raises(ValueError, match=r"weights and intercepts must be finite, in float64.*lam=3"):
        clf.fit(X, y)
    assert not clf.__sklearn_is_fitted__()


@pytest.mark.parametrize("preparation", [None, TensorScaler()])
def test_a_code_for_missing_values_is_named_with_its_sample(preparation):
    X, y = classes(3)
    X[7, 1, 2] = -1.7976931348623157e308
    grid = {"decompositions": ("full",), "lams": (1.0,), "preparation": preparation}
    with pytest.raises(ValueError, match=r"at most 1\.3e\+154.*that of sample 7 is 1\.8e\+308.*by NaN and impute"):
        TensorMarginClassifierCV(**grid, cv=2).fit(X, y)


def test_a_code_for_missing_values_in_a_file(tmp_path):
    X, y = classes(3)
    X[7, 1, 2] = -1.7976931348623157e308
    np.savez(tmp_path / "scans.npz", X=X, y=y)
    done = run("fit", "scans.npz", cwd=tmp_path)
    assert done.returncode == 2
    assert "by NaN and impute these entries" in " ".join(done.stderr.split())
    assert "RuntimeWarning" not in done.stderr
