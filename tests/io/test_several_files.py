"""Tests of several files as one set of samples, in Python and on the command line."""

from __future__ import annotations

import csv
import json
import warnings

import numpy as np
import pytest
from conftest import run
from scipy.io import savemat

from tensormargin import LeakageWarning
from tensormargin.io import BadFileError, load_samples

pytestmark = pytest.mark.usefixtures("blank_figures")

rng = np.random.default_rng(0)
Y = np.arange(8) % 2
PARTS = [rng.normal(size=(8, 4, 5)) + 3 * Y[:, None, None] for _ in range(3)]


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / f"run-{number}.npz" for number in range(3)]
    for path, part in zip(paths, PARTS, strict=True):
        np.savez(path, X=part, y=Y, age=np.arange(8.0))
    return paths


def test_samples_follow_each_other(files):
    found = load_samples(files, groups="file", confounds="age")
    np.testing.assert_array_equal(found.data, np.concatenate(PARTS))
    np.testing.assert_array_equal(found.target, np.tile(Y, 3))
    np.testing.assert_array_equal(found.groups, np.repeat([str(path) for path in files], 8))
    np.testing.assert_array_equal(found.files, found.groups)
    np.testing.assert_array_equal(found.confounds["age"], np.tile(np.arange(8.0), 3))
    assert found.kind == "3 files: NumPy archive"
    one = load_samples(files[:1], groups=False)
    np.testing.assert_array_equal(one.data, PARTS[0])


def test_a_folder_of_containers_is_several_files(files, tmp_path):
    found = load_samples(tmp_path, groups="file")
    np.testing.assert_array_equal(found.data, np.concatenate(PARTS))
    lazy = load_samples(tmp_path, groups="file", lazy=True)
    np.testing.assert_array_equal(lazy.data.compute(), found.data)
    (tmp_path / "class a").mkdir()
    np.save(tmp_path / "class a" / "0.npy", PARTS[0][0])
    assert load_samples(tmp_path).data.shape == (1, 4, 5)


def test_files_without_groups_are_pointed_out(files):
    with pytest.warns(LeakageWarning, match="come from 3 files.*--groups file"):
        load_samples(files)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_samples(files, groups=False)
        load_samples(files, need_labels=False)


def test_text_and_numbers_become_text(files):
    np.savez(files[1], X=PARTS[1], y=np.where(Y, "one", "zero"))
    found = load_samples(files, groups=False)
    assert set(found.target) == {"0", "1", "one", "zero"}


def test_files_that_do_not_fit(files, tmp_path):
    with pytest.raises(BadFileError, match=r"run-0.*can belong to one file only"):
        load_samples(files, sha256="0" * 64)
    with pytest.raises(BadFileError, match="--labels-from"):
        load_samples(files, labels_from=Y)
    with pytest.raises(BadFileError, match="at least one"):
        load_samples([])
    np.savez(files[2], X=PARTS[2][:, :3], y=Y)
    with pytest.raises(BadFileError, match=r"run-2\.npz: has samples of 3 x 5, but .*run-0\.npz has 4 x 5"):
        load_samples(files, groups=False)
    np.savez(files[2], X=PARTS[2])
    with pytest.raises(BadFileError, match=r"run-2\.npz: has no labels"):
        load_samples(files, groups=False, need_labels=False)


def test_channels_must_be_the_same(tmp_path):
    for number, names in enumerate((["Fz", "Cz"], ["Cz", "Fz"])):
        label, trial = np.empty((2, 1), object), np.empty((1, 3), object)
        label[:, 0] = names
        for place in range(3):
            trial[0, place] = np.ones((2, 4))
        times = np.arange(4.0)[None] / 100
        info = np.array([[1.0], [2], [1]])
        data = {"trial": trial, "label": label, "time": times, "fsample": 100.0, "trialinfo": info}
        savemat(tmp_path / f"{number}.mat", {"data": data})
    with pytest.raises(BadFileError, match=r"1\.mat: its channel Cz is in the place of Fz"):
        load_samples([tmp_path / "0.mat", tmp_path / "1.mat"], groups=False)
    same = load_samples([tmp_path / "0.mat", tmp_path / "0.mat"], groups=False)
    assert same.axes[0].values.tolist() == ["Fz", "Cz"]
    assert (same.field, same.sfreq) == ("eeg", 100)


def test_commands_take_several_files(files, tmp_path):
    model, out = tmp_path / "model.skops", tmp_path / "p.csv"
    common = ("--groups", "file", "--outer-folds", "3", "--folds", "2", "--no-report", "--json")
    done = run("fit", *files, "-o", model, "--decomposition", "full", *common)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["evaluation"]["accuracy"] > 0.9
    done = run("predict", model, files[0], files[2], "-o", out)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["file"] for row in rows] == [str(files[0])] * 8 + [str(files[2])] * 8
    assert [row["sample"] for row in rows] == [str(number) for number in range(8)] * 2
    alone = tmp_path / "alone.csv"
    assert run("predict", model, files[2], "-o", alone).returncode == 0
    last = list(csv.DictReader(alone.read_text().splitlines()))
    assert [row["predicted"] for row in last] == [row["predicted"] for row in rows[8:]]
    assert "file" not in last[0]
    (tmp_path / "new").mkdir()
    for path in files:
        path.rename(tmp_path / "new" / path.name)
    assert run("predict", model, tmp_path / "new", "-o", out).returncode == 0
    assert len(out.read_text().splitlines()) == 25
    missing = run("predict", model, tmp_path / "new", tmp_path / "gone.npz", "-o", out)
    assert missing.returncode == 2
    assert "gone.npz" in missing.stderr


def test_commands_cut_around_events(tmp_path):
    series = rng.normal(size=(3, 1000))
    at = 20 + 40 * np.arange(24)
    for number, one in enumerate(at):
        series[:, one : one + 10] += 3 * (number % 2)
    np.save(tmp_path / "a.npy", series)
    rows = [f"{one / 50}\t0.2\t{'ab'[number % 2]}" for number, one in enumerate(at)]
    (tmp_path / "events.tsv").write_text("\n".join(["onset\tduration\ttrial_type", *rows]))
    model = tmp_path / "m.skops"
    options = ("--events", tmp_path / "events.tsv", "--sfreq", "50", "--detrend", "1")
    done = run(
        "fit",
        tmp_path / "a.npy",
        *options,
        "-o",
        model,
        "--decomposition",
        "tucker",
        "--outer-folds",
        "0",
        "--folds",
        "2",
        "--no-report",
    )
    assert done.returncode == 0, done.stderr
    assert "24 samples of 3 x 10, 2 classes" in done.stderr
    done = run("predict", model, tmp_path / "a.npy", *options, "-o", tmp_path / "p.csv")
    assert "Accuracy" in done.stdout, done.stderr
    done = run("fit", tmp_path / "a.npy", *options[:2], "-o", model)
    assert done.returncode == 2
    assert "--sfreq" in done.stderr
    done = run("fit", tmp_path / "a.npy", "--labels-from", tmp_path / "p.csv", "--tmin", "1", "-o", model)
    assert done.returncode == 2
    assert "--events" in done.stderr
