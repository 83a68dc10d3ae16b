"""Tests of what a reader concludes first: the score, what it compares with, which groups and classes fail."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest
from conftest import run

from tensormargin import TensorMarginClassifierCV, nested_evaluation
from tensormargin.io import less_probable, unequal_classes
from tensormargin.report import model_report
from tensormargin.report.sections import curves_section, predictions_section
from tensormargin.report.sentences import RULES, evaluation_lines, model_sentence

PLAIN = ("--decomposition", "cp", "--rank", 1, "--folds", 3, "--outer-folds", 4)
EVALUATION = {
    "score": {"name": "accuracy", "value": 0.8},
    "accuracy": 0.8,
    "balanced_accuracy": 0.8,
    "interval": [0.72, 0.86],
    "unit": "sample",
    "n_units": 120,
    "n_tested": 120,
    "n_untested": 0,
    "cut": "",
    "folds": [],
    "majority": {"label": "a", "score": 0.5, "accuracy": 0.5},
    "reference": {"name": "LinearSVC", "score": 0.75},
    "difference": {
        "low": -0.1,
        "high": 0.2,
        "difference": 0.05,
        "significant": False,
        "p_value": 0.6,
        "unit": "sample",
    },
    "samples": [{"label": label, "predicted": "a"} for label in "ab"],
}
CHANCE = {"p_value": 0.3, "n_permutations": 19, "smallest_p": 0.05}
SEVERAL = {"low": 0.01, "difference": 0.05, "significant": True}
ALIKE = {"low": -0.1, "difference": 0.0, "significant": False}


def rows_of(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def recordings(n=30):
    """Return samples of eight recordings, in one of which the classes are the other way round, labels and names."""
    rng, of = np.random.default_rng(0), np.repeat(np.arange(8), n)
    y = np.tile(["20 Hz", "30 Hz"], 4 * n)
    X = rng.normal(size=(8 * n, 3, 5))
    X[:, 1, 2] += 2.0 * np.where(y == "30 Hz", 1, -1) * np.where(of == 3, -0.4, 1)
    return X, y, np.array([f"rec{k}" for k in of])


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Return the folder with the files of a fit to the recordings, and what it printed."""
    folder = tmp_path_factory.mktemp("recordings")
    X, y, names = recordings()
    np.savez(folder / "eeg.npz", X=X, y=y, recording=names)
    done = run("fit", folder / "eeg.npz", "--groups", "recording", *PLAIN)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


class TestGroups:
    def test_of_an_evaluation(self):
        X, y, names = recordings(12)
        search = TensorMarginClassifierCV(decompositions=("cp",), ranks=(1,), lams=(1.0,), mus=(1.0,), cv=2)
        found = nested_evaluation(search, X, y, names, cv=4)
        rows = {name: names == name for name in names}
        assert {name: one.score for name, one in found.by_group.items()} == {
            name: pytest.approx(np.mean(found.predicted[0, own] == y[own])) for name, own in rows.items()
        }
        assert next(iter(found.by_group)) == "rec3"
        assert [one.score for one in found.by_group.values()] == sorted(one.score for one in found.by_group.values())
        assert sorted(name for fold in found.folds for name in fold.groups) == sorted(rows)
        assert "rec3" in repr(found)
        assert nested_evaluation(search, X, y, cv=2).by_group == {}

    def test_that_fail_are_named_in_the_console_and_the_report(self, fitted):
        folder, printed = fitted
        page = (folder / "eeg.html").read_text()
        lead = re.search(r'class="sentence">([^<]*)', page)[1].replace("\xa0", " ")
        assert lead.startswith("Correct on ")
        assert "always answering 20 Hz: 50.0 %. One of the 8 groups fails: rec3 (" in lead
        assert "groups fails: rec3 (" in printed
        assert re.search(r"Accuracy by group, worst first: rec3 \([\d.]+ %\), rec\d", printed)
        assert '<section id="groups"' in page
        assert len(re.findall(r"<td>tests rec\d, rec\d</td>", page)) == 4

    def test_are_in_the_facts_of_the_model(self, fitted):
        done = run("inspect", fitted[0] / "eeg.skops", "--json")
        evaluation = json.loads(done.stdout)["about"]["evaluation"]
        worst = evaluation["groups"][0]
        assert (worst["group"], worst["n_samples"]) == ("rec3", 30)
        own = [row for row in evaluation["samples"] if row["group"] == "rec3"]
        assert worst["accuracy"] == pytest.approx(np.mean([row["label"] == row["predicted"] for row in own]))
        assert sorted(name for fold in evaluation["folds"] for name in fold["groups"]) == [f"rec{k}" for k in range(8)]

    def test_of_predictions(self, fitted):
        folder, _ = fitted
        options = ("predict", folder / "eeg.skops", folder / "eeg.npz", "--groups", "recording", "-o", folder / "p.csv")
        assert "Accuracy by group, worst first: rec3 " in run(*options).stdout
        found = json.loads(run(*options, "--json").stdout)["by_group"]
        rows = rows_of(folder / "p.csv")
        own = [row["label"] == row["predicted"] for row in rows if row["group"] == "rec3"]
        assert found["rec3"]["accuracy"] == pytest.approx(np.mean(own))

    def test_of_few_samples_do_not_fail_by_chance(self):
        groups = [{"group": k, "n_samples": 1, "accuracy": k > 1, "interval": [0, 0.8]} for k in range(12)]
        assert "fail" not in model_sentence("ab", {**EVALUATION, "groups": groups}, None)

    def test_that_differ_and_few_units_explain_a_wide_interval(self):
        wide = {**EVALUATION, "interval": [0.6, 0.95], "unit": "group", "n_units": 8}
        assert "The interval is wide since it rests on 8 groups." in model_sentence("ab", wide, None)
        ends = [(0.7, [0.6, 0.75]), (0.9, [0.85, 0.95])]
        wide["groups"] = [{"group": "s", "n_samples": 90, "accuracy": at, "interval": own} for at, own in ends]
        said = model_sentence("ab", wide, None)
        assert "The interval is wide since the groups differ, from s (70.0 %) to s (90.0 %)." in said
        assert "wide" not in model_sentence("ab", EVALUATION, None)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Return a file with 10 of 200 samples of a rare class that differ a little."""
    folder, rng = tmp_path_factory.mktemp("parts"), np.random.default_rng(0)
    y = np.where(np.arange(200) % 20, "good", "scrap")
    X = rng.normal(size=(200, 3, 4))
    X[y == "scrap", 0, 0] += 1.0
    np.savez(folder / "parts.npz", X=X, y=y)
    return folder


class TestRareClasses:
    def test_headline_and_predictions_name_them_and_the_remedy(self, parts):
        done = run("fit", parts / "parts.npz", *PLAIN)
        remedy = "(scrap: 0 of 10). Always answering good does as well. Fit with --balanced"
        lead = re.search(r'class="sentence">([^<]*)', (parts / "parts.html").read_text())[1].replace("\xa0", " ")
        predicted = run("predict", parts / "parts.skops", parts / "parts.npz", "-o", parts / "p.csv")
        for text in (lead, done.stdout, predicted.stdout):
            assert "balanced accuracy 50.0 %, worst recall 0.0 % (scrap" in text
        assert remedy in lead
        assert "tells" not in lead

    def test_the_remedy_is_not_given_twice(self, parts):
        done = run("fit", parts / "parts.npz", *PLAIN, "--balanced", "--no-report", "-o", parts / "balanced.skops")
        assert "worst recall" in done.stdout
        assert "--balanced" not in done.stdout

    def test_of_similar_size_nothing_is_said(self):
        assert unequal_classes({"a": 5, "b": 9}, {"a": 10, "b": 12}) == unequal_classes({}, {}) == ""
        assert unequal_classes({"a": 90, "b": 5}, {"a": 90, "b": 10}).endswith("50.0 % (b: 5 of 10).")


@pytest.mark.parametrize(
    ("changed", "chance", "said"),
    [
        ({}, None, "(95 % interval 72.0 to 86.0, 120 samples); always answering a: 50.0 %."),
        ({}, None, "Not significantly different from a flat LinearSVC (75.0 %)."),
        (
            {"interval": [0.4, 0.9]},
            None,
            "The interval includes 50.0 %: not shown to be better than always answering a.",
        ),
        ({}, CHANCE, "Not shown to be better than chance (p = 0.3)."),
        ({}, {**CHANCE, "p_value": 0.05}, "Significantly better than chance (p = 0.05)."),
        (
            {"difference": {"low": -0.2, "high": -0.1, "difference": -0.15, "significant": True}},
            None,
            "Significantly worse than a flat LinearSVC (75.0 %).",
        ),
        (
            {"matched": {"score": 0.85, "difference": ALIKE}},
            None,
            "from a flat LinearSVC on the samples as they are (75.0 %) or on the chosen representation (85.0 %).",
        ),
        (
            {"difference": SEVERAL, "matched": {"score": 0.85, "difference": ALIKE}},
            None,
            "Significantly better than a flat LinearSVC on the samples as they are (75.0 %), but not significantly "
            "different from one on the chosen representation (85.0 %).",
        ),
        (
            {"interval": [None, None], "difference": {"low": None}, "n_units": 3, "unit": "group"},
            None,
            "3 groups are too few to tell whether that is better than always answering a.",
        ),
    ],
)
def test_the_first_sentences_state_score_reference_interval_and_verdicts(changed, chance, said):
    sentence = model_sentence(["a", "b"], {**EVALUATION, **changed}, chance)
    assert said in sentence
    assert sentence.startswith("Correct on 80.0 % of held-out samples (")


def test_a_balanced_score_is_named():
    balanced = {**EVALUATION, "score": {"name": "balanced accuracy", "value": 0.7}}
    assert model_sentence("ab", balanced, None).startswith("Balanced accuracy of 70.0 % on held-out samples (95 %")


def test_without_an_evaluation_it_says_so():
    for classes, names in ((list("abc"), "a, b and c"), (range(15), "15 classes")):
        said = f"This model was not evaluated: how well it tells {names} apart on new samples is unknown."
        assert model_sentence(classes, None, None) == said


def test_a_model_below_chance_does_not_tell_classes_apart():
    below = {**EVALUATION, "score": {"name": "accuracy", "value": 0.458}, "accuracy": 0.458, "interval": [0.37, 0.55]}
    for said in (model_sentence(["F", "M"], below, None), " ".join(evaluation_lines(below, None))):
        assert "That is not better than always answering a." in said
        assert "tells" not in said


def test_what_a_budget_cut_is_not_called_too_few_samples():
    nothing = {**EVALUATION["difference"], "low": None, "high": None}
    folds, cut = [{"cut": ["search"], "unseen": [], "absent": []}], "cut the search in 1 of 1 outer folds"
    said = model_sentence("ab", {**EVALUATION, "folds": folds, "cut": cut, "difference": nothing}, None)
    assert said.endswith(f"Not compared with a flat LinearSVC (75.0 %): the budget {cut}.")
    assert "too few" not in said


def held_out(probability, n_right, n=100):
    """Return an evaluation in which each prediction has a probability, and some are right."""
    row = {"predicted": "a", "probability": probability, "group": None}
    rows = [{**row, "sample": str(k), "label": "a" if k < n_right else "b"} for k in range(n)]
    return {"samples": rows, "repeats": 1}


@pytest.mark.parametrize(
    ("probability", "verdict"),
    [(0.84, "not shown to be over- or underconfident"), (0.6, "the model is underconfident"), (0.97, "overconfident")],
)
def test_confidence_is_judged_by_the_interval(probability, verdict):
    assert verdict in curves_section(held_out(probability, 80), ["a", "b"]).content["text"]


def test_a_class_that_is_not_the_most_probable_one_is_explained_where_it_stands():
    text = predictions_section(held_out(0.4, 80)).content["text"]
    assert less_probable(100) in text
    assert "For 100 samples another class is more probable than the predicted one." in text
    assert "more probable" not in predictions_section(held_out(0.6, 80)).content["text"]


def test_predictions_count_what_is_not_the_most_probable_class(tmp_path):
    rng, y = np.random.default_rng(0), np.repeat(["a", "b"], [70, 10])
    X = rng.normal(size=(80, 3, 4)) + 0.8 * (y == "b")[:, None, None]
    np.savez(tmp_path / "x.npz", X=X, y=y)
    fit = ("fit", tmp_path / "x.npz", "--decomposition", "full", "--folds", 3, "--outer-folds", 0, "--balanced")
    assert run(*fit, "--no-report").returncode == 0
    done = run("predict", tmp_path / "x.skops", tmp_path / "x.npz", "-o", tmp_path / "p.csv", "--json")
    rows = rows_of(tmp_path / "p.csv")
    n_less = sum(float(row[f"probability of {row['predicted']}"]) < 0.5 for row in rows)
    assert json.loads(done.stdout)["n_less_probable"] == n_less > 0
    told = run("predict", tmp_path / "x.skops", tmp_path / "x.npz", "-o", tmp_path / "p.csv")
    assert less_probable(n_less) in told.stdout


def test_figures_of_a_search_state_the_rule_beside_what_scored_higher(monkeypatch):
    captions = []
    monkeypatch.setattr(model_report, "picture", lambda *_, caption, **options: captions.append(caption))
    rng, y = np.random.default_rng(1), np.arange(60) % 2
    X = rng.normal(size=(60, 3, 4))
    grid = {"decompositions": ("full", "cp"), "ranks": (1, 2), "lams": (0.01, 1.0, 100.0), "mus": (1.0,), "cv": 3}
    search = TensorMarginClassifierCV(**grid, rule="simplest", exhaustive=True).fit(X, y)
    scores = search.cv_results_["mean_test_score"] = np.linspace(0.5, 0.9, 9)
    for selected, said in ((8, ""), (7, " 1 model scored higher than the selected one."), (4, " 4 models scored ")):
        search.best_index_, search.best_score_ = selected, float(scores[selected])
        captions.clear()
        model_report.chosen_section(search, {})
        assert len(captions) == 2
        for caption in captions:
            *_, rule, rest = caption.partition(f"The rule is to take {RULES['simplest']}.")
            assert rule
            assert rest.startswith(said)
            assert bool(rest) == bool(said)
