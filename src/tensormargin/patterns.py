"""What a fitted weight responds to: activation patterns."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ._namespace import to_host
from ._typing import Array, FloatArray
from ._validation import checked_labels
from .estimators import TensorMarginClassifier
from .model_steps import classifier_of, samples_for_classifier, samples_for_map
from .multiclass import binary_problems, class_codes
from .samples import sample_array

_ROUNDING = 8  # units in the last place by which equal scores may differ


def activation_pattern(model: Any, X: Any, y: Any = None, groups: Any = None) -> FloatArray:
    """Return the activation patterns that belong to a model's weights (Haufe et al. 2014, NeuroImage 87).

    A weight is a filter: it says how to read the class from the data, not where the class shows in them. A large entry
    may do no more than cancel noise that it shares with another one, and the filter's sign and size there follow from
    the noise. So a weight must not be read as a map of the signal. The pattern may: under the linear model
    ``z = a s + noise`` with noise uncorrelated to the score s it is

        a = Cov(z, s) / Var(s),    s = <W, z> + b,

    the change of each entry that goes with one unit of the score. It is zero, but for chance, in entries that are
    unrelated to the score, whatever their weight.

    The covariance of the entries is never formed: ``Cov(z, s)`` is the sum of the samples, each times its centred
    score, taken over chunks of X in float64.

    Parameters
    ----------
    model : estimator
        Fitted: a model as `affine_form` takes, with steps that need not be affine. Patterns are of the original
        samples (but after scaling by group, and within the mask of a masker).
    X : array-like of shape (n_samples, I_1, ..., I_M)
        Samples, usually those of the fit; images, where the model begins with a masker of nilearn.
    y : array-like of shape (n_samples,), optional
        Labels. With them, each one-vs-one problem is given the samples of its two classes only, otherwise all samples.
    groups : array-like of shape (n_samples,), optional
        Needed where the model scales by group.

    Returns
    -------
    ndarray of shape (n_problems, I_1, ..., I_M)
        In the order of ``clf.coef_``. Zero where the scores of a problem's samples are all equal.
    """
    clf = classifier_of(model)
    loadings = _loadings(clf, to_host(clf.binary_scores(samples_for_classifier(model, X, groups))), y)
    shown = samples_for_map(model, X, groups)
    pattern = np.zeros((loadings.shape[1], prod(shown.shape[1:])))
    for where, part in sample_array(shown).chunks_here():
        pattern += loadings[where].T @ part.reshape(len(part), -1).astype(np.float64, copy=False)
    return pattern.reshape(-1, *shown.shape[1:])


def _loadings(clf: TensorMarginClassifier, scores: Array, y: Any) -> FloatArray:
    """Return for each sample and problem the factor with which the sample enters the pattern; they sum to zero."""
    rounding = _ROUNDING * float(np.finfo(scores.dtype).eps)
    loadings = np.zeros(scores.shape)
    for k, rows in enumerate(_rows(clf, scores, y)):
        own = scores[rows, k].astype(np.float64)
        if own.size == 0:
            raise ValueError(
                f"a pattern needs samples; none of binary problem {k} was given. Pass its classes' samples"
            )
        centred = own - own.mean()
        if np.abs(centred).max() > rounding * (np.abs(own).max() + abs(float(clf.intercept_[k]))):
            loadings[rows, k] = centred / (centred @ centred)
    return loadings


def _rows(clf: TensorMarginClassifier, scores: Array, y: Any) -> list[Array | slice]:
    """Return the samples of each binary problem."""
    everything = slice(None)
    if y is None:
        return [everything] * scores.shape[1]
    classes = to_host(clf.classes_)
    codes = class_codes(checked_labels(scores, y), classes)
    problems = binary_problems(codes, len(classes), clf.multi_class_)
    return [everything if problem.rows is None else problem.rows for problem in problems]
