"""Probabilities from decision values that the classifier did not see in training."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_expit, softmax

from .._typing import Array, FloatArray

_STEEPEST = 1e3  # in units of one over the scores' root mean square: a sigmoid that is a step
_FLATTEST = 1e-6


def fit_slope(scores: Array, signs: Array, weights: Array) -> float:
    """Return the slope a > 0 of ``P(positive | score) = 1 / (1 + exp(-a score))``, by maximum likelihood.

    Platt's (1999) sigmoid without its offset: the hinge loss already puts the score 0 where both classes are equally
    likely, and so the more probable class is always the predicted one. His smoothed targets, ``(n + 1) / (n + 2)`` for
    the n samples of a class, keep the slope finite where the classes are apart; scores that point the wrong way (a
    classifier at chance) end at the flattest slope, probabilities of one half.
    """
    if weights.sum() == 0:  # no test part had these classes: nothing is known
        return _FLATTEST
    unit = float(np.sqrt(np.average(np.square(scores, dtype=np.float64), weights=weights))) or 1.0
    margins = signs * scores / unit
    counts = np.where(signs > 0, weights[signs > 0].sum(), weights[signs < 0].sum())
    targets = (counts + 1) / (counts + 2)

    def loss(log_slope: float) -> float:
        arguments = np.exp(log_slope) * margins
        return -float(np.sum(weights * (targets * log_expit(arguments) + (1 - targets) * log_expit(-arguments))))

    best = minimize_scalar(loss, bounds=(np.log(_FLATTEST), np.log(_STEEPEST)), method="bounded")
    return float(np.exp(best.x)) / unit


def class_probabilities(scores: Array, slopes: Array, predicted: Array, scheme: str) -> FloatArray:
    """Return probabilities of all classes from the scores of all binary problems.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_problems)
    slopes : ndarray of shape (n_problems,)
    predicted : ndarray of int, of shape (n_samples,)
        Index of the predicted class. Where votes go in a circle another class may come out as the most probable; the
        two then change places.
    scheme : {"ovo", "ovr"}
    """
    arguments = slopes * scores.astype(np.float64)
    if arguments.shape[1] == 1:
        return expit(np.hstack([-arguments, arguments]))
    # One-vs-rest: the sigmoids over their sum, by way of logarithms, for far away they may all be zero.
    probabilities = softmax(log_expit(arguments), axis=1) if scheme == "ovr" else couple(_pairwise(expit(arguments)))
    rows, most = np.arange(len(predicted)), probabilities.argmax(axis=1)
    probabilities[rows, most], probabilities[rows, predicted] = (
        probabilities[rows, predicted],
        probabilities[rows, most],
    )
    return probabilities


def _pairwise(positive: FloatArray) -> FloatArray:
    """Return ``r_ij``, the probability of class i if it is i or j, from one column a pair."""
    n_classes = round((1 + np.sqrt(1 + 8 * positive.shape[1])) / 2)
    first, second = np.triu_indices(n_classes, 1)
    pairwise = np.zeros((len(positive), n_classes, n_classes))
    pairwise[:, second, first] = np.clip(positive, 1e-7, 1 - 1e-7)  # certainty would make the system singular
    pairwise[:, first, second] = 1 - pairwise[:, second, first]
    return pairwise


def couple(pairwise: FloatArray) -> FloatArray:
    """Return class probabilities from those of all pairs: Wu, Lin and Weng 2004 (JMLR 5), their second method.

    Minimises ``sum_ij (r_ji p_i - r_ij p_j)^2`` with ``sum_i p_i = 1``; a linear system for each sample.

    Parameters
    ----------
    pairwise : ndarray of shape (n_samples, n_classes, n_classes)
        ``r_ij``, the probability of class i if it is i or j; zero on the diagonal.
    """
    n_samples, n_classes, _ = pairwise.shape
    system = np.zeros((n_samples, n_classes + 1, n_classes + 1))
    system[:, :-1, :-1] = -np.swapaxes(pairwise, 1, 2) * pairwise
    system[:, range(n_classes), range(n_classes)] = np.sum(pairwise**2, axis=1)
    system[:, -1, :-1] = system[:, :-1, -1] = 1.0
    right = np.zeros((n_samples, n_classes + 1, 1))
    right[:, -1] = 1.0
    probabilities = np.maximum(np.linalg.solve(system, right)[:, :-1, 0], 0.0)  # rounding may go below zero
    return probabilities / probabilities.sum(axis=1, keepdims=True)
