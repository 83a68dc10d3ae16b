"""Options that prepare samples: masks from files, missing entries, and errors in the words of the options."""

from __future__ import annotations

import re

import nibabel
import numpy as np
import pytest
from conftest import fewer_models, run

from tensormargin import Crop, EqualLength, Impute, Mask, any_scale, load_model, load_samples
from tensormargin.data import Metadata
from tensormargin.io import BadFileError, load_mask
from tensormargin.transformers import MaskImage, Recipe
from tensormargin.transformers.preparation._base import in_options

pytestmark = pytest.mark.usefixtures("blank_figures")

SHAPE = (5, 6, 4)
AFFINE = np.array([[3.0, 0, 0, -10], [0, 3, 0, -20], [0, 0, 3, 5], [0, 0, 0, 1]])
INSIDE = np.zeros(SHAPE, np.uint8)
INSIDE[1:4, 1:5, :3] = 1
Y = np.arange(24) % 2
QUICK = ("--outer-folds", 0, "--folds", 2, "--no-report", "--decomposition", "cp", "--rank", 1, "--jobs", 1)


def volumes():
    X = np.random.default_rng(0).standard_normal((24, *SHAPE)).astype(np.float32)
    X[Y == 1, 1:3, 2:4, :2] += 2
    return X


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    X = volumes()
    np.savez(folder / "plain.npz", X=X, y=Y)
    holes = np.where(np.random.default_rng(1).random(X.shape) < 0.03, np.nan, X)
    np.savez(folder / "holes.npz", X=holes, y=Y)
    np.savez(folder / "constant.npz", X=np.ones((24, 5, 6)), y=Y)
    nibabel.save(nibabel.Nifti1Image(np.moveaxis(X, 0, -1), AFFINE), folder / "runs.nii.gz")
    (folder / "labels.csv").write_text("label\n" + "\n".join(map(str, Y)))
    nibabel.save(nibabel.Nifti1Image(INSIDE, AFFINE), folder / "brain.nii.gz")
    nibabel.save(nibabel.Nifti1Image(INSIDE[..., None], AFFINE), folder / "brain4.nii.gz")
    moved = AFFINE + np.eye(4)[:, [3, 0, 1, 2]]
    nibabel.save(nibabel.Nifti1Image(INSIDE, moved), folder / "moved.nii.gz")
    nibabel.save(nibabel.Nifti1Image(INSIDE[1:], AFFINE), folder / "small.nii.gz")
    np.save(folder / "mask.npy", INSIDE.astype(float))
    np.save(folder / "empty.npy", 0 * INSIDE)
    np.save(folder / "nan.npy", np.where(INSIDE, 1, np.nan))
    return folder


# ---- masks ----


@pytest.mark.parametrize("option", ["mask", "crop"])
@pytest.mark.parametrize("mask", ["brain.nii.gz", "brain4.nii.gz", "mask.npy"])
def test_a_mask_from_a_file_is_part_of_the_model(option, mask, folder, tmp_path):
    data = ("runs.nii.gz", "--labels-from", "labels.csv") if mask != "mask.npy" else ("plain.npz",)
    with fewer_models(lams=(1,)):
        fitted = run("fit", *data, f"--{option}", mask, "-o", tmp_path / "m.skops", *QUICK, cwd=folder)
    assert fitted.returncode == 0, fitted.stderr
    loaded = load_model(tmp_path / "m.skops")
    assert loaded.facts["about"]["preparation"]["recipe"][option] == mask
    X = volumes()
    changed = np.where(INSIDE, X, 1000)
    model = loaded.model
    with any_scale():
        np.testing.assert_array_equal(model.decision_function(changed), model.decision_function(X))
    if option == "crop":
        expected = Crop(INSIDE).fit_transform(X).shape[1:]
        assert model.best_estimator_[0].sample_shape_out_ == expected if hasattr(model, "best_estimator_") else True
    predicted = run("predict", tmp_path / "m.skops", "plain.npz", "-o", tmp_path / "p.csv", cwd=folder)
    assert "Accuracy" in predicted.stdout, predicted.stderr


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        ("moved.nii.gz", r"moved.nii.gz: a mask must lie where the samples do; its affine is \[3 1 0 -10.*\[3 0 0 -10"),
        ("small.nii.gz", "shape of the samples, 5 x 6 x 4; it has 4 x 6 x 4"),
        ("runs.nii.gz", "it has 5 x 6 x 4 x 24"),
        ("empty.npy", "an entry that is not zero"),
        ("nan.npy", "holds NaN"),
        ("nothing.nii.gz", 'no such file; a mask is a file, or one of the words "varying"'),
        ("labels.csv", "unknown kind of file '.csv' for a mask"),
        ("plain.npz", "a mask is alone in its file"),
    ],
)
def test_masks_that_do_not_fit(mask, said, folder, tmp_path):
    for option in ("--mask", "--crop"):
        command = ("fit", "runs.nii.gz", "--labels-from", "labels.csv", option, mask, "-o", tmp_path / "m.skops")
        refused = run(*command, cwd=folder)
        assert refused.returncode == 2, refused.stderr
        assert re.search(said, refused.stderr), refused.stderr
    refused = run("compare", "runs.nii.gz", "--labels-from", "labels.csv", "--mask", mask, "--jobs", 1, cwd=folder)
    assert (refused.returncode, bool(re.search(said, refused.stderr))) == (2, True), refused.stderr


def test_masks_in_python(folder):
    found = load_mask(folder / "brain.nii.gz")
    np.testing.assert_array_equal(found.entries, INSIDE > 0)
    np.testing.assert_allclose(found.affine, AFFINE)
    recipe = Recipe(mask=found)
    expected = Mask(INSIDE).fit_transform(volumes())
    np.testing.assert_array_equal(recipe.inner().fit_transform(volumes()), expected)
    recipe.check_masks(SHAPE, AFFINE)
    recipe.check_masks(SHAPE, None)
    recipe.check_masks({"scan": SHAPE, "covariates": (2,)}, {"scan": AFFINE})
    with pytest.raises(ValueError, match="there are 2 views: a, b"):
        recipe.check_masks({"a": SHAPE, "b": SHAPE}, None)
    with pytest.raises(ValueError, match="shape of the samples"):
        Recipe(crop=MaskImage(INSIDE[1:] > 0, None, "a.npy")).check_masks(SHAPE, None)


def test_an_output_does_not_overwrite_a_mask(folder):
    refused = run("fit", "plain.npz", "--mask", "mask.npy", "-o", "mask.npy", cwd=folder)
    assert "would overwrite an input" in refused.stderr


# ---- missing entries ----

FILLED = {"mean": Impute(), "interpolate": Impute("interpolate"), "em": Impute("low-rank"), "mask": Impute(mask=True)}


@pytest.mark.parametrize("how", FILLED)
def test_missing_entries_are_filled_in_by_the_model(how, folder, tmp_path):
    with fewer_models(lams=(1,)):
        fitted = run("fit", "holes.npz", "--missing", how, "-o", tmp_path / "m.skops", *QUICK, cwd=folder)
    assert fitted.returncode == 0, fitted.stderr
    loaded = load_model(tmp_path / "m.skops")
    assert loaded.facts["about"]["preparation"]["recipe"]["missing"] == FILLED[how].brief()
    predicted = run("predict", tmp_path / "m.skops", "holes.npz", "-o", tmp_path / "p.csv", cwd=folder)
    assert "Accuracy" in predicted.stdout, predicted.stderr
    with np.load(folder / "holes.npz") as held:
        assert np.mean(loaded.model.predict(held["X"]) == Y) > 0.8


def test_missing_entries_in_a_comparison_and_among_other_steps(folder, tmp_path):
    command = ("compare", "holes.npz", "--methods", "STM", "--repeats", 1, "--folds", 2, "--jobs", 1)
    compared = run(*command, "--missing", "mean", "--scale", "entry", "--mask", "mask.npy", cwd=folder)
    assert compared.returncode == 0, compared.stderr
    assert run(*command, "--missing", "mask", cwd=folder).returncode == 0
    assert "--missing mask makes two views" in run(*command, "--missing", "mask", "--kernels", cwd=folder).stderr
    assert "--by-group scales all samples" in run(*command, "--missing", "mean", "--by-group", cwd=folder).stderr
    with fewer_models(lams=(1,)):
        command = ("fit", "holes.npz", "-o", tmp_path / "m.skops", *QUICK, "--scale", "entry", "--crop", "mask.npy")
        assert run(*command, "--missing", "mask", cwd=folder).returncode == 0
    shapes = Recipe(missing=Impute(mask=True), crop="varying", scale="entry").checked_shape(
        volumes(), Metadata(None, None), SHAPE
    )
    assert shapes == {"samples": SHAPE, "missing": SHAPE}


def test_the_message_says_how_many_and_where(tmp_path):
    X = np.zeros((4, 3, 5))
    X[2, 1, 4] = X[3, 0, 0] = X[3, 1, 0] = np.nan
    names = {"mode_names": ["channel", "time[ms]"], "mode_values_channel": ["Fz", "Cz", "Pz"]}
    np.savez(tmp_path / "a.npz", X=X, y=[0, 1, 0, 1], **names, mode_values_time=np.arange(5) * 4.0)
    said = r"NaN in 3 of its 60 entries, in 2 of 4 samples; the first is at sample 3, channel Cz, time 16 ms.*--missing"
    with pytest.raises(BadFileError, match=said):
        load_samples(tmp_path / "a.npz")
    loaded = load_samples(tmp_path / "a.npz", missing="entries")
    np.testing.assert_array_equal(loaded.data, X)
    lazy = load_samples(tmp_path / "a.npz", lazy=True, chunks=1)
    with pytest.raises(BadFileError, match=r"the first is at sample [34], index \d of mode 1"):
        lazy.data.compute()
    np.testing.assert_array_equal(load_samples(tmp_path / "a.npz", lazy=True, missing="entries").data.compute(), X)
    np.savez(tmp_path / "a.npz", X=np.where(X == 0, X, np.inf), y=[0, 1, 0, 1])
    for missing in (False, "entries"):
        with pytest.raises(BadFileError, match=r"infinity in 3 of its 60 entries.*Replace infinity"):
            load_samples(tmp_path / "a.npz", missing=missing)


def test_what_cannot_be_combined_with_missing_entries(folder, tmp_path):
    command = ("fit", "holes.npz", "-o", tmp_path / "m.skops", "--missing")
    for options, said in (
        (("mask", "--by-group"), "leave one out"),
        (("mask", "--auto", "--kind", "series"), "leave out --kind"),
        (("mean", "--view", "b=plain.npz"), "--missing is for one file of samples"),
        (("median",), "is not one of"),
    ):
        refused = run(*command, *options, cwd=folder)
        assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr


# ---- errors in the words of options ----

WRONG = [
    ("plain.npz", "--scale", "mode 4", "K in mode K must be from 1 to 3, the number of modes; got mode 4"),
    ("plain.npz", "--scale", "mode 0", 'scale (--scale) must be "none"'),
    ("plain.npz", "--scale", "every", 'scale (--scale) must be "none"'),
    ("plain.npz", "--resize", "3x3x3x3", "5 x 6 x 4: the sizes must give new sizes of at least 1"),
    ("plain.npz", "--resize", "3x0", "got 3x0"),
    ("plain.npz", "--resize", "3xa", "whole numbers"),
    ("plain.npz", "--tensorize", "7x7", "got 7x7"),
    ("plain.npz", "--tensorize", "-1x-1", "got -1x-1"),
    ("plain.npz", "--length", "resample 8 mode 7", "K in mode K must be from 1 to 3, the number of modes; got mode 7"),
    ("plain.npz", "--length", "stretch", "length (--length) must be"),
    ("constant.npz", "--mask", "varying", "it leaves no entry: all samples are the same (24 samples of 30 entries)"),
    ("constant.npz", "--mask", "bright", "it leaves no entry: all entries have the same mean"),
    ("constant.npz", "--crop", "varying", "it leaves no entry"),
    ("constant.npz", "--crop", "bright", "it leaves no entry"),
    ("plain.npz", "--by-group", None, "name them with groups (--groups)"),
]


@pytest.mark.parametrize(("data", "option", "value", "said"), WRONG)
@pytest.mark.parametrize("command", ["fit", "compare"])
def test_errors_name_options_not_parameters(command, data, option, value, said, folder, tmp_path):
    where = ("-o", tmp_path / "m.skops") if command == "fit" else ()
    result = run(command, data, "--jobs", 1, *where, option, *(() if value is None else (value,)), cwd=folder)
    assert result.returncode == 2, result.stderr
    message = " ".join(result.stderr.split())
    assert said in message
    assert option in message
    assert not re.search(r"\b(per|shape|mode|mask|crop|method|length|by_group|n_samples)=", message), message
    assert "counted from 0" not in message


def test_words_of_options():
    ragged = [np.ones((2, 3)), np.ones((4, 5))]
    with pytest.raises(ValueError, match=r"mode 0 \(counted from 0\)\. Give mode=0 if that") as caught:
        EqualLength().fit(ragged)
    assert "they also differ in mode 1. Add mode 1 if that" in in_options(caught.value)
    assert in_options(ValueError("nothing to change")) == "nothing to change"
