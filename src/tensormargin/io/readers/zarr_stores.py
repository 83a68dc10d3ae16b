"""Zarr stores, in a folder or a .zip file. Runs in the reader process."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import islice, product
from math import ceil, prod
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.core.buffer import default_buffer_prototype

from ...data import BadFileError, FileRules, check_members, missing_chunks, shape_of_part
from ...runtime import Array, quoted
from .entries import Entry, described, entry_of, rate_in, texts_of
from .process import ALLOCATOR

ONLY = "X"  # name given to the only array of a file without names

_ENTRY_BYTES = 128  # of a Python object that stands for a text


def list_arrays(path: Path, only: str | None, rules: FileRules) -> dict[str, Entry]:
    """Return descriptions of all arrays, or of the only one of this name; all files are checked in the first case."""
    if path.is_dir() and only is None:
        _check_files(path, rules)
    with _opened(path) as root:
        if not hasattr(root, "groups"):
            arrays = {ONLY: root}
        else:
            arrays = dict(_arrays(path, root)) if only is None else {only: root[only]}
        return {name: describe(name, array, root.attrs) for name, array in sorted(arrays.items())}


def describe(name: str, array: Any, common: Any = None) -> Entry:
    """Return the description of an array, with attributes of the store; one that would be unpickled cannot be used."""
    codecs = (*(array.filters or ()), *(array.compressors or ()))
    pickled = any(getattr(codec, "codec_id", None) == "pickle" for codec in codecs)
    entry = entry_of(name, array.shape, object if pickled else array.dtype, array.shards or array.chunks)
    if entry.fault is not None:
        return entry
    marks = array.attrs
    stated = texts_of(marks.get("_ARRAY_DIMENSIONS") or marks.get("dims"))
    names = stated or getattr(array.metadata, "dimension_names", None) or ()
    entry = entry._replace(rate=rate_in(marks, common or {}))
    return described(entry, names, marks.get("units", marks.get("unit")))


def read_array(path: Path, name: str, where: tuple[slice, ...], rules: FileRules) -> Array:
    """Return an array, or the part given by slices."""
    with _opened(path) as root:
        array = root[name] if hasattr(root, "groups") else root
        entry = describe(name, array)
        if entry.fault is not None:
            raise BadFileError(f"{path}: {entry.fault}")
        stored = _check_chunks(path, name, array, where, rules)
        is_text = array.dtype.kind == "T"
        size = prod(shape_of_part(array.shape, where))
        piece = prod(entry.pieces or ()) * array.dtype.itemsize
        rules.admit(path, size * (_ENTRY_BYTES if is_text else array.dtype.itemsize) + piece, quoted(name), stored)
        if not is_text and size and array.shape:
            values = ALLOCATOR.empty(shape_of_part(array.shape, where), array.dtype)
            buffer = default_buffer_prototype().nd_buffer.from_numpy_array(values)
            array.get_basic_selection(where or ..., out=buffer)
            return values
        values = np.asanyarray(array[where] if where else array[...])
        if not is_text:
            return values
        texts = values.ravel().tolist()
        rules.admit(path, 4 * size * max(map(len, texts), default=0), quoted(name), stored)
        return np.array(texts, str).reshape(values.shape)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    if path.is_file() and not zipfile.is_zipfile(path):
        raise BadFileError(f"{path}: not a Zarr store in a .zip file, or cut short; pack the store's folder again")
    store: Any = zarr.storage.ZipStore(path, mode="r") if path.is_file() else zarr.storage.LocalStore(path)
    with store:  # of text, zarr and fsspec take some for addresses: "reference::a.zarr"
        try:
            root = zarr.open(store, mode="r")
        except FileNotFoundError as error:  # whose message has the objects of zarr in it
            raise ValueError("it holds no arrays of zarr") from error
        yield root


def _arrays(path: Path, group: Any, prefix: str = "", seen: int = 0) -> Iterator[tuple[str, Any]]:
    check_members(path, seen, prefix.count("/"))
    for name, array in group.arrays():
        seen += 1
        check_members(path, seen, 0)
        yield prefix + name, array
    for name, inner in group.groups():
        yield from _arrays(path, inner, f"{prefix}{name}/", seen)


def _check_files(folder: Path, rules: FileRules) -> None:
    """Raise `BadFileError` for files of a store that are links to somewhere else, or not regular."""
    inside = rules.inside(folder)
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if os.path.islink(os.path.join(place, name)):
                inside.check_place(Path(place, name))
        for name in files:
            rules.check_file(Path(place, name))


def _check_chunks(path: Path, name: str, array: Any, where: tuple[slice, ...], rules: FileRules) -> int:
    """Return the stored size of the chunks that are needed; raise `BadFileError` if some are missing."""
    shape, chunks = array.shape, array.shards or array.chunks
    where = where or (slice(None),) * len(shape)
    ends = [part.indices(length)[:2] for part, length in zip(where, shape, strict=True)]
    grid = [range(start // side, ceil(stop / side)) for (start, stop), side in zip(ends, chunks, strict=True)]
    needed = prod(map(len, grid))
    sizes = _stored_sizes(path, array, grid)
    there = len(sizes)
    if there < needed and not rules.fill_missing:
        raise missing_chunks(path, name, there, needed)
    if needed > 1000 + 100 * there:
        raise BadFileError(
            f"{path}: {quoted(name)} has {needed} chunks, {there} of which are there; that is not plausible. Write the "
            "array again with larger chunks"
        )
    return sum(sizes)


def _stored_sizes(path: Path, array: Any, grid: Collection[range]) -> list[int]:
    """Return the sizes of those chunks of a grid that are there."""
    prefix = f"{array.path}/" if array.path else ""
    if ".." in prefix.split("/"):
        raise BadFileError(f"{path}: an array must lie in the store, not in {quoted(prefix)}; write the store again")
    keys = (prefix + array.metadata.encode_chunk_key(place) for place in product(*grid))
    if path.is_file():
        with zipfile.ZipFile(path) as archive:
            members = {one.filename: one.compress_size for one in archive.infolist()}
        return [members[key] for key in islice(keys, 2 * len(members) + 1000) if key in members]
    sizes = []
    absent = 0
    for key in keys:
        try:
            sizes.append(os.stat(path / key).st_size)
        except OSError:
            absent += 1
            if absent > 1000 + 100 * len(sizes):  # implausibly few
                break
    return sizes
