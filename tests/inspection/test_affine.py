"""The affine form of whole models: weights on the original samples, through other people's steps."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import shifted_classes
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA, FastICA, IncrementalPCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from tensormargin import (
    AffineForm,
    NotAffineError,
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    activation_pattern,
    affine_form,
    margin_report,
    register_pull_back,
    weight_maps,
)
from tensormargin.inspection import ModelChain, pull_backs
from tensormargin.transformers import Crop, Mask, Resize, Tensorize, TensorScaler

SHAPE = (4, 5)
CP = TensorMarginClassifier("cp", 1)
FLAT = TensorMarginClassifier("full")
SEARCH = TensorMarginClassifierCV(
    decompositions=("cp",), ranks=(1,), lams=(1,), mus=(0,), cv=2, random_state=0, preparation=TensorScaler()
)


def flat(X):
    return X.reshape(len(X), -1)


def folded(X):
    return X.reshape(len(X), *SHAPE)


FLATTEN = FunctionTransformer(flat)
GRID = {"mu1": [0.0, 1.0]}

# Steps that take vectors, and what the classifier behind them takes.
VECTOR_STEPS = {
    "standard": StandardScaler(),
    "only centred": StandardScaler(with_std=False),
    "only scaled": StandardScaler(with_mean=False),
    "minmax": MinMaxScaler((-1, 3)),
    "maxabs": MaxAbsScaler(),
    "robust": RobustScaler(),
    "robust, only centred": RobustScaler(with_scaling=False),
    "pca": PCA(6),
    "whitened": PCA(6, whiten=True),
    "incremental": IncrementalPCA(4, whiten=True),
    "svd": TruncatedSVD(5),
    "ica": FastICA(4, max_iter=500, tol=1e-2, random_state=0),
    "best": SelectKBest(k=7),
    "variance": VarianceThreshold(),
    "from a model": SelectFromModel(LogisticRegression()),
    "imputer": SimpleImputer(),
    "frozen": "frozen",
    "scaled function": FunctionTransformer(lambda X: 1e6 * X),
    "no function": FunctionTransformer(),
    "differences": FunctionTransformer(np.diff),
    "baseline": FunctionTransformer(lambda X: X - X.mean(axis=-1, keepdims=True) + 2),
    "chosen entries": FunctionTransformer(lambda X: X[:, [3, 1, 1]]),
    "single": FunctionTransformer(lambda X: X.astype(np.float32)),
}
MODELS = {
    "classifier": CP,
    "ovr": TensorMarginClassifier("cp", 1, multi_class="ovr"),
    "search": SEARCH,
    "pipelines": make_pipeline(Mask(), make_pipeline(Crop(), Resize((3, 4)), "passthrough"), make_pipeline(CP)),
    "flattened": make_pipeline(FLATTEN, StandardScaler(), FunctionTransformer(folded), CP),
    "tensorized": make_pipeline(FLATTEN, StandardScaler(), Tensorize((2, 10)), CP),
    "transposed": make_pipeline(TensorScaler(), FunctionTransformer(lambda X: X.transpose(0, 2, 1)), CP),
    "inverse": make_pipeline(FunctionTransformer(flat, inverse_func=folded), FLAT),
    "grid": GridSearchCV(CP, GRID, cv=2),
    "grid of a pipeline": GridSearchCV(make_pipeline(TensorScaler(), CP), {"tensormarginclassifier__mu1": [1]}, cv=2),
    "grid in a pipeline": make_pipeline(TensorScaler(), GridSearchCV(CP, GRID, cv=2)),
    "grid of a search": GridSearchCV(SEARCH, {"mus": [(0,)]}, cv=2),
    "randomized": RandomizedSearchCV(CP, GRID, n_iter=1, cv=2, random_state=0),
    "halving": HalvingGridSearchCV(CP, GRID, cv=2, min_resources=30, random_state=0),
    "halving randomly": HalvingRandomSearchCV(CP, GRID, cv=2, min_resources=30, random_state=0),
    "frozen": FrozenEstimator(CP),
}
BINARY_MODELS = {
    "calibrated": CalibratedClassifierCV(make_pipeline(TensorScaler(), CP), ensemble=False, cv=2),
    "calibrated search": make_pipeline(Resize((3, 3)), CalibratedClassifierCV(SEARCH, ensemble=False, cv=2)),
    "tuned": TunedThresholdClassifierCV(make_pipeline(TensorScaler(), CP), cv=2),
    "fixed": FixedThresholdClassifier(GridSearchCV(CP, GRID, cv=2), threshold=0.3),
    "threshold of a calibration": FixedThresholdClassifier(CalibratedClassifierCV(CP, ensemble=False, cv=2)),
}


@pytest.fixture(scope="module")
def binary():
    return shifted_classes(60, SHAPE)


@pytest.fixture(scope="module")
def three(binary):
    X, _ = binary
    return X + np.repeat(np.arange(3), 20)[:, None, None], np.repeat(["a", "b", "c"], 20)


def fitted(model, X, y):
    if isinstance(model, FrozenEstimator):
        return FrozenEstimator(clone(model.estimator).fit(X, y))
    return clone(model).fit(X, y)


def assert_same_scores(model, X, scores):
    form = affine_form(model)
    assert isinstance(form, AffineForm)
    assert form.weights.shape == (scores.shape[1], *X.shape[1:])
    assert form.offsets.shape == scores.shape[1:]
    by_hand = np.tensordot(X, form.weights, (range(1, X.ndim), range(1, X.ndim))) + form.offsets
    scale = np.abs(scores).max()
    np.testing.assert_allclose(by_hand, scores, rtol=1e-6, atol=1e-6 * scale)
    np.testing.assert_allclose(form.scores(X), by_hand, rtol=1e-12, atol=1e-12 * scale)
    assert np.ptp(scores) > 1e-3 * scale > 0


def new_samples(X):
    return np.random.default_rng(3).normal(5, 4, (9, *X.shape[1:]))


# ---- through steps ----


@pytest.mark.parametrize("step", VECTOR_STEPS.values(), ids=VECTOR_STEPS)
def test_forms_go_through_steps_for_vectors(step, binary):
    X, y = flat(binary[0]), binary[1]
    step = FrozenEstimator(PCA(3).fit(X)) if step == "frozen" else step
    model = make_pipeline(clone(step), FLAT).fit(X, y)
    new = new_samples(X)
    assert_same_scores(model, new, model.decision_function(new)[:, None])
    assert ModelChain.of(model).sample_shape == X.shape[1:]
    np.testing.assert_allclose(weight_maps(model), affine_form(model).weights)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("classes", ["binary", "three"])
def test_forms_give_the_scores_of_the_model(model, classes, request):
    X, y = request.getfixturevalue(classes)
    model = fitted(model, X, y)
    new = new_samples(X)
    chain = ModelChain.of(model)
    scores = chain.classifier.binary_scores(chain.samples_for_classifier(new))
    assert_same_scores(model, new, scores)
    assert ModelChain.of(model).sample_shape == SHAPE
    if classes == "binary":
        np.testing.assert_allclose(scores[:, 0], model.decision_function(new))
    elif ModelChain.of(model).classifier.multi_class_ == "ovr":
        np.testing.assert_allclose(scores, model.decision_function(new))
    assert len(ModelChain.of(model).problem_names) == scores.shape[1]
    assert not any(isinstance(step, Pipeline | FrozenEstimator) for step in ModelChain.of(model).steps)


@pytest.mark.parametrize("model", BINARY_MODELS.values(), ids=BINARY_MODELS)
def test_calibrators_and_thresholds_leave_the_scores(model, binary):
    X, y = binary
    model = clone(model).fit(X, y)
    new = new_samples(X)
    chain = ModelChain.of(model)
    assert_same_scores(model, new, chain.classifier.binary_scores(chain.samples_for_classifier(new)))
    assert ModelChain.of(model).problem_names == ["yes against no"]


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_types_of_samples_make_no_difference(dtype, binary):
    X, y = (10 * binary[0]).astype(dtype), binary[1]
    model = make_pipeline(Resize((3, 3)), TensorScaler(), CP).fit(X, y)
    form = affine_form(model)
    assert form.weights.dtype == form.offsets.dtype == np.float64
    np.testing.assert_allclose(form.scores(X)[:, 0], model.decision_function(X), rtol=1e-4, atol=1e-4)


def test_the_mean_of_calibrated_copies(binary):
    X, y = binary
    model = make_pipeline(
        Resize((3, 4)), CalibratedClassifierCV(make_pipeline(TensorScaler(), CP), ensemble=True, cv=3)
    )
    model.fit(X, y)
    copies = [one.estimator for one in model[-1].calibrated_classifiers_]
    resized = model[0].transform(X)
    mean = np.mean([one.decision_function(resized) for one in copies], axis=0)
    np.testing.assert_allclose(affine_form(model).scores(X)[:, 0], mean, rtol=1e-9)
    chain = ModelChain.of(model)
    averaged = chain.classifier
    assert averaged.n_copies_ == 3
    np.testing.assert_allclose(averaged.decision_function(chain.samples_for_classifier(X)), mean, rtol=1e-9)
    assert ModelChain.of(model).steps == (model[0],)
    report = margin_report(model, X, y)
    np.testing.assert_allclose(report.margins, np.where(y == "yes", 1, -1) * mean, rtol=1e-9)
    assert activation_pattern(model, X, y).shape == weight_maps(model).shape == (1, *SHAPE)


def test_copies_behind_steps_that_are_not_affine_have_no_mean(binary):
    X, y = binary
    model = CalibratedClassifierCV(make_pipeline(FunctionTransformer(np.tanh), CP), cv=2).fit(X, y)
    for read in (affine_form, weight_maps, lambda one: ModelChain.of(one).classifier):
        with pytest.raises(NotAffineError, match="FunctionTransformer"):
            read(model)


# ---- functions ----


def test_a_function_that_flattens_needs_the_shape_of_longer_samples(binary):
    X, y = binary[0].reshape(60, 2, 2, 5), binary[1]
    model = make_pipeline(FLATTEN, FLAT).fit(X, y)
    assert affine_form(model).weights.shape == (1, 2, 10)
    form = affine_form(model, sample_shape=[2, 2, 5])
    np.testing.assert_allclose(form.scores(X)[:, 0], model.decision_function(X))
    assert weight_maps(model, (2, 2, 5)).shape == form.weights.shape == (1, 2, 2, 5)
    assert activation_pattern(model, X).shape == (1, 2, 2, 5)
    behind = make_pipeline(TensorScaler(), FLATTEN, FLAT).fit(X, y)  # which remembers it
    assert affine_form(behind).weights.shape == (1, 2, 2, 5)


def test_large_functions_may_move_and_scale_entries_only(binary, monkeypatch):
    X, y = binary
    monkeypatch.setattr(pull_backs, "_MOST_PROBED", 100)
    moved = make_pipeline(FunctionTransformer(lambda X: -2 * flat(X)[:, ::-1]), FLAT).fit(X, y)
    np.testing.assert_allclose(affine_form(moved).scores(X)[:, 0], moved.decision_function(X))
    mixed = make_pipeline(TensorScaler(), FunctionTransformer(lambda X: X - X.mean(axis=-1, keepdims=True)), CP)
    with pytest.raises(NotAffineError, match="FunctionTransformer"):
        affine_form(mixed.fit(X, y))


NOT_AFFINE = {
    "Normalizer": Normalizer(),
    "QuantileTransformer": QuantileTransformer(n_quantiles=10),
    "PolynomialFeatures": PolynomialFeatures(),
    "tanh": FunctionTransformer(np.tanh),
    "abs": FunctionTransformer(np.abs),
    "clipped": FunctionTransformer(lambda X: np.clip(X, -100, 100)),
    "logarithm": FunctionTransformer(lambda X: np.log(np.abs(X))),
    "of all samples": FunctionTransformer(lambda X: X - X.mean(axis=0)),
    "ranks": FunctionTransformer(lambda X: X.argsort(axis=1)),
    "one entry by another": FunctionTransformer(lambda X: X / X[:, :1]),
}


@pytest.mark.parametrize("step", NOT_AFFINE.values(), ids=NOT_AFFINE)
def test_steps_that_are_not_affine_are_named(step, binary):
    X, y = flat(binary[0]), binary[1]
    model = make_pipeline(StandardScaler(), step, FLAT).fit(X, y)
    for read in (affine_form, weight_maps):
        with pytest.raises(NotAffineError, match=f"back through {type(step).__name__}"):
            read(model)
    assert activation_pattern(model, X, y).shape == (1, 20)  # needs no form
    assert margin_report(model, X, y).n_samples == 60


def test_clipping_is_refused_with_a_remedy(binary):
    model = make_pipeline(MinMaxScaler(clip=True), FLAT).fit(flat(binary[0]), binary[1])
    with pytest.raises(NotAffineError, match=r"MinMaxScaler\(clip=True\).*use clip=False"):
        affine_form(model)


class Scaled(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return 3 * X + 1


class ScaledTwice(StandardScaler):
    def transform(self, X, copy=None):
        return np.tanh(super().transform(X))


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(pull_backs, "_RULES", dict(pull_backs._RULES))


def through_scaled(step, weights):
    return 3 * weights, weights.reshape(len(weights), -1).sum(axis=1)


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("kind", [Scaled, f"{__name__}.Scaled", TransformerMixin])
def test_people_add_their_own_steps(kind, binary):
    X, y = binary
    model = make_pipeline(Scaled(), CP).fit(X, y)
    with pytest.raises(NotAffineError, match=r"through Scaled: .*register_pull_back"):
        affine_form(model)
    register_pull_back(kind, through_scaled)
    assert_same_scores(model, X, model.decision_function(X)[:, None])
    register_pull_back(kind, lambda step, weights: (2 * weights, np.zeros(len(weights))))
    with pytest.raises(NotAffineError, match="Scaled: it is not affine, as random samples show"):
        affine_form(model)


def test_a_subclass_that_does_something_else_is_noticed(binary):
    model = make_pipeline(ScaledTwice(), FLAT).fit(flat(binary[0]), binary[1])
    with pytest.raises(NotAffineError, match="ScaledTwice"):
        affine_form(model)


# ---- models that are none ----


def test_what_is_not_fitted_or_not_ours_is_refused(binary):
    X, y = binary
    for model in (CP, SEARCH, make_pipeline(TensorScaler(), CP), GridSearchCV(CP, GRID), CalibratedClassifierCV(CP)):
        with pytest.raises(NotFittedError):
            affine_form(clone(model))
    with pytest.raises(TypeError, match=r"must end in TensorMarginClassifier.*got LogisticRegression"):
        affine_form(make_pipeline(FLATTEN, LogisticRegression()).fit(X, y))
    with pytest.raises(NotFittedError, match=r"GridSearchCV has no best_estimator_.*refit=True"):
        affine_form(GridSearchCV(CP, GRID, cv=2, refit=False).fit(X, y))


def test_scaling_by_group_is_named_and_maps_refer_to_what_comes_after(binary):
    X, y = binary
    groups = np.arange(60) // 10
    resized, scaler = Resize((3, 4)), TensorScaler(by_group=True)
    ready = scaler.fit_transform(resized.fit_transform(X), groups=groups)
    model = Pipeline([("r", resized), ("s", scaler), ("c", make_pipeline(TensorScaler(), CP).fit(ready, y))])
    with pytest.raises(NotAffineError, match=r"TensorScaler\(by_group=True\)"):
        affine_form(model)
    np.testing.assert_allclose(weight_maps(model), affine_form(model[-1]).weights)
    assert activation_pattern(model, X, y, groups).shape == weight_maps(model).shape == (1, 3, 4)
