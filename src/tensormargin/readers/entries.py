"""Descriptions of arrays in files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .rules import quoted

_LONGEST_TEXT = 200  # characters of a name or a unit
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
    dims : tuple of str or None
        Names of its axes, "" for one without; None if the file names none.
    scales : tuple of str or None, or None
        The arrays with the coordinates of its axes, as far as the file names them.
    unit : str
        Unit of its entries.
    """

    shape: tuple[int, ...]
    dtype: str
    pieces: tuple[int, ...] | None = None
    fault: str | None = None
    value: Any = None
    dims: tuple[str, ...] | None = None
    scales: tuple[str | None, ...] | None = None
    unit: str = ""


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


def texts_of(value: Any) -> list[str]:
    """Return an attribute as texts: a list of them, JSON, or names separated by commas; none if it is anything else."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        try:
            loaded = json.loads(value) if value.lstrip().startswith("[") else value.split(",")
        except ValueError:
            return []
        value = [one.strip() if isinstance(one, str) else one for one in loaded]
    if isinstance(value, np.ndarray):
        value = value.ravel().tolist()
    if not isinstance(value, list | tuple):
        return []
    texts = [one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in value]
    return [one[:_LONGEST_TEXT] for one in texts] if all(isinstance(one, str) for one in texts) else []


def described(entry: Entry, names: Sequence[Any], unit: Any, scales: Sequence[str | None] | None = None) -> Entry:
    """Return the description of an array with names of its axes, unless there are more or fewer of them."""
    texts = [one if isinstance(one, str) else "" for one in names]
    fits = len(texts) == len(entry.shape) and any(texts)
    unit = unit.decode("utf-8", "replace") if isinstance(unit, bytes) else unit
    return entry._replace(
        dims=tuple(one[:_LONGEST_TEXT] for one in texts) if fits else None,
        scales=None if scales is None or not any(scales) else tuple(scales),
        unit=unit[:_LONGEST_TEXT] if isinstance(unit, str) else "",
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
