"""Tests of what commands write to: endings that say what a file is, and existing files that are not replaced."""

import gzip

import numpy as np
import pytest
from conftest import run

from tensormargin.io import is_ours, load_samples
from tensormargin.plots import save_map

pytestmark = pytest.mark.usefixtures("blank_figures")

QUICK = ("--folds", "2", "--outer-folds", "0", "--decomposition", "cp", "--rank", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with volumes, a model, and everything else that commands write about it."""
    path, rng, y = tmp_path_factory.mktemp("outputs"), np.random.default_rng(0), np.arange(16) % 2
    np.savez(path / "all.npz", X=rng.normal(size=(16, 4, 5, 6)) + 2 * y[:, None, None, None], y=y)
    for arguments in COMMANDS:
        result = run(*arguments, cwd=path)
        assert result.returncode == 0, result.stderr
    return path


COMMANDS = [
    ("fit", "all.npz", "-o", "m.skops", *QUICK, "--weight-map", "w.nii.gz", "--pattern-map", "p.npy"),
    ("predict", "m.skops", "all.npz", "-o", "p.csv"),
    ("report", "m.skops", "-o", "r.html"),
    ("inspect", "m.skops", "--weight-map", "w.png"),
    ("inspect", "m.skops", "--weight-map", "w.csv"),
    ("export", "m.skops", "-o", "m.onnx"),
    ("data", "fetch", "basic-motions", "-o", "motions.npz"),
]
WRITTEN = ("m.skops", "m.html", "w.nii.gz", "p.npy", "p.csv", "r.html", "w.png", "w.csv", "m.onnx", "motions.npz")


@pytest.mark.parametrize("arguments", COMMANDS[1:], ids=lambda one: one[0])
def test_the_same_command_replaces_its_files(folder, arguments):
    result = run(*arguments, cwd=folder)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", WRITTEN)
def test_files_are_recognised(folder, tmp_path, name):
    """Content tells, not the name: the same name with other content is not ours, an empty file may be replaced."""
    assert is_ours(folder / name)
    other = tmp_path / name
    other.write_bytes(gzip.compress(b"notes") if name.endswith(".gz") else b"a,b\n1,2\n")
    assert not is_ours(other)
    other.write_bytes(b"")
    assert name.endswith(".gz") or is_ours(other)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("x.skops", ("fit", "all.npz", "-o", "x.skops", *QUICK)),
        ("y.html", ("fit", "all.npz", "-o", "y.skops", *QUICK)),
        ("w.npy", ("fit", "all.npz", "-o", "z.skops", *QUICK, "--no-report", "--weight-map", "w.npy")),
        ("grades.csv", ("predict", "m.skops", "all.npz", "-o", "grades.csv")),
        ("page.html", ("report", "m.skops", "-o", "page.html")),
        ("map.nii", ("inspect", "m.skops", "--weight-map", "map.nii")),
        ("photo.png", ("inspect", "m.skops", "--weight-map", "photo.png")),
        ("net.onnx", ("export", "m.skops", "-o", "net.onnx")),
        ("set.npz", ("data", "fetch", "basic-motions", "-o", "set.npz")),
    ],
)
def test_files_of_others_are_kept(folder, name, arguments):
    content = {"npy": None, "html": b"<!doctype html><title>Notes on tensormargin</title>"}
    mine = folder / name
    if name.endswith(".npy"):
        np.save(mine, np.zeros(3))
    elif name.endswith(".npz"):
        np.savez(mine, X=np.zeros((4, 2)), y=np.arange(4) % 2)
    else:
        mine.write_bytes(content.get(name.rpartition(".")[2]) or b"name,grade\na,1\n")
    before = mine.read_bytes()
    result = run(*arguments, cwd=folder)
    assert result.returncode == 2
    assert f"{name} exists, and tensormargin has not written it; give another name, or --overwrite" in result.stderr
    assert mine.read_bytes() == before
    if arguments[0] != "fit":
        assert run(*arguments, "--overwrite", cwd=folder).returncode == 0
        assert is_ours(mine)


@pytest.mark.parametrize(
    ("arguments", "known"),
    [
        (
            ("fit", "all.npz", "-o", "x.xlsx"),
            "x.xlsx: a model is written as .skops; give a name with that ending, or with none",
        ),
        (("fit", "all.npz", "-o", "n.skops", "--report", "n.pdf"), "n.pdf: a report is written as .html or .htm"),
        (("predict", "m.skops", "all.npz", "-o", "x.xlsx"), "x.xlsx: a table of predictions is written as .csv"),
        (("report", "m.skops", "-o", "x.xlsx"), "x.xlsx: a report is written as .html or .htm"),
        (("export", "m.skops", "-o", "x.xlsx"), "x.xlsx: an ONNX model is written as .onnx"),
        (("inspect", "m.skops", "--weight-map", "x.xlsx"), "x.xlsx: a map is written as .nii, .nii.gz, .npy"),
        (("data", "fetch", "digits", "-o", "x.xlsx"), "x.xlsx: a data set is written as .npz"),
    ],
    ids=lambda one: one[0] if isinstance(one, tuple) else "",
)
def test_endings_say_what_files_are(folder, arguments, known):
    result = run(*arguments, cwd=folder)
    assert result.returncode == 2
    assert known in " ".join(result.stderr.split())
    assert not (folder / "x.xlsx").exists()


def test_marks_do_not_change_what_is_read(tmp_path):
    """NumPy, memory maps and load_samples read an array as if there was no mark behind it."""
    maps = np.arange(24.0).reshape(4, 2, 3)
    (path,) = save_map(tmp_path / "map.npy", maps, several="no")
    for mode in (None, "r"):
        np.testing.assert_array_equal(np.load(path, mmap_mode=mode), maps)
    np.savetxt(tmp_path / "labels.csv", [0, 1, 0, 1], header="label", comments="", fmt="%d")
    np.testing.assert_array_equal(load_samples(path, labels_from=tmp_path / "labels.csv").data, maps)
