"""Calibration of class probabilities on all data sets with five or more classes.

Run ``OMP_NUM_THREADS=1 python -m benchmarks.probabilities [--only NAME,...] [--search]`` with TENSORMARGIN_DATA set. It
prints the tables of docs/method.md: of held-out samples the accuracy, the mean probability of the most probable class,
how often that class is right, and the expected calibration error (ten bins of equal width), all in percent; "by chance"
is the mean error of the same probabilities if they were exactly right, which is not zero with few samples, and "95 %"
its quantile; "sigmoids" is the error without power and share, as in 0.1, and "agree" says how often the most probable
class is the predicted one. With fewer than 400 samples, predictions are made several times for each, with other splits;
these are right or wrong together, by chance too.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import RepeatedStratifiedKFold

from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV, TensorScaler
from tensormargin.datasets import load_by_name
from tensormargin.fitting import class_probabilities

SETS = {  # decomposition, and every how many-th entry of each mode is used
    "digits": ("cp", ()),
    "mnist": ("full", (2, 2)),
    "orl": ("full", (4, 4)),
    "haxby": ("full", ()),
    "indian-pines": ("full", (1, 1, 8)),
    "ering": ("cp", ()),
    "libras": ("cp", ()),
    "robot-failures-lp2": ("full", ()),
    "robot-failures-lp5": ("full", ()),
    "precog-actions": ("cp", ()),
    "modis-matogrosso": ("full", ()),
}
MOST, FEWEST, BINS, FOLDS, PREDICTIONS, DRAWS = 600, 5, 10, 5, 600, 500


def read(name):
    """Return at most 600 different samples, scaled, of classes with at least five of them."""
    bunch, steps = load_by_name(name), SETS[name][1]
    rows = np.sort(np.random.RandomState(0).permutation(len(bunch.target))[:MOST])
    X = np.asarray(bunch.data[rows], np.float32)[(slice(None), *(slice(None, None, step) for step in steps))]
    y = np.asarray(bunch.target)[rows]
    kept = np.sort(np.unique(X.reshape(len(X), -1), axis=0, return_index=True)[1])  # copies would be in both parts
    classes, counts = np.unique(y[kept], return_counts=True)
    kept = kept[np.isin(y[kept], classes[counts >= FEWEST])]
    return TensorScaler().fit_transform(X[kept]), y[kept]


def model(name, scheme, search):
    """Return the classifier of a data set."""
    if search:
        grid = {"decompositions": (SETS[name][0],), "ranks": (2,), "lams": (0.1, 1.0), "mus": (0, 1)}
        return TensorMarginClassifierCV(**grid, multi_class=scheme, tol=1e-2, random_state=0)
    return TensorMarginClassifier(SETS[name][0], 2, multi_class=scheme, probability=True, tol=1e-2, random_state=0)


def calibration_error(probability, right):
    """Return the expected calibration error in percent."""
    bins = np.minimum((probability * BINS).astype(int), BINS - 1)
    return 100 * np.abs(np.bincount(bins, probability - right)).sum() / len(right)


def errors_by_chance(probability, tested):
    """Return calibration errors of probabilities that are exactly right, with one outcome per sample."""
    rng = np.random.default_rng(0)
    outcomes = (rng.random(tested.max() + 1)[tested] < probability for _ in range(DRAWS))
    return [calibration_error(probability, right) for right in outcomes]


def top(probabilities, classes, y):
    """Return the greatest probability of each sample, and whether it is right."""
    return np.array([probabilities.max(axis=1), classes[probabilities.argmax(axis=1)] == y])


def measured(name, scheme, search):
    """Return one row of the table."""
    X, y = read(name)
    repeats = max(1, round(PREDICTIONS / len(y)))
    found, alone, predicted, agrees, tested = [], [], [], [], []
    for train, test in RepeatedStratifiedKFold(n_splits=FOLDS, n_repeats=repeats, random_state=0).split(X, y):
        clf = model(name, scheme, search).fit(X[train], y[train])
        each, label = clf.predict_proba(X[test]), clf.predict(X[test])
        sigmoids = class_probabilities(clf.binary_scores(X[test]), clf.calibration_[:, :2], scheme)
        found.append(top(each, clf.classes_, y[test]))
        alone.append(top(sigmoids, clf.classes_, y[test]))
        predicted.append(label == y[test])
        agrees.append(clf.classes_[each.argmax(axis=1)] == label)
        tested.append(test)
    probability, right = np.concatenate(found, axis=1)
    chance = errors_by_chance(probability, np.concatenate(tested))
    shares = [100 * np.mean(one) for one in (np.concatenate(predicted), probability, right)]
    error, before = calibration_error(probability, right), calibration_error(*np.concatenate(alone, axis=1))
    numbers = [f"{number:.1f}" for number in (*shares, error, np.mean(chance), np.quantile(chance, 0.95), before)]
    cells = (name, len(np.unique(y)), len(y), scheme, *numbers, f"{100 * np.mean(np.concatenate(agrees)):.0f}")
    return "| " + " | ".join(map(str, cells)) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SETS))
    parser.add_argument("--search", action="store_true", help="TensorMarginClassifierCV instead of one classifier")
    given = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    shown = "data set, classes, samples, scheme, accuracy, mean probability, right"
    titles = f"{shown}, error, by chance, 95 %, sigmoids, agree".split(", ")
    print("| " + " | ".join(titles) + " |")
    print("|---" * len(titles) + "|")
    for name in given.only.split(","):
        for scheme in ("ovo", "ovr"):
            print(measured(name, scheme, given.search), flush=True)


if __name__ == "__main__":
    main()
