"""Numbers that lie in a file as they are in memory: in ``.npy``, uncompressed ``.npz``, ``.fdt`` and ENVI, for example.

They are read and not mapped: if another program cuts a mapped file short, the process ends with SIGBUS.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from ...data import FileRules, shape_of_part
from ...runtime import Array, available_bytes, tuning

_ROW_BYTES = 2**15  # larger rows are read one by one where a part of each is wanted, smaller ones together and whole
_BLOCK_BYTES = 2**20  # of rows that are read together
_SMALL_BYTES = 2**20  # fit into memory, however much is available


def plain_numbers(
    path: Path,
    begin: int,
    dtype: Any,
    shape: tuple[int, ...],
    where: tuple[slice, ...] = (),
    order: Literal["C", "F"] = "C",
) -> Array:
    """Return the numbers behind the first bytes of a file, or the part given by slices, which have no steps."""
    if order == "F":
        return plain_numbers(path, begin, dtype, shape[::-1], where[::-1]).T
    if any(part.step not in (None, 1) for part in where):
        raise ValueError(f"a part of an array in a file must be given by slices without steps; got {where}")
    values = np.empty(shape_of_part(shape, where), dtype)
    with path.open("rb") as file:
        _fill(values, file, begin, shape, where or (slice(None),) * len(shape))
    return values


def numbers_or_map(
    path: Path, begin: int, dtype: Any, shape: tuple[int, ...], order: Literal["C", "F"], rules: FileRules
) -> Array:
    """Return all numbers in memory, or as a read-only memory map where they and copies of them would fill it."""
    n_bytes = prod(shape) * np.dtype(dtype).itemsize
    fits = n_bytes <= _SMALL_BYTES or n_bytes <= tuning.LOADED_SHARE * available_bytes()
    if fits and (rules.max_bytes is None or n_bytes <= rules.max_bytes):
        return plain_numbers(path, begin, dtype, shape, order=order)
    return np.memmap(path, dtype, "r", begin, shape, order)


def _fill(values: Array, file: IO[bytes], begin: int, shape: Sequence[int], where: Sequence[slice]) -> None:
    """Fill an array with a part of an array of this shape, which begins at this byte."""
    start, stop, _ = where[0].indices(shape[0]) if shape else (0, 1, 1)
    per = prod(shape[1:]) * values.itemsize
    if not values.nbytes or values.shape[1:] == tuple(shape[1:]):  # in one piece
        _read(values, file, begin + start * per)
    elif per > _ROW_BYTES:
        for row in range(start, stop):
            _fill(values[row - start], file, begin + row * per, shape[1:], where[1:])
    else:
        block = np.empty((_BLOCK_BYTES // per, *shape[1:]), values.dtype)
        for row in range(start, stop, len(block)):
            rows = block[: stop - row]
            _read(rows, file, begin + row * per)
            values[row - start : row - start + len(rows)] = rows[:, *where[1:]]


def _read(values: Array, file: IO[bytes], begin: int) -> None:
    """Fill a contiguous array with the bytes of a file."""
    if not values.nbytes:
        return
    file.seek(begin)
    left = values.reshape(-1).view(np.uint8).data
    while left:
        n_bytes = file.readinto(left)  # type: ignore[attr-defined]
        if not n_bytes:
            raise ValueError("cut short")
        left = left[n_bytes:]
