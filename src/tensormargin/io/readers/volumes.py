"""NIfTI files. Runs in the reader process."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import nibabel
import numpy as np

from ...data import BadFileError, FileRules, shape_of_part
from ...runtime import Array, quoted
from .process import ALLOCATOR

_TYPES = {348: nibabel.Nifti1Image, 540: nibabel.Nifti2Image}  # by the size of the header, which comes first
_COPIES = 3  # of the values while they are scaled
_DRAINED = 2**20
_TIME_UNITS = 0b111000  # the bits of xyzt_units that tell the unit of time
_SECONDS = {0: 1.0, 8: 1.0, 16: 1e-3, 24: 1e-6}  # by these bits; a unit that is not stated is taken for seconds
_SHORTEST, _LONGEST = 0.01, 60.0  # repetition times, in seconds


class Header(NamedTuple):
    """Shape, affine, repetition time in seconds (None if it is not plausible) and space of a NIfTI file.

    ``space`` is the code of the coordinates of the affine, such as 4 for those of MNI152.
    """

    shape: tuple[int, ...]
    affine: Array
    tr: float | None
    space: int


def read_header(path: Path, rules: FileRules) -> Header:
    """Return shape, affine and repetition time."""
    with _opened(path) as (image, _):
        affine = np.asarray(image.affine, np.float64)
        header = image.header
        space = int(header["sform_code"]) or int(header["qform_code"])
        return Header(tuple(map(int, image.shape)), affine, _repetition_time(header), space)


def _repetition_time(header: Any) -> float | None:
    """Return the time between volumes in seconds; None if a header says none, or what programs write by default."""
    if len(header.get_zooms()) < 4:
        return None
    stated, code = float(header["pixdim"][4]), int(header["xyzt_units"]) & _TIME_UNITS
    is_default = stated == 1.0 and code == 0
    seconds = float(f"{stated * _SECONDS.get(code, 0.0):.6g}")
    return seconds if _SHORTEST <= seconds <= _LONGEST and not is_default else None


def read_volume(path: Path, where: tuple[slice, ...], rules: FileRules) -> tuple[Array, Array]:
    """Return the affine, and the values as float32, scaled according to the header, or a part of them."""
    with _opened(path) as (image, stream):
        shape = tuple(map(int, image.shape))
        per_entry = image.get_data_dtype().itemsize + 4 * _COPIES
        needed = prod(shape if stream is not None else shape_of_part(shape, where))  # gzip is read from the beginning
        rules.admit(path, needed * per_entry, "the volumes")
        values = _values(image.dataobj, where)
        if stream is not None:
            _check_end(stream, prod(shape) * per_entry)
        return values, np.asarray(image.affine, np.float64)


def find_volume(
    path: Path, where: tuple[slice, ...], rules: FileRules
) -> tuple[Array | tuple[int, str, tuple[int, ...]], Array]:
    """Return the same, but where the values begin, their type and shape if they need neither a parser nor a scale."""
    with _opened(path) as (image, stream):
        stored, shape = image.dataobj, tuple(map(int, image.shape))
        if stream is None and _is_plain(stored) and shape:
            n_bytes = prod(shape) * stored.dtype.itemsize
            if 0 < n_bytes <= path.stat().st_size - stored.offset and stored.offset > 0:
                rules.admit(path, prod(shape_of_part(shape, where)) * 4, "the volumes")
                return (int(stored.offset), stored.dtype.str, shape), np.asarray(image.affine, np.float64)
    return read_volume(path, where, rules)


def _is_plain(stored: Any) -> bool:
    """Return whether values have no scale, and become float32 in one step as in two, by way of float64."""
    return (stored.slope, stored.inter) == (1, 0) and (stored.dtype.kind == "f" or stored.dtype.itemsize <= 4)


def _values(stored: Any, where: tuple[slice, ...]) -> Array:
    """Return values as float32; those without a scale are converted right into shared memory."""
    if not _is_plain(stored):
        return np.asarray(stored[where] if where else stored, np.float32)
    raw = stored.get_unscaled()[where] if where else stored.get_unscaled()
    values = ALLOCATOR.empty(raw.shape[::-1], np.float32).T  # NIfTI has the first axis innermost
    values[...] = raw
    return values


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """Yield the image, and the stream that it is read from if that is compressed."""
    packed = path.name.lower().endswith(".gz")
    with gzip.open(path) if packed else path.open("rb") as stream:
        first = stream.read(4)
        stream.seek(0)
        sizes = (int.from_bytes(first, "little"), int.from_bytes(first, "big"))
        kind = next((_TYPES[size] for size in sizes if size in _TYPES), None)
        if kind is None:
            raise ValueError(f"the header must begin with its size, 348 or 540; it begins with {first!r}")
        holder = nibabel.FileHolder(fileobj=stream) if packed else nibabel.FileHolder(filename=str(path))
        make: Any = kind.from_file_map
        image = make({"header": holder, "image": holder})
        dtype = image.get_data_dtype()
        if dtype.kind not in "biuf":
            raise BadFileError(
                f"{path}: must hold real numbers, has {quoted(str(dtype))}; export it with one number per voxel"
            )
        yield image, stream if packed else None


def _check_end(stream: Any, most: int) -> None:
    """Read a compressed stream to its end, where its checksum is; raise ValueError if there is too much."""
    drained = 0
    while part := stream.read(_DRAINED):
        drained += len(part)
        if drained > most + _DRAINED:
            raise ValueError("there is more behind the values than the values")
