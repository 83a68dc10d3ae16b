"""The first two commands of someone with a file or folder of their own: at most two options each, and what comes out.

Someone with epochs of MNE is in tests/guests/test_mne_files.py.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from conftest import fewer_folds, fewer_models, run, undrawn_figures
from PIL import Image

from tensormargin import load_model


@pytest.fixture(autouse=True)
def _quick():
    with fewer_models("auto_model", lams=(1,), mus=(1,)), fewer_folds(), undrawn_figures():
        yield


def made(seed, n, shape):
    """Return samples of two classes that differ in one half of the last mode, and their labels."""
    y = np.array(["left", "right"])[np.arange(n) % 2]
    X = np.random.default_rng(seed).standard_normal((n, *shape))
    X[y == "left", ..., : shape[-1] // 2] += 1.5
    return X, y


def predictions_after(fit, predict, cwd):
    """Run both commands and return the rows of the predictions."""
    for command in (fit, predict):
        assert sum(str(one).startswith("-") for one in command) <= 2
        done = run(*command, cwd=cwd)
        assert done.returncode == 0, done.stderr
    name = Path(predict[1]).stem
    facts = load_model(cwd / f"{name}.skops").facts
    assert facts["about"]["evaluation"]["accuracy"] > 0.75
    assert facts["about"]["plan"]["auto"] is True
    page = (cwd / f"{name}.html").read_text(encoding="utf-8")
    assert "What this does not show" in page
    with (cwd / "new.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(0 <= float(row["probability of right"]) <= 1 for row in rows)
    assert {row["used in fit"] for row in rows} == {"no"}
    return rows


def accuracy(rows, truth):
    return np.mean([row["predicted"] == label for row, label in zip(rows, truth, strict=True)])


def test_an_npz_file(tmp_path):
    X, y = made(0, 30, (3, 20))
    np.savez(tmp_path / "study.npz", X=X, y=y)
    X, y = made(1, 10, (3, 20))
    np.savez(tmp_path / "new.npz", X=X)
    rows = predictions_after(("fit", "study.npz"), ("predict", "study.skops", "new.npz", "-o", "new.csv"), tmp_path)
    assert accuracy(rows, y) >= 0.8


def test_a_folder_of_pictures(tmp_path):
    for folder, n, seed in (("pictures", 30, 0), ("new", 10, 1)):
        for number, (one, label) in enumerate(zip(*made(seed, n, (12, 16)), strict=True)):
            within = tmp_path / folder / (label if folder == "pictures" else "")
            within.mkdir(parents=True, exist_ok=True)
            picture = Image.fromarray(np.clip(120 + 40 * one, 0, 255).astype(np.uint8))
            picture.resize((16 + number, 12 + number)).save(within / f"{label}-{number}.png")
    refused = run("fit", "pictures", cwd=tmp_path)
    assert refused.returncode == 2
    assert "all samples must have one shape: give size=... (command line: --size), e.g. 12x16" in refused.stderr
    fit = ("fit", "pictures", "--size", "12x16")
    rows = predictions_after(fit, ("predict", "pictures.skops", "new", "-o", "new.csv"), tmp_path)
    assert accuracy(rows, [row["sample"].partition("-")[0] for row in rows]) >= 0.8


def test_a_bids_folder(tmp_path):
    nibabel = pytest.importorskip("nibabel", reason="needs nibabel: pip install 'tensormargin[neuro]'")
    for folder, n, seed in (("study", 24, 0), ("new", 10, 1)):
        X, y = made(seed, n, (6, 5, 8))
        lines = ["participant_id\tage\tside"]
        for number, (one, label) in enumerate(zip(X, y, strict=True)):
            name = f"sub-{folder[0]}{number:02d}"
            (tmp_path / folder / name / "anat").mkdir(parents=True)
            image = nibabel.Nifti1Image(one.astype(np.float32), np.diag([3.0, 3.0, 3.0, 1.0]))
            nibabel.save(image, tmp_path / folder / name / "anat" / f"{name}_T1w.nii.gz")
            lines.append(f"{name}\t{20 + number}\t{label if folder == 'study' else 'n/a'}")
        (tmp_path / folder / "participants.tsv").write_text("\n".join(lines) + "\n")
    refused = run("fit", "study", cwd=tmp_path)
    assert "the labels could be any of its columns, age, side; choose one" in refused.stderr
    assert "--labels" in refused.stderr
    fit = ("fit", "study", "--labels", "side")
    rows = predictions_after(fit, ("predict", "study.skops", "new", "-o", "new.csv"), tmp_path)
    assert [row["group"] for row in rows] == [f"sub-n{number:02d}" for number in range(10)]
    assert accuracy(rows, y) >= 0.8
