"""Write samples to containers, piece by piece, and tell files that this package wrote, which it may replace."""

from __future__ import annotations

import csv
import gzip
import re
import zipfile
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..data import BadFileError
from ..runtime import Array, replacing
from .arrays import optional_package
from .models import FACTS

MARK = b"tensormargin"
"""What files that the package writes carry where their format has room: header, comment, or behind the content."""
_PAGE = b'<meta name="generator" content="tensormargin'
_HEAD, _TAIL = 4096, 64
SAMPLES = "X"
ENDINGS = (".npz", ".h5", ".hdf5", ".zarr")
_CHUNK_BYTES = 2**20


def write_samples(
    path: str | Path, pieces: Iterable[Array], shape: tuple[int, ...], dtype: Any, arrays: Mapping[str, Array]
) -> None:
    """Write samples, as an array ``X``, and other arrays to a file; at no time are all samples in memory.

    Parameters
    ----------
    path : str or Path
        ``.npz``, ``.h5``, ``.hdf5`` or ``.zarr``; see `check_ending`.
    pieces : iterable of ndarray
        The samples in their order, some at a time.
    shape, dtype : tuple of int, dtype
        Of all samples together.
    arrays : mapping from names to arrays
        Labels, groups and others.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from tensormargin.io import load_samples, write_samples
    >>> pieces = (np.full((2, 3, 4), float(place)) for place in range(3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_samples(f"{folder}/samples.npz", pieces, (6, 3, 4), np.float64, {"y": np.arange(6) % 2})
    ...     samples = load_samples(f"{folder}/samples.npz")
    >>> samples.data.shape, samples.labels.tolist()
    ((6, 3, 4), [0, 1, 0, 1, 0, 1])
    """
    path = Path(path)
    check_ending(path)
    if path.suffix.lower() == ".zarr":
        _write_zarr(path, pieces, shape, dtype, arrays)
        return
    with replacing(path) as temporary:
        if path.suffix.lower() == ".npz":
            _write_npz(temporary, pieces, shape, dtype, arrays)
        else:
            h5py = optional_package(path, "h5py", "hdf5", "an HDF5 file")
            with h5py.File(temporary, "w") as file:
                file.attrs["written_by"] = MARK.decode()
                _fill(file.create_dataset(SAMPLES, shape, dtype, chunks=_chunks(shape, dtype)), pieces)
                for name, array in arrays.items():
                    text = array.dtype.kind == "U"
                    file.create_dataset(name, data=array.astype(object) if text else array)


def check_ending(path: Path) -> None:
    """Raise `BadFileError` unless samples can be written to a file of this name."""
    if path.suffix.lower() not in ENDINGS:
        raise BadFileError(
            f"{path}: samples are written as {', '.join(ENDINGS)}; give a name with one of these endings"
        )


def _fill(stored: Any, pieces: Iterable[Array]) -> None:
    done = 0
    for piece in pieces:
        stored[done : done + len(piece)] = piece
        done += len(piece)


def _chunks(shape: tuple[int, ...], dtype: Any) -> tuple[int, ...]:
    per = _CHUNK_BYTES // max(prod(shape[1:]) * np.dtype(dtype).itemsize, 1)
    return (min(max(1, per), shape[0]), *shape[1:])


def _write_npz(
    path: Path, pieces: Iterable[Array], shape: tuple[int, ...], dtype: Any, arrays: Mapping[str, Array]
) -> None:
    """Write an archive that can be read in parts: not compressed."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = MARK
        with archive.open(f"{SAMPLES}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, header)
            for piece in pieces:
                member.write(np.ascontiguousarray(piece, dtype).reshape(-1).view(np.uint8).data)
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)


def _write_zarr(
    path: Path, pieces: Iterable[Array], shape: tuple[int, ...], dtype: Any, arrays: Mapping[str, Array]
) -> None:
    """Write a store, a folder that takes its name when it is complete."""
    zarr = optional_package(path, "zarr", "zarr", "a Zarr store")
    if path.exists():
        raise BadFileError(f"{path}: exists already, and a folder is not overwritten; give another name")
    with replacing(path, folder=True) as temporary:
        store = zarr.open_group(zarr.storage.LocalStore(temporary), mode="w")  # of text, some is an address
        _fill(store.create_array(SAMPLES, shape=shape, chunks=_chunks(shape, dtype), dtype=np.dtype(dtype)), pieces)
        for name, array in arrays.items():
            store.create_array(name, data=array)


def is_ours(path: Path) -> bool:
    """Return whether this package wrote a file; empty files count as well, since nothing is lost with them.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensormargin.io import is_ours
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     notes = Path(folder, "notes.csv")
    ...     _ = notes.write_text("name,grade")
    ...     is_ours(notes)
    False
    """
    ending = path.suffix.lower()
    try:
        if ending in (".skops", "") and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return FACTS in archive.namelist()
        head, tail = _ends(path)
    except (OSError, EOFError, zipfile.BadZipFile):
        return False
    if not head or (ending in (".csv", "") and _is_table(head)):
        return True
    return _PAGE in head if ending in (".html", ".htm") else MARK in head or MARK in tail


def _ends(path: Path) -> tuple[bytes, bytes]:
    """Return the first and the last bytes of a file; of a compressed one only the first, as they were before."""
    if path.suffix.lower() == ".gz":
        with gzip.open(path) as compressed:
            return compressed.read(_HEAD), b""
    with path.open("rb") as file:
        head = file.read(_HEAD)
        file.seek(max(0, path.stat().st_size - _TAIL))
        return head, file.read()


def _is_table(head: bytes) -> bool:
    """Return whether the header is that of predictions ("predicted"), a map ("weight, A against B") or its clusters."""
    lines = [line for line in head.decode("utf-8", "replace").splitlines() if not line.startswith("#")]
    cells = next(csv.reader(lines[:1]), [])
    return (
        "predicted" in cells
        or cells[:2] in (["signs", "peak"], ["positive for", "peak"])  # the latter in 0.2
        or any(re.search(r"(^|: )(weight|pattern)( of .+)?(, | \()", cell) for cell in cells)
    )


def save_array(file: IO[bytes], array: Array) -> None:
    """Write an array as ``.npy``, with the mark behind it: readers stop where the array ends."""
    np.save(file, array, allow_pickle=False)
    file.write(MARK)
