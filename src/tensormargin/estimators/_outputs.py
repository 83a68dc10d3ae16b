"""What a fitted model gives for samples of any home: in memory, on a device, on the workers of a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from .._namespace import beside, cast, dtype_of, is_foreign, to_host
from ..samples import MemorySamples, working_dtype
from ..samples.device import DeviceSamples


def linear_scores(X: Any, coef: Any, intercept: Any) -> Any:
    """Return ``<W_k, Z_i> + b_k`` as an array of the library of X, of shape (n_samples, n_weights)."""
    if is_foreign(X):
        dtype = np.result_type(dtype_of(coef), working_dtype(dtype_of(X)))  # samples need not be of the fit's type
        return DeviceSamples(X, dtype=dtype).on_device_scores(cast(coef, dtype)) + intercept
    return MemorySamples(X).scores(coef) + intercept


def labels_at(classes: Any, codes: Any) -> Any:
    """Return the labels with these indices, in the library of the indices; text is always NumPy's."""
    labels = to_host(classes)[to_host(codes)]
    return beside(labels, codes) if is_foreign(codes) and labels.dtype.kind in "biuf" else labels


def by_chunk(model: Any, method: str, X: Any) -> Any:
    """Return what a method gives for a Dask array, as a Dask array: nothing is computed yet."""
    from dask.delayed import delayed

    one = getattr(model, method)(np.zeros((1, *X.shape[1:]), dtype_of(X)))
    return X.map_blocks(
        _call,
        model=delayed(model, traverse=False),
        method=method,
        dtype=one.dtype,
        meta=one[:0],
        drop_axis=list(range(1, X.ndim)),
        new_axis=list(range(1, one.ndim)),
        chunks=(X.chunks[0], *((size,) for size in one.shape[1:])),
    )


def _call(block: Any, model: Any, method: str) -> Any:
    return getattr(model, method)(block)


class AccuracyMixin(ClassifierMixin):
    """Scores predictions of whatever library; a Dask array's are computed for that."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of the predictions for X."""
        predicted = to_host(self.predict(X))
        weights = None if sample_weight is None else to_host(sample_weight)
        return float(accuracy_score(to_host(y), predicted, sample_weight=weights))
