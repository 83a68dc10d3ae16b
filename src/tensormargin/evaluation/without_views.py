"""What each of several views is worth: the nested accuracy without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from ..data import FactsMixin, content_ranks, is_views, views_or_samples
from ..runtime import Deadline, EqualStages, Progress
from .intervals import PairedDifference
from .nested import NestedEvaluation, nested_evaluation


@dataclass(frozen=True, repr=False)
class ViewsEvaluation(FactsMixin):
    """The nested evaluation of a model on all views, and on all but each of them.

    Attributes
    ----------
    whole : NestedEvaluation
    without : dict of str to NestedEvaluation
        By the name of the view that was left out.

    Examples
    --------
    `evaluate_without_views` returns one.

    >>> from tensormargin.evaluation import ViewsEvaluation
    >>> ViewsEvaluation(whole=None, without={}).differences
    {}
    """

    whole: NestedEvaluation
    without: Mapping[str, NestedEvaluation]

    def _facts(self) -> list[tuple[str, str]]:
        parts = [(f"without {name}", str(one.interval)) for name, one in self.without.items()]
        return [("all views", str(self.whole.interval)), *parts]

    @property
    def differences(self) -> dict[str, PairedDifference]:
        """The score with all views minus the one without each, paired, with its 95 % interval."""
        return {name: self._difference(one) for name, one in self.without.items()}

    def _difference(self, other: NestedEvaluation) -> PairedDifference:
        both = self.whole.tested & other.tested  # a budget may have left time for fewer folds without a view
        cut = any(fold.cut for fold in (*self.whole.folds, *other.folds))
        return replace(self.whole, tested=both).minus(np.where(both, other.right, np.nan), cut)


def evaluate_without_views(
    model: Any,
    X: Any,
    y: Any,
    groups: Any = None,
    progress: Progress | None = None,
    *,
    whole: NestedEvaluation | None = None,
    **settings: Any,
) -> ViewsEvaluation:
    """Evaluate a model on several views, and on all but each of them, on the same splits.

    A view that is worth something makes the score higher with it than without. Views that say the same replace each
    other: each may be worth nothing while the other is there.

    Parameters
    ----------
    model : estimator
        As for `nested_evaluation`. What it says about a view by name (in a `ViewTransformer`, or as a format, a rank
        or a scale) is left out together with the view.
    X : Views
        At least two views.
    y, groups, progress
        See `nested_evaluation`.
    whole : NestedEvaluation, optional
        That with all views, if it has been made with the same settings.
    **settings
        Further arguments of `nested_evaluation`: ``cv``, ``repeats``, ``seed``, ``score``, ``checkpoint``,
        and ``budget``, which all evaluations share.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import TensorMarginClassifierCV, Views
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.evaluation import evaluate_without_views
    >>> data = make_low_rank_classes(60, (6, 7), rank=1, random_state=0)
    >>> X = Views(signal=data.data, noise=np.random.default_rng(0).standard_normal((60, 5)))
    >>> search = TensorMarginClassifierCV(decompositions=("cp",), ranks=(1,), lams=(1.0,), mus=(1.0,), cv=3)
    >>> result = evaluate_without_views(search, X, data.target, cv=3)
    >>> result.whole.accuracy > result.without["signal"].accuracy
    True
    """
    if not is_views(X) or len((X := views_or_samples(X)).names) < 2:
        raise ValueError("views are left out one at a time, so there must be two or more; pass Views of several arrays")
    contents = content_ranks(X)  # copies are copies of the samples that were given, not of what is left of them
    names = X.names if whole is not None else (None, *X.names)
    stages = EqualStages(progress, len(names))
    deadline = Deadline.of(settings.pop("budget", None))
    found = {}
    for number, name in enumerate(names):
        report = stages.begin(number, "all views" if name is None else f"without {name}")
        part, own = X, model
        if name is not None:
            part, own = X.without(name), without_view(model, name)
            part.contents = contents
        within = deadline.part(1 / (len(names) - number))
        found[name] = nested_evaluation(own, part, y, groups, progress=report, budget=within, **settings)
        stages.end()
    whole = whole or found.pop(None)
    return ViewsEvaluation(whole, found)


def without_view(model: Any, name: str) -> Any:
    """Return an unfitted copy of a model that says nothing about a view."""
    if isinstance(model, list | tuple):
        return type(model)(without_view(one, name) for one in model)
    if not isinstance(model, BaseEstimator):
        return model
    changed = clone(model)
    for parameter, value in model.get_params(deep=False).items():
        by_view = parameter in ("transformers", "decomposition", "rank", "view_scale") and isinstance(value, dict)
        kept = {key: one for key, one in value.items() if key != name} if by_view else without_view(value, name)
        setattr(changed, parameter, kept)
    return changed
