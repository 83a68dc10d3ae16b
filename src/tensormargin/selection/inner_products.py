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
from pickle import PicklingError
from typing import Any

import numpy as np

from ..data import fingerprint
from ..estimators import ALONE, FitSpec, Products, TensorMarginClassifier, TrainingSet, keep_scheme, suits_products
from ..fitting import ViewArray, sample_array
from ..runtime import FloatArray, UsedByThreads, tuning
from .splits import Split

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
        sets = self.training.array.X, self.test
        train, test = (dict(samples) if self._views else {ALONE: samples} for samples in sets)
        return Products.of(train, self.template.fit_intercept, self._dtype, test)

    @property
    def _views(self) -> bool:
        return isinstance(self.training.array, ViewArray)

    def fit(self, classifier: TensorMarginClassifier) -> tuple[TensorMarginClassifier, FloatArray] | None:
        """Return the fitted classifier, without its weights, and its binary scores of the test set.

        None if rounding keeps a problem from its gap.
        """
        training = self.training
        spec = training.specify(classifier)
        solved = self._products.solve(spec.fits)
        if solved is None or not np.all(solved.gaps <= tuning.GAP_SHARE * classifier.tol):
            return None
        n_parameters = sum(self._sizes(spec.fits[0])) + int(classifier.fit_intercept)
        keep_scheme(classifier, spec.classes, training.array, n_parameters)
        scores = [cross @ solved.shares(view) for view, cross in enumerate(self._products.crosses)]
        return classifier, sum(scores, solved.intercepts)

    def side_by_side(self) -> tuple[FloatArray, FloatArray] | None:
        """Return the inner products of all views together, each with a mean squared norm of one; None for one tensor.

        Those of the test set (rows) with the training set come second.
        """
        if not self._views or not self.template.fit_intercept:
            return None
        grams = self._products.grams
        squares = np.einsum("vnn->v", grams) / grams.shape[1]
        factors = 1.0 / np.where(squares > 0, squares, 1.0)
        crosses = (factor * cross for factor, cross in zip(factors, self._products.crosses, strict=True))
        return np.tensordot(factors, grams, 1).astype(np.float64, copy=False), sum(crosses, np.zeros(1))

    def _sizes(self, spec: FitSpec) -> Iterator[int]:
        array, used = self.training.array, spec.settings.view_scales
        shapes: Any = array.sample_shape
        return map(prod, array.sample_shapes if used is None else [shapes[name] for name in used])


class KeptProducts(UsedByThreads):
    """Inner products of several views side by side, kept for others who need them on the same splits: ``with kept:``.

    A search has computed them; the flat reference of an evaluation is tuned on the same splits of the same samples.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[Any, tuple[FloatArray, FloatArray]] = {}

    def _end(self) -> None:
        self._kept.clear()

    def key(self, samples: Any, split: Split, preparation: Any) -> str | None:
        """Return what names the products of a split of labelled samples after a preparation; None if none are kept."""
        if not self._users or preparation is None or not isinstance(samples.X, np.ndarray):
            return None
        try:
            return fingerprint([samples.X, samples.y, samples.metadata.content, *split, preparation])
        except PicklingError:
            return None

    def add(self, key: str | None, products: InnerProducts) -> None:
        """Keep the products of several views under a key, unless there are too many of them."""
        if key is None or key in self._kept:
            return
        found = products.side_by_side()
        with self._lock:
            n_bytes = 0 if found is None else sum(one.nbytes for pair in (found, *self._kept.values()) for one in pair)
            if found is not None and self._users and n_bytes <= tuning.SHARED_RESULTS_BYTES:
                self._kept[key] = found

    def get(self, key: str | None) -> tuple[FloatArray, FloatArray] | None:
        """Return the products of the training set, and those of the test set with it; None if they were not kept."""
        return None if key is None else self._kept.get(key)


kept_products = KeptProducts()
"""Those of the searches of this process."""
