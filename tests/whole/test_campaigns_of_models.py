"""Tests of the campaigns: they find what is wrong. `python -m campaigns --quick` is the rest."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # campaigns are not installed

from campaigns import chances, checkpoints, models, problems
from campaigns.outcome import EXAMPLES, Outcome

from tensormargin.io import checksums


def test_an_outcome_counts_and_keeps_examples():
    outcome = Outcome("cases")
    for case in range(4 * EXAMPLES):
        outcome.add(f"case {case}", ["wrong"] * (case % 2))
    assert (outcome.tried, outcome.clean, outcome.bad) == (4 * EXAMPLES, 2 * EXAMPLES, 2 * EXAMPLES)
    assert len(outcome.examples) == EXAMPLES
    assert str(outcome).startswith("cases: 80 tried, 40 clean, 40 bad\n  bad: case 1: wrong\n")


def test_random_problems_satisfy_all_checks(monkeypatch):
    assert problems.random_problems(6, seed=0).bad == 0
    assert problems.permuted_modes(6, seed=0).bad == 0
    monkeypatch.setattr(problems, "CHECKS", (lambda *_: ["never"], problems.finite))
    assert problems.random_problems(2, seed=0).bad == 2


def test_damaged_units_that_are_read_are_bad(monkeypatch):
    monkeypatch.setattr(checkpoints, "COMPUTATIONS", {"searched": checkpoints.searched})
    assert checkpoints.damaged_units(6, seed=0).bad == 0
    monkeypatch.setattr("tensormargin.data.checkpoints._read", lambda path: json.loads(path.read_bytes()))
    assert checkpoints.damaged_units(6, seed=0).bad > 0


def test_probabilities_that_do_not_come_true_are_bad(monkeypatch):
    monkeypatch.setattr(chances, "PROBLEMS", 2)
    found = chances.true_probabilities(1, seed=0)
    assert [(one.tried, one.counts["in truth"]) for one in found] == [(1, 400)]
    monkeypatch.setattr(chances, "stated_and_true", lambda kind, seed: (12.5, 10.0))
    found = chances.true_probabilities(len(chances.KINDS) + 1, seed=0)
    assert [one.bad for one in found] == [2] + [1] * (len(chances.KINDS) - 1)
    assert "2.5 points too high" in str(found[0])


@pytest.mark.campaign
def test_changed_models_that_are_accepted_are_bad(monkeypatch):
    monkeypatch.setattr(checksums, "_digest", lambda path, size: "0" * 64)  # no change is noticed any more
    found = models.tampered_models(12, seed=0)
    assert "was accepted" in str(found)
