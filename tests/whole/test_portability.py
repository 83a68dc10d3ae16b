"""Tests of what differs between systems: modules, start of processes, folders, paths, ends of lines, encodings."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import unicodedata
import zipfile
from pathlib import Path

import numpy as np
import pytest
from conftest import low_rank_classes, run

from tensormargin import TensorMarginClassifier, load_samples
from tensormargin.runtime import available_bytes, replacing

ROOT = Path(__file__).parents[2]
FEW = ("--method", "STM", "--folds", "2", "--outer-folds", "2", "--jobs", "1")
QUICK = (*FEW, "--no-report")
HIDE = """
import asyncio, os, signal, sys  # asyncio first: its part for POSIX needs them itself, from Python 3.14 on
for name in ("fcntl", "resource", "termios", "pwd", "grp", "syslog"):
    sys.modules[name] = None
for name in ("setitimer", "getitimer", "alarm", "SIGHUP", "SIGALRM", "SIGKILL"):
    delattr(signal, name)
for name in ("memfd_create", "mkfifo", "getuid", "geteuid", "statvfs", "sysconf", "fork", "killpg", "setsid"):
    delattr(os, name)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a blank and umlauts in its path of more than 260 characters, and two files of samples in it."""
    folder = tmp_path_factory.mktemp("Proben für Köln") / ("lange Namen " * 10) / ("ü" * 100)
    folder.mkdir(parents=True)
    X, y = low_rank_classes(0, 24, (4, 5), 2.0)
    np.savez(folder / "Größe 1.npz", X=X, y=np.where(y > 0, "größer", "kleiner"))
    assert len(str(folder / "Größe 1.npz")) > 260
    return folder


def started(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Return the outcome of a command in a process of its own."""
    command = [sys.executable, "-m", "tensormargin", *arguments]
    return subprocess.run(command, capture_output=True, cwd=folder, env={**os.environ, **environment}, check=False)


@pytest.fixture(scope="module")
def hidden(tmp_path_factory):
    """The environment of processes that lack POSIX modules and functions, as all that they start."""
    hiding = tmp_path_factory.mktemp("hidden")
    (hiding / "sitecustomize.py").write_text(HIDE, encoding="utf-8")
    paths = [str(hiding), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths)}


@pytest.mark.skipif(sys.platform == "win32", reason="hides what is not there")
class TestWithoutPosix:
    def test_a_fit_and_a_prediction(self, folder, hidden):
        done = started(folder, "fit", "Größe 1.npz", *QUICK, "-o", "hidden.skops", **hidden)
        assert done.returncode == 0, done.stderr.decode()
        done = started(folder, "predict", "hidden.skops", "Größe 1.npz", "-o", "hidden.csv", **hidden)
        assert done.returncode == 0, done.stderr.decode()
        assert "größer" in (folder / "hidden.csv").read_text(encoding="utf-8")

    def test_files_that_a_process_of_its_own_reads(self, folder, hidden):
        h5py = pytest.importorskip("h5py")
        with h5py.File(folder / "read.h5", "w") as file:
            file["X"], file["y"] = np.ones((40, 50, 60)), np.arange(40) % 2
        done = started(folder, "fit", "read.h5", "--dry-run", "--json", **hidden)
        assert done.returncode == 0, done.stderr.decode()
        assert "40 samples of 50 x 60" in json.loads(done.stdout)["samples"]

    def test_fits_in_several_processes(self, folder, hidden):
        code = (
            "import numpy as np; from tensormargin import TensorMarginClassifierCV\n"
            "if __name__ == '__main__':\n"
            "    X, y = np.random.default_rng(0).normal(size=(24, 3, 4)), np.arange(24) % 2\n"
            "    model = TensorMarginClassifierCV(('cp',), (1,), (1.0, 10.0), (1,), cv=2, n_jobs=2)\n"
            "    print(model.fit(X, y).score(X, y))"
        )
        script = folder / "fits.py"
        script.write_text(code, encoding="utf-8")
        command = [sys.executable, str(script)]
        done = subprocess.run(command, capture_output=True, env={**os.environ, **hidden}, check=False)
        assert done.returncode == 0, done.stderr.decode()
        assert 0.0 <= float(done.stdout) <= 1.0

    def test_memory_is_guessed(self, hidden):
        code = "import pathlib; pathlib.Path.read_text = None\nfrom tensormargin.runtime import host\n"
        code += "host._fields = lambda *_, **__: {}; host._left_in_group = lambda: host._UNLIMITED\n"
        code += "print(host.available_bytes())"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, env={**os.environ, **hidden}, check=True
        )
        assert int(done.stdout) == 2**31
        assert available_bytes() > 0


def coefficients(seed: int) -> list[float]:
    X, y = low_rank_classes(seed, 20, (4, 5), 2.0)
    return TensorMarginClassifier("cp", 2).fit(X, y).coef_.ravel().tolist()


def test_a_process_that_is_started_anew_makes_the_same_fit():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(coefficients, [0]) == [coefficients(0)]


class TestPaths:
    def test_blanks_umlauts_and_long_paths(self, folder):
        model, table = folder / f"{'m' * 240}.skops", folder / f"{'t' * 240}.csv"
        done = run("fit", folder / "Größe 1.npz", *QUICK, "-o", model)
        assert done.returncode == 0, done.stderr
        assert run("predict", model, folder / "Größe 1.npz", "-o", table).returncode == 0
        assert "kleiner" in table.read_text(encoding="utf-8")

    def test_temporary_files_of_long_names(self, tmp_path):
        path = tmp_path / ("ü" * 127)  # 254 bytes
        with replacing(path) as temporary:
            temporary.write_bytes(b"content")
        assert [one.name for one in tmp_path.iterdir()] == [path.name]

    def test_a_cache_that_cannot_be_written_to(self, folder, tmp_path, monkeypatch):
        (tmp_path / "file").touch()
        monkeypatch.setenv("TENSORMARGIN_CACHE", str(tmp_path / "file" / "cache"))
        assert run("fit", folder / "Größe 1.npz", *QUICK, "-o", tmp_path / "model.skops").returncode == 0
        assert "cannot be written to: set TENSORMARGIN_CACHE" in run("doctor").stdout

    @pytest.mark.skipif(hasattr(os, "getuid") and os.getuid() == 0, reason="root may write everywhere")
    def test_a_read_only_folder(self, folder, tmp_path):
        (tmp_path / "fixed").mkdir(mode=0o555)
        done = run("fit", folder / "Größe 1.npz", *QUICK, "-o", tmp_path / "fixed" / "model.skops")
        assert done.returncode == 2
        assert "cannot be written" in done.stderr


def alike(names) -> list[str]:
    """Return the names that are one file where case, and the form of accents, do not count (Windows, macOS)."""
    seen, found = {}, []
    for name in sorted(names):
        first = seen.setdefault(unicodedata.normalize("NFC", name).casefold(), name)
        found += [f"{first} and {name}"] if first != name else []
    return found


class TestNames:
    """Names that mean the same file on one system and two on another, or that another system does not have."""

    def test_alike(self):
        assert alike(["a/B.txt", "a/b.txt", "c", "\u00e9", "e\u0301"]) == ["a/B.txt and a/b.txt", "e\u0301 and \u00e9"]

    def test_files_of_the_project(self):
        if shutil.which("git") is None or not (ROOT / ".git").exists():
            pytest.skip("needs git and its repository")
        listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, cwd=ROOT, check=True)
        names = listed.stdout.decode().split("\0")[:-1]
        assert alike({*names, *(str(parent) for name in names for parent in Path(name).parents)}) == []
        assert [name for name in names if re.search(r'[<>:"\\|?*\x00-\x1f]|[. ](/|$)', name)] == []
        reserved = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
        assert [name for name in names for part in Path(name).parts if part.split(".")[0].lower() in reserved] == []
        assert max(map(len, names)) < 120  # so that a checkout in a folder of 140 characters works on Windows, too

    def test_members_of_model_files(self, folder, tmp_path):
        assert run("fit", folder / "Größe 1.npz", *QUICK, "-o", tmp_path / "model.skops").returncode == 0
        for path in [tmp_path / "model.skops", *sorted((ROOT / "tests" / "files").glob("*.skops"))]:
            with zipfile.ZipFile(path) as archive:
                assert alike(archive.namelist()) == []

    def test_files_that_commands_write(self, tmp_path):
        """Also for classes that differ in nothing but case."""
        X, y = low_rank_classes(0, 24, (4, 5), 2.0)
        np.savez(tmp_path / "data.npz", X=X, y=np.where(y > 0, "Left", "left"))
        assert run("fit", tmp_path / "data.npz", *QUICK, "-o", tmp_path / "model.skops").returncode == 0
        assert run("maps", tmp_path / "model.skops", tmp_path / "data.npz", "-o", tmp_path / "maps").returncode == 0
        assert alike(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == []


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "marked"])
def test_tables_of_other_systems(end, mark, tmp_path):
    image = pytest.importorskip("PIL.Image")
    for number in range(4):
        image.fromarray(np.full((5, 6), 40 * number, np.uint8)).save(tmp_path / f"bild {number}.png")
    rows = ["path,label", *(f"bild {number}.png,{'süß' if number % 2 else 'herb'}" for number in range(4))]
    (tmp_path / "table.csv").write_bytes((mark + end.join(rows) + end).encode())
    samples = load_samples(tmp_path / "table.csv")
    assert samples.target.tolist() == ["herb", "süß", "herb", "süß"]
    np.testing.assert_array_equal(samples.data[:, 0, 0], [0, 40, 80, 120])


def test_a_locale_that_is_not_utf8(folder, tmp_path):
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONWARNDEFAULTENCODING": "1"}
    (tmp_path / "data.npz").write_bytes((folder / "Größe 1.npz").read_bytes())
    done = started(tmp_path, "fit", "data.npz", *FEW, **locale)
    assert done.returncode == 0, done.stderr.decode("latin-1")
    assert not [line for line in done.stderr.splitlines() if b"EncodingWarning" in line and b"tensormargin" in line]
    assert "größer" in (tmp_path / "data.html").read_text(encoding="utf-8")
    done = started(tmp_path, "predict", "data.skops", "data.npz", "-o", "p.csv", **locale)
    assert done.returncode == 0, done.stderr.decode("latin-1")
    assert "kleiner" in (tmp_path / "p.csv").read_text(encoding="utf-8")
