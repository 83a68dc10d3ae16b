"""Samples that stay in their files: read block by block, or Dask arrays whose chunks are read by tasks.

A graph holds paths, never open files, so that all processes of a cluster with a shared file system can read them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from math import ceil, prod
from os import cpu_count
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from ..data import FileRules, parsed_bytes
from ..runtime import Array, available_bytes, block_bytes, is_lazy, tuning
from .arrays import BadFileError, Missing, Stored, check_samples, open_arrays, optional_package
from .options import BLOCKS, Chunks, Lazy

_COPIES = 4  # of a chunk that a task makes: in the dtype of the computations, prepared, ordered by problem
_LEAST_CHUNK_BYTES, _MOST_CHUNK_BYTES = 2**20, 2**26

READ_WHOLE = (
    "can only be read whole, which one task does; convert it to .npy, HDF5 or Zarr if that is too much for memory"
)


class FileSamples:
    """Samples that stay in their files until some of them are taken, as an array.

    Files are read in blocks, and the last block is held: consecutive slices read each block once.

    Parameters
    ----------
    shape, dtype : tuple of int, dtype
        Of all samples, which are counted by the first axis.
    read : callable
        Returns the samples between two numbers.
    per : int
        Samples in a block, a multiple of what the file stores together.
    """

    def __init__(self, shape: Sequence[int], dtype: np.dtype[Any], read: Callable[[int, int], Array], per: int) -> None:
        self.shape, self.dtype, self.read, self.per = tuple(int(size) for size in shape), np.dtype(dtype), read, per
        self._held: tuple[int, Array] | None = None

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of entries."""
        return prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Array:
        rows, *others = key if isinstance(key, tuple) else (key,)
        if others:
            return self[rows][(slice(None), *others)]
        if not isinstance(rows, slice):
            return self._rows(np.arange(len(self))[rows])
        start, stop, step = rows.indices(len(self))
        numbers = range(start // self.per, ceil(stop / self.per)) if stop > start else ()
        pieces = [
            self._block(number)[max(0, start - number * self.per) : stop - number * self.per] for number in numbers
        ]
        found = pieces[0] if len(pieces) == 1 else np.concatenate([np.empty((0, *self.shape[1:]), self.dtype), *pieces])
        return found[::step]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype)

    def _rows(self, numbers: Array) -> Array:
        if (np.diff(numbers) < 0).any():
            return self[:][numbers]
        found = np.empty((len(numbers), *self.shape[1:]), self.dtype)
        for place, number in enumerate(numbers.tolist()):
            found[place] = self[number : number + 1][0]
        return found

    def _block(self, number: int) -> Array:
        if self._held is None or self._held[0] != number:
            self.release()  # before the next one is read
            first = number * self.per
            self._held = number, self.read(first, min(len(self), first + self.per))
        return self._held[1]

    def release(self) -> None:
        """Hold no block any more."""
        self._held = None

    def changed(self, change: Callable[[Array], Array]) -> FileSamples:
        """Return the samples after a change of each block, such as a turn of volumes, which keeps their type."""
        shape = change(np.broadcast_to(np.zeros((), self.dtype), self.shape)).shape
        return FileSamples(shape, self.dtype, lambda first, last: change(self.read(first, last)), self.per)

    def checked(self, check: Callable[[Array, int], None]) -> FileSamples:
        """Return the samples with a check of each block, which gets the number of its first sample too."""

        def read(first: int, last: int) -> Array:
            block = self.read(first, last)
            check(block, first)
            return block

        return FileSamples(self.shape, self.dtype, read, self.per)


def in_blocks(samples: Any) -> Any:
    """Return a Dask array as samples that are read block by block, and other samples as they are."""
    if not is_lazy(samples):
        return samples
    return FileSamples(
        samples.shape, samples.dtype, lambda first, last: np.asarray(samples[first:last]), max(samples.chunks[0])
    )


def concatenated(arrays: Sequence[Any]) -> Any:
    """Return samples of several files, one after the other; in memory only if all of them are."""
    if any(map(is_lazy, arrays)):
        dask = import_module("dask.array")
        return dask.concatenate([array if is_lazy(array) else dask.from_array(np.asarray(array)) for array in arrays])
    blocks = [array.per for array in arrays if isinstance(array, FileSamples)]
    if not blocks:
        return np.concatenate(arrays)
    ends, dtype = np.cumsum([len(array) for array in arrays]).tolist(), np.result_type(*(one.dtype for one in arrays))

    def pieces(first: int, last: int) -> Iterator[Array]:
        for array, end in zip(arrays, ends, strict=True):
            begin = end - len(array)
            inside = max(first, begin) - begin, min(last, end) - begin
            if inside[0] < inside[1]:
                yield array[slice(*inside)]
            if isinstance(array, FileSamples) and end <= last:
                array.release()

    def read(first: int, last: int) -> Array:
        return np.concatenate(list(pieces(first, last)), dtype=dtype)

    return FileSamples((ends[-1], *arrays[0].shape[1:]), dtype, read, min(blocks))


def check_dask(path: Path) -> None:
    """Raise `BadFileError` if Dask is not installed."""
    optional_package(path, "dask.array", "dask", "lazy=True makes a Dask array")


def stays_in_files(path: Path, lazy: bool | str, n_bytes: int, in_parts: bool) -> bool:
    """Return whether samples stay in their files; with "auto", if they can be read in parts and would fill memory."""
    if lazy == BLOCKS:
        return in_parts
    if lazy != "auto":
        return bool(lazy)
    available = available_bytes()
    if not in_parts or n_bytes <= tuning.LOADED_SHARE * available:
        return False
    if n_bytes > available:
        size = f"{n_bytes / 1e9:.3g} GB of samples, of which {available / 1e9:.3g} GB fit into memory; to read them in"
        optional_package(path, "dask.array", "dask", f"{size} parts makes a Dask array")
    return find_spec("dask") is not None


def in_parts(path: Path, lazy: Lazy, n_bytes: int) -> tuple[str, ...]:
    """Return a note about samples that were left in their files because of their size."""
    note = f"{path.name}: its {n_bytes / 1e9:.3g} GB of samples are read in parts, since they would fill the memory"
    return (note,) if lazy.lazy == "auto" else ()


def chunks_for(lazy: Lazy) -> Chunks:
    """Return the size of chunks: as given, or with ``lazy="auto"`` small enough for all cores at the same time."""
    if lazy.lazy == BLOCKS:
        return f"{block_bytes()} B"
    if lazy.lazy != "auto" or lazy.chunks != "auto":
        return lazy.chunks
    most = int(tuning.LOADED_SHARE * available_bytes()) // (_COPIES * (cpu_count() or 1))
    return f"{max(_LEAST_CHUNK_BYTES, min(_MOST_CHUNK_BYTES, most))} B"


def lazily(
    lazy: Lazy,
    read: Callable[[Array], Array],
    rows: Array,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    per: int,
    axis: int = 0,
    whole: bool = False,
) -> Any:
    """Return a Dask array that is filled by ``read``, which takes some of the rows and returns their samples.

    Rows are indices or file names, ``per`` of them in each chunk along ``axis``. If all samples can only be read as a
    ``whole``, one task does, and divides them into chunks. In both kinds of arrays, samples are the first axis.
    """
    if lazy.lazy == BLOCKS:
        return FileSamples(
            (len(rows), *shape[:axis], *shape[axis + 1 :]),
            dtype,
            lambda first, last: np.moveaxis(read(rows[first:last]), axis, 0),
            len(rows) if whole else per,
        )
    from dask.array import blockwise, from_array

    array = blockwise(
        partial(_naming_worker, read),
        tuple(range(len(shape))),
        from_array(rows, chunks=len(rows) if whole else per),
        (axis,),
        name=f"samples-{uuid4().hex}",  # unique, since files may change between two graphs
        new_axes={other: length for other, length in enumerate(shape) if other != axis},
        dtype=dtype,
        meta=np.empty((0,) * len(shape), dtype),
    )
    array = array.rechunk({axis: per}) if whole else array
    return np.moveaxis(array, axis, 0) if axis else array


def _naming_worker(read: Callable[[Array], Array], rows: Array) -> Array:
    """Return the samples of these rows; an error says which worker could not read them."""
    try:
        return read(rows)
    except (OSError, BadFileError) as error:
        worker = worker_here()
        if worker is None:
            raise
        raise BadFileError(
            f"{error} (read by the worker {worker}: every worker must see the files under the same path)"
        ) from error


def worker_here() -> str | None:
    """Return the address of the Dask worker that runs this, None outside of one."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return str(distributed.get_worker().address)
    except ValueError:
        return None


def samples_per_chunk(chunks: Chunks, sample_bytes: int, together: int = 1, at_most: int | None = None) -> int:
    """Return the number of samples per chunk; of a size in bytes, a multiple of ``together`` up to ``at_most``."""
    is_number, wanted = hasattr(chunks, "__index__"), 0
    if is_number:
        wanted = int(chunks)
    elif chunks == "auto":
        wanted = import_module("dask.utils").parse_bytes(import_module("dask.config").get("array.chunk-size"))
    elif isinstance(chunks, str):
        with suppress(ValueError):
            wanted = parsed_bytes(chunks) or 0
    if wanted < 1:
        raise ValueError(
            f'chunks must be a number of samples from 1, a size such as "64 MiB", or "auto"; got chunks={chunks!r}'
        )
    if is_number:
        return wanted
    fitting = max(1, wanted // max(1, sample_bytes))
    fitting = max(together, fitting - fitting % together)
    return fitting if at_most is None else min(fitting, at_most)


def lazy_container(
    path: Path, name: str, stored: Stored, axis: int, lazy: Lazy, rules: FileRules, missing: Missing = False
) -> Any:
    """Return samples, along ``axis`` of an array of a container, that stay in it; its checksum is checked now."""
    if stored.verify is not None:
        stored.verify()
    axis = axis % len(stored.shape)
    length = stored.shape[axis]
    sample_bytes = stored.dtype.itemsize * prod(stored.shape) // max(1, length)
    whole = stored.pieces is None
    per = samples_per_chunk(chunks_for(lazy), sample_bytes, 1 if stored.pieces is None else stored.pieces[axis])
    checked = None if lazy.lazy == BLOCKS else missing  # all blocks of all files are checked alike, see `load_samples`
    read = partial(_read_rows, path.resolve(), name, axis, len(stored.shape), checked, rules)
    return lazily(lazy, read, np.arange(length), stored.shape, stored.dtype, per, axis, whole)


def _read_rows(
    path: Path, name: str, axis: int, order: int, missing: Missing | None, rules: FileRules, rows: Array
) -> Array:
    """Return consecutive samples of an array in a container."""
    with open_arrays(path, name, rules) as held:
        samples = np.asarray(held[name].read(along(axis, order, rows)))
    if missing is not None:
        check_samples(path, np.moveaxis(samples, axis, 0), name, missing, first=int(rows[0]))
    return samples


def along(axis: int, order: int, rows: Array) -> tuple[slice, ...]:
    """Return one slice per axis that selects consecutive rows along one axis."""
    where = [slice(None)] * order
    where[axis] = slice(int(rows[0]), int(rows[-1]) + 1)
    return tuple(where)
