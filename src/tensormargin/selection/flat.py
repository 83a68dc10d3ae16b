"""Flat weights of samples with more entries than there are samples, fitted in the span of the samples."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from .. import tuning
from .._typing import FloatArray
from ..estimators import TensorMarginClassifier
from ..estimators.binary_fit import FirstPasses
from ..estimators.fit_steps import TrainingSet, fit_training_set, keep_for_scoring
from ..samples import SampleArray, sample_array
from ..samples.span import Span


@dataclass(frozen=True)
class FlatFeatures:
    """Coordinates of the training samples in an orthonormal basis of their span.

    A flat weight is a combination of the centred samples, and inner products in their span are those of the
    coordinates. So all strengths and all binary problems share one basis of at most as many columns as there are
    samples, and each of their fits costs as if samples had no more entries than that.

    Attributes
    ----------
    mean : ndarray of shape (n_entries,)
    rows : ndarray of shape (n_samples, n_entries)
        The centred samples.
    shares : ndarray of shape (n_samples, n_axes)
        Each axis as a combination of the rows.
    coordinates : SampleArray
    passes : FirstPasses
        First passes over the coordinates.
    """

    mean: FloatArray
    rows: FloatArray
    shares: FloatArray
    coordinates: SampleArray
    passes: FirstPasses = field(default_factory=FirstPasses)

    @staticmethod
    def pay(array: SampleArray) -> bool:
        """Return whether coordinates are smaller than the samples, which must be in memory."""
        if array.has_views:
            return False
        size = prod(array.sample_shape)
        return array.in_memory and len(array) < size and 8 * len(array) * size <= tuning.FLAT_BASIS_BYTES

    @classmethod
    def of(cls, array: SampleArray, centred: bool) -> FlatFeatures:
        """Return the coordinates of samples, relative to their mean if the weight has an intercept."""
        rows = array.X.reshape(len(array), -1).astype(np.float64)
        mean = rows.mean(axis=0) if centred else np.zeros(rows.shape[1])
        rows -= mean
        span = Span.of(rows @ rows.T)
        return cls(mean, rows, span.shares, sample_array(span.coordinates))

    def fit(self, classifier: TensorMarginClassifier, training: TrainingSet) -> TensorMarginClassifier:
        """Return the classifier fitted to the coordinates, with its weights on the samples."""
        reduced = replace(training, array=self.coordinates, passes=self.passes)
        fit_training_set(classifier, reduced, for_scoring=True)
        coef = (classifier.coef_ @ self.shares.T) @ self.rows
        intercept = classifier.intercept_ - coef @ self.mean
        n_parameters = coef.shape[1] + int(classifier.fit_intercept)
        return keep_for_scoring(classifier, classifier.classes_, training.array, coef, intercept, None, n_parameters)
