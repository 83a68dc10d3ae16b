"""Tests of the CSV file of predictions: hostile labels are neutralised, and every label can be read back."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest
from conftest import low_rank_classes, run
from hypothesis import given
from hypothesis import strategies as st

from tensormargin import TensorMarginClassifier
from tensormargin.data import Axis
from tensormargin.fitting import class_probabilities
from tensormargin.io import load_model, load_samples, neutral, save_model, write_predictions
from tensormargin.io.predictions import Predictions
from tensormargin.paper.summary import Difference, csv_text, from_csv

HOSTILE = ['=HYPERLINK("http://x","y")', "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "\r=1", "\n=1"]
SIGNS = ["=1", "+1+1", "-1-1", "@SUM(1)", "\uff1d1", "\uff0b1+1", "\uff0d1", "\uff20SUM(1)", "\ufe661", "\ufe621"]
UNSEEN = "\ufeff\u200b \u00a0\u3000\u2028\x00\x0b\u202e\u00ad\ufe0f\u3164\U000e0041"


def table_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_spreadsheet_would_execute_gets_an_apostrophe(text):
    assert neutral(text) == f"'{text}"


@pytest.mark.parametrize("unseen", ["", *UNSEEN, UNSEEN], ids=ascii)
@pytest.mark.parametrize("sign", SIGNS)
def test_formulas_behind_what_cannot_be_seen_get_one_too(unseen, sign):
    assert neutral(unseen + sign) == f"'{unseen}{sign}"


@pytest.mark.parametrize(
    "value", [-1, -1.5, "-1", "+1", "-1e-3", "1", "a=b", "", "'=1", np.float32(-2), np.str_("x"), True]
)
def test_numbers_and_other_text_stay(value):
    assert neutral(value) == str(value)
    if str(value).startswith(("-", "+")):
        float(neutral(value))


@pytest.mark.parametrize("text", [" a", "\ufeff", "\ufeffa=1", "\uff45\uff1d1", "ä", "(=1)"], ids=ascii)
def test_other_text_behind_what_cannot_be_seen_stays(text):
    assert neutral(text) == text


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1, max_size=5))
def test_labels_are_read_back(tmp_path_factory, labels):
    """With their line breaks, quotes and commas; only the apostrophe is added."""
    path = tmp_path_factory.mktemp("table") / "predictions.csv"
    labels = np.array(labels, object)
    strengths = np.linspace(0, 1, len(labels))
    write_predictions(path, [Predictions(list(labels), labels, {"label": labels, "probability of x": strengths})])
    heading, *rows = table_of(path)
    assert heading == ["sample", "label", "predicted", "probability of x"]
    assert [row[:3] for row in rows] == [[neutral(label)] * 3 for label in labels]
    assert [float(row[3]) for row in rows] == pytest.approx(strengths, abs=1e-5)
    assert not any(cell.startswith(("=", "@", "\t", "\r", "\n")) for row in rows for cell in row)


def test_every_table_of_a_command_is_neutral(tmp_path):
    """Of predictions, maps and clusters, with such names of classes, groups and channels."""
    X, signs = low_rank_classes(0, 24, (3, 4), 4.0)
    y = np.where(signs > 0, "\ufeff=1+1", "\uff1d2")
    groups = np.array(["\u200b@a", " +b", "\u3000\uff0dc", "=d"])[np.arange(24) // 6]
    np.savez(tmp_path / "samples.npz", X=X, y=y, groups=groups)
    axes = (Axis("\u200b=row", "", ["\uff20a", "\u202e=b", "\tc"]), Axis("\uff0bcolumn", "", [1.0, 2.0, 3.0, 4.0]))
    samples = load_samples(tmp_path / "samples.npz")
    save_model(tmp_path / "m.skops", TensorMarginClassifier("cp", 1).fit(X, y), axes=axes, samples=samples)
    for command in (("predict", "-o", tmp_path / "predictions.csv"), ("maps", "-o", tmp_path / "maps")):
        done = run(command[0], tmp_path / "m.skops", tmp_path / "samples.npz", *command[1:])
        assert done.returncode == 0, done.stderr
    cells = [cell for path in tmp_path.rglob("*.csv") for row in table_of(path) for cell in row]
    executed = re.compile(r"[^!-~\uff00-\uffef]*[=+@\uff1d\uff0b\uff0d\uff20-]")
    assert [cell for cell in cells if executed.match(cell) and not is_number(cell)] == []
    assert sum(cell.startswith("'") for cell in cells) > 50


def is_number(text):
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def test_summaries_of_the_paper_are_neutral():
    text = csv_text([Difference("\ufeff=1", 1, "-", "\uff1da", "b", -0.5, -1.0, 0.0, "+", 1, 0.5, 0.5)])
    (row,) = from_csv(text, Difference)
    assert (row.data, row.first, row.second, row.difference) == ("'\ufeff=1", "'\uff1da", "b", -0.5)


def test_a_name_that_is_not_utf8_is_written(tmp_path):
    name = b"na\xefve.npy".decode(errors="surrogateescape")
    path = tmp_path / "predictions.csv"
    write_predictions(path, [Predictions([name], np.array([name]), {"score of b": np.ones(1)})])
    assert table_of(path)[1][0] == r"na\udcefve.npy"


class TestHowProbabilitiesWereMade:
    """Each command says it once, and not in the table; models of older files keep the probabilities they had."""

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
        said = json.loads(run(*arguments, "--json").stdout)["probabilities_from"]
        assert words in said
        assert said.endswith("; cross-validated in 5 folds")
        assert table_of(tmp_path / "said.csv")[0] == [
            "sample",
            "label",
            "predicted",
            *(f"probability of {c}" for c in "abcd"),
        ]
        assert said not in (tmp_path / "said.csv").read_text()
        for printed in (done.stdout, run("inspect", tmp_path / "m.skops").stdout):
            assert printed.count(f"Probabilities: {said}\n") == 1

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
