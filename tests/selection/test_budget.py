"""A budget: what is cut, what is said about it, and what another run finds. Time is that of a clock in the test."""

from __future__ import annotations

import pickle
from math import inf

import numpy as np
import pytest
from conftest import run

from tensormargin import Checkpoint, TensorMarginClassifierCV, nested_evaluation, permutation_test
from tensormargin.datasets import make_low_rank_classes
from tensormargin.evaluation import FitPlan, contenders, fit_and_evaluate
from tensormargin.evaluation.summaries import evaluation_facts
from tensormargin.io import SampleSet
from tensormargin.report import evaluation_lines
from tensormargin.runtime import Costs, Deadline
from tensormargin.selection import PreparedSplit
from tensormargin.transformers import TensorScaler

FEW = {
    "decompositions": ("cp",),
    "ranks": (1, 2),
    "lams": (1.0, 10.0),
    "mus": (0.0, 1.0),
    "cv": 3,
    "random_state": 0,
    "tol": 1e-2,
}


class Clock:
    """A clock that goes on only when something is said to take time."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


class SlowScaler(TensorScaler):
    """Takes a second per sample."""

    clock = Clock()

    def fit(self, X, *others):
        SlowScaler.clock.time += len(X)
        return super().fit(X, *others)


@pytest.fixture(scope="module")
def data():
    made = make_low_rank_classes(40, (4, 5), rank=1, random_state=0)
    return made.data, made.target


@pytest.fixture
def clock(monkeypatch):
    """Every fit of the search takes one second, and every one of the reference two."""
    clock = Clock()
    fit, last = PreparedSplit.fit, contenders._SharedFits.of
    monkeypatch.setattr(SlowScaler, "clock", clock)

    def slow(function, seconds):
        def called(*given):
            clock.time += seconds
            return function(*given)

        return called

    monkeypatch.setattr(PreparedSplit, "fit", slow(fit, 1.0))
    monkeypatch.setattr(contenders._SharedFits, "of", slow(last, 2.0))
    return clock


class TestDeadline:
    def test_parts_end_within_the_whole(self):
        clock = Clock()
        whole = Deadline(10, clock)
        half = whole.part(0.5)
        clock.time += 4
        assert (whole.left, half.left, whole.part(0.5).left, whole.sooner(2).left) == (6, 1, 3, 4)
        assert half.allows(0.9)
        assert not half.allows(1)
        clock.time += 7
        assert whole.left == -1
        assert whole.part(0.5).left == 0
        assert half.budget == 10
        half.costs.add("fit", 3.0)
        half.costs.add("fit", 2.0)
        assert whole.costs.of("other", "fit") == 3.0

    def test_without_a_limit_everything_is_allowed(self):
        never = Deadline.of(None)
        assert not never.limited
        assert never.part(0.1).left == never.sooner(5).left == inf
        assert never.allows(1e9)
        assert Deadline.of(never) is never

    def test_it_travels_with_the_time_left_to_a_process_with_another_clock(self):
        clock = Clock()
        arrived = pickle.loads(pickle.dumps(Deadline(60, clock).part(0.5)))
        assert 29 < arrived.left <= 30
        assert str(arrived) == "the budget of 60 s"
        assert pickle.loads(pickle.dumps(Costs())).of("fit") == 0.0


class TestSearch:
    @pytest.mark.parametrize("seconds", [8, 12, 20])
    def test_fits_that_would_end_too_late_are_not_begun(self, data, clock, seconds):
        began = clock.time
        search = TensorMarginClassifierCV(**FEW, exhaustive=True).fit(*data, deadline=Deadline(seconds, clock))
        done = int(search.cv_results_["n_splits_done"].sum())
        assert 3 <= done <= clock.time - began <= seconds - 1.5  # and the refit would take one and a half
        assert search.stopped_ == f"the budget of {seconds} s was spent after {done} fits"
        assert search.cv_results_["n_splits_done"][search.best_index_] == 3

    def test_of_a_short_time_one_model_remains(self, data, clock):
        began = clock.time
        search = TensorMarginClassifierCV(**FEW).fit(*data, deadline=Deadline(0.5, clock))
        assert clock.time - began == 3  # one candidate on three splits
        assert search.predict_proba(data[0]).shape == (40, 2)

    def test_preparations_that_take_too_long_are_left_out(self, data, clock):
        search = TensorMarginClassifierCV(**FEW, preparation=[None, TensorScaler(), SlowScaler()], rule="default")
        search.fit(*data, deadline=Deadline(200, clock))
        assert search.tried_ == [0, 1]
        assert search.stopped_ == "the budget of 200 s left no time for 1 of 3 preparations"
        assert clock.time <= 300
        assert search.fit(*data, deadline=Deadline(2000, clock)).tried_ == [0, 1, 2]

    @pytest.mark.parametrize("scoring", [None, "neg_log_loss"])
    def test_a_budget_that_suffices_changes_nothing(self, data, scoring):
        model = TensorMarginClassifierCV(**FEW, preparation=[None, TensorScaler()], scoring=scoring)
        plain, limited = model.fit(*data).cv_results_, model.set_params(budget=3600).fit(*data).cv_results_
        assert model.stopped_ == ""
        for name in ("mean_test_score", "n_splits_done", "dropped"):
            np.testing.assert_array_equal(plain[name], limited[name])

    def test_a_cut_search_is_not_resumed_without_a_budget(self, data, tmp_path):
        TensorMarginClassifierCV(**FEW, budget=1e-9).fit(*data, checkpoint=Checkpoint(tmp_path))
        assert list(tmp_path.iterdir())
        for budget, resumed in ((1e-9, True), (5.0, False), (None, False)):
            checkpoint = Checkpoint(tmp_path)
            TensorMarginClassifierCV(**FEW, budget=budget).fit(*data, checkpoint=checkpoint)
            assert checkpoint.resumed == resumed


class TestEvaluation:
    def test_the_search_and_the_reference_are_cut_alike(self, data, clock):
        began = clock.time
        model = TensorMarginClassifierCV(**FEW, exhaustive=True)
        found = nested_evaluation(model, *data, cv=4, budget=Deadline(80, clock))
        assert clock.time - began <= 80
        assert len(found.folds) == 4
        assert {fold.cut for fold in found.folds} == {("search", "reference")}
        assert found.cut == (
            "cut the search in 4 of 4 outer folds and the tuning of the flat LinearSVC in 4 of 4 outer folds"
        )

    def test_nothing_is_significant_where_a_fold_was_cut(self, data, clock):
        found = nested_evaluation(TensorMarginClassifierCV(**FEW), *data, cv=4, budget=Deadline(80, clock))
        difference = found.difference
        assert difference.difference == pytest.approx(found.accuracy - found.reference)
        assert (difference.low, difference.high, difference.p_value) == (None, None, None)
        assert not difference.significant
        said = " ".join(evaluation_lines(evaluation_facts(found, samples_of(data)), None))
        assert "cut the same way on the same training sets" in said
        assert f"The budget {found.cut}." in said
        assert "is not tested: with more time both may be better" in said
        assert "tuned" not in said.replace("the tuning", "")
        assert "significant (" not in said
        whole = nested_evaluation(TensorMarginClassifierCV(**FEW), *data, cv=4, budget=1e6)
        assert whole.cut == ""
        assert whole.difference.p_value is not None

    def test_folds_that_would_end_too_late_are_left_out(self, data, clock):
        began = clock.time
        found = nested_evaluation(TensorMarginClassifierCV(**FEW), *data, cv=8, budget=Deadline(20, clock))
        assert clock.time - began <= 26
        assert 1 <= len(found.folds) < 8
        assert found.cut.endswith(f"left no time for {8 - len(found.folds)} of 8 outer folds")
        assert found.tested.sum() == sum(fold.n_test for fold in found.folds)
        said = evaluation_lines(evaluation_facts(found, samples_of(data)), None)
        assert said[-1] == f"{40 - found.tested.sum()} samples were never tested: the budget {found.cut}."

    def test_the_budget_of_a_model_is_that_of_its_reference(self, data):
        found = nested_evaluation(TensorMarginClassifierCV(**FEW, budget=1e-9), *data, cv=2)
        assert {fold.cut for fold in found.folds} == {("search", "reference")}

    def test_a_cut_evaluation_is_not_resumed_without_a_budget(self, data, tmp_path):
        model = TensorMarginClassifierCV(**FEW)
        nested_evaluation(model, *data, cv=2, budget=1e-9, checkpoint=Checkpoint(tmp_path))
        for budget, resumed in ((1e-9, True), (1e6, False), (None, False)):
            checkpoint = Checkpoint(tmp_path)
            found = nested_evaluation(model, *data, cv=2, budget=budget, checkpoint=checkpoint)
            assert checkpoint.resumed == resumed
            assert bool(found.cut) == resumed

    def test_permutations_that_would_end_too_late_are_left_out(self, data, clock):
        began = clock.time
        model = TensorMarginClassifierCV(**FEW)
        test = permutation_test(model, *data, cv=2, n_permutations=40, random_state=0, budget=Deadline(60, clock))
        assert clock.time - began <= 60
        assert 3 <= len(test.permuted) < 40
        assert test.n_planned == 40
        assert test.smallest_p == 1 / (1 + len(test.permuted))


class TestWholeFit:
    def test_the_model_comes_first_and_then_as_much_of_the_rest_as_there_is_time_for(self, data, clock):
        plan = FitPlan(decomposition="cp", rank=1, folds=3, outer_folds=4, permutations=20, budget=70)
        began = clock.time
        about = fit_and_evaluate(samples_of(data), plan, deadline=Deadline(70, clock)).about
        assert clock.time - began <= 70
        assert about["cut"] == []
        assert about["search"]["stopped"].startswith("the budget of 70 s was spent after ")
        assert about["evaluation"]["cut"]
        assert 0 < about["chance"]["n_permutations"] < about["chance"]["n_planned"] == 20
        assert "20 planned permutations of labels" in evaluation_lines(about["evaluation"], about["chance"])[-1]

    def test_with_too_little_time_there_is_a_model_without_an_evaluation(self, data, clock):
        plan = FitPlan(decomposition="cp", rank=1, folds=3, outer_folds=4, permutations=20, budget=4)
        about = fit_and_evaluate(samples_of(data), plan, deadline=Deadline(4, clock)).about
        assert about["evaluation"] is about["chance"] is None
        left = "the budget of 4 s left no time for"
        assert about["cut"] == [f"{left} the evaluation", f"{left} the permutation test"]

    def test_the_command_says_what_was_cut(self, data, tmp_path):
        np.savez(tmp_path / "data.npz", X=data[0], y=data[1])
        short = run(
            "fit", tmp_path / "data.npz", "-o", tmp_path / "m.skops", "--budget", "0.001s", "--outer-folds", "2"
        )
        assert "Cut: the budget of 0.001 s left no time for the evaluation" in short.stdout
        assert "left no time for the report, which `tensormargin report` makes" in short.stdout
        assert "This model was not evaluated" in short.stdout
        assert not (tmp_path / "m.html").exists()
        shown = run("report", tmp_path / "m.skops", tmp_path / "data.npz", "-o", tmp_path / "m.html")
        assert "m.html" in shown.stdout
        assert "the budget of 0.001 s was spent" in (tmp_path / "m.html").read_text()


def samples_of(data):
    return SampleSet(*data, None, None, None, "noise", "plain", ())
