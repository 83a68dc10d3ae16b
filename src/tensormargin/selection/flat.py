"""Flat weights of samples with more entries than there are samples, fitted in the span of the samples."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from ..data import Views
from ..estimators import FirstPasses, TensorMarginClassifier, TrainingSet, fit_training_set, keep_for_scoring
from ..fitting import SampleArray, Span, ViewArray, sample_array
from ..runtime import Array, FloatArray, tuning

_FULL = "full"


@dataclass(frozen=True)
class Reduced:
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
    coordinates : ndarray of shape (n_samples, n_axes)
    """

    mean: FloatArray
    rows: FloatArray
    shares: FloatArray
    coordinates: FloatArray

    @staticmethod
    def pay(array: SampleArray) -> bool:
        """Return whether coordinates are smaller than the samples, which must be in memory."""
        size = prod(array.sample_shape)
        return array.in_memory and len(array) < size and 8 * len(array) * size <= tuning.FLAT_BASIS_BYTES

    @classmethod
    def of(cls, array: SampleArray, centred: bool) -> Reduced:
        """Return the coordinates of samples, relative to their mean if the weight has an intercept."""
        rows = array.X.reshape(len(array), -1).astype(np.float64)
        mean = rows.mean(axis=0) if centred else np.zeros(rows.shape[1])
        rows -= mean
        span = Span.of(rows @ rows.T)
        return cls(mean, rows, span.shares, span.coordinates)

    def on_samples(self, coef: Array) -> tuple[Array, Array]:
        """Return weights on the samples, one row each, from weights on the coordinates, and the scores of the mean."""
        weights = (coef @ self.shares.T) @ self.rows
        return weights, weights @ self.mean


@dataclass
class FlatFeatures:
    """What replaces the samples where weights are flat, for one tensor per sample."""

    array: SampleArray
    centred: bool
    _passes: FirstPasses = field(default_factory=FirstPasses)

    def pay(self, classifier: TensorMarginClassifier) -> bool:
        """Return whether the classifier's fit gets cheaper."""
        return classifier.decomposition == _FULL and Reduced.pay(self.array)

    @cached_property
    def _reduced(self) -> tuple[Reduced, SampleArray]:
        reduced = Reduced.of(self.array, self.centred)
        return reduced, sample_array(reduced.coordinates)

    def fit(self, classifier: TensorMarginClassifier, training: TrainingSet) -> TensorMarginClassifier:
        """Return the classifier fitted to the coordinates, with its weights on the samples."""
        reduced, coordinates = self._reduced
        fit_training_set(classifier, replace(training, array=coordinates, passes=self._passes), for_scoring=True)
        coef, of_mean = reduced.on_samples(classifier.coef_)
        n_parameters = coef.shape[1] + int(classifier.fit_intercept)
        intercept = classifier.intercept_ - of_mean
        return keep_for_scoring(classifier, classifier.classes_, training.array, coef, intercept, None, n_parameters)


@dataclass
class FlatViews:
    """The same for several views: coordinates of those with flat weights beside the others as they are."""

    array: ViewArray
    centred: bool
    _reduced: dict[str, Reduced] = field(default_factory=dict)
    _arrays: dict[tuple[str, ...], SampleArray] = field(default_factory=dict)

    def pay(self, classifier: TensorMarginClassifier) -> bool:
        """Return whether the classifier's fit gets cheaper."""
        return bool(self._names(classifier))

    def _names(self, classifier: TensorMarginClassifier) -> tuple[str, ...]:
        """Return the views to replace: those with flat weights and many entries, which every sample has."""
        used = classifier.view_scale if isinstance(classifier.view_scale, dict) else {}
        forms = classifier.decomposition
        return tuple(
            name
            for name, one in self.array.arrays.items()
            if used.get(name) != 0
            and (len(one.sample_shape) == 1 or (forms.get(name) if isinstance(forms, dict) else forms) == _FULL)
            and Reduced.pay(one)
            and not len(self.array.missing[name])
        )

    def _replaced(self, names: tuple[str, ...]) -> SampleArray:
        """Return the views, with coordinates in place of some."""
        for name in names:
            if name not in self._reduced:
                self._reduced[name] = Reduced.of(self.array.arrays[name], self.centred)
        if names not in self._arrays:
            views = {name: self._reduced[name].coordinates if name in names else X for name, X in self.array.X.items()}
            self._arrays[names] = sample_array(Views(views))
        return self._arrays[names]

    def fit(self, classifier: TensorMarginClassifier, training: TrainingSet) -> TensorMarginClassifier:
        """Return the classifier fitted to the coordinates, with its weights on the samples."""
        names = self._names(classifier)
        fit_training_set(classifier, replace(training, array=self._replaced(names), passes=None), for_scoring=True)
        classifier.sample_shape_ = self.array.sample_shape
        for name in names:
            coef, of_mean = self._reduced[name].on_samples(classifier.coef_[name])
            classifier.coef_[name] = coef.reshape(-1, *self.array.sample_shape[name])
            classifier.n_parameters_ += coef.shape[1] - self._reduced[name].coordinates.shape[1]
            classifier.mean_scores_[name] = classifier.mean_scores_[name] + of_mean
            classifier.intercept_ = classifier.intercept_ - of_mean
        return classifier


def flat_features(array: SampleArray, centred: bool) -> Any:
    """Return what replaces samples where weights are flat; weights have an intercept if ``centred``."""
    return FlatViews(array, centred) if isinstance(array, ViewArray) else FlatFeatures(array, centred)
