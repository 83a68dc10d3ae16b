"""Tests of the classifier that finds out what its samples are."""

from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pytest
from conftest import low_rank_classes
from estimator_checks import every_check
from sklearn.base import clone
from sklearn.model_selection import cross_validate
from sklearn.pipeline import Pipeline, make_pipeline

from tensormargin import (
    Crop,
    NotAffineError,
    TensorMarginAutoClassifier,
    TensorScaler,
    TensorUnion,
    Views,
    auto_model,
    load_model,
    nested_evaluation,
    save_model,
    weight_maps,
)
from tensormargin.data import conversion

FEW = {"lams": (1,), "mus": (1,), "cv": 2, "random_state": 0}


@pytest.fixture(scope="module")
def series():
    return low_rank_classes(0, 24, (3, 40), 4.0)


@pytest.fixture(scope="module")
def fitted(series):
    return TensorMarginAutoClassifier(**FEW).fit(*series)


@pytest.mark.filterwarnings("ignore::tensormargin.LeakageWarning")  # some of their samples are copies of others
# One check compares sample weights with repeated samples, which preparations do not take for the same: a kernel would
# be the best one of its candidates, and without kernels the samples as they are.
# Another one wants the predicted class to be the most probable one, which it need not be with multi_class="auto".
@every_check([TensorMarginAutoClassifier(linear=True, lams=(1,), mus=(1,), cv=2, max_iter=20, multi_class="ovo")])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


class TestTheSearch:
    def test_it_is_that_of_the_kind_and_shape(self, series, fitted):
        X, _ = series
        known = auto_model("series", X.shape[1:], lams=(1,), mus=(1,), cv=2).fit(*series)
        assert (fitted.kind_, fitted.why_) == ("series", "they have few rows and many columns")
        assert fitted.best_params_["decomposition"] == known.best_params_["decomposition"]
        np.testing.assert_array_equal(fitted.cv_results_["mean_test_score"], known.cv_results_["mean_test_score"])
        np.testing.assert_array_equal(fitted.predict_proba(X), known.predict_proba(X))

    def test_nothing_that_was_given_changes(self, series, fitted):
        assert (fitted.kind, fitted.preparation, fitted.decompositions, fitted.rule) == ("auto", None, None, None)
        assert not hasattr(clone(fitted), "kind_")
        again = clone(fitted).set_params(kind="plain").fit(*series)
        assert (again.kind_, again.why_) == ("plain", "")

    def test_what_is_given_counts(self, series):
        model = TensorMarginAutoClassifier("series", decompositions=("cp",), ranks=(1,), rule="best", **FEW).fit(
            *series
        )
        assert {(one["decomposition"], one["rank"]) for one in model.cv_results_["params"]} == {("cp", 1)}
        for name, value in (("kind", "ecg"), ("sfreq", 0.0), ("linear", "yes"), ("time", 0.5)):
            with pytest.raises(ValueError, match=f"'{name}' parameter"):
                clone(model).set_params(**{name: value}).fit(*series)

    def test_a_preparation_comes_first_and_decides_on_the_shape(self, series):
        X, y = series
        padded = np.zeros((*X.shape[:2], 60))
        padded[..., :40] = X
        model = TensorMarginAutoClassifier(preparation=Crop("varying"), **FEW).fit(padded, y)
        assert model.best_estimator_[0].get_params()["before"].sample_shape_out_ == (3, 40)

    def test_the_mode_of_time(self, series, fitted):
        X, y = series
        turned = clone(fitted).set_params(time=0, kind="series").fit(X.swapaxes(1, 2), y)
        assert clone(fitted).fit(X.swapaxes(1, 2), y).kind_ == "series"  # many rows and few columns
        np.testing.assert_allclose(turned.decision_function(X.swapaxes(1, 2)), fitted.decision_function(X), rtol=1e-5)


class _Counted(TensorScaler):
    """Scales, and counts how often it is fitted to how many samples."""

    fits: Counter[int] = Counter()  # noqa: RUF012 - of all copies

    def fit(self, X, y=None, groups=None, confounds=None):
        self.fits[len(X)] += 1
        return super().fit(X, y, groups, confounds)


class TestEachThingIsDoneOnce:
    def test_lists_are_converted_once(self, series, monkeypatch):
        X, y = series
        stacked, stack = [], conversion._stacked
        monkeypatch.setattr(conversion, "_stacked", lambda X, ragged: stacked.append(len(X)) or stack(X, ragged))
        model = TensorMarginAutoClassifier(**FEW).fit(list(X), y)
        assert stacked == [24]
        monkeypatch.undo()
        np.testing.assert_array_equal(model.predict(list(X)), model.predict(X))

    def test_shapes_behind_preparations_are_found_out_once(self, series):
        _Counted.fits.clear()
        model = TensorMarginAutoClassifier(preparation=_Counted(), **FEW).fit(*series)
        tried = [one[-1] for one in model.cv_results_["param_preparation"] if isinstance(one, Pipeline)]
        assert any(isinstance(one, TensorUnion) for one in tried)
        assert _Counted.fits[24] == 4  # to guess the kind, for the shapes of covariances and power, for the model

    def test_axes_are_kept(self, series):
        xarray = pytest.importorskip("xarray", reason="needs xarray: pip install xarray")
        X, y = series
        named = xarray.DataArray(X, dims=("sample", "channel", "time"))
        model = TensorMarginAutoClassifier(**FEW).fit(named, y)
        assert [axis.name for axis in model.axes_in_] == ["channel", "time"]
        with pytest.raises(ValueError, match=r"mode 0 .* was 'channel' and is 'time'"):
            model.predict(named.transpose("sample", "time", "channel"))


class TestWhatIsTaken:
    def test_series_of_different_lengths(self, series):
        X, y = series
        cut = [one[:, : 30 + place % 10] for place, one in enumerate(X)]
        model = TensorMarginAutoClassifier(**FEW).fit(cut, y)
        assert (model.kind_, model.why_) == ("series", "they have different lengths")
        assert model.predict(cut[:3]).shape == (3,)
        found = nested_evaluation(TensorMarginAutoClassifier(**FEW), cut, y, cv=2)
        assert found.predicted.shape == (1, len(y))

    @pytest.mark.parametrize("time_first", [False, True])
    def test_series_that_are_padded_with_nan(self, series, time_first):
        X, y = series
        padded = X.copy()
        for place, one in enumerate(padded):
            one[:, 30 + place % 10 :] = np.nan
        cut = [one[:, : 30 + place % 10] for place, one in enumerate(X)]
        if time_first:
            padded, cut = padded.swapaxes(1, 2), [one.T for one in cut]
        model = TensorMarginAutoClassifier(**FEW).fit(padded, y)
        assert (model.kind_, model.why_) == ("series", "they have different lengths")
        expected = TensorMarginAutoClassifier(**FEW).fit(cut, y)
        np.testing.assert_array_equal(model.decision_function(padded), expected.decision_function(cut))
        np.testing.assert_array_equal(model.decision_function(cut), expected.decision_function(cut))

    def test_nan_elsewhere_is_refused(self, series):
        X, y = series
        fitted = TensorMarginAutoClassifier(**FEW).fit([one[:, : 30 + place % 10] for place, one in enumerate(X)], y)
        for where in ((4, slice(None), 5), (4, 1, slice(35, None))):
            wrong = X.copy()
            wrong[(7, slice(None), slice(30, None))] = np.nan
            wrong[where] = np.nan
            for act in (lambda given: TensorMarginAutoClassifier(**FEW).fit(given, y), fitted.predict):
                with pytest.raises(ValueError, match=r"at their end, in all channels; .* is 4\).*Impute\(\)"):
                    act(wrong)

    def test_several_views(self, series):
        X, y = series
        model = TensorMarginAutoClassifier(**FEW).fit(Views({"a": X, "b": X[:, :2, :5]}), y)
        assert model.kind_ == "plain"
        assert set(model.sample_shape_) == {"a", "b"}
        assert TensorMarginAutoClassifier(**FEW).fit({"a": X, "b": X[:, :2, :5]}, y).kind_ == "plain"
        with pytest.raises(ValueError, match="kind='eeg' is for one tensor per sample; leave it out"):
            TensorMarginAutoClassifier("eeg", **FEW).fit(Views({"a": X, "b": X}), y)

    def test_named_modes(self, series):
        xarray = pytest.importorskip("xarray", reason="needs xarray: pip install xarray")
        X, y = series
        times = ("time", np.arange(40) / 100, {"units": "s"})
        named = xarray.DataArray(
            X, dims=("sample", "channel", "time"), coords={"time": times, "channel": ["Cz", "Pz", "Oz"]}
        )
        model = TensorMarginAutoClassifier(**FEW).fit(named, y)
        assert (model.kind_, model.sfreq_) == ("eeg", pytest.approx(100.0))
        assert TensorMarginAutoClassifier(sfreq=50.0, **FEW).fit(named, y).sfreq_ == 50.0

    def test_images_of_voxels(self):
        nibabel = pytest.importorskip("nibabel", reason="needs nibabel: pip install 'tensormargin[neuro]'")
        X, y = low_rank_classes(0, 16, (4, 5, 6), 4.0)
        images = [nibabel.Nifti1Image(one.astype(np.float32), np.diag([3.0, 3, 3, 1])) for one in X]
        model = TensorMarginAutoClassifier(**FEW).fit(images, y)
        assert model.kind_ == "volume"
        np.testing.assert_array_equal(model.predict(images), model.predict(X.astype(np.float32)))

    def test_vectors(self):
        X, y = low_rank_classes(0, 24, (12,), 4.0)
        assert TensorMarginAutoClassifier(**FEW).fit(X, y).kind_ == "plain"


class TestWhatIsDoneWithIt:
    def test_linear_models_have_maps(self, series):
        X, _ = series
        linear = TensorMarginAutoClassifier(linear=True, **FEW).fit(*series)
        np.testing.assert_array_equal(linear.weight_maps(), weight_maps(linear))
        assert linear.weight_maps().shape == (1, *X.shape[1:])
        corners = np.random.default_rng(0).normal(size=(80, 2))
        kernel = TensorMarginAutoClassifier(**FEW).fit(corners, corners.prod(axis=1) > 0)  # no linear model tells them
        with pytest.raises(NotAffineError):
            kernel.weight_maps()

    def test_its_repr_says_what_it_chose(self, fitted):
        assert repr(clone(fitted)).endswith(")")
        assert "# series: " in repr(fitted)
        assert "Validation score" in fitted._repr_mimebundle_()["text/html"]

    def test_in_pipelines_and_cross_validation(self, series):
        model = make_pipeline(TensorScaler(per=0), TensorMarginAutoClassifier("plain", **FEW))
        assert cross_validate(model, *series, cv=4)["test_score"].mean() > 0.7

    def test_files_and_copies_predict_the_same(self, series, fitted, tmp_path):
        X, _ = series
        save_model(tmp_path / "auto.skops", fitted)
        for other in (load_model(tmp_path / "auto.skops").model, pickle.loads(pickle.dumps(fitted))):
            assert isinstance(other, TensorMarginAutoClassifier)
            assert repr(other) == repr(fitted)
            np.testing.assert_array_equal(other.predict_proba(X), fitted.predict_proba(X))

    def test_nested_evaluation(self, series):
        result = nested_evaluation(TensorMarginAutoClassifier("plain", **FEW), *series, cv=2)
        assert len(result.folds) == 2


def test_auto_model_is_a_word_for_it():
    model = auto_model("auto", sfreq=100.0, linear=True, cv=3)
    assert isinstance(model, TensorMarginAutoClassifier)
    assert (model.kind, model.sfreq, model.linear, model.cv, model.random_state) == ("auto", 100.0, True, 3, 0)
