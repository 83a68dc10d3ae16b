"""What notebooks show of fitted classifiers besides scikit-learn's diagram: accuracy and weight."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from ..data import map_picture
from ..runtime import to_host


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
    return _score(classifier) + _weight(classifier)


def _score(classifier: Any) -> str:
    score, results = getattr(classifier, "best_score_", None), getattr(classifier, "cv_results_", None)
    if score is None or results is None:
        return ""
    chosen = f"the best of {len(results['params'])} models, so this is optimistic on average"
    return f"<p>Validation score {score:.3g} ({escape(chosen)}; nested_evaluation gives an unbiased one)</p>"


def _weight(classifier: Any) -> str:
    weights, (negative, positive) = classifier.coef_, classifier.problems_[0]
    views = weights if isinstance(weights, Mapping) else {"": weights}
    pictures = []
    for name, own in views.items():
        what = f"weight of {name}" if name else "weight"
        pictures.append(map_picture(to_host(own[0]), f"{what}: red for {positive}, blue for {negative}"))
    return "".join(pictures)
