"""Lazy loading: Dask arrays whose chunks are read from files by the tasks that need them.

A graph holds paths, never open files, so that all processes of a cluster with a shared file system can read them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from math import prod
from os import cpu_count
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from ..data import FileRules
from ..runtime import Array, available_bytes, tuning
from .arrays import BadFileError, Missing, Stored, check_samples, open_arrays, optional_package
from .options import Chunks, Lazy

_COPIES = 4  # of a chunk that a task makes: in the dtype of the computations, prepared, ordered by problem
_LEAST_CHUNK_BYTES, _MOST_CHUNK_BYTES = 2**20, 2**26

READ_WHOLE = (
    "can only be read whole, which one task does; convert it to .npy, HDF5 or Zarr if that is too much for memory"
)


def check_dask(path: Path) -> None:
    """Raise `BadFileError` if Dask is not installed."""
    optional_package(path, "dask.array", "dask", "lazy=True makes a Dask array")


def stays_in_files(path: Path, lazy: bool | str, n_bytes: int, in_parts: bool) -> bool:
    """Return whether samples stay in their files; with "auto", if they can be read in parts and would fill memory."""
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
    if lazy.lazy != "auto" or lazy.chunks != "auto":
        return lazy.chunks
    most = int(tuning.LOADED_SHARE * available_bytes()) // (_COPIES * (cpu_count() or 1))
    return f"{max(_LEAST_CHUNK_BYTES, min(_MOST_CHUNK_BYTES, most))} B"


def lazily(
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
    ``whole``, one task does, and divides them into chunks.
    """
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
    return array.rechunk({axis: per}) if whole else array


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
    from dask import config
    from dask.utils import parse_bytes

    is_number = hasattr(chunks, "__index__")
    requested = config.get("array.chunk-size") if chunks == "auto" else chunks
    try:
        wanted = int(requested) if is_number else parse_bytes(requested) if isinstance(chunks, str) and chunks else 0
    except ValueError:
        wanted = 0
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
    path: Path, name: str, stored: Stored, axis: int, chunks: Chunks, rules: FileRules, missing: Missing = False
) -> Any:
    """Return an array of a container as a Dask array with chunks along ``axis``; its checksum is checked now."""
    if stored.verify is not None:
        stored.verify()
    axis = axis % len(stored.shape)
    length = stored.shape[axis]
    sample_bytes = stored.dtype.itemsize * prod(stored.shape) // max(1, length)
    whole = stored.pieces is None
    per = samples_per_chunk(chunks, sample_bytes, 1 if stored.pieces is None else stored.pieces[axis])
    read = partial(_read_rows, path.resolve(), name, axis, len(stored.shape), missing, rules)
    return lazily(read, np.arange(length), stored.shape, stored.dtype, per, axis, whole)


def _read_rows(path: Path, name: str, axis: int, order: int, missing: Missing, rules: FileRules, rows: Array) -> Array:
    """Return consecutive samples of an array in a container."""
    with open_arrays(path, name, rules) as held:
        samples = np.asarray(held[name].read(along(axis, order, rows)))
    check_samples(path, np.moveaxis(samples, axis, 0), name, missing, first=int(rows[0]))
    return samples


def along(axis: int, order: int, rows: Array) -> tuple[slice, ...]:
    """Return one slice per axis that selects consecutive rows along one axis."""
    where = [slice(None)] * order
    where[axis] = slice(int(rows[0]), int(rows[-1]) + 1)
    return tuple(where)
