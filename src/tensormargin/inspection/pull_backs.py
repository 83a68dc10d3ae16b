"""Affine forms: weights and offsets, pulled back through steps from the output of each to its input.

A registry holds a rule for each affine transformer of this library, scikit-learn, MNE and nilearn;
`register_pull_back` adds others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import prod
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.preprocessing import FunctionTransformer

from ..estimators import TensorMarginClassifier, to_device
from ..runtime import Array, FloatArray
from ..transformers import (
    Composite,
    Deconfound,
    KeepsTensors,
    TensorKernel,
    TensorScaler,
    ViewTransformer,
    flat_steps,
    is_masker,
    kind_names,
)

PullBack = Callable[[Any, Array], tuple[Array, Array]]
"""Takes a fitted step and weights on its output, of shape (n_problems, *output shape); returns weights on its input and
one constant per problem, with ``<W, step(x)> = <W', x> + constant``."""

_MOST_PROBED = 2**26  # largest Jacobian, in entries, computed from unit samples: takes about a second
_PROBED_AT_ONCE = 2**20  # entries of the unit samples held in memory at a time
_MAGNITUDES = (1e-3, 1.0, 1e3, 1e6)  # of random samples: clipping or a logarithm shows up at one of them
_ROUNDING, _SINGLE_ROUNDING = 1e-9, 1e-4  # of a score, relative to the sum of its absolute terms

LINEAR = "Fit again with --linear (linear=True of auto_model), which tries only what is linear in the samples"
"""What to do if there is neither a weight on the samples nor an export."""


class NotAffineError(TypeError):
    """Raised if a step of a model is not affine, or if there is no rule to pull a weight back through it.

    Examples
    --------
    >>> from tensormargin import NotAffineError
    >>> issubclass(NotAffineError, TypeError)
    True
    """


class AffineForm(NamedTuple):
    """Weights and offsets with ``scores = <W, x> + b`` for original samples x, one score per binary problem.

    Attributes
    ----------
    weights : ndarray of shape ``(n_problems, *sample shape)``; a dictionary of them for several views
    offsets : ndarray of shape (n_problems,)

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import AffineForm
    >>> AffineForm(weights=np.ones((1, 4, 5)), offsets=np.array([0.5])).scores(np.ones((2, 4, 5)))
    array([[20.5],
           [20.5]])
    """

    weights: Any
    offsets: Array

    @classmethod
    def of(cls, classifier: TensorMarginClassifier) -> Self:
        """Return the form of a classifier by itself, as NumPy arrays wherever the model is."""
        classifier = to_device(classifier)
        coef: Any = classifier.coef_
        several = isinstance(coef, dict)
        weights = {k: own.astype(np.float64) for k, own in coef.items()} if several else coef.astype(np.float64)
        return cls(weights, classifier.intercept_.astype(np.float64))

    def scores(self, X: Any) -> FloatArray:
        """Return the scores of samples, of shape (n_samples, n_problems)."""
        if isinstance(self.weights, dict):
            scores = [AffineForm(own, np.zeros(len(own))).scores(X[name]) for name, own in self.weights.items()]
            return np.sum(scores, axis=0) + self.offsets
        X = np.asarray(X)
        return X.reshape(len(X), -1) @ self.weights.reshape(len(self.weights), -1).T + self.offsets


def register_pull_back(kind: type | str, pull_back: PullBack) -> None:
    """Register a rule that pulls weights back through steps of a type and its subclasses.

    A later rule replaces an earlier one. If the step takes arrays, the result of a rule is checked on random samples.

    Parameters
    ----------
    kind : type or str
        A type, or ``"package.ClassName"`` (top-level package and class name) for libraries that need not be installed.
    pull_back : callable
        ``pull_back(step, weights)`` takes weights on the step's output, of shape ``(n_problems, *output shape)``, and
        returns weights on the step's input and one constant per problem, with
        ``<W, step.transform(x)> = <W', x> + constant`` for every sample x. It may raise `NotAffineError`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import BaseEstimator, TransformerMixin
    >>> from tensormargin import register_pull_back
    >>> class Millivolts(TransformerMixin, BaseEstimator):
    ...     def transform(self, X):
    ...         return 1e3 * X
    >>> register_pull_back(Millivolts, lambda step, weights: (1e3 * weights, np.zeros(len(weights))))
    """
    _RULES[kind] = pull_back


def form_before(steps: Sequence[Any], form: AffineForm, sample_shape: Any = None) -> AffineForm:
    """Return the form on the input of several fitted steps, of the shape if that is known."""
    for place, step in reversed(list(enumerate(steps))):
        shape = getattr(steps[place - 1], "sample_shape_out_", None) if place else sample_shape
        form = pulled_back(step, form, shape)
    return form


def pulled_back(step: Any, form: AffineForm, shape: tuple[int, ...] | None = None) -> AffineForm:
    """Return the form on the input of a fitted step; raise NotAffineError if there is none.

    ``shape`` is the shape of an input sample, if another step stores it.
    """
    if isinstance(step, Composite):
        return _through_members(step, form)
    if isinstance(form.weights, dict):
        raise NotAffineError(f"the weights of several views are not pulled back through {type(step).__name__}")
    step = to_device(step) if isinstance(step, KeepsTensors) else step
    rule, weights = _rule(step), form.weights
    found = _through_function(step, weights, shape) if rule is _through_function else rule(step, weights)
    back, constants = (np.asarray(one, np.float64) for one in found)
    if not isinstance(step, KeepsTensors) and not is_masker(step):
        _check(step, weights, back, constants)
    return AffineForm(back, form.offsets + constants)


def _through_members(step: Composite, form: AffineForm) -> AffineForm:
    """Return the form on the input of a step that makes several views."""
    by_view, shapes = isinstance(step, ViewTransformer), step.sample_shape_in_
    parts, offsets = [], form.offsets
    for name, member in step.transformers_:
        own = {inner: form.weights[outer] for inner, outer in step.views_[name].items()}
        shape = shapes[name] if by_view else shapes
        part = AffineForm(own.get("", own), np.zeros(len(form.offsets)))
        part = form_before(flat_steps([(name, member)]), part, shape)
        parts.append((name, part.weights))
        offsets = offsets + part.offsets
    if not by_view:
        return AffineForm(_sum([weights for _, weights in parts]), offsets)
    back = dict(parts)
    kept = {name: form.weights.get(name, np.zeros((len(offsets), *shape))) for name, shape in shapes.items()}
    return AffineForm({name: back.get(name, own) for name, own in kept.items()}, offsets)


def _sum(parts: Sequence[Any]) -> Any:
    """Return the sum of weights on the same samples."""
    if isinstance(parts[0], dict):
        return {name: _sum([part[name] for part in parts]) for name in parts[0]}
    return np.sum(parts, axis=0)


def remembered_shape(step: Any) -> Any:
    """Return the sample shape that a step or classifier expects, or None if it does not store one."""
    if is_masker(step) and getattr(step, "mask_img_", None) is not None:
        return tuple(step.mask_img_.shape)
    for attribute in ("sample_shape_in_", "sample_shape_", "features_shape_"):  # the last is MNE's
        if isinstance(getattr(step, attribute, None), dict):
            return dict(getattr(step, attribute))
        if hasattr(step, attribute):
            return tuple(None if size is None else int(size) for size in getattr(step, attribute))
    return None


def _rule(step: Any) -> PullBack:
    for kind, name in zip(type(step).__mro__, kind_names(step), strict=True):
        rule = _RULES.get(kind) or _RULES.get(name)
        if rule is not None:
            return rule
    raise _refused(
        step, "it is not affine, or not known to be. If it is, register a rule with tensormargin.register_pull_back"
    )


def _refused(step: Any, why: str, used: str = "") -> NotAffineError:
    return NotAffineError(f"cannot pull a weight back through {type(step).__name__}{used}: {why}")


def _transformed(step: Any, X: Array) -> Array:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # about missing feature names, logarithms of negative numbers
        return np.asarray(step.transform(X))


def _check(step: Any, weights: Array, back: Array, constants: Array, transformed: Any = _transformed) -> None:
    """Raise NotAffineError unless random samples have the same scores before and after a step."""
    rng, shape = np.random.default_rng(0), back.shape[1:]
    X = np.stack([size * rng.standard_normal(shape) for size in _MAGNITUDES])
    try:
        changed = transformed(step, X)
    # Somebody else's step may raise anything for random samples; it ends in one clear message.
    except Exception as error:
        raise _refused(step, f"it fails on random samples of shape {shape} ({error})") from error
    before, before_terms = _scores(back, X)
    after, after_terms = _scores(weights, changed)
    rounding = _ROUNDING if changed.dtype.itemsize >= 8 else _SINGLE_ROUNDING
    apart = np.abs(after - before - constants)
    if not np.all(apart <= rounding * (before_terms + after_terms + np.abs(constants))):  # also true for NaN
        raise _refused(step, "it is not affine, as random samples show")


def _scores(weights: Array, X: Array) -> tuple[FloatArray, FloatArray]:
    """Return the inner products of samples and weights, and the sums of their absolute terms."""
    rows, columns = X.reshape(len(X), -1).astype(np.float64), weights.reshape(len(weights), -1).T
    with np.errstate(over="ignore", invalid="ignore"):
        return rows @ columns, np.abs(rows) @ np.abs(columns)


def every_step(steps: Sequence[Any]) -> Iterator[Any]:
    """Yield steps; in place of one that makes several views, the steps of each view."""
    for step in steps:
        if isinstance(step, Composite):
            yield from every_step(flat_steps(step.members))
        else:
            yield step


def scales_by_group(step: Any) -> bool:
    """Return whether a step scales each group separately, so that it needs groups and is not affine."""
    return any(isinstance(one, TensorScaler) and one.by_group for one in every_step([step]))


def _through_our_own(step: KeepsTensors, weights: Array) -> tuple[Array, Array]:
    none_fits = "so no one weight fits all original samples"
    if scales_by_group(step):
        raise _refused(step, f"every group is scaled by its own statistics, {none_fits}", "(by_group=True)")
    if isinstance(step, Deconfound):
        raise NotAffineError(
            f"the scores after Deconfound depend on {', '.join(step.names_)}, too, so they are not affine in the "
            "samples alone. tensormargin.weight_maps has the weight on the samples, which it does not change"
        )
    if step.maps_after:
        raise _refused(
            step,
            "what it returns is not linear in the samples. tensormargin.weight_maps has the weight on what it returns. "
            f"{LINEAR}",
        )
    if None in step.sample_shape_in_:
        raise _refused(step, f"the training samples had different lengths, {none_fits}")
    return np.stack([step.pull_back(one) for one in weights]), _constants(step, weights, step.sample_shape_in_)


def _constants(step: Any, weights: Array, shape: tuple[int, ...]) -> FloatArray:
    """Return the scores of the step's output for a sample of zeros."""
    return _scores(weights, _transformed(step, np.zeros((1, *shape))))[0][0]


def _through_kernel(step: TensorKernel, weights: Array) -> tuple[Array, Array]:
    try:
        return step.pull_back(weights), np.zeros(len(weights))
    except TypeError as error:
        raise NotAffineError(f"{error}. {LINEAR}") from error


def _divided(step: Any, weights: Array) -> tuple[Array, Array]:
    scale = getattr(step, "scale_", None)
    return weights if scale is None else weights / scale, _constants(step, weights, weights.shape[1:])


def _multiplied(step: Any, weights: Array) -> tuple[Array, Array]:
    if step.clip:
        raise _refused(step, "it is not affine; use clip=False", "(clip=True)")
    return weights * step.scale_, _constants(step, weights, weights.shape[1:])


def _left_as_they_are(step: Any, weights: Array) -> tuple[Array, Array]:
    return weights, np.zeros(len(weights))


def _through_components(step: Any, weights: Array) -> tuple[Array, Array]:
    components = step.components_
    if getattr(step, "whiten", False) and hasattr(step, "explained_variance_"):
        # As in the transformer: avoid a division by zero variance.
        tiny = np.finfo(components.dtype).eps
        components = components / np.sqrt(np.maximum(step.explained_variance_, tiny))[:, None]
    return weights @ components, _constants(step, weights, components.shape[1:])


def _through_selector(step: Any, weights: Array) -> tuple[Array, Array]:
    support = step.get_support()
    back = np.zeros((len(weights), len(support)))
    back[:, support] = weights
    return back, np.zeros(len(weights))


def _through_function(
    step: FunctionTransformer, weights: Array, shape: tuple[int, ...] | None = None
) -> tuple[Array, Array]:
    """Return weights and constants for an affine function that moves and scales entries, or takes few of them.

    The function is a black box, so it is evaluated on probe samples.
    """
    shape = _taken_shape(step, weights) if shape is None else shape
    constants = _transformed_alone(step, np.zeros((1, *shape)), weights)[0] @ weights.reshape(len(weights), -1).T
    try:
        back = _through_moved_entries(step, weights, shape)
        _check(step, weights, back, constants)
    except NotAffineError:
        if prod(shape) * prod(weights.shape[1:]) > _MOST_PROBED:
            raise
        back = _through_jacobian(step, weights, shape)
    return back, constants


def _taken_shape(step: Any, weights: Array) -> tuple[int, ...]:
    """Return the shape of the samples that a function was fitted to, as far as it can be inferred.

    scikit-learn stores only the size of the first mode. Candidates are the output shape, vectors and matrices; the
    first one that the function turns into the input shape of the next step is returned.
    """
    if step.inverse_func is not None:
        return tuple(np.shape(step.inverse_transform(weights))[1:])
    size, noted = prod(weights.shape[1:]), getattr(step, "n_features_in_", None)
    first = weights.shape[1] if noted is None else int(noted)
    for shape in (weights.shape[1:], (first,), (first, size // first)):
        with suppress(Exception):  # a function may raise anything for samples of another shape
            if shape[0] == first and _transformed(step, np.zeros((1, *shape))).shape[1:] == weights.shape[1:]:
                return shape
    return weights.shape[1:]


def _through_moved_entries(step: Any, weights: Array, shape: tuple[int, ...]) -> Array:
    """Return the weights for a function whose outputs are each one input times a factor, plus a constant."""
    size = prod(shape)
    probes = np.stack([np.zeros(size), np.ones(size), np.arange(size, dtype=np.float64)]).reshape(3, *shape)
    at_zero, at_one, at_place = _transformed_alone(step, probes, weights)
    factors, values = at_one - at_zero, at_place - at_zero
    used = factors != 0
    with np.errstate(all="ignore"):
        places = np.where(used, values / np.where(used, factors, 1.0), 0.0)
    whole = np.rint(places)
    if not np.all((np.abs(places - whole) < 0.25) & (whole >= 0) & (whole < size)):  # false for NaN too
        raise _refused(
            step,
            f"its function does more than move and scale entries, and it takes too many of them ({size}) to be looked "
            "at one by one. If it is affine, register a rule with tensormargin.register_pull_back",
        )
    back = np.zeros((len(weights), size))
    for row, one in zip(back, weights.reshape(len(weights), -1), strict=True):
        np.add.at(row, whole.astype(np.intp), factors * one)
    return back.reshape(-1, *shape)


def _transformed_alone(step: Any, X: Array, weights: Array) -> Array:
    """Return the output for each sample as a row; raise NotAffineError if its shape is not that of a weight."""
    changed = _transformed(step, X)
    if changed.shape != (len(X), *weights.shape[1:]) or changed.dtype.kind not in "biuf":
        raise _refused(
            step,
            f"it turns samples of shape {X.shape[1:]} into {changed.shape[1:]}, and the step behind it takes "
            f"{weights.shape[1:]}. Where samples have more than two modes, pass sample_shape to affine_form, or use "
            "tensormargin.Tensorize to reshape",
        )
    if not np.all(np.isfinite(changed)):
        raise _refused(step, "it is not affine, for it turns finite numbers into others")
    return changed.reshape(len(X), -1).astype(np.float64)


def _through_jacobian(step: Any, weights: Array, shape: tuple[int, ...]) -> Array:
    """Return the weights from the Jacobian, computed with one unit sample per entry."""
    size = prod(shape)
    columns = weights.reshape(len(weights), -1).T
    at_zero = _transformed_alone(step, np.zeros((1, *shape)), weights)
    back = np.empty((size, len(weights)))
    rows = max(1, _PROBED_AT_ONCE // size)
    for first in range(0, size, rows):
        units = np.eye(min(rows, size - first), size, first).reshape(-1, *shape)
        back[first : first + rows] = (_transformed_alone(step, units, weights) - at_zero) @ columns
    return back.T.reshape(-1, *shape)


def _through_channel_scaler(step: Any, weights: Array) -> tuple[Array, Array]:
    inner = step.scaler_  # scikit-learn's, or one of MNE's that divides by constants
    scale = getattr(inner, "std_", getattr(inner, "scale_", None))
    back = weights if scale is None else weights / scale[:, None]
    return back, _constants(step, weights, weights.shape[1:])


def _through_vectorizer(step: Any, weights: Array) -> tuple[Array, Array]:
    return weights.reshape(-1, *step.features_shape_), np.zeros(len(weights))


def painted(step: Any, weights: Array) -> Array:
    """Return weights on a masker's signals as weights on the images returned by its `inverse_transform`.

    The signals (of voxels, region means or maps) are the least-squares fit to such an image. The transpose of a masker
    is therefore its inverse, applied to the solution of the normal equations.
    """
    if "nilearn.NiftiMasker" not in kind_names(step):  # its images are orthonormal
        regions = volumes(step.inverse_transform(np.eye(weights.shape[1]))).reshape(weights.shape[1], -1)
        weights = np.linalg.lstsq(regions @ regions.T, weights.T)[0].T
    return volumes(step.inverse_transform(weights))


def _through_masker(step: Any, weights: Array) -> tuple[Array, Array]:
    import nibabel

    make: Any = nibabel.Nifti1Image
    affine = step.inverse_transform(weights[:1]).affine
    back = painted(step, weights)
    if step.smoothing_fwhm is not None:  # smoothing is its own transpose
        from nilearn.image import smooth_img

        back = volumes(smooth_img(make(np.moveaxis(back, 0, -1), affine), step.smoothing_fwhm))

    def transformed(step: Any, X: Array) -> Array:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(step.transform(make(np.moveaxis(X, 0, -1), affine)))

    constants = np.zeros(len(weights))
    try:
        _check(step, weights, back, constants, transformed)
    except NotAffineError as error:
        raise NotAffineError(
            f"{error}. Detrending, filtering or standardizing in a masker mixes samples; weight_maps then shows the "
            "weight on the masker's own images, and standardize=None gives an affine one"
        ) from error
    return back, constants


def volumes(image: Any) -> Array:
    """Return the data of a NIfTI image with four axes, with the samples along the first."""
    return np.moveaxis(np.asarray(image.dataobj, np.float64), -1, 0)


_RULES: dict[type | str, PullBack] = {
    KeepsTensors: _through_our_own,
    TensorKernel: _through_kernel,
    "sklearn.StandardScaler": _divided,
    "sklearn.MaxAbsScaler": _divided,
    "sklearn.RobustScaler": _divided,
    "sklearn.MinMaxScaler": _multiplied,
    "sklearn.SimpleImputer": _left_as_they_are,  # for samples without missing values
    "sklearn._BasePCA": _through_components,
    "sklearn.TruncatedSVD": _through_components,
    "sklearn.FastICA": _through_components,
    "sklearn.SelectorMixin": _through_selector,
    FunctionTransformer: _through_function,
    "mne.Scaler": _through_channel_scaler,
    "mne.Vectorizer": _through_vectorizer,
    "nilearn.BaseMasker": _through_masker,
}
