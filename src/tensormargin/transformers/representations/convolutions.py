"""Features of convolutions along time, as a tensor."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ...data import NOT_FINITE, Axes, Axis, Metadata, fitted
from ...runtime import Array, FloatArray, as_like, computed, is_lazy, rows_of, to_host
from ..preparation._base import checked_choice, checked_count
from ._loops import LENGTH, Loops, convolutions, proportions
from .base import Representation, as_double

_GOLDEN = (np.sqrt(5) + 1) / 2
_LOOKED_AT = 256  # training samples whose convolutions give the biases
CHANNELS = dict.fromkeys(("_starts", "_channels"), fitted.wholes(None, low=0))
"""The channels of each place, one after the other, and where they start; see `channels_fit`."""
PADDING = fitted.one_of("mean") | fitted.ABSENT
"""With what samples continue beyond their ends; absent in models of 0.2, which continue them with zeros."""


@fitted.attributes(
    _axis=fitted.whole(1, "sample_shape_in_"),
    _unit=fitted.number(fitted.POSITIVE),
    kernels_=fitted.floats(84, LENGTH),
    dilations_=fitted.wholes(None, low=1),
    biases_=fitted.floats(None, None),
    padding_=PADDING,
    **CHANNELS,
)
@dataclass(eq=False, repr=False)
class Convolutions(Representation):
    """Replace time by how often convolutions exceed thresholds: (channel x) kernel x dilation x threshold.

    The features of MiniRocket (Dempster, Schmidt and Webb 2021) for short series, with a shape of their own, so that a
    low-rank weight can use it. Samples are convolved with 84 kernels of 9 entries at several dilations; a feature is
    the proportion of a convolution above a threshold, a quantile of the same convolution of a training sample.

    Parameters
    ----------
    n_features : int, default=10000
        Approximate number of features, at least one for each kernel and channel (or combination of channels).
    channels : {"combine", "each"} or int, default="combine"
        "combine" adds the convolutions of random channels, others for each kernel and dilation, as MiniRocket does. A
        number of combinations is the same for all kernels and dilations, and makes a mode of its own in front. "each"
        convolves every channel by itself, and keeps the modes beside time.
    kernels : {"fixed", "random"}, default="fixed"
        "fixed" are all kernels with six entries of -1 and three of 2; "random" as many with normally distributed
        entries of mean zero.
    n_dilations : int, default=16
        Maximum number of dilations, log-spaced such that a kernel is no longer than a sample. For short samples the
        first ones are repeated, with other channels ("combine") and thresholds.
    mode : int or str, default=-1
        The mode of time, counted from 0 (negative numbers count from the last), or its name. It needs at least 9
        entries.
    random_state : int, RandomState or None, default=0
        Chooses channels, and the training samples that thresholds come from.
    vectorize : bool, default=False
        Return the features as vectors, for a flat weight.

    Attributes
    ----------
    dilations_ : ndarray of shape (n_dilations,)
    kernels_ : ndarray of shape (84, 9)
    biases_ : ndarray of shape (n_combinations * 84 * n_dilations, n_thresholds)
        The thresholds.
    padding_ : str
        "mean": beyond its ends, a sample continues with the mean of each channel, so that adding a constant to it
        changes nothing. Models of version 0.2 have no such attribute, and samples continue with zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import Convolutions
    >>> X = np.random.default_rng(0).normal(size=(10, 6, 100))
    >>> Convolutions(5000).fit_transform(X).shape
    (10, 84, 16, 3)
    >>> Convolutions(5000, channels="each").fit_transform(X).shape
    (10, 6, 84, 9, 1)
    """

    n_features: int = 10_000
    channels: str | int = "combine"
    kernels: str = "fixed"
    n_dilations: int = 16
    mode: int | str = -1
    random_state: int | np.random.RandomState | None = 0
    vectorize: bool = False

    makes_features = True

    def _learn(self, X: Any, metadata: Metadata) -> None:
        mode, size = mode_to_convolve(self, X)
        checked_choice(self.kernels, "kernels", ("fixed", "random"))
        others = tuple(int(one) for one in X.shape[1:])
        others = others[:mode] + others[mode + 1 :]
        n_combinations = prod(self._combinations(others))
        rng = check_random_state(self.random_state)
        self._axis, self.padding_ = mode + 1, "mean"
        if self.kernels == "fixed":
            self.kernels_ = _fixed_kernels()
        else:
            random = rng.standard_normal((84, LENGTH))
            self.kernels_ = random - random.mean(axis=1, keepdims=True)
        most = max(1, checked_count(self.n_features, "n_features") // (n_combinations * len(self.kernels_)))
        largest = np.log2((size - 1) / (LENGTH - 1))  # with which a kernel is no longer than a sample
        count = min(most, checked_count(self.n_dilations, "n_dilations"))
        self.dilations_ = np.logspace(0, largest, count, base=2).astype(np.int64)
        shape = len(self.kernels_), len(self.dilations_)
        thresholds = max(1, most // shape[1])
        self._starts, self._channels = self._chosen_channels(prod(others), n_combinations, rng)
        self.biases_ = as_like(self._learned_biases(X, thresholds, rng), X)
        for name in ("kernels_", "dilations_", "_starts", "_channels"):
            setattr(self, name, as_like(getattr(self, name), X))

    def _shape_out(self) -> tuple[int, ...]:
        shape, mode = self.sample_shape_in_, self._axis - 1
        in_front = self._combinations((*shape[:mode], *shape[mode + 1 :]))
        modes = (*in_front, self.kernels_.shape[0], self.dilations_.shape[0], self.biases_.shape[1])
        return (prod(modes),) if self.vectorize else modes

    def _fits(self) -> dict[str, Any]:
        places, thresholds = self.biases_.shape
        return {
            **super()._fits(),
            **channels_fit(self, places),
            "biases_": prod(self._shape_out()) == places * thresholds,
        }

    def _combinations(self, others: tuple[int, ...]) -> tuple[int, ...]:
        """Return the modes that combinations of channels make."""
        if self.channels == "combine":
            return ()
        if self.channels == "each":
            return others
        if isinstance(self.channels, str):
            raise ValueError(f'channels must be "combine", "each" or a whole number; got channels={self.channels!r}')
        return (checked_count(self.channels, "channels"),)

    def _chosen_channels(self, n_channels: int, n_combinations: int, rng: np.random.RandomState) -> tuple[Array, Array]:
        """Return the channels of each combination, kernel and dilation one after the other, and where they start."""
        repeats = len(self.kernels_) * len(self.dilations_)
        if self.channels == "each":
            return np.arange(n_channels * repeats + 1), np.repeat(np.arange(n_channels), repeats)
        if self.channels == "combine":
            return random_channels(n_channels, repeats, 1, rng)
        return random_channels(n_channels, n_combinations, repeats, rng)

    def _learned_biases(self, X: Any, thresholds: int, rng: np.random.RandomState) -> FloatArray:
        """Return quantiles of the convolutions of random training samples."""
        n_samples = int(X.shape[0])
        some = np.sort(rng.choice(n_samples, min(_LOOKED_AT, n_samples), replace=False))
        samples = rows_of(X, some)
        samples = as_double(computed(samples)[0] if is_lazy(samples) else samples)
        if not np.all(np.isfinite(samples)):  # nobody has looked into a Dask array yet
            raise ValueError(NOT_FINITE)
        self._unit = 2.0 ** -float(np.frexp(np.abs(samples).max())[1])
        samples = self._series(samples)
        rows = rng.randint(len(samples), size=len(self._starts) - 1)
        return (
            _quantiles(np.sort(convolutions(samples, rows, self._loops()), axis=1).astype(np.float64), thresholds)
            / self._unit
        )

    def _loops(self) -> Loops:
        background, taps, values = _taps(as_double(self.kernels_))
        dilations, starts, channels = (to_host(one) for one in (self.dilations_, self._starts, self._channels))
        return Loops(background, taps, values, dilations, starts, channels)

    def _series(self, part: FloatArray) -> Array:
        """Return samples in a unit in which float32 neither over- nor underflows; a power of two rounds nothing."""
        return series_of(self, self._unit * part)

    def _represent(self, part: FloatArray) -> Array:
        biases = (self._unit * as_double(self.biases_)).astype(np.float32)
        return proportions(self._series(part), self._loops(), biases).reshape(len(part), *self.sample_shape_out_)

    def _axes_out(self, axes: Axes) -> Axes:
        if self.vectorize:
            return (Axis("feature"),)
        others = (*axes[: self._axis - 1], *axes[self._axis :])
        in_front = others if self.channels == "each" else () if self.channels == "combine" else (Axis("combination"),)
        dilation = Axis("dilation", "", to_host(self.dilations_).astype(np.float64))
        return (*in_front, Axis("kernel"), dilation, Axis("threshold"))

    def words(self) -> str:
        count = prod(self.sample_shape_out_) if hasattr(self, "sample_shape_out_") else f"about {self.n_features}"
        how = {"combine": "random combinations of channels", "each": "each channel"}
        whose = how.get(str(self.channels), f"{self.channels} random combinations of channels")
        features = f"{count} features of convolutions with {self.kernels} kernels of {whose}"
        return f"{describe_mode(self)} was replaced by {features}"

    def brief(self) -> str:
        return "convolutions" if self.mode == -1 else f"convolutions along {describe_mode(self)}"


def describe_mode(transformer: Any) -> str:
    """Return a transformer's ``mode``, counted from 1 or, if the number of modes is not known, from the last one."""
    mode = transformer.mode
    if isinstance(mode, str):
        return mode
    number = transformer._axis if hasattr(transformer, "_axis") else mode + 1
    return f"mode {number}" if number > 0 else "the last mode" if number == 0 else f"mode {-mode} from the end"


def mode_to_convolve(transformer: Any, X: Any) -> tuple[int, int]:
    """Return the number and size of a transformer's ``mode``; raise ValueError if it is shorter than a kernel."""
    mode = transformer._mode(transformer.mode, X.ndim - 1)
    size = int(X.shape[mode + 1])
    if size < LENGTH:
        raise ValueError(
            f"convolutions need at least {LENGTH} entries along mode={transformer.mode}; got n_features = {size}. "
            "Resize the samples, or use EqualLength"
        )
    return mode, size


def series_of(transformer: Any, samples: FloatArray) -> Array:
    """Return samples as channels x time, contiguous and in single precision; zeros around them are their padding."""
    moved = np.moveaxis(samples, transformer._axis, -1)
    series = np.ascontiguousarray(moved.reshape(len(samples), -1, moved.shape[-1]))
    if hasattr(transformer, "padding_"):
        series = series - series.mean(axis=-1, keepdims=True)  # kernels add up to zero: only the padding sees it
    return series.astype(np.float32)


def channels_fit(transformer: Any, n_places: int) -> dict[str, Any]:
    """Return whether the places of a fitted transformer have channels of the samples, and dilations no longer."""
    shape, starts, channels = transformer.sample_shape_in_, transformer._starts, transformer._channels
    size = shape[transformer._axis - 1]
    ends = starts[0] == 0 and starts[-1] == len(channels) and len(starts) == n_places + 1
    return {
        "_starts": ends and (starts[1:] > starts[:-1]).all(),
        "_channels": channels.max() < prod(shape) // size,
        "dilations_": size >= LENGTH and (transformer.dilations_ <= (size - 1) // (LENGTH - 1)).all(),
    }


def random_channels(n_channels: int, times: int, repeats: int, rng: np.random.RandomState) -> tuple[Array, Array]:
    """Return where random combinations of channels start in one list, and the list; each is repeated.

    They have one to nine channels, few more likely than many, in random order.
    """
    numbers = (2 ** rng.uniform(0, np.log2(min(n_channels, LENGTH) + 1), size=times)).astype(np.int64)
    numbers, ordered = np.minimum(numbers, n_channels), np.argsort(rng.uniform(size=(times, n_channels)), axis=1)
    numbers, ordered = np.repeat(numbers, repeats), np.repeat(ordered, repeats, axis=0)
    chosen = ordered[np.arange(ordered.shape[1]) < numbers[:, None]]
    return np.concatenate([[0], np.cumsum(numbers)]), chosen.astype(np.int64)


def _fixed_kernels() -> FloatArray:
    """Return all kernels with three entries of 2 and six of -1, which add up to zero."""
    places = np.array(list(combinations(range(LENGTH), 3)))
    kernels = np.full((len(places), LENGTH), -1.0)
    kernels[np.arange(len(places))[:, None], places] = 2.0
    return kernels


def _taps(kernels: FloatArray) -> tuple[float, Array, Array]:
    """Return the value that most entries of the kernels have, where others differ from it, and by how much.

    Kernels of any values have all their entries listed, and none in common.
    """
    fixed = bool(np.all(np.sum(kernels == -1.0, axis=1) == LENGTH - 3))
    background = -1.0 if fixed else 0.0
    taps = np.argwhere(kernels != background)[:, 1].reshape(len(kernels), -1) if fixed else None
    taps = np.tile(np.arange(LENGTH), (len(kernels), 1)) if taps is None else taps
    values = np.take_along_axis(kernels, taps, axis=1) - background
    return background, taps, values.astype(np.float32)


def _quantiles(rows: FloatArray, number: int) -> FloatArray:
    """Return quantiles of sorted rows, other ones for each row: multiples of the golden ratio modulo 1."""
    shares = (np.arange(1, len(rows) * number + 1) * _GOLDEN % 1).reshape(len(rows), number)
    places = shares * (rows.shape[1] - 1)
    below = np.floor(places).astype(int)
    low, high = (np.take_along_axis(rows, np.minimum(one, rows.shape[1] - 1), axis=1) for one in (below, below + 1))
    return low + (places - below) * (high - low)
