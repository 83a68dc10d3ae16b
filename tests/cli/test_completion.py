"""Tests of the tab key: what it offers for DATA, MODEL and the values of options."""

from __future__ import annotations

import numpy as np
import pytest
from click.shell_completion import ShellComplete
from conftest import loaded_after

from tensormargin.cli import main
from tensormargin.cli._options import DATA_SETS


def offered(*arguments: str) -> list[str]:
    """Return what the tab key offers after some arguments, the last of which is incomplete; "FILES" for any files."""
    *before, incomplete = arguments
    items = ShellComplete(main, {}, "tensormargin", "_TENSORMARGIN_COMPLETE").get_completions(before, incomplete)
    return ["FILES" if item.type == "file" else item.value for item in items]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("study.npz", X=np.zeros((4, 2, 3)), y=["rest", "right", "left", "left"], answer=[1, 2, 1, 2])
    (tmp_path / "table.csv").write_text("path,label\na.png,cat\nb.png,dog\n")
    for name in ("sunny", "rain", ".hidden"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
    (tmp_path / "bids").mkdir()
    (tmp_path / "bids" / "participants.tsv").write_text("participant_id\tgroup\nsub-1\tMS\nsub-2\tHC\n")
    (tmp_path / "models").mkdir()
    for name in ("eeg.skops", "models/a.skops", "models/b.skops", "models/b.html"):
        (tmp_path / name).touch()
    return tmp_path


def test_data():
    assert offered("fit", "") == offered("fit", "stu") == ["FILES"]
    assert offered("fit", "dig") == ["digits"]
    assert offered("compare", "robot") == [name for name in DATA_SETS if name.startswith("robot")]
    assert offered("fit", "models/a") == ["FILES"]


@pytest.mark.parametrize("command", ["predict", "inspect", "maps", "report", "export"])
def test_models(command):
    assert offered(command, "") == ["eeg.skops"]
    assert offered(command, "models/") == ["models/a.skops", "models/b.skops"]
    assert offered(command, "mod") == offered(command, "no such folder/") == ["FILES"]


def test_kinds():
    assert offered("fit", "study.npz", "--kind", "s") == ["series", "spectra"]


@pytest.mark.parametrize("option", ["--only-classes", "--exclude-classes"])
def test_classes(option):
    assert offered("fit", "study.npz", option, "") == ["left", "rest", "right"]
    assert offered("compare", "study.npz", option, "left,r") == ["left,rest", "left,right"]
    assert offered("fit", "study.npz", option, "left,rest,l") == []
    assert offered("fit", "study.npz", "--labels", "answer", option, "") == ["1", "2"]
    assert offered("fit", "table.csv", option, "") == ["cat", "dog"]
    assert offered("fit", "x.npy", "--labels-from", "table.csv", option, "d") == ["dog"]
    assert offered("fit", "pictures", option, "") == ["rain", "sunny"]
    assert offered("fit", "bids", "--labels", "group", option, "") == ["HC", "MS"]


def test_what_cannot_be_read_at_once_has_no_classes(folder, monkeypatch):
    (folder / "broken.npz").write_bytes(b"PK")
    (folder / "notes.tsv").write_text("a\tb\n1\t2\n")
    np.savez("objects.npz", X=np.zeros((2, 2)), y=np.array([{}, {}], dtype=object))
    for name in ("broken.npz", "notes.tsv", "objects.npz", "missing.npz", "scan.nii.gz", "digits"):
        assert offered("fit", name, "--only-classes", "") == []
    assert offered("fit", "--only-classes", "") == []
    monkeypatch.setattr("tensormargin.io.labels._QUICK_BYTES", 10)
    assert offered("fit", "study.npz", "--only-classes", "") == offered("fit", "table.csv", "--only-classes", "") == []


def test_completing_files_imports_nothing_heavy():
    statement = "from tensormargin.cli import main; from click.shell_completion import ShellComplete as S"
    statement += "; S(main, {}, 't', 'T').get_completions(['predict'], 'e')"
    assert loaded_after(statement, "numpy", "sklearn", "matplotlib") == []
