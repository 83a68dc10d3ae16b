"""Samples as people have them: whatever they come in, a model sees the same array."""

from __future__ import annotations

import subprocess
import sys
import warnings

import nibabel
import numpy as np
import pandas as pd
import pytest
import sklearn
from conftest import low_rank_classes
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tensormargin import (
    Crop,
    Mask,
    Resize,
    Tensorize,
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    TensorScaler,
    activation_pattern,
    fit_many,
    load_model,
    load_samples,
    margin_report,
    nested_evaluation,
    save_model,
)
from tensormargin.data import as_samples, is_ragged, shape_of_samples
from tensormargin.io import BadFileError
from tensormargin.report import describe_model

SHAPE = (4, 3)
X, SIGNS = low_rank_classes(0, 30, SHAPE, 4.0)
Y = np.where(SIGNS > 0, "yes", "no")
AFFINE = np.diag([2.0, 2.0, 2.0, 1.0])
VOLUMES = np.random.default_rng(1).normal(size=(30, 4, 3, 2)) + SIGNS[:, None, None, None]
COLUMNS = pd.MultiIndex.from_product([["Cz", "Fz", "Oz", "Pz"], [0.1, 0.2, 0.3]], names=["channel", "time"])


def as_objects(samples):
    vector = np.empty(len(samples), object)
    vector[:] = list(samples)
    return vector


def nested(samples):
    """Return a frame as sktime has it: one column per channel, a Series in every cell."""
    return pd.DataFrame({f"c{k}": [pd.Series(row[k]) for row in samples] for k in range(samples.shape[1])})


KINDS = {
    "list": list,
    "tuple": tuple,
    "list of lists": lambda samples: samples.tolist(),
    "object array": as_objects,
    "masked, nothing masked": lambda samples: np.ma.masked_array(samples, mask=False),
    "Series": lambda samples: pd.Series(list(samples), index=np.arange(len(samples))[::-1]),
    "one column": lambda samples: pd.DataFrame({"eeg": list(samples)}),
    "nested frame": nested,
    "nested lists": lambda samples: nested(samples).map(lambda cell: cell.tolist()),
    "levels": lambda samples: pd.DataFrame(samples.reshape(len(samples), -1), columns=COLUMNS),
    "levels, Float64": lambda samples: pd.DataFrame(samples.reshape(len(samples), -1), columns=COLUMNS).astype(
        "Float64"
    ),
    "list of frames": lambda samples: [pd.DataFrame(sample) for sample in samples],
    "read-only": lambda samples: np.frombuffer(samples.tobytes()).reshape(samples.shape),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_sees_the_same_array_whatever_it_comes_in(kind):
    given = KINDS[kind](X)
    np.testing.assert_array_equal(as_samples(given), X)
    model = make_pipeline(TensorScaler(), TensorMarginClassifier("cp", 1)).fit(given, Y)
    assert model[0].sample_shape_in_ == SHAPE
    plain = make_pipeline(TensorScaler(), TensorMarginClassifier("cp", 1)).fit(X, Y)
    np.testing.assert_array_equal(model.predict(given), plain.predict(X))
    np.testing.assert_allclose(model.decision_function(given), plain.decision_function(X), rtol=1e-9)
    np.testing.assert_allclose(activation_pattern(model, given, Y), activation_pattern(plain, X, Y), rtol=1e-9)
    assert margin_report(model, given, Y).mean == pytest.approx(margin_report(plain, X, Y).mean, rel=1e-9)


def test_searches_and_evaluations_take_them_too():
    search = TensorMarginClassifierCV(("cp",), (1,), (1,), (1,), cv=2, random_state=0)
    given = nested(X)
    np.testing.assert_array_equal(clone(search).fit(given, Y).predict_proba(given), search.fit(X, Y).predict_proba(X))
    assert nested_evaluation(search, list(X), Y, cv=2).accuracy == nested_evaluation(search, X, Y, cv=2).accuracy
    assert cross_val_score(TensorMarginClassifier("cp", 1), given, Y, cv=3, error_score="raise").mean() > 0.8


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, bool, np.int64])
def test_arrays_pass_untouched(dtype):
    cast = np.abs(X).astype(dtype)
    for array in (cast, np.asfortranarray(cast), cast[::2]):
        assert as_samples(array) is array
    table = pd.DataFrame(X[:, 0])
    assert as_samples(table) is table


@pytest.mark.parametrize("given", [None, "text", 3.0, [], [1.0, 2.0], ["a", "b"], [{}, {}], np.array(1.0)], ids=repr)
def test_what_are_no_samples_is_left_to_the_checks_behind(given):
    assert as_samples(given) is given


def test_arrays_of_other_libraries_in_a_list_stay_in_them(put):
    stacked = as_samples([put(sample) for sample in X])
    assert type(stacked) is type(put(X))
    assert tuple(stacked.shape) == X.shape


def test_no_library_is_imported_for_the_others():
    code = (
        "import sys, numpy as np; from tensormargin.data.conversion import as_samples; as_samples([np.ones(3)] * 2);"
        "print(sorted({'pandas', 'nibabel', 'mne', 'xarray', 'dask', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class TestRaggedSamples:
    SAMPLES = tuple(np.ones((3, n)) for n in (5, 7, 7, 9))

    @pytest.mark.parametrize("kind", [list, as_objects, pd.Series], ids=["list", "objects", "Series"])
    @pytest.mark.parametrize(
        "estimator",
        [TensorMarginClassifier(), TensorMarginClassifierCV(), TensorScaler()],
        ids=lambda one: type(one).__name__,
    )
    def test_the_error_has_the_lengths_and_the_remedy(self, estimator, kind):
        message = (
            r"mode 1 of 2 \(counted from 0\) is 5 to 9 long, and 2 of 4 samples differ from the most common length, 7.*"
            r"tensormargin\.EqualLength\(\) in front"
        )
        with pytest.raises(ValueError, match=message):
            clone(estimator).fit(kind(self.SAMPLES), [0, 1, 0, 1])

    def test_new_samples_as_well(self):
        model = TensorMarginClassifier("cp", 1).fit(X, Y)
        with pytest.raises(ValueError, match="3 to 4 long"):
            model.predict([X[0], X[1][:3]])

    def test_another_mode_or_several(self):
        with pytest.raises(ValueError, match=r"mode 0 of 2.*EqualLength\(mode=0\)"):
            as_samples([sample.T for sample in self.SAMPLES])
        with pytest.raises(ValueError, match=r"mode 0 of 2.*; mode 1 of 2.*Resize each"):
            as_samples([np.ones((2, 3)), np.ones((3, 4))])

    def test_other_faults(self):
        with pytest.raises(ValueError, match=r"same number of modes; got 1, 2 \(shapes such as \(3,\), \(3, 5\)\)"):
            as_samples([np.ones((3, 5)), np.ones(3)])
        with pytest.raises(ValueError, match="same number of modes; got 0, 2"):
            as_samples(pd.Series([np.ones((3, 5)), np.nan]))
        with pytest.raises(ValueError, match="sample 0 must be an array"):
            as_samples([[[1, 2], [3]], [[1, 2], [3, 4]]])
        frame = pd.DataFrame({"a": [np.ones(3)], "b": [np.ones(4)]})
        with pytest.raises(ValueError, match=r"sample 0 has \(3,\), \(4,\)"):
            as_samples(frame)

    def test_where_they_are_asked_for_they_are_a_vector_of_arrays(self):
        vector = as_samples(list(self.SAMPLES), ragged=True)
        assert is_ragged(vector)
        assert shape_of_samples(vector) == (3, None)
        assert as_samples(vector, ragged=True).shape == (4,)
        assert not is_ragged(as_samples(list(X), ragged=True))


class TestMaskedArrays:
    @pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, np.int64, bool])
    def test_masked_entries_are_missing_whatever_lies_underneath(self, dtype):
        masked = np.ma.masked_array(np.ones(X.shape, dtype), mask=False)
        masked[2, 1, 0] = np.ma.masked
        made = as_samples(masked)
        assert type(made) is np.ndarray
        assert np.isnan(made[2, 1, 0])
        assert np.isnan(made).sum() == 1
        for estimator in (TensorMarginClassifier(), TensorMarginClassifierCV(), TensorScaler()):
            with pytest.raises(ValueError, match="NaN"):
                estimator.fit(masked, Y)

    def test_in_prediction_and_in_lists(self):
        masked = np.ma.masked_greater(X, 1.0)
        model = TensorMarginClassifier("cp", 1).fit(X, Y)
        with pytest.raises(ValueError, match="NaN"):
            model.predict(masked)
        with pytest.raises(ValueError, match="NaN"):
            model.predict(list(masked))

    def test_of_dask(self):
        da = pytest.importorskip("dask.array", reason="needs Dask: pip install 'tensormargin[dask]'")
        lazy = da.ma.masked_greater(da.from_array(X, chunks=(10, *SHAPE)), 1.0)
        made = as_samples(lazy)
        np.testing.assert_array_equal(np.isnan(made.compute()), X > 1.0)
        with pytest.raises(ValueError, match="NaN"):
            TensorScaler().fit(lazy)


class TestFrames:
    def test_levels_in_any_order_of_the_columns(self):
        frame = pd.DataFrame(X.reshape(30, -1), columns=COLUMNS)
        swapped = as_samples(frame.swaplevel(axis=1))
        np.testing.assert_array_equal(swapped, np.swapaxes(X, 1, 2))
        interleaved = frame.iloc[:, np.arange(12).reshape(4, 3).T.ravel()]
        np.testing.assert_array_equal(as_samples(interleaved), X)

    def test_missing_combinations_are_named_and_the_remedy_works(self):
        frame = pd.DataFrame(X.reshape(30, -1), columns=COLUMNS).drop(columns=[("Fz", 0.2)])
        with pytest.raises(
            ValueError, match=r"of 4 x 3 = 12 combinations 1 are missing, such as \(Fz, 0\.2\).*reindex"
        ):
            TensorMarginClassifier().fit(frame, Y)
        whole = pd.MultiIndex.from_product(frame.columns.remove_unused_levels().levels)
        assert as_samples(frame.reindex(columns=whole, fill_value=0)).shape == X.shape
        frame.columns = frame.columns.map(str)
        assert TensorMarginClassifier("full").fit(frame, Y).sample_shape_ == (11,)

    def test_columns_that_come_twice_or_hold_other_things(self):
        frame = pd.DataFrame(X.reshape(30, -1), columns=COLUMNS)
        with pytest.raises(ValueError, match="must come once"):
            as_samples(pd.concat([frame, frame.iloc[:, :1]], axis=1))
        with pytest.raises(ValueError, match="column 'a' holds arrays and column 'age' does not"):
            as_samples(pd.DataFrame({"age": 3, "a": list(X)}))

    @pytest.mark.parametrize("make", [KINDS["levels"], nested], ids=["levels", "nested"])
    def test_columns_in_another_order_than_in_the_fit_are_put_into_that(self, make):
        frame = make(X)
        for estimator in (TensorMarginClassifier("cp", 1), TensorScaler(), TensorMarginClassifierCV(cv=2, lams=(1,))):
            fitted = estimator.fit(frame, Y)
            use = fitted.transform if hasattr(fitted, "transform") else fitted.predict
            first = frame.columns.get_level_values(0).unique()
            for given in (frame, X, frame[list(first[::-1])]):
                np.testing.assert_array_equal(use(given), use(frame))
            with pytest.raises(ValueError, match=r"must be those seen in fit; .* missing"):
                use(frame[list(first[1:])])
            fitted.fit(X, Y)  # which has no names
            use(frame[list(first[::-1])])

    def test_missing_values_of_pandas_are_missing(self):
        frame = pd.DataFrame(X.reshape(30, -1), columns=COLUMNS).astype("Float64")
        frame.iloc[0, 0] = pd.NA
        with pytest.raises(ValueError, match="NaN"):
            TensorMarginClassifier().fit(frame, Y)


TABLE = pd.DataFrame(X.reshape(30, -1), columns=[f"f{k}" for k in range(12)])


class TestNamesOfFeatures:
    MODELS = (
        TensorMarginClassifier("full"),
        TensorMarginClassifierCV(("full",), (None,), (1,), (1,), cv=2),
        TensorMarginClassifierCV(("full",), (None,), (1,), (1,), cv=2, preparation=TensorScaler()),
        make_pipeline(TensorScaler(), Mask(), TensorMarginClassifier("full")),
        make_pipeline(Tensorize(SHAPE), TensorMarginClassifier("cp", 1)),
    )

    @pytest.mark.parametrize("output", ["default", "pandas"])
    @pytest.mark.parametrize("model", MODELS, ids=range(len(MODELS)))
    def test_nothing_warns_of_names(self, model, output):
        with warnings.catch_warnings(), sklearn.config_context(transform_output=output):
            warnings.simplefilter("error")
            fitted = clone(model).fit(TABLE, Y)
            for method in ("predict", "decision_function", "predict_proba"):
                if hasattr(fitted, method):
                    getattr(fitted, method)(TABLE)
            fitted.score(TABLE, Y)
            margin_report(fitted, TABLE, Y)
            activation_pattern(fitted, TABLE, Y)
            predicted = fitted.predict(TABLE)
            with pytest.raises(ValueError, match="feature names should match"):
                fitted.predict(TABLE[TABLE.columns[::-1]])
        assert fitted.feature_names_in_.tolist() == TABLE.columns.tolist()
        plain = clone(model).fit(TABLE.to_numpy(), Y)
        np.testing.assert_array_equal(predicted, plain.predict(TABLE.to_numpy()))

    def test_many_fits(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            rows = [None, np.arange(20)]
            for one in fit_many([TensorMarginClassifier("full"), TensorMarginClassifier("full")], TABLE, Y, rows):
                one.predict(TABLE)
                assert one.feature_names_in_.tolist() == TABLE.columns.tolist()


class TestOutputOfTransformers:
    @pytest.mark.parametrize(
        ("step", "names"),
        [
            (TensorScaler(), list(TABLE)),
            (Mask(), list(TABLE)),
            (Crop(np.arange(12) % 11 > 2), [f"f{k}" for k in range(3, 11)]),
            (Tensorize((-1,)), list(TABLE)),
            (Resize((4,)), [f"resize{k}" for k in range(4)]),
        ],
        ids=repr,
    )
    def test_vectors_become_frames_with_names(self, step, names):
        step = clone(step).set_output(transform="pandas")
        for frame in (step.fit_transform(TABLE), step.fit(TABLE).transform(TABLE)):
            assert isinstance(frame, pd.DataFrame)
            assert frame.columns.tolist() == names
            assert frame.index.equals(TABLE.index)
        np.testing.assert_array_equal(frame, clone(step).set_output(transform="default").fit_transform(TABLE))
        assert step.get_feature_names_out().tolist() == names

    def test_tensors_stay_arrays(self):
        pipeline = make_pipeline(StandardScaler(), Tensorize(SHAPE), TensorScaler(), Crop(), Tensorize((-1,)))
        plain = clone(pipeline).fit_transform(TABLE)
        for moment in ("before", "after"):
            pipeline = clone(pipeline)
            if moment == "after":
                pipeline.fit(TABLE)
            frame = pipeline.set_output(transform="pandas").fit_transform(TABLE)
            np.testing.assert_array_equal(frame, plain)
            assert frame.columns.tolist() == [f"x{i}_{j}" for i in range(4) for j in range(3)]
            assert isinstance(pipeline[:3].transform(TABLE), np.ndarray)
        assert isinstance(pipeline.set_output(transform="default").fit_transform(TABLE), np.ndarray)

    def test_names_need_a_fit_and_vectors(self):
        with pytest.raises(NotFittedError):
            TensorScaler().get_feature_names_out()
        assert not hasattr(TensorScaler().fit(X), "get_feature_names_out")
        with pytest.raises(ValueError, match="output config must be in"):
            TensorScaler().set_output(transform="frame").fit_transform(TABLE)

    def test_a_model_with_such_steps(self):
        model = make_pipeline(TensorScaler(), TensorMarginClassifier("full")).set_output(transform="pandas")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            predicted = model.fit(TABLE, Y).predict(TABLE)
            activation_pattern(model, TABLE, Y)
        plain = make_pipeline(TensorScaler(), TensorMarginClassifier("full")).fit(TABLE, Y)
        np.testing.assert_array_equal(predicted, plain.predict(TABLE))


def image(array, affine=AFFINE):
    return nibabel.Nifti1Image(array, affine)


class TestImages:
    def test_one_image_with_four_axes_and_lists_of_both_kinds(self, tmp_path):
        whole = np.moveaxis(VOLUMES, 0, -1)
        np.testing.assert_array_equal(as_samples(image(whole)), VOLUMES)
        np.testing.assert_array_equal(as_samples([image(volume) for volume in VOLUMES]), VOLUMES)
        np.testing.assert_array_equal(as_samples([image(whole[..., :10]), image(whole[..., 10:])]), VOLUMES)
        nibabel.save(image(whole), tmp_path / "scans.nii.gz")
        np.testing.assert_array_equal(as_samples(nibabel.load(tmp_path / "scans.nii.gz")), VOLUMES)

    def test_they_go_into_fit_and_predict(self):
        model = TensorMarginClassifier("cp", 1).fit(image(np.moveaxis(VOLUMES, 0, -1)), Y)
        assert model.sample_shape_ == (4, 3, 2)
        plain = TensorMarginClassifier("cp", 1).fit(VOLUMES, Y)
        np.testing.assert_array_equal(model.predict([image(volume) for volume in VOLUMES]), plain.predict(VOLUMES))

    def test_values_are_those_that_the_header_scales(self, tmp_path):
        numbers = np.arange(24, dtype=np.int16).reshape(4, 3, 2, 1)
        scaled = image(numbers)
        scaled.header.set_slope_inter(0.5, 3)
        nibabel.save(scaled, tmp_path / "scaled.nii")
        assert as_samples(image(numbers)).dtype == np.float32
        stored = nibabel.load(tmp_path / "scaled.nii")
        np.testing.assert_allclose(as_samples(stored)[0], np.asarray(stored.dataobj)[..., 0])

    def test_faults(self):
        with pytest.raises(ValueError, match=r"four axes.*got shape \(4, 3, 2\).*in a list"):
            as_samples(image(VOLUMES[0]))
        with pytest.raises(ValueError, match="must have three axes"):
            as_samples([image(VOLUMES[0]), image(VOLUMES[0][..., None])])
        with pytest.raises(ValueError, match="one shape"):
            as_samples([image(VOLUMES[0]), image(VOLUMES[0][:3])])
        with pytest.raises(ValueError, match=r"one shape; got \(4, 3, 2\), \(3, 3, 2\)"):
            as_samples([image(VOLUMES[0][..., None]), image(VOLUMES[0][:3, ..., None])])
        with pytest.raises(ValueError, match="real numbers; got complex64"):
            as_samples(image(VOLUMES[0][..., None].astype(np.complex64)))
        with pytest.warns(UserWarning, match="1 of 2 images have an affine that differs from that of the first"):
            as_samples([image(VOLUMES[0]), image(VOLUMES[1], np.eye(4))])

    @pytest.mark.parametrize("step", [Mask, Crop])
    def test_as_a_mask(self, step, tmp_path):
        inside = np.zeros((4, 3, 2), np.uint8)
        inside[1:3, :2] = 7
        given = image(inside)
        made = step(given)
        assert made.get_params()["mask"] is given
        changed = clone(made).fit_transform(VOLUMES)
        np.testing.assert_array_equal(changed, step(inside > 0).fit_transform(VOLUMES))
        model = make_pipeline(made, TensorMarginClassifier("cp", 1)).fit(VOLUMES, Y)
        save_model(tmp_path / "model.skops", model)
        loaded = load_model(tmp_path / "model.skops").model
        np.testing.assert_array_equal(loaded[0].mask, inside > 0)
        np.testing.assert_array_equal(loaded.predict(VOLUMES), model.predict(VOLUMES))
        assert made.mask is given
        with pytest.raises(ValueError, match="three axes"):
            step(image(inside[..., None])).fit(VOLUMES)


class TestLabelsFromArrays:
    @pytest.mark.parametrize("kind", [list, np.array, pd.Series, lambda y: pd.Series(y, dtype="category")])
    def test_labels_given_as_they_are(self, kind, tmp_path):
        np.save(tmp_path / "X.npy", X)
        study = load_samples(tmp_path / "X.npy", labels_from=kind(Y))
        assert study.target.tolist() == Y.tolist()
        codes = load_samples(tmp_path / "X.npy", labels_from=(Y == "yes").astype(float))
        assert codes.target.dtype == np.int64

    def test_faults(self, tmp_path):
        np.save(tmp_path / "X.npy", X)
        with pytest.raises(BadFileError, match="29 labels with those of labels_from, but 30 samples"):
            load_samples(tmp_path / "X.npy", labels_from=Y[1:])
        with pytest.raises(BadFileError, match="a quantity was found"):
            load_samples(tmp_path / "X.npy", labels_from=np.linspace(0, 1, 30))
        with pytest.raises(ValueError, match="1 of 30 are missing"):
            load_samples(tmp_path / "X.npy", labels_from=[None, *Y[1:]])


def test_a_model_of_vectors_says_that_its_weight_is_flat():
    assert describe_model(TensorMarginClassifier("cp", 1).fit(TABLE, Y)) == (
        "CP weight of rank 1 (the samples are vectors, so the weight is flat)"
    )
    assert "flat" not in describe_model(TensorMarginClassifier("cp", 1).fit(X, Y))
