"""Transfer of fitted models to another array library or device."""

from __future__ import annotations

from copy import copy
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from ..runtime import as_like, is_foreign, to_host

Model = TypeVar("Model", bound=BaseEstimator)


def to_device(estimator: Model, like: Any = None) -> Model:
    """Return a copy of a fitted estimator with its arrays in the library and on the device of another array.

    Parameters
    ----------
    estimator : fitted estimator, or a pipeline of them
        Not modified.
    like : array, optional
        Array in the target library and on the target device. By default the copy uses NumPy, to predict elsewhere or to
        save the model.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import TensorMarginClassifier, to_device
    >>> X, y = np.random.default_rng(0).normal(size=(40, 5, 4)), np.repeat([0, 1], 20)
    >>> type(to_device(TensorMarginClassifier().fit(X, y)).coef_)
    <class 'numpy.ndarray'>
    """
    found = copy(estimator)
    like = np.empty(0) if like is None else like
    for name, value in vars(estimator).items():
        by_view = name in ("coef_", "weight_", "mean_scores_") and isinstance(value, dict)
        moved = {key: _as_like(one, like) for key, one in value.items()} if by_view else _as_like(value, like)
        setattr(found, name, moved)
    return found


def _as_like(value: Any, like: Any) -> Any:
    if isinstance(value, BaseEstimator):
        return to_device(value, like)
    if type(value) in (list, tuple):  # the steps of a pipeline, weights of several problems
        return type(value)(_as_like(part, like) for part in value)
    if is_foreign(value):
        return as_like(to_host(value), like)
    if isinstance(value, np.ndarray) and is_foreign(like) and value.dtype.kind in "biuf":
        return as_like(value, like)
    return value
