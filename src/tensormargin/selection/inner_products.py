"""Flat weights of the candidates of a search, fitted and scored by inner products of samples.

A flat weight is a combination of the samples of its binary problem, so inner products are all that its fit needs, and
those with the test set are all that its scores need. They are computed once per split, for each of several views; what
a binary problem then costs depends on its number of samples only. Weights on the samples are never computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..estimators import FitSpec, TensorMarginClassifier, TrainingSet, keep_scheme, specify
from ..fitting import (
    SOLVERS,
    FullWeight,
    MemorySamples,
    Moments,
    Span,
    ViewArray,
    alternate,
    coarse_start,
    factor_to_unit,
    sample_array,
)
from ..runtime import Array, FloatArray, tuning

_FULL = "full"
_ALONE = ""  # the name of the only tensor per sample


class _Products(NamedTuple):
    """Inner products of the training samples with each other and with those of the test set."""

    gram: FloatArray
    cross: FloatArray

    @classmethod
    def of(cls, train: Array, test: Array, centred: bool) -> _Products:
        """Return the inner products of samples, relative to the training mean if weights have an intercept."""
        rows = train.reshape(len(train), -1).astype(np.float64)
        others = test.reshape(len(test), -1).astype(np.float64)
        if centred:
            mean = rows.mean(axis=0)
            rows -= mean
            others -= mean
        return cls(rows @ rows.T, others @ rows.T)

    def centred(self, shares: FloatArray) -> _Products:
        """Return the inner products relative to a weighted mean of the training samples."""
        with_mean, of_mean = self.gram @ shares, shares @ self.gram @ shares
        gram = self.gram - with_mean[:, None] - with_mean[None, :] + of_mean
        cross = self.cross - (self.cross @ shares)[:, None] - with_mean[None, :] + of_mean
        return _Products(gram, cross)


class _Coordinates(NamedTuple):
    """The samples of a binary problem and the test set in an orthonormal basis of the former's span."""

    train: FloatArray
    test: FloatArray
    mean_square: float

    @property
    def nbytes(self) -> int:
        return self.train.nbytes + self.test.nbytes


@dataclass
class InnerProducts:
    """Inner products of one split, which all candidates with flat weights share.

    Attributes
    ----------
    training : TrainingSet
    test : array or Views
        Samples of the test set.
    centred : bool
        Whether weights have an intercept.
    """

    training: TrainingSet
    test: Any
    centred: bool
    _kept: dict[tuple[Any, ...], _Coordinates] = field(default_factory=dict)
    _left: int = tuning.KEPT_COORDINATES_BYTES

    def is_worthwhile(self, classifier: TensorMarginClassifier) -> bool:
        """Return whether the classifier has flat weights only, and there are fewer samples than entries."""
        array = self.training.array
        if not self._suit or not len(self.test):
            return False
        if not isinstance(array, ViewArray):
            return classifier.decomposition == _FULL
        forms = classifier.decomposition
        own = {name: forms.get(name) if isinstance(forms, dict) else forms for name in array.arrays}
        return all(form == _FULL or len(array.sample_shape[name]) == 1 for name, form in own.items())

    @cached_property
    def _suit(self) -> bool:
        """Whether the samples are in memory, none lacks a view, and they are fewer than their entries."""
        array = self.training.array
        size = sum(map(prod, array.sample_shapes))
        small = len(array) <= tuning.MOST_INNER_PRODUCTS and 8 * len(array) * size <= tuning.FLAT_BASIS_BYTES
        if not array.in_memory or not small or len(array) >= size:
            return False
        both: tuple[Any, ...] = (array, sample_array(self.test)) if isinstance(array, ViewArray) else ()
        return not any(len(gone) for one in both for gone in one.missing.values())

    @cached_property
    def _products(self) -> dict[str, _Products]:
        X = self.training.array.X
        pairs = {name: (X[name], self.test[name]) for name in X} if self._views else {_ALONE: (X, self.test)}
        return {name: _Products.of(*pair, self.centred) for name, pair in pairs.items()}

    @property
    def _views(self) -> bool:
        return isinstance(self.training.array, ViewArray)

    def fit(self, classifier: TensorMarginClassifier) -> tuple[TensorMarginClassifier, FloatArray]:
        """Return the fitted classifier, without its weights, and its binary scores of the test set."""
        training = self.training
        spec = specify(classifier, training.array.sample_shape, training.labels, training.weights)
        columns = list(self._columns(spec.fits))
        n_parameters = sum(self._sizes(spec.fits[0])) + int(classifier.fit_intercept)
        keep_scheme(classifier, spec.classes, training.array, n_parameters)
        return classifier, np.column_stack(columns)

    def _sizes(self, spec: FitSpec) -> Iterator[int]:
        array, used = self.training.array, spec.settings.view_scales
        shapes: Any = array.sample_shape
        return map(prod, array.sample_shapes if used is None else [shapes[name] for name in used])

    def _columns(self, specs: list[FitSpec]) -> Iterator[FloatArray]:
        solver = SOLVERS["dual_cd"]
        for spec in specs:
            own, settings = self._coordinates(spec), spec.settings
            signed_mean = (spec.shares * spec.problem.signs) @ own.train
            problem = spec.margin_problem(Moments(signed_mean, own.mean_square))
            samples = MemorySamples(own.train)
            start = coarse_start(samples, problem, FullWeight(signed_mean), solver, settings.tol, settings.max_iter)
            fit = alternate(samples, problem, start, solver, settings.tol, settings.max_iter)
            yield own.test @ fit.weight.to_dense() + fit.intercept

    def _coordinates(self, spec: FitSpec) -> _Coordinates:
        """Return the coordinates of a binary problem, which do not depend on its signs."""
        rows, scales = spec.problem.rows, spec.settings.view_scales
        key = None if rows is None else rows.tobytes(), spec.shares.tobytes(), scales and tuple(scales.items())
        found = self._kept.get(key)
        if found is None:
            found = self._new_coordinates(spec)
            if found.nbytes <= self._left:
                self._left -= found.nbytes
                self._kept[key] = found
        return found

    def _new_coordinates(self, spec: FitSpec) -> _Coordinates:
        rows, shares = spec.problem.rows, spec.shares
        gram: Any = 0.0
        cross: Any = 0.0
        mean_square = 0.0
        for name, scale in (spec.settings.view_scales or {_ALONE: 1.0}).items():
            own = self._products[name]
            if rows is not None:
                own = _Products(own.gram[np.ix_(rows, rows)], own.cross[:, rows])
            if self.centred:
                own = own.centred(shares)
            square = max(float(shares @ np.diag(own.gram)), 0.0)
            factor = (factor_to_unit(square) if scale is None else scale) ** 2
            gram, cross = gram + factor * own.gram, cross + factor * own.cross
            mean_square += factor * square
        np.fill_diagonal(gram, np.maximum(np.diag(gram), 0.0))  # rounding may leave less
        span = Span.of(gram)
        return _Coordinates(span.coordinates, np.ascontiguousarray(span.project(cross)), mean_square)
