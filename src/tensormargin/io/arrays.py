"""Read named arrays from NumPy, MATLAB, HDF5 and Zarr files. Nothing is ever unpickled."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._namespace import is_lazy
from .._typing import Array
from ..intake import is_ragged
from ..views import reject_partly_finite

ONLY = "X"
"""Name given to the only array of a file without names."""

_HDF5_MAGIC = b"\x89HDF"  # at offset 512 of a MATLAB 7.3 file, at 0 if written by another program
_NUMBERS, _READABLE = "biuf", "biufcSUT"  # NumPy type kinds: real numbers; the same with complex numbers and text
_ENTRIES_AT_ONCE = 2**20  # entries that are tested for NaN at once: one megabyte of booleans


class BadFileError(ValueError):
    """Raised for a file that cannot be used; the message names the file, the fault and the remedy."""


@dataclass(frozen=True)
class Stored:
    """An array in a file that has not been read yet.

    Attributes
    ----------
    shape : tuple of int
    dtype : dtype
    get : callable
        Takes a tuple of slices, one per axis (empty for the whole array), and returns these entries.
    pieces : tuple of int or None
        Chunk shape of the file; None if the array can only be read as a whole.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    get: Callable[[tuple[slice, ...]], Any]
    pieces: tuple[int, ...] | None = None

    def read(self, where: tuple[slice, ...] = ()) -> Array:
        """Return the array, or the part given by slices."""
        return np.asanyarray(self.get(where))

    @property
    def is_numeric(self) -> bool:
        """Whether the array holds real numbers."""
        return self.dtype.kind in _NUMBERS

    @property
    def is_readable(self) -> bool:
        """Whether the array holds numbers or text, rather than objects or structures."""
        return self.dtype.kind in _READABLE


class _Container(NamedTuple):
    words: str
    open: Callable[[Path, str | None], AbstractContextManager[dict[str, Stored]]]
    remedy: str


class NpyHeader(NamedTuple):
    """What the header of a ``.npy`` file says, and where the entries begin."""

    shape: tuple[int, ...]
    in_fortran_order: bool
    dtype: np.dtype[Any]
    begin: int


def read_arrays(path: str | Path, names: Sequence[str] | None = None) -> dict[str, Array]:
    """Return named arrays of a file: ``.npz``, ``.npy``, ``.mat`` (MATLAB 5 to 7.3), HDF5 or Zarr.

    Parameters
    ----------
    path : str or Path
    names : sequence of str, optional
        The arrays to read; by default all that hold numbers or text. A missing name raises `BadFileError`.

    Returns
    -------
    dict of str to ndarray
        MATLAB cell arrays whose cells have one shape are stacked along a new first axis.
    """
    with open_arrays(path) as held:
        wanted = [name for name in held if held[name].is_readable] if names is None else names
        missing = [name for name in wanted if name not in held]
        if missing:
            raise BadFileError(f"{path}: has no array {' and '.join(missing)}; it holds {', '.join(held) or 'none'}")
        return {name: held[name].read() for name in wanted}


@contextmanager
def open_arrays(path: str | Path, only: str | None = None) -> Iterator[dict[str, Stored]]:
    """Yield the unread arrays of a file by name, or only the one named ``only``; they can be read inside the block."""
    path = Path(path)
    if not path.exists():
        raise BadFileError(f"{path}: no such file; give the path of one that exists")
    container = _container(path)
    if container is None:
        raise BadFileError(f"{path}: unknown kind of file {path.suffix!r}; give one of {container_endings()}")
    with parsing(path, container.words, container.remedy), container.open(path, only) as held:
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


@contextmanager
def parsing(path: Path, words: str, remedy: str) -> Iterator[None]:
    """Turn any error into a `BadFileError` with a clear message, since parsers of damaged files can raise anything."""
    try:
        yield
    except (BadFileError, MemoryError):
        raise
    except Exception as error:
        raise BadFileError(f"{path}: not {words}, or damaged ({error}); {remedy}") from error


def optional_package(path: Path, package: str, extra: str, words: str) -> Any:
    """Return an imported optional package; raise `BadFileError` if it is not installed."""
    try:
        return import_module(package)
    except ImportError as error:
        raise BadFileError(f"{path}: {words}, which needs {package}; pip install 'tensormargin[{extra}]'") from error


def _stored(
    path: Path,
    name: str,
    shape: Sequence[int],
    dtype: Any,
    get: Callable[[tuple[slice, ...]], Any],
    pieces: tuple[int, ...] | None = None,
) -> Stored:
    stored = Stored(tuple(shape), np.dtype(dtype), get, pieces)
    if stored.is_readable:
        return stored
    fault = (
        f"{name} holds {stored.dtype}: neither numbers nor text. Python objects are not accepted, since reading them "
        "runs their code; save it as an array of numbers or of text"
    )
    return _unusable(path, fault, stored.shape)


def _unusable(path: Path, fault: str, shape: tuple[int, ...] = ()) -> Stored:
    def refuse(where: tuple[slice, ...]) -> Array:
        raise BadFileError(f"{path}: {fault}")

    return Stored(shape, np.dtype(object), refuse)


@contextmanager
def _open_npz(path: Path, only: str | None) -> Iterator[dict[str, Stored]]:
    if not zipfile.is_zipfile(path):
        raise BadFileError(f"{path}: not an .npz file, or cut short; write it with numpy.savez(path, X=..., y=...)")
    with zipfile.ZipFile(path) as archive:
        members = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        yield {name: _npz_member(path, archive, name) for name in members if only in (None, name)}


def _npz_member(path: Path, archive: zipfile.ZipFile, name: str) -> Stored:
    member = archive.getinfo(f"{name}.npy")
    shape, in_fortran_order, dtype, begin = npy_header(path, archive, member)
    packed = member.compress_type != zipfile.ZIP_STORED

    def get(where: tuple[slice, ...]) -> Array:
        if packed or not where:  # this also verifies the checksum
            with archive.open(member) as file:
                return np.lib.format.read_array(file, allow_pickle=False)[where]
        offset = _offset(path, member) + begin
        return np.memmap(path, dtype, "r", offset, shape, "F" if in_fortran_order else "C")[where]

    return _stored(path, name, shape, dtype, get, None if packed else (1,) * len(shape))


def npy_header(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NpyHeader:
    """Return the header of an array in an archive; raise `BadFileError` if the array is not as large as it says."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        header = NpyHeader(*read(file), file.tell())
    if not header.dtype.hasobject and header.begin + prod(header.shape) * header.dtype.itemsize != member.file_size:
        raise BadFileError(
            f"{path}: an array must be as large as its header says; {member.filename} has {member.file_size} bytes and "
            f"says {header.dtype} of shape {header.shape}. Write the file again"
        )
    return header


def _offset(path: Path, member: zipfile.ZipInfo) -> int:
    """Return the offset of a member's bytes in an archive, after a header with two fields of variable length."""
    with path.open("rb") as file:
        file.seek(member.header_offset)
        header = file.read(30)
    return member.header_offset + 30 + int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")


@contextmanager
def _open_npy(path: Path, only: str | None) -> Iterator[dict[str, Stored]]:
    array = np.lib.format.open_memmap(path, mode="r")  # unlike numpy.load, it never reads pickles or archives
    yield {ONLY: _stored(path, ONLY, array.shape, array.dtype, array.__getitem__, (1,) * array.ndim)}


@contextmanager
def _open_hdf5(path: Path, only: str | None) -> Iterator[dict[str, Stored]]:
    h5py = optional_package(path, "h5py", "hdf5", "an HDF5 file")
    with h5py.File(path, "r") as file:
        held: dict[str, Stored] = {}

        def add(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset):
                held[name] = _hdf5_array(path, name, item, h5py.check_string_dtype(item.dtype) is not None)

        if only is None:
            file.visititems(add)
        else:
            add(only, file[only])
        yield held


def _hdf5_array(path: Path, name: str, dataset: Any, is_text: bool) -> Stored:
    if is_text:
        return _stored(path, name, dataset.shape or (), str, lambda where: np.asarray(dataset.asstr()[where], str))
    shape = dataset.shape or ()
    return _stored(path, name, shape, dataset.dtype, dataset.__getitem__, dataset.chunks or (1,) * len(shape))


@contextmanager
def _open_zarr(path: Path, only: str | None) -> Iterator[dict[str, Stored]]:
    zarr = optional_package(path, "zarr", "zarr", "a Zarr store")
    if path.is_file() and not zipfile.is_zipfile(path):
        raise BadFileError(f"{path}: not a Zarr store in a .zip file, or cut short; pack the store's folder again")
    with zarr.storage.ZipStore(path, mode="r") if path.is_file() else nullcontext(str(path)) as store:
        root = zarr.open(store, mode="r")
        if not hasattr(root, "groups"):
            arrays = {ONLY: root}
        else:
            arrays = dict(_zarr_arrays(root)) if only is None else {only: root[only]}
        yield {name: _zarr_array(path, name, array) for name, array in sorted(arrays.items())}


def _zarr_arrays(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, array in group.arrays():
        yield prefix + name, array
    for name, inner in group.groups():
        yield from _zarr_arrays(inner, f"{prefix}{name}/")


def _zarr_array(path: Path, name: str, array: Any) -> Stored:
    codecs = (*(array.filters or ()), *(array.compressors or ()))
    pickled = any(getattr(codec, "codec_id", None) == "pickle" for codec in codecs)
    dtype = object if pickled else array.dtype
    return _stored(path, name, array.shape, dtype, lambda where: array[where], array.shards or array.chunks)


@contextmanager
def _open_mat(path: Path, only: str | None) -> Iterator[dict[str, Stored]]:
    with path.open("rb") as file:
        head = file.read(1024)
    if _HDF5_MAGIC in (head[:4], head[512:516]):
        with _open_mat73(path, only) as held:
            yield held
        return
    from scipy.io import loadmat

    variables = loadmat(path, variable_names=None if only is None else [only])
    yield {name: _variable(path, name, value) for name, value in variables.items() if not name.startswith("__")}


_ZARR = _Container("a Zarr store", _open_zarr, "write it again with the zarr package")
_HDF5 = _Container("an HDF5 file", _open_hdf5, "write it again with h5py")
_CONTAINERS = {
    ".npz": _Container("a NumPy archive", _open_npz, "write it with numpy.savez(path, X=..., y=...)"),
    ".npy": _Container("a NumPy array", _open_npy, "write it with numpy.save(path, X), X an array of numbers"),
    ".mat": _Container("a MATLAB file", _open_mat, "save it again from MATLAB"),
    ".h5": _HDF5,
    ".hdf5": _HDF5,
    ".hdf": _HDF5,
    ".zarr": _ZARR,
    ".zip": _ZARR,
}


@contextmanager
def _open_mat73(path: Path, only: str | None) -> Iterator[dict[str, Stored]]:
    h5py = optional_package(path, "h5py", "hdf5", "a MATLAB 7.3 file (save it with -v7 to go without)")
    with h5py.File(path, "r") as file:
        yield {
            name: _mat73_variable(path, name, file, value)
            for name, value in file.items()
            if isinstance(value, h5py.Dataset) and not name.startswith("#") and only in (None, name)
        }


def _mat73_variable(path: Path, name: str, file: Any, dataset: Any) -> Stored:
    """Return a variable with its axes in MATLAB's order, which HDF5 reverses; plain numbers are not read yet."""
    marks = dataset.attrs
    special = "MATLAB_object_decode" in marks or marks.get("MATLAB_empty") or marks.get("MATLAB_class") == b"char"
    if special or dataset.dtype == object:
        return _variable(path, name, _from_hdf5(file, dataset))
    shape, pieces = dataset.shape[::-1], dataset.chunks or (1,) * dataset.ndim
    return _stored(path, name, shape, dataset.dtype, lambda where: np.transpose(dataset[where[::-1]]), pieces[::-1])


def _from_hdf5(file: Any, dataset: Any) -> Any:
    """Return a data set with its axes in MATLAB's order, which HDF5 reverses; cells become an object array."""
    values = dataset[()]
    if "MATLAB_object_decode" in dataset.attrs:  # string, table, categorical: the numbers here are only a reference
        return None
    if dataset.attrs.get("MATLAB_empty"):
        return np.empty((0, 0))  # what is stored is the shape
    if dataset.attrs.get("MATLAB_class") == b"char":
        return np.array(["".join(map(chr, row)) for row in np.transpose(values)])
    if values.dtype != object:
        return np.transpose(values)
    cells = np.empty(values.size, object)
    for position, reference in enumerate(values.T.ravel(order="F")):
        cells[position] = _from_hdf5(file, file[reference])
    return cells


def _variable(path: Path, name: str, value: Any) -> Stored:
    """Return a MATLAB variable; a cell array whose cells have one shape is stacked along a new first axis."""
    if not isinstance(value, np.ndarray) or value.dtype.names is not None:
        return _unusable(
            path, f"{name} is a structure or an object, not an array; save its fields as variables of their own"
        )
    if value.dtype != object:
        return _stored(path, name, value.shape, value.dtype, value.__getitem__)
    cells = [np.asarray(cell) for cell in value.ravel(order="F")]
    shapes = sorted({cell.shape for cell in cells})
    if len(shapes) != 1:
        return _unusable(path, f"the cells of {name} must have one shape; they have {shapes[:4]}")
    dtype = cells[0].dtype if all(cell.dtype.kind in _READABLE for cell in cells) else object
    return _stored(path, name, (len(cells), *shapes[0]), dtype, lambda where: np.stack(cells)[where])


def check_labelled(path: str | Path, X: Array, y: Array, samples: str = "X", labels: str = "y") -> tuple[Array, Array]:
    """Return the samples and the labels as a vector; raise `BadFileError` if they are not usable."""
    if y.ndim == 2 and 1 in y.shape:
        y = y.ravel()
    if np.issubdtype(y.dtype, np.inexact) and not np.all(np.isfinite(y)):
        raise BadFileError(f"{path}: {labels} holds NaN or infinity; leave samples without a label out")
    check_samples(path, X, samples)
    if y.shape != X.shape[:1]:
        raise BadFileError(f"{path}: {labels} must hold one label per sample, {len(X)} of them; its shape is {y.shape}")
    return X, y


def check_samples(path: str | Path, X: Any, name: str = "X", missing: bool = False) -> None:
    """Raise `BadFileError` if the samples are not usable; the values of a Dask array are not checked.

    With ``missing``, samples may be NaN in all of their entries.
    """
    if is_ragged(X):
        for position, sample in enumerate(X):
            check_samples(path, sample[None, ...], f"sample {position}", missing)
        return
    if X.dtype.kind not in _NUMBERS:
        raise BadFileError(f"{path}: {name} must hold real numbers, has dtype {X.dtype}")
    if X.ndim < 2 or X.size == 0:
        raise BadFileError(f"{path}: {name} must have the shape (n_samples, I_1, ...), none of them 0; has {X.shape}")
    if X.dtype.kind == "f" and not is_lazy(X) and not _all_finite(X):
        if not missing:
            raise BadFileError(f"{path}: {name} holds NaN or infinity; remove or impute those entries first")
        try:
            reject_partly_finite(name, X)
        except ValueError as error:
            raise BadFileError(f"{path}: {error}") from error


def _all_finite(X: Array) -> bool:
    """Return whether all entries are finite, checked block by block to save memory."""
    step = max(1, _ENTRIES_AT_ONCE // X[0].size)
    return all(np.isfinite(X[start : start + step]).all() for start in range(0, len(X), step))


def digest(arrays: Mapping[str, Array]) -> str:
    """Return a checksum of the names, shapes, types and values of arrays."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name}:{array.shape}:{array.dtype.str}:".encode())
        total.update(array.tobytes())
    return total.hexdigest()
