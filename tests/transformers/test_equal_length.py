"""One length for samples of many: what it computes, and that ragged samples go through models, searches and files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from conftest import fewer_models, run
from estimator_checks import every_check
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from tensormargin import (
    EqualLength,
    Impute,
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    TensorScaler,
    activation_pattern,
    auto_model,
    load_model,
    load_samples,
    margin_report,
    nested_evaluation,
    permutation_test,
    save_model,
    weight_maps,
)
from tensormargin.data.leakage import duplicate_samples
from tensormargin.evaluation import CompareSettings, compare
from tensormargin.inspection import AffineForm, NotAffineError
from tensormargin.inspection.pull_backs import pulled_back
from tensormargin.io import BadFileError
from tensormargin.transformers import Recipe, resize

METHODS = ["resample", "constant", "edge", "mean"]
every_method = pytest.mark.parametrize("method", METHODS)


def recordings(n=24, seed=0):
    """Return samples of 3 channels and 12 to 19 points in time, and the labels of two classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return [rng.normal(0.8 * label, 1.0, (3, rng.integers(12, 20))) for label in y], y


SAMPLES, LABELS = recordings()
LENGTHS = [sample.shape[1] for sample in SAMPLES]


def as_objects(samples):
    vector = np.empty(len(samples), object)
    vector[:] = samples
    return vector


KINDS = {
    "list": list,
    "tuple": tuple,
    "object array": as_objects,
    "Series": lambda samples: pd.Series(samples, index=np.arange(len(samples))[::-1]),
    "lists of lists": lambda samples: [sample.tolist() for sample in samples],
    "nested frame": lambda samples: pd.DataFrame(
        {f"c{k}": [pd.Series(sample[k]) for sample in samples] for k in range(3)}
    ),
    "frames": lambda samples: [pd.DataFrame(sample) for sample in samples],
}


@every_check([EqualLength(), EqualLength(3, "edge"), EqualLength(9, "mean"), EqualLength(9, "constant", 1.0)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_ragged_samples_are_the_same(kind):
    step = EqualLength().fit(KINDS[kind](SAMPLES))
    assert step.sample_shape_in_ == (3, None)
    assert step.length_ == round(np.median(LENGTHS))
    expected = EqualLength().fit_transform(SAMPLES)
    np.testing.assert_allclose(step.transform(KINDS[kind](SAMPLES)), expected, rtol=0, atol=1e-14)


@every_method
def test_each_sample_is_changed_by_itself_and_order_is_kept(method):
    step = EqualLength(method=method, value=-2.0).fit(SAMPLES)
    together = step.transform(SAMPLES)
    assert together.shape == (24, 3, step.length_)
    for row, sample in enumerate(SAMPLES):
        np.testing.assert_array_equal(step.transform([sample])[0], together[row])
        np.testing.assert_array_equal(step.transform(sample[None])[0], together[row])


def test_resampling_is_that_of_resize():
    step = EqualLength(10).fit(SAMPLES)
    for sample, changed in zip(SAMPLES, step.transform(SAMPLES), strict=True):
        np.testing.assert_allclose(changed.T, resize(sample.T, (10,)), rtol=1e-12)
    same = [np.ones((2, 7)), np.ones((2, 9))]
    np.testing.assert_array_equal(EqualLength(9).fit_transform(same), 1.0)


@pytest.mark.parametrize("method", ["constant", "edge", "mean"])
def test_padding_keeps_the_entries_and_adds_at_the_end(method):
    step = EqualLength(method=method, value=3.5).fit(SAMPLES)
    assert step.length_ == max(LENGTHS)
    added = {"constant": lambda s: 3.5, "edge": lambda s: s[:, -1:], "mean": lambda s: s.mean(axis=1, keepdims=True)}
    for sample, changed in zip(SAMPLES, step.transform(SAMPLES), strict=True):
        np.testing.assert_array_equal(changed[:, : sample.shape[1]], sample)
        rest = changed[:, sample.shape[1] :]
        np.testing.assert_allclose(rest, np.broadcast_to(added[method](sample), rest.shape), rtol=1e-12)


@every_method
def test_new_samples_of_any_length_are_taken_and_longer_ones_cut_by_padding(method):
    step = EqualLength(method=method).fit(SAMPLES)
    longer = np.random.default_rng(1).normal(size=(2, 3, 50))
    changed = step.transform(longer)
    assert changed.shape == (2, 3, step.length_)
    if method != "resample":
        np.testing.assert_array_equal(changed, longer[:, :, : step.length_])
    alike = EqualLength(method=method).fit(longer)  # one length in training, others later
    assert alike.transform(SAMPLES).shape == (24, 3, 50)


@pytest.mark.parametrize("mode", [0, -2])
def test_another_mode(mode):
    turned = [sample.T for sample in SAMPLES]
    changed = EqualLength(mode=mode).fit_transform(turned)
    np.testing.assert_allclose(np.swapaxes(changed, 1, 2), EqualLength().fit_transform(SAMPLES), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.uint8, bool])
@every_method
def test_types_do_not_depend_on_the_lengths_at_hand(dtype, method):
    samples = [np.ones((2, 3), dtype), np.ones((2, 5), dtype), np.ones((2, 4), dtype)]
    step = EqualLength(4, method, value=1).fit(samples)
    kept = method == "edge" or (method == "constant" and dtype is not bool) or dtype is np.float64
    expected = dtype if kept else np.float32
    np.testing.assert_allclose(step.transform(samples), 1, rtol=1e-6)
    for some in (samples, samples[:1], samples[1:2], samples[2:]):
        assert step.transform(some).dtype == expected


def test_a_value_that_the_type_lacks_makes_it_floating():
    changed = EqualLength(method="constant", value=0.5).fit_transform([np.ones(2, np.uint8), np.ones(3, np.uint8)])
    assert changed.tolist() == [[1, 1, 0.5], [1, 1, 1]]
    assert (
        EqualLength(method="constant", value=-1).fit_transform([np.ones(2, np.uint8), np.ones(3, np.uint8)])[0, 2] == -1
    )


@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from(METHODS), st.sampled_from([0, 1, -1]))
def test_a_weight_goes_back_where_there_was_one_length(before, after, method, mode):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5, before, before, 2))
    step = EqualLength(after, method, 1.5, mode).fit(X)
    weight = rng.standard_normal(step.sample_shape_out_)
    form = pulled_back(step, AffineForm(weight[None], np.zeros(1)))
    scores = np.tensordot(step.transform(X), weight, 3)
    np.testing.assert_allclose(np.tensordot(X, form.weights[0], 3) + form.offsets, scores, atol=1e-10)


def test_a_weight_cannot_go_back_to_several_lengths():
    step = EqualLength().fit(SAMPLES)
    weight = np.ones(step.sample_shape_out_)
    with pytest.raises(TypeError, match="different lengths"):
        step.pull_back(weight)
    with pytest.raises(NotAffineError, match="EqualLength: the training samples had different lengths"):
        pulled_back(step, AffineForm(weight[None], np.zeros(1)))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "zero"}, 'method must be "resample", "constant", "edge" or "mean"; got method=\'zero\''),
        ({"length": 0}, "length must be a whole number of at least 1; got length=0"),
        ({"length": 2.5}, "got length=2.5"),
        ({"length": True}, "got length=True"),
        ({"value": np.nan}, "value must be a finite number; got value=nan"),
        ({"value": "0"}, "got value='0'"),
        ({"mode": 2}, "one of the 2 modes of the samples, from -2 to 1; got mode=2"),
        ({"mode": 0}, r"samples may differ in one mode, mode=0; they also differ in mode 1.*Give mode=1"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        EqualLength(**parameters).fit(SAMPLES)


def test_samples_that_cannot_be_made_equal_are_refused():
    with pytest.raises(ValueError, match="same number of modes; got 1, 2"):
        EqualLength().fit([np.ones(3), np.ones((2, 3))])
    with pytest.raises(ValueError, match=r"sample 1 is float64 of shape \(2, 0\)"):
        EqualLength().fit([np.ones((2, 3)), np.ones((2, 0))])
    with pytest.raises(ValueError, match=r"sample 1 is <U1"):
        EqualLength().fit([np.ones(3), np.array(["a", "b"])])
    with pytest.raises(ValueError, match=r"sample 1 has infinity.*Replace it by NaN"):
        EqualLength().fit([np.ones(3), np.array([1, np.inf])])
    step = EqualLength().fit(SAMPLES)
    with pytest.raises(ValueError, match=r"shape seen in fit, \(3, any\); got \(2, any\)"):
        step.transform([sample[:2] for sample in SAMPLES])
    with pytest.raises(NotFittedError):
        EqualLength().transform(SAMPLES)


def test_words():
    assert EqualLength().words() == "samples were resampled linearly to the median length of the training samples"
    assert EqualLength().fit(SAMPLES).words().endswith(f"to length {round(np.median(LENGTHS))}")
    assert EqualLength(9, "constant", 0.5).words() == "samples were padded with 0.5 to length 9, longer ones cut"


@pytest.fixture(scope="module")
def search():
    steps = [EqualLength(), make_pipeline(EqualLength(method="edge"), TensorScaler())]
    return TensorMarginClassifierCV(("cp",), (1,), (1,), (1,), preparation=steps, cv=3, random_state=0).fit(
        SAMPLES, LABELS
    )


def test_pipelines_and_scikit_learns_searches_take_ragged_samples():
    model = make_pipeline(EqualLength(), TensorMarginClassifier("cp", 1))
    by_hand = EqualLength().fit_transform(SAMPLES)
    fitted = clone(model).fit(SAMPLES, LABELS)
    np.testing.assert_array_equal(fitted.predict(SAMPLES), model[-1].fit(by_hand, LABELS).predict(by_hand))
    assert cross_val_score(model, SAMPLES, LABELS, cv=3, error_score="raise").mean() > 0.6
    grid = {"equallength__length": [5, 15], "equallength__method": ["resample", "mean"]}
    found = GridSearchCV(model, grid, cv=3, error_score="raise").fit(as_objects(SAMPLES), LABELS)
    assert found.best_estimator_[0].length_ in (5, 15)


def test_the_search_takes_ragged_samples_where_its_preparation_does(search):
    assert search.sample_shape_ == (3, None)
    assert search.score(SAMPLES, LABELS) > 0.7
    assert search.predict_proba(SAMPLES[:2]).shape == (2, 2)
    long = np.random.default_rng(0).normal(size=(2, 3, 40))
    assert search.decision_function(long).shape == (2,)
    with pytest.raises(ValueError, match=r"12 to 19 long.*EqualLength\(\) in front"):
        TensorMarginClassifierCV(preparation=[None, EqualLength()]).fit(SAMPLES, LABELS)


@pytest.mark.parametrize("samples", [SAMPLES, as_objects(SAMPLES)], ids=["list", "objects"])
def test_evaluations_take_ragged_samples(samples, search):
    model = make_pipeline(EqualLength(12), TensorMarginClassifier("cp", 1))
    assert nested_evaluation(search, samples, LABELS, cv=2).accuracy > 0.5
    assert permutation_test(model, samples, LABELS, cv=2, n_permutations=1, random_state=0).score > 0.5
    settings = CompareSettings(("STM",), repeats=1, folds=2, preparation=EqualLength(12))
    assert {row.method for row in compare(samples, LABELS, settings)} == {"STM", "majority class"}
    with pytest.raises(ValueError, match=r"EqualLength\(\) in front"):
        nested_evaluation(TensorMarginClassifierCV(), samples, LABELS)


def test_maps_and_margins_of_ragged_samples_are_at_the_common_length(search):
    length = search.best_estimator_[0][0].length_ if hasattr(search.best_estimator_[0], "steps") else None
    length = search.best_estimator_[0].length_ if length is None else length
    assert weight_maps(search).shape == (1, 3, length)
    assert activation_pattern(search, SAMPLES, LABELS).shape == (1, 3, length)
    margins = margin_report(search, SAMPLES, LABELS).margins
    np.testing.assert_allclose(margins, np.where(LABELS, 1, -1) * search.decision_function(SAMPLES), rtol=1e-6)


def test_models_are_saved(search, tmp_path):
    save_model(tmp_path / "model.skops", search)
    loaded = load_model(tmp_path / "model.skops")
    assert loaded.facts["sample_shape"] == [3, None]
    np.testing.assert_array_equal(loaded.model.predict(SAMPLES), search.predict(SAMPLES))


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("resample", EqualLength()),
        ("resample 128", EqualLength(128)),
        ("edge mode 1", EqualLength(method="edge", mode=0)),
        ("mean 20 mode 2", EqualLength(20, "mean", mode=1)),
        ("0", EqualLength(method="constant")),
        ("-1.5e2 20", EqualLength(20, "constant", -150.0)),
    ],
)
def test_recipes(text, step):
    assert repr(Recipe(length=text).inner()) == repr(step)


@pytest.mark.parametrize("text", ["", "zero", "resample 0", "edge mode 0", "20 mode", "nan", "mean mean"])
def test_recipes_that_make_no_sense_are_refused(text):
    with pytest.raises(ValueError, match=r"length \(--length\) must be"):
        Recipe(length=text).inner()


def test_in_a_recipe_one_length_comes_before_scaling_by_group():
    recipe = Recipe(length="edge", by_group=True)
    assert [name for name, _ in recipe.outer()] == ["length", "scale_by_group"]
    assert recipe.inner() is None
    groups = np.arange(24) % 3
    expected = TensorScaler(by_group=True).fit_transform(
        EqualLength(method="edge").fit_transform(SAMPLES), groups=groups
    )
    np.testing.assert_array_equal(recipe.scaled_by_group(SAMPLES, groups), expected)


@pytest.fixture
def folder(tmp_path):
    for row, (sample, label) in enumerate(zip(SAMPLES, LABELS, strict=True)):
        place = tmp_path / "data" / f"class {label}"
        place.mkdir(parents=True, exist_ok=True)
        np.save(place / f"{row:02}.npy", sample)
    return tmp_path / "data"


def test_folders_of_arrays_of_different_lengths(folder):
    with pytest.raises(BadFileError, match=r"all samples must have one shape.*ragged=True.*--length"):
        load_samples(folder)
    with pytest.raises(ValueError, match="got lazy=True and ragged=True"):
        load_samples(folder, lazy=True, ragged=True)
    study = load_samples(folder, ragged=True)
    assert study.sample_shape == (3, None)
    assert study.notes == ("the files differ in length: samples of 3 x any",)
    for name, sample in zip(study.names, study.data, strict=True):
        np.testing.assert_array_equal(sample, np.load(folder / name))
    np.save(folder / "class 0" / "00.npy", np.full((3, 5), np.nan))
    with pytest.raises(BadFileError, match=r"/00\.npy holds NaN"):
        load_samples(folder, ragged=True)


def test_the_command_line_fits_and_predicts_samples_of_different_lengths(folder, tmp_path):
    model, table = tmp_path / "model.skops", tmp_path / "predictions.csv"
    options = ["--length", "edge 15", "--decomposition", "cp", "--rank", "1", "--outer-folds", "2", "--folds", "2"]
    with fewer_models():
        fitted = run("fit", folder, "-o", model, *options, "--jobs", "1", "--no-report")
    assert fitted.returncode == 0, fitted.stderr
    assert "samples of 3 x any" in fitted.stderr
    inspected = run("inspect", model)
    assert "Takes samples of 3 x any" in inspected.stdout
    assert "padded with their last entry to length 15" in inspected.stdout
    predicted = run("predict", model, folder, "-o", table)
    assert predicted.returncode == 0, predicted.stderr
    assert "Accuracy against the labels" in predicted.stdout
    refused = run("fit", folder, "-o", model)
    assert refused.returncode == 2
    assert "--length" in refused.stderr


def test_copies_among_ragged_samples_are_found():
    found = duplicate_samples([*SAMPLES, SAMPLES[1], SAMPLES[5][:, :3], SAMPLES[1]])
    assert [rows.tolist() for rows in found] == [[1, 24, 26]]


def test_a_table_must_have_the_columns_of_the_fit_and_a_list_any_length():
    step = EqualLength().fit(np.ones((4, 6)))
    with pytest.raises(ValueError, match="X has 5 features, but EqualLength is expecting 6"):
        step.transform(np.ones((4, 5)))
    assert step.transform([np.ones(5)] * 2).shape == (2, 6)
    assert step.transform([np.ones(5), np.ones(9)]).shape == (2, 6)


def test_vectors_become_frames_where_asked_for():
    frame = EqualLength(4).set_output(transform="pandas").fit_transform([np.ones(3), np.ones(5)])
    assert frame.columns.tolist() == [f"equallength{k}" for k in range(4)]
    same = (
        EqualLength(12).set_output(transform="pandas").fit_transform(pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0]}))
    )
    assert same.shape == (2, 12)


def test_one_sample_and_samples_that_lie_anyhow_in_memory():
    one = EqualLength().fit_transform([SAMPLES[0]])
    np.testing.assert_array_equal(one[0], SAMPLES[0])
    turned = [np.asfortranarray(sample) for sample in SAMPLES]
    for sample in turned:
        sample.flags.writeable = False
    expected = EqualLength(9).fit_transform(SAMPLES)
    np.testing.assert_allclose(EqualLength(9).fit_transform(turned), expected, rtol=0, atol=1e-14)
    small = EqualLength(9).fit_transform([sample.astype(np.float32) for sample in SAMPLES])
    assert small.dtype == np.float32


def test_shrinking_averages():
    noise = [np.tile([1.0, -1.0], 32)[None], np.tile([1.0, -1.0], 16)[None]]
    changed = EqualLength(8).fit_transform(noise)
    assert np.abs(changed[:, :, 1:-1]).max() < 1e-12


# ---- missing entries ----


def padded(n=24, holes=False):
    """Return samples of different lengths that are padded with NaN, their labels and their lengths."""
    rng = np.random.default_rng(0)
    y, lengths = np.arange(n) % 2, rng.integers(30, 41, n)
    lengths[0] = 40
    X = np.sin(np.arange(40) / (3.0 + 2 * y[:, None]))[:, None] + 0.1 * rng.standard_normal((n, 3, 40))
    for sample, length in zip(X, lengths, strict=True):
        sample[:, length:] = np.nan
    if holes:
        X[5, 1, 10:14] = np.nan
    return X, y, lengths


def cut(X, lengths):
    return [sample[:, :length] for sample, length in zip(X, lengths, strict=True)]


@pytest.mark.parametrize("method", ["resample", "constant", "edge", "mean"])
def test_padding_with_nan_is_that_of_shorter_samples(method):
    X, _, lengths = padded()
    step = EqualLength(method=method).fit(X)
    expected = EqualLength(method=method).fit(cut(X, lengths))
    assert step.length_ == expected.length_
    assert step.sample_shape_in_ == (3, None)
    np.testing.assert_array_equal(step.transform(X), expected.transform(cut(X, lengths)))
    np.testing.assert_array_equal(step.transform(X[:1, :, :20]), expected.transform(X[:1, :, :20]))


def test_entries_within_samples_stay_missing_where_nothing_is_known():
    X, _, lengths = padded(holes=True)
    for samples in (X, cut(X, lengths)):
        missing = np.isnan(EqualLength().fit_transform(samples))
        assert 0 < missing.sum() <= 4
        assert missing[5, 1].sum() == missing.sum()
    assert not np.isnan(EqualLength(10).fit_transform(X)).any()  # averages of what is known
    assert np.isnan(EqualLength(60, method="mean").fit_transform(X)).sum() == 4
    empty = X.copy()
    empty[2] = np.nan
    with pytest.raises(ValueError, match=r"all those of sample 2 are NaN. Leave it out"):
        EqualLength().fit(empty)


def test_missing_entries_in_samples_of_different_lengths_are_filled_in_behind():
    X, y, lengths = padded(holes=True)
    search = auto_model(
        "series",
        (3, 36),
        preparation=make_pipeline(EqualLength(36), Impute("interpolate")),
        linear=True,
        decompositions=("full",),
        lams=(1,),
        mus=(0,),
        cv=2,
    )
    assert search.fit(X, y).score(cut(X, lengths), y) > 0.9
    with pytest.raises(ValueError, match=r"NaN or infinity.*Impute\(\).*sample 5\)"):
        TensorMarginClassifierCV(preparation=make_pipeline(EqualLength(), TensorScaler()), cv=2).fit(X, y)
    with pytest.raises(ValueError, match=r"Put tensormargin.EqualLength"):
        Impute().fit(cut(X, lengths))


@pytest.mark.parametrize(
    "model",
    [TensorMarginClassifier(), TensorMarginClassifierCV(cv=2), TensorScaler(), auto_model("series", (3, 40))],
    ids=["classifier", "search", "transformer", "auto"],
)
def test_nan_is_named_with_a_remedy_wherever_samples_enter(model):
    X, y, _ = padded()
    with pytest.raises(ValueError, match=r"tensormargin.Impute\(\).*first is sample 1; .*tensormargin.EqualLength\(\)"):
        model.fit(X, y)
    whole = np.nan_to_num(X)
    whole[7, 2, 3] = np.nan
    with pytest.raises(ValueError, match=r"tensormargin.Impute\(\).*\(the first is sample 7\)"):
        model.fit(whole, y)


def test_nan_on_the_command_line_is_padding_or_is_filled_in(tmp_path):
    X, y, _ = padded()
    np.savez(tmp_path / "padded.npz", X=X, y=y)
    X, y, _ = padded(holes=True)
    np.savez(tmp_path / "holes.npz", X=X, y=y)
    quick = ("--decomposition", "cp", "--rank", "1", "--folds", "2", "--outer-folds", "0", "--no-report")
    with fewer_models():
        refused = run("fit", "padded.npz", *quick, "-o", "m.skops", cwd=tmp_path)
        assert "NaN at the end of shorter samples is padding: `tensormargin fit --length resample`" in refused.stderr
        done = run("fit", "padded.npz", "--length", "resample", *quick, "-o", "a.skops", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        refused = run("fit", "holes.npz", "--length", "resample", *quick, "-o", "m.skops", cwd=tmp_path)
        assert "(command line: --missing) (the first is sample 5)" in refused.stderr
        options = ("--length", "resample", "--missing", "interpolate")
        done = run("fit", "holes.npz", *options, *quick, "-o", "b.skops", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    for name in ("a", "b"):
        done = run("predict", f"{name}.skops", "padded.npz", "-o", f"{name}.csv", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert len((tmp_path / f"{name}.csv").read_text().splitlines()) >= len(y)
