"""The flat reference of a nested evaluation for samples in a Dask array, which LinearSVC cannot take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod, sqrt
from typing import Any

import numpy as np
from sklearn.base import clone

from ..data import NO_METADATA, Metadata
from ..fitting import SampleSpan, sample_array
from ..runtime import Array, Deadline, FloatArray, available_bytes
from ..selection import Split
from ..transformers import fit_transformed, needed_metadata, transformed
from .contenders import Contender, Tuned, tuned_on_splits
from .held_out import Labelled

SUBSET = "training samples"
"""Key of the number of samples that the reference was fitted to, if these are not all."""

_FEWEST = 6  # samples per class, so that five folds have all of them
_COPIES = 8  # of the coordinates, which cross-validation, LinearSVC and its solver make


@dataclass(frozen=True)
class FlatPredictor:
    """A linear classifier of flattened samples after a fitted preparation (None for none)."""

    preparation: Any
    classes: Array
    weights: FloatArray
    offsets: FloatArray

    @property
    def needed_metadata(self) -> set[str]:
        """Names of the metadata that `predict` needs."""
        return needed_metadata(self.preparation)

    def predict(self, X: Any, groups: Array | None = None, confounds: Array | None = None) -> Array:
        """Return the predicted labels of samples in a Dask array, read once."""
        X = X if self.preparation is None else transformed(self.preparation, X, Metadata(groups, confounds))
        array = sample_array(X)
        scores = np.asarray(array.scores(self.weights.reshape(-1, *array.sample_shape), self.offsets))
        codes = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return self.classes[codes]


def lazy_reference(
    flat: Contender,
    preparation: Any,
    samples: Labelled,
    splits_for: Callable[[Labelled], Sequence[Split]],
    score: str,
    seed: int,
    deadline: Deadline | None = None,
) -> Tuned:
    """Return a flat method, a Pipeline that ends in LinearSVC, tuned and fitted on samples in a Dask array.

    It is fitted to coordinates of the samples, which have the same inner products, as many numbers per sample as there
    are samples or entries. If they would not fit into memory, a random subset of the samples is used, drawn with the
    ``seed``. The preparation is fitted to the training set once, not once per fold.
    """
    from ..fitting import ChunkedDesign, LazySamples

    X, y, metadata = samples.X, samples.y, samples.metadata
    rows = _subset(y, prod(X.shape[1:]), seed)
    used = {} if len(rows) == len(y) else {SUBSET: len(rows)}
    preparation = None if preparation is None else clone(preparation)
    Z = X if preparation is None else fit_transformed(preparation, X, y, metadata)
    span = SampleSpan.of(ChunkedDesign(LazySamples.of(Z[rows] if used else Z)), centred=True)
    own = Labelled(span.coordinates, y[rows], metadata.rows(rows))
    splits = splits_for(own)
    chosen = tuned_on_splits(flat, replace(own, metadata=NO_METADATA), splits, 1, score, deadline)
    fitted = chosen.estimator.fit(own.X, own.y)
    return replace(chosen, estimator=_on_samples(fitted, span, preparation), values={**chosen.values, **used})


def _on_samples(fitted: Any, span: SampleSpan, preparation: Any) -> FlatPredictor:
    """Return the classifier of coordinates as one of samples."""
    unit, svc = fitted[0], fitted[-1]
    on_coordinates = svc.coef_ / unit.unit_
    weights = span.outside(on_coordinates)
    offsets = svc.intercept_ - on_coordinates @ unit.mean_ - weights @ span.mean
    return FlatPredictor(preparation, svc.classes_, weights, offsets)


def _subset(y: Array, size: int, seed: int) -> Array:
    """Return the rows to fit to: all, or as many as fit into memory, in ascending order and with the same classes."""
    entries = available_bytes() / (8 * 4 * _COPIES)
    most = int(max(sqrt(entries) if sqrt(entries) < size else entries / size, _FEWEST * len(np.unique(y))))
    if len(y) <= most:
        return np.arange(len(y))
    rng = np.random.RandomState(seed)
    _, codes = np.unique(y, return_inverse=True)
    order = rng.permutation(len(y))
    ranks = np.empty(len(y))
    for code in range(codes.max() + 1):
        own = order[codes[order] == code]
        ranks[own] = (np.arange(len(own)) + 0.5) / len(own)  # the same share of every class comes first
    chosen: Array = np.sort(np.argsort(ranks, kind="stable")[:most])
    return chosen
