"""Flat weights of the candidates of a search, fitted and scored by inner products of samples.

A flat weight is a combination of the samples of its binary problem, so inner products are all that its fit needs, and
those with the test set are all that its scores need. They are computed once per split, for each of several views; what
a binary problem then costs depends on its number of samples only. Weights on the samples are never computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from ..estimators import (
    ALONE,
    FitSpec,
    Products,
    TensorMarginClassifier,
    TrainingSet,
    centred_rows,
    keep_scheme,
    specify,
    suits_products,
)
from ..fitting import ViewArray, sample_array
from ..runtime import FloatArray, tuning

_FULL = "full"
_TINY = 1e-10  # products of four such numbers are still no problem for single precision


@dataclass
class InnerProducts:
    """Inner products of one split, which all candidates with flat weights share.

    Attributes
    ----------
    training : TrainingSet
    test : array or Views
        Samples of the test set.
    template : TensorMarginClassifier
        Says whether weights have an intercept, and how accurate they must be.
    """

    training: TrainingSet
    test: Any
    template: TensorMarginClassifier

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
    def _dtype(self) -> type:
        """Single precision, if that is accurate enough and no product can be too large or too small for it."""
        if self.template.tol < tuning.SINGLE_TOL:
            return np.float64
        sets = self.training.array.X, self.test
        arrays = [one for samples in sets for one in (samples.values() if self._views else [samples])]
        largest = [max(float(one.max()), -float(one.min())) for one in arrays]
        return np.float32 if all(_TINY <= one <= 1 / _TINY for one in largest) else np.float64

    @cached_property
    def _products(self) -> Products:
        X = self.training.array.X
        return Products.of(dict(X) if self._views else {ALONE: X}, self.template.fit_intercept, self._dtype)

    @cached_property
    def _cross(self) -> list[FloatArray]:
        """Inner products of the test set (rows) with the training set (columns), for each view."""
        train = self.training.array.X
        pairs = [(train[name], self.test[name]) for name in train] if self._views else [(train, self.test)]
        return [
            centred_rows(test, mean, self._dtype) @ centred_rows(own, mean, self._dtype).T
            for mean, (own, test) in zip(self._products.means, pairs, strict=True)
        ]

    @property
    def _views(self) -> bool:
        return isinstance(self.training.array, ViewArray)

    def fit(self, classifier: TensorMarginClassifier) -> tuple[TensorMarginClassifier, FloatArray] | None:
        """Return the fitted classifier, without its weights, and its binary scores of the test set.

        None if rounding keeps a problem from its gap.
        """
        training = self.training
        spec = specify(classifier, training.array.sample_shape, training.labels, training.weights)
        solved = self._products.solve(spec.fits)
        if solved is None or not np.all(solved.gaps <= tuning.GAP_SHARE * classifier.tol):
            return None
        n_parameters = sum(self._sizes(spec.fits[0])) + int(classifier.fit_intercept)
        keep_scheme(classifier, spec.classes, training.array, n_parameters)
        scores = [cross @ solved.shares(view) for view, cross in enumerate(self._cross)]
        return classifier, sum(scores, solved.intercepts)

    def _sizes(self, spec: FitSpec) -> Iterator[int]:
        array, used = self.training.array, spec.settings.view_scales
        shapes: Any = array.sample_shape
        return map(prod, array.sample_shapes if used is None else [shapes[name] for name in used])
