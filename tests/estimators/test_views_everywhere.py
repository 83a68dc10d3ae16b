"""Tests of several tensors per sample outside of single fits: formats, searches, evaluations, reports, files, pages."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pytest
from conftest import library
from sklearn.base import clone
from test_views import SHAPES, planted, rank_one

from tensormargin import (
    Checkpoint,
    LeakageWarning,
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    Views,
    activation_pattern,
    affine_form,
    load_model,
    margin_report,
    nested_evaluation,
    permutation_test,
    save_model,
    to_device,
    view_shares,
    weight_maps,
)
from tensormargin.data.checkpoints import fingerprint
from tensormargin.data.leakage import duplicate_samples
from tensormargin.evaluation import evaluate_without_views
from tensormargin.fitting import (
    FORMATS,
    SOLVERS,
    MarginProblem,
    MemorySamples,
    Objective,
    Reading,
    Start,
    ViewsFormat,
    ViewsInSpan,
    ViewsWeight,
    alternate,
    native,
    sample_array,
    spans,
)
from tensormargin.report import describe_model
from tensormargin.runtime import to_host
from tensormargin.selection.grid import candidates, of_one_view

FEW = {"decompositions": ("cp",), "ranks": (1,), "lams": (1,), "mus": (1,), "cv": 2, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    return planted(60, SHAPES, strength=2.0)


@pytest.fixture(scope="module")
def fitted(data):
    return TensorMarginClassifier("cp", rank=1).fit(*data)


def composite(names, seed=0, missing=False, shapes=SHAPES):
    """Return a random weight of three views, and samples for it with their scaled, flattened form."""
    X, y = planted(11, shapes, seed=seed)
    if missing:
        X = Views(
            {
                name: np.where(np.arange(11).reshape(-1, *[1] * (a.ndim - 1)) == 3 + k, np.nan, a)
                for k, (name, a) in enumerate(X.items())
            }
        )
    form = ViewsFormat(X.names, tuple(X.shapes.values()), tuple(FORMATS[name] for name in names))
    rng = np.random.RandomState(seed)
    weight = form.from_dense(rng.standard_normal(sum(form.sizes)), form.valid_ranks([2, 2, 2]), rng)
    shares, signs = rng.rand(11) + 0.1, np.where(y == 1, 1.0, -1.0)
    scales = {"eeg": 0.5, "fmri": 2.0, "age": 1.0}
    samples, _ = sample_array(X).read(Reading(None, shares / shares.sum(), signs, True, 1e-8, scales))
    return weight, samples, samples.matrix()


LONG = {"eeg": (5, 7), "fmri": (3, 4, 3), "age": (40,)}
CASES = [(*pair, "full") for pair in (("cp", "cp"), ("tucker", "tt"), ("full", "cp"), ("tt", "full"), ("full", "full"))]


@pytest.mark.numerical
@pytest.mark.parametrize("shapes", [SHAPES, LONG], ids=["few covariates", "many covariates"])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("names", CASES)
class TestFormat:
    """The contract of single formats (test_formats.py) holds for several of them together."""

    def parts(self, names, missing, shapes):
        weight, samples, flat = composite(names, missing=missing, shapes=shapes)
        blocks = [weight.block(index) for index in range(len(weight.block_names))]
        return weight, samples, flat, [*blocks, weight.refit()] if weight.has_tangent else blocks

    def test_the_unchanged_vector_leaves_the_weight_unchanged(self, names, missing, shapes):
        weight, _, _, blocks = self.parts(names, missing, shapes)
        for block in blocks:
            np.testing.assert_allclose(block.replace(block.vector).to_dense(), weight.to_dense(), atol=1e-10)

    def test_design_times_vector_is_the_score_and_the_vector_has_the_norm(self, names, missing, shapes):
        _, samples, flat, blocks = self.parts(names, missing, shapes)
        for block in blocks:
            vector = np.random.RandomState(3).standard_normal(len(block.vector))
            changed = block.replace(vector).to_dense()
            np.testing.assert_allclose(samples.design(block.contraction) @ vector, flat @ changed, atol=1e-9)
            assert np.linalg.norm(changed) == pytest.approx(np.linalg.norm(vector))

    def test_the_tangent_space_contains_the_weight(self, names, missing, shapes):
        weight, samples, flat, _ = self.parts(names, missing, shapes)
        if weight.has_tangent:
            tangent = weight.tangent()
            design = samples.side_by_side(tangent.contractions)
            np.testing.assert_allclose(design @ tangent.vector, flat @ weight.to_dense(), atol=1e-9)
            np.testing.assert_allclose(tangent.retract(tangent.vector).to_dense(), weight.to_dense(), atol=1e-9)

    def test_coordinates_and_strengths(self, names, missing, shapes):
        weight, samples, flat, _ = self.parts(names, missing, shapes)
        dense = weight.to_dense()
        np.testing.assert_allclose(weight.at_coordinates(weight.coordinates()).to_dense(), dense, atol=1e-9)
        factors = np.array([2.0, -0.5, 3.0])
        doubled = np.concatenate([f * part.ravel() for f, part in zip(factors, weight.form.split(dense), strict=True)])
        np.testing.assert_allclose(weight.times(factors).to_dense(), doubled)
        np.testing.assert_allclose(samples.scores(dense[None])[:, 0], flat @ dense, atol=1e-9)
        some = np.array([0, 2, 4, 5, 7, 10])
        np.testing.assert_allclose(samples.take(some).scores(dense[None]).shape, (6, 1))


@pytest.mark.numerical
class TestSameAnswer:
    @pytest.mark.parametrize("solver", SOLVERS)
    @pytest.mark.parametrize("mu", [0.0, 1.0])
    @pytest.mark.parametrize("n_samples", [20, 150])
    def test_flat_views_by_every_solver(self, solver, mu, n_samples):
        X, y = planted(n_samples, SHAPES, strength=0.5)
        rng, signs = np.random.RandomState(0), np.where(y == 1, 1.0, -1.0)
        weights = rng.rand(n_samples) + 0.5
        weights /= weights.sum()
        scales = {"eeg": 0.5, "fmri": 2.0, "age": 1.0}
        samples, moments = sample_array(X).read(Reading(None, weights, signs, True, 1e-9, scales))
        flat = MemorySamples(np.hstack([scales[name] * X[name].reshape(n_samples, -1) for name in X.names]))
        own = flat.first_pass(weights, signs, True)
        assert moments.mean_square == pytest.approx(own.mean_square)
        np.testing.assert_allclose(moments.signed_mean, own.signed_mean, atol=1e-10)
        problem = MarginProblem(signs, Objective(5.0, mu, mu, weights), 2.0)
        form = ViewsFormat(X.names, tuple(X.shapes.values()), (FORMATS["full"],) * 3)
        starts = (form.from_dense(own.signed_mean, (None,) * 3, rng), FORMATS["full"](own.signed_mean))
        fits = [
            alternate(one, problem, Start(start), SOLVERS[solver], 1e-8, 5)
            for one, start in zip((samples, flat), starts, strict=True)
        ]
        assert fits[0].objective == pytest.approx(fits[1].objective, rel=1e-6)
        np.testing.assert_allclose(fits[0].weight.to_dense(), fits[1].weight.to_dense(), atol=1e-5)

    @pytest.mark.parametrize("decomposition", ["cp", "tucker", "tt"])
    @pytest.mark.parametrize("missing", [False, True])
    def test_compiled_code_and_the_general_way(self, decomposition, missing, monkeypatch):
        X, y = planted(50, {"a": (5, 7), "b": (6, 4), "age": (2,)}, strength=1.0)
        if missing:
            X["a"][::5] = np.nan
        parameters = {"decomposition": decomposition, "rank": 1, "tol": 1e-7}
        compiled = TensorMarginClassifier(**parameters).fit(X, y)
        monkeypatch.setattr(native, "has_native", lambda name: False)
        general = TensorMarginClassifier(**parameters).fit(X, y)
        assert float(general.objective_[0]) == pytest.approx(float(compiled.objective_[0]), rel=1e-6)
        np.testing.assert_allclose(general.decision_function(X), compiled.decision_function(X), atol=1e-2)

    @pytest.mark.parametrize("decomposition", ["tucker", "tt"])
    def test_long_full_weights_have_a_block_of_their_own(self, decomposition, monkeypatch):
        X, y = planted(60, {"a": (5, 7), "b": (3, 4, 2), "long": (90,)}, strength=1.0)
        parameters = {"decomposition": decomposition, "rank": 1, "tol": 1e-6}
        apart = TensorMarginClassifier(**parameters).fit(X, y)
        assert apart.history_["blocks"][-1] == "full weights"
        monkeypatch.setattr(ViewsWeight, "_rides", True)
        riding = TensorMarginClassifier(**parameters).fit(X, y)
        assert "full weights" not in riding.history_["blocks"]
        assert float(apart.objective_[0]) == pytest.approx(float(riding.objective_[0]), rel=1e-4)


def without_spans(monkeypatch):
    monkeypatch.setattr(spans, "is_long", lambda view: False)


@pytest.mark.numerical
class TestSpans:
    """Long full weights are fitted in the span of the samples, with the same result."""

    shapes = {"a": (5, 7), "b": (3, 4, 2), "long": (20, 15), "age": (2,)}  # noqa: RUF012
    formats = {"a": "tucker", "b": "tucker", "long": "full"}  # noqa: RUF012

    def samples(self, missing=False, n_classes=2):
        X, y = planted(60, self.shapes, strength=2.0, n_classes=n_classes)
        if missing:
            X["long"][3::7] = np.nan
        return X, y

    @pytest.mark.parametrize(
        ("intercept", "missing", "n_classes"),
        [
            (True, False, 2),
            (False, True, 2),
            (False, False, 3),
            *(
                pytest.param(*one, marks=pytest.mark.campaign)
                for one in ((True, True, 3), (True, False, 3), (True, True, 2), (False, False, 2), (False, True, 3))
            ),
        ],
    )
    def test_same_answer(self, intercept, missing, n_classes, monkeypatch):
        X, y = self.samples(missing, n_classes)
        weights = np.random.RandomState(0).rand(60) + 0.2
        model = TensorMarginClassifier(self.formats, rank=1, fit_intercept=intercept, tol=1e-9, max_iter=300)
        inside = clone(model).fit(X, y, sample_weight=weights)
        without_spans(monkeypatch)
        given = clone(model).fit(X, y, sample_weight=weights)
        np.testing.assert_allclose(inside.objective_, given.objective_, rtol=1e-9)
        np.testing.assert_allclose(inside.decision_function(X), given.decision_function(X), atol=1e-6)
        for name in X.names:
            np.testing.assert_allclose(inside.coef_[name], given.coef_[name], atol=1e-7)
            np.testing.assert_allclose(inside.mean_scores_[name], given.mean_scores_[name], atol=1e-6)
            np.testing.assert_allclose(inside.view_shares_[name], given.view_shares_[name], atol=1e-6)

    def test_random_starts_are_the_same(self, monkeypatch):
        X, y = self.samples()
        model = TensorMarginClassifier(self.formats, rank=1, init="random", n_init=2, random_state=3, tol=1e-9)
        inside = clone(model).fit(X, y)
        without_spans(monkeypatch)
        np.testing.assert_allclose(inside.objective_, clone(model).fit(X, y).objective_, rtol=1e-9)

    def test_a_warm_start_goes_on(self):
        X, y = self.samples()
        model = TensorMarginClassifier(self.formats, rank=1, tol=1e-6, warm_start=True).fit(X, y)
        before, sweeps = model.objective_[0], model.n_iter_
        model.fit(X, y)
        assert model.n_iter_ <= max(2, sweeps // 2)
        assert model.objective_[0] == pytest.approx(before, rel=1e-5)

    def test_only_long_views_in_memory_are_replaced(self):
        X, y = self.samples(missing=True)
        X["a"][0] = np.nan
        signs, weights = np.where(y == 1, 1.0, -1.0), np.full(60, 1 / 60)
        reading = Reading(None, weights, signs, True, 1e-3, dict.fromkeys(X.names))
        samples, _ = sample_array(X).read(reading)
        form = ViewsFormat(X.names, tuple(X.shapes.values()), tuple(FORMATS[self.formats.get(k, "full")] for k in X))
        span = ViewsInSpan.of(samples, form)
        assert list(span.spans) == [2]
        assert span.samples.views[2].samples.shape[0] < 60
        np.testing.assert_allclose(
            np.linalg.norm(span.samples.matrix() - span.samples.matrix().mean(axis=0), axis=1),
            np.linalg.norm(samples.matrix() - samples.matrix().mean(axis=0), axis=1),
        )
        flat = ViewsFormat(X.names, form.shapes, (FORMATS["full"],) * 4)
        assert ViewsInSpan.of(samples, flat) is None  # one convex problem

    def test_samples_that_are_all_equal(self):
        X, y = self.samples()
        X["long"][:] = 2.0
        model = TensorMarginClassifier(self.formats, rank=1).fit(X, y)
        assert not model.coef_["long"].any()


class TestSearch:
    def test_grid(self):
        shapes = {"eeg": (5, 7), "fmri": (3, 4, 3), "age": (2,)}
        tried = candidates([shapes], ("full", "cp", "tucker"), (1, 2), (1.0,), (1.0,))
        scales = [repr(one.view_scale) for one in tried]
        assert set(scales) == {"'equal'", "{'eeg': 0.0}", "{'fmri': 0.0}", "{'age': 0.0}"}
        assert len(tried) == 4 * 4  # full, rank one, CP and Tucker of rank two
        others = of_one_view(tried[1], shapes, "fmri", ("full", "cp", "tucker"), (1, 2))
        assert [(one.decomposition["fmri"], one.rank["fmri"]) for one in others] == [
            ("full", None),
            ("cp", 2),
            ("tucker", 2),
        ]
        assert all(one.decomposition["eeg"] == tried[1].decomposition for one in others)
        assert of_one_view(tried[1], shapes, "age", ("full", "cp"), (1, 2)) == []

    def test_it_refines_ranks_view_by_view(self, data):
        X, y = data
        search = TensorMarginClassifierCV(ranks=(1, 2), lams=(1,), mus=(1,), cv=3, random_state=0).fit(X, y)
        tried = search.cv_results_["params"]
        assert any(isinstance(one["rank"], dict) for one in tried)
        assert len(tried) < 40
        assert search.best_score_ > 0.8
        assert search.score(X, y) > 0.9
        assert search.predict_proba(X).shape == (60, 2)
        assert set(search.coef_) == set(X.names)

    def test_a_view_of_noise_costs_at_most_a_point(self):
        scores = []
        for seed in range(8):
            X, y = planted(1060, {"a": (8, 20), "b": (6, 5, 4)}, seed=seed, strength=2.6)
            X = Views(**dict(X), noise=np.random.RandomState(100 + seed).standard_normal((1060, 7, 9)))
            for names in (["a", "b", "noise"], ["a", "b"]):
                search = TensorMarginClassifierCV(**{**FEW, "cv": 4}).fit(X[:60][names], y[:60])
                scores.append(search.score(X[60:][names], y[60:]))
        noisy, both = np.reshape(scores, (-1, 2)).mean(axis=0)
        assert noisy >= both - 0.01

    def test_left_out_views_need_not_come(self, data):
        X, y = data
        search = TensorMarginClassifierCV(**FEW).fit(X, y)
        search.best_estimator_ = TensorMarginClassifier("cp", rank=1, view_scale={"age": 0}).fit(X, y)
        assert (search.predict(X.without("age")) == search.predict(X)).all()

    def test_checkpoints_and_budget(self, data, tmp_path):
        X, y = data
        search = TensorMarginClassifierCV(**{**FEW, "ranks": (1, 2)})
        whole = search.fit(X, y, checkpoint=Checkpoint(tmp_path)).best_params_
        again = Checkpoint(tmp_path)
        assert search.fit(X, y, checkpoint=again).best_params_ == whole
        assert again.resumed
        hurried = TensorMarginClassifierCV(**FEW, budget=1e-9).fit(X, y)
        assert hurried.stopped_

    def test_a_preparation_of_views(self, data):
        from sklearn.preprocessing import FunctionTransformer

        X, y = data
        search = TensorMarginClassifierCV(**FEW, preparation=[None, FunctionTransformer(_first_channels)]).fit(X, y)
        assert search.predict(X).shape == (60,)


def _first_channels(X):
    return Views(eeg=X["eeg"][:, :2], age=X["age"])


class TestEvaluation:
    def test_nested_and_without_each_view(self, data):
        X, y = data
        found = evaluate_without_views(TensorMarginClassifierCV(**FEW), X, y, cv=2)
        assert set(found.without) == set(X.names)
        assert found.whole.accuracy > 0.8
        assert found.whole.reference > 0.7
        assert found.differences["eeg"].difference == pytest.approx(
            found.whole.accuracy - found.without["eeg"].accuracy
        )
        with pytest.raises(ValueError, match="two or more"):
            evaluate_without_views(TensorMarginClassifierCV(**FEW), X[["eeg"]], y)

    def test_missing_views_in_a_nested_evaluation(self, data):
        X, y = data
        eeg = X["eeg"].copy()
        eeg[::6] = np.nan
        found = nested_evaluation(TensorMarginClassifierCV(**FEW), Views(eeg=eeg, fmri=X["fmri"]), y, cv=2)
        assert found.accuracy > 0.7

    def test_permutations(self, data):
        X, y = data
        test = permutation_test(TensorMarginClassifier("cp", 1), X, y, cv=2, n_permutations=9, random_state=0)
        assert test.p_value == 0.1

    def test_copies_are_those_of_all_views(self, data):
        X, y = data
        arrays = {name: array.copy() for name, array in X.items()}
        arrays["eeg"][5] = arrays["eeg"][2]
        assert duplicate_samples(Views(arrays)) == []
        for array in arrays.values():
            array[5] = array[2]
        assert [rows.tolist() for rows in duplicate_samples(Views(arrays))] == [[2, 5]]
        with pytest.warns(LeakageWarning, match="1 of 60"):
            permutation_test(TensorMarginClassifier("cp", 1), Views(arrays), y, cv=2, n_permutations=1, random_state=0)

    def test_what_identifies_a_computation(self, data):
        X, _ = data
        assert fingerprint(X) == fingerprint(X[:])
        assert fingerprint(X) != fingerprint(X[["fmri", "eeg", "age"]])
        assert fingerprint(X) != fingerprint(X[::-1])


class TestModels:
    def test_shares_add_up_to_one(self, fitted, data):
        X, _ = data
        shares = view_shares(fitted, X)
        assert sum(shares.values())[0] == pytest.approx(1.0)
        for name in X.names:
            np.testing.assert_allclose(shares[name], fitted.view_shares_[name], atol=1e-9)
        scores = {name: np.tensordot(X[name], fitted.coef_[name][0], X[name].ndim - 1) for name in X.names}
        total = sum(scores.values())
        assert shares["eeg"][0] == pytest.approx(np.cov(scores["eeg"], total)[0, 1] / np.var(total, ddof=1))
        with pytest.raises(ValueError, match="one tensor per sample"):
            view_shares(TensorMarginClassifier(rank=1).fit(X["eeg"], data[1]), X["eeg"])

    def test_margin_report(self, fitted, data):
        X, y = data
        report = margin_report(fitted, X, y)
        np.testing.assert_allclose(report.margins, np.where(y == 1, 1, -1) * fitted.decision_function(X))
        flat = np.hstack([fitted.view_scale_[name][0] * X[name].reshape(60, -1) for name in X.names])
        assert report.sample_norm == pytest.approx(np.linalg.norm(flat, axis=1).max())
        norm = np.sqrt(sum(np.sum((fitted.coef_[name] / fitted.view_scale_[name][0]) ** 2) for name in X.names))
        assert report.weight_norm == pytest.approx(norm)

    def test_patterns(self, fitted, data):
        X, y = data
        scores = fitted.decision_function(X)
        patterns = activation_pattern(fitted, X, y)
        for name in X.names:
            flat = X[name].reshape(60, -1)
            expected = [np.cov(column, scores)[0, 1] / np.var(scores, ddof=1) for column in flat.T]
            np.testing.assert_allclose(patterns[name].ravel(), expected, atol=1e-9)
        eeg = X["eeg"].copy()
        eeg[3] = np.nan
        gone = activation_pattern(fitted, Views(eeg=eeg, fmri=X["fmri"], age=X["age"]), y)
        assert np.isfinite(gone["eeg"]).all()

    def test_affine_form_and_maps(self, fitted, data):
        X, _ = data
        np.testing.assert_allclose(affine_form(fitted).scores(X)[:, 0], fitted.decision_function(X), rtol=1e-9)
        assert {name: one.shape for name, one in weight_maps(fitted).items()} == {
            name: (1, *shape) for name, shape in SHAPES.items()
        }

    @pytest.mark.parametrize("decomposition", ["full", "cp", "tucker", "tt"])
    def test_files(self, decomposition, data, tmp_path):
        X, y = data
        eeg = X["eeg"].copy()
        eeg[4] = np.nan
        X = Views(eeg=eeg, fmri=X["fmri"], age=X["age"])
        model = TensorMarginClassifier(decomposition, rank=2, view_scale={"age": 0.5}).fit(X, y)
        save_model(tmp_path / "model.skops", model)
        loaded = load_model(tmp_path / "model.skops")
        np.testing.assert_array_equal(loaded.model.decision_function(X), model.decision_function(X))
        assert loaded.facts["sample_shape"] == {name: list(shape) for name, shape in SHAPES.items()}
        assert loaded.model.n_missing_ == model.n_missing_

    def test_searches_in_files(self, data, tmp_path):
        X, y = data
        search = TensorMarginClassifierCV(**FEW).fit(X, y)
        save_model(tmp_path / "model.skops", search)
        np.testing.assert_array_equal(
            load_model(tmp_path / "model.skops").model.predict_proba(X), search.predict_proba(X)
        )

    def test_in_words(self, fitted):
        assert describe_model(fitted) == (
            "one weight per view (eeg: CP weight of rank 1, fmri: CP weight of rank 1, age: full weight)"
        )

    @pytest.mark.parametrize("name", ["torch", "array_api_strict"])
    def test_to_a_device_and_back(self, name, fitted, data):
        xp, device = library(name)
        X, _ = data
        there = Views({key: xp.asarray(array.copy(), device=device) for key, array in X.items()})
        moved = to_device(fitted, like=there["eeg"])
        np.testing.assert_allclose(to_host(moved.decision_function(there)), fitted.decision_function(X), rtol=1e-9)
        np.testing.assert_array_equal(to_device(moved).coef_["eeg"], fitted.coef_["eeg"])
        with pytest.raises(ValueError, match="same namespace"):
            fitted.predict(there)


def test_lazy_predictions(data, monkeypatch):
    import dask.array as da

    from tensormargin.fitting.samples import storage

    monkeypatch.setattr(storage, "available_bytes", lambda: 0)
    X, y = data
    lazy = Views(
        {name: da.from_array(array, chunks=(13 + k, *array.shape[1:])) for k, (name, array) in enumerate(X.items())}
    )
    model = TensorMarginClassifier("tucker", rank=1, tol=0.1).fit(lazy, y)
    for method in ("predict", "decision_function", "binary_scores"):
        later = getattr(model, method)(lazy)
        assert isinstance(later, da.Array)
        np.testing.assert_allclose(np.asarray(later), getattr(model, method)(X), rtol=1e-9)


def test_nothing_of_the_samples_is_copied():
    import tracemalloc

    rng = np.random.RandomState(0)
    y = np.arange(100) % 2  # few, so that the matrix of their inner products is small
    X = Views(a=rng.standard_normal((100, 200, 220)).astype(np.float32), b=rng.rand(100, 150, 200).astype(np.float32))
    X["a"][y == 1] += 0.1 * rank_one((200, 220), rng).astype(np.float32)
    for decomposition in ("full", "cp"):
        TensorMarginClassifier(decomposition, rank=1).fit(X, y)  # compiles and imports
        tracemalloc.start()
        TensorMarginClassifier(decomposition, rank=1).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 0.75 * X.nbytes


def test_the_page_runs():
    page = Path(__file__).parents[2] / "docs" / "views.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 10
    assert result.failed == 0


@pytest.mark.parametrize("module", ["tensormargin.data.views", "tensormargin.inspection.patterns"])
def test_examples_in_docstrings(module):
    import importlib

    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0
