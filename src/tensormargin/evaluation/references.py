"""The references of a nested evaluation: flat LinearSVCs, tuned on the same inner splits as the model."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from ..data import Views, copies_in, is_ragged
from ..inspection import fit_model
from ..runtime import Deadline, is_lazy
from ..selection import BEFORE, Split, TensorMarginClassifierCV, splits_of
from .contenders import Tuned, contender, tuned_on_splits
from .held_out import Labelled
from .lazy_reference import lazy_reference

REFERENCE = "LinearSVC"


@dataclass(frozen=True)
class Reference:
    """Tunes and fits references on a training set, as it is transformed for the last step of a fitted model."""

    model: Any
    training: Labelled
    seed: int
    score: str

    def both(self, deadline: Deadline) -> tuple[Tuned, Tuned]:
        """Return a flat LinearSVC of the samples as they are, and of the representation that the model has chosen.

        They are one and the same if the model has chosen the samples as they are, or if these cannot be flattened.
        """
        chosen = dict(getattr(self.model, "best_params_", {}))
        given = _before_choice(alternatives_of(self.model))
        used, scale = chosen.get("preparation", given), chosen.get("view_scale")
        without = tuple(name for name, one in scale.items() if one == 0) if isinstance(scale, dict) else ()
        if used is given and not without:
            alone = self._tuned(given, (), deadline)
            return alone, alone
        matched = self._tuned(used, without, deadline.part(0.5))
        matched = replace(matched, values={**matched.values, "preparation": used})
        if given is None and not self._can_be_flattened:
            return matched, matched
        return self._tuned(given, (), deadline), matched

    def _tuned(self, preparation: Any, without: tuple[str, ...], deadline: Deadline) -> Tuned:
        """Return the flat LinearSVC behind a preparation and ``without`` some views, tuned and fitted."""
        samples = self.training
        flat = contender(REFERENCE, class_weight=getattr(self.model, "class_weight", None))
        flat.estimator.set_params(flat__without=without)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            if is_lazy(samples.X):
                return lazy_reference(flat, preparation, samples, self._inner_splits, self.score, self.seed, deadline)
            splits, n_jobs = self._inner_splits(samples, samples.X), getattr(self.model, "n_jobs", None)
            chosen = tuned_on_splits(flat.behind(preparation), samples, splits, n_jobs, self.score, deadline)
            began = deadline.now()
            fit_model(chosen.estimator, samples.X, samples.y, samples.metadata)
            deadline.costs.add("reference", deadline.now() - began)
        return chosen

    def _inner_splits(self, samples: Labelled, X: Any = None) -> list[Split]:
        """Return the splits to tune on: the model's, so that both share what is computed on them."""
        model = self.model
        if isinstance(model, TensorMarginClassifierCV) and isinstance(model.random_state, int | np.integer):
            return model.splits(samples.y, samples.groups, X)
        return splits_of(5, samples.y, samples.groups, self.seed, None if X is None else copies_in(X))

    @property
    def _can_be_flattened(self) -> bool:
        """Whether samples have one shape and, unless they have views or are lazy, no missing entries."""
        X = self.training.X
        if isinstance(X, Views) or is_lazy(X):
            return True
        return not is_ragged(X) and bool(np.isfinite(np.sum(X, dtype=np.float64)) or np.isfinite(X).all())


def alternatives_of(search: Any) -> Sequence[Any]:
    """Return the preparations that a search chooses from; None stands for no preparation."""
    preparation = getattr(search, "preparation", None)
    return preparation if isinstance(preparation, list | tuple) else [preparation]


def _before_choice(alternatives: Sequence[Any]) -> Any:
    """Return the transformer in front of all representations that a search chooses from; None if there is none.

    The only alternative is no choice, so the samples as they are given to a classifier are those behind it.
    """
    if len(alternatives) == 1:
        return alternatives[0]
    behind = [one for one in alternatives if isinstance(one, Pipeline) and one.steps[0][0] == BEFORE]
    alone = [one for one in alternatives if one not in behind]
    if not behind:
        return None
    return alone[0] if alone else behind[0].steps[0][1]
