"""Scores of candidates, smoothed over close ones."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..runtime import Array, FloatArray

_OWN, _PAIRS = 0.5, 0.5
"""Variance of a candidate's own part and of each axis' interactions with the others, where that of each axis is 1."""

_NOISE = (0.3, 1.0, 3.0, 10.0, 30.0)
"""Variance of a score on one split, where that between candidates is 1. Measured ratios are between 1 and 25."""


@dataclass(frozen=True)
class Smoothed:
    """Estimates of the candidates' mean scores over all splits.

    Attributes
    ----------
    mean : ndarray of shape (n_candidates,)
    covariance : ndarray of shape (n_candidates, n_candidates)
    """

    mean: FloatArray
    covariance: FloatArray

    def below(self, leader: int) -> tuple[FloatArray, FloatArray]:
        """Return how far the candidates are below the leader, and the standard errors of these differences."""
        variances = np.diag(self.covariance)
        squares = variances + variances[leader] - 2 * self.covariance[:, leader]
        return self.mean[leader] - self.mean, np.sqrt(np.maximum(squares, 0.0))


def similarity(levels: Sequence[Sequence[Hashable]]) -> FloatArray:
    """Return the prior covariance of the candidates' scores, up to a factor, with ones on the diagonal.

    Scores are modelled as a sum of effects of the axes of the grid, of their interactions in pairs, and of a part of
    each candidate's own, all random and independent.
    """
    columns = [np.unique([repr(one) for one in column], return_inverse=True)[1] for column in zip(*levels, strict=True)]
    same = [column[:, None] == column[None, :] for column in columns if column.max() > 0]
    total = _OWN * np.eye(len(levels))
    for one in same:
        total += one
    for one, other in combinations(same, 2):
        total += 2 * _PAIRS / (len(same) - 1) * (one & other)
    found: FloatArray = total / total[0, 0]
    return found


def smooth(prior: FloatArray, scores: Array) -> Smoothed:
    """Return the best linear unbiased prediction of all candidates' scores from those known so far.

    Parameters
    ----------
    prior : ndarray of shape (n_candidates, n_candidates)
        See `similarity`.
    scores : ndarray of shape (n_candidates, n_splits)
        NaN where a candidate has no score. The splits may differ in difficulty: their effects are fixed ones. The
        variance of a single score is estimated by (restricted) maximum likelihood.
    """
    known = np.isfinite(scores)
    known, scores = known[:, known.any(axis=0)], scores[:, known.any(axis=0)]
    level = float(scores[known].mean())  # subtracted, since differences may be small beside it
    centred: FloatArray = np.where(known, scores - level, 0.0).astype(np.float64)
    precision: FloatArray = np.linalg.inv(prior).astype(np.float64)
    best = max((_Fit.of(precision, known.astype(np.float64), centred, noise) for noise in _NOISE), key=_likelihood)
    n_splits = known.shape[1]
    inverse = cho_solve(best.factor, np.eye(n_splits + len(prior))[:, n_splits:])[n_splits:]
    mean = level + best.effects[n_splits:] + float(best.effects[:n_splits].mean())
    return Smoothed(mean, best.variance * inverse)


@dataclass(frozen=True)
class _Fit:
    """Effects of splits and candidates for one ratio of the variances."""

    likelihood: float
    factor: tuple[FloatArray, bool]
    effects: FloatArray
    variance: float

    @classmethod
    def of(cls, precision: FloatArray, known: FloatArray, scores: FloatArray, noise: float) -> _Fit:
        """Solve Henderson's equations for the scores that are known; the others are zero."""
        n_free = max(float(known.sum()) - known.shape[1], 1.0)
        own = np.diag(known.sum(axis=1)) + noise * precision
        factor = cho_factor(np.block([[np.diag(known.sum(axis=0)), known.T], [known, own]]), lower=True)
        right = np.concatenate([scores.sum(axis=0), scores.sum(axis=1)])
        effects = cho_solve(factor, right)
        rest = float(np.sum(scores**2)) - float(right @ effects)
        variance = max(rest / n_free, np.finfo(np.float64).tiny)
        logs = 2 * float(np.sum(np.log(np.diag(factor[0])))) - len(precision) * np.log(noise)
        return cls(-0.5 * (n_free * np.log(variance) + logs), factor, effects, variance)


def _likelihood(fit: _Fit) -> float:
    return fit.likelihood
