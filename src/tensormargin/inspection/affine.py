"""The affine form of a model: weights and offsets on the original samples, pulled back through all steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from ..estimators import TensorMarginClassifier, to_device
from ..runtime import Array, FloatArray
from ..transformers import Composite, KeepsTensors, ViewTransformer, flat_steps, is_masker
from .pull_backs import NotAffineError, pull_back


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

    @classmethod
    def of(cls, classifier: TensorMarginClassifier) -> Self:
        """Return the form of a classifier by itself, as NumPy arrays wherever the model is."""
        classifier = to_device(classifier)
        coef, intercept = classifier.coef_, classifier.intercept_.astype(np.float64)
        if isinstance(coef, dict):
            return cls({name: own.astype(np.float64) for name, own in coef.items()}, intercept)
        return cls(coef.astype(np.float64), intercept)

    def scores(self, X: Any) -> FloatArray:
        """Return the scores of samples, of shape (n_samples, n_problems)."""
        if isinstance(self.weights, dict):
            scores = [AffineForm(own, np.zeros(len(own))).scores(X[name]) for name, own in self.weights.items()]
            return np.sum(scores, axis=0) + self.offsets
        X = np.asarray(X)
        return X.reshape(len(X), -1) @ self.weights.reshape(len(self.weights), -1).T + self.offsets


def form_before(steps: Sequence[Any], form: AffineForm, sample_shape: Any = None) -> AffineForm:
    """Return the form on the input of several fitted steps, of the shape if that is known."""
    for place, step in reversed(list(enumerate(steps))):
        shape = getattr(steps[place - 1], "sample_shape_out_", None) if place else sample_shape
        form = pulled_back(step, form, shape)
    return form


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
        part = form_before(flat_steps([(name, member)]), part, shape)
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
