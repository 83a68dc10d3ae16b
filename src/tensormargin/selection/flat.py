"""Flat weights of samples with more entries than there are samples, fitted in the span of the samples."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from ..data import Views
from ..estimators import FirstPasses, TensorMarginClassifier, TrainingSet, fit_training_set
from ..fitting import Matrix, SampleArray, SampleSpan, ViewArray, sample_array, working_dtype
from ..runtime import tuning

_FULL = "full"
_ALONE = ""  # the name of the only tensor per sample


def _is_wide(array: SampleArray) -> bool:
    """Return whether samples are in memory and have more entries than there are samples, but not too many."""
    size = prod(array.sample_shape)
    return array.in_memory and len(array) < size and 8 * len(array) * size <= tuning.FLAT_BASIS_BYTES


@dataclass
class FlatFeatures:
    """What replaces samples with flat weights, ``centred`` if these have an intercept: coordinates in their span.

    All strengths and all binary problems share one basis, and each of their fits costs as if samples had no more
    entries than there are samples. Of several views, those with flat weights are replaced.
    """

    array: SampleArray
    centred: bool
    _passes: FirstPasses = field(default_factory=FirstPasses)
    _spans: dict[str, SampleSpan] = field(default_factory=dict)
    _arrays: dict[tuple[str, ...], SampleArray] = field(default_factory=dict)

    def is_worthwhile(self, classifier: TensorMarginClassifier) -> bool:
        """Return whether the classifier's fit gets cheaper."""
        return bool(self._names(classifier))

    def _names(self, classifier: TensorMarginClassifier) -> tuple[str, ...]:
        """Return the arrays to replace: those with flat weights and many entries, which every sample has."""
        array, forms, scales = self.array, classifier.decomposition, classifier.view_scale
        if not isinstance(array, ViewArray):
            return (_ALONE,) if forms == _FULL and _is_wide(array) else ()
        used = scales if isinstance(scales, dict) else {}
        return tuple(
            name
            for name, one in array.arrays.items()
            if used.get(name) != 0
            and (len(one.sample_shape) == 1 or (forms.get(name) if isinstance(forms, dict) else forms) == _FULL)
            and _is_wide(one)
            and not len(array.missing[name])
        )

    def _one(self, name: str) -> SampleArray:
        return self.array.arrays[name] if isinstance(self.array, ViewArray) else self.array

    def _replaced(self, names: tuple[str, ...]) -> SampleArray:
        """Return the samples, with coordinates in place of some arrays."""
        for name in names:
            if name not in self._spans:
                one = self._one(name)
                self._spans[name] = SampleSpan.of(Matrix(one.X.reshape(len(one), -1)), self.centred)
        if names not in self._arrays:
            new = {name: self._spans[name].coordinates for name in names}
            alone = new.get(_ALONE)
            self._arrays[names] = sample_array(Views({**self.array.X, **new}) if alone is None else alone)
        return self._arrays[names]

    def fit(self, classifier: TensorMarginClassifier, training: TrainingSet) -> TensorMarginClassifier:
        """Return the classifier fitted to the coordinates, with its weights on the samples."""
        names = self._names(classifier)
        replaced = replace(training, array=self._replaced(names), passes=self._passes)
        fit_training_set(classifier, replaced, for_scoring=True)
        classifier.sample_shape_ = self.array.sample_shape
        for name in names:
            span, one = self._spans[name], self._one(name)
            coef = span.outside(classifier.coef_[name] if name else classifier.coef_)
            of_mean = coef @ span.mean
            on_samples = coef.reshape(-1, *one.sample_shape).astype(working_dtype(one.dtype), copy=False)
            classifier.n_parameters_ += coef.shape[1] - span.coordinates.shape[1]
            classifier.intercept_ = (classifier.intercept_ - of_mean).astype(self.array.result_dtype, copy=False)
            if name:
                classifier.coef_[name] = on_samples
                classifier.mean_scores_[name] = classifier.mean_scores_[name] + of_mean
            else:
                classifier.coef_ = on_samples
        return classifier
