"""Tests of the CSV file of predictions: hostile labels are neutralised, and every label can be read back."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from conftest import run
from hypothesis import given
from hypothesis import strategies as st

from tensormargin import TensorMarginClassifier
from tensormargin.fitting import class_probabilities
from tensormargin.io import load_model, neutral, save_model, write_predictions
from tensormargin.io.predictions import Predictions

HOSTILE = ['=HYPERLINK("http://x","y")', "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "\r=1", "\n=1"]


def table_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_spreadsheet_would_execute_gets_an_apostrophe(text):
    assert neutral(text) == f"'{text}"


@pytest.mark.parametrize(
    "value", [-1, -1.5, "-1", "+1", "-1e-3", "1", "a=b", "", "'=1", np.float32(-2), np.str_("x"), True]
)
def test_numbers_and_other_text_stay(value):
    assert neutral(value) == str(value)
    if str(value).startswith(("-", "+")):
        float(neutral(value))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1, max_size=5))
def test_labels_are_read_back(tmp_path_factory, labels):
    """With their line breaks, quotes and commas; only the apostrophe is added."""
    path = tmp_path_factory.mktemp("table") / "predictions.csv"
    labels = np.array(labels, object)
    strengths = np.linspace(0, 1, len(labels))
    write_predictions(path, Predictions(list(labels), labels, {"label": labels, "probability of x": strengths}))
    heading, *rows = table_of(path)
    assert heading == ["sample", "label", "predicted", "probability of x"]
    assert [row[:3] for row in rows] == [[neutral(label)] * 3 for label in labels]
    assert [float(row[3]) for row in rows] == pytest.approx(strengths, abs=1e-5)
    assert not any(cell.startswith(("=", "@", "\t", "\r", "\n")) for row in rows for cell in row)


def test_a_name_that_is_not_utf8_is_written(tmp_path):
    name = b"na\xefve.npy".decode(errors="surrogateescape")
    path = tmp_path / "predictions.csv"
    write_predictions(path, Predictions([name], np.array([name]), {"score of b": np.ones(1)}))
    assert table_of(path)[1][0] == r"na\udcefve.npy"


class TestHowProbabilitiesWereMade:
    """The last column, a line and an entry of --json say it; models of older files keep the probabilities they had."""

    @pytest.fixture
    def samples(self, tmp_path):
        rng = np.random.default_rng(0)
        y = np.repeat(["a", "b", "c", "d"], 12)
        X = rng.normal(size=(48, 4, 5)) + 2.0 * np.eye(4)[np.repeat(np.arange(4), 12)][:, :, None]
        np.savez(tmp_path / "samples.npz", X=X, y=y)
        return X, y

    @pytest.mark.parametrize(
        ("scheme", "words"),
        [("ovo", "sigmoids of 6 pairs, coupled"), ("ovr", "4 classes against the rest, normalised")],
    )
    def test_is_said(self, tmp_path, samples, scheme, words):
        clf = TensorMarginClassifier("cp", 1, multi_class=scheme, probability=True, random_state=0).fit(*samples)
        save_model(tmp_path / "m.skops", clf)
        arguments = ("predict", tmp_path / "m.skops", tmp_path / "samples.npz", "-o", tmp_path / "said.csv")
        done = run(*arguments)
        assert done.returncode == 0, done.stderr
        heading, *rows = table_of(tmp_path / "said.csv")
        assert heading[-1] == "probabilities from"
        (said,) = {row[-1] for row in rows}
        assert words in said
        assert said.endswith("; cross-validated in 5 folds")
        assert f"Probabilities: {said}" in done.stdout
        assert json.loads(run(*arguments, "--json").stdout)["probabilities_from"] == said

    @pytest.mark.parametrize("scheme", ["ovo", "ovr"])
    def test_older_files_predict_as_they_did(self, tmp_path, samples, scheme):
        clf = TensorMarginClassifier("cp", 1, multi_class=scheme, probability=True, random_state=0).fit(*samples)
        clf.calibration_ = clf.calibration_[:, :2]  # what 0.1 stored
        save_model(tmp_path / "m.skops", clf)
        found = load_model(tmp_path / "m.skops").model.predict_proba(samples[0])
        expected = class_probabilities(clf.binary_scores(samples[0]), clf.calibration_, scheme)
        np.testing.assert_array_equal(found, expected)
        new = clf.fit(*samples).predict_proba(samples[0])
        assert new.max(axis=1).mean() > expected.max(axis=1).mean() + 0.02
