"""The ``score`` method for arrays of any library."""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from .._namespace import to_host


class AccuracyMixin(ClassifierMixin):
    """Mixin whose ``score`` accepts predictions of any array library; those in a Dask array are computed."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of the predictions for X."""
        predicted = to_host(self.predict(X))
        weights = None if sample_weight is None else to_host(sample_weight)
        return float(accuracy_score(to_host(y), predicted, sample_weight=weights))
