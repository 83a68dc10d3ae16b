"""What classifiers have in common: ``score`` for arrays of any library, and what notebooks show of fitted ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from ..data import map_picture
from ..runtime import to_host


class AccuracyMixin(ClassifierMixin):
    """Mixin whose ``score`` accepts predictions of any array library; those in a Dask array are computed."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of the predictions for X."""
        return self._accuracy_of(self.predict(X), y, sample_weight)

    @staticmethod
    def _accuracy_of(predicted: Any, y: Any, sample_weight: Any) -> float:
        weights = None if sample_weight is None else to_host(sample_weight)
        return float(accuracy_score(to_host(y), to_host(predicted), sample_weight=weights))


class NotebookMixin:
    """Adds the validation score of a search and a small picture of the weight to scikit-learn's HTML."""

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + _shown_below(self)  # type: ignore[misc]

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += _shown_below(self)
        return bundle


def _shown_below(classifier: Any) -> str:
    """Return the score and the weight of a fitted classifier as HTML; nothing before the fit."""
    if not classifier.__sklearn_is_fitted__():
        return ""
    parts = []
    score, results = getattr(classifier, "best_score_", None), getattr(classifier, "cv_results_", None)
    if score is not None and results is not None:
        chosen = f"the best of {len(results['params'])} models, so this is optimistic on average"
        parts.append(f"<p>Validation score {score:.3g} ({chosen}; nested_evaluation gives an unbiased one)</p>")
    negative, positive = classifier.problems_[0]
    weights = getattr(classifier, "coef_", {})  # none on the samples if a representation is not linear
    for name, own in (weights if isinstance(weights, Mapping) else {"": weights}).items():
        what = f"weight of {name}" if name else "weight"
        parts.append(map_picture(to_host(own[0]), f"{what}: red for {positive}, blue for {negative}"))
    return "".join(parts)
