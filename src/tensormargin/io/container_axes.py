"""Names, units and coordinates of modes, as a container of arrays states them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..data import Axes, Axis, BadFileError, axes_of_picture, checked_axes, shape_of_samples
from ..runtime import Array, is_lazy
from .arrays import Stored
from .readers.entries import RATES, as_rate

# Arrays beside the samples that are taken for the coordinates of a mode, if they have one entry per index of one mode.
_VECTORS = {
    "channel": ("ch_names", "channel_names", "channels"),
    "time": ("times", "time"),
    "wavelength": ("wavelengths", "wavelength"),
    "frequency": ("freqs", "frequencies"),
}
_FEWEST_PIXELS = 8  # along a side of an image
_BRIGHT = 128  # least maximum of colours from 0 to 255: small numbers may be counts of anything
_UNITS = {"s": "s", "ms": "ms", "us": "us", "nm": "nm", "um": "um", "hz": "Hz"}  # endings such as that of times_ms


class FoundAxes(NamedTuple):
    """The axes of samples in a container, None if it says nothing of them, and notes on how they were found."""

    axes: Axes | None
    notes: tuple[str, ...]


def axes_in_container(held: Mapping[str, Stored], name: str, axis: int, taken: Collection[str | None]) -> FoundAxes:
    """Return the axes of an array of samples.

    Names are those of HDF5 dimension labels and scales, of the attributes ``dims`` and ``_ARRAY_DIMENSIONS`` (xarray)
    or of Zarr's dimension names; coordinates are those of the dimension scale, or of a vector of the same name beside
    the samples, with its attribute ``units``. Otherwise, vectors with the names of `_VECTORS` are taken for the
    coordinates of the one mode that has their length.

    Parameters
    ----------
    held : mapping of str to Stored
        All arrays of the container.
    name : str
        The array with the samples.
    axis : int
        The axis of the samples.
    taken : collection of str or None
        Arrays with another meaning: labels, groups.
    """
    shape = held[name].shape
    if len(shape) < 2 or not -len(shape) <= axis < len(shape):
        return FoundAxes(None, ())
    modes = [place for place in range(len(shape)) if place != axis % len(shape)]
    stated = [_stated(held, name, place) for place in modes]
    sizes = [shape[place] for place in modes]
    found: list[Axis] = stated
    notes: tuple[str, ...] = ()
    if all(one.says_nothing for one in stated):
        found, notes = _by_vectors(held, sizes, shape[axis], {name, *taken})
    try:
        return FoundAxes(checked_axes(found, sizes), notes)
    except ValueError:  # texts that are too long
        return FoundAxes(None, ())


def colours_in(X: Any) -> Axes | None:
    """Return the axes of colour images, if unnamed samples look like these: rows x columns x 3, from 0 to 1 or to 255.

    The values of a Dask array are not read, so that it must hold bytes.
    """
    shape = shape_of_samples(X)
    if len(shape) != 3 or shape[2] != 3 or None in shape or min(shape[0] or 0, shape[1] or 0) < _FEWEST_PIXELS:
        return None
    if X.dtype == np.uint8:
        return axes_of_picture()
    if is_lazy(X) or X.dtype.kind not in "iuf" or not X.min() >= 0:
        return None
    most = X.max()
    return axes_of_picture() if most <= 1 or _BRIGHT <= most <= 255 else None


def sampling_rate(held: Mapping[str, Stored]) -> float | None:
    """Return the sampling frequency in Hz that a container states: a number such as sfreq, or a vector of times."""
    for array, stored in held.items():
        own, rate = array.rpartition("/")[2], stored.rate
        kind, unit = _meaning(own)
        if own.lower() in RATES and stored.is_numeric and prod(stored.shape) == 1:
            rate = as_rate(stored.read().ravel()[0].item())
        elif kind == "time" and (values := _vector(stored, prod(stored.shape))) is not None:
            rate = as_rate(_axis("time", stored.unit or unit, values).sfreq)
        if rate is not None:
            return rate
    return None


def _stated(held: Mapping[str, Stored], name: str, place: int) -> Axis:
    """Return what the file says of one axis of an array."""
    stored = held[name]
    dimension = stored.dims[place] if stored.dims is not None else ""
    scale = stored.scales[place] if stored.scales is not None else None
    folder = name.rpartition("/")[0]
    beside = f"{folder}/{dimension}".lstrip("/") if dimension else None
    for one in (scale, beside):
        values = None if one is None or one == name or one not in held else _vector(held[one], stored.shape[place])
        if values is not None and one is not None:
            return _axis(dimension, held[one].unit, values)
    return _axis(dimension, "", None)


def _axis(name: str, unit: str, values: Array | None) -> Axis:
    try:
        return Axis(name, unit, values)
    except ValueError:  # coordinates that are not finite, or texts that are too long
        return Axis()


def _vector(stored: Stored, size: int) -> Array | None:
    """Return a vector of numbers or text with one entry per index, otherwise None."""
    if not stored.is_readable or stored.dtype.kind == "c" or max(stored.shape, default=0) != prod(stored.shape):
        return None
    if prod(stored.shape) != size:
        return None
    try:
        values = stored.read().ravel()
    except BadFileError:
        return None
    return np.char.strip(np.asarray(values, np.str_)) if values.dtype.kind in "UT" else values


def _by_vectors(
    held: Mapping[str, Stored], sizes: list[int], n_samples: int, taken: Collection[str | None]
) -> tuple[list[Axis], tuple[str, ...]]:
    """Return axes from vectors with known names, whose length is that of one mode and not the number of samples."""
    axes, notes = [Axis() for _ in sizes], []
    for array, stored in held.items():
        kind, unit = _meaning(array.rpartition("/")[2])
        size = prod(stored.shape)
        if kind is None or array in taken or sizes.count(size) != 1 or size in (0, n_samples):
            continue
        values = _vector(stored, size)
        mode = sizes.index(size)
        if values is None or not _plausible(kind, values) or not axes[mode].says_nothing:
            continue
        axes[mode] = _axis(kind, stored.unit or unit, values)
        if not axes[mode].says_nothing:
            notes.append(f"mode {mode + 1} was taken for {kind}, since the array {array} has one entry per index of it")
    return axes, tuple(notes)


def _meaning(name: str) -> tuple[str | None, str]:
    """Return what the name of an array says: the name of a mode (None if nothing), and a unit."""
    stem, _, ending = name.lower().rpartition("_")
    unit = _UNITS.get(ending, "") if re.fullmatch(r"[a-z_]+", stem) else ""
    known = stem if unit else name.lower()
    return next((kind for kind, names in _VECTORS.items() if known in names), None), unit


def _plausible(kind: str, values: Array) -> bool:
    """Return whether these can be coordinates: different names of channels, numbers that rise or fall."""
    if kind == "channel":
        return values.dtype.kind == "U" and len(set(values.tolist())) == len(values)
    if values.dtype.kind not in "iuf" or len(values) < 2:
        return False
    steps = np.diff(values.astype(np.float64))
    return bool((steps > 0).all() or (steps < 0).all())
