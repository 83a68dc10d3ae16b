"""Flat weights of samples with more entries than there are samples, fitted in the span of the samples."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

from ..data import Views
from ..estimators import FirstPasses, TensorMarginClassifier, TrainingSet, fit_training_set, keep_for_scoring
from ..fitting import Matrix, SampleArray, SampleSpan, ViewArray, sample_array
from ..runtime import tuning

_FULL = "full"


def _is_wide(array: SampleArray) -> bool:
    """Return whether samples are in memory and have more entries than there are samples, but not too many."""
    size = prod(array.sample_shape)
    return array.in_memory and len(array) < size and 8 * len(array) * size <= tuning.FLAT_BASIS_BYTES


def _span(array: SampleArray, centred: bool) -> SampleSpan:
    return SampleSpan.of(Matrix(array.X.reshape(len(array), -1)), centred)


@dataclass
class FlatFeatures:
    """What replaces the samples where weights are flat, for one tensor per sample.

    All strengths and all binary problems share one basis, and each of their fits costs as if samples had no more
    entries than there are samples.
    """

    array: SampleArray
    centred: bool
    _passes: FirstPasses = field(default_factory=FirstPasses)

    def is_worthwhile(self, classifier: TensorMarginClassifier) -> bool:
        """Return whether the classifier's fit gets cheaper."""
        return classifier.decomposition == _FULL and _is_wide(self.array)

    @cached_property
    def _in_span(self) -> tuple[SampleSpan, SampleArray]:
        span = _span(self.array, self.centred)
        return span, sample_array(span.coordinates)

    def fit(self, classifier: TensorMarginClassifier, training: TrainingSet) -> TensorMarginClassifier:
        """Return the classifier fitted to the coordinates, with its weights on the samples."""
        span, coordinates = self._in_span
        fit_training_set(classifier, replace(training, array=coordinates, passes=self._passes), for_scoring=True)
        coef = span.outside(classifier.coef_)
        n_parameters = coef.shape[1] + int(classifier.fit_intercept)
        intercept = classifier.intercept_ - coef @ span.mean
        return keep_for_scoring(classifier, classifier.classes_, training.array, coef, intercept, None, n_parameters)


@dataclass
class FlatViews:
    """The same for several views: coordinates of those with flat weights beside the others as they are."""

    array: ViewArray
    centred: bool
    _spans: dict[str, SampleSpan] = field(default_factory=dict)
    _arrays: dict[tuple[str, ...], SampleArray] = field(default_factory=dict)

    def is_worthwhile(self, classifier: TensorMarginClassifier) -> bool:
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
            and _is_wide(one)
            and not len(self.array.missing[name])
        )

    def _replaced(self, names: tuple[str, ...]) -> SampleArray:
        """Return the views, with coordinates in place of some."""
        for name in names:
            if name not in self._spans:
                self._spans[name] = _span(self.array.arrays[name], self.centred)
        if names not in self._arrays:
            views = {name: self._spans[name].coordinates if name in names else X for name, X in self.array.X.items()}
            self._arrays[names] = sample_array(Views(views))
        return self._arrays[names]

    def fit(self, classifier: TensorMarginClassifier, training: TrainingSet) -> TensorMarginClassifier:
        """Return the classifier fitted to the coordinates, with its weights on the samples."""
        names = self._names(classifier)
        fit_training_set(classifier, replace(training, array=self._replaced(names), passes=None), for_scoring=True)
        classifier.sample_shape_ = self.array.sample_shape
        for name in names:
            span = self._spans[name]
            coef = span.outside(classifier.coef_[name])
            of_mean = coef @ span.mean
            classifier.coef_[name] = coef.reshape(-1, *self.array.sample_shape[name])
            classifier.n_parameters_ += coef.shape[1] - span.coordinates.shape[1]
            classifier.mean_scores_[name] = classifier.mean_scores_[name] + of_mean
            classifier.intercept_ = classifier.intercept_ - of_mean
        return classifier


def flat_features(array: SampleArray, centred: bool) -> Any:
    """Return what replaces samples where weights are flat; weights have an intercept if ``centred``."""
    return FlatViews(array, centred) if isinstance(array, ViewArray) else FlatFeatures(array, centred)
