"""Activation patterns of fitted weights, and what each of several views contributes to the scores."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..data import Metadata, Views, checked_labels, missing_samples
from ..estimators import TensorMarginClassifier
from ..fitting import ViewArray, binary_problems, class_codes, sample_array, shares_of_variance
from ..runtime import Array, FloatArray, rows_of, to_host
from .model_chain import ModelChain
from .pull_backs import NotAffineError

_ROUNDING = 8  # units in the last place by which equal scores may differ


def activation_pattern(model: Any, X: Any, y: Any = None, groups: Any = None, confounds: Any = None) -> Any:
    """Return the activation patterns of a model's weights (Haufe et al. 2014, NeuroImage 87).

    A weight is a filter: it extracts the class from the data but does not show where the class is encoded, since a
    large entry may only cancel noise shared with another entry. So a weight must not be read as a map of the signal.
    The pattern can be: under the linear model ``z = a s + noise``, with noise uncorrelated with the score s, it is::

        a = Cov(z, s) / Var(s),    s = <W, z> + b,

    the change of each entry per unit of the score. Up to chance, it is zero in entries unrelated to the score, whatever
    their weight. ``Cov(z, s)``, a sum of samples weighted by their centred scores, is computed over chunks of X in
    float64.

    Parameters
    ----------
    model : estimator
        A fitted model, as `affine_form` takes it, with steps that need not be affine. Patterns refer to the original
        samples (but after scaling by group, and within the mask of a masker).
    X : array-like of shape (n_samples, I_1, ..., I_M), or Views
        Samples, usually the training set; images if the model begins with a nilearn masker.
    y : array-like of shape (n_samples,), optional
        Labels. If given, each one-vs-one problem uses only the samples of its two classes, otherwise all samples.
    groups, confounds : array-like of shape (n_samples,) and (n_samples, n_confounds), optional
        Of the samples; required if the model scales by group or removes confounds.

    Returns
    -------
    ndarray of shape (n_problems, I_1, ..., I_M)
        In the order of ``clf.coef_``; positive entries speak for the later class of a pair, or for the class that is
        set against the rest. Zero for a problem whose samples all have the same score, and in entries that masks and
        crops keep from the classifier. For several views a dictionary of them, each over the samples that have the
        view.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import TensorMarginClassifier, activation_pattern
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> data = make_low_rank_classes(100, (8, 9), rank=1, random_state=0)
    >>> clf = TensorMarginClassifier("cp", 1).fit(data.data, data.target)
    >>> pattern = activation_pattern(clf, data.data)
    >>> pattern.shape
    (1, 8, 9)
    >>> bool(np.corrcoef(pattern.ravel(), data.difference.ravel())[0, 1] > 0.8)
    True
    """
    chain, metadata = ModelChain.of(model), Metadata(groups, confounds)
    clf, X = chain.classifier, chain.original_samples(X)  # once: it is used twice
    scores = to_host(clf.binary_scores(chain.samples_for_classifier(X, metadata)))
    shown, used = chain.samples_for_map(X, metadata), chain.used_entries
    if not isinstance(shown, Views):
        return _pattern(shown, _loadings(clf, scores, y), used)
    patterns = {}
    for name, array in shown.items():
        there = np.setdiff1d(np.arange(len(shown)), missing_samples(array))
        whole = len(there) == len(shown)
        own = y if y is None or whole else to_host(y)[there]
        loadings = _loadings(clf, scores if whole else scores[there], own)
        rows = array if whole else rows_of(array, there)
        patterns[name] = _pattern(rows, loadings, None if used is None else used.get(name))
    return patterns


def pattern_of(model: Any, samples: Any, stored: Any = None) -> Any:
    """Return the stored activation patterns of a model, or those on a `SampleSet`.

    They are None without labels, and if they are no picture of the samples (`ModelChain.check_picture`).
    """
    try:
        ModelChain.of(model).check_picture()
    except NotAffineError:
        return None
    if stored is not None or samples is None or samples.target is None:
        return stored
    return activation_pattern(model, samples.data, samples.target, samples.groups, samples.confounds)


class ViewMaps(NamedTuple):
    """The weights of several views, their activation patterns, and the samples that both refer to.

    ``on_samples`` tells whether these are the original samples, not the views as the classifier gets them.
    """

    weights: dict[str, Array]
    patterns: dict[str, FloatArray] | None
    samples: Views | None
    on_samples: bool


def view_maps(model: Any, X: Any = None, y: Any = None, groups: Any = None, confounds: Any = None) -> ViewMaps:
    """Return weights and patterns of each view of a model.

    They refer to the original samples if these have the views of the classifier and the steps before it are affine,
    and otherwise to the views as the classifier gets them, such as the power in a band. For the parameters see
    `activation_pattern`.
    """
    chain, metadata = ModelChain.of(model), Metadata(groups, confounds)
    classifier, weights = chain.classifier, chain.views_on_samples
    if not isinstance(classifier.coef_, dict):
        raise ValueError("the model has one tensor per sample, not several views; use weight_maps")
    on_samples = isinstance(weights, dict) and weights.keys() == classifier.coef_.keys()
    weights = weights if on_samples else {name: to_host(own) for name, own in classifier.coef_.items()}
    if X is None:
        return ViewMaps(weights, None, None, on_samples)
    shown = chain.samples_for_map(X, metadata) if on_samples else chain.samples_for_classifier(X, metadata)
    given = (model, X, y, groups, confounds) if on_samples else (classifier, shown, y)
    return ViewMaps(weights, activation_pattern(*given), shown, on_samples)


def _pattern(shown: Any, loadings: Array, used: Array | None) -> FloatArray:
    """Return the sum of the samples, each times its loading in each problem; zero in entries that are not used."""
    pattern = np.zeros((loadings.shape[1], prod(shown.shape[1:])))
    for where, part in sample_array(shown).numpy_chunks():
        pattern += loadings[where].T @ part.reshape(len(part), -1).astype(np.float64, copy=False)
    maps = pattern.reshape(-1, *shown.shape[1:])
    return maps if used is None else np.where(used, maps, 0.0)


def _loadings(clf: TensorMarginClassifier, scores: Array, y: Any) -> FloatArray:
    """Return the coefficient of each sample in the pattern of each problem; those of a problem sum to zero."""
    rounding = _ROUNDING * float(np.finfo(scores.dtype).eps)
    loadings = np.zeros(scores.shape)
    every: list[Array | slice] = [slice(None)] * scores.shape[1]
    if y is not None:
        classes = to_host(clf.classes_)
        codes = class_codes(checked_labels(scores, y), classes)
        every = [
            slice(None) if problem.rows is None else problem.rows
            for problem in binary_problems(codes, len(classes), clf.multi_class_)
        ]
    for k, rows in enumerate(every):
        own = scores[rows, k].astype(np.float64)
        if own.size == 0:
            raise ValueError(f"a pattern needs samples of binary problem {k}, got none. Pass its classes' samples")
        centred = own - own.mean()
        if np.abs(centred).max() > rounding * (np.abs(own).max() + abs(float(clf.intercept_[k]))):
            loadings[rows, k] = centred / (centred @ centred)
    return loadings


def view_shares(model: Any, X: Any, groups: Any = None) -> dict[str, FloatArray]:
    """Return each view's share of the variance of a model's scores.

    With the scores ``s = sum_v s_v + b``, it is ``Cov(s_v, s) / Var(s)``. The shares of all views add up to one; a
    negative one belongs to a view that mostly takes back what the others say. What a view is worth is another
    question, which the accuracy without it answers: `tensormargin.evaluation.evaluate_without_views`.

    Parameters
    ----------
    model : estimator
        Fitted to several views.
    X : Views
        Samples, such as held-out ones; ``view_shares_`` of the classifier has the shares of the training set.
    groups : array-like of shape (n_samples,), optional
        Groups of the samples; required if the model scales by group.

    Returns
    -------
    dict of str to ndarray of shape (n_problems,)

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import TensorMarginClassifier, Views, view_shares
    >>> rng, y = np.random.default_rng(0), np.repeat([0, 1], 20)
    >>> X = Views(signal=rng.normal(size=(40, 4, 3)) + y[:, None, None], noise=rng.normal(size=(40, 3, 3)))
    >>> shares = view_shares(TensorMarginClassifier("cp", rank=1).fit(X, y), X)
    >>> shares["signal"] > 0.8, np.round(shares["signal"] + shares["noise"], 9)
    (array([ True]), array([1.]))
    """
    chain = ModelChain.of(model)
    classifier, samples = chain.classifier, chain.samples_for_classifier(X, groups)
    if not isinstance(classifier.coef_, dict) or not isinstance(samples, Views):
        raise ValueError("shares are those of several views; got a model of one tensor per sample. Fit it to Views")
    array = sample_array(classifier.checked(samples))
    assert isinstance(array, ViewArray)
    scores = {name: to_host(own) for name, own in array.view_scores(classifier.coef_, classifier.mean_scores_)}
    stacked = np.stack([own.astype(np.float64) for own in scores.values()], axis=-1)
    shares = shares_of_variance(stacked, np.full(len(stacked), 1.0 / len(stacked)))
    return {name: shares[:, place] for place, name in enumerate(scores)}


def format_feature_views(model: Any) -> str:
    """Return the views of a model that are no picture of its samples, with their shares of the score; "" if none."""
    chain = ModelChain.of(model)
    classifier, features = chain.classifier, chain.feature_views
    shares = classifier.view_shares_ if isinstance(classifier.coef_, dict) else {}
    described = [
        f"{name} ({features[name]}, {100 * float(own.mean()):.1f} % of the score)"
        for name, own in shares.items()
        if name in features and np.any(classifier.view_scale_[name])
    ]
    return f"No picture of the samples, so not in the maps: {', '.join(described)}" if described else ""
