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

from .estimators import TensorMarginClassifier
from .preparation import Deconfound, KeepsTensors, TensorScaler

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
            f"a model must end in TensorMarginClassifier or TensorMarginClassifierCV; got {type(model).__name__}: "
            f"{model!r}"
        )
    check_is_fitted(model)
    return model


def flat_steps(steps: Sequence[tuple[str, Any]]) -> list[Any]:
    """Return the transformers among a pipeline's steps, with nested pipelines flattened."""
    return [step for _, step in named_steps(steps) if not is_sampler(step)]


def named_steps(steps: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the steps of a pipeline and their names, with nested pipelines flattened and "passthrough" left out."""
    for name, step in steps:
        step = _thawed(step)
        if isinstance(step, Pipeline):
            yield from ((f"{name}__{inner}", one) for inner, one in named_steps(step.steps))
        elif step is not None and not isinstance(step, str):
            yield name, step


def _thawed(step: Any) -> Any:
    """Return the estimator inside a FrozenEstimator, or the step itself."""
    while "sklearn.FrozenEstimator" in kind_names(step):
        step = step.estimator
    return step


def is_sampler(step: Any) -> bool:
    """Return whether a step only resamples the training set (imbalanced-learn) and is skipped when predicting."""
    return hasattr(step, "fit_resample") and not hasattr(step, "transform")


def is_masker(step: Any) -> bool:
    """Return whether a step is a nilearn masker, which turns images into vectors."""
    return "nilearn.BaseMasker" in kind_names(step)


def scales_by_group(step: Any) -> bool:
    """Return whether a step scales each group separately, so that it needs groups and is not affine."""
    return isinstance(step, TensorScaler) and step.by_group


def needed_metadata(transformer: Any) -> set[str]:
    """Return the names of the metadata ("groups", "confounds") that a transformer or its steps need; none for None."""
    steps = [step for _, step in named_steps([("", transformer)])]
    return set().union(*(step.needed_metadata for step in steps if isinstance(step, KeepsTensors)))


def without_confounds(chain: Chain) -> Chain:
    """Return a chain without the removal of confounds, which leaves weights as they are and only changes offsets."""
    return replace(chain, steps=tuple(step for step in chain.steps if not isinstance(step, Deconfound)))


def kind_names(thing: Any) -> list[str]:
    """Return the type of an object and its base classes, as top-level package and name: "sklearn.GridSearchCV"."""
    return [f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}" for kind in type(thing).__mro__]
