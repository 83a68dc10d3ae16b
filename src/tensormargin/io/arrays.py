"""Read named arrays from NumPy, MATLAB, HDF5 and Zarr files. Nothing is ever unpickled."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from math import prod
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np

from ..data import (
    DEFAULT_RULES,
    Axes,
    Axis,
    FileRules,
    check_members,
    is_ragged,
    parsing,
    reject_partly_finite,
    require_package,
    shape_of_part,
)
from ..data import BadFileError as BadFileError
from ..runtime import Array, listed, quoted
from .options import Missing as Missing
from .readers.entries import NUMBERS, READABLE, Entry, entry_of
from .readers.plain import numbers_or_map, plain_numbers
from .readers.process import call

ONLY = "X"  # name given to the only array of a file without names

_HDF5_MAGIC = b"\x89HDF"  # at offset 512 of a MATLAB 7.3 file, at 0 if written by another program
_ENTRIES_AT_ONCE = 2**20  # entries that are tested for NaN at once: one megabyte of booleans
_CRC_BYTES = 2**20
_FILL_IN = (
    "Leave those samples out, or let the model fill such entries in: `tensormargin fit --missing mean` (Python: "
    'load with missing="entries" and put Impute first). NaN at the end of shorter samples is padding: `tensormargin '
    "fit --length resample` (EqualLength)"
)
_REPLACE = "Replace infinity by NaN or by a number, or leave those samples out"


@dataclass(frozen=True)
class Stored:
    """An array in a file that ``get`` reads (slices per axis, or none); ``verify`` reads it once for its checksum."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    get: Callable[[tuple[slice, ...]], Any]
    pieces: tuple[int, ...] | None = None
    verify: Callable[[], None] | None = None
    cells: list[Array] | None = None
    dims: tuple[str, ...] | None = None
    scales: tuple[str | None, ...] | None = None
    unit: str = ""
    rate: float | None = None

    def read(self, where: tuple[slice, ...] = ()) -> Array:
        """Return the array, or the part given by slices."""
        return np.asanyarray(self.get(where))

    @property
    def is_numeric(self) -> bool:
        """Whether the array holds real numbers."""
        return self.dtype.kind in NUMBERS

    @property
    def is_readable(self) -> bool:
        """Whether the array holds numbers or text, rather than objects or structures."""
        return self.dtype.kind in READABLE


_Open = Callable[[Path, str | None, FileRules], AbstractContextManager[dict[str, Stored]]]


class _Container(NamedTuple):
    words: str
    open: _Open
    remedy: str


class NpyHeader(NamedTuple):
    """What the header of a ``.npy`` file says, and where the entries begin."""

    shape: tuple[int, ...]
    in_fortran_order: bool
    dtype: np.dtype[Any]
    begin: int


def read_arrays(
    path: str | Path, names: Sequence[str] | None = None, rules: FileRules = DEFAULT_RULES
) -> dict[str, Array]:
    """Return named arrays of a file: ``.npz``, ``.npy``, ``.mat`` (MATLAB 5 to 7.3), HDF5 or Zarr.

    Parameters
    ----------
    path : str or Path
    names : sequence of str, optional
        The arrays to read; by default all that hold numbers or text. A missing name raises `BadFileError`.
    rules : FileRules, optional
        What the file may ask for; by default the memory that is available, and no other files.

    Returns
    -------
    dict of str to ndarray
        MATLAB cell arrays whose cells have one shape are stacked along a new first axis.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from tensormargin.io import read_arrays
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/study.npz", X=np.zeros((6, 3, 4)), y=np.arange(6))
    ...     {name: array.shape for name, array in read_arrays(f"{folder}/study.npz").items()}
    {'X': (6, 3, 4), 'y': (6,)}
    """
    with open_arrays(path, rules=rules) as held:
        wanted = [name for name in held if held[name].is_readable] if names is None else names
        missing = [name for name in wanted if name not in held]
        if missing:
            raise BadFileError(f"{path}: has no array {listed(missing)}; it holds {listed(held) or 'none'}")
        return {name: held[name].read() for name in wanted}


@contextmanager
def open_arrays(
    path: str | Path, only: str | None = None, rules: FileRules = DEFAULT_RULES
) -> Iterator[dict[str, Stored]]:
    """Yield the unread arrays of a file by name, or only the one named ``only``; they can be read inside the block."""
    path = Path(path)
    if not path.exists():
        raise BadFileError(f"{path}: no such file; give the path of one that exists")
    container = _container(path)
    if container is None:
        raise BadFileError(f"{path}: unknown kind of file {path.suffix!r}; give one of {container_endings()}")
    if not path.is_dir():
        rules.check_file(path)
    with parsing(path, container.words, container.remedy), container.open(path, only, rules) as held:
        yield held


def container_kind(path: Path) -> str | None:
    """Return the kind of a container of arrays in words, None if the path is not one."""
    container = _container(path)
    return container and container.words.partition(" ")[2]


def container_endings() -> str:
    """Return the extensions of containers of arrays."""
    return ", ".join(_CONTAINERS)


def _container(path: Path) -> _Container | None:
    if path.is_dir():
        marked = any((path / name).is_file() for name in ("zarr.json", ".zarray", ".zgroup"))
        return _ZARR if marked or path.suffix.lower() == ".zarr" else None
    return _CONTAINERS.get(path.suffix.lower())


def optional_package(path: Path, package: str, extra: str, words: str) -> Any:
    """Return an imported optional package; raise `BadFileError` if it is not installed."""
    try:
        return import_module(package)
    except ImportError as error:
        raise BadFileError(f"{path}: {words}, which needs {package}; pip install 'tensormargin[{extra}]'") from error


def _stored(path: Path, entry: Entry, get: Callable[[tuple[slice, ...]], Any]) -> Stored:
    """Return an array that a file describes; one that cannot be used raises `BadFileError` when it is read."""

    def refuse(where: tuple[slice, ...]) -> Array:
        raise BadFileError(f"{path}: {entry.fault}")

    cells = entry.value if isinstance(entry.value, list) else None
    if isinstance(entry.value, np.ndarray):
        get = entry.value.__getitem__
    usable = get if entry.fault is None else refuse
    described = {name: getattr(entry, name) for name in ("pieces", "dims", "scales", "unit", "rate")}
    stored = Stored(entry.shape, np.dtype(entry.dtype), usable, cells=cells, **described)
    return stored if entry.packing is None else _unpacked(stored, entry.packing)


@contextmanager
def _open_npz(path: Path, only: str | None, rules: FileRules) -> Iterator[dict[str, Stored]]:
    if not zipfile.is_zipfile(path):
        raise BadFileError(f"{path}: not an .npz file, or cut short; write it with numpy.savez(path, X=..., y=...)")
    with zipfile.ZipFile(path) as archive:
        members = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        check_members(path, len(members), 0)
        yield {name: _npz_member(path, archive, name, rules) for name in members if only in (None, name)}


def _npz_member(path: Path, archive: zipfile.ZipFile, name: str, rules: FileRules) -> Stored:
    member = archive.getinfo(f"{name}.npy")
    shape, in_fortran_order, dtype, begin = npy_header(path, archive, member)
    packed = member.compress_type != zipfile.ZIP_STORED

    def get(where: tuple[slice, ...]) -> Array:
        _admit(path, name, shape if packed else shape_of_part(shape, where), dtype, rules)
        if packed or not where:  # this also verifies the checksum
            with archive.open(member) as file:
                return np.lib.format.read_array(file, allow_pickle=False)[where]
        with path.open("rb") as file:  # the header of a member has two fields of variable length
            file.seek(member.header_offset + 26)
            lengths = np.frombuffer(file.read(4), "<u2")
        offset = member.header_offset + 30 + int(lengths.sum()) + begin
        return plain_numbers(path, offset, dtype, shape, where, "F" if in_fortran_order else "C")

    def verify() -> None:
        with archive.open(member) as file:
            while file.read(_CRC_BYTES):
                pass

    stored = _stored(path, entry_of(name, shape, dtype, None if packed else (1,) * len(shape)), get)
    return stored if packed else replace(stored, verify=verify)


def _admit(path: Path, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], rules: FileRules) -> None:
    """Raise `BadFileError` if an array needs too much; entries that have no bytes need some as Python objects."""
    rules.admit(path, prod(shape) * (dtype.itemsize or 64), quoted(name))


def npy_header(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NpyHeader:
    """Return the header of an array in an archive; raise `BadFileError` if the array is not as large as it says."""
    with archive.open(member) as file:
        header = _header_in(file)
    if not header.dtype.hasobject and header.begin + prod(header.shape) * header.dtype.itemsize != member.file_size:
        raise BadFileError(
            f"{path}: an array must be as large as its header says; {member.filename} has {member.file_size} bytes and "
            f"says {header.dtype} of shape {header.shape}. Write the file again"
        )
    return header


def _header_in(file: IO[bytes]) -> NpyHeader:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return NpyHeader(*read(file), file.tell())


@contextmanager
def _open_npy(path: Path, only: str | None, rules: FileRules) -> Iterator[dict[str, Stored]]:
    with path.open("rb") as file:
        shape, in_fortran_order, dtype, begin = _header_in(file)
        size = file.seek(0, 2)
    needed = begin + prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or (size < needed and not dtype.hasobject):
        raise BadFileError(
            f"{path}: cut short: its header says {dtype} of shape {shape}, which needs {needed} bytes, and it has "
            f"{size}. Copy or write it again"
        )
    if not dtype.itemsize:
        _admit(path, ONLY, shape, dtype, rules)
    order: Literal["C", "F"] = "F" if in_fortran_order else "C"

    def get(where: tuple[slice, ...]) -> Array:
        if where:
            return plain_numbers(path, begin, dtype, shape, where, order)
        return numbers_or_map(path, begin, dtype, shape, order, rules)

    yield {ONLY: _stored(path, entry_of(ONLY, shape, dtype, (1,) * len(shape)), get)}


def _read_elsewhere(listing: str, reading: str, *needed: str) -> _Open:
    """Return how to open files whose arrays are listed and read in the reader process; ``needed`` is a package."""

    @contextmanager
    def opened(path: Path, only: str | None, rules: FileRules) -> Iterator[dict[str, Stored]]:
        if needed:
            require_package(path, *needed)

        def get(name: str, where: tuple[slice, ...]) -> Array:
            found: Array | tuple[int, str, tuple[int, ...]] = call(reading, path, name, where, rules)
            return found if isinstance(found, np.ndarray) else plain_numbers(path, *found, where)

        held: dict[str, tuple[Any, ...]] = call(listing, path, only, rules)
        yield {name: _stored(path, Entry(*fields), partial(get, name)) for name, fields in held.items()}

    return opened


def _open_netcdf(path: Path, only: str | None, rules: FileRules) -> AbstractContextManager[dict[str, Stored]]:
    with path.open("rb") as file:
        is_classic = file.read(3) == b"CDF"
    return (_NETCDF_3 if is_classic else _NETCDF_4)(path, only, rules)


def _unpacked(stored: Stored, packing: Mapping[str, float]) -> Stored:
    """Return an array of a netCDF file as its attributes say: scaled, shifted, and NaN where values are missing."""
    scaled, fill = "scale" in packing or "offset" in packing, packing.get("fill")
    is_float = stored.dtype.kind == "f"
    if stored.dtype.kind not in "iuf" or (is_float and not scaled and (fill is None or np.isnan(fill))):
        return stored
    dtype = stored.dtype if is_float and not scaled else np.dtype(np.float64)

    def get(where: tuple[slice, ...]) -> Array:
        raw = np.asarray(stored.get(where))
        values = raw.astype(dtype)
        if scaled:
            values = values * packing.get("scale", 1.0) + packing.get("offset", 0.0)
        return values if fill is None else np.where(raw == fill, np.asarray(np.nan, dtype), values)

    return replace(stored, dtype=dtype, get=get)


def _open_mat(path: Path, only: str | None, rules: FileRules) -> AbstractContextManager[dict[str, Stored]]:
    with path.open("rb") as file:
        head = file.read(1024)
    if _HDF5_MAGIC in (head[:4], head[512:516]):
        return _MATLAB_73(path, only, rules)
    return _MATLAB(path, only, rules)


_NETCDF_3 = _read_elsewhere(".scipy_files.list_arrays", "")
_NETCDF_4 = _read_elsewhere(".hdf5.list_netcdf", ".hdf5.read_array", "h5py", "hdf5", "a netCDF 4 file")
_MATLAB = _read_elsewhere(".scipy_files.list_variables", "")
_MATLAB_73 = _read_elsewhere(
    ".hdf5.list_variables", ".hdf5.read_variable", "h5py", "hdf5", "a MATLAB 7.3 file (save it with -v7 to go without)"
)
_open_hdf5 = _read_elsewhere(".hdf5.list_arrays", ".hdf5.read_array", "h5py", "hdf5", "an HDF5 file")
_open_zarr = _read_elsewhere(".zarr_stores.list_arrays", ".zarr_stores.read_array", "zarr", "zarr", "a Zarr store")
_ZARR = _Container("a Zarr store", _open_zarr, "write it again with the zarr package")
_HDF5 = _Container("an HDF5 file", _open_hdf5, "write it again with h5py")
_CONTAINERS = {
    ".npz": _Container("a NumPy archive", _open_npz, "write it with numpy.savez(path, X=..., y=...)"),
    ".npy": _Container("a NumPy array", _open_npy, "write it with numpy.save(path, X), X an array of numbers"),
    ".mat": _Container("a MATLAB file", _open_mat, "save it again from MATLAB"),
    ".set": _Container("an EEGLAB file", _open_mat, "save it again from EEGLAB"),
    ".nc": _Container("a netCDF file", _open_netcdf, "write it again, e.g. with xarray, as netCDF 3 or 4"),
    ".h5": _HDF5,
    ".hdf5": _HDF5,
    ".hdf": _HDF5,
    ".zarr": _ZARR,
    ".zip": _ZARR,
}


def check_labelled(path: str | Path, X: Array, y: Array, samples: str = "X", labels: str = "y") -> tuple[Array, Array]:
    """Return the samples and the labels as a vector; raise `BadFileError` if they are not usable.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.io import check_labelled
    >>> X, y = check_labelled("study.npz", np.zeros((4, 2, 3)), np.array([[0], [1], [0], [1]]))
    >>> y
    array([0, 1, 0, 1])
    """
    if y.ndim == 2 and 1 in y.shape:
        y = y.ravel()
    if np.issubdtype(y.dtype, np.inexact) and not np.all(np.isfinite(y)):
        raise BadFileError(f"{path}: {labels} holds NaN or infinity; leave samples without a label out")
    check_samples(path, X, samples)
    if y.shape != X.shape[:1]:
        raise BadFileError(f"{path}: {labels} must hold one label per sample, {len(X)} of them; its shape is {y.shape}")
    return X, y


def check_samples(
    path: str | Path,
    X: Any,
    name: str = "X",
    missing: Missing = False,
    axes: Axes | None = None,
    first: int = 0,
    files: Sequence[str] | None = None,
    values: bool | None = None,
) -> None:
    """Raise `BadFileError` if the samples are not usable; by default, ``values`` that are still in files are not read.

    With ``missing=True``, samples may be NaN in all of their entries, with "entries" in some. For messages, ``axes``
    name the modes, ``first`` is the number of the first of these samples, and ``files`` are those of the samples.
    """
    if is_ragged(X):
        for position, sample in enumerate(X):
            what = f"sample {position + 1} (counted from 1)" if files is None else files[position]
            check_samples(path, sample[None, ...], what, missing)
        return
    if X.dtype.kind not in NUMBERS:
        raise BadFileError(f"{path}: {name} must hold real numbers, has dtype {X.dtype}")
    if X.ndim < 2 or X.size == 0:
        raise BadFileError(f"{path}: {name} must have the shape (n_samples, I_1, ...), none of them 0; has {X.shape}")
    values = isinstance(X, np.ndarray) if values is None else values
    if X.dtype.kind == "f" and values and not all(np.isfinite(part).all() for _, part in _parts(X)):
        if missing is not True:
            _reject_missing(path, X, name, missing == "entries", partial(_place, axes=axes, first=first, files=files))
            return
        try:
            reject_partly_finite(name, X)
        except ValueError as error:
            raise BadFileError(f"{path}: {error}") from error


def _reject_missing(
    path: str | Path, X: Array, name: str, allowed: bool, in_words: Callable[[int, Sequence[int]], str]
) -> None:
    """Raise `BadFileError` for samples with NaN, unless they are allowed, or infinity: how many, where, what helps."""
    n_nan = n_infinite = n_samples = 0
    first: str | None = None
    for start, part in _parts(X):
        nan, wrong = np.isnan(part), np.isinf(part)
        n_nan, n_infinite = n_nan + int(nan.sum()), n_infinite + int(wrong.sum())
        bad = wrong if allowed else nan | wrong
        n_samples += int(bad.any(axis=tuple(range(1, part.ndim))).sum())
        if first is None and bad.any():
            sample, *place = np.unravel_index(int(bad.argmax()), bad.shape)
            first = in_words(start + int(sample), [int(index) for index in place])
    if first is None:
        return
    what = "infinity" if not n_nan or allowed else "NaN" if not n_infinite else "NaN or infinity"
    number = n_infinite if allowed else n_nan + n_infinite
    raise BadFileError(
        f"{path}: {name} holds {what} in {number} of its {X.size} entries, in {n_samples} of {len(X)} samples; the "
        f"first is at {first}. {_REPLACE if n_infinite else _FILL_IN}"
    )


def _place(sample: int, place: Sequence[int], *, axes: Axes | None, first: int, files: Sequence[str] | None) -> str:
    """Return the place of an entry in words, counted from 1, with its file and the names of modes where known."""
    known = axes if axes is not None and len(axes) == len(place) else (Axis(),) * len(place)
    words = [
        f"{axis.name} {axis.spoken(index)}" if axis.name else f"index {axis.spoken(index)} of mode {mode}"
        for mode, (axis, index) in enumerate(zip(known, place, strict=True), start=1)
    ]
    file = [] if files is None else [files[sample]]
    return ", ".join([f"sample {first + sample + 1}", *file, *words]) + " (counted from 1)"


def _parts(X: Array) -> Iterator[tuple[int, Array]]:
    """Yield the samples block by block, with the number of the first: tests of all entries at once need memory."""
    step = max(1, _ENTRIES_AT_ONCE // prod(X.shape[1:]))
    for start in range(0, len(X), step):
        yield start, np.asarray(X[start : start + step])


def digest(arrays: Mapping[str, Array]) -> str:
    """Return a checksum of the names, shapes, types and values of arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.io import digest
    >>> digest({"X": np.zeros(3)}) == digest({"X": np.zeros(3)})
    True
    >>> digest({"X": np.zeros(3)}) == digest({"X": np.ones(3)})
    False
    """
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name}:{array.shape}:{array.dtype.str}:".encode())
        total.update(array.tobytes())
    return total.hexdigest()
