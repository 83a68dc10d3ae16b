"""Tests that nothing others rely on changes unnoticed: names, parameters, options, formats, old models."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import public_api
import pytest

from tensormargin import Views, load_model
from tensormargin.datasets import load_digits_tensor

FILES = Path(__file__).parents[1] / "files"
SCORES = json.loads((FILES / "scores.json").read_text(encoding="utf-8"))


def test_the_public_interface_is_the_one_that_was_written_down():
    kept, found = public_api.LIST.read_text(encoding="utf-8").splitlines(), public_api.lines()
    changed = sorted(set(kept) ^ set(found))
    assert not changed, "name the change in CHANGELOG.md, and run: python tests/public_api.py"


@pytest.mark.parametrize(
    ("new", "missing"),
    [
        (["a.f(x, y=1)", "a.g()"], []),
        (["a.f(x, zzyzx=1)", "a.g()"], ["a.f(x, zzyzx=1)"]),
        (["a.f(x, y=1)"], ["a.g()"]),
        (["a.f(x, y=1, TensorMarginAutoClassifier=2)", "a.g()"], []),
    ],
)
def test_a_change_has_to_be_named_in_the_changelog(new, missing, monkeypatch, tmp_path):
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## Unreleased\n\n- `TensorMarginAutoClassifier`\n\n## 0.1.0\n\n- g"
    )
    monkeypatch.setattr(public_api, "ROOT", tmp_path)
    assert public_api.unnamed(["a.f(x, y=1)", "a.g()"], new) == missing


@pytest.mark.parametrize("name", SCORES)
def test_models_of_earlier_versions_give_the_same_scores(name):
    """Within one part in a million of the largest: machines add in other orders."""
    digits = load_digits_tensor()
    X = digits.data[digits.target < 3][60:80]
    with warnings.catch_warnings(action="ignore"):  # about other versions of libraries
        model = load_model(FILES / f"{name}.skops").model
    scores = model.decision_function(Views({"image": X, "edges": X}) if name == "digits-format3" else X)
    expected = np.array(SCORES[name])
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
