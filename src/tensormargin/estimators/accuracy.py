"""The ``score`` method for arrays of any library."""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from ..runtime import to_host


class AccuracyMixin(ClassifierMixin):
    """Mixin whose ``score`` accepts predictions of any array library; those in a Dask array are computed."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of the predictions for X."""
        return self._accuracy_of(self.predict(X), y, sample_weight)

    @staticmethod
    def _accuracy_of(predicted: Any, y: Any, sample_weight: Any) -> float:
        """Return the accuracy of predictions."""
        weights = None if sample_weight is None else to_host(sample_weight)
        return float(accuracy_score(to_host(y), to_host(predicted), sample_weight=weights))
