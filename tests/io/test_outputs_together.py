"""Tests that the files of a command appear together or not at all, and that messages name the file that failed."""

from __future__ import annotations

import errno
import os
import resource
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from conftest import fewer_models, low_rank_classes, run

from tensormargin import TensorMarginClassifier
from tensormargin.io import all_or_none, replacing, save_model

pytestmark = pytest.mark.usefixtures("blank_figures")


def write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text)


def write_all(folder: Path, *names: str, then=lambda: None) -> None:
    with all_or_none():
        for name in names:
            write(folder / name, name)
        then()


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_all_files_appear_at_the_end(tmp_path):
    write(tmp_path / "b", "old")
    with all_or_none():
        write(tmp_path / "a", "1")
        with all_or_none():  # part of the larger block
            write(tmp_path / "b", "2")
        write(tmp_path / "b", "3")
        assert (tmp_path / "b").read_text() == "old"
        assert not (tmp_path / "a").exists()
    assert contents(tmp_path) == {"a": "1", "b": "3"}
    write(tmp_path / "c", "4")  # at once again
    assert (tmp_path / "c").read_text() == "4"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError(errno.ENOSPC, "full")], ids=str)
def test_no_file_appears_after_an_error(error, tmp_path):
    def fail():
        raise error

    write(tmp_path / "a", "old")
    with pytest.raises((ValueError, KeyboardInterrupt, OSError)):
        write_all(tmp_path, "a", "b", then=fail)
    assert contents(tmp_path) == {"a": "old"}


def test_a_folder_in_the_way_keeps_all_files_back(tmp_path):
    (tmp_path / "b").mkdir()
    with pytest.raises(IsADirectoryError, match=r"'.*/b'"):
        write_all(tmp_path, "a", "b")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_an_interruption_between_two_renames_does_not_separate_files(tmp_path, monkeypatch):
    rename, calls = Path.replace, []

    def interrupted(self, target):
        calls.append(target)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_all(tmp_path, "a", "b", "c")
    assert contents(tmp_path) == {"a": "a", "b": "b", "c": "c"}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG, errno.EROFS, errno.EDQUOT])
def test_errors_name_the_file(number, tmp_path):
    def fail(named):
        with replacing(tmp_path / "table.csv") as temporary:
            raise OSError(number, os.strerror(number), *([str(temporary)] if named else []))

    for named in (False, True):
        with pytest.raises(OSError, match=rf"{os.strerror(number)}.*'.*/table\.csv'") as caught:
            fail(named)
        assert caught.value.errno == number
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="'other'"), replacing(tmp_path / "table.csv"):
        raise OSError(number, "of another file", "other")


@pytest.fixture
def archive(tmp_path):
    X, y = low_rank_classes(0, 24, (3, 4), 3.0)
    np.savez(tmp_path / "samples.npz", X=X, y=y)
    return tmp_path / "samples.npz"


def test_a_report_that_fails_leaves_no_model(archive, tmp_path, monkeypatch):
    def fail(path, page):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("tensormargin.report.write_page", fail)
    with fewer_models():
        command = (
            "fit",
            archive,
            "-o",
            tmp_path / "model.skops",
            "--decomposition",
            "tucker",
            "--outer-folds",
            "0",
            "--folds",
            "2",
            "--jobs",
            "1",
        )
        done = run(*command)
    assert done.returncode == 2, done.stderr
    assert "model.html" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["samples.npz"]


@contextmanager
def largest_file(size: int):
    """Let the system refuse larger files, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_one_message(archive, tmp_path):
    with np.load(archive) as held:
        model = TensorMarginClassifier("cp", 1).fit(held["X"], held["y"])
    for size in (0, 100, 1000):
        with largest_file(size), pytest.raises(OSError, match=r"File too large.*/model\.skops'"):
            save_model(tmp_path / "model.skops", model)
    save_model(tmp_path / "model.skops", model)
    commands = {
        "page.html": ("report", tmp_path / "model.skops", "-o", tmp_path / "page.html"),
        "map.npy": ("inspect", tmp_path / "model.skops", "--weight-map", tmp_path / "map.npy"),
        "rows.csv": ("predict", tmp_path / "model.skops", archive, "-o", tmp_path / "rows.csv"),
    }
    for name, command in commands.items():
        with largest_file(100):
            done = run(*command)
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
        assert name in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"samples.npz", "model.skops"}


def test_lists_of_classes_are_cut(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(60, 3, 4)), np.arange(60) % 30
    model = TensorMarginClassifier("cp", 1, multi_class="ovr").fit(X, [f"class {one}" for one in y])
    save_model(tmp_path / "model.skops", model, {})
    np.savez(tmp_path / "samples.npz", X=X, y=np.array([f"label {one}" for one in y]))
    said = run("inspect", tmp_path / "model.skops").stdout
    assert "classes: class 0, class 1, class 10" in said
    assert " and 20 more" in said
    said = run("predict", tmp_path / "model.skops", tmp_path / "samples.npz", "-o", tmp_path / "out.csv").stdout
    assert "the labels label 0, label 1" in said
    assert " and 20 more are none of the model's classes" in said
