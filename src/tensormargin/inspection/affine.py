"""The affine form of a model: weights and offsets on the original samples, pulled back through all steps.

Maps, explanations and exports use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..estimators import TensorMarginClassifier, to_device
from ..runtime import Array, FloatArray
from ..transformers import Composite, KeepsTensors, ViewTransformer, flat_steps, is_masker
from .chains import Chain, chain_of
from .pull_backs import NotAffineError, pull_back, register_pull_back

__all__ = ["AffineForm", "NotAffineError", "affine_form", "pulled_back", "register_pull_back", "sample_shape"]


class AffineForm(NamedTuple):
    """Weights and offsets with ``scores = <W, x> + b`` for original samples x, one score per binary problem.

    Attributes
    ----------
    weights : ndarray of shape ``(n_problems, *sample shape)``; a dictionary of them for several views
    offsets : ndarray of shape (n_problems,)

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import TensorMarginClassifier, affine_form
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> data = make_low_rank_classes(40, (4, 5), random_state=0)
    >>> clf = TensorMarginClassifier("cp", 1).fit(data.data, data.target)
    >>> form = affine_form(clf)
    >>> scores = np.tensordot(data.data, form.weights[0], 2) + form.offsets[0]
    >>> bool(np.allclose(scores, clf.decision_function(data.data)))
    True
    """

    weights: Any
    offsets: Array

    def scores(self, X: Any) -> FloatArray:
        """Return the scores of samples, of shape (n_samples, n_problems)."""
        if isinstance(self.weights, dict):
            scores = [AffineForm(own, np.zeros(len(own))).scores(X[name]) for name, own in self.weights.items()]
            return np.sum(scores, axis=0) + self.offsets
        X = np.asarray(X)
        return X.reshape(len(X), -1) @ self.weights.reshape(len(self.weights), -1).T + self.offsets


def affine_form(model: Any, sample_shape: Sequence[int] | None = None) -> AffineForm:
    """Return the weights and offsets that give a model's binary scores on the original samples.

    ``form.scores(X)``, that is ``<W, x> + b``, equals ``binary_scores`` up to rounding, and therefore
    ``decision_function`` for two classes and for "ovr". Weights are pulled back through the transformers of pipelines
    and searches (`register_pull_back`). scikit-learn's searches, calibrators, thresholds and FrozenEstimator are
    unwrapped, since they do not change the scores.

    Parameters
    ----------
    model : estimator
        Fitted TensorMarginClassifier or TensorMarginClassifierCV, in pipelines, searches and calibrators in any order.
        For a CalibratedClassifierCV with several models, the form is the mean over them and gives their mean score.
    sample_shape : sequence of int, optional
        Shape of an original sample. Needed only if the first step is a FunctionTransformer that flattens samples of
        three or more modes: no step stores their shape, and they would be assumed to be matrices.

    Returns
    -------
    AffineForm

    Raises
    ------
    NotAffineError
        If a step is not affine, or not known to be; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from tensormargin import TensorMarginClassifier, TensorScaler, affine_form
    >>> X, y = np.random.default_rng(0).normal(size=(40, 5, 4)), np.repeat([0, 1], 20)
    >>> model = make_pipeline(TensorScaler(), TensorMarginClassifier("cp", 1)).fit(X, y)
    >>> np.allclose(affine_form(model).scores(X)[:, 0], model.decision_function(X))
    True
    """
    return form_of_chain(chain_of(model), None if sample_shape is None else tuple(sample_shape))


def form_of_chain(chain: Chain, sample_shape: tuple[int, ...] | None = None) -> AffineForm:
    """Return the affine form on the input samples of a chain."""
    form = _own_form(chain.classifier) if chain.classifier is not None else mean_form(chain.copies)
    return _through_steps(chain.steps, form, sample_shape)


def _through_steps(steps: Sequence[Any], form: AffineForm, sample_shape: Any) -> AffineForm:
    for place, step in reversed(list(enumerate(steps))):
        shape = getattr(steps[place - 1], "sample_shape_out_", None) if place else sample_shape
        form = pulled_back(step, form, shape)
    return form


def mean_form(copies: Sequence[Chain]) -> AffineForm:
    """Return the form whose scores are the mean of the scores of several models."""
    forms = [form_of_chain(one) for one in copies]
    if any(isinstance(form.weights, dict) for form in forms):
        raise NotAffineError("the mean of several calibrated models is not computed for several views")
    if len({form.weights.shape for form in forms}) > 1:
        raise NotAffineError(
            "the calibrated models take samples of different shapes or were fitted to different classes, so their "
            "weights have no mean"
        )
    return AffineForm(*(np.mean(parts, axis=0) for parts in zip(*forms, strict=True)))


def _own_form(classifier: TensorMarginClassifier) -> AffineForm:
    classifier = to_device(classifier)  # forms are NumPy arrays, wherever the model is
    coef, intercept = classifier.coef_, classifier.intercept_.astype(np.float64)
    if isinstance(coef, dict):
        return AffineForm({name: own.astype(np.float64) for name, own in coef.items()}, intercept)
    return AffineForm(coef.astype(np.float64), intercept)


def pulled_back(step: Any, form: AffineForm, shape: tuple[int, ...] | None = None) -> AffineForm:
    """Return the form on the input of a fitted step; raise NotAffineError if there is none.

    ``shape`` is the shape of an input sample, if another step stores it.
    """
    if isinstance(step, Composite):
        return _through_members(step, form)
    if isinstance(form.weights, dict):
        raise NotAffineError(f"the weights of several views are not pulled back through {type(step).__name__}")
    step = to_device(step) if isinstance(step, KeepsTensors) else step
    weights, constants = pull_back(step, form.weights, shape)
    return AffineForm(weights, form.offsets + constants)


def _through_members(step: Composite, form: AffineForm) -> AffineForm:
    """Return the form on the input of a step that makes several views."""
    by_view, shapes = isinstance(step, ViewTransformer), step.sample_shape_in_
    parts, offsets = [], form.offsets
    for name, member in step.transformers_:
        own = {inner: form.weights[outer] for inner, outer in step.views_[name].items()}
        shape = shapes[name] if by_view else shapes
        part = AffineForm(own.get("", own), np.zeros(len(form.offsets)))
        part = _through_steps(flat_steps([(name, member)]), part, shape)
        parts.append((name, part.weights))
        offsets = offsets + part.offsets
    if not by_view:
        return AffineForm(_sum([weights for _, weights in parts]), offsets)
    back = dict(parts)
    kept = {name: form.weights.get(name, np.zeros((len(offsets), *shape))) for name, shape in shapes.items()}
    return AffineForm({name: back.get(name, own) for name, own in kept.items()}, offsets)


def _sum(parts: Sequence[Any]) -> Any:
    """Return the sum of weights on the same samples."""
    if isinstance(parts[0], dict):
        return {name: _sum([part[name] for part in parts]) for name in parts[0]}
    return np.sum(parts, axis=0)


def sample_shape(model: Any) -> Any:
    """Return the sample shape that a fitted model expects, with None for a mode of any length.

    For several views it is a dictionary of shapes.
    """
    chain = chain_of(model)
    first = remembered_shape(chain.steps[0] if chain.steps else chain.classifier)
    if first is not None:
        return first
    try:
        return tuple(form_of_chain(chain).weights.shape[1:])
    except NotAffineError:  # such as a function of each entry: use the first step that stores a shape
        shapes = map(remembered_shape, (*chain.steps, chain.classifier))
        return next((shape for shape in shapes if shape is not None), ())


def remembered_shape(step: Any) -> Any:
    """Return the sample shape that a step or classifier expects, or None if it does not store one."""
    if is_masker(step) and getattr(step, "mask_img_", None) is not None:
        return tuple(step.mask_img_.shape)
    for attribute in ("sample_shape_in_", "sample_shape_", "features_shape_"):  # the last is MNE's
        if isinstance(getattr(step, attribute, None), dict):
            return dict(getattr(step, attribute))
        if hasattr(step, attribute):
            return tuple(None if size is None else int(size) for size in getattr(step, attribute))
    return None
