"""Tests of the permutation test: its statistic, the permuted labels, and valid p-values."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import fewer_models, low_rank_classes
from scipy.stats import kstest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import make_pipeline

from tensormargin import TensorMarginClassifier
from tensormargin.data import LeakageWarning
from tensormargin.evaluation import nested_evaluation, permutation, permutation_test
from tensormargin.selection import TensorMarginClassifierCV
from tensormargin.transformers import TensorScaler

SEARCH = {"decompositions": ("cp",), "ranks": (1,), "lams": (1,), "mus": (0,), "cv": 3, "random_state": 0}


def search(**parameters) -> TensorMarginClassifierCV:
    return TensorMarginClassifierCV(**{**SEARCH, **parameters})


@pytest.fixture(autouse=True, scope="module")
def _few_models():
    """Let the reference, which is not what is tested here, try two strengths."""
    with fewer_models():
        yield


@pytest.fixture(scope="module")
def binary():
    return low_rank_classes(0, 72, (4, 5), 3.0, rank=1)


@pytest.fixture(scope="module")
def groups():
    return np.arange(72) // 6  # twelve groups, both classes in each


class Recorder(ClassifierMixin, BaseEstimator):
    """A classifier that records the labels it is fitted to and is correct on a given share of them."""

    seen: list[np.ndarray] = []  # noqa: RUF012 - one list for all clones
    scores: list[float] = []  # noqa: RUF012

    def fit(self, X, y):
        Recorder.seen.append(y.copy())
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        y = Recorder.seen[-1]
        share = Recorder.scores[len(Recorder.seen) - 1] if Recorder.scores else 0.5
        wrong = np.roll(self.classes_, 1)[np.searchsorted(self.classes_, y)]
        return np.where(np.arange(len(y)) < round(share * len(y)), y, wrong)


@pytest.fixture
def recorder():
    Recorder.seen, Recorder.scores = [], []
    return Recorder()


def distinct(n: int) -> np.ndarray:
    """Return uninformative samples without duplicates."""
    return np.arange(2.0 * n).reshape(n, 2)


def everything(n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(np.arange(n), np.arange(n))]


@pytest.mark.parametrize(
    ("scores", "p_value"), [([0.8, 0.9, 0.8, 0.1], 3 / 4), ([0.8, 0.7, 0.6, 0.1], 1 / 4), ([0.1, 0.7, 0.6, 0.1], 4 / 4)]
)
def test_the_p_value_counts_permutations_that_are_as_good(scores, p_value, recorder):
    Recorder.scores = scores
    told = []
    test = permutation_test(
        recorder,
        distinct(10),
        np.arange(10) % 2,
        cv=everything(10),
        n_permutations=3,
        random_state=0,
        progress=lambda *call: told.append(call),
    )
    assert test.p_value == p_value
    assert test.score == scores[0]
    np.testing.assert_array_equal(test.permuted, scores[1:])
    assert [call[:2] for call in told] == [(done, 4) for done in range(1, 5)]
    assert told[-1][2] == "3 of 3 permutations"


def test_labels_are_exchanged_between_samples(recorder):
    y = np.repeat([0, 1, 2], [10, 6, 4])
    test = permutation_test(recorder, distinct(20), y, cv=everything(20), n_permutations=30, random_state=0)
    assert test.permuted_what == "labels of samples"
    np.testing.assert_array_equal(recorder.seen[0], y)
    assert len({tuple(labels) for labels in recorder.seen}) == 31
    for labels in recorder.seen:
        np.testing.assert_array_equal(np.bincount(labels), [10, 6, 4])


def test_labels_are_exchanged_within_groups(recorder):
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.repeat(["a", "b", "c"], 8))
    y = np.where(rng.uniform(size=24) < np.array([0.2, 0.5, 0.8])[np.unique(groups, return_inverse=True)[1]], 1, 0)
    test = permutation_test(recorder, distinct(24), y, groups, cv=everything(24), n_permutations=30, random_state=0)
    assert test.permuted_what == "labels within groups"
    assert len({tuple(labels) for labels in recorder.seen}) > 25
    for labels in recorder.seen:
        for group in "abc":
            assert labels[groups == group].sum() == y[groups == group].sum()


def test_whole_groups_are_exchanged_where_each_has_one_label(recorder):
    groups = np.random.default_rng(0).permutation(np.repeat(np.arange(10), [2, 3, 4, 5, 6, 2, 3, 4, 5, 6]))
    y = np.array(["ill", "well"])[(groups < 4).astype(int)]
    test = permutation_test(recorder, distinct(40), y, groups, cv=everything(40), n_permutations=30, random_state=0)
    assert test.permuted_what == "labels of whole groups"
    assert len({tuple(labels) for labels in recorder.seen}) > 25
    for labels in recorder.seen:
        of_groups = [np.unique(labels[groups == group]) for group in range(10)]
        assert all(len(one) == 1 for one in of_groups)
        assert sum(one[0] == "well" for one in of_groups) == 4


def test_a_difference_is_found(binary, groups):
    X, y = binary
    for own in (None, groups):
        test = permutation_test(
            make_pipeline(TensorScaler(), TensorMarginClassifier("cp", 1)),
            X,
            y,
            own,
            cv=3,
            n_permutations=12,
            random_state=0,
        )
        assert test.p_value == 1 / 13
        assert test.score > 0.8
        assert test.permuted.shape == (12,)
        assert abs(test.permuted.mean() - 0.5) < 0.1


class BetweenMeans(ClassifierMixin, BaseEstimator):
    """A nearest-mean classifier for two classes, fast enough for thousands of fits."""

    def fit(self, X, y):
        first, second = (X[y == label].mean(axis=0) for label in (0, 1))
        self.direction_, self.middle_ = second - first, (first + second) / 2
        return self

    def predict(self, X):
        return ((X - self.middle_) @ self.direction_ > 0).astype(int)


@pytest.mark.parametrize("kind", ["samples", "within", "whole"])
def test_noise_gives_p_values_of_any_size(kind):
    """Under the null hypothesis a p-value is at most a with probability a, or less if scores are tied."""
    rng = np.random.default_rng(0)
    groups = {"samples": None, "within": np.arange(24) // 4, "whole": np.arange(24) // 2}[kind]
    p_values = []
    for seed in range(25):
        y = groups % 2 if kind == "whole" else np.arange(24) % 2
        X = rng.standard_normal((24, 3))
        if groups is not None:
            X += 3 * rng.standard_normal((groups.max() + 1, 3))[groups]  # an effect of the group, not of the class
        test = permutation_test(BetweenMeans(), X, y, groups, cv=2, n_permutations=9, random_state=seed)
        p_values.append(test.p_value)
    p_values = np.array(p_values)
    assert kstest(p_values, "uniform", alternative="greater").pvalue > 0.01  # not too many small p-values
    assert np.mean(p_values <= 0.2) > 0.02  # but some
    assert p_values.min() >= 1 / 10


@pytest.mark.campaign
def test_permutation_tests_are_reproducible(binary):
    X, y = binary
    y = np.random.default_rng(0).permutation(y)
    model = TensorMarginClassifier("cp", 1, tol=0.01)
    first, again, two, other = (
        permutation_test(model, X, y, cv=2, n_permutations=6, random_state=seed, n_jobs=jobs)
        for seed, jobs in ((0, None), (0, None), (0, 2), (1, None))
    )
    np.testing.assert_array_equal(first.permuted, again.permuted)
    np.testing.assert_array_equal(first.permuted, two.permuted)
    assert (first.score, first.p_value) == (two.score, two.p_value)
    assert not np.array_equal(first.permuted, other.permuted)


def test_a_search_is_done_anew_for_every_permutation(binary):
    X, y = binary
    test = permutation_test(search(lams=(1,)), X, y, cv=2, n_permutations=4, random_state=0)
    assert test.p_value == 0.2


def test_permutation_tests_that_cannot_be(binary):
    X, y = binary
    with pytest.raises(ValueError, match="n_permutations must be at least 1; got 0"):
        permutation_test(search(), X, y, n_permutations=0)
    with pytest.raises(ValueError, match="a quantity was found"):
        permutation_test(search(), X, np.linspace(0, 1, 72))
    with pytest.raises(ValueError, match="score must be one of accuracy, balanced_accuracy; got 'f1'"):
        permutation_test(search(), X, y, score="f1")
    with pytest.raises(ValueError, match="one entry per sample"):
        permutation_test(search(), X, y, groups=np.zeros(5))


@pytest.mark.parametrize(
    ("grouped", "repeats", "score"),
    [(False, 1, "accuracy"), (True, 1, "accuracy"), (False, 2, "accuracy"), (True, 1, "balanced_accuracy")],
)
def test_what_is_tested_is_the_nested_score(grouped, repeats, score, binary, groups):
    """With folds of unequal size and a rare class, a mean over folds would be a different number."""
    X, y = binary[0][:64], binary[1][:64]
    rare = np.flatnonzero(y > 0)[:20]
    X, y, own = (np.delete(part, rare, axis=0) for part in (X, y, groups[:64]))
    own = own if grouped else None
    model = search(cv=2)
    nested = nested_evaluation(model, X, y, own, cv=3, repeats=repeats, seed=3, score=score)
    test = permutation_test(model, X, y, own, cv=3, repeats=repeats, n_permutations=1, random_state=3, score=score)
    assert test.score == pytest.approx(nested.interval.score, abs=1e-12)


def whole_groups(n_groups: int, seed: int = 0):
    """Return samples of well-separated classes, labels, and groups of three samples with one label each."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), 3)
    y = groups % 2
    return rng.standard_normal((len(y), 3)) + 2.0 * y[:, None], y, groups


def test_one_group_with_two_labels_does_not_cost_the_power():
    X, y, groups = whole_groups(30)
    y[0] = 1 - y[0]
    test = permutation_test(BetweenMeans(), X, y, groups, cv=3, n_permutations=39, random_state=0)
    assert test.permuted_what == "labels within groups and of whole groups"
    assert test.p_value == 1 / 40
    assert (test.fixed_groups, test.n_fixed) == ([], 0)


def test_whole_groups_and_mixed_ones_keep_their_composition(recorder):
    groups = np.random.default_rng(0).permutation(np.repeat(np.arange(8), 5))
    y = (groups < 3).astype(int)
    mixed = np.flatnonzero(groups >= 6)
    y[mixed[::2]] = 1
    permutation_test(recorder, distinct(40), y, groups, cv=everything(40), n_permutations=30, random_state=0)
    assert len({tuple(labels) for labels in recorder.seen}) > 25
    for labels in recorder.seen:
        ones = [labels[groups == group].sum() for group in range(8)]
        assert sorted(ones[:6]) == [0, 0, 0, 5, 5, 5]
        assert ones[6:] == [y[groups == group].sum() for group in (6, 7)]


def test_what_cannot_be_exchanged_is_named(recorder):
    groups = np.repeat(["a", "b", "c", "d"], 6)
    y = np.r_[np.zeros(12, int), np.tile([0, 1], 6)]
    test = permutation_test(recorder, distinct(24), y, groups, cv=everything(24), n_permutations=5, random_state=0)
    assert test.permuted_what == "labels within groups"
    assert (test.fixed_groups, test.n_fixed) == (["a", "b"], 12)
    for labels in recorder.seen:
        np.testing.assert_array_equal(labels[:12], 0)


@pytest.mark.filterwarnings("ignore:the groups determine the labels")
@pytest.mark.parametrize(
    ("groups", "labels", "smallest"),
    [
        (np.repeat(np.arange(4), 5), np.repeat([0, 0, 1, 1], 5), 1 / 6),  # 4 choose 2 arrangements of whole groups
        (np.repeat(np.arange(2), 3), np.array([0, 0, 1, 0, 1, 1]), 1 / 9),  # three within each group
        (None, np.arange(20) % 2, 1 / 51),  # limited by the number of permutations
    ],
)
def test_the_smallest_possible_p_value_is_known(groups, labels, smallest, recorder):
    X = distinct(len(labels))
    test = permutation_test(recorder, X, labels, groups, cv=everything(len(labels)), n_permutations=50, random_state=0)
    assert test.smallest_p == pytest.approx(smallest)


def test_labels_and_groups_of_pandas_are_taken_by_position():
    pandas = pytest.importorskip("pandas")
    X, y, groups = whole_groups(12)
    labels = np.array(["ill", "well"])[y]
    index = np.random.default_rng(0).permutation(len(y))
    given = {
        "series": (pandas.Series(labels, index=index), pandas.Series(groups, index=index)),
        "strings": (pandas.Series(labels, index=index, dtype="string"), pandas.Series(groups).astype("category")),
        "lists": (labels.tolist(), groups.tolist()),
    }
    model = TensorMarginClassifier("full")
    options = {"cv": 3, "n_permutations": 3, "random_state": 0}
    expected = permutation_test(model, X, labels, groups, **options)
    assert expected.score > 0.9
    for own_labels, own_groups in given.values():
        found = permutation_test(model, X, own_labels, own_groups, **options)
        assert found.score == expected.score
        np.testing.assert_array_equal(found.permuted, expected.permuted)


def test_side_by_side_both_evaluations_give_the_same_number_by_default():
    X, y = low_rank_classes(0, 50, (4, 5), 0.6)
    y = np.where(np.arange(50) < 10, -1, y)
    for scoring in (None, "balanced_accuracy"):
        search = TensorMarginClassifierCV(("cp",), (1,), lams=(0.1, 1.0), mus=(0.0,), cv=2, scoring=scoring)
        nested = nested_evaluation(search, X, y)
        assert permutation_test(search, X, y, n_permutations=1).score == pytest.approx(nested.interval.score)
        assert search.random_state is None


def blocks_with_noise(seed, n_runs=6):
    """Return runs of eight blocks of five samples that share most of their noise, with labels that say nothing."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([rng.permutation(np.arange(8) % 2) for _ in range(n_runs)], 5, axis=1).ravel()
    noise = np.repeat(rng.standard_normal((8 * n_runs, 3, 4)), 5, axis=0)
    return noise + 0.3 * rng.standard_normal((40 * n_runs, 3, 4)), labels, np.repeat(np.arange(n_runs), 40)


def test_blocks_of_a_run_exchange_their_labels():
    """Exchanging labels of samples finds a difference in 15 % of such data sets, not in 5: neighbours share noise."""
    _, y, runs = blocks_with_noise(0)
    model = TensorMarginClassifier("full", lam=0.1)
    tests = [permutation_test(model, *blocks_with_noise(seed), cv=3, n_permutations=19) for seed in range(24)]
    assert {test.permuted_what for test in tests} == {"labels of blocks within groups"}
    assert np.mean([test.p_value <= 0.05 for test in tests]) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 24)
    exchange = permutation._Exchange(y, runs)
    permuted = exchange.permuted(np.random.RandomState(0))
    for run in range(6):
        rows = permuted[runs == run].reshape(8, 5)
        assert np.all(rows == rows[:, :1])
        assert rows.sum() == y[runs == run].sum()


def test_too_few_blocks_are_warned_of():
    y, runs = np.tile(np.repeat([0, 1], 20), 3), np.repeat(np.arange(3), 40)
    with pytest.warns(LeakageWarning, match="average the samples of each block"):
        exchange = permutation._Exchange(y, runs)
    assert exchange.what == "labels within groups"
