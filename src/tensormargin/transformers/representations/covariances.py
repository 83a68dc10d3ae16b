"""Covariances of channels, in the log-Euclidean metric or in the tangent space of their mean."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...data import Axes, Axis, Metadata
from ...runtime import Array, FloatArray, as_like, to_host
from ..preparation._base import checked_choice
from ..preparation._passes import added, reduced
from .band_power import Band, band_axis, checked_bands
from .base import Representation, as_double
from .symmetric import check_shrinkage, logarithms, of_eigenvalues, riemannian_mean, shrunk, tangent_vectors, triangle

_FLOOR = 1e-10  # of the mean variance of the training samples: silent channels have no logarithm
_ORDER = 4  # of the band-pass filter


class Covariances(Representation):
    """Replace samples by the covariance of their channels: channel x channel (x band).

    Second-order structure between channels, which does not depend on the phase of signals. A low-rank weight on such
    matrices is a sum of a few spatial patterns.

    Parameters
    ----------
    mode : int or str, default=0
        The mode of the channels, counted from 0 (negative numbers count from the last), or its name. Covariances are
        over all indices of the other modes.
    metric : {"log", "tangent", "none"}, default="log"
        "log" takes matrix logarithms (log-Euclidean metric; Arsigny et al. 2006), "tangent" maps to the tangent space
        of the training samples' Riemannian mean M, ``log(M^(-1/2) C M^(-1/2))`` (Barachant et al. 2012), "none" keeps
        the covariances.
    shrinkage : {"oas", "ledoit-wolf"} or float, default="oas"
        How the covariance of each sample is shrunk towards a multiple of the identity; needed as soon as there are not
        far more time points than channels.
    bands : "eeg", sequence or mapping, optional
        Frequency bands as in `BandPower`, but not a number: signals are filtered to each of them first (Butterworth
        filters without a shift in phase), and bands become the last mode.
    sfreq : float, optional
        Sampling frequency in Hz, needed for bands.
    time : int or str, default=-1
        The mode of time, which bands are filtered along.
    vectorize : bool, default=False
        Whether to return upper triangles as vectors, with entries off the diagonal multiplied by the root of 2. A
        weight without a low rank is the same either way, since scores and norms are.

    Attributes
    ----------
    reference_ : ndarray of shape (n_bands, n_channels, n_channels) or None
        Mean of the training samples' covariances in each band (or without any) for the tangent space.
    floor_ : float
        Smallest eigenvalue of a covariance matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import Covariances
    >>> X = np.random.default_rng(0).normal(size=(20, 6, 512))
    >>> Covariances().fit_transform(X).shape
    (20, 6, 6)
    >>> Covariances(metric="tangent", bands=("alpha", "beta"), sfreq=128.0).fit_transform(X).shape
    (20, 6, 6, 2)
    """

    _mode_parameters: ClassVar[tuple[str, ...]] = ("mode", "time")
    makes_features = True
    reference_: Array | None

    def __init__(
        self,
        mode: int | str = 0,
        metric: str = "log",
        shrinkage: str | float = "oas",
        bands: Any = None,
        sfreq: float | None = None,
        time: int | str = -1,
        vectorize: bool = False,
    ) -> None:
        self.mode = mode
        self.metric = metric
        self.shrinkage = shrinkage
        self.bands = bands
        self.sfreq = sfreq
        self.time = time
        self.vectorize = vectorize

    def _learn(self, X: Any, metadata: Metadata) -> tuple[int, ...]:
        checked_choice(self.metric, "metric", ("log", "tangent", "none"))
        check_shrinkage(self.shrinkage)
        order = X.ndim - 1
        self._axis = self._mode(self.mode, order) + 1
        self._filters = [] if self.bands is None else self._designed(X)
        self.floor_, self.reference_ = self._learned(X)
        channels, bands = int(X.shape[self._axis]), (len(self._filters),) if self._filters else ()
        return (channels * (channels + 1) // 2, *bands) if self.vectorize else (channels, channels, *bands)

    def _designed(self, X: Any) -> list[Array]:
        """Return the filter of each band."""
        from scipy.signal import butter

        bands = checked_bands(self.bands, self.sfreq)
        self._time_axis = self._mode(self.time, X.ndim - 1, "time") + 1
        if self._time_axis == self._axis:
            raise ValueError(f"time and channels must be two modes; got mode={self.mode} and time={self.time}")
        nyquist = float(self.sfreq or 0.0) / 2
        return [_filter(butter, band, nyquist) for band in bands]

    def _learned(self, X: Any) -> tuple[float, Array | None]:
        """Return the smallest eigenvalue to allow, and the means for the tangent space, from one pass."""
        if self.metric == "none":
            return 0.0, None
        if self.metric == "log":
            total, number = reduced(X, self._level, added)
            return _floor(total / number), None
        (covariances,) = reduced(X, self._covariances_of, lambda one, other: (np.concatenate([one[0], other[0]]),))
        floor = _floor(float(np.mean(np.trace(covariances, axis1=-2, axis2=-1))) / covariances.shape[-1])
        covariances = _positive(covariances, floor)
        means = np.stack([riemannian_mean(covariances[:, k]) for k in range(covariances.shape[1])])
        return floor, as_like(means, X)

    def _level(self, part: Any) -> tuple[float, int]:
        """Return the sum of the mean variances, and their number."""
        levels = np.trace(self._covariances(as_double(part)), axis1=-2, axis2=-1) / part.shape[self._axis]
        return float(levels.sum()), levels.size

    def _covariances_of(self, part: Any) -> tuple[Array]:
        return (self._covariances(as_double(part)),)

    def _covariances(self, part: FloatArray) -> FloatArray:
        """Return shrunk covariances, of shape (n_samples, n_bands or 1, n_channels, n_channels)."""
        from scipy.signal import sosfiltfilt

        if not self._filters:
            return _covariance(part, self._axis, self.shrinkage)[:, None]
        pad = min(3 * (2 * _ORDER + 1), part.shape[self._time_axis] - 1)
        filtered = (sosfiltfilt(to_host(sos), part, axis=self._time_axis, padlen=pad) for sos in self._filters)
        return np.stack([_covariance(one, self._axis, self.shrinkage) for one in filtered], axis=1)

    def _represent(self, part: FloatArray) -> Array:
        matrices = self._covariances(part)
        if self.metric != "none":
            matrices = _positive(matrices, self.floor_)
        if self.metric == "log":
            matrices = logarithms(matrices)
        elif self.metric == "tangent":
            matrices = tangent_vectors(matrices, as_double(self.reference_))
        matrices = np.moveaxis(matrices, 1, -1) if self._filters else matrices[:, 0]
        return triangle(matrices) if self.vectorize else matrices

    def _axes_out(self, axes: Axes) -> Axes:
        channel = axes[self._axis - 1]
        pair = (pair_axis(channel),) if self.vectorize else (channel, channel)
        if not self._filters:
            return pair
        return (*pair, band_axis(checked_bands(self.bands, self.sfreq), True))

    def words(self) -> str:
        kinds = {
            "log": "logarithms of the covariances",
            "tangent": "covariances, in the tangent space of their mean over the training samples,",
            "none": "covariances",
        }
        bands = "" if self.bands is None else " in frequency bands"
        how = self.shrinkage if isinstance(self.shrinkage, str) else f"{self.shrinkage:g}"
        return f"samples were replaced by {kinds[self.metric]} of their channels{bands} (shrinkage {how})"

    def brief(self) -> str:
        return "covariances of channels" + ("" if self.bands is None else " in frequency bands")


def pair_axis(channel: Axis, diagonal: bool = True) -> Axis:
    """Return the axis of the upper triangle of a matrix of channels: "Cz, Pz" for each pair."""
    if channel.values is None:
        return Axis("pair")
    names = [channel.spoken(index) for index in range(len(channel.values))]
    rows, columns = np.triu_indices(len(names), 0 if diagonal else 1)
    return Axis("pair", "", [f"{names[row]}, {names[column]}" for row, column in zip(rows, columns, strict=True)])


def _filter(butter: Any, band: Band, nyquist: float) -> Array:
    """Return second-order sections of a filter: band-pass, or low- or high-pass at the ends of the spectrum."""
    if band.low == 0 and band.high >= nyquist:
        return butter(1, 0.999, "low", output="sos")  # everything
    if band.low == 0:
        return butter(_ORDER, band.high / nyquist, "low", output="sos")
    if band.high >= nyquist:
        return butter(_ORDER, band.low / nyquist, "high", output="sos")
    return butter(_ORDER, (band.low / nyquist, band.high / nyquist), "band", output="sos")


def _covariance(part: FloatArray, axis: int, shrinkage: str | float) -> FloatArray:
    """Return the shrunk covariance of the entries along an axis for each sample."""
    rows = np.moveaxis(part, axis, 1).reshape(len(part), part.shape[axis], -1)
    number = rows.shape[2]
    if number > 1:  # a single observation has no mean to be centred by
        rows = rows - rows.mean(axis=2, keepdims=True)
    fourth = np.sum(np.sum(rows * rows, axis=1) ** 2, axis=1)
    return shrunk(rows @ np.swapaxes(rows, 1, 2) / number, number, fourth, shrinkage)


def _floor(level: float) -> float:
    return _FLOOR * level if level > 0 else 1.0


def _positive(matrices: FloatArray, floor: float) -> FloatArray:
    """Return matrices with eigenvalues of at least ``floor``."""
    if len(matrices) == 0 or np.linalg.eigvalsh(matrices).min() >= floor:
        return matrices
    return of_eigenvalues(matrices, lambda values: np.maximum(values, floor))
