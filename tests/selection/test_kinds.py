"""Tests of what ``fit --auto`` tries for each kind of samples: the table, the guess, the choice, what models share."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pandas as pd
import pytest
from benchmarks.field.tasks import AT_HAND
from click import Choice
from conftest import fewer_models, low_rank_classes, run
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from tensormargin import (
    Axis,
    CompetingConvolutions,
    Convolutions,
    Covariances,
    TensorMarginAutoClassifier,
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    TensorScaler,
    TensorUnion,
    Views,
    affine_form,
    auto_model,
    nested_evaluation,
    weight_maps,
)
from tensormargin.cli._data import load
from tensormargin.cli.fit import fit_command
from tensormargin.data import parsed_axes
from tensormargin.datasets import CATALOGUE
from tensormargin.evaluation import FitPlan, with_kind
from tensormargin.inspection import NotAffineError
from tensormargin.io import SampleSet, load_samples
from tensormargin.runtime import note, tuning
from tensormargin.selection import KINDS, guess_kind, time_mode
from tensormargin.selection.grid import candidates, default_of, side_by_side
from tensormargin.selection.kinds import WAYS, alternatives, views_of
from tensormargin.selection.scoring import select_candidate
from tensormargin.transformers import Crop, Recipe, shared
from tensormargin.transformers.representations.base import Sharing

SHAPES = (
    *((1,), (2,), (8,), (9,), (12,), (13,)),
    *((1, 1), (1, 12), (12, 1), (2, 2), (2, 5), (3, 9), (9, 3), (9, 9), (12, 12), (4, 13)),
    *((1, 1, 1), (2, 3, 4), (5, 5, 5), (1, 2, 13), (9, 9, 9)),
    *((1, 1, 1, 1), (2, 3, 2, 12), (5, 5, 5, 5)),
)


def samples_of(shape, n=8, seed=0):
    """Return samples of any shape; square matrices are symmetric, with entries between -1 and 1."""
    X = np.random.default_rng(seed).normal(size=(n, *shape))
    if len(shape) == 2 and shape[0] == shape[1]:
        X = np.tanh(X + X.swapaxes(1, 2))
    return X, np.arange(n) % 2


def sample_set(X, kind="NumPy archive", affine=None, **more):
    return SampleSet(X, np.arange(len(X)) % 2, None, None, affine, "x.npz", kind, (), **more)


class TestTable:
    def test_every_way_exists_and_every_one_is_used(self):
        named = {name for kind in KINDS.values() for name in (*kind.alone, *kind.together, *kind.linear)}
        assert named == set(WAYS)
        assert all(WAYS[name].linear for kind in KINDS.values() for name in kind.linear)

    def test_the_command_line_knows_all_kinds(self):
        (option,) = (one for one in fit_command.params if one.name == "kind")
        assert isinstance(option.type, Choice)
        assert tuple(option.type.choices) == ("auto", *KINDS)

    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    def test_ways_that_suit_a_shape_represent_samples_of_it(self, shape):
        X, y = samples_of(shape)
        for name, way in WAYS.items():
            made = way.make(shape, 64.0) if way.suits(shape) else None
            if name == "convolutions" and made is not None:
                made.set_params(convolutions__n_features=168)
            if name.startswith("patterns") and made is not None:
                for view, one in made.transformer_list:
                    own = {"n_groups": 4} if view.startswith("competing") else {"convolutions__n_features": 168}
                    one.set_params(**own)
            if made is not None:
                changed = made.fit(X, y).transform(X[:3])
                for own in changed.values() if isinstance(changed, Views) else [changed]:
                    assert len(own) == 3, name
                    assert np.isfinite(own).all(), name

    @pytest.mark.parametrize("shape", [(12,), (9, 12), (9, 9), (9, 9, 9)], ids=str)
    def test_linear_ways_have_maps_on_the_samples_and_others_do_not(self, shape):
        X, y = samples_of(shape, 12)
        for name, way in WAYS.items():
            if way.suits(shape):
                model = make_pipeline(clone(way.make(shape, None) or TensorScaler()), TensorMarginClassifier("full"))
                model.fit(X, y)
                if way.linear:
                    weights, offsets = affine_form(model)
                    scores = np.tensordot(X, weights[0], len(shape)) + offsets[0]
                    np.testing.assert_allclose(scores, model.decision_function(X), rtol=1e-8, atol=1e-8, err_msg=name)
                else:
                    with pytest.raises(NotAffineError):
                        affine_form(model)

    @pytest.mark.parametrize("name", ["blurred", "more blurred", "convolutions"])
    def test_modes_of_one_entry_do_not_matter(self, name):
        X, y = samples_of((9, 10))
        results = []
        for shape in ((9, 10), (9, 10, 1), (9, 1, 10), (1, 9, 10)):
            assert WAYS[name].suits(shape)
            results.append(WAYS[name].make(shape, None).fit_transform(X.reshape(-1, *shape), y).reshape(len(X), -1))
        for one in results[1:]:
            np.testing.assert_allclose(one, results[0], rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    def test_there_are_alternatives_for_every_shape(self, kind, shape):
        tried = alternatives(kind, shape)
        views = views_of(kind, shape)
        assert len(tried) == len([name for name in KINDS[kind].alone if WAYS[name].suits(shape)]) + 1
        assert [name.replace("_", " ") for name, _ in tried[-1].transformer_list] == views
        assert not all(WAYS[name].linear for name in views)

    @pytest.mark.parametrize(("kind", "shape"), [("series", (2, 12)), ("spectra", (2, 13)), ("connectome", (4, 4))])
    def test_all_alternatives_can_be_fitted_behind_another_transformer(self, kind, shape):
        X, y = samples_of(shape)
        for one in alternatives(kind, shape, before=TensorScaler(with_mean=False, with_std=False)):
            assert len(clone(one).fit(X, y).transform(X)) == len(X)

    def test_the_catalogue_agrees_with_the_benchmark(self):
        assert {entry.kind for entry in CATALOGUE.values()} <= set(KINDS)
        names = {"eeg_alcoholism": "eeg", "mnist_500": "mnist", "adrenal_300": "adrenal"}
        for task in AT_HAND.values():
            name = names.get(task.name, task.name.replace("_", "-"))
            name = next(one for one in CATALOGUE if name.startswith(one))
            assert (CATALOGUE[name].kind, CATALOGUE[name].sfreq) == (task.kind, task.sfreq)


class TestGuess:
    @pytest.mark.parametrize("shape", [(128, 60), (64, 64), (306, 120), (20, 20, 20), (5, 5, 200)], ids=str)
    @pytest.mark.parametrize("stated", ["sfreq", "times", "time in seconds"])
    def test_what_is_sampled_in_time_is_never_an_image(self, shape, stated, tmp_path):
        X = samples_of((6, *shape[1:]))[0] if len(shape) < 3 else np.zeros((8, *shape))
        X = np.resize(X, (8, *shape)) + np.arange(8).reshape(-1, *[1] * len(shape))
        if stated == "time in seconds":
            found = sample_set(X, axes=(*(Axis() for _ in shape[1:]), Axis("latency", "s")))
        else:
            rate = {"sfreq": 200.0} if stated == "sfreq" else {"times": np.arange(shape[-1]) / 200}
            np.savez(tmp_path / "a.npz", X=X, y=np.arange(8) % 2, **rate)
            found = load_samples(tmp_path / "a.npz")
        plan, sentence = with_kind(found, FitPlan(auto=True))
        assert plan.kind == "series", sentence
        assert plan.time == len(shape) - 1
        assert plan.sfreq == (200 if stated == "sfreq" else None)

    def test_the_kind_and_why_are_told_once_in_python(self):
        X, y = samples_of((12, 12), 24)
        few = {"decompositions": ("cp",), "ranks": (1,), "lams": (1,), "mus": (0,), "cv": 2, "random_state": 0}
        panel = pd.DataFrame(
            X.transpose(0, 2, 1).reshape(-1, 12), pd.MultiIndex.from_product([range(24), np.arange(12) / 100])
        )
        for model, data, words in (
            (TensorMarginAutoClassifier(**few), X + np.triu(X), "images because they have many rows and columns"),
            (
                TensorMarginAutoClassifier(sfreq=50.0, **few),
                X + np.triu(X),
                "time series because they are sampled at 50 Hz",
            ),
            (
                TensorMarginAutoClassifier(time=0, **few),
                X + np.triu(X),
                "time series because their mode of time is given",
            ),
        ):
            note.cache_clear()
            with pytest.warns(UserWarning, match=f"treated as {words}") as told:
                model.fit(data, y)
            model.fit(data, y)
            assert [one.filename for one in told] == [__file__]
        note.cache_clear()
        with pytest.warns(UserWarning, match="treated as time series because their last mode is named time") as told:
            nested_evaluation(TensorMarginAutoClassifier(**few), panel, y, cv=2)
        assert len(told) == 1  # also none by the folds, whose arrays state nothing

    @pytest.mark.parametrize(
        ("shape", "kind"),
        [
            *(((6, 100), "series"), ((3, 9), "series"), ((20, 3, 32), "series")),
            *(((28, 28), "image"), ((64, 32), "image"), ((30, 40, 20), "volume")),
            *(((5, 5, 200), "spectra"), ((13, 13, 26), "spectra")),
            *(
                ((7,), "plain"),
                ((100,), "plain"),
                ((76, 7), "series"),
                ((20, 7), "plain"),
                ((8, 8), "plain"),
                ((1, 1), "plain"),
            ),
            *(((2, 2, 2, 2), "plain"), ((3, 3, 3), "plain")),
        ],
        ids=str,
    )
    def test_by_shape(self, shape, kind):
        X = np.random.default_rng(0).normal(size=(4, *shape))
        guessed, why = guess_kind(sample_set(X))
        assert guessed == kind
        assert why

    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
    def test_correlations_are_connectomes_and_other_symmetric_matrices_are_not(self, dtype):
        X = samples_of((10, 10), 30)[0].round(1).astype(dtype)
        X[:, range(10), range(10)] = 9  # whatever the diagonal
        X[0, 0, 1] = X[0, 1, 0] = 1
        assert guess_kind(sample_set(X))[0] == "connectome"
        for change in (1.5, np.nan) if np.issubdtype(dtype, np.floating) else (3,):
            one = X.copy()
            one[7, 2, 3] = one[7, 3, 2] = change
            assert guess_kind(sample_set(one))[0] == "image"
        X[17, 2, 3] = X[17, 3, 2] - 1
        assert guess_kind(sample_set(X))[0] == "image"
        assert guess_kind(sample_set(np.zeros((4, 10, 10))))[0] == "image"

    def test_what_is_guessed_can_be_fitted(self):
        rng = np.random.default_rng(0)
        factors = rng.normal(size=(24, 4, 6))
        X, y = factors @ factors.swapaxes(1, 2), np.arange(24) % 2  # covariances: symmetric, and far from 1
        plan, _ = with_kind(sample_set(X), FitPlan(auto=True, folds=2))
        few = {"decompositions": ("full",), "ranks": (1,), "lams": (1,), "mus": (1,)}
        assert plan.model(1).set_params(**few).fit(X, y).n_splits_ >= 2

    def test_by_file(self):
        X = np.random.default_rng(0).normal(size=(4, 6, 100))
        assert guess_kind(sample_set(X, affine=np.eye(4))) == ("volume", "they come from NIfTI files")
        assert guess_kind(sample_set(X, "class folder of images"))[0] == "image"
        assert guess_kind(sample_set(X, field="spectra", affine=np.eye(4)))[0] == "spectra"

    @pytest.mark.parametrize(
        ("modes", "why"),
        [
            ("excitation,emission", "named emission"),
            ("emission[nm]=300:2,excitation[nm]=240:10", "named excitation"),
            ("row,[nm]=400:5", "in nm"),
            ("place,Raman shift[cm-1]=400:5", "named Raman shift"),
            ("place,[cm⁻¹]=4000:-5", "in cm⁻¹"),
            ("row[um]=0:1,column[um]=0:1", None),
            ("time[ms]=0:1,x[µm]=0:1", None),
        ],
    )
    def test_modes_of_wavelengths(self, modes, why):
        X = np.random.default_rng(0).normal(size=(4, 60, 64))
        found = guess_kind(sample_set(X, axes=parsed_axes(modes, (60, 64))))
        if why is None:
            assert found[0] in ("image", "series")
        else:
            assert found == ("spectra", f"their last mode is {why}")

    def test_arrays_of_wavelengths_beside_the_samples(self, tmp_path):
        X, y = np.random.default_rng(0).normal(size=(6, 20, 40)), np.arange(6) % 2
        beside = {"excitation_nm": np.arange(240, 440, 10), "emission_nm": np.arange(300, 500, 5)}
        np.savez(tmp_path / "eem.npz", X=X, y=y, **beside)
        found = load_samples(tmp_path / "eem.npz")
        assert [axis.label for axis in found.axes] == ["excitation (nm)", "emission (nm)"]
        assert guess_kind(found) == ("spectra", "their last mode is named emission")
        np.savez(tmp_path / "raman.npz", X=X, y=y, wavenumbers=np.arange(4000, 3800, -5))
        assert guess_kind(load_samples(tmp_path / "raman.npz"))[0] == "spectra"

    def test_image_files(self, tmp_path):
        from PIL import Image

        for name, level in (("a", 0), ("b", 200)):
            (tmp_path / name).mkdir()
            for number in range(2):
                Image.fromarray(np.full((4, 30), level + number, np.uint8)).save(tmp_path / name / f"{number}.png")
        assert guess_kind(load_samples(tmp_path)) == ("image", "they come from image files")

    def test_views_and_lazy_arrays_are_plain_and_different_lengths_series(self):
        X = np.random.default_rng(0).normal(size=(4, 6, 100))
        assert guess_kind(sample_set(Views(a=X, b=X))) == ("plain", "there are several views")
        ragged = np.empty(4, object)
        ragged[:] = [X[k, :, : 50 + k] for k in range(4)]
        assert guess_kind(sample_set(ragged)) == ("series", "they have different lengths")
        dask = pytest.importorskip("dask.array", reason="needs Dask: pip install 'tensormargin[dask]'")
        assert guess_kind(sample_set(dask.from_array(X)))[0] == "plain"

    @pytest.mark.parametrize(
        ("shape", "names", "mode"),
        [
            ((6, 100), ("channel", "time"), 1),
            ((100, 6), ("time", "channel"), 0),
            ((10, 12), ("time", "channel"), 0),
            ((100, 6), None, 0),
            ((64, 30), None, 1),
            ((100, 6), ("channel", "time"), 1),
            ((3, 50, 4), ("channel", "time", "band"), 1),
        ],
    )
    def test_the_mode_of_time(self, shape, names, mode):
        axes = None if names is None else tuple(Axis(name) for name in names)
        samples = sample_set(np.random.default_rng(0).normal(size=(4, *shape)), axes=axes)
        assert time_mode(samples, shape) == mode
        plan, said = with_kind(samples, FitPlan(auto=True))
        if plan.kind == "series":
            assert plan.time == mode
            assert (f"mode {mode + 1} is treated as time (change with --modes)" in said) == (mode < len(shape) - 1)

    def test_samples_of_different_lengths_with_time_first(self):
        ragged = np.empty(6, object)
        ragged[:] = [np.random.default_rng(k).normal(size=(40 + k, 3)) for k in range(6)]
        plan, _ = with_kind(sample_set(ragged), FitPlan(auto=True, recipe=Recipe(length="resample mode 1")))
        assert (plan.kind, plan.time, plan.shape) == ("series", 0, (42, 3))
        with pytest.raises(ValueError, match=r"give them one with length \(--length\)"):
            with_kind(sample_set(ragged), FitPlan(auto=True))


class TestAutoModel:
    def test_time_first_gives_the_model_of_time_last(self):
        X, y = low_rank_classes(0, 30, (3, 40), 1.0)
        few = {"decompositions": ("full",), "lams": (1,), "mus": (0,), "cv": 2, "linear": True}
        one = auto_model("series", (3, 40), **few).fit(X, y)
        other = auto_model("series", (40, 3), time=0, **few).fit(X.swapaxes(1, 2), y)
        np.testing.assert_allclose(other.decision_function(X.swapaxes(1, 2)), one.decision_function(X), rtol=1e-6)
        np.testing.assert_allclose(other.coef_, one.coef_.swapaxes(1, 2), rtol=1e-6, atol=1e-9)

    def test_unknown_kinds_and_missing_shapes_are_refused(self):
        with pytest.raises(ValueError, match=r"kind must be one of series, eeg, .*; got 'ecg'"):
            auto_model("ecg", (3, 40))
        with pytest.raises(ValueError, match=r"kind='eeg' needs the shape of the samples; pass shape=X.shape\[1:\]"):
            auto_model("eeg")

    def test_the_rule_is_default_where_views_are_side_by_side(self):
        assert auto_model("series", (3, 40)).rule == "default"
        assert auto_model("series", (3, 40), rule="best").rule == "best"
        assert auto_model("plain", (3, 40)).rule == auto_model().rule == "best"
        assert auto_model("series", (5,)).rule == "default"  # entries and their kernel
        assert auto_model("series", (5,), linear=True).rule == "best"

    @pytest.mark.parametrize("shape", [(3,), (2, 2), (2, 1, 4), (2, 8)], ids=str)
    def test_no_kind_is_only_linear(self, shape):
        for kind in KINDS:
            assert "TensorKernel" in repr(alternatives(kind, shape)), kind
            assert "TensorKernel" not in repr(alternatives(kind, shape, linear=True)), kind

    @pytest.mark.parametrize("shape", [(2,), (3, 1), (1, 2, 2)], ids=str)
    def test_plain_samples_that_no_linear_model_separates(self, shape):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(160, *shape))
        flat = X.reshape(160, -1)
        y = np.sign(flat[:, 0] * flat[:, 1])
        few = {"lams": (1,), "mus": (0, 1), "ranks": (1,), "cv": 3}
        search = auto_model("plain", shape, **few).fit(X[:120], y[:120])
        assert search.score(X[120:], y[120:]) > 0.8
        assert auto_model("plain", shape, linear=True, **few).fit(X[:120], y[:120]).best_score_ < 0.7

    def test_samples_that_stay_in_their_files_have_no_kernels(self):
        dask = pytest.importorskip("dask.array", reason="needs Dask: pip install 'tensormargin[dask]'")
        X, y = samples_of((4, 5), 24)
        plan, said = with_kind(sample_set(dask.from_array(X)), FitPlan(auto=True))
        assert plan.linear
        assert said.endswith("only what is linear in the samples is tried")
        few = {"decompositions": ("cp",), "ranks": (1,), "lams": (1,), "mus": (1,), "cv": 2}
        model = TensorMarginAutoClassifier(**few).fit(dask.from_array(X, chunks=(6, 4, 5)), y)
        assert len(model.tried_) == 3

    def test_linear_models_have_maps(self):
        X, y = samples_of((9, 10), 20)
        few = {"decompositions": ("full",), "lams": (1,), "mus": (1,), "cv": 2}
        tried = auto_model("volume", (9, 10), linear=True).preparation[-1]
        assert isinstance(tried, TensorUnion)
        search = TensorMarginClassifierCV(preparation=tried, **few).fit(X, y)
        assert weight_maps(search).shape == (1, 9, 10)
        for kind in KINDS:
            assert auto_model(kind, (9, 9), linear=True).preparation

    def test_a_preparation_comes_first(self):
        for one in auto_model("volume", (9, 9, 9), preparation=Crop()).preparation:
            assert isinstance(one if isinstance(one, Crop) else one[0], Crop)


class TestSideBySide:
    SHAPES = ((4, 6), (3, 5, 7), {"a": (4, 6), "b": (30,)})

    def test_views_have_full_weights_and_none_is_left_out(self):
        tried = candidates(self.SHAPES, ("full", "cp", "tt"), (1, 2), (1.0,), (1.0,))
        union = [one for one in tried if one.preparation == 2]
        assert [(one.decomposition, one.view_scale) for one in union] == [("full", "equal")]
        assert {one.decomposition for one in tried if one.preparation == 1} > {"full"}
        assert default_of(tried, self.SHAPES) == tried.index(union[0])

    def test_views_alone_have_all_weights(self):
        tried = candidates(self.SHAPES[2:], ("full", "cp"), (1,), (1.0,), (1.0,))
        assert {one.decomposition for one in tried} == {"full", "cp"}
        assert len({repr(one.view_scale) for one in tried}) == 3
        assert not side_by_side(self.SHAPES[2:], 0)

    def test_without_full_weights_the_given_ones_are_used(self):
        tried = candidates(self.SHAPES, ("cp",), (1,), (1.0,), (1.0,))
        assert {one.decomposition for one in tried if one.preparation == 2} == {"cp"}

    def test_series_begin_with_all_views_and_have_patterns_by_themselves(self):
        shapes = [(3, 40), {"convolutions": (60,), "competing_convolutions": (50,)}, {"a": (3, 40), "b": (60,)}]
        tried = candidates(shapes, ("full", "cp"), (1, 2), (1.0,), (1.0,))
        assert tried[default_of(tried, shapes)].preparation == 2
        made = alternatives("series", (3, 40))
        assert [len(one.transformer_list) for one in made if isinstance(one, TensorUnion)] == [2, 4]

    def test_the_union_is_not_refined(self):
        X, y = low_rank_classes(0, 40, (4, 6), 1.0)
        union = TensorUnion([("a", "passthrough"), ("b", TensorScaler())])
        few = {"decompositions": ("full", "cp"), "ranks": (1, 2), "lams": (1,), "mus": (1,), "cv": 2, "random_state": 0}
        mixed = TensorMarginClassifierCV(preparation=[None, union], rule="default", **few).fit(X, y)
        assert mixed.best_params_["preparation"] is union
        assert mixed.best_params_["decomposition"] == "full"
        assert len(mixed.cv_results_["params"]) == 3 + 1
        alone = TensorMarginClassifierCV(preparation=union, **few).fit(X, y)
        assert len(alone.cv_results_["params"]) > 3 * 3  # and here it is


def results(*means, dropped=None):
    n = len(means)
    return {
        "mean_test_score": np.array(means),
        "std_test_score": np.zeros(n),
        "n_parameters": np.arange(n),
        "dropped": ["" for _ in means] if dropped is None else dropped,
    }


class TestDefaultRule:
    # With 96 scored samples, two successes and two failures more make 100: a share of 0.5 stays 0.5, and the standard
    # error of a difference is sqrt(2 * 0.5 * 0.5 / 100) = 0.0707. A share of 75/96 becomes 0.77: sqrt(2 * 0.77 * 0.23
    # / 100) = 0.0595. A share of 0 becomes 0.02: sqrt(2 * 0.02 * 0.98 / 100) = 0.0198.
    @pytest.mark.parametrize(
        ("default", "best", "selected"),
        [
            *((0.5, 0.65, 0), (0.5, 0.653, 1), (0.5, 0.5, 0)),
            *((75 / 96, 75 / 96 + 0.128, 0), (75 / 96, 75 / 96 + 0.130, 1)),
            *((0.0, 0.049, 0), (0.0, 0.051, 1), (1.0, 1.0, 0), (0.6, 0.5, 0)),
        ],
    )
    def test_another_must_be_better_by_two_standard_errors_and_a_sample(self, default, best, selected):
        assert select_candidate(results(default, best), 5, "default", default=0, n_scored=96) == selected
        assert select_candidate(results(best, default), 5, "default", default=1, n_scored=96) == 1 - selected

    def test_fewer_samples_need_a_larger_lead(self):
        table = results(0.5, 0.6)
        chosen = [select_candidate(table, 5, "default", 0, n) for n in (10, 20, 40, 80, 160, 10**6)]
        assert chosen == sorted(chosen)
        assert (chosen[0], chosen[-1]) == (0, 1)

    def test_dropped_candidates_are_no_rivals(self):
        table = results(0.5, 0.9, 0.7, dropped=["", "after 1 of 5 splits", ""])
        assert select_candidate(table, 5, "default", 0, 96) == 2


class TestSharing:
    def test_computed_once_even_by_threads(self):
        sharing, calls, begun = Sharing(), [], Event()

        def compute(X):
            calls.append(begun.wait(1.0))
            return np.ones((len(X), 3))

        with sharing, ThreadPoolExecutor(4) as pool:
            X = np.arange(10.0).reshape(5, 2)
            found = [pool.submit(sharing.rows, TensorScaler(), X.copy(), compute) for _ in range(4)]
            begun.set()
            assert all(np.shares_memory(one.result(), found[0].result()) for one in found)
            assert len(calls) == 1
            sharing.rows(TensorScaler(with_std=False), X, compute)
            sharing.rows(TensorScaler(), X + 100, compute)
            sharing.rows(TensorScaler(), X.astype(np.float32), compute)
        assert len(calls) == 4

    def test_kept_results_are_read_only_and_released(self):
        sharing, X = Sharing(), np.arange(4.0).reshape(2, 2)
        with sharing:
            with sharing:  # as a search within an evaluation
                kept = sharing.rows(TensorScaler(), X, np.ones_like)
            assert np.shares_memory(sharing.rows(TensorScaler(), X, np.zeros_like), kept)
            for found in (kept, sharing.rows(TensorScaler(), X[::-1], np.zeros_like)):
                with pytest.raises(ValueError, match="read-only"):
                    found[0] = 2.0
        other = sharing.rows(TensorScaler(), X, np.zeros_like)
        assert other.flags.writeable
        assert not other.any()
        assert not sharing._kept
        assert not sharing._busy

    def test_rows_are_found_among_those_of_other_samples(self):
        sharing, computed = Sharing(), []

        def double(X):
            computed.append(len(X))
            return 2 * X

        X = np.arange(24.0).reshape(6, 4)
        with sharing:
            for rows in ([0, 1, 2], [2, 1, 0], [1, 5, 5, 3], list(range(6)), []):
                found = sharing.rows(TensorScaler(), X[rows], double)
                np.testing.assert_array_equal(found, 2 * X[rows])
            assert computed == [3, 3, 1, 0]
            for deviation in (True, False):  # what the results do not depend on
                sharing.rows(TensorScaler(with_mean=False, with_std=deviation), X, double, ignore=("with_std",))
            assert computed == [3, 3, 1, 0, 6]

    def test_competing_convolutions_of_a_split_share_those_of_all_samples(self, monkeypatch):
        X, calls = samples_of((3, 12), 10)[0], []
        step = CompetingConvolutions(4, 2)
        expected = step.fit(X[:6]).transform(X[6:])
        own = CompetingConvolutions._represent
        counted = lambda self, part: calls.append(len(part)) or own(self, part)  # noqa: E731
        monkeypatch.setattr(CompetingConvolutions, "_represent", counted)
        with shared:
            clone(step).fit_transform(X)
            np.testing.assert_array_equal(clone(step).fit(X[:6]).transform(X[6:]), expected)
        assert calls == [10]

    def test_a_failure_is_not_kept(self):
        sharing, X = Sharing(), np.ones((1, 3))

        def fail(X):
            raise ZeroDivisionError

        with sharing:
            with pytest.raises(ZeroDivisionError):
                sharing.rows(TensorScaler(), X, fail)
            assert sharing.rows(TensorScaler(), X, np.ones_like).sum() == 3
        with pytest.raises(ZeroDivisionError), sharing:
            sharing.rows(TensorScaler(), X, fail)
        assert not sharing._users

    def test_what_is_computed_after_the_last_user_left_is_not_kept(self):
        sharing, block = Sharing(), None

        def leave(X):
            block.__exit__(None, None, None)
            return X

        block = sharing
        block.__enter__()
        sharing.rows(TensorScaler(), np.ones((1, 2)), leave)
        assert not sharing._kept

    def test_the_total_size_is_bounded(self, monkeypatch):
        monkeypatch.setattr(tuning, "SHARED_RESULTS_BYTES", 100)
        sharing, calls = Sharing(), []

        def get(number, size=6):  # 48 bytes
            compute = lambda X: calls.append(number) or np.ones((len(X), size))  # noqa: E731
            return sharing.rows(Covariances(number), np.ones((1, 2)), compute)

        with sharing:
            for number in (0, 1, 0, 2, 0, 1):  # 1 makes room for 2, as the one that was not used for longest
                get(number)
            assert calls == [0, 1, 2, 1]
            assert get(3, size=99).size == 99
            assert not sharing._kept

    @pytest.mark.parametrize("one", [Covariances(), Convolutions(168)], ids=lambda one: type(one).__name__)
    def test_representations_are_the_same_with_and_without(self, one, monkeypatch):
        X, calls, own = samples_of((3, 12))[0], [], type(one)._represent
        plain = clone(one).fit(X).transform(X)
        monkeypatch.setattr(type(one), "_represent", lambda self, part: calls.append(1) or own(self, part))
        with shared:
            for samples in (X, X.copy()):
                np.testing.assert_array_equal(clone(one).fit(samples).transform(samples), plain)
        assert len(calls) == 1
        assert clone(one).fit(X).transform(X).flags.writeable

    def test_a_search_gives_the_same_with_and_without(self, monkeypatch):
        X, y = low_rank_classes(1, 24, (3, 12), 2.0)
        tried = [Covariances(), TensorUnion([("a", Covariances()), ("b", Convolutions(168, vectorize=True))])]
        few = {"decompositions": ("full",), "lams": (1,), "mus": (0, 1), "cv": 2, "random_state": 0}
        search = TensorMarginClassifierCV(preparation=tried, **few)
        fits = [clone(search).fit(X, y)]
        assert not shared._kept
        monkeypatch.setattr(Sharing, "rows", lambda self, transformer, X, compute, ignore=(): compute(X))
        fits.append(clone(search).fit(X, y))
        first, second = (fit.cv_results_["mean_test_score"] for fit in fits)
        np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(*(fit.decision_function(X) for fit in fits))


class TestPlan:
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"auto": True, "kind": "ecg"}, r"kind \(--kind\) must be one of auto, series, .*; got 'ecg'"),
            ({"kind": "eeg"}, r"pass auto=True \(--kind auto\), or leave them out"),
            ({"sfreq": 64.0}, r"pass auto=True \(--kind auto\), or leave them out"),
            ({"linear": True}, r"pass auto=True \(--kind auto\), or leave them out"),
            *(
                ({"auto": True, "sfreq": value}, r"sfreq \(--sfreq\) must be a number of Hz above zero; got")
                for value in (0.0, -1.0, float("nan"), float("inf"))
            ),
            ({"auto": True, "kind": "eeg", "recipe": Recipe(scale="entry")}, "leave out --kind, or --scale entry"),
        ],
        ids=str,
    )
    def test_what_cannot_be_is_refused_before_anything_is_read(self, given, message):
        with pytest.raises(ValueError, match=message):
            FitPlan(**given)

    def test_the_kind_is_the_given_one_the_stated_one_or_a_guess(self):
        X = np.random.default_rng(0).normal(size=(4, 6, 100))
        guessed, said = with_kind(sample_set(X), FitPlan(auto=True))
        assert (guessed.kind, guessed.sfreq, guessed.shape) == ("series", None, (6, 100))
        assert said == "treated as time series because they have few rows and many columns (change with --kind)"
        stated, said = with_kind(sample_set(X, field="eeg", sfreq=64.0), FitPlan(auto=True))
        assert (stated.kind, stated.sfreq) == ("eeg", 64.0)
        assert said == "treated as EEG because the file says so (change with --kind)"
        given, said = with_kind(sample_set(X, field="eeg", sfreq=64.0), FitPlan(auto=True, kind="plain", sfreq=32.0))
        assert (given.kind, given.sfreq, said) == ("plain", 32.0, "treated as plain arrays")
        assert with_kind(sample_set(X), given) == (given, "treated as plain arrays")

    def test_nothing_is_said_where_it_does_not_matter(self):
        X = np.random.default_rng(0).normal(size=(4, 6, 100))
        for plan in (FitPlan(), FitPlan(auto=True, recipe=Recipe(scale="entry"))):
            assert with_kind(sample_set(X, field="eeg", sfreq=64.0), plan) == (plan, "")
        with pytest.raises(ValueError, match="is for one tensor per sample; leave it out for several views"):
            with_kind(sample_set(Views(a=X, b=X)), FitPlan(auto=True, kind="eeg"))
        assert with_kind(sample_set(Views(a=X, b=X)), FitPlan(auto=True))[1] == ""

    def test_representations_take_prepared_samples(self):
        X = np.random.default_rng(0).normal(size=(4, 6, 100))
        plan, _ = with_kind(sample_set(X), FitPlan(auto=True, recipe=Recipe(resize=(6, 20))))
        assert plan.shape == (6, 20)
        for one in plan.model(1, (6, 100)).preparation[1:]:
            assert np.shape(one[0].fit_transform(X)) == (4, 6, 20)


class TestCommand:
    @pytest.fixture
    def file(self, tmp_path):
        X, t = low_rank_classes(0, 24, (3, 16), 2.0)
        np.savez(tmp_path / "x.npz", X=X, y=np.where(t > 0, "yes", "no"))
        return tmp_path / "x.npz"

    @staticmethod
    def fit(*arguments, cwd):
        options = ("-o", cwd / "m.skops", "--folds", 2, "--outer-folds", 0, "--no-report", "--jobs", 1, "--json")
        with fewer_models("auto_model", lams=(1,), mus=(1,), ranks=(1,), decompositions=("full",)):
            return run("fit", *arguments, *options)

    def test_kind_and_frequency_are_said_and_stored(self, file, tmp_path):
        done = self.fit(file, "--auto", "--kind", "eeg", "--sfreq", 64, cwd=tmp_path)
        assert "24 samples of 3 x 16, 2 classes; treated as EEG; 1 search" in done.stderr
        plan = json.loads(done.stdout)["plan"]
        assert (plan["kind"], plan["sfreq"], plan["shape"]) == ("eeg", 64.0, [3, 16])

    def test_maps_can_be_written(self, file, tmp_path):
        done = self.fit(file, "--auto", "--weight-map", tmp_path / "w.npy", cwd=tmp_path)
        assert "; only what is linear in the samples is tried; 1 search" in done.stderr
        assert np.load(tmp_path / "w.npy").shape[-2:] == (3, 16)
        assert json.loads(done.stdout)["plan"]["linear"]

    def test_a_guess_is_said(self, file, tmp_path):
        done = self.fit(file, "--auto", cwd=tmp_path)
        assert "treated as time series because they have few rows and many columns (change with --kind)" in done.stderr
        assert json.loads(done.stdout)["plan"]["kind"] == "series"

    def test_a_data_set_states_its_kind(self):
        loading = {"no_groups": False}
        plan, said = with_kind(load(Path("basic-motions"), loading), FitPlan(auto=True))
        assert said == "treated as time series because the catalogue of data sets says so (change with --kind)"
        assert (plan.kind, plan.shape) == ("series", (6, 100))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--rank", "2", "--sfreq", "64"), "pass auto=True (--kind auto), or leave them out"),
            (("--auto", "--kind", "ecg"), "Invalid value for '--kind': 'ecg' is not one of"),
            (("--auto", "--sfreq", "0"), "must be a number of Hz above zero; got 0"),
            (("--auto", "--sfreq", "nan"), "must be a number of Hz above zero; got nan"),
            (("--auto", "--sfreq", "fast"), "'fast' is not a valid float"),
            (("--auto", "--kind", "eeg", "--scale", "entry"), "leave out --kind, or --scale entry"),
        ],
        ids=str,
    )
    def test_bad_options_are_refused(self, options, message, file, tmp_path):
        done = self.fit(file, *options, cwd=tmp_path)
        assert done.returncode == 2
        assert message in done.stderr
        assert not (tmp_path / "m.skops").exists()
