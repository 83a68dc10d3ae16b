"""Samples in containers of arrays, with the axes that these state.

A container describes the modes of its samples by an array ``mode_names`` of text, one per mode, with the unit in
brackets ("row", "column", "wavelength[nm]"), and by arrays ``mode_values_NAME`` with the coordinates of a mode. Other
programs name dimensions (HDF5 labels and scales, xarray, Zarr), or keep vectors of times or channels beside samples.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..data import Axes, Axis, BadFileError, axes_of, axes_of_picture, checked_axes, shape_of_samples
from ..runtime import Array
from . import labels
from .arrays import Stored, container_kind, open_arrays
from .lazy import READ_WHOLE, in_parts, lazy_container, stays_in_files
from .options import CLASS_NUMBERS, CONTAINER, TABLE, DoesNotApplyError, Request
from .readers.entries import RATES, as_rate
from .recordings import Recording, continuous, find_recording, load_recording
from .samples import SampleSet

NAMES, VALUES = "mode_names", "mode_values_"
_SAMPLES = ("X", "data", "samples", "images")
_SAMPLE_DIMS = ("sample", "trial", "epoch", "event", "case", "observation", "obs", "subject", "participant")
# Arrays beside the samples that are taken for the coordinates of a mode, if they have one entry per index of one mode.
_VECTORS = {
    "channel": ("ch_names", "channel_names", "channels"),
    "time": ("times", "time"),
    "wavelength": ("wavelengths", "wavelength"),
    "wavenumber": ("wavenumbers", "wavenumber", "raman_shift"),
    "excitation": ("excitation", "excitations", "ex"),
    "emission": ("emission", "emissions", "em"),
    "frequency": ("freqs", "frequencies"),
}
_FEWEST_PIXELS = 8  # along a side of an image
_BRIGHT = 128  # least maximum of colours from 0 to 255: small numbers may be counts of anything
_UNITS = {"s": "s", "ms": "ms", "us": "us", "nm": "nm", "um": "um", "hz": "Hz"}  # endings such as that of times_ms


def load_container(path: Path, request: Request) -> SampleSet:
    """Return the samples of a container of arrays, along the first axis."""
    CONTAINER.check(path, request)
    kind = str(container_kind(path))
    with open_arrays(path, rules=request.rules) as held:
        recording = _recording_in(path, held, request)
        if recording is not None:
            return load_recording(path, request, recording)
        name, label_name = _samples_and_labels(path, held, request)
        stored, requested = held[name], request.layout.axis
        stated: dict[str, Any] = {"sfreq": sampling_rate(held)}
        target = None if label_name is None else labels.as_labels(path, held[label_name], "labels")
        if request.flat and request.known.is_one(stored.shape):
            request.refuse(path, ("groups",), "the array is one sample")
            return SampleSet(
                stored.read()[None], target, None, [path.name], None, "", f"{kind}, one sample", (), **stated
            )
        not_groups = (label_name, request.other_labels)
        groups = labels.groups_in(path, held, request.select.groups, not_groups)
        axis = sample_axis(stored, requested)
        data, notes = _read_samples(path, name, stored, axis, request)
        unused = labels.unused_groups(path, labels.likely_groups(held, (*not_groups, name), len(data)))
        axes = None
        if request.layout.mode_names is None:
            axes, more = _axes_in(path, held, name, axis, not_groups)
            notes += more
        stated |= {"positions": _positions(held, len(data)), "loading": _class_numbers(held)}
        return SampleSet(
            data, target, groups, None, None, "", kind, notes, unused, axes=axes, unit=stored.unit or None, **stated
        )


def _positions(held: Mapping[str, Stored], n_samples: int) -> Array | None:
    """Return rows and columns of patches in their scene, None unless `tensormargin patches` wrote the file."""
    stored = held.get("positions")
    known = stored is not None and "scene_shape" in held and stored.dtype.kind in "iu"
    return stored.read() if stored is not None and known and stored.shape == (n_samples, 2) else None


def _class_numbers(held: Mapping[str, Stored]) -> dict[str, Any]:
    """Return the numbers of classes in the ground truth of a scene, by name, for files of `tensormargin patches`."""
    names, numbers = held.get("class_names"), held.get("class_numbers")
    if names is None or numbers is None or "scene_shape" not in held or numbers.dtype.kind not in "iu":
        return {}
    pairs = zip(_texts(names.read()), np.ravel(numbers.read()).tolist(), strict=False)
    return {CLASS_NUMBERS: dict(pairs)}


def _samples_and_labels(path: Path, held: Mapping[str, Stored], request: Request) -> tuple[str, str | None]:
    """Return the names of the samples and of the labels (None for a file without labels, if it needs none)."""
    select = request.select
    label_name = labels.choose_labels(path, held, select.labels, select.groups)
    taken = (label_name, labels.choose_groups(path, held, select.groups, (label_name, request.other_labels)))
    others = {name: stored for name, stored in held.items() if name not in taken}
    name = labels.choose_entry(path, held, select.samples, _SAMPLES, "samples")
    if label_name is None and request.need_labels:
        of_samples = name or _likely_samples(path, others, must=False)
        if of_samples is not None and select.labels is None:
            label_name = _likely_labels(held, of_samples, sample_axis(held[of_samples], request.layout.axis))
        if label_name is None:
            labels.no_labels(path, held)
    return name or str(_likely_samples(path, others)), label_name


def _recording_in(path: Path, held: Mapping[str, Stored], request: Request) -> Recording | None:
    """Return the recording in a container: a structure of EEGLAB or FieldTrip, or an array with events."""
    wanted, events = request.select.samples, request.window.events
    found = find_recording(path, held, wanted, request.rules)
    if found is not None:
        return found
    if events is None:
        request.refuse_window(path)
        return None
    name = labels.choose_entry(path, held, wanted, _SAMPLES, "samples") or str(_likely_samples(path, held))
    if events is TABLE and (len(held[name].shape) != 2 or request.known.fits(held[name].shape[1:])):
        raise DoesNotApplyError(f"{path}: holds samples that are cut already, or no series", "events")
    return continuous(path, name, held[name].read(), sampling_rate(held))


def _read_samples(path: Path, name: str, stored: Stored, axis: int, request: Request) -> tuple[Any, tuple[str, ...]]:
    """Return the samples of a container, along the first axis, in memory or lazy, and notes."""
    lazy, n_bytes = request.lazy, stored.dtype.itemsize * prod(stored.shape)
    usable = stored.is_numeric and len(stored.shape) > 1  # others are refused when they are read, or later
    stays = usable and stays_in_files(path, lazy.lazy, n_bytes, stored.pieces is not None)
    data: Any = stored if stays else stored.read()
    if not -len(data.shape) <= axis < len(data.shape):
        raise BadFileError(
            f"{path}: axis={axis} (command line: --axis) must be one of the {len(data.shape)} axes of the samples, of "
            f"shape {data.shape}; the first is 0"
        )
    if not stays:
        return np.moveaxis(data, axis, 0), ()
    data = lazy_container(path, name, stored, axis, lazy, request.rules, request.layout.missing)
    return data, (f"{path.name} {READ_WHOLE}",) if stored.pieces is None else in_parts(path, lazy, n_bytes)


def _likely_samples(path: Path, held: Mapping[str, Stored], must: bool = True) -> str | None:
    """Return the name of the only numeric array but vectors; otherwise None, or an error if there ``must`` be one."""
    likely = [
        name
        for name, stored in held.items()
        if stored.is_numeric and len(stored.shape) >= 2 and not (len(stored.shape) == 2 and 1 in stored.shape)
    ]
    if len(likely) != 1:  # fields of a structure or group count only if nothing else could be the samples
        likely = [name for name in likely if "/" not in name] or likely
    if len(likely) == 1 or not must:
        return likely[0] if len(likely) == 1 else None
    raise BadFileError(
        f"{path}: {len(likely) or 'none'} of its arrays could be the samples; it holds {labels.describe(held)}. Name "
        "the one that is: samples=... (command line: --samples)"
    )


def _dims_of(stored: Stored) -> tuple[str, ...] | None:
    """Return the names of the dimensions of an array, None if its file does not name them."""
    return stored.dims if stored.dims is not None and len(stored.dims) == len(stored.shape) else None


def sample_axis(stored: Stored, requested: int) -> int:
    """Return the requested axis; for the first, the only one named sample, trial, epoch, subject or the like."""
    named = [axis for axis, dim in enumerate(_dims_of(stored) or ()) if dim.lower().removesuffix("s") in _SAMPLE_DIMS]
    return named[0] if requested == 0 and len(named) == 1 else requested


def _likely_labels(held: Mapping[str, Stored], name: str, axis: int) -> str | None:
    """Return the only variable along the dimension of the samples, but for coordinates and groups; None if unclear."""
    dims = _dims_of(held[name])
    if dims is None or not -len(dims) <= axis < len(dims):
        return None
    group, dim = name.rpartition("/")[0], dims[axis]
    found = [
        other
        for other, stored in held.items()
        if _dims_of(stored) == (dim,)
        and other.rpartition("/")[0] == group
        and other.rpartition("/")[2] != dim
        and not labels.unit_of(other)
        and stored.dtype.kind in "iubSUT"
    ]
    return found[0] if len(found) == 1 else None


def stored_axes(path: Path, held: Mapping[str, Stored], shape: Sequence[int]) -> Axes | None:
    """Return the axes that a container describes for samples of this shape, None if it describes none."""
    if NAMES not in held:
        return None
    names = _texts(held[NAMES].read())
    plain = {name.partition("[")[0].strip() for name in names}
    values: dict[str, Any] = {name: held[VALUES + name].read() for name in plain if VALUES + name in held}
    values = {name: _texts(own) if own.dtype.kind in "SUT" else np.ravel(own) for name, own in values.items()}
    try:
        return axes_of(shape, names, values)
    except ValueError as error:
        raise BadFileError(
            f"{path}: {NAMES} and {VALUES}NAME must describe the modes of the samples ({error}); write them again, or "
            "leave them out of the file"
        ) from error


def arrays_of(axes: Axes | None) -> dict[str, Array]:
    """Return the arrays that describe axes in a container; none for axes that are unknown."""
    if axes is None:
        return {}
    names = [f"{axis.name}[{axis.unit}]" if axis.unit else axis.name for axis in axes]
    known = {f"{VALUES}{axis.name}": axis.values for axis in axes if axis.values is not None and axis.name}
    return {NAMES: np.array(names, str), **known}


def _texts(array: Array) -> list[str]:
    """Return text as a list; MATLAB pads it with blanks."""
    values = np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
    return [str(one).strip() for one in np.ravel(values)]


def _axes_in(
    path: Path, held: Mapping[str, Stored], name: str, axis: int, taken: Collection[str | None]
) -> tuple[Axes | None, tuple[str, ...]]:
    """Return the axes that the container describes or names, or that its vectors (`_VECTORS`) suggest, and notes."""
    shape = held[name].shape
    modes = [place for place in range(len(shape)) if place != axis % len(shape)]
    sizes = [shape[place] for place in modes]
    described = stored_axes(path, held, sizes)
    if described is not None or len(shape) < 2:
        return described, ()
    stated = [_stated(held, name, place) for place in modes]
    found, notes = stated, list[str]()
    if all(one.says_nothing for one in stated):
        found, notes = _by_vectors(held, sizes, shape[axis], {name, *taken})
    try:
        return checked_axes(found, sizes), tuple(f"{path.name}: {note}" for note in notes)
    except ValueError:  # texts that are too long
        return None, ()


def colours_in(X: Any) -> Axes | None:
    """Return the axes of colour images if samples look like these: rows x columns x 3, 0 to 1 or 255, or lazy bytes."""
    shape = shape_of_samples(X)
    if len(shape) != 3 or shape[2] != 3 or None in shape or min(shape[0] or 0, shape[1] or 0) < _FEWEST_PIXELS:
        return None
    if X.dtype == np.uint8:
        return axes_of_picture()
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "iuf" or not X.min() >= 0:
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
) -> tuple[list[Axis], list[str]]:
    """Return axes from vectors with known names, whose length is that of one mode and not the number of samples.

    Times belong to the last one of several modes of that length.
    """
    axes, notes = [Axis() for _ in sizes], []
    for array, stored in held.items():
        kind, unit = _meaning(array.rpartition("/")[2])
        size = prod(stored.shape)
        modes = [mode for mode, length in enumerate(sizes) if length == size]
        is_clear = len(modes) == 1 or (bool(modes) and kind == "time")
        if kind is None or array in taken or not is_clear or size in (0, n_samples):
            continue
        values, mode = _vector(stored, size), modes[-1]
        if values is None or not _plausible(kind, values) or not axes[mode].says_nothing:
            continue
        axes[mode] = _axis(kind, stored.unit or unit, values)
        if not axes[mode].says_nothing:
            notes.append(f"mode {mode + 1} was taken for {kind}, since the array {array} has one entry per index of it")
    return axes, notes


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
