"""What each of several views is worth: the nested accuracy without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..progress import EqualStages, Progress
from ..views import is_views, views_or_samples
from .intervals import PairedDifference, paired_difference
from .nested import NestedEvaluation, nested_evaluation


@dataclass(frozen=True)
class ViewsEvaluation:
    """The nested evaluation of a model on all views, and on all but each of them.

    Attributes
    ----------
    whole : NestedEvaluation
    without : dict of str to NestedEvaluation
        By the name of the view that was left out.
    """

    whole: NestedEvaluation
    without: Mapping[str, NestedEvaluation]

    @property
    def differences(self) -> dict[str, PairedDifference]:
        """The score with all views minus the one without each, paired, with its 95 % interval."""
        return {name: self._difference(one) for name, one in self.without.items()}

    def _difference(self, other: NestedEvaluation) -> PairedDifference:
        whole = self.whole
        by_split = np.array([a.score - b.score for a, b in zip(whole.folds, other.folds, strict=True)])
        return paired_difference(
            whole.right,
            other.right,
            whole.groups,
            whole.labels if whole.score == "balanced_accuracy" else None,
            by_split=by_split if len(whole.tested) > 1 else None,
            test_to_train=sum(fold.n_test for fold in whole.folds) / sum(fold.n_train for fold in whole.folds),
        )


def evaluate_without_views(
    model: Any, X: Any, y: Any, groups: Any = None, progress: Progress | None = None, **settings: Any
) -> ViewsEvaluation:
    """Evaluate a model on several views, and on all but each of them, on the same splits.

    A view that is worth something makes the score higher with it than without. Views that say the same replace each
    other: each may be worth nothing while the other is there.

    Parameters
    ----------
    model : estimator
        As for `nested_evaluation`; its parameters must not name single views.
    X : Views
        At least two views.
    y, groups, progress
        See `nested_evaluation`.
    **settings
        Further arguments of `nested_evaluation`: ``cv``, ``repeats``, ``seed``, ``score``, ``checkpoint``.
    """
    if not is_views(X) or len((X := views_or_samples(X)).names) < 2:
        raise ValueError("views are left out one at a time, so there must be two or more; pass Views of several arrays")
    stages = EqualStages(progress, 1 + len(X.names))
    found = []
    for number, name in enumerate((None, *X.names)):
        told = stages.begin(number, "all views" if name is None else f"without {name}")
        part = X if name is None else X.without(name)
        found.append(nested_evaluation(model, part, y, groups, progress=told, **settings))
        stages.end()
    return ViewsEvaluation(found[0], dict(zip(X.names, found[1:], strict=True)))
