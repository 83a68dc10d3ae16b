"""Tests of the removal of confounds: the regression itself, training sets only, metadata, maps, files and commands."""

from __future__ import annotations

import json

import numpy as np
import pandas
import pytest
import sklearn
from conftest import fewer_models, low_rank_classes, run
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from tensormargin import (
    Deconfound,
    NotAffineError,
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    TensorScaler,
    activation_pattern,
    affine_form,
    export_onnx,
    load_model,
    margin_report,
    nested_evaluation,
    permutation_test,
    save_model,
    weight_maps,
)
from tensormargin.data import Metadata, checked_confounds
from tensormargin.evaluation import CompareSettings, FitPlan, compare, fit_and_evaluate
from tensormargin.inspection import ModelChain, fit_model, predicted_labels
from tensormargin.io import BadFileError, SampleSet, load_samples, read_facts
from tensormargin.io.predictions import predictions_of
from tensormargin.plots import plot_weight
from tensormargin.report import model_page, render, statements
from tensormargin.report.sentences import CONFOUNDS_WARNING
from tensormargin.runtime import to_host
from tensormargin.transformers import Recipe

N, SHAPE = 60, (4, 3)


def confounded(seed=0, n=N, shape=SHAPE, offset=0.0):
    """Return samples that depend on age and site, their labels, and the confounds as a data frame."""
    rng = np.random.default_rng(seed)
    X, signs = low_rank_classes(seed, n, shape, 3.0, rank=1)
    age, site = rng.uniform(20, 80, n), rng.choice(["A", "B", "C"], n)
    effects = rng.normal(size=(4, *shape))
    X = X + 0.1 * age[:, None, None] * effects[0] + offset
    X = X + sum((site == name)[:, None, None] * effect for name, effect in zip("ABC", effects[1:], strict=True))
    return X, signs, pandas.DataFrame({"age": age, "site": site})


def residuals(X, confounds, train=None):
    """Return the residuals of a regression on numbers and one-hot columns, fitted to some rows, plus their mean."""
    train = np.arange(len(X)) if train is None else train
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore").fit(confounds[["site"]].iloc[train])
    Z = np.column_stack([confounds["age"], encoder.transform(confounds[["site"]])])
    flat = X.reshape(len(X), -1)
    fitted = LinearRegression().fit(Z[train], flat[train])
    return (flat - fitted.predict(Z) + flat[train].mean(axis=0)).reshape(X.shape)


def search(**parameters):
    return TensorMarginClassifierCV(
        **{
            "decompositions": ("cp",),
            "ranks": (1,),
            "lams": (1,),
            "mus": (1,),
            "cv": 3,
            "random_state": 0,
            **parameters,
        }
    )


# ---- the regression ----


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_what_is_left_are_the_residuals_of_a_regression_and_the_mean(offset):
    X, _, Z = confounded(offset=offset)
    np.testing.assert_allclose(Deconfound().fit_transform(X, confounds=Z), residuals(X, Z), rtol=1e-9, atol=1e-9)


def test_the_effects_are_those_of_the_training_samples():
    X, _, Z = confounded()
    train, test = np.arange(40), np.arange(40, N)
    fitted = Deconfound().fit(X[train], confounds=Z.iloc[train])
    found = fitted.transform(X[test], confounds=Z.iloc[test])
    np.testing.assert_allclose(found, residuals(X, Z, train)[test], atol=1e-9)


@given(seed=st.integers(0, 10**6), offset=st.floats(-100, 100), factor=st.floats(0.01, 100))
def test_nothing_linear_is_left_and_units_do_not_matter(seed, offset, factor):
    X, _, Z = confounded(seed)
    left = Deconfound().fit_transform(X, confounds=Z)
    centred = (left - left.mean(axis=0)).reshape(N, -1)
    columns = np.column_stack([Z["age"], *(Z["site"] == name for name in "ABC")]).astype(float)
    np.testing.assert_allclose((columns - columns.mean(axis=0)).T @ centred, 0.0, atol=1e-7)
    np.testing.assert_allclose(left.mean(axis=0), X.mean(axis=0), atol=1e-9)
    other = Z.assign(age=offset + factor * Z["age"])[["site", "age"]]
    np.testing.assert_allclose(Deconfound().fit_transform(X, confounds=other), left, atol=1e-7)
    again = Deconfound().fit_transform(left, confounds=Z)
    np.testing.assert_allclose(again, left, atol=1e-8)


def test_shares_of_the_variance():
    X, _, Z = confounded()
    fitted = Deconfound().fit(X, confounds=Z)
    total = np.var(X, axis=0).sum()
    assert fitted.explained_ == pytest.approx(1 - np.var(residuals(X, Z), axis=0).sum() / total)
    for name, share in fitted.explained_alone_.items():
        alone = Deconfound([name]).fit(X, confounds=Z)
        assert share == pytest.approx(alone.explained_)
        assert share <= fitted.explained_ + 1e-12
    assert "what age and site explain linearly was removed from every entry (" in fitted.words()
    assert Deconfound(["age"]).words() == "what age explains linearly was removed from every entry"


def test_constants_and_columns_that_repeat_others_explain_nothing():
    X, _, Z = confounded()
    left = Deconfound().fit_transform(X, confounds=Z)
    more = Z.assign(constant=7.0, twice=2 * Z["age"], one="x")
    np.testing.assert_allclose(Deconfound().fit_transform(X, confounds=more), left, atol=1e-9)


def test_codes_can_be_categories():
    X, _, Z = confounded()
    coded = Z.assign(site=Z["site"].map({"A": 1, "B": 2, "C": 3}))
    expected = Deconfound().fit_transform(X, confounds=Z)
    np.testing.assert_allclose(Deconfound(categorical=["site"]).fit_transform(X, confounds=coded), expected, atol=1e-9)
    as_category = coded.assign(site=coded["site"].astype("category"))
    np.testing.assert_allclose(Deconfound().fit_transform(X, confounds=as_category), expected, atol=1e-9)
    by_place = Deconfound(categorical=[1]).fit_transform(X, confounds=coded.to_numpy())
    np.testing.assert_allclose(by_place, expected, atol=1e-9)
    assert not np.allclose(Deconfound().fit_transform(X, confounds=coded), expected)


def test_confounds_in_all_their_forms():
    X, _, Z = confounded()
    expected = Deconfound().fit_transform(X, confounds=Z)
    rows = list(zip(Z["age"], Z["site"], strict=True))
    forms = [
        dict(Z),
        rows,
        Z.to_numpy(),
        np.array(rows, [("age", float), ("site", "U1")]),
        np.column_stack([Z["age"].map(repr), Z["site"]]).astype(str),
        checked_confounds(X, Z),
    ]
    for form in forms:
        np.testing.assert_allclose(Deconfound().fit_transform(X, confounds=form), expected, atol=1e-9)
    age = Deconfound().fit_transform(X, confounds=Z["age"])
    np.testing.assert_allclose(Deconfound().fit_transform(X, confounds=Z["age"].to_numpy()), age)
    np.testing.assert_allclose(Deconfound("age").fit_transform(X, confounds=Z), age)
    np.testing.assert_allclose(Deconfound([0]).fit_transform(X, confounds=Z), age)


def test_unseen_categories_are_left_alone_with_a_warning_or_refused():
    X, _, Z = confounded()
    train = np.flatnonzero(Z["site"] != "C")
    test = np.flatnonzero(Z["site"] == "C")
    fitted = Deconfound().fit(X[train], confounds=Z.iloc[train])
    with pytest.warns(UserWarning, match=r"'site' has categories that the training samples did not have: C \(\d+ of"):
        left = fitted.transform(X[test], confounds=Z.iloc[test])
    effect = np.tensordot((Z["age"].iloc[test] - fitted.mean_[0]) / fitted.scale_[0], fitted.coef_[0], 0)
    np.testing.assert_allclose(left, X[test] - effect, atol=1e-9)
    with pytest.raises(ValueError, match='use unseen="mean"'):
        fitted.set_params(unseen="error").transform(X[test], confounds=Z.iloc[test])


@pytest.mark.parametrize(
    ("confounds", "message"),
    [
        (None, "Deconfound needs confounds, one row per sample"),
        (np.arange(N - 1), "inconsistent numbers of samples"),
        (np.full(N, np.nan), "60 of 60 are missing or not finite"),
        ({}, "at least one column"),
        (np.zeros((N, 2, 2)), "must have the shape"),
        (np.random.default_rng(0).normal(size=(N, N)), "more samples than columns of confounds"),
    ],
)
def test_wrong_confounds_are_refused(confounds, message):
    X, _, _ = confounded()
    with pytest.raises(ValueError, match=message):
        Deconfound().fit(X, confounds=confounds)


def test_other_confounds_than_in_fit_are_refused():
    X, _, Z = confounded()
    fitted = Deconfound().fit(X, confounds=Z)
    for other in (Z[["age"]], Z.rename(columns={"age": "height"}), Z.assign(more=1.0)):
        with pytest.raises(ValueError, match="must be those seen in fit, age, site"):
            fitted.transform(X, confounds=other)
    with pytest.raises(ValueError, match="'age' must hold numbers, as in fit"):
        fitted.transform(X, confounds=Z.assign(age="old"))
    with pytest.raises(ValueError, match="'site' must hold text, as in fit"):
        fitted.transform(X, confounds=Z.assign(site=1.0))
    with pytest.raises(ValueError, match="height is not among age, site"):
        Deconfound(["height"]).fit(X, confounds=Z)
    Deconfound(["age"]).fit(X, confounds=Z).transform(X, confounds=Z)  # what is not named may be there


@pytest.mark.parametrize(("dtype", "expected"), [(np.float32, np.float32), (np.int32, np.float64)])
def test_types_and_layout(dtype, expected):
    X, _, Z = confounded()
    X = np.asfortranarray((10 * X).astype(dtype))
    X.setflags(write=False)
    left = Deconfound().fit_transform(X, confounds=Z)
    assert left.dtype == expected
    np.testing.assert_allclose(left, residuals(X.astype(float), Z), rtol=1e-4, atol=1e-3)


def test_parts_change_nothing(monkeypatch, tmp_path):
    X, _, Z = confounded()
    whole = Deconfound().fit_transform(X, confounds=Z)
    monkeypatch.setattr("tensormargin.runtime.tuning.PASS_ENTRIES", 7 * 12)
    monkeypatch.setattr("tensormargin.runtime.tuning.PASS_SAMPLES", 1)
    np.save(tmp_path / "x.npy", X)
    for given_as in (X, np.load(tmp_path / "x.npy", mmap_mode="r")):
        np.testing.assert_allclose(Deconfound().fit_transform(given_as, confounds=Z), whole, atol=1e-10)


def test_dask_arrays():
    da = pytest.importorskip("dask.array", reason="needs Dask")
    X, _, Z = confounded()
    lazy = da.from_array(X, chunks=(13, 2, 3))
    fitted = Deconfound().fit(lazy, confounds=Z)
    expected = Deconfound().fit(X, confounds=Z)
    assert fitted.explained_ == pytest.approx(expected.explained_)
    left = fitted.transform(lazy, confounds=Z)
    assert left.chunks[0] == lazy.chunks[0]
    np.testing.assert_allclose(left.compute(), expected.transform(X, confounds=Z), atol=1e-10)
    with pytest.raises(ValueError, match="NaN"):
        Deconfound().fit(da.full((N, 2), np.nan), confounds=Z)


def test_other_libraries(put):
    X, _, Z = confounded()
    given_as = put(X)
    left = Deconfound().fit_transform(given_as, confounds=Z)
    assert type(left) is type(given_as)
    np.testing.assert_allclose(to_host(left), residuals(X, Z), atol=1e-9)


# ---- training sets only ----


def test_metadata_routing_takes_confounds_to_fit_and_predict():
    X, y, Z = confounded()
    model = make_pipeline(Deconfound(), TensorScaler(), TensorMarginClassifier("cp", 1))
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(model, X, y, params={"confounds": Z}, cv=KFold(3), error_score="raise")
        with pytest.raises(ValueError, match="needs confounds"):
            clone(model).fit(X, y)
    for (train, test), score in zip(KFold(3).split(X), found["test_score"], strict=True):
        left = residuals(X, Z, train)
        alone = make_pipeline(TensorScaler(), TensorMarginClassifier("cp", 1)).fit(left[train], y[train])
        assert alone.score(left[test], y[test]) == score


def test_searches_learn_the_effects_on_the_training_sets_of_their_folds():
    X, y, Z = confounded()
    splits = list(KFold(3).split(X))
    found = search(cv=splits, preparation=Deconfound()).fit(X, y, confounds=Z)
    expected = []
    for train, test in splits:
        left = residuals(X, Z, train)
        expected.append(TensorMarginClassifier("cp", 1).fit(left[train], y[train]).score(left[test], y[test]))
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], np.mean(expected))
    np.testing.assert_array_equal(
        found.predict(X, confounds=Z), found.classifier_.predict(Deconfound().fit_transform(X, confounds=Z))
    )
    assert found.predict_proba(X, confounds=Z).shape == (N, 2)
    assert found.score(X, y, confounds=Z) > 0.5
    with pytest.raises(ValueError, match=r"Pass them to predict\(..., confounds=confounds\)"):
        found.predict(X)
    with pytest.raises(ValueError, match=r"Pass them to fit\(..., confounds=confounds\)"):
        search(preparation=Deconfound()).fit(X, y)


def test_nested_evaluation_permutations_and_comparisons_learn_on_training_sets():
    X, y, Z = confounded()
    model = search(preparation=Deconfound())
    found = nested_evaluation(model, X, y, cv=KFold(3), confounds=Z)
    for fold, (train, test) in enumerate(KFold(3).split(X)):
        alone = fit_model(clone(model), X[train], y[train], Metadata(confounds=checked_confounds(X, Z)[train]))
        expected = alone.predict(X[test], confounds=Z.iloc[test])
        np.testing.assert_array_equal(found.predicted[0, test], expected)
        assert found.folds[fold].reference_score > 0.4
    tested = permutation_test(model, X, y, cv=KFold(3), n_permutations=1, random_state=0, confounds=Z)
    assert tested.score == found.accuracy
    settings = CompareSettings(methods=("LMDM", "LinearSVC", "RBF-SVM"), repeats=1, folds=2, preparation=Deconfound())
    rows = list(compare(X, y, settings, 1, confounds=Z))
    for row in rows:
        if row.method == "LMDM":
            train = np.setdiff1d(np.arange(N), row.test)
            left = residuals(X, Z, train)
            alone = TensorMarginClassifier("full", lam=row.lam).fit(left[train], y[train])
            assert row.accuracy == alone.score(left[row.test], y[row.test])
            assert np.isfinite(row.margin_mean)
    with pytest.raises(ValueError, match=r"compare\(..., confounds=confounds\)"):
        compare(X, y, settings, 1)


def test_nested_evaluation_of_dask_arrays():
    da = pytest.importorskip("dask.array", reason="needs Dask")
    X, y, Z = confounded()
    model = search(preparation=Deconfound())
    here = nested_evaluation(model, X, y, cv=2, confounds=Z)
    lazily = nested_evaluation(model, da.from_array(X, chunks=(20, *SHAPE)), y, cv=2, confounds=Z)
    np.testing.assert_array_equal(lazily.predicted, here.predicted)


def test_a_confound_that_is_the_label_leaves_nothing_to_predict():
    X, y, _ = confounded()
    model = search(preparation=Deconfound())
    found = nested_evaluation(model, X, y, cv=3, confounds=pandas.DataFrame({"label": y}))
    assert found.accuracy < 0.7


# ---- maps ----


@pytest.fixture(scope="module")
def fitted():
    X, y, Z = confounded()
    return make_pipeline(TensorScaler(), Deconfound(), TensorMarginClassifier("cp", 1)), X, y, Z


@pytest.fixture(scope="module")
def model(fitted):
    unfitted, X, y, Z = fitted
    return fit_model(unfitted, X, y, Metadata(confounds=checked_confounds(X, Z)))


def test_maps_are_weights_on_the_original_samples(model, fitted):
    _, X, _, Z = fitted
    maps = weight_maps(model)
    rng = np.random.default_rng(0)
    change = rng.normal(size=X.shape)
    table = Metadata(confounds=checked_confounds(X, Z))
    scores = [
        model[-1].decision_function(model[1].transform(model[0].transform(one), confounds=Z)) for one in (X, X + change)
    ]
    np.testing.assert_allclose(scores[1] - scores[0], np.tensordot(change, maps[0], 2), atol=1e-9)
    assert predicted_labels(model, X, table).shape == (N,)
    with pytest.raises(NotAffineError, match="depend on age, site, too"):
        affine_form(model)
    inside = search(preparation=Deconfound()).fit(X, fitted[2], confounds=Z)
    np.testing.assert_allclose(inside.coef_, inside.classifier_.coef_)
    with pytest.raises(AttributeError, match="depend on age, site"):
        inside.intercept_  # noqa: B018


def test_margins_and_patterns(model, fitted):
    _, X, y, Z = fitted
    report = margin_report(model, X, y, confounds=Z)
    scores = model[-1].decision_function(model[1].transform(model[0].transform(X), confounds=Z))
    np.testing.assert_allclose(report.margins, y * scores, atol=1e-9)
    pattern = activation_pattern(model, X, y, confounds=Z)
    # The scores do not depend on confounds, so the pattern of the samples is that of what is left of them.
    left = X.std(axis=0) * model[1].transform(model[0].transform(X), confounds=Z)
    expected = np.tensordot(scores - scores.mean(), left, 1) / np.sum((scores - scores.mean()) ** 2)
    np.testing.assert_allclose(pattern[0], expected, atol=1e-9)
    assert plot_weight(model, X, y, confounds=Z).shape[0] == 2


def test_models_are_saved_and_refused_for_export(model, fitted, tmp_path):
    _, X, y, Z = fitted
    save_model(tmp_path / "model.skops", model)
    loaded = load_model(tmp_path / "model.skops").model
    data = SampleSet(X, y, None, None, None, "x.npz", "NumPy archive", (), confounds=Z)
    np.testing.assert_array_equal(predictions_of(loaded, data).predicted, predicted_labels(model, X, data_of(X, Z)))
    without = SampleSet(X, y, None, None, None, "x.npz", "NumPy archive", ())
    with pytest.raises(BadFileError, match=r"age, site is missing\. Name them with --confounds age,site"):
        predictions_of(loaded, without)
    pytest.importorskip("onnx", reason="needs onnx")
    with pytest.raises(
        NotAffineError, match="this model cannot be exported: the scores after Deconfound depend on age"
    ):
        export_onnx(loaded, tmp_path / "model.onnx")


def data_of(X, Z):
    return Metadata(confounds=checked_confounds(X, Z))


def test_resampled_samples_keep_their_confounds():
    X, y, Z = confounded()

    class Sampler(sklearn.base.BaseEstimator):
        def fit_resample(self, X, y):
            self.sample_indices_ = np.arange(0, len(X), 3)
            return X[::3], y[::3]

    model = fit_model(make_pipeline_with(Sampler()), X, y, data_of(X, Z))
    expected = Deconfound().fit(X[::3], confounds=Z.iloc[::3])
    np.testing.assert_allclose(model[1].coef_, expected.coef_)


def make_pipeline_with(sampler):
    model = make_pipeline("passthrough", Deconfound(), TensorMarginClassifier("cp", 1))
    model.steps[0] = ("sampler", sampler)
    return model


# ---- files, commands and the report ----


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with samples and confounds in files of several kinds."""
    h5py = pytest.importorskip("h5py", reason="needs h5py")
    X, y, Z = confounded()
    path = tmp_path_factory.mktemp("confounds")
    age, site = Z["age"].to_numpy(), Z["site"].to_numpy().astype(str)
    np.savez(path / "all.npz", X=X, y=y, age=age, site=site)
    np.savez(path / "last.npz", X=np.moveaxis(X, 0, -1), y=y, age=age, site=site)
    np.save(path / "alone.npy", X)
    with h5py.File(path / "all.h5", "w") as file:
        file["X"], file["y"], file["age"] = X, y, age
        file["site"] = site.astype(object)
    lines = ["label,age,site", *(f"{int(a)},{float(b)!r},{c}" for a, b, c in zip(y, age, site, strict=True))]
    (path / "people.csv").write_text("\n".join(lines))
    (path / "files").mkdir()
    rows = []
    for k in range(N):
        np.save(path / "files" / f"{k:02d}.npy", X[k])
        rows.append(f"{k:02d}.npy,{int(y[k])},{float(age[k])!r},{site[k]}")
    (path / "files" / "table.csv").write_text("\n".join(["path,label,age,site", *rows]))
    (path / "files" / "turned.csv").write_text("\n".join(["path,label,age,site", *rows[::-1]]))
    return path


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("all.npz", {}),
        ("last.npz", {"axis": -1}),
        ("all.h5", {}),
        ("alone.npy", {"labels_from": "people.csv"}),
        ("all.h5", {"labels_from": "people.csv"}),
        ("files/table.csv", {}),
        ("files", {"labels_from": "files/turned.csv"}),
    ],
)
def test_confounds_are_loaded(folder, name, options):
    options = {key: folder / value if key == "labels_from" else value for key, value in options.items()}
    found = load_samples(folder / name, confounds=["site", "age"], **options)
    _, _, Z = confounded()
    assert found.confounds.dtype.names == ("site", "age")
    assert found.confounds["site"].tolist() == Z["site"].tolist()
    np.testing.assert_allclose(found.confounds["age"], Z["age"])
    assert load_samples(folder / name, **options).confounds is None


def test_missing_confounds_are_named(folder, tmp_path):
    with pytest.raises(BadFileError, match="it has no height"):
        load_samples(folder / "all.npz", confounds="height")
    with pytest.raises(BadFileError, match=r"neither it nor .* has any height"):
        load_samples(folder / "alone.npy", labels_from=folder / "people.csv", confounds=("age", "height"))
    np.savez(tmp_path / "short.npz", X=np.ones((3, 2)), y=[0, 1, 0], age=[1.0, 2.0])
    with pytest.raises(BadFileError, match="'age' has 2 values, but there are 3 samples"):
        load_samples(tmp_path / "short.npz", confounds="age")
    np.savez(tmp_path / "nan.npz", X=np.ones((3, 2)), y=[0, 1, 0], age=[1.0, np.nan, 2.0])
    with pytest.raises(BadFileError, match="must have a value for every sample; row 2 has none"):
        load_samples(tmp_path / "nan.npz", confounds="age")


@pytest.fixture(scope="module")
def written(folder):
    """Return the folder with a model and its report, made by the command."""
    options = ("--decomposition", "cp", "--rank", 1, "--folds", 2, "--outer-folds", 2, "--jobs", 1)
    with fewer_models("TensorMarginClassifierCV", lams=(1,), mus=(1,)):
        result = run("fit", folder / "all.npz", "-o", folder / "model.skops", "--confounds", "age,site", *options)
    assert result.returncode == 0, result.stderr
    return folder


def test_the_page_says_what_was_removed(written):
    page = (written / "model.html").read_text()
    loaded = load_model(written / "model.skops")
    step = loaded.model.best_estimator_["preparation"]
    assert f"{100 * step.explained_:.1f} % of the variance in all" in page
    for share in step.explained_alone_.values():
        assert f"{100 * share:.1f}" in page
    assert CONFOUNDS_WARNING in page
    assert CONFOUNDS_WARNING in statements(loaded.model, loaded.facts)
    assert "Confounds" in [section.heading for section in model_page(loaded.model, loaded.facts).sections]
    assert read_facts(written / "model.skops")["about"]["data"]["confounds"] == ["age", "site"]
    assert "There is no map" not in page


def test_models_without_confounds_say_nothing_of_them():
    X, y, _ = confounded()
    data = SampleSet(X, y, None, None, None, "x.npz", "NumPy archive", ())
    plan = FitPlan(decomposition="cp", rank=1, folds=2, outer_folds=0)
    with fewer_models("TensorMarginClassifierCV", lams=(1,), mus=(1,)):
        result = fit_and_evaluate(data, plan)
        facts = {"about": result.about, "created": "", "versions": {"tensormargin": "0"}, "classes": [-1, 1]}
        page = model_page(result.model, facts, data)
        assert "Confounds" not in [section.heading for section in page.sections]
        assert CONFOUNDS_WARNING not in render(page)
        with pytest.raises(ValueError, match="no confounds were loaded"):
            fit_and_evaluate(data, FitPlan(recipe=Recipe(confounds=("age",))))


def test_predict_and_report_find_the_confounds_by_name(written):
    predicted = run("predict", written / "model.skops", written / "all.h5", "-o", written / "p.csv", "--json")
    assert predicted.returncode == 0, predicted.stderr
    X, y, Z = confounded()
    loaded = load_model(written / "model.skops").model
    expected = np.mean(loaded.predict(X, confounds=Z) == y)
    assert json.loads(predicted.stdout)["accuracy"] == pytest.approx(expected)
    assert run("report", written / "model.skops", written / "all.npz", "-o", written / "again.html").returncode == 0
    refused = run("predict", written / "model.skops", written / "alone.npy", "-o", written / "q.csv")
    assert refused.returncode == 2
    assert "has no age, site" in " ".join(refused.stderr.split())


def test_the_command_removes_confounds_from_what_was_scaled_by_group(folder):
    X, y, Z = confounded()
    runs = np.arange(N) // 10
    np.savez(folder / "runs.npz", X=X, y=y, age=Z["age"], group=runs)
    options = (
        "--auto",
        "--folds",
        2,
        "--outer-folds",
        2,
        "--jobs",
        1,
        "--by-group",
        "--confounds",
        "age",
        "--no-report",
    )
    with fewer_models("auto_model", lams=(1,), mus=(1,), ranks=(1,), decompositions=("cp",)):
        result = run("fit", folder / "runs.npz", "-o", folder / "runs.skops", *options)
    assert result.returncode == 0, result.stderr
    model = load_model(folder / "runs.skops").model
    scaled = TensorScaler(by_group=True).fit_transform(X, groups=runs)
    step = next(one for one in ModelChain.of(model).steps if isinstance(one, Deconfound))
    np.testing.assert_allclose(step.coef_, Deconfound().fit(scaled, confounds=Z[["age"]]).coef_, atol=1e-9)
    assert run("predict", folder / "runs.skops", folder / "runs.npz", "-o", folder / "r.csv").returncode == 0


def test_the_command_compares_without_confounds(folder):
    options = ("--methods", "LMDM,LinearSVC", "--repeats", 1, "--folds", 2, "--jobs", 1, "--json")
    result = run("compare", folder / "all.npz", "--confounds", "age,site", *options)
    assert result.returncode == 0, result.stderr
    content = json.loads(result.stdout)
    assert content["preparation"] == ["what age and site explain linearly was removed from every entry"]
    other = run("compare", folder / "all.npz", *options)
    assert json.loads(other.stdout)["rows"] != content["rows"]


def test_confounds_that_are_the_groups_and_unseen_categories_are_each_said_once(tmp_path):
    X, y = low_rank_classes(0, 48, (3, 4), 2.0)
    np.savez(tmp_path / "a.npz", X=X, y=y, run=np.arange(48) // 8, site=np.repeat(list("abcdef"), 8))
    np.savez(tmp_path / "new.npz", X=X, y=y, site=np.repeat(list("abcdgh"), 8))
    options = ("--decomposition", "cp", "--rank", 1, "--folds", 2, "--outer-folds", 3, "--jobs", 1, "--no-report")
    with fewer_models("TensorMarginClassifierCV", lams=(1,), mus=(1,)):
        told = run("fit", "a.npz", "-o", "m.skops", "--groups", "run", "--confounds", "site", *options, cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert told.stderr.count("every category of the confound 'site' occurs in one group only") == 1
    assert "did not have" not in told.stderr
    told = run("predict", "m.skops", "new.npz", "-o", "p.csv", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    said = "Warning: confound 'site' has categories that the training samples did not have: g, h (16 of 48 samples)"
    assert told.stderr.count(said) == told.stderr.count("did not have") == 1


def test_two_groups_are_recommended_only_where_they_work(tmp_path):
    X, y = low_rank_classes(0, 24, (3, 4), 2.0)
    np.savez(tmp_path / "a.npz", X=X, y=y, subject=np.repeat(["s1", "s2"], 12))
    options = ("--decomposition", "cp", "--rank", 1, "--folds", 2, "--jobs", 1, "--no-report", "-o", "m.skops")
    with fewer_models("TensorMarginClassifierCV", lams=(1,), mus=(1,)):
        refused = run("fit", "a.npz", "--groups", "subject", *options, cwd=tmp_path)
        assert "Use smaller groups (runs, blocks), no groups (--no-groups), or no evaluation" in refused.stderr
        told = run("fit", "a.npz", "--outer-folds", 0, *options, cwd=tmp_path)
        assert "--groups subject --outer-folds 0" in told.stderr
        done = run("fit", "a.npz", "--groups", "subject", "--outer-folds", 0, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
