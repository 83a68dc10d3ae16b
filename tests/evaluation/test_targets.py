"""Labels that are no classes, or cannot be divided: one message in Python, on the command line and in a dry run."""

from __future__ import annotations

import re

import numpy as np
import pytest
from conftest import run

from tensormargin import TensorMarginAutoClassifier, TensorMarginClassifier, TensorMarginClassifierCV
from tensormargin.evaluation import CompareSettings, compare, fit_and_evaluate, nested_evaluation, permutation_test
from tensormargin.io import SampleSet

N = 60
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3, 8))
QUANTITIES = {"rt": RNG.gamma(2.0, 0.2, N), "count": np.r_[np.arange(N - 1), 0], "age": RNG.integers(20, 80, N)}
SEARCH = TensorMarginClassifierCV(decompositions=("cp",), ranks=(1,), lams=(1.0,), mus=(1.0,))
WAYS = {
    "search": lambda y: SEARCH.fit(X, y),
    "auto": lambda y: TensorMarginAutoClassifier().fit(X, y),
    "nested": lambda y: nested_evaluation(SEARCH, X, y),
    "permutations": lambda y: permutation_test(SEARCH, X, y, n_permutations=1),
    "compare": lambda y: compare(X, y, CompareSettings(methods=("STM",))),
    "workflow": lambda y: fit_and_evaluate(SampleSet(X, y, None, None, None, "x.npz", "file", ())),
}
MESSAGE = r"a quantity was found: (values such as|\d\d different values in 60 samples).*numpy\.digitize.*no regression"


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("name", QUANTITIES)
def test_quantities_are_refused(way, name):
    with pytest.raises(ValueError, match=MESSAGE):
        way(QUANTITIES[name])


def test_a_fit_without_folds_warns_of_whole_numbers():
    clf = TensorMarginClassifier("cp", 1, lam=10.0)
    with pytest.raises(ValueError, match=MESSAGE):
        clf.fit(X, QUANTITIES["rt"])
    with pytest.warns(UserWarning, match=MESSAGE):
        clf.fit(X, QUANTITIES["age"])


def test_names_are_no_classes():
    with pytest.raises(ValueError, match="names of samples were found: 60 different ones for 60 samples, such as 's0'"):
        SEARCH.fit(X, [f"s{k}" for k in range(N)])


@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["fit", "dry-run"])
class TestCommands:
    def refused(self, tmp_path, dry, *options, **arrays):
        np.savez(tmp_path / "x.npz", X=X, **arrays)
        done = run("fit", tmp_path / "x.npz", *options, *dry, "-o", tmp_path / "m.skops")
        assert done.returncode == 2, done.stdout
        assert not (tmp_path / "m.skops").exists()
        return done.stderr

    @pytest.mark.parametrize("name", QUANTITIES)
    def test_quantities(self, name, dry, tmp_path):
        message = self.refused(tmp_path, dry, "--labels", name, **QUANTITIES)
        assert re.search(rf"x\.npz: labels must be classes, and {MESSAGE}", message)
        assert "leave that sample out" not in message
        assert "--drop-rare" not in message
        rows = "\n".join(f"{value:.3f}" for value in QUANTITIES[name])
        (tmp_path / "y.csv").write_text(f"{name}\n{rows}\n")
        message = self.refused(tmp_path, dry, "--labels-from", tmp_path / "y.csv", "--labels", name)
        assert re.search(MESSAGE, message)

    def test_one_group(self, dry, tmp_path):
        y = np.arange(N) % 2
        message = self.refused(tmp_path, dry, y=y, groups=np.zeros(N, int))
        assert "all samples are in one group" in message
        assert "--no-groups" in message
        assert "--exclude-classes" not in message
        message = self.refused(tmp_path, dry, y=y, groups=y)
        assert "classes 0, 1 have 1. Name smaller groups" in message

    def test_too_few_to_choose_on(self, dry, tmp_path):
        message = self.refused(tmp_path, dry, y=np.arange(N) % 2, groups=np.arange(N) // (N // 2))
        assert "the training set of an outer fold (30 samples) is too small to choose on" in message
        message = self.refused(tmp_path, dry, y=np.zeros(N, int))
        assert "x.npz: a classifier needs samples of at least two classes; got one, 0" in message


def test_a_slip_is_told_by_its_row(tmp_path):
    y = (np.arange(N) % 2).astype(float)
    y[7] = 0.5
    np.savez(tmp_path / "x.npz", X=X, y=y)
    done = run("fit", tmp_path / "x.npz", "--dry-run")
    assert "row 8 has a value that is not an integer. Correct it, or leave that sample out" in done.stderr


@pytest.mark.parametrize(
    ("y", "note"),
    [
        ([0, 10, 25, 50, 100], "the classes 0, 10, 25, 50, 100 seem to have an order, which is not used"),
        (["0.5", "1", "5"], "the classes 0.5, 1, 5 seem to have an order"),
        (["0 %", "10 %", "50 %"], "seem to have an order"),
        (["mild", "moderate", "severe"], "the classes mild, moderate, severe seem to have an order"),
        (["Low", "high", "medium"], "seem to have an order"),
        (range(20, 32, 1), "the classes are 12 different numbers, 20, 21, 22, 23, 24 and 7 more: if"),
        ([0, 1, 2], None),
        ([1, 2], None),
        (["low", "high"], None),
        (["left", "right", "rest"], None),
    ],
)
def test_ordered_classes_are_noticed(y, note, tmp_path):
    y = np.resize(list(y), 48)
    np.savez(tmp_path / "x.npz", X=X[:48], y=y)
    done = run("fit", tmp_path / "x.npz", "--dry-run", "--folds", 2, "--outer-folds", 2)
    assert done.returncode == 0, done.stderr
    assert ("order" in done.stderr or "quantity" in done.stderr) == (note is not None)
    assert note is None or note in done.stderr
