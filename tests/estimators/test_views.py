"""Tests of several tensors per sample: the container, and what must hold for fits to it."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from conftest import library
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from tensormargin import TensorMarginClassifier, Views, fit_many
from tensormargin.runtime import to_host

FORMATS = ("full", "cp", "tucker", "tt")


def rank_one(shape, rng):
    weight = np.ones(())
    for size in shape:
        weight = np.multiply.outer(weight, rng.standard_normal(size))
    return weight / np.linalg.norm(weight)


def planted(n_samples, shapes, seed=0, strength=1.0, n_classes=2):
    """Return samples whose classes differ by a rank-one tensor in every view of non-zero strength."""
    rng = np.random.RandomState(seed)
    y = np.arange(n_samples) % n_classes
    views = {}
    for name, shape in shapes.items():
        means = [strength * rank_one(shape, rng) for _ in range(n_classes)]
        noise = rng.standard_normal((n_samples, *shape))
        views[name] = noise + np.stack([means[label] for label in y]) + 3.0
    return Views(views), y


SHAPES = {"eeg": (5, 7), "fmri": (3, 4, 3), "age": (2,)}


@pytest.fixture(scope="module")
def data():
    return planted(60, SHAPES, strength=2.0)


class TestContainer:
    def test_it_says_what_it_holds(self):
        X = Views(eeg=np.zeros((4, 2, 3), np.float32), age=[1, 2, 3, 4])
        assert (len(X), X.shape, X.names) == (4, (4,), ("eeg", "age"))
        assert X.shapes == {"eeg": (2, 3), "age": (1,)}
        assert repr(X).splitlines() == ["Views of 4 samples:", "  eeg  2 x 3, float32", "  age  1, int64"]
        assert dict(X).keys() == {"eeg", "age"}
        assert "eeg" in X
        assert X.nbytes == 4 * 6 * 4 + 4 * 8

    @pytest.mark.parametrize(
        ("key", "rows"),
        [
            (slice(1, 3), [1, 2]),
            ([3, 0], [3, 0]),
            (np.array([True, False, True, False]), [0, 2]),
            (2, [2]),
            (-1, [3]),
            (np.array([], int), []),
            ([], []),
        ],
    )
    def test_rows(self, key, rows):
        X = Views(a=np.arange(8).reshape(4, 2), b=np.arange(4))
        assert X[key]["a"].tolist() == np.arange(8).reshape(4, 2)[rows].tolist()
        assert X[key]["b"].ravel().tolist() == rows

    def test_slices_and_views_copy_nothing(self):
        a, b = np.zeros((4, 2)), np.zeros((4, 3, 2))
        X = Views(a=a, b=b)
        assert np.shares_memory(X["a"], a)
        assert np.shares_memory(X[1:3]["b"], b)
        assert np.shares_memory(X.without("a")["b"], b)
        assert X[["b"]].names == ("b",)

    def test_wrong_input_is_named(self):
        with pytest.raises(ValueError, match="same number of samples; got 'a' 3, 'b' 4"):
            Views(a=np.zeros((3, 2)), b=np.zeros((4, 2)))
        with pytest.raises(ValueError, match="at least one view"):
            Views()
        with pytest.raises(ValueError, match="view 'a' must be an array of real numbers"):
            Views(a=[["x", "y"]])
        with pytest.raises(ValueError, match="must be text; got 1"):
            Views({1: np.zeros((3, 2))})
        with pytest.raises(KeyError, match="no view 'c'; the views are 'a'"):
            Views(a=np.zeros((3, 2)))["c"]
        with pytest.raises(TypeError, match="not one array"):
            np.asarray(Views(a=np.zeros((3, 2))))
        with pytest.raises(IndexError):
            Views(a=np.zeros((3, 2)))[5]

    def test_pickle(self):
        X = pickle.loads(pickle.dumps(Views(a=np.arange(6).reshape(3, 2))))
        assert X["a"].tolist() == [[0, 1], [2, 3], [4, 5]]

    def test_scikit_learns_tools(self, data):
        X, y = data
        train, test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
        assert isinstance(train, Views)
        model = make_pipeline(FunctionTransformer(lambda X: X.without("age")), TensorMarginClassifier("cp", rank=1))
        assert model.fit(train, y_train).score(test, y_test) > 0.6
        model = TensorMarginClassifier("cp", rank=1)
        assert (model.fit(dict(train), y_train).predict(dict(test)) == model.predict(test)).all()
        assert np.mean(cross_val_score(TensorMarginClassifier(rank=1), X, y, cv=3)) > 0.7
        assert cross_val_predict(TensorMarginClassifier(rank=1), X, y, cv=3).shape == y.shape
        search = GridSearchCV(TensorMarginClassifier(), {"rank": [1, {"eeg": 2, "fmri": 1}]}, cv=2).fit(X, y)
        assert search.best_estimator_.coef_["eeg"].shape == (1, 5, 7)


def concatenated(X, scales, centre=True):
    """Return the views flattened and scaled, with the mean of the others where one is missing."""
    parts = []
    for name, array in X.items():
        flat = np.asarray(array, np.float64).reshape(len(X), -1)
        missing = np.isnan(flat).all(axis=1)
        flat = np.where(missing[:, None], flat[~missing].mean(axis=0) if centre else 0.0, flat)
        parts.append(scales[name] * flat)
    return np.hstack(parts)


WAYS = {
    "tall": {"lam": 1.0},
    "hinge": {"mu1": 0.0, "mu2": 0.0, "lam": 3.0},
    "no intercept": {"fit_intercept": False},
    "weights": {"class_weight": {0: 1.0, 1: 3.0}},
    "the paper's strengths": {"scale_free": False, "lam": 2.0, "mu1": 0.3, "mu2": 0.1},
}


class TestFlat:
    """All views flat is the flat fit of the concatenated, scaled samples."""

    @staticmethod
    def same(model, flat, X, wide, rtol=1e-6):
        assert float(model.objective_[0]) == pytest.approx(float(flat.objective_[0]), rel=rtol)
        np.testing.assert_allclose(
            np.asarray(model.decision_function(X)), flat.decision_function(wide), rtol=rtol, atol=10 * rtol
        )

    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize("n_samples", [24, 300])
    def test_in_memory(self, way, n_samples):
        X, y = planted(n_samples, SHAPES, strength=0.5)
        parameters = {"tol": 1e-8, **WAYS[way]}
        weights = np.random.RandomState(1).rand(n_samples) + 0.5 if way == "weights" else None
        model = TensorMarginClassifier("full", **parameters).fit(X, y, sample_weight=weights)
        wide = concatenated(X, {name: scale[0] for name, scale in model.view_scale_.items()})
        flat = TensorMarginClassifier("full", **parameters).fit(wide, y, sample_weight=weights)
        self.same(model, flat, X, wide)
        assert model.n_parameters_ == flat.n_parameters_

    def test_large_ones_are_not_copied(self, monkeypatch):
        from tensormargin.runtime import tuning

        X, y = planted(400, {"a": (8, 9), "b": (6, 5)}, strength=0.3)
        parameters = {"tol": 1e-8, "view_scale": {"a": 0.5, "b": 2.0}}
        copied = TensorMarginClassifier("full", **parameters).fit(X, y)
        for name in ("SMALL_SAMPLES", "SMALL_DESIGN"):
            monkeypatch.setattr(tuning, name, 100)
        for mus in ({}, {"mu1": 0.0}):
            model = TensorMarginClassifier("full", **parameters, **mus).fit(X, y)
            wide = concatenated(X, parameters["view_scale"])
            flat = TensorMarginClassifier("full", tol=1e-8, **mus).fit(wide, y)
            self.same(model, flat, X, wide)
        np.testing.assert_allclose(copied.coef_["a"], TensorMarginClassifier("full", **parameters).fit(X, y).coef_["a"])

    @pytest.mark.parametrize("n_samples", [24, 90])
    def test_dask(self, n_samples, monkeypatch):
        import dask.array as da

        from tensormargin.fitting.samples import storage

        monkeypatch.setattr(storage, "available_bytes", lambda: 0)  # stays lazy
        X, y = planted(n_samples, SHAPES, strength=0.5)
        lazy = Views({name: da.from_array(array, chunks=(10, *array.shape[1:])) for name, array in X.items()})
        model = TensorMarginClassifier("full", tol=1e-8).fit(lazy, y)
        wide = concatenated(X, {name: scale[0] for name, scale in model.view_scale_.items()})
        self.same(model, TensorMarginClassifier("full", tol=1e-8).fit(wide, y), lazy, wide)

    @pytest.mark.parametrize("name", ["torch", "array_api_strict"])
    def test_on_a_device(self, name):
        xp, device = library(name)
        X, y = planted(40, SHAPES, strength=0.5)
        there = Views({key: xp.asarray(array, device=device) for key, array in X.items()})
        model = TensorMarginClassifier("full", tol=1e-8).fit(there, y)
        wide = concatenated(X, {key: scale[0] for key, scale in model.view_scale_.items()})
        flat = TensorMarginClassifier("full", tol=1e-8).fit(wide, y)
        np.testing.assert_allclose(to_host(model.decision_function(there)), flat.decision_function(wide), atol=1e-5)
        assert type(model.coef_["eeg"]) is type(there["eeg"])

    @pytest.mark.parametrize("scheme", ["ovo", "ovr"])
    def test_several_classes(self, scheme):
        X, y = planted(60, SHAPES, strength=1.0, n_classes=3)
        scales = {"eeg": 0.3, "fmri": 1.0, "age": 2.0}
        parameters = {"decomposition": "full", "tol": 1e-8, "multi_class": scheme}
        model = TensorMarginClassifier(**parameters, view_scale=scales).fit(X, y)
        wide = concatenated(X, scales)
        flat = TensorMarginClassifier(**parameters).fit(wide, y)
        np.testing.assert_allclose(model.binary_scores(X), flat.binary_scores(wide), rtol=1e-6, atol=1e-5)
        assert (model.predict(X) == flat.predict(wide)).all()


class TestOneView:
    @pytest.mark.parametrize("decomposition", FORMATS)
    @pytest.mark.parametrize("shape", [(6,), (5, 7), (3, 4, 3)])
    def test_is_the_array(self, decomposition, shape):
        X, y = planted(40, {"only": shape}, strength=1.0)
        parameters = {"decomposition": decomposition, "rank": 2, "tol": 1e-6}
        model = TensorMarginClassifier(**parameters, view_scale={"only": 1.0}).fit(X, y)
        single = TensorMarginClassifier(**parameters).fit(X["only"], y)
        assert float(model.objective_[0]) == pytest.approx(float(single.objective_[0]), rel=1e-9)
        np.testing.assert_allclose(model.decision_function(X), single.decision_function(X["only"]), atol=1e-6)


def test_views_of_order_one_are_flat_and_formats_are_by_name(data):
    X, y = data
    model = TensorMarginClassifier({"eeg": "cp", "fmri": "tt"}, rank={"eeg": 1, "fmri": (2, 1)}).fit(X, y)
    assert model.rank_ == {"eeg": 1, "fmri": (2, 1), "age": None}
    assert type(model.weight_["eeg"]).__name__ == "CPTensor"
    assert type(model.weight_["fmri"]).__name__ == "TTTensor"
    assert model.weight_["age"].shape == (2,)
    for name in X.names:
        own = model.weight_[name]
        dense = own if isinstance(own, np.ndarray) else own.to_tensor()
        np.testing.assert_allclose(dense, model.coef_[name][0], atol=1e-12)
    scores = sum(np.tensordot(X[name], model.coef_[name][0], model.coef_[name][0].ndim) for name in X.names)
    np.testing.assert_allclose(scores + model.intercept_[0], model.decision_function(X), rtol=1e-9)


@given(
    seed=st.integers(0, 10**6),
    orders=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    decomposition=st.sampled_from(FORMATS[1:]),
    rank=st.integers(1, 3),
    mu=st.sampled_from([0.0, 1.0]),
    n_samples=st.integers(6, 40),
)
def test_the_objective_never_rises(seed, orders, decomposition, rank, mu, n_samples):
    rng = np.random.RandomState(seed)
    shapes = {f"v{k}": tuple(rng.randint(1, 4, size=order).tolist()) for k, order in enumerate(orders)}
    X, y = planted(n_samples, shapes, seed)
    strengths = {"mu1": mu, "mu2": mu, "lam": float(rng.rand() * 10) + 0.1}
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        model = TensorMarginClassifier(decomposition, rank=rank, max_iter=8, tol=1e-9, **strengths).fit(X, y)
    values = model.history_["block_objective"].ravel()
    assert np.all(np.diff(values) <= 1e-9 * (1 + np.abs(values[:-1])))


@pytest.mark.parametrize("decomposition", FORMATS)
def test_the_order_of_the_views_does_not_matter(decomposition, data):
    X, y = data
    parameters = {"decomposition": decomposition, "rank": 1, "tol": 1e-6}
    one = TensorMarginClassifier(**parameters).fit(X, y)
    other = TensorMarginClassifier(**parameters).fit(X[["age", "fmri", "eeg"]], y)
    assert float(other.objective_[0]) == pytest.approx(float(one.objective_[0]), rel=1e-5)
    np.testing.assert_allclose(other.decision_function(X), one.decision_function(X), atol=0.02)


@pytest.mark.parametrize("decomposition", ["full", "tucker"])
def test_a_view_twice_is_the_view_at_the_root_of_two(decomposition, data):
    """Two equal weights W of one view: 2 <W, Z> with ||W||^2 twice is <V, sqrt(2) Z> with ||V||^2 for V = sqrt(2) W."""
    X, y = data
    parameters = {"decomposition": decomposition, "rank": 1, "tol": 1e-7, "scale_free": False, "lam": 10.0}
    scales = {"eeg": 0.2, "again": 0.2, "fmri": 0.3}
    twice = TensorMarginClassifier(**parameters, view_scale=scales).fit(
        Views(eeg=X["eeg"], again=X["eeg"], fmri=X["fmri"]), y
    )
    once = TensorMarginClassifier(**parameters, view_scale={"eeg": 0.2 * 2**0.5, "fmri": 0.3}).fit(
        X[["eeg", "fmri"]], y
    )
    XX = Views(eeg=X["eeg"], again=X["eeg"], fmri=X["fmri"])
    if decomposition == "full":
        np.testing.assert_allclose(
            twice.decision_function(XX), once.decision_function(X[["eeg", "fmri"]]), rtol=1e-5, atol=1e-5
        )
    else:  # two views of rank one can be a weight of rank two
        assert twice.objective_[0] <= once.objective_[0] + 1e-6


class TestMissing:
    @pytest.fixture
    def incomplete(self):
        X, y = planted(60, SHAPES, strength=1.0)
        arrays = {name: array.copy() for name, array in X.items()}
        arrays["eeg"][::7] = np.nan
        arrays["fmri"][3::7] = np.nan
        return Views(arrays), y

    @pytest.mark.parametrize("centre", [True, False])
    def test_counts_as_the_mean(self, incomplete, centre):
        X, y = incomplete
        model = TensorMarginClassifier("full", tol=1e-8, fit_intercept=centre).fit(X, y)
        assert model.n_missing_ == {"eeg": 9, "fmri": 9, "age": 0}
        wide = concatenated(X, {name: scale[0] for name, scale in model.view_scale_.items()}, centre)
        flat = TensorMarginClassifier("full", tol=1e-8, fit_intercept=centre).fit(wide, y)
        TestFlat.same(model, flat, X, wide)

    @pytest.mark.parametrize("decomposition", FORMATS)
    def test_of_low_rank(self, incomplete, decomposition):
        X, y = incomplete
        model = TensorMarginClassifier(decomposition, rank=2, tol=1e-6).fit(X, y)
        filled = {}
        for name, array in X.items():
            gone = np.isnan(array).reshape(len(X), -1).all(axis=1)
            filled[name] = np.where(gone.reshape(-1, *[1] * (array.ndim - 1)), array[~gone].mean(axis=0), array)
        scales = {name: float(scale[0]) for name, scale in model.view_scale_.items()}
        other = TensorMarginClassifier(decomposition, rank=2, tol=1e-6, view_scale=scales).fit(Views(filled), y)
        assert float(other.objective_[0]) == pytest.approx(float(model.objective_[0]), rel=1e-5)
        np.testing.assert_allclose(model.decision_function(X), model.decision_function(Views(filled)), atol=1e-9)

    def test_dask_and_multi_class(self, incomplete, monkeypatch):
        import dask.array as da

        from tensormargin.fitting.samples import storage

        monkeypatch.setattr(storage, "available_bytes", lambda: 0)
        X, _ = incomplete
        y = np.arange(60) % 3
        lazy = Views({name: da.from_array(array, chunks=(25, *array.shape[1:])) for name, array in X.items()})
        with pytest.warns(ConvergenceWarning):  # equal after any number of sweeps
            here, there = (TensorMarginClassifier(rank=1, tol=1e-6, max_iter=1).fit(one, y) for one in (X, lazy))
        np.testing.assert_allclose(np.asarray(there.binary_scores(lazy)), here.binary_scores(X), atol=1e-3)

    def test_partly_missing_views_in_a_dask_array(self, incomplete, monkeypatch):
        import dask.array as da

        from tensormargin.fitting.samples import storage

        monkeypatch.setattr(storage, "available_bytes", lambda: 0)
        X, y = incomplete
        eeg = X["eeg"].copy()
        eeg[8, 0, 0] = np.nan
        lazy = Views(eeg=da.from_array(eeg, chunks=(20, -1, -1)), age=X["age"])
        with pytest.raises(ValueError, match=r"view 'eeg': a sample that lacks a view.* sample 8 is NaN in some"):
            TensorMarginClassifier().fit(lazy, y)
        eeg[8, 0, 0], eeg[8, 0, 1] = 0.0, np.nan
        with pytest.raises(ValueError, match="in view 'eeg' \\(the first is sample 8\\)"):
            TensorMarginClassifier().fit(Views(eeg=da.from_array(eeg, chunks=(20, -1, -1)), age=X["age"]), y)

    def test_errors(self, incomplete):
        X, y = incomplete
        partly = {name: array.copy() for name, array in X.items()}
        partly["fmri"][5, 0, 0, 1] = np.nan
        with pytest.raises(ValueError, match="view 'fmri' \\(the first is sample 5\\)"):
            TensorMarginClassifier().fit(Views(partly), y)
        gone = {
            name: np.where(np.arange(60).reshape(-1, *[1] * (array.ndim - 1)) == 7, np.nan, array)
            for name, array in X.items()
        }
        with pytest.raises(ValueError, match="sample 7 is NaN in all"):
            TensorMarginClassifier().fit(Views(gone), y)
        model = TensorMarginClassifier(rank=1).fit(X, y)
        with pytest.raises(ValueError, match="sample 7 is NaN in all"):
            model.predict(Views(gone))
        infinite = {name: array.copy() for name, array in X.items()}
        infinite["age"][5] = np.inf
        with pytest.raises(ValueError, match="view 'age'"):
            TensorMarginClassifier().fit(infinite, y)


class TestMistakes:
    def test_names(self, data):
        X, y = data
        model = TensorMarginClassifier(rank=1).fit(X, y)
        with pytest.raises(ValueError, match="'fmri' is missing"):
            model.predict(X.without("fmri"))
        with pytest.raises(ValueError, match="got 'more' as well"):
            model.predict(Views(**dict(X), more=X["age"]))
        with pytest.raises(ValueError, match="fitted to the views 'eeg', 'fmri', 'age'; got ndarray"):
            model.predict(X["eeg"])
        with pytest.raises(ValueError, match="view 'eeg' had \\(5, 7\\), got \\(7, 5\\)"):
            model.predict(Views(eeg=X["eeg"].transpose(0, 2, 1), fmri=X["fmri"], age=X["age"]))
        with pytest.raises(ValueError, match="fitted to one array"):
            TensorMarginClassifier(rank=1).fit(X["eeg"], y).predict(X)
        with pytest.raises(ValueError, match="rank names the view 'egg'"):
            TensorMarginClassifier(rank={"egg": 1}).fit(X, y)
        with pytest.raises(ValueError, match="view 'eeg': a CP rank is one whole number"):
            TensorMarginClassifier("cp", rank={"eeg": (1, 2)}).fit(X, y)
        with pytest.raises(ValueError, match="decomposition must be one of"):
            TensorMarginClassifier({"eeg": "cpp"}).fit(X, y)
        with pytest.raises(ValueError, match="by name is for several views"):
            TensorMarginClassifier(rank={"eeg": 1}).fit(X["eeg"], y)
        with pytest.raises(ValueError, match="view_scale must be 'equal' or a number"):
            TensorMarginClassifier(view_scale={"eeg": -1.0}).fit(X, y)
        with pytest.raises(ValueError, match="0 for all"):
            TensorMarginClassifier(view_scale=dict.fromkeys(X.names, 0)).fit(X, y)
        with pytest.raises(ValueError, match="view 'none' has samples of shape \\(0, 3\\)"):
            TensorMarginClassifier().fit(Views(eeg=X["eeg"], none=np.zeros((60, 0, 3))), y)
        with pytest.raises(ValueError, match="at least one sample; got 0"):
            TensorMarginClassifier().fit(X[:0], y[:0])
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            TensorMarginClassifier().fit(X, y[:-1])

    def test_libraries(self, data):
        xp, _ = library("array_api_strict")
        X, y = data
        mixed = Views(eeg=xp.asarray(X["eeg"].copy()), age=X["age"])
        with pytest.raises(ValueError, match="one array library, on one device; got array_api_strict"):
            TensorMarginClassifier().fit(mixed, y)

    def test_any_order_of_the_views_in_predict(self, data):
        X, y = data
        model = TensorMarginClassifier(rank=1).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), model.predict(X[["age", "eeg", "fmri"]]))


def test_a_view_with_factor_zero_is_left_out(data):
    X, y = data
    model = TensorMarginClassifier("cp", rank=1, view_scale={"fmri": 0}).fit(X, y)
    other = TensorMarginClassifier("cp", rank=1).fit(X.without("fmri"), y)
    np.testing.assert_allclose(model.decision_function(X), other.decision_function(X.without("fmri")), rtol=1e-9)
    assert not model.coef_["fmri"].any()
    assert model.n_parameters_ == other.n_parameters_
    assert (model.predict(X.without("fmri")) == model.predict(X)).all()


def test_planted_signal_in_two_views_is_found_with_both():
    shapes, alone, both, noisy = {"a": (8, 20), "b": (6, 5, 4)}, [], [], []
    for seed in range(12):
        X, y = planted(660, shapes, seed=seed, strength=2.6)
        noise = np.random.RandomState(100 + seed).standard_normal((660, 4))
        X = Views(**dict(X), noise=noise)
        train, test = X[:60], X[60:]
        for names, scores in ((["a"], alone), (["b"], alone), (["a", "b"], both), (["a", "b", "noise"], noisy)):
            model = TensorMarginClassifier("cp", rank=1).fit(train[names], y[:60])
            scores.append(model.score(test[names], y[60:]))
    alone = np.reshape(alone, (-1, 2)).mean(axis=0)
    assert np.mean(both) >= alone.max() + 0.05
    assert np.mean(noisy) >= np.mean(both) - 0.01


@pytest.mark.parametrize("decomposition", ["cp", "tucker"])
def test_a_warm_start_goes_on_where_the_last_fit_ended(decomposition):
    X, y = planted(60, SHAPES, seed=1, strength=2.0)
    model = TensorMarginClassifier(decomposition, rank=2, tol=1e-6, warm_start=True).fit(X, y)
    before, sweeps = model.objective_[0], model.n_iter_
    model.fit(X, y)
    assert model.objective_[0] <= before + 1e-6 * abs(before)
    assert model.history_["objective"][0] <= before + 1e-6 * abs(before)
    assert model.n_iter_ < sweeps


def test_fit_many(data):
    X, y = data
    rows = [np.arange(30), None]
    models = fit_many([TensorMarginClassifier("cp", rank=1) for _ in rows], X, y, rows)
    alone = TensorMarginClassifier("cp", rank=1).fit(X[:30], y[:30])
    np.testing.assert_allclose(models[0].decision_function(X), alone.decision_function(X))


def test_random_starts_probabilities_and_jobs(data):
    X, y = planted(60, SHAPES, strength=2.0, n_classes=3)
    model = TensorMarginClassifier("tucker", rank=1, n_init=2, init="random", probability=True, random_state=0)
    one, two = model.fit(X, y), clone(model).set_params(n_jobs=2).fit(X, y)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose(one.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("change", ["float32", "int", "fortran", "read-only", "list", "memmap"])
def test_any_kind_of_array(change, data, tmp_path):
    X, y = data
    arrays = {}
    for name, array in X.items():
        array = np.round(array * 10)
        if change == "float32":
            array = array.astype(np.float32)
        elif change == "int":
            array = array.astype(np.int16)
        elif change == "fortran":
            array = np.asfortranarray(array)
        elif change == "read-only":
            array.flags.writeable = False
        elif change == "list":
            array = array.tolist()
        else:
            np.save(tmp_path / f"{name}.npy", array)
            array = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
        arrays[name] = array
    rounded = Views({name: np.round(array * 10) for name, array in X.items()})
    model = TensorMarginClassifier("tucker", rank=1, tol=1e-6).fit(Views(arrays), y)
    other = TensorMarginClassifier("tucker", rank=1, tol=1e-6).fit(rounded, y)
    np.testing.assert_allclose(model.decision_function(Views(arrays)), other.decision_function(rounded), atol=1e-3)


def test_a_constant_view_changes_nothing(data):
    X, y = data
    constant = Views(**dict(X), same=np.full((60, 3, 2), 7.0))
    one, other = (TensorMarginClassifier("cp", rank=1, tol=1e-6).fit(Z, y) for Z in (X, constant))
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(constant), atol=1e-4)
    assert not other.coef_["same"].any()


def test_a_large_offset_in_one_view(data):
    X, y = data
    far = Views(eeg=X["eeg"] + 1e6, fmri=X["fmri"], age=X["age"] - 1e5)
    one, other = (TensorMarginClassifier("tucker", rank=1, tol=1e-6).fit(Z, y) for Z in (X, far))
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(far), atol=1e-3)


def test_weights_are_copies(data):
    """An integer weight is that many copies of a sample, and a weight of zero is none, also where a view is missing."""
    X, y = data
    eeg = X["eeg"].copy()
    eeg[[1, 4, 9]] = np.nan
    X = Views(eeg=eeg, fmri=X["fmri"], age=X["age"])
    weights = np.random.RandomState(0).randint(0, 3, size=60)
    rows = np.repeat(np.arange(60), weights)
    parameters = {"decomposition": "cp", "rank": 1, "tol": 1e-6}
    one = TensorMarginClassifier(**parameters).fit(X, y, sample_weight=weights)
    other = TensorMarginClassifier(**parameters).fit(X[rows], y[rows])
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-3)


def test_one_class_and_one_sample(data):
    X, y = data
    with pytest.raises(ValueError, match="at least two classes"):
        TensorMarginClassifier().fit(X, np.zeros(60))
    with pytest.raises(ValueError, match="at least two classes"):
        TensorMarginClassifier().fit(X[0], y[:1])
    model = TensorMarginClassifier("cp", rank=1).fit(X[:2], y[:2])
    assert (model.predict(X[:2]) == y[:2]).all()
