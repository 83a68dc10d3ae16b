"""Tests of nested evaluation and its intervals, and of the model steps it relies on."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from conftest import fewer_models, low_rank_classes
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from tensorly.regression import CP_PLSR

import tensormargin.evaluation.contenders as contenders_module
from tensormargin import TensorMarginAutoClassifier, TensorMarginClassifier
from tensormargin.data import NO_METADATA, Checkpoint, Metadata, Views
from tensormargin.estimators import training_set
from tensormargin.evaluation import FitPlan, check_plan, data_facts, fit_and_evaluate, nested_evaluation
from tensormargin.evaluation.contenders import (
    CPPLSClassifier,
    FlatUnit,
    candidate_scores,
    choose,
    contender,
    flat_units,
    tuned_on_splits,
)
from tensormargin.evaluation.held_out import Labelled
from tensormargin.evaluation.intervals import inflation, paired_difference, score_interval, wilson
from tensormargin.inspection import (
    ModelChain,
    fit_model,
    last_estimator,
    needs_groups,
    samples_for_last_step,
    weight_maps,
)
from tensormargin.inspection.model_steps import pipeline_steps
from tensormargin.io import BadFileError, SampleSet, load_model, save_model
from tensormargin.report.sentences import interval_explained
from tensormargin.selection import TensorMarginClassifierCV, auto_model, kept_products
from tensormargin.selection.inner_products import InnerProducts
from tensormargin.transformers import Covariances, Crop, Impute, Mask, Recipe, Resize, Tensorize, TensorScaler

SMALL = {"decompositions": ("cp",), "ranks": (1,), "lams": (0.01, 1), "mus": (0,), "cv": 3, "random_state": 0}
SHAPE = (4, 5)


PARAMETERS = {"decomposition", "rank", "lam", "mu1", "mu2", "multi_class", "class_weight"}


def search(**parameters) -> TensorMarginClassifierCV:
    return TensorMarginClassifierCV(**{**SMALL, **parameters})


@pytest.fixture(scope="module")
def binary():
    return low_rank_classes(0, 72, SHAPE, 3.0, rank=1)


@pytest.fixture(scope="module")
def groups():
    return np.arange(72) // 6  # twelve groups, both classes in each


# ---- model steps ----

MASK = np.ones(SHAPE, bool)
MASK[0] = False
INNER = make_pipeline(Crop(MASK), Resize((6, 5)), TensorScaler(), Tensorize((3, 2, 5)))
MODELS = {
    "classifier": TensorMarginClassifier("cp", 1),
    "search": search(lams=(1,)),
    "search after a scaler": search(lams=(1,), preparation=TensorScaler(0)),
    "search after a pipeline": search(lams=(1,), preparation=INNER),
    "search after a choice": search(lams=(1,), preparation=[INNER, make_pipeline(INNER, Resize((2, 2)))]),
    "pipeline": make_pipeline(Mask(MASK), TensorScaler("global"), "passthrough", TensorMarginClassifier("tt")),
    "pipeline in a pipeline": make_pipeline(TensorScaler(), INNER, TensorMarginClassifier("tucker")),
    "pipeline before a search": make_pipeline(Resize((3, 3)), search(lams=(1,), preparation=TensorScaler())),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request, binary):
    """Return each of the models, fitted."""
    return fit_model(clone(MODELS[request.param]), *binary)


def test_models_are_taken_apart(model, binary):
    X, _ = binary
    clf = ModelChain.of(model).classifier
    assert isinstance(clf, TensorMarginClassifier)
    assert ModelChain.of(model).sample_shape == SHAPE
    ready = ModelChain.of(model).samples_for_classifier(X)
    assert ready.shape == (72, *clf.sample_shape_)
    np.testing.assert_array_equal(clf.predict(ready), model.predict(X))
    np.testing.assert_array_equal(last_estimator(model).predict(samples_for_last_step(model, X)), model.predict(X))
    assert not any(isinstance(step, Pipeline) for step in ModelChain.of(model).steps)
    assert list(ModelChain.of(model).steps[: len(pipeline_steps(model))]) == pipeline_steps(model)
    assert ModelChain.of(model).samples_for_map(X) is X


def test_maps_are_weights_on_the_samples_as_they_come(model, binary):
    X, _ = binary
    maps = weight_maps(model)
    assert maps.shape == (1, *SHAPE)
    fresh = np.random.default_rng(1).normal(0, 3, X.shape)
    difference = model.decision_function(fresh) - np.tensordot(fresh, maps[0], 2)
    np.testing.assert_allclose(difference, difference[0], rtol=1e-6, atol=1e-8)
    assert np.ptp(model.decision_function(fresh)) > 0.1


def test_fitting_gives_what_scikit_learn_gives(model, binary):
    X, y = binary
    theirs = clone(model).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), theirs.decision_function(X), rtol=1e-10)


def test_groups_go_to_every_step_that_takes_them(binary, groups):
    X, y = binary
    X = X + 10.0 * groups[:, None, None]
    model = make_pipeline(TensorScaler(by_group=True), FunctionTransformer(np.tanh), search())
    ours = fit_model(clone(model), X, y, groups)
    assert needs_groups(ours)
    with sklearn.config_context(enable_metadata_routing=True):
        theirs = clone(model).fit(X, y, groups=groups)
        expected = theirs.predict(X, groups=groups)
    np.testing.assert_array_equal(last_estimator(ours).predict(samples_for_last_step(ours, X, groups)), expected)
    np.testing.assert_array_equal(ours[-1].cv_results_["mean_test_score"], theirs[-1].cv_results_["mean_test_score"])
    with pytest.raises(ValueError, match="needs groups"):
        samples_for_last_step(ours, X)
    with pytest.raises(ValueError, match="needs groups"):
        fit_model(clone(model), X, y)


def test_what_is_scaled_by_group_is_seen_after_it(binary, groups):
    X, y = binary
    model = fit_model(make_pipeline(TensorScaler(by_group=True), search(lams=(1,))), X, y, groups)
    seen = ModelChain.of(model).samples_for_map(X, groups)
    np.testing.assert_array_equal(seen, TensorScaler(by_group=True).fit_transform(X, groups=groups))
    np.testing.assert_array_equal(weight_maps(model), ModelChain.of(model).classifier.coef_)
    assert not needs_groups(make_pipeline(TensorScaler(), search()))


def test_the_last_estimators_arguments_reach_it(binary):
    told = []
    fit_model(make_pipeline(TensorScaler(), search()), *binary, progress=lambda *call: told.append(call))
    assert told[-1][:2] == (6, 6)


@pytest.mark.parametrize(
    "other", [LinearSVC(), GridSearchCV(LinearSVC(), {"C": [1.0]}, cv=GroupKFold(3))], ids=["svc", "grid"]
)
def test_other_peoples_classifiers_get_groups_only_if_they_take_them(other, binary, groups):
    X, y = binary
    fitted = fit_model(clone(other), X.reshape(72, -1), y, groups)
    assert fitted.score(X.reshape(72, -1), y) > 0.5


@pytest.mark.parametrize(
    ("labels", "scheme", "names"),
    [
        (["face", "house"], "ovo", ["house against face"]),
        ([0, 1, 2], "ovo", ["1 against 0", "2 against 0", "2 against 1"]),
        ([0, 1, 2], "ovr", ["0 against the rest", "1 against the rest", "2 against the rest"]),
    ],
)
def test_problems_have_names(labels, scheme, names, binary):
    X, _ = binary
    y = np.array(labels)[np.arange(72) % len(labels)]
    for model in (TensorMarginClassifier("cp", 1, multi_class=scheme), search(multi_class=scheme)):
        fitted = make_pipeline(TensorScaler(), model).fit(X, y)
        assert ModelChain.of(fitted).problem_names == names
        assert len(weight_maps(fitted)) == len(names)


def test_models_without_a_weight_are_refused(binary):
    X, y = binary
    with pytest.raises(
        TypeError, match=r"must end in TensorMarginClassifier or TensorMarginClassifierCV; got LinearSVC"
    ):
        ModelChain.of(LinearSVC().fit(X.reshape(72, -1), y))
    for model in (TensorMarginClassifier(), search(), make_pipeline(TensorScaler(), search())):
        with pytest.raises(NotFittedError):
            ModelChain.of(model)
        with pytest.raises(NotFittedError):
            ModelChain.of(model)
    bent = make_pipeline(FunctionTransformer(np.tanh), TensorMarginClassifier("cp")).fit(X, y)
    with pytest.raises(TypeError, match="cannot pull a weight back through FunctionTransformer"):
        weight_maps(bent)


# ---- nested evaluation ----


@pytest.mark.parametrize(("repeats", "grouped"), [(1, False), (2, False), (1, True)])
def test_every_sample_is_tested_once_a_repeat(repeats, grouped, binary, groups):
    X, y = binary
    labels = np.where(y > 0, "house", "cat")
    told = []
    found = nested_evaluation(
        search(lams=(1,)),
        X,
        labels,
        groups if grouped else None,
        cv=3,
        repeats=repeats,
        seed=4,
        progress=lambda *call: told.append(call),
    )
    assert found.predicted.shape == found.confidence.shape == found.tested.shape == (repeats, 72)
    assert found.tested.all()
    assert set(found.predicted.ravel()) == {"cat", "house"}
    assert np.all((found.confidence >= 0) & (found.confidence <= 1))
    assert [(fold.repeat, fold.fold) for fold in found.folds] == [(r, f) for r in range(repeats) for f in range(3)]
    assert all(fold.n_train + fold.n_test == 72 for fold in found.folds)
    assert found.accuracy == pytest.approx(np.mean(found.predicted == labels))
    assert found.reference == pytest.approx(np.mean(found.reference_predicted == labels))
    assert found.accuracy == pytest.approx(np.mean([fold.score for fold in found.folds]))  # folds have equal sizes
    assert found.reference == pytest.approx(np.mean([fold.reference_score for fold in found.folds]))
    assert found.accuracy > 0.75
    assert found.reference > 0.7
    assert found.interval.unit == ("group" if grouped else "sample")
    assert found.difference.unit == ("group" if grouped else "sample")
    kind = "folds that keep groups together" if grouped else "stratified folds"
    assert found.scheme == f"3 {kind}" + (", drawn 2 times" if repeats == 2 else "")
    done = [call[0] for call in told]
    assert done == sorted(done)
    assert done[-1] == pytest.approx(3 * repeats)
    assert {call[1] for call in told} == {3 * repeats}
    assert all(set(fold.chosen) == PARAMETERS for fold in found.folds)
    assert all(list(fold.reference_chosen) == ["svc__C"] for fold in found.folds)
    if repeats == 2:
        assert not np.array_equal(found.confidence[0], found.confidence[1])  # new splits


def test_each_fold_is_what_one_gets_by_hand(binary):
    X, y = binary
    splits = list(StratifiedKFold(3).split(X, y))
    model = make_pipeline(TensorScaler(), search())
    found = nested_evaluation(model, X, y, cv=splits)
    for fold, (train, test) in zip(found.folds, splits, strict=True):
        by_hand = clone(model).fit(X[train], y[train])
        np.testing.assert_array_equal(found.predicted[0, test], by_hand.predict(X[test]))
        probabilities = by_hand.predict_proba(X[test])[np.arange(len(test)), (found.predicted[0, test] > 0).astype(int)]
        np.testing.assert_array_equal(found.confidence[0, test], probabilities)
        assert fold.score == by_hand.score(X[test], y[test])
        assert fold.chosen == by_hand[-1].best_params_
    assert not hasattr(model[-1], "best_params_")  # a clone was fitted
    assert found.scheme.startswith("3 splits by ")


@pytest.mark.parametrize("preparation", [None, TensorScaler(), [None, TensorScaler()]], ids=["none", "one", "choice"])
def test_spoiling_the_test_part_changes_no_choice(preparation, binary, groups):
    """Check that the test set, samples and labels, affects neither the choice nor the fit of model and reference."""
    X, y = binary
    rng = np.random.default_rng(0)
    train, test, probe = np.arange(48), np.arange(48, 66), np.arange(66, 72)
    spoiled, labels = X.copy(), y.copy()
    spoiled[test] = 1e4 * rng.standard_normal(X[test].shape)
    labels[test] = rng.permutation(y[test])
    model = search(preparation=preparation, lams=(0.001, 10), mus=(0, 1), cv=2)
    cv = [(train, np.r_[test, probe])]
    first = nested_evaluation(model, X, y, groups, cv=cv)
    second = nested_evaluation(model, spoiled, labels, groups, cv=cv)
    assert repr(first.folds[0].chosen) == repr(second.folds[0].chosen)
    assert repr(first.folds[0].reference_chosen) == repr(second.folds[0].reference_chosen)
    np.testing.assert_array_equal(first.predicted[0, probe], second.predicted[0, probe])
    np.testing.assert_array_equal(first.confidence[0, probe], second.confidence[0, probe])
    assert not first.tested[0, train].any()
    assert first.tested[0, 48:].all()


def test_groups_stay_together_in_outer_and_inner_splits(binary, groups):
    X, y = binary
    X = X.copy()
    X[:, 0, 0] = np.arange(72)  # identifies the samples
    parts = []

    class Watched(TensorMarginClassifierCV):
        def fit(self, X, y, groups=None, **keywords):
            parts.append((X[:, 0, 0].astype(int), groups))
            return super().fit(X, y, groups, **keywords)

    def scorer(estimator, X_test, y_test):
        parts.append((X_test[:, 0, 0].astype(int), None))
        return 1.0

    nested_evaluation(Watched(**{**SMALL, "lams": (1,)}, scoring=scorer), X, y, groups, cv=3)
    outer = [part for part in parts if part[1] is not None]
    assert len(outer) == 3
    assert len(parts) == 3 + 9
    for rows, given in outer:
        np.testing.assert_array_equal(given, groups[rows])
        assert not set(groups[rows]) & set(np.delete(groups, rows))
    for rows, given in parts:
        if given is None:  # inner test sets consist of whole groups
            assert all(np.sum(groups[rows] == group) == 6 for group in groups[rows])


def test_a_sample_in_no_test_part_has_no_prediction(binary):
    X, y = binary
    cv = [(np.arange(0, 40), np.arange(40, 60))]
    found = nested_evaluation(search(lams=(1,)), X, y, cv=cv)
    np.testing.assert_array_equal(np.flatnonzero(found.tested[0]), np.arange(40, 60))
    assert np.isnan(found.confidence[0, 60:]).all()
    assert found.interval.n_units == 20


def test_scaling_by_group_is_done_in_front_of_both(binary, groups):
    X, y = binary
    far = X + 100.0 * groups[:, None, None]
    model = make_pipeline(TensorScaler(by_group=True), search(lams=(1,)))
    found, same = (nested_evaluation(model, samples, y, groups, cv=3) for samples in (far, X))
    np.testing.assert_array_equal(found.predicted, same.predicted)
    assert found.reference == same.reference > 0.7


@pytest.fixture(scope="module")
def uneven():
    """Return 60 samples of overlapping classes, a third of them in one class, and groups of 2 to 13."""
    X, y = low_rank_classes(3, 80, SHAPE, 2.0, rank=1)
    kept = np.r_[np.flatnonzero(y < 0), np.flatnonzero(y > 0)[:20]]
    groups = np.random.default_rng(2).permutation(np.repeat(np.arange(8), [2, 13, 5, 11, 3, 12, 6, 8]))
    return X[kept], np.where(y[kept] > 0, "rare", "frequent"), groups


@pytest.mark.parametrize("score", ["accuracy", "balanced_accuracy"])
def test_the_score_is_that_of_all_held_out_predictions(score, uneven):
    X, y, groups = uneven
    found = nested_evaluation(search(lams=(1,)), X, y, groups, cv=4, score=score)
    assert len({fold.n_test for fold in found.folds}) > 1
    right, theirs = found.predicted[0] == y, found.reference_predicted[0] == y
    assert 0 < right.sum() < 60
    assert found.accuracy == pytest.approx(right.mean())
    assert found.accuracy != pytest.approx(np.mean([np.mean(right[groups == group]) for group in range(8)]))
    assert found.balanced_accuracy == pytest.approx(np.mean([right[y == name].mean() for name in np.unique(y)]))
    strata = y if score == "balanced_accuracy" else None
    assert found.n_train == 45.0  # four folds of sixty samples
    assert found.interval == score_interval(right, groups, strata, 45.0)
    assert found.interval.score == pytest.approx(getattr(found, score))
    assert found.difference == paired_difference(right * 1.0, theirs * 1.0, groups, strata, n_train=45.0)


def test_the_reference_is_balanced_as_the_model_is(uneven, monkeypatch):
    X, y, _ = uneven
    tuned_by, fitted = [], []

    def watched(one, *arguments):
        tuned_by.append(arguments[3])
        fitted.append(one.estimator.named_steps["svc"].class_weight)
        return tuned_on_splits(one, *arguments)

    monkeypatch.setattr("tensormargin.evaluation.references.tuned_on_splits", watched)
    plan = FitPlan(decomposition="cp", rank=1, folds=2, outer_folds=2, class_weight="balanced")
    found = nested_evaluation(plan.model(None), X, y, cv=2)
    assert tuned_by == ["balanced_accuracy"] * 2
    assert fitted == ["balanced"] * 2
    assert found.score == "balanced_accuracy"
    difference = found.balanced_accuracy - found.reference_balanced_accuracy
    assert found.difference.difference == pytest.approx(difference)
    plain = nested_evaluation(FitPlan(decomposition="cp", rank=1, folds=2).model(None), X, y, cv=2)
    assert (plain.score, tuned_by[2:], fitted[2:]) == ("accuracy", ["accuracy"] * 2, [None] * 2)


def test_the_reference_takes_the_samples_as_they_are_and_the_matched_one_the_chosen_representation():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.standard_normal((60, 4, 30)) * (1 + 2 * y[:, None, None] * (np.arange(4) == 1)[:, None])
    before = TensorScaler("global")
    tried = [before, Pipeline([("before", before), ("representation", Covariances())])]
    model = TensorMarginClassifierCV(("full",), (None,), (1.0,), (1,), tried, cv=3, random_state=0)
    splits = list(StratifiedKFold(3).split(X, y))
    found = nested_evaluation(model, X, y, cv=splits)
    assert found.matched.accuracy > 0.9 > 0.8 > found.reference
    for fold, (train, test) in zip(found.folds, splits, strict=True):
        inner = clone(model).set_params(preparation=None).splits(y[train], X=X[train])
        for own, predicted in ((tried[0], found.reference_predicted), (tried[1], found.matched_predicted)):
            flat = contender("LinearSVC").behind(own)
            best = choose(flat, candidate_scores(flat, Labelled(X[train], y[train]), inner).T).estimator
            np.testing.assert_array_equal(predicted[0, test], best.fit(X[train], y[train]).predict(X[test]))
        assert list(fold.reference_chosen) == ["method__svc__C"]
        assert type(fold.matched_chosen["preparation"][-1]) is Covariances
        assert fold.matched_score == np.mean(found.matched_predicted[0, test] == y[test])
    right, theirs = found.right[0], (found.matched_predicted[0] == y) * 1.0
    assert found.matched.difference == paired_difference(right, theirs, n_train=found.n_train)
    assert "LinearSVC on the chosen representation" in repr(found)
    alone = nested_evaluation(clone(model).set_params(preparation=before), X, y, cv=splits)
    assert alone.matched is None
    np.testing.assert_array_equal(alone.reference_predicted, found.reference_predicted)


def test_views_that_the_search_leaves_out_are_left_out_of_the_matched_reference():
    rng = np.random.default_rng(0)
    y = np.arange(48) % 2
    X = Views(good=rng.standard_normal((48, 3, 4)) + 1.5 * y[:, None, None], noise=rng.standard_normal((48, 60)))
    model = TensorMarginClassifierCV(("full",), (None,), (1.0,), (1,), cv=3, random_state=0)
    found = nested_evaluation(model, X, y, cv=2)
    left_out = [
        fold.chosen["view_scale"] != "equal" and fold.chosen["view_scale"]["noise"] == 0 for fold in found.folds
    ]
    assert any(left_out)
    assert [bool(fold.matched_chosen) for fold in found.folds] == left_out
    assert found.matched.accuracy >= found.reference


def test_samples_that_cannot_be_flattened_have_the_matched_reference_only(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(36) % 2
    X = rng.standard_normal((36, 4, 5)) + 1.5 * y[:, None, None]
    X[:, 0, 0] = np.nan
    model = TensorMarginClassifierCV(("full",), (None,), (1.0,), (1,), cv=3, random_state=0)
    model.set_params(preparation=[Impute(), make_pipeline(Impute(), TensorScaler())])
    checkpoint = Checkpoint(tmp_path)
    found, again = (nested_evaluation(model, X, y, cv=2, checkpoint=checkpoint) for _ in range(2))
    assert found.matched is None
    assert found.reference > 0.9
    for one in (*found.folds, *again.folds):
        assert repr(one.reference_chosen["preparation"]) == repr(one.chosen["preparation"])


def test_the_reference_is_tuned_on_the_splits_of_the_search():
    y = np.arange(40) % 2
    X = np.random.default_rng(0).standard_normal((40, 3, 4))
    search = TensorMarginClassifierCV(("cp",), (1,), lams=(1,), mus=(1,), cv=4, random_state=3).fit(X, y)
    rows = np.concatenate([test for _, test in search.splits(y)])
    np.testing.assert_array_equal(np.sort(rows), np.arange(40))
    other = TensorMarginClassifierCV(cv=4, random_state=4)
    assert any(np.any(a[1] != b[1]) for a, b in zip(search.splits(y), other.splits(y), strict=True))


@pytest.mark.parametrize("by_group", [False, True])
def test_the_reference_is_tuned_on_inner_products_of_the_search(by_group, monkeypatch):
    """They take the place of the preparation, and lead to the same scores, up to single precision, and choices."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 3, 40)), np.arange(30) % 2
    X[y == 1, 0, :20] *= 1.6
    X[:, 2] *= 1e3
    table, known = [], []

    def scores(*given):
        table.append(candidate_scores(*given))
        known.extend(one is not None for one in given[6])
        return table[-1]

    monkeypatch.setattr(contenders_module, "candidate_scores", scores)
    model = TensorMarginAutoClassifier(kind="series", lams=(1,), mus=(1,), random_state=0)
    given = {"cv": 2, "seed": 0, "groups": np.arange(30) // 2 if by_group else None}
    found = nested_evaluation(model, X, y, **given)
    assert known == ([True] * 5 + [False] * 5) * 2  # the chosen representation, then the samples as they are
    monkeypatch.setattr(kept_products, "key", lambda *_: None)
    again = nested_evaluation(model, X, y, **given)
    assert not any(known[20:])
    np.testing.assert_allclose(table[:4], table[4:], atol=1e-12)
    np.testing.assert_array_equal(found.matched_predicted, again.matched_predicted)
    assert [str(fold.matched_chosen) for fold in found.folds] == [str(fold.matched_chosen) for fold in again.folds]
    assert not kept_products._kept


def test_inner_products_are_those_of_the_same_samples_labels_and_groups():
    rng = np.random.default_rng(0)
    X, y, rows = rng.standard_normal((12, 3, 4)), np.arange(12) % 2, (np.arange(8), np.arange(8, 12))
    groups, scaled = Metadata(np.arange(12) // 2), TensorScaler()
    samples = Labelled(X, y, groups)
    assert kept_products.key(samples, rows, scaled) is None  # nobody would use them
    with kept_products:
        names = [
            kept_products.key(Labelled(*one), split, preparation)
            for one, split, preparation in (
                ((X, y, groups), rows, scaled),
                ((X + 1, y, groups), rows, scaled),
                ((X, 1 - y, groups), rows, scaled),
                ((X, y, NO_METADATA), rows, scaled),
                ((X, y, groups), rows[::-1], scaled),
                ((X, y, groups), rows, TensorScaler(per=0)),
            )
        ]
        assert len(set(names)) == len(names)
        assert names[0] == kept_products.key(Labelled(X.copy(), y.copy(), groups), rows, clone(scaled))
        assert kept_products.key(Labelled(Views(a=X), y, groups), rows, scaled) is None


def test_inner_products_give_the_vectors_of_a_flat_method():
    """Up to a rotation, those of views side by side that are centred and scaled by themselves."""
    rng = np.random.default_rng(0)
    views = Views(a=5.0 + rng.standard_normal((12, 4, 9)), b=1e3 * rng.standard_normal((12, 30)))
    train, test = views[:8], views[8:]
    unit = FlatUnit()
    expected = unit.fit_transform(train), unit.transform(test)
    exact = TensorMarginClassifier(tol=1e-6)
    products = InnerProducts(training_set(exact, train, np.arange(8) % 2, None), test, exact)
    found = flat_units(*products.side_by_side())
    for one in (0, 1):
        assert found[one].shape == expected[one].shape
        np.testing.assert_allclose(found[one] @ found[0].T, expected[one] @ expected[0].T, atol=1e-8)


def test_labels_and_groups_are_taken_by_position(uneven):
    """Check containers of all kinds, whatever their index."""
    pandas = pytest.importorskip("pandas")
    X, y, groups = uneven
    index = np.random.default_rng(0).permutation(60)
    model = search(lams=(1,), cv=2)
    expected = nested_evaluation(model, X, y, groups, cv=2)
    for labels, own in (
        (pandas.Series(y, index=index), pandas.Series(groups, index=index)),
        (pandas.Series(y, index=index, dtype="string"), pandas.Series(groups, index=index, dtype="Int64")),
        (y.tolist(), groups.tolist()),
    ):
        found = nested_evaluation(model, X, labels, own, cv=2)
        np.testing.assert_array_equal(found.predicted, expected.predicted)
        assert found.interval == expected.interval


def test_folds_that_lack_a_class_say_so(uneven):
    """Samples of a class that is not in the training set cannot be predicted correctly."""
    X, y, _ = uneven
    y = np.r_[y[:54], ["late"] * 6]
    splits = [(np.arange(54), np.arange(54, 60)), (np.arange(6, 60), np.arange(6))]
    found = nested_evaluation(search(lams=(1,), cv=2), X, y, cv=splits)
    first, second = found.folds
    assert (first.unseen, first.absent, first.score) == (("late",), ("frequent", "rare"), 0.0)
    assert (second.unseen, second.absent) == ((), ("late", "rare"))


def test_training_parts_that_are_too_small_are_refused_before_any_work(binary):
    X, y = binary
    few = np.r_[y[:-2], 7, 7]
    told = []
    with pytest.raises(ValueError, match="2 samples of each class"):
        nested_evaluation(search(), X, few, cv=2, progress=lambda *call: told.append(call))
    assert not told


# ---- fit and evaluate ----


@pytest.fixture(autouse=True, scope="module")
def _few_models():
    """Let plans try two pairs of strengths: choosing among many models is tested with the search."""
    with fewer_models():
        yield


@pytest.fixture(scope="module")
def samples(binary, groups):
    X, y = binary
    names = [f"{number}.png" for number in range(72)]
    labels = np.where(y > 0, "house", "cat")
    return SampleSet(X.astype(np.float32), labels, groups, names, np.eye(4), "folder", "images", ("a note",))


PLANS = {
    "plain": FitPlan(decomposition="cp", rank=2, folds=2, outer_folds=2),
    "tuple": FitPlan(decomposition="tucker", rank=(2, 2), folds=2, outer_folds=2, repeats=2, rule="simplest"),
    "prepared": FitPlan(
        recipe=Recipe(crop="varying", scale="mode 1", resize=(4, 4), tensorize=(2, 2, 4)),
        folds=2,
        outer_folds=2,
        class_weight="balanced",
    ),
    "by group": FitPlan(decomposition="full", recipe=Recipe(by_group=True, mask="varying"), folds=2, outer_folds=0),
    "chance": FitPlan(decomposition="cp", rank=1, folds=2, outer_folds=0, permutations=2),
    "auto": FitPlan(auto=True, folds=2, outer_folds=2),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_what_is_noted_is_json_and_true(plan, samples, tmp_path):
    check_plan(samples, plan)
    told = []
    fitted = fit_and_evaluate(samples, plan, progress=lambda *call: told.append(call))
    about = json.loads(json.dumps(fitted.about, allow_nan=False))
    assert about["data"]["n_samples"] == 72
    assert about["data"]["classes"] == [{"label": "cat", "count": 36}, {"label": "house", "count": 36}]
    assert about["data"]["n_groups"] == 12
    assert about["plan"]["folds"] == 2
    assert about["affine"] == np.eye(4).tolist()
    assert len(about["preparation"]["words"]) == len(plan.recipe.words())
    last = last_estimator(fitted.model)
    assert about["search"]["best_score"] == last.best_score_
    assert about["search"]["best"]["lam"] == last.best_params_["lam"]
    assert about["search"]["n_models"] == len(last.cv_results_["params"])
    assert (about["evaluation"] is None) == (plan.outer_folds == 0)
    if about["evaluation"]:
        check_evaluation(about["evaluation"], plan)
    assert (about["chance"] is None) == (plan.permutations == 0)
    if about["chance"]:
        assert about["chance"]["p_value"] == 1 / 3
        assert about["chance"]["score"] > 0.7
        assert about["chance"]["exchanged"] == "labels within groups"
        assert len(about["chance"]["permuted"]) == 2
    shares = [done / total for done, total, _ in told]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    save_model(tmp_path / "model.skops", fitted.model, fitted.about)
    loaded = load_model(tmp_path / "model.skops")
    assert loaded.facts["about"] == about
    ready = samples_for_last_step(loaded.model, samples.data, samples.groups)
    assert last_estimator(loaded.model).score(ready, samples.target) > 0.7
    maps = weight_maps(loaded.model)
    if plan.auto:  # representations as views; those of a kernel have no map
        assert set(maps) == set(last_estimator(loaded.model).classifier_.coef_) - {"kernel_of_entries"}
        assert maps["entries_scaled"].shape == (1, *SHAPE)
    else:
        assert maps.shape == (1, *SHAPE)


def check_evaluation(evaluation, plan):
    rows = evaluation["samples"]
    assert [row["sample"] for row in rows] == plan.repeats * [f"{number}.png" for number in range(72)]
    assert [row["group"] for row in rows] == plan.repeats * (np.arange(72) // 6).tolist()
    assert [row["repeat"] for row in rows] == np.repeat(np.arange(plan.repeats), 72).tolist()
    assert all(0 <= row["probability"] <= 1 for row in rows)
    assert len(evaluation["folds"]) == 2 * plan.repeats
    right = np.array([row["label"] == row["predicted"] for row in rows])
    assert evaluation["accuracy"] == pytest.approx(np.mean(right), abs=1e-12)
    of_classes = [np.mean(right[[row["label"] == name for row in rows]]) for name in ("cat", "house")]
    assert evaluation["balanced_accuracy"] == pytest.approx(np.mean(of_classes), abs=1e-12)
    name = "balanced accuracy" if plan.class_weight else "accuracy"
    assert evaluation["score"] == {"name": name, "value": pytest.approx(evaluation[name.replace(" ", "_")])}
    assert (evaluation["unit"], evaluation["n_units"]) == ("group", 12)
    assert evaluation["interval"][0] <= evaluation["score"]["value"] <= evaluation["interval"][1]
    gain = evaluation["score"]["value"] - evaluation["reference"]["score"]
    assert evaluation["difference"]["difference"] == pytest.approx(gain)
    assert evaluation["difference"]["unit"] == "group"
    assert evaluation["majority"] == {"label": "cat", "accuracy": 0.5, "score": 0.5}


def test_the_model_is_fitted_to_everything_and_its_score_is_not_the_evaluation(samples):
    plan = PLANS["plain"]
    fitted = fit_and_evaluate(samples, plan)
    by_hand = plan.model(None).fit(samples.data, samples.target, groups=samples.groups)
    np.testing.assert_array_equal(fitted.model.predict_proba(samples.data), by_hand.predict_proba(samples.data))
    evaluation = nested_evaluation(plan.model(None), samples.data, samples.target, samples.groups, cv=2, seed=plan.seed)
    assert fitted.about["evaluation"]["accuracy"] == evaluation.accuracy


def test_samples_in_no_test_part_are_not_listed(samples, monkeypatch):
    """Folds whose training set would lack a class are skipped; their samples have no prediction to show."""
    found = nested_evaluation(search(lams=(1,)), samples.data, samples.target, samples.groups, cv=3)
    tested = found.tested.copy()
    tested[0, :10] = False
    monkeypatch.setattr(
        "tensormargin.evaluation.workflow.nested_evaluation", lambda *_, **__: replace(found, tested=tested)
    )
    rows = fit_and_evaluate(samples, PLANS["plain"]).about["evaluation"]["samples"]
    assert [row["sample"] for row in rows] == [f"{number}.png" for number in range(10, 72)]
    assert [row["predicted"] for row in rows] == found.predicted[0, 10:].tolist()


def test_few_groups_have_no_interval_and_json_says_null(samples, monkeypatch):
    few = replace(samples, groups=np.arange(72) // 18)
    evaluation = fit_and_evaluate(few, PLANS["plain"]).about["evaluation"]
    evaluation = json.loads(json.dumps(evaluation, allow_nan=False))
    assert (evaluation["unit"], evaluation["n_units"]) == ("group", 4)
    assert evaluation["interval"] == evaluation["reference"]["interval"] == [None, None]
    assert evaluation["difference"]["low"] is None
    assert not evaluation["difference"]["significant"]


def test_the_interval_of_one_fold_is_wilsons(samples, monkeypatch):
    found = nested_evaluation(search(lams=(1,)), samples.data, samples.target, cv=[(np.arange(48), np.arange(48, 72))])
    monkeypatch.setattr("tensormargin.evaluation.workflow.nested_evaluation", lambda *_, **__: found)
    evaluation = fit_and_evaluate(samples, PLANS["plain"]).about["evaluation"]
    assert evaluation["n_tested"] == 24
    assert evaluation["n_untested"] == 48
    share = evaluation["accuracy"]
    number = 24 / inflation((24 * share + 2) / 28, 24 / 48)
    assert evaluation["interval"] == pytest.approx(wilson(share, number))
    said = interval_explained(evaluation)
    assert said.startswith("The interval is for the accuracy to be expected on new samples like these")
    assert said.endswith("It is Wilson's, corrected for overlapping training sets (Nadeau and Bengio 2003).")
    assert "training sets of this size (48 samples)" in said
    assert interval_explained({**evaluation, "interval": [None, None]}) == ""
    del evaluation["interval_method"]
    assert interval_explained(evaluation) == ""  # nothing is claimed of an interval from an older version


def test_facts_of_data_without_labels(samples):
    facts = data_facts(replace(samples, target=None, groups=None))
    assert facts["classes"] == []
    assert facts["n_groups"] is None
    assert facts["sample_shape"] == [4, 5]
    assert facts["minimum"] == float(samples.data.min())
    with pytest.raises(BadFileError, match="has no labels"):
        fit_and_evaluate(replace(samples, target=None), PLANS["plain"])


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (FitPlan(decomposition="tucker", rank=(2, 2, 2)), "one number per mode"),
        (FitPlan(decomposition="cp", rank=(2, 2)), "a CP rank is one whole number"),
        (FitPlan(decomposition="tt", rank=(4, 4), recipe=Recipe(resize=(3, 3))), "Tensor-Train rank"),
        (FitPlan(recipe=Recipe(tensorize=(7, 3))), "as many entries as the samples"),
        (FitPlan(recipe=Recipe(resize=(3, 3, 3))), "first modes of samples of shape"),
        (FitPlan(recipe=Recipe(scale="mode 3")), "must be from 1 to 2"),
        (FitPlan(recipe=Recipe(scale="loud")), "scale .--scale. must be"),
        (FitPlan(recipe=Recipe(by_group=True, mask="bright")), "after scaling by group"),
    ],
)
def test_plans_that_cannot_be_are_refused_before_any_work(plan, said, samples):
    with pytest.raises(ValueError, match=said):
        check_plan(samples, plan)


def test_by_group_needs_groups_to_fit(samples):
    plan = FitPlan(recipe=Recipe(by_group=True))
    with pytest.raises(ValueError, match=r"folder: scaling by group \(--by-group\) needs groups"):
        fit_and_evaluate(replace(samples, groups=None), plan)


def test_the_automatic_model_chooses_the_scaling_after_what_is_given():
    model = auto_model(cv=3)
    none, scaled = model.preparation
    assert none is None
    assert isinstance(scaled, TensorScaler)
    assert (model.cv, model.random_state) == (3, 0)
    before, both = auto_model(preparation=Crop()).preparation
    assert isinstance(before, Crop)
    assert [type(step) for _, step in both.steps] == [Crop, TensorScaler]
    by_hand = FitPlan(auto=True, recipe=Recipe(scale="global")).model(None)
    assert by_hand.preparation.per == "global"  # no choice if the scaling is given


# ---- peers ----


@parametrize_with_checks([CPPLSClassifier()])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_partial_least_squares_is_tensorlys(n_classes, scale):
    images, labels = load_digits(n_class=n_classes, return_X_y=True)
    X, y = images[:160].reshape(-1, 8, 8), np.array(list("abcd"))[labels[:160]]
    ours = CPPLSClassifier(n_components=3).fit(scale * X[:100], y[:100])
    theirs = CP_PLSR(3)
    theirs.fit(X[:100], np.eye(n_classes)[labels[:100]])
    expected = theirs.predict(X[100:])
    scores = ours.decision_function(scale * X[100:])
    wanted = expected[:, 1] - expected[:, 0] if n_classes == 2 else expected
    np.testing.assert_allclose(scores, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(ours.predict(scale * X[100:]), np.array(list("abcd"))[expected.argmax(axis=1)])
    assert ours.n_parameters_ == 3 * (8 + 8) + theirs.coef_.size
    with pytest.raises(ValueError, match="shape seen in fit"):
        ours.predict(X[:, :7])


def test_partial_least_squares_stops_where_samples_are_exhausted():
    rng = np.random.default_rng(0)
    X = np.multiply.outer(rng.standard_normal(30), rng.standard_normal((3, 4)))  # one direction only
    y = X[:, 0, 0] > 0
    clf = CPPLSClassifier(n_components=5).fit(X, y)
    assert np.all(np.isfinite(clf.decision_function(X)))
    assert clf.score(X, y) > 0.8
    with pytest.raises(ValueError, match="all samples are the same"):
        CPPLSClassifier().fit(np.ones((10, 3, 3)), np.arange(10) % 2)
    with pytest.raises(ValueError, match="got one class"):
        CPPLSClassifier().fit(X, np.zeros(30))
