"""The steps of transformers and pipelines: their kinds, and the metadata that they need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sklearn.pipeline import Pipeline

from .._typing import Array
from .._validation import named_as_fitted
from ..metadata import Metadata
from ._base import TakesMetadata


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


def needed_metadata(transformer: Any) -> set[str]:
    """Return the names of the metadata ("groups", "confounds") that a transformer or its steps need; none for None."""
    steps = [step for _, step in named_steps([("", transformer)])]
    return set().union(*(step.needed_metadata for step in steps if isinstance(step, TakesMetadata)))


def fit_transformed(transformer: Any, X: Any, y: Any, metadata: Metadata | Array | None) -> Any:
    """Fit a transformer and return the transformed samples; metadata are passed to all steps that take them."""
    if not needed_metadata(transformer):
        return transformer.fit_transform(X, y)
    metadata = Metadata.of(metadata)
    if not isinstance(transformer, Pipeline):
        return transformer.fit_transform(X, y, **metadata.given)
    for _, step in named_steps(transformer.steps):
        X = fit_transformed(step, X, y, metadata)
    return X


def transformed(transformer: Any, X: Any, metadata: Metadata | Array | None) -> Any:
    """Return the samples after a fitted transformer; metadata are passed to all steps that take them."""
    if not needed_metadata(transformer):
        return transformer.transform(X)
    metadata = Metadata.of(metadata)
    if not isinstance(transformer, Pipeline):
        return transformer.transform(X, **metadata.given)
    return through(flat_steps(transformer.steps), X, metadata)


def through(steps: Sequence[Any], X: Any, metadata: Metadata) -> Any:
    """Return the samples after several fitted steps, one after the other."""
    for step in steps:
        X = step.transform(named_as_fitted(step, X), **metadata_for(step, metadata))
    return X


def metadata_for(step: Any, metadata: Metadata) -> dict[str, Any]:
    """Return the metadata that a step takes, as keyword arguments."""
    return metadata.given if isinstance(step, TakesMetadata) else {}


def kind_names(thing: Any) -> list[str]:
    """Return the type of an object and its base classes, as top-level package and name: "sklearn.GridSearchCV"."""
    return [f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}" for kind in type(thing).__mro__]
