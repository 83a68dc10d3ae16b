"""Several tensors per sample: one kind of samples each, whose designs are put side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from itertools import count, groupby
from math import prod
from operator import add
from typing import Any

import numpy as np

from ...data import Shapes, Views, missing_samples, reject_partly_finite, reject_without_views
from ...runtime import Array, FloatArray, namespace, rows_of, slices, to_host, tuning
from ..contractions import Contraction, Direction, SideBySide
from ..designs import Design, Matrix, Piece, Stacked
from .base import Moments, Samples, ViewFacts, shares_of_variance
from .storage import Reading, SampleArray, sample_array


@dataclass(frozen=True)
class View:
    """The samples of one view.

    If the view is centred, samples that lack it have the weighted mean of the others, which is zero after centring, and
    otherwise zero.
    """

    samples: Samples  # those that have the view
    factor: float  # what they are multiplied by
    present: Array | None  # their rows among all samples, in ascending order; None if none is missing
    weights: Array | None  # of all samples if the view is centred

    @property
    def shares(self) -> FloatArray | None:
        """The weights of the samples that have the view, which sum to one; None if it is not centred."""
        if self.weights is None:
            return None
        own = self.weights if self.present is None else self.weights[self.present]
        return own / own.sum()

    def take(self, rows: Array) -> View:
        """Return a subset of all samples."""
        weights = None if self.weights is None else self.weights[rows]
        if self.present is None:
            return replace(self, samples=self.samples.take(rows), weights=weights)
        found = np.isin(rows, self.present)
        own = np.searchsorted(self.present, rows[found])
        if len(own) == 0:  # at least one, though it has no weight
            own = np.array([0])
        return replace(self, samples=self.samples.take(own), present=np.flatnonzero(found)[: len(own)], weights=weights)

    def piece(self, design: Array | Design, n_samples: int, factor: float) -> Piece:
        """Return a design of the samples that have the view as one of all samples."""
        design = Matrix(design) if isinstance(design, np.ndarray) else design
        if self.present is None:
            return Piece(design, n_samples, factor)
        if len(self.present) == 0:
            design = Matrix(np.empty((0, design.shape[1])))
            return Piece(design, n_samples, factor, self.present)
        return Piece(design, n_samples, factor, self.present, self.shares)


class ViewSamples(Samples):
    """Several tensors per sample; ``shape`` is that of all of them flattened, one after the other."""

    def __init__(self, views: Sequence[View], n_samples: int) -> None:
        self.views = views
        self.shape = (sum(prod(view.samples.shape) for view in views),)
        self.dtype = np.result_type(*(view.samples.dtype for view in views))
        self._n_samples = n_samples
        self._whole: dict[int, Piece] = {}
        self._columns: dict[int, tuple[Array, Array]] = {}  # the last direction of each view, and its scores

    def __len__(self) -> int:
        return self._n_samples

    @property
    def pivot(self) -> Array | None:  # type: ignore[override]
        """What is subtracted from the scaled samples of all views; None if nothing is."""
        if all(view.samples.pivot is None for view in self.views):
            return None
        return np.concatenate(
            [
                np.zeros(prod(view.samples.shape))
                if view.samples.pivot is None
                else view.factor * view.samples.pivot.ravel()
                for view in self.views
            ]
        )

    @property
    def in_memory(self) -> bool:
        return all(view.samples.in_memory for view in self.views)

    def matrix(self) -> Array:
        """Return the scaled samples of all views as rows of a matrix, a copy."""
        pieces = (view.piece(view.samples.matrix(), len(self), view.factor) for view in self.views)
        return np.hstack([piece.to_numpy() for piece in pieces])

    def take(self, rows: Array) -> ViewSamples:
        return ViewSamples([view.take(rows) for view in self.views], len(rows))

    def first_pass(self, weights: Array, signs: Array, centred: bool) -> Moments:
        """Raise an error: `ViewArray.read` makes the first pass over each view."""
        raise NotImplementedError

    def vary(self, centred: bool) -> bool:
        return any(view.samples.vary(centred) for view in self.views)

    def scores(self, weights: Array) -> Array:
        return reduce(np.add, (scores for _, scores in self._scores(weights)))

    def _scores(self, weights: Array) -> Iterator[tuple[View, Array]]:
        """Yield the views and the scores of all samples in them."""
        ends = np.cumsum([prod(view.samples.shape) for view in self.views])[:-1]
        for view, own in zip(self.views, np.split(weights, ends, axis=1), strict=True):
            yield view, self._scores_of(view, own.reshape(len(own), *view.samples.shape))

    def _scores_of(self, view: View, weights: Array) -> Array:
        scores = view.samples.scores(weights.astype(view.samples.dtype, copy=False))
        return view.piece(scores, len(self), view.factor).to_numpy()

    def view_facts(self, weight: Array) -> ViewFacts:
        """Return what is known of each view after a fit; mean scores are those without its pivot."""
        scores = np.stack([own[:, 0] for _, own in self._scores(weight[None])], axis=-1).astype(np.float64)
        centred = self.views[0].weights
        weights = np.full(len(self), 1.0 / len(self)) if centred is None else centred
        means = np.zeros(len(self.views)) if centred is None else weights @ scores / weights.sum()
        pivot = self.pivot
        if pivot is not None:
            ends = np.cumsum([prod(view.samples.shape) for view in self.views])[:-1]
            means = means + [float(part.sum()) for part in np.split(weight * pivot, ends)]
        factors = np.array([view.factor for view in self.views])
        return ViewFacts(factors, means, shares_of_variance(scores, weights))

    def design(self, contraction: Any) -> Array | Design:
        assert isinstance(contraction, SideBySide)
        return self.side_by_side(contraction.parts)

    def side_by_side(self, contractions: Sequence[Any]) -> Array | Design:
        """Return the designs of several parts as one: a matrix if it is small, or else one that copies no samples."""
        pieces, whole = [], False
        for view, same in groupby(contractions, key=lambda part: part.view):
            own = [part.contraction for part in same]
            whole = whole or (isinstance(own[0], Contraction) and own[0].is_whole)
            pieces.append(self._piece(view, own))
        stacked = Stacked(pieces)
        return stacked if whole and prod(stacked.shape) > tuning.SMALL_SAMPLES else stacked.to_numpy()

    def _piece(self, number: int, contractions: list[Contraction | Direction]) -> Piece:
        """Return the columns of one view: of several contractions at a time, which then share a pass."""
        view, first = self.views[number], contractions[0]
        if isinstance(first, Direction):
            return Piece(Matrix(self._column(number, first.weight)), len(self))
        if first.is_whole:
            if number not in self._whole:
                self._whole[number] = view.piece(view.samples.design(first), len(self), view.factor)
            return self._whole[number]
        scaled = [replace(one, kernel=view.factor * one.kernel) for one in contractions if isinstance(one, Contraction)]
        alone = len(scaled) == 1 and first.removed is None
        design = view.samples.design(scaled[0]) if alone else view.samples.side_by_side(scaled)
        return view.piece(design, len(self), 1.0)

    def _column(self, number: int, weight: Array) -> Array:
        """Return the scores of a direction; those of the last one are remembered."""
        if number not in self._columns or self._columns[number][0] is not weight:
            self._columns[number] = weight, self._scores_of(self.views[number], weight[None])
        return self._columns[number][1]


class ViewArray(SampleArray):
    """Several arrays of samples; shapes and dtypes are by name."""

    has_views: bool = True
    sample_shape: Shapes  # type: ignore[assignment]
    dtype: dict[str, np.dtype]  # type: ignore[assignment]

    def __init__(self, X: Views) -> None:
        self.X = X
        self.arrays = {name: sample_array(array) for name, array in X.items()}
        self.sample_shape = {name: array.sample_shape for name, array in self.arrays.items()}
        self.dtype = {name: array.dtype for name, array in self.arrays.items()}
        self.in_memory = all(array.in_memory for array in self.arrays.values())

    @cached_property
    def missing(self) -> dict[str, Array]:
        """The samples that lack each view; raise ValueError if one lacks all of them."""
        missing = {name: _missing(name, array) for name, array in self.X.items()}
        reject_without_views(missing, len(self.X))
        return missing

    @property
    def sample_shapes(self) -> list[tuple[int, ...]]:
        return list(self.sample_shape.values())

    @property
    def result_dtype(self) -> np.dtype:
        return np.result_type(*(array.result_dtype for array in self.arrays.values()))

    def samples(self, rows: Array | None = None, dtype: np.dtype | None = None) -> Samples:
        """Raise an error: views are scaled, which `read` does."""
        raise NotImplementedError

    def read(self, reading: Reading) -> tuple[Samples, Moments]:
        """Make the first pass over the views in use; moments are those of the scaled views, flattened in turn."""
        assert reading.view_scales is not None
        views, signed, squares = [], [], 0.0
        for name, scale in reading.view_scales.items():
            present, own = self._present(name, reading)
            samples, moments = _named(name, partial(self.arrays[name].read, own))
            factor = factor_to_unit(moments.mean_square) if scale is None else scale
            share = 1.0 if present is None else float(reading.weights[present].sum())
            views.append(View(samples, factor, present, reading.weights if reading.centred else None))
            signed.append(share * factor * moments.signed_mean.ravel())
            squares += share * factor**2 * moments.mean_square
        factors = np.array([view.factor for view in views])
        return ViewSamples(views, len(reading.weights)), Moments(np.concatenate(signed), squares, factors)

    def _present(self, name: str, reading: Reading) -> tuple[Array | None, Reading]:
        """Return the samples of a problem that have a view (None for all of them), and how these are read."""
        rows, missing = reading.rows, self.missing[name]
        every = np.arange(len(reading.weights)) if rows is None else rows
        there = ~np.isin(every, missing)
        if not len(missing) or there.all():
            return None, replace(reading, view_scales=None)
        if not there.any():
            raise ValueError(
                f"view {name!r} is missing in all samples of a binary problem, so it cannot be scaled; leave the view "
                "out, or use samples that have it"
            )
        weights = reading.weights[there]
        own = Reading(every[there], weights / weights.sum(), reading.signs[there], reading.centred, reading.tol)
        return np.flatnonzero(there), own

    def scores(self, coef: Any, intercept: Any, missing: Any = None) -> Any:
        """Return the sum of the views' scores and the intercepts; ``coef`` and ``missing`` are by name."""
        return reduce(add, (own for _, own in self.view_scores(coef, missing)), intercept)

    def view_scores(self, coef: Any, missing: Any) -> Iterator[tuple[str, Any]]:
        """Yield the names of the views and their scores, of shape (n_samples, n_weights)."""
        for name, array in self.arrays.items():
            gone = self.missing[name]
            if not len(gone):
                yield name, array.scores(coef[name], 0.0)
                continue
            xp = namespace(coef[name])
            there = np.setdiff1d(np.arange(len(self)), gone)
            lacking = xp.broadcast_to(missing[name], (len(gone), missing[name].shape[0]))
            known = [sample_array(rows_of(array.X, there)).scores(coef[name], 0.0)] if len(there) else []
            yield name, rows_of(xp.concat([*known, lacking], axis=0), np.argsort(np.concatenate([there, gone])))

    def apply_method(self, model: Any, method: str, compute: Callable[[], Any]) -> Any:
        """Return the result of a fitted model's method: ``compute()``, or a Dask array if all views are lazy."""
        if not all(array.is_lazy for array in self.arrays.values()):
            return compute()
        from dask.array import blockwise
        from dask.delayed import delayed

        empty = {name: np.zeros((1, *array.sample_shape), array.dtype) for name, array in self.arrays.items()}
        one = getattr(model, method)(Views(empty))
        samples, axes = 0, count(1)
        arguments: list[Any] = []
        for array in self.arrays.values():
            arguments += [array.X, (samples, *(next(axes) for _ in array.sample_shape))]
        columns = {next(axes): size for size in one.shape[1:]}
        return blockwise(
            _call,
            (samples, *columns),
            *arguments,
            names=tuple(self.arrays),
            model=delayed(model, traverse=False),
            method=method,
            new_axes=columns,
            concatenate=True,
            dtype=one.dtype,
            meta=one[:0],
        )

    def numpy_chunks(self) -> Iterator[tuple[slice, Any]]:
        """Yield (positions, Views) with NumPy arrays, some samples at a time."""
        step = max(1, tuning.CHUNK_BYTES * len(self) // max(1, self.X.nbytes))
        for where in slices(slice(0, len(self)), step):
            yield where, Views({name: to_host(array) for name, array in self.X[where].items()})

    def kept(self, array: Any) -> Any:
        """Return a fitted array that belongs to all views in the library of the first one."""
        return next(iter(self.arrays.values())).kept(array)

    def reject_not_finite(self, estimator: Any) -> None:
        """Raise ValueError for a view that contains NaN in part, or infinity."""
        for name, array in self.X.items():
            reject_partly_finite(name, array)


def _call(*arrays: Any, names: tuple[str, ...], model: Any, method: str) -> Any:
    return getattr(model, method)(Views(dict(zip(names, arrays, strict=True))))


def factor_to_unit(mean_square: float) -> float:
    """Return the factor that makes a mean squared norm one; for samples that are all equal any will do."""
    return 1.0 / float(np.sqrt(mean_square)) if mean_square > 0 else 1.0


def _named(name: str, call: Callable[[], Any]) -> Any:
    """Return the result of a call; its errors name the view."""
    try:
        return call()
    except ValueError as error:
        raise type(error)(f"view {name!r}: {error}") from error


def _missing(name: str, array: Any) -> Array:
    found: Array = _named(name, partial(missing_samples, array))
    return found
