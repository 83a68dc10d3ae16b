"""Tests of duplicate samples: found exactly, and warned about if a split may separate them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from conftest import low_rank_classes
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from tensormargin import (
    LeakageWarning,
    SampleSet,
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    Views,
    nested_evaluation,
    permutation_test,
)
from tensormargin.data import content_ranks, describe_duplicates, leakage, warn_of_duplicates
from tensormargin.data.leakage import duplicate_samples
from tensormargin.evaluation import (
    CompareSettings,
    FitPlan,
    compare,
    data_facts,
    evaluate_without_views,
    fit_and_evaluate,
)


def by_comparison(X):
    """Return sets of equal samples, found by comparing all pairs."""
    sets, seen = [], set()
    for row in range(len(X)):
        same = [other for other in range(row, len(X)) if X[row].tobytes() == X[other].tobytes()]
        if row not in seen and len(same) > 1:
            sets.append(same)
        seen.update(same)
    return sets


def found(X):
    return [rows.tolist() for rows in duplicate_samples(X)]


@given(st.integers(0, 10**6), st.integers(1, 40), st.sampled_from([(2,), (3, 2), (10, 13), (5, 4, 7)]))
def test_copies_are_those_that_a_comparison_finds(seed, n, shape):
    rng = np.random.default_rng(seed)
    originals = rng.integers(0, 2, (max(1, n // 2), *shape)).astype(rng.choice(["u1", "i4", "f4", "f8"]))
    X = originals[rng.integers(0, len(originals), n)]
    assert sorted(found(X)) == sorted(by_comparison(X))


def test_samples_that_differ_in_one_entry_are_no_copies():
    X = np.zeros((300, 20, 20))
    X[np.arange(300), np.arange(300) // 20, np.arange(300) % 20] = 1e-9  # mostly in entries that are not probed first
    assert found(X) == []
    X[7], X[250] = X[290], X[290]
    assert found(X) == [[7, 250, 290]]


def test_only_samples_that_agree_in_a_few_entries_are_read_whole(monkeypatch):
    X = np.random.default_rng(0).standard_normal((50, 30, 30))
    X[40] = X[3]
    read = []
    original = leakage.rows_of
    monkeypatch.setattr(leakage, "rows_of", lambda X, rows: read.extend(rows.tolist()) or original(X, rows))
    monkeypatch.setattr(leakage, "_BYTES_AT_ONCE", 1)  # one sample at a time
    assert found(X) == [[3, 40]]
    assert read == [3, 40]


def test_samples_that_do_not_lie_one_after_the_other_and_those_of_a_file(tmp_path):
    X = np.random.default_rng(0).standard_normal((20, 9, 11))
    X[5] = X[17]
    assert found(np.asfortranarray(X)) == found(np.moveaxis(np.moveaxis(X, 0, -1).copy(), -1, 0)) == [[5, 17]]
    np.save(tmp_path / "X.npy", X)
    assert found(np.load(tmp_path / "X.npy", mmap_mode="r")) == [[5, 17]]
    assert found(X.tolist()) == [[5, 17]]


@pytest.mark.parametrize("shape", [(3, 4), (9, 11)])
def test_samples_of_another_library(put, shape):
    X = np.random.default_rng(0).standard_normal((20, *shape)).astype(np.float32)
    X[5] = X[17]
    assert found(put(X)) == [[5, 17]]


def test_lazy_samples_are_read_once():
    import dask.array as da

    reads = []
    X = np.random.default_rng(0).standard_normal((10, 3))
    X[8] = X[1]
    lazily = da.from_array(X, chunks=5).map_blocks(lambda block: reads.append(1) or block, meta=np.empty((0, 0)))
    assert found(lazily) == found(lazily) == [[1, 8]]
    assert len(reads) == 2


def test_the_digits_have_no_copies():
    assert found(load_digits().images) == []


def test_what_is_said_and_when_groups_silence_it():
    X = np.random.default_rng(0).standard_normal((12, 3, 4))
    assert describe_duplicates(X) is None
    X[5] = X[8] = X[2]
    said = describe_duplicates(X)
    assert "2 of 12 samples are exact copies of other samples (such as 2 and 5, counted from 0)" in said
    assert "groups=... (command line: --groups)" in said
    together = np.arange(12)
    together[[5, 8]] = 2
    assert describe_duplicates(X, together.tolist()) is None
    apart = together.copy()
    apart[8] = 99
    said = describe_duplicates(X, apart)
    assert "exact copies of samples in other groups (such as 2 and 8, counted from 0)" in said
    assert "into one group" in said
    with pytest.warns(LeakageWarning, match="exact copies"):
        warn_of_duplicates(X, apart)
    assert issubclass(LeakageWarning, UserWarning)


@pytest.fixture
def copied():
    """Return samples whose last is a copy of the first, and groups that do and do not keep the two together."""
    X, y = low_rank_classes(0, 24, (3, 4), 3.0)
    X[-1], y[-1] = X[0], y[0]
    together = np.arange(24) // 2
    together[-1] = 0
    return X, y, np.arange(24) // 2, together


SEARCH = TensorMarginClassifierCV(("cp",), ranks=(1,), lams=(1.0,), mus=(0.0,), cv=2, random_state=0)
SETTINGS = CompareSettings(methods=("SVM",), repeats=1, lam_grid=(1.0,), folds=2)
EVALUATIONS = {
    "nested": lambda X, y, groups: nested_evaluation(SEARCH, X, y, groups, cv=2),
    "compare": lambda X, y, groups: list(compare(X, y, SETTINGS, groups=groups)),
    "permutation": lambda X, y, groups: permutation_test(SEARCH, X, y, groups, cv=2, n_permutations=1),
}


@pytest.mark.parametrize("name", EVALUATIONS)
def test_evaluations_warn_before_any_work_where_copies_may_be_separated(name, copied, monkeypatch):
    X, y, apart, together = copied
    for groups in (None, apart):
        with warnings.catch_warnings():
            warnings.simplefilter("error", LeakageWarning)
            with pytest.raises(LeakageWarning, match="1 of 24 samples are exact copies"):
                EVALUATIONS[name](X, y, groups)
    EVALUATIONS[name](X, y, together)  # warnings are errors here, too


def test_the_facts_of_the_samples_have_the_warning(copied):
    X, y, apart, together = copied
    samples = SampleSet(X, y, None, None, None, "a.npz", "NumPy archive", (), ("b.csv: 'subject' is not used",))
    first, second = data_facts(samples)["warnings"]
    assert first == "b.csv: 'subject' is not used"
    assert second.startswith("a.npz: 1 of 24 samples are exact copies")
    kept = SampleSet(X, y, together, None, None, "a.npz", "NumPy archive", ())
    assert data_facts(kept)["warnings"] == []
    split = SampleSet(X, y, apart, None, None, "a.npz", "NumPy archive", ())
    plan = FitPlan(decomposition="cp", rank=1, folds=2, outer_folds=2)
    with pytest.warns(LeakageWarning, match="in other groups"):
        about = fit_and_evaluate(split, plan).about
    assert about["data"]["warnings"] == data_facts(split)["warnings"] != []


def sparse_samples(n=60, side=30):
    """Return samples that are zero but for a few entries, all of which the first comparison misses."""
    rng, y = np.random.default_rng(0), np.arange(n) % 2
    X = np.zeros((n, side, side))
    X[:, 5:9, 2:5] = rng.standard_normal((n, 4, 3)) + y[:, None, None]
    probed = np.linspace(0, side * side - 1, 64).astype(int)
    X.reshape(n, -1)[:, probed] = 0.0
    return X, y


@pytest.mark.parametrize("where", ["numpy", "dask", "views"])
def test_sparse_samples_that_differ_are_no_copies(where):
    import dask.array as da

    X, _ = sparse_samples()
    X[7] = X[40]
    given = {"numpy": X, "dask": da.from_array(X, chunks=(20, 30, 30)), "views": Views(a=X, b=np.ones((60, 2)))}[where]
    ranks = content_ranks(given)
    assert len(np.unique(ranks)) == 59
    assert ranks[7] == ranks[40]
    np.testing.assert_array_equal(content_ranks(given[::-1])[::-1], ranks)


def test_sparse_samples_on_a_device_that_differ_are_no_copies(put):
    assert len(np.unique(content_ranks(put(sparse_samples()[0].astype(np.float32))))) == 60


def test_sparse_samples_have_probabilities():
    X, y = sparse_samples()
    clf = TensorMarginClassifier("cp", 1, probability=True, random_state=0).fit(X, y)
    assert np.std(clf.predict_proba(X)[:, 1]) > 0.2


def test_a_search_keeps_copies_together_and_warns():
    rng = np.random.default_rng(0)
    X = np.tile(rng.standard_normal((60, 5, 6)), (2, 1, 1))
    y = np.tile(np.arange(60) % 2, 2)
    search = TensorMarginClassifierCV(("full",), lams=(10.0,), mus=(0.0,), random_state=0)
    with pytest.warns(LeakageWarning, match="60 of 120 samples are exact copies .*search keep copies together") as told:
        search.fit(X, y)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert search.best_score_ < 0.75
    for train, test in search.splits(y, X=X):
        assert not set(train % 60) & set(test % 60)
        assert len(train) + len(test) == 120
    for _, test in search.splits(y, X=np.arange(120.0)[:, None, None]):  # no copies
        assert np.bincount(y[test]).tolist() == [12, 12]


NEAR_COPIES = {
    "noise": lambda X: X + 1e-9 * np.random.default_rng(1).standard_normal(X.shape),
    "factor": lambda X: 2 * X,
    "sign": lambda X: -X / 3,
    "rounding": lambda X: X.astype(np.float32).astype(float),
    "text": lambda X: np.vectorize(lambda value: float(f"{value:.7g}"))(X),
}


@pytest.mark.parametrize("name", NEAR_COPIES)
def test_a_search_keeps_near_copies_together_and_warns(name):
    X = np.random.default_rng(0).standard_normal((60, 5, 6))
    X, y = np.concatenate([X, NEAR_COPIES[name](X)]), np.tile(np.arange(60) % 2, 2)
    search = TensorMarginClassifierCV(("full",), lams=(10.0,), mus=(0.0,), random_state=0)
    with pytest.warns(LeakageWarning, match="60 of 120 samples are copies, up to a factor and rounding, of other"):
        search.fit(X, y)
    assert search.best_score_ < 0.75
    for train, test in search.splits(y, X=X):
        assert not set(train % 60) & set(test % 60)


@pytest.mark.parametrize("where", ["file", "dask", "views", "ragged", "large"])
def test_near_copies_are_found_wherever_the_samples_are(where, tmp_path):
    import dask.array as da

    X = np.random.default_rng(0).standard_normal((40, 5, 6 if where != "large" else 9000))
    X = np.concatenate([X, X[:20] * 1.7 + 1e-9])
    np.save(tmp_path / "X.npy", X)
    given = {
        "file": lambda: np.load(tmp_path / "X.npy", mmap_mode="r"),
        "dask": lambda: da.from_array(X, chunks=(7, 5, 4)),
        "views": lambda: Views(a=X, b=X[:, :2]),
        "ragged": lambda: [sample[:, : 4 + row % 2] for row, sample in enumerate(X)],
        "large": lambda: X,
    }[where]()
    assert sorted(found(given)) == [[row, row + 40] for row in range(20)]


def no_copies():
    rng = np.random.default_rng(0)
    template = rng.standard_normal((12, 12))
    yield "multiples of one sample", rng.random((300, 1, 1)) * template
    yield "sparse counts", np.unique(rng.poisson(0.05, (3000, 5, 4)), axis=0)
    yield (
        "binary pictures of any brightness",
        np.unique(rng.random((3000, 4, 4)) < 0.3, axis=0)[:300] * rng.random((300, 1, 1)),
    )
    yield "constants and zeros", np.concatenate([np.repeat(np.arange(9.0)[:, None], 40, 1), rng.random((50, 40))])
    yield "dead channels", np.concatenate([1 + 1e-9 * rng.random((20, 5, 8)), rng.standard_normal((50, 5, 8))])
    yield "small changes of a large mean", 1e6 * template + rng.standard_normal((2000, 12, 12))
    yield "single precision in kelvin", (300 + 0.1 * rng.standard_normal((2000, 40))).astype(np.float32)


@pytest.mark.parametrize(("name", "X"), list(no_copies()))
def test_samples_that_are_alike_without_being_copies(name, X):
    assert found(X) == []


def test_copies_are_separated_where_a_class_has_nothing_else():
    X, y = np.zeros((20, 3, 4)), np.arange(20) % 2
    with pytest.warns(LeakageWarning, match="19 of 20 samples are exact copies"):
        search = TensorMarginClassifierCV(("full",), lams=(1.0,), mus=(0.0,), cv=4, random_state=0).fit(X, y)
    assert search.n_splits_ == 4


def test_copies_are_those_of_the_samples_that_were_given():
    X, y = low_rank_classes(0, 30, (3, 4), 3.0)
    views = Views(signal=X, sex=(np.arange(30) % 3 == 0).astype(float))
    result = evaluate_without_views(SEARCH, views, y, cv=2)  # a warning would be an error
    assert set(result.without) == {"signal", "sex"}
    copied = Views(signal=np.concatenate([X, X[:1]]), sex=np.append(views["sex"], views["sex"][0]))
    with pytest.warns(LeakageWarning) as told:
        evaluate_without_views(SEARCH, copied, np.append(y, y[0]), cv=2)
    assert all("1 of 31 samples are exact copies" in str(one.message) for one in told)
    assert copied.contents is None
