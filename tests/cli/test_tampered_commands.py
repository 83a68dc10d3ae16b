"""Tests that commands refuse tampered models and comparisons with one message, whatever the values in them are."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest
from conftest import low_rank_classes, run

from tensormargin import TensorMarginClassifier
from tensormargin.evaluation import CompareSettings, compare, comparison_content
from tensormargin.io import load_samples, models, save_model, sha256_of
from tensormargin.io.checksums import seal

pytestmark = pytest.mark.usefixtures("blank_figures")

EVALUATION = {"score": {"name": "accuracy", "value": 0.9}}  # without all the rest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    X, y = low_rank_classes(0, 24, (3, 4), 3.0)
    np.savez(folder / "samples.npz", X=X, y=y)
    save_model(folder / "model.skops", TensorMarginClassifier("cp", 1).fit(X, y))
    samples, settings = (
        load_samples(folder / "samples.npz"),
        CompareSettings(methods=("SVM", "STM"), repeats=2, folds=2),
    )
    rows = list(compare(samples.data, samples.target, settings, 1))
    (folder / "result.json").write_text(json.dumps(comparison_content(samples, settings, [], rows)))
    return folder


def refused(path, out, *command):
    done = run(*command)
    assert done.returncode == 2, done.stderr
    assert path.name in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr) < 3000
    assert not out.exists()


def commands(path, folder, tmp_path):
    yield tmp_path / "p.csv", "predict", path, folder / "samples.npz", "-o", tmp_path / "p.csv"
    yield tmp_path / "p.html", "report", path, "-o", tmp_path / "p.html"
    yield tmp_path / "p.npy", "inspect", path, "--weight-map", tmp_path / "p.npy"
    yield tmp_path / "p.onnx", "export", path, "-o", tmp_path / "p.onnx"


def test_a_changed_model_is_refused_by_every_command(folder, tmp_path):
    path = tmp_path / "changed.skops"
    content = bytearray((folder / "model.skops").read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    for out, *command in commands(path, folder, tmp_path):
        refused(path, out, *command)


def test_a_digest_that_is_kept_elsewhere(folder, tmp_path):
    path = folder / "model.skops"
    assert sha256_of(path) in run("inspect", path).stdout
    assert json.loads(run("inspect", path, "--json").stdout)["sha256"] == sha256_of(path)
    for out, *command in commands(path, folder, tmp_path):
        refused(path, out, *command, "--model-sha256", "0" * 64)
    out, *command = next(commands(path, folder, tmp_path))
    data = folder / "samples.npz"
    refused(data, out, *command, "--sha256", "0" * 64)
    both = ("--model-sha256", sha256_of(path), "--sha256", sha256_of(data))
    assert run(*command, *both).returncode == 0
    page = tmp_path / "both.html"
    assert run("report", path, data, "-o", page, *both).returncode == 0
    refused(data, tmp_path / "p.html", "report", path, data, "-o", tmp_path / "p.html", "--sha256", "0" * 64)
    refused(folder / "result.json", tmp_path / "p.html", "report", folder / "result.json", "-o", tmp_path / "p.html",
            "--model-sha256", "0" * 64)  # fmt: skip


@pytest.mark.parametrize(
    "about", [{"evaluation": EVALUATION}, {"evaluation": 5}, {"chance": [1]}, {"search": {}}, {"data": "x"}], ids=str
)
def test_metadata_that_are_anything_never_give_a_traceback(about, folder, tmp_path):
    path = tmp_path / "sealed.skops"
    with zipfile.ZipFile(folder / "model.skops") as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == models.FACTS:
                content = json.dumps({**json.loads(content), "about": about})
            target.writestr(name, content)
    seal(path)
    # the map must not be written either, although only the text that comes later is at fault
    refused(path, tmp_path / "p.npy", "inspect", path, "--weight-map", tmp_path / "p.npy")
    refused(path, tmp_path / "p.html", "report", path, "-o", tmp_path / "p.html")


CHANGES = {
    "no data": lambda content: content.update(data={}),
    "summary of text": lambda content: content.update(summary=["x"]),
    "no summary": lambda content: content.update(summary=[]),
    "accuracy that is text": lambda content: content["summary"][0].update(accuracy="high"),
    "accuracy that is infinite": lambda content: content["summary"][0].update(accuracy=float("inf")),
    "huge": lambda content: content["summary"][0].update(accuracy=10**400),
    "classes that are none": lambda content: content["data"].update(classes=[]),
    "settings without seed": lambda content: content["settings"].pop("seed"),
    "versions": lambda content: content.update(versions=[1]),
    "differences": lambda content: content.update(differences=[{}]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_comparisons_that_are_anything_never_give_a_traceback(change, folder, tmp_path):
    content = json.loads((folder / "result.json").read_text())
    change(content)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(content))
    refused(path, tmp_path / "p.html", "report", path, "-o", tmp_path / "p.html")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, '{"data": ' + "[" * 990 + "]" * 990 + "}", "\ufeff{}"]
)
def test_comparisons_that_are_nested_deeply_never_give_a_traceback(text, tmp_path):
    path = tmp_path / "deep.json"
    path.write_text(text)
    refused(path, tmp_path / "p.html", "report", path, "-o", tmp_path / "p.html")


def test_a_comparison_that_is_too_long_or_no_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("tensormargin.report.comparison_report.TEXT_BYTES", 100)
    path = tmp_path / "long.json"
    path.write_text(" " * 101)
    refused(path, tmp_path / "p.html", "report", path, "-o", tmp_path / "p.html")
    (tmp_path / "folder.json").mkdir()
    refused(
        tmp_path / "folder.json", tmp_path / "p.html", "report", tmp_path / "folder.json", "-o", tmp_path / "p.html"
    )
