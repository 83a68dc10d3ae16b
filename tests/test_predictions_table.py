"""Tests of the CSV file of predictions: hostile labels are neutralised, and every label can be read back."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensormargin.predictions import Predictions, neutral, write_predictions

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
