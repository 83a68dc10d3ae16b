"""End-to-end tests of the commands."""

from __future__ import annotations

import csv
import json
import os
import pickle
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import nibabel
import numpy as np
import pytest
from conftest import WHOLE_CAMPAIGN, fewer_models, low_rank_classes, run, run_process
from PIL import Image
from scipy.io import savemat

from tensormargin.io import load_model

pytestmark = pytest.mark.usefixtures("blank_figures")

QUICK = ("--decomposition", "cp", "--rank", "1", "--folds", "2", "--outer-folds", "2", "--jobs", "1")
ALONE = (*QUICK, "--outer-folds", "0", "--no-report")


@pytest.fixture(autouse=True, scope="module")
def _few_models():
    """Try two models instead of eight without --auto, to save time."""
    with fewer_models("TensorMarginClassifierCV"):
        yield


def succeeded(*arguments, **kwargs):
    result = run(*arguments, **kwargs)
    assert result.returncode == 0, result.stderr
    return result.stdout


def samples(shape=(6, 5, 4), n=24, distance=14.0):
    """Return classes a and b of integers from 0 to 255, which every format stores exactly."""
    X, t = low_rank_classes(0, n, shape, distance)
    X = np.clip(np.round(128 + 12 * X), 0, 255).astype(np.uint8)
    return X, np.where(t > 0, "b", "a"), np.arange(n) * 4 // n


# ------------------------------------------------------------------------------------------------------- every format


def write_npz(folder):
    X, y, groups = samples()
    np.savez(folder / "all.npz", X=X, y=y, groups=groups)
    return folder / "all.npz", ()


def write_npy(folder):
    X, y, _ = samples()
    np.save(folder / "samples.npy", X)
    (folder / "labels.txt").write_text("\n".join(y))
    return folder / "samples.npy", ("--labels-from", folder / "labels.txt")


def write_mat5(folder):
    X, y, _ = samples()
    savemat(folder / "five.mat", {"volumes": np.moveaxis(X, 0, -1), "kind": (y == "b").astype(float)})
    return folder / "five.mat", ("--samples", "volumes", "--labels", "kind", "--axis", "-1")


def write_mat73(folder):
    import h5py

    X, y, _ = samples()
    with h5py.File(folder / "seven.mat", "w", userblock_size=512) as file:
        file["X"] = np.transpose(X)  # MATLAB reverses the axis order of HDF5
        file["y"] = (y == "b").astype(float)[None]
    with (folder / "seven.mat").open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file")
    return folder / "seven.mat", ()


def write_hdf5(folder):
    import h5py

    X, y, groups = samples()
    with h5py.File(folder / "all.h5", "w") as file:
        file["study/X"], file["study/y"], file["study/run"] = X, y.astype("S"), groups
    return folder / "all.h5", ("--samples", "study/X", "--labels", "study/y", "--groups", "study/run")


def write_zarr(folder):
    import zarr

    X, y, _ = samples()
    group = zarr.open_group(folder / "all.zarr", mode="w")
    group.create_array("X", data=X)
    group.create_array("y", data=(y == "b").astype(int))
    return folder / "all.zarr", ()


def write_images(folder):
    X, y, _ = samples((6, 5))
    for number, (image, label) in enumerate(zip(X, y, strict=True)):
        (folder / "faces" / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / "faces" / label / f"{number:02d}.{('png', 'tif')[number % 2]}")
    return folder / "faces", ()


def write_volumes(folder):
    X, y, _ = samples()
    for number, (volume, label) in enumerate(zip(X, y, strict=True)):
        (folder / "brains" / label).mkdir(parents=True, exist_ok=True)
        image = nibabel.Nifti1Image(volume.astype(np.float32), np.diag([2.0, 2.0, 3.0, 1.0]))
        nibabel.save(image, folder / "brains" / label / f"{number:02d}.nii.gz")
    return folder / "brains", ()


def write_table(folder):
    X, y, groups = samples()
    lines = ["path\tlabel\tgroup"]
    for number, volume in enumerate(X):
        np.save(folder / f"{number}.npy", volume)
        lines.append(f"{number}.npy\t{y[number]}\tsubject {groups[number]}")
    (folder / "study.tsv").write_text("\n".join(lines))
    return folder / "study.tsv", ()


def write_nifti(folder):
    X, y, groups = samples()
    image = nibabel.Nifti1Image(np.moveaxis(X, 0, -1).astype(np.float32), np.diag([2.0, 2.0, 3.0, 1.0]))
    nibabel.save(image, folder / "scans.nii.gz")
    rows = [f"{label},{group}" for label, group in zip(y, groups, strict=True)]
    (folder / "runs.csv").write_text("\n".join(["label,run", *rows]))
    return folder / "scans.nii.gz", ("--labels-from", folder / "runs.csv", "--groups", "run")


WRITERS = (
    write_npz,
    write_npy,
    write_mat5,
    write_mat73,
    write_hdf5,
    write_zarr,
    write_images,
    write_volumes,
    write_table,
    write_nifti,
)


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__.removeprefix("write_"))
def test_every_format_goes_from_file_to_predictions(write, tmp_path):
    path, options = write(tmp_path)
    succeeded("fit", path, *options, "-o", tmp_path / "model.skops", *ALONE)
    out = succeeded("predict", tmp_path / "model.skops", path, *options, "-o", tmp_path / "out" / "said.csv")
    assert "24 predictions" in out
    assert "Accuracy against the labels" in out
    with (tmp_path / "out" / "said.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 24
    first, second = (name for name in rows[0] if name.startswith("probability of "))
    for row in rows:
        assert row["predicted"] == row["label"]  # training samples, 14 standard deviations apart
        assert float(row[first]) + float(row[second]) == pytest.approx(1.0, abs=1e-5)
        assert (float(row[second]) > 0.5) == (second == f"probability of {row['predicted']}")


# ----------------------------------------------------------------------------------------------------- whole workflow


@pytest.fixture(scope="module")
def brain_model(tmp_path_factory):
    """Fit a model to volumes with groups; return its folder, with report and maps, and the command's output."""
    folder = tmp_path_factory.mktemp("brain")
    path, options = write_nifti(folder)
    maps = ("--weight-map", folder / "weight.nii.gz", "--pattern-map", folder / "pattern.npy")
    more = ("--by-group", "--outer-folds", 5, "--seed", 3)
    out = succeeded("fit", path, *options, "-o", folder / "brain.skops", *QUICK, *maps, *more)
    return folder, path, options, out


def test_fit_writes_model_page_and_maps(brain_model):
    folder, _, _, out = brain_model
    assert "Accuracy on held-out samples: 100.0 %" in out
    assert "LinearSVC" in out
    for name in ("brain.skops", "brain.html", "weight.nii.gz", "pattern.npy"):
        assert name in out
        assert (folder / name).stat().st_size > 0
    image = nibabel.load(folder / "weight.nii.gz")
    np.testing.assert_array_equal(image.affine, np.diag([2.0, 2.0, 3.0, 1.0]))
    np.testing.assert_allclose(image.get_fdata(), load_model(folder / "brain.skops").model[-1].classifier_.coef_[0])
    assert np.load(folder / "pattern.npy").shape == (6, 5, 4)
    assert not [name for name in os.listdir(folder) if name.endswith(".part")]


def test_a_model_that_scales_by_group_asks_for_groups(brain_model, tmp_path):
    folder = brain_model[0]
    np.savez(tmp_path / "new.npz", X=np.zeros((3, 6, 5, 4)))
    result = run("predict", folder / "brain.skops", tmp_path / "new.npz", "-o", tmp_path / "said.csv")
    assert result.returncode == 2
    assert "needs the groups" in result.stderr
    assert not (tmp_path / "said.csv").exists()


def test_inspect_says_what_is_in_a_model(brain_model, tmp_path):
    folder = brain_model[0]
    out = succeeded("inspect", folder / "brain.skops", "--weight-map", tmp_path / "again.nii.gz")
    for words in (
        "samples of 6 x 5 x 4",
        "classes: a, b",
        "CP weight of rank 1",
        "within each group",
        "seed 3",
        "NumPy",
    ):
        assert words in out
    first, second = (nibabel.load(one) for one in (folder / "weight.nii.gz", tmp_path / "again.nii.gz"))
    np.testing.assert_array_equal(first.get_fdata(), second.get_fdata())
    np.testing.assert_array_equal(first.affine, second.affine)
    facts = json.loads(succeeded("inspect", folder / "brain.skops", "--json"))
    assert facts["classes"] == ["a", "b"]
    assert facts["about"]["evaluation"]["scheme"] == "4 folds that keep groups together"
    assert facts["about"]["data"]["n_groups"] == 4


def test_report_with_and_without_samples(brain_model, tmp_path):
    folder, path, options, _ = brain_model
    succeeded("report", folder / "brain.skops", "-o", tmp_path / "alone.html")
    succeeded("report", folder / "brain.skops", path, *options, "-o", tmp_path / "full.html")
    alone, full = ((tmp_path / name).read_text() for name in ("alone.html", "full.html"))
    assert "<h2>Margins</h2>" in full
    assert "<h2>Margins</h2>" not in alone
    assert "activation pattern" in full
    for text in (alone, full):
        for heading in (
            "Data",
            "Comparison",
            "Chosen model",
            "Convergence",
            "Pattern and weight",
            "Factors",
            "Methods",
        ):
            assert f"<h2>{heading}</h2>" in text


def test_fit_prints_json(tmp_path):
    path, _ = write_npz(tmp_path)
    out = succeeded("fit", path, "-o", tmp_path / "m.skops", *QUICK, "--json", "--no-report", "--permutations", "3")
    content = json.loads(out)
    assert content["evaluation"]["accuracy"] == 1.0
    assert content["search"]["best"]["decomposition"] == "cp"
    assert content["chance"]["n_permutations"] == 3
    assert content["chance"]["score"] == content["evaluation"]["score"]["value"]  # the tested score is the printed one
    assert content["written"] == [str(tmp_path / "m.skops")]
    assert not (tmp_path / "m.html").exists()


def test_compare_writes_a_page_and_report_makes_it_again(tmp_path):
    path, _ = write_npz(tmp_path)
    options = ("--methods", "SVM,LinearSVC,CP-PLSR", "--repeats", "2", "--jobs", "1", "--scale", "entry", "--json")
    out = succeeded("compare", path, *options, "--report", tmp_path / "page.html")
    (tmp_path / "result.json").write_text(out)
    succeeded("report", tmp_path / "result.json", "-o", tmp_path / "again.html")
    page, again = ((tmp_path / name).read_text() for name in ("page.html", "again.html"))
    assert ("<h2>Winner: SVM</h2>" in page, "<h2>Winner" in again) == (True, False)  # JSON has no model
    first = [text[: text.index('<section id="what-this')].split("<nav")[0] for text in (page, again)]
    assert first[0] == first[1]
    for heading in ("Pattern and weight", "Factors", "Margins", "Confusion matrix", "Predictions"):
        assert f"<h2>{heading}</h2>" in page
    content = json.loads(out)
    assert [row["method"] for row in content["summary"]] == ["SVM", "LinearSVC", "CP-PLSR", "majority class"]
    assert content["summary"][1]["margin_mean"] is None
    assert "every entry was centred" in content["preparation"][0]


@pytest.mark.parametrize(
    ("n_classes", "folds"),
    [
        pytest.param(2, ("--folds", "2", "--outer-folds", "0"), id="chosen"),
        pytest.param(4, ("--folds", "3", "--outer-folds", "2"), id="evaluated", marks=WHOLE_CAMPAIGN),
    ],
)
def test_auto_chooses_and_predicts_on_real_data(data_folder, tmp_path, n_classes, folds):
    """Fit to the published training set of BasicMotions and predict its test set; a campaign tries all strengths."""
    stored = np.load(data_folder / "basic_motions" / "basic_motions_6x100.npz")
    for part in ("train", "test"):
        kept = np.isin(stored[f"y_{part}"], np.unique(stored["y_train"])[-n_classes:])
        np.savez(tmp_path / f"{part}.npz", X=stored[f"X_{part}"][kept], y=stored[f"y_{part}"][kept])
    fit = ("fit", tmp_path / "train.npz", "-o", tmp_path / "m.skops", "--auto", "--jobs", "1", *folds)
    with fewer_models("auto_model") if n_classes == 2 else nullcontext():
        views = "covariances, power, convolutions, competing_convolutions"
        assert f": one full weight per view ({views})" in succeeded(*fit)
    out = json.loads(
        succeeded("predict", tmp_path / "m.skops", tmp_path / "test.npz", "-o", tmp_path / "p.csv", "--json")
    )
    assert out["n_samples"] == 10 * n_classes
    assert out["accuracy"] >= 0.8
    assert (tmp_path / "m.html").read_text().count(" against ") >= (1 if n_classes == 2 else n_classes)


def test_raw_fmri_is_scaled_by_run_and_validated_by_run(data_folder, tmp_path):
    stored = np.load(data_folder / "haxby_slice" / "haxby2001_sub001_slice_40x20.npz")
    kept = np.isin(stored["y"], ["face", "house"])
    np.savez(tmp_path / "raw.npz", X=stored["X"][kept], y=stored["y"][kept], run=stored["run"][kept])
    options = (
        "--groups",
        "run",
        "--by-group",
        *QUICK,
        "--outer-folds",
        "4",
        "--crop",
        "varying",
        "--no-report",
        "--json",
    )
    content = json.loads(succeeded("fit", tmp_path / "raw.npz", "-o", tmp_path / "m.skops", *options))
    assert content["evaluation"]["scheme"] == "4 folds that keep groups together"
    assert content["evaluation"]["accuracy"] >= 0.9
    assert content["data"]["n_groups"] == 12


def test_eeg_from_the_catalogue_to_a_page(data_folder, tmp_path):
    succeeded("data", "fetch", "eeg", "-o", tmp_path / "eeg.npz")
    out = succeeded(
        "fit", tmp_path / "eeg.npz", "-o", tmp_path / "eeg.skops", *QUICK, "--weight-map", tmp_path / "w.png"
    )
    assert "the majority class: 63.9 %" in out
    with Image.open(tmp_path / "w.png") as image:
        assert image.size[0] > 300
    assert "<h2>Pattern and weight</h2>" in (tmp_path / "eeg.html").read_text()


# ------------------------------------------------------------------------------------------------------------ bad files


class Trap:
    """Unpickling this would write a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def bad_truncated(folder):
    path, options = write_npz(folder)
    path.write_bytes(path.read_bytes()[:-100])
    return path, options, "all.npz: not an .npz file, or cut short"


def bad_truncated_nifti(folder):
    path, options = write_nifti(folder)
    path.write_bytes(path.read_bytes()[:-60])
    return path, options, "scans.nii.gz"


def bad_key(folder):
    path, _ = write_npz(folder)
    return path, ("--labels", "kind"), "has no 'kind'; it holds"


def bad_shapes(folder):
    path, _ = write_images(folder)
    Image.fromarray(np.zeros((9, 9), np.uint8)).save(path / "a" / "zz.png")
    return path, (), "zz.png"


def bad_nan(folder):
    X, y, _ = samples()
    X = X.astype(float)
    X[3, 2, 1, 0] = np.nan
    np.savez(folder / "nan.npz", X=X, y=y)
    return folder / "nan.npz", (), "--missing mean"


def bad_no_labels(folder):
    np.save(folder / "samples.npy", samples()[0])
    return folder / "samples.npy", (), "--labels-from"


def bad_missing_label(folder):
    path, _ = write_table(folder)
    path.write_text(path.read_text().replace("\ta\t", "\t\t", 1))
    return path, (), "row 1"


def bad_text(folder):
    X, y, _ = samples()
    np.savez(folder / "text.npz", X=np.where(X > 200, "much", "10"), y=y)
    return folder / "text.npz", (), "must hold real numbers"


def bad_pickle(folder):
    (folder / "trap.npy").write_bytes(pickle.dumps(Trap(folder / "sprung")))
    return folder / "trap.npy", ("--labels-from", folder / "trap.npy"), "trap.npy"


def bad_missing_file(folder):
    path, _ = write_table(folder)
    (folder / "7.npy").unlink()
    return path, (), "row 8 names '7.npy'"


def bad_one_class(folder):
    X, _, _ = samples()
    np.savez(folder / "one.npz", X=X, y=np.zeros(len(X), int))
    return folder / "one.npz", (), "two classes"


def bad_rank(folder):
    path, _ = write_npz(folder)
    return path, ("--decomposition", "tucker", "--rank", "2,2,2,2,2"), "one number per mode"


def bad_folder(folder):
    (folder / "empty").mkdir()
    return folder / "empty", (), "empty"


def bad_map(folder):
    path, _ = write_npz(folder)
    return path, ("--weight-map", folder / "map.jpg"), ".nii"


BAD = (
    bad_truncated,
    bad_truncated_nifti,
    bad_key,
    bad_shapes,
    bad_nan,
    bad_no_labels,
    bad_missing_label,
    bad_text,
    bad_pickle,
    bad_missing_file,
    bad_one_class,
    bad_rank,
    bad_folder,
    bad_map,
)


@pytest.mark.parametrize("make", BAD, ids=lambda make: make.__name__.removeprefix("bad_"))
def test_what_cannot_be_used_gives_exit_code_2_one_message_and_no_file(make, tmp_path):
    given = tmp_path / "given"
    given.mkdir()
    path, options, words = make(given)
    before = sorted(given.rglob("*"))
    arguments = (*ALONE[:2], *ALONE[4:]) if make is bad_rank else ALONE
    result = run("fit", path, *arguments, *options, "-o", tmp_path / "out" / "model.skops")
    assert result.returncode == 2, result.stderr
    assert words in " ".join(result.stderr.split())
    assert result.stderr.count("Error:") == 1
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert not (tmp_path / "out").exists()
    assert sorted(given.rglob("*")) == before


def bad_model_pickle(folder):
    path = folder / "model.skops"
    path.write_bytes(pickle.dumps(Trap(folder / "sprung")))
    return path


def bad_model_text(folder):
    path = folder / "model.skops"
    path.write_text("a model")
    return path


@pytest.mark.parametrize("make", [bad_model_pickle, bad_model_text, lambda folder: folder / "absent.skops"])
@pytest.mark.parametrize("command", ["predict", "inspect", "report", "export"])
def test_files_that_are_no_models_are_refused(make, command, tmp_path):
    data, _ = write_npz(tmp_path)
    path = make(tmp_path)
    written = tmp_path / {"predict": "out.csv", "export": "out.onnx"}.get(command, "out.html")
    out = () if command == "inspect" else ("-o", written)
    result = run(command, path, *((data,) if command == "predict" else ()), *out)
    assert result.returncode == 2
    assert str(path.name) in result.stderr
    assert "Traceback" not in result.stderr
    assert not written.exists()
    assert not (tmp_path / "sprung").exists()


def test_samples_of_another_shape_are_refused(brain_model, tmp_path):
    np.savez(tmp_path / "other.npz", X=np.zeros((4, 5, 6, 4)), y=[0, 1, 0, 1], groups=[0, 0, 1, 1])
    result = run("predict", brain_model[0] / "brain.skops", tmp_path / "other.npz", "-o", tmp_path / "p.csv")
    assert result.returncode == 2
    assert "(5, 6, 4); the model was fitted to (6, 5, 4)" in " ".join(result.stderr.split())
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fit", "all.npz", "-o", "all.npz"), "would overwrite an input"),
        (("fit", "all.npz", "-o", "m.html"), "would overwrite another output"),
        (("fit", "all.npz", "-o", "all.npz/m.skops"), "cannot be written"),
        (("fit", "all.npz", "-o", "m.skops", "--report", "r.html", "--no-report"), "contradict"),
        (("fit", "all.npz", "-o", "m.skops", "--auto", "--rank", "2"), "--auto chooses"),
        (("fit", "all.npz", "-o", "m.skops", "--scale", "mode 9"), "--scale mode 9 does not suit samples of 6 x 5 x 4"),
        (("data", "fetch", "digits", "-o", "digits.csv"), "written as .npz"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_any_work(arguments, words, tmp_path):
    path, _ = write_npz(tmp_path)
    before = path.read_bytes()
    result = run(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert words in " ".join(result.stderr.split())
    assert [one.name for one in tmp_path.iterdir()] == ["all.npz"]
    assert path.read_bytes() == before


def test_labels_that_the_model_does_not_know_give_no_accuracy(brain_model, tmp_path):
    X, _, groups = samples()
    np.savez(tmp_path / "other.npz", X=X, y=["x"] * len(X), groups=groups)
    out = succeeded("predict", brain_model[0] / "brain.skops", tmp_path / "other.npz", "-o", tmp_path / "p.csv")
    assert "No accuracy: the labels x are none of the model's classes" in out


def test_classes_that_the_model_does_not_know_are_left_out_of_the_accuracy(brain_model, tmp_path):
    """83db4b5 gave no accuracy at all."""
    X, y, groups = samples()
    labels = np.array(y, object)
    labels[[0, 1, 5]] = ["oats", "alfalfa", "oats"]
    np.savez(tmp_path / "more.npz", X=X, y=labels.astype(str), groups=groups)
    predict = ("predict", brain_model[0] / "brain.skops", tmp_path / "more.npz", "-o", tmp_path / "p.csv")
    out = succeeded(*predict)
    assert "Accuracy on 21 samples of known classes: 100.00 %" in out
    assert "3 samples of classes the model does not know (alfalfa, oats) left out" in out
    facts = json.loads(succeeded(*predict, "--json"))
    assert (facts["accuracy"], facts["n_known"], facts["n_unknown"]) == (1.0, 21, 3)
    assert facts["unknown_labels"] == ["alfalfa", "oats"]


def test_a_report_says_when_the_samples_are_not_those_of_the_fit(brain_model, tmp_path):
    X, y, groups = samples()
    np.savez(tmp_path / "other.npz", X=X + 1.5, y=y, groups=groups)
    succeeded("report", brain_model[0] / "brain.skops", tmp_path / "other.npz", "-o", tmp_path / "r.html")
    assert "other.npz, which are not those that the model was fitted to" in (tmp_path / "r.html").read_text()


# -------------------------------------------------------------------------------------------------------- other options


def test_data_sets_are_listed_and_written(tmp_path):
    rows = json.loads(succeeded("data", "list", "--json"))
    assert {"digits", "eeg", "haxby", "indian-pines", "basic-motions"} <= {row["name"] for row in rows}
    assert "1797 samples of 8 x 8" in succeeded("data", "fetch", "digits", "-o", tmp_path / "digits.npz")
    assert np.load(tmp_path / "digits.npz")["X"].shape == (1797, 8, 8)
    result = run("data", "fetch", "imagenet")
    assert result.returncode == 2
    assert "unknown data set 'imagenet'" in result.stderr


COMMANDS = ("compare", "fit", "predict", "inspect", "report", "export", "data", "data list", "data fetch")


@pytest.mark.parametrize("command", [*COMMANDS, "reproduce", "results", "doctor", "completion"])
def test_every_help_shows_an_example(command):
    out = succeeded(*command.split(), "--help")
    assert f"tensormargin {command}" in out.split("Usage:")[1].split("\n", 1)[1]


@pytest.mark.parametrize("arguments", [("data", "list"), ("fit", "--rank", "x")], ids=lambda given: given[0])
def test_a_process_ends_with_the_code_and_the_words_of_these_tests(arguments, tmp_path):
    here, there = (runs(*arguments, cwd=tmp_path) for runs in (run, run_process))
    assert (here.returncode, here.stdout, here.stderr) == (there.returncode, there.stdout, there.stderr)
    assert here.returncode == (0 if arguments[0] == "data" else 2)


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom tensormargin.cli import main\n"
        "try:\n    main(['fit', '--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'numba', 'matplotlib', 'jinja2', 'rich', 'tensorly'}\n"
        "print('heavy:', sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr.strip() == "heavy: []"


def test_the_tab_key_completes():
    script = succeeded("completion", "bash")
    assert "_TENSORMARGIN_COMPLETE=bash_complete" in script
    environment = {
        **os.environ,
        "_TENSORMARGIN_COMPLETE": "bash_complete",
        "COMP_WORDS": "tensormargin fi",
        "COMP_CWORD": "1",
    }
    command = [Path(sys.executable).parent / "tensormargin"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.stdout.split() == ["plain,fit"]


# ------------------------------------------------------------------------------------------------------- ignored groups


def test_groups_can_be_left_unused(tmp_path):
    path, _ = write_npz(tmp_path)
    schemes = {}
    for option in ((), ("--no-groups",)):
        fit = ("fit", path, "-o", tmp_path / "model.skops", *QUICK, "--no-report", "--json")
        content = json.loads(succeeded(*fit, *option))
        schemes[option] = content["data"]["n_groups"], content["evaluation"]["scheme"]
    assert schemes == {(): (4, "2 folds that keep groups together"), ("--no-groups",): (None, "2 stratified folds")}


def test_groups_and_no_groups_contradict_each_other(tmp_path):
    path, _ = write_npz(tmp_path)
    result = run("compare", path, "--groups", "groups", "--no-groups")
    assert result.returncode == 2
    assert "--groups and --no-groups contradict each other" in result.stderr


def test_labels_of_a_matlab_file_that_are_called_group(tmp_path):
    X, y, _ = samples()
    savemat(tmp_path / "a.mat", {"X": X, "group": (y == "b").astype(float)})
    fit = ("fit", tmp_path / "a.mat", "--labels", "group", "-o", tmp_path / "model.skops")
    content = json.loads(succeeded(*fit, *QUICK, "--no-report", "--json"))
    assert content["data"]["n_groups"] is None  # groups that are classes cannot be kept together


# -------------------------------------------------------------------------------------------------- leakage warnings


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Return a file with an unused array ``subject`` and one duplicate sample."""
    folder = tmp_path_factory.mktemp("told")
    X, y, groups = samples()
    X[1] = X[0]
    np.savez(folder / "told.npz", X=X, y=y, subject=groups)
    return folder / "told.npz"


COPIES = "1 of 24 samples are exact copies of other samples"


@pytest.mark.parametrize(
    ("command", "options", "warned"),
    [
        ("fit", (), ("'subject' has 4 different values for 24 samples", COPIES)),
        ("compare", (), ("'subject' has 4 different values for 24 samples", COPIES)),
        ("compare", ("--no-groups",), (COPIES,)),
        ("fit", ("--groups", "subject"), ()),
    ],
)
def test_leakage_is_said_on_stderr_on_the_page_and_in_json(command, options, warned, told, tmp_path):
    quick = (*QUICK, "--outer-folds", "2", "-o", tmp_path / "model.skops")
    if command == "compare":
        quick = ("--methods", "SVM", "--repeats", "1", "--folds", "2", "--jobs", "1")
    page = tmp_path / "page.html"
    result = run(command, told, *quick, *options, "--report", page, "--json")
    assert result.returncode == 0, result.stderr
    lines = [line for line in result.stderr.splitlines() if line.startswith("Warning: ")]
    assert len(lines) == len(warned)
    assert "LeakageWarning" not in result.stderr
    facts = json.loads(result.stdout)["data"]["warnings"]
    assert lines == [f"Warning: {text}" for text in facts]
    html = page.read_text(encoding="utf-8").replace("&#39;", "'")
    assert html.count('class="warning"') == len(warned)
    for text, line in zip(warned, lines, strict=True):
        assert text in line
        assert text in html


def test_new_samples_need_no_groups(told, tmp_path):
    assert run("fit", told, "-o", tmp_path / "model.skops", *ALONE).returncode == 0
    result = run("predict", tmp_path / "model.skops", told, "-o", tmp_path / "predictions.csv")
    assert result.returncode == 0, result.stderr
    assert "Warning" not in result.stderr
    assert run("inspect", tmp_path / "model.skops").returncode == 0
