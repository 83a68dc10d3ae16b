"""Checks of a model's numbers and metadata: when it is saved, and before a loaded one predicts anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ..data import axes_from_facts
from ..estimators import TensorMarginClassifier
from ..fitting import FORMATS, problem_classes
from ..runtime import Array, listed
from ..transformers import Crop, Deconfound, MoveMode, Resize, SetsToZero, Tensorize, TensorScaler
from .archive import CLASSES
from .options import checked_loading

# What may be NaN or infinite: scores of candidates that were dropped, progress, and shares of a variance of zero.
_MAY_BE_ANYTHING = frozenset({"cv_results_", "history_", "objective_", "view_shares_", "explained_variance_ratio_"})
_SAME = 1e-3  # largest relative difference between a weight and its decomposition, both perhaps in single precision
_LIBRARIES = ("tensormargin.", "sklearn.")

FACTS_TYPES: Mapping[str, tuple[type, ...]] = {
    "created": (str,),
    "versions": (dict,),
    "model": (str,),
    "steps": (list,),
    "sample_shape": (list, dict, type(None)),
    "axes": (list, dict, type(None)),
    "classes": (list,),
    "about": (dict,),
}
"""The metadata of a model file, and their types."""


def check_facts(facts: Mapping[str, Any], model: Any) -> None:
    """Raise ValueError if the metadata of a file lack something, or are those of another model."""
    for name, kinds in FACTS_TYPES.items():
        if not isinstance(facts.get(name), kinds):
            raise ValueError(f"its metadata {name!r} must be {kinds[0].__name__}, got {_kind(facts.get(name))}")
    axes_from_facts(facts.get("axes"), facts["sample_shape"])
    checked_loading(facts["about"].get("loading") or {})
    held = plain_classes(model)
    if facts["classes"] != held:
        raise ValueError(f"its metadata name the classes {_some(facts['classes'])}, the model has {_some(held)}")


def plain_classes(model: Any) -> list[Any]:
    """Return the classes of a model as Python objects; none if it has none."""
    return [label.item() if hasattr(label, "item") else label for label in getattr(model, "classes_", [])]


def check_model(model: Any) -> None:
    """Raise ValueError for impossible numbers or shapes; of other libraries only coef_ and intercept_ are checked."""
    for estimator in _estimators(model):
        ours = f"{type(estimator).__module__}.{type(estimator).__name__}" in CLASSES
        for name, value in vars(estimator).items():
            if (ours and name.endswith("_") and name not in _MAY_BE_ANYTHING) or name in ("coef_", "intercept_"):
                _check_numbers(estimator, name, value)
        # parameters of other estimators, and candidates of a search, are not fitted
        if hasattr(estimator, "coef_") or hasattr(estimator, "sample_shape_in_"):
            for kind, check in _SHAPES.items():
                if isinstance(estimator, kind):
                    check(estimator)
        if hasattr(estimator, "matrices_") and hasattr(estimator, "modes_"):
            _check_matrices(estimator, estimator.modes_)
        if hasattr(estimator, "best_estimator_") and hasattr(estimator, "calibration_"):
            _check_search(estimator)
        if isinstance(estimator, Pipeline):
            _check_chain(estimator)


def _estimators(model: Any) -> Iterator[Any]:
    """Yield all objects of scikit-learn and of this library in a model, each once."""
    left, seen = [model], dict[int, Any]()
    while left:
        part = left.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        if isinstance(part, list | tuple):
            left += part
        elif isinstance(part, dict):
            left += part.values()
        elif type(part).__module__.startswith(_LIBRARIES) and hasattr(part, "__dict__"):
            yield part
            left += [value for name, value in vars(part).items() if name not in _MAY_BE_ANYTHING]


def _check_numbers(estimator: Any, name: str, value: Any) -> None:
    """Raise ValueError if an array, or one in a list or dictionary, holds anything but finite numbers or text."""
    if isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            if not isinstance(one, dict):
                _check_numbers(estimator, name, one)
    if not isinstance(value, np.ndarray | np.inexact):
        return
    array = np.asarray(value)
    if array.dtype.kind == "c":
        raise ValueError(f"{_where(estimator, name)} must be real numbers, got {array.dtype}")
    constant = isinstance(estimator, Deconfound) and name == "scale_"  # infinite for a confound that does not vary
    if array.dtype.kind == "f" and not (np.isfinite(array) | (constant & (array == np.inf))).all():
        raise ValueError(f"{_where(estimator, name)} must be finite, and has NaN or infinite entries")


def _check_classifier(classifier: Any) -> None:
    """Raise ValueError if classes, weights and intercepts of a fitted classifier do not belong together."""
    shape = classifier.sample_shape_
    _check_classes(classifier)
    if classifier.multi_class_ not in ("ovo", "ovr"):
        raise ValueError(f"{_where(classifier, 'multi_class_')} must be 'ovo' or 'ovr'")
    n_problems = len(problem_classes(classifier.classes_, classifier.multi_class_))
    shapes = shape if isinstance(shape, dict) else {None: shape}
    for view, own in shapes.items():
        coef, weight = classifier.coef_, classifier.weight_
        if view is not None:
            coef, weight = coef[view], weight[view]
            for name in ("mean_scores_", "view_scale_"):
                _need(classifier, name, getattr(classifier, name)[view], (n_problems,))
        _need(classifier, "coef_", coef, (n_problems, *own))
        _check_weights(classifier, weight, coef)
    _need(classifier, "intercept_", classifier.intercept_, (n_problems,))
    _check_calibration(classifier, n_problems)


def _check_classes(classifier: Any) -> None:
    classes, where = classifier.classes_, _where(classifier, "classes_")
    if not isinstance(classes, np.ndarray) or classes.ndim != 1 or len(classes) < 2:
        raise ValueError(f"{where} must be a vector of two labels or more, got {_kind(classes)}")
    if len(set(classes.tolist())) < len(classes) or (classes.dtype != object and np.any(classes[1:] <= classes[:-1])):
        raise ValueError(f"{where} must be different and sorted, got {_some(classes.tolist())}")


def _check_weights(classifier: Any, weights: Any, coef: Array) -> None:
    """Raise ValueError unless the decomposed weights are those of ``coef_``, one per binary problem."""
    listed = weights if isinstance(weights, list) else [weights]
    if len(listed) != len(coef):
        raise ValueError(f"{_where(classifier, 'weight_')} must be {len(coef)} tensors, got {len(listed)}")
    for one, dense in zip(listed, coef, strict=True):
        form = next((form for form in FORMATS.values() if form.wrote(one)), None)
        if form is None:
            raise ValueError(f"{_where(classifier, 'weight_')} must be tensors, got {_kind(one)}")
        _check_numbers(classifier, "weight_", _arrays(one))
        try:
            weight = form.from_tensorly(one, dense.shape)
            room = _SAME * float(np.abs(dense).max(initial=0.0)) + float(np.finfo(np.float32).tiny)
            same = weight.shape == dense.shape  # a large shape is not expanded
            same = same and float(np.abs(weight.to_dense() - dense).max(initial=0.0)) <= room
        except (ValueError, TypeError, IndexError, AttributeError) as error:
            raise ValueError(f"{_where(classifier, 'weight_')} cannot be multiplied out ({error})") from error
        if not same:
            raise ValueError(f"{_where(classifier, 'weight_')} and coef_ must be the same tensors, but differ")


def _arrays(part: Any) -> list[Array]:
    """Return the arrays in a tensor of TensorLy."""
    inner = part if isinstance(part, list | tuple) else [] if isinstance(part, np.ndarray) else vars(part).values()
    found = [one for own in inner if isinstance(own, np.ndarray | list | tuple) for one in _arrays(own)]
    return [part] if isinstance(part, np.ndarray) else found


def _check_calibration(model: Any, n_problems: int | None = None) -> None:
    """Raise ValueError unless each problem has slope and offset (with several classes also power and share)."""
    if not hasattr(model, "calibration_"):
        return
    if n_problems is None:
        n_problems = len(problem_classes(model.classes_, model.classifier_.multi_class_))
    columns = 4 if n_problems > 1 and np.shape(model.calibration_)[1:] == (4,) else 2
    _need(model, "calibration_", model.calibration_, (n_problems, columns))


def _check_search(search: Any) -> None:
    inner = getattr(search.best_estimator_, "classes_", search.classes_)
    if np.asarray(inner).tolist() != np.asarray(search.classes_).tolist():
        raise ValueError(f"{_where(search, 'classes_')} must be those of its best model")
    _check_calibration(search)


def _check_scaler(step: Any) -> None:
    shape = tuple(step.sample_shape_in_)
    for name in ("mean_", "scale_"):
        value = getattr(step, name)
        if value is None and step.by_group:
            continue
        kept = np.shape(value)
        numbers = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        sizes = zip(kept[::-1], shape[::-1], strict=False)
        if not numbers or len(kept) > len(shape) or any(own not in (1, size) for own, size in sizes):
            raise ValueError(f"{_where(step, name)} must be of shape {shape}, or of size 1 along modes, got {kept}")
    _need_shape_out(step, shape)


def _check_mask(step: Any) -> None:
    _need(step, "mask_", step.mask_, tuple(step.sample_shape_in_), "b")
    _need_shape_out(step, step.sample_shape_in_)


def _check_crop(step: Any) -> None:
    sizes = step.sample_shape_in_
    inside = len(step.bounds_) == len(sizes) and all(
        0 <= first <= last <= size for (first, last), size in zip(step.bounds_, sizes, strict=True)
    )
    if not inside:
        raise ValueError(f"{_where(step, 'bounds_')} must be inside of samples of shape {tuple(sizes)}")
    _need_shape_out(step, [last - first for first, last in step.bounds_])


def _check_tensorize(step: Any) -> None:
    before, after = tuple(step.sample_shape_in_), tuple(step.sample_shape_out_)
    if prod(before) != prod(after):
        where = _where(step, "sample_shape_out_")
        raise ValueError(f"{where} must have as many entries as samples of shape {before}, got {after}")


def _check_move(step: Any) -> None:
    before, place = tuple(step.sample_shape_in_), step._from
    if not isinstance(place, int) or not 0 <= place < len(before):
        raise ValueError(f"{_where(step, '_from')} must be one of {len(before)} modes, got {place!r}")
    _need_shape_out(step, (*before[:place], *before[place + 1 :], before[place]))


def _check_matrices(step: Any, modes: Any) -> None:
    """Raise ValueError unless there is a matrix for each mode, from its size before to its size after."""
    before, after = step.sample_shape_in_, step.sample_shape_out_
    if len(modes) != len(step.matrices_) or not all(0 <= mode < len(before) for mode in modes):
        raise ValueError(f"{_where(step, 'matrices_')} must be one per mode")
    _need_shape_out(step, [after[mode] if mode in modes else size for mode, size in enumerate(before)])
    for mode, matrix in zip(modes, step.matrices_, strict=True):
        if not hasattr(matrix, "toarray"):  # sparse matrices are checked by their product
            _need(step, "matrices_", matrix, (after[mode], before[mode]))


def _check_confounds(step: Any) -> None:
    n_columns = len(step.mean_)
    _need(step, "mean_", step.mean_, (n_columns,))
    _need(step, "scale_", step.scale_, (n_columns,))
    _need(step, "coef_", step.coef_, (n_columns, *step.sample_shape_in_))
    _need_shape_out(step, step.sample_shape_in_)


def _check_chain(pipeline: Any) -> None:
    """Raise ValueError unless each step of a pipeline takes samples of the shape that the step before it returns."""
    before, given = None, None
    for _, step in pipeline.steps:
        if step is None or step == "passthrough":
            continue
        taken, returned = _shapes(step)
        if given is not None and taken is not None and not _agree(given, taken):
            raise ValueError(
                f"{type(step).__name__} must take samples of shape {given}, which {type(before).__name__} before it "
                f"returns; it takes {taken}"
            )
        before, given = step, returned


def _shapes(step: Any) -> tuple[Any, Any]:
    """Return the shapes of the samples that a step takes and returns, None where it does not store them."""
    if isinstance(step, Pipeline):
        inner = [_shapes(one) for _, one in step.steps if one is not None and one != "passthrough"]
        return (inner[0][0], inner[-1][1]) if inner else (None, None)
    taken = getattr(step, "sample_shape_in_", getattr(step, "sample_shape_", None))
    return taken, getattr(step, "sample_shape_out_", None)


def _agree(one: Any, other: Any) -> bool:
    """Return whether two shapes, or the shapes of views with the same names, can be those of the same samples."""
    if isinstance(one, dict) or isinstance(other, dict):
        both = isinstance(one, dict) and isinstance(other, dict)
        return both and all(_agree(one[view], other[view]) for view in one.keys() & other.keys())
    return len(one) == len(other) and all(a == b or None in (a, b) for a, b in zip(one, other, strict=True))


_SHAPES: Mapping[type, Callable[[Any], None]] = {
    TensorMarginClassifier: _check_classifier,
    TensorScaler: _check_scaler,
    SetsToZero: _check_mask,
    Crop: _check_crop,
    Resize: lambda step: _check_matrices(step, range(len(step.matrices_))),
    Tensorize: _check_tensorize,
    MoveMode: _check_move,
    Deconfound: _check_confounds,
}


def _need(holder: Any, name: str, value: Any, shape: tuple[Any, ...], kind: str = "f") -> None:
    """Raise ValueError unless a value is an array of this shape and kind."""
    if not isinstance(value, np.ndarray) or value.shape != shape or value.dtype.kind != kind:
        words = "real numbers" if kind == "f" else "truth values"
        raise ValueError(f"{_where(holder, name)} must be {words} of shape {shape}, got {_kind(value)}")


def _need_shape_out(step: Any, shape: Any) -> None:
    """Raise ValueError unless a step returns samples of this shape."""
    if tuple(step.sample_shape_out_) != tuple(shape):
        where = _where(step, "sample_shape_out_")
        raise ValueError(f"{where} must be {tuple(shape)}, got {tuple(step.sample_shape_out_)}")


def _where(holder: Any, name: str) -> str:
    return f"{name} of {type(holder).__name__}"


def _kind(value: Any) -> str:
    return f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


def _some(labels: list[Any]) -> str:
    return listed(map(str, labels), len(labels))
