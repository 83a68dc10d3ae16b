"""Frequency bands by name or in Hz."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

from ...data import Axis
from .parameters import checked_number

EEG_BANDS: Mapping[str, tuple[float, float]] = {
    "delta": (0.5, 4.0),
    "theta": (4.0, 8.0),
    "alpha": (8.0, 13.0),
    "beta": (13.0, 30.0),
    "gamma": (30.0, 45.0),
}
"""Bands of the EEG in Hz, by name."""


class Band(NamedTuple):
    """A frequency band: from ``low`` up to ``high`` Hz, the upper end not included."""

    name: str
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.name} ({self.low:g} to {self.high:g} Hz)"


def checked_bands(bands: Any, sfreq: Any) -> list[Band]:
    """Return bands with their limits; raise ValueError if they are none, or exceed half the sampling frequency.

    Parameters
    ----------
    bands : "eeg", mapping of names to limits, or sequence of names and pairs
        Names are those of `EEG_BANDS`; "eeg" stands for all of them.
    sfreq : float
        Sampling frequency in Hz.
    """
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
    if isinstance(bands, Mapping):
        listed = [Band(str(name), *_limits(limits, bands)) for name, limits in bands.items()]
    elif isinstance(bands, tuple | list):
        listed = [_one(band, bands) for band in bands]
    else:
        listed = []
    if not listed:
        raise ValueError(_RULE.format(bands=bands))
    return listed


_RULE = (
    'bands must be "eeg", names of '
    + ", ".join(EEG_BANDS)
    + ", pairs (low, high) in Hz, or a mapping of names to such "
    "pairs, at least one; got bands={bands!r}"
)


def _one(band: Any, bands: Any) -> Band:
    if isinstance(band, str):
        if band not in EEG_BANDS:
            raise ValueError(_RULE.format(bands=bands))
        return Band(band, *EEG_BANDS[band])
    low, high = _limits(band, bands)
    return Band(f"{low:g}-{high:g} Hz", low, high)


def _limits(limits: Any, bands: Any) -> tuple[float, float]:
    pair = isinstance(limits, tuple | list) and len(limits) == 2
    if not pair or not all(isinstance(one, Real) for one in limits):
        raise ValueError(_RULE.format(bands=bands))
    return float(limits[0]), float(limits[1])
