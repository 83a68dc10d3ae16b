"""TensorUnion and ViewTransformer: several views made of one input, and one transformer per view."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from tensormargin import (
    Deconfound,
    EqualLength,
    Resize,
    Tensorize,
    TensorKernel,
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    TensorScaler,
    TensorUnion,
    Views,
    ViewTransformer,
    activation_pattern,
    affine_form,
    load_model,
    nested_evaluation,
    save_model,
    weight_maps,
)
from tensormargin.data import Metadata
from tensormargin.inspection import ModelChain, NotAffineError, fit_model
from tensormargin.report.sentences import describe_steps
from tensormargin.transformers import takes_ragged


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 4, 6))
    X[:, 1, 2:5] += 0.8 * (2 * y[:, None] - 1)
    return X, y


def union(**parameters):
    members = [
        ("raw", "passthrough"),
        ("coarse", make_pipeline(TensorScaler(), Resize((4, 3)))),
        ("flat", Tensorize((24,))),
    ]
    return TensorUnion(members, **parameters)


def test_views_are_the_results_of_the_members(data):
    X, y = data
    views = union().fit_transform(X, y)
    assert views.names == ("raw", "coarse", "flat")
    assert views["raw"] is X
    expected = make_pipeline(TensorScaler(), Resize((4, 3))).fit_transform(X)
    np.testing.assert_array_equal(views["coarse"], expected)
    assert views.shapes == {"raw": (4, 6), "coarse": (4, 3), "flat": (24,)}


def test_members_are_fitted_to_training_samples_only(data):
    X, _ = data
    scaler = TensorUnion([("scaled", TensorScaler())]).fit(X[:20])
    np.testing.assert_array_equal(scaler.transform(X[20:])["scaled"], TensorScaler().fit(X[:20]).transform(X[20:]))
    assert not hasattr(scaler.transformer_list[0][1], "mean_")  # parameters stay unfitted


def test_parallel_members_give_the_same(data):
    X, _ = data
    one = union().fit(X).transform(X)
    with parallel_config(backend="threading"):
        two = union(n_jobs=2).fit(X).transform(X)
    for name in ("raw", "coarse", "flat"):
        np.testing.assert_array_equal(one[name], two[name])


def test_parameters_by_name(data):
    X, y = data
    pipe = make_pipeline(union(), TensorMarginClassifier("cp", rank=1))
    search = GridSearchCV(
        pipe,
        {"tensorunion__coarse__resize__shape": [(4, 2), (4, 3)], "tensorunion__flat": ["drop", "passthrough"]},
        cv=2,
        error_score="raise",
    ).fit(X, y)
    assert "drop" in {params["tensorunion__flat"] for params in search.cv_results_["params"]}
    changed = clone(union()).set_params(coarse="drop", n_jobs=1)
    assert changed.fit_transform(X).names == ("raw", "flat")
    assert union().get_params()["coarse__resize__shape"] == (4, 3)

    by_view = ViewTransformer({"eeg": Resize((4, 3))})
    assert by_view.get_params()["eeg__shape"] == (4, 3)
    changed = clone(by_view).set_params(eeg__shape=(4, 2))
    assert changed.fit_transform(Views(eeg=X)).shapes == {"eeg": (4, 2)}
    assert clone(by_view).set_params(eeg="passthrough").fit_transform(Views(eeg=X))["eeg"] is X
    assert clone(by_view).set_params(transformers={"mri": Resize((2, 2))}, mri__shape=(1, 1)).transformers[
        "mri"
    ].shape == (1, 1)


def test_as_preparation_of_a_search(data):
    X, y = data
    model = TensorMarginClassifierCV(("cp",), ranks=(1,), lams=(1,), mus=(0,), cv=2, preparation=union()).fit(X, y)
    assert model.classifier_.coef_.keys() == {"raw", "coarse", "flat"}
    assert model.score(X, y) > 0.8
    assert nested_evaluation(model, X, y, cv=2).accuracy > 0.6
    assert cross_val_score(make_pipeline(union(), TensorMarginClassifier("cp", rank=1)), X, y, cv=2).mean() > 0.6


def test_a_kernel_is_a_view_among_others(data):
    X, y = data
    model = make_pipeline(
        TensorUnion([("raw", "passthrough"), ("kernel", TensorKernel("rbf"))]), TensorMarginClassifier("cp", rank=1)
    ).fit(X, y)
    assert model[-1].sample_shape_["kernel"] == (40,)
    assert model.predict(X[:3]).shape == (3,)
    with pytest.raises(NotAffineError):
        affine_form(model)
    assert activation_pattern(model, X, y).shape == (1, 4, 6)


def test_one_transformer_per_view(data):
    X, y = data
    views = Views(eeg=X, age=np.arange(40.0), mri=X[:, :2])
    made = ViewTransformer({"age": TensorScaler(), "mri": "drop"}).fit_transform(views, y)
    assert made.names == ("eeg", "age")
    assert made["eeg"] is X
    np.testing.assert_array_equal(made["age"], TensorScaler().fit_transform(np.arange(40.0)[:, None]))
    np.testing.assert_array_equal(  # a dictionary is as good
        ViewTransformer({"age": TensorScaler()}).fit_transform({"age": np.arange(40.0)})["age"], made["age"]
    )


@pytest.mark.parametrize("kind", ["numpy", "dask"])
def test_samples_that_lack_a_view_are_kept_from_its_transformer(data, kind):
    X, _y = data
    eeg = X.copy()
    eeg[[3, 7]] = np.nan
    there = np.setdiff1d(np.arange(40), [3, 7])
    given = pytest.importorskip("dask.array").from_array(eeg, chunks=(10, 4, 6)) if kind == "dask" else eeg
    step = ViewTransformer({"eeg": TensorScaler()})
    made = step.fit_transform(Views(eeg=given, age=np.arange(40.0)) if kind == "numpy" else {"eeg": given})["eeg"]
    made = np.asarray(made)
    assert np.isnan(made[[3, 7]]).all()
    np.testing.assert_allclose(made[there], TensorScaler().fit_transform(X[there]), rtol=1e-12, atol=1e-12)
    if kind == "numpy":
        none = step.transform(Views(eeg=np.full((2, 4, 6), np.nan), age=np.zeros(2)))["eeg"]
        assert np.isnan(none).all()
        assert none.shape == (2, 4, 6)
        with pytest.raises(ValueError, match="view 'eeg': all training samples lack it"):
            clone(step).fit(Views(eeg=np.full((2, 4, 6), np.nan), age=np.zeros(2)))


def test_views_of_views_are_named_after_both(data):
    X, y = data
    step = ViewTransformer({"eeg": union()})
    eeg = X.copy()
    eeg[5] = np.nan
    made = step.fit_transform(Views(eeg=eeg, age=np.arange(40.0)), y)
    assert made.names == ("eeg_raw", "eeg_coarse", "eeg_flat", "age")
    assert all(np.isnan(made[name][5]).all() for name in made.names[:3])
    model = make_pipeline(step, TensorMarginClassifier("cp", rank=1)).fit(Views(eeg=X, age=np.arange(40.0)), y)
    form = affine_form(model)
    assert form.weights["eeg"].shape == (1, 4, 6)
    samples = Views(eeg=X, age=np.arange(40.0))
    np.testing.assert_allclose(form.scores(samples)[:, 0], model.decision_function(samples), rtol=1e-7, atol=1e-9)
    with pytest.raises(ValueError, match="two views 'eeg_raw'"):
        step.fit(Views(eeg=X, eeg_raw=X))


def test_weights_are_pulled_back_to_the_original_samples(data):
    X, y = data
    model = make_pipeline(union(), TensorMarginClassifier("cp", rank=1)).fit(X, y)
    form = affine_form(model)
    np.testing.assert_allclose(form.scores(X)[:, 0], model.decision_function(X), rtol=1e-9)
    np.testing.assert_array_equal(weight_maps(model), form.weights)
    views = Views(eeg=X, age=np.arange(40.0))
    by_view = make_pipeline(
        ViewTransformer({"age": TensorScaler(), "eeg": Resize((2, 3))}), TensorMarginClassifier("cp")
    )
    form = affine_form(by_view.fit(views, y))
    assert form.weights["eeg"].shape == (1, 4, 6)
    np.testing.assert_allclose(form.scores(views)[:, 0], by_view.decision_function(views), rtol=1e-7, atol=1e-9)
    dropped = make_pipeline(ViewTransformer({"age": "drop"}), TensorMarginClassifier("cp")).fit(views, y)
    assert not affine_form(dropped).weights["age"].any()


def test_steps_of_other_libraries(data):
    X, y = data
    model = make_pipeline(
        TensorUnion(
            [("log", FunctionTransformer(np.abs)), ("pca", make_pipeline(Tensorize((24,)), StandardScaler(), PCA(5)))]
        ),
        TensorMarginClassifier("cp", rank=1),
    ).fit(X.tolist(), y)
    assert model[-1].sample_shape_ == {"log": (4, 6), "pca": (5,)}
    with pytest.raises(NotAffineError, match="FunctionTransformer"):
        affine_form(model)


def test_metadata_reach_the_members(data, tmp_path):
    X, y = data
    groups, age = np.arange(40) // 10, np.arange(40.0)
    step = TensorUnion([("raw", "passthrough"), ("clean", make_pipeline(Deconfound(), TensorScaler(by_group=True)))])
    assert step.needed_metadata == {"groups", "confounds"}
    clean = step.fit_transform(X, y, groups=groups, confounds=age)["clean"]
    expected = TensorScaler(by_group=True).fit_transform(Deconfound().fit_transform(X, confounds=age), groups=groups)
    np.testing.assert_allclose(clean, expected)
    with pytest.raises(ValueError, match="confounds"):
        step.fit(X, y, groups=groups)
    search = TensorMarginClassifierCV(("cp",), ranks=(1,), lams=(1,), mus=(0,), cv=2, preparation=step)
    search.fit(X, y, groups=groups, confounds=age)
    assert search.predict(X, groups=groups, confounds=age).shape == (40,)
    assert nested_evaluation(search, X, y, groups, cv=2, confounds=age).accuracy > 0.4
    assert set(weight_maps(search)) == {"raw", "clean"}  # scaled by group: the maps are those of the views
    by_view = make_pipeline(ViewTransformer({"eeg": Deconfound()}), TensorMarginClassifier("cp"))
    views = Views(eeg=X, age=age)
    fit_model(by_view, views, y, Metadata.checked(X, None, age))
    assert len(ModelChain.of(by_view).confounds_by_view) == 1
    np.testing.assert_allclose(weight_maps(by_view)["eeg"], by_view[-1].coef_["eeg"])


def test_saved_models(data, tmp_path):
    X, y = data
    model = TensorMarginClassifierCV(("cp",), ranks=(1,), lams=(1,), mus=(0,), cv=2, preparation=union()).fit(X, y)
    save_model(tmp_path / "model.skops", model)
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.model.decision_function(X), model.decision_function(X))
    assert loaded.facts["sample_shape"] == [4, 6]
    views = Views(eeg=X, age=np.arange(40.0))
    by_view = make_pipeline(
        ViewTransformer({"age": StandardScaler(), "eeg": union()}), TensorMarginClassifier("cp", rank=1)
    ).fit(views, y)
    save_model(tmp_path / "views.skops", by_view)
    loaded = load_model(tmp_path / "views.skops")
    np.testing.assert_array_equal(loaded.model.decision_function(views), by_view.decision_function(views))
    assert loaded.facts["sample_shape"] == {"eeg": [4, 6], "age": [1]}
    assert "view age" in describe_steps(loaded.model)[0]


def test_samples_of_different_lengths(data):
    X, y = data
    ragged = [sample[:, : 4 + k % 3] for k, sample in enumerate(X)]
    step = TensorUnion([("short", EqualLength(3)), ("long", make_pipeline(EqualLength(6), TensorScaler()))])
    assert takes_ragged(step)
    assert not takes_ragged(union())
    model = make_pipeline(step, TensorMarginClassifier("cp", rank=1)).fit(ragged, y)
    assert model[-1].sample_shape_ == {"short": (4, 3), "long": (4, 6)}
    assert set(weight_maps(model)) == {"short", "long"}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_other_arrays(data, dtype, order):
    X, y = data
    X = np.asarray(10 * X, dtype=dtype, order=order)
    X.setflags(write=False)
    model = make_pipeline(union(), TensorMarginClassifier("cp", rank=1)).fit(X, y)
    assert model.score(X, y) > 0.7


def test_lazy_samples_stay_lazy(data):
    dask = pytest.importorskip("dask.array")
    X, _y = data
    lazy = dask.from_array(X, chunks=(10, 4, 6))
    made = union().fit(lazy).transform(lazy)
    assert all(isinstance(array, dask.Array) for array in made.values())
    np.testing.assert_allclose(made["coarse"].compute(), union().fit_transform(X)["coarse"])


def test_errors_name_the_member(data):
    X, _y = data
    with pytest.raises(ValueError, match="'raw' is 3"):
        TensorUnion([("raw", 3)]).fit(X)
    with pytest.raises(ValueError, match="at least one transformer"):
        TensorUnion([("raw", "drop")]).fit(X)
    with pytest.raises(ValueError, match="unique"):
        TensorUnion([("raw", "passthrough"), ("raw", "passthrough")]).fit(X)
    with pytest.raises(ValueError, match="view 'coarse'"):
        TensorUnion([("coarse", Resize((1, 2, 3, 4)))]).fit(X)
    with pytest.raises(ValueError, match=r"view 'scaled'.*NaN"):
        TensorUnion([("scaled", TensorScaler())]).fit(np.full((4, 2), np.nan))
    with pytest.raises(ValueError, match="takes several views; got ndarray"):
        ViewTransformer({"eeg": TensorScaler()}).fit(X)
    with pytest.raises(ValueError, match="no view 'mri'"):
        ViewTransformer({"mri": TensorScaler()}).fit(Views(eeg=X))
    with pytest.raises(ValueError, match="not dropped"):
        ViewTransformer({"eeg": "drop"}).fit(Views(eeg=X))
    fitted = ViewTransformer({"eeg": TensorScaler()}).fit(Views(eeg=X, age=np.arange(40.0)))
    assert fitted.transform(Views(eeg=X)).names == ("eeg",)  # the classifier says what it needs
    with pytest.raises(ValueError, match="got 'mri' as well"):
        fitted.transform(Views(eeg=X, mri=X))
    with pytest.raises(ValueError, match="shape seen in fit; view 'eeg'"):
        fitted.transform(Views(eeg=X[:, :2]))
    with pytest.raises(ValueError, match="shape seen in fit"):
        union().fit(X).transform(X[:, :2])
