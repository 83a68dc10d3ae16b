"""Centre and scale tensors: by entry, along modes, or as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._typing import Array
from ..samples import working_dtype
from ._base import KeepsTensors

_CHUNK_ENTRIES = 2**22


class TensorScaler(KeepsTensors):
    """Subtract means and divide by standard deviations, learned on the training samples.

    Parameters
    ----------
    per : "entry", "global", int or tuple of int, default="entry"
        What has a mean and a standard deviation of its own: every entry of a sample, the samples as a whole, or every
        index of one mode (counted from 0, e.g. each channel of channels x time is ``per=0``) or of several.
    with_mean, with_std : bool, default=True
        Whether to centre, whether to scale.
    by_group : bool, default=False
        Treat every group (fMRI run, session, subject) by itself, with its own means and deviations; pass ``groups`` to
        ``fit`` and ``transform``. A group that is left out then tells the others nothing, and a new group needs no
        statistics of the old ones, only enough samples of its own. In a pipeline the groups travel by scikit-learn's
        metadata routing.

    Attributes
    ----------
    mean_, scale_ : ndarray
        They broadcast against a sample; what does not vary has the scale 1. None where ``by_group``.
    sample_shape_in_, sample_shape_out_ : tuple of int

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.preparation import TensorScaler
    >>> X = np.random.default_rng(0).normal(3.0, 2.0, (50, 6, 100))
    >>> TensorScaler(per=0).fit(X).mean_.shape
    (6, 1)
    """

    def __init__(
        self,
        per: str | int | tuple[int, ...] = "entry",
        with_mean: bool = True,
        with_std: bool = True,
        by_group: bool = False,
    ) -> None:
        self.per = per
        self.with_mean = with_mean
        self.with_std = with_std
        self.by_group = by_group

    def _learn(self, X: Array, groups: Array | None) -> tuple[int, ...]:
        axes = self._averaged_axes(X.ndim - 1)
        if self.by_group:
            self._need(groups)
            self.mean_: Any = None
            self.scale_: Any = None
        else:
            self.mean_, self.scale_ = _mean_and_scale(X, axes)
        return X.shape[1:]

    def _change(self, X: Array, groups: Array | None) -> Array:
        out = X.astype(working_dtype(X.dtype))  # the one copy
        if not self.by_group:
            return self._standardise(out, self.mean_, self.scale_)
        groups = self._need(groups)
        axes = self._averaged_axes(X.ndim - 1)
        for group in np.unique(groups):
            rows = groups == group
            out[rows] = self._standardise(out[rows], *_mean_and_scale(X[rows], axes))
        return out

    def _standardise(self, out: Array, mean: Any, scale: Any) -> Array:
        if self.with_mean:
            out -= mean.astype(out.dtype)
        if self.with_std:
            out /= scale.astype(out.dtype)
        return out

    def inverse_transform(self, X: Any) -> Array:
        """Undo the scaling."""
        check_is_fitted(self)
        if self.by_group:
            raise ValueError("scaling by group has no one inverse: every group was scaled by numbers of its own")
        out = np.array(X, dtype=working_dtype(np.asarray(X).dtype))
        if self.with_std:
            out *= self.scale_.astype(out.dtype)
        if self.with_mean:
            out += self.mean_.astype(out.dtype)
        return out

    def pull_back(self, weight: Any) -> Array:
        """Return the weight on the samples before scaling; where ``by_group``, the weight itself (no one scale)."""
        return np.asarray(weight) / self.scale_ if self.with_std and not self.by_group else np.asarray(weight)

    def _averaged_axes(self, order: int) -> tuple[int, ...]:
        """Return the axes of X over which statistics are taken."""
        if self.per == "entry":
            return (0,)
        if self.per == "global":
            return tuple(range(order + 1))
        kept = (self.per,) if isinstance(self.per, int | np.integer) else self.per
        if not isinstance(kept, tuple) or not all(
            isinstance(mode, int | np.integer) and 0 <= mode < order for mode in kept
        ):
            raise ValueError(
                f'per must be "entry", "global", or modes from 0 to {order - 1} of these samples; got per={self.per!r}'
            )
        return (0, *(mode + 1 for mode in range(order) if mode not in kept))

    def _need(self, groups: Array | None) -> Array:
        if groups is None:
            raise ValueError(
                "by_group=True needs groups, one for each sample: pass groups= to fit and transform (in a pipeline, "
                "with scikit-learn's enable_metadata_routing), or by_group=False"
            )
        return groups


def _mean_and_scale(X: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Return means and standard deviations in float64, kept to broadcast against a sample, in two passes.

    The second pass also finds by how much rounding has moved the mean: a sum over thousands of samples is off by enough
    to give a constant a deviation.
    """
    count = np.prod([X.shape[axis] for axis in axes])
    mean = sum(np.sum(part, axis=axes, keepdims=True, dtype=np.float64) for part in _chunks(X)) / count
    squares: Any = 0.0
    drift: Any = 0.0
    for part in _chunks(X):
        centred = part - mean
        drift = drift + np.sum(centred, axis=axes, keepdims=True)
        squares = squares + np.sum(np.square(centred, out=centred), axis=axes, keepdims=True)
    drift = drift / count
    deviation = np.sqrt(np.maximum(squares / count - drift**2, 0.0))
    mean = mean + drift
    # What is left of a constant is rounding, not signal.
    resolution = 10 * np.finfo(working_dtype(X.dtype)).eps
    constant = deviation <= resolution * np.abs(mean)
    return mean[0], np.where(constant, 1.0, deviation)[0]


def _chunks(X: Array) -> Iterator[Array]:
    """Yield runs of samples, so that no float64 copy of them all is made."""
    step = max(1, _CHUNK_ENTRIES // max(1, X[0].size))
    for begin in range(0, len(X), step):
        yield X[begin : begin + step]
