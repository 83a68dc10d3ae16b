"""Checks of samples and groups that estimators and transformers share."""

from __future__ import annotations

from typing import Any

from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import check_consistent_length, validate_data

from ._typing import Array


def samples_as_fitted(estimator: Any, X: Any, shape: tuple[int, ...]) -> Array:
    """Return X as an array of samples of this shape, the one that the estimator was fitted on, or raise ValueError."""
    if len(shape) == 1:  # scikit-learn's message about features, which its checks want, fits vectors only
        X = validate_data(estimator, X, dtype="numeric", allow_nd=True, reset=False)
    else:
        X = check_array(X, dtype="numeric", allow_nd=True, estimator=estimator, ensure_2d=False)
    if X.shape[1:] != shape:
        raise ValueError(
            f"samples must have the shape seen in fit, {shape}; got {X.shape[1:]}. "
            "X is (n_samples, *sample shape): reshape it, or add an axis in front of a single sample"
        )
    return X


def checked_groups(X: Array, groups: Any) -> Array | None:
    """Return groups as a vector with one entry a sample, None for none."""
    if groups is None:
        return None
    groups = column_or_1d(groups)
    check_consistent_length(X, groups)
    return groups
