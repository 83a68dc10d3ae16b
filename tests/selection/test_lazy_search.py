"""Tests of searches and commands on samples in Dask arrays: results as in memory, with few reads and little memory."""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter

import numpy as np
import pytest
import zarr
from conftest import fewer_models, run, sparse_product, undrawn_figures
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold

from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV, fit_many, nested_evaluation
from tensormargin.data.leakage import duplicate_samples
from tensormargin.evaluation.contenders import contender, tuned
from tensormargin.evaluation.held_out import Labelled
from tensormargin.evaluation.references import SUBSET, lazy_reference
from tensormargin.io import BadFileError, load_samples
from tensormargin.runtime import tuning
from tensormargin.selection import splits_of
from tensormargin.transformers import TensorScaler

NEEDED = "needs Dask: pip install 'tensormargin[dask]'"
dask = pytest.importorskip("dask", reason=NEEDED)
da = pytest.importorskip("dask.array", reason=NEEDED)

import tensormargin.evaluation.references as reference  # noqa: E402
import tensormargin.io.lazy as files  # noqa: E402
from tensormargin.fitting import SharedLazySamples  # noqa: E402

SHAPE = (5, 4, 3)
pytestmark = pytest.mark.filterwarnings("ignore", category=ConvergenceWarning)


@pytest.fixture(autouse=True)
def _synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def stays(monkeypatch):
    """Leave small arrays where they are, which would be read into memory otherwise."""
    monkeypatch.setattr(tuning, "LOADED_SHARE", 0.0)


def three_classes(n=48, shape=SHAPE, dtype=np.float64):
    X, y = np.random.default_rng(0).normal(size=(n, *shape)), np.arange(n) % 3
    for label in range(3):
        X[y == label, label] += 0.6
    return (X * np.linspace(1, 4, shape[0])[:, None, None]).astype(dtype), y


class Reads:
    """A Dask array that counts how often each of its chunks is read."""

    def __init__(self, X, length):
        self.count = Counter()
        positions = da.from_array(np.arange(len(X)), chunks=length)

        def read(rows):
            self.count[int(rows[0])] += 1
            return X[rows]

        self.array = da.blockwise(
            read, "abcd", positions, "a", new_axes=dict(zip("bcd", X.shape[1:], strict=True)), dtype=X.dtype,
            meta=np.empty((0,) * 4, X.dtype),
        )  # fmt: skip


def searched(X, y, **parameters):
    options = {"ranks": (1,), "lams": (0.1, 1.0), "mus": (0, 1), "multi_class": "ovr", "cv": 2, "max_iter": 2}
    return TensorMarginClassifierCV(random_state=0, **(options | parameters)).fit(X, y)


def assert_same_search(one, other, rtol=1e-6):
    assert one.best_params_ == other.best_params_
    np.testing.assert_allclose(one.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"], rtol=1e-5)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=rtol * np.abs(other.coef_).max())
    np.testing.assert_allclose(one.calibration_, other.calibration_, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "parameters",
    [
        {"preparation": [None, TensorScaler("entry")], "lams": (1.0,), "mus": (1,)},
        {"scoring": "balanced_accuracy", "decompositions": ("cp", "tt"), "mus": (1,), "exhaustive": True},
        {"scoring": "neg_log_loss", "decompositions": ("cp",), "mus": (1,), "multi_class": "auto"},
        {"decompositions": ("full",), "fit_intercept": False},
    ],
    ids=["preparations", "balanced", "probabilities", "full"],
)
def test_a_search_is_that_of_samples_in_memory(parameters, stays):
    X, y = three_classes()
    lazily = da.from_array(X, chunks=(20, *SHAPE))
    assert_same_search(searched(lazily, y, **parameters), searched(X, y, **parameters))


def test_candidates_folds_and_preparations_share_reads(stays, monkeypatch):
    """A chunk is read once per round of block problems, not once per problem."""
    X, y = three_classes()
    rounds, requests = [], []
    designs = SharedLazySamples.designs

    def counted(self, asked):
        rounds.append(1)
        requests.extend(asked)
        return designs(self, asked)

    monkeypatch.setattr(SharedLazySamples, "designs", counted)
    lazily = Reads(X, 12)
    alternatives = [None, TensorScaler("entry")]
    few = {"decompositions": ("cp", "full"), "max_iter": 1, "exhaustive": True}
    search = searched(lazily.array, y, preparation=alternatives, **few)
    n_fits = int(search.cv_results_["n_splits_done"].sum())
    fixed = 1 + 2 + 4 * 3 + 3  # preparations of all samples and of folds; pivots, sums and weights of flat fits; scores
    for_refit = 3 * 4 * search.n_iter_ + 2
    assert max(lazily.count.values()) <= len(rounds) + fixed + for_refit
    assert len(rounds) < len(requests) / 20
    assert max(lazily.count.values()) < n_fits


def test_small_arrays_are_read_once():
    X, y = three_classes()
    lazily = Reads(X, 12)
    assert_same_search(searched(lazily.array, y, decompositions=("cp",)), searched(X, y, decompositions=("cp",)), 1e-12)
    assert set(lazily.count.values()) == {1}
    TensorMarginClassifier().fit(lazily.array, y)
    assert set(lazily.count.values()) == {2}
    fit_many([TensorMarginClassifier(lam=lam) for lam in (0.1, 1.0)], lazily.array, y)
    assert set(lazily.count.values()) == {3}


@pytest.mark.parametrize(
    ("weight", "dtype"),
    sparse_product([("full", None), ("cp", 2), ("tucker", 2), ("tt", 2)], [np.float64, np.float32, np.uint8]),
)
def test_many_fits_are_those_in_memory(weight, dtype, stays):
    X, y = three_classes()
    X = (20 * X + 120).clip(0, 255).astype(dtype)
    weights = np.random.default_rng(1).random(len(y)) * (np.arange(len(y)) % 7 > 0)
    rows = [train for train, _ in StratifiedKFold(2).split(X, y)] + [None]

    def fitted(samples):
        models = [TensorMarginClassifier(*weight, lam=lam, tol=1e-5, max_iter=3) for lam in (0.1, 1.0) for _ in rows]
        return fit_many(models, samples, y, rows * 2, weights)

    lazily = fitted(da.from_array(X, chunks=((9, 20, 0, 19), *SHAPE)))
    for one, other in zip(lazily, fitted(X), strict=True):
        assert one.coef_.dtype == other.coef_.dtype
        np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-4 * np.abs(other.coef_).max())
        np.testing.assert_allclose(one.objective_, other.objective_, rtol=1e-5)


def test_designs_arrive_in_parts_that_fit_memory(stays, monkeypatch):
    X, y = three_classes()
    lazily = da.from_array(X, chunks=(20, *SHAPE))
    few = {"decompositions": ("cp", "full"), "lams": (1.0,), "mus": (1,)}
    whole = searched(lazily, y, **few)
    monkeypatch.setattr(tuning, "ROUND_SHARE", 0.0)
    monkeypatch.setattr(tuning, "ROUND_LEAST_BYTES", 5000)
    largest = []
    designs = SharedLazySamples.designs

    def measured(self, asked):
        answer = designs(self, asked)
        largest.append((sum(one.nbytes for one in answer), len(answer)))
        return answer

    monkeypatch.setattr(SharedLazySamples, "designs", measured)
    assert_same_search(searched(lazily, y, **few), whole)
    assert len(largest) > 1
    assert all(n_bytes <= 5000 or count == 1 for n_bytes, count in largest)


def test_missing_values_are_found(stays):
    X, y = three_classes()
    X[7, 0, 0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        searched(da.from_array(X, chunks=(20, *SHAPE)), y)


def test_full_weights_that_would_fill_the_memory(stays, monkeypatch):
    X, y = three_classes()
    lazily = da.from_array(X, chunks=(20, *SHAPE))
    monkeypatch.setattr(tuning, "COORDINATE_COPIES", np.inf)
    with pytest.warns(UserWarning, match="not among the candidates"):
        search = searched(lazily, y, decompositions=("full", "cp"), lams=(1.0,), mus=(1,))
    assert set(search.cv_results_["param_decomposition"]) == {"cp"}
    with pytest.raises(ValueError, match="Use another decomposition, or fewer samples"):
        searched(lazily, y, decompositions=("full",))


def five_folds(samples):
    return splits_of(5, samples.y, samples.groups, 0)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("shape", [SHAPE, (2, 3, 2)], ids=["wide", "long"])
def test_the_flat_reference_is_that_in_memory(n_classes, shape):
    X, y = three_classes(90, shape=(5, 4, 3))
    X = X[(slice(None), *map(slice, shape))]
    kept = y < n_classes
    X, y = X[kept], y[kept]
    flat = contender("LinearSVC")
    here = tuned(flat, Labelled(X, y), 5, 0)
    there = lazy_reference(flat, None, Labelled(da.from_array(X, chunks=(20, *shape)), y), five_folds, "accuracy", 0)
    assert there.values == here.values
    new = three_classes(60)[0][(slice(None), *map(slice, shape))] + 0.1
    agree = here.estimator.fit(X, y).predict(new) == there.estimator.predict(da.from_array(new, chunks=(17, *shape)))
    assert agree.mean() > 0.98  # liblinear's solutions are rough


def test_a_reference_that_would_fill_the_memory_takes_some_of_the_samples(monkeypatch):
    X, y = three_classes(300)
    monkeypatch.setattr(reference, "available_bytes", lambda: 8 * 4 * 8 * 70 * 60)
    lazily = da.from_array(X, chunks=(50, *SHAPE))
    found = lazy_reference(contender("LinearSVC"), TensorScaler(), Labelled(lazily, y), five_folds, "accuracy", 0)
    assert found.values[SUBSET] == 70
    assert np.mean(found.estimator.predict(lazily) == y) > 0.5


def test_nested_evaluation_is_that_in_memory(stays):
    X, y = three_classes(60)
    alternatives = [None, TensorScaler("entry")]
    few = {"multi_class": "ovr", "cv": 2, "max_iter": 2, "random_state": 0}
    model = TensorMarginClassifierCV(("cp",), (1,), (1.0,), (1,), alternatives, **few)
    here, there = (nested_evaluation(model, one, y, cv=2) for one in (X, da.from_array(X, chunks=(20, *SHAPE))))
    np.testing.assert_array_equal(here.predicted, there.predicted)
    np.testing.assert_allclose(here.confidence, there.confidence, atol=1e-3)
    assert np.mean(here.reference_predicted == there.reference_predicted) > 0.9


@pytest.mark.parametrize("chunk", [1, 7, 48])
def test_copies_are_found(chunk):
    X, _ = three_classes()
    X[[5, 30]] = X[2]
    X[47] = X[46]
    here, there = duplicate_samples(X), duplicate_samples(da.from_array(X, chunks=(chunk, *SHAPE)))
    assert sorted(rows.tolist() for rows in there) == sorted(rows.tolist() for rows in here) == [[2, 5, 30], [46, 47]]


# --- files and commands


@pytest.fixture
def store(tmp_path):
    X, y = three_classes(60, dtype=np.float32)
    group = zarr.open_group(tmp_path / "big.zarr", mode="w")
    group.create_array("X", data=X, chunks=(16, *SHAPE))
    group.create_array("y", data=y)
    return tmp_path / "big.zarr"


def test_large_samples_stay_in_their_files(store, monkeypatch, tmp_path):
    X = load_samples(store).data
    np.save(tmp_path / "big.npy", X)
    for path, more in ((store, {}), (tmp_path / "big.npy", {"labels_from": np.arange(60) % 3})):
        small = load_samples(path, lazy="auto", **more)
        assert isinstance(small.data, np.ndarray)
        monkeypatch.setattr(files, "available_bytes", lambda: X.nbytes * 8 - 8)
        large = load_samples(path, lazy="auto", **more)
        monkeypatch.undo()
        assert isinstance(large.data, da.Array)
        np.testing.assert_array_equal(large.data.compute(), X)
        np.testing.assert_array_equal(large.target, small.target)
        assert "read in parts" in large.notes[0]
        assert not small.notes


def test_large_samples_without_dask(store, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.array", None)
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    monkeypatch.setattr(files, "available_bytes", lambda: 10_000)
    with pytest.raises(BadFileError, match=r"fit into memory.*pip install 'tensormargin\[dask\]'"):
        load_samples(store, lazy="auto")
    monkeypatch.setattr(files, "available_bytes", lambda: 30_000)
    assert isinstance(load_samples(store, lazy="auto").data, np.ndarray)
    with pytest.raises(ValueError, match='must be True, False, "auto" or "blocks"'):
        load_samples(store, lazy="yes")


def fitted(store, out, *more):
    with fewer_models(ranks=(1,), lams=(1,), multi_class="ovr", max_iter=5), undrawn_figures():
        result = run("fit", store, "-o", out, "--auto", "--folds", "2", "--outer-folds", "2", "--json", *more)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.campaign
def test_the_commands_give_what_they_give_in_memory(store, tmp_path, monkeypatch):
    here = fitted(store, tmp_path / "here.skops", "--linear")  # in parts, plain samples have no kernels
    run("predict", tmp_path / "here.skops", store, "-o", tmp_path / "here.csv")
    monkeypatch.setattr(tuning, "LOADED_SHARE", 0.0)
    there = fitted(store, tmp_path / "there.skops", "--linear")
    run("predict", tmp_path / "there.skops", store, "-o", tmp_path / "there.csv")
    assert "read in parts" in there["data"]["notes"][0]
    assert here["search"]["best"] == there["search"]["best"]
    assert here["evaluation"]["accuracy"] == there["evaluation"]["accuracy"]
    for name in ("n_samples", "minimum", "maximum", "classes", "dtype", "warnings"):
        assert here["data"][name] == there["data"][name]
    assert (tmp_path / "there.html").stat().st_size > 10_000
    one, other = (list(csv.reader((tmp_path / name).open())) for name in ("here.csv", "there.csv"))
    assert [row[:3] + row[6:] for row in one] == [row[:3] + row[6:] for row in other]
    mine, others = (np.array([row[3:6] for row in rows[1:]], float) for rows in (one, other))
    np.testing.assert_allclose(mine, others, atol=1e-3)


def test_a_reference_to_few_samples_is_said(store, tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "LOADED_SHARE", 0.0)
    monkeypatch.setattr(reference, "available_bytes", lambda: 0)
    with fewer_models(lams=(1,), max_iter=2, multi_class="ovr"):
        options = ("--decomposition", "cp", "--rank", 1, "--folds", 2, "--outer-folds", 2, "--no-report")
        result = run("fit", store, "-o", tmp_path / "m.skops", *options)
    assert "tuned the same way on 18 samples, all that fit into memory, of the same training sets" in result.stdout


def test_what_a_store_lacks_is_said(store, tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "LOADED_SHARE", 0.0)
    X = load_samples(store).data
    zarr.open_group(tmp_path / "bare.zarr", mode="w").create_array("X", data=X, chunks=(16, *SHAPE))
    result = run("fit", tmp_path / "bare.zarr", "-o", tmp_path / "m.skops")
    assert result.returncode == 2
    assert "--labels-from" in result.stderr
    with fewer_models(lams=(1,), ranks=(1,), max_iter=2):
        labels = tmp_path / "labels.txt"
        labels.write_text("\n".join("abc"[k % 3] for k in range(60)))
        options = [
            "--labels-from",
            labels,
            "--decomposition",
            "tucker",
            "--folds",
            "2",
            "--outer-folds",
            "0",
            "--no-report",
        ]
        result = run("fit", tmp_path / "bare.zarr", "-o", tmp_path / "m.skops", *options)
    assert result.returncode == 0, result.stderr


def test_damaged_samples_end_the_command(store, tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "LOADED_SHARE", 0.0)
    zarr.open_group(store)["X"][40, 0, 0, 0] = np.nan
    result = run("fit", store, "-o", tmp_path / "m.skops")
    assert result.returncode == 2
    assert "NaN" in result.stderr
    assert not (tmp_path / "m.skops").exists()
