"""ROC and reliability curves of held-out probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import auc, roc_curve

from ..runtime import Array, FloatArray
from .intervals import score_interval

_MOST_BINS, _SMALLEST_BIN = 8, 10


@dataclass(frozen=True)
class RocCurve:
    """The trade-off between two kinds of errors, over all thresholds of the probability of a class.

    Attributes
    ----------
    false_rate, true_rate : ndarray
        Shares of the other samples, and of the samples of the class, above each threshold, from the highest one down.
    area : float
        Area under the curve: the probability that a sample of the class has a higher probability than another one.

    Examples
    --------
    >>> from tensormargin.evaluation import roc
    >>> curve = roc([True, True, False, False], [0.9, 0.4, 0.6, 0.1])
    >>> curve.false_rate, curve.true_rate
    (array([0. , 0. , 0.5, 0.5, 1. ]), array([0. , 0.5, 0.5, 1. , 1. ]))
    """

    false_rate: FloatArray
    true_rate: FloatArray
    area: float


@dataclass(frozen=True)
class Reliability:
    """How often the predicted event happens, for samples with similar probabilities.

    Attributes
    ----------
    probability, observed : ndarray of shape (n_bins,)
        Mean probability and share of the samples where the event happened.
    low, high : ndarray of shape (n_bins,)
        95 % intervals of the shares, NaN where there are too few groups.
    count : ndarray of shape (n_bins,)
        Number of predictions.

    Examples
    --------
    >>> from tensormargin.evaluation import reliability
    >>> curve = reliability([True, False] * 10, [0.5] * 20)
    >>> curve.probability, curve.observed, curve.count
    (array([0.5]), array([0.5]), array([20]))
    """

    probability: FloatArray
    observed: FloatArray
    low: FloatArray
    high: FloatArray
    count: Array


def roc(of_class: Any, probability: Any) -> RocCurve | None:
    """Return the ROC curve of a class; None if all samples, or none, belong to it.

    Parameters
    ----------
    of_class : array-like of bool, of shape (n_predictions,)
        Which samples belong to the class.
    probability : array-like of shape (n_predictions,)
        Held-out probabilities of the class.

    Examples
    --------
    >>> from tensormargin.evaluation import roc
    >>> roc([True, True, False, False], [0.9, 0.4, 0.6, 0.1]).area
    0.75
    >>> roc([True, True], [0.9, 0.4]) is None
    True
    """
    own = np.asarray(of_class, bool)
    if own.all() or not own.any():
        return None
    false_rate, true_rate, _ = roc_curve(own, np.asarray(probability, np.float64))
    return RocCurve(false_rate, true_rate, float(auc(false_rate, true_rate)))


def reliability(happened: Any, probability: Any, units: Any = None) -> Reliability:
    """Return the reliability curve of some probabilities, in bins with about as many predictions each.

    Bins, means and shares are those of scikit-learn's `calibration_curve` with quantiles, which has no counts, and no
    intervals by group.

    Parameters
    ----------
    happened : array-like of bool, of shape (n_predictions,)
    probability : array-like of shape (n_predictions,)
    units : array-like of shape (n_predictions,), optional
        Groups of predictions that are not independent.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.evaluation import reliability
    >>> probability = np.repeat([0.2, 0.8], 50)
    >>> happened = np.tile([True, False, False, False, False], 20) ^ (probability > 0.5)
    >>> curve = reliability(happened, probability)
    >>> curve.observed.round(2), bool(np.all(curve.low <= curve.high))
    (array([0.2, 0.8]), True)
    """
    outcome, values = np.asarray(happened, np.float64), np.asarray(probability, np.float64)
    n_bins = int(np.clip(len(values) // _SMALLEST_BIN, 1, _MOST_BINS))
    places = np.searchsorted(np.quantile(values, np.arange(1, n_bins) / n_bins), values)
    bins = [np.flatnonzero(places == place) for place in np.unique(places)]
    found = [score_interval(outcome[None, own], None if units is None else np.asarray(units)[own]) for own in bins]
    observed, low, high = np.array([(one.score, one.low, one.high) for one in found], np.float64).T  # None is NaN
    means, counts = ([of(values[own]) for own in bins] for of in (np.mean, len))
    return Reliability(np.array(means), observed, low, high, np.array(counts))
