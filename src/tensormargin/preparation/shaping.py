"""Other shapes: folded modes, masks, and the box that holds what varies."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._typing import Array
from ._base import KeepsTensors, check_sizes

RULES = ("varying", "bright")


class Tensorize(KeepsTensors):
    """Give samples another shape with as many entries, such as 28x28 -> 7x4x7x4.

    Parameters
    ----------
    shape : tuple of int
        The new shape of a sample; one entry may be -1. Entries keep their order (C order), so a mode may be split into
        neighbouring modes and neighbouring modes may be joined.

    Attributes
    ----------
    sample_shape_in_, sample_shape_out_ : tuple of int

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.preparation import Tensorize
    >>> Tensorize((7, 4, 7, 4)).fit_transform(np.ones((5, 28, 28))).shape
    (5, 7, 4, 7, 4)
    """

    def __init__(self, shape: tuple[int, ...] = (-1,)) -> None:
        self.shape = shape

    def _learn(self, X: Array, groups: Array | None) -> tuple[int, ...]:
        check_sizes(self.shape)
        size = prod(X.shape[1:])
        known = prod(n for n in self.shape if n != -1)
        free = sum(n == -1 for n in self.shape)
        if free > 1 or min(self.shape) < -1 or known < 1 or (size % known if free else size != known):
            raise ValueError(
                f"shape must have as many entries as the samples, whose shape {X.shape[1:]} makes {size} (one size may "
                f"be -1); got shape={self.shape!r}"
            )
        return tuple(size // known if n == -1 else n for n in self.shape)

    def _change(self, X: Array, groups: Array | None) -> Array:
        return X.reshape(len(X), *self.sample_shape_out_)

    def inverse_transform(self, X: Any) -> Array:
        """Return samples in the shape they came in."""
        check_is_fitted(self)
        return np.asarray(X).reshape(-1, *self.sample_shape_in_)

    def pull_back(self, weight: Any) -> Array:
        """Return the weight in the shape that samples come in."""
        return np.asarray(weight).reshape(self.sample_shape_in_)


class Mask(KeepsTensors):
    """Set entries outside of a mask to zero.

    Parameters
    ----------
    mask : "varying", "bright" or array of bool, default="varying"
        Entries to keep: those that are not constant over the training samples; those whose mean over the training
        samples is bright, by Otsu's threshold (the brain in a volume with a dark background); or those given.

    Attributes
    ----------
    mask_ : ndarray of bool, of the samples' shape
    sample_shape_in_, sample_shape_out_ : tuple of int
    """

    def __init__(self, mask: str | Any = "varying") -> None:
        self.mask = mask

    def _learn(self, X: Array, groups: Array | None) -> tuple[int, ...]:
        self.mask_ = _found_mask(X, self.mask)
        return X.shape[1:]

    def _change(self, X: Array, groups: Array | None) -> Array:
        return np.where(self.mask_, X, np.zeros((), X.dtype))

    def pull_back(self, weight: Any) -> Array:
        """Return the weight, zero where the samples are not looked at."""
        return np.where(self.mask_, weight, 0.0)


class Crop(KeepsTensors):
    """Cut samples to the smallest box that holds a mask.

    Parameters
    ----------
    mask : "varying", "bright" or array of bool, default="varying"
        See `Mask`.
    margin : int, default=0
        Entries to keep around the box.

    Attributes
    ----------
    box_ : tuple of slice
    sample_shape_in_, sample_shape_out_ : tuple of int
    """

    def __init__(self, mask: str | Any = "varying", margin: int = 0) -> None:
        self.mask = mask
        self.margin = margin

    def _learn(self, X: Array, groups: Array | None) -> tuple[int, ...]:
        if self.margin < 0:
            raise ValueError(f"margin must be at least 0; got margin={self.margin}")
        inside = np.argwhere(_found_mask(X, self.mask))
        first = np.maximum(inside.min(axis=0) - self.margin, 0)
        last = np.minimum(inside.max(axis=0) + self.margin + 1, X.shape[1:])
        self.bounds_ = np.stack([first, last], axis=1)
        return tuple((last - first).tolist())

    @property
    def box_(self) -> tuple[slice, ...]:
        """The box, one slice a mode."""
        return tuple(slice(int(first), int(last)) for first, last in self.bounds_)

    def _change(self, X: Array, groups: Array | None) -> Array:
        return X[(slice(None), *self.box_)]

    def inverse_transform(self, X: Any) -> Array:
        """Return samples of the shape they came in, zero outside of the box."""
        check_is_fitted(self)
        X = np.asarray(X)
        full = np.zeros((len(X), *self.sample_shape_in_), X.dtype)
        full[(slice(None), *self.box_)] = X
        return full

    def pull_back(self, weight: Any) -> Array:
        """Return the weight in the shape of the whole samples, zero outside of the box."""
        return self.inverse_transform(np.asarray(weight)[None])[0]


def _found_mask(X: Array, rule: Any) -> Array:
    if isinstance(rule, str):
        if rule not in RULES:
            raise ValueError(f"mask must be {', '.join(map(repr, RULES))} or an array of bool; got {rule!r}")
        mask = _varying(X) if rule == "varying" else _bright(X)
        if not mask.any():
            why = "all samples are the same" if rule == "varying" else "all entries have the same mean"
            raise ValueError(f"mask={rule!r} leaves no entry: {why} (n_samples={len(X)}, n_features={X[0].size})")
        return mask
    mask = np.asarray(rule).astype(bool)
    if mask.shape != X.shape[1:] or not mask.any():
        raise ValueError(
            f"a mask needs the samples' shape {X.shape[1:]} and at least one true entry; got shape {mask.shape} with "
            f"{int(mask.sum())}"
        )
    return mask


def _varying(X: Array) -> Array:
    return np.max(X, axis=0) > np.min(X, axis=0)


def _bright(X: Array) -> Array:
    """Return where the mean sample lies above Otsu's threshold: the one that separates two kinds of entries best."""
    mean = np.mean(X, axis=0, dtype=np.float64)
    counts, edges = np.histogram(mean, bins=256)
    centres = (edges[:-1] + edges[1:]) / 2
    below = np.cumsum(counts)[:-1]
    above = mean.size - below
    sums = np.cumsum(counts * centres)
    with np.errstate(divide="ignore", invalid="ignore"):
        between = below * above * (sums[:-1] / below - (sums[-1] - sums[:-1]) / above) ** 2
    if not np.any(np.isfinite(between) & (between > 0)):
        return np.zeros(mean.shape, bool)
    return mean > edges[1:-1][np.nanargmax(between)]
