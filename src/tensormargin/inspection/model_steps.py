"""Functions of a model's steps: the transformers that prepare samples, and the classifier that holds the weight.

A model is a `TensorMarginClassifier` or a `TensorMarginClassifierCV`, alone or in scikit-learn's pipelines, searches,
calibrators, thresholds and FrozenEstimator, in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import Parameter, signature
from math import prod
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

from ..data import AnyAxes, Axes, Metadata, check_needs, named_as_fitted, views_or_array, views_or_samples
from ..estimators import TensorMarginClassifier, to_device
from ..runtime import Array, dtype_of
from ..transformers import (
    Composite,
    Crop,
    Deconfound,
    MoveMode,
    SetsToZero,
    Tensorize,
    TensorScaler,
    ViewTransformer,
    axes_through,
    flat_steps,
    is_masker,
    is_sampler,
    kind_names,
    metadata_for,
    named_steps,
    needed_metadata,
    takes_ragged,
    through,
)
from .affine import form_of_chain, mean_form
from .affine import sample_shape as sample_shape
from .chains import Chain, chain_of, every_step, known_axes, scales_by_group, without_confounds
from .pull_backs import LINEAR, NotAffineError, painted, volumes


def pipeline_steps(model: Any) -> list[Any]:
    """Return the transformers before a pipeline's final estimator, with nested pipelines flattened.

    Empty for other models. Steps that do nothing when predicting (imbalanced-learn's samplers) are left out.
    """
    return flat_steps(model.steps[:-1]) if isinstance(model, Pipeline) else []


def last_estimator(model: Any) -> Any:
    """Return the final estimator of a Pipeline, or the model itself."""
    return model.steps[-1][1] if isinstance(model, Pipeline) else model


def all_steps(model: Any) -> list[Any]:
    """Return all fitted transformers before the classifier in order, including those inside searches.

    Steps inside a CalibratedClassifierCV with several models are not included, since each model has its own.
    """
    return list(chain_of(model).steps)


def classifier_of(model: Any) -> TensorMarginClassifier:
    """Return the fitted classifier that holds the weight; raise TypeError for a model without one.

    For a CalibratedClassifierCV with several models, this is an `AveragedClassifier`.
    """
    chain = chain_of(model)
    return chain.classifier or AveragedClassifier.of(chain.copies)


def wrappers_of(model: Any) -> list[Any]:
    """Return the wrappers of a fitted model (searches, calibrators, ...), outermost first."""
    return list(chain_of(model).wrappers)


def search_of(model: Any) -> Any:
    """Return the fitted TensorMarginClassifierCV in a model, or None if there is none."""
    name = "tensormargin.TensorMarginClassifierCV"
    return next((one for one in wrappers_of(model) if name in kind_names(one)), None)


class AveragedClassifier(TensorMarginClassifier):
    """The mean of several fitted classifiers, which gives the mean of their binary scores.

    Its weights are full tensors; they include the steps of the individual models.

    Attributes
    ----------
    n_copies_ : int
    """

    n_copies_: int

    @classmethod
    def of(cls, copies: Sequence[Chain]) -> AveragedClassifier:
        """Return the mean of the classifiers of several chains; raise NotAffineError if a step is not affine."""
        first = copies[0].classifier or cls.of(copies[0].copies)
        form = mean_form(copies)
        one = cls(**{**first.get_params(deep=False), "decomposition": "full", "rank": None})
        one.classes_, one.multi_class_ = first.classes_, first.multi_class_
        one.coef_, one.intercept_ = form
        one.weight_ = form.weights[0] if len(form.weights) == 1 else list(form.weights)
        one.sample_shape_ = form.weights.shape[1:]
        one.n_features_in_ = one.sample_shape_[0]
        one.n_parameters_ = form.weights[0].size + int(first.fit_intercept)
        one.n_copies_ = len(copies)
        return one


def metadata_needed_by(model: Any) -> set[str]:
    """Return the names of the metadata, "groups" and "confounds", without which a model cannot prepare samples."""
    if hasattr(model, "needed_metadata"):
        return set(model.needed_metadata)
    try:
        steps = all_steps(model)
    except (NotFittedError, TypeError):  # not fitted, or a model of another library
        steps = pipeline_steps(model)
    return set().union(*map(needed_metadata, steps))


def needs_groups(model: Any) -> bool:
    """Return whether preparing samples requires their groups."""
    return "groups" in metadata_needed_by(model)


def removed_confounds(model: Any) -> list[Deconfound]:
    """Return the steps of a fitted model that remove confounds."""
    return [step for _, step in confounds_by_view(model)]


def confounds_by_view(model: Any) -> list[tuple[str, Deconfound]]:
    """Return the steps of a fitted model that remove confounds, with the names of their views ("" for all samples)."""
    parts = [
        (name, flat_steps([(name, member)]))
        for step in all_steps(model)
        for name, member in (step.members if isinstance(step, Composite) else [("", step)])
    ]
    return [(name, one) for name, steps in parts for one in every_step(steps) if isinstance(one, Deconfound)]


def fit_model(model: Any, X: Array, y: Array, metadata: Metadata | Array | None = None, **of_last: Any) -> Any:
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
        fit_model(last, X, y, metadata, **of_last)
    else:
        last.fit(X, y, **_taken(last.fit, metadata), **of_last)
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


def samples_for_map(model: Any, X: Any, metadata: Metadata | Array | None = None) -> Any:
    """Return the samples in the space that the maps are drawn in.

    This is the space of the original samples, or the space after the last step that scales by group, equalises
    different lengths or is not linear (band power, covariances). If the first step is a nilearn masker, voxels outside
    its mask are zero.
    """
    steps = all_steps(model)
    if steps and is_masker(steps[0]):
        return volumes(steps[0].inverse_transform(steps[0].transform(X)))
    return views_or_array(through(steps[: _map_space(steps)], _at_the_door(steps, X), Metadata.of(metadata)))


def _map_space(steps: Sequence[Any]) -> int:
    """Return the number of steps up to the last one through which no weight can be pulled back."""
    one_way = [
        scales_by_group(step) or getattr(step, "maps_after", False) or None in getattr(step, "sample_shape_in_", ())
        for step in steps
    ]
    return max((place + 1 for place, stops in enumerate(one_way) if stops), default=0)


def used_entries(model: Any) -> Any:
    """Return which entries of the samples of maps (`samples_for_map`) reach the classifier; None if all of them do.

    Masks set entries to zero and crops leave them out. Of several views the result is a dictionary.
    """
    chain = chain_of(model)
    used = _union([_used_before(copy.steps, None) for copy in chain.copies]) if chain.copies else None
    return _used_before(chain.steps[_map_space(chain.steps) :], used)


def _used_before(steps: Sequence[Any], used: Any) -> Any:
    """Return which entries of the input of steps are used, given those of their output; None stands for all."""
    for step in reversed(steps):
        if isinstance(step, Composite):
            used = _used_by_members(step, used or {})
        elif isinstance(step, SetsToZero | Crop | Tensorize | MoveMode):
            own = to_device(step)
            used = own.pull_back(np.ones(own.sample_shape_out_, bool) if used is None else used)
        elif not isinstance(step, TensorScaler | Deconfound):  # it may make one entry out of many
            used = None
    return used


def _used_by_members(step: Composite, used: Mapping[str, Any]) -> Any:
    parts = {}
    for name, member in step.transformers_:
        own = {inner: used.get(outer) for inner, outer in step.views_[name].items()}
        parts[name] = _used_before(flat_steps([(name, member)]), own.get("", own))
    return {**used, **parts} if isinstance(step, ViewTransformer) else _union(list(parts.values()))


def _union(parts: Sequence[Any]) -> Any:
    """Return the entries that any part uses."""
    if any(part is None for part in parts):
        return None
    if isinstance(parts[0], Mapping):
        return {name: _union([part.get(name) for part in parts]) for name in parts[0]}
    return np.any(parts, axis=0)


def axes_at_classifier(model: Any, axes: AnyAxes = None) -> AnyAxes:
    """Return the axes of samples as the classifier of a fitted model gets them.

    Parameters
    ----------
    model : estimator
    axes : tuple of Axis, or dictionary of them for several views, optional
        Those of the original samples; by default those seen in `fit`, if X was an xarray DataArray or a data frame.

    Returns
    -------
    tuple of Axis, dictionary of them, or None
    """
    return axes_through(all_steps(model), _original_axes(model, axes))


def axes_of_maps(model: Any, axes: AnyAxes = None) -> AnyAxes:
    """Return the axes of `weight_maps` and of activation patterns, given those of the original samples.

    Weights are pulled back to the original samples, so that these are their axes, or to the samples after the last step
    that cannot be undone (see `weight_maps`).
    """
    steps = all_steps(model)
    if _several_views(model) and _views_on_samples(model) is None:
        return axes_at_classifier(model, axes)
    return axes_through(steps[: _map_space(steps)], _original_axes(model, axes))


def axes_of_view_maps(model: Any, axes: AnyAxes = None) -> dict[str, Axes | None]:
    """Return the axes of `tensormargin.inspection.patterns.view_maps`, by view."""
    views, maps = classifier_of(model).coef_, _views_on_samples(model)
    on_samples = isinstance(maps, dict) and maps.keys() == views.keys()
    found = axes_of_maps(model, axes) if on_samples else axes_at_classifier(model, axes)
    return {name: found.get(name) if isinstance(found, Mapping) else None for name in views}


def _several_views(model: Any) -> bool:
    classifier = chain_of(model).classifier
    return classifier is not None and isinstance(classifier.coef_, dict)


def _views_on_samples(model: Any) -> Any:
    """Return the weights of several views on the original samples; None if a step cannot be undone on them."""
    try:
        return maps_on_samples(model)
    except NotAffineError:
        return None


def _original_axes(model: Any, axes: AnyAxes) -> AnyAxes:
    return known_axes(model) if axes is None else axes


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


def samples_for_classifier(model: Any, X: Any, metadata: Metadata | Array | None = None) -> Any:
    """Return the samples transformed for the classifier inside a fitted model."""
    steps = all_steps(model)
    return named_as_fitted(classifier_of(model), through(steps, _at_the_door(steps, X), Metadata.of(metadata)))


def original_samples(model: Any, X: Any) -> Any:
    """Return what a fitted model takes as an array or a data frame; unchanged if its first step takes images."""
    return _at_the_door(all_steps(model), X)


def _at_the_door(steps: Sequence[Any], X: Any) -> Any:
    first = steps[0] if steps else None
    return X if is_masker(first) else views_or_samples(X, ragged=takes_ragged(first))


def weight_maps(model: Any, sample_shape: Sequence[int] | None = None) -> Any:
    """Return the weight of each binary problem on the original samples.

    Scores are ``<map, Z> + constant``: the steps of the model are undone on the weight (`affine_form`). Group-wise
    scaling, the equalising of different lengths and steps that are not linear (band power, covariances) cannot be
    undone; the map then refers to the samples after that step. If views were made by such steps (`TensorUnion`), there
    is one map per view, of the views as the classifier gets them but those that are features (`feature_views`).
    `Deconfound` leaves the weight as it is: scores also have a linear function of the confounds. After a nilearn masker
    it refers to the images returned by the masker's `inverse_transform`. For a CalibratedClassifierCV with several
    models, the map is the mean over them.

    Parameters
    ----------
    model, sample_shape
        See `affine_form`.

    Returns
    -------
    ndarray of shape ``(n_problems, *sample shape)``, or a dictionary of them for several views

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from tensormargin import TensorMarginClassifier, TensorScaler, weight_maps
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> data = make_low_rank_classes(40, (4, 5), random_state=0)
    >>> model = make_pipeline(TensorScaler(), TensorMarginClassifier("cp", 1)).fit(data.data, data.target)
    >>> maps = weight_maps(model)
    >>> maps.shape
    (1, 4, 5)
    >>> constant = model.decision_function(data.data) - np.tensordot(data.data, maps[0], 2)
    >>> bool(np.allclose(constant, constant[0]))
    True
    """
    try:
        return maps_on_samples(model, sample_shape)
    except NotAffineError:
        classifier, steps = chain_of(model).classifier, chain_of(model).steps
        if classifier is None or not isinstance(classifier.coef_, dict):
            raise
        features = _features(steps)
        shown = {name: own for name, own in classifier.coef_.items() if name not in features}
        if not shown:
            raise
        return shown


def maps_on_samples(model: Any, sample_shape: Sequence[int] | None = None) -> Any:
    """Return what `weight_maps` does; raise NotAffineError if views were made by steps that are not affine."""
    chain = without_confounds(chain_of(model))
    first = _map_space(chain.steps)
    shape = chain.steps[first - 1].sample_shape_out_ if first else sample_shape
    masker = chain.steps[first] if first < len(chain.steps) and is_masker(chain.steps[first]) else None
    after = replace(chain, steps=chain.steps[first + (masker is not None) :])
    maps = form_of_chain(after, None if shape is None or isinstance(shape, dict) else tuple(shape)).weights
    if isinstance(maps, dict):
        return maps
    maps = maps if masker is None else painted(masker, maps)
    if chain.classifier is None or isinstance(chain.classifier.coef_, dict):
        return maps
    return maps.astype(dtype_of(chain.classifier.coef_), copy=False)


def feature_views(model: Any) -> dict[str, str]:
    """Return the views that are features (of kernels, convolutions, covariances) and no picture of the samples.

    The values are the names of the steps that make them; the only view of a model of one tensor is "".
    """
    return _features(chain_of(model).steps)


def _features(steps: Sequence[Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for step in steps:
        if isinstance(step, Composite):
            for name, member in step.transformers_:
                before = found.get(name if isinstance(step, ViewTransformer) else "")
                own = _features(flat_steps([(name, member)]))
                made = {outer: own.get(inner, own.get("", before)) for inner, outer in step.views_[name].items()}
                found.update({outer: what for outer, what in made.items() if what is not None})
        elif getattr(step, "makes_features", False):
            found[""] = type(step).__name__
    return found


def check_picture(model: Any) -> None:
    """Raise NotAffineError if maps of a model, weight and pattern, would be no picture of its samples but features."""
    steps = chain_of(model).steps
    features = _features(steps[: _map_space(steps)])
    if "" in features and not _several_views(model):
        size = prod(classifier_of(model).sample_shape_)
        raise NotAffineError(
            f"there is no map of this model: its weight is on {size} features that {features['']} makes, which are no "
            f"picture of the samples. {LINEAR}"
        )


def problem_names(model: Any) -> list[str]:
    """Return "b against a" for each binary problem, "a against the rest" for one-vs-rest.

    The class named first is the one that positive scores, weights and patterns speak for: with two classes and in
    pairs the later one of ``classes_``, as in scikit-learn.
    """
    classifier = classifier_of(model)
    with_rest = classifier.multi_class_ == "ovr" and len(classifier.problems_) > 1
    return [
        f"{positive} against {'the rest' if with_rest else negative}" for negative, positive in classifier.problems_
    ]


def meaning_of_sign(problem: str) -> str:
    """Return what a positive value of a map means, for files and figures; ``problem`` is one of `problem_names`."""
    return f"positive: {problem}"
