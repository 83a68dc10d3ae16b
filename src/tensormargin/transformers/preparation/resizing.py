"""Sizes of samples: resizing of images and volumes, and one length for recordings, sentences or gestures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from ...data import (
    NO_METADATA,
    Axes,
    Metadata,
    Shape,
    all_finite,
    as_samples,
    checked_samples,
    fitted,
    format_shape,
    is_ragged,
    samples_as_fitted,
    shape_of_samples,
    without_padding,
)
from ...runtime import Array, as_array, as_like, cast, dtype_of, is_foreign, like, namespace
from ._base import KeepsTensors, OptionError, check_sizes, checked_choice, checked_count, wrong_shape
from ._passes import floating, in_order

METHODS = ("resample", "constant", "edge", "mean")


@cache
def resizing_matrix(before: int, after: int) -> Array:
    """Return the matrix that resizes ``before`` values to ``after``: linear interpolation, or averaging to shrink.

    Every new value is a weighted mean of the old ones around its position. The weights fall linearly to zero at a
    distance of one grid step (old or new, whichever is larger), so that shrinking does not alias.
    """
    step = before / after
    places = resized_places(before, after)
    weights = np.maximum(0.0, 1.0 - np.abs(places[:, None] - np.arange(before)) / max(step, 1.0))
    return weights / weights.sum(axis=1, keepdims=True)


def resized_places(before: int, after: int) -> Array:
    """Return where the new values lie, in indices of the old ones."""
    return (np.arange(after) + 0.5) * (before / after) - 0.5


def resize(array: Array, shape: tuple[int, ...]) -> Array:
    """Return an image or volume with its first axes resized to ``shape``; further axes (colours) are kept.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import resize
    >>> resize(np.ones((6, 8)), (3, 4)).shape
    (3, 4)
    """
    if len(shape) > array.ndim:
        raise ValueError(f"an array of shape {array.shape} has no {len(shape)} axes to resize to {tuple(shape)}")
    return apply_matrices(array, [resizing_matrix(old, new) for old, new in zip(array.shape, shape, strict=False)], 0)


def apply_matrices(array: Any, matrices: Sequence[Any], axes: int | Sequence[int]) -> Any:
    """Return an array multiplied by one matrix per axis: the axes given, or consecutive ones from the first on."""
    xp, dtype = namespace(array), floating(array)
    axes = range(axes, axes + len(matrices)) if isinstance(axes, int) else axes
    changed = cast(array, dtype)
    for axis, matrix in zip(axes, matrices, strict=True):
        changed = xp.moveaxis(xp.tensordot(as_like(matrix, array, dtype), changed, axes=((1,), (axis,))), 0, axis)
    return in_order(changed)


def matrices_fit(step: Any, modes: Sequence[int]) -> bool:
    """Return whether the matrix of each mode leads from its size before a fitted step to its size after."""
    before, after = step.sample_shape_in_, step.sample_shape_out_
    return [matrix.shape for matrix in step.matrices_] == [(after[mode], before[mode]) for mode in modes]


@fitted.attributes(matrices_=fitted.list_of(fitted.floats(None, None), "shape"))
@dataclass(eq=False, repr=False)
class Resize(KeepsTensors):
    """Resize samples mode by mode, by linear interpolation, or averaging if a mode shrinks.

    Parameters
    ----------
    shape : tuple of int
        New sizes of the first modes of a sample; further modes (colours, time) are kept.

    Attributes
    ----------
    matrices_ : list of ndarray
        The matrix of each of the first modes, of shape (new size, size).

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import Resize
    >>> Resize((14, 14)).fit_transform(np.ones((5, 28, 28))).shape
    (5, 14, 14)
    """

    shape: tuple[int, ...] = (32, 32)

    def _learn(self, X: Any, metadata: Metadata) -> None:
        check_sizes(self.shape)
        shape = tuple(X.shape[1:])
        if not len(self.shape) <= len(shape) or min(self.shape) < 1:
            rule = f"must give new sizes of at least 1 for the first modes of samples of shape {shape}"
            raise wrong_shape(rule, self.shape)
        self.matrices_ = [resizing_matrix(old, new) for old, new in zip(shape, self.shape, strict=False)]

    def _shape_out(self) -> tuple[int, ...]:
        return (*self.shape, *self.sample_shape_in_[len(self.shape) :])

    def _fits(self) -> dict[str, Any]:
        return {**super()._fits(), "matrices_": matrices_fit(self, range(len(self.matrices_)))}

    def _change(self, X: Any, metadata: Metadata = NO_METADATA) -> Any:
        return apply_matrices(X, self.matrices_, 1)

    def pull_back(self, weight: Any) -> Array:
        return apply_matrices(as_array(weight), [matrix.T for matrix in self.matrices_], 0)

    def _axes_out(self, axes: Axes) -> Axes:
        sizes = zip(self.sample_shape_in_, self.sample_shape_out_, strict=True)
        return tuple(axis.at(resized_places(*pair)) for axis, pair in zip(axes, sizes, strict=True))

    def words(self) -> str:
        return f"samples were resized to {format_shape(self.shape)}"


@fitted.attributes(length_=fitted.whole(1))
@dataclass(eq=False, repr=False)
class EqualLength(KeepsTensors):
    """Give samples of different lengths one length, by resampling or by padding.

    Takes a list, object array, Series or nested data frame of arrays that differ in the length of one mode, as well as
    ordinary arrays. It must be the first step, since no other transformer takes such samples.

    NaN in all entries at the end of a sample is padding: the sample counts as shorter. Other entries that are NaN stay
    so where nothing is known around them; put `Impute` behind this step to fill them in.

    Parameters
    ----------
    length : int or None, default=None
        The common length. None means the median length of the training samples for resampling, and their maximum
        length for padding.
    method : {"resample", "constant", "edge", "mean"}, default="resample"
        "resample" stretches samples by linear interpolation or shrinks them by averaging. The other methods pad samples
        at the end: with ``value`` ("constant"), the last entry ("edge"), or the mean along the mode ("mean", separately
        for each channel). Longer samples are then cut at the end.
    value : float, default=0.0
        Padding value of "constant".
    mode : int or str, default=-1
        The mode in which the samples differ, counted from 0; negative numbers count from the last. Or its name, if the
        samples have names.

    Attributes
    ----------
    length_ : int
        The common length.
    sample_shape_in_ : tuple of int or None
        Shape of the training samples, with None for the mode in which they differed. New samples may have any length,
        except that a table (2-D array) must have the columns of the training table.
    sample_shape_out_ : tuple of int

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import EqualLength
    >>> recordings = [np.ones((3, 90)), np.ones((3, 110)), np.ones((3, 100))]
    >>> EqualLength().fit_transform(recordings).shape
    (3, 3, 100)
    >>> padded = np.array([[[1.0, 2.0, 3.0]], [[1.0, 2.0, np.nan]]])
    >>> EqualLength(method="edge").fit_transform(padded)[1]
    array([[1., 2., 2.]])
    """

    length: int | None = None
    method: str = "resample"
    value: float = 0.0
    mode: int | str = -1

    _takes_ragged: ClassVar[bool] = True
    _takes_nan: ClassVar[bool] = True

    def _learn(self, X: Any, metadata: Metadata) -> None:
        self._check_parameters()
        mode = self._place(self.sample_shape_in_)
        X = without_padding(X, mode + 1)
        shape = self.sample_shape_in_ = shape_of_samples(X)
        others = [place for place, size in enumerate(shape) if size is None and place != mode]
        if others:
            rule, place = "samples may differ in one mode", others[0]
            remedy = "if that is the only one, or resize each sample to one shape first"
            also = "they also differ in mode"
            raise OptionError(
                f"{rule}, mode={self.mode}; {also} {place} (counted from 0). Give mode={place} {remedy}",
                f"{rule}, the last one unless mode K names another; {also} {place + 1}. Add mode {place + 1} {remedy}",
            )
        lengths = np.array([sample.shape[mode] for sample in X] if is_ragged(X) else [shape[mode]])
        usual = round(float(np.median(lengths))) if self.method == "resample" else int(lengths.max())
        self.length_ = usual if self.length is None else int(self.length)

    def _shape_out(self) -> tuple[int, ...]:
        shape = self.sample_shape_in_
        mode = self._place(shape)
        return tuple(self.length_ if place == mode else int(size or 0) for place, size in enumerate(shape))

    def _check_parameters(self) -> None:
        checked_choice(self.method, "method", METHODS)
        if self.length is not None:
            checked_count(self.length, "length")
        value: Any = self.value
        if not isinstance(value, Real) or not np.isfinite(float(value)):
            raise ValueError(f"value must be a finite number; got value={self.value!r}")

    def _place(self, shape: Shape) -> int:
        """Return the mode as a non-negative index."""
        return self._mode(self.mode, len(shape))

    def _as_fitted(self, X: Any) -> Any:
        shape = self.sample_shape_in_
        is_table = not isinstance(X, list | tuple) and not is_ragged(as_samples(X, ragged=True))
        if is_table and len(shape) == 1 and None not in shape:
            return checked_samples(self, X, reset=False, finite=False)
        mode = self._place(shape)
        return samples_as_fitted(self, X, (*shape[:mode], None, *shape[mode + 1 :]), finite=False)

    def _change(self, X: Any, metadata: Metadata = NO_METADATA) -> Any:
        given, X = X, without_padding(X, self._place(self.sample_shape_in_) + 1)
        if not is_ragged(X):
            return self._equalised(X)
        dtype = np.result_type(*{sample.dtype for sample in X})
        lengths = np.array([sample.shape[self._place(self.sample_shape_in_)] for sample in X])
        changed: Array | None = None
        for length in np.unique(lengths):
            rows = np.flatnonzero(lengths == length)
            part = self._equalised(np.stack([X[row] for row in rows]).astype(dtype, copy=False))
            changed = np.empty((len(X), *part.shape[1:]), part.dtype) if changed is None else changed
            changed[rows] = part
        return like(changed, given) if is_foreign(given) else changed

    def _equalised(self, X: Any) -> Any:
        """Return samples of equal length, resampled or padded to the common length."""
        axis = self._place(self.sample_shape_in_) + 1
        before = X.shape[axis]
        X = cast(X, self._dtype(X))
        if self.method == "resample":
            return X if before == self.length_ else _resampled(X, resizing_matrix(before, self.length_), axis)
        if before >= self.length_:
            return X[_along(axis, 0, self.length_)]
        xp = namespace(X)
        shape = (*X.shape[:axis], self.length_ - before, *X.shape[axis + 1 :])
        return xp.concat([X, xp.broadcast_to(self._added(X, axis), shape)], axis=axis)

    def _dtype(self, X: Any) -> np.dtype[Any]:
        """Return the dtype of the output: that of X if it can hold the result for samples of any length."""
        own = dtype_of(X)
        if self.method == "edge":
            return own
        if own.kind == "f":
            return floating(X)
        limits = np.iinfo(own) if own.kind in "iu" else None
        fits = limits is not None and self.value == int(self.value) and limits.min <= self.value <= limits.max
        return own if self.method == "constant" and fits else floating(X)

    def _added(self, X: Any, axis: int) -> Any:
        xp = namespace(X)
        last = X[_along(axis, X.shape[axis] - 1, X.shape[axis])]
        if self.method == "edge":
            return last
        if self.method == "constant":
            return xp.full_like(last, self.value)
        if all_finite(X):
            return xp.mean(X, axis=axis, keepdims=True)
        return _resampled(X, np.ones((1, X.shape[axis])), axis)

    def pull_back(self, weight: Any) -> Array:
        """Return the weight on samples of the training samples' length.

        Raises TypeError if their lengths differed, since each length would then have its own weight.
        """
        shape = self.sample_shape_in_
        mode = self._place(shape)
        before = shape[mode]
        if before is None:
            raise TypeError(
                "cannot pull a weight back through EqualLength: the training samples had different lengths, so that "
                "no one weight fits all of them. The weight on samples of the common length is the classifier's own"
            )
        return apply_matrices(as_array(weight), [self._linear(before).T], mode)

    def _linear(self, before: int) -> Array:
        """Return the matrix of the linear part of the map along the mode ("constant" also adds an offset)."""
        if self.method == "resample":
            return resizing_matrix(before, self.length_)
        matrix = np.eye(self.length_, before)
        if self.method == "edge":
            matrix[before:, -1] = 1.0
        elif self.method == "mean":
            matrix[before:] = 1.0 / before
        return matrix

    def _axes_out(self, axes: Axes) -> Axes:
        mode = self._place(self.sample_shape_in_)
        before = self.sample_shape_in_[mode]
        resampled = self.method == "resample" and before is not None
        places = resized_places(before, self.length_) if resampled else np.arange(self.length_)
        return (*axes[:mode], axes[mode].at(places), *axes[mode + 1 :])

    def words(self) -> str:
        length = f"length {getattr(self, 'length_', self.length)}"
        if not hasattr(self, "length_") and self.length is None:
            length = f"the {'median' if self.method == 'resample' else 'largest'} length of the training samples"
        if self.method == "resample":
            return f"samples were resampled linearly to {length}"
        added = {"constant": f"{self.value:g}", "edge": "their last entry", "mean": "their mean"}[self.method]
        return f"samples were padded with {added} to {length}, longer ones cut"


def _resampled(X: Any, matrix: Array, axis: int) -> Any:
    """Return samples times a matrix of weights along an axis; NaN has no weight, and stays where nothing else has."""
    if all_finite(X):
        return apply_matrices(X, [matrix], axis)
    xp = namespace(X)
    missing = xp.isnan(X)
    known = apply_matrices(cast(~missing, dtype_of(X)), [matrix], axis)
    total = apply_matrices(xp.where(missing, xp.zeros_like(X), X), [matrix], axis)
    nothing = known <= 0
    return xp.where(nothing, xp.full_like(total, float("nan")), total / xp.where(nothing, xp.ones_like(known), known))


def _along(axis: int, first: int, last: int) -> tuple[Any, ...]:
    """Return the index of a range along one axis, with all other axes complete."""
    return (*(slice(None) for _ in range(axis)), slice(first, last), ...)
