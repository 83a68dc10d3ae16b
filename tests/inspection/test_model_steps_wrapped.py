"""Our classifiers inside of searches, calibrators and thresholds: reports, files, groups and coefficients."""

from __future__ import annotations

import pickle
from itertools import combinations

import nibabel
import numpy as np
import pytest
import sklearn
from conftest import run, shifted_classes
from joblib import Memory
from scipy.stats import loguniform
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    GroupKFold,
    RandomizedSearchCV,
    StratifiedKFold,
    TunedThresholdClassifierCV,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler

from tensormargin import (
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    affine_form,
    load_model,
    save_map,
    save_model,
    weight_maps,
)
from tensormargin.evaluation import nested_evaluation, permutation_test
from tensormargin.inspection import ModelChain, fit_model, needs_groups
from tensormargin.io import BadFileError, SampleSet
from tensormargin.io.predictions import predictions_of
from tensormargin.plots import plot_convergence
from tensormargin.report import model_page, render
from tensormargin.transformers import Crop, Tensorize, TensorScaler

pytestmark = pytest.mark.usefixtures("blank_figures")

SHAPE = (4, 5)
CP = TensorMarginClassifier("cp", 1)
GRID = {"mu1": [0.0, 1.0]}


def samples_of(X, y, groups=None):
    return SampleSet(X, y, groups, None, None, "samples.npy", "array", ())


def search(**parameters):
    small = {"decompositions": ("cp",), "ranks": (1,), "lams": (1,), "mus": (0,), "cv": 3, "random_state": 0}
    return TensorMarginClassifierCV(**{**small, **parameters})


@pytest.fixture(scope="module")
def binary():
    return shifted_classes(60, SHAPE)


@pytest.fixture(scope="module")
def three(binary):
    return binary[0] + np.repeat(np.arange(3), 20)[:, None, None], np.repeat(["a", "b", "c"], 20)


@pytest.fixture(scope="module")
def grouped(binary):
    groups = np.arange(60) // 6
    return binary[0] * (1 + groups[:, None, None]) + 10.0 * groups[:, None, None], binary[1], groups


WRAPPED = {
    "grid": GridSearchCV(make_pipeline(TensorScaler(), CP), {"tensorscaler__per": ["entry", "global"]}, cv=2),
    "grid with a scorer": GridSearchCV(CP, GRID, cv=StratifiedKFold(2), scoring=make_scorer(f1_score, pos_label="yes")),
    "randomized": RandomizedSearchCV(CP, {"mu1": [0.1, 0.5, 1.0]}, n_iter=2, cv=2, random_state=0),
    "distributions": RandomizedSearchCV(CP, {"mu1": loguniform(0.1, 1)}, n_iter=2, cv=2, random_state=0),
    "calibrated": CalibratedClassifierCV(make_pipeline(TensorScaler(), CP), cv=2),
    "isotonic": CalibratedClassifierCV(search(), method="isotonic", ensemble=False, cv=2),
    "tuned": make_pipeline(Crop(), TunedThresholdClassifierCV(CP, cv=2)),
    "threshold": make_pipeline(Crop(), FixedThresholdClassifier(CP, threshold=0.1, pos_label="yes")),
    "search": search(preparation=TensorScaler()),
}


SAID = {
    "grid": "GridSearchCV: 2 candidates by 2-fold cross-validation; chosen tensorscaler__per ",
    "randomized": "RandomizedSearchCV: 2 candidates",
    "calibrated": "mean over its 2 classifiers",
    "isotonic": "CalibratedClassifierCV: probabilities calibrated by isotonic.",
    "tuned": "TunedThresholdClassifierCV: decision threshold",
}


# ---- reports and files ----

NOT_SAVED = {
    "grid with a scorer": r"_Scorer. .*save the best_estimator_ of the search, or save it with joblib",
    "distributions": r"rv_continuous_frozen. Save the best_estimator_",
    "tuned": "TunedThresholdClassifierCV. Put a FixedThresholdClassifier with its best_threshold_ in its place",
}


@pytest.mark.parametrize("name", WRAPPED)
def test_wrapped_models_are_saved_and_reported(name, binary, tmp_path):
    X, y = binary
    model = clone(WRAPPED[name]).fit(X, y)
    if name in NOT_SAVED:
        with pytest.raises(TypeError, match=NOT_SAVED[name]):
            save_model(tmp_path / "model.skops", model)
        facts, loaded = save_model(tmp_path / "other.skops", clone(CP).fit(X, y)), model
    else:
        save_model(tmp_path / "model.skops", model, {"seed": 1})
        file = load_model(tmp_path / "model.skops")
        facts, loaded = file.facts, file.model
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert facts["sample_shape"] == list(SHAPE)
    assert facts["classes"] == ["no", "yes"]
    np.testing.assert_allclose(weight_maps(loaded), weight_maps(model))
    text = render(model_page(loaded, facts, samples_of(X, y) if name == "grid" else None))
    assert ("Pattern and weight" if name == "grid" else "Weight map") in text
    assert SAID.get(name, "Selected from" if name == "search" else "") in text


def test_commands_take_wrapped_models(binary, tmp_path):
    X, y = binary
    save_model(tmp_path / "model.skops", clone(WRAPPED["threshold"]).fit(X, y))
    np.savez(tmp_path / "data.npz", X=X, y=y)
    assert "FixedThresholdClassifier" in run("inspect", tmp_path / "model.skops").stdout
    run("predict", tmp_path / "model.skops", tmp_path / "data.npz", "-o", tmp_path / "predicted.csv")
    run("report", tmp_path / "model.skops", tmp_path / "data.npz", "-o", tmp_path / "page.html")
    assert (tmp_path / "page.html").exists()


def own_score(y, predicted):
    return float(np.mean(y == predicted))


class Own(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.n_features_in_ = 1
        return self

    def transform(self, X):
        return X


REFUSED = {
    "function": (
        make_pipeline(TensorScaler(), FunctionTransformer(lambda X: X.reshape(len(X), -1)), CP),
        r"steps of Pipeline .*FunctionTransformer\. Use tensormargin\.Tensorize",
    ),
    "function of NumPy": (make_pipeline(FunctionTransformer(np.arctan), CP), "Tensorize"),
    "scoring": (
        GridSearchCV(CP, GRID, cv=2, scoring=make_scorer(own_score)),
        r"of GridSearchCV .*_Scorer.*scoring=None.*best_estimator_",
    ),
    "own step": (
        make_pipeline(TensorScaler(), GridSearchCV(make_pipeline(Own(), CP), {"own": [Own()]}, cv=2)),
        r"of GridSearchCV .*\.Own\. Save it with joblib yourself",
    ),
}


@pytest.mark.parametrize(("model", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_is_named_with_its_place(model, said, binary, tmp_path):
    model = clone(model).fit(*binary)
    with pytest.raises(TypeError, match=said):
        save_model(tmp_path / "model.skops", model)
    assert not (tmp_path / "model.skops").exists()


def test_what_only_a_fit_uses_is_not_saved(binary, tmp_path):
    model = make_pipeline(TensorScaler(), clone(CP), memory=Memory(tmp_path / "cache", verbose=0))
    model.set_params(tensormarginclassifier__random_state=np.random.RandomState(0)).fit(*binary)
    save_model(tmp_path / "model.skops", model)
    loaded = load_model(tmp_path / "model.skops").model
    assert (loaded.memory, loaded[-1].random_state) == (None, None)
    np.testing.assert_array_equal(loaded.predict(binary[0]), model.predict(binary[0]))


def test_the_mean_of_copies_has_no_course(binary):
    model = clone(WRAPPED["calibrated"]).fit(*binary)
    with pytest.raises(ValueError, match=r"2 calibrated classifiers.*ensemble=False"):
        plot_convergence(model)
    assert ModelChain.of(model).search is None


# ---- maps in files ----


def test_several_maps_are_written_with_the_problems_last(tmp_path):
    maps = np.random.default_rng(0).standard_normal((3, 4, 5, 6))
    affine = np.diag([2.0, 2, 2, 1])
    assert save_map(tmp_path / "maps.nii.gz", maps, affine=affine) == [tmp_path / "maps.nii.gz"]
    image = nibabel.load(tmp_path / "maps.nii.gz")
    assert image.shape == (4, 5, 6, 3)
    np.testing.assert_allclose(image.get_fdata(), np.moveaxis(maps, 0, -1), rtol=1e-6)
    files = save_map(tmp_path / "each.nii.gz", maps, affine=affine, several="files")
    assert [file.name for file in files] == ["each-1.nii.gz", "each-2.nii.gz", "each-3.nii.gz"]
    for file, one in zip(files, maps, strict=True):
        np.testing.assert_allclose(nibabel.load(file).get_fdata(), one, rtol=1e-6)
        np.testing.assert_array_equal(nibabel.load(file).affine, affine)
    save_map(tmp_path / "one.nii", maps[:1])
    assert nibabel.load(tmp_path / "one.nii").shape == (4, 5, 6)
    save_map(tmp_path / "flat.nii", maps[:, 0], several="last")
    assert nibabel.load(tmp_path / "flat.nii").shape == (5, 6, 3)
    save_map(tmp_path / "maps.npy", maps, several="last")
    np.testing.assert_array_equal(np.load(tmp_path / "maps.npy"), maps)
    pictures = save_map(tmp_path / "p.png", maps[:2, 0], several="files", title=["a", "b"])
    assert [file.name for file in pictures] == ["p-1.png", "p-2.png"]
    assert all(file.exists() for file in pictures)
    with pytest.raises(ValueError, match="several must be one of"):
        save_map(tmp_path / "maps.nii", maps, several="first")
    with pytest.raises(BadFileError, match="at most four axes"):
        save_map(tmp_path / "maps.nii", maps[None])


# ---- coefficients ----


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
@pytest.mark.parametrize("preparation", [None, make_pipeline(TensorScaler(), Tensorize((2, 10)))], ids=["none", "some"])
@pytest.mark.parametrize("classes", ["binary", "three"])
def test_coefficients_of_the_search_are_for_original_samples(scheme, preparation, classes, request):
    X, y = request.getfixturevalue(classes)
    model = search(preparation=preparation, multi_class=scheme).fit(X, y)
    scores = np.tensordot(X, model.coef_, ((1, 2), (1, 2))) + model.intercept_
    np.testing.assert_allclose(scores, model.binary_scores(X), rtol=1e-6, atol=1e-8)
    assert model.coef_.dtype == model.classifier_.coef_.dtype
    several = model.weight_ if classes == "three" else [model.weight_]
    if preparation is None:
        assert model.weight_ is model.classifier_.weight_
        assert model.coef_ is model.classifier_.coef_
    else:
        np.testing.assert_array_equal(np.stack(several), model.coef_)
    assert len(model.problems_) == len(model.coef_) == len(model.intercept_)
    labels = sorted(set(y.tolist()))
    expected = [("rest", one) for one in labels] if scheme == "ovr" and classes == "three" else combinations(labels, 2)
    assert model.problems_ == model.classifier_.problems_ == list(expected)


def test_what_is_not_affine_has_no_coefficients(binary):
    model = search(preparation=make_pipeline(TensorScaler(), FunctionTransformer(np.tanh))).fit(*binary)
    for name in ("coef_", "intercept_", "weight_"):
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match=rf"FunctionTransformer.*classifier_\.{name}"):
            getattr(model, name)
    assert model.classifier_.coef_.shape == (1, *SHAPE)
    for name in ("coef_", "problems_"):
        assert not hasattr(search(), name)
        assert not hasattr(TensorMarginClassifier(), name)


def test_problems_name_numbers_as_they_are(binary):
    X, _ = binary
    y = np.arange(60) % 3 - 1
    assert TensorMarginClassifier("cp", 1).fit(X, y).problems_ == [(-1, 0), (-1, 1), (0, 1)]
    assert all(type(label) is int for pair in TensorMarginClassifier("cp", 1).fit(X, y).problems_ for label in pair)


@pytest.mark.parametrize("selector", [SelectFromModel, RFE])
def test_features_are_selected_by_coefficients(selector, binary):
    X, y = binary[0].reshape(60, -1), binary[1]
    model = make_pipeline(selector(search(preparation=MinMaxScaler()), importance_getter="auto"), CP)
    model.fit(X, y)
    chosen = model[0].get_support()
    assert 0 < chosen.sum() < 20
    np.testing.assert_allclose(affine_form(model).scores(X)[:, 0], model.decision_function(X), rtol=1e-6)


# ---- groups ----


def test_groups_reach_the_preparation(grouped):
    X, y, groups = grouped
    scaler = TensorScaler(by_group=True)
    ready = scaler.fit_transform(X, groups=groups)
    for preparation in (scaler, make_pipeline(scaler, Tensorize((20,))), [None, make_pipeline(scaler)]):
        model = search(preparation=preparation, lams=(0.1, 1), scoring="neg_log_loss").fit(X, y, groups=groups)
        assert needs_groups(model)
        assert model.score(X, y, groups=groups) > 0.8
    inside = search(preparation=scaler, lams=(0.1, 1)).fit(X, y, groups=groups)
    outside = search(lams=(0.1, 1)).fit(ready, y, groups=groups)
    np.testing.assert_allclose(inside.cv_results_["mean_test_score"], outside.cv_results_["mean_test_score"])
    np.testing.assert_allclose(inside.calibration_, outside.calibration_)
    for method in ("predict", "decision_function", "binary_scores", "predict_proba"):
        expected = getattr(outside, method)(ready)
        np.testing.assert_array_equal(getattr(inside, method)(X, groups=groups), expected)
        np.testing.assert_array_equal(getattr(inside, method)(X, groups=groups.tolist()), expected)
        with pytest.raises(ValueError, match=rf"needs groups.*{method}\(\.\.\., groups=groups\)"):
            getattr(inside, method)(X)
    with pytest.raises(ValueError, match="one entry per sample"):
        inside.predict(X, groups=groups[1:])
    with pytest.raises(ValueError, match=r"needs groups.*fit\(\.\.\., groups=groups\)"):
        search(preparation=scaler).fit(X, y)
    assert not hasattr(inside, "coef_")
    np.testing.assert_array_equal(weight_maps(inside), outside.coef_)
    np.testing.assert_array_equal(ModelChain.of(inside).samples_for_classifier(X, groups), ready)
    again = pickle.loads(pickle.dumps(inside))
    np.testing.assert_array_equal(again.predict(X, groups), inside.predict(X, groups))


def test_groups_are_routed_to_predictions(grouped):
    X, y, groups = grouped
    model = search(preparation=TensorScaler(by_group=True))
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(model, X, y, params={"groups": groups}, cv=GroupKFold(3), error_score="raise")
    assert found["test_score"].min() > 0.6


def test_evaluations_pass_groups_on(grouped):
    X, y, groups = grouped
    model = search(preparation=TensorScaler(by_group=True))
    test = permutation_test(model, X, y, groups, cv=3, n_permutations=2, random_state=0)
    assert test.score > 0.7
    inside = nested_evaluation(model, X, y, groups, 3, 1, 0)
    in_front = nested_evaluation(make_pipeline(TensorScaler(by_group=True), search()), X, y, groups, 3, 1, 0)
    np.testing.assert_array_equal(inside.predicted, in_front.predicted)
    np.testing.assert_array_equal(inside.reference_predicted, in_front.reference_predicted)
    fitted = fit_model(clone(model), X, y, groups)
    rows = predictions_of(fitted, samples_of(X, y, groups))
    np.testing.assert_array_equal(rows.predicted, fitted.predict(X, groups))
    with pytest.raises(BadFileError, match="scales by group"):
        predictions_of(fitted, samples_of(X, y))
