"""The references of a nested evaluation: flat LinearSVCs, tuned on the same inner splits as the model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod, sqrt
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from ..data import NO_METADATA, Metadata, Views, content_ranks, is_ragged
from ..fitting import SampleSpan, predicted_codes, sample_array
from ..inspection import fit_model
from ..runtime import Array, Deadline, FloatArray, available_bytes, is_lazy
from ..selection import BEFORE, Split, TensorMarginClassifierCV, kept_products, splits_of
from ..transformers import fit_transformed, needed_metadata, transformed
from .contenders import Contender, Tuned, contender, tuned_on_splits
from .held_out import Labelled

REFERENCE = "LinearSVC"
SUBSET = "training samples"
"""Key of the number of samples that the reference was fitted to, if these are not all."""

_FEWEST = 6  # samples per class, so that five folds have all of them
_COPIES = 8  # of the coordinates, which cross-validation, LinearSVC and its solver make


@dataclass(frozen=True)
class Reference:
    """Tunes and fits references on a training set, as it is transformed for the last step of a fitted model."""

    model: Any
    training: Labelled
    seed: int
    score: str

    def both(self, deadline: Deadline) -> tuple[Tuned, Tuned]:
        """Return a flat LinearSVC of the samples as they are, and of the representation that the model has chosen.

        They are one and the same if the model has chosen the samples as they are, or if these cannot be flattened.
        """
        chosen = dict(getattr(self.model, "best_params_", {}))
        given = _before_choice(alternatives_of(self.model))
        used, scale = chosen.get("preparation", given), chosen.get("view_scale")
        without = tuple(name for name, one in scale.items() if one == 0) if isinstance(scale, dict) else ()
        if used is given and not without:
            alone = self._tuned(given, (), deadline)
            return alone, alone
        matched = self._tuned(used, without, deadline.part(0.5))
        matched = replace(matched, values={**matched.values, "preparation": used})
        if given is None and not self._can_be_flattened:
            return matched, matched
        return self._tuned(given, (), deadline), matched

    def _tuned(self, preparation: Any, without: tuple[str, ...], deadline: Deadline) -> Tuned:
        """Return the flat LinearSVC behind a preparation and ``without`` some views, tuned and fitted."""
        samples = self.training
        flat = contender(REFERENCE, class_weight=getattr(self.model, "class_weight", None))
        flat.estimator.set_params(flat__without=without)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            if is_lazy(samples.X):
                return lazy_reference(flat, preparation, samples, self._inner_splits, self.score, self.seed, deadline)
            splits, n_jobs = self._inner_splits(samples, samples.X), getattr(self.model, "n_jobs", None)
            known = [
                None if without else kept_products.get(kept_products.key(samples, split, preparation))
                for split in splits
            ]
            chosen = tuned_on_splits(flat.behind(preparation), samples, splits, n_jobs, self.score, deadline, known)
            began = deadline.now()
            fit_model(chosen.estimator, samples.X, samples.y, samples.metadata)
            deadline.costs.add("reference", deadline.now() - began)
        return chosen

    def _inner_splits(self, samples: Labelled, X: Any = None) -> list[Split]:
        """Return the splits to tune on: the model's, so that both share what is computed on them."""
        model = self.model
        if isinstance(model, TensorMarginClassifierCV) and isinstance(model.random_state, int | np.integer):
            return model.splits(samples.y, samples.groups, X)
        return splits_of(5, samples.y, samples.groups, self.seed, None if X is None else content_ranks(X))

    @property
    def _can_be_flattened(self) -> bool:
        """Whether samples have one shape and, unless they have views or are lazy, no missing entries."""
        X = self.training.X
        if isinstance(X, Views) or is_lazy(X):
            return True
        return not is_ragged(X) and bool(np.isfinite(np.sum(X, dtype=np.float64)) or np.isfinite(X).all())


def alternatives_of(search: Any) -> Sequence[Any]:
    """Return the preparations that a search chooses from; None stands for no preparation."""
    preparation = getattr(search, "preparation", None)
    return preparation if isinstance(preparation, list | tuple) else [preparation]


def _before_choice(alternatives: Sequence[Any]) -> Any:
    """Return the transformer in front of all representations that a search chooses from; None if there is none.

    The only alternative is no choice, so the samples as they are given to a classifier are those behind it.
    """
    if len(alternatives) == 1:
        return alternatives[0]
    behind = [one for one in alternatives if isinstance(one, Pipeline) and one.steps[0][0] == BEFORE]
    alone = [one for one in alternatives if one not in behind]
    return None if not behind else alone[0] if alone else behind[0].steps[0][1]


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
        return self.classes[predicted_codes(scores[:, 0] if scores.shape[1] == 1 else scores)]


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
    unit, svc = fitted[0], fitted[-1]
    on_coordinates = svc.coef_ / unit.unit_
    weights = span.outside(on_coordinates)
    offsets = svc.intercept_ - on_coordinates @ unit.mean_ - weights @ span.mean
    predictor = FlatPredictor(preparation, svc.classes_, weights, offsets)
    return replace(chosen, estimator=predictor, values={**chosen.values, **used})


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
