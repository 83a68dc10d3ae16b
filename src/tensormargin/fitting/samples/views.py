"""Several tensors per sample: one kind of samples each, whose designs are put side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from math import prod
from typing import Any

import numpy as np

from ...runtime import Array, FloatArray, tuning
from ..contractions import Contraction, Direction, SideBySide
from ..designs import Design, Matrix, Piece, Stacked
from .base import Moments, Samples, ViewFacts, shares_of_variance


@dataclass(frozen=True)
class View:
    """The samples of one view; those that lack it have the mean of the others if it is centred, and otherwise zero."""

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

    @property
    def coarse_share(self) -> int:
        return max(view.samples.coarse_share for view in self.views)

    def matrix(self) -> Array:
        """Return the scaled samples of all views as rows of a matrix, a copy."""
        pieces = (view.piece(view.samples.matrix(), len(self), view.factor) for view in self.views)
        return np.hstack([piece.to_numpy() for piece in pieces])

    def take(self, rows: Array) -> ViewSamples:
        return ViewSamples([view.take(rows) for view in self.views], len(rows))

    def first_pass(self, weights: Array, signs: Array, centred: bool, noise: bool = False) -> Moments:
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
