"""Errors and power of comparisons, by simulation: seven nearest-mean classifiers, told apart as `compare` does.

All methods see the same noise in part, so that they are right and wrong together. Where all are equally good, any
significant difference is an error. Where one is 15 points better than the others, it should be found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from campaigns.outcome import Outcome
from tensormargin.evaluation import CompareRow, CompareSettings, differences_from
from tensormargin.evaluation.comparison import comparison_splits

METHODS = tuple(f"method {number}" for number in range(7))
SETTINGS = ((60, 10), (120, 10), (120, 120), (400, 10))  # samples and features
ACCURACIES = (0.6, 0.75, 0.9)
GAIN = 0.15  # of the better method, at 120 samples
_SHARED = 0.5  # correlation of the noise of two methods


def comparison(n_samples: int, n_features: int, accuracies: Sequence[float], rng: np.random.Generator) -> list[Any]:
    """Return the differences between methods with these expected accuracies, from one simulated data set."""
    y, settings = np.arange(n_samples) % 2, CompareSettings(METHODS, seed=int(rng.integers(2**31 - 1)))
    splits = comparison_splits(y, settings, None)
    n_train = len(splits[0][0])
    # 1. A distance d of the classes at which the nearest mean, estimated from n_train samples, has the accuracy.
    z = ndtri(np.asarray(accuracies))
    distance = np.sqrt(2 * z**2 + 2 * z * np.sqrt(z**2 + 4 * n_features / n_train))
    # 2. Features of each method: noise of its own, noise that all share, and the classes in the first one.
    shape = n_samples, n_features
    X = np.sqrt(1 - _SHARED) * rng.standard_normal((len(METHODS), *shape)) + np.sqrt(_SHARED) * rng.standard_normal(
        shape
    )
    X[:, :, 0] += distance[:, None] * (y - 0.5)
    # 3. Held-out predictions of each method on each split.
    rows = []
    for repeat, (train, test) in enumerate(splits):
        negative, positive = (X[:, train[y[train] == label]].mean(axis=1) for label in (0, 1))
        weight = positive - negative
        scores = np.einsum("mnf,mf->mn", X[:, test] - (positive + negative)[:, None] / 2, weight)
        right = (scores > 0) == y[test]
        rows += [
            CompareRow(name, repeat, 0, own.mean(), 0, None, 0, 0, 0, len(train), len(test), True, test, own)
            for name, own in zip(METHODS, right, strict=True)
        ]
    return differences_from(METHODS[0], rows, METHODS)


def errors_and_power(number: int, seed: int) -> list[Outcome]:
    """Compare methods on ``number`` data sets of each setting."""
    errors, power = Outcome("comparisons: equally good methods"), Outcome("comparisons: one better by 15 points")
    for n_samples, n_features in SETTINGS:
        wrong, found = [], []
        for accuracy in ACCURACIES:
            rng = np.random.default_rng([seed, n_samples, n_features, round(100 * accuracy)])
            equal = [comparison(n_samples, n_features, [accuracy] * 7, rng) for _ in range(number)]
            wrong.append(np.mean([any(one.significant for one in differences) for differences in equal]))
            if n_samples == 120:
                accuracies = np.array([0, GAIN, 0, 0, 0, 0, 0]) + accuracy - GAIN / 2
                better = [comparison(n_samples, n_features, accuracies, rng)[0] for _ in range(number)]
                found.append(np.mean([one.significant and one.difference > 0 for one in better]))
        setting = f"{n_samples} samples, {n_features} features"
        margin = 3 * np.sqrt(0.06 * 0.94 / (number * len(wrong)))
        share = float(np.mean(wrong))
        faults = [f"{100 * share:.1f} % have a false difference"] if share > 0.06 + margin else []
        errors.add(f"{setting}, seed {seed}", faults)
        errors.note(f"{setting}: {100 * min(wrong):.1f} to {100 * max(wrong):.1f} %")
        if found:
            margin, share = 3 * 0.5 / np.sqrt(number * len(found)), float(np.mean(found))
            power.add(f"{setting}, seed {seed}", [f"found in {100 * share:.1f} %"] if share < 0.5 - margin else [])
            power.note(f"{setting}: found in {100 * min(found):.1f} to {100 * max(found):.1f} %")
    return [errors, power]
