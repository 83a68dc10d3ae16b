"""Counts of the winners among competing convolutions along time, as a tensor."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ...data import NO_METADATA, Axes, Axis, Metadata, fitted
from ...runtime import Array, FloatArray, as_like, like, to_host
from ..preparation._base import checked_count
from ..preparation.scaling import TensorScaler
from ._loops import LENGTH, winners
from .base import Representation, as_double, shared
from .convolutions import CHANNELS, PADDING, channels_fit, describe_mode, mode_to_convolve, random_channels, series_of


@fitted.attributes(
    _axis=fitted.whole(1, "sample_shape_in_"),
    scale_=fitted.number(fitted.POSITIVE),
    kernels_=fitted.floats(2, None, None, LENGTH),
    dilations_=fitted.wholes(None, low=1),
    padding_=PADDING,
    **CHANNELS,
)
@dataclass(eq=False, repr=False)
class CompetingConvolutions(Representation):
    """Replace time by how often each of several convolutions wins: signal x group x dilation x kernel x count.

    The features of Hydra (Dempster, Schmidt and Webb 2023) with modes that a low-rank weight can use. Samples and their
    differences are convolved with groups of random kernels of 9 entries, at dilations of powers of two. At each point
    of time the kernel with the largest result wins, and the largest results of each kernel are added up; the kernel
    with the smallest one is counted. Features are the square roots of both, per point of time.

    Parameters
    ----------
    n_groups : int, default=64
        Number of groups of kernels, half of them for the samples and half for their differences.
    n_kernels : int, default=8
        Number of kernels that compete in each group.
    mode : int or str, default=-1
        The mode of time, counted from 0 (negative numbers count from the last), or its name. It needs at least 9
        entries.
    random_state : int, RandomState or None, default=0
        Draws the kernels, and one to nine channels per group and dilation, which are added up.
    vectorize : bool, default=False
        Return the features as vectors, for a flat weight.

    Attributes
    ----------
    dilations_ : ndarray of shape (n_dilations,)
    kernels_ : ndarray of shape (2, n_groups // 2, n_kernels, 9)
        The same for all dilations; their entries add up to zero, and their absolute values to one.
    scale_ : float
        Standard deviation of the training samples, which samples are divided by.
    padding_ : str
        As in `Convolutions`.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import CompetingConvolutions
    >>> X = np.random.default_rng(0).normal(size=(10, 6, 100))
    >>> CompetingConvolutions(16).fit_transform(X).shape
    (10, 2, 8, 4, 8, 2)
    """

    n_groups: int = 64
    n_kernels: int = 8
    mode: int | str = -1
    random_state: int | np.random.RandomState | None = 0
    vectorize: bool = False

    makes_features = True

    def _learn(self, X: Any, metadata: Metadata) -> None:
        mode, size = mode_to_convolve(self, X)
        self._axis, self.padding_ = mode + 1, "mean"
        groups = checked_count(self.n_groups, "n_groups", 2) // 2
        rng = check_random_state(self.random_state)
        kernels = rng.standard_normal((2, groups, checked_count(self.n_kernels, "n_kernels", 2), LENGTH))
        kernels -= kernels.mean(axis=-1, keepdims=True)
        kernels /= np.abs(kernels).sum(axis=-1, keepdims=True)
        dilations = 2 ** np.arange(int(np.log2((size - 1) / (LENGTH - 1))) + 1)
        n_channels = prod(int(one) for one in X.shape[1:]) // size
        starts, channels = random_channels(n_channels, 2 * groups * len(dilations), 1, rng)
        self.scale_ = float(to_host(TensorScaler("global").fit(X).scale_).item())
        self.kernels_, self.dilations_ = as_like(kernels, X), as_like(dilations, X)
        self._starts, self._channels = as_like(starts, X), as_like(channels, X)

    def _shape_out(self) -> tuple[int, ...]:
        signals, groups, kernels, _ = self.kernels_.shape
        modes = (signals, groups, self.dilations_.shape[0], kernels, 2)
        return (prod(modes),) if self.vectorize else modes

    def _fits(self) -> dict[str, Any]:
        return {**super()._fits(), **channels_fit(self, 2 * self.kernels_.shape[1] * self.dilations_.shape[0])}

    @property
    def _unit(self) -> float:
        """What samples are divided by to fit single precision: 1 for almost all of them."""
        return float(2.0 ** (64 * round(float(np.log2(self.scale_)) / 64)))

    def _change(self, X: Any, metadata: Metadata = NO_METADATA) -> Any:
        # The scale changes no winners, so that all splits of a search share the counts without it.
        ignored = ("scale_",) if self._unit == 1.0 else ()
        counts = shared.rows(self, X, self._represent_all, ignored)
        both = np.array([(self._unit / self.scale_) ** 0.5, 1.0], counts.dtype)
        scaled = counts.reshape(len(counts), prod(self.sample_shape_out_) // 2, 2) * both
        return like(scaled.reshape(counts.shape), X)

    def _represent(self, part: FloatArray) -> Array:
        series = series_of(self, part / self._unit)
        kernels, dilations = as_double(self.kernels_).astype(np.float32), to_host(self.dilations_)
        found = winners(series, kernels, dilations, to_host(self._starts), to_host(self._channels))
        return np.sqrt(np.maximum(found, 0) / series.shape[-1]).reshape(len(part), *self.sample_shape_out_)

    def _axes_out(self, axes: Axes) -> Axes:
        if self.vectorize:
            return (Axis("feature"),)
        dilation = Axis("dilation", "", to_host(self.dilations_).astype(np.float64))
        signal, count = Axis("signal", "", ["samples", "differences"]), Axis("count", "", ["largest", "smallest"])
        return (signal, Axis("group"), dilation, Axis("kernel"), count)

    def words(self) -> str:
        groups = f"{self.n_groups} groups of {self.n_kernels} random convolutions each"
        return f"{describe_mode(self)} was replaced by counts of the winners of {groups}"

    def brief(self) -> str:
        return "competing convolutions" + ("" if self.mode == -1 else f" along {describe_mode(self)}")
