"""Messages between a process and its reader process: JSON, with arrays beside it. Nothing is ever unpickled."""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from ...data import FileRules

Array = npt.NDArray[Any]

_INLINE_BYTES = 2**18  # arrays up to here are sent through the pipe, larger ones in shared memory
_ALIGNMENT = 64
_TAG = "tensormargin-"


class Shared:
    """Memory that another process can map by a path.

    On Linux and Windows it belongs to no file, so that nothing can be left behind; elsewhere it is a temporary file,
    which the process that maps it removes.
    """

    def __init__(self, n_bytes: int) -> None:
        self.handle = -1
        if sys.platform == "win32":
            self.path = f"{_TAG}{uuid4().hex}:{n_bytes}"
            self.memory = mmap.mmap(-1, n_bytes, tagname=self.path)
            return
        if hasattr(os, "memfd_create"):
            self.handle = os.memfd_create("samples")
            self.path = f"/proc/{os.getpid()}/fd/{self.handle}"
        else:
            self.handle, self.path = tempfile.mkstemp(prefix="tensormargin-", suffix=".part")
        os.ftruncate(self.handle, n_bytes)
        self.memory = _map(self.handle, n_bytes)

    def close(self) -> None:
        """Forget the memory; who mapped it still has it."""
        if self.handle >= 0:
            os.close(self.handle)


class Allocator:
    """Makes arrays in shared memory, so that they can be sent without a copy."""

    def __init__(self) -> None:
        self.made: list[tuple[Array, Shared]] = []

    def empty(self, shape: Sequence[int], dtype: Any) -> Array:
        """Return an array without contents."""
        dtype = np.dtype(dtype)
        n_bytes = prod(shape) * dtype.itemsize
        if n_bytes <= _INLINE_BYTES or dtype.hasobject:
            return np.empty(shape, dtype)
        shared = Shared(n_bytes)
        array = np.ndarray(tuple(shape), dtype, shared.memory)
        self.made.append((array, shared))
        return array

    def find(self, array: Array) -> Shared | None:
        """Return the shared memory of an array that was made here, or of its transpose."""
        place = (_address(array), array.nbytes)
        return next((shared for made, shared in self.made if (_address(made), made.nbytes) == place), None)

    def clear(self) -> None:
        """Forget all arrays."""
        for _, shared in self.made:
            shared.close()
        self.made.clear()


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


ALLOCATOR = Allocator()
"""Of this process; what it has made is kept until it is told that the other process has mapped it."""


def write_message(stream: IO[bytes], content: Any) -> None:
    """Send dictionaries, lists, tuples, text, numbers, paths, slices, rules and arrays."""
    arrays: list[Array] = []
    body = _encoded(content, arrays)
    shared = [ALLOCATOR.find(array) for array in arrays]
    copied = [array for array, there in zip(arrays, shared, strict=True) if there is None]
    starts, total = _places(copied)
    pool = Shared(total) if total > _INLINE_BYTES else None
    notes, places = [], iter(starts)
    for array, there in zip(arrays, shared, strict=True):
        path, start = (there.path, 0) if there else (pool.path if pool else None, next(places))
        if pool is not None and there is None:
            np.ndarray(array.shape, array.dtype, pool.memory, start)[...] = array
        notes.append([list(array.shape), array.dtype.str, path, start])
    head = json.dumps({"body": body, "arrays": notes, "inline": 0 if pool else total}).encode()
    stream.write(struct.pack("<Q", len(head)) + head)
    if pool is None and total:
        inline = bytearray(total)
        for array, start in zip(copied, starts, strict=True):
            np.ndarray(array.shape, array.dtype, inline, start)[...] = array
        stream.write(inline)
    stream.flush()
    if pool is not None:
        ALLOCATOR.made.append((np.empty(0), pool))


def read_message(stream: IO[bytes]) -> Any:
    """Return what was sent; raise EOFError at the end of the stream."""
    (length,) = struct.unpack("<Q", _exactly(stream, 8))
    head = json.loads(_exactly(stream, length))
    inline = bytearray(_exactly(stream, head["inline"]))
    mapped: dict[str, mmap.mmap] = {}
    arrays = []
    for shape, dtype, path, start in head["arrays"]:
        memory = inline if path is None else mapped.setdefault(path, mapped.get(path) or _mapped(path))
        arrays.append(np.ndarray(tuple(shape), np.dtype(dtype), memory, start))
    return _decoded(head["body"], arrays)


def _mapped(path: str) -> mmap.mmap:
    """Return shared memory of another process."""
    if sys.platform == "win32":
        return mmap.mmap(-1, int(path.rpartition(":")[2]), tagname=path)
    with open(path, "r+b") as file:
        memory = _map(file.fileno(), 0)
    if not path.startswith("/proc/"):
        os.unlink(path)
    return memory


def _map(handle: int, n_bytes: int) -> mmap.mmap:
    """Return a file as memory; all pages are mapped at once, which is faster than one by one."""
    if hasattr(mmap, "MAP_POPULATE"):
        return mmap.mmap(handle, n_bytes, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
    return mmap.mmap(handle, n_bytes)


def _places(arrays: Sequence[Array]) -> tuple[list[int], int]:
    """Return where each of some arrays begins if they are put next to each other, and the end of the last one."""
    starts, end = [], 0
    for array in arrays:
        starts.append(-(-end // _ALIGNMENT) * _ALIGNMENT)
        end = starts[-1] + array.nbytes
    return starts, end


def _exactly(stream: IO[bytes], number: int) -> bytes:
    found = stream.read(number)
    if len(found) < number:
        raise EOFError
    return found


def _encoded(value: Any, arrays: list[Array]) -> Any:
    if isinstance(value, np.ndarray):
        transposed = value.ndim > 1 and value.flags.f_contiguous and not value.flags.c_contiguous
        arrays.append(value.T if transposed else value)
        return {"array": len(arrays) - 1, "transposed": transposed}
    if isinstance(value, dict):
        return {"dict": [[_encoded(key, arrays), _encoded(one, arrays)] for key, one in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_encoded(one, arrays) for one in value]}
    if isinstance(value, list):
        return [_encoded(one, arrays) for one in value]
    if isinstance(value, Path):
        return {"path": str(value)}
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    return {"rules": asdict(value)} if isinstance(value, FileRules) else value


def _decoded(value: Any, arrays: Sequence[Array]) -> Any:
    if isinstance(value, list):
        return [_decoded(one, arrays) for one in value]
    if not isinstance(value, dict):
        return value
    ((kind, held), *more) = value.items()
    if kind == "array":
        return arrays[held].T if more[0][1] else arrays[held]
    if kind in ("dict", "tuple"):
        parts = _decoded(held, arrays)
        return dict(parts) if kind == "dict" else tuple(parts)
    if kind == "slice":
        return slice(*held)
    return FileRules(**held) if kind == "rules" else Path(held)
