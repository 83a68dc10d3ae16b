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

from ..estimators import (
    ALONE,
    FitSpec,
    Products,
    TensorMarginClassifier,
    TrainingSet,
    as_rows,
    keep_scheme,
    specify,
    suits_products,
)
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
from ..runtime import FloatArray, tuning

_FULL = "full"


class _Coordinates(NamedTuple):
    """The samples of a binary problem and the test set in an orthonormal basis of the former's span."""

    train: FloatArray
    test: FloatArray

    @property
    def nbytes(self) -> int:
        return self.train.nbytes + self.test.nbytes

    def relative_to(self, mean: FloatArray) -> _Coordinates:
        return _Coordinates(self.train - mean, self.test - mean)


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
        if not self._suits or not len(self.test):
            return False
        if not isinstance(array, ViewArray):
            return classifier.decomposition == _FULL
        forms = classifier.decomposition
        own = {name: forms.get(name) if isinstance(forms, dict) else forms for name in array.arrays}
        return all(form == _FULL or len(array.sample_shape[name]) == 1 for name, form in own.items())

    @cached_property
    def _suits(self) -> bool:
        test = sample_array(self.test)
        lacking = isinstance(test, ViewArray) and any(map(len, test.missing.values()))
        return not lacking and suits_products(self.training.array)

    @cached_property
    def _products(self) -> Products:
        X = self.training.array.X
        return Products.of(dict(X) if self._views else {ALONE: X}, self.centred)

    @cached_property
    def _cross(self) -> list[FloatArray]:
        """Inner products of the test set (rows) with the training set (columns), for each view."""
        train = self.training.array.X
        pairs = [(train[name], self.test[name]) for name in train] if self._views else [(train, self.test)]
        return [
            (as_rows(test) - mean) @ (as_rows(own) - mean).T
            for mean, (own, test) in zip(self._products.means, pairs, strict=True)
        ]

    @property
    def _views(self) -> bool:
        return isinstance(self.training.array, ViewArray)

    def fit(self, classifier: TensorMarginClassifier) -> tuple[TensorMarginClassifier, FloatArray]:
        """Return the fitted classifier, without its weights, and its binary scores of the test set."""
        training = self.training
        spec = specify(classifier, training.array.sample_shape, training.labels, training.weights)
        columns = self._scores(spec.fits)
        n_parameters = sum(self._sizes(spec.fits[0])) + int(classifier.fit_intercept)
        keep_scheme(classifier, spec.classes, training.array, n_parameters)
        return classifier, columns

    def _sizes(self, spec: FitSpec) -> Iterator[int]:
        array, used = self.training.array, spec.settings.view_scales
        shapes: Any = array.sample_shape
        return map(prod, array.sample_shapes if used is None else [shapes[name] for name in used])

    def _scores(self, specs: list[FitSpec]) -> FloatArray:
        """Return the scores of the test set, one column per binary problem."""
        solved = self._products.solve(specs)
        if solved is None:
            return np.column_stack([self._column(spec) for spec in specs])
        scores = sum(cross @ solved.shares(view) for view, cross in enumerate(self._cross)) + solved.intercepts
        for number, spec in enumerate(specs):
            if solved.gaps[number] > tuning.GAP_SHARE * spec.settings.tol:
                scores[:, number] = self._column(spec)
        return scores

    def _column(self, spec: FitSpec) -> FloatArray:
        own, settings, solver = self._coordinates(spec), spec.settings, SOLVERS["dual_cd"]
        if self.centred:
            own = own.relative_to(spec.shares @ own.train)
        signed_mean = (spec.shares * spec.problem.signs) @ own.train
        mean_square = float(spec.shares @ np.einsum("ij,ij->i", own.train, own.train))
        problem = spec.margin_problem(Moments(signed_mean, mean_square))
        samples = MemorySamples(own.train)
        start = coarse_start(samples, problem, FullWeight(signed_mean), solver, settings.tol, settings.max_iter)
        fit = alternate(samples, problem, start, solver, settings.tol, settings.max_iter)
        return own.test @ fit.weight.to_dense() + fit.intercept

    def _coordinates(self, spec: FitSpec) -> _Coordinates:
        """Return the coordinates of a binary problem, which do not depend on its signs.

        They depend on the shares of the samples only where views are scaled to a mean squared norm of one: other
        one-vs-rest problems, balanced or not, have one basis.
        """
        rows, scales = spec.problem.rows, spec.settings.view_scales
        shares = spec.shares.tobytes() if scales is not None and None in scales.values() else None
        key = None if rows is None else rows.tobytes(), shares, scales and tuple(scales.items())
        found = self._kept.get(key)
        if found is None:
            found = self._new_coordinates(spec)
            if found.nbytes <= self._left:
                self._left -= found.nbytes
                self._kept[key] = found
        return found

    def _new_coordinates(self, spec: FitSpec) -> _Coordinates:
        rows, shares = spec.problem.rows, spec.shares
        scales: Any = spec.settings.view_scales or {ALONE: 1.0}
        total: Any = 0.0
        with_test: Any = 0.0
        for view, name in enumerate(self._products.names):
            if name not in scales:
                continue
            gram, cross, scale = self._products.grams[view], self._cross[view], scales[name]
            if rows is not None:
                gram, cross = gram[np.ix_(rows, rows)], cross[:, rows]
            if scale is None:
                of_mean = float(shares @ gram @ shares) if self.centred else 0.0
                scale = factor_to_unit(max(float(shares @ np.diag(gram)) - of_mean, 0.0))
            total, with_test = total + scale**2 * gram, with_test + scale**2 * cross
        span = Span.of(total)
        return _Coordinates(span.coordinates, np.ascontiguousarray(span.project(with_test)))
