"""Frequency bands by name or in Hz, and the power of signals in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple

import numpy as np

from ...data import Axes, Axis, Metadata, fitted
from ...runtime import Array, FloatArray, as_like
from ..preparation._base import checked_choice, checked_count, checked_number
from ..preparation._passes import added, reduced
from .base import Representation, as_double

_HALF_BANDWIDTH, _TAPERS = 4.0, 7  # of the multitaper method, in units of the frequency resolution
_TAPERS_OF_TWO = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2.0)
_FLOOR = 1e-8  # of the mean power of the training samples: a flat channel would be infinitely weak

EEG_BANDS: Mapping[str, tuple[float, float]] = {
    "delta": (0.5, 4.0),
    "theta": (4.0, 8.0),
    "alpha": (8.0, 13.0),
    "beta": (13.0, 30.0),
    "gamma": (30.0, 45.0),
}
"""Bands of the EEG in Hz, by name."""
_RULE = (
    f'bands must be "eeg", names of {", ".join(EEG_BANDS)}, pairs (low, high) in Hz, or a mapping of names to such '
    "pairs, at least one; got bands={bands!r}"
)


class Band(NamedTuple):
    """A frequency band: from ``low`` up to ``high`` Hz, the upper end not included."""

    name: str
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.name} ({self.low:g} to {self.high:g} Hz)"


@fitted.attributes(
    _axis=fitted.whole(1, "sample_shape_in_"),
    _length=fitted.whole(2),
    _segment=fitted.whole(2, "_length"),
    _rate=fitted.number(fitted.POSITIVE),
    bands_=fitted.list_of(fitted.tuple_of(fitted.text, fitted.number(0), fitted.number(0))),
    _weights=fitted.floats("bands_", None),
    floor_=fitted.number(fitted.POSITIVE),
)
@dataclass(eq=False, repr=False)
class BandPower(Representation):
    """Replace time by the (logarithm of the) power in frequency bands: channel x frequency (x time).

    For signals whose phase differs from sample to sample (steady-state responses, rhythms, gait), which have no mean
    to be separated by.

    Parameters
    ----------
    bands : int, "eeg", sequence or mapping, default=16
        A number of bands, log-spaced up to half the sampling frequency (fewer if the spectrum has fewer frequencies);
        "eeg" for delta, theta, alpha, beta and gamma; some of these names, pairs ``(low, high)`` in Hz, or a mapping of
        names to pairs. A frequency f belongs to a band if low <= f < high.
    sfreq : float, optional
        Sampling frequency in Hz. Bands in Hz need it, unless the samples state their times, as Epochs of MNE do.
    mode : int or str, default=-1
        The mode of time, counted from 0; negative numbers count from the last. Or its name, if samples have names.
    method : {"welch", "multitaper"}, default="welch"
        How the spectrum is estimated: `scipy.signal.welch` with Hann windows, or the mean over 7 Slepian tapers of
        `scipy.signal.periodogram`.
    segment : int, optional
        Entries per segment of Welch's method. By default 256, or more if the lowest band needs it, and no more than
        there are.
    n_windows : int, default=1
        Number of consecutive windows of equal length with a spectrum of their own, which become a mode after the bands
        if there are several.
    log : bool, default=True
        Whether to take the natural logarithm.

    Attributes
    ----------
    bands_ : list of tuple
        Name, lower and upper limit of each band; in cycles per entry if there is no ``sfreq``.
    floor_ : float
        Smallest power, relative to the mean power of the training samples, for the logarithm.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import BandPower
    >>> X = np.random.default_rng(0).normal(size=(20, 6, 512))
    >>> BandPower("eeg", sfreq=128.0).fit_transform(X).shape
    (20, 6, 5)
    >>> BandPower(8, n_windows=4).fit_transform(X).shape
    (20, 6, 8, 4)
    """

    bands: Any = 16
    sfreq: float | None = None
    mode: int | str = -1
    method: Literal["welch", "multitaper"] = "welch"
    segment: int | None = None
    n_windows: int = 1
    log: bool = True

    def _learn(self, X: Any, metadata: Metadata) -> None:
        mode = self._mode(self.mode, X.ndim - 1)
        size = int(X.shape[mode + 1])
        checked_choice(self.method, "method", ("welch", "multitaper"))
        windows = checked_count(self.n_windows, "n_windows", 1, max(1, size // 2), f" for n_features = {size} entries")
        length = size // windows
        if length < 2:
            raise ValueError(f"a spectrum needs at least 2 entries along mode={self.mode}; got n_features = {size}")
        counted = isinstance(self.bands, Integral) and not isinstance(self.bands, bool)
        listed = [] if counted else checked_bands(self.bands, self._frequency(mode))
        self._axis, self._length, self._segment = mode + 1, length, self._segment_for(length, listed, mode)
        self._rate = checked_number(self._frequency(mode) or 1.0, "sfreq")
        frequencies = np.linspace(0.0, self._segment // 2 * self._rate / self._segment, self._segment // 2 + 1)
        listed = _log_spaced(frequencies, checked_count(self.bands, "bands")) if counted else listed
        self.bands_ = [(band.name, band.low, band.high) for band in listed]
        self._weights = as_like(_averaging(frequencies, listed, self._segment / self._rate), X)
        total, number = reduced(X, self._total, added)
        self.floor_ = _FLOOR * float(total) / number if total > 0 else 1.0

    def _shape_out(self) -> tuple[int, ...]:
        windows, shape = int(self.n_windows), self.sample_shape_in_
        middle = (len(self.bands_),) if windows == 1 else (len(self.bands_), windows)
        return (*shape[: self._axis - 1], *middle, *shape[self._axis :])

    def _fits(self) -> dict[str, Any]:
        length, frequencies = self.sample_shape_in_[self._axis - 1] // int(self.n_windows), self._segment // 2 + 1
        return {**super()._fits(), "_length": self._length == length, "_weights": self._weights.shape[1] == frequencies}

    def _frequency(self, mode: int) -> float | None:
        """Return the sampling frequency, for bands in Hz also as the samples state it."""
        return self.sfreq if isinstance(self.bands, Integral) else frequency_of(self, mode)

    def _segment_for(self, length: int, bands: list[Band], mode: int) -> int:
        """Return the entries per segment: by default at least two periods of the lowest frequency, if there are."""
        if self.method == "multitaper":
            return length
        if self.segment is not None:
            return checked_count(self.segment, "segment", 2, length, " entries of a window")
        lowest = min((band.low for band in bands if band.low > 0), default=0.0)
        periods = 0 if lowest == 0 else int(np.ceil(2 * (self._frequency(mode) or 1.0) / lowest))
        return min(length, max(256, periods))

    def _total(self, part: Any) -> tuple[float, int]:
        power = self._power(as_double(part))
        return float(power.sum()), power.size

    def _represent(self, part: FloatArray) -> Array:
        power = self._power(part)
        power = np.log(np.maximum(power, self.floor_)) if self.log else power
        if power.shape[-2] == 1:
            return np.moveaxis(power[..., 0, :], -1, self._axis)
        return np.moveaxis(power, (-1, -2), (self._axis, self._axis + 1))

    def _power(self, part: FloatArray) -> FloatArray:
        """Return the mean power in each band, of shape (..., n_windows, n_bands)."""
        signal = np.moveaxis(part, self._axis, -1)
        windows = signal[..., : signal.shape[-1] // self._length * self._length]
        windows = windows.reshape(*signal.shape[:-1], -1, self._length)[..., : int(self.n_windows), :]
        return self._spectrum(windows) @ as_double(self._weights).T

    def _spectrum(self, windows: FloatArray) -> FloatArray:
        from scipy.signal import periodogram, welch
        from scipy.signal.windows import dpss

        if self.method == "welch":
            return welch(windows, self._rate, nperseg=self._segment)[1]
        tapers = _TAPERS_OF_TWO
        if self._length > 2:  # of two entries, rounding decides whether SciPy finds a sign for the second taper
            tapers = dpss(self._length, min(_HALF_BANDWIDTH, self._length / 2 - 0.5), min(_TAPERS, self._length))
        return np.mean([periodogram(windows, self._rate, taper)[1] for taper in np.atleast_2d(tapers)], axis=0)

    def _axes_out(self, axes: Axes) -> Axes:
        mode, time = self._axis - 1, axes[self._axis - 1]
        band = band_axis(
            self.bands_, self._frequency(self._axis - 1) is not None, numbered=isinstance(self.bands, Integral)
        )
        middle: tuple[Axis, ...] = (band,)
        if int(self.n_windows) > 1:
            middle = (band, time.at((np.arange(int(self.n_windows)) + 0.5) * self._length - 0.5))
        return (*axes[:mode], *middle, *axes[mode + 1 :])

    def words(self) -> str:
        kind = "log power" if self.log else "power"
        count = len(self.bands_) if hasattr(self, "bands_") else self.bands
        spans = ""
        if hasattr(self, "bands_") and not isinstance(self.bands, Integral):
            spans = f": {', '.join(str(Band(*band)) for band in self.bands_)}"
        windows = f" of {self.n_windows} windows" if self.n_windows != 1 else ""
        return f"time was replaced by the {kind}{windows} in {count} frequency bands ({self.method}{spans})"

    def brief(self) -> str:
        count = self.bands if isinstance(self.bands, Integral) else len(self.bands)
        return f"{'log ' * bool(self.log)}power in {count} frequency bands"


def _log_spaced(frequencies: FloatArray, count: int) -> list[Band]:
    """Return bands whose limits grow by about one factor, each with at least one frequency; without the constant."""
    edges = np.unique(np.rint(np.geomspace(1, len(frequencies), min(count, len(frequencies) - 1) + 1)).astype(int))
    ends = np.append(frequencies, frequencies[-1] + frequencies[1])[edges]
    pairs = zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    return [Band(f"band {number}", low, high) for number, (low, high) in enumerate(pairs, start=1)]


def _averaging(frequencies: FloatArray, bands: list[Band], seconds: float) -> FloatArray:
    """Return the matrix that averages a spectrum over bands, of shape (n_bands, n_frequencies)."""
    inside = np.array([(frequencies >= band.low) & (frequencies < band.high) for band in bands], float)
    empty = np.flatnonzero(inside.sum(axis=1) == 0)
    if len(empty):
        raise ValueError(
            f"a band must contain a frequency of the spectrum, which has one every {1 / seconds:.3g} Hz for windows of "
            f"{seconds:.3g} s; got {bands[int(empty[0])]}. Use longer windows or segments, or a wider band"
        )
    return inside / inside.sum(axis=1, keepdims=True)


def frequency_of(step: Any, mode: int) -> float | None:
    """Return the sampling frequency of a step, by default what the samples that it was fitted to state."""
    axes = getattr(step, "axes_in_", None)
    found: float | None = axes[mode].sfreq if step.sfreq is None and axes is not None else step.sfreq
    return found


def checked_bands(bands: Any, sfreq: Any) -> list[Band]:
    """Return bands, given as for `BandPower`; raise ValueError if they are none, or exceed half of ``sfreq``."""
    if sfreq is None:
        raise ValueError(
            f"bands in Hz need the sampling frequency of the samples; got sfreq=None and bands={bands!r}. Pass sfreq, "
            "or a number of log-spaced bands to BandPower"
        )
    nyquist = checked_number(sfreq, "sfreq") / 2
    listed = _listed(bands)
    for band in listed:
        if not 0 <= band.low < band.high:
            raise ValueError(f"a band must have limits 0 <= low < high in Hz; got {band}. Exchange or correct them")
        if band.high > nyquist:
            raise ValueError(
                f"bands must end at half the sampling frequency, {nyquist:g} Hz, or below; got {band} with "
                f"sfreq={sfreq:g}. Leave the band out, or lower its end"
            )
    return listed


def band_axis(bands: Sequence[tuple[str, float, float]], in_hz: bool, numbered: bool = False) -> Axis:
    """Return the axis of bands: their names, or their centres (in Hz) if they are only numbered."""
    if not numbered:
        return Axis("frequency", "", [name for name, _, _ in bands])
    centres = [(low + high) / 2 for _, low, high in bands]
    return Axis("frequency", "Hz" if in_hz else "cycles per entry", centres)


def _listed(bands: Any) -> list[Band]:
    if isinstance(bands, str):
        bands = list(EEG_BANDS) if bands == "eeg" else [bands]
    named: list[tuple[str, Any]]
    if isinstance(bands, Mapping):
        named = [(str(name), limits) for name, limits in bands.items()]
    else:
        given = bands if isinstance(bands, tuple | list) else ()
        named = [(one, EEG_BANDS.get(one)) if isinstance(one, str) else ("", one) for one in given]
    pairs = (isinstance(limits, tuple | list) and len(limits) == 2 for _, limits in named)
    if not named or not all(pairs) or not all(isinstance(end, Real) for _, limits in named for end in limits):
        raise ValueError(_RULE.format(bands=bands))
    return [Band(name or f"{low:g}-{high:g} Hz", float(low), float(high)) for name, (low, high) in named]
