"""The steps of a model: transformers that prepare samples, and the classifier that holds the weight.

A model is a `TensorMarginClassifier`, a `TensorMarginClassifierCV`, or a scikit-learn Pipeline that ends in one.
"""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ._namespace import to_host
from ._typing import Array
from ._validation import named_as_fitted
from .estimators import TensorMarginClassifier, to_device
from .intake import is_ragged
from .multiclass import binary_problems
from .preparation import KeepsTensors, TensorScaler


def pipeline_steps(model: Any) -> list[Any]:
    """Return the transformers before a pipeline's final estimator, with nested pipelines flattened.

    Empty for other models.
    """
    return _taken_apart(model.steps[:-1]) if isinstance(model, Pipeline) else []


def _taken_apart(steps: list[tuple[str, Any]]) -> list[Any]:
    single: list[Any] = []
    for _, step in steps:
        if isinstance(step, Pipeline):
            single += _taken_apart(step.steps)
        elif step is not None and step != "passthrough":
            single.append(step)
    return single


def last_estimator(model: Any) -> Any:
    """Return the final estimator of a Pipeline, or the model itself."""
    return model.steps[-1][1] if isinstance(model, Pipeline) else model


def all_steps(model: Any) -> list[Any]:
    """Return all fitted transformers in order: those of the Pipeline, then those inside a search."""
    return [*pipeline_steps(model), *pipeline_steps(getattr(last_estimator(model), "best_estimator_", None))]


def classifier_of(model: Any) -> TensorMarginClassifier:
    """Return the fitted classifier that holds the weight; raise TypeError for a model without one."""
    last = last_estimator(model)
    check_is_fitted(last)
    classifier = last_estimator(getattr(last, "best_estimator_", last))
    if not isinstance(classifier, TensorMarginClassifier):
        raise TypeError(f"a model must end in TensorMarginClassifier or TensorMarginClassifierCV; got {model!r}")
    return classifier


def samples_for_map(model: Any, X: Array, groups: Array | None = None) -> Array:
    """Return the samples in the space of the maps: the original samples, or scaled by group if the model does so.

    Samples of different lengths are returned with their common length.
    """
    if needs_groups(model):
        return samples_for_last_step(model, X, groups)
    return _through(all_steps(model)[:1], X, groups) if is_ragged(X) else X


def needs_groups(model: Any) -> bool:
    """Return whether preparing samples requires their groups."""
    return any(isinstance(step, TensorScaler) and step.by_group for step in pipeline_steps(model))


def fit_model(model: Any, X: Array, y: Array, groups: Array | None = None, **of_last: Any) -> Any:
    """Fit a model and return it; groups go to every step that takes them, further arguments to the final `fit`."""
    for step in pipeline_steps(model):
        X = step.fit_transform(X, y, **_groups_for(step, groups))
    last = last_estimator(model)
    taken = signature(last.fit).parameters.values()
    takes_groups = any(one.name == "groups" or one.kind is Parameter.VAR_KEYWORD for one in taken)
    last.fit(X, y, **({"groups": groups} if takes_groups and groups is not None else {}), **of_last)
    return model


def samples_for_last_step(model: Any, X: Array, groups: Array | None = None) -> Array:
    """Return the samples transformed for the final estimator of a fitted model."""
    return named_as_fitted(last_estimator(model), _through(pipeline_steps(model), X, groups))


def samples_for_classifier(model: Any, X: Array, groups: Array | None = None) -> Array:
    """Return the samples transformed for the classifier inside a fitted model."""
    return named_as_fitted(classifier_of(model), _through(all_steps(model), X, groups))


def sample_shape(model: Any) -> tuple[int, ...]:
    """Return the sample shape that a fitted model expects."""
    classifier_of(model)  # raises if there is no fitted classifier
    last = last_estimator(model)
    first = [*pipeline_steps(model), last][0]
    return tuple(getattr(first, "sample_shape_in_", last.sample_shape_))


def weight_maps(model: Any) -> Array:
    """Return the weight of each binary problem in the space of the original samples, before any preparation.

    Scores are ``<map, Z> + constant``: scaling, masks, cropping, resizing and folding are undone on the weight.
    (Group-wise scaling cannot be undone on a weight; the map then refers to the scaled samples. For samples of
    different lengths it refers to samples of the common length.)

    Returns
    -------
    ndarray of shape (n_problems, *sample shape)
    """
    model = to_device(model)  # maps are NumPy arrays, wherever the model is
    maps = classifier_of(model).coef_
    for step in reversed(all_steps(model)):
        if None in getattr(step, "sample_shape_in_", ()):
            break  # no one weight fits all lengths
        if not isinstance(step, KeepsTensors):
            raise TypeError(
                f"cannot take a weight back through {type(step).__name__}; the steps of tensormargin.preparation can"
            )
        maps = np.stack([step.pull_back(one) for one in maps])
    return maps


def problem_names(model: Any) -> list[str]:
    """Return "positive against negative" for each binary problem."""
    classifier = classifier_of(model)
    classes = to_host(classifier.classes_).tolist()
    problems = binary_problems(np.empty(0, int), len(classes), classifier.multi_class_)
    return [
        f"{classes[problem.positive]} against {'rest' if problem.negative < 0 else classes[problem.negative]}"
        for problem in problems
    ]


def _through(steps: list[Any], X: Array, groups: Array | None) -> Array:
    for step in steps:
        X = step.transform(named_as_fitted(step, X), **_groups_for(step, groups))
    return X


def _groups_for(step: Any, groups: Array | None) -> dict[str, Any]:
    return {"groups": groups} if isinstance(step, KeepsTensors) else {}
