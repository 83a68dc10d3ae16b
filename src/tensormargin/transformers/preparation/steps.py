"""The steps of transformers and pipelines: their kinds, and the metadata that they need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from ...data import AnyAxes, Metadata, named_as_fitted
from ...runtime import Array
from ._base import TakesMetadata

_OF_VECTORS = tuple(
    f"sklearn.{name}." for name in ("decomposition", "feature_selection", "linear_model", "preprocessing", "svm")
)


def flat_steps(steps: Sequence[tuple[str, Any]]) -> list[Any]:
    """Return the transformers among a pipeline's steps, with nested pipelines flattened."""
    return [step for _, step in named_steps(steps) if not is_sampler(step)]


def named_steps(steps: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the steps of a pipeline and their names, with nested pipelines flattened and "passthrough" left out."""
    for name, step in steps:
        while "sklearn.FrozenEstimator" in kind_names(step):
            step = step.estimator
        if isinstance(step, Pipeline):
            yield from ((f"{name}__{inner}", one) for inner, one in named_steps(step.steps))
        elif step is not None and not isinstance(step, str):
            yield name, step


def shapes_through(steps: Sequence[tuple[str, Any]]) -> tuple[Any, Any]:
    """Return the shapes of the samples that fitted steps take and return, None where they do not state them.

    Raise ValueError if a step takes samples of another shape than the step before it returns.
    """
    taken, returned, before = None, None, None
    for place, step in enumerate(flat_steps(steps)):
        takes, returns = _shapes_of(step)
        if not agree(returned, takes):
            raise ValueError(
                f"{type(step).__name__} must take samples of shape {returned}, which {type(before).__name__} before it "
                f"returns; it takes {takes}"
            )
        taken = takes if place == 0 else taken
        before, returned = step, returns
    return taken, returned


def _shapes_of(step: Any) -> tuple[Any, Any]:
    """Return the shapes of the samples that a fitted step takes and returns, None where it does not state them."""
    if type(step).__module__.startswith(_OF_VECTORS):
        takes = (step.n_features_in_,) if hasattr(step, "n_features_in_") else None
        if hasattr(step, "components_"):
            return takes, (len(step.components_),)
        return takes, None if hasattr(step, "get_support") else takes
    takes = getattr(step, "sample_shape_in_", getattr(step, "sample_shape_", None))
    return takes, getattr(step, "sample_shape_out_", None)


def agree(one: Any, other: Any) -> bool:
    """Return whether two shapes, perhaps unknown or of several views by name, can be those of the same samples."""
    if one is None or other is None:
        return True
    if isinstance(one, dict) or isinstance(other, dict):
        both = isinstance(one, dict) and isinstance(other, dict)
        return both and all(agree(one[view], other[view]) for view in one.keys() & other.keys())
    return len(one) == len(other) and all(a == b or None in (a, b) for a, b in zip(one, other, strict=True))


def describe_step(transformer: Any, brief: bool = False) -> str:
    """Return what a transformer or pipeline does, in words: one clause per step, or only a few words (``brief``).

    No parameter is shown as Python writes it, since a mask would be hundreds of lines.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from tensormargin import Smooth, TensorScaler
    >>> from tensormargin.transformers import describe_step
    >>> describe_step(make_pipeline(TensorScaler(), Smooth(2.0)), brief=True)
    'scaled per entry, then smoothed (width 2)'
    """
    steps = flat_steps([("", transformer)])
    described = [_described(step, brief) for step in steps]
    return (", then " if brief else "; ").join(described) or "samples as they are"


def _described(step: Any, brief: bool) -> str:
    if hasattr(step, "words"):
        return str(step.brief() if brief else step.words())
    kind = type(step)
    given = step.get_params(deep=False) if hasattr(step, "get_params") else {}
    usual = {name: one.default for name, one in signature(kind).parameters.items()} if given else {}
    plain = {name: value for name, value in given.items() if isinstance(value, str | int | float)}
    changed = ", ".join(f"{name} {value}" for name, value in plain.items() if value != usual.get(name))
    package = kind.__module__.partition(".")[0].replace("sklearn", "scikit-learn")
    described = kind.__name__ + (f" ({changed})" if changed else "")
    return described if brief else f"{described} of {package} was applied"


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


def axes_through(steps: Sequence[Any], axes: AnyAxes) -> AnyAxes:
    """Return the axes of samples after several fitted steps; None after a step that says nothing of them."""
    for step in steps:
        axes = step.axes_out(axes) if hasattr(step, "axes_out") else None
    return axes


def with_mode_numbers(model: Any, axes: AnyAxes) -> Any:
    """Return an unfitted copy of a transformer, pipeline or search in which modes are given by number.

    In a pipeline only the first step sees the names of an xarray DataArray, since steps hand on arrays. This function
    replaces the names in all steps beforehand. After a step that replaces modes by others, such as band power, only
    numbers can be given.

    Parameters
    ----------
    model : transformer, Pipeline, or estimator with such a ``preparation``
    axes : tuple of Axis, or dictionary of them for several views
        As `tensormargin.data.conversion.axes_in`, `load_samples` or `tensormargin.data.axes.axes_of` return them.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from tensormargin import Smooth, TensorScaler
    >>> from tensormargin.data.axes import axes_of
    >>> from tensormargin.transformers import with_mode_numbers
    >>> axes = axes_of((64, 250), ["channel", "time[ms]"])
    >>> with_mode_numbers(make_pipeline(TensorScaler(per="channel"), Smooth(2.0, mode="time")), axes)[1].mode
    1
    """
    copied = clone(model, safe=False)
    number_modes(copied, axes)
    return copied


def number_modes(step: Any, axes: AnyAxes) -> AnyAxes:
    """Replace names of modes in an unfitted step by numbers, in place; return the axes after it, if they are known."""
    if isinstance(step, str) or step is None:
        return axes
    if isinstance(step, Pipeline):
        for _, inner in step.steps:
            axes = number_modes(inner, axes)
        return axes
    if hasattr(step, "number_modes"):
        return step.number_modes(axes)
    prepared = getattr(step, "preparation", None)
    for one in prepared if isinstance(prepared, list | tuple) else [prepared]:
        number_modes(one, axes)
    return None


def metadata_for(step: Any, metadata: Metadata) -> dict[str, Any]:
    """Return the metadata that a step takes, as keyword arguments."""
    return metadata.given if isinstance(step, TakesMetadata) else {}


def kind_names(thing: Any) -> list[str]:
    """Return the type of an object and its base classes, as top-level package and name: "sklearn.GridSearchCV"."""
    return [f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}" for kind in type(thing).__mro__]
