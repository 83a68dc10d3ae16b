"""Tests of `predict` on samples that are read, checked, predicted and written some at a time."""

from __future__ import annotations

import csv
import json
from functools import partial

import h5py
import nibabel
import numpy as np
import pytest
import zarr
from conftest import run
from sklearn.pipeline import make_pipeline

from tensormargin import Deconfound, TensorMarginClassifier, TensorScaler, Views
from tensormargin.data import Metadata
from tensormargin.inspection import fit_model
from tensormargin.io import SampleSet, save_model, training_record
from tensormargin.runtime import tuning

N_SAMPLES, SHAPE, AFFINE = 23, (3, 4, 2), np.diag([2.0, 2.0, 2.0, 1.0])
NOTE = "Note: the affine is that of 0/s00.nii.gz; other files are reoriented to match it when they are read\n"
Y = np.arange(N_SAMPLES) % 2
GROUPS = np.repeat(list("cabd"), (9, 1, 7, 6))
SITES = np.array(["x", "y", "x"] * 7 + ["z", "z"])


def samples(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_SAMPLES, *SHAPE)).astype(np.float32)
    return X + Y[:, None, None, None] * np.outer([1, -1, 1], [1, 1, -1, 0])[:, :, None].astype(np.float32)


NEW = np.concatenate([samples(0)[:4], samples(1)[4:]])  # four are those of the fit
NEW[20] = 7.0


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save(tmp_path_factory.mktemp("model") / "m.skops", TensorMarginClassifier("cp", 1, probability=True))


@pytest.fixture
def small_parts(monkeypatch):
    """Let files be read in blocks of at most 8 samples, and samples be predicted 3 at a time."""
    monkeypatch.setattr(tuning, "BLOCK_BYTES", 8 * NEW[0].nbytes)
    monkeypatch.setattr(tuning, "BLOCK_SAMPLES", 3)


def save(path, model, X=None, groups=None, confounds=None):
    X = samples() if X is None else X
    study = SampleSet(X, Y, groups, None, AFFINE, "", "", (), confounds=confounds)
    fit_model(model, X, Y, Metadata(study.groups, study.confounds))
    about = {"affine": AFFINE.tolist()}
    save_model(path, model, about, samples=study, training=training_record(model, study))
    return path


def save_hdf5(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=NEW, chunks=(5, *SHAPE), compression="gzip")
        file["y"], file["groups"] = Y, GROUPS.astype("S1")


def save_zarr(path):
    group = zarr.open_group(str(path), mode="w")
    group.create_array("X", data=NEW, chunks=(4, *SHAPE))
    group.create_array("y", data=Y)


def save_volumes(path, values=NEW, affine=AFFINE):
    nibabel.save(nibabel.Nifti1Image(np.moveaxis(values, 0, -1), affine), path)


def save_files(folder, save_one, ending):
    for number, sample in enumerate(NEW):
        (folder / f"{Y[number]}").mkdir(parents=True, exist_ok=True)
        save_one(folder / f"{Y[number]}" / f"s{number:02}.{ending}", sample)


SOURCES = {
    "a.npy": lambda path: np.save(path, NEW),
    "fortran.npy": lambda path: np.save(path, np.asfortranarray(NEW)),
    "a.npz": lambda path: np.savez(path, X=NEW, y=Y, groups=GROUPS),
    "packed.npz": lambda path: np.savez_compressed(path, X=NEW, y=Y),
    "a.h5": save_hdf5,
    "a.zarr": save_zarr,
    "a.nii": save_volumes,
    "turned.nii": partial(save_volumes, values=NEW[:, ::-1], affine=np.diag([-2.0, 2.0, 2.0, 1.0])),
    "a.nii.gz": save_volumes,
    "arrays": partial(save_files, save_one=np.save, ending="npy"),
    "volumes": partial(
        save_files, save_one=lambda path, one: nibabel.save(nibabel.Nifti1Image(one, np.eye(4)), path), ending="nii.gz"
    ),
}


def both_ways(request, *arguments, cwd):
    """Return what predict writes and prints in small parts, and check that it is the same for all at once."""
    whole = run("predict", *arguments, "-o", "whole.csv", "--json", cwd=cwd)
    assert whole.returncode == 0, whole.stderr
    request.getfixturevalue("small_parts")
    parts = run("predict", *arguments, "-o", "parts.csv", "--json", cwd=cwd)
    assert parts.returncode == 0, parts.stderr
    assert parts.stderr.replace(NOTE, "") == whole.stderr
    facts, expected = json.loads(parts.stdout), json.loads(whole.stdout)
    assert facts | {"out": ""} == expected | {"out": ""}
    assert (cwd / "parts.csv").read_bytes() == (cwd / "whole.csv").read_bytes()
    with (cwd / "parts.csv").open(newline="") as file:
        return facts, list(csv.DictReader(file))


class TestPartsAreWhatTheWholeIs:
    """Order, names, labels, scores, copies and unlike samples, whatever the file."""

    @pytest.mark.parametrize("name", SOURCES)
    def test_one_source(self, name, model, tmp_path, request):
        SOURCES[name](tmp_path / name)
        facts, rows = both_ways(request, model, name, cwd=tmp_path)
        assert [facts[one] for one in ("n_samples", "n_used_in_fit", "n_unlike_training")] == [23, 4, 1]
        assert sum(facts["predicted"].values()) == len({row["sample"] for row in rows}) == 23
        if "label" in rows[0]:
            right = [row["label"] == row["predicted"] for row in rows]
            assert facts["accuracy"] == np.mean(right)

    def test_an_axis_behind_the_first(self, model, tmp_path, request):
        np.save(tmp_path / "a.npy", np.moveaxis(NEW, 0, 2))
        facts, _ = both_ways(request, model, "a.npy", "--axis", 2, cwd=tmp_path)
        assert facts["n_used_in_fit"] == 4

    def test_several_files_are_numbered_each(self, model, tmp_path, request):
        for number, rows in enumerate((slice(0, 10), slice(10, 11), slice(11, 23))):
            np.savez(tmp_path / f"{number}.npz", X=NEW[rows], y=Y[rows])
        facts, rows = both_ways(request, model, "0.npz", "1.npz", "2.npz", cwd=tmp_path)
        assert [(row["file"], row["sample"]) for row in rows][9:12] == [("0.npz", "9"), ("1.npz", "0"), ("2.npz", "0")]
        assert facts["n_used_in_fit"] == 4

    def test_views(self, tmp_path, request):
        rng = np.random.default_rng(3)
        ages = rng.normal(40, 9, N_SAMPLES)
        X = Views({"eeg": samples(), "covariates": ages[:, None]})
        save(tmp_path / "m.skops", TensorMarginClassifier("cp", 1), X)
        np.savez(tmp_path / "a.npz", X=NEW, id=np.arange(N_SAMPLES))
        order = rng.permutation(N_SAMPLES)[2:]
        lines = ["id,age", *(f"{number},{float(ages[number])!r}" for number in order)]
        (tmp_path / "age.csv").write_text("\n".join(lines))
        facts, _ = both_ways(request, "m.skops", "a.npz", "--covariates", "age.csv", cwd=tmp_path)
        assert 0 < facts["n_used_in_fit"] <= 4

    @pytest.mark.parametrize("order", ["together", "mixed"])
    def test_groups_are_not_divided_where_samples_depend_on_theirs(self, order, tmp_path, request):
        groups = GROUPS if order == "together" else np.random.default_rng(0).permutation(GROUPS)
        model = make_pipeline(TensorScaler(by_group=True), TensorMarginClassifier("cp", 1))
        save(tmp_path / "m.skops", model, groups=groups)
        np.savez(tmp_path / "a.npz", X=NEW, y=Y, groups=groups)
        both_ways(request, "m.skops", "a.npz", cwd=tmp_path)

    def test_unseen_categories_are_named_once(self, tmp_path, request):
        model = make_pipeline(Deconfound(), TensorMarginClassifier("cp", 1))
        save(tmp_path / "m.skops", model, confounds={"site": np.array(["x", "y"])[Y]})
        np.savez(tmp_path / "a.npz", X=NEW, y=Y, site=SITES)
        both_ways(request, "m.skops", "a.npz", cwd=tmp_path)
        told = run("predict", "m.skops", "a.npz", "-o", "p.csv", cwd=tmp_path).stderr
        assert told.count("did not have: z (2 of 23 samples)") == told.count("did not have") == 1

    def test_classes_that_the_model_does_not_know(self, model, tmp_path, request):
        labels = np.where(np.arange(N_SAMPLES) % 5 == 4, "other", Y.astype(str))
        labels[-1] = "another"
        np.savez(tmp_path / "a.npz", X=NEW, y=labels)
        facts, rows = both_ways(request, model, "a.npz", cwd=tmp_path)
        assert facts["unknown_labels"] == ["another", "other"]
        known = [row for row in rows if row["label"] in "01"]
        assert (facts["n_known"], facts["n_unknown"]) == (len(known), N_SAMPLES - len(known))
        assert facts["accuracy"] == np.mean([row["label"] == row["predicted"] for row in known])
        new = [row for row in known if row["used in fit"] == "no"]
        assert (facts["n_new"], facts["accuracy_on_new"]) == (
            len(new),
            np.mean([row["label"] == row["predicted"] for row in new]),
        )
        for label in "01":
            of_class = [row["predicted"] for row in known if row["label"] == label]
            assert facts["by_class"][label]["n"] == len(of_class)
            assert facts["by_class"][label]["accuracy"] == np.mean(np.array(of_class) == label)

    def test_names_with_commas_quotes_and_line_breaks(self, tmp_path, request, model):
        save_files(tmp_path / "a", np.save, "npy")
        for number, name in enumerate(["a,b", 'a"b', "a\nb", "a\rb", "=a"]):
            np.save(tmp_path / "a" / "1" / f"{name}.npy", NEW[number])
        _, rows = both_ways(request, model, "a", cwd=tmp_path)
        found = {row["sample"] for row in rows}
        assert {"1/a,b.npy", '1/a"b.npy', "1/a\nb.npy", "1/a\rb.npy", "1/=a.npy"} < found

    def test_files_of_different_types(self, model, tmp_path, request):
        save_files(tmp_path / "a", lambda path, one: np.save(path, np.rint(10 * one).astype("i1")), "npy")
        np.save(tmp_path / "a" / "1" / "s09.npy", 0.5 * NEW[0])
        np.save(tmp_path / "a" / "1" / "s21.npy", np.full(SHAPE, 300, "i2"))
        arguments = (model, "a", "--any-scale")
        whole = run("predict", *arguments, "-o", "whole.csv", cwd=tmp_path)
        assert "the files hold numbers of different types" in whole.stderr
        request.getfixturevalue("small_parts")
        assert run("predict", *arguments, "-o", "parts.csv", cwd=tmp_path).returncode == 0
        assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()

    def test_two_models_are_compared_alike(self, model, tmp_path, small_parts, monkeypatch):
        other = save(tmp_path / "other.skops", TensorMarginClassifier("cp", 2))
        np.savez(tmp_path / "a.npz", X=NEW, y=Y)
        parts = run("compare", model, other, tmp_path / "a.npz", "--json")
        assert parts.returncode == 0, parts.stderr
        monkeypatch.undo()
        assert run("compare", model, other, tmp_path / "a.npz", "--json").stdout == parts.stdout


class TestWhatGoesWrong:
    """Nothing is written if a later part cannot be used, and messages are those of all samples."""

    @pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.nii"])
    def test_missing_entries(self, name, model, tmp_path, small_parts, monkeypatch):
        X = NEW.copy()
        X[[13, 13, 19], 0, [1, 2, 3], 1] = np.nan
        monkeypatch.setitem(globals(), "NEW", X)
        {**SOURCES, "a.nii": partial(save_volumes, values=X)}[name](tmp_path / name)
        (tmp_path / "p.csv").write_text("sample,predicted\n")
        told = run("predict", model, tmp_path / name, "-o", tmp_path / "p.csv")
        assert told.returncode == 2
        assert (
            f"NaN in 3 of its {X.size} entries, in 2 of {N_SAMPLES} samples; the first is at sample 14" in told.stderr
        )
        assert (tmp_path / "p.csv").read_text() == "sample,predicted\n"
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "p.csv"])

    def test_another_scale(self, model, tmp_path, small_parts):
        np.save(tmp_path / "a.npy", 1e3 * NEW)
        told = run("predict", model, tmp_path / "a.npy", "-o", tmp_path / "p.csv")
        assert told.returncode == 2
        assert "samples must have the scale of the training samples" in told.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]
        told = run("predict", model, tmp_path / "a.npy", "-o", tmp_path / "p.csv", "--any-scale")
        assert told.returncode == 0, told.stderr

    def test_another_scale_for_a_model_without(self, tmp_path, request):
        """The second pass replaces all of the first, whose comparison is on another scale."""
        model = make_pipeline(TensorScaler(by_group=True), TensorMarginClassifier("cp", 1))
        save(tmp_path / "m.skops", model, groups=GROUPS)
        X = np.delete(NEW, 20, axis=0)
        np.savez(tmp_path / "same.npz", X=X, groups=np.delete(GROUPS, 20))
        np.savez(tmp_path / "other.npz", X=1024 * X, groups=np.delete(GROUPS, 20))
        facts, rows = both_ways(request, "m.skops", "other.npz", cwd=tmp_path)
        same = run("predict", "m.skops", "same.npz", "-o", "same.csv", "--json", cwd=tmp_path)
        assert json.loads(same.stdout)["n_unlike_training"] == facts["n_unlike_training"] < 5
        assert len(rows) == len(X)

    def test_a_sample_without_any_view(self, tmp_path, small_parts):
        X = {"eeg": samples(), "meg": samples(2)}
        save(tmp_path / "m.skops", TensorMarginClassifier("cp", 1), Views(X))
        X = {name: own.copy() for name, own in X.items()}
        for own in X.values():
            own[17] = np.nan
        np.savez(tmp_path / "a.npz", **X)
        told = run("predict", "m.skops", "a.npz", "-o", "p.csv", cwd=tmp_path)
        assert "sample 2 is NaN in all" in told.stderr
        assert "are counted from sample 15" in told.stderr

    def test_ctrl_c_leaves_what_was_there(self, model, tmp_path, small_parts, monkeypatch):
        def interrupt(self, done, total, text):
            if done > 10:
                raise KeyboardInterrupt

        monkeypatch.setattr("tensormargin.cli._running.Display.__call__", interrupt)
        np.save(tmp_path / "a.npy", NEW)
        (tmp_path / "p.csv").write_text("sample,predicted\n")
        told = run("predict", model, tmp_path / "a.npy", "-o", tmp_path / "p.csv")
        assert told.returncode == 130
        assert (tmp_path / "p.csv").read_text() == "sample,predicted\n"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npy", "p.csv"]
