"""Probabilities of rare classes, and of models that a search has chosen, compared with how often they come true.

A case is a set of random problems of one kind. It is bad if the mean probability, of the rare class or, for a search,
of the most probable class, is more than `MOST` points too high, by more than two standard errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from campaigns.outcome import Outcome
from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV

PROBLEMS, NEW = 20, 1000  # per case, and new samples per problem
MOST = 2.0
SHAPE = (8, 12)


@dataclass(frozen=True)
class Kind:
    """A kind of problems.

    Attributes
    ----------
    name : str
    n_samples : int
    shares : tuple of float
        Of the classes; the last one is the rare one.
    distance : float
        Of the means of two classes, in standard deviations of an entry.
    search : bool
        Whether the model is chosen by a search; it is then about the predicted class instead of the rare one.
    """

    name: str
    n_samples: int
    shares: tuple[float, ...]
    distance: float = 2.0
    search: bool = False

    def model(self, seed: int) -> Any:
        """Return a classifier with probabilities."""
        if self.search:
            return TensorMarginClassifierCV(random_state=seed)
        return TensorMarginClassifier(probability=True, random_state=seed)


KINDS = (
    Kind("a class of 20 % of 40 samples", 40, (0.8, 0.2)),
    Kind("one of three classes, 10 % of 100 samples", 100, (0.45, 0.45, 0.1)),
    Kind("a class of 10 % of 40 samples", 40, (0.9, 0.1)),
    Kind("a class of 10 % of 60 samples", 60, (0.9, 0.1)),
    Kind("a class of 20 % of 60 samples", 60, (0.8, 0.2)),
    Kind("half of 60 samples", 60, (0.5, 0.5)),
    Kind("search in 60 samples", 60, (0.5, 0.5), search=True),
    Kind("search in 60 samples at chance", 60, (0.5, 0.5), 0.0, search=True),
)


def samples(kind: Kind, means: Any, number: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Draw samples whose classes have exactly their shares."""
    y = np.repeat(np.arange(len(kind.shares)), np.round(np.multiply(kind.shares, number)).astype(int))
    return rng.normal(means[y]), y


def stated_and_true(kind: Kind, seed: list[int]) -> tuple[float, float]:
    """Return the mean probability of a class in new samples, and how many are of it, in percent."""
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(len(kind.shares), length)) for length in SHAPE]
    means = np.einsum("ki,kj->kij", *(one / np.linalg.norm(one, axis=1, keepdims=True) for one in factors))
    means *= kind.distance / np.sqrt(2)
    model = kind.model(seed[-1]).fit(*samples(kind, means, kind.n_samples, rng))
    X, y = samples(kind, means, NEW, rng)
    probabilities = model.predict_proba(X)
    if kind.search:
        return 100 * float(probabilities.max(axis=1).mean()), 100 * float(np.mean(probabilities.argmax(axis=1) == y))
    return 100 * float(probabilities[:, -1].mean()), 100 * float(np.mean(y == y.max()))


def true_probabilities(number: int, seed: int) -> list[Outcome]:
    """Return how many sets of problems have probabilities that come true, by kind."""
    outcomes = [Outcome(f"probabilities: {kind.name}") for kind in KINDS]
    for case in range(number):
        kind, outcome = KINDS[case % len(KINDS)], outcomes[case % len(KINDS)]
        found = np.array([stated_and_true(kind, [seed, case, problem]) for problem in range(PROBLEMS)])
        excess = found[:, 0] - found[:, 1]
        bias, error = excess.mean(), excess.std() / np.sqrt(PROBLEMS)
        fault = f"{bias:.1f} points too high, ± {error:.1f}"
        outcome.add(f"seed {seed}, case {case}", [fault] if bias > MOST + 2 * error else [])
        expected, happened = np.round(NEW / 100 * found.sum(axis=0)).astype(int).tolist()
        outcome.counts["by the probabilities"] += expected
        outcome.counts["in truth"] += happened
    return [outcome for outcome in outcomes if outcome.tried]
