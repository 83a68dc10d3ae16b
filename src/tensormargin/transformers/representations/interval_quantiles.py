"""Quantiles over dyadic intervals of series, their differences and their spectrum, as a tensor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...data import Axes, Axis, Metadata, fitted
from ...runtime import Array, FloatArray, as_like, to_host
from ..preparation._base import checked_count
from .base import Representation
from .convolutions import describe_mode

_SIGNALS = ("samples", "differences", "second differences", "spectrum")
_SHORTEST = 4  # entries of the shortest intervals: fewer are the samples themselves


@fitted.attributes(_axis=fitted.whole(1, "sample_shape_in_"), intervals_=fitted.floats(None, 2, low=0, high=1))
@dataclass(eq=False, repr=False)
class IntervalQuantiles(Representation):
    """Replace time by quantiles over intervals: (channel x) signal x interval x quantile.

    The features of QUANT (Dempster, Schmidt and Webb 2024) with modes that a low-rank weight can use: of the samples,
    their first and second differences and the magnitudes of their Fourier transform, quantiles over the whole, its
    halves, quarters and so on, and over the intervals half-way between these. The mean of the interval is subtracted
    from every second quantile. All intervals have the same number of quantiles, where QUANT takes more of longer ones.

    Parameters
    ----------
    n_features : int, default=10000
        Maximum number of features, unless a single interval has more: there are fewer and longer intervals if the
        samples have many channels.
    n_quantiles : int, default=8
        Number of quantiles per interval, from the smallest entry to the largest one, in equal steps.
    depth : int, default=6
        Maximum number of times that the series is halved, plus one; intervals have at least four entries.
    mode : int or str, default=-1
        The mode of time, counted from 0 (negative numbers count from the last), or its name. It needs at least 3
        entries.
    vectorize : bool, default=False
        Return the features as vectors, for a flat weight.

    Attributes
    ----------
    intervals_ : ndarray of shape (n_intervals, 2)
        Where each interval starts and ends, as shares of the length.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import IntervalQuantiles
    >>> X = np.random.default_rng(0).normal(size=(10, 3, 100))
    >>> IntervalQuantiles().fit_transform(X).shape
    (10, 3, 4, 57, 8)
    >>> IntervalQuantiles(depth=2, n_quantiles=5, vectorize=True).fit_transform(X).shape
    (10, 240)
    """

    n_features: int = 10_000
    n_quantiles: int = 8
    depth: int = 6
    mode: int | str = -1
    vectorize: bool = False

    def _learn(self, X: Any, metadata: Metadata) -> None:
        mode = self._mode(self.mode, X.ndim - 1)
        size, sizes = int(X.shape[mode + 1]), [int(one) for one in X.shape[1:]]
        if size < 3:
            raise ValueError(
                f"second differences need at least 3 entries along mode={self.mode}; got n_features = {size}"
            )
        self._axis = mode + 1
        one = prod(sizes) // size * len(_SIGNALS) * checked_count(self.n_quantiles, "n_quantiles", 2)
        most = checked_count(self.n_features, "n_features") // one
        depths = range(2, checked_count(self.depth, "depth") + 1)
        fitting = [depth for depth in depths if size >> (depth - 1) >= _SHORTEST and len(_dyadic(depth)) <= most]
        intervals = _dyadic(max(fitting, default=1))
        self.intervals_ = as_like(intervals, X)

    def _shape_out(self) -> tuple[int, ...]:
        shape, mode = self.sample_shape_in_, self._axis - 1
        modes = (*shape[:mode], *shape[mode + 1 :], len(_SIGNALS), self.intervals_.shape[0], int(self.n_quantiles))
        return (prod(modes),) if self.vectorize else modes

    def _fits(self) -> dict[str, Any]:
        number = len(self.intervals_)
        depth = next((depth for depth in range(1, 21) if 2 * (2**depth - 1) - depth >= number), 1)
        return {**super()._fits(), "intervals_": np.array_equal(self.intervals_, _dyadic(depth))}

    def _represent(self, part: FloatArray) -> Array:
        series = np.moveaxis(part, self._axis, -1)
        intervals, n_quantiles = to_host(self.intervals_), int(self.n_quantiles)
        found = np.empty((*series.shape[:-1], len(_SIGNALS), len(intervals), n_quantiles))
        for place, signal in enumerate(_signals(series)):
            ends = np.rint(intervals * signal.shape[-1]).astype(int)
            for which, (start, end) in enumerate(ends.tolist()):
                inside = np.sort(signal[..., start : max(end, start + 1)], axis=-1)
                own = found[..., place, which, :]
                own[...] = _quantiles(inside, n_quantiles)
                own[..., 1::2] -= inside.mean(axis=-1, keepdims=True)
        return found.reshape(len(part), *self.sample_shape_out_)

    def _axes_out(self, axes: Axes) -> Axes:
        if self.vectorize:
            return (Axis("feature"),)
        mode = self._axis - 1
        shares = np.linspace(0, 1, int(self.n_quantiles))
        last = Axis("signal", "", list(_SIGNALS)), Axis("interval"), Axis("quantile", "", shares)
        return (*axes[:mode], *axes[mode + 1 :], *last)

    def words(self) -> str:
        count = f"{self.intervals_.shape[0]} " if hasattr(self, "intervals_") else ""
        quantiles = (
            f"{self.n_quantiles} quantiles over {count}intervals of the samples, their first and second differences"
        )
        return f"{describe_mode(self)} was replaced by {quantiles} and their spectrum"

    def brief(self) -> str:
        return "quantiles over intervals"


def _dyadic(depth: int) -> FloatArray:
    """Return the intervals of all depths as shares of the whole, those of one depth followed by those between them."""
    found = []
    for parts in 2 ** np.arange(depth):
        starts = np.concatenate([np.arange(parts), np.arange(parts - 1) + 0.5])
        found.append(np.column_stack([starts, starts + 1]) / parts)
    return np.concatenate(found)


def _signals(series: FloatArray) -> Iterator[FloatArray]:
    """Yield series, their first and second differences, and the magnitudes of their spectrum."""
    yield series
    yield np.diff(series)
    yield np.diff(series, 2)
    yield np.abs(np.fft.rfft(series))


def _quantiles(rows: FloatArray, number: int) -> FloatArray:
    """Return the smallest to the largest entry of sorted rows, in equal steps, interpolated."""
    places = np.linspace(0, rows.shape[-1] - 1, number)
    below = np.minimum(places.astype(int), max(rows.shape[-1] - 2, 0))
    above = np.minimum(below + 1, rows.shape[-1] - 1)
    return rows[..., below] + (places - below) * (rows[..., above] - rows[..., below])
