"""Tests that the files of a command appear together or not at all, and that messages name the file that failed."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
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


@pytest.fixture
def at_rename(monkeypatch):
    """A function that lets something happen before a file takes this name."""
    rename = Path.replace

    def replace(name, happen):
        done = []

        def renamed(self, target):
            if target.name == name and not done:
                done.append(target)
                happen()
            return rename(self, target)

        monkeypatch.setattr(Path, "replace", renamed)

    return replace


def fail():
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("name", "abc")
@pytest.mark.parametrize("happen", [fail, lambda: [][0]], ids=["an error of the system", "another"])
def test_an_error_between_two_renames_brings_the_old_files_back(name, happen, at_rename, tmp_path):
    write(tmp_path / "elsewhere", "old b")
    (tmp_path / "b").symlink_to("elsewhere")
    write(tmp_path / "c", "old c")
    before = contents(tmp_path)
    at_rename(name, happen)
    with pytest.raises((OSError, IndexError)) as caught:
        write_all(tmp_path, "a", "b", "c")
    assert not isinstance(caught.value, OSError) or str(tmp_path / name) in str(caught.value)
    assert contents(tmp_path) == before
    assert (tmp_path / "b").is_symlink()


def test_without_hard_links_no_file_is_lost(at_rename, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    write_all(tmp_path, "b", "c")
    monkeypatch.setattr(os, "link", refuse)
    at_rename("c", fail)
    with pytest.raises(OSError, match=r"c'"):
        write_all(tmp_path, "a", "b", "c")
    assert contents(tmp_path) == {"b": "b", "c": "c"}
    write_all(tmp_path, "a", "b", "c")
    assert contents(tmp_path) == {"a": "a", "b": "b", "c": "c"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_wait_until_all_files_are_in_their_places(number, at_rename, tmp_path):
    arrived = []
    before = signal.signal(number, lambda number, _: arrived.append((number, sorted(contents(tmp_path)))))
    try:
        at_rename("b", lambda: signal.raise_signal(number))
        write_all(tmp_path, "a", "b", "c")
        assert signal.getsignal(number) is not before
    finally:
        signal.signal(number, before)
    assert arrived == [(number, ["a", "b", "c"])]


KILLED = """
import os, signal, sys
from pathlib import Path
from tensormargin.io import all_or_none, replacing

os.chdir(sys.argv[1])
rename = Path.replace

def killed(self, target):
    if target.name == "c":
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(self, target)

Path.replace = killed
with all_or_none():
    for name in "abc":
        with replacing(name) as temporary:
            temporary.write_text(f"of the killed: {name}")
    with replacing("folder", folder=True) as temporary:
        (temporary / "d").touch()
"""


def test_what_a_killed_process_has_left_is_removed_by_the_next(tmp_path):
    """Also of a folder (Zarr). Files of others stay, whatever their names."""
    (tmp_path / ".mine.part").mkdir()
    (tmp_path / ".notes.12345678.part").touch()
    before = {path.name for path in tmp_path.iterdir()}
    (tmp_path / "c").touch()
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)])
    assert done.returncode == -signal.SIGKILL
    left = {path.name for path in tmp_path.iterdir()}
    assert len([name for name in left - before if name.endswith(".part")]) == 1
    write(tmp_path / "c", "3")
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "c", *before}
    assert (tmp_path / "c").read_text() == "3"


LIVING = """
import sys
from tensormargin.io import replacing

with replacing(sys.argv[1]) as temporary:
    temporary.write_text("of the slow one")
    print("begun", flush=True)
    sys.stdin.readline()
"""


def test_what_a_living_process_is_writing_stays(tmp_path):
    command = [sys.executable, "-c", LIVING, str(tmp_path / "table.csv")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        write(tmp_path / "table.csv", "of the fast one")
        assert (tmp_path / "table.csv").read_text() == "of the fast one"
        process.communicate("\n", timeout=60)
    assert process.returncode == 0
    assert contents(tmp_path) == {"table.csv": "of the slow one"}


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


FIT = ("--decomposition", "tucker", "--outer-folds", "0", "--folds", "2", "--jobs", "1")


def test_a_report_that_fails_leaves_no_model(archive, tmp_path, monkeypatch):
    def fail(path, page):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("tensormargin.report.write_page", fail)
    with fewer_models():
        done = run("fit", archive, "-o", tmp_path / "model.skops", *FIT)
    assert done.returncode == 2, done.stderr
    assert "model.html" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["samples.npz"]


@pytest.mark.usefixtures("heeded_signals")
@pytest.mark.parametrize("name", ["model.skops", "model.html"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_renames_comes_too_late(number, name, archive, tmp_path, at_rename):
    at_rename(name, lambda: signal.raise_signal(number))
    with fewer_models():
        done = run("fit", archive, "-o", tmp_path / "model.skops", *FIT)
    assert done.returncode == 0, done.stderr
    assert "Stopped" not in done.stderr
    assert "model.html" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"samples.npz", "model.skops", "model.html"}


def test_a_model_that_cannot_be_replaced_keeps_its_report(archive, tmp_path, at_rename):
    command = ("fit", archive, "-o", tmp_path / "model.skops", *FIT)
    with fewer_models():
        assert run(*command).returncode == 0
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        at_rename("model.html", fail)
        done = run(*command, "--seed", "1")
    assert done.returncode == 2
    assert "model.html" in done.stderr
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


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
