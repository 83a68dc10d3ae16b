"""The transformers and the classifier of a fitted model, unwrapped from searches, calibrators and other wrappers.

Wrappers keep the fitted model in an attribute, which `_HOLDERS` lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..data import AnyAxes
from ..estimators import TensorMarginClassifier
from ..transformers import Composite, Deconfound, TensorScaler, flat_steps, kind_names

# The attribute in which a wrapper keeps its fitted model. By name, so that no library has to be installed or imported.
_HOLDERS = {
    "tensormargin.TensorMarginClassifierCV": "best_estimator_",
    "sklearn.BaseSearchCV": "best_estimator_",
    "sklearn.TunedThresholdClassifierCV": "estimator_",
    "sklearn.FixedThresholdClassifier": "estimator_",
    "sklearn.SelfTrainingClassifier": "estimator_",
    "sklearn.FrozenEstimator": "estimator",
    "sklearn.CalibratedClassifierCV": "calibrated_classifiers_",
    "sklearn._CalibratedClassifier": "estimator",
    "mne.LinearModel": "model_",
    "dask_ml.ParallelPostFit": "estimator",
    "dask_ml.DaskBaseSearchCV": "best_estimator_",
    "optuna.OptunaSearchCV": "best_estimator_",
    "optuna_integration.OptunaSearchCV": "best_estimator_",
}


@dataclass(frozen=True)
class Chain:
    """The steps of a fitted model in order, and the classifier or classifiers after them.

    Attributes
    ----------
    steps : tuple of transformer
        Pipelines are flattened; "passthrough" and steps that do nothing when predicting (imbalanced-learn's samplers)
        are left out.
    classifier : TensorMarginClassifier or None
        None if there are copies.
    copies : tuple of Chain
        The chains of a `CalibratedClassifierCV` with several models, each fitted on one training set.
    wrappers : tuple of estimator
        The wrappers of the model, outermost first, without pipelines.
    """

    steps: tuple[Any, ...]
    classifier: TensorMarginClassifier | None
    copies: tuple[Chain, ...] = ()
    wrappers: tuple[Any, ...] = ()


def chain_of(model: Any) -> Chain:
    """Return the chain of a fitted model; raise TypeError if it does not end in a classifier of this library."""
    steps, wrappers = list[Any](), list[Any]()
    while True:
        if isinstance(model, Pipeline):
            steps += flat_steps(model.steps[:-1])
            model = model.steps[-1][1]
            continue
        inside = _held(model)
        if not inside:
            return Chain(tuple(steps), _checked_classifier(model), (), tuple(wrappers))
        wrappers.append(model)
        if len(inside) > 1:
            return Chain(tuple(steps), None, tuple(chain_of(one) for one in inside), tuple(wrappers))
        model = inside[0]


def _held(estimator: Any) -> list[Any]:
    """Return the fitted models inside a wrapper, usually one; an empty list for an estimator that is not a wrapper."""
    attribute = next((_HOLDERS[name] for name in kind_names(estimator) if name in _HOLDERS), None)
    if attribute is None:
        return []
    if not hasattr(estimator, attribute):
        check_is_fitted(estimator)
        raise NotFittedError(
            f"this {type(estimator).__name__} has no {attribute}: it was not fitted again on all samples. Fit it with "
            "refit=True"
        )
    held = getattr(estimator, attribute)
    return held if isinstance(held, list) else [held]


def _checked_classifier(model: Any) -> TensorMarginClassifier:
    if not isinstance(model, TensorMarginClassifier):
        raise TypeError(
            f"a model must end in TensorMarginClassifier or TensorMarginClassifierCV; got {type(model).__name__}"
        )
    check_is_fitted(model)
    return model


def known_axes(model: Any) -> AnyAxes:
    """Return the axes of the samples that a model was fitted to, if these carried some; otherwise None.

    Only what comes first sees them: the first step, the search that holds it, or a classifier by itself.
    """
    chain = chain_of(model)
    parts = (*chain.wrappers, *chain.steps, *([] if chain.classifier is None else [chain.classifier]))
    found = (getattr(part, "axes_in_", None) for part in parts)
    return next((axes for axes in found if axes is not None), None)


def scales_by_group(step: Any) -> bool:
    """Return whether a step scales each group separately, so that it needs groups and is not affine."""
    return any(isinstance(one, TensorScaler) and one.by_group for one in every_step([step]))


def every_step(steps: Sequence[Any]) -> Iterator[Any]:
    """Yield steps; in place of one that makes several views, the steps of each view."""
    for step in steps:
        if isinstance(step, Composite):
            yield from every_step(flat_steps(step.members))
        else:
            yield step


def without_confounds(chain: Chain) -> Chain:
    """Return a chain without the removal of confounds, which leaves weights as they are and only changes offsets."""
    return replace(chain, steps=tuple(_without_confounds(chain.steps)))


def _without_confounds(steps: Sequence[Any]) -> list[Any]:
    kept = [step for step in steps if not isinstance(step, Deconfound)]
    return [step.with_steps(_without_confounds) if isinstance(step, Composite) else step for step in kept]
