"""Resizing of images and volumes, with one small matrix per mode."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ...data import NO_METADATA, Axes, Metadata, format_shape
from ...runtime import Array, as_array, as_like, cast, namespace
from ._base import KeepsTensors, check_sizes, wrong_shape
from ._passes import floating, in_order


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


class Resize(KeepsTensors):
    """Resize samples mode by mode, by linear interpolation, or averaging if a mode shrinks.

    Parameters
    ----------
    shape : tuple of int
        New sizes of the first modes of a sample; further modes (colours, time) are kept.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import Resize
    >>> Resize((14, 14)).fit_transform(np.ones((5, 28, 28))).shape
    (5, 14, 14)
    """

    def __init__(self, shape: tuple[int, ...] = (32, 32)) -> None:
        self.shape = shape

    def _learn(self, X: Any, metadata: Metadata) -> tuple[int, ...]:
        check_sizes(self.shape)
        shape = tuple(X.shape[1:])
        if not len(self.shape) <= len(shape) or min(self.shape) < 1:
            rule = f"must give new sizes of at least 1 for the first modes of samples of shape {shape}"
            raise wrong_shape(rule, self.shape)
        self.matrices_ = [resizing_matrix(old, new) for old, new in zip(shape, self.shape, strict=False)]
        return (*self.shape, *shape[len(self.shape) :])

    def _change(self, X: Any, metadata: Metadata = NO_METADATA) -> Any:
        return apply_matrices(X, self.matrices_, 1)

    def pull_back(self, weight: Any) -> Array:
        return apply_matrices(as_array(weight), [matrix.T for matrix in self.matrices_], 0)

    def _axes_out(self, axes: Axes) -> Axes:
        sizes = zip(self.sample_shape_in_, self.sample_shape_out_, strict=True)
        return tuple(axis.at(resized_places(*pair)) for axis, pair in zip(axes, sizes, strict=True))

    def words(self) -> str:
        return f"samples were resized to {format_shape(self.shape)}"
