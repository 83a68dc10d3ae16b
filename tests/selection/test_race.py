"""Tests of the race of candidates, of smoothed scores, and of what a search says about both."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import low_rank_classes
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from tensormargin import TensorMarginAutoClassifier, TensorMarginClassifier, TensorScaler
from tensormargin.cli import main
from tensormargin.cli.fit import Duration
from tensormargin.evaluation import FitPlan
from tensormargin.selection import TensorMarginClassifierCV, auto_model, splits_of
from tensormargin.selection.kinds import settled
from tensormargin.selection.race import FEWEST, Race, similarity, smooth
from tensormargin.selection.splits import repeated_splits, smaller_splits

LEVELS = list(product(range(2), range(4), range(4), range(2)))


def run(scores, default=0, seed=0, levels=LEVELS, exhaustive=False, watch=None, n_small=0, needed=None):
    """Return a finished race for a complete table of scores."""
    n_splits, rng = scores.shape[1] - n_small, np.random.RandomState(seed)
    race = Race(levels, n_splits, default, exhaustive, rng, n_small, needed)
    while race.units:
        for unit in race.units:
            race.scores[unit] = scores[unit]
        race.advance()
        if watch is not None:
            watch(race)
    return race


def noisy_scores(seed, n_splits=5, spread=1.0, levels=LEVELS):
    """Return scores with effects of the axes, of the splits, and noise."""
    rng = np.random.default_rng(seed)
    effects = np.linalg.cholesky(similarity(levels)) @ rng.standard_normal(len(levels))
    return spread * effects[:, None] + rng.standard_normal(n_splits) + rng.standard_normal((len(levels), n_splits))


class TestRace:
    @pytest.mark.parametrize("n_splits", [2, 3, 5, 10, 30])
    @pytest.mark.parametrize("seed", range(3))
    def test_at_most_a_quarter_of_the_fits_is_made_and_survivors_are_complete(self, n_splits, seed):
        scores = noisy_scores(seed, n_splits)
        race = run(scores, seed=seed)
        done = np.isfinite(race.scores)
        assert done.sum() <= scores.size / 4 + n_splits  # the default is always fitted on all splits
        np.testing.assert_array_equal(race.scores[done], scores[done])
        assert done[race.alive].all()
        assert not done[~race.alive].all(axis=1).any()
        assert race.alive[0]

    @given(st.integers(0, 10**6))
    def test_who_is_strictly_best_wherever_fitted_is_never_dropped(self, seed):
        scores = noisy_scores(seed)
        winner = int(Race(LEVELS, 5, 0, False, np.random.RandomState(0)).units[-1][0])  # fitted in the first rung
        scores[winner] = scores.max(axis=0) + 1e-6
        assert run(scores).alive[winner]

    def test_a_clear_winner_is_found_although_few_have_been_fitted(self):
        found = 0
        for seed in range(10):
            scores = noisy_scores(seed, spread=3.0)
            race = run(scores, seed=seed)
            best = max(np.flatnonzero(race.alive), key=lambda row: race.scores[row].mean())
            found += scores[best].mean() >= np.sort(scores.mean(axis=1))[-4]
        assert found >= 8

    def test_nothing_is_fitted_that_could_not_change_the_choice(self):
        scores = 0.6 + 0.05 * noisy_scores(0)
        scores[3] = 0.9
        race = run(scores, default=3, needed=lambda score: score + 0.1)  # no score is above 1
        assert np.isfinite(race.scores).sum() == scores.shape[1]
        assert np.flatnonzero(race.alive).tolist() == [3]
        assert all(reason.startswith("not fitted") for row, reason in enumerate(race.dropped) if row != 3)
        assert run(scores, default=3, exhaustive=True, needed=lambda score: 2.0).alive.all()

    @pytest.mark.parametrize("seed", range(5))
    def test_a_higher_demand_needs_fewer_fits_and_does_not_lose_a_clear_winner(self, seed):
        scores = 0.5 + 0.01 * noisy_scores(seed)
        plain, demanding = run(scores), run(scores, needed=lambda score: score + 0.2)
        assert np.isfinite(demanding.scores).sum() < np.isfinite(plain.scores).sum()
        levels = np.array(LEVELS)
        good = levels[:, 0] != levels[0, 0]  # all with the other value on an axis
        scores[good] += 0.3
        race = run(scores, needed=lambda score: score + 0.2)
        assert race.alive[good].any()

    def test_the_default_comes_first_and_stays(self):
        scores = noisy_scores(0)
        scores[7] = scores.min() - 1
        first = Race(LEVELS, 5, 7, False, np.random.RandomState(0)).units
        assert first[:5] == [(7, split) for split in range(5)]
        assert run(scores, default=7).alive[7]

    def test_reasons_say_when_and_by_how_much(self):
        race = run(noisy_scores(0, spread=3.0))
        reasons = [reason for reason in race.dropped if reason]
        assert len(reasons) == np.sum(~race.alive)
        assert all(reason.startswith("after ") and "of 5 splits: " in reason for reason in reasons)
        assert any("significantly below the best" in reason for reason in reasons)
        assert any("not among the best" in reason for reason in reasons)

    def test_exhaustive_and_few_candidates_are_fitted_everywhere(self):
        scores = noisy_scores(0)
        assert np.isfinite(run(scores, exhaustive=True).scores).all()
        few = run(scores[:FEWEST], levels=LEVELS[:FEWEST])
        assert np.isfinite(few.scores).all()
        assert few.alive.all()

    @pytest.mark.parametrize("seed", range(3))
    def test_planned_fits_are_never_fewer_than_those_made(self, seed):
        totals = []
        race = Race(LEVELS, 5, 0, False, np.random.RandomState(seed))
        scores = noisy_scores(seed)
        while race.units:
            totals.append(int(np.isfinite(race.scores).sum()) + race.n_planned)
            for unit in race.units:
                race.scores[unit] = scores[unit]
            race.advance()
        assert totals == sorted(totals, reverse=True)
        assert totals[-1] == np.isfinite(race.scores).sum()

    def test_a_stopped_race_keeps_complete_candidates_only(self):
        race = Race(LEVELS, 5, 3, False, np.random.RandomState(0))
        race.scores[3] = 0.5
        race.scores[4, 0] = 0.9
        race.stop("enough")
        race.advance()
        assert race.units == []
        assert np.flatnonzero(race.alive).tolist() == [3]
        assert race.dropped[4] == "enough"


class TestManyClasses:
    @pytest.mark.parametrize("seed", range(3))
    def test_only_the_last_few_are_fitted_on_all_classes(self, seed):
        scores = noisy_scores(seed, 10)
        scores[:, 5:] += 30.0  # fewer classes are easier
        race = run(scores, seed=seed, n_small=5)
        done = np.isfinite(race.scores)
        assert done[race.alive, :5].all()
        assert not done[~race.alive, :5].all(axis=1).any()
        assert done[1:, :5].sum() < done[:, 5:].sum() < done.size / 4
        assert race.alive.sum() <= FEWEST + 1 + 5  # the default, and the best on each split
        np.testing.assert_array_equal(race.scores[done], scores[done])
        best = int(np.argmax(np.where(race.alive, race.scores[:, :5].mean(axis=1), -np.inf)))
        assert np.quantile(scores[:, :5].mean(axis=1), 0.8) < scores[best, :5].mean()
        assert race.smoothed().mean[best] < 15  # as on all classes
        assert all("with fewer samples" in reason for reason in race.dropped if reason)

    def test_further_ones_are_fitted_after_the_best_of_smaller_splits_only_if_it_would_be_selected(self):
        rng = np.random.default_rng(0)
        scores = 0.5 + 0.01 * rng.random((len(LEVELS), 10))
        good = np.array([level[0] == LEVELS[-1][0] for level in LEVELS])
        for small, whole, fitted in ((1.0, 1.0, 2), (0.98, 0.98, 1 + FEWEST), (0.98, 0.53, 2)):
            scores[good] = [whole] * 5 + [small] * 5
            race = run(scores, n_small=5, needed=lambda score: score + 0.05)
            done = np.isfinite(race.scores[:, :5])
            assert done[0].all()
            assert done.any(axis=1).sum() == race.alive.sum() == fitted
            assert done.all(axis=1).sum() == race.alive.sum()
        race.add([LEVELS[0]])
        assert len(race.units) == 5

    def test_further_candidates_and_a_spent_budget_are_about_all_classes(self):
        race = run(noisy_scores(0, 10), n_small=5)
        race.add([LEVELS[0]])
        assert race.units == [(len(LEVELS), split) for split in range(5)]
        race.stop("spent")
        assert race.dropped[-1] == "spent"
        assert run(noisy_scores(0, 10)[:4], levels=LEVELS[:4], n_small=6).scores.shape == (4, 4)

    def test_their_splits_are_parts_of_the_splits(self):
        y = np.repeat(np.arange(15), 8)
        splits = splits_of(4, y, None, 0)
        small = smaller_splits(splits, y, np.random.RandomState(0))
        for (train, test), (some, left_out) in zip(splits, small, strict=True):
            assert set(y[some]) == set(y[left_out])
            assert len(set(y[some])) == 6
            assert set(some) == set(train[np.isin(y[train], y[some])])
            assert set(left_out) == set(test[np.isin(y[test], y[some])])
        assert len({tuple(np.unique(y[some])) for some, _ in small}) > 1
        assert smaller_splits(splits_of(4, y % 11, None, 0), y % 11, np.random.RandomState(0)) == []

    def test_with_many_samples_each_class_keeps_a_share_of_them(self):
        y = np.repeat([0, 1, 2], [600, 300, 24])
        splits = splits_of(4, y, None, 0)
        small = smaller_splits(splits, y, np.random.RandomState(0), fewer_samples=True)
        for (train, test), (some, left_out) in zip(splits, small, strict=True):
            assert set(some) < set(train)
            np.testing.assert_array_equal(np.bincount(y[some]), [150, 75, 18])  # of the last class all there are
            np.testing.assert_array_equal(left_out, test)
        assert smaller_splits(splits, y, np.random.RandomState(0)) == []
        weights = np.where((y > 0) | (np.arange(len(y)) % 40 == 0), 1.0, 0.0)  # few of the first class count
        for train, _ in smaller_splits(splits, y, np.random.RandomState(0), fewer_samples=True, weights=weights):
            assert weights[train].all()
            assert len(np.unique(y[train])) == len(np.unique(y))
        assert smaller_splits(splits_of(4, y[::2], None, 0), y[::2], np.random.RandomState(0), True) == []

    def test_an_automatic_search_in_many_samples_compares_others_on_fewer(self):
        rng = np.random.default_rng(0)
        y = np.arange(840) % 2
        X = rng.standard_normal((840, 3, 12))
        X[:, 0] += 0.2 * y[:, None]
        few = {"ranks": (1,), "lams": (0.1, 1), "mus": (0, 1)}
        search = TensorMarginAutoClassifier("series", random_state=0, **few).fit(X, y)
        table = search.cv_results_
        assert any("with fewer samples" in text for text in table["dropped"])
        assert table["n_splits_done"][search.best_index_] == 5
        assert (table["n_splits_done"] == 5).sum() <= FEWEST + 1

    @pytest.mark.parametrize("scoring", [None, "neg_log_loss"])
    def test_a_search_with_many_classes(self, scoring):
        rng = np.random.default_rng(0)
        y = np.repeat(np.arange(12), 9)
        X = 2.0 * rng.standard_normal((12, 4, 5))[y] + rng.standard_normal((len(y), 4, 5))
        search = TensorMarginClassifierCV(
            decompositions=["full", "cp"], lams=[0.1, 1, 10], cv=3, scoring=scoring, random_state=0
        ).fit(X, y)
        table = search.cv_results_
        assert search.n_splits_ == 3
        assert "split3_test_score" not in table
        assert table["n_splits_done"].max() == table["n_splits_done"][search.best_index_] == 3
        of_some = [text for text in table["dropped"] if "with fewer samples" in text]
        assert bool(of_some) == (scoring is None)
        assert search.score(X, y) > 0.9
        probabilities = search.predict_proba(X)
        assert probabilities.shape == (len(y), 12)

    def test_a_preparation_that_needs_more_samples_than_some_classes_have(self):
        rng = np.random.default_rng(0)
        y = np.repeat(np.arange(12), 6)
        X = 2.0 * rng.standard_normal((12, 50))[y] + rng.standard_normal((len(y), 50))
        search = TensorMarginClassifierCV(
            ["full"], lams=[0.1, 1, 10], cv=3, preparation=[None, PCA(30)], random_state=0
        ).fit(X, y)  # a training set of six classes has 24 samples
        assert search.score(X, y) > 0.9
        assert not any("with fewer samples" in text for text in search.cv_results_["dropped"])


class TestSmoothing:
    @pytest.mark.parametrize("share", [1.0, 0.3])
    def test_predictions_are_those_of_generalised_least_squares(self, share):
        rng = np.random.default_rng(0)
        scores = 80 + noisy_scores(0)
        scores[rng.random(scores.shape) > share] = np.nan
        prior = similarity(LEVELS)
        found = smooth(prior, scores)
        likelihoods, means, covariances = zip(*(by_hand(prior, scores, n) for n in (0.3, 1, 3, 10, 30)), strict=True)
        best = int(np.argmax(likelihoods))
        np.testing.assert_allclose(found.mean, means[best], rtol=1e-9)
        np.testing.assert_allclose(found.covariance, covariances[best], atol=1e-9)

    def test_similar_candidates_lend_each_other_their_scores(self):
        scores = np.full((len(LEVELS), 5), np.nan)
        for row, levels in enumerate(LEVELS):
            scores[row] = 0.9 if levels[0] else 0.5
        unseen = [row for row, levels in enumerate(LEVELS) if levels[1] == 2]
        scores[unseen] = np.nan
        mean = smooth(similarity(LEVELS), scores).mean
        ahead = mean[[row for row in unseen if LEVELS[row][0]]]
        behind = mean[[row for row in unseen if not LEVELS[row][0]]]
        assert ahead.min() > behind.max() + 0.2

    def test_shifts_and_units_of_scores_do_not_matter(self):
        scores = noisy_scores(1)
        prior = similarity(LEVELS)
        one, other = smooth(prior, scores), smooth(prior, 1e-3 * scores + 1e3)
        np.testing.assert_allclose(other.mean, 1e-3 * one.mean + 1e3, rtol=1e-9)
        np.testing.assert_allclose(other.covariance, 1e-6 * one.covariance, rtol=1e-4, atol=1e-12)

    @pytest.mark.parametrize("scores", [[[0.5]], [[0.5, 0.5]], [[0.5], [0.5], [0.5]], [[1.0, np.nan], [np.nan, 1.0]]])
    def test_hardly_any_scores(self, scores):
        levels = [(row,) for row in range(len(scores))]
        found = smooth(similarity(levels), np.array(scores))
        np.testing.assert_allclose(found.mean, np.nanmean(scores))
        assert np.isfinite(found.covariance).all()


def by_hand(prior, scores, noise):
    rows, splits = np.nonzero(np.isfinite(scores))
    observed, design = scores[rows, splits], (splits[:, None] == np.arange(scores.shape[1])).astype(float)
    total = prior[np.ix_(rows, rows)] + noise * np.eye(len(rows))
    inverse = np.linalg.inv(total)
    information = design.T @ inverse @ design
    fixed = np.linalg.solve(information, design.T @ inverse @ observed)
    weights = inverse @ (observed - design @ fixed)
    free = len(rows) - scores.shape[1]
    scale = observed @ weights / free
    logs = np.linalg.slogdet(total)[1] + np.linalg.slogdet(information)[1]
    towards = prior[:, rows]
    known = inverse - inverse @ design @ np.linalg.solve(information, design.T @ inverse)
    covariance = scale * (prior - towards @ known @ towards.T)
    return -0.5 * (free * np.log(scale) + logs), towards @ weights + fixed.mean(), covariance


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    centres = np.einsum("ki,kj->kij", rng.standard_normal((3, 5)), rng.standard_normal((3, 6)))
    return 0.5 * centres[y] + rng.standard_normal((90, 5, 6)), y


@pytest.fixture(scope="module")
def raced(samples):
    return auto_model(ranks=(1, 2), tol=1e-2).fit(*samples)


class TestSearch:
    def test_the_table_says_what_was_dropped_and_when(self, raced):
        results = raced.cv_results_
        dropped = np.array([bool(reason) for reason in results["dropped"]])
        scores = np.stack([results[f"split{k}_test_score"] for k in range(5)], axis=1)
        np.testing.assert_array_equal(results["n_splits_done"], np.isfinite(scores).sum(axis=1))
        assert np.all(results["n_splits_done"][~dropped] == 5)
        assert results["n_splits_done"].sum() <= scores.size / 4
        assert not dropped[raced.best_index_]
        assert results["rank_test_score"][raced.best_index_] == 1
        assert results["rank_test_score"][dropped].min() == np.sum(~dropped) + 1
        seen = np.isfinite(scores).any(axis=1)
        np.testing.assert_allclose(results["mean_test_score"][seen], np.nanmean(scores[seen], axis=1))
        assert np.isnan(results["mean_test_score"][~seen]).all()
        assert raced.stopped_ == ""

    def test_the_model_has_the_chosen_parameters(self, raced, samples):
        own = {name: value for name, value in raced.best_params_.items() if name != "preparation"}
        assert {name: raced.classifier_.get_params()[name] for name in own} == own
        assert raced.predict_proba(samples[0]).shape == (90, 3)
        assert raced.classifier_.multi_class_ == own["multi_class"]

    def test_racing_and_exhaustive_search_agree(self, samples):
        """The quick version of benchmarks/search.py: as good on held-out samples, from a quarter of the fits."""
        X, y = samples
        rng = np.random.default_rng(1)
        differences, spent = [], []
        for _ in range(2):
            rows = rng.permutation(90)
            train, test = rows[:60], rows[60:]
            race, every = (
                auto_model(ranks=(1,), mus=(0, 1, (10, 0)), lams=(1,), tol=1e-2, cv=3, exhaustive=exhaustive)
                for exhaustive in (False, True)
            )
            race.fit(X[train], y[train])
            every.fit(X[train], y[train])
            differences.append(race.score(X[test], y[test]) - every.score(X[test], y[test]))
            spent.append(race.cv_results_["n_splits_done"].sum() / every.cv_results_["n_splits_done"].sum())
        assert np.mean(differences) > -0.05
        assert max(spent) < 0.3

    @pytest.mark.parametrize("scoring", [None, "neg_log_loss"])
    def test_threads_change_nothing(self, samples, scoring):
        one, two = (
            auto_model(ranks=(1,), lams=(1,), tol=1e-2, multi_class="ovr", scoring=scoring, n_jobs=jobs).fit(*samples)
            for jobs in (1, 2)
        )
        for name in ("mean_test_score", "n_splits_done", "dropped", "smoothed_test_score"):
            np.testing.assert_array_equal(one.cv_results_[name], two.cv_results_[name])
        np.testing.assert_array_equal(one.predict_proba(samples[0]), two.predict_proba(samples[0]))

    def test_the_budget_leaves_a_model_and_says_so(self, samples):
        fit = auto_model(budget=1e-9).fit(*samples)
        cut = "was spent after 5 fits and left no time for 1 of 2 preparations"
        assert fit.stopped_ == f"the budget of 1e-09 s {cut}"
        assert fit.tried_ == [0]
        complete = fit.cv_results_["n_splits_done"] == 5
        assert complete.sum() == 1
        assert complete[fit.best_index_]
        assert fit.best_params_["mu1"] == fit.best_params_["mu2"] == 1
        assert {reason for reason in fit.cv_results_["dropped"] if reason} == {"the budget of 1e-09 s was spent"}
        assert fit.predict(samples[0]).shape == (90,)
        assert auto_model(ranks=(1,), lams=(1,), mus=(1,), budget=1e6, tol=1e-2).fit(*samples).stopped_ == ""

    @pytest.mark.parametrize("budget", [0, -1, "60s", np.nan])
    def test_budgets_that_cannot_be(self, samples, budget):
        with pytest.raises(ValueError, match="'budget' parameter"):
            TensorMarginClassifierCV(budget=budget).fit(*samples)

    def test_rule_smoothed_takes_the_best_smoothed_score(self, samples):
        fit = TensorMarginClassifierCV(("full", "cp"), (1,), rule="smoothed", random_state=0, tol=1e-2).fit(*samples)
        results = fit.cv_results_
        alive = np.array([not reason for reason in results["dropped"]])
        assert results["smoothed_test_score"][fit.best_index_] == results["smoothed_test_score"][alive].max()

    def test_mus_may_be_numbers_pairs_or_rows_of_an_array(self, samples):
        for mus in ((0, (10, 0)), [(0, 0), [10, 0]], np.array([[0, 0], [10, 0]])):
            fit = TensorMarginClassifierCV(("full",), lams=(1,), mus=mus, multi_class="ovo", cv=2).fit(*samples)
            pairs = zip(fit.cv_results_["param_mu1"], fit.cv_results_["param_mu2"], strict=True)
            assert list(pairs) == [(0, 0), (10, 0)]
        for mus in (((1, 2, 3),), ((1,),), ((1, -1),), ((1, np.nan),), (("a", 1),)):
            with pytest.raises(ValueError, match=r"mus must be numbers of at least 0, or pairs of them \(mu1, mu2\)"):
                TensorMarginClassifierCV(mus=mus).fit(*samples)


class TestBalancedOneAgainstTheRest:
    def test_a_class_weighs_as_much_as_all_others(self):
        rng = np.random.default_rng(0)
        y = np.repeat([0, 1, 2, 3], [5, 10, 10, 15])
        X = rng.standard_normal((40, 3, 4)) + y[:, None, None]
        ours = TensorMarginClassifier("full", multi_class="ovr", class_weight="balanced", tol=1e-6).fit(X, y)
        counts = np.bincount(y)
        for k in range(4):
            rest = 1 / counts / 3
            weights = np.where(np.arange(4) == k, 1 / counts[k], rest)[y]
            alone = TensorMarginClassifier("full", tol=1e-6).fit(X, y == k, weights)
            np.testing.assert_allclose(ours.coef_[k], alone.coef_[0], rtol=1e-3, atol=1e-4)


class TestRepeatedFolds:
    def test_fewer_folds_than_requested_are_repeated(self):
        y = np.repeat([0, 1, 2], [3, 9, 9])
        splits, n_once = repeated_splits(5, y, None, 0)
        assert n_once == 3
        assert len(splits) == 6
        for (train, test), (other_train, other) in zip(splits[:3], splits_of(5, y, None, 0), strict=True):
            np.testing.assert_array_equal(test, other)
            np.testing.assert_array_equal(train, other_train)
        assert len({test.tobytes() for _, test in splits}) == 6
        for start in (0, 3):
            rows = np.concatenate([test for _, test in splits[start : start + 3]])
            assert sorted(rows.tolist()) == list(range(21))

    def test_enough_folds_and_given_splits_are_used_once(self):
        y = np.repeat([0, 1], 10)
        assert len(repeated_splits(None, y, None, 0)[0]) == 5
        given = [(np.arange(1, 20), np.arange(1))] * 2
        assert repeated_splits(given, y, None, 0)[1] == 2

    def test_groups_that_can_be_divided_in_one_way_only_are_not_repeated(self):
        splits, n_once = repeated_splits(5, np.arange(12) % 2, np.arange(12) // 6, 0)
        assert len(splits) == n_once == 2

    def test_calibration_counts_every_sample_once(self):
        X, y = low_rank_classes(0, 9, (4, 5), 3.0)
        y = np.where(np.arange(9) < 3, 1, -1)
        few = {"lams": (1,), "mus": (1,), "ranks": (1,), "random_state": 0}
        fit = TensorMarginClassifierCV(("cp",), preparation=TensorScaler(), **few).fit(X, y)
        assert fit.n_splits_ == 6
        assert fit.calibration_.shape == (1, 2)


class TestCommandLine:
    @pytest.mark.parametrize(
        ("text", "seconds"), [("60", 60), ("60s", 60), ("1.5min", 90), (".5 h", 1800), ("2min", 120)]
    )
    def test_durations(self, text, seconds):
        assert Duration().convert(text, None, None) == seconds

    @pytest.mark.parametrize("text", ["0", "-1s", "soon", "5 days", "", "nan"])
    def test_what_is_no_duration(self, text, tmp_path):
        result = CliRunner().invoke(main, ["fit", "x.npz", "-o", str(tmp_path / "m.skops"), "--budget", text])
        assert result.exit_code == 2
        assert "is not a time of more than zero seconds; write 60s, 5min or 1h" in result.output

    def test_the_searches_of_a_plan(self):
        plan = FitPlan(budget=60, outer_folds=5, repeats=2, permutations=10)
        assert plan.searches() == (10, 1, 110, 0)  # the permutation test also searches with the true labels
        assert plan.model(1).budget == 60
        assert FitPlan(exhaustive=True).model(1).exhaustive
        assert FitPlan().model(1).budget is None

    def test_what_was_chosen_and_that_time_was_short_is_printed(self, samples, tmp_path):
        np.savez(tmp_path / "data.npz", X=samples[0], y=samples[1])
        options = ["--auto", "--outer-folds", "0", "--budget", "0.000001s", "--no-report"]
        result = CliRunner().invoke(
            main, ["fit", str(tmp_path / "data.npz"), "-o", str(tmp_path / "m.skops"), *options]
        )
        assert result.exit_code == 0, result.output
        assert "mu 1" in result.output
        number = len(settled("plain", (5, 6), None, None, False, -1)["preparation"])
        cut = f"was spent after 5 fits and left no time for {number - 1} of {number} preparations"
        assert f"Best so far: the budget of 1e-06 s {cut}; a longer --budget allows more" in result.output
        assert "Note: that took " in result.output
        assert "more than the 1e-06 s of --budget: loading, one model and the files are never cut" in result.output
