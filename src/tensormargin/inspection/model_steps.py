"""Fit and predict with metadata: models, fitted or not, whose steps get the groups and confounds that they need."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

from ..data import Metadata, check_needs, named_as_fitted
from ..runtime import Array
from ..transformers import flat_steps, is_sampler, metadata_for, named_steps, needed_metadata, through
from .model_chain import ModelChain


def pipeline_steps(model: Any) -> list[Any]:
    """Return the transformers before a pipeline's final estimator, with nested pipelines flattened.

    Empty for other models. Steps that do nothing when predicting (imbalanced-learn's samplers) are left out.
    """
    return flat_steps(model.steps[:-1]) if isinstance(model, Pipeline) else []


def last_estimator(model: Any) -> Any:
    """Return the final estimator of a Pipeline, or the model itself."""
    return model.steps[-1][1] if isinstance(model, Pipeline) else model


def metadata_needed_by(model: Any) -> set[str]:
    """Return the names of the metadata, "groups" and "confounds", without which a model cannot prepare samples."""
    if hasattr(model, "needed_metadata"):
        return set(model.needed_metadata)
    try:
        steps = list(ModelChain.of(model).steps)
    except (NotFittedError, TypeError):  # not fitted, or a model of another library
        steps = pipeline_steps(model)
    return set().union(*map(needed_metadata, steps))


def needs_groups(model: Any) -> bool:
    """Return whether preparing samples requires their groups."""
    return "groups" in metadata_needed_by(model)


def fit_model(model: Any, X: Array, y: Array, metadata: Metadata | Array | None = None, **fit_arguments: Any) -> Any:
    """Fit a model and return it; metadata are passed to all steps that take them, other arguments to the final `fit`.

    Here and below, a vector instead of `Metadata` stands for groups.
    """
    metadata = Metadata.of(metadata)
    steps = [step for _, step in named_steps(model.steps[:-1])] if isinstance(model, Pipeline) else []
    for step in steps:
        if is_sampler(step):
            X, y, metadata = _resampled(step, X, y, metadata)
        else:
            X = step.fit_transform(X, y, **metadata_for(step, metadata))
    last = last_estimator(model)
    if isinstance(last, Pipeline):
        fit_model(last, X, y, metadata, **fit_arguments)
    else:
        last.fit(X, y, **_taken(last.fit, metadata), **fit_arguments)
    return model


def _taken(method: Any, metadata: Metadata) -> dict[str, Array]:
    """Return the metadata that a method takes, as keyword arguments."""
    parameters = signature(method).parameters.values()
    every = any(one.kind is Parameter.VAR_KEYWORD for one in parameters)
    names = {one.name for one in parameters} | ({"groups"} if every else set())
    return {name: value for name, value in metadata.given.items() if name in names}


def _resampled(step: Any, X: Array, y: Array, metadata: Metadata) -> tuple[Array, Array, Metadata]:
    X, y = step.fit_resample(X, y)
    if not metadata.given:
        return X, y, metadata
    if not hasattr(step, "sample_indices_"):
        lacking = "belong to no group" if metadata.groups is not None else "have no confounds"
        raise ValueError(
            f"{type(step).__name__} makes new samples, which {lacking}; leave the {' and '.join(metadata.given)} out, "
            "or use a sampler that takes samples as they are, such as RandomOverSampler"
        )
    return X, y, metadata.rows(step.sample_indices_)


def check_metadata_for(method: str, transformer: Any, metadata: Metadata) -> None:
    """Raise ValueError if a transformer (or None) needs metadata that are not there."""
    check_needs(method, needed_metadata(transformer), metadata)


def metadata_for_last_step(model: Any, metadata: Metadata | Array | None) -> dict[str, Any]:
    """Return the keyword arguments for `predict` and similar methods of a fitted model's last estimator.

    These are the metadata that a preparation inside it needs, otherwise nothing.
    """
    last = last_estimator(model)
    taken, needed = _taken(last.predict, Metadata.of(metadata)), metadata_needed_by(last)
    return {name: value for name, value in taken.items() if name in needed}


def samples_for_last_step(model: Any, X: Any, metadata: Metadata | Array | None = None) -> Any:
    """Return the samples transformed for the final estimator of a fitted model."""
    return named_as_fitted(last_estimator(model), through(pipeline_steps(model), X, Metadata.of(metadata)))


def predicted_labels(model: Any, X: Any, metadata: Metadata | Array | None = None) -> Array:
    """Return the predictions of a fitted model, whose steps get the metadata that they need."""
    ready, more = samples_for_last_step(model, X, metadata), metadata_for_last_step(model, metadata)
    return np.asarray(last_estimator(model).predict(ready, **more))
