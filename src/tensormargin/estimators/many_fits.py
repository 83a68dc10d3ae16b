"""Fits of several classifiers to the same samples or subsets of them: folds, values of lambda, ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data import views_or_array, views_or_samples
from ..fitting import loaded_if_small
from ..runtime import Array, as_array, to_host
from .classifier import TensorMarginClassifier
from .fit_steps import ToFit, fit_all


def fit_many(
    classifiers: Sequence[TensorMarginClassifier],
    X: Any,
    y: Any,
    rows: Sequence[Array | None] | None = None,
    sample_weight: Any = None,
) -> list[TensorMarginClassifier]:
    """Fit several classifiers to the same samples or to subsets of them; on a device or in a Dask array as one batch.

    On a device, a grid of lambda, the folds of a cross-validation and one-vs-one pairs are then contracted and solved
    together if their blocks have equal sizes, that is, for the same decomposition and rank. In a Dask array all fits
    share the reads of the chunks.

    Parameters
    ----------
    classifiers : sequence of TensorMarginClassifier
        Fitted in place. The ``solver`` of the first one is used for all.
    X : array-like of shape (n_samples, I_1, ..., I_M), or Views
        If it is in memory, the classifiers are fitted one after the other; so are those of several views.
    y : array-like of shape (n_samples,)
    rows : sequence of (ndarray of int or None), optional
        The training samples of each classifier; None for all of them. A repeated row counts as often as it occurs.
    sample_weight : array-like of shape (n_samples,), optional

    Returns
    -------
    list of TensorMarginClassifier
        The fitted classifiers.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import TensorMarginClassifier, fit_many
    >>> X, y = np.random.default_rng(0).normal(size=(40, 5, 4)), np.repeat([0, 1], 20)
    >>> grid = [TensorMarginClassifier(lam=lam) for lam in (1.0, 10.0, 100.0)]
    >>> [fitted.lam for fitted in fit_many(grid, X, y)]
    [1.0, 10.0, 100.0]
    """
    _check_classifiers(classifiers)
    rows = [None] * len(classifiers) if rows is None else rows
    if len(rows) != len(classifiers):
        raise ValueError(
            f"rows must have one entry for each classifier; got {len(rows)} for {len(classifiers)} classifiers"
        )
    y, sample_weight = (part if part is None else as_array(part) for part in (y, sample_weight))
    X = views_or_samples(X)
    X = X if hasattr(X, "columns") else loaded_if_small(views_or_array(X))  # a table keeps the names of its columns
    parts = [None if own is None else _row_numbers(own, int(X.shape[0])) for own in rows]
    return fit_all([ToFit(one, X, y, own, sample_weight) for one, own in zip(classifiers, parts, strict=True)])


def _check_classifiers(classifiers: Sequence[TensorMarginClassifier]) -> None:
    """Raise ValueError for other estimators, and for repeated objects, of which only the last fit would remain."""
    for one in classifiers:
        if not isinstance(one, TensorMarginClassifier):
            raise ValueError(
                f"fit_many takes TensorMarginClassifier; got {type(one).__name__}. Transform the samples first"
            )
    if len({id(one) for one in classifiers}) < len(classifiers):
        raise ValueError(
            "every classifier must be an object of its own; got the same one more than once. Make copies with "
            "sklearn.base.clone"
        )


def _row_numbers(own: Any, n_samples: int) -> Array:
    """Return validated row indices in ascending order, keeping repeated ones."""
    rows = to_host(own)
    whole = rows.dtype.kind in "iu" and rows.ndim == 1 and rows.size > 0
    if not whole or rows.min() < 0 or rows.max() >= n_samples:
        got = f"{rows.min()} to {rows.max()}" if whole else f"{rows.dtype} of shape {rows.shape}"
        raise ValueError(
            f"rows must be whole numbers from 0 to {n_samples - 1}, at least one for each classifier; got {got}. "
            "Of a mask take np.flatnonzero(mask)"
        )
    return np.sort(rows)
