"""Checks of samples, labels, groups and confounds, shared by estimators, transformers and evaluations."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf, isfinite, isnan, prod
from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, _num_samples, check_consistent_length, validate_data

from ..runtime import (
    Array,
    as_array,
    detached,
    device_of,
    dtype_of,
    is_foreign,
    is_lazy,
    listed,
    namespace,
    note,
    quoted,
    to_host,
)
from . import fitted
from .axes import AnyAxes, as_known, checked_any_axes, contradictions
from .conversion import Shape, as_samples, axes_in, is_ragged, shape_of_samples, taken_along, vector_of
from .covariates import COVARIATE, check_no_decimal_commas
from .scale import takes_any_scale
from .views import (
    Shapes,
    Views,
    converted,
    is_views,
    missing_samples,
    reject_partly_finite,
    reject_without_views,
    views_or_samples,
)

NOT_FINITE = (
    "Input X contains NaN or infinity; leave those samples out, or impute such entries first, with "
    "tensormargin.Impute() (command line: --missing)"
)
"""Error message for samples with entries or statistics that are not finite."""
TOO_LARGE = (
    "Replace codes for missing values, such as -3.4e38 or -1.8e308, by NaN and impute these entries "
    "(tensormargin.Impute(), command line: --missing), divide X by a constant"
)
"""Remedies for samples whose squares overflow."""
_PLAIN_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?( ?%)?")
_SCALES = tuple(
    frozenset(words.split())
    for words in (
        "none normal healthy absent control minimal mild moderate marked severe extreme",
        "none zero low medium middle intermediate high",
        "tiny small medium large huge",
        "never rarely seldom sometimes often always",
        "bad poor fair average good excellent",
        "weak medium strong",
    )
)
"""Words for steps of one scale."""
_MANY_VALUES = 10  # of labels, from which they may be a quantity or names
_LARGEST = float(np.sqrt(np.finfo(np.float64).max))
UNNAMED = "The model was fitted to names along a mode"
"""How the remark on samples without names begins."""
_AXES = fitted.list_of(fitted.instance("Axis"), kind=tuple) | None
SEEN = {"axes_in_": _AXES | fitted.map_of(_AXES) | fitted.ABSENT}
"""What the functions below set in a fit, besides scikit-learn's attributes; see `seen_fits`."""
SCALE_SEEN = {"scale_in_": fitted.map_of(fitted.map_of(fitted.plain)) | fitted.ABSENT}
"""What `scale_of_fit` returns."""


def seen_fits(estimator: Any, shape: Shape | Shapes) -> dict[str, Any]:
    """Return whether what a fitted estimator has seen are samples of this shape."""
    checked_any_axes(getattr(estimator, "axes_in_", None), shape)
    first = None if isinstance(shape, dict) else shape[0]
    return {"n_features_in_": first is None or getattr(estimator, "n_features_in_", first) == first}


def checked_samples(estimator: Any, X: Any, reset: bool = True, finite: bool = True, ragged: bool = False) -> Any:
    """Return X as validated samples, or raise ValueError; ``reset`` is True in ``fit``, as in `validate_data`.

    NumPy arrays and data frames go through scikit-learn's checks. A Dask array stays lazy, chunked along the samples
    only; the pass that reads it checks that it is finite. An array of another library stays on its device.
    """
    axes = axes_in(X)
    X = as_samples(X, ragged)
    if reset:
        remember_axes(estimator, axes)
    else:
        X = in_order_of_fit(estimator, X, axes)
    if not _is_plain(X):
        return _checked_as_it_is(estimator, X, reset, finite)
    X = validate_data(estimator, X, dtype="numeric", allow_nd=True, ensure_all_finite=False, reset=reset)
    return reject_not_finite(X) if finite else X


def _is_plain(X: Any) -> bool:
    """Return whether scikit-learn's checks apply: to NumPy arrays, tables and lists of numbers."""
    if isinstance(X, np.ndarray):
        return X.dtype.kind != "O" or not is_ragged(X)
    return not (isinstance(X, Views) or is_lazy(X) or is_foreign(X))


def _checked_as_it_is(estimator: Any, X: Any, reset: bool, finite: bool) -> Any:
    """Return samples that scikit-learn's checks would convert or refuse: views, lazy, on a device, or ragged ones."""
    if isinstance(X, Views):
        return _checked_views(estimator, X, finite)
    if is_ragged(X):
        return _checked_ragged(estimator, X, reset, finite)
    return validate_data(estimator, _stays_itself(X, finite), skip_check_array=True, reset=reset)


def _checked_views(estimator: Any, X: Views, finite: bool) -> Views:
    """Return Views whose arrays hold real numbers: finite ones, or NaN in all entries of a sample that lacks a view."""
    for name in ("n_features_in_", "feature_names_in_"):  # of a fit to one array
        estimator.__dict__.pop(name, None)
    if len(X) == 0:
        raise ValueError("Views must have at least one sample; got 0")
    empty = [name for name, array in X.items() if 0 in array.shape]
    if empty:
        raise ValueError(
            f"every mode of a sample needs at least one entry; view {empty[0]!r} has samples of shape "
            f"{tuple(X[empty[0]].shape[1:])}. Leave the view out"
        )
    places = sorted({f"{namespace(array).__name__} on {device_of(array)}" for array in X.values()})
    if len(places) > 1:
        raise ValueError(
            f"all views must be in one array library, on one device; got {' and '.join(places)}. Move them to one place"
        )
    checked = {}
    for name, array in X.items():
        if is_lazy(array) or is_foreign(array):
            checked[name] = _stays_itself(array, finite=False)
        else:
            checked[name] = check_array(array, allow_nd=True, ensure_all_finite=False, estimator=estimator)
        if finite and not is_lazy(array) and not all_finite(checked[name]):
            reject_partly_finite(name, checked[name])
    if finite and not any(map(is_lazy, checked.values())):  # the others are read when they are needed
        reject_without_views({name: missing_samples(array) for name, array in checked.items()}, len(X))
    return X.replaced(checked)


def checked_training(
    estimator: Any, X: Any, y: Any, finite: bool = True, ragged: bool = False, axes: AnyAxes = None
) -> tuple[Any, Array]:
    """Return samples to fit on, as `checked_samples` does, or Views, and their labels as a NumPy array.

    ``axes`` are those of samples that have been converted to an array, which states none.
    """
    X, stated = converted(X, ragged)
    remember_axes(estimator, stated if axes is None else axes)
    labels = to_host(y) if is_lazy(y) or is_foreign(y) else y
    if _are_valid(X, labels):
        estimator.n_features_in_ = X.shape[1]
        estimator.__dict__.pop("feature_names_in_", None)
        return reject_not_finite(X) if finite else X, labels
    if _is_plain(X):
        X, labels = validate_data(estimator, X, labels, dtype="numeric", allow_nd=True, ensure_all_finite=False)
        return reject_not_finite(X) if finite else X, labels
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    X, labels = _checked_as_it_is(estimator, X, True, finite), _check_y(labels, estimator=estimator)
    check_consistent_length(X, labels)
    return X, labels


def _are_valid(X: Any, labels: Any) -> bool:
    """Return whether scikit-learn's checks would pass plain arrays unchanged: they take as long as a small fit."""
    if type(X) is not np.ndarray or type(labels) is not np.ndarray:
        return False
    numbers = X.ndim >= 2 and X.size > 0 and X.dtype in (np.float32, np.float64)
    return numbers and labels.shape == X.shape[:1] and has_plain_labels(labels)


def has_plain_labels(labels: Array) -> bool:
    """Return whether labels are a vector of integers or booleans."""
    return labels.ndim == 1 and labels.dtype.kind in "biu"


def remember_axes(estimator: Any, given: AnyAxes) -> None:
    """Set ``axes_in_`` to the axes that X states in ``fit``."""
    estimator.__dict__.pop("axes_in_", None)
    if given is not None:
        estimator.axes_in_ = given


def in_order_of_fit(estimator: Any, X: Any, given: AnyAxes) -> Any:
    """Return converted samples with the names along their modes (channels) in the order of ``fit``.

    Additional ones are left out. Raise ValueError if the axes that X states contradict those seen in ``fit``.
    """
    seen = getattr(estimator, "axes_in_", None)
    if not seen:
        return X
    _note_unnamed(seen, given)
    if isinstance(X, Views):
        known, stated = (axes if isinstance(axes, Mapping) else {} for axes in (seen, given))
        known = {name: axes for name, axes in known.items() if axes and axes[0].name != COVARIATE}
        arranged = {name: as_known(known.get(name), stated.get(name)) for name in X}
        arrays = {name: taken_along(array, arranged[name][1]) for name, array in X.items()}
        X, given = X.replaced(arrays), {name: axes for name, (axes, _, _) in arranged.items()}
        left_out = [name for _, _, names in arranged.values() for name in names]
    else:
        found, places, left_out = as_known(seen, given)
        X, given = taken_along(X, places), given if found is None else found
    if left_out:
        note(f"X has names along its modes that the fit had not, which are left out: {listed(left_out)}")
    error, warning = contradictions(seen, given, takes_any_scale())
    if error is not None:
        raise ValueError(error)
    if warning is not None:
        warnings.warn(warning, stacklevel=4)
    return X


def _note_unnamed(seen: AnyAxes, given: AnyAxes) -> None:
    """Say that samples without names are taken in the order of those of the fit."""
    if isinstance(seen, Mapping):
        for name, axes in seen.items():
            _note_unnamed(axes, given.get(name) if isinstance(given, Mapping) else None)
        return
    for mode, own in enumerate(seen or ()):
        stated = given is not None and not isinstance(given, Mapping) and given[mode : mode + 1]
        if own.values is None or own.is_numeric or own.name == COVARIATE or (stated and stated[0].values is not None):
            continue
        names = listed(own.values.tolist(), most=5)
        note(f"{UNNAMED}, {names}, and X states no names: it must have them in this order")


def _checked_ragged(estimator: Any, X: Array, reset: bool, finite: bool) -> Array:
    """Return samples of different lengths, a vector of arrays, if each of them holds finite real numbers."""
    shape = shape_of_samples(X)
    if reset:
        estimator.__dict__.pop("feature_names_in_", None)
        estimator.__dict__.pop("n_features_in_", None)
        if shape[0] is not None:
            estimator.n_features_in_ = shape[0]
    for position, sample in enumerate(X):
        if sample.dtype.kind not in "biuf" or sample.size == 0:
            raise ValueError(
                f"every sample must hold real numbers, at least one; sample {position} is {sample.dtype} of shape "
                f"{sample.shape}. Convert it, or leave it out"
            )
        if finite and not all_finite(sample):
            raise ValueError(f"{NOT_FINITE} (the first is sample {position})")
    return X


def same_library(estimator: Any, X: Any, attribute: str, method: str) -> None:
    """Raise ValueError unless X has the array library and the device that the estimator was fitted with."""
    fitted = getattr(estimator, attribute)
    for array, own in [(X[name], fitted[name]) for name in X.names] if isinstance(X, Views) else [(X, fitted)]:
        if isinstance(array, np.ndarray) and isinstance(own, np.ndarray):
            continue
        if namespace(array) is not namespace(own) or (is_foreign(array) and device_of(array) != device_of(own)):
            raise ValueError(
                f"Inputs passed to {type(estimator).__name__}.{method}() must use the same namespace and the same "
                f"device as those passed to fit(): got {namespace(array).__name__} on {device_of(array)} after "
                f"{namespace(own).__name__} on {device_of(own)}. Move X there, or the fitted estimator with "
                "tensormargin.to_device(estimator, like=X)"
            )


def samples_as_fitted(estimator: Any, X: Any, shape: Shape | Shapes, finite: bool = True) -> Any:
    """Return X as an array of samples of the shape seen in ``fit``, or raise ValueError.

    None in the shape allows any length. A dictionary of shapes stands for several views, which may come in any order.
    Dask arrays and arrays of other libraries are kept, as in `checked_samples`. ``finite=False`` allows NaN in arrays.
    """
    given = type(X).__name__
    X, axes = converted(with_known_categories(estimator, X), ragged=None in shape)
    X = in_order_of_fit(estimator, X, axes)
    if isinstance(shape, dict) or isinstance(X, Views):
        return _views_as_fitted(estimator, X, shape, given)
    of_vectors = len(shape) == 1 and None not in shape  # scikit-learn's message about features fits vectors only
    plain = _is_plain(X)
    if not plain:
        whole = of_vectors or is_ragged(X)
        X = _checked_as_it_is(estimator, X, False, finite) if whole else _stays_itself(X, finite)
    else:
        options: dict[str, Any] = {"dtype": "numeric", "allow_nd": True, "ensure_all_finite": False}
        if of_vectors:
            X = validate_data(estimator, X, reset=False, **options)
        else:
            X = check_array(X, estimator=estimator, ensure_2d=False, **options)
        X = reject_not_finite(X) if finite else X
    found = X.shape[1:] if plain else shape_of_samples(X)
    if len(found) != len(shape) or any(size not in (None, own) for size, own in zip(shape, found, strict=True)):
        raise ValueError(
            f"samples must have the shape seen in fit, {_format_shape(shape)}; got {_format_shape(found)}. "
            "X is (n_samples, *sample shape): reshape it, or add an axis in front of a single sample"
        )
    return X


def _views_as_fitted(estimator: Any, X: Any, shapes: Shape | Shapes, given: str) -> Views:
    """Return the views seen in ``fit``, in their order; those that were left out there may be missing."""
    if not isinstance(shapes, dict):
        raise ValueError(f"the model was fitted to one array of samples of shape {_format_shape(shapes)}; got Views")
    known = ", ".join(map(repr, shapes))
    if not isinstance(X, Views):
        raise ValueError(f"the model was fitted to the views {known}; got {given}. Pass Views with these names")
    unknown = [name for name in X if name not in shapes]
    if unknown:
        raise ValueError(f"the views must be those seen in fit, {known}; got {unknown[0]!r} as well. Leave it out")
    scales = getattr(estimator, "view_scale_", {})
    missing = [name for name in shapes if name not in X and np.any(scales.get(name, 1.0))]
    if missing:
        raise ValueError(
            f"the views must be those seen in fit, {known}; {missing[0]!r} is missing. For samples that lack it, pass "
            f"an array of NaN of shape (n_samples, {', '.join(map(str, shapes[missing[0]]))})"
        )
    for name, array in X.items():
        if tuple(array.shape[1:]) != shapes[name]:
            raise ValueError(
                f"samples must have the shape seen in fit; view {name!r} had {shapes[name]}, got "
                f"{tuple(array.shape[1:])}. Reshape it, or add an axis in front of a single sample"
            )
    return _checked_views(estimator, X[[name for name in shapes if name in X]], finite=True)


def with_known_categories(estimator: Any, X: Any) -> Any:
    """Return several views with the categories of text that were seen in ``fit``, and everything else as it is."""
    known = getattr(estimator, "axes_in_", None)
    return views_or_samples(X).with_known_categories(known) if is_views(X) and known is not None else X


def named_as_fitted(estimator: Any, X: Any) -> Any:
    """Return X, a data frame as an array where the estimator was fitted without names of columns."""
    if hasattr(estimator, "feature_names_in_") or not hasattr(X, "columns"):
        return X
    return as_array(as_samples(X, ragged=True))


def samples_of_any_length(estimator: Any, X: Any) -> Any:
    """Return X as an array of samples, or a vector of them where they differ in length, for a step that checks them."""
    axes = axes_in(X)
    return as_array(in_order_of_fit(estimator, as_samples(X, ragged=True), axes))


def _format_shape(shape: Shape) -> str:
    """Return a shape as Python writes it, "any" for None."""
    return str(shape).replace("None", "any")


def checked_labels(X: Any, y: Any) -> Array:
    """Return class labels as a vector with one entry per sample of X, or raise ValueError; see `text_or_numbers`."""
    labels = _one_per_sample(X, y, "y")
    if quantity := no_classes(labels):
        raise ValueError(f"y {quantity}")
    return labels


def no_classes(labels: Array, in_folds: bool = False) -> str | None:
    """Return why labels are no classes, and the remedy, to follow their name; None if they are.

    Numbers that are not whole are a quantity. What is cannot be divided ``in_folds`` either if most values are single.
    """
    values, counts = np.unique(labels, return_counts=True)
    n_single, many = int((counts == 1).sum()), len(values) >= _MANY_VALUES
    is_number, why = labels.dtype.kind in "iuf", ""
    if labels.dtype.kind == "f" and np.any(values != np.rint(values)):
        why = f"values such as {values[values != np.rint(values)][0]:g}"
    elif in_folds and is_number and many and n_single >= len(values) / 4:
        why = f"{len(values)} different values in {len(labels)} samples"
    elif in_folds and not is_number and many and n_single > 0.9 * len(labels):
        return (
            f"must be classes, and names of samples were found: {len(values)} different ones for {len(labels)} samples"
            f", such as {quoted(str(values[0]))!r}. Choose another column (command line: --labels)"
        )
    if not why:
        return None
    as_text = "" if many else ". If these values are classes, give them as text"
    return (
        f"must be classes, and a quantity was found: {why}. Put the values into groups, such as low and high with "
        f"numpy.digitize(y, [numpy.median(y)]); there is no regression yet{as_text}"
    )


def order_of(labels: Array) -> str | None:
    """Return what to know of classes that seem to have an order, or to be a quantity; None for others.

    Numbers that follow each other are taken for codes.
    """
    names = [str(label) for label in np.unique(labels).tolist()]
    words = [name.strip().lower() for name in names]
    numbers = [float(word.rstrip(" %")) for word in words if _PLAIN_NUMBER.fullmatch(word)]
    are_codes = bool(numbers) and np.array_equal(np.diff(np.sort(numbers)), np.ones(len(numbers) - 1))
    if len(numbers) == len(names) >= _MANY_VALUES and (not are_codes or len(labels) < 5 * len(names)):
        return (
            f"the classes are {len(names)} different numbers, {listed(names, most=5)}: if these are a quantity, put "
            "them into groups, such as low and high; there is no regression yet"
        )
    ordered = len(numbers) == len(names) and not are_codes
    if len(names) < 3 or not (ordered or any(set(words) <= scale for scale in _SCALES)):
        return None
    return (
        f"the classes {listed(names)} seem to have an order, which is not used: any confusion of two classes counts as "
        "much as any other"
    )


def check_classes(labels: Any, in_folds: bool = False) -> None:
    """Raise ValueError for labels that are no classes, or cannot be divided ``in_folds`` for that reason."""
    if np.ndim(labels) == 1 and (why := no_classes(np.asarray(labels), in_folds)):
        raise ValueError(f"Unknown label type: y {why}")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%")
        check_classification_targets(labels)


def checked_groups(X: Any, groups: Any) -> Array | None:
    """Return groups as a vector with one entry per sample, or None if there are none; see `text_or_numbers`."""
    return None if groups is None else _one_per_sample(X, groups, "groups")


def _one_per_sample(X: Any, values: Any, name: str) -> Array:
    vector = text_or_numbers(values, name)
    n_samples = _num_samples(X)
    if len(vector) != n_samples:
        raise ValueError(
            f"{name} must have one entry per sample; got inconsistent numbers of samples: [{n_samples}, "
            f"{len(vector)}]. Pass the {name} of the samples in X, in their order"
        )
    return vector


def text_or_numbers(values: Any, name: str) -> Array:
    """Return labels or groups as a vector of text or numbers without missing values, or raise ValueError.

    They may be a list, an array of any library, or a pandas Series, Index, Categorical or one-column DataFrame, whose
    index is ignored.
    """
    if values is None:
        raise ValueError(f"{name} must have one entry per sample; got None")
    vector = np.asarray(values, object) if isinstance(values, list | tuple) else to_host(values)
    if vector.ndim == 2 and vector.shape[1] == 1:
        vector = vector[:, 0]
    if vector.ndim != 1:
        raise ValueError(
            f"{name} must be a vector with one entry per sample; {name} should be a 1d array, got an array of shape "
            f"{vector.shape} instead. Pass one column of it"
        )
    _reject_missing(vector, name)
    vector = _without_objects(vector, name)
    check_writable(vector, name)
    return vector


def check_writable(vector: Array, name: str) -> None:
    """Raise ValueError for text with a half of a surrogate pair, which no file, figure or terminal can contain."""
    if vector.dtype.kind not in "OU":
        return
    text = vector.astype(str) if vector.dtype.kind == "O" else vector.astype(vector.dtype.newbyteorder("="))
    letters = np.ascontiguousarray(text).view(np.uint32).reshape(len(text), text.itemsize // 4)
    halves = np.any(letters >> 11 == 0xD800 >> 11, axis=1)
    if halves.any():
        raise ValueError(
            f"{name} must be text that can be written as UTF-8; got {str(text[halves][0])!a}. Rename it, e.g. with "
            "value.encode(errors='replace').decode()"
        )


def _reject_missing(vector: Array, name: str) -> None:
    if vector.dtype.kind == "O":
        missing = np.array([_is_missing(value) for value in vector], bool)
    elif vector.dtype.kind == "f":
        missing = ~np.isfinite(vector)
    else:
        return
    if missing.any():
        first = int(missing.argmax())
        raise ValueError(
            f"{name} must have a value for every sample; {missing.sum()} of {len(vector)} are missing or not finite, "
            f"the first at position {first} ({vector[first]}). Fill them in, or leave those samples out"
        )


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value) or value in (inf, -inf)  # only NaN differs from itself
    except TypeError:  # pandas.NA: comparisons with it have no truth value
        return True


def _without_objects(vector: Array, name: str) -> Array:
    """Return text with a ``str`` dtype, and numbers stored as objects with a numeric dtype."""
    if vector.dtype.kind == "S":
        return np.char.decode(vector, "utf-8")
    if vector.dtype.kind == "T" or (vector.dtype.kind == "O" and all(isinstance(value, str) for value in vector)):
        return np.array(vector.tolist(), str)
    if vector.dtype.kind == "O" and not any(isinstance(value, str) for value in vector):
        vector = np.array(vector.tolist())
    if vector.dtype.kind not in "biufU":
        raise ValueError(
            f"{name} must be all text or all numbers; got {vector.dtype}, the first of type {type(vector[0]).__name__}."
            f" Turn them into text, e.g. with [str(value) for value in {name}]"
        )
    return vector


def _stays_itself(X: Any, finite: bool = True) -> Any:
    """Return a Dask array, or an array of another library than NumPy, after checking that it holds real samples."""
    shape = tuple(X.shape)
    if any(length is None or isnan(length) for length in shape):
        raise ValueError(
            f"the length of every axis must be known; got X of shape {shape}. Call X.compute_chunk_sizes() first"
        )
    if len(shape) < 2 or prod(shape) == 0:
        raise ValueError(
            f"X must have the shape (n_samples, I_1, ...), none of them 0; got {shape}. Expected 2D array or more: "
            "reshape it, or add an axis in front of a single sample"
        )
    try:
        numbers = dtype_of(X).kind in "biuf"
    except TypeError:  # e.g. bfloat16, which NumPy lacks
        numbers = False
    if not numbers:
        raise ValueError(f"X must hold real numbers of a type that NumPy has; got {X.dtype}. Cast it, e.g. to float32")
    if is_lazy(X):
        return chunked_along_samples(X)
    X = detached(X)
    return reject_not_finite(X) if finite else X


def reject_not_finite(X: Any) -> Any:
    """Return X, or raise ValueError with its first sample that has NaN, infinity, or an entry too large to square."""
    xp = np if isinstance(X, np.ndarray) else namespace(X)
    if not xp.isdtype(X.dtype, "real floating") or abs(_total(X)) <= _LARGEST:  # entries seldom cancel
        return X
    if not bool(xp.all(xp.isfinite(X))):
        first = int(to_host(xp.any(xp.reshape(~xp.isfinite(X), (X.shape[0], -1)), axis=1)).argmax())
        padded = bool(np.isnan(to_host(X[first, ...])[..., -1]).all())
        shorter = "; if NaN pads shorter samples, put tensormargin.EqualLength() first (--length)" if padded else ""
        raise ValueError(f"{NOT_FINITE} (the first is sample {first}{shorter})")
    sizes = to_host(xp.max(xp.abs(xp.reshape(X, (X.shape[0], -1))), axis=1)).astype(np.float64)
    if sizes.max() > _LARGEST:
        raise ValueError(
            f"entries of X must be at most {_LARGEST:.1e}, so that their squares do not overflow; that of sample "
            f"{int(sizes.argmax())} is {sizes.max():.1e}. {TOO_LARGE}"
        )
    return X


def without_padding(X: Any, axis: int) -> Any:
    """Return samples without NaN at their ends along an axis: a vector of arrays if they then differ in length."""
    if is_lazy(X):
        return X  # its chunks are cut when they are changed
    for position, sample in enumerate(X) if is_ragged(X) or not all_finite(X) else ():
        if namespace(sample).any(namespace(sample).isinf(sample)):
            raise ValueError(
                f"samples must hold numbers, or NaN where entries are missing; sample {position} has infinity. Replace "
                "it by NaN, or leave that sample out"
            )
    if is_ragged(X) or all_finite(X):
        return X
    samples = to_host(X)
    others = tuple(place for place in range(1, samples.ndim) if place != axis)
    known: Array = ~np.asarray(np.isnan(samples).all(axis=others))
    if not known.any(axis=1).all():
        first = int(known.any(axis=1).argmin())
        raise ValueError(f"every sample needs an entry; all those of sample {first} are NaN. Leave it out")
    lengths = known.shape[1] - known[:, ::-1].argmax(axis=1)
    if lengths.min() == known.shape[1]:
        return X
    before = (slice(None),) * (axis - 1)
    return vector_of([sample[(*before, slice(length))] for sample, length in zip(samples, lengths, strict=True)])


def chunked_along_samples(X: Any) -> Any:
    """Return a Dask array chunked along the samples only; these chunks are kept unless they become too large."""
    if all(count == 1 for count in X.numblocks[1:]):
        return X
    from dask import config
    from dask.utils import parse_bytes

    whole = dict.fromkeys(range(1, X.ndim), -1)
    largest = max(X.chunks[0]) * prod(X.shape[1:]) * X.dtype.itemsize
    too_large = largest > parse_bytes(config.get("array.chunk-size"))
    return X.rechunk({0: "auto", **whole} if too_large else whole)


def all_finite(X: Any) -> bool:
    """Return whether all entries are finite; a finite sum settles it without a boolean array."""
    xp = np if isinstance(X, np.ndarray) else namespace(X)
    return not xp.isdtype(X.dtype, "real floating") or isfinite(_total(X)) or bool(xp.all(xp.isfinite(X)))


def _total(X: Any) -> float:
    """Return the sum of all entries."""
    with np.errstate(over="ignore", invalid="ignore"):  # for libraries built on NumPy
        return float(np.sum(X) if isinstance(X, np.ndarray) else namespace(X).sum(X))


# Steps of a model get groups and confounds by name, in `fit` and `transform`; with metadata routing without a request.
NEEDS = {
    "groups": "by_group=True needs groups, one per sample: the preparation scales every group by itself. Pass them to "
    "{method}(..., groups=groups), or use by_group=False",
    "confounds": "Deconfound needs confounds, one row per sample, to fit and to predict: what they explain is removed "
    "from the samples. Pass them to {method}(..., confounds=confounds), or leave the step out",
}
"""Error messages for metadata that a step needs and does not get, by name."""


@dataclass(frozen=True)
class Metadata:
    """Groups and confounds (a structured array, see `checked_confounds`) of samples, each None if there are none."""

    groups: Array | None = None
    confounds: Array | None = None

    @classmethod
    def of(cls, given: Any) -> Metadata:
        """Return metadata as they are; a vector is taken as groups."""
        return given if isinstance(given, Metadata) else cls(groups=given)

    @classmethod
    def checked(cls, X: Any, groups: Any, confounds: Any) -> Metadata:
        """Return the metadata of samples; raise ValueError if they are not one per sample."""
        return cls(checked_groups(X, groups), checked_confounds(X, confounds))

    def rows(self, rows: Any) -> Metadata:
        """Return the metadata of some of the samples."""
        return Metadata(*(None if one is None else one[rows] for one in (self.groups, self.confounds)))

    @property
    def given(self) -> dict[str, Array]:
        """The metadata that there are, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def content(self) -> tuple[Any, ...]:
        """Everything that determines results, for checkpoints."""
        return (self.groups,) if self.confounds is None else (self.groups, self.confounds)


NO_METADATA = Metadata()


def checked_confounds(X: Any, confounds: Any) -> Array | None:
    """Return confounds (frame, array, mapping) as a structured array, one field of float64 or text per column."""
    if confounds is None:
        return None
    columns = _columns(confounds)
    if not columns:
        raise ValueError("confounds must have at least one column; got none. Leave confounds out, or name some")
    n_samples = _num_samples(X)
    for name, column in columns.items():
        if len(column) != n_samples:
            raise ValueError(
                f"confounds must have one row per sample; got inconsistent numbers of samples: [{n_samples}, "
                f"{len(column)}] for {name!r}. Pass the confounds of the samples in X, in their order"
            )
    table = np.empty(n_samples, [(name, column.dtype) for name, column in columns.items()])
    for name, column in columns.items():
        table[name] = column
    return table


def names_of(confounds: Array) -> list[str]:
    """Return the names of checked confounds."""
    return list(confounds.dtype.names or ())


def _columns(confounds: Any) -> dict[str, Array]:
    """Return the columns by name, each as numbers (float64) or text."""
    if isinstance(confounds, np.ndarray) and confounds.dtype.names is not None:
        return {name: _column(confounds[name], name) for name in confounds.dtype.names}
    if isinstance(confounds, Mapping):
        return {str(name): _column(values, str(name)) for name, values in confounds.items()}
    if hasattr(confounds, "columns") and hasattr(confounds, "iloc"):
        names = [str(name) for name in confounds.columns]
        return {name: _column(confounds.iloc[:, k], name) for k, name in enumerate(names)}
    if hasattr(confounds, "iloc"):
        name = str(getattr(confounds, "name", None) or "0")
        return {name: _column(confounds, name)}
    table = np.asarray(confounds, object) if isinstance(confounds, list | tuple) else to_host(confounds)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2:
        raise ValueError(
            f"confounds must have the shape (n_samples, n_confounds); got {table.shape}. Pass one row per sample"
        )
    return {str(k): _column(table[:, k], str(k), parse=table.dtype.kind in "UST") for k in range(table.shape[1])}


def _column(values: Any, name: str, parse: bool = False) -> Array:
    if str(getattr(values, "dtype", "")) == "category":
        values = values.astype(object)
        column = text_or_numbers([value if value is None or value != value else str(value) for value in values], name)
    else:
        column = text_or_numbers(values, f"confound {name!r}")
    if column.dtype.kind != "U":
        return column.astype(np.float64)
    with suppress(ValueError):
        if parse:
            return column.astype(np.float64)
    check_no_decimal_commas(f"the confound {name!r}", column.tolist())
    return column


def check_needs(method: str, needed: set[str], metadata: Metadata) -> None:
    """Raise ValueError if something that is needed is not there."""
    for name in sorted(needed - set(metadata.given)):
        raise ValueError(NEEDS[name].format(method=method))
