"""A fitted model taken apart: steps, classifier and wrappers, and the maps, axes and samples that follow from them.

A model is a `TensorMarginClassifier` or a `TensorMarginClassifierCV`, alone or in scikit-learn's pipelines, searches,
calibrators, thresholds and FrozenEstimator, in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..data import AnyAxes, Axes, Metadata, named_as_fitted, views_or_array, views_or_samples
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
    describe_step,
    flat_steps,
    is_masker,
    kind_names,
    takes_ragged,
    through,
)
from . import pull_backs
from .pull_backs import AffineForm, NotAffineError, remembered_shape

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


class MapText(NamedTuple):
    """What stands next to a map of a binary problem: its title, and what its signs mean in numbers and in colours."""

    title: str
    signs: str
    colours: str


@dataclass(frozen=True)
class ModelChain:
    """The transformers of a fitted model in order, and the classifier behind them.

    Nested pipelines are flattened; "passthrough" and steps that do nothing when predicting (imbalanced-learn's
    samplers) are left out. A CalibratedClassifierCV with several models has their chains as ``copies``, each fitted on
    one training set, and no ``single`` classifier. ``wrappers`` are searches, calibrators, ..., outermost first.
    """

    steps: tuple[Any, ...]
    single: TensorMarginClassifier | None
    copies: tuple[ModelChain, ...] = ()
    wrappers: tuple[Any, ...] = ()

    @classmethod
    def of(cls, model: Any) -> ModelChain:
        """Return the chain of a fitted model; raise TypeError if it does not end in a classifier of this library."""
        steps, wrappers = list[Any](), list[Any]()
        while True:
            if isinstance(model, Pipeline):
                steps += flat_steps(model.steps[:-1])
                model = model.steps[-1][1]
                continue
            inside = _held(model)
            if not inside and not isinstance(model, TensorMarginClassifier):
                got = type(model).__name__
                raise TypeError(f"a model must end in TensorMarginClassifier or TensorMarginClassifierCV; got {got}")
            if not inside:
                check_is_fitted(model)
                return cls(tuple(steps), model, (), tuple(wrappers))
            wrappers.append(model)
            if len(inside) > 1:
                return cls(tuple(steps), None, tuple(map(cls.of, inside)), tuple(wrappers))
            model = inside[0]

    @cached_property
    def classifier(self) -> TensorMarginClassifier:
        """The fitted classifier that holds the weight, an `AveragedClassifier` if there are copies."""
        return self.single or AveragedClassifier.of(self.copies)

    @property
    def search(self) -> Any:
        """The fitted TensorMarginClassifierCV, or None."""
        name = "tensormargin.TensorMarginClassifierCV"
        return next((one for one in self.wrappers if name in kind_names(one)), None)

    @property
    def has_views(self) -> bool:
        """Whether the classifier takes several views."""
        return self.single is not None and isinstance(self.single.coef_, dict)

    @property
    def problem_names(self) -> list[str]:
        """Names of the binary problems: "b against a", "a against the rest" for one-vs-rest.

        The class named first is the one that positive scores, weights and patterns speak for: with two classes and in
        pairs the later one of ``classes_``, as in scikit-learn.
        """
        problems, rest = self.classifier.problems_, "the rest"
        return [f"{positive} against {rest if self._with_rest else negative}" for negative, positive in problems]

    def map_texts(self, what: str = "") -> list[MapText]:
        """Return what stands next to the maps of each binary problem; ``what`` they are, "weight" or "pattern".

        A weight separates one class from the rest, a pattern is higher or lower in it. Titles name the steps that
        change samples before they are drawn.
        """
        shown = f"{what} ({self.before_maps})" if what and self.before_maps else what
        weight = what.startswith("weight")
        texts = []
        for name, (negative, positive) in zip(self.problem_names, self.classifier.problems_, strict=True):
            sides = [str(positive), str(negative)]
            if self._with_rest:
                sides = [f"{side} {positive}" for side in (("for", "against") if weight else ("higher in", "lower in"))]
            signs, colours = (
                ", ".join(f"{end} = {side}" for end, side in zip(ends, sides, strict=True))
                for ends in (("positive", "negative"), ("red", "blue"))
            )
            texts.append(MapText(f"{shown}, {name}" if what else name, signs, colours))
        return texts

    @cached_property
    def before_maps(self) -> str:
        """What is done to samples before they are drawn in maps, in a few words; empty if nothing is."""
        return ", then ".join(describe_step(step, brief=True) for step in self.steps[: self._n_before_maps])

    def words_on_view(self, view: str) -> str:
        """Return what makes a view, in a few words; empty for a view of the samples."""
        made = (
            describe_step(member, brief=True)
            for step in self.steps
            if isinstance(step, Composite)
            for name, member in step.transformers_
            if view in step.views_[name].values()
        )
        return ", then ".join(made)

    @property
    def _with_rest(self) -> bool:
        return self.classifier.multi_class_ == "ovr" and len(self.classifier.problems_) > 1

    @property
    def confounds_by_view(self) -> list[tuple[str, Deconfound]]:
        """The steps that remove confounds, with the names of their views ("" for all samples)."""
        parts = [
            (name, flat_steps([(name, member)]))
            for step in self.steps
            for name, member in (step.members if isinstance(step, Composite) else [("", step)])
        ]
        return [
            (name, one) for name, steps in parts for one in pull_backs.every_step(steps) if isinstance(one, Deconfound)
        ]

    def without_confounds(self) -> ModelChain:
        """Return a chain without the removal of confounds, which leaves weights as they are and changes offsets."""
        return replace(self, steps=tuple(_without_confounds(self.steps)))

    # ---- samples ----

    @cached_property
    def sample_shape(self) -> Any:
        """The shape of an original sample, None for a mode of any length; a dictionary of shapes for several views."""
        first = remembered_shape(self.steps[0] if self.steps else self.single)
        if first is not None:
            return first
        try:
            return tuple(self.form().weights.shape[1:])
        except NotAffineError:  # such as a function of each entry: use the first step that stores a shape
            shapes = map(remembered_shape, (*self.steps, self.single))
            return next((shape for shape in shapes if shape is not None), ())

    def original_samples(self, X: Any) -> Any:
        """Return what the model takes as an array or a data frame; unchanged if its first step takes images."""
        first = self.steps[0] if self.steps else None
        return X if is_masker(first) else views_or_samples(X, ragged=takes_ragged(first))

    def samples_for_classifier(self, X: Any, metadata: Metadata | Array | None = None) -> Any:
        """Return the samples transformed for the classifier."""
        ready = through(self.steps, self.original_samples(X), Metadata.of(metadata))
        return named_as_fitted(self.classifier, ready)

    def samples_for_map(self, X: Any, metadata: Metadata | Array | None = None) -> Any:
        """Return the samples in the space that the maps are drawn in; after a masker, voxels outside of it are zero."""
        if self.steps and is_masker(self.steps[0]):
            return pull_backs.volumes(self.steps[0].inverse_transform(self.steps[0].transform(X)))
        before = self.steps[: self._n_before_maps]
        return views_or_array(through(before, self.original_samples(X), Metadata.of(metadata)))

    @cached_property
    def _n_before_maps(self) -> int:
        """The number of steps up to the last one through which no weight can be pulled back."""
        one_way = [
            pull_backs.scales_by_group(step)
            or getattr(step, "maps_after", False)
            or None in getattr(step, "sample_shape_in_", ())
            for step in self.steps
        ]
        return max((place + 1 for place, stops in enumerate(one_way) if stops), default=0)

    @property
    def used_entries(self) -> Any:
        """Which entries of the samples of maps pass masks and crops, by view if there are several; None for all."""
        used = _union([_used_before(copy.steps, None) for copy in self.copies]) if self.copies else None
        return _used_before(self.steps[self._n_before_maps :], used)

    # ---- axes ----

    @property
    def known_axes(self) -> AnyAxes:
        """The axes of the samples that the model was fitted to, if these carried some; otherwise None.

        Only what comes first sees them: the first step, the search that holds it, or a classifier by itself.
        """
        found = (getattr(part, "axes_in_", None) for part in (*self.wrappers, *self.steps, self.single))
        return next((axes for axes in found if axes is not None), None)

    def axes_at_classifier(self, axes: AnyAxes = None) -> AnyAxes:
        """Return the axes of samples as the classifier gets them, by default given the `known_axes`."""
        return axes_through(self.steps, self.known_axes if axes is None else axes)

    def axes_of_maps(self, axes: AnyAxes = None) -> AnyAxes:
        """Return the axes of `weight_maps`, by default given the `known_axes`."""
        if self.has_views and self.views_on_samples is None:
            return self.axes_at_classifier(axes)
        return axes_through(self.steps[: self._n_before_maps], self.known_axes if axes is None else axes)

    def axes_of_view_maps(self, axes: AnyAxes = None) -> dict[str, Axes | None]:
        """Return the axes of `view_maps`, by view."""
        views, maps = self.classifier.coef_, self.views_on_samples
        on_samples = isinstance(maps, dict) and maps.keys() == views.keys()
        found = self.axes_of_maps(axes) if on_samples else self.axes_at_classifier(axes)
        return {name: found.get(name) if isinstance(found, Mapping) else None for name in views}

    def axes_of_patterns(self, axes: AnyAxes = None) -> dict[str, Axes | None]:
        """Return the axes of `feature_patterns`, by name, given those of the samples."""
        known = self.known_axes if axes is None else axes
        on_samples, ready = axes_through(self.steps[: self._n_before_maps], known), self.axes_at_classifier(axes)
        of_views = ready if isinstance(ready, Mapping) else {}
        by_name = dict(on_samples) if isinstance(on_samples, Mapping) else {"": on_samples}
        return by_name | {name: of_views.get(name) for name in self.views_with_pattern}

    # ---- weights ----

    def form(self, sample_shape: tuple[int, ...] | None = None) -> AffineForm:
        """Return the affine form on the original samples; raise NotAffineError if there is none."""
        own = AffineForm.of(self.single) if self.single is not None else _mean_form(self.copies)
        return pull_backs.form_before(self.steps, own, sample_shape)

    def maps_on_samples(self, sample_shape: Sequence[int] | None = None) -> Any:
        """Return what `weight_maps` does; raise NotAffineError if views were made by steps that are not affine."""
        chain = self.without_confounds()
        first = chain._n_before_maps
        shape = chain.steps[first - 1].sample_shape_out_ if first else sample_shape
        masker = chain.steps[first] if first < len(chain.steps) and is_masker(chain.steps[first]) else None
        after = replace(chain, steps=chain.steps[first + (masker is not None) :])
        maps = after.form(None if shape is None or isinstance(shape, dict) else tuple(shape)).weights
        if isinstance(maps, dict):
            return maps
        maps = maps if masker is None else pull_backs.painted(masker, maps)
        if self.single is None or self.has_views:
            return maps
        return maps.astype(dtype_of(self.single.coef_), copy=False)

    @cached_property
    def views_on_samples(self) -> Any:
        """The maps on the original samples; None if a step cannot be undone on them."""
        try:
            return self.maps_on_samples()
        except NotAffineError:
            return None

    @cached_property
    def feature_views(self) -> dict[str, str]:
        """The views that are features (of kernels, convolutions) and no picture of the samples.

        The values are the names of the steps that make them; the only view of a model of one tensor is "".
        """
        return _features(self.steps)

    @property
    def is_linear(self) -> bool:
        """Whether the classifier weighs the samples that maps are drawn on: their pattern is that of the score."""
        return self.views_on_samples is not None

    @cached_property
    def views_with_pattern(self) -> list[str]:
        """The views that have a pattern as the classifier gets them, those with the largest share of the score first.

        None if they are the views of the samples, whose patterns are on these.
        """
        if not self.has_views or (
            isinstance(self.views_on_samples, dict) and self.views_on_samples.keys() == self.classifier.coef_.keys()
        ):
            return []
        shares = {name: -float(np.mean(own)) for name, own in self.classifier.view_shares_.items()}
        without = self.feature_views.keys() | self.views_left_out
        return sorted((name for name in shares if name not in without), key=shares.__getitem__)

    @property
    def views_left_out(self) -> set[str]:
        """The views that the classifier does not use."""
        scales = self.classifier.view_scale_ if self.has_views else {}
        return {name for name, own in scales.items() if not np.any(own)}

    @property
    def has_picture(self) -> bool:
        """Whether maps would be a picture, see `check_picture`."""
        try:
            self.check_picture()
        except NotAffineError:
            return False
        return True

    def check_picture(self) -> None:
        """Raise NotAffineError if maps, weight and pattern, would be no picture of the samples but features."""
        features = _features(self.steps[: self._n_before_maps])
        if "" in features and not self.has_views:
            size = prod(self.classifier.sample_shape_)
            raise NotAffineError(
                f"there is no map of this model: its weight is on {size} features that {features['']} makes, which are "
                f"no picture of the samples. {pull_backs.LINEAR}"
            )


class AveragedClassifier(TensorMarginClassifier):
    """The mean of ``n_copies_`` fitted classifiers, which gives the mean of their binary scores.

    Its weights are full tensors; they include the steps of the individual models.
    """

    n_copies_: int

    @classmethod
    def of(cls, copies: Sequence[ModelChain]) -> AveragedClassifier:
        """Return the mean of the classifiers of several chains; raise NotAffineError if a step is not affine."""
        first, form = copies[0].classifier, _mean_form(copies)
        one = cls(**{**first.get_params(deep=False), "decomposition": "full", "rank": None})
        one.classes_, one.multi_class_ = first.classes_, first.multi_class_
        one.coef_, one.intercept_ = form
        one.weight_ = form.weights[0] if len(form.weights) == 1 else list(form.weights)
        one.sample_shape_ = form.weights.shape[1:]
        one.n_features_in_ = one.sample_shape_[0]
        one.n_parameters_ = form.weights[0].size + int(first.fit_intercept)
        one.n_copies_ = len(copies)
        return one


def affine_form(model: Any, sample_shape: Sequence[int] | None = None) -> AffineForm:
    """Return the weights and offsets that give a model's binary scores on the original samples.

    ``form.scores(X)``, that is ``<W, x> + b``, equals ``binary_scores`` up to rounding, and therefore
    ``decision_function`` for two classes and for "ovr". Weights are pulled back through the transformers of pipelines
    and searches (`register_pull_back`). scikit-learn's searches, calibrators, thresholds and FrozenEstimator are
    unwrapped, since they do not change the scores.

    Parameters
    ----------
    model : estimator
        Fitted TensorMarginClassifier or TensorMarginClassifierCV, in pipelines, searches and calibrators in any order.
        For a CalibratedClassifierCV with several models, the form is the mean over them and gives their mean score.
    sample_shape : sequence of int, optional
        Shape of an original sample. Needed only if the first step is a FunctionTransformer that flattens samples of
        three or more modes: no step stores their shape, and they would be assumed to be matrices.

    Raises
    ------
    NotAffineError
        If a step is not affine, or not known to be; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from tensormargin import TensorMarginClassifier, TensorScaler, affine_form
    >>> X, y = np.random.default_rng(0).normal(size=(40, 5, 4)), np.repeat([0, 1], 20)
    >>> model = make_pipeline(TensorScaler(), TensorMarginClassifier("cp", 1)).fit(X, y)
    >>> np.allclose(affine_form(model).scores(X)[:, 0], model.decision_function(X))
    True
    """
    return ModelChain.of(model).form(None if sample_shape is None else tuple(sample_shape))


def weight_maps(model: Any, sample_shape: Sequence[int] | None = None) -> Any:
    """Return the weight of each binary problem on the original samples.

    Scores are ``<map, Z> + constant``: the steps of the model are undone on the weight (`affine_form`). Group-wise
    scaling, the equalising of different lengths and steps that are not linear (band power, covariances) cannot be
    undone; the map then refers to the samples after that step. If views were made by such steps (`TensorUnion`), there
    is one map per view, of the views as the classifier gets them but those that are features of kernels or
    convolutions. `Deconfound` leaves the weight as it is: scores also have a linear function of the confounds. After a
    nilearn masker it refers to the images returned by the masker's `inverse_transform`. For a CalibratedClassifierCV
    with several models, the map is the mean over them.

    Parameters
    ----------
    model, sample_shape
        See `affine_form`.

    Returns
    -------
    ndarray of shape ``(n_problems, *sample shape)``, or a dictionary of them for several views

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from tensormargin import TensorMarginClassifier, TensorScaler, weight_maps
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> data = make_low_rank_classes(40, (4, 5), random_state=0)
    >>> model = make_pipeline(TensorScaler(), TensorMarginClassifier("cp", 1)).fit(data.data, data.target)
    >>> weight_maps(model).shape
    (1, 4, 5)
    """
    chain = ModelChain.of(model)
    try:
        return chain.maps_on_samples(sample_shape)
    except NotAffineError:
        views = chain.classifier.coef_ if chain.has_views else {}
        shown = {name: own for name, own in views.items() if name not in chain.feature_views}
        if not shown:
            raise
        return shown


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


def _without_confounds(steps: Sequence[Any]) -> list[Any]:
    kept = [step for step in steps if not isinstance(step, Deconfound)]
    return [step.with_steps(_without_confounds) if isinstance(step, Composite) else step for step in kept]


def _mean_form(copies: Sequence[ModelChain]) -> AffineForm:
    """Return the form whose scores are the mean of the scores of several models."""
    forms = [one.form() for one in copies]
    if any(isinstance(form.weights, dict) for form in forms):
        raise NotAffineError("the mean of several calibrated models is not computed for several views")
    if len({form.weights.shape for form in forms}) > 1:
        raise NotAffineError(
            "the calibrated models take samples of different shapes or were fitted to different classes, so their "
            "weights have no mean"
        )
    return AffineForm(*(np.mean(parts, axis=0) for parts in zip(*forms, strict=True)))


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
