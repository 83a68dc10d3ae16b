"""Descriptions of arrays in files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .rules import quoted

NUMBERS, READABLE = "biuf", "biufcSUT"  # NumPy type kinds: real numbers; the same with complex numbers and text


class Entry(NamedTuple):
    """An array in a file.

    Attributes
    ----------
    shape : tuple of int
    dtype : str
        Code of a NumPy type.
    pieces : tuple of int or None
        Chunk shape of the file; None if the array can only be read as a whole.
    fault : str or None
        Why the array cannot be used.
    value : ndarray or None
        Its entries, if they had to be read already.
    """

    shape: tuple[int, ...]
    dtype: str
    pieces: tuple[int, ...] | None = None
    fault: str | None = None
    value: Any = None


def entry_of(name: str, shape: Sequence[int], dtype: Any, pieces: Sequence[int] | None = None) -> Entry:
    """Return the description of an array, with a fault if it holds neither numbers nor text."""
    kind = np.dtype(dtype)
    shape = tuple(map(int, shape))
    if kind.kind in READABLE:
        return Entry(shape, "T" if kind.kind == "T" else kind.str, None if pieces is None else tuple(map(int, pieces)))
    return unusable(
        f"{quoted(name)} holds {quoted(str(kind))}: neither numbers nor text. Python objects are not accepted, since "
        "reading them runs their code; save it as an array of numbers or of text",
        shape,
    )


def unusable(fault: str, shape: Sequence[int] = ()) -> Entry:
    """Return the description of an array that cannot be used."""
    return Entry(tuple(shape), "O", None, fault)


def variable(name: str, value: Any) -> Entry:
    """Return a MATLAB variable; a cell array whose cells have one shape is stacked along a new first axis."""
    if not isinstance(value, np.ndarray) or value.dtype.names is not None:
        return unusable(
            f"{quoted(name)} is a structure or an object, not an array; save its fields as variables of their own"
        )
    if value.dtype != object:
        return entry_of(name, value.shape, value.dtype)._replace(value=value)
    cells = [np.asarray(cell) for cell in value.ravel(order="F")]
    shapes = sorted({cell.shape for cell in cells})
    if len(shapes) != 1:
        return unusable(f"the cells of {quoted(name)} must have one shape; they have {shapes[:4]}")
    if any(cell.dtype.kind not in READABLE for cell in cells):
        return entry_of(name, (len(cells), *shapes[0]), object)
    stacked = np.stack(cells)
    return entry_of(name, stacked.shape, stacked.dtype)._replace(value=stacked)
