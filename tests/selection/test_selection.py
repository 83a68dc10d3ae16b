"""Tests of the search: candidates, scores, the choice, and calibrated probabilities."""

from __future__ import annotations

import re
from itertools import permutations
from types import MappingProxyType

import numpy as np
import pytest
import sklearn
from click.testing import CliRunner
from conftest import low_rank_classes
from estimator_checks import every_check
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    StratifiedKFold,
    cross_validate,
)
from sklearn.pipeline import Pipeline

from tensormargin import TensorMarginClassifier, any_scale, margin_report
from tensormargin.cli import main
from tensormargin.estimators import fit_steps
from tensormargin.evaluation import FitPlan
from tensormargin.fitting import FORMATS, calibrate, class_probabilities
from tensormargin.fitting.calibration import counted, couple, fit_sigmoid
from tensormargin.report.model_report import chosen_section
from tensormargin.runtime import to_host, tuning
from tensormargin.selection import DEFAULT_RULE, TensorMarginClassifierCV, auto_model, splits_of
from tensormargin.selection.grid import DECOMPOSITIONS, Candidate, candidates, schemes_of, weights
from tensormargin.selection.race import Race
from tensormargin.selection.runner import SearchRunner
from tensormargin.selection.scoring import Result, select_candidate, tabulate
from tensormargin.transformers import Crop, Recipe, Resize, Tensorize, TensorScaler

SMALL = {"decompositions": ("cp",), "ranks": (1,), "lams": (1,), "mus": (0,), "cv": 3}
SMALL |= {"multi_class": "ovo", "random_state": 0}


PLAIN = {"rule": "best", "exhaustive": True}


def search(**parameters) -> TensorMarginClassifierCV:
    return TensorMarginClassifierCV(**{**SMALL, **parameters})


@every_check(
    [
        TensorMarginClassifierCV(("cp", "full"), lams=(1,), mus=(1,), ranks=(1,), multi_class="ovr", cv=2),
        # With "auto" the predicted class is not always the most probable one, as a check wants it.
        TensorMarginClassifierCV(
            ("full",), lams=(1,), mus=(1,), ranks=(1,), multi_class="ovo", cv=2, preparation=Tensorize()
        ),
    ]
)
@pytest.mark.filterwarnings("ignore::tensormargin.LeakageWarning")  # some checks repeat samples
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def binary():
    return low_rank_classes(0, 90, (4, 5, 3), 3.0, rank=1)


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits(n_class=3, return_X_y=True)
    noise = np.random.default_rng(0).normal(0, 6, (150, 8, 8))
    return images[:150].reshape(-1, 8, 8) + noise, np.array(["zero", "one", "two"])[labels[:150]]


@pytest.fixture(scope="module")
def fitted(binary):
    return TensorMarginClassifierCV(
        ranks=(1, 2), lams=(10, 0.1, 1), mus=(0, 1), cv=2, random_state=3, rule="best", exhaustive=True
    ).fit(*binary)


# ---- results table ----

PARAMETERS = ("decomposition", "rank", "lam", "mu1", "mu2", "multi_class", "class_weight")


def test_results_have_scikit_learns_columns(fitted):
    results = fitted.cv_results_
    n_models = (1 + 2 + 1 + 1) * 2 * 3  # full; cp of rank 1 and 2; tucker and tt of rank 2
    names = {f"{kind}_{what}" for kind in ("mean", "std") for what in ("fit_time", "score_time", "test_score")}
    names |= {f"param_{name}" for name in PARAMETERS}
    names |= {f"split{k}_test_score" for k in range(2)} | {"params", "rank_test_score"}
    names |= {"n_parameters", "mean_margin_bound", "asked_rank"}
    names |= {"smoothed_test_score", "n_splits_done", "dropped"}
    assert set(results) == names
    assert {len(column) for column in results.values()} == {n_models}
    assert fitted.n_splits_ == 2
    by_split = np.stack([results[f"split{k}_test_score"] for k in range(2)])
    np.testing.assert_allclose(results["mean_test_score"], by_split.mean(axis=0), rtol=1e-15)
    np.testing.assert_allclose(results["std_test_score"], by_split.std(axis=0), atol=1e-15)
    means = results["mean_test_score"]
    np.testing.assert_array_equal(results["rank_test_score"], [1 + np.sum(means > one + 1e-15) for one in means])
    assert np.all(results["mean_fit_time"] > 0)
    for row, params in enumerate(results["params"]):
        assert {name: results[f"param_{name}"][row] for name in params} == params


def test_params_are_settable_and_count_their_parameters(fitted, binary):
    X, y = binary
    seen = set()
    for params, count in zip(fitted.cv_results_["params"], fitted.cv_results_["n_parameters"], strict=True):
        clf = TensorMarginClassifier().set_params(**params)
        assert params["mu1"] == params["mu2"]
        key = (params["decomposition"], params["rank"])
        if key not in seen:
            assert clf.fit(X, y).n_parameters_ == count
            seen.add(key)
    assert seen == {("full", None), ("cp", 1), ("cp", 2), ("tucker", 2), ("tt", 2)}


def test_lambda_runs_upwards_within_each_model(fitted):
    lams = [params["lam"] for params in fitted.cv_results_["params"]]
    assert lams == [0.1, 1, 10] * (len(lams) // 3)


@pytest.mark.parametrize("scoring", [None, "neg_brier_like"])
def test_scores_are_those_of_grid_search(binary, scoring):
    """The flat problem is convex, so the start of a fit does not matter."""
    X, y = binary
    X = X[:, :, :, 0]
    scorer = None if scoring is None else make_scorer(_brier, response_method="decision_function")
    splits = list(StratifiedKFold(3).split(X, y))
    ours = TensorMarginClassifierCV(
        ("full",), lams=(0.01, 1), mus=(0, 1), cv=splits, scoring=scorer, tol=1e-7, max_iter=1000, **PLAIN
    ).fit(X, y)
    theirs = GridSearchCV(
        TensorMarginClassifier("full", tol=1e-7, max_iter=1000),
        [{"mu1": [mu], "mu2": [mu], "lam": [0.01, 1.0]} for mu in (0, 1)],
        cv=splits,
        scoring=scorer,
    ).fit(X, y)
    for k in range(3):
        name = f"split{k}_test_score"
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], rtol=1e-5)
    assert ours.best_params_["lam"] == theirs.best_params_["lam"]
    assert ours.best_params_["mu1"] == theirs.best_params_["mu1"]
    assert ours.best_score_ == pytest.approx(theirs.best_score_, rel=1e-5)


def _brier(y, scores):
    """Return a score that depends, however slightly, on every decision value."""
    return -float(np.mean((y - np.tanh(scores)) ** 2))


# ---- the choice ----


def test_the_best_is_chosen_and_refitted_on_everything(fitted, binary):
    X, y = binary
    results = fitted.cv_results_
    assert fitted.best_score_ == results["mean_test_score"].max()
    assert results["rank_test_score"][fitted.best_index_] == 1
    assert results["params"][fitted.best_index_] == fitted.best_params_
    best = np.flatnonzero(results["mean_test_score"] > results["mean_test_score"].max() - 1e-12)
    assert results["n_parameters"][fitted.best_index_] == results["n_parameters"][best].min()
    by_hand = TensorMarginClassifier(**fitted.best_params_).fit(X, y)
    np.testing.assert_allclose(fitted.classifier_.coef_, by_hand.coef_, rtol=1e-10)
    np.testing.assert_array_equal(fitted.decision_function(X), fitted.best_estimator_.decision_function(X))
    np.testing.assert_array_equal(fitted.predict(X), by_hand.predict(X))
    np.testing.assert_array_equal(fitted.binary_scores(X)[:, 0], fitted.decision_function(X))
    assert fitted.n_iter_ == fitted.classifier_.n_iter_
    assert fitted.score(X, y) == by_hand.score(X, y)
    assert fitted.sample_shape_ == (4, 5, 3)
    np.testing.assert_array_equal(fitted.classes_, [-1, 1])


class TestWhatIsScoredIsWhatIsRefitted:
    """Every fit starts anew, so that a candidate's scores, its calibration and its refit come from the same fits."""

    SETTINGS = MappingProxyType(
        {"decompositions": ("cp",), "ranks": (2,), "lams": (0.1, 1, 10), "mus": (0,), "random_state": 0, "rule": "best"}
    )

    @staticmethod
    def prefer_the_last(estimator, X, y):
        """Score by lambda and, with a much smaller effect, by every decision value."""
        return estimator.lam + _brier(y, to_host(estimator.decision_function(X)))

    @pytest.mark.parametrize("preparation", [None, TensorScaler()], ids=["plain", "scaled"])
    def test_scores_and_refit_are_those_of_plain_classifiers(self, preparation):
        X, y = low_rank_classes(10, 60, (6, 7), 1.0, rank=3)
        splits = list(StratifiedKFold(2).split(X, y))
        fit = TensorMarginClassifierCV(
            **self.SETTINGS, cv=splits, scoring=self.prefer_the_last, preparation=preparation
        ).fit(X, y)
        assert fit.best_params_["lam"] == 10
        one = TensorMarginClassifier(**fit.best_params_)
        plain = one if preparation is None else Pipeline([("scale", preparation), ("classifier", one)])
        for k, (train, test) in enumerate(splits):
            plain.fit(X[train], y[train])
            expected = 10 + _brier(y[test], plain.decision_function(X[test]))
            assert fit.cv_results_[f"split{k}_test_score"][2] == pytest.approx(expected, abs=1e-12)
        np.testing.assert_array_equal(fit.decision_function(X), plain.fit(X, y).decision_function(X))

    @pytest.mark.parametrize("kept", [True, False])
    def test_calibration_uses_the_scores_of_the_search(self, kept, monkeypatch):
        if not kept:
            monkeypatch.setattr(tuning, "KEPT_SCORES_BYTES", 0)
        X, y = low_rank_classes(10, 60, (6, 7), 1.0, rank=3)
        splits = list(StratifiedKFold(4, shuffle=True, random_state=3).split(X, y))
        seen = []
        original = SearchRunner.left_out_scores
        monkeypatch.setattr(
            SearchRunner, "left_out_scores", lambda self, *rest: seen.append(original(self, *rest)) or seen[-1]
        )
        fit = TensorMarginClassifierCV(**self.SETTINGS, cv=splits, scoring=self.prefer_the_last).fit(X, y)
        for k, ((_, test), scores) in enumerate(zip(splits, seen[0], strict=True)):
            assert 10 + _brier(y[test], scores[:, 0]) == fit.cv_results_[f"split{k}_test_score"][fit.best_index_]

    @pytest.mark.parametrize("bytes_kept", [0, 2**30])
    def test_no_fit_is_made_for_calibration_if_scores_are_kept(self, binary, monkeypatch, bytes_kept):
        monkeypatch.setattr(tuning, "KEPT_SCORES_BYTES", bytes_kept)
        count = fits_of(monkeypatch)
        search(cv=3).fit(*binary)
        assert len(count) == 3 + 1 + (3 if bytes_kept == 0 else 0)

    def test_on_a_device(self, put):
        X, y = low_rank_classes(10, 20, (4, 4), 3.0, rank=3)
        splits = list(StratifiedKFold(2).split(X, y))
        fit = TensorMarginClassifierCV(**self.SETTINGS, cv=splits, scoring=self.prefer_the_last).fit(put(X), y)
        plain = TensorMarginClassifier(**fit.best_params_, solver="device").fit(put(X), y)
        np.testing.assert_allclose(to_host(fit.classifier_.objective_), to_host(plain.objective_), rtol=fit.tol)
        assert fit.classifier_.solver == "auto"


def fits_of(monkeypatch):
    """Return a list that grows by one entry per fit of a classifier, in a search or alone."""
    calls = []
    original = fit_steps.specify
    monkeypatch.setattr(fit_steps, "specify", lambda *rest: calls.append(1) or original(*rest))
    return calls


def table(means, spreads, sizes):
    return {
        "mean_test_score": np.array(means, float),
        "std_test_score": np.array(spreads, float),
        "n_parameters": np.array(sizes),
        "dropped": [""] * len(sizes),
    }


@pytest.mark.parametrize(
    ("means", "spreads", "sizes", "best", "simplest"),
    [
        ([0.7, 0.9, 0.8], [0.1, 0.0, 0.1], [1, 9, 3], 1, 1),  # the best has no spread: no slack
        ([0.7, 0.9, 0.8], [0.0, 0.2, 0.0], [1, 9, 3], 1, 2),  # slack 0.2 / sqrt(4 - 1) = 0.115
        ([0.7, 0.9, 0.8], [0.0, 0.4, 0.0], [1, 9, 3], 1, 0),
        ([0.9, 0.9, 0.9], [0.0, 0.0, 0.0], [5, 3, 3], 1, 1),  # ties: fewest parameters, then the first
        ([0.9, 0.9 + 1e-15, 0.9], [0.0, 0.0, 0.0], [5, 9, 3], 2, 2),  # differences by rounding are ties
        ([0.5, 0.9, 0.8], [9.0, 0.0, 9.0], [1, 9, 3], 1, 1),  # only the spread of the best counts
        ([-3.0, -2.0, -2.5], [0.0, 1.2, 0.0], [1, 9, 3], 1, 2),  # scores may be negative
    ],
)
def test_which_row_is_taken(means, spreads, sizes, best, simplest):
    assert select_candidate(table(means, spreads, sizes), 4, rule="best") == best
    assert select_candidate(table(means, spreads, sizes), 4, rule="simplest") == simplest


@pytest.mark.parametrize(
    ("bounds", "row"),
    [
        ([0.1, 0.3, 0.2], 2),  # the first is not within one standard error; margins decide between the others
        ([0.1, 0.2, 0.3], 1),
        ([0.1, 0.2, 0.2], 2),  # ties: fewest parameters
    ],
)
def test_margins_decide_within_one_standard_error(bounds, row):
    results = table([0.7, 0.9, 0.8], [0.0, 0.2, 0.0], [1, 9, 3]) | {"mean_margin_bound": np.array(bounds)}
    assert select_candidate(results, 4, rule="margins") == row


@pytest.mark.parametrize("weighted", [False, True])
def test_the_margin_bound_is_cantellis_of_the_validation_samples(binary, weighted):
    X, y = binary
    splits = list(StratifiedKFold(3).split(X, y))
    weights = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0) if weighted else None
    search = TensorMarginClassifierCV(("full",), lams=(1,), mus=(1,), cv=splits, tol=1e-6)
    bound = search.fit(X, y, sample_weight=weights).cv_results_["mean_margin_bound"][0]
    expected = []
    for train, test in splits:
        clf = TensorMarginClassifier("full", tol=1e-6)
        clf.fit(X[train], y[train], None if weights is None else weights[train])
        rows = test if weights is None else np.repeat(test, weights[test].astype(int))
        expected.append(margin_report(clf, X[rows], y[rows]).cantelli.value)
    assert bound == pytest.approx(np.mean(expected), rel=1e-6)


def test_one_standard_error_is_the_best_rows_own():
    """0.12 / sqrt(5 - 1) = 0.06: a mean of 0.845 is within this distance of 0.9, one of 0.835 is not."""
    for mean, row in ((0.845, 0), (0.835, 1)):
        assert select_candidate(table([mean, 0.9], [0.0, 0.12], [1, 2]), 5, rule="simplest") == row
    for mean, row in ((0.79, 0), (0.77, 1)):  # a single split has no standard error: the spread itself counts
        assert select_candidate(table([mean, 0.9], [0.0, 0.12], [1, 2]), 1, rule="simplest") == row


def test_everything_takes_the_same_rule_by_default(tmp_path, monkeypatch):
    searches = [
        TensorMarginClassifierCV(),
        auto_model(),
        FitPlan().model(1),
        FitPlan(auto=True).model(1),
        FitPlan(auto=True, recipe=Recipe(scale="entry")).model(1),
    ]
    assert {one.rule for one in searches} == {DEFAULT_RULE}
    plans = []

    def stop(samples, plan, *_):
        plans.append(plan)
        raise ValueError("far enough")

    monkeypatch.setattr("tensormargin.evaluation.fit_and_evaluate", stop)
    np.savez(tmp_path / "data.npz", X=np.random.default_rng(0).standard_normal((8, 3, 3)), y=np.arange(8) % 2)
    for options in ([], ["--auto"], ["--one-se"]):
        CliRunner().invoke(main, ["fit", str(tmp_path / "data.npz"), "-o", str(tmp_path / "model.skops"), *options])
    assert [plan.model(1).rule for plan in plans] == [DEFAULT_RULE, DEFAULT_RULE, "simplest"]


def test_simplest_takes_fewer_parameters_within_reach(binary):
    X, y = binary
    plain = TensorMarginClassifierCV(ranks=(1, 2, 4), lams=(1,), mus=(1,), cv=3, random_state=0).fit(X, y)
    simple = clone(plain).set_params(rule="simplest").fit(X, y)
    results = plain.cv_results_
    slack = results["std_test_score"][plain.best_index_] / np.sqrt(2)
    near = results["mean_test_score"] >= plain.best_score_ - slack
    assert simple.cv_results_["n_parameters"][simple.best_index_] == results["n_parameters"][near].min()
    assert simple.best_score_ == simple.cv_results_["mean_test_score"][simple.best_index_]


def test_of_equals_the_smallest_wins():
    X, y = low_rank_classes(1, 60, (4, 5), 20.0, rank=1)  # all predictions are correct
    fit = TensorMarginClassifierCV(lams=(0.1, 1), cv=3, random_state=0, **PLAIN).fit(X, y)
    assert fit.best_score_ == 1.0
    assert np.sum(fit.cv_results_["mean_test_score"] == 1.0) > 8
    assert (fit.best_params_["decomposition"], fit.best_params_["rank"]) == ("cp", 1)
    assert fit.best_params_["lam"] == 0.1


# ---- candidates ----


def forms(shape, decompositions, ranks):
    """Return the candidates, without the requested ranks."""
    return [(decomposition, rank) for decomposition, rank, _ in weights(shape, decompositions, ranks)]


def test_every_weight_of_a_vector_is_one():
    assert forms((7,), DECOMPOSITIONS, (1, 2, 4, None)) == [("full", None)]
    assert forms((7,), ("cp", "tt", "full"), (1, 2)) == [("cp", 1)]


@pytest.mark.parametrize("decompositions", [DECOMPOSITIONS, DECOMPOSITIONS[::-1]])
def test_matrices_of_one_rank_are_tried_once(decompositions):
    found = forms((6, 5), decompositions, (1, 2, 5, 9))
    assert sorted(rank for name, rank in found if name != "full" and rank < 5) == [1, 2]
    assert len(found) == 3  # rank 5 gives any matrix, as does a full weight
    assert len({name for name, rank in found if name != "full"}) == 1


def test_rank_one_is_tried_once_and_ranks_are_lowered():
    found = forms((3, 4, 5), DECOMPOSITIONS, (1, 2, 4))
    low_rank = [("cp", 1), ("cp", 2), ("cp", 4), ("tucker", 2), ("tucker", (3, 4, 4)), ("tt", 2), ("tt", (3, 4))]
    assert found == [("full", None), *low_rank]
    assert forms((3, 4, 5), ("tucker", "tt"), (100, 200)) == [("tucker", (3, 4, 5)), ("tt", (3, 5))]
    assert forms((3, 4, 5), ("tt", "cp"), (1, np.int64(1))) == [("tt", 1)]
    assert forms((3, 4, 5), ("tucker",), ((2, 2, 2), 2, (2, 2, 1))) == [("tucker", 2), ("tucker", (2, 2, 1))]


@pytest.mark.parametrize("shape", [(7,), (6, 5), (3, 4, 5), (2, 3, 2, 2), (1, 4, 5), (1, 1)])
def test_everything_that_is_tried_can_be_fitted(shape):
    X, y = low_rank_classes(0, 20, shape, 5.0, rank=1)
    found = forms(shape, DECOMPOSITIONS, (1, 3, None))
    assert len(set(found)) == len(found)
    for decomposition, rank in found:
        clf = TensorMarginClassifier(decomposition, rank, max_iter=500, tol=0.1).fit(X, y)
        assert clf.coef_.shape == (1, *shape)


def test_candidates_cross_preparations_weights_mus_schemes_and_lams():
    found = candidates([(4, 4), (16,)], ("full", "cp"), (1,), (10, 1, 1), (0, (10, 0), (0.0, 0.0)))
    strengths = [(1.0, 0.0, 0.0), (10.0, 0.0, 0.0), (1.0, 10.0, 0.0), (10.0, 10.0, 0.0)]
    assert found == [
        *(Candidate(0, "full", None, *three) for three in strengths),
        *(Candidate(0, "cp", 1, *three, requested=1) for three in strengths),
        *(Candidate(1, "full", None, *three) for three in strengths),
    ]
    schemes = schemes_of("auto", None, 3)
    found = candidates([(4, 4)], ("full",), (1,), (1,), (0,), schemes)
    assert [(one.multi_class, one.class_weight) for one in found] == schemes


@pytest.mark.parametrize(
    ("multi_class", "class_weight", "n_classes", "schemes"),
    [
        ("auto", None, 2, [("ovo", None)]),
        ("auto", "balanced", 2, [("ovo", "balanced")]),
        ("ovr", None, 2, [("ovr", None)]),
        ("auto", None, 3, [("ovo", None), ("ovr", None), ("ovr", "balanced")]),
        ("auto", None, 12, [("ovo", None), ("ovr", "balanced"), ("ovr", None)]),
        ("auto", "balanced", 3, [("ovo", "balanced"), ("ovr", "balanced")]),
        ("auto", {0: 2}, 3, [("ovo", {0: 2}), ("ovr", {0: 2})]),
        ("ovo", None, 3, [("ovo", None)]),
        ("ovr", None, 3, [("ovr", None)]),
    ],
)
def test_schemes_that_are_tried(multi_class, class_weight, n_classes, schemes):
    assert schemes_of(multi_class, class_weight, n_classes) == schemes


def test_a_rank_that_is_too_large_for_prepared_samples_is_lowered(binary):
    X, y = binary
    fit = search(decompositions=("tucker",), ranks=(4,), preparation=[None, Resize((2, 2, 2))]).fit(X, y)
    assert list(fit.cv_results_["param_rank"]) == [(4, 4, 3), 2]
    assert list(fit.cv_results_["asked_rank"]) == [4, 4]
    assert fit.lowered_ranks_ == [("tucker", 4, (4, 4, 3)), ("tucker", 4, 2)]


def test_what_was_lowered_is_told(binary):
    X, y = binary[0][:, :2, :4, :3], binary[1]
    fit = search(decompositions=("full", "cp", "tt"), ranks=(1, np.int64(20), None, 99), tol=0.1).fit(X, y)
    assert fit.lowered_ranks_ == [("cp", 20, 6), ("cp", 99, 6), ("tt", 20, (2, 3)), ("tt", 99, (2, 3))]
    table = zip(*(fit.cv_results_[name] for name in ("param_decomposition", "param_rank", "asked_rank")), strict=True)
    assert list(table) == [("full", None, None), ("cp", 1, 1), ("cp", 6, 20), ("cp", 2, None), ("tt", (2, 3), 20)]
    (reason,) = [line for line in chosen_section(fit, {}).content["reasons"] if "lowered" in line]
    assert "cp 20 to 6; cp 99 to 6; tt 20 to (2, 3); tt 99 to (2, 3)." in reason
    nothing = search(decompositions=("tucker",), ranks=(1, (2, 2, 1), None)).fit(X, y)
    assert nothing.lowered_ranks_ == []
    assert not any("lowered" in line for line in chosen_section(nothing, {}).content["reasons"])


class TestAPreparationThatLeavesSmallerSamplesOnSomeSplits:
    """Three samples, one per mode, extend beyond the box of the others; without them the box is smaller."""

    @staticmethod
    def samples(seed):
        rng = np.random.default_rng(seed)
        X, y = np.zeros((40, 7, 6, 5)), np.arange(40) % 2
        X[:, 1:4, 1:4, 1:4] = rng.standard_normal((40, 3, 3, 3)) + 2 * y[:, None, None, None]
        for sample, entry in zip(rng.permutation(40)[:3], [(6, 1, 1), (1, 5, 1), (1, 1, 4)], strict=True):
            X[sample, *entry] = 1.0
        return X, y

    @pytest.mark.parametrize("decomposition", ["full", "cp", "tucker", "tt"])
    @pytest.mark.parametrize("seed", [0, 1, *(pytest.param(k, marks=pytest.mark.campaign) for k in (2, 3, 4))])
    def test_ranks_are_upper_bounds(self, decomposition, seed):
        X, y = self.samples(seed)
        splits = list(StratifiedKFold(3, shuffle=True, random_state=seed).split(X, y))
        fit = search(decompositions=(decomposition,), ranks=(4,), preparation=Crop(), cv=splits, tol=0.1).fit(X, y)
        assert fit.best_params_["rank"] == (None if decomposition == "full" else 4)
        assert fit.classifier_.sample_shape_ == (6, 5, 4)
        boxes = [Crop().fit_transform(X[train]) for train, _ in splits]
        ranks = [FORMATS[decomposition].valid_rank(4, box.shape[1:]) for box in boxes]
        counts = [
            TensorMarginClassifier(decomposition, rank, tol=0.1).fit(box, y[train]).n_parameters_
            for (train, _), box, rank in zip(splits, boxes, ranks, strict=True)
        ]
        assert fit.cv_results_["n_parameters"].tolist() == [max(counts)]
        assert bool(fit.lowered_ranks_) == (decomposition in ("tucker", "tt"))
        for name, asked, used in fit.lowered_ranks_:
            assert (name, asked) == (decomposition, 4)
            assert np.all(np.less_equal(used, 4))

    def test_complete_ranks_are_upper_bounds_too(self):
        X, y = self.samples(0)
        X[:, :, :, 4] = X[:, :, 5] = 0
        fit = search(decompositions=("tucker",), ranks=((4, 2, 3),), preparation=Crop(), lams=(0.1, 1)).fit(X, y)
        assert fit.best_params_["rank"] == (4, 2, 3)
        assert fit.lowered_ranks_ == [("tucker", (4, 2, 3), (3, 2, 3))]

    def test_the_number_of_parameters_is_the_largest_over_the_splits_in_any_order(self):
        one = Candidate(0, "full", None, 1.0, 0.0, 0.0)
        race = Race([one.levels], 3, 0, True, np.random.RandomState(0))
        race.scores[:] = 0.5
        done = [((0, split), Result(0.5, 0.5, 1.0, 1.0, count, None)) for split, count in enumerate((7, 9, 8))]
        for order in permutations(done):
            assert tabulate([one], dict(order), race, [None])["n_parameters"].tolist() == [9]


# ---- splits ----


@pytest.mark.parametrize("kind", ["crossed", "nested"])
def test_groups_are_never_on_both_sides(kind):
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.repeat(np.arange(12), 6))
    y = rng.integers(0, 3, 72) if kind == "crossed" else groups % 3
    for cv in (None, 3, np.int64(4), GroupKFold(4), LeaveOneGroupOut()):
        splits = splits_of(cv, y, groups, 0)
        for train, test in splits:
            assert not set(groups[train]) & set(groups[test])
            assert not set(train) & set(test)
            assert set(y[train]) == {0, 1, 2}
        assert sorted(np.concatenate([test for _, test in splits])) == list(range(72))


@pytest.mark.parametrize("kind", ["distinct", "copies", "a class of copies", "groups"])
def test_folds_hold_the_same_samples_in_any_order(kind):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3, 4)), np.arange(40) % 3
    groups = np.arange(40) // 3 if kind == "groups" else None
    if kind != "distinct":
        X[10:16] = X[3]
    if kind == "a class of copies":
        X[y == 2] = 2 * X[2]
    order = rng.permutation(40)
    fit, other = search(), search()
    splits = fit.splits(y, groups, X)
    moved = other.splits(y[order], None if groups is None else groups[order], X[order])
    for (_, test), (_, again) in zip(splits, moved, strict=True):
        assert sorted(X[test, 0, 0]) == sorted(X[order[again], 0, 0])


def test_the_choice_does_not_depend_on_the_order_of_the_samples():
    X, y = low_rank_classes(0, 120, (4, 5), 0.8)
    grid = {"decompositions": ("full", "cp", "tucker"), "ranks": (1, 2), "lams": (1, 10), "mus": (0, 1, 10)}
    fit = search(**grid).fit(X[:60], y[:60])
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(60)
        other = search(**grid).fit(X[order], y[order])
        assert other.best_params_ == fit.best_params_
        np.testing.assert_allclose(other.cv_results_["mean_test_score"], fit.cv_results_["mean_test_score"])
        np.testing.assert_array_equal(other.predict(X[60:]), fit.predict(X[60:]))


def test_folds_are_stratified_shuffled_and_no_more_than_there_are_samples():
    y = np.repeat([0, 1], [30, 4])
    splits = splits_of(None, y, None, 0)
    assert len(splits) == 4
    assert all(np.sum(y[test] == 1) == 1 for _, test in splits)
    again, other = splits_of(5, y, None, 0), splits_of(5, y, None, 1)
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(splits, again, strict=True))
    assert not all(np.array_equal(a[1], b[1]) for a, b in zip(splits, other, strict=True))
    assert len(splits_of(5, np.arange(6) % 2, np.repeat([0, 1, 2], 2), 0)) == 3


@pytest.mark.parametrize(
    ("y", "groups", "said"),
    [
        ([0, 0, 2, 2, 1], None, "2 samples of each class, and class 1 has 1. Leave that class out"),
        ([0, 0, 3, 3, 1, 1], [0, 1, 0, 1, 2, 2], "2 groups of each class, and class 1 has 1. Leave that class out"),
        (["a", "b", "b", "c", "d", "d"], None, "'a', 'c' have 1. Leave those classes out (--exclude-classes a,c), or"),
        ([*"abcdefghi", *2 * "yz"], None, "'f', 'g', 'h' and 1 more have 1. Leave those classes out (--drop-r"),
        ([0, 0, 0, 1], None, "class 1 has 1. Bring more samples"),
        ([0, 0, 1, 1], [0, 0, 1, 1], "0, 1 have 1. Name smaller groups (runs, blocks)"),
        ([0, 0, 1, 1], [0, 0, 0, 0], "all samples are in one group, and groups are never divided. Name smaller groups"),
    ],
)
def test_a_class_that_cannot_be_split_is_refused(y, groups, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        splits_of(5, np.array(y), None if groups is None else np.array(groups), 0)
    with pytest.raises(ValueError, match="at least 2 folds"):
        splits_of(1, np.array([0, 0, 1, 1]), None, 0)


class Spy(TransformerMixin, BaseEstimator):
    """An identity transformer that records which samples it is fitted to and which it transforms."""

    fitted: list[np.ndarray] = []  # noqa: RUF012 - one list for all clones
    transformed: list[np.ndarray] = []  # noqa: RUF012

    def fit(self, X, y=None):
        Spy.fitted.append(X[:, 0, 0].copy())
        self.fitted_ = True
        return self

    def transform(self, X):
        Spy.transformed.append(X[:, 0, 0].copy())
        return X


@pytest.mark.parametrize("grouped", [False, True])
def test_preparation_and_fit_see_the_training_part_only(grouped):
    X, y = low_rank_classes(0, 48, (4, 5), 3.0)
    X[:, 0, 0] = np.arange(48)
    groups = np.random.default_rng(0).permutation(np.arange(48) // 4) if grouped else None
    Spy.fitted, Spy.transformed = [], []
    scored = []

    def scorer(estimator, X_test, y_test):
        rows = X_test[:, 0, 0].astype(int)
        np.testing.assert_array_equal(y_test, y[rows])
        trained = next(one for one in Spy.fitted if len(one) < 48 and not set(one.astype(int)) & set(rows))
        scored.append((trained.astype(int), rows))
        return estimator.score(X_test, y_test)

    settings = {"lams": (0.1, 1), "mus": (0, 1), "cv": 3, "exhaustive": True}
    fit = search(preparation=Spy(), scoring=scorer, **settings).fit(X, y, groups=groups)
    assert len(scored) == 3 * 2 * 2
    assert len(Spy.fitted) == 3 + 2  # once per split, whatever the number of candidates
    for train, test in scored:
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(48))
        if grouped:
            assert not set(groups[train]) & set(groups[test])
    everything = [rows for rows in Spy.fitted if len(rows) == 48]
    assert len(everything) == 2  # once for the output shape, which determines the ranks, and once for the refit
    assert isinstance(fit.best_estimator_, Pipeline)


def test_spoiled_test_parts_do_not_change_a_fit_on_the_training_part():
    """Check that a split's test set affects only its scores, not the fit, and hence no other split's scores."""
    X, y = low_rank_classes(0, 60, (4, 5), 3.0)
    split = PredefinedSplit(np.r_[np.full(40, -1), np.zeros(20, int)])
    coefs = []

    def scorer(estimator, X_test, y_test):
        coefs.append(estimator.coef_.copy())
        return estimator.score(X_test, y_test)

    for spoil in (0.0, 1e3):
        spoiled = X.copy()
        spoiled[40:] += spoil
        search(cv=split, scoring=scorer, preparation=TensorScaler()).fit(spoiled, y)
    np.testing.assert_array_equal(coefs[0], coefs[1])


# ---- preparation ----


def test_alternatives_of_the_preparation_are_columns_and_the_better_one_is_taken():
    X, y = low_rank_classes(2, 80, (4, 5), 4.0, rank=1)
    X = X * np.where(np.arange(20).reshape(4, 5) == 7, 1e4, 1.0)  # one entry dominates all others
    scaler = TensorScaler()
    fit = search(preparation=[None, scaler, Tensorize((2, 2, 5))], cv=4).fit(X, y)
    assert list(fit.cv_results_["param_preparation"])[:2] == [None, scaler]
    assert len(fit.cv_results_["params"]) == 3
    assert fit.best_params_["preparation"] is scaler
    assert not hasattr(scaler, "mean_")  # clones are fitted
    assert [name for name, _ in fit.best_estimator_.steps] == ["preparation", "classifier"]
    by_hand = TensorMarginClassifier("cp", 1, mu1=0, mu2=0)
    ready = TensorScaler().fit_transform(X)
    np.testing.assert_allclose(fit.classifier_.coef_, by_hand.fit(ready, y).coef_, rtol=1e-10)
    np.testing.assert_array_equal(fit.predict(X), by_hand.predict(ready))
    assert fit.sample_shape_ == (4, 5)
    one = search(preparation=scaler).fit(X, y)
    assert "param_preparation" not in one.cv_results_
    assert "preparation" not in one.best_params_


def test_none_among_the_alternatives_means_samples_as_they_come(binary):
    X, y = binary
    fit = search(preparation=[None]).fit(X, y)
    assert isinstance(fit.best_estimator_, TensorMarginClassifier)
    np.testing.assert_array_equal(fit.predict_proba(X), search().fit(X, y).predict_proba(X))


def test_other_peoples_transformers_prepare_too(binary):
    X, y = binary
    fit = search(preparation=Spy()).fit(X, y)
    np.testing.assert_array_equal(fit.predict(X), search().fit(X, y).predict(X))


# ---- ways to run ----


def test_processes_change_nothing(digits):
    X, y = digits
    parameters = {"ranks": (1, 2), "lams": (0.1, 1), "decompositions": ("full", "cp"), "preparation": TensorScaler()}
    parameters["scoring"] = "neg_log_loss"  # needs all splits of a path before scoring
    one, two = (search(n_jobs=jobs, **parameters).fit(X, y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])
    assert one.best_params_ == two.best_params_
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_random_states(binary):
    X, y = binary
    same = [search(random_state=seed).fit(X, y) for seed in (0, 0, np.random.RandomState(0))]
    for other in same[1:]:
        np.testing.assert_array_equal(other.predict_proba(X), same[0].predict_proba(X))
        for k in range(3):
            name = f"split{k}_test_score"
            np.testing.assert_array_equal(other.cv_results_[name], same[0].cv_results_[name])
    assert search(random_state=1).fit(X, y).calibration_[0, 0] != same[0].calibration_[0, 0]


def test_sample_weights_reach_fits_and_scores(binary):
    X, y = binary
    X = X.copy()
    X[45:] = np.random.default_rng(0).permutation(X[45:])  # the second half is uninformative
    weights = np.where(np.arange(90) < 45, 1.0, 0.0)
    splits = list(StratifiedKFold(3).split(X[:45], y[:45]))
    second = np.arange(45, 90)
    with_second = [(np.r_[train, second], np.r_[test, second[:10]]) for train, test in splits]
    tight = {"lams": (0.1, 1), "tol": 1e-6, "max_iter": 2000}
    weighted = search(cv=with_second, **tight).fit(X, y, sample_weight=weights)
    alone = search(cv=splits, **tight).fit(X[:45], y[:45])
    for k in range(3):
        name = f"split{k}_test_score"
        np.testing.assert_allclose(weighted.cv_results_[name], alone.cv_results_[name])
    np.testing.assert_allclose(weighted.classifier_.coef_, alone.classifier_.coef_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(weighted.calibration_, alone.calibration_, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="Negative values"):
        search().fit(X, y, sample_weight=-weights)


def test_progress_is_told_of_every_piece(binary, capsys):
    calls = []
    search(lams=(0.1, 1), mus=(0, 1), exhaustive=True).fit(*binary, progress=lambda *call: calls.append(call))
    assert [call[:2] for call in calls] == [(done, 12) for done in range(2, 13, 2)]
    assert calls[-1][2] == "12 of 12 fits"
    assert capsys.readouterr() == ("", "")


def test_fits_of_later_rungs_are_less_work(binary):
    calls = []
    grid = {"decompositions": ("full", "cp"), "ranks": (1, 2), "lams": (0.1, 1, 10), "mus": (0, 0.5, 1, 2)}
    search(**grid, cv=5).fit(*binary, progress=lambda *call: calls.append(call))
    made, planned = zip(
        *(map(int, re.fullmatch(r"(\d+) of (\d+) fits", text).groups()) for *_, text in calls), strict=True
    )
    n_first = next(place for place, number in enumerate(planned) if number != planned[0])
    first = made[n_first - 1]  # all fits of the first rung
    assert [call[0] for call in calls[:n_first]] == list(made[:n_first])
    assert calls[0][1] == pytest.approx(first + 0.15 * (planned[0] - first))
    assert calls[n_first][0] == pytest.approx(first + 0.15 * (made[n_first] - first))
    shares = [done / total for done, total, _ in calls]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)


def test_verbose_writes_lines_to_standard_error(binary, capsys):
    search(mus=(0, 0.5, 1, 2), cv=5, verbose=1, exhaustive=True).fit(*binary)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 10
    assert lines[-1] == "[tensormargin] search: 20 of 20 fits"


def test_groups_come_through_cross_validation_by_metadata_routing(binary):
    X, y = binary
    groups = np.arange(90) // 2 % 9  # both classes in every group
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(
            search(), X, y, params={"groups": groups}, cv=GroupKFold(3), error_score="raise", return_estimator=True
        )
    assert np.all(found["test_score"] > 0.5)
    for (train, _), one in zip(GroupKFold(3).split(X, y, groups), found["estimator"], strict=True):
        by_hand = search().fit(X[train], y[train], groups=groups[train])
        np.testing.assert_array_equal(one.cv_results_["mean_test_score"], by_hand.cv_results_["mean_test_score"])


# ---- probabilities ----


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
@pytest.mark.parametrize("far", [1.0, 1e2, 1e6])
def test_probabilities_of_several_classes(digits, scheme, far):
    X, y = digits
    fit = search(multi_class=scheme).fit(X, y)
    with any_scale():
        probabilities, predicted = fit.predict_proba(far * X), fit.predict(far * X)
    assert probabilities.shape == (150, 3)
    assert probabilities.min() >= 0
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    assert fit.calibration_.shape == (3, 4)
    assert np.all(fit.calibration_[:, 0] > 0)
    assert np.mean(fit.classes_[probabilities.argmax(axis=1)] == predicted) > 0.9


def test_probabilities_of_two_classes_rise_with_the_score(fitted, binary):
    X, _ = binary
    probabilities, scores = fitted.predict_proba(X), fitted.decision_function(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    order = np.argsort(scores)
    assert np.all(np.diff(probabilities[order, 1]) >= 0)
    ((slope, offset),) = fitted.calibration_
    np.testing.assert_allclose(probabilities[:, 1], 1 / (1 + np.exp(-slope * scores - offset)), rtol=1e-10)


def calibration_error(y, probabilities, classes, bins=10):
    """Return the mean gap between the predicted probability and the accuracy, over bins."""
    sure = probabilities.max(axis=1)
    right = classes[probabilities.argmax(axis=1)] == y
    places = np.quantile(sure, np.linspace(0, 1, bins + 1)[1:-1])
    where = np.searchsorted(places, sure)
    gaps = [(np.sum(where == k), abs(sure[where == k].mean() - right[where == k].mean())) for k in np.unique(where)]
    return sum(count * gap for count, gap in gaps) / len(y)


def test_probabilities_of_two_classes_are_calibrated():
    """Two Gaussians, so that the true probabilities are known; all samples but 300 are test samples."""
    X, y = low_rank_classes(4, 6300, (4, 5), 2.0, rank=1)
    fit = search(cv=5).fit(X[:300], y[:300])
    probabilities = fit.predict_proba(X[300:])
    assert log_loss(y[300:], probabilities) < 0.6 * np.log(2)
    assert calibration_error(y[300:], probabilities, fit.classes_) < 0.025


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_probabilities_of_several_classes_are_calibrated(scheme):
    rng = np.random.default_rng(0)
    y = np.arange(6450) % 3
    centres = rng.standard_normal((3, 4, 5)) / 3
    X = centres[y] + rng.standard_normal((6450, 4, 5))
    fit = search(multi_class=scheme, decompositions=("full",), cv=5).fit(X[:450], y[:450])
    probabilities = fit.predict_proba(X[450:])
    assert log_loss(y[450:], probabilities) < 0.65 * np.log(3)
    assert calibration_error(y[450:], probabilities, fit.classes_) < 0.05


@pytest.mark.parametrize(("n_classes", "scheme"), [(2, "ovo"), (3, "ovo"), (3, "ovr")])
@pytest.mark.parametrize("seed", range(3))
def test_at_chance_probabilities_say_so(n_classes, scheme, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((150, 4, 5)), np.arange(150) % n_classes
    fit = search(multi_class=scheme).fit(X, y)
    fresh = rng.standard_normal((500, 4, 5))
    probabilities = fit.predict_proba(fresh)
    assert np.mean(np.abs(probabilities - 1 / n_classes)) < 0.06
    assert log_loss(np.arange(500) % n_classes, probabilities) < 1.02 * np.log(n_classes)


@given(st.lists(st.floats(1e-3, 1.0), min_size=3, max_size=8))
def test_coupling_finds_the_probabilities_behind_exact_pairs(given_weights):
    p = np.array(given_weights) / sum(given_weights)
    pairwise = p[:, None] / (p[:, None] + p[None, :])
    np.fill_diagonal(pairwise, 0)
    np.testing.assert_allclose(couple(pairwise[None])[0], p, rtol=1e-6, atol=1e-9)


@given(st.integers(3, 7), st.data())
def test_coupling_survives_certainty(n_classes, data):
    """Check that certain pairs, even in cycles, give valid probabilities."""
    n_pairs = n_classes * (n_classes - 1) // 2
    scores = np.array([data.draw(st.sampled_from([-1e6, -30.0, -1.0, 1.0, 30.0, 1e6])) for _ in range(n_pairs)])
    (found,) = class_probabilities(scores[None], as_they_are(n_pairs), "ovo")
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)


def as_they_are(n_problems):
    """Return a calibration that does not change scores."""
    return np.tile([1.0, 0.0], (n_problems, 1))


def test_a_certain_class_gets_everything():
    certain = class_probabilities(np.array([[50.0, 50.0, 50.0]]), as_they_are(3), "ovo")
    np.testing.assert_allclose(certain, [[0, 0, 1]], atol=1e-5)
    np.testing.assert_allclose(
        class_probabilities(np.array([[-2000.0, -2001.0, -3000.0]]), as_they_are(3), "ovr"),
        [[1 / (1 + np.exp(-1)), 1 / (1 + np.e), 0]],
        rtol=1e-12,
        atol=1e-300,
    )


@pytest.mark.parametrize("n_problems", [1, 3])
@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_scores_of_any_size_have_probabilities(n_problems, scheme):
    scores = np.array([1e300, -1e300, 0.0, 1e-300])[:, None] * np.ones(n_problems)
    steep = np.tile([1e200, -3.0], (n_problems, 1))
    found = class_probabilities(scores, steep, scheme)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)


class TestTheSigmoid:
    @staticmethod
    def drawn(seed=0, n_samples=400, slope=1.5, offset=-1.0):
        rng = np.random.default_rng(seed)
        scores = rng.normal(0, 2, n_samples)
        signs = np.where(rng.uniform(size=n_samples) < 1 / (1 + np.exp(-slope * scores - offset)), 1.0, -1.0)
        return scores, signs, rng.uniform(0.1, 3, n_samples)

    @pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
    def test_it_is_the_true_one(self, unit):
        scores, signs, _ = self.drawn(n_samples=20_000)
        slope, offset = fit_sigmoid(unit * scores, signs, np.ones(20_000))
        assert slope == pytest.approx(1.5 / unit, rel=0.05)
        assert offset == pytest.approx(-1.0, rel=0.05)

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("seed", range(4))
    def test_it_is_scikit_learns_logistic_regression_with_two_more_samples(self, seed, weighted):
        scores, signs, weights = self.drawn(seed, n_samples=60 + 100 * seed)
        weights = weights * len(weights) / weights.sum() if weighted else np.ones(len(signs))
        centre = np.average(scores, weights=weights)
        spread = np.sqrt(np.average((scores - centre) ** 2, weights=weights))
        design = np.column_stack([np.r_[(scores - centre) / spread, 1.0, 1.0], np.r_[np.ones(len(scores)), 0.0, 0.0]])
        theirs = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, max_iter=1000)
        theirs.fit(design, np.r_[signs, 1.0, -1.0], np.r_[weights, 1.0, 1.0])
        slope, offset = fit_sigmoid(scores, signs, weights)
        assert slope == pytest.approx(theirs.coef_[0, 0] / spread, rel=1e-4)
        assert offset + slope * centre == pytest.approx(theirs.coef_[0, 1], rel=1e-4)

    def test_samples_that_do_not_count_do_not_matter(self):
        scores, signs, counts = self.drawn()
        some = np.arange(len(scores)) % 3 > 0
        np.testing.assert_allclose(
            fit_sigmoid(np.where(some, scores, 1e9), signs, counts * some),
            fit_sigmoid(scores[some], signs[some], counts[some]),
            rtol=1e-9,
        )

    def test_classes_that_are_apart_are_right_in_all_but_one_of_two_more(self):
        signs = np.repeat([1.0, -1.0], 20)
        assert fit_sigmoid(signs, signs, np.ones(40)) == pytest.approx((np.log(41), 0.0), abs=1e-9)
        assert fit_sigmoid(signs + 7, signs, np.ones(40)) == pytest.approx((np.log(41), -7 * np.log(41)), rel=1e-9)

    @pytest.mark.parametrize(
        "scores",
        [-np.repeat([1.0, -1.0, -1.0, -1.0], 10), np.zeros(40), np.full(40, 1e-300), np.full(40, -1e300)],
        ids=["wrong way", "zero", "tiny", "huge"],
    )
    def test_scores_that_tell_nothing_leave_the_share_of_the_class(self, scores):
        signs = np.repeat([1.0, -1.0, -1.0, -1.0], 10)
        slope, offset = fit_sigmoid(scores, signs, np.ones(40))
        assert 0 < slope < 1e-4
        np.testing.assert_allclose(1 / (1 + np.exp(-slope * scores - offset)), 10 / 40, rtol=1e-4)

    def test_one_class_alone_is_likely_and_not_certain(self):
        slope, offset = fit_sigmoid(np.linspace(-1, 2, 40), np.ones(40), np.ones(40))
        assert 0 < slope < 1e-4
        assert offset == pytest.approx(np.log(41), rel=1e-4)

    def test_nothing_is_known_of_a_pair_that_was_never_tested(self):
        for n_samples in (0, 5):
            slope, offset = fit_sigmoid(np.ones(n_samples), np.ones(n_samples), np.zeros(n_samples))
            assert 0 < slope < 1e-4
            assert offset == 0

    @example([(0.0, False, 5e-324)])  # a weight too small to divide
    @given(st.lists(st.tuples(st.floats(-1e300, 1e300), st.booleans(), st.floats(0, 1e6)), max_size=20))
    def test_it_is_finite_whatever_comes(self, samples):
        scores, positive, weights = (
            (np.array(part) for part in zip(*samples, strict=True)) if samples else [np.empty(0)] * 3
        )
        slope, offset = fit_sigmoid(scores, np.where(positive, 1.0, -1.0), weights)
        assert 0 < slope < np.inf
        assert np.isfinite(offset)


class TestTheUnitOfWeights:
    WHOLE, OTHER = (1.0 + np.arange(60) % 3, np.sqrt(1.0 + np.arange(60)))

    @pytest.mark.parametrize("weights", [WHOLE, OTHER], ids=["whole", "other"])
    @pytest.mark.parametrize("unit", [1e-300, 1 / 60, 1 / 7, 1000.0, 1e300])
    def test_it_does_not_matter(self, weights, unit):
        np.testing.assert_allclose(counted(unit * weights), counted(weights), rtol=1e-12)

    def test_whole_weights_are_copies(self):
        np.testing.assert_array_equal(counted(self.WHOLE), self.WHOLE)
        np.testing.assert_array_equal(counted(np.r_[0.0, 7.0, 14.0, 7.0]), [0, 1, 2, 1])

    def test_other_weights_sum_to_the_number_of_samples_that_have_one(self):
        found = counted(np.r_[np.zeros(9), self.OTHER])
        assert found.sum() == pytest.approx(60)
        np.testing.assert_allclose(found[9:] / found[9], self.OTHER)
        for small, large in ((1e-300, 1.0), (1e-300, 1e300)):
            assert counted(np.r_[small, np.full(9, large)]).sum() == pytest.approx(10)

    def test_no_weight_at_all_counts_nothing(self):
        np.testing.assert_array_equal(counted(np.zeros(3)), 0)
        assert len(counted(np.empty(0))) == 0

    @pytest.mark.parametrize("scheme", ["ovo", "ovr"])
    def test_copies_are_calibrated_as_weights_are(self, scheme):
        rng = np.random.default_rng(0)
        codes, weights = np.arange(90) % 3, 1 + rng.integers(0, 3, 90)
        scores = rng.standard_normal((90, 3))
        copied = [np.repeat(part, weights, axis=0) for part in (scores, codes)]
        np.testing.assert_allclose(
            calibrate(scores, codes, weights / 7, 3, scheme), calibrate(*copied, None, 3, scheme), rtol=1e-6, atol=1e-9
        )


@pytest.fixture(scope="module")
def rare():
    """Return samples of which one in ten is positive; all but 300 are test samples."""
    rng = np.random.default_rng(0)
    y = np.arange(3300) % 10 == 0
    return rng.standard_normal((3300, 4, 5)) + 0.35 * y[:, None, None], y


class TestProbabilitiesOfARareClass:
    @pytest.mark.parametrize("class_weight", [None, "balanced", {False: 1, True: 30}], ids=["none", "balanced", "dict"])
    def test_they_are_right_on_average_and_better_than_the_base_rate(self, rare, class_weight):
        X, y = rare
        fit = search(class_weight=class_weight, decompositions=("full",), cv=5).fit(X[:300], y[:300])
        probabilities = fit.predict_proba(X[300:])[:, 1]
        assert np.mean(probabilities) == pytest.approx(0.1, abs=0.03)
        assert log_loss(y[300:], probabilities) < 0.9 * log_loss(y[300:], np.full(3000, 0.1))

    def test_a_rare_class_may_be_predicted_though_it_is_not_the_most_probable(self, rare):
        X, y = rare
        fit = search(class_weight="balanced", decompositions=("full",), cv=5).fit(X[:300], y[:300])
        predicted, probabilities = fit.predict(X[300:]), fit.predict_proba(X[300:])
        np.testing.assert_array_equal(predicted, fit.decision_function(X[300:]) > 0)
        differ = predicted != fit.classes_[probabilities.argmax(axis=1)]
        assert np.all(predicted[differ])
        assert np.mean(differ) > 0.05

    @pytest.mark.parametrize("unit", [1 / 300, 1000.0])
    def test_the_unit_of_sample_weights_does_not_matter(self, rare, unit):
        X, y = rare[0][:300], rare[1][:300]
        weights = 1.0 + np.arange(300) % 3
        ours, other = (search(class_weight="balanced").fit(X, y, sample_weight=w) for w in (weights, unit * weights))
        np.testing.assert_allclose(other.calibration_, ours.calibration_, rtol=1e-6)


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_probabilities_are_of_the_scheme_that_was_fitted(digits, scheme):
    X, y = digits
    fit = search(multi_class=scheme).fit(X, y)
    before = fit.predict_proba(X)
    fit.set_params(multi_class="ovr" if scheme == "ovo" else "ovo")
    np.testing.assert_array_equal(fit.predict_proba(X), before)


def test_classes_that_no_test_part_has_get_probabilities_all_the_same(digits):
    X, y = digits
    rows = np.arange(150)
    cv = [(rows[y != "two"][10:].tolist() + rows[y == "two"].tolist(), rows[y != "two"][:10])]
    probabilities = search(cv=cv).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    cv = [(rows[1:], rows[:1])]  # one sample: pairs of the other classes have none
    fit = search(cv=cv).fit(X, y)
    np.testing.assert_allclose(fit.predict_proba(X).sum(axis=1), 1)
    assert np.all(np.isfinite(fit.calibration_))


# ---- scorers that need probabilities ----


def log_loss_by_hand(estimator, X, y):
    return -log_loss(y, estimator.predict_proba(X), labels=estimator.classes_)


def log_loss_with_excuses(estimator, X, y):
    """Score by probabilities and wrap any error, as in defensively written scorers."""
    try:
        return log_loss_by_hand(estimator, X, y)
    except Exception as error:
        raise ValueError("no probabilities") from error


def log_loss_or_nothing(estimator, X, y):
    try:
        return log_loss_by_hand(estimator, X, y)
    except RuntimeError:
        return np.nan


@pytest.fixture(scope="module")
def by_log_loss(digits):
    return search(scoring="neg_log_loss").fit(*digits)


class TestScorersThatAskForProbabilities:
    @pytest.mark.parametrize(
        ("scoring", "base_rate", "good"),
        [
            ("neg_log_loss", -np.log(3), -0.35),
            ("neg_brier_score", -2 / 3, -0.2),
            ("d2_log_loss_score", 0, 0.7),
            ("roc_auc_ovr", 0.5, 0.95),
            ("roc_auc_ovr_weighted", 0.5, 0.95),
            ("roc_auc_ovo", 0.5, 0.95),
            ("roc_auc_ovo_weighted", 0.5, 0.95),
        ],
    )
    def test_of_several_classes(self, digits, scoring, base_rate, good):
        fit = search(scoring=scoring, preparation=TensorScaler()).fit(*digits)
        assert fit.best_score_ > good > base_rate
        assert fit.best_score_ <= {"neg": 0.0}.get(scoring[:3], 1.0)

    def test_of_one_against_the_rest(self, digits):
        assert -0.45 < search(scoring="neg_log_loss", multi_class="ovr").fit(*digits).best_score_ < 0

    @pytest.mark.parametrize(
        ("scoring", "good"),
        [("neg_log_loss", -0.5), ("neg_brier_score", -0.2), ("roc_auc_ovr", 0.9), ("roc_auc", 0.9), ("f1", 0.8)],
    )
    def test_of_two_classes(self, binary, scoring, good):
        assert search(scoring=scoring).fit(*binary).best_score_ > good

    def test_probabilities_come_from_the_other_splits(self, digits):
        X, y = digits
        splits = list(StratifiedKFold(3).split(X, y))
        fit = search(scoring="neg_log_loss", lams=(0.1, 1), cv=splits).fit(X, y)
        codes = np.unique(y, return_inverse=True)[1]
        one = TensorMarginClassifier(**fit.cv_results_["params"][1])
        models = [clone(one).fit(X[train], y[train]) for train, _ in splits]
        scores = [model.binary_scores(X[test]) for model, (_, test) in zip(models, splits, strict=True)]
        for k, (_, test) in enumerate(splits):
            others = [j for j in range(3) if j != k]
            rows = np.concatenate([splits[j][1] for j in others])
            found = calibrate(np.concatenate([scores[j] for j in others]), codes[rows], None, 3, "ovo")
            expected = -log_loss(codes[test], class_probabilities(scores[k], found, "ovo"))
            assert fit.cv_results_[f"split{k}_test_score"][1] == pytest.approx(expected, rel=1e-9)

    @pytest.mark.parametrize("scoring", [log_loss_by_hand, log_loss_with_excuses, log_loss_or_nothing])
    def test_functions_may_ask_too(self, digits, by_log_loss, scoring):
        ours, theirs = search(scoring=scoring).fit(*digits), by_log_loss
        np.testing.assert_allclose(
            ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], rtol=1e-9
        )

    def test_functions_may_ask_on_some_splits_only(self, digits):
        X, y = digits
        splits = list(StratifiedKFold(4).split(X, y))

        def scoring(estimator, X_test, y_test):
            first = X_test[0, 0, 0] == X[splits[0][1][0], 0, 0]
            return -0.125 if first else log_loss_by_hand(estimator, X_test, y_test)

        fit = search(scoring=scoring, cv=splits).fit(X, y)
        assert fit.cv_results_["split0_test_score"][0] == -0.125
        assert -0.5 < fit.cv_results_["split1_test_score"][0] < 0

    def test_no_fit_is_made_for_them(self, digits, monkeypatch):
        calls = fits_of(monkeypatch)
        for number, scoring in enumerate(("accuracy", "roc_auc_ovr"), 1):
            search(scoring=scoring, mus=(0, 1)).fit(*digits)
            assert len(calls) == number * (2 * 3 + 1)

    def test_models_are_forgotten_when_they_are_scored(self, digits, monkeypatch):
        tabulated = []
        monkeypatch.setattr(
            "tensormargin.selection.classifier.tabulate",
            lambda *arguments: tabulated.append(dict(arguments[1])) or tabulate(*arguments),
        )
        parameters = {"mus": (0, 1, 2), "lams": (0.1, 1), "preparation": TensorScaler()}
        fit = search(scoring="neg_log_loss", **parameters).fit(*digits)
        dropped = np.array([bool(reason) for reason in fit.cv_results_["dropped"]])
        assert 0 < dropped.sum() < 6
        for (row, _), result in tabulated[0].items():
            assert result.classifier is None
            assert result.preparation is None
            assert (result.left_out is None) == dropped[row]

    def test_weights_reach_calibration_and_score(self, digits):
        X, y = digits
        useless = np.arange(150) % 3 == 0
        X = np.where(useless[:, None, None], 1e3 + X, X)
        splits = list(StratifiedKFold(3).split(X, y))
        weighted = search(scoring="neg_log_loss", cv=splits).fit(X, y, sample_weight=np.where(useless, 0.0, 1.0))
        place = np.cumsum(~useless) - 1
        kept = [(place[train[~useless[train]]], place[test[~useless[test]]]) for train, test in splits]
        alone = search(scoring="neg_log_loss", cv=kept).fit(X[~useless], y[~useless])
        assert weighted.best_score_ == pytest.approx(alone.best_score_, rel=1e-6)

    @pytest.mark.parametrize(
        ("scoring", "preparation"),
        [("neg_log_loss", None), ("neg_log_loss", TensorScaler()), ("balanced_accuracy", None)],
    )
    def test_of_samples_on_a_device(self, digits, put, preparation, scoring):
        X, y = digits
        settings = {"scoring": scoring, "preparation": preparation, "decompositions": ("full",), "tol": 1e-6}
        here, there = (search(**settings).fit(each, y) for each in (X, put(X)))
        np.testing.assert_allclose(there.cv_results_["mean_test_score"], here.cv_results_["mean_test_score"], rtol=1e-3)

    @pytest.mark.parametrize("splits", ["one", "the same twice"])
    def test_splits_without_others_are_refused(self, binary, splits):
        X, y = binary
        train, test = next(StratifiedKFold(3).split(X, y))
        cv = [(train, test)] * (1 if splits == "one" else 2)
        with pytest.raises(
            ValueError, match=r"Use two or more splits with different test sets, or a scoring by predict"
        ):
            search(scoring="neg_log_loss", cv=cv).fit(X, y)
        assert search(scoring="roc_auc", cv=cv).fit(X, y).best_score_ > 0.8

    def test_a_test_part_without_a_class_is_named(self, digits):
        X, y = digits
        zeros, others = np.flatnonzero(y == "zero"), np.flatnonzero(y != "zero")
        cv = [(np.r_[zeros, others[half::2]], others[1 - half :: 2]) for half in (0, 1)]
        with pytest.raises(
            ValueError, match=r"test set without samples of \['zero'\]: .*\. Use another scoring, or folds"
        ):
            search(scoring="neg_log_loss", cv=cv).fit(X, y)

    def test_what_a_scorer_is_given_is_a_classifier(self, binary):
        seen = []

        def scoring(estimator, X, y):
            seen.append(estimator)
            return log_loss_by_hand(estimator, X, y)

        search(scoring=scoring).fit(*binary)
        X, _ = binary
        for one in seen:
            assert isinstance(one, TensorMarginClassifier)
            assert is_classifier(one)
            assert one.coef_.shape == (1, 4, 5, 3)
            np.testing.assert_array_equal(one.predict(X), one.classes_[(one.decision_function(X) > 0).astype(int)])
        with pytest.raises(RuntimeError, match="when the scores of all splits are there"):
            seen[0].predict_proba(X)


# ---- errors ----


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"decompositions": ("cp", "svd")}, "decompositions must be names from"),
        ({"decompositions": ()}, "decompositions must be names from"),
        ({"decompositions": "cp"}, "'decompositions' parameter .* must be an array-like"),
        ({"ranks": ()}, "ranks must be whole numbers of at least 1"),
        ({"ranks": (0,)}, "ranks must be whole numbers of at least 1"),
        ({"ranks": (1.5,)}, "ranks must be whole numbers of at least 1"),
        ({"ranks": ((2, 0, 1),)}, "ranks must be whole numbers of at least 1"),
        ({"ranks": 2}, "'ranks' parameter"),
        ({"decompositions": ("tucker",), "ranks": ((2, 2),)}, "one number per mode"),
        ({"decompositions": ("cp",), "ranks": ((2, 2),)}, "a CP rank is one whole number"),
        ({"lams": ()}, "lams must be positive numbers, at least one of them"),
        ({"lams": (0,)}, "lams must be positive numbers"),
        ({"lams": (1, np.inf)}, "lams must be positive numbers"),
        ({"lams": (np.nan,)}, "lams must be positive numbers"),
        ({"lams": ("scale",)}, "lams must be positive numbers"),
        ({"lams": 1.0}, "'lams' parameter"),
        ({"mus": (-1,)}, "mus must be numbers of at least 0"),
        ({"mus": ()}, "mus must be numbers of at least 0"),
        ({"mus": ("a",)}, "mus must be numbers of at least 0"),
        ({"preparation": []}, "preparation must be a transformer, None, or a list of at least one"),
        ({"preparation": [None, 3]}, "preparation must be a transformer, None, or a list of at least one"),
        ({"preparation": 3}, "'preparation' parameter"),
        ({"preparation": TensorScaler(by_group=True)}, "by_group=True needs groups"),
        ({"scoring": "no such score"}, "no such score"),
        ({"scoring": lambda *_: np.nan}, r"finite number for every test set; got nan for one with the classes \[-1"),
        ({"cv": 1}, "'cv' parameter"),
        ({"rule": "one_se"}, "'rule' parameter"),
        ({"multi_class": "all"}, "'multi_class' parameter"),
    ],
)
def test_settings_that_cannot_be(parameters, said, binary):
    with pytest.raises(ValueError, match=said):
        search(**parameters).fit(*binary)


def test_labels_and_samples_that_cannot_be(binary, fitted):
    X, y = binary
    with pytest.raises(ValueError, match="at least two classes; got one class"):
        search().fit(X, np.ones(90))
    with pytest.raises(ValueError, match="2 samples of each class, and class 7"):
        search().fit(X, np.r_[y[:-1], 7])
    with pytest.raises(ValueError, match="Unknown label type"):
        search().fit(X, np.linspace(0, 1, 90))
    with pytest.raises(ValueError, match="NaN"):
        search().fit(np.where(np.arange(3) == 1, np.nan, X), y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        search().fit(X, y, groups=np.zeros(3))
    with pytest.raises(NotFittedError):
        search().predict(X)
    for method in ("predict", "predict_proba", "decision_function", "binary_scores"):
        with pytest.raises(ValueError, match=r"shape seen in fit, \(4, 5, 3\); got \(4, 3, 5\)"):
            getattr(fitted, method)(np.swapaxes(X, 2, 3))
        with pytest.raises(ValueError, match="NaN"):
            getattr(fitted, method)(np.full_like(X, np.nan))


def test_given_splits_must_train_on_all_classes(digits):
    X, y = digits
    cv = [(np.flatnonzero(y != "two"), np.flatnonzero(y == "two"))]
    with pytest.raises(ValueError, match=r"that of split 0 by cv has no sample of \['two'\]"):
        search(cv=cv).fit(X, y)


def test_a_failed_fit_is_no_fit(binary):
    X, y = binary
    clf = search(scoring=lambda *_: np.nan)
    with pytest.raises(ValueError, match="finite"):
        clf.fit(X, y)
    with pytest.raises(NotFittedError):
        clf.predict_proba(X)
