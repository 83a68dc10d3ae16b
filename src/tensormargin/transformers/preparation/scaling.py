"""Centring and scaling of tensors: per entry, along modes, or globally."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...data import NO_METADATA, Metadata, fitted
from ...runtime import Array, as_array, as_like, cast, device_of, like, namespace
from ._base import CanBeUndone, needed_groups, wrong_mode
from ._passes import by_chunk, chunked, floating, mapped, parts, reduced, statistics, widest


@fitted.attributes(mean_=fitted.floats(...) | None, scale_=fitted.floats(..., low=fitted.POSITIVE) | None)
@dataclass(eq=False, repr=False)
class TensorScaler(CanBeUndone):
    """Subtract means and divide by standard deviations, learned from the training samples.

    Parameters
    ----------
    per : "entry", "global", int, str or tuple of them, default="entry"
        What has its own mean and standard deviation: every entry of a sample, the samples as a whole, or every index of
        one or several modes (counted from 0; for channels x time, ``per=0`` means each channel). Modes can be given by
        name if the samples have names (``per="channel"``).
    with_mean, with_std : bool, default=True
        Whether to centre, and whether to scale.
    by_group : bool, default=False
        Whether to scale every group (fMRI run, session, subject) separately, with its own means and deviations; pass
        ``groups`` to ``fit`` and ``transform``. No information then leaks between groups, and a new group needs only
        enough samples of its own. In a pipeline, groups are passed by scikit-learn's metadata routing.

    Attributes
    ----------
    mean_, scale_ : array
        Broadcast against a sample; constant entries have the scale 1. None if ``by_group``. In the library and on the
        device of the training samples (NumPy for a Dask array of NumPy arrays).

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import TensorScaler
    >>> X = np.random.default_rng(0).normal(3.0, 2.0, (50, 6, 100))
    >>> TensorScaler(per=0).fit(X).mean_.shape
    (6, 1)
    """

    per: str | int | tuple[int | str, ...] = "entry"
    with_mean: bool = True
    with_std: bool = True
    by_group: bool = False

    _mode_parameters: ClassVar[tuple[str, ...]] = ("per",)

    def _learn(self, X: Any, metadata: Metadata) -> None:
        axes = self._averaged_axes(X.ndim - 1)
        if self.by_group:
            self._codes(metadata.groups)
            self.mean_: Any = None
            self.scale_: Any = None
        else:
            spread = reduced(X, partial(_spread, axes=axes), _joined)
            self.mean_, self.scale_ = _mean_and_scale(spread, floating(X))

    def _fits(self) -> dict[str, Any]:
        fits, shape = super()._fits(), self.sample_shape_in_
        for name in ("mean_", "scale_"):
            value = getattr(self, name)
            sizes = [] if value is None else zip(value.shape[::-1], shape[::-1], strict=False)
            along = value is not None and value.ndim <= len(shape) and all(n in (1, size) for n, size in sizes)
            fits[name] = value is None if self.by_group else along
        return fits

    def _change(self, X: Any, metadata: Metadata = NO_METADATA) -> Any:
        if not self.by_group:
            return self._standardise(X, self.mean_, self.scale_)
        codes = self._codes(metadata.groups)
        return self._standardise_by_group(X, codes, self._spreads(X, codes))

    def _change_lazily(self, X: Any, metadata: Metadata) -> Any:
        if not self.by_group:
            return super()._change_lazily(X, metadata)
        from dask.graph_manipulation import clone

        codes = self._codes(metadata.groups)
        spreads = self._spreads(clone(X), codes)  # shared chunks would stay in memory until all are read
        return mapped(
            X, self._snapshot()._standardise_by_group, chunked(codes, X), by_chunk(X, codes, spreads), dtype=floating(X)
        )

    def _spreads(self, X: Any, codes: Array) -> dict[int, Any]:
        return statistics(X, partial(_spread, axes=self._averaged_axes(X.ndim - 1)), _joined, codes)

    def _codes(self, groups: Array | None) -> Array:
        needed = needed_groups(groups, "by_group=True needs groups, one for each sample", "by_group=False")
        return np.unique(needed, return_inverse=True)[1]

    def _standardise(self, X: Any, mean: Any, scale: Any) -> Any:
        dtype = floating(X)
        out = cast(X, dtype, copy=True)  # the only copy
        if self.with_mean:
            out -= as_like(mean, X, dtype)
        if self.with_std:
            out /= as_like(scale, X, dtype)
        return out

    def _standardise_by_group(self, X: Any, codes: Array, spreads: Mapping[int, Spread]) -> Any:
        xp, dtype = namespace(X), floating(X)
        out = xp.empty(X.shape, dtype=getattr(xp, dtype.name), device=device_of(X))
        learned = {code: _mean_and_scale(spread, dtype) for code, spread in spreads.items()}
        for where in parts(X):
            present, positions = np.unique(codes[where], return_inverse=True)
            mean, scale = (
                xp.take(xp.stack([learned[int(code)][which] for code in present]), like(positions, X), axis=0)
                for which in (0, 1)
            )
            out[where, ...] = self._standardise(X[where, ...], mean, scale)
        return out

    @property
    def needed_metadata(self) -> set[str]:
        """Groups if the scaling is by group."""
        return {"groups"} if self.by_group else set()

    def inverse_transform(self, X: Any) -> Array:
        if self.by_group:
            raise ValueError("scaling by group has no one inverse: every group was scaled by numbers of its own")
        return super().inverse_transform(X)

    def _undo(self, X: Any) -> Any:
        dtype = floating(X)
        out = cast(X, dtype, copy=True)
        if self.with_std:
            out *= as_like(self.scale_, X, dtype)
        if self.with_mean:
            out += as_like(self.mean_, X, dtype)
        return out

    def pull_back(self, weight: Any) -> Array:
        """Return the weight on the original samples; unchanged if ``by_group``, which has no common scale."""
        weight = as_array(weight)
        return weight / as_like(self.scale_, weight) if self.with_std and not self.by_group else weight

    def words(self) -> str:
        options = (("centred", self.with_mean), ("scaled to unit variance", self.with_std))
        done = " and ".join(word for word, wanted in options if wanted)
        whence = "within each group by itself" if self.by_group else "by statistics of the training samples"
        return f"{self._scaled()} {done} {whence}" if done else "samples were left as they are"

    def brief(self) -> str:
        if not (self.with_mean or self.with_std):
            return self.words()
        per = {"entry": "per entry", "global": "as a whole"}.get(str(self.per), f"per index of {self._modes()}")
        return f"{'scaled' if self.with_std else 'centred'} {'within groups' if self.by_group else per}"

    def _numbered(self, value: Any, axes: Any, name: str) -> Any:
        return value if value in ("entry", "global") else super()._numbered(value, axes, name)

    def _scaled(self) -> str:
        """Return a description of ``per``, with modes counted from 1."""
        if self.per == "global":
            return "samples were, as a whole,"
        if self.per == "entry":
            return "every entry was"
        return f"every index of {self._modes()} was"

    def _modes(self) -> str:
        modes: Any = self.per if isinstance(self.per, tuple) else (self.per,)
        which = " and ".join(mode if isinstance(mode, str) else str(int(mode) + 1) for mode in modes)
        return f"{'mode' if len(modes) == 1 else 'modes'} {which}"

    def _averaged_axes(self, order: int) -> tuple[int, ...]:
        """Return the axes of X over which statistics are computed."""
        if self.per == "entry":
            return (0,)
        if self.per == "global":
            return tuple(range(order + 1))
        kept: Any = self.per if isinstance(self.per, tuple) else (self.per,)
        try:
            kept = tuple(self._mode(mode, order, "per") if isinstance(mode, str) else mode for mode in kept)
            wrong = "" if all(isinstance(mode, int | np.integer) and 0 <= mode < order for mode in kept) else "."
        except ValueError as error:
            wrong = f" ({error})"
        if wrong:
            rule = f'per must be "entry", "global", or modes from 0 to {order - 1} of these samples'
            raise wrong_mode(f"{rule}; got per={self.per!r}{wrong.strip('.')}", self.per, order)
        return (0, *(mode + 1 for mode in range(order) if mode not in kept))


class Spread(NamedTuple):
    """Number of averaged values, their mean, and their sum of squared deviations; reduced axes are kept."""

    number: int
    mean: Any
    squares: Any


def _spread(part: Any, axes: tuple[int, ...]) -> Spread:
    """Return the spread of some samples, in two passes.

    The second pass also corrects the rounding error of the mean, which for thousands of samples would be large enough
    to give a constant a deviation.
    """
    xp = namespace(part)
    number = prod(part.shape[axis] for axis in axes)
    part = cast(part, widest(part))
    mean = xp.mean(part, axis=axes, keepdims=True)
    centred = part - mean
    drift = xp.mean(centred, axis=axes, keepdims=True)
    centred *= centred
    return Spread(number, mean + drift, xp.sum(centred, axis=axes, keepdims=True) - number * drift**2)


def _joined(one: Spread, other: Spread) -> Spread:
    """Return the spread of both together, without cancellation (Chan, Golub and LeVeque 1983)."""
    number = one.number + other.number
    apart = other.mean - one.mean
    mean = one.mean + apart * (other.number / number)
    squares = one.squares + other.squares + apart * apart * (one.number * other.number / number)
    return Spread(number, mean, squares)


def _mean_and_scale(spread: Spread, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return means and standard deviations that broadcast against a sample."""
    mean, variance = spread.mean[0, ...], spread.squares[0, ...] / spread.number
    xp = namespace(mean)
    deviation = xp.sqrt(xp.where(variance > 0, variance, xp.zeros_like(variance)))
    # A tiny deviation of a constant is rounding, not signal.
    constant = deviation <= 10 * float(np.finfo(dtype).eps) * xp.abs(mean)
    return mean, xp.where(constant, xp.ones_like(deviation), deviation)
