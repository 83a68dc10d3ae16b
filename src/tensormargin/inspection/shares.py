"""What each of several views contributes to the scores of a model."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data import Views
from ..fitting import ViewArray, sample_array, shares_of_variance
from ..runtime import FloatArray, to_host
from .model_chain import ModelChain


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
    said = [
        f"{name} ({features[name]}, {100 * float(own.mean()):.1f} % of the score)"
        for name, own in shares.items()
        if name in features and np.any(classifier.view_scale_[name])
    ]
    return f"No picture of the samples, so not in the maps: {', '.join(said)}" if said else ""
