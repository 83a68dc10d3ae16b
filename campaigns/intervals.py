"""Coverage of the intervals of cross-validated scores and differences, by simulation.

Two classes of normal samples are told apart by the nearest of two means, in five folds. A case is a number of samples,
an accuracy and a number of features; it is clean if the 95 % intervals of its data sets hold the expected score in 90
to 99 % of them. The expected score is known: that of a linear classifier on normal samples is a normal probability.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from campaigns.outcome import Outcome
from tensormargin import TensorMarginClassifierCV
from tensormargin.evaluation.intervals import paired_difference, score_interval

Rng = np.random.Generator

RARE, LARGE = "balanced accuracy, 8 rare samples", "8 groups of one class"
KINDS = ("accuracy", "balanced accuracy", RARE, "groups of both classes", "groups of one class", LARGE)
SIZES = (40, 100, 400)
ACCURACIES = (0.5, 0.75, 0.95)
LEAST, MOST = 0.90, 0.99
FEW = 10  # features; there are as many as samples in other cases
_FOLDS, _PER_GROUP = 5, 4
_ALIKE = 0.5  # correlation of two samples of one group and class
_AT_A_TIME = 4_000_000  # numbers that are drawn together


@dataclass(frozen=True)
class Setting:
    """Data sets of one kind, size, accuracy and number of features."""

    kind: str
    n_samples: int
    accuracy: float
    n_features: int

    def __str__(self) -> str:
        return f"{self.kind}, {self.n_samples} samples, {self.n_features} features, {100 * self.accuracy:.0f} %"

    @property
    def labels(self) -> Any:
        """Half of the samples in each class; three in ten, or eight of them, for balanced accuracy."""
        number = np.arange(self.n_samples)
        if self.kind.endswith("of one class"):
            return number // self.per_group % 2
        if self.kind == RARE:
            return (number < 8).astype(int)
        return (number % 10 < 3).astype(int) if self.kind == "balanced accuracy" else number % 2

    @property
    def per_group(self) -> int:
        """Number of samples in a group."""
        return self.n_samples // 8 if self.kind == LARGE else _PER_GROUP

    @property
    def groups(self) -> Any:
        """Groups of four samples, eight groups, or None."""
        return np.arange(self.n_samples) // self.per_group if "groups" in self.kind else None

    @property
    def folds(self) -> Any:
        """Folds of whole groups, and of the same number of samples or groups of each class."""
        if self.kind == "groups of both classes":
            return self.groups % _FOLDS
        folds = np.empty(self.n_samples, int)
        for own in (np.flatnonzero(self.labels == label) for label in (0, 1)):
            folds[own] = np.arange(len(own)) // (1 if self.groups is None else self.per_group) % _FOLDS
        return folds

    @property
    def n_train(self) -> float:
        """Mean size of the training sets."""
        return self.n_samples * (1 - 1 / _FOLDS)

    @property
    def strata(self) -> Any:
        """The classes for balanced accuracy, otherwise None."""
        return self.labels if self.kind.startswith("balanced") else None

    @property
    def distance(self) -> float:
        """Distance of the classes at which the nearest mean has the accuracy."""
        one_class = self.kind.endswith("of one class")
        together = 1 if self.groups is None else self.per_group // (1 if one_class else 2)
        noise = (
            4 * self.n_features / self.n_train * (1 + _ALIKE * (together - 1))
        )  # variance of the difference of means
        z = ndtri(self.accuracy)
        return float(np.sqrt(2 * z**2 + 2 * z * np.sqrt(z**2 + noise)))


def data_sets(setting: Setting, number: int, rng: Rng) -> Iterator[tuple[Any, Any]]:
    """Yield which held-out predictions of two methods are right, and the probability that each is.

    The methods are equally good: each has features of its own, one of them with the classes, and half of its features
    in common with the other. Both arrays are of shape (2, n_samples).
    """
    own = setting.n_features
    while number > 0:
        count = min(number, max(1, _AT_A_TIME // (2 * own * setting.n_samples)))
        number -= count
        X = rng.standard_normal((count, setting.n_samples, own + own // 2))
        if setting.groups is not None:
            both = 2 * setting.groups + setting.labels
            shared = rng.standard_normal((count, both.max() + 1, X.shape[2]))[:, both]
            X = np.sqrt(1 - _ALIKE) * X + np.sqrt(_ALIKE) * shared
        X[:, :, [0, -1]] += setting.distance * (setting.labels[:, None] - 0.5)
        found = np.stack([_nearest_mean(part, setting) for part in (X[:, :, :own], X[:, :, : -own - 1 : -1])])
        yield from zip(found[:, 0].swapaxes(0, 1), found[:, 1].swapaxes(0, 1), strict=True)


def _nearest_mean(X: Any, setting: Setting) -> Any:
    """Return which held-out predictions are right, and the probability that each is; the first feature has the classes.

    Parameters
    ----------
    X : ndarray of shape (n_data_sets, n_samples, n_features)

    Returns
    -------
    ndarray of shape (2, n_data_sets, n_samples)
    """
    y, found = setting.labels, np.empty((2, *X.shape[:2]))
    for fold in range(_FOLDS):
        test = setting.folds == fold
        means = [X[:, ~test & (y == label)].mean(axis=1) for label in (0, 1)]
        weight = means[1] - means[0]
        offset = np.sum(weight * (means[0] + means[1]) / 2, axis=1, keepdims=True)
        sign = 2 * y[test] - 1
        found[0][:, test] = sign * (np.einsum("dnf,df->dn", X[:, test], weight) - offset) > 0
        mean_score = setting.distance / 2 * weight[:, :1] - sign * offset
        found[1][:, test] = ndtr(mean_score / np.linalg.norm(weight, axis=1, keepdims=True))
    return found


def coverage(setting: Setting, number: int, seed: int) -> tuple[float, float]:
    """Return how often intervals of simulated data sets hold the expected score, and the difference of zero."""
    found = list(data_sets(setting, number, np.random.default_rng([seed, setting.n_samples, setting.n_features])))
    known = np.mean([probability for _, probability in found], axis=(0, 1))
    parts = [slice(None)] if setting.strata is None else [setting.strata == label for label in (0, 1)]
    expected = np.mean([known[own].mean() for own in parts])
    given = setting.groups, setting.strata
    scores = [score_interval(right[0], *given, setting.n_train) for right, _ in found]
    differences = [paired_difference(*right, *given, n_train=setting.n_train) for right, _ in found]
    return _share_inside(scores, expected), _share_inside(differences, 0.0)


def _share_inside(intervals: list[Any], value: float) -> float:
    return float(np.mean([one.low <= value <= one.high for one in intervals]))


def intervals_of_scores(number: int, seed: int) -> list[Outcome]:
    """Simulate ``number`` data sets of each setting; return one outcome per kind, and one of all differences."""
    outcomes, differences, lowest = [], Outcome("intervals: differences"), 1.0
    for kind in KINDS:
        outcomes.append(outcome := Outcome(f"intervals: {kind}"))
        for n_samples in SIZES:
            shares = []
            for setting in (Setting(kind, n_samples, one, f) for one in ACCURACIES for f in (FEW, n_samples)):
                score, difference = coverage(setting, number, seed)
                outcome.add(f"{setting}, seed {seed}", _faults(score, number))
                differences.add(f"{setting}, seed {seed}", _faults(min(difference, MOST), number))
                shares.append(score)
                lowest = min(lowest, difference)
            outcome.note(f"{n_samples} samples: {100 * min(shares):.1f} to {100 * max(shares):.1f} %")
    differences.note(f"at least {100 * lowest:.1f} %")
    return [*outcomes, differences]


def _margin(share: float, number: int) -> float:
    """Return three standard errors of a simulated share: there are many cases."""
    return 3 * float(np.sqrt(share * (1 - share) / number))


def _faults(covered: float, number: int) -> list[str]:
    inside = LEAST - _margin(LEAST, number) <= covered <= MOST + _margin(MOST, number)
    return [] if inside else [f"{100 * covered:.1f} % of the intervals cover the true value"]


def intervals_of_searches(number: int, seed: int) -> Outcome:
    """Evaluate searches on 40 samples of 6 x 8, ``number`` data sets for each of three strengths of the signal."""
    outcome, pattern = Outcome("intervals of searches"), np.outer(np.sin(np.arange(6)), np.cos(np.arange(8)))
    pattern /= np.linalg.norm(pattern)
    setting = Setting("accuracy", 40, 0.0, 48)
    for strength in (0.0, 1.2, 2.4):
        rng = np.random.default_rng([seed, int(10 * strength)])
        found = [_searched(setting, strength * pattern, rng) for _ in range(number)]
        expected = np.mean([known for _, known in found])
        covered = _share_inside([score_interval(right, n_train=setting.n_train) for right, _ in found], expected)
        outcome.add(f"strength {strength}, {number} data sets, seed {seed}", _faults(covered, number))
        outcome.note(f"accuracy {100 * expected:.0f} %: {100 * covered:.0f} %")
    return outcome


def _searched(setting: Setting, pattern: Any, rng: Rng) -> tuple[Any, float]:
    """Return which held-out predictions of a search are right, and the mean accuracy of its models on new samples."""
    search = TensorMarginClassifierCV(("full", "cp"), (1, 2), mus=(0.0, 10.0), cv=3, random_state=0)
    y, right, known = setting.labels, np.empty(setting.n_samples), []
    new_y = np.arange(1000) % 2
    X, new = (np.multiply.outer(2 * one - 1, pattern) + rng.standard_normal((len(one), 6, 8)) for one in (y, new_y))
    for fold in range(_FOLDS):
        test = setting.folds == fold
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search.fit(X[~test], y[~test])
        right[test] = search.predict(X[test]) == y[test]
        known.append(search.score(new, new_y))
    return right, float(np.mean(known))
